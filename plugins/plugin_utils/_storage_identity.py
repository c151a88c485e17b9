# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One text for one file or device of shared storage, the same on every host that sees it.

Data in, data out. It is made of where storage comes from, as hosts report it, or of what the operator declares.
"""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Mapping
from typing import Any

DEVICE = "device:"


def of_path(path: str, node: Mapping[str, Any]) -> str | None:
    """The text of a file by a node's mounts and pools; None where it is the node's alone, as far as is known.

    :param node: facts of a node: pools, storage and mounts, each of which may be missing.
    """
    path = posixpath.normpath(str(path))
    storage, mounts = node.get("storage") or {}, node.get("mounts") or ()
    above = [(mount.get("path"), mount.get("shared_id")) for mount in mounts]
    # A pool that is not shared hides what is above it only where that is not known from the mounts.
    pools = [pool for pool in node.get("pools") or () if pool.get("shared_id") or not mounts]
    above += [(pool.get(key), pool.get("shared_id")) for pool in pools for key in ("path", "real_path")]
    above += [(storage.get(key), storage.get("shared_id")) for key in ("instances_path", "real_path")]
    covering = [
        (len(posixpath.normpath(folder)), bool(share), share, posixpath.normpath(folder))
        for folder, share in above
        if folder and path.startswith(posixpath.normpath(folder).rstrip("/") + "/")
    ]
    if not covering:
        return None
    dummy, shared, share, folder = max(covering, key=lambda each: each[:2])
    return _below(share, path[len(folder.rstrip("/")) :]) if shared else None


def of_disk(disk: Mapping[str, Any], node: Mapping[str, Any]) -> str | None:
    """The text of a domain's disk, of whatever type; None where it is the node's alone, as far as is known.

    :param disk: a disk of a domain's facts: type, source, and path and shared_id where its host has told them.
    """
    if disk.get("type") == "volume":
        name, dummy, volume = str(disk["source"]).partition("/")
        pool: Mapping[str, Any] = next((each for each in node.get("pools") or () if each.get("name") == name), {})
        if pool.get("shared_id"):
            return _below(pool["shared_id"], volume)
        if not pool.get("path"):
            return None
        path = posixpath.join(pool["path"], volume)
        return of_path(path, node) or of_device(path, node)
    own = disk.get("path") or (disk["source"] if disk.get("type") in ("file", "block", "dir") else None)
    return None if own is None else of_path(own, node) or of_device(own, node)


def of_device(path: str, node: Mapping[str, Any]) -> str | None:
    """The text of a device by its worldwide name, or by the operator's word; None where there is none."""
    for device in node.get("block_devices") or ():
        if path in (device.get("names") or ()):
            return f"{DEVICE}{device['id']}"
    if is_declared(path, node):
        return f"{DEVICE}declared:{path}"
    return None


def is_declared(path: str, node: Mapping[str, Any]) -> bool:
    """Whether the operator declares the devices of that path, on all hosts that declare it, to be one."""
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in node.get("shared_block_devices") or ())


def _below(share: str, rest: str) -> str:
    return f"{share.rstrip('/')}{posixpath.normpath('/' + rest.lstrip('/'))}"
