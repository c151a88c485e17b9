# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way from requests to selections.

The scheduler gets plain columns and knows no database. The store knows no scheduler. This module
connects them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .._common import spec_names
from .._common.arrays import BoolArray
from .._numa import stored_hosts
from .._placement import provider_uuids
from .._placement.candidates import batch, query, response
from .._records.claims import Allocations, Selection
from .._records.hosts import FleetColumns
from .._records.instances import InstanceAmounts, PlannedInstance
from .._scheduler import drivers
from .._scheduler.host_states import DeviceCandidates, HostStates
from .._scheduler.policy import Policy
from .._scheduler.request_fields import is_line
from .._scheduler.request_spec import RequestSpec
from .._store.database import bulk
from .._store.engine import Connection
from .._store.hosts.host_columns import ALL, RESOURCE_CLASSES, ColumnQuery, read_columns
from .._store.instances.flavors import read_flavors
from .._store.instances.images import read_images
from .._store.instances.instances_for_plans import read_amounts, read_instances
from .._store.instances.migrations_open import note_open_resizes
from .._store.providers.provider_arrays import ProviderArrays


def read_specs(
    connection: Connection, requests: Iterable[Any], policy: Policy | None = None
) -> list[RequestSpec]:
    """Make specs of request mappings.

    Flavors and images by name come from the store, names of PCI devices from the policy.

    :raises RequestError: a malformed request; the message has the key and the expected value.
    """
    flavors, images = _names_in_requests(requests, "flavor"), _names_in_requests(requests, "image")
    of_store = (
        read_flavors(connection, flavors) if flavors else None,
        read_images(connection, images) if images else None,
    )
    aliases = policy.aliases if policy is not None else None
    return [
        spec
        for request in requests
        for spec in RequestSpec.expand(request, *of_store, aliases=aliases)
    ]


def refuse_unknown(requests: Iterable[Any]) -> None:
    """Refuse extra specs and image properties without effect in requests of people.

    :raises DroverError: such a name; the message also has the nearest name with an effect.
    """
    for each in requests:
        name = each.get("name") if isinstance(each, dict) else None
        spec_names.refuse_unknown_of_request(each, f"Request {name}" if name else "A request")


def _names_in_requests(requests: Iterable[Any], key: str) -> set[str]:
    return {
        request[key]
        for request in requests
        if isinstance(request, dict) and is_line(request.get(key))
    }


def read_states(
    connection: Connection,
    specs: Sequence[RequestSpec],
    policy: Policy,
    now: float,
    service_down_time: float = 0,
) -> HostStates:
    """Read the host states that these specs and this policy need, in a fixed number of queries.

    :raises DroverError: a spec has a resource class that does not exist.
    """
    columns = read_all_columns(connection, now, service_down_time, columns_for_specs(specs, policy))
    states = HostStates(columns)
    states.provider_capacity = provider_capacity(specs, states, columns["provider_arrays"])
    return states


def columns_for_specs(specs: Sequence[RequestSpec], policy: Policy) -> ColumnQuery:
    """Return the columns of the store that these specs and this policy need."""
    instances, groups = (
        {spec.key for spec in specs},
        {spec.server_group.name for spec in specs if spec.server_group is not None},
    )
    columns = ColumnQuery(columns=policy.needs(specs), instances=instances, groups=groups)
    for spec in specs:
        columns.classes.update(spec.resources)
        for group in spec.groups:
            columns.provider_traits.update(group.required, group.forbidden)
        for hint in ("same_host", "different_host"):
            instances.update(spec.hints.get(hint, ()))
    return columns


