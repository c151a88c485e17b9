# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two storage pools on each host: a shared pool for the instances' path, and a local pool for the
disks that request it."""

from __future__ import annotations

import json

import pytest
from test_fleet import LOCAL, SHARED, Domain, changed, said
from test_sharing import POOL, discover, holdings

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

#: The pool default of a host is its own folder LOCAL.
CLASS = "CUSTOM_DISK_GB_DEFAULT"
VARIABLES = {
    "drover_shared_pools": ["shared"],
    "drover_storage_pools": [{"name": "default", "traits": ["CUSTOM_NEAR"]}],
}


def own(host):
    return f"{host}_pool_default"


def test_the_whole_life_of_an_instance_with_a_disk_in_a_pool(fleet):
    discover(fleet, **VARIABLES)
    definition = {
        "name": "web",
        "memory_mb": 64,
        "disks": [{"size_gb": 1}, {"size_gb": 2, "pool": "default", "traits": ["CUSTOM_NEAR"]}],
    }
    fleet.place([definition], **VARIABLES)
    host, state = fleet.settled()["web"]
    assert state == "running"
    (near,) = fleet.files(LOCAL, host)
    assert near.endswith("-vdb.qcow2") and [name[-10:] for name in fleet.files(SHARED)] == [
        "-vda.qcow2"
    ]
    taken = {host: {"VCPU": 1, "MEMORY_MB": 64}, POOL: {"DISK_GB": 1}, own(host): {CLASS: 2}}
    assert holdings(fleet)["web"] == taken

    # A discovery and a second run agree with the claim.
    assert changed(discover(fleet, **VARIABLES)) == 0 and holdings(fleet)["web"] == taken
    again = fleet.place([definition], **VARIABLES)
    assert changed(again) == 0, said(again)

    # A drain copies the disk of the local pool, and nothing of the shared storage.
    shared = fleet.files(SHARED)
    fleet.drain(host, **VARIABLES)
    destination, state = fleet.settled()["web"]
    assert destination != host and state == "running"
    assert (
        fleet.files(LOCAL, host) == []
        and fleet.files(LOCAL, destination) == [near]
        and fleet.files(SHARED) == shared
    )
    assert holdings(fleet)["web"] == {
        destination: {"VCPU": 1, "MEMORY_MB": 64},
        POOL: {"DISK_GB": 1},
        own(destination): {CLASS: 2},
    }
    assert changed(discover(fleet, **VARIABLES)) == 0

    done = fleet.playbook(
        "instance_delete",
        "-e",
        json.dumps({"drover_instance": "web", "drover_instance_force": True, **VARIABLES}),
    )
    assert "web" not in fleet.where(), said(done)
    assert fleet.files(LOCAL, destination) == [] and fleet.files(SHARED) == []
    assert "web" not in holdings(fleet)


def test_what_no_pool_can_give_is_refused_before_anything_is_made(fleet):
    discover(fleet, **VARIABLES)
    for disk, sentence in (
        ({"size_gb": 100000, "pool": "default"}, "storage pool default (GiB)"),
        (
            {"size_gb": 1, "pool": "nowhere"},
            "no host has the storage pool nowhere in its drover_storage_pools",
        ),
        ({"size_gb": 1, "pool": "default", "traits": ["CUSTOM_FAR"]}, "CUSTOM_FAR"),
    ):
        done = fleet.place(
            [{"name": "web", "memory_mb": 64, "disks": [disk]}], check=False, **VARIABLES
        )
        assert done.returncode != 0 and sentence in said(done), said(done)
        assert fleet.where() == {} and fleet.query("SELECT * FROM allocations") == []


def test_disks_that_others_made_count_in_their_pool(fleet):
    fleet.make(
        "kvm1", Domain("near", folder=LOCAL, size="3G"), Domain("far", size="2G", state="shutoff")
    )
    discover(fleet, **VARIABLES)
    found = holdings(fleet)
    assert found["near"] == {"kvm1": {"VCPU": 1, "MEMORY_MB": 64}, own("kvm1"): {CLASS: 3}}
    assert found["far"] == {"kvm1": {"VCPU": 1, "MEMORY_MB": 64}, POOL: {"DISK_GB": 2}}

    # A pool that does not run gets no new disk, and a warning says so.
    fleet.run("kvm1", "virsh pool-destroy default")
    try:
        done = discover(fleet, **VARIABLES)
        assert "the storage pool default does not run" in said(done), said(done)
        ((total, reserved),) = fleet.query(
            "SELECT i.total, i.reserved FROM inventories i JOIN resource_providers p ON p.id ="
            " i.provider_id WHERE p.name = :name",
            name=own("kvm1"),
        )
        assert total == reserved > 0 and holdings(fleet)["near"][own("kvm1")] == {CLASS: 3}
    finally:
        fleet.run("kvm1", "virsh pool-start default")
