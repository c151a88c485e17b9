# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The present or future place of a disk: a file, or a volume of a pool without files, which libvirt
makes and removes.

Private to the collection. The name of a volume that is made begins with the uuid of its instance,
which proves its owner.
"""

from __future__ import annotations

import shlex
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

from .._devices import attached_files
from .._domain.definition import parse_disk
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, host_name, libvirt
from .._libvirt.xml import parse
from .._ownership.needs import Needs
from .._storage import block_volumes, kinds, volumes
from .._storage.kinds import Source

#: libvirt's format of a volume.
RAW = "raw"


class DiskPlace(NamedTuple):
    """A place of a disk.

    name: as the facts of a domain have its source. type: of the disk there, such as file. volume:
    pool and volume, None of a file. xml: a disk of a domain at that place, None of a file.
    """

    name: str
    type: str = "file"
    volume: tuple[str, str] | None = None
    xml: Any = None

    @property
    def source(self) -> Source:
        """The source of the disk there."""
        return kinds.disk(self.type).source

    @property
    def origin(self) -> str | None:
        """The identity of the place on the network, None if it is not on the network."""
        return None if self.xml is None else parse_disk(self.xml).get("origin")


def of_volume(conn: Any, pool: str, name: str) -> DiskPlace:
    """Return the place of a volume of a pool. The volume need not exist yet.

    :raises LibvirtProblem: the pool is not there, or no domain can have a disk in it.
    """
    domain = ET.Element("domain")
    disk = ET.SubElement(
        ET.SubElement(domain, "devices"), "disk", {"type": "volume", "device": "disk"}
    )
    ET.SubElement(disk, "driver", {"name": "qemu", "type": RAW})
    ET.SubElement(disk, "source", {"pool": pool, "volume": name})
    xml = next(
        parse(volumes.with_sources(conn, ET.tostring(domain, encoding="unicode"))).iter("disk")
    )
    found = parse_disk(xml)
    return DiskPlace(str(found["source"]), str(found["type"]), (pool, name), xml)


def refuse(conn: Any, uuid: str, place: DiskPlace) -> None:
    """Refuse a volume that exists, or that another user names.

    :param uuid: the uuid of the domain that gets it.
    """
    pool, name = place.volume or ("", "")
    what = f"The volume {name} of the storage pool {pool} on {host_name()}"
    pool_object = volumes.find_pool(conn, pool)
    if not pool_object.isActive():
        raise LibvirtProblem(
            f"The storage pool {pool} on {host_name()} is not active: start it with virsh"
            f" pool-start {shlex.quote(pool)}."
        )
    pool_object.refresh(0)
    if name in pool_object.listVolumes():
        raise LibvirtProblem(
            f"{what} exists already. Nothing was overwritten: if nobody needs it, remove it with"
            f" virsh vol-delete {shlex.quote(name)} {shlex.quote(pool)}, or choose another"
            " destination."
        )
    if place.source is Source.DEVICE:
        attached_files.refuse_used(
            conn, None, place.name, attached_files.look_at(place.name), False
        )
        return
    why = Needs(conn, uuid).why_volume(name)
    if why:
        raise LibvirtProblem(f"{what} would be in use: {why}. Choose another destination.")


def refuse_without_space(conn: Any, place: DiskPlace, size: int) -> None:
    """Refuse a volume if its pool has too little space."""
    pool = place.volume[0] if place.volume else ""
    free = int(volumes.find_pool(conn, pool).info()[3])
    if free < size:
        raise LibvirtProblem(
            f"The storage pool {pool} on {host_name()} has {free >> 20} MiB free, and the copy"
            f" takes {-(-size // 2**20)} MiB: make room there, or choose another destination."
        )


def create(conn: Any, place: DiskPlace, size: int) -> tuple[str, int]:
    """Make the volume; libvirt refuses if there is one of its name.

    :returns: libvirt's key of it, and its size.
    """
    pool, name = place.volume or ("", "")
    text = (
        block_volumes.volume_xml(name, size)
        if place.source is Source.DEVICE
        else volumes.VOLUME.format(name=name, size=size)
    )
    volume = volumes.find_pool(conn, pool).createXML(text, 0)
    return str(volume.key()), int(volume.info()[1])


def is_there(conn: Any, place: DiskPlace) -> bool:
    """Return True if a volume of that name exists, or if this cannot be found out."""
    pool, name = place.volume or ("", "")
    try:
        found = conn.storagePoolLookupByName(pool)
        found.refresh(0)
        return name in found.listVolumes()
    except libvirt.libvirtError:
        return True


def why_not(conn: Any, place: DiskPlace, key: str | None) -> str | None:
    """Return the reason why a volume is not the one of this key, in words; None if it is."""
    pool, name = place.volume or ("", "")
    try:
        found = conn.storagePoolLookupByName(pool)
        found.refresh(0)
        volume_key = found.storageVolLookupByName(name).key()
    except libvirt.libvirtError as exc:
        if binding.code_of(exc) == libvirt.VIR_ERR_NO_STORAGE_VOL:
            return f"the copy is not at {place.name} any more"
        return f"whether the copy is at {place.name} cannot be told ({binding.text_of(exc)})"
    return (
        None
        if volume_key == key
        else f"{place.name} is not the volume any more to which it was copied"
    )
