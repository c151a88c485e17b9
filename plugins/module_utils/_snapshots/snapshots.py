# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""libvirt's records of the snapshots of a domain: read, rewritten, and dropped.

Private to the collection. An external snapshot is a record and an image for each disk. The image
that the guest wrote to before the snapshot (the base) stays unchanged. All later writes of the
guest are in a new image above it (the overlay).
"""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict
from xml.etree.ElementTree import Element

from .._domain import carried_snapshots
from .._libvirt import binding
from .._libvirt.binding import libvirt
from .._libvirt.xml import child_of, child_text, integer, keep_prefixes, parse

EXTERNAL, INTERNAL, WITH_MEMORY = "external", "internal", "with_memory"

#: The rule for the name of a new snapshot. The name is also a part of file names.
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,62}[A-Za-z0-9])?")
NAME_RULE = "1 to 64 letters, digits, -, _ and ., with a letter or digit at both ends"

#: (path, format) of an image.
Image = tuple[str, str]


class ImageFacts(TypedDict):
    """The image that the guest wrote to before a snapshot."""

    target: str
    path: str
    format: str


class SnapshotFacts(TypedDict):
    """A snapshot, as modules return it."""

    name: str
    kind: str
    #: Seconds since 1970.
    created_at: int
    state: str | None
    parent: str | None
    description: str | None
    current: bool
    disks: list[ImageFacts]


@dataclass
class Snapshot:
    """The record of a snapshot.

    kind: EXTERNAL has files beside the image, INTERNAL is in the image, WITH_MEMORY has the memory
    of the guest in a file. created: seconds since 1970. bases: dict target of a disk -> the Image
    that the guest wrote to before the snapshot; only for external disks. overlays: dict target ->
    the path of the new image.
    """

    name: str
    text: str
    kind: str
    created: int
    state: str | None
    parent: str | None
    description: str | None
    current: bool = False
    bases: dict[str, Image] = field(default_factory=dict)
    overlays: dict[str, str] = field(default_factory=dict)

    def facts(self) -> SnapshotFacts:
        """Return the snapshot for the result of a module."""
        return {
            "name": self.name,
            "kind": self.kind,
            "created_at": self.created,
            "state": self.state,
            "parent": self.parent,
            "description": self.description,
            "current": self.current,
            "disks": [
                {"target": target, "path": image[0], "format": image[1]}
                for target, image in sorted(self.bases.items())
            ],
        }


def read(domain: Any) -> list[Snapshot]:
    """Return the snapshots of a domain, the oldest first; an empty list if the driver has no
    snapshots.

    Snapshots in the metadata after an interrupted move count too.

    :raises libvirt.libvirtError: the snapshots cannot be read.
    """
    try:
        handles = domain.listAllSnapshots(0) if domain.snapshotNum(0) else []
        current = (
            domain.snapshotCurrent(0).getName()
            if handles and domain.hasCurrentSnapshot(0)
            else None
        )
    except libvirt.libvirtError as exc:
        if binding.code_of(exc) != libvirt.VIR_ERR_NO_SUPPORT:
            raise
        return []
    read_ones = [
        described(each.getXMLDesc(libvirt.VIR_DOMAIN_SNAPSHOT_XML_SECURE)) for each in handles
    ]
    for each in read_ones:
        each.current = each.name == current
    known = {each.name for each in read_ones}
    read_ones += [each for each in carried_by(domain) if each.name not in known]
    return sorted(read_ones, key=lambda each: (each.created, each.name))


def carried_by(domain: Any) -> list[Snapshot]:
    """Return the snapshots in the metadata of a domain, of the definition and of the running
    domain.
    """
    by_name: dict[str, Snapshot] = {}
    for flags in (
        (libvirt.VIR_DOMAIN_XML_INACTIVE, 0)
        if domain.isActive()
        else (libvirt.VIR_DOMAIN_XML_INACTIVE,)
    ):
        for text, current in carried_snapshots.carried(domain.XMLDesc(flags)):
            each = described(text)
            each.current = current
            by_name.setdefault(each.name, each)
    return list(by_name.values())


def described(text: str) -> Snapshot:
    """Return the Snapshot of libvirt's XML of a snapshot."""
    root = parse(text)
    disks = {each.get("name"): each for each in root.findall("disks/disk")}
    kinds = {each.get("snapshot") for each in disks.values()}
    memory = root.find("memory")
    how = "no" if memory is None else memory.get("snapshot", "no")
    state = child_text(root, "state")
    if (
        "internal" in kinds
        or how == "internal"
        or (state != "disk-snapshot" and "external" not in kinds)
    ):
        kind = INTERNAL
    else:
        kind = WITH_MEMORY if how == "external" else EXTERNAL
    snapshot = Snapshot(
        child_text(root, "name") or "",
        text,
        kind,
        integer(child_text(root, "creationTime")),
        state,
        child_text(root, "parent/name"),
        child_text(root, "description"),
    )
    for element in root.findall("domain/devices/disk"):
        target = _target(element)
        made = disks.get(target)
        # libvirt names a disk by its target, or by its path if the operator gave the path.
        made = disks.get(_file(element)) if made is None else made
        if target and made is not None and made.get("snapshot") == "external" and _file(element):
            driver = element.find("driver")
            image_format = None if driver is None else driver.get("type")
            snapshot.bases[target] = (_file(element) or "", image_format or "raw")
            snapshot.overlays[target] = _file(made) or ""
    return snapshot


