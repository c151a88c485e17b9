# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter disk_layout: the files of the disks of a definition."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.drover.compute.plugins.module_utils._needs import FOLDER_POOLS
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import disk_files


def disk_layout(
    disks: list[dict[str, Any]],
    base: str,
    images: dict[str, str | None] | None = None,
    pools: dict[str, dict[str, str | None]] | None = None,
) -> list[dict[str, Any]]:
    """Return the disks of a definition in order, for the domain template and the module domain.

    :param disks: each has size_gb (GiB) and may have image (the path of a file, or the name of an image), image_format, path.
    :param base: the path of disks without their own path; -vda.qcow2 and so on is added.
    :param images: the path of each image by its name, on the host; None in check mode for one that is not there yet.
    :param pools: the storage pools of the host by their names, each with type and path, as of a claim.
    :returns: of each disk target (such as vda), path, format, and make, which is an item of the option disks of the module domain.
    :raises AnsibleFilterError: the pool of a disk has no folder for its file.
    """
    base, layout = base.strip(), []
    for target, disk in disk_files.targets(disks):
        path = disk.get("path") or disk_files.by_default(
            _base_in_pool(disk["pool"], base, pools or {}) if disk.get("pool") else base, target
        )
        make = {"path": path, "size_gb": disk["size_gb"], "format": "qcow2"}
        image = disk.get("image")
        if image and image.startswith("/"):
            make["backing_file"], make["backing_format"] = image, disk.get("image_format") or "qcow2"
        elif image:
            # A file that is not there yet cannot be checked: the rest of the disk is.
            file = (images or {})[image]
            make.update({"backing_file": file, "backing_format": disk.get("image_format")} if file else {})
        layout.append({"target": target, "path": path, "format": "qcow2", "make": make})
    return layout


def _base_in_pool(name: str, base: str, pools: dict[str, dict[str, str | None]]) -> str:
    pool = pools.get(name)
    if pool is None:
        raise AnsibleFilterError(
            f"The host has no storage pool {name} by its last discovery. Name it in drover_storage_pools of the host, and run "
            "drover.compute.discover."
        )
    if pool["type"] not in FOLDER_POOLS or not pool["path"]:
        raise AnsibleFilterError(
            f"The storage pool {name} is of the type {pool['type']}, and a disk of a definition is a file: give a pool of the type "
            f"{', '.join(FOLDER_POOLS)}."
        )
    return posixpath.join(pool["path"], posixpath.basename(base))


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"_disk_layout": disk_layout}
