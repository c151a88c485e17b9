# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Capacity: how many more of a flavor fit, also when a host is lost."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.planner import packing
from ansible_collections.drover.compute.plugins.plugin_utils.planner.reach import board_of
from ansible_collections.drover.compute.plugins.plugin_utils.planner.units import Mover
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.host_states import HostStates
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.request_spec import RequestSpec

try:
    import numpy as np
except ImportError:
    np = None


def plan_capacity(fleet, request, policy, instances=None):
    """How many more instances like this one fit.

    :param fleet: columns as the store's read_fleet returns them.
    :param request: RequestSpec, or a mapping as RequestSpec.from_request takes it.
    :param policy: scheduler Policy.
    :param instances: all instances as the store gives them, with host; needed for with_loss.
    :returns: a dict
        hosts: [{host, node, count, short}], count of more that fit there now, short: the class that
            gives out first (None where host filters keep it off, then count is 0);
        total: in all;
        with_loss: None without instances, else {total, host, survives}: how many more fit when the
            worst host (host) is lost and everything on it has found a place on the others; survives is
            False when that fails even now, and total then is 0.

    total is exact for requests without a server group; with_loss counts the best of several ways of
    placing the lost host's instances, so that more may fit, never less.
    """
    states = HostStates(fleet)
    spec = request if isinstance(request, RequestSpec) else RequestSpec.from_request(request)
    lively = [each for each in instances or () if each["state"] != "missing"]
    board, items = board_of(states, policy, lively)
    new = board.add([(Mover({"name": spec.name, "uuid": spec.key}, spec, -1, (), ()),)])[0]
    counts, short = _more(board, new)
    hosts = [
        {
            "host": states.host[row],
            "node": states.node[row],
            "count": int(counts[row]),
            "short": board.classes[short[row]] if board.masks[board.kind[new]][row] else None,
        }
        for row in range(states.size)
    ]
    found = {"hosts": hosts, "total": int(counts.sum()), "with_loss": None}
    if instances is not None:
        found["with_loss"] = _worst(board, items, new)
    return found


def _more(board, new):
    """(how many more fit on each node now, the class that gives out first)."""
    kind = board.kind[new]
    need = board.needs[kind]
    asked = np.flatnonzero(need)
    by_class = board.free[:, asked].clip(min=0) // need[asked]
    counts = np.where(board.masks[kind] & board.open, by_class.min(axis=1), 0)
    for number in asked:
        for pool in np.unique(board.pool[:, number]):
            if pool >= 0:
                # What one node takes of a pool is gone for the others.
                left = max(int(board.free[board.pool[:, number] == pool, number][0]), 0) // int(need[number])
                for row in np.flatnonzero(board.pool[:, number] == pool):
                    counts[row] = min(counts[row], left)
                    left -= counts[row]
    for group in board.groups[new]:
        left = (board.most[group] - board.count[group]).clip(min=0)
        for host in range(len(left)):
            rows = np.flatnonzero(board.host_of == host)
            for row in rows:
                counts[row] = min(counts[row], left[host])
                left[host] -= counts[row]
    return counts, asked[by_class.argmin(axis=1)]


def _worst(board, items, new):
    states = board.states
    on = {}
    for item in items:
        on.setdefault(states.host[board.at[item]], []).append(item)
    worst = None
    for name in sorted(set(states.host)):
        rows = [row for row in range(states.size) if states.host[row] == name]
        board.open[rows] = False
        total = _beside(board, on.get(name, []), new)
        board.open[rows] = True
        if worst is None or (-1 if total is None else total) < worst[0]:
            worst = (-1 if total is None else total, name)
    if worst is None:
        return None
    return {"total": max(worst[0], 0), "host": worst[1], "survives": worst[0] >= 0}


def _beside(board, items, new):
    """How many more fit when these items have got places; None when they find none."""
    if not items:
        return int(_more(board, new)[0].sum())
    best = None
    weights = packing.weights_of(board, items)
    for _words, order in packing.orders(board, items)[:3]:
        for fit in packing.FITS.values():
            placed, stuck = packing.place(board, order, fit, weights)
            if not stuck:
                total = int(_more(board, new)[0].sum())
                best = total if best is None else max(best, total)
            for item, node in placed.items():
                board.take(item, node)
    if best is None:
        placed, stuck, _words = packing.pack(board, items)
        if not stuck:
            for item, node in placed.items():
                board.put(item, node)
            best = int(_more(board, new)[0].sum())
            for item, node in placed.items():
                board.take(item, node)
    return best
