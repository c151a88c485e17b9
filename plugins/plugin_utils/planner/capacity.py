# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Capacity: how many more of a flavor fit, also when a host is lost.

N+1: what is left for more instances when the worst host is lost.
"""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.arrays import np
from ansible_collections.drover.compute.plugins.plugin_utils.planner import packing
from ansible_collections.drover.compute.plugins.plugin_utils.planner.destinations import CandidateBuilder, packing_state_of
from ansible_collections.drover.compute.plugins.plugin_utils.planner.migration_candidates import MigrationCandidate
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.host_states import HostStates
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.request_spec import RequestSpec


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
    packing_state, _items = packing_state_of(states, policy, ())
    new = packing_state.add([(MigrationCandidate({"name": spec.name, "uuid": spec.key}, spec, -1, (), ()),)])[0]
    counts, short = more(packing_state, new)
    allowed = packing_state.masks[packing_state.kind[new]]
    hosts = [
        {
            "host": states.host[row],
            "node": states.node[row],
            "count": int(counts[row]),
            "short": packing_state.classes[short[row]] if allowed[row] else None,
        }
        for row in range(states.size)
    ]
    often = np.bincount(short[allowed], minlength=len(packing_state.classes))
    found = {
        "hosts": hosts,
        "total": int(counts.sum()),
        "short": packing_state.classes[int(often.argmax())] if often.any() else None,
        "with_loss": None,
    }
    if instances is not None:
        lively = [each for each in instances if each["state"] != "missing"]
        found["with_loss"] = worst_loss(packing_state, lively, counts, lambda: more(packing_state, new)[0], new)
    return found


def more(packing_state, new):
    """(how many more fit on each node now, the class that gives out first)."""
    kind = packing_state.kind[new]
    need = packing_state.needs[kind]
    ask_filter = np.flatnonzero(need)
    by_class = packing_state.free[:, ask_filter].clip(min=0) // need[ask_filter]
    provided = [
        (position, packing_state.provided[number], int(need[number]))
        for position, number in enumerate(ask_filter)
        if number in packing_state.provided
    ]
    for position, load, amount in provided:
        by_class[:, position] = load.counts(amount)
    counts = np.where(packing_state.masks[kind] & packing_state.open, by_class.min(axis=1), 0)
    for _position, load, amount in provided:
        counts = load.share_out(amount, counts)
    for group in packing_state.groups[new]:
        left = (packing_state.most[group] - packing_state.count[group]).clip(min=0)
        for host in range(len(left)):
            rows = np.flatnonzero(packing_state.host_of == host)
            for row in rows:
                counts[row] = min(counts[row], left[host])
                left[host] -= counts[row]
    return counts, ask_filter[by_class.argmin(axis=1)]


#: So many hosts are looked at one by one; beyond that the bound of the next one counts.
LOOKED_AT = 16
#: In fleets of more nodes than this one way of placing is enough.
LARGE = 500
#: What decides where an instance may go, beside where it is.
_COMPARED = ("vcpus", "memory_mb", "disk_gb", "availability_zone", "server_group", "flavor", "project")


def worst_loss(packing_state, instances, counts, more, new):
    """The host whose loss leaves the least room.

    For every host there is a bound that its loss cannot go below: what fitted on it is gone, and each of its instances takes
    away no more than its size. The hosts are looked at from the lowest bound on, until the bound of the
    next is no lower than what was found.

    :param packing_state: PackingState without the instances as items.
    :param instances: dicts of all instances, with host and node.
    :param counts: how many more fit on each node now.
    :param more: a function that says it again for the board as it then is.
    :param new: the item that is counted.
    :returns: a dict total, host, survives; None for an empty fleet.
    """
    if not packing_state.size:
        return None
    losses = _Losses(packing_state, instances, counts, new)
    worst = None
    for number, host in enumerate(losses.order):
        sure, bound = losses.sure[host], int(losses.bound[host])
        if worst is not None and sure and number >= LOOKED_AT and bound < worst[0]:
            worst = (max(bound, 0), losses.name[host])
        if worst is not None and sure and bound >= worst[0]:
            break
        left = losses.beside(host, more)
        if left is None:
            return {"total": 0, "host": losses.name[host], "survives": False}
        if worst is None or left < worst[0]:
            worst = (left, losses.name[host])
    return {"total": worst[0], "host": worst[1], "survives": True}


class _Losses:
    """What is known of the loss of each host without placing anything; arrays by the number of the host.

    order: the hosts, first those of which it is not sure that all on them finds a place, then by bound.
    """

    def __init__(self, packing_state, instances, counts, new):
        self.packing_state = packing_state
        states = packing_state.states
        count = int(packing_state.host_of.max()) + 1
        self.name = [None] * count
        rows_of = {}
        for row in range(packing_state.size):
            self.name[packing_state.host_of[row]] = states.host[row]
            rows_of.setdefault(states.host[row], row)
            rows_of[states.host[row], states.node[row]] = row
        self._builder = CandidateBuilder(states, ())
        self._on = {}
        row_of, kind_of = [], []
        kinds, examples = {}, []
        for each in instances:
            row = rows_of.get((each["host"], each.get("node")), rows_of.get(each["host"]))
            if row is None:
                continue
            key = self._kind(each, row)
            if key not in kinds:
                kinds[key] = len(kinds)
                examples.append((each, row))
            row_of.append(row)
            kind_of.append(kinds[key])
            self._on.setdefault(int(packing_state.host_of[row]), []).append((each, row))
        hosts = packing_state.host_of[np.array(row_of, dtype=np.int64)]
        many = np.bincount(hosts, minlength=count)
        own = np.bincount(packing_state.host_of, minlength=count)
        gone = np.bincount(packing_state.host_of, weights=counts, minlength=count)
        harm = np.zeros(count)
        choices = np.full(count, np.iinfo(np.int64).max)
        if kind_of:
            items = packing_state.add([(self._builder.candidate(each, (row,), ()),) for each, row in examples])
            kind_of = np.array(kind_of, dtype=np.int64)
            np.add.at(harm, hosts, np.array([self._harm(item, new) for item in items])[kind_of])
            np.minimum.at(choices, hosts, np.array([self._choices(item) for item in items], dtype=np.int64)[kind_of])
        self.bound = counts.sum() - gone - harm
        # Each of its instances could have a node for itself.
        self.sure = (many == 0) | (choices - own >= many)
        self.order = sorted(range(count), key=lambda host: (self.sure[host], self.bound[host], self.name[host]))

    def _kind(self, instance, row):
        packing_state = self.packing_state
        return (
            *[instance.get(key) for key in _COMPARED],
            repr(instance.get("resources")) if instance.get("resources") else None,
            repr(instance.get("image")) if instance.get("image") else None,
            tuple(instance.get("required_traits") or ()),
            int(packing_state.states.cell_of[row]),
            *[packing_state.states.kept(instance["uuid"], packing_state.classes[number]) for number in packing_state.provided],
        )

    def _harm(self, item, new):
        """The most that placing an item somewhere can take from the count."""
        packing_state = self.packing_state
        ask_filter = np.flatnonzero(packing_state.need[new])
        harm = (-(-packing_state.need[item][ask_filter] // packing_state.need[new][ask_filter])).max(initial=0)
        return max(int(harm), 1 if packing_state.groups[new] else 0)

    def _choices(self, item):
        """At least so many nodes could take an item now, wherever it is; 0 when that cannot be told."""
        packing_state = self.packing_state
        if any(packing_state.need[item][number] for number in packing_state.provided):
            return 0
        kind = packing_state.kind[item]
        keep = packing_state.masks[kind] & packing_state.open & (packing_state.free >= packing_state.needs[kind]).all(axis=1)
        for group in packing_state.groups[item]:
            keep &= (packing_state.count[group] < packing_state.most[group])[packing_state.host_of]
        return int(keep.sum())

    def beside(self, host, more):
        """How many more fit when the instances of a lost host have got places; None when they find none."""
        packing_state = self.packing_state
        rows = np.flatnonzero(packing_state.host_of == host)
        items = packing_state.add([(self._builder.candidate(each, (row,), ()),) for each, row in self._on.get(host, ())])
        packing_state.open[rows] = False
        try:
            return _most(packing_state, items, more)
        finally:
            packing_state.open[rows] = True


def _most(packing_state, items, more):
    """The best count of several ways of placing the items."""
    if not items:
        return int(more().sum())
    best = None
    weights = packing.weights_of(packing_state, items)
    large = packing_state.size > LARGE
    fits = [packing.best_fit] if large else list(packing.FITS.values())
    for _words, order in packing.orders(packing_state, items)[: 1 if large else 3]:
        for fit in fits:
            placed, stuck = packing.place(packing_state, order, fit, weights)
            if not stuck:
                total = int(more().sum())
                best = total if best is None else max(best, total)
            for item, node in placed.items():
                packing_state.take(item, node)
    if best is None:
        placed, stuck, _words = packing.pack(packing_state, items)
        if not stuck:
            for item, node in placed.items():
                packing_state.put(item, node)
            best = int(more().sum())
            for item, node in placed.items():
                packing_state.take(item, node)
    return best
