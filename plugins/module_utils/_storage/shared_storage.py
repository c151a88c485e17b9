# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One text for one shared storage, the same on every host that sees it.

Private to the collection. The text is KIND:SERVER:PATH, made of the origin of the storage and never
of its names here: cloned hosts have local pools of one name, one path and one uuid.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import posixpath
import re
from collections.abc import Sequence
from typing import Any
from xml.etree.ElementTree import Element

from .._files import access
from .._files.mounts import Mount, all_mounts, mount_of
from .._libvirt.xml import child_text

BY_UUID = "/dev/disk/by-uuid"

# Network file systems by the kernel's name. BeeGFS is missing: each of its mounts has the source
# beegfs_nodev, in every cluster. virtiofs is missing too: it may be a folder of one machine.
_NETWORK = {
    "nfs": "nfs",
    "nfs4": "nfs",
    "ceph": "ceph",
    "fuse.glusterfs": "glusterfs",
    "glusterfs": "glusterfs",
    "cifs": "cifs",
    "smb3": "cifs",
    "lustre": "lustre",
}
# File systems of a cluster on one block device. The name of the device may differ between hosts and
# proves nothing.
_CLUSTER = ("gfs2", "ocfs2")
# Network and cluster file systems with mounts that cannot be told apart.
_OTHER_NETWORK = ("9p", "afs", "beegfs", "coda", "gpfs", "orangefs", "pvfs2", "virtiofs", "wekafs")
_PORTS = {"rbd": "6789", "ceph": "6789", "iscsi": "3260", "nbd": "10809"}
#: The types of pools with files in a folder as volumes.
FOLDER_POOLS = ("dir", "fs", "netfs")
#: The types of pools with volumes that QEMU itself accesses over the network.
NETWORK_POOLS = ("rbd", "gluster", "sheepdog", "iscsi-direct")
# netfs pools name the type of their mount; auto tries NFS first.
_NETFS = {"auto": "nfs", "nfs": "nfs", "glusterfs": "glusterfs", "cifs": "cifs"}


def pool_id(root: Element) -> str | None:
    """Return the text of a storage pool of a shared type; None for other pools.

    :param root: the <pool> element of libvirt's XML.
    """
    reader = {
        "netfs": _netfs,
        "rbd": _rbd,
        "gluster": _gluster,
        "iscsi": _iscsi,
        "iscsi-direct": _iscsi,
    }
    source, kind = root.find("source"), root.get("type", "")
    return None if source is None or kind not in reader else reader[kind](source)


def volume_id(pool: Element, volume: str) -> str | None:
    """Return the text of a volume of a network pool, equal to the text of disk_id() for the same
    storage.

    Return None if the XML of the pool is incomplete.

    :param pool: the <pool> element of libvirt's XML.
    """
    share = pool_id(pool)
    # libvirt uses this prefix for the units of a target.
    name = volume.removeprefix("unit:0:0:") if pool.get("type") == "iscsi-direct" else volume
    return None if share is None else f"{share.rstrip('/')}/{name.lstrip('/')}"


def disk_id(source: Element | None) -> str | None:
    """Return the text of a disk that QEMU reaches by the network: the text of its pool with the
    disk's name behind it; None if the source is incomplete.

    :param source: the <source> of a disk of the type network.
    """
    if source is None:
        return None
    kind, name = source.get("protocol"), source.get("name")
    if kind == "iscsi":
        target, dummy, unit = (name or "").partition("/")
        servers = _hosts(source, "iscsi")
        return f"iscsi:{servers}:{target.lower()}/{unit}" if servers and target and unit else None
    if kind == "rbd":
        return _joined("rbd", _hosts(source, "rbd"), name)
    if kind == "nbd":
        # A socket is a server of its own host and has no text.
        return _joined("nbd", _hosts(source, "nbd"), name or "/")
    # The disk is a file of a file system, and hosts may have mounted this file system too.
    family = {"gluster": "glusterfs", "nfs": "nfs"}.get(kind or "")
    return _joined(family, _hosts(source, None), name)


def _netfs(source: Element) -> str | None:
    form = source.find("format")
    kind = _NETFS.get(form.get("type", "") if form is not None else "auto")
    return _joined(kind, _hosts(source, None), _attribute(source, "dir", "path"))


def _rbd(source: Element) -> str | None:
    return _joined("rbd", _hosts(source, "rbd"), child_text(source, "name"))


def _gluster(source: Element) -> str | None:
    volume = child_text(source, "name")
    folder = _attribute(source, "dir", "path") or "/"
    return _joined("glusterfs", _hosts(source, None), volume and f"{volume}/{folder}")


def _iscsi(source: Element) -> str | None:
    target = _attribute(source, "device", "path")
    servers = _hosts(source, "iscsi")
    return f"iscsi:{servers}:{target.lower()}" if servers and target else None


def _hosts(source: Element, kind: str | None) -> str | None:
    """Return the servers of a <source>, sorted; None without servers, for example with monitors
    from /etc/ceph.
    """
    found = []
    for host in source.findall("host"):
        name, port = host.get("name"), host.get("port") if kind else None
        if name:
            found.append(_server(bracketed(name) + (f":{port}" if port else ""), kind))
    return ",".join(sorted(set(found))) or None


