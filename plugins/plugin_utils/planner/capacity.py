# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Capacity: how many more of a flavor fit, also when a host is lost."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.planner.loss import worst_loss
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
        total: in all; short: the class that gives out first on most nodes, None where none may take it;
        with_loss: None without instances, else {total, host, survives}: how many more fit when the
            worst host (host) is lost and everything on it has found a place on the others; survives is
            False when that fails even now, and total then is 0.

    total is exact for requests without a server group; with_loss counts the best of several ways of
    placing the lost host's instances, so that more may fit, never less.
    """
    states = HostStates(fleet)
    spec = request if isinstance(request, RequestSpec) else RequestSpec.from_request(request)
    board, _items = board_of(states, policy, ())
    new = board.add([(Mover({"name": spec.name, "uuid": spec.key}, spec, -1, (), ()),)])[0]
    counts, short = more(board, new)
    allowed = board.masks[board.kind[new]]
    hosts = [
        {
            "host": states.host[row],
            "node": states.node[row],
            "count": int(counts[row]),
            "short": board.classes[short[row]] if allowed[row] else None,
        }
        for row in range(states.size)
    ]
    often = np.bincount(short[allowed], minlength=len(board.classes))
    found = {
        "hosts": hosts,
        "total": int(counts.sum()),
        "short": board.classes[int(often.argmax())] if often.any() else None,
        "with_loss": None,
    }
    if instances is not None:
        lively = [each for each in instances if each["state"] != "missing"]
        found["with_loss"] = worst_loss(board, lively, counts, lambda: more(board, new)[0], new)
    return found


def more(board, new):
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
