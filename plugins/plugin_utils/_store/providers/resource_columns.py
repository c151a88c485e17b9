# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventories of compute nodes as columns, derived from the arrays of providers (N10.4)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..._common import capacity_rule
from ..._common.arrays import IntArray, np
from .provider_arrays import Inventory, ProviderArrays

#: Fields of a column, with the value of a node that has no inventory.
EMPTY = {
    "total": 0,
    "reserved": 0,
    "used": 0,
    "min_unit": 1,
    "max_unit": 0,
    "step_size": 1,
    "ratio": 1.0,
}


def of_nodes(
    arrays: ProviderArrays, nodes: IntArray, names: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """Derive the columns of compute nodes.

    :param arrays: read with figures.
    :param nodes: the place of each node's own provider, -1 for a node without one.
    :param names: the names of the classes.
    :returns: {class: {field: array over the nodes}} with the fields of EMPTY. A node shows its own
        inventory, else the inventory of the sharing provider with the most free room that it
        reaches. If some node takes a class from another provider than its own, the class has the
        field ``providers``, a dict: uuid and name (lists) and the fields of EMPTY (arrays), over
        the providers that nodes take it from; row, provider (int64) and lent (bool), arrays of
        equal length by row: the pairs of a node and a provider that it may take from; lent marks a
        provider that is not in the node's own tree; shown (int64 array over the nodes): the
        provider of the figures that a node shows, -1 for none.
    """
    row_of = np.full(arrays.size, -1, dtype=np.int64)
    row_of[nodes[nodes >= 0]] = np.flatnonzero(nodes >= 0)
    return {
        name: _column(arrays, arrays.inventories.get(name), row_of, len(nodes)) for name in names
    }


def _column(
    arrays: ProviderArrays, inventory: Inventory | None, row_of: IntArray, size: int
) -> dict[str, Any]:
    column = {name: np.full(size, value) for name, value in EMPTY.items()}
    if inventory is None:
        return column
    rows = row_of[inventory.places]
    own = rows >= 0
    for name, values in column.items():
        values[rows[own]] = getattr(inventory, name)[own]
    if own.all() and not arrays.reached:
        return column
    having = inventory.places[np.asarray(inventory.total) > 0]
    lent = np.zeros(arrays.size, dtype=bool)
    lent[having] = True
    roots, places = arrays.serving(having, lent)
    # A node takes from its own provider, wherever that is in a tree.
    roots = np.where((roots == arrays.roots[places]) & (row_of[places] >= 0), places, roots)
    taken = row_of[roots] >= 0
    roots, places = roots[taken], places[taken]
    if (roots == places).all():
        return column
    of_providers = _providers(arrays, inventory, row_of, roots, places, size)
    shows = of_providers["shown"] >= 0
    for name, values in column.items():
        values[shows] = of_providers[name][of_providers["shown"][shows]]
    return {**column, "providers": of_providers}


def _providers(
    arrays: ProviderArrays,
    inventory: Inventory,
    row_of: IntArray,
    roots: IntArray,
    places: IntArray,
    size: int,
) -> dict[str, Any]:
    """Make the field ``providers`` for pairs of a root and a provider."""
    order = np.argsort(row_of[roots], kind="stable")
    roots, places = roots[order], places[order]
    unique_places, provider = np.unique(places, return_inverse=True)
    provider = provider.reshape(-1)
    at = np.searchsorted(inventory.places, unique_places)
    figures = {name: getattr(inventory, name)[at] for name in EMPTY}
    row, lent = row_of[roots], (arrays.roots[places] != roots) & (places != roots)
    shown = np.full(size, -1, dtype=np.int64)
    free = (
        capacity_rule.capacity(figures["total"], figures["reserved"], figures["ratio"])
        - figures["used"]
    )
    # The last one written counts: among lent providers the one with the most room, and above them
    # the node's own.
    mine = np.flatnonzero(lent)
    mine = mine[np.lexsort((-arrays.ids[places[mine]], free[provider[mine]]))]
    shown[row[mine]] = provider[mine]
    shown[row[roots == places]] = provider[roots == places]
    return {
        "uuid": [arrays.uuids[place] for place in unique_places.tolist()],
        "name": [arrays.names[place] for place in unique_places.tolist()],
        **figures,
        "row": row,
        "provider": provider,
        "lent": lent,
        "shown": shown,
    }