def _target(element: Element) -> str:
    target = element.find("target")
    return "" if target is None else target.get("dev", "")


def _file(element: Element) -> str | None:
    source = element.find("source")
    return None if source is None else source.get("file")


def children(snapshots: Iterable[Snapshot], name: str) -> list[str]:
    """Return the names of the snapshots with a given snapshot as parent."""
    return [each.name for each in snapshots if each.parent == name]


def with_images(text: str, images: Mapping[str, Image]) -> str:
    """Return the XML of a domain with other images as disks.

    :param images: dict target of a disk -> its new Image.
    """
    keep_prefixes(text)
    root = parse(text)
    _give(root, images)
    return ET.tostring(root, encoding="unicode")


def _give(domain: Element, images: Mapping[str, Image]) -> None:
    for element in domain.findall("devices/disk"):
        image = images.get(_target(element))
        if image is None:
            continue
        child_of(element, "source").set("file", image[0])
        child_of(element, "driver").set("type", image[1])
        # These elements describe the images behind the other image; without them libvirt reads the
        # header.
        for behind in element.findall("backingStore"):
            element.remove(behind)


def moved(
    snapshot: Snapshot, domain: Any, images: Mapping[str, Image], overlays: Mapping[str, str]
) -> None:
    """Rewrite the record of a snapshot.

    :param images, overlays: dict target -> its base, and the path of its overlay, where they are
        others now.
    :raises libvirt.libvirtError: libvirt refuses; the record is as it was.
    """
    keep_prefixes(snapshot.text)
    root = parse(snapshot.text)
    for tag in ("domain", "inactiveDomain"):
        for each in root.findall(tag):
            _give(each, images)
    for element in root.findall("disks/disk"):
        path = overlays.get(element.get("name") or "")
        if path is not None:
            child_of(element, "source").set("file", path)
    flags = libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REDEFINE | (
        libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_CURRENT if snapshot.current else 0
    )
    domain.snapshotCreateXML(ET.tostring(root, encoding="unicode"), flags)


def request(
    name: str, description: str | None, overlays: Mapping[str, str], others: Iterable[str]
) -> str:
    """Return the XML of a new external snapshot without memory.

    :param overlays: dict target of a disk -> the path of its new image.
    :param others: targets of the disks without a snapshot.
    """
    root = ET.Element("domainsnapshot")
    ET.SubElement(root, "name").text = name
    if description:
        ET.SubElement(root, "description").text = description
    disks = ET.SubElement(root, "disks")
    for target, path in overlays.items():
        disk = ET.SubElement(disks, "disk", {"name": target, "snapshot": "external"})
        ET.SubElement(disk, "driver", {"type": "qcow2"})
        ET.SubElement(disk, "source", {"file": path})
    for target in others:
        ET.SubElement(disks, "disk", {"name": target, "snapshot": "no"})
    return ET.tostring(root, encoding="unicode")


def overlay_path(base: str, uuid: str, target: str, name: str, number: str) -> str:
    """Return the path of a new overlay: beside its base, with the uuid of its instance in its name.

    :param number: a text that makes the name unique.
    """
    return os.path.join(os.path.dirname(base), f"{uuid}-{target}-{name}-{number}.qcow2")
