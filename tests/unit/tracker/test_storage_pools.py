# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Further storage pools: each is counted once, with the disks on it, for any other storage of the
host."""

from __future__ import annotations

import math

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import scheduling
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import DrainQuestion
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import claims
from ansible_collections.drover.compute.plugins.plugin_utils._placement import (
    claims as claims_of_new,
)
from ansible_collections.drover.compute.plugins.plugin_utils._records.orders import MigrationLimits
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import (
    instances,
    orders,
    quotas,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import (
    node_data,
    pools_listing,
    record_device,
)
from ansible_collections.drover.compute.tests.unit.placement.test_sharing import (
    again,
    at_hand,
    counted,
    held,
)
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import NOW, host, selection, uuid_of

GIB = 1024**3
SSD, HDD, CEPH = "CUSTOM_DISK_GB_SSD", "CUSTOM_DISK_GB_HDD", "CUSTOM_DISK_GB_CEPH"
MONITORS = "rbd:mon1,mon2:/vms"


def pool(name, gb=500, kind="dir", **more):
    return {
        "name": name,
        "type": kind,
        "path": f"/srv/{name}",
        "capacity_gb": gb,
        "state": "running",
        **more,
    }


def ceph(gb=1000, **more):
    return {
        "name": "ceph",
        "type": "rbd",
        "path": None,
        "capacity_gb": gb,
        "state": "running",
        "shared_id": MONITORS,
        **more,
    }


def disk(path, gb, **more):
    return {
        "target": "vda",
        "device": "disk",
        "type": "file",
        "source": path,
        "path": path,
        "capacity_bytes": int(gb * GIB),
        **more,
    }


def network(image, gb, **more):
    return {
        "target": "vdb",
        "device": "disk",
        "type": "network",
        "source": f"rbd:vms/{image}",
        "origin": f"{MONITORS}/{image}",
        "capacity_bytes": None if gb is None else int(gb * GIB),
        **more,
    }


def guest(name, *disks, **more):
    return {
        "uuid": uuid_of(name),
        "name": name,
        "state": "running",
        "vcpus": 1,
        "memory_mb": 64,
        "disks": list(disks),
        **more,
    }


def machine(name, *guests, wanted=("ssd",), pools=None, **more):
    pools = [pool("ssd"), pool("hdd", 2000)] if pools is None else pools
    return host(
        name,
        *guests,
        instances_path="/var/lib/libvirt/images",
        pools=pools,
        storage_pools=list(wanted),
        **more,
    )


def traits(url):
    """Return {name of a provider: its traits}, without the traits of compute nodes."""
    table, providers = tables.provider_traits, tables.resource_providers
    query = (
        sa.select(providers.c.name, tables.traits.c.name)
        .join(table, table.c.provider_id == providers.c.id)
        .join(tables.traits, tables.traits.c.id == table.c.trait_id)
    )
    by_provider = {}
    with Store.open(url).read() as connection:
        for provider, name in connection.execute(query):
            if provider.startswith("pool/") or "_pool_" in provider:
                by_provider.setdefault(provider, set()).add(name)
    return by_provider


# The provider that counts each disk


def test_a_local_pool_is_a_provider_below_its_node(prepared_url):
    nodes = [
        machine(
            "kvm1",
            wanted=[
                "ssd",
                {
                    "name": "hdd",
                    "traits": ["STORAGE_DISK_HDD"],
                    "allocation_ratio": 2,
                    "reserved_gb": 100,
                },
            ],
        )
    ]
    fleets.discover(prepared_url, *nodes)
    inventories = at_hand(prepared_url)
    assert inventories["kvm1_pool_ssd"] == {SSD: (500, 0, 1.0, 0)}
    assert inventories["kvm1_pool_hdd"] == {HDD: (2000, 100, 2.0, 0)}
    assert inventories["kvm1"]["DISK_GB"] == (100, 0, 1.0, 0)
    assert traits(prepared_url) == {"kvm1_pool_hdd": {"STORAGE_DISK_HDD"}}
    again(prepared_url, *nodes)


def test_disks_count_where_they_are(prepared_url):
    web = guest(
        "web",
        disk("/var/lib/libvirt/images/a", 10),
        disk("/srv/ssd/b", 20),
        disk("/srv/ssd/c", 0.5),
        disk("/srv/hdd/d", 30),
    )
    nodes = [machine("kvm1", web)]
    fleets.discover(prepared_url, *nodes)
    # hdd is not chosen, so a disk there counts with the instances' storage, as before.
    assert held(prepared_url) == {
        "web": {"kvm1": {"VCPU": 1, "MEMORY_MB": 64, "DISK_GB": 40}, "kvm1_pool_ssd": {SSD: 21}}
    }
    assert counted(prepared_url)
    again(prepared_url, *nodes)


def test_a_pool_of_many_hosts_is_counted_once(prepared_url):
    nodes = [
        machine(
            f"kvm{number}",
            guest(f"g{number}", network(f"i{number}", 10)),
            wanted=["ceph"],
            pools=[ceph(1000 + number)],
        )
        for number in range(1, 4)
    ]
    fleets.discover(prepared_url, *nodes)
    assert at_hand(prepared_url)["pool/ceph"] == {CEPH: (1003, 0, 1.0, 30)}
    assert held(prepared_url)["g1"] == {
        "kvm1": {"VCPU": 1, "MEMORY_MB": 64},
        "pool/ceph": {CEPH: 10},
    }
    assert counted(prepared_url)
    for each in nodes:
        fleets.discover(prepared_url, each)
    assert at_hand(prepared_url)["pool/ceph"][CEPH][3] == 30


def test_a_pool_of_one_host_alone_that_comes_from_elsewhere_is_shared_from_the_start(prepared_url):
    nodes = [machine("kvm1", wanted=["ceph"], pools=[ceph()])]
    fleets.discover(prepared_url, *nodes)
    assert at_hand(prepared_url)["pool/ceph"] == {CEPH: (1000, 0, 1.0, 0)}
    again(prepared_url, *nodes)


def test_a_declared_pool_is_known_by_what_its_disks_say(prepared_url):
    nodes = [
        machine(
            "kvm1",
            guest("web", network("web", 10)),
            wanted=["ceph"],
            pools=[ceph()],
            shared_pools={"ceph": "our-ceph"},
        ),
    ]
    fleets.discover(prepared_url, *nodes)
    assert held(prepared_url)["web"]["pool/ceph"] == {CEPH: 10}


def test_a_volume_counts_by_the_name_of_its_pool(prepared_url):
    volume = {"target": "vda", "type": "volume", "source": "ceph/web", "capacity_bytes": 5 * GIB}
    fleets.discover(
        prepared_url, machine("kvm1", guest("web", volume), wanted=["ceph"], pools=[ceph()])
    )
    assert held(prepared_url)["web"]["pool/ceph"] == {CEPH: 5}


def test_a_pool_within_another_one_counts_for_itself(prepared_url):
    pools = [pool("ssd"), pool("inner", 50, path="/srv/ssd/inner")]
    nodes = [
        machine(
            "kvm1",
            guest("web", disk("/srv/ssd/inner/a", 3), disk("/srv/ssd/innermost", 4)),
            wanted=["ssd", "inner"],
            pools=pools,
        )
    ]
    fleets.discover(prepared_url, *nodes)
    taken = held(prepared_url)["web"]
    assert (taken["kvm1_pool_ssd"], taken["kvm1_pool_inner"]) == (
        {SSD: 4},
        {"CUSTOM_DISK_GB_INNER": 3},
    )


def test_a_cdrom_and_a_readonly_disk_take_nothing(prepared_url):
    one = guest(
        "web", disk("/srv/ssd/a.iso", 4, device="cdrom"), disk("/srv/ssd/b", 4, readonly=True)
    )
    fleets.discover(prepared_url, machine("kvm1", one))
    assert held(prepared_url) == {"web": {"kvm1": {"VCPU": 1, "MEMORY_MB": 64}}}


# Changes


def test_a_size_that_is_not_known_keeps_what_was_counted(prepared_url):
    fleets.discover(
        prepared_url,
        machine("kvm1", guest("web", network("web", 10)), wanted=["ceph"], pools=[ceph()]),
    )
    fleets.discover(
        prepared_url,
        machine("kvm1", guest("web", network("web", None)), wanted=["ceph"], pools=[ceph()]),
    )
    assert held(prepared_url)["web"]["pool/ceph"] == {CEPH: 10}


def test_a_disk_that_went_to_another_pool_counts_there(prepared_url):
    both = ["ssd", "hdd"]
    fleets.discover(
        prepared_url, machine("kvm1", guest("web", disk("/srv/ssd/a", 10)), wanted=both)
    )
    fleets.discover(
        prepared_url, machine("kvm1", guest("web", disk("/srv/hdd/a", 10)), wanted=both)
    )
    assert held(prepared_url)["web"] == {
        "kvm1": {"VCPU": 1, "MEMORY_MB": 64},
        "kvm1_pool_hdd": {HDD: 10},
    }
    assert counted(prepared_url)


def test_a_pool_that_is_not_chosen_any_more_goes(prepared_url):
    fleets.discover(prepared_url, machine("kvm1", guest("web", disk("/srv/ssd/a", 10))))
    fleets.discover(prepared_url, machine("kvm1", guest("web", disk("/srv/ssd/a", 10)), wanted=[]))
    assert held(prepared_url) == {"web": {"kvm1": {"VCPU": 1, "MEMORY_MB": 64, "DISK_GB": 10}}}
    nodes = [machine("kvm1", guest("web", disk("/srv/ssd/a", 10)), wanted=[])]
    fleets.discover(prepared_url, *nodes)
    assert set(at_hand(prepared_url)) == {"kvm1"}
    again(prepared_url, *nodes)


def test_a_shared_pool_that_nobody_chooses_any_more_goes(prepared_url):
    fleets.discover(prepared_url, machine("kvm1", wanted=["ceph"], pools=[ceph()]))
    fleets.discover(prepared_url, machine("kvm1", wanted=[], pools=[ceph()]))
    assert set(at_hand(prepared_url)) == {"kvm1"}


def test_nobody_gets_space_in_a_stopped_pool(prepared_url):
    fleets.discover(prepared_url, machine("kvm1", guest("web", disk("/srv/ssd/a", 10))))
    stopped = pool("ssd", 0, state="inactive")
    discovered = fleets.discover(
        prepared_url, machine("kvm1", guest("web", disk("/srv/ssd/a", 10)), pools=[stopped])
    )
    assert discovered["changed"]
    assert at_hand(prepared_url)["kvm1_pool_ssd"] == {SSD: (500, 500, 1.0, 10)}
    fleets.discover(prepared_url, machine("kvm1", guest("web", disk("/srv/ssd/a", 10))))
    assert at_hand(prepared_url)["kvm1_pool_ssd"] == {SSD: (500, 0, 1.0, 10)}


def test_a_pool_that_was_never_seen_running_has_no_space(prepared_url):
    nodes = [machine("kvm1", pools=[pool("ssd", 0, state="inactive")])]
    fleets.discover(prepared_url, *nodes)
    assert at_hand(prepared_url)["kvm1_pool_ssd"] == {}
    again(prepared_url, *nodes)


def test_a_shared_pool_whose_size_a_later_host_knows_counts_what_is_there_already(prepared_url):
    """The store is new: the first host has guests in the pool, and its pool does not run."""
    fleets.discover(
        prepared_url,
        machine(
            "kvm1",
            guest("web", network("a", 30)),
            wanted=["ceph"],
            pools=[ceph(0, state="inactive")],
        ),
    )
    assert at_hand(prepared_url)["pool/ceph"] == {}
    fleets.discover(prepared_url, machine("kvm2", wanted=["ceph"], pools=[ceph()]))
    assert at_hand(prepared_url)["pool/ceph"] == {CEPH: (1000, 0, 1.0, 30)} and counted(
        prepared_url
    )
    wanted = {"resources": {"VCPU": 1, "MEMORY_MB": 64, CEPH: 971}}
    with pytest.raises(DroverError, match="used 30 of 1000"):
        fleets.claim(prepared_url, {**selection("more", "kvm2"), **wanted})


def test_disks_that_count_as_nothing_are_named(prepared_url):
    """The size of a disk is not known: the host does not report it, and the store has no claim for
    it."""
    stopped = {"wanted": ["ceph"], "pools": [ceph(0, state="inactive")]}
    discovered = fleets.discover(
        prepared_url, machine("kvm1", guest("web", network("a", None)), **stopped)
    )
    assert discovered["unmeasured"] == [
        "Instance web on kvm1: the size of its disks in the storage pool ceph is not known, so they"
        " count as nothing and others may get their space. On kvm1 start the pool (virsh pool-start"
        " ceph), or read it anew if it runs (virsh pool-refresh ceph), and see that the disks are"
        " there, and run drover.compute.discover again."
    ]
    known = machine("kvm1", guest("web", network("a", 30)), wanted=["ceph"], pools=[ceph()])
    assert fleets.discover(prepared_url, known)["unmeasured"] == []
    # From now on the store knows the size, for any report of the host.
    assert (
        fleets.discover(prepared_url, machine("kvm1", guest("web", network("a", None)), **stopped))[
            "unmeasured"
        ]
        == []
    )
    assert held(prepared_url)["web"]["pool/ceph"] == {CEPH: 30}


def test_a_file_of_the_instances_storage_that_does_not_answer_is_named(prepared_url):
    lost = guest("web", disk("/var/lib/libvirt/images/a", 0, capacity_bytes=None))
    (sentence,) = fleets.discover(prepared_url, machine("kvm1", lost))["unmeasured"]
    assert (
        "the size of its disks in the instances' storage is not known" in sentence
        and "On kvm1 see that the disks are there" in sentence
    )
    assert (
        fleets.discover(
            prepared_url, machine("kvm1", guest("web", disk("/var/lib/libvirt/images/a", 5)))
        )["unmeasured"]
        == []
    )
    assert fleets.discover(prepared_url, machine("kvm1", lost))["unmeasured"] == []
    assert held(prepared_url)["web"]["kvm1"]["DISK_GB"] == 5


def test_what_an_operator_set_stays(prepared_url):
    nodes = [machine("kvm1", wanted=["ceph"], pools=[ceph()])]
    fleets.discover(prepared_url, *nodes)
    with Store.open(prepared_url).write() as connection:
        known = tables.resource_providers
        ours = sa.select(known.c.id).where(known.c.name == "pool/ceph").scalar_subquery()
        connection.execute(
            sa.update(tables.inventories)
            .where(tables.inventories.c.provider_id == ours)
            .values(reserved=7, allocation_ratio=3.0)
        )
    again(prepared_url, *nodes)
    fleets.discover(
        prepared_url,
        machine(
            "kvm1",
            wanted=[{"name": "ceph", "reserved_gb": 9, "allocation_ratio": 1.5}],
            pools=[ceph()],
        ),
    )
    assert at_hand(prepared_url)["pool/ceph"] == {CEPH: (1000, 9, 1.5, 0)}


def test_traits_of_a_shared_pool_follow_the_option(prepared_url):
    fleets.discover(
        prepared_url,
        machine("kvm1", wanted=[{"name": "ceph", "traits": ["CUSTOM_FAST"]}], pools=[ceph()]),
    )
    assert traits(prepared_url) == {"pool/ceph": {"MISC_SHARES_VIA_AGGREGATE", "CUSTOM_FAST"}}
    fleets.discover(prepared_url, machine("kvm1", wanted=["ceph"], pools=[ceph()]))
    assert traits(prepared_url) == {"pool/ceph": {"MISC_SHARES_VIA_AGGREGATE"}}


# Refusals


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"wanted": "ssd"}, "must be a list of names of storage pools"),
        ({"wanted": ["ssd", "ssd"]}, "cannot be told from the pool ssd"),
        ({"wanted": ["a-b", "a_b"]}, "cannot be told from the pool a-b"),
        ({"wanted": [{"name": ""}]}, "the name of a pool must be a text"),
        ({"wanted": [{"nam": "ssd"}]}, "nam"),
        ({"wanted": [["ssd"]]}, "must be a name or a mapping"),
        (
            {"wanted": [{"name": "ssd", "traits": ["ssd"]}]},
            "traits must be a list of names such as",
        ),
        (
            {"wanted": [{"name": "ssd", "traits": "CUSTOM_A"}]},
            "traits must be a list of names such as",
        ),
        (
            {"wanted": [{"name": "ssd", "allocation_ratio": 0}]},
            "allocation_ratio must be a number above 0",
        ),
        (
            {"wanted": [{"name": "ssd", "allocation_ratio": True}]},
            "allocation_ratio must be a number above 0",
        ),
        ({"wanted": [{"name": "ssd", "reserved_gb": -1}]}, "reserved_gb"),
        (
            {"wanted": [{"name": "ssd", "reserved_gb": 501}]},
            "501 GiB cannot be reserved of the 500 it has",
        ),
        (
            {"pools": [pool("ssd", path="/var/lib/libvirt/images")]},
            "counts as DISK_GB, so its space would count twice",
        ),
        (
            {"pools": [pool("ssd", path="/var/lib/")]},
            "counts as DISK_GB, so its space would count twice",
        ),
        (
            {
                "pools": [pool("ssd", shared_id="nfs:f:/a"), pool("hdd", shared_id="nfs:f:/a")],
                "wanted": ["ssd", "hdd"],
            },
            "is the same storage as",
        ),
    ],
)
def test_what_cannot_be_is_refused(prepared_url, more, sentence):
    node = {
        **machine("kvm1", pools=more.get("pools")),
        "storage_pools": more.get("wanted", ["ssd"]),
    }
    with pytest.raises(DroverError) as refused:
        fleets.discover(prepared_url, node)
    assert sentence in str(refused.value)
    assert at_hand(prepared_url) == {}


def test_one_storage_by_two_names_is_refused(prepared_url):
    one = machine("kvm1", wanted=["ceph"], pools=[ceph()])
    other = machine("kvm2", wanted=["rbd"], pools=[ceph(name="rbd")])
    with pytest.raises(
        DroverError, match="would count twice, as the storage pool ceph and as the storage pool rbd"
    ):
        fleets.discover(prepared_url, one, other)
    fleets.discover(prepared_url, one)
    with pytest.raises(DroverError, match="would count twice"):
        fleets.discover(prepared_url, other)


def test_instances_storage_of_one_host_is_no_further_pool_of_another(prepared_url):
    nfs = pool("nfs", path="/srv/vms", kind="netfs", shared_id="nfs:filer:/vms")
    instances = [host(name, instances_path="/srv/vms", pools=[nfs]) for name in ("kvm1", "kvm2")]
    further = machine("kvm3", wanted=["nfs"], pools=[nfs])
    with pytest.raises(DroverError, match="would count twice, as"):
        fleets.discover(prepared_url, *instances, further)
    fleets.discover(prepared_url, *instances)
    with pytest.raises(
        DroverError,
        match="would count twice, as the instances' storage and as the storage pool nfs",
    ):
        fleets.discover(prepared_url, further)


def test_a_pool_that_the_host_does_not_have_is_said(prepared_url):
    reports = node_data.reports([machine("kvm1", wanted=["sdd"])], "unused", {})
    assert reports["kvm1"][0]["warnings"] == [
        "Compute node kvm1: storage_pools (drover_storage_pools) names the pool sdd, which the host"
        " does not have (it has hdd, ssd). Correct the name, or define the pool there."
    ]


@pytest.mark.parametrize(
    ("facts", "remedy"),
    [
        (
            {
                "missing_drivers": [
                    {
                        "driver": "storage",
                        "package": "libvirt-daemon-driver-storage",
                        "daemon": None,
                    }
                ]
            },
            (
                "Install libvirt-daemon-driver-storage there, and restart libvirtd (its guests run"
                " on)."
            ),
        ),
        (
            {"missing_pool_types": {"rbd": "libvirt-daemon-driver-storage-rbd"}},
            (
                "Correct the name, or define the pool there (a pool of the type rbd needs"
                " libvirt-daemon-driver-storage-rbd)."
            ),
        ),
    ],
)
def test_a_pool_that_libvirt_cannot_have_is_said_with_its_package(facts, remedy):
    reported = {"hypervisor_hostname": "kvm1", "cpu": {"count": 2}, "memory_mb": 1024, **facts}
    (warning,) = fleets.described(reported, {"host": "kvm1", "storage_pools": ["vms"]})["warnings"]
    assert "names the pool vms, which the host does not have" in warning and warning.endswith(
        remedy
    )


# Claims, moves, attached disks


def test_a_claim_takes_from_the_pool_and_no_other(prepared_url):
    fleets.discover(prepared_url, machine("kvm1"), machine("kvm2", wanted=[]))
    amounts = {"resources": {"VCPU": 1, "MEMORY_MB": 64, SSD: 400}}
    fleets.claim(prepared_url, {**selection("web", "kvm1"), **amounts})
    assert held(prepared_url)["web"] == {
        "kvm1": {"VCPU": 1, "MEMORY_MB": 64},
        "kvm1_pool_ssd": {SSD: 400},
    }
    with pytest.raises(DroverError):
        fleets.claim(prepared_url, {**selection("more", "kvm1"), **amounts})
    with pytest.raises(DroverError):
        fleets.claim(prepared_url, {**selection("less", "kvm2"), **amounts})
    # DISK_GB never comes from a pool.
    with pytest.raises(DroverError):
        fleets.claim(prepared_url, selection("plain", "kvm1", disk_gb=101))


def test_what_was_claimed_is_what_discovery_finds(prepared_url):
    fleets.discover(prepared_url, machine("kvm1"))
    wanted = {"resources": {"VCPU": 1, "MEMORY_MB": 64, "DISK_GB": 10, SSD: 20}}
    fleets.claim(prepared_url, {**selection("web", "kvm1"), **wanted})
    before = held(prepared_url)
    fleets.discover(
        prepared_url,
        machine(
            "kvm1", guest("web", disk("/var/lib/libvirt/images/a", 10), disk("/srv/ssd/a", 20))
        ),
    )
    assert held(prepared_url) == before


def test_a_disk_that_is_attached_is_claimed_in_its_pool(prepared_url):
    web = guest("web", disk("/var/lib/libvirt/images/a", 10))
    fleets.discover(prepared_url, machine("kvm1", web))
    more = {**web, "disks": [*web["disks"], disk("/srv/ssd/b", 490)]}
    with Store.open(prepared_url).write() as connection:
        record_device.claim(connection, web["uuid"], "kvm1", more, NOW)
    assert held(prepared_url)["web"]["kvm1_pool_ssd"] == {SSD: 490}
    too_much = {**web, "disks": [*more["disks"], disk("/srv/ssd/c", 20)]}
    with pytest.raises(DroverError, match="allocation_ratio of the pool"):
        with Store.open(prepared_url).write() as connection:
            record_device.claim(connection, web["uuid"], "kvm1", too_much, NOW)
    with Store.open(prepared_url).write() as connection:
        record_device.record_devices(connection, web["uuid"], "kvm1", more, NOW)
    assert held(prepared_url)["web"] == {
        "kvm1": {"VCPU": 1, "MEMORY_MB": 64, "DISK_GB": 10},
        "kvm1_pool_ssd": {SSD: 490},
    }
    assert counted(prepared_url)


def test_a_disk_that_moves_is_claimed_in_both_pools_until_it_is_there(prepared_url):
    both = ["ssd", "hdd"]
    web, moved = guest("web", disk("/srv/ssd/a", 10)), guest("web", disk("/srv/hdd/a", 10))
    fleets.discover(prepared_url, machine("kvm1", web, wanted=both))
    with Store.open(prepared_url).write() as connection:
        orders.begin(connection, web["uuid"], orders.MOVING_DISK, uuid_of("order"))
        record_device.claim(connection, web["uuid"], "kvm1", moved, NOW)
    in_both = {
        "kvm1": {"VCPU": 1, "MEMORY_MB": 64},
        "kvm1_pool_ssd": {SSD: 10},
        "kvm1_pool_hdd": {HDD: 10},
    }
    assert held(prepared_url)["web"] == in_both
    # A discovery at this point sees the old file, and frees neither disk.
    fleets.discover(prepared_url, machine("kvm1", web, wanted=both))
    assert held(prepared_url)["web"] == in_both
    with Store.open(prepared_url).write() as connection:
        orders.end(connection, web["uuid"], uuid_of("order"))
        record_device.record_devices(connection, web["uuid"], "kvm1", moved, NOW)
    assert held(prepared_url)["web"] == {
        "kvm1": {"VCPU": 1, "MEMORY_MB": 64},
        "kvm1_pool_hdd": {HDD: 10},
    }
    assert counted(prepared_url)


def test_a_move_takes_nothing_more_of_a_shared_pool_that_is_too_full(prepared_url):
    guests = [guest(name, network(name, 30)) for name in ("web", "db")]
    fleets.discover(
        prepared_url,
        machine("kvm1", *guests, wanted=["ceph"], pools=[ceph(50)]),
        machine("kvm2", wanted=["ceph"], pools=[ceph(50)]),
    )
    before = held(prepared_url)["web"]["pool/ceph"]
    with Store.open(prepared_url).write(together=True) as connection:
        claims.begin(connection, uuid_of("web"), "kvm2", "kvm2", "live-migration", NOW, "kvm1")
    assert held(prepared_url)["web"] == {"kvm2": {"VCPU": 1, "MEMORY_MB": 64}, "pool/ceph": before}
    assert at_hand(prepared_url)["pool/ceph"][CEPH][3] == 60
    # A new disk there is refused, as before.
    with pytest.raises(DroverError, match="storage pool ceph .GiB.: asked 1, used 60 of 50"):
        fleets.claim(
            prepared_url,
            {**selection("new", "kvm2"), "resources": {"VCPU": 1, "MEMORY_MB": 64, CEPH: 1}},
        )


FAST = {f"resources_{SSD}:{SSD}": "20", f"trait_{SSD}:CUSTOM_FAST": "required"}


def fast(name, *guests, traits=("CUSTOM_FAST",), **more):
    return machine(name, *guests, wanted=[{"name": "ssd", "traits": list(traits)}, "hdd"], **more)


def planned(url, host="kvm1"):
    """Plan a drain; return {instance: destination} and {instance: reason why it cannot move}."""
    with Store.open(url).read() as connection:
        plan = DrainQuestion(Policy.from_mapping({}), MigrationLimits()).plan(connection, [host])
    return {each["name"]: each["host"] for each in plan["moves"]}, {
        each["name"]: each["reason"] for each in plan["unmovable"]
    }


def test_a_drain_keeps_the_traits_that_a_disk_asked_of_its_pool(prepared_url):
    web = guest("web", disk("/srv/ssd/a", 20))
    roomy = {"vcpus": 64, "memory_mb": 65536}
    fleets.discover(prepared_url, fast("kvm1"), fast("kvm2", traits=(), **roomy), fast("kvm3"))
    given = {"resources": {"VCPU": 1, "MEMORY_MB": 64, SSD: 20}, "extra_specs": FAST}
    fleets.claim(prepared_url, {**selection("web", "kvm1"), **given})
    fleets.build(prepared_url)
    fleets.discover(prepared_url, fast("kvm1", web), fast("kvm2", traits=(), **roomy), fast("kvm3"))
    assert planned(prepared_url) == ({"web": "kvm3"}, {})
    fleets.discover(prepared_url, fast("kvm3", traits=["CUSTOM_OTHER"]))
    moves, unmovable = planned(prepared_url)
    assert moves == {} and "traits of storage pools rejected 2" in unmovable["web"]
    # The disk is in another pool by now, and the request has nothing for that pool.
    fleets.discover(prepared_url, fast("kvm1", guest("web", disk("/srv/hdd/a", 20))))
    assert planned(prepared_url)[1] == {}


def test_a_shared_pool_has_its_traits_on_every_host(prepared_url):
    web = guest("web", network("a", 20))
    specs = {f"resources_{CEPH}:{CEPH}": "20", f"trait_{CEPH}:CUSTOM_FAST": "required"}

    def node(name, *guests, traits=("CUSTOM_FAST",), wanted=True):
        return machine(
            name,
            *guests,
            wanted=[{"name": "ceph", "traits": list(traits)}] if wanted else [],
            pools=[ceph()],
        )

    fleets.discover(prepared_url, node("kvm1"), node("kvm2", wanted=False), node("kvm3"))
    fleets.claim(
        prepared_url,
        {
            **selection("web", "kvm1"),
            "resources": {"VCPU": 1, "MEMORY_MB": 64, CEPH: 20},
            "extra_specs": specs,
        },
    )
    fleets.build(prepared_url)
    fleets.discover(prepared_url, node("kvm1", web))
    assert planned(prepared_url) == ({"web": "kvm3"}, {})


# Any fleet


@st.composite
def fleets_of_pools(draw):
    """Return hosts with local pools and one shared by all; guests with disks on any of them; the
    pools that each host chose."""
    nodes, expected = [], {}
    for number in range(draw(st.integers(1, 3))):
        name = f"kvm{number}"
        chosen = draw(st.sets(st.sampled_from(["ssd", "hdd", "ceph"])))
        guests = []
        for count in range(draw(st.integers(0, 3))):
            guest_name = f"{name}-{count}"
            sizes = {}
            disks = []
            for at in range(draw(st.integers(0, 4))):
                place, size = (
                    draw(st.sampled_from(["ssd", "hdd", "ceph", "own"])),
                    draw(st.integers(1, 40)) / 4,
                )
                disks.append(
                    network(f"{guest_name}-{at}", size)
                    if place == "ceph"
                    else disk(
                        (
                            f"/srv/{place}/{guest_name}-{at}"
                            if place != "own"
                            else f"/var/lib/libvirt/images/{guest_name}-{at}"
                        ),
                        size,
                    )
                )
                if place == "ceph" and place not in chosen:
                    # The disk takes nothing of the host, nor of a pool that counts.
                    continue
                where = (
                    {"ceph": "pool/ceph"}.get(place, f"{name}_pool_{place}")
                    if place in chosen
                    else name
                )
                sizes[where] = sizes.get(where, 0) + size
            guests.append(guest(guest_name, *disks))
            expected[guest_name] = {where: math.ceil(size) for where, size in sizes.items()}
        nodes.append(
            machine(name, *guests, wanted=sorted(chosen), pools=[pool("ssd"), pool("hdd"), ceph()])
        )
    return nodes, expected


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(fleets_of_pools(), fleets_of_pools())
def test_allocations_per_pool_are_what_its_storage_lists(prepared_url, first, second):
    fleets.empty(prepared_url)
    for nodes, expected in (first, second, first):
        host_names = {node["host"] for node in nodes}
        # Hosts of an earlier fleet are read again, and have no domains.
        gone = [
            machine(name, wanted=[], pools=[])
            for name in ("kvm0", "kvm1", "kvm2")
            if name not in host_names
        ]
        fleets.discover(prepared_url, *nodes, *gone)
        by_guest = held(prepared_url)
        for guest_name, places in expected.items():
            amounts = {
                provider: sum(n for name, n in amounts.items() if "DISK_GB" in name)
                for provider, amounts in by_guest.get(guest_name, {}).items()
            }
            assert {provider: n for provider, n in amounts.items() if n} == places, guest_name
        assert counted(prepared_url)


#: The numbers of the folders of two pools and of the instances, and the words for the folders that
#: share a file system.
SYSTEMS = {
    "each has its own": (("a/1", "b/1", "c/1"), []),
    "two pools": (("a/1", "a/2", "c/1"), ["hdd is on one file system with the storage pool ssd"]),
    "a pool and the instances": (
        ("a/1", "b/1", "a/9"),
        ["ssd is on one file system with the instances' path /var/lib/libvirt/images"],
    ),
    "not known": ((None, None, None), []),
}


def test_f3_a_disk_that_only_the_running_guest_has_takes_room_too(prepared_url):
    """The disk takes room in its pool, as such a disk does in the instances' storage."""
    hot = disk("/srv/ssd/hot", 7, target="vdb", only="running")
    fleets.discover(
        prepared_url, machine("kvm1", guest("web", disk("/srv/ssd/a", 10), running_disks=[hot]))
    )
    assert held(prepared_url)["web"]["kvm1_pool_ssd"] == {SSD: 17}


