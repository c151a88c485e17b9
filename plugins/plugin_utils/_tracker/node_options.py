# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options that change the record of a compute node, in the form of Ansible's argument specs.

A variable ``drover_<option>`` of a host sets each of them. A node given as data may have them too,
see node_data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: The specification of an option, as an argument spec has it.
Spec = Mapping[str, object]
#: The options of a host by their names in NODE_OPTIONS.
Options = Mapping[str, Any]

NODE_OPTIONS: dict[str, Spec] = {
    "instances_path": {"type": "path", "default": "/var/lib/libvirt/images"},
    "reserved_host_cpus": {"type": "int", "default": 0},
    "reserved_host_memory_mb": {"type": "raw", "default": 512},
    "reserved_host_disk_mb": {"type": "raw", "default": 0},
    "cpu_allocation_ratio": {"type": "float"},
    "ram_allocation_ratio": {"type": "float"},
    "disk_allocation_ratio": {"type": "float"},
    "cpu_shared_set": {"type": "str"},
    "cpu_dedicated_set": {"type": "str"},
    "vcpu_pin_set": {"type": "str"},
    "reserved_huge_pages": {"type": "raw"},
    "pci_device_specs": {"type": "list", "elements": "dict"},
    "pci_report_in_placement": {"type": "bool", "default": False},
    "numa_report_in_placement": {"type": "bool", "default": False},
    "mdev_types": {"type": "list", "elements": "raw"},
    "availability_zone": {"type": "str"},
    "labels": {"type": "dict"},
    "cell": {"type": "str"},
    "migration_uri": {"type": "str"},
    "migration_address": {"type": "str"},
    "shared_pools": {"type": "raw"},
    "shared_block_devices": {"type": "list", "elements": "str"},
    "storage_pools": {"type": "list", "elements": "raw"},
    "ip_pools": {
        "type": "list",
        "elements": "dict",
        "options": {
            "name": {"type": "str", "required": True},
            "addresses": {"type": "list", "elements": "str", "required": True},
        },
    },
}

#: The options that change how a host is read, so that a node given as data has none of them.
READING_OPTIONS: dict[str, Spec] = {
    "probe_kvm": {"type": "bool", "default": False},
    "domain_type": {"type": "str"},
    "cpu": {"type": "raw"},
}
