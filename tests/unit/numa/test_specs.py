# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Extra specs and image properties about CPUs, cells and pages: their meaning, and the refusals
with their texts."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import InvalidSpecs
from ansible_collections.drover.compute.plugins.plugin_utils._numa.cpu_topology import (
    guest_cpu_topology,
)
from ansible_collections.drover.compute.plugins.plugin_utils._numa.guest import GuestCell
from ansible_collections.drover.compute.plugins.plugin_utils._numa.specs import read_constraints

DEDICATED = {"hw:cpu_policy": "dedicated"}


def test_without_a_wish_there_are_no_cells():
    constraints = read_constraints(
        4, 4096, {"hw:cpu_policy": "shared", "hw:numa_cpus.0": "0-3", "hw:numa_mem.0": "4096"}
    )
    assert (constraints.topology, constraints.resources) == (None, {})


def test_mixed_splits_the_vcpus_of_each_cell():
    specs = {
        "hw:cpu_policy": "mixed",
        "hw:cpu_dedicated_mask": "^0",
        "hw:numa_nodes": "2",
        "hw:emulator_threads_policy": "isolate",
    }
    found = read_constraints(4, 2048, specs)
    assert found.topology.cells == (GuestCell((0,), (1,), 1024), GuestCell((), (2, 3), 1024))
    assert found.resources == {"VCPU": 1, "PCPU": 4}


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("small", "small"),
        ("any", "any"),
        ("2048", 2048),
        ("2MB", 2048),
        ("2MiB", 2048),
        ("1GB", 1048576),
        ("16384Kb", 2048),
    ],
)
def test_page_sizes(text, size):
    assert read_constraints(1, 1024, {"hw:mem_page_size": text}).topology.page_size == size


@pytest.mark.parametrize("text", ["2M", "1G", "1 GB", "LARGE", "huge", "0", "-2MB", "1B", "0.5KB"])
def test_texts_that_are_no_page_size(text):
    with pytest.raises(InvalidSpecs, match="is no page size. Write small, large, any") as caught:
        read_constraints(1, 1024, {"hw:mem_page_size": text})
    assert caught.value.code == "MemoryPageSizeInvalid"


def test_the_image_chooses_a_page_size_among_large_ones():
    assert (
        read_constraints(
            1, 1024, {"hw:mem_page_size": "large"}, {"hw_mem_page_size": "1GB"}
        ).topology.page_size
        == 1048576
    )


@pytest.mark.parametrize(
    ("specs", "properties", "threads"),
    [
        ({"hw:cpu_thread_policy": "prefer"}, {"hw_cpu_thread_policy": "isolate"}, "prefer"),
        ({}, {"hw_cpu_thread_policy": "isolate"}, "isolate"),
        ({"trait:HW_CPU_HYPERTHREADING": "forbidden"}, {}, "isolate"),
        ({}, {"trait:HW_CPU_HYPERTHREADING": "required"}, "require"),
        ({}, {"traits_required": ["CUSTOM_A", "HW_CPU_HYPERTHREADING"]}, "require"),
        ({}, {"traits_required": "CUSTOM_A, HW_CPU_HYPERTHREADING"}, "require"),
        ({}, {"traits_required": ["CUSTOM_A"]}, None),
    ],
)
def test_peers_4_the_thread_policy_has_several_spellings(specs, properties, threads):
    assert (
        read_constraints(2, 1024, {**DEDICATED, **specs}, properties).topology.thread_policy
        == threads
    )


@pytest.mark.parametrize(
    ("specs", "properties", "words"),
    [
        (
            {"hw:cpu_realtime": "yes", **DEDICATED},
            {},
            "hw:cpu_realtime or hw_cpu_realtime asks for real-time vCPUs",
        ),
        ({"hw:mem_page_size": "large"}, {"hw_locked_memory": True}, "asks for locked memory"),
        ({"hw:mem_encryption": "True"}, {}, "asks for memory encryption"),
        ({"hw:pmem": "6GB"}, {}, "asks for persistent memory"),
    ],
)
def test_what_drover_does_not_have_is_refused(specs, properties, words):
    with pytest.raises(
        InvalidSpecs, match=words + ".* Take it out of the flavor and of the image."
    ) as caught:
        read_constraints(4, 4096, specs, properties)
    assert caught.value.code == "Unsupported"


def test_a_wish_that_is_false_asks_for_nothing():
    specs = {
        "hw:cpu_realtime": "no",
        "hw:locked_memory": "false",
        "hw:mem_encryption": "0",
        "hw:pmem": " , ",
    }
    assert read_constraints(4, 4096, specs).topology is None


