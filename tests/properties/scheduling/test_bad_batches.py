# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wrong input through the whole path of the lookup schedule, with the store: a sentence that names
the key, no traceback."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import scheduling
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler import (
    extra_spec_operators,
    json_query,
    request_spec,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.attributes import NAMES
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.components import find
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.errors import NoValidHost
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import aggregates
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import node_data, record
from ansible_collections.drover.compute.tests.properties.scheduling.test_bad_input import (
    JUNK,
    NESTED,
    OPTIONS,
)

EVERYTHING = Policy.from_mapping(
    {"enabled_filters": list(find("host_filters")), "image_props_weight_multiplier": 1.0}
)
#: Text that can make a database or a terminal fail.
ODD_TEXT = st.sampled_from(
    ["\x00", "a\x00b", "\ud800", "a\nb", "x" * 5000, "'; --", "{{ x }}", "%s", "\u202e"]
)
VALUES = JUNK | ODD_TEXT | st.lists(ODD_TEXT, max_size=2)

QUERIES = st.recursive(
    VALUES
    | st.sampled_from(
        [f"${name}" for name in NAMES] + ["$stats.x", "$cpu_info.a.b", "$", "$.", "$nothing"]
    ),
    lambda inner: st.builds(
        lambda operator, arguments: [operator, *arguments],
        st.sampled_from([*json_query.OPERATORS, "", "!="]),
        st.lists(inner, max_size=3),
    ),
    max_leaves=8,
)
SPECS = st.dictionaries(
    st.sampled_from(
        [f"capabilities:{name}" for name in NAMES]
        + [
            "x",
            "free_ram_mb",
            "capabilities:",
            "capabilities:stats:x",
            "capabilities:cpu_info:a:b",
            "trait:T",
            ":",
            "hw:maxphysaddr_bits",
        ]
        + ["aggregate_instance_extra_specs:a", "aggregate_instance_extra_specs:"]
    ),
    VALUES
    | st.builds(
        lambda operator, value: f"{operator} {value}",
        st.sampled_from(extra_spec_operators.OPERATORS),
        st.sampled_from(["", "1", "x", "nan", "1e999", "<or>", "a <or> b"]),
    ),
    max_size=3,
)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    store = Store.open(f"sqlite:///{tmp_path_factory.mktemp('fuzz')}/store.db")
    nodes = [
        {
            "host": f"kvm{n}",
            "vcpus": 8,
            "memory_mb": 8192,
            "local_gb": 100,
            "host_ip": f"10.0.0.{n}",
        }
        for n in (1, 2)
    ]
    nodes[0].update(
        stats={"x": "1"},
        metrics={"load": 1.0},
        cpu_info={"a": {"b": "c"}},
        hypervisor_version=8000000,
    )
    with store.write() as connection:
        record.record(connection, node_data.reports(nodes, "kvm1", {}), time.time())
        aggregates.ensure(connection, "g", {"a": "1,x", "max_io_ops_per_host": "odd"}, ["kvm1"])
    return store


def answer(store, batch, policy=EVERYTHING):
    """Return the message of an error, None for a result or NoValidHost. Any exception except a
    DroverError fails the test."""
    try:
        with store.read() as connection:
            json.dumps(scheduling.decide(connection, batch, policy, time.time()))
    except DroverError as problem:
        said = str(problem)
        assert said.strip().endswith(".") and "defect of drover.compute" not in said, said
        return None if isinstance(problem, NoValidHost) else said
    return None


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(request_spec.KEYS), VALUES, st.data())
def test_any_key_of_a_request(store, key, value, data):
    named = key
    if key in NESTED and data.draw(st.booleans()):
        named = data.draw(st.sampled_from(NESTED[key]))
        value = {**({"name": "m"} if key in ("flavor", "server_group") else {}), named: value}
    message = answer(store, [{"name": "x", "vcpus": 1, "memory_mb": 1, key: value}])
    if message and named not in ("name", "group", "query") and key != "scheduler":
        # The message names the one bad extra spec.
        words = (key.replace("_", " "), named.replace("_", " ").removesuffix("s"))
        assert named in message or any(each in message.lower() for each in words), (named, message)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        VALUES
        | st.dictionaries(
            st.sampled_from(request_spec.KEYS) | st.text(max_size=4), VALUES, max_size=4
        ),
        max_size=3,
    )
)
def test_any_batch(store, batch):
    answer(store, batch)


@settings(max_examples=80, deadline=None)
@given(QUERIES, st.booleans())
def test_any_query(store, query, as_text):
    query = json.dumps(query) if as_text else query
    said = answer(store, [{"name": "x", "vcpus": 1, "memory_mb": 1, "hints": {"query": query}}])
    assert said is None or "'query'" in said


@settings(max_examples=80, deadline=None)
@given(SPECS)
def test_any_extra_specs(store, specs):
    message = answer(
        store,
        [{"name": "x", "vcpus": 1, "memory_mb": 1, "flavor": {"name": "m", "extra_specs": specs}}],
    )
    assert message is None or any(f"'{key}'" in message for key in specs), message


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.sampled_from(OPTIONS), VALUES, min_size=1, max_size=2))
def test_any_policy_of_a_request(store, scheduler):
    message = answer(store, [{"name": "x", "vcpus": 1, "memory_mb": 1, "scheduler": scheduler}])
    assert (
        message is None
        or "Request 'x', under 'scheduler': The scheduler policy" in message
        or "metric" in message
    ), message
