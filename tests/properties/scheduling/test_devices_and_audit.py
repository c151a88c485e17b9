# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""After each change the audit finds nothing in the copy of the store, with devices, cells, shared
pools and mediated devices too."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._placement.audit import audit
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._simulation import changes
from ansible_collections.drover.compute.plugins.plugin_utils._simulation.fleet import SimulatedFleet
from ansible_collections.drover.compute.plugins.plugin_utils._simulation.simulate import copied
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.tracker import machines
from ansible_collections.drover.compute.tests.unit.tracker.machines import node

POLICY = Policy.from_mapping(
    {"pci_alias": [{"name": "gpu", "vendor_id": "10de", "product_id": "2204"}]}
)
SPECS = [{"vendor_id": "10de", "product_id": "2204", "live_migratable": True}]
GPU = {
    "name": "gpu",
    "vcpus": 1,
    "memory_mb": 64,
    "extra_specs": {"pci_passthrough:alias": "gpu:1"},
}
CELLS = {
    "name": "pinned",
    "vcpus": 1,
    "memory_mb": 64,
    "extra_specs": {"hw:cpu_policy": "dedicated"},
}


@pytest.fixture(
    params=[{}, {"pci_report_in_placement": True}, {"numa_report_in_placement": True}],
    ids=["plain", "pci", "numa"],
)
def store(request, prepared_url):
    options = {
        "pci_device_specs": SPECS,
        "mdev_types": ["nvidia-11"],
        "cpu_shared_set": "0-3",
        "cpu_dedicated_set": "4-7",
        **request.param,
    }
    fleets.discover(
        prepared_url,
        *(node(host=name, options=options, **machines.devices()) for name in ("kvm1", "kvm2")),
    )
    return Store.open(prepared_url)


def made(fleet, *given):
    """Make changes and return their results; after each change the audit finds nothing new."""
    outcomes = []
    for change in changes.read(list(given)):
        outcomes.append(fleet.make(change))
        assert audit(fleet.connection, fleet.now)["findings"] == [], change
    return outcomes


def test_devices_go_with_hosts_and_instances(store):
    with copied(store) as (connection, now):
        fleet = SimulatedFleet(connection, POLICY, now)
        added, more, lost, kept = made(
            fleet,
            {"add_hosts": {"like": "kvm1", "count": 2}},
            {"add_instances": {**GPU, "count": 5}},
            {"lose_hosts": ["kvm1"]},
            {"maintenance": ["kvm2"]},
        )
        # Each host has one.
        assert (
            added["hosts"] == ["new-1", "new-2"]
            and more["placed"] == 4
            and more["left_out"][0]["count"] == 1
        )
        assert lost["moved"] == 0 and len(lost["left_out"]) == 1 and len(kept["left_out"]) == 1
        (again,) = made(fleet, {"add_instances": {**GPU, "name": "again"}})
        assert again["placed"] == 0
        bought, placed, moved = made(
            fleet,
            {"add_hosts": {"like": "new-1"}},
            {"add_instances": {**GPU, "name": "last"}},
            {"remove_hosts": ["new-2"]},
        )
        assert (
            bought["hosts"] == ["new-3"] and placed["placed"] == 1 and len(moved["left_out"]) == 1
        )


def test_pinned_cpus_move_with_their_instances(store):
    with copied(store) as (connection, now):
        fleet = SimulatedFleet(connection, POLICY, now)
        added, placed, moved, gone = made(
            fleet,
            {"add_hosts": {"like": "kvm2"}},
            {"add_instances": {**CELLS, "count": 3}},
            {"maintenance": ["kvm1"]},
            {"remove_hosts": ["kvm1", "kvm2"]},
        )

        assert placed["placed"] == 3 and moved["left_out"] == [] and gone["left_out"] == []
        (grown,) = made(fleet, {"grow": 100})
        # Four CPUs are for pinned guests, and three of them are taken.
        assert grown["placed"] == 1 and grown["left_out"][0]["count"] == 2
