# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The claim records the image of an instance, and the filters read it again when a move is planned
(N2.1, N2.3, N2.4)."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.tests.unit.action.running import run
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host

KINDS = {"supported_instances": [["x86_64", "kvm", "hvm"]]}
RAW = {**KINDS, "traits": ["COMPUTE_IMAGE_TYPE_RAW"]}
HOSTS = {"kvm1": RAW, "kvm2": KINDS, "kvm3": RAW, "kvm4": {}}


@pytest.fixture
def url(prepared_url):
    fleets.discover(prepared_url, *(host(name, **more) for name, more in HOSTS.items()))
    for name in ("secret", "debian"):
        run("image", name=name, store_url=prepared_url)
    return prepared_url


def place(url, name, image, at, policy):
    """Decide and claim as the role place does; then discovery sees the domain."""
    definitions = [
        {"name": name, "memory_mb": 64, "image": image, "requested_destination": {"host": at}}
    ]
    (instance,) = run("_definitions", instances=definitions, store_url=url)["instances"]
    (selection,) = run("_schedule", requests=[instance["request"]], policy=policy, store_url=url)[
        "selections"
    ]
    run("allocation", selections=[selection], of_definitions=True, store_url=url)
    fleets.discover(url, host(at, domain(name, uuid=instance["uuid"]), **HOSTS[at]))


def drained(url, at, policy):
    """Return the destinations of a drain, and the names of the instances that stay."""
    plan = run("plan_drain_info", host=at, policy=policy, store_url=url)["plan"]
    return {move["name"]: move["host"] for move in plan["moves"]}, [
        each["name"] for each in plan["unmovable"]
    ]


@pytest.mark.parametrize(
    "image", ["secret", {"name": "secret"}, {"id": "secret"}, {"name": "debian", "id": "secret"}]
)
def test_isolated_image_and_isolated_hosts(url, image):
    policy = {
        "enabled_filters": ["IsolatedHostsFilter"],
        "isolated_images": ["secret"],
        "isolated_hosts": ["kvm1", "kvm3"],
    }
    place(url, "hidden", image, "kvm1", policy)
    place(url, "plain", "debian", "kvm2", policy)
    assert drained(url, "kvm1", policy) == ({"hidden": "kvm3"}, [])
    assert drained(url, "kvm2", policy) == ({"plain": "kvm4"}, [])
    # Without another host of its kind, it stays.
    for name in ("kvm3", "kvm4"):
        run("host", host=name, state="disabled", store_url=url)
    assert drained(url, "kvm1", policy) == ({}, ["hidden"])
    assert drained(url, "kvm2", policy) == ({}, ["plain"])


def test_a_host_that_is_not_restricted_takes_other_images(url):
    policy = {
        "enabled_filters": ["IsolatedHostsFilter"],
        "isolated_images": ["secret"],
        "isolated_hosts": ["kvm3"],
        "restrict_isolated_hosts_to_isolated_images": False,
    }
    place(url, "plain", "debian", "kvm2", policy)
    for name in ("kvm1", "kvm4"):
        run("host", host=name, state="disabled", store_url=url)
    assert drained(url, "kvm2", policy) == ({"plain": "kvm3"}, [])


def test_properties_of_the_image(url):
    policy = {"enabled_filters": ["ImagePropertiesFilter", "AggregateImagePropertiesIsolation"]}
    place(
        url,
        "win",
        {"name": "win", "properties": {"hw_architecture": "x86_64", "os_type": "windows"}},
        "kvm1",
        policy,
    )
    run("aggregate", name="free", hosts=["kvm2"], metadata={"os_type": "linux"}, store_url=url)
    assert drained(url, "kvm1", policy) == ({"win": "kvm3"}, [])


def test_the_format_of_the_image(url):
    policy = {"query_placement_for_image_type_support": True}
    place(url, "web", {"name": "debian", "disk_format": "raw"}, "kvm1", policy)
    assert drained(url, "kvm1", policy) == ({"web": "kvm3"}, [])
