# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record the resource providers that Nova's own code makes of PCI devices, as
tests/properties/store/nova_providers.json.

Run it in an environment with nova (pip install nova); the JSON is written to standard output:

    python tests/benchmarks/pci_record.py > tests/properties/store/nova_providers.json
"""

from __future__ import annotations

import json
import sys
from typing import Any

import nova.conf
from nova import exception
from nova.compute import pci_placement_translator as translator
from nova.compute.provider_tree import ProviderTree
from nova.objects import fields
from nova.objects.pci_device import PciDevice
from nova.pci import whitelist

NODE = "kvm1"
UUID = "3f1c2d0e-0000-4000-8000-000000000001"
INSTANCE = "3f1c2d0e-0000-4000-8000-000000000002"
GPU = {
    "address": "0000:81:00.0",
    "vendor_id": "10de",
    "product_id": "2204",
    "dev_type": "type-PCI",
    "numa_node": 0,
}
GPU2 = {**GPU, "address": "0000:82:0a.0"}
PF = {
    "address": "0000:3b:00.0",
    "vendor_id": "8086",
    "product_id": "1572",
    "dev_type": "type-PF",
    "numa_node": 1,
}
PF2 = {**PF, "address": "0000:3b:00.1"}
VF, VF2 = (
    {
        **PF,
        "address": f"0000:3b:02.{number}",
        "product_id": "154c",
        "dev_type": "type-VF",
        "parent_addr": PF["address"],
    }
    for number in (0, 1)
)
VF_OF_2 = {**VF, "address": "0000:3b:0a.0", "parent_addr": PF2["address"]}
VDPA = {**VF, "address": "0000:3b:02.2", "dev_type": "vdpa"}
ALL = [GPU, GPU2, PF, PF2, VF, VF2, VF_OF_2]
VFS = {"product_id": "154c"}

#: Device specs, devices, and the addresses that an instance has.
CASES: list[tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]] = [
    ([{"vendor_id": "10de"}], ALL, []),
    (
        [
            {
                "vendor_id": "10de",
                "resource_class": "gpu",
                "traits": "hw_gpu,HW_GPU_API_VULKAN,custom_x,fast one",
            }
        ],
        ALL,
        [],
    ),
    (
        [{"vendor_id": "10de", "resource_class": "CUSTOM_GPU", "traits": "CUSTOM_A,CUSTOM_A"}],
        ALL,
        [],
    ),
    ([{"vendor_id": "10de", "resource_class": "VGPU"}], ALL, []),
    ([{"vendor_id": "10de", "resource_class": "pgpu"}], ALL, []),
    ([{"vendor_id": "10de", "resource_class": "big-gpu.v2"}], ALL, []),
    ([{"product_id": "1572"}], ALL, []),
    ([VFS], ALL, []),
    ([{"address": PF["address"]}], [PF], []),
    ([{**VFS, "physical_network": "physnet1"}, {"vendor_id": "10de"}], ALL, []),
    ([{"address": VF["address"], "physical_network": "physnet1"}, VFS], ALL, []),
    ([{**VFS, "live_migratable": "yes"}], ALL, []),
    ([{"address": VF["address"], "live_migratable": "yes"}, VFS], ALL, []),
    ([{**VFS, "managed": "no", "remote_managed": "no"}], [*ALL, VDPA], []),
    ([{"vendor_id": "8086"}], [VF, VDPA], []),
    ([{"vendor_id": "10de", "one_time_use": "true"}], ALL, []),
    ([{"vendor_id": "10de", "one_time_use": "true"}], ALL, [GPU["address"]]),
    ([{"vendor_id": "10de", "one_time_use": "no"}], ALL, [GPU["address"]]),
    ([{"product_id": "1572", "one_time_use": "1"}], ALL, [PF2["address"]]),
    ([VFS], ALL, [VF["address"], VF2["address"]]),
    ([{**VFS, "one_time_use": "true"}], ALL, []),
    ([{**VFS, "one_time_use": "false"}], ALL, []),
    ([{"vendor_id": "8086"}], ALL, []),
    ([{"address": VF["address"], "resource_class": "a"}, VFS], ALL, []),
    ([{"address": VF["address"], "traits": "a"}, VFS], ALL, []),
    (
        [
            {"address": VF["address"], "resource_class": "a"},
            {"address": VF_OF_2["address"], "resource_class": "b"},
        ],
        ALL,
        [],
    ),
    ([{"devname": "ens1f0"}], ALL, []),
]


class _Tracker:
    def __init__(self, devices: list[PciDevice], specs: whitelist.Whitelist) -> None:
        self.pci_devs, self.dev_filter = devices, specs
        self.stats = self

    def populate_pools_metadata_from_assigned_devices(self) -> None:
        """Do nothing with the pools: the tests read only the providers."""


def _device(number: int, facts: dict[str, Any], taken: list[str]) -> PciDevice:
    device = PciDevice(**{"parent_addr": None, **facts})
    device.id, device.extra_info = number, {}
    device.label = ""
    device.instance_uuid = INSTANCE if facts["address"] in taken else None
    device.status = (
        fields.PciDeviceStatus.ALLOCATED
        if device.instance_uuid
        else fields.PciDeviceStatus.AVAILABLE
    )
    return device


def _answer(
    specs: list[dict[str, Any]], devices: list[dict[str, Any]], taken: list[str]
) -> dict[str, Any]:
    tree = ProviderTree()
    tree.new_root(NODE, UUID)
    allocations: dict[str, Any] = (
        {INSTANCE: {"allocations": {UUID: {"resources": {"VCPU": 1}}}}} if taken else {}
    )
    try:
        filters = whitelist.Whitelist([json.dumps(each) for each in specs])
        found = [_device(number, each, taken) for number, each in enumerate(devices)]
        tracker = _Tracker([each for each in found if filters.get_devspec(each)], filters)
        translator.update_provider_tree_for_pci(tree, NODE, tracker, allocations, [])
    except exception.NovaException as problem:
        return {"error": type(problem).__name__}
    providers = {}
    for uuid in tree.get_provider_uuids(NODE)[1:]:
        data = tree.data(uuid)
        amounts = {
            name: amount
            for each in allocations.values()
            for name, amount in each["allocations"].get(uuid, {}).get("resources", {}).items()
        }
        providers[data.name] = {
            "inventory": data.inventory,
            "traits": sorted(data.traits),
            "allocated": amounts,
        }
    return {"providers": providers}


def main() -> None:
    """Write all cases with Nova's answers."""
    conf = nova.conf.CONF
    conf([], project="nova", default_config_files=[])
    conf.set_override("report_in_placement", True, group="pci")
    cases = [
        {"specs": specs, "devices": devices, "taken": taken, **_answer(specs, devices, taken)}
        for specs, devices, taken in CASES
    ]
    json.dump({"nova": "34.0.0", "cases": cases}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
