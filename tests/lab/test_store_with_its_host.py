# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/own-machines.md, "The dead host had the guest of the store": from the nightly export on
another machine, and back into the store afterwards."""

from __future__ import annotations

import pytest
from test_evacuate import OFF, copies, extra
from test_fleet import Domain, Fleet, said
from trouble import Losing

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

OWN = {"drover_store_machine": "pg1"}


class Backup(Losing):
    """Make a store, and the folder of its export."""

    def __init__(self, fleet):
        self.fleet = fleet


def play(fleet, name, *words, check=True, **variables):
    return fleet.playbook(name, *extra(**variables), *words, check=check)


def test_issue_44_the_host_with_the_guest_of_the_store_dies(fleet):
    early = [Domain("pg1"), Domain("web"), Domain("carried"), Domain("off", state="shutoff")]
    fleet.make("kvm1", *early)
    play(fleet, "discover")
    Backup(fleet).store("exported")
    folder = fleet.folder / "rescue"
    folder.mkdir()
    (fleet.folder / "export.sqlite").rename(folder / "export.sqlite")
    # After the export: one guest moves, one is made, and one moves there.
    play(fleet, "instance_migrate", drover_instance="carried", drover_destination="kvm2")
    late = Domain("late")
    fleet.make("kvm1", late)
    play(fleet, "discover")
    domains = [*early, late]
    fleet.lab.command("kill", "kvm1")
    assert copies(*domains) == [False, False, True, False, False]

    rescue = Fleet(fleet.lab, folder, f"sqlite:///{folder}/store.db")
    Backup(rescue).store("imported")
    play(rescue, "discover", check=False)
    done = play(rescue, "evacuate", "--check", drover_host="kvm1", **OFF)
    assert "pg1 kvm1 -> kvm" in said(done) and "3 instances would be restarted" in said(done), said(
        done
    )
    done = play(rescue, "evacuate", drover_host="kvm1", **OFF)
    where = fleet.where(["kvm2", "kvm3"])
    assert {name: state for name, (_host, state) in where.items()} == {
        "pg1": "running",
        "web": "running",
        "carried": "running",
        "off": "shutoff",
    }, said(done)
    assert where["carried"][0] == "kvm2" and copies(*domains) == [True, True, True, False, False]

    # The store runs again. It knows none of these changes, and starts nothing a second time.
    play(fleet, "discover", check=False)
    done = play(fleet, "evacuate", drover_host="kvm1", **OFF, **OWN)
    now = fleet.where(["kvm2", "kvm3"])
    assert {name: now[name] for name in where} == where and now["late"][1] == "running", said(done)
    assert copies(*domains) == [True, True, True, False, True]
    recorded = dict(
        fleet.query(
            "SELECT i.name, n.host FROM instances i JOIN compute_nodes n ON n.id ="
            " i.compute_node_id"
        )
    )
    assert recorded == {name: host for name, (host, _state) in now.items()}

    # Then the host comes back.
    fleet.lab.command("start", "kvm1")
    done = play(fleet, "discover")
    assert "removed the stale definition of pg1" in said(done) and fleet.settled() == now, said(
        done
    )
    play(fleet, "undrain", drover_host="kvm1")
    assert fleet.settled() == now and copies(*domains) == [True, True, True, False, True]
