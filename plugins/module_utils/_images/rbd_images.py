# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Images in a pool of Ceph. The disks of instances are clones of these images. An image is filled
once and never written to again.

Private to the collection. The name of such an image has the digits of the checksum of its file and
a random end. So only one build ever writes to the image: the build that has made it. After the
image is filled, the build makes the snapshot WHOLE. Only images with this snapshot are cloned. A
name proves nothing about the content: before its first clone of an image of another host, a host
compares image and file. libvirt clones from the snapshot and protects it. Until the image is
filled, this host has a note about it, and the build and its qemu-img hold a lock. So the next build
on this host finds and removes the image of a killed build.
"""

from __future__ import annotations

import json
import os
import secrets
from typing import Any

from .._libvirt import binding, missing_drivers
from .._libvirt.binding import LibvirtProblem, host_name, libvirt
from .._libvirt.xml import parse
from .._orders.records import Records
from .._ownership import ownership
from .._ownership.move_record import KeptFile
from .._storage import kinds, rbd
from .._storage.kinds import Maker
from .._storage.volumes import GIB, VOLUME, find_pool

#: The name of the snapshot of a complete image.
WHOLE = "drover-whole"

#: The digits of the checksum in a name. Ceph requires names shorter than 96 characters.
DIGITS = 64

#: The endings of the notes of an image that is being filled, and of an image with content that this
#: host has checked.
_NOTE, _SEEN = ".image", ".image-seen"


def can_clone(conn: Any, pool: str) -> bool:
    """Return True if disks in a pool can be clones."""
    return kinds.of_pool(parse(find_pool(conn, pool).XMLDesc(0))).maker is Maker.CEPH


def bring(conn: Any, pool: str, digits: str, file: str, file_format: str, size: int) -> str:
    """Return the name of a whole image in a pool, which is filled from a file if there is none.

    :param digits: the digits of the checksum of the file.
    :param size: the size of the image in bytes for guests.
    :raises LibvirtProblem: it cannot be made. Nothing is left of it, or the next build removes it.
    """
    records = Records()
    pool_object = find_pool(conn, pool)
    name = f"{rbd.IMAGE}{digits[:DIGITS]}-{secrets.token_hex(4)}"
    try:
        records.prepare()
        _drop_left(conn, records)
        whole_image = _find_complete_image(conn, pool_object, records, digits, file, file_format)
        if whole_image is not None:
            return whole_image
        lock = records.lock(_lock(name))
        if lock is None:
            raise LibvirtProblem(
                f"The image {name} on {host_name()} is being made by another process."
            )
        try:
            _write_note(records, name, pool)
            try:
                pool_object.createXML(VOLUME.format(name=name, size=size), 0)
                rbd.fill(conn, pool_object, name, file, file_format, [lock])
                # Another host may have made an image in the meantime.
                whole_image = _find_complete_image(
                    conn, pool_object, records, digits, file, file_format
                )
                if whole_image is None:
                    rbd.make_snapshot(conn, pool_object, name, WHOLE)
                    _write_note(records, name, pool, _SEEN)
            except BaseException:
                _drop_image(conn, records, pool, name)
                raise
            if whole_image is None:
                ownership.drop_state(_path_of_note(records, name))
            else:
                _drop_image(conn, records, pool, name)
        finally:
            os.close(lock)
        return whole_image or name
    except (libvirt.libvirtError, OSError) as exc:
        why = binding.text_of(exc)
        raise LibvirtProblem(
            f"The image {name} cannot be made in the storage pool {pool} on {host_name()}: {why}."
        ) from exc


def clone(conn: Any, pool: str, name: str, image: str) -> None:
    """Make a volume as a clone of a complete image, with the size of the image.

    :raises LibvirtProblem: the clone cannot be made.
    """
    pool_object = find_pool(conn, pool)
    try:
        source = pool_object.storageVolLookupByName(image)
        pool_object.createXMLFrom(VOLUME.format(name=name, size=source.info()[1]), source, 0)
    except libvirt.libvirtError as exc:
        raise LibvirtProblem(
            f"The volume {name} of the storage pool {pool} cannot be cloned from {image} on"
            f" {host_name()}: {binding.text_of(exc)}."
        ) from exc


def finish(conn: Any, pool: str, name: str, size_gb: int) -> bool:
    """Make a clone as large as its disk.

    :returns: True if it has data. A host that loses its power may leave a clone without its image.
    :raises LibvirtProblem: it cannot have that size, or cannot be read.
    """
    pool_object = find_pool(conn, pool)
    try:
        volume = pool_object.storageVolLookupByName(name)
        if volume.info()[1] < size_gb * GIB:
            volume.resize(size_gb * GIB, 0)
    except libvirt.libvirtError as exc:
        raise LibvirtProblem(
            f"The volume {name} of the storage pool {pool} cannot be made {size_gb} GiB large on"
            f" {host_name()}: {binding.text_of(exc)}."
        ) from exc
    return not rbd.is_empty(conn, pool_object, name)


def _find_complete_image(
    conn: Any, pool: Any, records: Records, digits: str, file: str, file_format: str
) -> str | None:
    """Return the name of a complete image with the content of the file; None without such an
    image.
    """
    pool.refresh(0)
    for name in sorted(
        each for each in pool.listVolumes() if each.startswith(f"{rbd.IMAGE}{digits[:DIGITS]}-")
    ):
        if WHOLE not in rbd.snapshots(conn, pool, name):
            continue
        if os.path.exists(_path_of_note(records, name, _SEEN)):
            return name
        if rbd.has_content(conn, pool, name, WHOLE, file, file_format):
            _write_note(records, name, pool.name(), _SEEN)
            return name
    return None


def kept(conn: Any) -> list[KeptFile]:
    """Return the images for clones in the pools of this host: dicts path and reason. No cleaning
    removes these images.
    """
    images: list[KeptFile] = []
    for pool in missing_drivers.listed(
        conn.listAllStoragePools, libvirt.VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE
    ):
        if kinds.of_pool(parse(pool.XMLDesc(0))).maker is not Maker.CEPH:
            continue
        for name in sorted(each for each in pool.listVolumes() if each.startswith(rbd.IMAGE)):
            try:
                is_whole = WHOLE in rbd.snapshots(conn, pool, name)
                reason = (
                    "only Ceph knows which disks are clones of it"
                    if is_whole
                    else "it is not whole: a build fills it, or was killed"
                )
            except LibvirtProblem as exc:
                reason = str(exc).rstrip(".")
            images.append({"path": f"{pool.name()}/{name}", "reason": reason})
    return images


# -- the rest of a killed build --------------------------------------------------------


def _drop_left(conn: Any, records: Records) -> None:
    """Remove the incomplete images of builds of this host if no process still fills them."""
    for file_name in sorted(os.listdir(records.folder)):
        if not file_name.startswith(rbd.IMAGE) or not file_name.endswith(_NOTE):
            continue
        name = file_name[: -len(_NOTE)]
        lock = records.lock(_lock(name))
        if lock is None:
            continue
        try:
            with open(_path_of_note(records, name), encoding="utf-8") as file:
                pool = json.load(file)["pool"]
            _drop_image(conn, records, pool, name)
        except (OSError, ValueError, KeyError, TypeError):
            # Another build has just removed the note, or it was never written: then no image was
            # made.
            continue
        finally:
            os.close(lock)


def _drop_image(conn: Any, records: Records, pool: str, name: str) -> None:
    """Remove an incomplete image, and its note after the image. The caller has the lock of the
    image.
    """
    try:
        pool_object = find_pool(conn, pool)
        pool_object.refresh(0)
        gone = name not in pool_object.listVolumes()
        if (
            gone
            or WHOLE in rbd.snapshots(conn, pool_object, name)
            or ownership.drop_image(conn, pool, name)
        ):
            ownership.drop_state(_path_of_note(records, name))
    except (LibvirtProblem, libvirt.libvirtError):
        # Ceph does not remove the image yet: a killed program still counts as a user for a while.
        return


def _lock(name: str) -> str:
    # The full name is too long for the name of a lock.
    return f"image-{name.rpartition('-')[2]}"


def _path_of_note(records: Records, name: str, ending: str = _NOTE) -> str:
    return os.path.join(records.folder, name + ending)


def _write_note(records: Records, name: str, pool: str, ending: str = _NOTE) -> None:
    with open(_path_of_note(records, name, ending), "w", encoding="utf-8") as file:
        json.dump({"pool": pool}, file)
        file.flush()
        os.fsync(file.fileno())
