# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests for NUMA cells, pinned CPUs, pages and PCI devices: the hosts that fit, and the rest
that earlier instances of a batch leave."""

from __future__ import annotations

import copy

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._numa.device_requests import (
    read_aliases,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.errors import (
    NoValidHost,
    PolicyError,
    RequestError,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.filter_scheduler import (
    schedule,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.host_states import (
    HostStates,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.tests.unit.scheduler.fleets import fleet, host, request

POLICY = Policy.from_mapping({})
PF = {
    "address": "0000:3b:00.0",
    "vendor_id": "8086",
    "product_id": "37c8",
    "dev_type": "type-PF",
    "numa_node": 0,
}
VF = {**PF, "address": "0000:3b:00.1", "dev_type": "type-VF", "parent_addr": PF["address"]}
GPU = {
    "address": "0000:81:00.0",
    "vendor_id": "10de",
    "product_id": "2204",
    "dev_type": "type-PCI",
    "numa_node": 0,
}
ALIASES = read_aliases(
    [
        {"name": "gpu", "vendor_id": "10de", "product_id": "2204"},
        {"name": "pf", "vendor_id": "8086", "product_id": "37c8", "device_type": "type-PF"},
        {"name": "vf", "vendor_id": "8086", "product_id": "37c8", "device_type": "type-VF"},
    ]
)


def document(*pci, instances=()):
    """Return a host of one cell: two shared and four dedicated CPUs, 512 MiB in pages of 2 MiB."""
    cell = {
        "id": 0,
        "socket": 0,
        "cpus": [0, 1],
        "pcpus": [2, 3, 4, 5],
        "siblings": [[0, 1], [2, 3], [4, 5]],
        "memory_mb": 4096,
        "pages": [
            {"size_kb": 4, "total": 786432, "reserved": 0},
            {"size_kb": 2048, "total": 256, "reserved": 0},
        ],
    }
    return {"cells": [cell], "pci": pci, "device_spec": [{}], "instances": instances}


def states_of(*documents):
    columns = fleet(
        *[host(f"kvm{number}", numa=each) for number, each in enumerate(documents, start=1)]
    )
    size = len(documents)
    columns["resources"]["PCPU"] = {"total": [4] * size, "ratio": [1.0] * size}
    return HostStates(columns)


def asked(name="web", specs=None, vcpus=2, **more):
    return request(
        name,
        vcpus=vcpus,
        memory_mb=256,
        flavor={"name": "f", "extra_specs": specs or {}},
        aliases=ALIASES,
        **more,
    )


def hosts_of(states, specs):
    return [each["host"] for each in schedule(states, specs, POLICY)]


PINNED = {"hw:cpu_policy": "dedicated"}


def test_each_instance_of_a_batch_takes_cpus_of_its_own():
    states = states_of(document(), document())
    specs = [asked(f"web{number}", PINNED) for number in range(4)]
    assert sorted(hosts_of(states, specs)) == ["kvm1", "kvm1", "kvm2", "kvm2"]
    assert [states.numa.usage(row)[0]["pinned"] for row in (0, 1)] == [[2, 3, 4, 5]] * 2
    with pytest.raises(NoValidHost):
        hosts_of(states, [asked("one more", PINNED, vcpus=1)])


def test_a_batch_that_finds_no_host_leaves_all_as_it_was():
    states = states_of(document(GPU), None)
    before = copy.deepcopy(states.numa.usage(0))
    specs = [
        asked("one", {**PINNED, "pci_passthrough:alias": "gpu:1"}),
        asked("two", {"pci_passthrough:alias": "gpu:1"}),
    ]
    with pytest.raises(NoValidHost, match="has too few free PCI devices of the requested kind"):
        hosts_of(states, specs)
    assert states.numa.usage(0) == before
    assert states.numa.free_devices.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("specs", "words"),
    [
        ({"hw:numa_nodes": "1"}, "reports no NUMA cells"),
        ({"hw:mem_page_size": "2MB"}, "reports no NUMA cells"),
        ({"pci_passthrough:alias": "gpu:1"}, "too few free PCI devices"),
    ],
)
@pytest.mark.parametrize("documents", [(None,), ({},)], ids=["unknown", "nothing"])
def test_a_host_that_reports_nothing_takes_none_of_it(documents, specs, words):
    with pytest.raises(NoValidHost, match=words):
        hosts_of(states_of(*documents), [asked(specs=specs)])


def test_a_wish_is_not_ignored_where_cells_are_not_read():
    states = HostStates(fleet(host("kvm1")))
    assert states.numa is None
    with pytest.raises(NoValidHost, match="reports no NUMA cells"):
        hosts_of(states, [asked(specs={"hw:mem_page_size": "large"})])
    assert hosts_of(states, [asked("plain")]) == ["kvm1"]


def test_what_instances_have_is_not_given_again():
    usage = {
        "guest": 0,
        "host": 0,
        "memory_mb": 300,
        "page_kb": 2048,
        "shared": [],
        "pins": {"0": 2},
        "reserved": [],
    }
    states = states_of(document(instances=[{"cells": [usage]}]), document())
    assert hosts_of(states, [asked(specs={"hw:mem_page_size": "2048"})]) == ["kvm2"]
    with pytest.raises(
        NoValidHost, match="its NUMA cell 0 comes nearest and has 106 of 128 free pages of 2048 KiB"
    ):
        hosts_of(states, [asked("big", {"hw:mem_page_size": "2048"})])


def test_a_physical_function_and_its_virtual_one_do_not_go_together():
    states = states_of(document(PF, VF), document(PF, {**VF, "parent_addr": None}))
    assert hosts_of(states, [asked(specs={"pci_passthrough:alias": "pf:1,vf:1"})]) == ["kvm2"]


def test_devices_are_kept_for_those_who_ask_for_them():
    states = states_of(document(GPU), document())
    assert hosts_of(states, [asked(specs=PINNED)]) == ["kvm2"]


def test_a_forced_host_has_no_ratios_but_has_to_fit():
    states = states_of(document(), document())
    assert (
        hosts_of(
            states,
            [
                asked(f"web{number}", {"hw:numa_nodes": "1"}, force_hosts=["kvm1"])
                for number in range(3)
            ],
        )
        == ["kvm1"] * 3
    )
    with pytest.raises(NoValidHost):
        hosts_of(states, [asked("other", {"hw:numa_nodes": "1"}, force_hosts=["kvm1"], vcpus=3)])
    with pytest.raises(NoValidHost):
        hosts_of(
            states_of(document(), document()),
            [asked(f"web{number}", {"hw:numa_nodes": "1"}, host="kvm1") for number in range(3)],
        )


def test_a_thread_policy_is_a_trait_for_placement():
    spec = asked(specs={**PINNED, "hw:cpu_thread_policy": "isolate"})
    assert (spec.required_traits, spec.forbidden_traits) == (frozenset(), {"HW_CPU_HYPERTHREADING"})
    columns = fleet(host("kvm1", traits=["HW_CPU_HYPERTHREADING"], numa=document()))
    columns["resources"]["PCPU"] = {"total": [4], "ratio": [1.0]}
    with pytest.raises(NoValidHost, match="HW_CPU_HYPERTHREADING"):
        hosts_of(HostStates(columns), [spec])


@pytest.mark.parametrize(
    ("specs", "words"),
    [
        (
            {"hw:cpu_policy": "shared", "hw:cpu_thread_policy": "require"},
            "^Request 'web': The thread policy require is for pinned vCPUs",
        ),
        ({"hw:cpu_realtime": "yes"}, "real-time vCPUs, which drover does not have"),
        ({"pci_passthrough:alias": "gpus:1"}, r"does not exist \(did you mean gpu\?\)"),
    ],
)
def test_contradictions_are_refused_before_any_host_is_looked_at(specs, words):
    with pytest.raises(RequestError, match=words):
        asked(specs=specs)


def test_names_of_devices_are_policy():
    alias = {"name": "gpu", "vendor_id": "10de", "product_id": "2204"}
    assert set(Policy.from_mapping({"pci_alias": [alias]}).aliases) == {"gpu"}
    with pytest.raises(PolicyError, match="'pci_alias' must be a list of mappings"):
        Policy.from_mapping({"pci_alias": ["gpu"]})
    with pytest.raises(PolicyError, match="'pci_alias': The PCI alias gpu needs a product_id"):
        Policy.from_mapping({"pci_alias": [{"name": "gpu", "vendor_id": "10de"}]})
