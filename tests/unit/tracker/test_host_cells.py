# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cells of hosts, and the resources that domains take from them."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import host_cells
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.tracker.machines import (
    CELLS,
    domain,
    facts,
    pins,
)

SETS = {"cpu_shared_set": "0,8,4,12", "cpu_dedicated_set": "1-3,9-11,5-7,13-15"}


def described(*domains, **options):
    return fleets.described(facts(*domains), {"host": "kvm1", **options})


def cells(*domains, **options):
    return described(*domains, **options)["columns"]["numa_cells"]


def test_a_host_with_two_sets():
    report = described(**SETS)
    first = report["columns"]["numa_cells"][0]
    assert first == {
        "id": 0,
        "cpus": [0, 8],
        "pcpus": [1, 2, 3, 9, 10, 11],
        "siblings": [[0, 8], [1, 9], [2, 10], [3, 11]],
        "memory_mb": 16384,
        "pages": [
            {"size_kb": 4, "total": 1966080, "reserved": 0},
            {"size_kb": 2048, "total": 2048, "reserved": 0},
            {"size_kb": 1048576, "total": 4, "reserved": 0},
        ],
        "socket": 0,
    }
    assert {
        name: each["total"] for name, each in report["inventories"].items() if name.endswith("CPU")
    } == {"VCPU": 4, "PCPU": 12}
    assert "HW_CPU_HYPERTHREADING" in report["traits"]


@pytest.mark.parametrize(
    "options, shared, pinned, vcpu, pcpu",
    [
        # Without any set, and with the former option, pinned vCPUs may be anywhere: legacy mode.
        ({}, 16, 16, 16, None),
        ({"vcpu_pin_set": "2-7"}, 6, 6, 6, None),
        ({"cpu_shared_set": "2-7"}, 6, 0, 6, None),
        ({"cpu_dedicated_set": "2-7"}, 0, 6, None, 6),
    ],
)
def test_which_cpus_serve_what(options, shared, pinned, vcpu, pcpu):
    report = described(**options)
    numa_cells = report["columns"]["numa_cells"]
    assert (
        sum(len(each["cpus"]) for each in numa_cells),
        sum(len(each["pcpus"]) for each in numa_cells),
    ) == (shared, pinned)
    assert [report["inventories"].get(name, {}).get("total") for name in ("VCPU", "PCPU")] == [
        vcpu,
        pcpu,
    ]


@pytest.mark.parametrize(
    "options, sentence",
    [
        (
            {"vcpu_pin_set": "0-3", "cpu_dedicated_set": "4-7"},
            "vcpu_pin_set .* does not go with cpu_dedicated_set",
        ),
        (
            {"vcpu_pin_set": "0-3", "cpu_shared_set": "4-7"},
            "vcpu_pin_set .* does not go with cpu_shared_set",
        ),
        (
            {"vcpu_pin_set": "0-99"},
            r"vcpu_pin_set \(drover_vcpu_pin_set\) has CPUs that are not online",
        ),
        (
            {"cpu_dedicated_set": "4-7", "reserved_host_cpus": 1},
            "reserved_host_cpus .* does not go with cpu_dedicated_set",
        ),
        ({"reserved_huge_pages": 5}, "must be a list such as"),
        ({"reserved_huge_pages": ["node=0"]}, "is not of the form node:0,size:2048,count:64"),
        (
            {"reserved_huge_pages": [{"node": 0, "size": 2048, "counts": 1}]},
            "unknown key counts .did you mean count",
        ),
        (
            {"reserved_huge_pages": [{"node": 0, "size": "2M2", "count": 1}]},
            "size must be a number of KiB",
        ),
        (
            {"reserved_huge_pages": [{"node": 7, "size": 2048, "count": 1}]},
            "2048 KiB pages of cell 7 do not exist on this host. It has: 4 KiB in cell 0",
        ),
        (
            {"reserved_huge_pages": [{"node": 0, "size": "1GiB", "count": 5}]},
            "5 cannot be reserved of the 4",
        ),
        (
            {"reserved_huge_pages": ["node:0,size:2MB,count:1", "node:0,size:2048,count:1"]},
            "stand twice",
        ),
    ],
)
def test_options_that_cannot_be(options, sentence):
    with pytest.raises(DroverError, match=sentence):
        described(**options)


@pytest.mark.parametrize(
    "given",
    [
        "node:0,size:2048,count:64",
        ["node:0, size:2MB, count:64"],
        [{"node": 0, "size": "2MiB", "count": 64}],
    ],
)
def test_reserved_pages_as_nova_writes_them(given):
    assert [page["reserved"] for page in cells(reserved_huge_pages=given)[0]["pages"]] == [0, 64, 0]


