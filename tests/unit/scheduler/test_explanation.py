# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A failure gives a reason for exactly the hosts that a host filter rejects, for every filter."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._numa.device_requests import (
    read_aliases,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.components import find
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.explanation import (
    NEAREST,
    explain_failure,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.filtering import Filtering
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.host_states import (
    HostStates,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.tests.unit.scheduler.fleets import (
    fleet,
    host,
    request,
    uuid_of,
)

FLEETS = 60
AGGREGATES = {
    "ssd": {"ssd": "true", "ram_allocation_ratio": "0.5", "hw_disk_bus": "virtio"},
    "limits": {
        "max_io_ops_per_host": "3",
        "max_instances_per_host": "1",
        "disk_allocation_ratio": "0.5",
    },
    "tenants": {"filter_tenant_id": "p1", "instance_type": "m1", "cpu_allocation_ratio": "0.5"},
}
GROUPS = {"apart": ("anti-affinity", 1), "close": ("affinity", None)}
OPTIONS = {
    "isolated_images": ["special"],
    "isolated_hosts": ["kvm0"],
    "metrics_weight_setting": "cpu.percent=1",
    "max_instances_per_host": 2,
    "max_io_ops_per_host": 5,
}
IMAGES = (
    {"hw_architecture": "x86_64"},
    {"hw_architecture": "aarch64", "hw_disk_bus": "ide"},
    {"img_hv_type": "kvm", "img_hv_requested_version": ">=8.0"},
    {"hw_vm_mode": "hvm", "hw_maxphysaddr_bits": "42"},
)
SPECS = (
    {"capabilities:rack": "1"},
    {"capabilities:free_ram_mb": ">= 4000"},
    {"aggregate_instance_extra_specs:ssd": "true"},
    {"ssd": "true", "hypervisor_version": ">= 8000000"},
)
#: Only for the filters that read them, because these run for such a request with any list of host
#: filters.
CELLS = {
    "NUMATopologyFilter": {"hw:numa_nodes": "1"},
    "PciPassthroughFilter": {"pci_passthrough:alias": "gpu:1"},
}
GPU = {"vendor_id": "10de", "product_id": "2204"}
HINTS = (
    {"same_host": ["one"]},
    {"different_host": ["one", "nobody"]},
    {"build_near_host_ip": "10.0.0.7"},
    {"query": ["=", "$stats.rack", "1"]},
)


def a_fleet(rng):
    """Return as many hosts as a failure has room for, with values for all that host filters
    read.
    """
    nodes = []
    for number in range(rng.randint(1, NEAREST)):
        more = {"used": {key: rng.randint(0, 4) for key in ("vcpus", "memory_mb", "disk_gb")}}
        if rng.random() < 0.2:
            more["disabled"] = "patching"
        if rng.random() < 0.2:
            more["down"] = "unreachable"
        nodes.append(
            host(
                f"kvm{number}",
                vcpus=rng.randint(0, 8),
                memory_mb=rng.choice([0, 64, 4096]),
                disk_gb=rng.randint(0, 12),
                zones=rng.choice([(), ("az1",), ("az1", "az2")]),
                aggregates=[name for name in AGGREGATES if rng.random() < 0.4],
                num_io_ops=rng.randint(0, 7),
                hypervisor_version=rng.choice([0, 7000000, 8000000]),
                host_ip=rng.choice([None, "10.0.0.1", "10.0.9.1"]),
                stats=rng.choice([None, {"rack": "1"}, {"rack": "2"}]),
                metrics=rng.choice([None, [], [{"name": "cpu.percent", "value": 1}]]),
                supported_instances=rng.choice(
                    [None, [["x86_64", "kvm", "hvm"]], [["aarch64", "qemu", "hvm"]]]
                ),
                numa=rng.choice([None, a_document(rng)]),
                cpu_info=rng.choice([None, {"maxphysaddr": {"bits": 40}}]),
                **more,
            )
        )
    names = [each["host"] for each in nodes]
    guests = [
        {
            "name": name,
            "host": rng.choice(names),
            "flavor": rng.choice(["m1", "m2"]),
            "group": rng.choice([None, "apart", "close"]),
        }
        for name in ("one", "two", "three")[: rng.randint(0, 3)]
    ]
    return fleet(*nodes, instances=guests, groups=GROUPS, aggregates=AGGREGATES)


def a_document(rng):
    """Return the cells and devices of a host."""
    cpus = list(range(rng.randint(0, 8)))
    cell = {"id": 0, "cpus": cpus, "pcpus": [], "siblings": [], "memory_mb": 4096, "pages": []}
    pci = [
        {**GPU, "address": f"0000:{bus:02x}:00.0", "numa_node": 0, "dev_type": "type-PCI"}
        for bus in range(rng.randint(0, 1))
    ]
    return {"cells": [cell], "pci": pci, "device_spec": [{}]}


def a_request(rng, name):
    more = {}
    if rng.random() < 0.6:
        more["flavor"] = {
            "name": rng.choice(["m1", "m2"]),
            "extra_specs": rng.choice(SPECS) if rng.random() < 0.5 else {},
        }
    if rng.random() < 0.6:
        more["image"] = {"name": rng.choice(["special", "plain"]), "properties": rng.choice(IMAGES)}
    if rng.random() < 0.4:
        more["server_group"] = {"name": rng.choice(sorted(GROUPS))}
    if rng.random() < 0.5:
        more["hints"] = rng.choice(HINTS)
    if rng.random() < 0.3:
        more["availability_zone"] = rng.choice(["az1", "az2", "az9", "nova"])
    if rng.random() < 0.3:
        more["retry"] = [["kvm0", "kvm0"]]
    if name in CELLS and rng.random() < 0.8:
        more["flavor"] = {"name": "m1", "extra_specs": CELLS[name]}
    sizes = {
        "vcpus": rng.randint(1, 5),
        "memory_mb": rng.choice([1, 64]),
        "disk_gb": rng.randint(0, 6),
    }
    aliases = read_aliases([{**GPU, "name": "gpu"}])
    return request(
        "web",
        aliases=aliases,
        uuid=uuid_of("web"),
        project=rng.choice([None, "p1", "p2"]),
        **sizes,
        **more,
    )


@pytest.mark.parametrize("name", sorted(find("host_filters")))
def test_a_reason_is_given_exactly_where_a_filter_rejects(name):
    policy = Policy.from_mapping({"enabled_filters": [name], **OPTIONS})
    answers = set()
    for seed in range(FLEETS):
        rng = random.Random(seed)
        states, spec = HostStates(a_fleet(rng)), a_request(rng, name)
        (each,) = policy.filters
        passes = each.passes(states, spec)
        filtering = Filtering(states, spec, policy)
        # Hosts that a pre-filter or the room of other classes excludes are not near misses.
        considered = np.ones(states.size, dtype=bool)
        for _name, keep in filtering.before + filtering.room:
            considered &= keep
        explained = explain_failure(states, spec, policy).explanation["nearest"]
        reasons = {miss["host"]: miss["lacks"] for miss in explained}
        rejected = {states.host[row] for row in np.flatnonzero(considered & ~passes)}
        answers.update(passes.tolist())
        assert set(reasons) == rejected
        for (lack,) in reasons.values():
            assert lack["filter"] == name
            assert lack["text"] and "\n" not in lack["text"] and lack["text"] != f"{name} says no"
    assert answers == {True} if name == "AllHostsFilter" else answers == {True, False}
