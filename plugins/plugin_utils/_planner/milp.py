# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The exact model of a drain, for problems that the searches did not solve; it needs the optional
package highspy.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Literal

from .._common.arrays import IntArray, np
from .packing_state import Found, PackingState, Placed, Step

AVAILABLE = importlib.util.find_spec("highspy") is not None
NOT_INSTALLED = (
    "Searching found neither a whole plan nor a proof that there is none. An exact model may find"
    " one: it needs the Python package highspy, which is not installed on the controller: pip"
    " install -r requirements-solver.txt (the file is in the collection's folder)."
)
NEEDS_TIME = (
    "Searching found neither a whole plan nor a proof that there is none. An exact model may find"
    " one: give it time (solver_seconds)."
)
UNDECIDED = (
    "Neither searching nor the exact model found a whole plan or a proof that there is none; more"
    " time (solver_seconds) or more moves (extra_moves) may."
)
#: The part by which the cost of a solution may exceed the optimum; a proof for the last move takes
#: too much time.
GAP = 0.25
Status = Literal["found", "infeasible", "unknown"]
#: A row of the model: lower bound, upper bound, {column: coefficient}.
Row = tuple[float, float, dict[int, int]]


def solve(
    packing_state: PackingState,
    items: Sequence[int],
    others: Sequence[int],
    budget: int,
    seconds: float,
) -> tuple[Status, Found | None]:
    """Find nodes for all items with the fewest moves of others.

    Others of one kind are interchangeable, so the model counts kinds per node. Others in
    anti-affinity groups do not move. If that has no solution, a second model moves them too and
    neglects groups; if it has no solution either, that is a proof.

    :param budget: the maximum of moves of others.
    :param seconds: time limit of each of the two models.
    :returns: the status "infeasible" is proven for any number of moves.
    """
    if packing_state.mixed:
        return "unknown", None
    loose = [item for item in others if not packing_state.groups[item]]
    model = Model(packing_state, items, loose, budget, groups=True)
    status, values = model.run(seconds)
    if values is not None:
        answer = _in_order(packing_state, loose, model, values)
        if answer is not None:
            return "found", answer
        return "unknown", None
    status, _values = Model(packing_state, items, others, None, groups=False).run(seconds)
    return ("infeasible", None) if status == "infeasible" else ("unknown", None)


