# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The heat map: a cell for each host, by zone. Data in, data out."""

from __future__ import annotations

from collections.abc import Sequence

from .._common.errors import natural
from . import formatting
from .parts import Cell, Figure, HeatGroup, HostView

#: The percentages from which on a host is in the next band.
BANDS = (50, 70, 85, 95)
#: The figures of a cell: the letter in the page, and the label.
SHOWN = (("f", "fullest"), ("v", "vCPU"), ("m", "memory"), ("d", "disk"), ("p", "physical use"))
_LETTERS = {"vcpus": "v", "memory_mb": "m", "disk_gb": "d"}


def band(percent: int | None) -> int | None:
    """Return the band of a percentage, 0 to 4; None if the percentage is unknown."""
    return None if percent is None else sum(percent >= each for each in BANDS)


def heat_map(hosts: Sequence[HostView]) -> list[HeatGroup]:
    """Group hosts by zone; one group without a zone if no host has any.

    :param hosts: the hosts of the view.
    """
    zones: dict[str, list[HostView]] = {}
    for host in sorted(hosts, key=lambda each: natural(each["host"])):
        zones.setdefault(", ".join(host["zones"]), []).append(host)
    return [
        _group(zone, zones[zone])
        for zone in sorted(zones, key=lambda zone: (zone == "", natural(zone)))
    ]


def _group(zone: str, hosts: Sequence[HostView]) -> HeatGroup:
    cells = [_cell(host) for host in hosts]
    bands = [cell["bands"]["f"] for cell in cells]
    kinds = [cell["kind"] for cell in cells]
    return {
        "zone": zone,
        "hosts": cells,
        "counts": [
            (each, bands.count(each)) for each in reversed(range(len(BANDS) + 1)) if each in bands
        ],
        "kinds": [
            (each, kinds.count(each))
            for each in ("down", "disabled", "unreported", "maintenance")
            if each in kinds
        ],
    }


def _cell(host: HostView) -> Cell:
    percents: dict[str, int | None] = {"f": host["full"]}
    for each in host["figures"]:
        # The fill of a shared pool is not a property of this host.
        percents[_LETTERS[each["name"]]] = None if each["shared"] else each["percent"]
    physical = [
        each
        for each in host["figures"]
        if each["physical_percent"] is not None and not each["shared"]
    ]
    percents["p"] = max((each["physical_percent"] or 0 for each in physical), default=None)
    return {
        "host": host["host"],
        "id": host["id"],
        "kind": host["kind"],
        "percents": percents,
        "bands": {letter: band(percent) for letter, percent in percents.items()},
        "text": _text(host, physical),
    }


def _text(host: HostView, physical: Sequence[Figure]) -> str:
    """Write the figures of a host in one line, the fullest first: ``kvm7: disk 97 %, memory 96 %,
    vCPU 77 %; physical memory 60 %; up``.
    """
    figures = sorted(
        (each for each in host["figures"] if each["percent"] is not None),
        key=lambda each: -(each["percent"] or 0),
    )
    parts = [
        ", ".join(
            f"{each['label']} {each['percent']} %{' (shared pool)' if each['shared'] else ''}"
            for each in figures
        )
        or "no figures are known",
        ", ".join(f"physical {each['label']} {each['physical_percent']} %" for each in physical),
        host["state"],
        f"{formatting.number(host['instances'])} instance{'' if host['instances'] == 1 else 's'}",
    ]
    return f"{host['host']}: " + "; ".join(part for part in parts if part)
