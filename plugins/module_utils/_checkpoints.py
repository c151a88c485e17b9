# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a domain has written since an earlier copy of its disks: checkpoints of libvirt, which survive live migrations here.

Private to the collection. The bitmap of a checkpoint is in the qcow2 image and moves with it, but libvirt 9.0 loses its own record at a live
migration. That record also keeps libvirt from making snapshots. So libvirt has it only during a copy. The names of the checkpoints are in the metadata of
the domain: those alone are drover's. Before a copy libvirt takes a name back and looks whether each image has the bitmap, and a whole one
(``VIR_DOMAIN_CHECKPOINT_CREATE_REDEFINE_VALIDATE``).
"""

from __future__ import annotations

import contextlib
import json
import time
import xml.etree.ElementTree as ET
from collections.abc import Collection, Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.module_utils import _domain_metadata, _libvirt, _ownership
from ansible_collections.drover.compute.plugins.module_utils._domain_xml import backing_files, parse_disk
from ansible_collections.drover.compute.plugins.module_utils._libvirt import libvirt
from ansible_collections.drover.compute.plugins.module_utils._xml import parse

#: The element of the metadata: a JSON object, name -> {target -> the images of the disk, the active one first}.
ELEMENT = "checkpoints"


def named(stamp: str) -> str:
    """The name of the checkpoint of a moment."""
    return _ownership.CHECKPOINT + stamp


class Checkpoints:
    """Drover's checkpoints of one running domain. The caller has the lock of the domain.

    :param targets: of the disks that are copied.
    """

    def __init__(self, domain: Any, targets: Collection[str]) -> None:
        self._domain = domain
        disks = {parse_disk(each)["target"]: each for each in parse(domain.XMLDesc(0)).findall("devices/disk")}
        self._formats = {target: parse_disk(disks[target])["format"] for target in targets}
        self._images = {target: [parse_disk(disks[target])["source"], *backing_files(disks[target])] for target in targets}
        self._record = self._read()

    def why_not(self) -> str | None:
        """Return why libvirt can make no checkpoint of this domain, None if it can."""
        for target, kind in self._formats.items():
            if kind != "qcow2":
                return f"{target} is {kind}, and only qcow2 notes what is written"
        if not hasattr(libvirt, "VIR_DOMAIN_CHECKPOINT_CREATE_REDEFINE_VALIDATE"):
            return "libvirt here is older than 6.10"
        if {each.getName() for each in self._domain.listAllCheckpoints(0)} - set(self._record):
            return "another program keeps checkpoints of it"
        return None

    def base(self, stamps: Collection[str]) -> str | None:
        """Return the newest of these moments since which it is known what was written, None if there is none."""
        for stamp in sorted(stamps, reverse=True):
            # A bitmap further down the chain would lack what an image above it has.
            if self._record.get(named(stamp)) == self._images and self._is_known(named(stamp)):
                return stamp
        return None

    def begin(self, stamp: str, base: str | None) -> str:
        """Return the XML of a checkpoint to make together with a copy; all but that of ``base`` are removed."""
        self._keep_only(base)
        self._write({**self._record, named(stamp): self._images})
        return self._xml(named(stamp))

    def end(self, stamp: str | None) -> None:
        """Keep the checkpoint of this moment alone, after a copy; what cannot be done now is done before the next one."""
        with contextlib.suppress(libvirt.libvirtError):
            self._keep_only(stamp)
            if stamp is not None:
                _ownership.drop_checkpoint(self._domain, named(stamp), record_alone=True)

    def _keep_only(self, stamp: str | None) -> None:
        kept = None if stamp is None else named(stamp)
        for name in [each for each in self._record if each != kept]:
            if self._is_known(name):
                _ownership.drop_checkpoint(self._domain, name)
        self._write({name: images for name, images in self._record.items() if name == kept})

    def _is_known(self, name: str) -> bool:
        """Whether libvirt knows a checkpoint, or takes it back; else a bitmap of it is missing or broken."""
        try:
            self._domain.checkpointLookupByName(name, 0)
            return True
        except libvirt.libvirtError as exc:
            if _libvirt.code_of(exc) != libvirt.VIR_ERR_NO_DOMAIN_CHECKPOINT:
                raise
        flags = libvirt.VIR_DOMAIN_CHECKPOINT_CREATE_REDEFINE | libvirt.VIR_DOMAIN_CHECKPOINT_CREATE_REDEFINE_VALIDATE
        try:
            self._domain.checkpointCreateXML(self._xml(name, self._domain.XMLDesc(0)), flags)
            return True
        except libvirt.libvirtError as exc:
            if _libvirt.code_of(exc) != libvirt.VIR_ERR_CHECKPOINT_INCONSISTENT:
                raise
            return False

    def _xml(self, name: str, domain: str | None = None) -> str:
        root = ET.Element("domaincheckpoint")
        ET.SubElement(root, "name").text = name
        if domain is not None:
            # libvirt wants both of what it takes back.
            ET.SubElement(root, "creationTime").text = str(int(time.time()))
            root.append(parse(domain))
        disks = ET.SubElement(root, "disks")
        for target in self._images:
            ET.SubElement(disks, "disk", {"name": target, "checkpoint": "bitmap", "bitmap": name})
        return ET.tostring(root, encoding="unicode")

    def _read(self) -> dict[str, dict[str, list[str]]]:
        place = _domain_metadata.places(self._domain)[0]
        try:
            found = json.loads(_domain_metadata.text(self._domain, place, ELEMENT) or "{}")
        except ValueError:
            return {}
        return {name: images for name, images in found.items() if name.startswith(_ownership.CHECKPOINT)} if isinstance(found, dict) else {}

    def _write(self, record: Mapping[str, Mapping[str, list[str]]]) -> None:
        for place in _domain_metadata.places(self._domain) if record != self._record else ():
            _domain_metadata.change(self._domain, place, ELEMENT, json.dumps(record, sort_keys=True) if record else "")
        self._record = {name: dict(images) for name, images in record.items()}