@pytest.mark.parametrize("which", SYSTEMS)
def test_f22_space_that_counts_twice_is_said(which):
    (ssd, hdd, own), words = SYSTEMS[which]
    storage = {"instances_path": "/var/lib/libvirt/images", "folder_id": own, "total_gb": 100}
    pools = [pool("ssd", folder_id=ssd), pool("hdd", folder_id=hdd)]
    reported = {
        "hypervisor_hostname": "kvm1",
        "cpu": {"count": 4},
        "memory_mb": 4096,
        "domains": [],
        "storage": storage,
        "pools": pools,
    }
    warnings = fleets.described(reported, {"host": "kvm1", "storage_pools": ["ssd", "hdd"]})[
        "warnings"
    ]
    assert len(warnings) == len(words) and all(
        each in warnings[number] for number, each in enumerate(words)
    ), warnings


def test_a_pool_is_named_as_people_have_written_it(prepared_url):
    """Its class has only capital letters and digits, so the output had fast_ssd for Fast-SSD."""
    resource_class = "CUSTOM_DISK_GB_FAST_SSD"
    guests = [guest("web", disk("/srv/Fast-SSD/web.qcow2", 100))]
    fleets.discover(
        prepared_url,
        machine("kvm1", *guests, wanted=["Fast-SSD"], pools=[pool("Fast-SSD", 500)]),
        machine("kvm2", wanted=[]),
    )
    store = Store.open(prepared_url)
    with store.read() as connection:
        assert instances.pool_disks(connection) == {uuid_of("web"): {"Fast-SSD": 100}}
        assert [each["name"] for each in pools_listing.of_fleet(connection)] == ["Fast-SSD"]
        request = {
            "name": "big",
            "uuid": uuid_of("big"),
            "vcpus": 1,
            "memory_mb": 64,
            "extra_specs": {f"resources:{resource_class}": "900"},
        }
        with pytest.raises(DroverError, match=r"storage pool Fast-SSD \(GiB\)"):
            scheduling.decide(connection, [request], Policy.from_mapping({}), NOW)
    chosen = selection("big", "kvm1")
    chosen["resources"][resource_class] = 900
    with (
        pytest.raises(DroverError, match=r"storage pool Fast-SSD \(GiB\): asked 900"),
        store.write() as connection,
    ):
        claims_of_new.claim(connection, [chosen], NOW)
    with store.write() as connection:
        quotas.ensure(connection, "shop", {resource_class: 10})
    chosen = selection("small", "kvm1", project="shop")
    chosen["resources"][resource_class] = 20
    with (
        pytest.raises(DroverError, match=r"a limit of 10 GiB for the storage pool Fast-SSD\."),
        store.write() as connection,
    ):
        claims_of_new.claim(connection, [chosen], NOW)
