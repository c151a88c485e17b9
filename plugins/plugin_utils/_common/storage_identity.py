# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One text for one file or device of shared storage, the same on every host that sees it.

Data in, data out. It is derived from the source of the storage, as hosts report it, or from the
operator's declaration.
"""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.module_utils._storage import kinds
from ansible_collections.drover.compute.plugins.module_utils._storage.kinds import Source

DEVICE, RBD = "device:", f"{kinds.RBD.family}:"


def of_path(path: str, node: Mapping[str, object]) -> str | None:
    """Return the text of a file by a node's mounts and pools; None if only the node has it, as far
    as is known.

    :param node: facts of a node: pools, storage and mounts; each of them may be missing.
    """
    path = posixpath.normpath(str(path))
    covering = [
        (len(posixpath.normpath(folder)), bool(share), share, posixpath.normpath(folder))
        for folder, share in _known_folders(node)
        if folder and path.startswith(posixpath.normpath(folder).rstrip("/") + "/")
    ]
    if not covering:
        return None
    dummy, dummy2, share, folder = max(covering, key=lambda each: each[:2])
    return _join_share(share, path[len(folder.rstrip("/")) :]) if share else None


def _known_folders(node: Mapping[str, Any]) -> list[tuple[str | None, str | None]]:
    storage, mounts = node.get("storage") or {}, node.get("mounts") or ()
    folder_pairs = [(mount.get("path"), mount.get("shared_id")) for mount in mounts]
    # A pool that is not shared hides the folders above it only if the mounts are not known.
    pools = [pool for pool in node.get("pools") or () if pool.get("shared_id") or not mounts]
    folder_pairs += [
        (pool.get(key), pool.get("shared_id")) for pool in pools for key in ("path", "real_path")
    ]
    return folder_pairs + [
        (storage.get(key), storage.get("shared_id")) for key in ("instances_path", "real_path")
    ]


def as_folder(text: str) -> str:
    """Return the path or the text of a folder, as a prefix of all its contents: with a slash at its
    end, which no file has.
    """
    return f"{text.rstrip('/')}/"


def folders_above(text: str) -> list[str]:
    """Return the folders that contain a file, by its path or its text."""
    return [text[: end + 1] for end, letter in enumerate(text) if letter == "/"]


def of_folder(path: str, node: Mapping[str, object]) -> str | None:
    """Return the text of a folder in the form of as_folder(); None if only the node is known to
    have it.
    """
    within = of_path(posixpath.join(path, "x"), node)
    return within and within[: -len("x")]


def shares_in(path: str, node: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return the shared folders below a folder of a node, each with its text, both in the form of
    as_folder().
    """
    within = as_folder(posixpath.normpath(path))
    shares = {
        (as_folder(posixpath.normpath(folder)), as_folder(share))
        for folder, share in _known_folders(node)
        if folder and share
    }
    return sorted(each for each in shares if each[0].startswith(within) and each[0] != within)


def all_disks(facts: Mapping[str, Any]) -> list[Any]:
    """Return the disks of a domain by both of its definitions: the disks of its next start, and the
    disks that only the running guest has.

    :param facts: the facts of the domain, or an instance of a plan.
    """
    return [*(facts.get("disks") or ()), *(facts.get("running_disks") or ())]


def local_disks(disks: Iterable[Mapping[str, Any]], node: Mapping[str, Any]) -> list[str]:
    """Return the sources of disks that a host alone has, as far as is known.

    :param node: facts of the host, as in of_path().
    """
    return [
        source
        for disk in disks
        if (source := disk.get("source"))
        and kinds.of_disk(disk).source is not Source.SERVER
        and not of_disk(disk, node)
    ]


def of_disk(disk: Mapping[str, Any], node: Mapping[str, Any]) -> str | None:
    """Return the text of a domain's disk of any type; None if only the node is known to have it.

    :param disk: a disk of a domain's facts: type, source, and path and shared_id if its host has
        reported them.
    """
    kind = kinds.of_disk(disk)
    if kind.source is Source.VOLUME:
        name, dummy, volume = str(disk["source"]).partition("/")
        pool: Mapping[str, Any] = next(
            (each for each in node.get("pools") or () if each.get("name") == name), {}
        )
        if pool.get("shared_id"):
            return _join_share(pool["shared_id"], volume)
        if not pool.get("path"):
            return None
        path = posixpath.join(pool["path"], volume)
        return of_path(path, node) or of_device(path, node)
    own = disk.get("path") or (disk["source"] if kind.is_path else None)
    return None if own is None else of_path(own, node) or of_device(own, node)


def anywhere(disk: Mapping[str, Any], node: Mapping[str, Any]) -> str | None:
    """Return the text of a disk: a file, a device or a disk on the network; None if only the node
    is known to have it.
    """
    found: str | None = disk.get("origin") or of_disk(disk, node) or disk.get("shared_id")
    return found


