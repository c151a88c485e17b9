# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""External snapshots of disks, which libvirt's test driver (9.0) records without making images:
libvirt's operations for QEMU guests that are off."""

from __future__ import annotations

import os
import subprocess
import time
import xml.etree.ElementTree as ET

import libvirt

REDEFINE, CURRENT = (
    libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REDEFINE,
    libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_CURRENT,
)


def install(patch):
    """Let snapshots of disks make their images.

    :param patch: pytest's monkeypatch.
    """
    record, delete = libvirt.virDomain.snapshotCreateXML, libvirt.virDomainSnapshot.delete

    def create(domain, text, flags=0):
        if not flags & libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_DISK_ONLY:
            return record(domain, text, flags)
        if domain.isActive():
            # For a running guest libvirt uses QEMU, which the test driver does not have.
            raise libvirt.libvirtError("Requested operation is not valid: domain is running")
        before = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
        after, root = ET.fromstring(before), ET.fromstring(text)
        disks = {each.find("target").get("dev"): each for each in after.findall("devices/disk")}
        for disk in root.findall("disks/disk"):
            if disk.get("snapshot") != "external":
                continue
            path, source, driver = (
                disk.find("source").get("file"),
                disks[disk.get("name")].find("source"),
                disks[disk.get("name")].find("driver"),
            )
            if os.path.exists(path):
                raise libvirt.libvirtError(
                    f"external snapshot file for disk {disk.get('name')} already exists"
                )
            words = [
                "qemu-img",
                "create",
                "-q",
                "-f",
                "qcow2",
                "-F",
                driver.get("type"),
                "-b",
                source.get("file"),
                path,
            ]
            subprocess.run(words, check=True)
            source.set("file", path)
            driver.set("type", "qcow2")
        if domain.hasCurrentSnapshot(0):
            ET.SubElement(ET.SubElement(root, "parent"), "name").text = domain.snapshotCurrent(
                0
            ).getName()
        ET.SubElement(root, "state").text = "shutoff"
        ET.SubElement(root, "creationTime").text = str(int(time.time()))
        root.append(ET.fromstring(before))
        define(domain.connect(), ET.tostring(after, encoding="unicode"))
        return record(domain, ET.tostring(root, encoding="unicode"), REDEFINE | CURRENT)

    define = libvirt.virConnect.defineXML
    patch.setattr(libvirt.virDomain, "snapshotCreateXML", create)
    patch.setattr(
        libvirt.virDomainSnapshot,
        "delete",
        lambda snapshot, flags=0: delete(
            snapshot, flags & ~libvirt.VIR_DOMAIN_SNAPSHOT_DELETE_METADATA_ONLY
        ),
    )
