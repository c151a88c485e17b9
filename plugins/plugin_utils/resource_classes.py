# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resource classes that every host and every instance has: their keys, their units, and texts of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Resource class -> its key in requests, flavors and instances, which is its column in the store too.
KEYS = {"VCPU": "vcpus", "MEMORY_MB": "memory_mb", "DISK_GB": "disk_gb"}
#: Resource class -> its unit. The others are counted in pieces.
UNITS = {"VCPU": "vCPU", "MEMORY_MB": "MiB", "DISK_GB": "GiB"}


def to_resources(sizes: Mapping[str, Any]) -> dict[str, int]:
    """Return the amount of each resource class from a mapping with vcpus, memory_mb (MiB) and disk_gb (GiB)."""
    return {name: int(sizes.get(key) or 0) for name, key in KEYS.items()}


def to_sizes(resources: Mapping[str, int]) -> dict[str, int]:
    """Return vcpus, memory_mb (MiB) and disk_gb (GiB) of amounts by resource class."""
    return {key: resources.get(name, 0) for name, key in KEYS.items()}


def size_text(resources: Mapping[str, int]) -> str:
    """Return amounts by resource class as people say them: ``2 vCPU, 64 MiB, 1 GiB``."""
    return ", ".join(f"{amount} {UNITS.get(name, name)}" for name, amount in resources.items())
