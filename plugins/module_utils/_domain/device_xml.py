# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The XML of disks, interfaces and media to attach or detach.

Private to the collection. Source: https://libvirt.org/formatdomain.html. The functions take and
return XML. They do not call libvirt.
"""

from __future__ import annotations

import copy
import hashlib
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from typing import Optional
from xml.etree.ElementTree import Element

from .definition import parse_disk, parse_interface
from .facts import DomainDisk, InterfaceFacts

#: The prefixes of the targets, by bus.
TARGETS = {"virtio": "vd", "scsi": "sd", "usb": "sd", "sata": "sd", "ide": "hd"}

#: The buses without hotplug: no disk can be attached to or detached from a running guest.
NO_HOTPLUG = ("sata", "ide")

#: The XML of the running domain (None if it is off), and its definition.
Forms = tuple[Optional[Element], Element]


def disk_element(
    path: str, image_format: str, target: str, bus: str, readonly: bool, alias: str | None = None
) -> Element:
    """Return the ``<disk>`` of an image file, with the same driver as disks of role place."""
    disk = ET.Element("disk", type="file", device="disk")
    ET.SubElement(disk, "driver", name="qemu", type=image_format, cache="none", discard="unmap")
    ET.SubElement(disk, "source", file=path)
    ET.SubElement(disk, "target", dev=target, bus=bus)
    if readonly:
        ET.SubElement(disk, "readonly")
    if alias is not None:
        ET.SubElement(disk, "alias", name=alias)
    return disk


def drive_element(target: str) -> Element:
    """Return the ``<disk>`` of an empty CD-ROM drive."""
    drive = ET.Element("disk", type="file", device="cdrom")
    ET.SubElement(drive, "driver", name="qemu", type="raw")
    ET.SubElement(drive, "target", dev=target, bus="sata")
    ET.SubElement(drive, "readonly")
    return drive


def interface_element(kind: str, source: str, mac: str, model: str) -> Element:
    """Return the ``<interface>`` of a network or a bridge.

    :param kind: the type of the interface, ``network`` or ``bridge``.
    """
    interface = ET.Element("interface", type=kind)
    ET.SubElement(interface, "mac", address=mac)
    ET.SubElement(interface, "source", {kind: source})
    ET.SubElement(interface, "model", type=model)
    return interface


def text_of(element: Element) -> str:
    """Return an element as text for libvirt."""
    return ET.tostring(element, encoding="unicode")


def facts_of(element: Element) -> InterfaceFacts | DomainDisk:
    """Return the facts of a disk or an interface, in the form of the facts of a domain."""
    return parse_interface(element) if element.tag == "interface" else parse_disk(element)


def cdroms(root: Element) -> list[Element]:
    """Return the CD-ROM drives of a domain."""
    return [disk for disk in root.findall("devices/disk") if disk.get("device") == "cdrom"]


def targets(roots: Iterable[Element]) -> set[str]:
    """Return the targets of all disks."""
    return {
        target.get("dev", "") for root in roots for target in root.findall("devices/disk/target")
    }


def free_target(roots: Iterable[Element], bus: str) -> str:
    """Return the first free target of a bus in all forms of a domain: vdb after vda, vdaa after
    vdz.
    """
    taken, letters = targets(roots), [chr(code) for code in range(ord("a"), ord("z") + 1)]
    names = [*letters, *(first + second for first in letters for second in letters)]
    return next(TARGETS[bus] + name for name in names if TARGETS[bus] + name not in taken)


def with_medium(drive: Element, path: str | None) -> Element:
    """Return a CD-ROM drive with another medium. The rest of the drive stays unchanged.

    :param path: the path of the medium; None for an empty drive.
    """
    drive = copy.deepcopy(drive)
    for tag in ("source", "backingStore", "mirror"):
        for each in drive.findall(tag):
            drive.remove(each)
    drive.set("type", "file")
    for driver in drive.findall("driver"):
        driver.set("type", "raw")
    if path is not None:
        drive.insert(0, ET.Element("source", file=path))
    return drive


def mac_of(uuid: str, kind: str, source: str) -> str:
    """Return the MAC address of an interface without an address from the operator.

    The address is always the same, so the interface has the same address after it is attached
    again.
    """
    digest = hashlib.sha256(f"{uuid} {kind} {source}".encode("utf-8", "surrogateescape")).digest()
    return "52:54:00:" + ":".join(f"{byte:02x}" for byte in digest[:3])


def lines(forms: Forms, tag: str) -> str:
    """Return the devices of a domain for a diff, one line per device, sorted.

    :param tag: disk or interface.
    """
    live, config = forms
    of = {
        name: [] if root is None else [_line(each) for each in root.findall(f"devices/{tag}")]
        for name, root in (("live", live), ("config", config))
    }
    device_lines = [
        each if live is None or each in of["live"] else f"{each}, after the next start"
        for each in of["config"]
    ]
    device_lines += [f"{each}, until it is off" for each in of["live"] if each not in of["config"]]
    return "".join(f"{each}\n" for each in sorted(device_lines))


def _line(element: Element) -> str:
    if element.tag == "interface":
        nic = parse_interface(element)
        return f"{nic['mac']}: {nic['type']} {nic['source']} ({nic['model']})"
    disk = parse_disk(element)
    if disk["device"] == "cdrom":
        return f"{disk['target']}: CD-ROM, {disk['source'] or 'empty'}"
    return (
        f"{disk['target']}: {disk['source']} ({disk['bus']},"
        f" {disk['format']}{', read-only' if disk['readonly'] else ''})"
    )
