# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Candidates of random tiny topologies, against trying everything."""

from __future__ import annotations

import dataclasses
import uuid

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.plugin_utils._placement.candidates import (
    query,
    response,
)
from ansible_collections.drover.compute.tests.benchmarks import candidates, topology_file
from ansible_collections.drover.compute.tests.benchmarks.compare_candidates import as_set
from ansible_collections.drover.compute.tests.unit.candidates import naive

SETTINGS = settings(
    max_examples=80,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
CLASSES = ("VCPU", "DISK_GB", "PCPU")
TRAITS = ("CUSTOM_T", "CUSTOM_U", naive.SHARES)
AGGREGATES = tuple(str(uuid.UUID(int=number)) for number in (1, 2))


def uuid_of(name):
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def inventories():
    return st.builds(
        lambda total, reserved, least, most, step, ratio: {
            "total": total,
            "reserved": min(reserved, total),
            "min_unit": least,
            "max_unit": most,
            "step_size": step,
            "allocation_ratio": ratio,
        },
        st.integers(1, 5),
        st.integers(0, 1),
        st.sampled_from((1, 1, 1, 2)),
        st.sampled_from((9, 9, 2, 1)),
        st.sampled_from((1, 1, 1, 2)),
        st.sampled_from((1.0, 1.0, 1.5)),
    )


@st.composite
def topologies(draw):
    count = draw(st.integers(1, 5))
    # Names in another order than parents before children.
    names = draw(st.permutations([f"p{number}" for number in range(count)]))
    providers, allocations = [], []
    for number, name in enumerate(names):
        parent = draw(st.sampled_from([None, *names[:number]])) if number else None
        shares = parent is None and draw(st.integers(0, 2)) == 0
        traits = set(draw(st.lists(st.sampled_from(TRAITS[:2]), max_size=2))) | (
            {naive.SHARES} if shares else set()
        )
        providers.append(
            {
                "uuid": uuid_of(name),
                "name": name,
                "parent": parent,
                "inventories": draw(
                    st.dictionaries(st.sampled_from(CLASSES), inventories(), max_size=3)
                ),
                "traits": sorted(traits),
                "aggregates": sorted(set(draw(st.lists(st.sampled_from(AGGREGATES), max_size=2)))),
            }
        )
        used = {key: 1 for key in providers[-1]["inventories"] if draw(st.integers(0, 3)) == 0}
        if used:
            allocations.append(
                {"consumer": str(uuid.UUID(int=number + 1)), "allocations": {name: used}}
            )
    return {"providers": providers, "allocations": allocations, "traits": TRAITS}


def groups(resources):
    def choices(names):
        one = st.sampled_from(names)
        return st.lists(
            st.one_of(one, one.map(lambda name: f"!{name}"), st.just(list(names))), max_size=1
        )

    return st.fixed_dictionaries(
        {"resources": resources},
        optional={
            "required": choices(TRAITS[:2]),
            "member_of": choices(AGGREGATES),
            "in_tree": st.sampled_from([uuid_of(f"p{number}") for number in range(3)]),
        },
    )


@st.composite
def queries(draw):
    """Return a mapping without mistakes."""
    amounts = st.dictionaries(st.sampled_from(CLASSES), st.integers(1, 2), min_size=1, max_size=2)
    query_mapping = draw(groups(amounts)) if draw(st.booleans()) else {}
    suffixes = draw(
        st.sampled_from(([], ["a"], ["a", "b"]) if query_mapping else (["a"], ["a", "b"]))
    )
    subtree = len(suffixes) == 2 and draw(st.booleans())
    query_mapping["groups"] = {suffix: draw(groups(amounts)) for suffix in suffixes}
    if subtree:
        query_mapping["same_subtree"] = suffixes
        if draw(st.booleans()):
            query_mapping["groups"]["b"].pop("resources")
    if len(suffixes) > 1:
        query_mapping["group_policy"] = draw(st.sampled_from(query.POLICIES))
    if draw(st.integers(0, 3)) == 0:
        query_mapping["root_required"] = [draw(st.sampled_from(("CUSTOM_T", "!CUSTOM_T")))]
    return query_mapping


def ask(store, asked):
    with store.read() as connection:
        return response.answer(connection, asked)


@given(topologies(), queries())
@SETTINGS
def test_the_same_as_trying_everything(store, topology, mapping):
    topology_file.load(store, topology)
    wish = query.from_mapping(mapping)
    answer = ask(store, wish)
    ours = as_set(candidates.named_by(answer, candidates.names_of(topology)))
    assert ours == naive.candidates(topology, wish)
    assert len(ours) == len(answer["allocation_requests"])


@given(topologies(), queries(), st.randoms())
@SETTINGS
def test_the_order_of_rows_changes_nothing_and_a_limit_takes_the_first(
    store, topology, mapping, random
):
    wish = query.from_mapping(mapping)
    topology_file.load(store, topology)
    before = ask(store, wish)
    random.shuffle(topology["providers"])
    for each in topology["providers"]:
        each["inventories"] = dict(sorted(each["inventories"].items(), reverse=True))
    topology_file.load(store, topology)
    after = ask(store, wish)
    assert after == before
    assert after["allocation_requests"] == before["allocation_requests"]
    for limit in (1, 2):
        some = ask(store, dataclasses.replace(wish, limit=limit))
        assert some["allocation_requests"] == before["allocation_requests"][:limit]
        assert some["provider_summaries"].items() <= before["provider_summaries"].items()
