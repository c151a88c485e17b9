# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A domain's facts, made into what the store holds of it."""

from __future__ import annotations

import math

# Kept as facts of the domain; what is not here has a column of its own.
DOMAIN_FACTS = ("disks", "interfaces", "hostdevs", "metadata", "managed_save", "snapshots", "title")
GIB = 1024**3


def describe(facts):
    """Columns of the domains table and the resources the domain takes.

    :param facts: one of hypervisor_info's domains.
    :returns: a dict: columns, resources (dict class -> amount; DISK_GB is None when a size is not
        known), metadata.
    """
    return {
        "columns": {
            "uuid": facts["uuid"],
            "name": facts["name"],
            "state": facts.get("state") or "nostate",
            "persistent": bool(facts.get("persistent", True)),
            "autostart": bool(facts.get("autostart", False)),
            "facts": {key: facts[key] for key in DOMAIN_FACTS if facts.get(key)},
            "xml": facts.get("xml"),
        },
        "resources": {
            "VCPU": facts.get("vcpus") or 0,
            "MEMORY_MB": facts.get("memory_mb") or 0,
            "DISK_GB": _disk_gb(facts.get("disks") or [], facts.get("disk_gb")),
        },
        "metadata": facts.get("metadata") or {},
    }


def _disk_gb(disks, told):
    """Sum of the virtual sizes of the writable disks in GiB, rounded up once."""
    if told is not None:
        return told
    sizes = [
        disk.get("capacity_bytes")
        for disk in disks
        if disk.get("device", "disk") == "disk" and not disk.get("readonly") and disk.get("source")
    ]
    if any(size is None for size in sizes):
        return None
    return math.ceil(sum(sizes) / GIB)
