# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Disks of instances in storage pools without files: volumes that libvirt's storage API makes and
that domains name.

Private to the collection. The name of each volume begins with the whole uuid of its instance. This
proves the owner.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

from .._libvirt import binding, missing_drivers
from .._libvirt.binding import LibvirtProblem, host_name, libvirt
from .._libvirt.xml import child_text, keep_prefixes, parse
from . import block_volumes, kinds, rbd
from .kinds import Source
from .shared_storage import disk_id, pool_id

GIB = 2**30

#: A raw volume; name, size in bytes.
VOLUME = (
    "<volume><name>{name}</name><capacity unit='bytes'>{size}</capacity><target><format"
    " type='raw'/></target></volume>"
)


def is_named_for(name: str, uuid: str) -> bool:
    """Return True if the name of a volume begins with the uuid of the instance."""
    return name.startswith(f"{uuid}-")


def check(
    conn: Any,
    pool: str,
    name: str,
    size_gb: int,
    uuid: str | None,
    is_unfinished: Callable[[str], bool],
    is_clone: bool = False,
) -> bool:
    """Return True if the volume is missing and must be made, False if the right one exists.

    :param is_unfinished: a function (key) that returns True if a killed build left a volume that is
        a block device.
    :param is_clone: True if a killed build has begun to make the volume as a clone of an image.
        Then the volume may be smaller, and it has the data of the image.

    :raises LibvirtProblem: the volume cannot be made, or another volume has its name.
    """
    what = f"The volume {name} of the storage pool {pool} on {host_name()}"
    if uuid is None or not is_named_for(name, uuid):
        raise LibvirtProblem(
            f"{what} must have a name that begins with the uuid of its instance, or nothing would"
            " prove whose it is."
        )
    pool_object = find_pool(conn, pool)
    kind = kinds.of_pool(parse(pool_object.XMLDesc(0)))
    if not kind.makes_volumes:
        good = ", ".join(each.name for each in kinds.POOLS if each.makes_volumes)
        raise LibvirtProblem(
            f"{what} cannot be made: the pool is of the type {kind.name}, and volumes are made in"
            f" {good}."
        )
    if not pool_object.isActive():
        raise LibvirtProblem(
            f"{what} cannot be made: the pool does not run. Start it: virsh pool-start"
            f" {shlex.quote(pool)}"
        )
    try:
        pool_object.refresh(0)
        volume = pool_object.storageVolLookupByName(name)
    except libvirt.libvirtError as exc:
        if binding.code_of(exc) == libvirt.VIR_ERR_NO_STORAGE_VOL:
            return True
        raise LibvirtProblem(f"{what} cannot be looked at: {binding.text_of(exc)}.") from exc
    size, is_device = volume.info()[1], kind.maker is kinds.Maker.DEVICE
    # LVM rounds up to its extents.
    reason = (
        f"it has {size / GIB:.2f} GiB, not {size_gb}"
        if size != size_gb * GIB and not (is_device and size // GIB == size_gb)
        else None
    )
    if reason is None and is_device:
        reason = block_volumes.why_held(pool_object, volume)
        if reason is None and not is_unfinished(volume.key()):
            reason = (
                "it may hold data, and nothing proves that a build of this instance has made it and"
                " was cut off"
            )
    elif is_clone and not is_device and size <= size_gb * GIB:
        return False
    elif reason is None and not rbd.is_empty(conn, pool_object, name):
        reason = "it holds data"
    if reason:
        raise LibvirtProblem(
            f"{what} is there already and is not the requested disk: {reason}. Nothing was"
            f" overwritten. If nobody needs it: virsh vol-delete {shlex.quote(name)}"
            f" {shlex.quote(pool)}"
        )
    # The volume is empty or unused, and its name has the uuid of the instance: a build was cut off.
    return False


def make(conn: Any, pool: str, name: str, size_gb: int) -> None:
    """Make an empty volume.

    :raises LibvirtProblem: the volume cannot be made, or another process has just made it.
    """
    pool_object = find_pool(conn, pool)
    is_device = kinds.of_pool(parse(pool_object.XMLDesc(0))).maker is kinds.Maker.DEVICE
    text = (
        block_volumes.volume_xml(name, size_gb * GIB)
        if is_device
        else VOLUME.format(name=name, size=size_gb * GIB)
    )
    try:
        pool_object.createXML(text, 0)
    except libvirt.libvirtError as exc:
        raise LibvirtProblem(
            f"The volume {name} of the storage pool {pool} cannot be made on {host_name()}:"
            f" {binding.text_of(exc)}."
        ) from exc


def fill(conn: Any, pool: str, name: str, file: str, file_format: str) -> None:
    """Copy an image file into an empty volume.

    :raises LibvirtProblem: the copy fails.
    """
    pool_object = find_pool(conn, pool)
    path = block_volumes.path_in(parse(pool_object.XMLDesc(0)), name)
    if path is not None:
        block_volumes.fill(path, file, file_format)
    else:
        rbd.fill(conn, pool_object, name, file, file_format)


def find_pool(conn: Any, name: str) -> Any:
    """Return libvirt's handle of a pool.

    :raises LibvirtProblem: libvirt has no pool of this name.
    """
    try:
        return conn.storagePoolLookupByName(name)
    except libvirt.libvirtError as exc:
        raise LibvirtProblem(
            f"The storage pool {name} is not known on {host_name()}: {binding.text_of(exc)}."
        ) from exc


def with_sources(conn: Any, text: str) -> str:
    """Return domain XML with RBD volumes as disks on the network, and with volumes that are block
    devices as disks by path.

    libvirt starts no domain that names a volume of an RBD pool. A disk on the network has the
    servers of the pool.

    :raises LibvirtProblem: an RBD pool names no monitors.
    """
    root, changed = parse(text), False
    for disk in root.findall("devices/disk"):
        if kinds.of_disk(disk).source is not Source.VOLUME:
            continue
        source = disk.find("source")
        name, volume = (
            (source.get("pool"), source.get("volume")) if source is not None else (None, None)
        )
        if source is None or not name or not volume:
            continue
        pool = parse(find_pool(conn, name).XMLDesc(0))
        path = block_volumes.path_in(pool, volume)
        if path is not None:
            block_volumes.as_device(disk, path)
            changed = True
        if kinds.of_pool(pool).maker is not kinds.Maker.CEPH:
            continue
        origin = pool.find("source")
        servers = origin.findall("host") if origin is not None else []
        if origin is None or not servers:
            raise LibvirtProblem(
                f"The storage pool {name} on {host_name()} names no monitors (host in its source),"
                " so no domain can have a disk there. Add them."
            )
        disk.set("type", "network")
        source.attrib.clear()
        source.set("protocol", "rbd")
        source.set("name", f"{child_text(origin, 'name')}/{volume}")
        for server in servers:
            found = {key: value for key, value in server.attrib.items() if key in ("name", "port")}
            # A pool has an IPv6 address in brackets, and QEMU adds them to the address of a disk.
            ET.SubElement(source, "host", {key: value.strip("[]") for key, value in found.items()})
        auth = origin.find("auth")
        secret = auth.find("secret") if auth is not None else None
        if auth is not None and secret is not None:
            given = ET.SubElement(disk, "auth", {"username": auth.get("username", "")})
            ET.SubElement(given, "secret", {"type": "ceph", **secret.attrib})
        changed = True
    if not changed:
        return text
    keep_prefixes(text)
    return ET.tostring(root, encoding="unicode")


def of_disk(conn: Any, element: Any) -> tuple[str, str] | None:
    """Return (pool, volume) of a ``<disk>`` in a pool of this host in which drover makes
    volumes; None for other disks.

    :raises libvirt.libvirtError: the pools cannot be read.
    """
    source, kind = element.find("source"), kinds.of_disk(element).source
    if source is None:
        return None
    if kind is Source.VOLUME:
        name, volume = source.get("pool"), source.get("volume")
        root = parse(conn.storagePoolLookupByName(name).XMLDesc(0))
        return (name, volume) if kinds.of_pool(root).makes_volumes else None
    if kind is Source.DEVICE:
        return block_volumes.at(conn, source.get("dev") or "")
    text = disk_id(source) if kind is Source.SERVER else None
    for pool in missing_drivers.listed(conn.listAllStoragePools, 0) if text else ():
        root = parse(pool.XMLDesc(0))
        share = pool_id(root)
        is_ours = kinds.of_pool(root).makes_volumes
        if is_ours and share and text and text.startswith(f"{share}/"):
            return pool.name(), text[len(share) + 1 :]
    return None
