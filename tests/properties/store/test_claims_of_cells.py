# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims of NUMA cells, CPUs, pages and PCI devices: each goes to one instance, in the claim's own
transaction.
"""

from __future__ import annotations

import itertools

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import (
    capacity,
    resize_destination,
    scheduling,
)
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement import claims
from ansible_collections.drover.compute.plugins.plugin_utils._records.orders import NewSize
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import devices, numa
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import (
    flavors,
    instance_lookup,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import NOW, uuid_of
from ansible_collections.drover.compute.tests.unit.tracker import machines
from ansible_collections.drover.compute.tests.unit.tracker.machines import node

PROOF = certainty.word("a test")
SETS = {"cpu_shared_set": "0,8,4,12", "cpu_dedicated_set": "1-3,9-11,5-7,13-15"}
#: Only two CPUs of one cell.
FEW = {"cpu_shared_set": "0,8", "cpu_dedicated_set": "5,13"}
PINNED = {"hw:cpu_policy": "dedicated"}
#: The recorded host has one such device.
GPU = [{"vendor_id": "10de", "product_id": "2204"}]
POLICY = {"pci_alias": [{"name": "gpu", "vendor_id": "10de", "product_id": "2204"}]}


def decide(url, *names, policy=None, **more):
    """Return selections of equal instances."""
    requests = [
        {"name": each, "uuid": uuid_of(each), "vcpus": 2, "memory_mb": 64, "disk_gb": 1, **more}
        for each in names
    ]
    with Store.open(url).read() as connection:
        return scheduling.decide(connection, requests, Policy.from_mapping(policy or {}), NOW)


def place(url, *names, policy=None, **more):
    return fleets.claim(url, *decide(url, *names, policy=policy, **more))


def write(url, function, *arguments):
    with Store.open(url).write(together=True) as connection:
        return function(connection, *arguments)


def cells(url):
    """Return {(host, name): its pins and page sizes by host cell}."""
    with Store.open(url).read() as connection:
        hosts = {row.id: row.host for row in connection.execute(sa.select(tables.compute_nodes))}
        names = {uuid_of(name): name for name in "abcdefgh"}
        by_node = numa.read(connection)
    return {
        (hosts[node], names.get(each["uuid"], "migration")): [
            (cell["host"], cell["pins"], cell["page_kb"]) for cell in each["cells"]
        ]
        for node, held in by_node.items()
        for each in held
    }


def owners(url):
    with Store.open(url).read() as connection:
        return [
            device["owner"] for found in devices.read_pci(connection).values() for device in found
        ]


def test_a_pinned_instance_gets_cpus_and_its_domain_says_them(prepared_url):
    fleets.discover(prepared_url, node(options=SETS))
    (claimed,) = place(prepared_url, "a", extra_specs=PINNED)
    assert claimed["numa"]["vcpu_pins"] == {"0": [1], "1": [9]} and claimed["numa"][
        "emulator_pins"
    ] == [1, 9]
    assert claimed["numa"]["memory"] == {"mode": "strict", "nodes": [0]}
    assert [
        (each["cpus"], each["memory_mb"], each["nodes"]) for each in claimed["numa"]["cells"]
    ] == [([0, 1], 64, [0])]
    (other,) = place(prepared_url, "b", extra_specs=PINNED)
    assert {cpu for cpus in other["numa"]["vcpu_pins"].values() for cpu in cpus}.isdisjoint({1, 9})
    with Store.open(prepared_url).read() as connection:
        again = connection.execute(
            sa.select(tables.instances).where(tables.instances.c.uuid == uuid_of("a"))
        ).one()
    assert again.vcpus == 2
    # A repeated claim gets the same cells.
    (repeated,) = fleets.claim(
        prepared_url, {key: claimed[key] for key in ("uuid", "name", "host", "resources")}
    )
    assert (repeated["new"], repeated["numa"]) == (False, claimed["numa"])
    # Floating vCPUs do not run on the pinned CPUs of others.
    (floating,) = place(prepared_url, "c")
    assert floating["numa"] == {
        **dict.fromkeys(floating["numa"]),
        "cpuset": [0, 4, 8, 12],
        "vcpu_pins": {},
        "iothread_pins": {},
        "cells": [],
        "pages": [],
        "locked": False,
    }


def test_a_host_without_sets_says_nothing_of_one_that_floats(prepared_url):
    fleets.discover(prepared_url, node())
    (claimed,) = place(prepared_url, "a")
    assert "numa" not in claimed


def test_pages_and_one_cell_without_pins(prepared_url):
    fleets.discover(prepared_url, node(options=SETS))
    (claimed,) = place(prepared_url, "a", extra_specs={"hw:mem_page_size": "2048"})
    assert claimed["numa"]["pages"] == [{"size_kb": 2048, "cells": [0]}] and claimed["numa"][
        "vcpu_pins"
    ] == {"0": [0, 8], "1": [0, 8]}
    assert cells(prepared_url) == {("kvm1", "a"): [(0, {}, 2048)]}


def test_the_last_cpus_go_to_one_of_eight_writers(prepared_url):
    fleets.discover(prepared_url, node(options=FEW), node(host="kvm2", options=FEW))
    names = "abcdefgh"
    chosen = {name: decide(prepared_url, name, extra_specs=PINNED)[0] for name in names}
    # Half of the processes use the opposite order, and the locks must not be taken in that order.
    for number, selection in enumerate(chosen.values()):
        places = [
            {key: selection[key] for key in ("host", "node", "provider")},
            *selection["alternates"],
        ]
        first, *others = places if number % 2 else reversed(places)
        selection.update({**first, "alternates": others})

    def work(name):
        try:
            return fleets.claim(prepared_url, chosen[name])[0]["host"]
        except DroverError as problem:
            return str(problem).split(" (", maxsplit=1)[0]

    for _dummy in range(3):
        answers = dict(zip(names, fleets.race(*(lambda name=name: work(name) for name in names))))
        won = {name: host for name, host in answers.items() if host.startswith("kvm")}
        assert sorted(won.values()) == ["kvm1", "kvm2"], answers
        assert {answers[name] for name in answers.keys() - won} == {
            f"No room for {name}" for name in answers.keys() - won
        }
        assert sorted(cells(prepared_url)) == sorted((host, name) for name, host in won.items())
        write(prepared_url, claims.release, [uuid_of(name) for name in won], PROOF, NOW)
        assert cells(prepared_url) == {}


def test_no_two_of_many_claims_have_a_cpu(prepared_url):
    """Eight processes claim at once on hosts with room for 6 pinned CPUs in each of two cells."""
    fleets.discover(
        prepared_url, *(node(host=f"kvm{number}", options=SETS) for number in (1, 2, 3))
    )
    names = "abcdefgh"
    selections = {
        name: decide(prepared_url, name, extra_specs={**PINNED, "hw:numa_nodes": "2"})[0]
        for name in names
    }
    answers = fleets.race(
        *(
            lambda name=name: fleets.claim(prepared_url, selections[name])[0]["host"]
            for name in names
        )
    )
    assert all(str(each).startswith("kvm") for each in answers), answers
    taken = [
        (host, cpu)
        for (host, _name), found in cells(prepared_url).items()
        for _cell, pins, _page in found
        for cpu in pins.values()
    ]
    assert len(taken) == len(set(taken)) == 16


def test_a_device_goes_to_one_instance_and_back(prepared_url):
    fleets.discover(prepared_url, node(options={"pci_device_specs": GPU}, **machines.devices()))
    (claimed,) = place(
        prepared_url, "a", policy=POLICY, extra_specs={"pci_passthrough:alias": "gpu:1"}
    )
    (device,) = claimed["pci_devices"]
    assert (device["request"], device["managed"], device["dev_type"]) == (0, True, "type-PCI")
    assert owners(prepared_url) == [uuid_of("a")]
    with pytest.raises(DroverError, match="PciPassthroughFilter"):
        decide(prepared_url, "b", policy=POLICY, extra_specs={"pci_passthrough:alias": "gpu:1"})
    write(prepared_url, claims.release, [uuid_of("a")], PROOF, NOW)
    assert owners(prepared_url) == [None]


def test_a_device_that_somebody_got_meanwhile_is_not_given_twice(prepared_url):
    fleets.discover(prepared_url, node(options={"pci_device_specs": GPU}, **machines.devices()))
    asked = {"policy": POLICY, "extra_specs": {"pci_passthrough:alias": "gpu:1"}}
    one, two = decide(prepared_url, "a", **asked), decide(prepared_url, "b", **asked)
    fleets.claim(prepared_url, *one)
    with pytest.raises(DroverError, match="No room for b .* kvm1: it has too few free PCI devices"):
        fleets.claim(prepared_url, *two)
    assert owners(prepared_url) == [uuid_of("a")]


def test_a_failed_build_takes_cells_and_devices_of_the_alternate(prepared_url):
    hosts = [
        node(host=name, options={**SETS, "pci_device_specs": GPU}, **machines.devices())
        for name in ("kvm1", "kvm2")
    ]
    fleets.discover(prepared_url, *hosts)
    asked = {"policy": POLICY, "extra_specs": {**PINNED, "pci_passthrough:alias": "gpu:1"}}
    (claimed,) = place(prepared_url, "a", **asked)
    before = claimed["host"]
    again = write(prepared_url, claims.reclaim, uuid_of("a"), claimed["alternates"], PROOF, NOW)
    assert again["host"] != before and again["numa"]["vcpu_pins"] and len(again["pci_devices"]) == 1
    assert [host for host, _name in cells(prepared_url)] == [again["host"]]
    assert sorted(map(str, owners(prepared_url))) == sorted(["None", uuid_of("a")])


def test_a_resize_on_one_node_holds_both_until_it_ends(prepared_url):
    guest = machines.domain("a", 2, 64, machines.pins(1, 2, cell=0))
    for end, source_state in itertools.product(
        (migration_claims.confirm, migration_claims.revert), (None,)
    ):
        fleets.empty(prepared_url)
        fleets.discover(prepared_url, node(guest, options=SETS))
        (selection,) = decide(prepared_url, "b", vcpus=4, extra_specs=PINNED)
        target = {
            "flavor": None,
            "resources": selection["resources"],
            "host_request": selection["host_request"],
        }
        opened = write(
            prepared_url, migration_claims.begin_resize, uuid_of("a"), "kvm1", None, target, NOW
        )
        cells_before = cells(prepared_url)
        assert (
            cells_before["kvm1", "migration"][0][1] == {"0": 1, "1": 2}
            and len(cells_before["kvm1", "a"][0][1]) == 4
        )
        # The claim counts, for any report of the host during the move.
        fleets.discover(prepared_url, node(guest, options=SETS))
        assert cells(prepared_url) == cells_before
        write(prepared_url, migration_claims.finish, opened["uuid"], PROOF, None, NOW)
        if end is migration_claims.confirm:
            write(prepared_url, end, opened["uuid"], PROOF, NOW)
            assert cells(prepared_url) == {("kvm1", "a"): cells_before["kvm1", "a"]}
        else:
            write(prepared_url, end, opened["uuid"], PROOF, source_state, NOW)
            assert cells(prepared_url) == {("kvm1", "a"): cells_before["kvm1", "migration"]}


def test_an_evacuation_holds_both_until_the_dead_host_is_back(prepared_url):
    fleets.discover(
        prepared_url,
        node(machines.domain("a", 2, 64, machines.pins(1, 2, cell=0)), options=SETS),
        node(host="kvm2", options=FEW),
    )
    opened = write(
        prepared_url, migration_claims.begin, uuid_of("a"), "kvm2", None, "evacuation", NOW
    )
    write(prepared_url, migration_claims.finish, opened["uuid"], PROOF, None, NOW)
    assert cells(prepared_url) == {
        ("kvm1", "a"): [(0, {"0": 1, "1": 2}, None)],
        ("kvm2", "a"): [(1, {"0": 5, "1": 13}, None)],
    }
    write(prepared_url, migration_claims.clear_source, opened["uuid"], PROOF, NOW)
    assert list(cells(prepared_url)) == [("kvm2", "a")]


@pytest.mark.parametrize(
    "given", ["pinned", 7, {"topology": 3}, {"topology": {"cells": [{}]}, "pci": []}]
)
def test_a_request_for_cells_that_nobody_made_is_refused(prepared_url, given):
    fleets.discover(prepared_url, node(options=SETS))
    (selection,) = decide(prepared_url, "a")
    with pytest.raises(DroverError, match="host_request cannot be read"):
        fleets.claim(prepared_url, {**selection, "host_request": given})
    assert cells(prepared_url) == {}


def test_how_many_more_fit_by_cells(prepared_url):
    fleets.discover(
        prepared_url,
        node(options=SETS),
        node(host="kvm2", options=FEW),
        node(host="kvm3", options={"cpu_shared_set": "0-15"}),
    )
    place(prepared_url, "a", extra_specs={**PINNED, "hw:numa_nodes": "1"})
    request = {"vcpus": 2, "memory_mb": 64, "extra_specs": PINNED}
    with Store.open(prepared_url).read() as connection:
        (answer,) = capacity.count(connection, [request], Policy.from_mapping({}), loss=False)
    assert {each["host"]: (each["count"], each["rejected_by"]) for each in answer["hosts"]} == {
        "kvm1": (5, None),
        "kvm2": (1, None),
        "kvm3": (0, "PCPU"),
    }
    place(prepared_url, "b", host="kvm2", extra_specs=PINNED)
    with Store.open(prepared_url).read() as connection:
        (answer,) = capacity.count(
            connection,
            [{**request, "extra_specs": {"hw:mem_page_size": "1048576"}}],
            Policy.from_mapping({}),
            loss=False,
        )
        assert answer["total"] == 0
        assert {each["rejected_by"] for each in answer["hosts"]} == {"NUMATopologyFilter"}


def test_one_that_is_pinned_by_hand_keeps_its_pins(prepared_url):
    """No flavor and no extra spec gives its needs in another size."""
    fleets.discover(
        prepared_url,
        node(machines.domain("a", 2, 64, machines.pins(1, 2, cell=0)), options=SETS),
        node(host="kvm2", options=SETS),
    )
    with Store.open(prepared_url).write() as connection:
        flavors.ensure(
            connection, "pinned", {"vcpus": 4, "memory_mb": 64, "extra_specs": PINNED}, NOW
        )
    with Store.open(prepared_url).read() as connection:
        (instance,) = instance_lookup.find(connection, ["a"])
        policy = Policy.from_mapping({})
        for new in (None, NewSize(None, {"memory_mb": 128})):
            with pytest.raises(
                DroverError, match="neither its flavor nor its extra specs ask for them"
            ):
                resize_destination.find_destination(connection, instance, new, None, policy, NOW)
        selection, _size = resize_destination.find_destination(
            connection, instance, NewSize("pinned", {}), None, policy, NOW
        )
    assert selection["host_request"]["topology"]["cpu_policy"] == "dedicated"


def test_a_discovery_in_a_resize_that_was_cut_off_leaves_what_was_claimed(prepared_url):
    """The hypervisor has the new size already, with the pins of the destination."""
    before, after = (
        machines.domain("a", number, 64, machines.pins(*cpus, cell=cell))
        for number, cpus, cell in ((1, (1,), 0), (2, (5, 13), 1))
    )
    hosts = [node(before, options=SETS), node(host="kvm2", options=FEW)]
    fleets.discover(prepared_url, *hosts)
    (selection,) = decide(prepared_url, "b", host="kvm2", extra_specs=PINNED)
    target = {
        "flavor": None,
        "resources": selection["resources"],
        "host_request": selection["host_request"],
        "running": True,
    }
    write(prepared_url, migration_claims.begin_resize, uuid_of("a"), "kvm2", None, target, NOW)
    cells_before = cells(prepared_url)
    assert cells_before.keys() == {("kvm1", "a"), ("kvm2", "a")}
    for state in ("running", "shutoff"):
        fleets.discover(prepared_url, node({**after, "state": state}, options=SETS), hosts[1])
        assert cells(prepared_url) == cells_before
        fleets.discover(prepared_url, node({**after, "state": state}, options=SETS))
        assert cells(prepared_url) == cells_before
        fleets.discover(prepared_url, hosts[1])
        assert cells(prepared_url) == cells_before
