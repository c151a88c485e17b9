# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""PCI devices and mediated devices of a hypervisor.

Private to the collection. Source: https://libvirt.org/formatnode.html.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from xml.etree.ElementTree import Element

from .._libvirt import binding, missing_drivers
from .._libvirt.binding import libvirt
from .._libvirt.xml import child_text, integer, parse, pci_address
from .facts import HostDevices, MdevDevice, MdevType, PciDevice

#: Nova's names of the types of PCI devices.
PLAIN, PHYSICAL, VIRTUAL, VDPA = "type-PCI", "type-PF", "type-VF", "vdpa"

#: The kinds of devices that are read; a binding that does not know one has no such devices.
_KINDS = ("PCI_DEV", "NET", "VDPA", "MDEV_TYPES", "MDEV")


def read_devices(conn: Any) -> HostDevices:
    """Return the devices that guests may get: ``pci_devices``, ``mdev_types`` and ``mdev_devices``,
    each sorted; empty if the driver knows none.
    """
    pairs = []
    for device in _listing(conn):
        try:
            text = device.XMLDesc(0)
        except libvirt.libvirtError:
            # Unplugged between the list and the look.
            continue
        pairs.append((text, _is_active(device)))
    return parse_devices(pairs)


def _listing(conn: Any) -> Sequence[Any]:
    kind_flags = 0
    for kind in _KINDS:
        kind_flags |= getattr(libvirt, f"VIR_CONNECT_LIST_NODE_DEVICES_CAP_{kind}", 0)
    # Mediated devices can be defined without being there, from libvirt 7.3 on.
    defined = getattr(libvirt, "VIR_CONNECT_LIST_NODE_DEVICES_ACTIVE", 0) | getattr(
        libvirt, "VIR_CONNECT_LIST_NODE_DEVICES_INACTIVE", 0
    )
    for flags in (kind_flags | defined, kind_flags) if defined else (kind_flags,):
        try:
            found: Sequence[Any] = conn.listAllDevices(flags)
            return found
        except libvirt.libvirtError as exc:
            # An error is not an empty list: the devices of guests would be gone.
            if not binding.is_unsupported(exc) and not missing_drivers.is_missing(exc):
                raise
    return ()


def _is_active(device: Any) -> bool:
    try:
        return bool(device.isActive())
    except (libvirt.libvirtError, AttributeError):
        # An older libvirt lists only existing devices.
        return True


def parse_devices(found: Iterable[tuple[str, bool]]) -> HostDevices:
    """Return the descriptions of node devices, made into the lists of read_devices().

    :param found: pairs of XML and True if the device is there now.
    """
    pci: dict[str, PciDevice] = {}
    kinds, mediated, children = [], [], []
    for text, active in found:
        try:
            root = parse(text)
        except ValueError:
            continue
        for capability in root.findall("capability"):
            kind = capability.get("type")
            if kind == "pci":
                device = _pci(root, capability)
                pci[device["name"]] = device
            elif kind == "mdev":
                mediated.append(_mdev(root, capability, active))
            elif kind in ("net", "vdpa"):
                children.append((kind, child_text(root, "parent"), capability))
            kinds += _mdev_types(root, capability)
    for kind, parent, capability in children:
        if parent in pci:
            _add_child(pci[parent], kind, capability)
    return {
        "pci_devices": sorted(pci.values(), key=lambda each: each["name"]),
        "mdev_types": sorted(kinds, key=lambda each: (each["parent"], each["type"])),
        "mdev_devices": sorted(mediated, key=lambda each: each["name"]),
    }


def _identity(element: Element | None) -> tuple[str | None, str | None]:
    """Return ``(id without 0x, words)`` of a ``<vendor>`` or ``<product>`` element."""
    if element is None:
        return None, None
    return _hex(element.get("id")), (element.text or "").strip() or None


def _hex(number: str | None) -> str | None:
    return number[2:] if number and number.startswith("0x") else number


def _pci(root: Element, capability: Element) -> PciDevice:
    vendor_id, vendor = _identity(capability.find("vendor"))
    product_id, product = _identity(capability.find("product"))
    numa = capability.find("numa")
    group = capability.find("iommuGroup")
    address = pci_address(
        {key: child_text(capability, key, "0") for key in ("domain", "bus", "slot", "function")}
    )
    functions = capability.find("capability[@type='virt_functions']")
    parent = capability.find("capability[@type='phys_function']/address")
    node = integer(numa.get("node"), -1) if numa is not None else -1
    return {
        "name": child_text(root, "name") or "",
        "address": address,
        "class": _hex(child_text(capability, "class")),
        "vendor_id": vendor_id,
        "product_id": product_id,
        "vendor": vendor,
        "product": product,
        "numa_node": node if node >= 0 else None,
        "driver": child_text(root, "driver/name"),
        "dev_type": PHYSICAL if functions is not None else VIRTUAL if parent is not None else PLAIN,
        "parent_addr": pci_address(parent) if parent is not None else None,
        "virtual_functions": (
            []
            if functions is None
            else sorted(pci_address(each) for each in functions.findall("address"))
        ),
        "max_virtual_functions": (
            integer(functions.get("maxCount"))
            if functions is not None and functions.get("maxCount")
            else None
        ),
        "iommu_group": integer(group.get("number")) if group is not None else None,
        "iommu_group_members": (
            [] if group is None else sorted(pci_address(each) for each in group.findall("address"))
        ),
        "interface": None,
        "mac": None,
        "vdpa": None,
    }


def _add_child(device: PciDevice, kind: str, capability: Element) -> None:
    """Add the facts from the network interface or vDPA device of a PCI device."""
    if kind == "vdpa":
        device["vdpa"] = child_text(capability, "chardev")
        if device["dev_type"] == VIRTUAL:
            device["dev_type"] = VDPA
    elif device["interface"] is None:
        device["interface"] = child_text(capability, "interface")
        device["mac"] = child_text(capability, "address")


def _mdev_types(root: Element, capability: Element) -> list[MdevType]:
    """Return the types of mediated devices that can be made of a device: of a PCI device or of
    another (``css``, ``ap_matrix``, a sample driver).
    """
    types = capability.findall("type") if capability.get("type") == "mdev_types" else []
    types += capability.findall("capability[@type='mdev_types']/type")
    return [
        {
            "parent": child_text(root, "name") or "",
            "type": kind.get("id") or "",
            "name": child_text(kind, "name"),
            "device_api": child_text(kind, "deviceAPI"),
            "available_instances": integer(child_text(kind, "availableInstances", "0")),
        }
        for kind in types
        if kind.get("id")
    ]


def _mdev(root: Element, capability: Element, active: bool) -> MdevDevice:
    kind = capability.find("type")
    group = capability.find("iommuGroup")
    name = child_text(root, "name", "") or ""
    return {
        "name": name,
        # Before libvirt 7.3 only the name has it: mdev_ with underscores, from 7.7 on with the
        # address of the parent behind it.
        "uuid": child_text(capability, "uuid") or name[len("mdev_") :][:36].replace("_", "-"),
        "type": kind.get("id") if kind is not None else None,
        "parent": child_text(root, "parent"),
        "iommu_group": integer(group.get("number")) if group is not None else None,
        "active": active,
    }
