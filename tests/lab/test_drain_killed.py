# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A drain that is killed at any point: the next run ends right."""

from __future__ import annotations

import json

import pytest
from test_fleet import LOCAL, Domain, descendants, end, eventually

pytest_plugins = ["test_fleet"]

#: The copy of the disk of "slow" takes some 3 s at this many MiB per second: QEMU counts empty
#: parts too.
SLOW = {
    "drover_host": "kvm1",
    "drover_max_migrations": 1,
    "drover_migration": {"bandwidth_mib": 14},
}


def migrates(fleet, name):
    """Return True if libvirt on kvm1 moves a domain."""
    said = fleet.lab.host("kvm1").run(f"virsh domjobinfo {name}").stdout
    return "Operation:" in said and "migration" in said.lower()


def written_down(fleet, run):
    """Wait until the host is disabled and the store has the first move, before the call of
    libvirt.
    """
    run.until(r"^slow: kvm1 -> kvm\d, live, started")


def in_the_middle(fleet, run):
    """Wait until memory or disk is copied."""
    written_down(fleet, run)
    eventually(lambda: migrates(fleet, "slow"))


def one_has_arrived(fleet, run):
    """Wait until one has arrived and is recorded; the next is about to begin."""
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
    """kill: all processes of ansible-playbook, or its process group, which does not contain its
    workers."""
    domains = [
        Domain("slow", memory_mb=96, folder=LOCAL, size="40M", written_mb=8),
        Domain("quick"),
        Domain("cold", state="shutoff"),
    ]
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
        # The host was disabled first, and does not count as empty.
        assert fleet.service("kvm1")["disabled"] and not fleet.service("kvm1")["maintenance"]
        if moment is not one_has_arrived:
            # The store had each move before its begin, for any result.
            assert ("slow",) in fleet.query("SELECT instance_name FROM migrations")
        done = fleet.drain("kvm1", check=False)
        assert done.returncode == 0, f"{run.said}\n====\n{done.stdout}{done.stderr}"
    finally:
        end(orphans)
    where = fleet.settled()
    assert {name: state for name, (dummy, state) in where.items()} == {
        "slow": "running",
        "quick": "running",
        "cold": "shutoff",
    }
    assert [name for name, (host, dummy) in where.items() if host == "kvm1"] == []
    assert fleet.files(LOCAL, "kvm1") == []
    for host in ("kvm2", "kvm3"):
        assert fleet.files(LOCAL, host) == (["slow-0.qcow2"] if where["slow"][0] == host else [])
    assert fleet.service("kvm1")["maintenance"]
    # No instance was moved twice.
    moved = fleet.query(
        "SELECT instance_name, count(*) FROM migrations WHERE status = 'completed' GROUP BY"
        " instance_name ORDER BY 1"
    )
    assert sorted(map(tuple, moved)) == [("cold", 1), ("quick", 1), ("slow", 1)]
    if moment is one_has_arrived:  # restored, although two runs have disabled it
        fleet.playbook("undrain", "-e", "drover_host=kvm1")
        assert not fleet.service("kvm1")["disabled"]