def columns_for_moves(
    instances: Sequence[PlannedInstance | InstanceAmounts], policy: Policy, whole: bool = False
) -> ColumnQuery:
    """Return the columns of the store for a plan that moves these instances.

    :param whole: True if these are all instances; then they are not read again.
    """
    different = {
        (*RequestSpec.likeness(each), bool(each.get("server_group"))): each for each in instances
    }
    columns = policy.needs(RequestSpec.from_instance(each) for each in different.values())
    if any(each.get("required_traits") for each in instances):
        columns = {*columns, "traits"}
    of_pools = {
        each.partition(":")[2]
        for instance in instances
        for each in instance.get("required_pool_traits") or ()
    }
    if of_pools:
        columns = {*columns, "pool_traits"}
    return ColumnQuery(
        columns=columns,
        instances=list(instances) if whole else ALL,
        groups=ALL,
        classes=classes_of(instances),
        provider_traits=of_pools,
    )


def classes_of(instances: Iterable[PlannedInstance | InstanceAmounts]) -> set[str]:
    """Return the resource classes of the resources that instances hold."""
    return {name for each in instances for name in each.get("resources") or ()}


def read_fleet(
    connection: Connection,
    instances: Sequence[PlannedInstance],
    policy: Policy,
    now: float,
    service_down_time: float = 0,
) -> FleetColumns:
    """Read the columns of the fleet for a plan that moves these instances."""
    return read_all_columns(
        connection, now, service_down_time, columns_for_moves(instances, policy)
    )


def read_whole_fleet(
    connection: Connection, policy: Policy, now: float, service_down_time: float = 0
) -> tuple[FleetColumns, list[PlannedInstance]]:
    """Read the columns of the fleet and all instances, for a plan that may move any of them."""
    instances = read_instances(connection)
    note_open_resizes(connection, instances)
    return (
        read_all_columns(
            connection, now, service_down_time, columns_for_moves(instances, policy, whole=True)
        ),
        instances,
    )


def read_for_losses(
    connection: Connection,
    specs: Sequence[RequestSpec],
    policy: Policy,
    now: float,
    service_down_time: float = 0,
) -> tuple[FleetColumns, list[InstanceAmounts]]:
    """Read the columns and all amounts of instances, for the capacity after a loss of a host."""
    placed = read_amounts(connection)
    query = columns_for_specs(specs, policy)
    query.groups, query.instances = ALL, placed
    query.classes |= classes_of(placed)
    # Most instances have no requirement except their size.
    asking = columns_for_moves(
        [each for each in placed if each.get("extra_specs") or each.get("image")], policy
    )
    query.columns |= asking.columns
    query.provider_traits |= asking.provider_traits
    return read_all_columns(connection, now, service_down_time, query), placed


def read_all_columns(
    connection: Connection, now: float, service_down_time: float, wanted: ColumnQuery
) -> FleetColumns:
    """Read the columns of a query.

    The query may name ``numa``: the hosts in the form for the fit to cells and devices.
    """
    if "numa" not in wanted.columns:
        return read_columns(connection, now, service_down_time, wanted)
    columns = read_columns(
        connection,
        now,
        service_down_time,
        replace(wanted, columns=wanted.columns - {"numa"} | stored_hosts.COLUMNS),
    )
    columns["numa"] = stored_hosts.hosts_of(columns)
    return columns


def decide(
    connection: Connection,
    requests: Iterable[Mapping[str, object]],
    policy: Policy,
    now: float,
    service_down_time: float = 0,
    explain: bool = True,
) -> list[Selection]:
    """Make selections for requests, each with a uuid; see scheduler.filter_scheduler.schedule."""
    specs = read_specs(connection, requests, policy)
    if not specs:
        return []
    states = read_states(connection, specs, policy, now, service_down_time)
    selections = drivers.schedule(states, specs, policy, explain)
    for selection in selections:
        selection["uuid"] = selection["uuid"] or bulk.new_uuid()
    return selections


