# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The destination of a disk, and the file that is made there for it.

Private to the collection. A file is never overwritten: it is made under a temporary name, and then
linked to its real name.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule

from .._devices import attached_files
from .._files import access
from .._files.image_info import ImageInfo
from .._files.mounts import all_mounts, mount_of
from .._images import contents, images
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, host_name, libvirt
from .._libvirt.xml import parse
from .._ownership.needs import folder_of
from .._storage import backing as _backing
from .._storage import kinds

#: File systems that are empty after a reboot.
MEMORY = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")


class DiskImage(NamedTuple):
    """The image of a disk.

    size: virtual, in bytes. needs: the bytes that a copy takes now. backing, backing_format: of the
    file behind it that the copy keeps; None if the copy has all data. options: of qemu-img create,
    as -o takes them. is_device: it is a block device.
    """

    path: str
    format: str
    size: int
    needs: int
    backing: str | None
    backing_format: str | None
    options: str
    is_device: bool


def is_of_volumes(conn: Any, pool: str) -> bool:
    """Return True if a destination is a storage pool without files, in which volumes are made.

    :raises LibvirtProblem: there is no such pool.
    """
    return (
        not os.path.isabs(pool)
        and kinds.of_pool(parse(_find_pool(conn, pool).XMLDesc(0))).makes_volumes
    )


def folder(conn: Any, pool: str) -> str:
    """Return the folder of a destination.

    :param pool: the name of a storage pool, or the absolute path of a folder.
    :raises LibvirtProblem: there is no such pool or folder, or it does not take files.
    """
    if os.path.isabs(pool):
        path: str | None = os.path.normpath(attached_files.checked_path(pool))
    else:
        path = _folder_of_pool(conn, pool)
    try:
        is_there = path is not None and access.call(os.path.isdir, path)
    except access.Unresponsive as exc:
        raise LibvirtProblem(f"The folder of the destination cannot be looked at: {exc}") from exc
    if path is None or not is_there:
        raise LibvirtProblem(
            f"The folder {path} does not exist on {host_name()}: make or mount it first, or choose"
            " another destination."
        )
    return path


def _folder_of_pool(conn: Any, name: str) -> str | None:
    pool = _find_pool(conn, name)
    if not pool.isActive():
        raise LibvirtProblem(
            f"The storage pool {name} on {host_name()} is not active: start it with virsh"
            f" pool-start {shlex.quote(name)}."
        )
    kind, good = kinds.of_pool(parse(pool.XMLDesc(0))), kinds.made_in()
    if kind.form is not kinds.Form.FOLDER:
        raise LibvirtProblem(
            f"The storage pool {name} on {host_name()} is of the type {kind.name}, and no disk is"
            f" moved there: choose a pool of the type {', '.join(good[:-1])} or {good[-1]}."
        )
    return folder_of(pool)


def _find_pool(conn: Any, name: str) -> Any:
    try:
        return conn.storagePoolLookupByName(name)
    except libvirt.libvirtError as exc:
        if binding.code_of(exc) != libvirt.VIR_ERR_NO_STORAGE_POOL:
            raise
        raise LibvirtProblem(
            f"There is no storage pool {name} on {host_name()}: correct the name, or define the"
            " pool there."
        ) from exc


def image(
    module: AnsibleModule,
    path: str,
    image_format: str,
    is_device: bool,
    whole: bool = False,
    runs: bool = False,
) -> DiskImage:
    """Read the image of a disk.

    :param whole: its copy has no image behind it.
    :param runs: the guest runs, and libvirt copies it.
    :raises LibvirtProblem: its kind cannot be copied; or for the reasons of ImageProblem.
    """
    info = images.image_info(module, path, image_format)
    data = (info.get("format-specific") or {}).get("data") or {}
    lost = contents.left_out(info, contents.RUNNING if runs else contents.CONVERTED)
    if lost:
        raise LibvirtProblem(f"The image {path} on {host_name()} {lost[0]}.")
    attached_files.refuse_unknown_format(module, path, info)
    behind = info.get("full-backing-filename") or info.get("backing-filename")
    kept = behind if behind and not whole and _is_file(behind) else None
    needs = int(info.get("actual-size", 0))
    if is_device:
        needs = int(info["virtual-size"])
    elif behind and kept is None:
        needs = images.needed(module, path, image_format)
    backing_format = info.get("backing-filename-format") if kept else None
    return DiskImage(
        path,
        image_format,
        int(info["virtual-size"]),
        needs,
        kept,
        backing_format,
        _options(info, data),
        is_device,
    )


