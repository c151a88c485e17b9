# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room on compute nodes for a batch of requests: the candidates, asked node by node. Pure.

A node is a root provider. What a request takes is gone for those after it. Each query is worked out for
all nodes once; what is taken later only has those nodes looked at again that the providers serve.
"""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.drover.compute.plugins.plugin_utils import capacity_rule
from ansible_collections.drover.compute.plugins.plugin_utils.arrays import np
from ansible_collections.drover.compute.plugins.plugin_utils.placement.candidates import response, search, viable

#: Up to so many nodes are looked at one by one, without going through all.
FEW = 8


class CandidateCapacity:
    """What is free on nodes, by allocation candidates.

    :param topology: ProviderArrays read for all queries to come; its ``used`` changes.
    :param nodes: uuids of root providers, in the order of the masks. One that the topology does not
        have has nothing free.
    """

    def __init__(self, topology, nodes):
        self._topology = topology
        self._place_of = {uuid: place for place, uuid in enumerate(topology.uuids)}
        self._places = np.array([self._place_of.get(uuid, -1) for uuid in nodes], dtype=np.int64)
        self._at = {}
        for name, inventory in topology.inventories.items():
            self._at[name] = np.full(topology.size, -1, dtype=np.int64)
            self._at[name][inventory.places] = np.arange(len(inventory.places))
        self._asked = {}

    def fits(self, query):
        """bool array over the nodes: which of them a query.Query fits on."""
        return self._of(query).roots[self._places]

    def choose(self, query, node):
        """What a query would take on a node, by its number.

        Of several ways the one that takes most from the node's own tree, and of these the one that leaves
        the most room where it takes.

        :returns: {provider uuid: {class: amount}}, or None when nothing fits.
        """
        if self._places[node] < 0:
            return None
        rows = self._of(query).rows(self._places[node])
        if not len(rows):
            return None
        slots = search.slots(query)
        best = self._best(rows, slots, self._places[node])
        (request,) = response.requests(self._topology, rows[best : best + 1], slots)
        return {uuid: each["resources"] for uuid, each in request["allocations"].items()}

    def take(self, query, node):
        """Take what a query asks for on a node and count it as used.

        :returns: as choose().
        """
        taken = self.choose(query, node)
        if taken is not None:
            self.count(taken, 1)
        return taken

    def count(self, taken, sign):
        """Count amounts as used (sign 1) or as free again (-1): {provider uuid: {class: amount}}."""
        for uuid, resources in taken.items():
            place = self._place_of[uuid]
            for name, amount in resources.items():
                self._topology.inventories[name].used[self._at[name][place]] += sign * amount
            for _dummy, asked in self._asked.values():
                asked.look_again(place, resources)

    def most(self, name, node):
        """(free, capacity) of the provider that has most left of a class, of those a node reaches; None without one."""
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

    def _of(self, query):
        # The query is kept, so that its id remains its own.
        if id(query) not in self._asked:
            self._asked[id(query)] = (query, _QueryState(self._topology, self._at, query))
        return self._asked[id(query)][1]

    def _best(self, rows, slots, root):
        if len(rows) == 1:
            return 0
        topology = self._topology
        lent = (topology.roots[rows] != root).sum(axis=1)
        left = np.zeros(len(rows))
        for number, slot in enumerate(slots):
            for name, amount in slot.resources.items():
                inventory = topology.inventories[name]
                at = self._at[name][rows[:, number]]
                left += (inventory.capacity[at] - inventory.used[at] - amount) / np.maximum(inventory.capacity[at], 1)
        return int(np.lexsort((-left, lent))[0])


class _QueryState:
    """One query.

    roots: bool array over the providers, and one more that is false: the anchors that have a candidate.
    """

    def __init__(self, topology, at, query):
        self._topology, self._at, self._query = topology, at, query
        self._slots = search.slots(query)
        # Everyone who could serve a slot if nothing were used; who has room now stands beside it.
        empty = {name: replace(each, used=np.zeros_like(each.used)) for name, each in topology.inventories.items()}
        self._options = viable.options(replace(topology, inventories=empty), query)
        self.roots = np.zeros(topology.size + 1, dtype=bool)
        self._several = len({name for slot in self._slots for name in slot.resources}) < sum(len(slot.resources) for slot in self._slots)
        if self._options is not None:
            self._masks = [self._fits(slot, option.places) for slot, option in zip(self._slots, self._options)]
            # The pairs in the order of their providers.
            self._orders = [np.argsort(option.places, kind="stable") for option in self._options]
            self._sorted = [option.places[order] for option, order in zip(self._options, self._orders)]
            for anchors, _rows in self._candidates(self._options, self._masks):
                self.roots[anchors] = True

    def rows(self, place):
        """The candidates of one anchor, as search.find has them."""
        if self._options is None or not self.roots[place]:
            return ()
        return self._rows_of(place)

    def _rows_of(self, place):
        ranges = [np.searchsorted(option.anchors, [place, place + 1]) for option in self._options]
        options = [
            viable.Option(option.anchors[first:last], option.places[first:last]) for option, (first, last) in zip(self._options, ranges)
        ]
        masks = [mask[first:last] for mask, (first, last) in zip(self._masks, ranges)]
        found = [rows for _anchors, rows in self._candidates(options, masks)]
        return np.concatenate(found) if found else ()

    def look_again(self, place, names):
        """The use of some classes of a provider has changed."""
        if self._options is None:
            return
        stale = []
        for number, slot in enumerate(self._slots):
            if not any(name in names for name in slot.resources):
                continue
            first, last = np.searchsorted(self._sorted[number], [place, place + 1])
            if first == last:
                continue
            pairs, mask = self._orders[number][first:last], self._masks[number]
            now = bool(self._fits(slot, np.array([place]))[0])
            # Where slots share a class, what is left for both matters too.
            if now != mask[pairs[0]] or self._several:
                mask[pairs] = now
                stale.append(self._options[number].anchors[pairs])
        if stale:
            self._find(np.unique(np.concatenate(stale)))

    def _fits(self, slot, places):
        found = np.ones(len(places), dtype=bool)
        for name, amount in slot.resources.items():
            inventory, at = self._topology.inventories[name], self._at[name][places]
            found &= capacity_rule.has_room(inventory.used[at], amount, inventory.capacity[at])
        return found

    def _find(self, stale):
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

    def _candidates(self, options, masks, only=None):
        kept = [viable.Option(option.anchors[mask], option.places[mask]) for option, mask in zip(options, masks)]
        return search.anchored(self._topology, self._query, kept, only)
