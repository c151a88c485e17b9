# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots of instances as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from . import formatting
from .text import WIDEST, align, shortened

HEADINGS = ("INSTANCE", "SNAPSHOT", "KIND", "MADE", "AFTER", "CURRENT", "DESCRIPTION")
#: The kinds of snapshots in words for people.
KINDS = {"external": "external", "internal": "internal", "with_memory": "external, with memory"}


def snapshots_table(instances: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the snapshots of instances, one line each, or a sentence if there are none.

    :param instances: dicts with name and snapshots, from the module instance_snapshot.
    """
    rows = [
        [
            instance["name"],
            each["name"],
            KINDS.get(each["kind"], each["kind"]),
            formatting.moment(each["created_at"]),
            each["parent"],
            each["current"],
            shortened(each["description"], WIDEST),
        ]
        for instance in instances
        for each in instance["snapshots"]
    ]
    if not rows:
        return ["No snapshots."]
    return align(HEADINGS, rows, optional=["AFTER", "CURRENT", "DESCRIPTION"], name="INSTANCE")
