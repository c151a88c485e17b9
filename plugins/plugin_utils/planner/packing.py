# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placing items straight where they stay: several orders, several fits, in milliseconds."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.arrays import np

#: How often what found no place is put first and all is tried again.
RETRIES = 5


def orders(board, items):
    """The orders in which items are placed, largest first: [(words, [item])].

    Largest by one class, by the share of what is scarcest, by the sum of the shares, and by how few
    nodes may take the item at all.
    """
    if not items:
        return []
    need = board.need[items].astype(np.float64)
    total = np.maximum(board.free[board.open & board.masks[board.kind[items]].any(axis=0)].clip(min=0).sum(axis=0), 1)
    share = need / total
    scarce = share * (need.sum(axis=0) / total)
    choices = board.masks[board.kind[items]].sum(axis=1)
    by = {}
    memory = board.classes.index("MEMORY_MB") if "MEMORY_MB" in board.classes else 0
    by["memory"] = (-need[:, memory], -share.sum(axis=1))
    by["the scarcest"] = (-scarce.sum(axis=1), -need[:, memory])
    by["the largest share"] = (-share.max(axis=1), -need[:, memory])
    by["fewest choices"] = (choices.astype(np.float64), -need[:, memory])
    for number, rc in enumerate(board.classes):
        if number != memory and need[:, number].any():
            by[rc] = (-need[:, number], -need[:, memory])
    found = []
    for words, keys in by.items():
        order = sorted(
            range(len(items)),
            key=lambda i: (*(float(key[i]) for key in keys), *(-float(x) for x in need[i]), board.label[items[i]]),
        )
        found.append((words, [items[i] for i in order]))
    return found


def weights_of(board, items):
    """How scarce each class is: what items need of it, over what there is."""
    need = board.need[items].sum(axis=0).astype(np.float64)
    room = np.maximum(board.free[board.open].clip(min=0).sum(axis=0), 1)
    weights = need / room
    return weights / max(weights.max(), 1e-9) + 0.01


def first_fit(board, item, rows, weights):
    """The first node by name."""
    return rows[0]


def best_fit(board, item, rows, weights):
    """The node that has least left afterwards."""
    return rows[int(np.argmin(_left(board, item, rows) @ weights))]


def worst_fit(board, item, rows, weights):
    """The node that has most left afterwards."""
    return rows[int(np.argmax(_left(board, item, rows) @ weights))]


def dot_product(board, item, rows, weights):
    """The node whose room has the shape of what is needed."""
    capacity = np.maximum(board.capacity[rows], 1)
    shape = (board.free[rows] / capacity) * (board.need[item] / capacity)
    return rows[int(np.argmax(shape @ weights))]


FITS = {"worst fit": worst_fit, "best fit": best_fit, "dot product": dot_product, "first fit": first_fit}


def _left(board, item, rows):
    return (board.free[rows] - board.need[item]) / np.maximum(board.capacity[rows], 1)


def place(board, order, fit, weights):
    """Put items on nodes, in an order, by a fit.

    :returns: ({item: node}, [items that found none]); the board holds what was placed.
    """
    placed, stuck = {}, []
    for item in order:
        rows = np.flatnonzero(board.fits(item))
        if len(rows):
            node = int(fit(board, item, rows, weights))
            board.put(item, node)
            placed[item] = node
        else:
            stuck.append(item)
    return placed, stuck


def pack(board, items):
    """Places for all items, or as many as one order and one fit could give.

    At last what found no place is put first, and all is tried again.

    :returns: ({item: node}, [items stuck], words for how). The board is as before.
    """
    weights = weights_of(board, items)
    best = None
    ways = orders(board, items)
    for order_words, order in ways:
        for fit_words, fit in FITS.items():
            found = (*_try(board, order, fit, weights), f"{fit_words}, by {order_words}")
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
        for fit_words, fit in FITS.items():
            order = ahead + [item for item in ways[0][1] if item not in ahead]
            found = (*_try(board, order, fit, weights), f"{fit_words}, first what found no place")
            if len(found[1]) < len(best[1]):
                best = found
            if not found[1]:
                return found
    return best or ({}, [], "nothing to place")


def _try(board, order, fit, weights):
    placed, stuck = place(board, order, fit, weights)
    for item, node in placed.items():
        board.take(item, node)
    return placed, stuck
