# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Makes a disk of a domain larger, while the guest runs or while it is off.

Private to the collection. A disk is never made smaller.
"""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element

from ansible.module_utils.basic import AnsibleModule

from .._domain.definition import parse_disk
from .._domain.device_xml import Forms
from .._domain.facts import DomainDisk
from .._host.domains import read_domain
from .._images import images
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, host_name, libvirt
from .._storage import kinds, volumes
from .._storage.kinds import Source
from . import resize
from .attachable import Attachable, Options

#: Protocols of disks on the network that QEMU itself makes larger.


class DiskGrowth(Attachable):
    """A disk with a wanted size; a disk of that size stays unchanged."""

    def __init__(
        self,
        given: Options,
        module: AnsibleModule,
        domain: Any,
        forms: Forms,
        absent: bool,
    ) -> None:
        super().__init__(given, module, domain, forms, absent)
        if absent:
            raise LibvirtProblem(
                f"The size of a disk of {self.where} cannot be absent: give the state present."
            )
        self.target, self.size = given["target"], given["size_gb"] * images.GIB
        elements = [self.find(root) for root in self.forms]
        if any(each is None for each in elements):
            have = sorted(
                {
                    disk["target"]
                    for root in self.forms
                    for each in root.findall("devices/disk")
                    for disk in [parse_disk(each)]
                }
            )
            raise LibvirtProblem(
                f"{self.where} has no disk {self.target} (it has {', '.join(have) or 'none'}):"
                " correct the target."
            )
        self._element = elements[0]
        before = self._measure()["capacity_bytes"]
        self._done = False
        if before is None:
            raise LibvirtProblem(
                f"libvirt on {host_name()} does not give the size of the disk {self.target} of"
                f" {domain.name()}: start the instance, or the storage pool that has the disk, then"
                " run this again."
            )
        self.before = before
        if self.before > self.size:
            raise LibvirtProblem(
                f"The disk {self.target} of {self.where} has {self.before / images.GIB:.2f} GiB,"
                f" and {given['size_gb']} GiB are requested: a disk is never made smaller."
            )

    def find(self, root: Element) -> Element | None:
        return next(
            (
                each
                for each in root.findall("devices/disk")
                if parse_disk(each)["target"] == self.target
            ),
            None,
        )

    def is_in(self, root: Element) -> bool:
        return bool(self._present_bytes() == self.size)

    def _present_bytes(self) -> int | None:
        return self._measure()["capacity_bytes"] if self._done else self.before

    def _measure(self) -> DomainDisk:
        """Return the present facts of the disk."""
        disks = read_domain(self.domain, local=True)["disks"]
        return next(disk for disk in disks if disk["target"] == self.target)

    def prepare(self) -> None:
        element = self._element
        disk = parse_disk(element) if element is not None else None
        kind, reason = kinds.of_disk(disk or {}), None
        if element is None or disk is None or disk["device"] != "disk" or disk["source"] is None:
            reason = "it is no disk with a file, device or image"
        elif disk["readonly"] or element.find("shareable") is not None:
            reason = "the guest only reads from it, or other guests have it too"
        elif kind.source is Source.DEVICE:
            reason = (
                "it is a block device: make that larger (such as with lvextend), then start the"
                " instance anew or use virsh blockresize"
            )
        elif kind.source is Source.SERVER and not kinds.protocol(self._protocol()).grows:
            reason = (
                f"it is on the network ({self._protocol()}): make it larger on its server, then"
                " start the instance anew"
            )
        elif self.live is None and kind.source is not Source.FILE and self._volume() is None:
            reason = (
                "the instance is off, and no running storage pool of the host has it: start the"
                " instance or the pool first"
            )
        elif (
            element.find("encryption") is not None or element.find("source/encryption") is not None
        ):
            reason = "it is encrypted: make it larger with virsh blockresize while the guest runs"
        reason = reason or resize.why_split(self._measure())
        if reason:
            raise LibvirtProblem(
                f"The disk {self.target} of {self.where} is not made larger: {reason}."
            )

    def _protocol(self) -> str | None:
        source = self._element.find("source") if self._element is not None else None
        return source.get("protocol") if source is not None else None

    def _volume(self) -> Any:
        """Return the volume of a running pool that the disk is; None if it is in no such pool."""
        place = volumes.of_disk(self.conn, self._element)
        if place is None:
            # This call fails if libvirt has no driver for pools.
            self.conn.listAllStoragePools(0)
            return None
        try:
            return self.conn.storagePoolLookupByName(place[0]).storageVolLookupByName(place[1])
        except libvirt.libvirtError as exc:
            if binding.code_of(exc) not in (
                libvirt.VIR_ERR_NO_STORAGE_VOL,
                libvirt.VIR_ERR_OPERATION_INVALID,
            ):
                raise
            return None

    def attach(self) -> None:
        """Make the disk larger."""
        self._done = True
        disk = self._measure()
        if self.live is None and kinds.of_disk(disk).source is not Source.FILE:
            self._volume().resize(self.size, 0)
        else:
            resize.grow(self.module, self.domain, disk, self.size)

    def apply(self, root: Element) -> None:
        """Change nothing, because the XML has no size."""

    def is_left(self) -> bool:
        return self._present_bytes() != self.before

    def facts(self, root: Element) -> DomainDisk | None:
        disk = self._measure()
        if self.module.check_mode:
            disk["capacity_bytes"] = max(disk["capacity_bytes"] or 0, self.size)
        return disk

    def lines(self, forms: Forms, after: bool) -> str:
        size = self.size if after else self.before
        return f"{self.target}: {size / images.GIB:g} GiB\n"
