# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Discoveries written into the store: changes, values that are kept, and values that are only
reported."""

from __future__ import annotations

import threading
import time

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import host_state
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement import (
    allocations,
    classes_and_traits,
    provider_info,
    providers,
    resource_providers,
    server_groups,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import services
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import (
    instances,
    instances_for_plans,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.reports import hosts
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import (
    domain as tracker_domain,
)
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import (
    node,
    record,
    record_domain,
)
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import (
    domain,
    host,
    selection,
    uuid_of,
)

PROOF = certainty.word("a test")

LATER = fleets.NOW + 1000


def in_store(url, function, *arguments):
    with Store.open(url).write() as connection:
        return function(connection, *arguments)


def listing(url):
    with Store.open(url).read() as connection:
        return {row["name"]: row for row in instances.listing(connection)}


def inventory(url, name, resource="VCPU"):
    """Return the inventory of one resource of a host, as the scheduler sees it."""
    columns = fleets.columns(url)
    return {
        field: values[columns["host"].index(name)]
        for field, values in columns["resources"][resource].items()
    }


def traits(url, name):
    table, providers = tables.provider_traits, tables.resource_providers
    query = (
        sa.select(tables.traits.c.name)
        .join(table, table.c.trait_id == tables.traits.c.id)
        .join(providers, providers.c.id == table.c.provider_id)
        .where(providers.c.name == name)
    )
    with Store.open(url).read() as connection:
        return set(connection.execute(query).scalars())


def told(found):
    """Return the lists of names of a discovery, without the empty ones."""
    kinds = ("added", "removed", "unreported", "adopted", "moved", "missing", "doubled")
    return {kind: found[kind] for kind in kinds if found[kind]}


# Once and again


def test_a_first_discovery_and_a_second(prepared_url):
    nodes = [host("kvm1", domain("web", 2, 512, 10), availability_zone="az1"), host("kvm2")]
    first = fleets.discover(prepared_url, *nodes)
    assert told(first) == {"added": ["kvm1", "kvm2"], "adopted": ["web"]}
    assert (first["changed"], first["nodes"], first["instances"]) == (True, 2, 1)
    before, generations = fleets.snapshot(prepared_url), fleets.generations(prepared_url)
    second = fleets.discover(prepared_url, *nodes)
    assert (second["changed"], told(second)) == (False, {})
    assert fleets.snapshot(prepared_url) == before
    assert fleets.generations(prepared_url) == generations


def test_a_second_discovery_is_a_heartbeat(prepared_url):
    fleets.discover(prepared_url, host("kvm1"))
    assert fleets.columns(prepared_url, LATER, 60)["down_reason"] == [
        "last seen 1000 s ago, more than service_down_time (60 s)"
    ]
    # A last_seen_up in the future does not prove that the host is up.
    early = fleets.columns(prepared_url, fleets.NOW - 61, 60)
    assert early["up"] == [False] and early["down_reason"][0].startswith(
        "last seen 61 s in the future, more than service_down_time (60 s): set"
    )
    assert fleets.columns(prepared_url, LATER)["up"] == [True]
    assert fleets.discover(prepared_url, host("kvm1"), now=LATER)["changed"] is False
    assert fleets.columns(prepared_url, LATER + 60, 60)["up"] == [True]


def test_a_host_that_could_not_be_reached_is_down_until_it_is(prepared_url):
    fleets.discover(prepared_url, host("kvm1"), host("kvm2"))
    assert in_store(prepared_url, services.record_unreachable, "kvm1", "no route", LATER) is True
    assert in_store(prepared_url, services.record_unreachable, "kvm1", "no route", LATER) is False
    assert fleets.columns(prepared_url)["down_reason"] == ["no route", None]
    assert fleets.discover(prepared_url, host("kvm1"), now=LATER)["changed"] is True
    assert fleets.columns(prepared_url)["up"] == [True, True]


def test_a_host_that_was_never_reached_is_known(prepared_url):
    assert (
        in_store(prepared_url, services.record_unreachable, "kvm9", "no route", fleets.NOW) is True
    )
    with Store.open(prepared_url).read() as connection:
        (row,) = hosts.listing(connection, fleets.NOW)
    assert (row["host"], row["state"], row["down_reason"], row["nodes"]) == (
        "kvm9",
        "down",
        "no route",
        [],
    )
    assert told(fleets.discover(prepared_url, host("kvm9"))) == {"added": ["kvm9"]}


def test_figures_of_use_are_news_but_no_change(prepared_url):
    node = {"host": "kvm1", "vcpus": 4, "memory_mb": 4096, "local_gb": 100}
    fleets.discover(prepared_url, {**node, "disk_available_least_gb": 50})
    assert (
        fleets.discover(prepared_url, {**node, "disk_available_least_gb": 40})["changed"] is False
    )
    assert fleets.columns(prepared_url)["disk_available_least"] == [40]


CHANGES = (
    {"vcpus": 8},
    {"reserved_host_cpus": 1},
    {"cpu_allocation_ratio": 2.0},
    {"availability_zone": "az2"},
    {"cell": "c2"},
    {"traits": ["CUSTOM_SSD"]},
    {"hypervisor_version": 9000000},
    {"domains": [domain("web", 2)]},
    {"domains": []},
    {"migration_uri": "qemu+tls://kvm1/system"},
)


def test_what_counts_as_a_change(prepared_url):
    node = host("kvm1", domain("web"), availability_zone="az1", cell="c1")
    fleets.discover(prepared_url, node)
    for change in CHANGES:
        node.update(change)
        assert fleets.discover(prepared_url, node)["changed"] is True, change
        assert fleets.discover(prepared_url, node)["changed"] is False, change


def test_a_generation_rises_by_a_change_only(prepared_url):
    fleets.discover(prepared_url, host("kvm1"), host("kvm2"))
    first = fleets.generations(prepared_url)
    fleets.discover(prepared_url, host("kvm1"), host("kvm2", vcpus=8))
    second = fleets.generations(prepared_url)
    assert (second["kvm1"], second["kvm2"]) == (first["kvm1"], first["kvm2"] + 1)
    fleets.discover(prepared_url, host("kvm1", traits=["CUSTOM_X"]), host("kvm2", vcpus=8))
    third = fleets.generations(prepared_url)
    assert (third["kvm1"], third["kvm2"]) == (second["kvm1"] + 1, second["kvm2"])
    fleets.discover(prepared_url, host("kvm1", domain("web"), traits=["CUSTOM_X"]))
    assert fleets.generations(prepared_url)["kvm1"] == third["kvm1"]


# Nodes that come and go


def test_nodes_of_one_host(prepared_url):
    nodes = [
        host("kvm1", domain(name), hypervisor_hostname=name, uri=f"test:///{name}.xml")
        for name in ("a", "b")
    ]
    assert told(fleets.discover(prepared_url, *nodes)) == {
        "added": ["a", "b"],
        "adopted": ["a", "b"],
    }
    columns = fleets.columns(prepared_url)
    assert (columns["host"], columns["node"]) == (["kvm1", "kvm1"], ["a", "b"])
    assert set(fleets.generations(prepared_url)) == {"kvm1/a", "kvm1/b"}
    with Store.open(prepared_url).read() as connection:
        (row,) = hosts.listing(connection, fleets.NOW)
        assert (row["vcpus"], row["instances"], len(row["nodes"])) == (8, 2, 2)
    # A domain that goes from one node to the other has moved.
    nodes = [
        host("kvm1", hypervisor_hostname="a"),
        host("kvm1", domain("a"), domain("b"), hypervisor_hostname="b"),
    ]
    assert told(fleets.discover(prepared_url, *nodes)) == {"moved": ["a"]}


def test_nodes_with_one_name_are_refused(prepared_url):
    fleets.discover(prepared_url, host("kvm1"))
    before = fleets.snapshot(prepared_url)
    with pytest.raises(
        DroverError, match="Host kvm1 reports two compute nodes named kvm1.*nothing was recorded"
    ):
        fleets.discover(prepared_url, host("kvm1"), host("kvm1"))
    assert fleets.snapshot(prepared_url) == before
    # Two hosts may each have a node of the same name.
    same = [host(name, hypervisor_hostname="localhost.localdomain") for name in ("kvm1", "kvm2")]
    assert fleets.discover(prepared_url, *same)["nodes"] == 2


def test_a_node_that_is_gone_and_empty_is_removed(prepared_url):
    fleets.discover(prepared_url, *(host("kvm1", hypervisor_hostname=name) for name in ("a", "b")))
    assert told(fleets.discover(prepared_url, host("kvm1", hypervisor_hostname="a"))) == {
        "removed": ["b"]
    }
    assert fleets.columns(prepared_url)["node"] == ["a"]
    assert set(fleets.generations(prepared_url)) == {"kvm1/a"}
    assert fleets.discover(prepared_url, host("kvm1", hypervisor_hostname="a"))["changed"] is False


def test_a_node_that_is_gone_and_used_is_told_and_kept(prepared_url):
    nodes = [
        host("kvm1", hypervisor_hostname="a"),
        host("kvm1", domain("web"), hypervisor_hostname="b"),
    ]
    fleets.discover(prepared_url, *nodes)
    discovered = fleets.discover(prepared_url, nodes[0])
    # Its instance is reported as missing, because no node shows it.
    gone = {"unreported": ["b"], "missing": ["web"]}
    assert (told(discovered), discovered["changed"]) == (gone, True)
    columns = fleets.columns(prepared_url)
    assert columns["up"] == [True, False]
    assert columns["down_reason"][1] == "no longer reported by its host"
    assert fleets.used(prepared_url) == {"kvm1": 1}
    # Each discovery reports it, but changes nothing.
    again = fleets.discover(prepared_url, nodes[0])
    assert (told(again), again["changed"]) == (gone, False)
    # The node may come back.
    assert fleets.discover(prepared_url, *nodes)["changed"] is True
    assert fleets.columns(prepared_url)["up"] == [True, True]


def test_a_renamed_node_hands_its_domains_over(prepared_url):
    fleets.discover(prepared_url, host("kvm1", domain("web"), hypervisor_hostname="old"))
    found = fleets.discover(prepared_url, host("kvm1", domain("web"), hypervisor_hostname="new"))
    assert told(found) == {"added": ["new"], "removed": ["old"], "moved": ["web"]}
    assert fleets.used(prepared_url) == {"kvm1": 1}


def test_other_hosts_are_not_concerned(prepared_url):
    fleets.discover(prepared_url, host("kvm1", domain("web")), host("kvm2"))
    assert told(fleets.discover(prepared_url, host("kvm2"), now=LATER)) == {}
    assert fleets.columns(prepared_url)["host"] == ["kvm1", "kvm2"]


# Inventories and options


def test_a_ratio_is_kept_until_another_is_given(prepared_url):
    node = {"host": "kvm1", "vcpus": 4, "memory_mb": 4096, "local_gb": 100}
    fleets.discover(prepared_url, node)
    assert inventory(prepared_url, "kvm1")["ratio"] == 4.0
    fleets.discover(prepared_url, {**node, "cpu_allocation_ratio": 2.5})
    assert fleets.discover(prepared_url, node)["changed"] is False
    assert inventory(prepared_url, "kvm1")["ratio"] == 2.5
    fleets.discover(prepared_url, node, cpu_allocation_ratio=3.0)
    assert inventory(prepared_url, "kvm1")["ratio"] == 3.0
    assert inventory(prepared_url, "kvm1", "MEMORY_MB")["ratio"] == 1.0


def test_what_is_reserved(prepared_url):
    node = host("kvm1", reserved_host_cpus=1, reserved_host_memory_mb=512, reserved_host_disk_mb=1)
    fleets.discover(prepared_url, node)
    reserved = [
        inventory(prepared_url, "kvm1", name)["reserved"]
        for name in ("VCPU", "MEMORY_MB", "DISK_GB")
    ]
    assert reserved == [1, 512, 1]


CONTRADICTIONS = (
    ({"reserved_host_memory_mb": 4097}, "4097 of MEMORY_MB cannot be reserved of the 4096 it has"),
    ({"reserved_host_cpus": 5}, "5 of VCPU cannot be reserved of the 4"),
    ({"reserved_host_disk_mb": 100 * 1024 + 1}, "101 of DISK_GB cannot be reserved of the 100"),
    (
        {"cpu_shared_set": "0-4"},
        (
            r"cpu_shared_set \(drover_cpu_shared_set\) has CPUs that are not online: 4\. Online are"
            r" 0-3\."
        ),
    ),
    (
        {"cpu_dedicated_set": "9,7"},
        r"\(drover_cpu_dedicated_set\) has CPUs that are not online: 7, 9\.",
    ),
    (
        {"cpu_shared_set": "0-2", "cpu_dedicated_set": "2,3"},
        "CPUs 2 are in drover_cpu_shared_set and in drover_cpu_dedicated_set. Take",
    ),
    ({"cpu_shared_set": "3-0"}, "runs backwards"),
    ({"cpu_shared_set": "all"}, "'all' is no CPU set"),
    ({"cpu_shared_set": "1,^1"}, "holds no CPU"),
)


def test_options_that_contradict_the_host(prepared_url):
    fleets.discover(prepared_url, host("kvm2"))
    before = fleets.snapshot(prepared_url)
    for options, message in CONTRADICTIONS:
        with pytest.raises(DroverError, match=message):
            fleets.discover(prepared_url, host("kvm2", vcpus=8), host("kvm1", **options))
    assert fleets.snapshot(prepared_url) == before


def test_all_may_be_reserved(prepared_url):
    fleets.discover(prepared_url, host("kvm1", reserved_host_cpus=4))
    with pytest.raises(DroverError, match="VCPU: asked 1, used 0 of 0"):
        fleets.claim(prepared_url, selection("web", "kvm1"))


@pytest.mark.parametrize(
    ("options", "shared", "dedicated"),
    [
        ({}, 4, None),
        ({"cpu_shared_set": "0-3,^1"}, 3, None),
        ({"cpu_dedicated_set": "0,1"}, 0, 2),
        ({"cpu_shared_set": "0", "cpu_dedicated_set": "2-3"}, 1, 2),
    ],
)
def test_cpu_sets(prepared_url, options, shared, dedicated):
    fleets.discover(prepared_url, host("kvm1", **options))
    assert inventory(prepared_url, "kvm1")["total"] == shared
    query = (
        sa.select(tables.inventories.c.total)
        .join(
            tables.resource_classes, tables.resource_classes.c.id == tables.inventories.c.class_id
        )
        .where(tables.resource_classes.c.name == "PCPU")
    )
    with Store.open(prepared_url).read() as connection:
        assert connection.execute(query).scalar() == dedicated


def test_an_inventory_in_use_is_kept_until_nothing_uses_it(prepared_url):
    fleets.discover(prepared_url, host("kvm1", domain("web")))
    fleets.discover(prepared_url, host("kvm1", domain("web"), cpu_dedicated_set="0-3"))
    assert inventory(prepared_url, "kvm1")["total"] == 4
    fleets.discover(prepared_url, host("kvm1", domain("web", vcpus=0), cpu_dedicated_set="0-3"))
    fleets.discover(prepared_url, host("kvm1", domain("web", vcpus=0), cpu_dedicated_set="0-3"))
    assert inventory(prepared_url, "kvm1")["total"] == 0


def test_a_host_may_shrink_below_what_it_holds(prepared_url):
    fleets.discover(prepared_url, host("kvm1", domain("web", 4)))
    fleets.discover(prepared_url, host("kvm1", domain("web", 4), vcpus=2))
    assert (inventory(prepared_url, "kvm1")["total"], fleets.used(prepared_url)) == (2, {"kvm1": 4})


# Zones


def test_a_host_moves_between_zones(prepared_url):
    fleets.discover(
        prepared_url, host("kvm1", availability_zone="az1"), host("kvm2", availability_zone="az1")
    )
    assert fleets.columns(prepared_url)["zones"] == [["az1"], ["az1"]]
    assert fleets.discover(prepared_url, host("kvm1", availability_zone="az2"))["changed"] is True
    assert fleets.columns(prepared_url)["zones"] == [["az2"], ["az1"]]
    # The report names no zone, so the zone stays.
    assert fleets.discover(prepared_url, host("kvm1"))["changed"] is False
    assert fleets.columns(prepared_url)["zones"] == [["az2"], ["az1"]]
    fleets.discover(prepared_url, host("kvm1", availability_zone="az1"))
    with Store.open(prepared_url).read() as connection:
        assert instances_for_plans.read_zones(connection) == {"kvm1": ["az1"], "kvm2": ["az1"]}
        assert len(connection.execute(sa.select(tables.aggregates)).all()) == 2


def test_one_host_is_not_in_two_zones(prepared_url):
    nodes = [
        host("kvm1", hypervisor_hostname=name, availability_zone=f"az-{name}")
        for name in ("a", "b")
    ]
    with pytest.raises(DroverError, match="kvm1.*az-a.*az-b"):
        fleets.discover(prepared_url, *nodes)


# Traits


def test_traits_follow_what_is_reported(prepared_url):
    fleets.discover(prepared_url, host("kvm1", traits=["CUSTOM_A", "CUSTOM_B"]))
    assert traits(prepared_url, "kvm1") == {"COMPUTE_NODE", "CUSTOM_A", "CUSTOM_B"}
    fleets.discover(prepared_url, host("kvm1", traits=["CUSTOM_B"]))
    assert traits(prepared_url, "kvm1") == {"COMPUTE_NODE", "CUSTOM_B"}


def test_cpu_features_become_traits(prepared_url):
    hypervisor = {
        "hypervisor_hostname": "kvm1",
        "cpu": {
            "arch": "x86_64",
            "count": 2,
            "online": [0, 1],
            "features": ["avx2", "sse4.1", "pni", "no-such-thing"],
        },
        "memory_mb": 1024,
        "storage": {"total_gb": 10},
    }
    fleets.discover(prepared_url, {"host": "kvm1", "hypervisor": hypervisor})
    assert traits(prepared_url, "kvm1") == {
        "COMPUTE_NODE",
        "HW_CPU_X86_AVX2",
        "HW_CPU_X86_SSE41",
        "HW_CPU_X86_SSE3",
    }


def test_what_guests_can_have_becomes_traits(prepared_url):
    hardware = {
        "firmware": ["efi"],
        "secure_boot": ["yes", "no"],
        "tpm_models": ["tpm-tis", "tpm-crb", "tpm-spapr"],
        "tpm_versions": ["1.2", "2.0"],
        "video_models": ["vga", "none", "ramfb"],
        "disk_buses": ["virtio", "sata"],
    }
    hypervisor = {"hypervisor_hostname": "kvm1", "memory_mb": 1024, "guest_hardware": hardware}
    host_data = {"host": "kvm1", "hypervisor": hypervisor}
    fleets.discover(prepared_url, host_data)
    assert traits(prepared_url, "kvm1") == {
        "COMPUTE_NODE",
        "COMPUTE_SECURITY_UEFI_SECURE_BOOT",
        "COMPUTE_SECURITY_TPM_TIS",
        "COMPUTE_SECURITY_TPM_CRB",
        "COMPUTE_SECURITY_TPM_1_2",
        "COMPUTE_SECURITY_TPM_2_0",
        "COMPUTE_GRAPHICS_MODEL_VGA",
        "COMPUTE_GRAPHICS_MODEL_NONE",
        "COMPUTE_STORAGE_BUS_VIRTIO",
        "COMPUTE_STORAGE_BUS_SATA",
    }
    # swtpm and the firmware were removed; another libvirt reports no traits.
    hypervisor["guest_hardware"] = {
        **hardware,
        "firmware": [],
        "tpm_models": [],
        "tpm_versions": [],
        "video_models": [],
        "disk_buses": [],
    }
    fleets.discover(prepared_url, host_data)
    assert traits(prepared_url, "kvm1") == {"COMPUTE_NODE"}
    hypervisor["guest_hardware"] = None
    fleets.discover(prepared_url, host_data)
    assert traits(prepared_url, "kvm1") == {"COMPUTE_NODE"}


def test_the_disabled_trait_outlives_a_discovery(prepared_url):
    fleets.discover(prepared_url, host("kvm1"))
    in_store(prepared_url, host_state.change, "kvm1", "disabled", "fans")
    assert "COMPUTE_STATUS_DISABLED" in traits(prepared_url, "kvm1")
    assert fleets.discover(prepared_url, host("kvm1"))["changed"] is False
    assert "COMPUTE_STATUS_DISABLED" in traits(prepared_url, "kvm1")
    # A node that is new on a disabled host has it from the start.
    fleets.discover(prepared_url, host("kvm1"), host("kvm1", hypervisor_hostname="b"))
    assert "COMPUTE_STATUS_DISABLED" in traits(prepared_url, "kvm1/b")
    in_store(prepared_url, host_state.change, "kvm1", "enabled")
    assert traits(prepared_url, "kvm1") == traits(prepared_url, "kvm1/b") == {"COMPUTE_NODE"}


# Instances


def test_adoption_with_allocations(prepared_url):
    metadata = {"project": "blue", "user": "ann", "server_group": "web", "flavor": "m1"}
    in_store(
        prepared_url,
        lambda connection: server_groups.ensure(connection, "web", "anti-affinity") and None,
    )
    web = domain("web", 2, 512, 10, metadata=metadata, autostart=True, state="paused")
    fleets.discover(prepared_url, host("kvm1", web, domain("plain")))
    assert fleets.holdings(prepared_url) == {
        uuid_of("web"): {"kvm1": {"VCPU": 2, "MEMORY_MB": 512, "DISK_GB": 10}},
        uuid_of("plain"): {"kvm1": {"VCPU": 1, "MEMORY_MB": 64}},
    }
    row = listing(prepared_url)["web"]
    assert (row["host"], row["state"], row["autostart"]) == ("kvm1", "paused", True)
    assert (row["project"], row["user"], row["server_group"]) == ("blue", "ann", "web")
    with Store.open(prepared_url).read() as connection:
        rows = hosts.resource_rows(connection, "kvm1", hosts.listing(connection, fleets.NOW))
    figures = {row["project"]: (row["vcpus"], row["memory_mb"], row["disk_gb"]) for row in rows}
    assert figures == {
        "(total)": (4, 4096, 100),
        "(used_now)": (3, 576, 10),
        "(used_max)": (3, 576, 10),
        "(none)": (1, 64, 0),
        "blue": (2, 512, 10),
    }


def test_what_a_domain_takes(prepared_url):
    gib = 1024**3
    disks = [
        {"target": "vda", "device": "disk", "source": "/a", "capacity_bytes": gib},
        {"target": "vdb", "device": "disk", "source": "/b", "capacity_bytes": gib // 2},
        {
            "target": "vdc",
            "device": "disk",
            "source": "/c",
            "capacity_bytes": 9 * gib,
            "readonly": True,
        },
        {"target": "hda", "device": "cdrom", "source": "/d.iso", "capacity_bytes": 9 * gib},
        {"target": "hdb", "device": "cdrom"},
    ]
    fleets.discover(prepared_url, host("kvm1", domain("web", disk_gb=None, disks=disks)))
    assert fleets.used(prepared_url, "DISK_GB") == {"kvm1": 2}
    # The room stays if the size cannot be seen for now.
    disks[0]["capacity_bytes"] = None
    assert (
        fleets.discover(prepared_url, host("kvm1", domain("web", disk_gb=None, disks=disks)))[
            "instances"
        ]
        == 1
    )
    assert fleets.used(prepared_url, "DISK_GB") == {"kvm1": 2}


def test_a_domain_that_grew(prepared_url):
    fleets.discover(prepared_url, host("kvm1", domain("web", 1)))
    assert fleets.discover(prepared_url, host("kvm1", domain("web", 3)))["changed"] is True
    assert (fleets.used(prepared_url), listing(prepared_url)["web"]["vcpus"]) == ({"kvm1": 3}, 3)


def test_a_domain_that_takes_nothing(prepared_url):
    empty = host("kvm1", domain("web", 0, 0, 0))
    fleets.discover(prepared_url, empty)
    assert fleets.discover(prepared_url, empty)["changed"] is False
    assert fleets.holdings(prepared_url) == {}
    assert fleets.where(prepared_url) == {"web": "kvm1"}


def test_a_vanished_domain_is_missing_and_keeps_its_room(prepared_url):
    fleets.discover(prepared_url, host("kvm1", domain("web")), host("kvm2"))
    found = fleets.discover(prepared_url, host("kvm1"), host("kvm2"))
    assert (told(found), found["changed"]) == ({"missing": ["web"]}, True)
    assert (fleets.used(prepared_url), listing(prepared_url)["web"]["state"]) == (
        {"kvm1": 1},
        "missing",
    )
    again = fleets.discover(prepared_url, host("kvm1"), host("kvm2"))
    assert (told(again), again["changed"]) == ({"missing": ["web"]}, False)
    # The instance appears on another host.
    assert told(fleets.discover(prepared_url, host("kvm1"), host("kvm2", domain("web")))) == {
        "moved": ["web"]
    }
    assert (fleets.used(prepared_url), listing(prepared_url)["web"]["state"]) == (
        {"kvm2": 1},
        "running",
    )


BOTH_RUN = {"kvm1": "running", "kvm2": "running"}


def test_a_moved_domain_takes_its_room_along(prepared_url):
    fleets.discover(prepared_url, host("kvm1", domain("web", 2)), host("kvm2"))
    assert told(fleets.discover(prepared_url, host("kvm1"), host("kvm2", domain("web", 2)))) == {
        "moved": ["web"]
    }
    assert fleets.used(prepared_url) == {"kvm2": 2}
    assert told(fleets.discover(prepared_url, host("kvm1"), host("kvm2", domain("web", 2)))) == {}


def test_a_moved_domain_seen_from_one_side_at_a_time(prepared_url):
    fleets.discover(prepared_url, host("kvm1", domain("web")), host("kvm2"))
    # kvm2 reports first: kvm1 showed it when it last reported, so this may be a second copy.
    found = fleets.discover(prepared_url, host("kvm2", domain("web")))
    assert found["doubled"] == [
        {
            "uuid": uuid_of("web"),
            "name": "web",
            "nodes": ["kvm1", "kvm2"],
            "states": BOTH_RUN,
            "one_machine": False,
        }
    ]
    assert fleets.where(prepared_url) == {"web": "kvm1"}
    # kvm1 does not show it now, and kvm2 does: nothing is lost, and the next discovery of kvm2
    # settles it.
    assert told(fleets.discover(prepared_url, host("kvm1"))) == {}
    assert told(fleets.discover(prepared_url, host("kvm2", domain("web")))) == {"moved": ["web"]}
    assert fleets.used(prepared_url) == {"kvm2": 1}


def test_hostile_c3_the_old_report_of_one_host_beside_the_new_one_of_another_is_no_double(
    prepared_url,
):
    """The instance was moved by hand after the discovery of kvm1; the next discovery of kvm1 shows
    its host."""
    fleets.discover(prepared_url, host("kvm1", domain("web")), host("kvm2"))
    assert fleets.discover(prepared_url, host("kvm2", domain("web")), now=LATER)["doubled"] == []
    assert fleets.where(prepared_url) == {"web": "kvm1"}
    (found,) = fleets.discover(prepared_url, host("kvm1", domain("web")), now=LATER + 5)["doubled"]
    assert found["nodes"] == ["kvm1", "kvm2"]


def test_a_domain_on_two_hosts_is_told_and_its_record_stays(prepared_url):
    fleets.discover(prepared_url, host("kvm1", domain("web")), host("kvm2"))
    both = [host("kvm1", domain("web")), host("kvm2", domain("web"))]
    found = fleets.discover(prepared_url, *both)
    assert told(found) == {
        "doubled": [
            {
                "uuid": uuid_of("web"),
                "name": "web",
                "nodes": ["kvm1", "kvm2"],
                "states": BOTH_RUN,
                "one_machine": False,
            }
        ]
    }
    assert (fleets.where(prepared_url), fleets.used(prepared_url)) == ({"web": "kvm1"}, {"kvm1": 1})
    assert told(fleets.discover(prepared_url, both[1]))["doubled"][0]["name"] == "web"
    assert fleets.where(prepared_url) == {"web": "kvm1"}


@pytest.mark.parametrize("first", ["kvm1", "old"])
def test_one_machine_under_two_names(prepared_url, first):
    """The discovery reports the double. The second name can be removed from the store, for any
    order of the two names."""
    facts = {**node.flat_facts(host("kvm1", domain("web"))), "host_uuid": uuid_of("kvm1")}
    names = {
        name: {"host": name, "hypervisor": facts, "cpu_allocation_ratio": 1.0}
        for name in ("kvm1", "old")
    }
    second = {"kvm1": "old", "old": "kvm1"}[first]
    fleets.discover(prepared_url, names[first])
    (found,) = fleets.discover(prepared_url, names[second])["doubled"]
    assert (found["nodes"], found["one_machine"]) == (["kvm1", "old"], True)
    for _dummy in range(2):
        in_store(prepared_url, record.record, {"old": []}, fleets.NOW)
        found = fleets.discover(prepared_url, names["kvm1"])
    assert found["doubled"] == [] and told(found) == {}
    assert (fleets.where(prepared_url), fleets.used(prepared_url)) == ({"web": "kvm1"}, {"kvm1": 1})
    with Store.open(prepared_url).read() as connection:
        assert [each["host"] for each in hosts.listing(connection, fleets.NOW)] == ["kvm1"]


def test_a_host_that_is_no_more(prepared_url):
    fleets.discover(prepared_url, host("kvm1", domain("web")), host("kvm2"))

    def no_more(name):
        return in_store(prepared_url, record.record, {name: []}, fleets.NOW)

    outcome = no_more("kvm2")
    assert outcome["changed"] and outcome["removed"] == ["kvm2"]
    assert not no_more("kvm2")["changed"] and not no_more("never-there")["changed"]
    # A host that holds room for instances is not removed.
    outcome = no_more("kvm1")
    assert (outcome["removed"], outcome["unreported"]) == ([], ["kvm1"])
    with Store.open(prepared_url).read() as connection:
        assert [each["host"] for each in hosts.listing(connection, fleets.NOW)] == ["kvm1"]


def test_a_stranger_on_two_hosts_at_once(prepared_url):
    found = fleets.discover(prepared_url, host("kvm1", domain("web")), host("kvm2", domain("web")))
    assert [entry["name"] for entry in found["doubled"]] == ["web"]
    assert len(fleets.used(prepared_url)) == 1


def test_an_open_migration_is_left_alone(prepared_url):
    nodes = [host("kvm1", domain("web")), host("kvm2")]
    fleets.discover(prepared_url, *nodes)
    move = in_store(
        prepared_url,
        migration_claims.begin,
        uuid_of("web"),
        "kvm2",
        None,
        "live-migration",
        fleets.NOW,
    )
    holdings = fleets.holdings(prepared_url)
    for state in (
        ([domain("web")], [domain("web")]),
        ([], [domain("web")]),
        ([], []),
        ([domain("web", 3)], []),
    ):
        found = fleets.discover(prepared_url, host("kvm1", *state[0]), host("kvm2", *state[1]))
        assert told(found) == {}, state
        assert (fleets.holdings(prepared_url), fleets.where(prepared_url)) == (
            holdings,
            {"web": "kvm1"},
        )
    in_store(prepared_url, migration_claims.finish, move["uuid"], PROOF, "running", fleets.NOW)
    assert told(fleets.discover(prepared_url, host("kvm1"), host("kvm2", domain("web")))) == {}
    assert fleets.used(prepared_url) == {"kvm2": 1}


def test_a_claim_is_not_missing_before_it_is_built(prepared_url):
    fleets.discover(prepared_url, host("kvm1"))
    fleets.claim(prepared_url, selection("web", "kvm1", project="blue"))
    assert told(fleets.discover(prepared_url, host("kvm1"))) == {}
    assert (fleets.used(prepared_url), listing(prepared_url)["web"]["state"]) == (
        {"kvm1": 1},
        "building",
    )
    # A domain that is seen keeps the values of its claim, and its owner.
    assert told(fleets.discover(prepared_url, host("kvm1", domain("web")))) == {}
    row = listing(prepared_url)["web"]
    assert (row["state"], row["project"]) == ("running", "blue")


def test_a_node_with_a_claim_is_not_removed(prepared_url):
    fleets.discover(prepared_url, host("kvm1"), host("kvm1", hypervisor_hostname="b"))
    fleets.claim(prepared_url, {**selection("web", "kvm1"), "node": "b"})
    assert told(fleets.discover(prepared_url, host("kvm1"))) == {"unreported": ["b"]}


def test_recording_what_was_built(prepared_url):
    fleets.discover(prepared_url, host("kvm1"), host("kvm2"))
    fleets.claim(prepared_url, selection("web", "kvm1"))
    built = tracker_domain.describe(domain("web"))
    assert (
        in_store(
            prepared_url, record_domain.record_built, uuid_of("web"), "kvm1", built, fleets.NOW
        )
        is True
    )
    assert (
        in_store(
            prepared_url, record_domain.record_built, uuid_of("web"), "kvm1", built, fleets.NOW
        )
        is False
    )
    assert told(fleets.discover(prepared_url, host("kvm1", domain("web")))) == {}
    with pytest.raises(DroverError, match="built on kvm2, but the store has its claim on kvm1"):
        in_store(
            prepared_url, record_domain.record_built, uuid_of("web"), "kvm2", built, fleets.NOW
        )


def test_two_runs_record_one_built_instance(prepared_url):
    """Each replaces the row of its domain. The second waits for the first, and finds its row."""
    fleets.discover(prepared_url, host("kvm1"))
    fleets.claim(prepared_url, selection("web", "kvm1"))
    built, ends, begun = tracker_domain.describe(domain("web")), [], threading.Event()

    def record():
        with Store.open(prepared_url).write(together=True) as connection:
            begun.set()
            ends.append(
                record_domain.record_built(connection, uuid_of("web"), "kvm1", built, fleets.NOW)
            )

    second = threading.Thread(target=record)
    with Store.open(prepared_url).write(together=True) as connection:
        first = record_domain.record_built(connection, uuid_of("web"), "kvm1", built, fleets.NOW)
        second.start()
        # On SQLite the second begins after the first. On PostgreSQL both are open for this time.
        begun.wait(1)
        second.join(1)
    second.join(60)
    assert (first, ends) == (True, [False])


# Odd and large


HOSTILE = [
    "Robert'); DROP TABLE instances;--",
    '"double" and `back` quotes',
    "ünïcödé 名前 🐏",
    "%s %(name)s :name {0} {{ x }}",
    "back\\slash\\n",
    " spaces  inside ",
    "a/b",
    "tab\tand\nnewline",
    "x" * 255,
]


def test_odd_names_come_back_as_they_were(prepared_url):
    nodes = []
    for number, name in enumerate(HOSTILE):
        odd = {**domain(f"web{number}"), "name": name, "title": name, "xml": f"<name>{name}</name>"}
        odd["metadata"] = {"project": name, "user": name}
        nodes.append(host(name, odd, hypervisor_hostname=name, availability_zone=name, cell=name))
    fleets.discover(prepared_url, *nodes)
    assert fleets.discover(prepared_url, *nodes)["changed"] is False
    for name in HOSTILE:
        in_store(prepared_url, host_state.change, name, "disabled", name)
    columns = fleets.columns(prepared_url)
    for column in ("host", "node", "cell", "disabled_reason"):
        assert columns[column] == sorted(HOSTILE)
    assert columns["zones"] == [[name.strip()] for name in sorted(HOSTILE)]
    assert columns["instance_names"] == {
        name: [uuid_of(f"web{number}")] for number, name in enumerate(HOSTILE)
    }
    assert {name: row["project"] for name, row in listing(prepared_url).items()} == {
        name: name for name in HOSTILE
    }
    with Store.open(prepared_url).read() as connection:
        found = connection.execute(sa.select(tables.domains.c.xml)).scalars().all()
        assert sorted(found) == sorted(f"<name>{name}</name>" for name in HOSTILE)
        assert [row["host"] for row in hosts.listing(connection, fleets.NOW)] == sorted(HOSTILE)


@pytest.mark.long
def test_ten_thousand_nodes_in_one_transaction(tmp_path):
    url = f"sqlite:///{tmp_path}/store.db"
    nodes = [
        host(
            f"kvm{number:05}",
            domain(f"web{number}", 1 + number % 4),
            vcpus=8,
            availability_zone=f"az{number % 3}",
        )
        for number in range(10_000)
    ]
    began = time.monotonic()
    found = fleets.discover(url, *nodes)
    took = time.monotonic() - began
    assert (found["nodes"], found["instances"], len(found["added"]), len(found["adopted"])) == (
        10_000,
    ) * 4
    columns = fleets.columns(url)
    assert columns["host"] == [node["host"] for node in nodes]
    assert columns["zones"] == [[node["availability_zone"]] for node in nodes]
    assert columns["resources"]["VCPU"]["used"] == [1 + number % 4 for number in range(10_000)]
    assert set(columns["resources"]["VCPU"]["total"]) == {8}
    assert columns["num_instances"] == [1] * 10_000
    # One of them changes; nothing else does.
    nodes[1234] = host("kvm01234", domain("web1234", 8), vcpus=16, availability_zone="az1")
    before = fleets.generations(url)
    again = fleets.discover(url, *nodes[:2000])
    assert (again["changed"], told(again)) == (True, {})
    after = fleets.generations(url)
    assert [name for name in after if after[name] != before[name]] == ["kvm01234"]
    print(f"10,000 nodes were recorded in {took:.1f} s")


# Values that an operator set on the provider of a compute node

SHARED = "4f1e7b2c-8d0a-4c7e-9a55-0d6c5f3b2a10"


def provider(url, name):
    with Store.open(url).read() as connection:
        (found,) = provider_info.listing(connection, name=name)
    return found


def put(url, name, **wanted):
    with Store.open(url).write() as connection:
        return resource_providers.ensure(connection, name, **wanted)[1]


def test_discovery_keeps_what_an_operator_put_on_a_node(prepared_url):
    nodes = [host("kvm1", traits=["CUSTOM_REPORTED"]), host("kvm2")]
    fleets.discover(prepared_url, *nodes)
    in_store(prepared_url, classes_and_traits.ensure, classes_and_traits.TRAIT, ["CUSTOM_GOLD"])
    in_store(
        prepared_url, classes_and_traits.ensure, classes_and_traits.RESOURCE_CLASS, ["CUSTOM_GPU"]
    )
    properties = {
        "traits": ["CUSTOM_GOLD", "STORAGE_DISK_SSD"],
        "inventories": {"CUSTOM_GPU": {"total": 2}},
        "aggregates": [SHARED],
    }
    put(prepared_url, "kvm1", **properties)
    before, generations = provider(prepared_url, "kvm1"), fleets.generations(prepared_url)
    assert before["traits"] == [
        "COMPUTE_NODE",
        "CUSTOM_GOLD",
        "CUSTOM_REPORTED",
        "STORAGE_DISK_SSD",
    ]
    assert sorted(before["inventories"]) == ["CUSTOM_GPU", "DISK_GB", "MEMORY_MB", "VCPU"]
    assert fleets.discover(prepared_url, *nodes)["changed"] is False
    assert (provider(prepared_url, "kvm1"), fleets.generations(prepared_url)) == (
        before,
        generations,
    )
    # A value that discovery no longer reports is removed, also if it has a custom name.
    assert fleets.discover(prepared_url, host("kvm1", local_gb=0), host("kvm2"))["changed"] is True
    after = provider(prepared_url, "kvm1")
    assert after["traits"] == ["COMPUTE_NODE", "CUSTOM_GOLD", "STORAGE_DISK_SSD"]
    assert sorted(after["inventories"]) == ["CUSTOM_GPU", "MEMORY_MB", "VCPU"]
    assert after["aggregates"] == [SHARED]
    # The operator may remove the operator's own values, and no others.
    put(prepared_url, "kvm1", traits=[], inventories={}, aggregates=[])
    last = provider(prepared_url, "kvm1")
    assert (last["traits"], sorted(last["inventories"]), last["aggregates"]) == (
        ["COMPUTE_NODE"],
        ["MEMORY_MB", "VCPU"],
        [],
    )


def test_a_disabled_host_keeps_the_operators_traits(prepared_url):
    fleets.discover(prepared_url, host("kvm1"))
    in_store(prepared_url, classes_and_traits.ensure, classes_and_traits.TRAIT, ["CUSTOM_GOLD"])
    in_store(prepared_url, host_state.change, "kvm1", "disabled")
    put(prepared_url, "kvm1", traits=["CUSTOM_GOLD"])
    fleets.discover(prepared_url, host("kvm1"))
    assert traits(prepared_url, "kvm1") == {
        "COMPUTE_NODE",
        "CUSTOM_GOLD",
        "COMPUTE_STATUS_DISABLED",
    }
    in_store(prepared_url, host_state.change, "kvm1", "enabled")
    fleets.discover(prepared_url, host("kvm1"))
    assert traits(prepared_url, "kvm1") == {"COMPUTE_NODE", "CUSTOM_GOLD"}


def test_discovery_of_a_store_that_did_not_note_the_traits(prepared_url):
    """An older version wrote the provider: standard traits count as discovery's, others as the
    operator's."""
    fleets.discover(prepared_url, host("kvm1", traits=["CUSTOM_GOLD", "HW_CPU_X86_AVX"]))
    with Store.open(prepared_url).write() as connection:
        connection.execute(sa.update(tables.compute_nodes).values(facts={}))
    fleets.discover(prepared_url, host("kvm1"))
    assert traits(prepared_url, "kvm1") == {"COMPUTE_NODE", "CUSTOM_GOLD"}


