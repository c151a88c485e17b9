# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute nodes and instances as arrays for the searches that place instances."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from .._common.arrays import BoolArray, IntArray, np
from .._scheduler.capacity import AggregateCapacityFilter, CapacityFilter, ClassFilter
from .._scheduler.filtering import Filtering, ask_filter
from .._scheduler.host_counts import HostCounts
from .._scheduler.host_filters.server_group_affinity_filter import ServerGroupAffinityFilter
from .._scheduler.host_filters.server_group_anti_affinity_filter import (
    ServerGroupAntiAffinityFilter,
)
from .._scheduler.host_states import HostStates
from .._scheduler.policy import Policy
from .._scheduler.request_spec import RequestSpec
from .migration_candidates import MigrationCandidate
from .provider_load import Part, ProviderLoad

#: {item: row of its node}.
Placed = dict[int, int]
#: A move of an item: (item, row that it leaves, row of its destination).
Step = tuple[int, int, int]
#: The result of a search: destinations, items without one, moves of other items in their order, and
#: the method in words.
Found = tuple[Placed, list[int], list[Step], str]
#: The changing part of a PackingState: free, provided, count, open.
Load = tuple[IntArray, dict[int, ProviderLoad], list[HostCounts], BoolArray]


class Rejection(NamedTuple):
    """The rejection of a node: the name of the host filter, pre-filter or limit, and the reason in
    words, None if it is unknown.
    """

    name: str
    reason: str | None


#: A rule that does not depend on placed items: its name, the nodes that pass, and a function from
#: the row of a node that does not pass to the reason.
Rule = tuple[str, BoolArray, Callable[[int], str | None]]

#: Host filters with rules that fits() also checks.
KEPT = (CapacityFilter, ServerGroupAntiAffinityFilter, ServerGroupAffinityFilter)


