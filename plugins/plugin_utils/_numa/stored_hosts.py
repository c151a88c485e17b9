# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The compute nodes of the store in the form for the fit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .._common.errors import node_label
from .._records.hosts import FleetColumns, NumaAllocation, PciDevice
from .._records.numa import HostCell, NumaHost

#: The further columns that the fit needs (store.host_columns.ColumnQuery).
COLUMNS = frozenset({"numa_cells", "numa_allocations", "pci_devices"})


def hosts_of(columns: FleetColumns) -> list[NumaHost]:
    """Return the hosts for NumaHosts, in the order of the columns, which include COLUMNS.

    The parts that each consumer has of a node are an instance there, with its uuid; a device that
    the host does not report is left out.
    """
    fleet: Mapping[str, Any] = columns
    ratios = {name: columns["resources"][name]["ratio"] for name in ("VCPU", "MEMORY_MB")}
    return [
        host_of(
            node_label(name, columns["node"][row]),
            json.loads(fleet["numa_cells"][row] or "null"),
            fleet["numa_allocations"][row],
            fleet["pci_devices"][row],
            {key: float(ratio[row]) for key, ratio in ratios.items()},
        )
        for row, name in enumerate(columns["host"])
    ]


def host_of(
    name: str,
    cells: list[HostCell] | None,
    held: Iterable[NumaAllocation],
    devices: Iterable[PciDevice],
    ratios: Mapping[str, float],
) -> NumaHost:
    """Return one host for NumaHosts.

    :param held: the parts of its cells that consumers have.
    :param ratios: the ratios of VCPU and MEMORY_MB; 0, or a missing one, for none.
    """
    reported = [each for each in devices if each["reported"]]
    owned: dict[str, list[PciDevice]] = {}
    for each in reported:
        if each["owner"]:
            owned.setdefault(each["owner"], []).append(each)
    in_cells = {each["uuid"]: each["cells"] for each in held}
    return {
        "name": name,
        "cells": cells or [],
        "pci": reported,
        "device_spec": _specs(reported),
        "cpu_allocation_ratio": ratios.get("VCPU") or None,
        "ram_allocation_ratio": ratios.get("MEMORY_MB") or None,
        "instances": [
            {
                "uuid": uuid,
                "cells": in_cells.get(uuid, []),
                "pci": [{"devices": owned.get(uuid, [])}],
            }
            for uuid in sorted(in_cells.keys() | owned.keys())
        ],
    }


def _specs(devices: Sequence[PciDevice]) -> list[dict[str, str]]:
    """Return a device spec for each device, with its tags; the spec of a physical function would
    also match its virtual functions.
    """
    ordered = sorted(devices, key=lambda each: (each["parent_addr"] is None, each["address"]))
    return [{"address": each["address"], **each["tags"]} for each in ordered]
