# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Any hosts and any guests: the fit is compared with a slow checker, and claims and releases
balance."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.plugin_utils._common.arrays import np
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._numa.device_requests import (
    POLICIES,
    PciRequest,
)
from ansible_collections.drover.compute.plugins.plugin_utils._numa.guest import (
    GuestCell,
    GuestTopology,
)
from ansible_collections.drover.compute.plugins.plugin_utils._numa.hosts import (
    DoesNotFit,
    NumaHosts,
)
from ansible_collections.drover.compute.plugins.plugin_utils._numa.request import HostRequest
from ansible_collections.drover.compute.tests.unit.numa import checking

GPU = {"vendor_id": "10de", "product_id": "2204"}
NIC = {"vendor_id": "8086", "product_id": "37c8"}


@st.composite
def hosts(draw, functions=True):
    """Return a host of up to four small cells, with devices."""
    numbers = draw(st.lists(st.integers(0, 6), min_size=1, max_size=4, unique=True))
    threads, mode = draw(st.integers(1, 3)), draw(st.sampled_from(["legacy", "split", "threads"]))
    cells, cpu = [], 0
    for number in sorted(numbers):
        cores = []
        for _core in range(draw(st.integers(0, 3))):
            size = draw(st.integers(1, threads))
            cores.append(list(range(cpu, cpu + size)))
            cpu += size
        cut = draw(st.integers(0, len(cores)))
        every = [each for core in cores for each in core]
        shared, pinned = {
            "legacy": (every, every),
            "split": (
                [each for core in cores[:cut] for each in core],
                [each for core in cores[cut:] for each in core],
            ),
            "threads": ([each for core in cores for each in core[1:]], [core[0] for core in cores]),
        }[mode]
        sizes = draw(st.sampled_from([(), (4,), (4, 2048), (4, 2048, 1048576), (2048,)]))
        pages = [
            {
                "size_kb": size,
                "total": draw(st.integers(0, 8)) * 1024 * 256 // size,
                "reserved": draw(st.sampled_from([0, 0, 1])),
            }
            for size in sizes
        ]
        socket = draw(st.sampled_from([0, 0, 1, 1, None]))
        cells.append(
            {
                "id": number,
                "socket": socket,
                "cpus": shared,
                "pcpus": pinned,
                "siblings": cores,
                "memory_mb": draw(st.integers(1, 6)) * 256,
                "pages": pages,
            }
        )
    pci = []
    for bus in range(draw(st.integers(0, 4))):
        node, address = draw(st.sampled_from([*numbers, None])), f"0000:{bus:02x}:00.0"
        if functions and draw(st.booleans()):
            pci.append({**NIC, "address": address, "numa_node": node, "dev_type": "type-PF"})
            for function in range(1, draw(st.integers(1, 3))):
                virtual = {
                    **NIC,
                    "address": f"{address[:-1]}{function}",
                    "numa_node": node,
                    "dev_type": "type-VF",
                    "parent_addr": address,
                }
                pci.append(virtual)
        else:
            pci.append({**GPU, "address": address, "numa_node": node, "dev_type": "type-PCI"})
    return {
        "name": "kvm",
        "cells": cells,
        "pci": pci,
        "device_spec": [{}],
        "cpu_allocation_ratio": draw(st.sampled_from([1.0, 2.0])),
        "ram_allocation_ratio": draw(st.sampled_from([1.0, 1.5])),
    }


@st.composite
def topologies(draw):
    policy = draw(st.sampled_from([None, "shared", "dedicated", "dedicated", "mixed"]))
    cells, vcpu = [], 0
    for _cell in range(draw(st.integers(1, 3))):
        size = draw(st.integers(1, 4))
        vcpus = range(vcpu, vcpu + size)
        vcpu += size
        cut = {"dedicated": 0, "mixed": draw(st.integers(0, size))}.get(policy, size)
        cells.append(
            GuestCell(
                tuple(vcpus[:cut]), tuple(vcpus[cut:]), draw(st.sampled_from([128, 256, 257, 512]))
            )
        )
    pinned = policy in checking.PINNED
    return GuestTopology(
        tuple(cells),
        policy,
        draw(st.sampled_from([None, "prefer", "isolate", "require"])) if pinned else None,
        draw(st.sampled_from([None, "share", "isolate"])) if pinned else None,
        draw(st.sampled_from([None, None, "small", "large", "any", 2048, 1048576])),
    )


