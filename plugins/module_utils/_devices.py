# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""PCI devices and mediated devices of a hypervisor.

Private to the collection. Source: https://libvirt.org/formatnode.html.
"""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element

from ansible_collections.drover.compute.plugins.module_utils._libvirt import libvirt
from ansible_collections.drover.compute.plugins.module_utils._xml import child_text, integer, parse, pci_address


def read_devices(conn: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """``(pci_devices, mdev_devices)``, each sorted by name; empty where the driver knows no devices."""
    wanted = libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV | libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV
    try:
        devices = conn.listAllDevices(wanted)
    except libvirt.libvirtError:
        return [], []
    pci, mediated = [], []
    for device in devices:
        try:
            root = parse(device.XMLDesc(0))
        except (libvirt.libvirtError, ValueError):
            # Unplugged between the list and the look.
            continue
        for capability in root.findall("capability"):
            if capability.get("type") == "pci":
                pci.append(_pci(root, capability))
            elif capability.get("type") == "mdev":
                mediated.append(_mdev(root, capability))
    return sorted(pci, key=lambda d: d["name"]), sorted(mediated, key=lambda d: d["name"])


def _identity(element: Element | None) -> tuple[str | None, str | None]:
    """``(id without 0x, words)`` of a ``<vendor>`` or ``<product>`` element."""
    if element is None:
        return None, None
    number = element.get("id")
    return (number[2:] if number and number.startswith("0x") else number), (element.text or "").strip() or None


def _pci(root: Element, capability: Element) -> dict[str, Any]:
    vendor_id, vendor = _identity(capability.find("vendor"))
    product_id, product = _identity(capability.find("product"))
    numa = capability.find("numa")
    group = capability.find("iommuGroup")
    return {
        "name": child_text(root, "name"),
        "address": pci_address({key: child_text(capability, key, "0") for key in ("domain", "bus", "slot", "function")}),
        "vendor_id": vendor_id,
        "product_id": product_id,
        "vendor": vendor,
        "product": product,
        "numa_node": integer(numa.get("node")) if numa is not None else None,
        "driver": child_text(root, "driver/name"),
        "iommu_group": integer(group.get("number")) if group is not None else None,
        "mdev_types": sorted(kind.get("id") for kind in capability.findall("capability[@type='mdev_types']/type") if kind.get("id")),
    }


def _mdev(root: Element, capability: Element) -> dict[str, Any]:
    kind = capability.find("type")
    return {
        "name": child_text(root, "name"),
        "uuid": child_text(capability, "uuid"),
        "type": kind.get("id") if kind is not None else None,
        "parent": child_text(root, "parent"),
    }
