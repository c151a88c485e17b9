# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check that the disks of another host's domain are the same here as they were there.

Private to the collection. The domain is known from when its host was last seen. Since then a
snapshot of a disk may have been made, and the image behind it there may be another image here.
"""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Iterable, Sequence
from typing import Any, TypedDict

from .._domain.definition import parse_disk
from .._domain.facts import DomainDisk
from .._files import access, block_devices, digests
from .._libvirt import binding
from .._libvirt.binding import libvirt
from .._libvirt.xml import parse
from .._ownership.move_record import Mdev
from .._ownership.needs import Needs, look, volume_path
from .._snapshots import snapshots
from .._storage import backing, kinds, sources
from .._storage.kinds import Form, Source
from .._storage.shared_storage import path_id, pool_id, read_mounts, volume_id

#: Identities that an operator gives; hosts do not show them.
DECLARED = ("declared:", "device:declared:")


class Surroundings:
    """The needs of this host's domains and of the images in its folders, read once for all domains
    to start.

    :param conn: libvirt of this host.
    :param but: the uuid of a domain with needs that do not count, because it has a definition here
        already.
    """

    def __init__(self, conn: Any, but: str | None = None) -> None:
        self._conn, self._but, self._lock = conn, but, threading.Lock()
        self._needs: Needs | None = None

    def user(self, path: str) -> tuple[str, str] | None:
        """Return the user of a file for a disk, or the image that is backed by it: who and how, or
        None.
        """
        with self._lock:
            if self._needs is None:
                self._needs = Needs(self._conn, self._but)
            found = look(path)
            self._needs.look_around([os.path.dirname(found.real)])
            return self._needs.user(path, found)


class Layer(TypedDict):
    """An image behind a disk, as discovery has recorded it."""

    path: str
    shared: bool
    #: The digest of its content; None if it was not recorded.
    digest: str | None


class _Target(TypedDict):
    target: str


class DiskImage(_Target, total=False):
    """The storage of a disk, as discovery has recorded it."""

    #: None if it was not recorded.
    identity: str | None
    behind: list[Layer] | None
    #: The disk itself, if the guest starts from an image over it.
    over: str


class _Ordered(TypedDict):
    uuid: str
    name: str
    xml: str
    running: bool
    autostart: bool
    #: Paths that must exist.
    files: list[str]
    #: PCI addresses that are claimed here.
    pci_devices: list[str]
    mdevs: list[Mdev]
    #: A snapshot was being made when the host died.
    snapshotting: bool


class Restart(_Ordered, total=False):
    """The order to start a domain of a dead host here, as the module _domain_restart takes it."""

    images: list[DiskImage] | None
    order: str | None


def newest(order: Restart) -> tuple[Restart, list[str]]:
    """Have a domain start from the images of a snapshot that was made when its host died.

    Such an image is beside the disk, is backed by it, and has the uuid of the domain and the target
    in its name. All data of the disk are read through it, even if the guest has not written to it
    yet.

    :returns: the order with these disks, and the paths of their images.
    """
    images: dict[str, tuple[str, str]] = {}
    by_target = {image["target"]: image.copy() for image in order.get("images") or ()}
    for element in parse(order["xml"]).findall("devices/disk"):
        disk = parse_disk(element)
        path = disk["source"]
        is_file = kinds.of_disk(disk).source is Source.FILE
        if not is_file or not path or disk["readonly"] or disk["device"] != "disk":
            continue
        over = access.call(_overlays, path, f"{order['uuid']}-{disk['target']}-")
        if len(over) == 1:
            images[disk["target"]] = (over[0], "qcow2")
            by_target.setdefault(disk["target"], {"target": disk["target"]})["over"] = path
    if not images:
        return order, []
    text = snapshots.with_images(order["xml"], images)
    return {**order, "xml": text, "images": list(by_target.values())}, sorted(
        path for path, _format in images.values()
    )


def _overlays(path: str, begin: str) -> list[str]:
    """List the images beside one that begin with some letters and are directly backed by it."""
    folder, overlays = os.path.dirname(path), []
    for name in sorted(os.listdir(folder)):
        if not name.startswith(begin) or not name.endswith(".qcow2"):
            continue
        over = os.path.join(folder, name)
        try:
            behind = backing.references_of(over)
        except OSError:
            # The image is not whole, so no guest was switched over to it.
            continue
        if len(behind) == 1 and os.path.realpath(path) in map(os.path.realpath, behind[0].paths):
            overlays.append(over)
    return overlays


def reasons(conn: Any, order: Restart, surroundings: Surroundings, where: str) -> list[str]:
    """Return the reasons why the disks of a domain are not the same as before: a list of sentences
    without a full stop.

    :param order: xml, and images: of each disk by its target the identity of its storage, the
        images behind it, and for newest() the disk itself.
    :param where: the name of this host.
    """
    by_target = {image["target"]: image for image in order.get("images") or ()}
    sentences = sources.missing_secrets(conn, order["xml"], where)
    for element in parse(order["xml"]).findall("devices/disk"):
        disk = parse_disk(element)
        kind = kinds.of_disk(disk)
        if kind.source is Source.SERVER:
            server = sources.server_here(element)
            if server:
                sentences.append(
                    f"its disk {disk['target']} comes from a server of the dead host itself"
                    f" ({server})"
                )
        elif disk["source"] is not None and (kind.is_image or kind.source is Source.VOLUME):
            try:
                image = by_target.get(disk["target"]) or {"target": disk["target"]}
                pool = _network_pool(conn, disk)
                if pool is not None:
                    sentences += _of_volume(conn, order["uuid"], disk, image, pool, where)
                else:
                    sentences += _of_disk(conn, disk, image, surroundings, where)
            except libvirt.libvirtError as exc:
                sentences.append(
                    f"its disk {disk['source']} cannot be found on {where}: {binding.text_of(exc)}"
                )
            except (OSError, access.Unresponsive) as exc:
                sentences.append(
                    f"its disk {disk['source']} cannot be looked at on {where}:"
                    f" {backing.reason_of(exc)}"
                )
    return sentences


def _network_pool(conn: Any, disk: DomainDisk) -> Any:
    """Return the pool of a volume that QEMU reaches by the network; None for all other disks."""
    if kinds.of_disk(disk).source is not Source.VOLUME:
        return None
    pool = conn.storagePoolLookupByName((disk["source"] or "").partition("/")[0])
    return pool if kinds.of_pool(parse(pool.XMLDesc(0))).form is Form.NETWORK else None


def _of_volume(
    conn: Any, uuid: str, disk: DomainDisk, image: DiskImage, pool: Any, where: str
) -> list[str]:
    """Return the reasons in a disk that is a volume of a pool on the network."""
    root, name, volume = (
        parse(pool.XMLDesc(0)),
        disk["source"],
        (disk["source"] or "").partition("/")[2],
    )
    share, identity = pool_id(root), image.get("identity")
    if not identity:
        return [
            f"where its disk {name} came from on the dead host was not recorded: compare the"
            " storage pools, and start it by hand"
        ]
    servers = [host.get("name") or "localhost" for host in root.findall("source/host")]
    if any(sources.is_here(server) for server in servers):
        return [
            f"its disk {name} comes from a server of the dead host itself ({', '.join(servers)})"
        ]
    if not identity.startswith(DECLARED) and (
        share is None or f"{share.rstrip('/')}/{volume}" != identity
    ):
        return [
            f"its disk {name} is on {where} not what it was, {identity} (its pool is"
            f" {share or 'of unknown origin'} there): give the pool the same source there"
        ]
    if not pool.isActive():
        return [
            f"the storage pool of its disk {name} does not run on {where}: start it there (virsh"
            f" pool-start {shlex.quote(pool.name())})"
        ]
    # Made by another host, perhaps.
    pool.refresh(0)
    pool.storageVolLookupByName(volume)
    origin = volume_id(root, volume)
    if not disk["readonly"] and not disk["shareable"] and disk["device"] == "disk":
        if origin is None:
            return [
                f"whether another domain on {where} uses its disk {name} cannot be told, as its"
                " pool names no server: start it by hand"
            ]
        user = sources.user_of(conn, origin, uuid)
        if user:
            return [
                f"the domain {user} on {where} uses its disk {name}: look at what was made of it"
            ]
    return []


def _of_disk(
    conn: Any,
    disk: DomainDisk,
    image: DiskImage,
    surroundings: Surroundings,
    where: str,
) -> list[str]:
    path = disk["source"] or ""
    if kinds.of_disk(disk).source is Source.VOLUME:
        pool, dummy, volume = path.partition("/")
        path = volume_path(conn, pool, volume)
    if not access.call(os.path.exists, path):
        return [f"{where} does not have {path}: mount that storage there"]
    identity, seen, base = image.get("identity"), image.get("behind"), image.get("over")
    if base and seen is not None:
        below: Layer = {"path": base, "shared": True, "digest": None}
        seen = [below, *seen]
    if (
        identity
        and not identity.startswith(DECLARED)
        and not _is_on(conn, disk, base or path, identity)
    ):
        return [f"{path} is on {where} not what it was, {identity}: mount that storage there"]
    if not disk["readonly"] and not disk["shareable"] and disk["device"] == "disk":
        user = surroundings.user(path)
        if user:
            return [
                f"{' '.join(user).replace(' it', f' {path}')}, so it is not the newest of this"
                " disk, or is in use: look at what was made of it"
            ]
    return _behind(conn, disk, path, seen, where)


def _is_on(conn: Any, disk: DomainDisk, path: str, wanted: str) -> bool:
    """Return True if a disk is on the same storage here as before."""
    if wanted.startswith("device:"):
        return f"device:{block_devices.identity(path)}" == wanted
    if kinds.of_disk(disk).source is Source.VOLUME:
        pool = pool_id(
            parse(conn.storagePoolLookupByName((disk["source"] or "").partition("/")[0]).XMLDesc(0))
        )
        if pool is not None:
            return wanted.startswith(f"{pool.rstrip('/')}/")
    return access.call(path_id, path, access.call(read_mounts, path)) == wanted


def _behind(
    conn: Any,
    disk: DomainDisk,
    path: str,
    seen: Sequence[Layer] | None,
    where: str,
) -> list[str]:
    """Return the reasons in the images behind a disk.

    :param seen: the images that discovery has recorded: dicts path, shared and digest; None if they
        are not known.
    """
    chain = backing.chain(path, disk["format"], ask=lambda image: backing.by_libvirt(conn, image))
    if chain.troubles:
        return [f"of its disk {path}, {trouble}" for trouble in chain.troubles]
    if any(sources.is_here(server) for server in chain.servers):
        return [f"what is behind its disk {path} comes from a server of the dead host itself"]
    if seen is None:
        seen = [{"path": each, "shared": False, "digest": None} for each in chain.files]
    if [layer["path"] for layer in seen] != chain.files:
        return [
            f"its disk {path} was backed by {_list(layer['path'] for layer in seen)} when its host"
            f" was last seen, and is backed by {_list(chain.files)} now: look at what was made"
            " of it"
        ]
    return [
        reason for layer in seen if not layer["shared"] for reason in _content(layer, path, where)
    ]


def _list(paths: Iterable[str]) -> str:
    return ", ".join(paths) or "nothing"


def _content(layer: Layer, path: str, where: str) -> list[str]:
    if layer["digest"] is None:
        return [
            f"whether {layer['path']} behind its disk {path} is the same on {where} as on its host"
            " cannot be told, as its content was not recorded: compare it with a copy that you"
            " trust, and start it by hand"
        ]
    digest, dummy = digests.of_file(layer["path"])
    if digest != layer["digest"]:
        return [
            f"{layer['path']} behind its disk {path} is another one on {where} (its content"
            " differs): copy the right one there"
        ]
    return []