@st.composite
def requests(draw, functions=True, cells=None):
    kinds = [tuple(GPU.items())] + (
        [(*NIC.items(), ("dev_type", kind)) for kind in ("type-PF", "type-VF")] if functions else []
    )
    pci = draw(
        st.lists(
            st.builds(
                PciRequest,
                st.integers(1, 2),
                st.sampled_from(kinds).map(lambda spec: (spec,)),
                st.sampled_from(POLICIES),
            ),
            max_size=2 if functions else 1,
        )
    )
    return HostRequest(draw(st.none() | topologies() if cells is None else cells), tuple(pci))


def fill(document, wishes):
    """Return (NumaHosts, slow host, [resources of each instance]); each instance is checked before
    it counts."""
    fast, slow, placements = NumaHosts([document]), checking.Host(document), []
    for number, request in enumerate(wishes):
        fit = fast.fits(request)
        try:
            placed = fast.place(request, 0)
        except DoesNotFit as problem:
            assert fit.why(0) == problem.why or problem.why == "pci claim"
            continue
        assert fit.mask[0]
        assert checking.wrong(slow, request, placed) == []
        fast.consume(0, placed)
        slow.count(f"vm{number}", placed)
        assert slow.double() == []
        placements.append(placed)
    return fast, slow, placements


@given(hosts(), st.lists(requests(), max_size=6))
@settings(max_examples=100, deadline=None)
def test_what_instances_get_is_theirs_alone_and_what_they_asked_for(document, wishes):
    fill(document, wishes)


@given(
    hosts(functions=False),
    st.lists(requests(functions=False), max_size=4),
    requests(functions=False, cells=topologies()),
)
@settings(max_examples=100, deadline=None)
def test_a_host_fits_if_any_choice_of_cells_does(document, wishes, request):
    fast, slow, _held = fill(document, wishes)
    assert fast.fits(request).mask[0] == checking.fits(slow, request)


@given(hosts(), st.lists(requests(), max_size=5), st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_what_is_given_back_is_free_as_before(document, wishes, random):
    fast, _slow, held = fill(document, wishes)
    random.shuffle(held)
    for placed in held:
        fast.release(0, placed)
    empty = NumaHosts([document])
    assert fast.usage(0) == empty.usage(0)
    for name, column in vars(empty._columns).items():
        assert np.array_equal(column, getattr(fast._columns, name)), name
    assert np.array_equal(fast._device_columns.counts, empty._device_columns.counts)


@given(hosts(), st.lists(requests(), max_size=5))
@settings(max_examples=50, deadline=None)
def test_a_host_that_is_read_with_its_instances_is_as_one_that_gave_them(document, wishes):
    fast, _slow, held = fill(document, wishes)
    again = NumaHosts([{**document, "instances": copy.deepcopy(held)}])
    assert again.usage(0) == fast.usage(0)
    for request in wishes:
        assert again.fits(request).why(0) == fast.fits(request).why(0)


@given(st.lists(hosts(), min_size=1, max_size=4), requests())
@settings(max_examples=50, deadline=None)
def test_many_hosts_are_judged_as_each_by_itself(documents, request):
    fit = NumaHosts(documents).fits(request)
    assert [fit.why(number) for number in range(len(documents))] == [
        NumaHosts([each]).fits(request).why(0) for each in documents
    ]


@given(hosts(), requests(cells=topologies()))
@settings(max_examples=100, deadline=None)
def test_nobody_gets_the_same_twice(document, request):
    fast = NumaHosts([document])
    try:
        placed = fast.place(request, 0)
    except DoesNotFit:
        return
    fast.consume(0, placed)
    before = fast.usage(0)
    if placed["cells"][0]["pins"] or placed["pci"]:
        with pytest.raises(DroverError, match="of host kvm is not free for an instance"):
            fast.consume(0, placed)
        assert fast.usage(0) == before
        fast.release(0, placed)
        with pytest.raises(DroverError, match="of host kvm"):
            fast.release(0, placed)
