# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Volumes of storage pools that are block devices of this host: LVM and ZFS, with names that the
caller can choose.

Private to the collection. The content of such a volume proves nothing: a new volume has old data of
removed volumes.
"""

from __future__ import annotations

import errno
import os
import posixpath
import shlex
import subprocess
from typing import Any, TypedDict, final

from .._files import access, qemu_img
from .._libvirt import binding, missing_drivers
from .._libvirt.binding import LibvirtProblem, host_name, libvirt
from .._libvirt.xml import child_text, parse
from . import kinds

SYSFS = "/sys"

#: Seconds that qemu-img may take to fill a volume.
FILLING = 3600


def path_in(root: Any, name: str) -> str | None:
    """Return the path of the device of a volume, existing or not; None if the pool has no such
    devices.

    :param root: the XML of the pool.
    """
    folder = child_text(root, "target/path") if _has_devices(root) else None
    return posixpath.join(folder, name) if folder else None


def _has_devices(root: Any) -> bool:
    return kinds.of_pool(root).maker is kinds.Maker.DEVICE


def at(conn: Any, path: str) -> tuple[str, str] | None:
    """Return (pool, volume) of a device by libvirt's path; None if the device is in no pool
    of such volumes.

    :raises libvirt.libvirtError: the pools cannot be read.
    """
    folder, name = posixpath.split(posixpath.normpath(path))
    for pool in missing_drivers.listed(conn.listAllStoragePools, 0):
        found = path_in(parse(pool.XMLDesc(0)), name)
        if found and posixpath.dirname(posixpath.normpath(found)) == folder:
            return pool.name(), name
    return None


def device_of(conn: Any, pool: str, name: str) -> str | None:
    """Return the path of the device of a volume of this host; None if the pool has no such devices.

    :raises libvirt.libvirtError: the pool cannot be read.
    """
    return path_in(parse(conn.storagePoolLookupByName(pool).XMLDesc(0)), name)


def as_device(disk: Any, path: str) -> None:
    """Change a disk of a domain from its volume to the device of the volume.

    Then the domain starts even if libvirt does not know the pool.
    """
    disk.set("type", "block")
    source = disk.find("source")
    source.attrib.clear()
    source.set("dev", path)


def is_device(conn: Any, pool: str) -> bool:
    """Return True if the volumes of a pool are block devices of this host; False if the pool cannot
    be read.
    """
    try:
        return _has_devices(parse(conn.storagePoolLookupByName(pool).XMLDesc(0)))
    except libvirt.libvirtError:
        return False


def key_of(conn: Any, pool: str, name: str) -> str | None:
    """Return the identity of a volume: the uuid from LVM, which a later volume of this name does
    not have.

    Return None if the volume cannot be found.

    The key of a volume of ZFS is its path.
    """
    try:
        return conn.storagePoolLookupByName(pool).storageVolLookupByName(name).key()
    except libvirt.libvirtError:
        return None


def why_held(pool: Any, volume: Any) -> str | None:
    """Return the reason why this host itself uses a volume, in words; None if the host does not.

    Such a volume is not removed, independent of its owner.

    :param pool, volume: libvirt's handles.
    :raises libvirt.libvirtError: libvirt cannot read the pool or the volume.
    """
    path = volume.path()
    for other in pool.listAllVolumes(0):
        # Removing the origin of a snapshot of LVM removes the snapshot.
        if child_text(parse(other.XMLDesc(0)), "backingStore/path") == path:
            return f"its snapshot {other.name()} needs it"
    try:
        return access.call(_holder, path)
    except (OSError, access.Unresponsive) as exc:
        return f"it cannot be looked at ({exc})"


def _holder(path: str) -> str | None:
    try:
        number = os.stat(path).st_rdev
        holders = os.path.join(
            SYSFS, "dev/block", f"{os.major(number)}:{os.minor(number)}", "holders"
        )
        names = sorted(os.listdir(holders)) if os.path.isdir(holders) else []
        if names:
            return f"the device {names[0]} of this host is on it"
        # A program that mounts a device, swaps to it or makes another device of it opens it
        # exclusively. QEMU does not.
        os.close(os.open(path, os.O_RDONLY | os.O_EXCL))
    except FileNotFoundError:
        return None
    except OSError as exc:
        if exc.errno != errno.EBUSY:
            raise
        return "this host itself uses it: it is mounted, swap space, or part of another device"
    return None


def fill(path: str, file: str, file_format: str) -> None:
    """Copy the content of an image file into a device of at least the same size. Write the zeros
    too.

    :raises LibvirtProblem: the copy fails.
    """
    try:
        done = qemu_img.run(
            ["convert", "-n", "-t", "none", "-f", file_format, "-O", "raw", file, path], FILLING
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise LibvirtProblem(
            f"{file} cannot be copied into {path} on {host_name()}: {exc}."
        ) from exc
    if done.returncode:
        why = (done.stderr.strip() or f"exit status {done.returncode}").rpartition("\n")[2]
        raise LibvirtProblem(f"{file} cannot be copied into {path} on {host_name()}: {why}.")


@final
class VolumeStat(TypedDict):
    """A volume, as libvirt reports it."""

    #: Bytes.
    capacity: int
    key: str


class Volumes:
    """The volumes of a pool of the hypervisor behind ``conn``, with access only through libvirt.

    The class has those methods of Folder (_ownership.folder) that a move needs. Every method raises
    LibvirtProblem.

    :param where: the host, for messages.
    """

    def __init__(self, conn: Any, pool: str, where: str) -> None:
        self._conn, self._name, self._where = conn, pool, where

    def stat(self, name: str) -> VolumeStat | None:
        """Return ``{capacity, key}`` of a volume (capacity in bytes); None without the volume."""
        pool = self._pool()
        volume = self._volume(pool, name)
        return None if volume is None else {"capacity": int(volume.info()[1]), "key": volume.key()}

    def room(self) -> int:
        """Return the free bytes of the pool."""
        return int(self._pool().info()[3])

    def create(self, name: str, capacity: int) -> str:
        """Make a volume and return its key. libvirt refuses if a volume of this name exists."""
        try:
            return self._pool().createXML(volume_xml(name, capacity), 0).key()
        except libvirt.libvirtError as exc:
            raise self._problem(exc) from exc

    def upload(self, name: str, path: str, size: int, progress: Any) -> None:
        """Fill a volume from a device of this host. Call ``progress(bytes)`` now and then."""
        volume = self._volume(self._pool(), name)
        if volume is None:
            raise LibvirtProblem(
                f"the volume {name} has vanished from the pool {self._name} of {self._where} while"
                " it was filled"
            )
        stream, done = self._conn.newStream(0), [0]

        def piece(_stream: Any, count: int, descriptor: int) -> bytes:
            data = os.read(descriptor, min(count, size - done[0]))
            done[0] += len(data)
            progress(done[0])
            return data

        descriptor = os.open(path, os.O_RDONLY)
        try:
            volume.upload(stream, 0, size, 0)
            try:
                stream.sendAll(piece, descriptor)
                stream.finish()
            except BaseException:
                try:
                    stream.abort()
                except libvirt.libvirtError:
                    pass
                raise
        except libvirt.libvirtError as exc:
            raise self._problem(exc) from exc
        finally:
            os.close(descriptor)
        if done[0] != size:
            raise LibvirtProblem(f"only {done[0]} of {size} bytes of {path} could be read")

    def volume(self, name: str) -> Any:
        """Return libvirt's handle of a volume; None without the volume."""
        return self._volume(self._pool(), name)

    def _pool(self) -> Any:
        try:
            pool = self._conn.storagePoolLookupByName(self._name)
            root = parse(pool.XMLDesc(0))
            if not _has_devices(root):
                good = [each.name for each in kinds.POOLS if each.maker is kinds.Maker.DEVICE]
                raise LibvirtProblem(
                    f"the storage pool {self._name} of {self._where} is of the type"
                    f" {root.get('type')}, not of {' or '.join(good)}"
                )
            if not pool.isActive():
                raise LibvirtProblem(
                    f"the storage pool {self._name} is not active on {self._where}: start it there"
                    f" (virsh pool-start {shlex.quote(self._name)})"
                )
            pool.refresh(0)
        except libvirt.libvirtError as exc:
            if binding.code_of(exc) == libvirt.VIR_ERR_NO_STORAGE_POOL:
                raise LibvirtProblem(
                    f"the storage pool {self._name} does not exist on {self._where}: define it"
                    " there"
                ) from exc
            raise self._problem(exc) from exc
        return pool

    def _volume(self, pool: Any, name: str) -> Any:
        try:
            return pool.storageVolLookupByName(name)
        except libvirt.libvirtError as exc:
            if binding.code_of(exc) == libvirt.VIR_ERR_NO_STORAGE_VOL:
                return None
            raise self._problem(exc) from exc

    def _problem(self, exc: Exception) -> LibvirtProblem:
        text = (
            f"libvirt of {self._where} cannot work in the storage pool {self._name}:"
            f" {binding.text_of(exc)}"
        )
        return LibvirtProblem(text, binding.code_of(exc))


def volume_xml(name: str, capacity: int) -> str:
    """Return the XML of a volume with all its space allocated from the beginning."""
    name = name.replace("&", "&amp;").replace("<", "&lt;")
    return f"<volume><name>{name}</name><capacity unit='bytes'>{int(capacity)}</capacity></volume>"
