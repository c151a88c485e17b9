# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module host_info shows the storage pools of a host: the promised space, and the space that
the storage has in use."""

from __future__ import annotations

from ansible_collections.drover.compute.tests.unit.action.running import run
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.tracker.test_storage_pools import (
    ceph,
    disk,
    guest,
    machine,
    network,
    pool,
)


def test_pools_are_shown_with_what_is_promised_and_what_is_in_use(prepared_url):
    pools = [
        pool("ssd", 500, allocation_gb=12.5),
        pool("hdd", 2000, state="inactive"),
        ceph(1000, allocation_gb=300),
    ]
    pool_options = [
        "ceph",
        {"name": "ssd", "traits": ["STORAGE_DISK_SSD"], "allocation_ratio": 2, "reserved_gb": 100},
    ]
    guests = [guest("web", disk("/srv/ssd/a", 40), network("b", 8))]
    fleets.discover(
        prepared_url,
        machine("kvm1", *guests, wanted=pool_options, pools=pools),
        machine("kvm2", wanted=["ceph"], pools=pools),
    )
    host_info = run("host_info", {}, store_url=prepared_url, host="kvm1")
    fast = {
        "name": "ssd",
        "node": "kvm1",
        "type": "dir",
        "state": "running",
        "drained": False,
        "shared": False,
        "resource_class": "CUSTOM_DISK_GB_SSD",
        "traits": ["STORAGE_DISK_SSD"],
        "total_gb": 500,
        "reserved_gb": 100,
        "capacity_gb": 800,
        "used_gb": 40,
        "physical_used_gb": 12.5,
    }
    assert host_info["storage_pools"][1] == fast
    far = host_info["storage_pools"][0]
    assert (
        far["name"],
        far["shared"],
        far["capacity_gb"],
        far["used_gb"],
        far["physical_used_gb"],
    ) == ("ceph", True, 1000, 8, 300)
    # Blanks are reduced to one, because other tests check the widths of columns.
    assert [" ".join(line.split()) for line in host_info["table"][-2:]] == [
        "ceph running 8/1,000 GiB 0% shared 300/1,000 GiB 30% -",
        "ssd running 40/800 GiB 5% 12.5/500 GiB 2% STORAGE_DISK_SSD",
    ]
    assert "storage_pools" not in run("host_info", {}, store_url=prepared_url)


def test_a_host_without_pools_has_no_table_of_them(prepared_url):
    fleets.discover(prepared_url, machine("kvm1", wanted=[]))
    found = run("host_info", {}, store_url=prepared_url, host="kvm1")
    assert found["storage_pools"] == [] and not any("POOL" in line for line in found["table"])
