# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Allocation candidates as Placement answers them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from ..._common.arrays import BoolArray, IntArray, np
from ..._records.claims import Resources
from ..._store.database import bulk
from ..._store.database.sql import Connection
from ..._store.hosts import compute_nodes
from ..._store.providers import provider_arrays
from ..._store.providers.provider_arrays import ProviderArrays
from .. import classes_and_traits
from . import search
from .query import Query
from .viable import Slot


class AllocationRequest(TypedDict):
    """A way to meet a query.

    allocations: {provider uuid: {"resources": amounts}}; mappings: {suffix of a group: provider
    uuids}.
    """

    allocations: dict[str, dict[str, Resources]]
    mappings: dict[str, list[str]]


class ProviderSummary(TypedDict):
    """A provider of a tree that something would be taken from; resources: {class: {capacity,
    used}}.
    """

    name: str
    resources: dict[str, dict[str, int]]
    traits: list[str]
    parent_provider_uuid: str | None
    root_provider_uuid: str


class CandidatesResponse(TypedDict):
    """An answer of Placement; the summaries are by the uuids of the providers."""

    allocation_requests: list[AllocationRequest]
    provider_summaries: dict[str, ProviderSummary]


def answer(connection: Connection, query: Query) -> CandidatesResponse:
    """Find every way to meet a query with the providers of the store.

    :raises DroverError: the query names a class or a trait that does not exist.
    """
    with bulk.without_collection():
        read = read_providers(connection, query)
        rows = search.find(read, query)
        slots = search.slots(query)
        touched = _touched(read, rows, slots)
        rest, traits = (
            provider_arrays.read_rest(connection, read, touched) if len(rows) else ({}, [])
        )
        return {
            "allocation_requests": requests(read, rows, slots),
            "provider_summaries": _summaries(read, touched, rest, traits),
        }


def read_providers(connection: Connection, query: Query) -> ProviderArrays:
    """Read the providers that decide a query.

    :raises DroverError: the query names a class or a trait that does not exist.
    """
    arrays = provider_arrays.read(connection, query.classes(), query.traits(), query.aggregates())
    check(query, arrays)
    gone = compute_nodes.unreported(connection)
    if gone:
        arrays.gone = np.array([uuid in gone for uuid in arrays.uuids], dtype=bool)
    return arrays


def check(query: Query, arrays: ProviderArrays) -> None:
    """Refuse a query with a class or a trait that does not exist.

    :raises DroverError: naming the key and the name.
    """
    classes_and_traits.check_stored(
        classes_and_traits.RESOURCE_CLASS, query.classes(), arrays.class_ids
    )
    classes_and_traits.check_stored(classes_and_traits.TRAIT, query.traits(), arrays.trait_ids)


def requests(
    topology: ProviderArrays, rows: IntArray, slots: Sequence[Slot]
) -> list[AllocationRequest]:
    """Describe the rows of search.find()."""
    uuids = topology.uuids
    if slots and not any(slot.suffix for slot in slots) and (rows == rows[:, :1]).all():
        # A single provider has everything, as on a flat fleet.
        wanted = {name: amount for slot in slots for name, amount in slot.resources.items()}
        return [
            {"allocations": {uuid: {"resources": wanted.copy()}}, "mappings": {"": [uuid]}}
            for uuid in map(uuids.__getitem__, rows[:, 0].tolist())
        ]
    request_list: list[AllocationRequest] = []
    plan = [(slot.suffix, list(slot.resources.items())) for slot in slots]
    several = sum(not slot.suffix for slot in slots) > 1
    for row in rows.tolist():
        allocations: dict[str, dict[str, Resources]] = {}
        mappings: dict[str, list[str]] = {}
        for place, (suffix, resources) in zip(row, plan):
            uuid = uuids[place]
            if suffix in mappings:
                if uuid not in mappings[suffix]:
                    mappings[suffix].append(uuid)
            else:
                mappings[suffix] = [uuid]
            if resources:
                taken = allocations.setdefault(uuid, {"resources": {}})["resources"]
                for name, amount in resources:
                    taken[name] = taken.get(name, 0) + amount
        if several:
            mappings[""].sort()
        request_list.append({"allocations": allocations, "mappings": mappings})
    return request_list


def _touched(topology: ProviderArrays, rows: IntArray, slots: Sequence[Slot]) -> BoolArray:
    """Return the providers of all trees that something is taken from."""
    roots = np.zeros(topology.size, dtype=bool)
    for number, slot in enumerate(slots):
        if slot.resources:
            roots[topology.roots[rows[:, number]]] = True
    return roots[topology.roots]


def _summaries(
    topology: ProviderArrays,
    touched: BoolArray,
    rest: Mapping[str, tuple[Any, ...]],
    traits: Sequence[list[str]],
) -> dict[str, ProviderSummary]:
    """Describe the providers of a mask.

    :param rest: see provider_arrays.read_rest(), as for traits.
    """
    uuids, names = topology.uuids, topology.names
    places = np.flatnonzero(touched).tolist()
    shown: dict[int, dict[str, dict[str, int]]] = {}
    by_uuid: dict[str, ProviderSummary] = {}
    for place, parent, root in zip(
        places, topology.parents[touched].tolist(), topology.roots[touched].tolist()
    ):
        resources: dict[str, dict[str, int]] = {}
        shown[place] = resources
        by_uuid[uuids[place]] = {
            "name": names[place],
            "resources": resources,
            "traits": traits[place],
            "parent_provider_uuid": uuids[parent] if parent >= 0 else None,
            "root_provider_uuid": uuids[root],
        }
    columns = {
        name: (each.places, each.capacity, each.used) for name, each in topology.inventories.items()
    }
    columns.update(rest)
    for name, (where, capacity, used) in sorted(columns.items()):
        mine = touched[where]
        for place, most, now in zip(
            where[mine].tolist(), capacity[mine].tolist(), used[mine].tolist()
        ):
            shown[place][name] = {"capacity": most, "used": now}
    return by_uuid