def image_on_network(domain: Any, target: str, path: str) -> DiskImage:
    """Return the image of a disk that QEMU reaches by the network, of a guest that runs."""
    size = int(domain.blockInfo(target, 0)[0])
    return DiskImage(path, "raw", size, size, None, None, "", True)


def _is_file(path: str) -> bool:
    try:
        return os.path.isabs(path) and access.call(os.path.isfile, path)
    except access.Unresponsive:
        return False


def _options(info: ImageInfo, data: Mapping[str, object]) -> str:
    """Return the options that a new image takes over from the old one."""
    if info["format"] != "qcow2":
        return ""
    options = [
        f"compat={data['compat']}" if data.get("compat") else "",
        f"cluster_size={info['cluster-size']}" if info.get("cluster-size") else "",
    ]
    options += [
        f"extended_l2={'on' if data['extended-l2'] else 'off'}" if "extended-l2" in data else ""
    ]
    return ",".join(each for each in options if each)


def refuse(
    conn: Any, destination: str, image_to_copy: DiskImage, looked_up: list[str] | None
) -> None:
    """Refuse a destination that is in memory, exists already, is needed by a user, or has too
    little space.
    """
    place = os.path.dirname(destination)
    mount = mount_of(access.call(os.path.realpath, place), all_mounts())
    if mount is not None and mount[2] in MEMORY:
        raise LibvirtProblem(
            f"The folder {place} on {host_name()} is in memory ({mount[2]}), and a disk there would"
            " be lost when the host reboots: choose another destination."
        )
    sighting = attached_files.look_at(destination)
    if sighting.status is not None or sighting.is_link:
        raise LibvirtProblem(
            f"The file {destination} exists on {host_name()} already. Nothing was overwritten: move"
            " it away, or choose another destination."
        )
    attached_files.refuse_other_file(looked_up, destination, sighting.real)
    attached_files.refuse_used(conn, None, destination, sighting, False)
    try:
        status = access.call(os.statvfs, place)
    except (OSError, access.Unresponsive) as exc:
        raise LibvirtProblem(
            f"The free space of {place} on {host_name()} cannot be read: {_backing.reason_of(exc)}."
        ) from exc
    free = status.f_bavail * status.f_frsize
    if free < image_to_copy.needs:
        raise LibvirtProblem(
            f"{place} on {host_name()} has {free >> 20} MiB free, and the copy takes"
            f" {-(-image_to_copy.needs // 2**20)} MiB: make room there, or choose another"
            " destination."
        )


def begin_part(part: str) -> list[int]:
    """Make the empty file that becomes the copy.

    :returns: its device and inode.
    """
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        return _identity(os.fstat(descriptor))
    finally:
        os.close(descriptor)


def identity(path: str) -> list[int]:
    """Return the device and the inode of a file."""
    return _identity(os.stat(path))


def _identity(found: os.stat_result) -> list[int]:
    return [found.st_dev, found.st_ino]


def like(path: str, other: str) -> None:
    """Give a file the owner and the mode of another one."""
    status = os.stat(other)
    os.chmod(path, status.st_mode & 0o777)
    try:
        os.chown(path, status.st_uid, status.st_gid)
    except PermissionError:
        # On NFS, root may have no rights; then libvirt and its QEMU manage without them for each
        # file. Then libvirt and its QEMU work with that for each file.
        pass
