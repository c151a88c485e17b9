# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resources of existing instances count as found, and are returned as they were taken."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._numa.hosts import NumaHosts
from ansible_collections.drover.compute.plugins.plugin_utils._numa.request import read_request

CELL = {
    "id": 0,
    "cpus": [0, 4],
    "pcpus": [1, 2, 3, 5, 6, 7],
    "siblings": [[0, 4], [1, 5], [2, 6], [3, 7]],
    "memory_mb": 8192,
    "pages": [
        {"size_kb": 4, "total": 1048576, "reserved": 0},
        {"size_kb": 2048, "total": 2048, "reserved": 256},
    ],
    "socket": 0,
}
GPU = {
    "address": "0000:81:00.0",
    "vendor_id": "10de",
    "product_id": "2204",
    "dev_type": "type-PCI",
    "numa_node": 0,
}


def by_hand(*pins, devices=(), cell=0):
    """Return the resources of an instance that a person pinned by hand."""
    placed = {
        "guest": 0,
        "host": cell,
        "memory_mb": 1024,
        "page_kb": 2048,
        "shared": [],
        "reserved": [],
    }
    return {
        "cells": [{**placed, "pins": {str(vcpu): cpu for vcpu, cpu in enumerate(pins)}}],
        "pci": [{"devices": [{"address": address} for address in devices]}],
    }


def hosts(*instances):
    return NumaHosts(
        [
            {
                "name": "kvm1",
                "cells": [CELL],
                "pci": [GPU],
                "device_spec": [{}],
                "instances": instances,
            }
        ]
    )


def test_two_domains_on_one_cpu_count_both():
    one, two = by_hand(1, 2, devices=[GPU["address"]]), by_hand(1, devices=[GPU["address"]])
    numa_hosts = hosts(one, two)
    assert numa_hosts.usage(0) == [
        {
            "id": 0,
            "memory_mb": 2048,
            "shared": 0,
            "pinned": [1, 2],
            "pages_free": {"4": 1048576, "2048": 768},
        }
    ]
    numa_hosts.release(0, one)
    assert numa_hosts.usage(0)[0]["pinned"] == [1]
    with pytest.raises(DroverError, match="The PCI device 0000:81:00.0 of host kvm1 is not free"):
        numa_hosts.consume(0, by_hand(devices=[GPU["address"]]))
    numa_hosts.release(0, two)
    assert numa_hosts.usage(0) == hosts().usage(0)


def test_a_pin_outside_of_the_dedicated_cpus_takes_none_of_them():
    numa_hosts = hosts(by_hand(0, 99))
    asked, _constraints = read_request(6, 512, {"hw:cpu_policy": "dedicated"}, {}, {})
    assert sorted(numa_hosts.place(asked, 0)["cells"][0]["pins"].values()) == CELL["pcpus"]
    with pytest.raises(DroverError, match="CPU 0 of host kvm1 is not free"):
        numa_hosts.consume(0, by_hand(0))


def test_cells_and_devices_that_are_gone_take_nothing():
    found = hosts(by_hand(1, cell=7, devices=["0000:99:00.0"]))
    assert found.usage(0) == hosts().usage(0)


def test_nothing_is_counted_where_a_part_is_not_free():
    numa_hosts = hosts(by_hand(1))
    before = numa_hosts.usage(0)
    with pytest.raises(DroverError, match="CPU 1 of host kvm1 is not free"):
        numa_hosts.consume(0, by_hand(2, 1, devices=[GPU["address"]]))
    with pytest.raises(DroverError, match="No instance is pinned to CPU 2 of host kvm1"):
        numa_hosts.release(0, by_hand(1, 2))
    assert numa_hosts.usage(0) == before


def test_more_pages_than_there_are_leave_none():
    numa_hosts = hosts(*[by_hand() for _each in range(4)])
    assert numa_hosts.usage(0)[0]["pages_free"]["2048"] == -256
    asked, _constraints = read_request(1, 2, {"hw:mem_page_size": "2048"}, {}, {})
    assert numa_hosts.fits(asked).why(0) == "numa fit"


def test_a_forced_host_has_no_ratios():
    request, _constraints = read_request(2, 512, {"hw:numa_nodes": "1"}, {}, {})
    found = NumaHosts([{"name": "kvm1", "cells": [CELL], "cpu_allocation_ratio": 0.5}])
    assert found.fits(request).why(0) == "numa fit"
    assert found.fits(type(request)(request.topology, with_limits=False)).mask[0]
