# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The search that makes room: it moves instances of other hosts so that the waiting items fit."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from .._common.arrays import BoolArray, IntArray, np
from . import packing
from .packing_state import Found, PackingState, Placed, Step

#: The maximum of moves that depend on each other: X makes room for Y, which makes room for the
#: item.
DEPTH = 2
#: The number of nodes that are examined closely for one item, at the top level and below.
CLOSELY = (64, 8)
#: An attempt with at most FEW moves of others is good enough; otherwise COMPLETE attempts are
#: compared.
FEW = 1
COMPLETE = 4
#: The maximum of items that leave one node for one item.
MOST_FROM_ONE = 16
#: Moves of items in their order: (item, row of its destination).
Chain = list[tuple[int, int]]


class Search:
    """One attempt to place items while others may move to make room.

    :param packing_state: changed by run(), restored by undo().
    :param items: to be placed.
    :param others: may move, each once.
    :param budget: the maximum of others that may move.
    """

    def __init__(
        self, packing_state: PackingState, items: Sequence[int], others: Sequence[int], budget: int
    ) -> None:
        self.packing_state = packing_state
        self.budget = budget
        self.weights = packing.weights_of(packing_state, items)
        self.placed: Placed = {}
        self.stuck: list[int] = []
        #: Moves of others, in an order that fits each of them.
        self.steps: list[Step] = []
        self._moved: set[int] = set()
        self._on: list[list[int]] = [[] for _node in range(packing_state.size)]
        for item in others:
            self._on[packing_state.at[item]].append(item)

    def run(self, order: Sequence[int], fit: packing.Fit, direct_first: bool) -> None:
        """Place all items in an order.

        :param direct_first: whether all items that fit without moves of others are placed before
            any room is made.
        """
        waiting = list(order)
        if direct_first:
            waiting = [item for item in order if not self._direct(item, fit)]
        for _again in range(3):
            stuck = [
                item
                for item in waiting
                if not self._direct(item, fit) and not self._make_room(item)
            ]
            if not stuck or len(stuck) == len(waiting):
                break
            waiting = stuck
        self.stuck = stuck

    @property
    def score(self) -> tuple[int, int]:
        """Lower is better."""
        return (len(self.stuck), len(self.steps))

    def undo(self) -> None:
        """Restore the packing state."""
        self.packing_state.take_all(self.placed)
        for item, origin, _node in reversed(self.steps):
            self.packing_state.move(item, origin)

    # One item

    def _direct(self, item: int, fit: packing.Fit) -> bool:
        rows = np.flatnonzero(self.packing_state.fits(item))
        if not len(rows):
            return False
        self._settle_item(item, fit(self.packing_state, item, rows, self.weights))
        return True

    def _settle_item(self, item: int, node: int) -> None:
        self.packing_state.put(item, node)
        self.placed[item] = node
        self._on[node].append(item)

    def _make_room(self, item: int) -> bool:
        cheapest = self._cheapest(item, frozenset(), DEPTH, self.budget - len(self.steps))
        if cheapest is None:
            return False
        node, chain = cheapest
        for moved, target in chain:
            self._move_item(moved, target)
        self._settle_item(item, node)
        return True

    def _move_item(self, item: int, target: int) -> None:
        origin = self._shift(item, target)
        if item not in self.placed:
            self.steps.append((item, origin, target))
            self._moved.add(item)

    def _undo_step(self, item: int, origin: int) -> None:
        """Undo the last _move_item(), which moved this item."""
        self._shift(item, origin)
        if item not in self.placed:
            self.steps.pop()
            self._moved.discard(item)

    def _shift(self, item: int, target: int) -> int:
        """Move an item to another node; return the node that it leaves."""
        packing_state, origin = self.packing_state, self._where(item)
        if item in self.placed:
            packing_state.put(item, target)
            packing_state.take(item, origin)
            self.placed[item] = target
        else:
            packing_state.move(item, target)
        self._on[origin].remove(item)
        self._on[target].append(item)
        return origin

    def _where(self, item: int) -> int:
        return self.placed[item] if item in self.placed else int(self.packing_state.at[item])

    # The cheapest way to make room

    def _cheapest(
        self, item: int, barred: frozenset[int], depth: int, budget: int
    ) -> tuple[int, Chain] | None:
        """Find a node for an item, and the moves that make room there, with the fewest moves of
        others.

        Deeper chains are searched only if shallow ones find nothing.

        :param barred: nodes that are being cleared for other items.
        """
        for deep in range(1, depth + 1):
            found = self._search(item, barred, deep, budget)
            if found is not None:
                return found
        return None

    def _search(
        self, item: int, barred: frozenset[int], depth: int, budget: int
    ) -> tuple[int, Chain] | None:
        packing_state = self.packing_state
        kind = packing_state.kind[item]
        keep = packing_state.masks[kind].copy()
        if barred:
            keep[list(barred)] = False
        here = self._where(item) if item in self.placed or packing_state.at[item] >= 0 else -1
        if here >= 0:
            keep &= packing_state.host_of != packing_state.host_of[here]
        rows = np.flatnonzero(keep)
        if not len(rows):
            return None
        short = packing_state.lacking(item, rows)
        capacity = np.maximum(packing_state.capacity[rows], 1)
        far = (short / capacity).max(axis=1)
        least = self._least(rows, short, depth)
        positions = np.flatnonzero((least >= 0) & (least <= budget))
        positions = positions[np.lexsort((rows[positions], far[positions], least[positions]))]
        best: tuple[int, int, Chain] | None = None
        for position in positions[: CLOSELY[0 if depth == DEPTH or not barred else 1]].tolist():
            node, bound = int(rows[position]), int(least[position])
            if best is not None and bound >= best[0]:
                break
            most = budget if best is None else best[0] - 1
            chain = self._clear(item, node, barred, depth, most)
            if chain is None:
                continue
            cost = sum(moved not in self.placed for moved, _target in chain)
            if best is None or cost < best[0]:
                best = (cost, node, chain)
            if cost <= bound:
                break
        return None if best is None else best[1:]

    def _class_fits(self) -> BoolArray:
        """Return a bool array kinds x nodes: True if the kind may go there and fits, without regard
        to server groups.
        """
        packing_state = self.packing_state
        return packing_state.masks & (
            packing_state.free[None, :, :] >= packing_state.needs[:, None, :]
        ).all(axis=2)

    def _movable_items(self, node: int) -> list[int]:
        return [item for item in self._on[node] if item not in self._moved]

    def _least(self, rows: IntArray, short: IntArray, depth: int) -> IntArray:
        """Return for each node a lower bound on the number of others that must leave it; -1 if not
        enough can leave.

        :param short: the missing amounts on the nodes (rows x classes).
        """
        packing_state = self.packing_state
        there = [self._movable_items(node) for node in rows.tolist()]
        owner = np.repeat(np.arange(len(rows)), [len(items) for items in there])
        items = np.array(list(itertools.chain(*there)), dtype=np.int64)
        if depth == 1:
            room, kinds = self._class_fits(), packing_state.kind[items]
            can = room.sum(axis=1)[kinds] > room[kinds, rows[owner]]
            owner, items = owner[can], items[can]
        need = packing_state.need[items]
        paid = ~np.isin(items, list(self.placed))
        payer = owner[paid]
        least = np.zeros(len(rows), dtype=np.int64)
        enough = np.bincount(owner, minlength=len(rows)) > 0
        for number in range(need.shape[1]):
            sizes = need[:, number]
            unpaid, bring = np.zeros((2, len(rows)), dtype=np.int64)
            np.add.at(unpaid, owner[~paid], sizes[~paid])
            np.add.at(bring, payer, sizes[paid])
            lacking = short[:, number] - unpaid
            if not (lacking > 0).any():
                continue
            # The largest leave first. Items that leave before the last necessary one are counted.
            order = np.lexsort((-sizes[paid], payer))
            left = np.cumsum(sizes[paid][order]) - (np.cumsum(bring) - bring)[payer]
            before = np.bincount(payer[left < lacking[payer]], minlength=len(rows))
            least = np.where(lacking > 0, np.maximum(least, before + 1), least)
            enough &= bring >= lacking
        return np.where(enough, least, -1)

    def _clear(
        self, item: int, node: int, barred: frozenset[int], depth: int, most: int
    ) -> Chain | None:
        """Find the moves after which an item fits on a node, with at most ``most`` moves of
        others.
        """
        packing_state = self.packing_state
        blockers = (
            packing_state.in_the_way(item, node, self._movable_items(node))
            if packing_state.groups[item]
            else []
        )
        if blockers is None:
            return None
        best: tuple[int, Chain] | None = None
        for taste in (0, 1):
            chain = self._clear_by(item, node, barred | {node}, depth, most, blockers, taste)
            if chain is not None:
                cost = sum(moved not in self.placed for moved, _target in chain)
                if best is None or cost < best[0]:
                    best, most = (cost, chain), cost - 1
                if not packing_state.need[item].any() or most < 0:
                    break
        return None if best is None else best[1]

    def _clear_by(
        self,
        item: int,
        node: int,
        barred: frozenset[int],
        depth: int,
        most: int,
        blockers: Sequence[int],
        taste: int,
    ) -> Chain | None:
        packing_state = self.packing_state
        chain: Chain = []
        done: list[tuple[int, int]] = []

        def step(moved: int) -> bool:
            """Move one item away, after the moves that make room for it."""
            fits = (
                packing_state.fits(moved) if moved not in self.placed else self._fits_again(moved)
            )
            fits[list(barred)] = False
            rows = np.flatnonzero(fits)
            if len(rows):
                target = packing.best_fit(packing_state, moved, rows, self.weights)
                before: Chain = []
            elif depth > 1:
                spent = sum(each not in self.placed for each, _target in chain)
                cheapest = self._cheapest(
                    moved, barred, depth - 1, most - spent - (moved not in self.placed)
                )
                if cheapest is None:
                    return False
                target, before = cheapest
            else:
                return False
            for item_moved, where in [*before, (moved, target)]:
                done.append((item_moved, self._where(item_moved)))
                self._move_item(item_moved, where)
                chain.append((item_moved, where))
            return True

        try:
            for blocker in blockers:
                if not step(blocker):
                    return None
            tried: set[int] = set()
            while True:
                short = packing_state.lacking(item, [node])[0]
                if not short.any():
                    return None if packing_state.in_the_way(item, node, self._on[node]) else chain
                spent = sum(each not in self.placed for each, _target in chain)
                if len(chain) >= MOST_FROM_ONE * depth:
                    return None
                movable = [each for each in self._movable_items(node) if each not in tried]
                if spent >= most:
                    movable = [each for each in movable if each in self.placed]
                choice = self._choice(movable, short, taste)
                if choice is None:
                    return None
                tried.add(choice)
                step(choice)
        finally:
            for each, origin in reversed(done):
                self._undo_step(each, origin)

    def _fits_again(self, item: int) -> BoolArray:
        """Return the same as fits(), for an item that this attempt has placed and may move on."""
        rows = self.packing_state.fits(item)
        rows &= self.packing_state.host_of != self.packing_state.host_of[self.placed[item]]
        return rows

    def _choice(self, there: Sequence[int], short: IntArray, taste: int) -> int | None:
        """Choose the item that leaves next; None if none helps.

        With taste 0 it is the smallest item that frees enough, or else the item that frees most.
        With another taste, an item of the plan itself comes first, the one that
        frees most for its size.
        """
        if not there:
            return None
        packing_state = self.packing_state
        need = packing_state.need[there].astype(np.float64)
        lacking = np.flatnonzero(short)
        brings = np.minimum(need[:, lacking], short[lacking]) / short[lacking]
        covers: BoolArray = np.all(brings >= 1, axis=1)
        size = (need / np.maximum(packing_state.capacity.max(axis=0), 1)).sum(axis=1)
        gain = brings.sum(axis=1)
        if not gain.any():
            return None
        free = np.array([each in self.placed for each in there])
        key: list[tuple[Any, ...]]
        if covers.any() and taste == 0:
            key = [
                (not covers[i], not free[i], size[i], packing_state.label[there[i]])
                for i in range(len(there))
            ]
        elif taste == 0:
            key = [
                (-gain[i] - 0.3 * free[i], size[i], packing_state.label[there[i]])
                for i in range(len(there))
            ]
        else:
            key = [
                (
                    not (free[i] and gain[i] > 0),
                    -gain[i] / (size[i] + 1e-9) if free[i] else -gain[i],
                    packing_state.label[there[i]],
                )
                for i in range(len(there))
            ]
        return there[min(range(len(there)), key=key.__getitem__)]


def make_room(
    packing_state: PackingState, items: Sequence[int], others: Sequence[int], budget: int
) -> Found:
    """Find the attempt that places most items with the fewest moves of others; the packing state is
    unchanged afterwards.
    """
    best: tuple[tuple[int, int], Found] | None = None
    complete = 0
    attempts = []
    for direct_first in (False, True):
        for fit_name in ("best fit", "dot product"):
            for order_name, order in packing.orders(packing_state, items):
                attempts.append((order_name, order, fit_name, direct_first))
    for order_name, order, fit_name, direct_first in attempts:
        search = Search(packing_state, items, others, budget)
        search.run(order, packing.FITS[fit_name], direct_first)
        words = f"{fit_name} with {'room made' if budget else 'places changed'}, by {order_name}"
        search.undo()
        if best is None or search.score < best[0]:
            best = search.score, (search.placed, search.stuck, search.steps, words)
        complete += not search.stuck
        if not best[0][0] and (best[0][1] <= FEW or complete >= COMPLETE):
            break
    if best is None:
        return {}, list(items), [], "nothing to place"
    return best[1]