def test_a_node_goes_with_the_providers_below_it_unless_they_are_used(prepared_url):
    fleets.discover(prepared_url, host("kvm1"), host("kvm2"), host("kvm3"))
    in_store(
        prepared_url, classes_and_traits.ensure, classes_and_traits.RESOURCE_CLASS, ["CUSTOM_GPU"]
    )
    for name in ("kvm1", "kvm2"):
        put(prepared_url, f"{name}-slot", parent=name)
        gpu = put(
            prepared_url,
            f"{name}-gpu",
            parent=f"{name}-slot",
            inventories={"CUSTOM_GPU": {"total": 1}},
        )
    with Store.open(prepared_url).write() as connection:
        key = providers.ids(connection, [gpu["uuid"]])[gpu["uuid"]]
        allocations.replace(connection, {uuid_of("train"): {key: {"CUSTOM_GPU": 1}}}, fleets.NOW)
        found = record.record(connection, {"kvm1": [], "kvm2": []}, LATER)
    assert told(found) == {"removed": ["kvm1"], "unreported": ["kvm2"]}
    assert sorted(fleets.generations(prepared_url)) == ["kvm2", "kvm2-gpu", "kvm2-slot", "kvm3"]


def test_a_new_node_does_not_take_the_name_of_another_provider(prepared_url):
    put(prepared_url, "kvm1")
    before = fleets.snapshot(prepared_url)
    with pytest.raises(
        DroverError, match="There is a resource provider kvm1 .* already.*nothing was recorded"
    ):
        fleets.discover(prepared_url, host("kvm1"))
    assert fleets.snapshot(prepared_url) == before
