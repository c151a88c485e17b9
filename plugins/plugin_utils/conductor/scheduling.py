# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From requests to selections: what the lookup schedule does, for whoever has a connection to the store.

The scheduler gets plain columns and knows no database; the store knows no scheduler. Here they meet.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils.placement.candidates import batch, query, response
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler import drivers
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.host_states import HostStates
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.request_fields import is_line
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.request_spec import RequestSpec
from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk
from ansible_collections.drover.compute.plugins.plugin_utils.store.flavors import read_flavors
from ansible_collections.drover.compute.plugins.plugin_utils.store.host_columns import (
    ALL,
    RESOURCE_CLASSES,
    ColumnQuery,
    read_columns,
)
from ansible_collections.drover.compute.plugins.plugin_utils.store.instances_for_plans import read_instances


def read_specs(connection, requests):
    """The specs of request mappings; flavors by name come from the store.

    :raises RequestError: naming the key and what was expected.
    """
    named = {request["flavor"] for request in requests if isinstance(request, dict) and is_line(request.get("flavor"))}
    flavors = read_flavors(connection, named) if named else None
    return [spec for request in requests for spec in RequestSpec.expand(request, flavors)]


def read_states(connection, specs, policy, now, service_down_time=0):
    """The host states that these specs and this policy need, in a fixed number of queries.

    :raises DroverError: they ask for a resource class that does not exist.
    """
    columns = read_columns(connection, now, service_down_time, columns_for_specs(specs, policy))
    states = HostStates(columns)
    states.provider_capacity = provider_capacity(specs, states, columns["provider_arrays"])
    return states


def columns_for_specs(specs, policy):
    """What of the store these specs and this policy look at."""
    found = ColumnQuery(columns=policy.needs(specs))
    for spec in specs:
        found.classes.update(spec.resources)
        for group in spec.groups:
            found.provider_traits.update(group.required, group.forbidden)
        found.instances.add(spec.key)
        for hint in ("same_host", "different_host"):
            found.instances.update(spec.hints.get(hint, ()))
        if spec.server_group is not None:
            found.groups.add(spec.server_group.name)
    return found


def columns_for_moves(instances, policy, whole=False):
    """What of the store a plan looks at that moves these instances (dicts of the store's read_host_instances).

    :param whole: whether these are all instances, which are not read again then.
    """
    specs = [RequestSpec.from_instance(each) for each in instances]
    columns = policy.needs(specs)
    if any(each.get("required_traits") for each in instances):
        columns = {*columns, "traits"}
    return ColumnQuery(columns=columns, instances=instances if whole else ALL, groups=ALL, classes=classes_of(instances))


def classes_of(instances):
    """The classes that instances hold (set)."""
    return {name for each in instances for name in each.get("resources") or ()}


def read_fleet(connection, instances, policy, now, service_down_time=0):
    """What a plan goes by that moves these instances (dicts as wanted_to_move() takes them): the columns of the fleet, and they."""
    return read_columns(connection, now, service_down_time, columns_for_moves(instances, policy)), instances


def read_whole_fleet(
    connection: Any, policy: Policy, now: float, service_down_time: int = 0
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a plan that may move any instance goes by: the same as of read_fleet(), of all instances."""
    instances = read_instances(connection)
    return read_columns(connection, now, service_down_time, columns_for_moves(instances, policy, whole=True)), instances


def decide(connection, requests, policy, now, service_down_time=0, explain=True):
    """Selections for request mappings, each with a uuid; see scheduler.filter_scheduler.schedule."""
    specs = read_specs(connection, requests)
    if not specs:
        return []
    states = read_states(connection, specs, policy, now, service_down_time)
    selections = drivers.schedule(states, specs, policy, explain)
    for selection in selections:
        selection["uuid"] = selection["uuid"] or bulk.new_uuid()
    return selections


def provider_capacity(specs, states, arrays):
    """The ExactRoom for specs, None where the columns of VCPU, MEMORY_MB and DISK_GB say all.

    They do not where other classes or groups of the extra specs are wanted, nor where a node takes a class from
    nested providers or may choose between several.

    :param arrays: store.provider_arrays.ProviderArrays that the columns of the states are made of.
    :raises DroverError: a class or trait that the store does not have.
    """
    sure = set(RESOURCE_CLASSES) - states.choosing
    if not any(spec.groups or not sure.issuperset(spec.resources) for spec in specs):
        return None
    for spec in specs:
        response.check(_query(spec), arrays)
    return ProviderCapacity(batch.CandidateCapacity(arrays, states.uuid), sure)


class ProviderCapacity:
    """What scheduler.host_states.HostStates asks as its ``provider_capacity``.

    :param sure: the classes of which the columns say all.
    """

    def __init__(self, found, sure):
        self._capacity, self._sure = found, sure
        self._queries = {}

    def decides(self, resource_class, spec):
        """Is this asked for a class, and not the column?"""
        return resource_class not in self._sure or any(resource_class in dict(group.resources) for group in spec.groups)

    def fits(self, spec, resource_class=None):
        """bool array over the nodes: where there is room for all amounts of the request, or for one class of them."""
        return self._capacity.fits(self._query(spec, resource_class))

    def left(self, resource_class, node):
        """(free, capacity) of the provider with most left of a class, None where the node has none."""
        return self._capacity.most(resource_class, node)

    def choose(self, spec, node):
        """{provider uuid: {class: amount}} that an instance would take on a node, None when it does not fit."""
        return self._capacity.choose(self._query(spec, None), node)

    def count(self, allocations, sign):
        """Count what was chosen as used (1), or as free again (-1)."""
        self._capacity.count(allocations, sign)

    def _query(self, spec, resource_class):
        key = (tuple(sorted(spec.resources.items())), spec.groups, spec.group_policy, resource_class)
        if key not in self._queries:
            self._queries[key] = _query(spec, resource_class)
        return self._queries[key]


def _query(spec, resource_class=None):
    """What a spec asks for, of all classes or of one, as a query for candidates."""
    spread = dict(spec.resources)
    groups = {}
    for each in spec.groups:
        for name, amount in each.resources:
            spread[name] -= amount
        wanted = {name: n for name, n in each.resources if resource_class in (None, name)}
        if wanted:
            required = [frozenset([trait]) for trait in sorted(each.required)]
            groups[each.suffix] = query.Group(each.suffix, wanted, required, set(each.forbidden))
    spread = {name: n for name, n in spread.items() if n and resource_class in (None, name)}
    if spread:
        groups = {"": query.Group("", spread), **groups}
    return query.Query(groups, spec.group_policy)
