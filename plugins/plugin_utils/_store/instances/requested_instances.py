# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The number of instances of each kind, and one instance of each kind with the parameters of its
request.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..database import bulk
from ..database.sql import Connection, Row, sa
from ..schema import tables

#: The columns that instances of one kind have in common. Names, server groups and users are not
#: among them.
_KIND = (
    "flavor",
    "vcpus",
    "memory_mb",
    "disk_gb",
    "availability_zone",
    "project",
    "extra_specs",
    "image",
    "image_name",
    "image_id",
    "image_format",
    "host_request",
)


def kinds(connection: Connection) -> list[tuple[str, int]]:
    """Count the instances on compute nodes by kind.

    :returns: (uuid of one, count) of each kind, in the order of these uuids.
    """
    table = tables.instances
    # A database compares texts, and PostgreSQL no JSON.
    columns = [
        (
            sa.cast(table.c[name], sa.Text)
            if isinstance(table.c[name].type, sa.JSON)
            else table.c[name]
        )
        for name in _KIND
    ]
    query = (
        sa.select(sa.func.min(table.c.uuid), sa.func.count())
        .where(table.c.compute_node_id.is_not(None), table.c.state != "missing")
        .group_by(*columns)
        .order_by(sa.func.min(table.c.uuid))
    )
    return [(row[0], row[1]) for row in connection.execute(query)]


def requested(connection: Connection, uuids: Collection[str]) -> dict[str, dict[str, Any]]:
    """Read the parameters of the requests of instances, by uuid: as
    request_spec.RequestSpec.from_instance() takes them, with host_request.

    The extra specs are the present extra specs of the flavor, overridden by the extra specs of the
    instance.
    """
    instances, flavors, groups = tables.instances, tables.flavors, tables.server_groups
    query = (
        sa.select(
            instances,
            flavors.c.extra_specs.label("flavor_specs"),
            groups.c.name.label("group_name"),
        )
        .outerjoin(flavors, flavors.c.name == instances.c.flavor)
        .outerjoin(groups, groups.c.id == instances.c.server_group_id)
    )
    return {
        row.uuid: _requested(row) for row in bulk.among(connection, query, instances.c.uuid, uuids)
    }


def _requested(row: Row) -> dict[str, object]:
    return {
        **{name: getattr(row, name) for name in ("uuid", "name", "user", *_KIND)},
        "extra_specs": {**(row.flavor_specs or {}), **(row.extra_specs or {})},
        "server_group": row.group_name,
    }
