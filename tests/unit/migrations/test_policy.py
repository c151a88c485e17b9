# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The policy of an instance: one shape, and no contradiction in it (rule S16)."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import check, identity
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    policy as move_policy,
)

GOOD = [
    {"move": "never"},
    {"move": "never", "on_drain": "shutdown"},
    {"move": "cold", "priority": -3, "migration": {"copy_storage": "never"}},
    {
        "move": "live",
        "priority": 10,
        "migration": {"post_copy": True, "on_timeout": "post_copy", "bandwidth_mib": 50},
    },
    {"on_drain": "shutdown", "priority": 1},
]
# Values that contradict each other, and a part of the sentence that says so.
CONTRADICTIONS = [
    ({"move": "never", "migration": {"bandwidth_mib": 1}}, "move is never, so migration"),
    (
        {"move": "cold", "migration": {"post_copy": True}},
        "migration.post_copy is for live moves only",
    ),
    (
        {"move": "cold", "migration": {"bandwidth_mib": 9}},
        "migration.bandwidth_mib is for live moves only",
    ),
    ({"move": "live", "on_drain": "shutdown"}, "on_drain shutdown stops it"),
    ({"migration": {"on_timeout": "post_copy", "post_copy": False}}, "post_copy is not true"),
    (
        {"migration": {"tunnelled": True, "post_copy": True}},
        "tunnelled and post_copy do not go together",
    ),
    ({"migration": {"tunnelled": True, "tls": True}}, "tunnelled and tls do not go together"),
    (
        {"migration": {"tunnelled": True, "parallel_connections": 2}},
        "tunnelled and parallel_connections do not go together",
    ),
]
MALFORMED = [
    ("never", "must be a mapping"),
    ({"moves": "never"}, "unknown key moves"),
    ({"move": "warm"}, "move must be never, cold or live, not 'warm'"),
    ({"on_drain": "leave"}, "on_drain must be shutdown"),
    ({"priority": "high"}, "priority must be a whole number"),
    ({"priority": True}, "priority must be a whole number"),
    ({"migration": [1]}, "migration must be a mapping"),
    ({"migration": {"speed": 1}}, "unknown key speed"),
    ({"migration": {"bandwidth_mib": 0}}, "bandwidth_mib must be a whole number from 1"),
    ({"migration": {"bandwidth_mib": True}}, "must be a whole number"),
    ({"migration": {"post_copy": "yes"}}, "must be true or false"),
    (
        {"migration": {"on_timeout": "cry"}},
        "on_timeout must be abort, post_copy, pause or shutdown",
    ),
]


@pytest.mark.parametrize("policy", GOOD, ids=str)
def test_what_is_written_is_read_again(policy):
    assert move_policy.checked(policy, "vm1") == policy
    assert (
        move_policy.from_metadata({"project": "p", **move_policy.to_metadata(policy)}, "vm1")
        == policy
    )


@pytest.mark.parametrize("policy", [{}, {"move": None, "migration": {}}])
def test_nothing_said_is_no_policy(policy):
    assert move_policy.checked(policy, "vm1") is None
    assert move_policy.to_metadata(None) == {} and move_policy.from_metadata({}, "vm1") is None


@pytest.mark.parametrize(("policy", "says"), CONTRADICTIONS + MALFORMED, ids=str)
def test_what_is_wrong_is_refused_when_written_and_kept_as_an_error_when_read(policy, says):
    with pytest.raises(DroverError) as refused:
        check.instances(
            [{"name": "vm1", "memory_mb": 64, "policy": policy}], lambda item: "fleet.yml line 3"
        )
    assert "fleet.yml line 3: instance vm1" in str(refused.value)
    assert says in str(refused.value) or isinstance(policy, str)
    if isinstance(policy, dict) and set(policy) <= set(move_policy.KEYS):
        read = move_policy.from_metadata(move_policy.to_metadata(policy), "Instance vm1")
        assert set(read) == {"error"} or policy == {"priority": True}


@pytest.mark.parametrize("metadata", [{"priority": "much"}, {"migration": "{"}])
def test_texts_that_are_no_values(metadata):
    assert "Instance vm1: " in move_policy.from_metadata(metadata, "Instance vm1")["error"]


def test_a_definition_brings_the_texts_for_the_metadata():
    definitions = check.instances([{"name": "vm1", "memory_mb": 64, "policy": GOOD[2]}], str)
    (resolved,) = identity.resolve(definitions, [])
    assert resolved["metadata"] == {
        "move": "cold",
        "priority": "-3",
        "migration": '{"copy_storage": "never"}',
    }
    groups = check.server_groups([{"name": "g", "policy": "anti-affinity", "max_moving": 1}], str)
    definitions = check.instances([{"name": "vm2", "memory_mb": 64, "server_group": "g"}], str)
    # The scheduler does not get the budget: it is for moves.
    assert identity.resolve(definitions, [], groups)[0]["request"]["server_group"] == {
        "name": "g",
        "policy": "anti-affinity",
    }
    with pytest.raises(DroverError, match="max_moving must be a whole number from 1"):
        check.server_groups([{"name": "g", "policy": "anti-affinity", "max_moving": 0}], str)
