# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lookups read a store on both databases: take the fixture ``fleet_url``."""

from __future__ import annotations

import time

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import node, record
from ansible_collections.drover.compute.tests.unit.scheduler.fleets import uuid_of
from ansible_collections.drover.compute.tests.unit.store import fleets


def domain(name, state="running", memory_mb=64, **more):
    return {
        "uuid": uuid_of(name),
        "name": name,
        "state": state,
        "vcpus": 1,
        "memory_mb": memory_mb,
        **more,
    }


def report(host, memory_mb, *domains, **options):
    facts = node.flat_facts(
        {"host": host, "vcpus": 4, "memory_mb": memory_mb, "local_gb": 50, "domains": list(domains)}
    )
    return [fleets.described(facts, {"reserved_host_memory_mb": 0, **options})]


@pytest.fixture
def fleet_url(store_url):
    """Fill a store with three hosts; kvm1 holds a running, a paused, a stopped and an unmovable
    instance."""
    reports = {
        "kvm1": report(
            "kvm1",
            1024,
            domain("web1", memory_mb=256),
            domain("idle", "paused"),
            domain("off", "shutoff"),
            domain("kept", snapshots=True),
            availability_zone="az1",
        ),
        "kvm2": report("kvm2", 512, availability_zone="az1"),
        "kvm3": report("kvm3", 256, availability_zone="az2"),
    }
    with Store.open(store_url).write() as connection:
        record.record(connection, reports, time.time())
    return store_url
