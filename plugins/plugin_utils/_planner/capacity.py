# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The capacity of a fleet: the number of further instances of a flavor that fit, with all hosts and
without the host that is the hardest to lose (N+1).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping

from .._common.arrays import BoolArray, FloatArray, IntArray, np
from .._common.errors import natural
from .._records.hosts import FleetColumns
from .._records.instances import InstanceAmounts
from .._records.plans import CapacityPlan, HostCapacity, HostLoss
from .._scheduler.host_filters.numa_topology_filter import NUMATopologyFilter
from .._scheduler.host_states import GroupState, HostStates
from .._scheduler.policy import Policy
from .._scheduler.request_spec import RequestSpec
from . import packing
from .destinations import CandidateBuilder, packing_state_of
from .migration_candidates import MigrationCandidate
from .packing_state import PackingState, Placed, Rejection


def plan_capacity(
    fleet: FleetColumns,
    request: RequestSpec | Mapping[str, object],
    policy: Policy,
    instances: Iterable[InstanceAmounts] | None = None,
) -> CapacityPlan:
    """Count how many more instances like this one fit, see plan_capacities()."""
    return plan_capacities(fleet, [request], policy, instances)[0]


def plan_capacities(
    fleet: FleetColumns,
    requests: Iterable[RequestSpec | Mapping[str, object]],
    policy: Policy,
    instances: Iterable[InstanceAmounts] | None = None,
) -> list[CapacityPlan]:
    """Count for each request how many more instances like it fit.

    The total is exact for requests without a server group. The loss of a host counts the best of
    several ways to place its instances, so more may fit, never less.

    :param requests: specs, or mappings as RequestSpec.from_request() takes them.
    :param instances: all instances, to count the loss of a host; None for no such count.
    """
    packing_state, _items = packing_state_of(HostStates(fleet), policy, ())
    losses = (
        None
        if instances is None
        else _Losses(packing_state, [each for each in instances if each["state"] != "missing"])
    )
    specs = [
        each if isinstance(each, RequestSpec) else RequestSpec.from_request(each)
        for each in requests
    ]
    return [_plan(packing_state, spec, losses) for spec in specs]


def _plan(packing_state: PackingState, spec: RequestSpec, losses: _Losses | None) -> CapacityPlan:
    states = packing_state.states
    new = packing_state.add([(MigrationCandidate(spec, -1),)])[0]
    counts, short = more(packing_state, new)
    in_cells = _in_cells(states, spec, counts)
    # The cells or devices of these nodes run out before their other capacity.
    full = in_cells < counts
    counts = np.minimum(counts, in_cells)
    allowed = packing_state.masks[packing_state.kind[new]]
    rejections = packing_state.rejections(new)
    rejections |= {
        int(row): _no_cells(states, spec, int(row)) for row in np.flatnonzero(full & (counts == 0))
    }
    hosts: list[HostCapacity] = [
        {
            "host": states.host[row],
            "node": states.node[row],
            "count": int(counts[row]),
            "short": packing_state.classes[short[row]] if allowed[row] and not full[row] else None,
            "rejected_by": rejections[row].name if row in rejections else None,
            "reason": rejections[row].reason if row in rejections else None,
        }
        for row in range(states.size)
    ]
    often = np.bincount(short[allowed & ~full], minlength=len(packing_state.classes))
    with_loss = None
    if losses is not None:
        with_loss = worst_loss(
            losses, counts, lambda: np.minimum(more(packing_state, new)[0], in_cells), new
        )
    return {
        "hosts": hosts,
        "total": int(counts.sum()),
        "short": packing_state.classes[int(often.argmax())] if often.any() else None,
        "with_loss": with_loss,
    }


def _in_cells(states: HostStates, spec: RequestSpec, counts: IntArray) -> IntArray:
    """Return by node how many instances its NUMA cells and PCI devices take, at most ``counts``."""
    if spec.host_request.is_empty:
        return counts
    numa = states.numa
    return np.array(
        [
            numa.count(spec.host_request, row, int(most)) if numa and most else 0
            for row, most in enumerate(counts)
        ],
        dtype=np.int64,
    )


