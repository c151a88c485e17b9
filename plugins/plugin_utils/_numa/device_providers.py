# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resource classes, traits, resource groups and providers of PCI devices in Placement, by name
(N12.7).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .._common.errors import DroverError
from .._common.validation import shown

VGPU = "VGPU"
#: Standard resource classes that devices can have.
_STANDARD_CLASSES = (VGPU, "PGPU", "FPGA", "PCI_DEVICE", "SRIOV_NET_VF")
#: The prefixes of standard traits.
_STANDARD_TRAITS = ("HW_", "COMPUTE_", "OWNER_", "STORAGE_", "MISC_")


def class_name(value: Any, where: str) -> str:
    """Return the name of a resource class as Nova normalises it: a standard one, or upper case with
    CUSTOM_ before it.

    :raises DroverError: it is not a name.
    """
    name = _normalised(value, where)
    return name if name in _STANDARD_CLASSES or name.startswith("CUSTOM_") else f"CUSTOM_{name}"


def trait_names(value: Any, where: str) -> list[str]:
    """Return the names of traits as Nova normalises them, sorted. A name without a standard prefix
    gets CUSTOM_ before it.

    :param value: a list, or a text with commas.
    :raises DroverError: it is not a list, or an item is not a name.
    """
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)):
        raise DroverError(f"{where} must be a list of names, not {shown(value)}.")
    traits = set()
    for each in names:
        name = _normalised(each, where)
        is_standard = name == str(each).strip() and name.startswith(_STANDARD_TRAITS)
        traits.add(name if is_standard or name.startswith("CUSTOM_") else f"CUSTOM_{name}")
    return sorted(traits)


def _normalised(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise DroverError(f"{where} must be a name, not {shown(value)}.")
    return re.sub(r"[^A-Z0-9_]", "_", value.strip().upper())


def class_of(device: Mapping[str, object]) -> str:
    """Return the resource class of devices, by ``resource_class``, otherwise by ``vendor_id`` and
    ``product_id``.
    """
    return (
        str(device.get("resource_class") or "")
        or f"CUSTOM_PCI_{device['vendor_id']}_{device['product_id']}".upper()
    )


def key_of(device: Mapping[str, object]) -> str:
    """Return the key of the provider of a PCI device: its address; for a virtual function the
    address of its physical function.
    """
    return str(device.get("parent_addr") or device["address"])


def is_reported(device: Mapping[str, Any]) -> bool:
    """Return True if a device may be reported to Placement: a device of a physical network is
    requested by this network.
    """
    return not device["tags"].get("physical_network")


def group_of(request: int, device: int) -> str:
    """Return the suffix of the resource group of one device.

    :param request: the number of the request in the list of the instance.
    :param device: the number of the device in the request.
    """
    return f"_pci{request}-{device}"
