# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resource providers, names and usages: every rule and every refusal (N10.1 to N10.3, N10.6)."""

from __future__ import annotations

import contextlib
import re

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._placement import (
    allocations,
    classes_and_traits,
    inventory,
    provider_info,
    provider_query,
    providers,
    resource_providers,
    usages,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host, uuid_of

AGG1, AGG2 = uuid_of("agg1"), uuid_of("agg2")
NASTY = "x'); DROP TABLE resource_providers; --"


def put(url, name=None, **wanted):
    """Make or change a provider; return its new state."""
    with Store.open(url).write() as connection:
        return resource_providers.ensure(connection, name, **wanted)[1]


def remove(url, name=None, **wanted):
    with Store.open(url).write() as connection:
        return resource_providers.delete(connection, name, **wanted)


def make(url, kind, *custom):
    with Store.open(url).write() as connection:
        return classes_and_traits.ensure(connection, kind, custom)


def drop(url, kind, *custom):
    with Store.open(url).write() as connection:
        return classes_and_traits.delete(connection, kind, custom)


def find(url, name=None, uuid=None, in_tree=None, **query):
    with Store.open(url).read() as connection:
        return provider_info.listing(connection, name, uuid, in_tree, provider_query.parse(**query))


def found(url, **query):
    return [row["name"] for row in find(url, **query)]


def use(url, name, held, consumer="web", **owner):
    """Let a consumer hold something of a provider, without a check of room."""
    with Store.open(url).write() as connection:
        (row,) = provider_info.listing(connection, name)
        key = providers.ids(connection, [row["uuid"]])[row["uuid"]]
        owners = {uuid_of(consumer): (owner.get("project"), owner.get("user"))}
        kind = owner.get("type", "INSTANCE")
        allocations.replace(connection, {uuid_of(consumer): {key: held}}, fleets.NOW, kind, owners)


@contextlib.contextmanager
def refused(url, *words):
    """Check that the body fails with a sentence that has all the words, and changes nothing."""
    before = fleets.snapshot(url)
    with pytest.raises(DroverError) as caught:
        yield
    for word in words:
        assert word in str(caught.value)
    assert "report it" not in str(caught.value)
    assert fleets.snapshot(url) == before


# Making and changing


def test_a_new_provider_has_placements_defaults(prepared_url):
    made = put(prepared_url, "a", inventories={"VCPU": {"total": 4}})
    assert made["inventories"] == {
        "VCPU": {
            "total": 4,
            "reserved": 0,
            "min_unit": 1,
            "max_unit": 2147483647,
            "step_size": 1,
            "allocation_ratio": 1.0,
            "capacity": 4,
            "used": 0,
        }
    }
    assert (made["parent"], made["root"], made["root_uuid"], made["compute_node"]) == (
        None,
        "a",
        made["uuid"],
        None,
    )
    assert (made["traits"], made["aggregates"]) == ([], [])


def test_only_what_is_given_is_written(prepared_url):
    everything = {
        "inventories": {
            "VCPU": {"total": 4},
            "DISK_GB": {"total": "10", "allocation_ratio": "1.5"},
        },
        "traits": ["STORAGE_DISK_SSD"],
        "aggregates": [AGG1.upper(), AGG2],
    }
    first = put(prepared_url, "a", **everything)
    before = fleets.snapshot(prepared_url)
    assert put(prepared_url, "a", **everything) == first
    assert put(prepared_url, "a") == first
    assert put(prepared_url, uuid=first["uuid"].upper()) == first
    assert fleets.snapshot(prepared_url) == before
    second = put(prepared_url, "a", traits=[])
    assert (second["traits"], second["inventories"], second["aggregates"]) == (
        [],
        first["inventories"],
        sorted([AGG1, AGG2]),
    )
    third = put(prepared_url, "a", inventories={"VCPU": {"total": 4}}, aggregates=[AGG2])
    assert (sorted(third["inventories"]), third["aggregates"]) == (["VCPU"], [AGG2])


def test_generations(prepared_url):
    """The generation grows with each change of inventories, traits and aggregates; not with names,
    parents or repeated claims."""

    def generation(**wanted):
        return put(prepared_url, "a", **wanted)["generation"]

    assert generation() == 0
    inventories = {"VCPU": {"total": 4}}
    assert [generation(inventories=inventories) for dummy in range(2)] == [1, 1]
    assert [generation(traits=["STORAGE_DISK_SSD"]) for dummy in range(2)] == [2, 2]
    assert [generation(aggregates=[AGG1]) for dummy in range(2)] == [3, 3]
    assert generation(inventories={}, traits=[], aggregates=[]) == 6
    put(prepared_url, "b")
    assert generation(parent="b") == 6
    assert put(prepared_url, "a2", uuid=find(prepared_url, "a")[0]["uuid"])["generation"] == 6


def test_a_stale_generation_is_refused(prepared_url):
    put(prepared_url, "a", generation=None, traits=["STORAGE_DISK_SSD"])
    assert put(prepared_url, "a", generation=1, traits=[])["generation"] == 2
    for stale in (1, -1, 10**30):
        with refused(prepared_url, "Resource provider a changed meanwhile", "is 2, not"):
            put(prepared_url, "a", generation=stale, traits=["STORAGE_DISK_SSD"])
        with refused(prepared_url, "changed meanwhile"):
            remove(prepared_url, "a", generation=stale)
    with refused(prepared_url, "b changed meanwhile", "no such provider"):
        put(prepared_url, "b", generation=0)
    assert remove(prepared_url, "a", generation=2)["name"] == "a"


def test_a_uuid_and_a_new_name_rename(prepared_url):
    made = put(prepared_url, "a", uuid=AGG1, traits=["STORAGE_DISK_SSD"])
    assert made["uuid"] == AGG1
    assert put(prepared_url, "b", uuid=AGG1) == {**made, "name": "b", "root": "b"}
    assert found(prepared_url) == ["b"]


def test_names_and_uuids_that_are_taken_or_wrong(prepared_url):
    put(prepared_url, "a", uuid=AGG1)
    put(prepared_url, "b", uuid=AGG2)
    with refused(prepared_url, "name b is taken", AGG2, "that uuid is of a"):
        put(prepared_url, "b", uuid=AGG1)
    with refused(prepared_url, "name b is taken", "a uuid never changes"):
        put(prepared_url, "b", uuid=uuid_of("other"))
    with refused(prepared_url, "no resource provider", "Give a name"):
        put(prepared_url, uuid=uuid_of("other"))
    for wrong in ("", "x", NASTY, "1234", "é" * 36):
        with refused(prepared_url, "uuid must be a uuid such as"):
            put(prepared_url, "c", uuid=wrong)
    with refused(prepared_url, "has the uuid", "but name is c"):
        remove(prepared_url, "c", uuid=AGG1)


def test_names(prepared_url):
    longest = "n" * 200
    assert put(prepared_url, longest)["name"] == longest
    for wrong in ("n" * 201, "n" * 100_000):
        with refused(prepared_url, f"has {len(wrong)} characters; 200 are the most"):
            put(prepared_url, wrong)
    for wrong in ("", " ", " a", "a\n", "a\x00b", "\ud800"):
        with refused(prepared_url, "text that can be seen"):
            put(prepared_url, wrong)
    for odd in (NASTY, "Ünïcode 名前", "a%sb", '"', "100%"):
        assert put(prepared_url, odd)["name"] == odd
        assert found(prepared_url, name=odd) == [odd]
        assert remove(prepared_url, odd)["name"] == odd
    assert remove(prepared_url, NASTY) is None


# Inventories


@pytest.mark.parametrize(
    "given, words",
    [
        ({}, "total is missing"),
        (None, "must be a mapping"),
        (4, "must be a mapping"),
        ({"total": 0}, "total must be a whole number from 1 to 2147483647, not 0"),
        ({"total": -1}, "total must be a whole number from 1"),
        ({"total": 2**31}, "not 2147483648"),
        ({"total": 10**40}, "total must be a whole number from 1 to 2147483647"),
        ({"total": "1" * 5000}, "whole number"),
        ({"total": 1.5}, "total must be a whole number from 1 to 2147483647, not 1.5"),
        ({"total": True}, "total must be a whole number"),
        ({"total": "four"}, "total must be a whole number from 1 to 2147483647, not 'four'"),
        ({"total": 4, "reserved": 5}, "5 cannot be reserved of a total of 4"),
        ({"total": 4, "reserved": -1}, "reserved must be a whole number from 0"),
        ({"total": 4, "min_unit": 0}, "min_unit must be a whole number from 1"),
        ({"total": 4, "max_unit": 0}, "max_unit must be a whole number from 1"),
        ({"total": 4, "step_size": 0}, "step_size must be a whole number from 1"),
        ({"total": 4, "min_unit": 3, "max_unit": 2}, "min_unit 3 is above max_unit 2"),
        ({"total": 4, "allocation_ratio": 0}, "allocation_ratio must be a number above 0"),
        ({"total": 4, "allocation_ratio": -1}, "allocation_ratio must be"),
        ({"total": 4, "allocation_ratio": "nan"}, "allocation_ratio must be"),
        ({"total": 4, "allocation_ratio": float("inf")}, "allocation_ratio must be"),
        ({"total": 4, "allocation_ratio": 10**400}, "allocation_ratio must be"),
        ({"total": 4, "allocation_ratio": [1]}, "allocation_ratio must be"),
        ({"total": 4, "allocation_ratio": True}, "allocation_ratio must be"),
        ({"total": 4, "totl": 4, 5: 6}, "unknown field 5, totl"),
    ],
)
def test_inventories_that_are_wrong(given, words):
    with pytest.raises(DroverError, match=r"Resource provider a, inventory of VCPU: ") as caught:
        inventory.complete("Resource provider a", {"VCPU": given})
    assert words in str(caught.value)


def test_wrong_inventories_leave_nothing_half_written(prepared_url):
    put(prepared_url, "a")
    with refused(
        prepared_url,
        "Resource provider a, inventory of DISK_GB: total must be a whole number from 1",
    ):
        put(
            prepared_url,
            "a",
            inventories={"VCPU": {"total": 1}, "DISK_GB": {"total": -1}},
            traits=["STORAGE_DISK_SSD"],
        )
    with refused(prepared_url, "aggregates must be a uuid such as"):
        put(prepared_url, "new", inventories={"VCPU": {"total": 1}}, aggregates=["fast"])


def test_all_may_be_reserved_and_the_greatest_is_allowed(prepared_url):
    most = inventory.MOST
    made = put(
        prepared_url,
        "a",
        inventories={
            "VCPU": {"total": 4, "reserved": 4},
            "DISK_GB": {"total": most, "allocation_ratio": inventory.MOST_RATIO},
        },
    )["inventories"]
    assert (made["VCPU"]["capacity"], made["DISK_GB"]["capacity"]) == (
        0,
        int(most * inventory.MOST_RATIO),
    )


def test_capacity_is_rounded_down_to_be_shown_only(prepared_url):
    put(prepared_url, "a", inventories={"VCPU": {"total": 3, "allocation_ratio": 1.5}})
    assert find(prepared_url)[0]["inventories"]["VCPU"]["capacity"] == 4
    assert found(prepared_url, resources="VCPU:4") == ["a"]
    assert found(prepared_url, resources="VCPU:5") == []


def test_an_inventory_in_use_is_not_removed(prepared_url):
    put(prepared_url, "a", inventories={"VCPU": {"total": 4}, "DISK_GB": {"total": 10}})
    use(prepared_url, "a", {"VCPU": 3})
    for inventories in ({}, {"DISK_GB": {"total": 10}}):
        with refused(
            prepared_url, "inventory of", "VCPU", f"in use: INSTANCE {uuid_of('web')} (3 VCPU)"
        ):
            put(prepared_url, "a", inventories=inventories)
    assert sorted(put(prepared_url, "a", inventories={"VCPU": {"total": 4}})["inventories"]) == [
        "VCPU"
    ]
    use(prepared_url, "a", {})
    assert put(prepared_url, "a", inventories={})["inventories"] == {}


def test_capacity_below_use_is_a_warning(prepared_url):
    put(prepared_url, "a", inventories={"VCPU": {"total": 8}})
    use(prepared_url, "a", {"VCPU": 6})

    def warnings(**values):
        with Store.open(prepared_url).write() as connection:
            return resource_providers.ensure(connection, "a", inventories={"VCPU": values})[2]

    assert warnings(total=6) == []
    (sentence,) = warnings(total=4)
    assert sentence.startswith(
        "Resource provider a: 6 of VCPU are in use, more than its new capacity of 4."
    )
    assert warnings(total=4) == []
    assert len(warnings(total=8, reserved=8)) == 1
    (row,) = find(prepared_url)
    assert (row["inventories"]["VCPU"]["capacity"], row["inventories"]["VCPU"]["used"]) == (0, 6)


# Names of classes and traits


@pytest.mark.parametrize(
    "kind", [classes_and_traits.RESOURCE_CLASS, classes_and_traits.TRAIT], ids=["class", "trait"]
)
def test_custom_names(prepared_url, kind):
    assert make(prepared_url, kind, "CUSTOM_B", "CUSTOM_A", "CUSTOM_A") == (
        [],
        ["CUSTOM_A", "CUSTOM_B"],
    )
    assert make(prepared_url, kind, "CUSTOM_A", "CUSTOM_C") == (
        ["CUSTOM_A"],
        ["CUSTOM_A", "CUSTOM_C"],
    )
    longest = "CUSTOM_" + "X" * 248
    assert make(prepared_url, kind, longest)[1] == [longest]
    assert drop(prepared_url, kind, "CUSTOM_A", "CUSTOM_NONE", longest) == (
        ["CUSTOM_A", longest],
        [],
    )
    assert drop(prepared_url, kind, "CUSTOM_A") == ([], [])
    many = [f"CUSTOM_N{number}" for number in range(1500)]
    assert make(prepared_url, kind, *many) == ([], sorted(many))
    assert len(drop(prepared_url, kind, *many)[0]) == 1500


@pytest.mark.parametrize(
    "kind", [classes_and_traits.RESOURCE_CLASS, classes_and_traits.TRAIT], ids=["class", "trait"]
)
def test_names_that_are_no_custom_ones(prepared_url, kind):
    usual = sorted(classes_and_traits.standard(kind))[0]
    for change in (make, drop):
        with refused(prepared_url, f"The {kind.word} {usual} is a standard one"):
            change(prepared_url, kind, "CUSTOM_FINE", usual)
        with refused(prepared_url, "does not begin with CUSTOM_"):
            change(prepared_url, kind, "GPU")
        with refused(prepared_url, "needs a name after CUSTOM_"):
            change(prepared_url, kind, "CUSTOM_")
        for wrong in (
            "CUSTOM_gpu",
            "CUSTOM GPU",
            "CUSTOM_GPU-1",
            "",
            "CUSTOM_É",
            "CUSTOM_A\n",
            NASTY,
            "CUSTOM_\x00",
        ):
            with refused(prepared_url, "nothing but A-Z, 0-9 and _"):
                change(prepared_url, kind, wrong)
        with refused(prepared_url, "has 256 characters; 255 are the most"):
            change(prepared_url, kind, "CUSTOM_" + "X" * 249)


def test_names_in_use_are_not_deleted(prepared_url):
    make(prepared_url, classes_and_traits.TRAIT, "CUSTOM_GOLD", "CUSTOM_TIN")
    make(prepared_url, classes_and_traits.RESOURCE_CLASS, "CUSTOM_GPU", "CUSTOM_TIN")
    for number in range(7):
        put(
            prepared_url,
            f"p{number}",
            traits=["CUSTOM_GOLD"],
            inventories={"CUSTOM_GPU": {"total": 1}},
        )
    for kind, name in (
        (classes_and_traits.TRAIT, "CUSTOM_GOLD"),
        (classes_and_traits.RESOURCE_CLASS, "CUSTOM_GPU"),
    ):
        with refused(
            prepared_url,
            f"{kind.word} {name} is in use by the resource providers p0, p1, p2, p3, p4 and 2 more",
        ):
            drop(prepared_url, kind, "CUSTOM_TIN", name)
    for number in range(7):
        put(prepared_url, f"p{number}", traits=[], inventories={})
    assert drop(prepared_url, classes_and_traits.TRAIT, "CUSTOM_GOLD") == (["CUSTOM_GOLD"], [])
    assert drop(prepared_url, classes_and_traits.RESOURCE_CLASS, "CUSTOM_GPU") == (
        ["CUSTOM_GPU"],
        [],
    )


def test_unknown_names_are_refused_with_what_may_be_meant(prepared_url):
    make(prepared_url, classes_and_traits.TRAIT, "CUSTOM_NVLINK")
    make(prepared_url, classes_and_traits.RESOURCE_CLASS, "CUSTOM_GPU")
    put(prepared_url, "a")
    with refused(
        prepared_url,
        "no trait CUSTOM_NVLINKS (did you mean CUSTOM_NVLINK?)",
        "drover.compute.trait",
    ):
        put(prepared_url, "a", traits=["STORAGE_DISK_SSD", "CUSTOM_NVLINKS"])
    with refused(
        prepared_url, "no trait HW_CPU_X86_AVX9 (did you mean HW_CPU_X86_AVX", "no standard one"
    ):
        put(prepared_url, "a", traits=["HW_CPU_X86_AVX9"])
    with refused(
        prepared_url,
        "no resource class CUSTOM_GPUS (did you mean CUSTOM_GPU?)",
        "drover.compute.resource_class",
    ):
        put(prepared_url, "a", inventories={"CUSTOM_GPUS": {"total": 1}})
    with refused(prepared_url, "no resource class VCPUS (did you mean VCPU?)"):
        put(prepared_url, "a", inventories={"VCPUS": {"total": 1}})
    for wrong in ("vcpu", NASTY, "", "A B", "\x00"):
        with refused(prepared_url, "nothing but A-Z, 0-9 and _"):
            put(prepared_url, "a", traits=[wrong])
        with refused(prepared_url, "nothing but A-Z, 0-9 and _"):
            put(prepared_url, "a", inventories={wrong: {"total": 1}})
    with refused(prepared_url, "no resource class 5."):
        put(prepared_url, "a", inventories={5: {"total": 1}})


# Trees


def chain(url, *members):
    above = None
    for name in members:
        put(url, name, parent=above)
        above = name


def tree(url):
    """Return parent and root of each provider."""
    return {row["name"]: (row["parent"], row["root"]) for row in find(url)}


def test_a_subtree_moves_with_its_root(prepared_url):
    chain(prepared_url, "a", "b", "c", "d")
    chain(prepared_url, "x", "y")
    put(prepared_url, "b2", parent="a")
    assert put(prepared_url, "b", parent=find(prepared_url, "y")[0]["uuid"].upper())["root"] == "x"
    assert tree(prepared_url) == {
        "a": (None, "a"),
        "b2": ("a", "a"),
        "x": (None, "x"),
        "y": ("x", "x"),
        "b": ("y", "x"),
        "c": ("b", "x"),
        "d": ("c", "x"),
    }
    put(prepared_url, "c", parent="")
    assert (tree(prepared_url)["c"], tree(prepared_url)["d"]) == ((None, "c"), ("c", "c"))
    put(prepared_url, "d", parent="")
    put(prepared_url, "x", parent="d")
    assert tree(prepared_url)["b"] == ("y", "d")
    put(prepared_url, "b", parent="x")
    assert tree(prepared_url)["b"] == ("x", "d")


def test_loops_are_refused(prepared_url):
    chain(prepared_url, "a", "b", "c", "d")
    for name, parent, reason in (
        ("a", "a", "itself"),
        ("a", "b", "b is below it"),
        ("b", "d", "d is below it"),
    ):
        with refused(
            prepared_url, f"Resource provider {name} cannot have the parent {parent}: ", reason
        ):
            put(prepared_url, name, parent=parent)
    with refused(prepared_url, "new cannot have the parent new: it is that provider itself"):
        put(prepared_url, "new", parent="new")


def test_an_unknown_parent_is_refused(prepared_url):
    put(prepared_url, "rack1")
    with refused(
        prepared_url,
        "Resource provider a: there is no resource provider rack2 to be its parent (did you mean"
        " rack1?). Make the parent first.",
    ):
        put(prepared_url, "a", parent="rack2")
    for unknown in (uuid_of("nobody"), NASTY, "y" * 300):
        with refused(prepared_url, "Make the parent first"):
            put(prepared_url, "a", parent=unknown)


def test_deleting(prepared_url):
    chain(prepared_url, "a", "b")
    put(
        prepared_url,
        "b",
        inventories={"VCPU": {"total": 8}},
        traits=["STORAGE_DISK_SSD"],
        aggregates=[AGG1],
    )
    with refused(prepared_url, "Resource provider a has children: b"):
        remove(prepared_url, "a")
    for number in range(5):
        use(prepared_url, "b", {"VCPU": 1}, f"web{number}")
    with refused(
        prepared_url, "Resource provider b has allocations: INSTANCE", uuid_of("web0"), "and 2 more"
    ):
        remove(prepared_url, "b")
    for number in range(5):
        use(prepared_url, "b", {}, f"web{number}")
    assert remove(prepared_url, uuid=find(prepared_url, "b")[0]["uuid"])["name"] == "b"
    assert remove(prepared_url, "b") is None
    assert remove(prepared_url, "a")["name"] == "a"
    assert found(prepared_url) == []


# Providers of compute nodes


def test_what_discovery_owns_is_not_changed(prepared_url):
    fleets.discover(prepared_url, host("kvm1", traits=["HW_CPU_X86_AVX"]), host("kvm2"))
    put(prepared_url, "rack1")
    with refused(
        prepared_url, "discovery owns the inventory of VCPU", "kvm1", "drover_*_allocation_ratio"
    ):
        put(prepared_url, "kvm1", inventories={"VCPU": {"total": 64}})
    with refused(prepared_url, "discovery owns the inventory of PCPU"):
        put(prepared_url, "kvm1", inventories={"PCPU": {"total": 1}})
    with refused(prepared_url, "discovery owns the trait HW_CPU_X86_AVX2"):
        put(prepared_url, "kvm1", traits=["HW_CPU_X86_AVX2"])
    with refused(prepared_url, "discovery owns the trait COMPUTE_STATUS_DISABLED"):
        put(prepared_url, "kvm1", traits=["COMPUTE_STATUS_DISABLED"])
    with refused(prepared_url, "cannot be hung under rack1"):
        put(prepared_url, "kvm1", parent="rack1")
    with refused(prepared_url, "not renamed to kvm3"):
        put(prepared_url, "kvm3", uuid=find(prepared_url, "kvm1")[0]["uuid"])
    with refused(prepared_url, "is that of the compute node kvm1 of host kvm1"):
        remove(prepared_url, "kvm1")
    # Equal values are not a change, and an empty value removes only the operator's own values.
    (before,) = find(prepared_url, "kvm1")
    inventories = {
        name: {k: v for k, v in each.items() if k not in ("used", "capacity")}
        for name, each in before["inventories"].items()
    }
    assert (
        put(prepared_url, "kvm1", inventories=inventories, traits=["HW_CPU_X86_AVX"], parent="")
        == before
    )
    assert put(prepared_url, "kvm1", inventories={}, traits=[], aggregates=[]) == before


def test_a_provider_says_whose_compute_node_it_is_on(prepared_url):
    fleets.discover(prepared_url, host("kvm1", hypervisor_hostname="node1"))
    assert put(prepared_url, "gpu", parent="kvm1/node1")["compute_node"] == {
        "host": "kvm1",
        "hypervisor_hostname": "node1",
    }
    put(prepared_url, "chip", parent="gpu")
    assert find(prepared_url, "chip")[0]["compute_node"]["host"] == "kvm1"


# Finding providers


@pytest.fixture
def shelf(prepared_url):
    """Fill a store: disk (SSD, in both aggregates), tape (in the second one), and a node below
    disk."""
    put(
        prepared_url,
        "disk",
        inventories={
            "DISK_GB": {
                "total": 100,
                "reserved": 20,
                "min_unit": 10,
                "max_unit": 50,
                "step_size": 10,
            }
        },
        traits=["STORAGE_DISK_SSD", "MISC_SHARES_VIA_AGGREGATE"],
        aggregates=[AGG1, AGG2],
    )
    put(
        prepared_url,
        "tape",
        inventories={"DISK_GB": {"total": 1000}},
        traits=["STORAGE_DISK_HDD"],
        aggregates=[AGG2],
    )
    put(prepared_url, "node", parent="disk", inventories={"VCPU": {"total": 4}})
    use(prepared_url, "disk", {"DISK_GB": 40})
    return prepared_url


@pytest.mark.parametrize(
    "query, expected",
    [
        ({}, ["disk", "node", "tape"]),
        ({"required": "STORAGE_DISK_SSD"}, ["disk"]),
        ({"required": "STORAGE_DISK_SSD,MISC_SHARES_VIA_AGGREGATE"}, ["disk"]),
        ({"required": ["STORAGE_DISK_SSD", "STORAGE_DISK_HDD"]}, []),
        ({"required": "in:STORAGE_DISK_SSD,STORAGE_DISK_HDD"}, ["disk", "tape"]),
        ({"required": ["in:STORAGE_DISK_SSD,STORAGE_DISK_HDD", "!STORAGE_DISK_HDD"]}, ["disk"]),
        ({"required": "!STORAGE_DISK_SSD"}, ["node", "tape"]),
        ({"required": "!STORAGE_DISK_SSD,!STORAGE_DISK_HDD"}, ["node"]),
        ({"member_of": AGG1}, ["disk"]),
        ({"member_of": AGG2.upper()}, ["disk", "tape"]),
        ({"member_of": f"in:{AGG1},{AGG2}"}, ["disk", "tape"]),
        ({"member_of": [AGG1, AGG2]}, ["disk"]),
        ({"member_of": [AGG2, f"!{AGG1}"]}, ["tape"]),
        ({"member_of": f"!in:{AGG1},{AGG2}"}, ["node"]),
        ({"member_of": uuid_of("no aggregate")}, []),
        ({"resources": {"DISK_GB": 10}}, ["disk", "tape"]),
        ({"resources": "DISK_GB:40"}, ["disk", "tape"]),
        ({"resources": {"DISK_GB": 50}}, ["tape"]),
        ({"resources": {"DISK_GB": 15}}, ["tape"]),
        ({"resources": {"DISK_GB": "5"}}, ["tape"]),
        ({"resources": {"DISK_GB": 10**40}}, []),
        ({"resources": {"DISK_GB": 10, "VCPU": 1}}, []),
        ({"resources": {"PGPU": 1}}, []),
        ({"name": "tape"}, ["tape"]),
        ({"name": NASTY}, []),
        ({"uuid": uuid_of("nobody")}, []),
        ({"in_tree": uuid_of("nobody")}, []),
    ],
)
def test_filters(shelf, query, expected):
    assert found(shelf, **query) == expected


def test_a_tree_is_named_by_any_of_its_providers(shelf):
    for row in find(shelf):
        expected = ["tape"] if row["name"] == "tape" else ["disk", "node"]
        assert found(shelf, in_tree=row["uuid"]) == expected


@pytest.mark.parametrize(
    "query, words",
    [
        (
            {"required": "STORAGE_DISK_SDS"},
            "required: there is no trait STORAGE_DISK_SDS (did you mean STORAGE_DISK_SSD?)",
        ),
        ({"required": "!CUSTOM_X"}, "no trait CUSTOM_X"),
        (
            {"required": "STORAGE_DISK_SSD,!STORAGE_DISK_SSD"},
            "both requires and forbids STORAGE_DISK_SSD",
        ),
        (
            {"required": "in:STORAGE_DISK_SSD,!STORAGE_DISK_HDD"},
            "expected in:TRAIT,TRAIT without '!'",
        ),
        ({"required": "STORAGE_DISK_SSD,"}, "without an empty name"),
        ({"required": ["!"]}, "without an empty name"),
        ({"required": ["in:"]}, "without an empty name"),
        ({"required": [1]}, "required is '1'; expected a text"),
        ({"member_of": "fast"}, "member_of must be a uuid such as"),
        ({"member_of": f"!{AGG1},{AGG2}"}, "expected in: or !in: before several uuids"),
        (
            {"resources": {"VCPUS": 1}},
            "resources: there is no resource class VCPUS (did you mean VCPU?)",
        ),
        (
            {"resources": {"VCPU": 0}},
            "the amount of VCPU must be a whole number of at least 1, not 0",
        ),
        ({"resources": {"VCPU": -1}}, "at least 1, not -1"),
        ({"resources": {"VCPU": "x"}}, "at least 1, not 'x'"),
        ({"resources": "VCPU"}, "expected CLASS:AMOUNT"),
        ({"resources": "VCPU:"}, "at least 1, not ''"),
        ({"resources": [1]}, "resources is '1'; expected a text"),
    ],
)
def test_filters_that_are_wrong(shelf, query, words):
    with refused(shelf, words):
        find(shelf, **query)


def test_the_number_of_queries_does_not_grow(prepared_url):
    query = provider_query.parse(required="!STORAGE_DISK_SSD,!CUSTOM_A", resources="VCPU:1")
    make(prepared_url, classes_and_traits.TRAIT, "CUSTOM_A")
    put(prepared_url, "first")
    with Store.open(prepared_url).read() as connection:
        few = fleets.count_queries(connection, provider_info.listing, None, None, None, query)
    fleets.discover(
        prepared_url, *(host(f"kvm{number}", domain(f"vm{number}")) for number in range(40))
    )
    for number in range(5):
        put(
            prepared_url,
            f"gpu{number}",
            parent=f"kvm{number}",
            aggregates=[AGG1],
            traits=["CUSTOM_A"],
        )
    with Store.open(prepared_url).read() as connection:
        assert fleets.count_queries(
            connection, provider_info.listing, None, None, None, query
        ) <= max(few, 7)
        assert fleets.count_queries(connection, usages.read) == 1
        assert (
            fleets.count_queries(
                connection, usages.read, [uuid_of(f"vm{number}") for number in range(40)]
            )
            == 3
        )


# Usages of consumers and projects


@pytest.fixture
def held(prepared_url):
    """Fill a store with four consumers on two providers."""
    for name in ("a", "b"):
        put(prepared_url, name, inventories={"VCPU": {"total": 100}, "DISK_GB": {"total": 100}})
    use(prepared_url, "a", {"VCPU": 1, "DISK_GB": 10}, "web", project="shop", user="eve")
    use(prepared_url, "b", {"VCPU": 2}, "db", project="shop", user="bob")
    use(prepared_url, "b", {"VCPU": 4}, "test", project=NASTY)
    use(prepared_url, "a", {"VCPU": 8}, "moving", project="shop", type="MIGRATION")
    return prepared_url


def read_usages(url, **filters):
    with Store.open(url).read() as connection:
        return usages.read(connection, **filters)


def test_usages(held):
    everything = read_usages(held)
    assert everything == {
        "usages": {"DISK_GB": 10, "VCPU": 15},
        "usages_by": {
            "provider": {"a": {"DISK_GB": 10, "VCPU": 9}, "b": {"VCPU": 6}},
            "project": {"shop": {"DISK_GB": 10, "VCPU": 11}, NASTY: {"VCPU": 4}},
            "user": {"(none)": {"VCPU": 12}, "bob": {"VCPU": 2}, "eve": {"DISK_GB": 10, "VCPU": 1}},
            "consumer_type": {"INSTANCE": {"DISK_GB": 10, "VCPU": 7}, "MIGRATION": {"VCPU": 8}},
        },
    }
    assert read_usages(held, project="shop", consumer_type="INSTANCE")["usages"] == {
        "DISK_GB": 10,
        "VCPU": 3,
    }
    assert read_usages(held, project="shop", user="bob")["usages"] == {"VCPU": 2}
    assert read_usages(held, project=NASTY)["usages"] == {"VCPU": 4}
    assert read_usages(held, project="nobody") == {
        "usages": {},
        "usages_by": {"provider": {}, "project": {}, "user": {}, "consumer_type": {}},
    }


def test_allocations_of_consumers(held):
    (row_of_a,) = find(held, "a")
    answer = read_usages(held, consumers=[uuid_of("web"), uuid_of("nobody")])
    assert answer["consumers"] == [
        {
            "uuid": uuid_of("web"),
            "name": None,
            "type": "INSTANCE",
            "project": "shop",
            "user": "eve",
            "generation": 1,
            "expires_at": None,
            "allocations": [
                {
                    "provider": "a",
                    "provider_uuid": row_of_a["uuid"],
                    "resources": {"DISK_GB": 10, "VCPU": 1},
                }
            ],
        }
    ]
    assert answer["usages"] == {"DISK_GB": 10, "VCPU": 1}
    for provider in ("a", row_of_a["uuid"], row_of_a["uuid"].upper()):
        found_there = read_usages(held, provider=provider)
        assert {row["uuid"] for row in found_there["consumers"]} == {
            uuid_of("web"),
            uuid_of("moving"),
        }
        assert found_there["usages"] == {"DISK_GB": 10, "VCPU": 9}
    assert read_usages(held, consumers=[])["consumers"] == []
    many = [uuid_of(str(number)) for number in range(1200)] + [uuid_of("db")]
    assert read_usages(held, consumers=many)["usages"] == {"VCPU": 2}
    with refused(held, "There is no resource provider c"):
        read_usages(held, provider="c")


def test_consumers_of_a_fleet_have_names(prepared_url):
    fleets.discover(prepared_url, host("kvm1", domain("web", 2, 512)))
    (row,) = read_usages(prepared_url, provider="kvm1")["consumers"]
    assert (row["name"], row["allocations"][0]["resources"]) == (
        "web",
        {"MEMORY_MB": 512, "VCPU": 2},
    )


# Trees remain trees

MEMBERS = ("a", "b", "c", "d", "e")
steps = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(MEMBERS), st.sampled_from((None, "", *MEMBERS))),
    st.tuples(st.just("delete"), st.sampled_from(MEMBERS), st.none()),
)