@pytest.mark.parametrize(
    ("specs", "properties", "words"),
    [
        (
            {"hw:cpu_policy": "pinned"},
            {},
            "extra spec hw:cpu_policy is 'pinned'. It must be one of dedicated, shared, mixed",
        ),
        (
            {"hw:cpu_policy": "shared"},
            {"hw_cpu_policy": "dedicated"},
            "hw_cpu_policy is dedicated, but the flavor has hw:cpu_policy shared",
        ),
        ({"hw:cpu_thread_policy": "require"}, {}, "thread policy require is for pinned vCPUs"),
        (
            {"resources:PCPU": "3"},
            {},
            "resources:PCPU is 3, but the flavor needs 4: one for each of its 4 vCPUs",
        ),
        (
            {"resources:PCPU": "4", "hw:emulator_threads_policy": "isolate"},
            {},
            "needs 5: one for each.* and one for hw:emulator",
        ),
        (
            {**DEDICATED, "resources:PCPU": "4"},
            {},
            "CPU policy dedicated is set, and resources:VCPU or resources:PCPU too",
        ),
        ({"hw:cpu_policy": "mixed"}, {}, "does not say which vCPUs are pinned"),
        (
            {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-3"},
            {},
            "pins each of the 4 vCPUs",
        ),
        (
            {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "7"},
            {},
            "names vCPU 7; the last one is 3",
        ),
        (
            {**DEDICATED, "hw:cpu_thread_policy": "isolate"},
            {"traits_required": ["HW_CPU_HYPERTHREADING"]},
            "thread policy isolate is set, and trait:HW_CPU_HYPERTHREADING too",
        ),
        ({"hw:numa_nodes": "3"}, {}, "cannot be divided evenly over 3 NUMA cells"),
        ({"hw:numa_nodes": "0"}, {}, "number of NUMA cells is '0'"),
        (
            {"hw:numa_nodes": "2", "hw:numa_cpus.0": "0-3"},
            {},
            "hw:numa_cpus.N has 1 and hw:numa_mem.N has 0",
        ),
        (
            {"hw:mem_page_size": "2048"},
            {"hw_mem_page_size": "1GB"},
            "An image may choose a size only if the flavor says large or any",
        ),
        (
            {"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-3", "hw:numa_mem.0": "0"},
            {},
            "hw:numa_mem.0 is '0'",
        ),
    ],
)
def test_contradictions_are_told_in_a_sentence(specs, properties, words):
    with pytest.raises(InvalidSpecs, match=words):
        read_constraints(4, 4096, specs, properties)


# Answers of Nova 34.
@pytest.mark.parametrize(
    ("vcpus", "specs", "properties", "topology"),
    [
        (8, {}, {}, (8, 1, 1)),
        (8, {"hw:cpu_max_sockets": "2"}, {}, (2, 4, 1)),
        (8, {"hw:cpu_threads": "2"}, {}, (4, 1, 2)),
        (6, {"hw:cpu_cores": "4"}, {}, (6, 1, 1)),
        (12, {"hw:cpu_sockets": "2", "hw:cpu_threads": "2"}, {}, (2, 3, 2)),
        (8, {"hw:cpu_sockets": "4"}, {"hw_cpu_max_sockets": 2}, (2, 4, 1)),
        (8, {"hw:cpu_sockets": "2"}, {"hw_cpu_cores": 8}, (1, 8, 1)),
    ],
)
def test_the_cpu_topology_is_nova_s(vcpus, specs, properties, topology):
    assert guest_cpu_topology(vcpus, specs, properties) == topology


@pytest.mark.parametrize(
    ("specs", "properties", "code"),
    [
        (
            {"hw:cpu_max_cores": "1", "hw:cpu_max_sockets": "1", "hw:cpu_max_threads": "1"},
            {},
            "ImageVCPULimitsRangeImpossible",
        ),
        ({"hw:cpu_max_cores": "2"}, {"hw_cpu_max_cores": "4"}, "ImageVCPULimitsRangeExceeded"),
        ({"hw:cpu_max_cores": "2"}, {"hw_cpu_cores": "4"}, "ImageVCPUTopologyRangeExceeded"),
        ({"hw:cpu_cores": "two"}, {}, "InvalidRequest"),
    ],
)
def test_cpu_topologies_that_are_refused(specs, properties, code):
    with pytest.raises(InvalidSpecs, match="hw.cpu_") as caught:
        guest_cpu_topology(8, specs, properties)
    assert caught.value.code == code
