# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A pool of Ceph as libvirt and qemu-img show it, with their refusals. Each rule was seen with
libvirt 9.0 and Ceph 16.2."""

from __future__ import annotations

import dataclasses
import json
import xml.etree.ElementTree as ET

import libvirt

from ansible_collections.drover.compute.tests.unit.module_utils.faraway import refuse


@dataclasses.dataclass
class Image:
    """An image: its data is one word, None where nothing was written. ``parent`` is (image,
    snapshot).
    """

    size: int
    data: str | None = None
    parent: tuple[str, str] | None = None
    #: {name: (data, whether it is protected)}
    snapshots: dict[str, tuple[str | None, bool]] = dataclasses.field(default_factory=dict)


class Ceph:
    """The pool: the handle of libvirt, and the operations of qemu-img on its images."""

    def __init__(self):
        self.images, self.known = {}, set()
        #: Called before a convert, and before a clone is made.
        self.before_fill = self.before_clone = lambda: None
        #: The images that were compared with a file.
        self.compared = []

    def name(self):
        return "ceph"

    def isActive(self):
        return 1

    def info(self):
        return [2, 1 << 40, 0, 1 << 40]

    def isPersistent(self):
        return 1

    def autostart(self):
        return 1

    def UUIDString(self):
        return "5e0ae0b4-92a5-4d10-a1f5-5b0a3a7b6d02"

    def XMLDesc(self, flags=0):
        source = "<host name='192.0.2.1' port='6789'/><name>vms</name>"
        return f"<pool type='rbd'><name>ceph</name><source>{source}</source></pool>"

    def refresh(self, flags=0):
        self.known = set(self.images)

    def listVolumes(self):
        return sorted(self.known)

    def storageVolLookupByName(self, name):
        if name not in self.known:
            refuse(
                libvirt.VIR_ERR_NO_STORAGE_VOL,
                f"Storage volume not found: no storage vol with matching name '{name}'",
            )
        return Volume(self, name)

    def createXML(self, text, flags=0):
        return self._add(text, Image(int(ET.fromstring(text).findtext("capacity"))))

    def createXMLFrom(self, text, source, flags=0):
        self.before_clone()
        image = self.images[source.name()]
        # The first snapshot that is equal to the image, or a new one; libvirt protects it.
        name = next(
            (name for name, (data, dummy) in image.snapshots.items() if data == image.data),
            "libvirt-1",
        )
        made = self._add(text, Image(image.size, image.data, (source.name(), name)))
        image.snapshots[name] = (image.data, True)
        return made

    def _add(self, text, image):
        name = ET.fromstring(text).findtext("name")
        if name in self.images:
            refuse(libvirt.VIR_ERR_STORAGE_VOL_EXIST, f"storage volume '{name}' exists already")
        self.images[name] = image
        self.known.add(name)
        return Volume(self, name)

    def qemu_img(
        self, conn, pool, name, before, options, seconds, held=(), snapshot=None, may_differ=False
    ):
        """Act in place of _rbd._with_qemu_img()."""
        image = self.images[name]
        if before[0] == "compare":
            assert before[1:3] == ["-q", "--image-opts"] and may_differ
            self.compared.append(name)
            path = before[3].partition("file.filename=")[2]
            with open(path, "rb") as file:
                return (
                    ""
                    if image.snapshots[snapshot][0] == f"converted from {file.read(4)!r}"
                    else None
                )
        if before[0] == "convert":
            self.before_fill()
            with open(before[-1], "rb") as file:
                image.data = f"converted from {file.read(4)!r}"
            return ""
        if before[0] == "snapshot":
            assert before[1] == "-c" and before[2] not in image.snapshots
            image.snapshots[before[2]] = (image.data, False)
            return ""
        if before[0] == "map":
            return json.dumps([{"data": image.data is not None}])
        assert before[0] == "info"
        return json.dumps(
            {
                "virtual-size": image.size,
                **(
                    {"snapshots": [{"name": each} for each in image.snapshots]}
                    if image.snapshots
                    else {}
                ),
            }
        )


class Volume:
    """libvirt's handle of an image."""

    def __init__(self, pool, name):
        self._pool, self._name = pool, name

    def name(self):
        return self._name

    def key(self):
        # It is the same for a later image of the name.
        return f"vms/{self._name}"

    def info(self):
        size = self._pool.images[self._name].size
        return [3, size, size]

    def resize(self, size, flags=0):
        assert size > self._pool.images[self._name].size and flags == 0
        self._pool.images[self._name].size = size

    def delete(self, flags=0):
        assert flags == 0
        if self._pool.images[self._name].snapshots:
            refuse(
                libvirt.VIR_ERR_SYSTEM_ERROR,
                f"failed to remove volume 'vms/{self._name}': No such file or directory",
            )
        del self._pool.images[self._name]
        self._pool.known.discard(self._name)
