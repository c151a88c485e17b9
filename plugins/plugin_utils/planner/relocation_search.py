# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Making room: instances of other hosts step aside so that one that is to leave finds its place."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.arrays import np
from ansible_collections.drover.compute.plugins.plugin_utils.planner import packing

#: How many steps aside may hang on each other: X makes room for Y, which makes room for the one.
DEPTH = 2
#: Nodes looked at closely for one item, at the top and below.
CLOSELY = (64, 8)
#: So few steps aside are not worth looking for fewer; so many complete attempts are compared else.
FEW = 1
COMPLETE = 4
#: Most instances that step aside from one node for one item.
MOST_FROM_ONE = 16


class Search:
    """One attempt to place all items of a drain while others may step aside.

    :param packing_state: PackingState; changed while the search runs, ``undo`` gives it back.
    :param items: numbers of the items to be placed.
    :param others: numbers of the items that may step aside, each once.
    :param budget: most of the others that may move.
    """

    def __init__(self, packing_state, items, others, budget):
        self.packing_state = packing_state
        self.items = items
        self.budget = budget
        self.weights = packing.weights_of(packing_state, items)
        self.placed = {}
        self.stuck = []
        #: [(item, from node, to node)] of the others, in an order in which each finds room.
        self.steps = []
        self._moved = set()
        self._on = [[] for _node in range(packing_state.size)]
        for item in others:
            self._on[packing_state.at[item]].append(item)

    def run(self, order, fit, direct_first):
        """Place everything, in an order; returns self."""
        waiting = order
        if direct_first:
            waiting = [item for item in order if not self._direct(item, fit)]
        for _again in range(3):
            stuck = [item for item in waiting if not self._direct(item, fit) and not self._make_room(item)]
            if not stuck or len(stuck) == len(waiting):
                break
            waiting = stuck
        self.stuck = stuck
        return self

    @property
    def score(self):
        """Lower is better."""
        return (len(self.stuck), len(self.steps))

    def undo(self):
        """Give the board back as it was."""
        for item, node in self.placed.items():
            self.packing_state.take(item, node)
        for item, origin, _node in reversed(self.steps):
            self.packing_state.move(item, origin)

    # One item

    def _direct(self, item, fit):
        rows = np.flatnonzero(self.packing_state.fits(item))
        if not len(rows):
            return False
        self._settle(item, int(fit(self.packing_state, item, rows, self.weights)))
        return True

    def _settle(self, item, node):
        self.packing_state.put(item, node)
        self.placed[item] = node
        self._on[node].append(item)

    def _make_room(self, item):
        found = self._cheapest(item, frozenset(), DEPTH, self.budget - len(self.steps))
        if found is None:
            return False
        node, chain = found
        for moved, target in chain:
            self._step(moved, target)
        self._settle(item, node)
        return True

    def _step(self, item, target):
        origin = self._shift(item, target)
        if item not in self.placed:
            self.steps.append((item, origin, target))
            self._moved.add(item)

    def _back(self, item, origin):
        """Undo the last _step, of this item."""
        self._shift(item, origin)
        if item not in self.placed:
            self.steps.pop()
            self._moved.discard(item)

    def _shift(self, item, target):
        """Take an item from the node that it is on to another one; returns the former."""
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

    def _where(self, item):
        return self.placed[item] if item in self.placed else int(self.packing_state.at[item])

    # Whose stepping aside is cheapest

    def _cheapest(self, item, barred, depth, budget):
        """(node, [(item, target)]) with the fewest others moved, None when nothing is found.

        Deeper steps are only sought where shallow ones find nothing.
        """
        for deep in range(1, depth + 1):
            found = self._search(item, barred, deep, budget)
            if found is not None:
                return found
        return None

    def _search(self, item, barred, depth, budget):
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
        room = self._class_fits()
        bounds = []
        for position in np.lexsort((rows, far)):
            node = int(rows[position])
            least = self._least(node, short[position], room, depth)
            if least is not None and least <= budget:
                bounds.append((least, float(far[position]), node))
        bounds.sort()
        best = None
        for least, _far, node in bounds[: CLOSELY[0 if depth == DEPTH or not barred else 1]]:
            if best is not None and least >= best[0]:
                break
            most = budget if best is None else best[0] - 1
            chain = self._clear(item, node, barred, depth, most)
            if chain is None:
                continue
            cost = sum(moved not in self.placed for moved, _target in chain)
            if best is None or cost < best[0]:
                best = (cost, node, chain)
            if cost <= least:
                break
        return None if best is None else best[1:]

    def _class_fits(self):
        """bool array kinds x nodes: mask and room, without server groups."""
        packing_state = self.packing_state
        return packing_state.masks & (packing_state.free[None, :, :] >= packing_state.needs[:, None, :]).all(axis=2)

    def _movable_items(self, node):
        return [item for item in self._on[node] if item not in self._moved]

    def _least(self, node, short, room, depth):
        """How many others must leave a node at the very least; None when it cannot be enough."""
        packing_state = self.packing_state
        there = self._movable_items(node)
        if not there:
            return None
        kinds = packing_state.kind[there]
        if depth == 1:
            can = room[kinds].sum(axis=1) - room[kinds, node] > 0
            there = [each for each, can_move in zip(there, can) if can_move]
            if not there:
                return None
        need = packing_state.need[there]
        if (need.sum(axis=0) < short).any():
            return None
        paid = np.array([each not in self.placed for each in there])
        least = 0
        for number in np.flatnonzero(short):
            sizes = np.sort(need[paid, number])[::-1]
            gratis = need[~paid, number].sum()
            total = gratis + np.cumsum(sizes)
            if gratis < short[number]:
                least = max(least, int(np.searchsorted(total, short[number])) + 1)
        return least

    def _clear(self, item, node, barred, depth, most):
        """Items that step aside so that a node takes an item: [(item, target)], or None."""
        packing_state = self.packing_state
        blockers = packing_state.in_the_way(item, node, self._movable_items(node)) if packing_state.groups[item] else []
        if blockers is None:
            return None
        best = None
        for taste in (0, 1):
            chain = self._clear_by(item, node, barred | {node}, depth, most, blockers, taste)
            if chain is not None:
                cost = sum(moved not in self.placed for moved, _target in chain)
                if best is None or cost < best[0]:
                    best, most = (cost, chain), cost - 1
                if not packing_state.need[item].any() or most < 0:
                    break
        return None if best is None else best[1]

    def _clear_by(self, item, node, barred, depth, most, blockers, taste):
        packing_state = self.packing_state
        chain, done = [], []

        def step(moved):
            """Let one step aside, with whatever it needs itself."""
            rows = packing_state.fits(moved) if moved not in self.placed else self._fits_again(moved)
            rows[list(barred)] = False
            rows = np.flatnonzero(rows)
            if len(rows):
                target = int(packing.best_fit(packing_state, moved, rows, self.weights))
                before = []
            elif depth > 1:
                spent = sum(each not in self.placed for each, _target in chain)
                found = self._cheapest(moved, frozenset(barred), depth - 1, most - spent - (moved not in self.placed))
                if found is None:
                    return False
                target, before = found
            else:
                return False
            for each, where in [*before, (moved, target)]:
                done.append((each, self._where(each)))
                self._step(each, where)
                chain.append((each, where))
            return True

        try:
            for blocker in blockers:
                if not step(blocker):
                    return None
            tried = set()
            while True:
                short = packing_state.lacking(item, [node])[0]
                if not short.any():
                    return None if packing_state.in_the_way(item, node, self._on[node]) else chain
                spent = sum(each not in self.placed for each, _target in chain)
                if len(chain) >= MOST_FROM_ONE * depth:
                    return None
                there = [each for each in self._movable_items(node) if each not in tried]
                if spent >= most:
                    there = [each for each in there if each in self.placed]
                choice = self._choice(there, short, taste)
                if choice is None:
                    return None
                tried.add(choice)
                step(choice)
        finally:
            for each, origin in reversed(done):
                self._back(each, origin)

    def _fits_again(self, item):
        """fits() for an item that has a place in this attempt and may get another."""
        rows = self.packing_state.fits(item)
        rows &= self.packing_state.host_of != self.packing_state.host_of[self.placed[item]]
        return rows

    def _choice(self, there, short, taste):
        """Who should leave next: the smallest that is enough, else the one that brings most."""
        if not there:
            return None
        packing_state = self.packing_state
        need = packing_state.need[there].astype(np.float64)
        lacking = np.flatnonzero(short)
        brings = np.minimum(need[:, lacking], short[lacking]) / short[lacking]
        covers = (brings >= 1).all(axis=1)
        size = (need / np.maximum(packing_state.capacity.max(axis=0), 1)).sum(axis=1)
        gain = brings.sum(axis=1)
        if not gain.any():
            return None
        free = np.array([each in self.placed for each in there])
        if covers.any() and taste == 0:
            key = [(not covers[i], not free[i], size[i], packing_state.label[there[i]]) for i in range(len(there))]
        elif taste == 0:
            key = [(-gain[i] - 0.3 * free[i], size[i], packing_state.label[there[i]]) for i in range(len(there))]
        else:
            key = [
                (
                    -bool(free[i]) * (gain[i] > 0),
                    -gain[i] / (size[i] + 1e-9) if free[i] else -gain[i],
                    packing_state.label[there[i]],
                )
                for i in range(len(there))
            ]
        return there[min(range(len(there)), key=key.__getitem__)]


def make_room(packing_state, items, others, budget):
    """The attempt that places most with the fewest steps aside.

    :returns: ({item: node}, [items stuck], [(item, from, to)] of the others, words). The board is as before.
    """
    best, complete = None, 0
    attempts = []
    for direct_first in (False, True):
        for fit_name in ("best fit", "dot product"):
            for order_name, order in packing.orders(packing_state, items):
                attempts.append((order_name, order, fit_name, direct_first))
    for order_name, order, fit_name, direct_first in attempts:
        search = Search(packing_state, items, others, budget)
        search.run(order, packing.FITS[fit_name], direct_first)
        words = f"{fit_name} with {'room made' if budget else 'places changed'}, by {order_name}"
        result = (search.score, dict(search.placed), list(search.stuck), list(search.steps), words)
        search.undo()
        if best is None or result[0] < best[0]:
            best = result
        complete += not result[0][0]
        if not best[0][0] and (best[0][1] <= FEW or complete >= COMPLETE):
            break
    return best[1:]
