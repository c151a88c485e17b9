# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A person aborts one of the moves of a drain: that instance stays, and the drain says so."""

from __future__ import annotations

import json

import pytest
from guests import Full
from test_fleet import Domain, eventually

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

#: The memory of "full" takes 90 s: the abort is a playbook, which takes time to start.
SLOW = {"drover_host": "kvm1", "drover_max_migrations": 1, "drover_migration": {"bandwidth_mib": 1}}


def test_one_is_aborted_and_the_others_go(fleet):
    fleet.make("kvm1", Full("full"), Domain("quick"), Domain("off", state="shutoff"))
    run = fleet.start("drain", "-e", json.dumps(SLOW))
    try:
        run.until(r"^full: kvm1 -> kvm\d, live, started")
        eventually(
            lambda: (
                "Memory remaining" in fleet.lab.host("kvm1").run("virsh domjobinfo full").stdout
            ),
        )
        fleet.playbook("migration_abort", "-e", '{"drover_instances": ["full"]}')
        output = " ".join(run.finish().split())
    finally:
        if run.process.poll() is None:
            run.kill()
    assert run.process.returncode == 2 and "Traceback" not in output, output
    assert "kvm1 is not empty: full is still there after 1 round." in output, output
    assert "it was aborted on request. It is running at the source." in output, output
    where = fleet.settled()
    assert where["full"] == ("kvm1", "running") and "kvm1" not in {
        where["quick"][0],
        where["off"][0],
    }
    assert sorted(fleet.query("SELECT instance_name, status FROM migrations")) == [
        ("full", "cancelled"),
        ("off", "completed"),
        ("quick", "completed"),
    ]
    service = fleet.service("kvm1")
    assert service["disabled"] and not service["maintenance"]
    # A second run moves it after all.
    fleet.drain("kvm1")
    assert fleet.settled()["full"][0] != "kvm1" and fleet.service("kvm1")["maintenance"]
