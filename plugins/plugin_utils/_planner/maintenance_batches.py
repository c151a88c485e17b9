# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether hosts can be down together: all their instances must find nodes on the other hosts."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence

from ansible_collections.drover.compute.plugins.plugin_utils._arrays import np
from ansible_collections.drover.compute.plugins.plugin_utils._planner import packing
from ansible_collections.drover.compute.plugins.plugin_utils._planner.packing_state import Load, PackingState, Placed

#: In fleets of more nodes than this a batch keeps the destinations it has found when another host joins it.
LARGE = 60


class MaintenanceFleet:
    """A fleet of which some hosts are down.

    :param items: all instances that can move.
    :param spare_hosts: how many more hosts may fail meanwhile.
    """

    def __init__(self, packing_state: PackingState, items: Iterable[int], spare_hosts: int) -> None:
        self.packing_state = packing_state
        self.spare = spare_hosts
        self.large = packing_state.size > LARGE
        #: Why the last hosts that were tried cannot be down together.
        self.why: str | None = None
        states = packing_state.states
        #: The rows and the items of each host.
        self.rows: dict[str, list[int]] = {}
        self.on: dict[str, list[int]] = {}
        for row in range(states.size):
            self.rows.setdefault(states.host[row], []).append(row)
        for item in items:
            self.on.setdefault(states.host[packing_state.at[item]], []).append(item)
        self._known: dict[tuple[str, ...], bool] = {}
        self._loads: dict[str, float] = {}
        self._by_load: list[str] | None = None

    def load(self, name: str) -> float:
        """Return the share of the fleet's free capacity that the instances of a host need, of the scarcest class."""
        if name not in self._loads:
            self._loads[name] = self._load(name)
        return self._loads[name]

    def _load(self, name: str) -> float:
        packing_state = self.packing_state
        items = self.on.get(name, [])
        if not items:
            return 0.0
        free = np.maximum(packing_state.free.clip(min=0).sum(axis=0), 1)
        return float((packing_state.need[items].sum(axis=0) / free).max())

    def fits(self, names: Iterable[str]) -> bool:
        """Return whether all items of these hosts fit on the others, with spare hosts to lose."""
        key = tuple(sorted(names))
        if key not in self._known:
            self._known[key] = self.places(key) is not None
        return self._known[key]

    def places(self, names: Collection[str]) -> Placed | None:
        """Find destinations for all items of these hosts; None where there are none."""
        self.why = None
        with self.packing_state.closed(self.rows_of(names)):
            placed = self._pack(self.items_of(names))
            return placed if placed is not None and self._survives(placed, names) else None

    def rows_of(self, names: Iterable[str]) -> list[int]:
        return [row for name in names for row in self.rows[name]]

    def items_of(self, names: Iterable[str]) -> list[int]:
        return [item for name in names for item in self.on.get(name, ())]

    def _pack(self, items: Sequence[int]) -> Placed | None:
        packing_state = self.packing_state
        if not items:
            return {}
        if (packing_state.need[items].sum(axis=0) > packing_state.free[packing_state.open].clip(min=0).sum(axis=0)).any():
            return None
        placed, stuck, _words = packing.pack(packing_state, items)
        if stuck:
            self.why = f"{packing_state.label[stuck[0]][0]} fits on no other host"
        return None if stuck else placed

    def _survives(self, placed: Mapping[int, int], names: Collection[str]) -> bool:
        """Return whether the fullest hosts that stay could be lost too."""
        if not self.spare:
            return True
        packing_state = self.packing_state
        packing_state.put_all(placed)
        lost = self.fullest(names)
        if lost is None:
            packing_state.take_all(placed)
            self.why = "too few other hosts would be left if another one failed"
            return False
        rows = self.rows_of(lost)
        hit = {item: node for item, node in placed.items() if node in rows}
        packing_state.take_all(hit)
        with packing_state.closed(rows):
            survives = self._pack([*self.items_of(lost), *hit]) is not None
        packing_state.put_all(hit)
        packing_state.take_all(placed)
        if not survives:
            self.why = f"if {', '.join(lost)} failed too, the other hosts could not take all instances"
        return survives

    def bound(self, names: Sequence[str]) -> int:
        """Return a lower bound on the number of batches: the instances of a batch need no more than what is free in the fleet."""
        packing_state = self.packing_state
        if not names:
            return 0
        up = packing_state.states.enabled & packing_state.states.up
        rows = self.rows_of(names)
        free = packing_state.free[up | np.isin(np.arange(packing_state.size), rows)].clip(min=0).sum(axis=0)
        used = np.zeros(len(packing_state.classes), dtype=np.int64)
        room = np.zeros(len(packing_state.classes), dtype=np.int64)
        for name in names:
            items = self.on.get(name, [])
            if items:
                used += packing_state.need[items].sum(axis=0)
            room += packing_state.free[self.rows[name]].clip(min=0).sum(axis=0)
        least = 1
        for number in np.flatnonzero(used):
            # A batch takes its own free capacity away, and its instances must fit into the rest.
            if free[number]:
                least = max(least, int(-(-(used[number] + room[number]) // free[number])))
        return least

    def fullest(self, but: Iterable[str]) -> list[str] | None:
        """Return the spare hosts with the highest load; None where no other host would be left.

        :param but: hosts that are down.
        """
        if self._by_load is None:
            self._by_load = sorted(self.rows, key=lambda name: (-self.load(name), name))
        down = set(but)
        staying = (name for name in self._by_load if name not in down and self.packing_state.open[self.rows[name]].any())
        found = list(itertools.islice(staying, self.spare + 1))
        return found[: self.spare] if len(found) > self.spare else None

    def settle(self, names: Collection[str], placed: Placed | None) -> None:
        """Leave the items of these hosts at their destinations.

        :param placed: the destinations; None to find them.
        """
        packing_state = self.packing_state
        placed = self.places(names) if placed is None else placed
        for item, node in (placed or {}).items():
            self.on[packing_state.states.host[packing_state.at[item]]].remove(item)
            packing_state.move(item, node)
            self.on.setdefault(packing_state.states.host[node], []).append(item)
        self._known, self._loads, self._by_load = {}, {}, None


class Batch:
    """Hosts that are down together; when one joins, all items are placed anew."""

    def __init__(self, fleet: MaintenanceFleet) -> None:
        self.fleet = fleet
        self.names: list[str] = []
        #: The destinations, where the batch keeps them.
        self.placed: Placed | None = None

    def add(self, name: str) -> bool:
        """Add a host; False, and it stays out, where the others cannot take the items of all of them."""
        fits = self.fleet.fits([*self.names, name])
        if fits:
            self.names.append(name)
        return fits


class LargeBatch(Batch):
    """A batch of a large fleet: an item keeps its destination unless that host joins too."""

    def __init__(self, fleet: MaintenanceFleet) -> None:
        super().__init__(fleet)
        self.placed: Placed = {}
        self._load: Load = fleet.packing_state.copy_of_load()

    def add(self, name: str) -> bool:
        packing_state = self.fleet.packing_state
        fleet, packing_state.load = packing_state.load, self._load
        try:
            return self._add(name)
        finally:
            packing_state.load = fleet

    def _add(self, name: str) -> bool:
        fleet, packing_state = self.fleet, self.fleet.packing_state
        rows = fleet.rows[name]
        was_open = packing_state.open[rows].copy()
        packing_state.open[rows] = False
        moved = {item: node for item, node in self.placed.items() if node in rows}
        new = self._place(moved, fleet.on.get(name, []))
        if new is not None:
            if self._survives({**self.placed, **new}, [*self.names, name]):
                self.placed.update(new)
                self.names.append(name)
                return True
            packing_state.take_all(new)
            packing_state.put_all(moved)
        packing_state.open[rows] = was_open
        return False

    def _place(self, moved: Placed, items: Iterable[int]) -> Placed | None:
        """Find destinations for items, and new ones for those in ``moved``; None, and all is as before, where there are none."""
        packing_state = self.fleet.packing_state
        packing_state.take_all(moved)
        every = [*moved, *items]
        if not every:
            return {}
        weights = packing.weights_of(packing_state, every)
        for _words, order in packing.orders(packing_state, every)[:2]:
            for fit in (packing.best_fit, packing.worst_fit):
                placed, stuck = packing.place(packing_state, order, fit, weights)
                if not stuck:
                    return placed
                packing_state.take_all(placed)
        packing_state.put_all(moved)
        return None

    def _survives(self, placed: Mapping[int, int], names: Iterable[str]) -> bool:
        """Return whether the fullest hosts that stay could be lost too; the packing state is as before afterwards."""
        fleet, packing_state = self.fleet, self.fleet.packing_state
        if not fleet.spare:
            return True
        lost = fleet.fullest(names)
        if lost is None:
            return False
        rows = fleet.rows_of(lost)
        hit = {item: node for item, node in placed.items() if node in rows}
        with packing_state.closed(rows):
            found = self._place(hit, fleet.items_of(lost))
        if found is not None:
            packing_state.take_all(found)
            packing_state.put_all(hit)
        return found is not None


def new_batch(fleet: MaintenanceFleet) -> Batch:
    """Make an empty batch, of the kind that suits the size of the fleet."""
    return LargeBatch(fleet) if fleet.large else Batch(fleet)