class Model:
    """A mixed-integer model. By kind and node, z counts the items that go to the node, x the others
    that end on it, out the others that leave it.

    :param budget: the maximum of moves of others; None for any number.
    :param groups: whether anti-affinity groups count.
    """

    def __init__(
        self,
        packing_state: PackingState,
        items: Sequence[int],
        others: Sequence[int],
        budget: int | None,
        groups: bool,
    ) -> None:
        self.packing_state = packing_state
        kinds: dict[tuple[int, tuple[int, ...]], list[int]] = {}
        for item in items:
            kinds.setdefault(
                (int(packing_state.kind[item]), packing_state.groups[item] if groups else ()), []
            ).append(item)
        self.kinds = sorted(kinds.items())
        counts_by_kind: dict[int, IntArray] = {}
        for item in others:
            counts = counts_by_kind.setdefault(
                int(packing_state.kind[item]), np.zeros(packing_state.size, dtype=np.int64)
            )
            counts[packing_state.at[item]] += 1
        self.there = sorted(counts_by_kind.items())
        #: (lower bound, upper bound, cost).
        self.columns: list[tuple[int, int, float]] = []
        self._rows: list[Row] = []
        room = packing_state.free.copy()
        for kind, counts in self.there:
            room += counts[:, None] * packing_state.needs[kind][None]
        load: list[list[dict[int, int]]] = [
            [{} for _rc in packing_state.classes] for _node in range(packing_state.size)
        ]
        #: The columns of z and x: {(number or kind, node): column}.
        self.z: dict[tuple[int, int], int] = {}
        self.x: dict[tuple[int, int], int] = {}
        apart: dict[tuple[int, int], dict[int, int]] = {}
        for number, ((kind, members), kind_items) in enumerate(self.kinds):
            nodes = packing_state.masks[kind] & (packing_state.needs[kind] <= room).all(axis=1)
            for group in members:
                nodes = nodes & packing_state.apart(group)
            entries = {}
            for node in np.flatnonzero(nodes).tolist():
                column = self._column(0, len(kind_items), 0.0)
                self.z[number, node] = column
                entries[column] = 1
                self._use(load, node, kind, column)
                for group in members:
                    apart.setdefault((group, int(packing_state.host_of[node])), {})[column] = 1
            self._rows.append((len(kind_items), len(kind_items), entries))
        for (group, host), entries in apart.items():
            self._rows.append(
                (0, packing_state.most[group] - packing_state.count[group][host], entries)
            )
        leaving: dict[int, int] = {}
        for kind, counts in self.there:
            entries = {}
            for node in np.flatnonzero(packing_state.masks[kind] | (counts > 0)).tolist():
                have = int(counts[node])
                most = int(counts.sum()) if packing_state.masks[kind][node] else have
                column = self._column(0, most, 0.0)
                self.x[kind, node] = column
                entries[column] = 1
                self._use(load, node, kind, column)
                if have:
                    out = self._column(0, have, 1.0)
                    leaving[out] = 1
                    self._rows.append((have, np.inf, {column: 1, out: 1}))
            self._rows.append((int(counts.sum()), int(counts.sum()), entries))
        if budget is not None and leaving:
            self._rows.append((0, budget, leaving))
        for node in range(packing_state.size):
            for number in range(len(packing_state.classes)):
                if load[node][number]:
                    # A node that is too full already may stay so, but takes no further item.
                    self._rows.append(
                        (-np.inf, max(int(room[node, number]), 0), load[node][number])
                    )

    def _column(self, low: int, high: int, cost: float) -> int:
        self.columns.append((low, high, cost))
        return len(self.columns) - 1

    def _use(self, load: list[list[dict[int, int]]], node: int, kind: int, column: int) -> None:
        for number in np.flatnonzero(self.packing_state.needs[kind]):
            load[node][number][column] = int(self.packing_state.needs[kind][number])

    def run(self, seconds: float) -> tuple[Status, IntArray | None]:
        """Solve the model; return the values of its columns if a solution is found."""
        if any(not entries and low > 0 for low, _high, entries in self._rows):
            return "infeasible", None
        import highspy

        solver = highspy.Highs()
        for option, value in (
            ("output_flag", False),
            ("threads", 1),
            ("random_seed", 1),
            ("time_limit", float(seconds)),
            ("mip_rel_gap", GAP),
            ("mip_abs_gap", 0.99),
        ):
            solver.setOptionValue(option, value)
        count = len(self.columns)
        lows, highs, costs = (np.array(values, dtype=np.float64) for values in zip(*self.columns))
        solver.addVars(count, lows, highs)
        index = np.arange(count, dtype=np.int32)
        solver.changeColsCost(count, index, costs)
        solver.changeColsIntegrality(count, index, np.ones(count, dtype=np.uint8))
        starts = np.cumsum([0] + [len(entries) for _low, _high, entries in self._rows])[:-1].astype(
            np.int32
        )
        indices = np.array(
            [column for _l, _h, entries in self._rows for column in entries], dtype=np.int32
        )
        values = np.array(
            [value for _l, _h, entries in self._rows for value in entries.values()],
            dtype=np.float64,
        )
        low = np.array([row[0] for row in self._rows], dtype=np.float64)
        high = np.array([row[1] for row in self._rows], dtype=np.float64)
        solver.addRows(len(self._rows), low, high, len(indices), starts, indices, values)
        solver.run()
        status = solver.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return "infeasible", None
        # A solution at the time limit may differ from run to run.
        if status != highspy.HighsModelStatus.kOptimal:
            return "unknown", None
        return "found", np.rint(np.array(solver.getSolution().col_value)).astype(np.int64)


def _in_order(
    packing_state: PackingState, others: Sequence[int], model: Model, values: IntArray
) -> Found | None:
    """Turn a solution into steps that each fit at their turn; None if no such order is found."""
    want = {key: int(values[column]) for key, column in model.x.items()}
    on: dict[tuple[int, int], list[int]] = {}
    for item in others:
        on.setdefault((int(packing_state.kind[item]), int(packing_state.at[item])), []).append(item)
    for items in on.values():
        items.sort(key=lambda item: packing_state.label[item])
    surplus = {
        key: len(found) - want.get(key, 0)
        for key, found in on.items()
        if len(found) > want.get(key, 0)
    }
    lacking = {
        key: most - len(on.get(key, ()))
        for key, most in want.items()
        if most > len(on.get(key, ()))
    }
    steps: list[Step] = []
    moved = True
    while moved and surplus:
        moved = False
        for kind, origin in sorted(surplus):
            item = on[kind, origin][0]
            fits = packing_state.fits(item)
            target = next((node for k, node in sorted(lacking) if k == kind and fits[node]), None)
            if target is None:
                continue
            on[kind, origin].pop(0)
            packing_state.move(item, target)
            steps.append((item, origin, target))
            for table, key in ((surplus, (kind, origin)), (lacking, (kind, target))):
                table[key] -= 1
                if not table[key]:
                    del table[key]
            moved = True
    placed: Placed = {}
    for number, (_key, items) in enumerate(model.kinds):
        waiting = sorted(items, key=lambda item: packing_state.label[item])
        for (which, node), column in sorted(model.z.items()):
            if which == number:
                for _each in range(int(values[column])):
                    placed[waiting.pop(0)] = node
    for item, origin, _target in reversed(steps):
        packing_state.move(item, origin)
    if surplus:
        return None
    return placed, [], steps, "exact model" + (" with room made" if steps else "")
