# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The devices of its host that a domain has, at the other end of a move: the devices that were
claimed there take their places.

Private to the collection. The fact ``devices`` of a move has ``pci``: a list of address,
address_there, interface, interface_there (of the host's network, or None) and live_migratable (of
both devices); and ``mdevs``: a list of uuid and there (uuid, parent and type of the device that has
yet to be made there).
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypedDict
from xml.etree.ElementTree import Element

from .._domain.definition import parse_hostdev
from .._libvirt.xml import keep_prefixes, parse, pci_address
from .._ownership.move_record import Devices, Mdev, Options

#: The fact of a domain without devices.
NONE: Devices = {"pci": [], "mdevs": []}
#: The versions of libvirt and QEMU, by their own numbers, from which a guest with such devices
#: moves while it runs. Source: Nova's compute manager, see N12.8.
_VERSIONS = {
    "pci": ((10000000, "libvirt 10.0.0"), (8002002, "QEMU 8.2.2")),
    "mdevs": ((8006000, "libvirt 8.6.0"), (8001000, "QEMU 8.1.0")),
}


def names(devices: Devices) -> set[str]:
    """Return the names of the domain's devices here: PCI addresses, and uuids of mediated
    devices.
    """
    return {each["address"] for each in devices["pci"]} | {
        each["uuid"] for each in devices["mdevs"]
    }


def made_there(devices: Devices) -> list[Mdev]:
    """Return the mediated devices that the other host must have, each with uuid, parent and
    type.
    """
    return [each["there"] for each in devices["mdevs"]]


def with_devices_there(text: str, devices: Devices) -> str:
    """Return domain XML with the devices of another host; their addresses in the guest stay
    unchanged.

    :param devices: see the module.
    """
    if not devices["pci"] and not devices["mdevs"]:
        return text
    root = parse(text)
    addresses = {each["address"]: each["address_there"] for each in devices["pci"]}
    interfaces = {
        each["interface"]: each["interface_there"]
        for each in devices["pci"]
        if each["interface"] and each["interface_there"]
    }
    uuids = {each["uuid"]: each["there"]["uuid"] for each in devices["mdevs"]}
    for device in root.findall("devices/hostdev"):
        hostdev = parse_hostdev(device)
        address = device.find("source/address")
        if address is None:
            continue
        if hostdev["type"] == "pci" and hostdev["address"] in addresses:
            _write_address(address, addresses[hostdev["address"]])
        elif hostdev["type"] == "mdev" and hostdev["address"] in uuids:
            address.set("uuid", uuids[hostdev["address"]])
    for nic in root.findall("devices/interface"):
        source = nic.find("source")
        if source is None:
            continue
        address = source.find("address")
        if (
            nic.get("type") == "hostdev"
            and address is not None
            and pci_address(address) in addresses
        ):
            _write_address(address, addresses[pci_address(address)])
        elif nic.get("type") == "direct" and source.get("dev") in interfaces:
            source.set("dev", interfaces[str(source.get("dev"))])
    keep_prefixes(text)
    return ET.tostring(root, encoding="unicode")


def _write_address(address: Element, wanted: str) -> None:
    """Write a PCI address such as ``0000:3b:02.1``."""
    domain, bus, rest = wanted.split(":")
    slot, function = rest.split(".")
    for key, value in (("domain", domain), ("bus", bus), ("slot", slot), ("function", function)):
        address.set(key, f"0x{value}")


def live_reasons(ends: Iterable[Any], devices: Devices, options: Options) -> list[str]:
    """Return the reasons why a guest with its devices does not move while it runs, each a few
    words.

    :param ends: libvirt's connections to the source and the destination.
    """
    if not devices["pci"] and not devices["mdevs"]:
        return []
    fixed = [each["address"] for each in devices["pci"] if not each["live_migratable"]]
    if fixed:
        return [
            f"it has devices of its host that do not move while it runs ({', '.join(fixed)}): shut"
            " it down, then it moves with others"
        ]
    reasons = []
    kinds: tuple[Literal["pci", "mdevs"], ...] = ("pci", "mdevs")
    for kind in kinds:
        if not devices[kind]:
            continue
        (libvirt_least, libvirt_name), (qemu_least, qemu_name) = _VERSIONS[kind]
        if any(
            conn.getLibVersion() < libvirt_least or conn.getVersion() < qemu_least for conn in ends
        ):
            what = "PCI devices" if kind == "pci" else "mediated devices"
            reasons.append(
                f"it has {what} of its host, and moves with them while it runs only from"
                f" {libvirt_name} and {qemu_name} on, at both ends: shut it down, then it moves"
                " with others"
            )
    if options.get("post_copy"):
        reasons.append(
            "it has devices of its host, with which QEMU does no post-copy: leave post_copy out"
        )
    return reasons


class ClaimedPci(TypedDict):
    """A PCI device that is claimed at one end of a move."""

    address: str
    #: The number of its request; None if it belongs to none.
    request: int | None
    interface: str | None
    live_migratable: bool


def pairs(
    here: Sequence[ClaimedPci],
    there: Sequence[ClaimedPci],
    mdevs: Sequence[Mdev],
    mdevs_there: Sequence[Mdev],
) -> Devices:
    """Return the fact ``devices`` of a move. A device that has none at the other end is left out.

    :param here, there: PCI devices with address, request (its number), interface and
        live_migratable.
    :param mdevs, mdevs_there: with uuid, parent and type.
    """
    device_pairs: Devices = {"pci": [], "mdevs": []}
    for number in sorted({each["request"] for each in here if each["request"] is not None}):
        mine, others = (
            [each for each in end if each["request"] == number] for end in (here, there)
        )
        for one, other in zip(mine, others):
            device_pairs["pci"].append(
                {
                    "address": one["address"],
                    "address_there": other["address"],
                    "interface": one["interface"],
                    "interface_there": other["interface"],
                    "live_migratable": one["live_migratable"] and other["live_migratable"],
                }
            )
    by_type = [
        sorted(end, key=lambda each: (each["type"], each["parent"], each["uuid"]))
        for end in (mdevs, mdevs_there)
    ]
    device_pairs["mdevs"] = [
        {"uuid": one["uuid"], "there": other.copy()} for one, other in zip(*by_type)
    ]
    return device_pairs
