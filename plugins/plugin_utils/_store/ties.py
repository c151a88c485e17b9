# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which compute nodes can take an instance with pins, NUMA cells or huge pages as it is.

A move changes none of them: the same numbers of CPUs and cells count at the destination, and must be free there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._errors import node_label
from ansible_collections.drover.compute.plugins.plugin_utils._records.hosts import NumaAllocation
from ansible_collections.drover.compute.plugins.plugin_utils._records.instances import Tie
from ansible_collections.drover.compute.plugins.plugin_utils._store import numa, tables
from ansible_collections.drover.compute.plugins.plugin_utils._store.sql import Connection, sa


class Bond:
    """What an instance needs at any host.

    cpus: of pinned vCPUs, and pinned emulator threads. floating: CPUs over which it floats. nodes: cells of its memory. pages: {(cell, KiB):
    number}; None where it has huge pages and nobody knows in which cell.
    """

    def __init__(self, facts: Mapping[str, Any], held: NumaAllocation | None) -> None:
        allowed = [*(facts.get("vcpu_pins") or {}).values(), facts.get("emulator_pins") or []]
        self.cpus = {cpus[0] for cpus in (facts.get("vcpu_pins") or {}).values() if len(cpus) == 1}
        self.floating = {cpu for cpus in allowed for cpu in cpus}
        self.nodes = set((facts.get("memory") or {}).get("nodes") or ())
        self.nodes |= {node for cell in facts.get("cells") or () for node in cell.get("nodes") or ()}
        self.pages: Counter[tuple[int, int]] | None = Counter()
        has_pages = bool(facts.get("pages"))
        for cell in held["cells"] if held else ():
            self.cpus |= set(cell["reserved"])
            if cell["page_kb"]:
                self.pages[cell["host"], cell["page_kb"]] += cell["memory_mb"] * 1024 // cell["page_kb"]
        if has_pages and not self.pages:
            self.pages = None
        self.isolated = any(_is_isolated(cell) for cell in (held["cells"] if held else ()))
        #: Whether it is tied at all: one that only floats over CPUs moves as any other.
        self.ties = bool(self.cpus or self.nodes or has_pages)

    def words(self) -> str:
        """Return what ties the instance, after ``it``."""
        parts = []
        if self.cpus:
            parts.append(f"is pinned to {_cpus(self.cpus)}")
        if self.nodes:
            parts.append(f"has its memory in NUMA cell {', '.join(map(str, sorted(self.nodes)))}")
        if self.pages is None or self.pages:
            parts.append("has huge pages")
        return " and ".join(parts)


class _Room:
    """What a node has free of its cells."""

    def __init__(self, cells: Iterable[Mapping[str, Any]], held: Iterable[NumaAllocation]) -> None:
        cells = list(cells)
        self.cells = {cell["id"] for cell in cells}
        self.pinnable = {cpu for cell in cells for cpu in cell["pcpus"]}
        self.known = self.pinnable | {cpu for cell in cells for cpu in cell["cpus"]}
        self._cores = [set(core) for cell in cells for core in cell["siblings"]]
        self.taken: set[int] = set()
        self.pages: Counter[tuple[int, int]] = Counter()
        for cell in cells:
            self.pages.update({(cell["id"], page["size_kb"]): page["total"] - page["reserved"] for page in cell["pages"]})
        for each in held:
            for cell in each["cells"]:
                cpus = {*cell["pins"].values(), *cell["reserved"]}
                self.taken |= self.with_siblings(cpus) if _is_isolated(cell) else cpus
            self.pages.subtract(
                {(cell["host"], cell["page_kb"]): cell["memory_mb"] * 1024 // cell["page_kb"] for cell in each["cells"] if cell["page_kb"]}
            )

    def with_siblings(self, cpus: set[int]) -> set[int]:
        """Return CPUs with those of the same cores."""
        return cpus.union(*(core for core in self._cores if core & cpus))

    def why_not(self, bond: Bond) -> str | None:
        """Return why the node does not take an instance as it is, None if it does."""
        if not self.cells:
            return "it tells no NUMA cells"
        missing = bond.nodes - self.cells
        if missing:
            return f"it has no NUMA cell {', '.join(map(str, sorted(missing)))}"
        if bond.cpus - self.pinnable:
            return f"it does not keep {_cpus(bond.cpus - self.pinnable)} for pinned vCPUs"
        if bond.floating - self.known:
            return f"{_cpus(bond.floating - self.known)} {'serve' if len(bond.floating - self.known) > 1 else 'serves'} no instances there"
        busy = self.taken & (self.with_siblings(bond.cpus) if bond.isolated else bond.cpus)
        if busy:
            return f"{_cpus(busy)} {'are' if len(busy) > 1 else 'is'} taken"
        if bond.pages is None:
            return "nobody knows which huge pages it has"
        for (cell, size), count in sorted(bond.pages.items()):
            if self.pages[cell, size] < count:
                return f"it has {max(self.pages[cell, size], 0)} of {count} pages of {size} KiB free in cell {cell}"
        return None

    def take(self, bond: Bond) -> None:
        """Let an instance have what it needs."""
        self.taken |= self.with_siblings(bond.cpus) if bond.isolated else bond.cpus
        self.pages.subtract(bond.pages or {})


def read(connection: Connection, instances: Iterable[tuple[str, str, str, Mapping[str, Any]]]) -> dict[str, Tie]:
    """Read which nodes can take instances; those of one call do not get the same CPUs or pages, wherever they may go.

    :param instances: (uuid, host, hypervisor_hostname, the fact ``numa`` of its domain) of those that have this fact.
    :returns: {uuid: tie}, without instances that are not tied.
    """
    given = list(instances)
    if not given:
        return {}
    table = tables.compute_nodes
    rows = list(connection.execute(sa.select(table.c.id, table.c.uuid, table.c.host, table.c.hypervisor_hostname, table.c.numa_cells)))
    held = numa.read(connection)
    left_on = {row.id: _Room(row.numa_cells or (), held.get(row.id, ())) for row in rows}
    nodes = {(row.host, row.hypervisor_hostname): row.id for row in rows}
    found: dict[str, Tie] = {}
    for uuid, host, node, facts in given:
        here = nodes.get((host, node))
        bond = Bond(facts, next((each for each in held.get(here or 0, ()) if each["uuid"] == uuid), None))
        if not bond.ties:
            continue
        refused: dict[str, str] = {}
        labels: dict[str, str] = {}
        for row in rows:
            if row.id == here:
                continue
            labels[row.uuid] = node_label(row.host, row.hypervisor_hostname)
            why = left_on[row.id].why_not(bond)
            if why is None:
                left_on[row.id].take(bond)
            else:
                refused[row.uuid] = why
        reasons = [f"{labels[key]}: {why}" for key, why in sorted(refused.items(), key=lambda each: labels[each[0]])]
        found[uuid] = {"why": bond.words(), "refused": refused, "reasons": reasons, "free": len(labels) - len(refused)}
    return found


def _is_isolated(cell: Mapping[str, Any]) -> bool:
    return cell.get("thread_policy") == "isolate"


def _cpus(cpus: Iterable[int]) -> str:
    numbers = sorted(cpus)
    return f"CPU{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
