# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices that come and go, which libvirt's test driver (9.0) does not support: libvirt's
operations for QEMU, with their refusals.

The running domain has a separate XML here, until it is off. Words and error codes come from libvirt
9.0 (qemu_hotplug.c, qemu_driver.c, domain_conf.c).
"""

from __future__ import annotations

import copy
import os
import shutil
import xml.etree.ElementTree as ET

import libvirt

LIVE, CONFIG = libvirt.VIR_DOMAIN_AFFECT_LIVE, libvirt.VIR_DOMAIN_AFFECT_CONFIG


def error(code, text):
    problem = libvirt.libvirtError(text)
    problem.err = (code, 0, text, 2, None, None, None, 0, 0)
    return problem


def source_of(element):
    """Return the source of a disk or of its mirror: a path, or protocol:name."""
    source = element.find("source")
    return (
        source.get("file") or source.get("dev") or f"{source.get('protocol')}:{source.get('name')}"
    )


class Devices:
    """The behaviour of guests. releases: a guest releases a device on request. ports: the number of
    free PCIe ports. tray: it opens.

    ready: a copy of a disk gets complete. pivots: libvirt switches over. volumes: tells if a disk
    on the network exists.
    """

    def __init__(self, patch):
        self.releases, self.ports, self.tray, self.ready, self.pivots = True, 100, True, True, True
        self._running, self.asked, self.volumes = {}, [], lambda name: False
        self._describe, self._define = libvirt.virDomain.XMLDesc, libvirt.virConnect.defineXML
        patch.setattr(
            libvirt.virDomain, "XMLDesc", lambda domain, flags=0: self._xml(domain, flags)
        )
        patch.setattr(
            libvirt.virDomain,
            "attachDeviceFlags",
            lambda domain, text, flags=0: self._attach(domain, text, flags),
        )
        patch.setattr(
            libvirt.virDomain,
            "detachDeviceFlags",
            lambda domain, text, flags=0: self._detach(domain, text, flags),
        )
        patch.setattr(
            libvirt.virDomain,
            "updateDeviceFlags",
            lambda domain, text, flags=0: self._update(domain, text, flags),
        )
        patch.setattr(
            libvirt.virDomain,
            "blockCopy",
            lambda domain, target, text, given, flags=0: self._copy(
                domain, target, text, given, flags
            ),
        )
        self._info = libvirt.virDomain.blockInfo
        patch.setattr(
            libvirt.virDomain,
            "blockInfo",
            lambda domain, target, flags=0: self._size(domain, target, flags),
        )
        patch.setattr(
            libvirt.virDomain,
            "blockJobInfo",
            lambda domain, target, flags=0: self._copied(domain, target),
        )
        patch.setattr(
            libvirt.virDomain,
            "blockJobAbort",
            lambda domain, target, flags=0: self._end_copy(domain, target, flags),
        )

    def release(self):
        """Let guests release the requested devices."""
        for domain, text in self.asked:
            if domain.isActive():
                self._remove(domain, ET.fromstring(text), LIVE)
        self.asked.clear()

    @staticmethod
    def _key(domain):
        # A domain has another number each time that it is started.
        return id(domain.connect()), domain.UUIDString(), domain.ID()

    def _xml(self, domain, flags=0):
        text = None
        if domain.isActive() and not flags & libvirt.VIR_DOMAIN_XML_INACTIVE:
            text = self._running.get(self._key(domain))
        return text if text is not None else self._describe(domain, flags)

    def _form(self, domain, flag):
        if flag == LIVE and not domain.isActive():
            raise error(
                libvirt.VIR_ERR_OPERATION_INVALID,
                "Requested operation is not valid: domain is not running",
            )
        if flag == CONFIG and not domain.isPersistent():
            text = (
                "Requested operation is not valid: transient domains do not have any persistent"
                " config"
            )
            raise error(libvirt.VIR_ERR_OPERATION_INVALID, text)
        return ET.fromstring(
            self._xml(domain, libvirt.VIR_DOMAIN_XML_INACTIVE if flag == CONFIG else 0)
        )

    def _save(self, domain, flag, root):
        text = ET.tostring(root, encoding="unicode")
        if flag == LIVE:
            self._running[self._key(domain)] = text
            return
        if domain.isActive():
            # The test driver may show the new definition for the running domain.
            self._running.setdefault(self._key(domain), self._xml(domain, 0))
        self._define(domain.connect(), text)

    @staticmethod
    def _same(one, other):
        if one.tag != other.tag:
            return False
        if one.tag == "interface":
            return one.find("mac").get("address") == other.find("mac").get("address")
        return one.find("target").get("dev") == other.find("target").get("dev")

    def _found(self, root, device):
        return next((each for each in root.find("devices") if self._same(each, device)), None)

    def _each(self, domain, text, flags, work):
        """libvirt makes the new definition, changes the running domain, and then saves the
        definition."""
        form_flags = [flag for flag in (CONFIG, LIVE) if flags & flag] or [
            LIVE if domain.isActive() else CONFIG
        ]
        forms = [(flag, self._form(domain, flag)) for flag in form_flags]
        for flag, root in forms:
            work(domain, flag, root, ET.fromstring(text))
        for flag, root in forms[::-1]:
            self._save(domain, flag, root)
        return 0

    def _attach(self, domain, text, flags=0):
        return self._each(domain, text, flags, self._attach_one)

    def _attach_one(self, domain, flag, root, device):
        if self._found(root, device) is not None:
            what = (
                f"target {device.find('target').get('dev')} already exists"
                if device.tag == "disk"
                else (
                    f"a device with the same address {device.find('mac').get('address')} already"
                    " exists"
                )
            )
            raise error(
                libvirt.VIR_ERR_OPERATION_INVALID, f"Requested operation is not valid: {what}"
            )
        if flag == LIVE:
            self._refuse_hotplug(device)
            device = copy.deepcopy(device)
            ET.SubElement(device, "alias", name="added")
        root.find("devices").append(device)

    def _refuse_hotplug(self, device):
        if device.tag == "disk":
            bus = device.find("target").get("bus")
            if device.get("device") == "cdrom":
                raise error(
                    libvirt.VIR_ERR_CONFIG_UNSUPPORTED,
                    "unsupported configuration: cdrom/floppy device hotplug isn't supported",
                )
            if bus in ("sata", "ide"):
                raise error(
                    libvirt.VIR_ERR_CONFIG_UNSUPPORTED,
                    f"unsupported configuration: disk bus '{bus}' cannot be hotplugged.",
                )
            path = device.find("source").get("file")
            if not os.path.exists(path):
                raise error(
                    libvirt.VIR_ERR_SYSTEM_ERROR,
                    f"Cannot access storage file '{path}': No such file or directory",
                )
        if self.ports < 1:
            raise error(
                libvirt.VIR_ERR_INTERNAL_ERROR, "internal error: No more available PCI slots"
            )
        self.ports -= 1

    def _detach(self, domain, text, flags=0):
        def one(domain, flag, root, device):
            element = self._found(root, device)
            if element is None:
                raise error(libvirt.VIR_ERR_DEVICE_MISSING, "device not found: no such device")
            if flag == LIVE:
                target = element.find("target")
                if target is not None and target.get("bus") in ("sata", "ide"):
                    raise error(
                        libvirt.VIR_ERR_OPERATION_UNSUPPORTED,
                        "Operation not supported: This type of disk cannot be hot unplugged",
                    )
                if not self.releases:
                    self.asked.append((domain, text))
                    return
            root.find("devices").remove(element)

        return self._each(domain, text, flags, one)

    def _remove(self, domain, device, flag):
        root = self._form(domain, flag)
        found = self._found(root, device)
        if found is not None:
            root.find("devices").remove(found)
            self._save(domain, flag, root)

    def _update(self, domain, text, flags=0):
        def one(dummy, flag, root, device):
            element = self._found(root, device)
            if element is None:
                raise error(
                    libvirt.VIR_ERR_INVALID_ARG,
                    f"invalid argument: target {device.find('target').get('dev')} doesn't exist.",
                )
            if element.get("device") != "cdrom" and flag == LIVE:
                raise error(
                    libvirt.VIR_ERR_OPERATION_UNSUPPORTED,
                    "Operation not supported: cannot modify field 'source' of the disk",
                )
            source = device.find("source")
            if flag == LIVE and not self.tray:
                raise error(
                    libvirt.VIR_ERR_OPERATION_FAILED,
                    "operation failed: timed out waiting to open tray of 'sata0-0-0'",
                )
            if flag == LIVE and source is not None and not os.path.exists(source.get("file")):
                raise error(
                    libvirt.VIR_ERR_SYSTEM_ERROR,
                    f"Cannot access storage file '{source.get('file')}': No such file or directory",
                )
            element[:] = list(device)
            element.set("type", device.get("type", "file"))

        return self._each(domain, text, flags, one)

    # The copy of a disk (virDomainBlockCopy)

    def _disk(self, domain, flag, target):
        root = self._form(domain, flag)
        return root, next(
            each
            for each in root.find("devices").findall("disk")
            if each.find("target").get("dev") == target
        )

    def _copy(self, domain, target, text, parameters, flags):
        root, disk = self._disk(domain, LIVE, target)
        if disk.find("mirror") is not None:
            raise error(
                libvirt.VIR_ERR_BLOCK_COPY_ACTIVE,
                f"block copy still active: disk '{target}' already in active block job",
            )
        if (
            not flags & libvirt.VIR_DOMAIN_BLOCK_COPY_REUSE_EXT
            or not flags & libvirt.VIR_DOMAIN_BLOCK_COPY_TRANSIENT_JOB
        ):
            raise error(
                libvirt.VIR_ERR_OPERATION_INVALID,
                "Requested operation is not valid: domain is not transient",
            )
        destination = ET.fromstring(text)
        kind, path = destination.get("type"), source_of(destination)
        if not (os.path.exists(path) if kind != "network" else self.volumes(path)):
            raise error(
                libvirt.VIR_ERR_SYSTEM_ERROR,
                f"missing destination file for disk '{target}': {path}",
            )
        if disk.get("type") != "network" and kind != "network":
            shutil.copyfile(source_of(disk), path)
        mirror = ET.SubElement(
            disk, "mirror", type=kind, job="copy", **({"ready": "yes"} if self.ready else {})
        )
        ET.SubElement(mirror, "format", type=destination.find("driver").get("type"))
        mirror.extend([destination.find("source"), *destination.findall("auth")])
        self._save(domain, LIVE, root)
        return 0

    def _size(self, domain, target, flags):
        disk = self._disk(domain, LIVE if domain.isActive() else CONFIG, target)[1]
        if disk.get("type") != "block":
            return self._info(domain, target, flags)
        # A file takes the place of the device. The test driver would report 1 TiB.
        size = os.stat(source_of(disk)).st_size
        return [size, size, size]

    def _copied(self, domain, target):
        mirror = self._disk(domain, LIVE, target)[1].find("mirror")
        return (
            {}
            if mirror is None
            else {"type": 2, "bandwidth": 0, "cur": 100 if mirror.get("ready") else 40, "end": 100}
        )

    def _end_copy(self, domain, target, flags=0):
        root, disk = self._disk(domain, LIVE, target)
        mirror = disk.find("mirror")
        if mirror is None:
            raise error(
                libvirt.VIR_ERR_OPERATION_INVALID,
                f"Requested operation is not valid: disk {target} does not have an active"
                " block job",
            )
        pivot = flags & libvirt.VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT
        if pivot and not (mirror.get("ready") and self.pivots):
            raise error(
                libvirt.VIR_ERR_BLOCK_COPY_ACTIVE,
                f"block copy still active: disk '{target}' not ready for pivot yet",
            )
        old = source_of(disk)
        disk.remove(mirror)
        if pivot:
            self._put(disk, mirror)
        self._save(domain, LIVE, root)
        if pivot:
            config, defined = self._disk(domain, CONFIG, target)
            if source_of(defined) == old:
                self._put(defined, mirror)
                self._save(domain, CONFIG, config)
        return 0

    @staticmethod
    def _put(disk, mirror):
        """The copy is the disk now."""
        disk.set("type", mirror.get("type"))
        disk.find("driver").set("type", mirror.find("format").get("type"))
        for each in [*disk.findall("source"), *disk.findall("auth")]:
            disk.remove(each)
        disk.extend(
            copy.deepcopy(each) for each in [mirror.find("source"), *mirror.findall("auth")]
        )