def provider_capacity(
    specs: Sequence[RequestSpec], states: HostStates, arrays: ProviderArrays
) -> ProviderCapacity | None:
    """Return the capacity of providers for specs.

    Return None if the columns of VCPU, MEMORY_MB and DISK_GB are enough.

    They are not enough for other classes or for groups of the extra specs, nor for a node that
    takes a class from nested providers or may choose between several.

    :param arrays: the arrays behind the columns of the states.
    :raises DroverError: a class or trait that the store does not have.
    """
    sure = set(RESOURCE_CLASSES) - states.choosing
    if not any(spec.groups or not sure.issuperset(spec.resources) for spec in specs):
        return None
    for spec in specs:
        response.check(_query(spec), arrays)
    return ProviderCapacity(batch.CandidateCapacity(arrays, states.uuid), sure, states)


class ProviderCapacity:
    """The ``provider_capacity`` of scheduler.host_states.HostStates.

    :param sure: the classes with sufficient columns.
    """

    def __init__(self, found: batch.CandidateCapacity, sure: set[str], states: HostStates) -> None:
        self._capacity, self._sure, self._states = found, sure, states
        self._keys: dict[int, dict[str, str]] = {}
        self._queries: dict[Any, query.Query] = {}

    def decides(self, resource_class: str, spec: RequestSpec) -> bool:
        """Return True if this capacity decides on a class for a spec, and not the column."""
        return resource_class not in self._sure or any(
            resource_class in dict(group.resources) for group in spec.groups
        )

    def fits(self, spec: RequestSpec, resource_class: str | None = None) -> BoolArray:
        """Return True for each node with room for all amounts of the request, or for one class."""
        return self._capacity.fits(self._query(spec, resource_class))

    def left(self, resource_class: str, node: int) -> tuple[int, int] | None:
        """Return (free, capacity) of the provider with most left of a class; None without one."""
        return self._capacity.most(resource_class, node)

    def choose(self, spec: RequestSpec, node: int) -> Allocations | None:
        """Return the allocations of an instance on a node; None if it does not fit."""
        return self._capacity.choose(self._query(spec, None), node)

    def candidates(self, spec: RequestSpec, node: int) -> Iterator[DeviceCandidates]:
        """Return the candidates on a node for a request for PCI devices, the best first."""
        if node not in self._keys:
            self._keys[node] = provider_uuids.keys_of(
                self._states.uuid[node], self._states.devices(node)
            )
        suffixes = [suffix for group in spec.host_request.device_groups for suffix in group]
        for candidate in self._capacity.candidates(self._query(spec, None), node):
            mappings = {suffix: candidate["mappings"][suffix] for suffix in suffixes}
            yield DeviceCandidates(
                batch.allocations_of(candidate),
                mappings,
                spec.host_request.on_providers(mappings, self._keys[node]),
            )

    def count(self, allocations: Allocations, sign: int) -> None:
        """Count allocations as used (1) or as free again (-1)."""
        self._capacity.count(allocations, sign)

    def _query(self, spec: RequestSpec, resource_class: str | None) -> query.Query:
        key = (
            tuple(sorted(spec.resources.items())),
            spec.groups,
            spec.group_policy,
            resource_class,
        )
        if key not in self._queries:
            self._queries[key] = _query(spec, resource_class)
        return self._queries[key]


def _query(spec: RequestSpec, resource_class: str | None = None) -> query.Query:
    """Return the query for candidates of a spec, for all classes or for one."""
    spread = dict(spec.resources)
    groups = {}
    for group in spec.groups:
        for name, amount in group.resources:
            spread[name] -= amount
        amounts = {name: n for name, n in group.resources if resource_class in (None, name)}
        if amounts:
            required = [frozenset([trait]) for trait in sorted(group.required)]
            groups[group.suffix] = query.RequestGroup(
                group.suffix, amounts, required, set(group.forbidden)
            )
    spread = {name: n for name, n in spread.items() if n and resource_class in (None, name)}
    if spread:
        groups = {"": query.RequestGroup("", spread), **groups}
    equal = [
        [suffix for suffix in suffixes if suffix in groups]
        for suffixes in spec.host_request.device_groups
    ]
    return query.Query(groups, spec.group_policy, equal_groups=equal)
