# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each weigher, its options and the aggregates' multipliers (N3)."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.errors import (
    PolicyError,
    SchedulerError,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.filter_scheduler import (
    schedule,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.host_states import (
    HostStates,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.weighing import (
    normalise,
    weigh,
)
from ansible_collections.drover.compute.tests.unit.scheduler.fleets import fleet, host, request

try:
    import numpy as np
except ImportError:
    np = None


def weights(name, columns, spec=None, **options):
    """Return (raw values, weights) of all hosts by one weigher."""
    states = HostStates(columns)
    policy = Policy.from_mapping({"weighers": [name], **options})
    spec = spec or request()
    if spec.server_group is not None:
        states.add_group(spec.server_group)
    weighed, parts = weigh(states, spec, policy, np.arange(states.size))
    raw = parts[0][2]
    return (list(raw) if isinstance(raw, np.ndarray) else [raw] * states.size), pytest.approx(
        list(weighed), abs=1e-12
    )


@pytest.mark.parametrize(
    ("raw", "low", "high", "expected"),
    [
        ([1, 2, 3], None, None, [0, 0.5, 1]),
        ([2, 2], None, None, [0, 0]),
        ([1, 2, 4], 0, None, [0.25, 0.5, 1]),
        ([-5, 0, 4], 0, None, [0, 0, 1]),
        ([-5, -1], 0, None, [0, 0]),
        ([1, 5, 20], 0, 10, [0.1, 0.5, 1]),
        ([3, 3], 0, None, [1, 1]),
    ],
)
def test_normalisation(raw, low, high, expected):
    assert list(normalise(np.array(raw, dtype=float), low, high)) == expected


def test_figures_of_hosts():
    columns = fleet(
        host("a", num_io_ops=2, failed_builds=1, hypervisor_version=8),
        host("b", num_io_ops=4),
        host("c", hypervisor_version=4),
    )
    columns["num_instances"] = [3, 1, 2]
    assert weights("IoOpsWeigher", columns) == ([2, 4, 0], [-0.5, -1, 0])
    assert weights("NumInstancesWeigher", columns) == ([3, 1, 2], [0, 0, 0])
    assert weights("NumInstancesWeigher", columns, num_instances_weight_multiplier=-2) == (
        [3, 1, 2],
        [-2, 0, -1],
    )
    assert weights("BuildFailureWeigher", columns) == ([1, 0, 0], [-1000000, 0, 0])
    assert weights("HypervisorVersionWeigher", columns) == ([8, 0, 4], [1, 0, 0.5])
    assert weights("PCIWeigher", columns) == ([100, 100, 100], [0, 0, 0])


def test_peers_1_hosts_with_devices_are_kept_for_requests_for_devices():
    """A request without devices goes to the host with the fewest free devices."""
    columns = fleet(
        host("a", free_pci_devices=4, aggregates=["gpus"]),
        host("b", free_pci_devices=1),
        host("c", free_pci_devices=0, aggregates=["plain"]),
        host("d", free_pci_devices=1000),
        aggregates={
            "plain": {"pci_weight_multiplier": "1.5"},
            "gpus": {"pci_weight_multiplier": "0.5"},
        },
    )
    raw, found = weights("PCIWeigher", columns)
    assert raw == [96, 99, 100, 1]
    assert found == [0.5 * 95 / 99, 98 / 99, 1.5, 0]


def test_soft_groups():
    columns = fleet(
        host("a"),
        host("b"),
        groups={"near": ("soft-affinity", 1), "far": ("soft-anti-affinity", 1)},
        instances=[
            {"name": "1", "host": "a", "group": "near"},
            {"name": "2", "host": "a", "group": "near"},
            {"name": "3", "host": "b", "group": "near"},
            {"name": "4", "host": "b", "group": "far"},
        ],
    )
    near, far = request(server_group="near"), request(server_group="far")
    assert weights("ServerGroupSoftAffinityWeigher", columns, near) == ([2, 1], [1, 0])
    assert weights("ServerGroupSoftAffinityWeigher", columns, far) == ([0, 0], [0, 0])
    assert weights("ServerGroupSoftAntiAffinityWeigher", columns, far) == ([0, -1], [1, 0])
    assert weights("ServerGroupSoftAntiAffinityWeigher", columns, near) == ([0, 0], [0, 0])


def test_soft_groups_grow_inside_a_batch():
    soft = {"name": "g", "policy": "soft-anti-affinity"}
    batch = [request(f"vm{i}", server_group=soft) for i in range(3)]
    policy = Policy.from_mapping({"weighers": ["ServerGroupSoftAntiAffinityWeigher"]})
    chosen = schedule(HostStates(fleet(host("a"), host("b"))), batch, policy)
    assert [each["host"] for each in chosen] == ["a", "b", "a"]
    assert chosen[0]["server_group"] == {
        "name": "g",
        "policy": "soft-anti-affinity",
        "max_server_per_host": None,
    }


@pytest.mark.parametrize(
    ("destination", "expected"),
    [
        (None, [0, 0]),
        ({"cell": "x"}, [0, 0]),
        ({"allow_cross_cell_move": True}, [0, 0]),
        ({"cell": "x", "allow_cross_cell_move": True}, [1, -1]),
    ],
)
def test_cross_cell(destination, expected):
    columns = fleet(host("a", cell="x"), host("b", cell="y"))
    raw, _weights = weights("CrossCellWeigher", columns, request(requested_destination=destination))
    assert raw == expected


def test_image_properties():
    columns = fleet(
        host("a"),
        host("b"),
        instances=[
            {"name": "1", "host": "a", "image": {"os": "x", "bus": "v"}},
            {"name": "2", "host": "a", "image": {"os": "x"}},
            {"name": "3", "host": "b", "image": '{"bus": "v", "n": 1}'},
        ],
    )
    spec = request(image={"name": "i", "properties": {"os": "x", "bus": "v", "n": 1}})
    name, on = "ImagePropertiesWeigher", {"image_props_weight_multiplier": 1}
    assert weights(name, columns, spec, **on) == ([3, 2], [1, 0])
    assert weights(name, columns, spec, image_props_weight_setting={"bus": 2}, **on) == (
        [2, 2],
        [0, 0],
    )
    # 0 in the option skips the work even if an aggregate sets a multiplier
    columns["aggregates"] = [
        {"name": "g", "metadata": {"image_props_weight_multiplier": "5"}, "hosts": ["a", "b"]}
    ]
    assert weights(name, columns, spec) == ([0, 0], [0, 0])


def test_metrics():
    columns = fleet(
        host("a", metrics=[{"name": "load", "value": 3}]),
        host("b", metrics={"load": 1, "temp": 2}),
        host("c"),
    )
    name = "MetricsWeigher"
    assert weights(name, columns) == ([0, 0, 0], [0, 0, 0])
    with pytest.raises(SchedulerError, match="Host c does not report the metric load"):
        weights(name, columns, metrics_weight_setting={"load": 1})
    setting = {"metrics_weight_setting": {"load": 2, "temp": -1}, "metrics_required": False}
    assert weights(name, columns, **setting)[0] == [-10000, 0, -10000]
    assert weights(name, columns, metrics_weight_of_unavailable=-1, **setting)[0] == [-1, 0, -1]
    # with a ratio or multiplier of 0, a missing metric has no effect
    free = {**setting, "metrics_weight_setting": {"load": 2, "temp": 0}}
    assert weights(name, columns, **free)[0] == [6, 2, -10000]
    assert weights(name, columns, metrics_weight_multiplier=0, **setting)[0] == [6, 0, 0]
    assert weights(name, columns, metrics_weight_multiplier=3, **free)[1] == [
        3,
        pytest.approx(3 * 10002 / 10006),
        0,
    ]


def test_peers_2_a_metric_that_is_there_twice_has_the_sum_of_its_ratios():
    columns = fleet(host("a", metrics={"idle": 3}), host("b", metrics={"idle": 1}))
    for written in ("idle=-2, idle=1", ["idle=-2", "idle=1"]):
        assert weights("MetricsWeigher", columns, metrics_weight_setting=written)[0] == [-3, -1]


@pytest.mark.parametrize("option", ["image_props_weight_setting", "least_cost_functions"])
def test_peers_2_other_names_that_are_there_twice_are_refused(option):
    name = "noop" if option == "least_cost_functions" else "hw_disk_bus"
    with pytest.raises(
        PolicyError,
        match=f"'{option}' must be a mapping of name to number.*in which {name} is once",
    ):
        Policy.from_mapping({option: f"{name}=1, {name}=2"})


def test_multipliers_of_aggregates():
    columns = fleet(
        host("a", memory_mb=1000, aggregates=["pack", "more"]),
        host("b", memory_mb=1000, aggregates=["pack", "bad"]),
        host("c", memory_mb=1000),
        aggregates={
            "pack": {"ram_weight_multiplier": "-1.0"},
            "more": {"ram_weight_multiplier": "-3"},
            "bad": {"ram_weight_multiplier": "much"},
        },
    )
    # the least of several; unreadable means the option
    assert weights("RAMWeigher", columns, ram_weight_multiplier=2)[1] == [-3, 2, 2]
    columns["aggregates"] = [
        {"name": "x", "metadata": {"build_failure_weight_multiplier": "5"}, "hosts": ["a"]}
    ]
    columns["failed_builds"] = [1, 1, 0]
    assert weights("BuildFailureWeigher", columns)[1] == [-5, -1000000, 0]


@pytest.mark.parametrize("option", ["pci", "soft_affinity", "soft_anti_affinity"])
def test_multipliers_that_may_not_be_negative(option):
    with pytest.raises(
        PolicyError, match=f"'{option}_weight_multiplier' is -1; it may not be negative"
    ):
        Policy.from_mapping({f"{option}_weight_multiplier": -1})
