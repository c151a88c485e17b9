# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventories of the whole fleet, added up by zone and resource class."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ..._common import capacity_rule
from ..._common.errors import natural
from ..database.sql import Connection, sa
from ..instances.instances_for_plans import read_zones
from ..schema import tables

#: The zone of resources in no zone, or of hosts in several zones.
NO_ZONE = ""


class ClassTotal(NamedTuple):
    """The amounts of a resource class in a zone, in its unit. capacity: (total - reserved) x ratio.
    free: on hosts that take instances.
    """

    zone: str
    resource_class: str
    capacity: float
    used: int
    free: float


def zone_of(names: Sequence[str]) -> str:
    """Return the zone that a host is counted in.

    :param names: its zones.
    """
    return names[0] if len(names) == 1 else NO_ZONE


def read(connection: Connection, taking: Collection[str]) -> list[ClassTotal]:
    """Add up the inventories of all providers, each once, sorted by zone and class.

    A provider is in the zone of the host of its tree. A sharing provider is in no zone.

    :param taking: the hosts that take instances.
    """
    providers, inventories, nodes, classes = (
        tables.resource_providers,
        tables.inventories,
        tables.compute_nodes,
        tables.resource_classes,
    )
    zones = {host: zone_of(names) for host, names in read_zones(connection).items()}
    root = sa.func.coalesce(providers.c.root_id, providers.c.id)
    trees = providers.alias()
    query = (
        sa.select(
            nodes.c.host,
            classes.c.name,
            sa.func.sum(
                capacity_rule.capacity(
                    inventories.c.total, inventories.c.reserved, inventories.c.allocation_ratio
                )
            ),
            sa.func.sum(inventories.c.used),
        )
        .select_from(inventories)
        .join(providers, providers.c.id == inventories.c.provider_id)
        .join(classes, classes.c.id == inventories.c.class_id)
        .join(trees, trees.c.id == root)
        .outerjoin(nodes, nodes.c.uuid == trees.c.uuid)
        # A node that is not reported has no room, as in host_columns.
        .where(sa.func.coalesce(nodes.c.reported, sa.true()))
        .group_by(nodes.c.host, classes.c.name)
    )
    sums_by_class: dict[tuple[str, str], list[float]] = {}
    for host, name, capacity, used in connection.execute(query):
        sums = sums_by_class.setdefault((zones.get(host, NO_ZONE), name), [0.0, 0, 0.0])
        sums[0] += float(capacity)
        sums[1] += int(used)
        if host is None or host in taking:
            sums[2] += max(0.0, float(capacity) - int(used))
    return [
        ClassTotal(zone, name, sums[0], int(sums[1]), sums[2])
        for (zone, name), sums in sorted(
            sums_by_class.items(), key=lambda each: (natural(each[0][0]), each[0][1])
        )
    ]
