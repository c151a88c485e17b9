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
from typing import TypedDict
from xml.etree.ElementTree import Element

from .._files import access
from .._files.mounts import Mount, all_mounts, mount_of
from .._libvirt.xml import child_text
from . import kinds
from .kinds import Identity, MountForm

BY_UUID = "/dev/disk/by-uuid"


def pool_id(root: Element) -> str | None:
    """Return the identity of a storage pool of a shared type, as a text that is the same on each
    host; None for other pools.

    :param root: the <pool> element of libvirt's XML.
    """
    source, identity = root.find("source"), kinds.of_pool(root).identity
    return None if source is None or identity not in _READERS else _READERS[identity](source)


def volume_id(pool: Element, volume: str) -> str | None:
    """Return the text of a volume of a network pool, equal to the text of disk_id() for the same
    storage.

    Return None if the XML of the pool is incomplete.

    :param pool: the <pool> element of libvirt's XML.
    """
    share, name = pool_id(pool), volume.removeprefix(kinds.of_pool(pool).prefix)
    return None if share is None else f"{share.rstrip('/')}/{name.lstrip('/')}"


def disk_id(source: Element | None) -> str | None:
    """Return the text of a disk that QEMU reaches by the network: the text of its pool with the
    disk's name behind it; None if the source is incomplete.

    :param source: the <source> of a disk of the type network.
    """
    if source is None:
        return None
    protocol, name = kinds.protocol(source.get("protocol")), source.get("name")
    # A socket is a server of its own host and has no text.
    servers = _hosts(source, protocol.port)
    if protocol.identity is Identity.TARGET:
        target, dummy, unit = (name or "").partition("/")
        text = f"{protocol.family}:{servers}:{target.lower()}/{unit}"
        return text if servers and target and unit else None
    if protocol.identity is Identity.EXPORT:
        name = name or "/"
    return _join_identity(protocol.family, servers, name)


def _netfs(source: Element) -> str | None:
    form = source.find("format")
    name = form.get("type", "") if form is not None else "auto"
    system = next((each for each in kinds.FILE_SYSTEMS if name in each.formats), None)
    if system is None:
        return None
    folder = _attribute(source, "dir", "path")
    return _join_identity(system.family, _hosts(source, None), folder, system.mounted)


def _ceph(source: Element) -> str | None:
    protocol = kinds.RBD
    return _join_identity(
        protocol.family, _hosts(source, protocol.port), child_text(source, "name")
    )


def _gluster(source: Element) -> str | None:
    volume = child_text(source, "name")
    folder = _attribute(source, "dir", "path") or "/"
    return _join_identity("glusterfs", _hosts(source, None), volume and f"{volume}/{folder}")


def _iscsi(source: Element) -> str | None:
    target = _attribute(source, "device", "path")
    servers = _hosts(source, kinds.ISCSI.port)
    return f"{kinds.ISCSI.family}:{servers}:{target.lower()}" if servers and target else None


#: The reader of the source of a pool, by the identity of the pool.
_READERS = {
    Identity.EXPORT: _netfs,
    Identity.NAME: _ceph,
    Identity.GLUSTER: _gluster,
    Identity.TARGET: _iscsi,
}


def _hosts(source: Element, default: str | None) -> str | None:
    """Return the servers of a <source>, sorted; None without servers, for example with monitors
    from /etc/ceph.

    :param default: the default port; None to leave all ports out.
    """
    servers = []
    for host in source.findall("host"):
        name, port = host.get("name"), host.get("port") if default else None
        if name:
            servers.append(_server(bracketed(name) + (f":{port}" if port else ""), default))
    return ",".join(sorted(set(servers))) or None


def _attribute(source: Element, child: str, name: str) -> str | None:
    found = source.find(child)
    return found.get(name) if found is not None else None


