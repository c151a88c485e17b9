# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The limits of projects and what they use."""

from __future__ import annotations

from typing import TypedDict


class ResourceQuota(TypedDict):
    """A resource of a project, by Nova's name. limit: None without one."""

    resource: str
    limit: int | None
    in_use: int


class ProjectQuota(TypedDict):
    """The limits and the use of a project, with Nova's limits first."""

    project: str
    resources: list[ResourceQuota]