def test_pages_that_others_have_are_reserved():
    """A switch in user space has 512 pages; a guest has 512 more, and these do not count as
    reserved."""
    used = [{**cell, "pages": [dict(page) for page in cell["pages"]]} for cell in CELLS]
    used[0]["pages"][1]["free"] = 1024
    guest = domain(
        "web",
        2,
        1024,
        "<numatune><memory mode='strict'"
        " nodeset='0'/></numatune><memoryBacking><hugepages/></memoryBacking>",
    )
    reports = [
        fleets.described({**facts(*guests), "numa_cells": used}, {"host": "kvm1", **more})
        for guests, more in (
            ([guest], {}),
            ([guest], {"reserved_huge_pages": "node:0,size:2048,count:600"}),
            ([{**guest, "state": "shutoff"}], {}),
        )
    ]
    assert [each["columns"]["numa_cells"][0]["pages"][1]["reserved"] for each in reports] == [
        512,
        600,
        1024,
    ]


TWO = (
    "<cpu><numa><cell id='0' cpus='0' memory='1' unit='GiB'/><cell id='1' cpus='1' memory='2'"
    " unit='GiB'/></numa></cpu>"
)
NODES = (
    "<numatune><memory nodeset='0-1'/><memnode cellid='0' mode='strict' nodeset='1'/><memnode"
    " cellid='1' mode='strict' nodeset='0'/></numatune>"
)


def entry(guest, host, memory_mb, page_kb=None, shared=(), pinned=None, reserved=()):
    return {
        "guest": guest,
        "host": host,
        "memory_mb": memory_mb,
        "page_kb": page_kb,
        "shared": list(shared),
        "pins": pinned or {},
        "reserved": list(reserved),
    }


@pytest.mark.parametrize(
    "guest, found, vcpus, others",
    [
        # Pinned by hand, without a setting for memory: the memory is in the cell of the CPUs.
        (domain("a", 2, 1024, pins(1, 9)), [entry(0, 0, 1024, pinned={"0": 1, "1": 9})], 2, 0),
        (
            domain("a", 2, 1024, pins(1, 5)),
            [entry(0, 0, 512, pinned={"0": 1}), entry(0, 1, 512, pinned={"1": 5})],
            2,
            0,
        ),
        (
            domain("a", 2, 1024, pins(1, 5, cell=1)),
            [entry(0, 0, 0, pinned={"0": 1}), entry(0, 1, 1024, pinned={"1": 5})],
            2,
            0,
        ),
        # Nova's isolated emulator, on a CPU of the dedicated set; and its usual emulator, on the
        # CPUs of the guest.
        (
            domain("a", 2, 64, pins(1, 9, cell=0, emulator="2")),
            [entry(0, 0, 64, pinned={"0": 1, "1": 9}, reserved=[2])],
            2,
            1,
        ),
        (
            domain("a", 2, 64, pins(1, 9, cell=0, emulator="1,9")),
            [entry(0, 0, 64, pinned={"0": 1, "1": 9})],
            2,
            0,
        ),
        (
            domain("a", 2, 64, pins(1, 9, cell=0, emulator="0,8")),
            [entry(0, 0, 64, pinned={"0": 1, "1": 9})],
            2,
            0,
        ),
        # Mixed: vCPU 0 floats over the shared CPUs of its cell.
        (
            domain("a", 2, 64, pins("0,8", 2, cell=0)),
            [entry(0, 0, 64, shared=[0], pinned={"1": 2})],
            1,
            0,
        ),
        # Nova's guest of two cells on 2 MiB pages; nothing pinned.
        (
            domain(
                "a",
                2,
                3072,
                TWO
                + NODES
                + "<memoryBacking><hugepages><page size='2' unit='M'/></hugepages></memoryBacking>",
            ),
            [entry(0, 1, 1024, 2048, [0]), entry(1, 0, 2048, 2048, [1])],
            0,
            0,
        ),
        # vCPUs float over CPUs of pinned vCPUs: each of these CPUs is taken.
        (
            domain("a", 2, 64, "<vcpu cpuset='2-3'>2</vcpu>"),
            [entry(0, 0, 0, reserved=[2, 3])],
            2,
            0,
        ),
        # A CPU of the shared set takes no CPU of the other set.
        (domain("a", 1, 64, pins(0, cell=0)), [entry(0, 0, 64, shared=[0])], 0, 0),
        # Nova's guest without a topology: in no cell.
        (domain("a", 2, 64, "<vcpu cpuset='0,8,4,12'>2</vcpu>"), [], 0, 0),
        (domain("a", 2, 64), [], 0, 0),
        # A cell that the host does not have.
        (
            domain("a", 2, 64, "<numatune><memory mode='preferred' nodeset='7'/></numatune>"),
            [],
            0,
            0,
        ),
    ],
)
def test_what_a_domain_takes(guest, found, vcpus, others):
    assert host_cells.cells_of_domain(guest, cells(**SETS)) == (found, vcpus, others)


def test_pins_in_legacy_mode_take_cpus_and_no_pcpu():
    entries, vcpus, others = host_cells.cells_of_domain(
        domain("a", 2, 64, pins(1, 9, cell=0, emulator="2")), cells()
    )
    assert (entries, vcpus, others) == (
        [entry(0, 0, 64, pinned={"0": 1, "1": 9}, reserved=[2])],
        0,
        0,
    )


def test_a_host_that_tells_no_cells():
    report = fleets.described(
        {**facts(domain("a", 2, 64, pins(1, 9))), "numa_cells": []}, {"host": "kvm1"}
    )
    assert report["columns"]["numa_cells"] is None
