# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A drain that is killed half way: running it again ends right, wherever it was."""

from __future__ import annotations

import json

import pytest
from test_fleet import LOCAL, Domain, descendants, end, eventually

pytest_plugins = ["test_fleet"]

#: Copying the disk of "slow" takes some 3 s at this many MiB per second: QEMU counts what is empty too.
SLOW = {"drover_host": "kvm1", "drover_max_migrations": 1, "drover_migration": {"bandwidth_mib": 14}}


def migrates(fleet, name):
    """Whether libvirt on kvm1 is moving a domain."""
    said = fleet.lab.host("kvm1").run(f"virsh domjobinfo {name}").stdout
    return "Operation:" in said and "migration" in said.lower()


def written_down(fleet, run):
    """The host is disabled and the store has the first move; nobody has asked libvirt to begin."""
    run.until(r"^slow: kvm1 -> kvm\d, live, started")


def in_the_middle(fleet, run):
    """Memory or disk is on its way."""
    written_down(fleet, run)
    eventually(lambda: migrates(fleet, "slow"))


def one_has_arrived(fleet, run):
    """One is there and recorded; the next is about to begin."""
    run.until(r"\[1 of 3\b")


@pytest.mark.parametrize(
    ("moment", "kill"),
    [
        (in_the_middle, "all"),
        *(
            pytest.param(*each, marks=pytest.mark.long)
            for each in ((written_down, "all"), (in_the_middle, "group"), (one_has_arrived, "all"))
        ),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_killed_and_run_again(fleet, moment, kill):
    """kill: everything that ansible-playbook started, or its process group, which its workers are not in."""
    domains = [Domain("slow", memory_mb=96, folder=LOCAL, size="40M", written_mb=8), Domain("quick"), Domain("cold", state="shutoff")]
    fleet.make("kvm1", *domains)
    run = fleet.start("drain", "-e", json.dumps(SLOW))
    orphans = []
    try:
        moment(fleet, run)
        if kill == "group":
            orphans = descendants(run.process.pid)
    finally:
        run.kill(orphans)
    try:
        # The host was disabled first, and is not said to be empty.
        assert fleet.service("kvm1")["disabled"] and not fleet.service("kvm1")["maintenance"]
        if moment is not one_has_arrived:
            # In the store before it happens, whatever became of it by now.
            assert ("slow",) in fleet.query("SELECT instance_name FROM migrations")
        done = fleet.drain("kvm1", check=False)
        assert done.returncode == 0, f"{run.said}\n====\n{done.stdout}{done.stderr}"
    finally:
        end(orphans)
    where = fleet.settled()
    assert {name: state for name, (dummy, state) in where.items()} == {"slow": "running", "quick": "running", "cold": "shutoff"}
    assert [name for name, (host, dummy) in where.items() if host == "kvm1"] == []
    assert fleet.files(LOCAL, "kvm1") == []
    for host in ("kvm2", "kvm3"):
        assert fleet.files(LOCAL, host) == (["slow-0.qcow2"] if where["slow"][0] == host else [])
    assert fleet.service("kvm1")["maintenance"]
    # No instance was moved twice.
    moved = fleet.query("SELECT instance_name, count(*) FROM migrations WHERE status = 'completed' GROUP BY instance_name ORDER BY 1")
    assert sorted(map(tuple, moved)) == [("cold", 1), ("quick", 1), ("slow", 1)]
    if moment is one_has_arrived:  # what was before is given back, though two runs have disabled it
        fleet.playbook("undrain", "-e", "drover_host=kvm1")
        assert not fleet.service("kvm1")["disabled"]
