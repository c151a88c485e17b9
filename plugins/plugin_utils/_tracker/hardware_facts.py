# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check of the facts of hypervisor_info on cells, devices and the pins of domains.

checked_facts.py calls this after its own check that all is plain data of mappings and lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from .._common.errors import DroverError
from .._common.validation import MOST, is_uuid, is_whole, shown

CPUS = 2**16
_CELLS = 2**12
DEV_TYPES = ("type-PCI", "type-PF", "type-VF", "vdpa")
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_HEX = re.compile(r"[0-9a-f]{4}")
_CLASS = re.compile(r"[0-9a-f]{6}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:+-]{0,199}")


def cells(found: Iterable[Mapping[str, object]], where: str) -> None:
    """Check NUMA cells against the form of hypervisor_info.

    :raises DroverError: a cell has another form.
    """
    numbers: set[int] = set()
    cpus: set[int] = set()
    for cell in found:
        number = _whole_number(cell, "id", f"{where}: numa_cells", _CELLS)
        place = f"{where}: numa_cells, cell {number}"
        _refuse_double(number, numbers, place)
        _whole_number(cell, "memory_mb", place)
        if cell.get("cpus") is None:
            raise DroverError(f"{place}: cpus must be a list of mappings, not missing.")
        for cpu in _mappings(cell, "cpus", place):
            _refuse_double(
                _whole_number(cpu, "id", f"{place}: cpus", CPUS - 1),
                cpus,
                f"{place}: CPU {cpu['id']}",
            )
            for key in ("socket", "die", "cluster", "core"):
                if cpu.get(key) is not None:
                    _whole_number(cpu, key, f"{place}: CPU {cpu['id']}")
            _numbers(cpu, "siblings", f"{place}: CPU {cpu['id']}", CPUS - 1)
        sizes: set[int] = set()
        for page in _mappings(cell, "pages", place):
            _refuse_double(
                _whole_number(page, "size_kb", f"{place}: pages", MOST, 1),
                sizes,
                f"{place}: pages of {page['size_kb']} KiB",
            )
            _whole_number(page, "count", f"{place}: pages of {page['size_kb']} KiB", 2**52)
            if page.get("free") is not None:
                _whole_number(page, "free", f"{place}: pages of {page['size_kb']} KiB", 2**52)


def devices(facts: Mapping[str, Any], where: str) -> None:
    """Check PCI and mediated devices against the form of hypervisor_info.

    :raises DroverError: a device has another form.
    """
    addresses: set[str] = set()
    for device in facts.get("pci_devices") or []:
        address = device.get("address")
        if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
            raise DroverError(
                f"{where}: pci_devices: address must be a PCI address such as 0000:3b:00.0, not"
                f" {shown(address)}."
            )
        place = f"{where}: pci_devices, {address}"
        _refuse_double(address, addresses, place)
        for key, form in (
            ("vendor_id", _HEX),
            ("product_id", _HEX),
            ("class", _CLASS),
            ("parent_addr", _ADDRESS),
        ):
            if device.get(key) is not None and not (
                isinstance(device[key], str) and form.fullmatch(device[key])
            ):
                raise DroverError(
                    f"{place}: {key} must be in hexadecimal digits as hypervisor_info has it, not"
                    f" {shown(device[key])}."
                )
        if device.get("dev_type") not in (None, *DEV_TYPES):
            raise DroverError(
                f"{place}: dev_type must be {', '.join(DEV_TYPES)}, not"
                f" {shown(device['dev_type'])}."
            )
        for key in ("numa_node", "iommu_group"):
            if device.get(key) is not None:
                _whole_number(device, key, place)
        for key in ("interface", "vdpa"):
            if not isinstance(device.get(key), (str, type(None))):
                raise DroverError(f"{place}: {key} must be a text, not {shown(device[key])}.")
    for kind in facts.get("mdev_types") or []:
        _name(kind, "parent", f"{where}: mdev_types")
        _name(kind, "type", f"{where}: mdev_types")
        _whole_number(kind, "available_instances", f"{where}: mdev_types, {kind['type']}", 2**20)
    uuids: set[str] = set()
    for mdev in facts.get("mdev_devices") or []:
        if not is_uuid(mdev.get("uuid")):
            raise DroverError(
                f"{where}: mdev_devices: uuid must be a uuid, not {shown(mdev.get('uuid'))}."
            )
        place = f"{where}: mdev_devices, {mdev['uuid']}"
        _refuse_double(mdev["uuid"], uuids, place)
        _name(mdev, "parent", place)
        _name(mdev, "type", place)
        if not isinstance(mdev.get("active", True), bool):
            raise DroverError(
                f"{place}: active must be true or false, not {shown(mdev['active'])}."
            )


