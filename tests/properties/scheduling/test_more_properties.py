# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for every decision, with any fleet, requests and policy."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.plugin_utils._scheduler import drivers
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.components import find
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.errors import NoValidHost
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.host_states import (
    HostStates,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.tests.unit.scheduler.fleets import (
    CLASSES,
    fleet,
    hosts,
    request,
    requests,
)

DRIVERS = st.sampled_from(["filter_scheduler", "chance", "simple", "least_cost"])
#: Host filters that require equality. More room may break it: they exist for that.
EXACT = {"ExactCoreFilter", "ExactRamFilter", "ExactDiskFilter"}


@st.composite
def tagged_hosts(draw):
    """Return hosts with figures for every optional column, in aggregates."""
    host_list = draw(hosts())
    for host in host_list:
        host["aggregates"] = draw(st.lists(st.sampled_from(["ssd", "limits", "pack"]), unique=True))
        host["num_io_ops"] = draw(st.integers(0, 9))
        host["failed_builds"] = draw(st.integers(0, 1))
        host["hypervisor_version"] = draw(st.sampled_from([0, 7000000, 8000000]))
        host["host_ip"] = draw(st.sampled_from([None, "10.0.0.1", "10.0.9.1"]))
        host["stats"] = draw(st.sampled_from([None, {"rack": "1"}, {"rack": "2"}]))
    return host_list


AGGREGATES = {
    "ssd": {"ssd": "true", "ram_allocation_ratio": "0.9"},
    "limits": {"max_io_ops_per_host": "3", "max_instances_per_host": "2"},
    "pack": {"ram_weight_multiplier": "-1"},
}


@st.composite
def decorated(draw):
    """Return a request that uses some host filter."""
    hints = draw(
        st.sampled_from(
            [
                None,
                {"query": [">=", "$free_ram_mb", 5]},
                {"build_near_host_ip": "10.0.0.7"},
                {"query": ["=", "$stats.rack", "1"]},
            ]
        )
    )
    specs = draw(
        st.sampled_from(
            [{}, {"capabilities:rack": "1"}, {"aggregate_instance_extra_specs:ssd": "true"}]
        )
    )
    return request(
        vcpus=draw(st.integers(1, 3)),
        memory_mb=draw(st.integers(1, 6)),
        disk_gb=draw(st.integers(0, 3)),
        hints=hints,
        flavor={"name": "m1", "extra_specs": specs},
    )


def build(found):
    return fleet(*found, aggregates=AGGREGATES)


@settings(max_examples=60, deadline=None)
@given(
    tagged_hosts(),
    decorated(),
    st.integers(0, 7),
    st.sampled_from(sorted(CLASSES.values())),
    st.integers(1, 9),
)
def test_more_room_never_makes_a_host_fail(found, spec, number, what, more):
    roomier = [dict(each) for each in found]
    index = number % len(found)
    roomier[index][what] += more
    before, after = HostStates(build(found)), HostStates(build(roomier))
    for name, filter_class in find("host_filters").items():
        if name not in EXACT:
            passed = filter_class().passes(before, spec)
            assert not (passed & ~filter_class().passes(after, spec)).any(), name


@settings(max_examples=60, deadline=None)
@given(tagged_hosts(), decorated(), DRIVERS, st.integers(0, 99))
def test_the_order_of_hosts_in_the_store_never_matters(found, spec, driver, seed):
    columns = build(found)
    order = list(range(len(found)))
    random.Random(seed).shuffle(order)
    mixed = {
        key: (
            [value[old] for old in order]
            if isinstance(value, list) and key != "aggregates"
            else value
        )
        for key, value in columns.items()
    }
    mixed["resources"] = {
        rc: {field: [values[old] for old in order] for field, values in each.items()}
        for rc, each in columns["resources"].items()
    }
    for each in mixed["aggregates"]:
        each["hosts"] = each["hosts"][::-1]
    policy = Policy.from_mapping(
        {"driver": driver, "enabled_filters": sorted(set(find("host_filters")) - EXACT)}
    )
    assert outcome(columns, [spec], policy) == outcome(mixed, [spec], policy)


def outcome(columns, batch, policy):
    try:
        chosen = drivers.schedule(HostStates(columns), batch, policy)
    except NoValidHost:
        return None
    return [(each["host"], each["node"], each["weight"], each["alternates"]) for each in chosen]


@settings(max_examples=80, deadline=None)
@given(tagged_hosts(), requests(), DRIVERS, st.booleans())
def test_a_batch_never_puts_more_on_a_host_than_fits(found, batch, driver, bare):
    states = HostStates(build(found))
    policy = Policy.from_mapping(
        {"driver": driver, "max_cores": 99, **({"enabled_filters": []} if bare else {})}
    )
    before = {rc: column.used.copy() for rc, column in states.resources.items()}
    try:
        drivers.schedule(states, batch, policy)
    except NoValidHost:
        for rc, column in states.resources.items():
            assert (column.used == before[rc]).all()
        return
    for rc, column in states.resources.items():
        grown = column.used > before[rc]
        assert (column.used[grown] <= column.capacity[grown]).all()


@settings(max_examples=80, deadline=None)
@given(
    tagged_hosts(),
    decorated(),
    DRIVERS,
    st.sets(st.integers(0, 7)),
    st.sets(st.integers(0, 7), min_size=1),
)
def test_force_and_ignore_always_hold(found, spec, driver, ignored, forced):
    names = [each["host"] for each in found]
    more = {
        "ignore_hosts": tuple(
            name.upper() for number, name in enumerate(names) if number in ignored
        ),
        "force_hosts": (
            tuple(name for number, name in enumerate(names) if number in forced) or (names[0],)
        ),
    }
    spec = type(spec)(**{**vars(spec), **more})
    picked = outcome(
        build(found), [spec], Policy.from_mapping({"driver": driver, "max_attempts": 9})
    )
    for host, _node, _weight, alternates in picked or ():
        for each in [host, *(spare["host"] for spare in alternates)]:
            assert each in more["force_hosts"] and each.upper() not in more["ignore_hosts"]


@settings(max_examples=40, deadline=None)
@given(tagged_hosts(), requests(), st.booleans())
def test_explaining_changes_nothing(found, batch, is_equivalent):
    if is_equivalent:
        batch = [
            type(batch[0])(**{**vars(batch[0]), "name": each.name, "uuid": None}) for each in batch
        ]
    policy = Policy.from_mapping()
    answers = []
    for explain in (True, False):
        try:
            chosen = drivers.schedule(HostStates(build(found)), batch, policy, explain)
            answers.append([(each["host"], each["weight"], each["alternates"]) for each in chosen])
        except NoValidHost as problem:
            answers.append(str(problem))
    assert answers[0] == answers[1]
