# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The compute nodes of the store as the hosts of the fit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._records.hosts import FleetColumns, PciDevice

#: The columns that the fit needs beside those that are always read (store.host_columns.ColumnQuery).
COLUMNS = frozenset({"numa_cells", "numa_allocations", "pci_devices"})


def hosts_of(columns: FleetColumns) -> list[dict[str, Any]]:
    """Return the hosts for NumaHosts, in the order of the columns, which have those of COLUMNS.

    What each consumer has of a node is an instance there, with its uuid; a device that is gone is no device.
    """
    fleet: Mapping[str, Any] = columns
    ratios = {name: columns["resources"][name]["ratio"] for name in ("VCPU", "MEMORY_MB")}
    hosts = []
    for row, name in enumerate(columns["host"]):
        node = columns["node"][row]
        devices = [each for each in fleet["pci_devices"][row] if each["reported"]]
        owned: dict[str, list[PciDevice]] = {}
        for each in devices:
            if each["owner"]:
                owned.setdefault(each["owner"], []).append(each)
        cells = {each["uuid"]: each["cells"] for each in fleet["numa_allocations"][row]}
        hosts.append(
            {
                "name": name if name == node else f"{name} ({node})",
                "cells": json.loads(fleet["numa_cells"][row] or "null") or [],
                "pci": devices,
                "device_spec": _specs(devices),
                "cpu_allocation_ratio": float(ratios["VCPU"][row]) or None,
                "ram_allocation_ratio": float(ratios["MEMORY_MB"][row]) or None,
                "instances": [
                    {"uuid": uuid, "cells": cells.get(uuid, []), "pci": [{"devices": owned.get(uuid, [])}]}
                    for uuid in sorted(cells.keys() | owned.keys())
                ],
            }
        )
    return hosts


def _specs(devices: Sequence[PciDevice]) -> list[dict[str, Any]]:
    """Return a device spec for each device, with the tags that it has; that of a physical function would match its virtual ones too."""
    ordered = sorted(devices, key=lambda each: (each["parent_addr"] is None, each["address"]))
    return [{"address": each["address"], **each["tags"]} for each in ordered]
