# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Projects as a table: the use and the limits of each."""

from __future__ import annotations

from collections.abc import Sequence

from .._common.errors import natural
from .._records.quotas import ProjectQuota, ResourceQuota
from . import formatting
from .parts import ProjectRow, ProjectsView
from .text import align

EMPTY = "No instance has a project, and no project has a quota."
_UNITS = {"ram": formatting.MEMORY, "MEMORY_MB": formatting.MEMORY, "DISK_GB": formatting.DISK}


def projects_view(quotas: Sequence[ProjectQuota]) -> ProjectsView:
    """Make the cells of a table of projects.

    :param quotas: the result of placement.quotas.listing().
    """
    names = list(dict.fromkeys(each["resource"] for quota in quotas for each in quota["resources"]))
    rows: list[ProjectRow] = []
    for quota in sorted(quotas, key=lambda each: natural(each["project"])):
        by_name = {each["resource"]: each for each in quota["resources"]}
        full = [
            name
            for name, each in by_name.items()
            if each["limit"] is not None and each["in_use"] >= each["limit"]
        ]
        cells = [_cell(by_name[name]) if name in by_name else None for name in names]
        rows.append({"project": quota["project"], "cells": cells, "full": full})
    return {"names": names, "rows": rows}


def projects_table(view: ProjectsView, indent: str = "") -> list[str]:
    """Write a table of projects, one line each; a sentence if there is none.

    :param view: the result of projects_view().
    """
    if not view["rows"]:
        return [EMPTY]
    headings = ("PROJECT", *(name.upper() for name in view["names"]))
    return align(
        headings,
        [[each["project"], *each["cells"]] for each in view["rows"]],
        right=headings[1:],
        indent=indent,
    )


def _cell(each: ResourceQuota) -> str | None:
    """Write the used amount, and the limit if there is one: ``8 of 10``."""
    units = _UNITS.get(each["resource"])
    used, limit = _amount(each["in_use"], units), _amount(each["limit"], units)
    return used if limit is None else f"{used} of {limit}"


def _amount(value: int | None, units: Sequence[str] | None) -> str | None:
    if units is None:
        return formatting.number(value)
    return formatting.memory(value) if units is formatting.MEMORY else formatting.disk(value)
