# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""drover.compute.undrain starts what the drain shut down, and nothing else, after kills too."""

from __future__ import annotations

import json
import re

import pytest
from test_drain_plan import policy
from test_fleet import SHARED, Domain, changed, eventually

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]


def states(fleet):
    return {name: state for name, (dummy, state) in fleet.where(["kvm1"]).items()}


def test_it_starts_what_the_drain_shut_down(fleet):
    halts = {"on_drain": "shutdown"}
    fleet.make(
        "kvm1",
        Domain("low", boots=True, metadata=policy(priority=-5, **halts)),
        Domain("high", boots=True, metadata=policy(priority=5, **halts)),
        Domain("pinned", boots=True, metadata=policy(move="never")),
        Domain("off", state="shutoff", metadata=policy(**halts)),
        Domain("goes"),
    )
    fleet.playbook("discover")
    wanted = {"drover_host": "kvm1", "drover_unmovable": "shutdown"}
    run = fleet.start("drain", "-e", json.dumps(wanted))
    try:
        eventually(lambda: "shut" in fleet.run("kvm1", "virsh domstate low"))
    finally:
        run.kill()
    assert "running" in states(fleet).values(), run.said
    fleet.drain("kvm1", drover_unmovable="shutdown")
    assert states(fleet) == dict.fromkeys(["low", "high", "pinned", "off"], "shutoff")

    # One guest cannot start: its disk is away.
    disk = f"{SHARED}/high-0.qcow2"
    fleet.run("kvm1", f"mv {disk} {disk}.away")
    done = fleet.playbook("undrain", "-e", "drover_host=kvm1", check=False)
    output = " ".join((done.stdout + done.stderr).split())
    assert (
        done.returncode == 2
        and "kvm1 is back, but what its drain shut down does not all run again" in output
    )
    assert (
        re.search(r"high.*No such file", output)
        and "starts the instances that are still off" in output
    )
    assert states(fleet) == {
        "low": "running",
        "high": "shutoff",
        "pinned": "running",
        "off": "shutoff",
    }
    assert not fleet.service("kvm1")["disabled"]
    order = [output.index(f"{name}: starting on kvm1") for name in ("high", "pinned", "low")]
    assert order == sorted(order), "the highest priority first"

    fleet.run("kvm1", f"mv {disk}.away {disk}")
    done = fleet.playbook("undrain", "-e", "drover_host=kvm1")
    assert changed(done) > 0 and states(fleet)["high"] == "running"
    assert changed(fleet.playbook("undrain", "-e", "drover_host=kvm1")) == 0
    assert states(fleet) == {
        "low": "running",
        "high": "running",
        "pinned": "running",
        "off": "shutoff",
    }
    assert fleet.query("SELECT name FROM leases") == []


def test_a_rolling_maintenance_starts_what_it_shut_down(fleet):
    halts = policy(on_drain="shutdown")
    fleet.make(
        "kvm1",
        Domain("halts", boots=True, metadata=halts),
        Domain("off", state="shutoff", metadata=halts),
    )
    fleet.playbook("discover")
    done = fleet.playbook(
        "rolling_maintenance",
        "--limit",
        "kvm1,localhost",
        "-e",
        json.dumps({"drover_rolling_reboot": "never"}),
    )
    output = " ".join(done.stdout.split())
    assert (
        "To be shut down by their policy: halts, off" in output
        and "Its drain shut down halts, to be started now" in output
    )
    assert (
        states(fleet) == {"halts": "running", "off": "shutoff"}
        and not fleet.service("kvm1")["disabled"]
    )
