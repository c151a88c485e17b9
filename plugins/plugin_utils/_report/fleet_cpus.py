# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPUs of the fleet for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._common.errors import some
from . import formatting

EMPTY = "No CPU of the fleet is kept: the first instance with cpu: fleet makes it."


def fleet_cpus_lines(cpus: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return two lines for each CPU, and one for each host that lacks features of it.

    :param cpus: the result of FleetCpus.listing().
    """
    lines = []
    for cpu in cpus:
        cell = f", cell {cpu['cell']}" if cpu["cell"] else ""
        without = sorted(name for name, policy in cpu["policies"].items() if policy == "disable")
        more = sorted(name for name, policy in cpu["policies"].items() if policy == "require")
        parts = [
            cpu["model"],
            f"with {', '.join(more)}" if more else "",
            f"without {', '.join(without)}" if without else "",
        ]
        lines.append(
            f"{cpu['vendor'] or 'any vendor'}, {cpu['arch']}, {cpu['domain_type']}{cell}:"
            f" {' '.join(filter(None, parts))}"
        )
        lines.append(f"  made on {formatting.moment(cpu['created_at'])} of {some(cpu['hosts'])}")
        lines += [
            f"  {host} lacks {', '.join(names)}" for host, names in sorted(cpu["lacking"].items())
        ]
    return lines or [EMPTY]
