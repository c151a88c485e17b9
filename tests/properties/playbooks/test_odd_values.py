# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values that Python, Ansible's check of arguments or a database cannot take: each gives a
sentence, and nothing is done."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from ansible_collections.drover.compute.plugins.lookup.schedule import LookupModule
from ansible_collections.drover.compute.tests.unit.action.running import failure, run

MOST = 2**31 - 1


@pytest.mark.parametrize(
    "module, given, sentence",
    [
        (
            "aggregate",
            {"name": "\ud800"},
            r"name has the character '\ud800', which no file and no database takes. Take it out.",
        ),
        ("host_info", {"host": "\ud800"}, "host has the character"),
        ("history_info", {"instances": ["web", "\0"]}, r"instances has the character '\x00'"),
        ("metrics", {"path": "\0"}, "path has the character"),
        (
            "image",
            {"name": "i", "properties": {"a": {"b": ["\ud800"]}}},
            "properties has the character",
        ),
        (
            "capacity_info",
            {"vcpus": 1, "memory_mb": 64, "service_down_time": float("inf")},
            "service_down_time must be a number, not inf.",
        ),
        (
            "flavor",
            {"name": "f", "vcpus": float("nan"), "memory_mb": 64},
            "vcpus must be a number, not nan.",
        ),
        (
            "flavor",
            {"name": "f", "vcpus": 2**63, "memory_mb": 64},
            f"vcpus must be a whole number from 0 to {MOST}, not {2**63}.",
        ),
        (
            "history_info",
            {"rows": 2**63},
            f"rows must be a whole number from 0 to {MOST}, not {2**63}.",
        ),
        (
            "compute_node",
            {"host": "kvm1", "ip_pools": [{5: 5}]},
            "ip_pools must have keys that are texts:",
        ),
        (
            "allocation",
            {"selections": [None]},
            "argument 'selections' must be a list of which each item is a mapping, not [None].",
        ),
        (
            "compute_node",
            {"host": "kvm1", "nodes": [5]},
            "argument 'nodes' must be a list of which each item is a mapping, not [5].",
        ),
    ],
)
def test_walk_f15_an_odd_value_is_a_sentence(prepared_url, module, given, sentence):
    """Ansible wrote the error of Python, such as "Python int too large to convert to SQLite
    INTEGER".
    """
    assert sentence in failure(module, None, store_url=prepared_url, **given)


def test_walk_f15_an_odd_value_of_a_lookup_is_a_sentence(prepared_url):
    loader = DataLoader()
    lookup = LookupModule(loader=loader, templar=Templar(loader=loader))
    with pytest.raises(AnsibleError, match="has the character"):
        lookup.run([{"name": "\ud800", "vcpus": 1, "memory_mb": 64}], {}, store_url=prepared_url)
    for number, words in (
        (float("inf"), "must be a number, not inf"),
        (2**63, f"must be a number of at most {MOST}, not {2**63}"),
    ):
        with pytest.raises(AnsibleError, match=f"service_down_time {words}"):
            lookup.run(
                [{"name": "web", "vcpus": 1, "memory_mb": 64}],
                {},
                store_url=prepared_url,
                service_down_time=number,
            )


def test_texts_of_other_languages_are_no_odd_values(prepared_url):
    assert run("flavor", name="größe-日本", vcpus=1, memory_mb=64, store_url=prepared_url)[
        "changed"
    ]