class Model:
    """Return the parents of the existing providers."""

    def __init__(self):
        self.parents = {}

    def root(self, name):
        while self.parents[name] is not None:
            name = self.parents[name]
        return name

    def _above(self, name):
        while name is not None:
            yield name
            name = self.parents[name]

    def put(self, name, parent):
        """Return False if the change is refused."""
        if parent and (
            parent not in self.parents or (name in self.parents and name in self._above(parent))
        ):
            return False
        if parent is not None or name not in self.parents:
            self.parents[name] = parent or None
        return True

    def delete(self, name, dummy):
        if name in self.parents.values():
            return False
        self.parents.pop(name, None)
        return True


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(sequence=st.lists(steps, min_size=5, max_size=30))
def test_trees_stay_trees(prepared_url, sequence):
    fleets.empty(prepared_url)
    model = Model()
    store = Store.open(prepared_url)
    for verb, name, parent in sequence:
        expected = getattr(model, verb)(name, parent)
        try:
            with store.write() as connection:
                if verb == "put":
                    resource_providers.ensure(connection, name, parent=parent)
                else:
                    resource_providers.delete(connection, name)
            assert expected, (verb, name, parent)
        except DroverError as problem:
            assert not expected, problem
            assert re.search("to be its parent|cannot have the parent|has children", str(problem))
    assert tree(prepared_url) == {
        name: (parent, model.root(name)) for name, parent in model.parents.items()
    }
    table = tables.resource_providers
    with store.read() as connection:
        roots = {
            row.name: (row.parent_id, row.root_id) for row in connection.execute(sa.select(table))
        }
    # A root has neither a parent nor a root, all others have both.
    assert all((parent is None) == (root is None) for parent, root in roots.values())
