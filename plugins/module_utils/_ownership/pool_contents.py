# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The content of a storage pool: the files and volumes that domains of this host need, and the
other ones.

Private to the collection.
"""

from __future__ import annotations

import os
import shlex
import stat
from typing import Any

from .._files import access
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, host_name, libvirt
from .._libvirt.xml import child_text, parse
from .._storage import backing, kinds
from .needs import Needs, look

#: The seconds to list a folder.
LIMIT = 120


def read(conn: Any, name: str) -> dict[str, object]:
    """Return a dict: needed and others, lists of dicts path and reason; doubts, sentences about
    unknown needs.

    :raises LibvirtProblem: the pool does not exist, or its content cannot be read.
    """
    try:
        pool = conn.storagePoolLookupByName(name)
        root = parse(pool.XMLDesc(0))
    except libvirt.libvirtError as exc:
        if binding.code_of(exc) != libvirt.VIR_ERR_NO_STORAGE_POOL:
            raise
        raise LibvirtProblem(
            f"There is no storage pool {name} on {host_name()} any more, so it is not known what is"
            " in it."
        ) from exc
    kind = kinds.of_pool(root)
    # A stopped pool has nothing mounted or attached. Only a plain folder is still readable.
    if not kind.is_plain and not pool.isActive():
        raise LibvirtProblem(
            f"The storage pool {name} on {host_name()} does not run, so it is not known what is in"
            f" it: virsh pool-start {shlex.quote(name)}"
        )
    needs = Needs(conn)
    # Read the doubts before the images in the pool: those images hide no disk of a domain.
    doubts = needs.doubts()
    if kind.form is kinds.Form.FOLDER:
        needed, others = _in_folder(needs, child_text(root, "target/path") or "/")
    else:
        needed, others = _volumes(needs, pool)
    return {
        "needed": [{"path": path, "reason": why} for path, why in sorted(needed.items())],
        "others": [{"path": path, "reason": why} for path, why in sorted(others.items())],
        "doubts": doubts,
    }


def _in_folder(needs: Needs, folder: str) -> tuple[dict[str, str], dict[str, str | None]]:
    try:
        real = look(folder).real
        paths = access.call(_list_files, real, limit=LIMIT)
    except (OSError, access.Unresponsive) as exc:
        raise LibvirtProblem(
            f"The folder {folder} of {host_name()} cannot be read: {backing.reason_of(exc)}."
        ) from exc
    needed = needs.below(real)
    for path in paths:
        user = _user(needs, path)
        if user is not None:
            needed[path] = user
    needs.look_around([real])
    return needed, {path: _why_needed(needs, path) for path in paths if path not in needed}


def _volumes(needs: Needs, pool: Any) -> tuple[dict[str, str], dict[str, str | None]]:
    pool.refresh(0)
    needed: dict[str, str] = {}
    others: dict[str, str | None] = {}
    for volume in pool.listAllVolumes(0):
        path = volume.path()
        is_here = os.path.isabs(path)
        why = _user(needs, path) if is_here else needs.why_volume(volume.name())
        if why:
            needed[path] = why
        else:
            others[path] = _why_needed(needs, path) if is_here else None
    return needed, others


def _list_files(folder: str) -> list[str]:
    """Return the files in a folder and below it."""
    paths: list[str] = []

    def fail(error: OSError) -> None:
        raise error

    for place, _folders, names in os.walk(folder, onerror=fail):
        for name in sorted(names):
            path = os.path.join(place, name)
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                paths.append(path)
    return paths


def _user(needs: Needs, path: str) -> str | None:
    try:
        need = needs.user(path, look(path))
    except (OSError, access.Unresponsive):
        return None
    return " ".join(need) if need else None


def _why_needed(needs: Needs, path: str) -> str | None:
    try:
        return needs.why(path, look(path))
    except (OSError, access.Unresponsive) as exc:
        return f"it cannot be looked at ({backing.reason_of(exc)})"
