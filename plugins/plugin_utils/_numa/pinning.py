# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The conversion of the cells of an instance to the settings of its domain, and to its needs on
another host (N11.8).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from ansible_collections.drover.compute.plugins.module_utils._domain.facts import (
    GuestCell as DomainCell,
)
from ansible_collections.drover.compute.plugins.module_utils._domain.facts import (
    GuestPages,
    MemoryPlace,
    NumaBinding,
)

from .._records.numa import HostCell, PlacedCell
from .guest import DEDICATED, ISOLATE, MIXED, SHARE, SHARED, GuestCell, GuestTopology

STRICT = "strict"
#: The sentence on an instance without a known topology_of(), after its name.
UNKNOWN = (
    "is tied to CPUs or NUMA cells of its host in a way that no claim makes, so it is not known"
    " what it needs elsewhere. Compare virsh vcpupin --live and --config, give it its former pins"
    " again or none, and run drover.compute.discover."
)


def shared_cpus(host_cells: Sequence[HostCell]) -> list[int] | None:
    """Return the CPUs of all shared vCPUs of a host; None if no set of the host reserves them."""
    shared = sorted(cpu for cell in host_cells for cpu in cell["cpus"])
    pinned = sorted(cpu for cell in host_cells for cpu in cell["pcpus"])
    # Without CPU sets a host lets all instances use all its CPUs.
    return shared if shared and shared != pinned else None


def facts_of_floating(cpus: Sequence[int] | None) -> NumaBinding:
    """Return the fact ``numa`` of the domain of an instance without cells, as hypervisor_info reads
    it.

    :param cpus: the result of shared_cpus() for its host.
    :returns: empty if the domain has no such setting.
    """
    return _facts(cpuset=sorted(cpus)) if cpus else {}


def facts_of_cells(cells: Sequence[PlacedCell], host_cells: Sequence[HostCell]) -> NumaBinding:
    """Return the fact ``numa`` of the domain of an instance with cells, as hypervisor_info reads
    it.

    :param cells: its cells, from NumaHosts.place().
    :param host_cells: all cells of its host, in the form for NumaHosts.
    """
    shared = {cell["id"]: sorted(cell["cpus"]) for cell in host_cells}
    everywhere = shared_cpus(host_cells)
    pins = {}
    for cell in cells:
        pins.update({str(vcpu): [cpu] for vcpu, cpu in cell["pins"].items()})
        pins.update({str(vcpu): shared[cell["host"]] for vcpu in cell["shared"]})
    reserved = sorted(cpu for cell in cells for cpu in cell["reserved"])
    emulator = sorted({cpu for cpus in pins.values() for cpu in cpus})
    if reserved:
        emulator = reserved
    elif cells[0].get("emulator_policy") == SHARE and everywhere:
        emulator = everywhere
    smallest = {
        cell["id"]: min((page["size_kb"] for page in cell["pages"]), default=0)
        for cell in host_cells
    }
    return _facts(
        vcpu_pins={key: pins[key] for key in sorted(pins, key=int)},
        emulator_pins=emulator,
        memory={"mode": STRICT, "nodes": sorted({cell["host"] for cell in cells})},
        cells=[
            {
                "id": cell["guest"],
                "cpus": sorted([*cell["shared"], *map(int, cell["pins"])]),
                "memory_mb": cell["memory_mb"],
                "mode": STRICT,
                "nodes": [cell["host"]],
            }
            for cell in cells
        ],
        pages=[
            {"size_kb": cell["page_kb"], "cells": [cell["guest"]]}
            for cell in cells
            if cell["page_kb"] is not None and cell["page_kb"] != smallest[cell["host"]]
        ],
    )


def _facts(
    cpuset: list[int] | None = None,
    vcpu_pins: dict[str, list[int]] | None = None,
    emulator_pins: list[int] | None = None,
    memory: MemoryPlace | None = None,
    cells: list[DomainCell] | None = None,
    pages: list[GuestPages] | None = None,
) -> NumaBinding:
    return {
        "cpuset": cpuset,
        "vcpu_pins": vcpu_pins or {},
        "emulator_pins": emulator_pins,
        "iothread_pins": {},
        "memory": memory,
        "cells": cells or [],
        "pages": pages or [],
        "locked": False,
    }


def topology_of(cells: Sequence[PlacedCell], vcpus: int) -> GuestTopology | None:
    """Return the needs of an instance on another host that correspond to its present cells; None if
    these are unknown, or without cells.

    The needs are unknown if the domain is tied by hand to several host cells, or to CPUs in another
    way than Nova's.

    :param cells: its cells on its host.
    """
    if not cells or [cell["guest"] for cell in cells] != list(range(len(cells))):
        return None
    seen = sorted(
        [vcpu for cell in cells for vcpu in cell["shared"]]
        + [int(vcpu) for cell in cells for vcpu in cell["pins"]]
    )
    reserved = [len(cell["reserved"]) for cell in cells]
    if (
        seen != list(range(vcpus))
        or any(reserved[1:])
        or reserved[0] > 1
        or len({cell["page_kb"] for cell in cells}) > 1
    ):
        return None
    pinned = _any(cells, "pins")
    if reserved[0] and not pinned:
        return None
    first = cells[0]
    return GuestTopology(
        cells=tuple(
            GuestCell(
                tuple(sorted(cell["shared"])),
                tuple(sorted(map(int, cell["pins"]))),
                cell["memory_mb"],
            )
            for cell in cells
        ),
        cpu_policy=(MIXED if _any(cells, "shared") else DEDICATED) if pinned else SHARED,
        thread_policy=first.get("thread_policy") if pinned else None,
        emulator_policy=ISOLATE if reserved[0] else first.get("emulator_policy"),
        page_size=first["page_kb"],
    )


def _any(cells: Iterable[PlacedCell], key: Literal["pins", "shared"]) -> bool:
    return any(cell[key] for cell in cells)
