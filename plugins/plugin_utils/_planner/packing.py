# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A search that puts each item on its final node at once: several orders, several fits, in
milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .._common.arrays import FloatArray, IntArray, np
from .packing_state import PackingState, Placed

#: The number of times that items without a node are put first in the order for a new attempt.
RETRIES = 5
#: Chooses one of the rows for an item: (packing_state, item, rows, weights of the classes) -> row.
Fit = Callable[[PackingState, int, IntArray, FloatArray], int]


def orders(packing_state: PackingState, items: Sequence[int]) -> Iterator[tuple[str, list[int]]]:
    """Yield the orders of placing items, each with its name.

    They are sorted by one class, by the scarcest class, by their largest share of the free
    capacity, and by how few nodes they may go to.
    """
    if not items:
        return
    need = packing_state.need[items].astype(np.float64)
    kinds, kind_of = np.unique(packing_state.kind[items], return_inverse=True)
    masks = packing_state.masks[kinds]
    total = np.maximum(
        packing_state.free[packing_state.open & masks.any(axis=0)].clip(min=0).sum(axis=0), 1
    )
    share = need / total
    scarce = share * (need.sum(axis=0) / total)
    choices = masks.sum(axis=1)[kind_of]
    by: dict[str, tuple[FloatArray, FloatArray]] = {}
    memory = packing_state.classes.index("MEMORY_MB") if "MEMORY_MB" in packing_state.classes else 0
    by["memory"] = (-need[:, memory], -share.sum(axis=1))
    by["the scarcest"] = (-scarce.sum(axis=1), -need[:, memory])
    by["the largest share"] = (-share.max(axis=1), -need[:, memory])
    by["fewest choices"] = (choices.astype(np.float64), -need[:, memory])
    for number, rc in enumerate(packing_state.classes):
        if number != memory and need[:, number].any():
            by[rc] = (-need[:, number], -need[:, memory])
    labels = np.zeros(len(items), dtype=np.int64)
    labels[sorted(range(len(items)), key=lambda i: packing_state.label[items[i]])] = np.arange(
        len(items)
    )
    chosen = np.array(items, dtype=np.int64)
    # The last key of lexsort() counts first.
    last = (labels, *(-need[:, number] for number in reversed(range(need.shape[1]))))
    for words, keys in by.items():
        yield words, chosen[np.lexsort((*last, *reversed(keys)))].tolist()


def weights_of(packing_state: PackingState, items: Sequence[int]) -> FloatArray:
    """Return the scarcity of each class: the need of the items over the free capacity."""
    need = packing_state.need[items].sum(axis=0).astype(np.float64)
    room = np.maximum(packing_state.free[packing_state.open].clip(min=0).sum(axis=0), 1)
    weights: FloatArray = need / room
    return weights / max(weights.max(), 1e-9) + 0.01


def first_fit(packing_state: PackingState, item: int, rows: IntArray, weights: FloatArray) -> int:
    """Choose the first node by name."""
    return int(rows[0])


def best_fit(packing_state: PackingState, item: int, rows: IntArray, weights: FloatArray) -> int:
    """Choose the node with the least capacity left afterwards."""
    return int(rows[np.argmin(left(packing_state, packing_state.need[item], rows) @ weights)])


def worst_fit(packing_state: PackingState, item: int, rows: IntArray, weights: FloatArray) -> int:
    """Choose the node with the most capacity left afterwards."""
    return int(rows[np.argmax(left(packing_state, packing_state.need[item], rows) @ weights)])


def dot_product(packing_state: PackingState, item: int, rows: IntArray, weights: FloatArray) -> int:
    """Choose the node with free capacity in the proportions of the item's need."""
    capacity = np.maximum(packing_state.capacity[rows], 1)
    shape = (packing_state.free[rows] / capacity) * (packing_state.need[item] / capacity)
    return int(rows[np.argmax(shape @ weights)])


FITS: dict[str, Fit] = {
    "worst fit": worst_fit,
    "best fit": best_fit,
    "dot product": dot_product,
    "first fit": first_fit,
}


def left(packing_state: PackingState, need: IntArray, rows: IntArray) -> FloatArray:
    """Return the share of the capacity of nodes that is left after a need is met (rows x
    classes).
    """
    shares: FloatArray = (packing_state.free[rows] - need) / np.maximum(
        packing_state.capacity[rows], 1
    )
    return shares


def place(
    packing_state: PackingState, order: Sequence[int], fit: Fit, weights: FloatArray
) -> tuple[Placed, list[int]]:
    """Put items on nodes; placed items stay there.

    :returns: the nodes by item, and the items without one.
    """
    placed: Placed = {}
    stuck = []
    for item in order:
        rows = np.flatnonzero(packing_state.fits(item))
        if len(rows):
            node = fit(packing_state, item, rows, weights)
            packing_state.put(item, node)
            placed[item] = node
        else:
            stuck.append(item)
    return placed, stuck


def pack(packing_state: PackingState, items: Sequence[int]) -> tuple[Placed, list[int], str]:
    """Find nodes for all items, or for as many as the best order and fit could place.

    In the end the items without a node are put first, and all is tried again. The packing state is
    unchanged afterwards.

    :returns: the nodes by item, the items without one, and the method in words.
    """
    weights = weights_of(packing_state, items)
    best: tuple[Placed, list[int], str] | None = None
    first: list[int] = []
    for order_name, order in orders(packing_state, items):
        first = first or order
        for fit_name, fit in FITS.items():
            attempt = (*_try(packing_state, order, fit, weights), f"{fit_name}, by {order_name}")
            if best is None or len(attempt[1]) < len(best[1]):
                best = attempt
            if not attempt[1]:
                return attempt
    if best is None:
        return {}, [], "nothing to place"
    ahead: list[int] = []
    for _again in range(RETRIES):
        fresh = [item for item in best[1] if item not in ahead]
        if not fresh:
            break
        ahead = fresh + ahead
        for fit_name, fit in FITS.items():
            order = ahead + [item for item in first if item not in ahead]
            attempt = (
                *_try(packing_state, order, fit, weights),
                f"{fit_name}, first what found no place",
            )
            if len(attempt[1]) < len(best[1]):
                best = attempt
            if not attempt[1]:
                return attempt
    return best


def _try(
    packing_state: PackingState, order: Sequence[int], fit: Fit, weights: FloatArray
) -> tuple[Placed, list[int]]:
    placed, stuck = place(packing_state, order, fit, weights)
    packing_state.take_all(placed)
    return placed, stuck
