# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A drain in a fleet of several cells moves other instances away only within the cell."""

from __future__ import annotations

import time

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import DrainQuestion
from ansible_collections.drover.compute.plugins.plugin_utils._records.orders import MigrationLimits
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import node_data, record
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of

GIB = 1024


def node(host, cell, *domains):
    return {
        "host": host,
        "cell": cell,
        "vcpus": 64,
        "memory_mb": 4 * GIB,
        "reserved_host_memory_mb": 0,
        "local_gb": 100,
        "domains": [
            {
                "uuid": uuid_of(name),
                "name": name,
                "state": "running",
                "vcpus": 1,
                "memory_mb": gib * GIB,
                "disk_gb": 1,
            }
            for name, gib in domains
        ],
    }


@pytest.mark.parametrize("cells", [("a", "b"), (None, "b"), (None, None)])
def test_the_instances_of_the_cell_make_room(store_url, cells):
    mine, other = cells
    nodes = [
        node("kvm1", mine, ("large", 3)),
        node("kvm2", mine, ("web", 2)),
        node("kvm3", mine, ("db", 2)),
        node("kvm4", other, ("foreign", 2)),
    ]
    store = Store.open(store_url)
    store.upgrade()
    with store.write() as connection:
        record.record(connection, node_data.reports(nodes, "unused", {}), time.time())
    with store.read() as connection:
        plan = DrainQuestion(Policy.from_mapping(None), MigrationLimits()).plan(
            connection, ["kvm1"]
        )
    (stuck,) = plan["unmovable"]
    assert (stuck["name"], plan["proof"]) == ("large", None)
    # The move is within the cell; the host of the other cell takes and gives nothing.
    assert stuck["way_out"].startswith("allow 1 more move of others (") and (
        "kvm4" not in stuck["way_out"] or mine == other
    )
    with store.read() as connection:
        question = DrainQuestion(Policy.from_mapping(None), MigrationLimits(), extra_moves=1)
        assert question.plan(connection, ["kvm1"])["status"] == "ok"
