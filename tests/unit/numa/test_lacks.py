# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reason of a host that does not fit has figures."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._numa.hosts import NumaHosts
from ansible_collections.drover.compute.plugins.plugin_utils._numa.request import read_request

PINNED = {"hw:cpu_policy": "dedicated"}


def cell(number, pcpus=(1, 2, 3), memory_mb=4096, pages=512, size_kb=2048, **more):
    small = {"size_kb": 4, "total": (memory_mb * 1024 - pages * size_kb) // 4, "reserved": 0}
    cell_facts = {
        "id": number,
        "cpus": [0],
        "pcpus": list(pcpus),
        "siblings": [],
        "memory_mb": memory_mb,
        "socket": number,
    }
    return {
        **cell_facts,
        "pages": [small, {"size_kb": size_kb, "total": pages, "reserved": 0}],
        **more,
    }


@pytest.mark.parametrize(
    ("vcpus", "memory_mb", "specs", "cells", "text"),
    [
        (
            4,
            64,
            PINNED,
            [cell(0)],
            (
                "lacks room for cell 0 of the guest; its NUMA cell 0 comes nearest and has 3 of 4"
                " CPUs to pin"
            ),
        ),
        (
            4,
            64,
            PINNED,
            [cell(0, pcpus=(1,)), cell(1)],
            "its NUMA cell 1 comes nearest and has 3 of 4 CPUs to pin",
        ),
        (
            2,
            8192,
            PINNED,
            [cell(0)],
            "its NUMA cell 0 comes nearest and has 3072 of 8192 MiB of memory",
        ),
        (4, 8192, PINNED, [cell(0)], "has 3 of 4 CPUs to pin and 3072 of 8192 MiB of memory"),
        (2, 2048, {"hw:mem_page_size": "2MB"}, [cell(0)], "512 of 1024 free pages of 2048 KiB"),
        (2, 2048, {"hw:mem_page_size": "1GB"}, [cell(0)], "no pages of 1048576 KiB"),
        (
            2,
            1023,
            {"hw:mem_page_size": "2048"},
            [cell(0)],
            "pages of 2048 KiB, of which 1023 MiB are no whole number",
        ),
        (2, 64, {"hw:numa_nodes": "2"}, [cell(0)], "has 1 NUMA cell, and the guest needs 2"),
        (8, 64, {"hw:numa_nodes": "1"}, [cell(0)], "has 1 of 8 shared vCPUs"),
        (
            4,
            2048,
            {**PINNED, "hw:numa_nodes": "2"},
            [cell(0), cell(1, pcpus=(4,))],
            "has 1 NUMA cell with enough free CPUs and memory",
        ),
        (
            2,
            64,
            {**PINNED, "hw:cpu_thread_policy": "isolate"},
            [cell(0, siblings=[[1, 2], [3, 0]])],
            "cores with 2 threads",
        ),
        (
            4,
            64,
            {**PINNED, "hw:cpu_thread_policy": "require"},
            [cell(0, pcpus=(1, 2, 3, 4), siblings=[[1, 2], [3, 0]])],
            (
                "has 2 of 4 CPUs to pin in cores with several free threads, which"
                " hw:cpu_thread_policy=require takes"
            ),
        ),
    ],
)
def test_the_resource_that_ran_out_is_named(vcpus, memory_mb, specs, cells, text):
    request, _constraints = read_request(vcpus, memory_mb, specs, {}, {})
    hosts = NumaHosts([{"name": "kvm1", "cells": cells, "cpu_allocation_ratio": 1.0}])
    assert not hosts.fits(request).mask[0]
    lack = hosts.lack(request, 0)
    assert text in lack.text and lack.share > 0


def test_the_host_that_lacks_least_is_the_nearest():
    request, _constraints = read_request(4, 64, PINNED, {}, {})
    hosts = NumaHosts(
        [
            {"name": name, "cells": [cell(0, pcpus=range(1, 1 + count))]}
            for name, count in (("a", 1), ("b", 3), ("c", 2))
        ]
    )
    assert min(range(3), key=lambda host: hosts.lack(request, host).share) == 1
