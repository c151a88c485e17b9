# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A request or a policy with any value under a key gives a sentence and no traceback."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler import (
    drivers,
    prefilters,
    request_fields,
    request_spec,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.components import find
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.host_states import (
    HostStates,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import (
    DRIVER_OPTIONS,
    Policy,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.request_spec import (
    RequestSpec,
)
from ansible_collections.drover.compute.tests.unit.scheduler.fleets import fleet, host, request

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from([">=", "$free_ram_mb", "not", "<or>"]),
)
JUNK = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
REQUEST_KEYS = st.sampled_from(request_spec.KEYS)
NESTED = {
    "hints": request_fields.HINTS,
    "flavor": request_fields.FLAVOR_KEYS,
    "image": request_fields.IMAGE_KEYS,
    "requested_destination": request_fields.DESTINATION_KEYS,
    "server_group": request_fields.GROUP_KEYS,
}
OPTIONS = sorted(
    {
        option
        for kind in ("host_filters", "weighers")
        for each in find(kind).values()
        for option in each.options
    }
    | set(prefilters.OPTIONS)
    | set(DRIVER_OPTIONS)
    | {
        "enabled_filters",
        "weighers",
        "driver",
        "max_attempts",
        "host_subset_size",
        "shuffle_best_same_weighed_hosts",
    }
)
STATES = fleet(
    host("a", stats={"x": "1"}), host("b", host_ip="10.0.0.1"), aggregates={"g": {"a": "b"}}
)


def answer(specs, policy):
    try:
        drivers.schedule(HostStates(STATES), specs, policy)
    except DroverError as problem:
        assert str(problem).strip().endswith(".")


@settings(max_examples=400, deadline=None)
@given(REQUEST_KEYS, JUNK, st.data())
def test_requests(key, value, data):
    if key in NESTED and data.draw(st.booleans()):
        value = {
            data.draw(st.sampled_from(NESTED[key])): value,
            **({"name": "m"} if key in ("flavor", "server_group") else {}),
        }
    asked = {"name": "x", "vcpus": 1, "memory_mb": 1, key: value}
    try:
        specs = RequestSpec.expand(asked)[:3]
    except DroverError as problem:
        assert str(problem).endswith(".")
    else:
        answer(specs, Policy.from_mapping({"enabled_filters": list(find("host_filters"))}))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(OPTIONS), JUNK)
def test_policies(key, value):
    try:
        policy = Policy.from_mapping({key: value})
    except DroverError as problem:
        assert str(problem).endswith(".") and (
            key in str(problem) or "scheduler policy" in str(problem)
        )
    else:
        answer([request()], policy)


@pytest.mark.parametrize(
    "asked", [None, 5, "x", [], {}, {"name": ""}, {"name": "x"}, {"name": "x", "colour": 1}]
)
def test_what_is_no_request(asked):
    with pytest.raises(DroverError):
        RequestSpec.expand(asked)
