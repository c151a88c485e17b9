# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which image files go with a domain that is removed, and which stay.

Private to the collection.
"""

from __future__ import annotations

import os

from ansible_collections.drover.compute.plugins.module_utils._domain_xml import backing_files, parse_disk
from ansible_collections.drover.compute.plugins.module_utils._image_size import qcow2_backing_file
from ansible_collections.drover.compute.plugins.module_utils._xml import parse


def sort_out(facts, others, elsewhere=()):
    """The domain's own image files, and those that somebody else may need.

    A chain of images is never followed to remove more: what a disk is backed by may be anybody's.

    :param facts: the domain as hypervisor_info describes it.
    :param others: list of (name, XML) of the other domains of this hypervisor.
    :param elsewhere: files that domains of other hypervisors use.
    :returns: (paths to remove, list of dicts path and reason of those that are kept).
    """
    used = {}
    for name, text in others:
        for element in parse(text).findall("devices/disk"):
            source = parse_disk(element)["source"]
            for path in [source, *backing_files(element)]:
                _note(used, path, f"the domain {name} uses it")
    for path in elsewhere:
        _note(used, path, "a domain of another hypervisor uses it")
    remove, kept = [], []
    for disk in facts["disks"]:
        path = disk["source"]
        if not path or path in remove or (disk["type"] == "file" and not os.path.lexists(path)):
            continue
        reason = _reason(facts, disk, used)
        if reason is None:
            remove.append(path)
        else:
            kept.append({"path": path, "reason": reason})
    return remove, kept


def _reason(facts, disk, used):
    """Why a disk stays, None when it goes."""
    path = disk["source"]
    if disk["type"] != "file":
        return f"it is no image file ({disk['type']})"
    if disk["shareable"]:
        return "it is shareable"
    if (disk["readonly"] or disk["device"] != "disk") and not _is_own(facts, os.path.basename(path)):
        return "it is read-only and its name does not say that it is this instance's"
    return used.get(os.path.realpath(path))


def _is_own(facts, name):
    return facts["uuid"][:8] in name or name.startswith(f"{facts['name']}-seed.")


def _note(used, path, reason):
    """Remember a file and everything that it is backed by."""
    seen = set()
    while path and os.path.isabs(path):
        real = os.path.realpath(path)
        if real in seen:
            return
        seen.add(real)
        used.setdefault(real, reason)
        path = qcow2_backing_file(path)
