# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fit of cells and devices reads the record of discovery."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._numa import stored_hosts
from ansible_collections.drover.compute.plugins.plugin_utils._numa.device_requests import (
    read_aliases,
)
from ansible_collections.drover.compute.plugins.plugin_utils._numa.hosts import (
    DoesNotFit,
    NumaHosts,
)
from ansible_collections.drover.compute.plugins.plugin_utils._numa.request import read_request
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import host_columns
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import NOW
from ansible_collections.drover.compute.tests.unit.tracker import machines
from ansible_collections.drover.compute.tests.unit.tracker.machines import domain, node, pins

SETS = {
    "cpu_shared_set": "0,8,4,12",
    "cpu_dedicated_set": "1-3,9-11,5-7,13-15",
    "cpu_allocation_ratio": 2.0,
}
SPECS = [
    {"address": "0000:3b:00.0", "trusted": "true"},
    {"vendor_id": "10de", "product_id": "2204"},
]
ALIASES = [
    {"name": "vf", "product_id": "154c", "vendor_id": "8086"},
    {"name": "gpu", "product_id": "2204", "vendor_id": "10de"},
]


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


def hosts(url, *nodes):
    fleets.discover(url, *nodes)
    with Store.open(url).read() as connection:
        columns = host_columns.read_columns(
            connection, NOW, 0, host_columns.ColumnQuery(columns=set(stored_hosts.COLUMNS))
        )
    return NumaHosts(stored_hosts.hosts_of(columns))


def place(found, vcpus=2, memory_mb=1024, host="kvm1", **extra_specs):
    specs = {key.replace("__", ":"): value for key, value in extra_specs.items()}
    request = read_request(vcpus, memory_mb, specs, None, read_aliases(ALIASES))[0]
    return found.place(request, found.names.index(host))


def test_pins_go_beside_those_of_domains(url):
    numa_hosts = hosts(
        url,
        node(domain("web", 2, 1024, pins(1, 9, cell=0, emulator="2")), options=SETS),
        fleets.host("kvm2"),
    )
    (cell,) = place(numa_hosts, hw__cpu_policy="dedicated")["cells"]
    # Most free pinned CPUs first: cell 1, which is empty.
    assert (cell["host"], cell["pins"]) == (1, {"0": 5, "1": 13})
    (cell,) = place(
        numa_hosts,
        3,
        hw__cpu_policy="dedicated",
        hw__numa_nodes="1",
        hw__cpu_thread_policy="require",
    )["cells"]
    assert cell["host"] == 1
    with pytest.raises(DoesNotFit):
        place(numa_hosts, 8, 1024, hw__cpu_policy="dedicated")
    with pytest.raises(DoesNotFit) as refused:
        place(numa_hosts, host="kvm2", hw__cpu_policy="dedicated")
    assert refused.value.why == "no host topology"


def test_pages_of_domains_and_reserved_ones_are_taken(url):
    user = domain(
        "web",
        1,
        2048,
        "<numatune><memory nodeset='0'/></numatune><memoryBacking><hugepages/></memoryBacking>",
        state="shutoff",
    )
    options = {**SETS, "reserved_huge_pages": ["node:1,size:2048,count:1536"]}
    numa_hosts = hosts(url, node(user, options=options))
    assert place(numa_hosts, memory_mb=2048, hw__mem_page_size="2048")["cells"][0]["host"] == 0
    with pytest.raises(DoesNotFit):
        place(numa_hosts, memory_mb=2050, hw__mem_page_size="2048")


def test_devices_go_by_their_specs_and_owners(url):
    users = [domain("web", 1, 64, devices=[("pci", "0000:3b:02.0")])]
    numa_hosts = hosts(
        url, node(*users, options={**SETS, "pci_device_specs": SPECS}, **machines.devices())
    )
    (given,) = place(numa_hosts, pci_passthrough__alias="vf:1")["pci"]
    assert [each["address"] for each in given["devices"]] == ["0000:3b:02.1"]
    with pytest.raises(DoesNotFit):
        place(numa_hosts, pci_passthrough__alias="vf:2")
    assert (
        place(numa_hosts, pci_passthrough__alias="gpu:1")["pci"][0]["devices"][0]["address"]
        == "0000:85:00.0"
    )