def bracketed(name: str) -> str:
    """Return the name of a server in the form for a following port: an IPv6 address in brackets and
    in its shortest form.

    Disks of libvirt have an IPv6 address without brackets. Storage pools of Ceph and mounts have it
    with brackets.
    """
    match = re.fullmatch(r"\[([^\[\]]+)\](:[0-9]+)?", name)
    try:
        address = ipaddress.IPv6Address(match.group(1) if match else name)
    except ValueError:
        return name
    return f"[{address}]{match.group(2) or '' if match else ''}"


def _server(text: str, default: str | None = None) -> str:
    """Return the name of a server in small letters, without a final dot and without the default
    port.

    Put an IPv6 address into brackets.
    """
    text = bracketed(text.strip().lower())
    if default:
        text = text.removesuffix(f":{default}")
    return text.rstrip(".")


def _join_identity(
    family: str | None, server: str | None, path: str | None, mounted: MountForm | None = None
) -> str | None:
    if not family or not server or not path:
        return None
    path = posixpath.normpath("/" + path.lstrip("/"))
    return f"{family}:{server}:{path.lower() if mounted is MountForm.CIFS else path}"


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
    system = kinds.file_system(kind)
    if system is None or system.mounted is None:
        return None
    if system.mounted is MountForm.DEVICE:
        return _join_identity(system.family, _file_system_uuid(source), f"{root}/{below}")
    server, folder = _split(system.mounted, source)
    # For NFS the kernel writes the mounted folder into the source, for other file systems into the
    # root.
    if system.mounted is not MountForm.NFS:
        folder = f"{folder}/{root}"
    return _join_identity(system.family, server, f"{folder}/{below}", system.mounted)


class NetworkMount(TypedDict):
    """A mount that other hosts may have too, or one below it; the id of a local mount is None."""

    path: str
    shared_id: str | None


def network_mounts(mounts: Sequence[Mount]) -> list[NetworkMount]:
    """Return the mounts that other hosts may have too, and all mounts below these."""
    shares: list[NetworkMount] = []
    for point, _dummy, kind, _dummy2 in mounts:
        # Containers have many other mounts, and each path_id() accesses a file.
        shared_id = path_id(point, mounts) if kinds.is_on_network(kind) else None
        if shared_id or any(point.startswith(f"{above['path'].rstrip('/')}/") for above in shares):
            shares = [each for each in shares if each["path"] != point] + [
                {"path": point, "shared_id": shared_id}
            ]
    return sorted(shares, key=lambda each: each["path"])


def _split(mounted: MountForm, source: str) -> tuple[str | None, str | None]:
    """Return server and folder of the source of a mount; (None, None) if the source does not name
    them.
    """
    if mounted is MountForm.CIFS:
        match = re.match(r"^[/\\]{2}([^/\\]+)[/\\](.*)$", source)
        return (
            (_server(match.group(1)), match.group(2).replace("\\", "/")) if match else (None, None)
        )
    if mounted is MountForm.CEPH:
        match = re.match(r"^[^@/]*@([0-9a-fA-F-]{36}\.[^=/]+)=(.*)$", source)
        if match:
            return match.group(1).lower(), match.group(2)
    if mounted is MountForm.GLUSTER:
        match = re.match(r"^(.+?):/?([^:]+)$", source)
        return (_server(match.group(1)), match.group(2)) if match else (None, None)
    if ":/" not in source:
        return None, None
    server, dummy, folder = source.partition(":/")
    if mounted is MountForm.LUSTRE:
        server = ":".join(sorted(_server(name) for name in server.split(":")))
    elif mounted is MountForm.CEPH:
        server = ",".join(sorted(_server(name, kinds.RBD.port) for name in server.split(",")))
    return _server(server), folder


def _file_system_uuid(device: str) -> str | None:
    """Return the uuid in the superblock, the same on all hosts that mount the device; None if udev
    does not have it.
    """
    real_path = os.path.realpath(device)
    try:
        names = sorted(os.listdir(BY_UUID))
    except OSError:
        return None
    for name in names:
        if os.path.realpath(os.path.join(BY_UUID, name)) == real_path:
            return name.lower()
    return None
