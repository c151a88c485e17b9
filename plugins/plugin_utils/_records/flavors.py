# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Flavors and images, as definitions and the store have them."""

from __future__ import annotations

from typing import Any, TypedDict


class FlavorFields(TypedDict, total=False):
    """A flavor."""

    name: str
    vcpus: int
    memory_mb: int
    disk_gb: int
    extra_specs: dict[str, str]


class ImageFields(TypedDict, total=False):
    """An image."""

    name: str
    id: str
    source: str | None
    checksum: str | None
    disk_format: str | None
    properties: dict[str, Any]
