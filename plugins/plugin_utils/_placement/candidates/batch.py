# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room on compute nodes for a batch of requests, by the allocation candidates of each node. Pure.

A node is a root provider. The resources of a request count as used for the requests after it. Each
query is answered once for all nodes; after that, a new allocation changes the answer only for the
nodes that the providers serve.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ..._common import capacity_rule
from ..._common.arrays import BoolArray, IntArray, np
from ..._records.claims import Allocations
from ..._store.providers.provider_arrays import ProviderArrays
from . import response, search, viable
from .query import Query
from .viable import Option

#: The most nodes that are searched one by one.
FEW = 8


def allocations_of(request: response.AllocationRequest) -> Allocations:
    """Return the resources of a candidate, by provider."""
    return {uuid: each["resources"] for uuid, each in request["allocations"].items()}


class CandidateCapacity:
    """The free capacity of nodes, by allocation candidates.

    :param topology: the providers that all queries need; its ``used`` changes.
    :param nodes: uuids of root providers, in the order of the masks. Nothing is free on a node that
        the topology lacks.
    """

    def __init__(self, topology: ProviderArrays, nodes: Iterable[str]) -> None:
        self._topology = topology
        self._place_of = {uuid: place for place, uuid in enumerate(topology.uuids)}
        self._places = np.array([self._place_of.get(uuid, -1) for uuid in nodes], dtype=np.int64)
        self._at: dict[str, IntArray] = {}
        for name, inventory in topology.inventories.items():
            self._at[name] = np.full(topology.size, -1, dtype=np.int64)
            self._at[name][inventory.places] = np.arange(len(inventory.places))
        self._asked: dict[int, tuple[Query, _QueryState]] = {}

    def fits(self, query: Query) -> BoolArray:
        """Return which of the nodes have room for a query."""
        return self._state_of(query).roots[self._places]

    def choose(self, query: Query, node: int) -> Allocations | None:
        """Return the allocations of a query on a node, by the number of the node; None if it does
        not fit.
        """
        found = next(self.candidates(query, node), None)
        return allocations_of(found) if found is not None else None

    def candidates(self, query: Query, node: int) -> Iterator[response.AllocationRequest]:
        """Find the candidates of a node, by its number, the best first.

        Prefer the candidate with the fewest providers outside the node's own tree, then the one
        that leaves the most capacity free.
        """
        if self._places[node] < 0:
            return
        rows = self._state_of(query).rows(self._places[node])
        if len(rows):
            slots = search.slots(query)
            for place in self._in_order(rows, slots, self._places[node]):
                yield from response.requests(self._topology, rows[place : place + 1], slots)

    def take(self, query: Query, node: int) -> Allocations | None:
        """Do as choose(), and count the taken resources as used."""
        taken = self.choose(query, node)
        if taken is not None:
            self.count(taken, 1)
        return taken

    def count(self, taken: Allocations, sign: int) -> None:
        """Count amounts as used (sign 1) or as free again (-1)."""
        for uuid, resources in taken.items():
            place = self._place_of[uuid]
            for name, amount in resources.items():
                self._topology.inventories[name].used[self._at[name][place]] += sign * amount
            for _dummy, asked in self._asked.values():
                asked.look_again(place, resources)

    def most(self, name: str, node: int) -> tuple[int, int] | None:
        """Return the free amount and the capacity of the provider with the most room for a class,
        among the providers that a node reaches.
        """
        inventory, root = self._topology.inventories.get(name), self._places[node]
        if inventory is None or root < 0:
            return None
        mine = self._topology.roots[inventory.places] == root
        for place, roots in self._topology.reached.items():
            at = self._at[name][place]
            if at >= 0 and root in roots:
                mine[at] = True
        free = (inventory.capacity - inventory.used)[mine]
        if not len(free):
            return None
        best = int(np.argmax(free))
        return max(int(free[best]), 0), int(inventory.capacity[mine][best])

    def _state_of(self, query: Query) -> _QueryState:
        # The query is kept, so that no other one gets its id.
        if id(query) not in self._asked:
            self._asked[id(query)] = (query, _QueryState(self._topology, self._at, query))
        return self._asked[id(query)][1]

    def _in_order(self, rows: IntArray, slots: Sequence[search.Slot], root: int) -> list[int]:
        if len(rows) == 1:
            return [0]
        topology = self._topology
        lent = (topology.roots[rows] != root).sum(axis=1)
        room_left = np.zeros(len(rows))
        for number, slot in enumerate(slots):
            for name, amount in slot.resources.items():
                inventory = topology.inventories[name]
                at = self._at[name][rows[:, number]]
                room_left += (inventory.capacity[at] - inventory.used[at] - amount) / np.maximum(
                    inventory.capacity[at], 1
                )
        order: list[int] = np.lexsort((-room_left, lent)).tolist()
        return order


