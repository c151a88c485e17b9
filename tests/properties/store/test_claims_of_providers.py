# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI devices that are requested from Placement: the device of a claim belongs to the provider of
its allocation (N12.7)."""

from __future__ import annotations

import pytest
import yaml

from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import scheduling
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import check, identity
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import (
    devices as guest_devices,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement import (
    allocations,
    claims,
    selections,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement.claim_destination import (
    CandidateNode,
    ClaimDestinations,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement.provider_uuids import (
    provider_of,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.errors import (
    NoValidHost,
    RequestError,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import devices
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import NOW, uuid_of
from ansible_collections.drover.compute.tests.unit.tracker.machines import domain, node

PROOF = certainty.word("a test")
CLASS, VF_CLASS = "CUSTOM_PCI_10DE_2204", "CUSTOM_PCI_8086_154C"
SETS = {"cpu_shared_set": "0,8,4,12", "cpu_dedicated_set": "1-3,9-11,5-7,13-15"}
SPECS = [{"vendor_id": "10de"}, {"product_id": "154c"}]
ALIASES = [
    {"name": "gpu", "vendor_id": "10de", "product_id": "2204"},
    {"name": "vf", "vendor_id": "8086", "product_id": "154c", "device_type": "type-VF"},
    {"name": "blue", "vendor_id": "10de", "product_id": "2204", "traits": "blue"},
    {"name": "accelerator", "resource_class": "accelerator"},
]
POLICY = {"pci_alias": ALIASES, "pci_in_placement": True}
WITHOUT = {"pci_alias": ALIASES[:2]}


def gpu(number, cell=0):
    return {
        "address": f"0000:8{number}:00.0",
        "vendor_id": "10de",
        "product_id": "2204",
        "dev_type": "type-PCI",
        "numa_node": cell,
    }


def functions(card, many, cell=0):
    one = {
        "vendor_id": "8086",
        "product_id": "154c",
        "dev_type": "type-VF",
        "numa_node": cell,
        "parent_addr": f"0000:{card}:00.0",
    }
    return [{**one, "address": f"0000:{card}:02.{number}"} for number in range(many)]


def host(*found, name="kvm1", specs=None, **more):
    options = {"pci_device_specs": specs or SPECS, "pci_report_in_placement": True, **more}
    return node(host=name, options=options, pci_devices=list(found))


def decide(url, *names, policy=None, alias="gpu:1", **more):
    common = {
        "vcpus": 2,
        "memory_mb": 64,
        "disk_gb": 1,
        "extra_specs": {"pci_passthrough:alias": alias, **more.pop("specs", {})},
        **more,
    }
    with Store.open(url).read() as connection:
        requests = [{"name": each, "uuid": uuid_of(each), **common} for each in names]
        return scheduling.decide(connection, requests, Policy.from_mapping(policy or POLICY), NOW)


def write(url, function, *arguments):
    with Store.open(url).write(together=True) as connection:
        return function(connection, *arguments)


def given(url):
    """Return {name: {uuid of a provider: devices}}, by the devices; and the same by the
    allocations."""
    names = {uuid_of(name): name for name in "abcdefgh"}
    by_device: dict[str, dict[str, int]] = {}
    by_allocation: dict[str, dict[str, int]] = {}
    with Store.open(url).read() as connection:
        roots = {row.id: row.uuid for row in connection.execute(sa.select(tables.compute_nodes))}
        nested = {
            row.id: row.uuid
            for row in connection.execute(sa.select(tables.resource_providers))
            if row.parent_id
        }
        for key, found in devices.read_pci(connection).items():
            for device in found:
                if device["owner"]:
                    mine = by_device.setdefault(names[device["owner"]], {})
                    uuid = provider_of(roots[key], device)
                    mine[uuid] = mine.get(uuid, 0) + 1
        for uuid, held in allocations.read(connection, names).items():
            mine = {
                nested[key]: sum(amounts.values()) for key, amounts in held.items() if key in nested
            }
            if mine:
                by_allocation[names[uuid]] = mine
    return by_device, by_allocation


def agree(url):
    by_device, by_allocation = given(url)
    assert by_device == by_allocation
    return {name: sum(found.values()) for name, found in by_device.items()}


def test_a_claim_gives_the_device_of_the_provider_of_its_allocation(prepared_url):
    fleets.discover(prepared_url, host(gpu(1), gpu(2), gpu(3)))
    (selection,) = decide(prepared_url, "a", alias="gpu:2")
    assert selection["resources"][CLASS] == 2 and list(selection["mappings"]) == [
        "_pci0-0",
        "_pci0-1",
    ]
    selections.check([selection])
    (claimed,) = fleets.claim(prepared_url, selection)
    assert len(claimed["pci_devices"]) == 2
    assert agree(prepared_url) == {"a": 2}
    # The domain shows the devices: a discovery changes nothing.
    addresses = [each["address"] for each in claimed["pci_devices"]]
    shown = domain("a", 2, 64, devices=[("pci", each) for each in addresses])
    report = host(gpu(1), gpu(2), gpu(3))
    report["hypervisor"]["domains"] = [shown]
    fleets.discover(prepared_url, report)
    assert agree(prepared_url) == {"a": 2}
    with pytest.raises(NoValidHost, match=f"{CLASS}"):
        decide(prepared_url, "b", alias="gpu:2")
    write(
        prepared_url,
        lambda connection: connection.execute(sa.update(tables.instances).values(state="missing")),
    )
    write(prepared_url, claims.release, [uuid_of("a")], PROOF, NOW)
    assert agree(prepared_url) == {}


def test_the_mapping_decides_and_not_the_order_of_devices(prepared_url):
    """The claim alone would take the last device of the first pool."""
    fleets.discover(prepared_url, host(gpu(1), gpu(2), gpu(3)))
    (selection,) = decide(prepared_url, "a")
    with Store.open(prepared_url).read() as connection:
        (root,) = connection.execute(sa.select(tables.compute_nodes.c.uuid)).scalars()
    for number, device in enumerate((gpu(1), gpu(2), gpu(3))):
        uuid = provider_of(root, device)
        ((own, amounts),) = [
            (key, each) for key, each in selection["allocations"].items() if CLASS not in each
        ]
        wanted = {**selection, "uuid": uuid_of("abc"[number]), "name": "abc"[number]}
        wanted.update(allocations={own: amounts, uuid: {CLASS: 1}}, mappings={"_pci0-0": [uuid]})
        (claimed,) = fleets.claim(prepared_url, wanted)
        assert [each["address"] for each in claimed["pci_devices"]] == [device["address"]]
    assert agree(prepared_url) == {"a": 1, "b": 1, "c": 1}


def test_functions_of_one_card_and_of_several(prepared_url):
    fleets.discover(prepared_url, host(*functions("3b", 2), *functions("5e", 3)))
    for name, alias in (("a", "vf:1"), ("b", "vf:3")):
        fleets.claim(prepared_url, *decide(prepared_url, name, alias=alias))
    assert agree(prepared_url) == {"a": 1, "b": 3}
    with pytest.raises(NoValidHost):
        decide(prepared_url, "c", alias="vf:2")


def test_group_policy_isolate_takes_functions_of_different_cards(prepared_url):
    fleets.discover(prepared_url, host(*functions("3b", 4), *functions("5e", 4)))
    fleets.claim(
        prepared_url, *decide(prepared_url, "a", alias="vf:2", specs={"group_policy": "isolate"})
    )
    assert sorted(given(prepared_url)[0]["a"].values()) == [1, 1]
    with pytest.raises(NoValidHost):
        decide(prepared_url, "b", alias="vf:3", specs={"group_policy": "isolate"})
    assert agree(prepared_url) == {"a": 2}


def test_devices_near_the_cells_of_the_guest(prepared_url):
    """Placement knows no cells: the claim must take a candidate with a device that the fit
    accepts.
    """
    fleets.discover(prepared_url, host(gpu(1, 0), gpu(2, 1), **SETS))
    for name in "ab":
        specs = {"hw:cpu_policy": "dedicated", "hw:pci_numa_affinity_policy": "required"}
        (claimed,) = fleets.claim(prepared_url, *decide(prepared_url, name, vcpus=6, specs=specs))
        (device,) = claimed["pci_devices"]
        assert claimed["numa"]["memory"]["nodes"] == [
            {"0000:81:00.0": 0, "0000:82:00.0": 1}[device["address"]]
        ]
    assert agree(prepared_url) == {"a": 1, "b": 1}


def test_traits_and_classes_of_aliases(prepared_url):
    specs = [
        {"address": "0000:81:00.0", "traits": ["blue"]},
        {"address": "0000:83:00.0", "resource_class": "accelerator"},
        *SPECS,
    ]
    fleets.discover(prepared_url, host(gpu(1), gpu(2), gpu(3), specs=specs))
    for name, alias, address in (
        ("a", "blue:1", "0000:81:00.0"),
        ("b", "accelerator:1", "0000:83:00.0"),
        ("c", "gpu:1", "0000:82:00.0"),
    ):
        (claimed,) = fleets.claim(prepared_url, *decide(prepared_url, name, alias=alias))
        assert [each["address"] for each in claimed["pci_devices"]] == [address]
    assert agree(prepared_url) == {"a": 1, "b": 1, "c": 1}
    with pytest.raises(NoValidHost):
        decide(prepared_url, "d", alias="blue:1")


def test_requests_that_compete_for_a_device_are_met_together(prepared_url):
    """Without Placement the first request would take the last device, and the second would find
    none with its trait."""
    specs = [{"address": "0000:82:00.0", "traits": ["blue"]}, *SPECS]
    fleets.discover(prepared_url, host(gpu(1), gpu(2), specs=specs))
    (claimed,) = fleets.claim(prepared_url, *decide(prepared_url, "a", alias="gpu:1,blue:1"))
    assert {each["address"]: each["request"] for each in claimed["pci_devices"]} == {
        "0000:81:00.0": 0,
        "0000:82:00.0": 1,
    }
    assert agree(prepared_url) == {"a": 2}


def test_a_batch_leaves_each_instance_its_own(prepared_url):
    fleets.discover(prepared_url, host(gpu(1), gpu(2)), host(gpu(1), name="kvm2"))
    chosen = decide(prepared_url, "a", "b", "c")
    assert sorted(each["host"] for each in chosen) == ["kvm1", "kvm1", "kvm2"]
    fleets.claim(prepared_url, *chosen)
    assert agree(prepared_url) == {"a": 1, "b": 1, "c": 1}
    with pytest.raises(NoValidHost):
        decide(prepared_url, "d")


def test_alternates_have_their_own_providers_and_a_failed_build_takes_them(prepared_url):
    fleets.discover(prepared_url, host(gpu(1)), host(gpu(2), name="kvm2"))
    (selection,) = decide(prepared_url, "a")
    (spare,) = selection["alternates"]
    assert spare["mappings"] != selection["mappings"]
    (claimed,) = fleets.claim(prepared_url, selection)
    again = write(prepared_url, claims.reclaim, uuid_of("a"), claimed["alternates"], PROOF, NOW)
    assert again["host"] == spare["host"] and len(again["pci_devices"]) == 1
    assert agree(prepared_url) == {"a": 1}


def test_the_last_devices_go_to_as_many_of_eight_writers(prepared_url):
    fleets.discover(prepared_url, host(gpu(1), gpu(2)), host(gpu(1), name="kvm2"))
    names = "abcdefgh"
    chosen = {name: decide(prepared_url, name)[0] for name in names}

    def work(name):
        try:
            return fleets.claim(prepared_url, chosen[name])[0]["host"]
        except DroverError as problem:
            return str(problem).split(" (", maxsplit=1)[0]

    for _dummy in range(2):
        answers = dict(zip(names, fleets.race(*(lambda name=name: work(name) for name in names))))
        won = [name for name, answer in answers.items() if answer.startswith("kvm")]
        # All selections have the same provider of kvm1, and kvm2 as their alternate.
        assert len(won) == 2 and {answers[name] for name in won} == {"kvm1", "kvm2"}, answers
        assert all(answers[name] == f"No room for {name}" for name in names if name not in won)
        assert agree(prepared_url) == dict.fromkeys(won, 1)
        write(prepared_url, claims.release, [uuid_of(name) for name in won], PROOF, NOW)


def test_a_claim_without_mappings_finds_providers_by_itself(prepared_url):
    """Moves claim like this, by the request of the instance."""
    specs = [{"address": "0000:81:00.0", "traits": ["blue"]}, *SPECS]
    fleets.discover(
        prepared_url,
        host(gpu(1), gpu(2), gpu(3), *functions("3b", 2), *functions("5e", 2), specs=specs),
    )
    (selection,) = decide(prepared_url, "a", alias="blue:1,gpu:2,vf:3")
    without = {
        key: value for key, value in selection.items() if key not in ("mappings", "allocations")
    }
    fleets.claim(prepared_url, {**without, "alternates": []})
    assert agree(prepared_url) == {"a": 6}
    with pytest.raises(DroverError, match="No room"):
        fleets.claim(prepared_url, {**without, "alternates": [], "name": "b", "uuid": uuid_of("b")})
    write(prepared_url, claims.release, [uuid_of("a")], PROOF, NOW)
    # The chosen allocations, without the mappings to their requests.
    some = {
        key: value
        for key, value in decide(prepared_url, "a", alias="vf:3")[0].items()
        if key != "mappings"
    }
    fleets.claim(prepared_url, some)
    assert agree(prepared_url) == {"a": 3}


def test_a_move_of_one_that_was_claimed_before_takes_the_provider_of_its_new_device(prepared_url):
    """Its request has nothing for Placement, but discovery has written its allocation at the
    source."""
    gpus = [gpu(1), gpu(2), gpu(3)]
    fleets.discover(prepared_url, host(*gpus), host(*gpus, name="kvm2"))
    (selection,) = decide(prepared_url, "a", policy=WITHOUT, host="kvm1")
    (claimed,) = fleets.claim(prepared_url, selection)
    assert given(prepared_url)[1] == {}
    report = host(*gpus)
    report["hypervisor"]["domains"] = [
        domain("a", 2, 64, devices=[("pci", each["address"]) for each in claimed["pci_devices"]])
    ]
    fleets.discover(prepared_url, report)
    assert agree(prepared_url) == {"a": 1}
    second_selection = {
        "uuid": uuid_of("b"),
        "name": "b",
        "host": "kvm2",
        "resources": {"VCPU": 2, CLASS: 1},
        "host_request": selection["host_request"],
    }
    fleets.claim(prepared_url, second_selection)
    assert agree(prepared_url) == {"a": 1, "b": 1}


def test_mappings_of_another_provider_than_the_allocations_are_refused(prepared_url):
    fleets.discover(prepared_url, host(gpu(1), gpu(2)), host(gpu(1), name="kvm2"))
    (selection,) = decide(prepared_url, "a", host="kvm1")
    (other,) = decide(prepared_url, "b", host="kvm2")
    with pytest.raises(DroverError, match="mappings name the provider .* but allocations do not"):
        selections.check([{**selection, "mappings": other["mappings"]}])
    with pytest.raises(DroverError, match="mappings must be a mapping"):
        selections.check([{**selection, "mappings": ["_pci0-0"]}])
    with pytest.raises(DroverError, match="No room for a .* too few free PCI devices"):
        fleets.claim(prepared_url, {**selection, "mappings": other["mappings"], "alternates": []})
    (root,) = [uuid for uuid, each in selection["allocations"].items() if CLASS not in each]
    moved = {root: {**selection["allocations"][root], CLASS: 1}}
    with pytest.raises(
        DroverError,
        match="No room for a .* not of the providers that were chosen for CUSTOM_PCI_10DE_2204",
    ):
        fleets.claim(prepared_url, {**selection, "allocations": moved, "alternates": []})
    assert given(prepared_url) == ({}, {})


def test_a_device_for_one_use_is_given_once(prepared_url):
    report = host(gpu(1), specs=[{"vendor_id": "10de", "one_time_use": True}])
    fleets.discover(prepared_url, report)
    with pytest.raises(NoValidHost, match="too few free PCI devices"):
        decide(prepared_url, "a", policy=WITHOUT)
    one, two = decide(prepared_url, "a"), decide(prepared_url, "b")
    fleets.claim(prepared_url, *one)
    write(prepared_url, claims.release, [uuid_of("a")], PROOF, NOW)
    with pytest.raises(DroverError, match="No room for b"):
        fleets.claim(prepared_url, *two)
    fleets.discover(prepared_url, report)
    with pytest.raises(NoValidHost):
        decide(prepared_url, "b")
    freed = sa.update(tables.inventories).where(tables.inventories.c.total == 1).values(reserved=0)
    write(prepared_url, lambda connection: connection.execute(freed))
    fleets.claim(prepared_url, *decide(prepared_url, "b"))
    assert agree(prepared_url) == {"b": 1}


def test_nothing_is_asked_of_placement_unless_the_policy_says_so(prepared_url):
    fleets.discover(prepared_url, host(gpu(1)))
    (selection,) = decide(prepared_url, "a", policy=WITHOUT)
    assert "mappings" not in selection and CLASS not in selection["resources"]
    assert set(selection["host_request"]["pci"][0]) == {"count", "specs", "policy"}


def test_a_host_that_does_not_report_its_devices_gives_none(prepared_url):
    fleets.discover(
        prepared_url, host(gpu(1), pci_report_in_placement=False), host(gpu(1), name="kvm2")
    )
    assert [each["host"] for each in decide(prepared_url, "a")] == ["kvm2"]
    with pytest.raises(NoValidHost, match=f"kvm1.*{CLASS}"):
        decide(prepared_url, "a", host="kvm1")


def test_ports_stay_outside(prepared_url):
    specs = [{"product_id": "154c", "physical_network": "physnet1"}, *SPECS]
    fleets.discover(prepared_url, host(gpu(1), *functions("3b", 1), specs=specs))
    (selection,) = decide(
        prepared_url, "a", networks=[{"physical_network": "physnet1", "vnic": "direct"}]
    )
    assert list(selection["mappings"]) == ["_pci0-0"]
    (claimed,) = fleets.claim(prepared_url, selection)
    assert [each["dev_type"] for each in claimed["pci_devices"]] == ["type-VF", "type-PCI"]
    assert len(given(prepared_url)[1]["a"]) == 1


def test_a_group_of_the_extra_specs_with_the_same_suffix_is_refused(prepared_url):
    fleets.discover(prepared_url, host(gpu(1)))
    with pytest.raises(RequestError, match="resources_pci0-0:, which is kept for PCI devices"):
        decide(prepared_url, "a", specs={"resources_pci0-0:VGPU": "1"})


def test_destinations_serve_a_move(prepared_url):
    """The test gives ClaimDestinations the request of the instance and places without mappings, as
    a move does."""
    fleets.discover(prepared_url, host(gpu(1)), host(gpu(2), name="kvm2"))
    (selection,) = decide(prepared_url, "a", host="kvm1")
    fleets.claim(prepared_url, selection)
    with Store.open(prepared_url).write(together=True) as connection:
        request = claims._requests([selection])
        nodes = claims.claim_nodes.read(connection, [{"host": "kvm2"}])
        found = ClaimDestinations(connection, [CandidateNode(nodes["kvm2"][0])], {}, {}, request)
        place = found.choose(uuid_of("a"), "a", selection["resources"], found.places)
        ids = {row.id: row.name for row in connection.execute(sa.select(tables.resource_providers))}
        assert {ids[provider] for provider, _class in place.amounts} == {
            "kvm2",
            "kvm2_0000:82:00.0",
        }


def test_a_definition_with_an_alias_gets_the_device_in_its_domain(prepared_url):
    """The test goes from the text of the file to the devices in the domain."""
    text = """
        flavors: [{name: gpu, vcpus: 2, memory_mb: 64, extra_specs: {"pci_passthrough:alias": "gpu:1,vf:2"}}]
        instances: [{name: a, flavor: gpu}]
    """
    document = yaml.safe_load(text)
    flavors = {each["name"]: each for each in document["flavors"]}
    definitions = check.with_flavors(
        check.instances(document["instances"], lambda item: "fleet.yml"),
        flavors,
        {"a": "fleet.yml"},
    )
    (instance,) = identity.resolve(definitions, [], [], flavors, {}, {"a": "fleet.yml"})
    fleets.discover(prepared_url, host(gpu(1), gpu(2), *functions("3b", 2)))
    request = {
        **instance["request"],
        "uuid": uuid_of("a"),
        "flavor": {"name": "gpu", **flavors["gpu"]},
    }
    with Store.open(prepared_url).read() as connection:
        (selection,) = scheduling.decide(connection, [request], Policy.from_mapping(POLICY), NOW)
    (claimed,) = fleets.claim(prepared_url, selection)
    networks, hostdevs = guest_devices.with_devices([], claimed["pci_devices"], [], "Instance a")
    with Store.open(prepared_url).read() as connection:
        owned = {
            each["address"]
            for rows in devices.read_pci(connection).values()
            for each in rows
            if each["owner"] == uuid_of("a")
        }
    named = {
        "{domain}:{bus}:{slot}.{function}".format(**each["address"]).replace("0x", "")
        for each in hostdevs
    }
    assert networks == [] and named == owned and len(owned) == 3
    assert agree(prepared_url) == {"a": 3}


def test_instances_that_had_devices_before_get_allocations_by_discovery(prepared_url):
    """Nova heals the allocations in the same way when the host begins to report its devices."""
    pci_devices = [gpu(1), gpu(2), *functions("3b", 2)]
    fleets.discover(prepared_url, host(*pci_devices, pci_report_in_placement=False))
    claimed = [
        fleets.claim(prepared_url, *decide(prepared_url, name, policy=WITHOUT, alias="gpu:1,vf:1"))[
            0
        ]
        for name in "ab"
    ]
    assert given(prepared_url)[1] == {}
    guests = [
        domain(
            each["name"],
            2,
            64,
            devices=[("pci", device["address"]) for device in each["pci_devices"]],
        )
        for each in claimed
    ]
    # An instance without a defined domain has its devices, and gets the allocations when the host
    # shows it. No other instance gets the devices before.
    report = host(*pci_devices)
    report["hypervisor"]["domains"] = guests[:1]
    fleets.discover(prepared_url, report)
    assert list(given(prepared_url)[1]) == ["a"]
    with pytest.raises(NoValidHost, match="too few free PCI devices"):
        decide(prepared_url, "c")
    report["hypervisor"]["domains"] = guests
    fleets.discover(prepared_url, report)
    assert agree(prepared_url) == {"a": 2, "b": 2}
    with pytest.raises(NoValidHost):
        decide(prepared_url, "c")
