# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts with instances in one storage pool: its size and use count once."""

from __future__ import annotations

import json

import pytest
from test_fleet import LOCAL, SHARED, Domain, changed

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

# The folder is a bind mount of the machine's own disk: only the operator can know that it is
# shared.
DECLARED = {"drover_shared_pools": ["shared"]}
POOL = "pool/shared"


def disks(fleet):
    """Return the DISK_GB of each provider that has any: name -> (total, used)."""
    rows = fleet.query(
        "SELECT p.name, i.total, i.used FROM inventories i JOIN resource_providers p ON p.id ="
        " i.provider_id JOIN resource_classes r ON r.id = i.class_id WHERE r.name = 'DISK_GB'"
    )
    return {name: (total, used) for name, total, used in rows}


def holdings(fleet):
    """Return the allocations of instances and migrations: name or uuid -> provider -> class ->
    amount."""
    rows = fleet.query(
        "SELECT coalesce(i.name, c.uuid), p.name, r.name, a.used FROM allocations a JOIN consumers"
        " c ON c.id = a.consumer_id JOIN resource_classes r ON r.id = a.class_id JOIN"
        " resource_providers p ON p.id = a.provider_id LEFT JOIN instances i ON i.uuid = c.uuid"
    )
    by_name = {}
    for name, provider, resource, used in rows:
        by_name.setdefault(name, {}).setdefault(provider, {})[resource] = used
    return by_name


def discover(fleet, **variables):
    return fleet.playbook("discover", "-e", json.dumps(variables))


@pytest.fixture
def sharing(fleet):
    """Return the hosts, discovered with their pool declared."""
    discover(fleet, **DECLARED)
    return fleet


def test_one_provider_for_all_hosts(fleet):
    fleet.make("kvm1", Domain("one", disks=2), Domain("local", folder=LOCAL))
    fleet.make("kvm2", Domain("two", size="3G", state="shutoff"))
    discover(fleet)
    own = disks(fleet)
    assert {name: used for name, (dummy, used) in own.items()} == {"kvm1": 3, "kvm2": 3, "kvm3": 0}

    # With the declaration there is one provider, and the allocations of the hosts' local disks
    # belong to it.
    before = holdings(fleet)
    assert changed(discover(fleet, **DECLARED)) > 0
    size = int(fleet.run("kvm1", f"df --block-size=1G --output=size {SHARED}").split()[1])
    ((name, (total, used)),) = disks(fleet).items()
    assert (name, used) == (POOL, 6) and total in (size, size - 1)  # df rounds up
    assert holdings(fleet) == {
        instance: {
            host: {key: amount for key, amount in amounts.items() if key != "DISK_GB"},
            POOL: {"DISK_GB": amounts["DISK_GB"]},
        }
        for instance, places in before.items()
        for host, amounts in places.items()
    }
    members = fleet.query(
        "SELECT p.name FROM provider_aggregates x JOIN resource_providers p ON p.id = x.provider_id"
    )
    assert sorted(members) == [("kvm1",), ("kvm2",), ("kvm3",), (POOL,)]
    assert fleet.query(
        "SELECT p.name, t.name FROM provider_traits x JOIN resource_providers p ON p.id ="
        " x.provider_id JOIN traits t ON t.id = x.trait_id WHERE p.name = :name",
        name=POOL,
    ) == [(POOL, "MISC_SHARES_VIA_AGGREGATE")]

    # A second run changes nothing.
    assert changed(discover(fleet, **DECLARED)) == 0
    assert disks(fleet) == {POOL: (total, 6)}

    # Without the declaration each host has its local disk, and the pool is removed.
    assert changed(discover(fleet)) > 0
    assert disks(fleet) == own and holdings(fleet) == before
    assert fleet.query("SELECT * FROM provider_aggregates") == []


def test_a_name_that_no_host_has_is_told(fleet):
    done = discover(fleet, drover_shared_pools=["shraed"])
    said = " ".join((done.stdout + done.stderr).split())
    assert "names the pool shraed, which the host does not have (it has default, shared)" in said
    assert set(disks(fleet)) == set(fleet.hosts)


def test_an_instance_that_was_started_elsewhere_by_hand(sharing):
    """Define the same domain with its disk on another host, as after the death of its host."""
    fleet, domain = sharing, Domain("web", size="2G")
    fleet.make("kvm1", domain)
    discover(fleet, **DECLARED)
    xml = fleet.run(
        "kvm1", "virsh dumpxml --inactive web && virsh destroy web >&2 && virsh undefine web >&2"
    )
    fleet.run("kvm2", f"virsh define /dev/stdin <<'END'\n{xml}\nEND\nvirsh start web")
    discover(fleet, **DECLARED)
    discover(fleet, **DECLARED)
    assert fleet.settled()["web"] == ("kvm2", "running")
    assert holdings(fleet)["web"] == {"kvm2": {"VCPU": 1, "MEMORY_MB": 64}, POOL: {"DISK_GB": 2}}
    assert disks(fleet)[POOL][1] == 2


def test_addresses(fleet):
    pool = {"drover_ip_pools": [{"name": "floating", "addresses": ["192.0.2.0/28"]}]}
    discover(fleet, **pool)
    assert changed(discover(fleet, **pool)) == 0
    assert fleet.query(
        "SELECT r.name, i.total FROM inventories i JOIN resource_providers p ON p.id ="
        " i.provider_id JOIN resource_classes r ON r.id = i.class_id WHERE p.name = 'ip/floating'"
    ) == [("IPV4_ADDRESS", 14)]


def test_place_and_drain(sharing):
    """All steps: the claim takes the disk from the pool, and a move leaves it there."""
    fleet = sharing
    fleet.place([{"name": "web", "memory_mb": 64, "disks": [{"size_gb": 2}]}], **DECLARED)
    host, state = fleet.settled()["web"]
    assert state == "running"
    assert holdings(fleet)["web"] == {host: {"VCPU": 1, "MEMORY_MB": 64}, POOL: {"DISK_GB": 2}}
    assert disks(fleet)[POOL][1] == 2
    assert changed(discover(fleet, **DECLARED)) == 0

    files = fleet.files(SHARED)
    fleet.drain(host, **DECLARED)
    there, state = fleet.settled()["web"]
    assert there != host and state == "running" and fleet.files(SHARED) == files
    assert holdings(fleet)["web"] == {there: {"VCPU": 1, "MEMORY_MB": 64}, POOL: {"DISK_GB": 2}}
    assert disks(fleet)[POOL][1] == 2
    assert changed(discover(fleet, **DECLARED)) == 0


def test_a_full_pool_is_full_for_all_hosts(sharing):
    fleet = sharing
    ((total, used),) = disks(fleet).values()
    assert used == 0
    definitions = [
        {"name": f"web{number}", "memory_mb": 64, "disks": [{"size_gb": total // 2 + 1}]}
        for number in range(2)
    ]
    refusal = fleet.refused(
        "place", "-e", json.dumps({"drover_instance_definitions": definitions, **DECLARED})
    )
    assert "No valid host" in refusal or "DISK_GB" in refusal
    fleet.place(definitions[:1], **DECLARED)
    assert disks(fleet)[POOL] == (total, total // 2 + 1)