class PackingState:
    """n compute nodes with their free capacity, and items that may be put on them.

    An item is an instance, or several instances that go to one node together. Capacity is counted
    in whole units as the claim counts it (N10.2): free = floor(capacity) - used. For a class that a
    node takes from several or shared providers, ``free`` is the sum of these providers, while an
    amount must fit on one of them (``provided``). An item that moves between nodes of one sharing
    provider keeps its allocation there; if it can only go to such nodes, it needs nothing of that
    class.

    Arrays: capacity, free (n x classes); host_of (n); open (n: whether it accepts items); need
    (items x classes); at (by item: the row of its node, -1 for none); kind (by item: its row in
    masks and needs). Lists by item: candidates, groups, label. provided: {number of a class:
    ProviderLoad}. changing: names of host filters with answers that may change with the load by
    rules that are not kept here; a finished plan is checked against them.
    """

    def __init__(self, states: HostStates, policy: Policy) -> None:
        self.states = states
        self.policy = policy
        self.size = states.size
        self.classes = sorted(states.resources)
        columns = [states.resources[rc] for rc in self.classes]
        self.capacity = np.zeros((self.size, len(columns)), dtype=np.int64)
        self.free = np.zeros_like(self.capacity)
        self.provided: dict[int, ProviderLoad] = {}
        for number, column in enumerate(columns):
            if column.providers is not None:
                self.provided[number] = ProviderLoad(column.providers)
                self.capacity[:, number], self.free[:, number] = column.providers.sums()
                continue
            self.capacity[:, number] = np.floor(column.capacity)
            self.free[:, number] = self.capacity[:, number] - column.used
        #: True if an item takes a class of ``provided``: then counts by node are not exact.
        self.mixed = False
        self.host_of = states.host_of
        self.open = np.ones(self.size, dtype=bool)
        self.candidates: list[tuple[MigrationCandidate, ...]] = []
        self.groups: list[tuple[int, ...]] = []
        self.label: list[tuple[str, str]] = []
        self.at = np.zeros(0, dtype=np.int64)
        self.need = np.zeros((0, len(columns)), dtype=np.int64)
        self.kind = np.zeros(0, dtype=np.int64)
        self.masks = np.zeros((0, self.size), dtype=bool)
        self.needs = np.zeros((0, len(columns)), dtype=np.int64)
        self.changing: set[str] = set()
        #: True if proofs do not hold: a destination was excluded, or items keep allocations that
        #: proofs neglect.
        self.bent = False
        #: The number of members of each anti-affinity group on each host, and the maximum for a
        #: host.
        self.count: list[HostCounts] = []
        self.most: list[int] = []
        self._group_of: dict[str, int] = {}
        self._kinds: dict[tuple[tuple[int, ...], bool, tuple[str, ...]], int] = {}
        self._static: dict[str, BoolArray] = {}
        #: The kind and the need of items that are alike. The candidates of an item keep the objects
        #: of these ids alive.
        self._known: dict[
            tuple[int, tuple[int, tuple[str, ...]] | None, str | None], tuple[int, list[int]]
        ] = {}

    def add(self, units: Iterable[tuple[MigrationCandidate, ...]]) -> list[int]:
        """Add an item for each tuple of candidates that go together; return the items."""
        first = len(self.candidates)
        at: list[int] = []
        need: list[list[int]] = []
        kind: list[int] = []
        for candidates in units:
            one = candidates[0]
            same = None
            if len(candidates) == 1 and one.common is not None and not self.provided:
                same = id(one.common), one.limits_key, self._affinity_group(one.spec)
            known_kind = self._known.get(same) if same is not None else None
            if known_kind is None:
                known_kind = self._kind_of(candidates)
                if same is not None:
                    self._known[same] = known_kind
            number, amounts = known_kind
            self.candidates.append(candidates)
            self.label.append((candidates[0].spec.name, candidates[0].spec.key))
            self.groups.append(self._groups(candidates[0]) if len(candidates) == 1 else ())
            at.append(candidates[0].source)
            need.append(amounts)
            kind.append(number)
        self.at = np.concatenate([self.at, np.array(at, dtype=np.int64)])
        if need:
            self.need = np.concatenate([self.need, np.array(need, dtype=np.int64)])
        self.kind = np.concatenate([self.kind, np.array(kind, dtype=np.int64)])
        return list(range(first, len(self.candidates)))

    def _kind_of(self, candidates: tuple[MigrationCandidate, ...]) -> tuple[int, list[int]]:
        """Return the kind of a new item and its need; add the kind if it is new."""
        amounts = [
            sum(candidate.spec.resources.get(rc, 0) for candidate in candidates)
            for rc in self.classes
        ]
        unknown = any(
            rc not in self.states.resources
            for candidate in candidates
            for rc in candidate.spec.resources
        )
        masks = [self._mask_key(candidate) for candidate in candidates]
        if self.provided:
            self._add_providers(len(self.candidates), candidates, amounts, set(masks))
        key = (tuple(amounts), unknown, tuple(sorted(set(masks))))
        if key not in self._kinds:
            self._kinds[key] = len(self.masks)
            keep = np.full(self.size, not unknown)
            for each in set(masks):
                keep = keep & self._static[each]
            self.masks = np.vstack([self.masks, keep[None]])
            self.needs = np.vstack([self.needs, np.array([amounts], dtype=np.int64)])
        return self._kinds[key], amounts

    def fits(self, item: int, rows: IntArray | None = None) -> BoolArray:
        """Return a bool array over the nodes: True if an item may go there and fits now. An item
        never fits on its present host.

        :param rows: only these nodes; None for all.
        """
        keep = self.has_room(item, rows)
        if self.at[item] >= 0:
            keep &= (self.host_of if rows is None else self.host_of[rows]) != self.host_of[
                self.at[item]
            ]
        return keep

    def has_room(self, item: int, rows: IntArray | None = None) -> BoolArray:
        """Return a bool array over the nodes: as fits(), but True for the present host of the item
        too if the item fits there once more.
        """
        kind = self.kind[item]
        keep = self.room_for(kind, rows)
        for number, load in self.provided.items():
            if self.needs[kind][number]:
                fits = load.fits(item, self.needs[kind][number], self.at[item])
                keep &= fits if rows is None else fits[rows]
        for group in self.groups[item]:
            keep &= self.apart(group) if rows is None else self.apart(group)[rows]
        return keep

    def room_for(self, kind: int, rows: IntArray | None = None) -> BoolArray:
        """Return a bool array over the nodes: True if items of a kind may go there and fit now,
        without regard to server groups and shared providers.
        """
        keep: BoolArray = (
            self.masks[kind] & self.open
            if rows is None
            else self.masks[kind, rows] & self.open[rows]
        )
        free, need = self.free if rows is None else self.free[rows], self.needs[kind]
        # Class by class: all(axis=1) of a table with so few columns takes ten times as long.
        for number in range(len(need)):
            if number not in self.provided or not need[number]:
                keep &= free[:, number] >= need[number]
        return keep

    def apart(self, group: int) -> BoolArray:
        """Return a bool array over the nodes: True if their host may have one more member of an
        anti-affinity group.
        """
        found: BoolArray = (self.count[group].by_host() < self.most[group])[self.host_of]
        return found

    def lacking(self, item: int, rows: IntArray | Sequence[int]) -> IntArray:
        """Return the amount of each class that is missing on nodes for an item (rows x classes)."""
        short: IntArray = (self.need[item] - self.free[rows]).clip(min=0)
        for number, load in self.provided.items():
            if self.need[item][number]:
                short[:, number] = load.lacking(item, self.need[item][number], self.at[item])[rows]
        return short

    @property
    def load(self) -> Load:
        """The load itself, not a copy: it can be set again later, and changes with this
        PackingState.
        """
        return self.free, self.provided, self.count, self.open

    @load.setter
    def load(self, load: Load) -> None:
        self.free, self.provided, self.count, self.open = load

    def copy_of_load(self) -> Load:
        """Return an independent copy of the load."""
        provided = {number: load.copy() for number, load in self.provided.items()}
        return self.free.copy(), provided, [count.copy() for count in self.count], self.open.copy()

    def put(self, item: int, node: int) -> None:
        """Count an item on a node; it also counts on its former node."""
        self._count_need(item, node, -1, self.at[item])
        for group in self.groups[item]:
            self.count[group].add(self.host_of[node], 1)

    def take(self, item: int, node: int) -> None:
        """Undo put()."""
        self._count_need(item, node, 1, self.at[item])
        self._leave_groups(item, node)

    def put_all(self, placed: Mapping[int, int]) -> None:
        for item, node in placed.items():
            self.put(item, node)

    def take_all(self, placed: Mapping[int, int]) -> None:
        for item, node in placed.items():
            self.take(item, node)

    @contextlib.contextmanager
    def closed(self, rows: Sequence[int] | IntArray) -> Iterator[None]:
        """Close nodes that are open; inside, nothing fits there."""
        self.open[rows] = False
        try:
            yield
        finally:
            self.open[rows] = True

    def move(self, item: int, node: int) -> None:
        """Put an item on a node and take it from its former node."""
        self.put(item, node)
        self._count_need(item, self.at[item], 1, node)
        self._leave_groups(item, self.at[item])
        self.at[item] = node

    def _leave_groups(self, item: int, node: int) -> None:
        for group in self.groups[item]:
            self.count[group].add(self.host_of[node], -1)

    def _count_need(self, item: int, node: int, sign: int, other: int) -> None:
        """Add an item's need to the free capacity of a node, or subtract it (``sign``); the item
        also counts on another node (-1 for none).
        """
        if not self.provided:
            self.free[node] += sign * self.need[item]
            return
        for number in np.flatnonzero(self.need[item]).tolist():
            amount, load = self.need[item, number], self.provided.get(number)
            if load is None:
                self.free[node, number] += sign * amount
                continue
            for rows, change in (
                load.put(item, node, amount, other) if sign < 0 else load.take(item, node, other)
            ):
                self.free[rows, number] += change

    def _add_providers(
        self,
        item: int,
        candidates: tuple[MigrationCandidate, ...],
        amounts: list[int],
        masks: set[str],
    ) -> None:
        """Record the providers of a new item; set an amount to 0 if the item keeps it at each of
        its destinations.
        """
        keep = np.ones(self.size, dtype=bool)
        for each in masks:
            keep &= self._static[each]
        source = candidates[0].source
        for number, load in self.provided.items():
            if not amounts[number]:
                continue
            if source >= 0:
                load.begin(
                    item,
                    source,
                    [
                        part
                        for candidate in candidates
                        for part in self._allocations_on_source(
                            load, candidate, self.classes[number]
                        )
                    ],
                )
            kept, lent = load.keeping(item, source), load.providers.row[load.providers.lent]
            if keep.any() and kept[keep].all():
                amounts[number] = 0
                continue
            self.mixed = True
            # Proofs neglect that amounts may be kept, and that the candidates of one item may use
            # different providers.
            self.bent |= bool(keep[lent].any()) or len(candidates) > 1

    def _allocations_on_source(
        self, load: ProviderLoad, candidate: MigrationCandidate, rc: str
    ) -> list[Part]:
        """Return the allocations of a class that an instance has on its source node."""
        allocations = self.states.holding(candidate.source, candidate.spec)
        return [
            (load.providers.number_of[uuid], amounts[rc])
            for uuid, amounts in allocations.items()
            if rc in amounts and uuid in load.providers.number_of
        ]

    def in_the_way(self, item: int, node: int, on_node: Sequence[int]) -> list[int] | None:
        """Return the items that must leave a node because of an item's server group; None if
        ``on_node`` has too few of them.
        """
        leaving: list[int] = []
        host = self.host_of[node]
        for group in self.groups[item]:
            over = self.count[group][host] - self.most[group] + 1
            if over > 0:
                members = sorted(other for other in on_node if group in self.groups[other])
                if len(members) < over:
                    return None
                leaving.extend(members[:over])
        return sorted(set(leaving))

    def _mask_key(self, candidate: MigrationCandidate) -> str:
        spec = candidate.spec
        parts = (
            tuple(sorted(spec.resources.items())),
            spec.availability_zone,
            spec.ignore_nodes,
            self._affinity_group(spec),
            spec.flavor,
            spec.own_specs,
            spec.image,
            spec.project,
            spec.host_request,
            candidate.limits_key,
        )
        key = repr(parts)
        if key not in self._static:
            self._static[key] = self._static_mask(candidate)
        return key

    def rejections(self, item: int) -> dict[int, Rejection]:
        """Return the rule that rejects each forbidden node of an item, by row; the first of several
        rules. The item has one candidate.
        """
        (candidate,) = self.candidates[item]
        unexplained = ~self.masks[self.kind[item]]
        by_row: dict[int, Rejection] = {}
        if not unexplained.any():
            return by_row
        for name, keep, reason in self._rules(candidate, self._filtering(candidate)):
            by_row.update(
                (row, Rejection(name, reason(row)))
                for row in np.flatnonzero(unexplained & ~keep).tolist()
            )
            unexplained &= keep
        return by_row

    def _filtering(self, candidate: MigrationCandidate) -> Filtering:
        return Filtering(self.states, candidate.spec, self.policy, candidate.limits)

    def _static_mask(self, candidate: MigrationCandidate) -> BoolArray:
        filtering = self._filtering(candidate)
        keep = np.ones(self.size, dtype=bool)
        for _name, mask, _reason in self._rules(candidate, filtering):
            keep &= mask
        for host_filter in filtering.filters:
            if host_filter.run_filter_once_per_request:
                continue
            if isinstance(host_filter, AggregateCapacityFilter) or not (
                isinstance(host_filter, KEPT) or host_filter.not_applicable(candidate.spec)
            ):
                self.changing.add(host_filter.name)
        return keep

    def _rules(self, candidate: MigrationCandidate, filtering: Filtering) -> Iterator[Rule]:
        """Yield the rules for a candidate that do not depend on placed items."""
        spec = candidate.spec
        for name, keep in filtering.before:
            yield name, keep, partial(filtering.reason, name)
        by_class = {
            each.resource_class: each
            for each in filtering.filters
            if isinstance(each, CapacityFilter)
        }
        for rc, amount in spec.resources.items():
            room = by_class.get(rc) or ClassFilter(rc)
            keep = (
                self.states.resources[rc].allowed(amount)
                if rc in self.states.resources
                else np.zeros(self.size, dtype=bool)
            )
            yield room.name, keep, partial(room.reason, self.states, spec)
        for host_filter in filtering.filters:
            if host_filter.run_filter_once_per_request:
                yield (
                    host_filter.name,
                    ask_filter(host_filter, self.states, spec),
                    partial(host_filter.reason, self.states, spec),
                )
        group = self.states.group_of(spec)
        if group is not None and group.policy == "affinity":
            elsewhere = group.per_host.by_host()
            if candidate.source >= 0:
                elsewhere[self.host_of[candidate.source]] = 0
            if elsewhere.any():
                yield (
                    ServerGroupAffinityFilter.name,
                    (elsewhere > 0)[self.host_of],
                    lambda row: f"its server group {group.name} is on other hosts",
                )

    def _affinity_group(self, spec: RequestSpec) -> str | None:
        group = self.states.group_of(spec)
        return group.name if group is not None and group.policy == "affinity" else None

    def _groups(self, candidate: MigrationCandidate) -> tuple[int, ...]:
        """Return the numbers of the anti-affinity groups of a candidate: none or one."""
        group = self.states.group_of(candidate.spec)
        if group is None or group.policy != "anti-affinity":
            return ()
        if group.name not in self._group_of:
            self._group_of[group.name] = len(self.most)
            self.count.append(group.per_host.copy())
            self.most.append(group.max_server_per_host)
        return (self._group_of[group.name],)

    def forbid(self, item: int, node: int) -> None:
        """Exclude a node for an item, even if its mask allows it."""
        self.bent = True
        kind = self.kind[item]
        keep = self.masks[kind].copy()
        keep[node] = False
        self.masks = np.vstack([self.masks, keep[None]])
        self.needs = np.vstack([self.needs, self.needs[kind][None]])
        self.kind[item] = len(self.masks) - 1
