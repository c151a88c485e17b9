# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The devices that are attached to a domain: disks, network interfaces and media, each with its
refusals.

Private to the collection. prepare() makes all refusals and changes nothing; attach() and detach()
carry out an allowed change.
"""

from __future__ import annotations

import copy
import os
import re
import shlex
import stat
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element

from ansible.module_utils.basic import AnsibleModule

from .._domain import device_xml, hotplug
from .._domain.definition import parse_disk, parse_interface
from .._domain.device_xml import Forms
from .._domain.facts import DomainDisk, InterfaceFacts
from .._files import access
from .._files.image_info import ImageInfo
from .._files.image_size import image_size
from .._host.disk_facts import DiskFacts
from .._images import images
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, host_name, libvirt
from .._ownership import ownership
from .._ownership.needs import PathSighting
from .._storage.shared_storage import read_mounts
from . import attached_files

#: The folder of Linux that shows the bridges of a host.
NETWORK_DEVICES = "/sys/class/net"
#: The options of a device, as the module _domain_device has them.
Options = Mapping[str, Any]


class Attachable:
    """A device that a domain must have, or must not have.

    :param given: its options, as the module _domain_device has them.
    :param forms: the domain before the change.
    :param absent: True if the domain must not have it.
    """

    #: The element of the device in the XML of a domain.
    tag = "disk"

    def __init__(
        self,
        given: Options,
        module: AnsibleModule,
        domain: Any,
        forms: Forms,
        absent: bool,
    ) -> None:
        self.given, self.module, self.domain, self.absent = given, module, domain, absent
        self.conn, self.live, self.config = domain.connect(), forms[0], forms[1]
        self.forms = [root for root in forms if root is not None]
        self.where = f"{domain.name()} on {host_name()}"
        #: The element that attach() attaches; prepare() makes it.
        self.element: Element | None = None

    def find(self, root: Element) -> Element | None:
        """Find the device in one form of the domain."""
        raise NotImplementedError

    def is_in(self, root: Element) -> bool:
        """Return True if one form of the domain has it."""
        return self.find(root) is not None

    def prepare(self) -> None:
        """Check that the change can be made.

        :raises LibvirtProblem: it cannot; or for the reasons of ImageProblem.
        """
        raise NotImplementedError

    def attach(self) -> None:
        """Attach the device after prepare() has allowed it."""
        if self.element is None:
            raise LibvirtProblem(f"Nothing was prepared for {self.where}.")
        missing = [not self.is_in(root) for root in self.forms]
        hotplug.attach(
            self.conn,
            self.domain,
            self.element,
            self.find,
            self.live is not None and missing[0],
            missing[-1],
        )

    def detach(self, timeout: float) -> None:
        """Detach the device after prepare() has allowed it.

        :param timeout: seconds for the guest to release it.
        """
        hotplug.detach(self.domain, self.find, timeout)

    def apply(self, root: Element) -> None:
        """Make the change in one form of the domain, as libvirt will."""
        devices, found = root.find("devices"), self.find(root)
        if devices is not None and self.absent and found is not None:
            devices.remove(found)
        elif devices is not None and self.element is not None:
            devices.append(copy.deepcopy(self.element))

    def is_left(self) -> bool:
        """Return True if a part of a failed change is left, or the guest may still make the
        change.
        """
        shown = [root is not None and self.is_in(root) for root in hotplug.forms_of(self.domain)]
        before = [root is not None and self.is_in(root) for root in (self.live, self.config)]
        return self.absent or shown != before

    def created(self, foreseen: bool = False) -> list[str]:
        """Return the paths of the new files; if foreseen, of the files that the change will
        make.
        """
        return []

    def lines(self, forms: Forms, after: bool) -> str:
        """Return the lines of the domain for a diff.

        :param after: True for the state after the change.
        """
        return device_xml.lines(forms, self.tag)

    def facts(self, root: Element) -> DomainDisk | InterfaceFacts | None:
        """Return the device's facts from a form of the domain; None if the form does not have the
        device.
        """
        found = self.find(root)
        return None if found is None else device_xml.facts_of(found)

    def _disk_in(self, root: Element) -> DomainDisk | None:
        """Return the facts of a disk or drive from a form of the domain."""
        found = self.find(root)
        return None if found is None else parse_disk(found)

    def _refuse_odd_target(self, target: str, bus: str) -> None:
        """Refuse a target for a new device that its bus does not have."""
        begin = device_xml.TARGETS[bus]
        if not re.fullmatch(f"{begin}[a-z]{{1,2}}", target):
            raise LibvirtProblem(
                f"{target} is no target on the bus {bus}: write {begin} and one or two letters,"
                f" such as {begin}b, or leave the target out."
            )

    def _another(self, what: str, has: object, wanted: object) -> LibvirtProblem:
        return LibvirtProblem(
            f"{self.where} has {what} {has}, not {wanted}. That is not changed while it is"
            " attached: detach it first, or correct the option."
        )


class ImageDisk(Attachable):
    """An image file as a disk."""

    def __init__(
        self,
        given: Options,
        module: AnsibleModule,
        domain: Any,
        forms: Forms,
        absent: bool,
    ) -> None:
        super().__init__(given, module, domain, forms, absent)
        self.path = attached_files.checked_path(given["path"])
        self.sighting = self._sighting_of_image()
        self._to_make: images.NewDisk | None = None
        self._made: list[ownership.RemovalCandidate] = []
        elements = [each for each in map(self.find, self.forms) if each is not None]
        #: The disk in the first form of the domain that has it.
        self._there = elements[0] if elements else None
        self._target = parse_disk(elements[0])["target"] if elements else given["target"]
        for each in elements:
            self._check_same(
                parse_disk(each), ("target",) if absent else ("target", "bus", "format", "readonly")
            )

    def _sighting_of_image(self) -> PathSighting:
        try:
            return attached_files.look_at(self.path)
        except LibvirtProblem:
            if not self.absent or not os.path.isabs(self.path):
                raise
            # A disk on lost storage is detached by the name that the domain has for it.
            return PathSighting(self.path, None, False)

    def find(self, root: Element) -> Element | None:
        disks = [
            disk for disk in root.findall("devices/disk") if disk.get("device", "disk") == "disk"
        ]
        return next(
            (
                each
                for each in disks
                if attached_files.is_at(self.conn, each, self.path, self.sighting.real)
            ),
            None,
        )

    def _check_same(self, have: Mapping[str, object], names: Sequence[str]) -> None:
        for name in names:
            # An empty text is not a target, as a template may leave it.
            if self.given[name] not in (None, "", have[name]):
                raise self._another(f"{self.path} with {name}", have[name], self.given[name])

    def prepare(self) -> None:
        running = self.live is not None and self.find(self.live) is not None
        if self.absent:
            found = self.find(self.live) if self.live is not None else None
            bus = parse_disk(found)["bus"] if found is not None else None
            if bus in device_xml.NO_HOTPLUG:
                raise LibvirtProblem(
                    f"{self.where} runs, and a running guest cannot release a disk on the bus"
                    f" {bus}: shut it off first."
                )
            return
        bus = self.given["bus"]
        if self.live is not None and not running and bus in device_xml.NO_HOTPLUG:
            raise LibvirtProblem(
                f"{self.where} runs, and a running guest gets no disk on the bus {bus}: shut it off"
                " first, or use virtio, scsi or usb."
            )
        target = self._target or device_xml.free_target(self.forms, bus)
        for root in self.forms:
            if not self.is_in(root) and target in device_xml.targets([root]):
                raise LibvirtProblem(
                    f"{self.where} has another disk as {target}: choose another target, or leave it"
                    " out."
                )
        if self._there is None:
            self._refuse_odd_target(target, bus)
        attached_files.refuse_other_file(
            self.module.params["looked_up"], self.path, self.sighting.real
        )
        self._check_file(any(map(self.is_in, self.forms)), running)
        # In the other form of the domain it has its alias already, or it was made for it.
        alias = (
            ownership.ATTACHED + target
            if self._there is None and self._to_make is None
            else _user_alias(self._there)
        )
        self.element = device_xml.disk_element(
            self.path, self.given["format"], target, bus, self.given["readonly"], alias
        )

    def _check_file(self, known: bool, held: bool) -> None:
        path, size, status = self.path, self.given["size_gb"], self.sighting.status
        if status is None:
            if size is None:
                raise LibvirtProblem(
                    f"The file {path} does not exist on {host_name()}: give a size to have it made,"
                    " or correct the path."
                )
            disk: images.NewDisk = {
                "path": path,
                "size_gb": size,
                "format": self.given["format"],
                "backing_file": None,
                "backing_format": None,
            }
            if images.check_disk(self.module, disk):
                self._to_make = disk
        elif not stat.S_ISREG(status.st_mode):
            raise LibvirtProblem(
                f"{path} on {host_name()} is no file but a device or a folder: only files are"
                " attached."
            )
        if self.given["readonly"] and status is not None:
            attached_files.refuse_written(
                self.conn, self.domain.UUIDString() if known else None, path, "disk"
            )
        else:
            attached_files.refuse_used(
                self.conn, self.domain.UUIDString() if known else None, path, self.sighting, held
            )
        if status is not None:
            self._check_image(images.image_info(self.module, path), size)

    def _check_image(self, info: ImageInfo, size: int | None) -> None:
        data = (info.get("format-specific") or {}).get("data") or {}
        if data.get("data-file"):
            raise LibvirtProblem(
                f"The image {self.path} on {host_name()} keeps its data in another file,"
                f" {data['data-file']}, of which it cannot be seen who else writes to it: convert"
                " it with qemu-img convert, or choose another path."
            )
        attached_files.refuse_unknown_format(self.module, self.path, info)
        if info["format"] != self.given["format"]:
            raise LibvirtProblem(
                f"The file {self.path} on {host_name()} has the format {info['format']}, not"
                f" {self.given['format']}: correct the format or the path."
            )
        if size is not None and info["virtual-size"] != size * images.GIB:
            raise LibvirtProblem(
                f"The file {self.path} exists on {host_name()} and has"
                f" {info['virtual-size'] / images.GIB:.2f} GiB, not {size} GiB. An existing disk is"
                " not resized here: leave out the size, or correct the path."
            )

    def attach(self) -> None:
        if self._to_make is not None:
            self._made = [images.make_disk(self.module, self._to_make)]
        super().attach()

    def created(self, foreseen: bool = False) -> list[str]:
        return [self.path] if self._made or (foreseen and self._to_make is not None) else []

    def is_left(self) -> bool:
        if super().is_left():
            return True
        # All needs count, also those of this domain; then the files that were made for it are
        # removed.
        own = ownership.Ownership(self.conn, None, None, self._made)
        own.sort_out()
        own.remove()
        return bool(own.kept)

    def facts(self, root: Element) -> DomainDisk | None:
        disk = self._disk_in(root)
        if disk is not None:
            size = self.given["size_gb"]
            sizes = (
                (size * images.GIB, 0)
                if self._to_make is not None and size
                else self._sizes(disk["format"])
            )
            if sizes is not None:
                disk["capacity_bytes"], disk["allocation_bytes"] = sizes
            DiskFacts(read_mounts("/"), [], self.conn).add([disk])
        return disk

    def _sizes(self, image_format: str | None) -> tuple[int, int] | None:
        try:
            return access.call(image_size, self.path, image_format)
        except access.Unresponsive:
            return None


def _user_alias(disk: Element | None) -> str | None:
    """Return the alias of a disk that a person or this collection chose; libvirt chooses all others
    at each start.
    """
    alias = disk.find("alias") if disk is not None else None
    name = alias.get("name") if alias is not None else None
    return name if name is not None and name.startswith("ua-") else None


class Interface(Attachable):
    """A network interface, by its MAC address."""

    tag = "interface"

    def __init__(
        self,
        given: Options,
        module: AnsibleModule,
        domain: Any,
        forms: Forms,
        absent: bool,
    ) -> None:
        super().__init__(given, module, domain, forms, absent)
        self.kind = "bridge" if given["bridge"] else "network"
        self.source = given[self.kind]
        if self.source is None and not absent:
            raise LibvirtProblem(
                f"The interface for {self.where} has neither a network nor a bridge: give one of"
                " them."
            )
        self.mac = (given["mac"] or "").lower() or self._mac_of_source()
        for each in map(self.find, self.forms):
            if each is not None and self.source is not None:
                self._check_same(parse_interface(each))

    def _mac_of_source(self) -> str:
        """Return the MAC address of the interface in the network or bridge; if there is none, the
        address of a new interface.
        """
        macs = {
            mac
            for root in self.forms
            for each in root.findall("devices/interface")
            if self._is_there(each) and (mac := parse_interface(each)["mac"])
        }
        if self.absent and len(macs) > 1:
            raise LibvirtProblem(
                f"{self.where} has {len(macs)} interfaces in the {self.kind} {self.source}"
                f" ({', '.join(sorted(macs))}): say which by its mac."
            )
        return (
            min(macs)
            if macs
            else device_xml.mac_of(self.domain.UUIDString(), self.kind, self.source)
        )

    def _is_there(self, element: Element) -> bool:
        nic = parse_interface(element)
        return nic["type"] == self.kind and nic["source"] == self.source and nic["mac"] is not None

    def find(self, root: Element) -> Element | None:
        nics = root.findall("devices/interface")
        return next(
            (each for each in nics if (parse_interface(each)["mac"] or "").lower() == self.mac),
            None,
        )

    def _check_same(self, have: Mapping[str, object]) -> None:
        if (have["type"], have["source"]) != (self.kind, self.source):
            raise self._another(
                f"the interface {self.mac} in",
                f"{have['type']} {have['source']}",
                f"{self.kind} {self.source}",
            )
        if not self.absent and have["model"] != self.given["model"]:
            raise self._another(
                f"the interface {self.mac} with the model", have["model"], self.given["model"]
            )

    def prepare(self) -> None:
        if self.absent:
            return
        if self.kind == "bridge":
            if not os.path.isdir(os.path.join(NETWORK_DEVICES, self.source, "bridge")):
                raise LibvirtProblem(
                    f"There is no bridge {self.source} on {host_name()}: make it there, or correct"
                    " the name."
                )
        else:
            self._refuse_no_network()
        self.element = device_xml.interface_element(
            self.kind, self.source, self.mac, self.given["model"]
        )

    def _refuse_no_network(self) -> None:
        try:
            network = self.conn.networkLookupByName(self.source)
        except libvirt.libvirtError as exc:
            if binding.code_of(exc) != libvirt.VIR_ERR_NO_NETWORK:
                raise
            raise LibvirtProblem(
                f"libvirt on {host_name()} has no network {self.source}: define it there, or"
                " correct the name."
            ) from exc
        if self.live is not None and not network.isActive():
            raise LibvirtProblem(
                f"The network {self.source} on {host_name()} is not active: start it there with"
                f" virsh net-start {shlex.quote(self.source)}."
            )


class Cdrom(Attachable):
    """A medium in a CD-ROM drive."""

    def __init__(
        self,
        given: Options,
        module: AnsibleModule,
        domain: Any,
        forms: Forms,
        absent: bool,
    ) -> None:
        super().__init__(given, module, domain, forms, absent)
        self.path = (
            attached_files.checked_path(given["path"]) if given["path"] is not None else None
        )
        if self.path is None and not absent:
            raise LibvirtProblem(f"The medium for {self.where} has no path: give one.")
        self.sighting = attached_files.look_at(self.path) if self.path is not None else None
        self._target = given["target"] or self._drive_with_it()

    def _drives(self, root: Element) -> dict[str, Element]:
        return {
            each["target"]: drive
            for drive in device_xml.cdroms(root)
            for each in [parse_disk(drive)]
        }

    def _drive_with_it(self) -> str | None:
        targets = [
            target
            for root in self.forms
            for target, drive in self._drives(root).items()
            if self._has_medium(drive)
        ]
        return targets[0] if targets else None

    def _has_medium(self, drive: Element) -> bool:
        """Return True if the medium is in a drive; without a path, True for any medium."""
        if self.path is None or self.sighting is None:
            return parse_disk(drive)["source"] is not None
        return attached_files.is_at(self.conn, drive, self.path, self.sighting.real)

    def find(self, root: Element) -> Element | None:
        return self._drives(root).get(self._target or "")

    def is_in(self, root: Element) -> bool:
        drive = self.find(root)
        return drive is not None and self._has_medium(drive)

    def prepare(self) -> None:
        if self.absent or self.path is None or self.sighting is None:
            return
        status = self.sighting.status
        if status is None or not stat.S_ISREG(status.st_mode):
            raise LibvirtProblem(
                f"The medium {self.path} does not exist on {host_name()}, or is no file: correct"
                " the path."
            )
        self._target = self._target or self._drive_for_it()
        if self.live is not None and self.find(self.live) is None:
            raise LibvirtProblem(
                f"{self.where} has no CD-ROM"
                f" drive{' ' + self._target if self.given['target'] else ''}, and a running guest"
                " gets none: shut it off first, then run this again."
            )
        if self.find(self.config) is None:
            if self._target in device_xml.targets([self.config]):
                raise LibvirtProblem(
                    f"{self.where} has another disk as {self._target}: choose another target, or"
                    " leave it out."
                )
            self._refuse_odd_target(self._target, "sata")
            self.element = device_xml.with_medium(device_xml.drive_element(self._target), self.path)
        attached_files.refuse_other_file(
            self.module.params["looked_up"], self.path, self.sighting.real
        )
        attached_files.refuse_written(self.conn, None, self.path, "medium")

    def _drive_for_it(self) -> str:
        """Return the target of an empty drive; if there is no drive at all, the target of a new
        one.
        """
        drives = self._drives(self.config)
        for target in sorted(drives):
            there = [self._drives(root).get(target) for root in self.forms]
            if all(drive is not None and parse_disk(drive)["source"] is None for drive in there):
                return target
        if drives:
            full = ", ".join(
                f"{target} has {parse_disk(drive)['source']}"
                for target, drive in sorted(drives.items())
            )
            raise LibvirtProblem(
                f"{self.where} has no empty CD-ROM drive: {full}. Name the target whose medium is"
                " replaced."
            )
        return device_xml.free_target(self.forms, "sata")

    def attach(self) -> None:
        if self.element is not None:
            super().attach()
        else:
            self._change_medium(
                self.path,
                [
                    (self.config, libvirt.VIR_DOMAIN_AFFECT_CONFIG),
                    (self.live, libvirt.VIR_DOMAIN_AFFECT_LIVE),
                ],
            )

    def detach(self, timeout: float) -> None:
        """Eject it. A guest does this immediately, or refuses."""
        self._change_medium(
            None,
            [
                (self.live, libvirt.VIR_DOMAIN_AFFECT_LIVE),
                (self.config, libvirt.VIR_DOMAIN_AFFECT_CONFIG),
            ],
        )

    def _change_medium(self, path: str | None, forms: list[tuple[Element | None, int]]) -> None:
        steps = []
        for root, flag in forms:
            drive = self.find(root) if root is not None else None
            if root is not None and drive is not None and self.is_in(root) == self.absent:
                steps.append((drive, device_xml.with_medium(drive, path), flag))
        hotplug.change_medium(self.domain, steps)

    def is_left(self) -> bool:
        shown = [root is not None and self.is_in(root) for root in hotplug.forms_of(self.domain)]
        return shown != [root is not None and self.is_in(root) for root in (self.live, self.config)]

    def apply(self, root: Element) -> None:
        drive = self.find(root)
        if drive is None:
            super().apply(root)
            return
        changed = device_xml.with_medium(drive, None if self.absent else self.path)
        drive[:], drive.attrib = changed[:], changed.attrib

    def facts(self, root: Element) -> DomainDisk | None:
        disk = self._disk_in(root)
        if disk is not None:
            DiskFacts(read_mounts("/"), [], self.conn).add([disk])
        return disk
