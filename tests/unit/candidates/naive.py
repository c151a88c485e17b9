# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Allocation candidates by trying all combinations, directly from the rules of N10.4.

The code takes the topology file itself, without arrays and without a store; it shares no code with
the engine that it judges.
"""

from __future__ import annotations

import itertools
import json

SHARES = "MISC_SHARES_VIA_AGGREGATE"


class Fleet:
    """A topology file with its uses counted."""

    def __init__(self, topology):
        self.providers = {each["name"]: each for each in topology["providers"]}
        self.used = {}
        for allocation in topology.get("allocations") or ():
            for name, resources in allocation["allocations"].items():
                for resource, amount in resources.items():
                    self.used[name, resource] = self.used.get((name, resource), 0) + amount

    def path(self, name):
        """Yield the provider and all above it."""
        names = [name]
        while self.providers[names[-1]]["parent"]:
            names.append(self.providers[names[-1]]["parent"])
        return names

    def root(self, name):
        return self.path(name)[-1]

    def uuids(self):
        return {each["uuid"] for each in self.providers.values()}

    def roots(self):
        return [name for name, each in self.providers.items() if not each["parent"]]

    def traits(self, name):
        return set(self.providers[name]["traits"])

    def aggregates(self, name):
        return set(self.providers[name]["aggregates"])

    def serves(self, name, anchor):
        """Return True if a provider may be used for an anchor: it is in its tree, or shares with a
        provider there."""
        if self.root(name) == anchor:
            return True
        return SHARES in self.traits(name) and any(
            self.aggregates(name) & self.aggregates(other)
            for other in self.providers
            if self.root(other) == anchor
        )

    def room(self, name, resource, amount):
        inventory = self.providers[name]["inventories"].get(resource)
        if not inventory:
            return False
        capacity = (inventory["total"] - inventory["reserved"]) * inventory["allocation_ratio"]
        return (
            self.used.get((name, resource), 0) + amount <= capacity
            and inventory["min_unit"] <= amount <= inventory["max_unit"]
            and amount % inventory["step_size"] == 0
        )

    def together(self, name, resource, amount):
        """Return True if a sum fits; min_unit and step_size do not count."""
        inventory = self.providers[name]["inventories"][resource]
        capacity = (inventory["total"] - inventory["reserved"]) * inventory["allocation_ratio"]
        return (
            self.used.get((name, resource), 0) + amount <= capacity
            and amount <= inventory["max_unit"]
        )


def candidates(topology, query):
    """Return {candidate as JSON} of a query.Query; the limit does not count."""
    fleet = Fleet(topology)
    slots = []
    for suffix, group in query.groups.items():
        slots += (
            [(suffix, group.resources)]
            if suffix
            else [("", {k: v}) for k, v in group.resources.items()]
        )
    solutions = set()
    for anchor in fleet.roots():
        traits = fleet.traits(anchor)
        if query.root_required - traits or query.root_forbidden & traits:
            continue
        for names in itertools.product(fleet.providers, repeat=len(slots)):
            used = list(zip(slots, names))
            if holds(fleet, query, anchor, used):
                solutions.add(written(used))
    return solutions


def holds(fleet, query, anchor, used):
    by_suffix = {}
    for (suffix, resources), name in used:
        if not fleet.serves(name, anchor):
            return False
        if any(not fleet.room(name, resource, amount) for resource, amount in resources.items()):
            return False
        by_suffix.setdefault(suffix, []).append(name)
    for suffix, names in by_suffix.items():
        group = query.groups[suffix]
        if not (single if suffix else spread)(fleet, group, anchor, names):
            return False
    alone = [names[0] for suffix, names in by_suffix.items() if suffix]
    if query.group_policy == "isolate" and len(set(alone)) != len(alone):
        return False
    for suffixes in query.same_subtrees:
        names = {by_suffix[suffix][0] for suffix in suffixes}
        if not any(all(top in fleet.path(name) for name in names) for top in names):
            return False
    return all(
        fleet.together(name, resource, amount)
        for name, resources in json.loads(written(used))["allocations"].items()
        for resource, amount in resources.items()
    )


def spread(fleet, group, anchor, names):
    union = set().union(*(fleet.traits(name) for name in names))
    if union & group.forbidden or not all(choice & union for choice in group.required):
        return False
    for name in names:
        foreign = fleet.root(name) != anchor
        if group.in_tree and (foreign or group.in_tree not in tree_uuids(fleet, anchor)):
            return False
        mine, roots = fleet.aggregates(name), fleet.aggregates(anchor)
        inside = all(choice & mine for choice in group.member_of)
        if not inside and (foreign or not all(choice & roots for choice in group.member_of)):
            return False
        if group.outside & (mine | roots):
            return False
    return True


def single(fleet, group, anchor, names):
    name = names[0]
    traits, aggregates = fleet.traits(name), fleet.aggregates(name)
    if not group.resources and not group.required and not group.member_of:
        return False
    # Without resources the tree has no effect, as in Placement; but such a provider must exist.
    if group.in_tree and group.in_tree not in (
        tree_uuids(fleet, fleet.root(name)) if group.resources else fleet.uuids()
    ):
        return False
    return (
        all(choice & traits for choice in group.required)
        and not group.forbidden & traits
        and all(choice & aggregates for choice in group.member_of)
        and not group.outside & aggregates
    )


def tree_uuids(fleet, root):
    return {each["uuid"] for name, each in fleet.providers.items() if fleet.root(name) == root}


def written(used):
    """Return a candidate as the benchmarks write it: by names, sums by class."""
    allocations, mappings = {}, {}
    for (suffix, resources), name in used:
        mappings.setdefault(suffix, set()).add(name)
        for resource, amount in resources.items():
            taken = allocations.setdefault(name, {})
            taken[resource] = taken.get(resource, 0) + amount
    mappings = {suffix: sorted(names) for suffix, names in mappings.items()}
    return json.dumps({"allocations": allocations, "mappings": mappings}, sort_keys=True)
