# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup capacity, as Ansible calls it, over a real store."""

from __future__ import annotations

import json
import time

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import flavors
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import record
from ansible_collections.drover.compute.tests.properties.lookups.test_lookups import (
    ask,
    contents,
    refusal,
)
from ansible_collections.drover.compute.tests.unit.lookup.conftest import domain, report


def capacity(*terms, **options):
    """Return one answer, which is plain data, and check that the store is unchanged."""
    before = contents(options["store_url"])
    (answer,) = ask("capacity", *terms, **options)
    assert json.loads(json.dumps(answer)) == answer
    assert contents(options["store_url"]) == before
    return answer


def test_capacity_of_a_request_and_of_a_flavor(fleet_url):
    answer = capacity({"vcpus": 1, "memory_mb": 100}, store_url=fleet_url)
    # Free memory 576, 512, 256.
    assert [(each["host"], each["count"], each["short"]) for each in answer["hosts"]] == [
        ("kvm1", 5, "MEMORY_MB"),
        ("kvm2", 5, "MEMORY_MB"),
        ("kvm3", 2, "MEMORY_MB"),
    ]
    assert answer["total"] == 12 and answer["short"] == "MEMORY_MB"
    # kvm1 has one instance of 256, and kvm3 has exactly this room; and three of 64, which leave 320
    # on kvm2.
    assert answer["with_loss"] == {"total": 3, "host": "kvm1", "survives": True}
    with Store.open(fleet_url).write() as connection:
        flavors.ensure(connection, "small", {"vcpus": 1, "memory_mb": 100}, time.time())
    one, other = ask(
        "capacity",
        "small",
        {"flavor": "small", "availability_zone": "az2"},
        store_url=fleet_url,
        loss=False,
    )
    assert (one["name"], one["total"], one["with_loss"]) == ("small", 12, None)
    assert [each["count"] for each in other["hosts"]] == [0, 0, 2] and other["hosts"][0][
        "short"
    ] is None


def test_capacity_when_a_loss_is_not_survived(fleet_url):
    found = [domain("huge", memory_mb=900)]
    with Store.open(fleet_url).write() as connection:
        record.record(connection, {"kvm1": report("kvm1", 1024, *found)}, time.time())
    found = capacity({"vcpus": 1, "memory_mb": 100}, store_url=fleet_url)
    assert found["with_loss"] == {"total": 0, "host": "kvm1", "survives": False}


@pytest.mark.parametrize(
    ("term", "says"),
    [
        ("nope", "nope"),
        ({"vcpus": 1}, "'memory_mb'"),
        (
            {"vcpus": 1, "memory_mb": 1, "num_instances": 2},
            "num_instances of a request for capacity must be 1",
        ),
    ],
)
def test_capacity_refuses_in_a_sentence(fleet_url, term, says):
    assert says in refusal("capacity", term, store_url=fleet_url)
