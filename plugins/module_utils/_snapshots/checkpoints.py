# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The records of the data that a domain has written since an earlier copy of its disks: checkpoints
of libvirt that survive live migrations.

Private to the collection. The bitmap of a checkpoint is in the qcow2 image and moves with it, but
libvirt 9.0 loses its own record at a live migration. That record also keeps libvirt from making
snapshots. So libvirt has it only during a copy. The names of the checkpoints are in the metadata of
the domain: only these checkpoints are drover's. Before a copy libvirt takes a name back and looks
whether each image has the bitmap, and a whole one
(``VIR_DOMAIN_CHECKPOINT_CREATE_REDEFINE_VALIDATE``).

A bitmap does not record changes to an image that no guest uses: two images may change places, or an
image may become smaller and larger again. So only the metadata of the running domain name the
images of a checkpoint. A live migration moves these metadata, and they end with the guest.
"""

from __future__ import annotations

import contextlib
import json
import time
import xml.etree.ElementTree as ET
from collections.abc import Collection, Mapping
from typing import Any, TypedDict, cast
from xml.etree.ElementTree import Element

from .._domain import metadata
from .._domain.definition import backing_files, parse_disk
from .._libvirt import binding
from .._libvirt.binding import host_name, libvirt
from .._libvirt.xml import parse
from .._ownership import ownership
from . import snapshots

#: The element of the metadata: a JSON object, name -> result of _identify_images(); in a
#: definition, name -> {}.
ELEMENT = "checkpoints"


def named(stamp: str) -> str:
    """Return the name of the checkpoint of a moment."""
    return ownership.CHECKPOINT + stamp


class Checkpoints:
    """Drover's checkpoints of one running domain. The caller has the lock of the domain.

    :param targets: the targets of the copied disks.
    """

    def __init__(self, domain: Any, targets: Collection[str]) -> None:
        self._domain = domain
        disks = {
            parse_disk(each)["target"]: each
            for each in parse(domain.XMLDesc(0)).findall("devices/disk")
        }
        self._formats = {target: parse_disk(disks[target])["format"] for target in targets}
        self._identify_images = _identify_images({target: disks[target] for target in targets})
        self._record = _read_record(domain)

    def why_not(self) -> str | None:
        """Return the reason why libvirt cannot make a checkpoint of this domain; None if it can."""
        for target, kind in self._formats.items():
            if kind != "qcow2":
                return f"{target} is {kind}, and only qcow2 notes what is written"
        if not hasattr(libvirt, "VIR_DOMAIN_CHECKPOINT_CREATE_REDEFINE_VALIDATE"):
            return "libvirt here is older than 6.10"
        if any(each.kind != snapshots.EXTERNAL for each in snapshots.read(self._domain)):
            return (
                "it has snapshots in its images, to which QEMU does not go back where it notes what"
                " is written"
            )
        if {each.getName() for each in self._domain.listAllCheckpoints(0)} - set(self._record):
            return "another program keeps checkpoints of it"
        return None

    def base(self, stamps: Collection[str]) -> str | None:
        """Return the newest of these moments with a complete record of all later writes; None
        without such a moment.
        """
        for stamp in sorted(stamps, reverse=True):
            if _are_same(self._record.get(named(stamp)), self._identify_images) and self._is_known(
                named(stamp)
            ):
                return stamp
        return None

    def begin(self, stamp: str, base: str | None) -> str:
        """Return the XML of a checkpoint for a new copy. Remove all checkpoints except the one of
        ``base``.
        """
        self._keep_only(base)
        self._write_record({**self._record, named(stamp): self._identify_images})
        return self._xml(named(stamp))

    def end(self, stamp: str | None) -> None:
        """Keep only the checkpoint of this moment after a copy. If this fails now, the next copy
        does it at its begin.
        """
        with contextlib.suppress(libvirt.libvirtError):
            self._keep_only(stamp)
            if stamp is not None:
                ownership.drop_checkpoint(self._domain, named(stamp), record_alone=True)

    def _keep_only(self, stamp: str | None) -> None:
        kept = None if stamp is None else named(stamp)
        for name in [each for each in self._record if each != kept]:
            if self._is_known(name):
                ownership.drop_checkpoint(self._domain, name)
        self._write_record({name: images for name, images in self._record.items() if name == kept})

    def _is_known(self, name: str) -> bool:
        """Return True if libvirt knows a checkpoint or accepts it again. If not, one of its bitmaps
        is missing or broken.
        """
        try:
            self._domain.checkpointLookupByName(name, 0)
            return True
        except libvirt.libvirtError as exc:
            if binding.code_of(exc) != libvirt.VIR_ERR_NO_DOMAIN_CHECKPOINT:
                raise
        flags = (
            libvirt.VIR_DOMAIN_CHECKPOINT_CREATE_REDEFINE
            | libvirt.VIR_DOMAIN_CHECKPOINT_CREATE_REDEFINE_VALIDATE
        )
        try:
            self._domain.checkpointCreateXML(self._xml(name, self._domain.XMLDesc(0)), flags)
            return True
        except libvirt.libvirtError as exc:
            if binding.code_of(exc) != libvirt.VIR_ERR_CHECKPOINT_INCONSISTENT:
                raise
            return False

    def _xml(self, name: str, domain: str | None = None) -> str:
        root = ET.Element("domaincheckpoint")
        ET.SubElement(root, "name").text = name
        if domain is not None:
            # libvirt requires both elements to accept a checkpoint again.
            ET.SubElement(root, "creationTime").text = str(int(time.time()))
            root.append(parse(domain))
        disks = ET.SubElement(root, "disks")
        for target in self._identify_images["images"]:
            ET.SubElement(disks, "disk", {"name": target, "checkpoint": "bitmap", "bitmap": name})
        return ET.tostring(root, encoding="unicode")

    def _write_record(self, record: Mapping[str, Images]) -> None:
        for place in metadata.places(self._domain) if record != self._record else ():
            kept = (
                record if place == libvirt.VIR_DOMAIN_AFFECT_LIVE else {name: {} for name in record}
            )
            metadata.change(
                self._domain, place, ELEMENT, json.dumps(kept, sort_keys=True) if kept else ""
            )
        self._record = {name: images.copy() for name, images in record.items()}


class Images(TypedDict, total=False):
    """The identity of the images of disks; empty in the definition of a running domain."""

    host: str
    #: By target: the active image first, then those behind it.
    images: dict[str, list[str | None]]
    #: libvirt's numbers of the active images.
    numbers: dict[str, str | None]


def let_go(domain: Any) -> None:
    """Let libvirt forget the checkpoints of a killed copy, because libvirt makes no snapshot while
    it has a checkpoint.
    """
    with contextlib.suppress(libvirt.libvirtError):
        for name in {each.getName() for each in domain.listAllCheckpoints(0)} & set(
            _read_record(domain)
        ):
            ownership.drop_checkpoint(domain, name, record_alone=True)


def _identify_images(disks: Mapping[str, Element]) -> Images:
    """Return the identity of the images of disks: the host, the images by target (the active image
    first), and libvirt's numbers of the active images.

    A newly attached disk gets a new number. On another host a disk has another number.
    """
    return {
        "host": host_name(),
        "images": {
            target: [parse_disk(each)["source"], *backing_files(each)]
            for target, each in disks.items()
        },
        "numbers": {
            target: source.get("index")
            for target, each in disks.items()
            for source in each.findall("source")
        },
    }


def _are_same(then: Images | None, now: Images) -> bool:
    """Return True if the images are the same as before. A bitmap in a lower image of the chain
    lacks the writes to the images above it.
    """
    if not then or then.get("images") != now["images"]:
        return False
    return then.get("host") != now["host"] or then.get("numbers") == now["numbers"]


def _read_record(domain: Any) -> dict[str, Images]:
    place = metadata.places(domain)[0]
    try:
        document = json.loads(metadata.text(domain, place, ELEMENT) or "{}")
    except ValueError:
        return {}
    if not isinstance(document, dict):
        return {}
    return {
        name: cast(Images, each)
        for name, each in document.items()
        if name.startswith(ownership.CHECKPOINT) and isinstance(each, dict)
    }