def names_on_network(
    disk: Mapping[str, object], node: Mapping[str, object]
) -> set[tuple[str, str | None]]:
    """Return the names of a disk that is no file of its host, each with its text: the name in the
    domain, and for Ceph also the pool and image alone.

    Hosts may name the monitors of one cluster differently, so the text alone does not find all
    users.
    """
    text = anywhere(disk, node)
    if kinds.of_disk(disk).source is not Source.SERVER and not text:
        return set()
    names = {str(disk["source"])}
    if str(text).startswith(RBD):
        names.add(f"{RBD}{str(text).rpartition(':/')[2]}")
    return {(name, text) for name in names}


def of_device(path: str, node: Mapping[str, Any]) -> str | None:
    """Return the text of a device by its worldwide name, or by the operator's declaration; None if
    there is none.
    """
    for device in node.get("block_devices") or ():
        if path in (device.get("names") or ()):
            return f"{DEVICE}{device['id']}"
    if is_declared(path, node):
        return f"{DEVICE}declared:{path}"
    return None


def is_declared(path: str, node: Mapping[str, Any]) -> bool:
    """Return True if the operator declares that the devices with that path are one device on all
    hosts that declare it.
    """
    return any(
        fnmatch.fnmatchcase(path, pattern) for pattern in node.get("shared_block_devices") or ()
    )


def paths_at(text: str, node: Mapping[str, Any]) -> list[str]:
    """Return the paths of a file or device of shared storage on a node, by its text."""
    if text.startswith(DEVICE):
        device_id = text[len(DEVICE) :]
        return [
            str(name)
            for device in node.get("block_devices") or ()
            if device.get("id") == device_id
            for name in device.get("names") or ()
        ]
    return [
        posixpath.normpath(folder + text[len(share.rstrip("/")) :])
        for folder, share in _known_folders(node)
        if folder and share and text.startswith(as_folder(share))
    ]


def may_see(
    name: Mapping[str, Any],
    text: str | None,
    here: Mapping[str, Any],
    there: Mapping[str, Any],
    near: Iterable[str],
) -> bool:
    """Return True if a node may see a file of another node, by the reports of both nodes.

    :param name: the name of the file, as the module _file_users gives it.
    :param text: its text; None if only the node is known to have its storage.
    :param here: facts of the node that has it; there: of the other one.
    :param near: the numbers of folders of the first node that are mounted with the file.
    """
    path = name["path"]
    if not posixpath.isabs(path):
        # On the network, unless it is a volume of a pool of this host alone.
        pool: Mapping[str, Any] = next(
            (
                each
                for each in here.get("pools") or ()
                if each.get("name") == path.partition("/")[0]
            ),
            {},
        )
        return not pool.get("path") or bool(pool.get("shared_id"))
    if text is not None and text.startswith(DEVICE):
        return bool(paths_at(text, there)) or is_declared(path, there)
    if text is not None:
        shares = [as_folder(share) for _folder, share in _known_folders(there) if share]
        return any(
            as_folder(text).startswith(share)
            or share.startswith(as_folder(posixpath.dirname(text)))
            for share in shares
        )
    others, near = _numbered(there), set(near)
    if not near.isdisjoint(known for _folder, known in others):
        return True
    return any(
        _overlap(folder, posixpath.dirname(path))
        for folder, known in others
        if not near or known is None
    )


def folders(node: Mapping[str, object]) -> list[str]:
    """Return the folders of pools and of instances of a node."""
    return sorted({folder for folder, _known in _numbered(node)})


def _numbered(node: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    """Return the folders of pools and of instances of a node, each with its number in its file
    system.
    """
    folder_pairs = [
        (pool.get(key), pool.get("folder_id"))
        for pool in node.get("pools") or ()
        for key in ("path", "real_path")
    ]
    storage = node.get("storage") or {}
    folder_pairs += [
        (storage.get(key), storage.get("folder_id")) for key in ("instances_path", "real_path")
    ]
    return [(str(folder), known) for folder, known in folder_pairs if folder]


def file_systems(node: Mapping[str, object]) -> dict[str, str]:
    """Return the file systems of the folders of pools and of instances of a node, by folder, if
    they are known.
    """
    return {folder: known.rpartition("/")[0] for folder, known in _numbered(node) if known}


def _overlap(one: str, other: str) -> bool:
    return as_folder(one).startswith(as_folder(other)) or as_folder(other).startswith(
        as_folder(one)
    )


def _join_share(share: str, rest: str) -> str:
    return f"{share.rstrip('/')}{posixpath.normpath('/' + rest.lstrip('/'))}"
