# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room where columns of VCPU, MEMORY_MB and DISK_GB do not tell it: the candidates, for the scheduler.

Asked for other classes, for groups of the extra specs, and where nodes have a class in nested providers
or may choose between several. Only then is the topology read.
"""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.placement import query, rooms, topology


def is_needed(specs, columns):
    """Do the columns leave something open that these specs ask for?"""
    told = set(columns["resources"]) - set(columns["beyond"])
    return any(spec.groups or not told.issuperset(spec.resources) for spec in specs)


def read(connection, specs, columns, nodes):
    """The ExactRoom for specs.

    :param columns: of store.host_columns.
    :param nodes: provider uuids, in the order of the rows.
    :raises DroverError: a class or trait that the store does not have.
    """
    everything = query.Group()
    for spec in specs:
        for group in _query(spec).groups.values():
            everything.resources.update(group.resources)
            everything.required += group.required
            everything.forbidden |= group.forbidden
    found = topology.read(connection, query.Query({"": everything}))
    return ExactRoom(rooms.Rooms(found, nodes), set(columns["resources"]) - set(columns["beyond"]))


class ExactRoom:
    """What scheduler.host_states.HostStates asks as its ``rooms``.

    :param told: the classes that the columns tell all of.
    """

    def __init__(self, found, told):
        self._rooms, self._told = found, told
        self._queries = {}

    def decides(self, resource_class, spec):
        """Is this asked for a class, and not the column?"""
        return resource_class not in self._told or any(resource_class in dict(group.resources) for group in spec.groups)

    def fits(self, spec, resource_class=None):
        """bool array over the nodes: room for all that is asked, or for one class of it."""
        return self._rooms.fits(self._query(spec, resource_class))

    def left(self, resource_class, node):
        """(free, capacity) of the provider with most left of a class, None where the node has none."""
        return self._rooms.most(resource_class, node)

    def choose(self, spec, node):
        """{provider uuid: {class: amount}} that an instance would take on a node, None when it does not fit."""
        return self._rooms.choose(self._query(spec, None), node)

    def count(self, allocations, sign):
        """Count what was chosen as used (1), or as free again (-1)."""
        self._rooms.count(allocations, sign)

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
