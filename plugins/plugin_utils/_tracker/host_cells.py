# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NUMA cells of a hypervisor, as the check of the fit reads them, and the amounts that domains
take of them.

Data in, data out. A cell of a host is a mapping: ``id``; ``cpus`` and ``pcpus``, the CPUs of shared
and of pinned vCPUs; ``siblings``, a list of CPUs for each core; ``memory_mb``; ``pages``, with
``size_kb``, ``total`` and ``reserved``; ``socket``, None if it is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.drover.compute.plugins.module_utils._domain.facts import (
    GuestCell,
    NumaBinding,
)

from .._common import validation
from .._common.errors import DroverError
from .._records.numa import HostCell, PlacedCell

#: A cell as hypervisor_info reports it.
Cell = Mapping[str, Any]
#: {(cell, size of a page in KiB): number of pages}.
Pages = Mapping[tuple[int, int], int]

_RUNNING = ("running", "blocked", "paused", "shutdown", "pmsuspended")
_UNITS = {"": 1, "K": 1, "M": 1024, "G": 1024**2}
_SIZE = re.compile(r"([0-9]{1,12})\s*(?:([KMG])(?:i?B)?)?", re.IGNORECASE)


def host_cells(
    facts: Sequence[Cell],
    online: Iterable[int],
    shared: Iterable[int],
    pinned: Iterable[int],
    reserved: Pages,
) -> list[HostCell]:
    """Return the cells of a host.

    :param facts: numa_cells of hypervisor_info.
    :param online, shared, pinned: sets of CPUs of the whole host, not of one cell.
    :param reserved: pages that instances do not get.
    """
    shared, pinned = set(shared), set(pinned)
    usable = (shared | pinned) & set(online)
    cells: list[HostCell] = []
    for cell in facts:
        own = {cpu["id"] for cpu in cell["cpus"]} & usable
        sockets = {cpu.get("socket") for cpu in cell["cpus"]}
        cores = {
            tuple(sorted(usable.intersection(cpu.get("siblings") or ()))) for cpu in cell["cpus"]
        } - {()}
        cells.append(
            {
                "id": cell["id"],
                "cpus": sorted(own & shared),
                "pcpus": sorted(own & pinned),
                "siblings": [list(core) for core in sorted(cores)],
                "memory_mb": cell["memory_mb"],
                "pages": [
                    {
                        "size_kb": page["size_kb"],
                        "total": page["count"],
                        "reserved": reserved.get((cell["id"], page["size_kb"]), 0),
                    }
                    for page in sorted(cell.get("pages") or (), key=lambda each: each["size_kb"])
                ],
                "socket": next(iter(sockets)) if len(sockets) == 1 else None,
            }
        )
    return cells


def has_threads(facts: Iterable[Cell]) -> bool:
    """Return True if a core has several threads, whatever the CPU sets are (N6)."""
    return any(len(cpu.get("siblings") or ()) > 1 for cell in facts for cpu in cell["cpus"])


def read_reserved_pages(
    given: Any, facts: Iterable[Cell], where: str
) -> dict[tuple[int, int], int]:
    """Return the pages of the option reserved_huge_pages.

    :param given: a list of mappings with node, size (KiB, or with a unit) and count, or of texts in
        Nova's form; or a single mapping or text.
    :raises DroverError: malformed, twice, or more than the host has.
    """
    where = f"{where}: reserved_huge_pages (drover_reserved_huge_pages)"
    have = {
        (cell["id"], page["size_kb"]): page["count"]
        for cell in facts
        for page in cell.get("pages") or ()
    }
    reserved: dict[tuple[int, int], int] = {}
    for entry in given if isinstance(given, list) else [given] if given else []:
        pages = _from_text(entry, where) if isinstance(entry, str) else entry
        if not isinstance(pages, dict):
            raise DroverError(
                f"{where} must be a list such as [{{node: 0, size: 2MiB, count: 64}}], not"
                f" {validation.shown(entry)}."
            )
        validation.check_keys(where, pages, ("node", "size", "count"))
        node, count = (
            validation.read_whole(f"{where}, {name}", pages.get(name)) for name in ("node", "count")
        )
        key = (node, _size_kb(pages.get("size"), where))
        place = f"{where}: {key[1]} KiB pages of cell {node}"
        if key in reserved:
            raise DroverError(f"{place} stand twice. Write them once.")
        if key not in have:
            sizes = ", ".join(f"{size} KiB in cell {cell}" for cell, size in sorted(have)) or "none"
            raise DroverError(f"{place} do not exist on this host. It has: {sizes}.")
        if count > have[key]:
            raise DroverError(
                f"{place}: {count} cannot be reserved of the {have[key]} that there are."
            )
        reserved[key] = count
    return reserved


