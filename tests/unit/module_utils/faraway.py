# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Another hypervisor with its own files, seen through libvirt alone.

Domains and networks come from libvirt's test driver. Storage pools are folders below the root of
this host; a shared folder is the same on both hosts. The fake refuses the operations that libvirt
refuses: a pool on a folder that does not exist, a volume that exists, a pool with a name or path in
use, a stopped pool.
"""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET

import libvirt


def refuse(code, text, number=0):
    """Raise the error that libvirt raises."""
    problem = libvirt.libvirtError(text)
    problem.err = (code, 18, text, 2, None, None, None, number, 0)
    raise problem


class Faraway:
    """A connection to the host.

    :param domains: a connection of libvirt's test driver, for everything except storage.
    :param root: the folder with its files.
    :param shared: folders that it shares with this machine.
    """

    def __init__(self, domains, root, shared=()):
        self._domains, self.root, self.shared = domains, str(root), [str(each) for each in shared]
        self.pools, self.secrets, self.downloads = {}, {}, []

    def __getattr__(self, name):
        return getattr(self._domains, name)

    def real(self, path):
        """Return the place of a path of the host on this machine."""
        path = os.path.normpath(path)
        if any((path + "/").startswith(each.rstrip("/") + "/") for each in self.shared):
            return path
        return f"{self.root}{path}"

    def write(self, path, data):
        """Write a file on the host."""
        os.makedirs(os.path.dirname(self.real(path)), exist_ok=True)
        with open(self.real(path), "wb") as file:
            file.write(data)

    def read(self, path):
        """Return the content of a file on the host, or None."""
        try:
            with open(self.real(path), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    # -- libvirt's part -----------------------------------------------------------------------

    def pool(self, name, path, kind="dir", active=True, source=""):
        """Define a pool."""
        self.pools[name] = Pool(self, name, str(path), kind, active, source)

    def listAllStoragePools(self, flags=0):
        return list(self.pools.values())

    def storagePoolLookupByName(self, name):
        if name not in self.pools:
            refuse(
                libvirt.VIR_ERR_NO_STORAGE_POOL,
                f"Storage pool not found: no storage pool with matching name '{name}'",
            )
        return self.pools[name]

    def storagePoolCreateXML(self, text, flags=0):
        root = ET.fromstring(text)
        name, path = root.findtext("name"), root.findtext("target/path")
        if name in self.pools:
            refuse(
                libvirt.VIR_ERR_OPERATION_FAILED,
                f"operation failed: pool '{name}' already exists with uuid x",
            )
        if any(each.path == os.path.normpath(path) for each in self.pools.values()):
            refuse(
                libvirt.VIR_ERR_OPERATION_FAILED,
                "operation failed: Storage source conflict with pool",
            )
        if not os.path.isdir(self.real(path)):
            if not flags & libvirt.VIR_STORAGE_POOL_CREATE_WITH_BUILD:
                refuse(
                    libvirt.VIR_ERR_SYSTEM_ERROR,
                    f"cannot open directory '{path}': No such file or directory",
                    2,
                )
            os.makedirs(self.real(path))
        self.pool(name, path)
        return self.pools[name]

    def secretLookupByUUIDString(self, uuid):
        if uuid not in self.secrets:
            refuse(
                libvirt.VIR_ERR_NO_SECRET,
                f"Secret not found: no secret with matching uuid '{uuid}'",
            )
        return self.secrets[uuid]

    def secretLookupByUsage(self, kind, usage):
        if (kind, usage) not in self.secrets:
            refuse(
                libvirt.VIR_ERR_NO_SECRET,
                f"Secret not found: no secret with matching usage '{usage}'",
            )
        return self.secrets[(kind, usage)]

    def newStream(self, flags=0):
        return Stream()


class Pool:
    """A storage pool."""

    def __init__(self, host, pool_name, path, kind, active, source):
        self.host, self.pool_name, self.path, self.kind, self.active, self.source = (
            host,
            pool_name,
            path,
            kind,
            active,
            source,
        )
        self.known = set()

    def name(self):
        return self.pool_name

    def isActive(self):
        return int(self.active)

    def create(self, flags=0):
        self.active = True

    def destroy(self):
        self.active = False
        # Temporary pools disappear.
        if self.pool_name.startswith("drover-tmp-"):
            del self.host.pools[self.pool_name]

    def XMLDesc(self, flags=0):
        return (
            "<pool"
            f" type='{self.kind}'><name>{self.pool_name}</name><source>{self.source}</source><target><path>{self.path}</path></target></pool>"
        )

    def refresh(self, flags=0):
        if not self.active:
            refuse(
                libvirt.VIR_ERR_OPERATION_INVALID, f"storage pool '{self.pool_name}' is not active"
            )
        folder = self.host.real(self.path)
        self.known = (
            {each for each in os.listdir(folder) if os.path.isfile(os.path.join(folder, each))}
            if os.path.isdir(folder)
            else set()
        )

    def info(self):
        return [2, 1 << 40, 0, 1 << 40]

    def listVolumes(self):
        return sorted(self.known)

    def listAllVolumes(self, flags=0):
        return [Volume(self, name) for name in self.listVolumes()]

    def UUIDString(self):
        return "5e0ae0b4-92a5-4d10-a1f5-5b0a3a7b6d03"

    def autostart(self):
        return 1

    def isPersistent(self):
        return 1

    def storageVolLookupByName(self, name):
        if name not in self.known:
            refuse(
                libvirt.VIR_ERR_NO_STORAGE_VOL,
                f"Storage volume not found: no storage vol with matching name '{name}'",
            )
        return Volume(self, name)

    def createXML(self, text, flags=0):
        root = ET.fromstring(text)
        name = root.findtext("name")
        path = os.path.join(self.host.real(self.path), name)
        if os.path.exists(path):
            refuse(
                libvirt.VIR_ERR_STORAGE_VOL_EXIST, f"storage volume name '{name}' already in use."
            )
        with open(path, "xb") as file:
            image_format = root.find("target/format")
            if image_format is None or image_format.get("type") == "raw":
                file.truncate(int(root.findtext("capacity")))
            else:
                file.write(
                    b"QFI\xfb"
                    + bytes(20)
                    + int(root.findtext("capacity")).to_bytes(8, "big")
                    + bytes(1000)
                )
        self.known.add(name)
        return Volume(self, name)


class Volume:
    """A file as a volume."""

    def __init__(self, pool, name):
        self.pool, self.volume_name = pool, name
        self.file = os.path.join(pool.host.real(pool.path), name)

    def path(self):
        return os.path.join(self.pool.path, self.volume_name)

    def key(self):
        return str(os.stat(self.file).st_ino)

    def _capacity(self):
        with open(self.file, "rb") as file:
            head = file.read(32)
        return (
            int.from_bytes(head[24:32], "big")
            if head[:4] == b"QFI\xfb"
            else os.stat(self.file).st_size
        )

    def info(self):
        return [0, self._capacity(), os.stat(self.file).st_blocks * 512]

    def infoFlags(self, flags):
        return [0, self._capacity(), os.stat(self.file).st_size]

    def XMLDesc(self, flags=0):
        status = os.stat(self.file)
        times = {"mtime": status.st_mtime_ns, "ctime": status.st_ctime_ns}
        # libvirt's dates: nothing after the point if the fraction is zero.
        written = "".join(
            f"<{name}>{time // 10**9}{f'.{time % 10**9:09d}' if time % 10**9 else ''}</{name}>"
            for name, time in times.items()
        )
        with open(self.file, "rb") as file:
            kind = "qcow2" if file.read(4) == b"QFI\xfb" else "raw"
        return (
            "<volume><target><format"
            f" type='{kind}'/><timestamps>{written}</timestamps></target></volume>"
        )

    def delete(self, flags=0):
        os.unlink(self.file)
        self.pool.known.discard(self.volume_name)

    def upload(self, stream, offset, length, flags=0):
        stream.target = self.file

    def download(self, stream, offset, length, flags=0):
        self.pool.host.downloads.append(self.path())
        stream.source, stream.offset = self.file, offset


class Stream:
    """Copy in both directions, with holes."""

    BLOCK = 4096
    offset = 0

    def recv(self, most):
        with open(self.source, "rb") as file:
            file.seek(self.offset)
            piece = file.read(most)
        self.offset += len(piece)
        return piece

    def sendAll(self, data, opaque):
        with open(self.target, "r+b") as file:
            while piece := data(self, 65536, opaque):
                file.write(piece)

    def sparseSendAll(self, data, hole, skip, opaque):
        with open(self.target, "r+b") as file:
            while True:
                in_data, length = hole(self, opaque)
                if not in_data and not length:
                    return
                if not in_data:
                    file.seek(length, os.SEEK_CUR)
                    skip(self, length, opaque)
                    continue
                while length:
                    piece = data(self, min(length, 65536), opaque)
                    file.write(piece)
                    length -= len(piece)

    def sparseRecvAll(self, data, hole, opaque):
        with open(self.source, "rb") as file:
            empty = 0
            while True:
                piece = file.read(self.BLOCK)
                if piece and not piece.strip(b"\0"):
                    empty += len(piece)
                    continue
                if empty:
                    hole(self, empty, opaque)
                    empty = 0
                if not piece:
                    return
                data(self, piece, opaque)

    def finish(self):
        """The transfer is complete."""

    def abort(self):
        """The transfer is aborted."""
