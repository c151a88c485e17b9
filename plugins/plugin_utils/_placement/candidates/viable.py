# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The providers that can serve a slot of a query, and their anchors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..._common.arrays import BoolArray, IntArray, np
from ..._records.claims import Resources
from ..._store.providers.provider_arrays import ProviderArrays
from .query import Query, RequestGroup


@dataclass
class Slot:
    """The resources that one provider gives to the group with this suffix."""

    suffix: str
    resources: Resources


@dataclass
class Option:
    """Pairs of an anchor and a provider that can serve one slot there, in order."""

    anchors: IntArray
    places: IntArray


def options(topology: ProviderArrays, query: Query) -> list[Option] | None:
    """Return the options of each slot of a query, or None if a slot has none."""
    allowed = _roots(topology, query)
    viable = []
    for suffix, group in query.groups.items():
        tree = _tree(topology, group)
        if tree is None:
            return None
        parts: Sequence[Option | None] = (
            [_one_provider(topology, group, tree)] if suffix else _spread(topology, group, tree)
        )
        for part in parts:
            if part is None:
                return None
            if allowed is not None:
                kept = allowed[part.anchors]
                part = Option(part.anchors[kept], part.places[kept])
            if not len(part.places):
                return None
            viable.append(part)
    return viable


def _roots(topology: ProviderArrays, query: Query) -> BoolArray | None:
    """Return which roots may be anchors; None for all."""
    if not query.root_required and not query.root_forbidden and topology.gone is None:
        return None
    allowed = np.ones(topology.size, dtype=bool) if topology.gone is None else ~topology.gone
    for trait in query.root_required:
        allowed &= topology.traits[trait]
    for trait in query.root_forbidden:
        allowed &= ~topology.traits[trait]
    return allowed


def _tree(topology: ProviderArrays, group: RequestGroup) -> int | None:
    """Return the root of the tree that in_tree names; -1 without in_tree, None if there is no such
    provider.
    """
    if group.in_tree is None:
        return -1
    if group.in_tree not in topology.uuids:
        return None
    return int(topology.roots[topology.uuids.index(group.in_tree)])


def _one_provider(topology: ProviderArrays, group: RequestGroup, tree: int) -> Option | None:
    """Return the providers that have all of a group with a suffix."""
    good = np.ones(topology.size, dtype=bool)
    for name, amount in group.resources.items():
        inventory = topology.inventories.get(name)
        if inventory is None:
            return None
        has = np.zeros(topology.size, dtype=bool)
        has[inventory.places[inventory.fits(amount)]] = True
        good &= has
    if not group.resources:
        # As in Placement, such a group is met by any provider with the required traits and
        # aggregates, in any tree.
        tree = -1
        if not group.required and not group.member_of:
            return None
    for choice in group.required:
        good &= having(topology, choice)
    for trait in group.forbidden:
        good &= ~topology.traits[trait]
    for choice in group.member_of:
        good &= _within(topology, choice)
    if group.outside:
        good &= ~_within(topology, group.outside)
    if tree >= 0:
        good &= topology.roots == tree
    return Option(*topology.serving(np.flatnonzero(good), good))


def _spread(topology: ProviderArrays, group: RequestGroup, tree: int) -> Sequence[Option | None]:
    """Return an option for each class of the group without a suffix."""
    inside, outside = None, None
    if group.member_of:
        inside = np.ones(topology.size, dtype=bool)
        for choice in group.member_of:
            inside &= _within(topology, choice)
    if group.outside:
        outside = _within(topology, group.outside)
    choices = []
    for name, amount in group.resources.items():
        inventory = topology.inventories.get(name)
        if inventory is None:
            return [None]
        places = inventory.places[inventory.fits(amount)]
        for trait in group.forbidden:
            places = places[~topology.traits[trait][places]]
        if tree >= 0:
            places = places[topology.roots[places] == tree]
        lent = None
        if topology.reached and tree < 0:
            # A sharing provider must be in the aggregates itself; for a provider in its own tree,
            # the aggregates of the root count.
            lent = np.zeros(topology.size, dtype=bool)
            lent[places] = True
            if inside is not None:
                lent &= inside
        pairs = Option(*topology.serving(places, lent))
        # An aggregate of the root is one of the whole tree.
        if inside is not None:
            kept = inside[pairs.places] | inside[pairs.anchors]
            pairs = Option(pairs.anchors[kept], pairs.places[kept])
        if outside is not None:
            kept = ~(outside[pairs.places] | outside[pairs.anchors])
            pairs = Option(pairs.anchors[kept], pairs.places[kept])
        choices.append(pairs)
    return choices


def having(topology: ProviderArrays, choice: Iterable[str]) -> BoolArray:
    """Return which providers have any of the traits."""
    mask = np.zeros(topology.size, dtype=bool)
    for trait in choice:
        mask |= topology.traits[trait]
    return mask


def _within(topology: ProviderArrays, choice: Iterable[str]) -> BoolArray:
    """Return which providers are in any of the aggregates."""
    mask = np.zeros(topology.size, dtype=bool)
    for uuid in choice:
        mask |= topology.aggregates[uuid]
    return mask