def _no_cells(states: HostStates, spec: RequestSpec, row: int) -> Rejection:
    each = NUMATopologyFilter()
    return Rejection(each.name, each.rejection_reason(states, spec, row))


def more(packing_state: PackingState, new: int) -> tuple[IntArray, IntArray]:
    """Return by node how many more of an item fit now, and the number of the class that runs out
    first.
    """
    kind = packing_state.kind[new]
    need = packing_state.needs[kind]
    needed = np.flatnonzero(need)
    by_class = packing_state.free[:, needed].clip(min=0) // need[needed]
    provided = [
        (position, packing_state.provided[number], int(need[number]))
        for position, number in enumerate(needed.tolist())
        if number in packing_state.provided
    ]
    for position, load, amount in provided:
        by_class[:, position] = load.counts(amount)
    counts: IntArray = np.where(
        packing_state.masks[kind] & packing_state.open, by_class.min(axis=1), 0
    )
    for _position, load, amount in provided:
        counts = load.share_out(amount, counts)
    for group in packing_state.groups[new]:
        remaining = (packing_state.most[group] - packing_state.count[group].by_host()).clip(min=0)
        for host in range(len(remaining)):
            rows = np.flatnonzero(packing_state.host_of == host)
            for row in rows:
                counts[row] = min(counts[row], remaining[host])
                remaining[host] -= counts[row]
    return counts, needed[by_class.argmin(axis=1)]


def unbearable_losses(
    fleet: FleetColumns, policy: Policy, instances: Iterable[InstanceAmounts]
) -> list[str]:
    """Return the names of the hosts that the other hosts cannot replace, sorted.

    Each host is examined as if it alone were lost: the name is returned if its instances do not all
    fit on the other hosts. worst_loss() answers the same question for the worst host only.
    """
    packing_state, _items = packing_state_of(HostStates(fleet), policy, ())
    if not packing_state.size:
        return []
    losses = _Losses(packing_state, [each for each in instances if each["state"] != "missing"])
    unsure = (host for host in range(len(losses.name)) if not losses.sure[host])
    return sorted((losses.name[host] for host in unsure if not losses.is_borne(host)), key=natural)


#: The number of hosts that are examined; the bounds decide about the others.
EXAMINED = 16
#: The number of orders of the instances of a lost host that are tried, with each fit.
ORDERS = 3
#: The keys of an instance that decide about its destinations, besides its node.
_COMPARED = ("vcpus", "memory_mb", "disk_gb", "availability_zone", "flavor", "project", "user")
#: More such keys. Few instances have them, and their values are not simple.
_RARE = (
    "extra_specs",
    "image",
    "image_name",
    "image_id",
    "image_format",
    "required_traits",
    "required_pool_traits",
)


def worst_loss(
    losses: _Losses, counts: IntArray, count_more: Callable[[], IntArray], new: int
) -> HostLoss | None:
    """Find the host with the loss that leaves the least capacity; None for an empty fleet.

    The count after the loss of a host has a lower bound: the count of the host itself is lost, and
    each of its instances takes away no more than its size. The hosts are examined from the lowest
    bound on, until the next bound is no lower than the least count.

    :param counts: the number of further instances that fit on each node now.
    :param count_more: counts them again after a change of the packing state.
    :param new: the item that is counted.
    """
    if not losses.name:
        return None
    bounds = losses.bounds(counts, new)
    worst: tuple[int, str] | None = None
    # First the hosts that may not be replaced, then the others from the lowest bound on.
    order = sorted(
        range(len(losses.name)),
        key=lambda host: (losses.sure[host], bounds[host], losses.name[host]),
    )
    for number, host in enumerate(order):
        sure, bound = losses.sure[host], int(bounds[host])
        if worst is not None and sure and number >= EXAMINED and bound < worst[0]:
            worst = (max(bound, 0), losses.name[host])
        if worst is not None and sure and bound >= worst[0]:
            break
        remaining = losses.beside(host, count_more)
        if remaining is None:
            return {"total": 0, "host": losses.name[host], "survives": False}
        if worst is None or remaining < worst[0]:
            worst = (remaining, losses.name[host])
    return None if worst is None else {"total": worst[0], "host": worst[1], "survives": True}


