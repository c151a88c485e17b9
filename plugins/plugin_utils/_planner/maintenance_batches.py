# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check if hosts can be down together: all their instances must find nodes on the other
hosts.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from .._common.arrays import BoolArray, FloatArray, IntArray, np
from . import packing
from .packing_state import Load, PackingState, Placed
from .shortlists import Shortlists

#: All items of a batch are placed again when a host does not fit in, if items times nodes are at
#: most this number.
PAIRS = 20000


class MaintenanceFleet:
    """A fleet with some hosts that are down.

    :param items: all instances that can move.
    :param spare_hosts: the number of further hosts that may fail during the maintenance.
    """

    def __init__(self, packing_state: PackingState, items: Iterable[int], spare_hosts: int) -> None:
        self.packing_state = packing_state
        self.spare = spare_hosts
        #: The reason why the last hosts that were tried cannot be down together.
        self.why: str | None = None
        states = packing_state.states
        #: The rows and the items of each host.
        self.rows: dict[str, list[int]] = {}
        self.on: dict[str, list[int]] = {}
        for row in range(states.size):
            self.rows.setdefault(states.host[row], []).append(row)
        for item in items:
            self.on.setdefault(states.host[packing_state.at[item]], []).append(item)
        self._all = list(itertools.chain(*self.on.values()))
        self._known: dict[tuple[str, ...], bool] = {}
        self._loads: dict[str, float] = {}
        self._by_load: list[str] | None = None
        self._free: IntArray | None = None
        self._with_room: dict[int, BoolArray] = {}

    @cached_property
    def weights(self) -> FloatArray:
        """The scarcity of each class, see packing.weights_of()."""
        return packing.weights_of(self.packing_state, self._all)

    @cached_property
    def ranks(self) -> list[IntArray]:
        """The place of each item in the orders of placing: by memory, and by the scarcest class."""
        ranks = []
        for _words, order in itertools.islice(packing.orders(self.packing_state, self._all), 2):
            rank = np.zeros(len(self.packing_state.kind), dtype=np.int64)
            rank[order] = np.arange(len(order))
            ranks.append(rank)
        return ranks

    @property
    def free(self) -> IntArray:
        """The free capacity of each class in the fleet, at least 1."""
        if self._free is None:
            self._free = np.maximum(self.packing_state.free.clip(min=0).sum(axis=0), 1)
        return self._free

    def foresee(self, name: str) -> bool | None:
        """Return True if the instances of a host fit on the others while only that host is down,
        without placing them; None if this is unknown.

        They fit in any case if each has so many nodes to choose from that every one can have a
        separate node. They do not fit if one of them has no node.
        """
        packing_state, items = self.packing_state, self.on.get(name, ())
        if not self.spare and not items:
            return True
        self.why = None
        least = len(items)
        for item in items:
            kind, own = int(packing_state.kind[item]), self.rows[name]
            if kind not in self._with_room:
                self._with_room[kind] = packing_state.room_for(kind)
            room = self._with_room[kind]
            choices = int(np.count_nonzero(room)) - int(np.count_nonzero(room[own]))
            if choices and packing_state.groups[item]:
                choices = int(np.count_nonzero(packing_state.fits(item)))
            if not choices:
                self.why = f"{packing_state.label[item][0]} fits on no other host"
                return False
            if any(packing_state.needs[kind][number] for number in packing_state.provided):
                choices = 0
            least = min(least, choices)
        # Nodes of one host count as one for a server group, and spare hosts are lost too.
        one_host = packing_state.size > packing_state.states.host_count and any(
            packing_state.groups[item] for item in items
        )
        return True if least >= len(items) and not one_host and not self.spare else None

    def load(self, name: str) -> float:
        """Return the share of the fleet's free capacity that the instances of a host need, of the
        scarcest class.
        """
        if name not in self._loads:
            self._loads[name] = self._load_of_host(name)
        return self._loads[name]

    def _load_of_host(self, name: str) -> float:
        packing_state = self.packing_state
        items = self.on.get(name, [])
        if not items:
            return 0.0
        return float((packing_state.need[items].sum(axis=0) / self.free).max())

    def fits(self, names: Iterable[str]) -> bool:
        """Return True if all items of these hosts fit on the others, with spare hosts to lose."""
        key = tuple(sorted(names))
        if key not in self._known:
            self._known[key] = self.places(key) is not None
        return self._known[key]

    def places(self, names: Collection[str]) -> Placed | None:
        """Find destinations for all items of these hosts; None if there are none."""
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
        if (
            packing_state.need[items].sum(axis=0)
            > packing_state.free[packing_state.open].clip(min=0).sum(axis=0)
        ).any():
            return None
        placed, stuck, _words = packing.pack(packing_state, items)
        if stuck:
            self.why = f"{packing_state.label[stuck[0]][0]} fits on no other host"
        return None if stuck else placed

    def _survives(self, placed: Mapping[int, int], names: Collection[str]) -> bool:
        """Return True if the fullest hosts that stay could be lost too."""
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
            self.why = (
                f"if {', '.join(lost)} failed too, the other hosts could not take all instances"
            )
        return survives

    def bound(self, names: Sequence[str]) -> int:
        """Return a lower bound on the number of batches: the instances of a batch need no more than
        the free capacity of the fleet.
        """
        packing_state = self.packing_state
        if not names:
            return 0
        up = packing_state.states.enabled & packing_state.states.up
        rows = self.rows_of(names)
        free = (
            packing_state.free[up | np.isin(np.arange(packing_state.size), rows)]
            .clip(min=0)
            .sum(axis=0)
        )
        used = np.zeros(len(packing_state.classes), dtype=np.int64)
        room = np.zeros(len(packing_state.classes), dtype=np.int64)
        for name in names:
            items = self.on.get(name, [])
            if items:
                used += packing_state.need[items].sum(axis=0)
            room += packing_state.free[self.rows[name]].clip(min=0).sum(axis=0)
        least = 1
        for number in np.flatnonzero(used):
            # A batch takes its free capacity out of the fleet, and its instances must fit into the
            # rest.
            if free[number]:
                least = max(least, int(-(-(used[number] + room[number]) // free[number])))
        return least

    def fullest(self, but: Iterable[str]) -> list[str] | None:
        """Return the spare hosts with the highest load; None if no other host would be left.

        :param but: hosts that are down.
        """
        if self._by_load is None:
            self._by_load = sorted(self.rows, key=lambda name: (-self.load(name), name))
        down = set(but)
        staying = (
            name
            for name in self._by_load
            if name not in down and self.packing_state.open[self.rows[name]].any()
        )
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
        self._known, self._loads, self._by_load, self._free, self._with_room = (
            {},
            {},
            None,
            None,
            {},
        )


class Batch:
    """Hosts that are down together.

    An item keeps its destination unless that host joins too. If a host does not fit in this way,
    all items of a small batch are placed again.
    """

    def __init__(self, fleet: MaintenanceFleet) -> None:
        self.fleet = fleet
        self.names: list[str] = []
        self.placed: Placed = {}
        #: The items that this batch has put on each node.
        self._on: dict[int, list[int]] = {}
        self._load_of_host: Load = fleet.packing_state.copy_of_load()
        self._lists = Shortlists(fleet.packing_state, fleet.weights)

    def fits(self, name: str) -> bool:
        """Return True if a host could join; the batch is unchanged."""
        with self._own_load():
            fit = self._find_places(name)
            if fit is not None:
                new, moved = fit
                self.fleet.packing_state.take_all(new)
                self.fleet.packing_state.put_all(moved)
                self.fleet.packing_state.open[self.fleet.rows[name]] = True
        return fit is not None

    def add(self, name: str) -> bool:
        """Add a host; return False, without the host, if the others cannot take the items of all
        hosts.
        """
        with self._own_load():
            found = self._find_places(name)
            if found is not None:
                self._keep_places(*found)
                self.names.append(name)
                return True
        items = len(self.placed) + len(self.fleet.on.get(name, ()))
        if items * self.fleet.packing_state.size > PAIRS:
            return False
        names = [*self.names, name]
        placed = self.fleet.places(names)
        if placed is None:
            return False
        with self._own_load():
            packing_state = self.fleet.packing_state
            packing_state.open[self.fleet.rows[name]] = False
            packing_state.take_all(self.placed)
            packing_state.put_all(placed)
        self.names, self.placed, self._on = names, {}, {}
        self._lists = Shortlists(self.fleet.packing_state, self.fleet.weights)
        self._keep_places(placed, {})
        return True

    @contextlib.contextmanager
    def _own_load(self) -> Iterator[None]:
        packing_state = self.fleet.packing_state
        fleet, packing_state.load = packing_state.load, self._load_of_host
        try:
            yield
        finally:
            packing_state.load = fleet

    def _keep_places(self, new: Placed, moved: Placed) -> None:
        for item, node in moved.items():
            self._on[node].remove(item)
        for item, node in new.items():
            self._on.setdefault(node, []).append(item)
        self.placed.update(new)

    def _find_places(self, name: str) -> tuple[Placed, Placed] | None:
        """Close a host and place its items and the items that the batch has put on it. If they do
        not fit, return None and change nothing.

        :returns: the new places, and the former places of the items that were moved on.
        """
        fleet, packing_state = self.fleet, self.fleet.packing_state
        items = fleet.on.get(name, [])
        if self._lists.is_full(set(packing_state.kind[items].tolist())):
            return None
        rows = fleet.rows[name]
        was_open = packing_state.open[rows].copy()
        packing_state.open[rows] = False
        moved = {item: node for node in rows for item in self._on.get(node, ())}
        new, stuck = self._place_items(moved, items)
        if not stuck:
            if self._survives(new, moved, [*self.names, name]):
                return new, moved
            packing_state.take_all(new)
            packing_state.put_all(moved)
        packing_state.open[rows] = was_open
        for kind in stuck:
            self._lists.look(kind)
        return None

    def _place_items(self, moved: Placed, items: Iterable[int]) -> tuple[Placed, set[int]]:
        """Find destinations for items, and new destinations for the items in ``moved``.

        :returns: the destinations; if there are none, nothing changes, and the second value has the
            kinds without a destination.
        """
        packing_state = self.fleet.packing_state
        packing_state.take_all(moved)
        every = [*moved, *items]
        stuck_kinds = set()
        for rank in self.fleet.ranks if every else ():
            order = sorted(every, key=rank.__getitem__)
            for worst in (False, True):
                placed, stuck = self._lists.place(order, worst)
                if stuck is None:
                    return placed, set()
                packing_state.take_all(placed)
                stuck_kinds.add(int(packing_state.kind[stuck]))
        packing_state.put_all(moved)
        return {}, stuck_kinds

    def _survives(self, new: Placed, moved: Placed, names: Sequence[str]) -> bool:
        """Return True if the fullest hosts that stay could be lost too; the packing state is
        unchanged afterwards.

        :param new: places of items that are not kept yet.
        :param moved: items with another place in ``new``.
        """
        fleet, packing_state = self.fleet, self.fleet.packing_state
        if not fleet.spare:
            return True
        lost = fleet.fullest(names)
        if lost is None:
            return False
        rows = fleet.rows_of(lost)
        hit = {item: node for node in rows for item in self._on.get(node, ()) if item not in moved}
        hit.update({item: node for item, node in new.items() if node in rows})
        with packing_state.closed(rows):
            found, stuck = self._place_items(hit, fleet.items_of(lost))
        if not stuck:
            packing_state.take_all(found)
            packing_state.put_all(hit)
        return not stuck