def _attribute(source: Element, child: str, name: str) -> str | None:
    found = source.find(child)
    return found.get(name) if found is not None else None


def bracketed(name: str) -> str:
    """Return the name of a server in the form for a following port: an IPv6 address in brackets and
    in its shortest form.

    Disks of libvirt have an IPv6 address without brackets. Storage pools of Ceph and mounts have it
    with brackets.
    """
    found = re.fullmatch(r"\[([^\[\]]+)\](:[0-9]+)?", name)
    try:
        address = ipaddress.IPv6Address(found.group(1) if found else name)
    except ValueError:
        return name
    return f"[{address}]{found.group(2) or '' if found else ''}"


def _server(text: str, kind: str | None = None) -> str:
    """Return the name of a server in small letters, without a final dot and without the default
    port.

    Put an IPv6 address into brackets.
    """
    text = bracketed(text.strip().lower())
    port = ":" + _PORTS.get(kind or "", "")
    if kind and text.endswith(port):
        text = text[: -len(port)]
    return text.rstrip(".")


def _joined(kind: str | None, server: str | None, path: str | None) -> str | None:
    if not kind or not server or not path:
        return None
    path = posixpath.normpath("/" + path.lstrip("/"))
    return f"{kind}:{server}:{path.lower() if kind == 'cifs' else path}"


def read_mounts(path: str) -> list[Mount]:
    """Return the mounts that this process sees: list of (mount point, root, type, source).

    :param path: a path that is touched first, so that file systems are mounted on demand.
    """
    with contextlib.suppress(access.Unresponsive):
        access.call(os.path.exists, path)
    return all_mounts()


def path_id(path: str, mounts: Sequence[Mount]) -> str | None:
    """Return the text of a path on a network or cluster file system; None for other paths."""
    return real_path_id(access.real_path(path), mounts)


def real_path_id(path: str, mounts: Sequence[Mount]) -> str | None:
    """Return the text of a path without symbolic links on a network or cluster file system; None
    for other paths.
    """
    best = mount_of(path, mounts)
    if best is None:
        return None
    point, root, kind, source = best
    below = path[len(point.rstrip("/")) :]
    if kind in _CLUSTER:
        uuid = _file_system_uuid(source)
        return _joined(kind, uuid, f"{root}/{below}") if uuid else None
    family = _NETWORK.get(kind)
    server, folder = _split(family, source)
    # For NFS the kernel writes the mounted folder into the source, for other file systems into the
    # root.
    return _joined(
        family, server, f"{folder}/{below}" if family == "nfs" else f"{folder}/{root}/{below}"
    )


def network_mounts(mounts: Sequence[Mount]) -> list[dict[str, Any]]:
    """Return the mounts that other hosts may have too, and all mounts below these.

    :returns: list of dicts path and shared_id (None for a local mount).
    """
    found: list[dict[str, Any]] = []
    for point, _dummy, kind, _dummy2 in mounts:
        # Containers have many other mounts, and each path_id() accesses a file.
        shared_id = path_id(point, mounts) if is_on_network(kind) else None
        if shared_id or any(point.startswith(f"{above['path'].rstrip('/')}/") for above in found):
            found = [each for each in found if each["path"] != point] + [
                {"path": point, "shared_id": shared_id}
            ]
    return sorted(found, key=lambda each: each["path"])


def is_on_network(kind: str) -> bool:
    """Return True if other hosts may see a file system too, even if its mounts cannot be told
    apart.

    :param kind: the kernel's name of the file system.
    """
    return (
        kind in _NETWORK or kind in _CLUSTER or kind in _OTHER_NETWORK or kind.startswith("fuse.")
    )


def _split(kind: str | None, source: str) -> tuple[str | None, str | None]:
    """Return server and folder of the source of a mount; (None, None) if the source does not name
    them.
    """
    if kind == "cifs":
        match = re.match(r"^[/\\]{2}([^/\\]+)[/\\](.*)$", source)
        return (
            (_server(match.group(1)), match.group(2).replace("\\", "/")) if match else (None, None)
        )
    if kind == "ceph":
        match = re.match(r"^[^@/]*@([0-9a-fA-F-]{36}\.[^=/]+)=(.*)$", source)
        if match:
            return match.group(1).lower(), match.group(2)
    if kind == "glusterfs":
        match = re.match(r"^(.+?):/?([^:]+)$", source)
        return (_server(match.group(1)), match.group(2)) if match else (None, None)
    if kind is None or ":/" not in source:
        return None, None
    server, dummy, folder = source.partition(":/")
    if kind == "lustre":
        server = ":".join(sorted(_server(name) for name in server.split(":")))
    elif kind == "ceph":
        server = ",".join(sorted(_server(name, kind) for name in server.split(",")))
    return _server(server), folder


def _file_system_uuid(device: str) -> str | None:
    """Return the uuid in the superblock, the same on all hosts that mount the device; None if udev
    does not have it.
    """
    wanted = os.path.realpath(device)
    try:
        names = sorted(os.listdir(BY_UUID))
    except OSError:
        return None
    for name in names:
        if os.path.realpath(os.path.join(BY_UUID, name)) == wanted:
            return name.lower()
    return None
