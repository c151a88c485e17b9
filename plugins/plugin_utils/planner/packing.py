# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placing items straight where they stay: several orders, several fits, in milliseconds."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.arrays import np

#: How often what found no place is put first and all is tried again.
RETRIES = 5


def orders(packing_state, items):
    """The orders in which items are placed, largest first: [(words, [item])].

    Largest by one class, by the share of what is scarcest, by the sum of the shares, and by how few
    nodes may take the item at all.
    """
    if not items:
        return []
    need = packing_state.need[items].astype(np.float64)
    total = np.maximum(
        packing_state.free[packing_state.open & packing_state.masks[packing_state.kind[items]].any(axis=0)].clip(min=0).sum(axis=0), 1
    )
    share = need / total
    scarce = share * (need.sum(axis=0) / total)
    choices = packing_state.masks[packing_state.kind[items]].sum(axis=1)
    by = {}
    memory = packing_state.classes.index("MEMORY_MB") if "MEMORY_MB" in packing_state.classes else 0
    by["memory"] = (-need[:, memory], -share.sum(axis=1))
    by["the scarcest"] = (-scarce.sum(axis=1), -need[:, memory])
    by["the largest share"] = (-share.max(axis=1), -need[:, memory])
    by["fewest choices"] = (choices.astype(np.float64), -need[:, memory])
    for number, rc in enumerate(packing_state.classes):
        if number != memory and need[:, number].any():
            by[rc] = (-need[:, number], -need[:, memory])
    found = []
    for words, keys in by.items():
        order = sorted(
            range(len(items)),
            key=lambda i: (*(float(key[i]) for key in keys), *(-float(x) for x in need[i]), packing_state.label[items[i]]),
        )
        found.append((words, [items[i] for i in order]))
    return found


def weights_of(packing_state, items):
    """How scarce each class is: what items need of it, over what there is."""
    need = packing_state.need[items].sum(axis=0).astype(np.float64)
    room = np.maximum(packing_state.free[packing_state.open].clip(min=0).sum(axis=0), 1)
    weights = need / room
    return weights / max(weights.max(), 1e-9) + 0.01


def first_fit(packing_state, item, rows, weights):
    """The first node by name."""
    return rows[0]


def best_fit(packing_state, item, rows, weights):
    """The node that has least left afterwards."""
    return rows[int(np.argmin(_left(packing_state, item, rows) @ weights))]


def worst_fit(packing_state, item, rows, weights):
    """The node that has most left afterwards."""
    return rows[int(np.argmax(_left(packing_state, item, rows) @ weights))]


def dot_product(packing_state, item, rows, weights):
    """The node whose room has the shape of what is needed."""
    capacity = np.maximum(packing_state.capacity[rows], 1)
    shape = (packing_state.free[rows] / capacity) * (packing_state.need[item] / capacity)
    return rows[int(np.argmax(shape @ weights))]


FITS = {"worst fit": worst_fit, "best fit": best_fit, "dot product": dot_product, "first fit": first_fit}


def _left(packing_state, item, rows):
    return (packing_state.free[rows] - packing_state.need[item]) / np.maximum(packing_state.capacity[rows], 1)


def place(packing_state, order, fit, weights):
    """Put items on nodes, in an order, by a fit.

    :returns: ({item: node}, [items that found none]); the board holds what was placed.
    """
    placed, stuck = {}, []
    for item in order:
        rows = np.flatnonzero(packing_state.fits(item))
        if len(rows):
            node = int(fit(packing_state, item, rows, weights))
            packing_state.put(item, node)
            placed[item] = node
        else:
            stuck.append(item)
    return placed, stuck


def pack(packing_state, items):
    """Places for all items, or as many as one order and one fit could give.

    At last what found no place is put first, and all is tried again.

    :returns: ({item: node}, [items stuck], words for how). The board is as before.
    """
    weights = weights_of(packing_state, items)
    best = None
    ways = orders(packing_state, items)
    for order_name, order in ways:
        for fit_name, fit in FITS.items():
            found = (*_try(packing_state, order, fit, weights), f"{fit_name}, by {order_name}")
            if best is None or len(found[1]) < len(best[1]):
                best = found
            if not found[1]:
                return found
    ahead = []
    for _again in range(RETRIES):
        fresh = [item for item in best[1] if item not in ahead]
        if not fresh:
            break
        ahead = fresh + ahead
        for fit_name, fit in FITS.items():
            order = ahead + [item for item in ways[0][1] if item not in ahead]
            found = (*_try(packing_state, order, fit, weights), f"{fit_name}, first what found no place")
            if len(found[1]) < len(best[1]):
                best = found
            if not found[1]:
                return found
    return best or ({}, [], "nothing to place")


def _try(packing_state, order, fit, weights):
    placed, stuck = place(packing_state, order, fit, weights)
    for item, node in placed.items():
        packing_state.take(item, node)
    return placed, stuck