def of_domain(facts: Mapping[str, Any], where: str) -> None:
    """Check the pins, cells and pages of a domain, and the addresses of its devices.

    :raises DroverError: one of them has another form than in hypervisor_info.
    """
    for device in facts.get("hostdevs") or []:
        for key in ("type", "address"):
            if not isinstance(device.get(key), (str, type(None))):
                raise DroverError(
                    f"{where}: hostdevs: {key} must be a text, not {shown(device[key])}."
                )
    _numbers(facts, "next_start_cpus", where, CPUS - 1)
    numa = facts.get("numa")
    if numa is None:
        return
    if not isinstance(numa, dict):
        raise DroverError(
            f"{where}: numa must be a mapping as hypervisor_info returns it, not {shown(numa)}."
        )
    where = f"{where}: numa"
    for key in ("cpuset", "emulator_pins"):
        _numbers(numa, key, where, CPUS - 1)
    for key in ("vcpu_pins", "iothread_pins"):
        pins = numa.get(key) or {}
        if not isinstance(pins, dict) or not all(
            isinstance(each, str) and re.fullmatch("[0-9]{1,5}", each) for each in pins
        ):
            raise DroverError(
                f"{where}: {key} must be a mapping of numbers to CPUs, not {shown(pins)}."
            )
        for each in pins:
            _numbers(pins, each, f"{where}: {key}", CPUS - 1)
    if not isinstance(numa.get("memory"), (dict, type(None))):
        raise DroverError(
            f"{where}: memory must be a mapping with mode and nodes, not {shown(numa['memory'])}."
        )
    _numbers(numa.get("memory") or {}, "nodes", f"{where}: memory", _CELLS)
    guests: set[int] = set()
    for cell in _mappings(numa, "cells", where):
        number = _whole_number(cell, "id", f"{where}: cells", _CELLS)
        _refuse_double(number, guests, f"{where}: cell {number}")
        _whole_number(cell, "memory_mb", f"{where}: cell {number}")
        _numbers(cell, "cpus", f"{where}: cell {number}", CPUS - 1, needed=True)
        _numbers(cell, "nodes", f"{where}: cell {number}", _CELLS)
    for page in _mappings(numa, "pages", where):
        if page.get("size_kb") is not None:
            _whole_number(page, "size_kb", f"{where}: pages", MOST, 1)
        _numbers(page, "cells", f"{where}: pages", _CELLS, needed=True)


def _whole_number(
    data: Mapping[str, Any], name: str, where: str, most: int = MOST, least: int = 0
) -> int:
    value = data.get(name)
    if not is_whole(value, least, most):
        raise DroverError(
            f"{where}: {name} must be a whole number from {least} to {most}, not {shown(value)}."
        )
    return int(data[name])


def _numbers(
    data: Mapping[str, object], name: str, where: str, most: int, needed: bool = False
) -> None:
    value = data.get(name)
    if value is None and not needed:
        return
    if not isinstance(value, list) or not all(is_whole(each, 0, most) for each in value):
        raise DroverError(
            f"{where}: {name} must be a list of numbers from 0 to {most}, not {shown(value)}."
        )


def _mappings(data: Mapping[str, object], name: str, where: str) -> list[dict[str, Any]]:
    value = data.get(name) or []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise DroverError(f"{where}: {name} must be a list of mappings, not {shown(value)}.")
    return value


def _name(data: Mapping[str, object], name: str, where: str) -> None:
    value = data.get(name)
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise DroverError(
            f"{where}: {name} must be a name of letters, digits, -, _ and dots, not {shown(value)}."
        )


def _refuse_double(value: Any, seen: set[Any], where: str) -> None:
    if value in seen:
        raise DroverError(f"{where} stands twice.")
    seen.add(value)
