# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""drover_migration_address: the memory and the disks of a move go over the second network of the
hosts.

The kernel of the source counts the bytes: at eth0, which has the addresses of the host names, and
at eth1.
"""

from __future__ import annotations

import pytest
from guests import Full
from test_fleet import MARK, Domain, Fleet, eventually, said

pytest_plugins = ["test_fleet"]
pytestmark = pytest.mark.long

MIB = 1024**2
#: The number of written MiB on the disk: far more than the SSH connections of a move transfer.
WRITTEN = 96


def sent(fleet: Fleet, host: str) -> dict[str, int]:
    counters = fleet.run(
        host, "cat /sys/class/net/eth0/statistics/tx_bytes /sys/class/net/eth1/statistics/tx_bytes"
    ).split()
    return dict(zip(("eth0", "eth1"), map(int, counters)))


def move(fleet: Fleet, source: str, destination: str) -> dict[str, int]:
    """Move the instance; return the number of MiB that the source sent at each interface."""
    before = sent(fleet, source)
    done = fleet.playbook(
        "instance_migrate", "-e", "drover_instance=web", "-e", f"drover_destination={destination}"
    )
    assert fleet.settled() == {"web": (destination, "running")}, said(done)
    after = sent(fleet, source)
    return {name: (after[name] - before[name]) // MIB for name in after}


def addresses(fleet: Fleet, template: str) -> None:
    """Set the variable at each host, and record it."""
    for number, host in enumerate(fleet.hosts, 1):
        fleet.playbook(
            "discover",
            "--limit",
            f"{host},localhost",
            "-e",
            f"drover_migration_address={template.format(10 + number)}",
        )


def test_memory_and_disks_go_over_the_second_network(fleet):
    assert (fleet.lab.layout.folder / MARK).exists()
    fleet.make("kvm1", Domain("web", folder="/var/lib/libvirt/images", written_mb=WRITTEN))
    fleet.playbook("discover")
    # Without the variable all of it goes to the address of the host name.
    plain = move(fleet, "kvm1", "kvm2")
    assert plain["eth0"] >= WRITTEN and plain["eth1"] < 1, plain
    for template in ("10.98.0.{}", "fd98::{}"):
        addresses(fleet, template)
        for source, destination in (("kvm2", "kvm1"), ("kvm1", "kvm2")):
            there = move(fleet, source, destination)
            assert there["eth1"] >= WRITTEN and there["eth0"] < WRITTEN // 4, (template, there)


def test_the_memory_alone_goes_over_the_second_network(fleet):
    """The disk is on shared storage."""
    guest = Full("web", memory_mb=2 * WRITTEN)
    fleet.make("kvm1", guest)
    filled = (
        "awk '/^Rss:/ {print int($2 / 1024)}' /proc/$(cat /run/libvirt/qemu/web.pid)/smaps_rollup"
    )
    eventually(lambda: int(fleet.run("kvm1", filled)) >= guest.memory_mb - 16)
    fleet.playbook("discover")
    plain = move(fleet, "kvm1", "kvm2")
    assert plain["eth0"] >= WRITTEN and plain["eth1"] < 1, plain
    addresses(fleet, "10.98.0.{}")
    there = move(fleet, "kvm2", "kvm1")
    assert there["eth1"] >= WRITTEN and there["eth0"] < WRITTEN // 4, there
