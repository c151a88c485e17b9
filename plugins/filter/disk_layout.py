# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the disks of an instance definition go, and how they are made."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.definitions import disk_files


def disk_layout(disks, base):
    """The disks of a definition in order, as the domain template and the module domain want them.

    :param disks: list of dicts with size_gb and, if any, image, image_format, path.
    :param base: the path of a disk without its own, to which -vda.qcow2 and so on is added.
    :returns: list of dicts: target (vda), path, format, and make (path, size_gb, format, backing_file,
        backing_format: what drover.compute.domain takes).
    """
    layout = []
    for target, disk in disk_files.targets(disks):
        path = disk.get("path") or disk_files.by_default(base.strip(), target)
        make = {"path": path, "size_gb": disk["size_gb"], "format": "qcow2"}
        if disk.get("image"):
            make["backing_file"] = disk["image"]
            make["backing_format"] = disk.get("image_format") or "qcow2"
        layout.append({"target": target, "path": path, "format": "qcow2", "make": make})
    return layout


class FilterModule:
    """Ansible filter."""

    def filters(self):
        return {"disk_layout": disk_layout}