class _Losses:
    """Facts about the loss of each host, by the number of the host. They hold for every item that
    is counted.

    name: the names of the hosts. sure: True for a host with instances that fit elsewhere in any
    case. impossible: True for a host with an instance that fits nowhere else.
    """

    def __init__(self, packing_state: PackingState, instances: Iterable[InstanceAmounts]) -> None:
        self.packing_state = packing_state
        states = packing_state.states
        self.name: list[str] = [""] * states.host_count
        rows_of: dict[tuple[str, str | None], int] = {}
        for row in range(packing_state.size):
            self.name[packing_state.host_of[row]] = states.host[row]
            rows_of.setdefault((states.host[row], None), row)
            rows_of[states.host[row], states.node[row]] = row
        self._builder = CandidateBuilder(states, ())
        #: The number of nodes of each host.
        self._nodes_of: IntArray = np.bincount(packing_state.host_of, minlength=len(self.name))
        #: The instances with a place, and their rows.
        self._instances: list[InstanceAmounts] = []
        row_of: list[int] = []
        kinds: dict[tuple[object, ...], int] = {}
        numbers: list[int] = []
        self._examples: list[tuple[InstanceAmounts, int]] = []
        apart: dict[str, int] = {}
        fewer: list[int] = []
        cells = states.cell_of.tolist()
        for instance in instances:
            at = rows_of.get((instance["host"], instance.get("node")))
            if at is None:
                at = rows_of.get((instance["host"], None))
            if at is None:
                continue
            name = instance.get("server_group")
            group = states.group(name) if name else None
            if name and group is not None and name not in apart:
                apart[name] = self._taken_by(group) if group.policy == "anti-affinity" else 0
            key = self._kind(instance, cells[at], group)
            if key not in kinds:
                kinds[key] = len(kinds)
                self._examples.append((instance, at))
            self._instances.append(instance)
            row_of.append(at)
            numbers.append(kinds[key])
            fewer.append(apart.get(name or "", 0))
        self._row_of = np.array(row_of, dtype=np.int64)
        self._kind_of = np.array(numbers, dtype=np.int64)
        self._host_of: IntArray = packing_state.host_of[self._row_of]
        #: The numbers of instances, sorted by host.
        self._by_host = np.argsort(self._host_of, kind="stable")
        self._items = packing_state.add(
            [(self._builder.candidate(each, (row,), ()),) for each, row in self._examples]
        )
        #: The ways to place the instances of a lost host elsewhere, for the hosts that were
        #: examined. They hold for every item that is counted.
        self._placed: dict[int, list[Placed]] = {}
        self.sure = np.ones(len(self.name), dtype=np.bool_)
        self.impossible = np.zeros(len(self.name), dtype=np.bool_)
        if numbers:
            self._look_at_each(np.array(fewer))

    def _look_at_each(self, fewer: IntArray) -> None:
        """Find out for each host if its instances fit elsewhere in any case, or if one of them fits
        nowhere.

        :param fewer: the number of nodes that the anti-affinity group of each instance takes away.
        """
        choices = np.zeros(len(self._kind_of), dtype=np.int64)
        by_kind = np.argsort(self._kind_of, kind="stable")
        for item, of_kind in zip(
            self._items, np.split(by_kind, np.cumsum(np.bincount(self._kind_of))[:-1])
        ):
            room = self._room(item)
            if room is None:
                # Counts as possible, and as not sure.
                continue
            choices[of_kind] = room.sum()
            hosts = self._host_of[of_kind]
            # Nothing has room but its own nodes.
            self.impossible[hosts[choices[of_kind] <= self._on_hosts(room)[hosts]]] = True
        elsewhere = choices - fewer - self._nodes_of[self._host_of]
        # Each instance can have a separate node if the instances with the fewest choices choose
        # first.
        order = np.lexsort((elsewhere, self._host_of))
        hosts = self._host_of[order]
        before = np.arange(len(order)) - np.searchsorted(hosts, hosts)
        self.sure[hosts[elsewhere[order] <= before]] = False

    def _on_hosts(self, room: BoolArray) -> IntArray:
        """Count by host the nodes that have room."""
        return np.bincount(
            self.packing_state.host_of, weights=room, minlength=len(self.name)
        ).astype(np.int64)

    def bounds(self, counts: IntArray, new: int) -> FloatArray:
        """Return a lower bound of the count after the loss of each host.

        :param counts: the number of further items that fit on each node now.
        :param new: the item.
        """
        bounds: FloatArray = counts.sum() - np.bincount(
            self.packing_state.host_of, weights=counts, minlength=len(self.name)
        )
        if self._items:
            harm = np.array([self._harm(item, new) for item in self._items])
            bounds -= np.bincount(
                self._host_of, weights=harm[self._kind_of], minlength=len(self.name)
            )
        return bounds

    def _taken_by(self, group: GroupState) -> int:
        """Return the number of nodes that no further member of an anti-affinity group may use."""
        return int(self._nodes_of[group.per_host.hosts_with(group.max_server_per_host)].sum())

    def _kind(
        self, instance: InstanceAmounts, cell: int, group: GroupState | None
    ) -> tuple[object, ...]:
        packing_state = self.packing_state
        return (
            *[instance.get(key) for key in _COMPARED],
            group.name if group is not None and group.policy == "affinity" else None,
            repr(instance.get("resources")) if instance.get("resources") else None,
            *[repr(value) if (value := instance.get(key)) else None for key in _RARE],
            cell,
            *[
                packing_state.states.kept(instance["uuid"], packing_state.classes[number])
                for number in packing_state.provided
            ],
        )

    def _harm(self, item: int, new: int) -> int:
        """Return the most by which an item that is placed somewhere reduces the count of another
        one.
        """
        packing_state = self.packing_state
        needed = np.flatnonzero(packing_state.need[new])
        harm = (-(-packing_state.need[item][needed] // packing_state.need[new][needed])).max(
            initial=0
        )
        return max(int(harm), 1 if packing_state.groups[new] else 0)

    def _room(self, item: int) -> BoolArray | None:
        """Return the nodes that have room for an item now, its own node included, without regard to
        its anti-affinity group; None if this is unknown.
        """
        packing_state = self.packing_state
        if any(packing_state.need[item][number] for number in packing_state.provided):
            return None
        return packing_state.room_for(int(packing_state.kind[item]))

    def is_borne(self, host: int) -> bool:
        """Return True if the instances of a lost host can be placed."""
        if self.impossible[host]:
            return False
        with self.packing_state.closed(self._rows(host)):
            return next(self._ways(host), None) is not None

    def beside(self, host: int, count_more: Callable[[], IntArray]) -> int | None:
        """Count the further instances that fit after the instances of a lost host are placed; None
        if these do not fit.
        """
        if self.impossible[host]:
            return None
        packing_state = self.packing_state
        with packing_state.closed(self._rows(host)):
            if host not in self._placed:
                self._placed[host] = list(self._ways(host))
            best: int | None = None
            for placed in self._placed[host]:
                packing_state.put_all(placed)
                total = int(count_more().sum())
                packing_state.take_all(placed)
                best = total if best is None else max(best, total)
            return best

    def _rows(self, host: int) -> IntArray:
        return np.flatnonzero(self.packing_state.host_of == host)

    def _ways(self, host: int) -> Iterator[Placed]:
        """Yield different ways to place all instances of a closed host; no way if there is none.

        The packing state is unchanged when a way is yielded.
        """
        packing_state = self.packing_state
        first, end = np.searchsorted(self._host_of[self._by_host], (host, host + 1))
        lost = [
            (self._instances[number], int(self._row_of[number]))
            for number in self._by_host[first:end].tolist()
        ]
        items = packing_state.add(
            [(self._builder.candidate(each, (row,), ()),) for each, row in lost]
        )
        weights = packing.weights_of(packing_state, items)
        placements: list[Placed] = []
        orders: list[list[int]] = []
        for _words, order in itertools.islice(packing.orders(packing_state, items), ORDERS):
            # Instances with proportional amounts have one order.
            if order not in orders:
                orders.append(order)
        for order in orders:
            for fit in packing.FITS.values():
                placed, stuck = packing.place(packing_state, order, fit, weights)
                packing_state.take_all(placed)
                if not stuck and placed not in placements:
                    placements.append(placed)
                    yield placed
        if not placements:
            placed, stuck, _words = packing.pack(packing_state, items)
            if not stuck:
                yield placed
