# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The devices of a host as providers below its compute node, as Nova reports them to Placement.

Data in, data out. A physical function with its virtual functions is one provider. Any other PCI
device is one, and so is a device that makes mediated devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

from .._common.errors import DroverError
from .._numa.device_providers import class_of, is_reported, key_of
from .._numa.device_requests import PHYSICAL, PLAIN
from .._records.hosts import MdevType, ReportedPciDevice
from .._records.numa import HostCell
from .facts import Entry

_TRAITS = frozenset({"COMPUTE_MANAGED_PCI_DEVICE", "OWNER_NOVA"})
NUMA_ROOT = "HW_NUMA_ROOT"
LIVE_MIGRATABLE, ONE_TIME_USE = "HW_PCI_LIVE_MIGRATABLE", "HW_PCI_ONE_TIME_USE"


class NestedProvider(TypedDict):
    """A provider below the provider of a compute node.

    - key: the PCI address of the device, libvirt's name of a device that makes mediated devices, or
      NUMA with the number of a cell.
    - name: the part of its name after the name of the root.
    - parent: the key of the cell above it, or None.
    - cell: the cell of a device; None if it is not known.
    """

    key: str
    name: str
    parent: str | None
    cell: int | None
    resource_class: str | None
    total: int
    traits: set[str]


def with_cells(found: Iterable[NestedProvider], cells: Iterable[HostCell]) -> list[NestedProvider]:
    """Return the providers of the NUMA cells of a host, and of devices below their cells.

    CPUs and memory stay with the root, as in Nova: an instance without cells may take some from
    each cell.
    """
    keys = {cell["id"]: f"NUMA{cell['id']}" for cell in cells}
    roots: list[NestedProvider] = [
        {
            "key": key,
            "name": key,
            "parent": None,
            "cell": None,
            "resource_class": None,
            "total": 0,
            "traits": {NUMA_ROOT},
        }
        for key in keys.values()
    ]
    return roots + [
        {**each, "parent": keys.get(each["cell"]) if each["cell"] is not None else None}
        for each in found
    ]


def of_mdev_types(kinds: Iterable[MdevType], devices: Iterable[Entry]) -> list[NestedProvider]:
    """Return the providers of devices that make mediated devices, if their total is above 0.

    :param devices: pci_devices of hypervisor_info.
    """
    cells = {each.get("name"): each.get("numa_node") for each in devices}
    return [
        {
            "key": each["parent"],
            "name": each["parent"],
            "parent": None,
            "cell": cells.get(each["parent"]),
            "resource_class": each["resource_class"],
            "total": each["total"],
            "traits": set(),
        }
        for each in kinds
        if each["total"]
    ]


def of_pci_devices(
    devices: Iterable[ReportedPciDevice], specs: Sequence[Mapping[str, object]], where: str
) -> list[NestedProvider]:
    """Return the providers of PCI devices.

    A device of a physical network has none, because requests name the network.

    :param devices: the result of host_devices.pci_devices().
    :raises DroverError: the device specs give away a function beside its physical one, functions of
        one card that differ, or a virtual function for one use only.
    """
    where = f"{where}: pci_device_specs (drover_pci_device_specs)"
    if any(spec.get("devname") for spec in specs):
        raise DroverError(
            f"{where}: devname does not go with pci_report_in_placement. Name the device by its"
            " address."
        )
    cards: dict[str, list[ReportedPciDevice]] = {}
    for device in devices:
        if is_reported(device):
            cards.setdefault(key_of(device), []).append(device)
    return [_provider(key, members, where) for key, members in sorted(cards.items())]


def _provider(key: str, members: Sequence[ReportedPciDevice], where: str) -> NestedProvider:
    names = " and ".join(each["address"] for each in members[:2])
    if len(members) > 1 and any(each["dev_type"] == PHYSICAL for each in members):
        raise DroverError(
            f"{where}: {names} are a physical function and one of its virtual ones. Give away one"
            " kind of them."
        )
    if len({class_of(each) for each in members}) > 1:
        raise DroverError(
            f"{where}: {names} are of one card and have different resource classes. Give them one"
            " resource_class."
        )
    if len({frozenset(_traits(each)) for each in members}) > 1:
        raise DroverError(
            f"{where}: {names} are of one card and have different traits. Give them the same traits"
            " and live_migratable."
        )
    for device in members:
        if "one_time_use" in device["tags"] and device["dev_type"] not in (PLAIN, PHYSICAL):
            raise DroverError(
                f"{where}: {device['address']} is a virtual function, which cannot have"
                " one_time_use. Take it out."
            )
    return {
        "key": key,
        "name": key.upper(),
        "parent": None,
        "cell": members[0]["numa_node"],
        "resource_class": class_of(members[0]),
        "total": len(members),
        "traits": _traits(members[0]),
    }


def _traits(device: ReportedPciDevice) -> set[str]:
    tags = {LIVE_MIGRATABLE: "live_migratable", ONE_TIME_USE: "one_time_use"}
    return {
        *_TRAITS,
        *device["traits"],
        *(trait for trait, tag in tags.items() if device["tags"].get(tag) == "true"),
    }


def refuse_one_time_use(devices: Iterable[ReportedPciDevice], where: str, is_on: bool) -> None:
    """Refuse devices for one use without a provider, because only it prevents a second use.

    :param devices: the result of host_devices.pci_devices().
    :param is_on: True if the host reports its devices to Placement.
    :raises DroverError: such a device exists.
    """
    for device in devices:
        if device["tags"].get("one_time_use") != "true":
            continue
        start = (
            f"{where}: pci_device_specs (drover_pci_device_specs): {device['address']} has"
            " one_time_use, which"
        )
        if not is_on:
            raise DroverError(
                f"{start} needs pci_report_in_placement (drover_pci_report_in_placement). Set it,"
                " or take one_time_use out."
            )
        if not is_reported(device):
            raise DroverError(
                f"{start} does not go with physical_network: such devices have no resource"
                " provider. Take one of them out."
            )
