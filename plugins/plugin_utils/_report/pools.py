# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Storage pools of a host as a table: promised amounts and physical use."""

from __future__ import annotations

from collections.abc import Sequence

from .._records.hosts import ListedPool
from . import formatting
from .text import align

HEADINGS = ("POOL", "STATE", "PROMISED", "IN USE", "TRAITS")
NUMBERS = ("PROMISED", "IN USE")


def pools_table(pools: Sequence[ListedPool]) -> list[str]:
    """Return a table with a line for each pool; nothing without a pool."""
    if not pools:
        return []
    rows = []
    for pool in pools:
        promised = formatting.share(pool["used_gb"], pool["capacity_gb"], formatting.DISK)
        real = formatting.share(pool["physical_used_gb"], pool["total_gb"], formatting.DISK)
        shared = " shared" if pool["shared"] else ""
        state = ", ".join(filter(None, (pool["state"], "drained" if pool["drained"] else None)))
        rows.append(
            [
                pool["name"],
                state,
                f"{promised}{shared}" if promised else "",
                real,
                ", ".join(pool["traits"]),
            ]
        )
    shown = [
        at for at, name in enumerate(HEADINGS) if name != "TRAITS" or any(row[at] for row in rows)
    ]
    return [
        "",
        *align(
            [HEADINGS[at] for at in shown],
            [[row[at] for at in shown] for row in rows],
            right=NUMBERS,
        ),
    ]
