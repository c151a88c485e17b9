# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute nodes and instances as arrays, for those who search for places."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.arrays import np
from ansible_collections.drover.compute.plugins.plugin_utils.planner.provider_load import ProviderLoad
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.capacity import AggregateCapacityFilter, CapacityFilter
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.filtering import Filtering, ask_filter
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.host_filters.server_group_affinity_filter import (
    ServerGroupAffinityFilter,
)
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.host_filters.server_group_anti_affinity_filter import (
    ServerGroupAntiAffinityFilter,
)

#: Host filters whose rule the board itself keeps, with every placing.
KEPT = (CapacityFilter, ServerGroupAntiAffinityFilter, ServerGroupAffinityFilter)


class PackingState:
    """n compute nodes with their room, and items that may be put on them.

    An item is an instance, or several that go to one node together. Room is counted in whole units
    as the claim counts it (N10.2): free = floor(capacity) - used. Of a class that a node takes from several
    providers, or from one that others take from too, it shows what is free on all of them; an amount must
    then fit on one (``provided``). A move between nodes that reach one sharing provider leaves there what it has
    there: an item that can only go to such nodes needs none of it.

    Public arrays: capacity, free (int64, n x classes); host_of (n); need (int64, items x classes);
    at (row of the node an item is on, -1 for nowhere); open (bool, n: may anything come here?); kind (number of the item's mask and need in
    masks and needs). Lists by item: candidates, groups, label. provided: {number of a class: ProviderLoad}.

    changing: the names of host filters whose answers may change with the load by rules that are not
    kept here; whoever has a plan asks them again.
    """

    def __init__(self, states, policy):
        self.states = states
        self.policy = policy
        self.size = states.size
        self.classes = sorted(states.resources)
        columns = [states.resources[rc] for rc in self.classes]
        self.capacity = np.zeros((self.size, len(columns)), dtype=np.int64)
        self.free = np.zeros_like(self.capacity)
        self.provided = {}
        for number, column in enumerate(columns):
            if column.providers is not None:
                self.provided[number] = ProviderLoad(column.providers)
                self.capacity[:, number], self.free[:, number] = column.providers.sums()
                continue
            self.capacity[:, number] = np.floor(column.capacity)
            self.free[:, number] = self.capacity[:, number] - column.used
        #: True when some item takes a class of ``provided``: to count node by node is not exact then.
        self.mixed = False
        self.host_of = states.host_of
        self.open = np.ones(self.size, dtype=bool)
        self.candidates, self.groups, self.label = [], [], []
        self.at = np.zeros(0, dtype=np.int64)
        self.need = np.zeros((0, len(columns)), dtype=np.int64)
        self.kind = np.zeros(0, dtype=np.int64)
        self.masks = np.zeros((0, self.size), dtype=bool)
        self.needs = np.zeros((0, len(columns)), dtype=np.int64)
        self.changing = set()
        #: True when a pair was forbidden for the moment: what follows proves nothing any more.
        self.bent = False
        self.group_names = []
        self._group_of, self.count, self.most = {}, [], []
        self._kinds, self._static, self._allowed = {}, {}, {}

    def add(self, groups_of_candidates):
        """Add items, each a tuple of MigrationCandidates that go together.

        :returns: the numbers of the new items.
        """
        first = len(self.candidates)
        at, need, kind = [], [], []
        for candidates in groups_of_candidates:
            amounts = [sum(candidate.spec.resources.get(rc, 0) for candidate in candidates) for rc in self.classes]
            unknown = any(rc not in self.states.resources for candidate in candidates for rc in candidate.spec.resources)
            masks = [self._mask_key(candidate) for candidate in candidates]
            if self.provided:
                self._begin(len(self.candidates), candidates, amounts, set(masks))
            key = (tuple(amounts), unknown, tuple(sorted(set(masks))))
            if key not in self._kinds:
                self._kinds[key] = len(self.masks)
                keep = np.full(self.size, not unknown)
                for each in set(masks):
                    keep = keep & self._static[each]
                self.masks = np.vstack([self.masks, keep[None]])
                self.needs = np.vstack([self.needs, np.array([amounts], dtype=np.int64)])
            self.candidates.append(candidates)
            self.label.append((candidates[0].spec.name, candidates[0].spec.key))
            self.groups.append(self._groups(candidates) if len(candidates) == 1 else ())
            at.append(candidates[0].source)
            need.append(amounts)
            kind.append(self._kinds[key])
        self.at = np.concatenate([self.at, np.array(at, dtype=np.int64)])
        if need:
            self.need = np.concatenate([self.need, np.array(need, dtype=np.int64)])
        self.kind = np.concatenate([self.kind, np.array(kind, dtype=np.int64)])
        return list(range(first, len(self.candidates)))

    def fits(self, item):
        """bool array: has the node room for an item now, and may it go there?

        Never the host that it is on.
        """
        kind = self.kind[item]
        room = self.free >= self.needs[kind]
        for number, load in self.provided.items():
            if self.needs[kind][number]:
                room[:, number] = load.fits(item, self.needs[kind][number], self.at[item])
        keep = self.masks[kind] & self.open & room.all(axis=1)
        for group in self.groups[item]:
            keep &= (self.count[group] < self.most[group])[self.host_of]
        if self.at[item] >= 0:
            keep &= self.host_of != self.host_of[self.at[item]]
        return keep

    def lacking(self, item, rows):
        """How much of each class is lacking until an item fits on nodes: int64 array, rows x classes."""
        short = (self.need[item] - self.free[rows]).clip(min=0)
        for number, load in self.provided.items():
            if self.need[item][number]:
                short[:, number] = load.lacking(item, self.need[item][number], self.at[item])[rows]
        return short

    @property
    def load(self):
        """What is on the nodes and which are open: a value that can be set again."""
        return self.free, self.provided, self.count, self.open

    @load.setter
    def load(self, load):
        self.free, self.provided, self.count, self.open = load

    def copy_of_load(self):
        """The same load, to be changed by itself."""
        provided = {number: load.copy() for number, load in self.provided.items()}
        return self.free.copy(), provided, [count.copy() for count in self.count], self.open.copy()

    def put(self, item, node):
        """Book an item on a node; where it was stays booked."""
        self._count(item, node, -1, self.at[item])
        for group in self.groups[item]:
            self.count[group][self.host_of[node]] += 1

    def take(self, item, node):
        """The opposite of put."""
        self._count(item, node, 1, self.at[item])
        self._leave_groups(item, node)

    def move(self, item, node):
        """Put an item on a node and take it from where it was."""
        self.put(item, node)
        self._count(item, self.at[item], 1, node)
        self._leave_groups(item, self.at[item])
        self.at[item] = node

    def _leave_groups(self, item, node):
        for group in self.groups[item]:
            self.count[group][self.host_of[node]] -= 1

    def _count(self, item, node, sign, other):
        """Count an item's room on a node that is, or stays, on another one as well (-1 for none)."""
        if not self.provided:
            self.free[node] += sign * self.need[item]
            return
        for number in np.flatnonzero(self.need[item]):
            amount, load = self.need[item, number], self.provided.get(number)
            if load is None:
                self.free[node, number] += sign * amount
                continue
            for rows, change in load.put(item, node, amount, other) if sign < 0 else load.take(item, node, other):
                self.free[rows, number] += change

    def _begin(self, item, candidates, amounts, masks):
        """Record which providers a new item holds classes of; set amounts to 0 that it keeps wherever it may go."""
        keep = np.ones(self.size, dtype=bool)
        for each in masks:
            keep &= self._static[each]
        source = candidates[0].source
        for number, load in self.provided.items():
            if not amounts[number]:
                continue
            if source >= 0:
                load.begin(item, source, [part for candidate in candidates for part in self._held(load, candidate, self.classes[number])])
            kept, lent = load.keeping(item, source), load.providers.row[load.providers.lent]
            if keep.any() and kept[keep].all():
                amounts[number] = 0
                continue
            self.mixed = True
            # What is kept counts for nothing in proofs, and an item of several needs not be on one provider.
            self.bent |= bool(keep[lent].any()) or len(candidates) > 1

    def _held(self, load, candidate, rc):
        """[(provider, amount)] that an instance holds of a class where it is."""
        held = self.states.holding(candidate.source, candidate.spec)
        return [
            (load.providers.number_of[uuid], amounts[rc])
            for uuid, amounts in held.items()
            if rc in amounts and uuid in load.providers.number_of
        ]

    def in_the_way(self, item, node, on_node):
        """Items on a node whose server group keeps an item away, None when too few of them can be named."""
        found = []
        host = self.host_of[node]
        for group in self.groups[item]:
            over = self.count[group][host] - self.most[group] + 1
            if over > 0:
                there = sorted(other for other in on_node if group in self.groups[other])
                if len(there) < over:
                    return None
                found.extend(there[:over])
        return sorted(set(found))

    def _mask_key(self, candidate):
        spec = candidate.spec
        key = (
            tuple(sorted(spec.resources.items())),
            spec.availability_zone,
            spec.ignore_nodes,
            spec.server_group.name if self._affinity(spec) else None,
            spec.flavor,
            spec.image,
            spec.project,
            candidate.limits_key,
        )
        key = repr(key)
        if key not in self._static:
            self._static[key] = self._static_mask(candidate)
        return key

    def _static_mask(self, candidate):
        filtering = Filtering(self.states, candidate.spec, self.policy, candidate.limits)
        keep = np.ones(self.size, dtype=bool)
        for _name, mask in filtering.before:
            keep &= mask
        for rc, amount in candidate.spec.resources.items():
            if rc in self.states.resources:
                keep &= self.states.resources[rc].allowed(amount)
        for each in filtering.filters:
            if each.run_filter_once_per_request:
                keep &= ask_filter(each, self.states, candidate.spec)
            elif isinstance(each, AggregateCapacityFilter) or not (isinstance(each, KEPT) or each.not_applicable(candidate.spec)):
                self.changing.add(each.name)
        if self._affinity(candidate.spec):
            group = self.states.group(candidate.spec.server_group.name)
            elsewhere = group.per_host.copy()
            if candidate.source >= 0:
                elsewhere[self.host_of[candidate.source]] = 0
            if elsewhere.any():
                keep &= (elsewhere > 0)[self.host_of]
        return keep

    def _affinity(self, spec):
        group = self.states.group(spec.server_group.name) if spec.server_group else None
        return group is not None and group.policy == "affinity"

    def _groups(self, candidates):
        request = candidates[0].spec.server_group
        group = self.states.group(request.name) if request else None
        if group is None or group.policy != "anti-affinity":
            return ()
        if request.name not in self._group_of:
            self._group_of[request.name] = len(self.most)
            self.group_names.append(request.name)
            self.count.append(group.per_host.astype(np.int64).copy())
            self.most.append(group.max_server_per_host)
        return (self._group_of[request.name],)

    def forbid(self, item, node):
        """An item may not go to a node, whatever its mask says."""
        self.bent = True
        kind = self.kind[item]
        keep = self.masks[kind].copy()
        keep[node] = False
        self.masks = np.vstack([self.masks, keep[None]])
        self.needs = np.vstack([self.needs, self.needs[kind][None]])
        self.kind[item] = len(self.masks) - 1
