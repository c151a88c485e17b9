# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cells and devices of hosts in the store, and the parts of them that domains have."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement import allocations
from ansible_collections.drover.compute.plugins.plugin_utils._planner import movability
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import (
    devices,
    host_columns,
    numa,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import (
    instances_for_plans,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import NOW, uuid_of
from ansible_collections.drover.compute.tests.unit.tracker import machines
from ansible_collections.drover.compute.tests.unit.tracker.machines import domain, node, pins

SETS = {
    "cpu_shared_set": "0,8,4,12",
    "cpu_dedicated_set": "1-3,9-11,5-7,13-15",
    "cpu_allocation_ratio": 1.0,
}
NONE = dict.fromkeys(numa.POLICIES)
ISOLATED = {"cpu_policy": "dedicated", "thread_policy": "isolate"}
GPU = [{"vendor_id": "10de", "product_id": "2204"}]
FUNCTIONS = [
    {
        "address": "0000:3b:00.0",
        "product_id": "154c",
        "resource_class": "fast-nic",
        "traits": ["blue"],
    }
]


def columns(url):
    query = host_columns.ColumnQuery(columns={"numa_cells", *host_columns.BY_NODE})
    with Store.open(url).read() as connection:
        found = host_columns.read_columns(connection, NOW, 0, query)
    return {name: found[name][found["host"].index("kvm1")] for name in query.columns}


def held(url, *names):
    """Return the resources that instances hold: {name of the provider: {class: amount}}."""
    with Store.open(url).read() as connection:
        names = [uuid_of(each) for each in names]
        providers = {
            row.id: row.name for row in connection.execute(sa.select(tables.resource_providers))
        }
        found = allocations.read(connection, names)
    return {providers[key]: amounts for each in found.values() for key, amounts in each.items()}


def providers(url):
    """Return {name: (name of the parent, {class: total}, traits)} of the providers that are not
    roots."""
    with Store.open(url).read() as connection:
        rows = {row.id: row for row in connection.execute(sa.select(tables.resource_providers))}
        classes, names = tables.resource_classes, tables.traits
        totals, traits = tables.inventories, tables.provider_traits
        amounts = connection.execute(
            sa.select(totals.c.provider_id, classes.c.name, totals.c.total).join(classes)
        ).all()
        words = connection.execute(sa.select(traits.c.provider_id, names.c.name).join(names)).all()
    return {
        row.name: (
            rows[row.parent_id].name,
            {name: total for key, name, total in amounts if key == row.id},
            {name for key, name in words if key == row.id},
        )
        for row in rows.values()
        if row.parent_id
    }


def owners(url):
    return {each["address"]: each["owner"] for each in columns(url)["pci_devices"]}


def test_a_domain_pinned_by_hand_takes_pcpu(prepared_url):
    fleets.discover(
        prepared_url,
        node(
            domain("web", 4, 1024, pins(1, 9, "0,8", "0,8", cell=0, emulator="2")),
            domain("db", 2, 64),
            options=SETS,
        ),
    )
    assert held(prepared_url, "web")["kvm1"] == {"PCPU": 3, "VCPU": 2, "MEMORY_MB": 1024}
    assert held(prepared_url, "db")["kvm1"] == {"VCPU": 2, "MEMORY_MB": 64}
    (allocation,) = columns(prepared_url)["numa_allocations"]
    cells = [
        {
            "guest": 0,
            "host": 0,
            "memory_mb": 1024,
            "page_kb": None,
            "shared": [2, 3],
            "pins": {"0": 1, "1": 9},
            "reserved": [2],
            **NONE,
        }
    ]
    assert allocation == {"uuid": uuid_of("web"), "cells": cells}
    # The size of the instance is unchanged.
    with Store.open(prepared_url).read() as connection:
        assert (
            connection.execute(
                sa.select(tables.instances.c.vcpus).where(tables.instances.c.name == "web")
            ).scalar()
            == 4
        )


def test_what_a_domain_had_goes_with_its_pins_and_with_itself(prepared_url):
    pinned, free = domain("web", 1, 64, pins(1, cell=0)), domain("web", 1, 64)
    assert fleets.discover(prepared_url, node(pinned, options=SETS))["changed"]
    assert not fleets.discover(prepared_url, node(pinned, options=SETS))["changed"]
    assert fleets.discover(
        prepared_url, node({**pinned, "numa": machines.numa(pins(2, cell=0))}, options=SETS)
    )["changed"]
    assert columns(prepared_url)["numa_allocations"][0]["cells"][0]["pins"] == {"0": 2}
    assert fleets.discover(prepared_url, node(free, options=SETS))["changed"]
    assert columns(prepared_url)["numa_allocations"] == []
    assert held(prepared_url, "web")["kvm1"] == {"VCPU": 1, "MEMORY_MB": 64}


def test_a_host_that_no_longer_shows_a_domain_keeps_its_pins(prepared_url):
    """The place of the domain is not known: it may come back on this host, with the same CPUs."""
    fleets.discover(prepared_url, node(domain("web", 1, 64, pins(1, cell=0)), options=SETS))
    assert fleets.discover(prepared_url, node(options=SETS))["missing"] == ["web"]
    assert len(columns(prepared_url)["numa_allocations"]) == 1
    with Store.open(prepared_url).write() as connection:
        allocations.replace(connection, {uuid_of("web"): {}}, NOW)
    assert columns(prepared_url)["numa_allocations"] == []


def test_an_instance_that_came_to_another_host_leaves_its_cpus(prepared_url):
    fleets.discover(
        prepared_url,
        node(
            domain("web", 1, 64, pins(1, cell=0), [("pci", "0000:85:00.0")]),
            options={**SETS, "pci_device_specs": GPU},
        ),
    )
    fleets.discover(
        prepared_url,
        node(options={**SETS, "pci_device_specs": GPU}),
        node(domain("web", 1, 64, pins(5, cell=1)), host="kvm2", options=SETS),
    )
    with Store.open(prepared_url).read() as connection:
        assert [len(each) for each in numa.read(connection).values()] == [1]
    assert columns(prepared_url)["numa_allocations"] == [] and owners(prepared_url) == {}


def test_what_was_claimed_stays_until_the_host_shows_it(prepared_url):
    options = {**SETS, "pci_device_specs": GPU}
    fleets.discover(prepared_url, node(options=options, **machines.devices()))
    fleets.claim(prepared_url, fleets.selection("web", "kvm1"))
    cells = [
        {
            "guest": 0,
            "host": 0,
            "memory_mb": 64,
            "page_kb": None,
            "shared": [],
            "pins": {"0": 1},
            "reserved": [],
            **ISOLATED,
        }
    ]
    with Store.open(prepared_url).write() as connection:
        (key,) = connection.execute(sa.select(tables.compute_nodes.c.id)).scalars()
        numa.insert(connection, {(key, uuid_of("web")): cells})
        devices.set_owners(connection, {key: {"0000:85:00.0": [uuid_of("web")]}}, ())
    fleets.discover(prepared_url, node(options=options, **machines.devices()))
    assert columns(prepared_url)["numa_allocations"] == [{"uuid": uuid_of("web"), "cells": cells}]
    assert owners(prepared_url) == {"0000:85:00.0": uuid_of("web")}
    # The domain does not show the thread policy, so the policy stays with the same pins, and is
    # removed with others.
    shown = domain("web", 1, 64, pins(1, cell=0), [("pci", "0000:85:00.0")])
    for pinned, policy in (
        (shown, "isolate"),
        ({**shown, "numa": machines.numa(pins(2, cell=0))}, None),
    ):
        fleets.discover(prepared_url, node(pinned, options=options, **machines.devices()))
        assert columns(prepared_url)["numa_allocations"][0]["cells"][0]["thread_policy"] == policy
    with Store.open(prepared_url).write() as connection:
        allocations.replace(connection, {uuid_of("web"): {}}, NOW)
    assert owners(prepared_url) == {"0000:85:00.0": None}


def test_nothing_is_given_away_unasked(prepared_url):
    fleets.discover(
        prepared_url,
        node(domain("web", 1, 64, devices=[("pci", "0000:85:00.0")]), **machines.devices()),
    )
    node_columns = columns(prepared_url)
    assert (node_columns["pci_devices"], node_columns["mdev_types"]) == ([], [])
    # Mediated devices on the host are known; no option names the resource class of their type.
    assert len(node_columns["mdevs"]) == 2


def test_devices_with_their_owners(prepared_url):
    spec = [*GPU, {"address": "0000:43:00.2", "physical_network": "physnet1", "trusted": "true"}]
    domains = [
        domain("web", 1, 64, devices=[("pci", "0000:85:00.0"), ("vdpa", "/dev/vhost-vdpa-0")]),
        domain("db", 1, 64, devices=[("mdev", "4b20d080-1b54-4048-85b3-a6a62d165c01")]),
    ]
    options = {"pci_device_specs": spec, "mdev_types": ["nvidia-11"]}
    fleets.discover(prepared_url, node(*domains, options=options, **machines.devices()))
    node_columns = columns(prepared_url)
    assert node_columns["pci_devices"][1] == {
        "address": "0000:85:00.0",
        "vendor_id": "10de",
        "product_id": "2204",
        "device_class": "030000",
        "numa_node": None,
        "dev_type": "type-PCI",
        "parent_addr": None,
        "iommu_group": 81,
        "interface": None,
        "tags": {},
        "resource_class": None,
        "traits": [],
        "reported": True,
        "owner": uuid_of("web"),
    }
    vdpa = node_columns["pci_devices"][0]
    assert (vdpa["dev_type"], vdpa["owner"], vdpa["parent_addr"]) == (
        "vdpa",
        uuid_of("web"),
        "0000:43:00.0",
    )
    assert vdpa["tags"]["physical_network"] == "physnet1"
    # 14 can still be made, and one exists.
    assert node_columns["mdev_types"] == [
        {"parent": "pci_0000_84_00_0", "type": "nvidia-11", "resource_class": "VGPU", "total": 15}
    ]
    assert [each["owner"] for each in node_columns["mdevs"] if each["type"] == "nvidia-11"] == [
        uuid_of("db")
    ]


def test_a_device_that_vanishes_is_kept_while_somebody_has_it(prepared_url):
    user = domain("web", 1, 64, devices=[("pci", "0000:85:00.0")])
    options = {"pci_device_specs": [{"vendor_id": "10de"}]}
    fleets.discover(prepared_url, node(user, options=options, **machines.devices()))
    assert len(owners(prepared_url)) == 5
    gone = {**machines.devices(), "pci_devices": []}
    assert fleets.discover(prepared_url, node(user, options=options, **gone))["changed"]
    (left,) = columns(prepared_url)["pci_devices"]
    assert (left["address"], left["reported"], left["owner"]) == (
        "0000:85:00.0",
        False,
        uuid_of("web"),
    )
    assert fleets.discover(prepared_url, node(domain("web", 1, 64), options=options, **gone))[
        "changed"
    ]
    assert columns(prepared_url)["pci_devices"] == []


def test_a_device_in_two_domains_stays_with_the_first(prepared_url):
    options = {"pci_device_specs": GPU}
    one, two = (domain(name, 1, 64, devices=[("pci", "0000:85:00.0")]) for name in ("web", "db"))
    fleets.discover(prepared_url, node(one, options=options, **machines.devices()))
    fleets.discover(prepared_url, node(one, two, options=options, **machines.devices()))
    assert owners(prepared_url) == {"0000:85:00.0": uuid_of("web")}


def test_providers_of_devices(prepared_url):
    options = {
        "pci_device_specs": [*FUNCTIONS, *GPU],
        "pci_report_in_placement": True,
        "mdev_types": [{"type": "nvidia-11"}],
    }
    users = [
        domain("web", 1, 64, devices=[("pci", "0000:3b:02.1"), ("pci", "0000:85:00.0")]),
        domain("db", 1, 64, devices=[("mdev", "4b20d080-1b54-4048-85b3-a6a62d165c01")]),
    ]
    assert fleets.discover(prepared_url, node(*users, options=options, **machines.devices()))[
        "changed"
    ]
    traits = {"COMPUTE_MANAGED_PCI_DEVICE", "OWNER_NOVA"}
    assert providers(prepared_url) == {
        "kvm1_0000:3B:00.0": ("kvm1", {"CUSTOM_FAST_NIC": 2}, traits | {"CUSTOM_BLUE"}),
        "kvm1_0000:85:00.0": ("kvm1", {"CUSTOM_PCI_10DE_2204": 1}, traits),
        "kvm1_pci_0000_84_00_0": ("kvm1", {"VGPU": 15}, set()),
    }
    own = {"kvm1": {"VCPU": 1, "MEMORY_MB": 64}}
    assert held(prepared_url, "web") == {
        **own,
        "kvm1_0000:3B:00.0": {"CUSTOM_FAST_NIC": 1},
        "kvm1_0000:85:00.0": {"CUSTOM_PCI_10DE_2204": 1},
    }
    assert held(prepared_url, "db") == {**own, "kvm1_pci_0000_84_00_0": {"VGPU": 1}}
    assert not fleets.discover(prepared_url, node(*users, options=options, **machines.devices()))[
        "changed"
    ]
    # The option is removed: free devices leave, and devices in use stay until they are free.
    del options["pci_report_in_placement"]
    free = [domain("web", 1, 64, devices=[("pci", "0000:85:00.0")]), users[1]]
    for domains in (free, free):
        fleets.discover(prepared_url, node(*domains, options=options, **machines.devices()))
    assert sorted(providers(prepared_url)) == ["kvm1_0000:85:00.0", "kvm1_pci_0000_84_00_0"]


def test_a_trait_that_an_operator_gave_to_a_vgpu_stays(prepared_url):
    options = {"mdev_types": ["nvidia-11"]}
    fleets.discover(prepared_url, node(options=options, **machines.devices()))
    with Store.open(prepared_url).write() as connection:
        trait = connection.execute(
            sa.insert(tables.traits).values(name="CUSTOM_M60")
        ).inserted_primary_key[0]
        provider = connection.execute(
            sa.select(tables.resource_providers.c.id).where(
                tables.resource_providers.c.parent_id.is_not(None)
            )
        ).scalar()
        connection.execute(
            sa.insert(tables.provider_traits).values(provider_id=provider, trait_id=trait)
        )
    assert not fleets.discover(prepared_url, node(options=options, **machines.devices()))["changed"]
    assert providers(prepared_url)["kvm1_pci_0000_84_00_0"][2] == {"CUSTOM_M60"}


def test_a_claim_of_a_vgpu_counts_against_what_there_is(prepared_url):
    kinds = [
        {
            "parent": "pci_0000_84_00_0",
            "type": "nvidia-11",
            "name": None,
            "device_api": "vfio-pci",
            "available_instances": 1,
        }
    ]
    fleets.discover(prepared_url, node(options={"mdev_types": ["nvidia-11"]}, mdev_types=kinds))
    more = {"resources": {"VCPU": 1, "MEMORY_MB": 64, "VGPU": 1}}
    found = fleets.claim(prepared_url, {**fleets.selection("web", "kvm1"), **more})
    assert held(prepared_url, "web")["kvm1_pci_0000_84_00_0"] == {"VGPU": 1}, found
    with pytest.raises(DroverError, match="VGPU"):
        fleets.claim(prepared_url, {**fleets.selection("db", "kvm1"), **more})


def test_a_host_that_goes_takes_all_of_it_along(prepared_url):
    fleets.discover(
        prepared_url,
        node(
            options={"pci_device_specs": GPU, "pci_report_in_placement": True}, **machines.devices()
        ),
    )
    fleets.discover(prepared_url, node(hypervisor_hostname="other", options=SETS))
    assert providers(prepared_url) == {}
    with Store.open(prepared_url).read() as connection:
        assert [
            connection.execute(sa.select(sa.func.count()).select_from(table)).scalar()
            for table in (tables.pci_devices, tables.mdevs)
        ] == [0, 0]


def test_cells_as_providers_with_the_devices_in_them(prepared_url):
    options = {
        **SETS,
        "pci_device_specs": FUNCTIONS + GPU,
        "pci_report_in_placement": True,
        "mdev_types": ["nvidia-11"],
    }
    user = domain("web", 1, 64, devices=[("pci", "0000:3b:02.1")])
    fleets.discover(prepared_url, node(user, options=options, **machines.devices()))
    with_cells = {**options, "numa_report_in_placement": True}
    assert fleets.discover(prepared_url, node(user, options=with_cells, **machines.devices()))[
        "changed"
    ]
    provider_rows = providers(prepared_url)
    assert {name: parent for name, (parent, dummy, dummy2) in provider_rows.items()} == {
        "kvm1_NUMA0": "kvm1",
        "kvm1_NUMA1": "kvm1",
        "kvm1_0000:3B:00.0": "kvm1_NUMA0",
        "kvm1_pci_0000_84_00_0": "kvm1_NUMA1",
        # The host does not know the cell of the device.
        "kvm1_0000:85:00.0": "kvm1",
    }
    assert provider_rows["kvm1_NUMA0"][1:] == ({}, {"HW_NUMA_ROOT"})
    assert held(prepared_url, "web")["kvm1_0000:3B:00.0"] == {"CUSTOM_FAST_NIC": 1}
    assert not fleets.discover(prepared_url, node(user, options=with_cells, **machines.devices()))[
        "changed"
    ]
    # A claim still finds devices two levels below.
    more = {"resources": {"VCPU": 1, "MEMORY_MB": 64, "VGPU": 1}}
    fleets.claim(prepared_url, {**fleets.selection("db", "kvm1"), **more})
    assert held(prepared_url, "db")["kvm1_pci_0000_84_00_0"] == {"VGPU": 1}
    fleets.discover(prepared_url, node(user, options=options, **machines.devices()))
    assert {parent for parent, dummy, dummy2 in providers(prepared_url).values()} == {"kvm1"}
    # All free ones are removed at once. A device in use stays, but its cell does not.
    fleets.discover(prepared_url, node(user, options=with_cells, **machines.devices()))
    fleets.discover(
        prepared_url,
        node(user, options={**SETS, "pci_device_specs": FUNCTIONS}, **machines.devices()),
    )
    assert {name: parent for name, (parent, dummy, dummy2) in providers(prepared_url).items()} == {
        "kvm1_0000:3B:00.0": "kvm1",
        "kvm1_pci_0000_84_00_0": "kvm1",
    }


def moved(url, name, host):
    with Store.open(url).write() as connection:
        return migration_claims.begin(connection, uuid_of(name), host, None, "live-migration", NOW)


def cpus(url):
    """Return {(host, name): CPUs} of the record."""
    with Store.open(url).read() as connection:
        hosts = {row.id: row.host for row in connection.execute(sa.select(tables.compute_nodes))}
        names = {row.uuid: row.name for row in connection.execute(sa.select(tables.instances))}
        by_node = numa.read(connection)
    return {
        (hosts[node], names[each["uuid"]]): sorted(each["cells"][0]["pins"].values())
        for node, held in by_node.items()
        for each in held
    }


def test_a_move_takes_free_cpus_at_the_destination(prepared_url):
    web, db = (domain(name, 1, 64, pins(1, cell=0)) for name in ("web", "db"))
    one = {"cpu_shared_set": "0", "cpu_dedicated_set": "6", "cpu_allocation_ratio": 8.0}
    fleets.discover(
        prepared_url,
        node(web, options=SETS),
        node(db, host="kvm2", options=SETS),
        node(host="kvm3", options=one),
    )
    moved(prepared_url, "web", "kvm3")
    # Until the host shows the instance, no other instance gets the CPU there.
    assert cpus(prepared_url) == {("kvm1", "web"): [1], ("kvm2", "db"): [1], ("kvm3", "web"): [6]}
    with pytest.raises(
        DroverError,
        match=(
            "kvm3: it lacks room for cell 0 of the guest; its NUMA cell [01] comes nearest and has"
            " 0 of 1 CPUs to pin"
        ),
    ):
        moved(prepared_url, "db", "kvm3")
    # Both ends are held while it moves, for any report of the hosts.
    fleets.discover(prepared_url, node(web, options=SETS), node(host="kvm3", options=one))
    assert {("kvm1", "web"), ("kvm3", "web")} < cpus(prepared_url).keys()


def test_a_move_that_came_about_frees_what_it_left(prepared_url):
    fleets.discover(
        prepared_url,
        node(domain("web", 1, 64, pins(1, cell=0)), options=SETS),
        node(host="kvm3", options=SETS),
    )
    opened = moved(prepared_url, "web", "kvm3")
    with Store.open(prepared_url).write() as connection:
        migration_claims.finish(connection, opened["uuid"], certainty.word("a test"), None, NOW)
    assert cpus(prepared_url).keys() == {("kvm3", "web")}


def test_a_move_that_did_not_come_about_leaves_nothing(prepared_url):
    web = domain("web", 1, 64, pins(1, cell=0))
    fleets.discover(prepared_url, node(web, options=SETS), node(host="kvm3", options=SETS))
    opened = moved(prepared_url, "web", "kvm3")
    with Store.open(prepared_url).write() as connection:
        migration_claims.undo(
            connection, opened["uuid"], certainty.word("a test"), "the network broke", NOW
        )
    assert cpus(prepared_url) == {("kvm1", "web"): [1]}
    fleets.discover(prepared_url, node(web, options=SETS), node(host="kvm3", options=SETS))
    assert cpus(prepared_url) == {("kvm1", "web"): [1]}


def test_a_virtual_function_behind_a_macvtap_is_owned_and_no_plan_moves_it(prepared_url):
    """Its domain names the interface of the function, and no device."""
    nics = [
        {
            "type": "direct",
            "source": "ens1f0v0",
            "mac": "52:54:00:00:00:01",
            "model": "virtio",
            "target": "macvtap0",
        }
    ]
    options = {"pci_device_specs": FUNCTIONS}
    domains = [
        domain("web", 1, 64, interfaces=nics),
        domain("db", 1, 64, interfaces=[{**nics[0], "source": "ens1f0"}]),
    ]
    fleets.discover(prepared_url, node(*domains, options=options, **machines.devices()))
    assert {key: owner for key, owner in owners(prepared_url).items() if owner} == {
        "0000:3b:02.0": uuid_of("web")
    }
    with Store.open(prepared_url).read() as connection:
        by_name = {each["name"]: each for each in instances_for_plans.read_instances(connection)}
    assert (
        by_name["web"]["hostdevs"] == [{"type": "pci", "address": "0000:3b:02.0"}]
        and by_name["db"]["hostdevs"] == []
    )
    assert (
        "0000:3b:02.0" in movability.why_unmovable(by_name["web"])
        and movability.why_unmovable(by_name["db"]) is None
    )
    # Without that interface the function is free again.
    fleets.discover(
        prepared_url,
        node(domain("web", 1, 64), domain("db", 1, 64), options=options, **machines.devices()),
    )
    assert not any(owners(prepared_url).values())


def test_the_cpus_of_the_next_start_are_nobody_elses(prepared_url):
    """A person pinned a running guest to other CPUs: after a crash it starts on the CPUs of its
    definition."""
    guest = {**domain("web", 1, 64, pins(1, cell=0)), "next_start_cpus": [2]}
    fleets.discover(prepared_url, node(guest, options=SETS))
    (found,) = columns(prepared_url)["numa_allocations"]
    assert (found["cells"][0]["pins"], found["cells"][0]["reserved"]) == ({"0": 1}, [2])
    # The rule is the same for a guest that runs without pins.
    fleets.discover(
        prepared_url, node({**domain("web", 1, 64), "next_start_cpus": [2]}, options=SETS)
    )
    assert columns(prepared_url)["numa_allocations"][0]["cells"][0]["reserved"] == [2]