class _QueryState:
    """One query.

    roots: the anchors that have a candidate, over the providers, and one more element that is
    false.
    """

    def __init__(self, topology: ProviderArrays, at: Mapping[str, IntArray], query: Query) -> None:
        self._topology, self._at, self._query = topology, at, query
        self._slots = search.slots(query)
        # All providers that could serve a slot if nothing were used; the masks mark the ones with
        # room now.
        empty = {
            name: replace(each, used=np.zeros_like(each.used))
            for name, each in topology.inventories.items()
        }
        # Empty if some slot has none: then no node ever has a candidate.
        self._options = viable.options(replace(topology, inventories=empty), query) or []
        self.roots = np.zeros(topology.size + 1, dtype=bool)
        self._several = len({name for slot in self._slots for name in slot.resources}) < sum(
            len(slot.resources) for slot in self._slots
        )
        self._masks = [
            self._fits_slot(slot, option.places) for slot, option in zip(self._slots, self._options)
        ]
        # The pairs in the order of their providers.
        self._orders = [np.argsort(option.places, kind="stable") for option in self._options]
        self._sorted = [option.places[order] for option, order in zip(self._options, self._orders)]
        for anchors, _rows in self._candidates(self._options, self._masks) if self._options else ():
            self.roots[anchors] = True

    def rows(self, place: int) -> IntArray:
        """Return the candidates of one anchor, as search.find has them."""
        return (
            self._rows_of(place)
            if self.roots[place]
            else np.zeros((0, len(self._slots)), dtype=np.int64)
        )

    def _rows_of(self, place: int) -> IntArray:
        ranges = [np.searchsorted(option.anchors, [place, place + 1]) for option in self._options]
        options = [
            viable.Option(option.anchors[first:last], option.places[first:last])
            for option, (first, last) in zip(self._options, ranges)
        ]
        masks = [mask[first:last] for mask, (first, last) in zip(self._masks, ranges)]
        found = [rows for _anchors, rows in self._candidates(options, masks)]
        return np.concatenate(found) if found else np.zeros((0, len(self._slots)), dtype=np.int64)

    def look_again(self, place: int, names: Iterable[str]) -> None:
        """Search again on the nodes that a provider serves, after the use of some of its classes
        has changed.
        """
        stale = []
        for number, slot in enumerate(self._slots if self._options else ()):
            if not any(name in names for name in slot.resources):
                continue
            first, last = np.searchsorted(self._sorted[number], [place, place + 1])
            if first == last:
                continue
            pairs, mask = self._orders[number][first:last], self._masks[number]
            now = bool(self._fits_slot(slot, np.array([place]))[0])
            # If slots share a class, the rest for both of them counts, too.
            if now != mask[pairs[0]] or self._several:
                mask[pairs] = now
                stale.append(self._options[number].anchors[pairs])
        if stale:
            self._find_viable_anchors(np.unique(np.concatenate(stale)))

    def _fits_slot(self, slot: search.Slot, places: IntArray) -> BoolArray:
        mask = np.ones(len(places), dtype=bool)
        for name, amount in slot.resources.items():
            inventory, at = self._topology.inventories[name], self._at[name][places]
            mask &= capacity_rule.has_room(inventory.used[at], amount, inventory.capacity[at])
        return mask

    def _find_viable_anchors(self, stale: IntArray) -> None:
        """Find out which of some anchors have a candidate."""
        if len(stale) <= FEW:
            for place in stale.tolist():
                self.roots[place] = len(self._rows_of(place)) > 0
            return
        self.roots[stale] = False
        only = np.zeros(self._topology.size, dtype=bool)
        only[stale] = True
        for anchors, _rows in self._candidates(self._options, self._masks, only):
            self.roots[anchors] = True

    def _candidates(
        self, options: Sequence[Option], masks: Sequence[BoolArray], only: BoolArray | None = None
    ) -> Iterator[tuple[IntArray, IntArray]]:
        kept = [
            viable.Option(option.anchors[mask], option.places[mask])
            for option, mask in zip(options, masks)
        ]
        return search.anchored(self._topology, self._query, kept, only)
