# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter disk_layout: the files of the disks of a definition."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.drover.compute.plugins.module_utils._storage import kinds
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import (
    disk_files,
    disk_sources,
)


def disk_layout(
    disks: list[dict[str, object]],
    base: str,
    images: dict[str, str | None] | None = None,
    pools: dict[str, dict[str, str | None]] | None = None,
    uuid: str = "",
) -> list[dict[str, object]]:
    """Return the disks of a definition in order, for the domain template and the module domain.

    :param disks: each has size_gb (GiB) and may have image (the path of a file, or the name of an
        image), image_format, path, pool, source.
    :param base: the path of disks without their own path; -vda.qcow2 and so on is added.
    :param images: the path of each image by its name, on the host; None in check mode for an image
        that does not exist yet.
    :param pools: the storage pools of the host by their names, each with type and path, as of a
        claim.
    :param uuid: the uuid of the instance, the start of the names of its volumes.
    :returns: for each disk target (such as vda), path (None for a volume), pool and volume (None
        for a file), format, source (the description of an existing disk for the domain, otherwise
        None), and make, which is an item of the option disks of the module domain, or None.
    :raises AnsibleFilterError: the disk cannot be made in its pool.
    """
    base, layout = base.strip(), []
    for target, disk in disk_files.targets(disks):
        if disk.get("source"):
            source = disk_sources.for_domain(disk)
            nothing = dict.fromkeys(("path", "pool", "volume", "make"))
            layout.append(
                {"target": target, **nothing, "format": source["format"], "source": source}
            )
            continue
        pool = _pool(disk["pool"], pools or {}) if disk.get("pool") else None
        if pool is not None and kinds.of_pool(pool).makes_volumes:
            layout.append(_volume(disk, target, uuid, images or {}))
            continue
        folder = (
            base
            if pool is None
            else posixpath.join(_folder(disk["pool"], pool), posixpath.basename(base))
        )
        path = disk.get("path") or disk_files.by_default(folder, target)
        make = {
            "path": path,
            "size_gb": disk["size_gb"],
            "format": "qcow2",
            **_image(disk, images or {}),
        }
        layout.append(
            {
                "target": target,
                "path": path,
                "pool": None,
                "volume": None,
                "format": "qcow2",
                "source": None,
                "make": make,
            }
        )
    return layout


def _volume(
    disk: dict[str, object], target: str, uuid: str, images: dict[str, str | None]
) -> dict[str, object]:
    if not uuid:
        raise AnsibleFilterError(
            f"The disk {target} is a volume of the storage pool {disk['pool']}, which needs the"
            " uuid of the instance for its name."
        )
    place = {"pool": disk["pool"], "volume": f"{uuid}-{target}"}
    make = {**place, "size_gb": disk["size_gb"], "format": "raw", **_image(disk, images)}
    return {"target": target, "path": None, **place, "format": "raw", "source": None, "make": make}


def _image(disk: dict[str, Any], images: dict[str, str | None]) -> dict[str, Any]:
    image = disk.get("image")
    if image and image.startswith("/"):
        return {"backing_file": image, "backing_format": disk.get("image_format") or "qcow2"}
    # A file that is not there yet cannot be checked: the rest of the disk is.
    file = images[image] if image else None
    return {"backing_file": file, "backing_format": disk.get("image_format")} if file else {}


def _pool(name: str, pools: dict[str, dict[str, str | None]]) -> dict[str, str | None]:
    pool = pools.get(name)
    if pool is None:
        raise AnsibleFilterError(
            f"The host has no storage pool {name} by its last discovery. Name it in"
            " drover_storage_pools of the host, and run drover.compute.discover."
        )
    return pool


def _folder(name: str, pool: dict[str, str | None]) -> str:
    if kinds.of_pool(pool).form is not kinds.Form.FOLDER or not pool["path"]:
        raise AnsibleFilterError(
            f"The storage pool {name} is of the type {pool['type']}, in which no disk of a"
            f" definition is made: give a pool of the type {', '.join(kinds.made_in())}."
        )
    return pool["path"]


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"_disk_layout": disk_layout}
