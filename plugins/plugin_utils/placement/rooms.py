# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room on compute nodes for a batch of requests: the candidates, asked node by node. Pure.

A node is a root provider. What a request takes is gone for those after it.
"""

from __future__ import annotations

try:
    import numpy as np
except ImportError:
    np = None

from ansible_collections.drover.compute.plugins.plugin_utils.placement import answer, candidates, viable


class Rooms:
    """The room of nodes.

    :param topology: a Topology read for all queries that will be asked; its ``used`` changes.
    :param nodes: uuids of root providers, in the order of the masks. One that the topology does not
        have has room for nothing.
    """

    def __init__(self, topology, nodes):
        self._topology = topology
        place_of = {uuid: place for place, uuid in enumerate(topology.uuids)}
        self._places = np.array([place_of.get(uuid, -1) for uuid in nodes], dtype=np.int64)

    def fits(self, query):
        """bool array over the nodes: which of them a query.Query fits on."""
        found = np.zeros(self._topology.size + 1, dtype=bool)
        options = viable.options(self._topology, query)
        if options is not None:
            for anchors, _rows in candidates.anchored(self._topology, query, options):
                found[anchors] = True
        return found[self._places]

    def take(self, query, node):
        """Take what a query asks for on a node, by its number, and count it as used.

        :returns: {provider uuid: {class: amount}} of the first candidate, or None when nothing fits.
        """
        options = viable.options(self._topology, query)
        if options is None or self._places[node] < 0:
            return None
        only = np.zeros(self._topology.size, dtype=bool)
        only[self._places[node]] = True
        for _anchors, rows in candidates.anchored(self._topology, query, options, only):
            if len(rows):
                (request,) = answer.requests(self._topology, rows[:1], candidates.slots(query))
                taken = {uuid: each["resources"] for uuid, each in request["allocations"].items()}
                self._count(taken, 1)
                return taken
        return None

    def give_back(self, taken):
        """Undo a take, by what it returned."""
        self._count(taken, -1)

    def _count(self, taken, sign):
        for uuid, resources in taken.items():
            place = self._topology.uuids.index(uuid)
            for name, amount in resources.items():
                inventory = self._topology.inventories[name]
                inventory.used[np.searchsorted(inventory.places, place)] += sign * amount