def _from_text(text: str, where: str) -> dict[str, object]:
    """Return the pages of a text in Nova's form node:0,size:2048,count:64."""
    parts = [part.partition(":") for part in text.split(",")]
    if not all(colon for dummy, colon, dummy2 in parts):
        raise DroverError(
            f"{where}: {validation.shown(text)} is not of the form node:0,size:2048,count:64."
        )
    return {name.strip(): value.strip() for name, dummy, value in parts}


def _size_kb(value: Any, where: str) -> int:
    match = (
        _SIZE.fullmatch(str(value).strip())
        if isinstance(value, (int, str)) and not isinstance(value, bool)
        else None
    )
    if match is None or not int(match[1]):
        raise DroverError(
            f"{where}: size must be a number of KiB or a size such as 2MiB or 1GiB, not"
            f" {validation.shown(value)}."
        )
    return int(match[1]) * _UNITS[(match[2] or "").upper()]


def with_foreign_pages(
    reserved: Pages,
    facts: Iterable[Cell],
    domains: Iterable[Mapping[str, Any]],
    cells: Sequence[HostCell],
) -> Pages:
    """Return the reserved pages, raised to the huge pages of other users, such as a switch.

    libvirt reports the number of free pages. For the smallest size it does not count the page cache
    as free, so that size is not raised.
    """
    taken: dict[tuple[int, int], int] = {}
    for domain in domains:
        if domain.get("state") in _RUNNING:
            for guest_cell in cells_of_domain(domain, cells)[0]:
                if guest_cell["page_kb"]:
                    key = (guest_cell["host"], guest_cell["page_kb"])
                    taken[key] = (
                        taken.get(key, 0) + guest_cell["memory_mb"] * 1024 // guest_cell["page_kb"]
                    )
    pages_by_cell = dict(reserved)
    for cell in facts:
        for page in sorted(cell.get("pages") or (), key=lambda each: each["size_kb"])[1:]:
            key = (cell["id"], page["size_kb"])
            if page.get("free") is not None:
                foreign = page["count"] - page["free"] - taken.get(key, 0)
                pages_by_cell[key] = max(pages_by_cell.get(key, 0), min(foreign, page["count"]), 0)
    return pages_by_cell


def cells_of_domain(
    domain: Mapping[str, Any], cells: Sequence[HostCell]
) -> tuple[list[PlacedCell], int, int]:
    """Return the amounts that a domain takes of its host's cells, and its number of dedicated CPUs.

    A vCPU that may run on one CPU is pinned to it. A CPU of pinned vCPUs is reserved if other
    threads of the domain may run on it. A guest cell may come from several host cells or from
    unknown ones. It then counts in equal parts in the cells of its CPUs.

    :param domain: a domain of hypervisor_info.
    :param cells: the cells from host_cells().
    :returns: a list with ``guest`` and ``host`` (numbers of cells), ``memory_mb``, ``page_kb``
        (None for the smallest size), ``shared`` (vCPUs), ``pins`` ({vCPU: CPU}) and ``reserved``
        (CPUs); the number of vCPUs on CPUs that the host keeps for pinned vCPUs, and the number of
        such CPUs that other threads of the domain have.
    """
    if not cells or not (domain.get("numa") or domain.get("next_start_cpus")):
        return [], 0, 0
    use = _Use(domain, domain.get("numa") or NumaBinding(), cells)
    return use.cells(), use.dedicated_vcpus(), use.dedicated_others()


