# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics that hosts report."""

from __future__ import annotations

from typing import Any


def by_name(metrics: Any) -> dict[str, object]:
    """Return {name: value} from a list of {name, value} as Nova keeps it, or from a mapping."""
    if isinstance(metrics, dict):
        return metrics
    return {
        each["name"]: each["value"]
        for each in metrics or ()
        if isinstance(each, dict) and "name" in each
    }