class _Use:
    """A domain's use of the cells of its host."""

    def __init__(
        self, domain: Mapping[str, Any], numa: NumaBinding, cells: Sequence[HostCell]
    ) -> None:
        self._numa = numa
        self._cells = {cell["id"]: cell for cell in cells}
        self._cell_of = {
            cpu: cell["id"] for cell in cells for cpu in (*cell["cpus"], *cell["pcpus"])
        }
        self._pinnable = {cpu for cell in cells for cpu in cell["pcpus"]}
        #: CPUs that no shared vCPU uses; empty on a host with equal sets.
        self._own = self._pinnable - {cpu for cell in cells for cpu in cell["cpus"]}
        vcpus = range(int(domain.get("vcpus") or 0))
        memory = numa.get("memory")
        self._guests: list[GuestCell] = numa.get("cells") or [
            {
                "id": 0,
                "cpus": list(vcpus),
                "memory_mb": int(domain.get("memory_mb") or 0),
                "mode": None,
                "nodes": (memory.get("nodes") or []) if memory else [],
            }
        ]
        allowed = {
            each: set((numa.get("vcpu_pins") or {}).get(str(each)) or numa.get("cpuset") or ())
            for each in vcpus
        }
        self._allowed = allowed
        self._pins = {
            each: min(cpus)
            for each, cpus in allowed.items()
            if len(cpus) == 1 and cpus <= self._pinnable
        }
        #: vCPUs that float only over CPUs for pinned vCPUs.
        self._floating = {
            each for each, cpus in allowed.items() if len(cpus) > 1 and cpus <= self._own
        }
        pinned = set(self._pins.values())
        threads = [
            set(numa.get("emulator_pins") or ()),
            *map(set, numa.get("iothread_pins", {}).values()),
        ]
        more = [cpus - pinned for cpus in threads]
        self._emulator = {
            cpu
            for cpus in more
            for cpu in cpus
            if cpu in self._own or (len(cpus) == 1 and cpu in self._pinnable)
        }
        # The domain may start on the CPUs of its definition at any time, so no other domain gets
        # them.
        later = self._pinnable.intersection(domain.get("next_start_cpus") or ())
        self._reserved = (
            later | self._emulator | {cpu for each in self._floating for cpu in allowed[each]}
        ) - pinned

    def dedicated_vcpus(self) -> int:
        """Return the number of vCPUs that run only on CPUs for pinned vCPUs."""
        return sum(cpu in self._own for cpu in self._pins.values()) + len(self._floating)

    def dedicated_others(self) -> int:
        """Return the number of CPUs for pinned vCPUs that only other threads use."""
        floating = {cpu for each in self._floating for cpu in self._allowed[each]}
        return len((self._emulator - floating) & self._own)

    def cells(self) -> list[PlacedCell]:
        """Return the entries, sorted by guest and host cell."""
        entries: list[PlacedCell] = []
        for guest in self._guests:
            pinned = {
                self._cell_of[self._pins[each]] for each in guest["cpus"] if each in self._pins
            }
            memory = (
                {cell for cell in guest.get("nodes") or () if cell in self._cells}
                or pinned
                or self._near(guest)
            )
            if not memory:
                continue
            part, rest = divmod(guest["memory_mb"], len(memory))
            amounts = {place: part + (rest if place == min(memory) else 0) for place in memory}
            entries += [
                {
                    "guest": guest["id"],
                    "host": place,
                    "memory_mb": amounts.get(place, 0),
                    "page_kb": self._page_kb(guest["id"], self._cells[place]),
                    "shared": [],
                    "pins": {},
                    "reserved": [],
                }
                for place in sorted(memory | pinned)
            ]
            self._put_vcpus(
                guest, {each["host"]: each for each in entries if each["guest"] == guest["id"]}
            )
        for cpu in sorted(self._reserved):
            # Use the first entry in its cell, or else the first one of all: the CPU is taken
            # wherever the memory is.
            home = next((each for each in entries if each["host"] == self._cell_of[cpu]), None)
            if home is None:
                home = {
                    "guest": 0,
                    "host": self._cell_of[cpu],
                    "memory_mb": 0,
                    "page_kb": None,
                    "shared": [],
                    "pins": {},
                    "reserved": [],
                }
                entries.append(home)
            home["reserved"].append(cpu)
        return sorted(entries, key=lambda each: (each["guest"], each["host"]))

    def _near(self, guest: GuestCell) -> set[int]:
        """Return the one cell of the host that has all CPUs of a guest cell's vCPUs, as a set.

        The set is empty if the CPUs are in several cells, and for a guest without huge pages.

        It is needed if the guest does not name the cell of its memory.

        A guest that names only shared CPUs for its vCPUs is in no cell, as in Nova.
        """
        if not self._numa.get("pages"):
            return set()
        near = {
            self._cell_of.get(cpu) for each in guest["cpus"] for cpu in self._allowed.get(each, ())
        }
        return {cell for cell in near if cell is not None} if len(near) == 1 else set()

    def _put_vcpus(self, guest: GuestCell, entries: Mapping[int, PlacedCell]) -> None:
        first = next(iter(entries.values()))
        for vcpu in guest["cpus"]:
            if vcpu in self._pins:
                entries[self._cell_of[self._pins[vcpu]]]["pins"][str(vcpu)] = self._pins[vcpu]
            elif vcpu not in self._floating:
                near = {self._cell_of.get(cpu) for cpu in self._allowed.get(vcpu, ())}
                only = next(iter(near)) if len(near) == 1 else None
                entries.get(-1 if only is None else only, first)["shared"].append(vcpu)

    def _page_kb(self, guest: int, cell: HostCell) -> int | None:
        for pages in self._numa.get("pages") or ():
            if not pages["cells"] or guest in pages["cells"]:
                # A domain without a size gets the smallest huge pages, unless the kernel has
                # another default.
                huge = [page["size_kb"] for page in cell["pages"]][1:]
                size: int | None = pages["size_kb"] or (huge[0] if huge else None)
                return size
        return None
