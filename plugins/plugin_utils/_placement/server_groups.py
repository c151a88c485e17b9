# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Server groups, and their late check at the claim (N8, late check)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .._common import validation
from .._common.errors import DroverError
from .._records.claims import GroupDescription
from .._store.database import bulk
from .._store.database.sql import Connection, Row, sa
from .._store.schema import tables

AFFINITY, ANTI_AFFINITY = "affinity", "anti-affinity"
POLICIES = (AFFINITY, ANTI_AFFINITY, "soft-affinity", "soft-anti-affinity")


def ensure(
    connection: Connection,
    name: str,
    policy: str,
    max_server_per_host: int | None = None,
    max_moving: int | None = None,
) -> tuple[Row, bool]:
    """Make a server group, or find it with this policy.

    :param max_moving: the most members that move at the same time, which may change; None leaves it
        as it is, 0 means no limit.
    :returns: its row, and whether it was made or changed.
    :raises DroverError: it exists with another policy, or the limit belongs to another policy.
    """
    if max_server_per_host is not None and policy != ANTI_AFFINITY:
        raise DroverError(
            f"Server group {name}: max_server_per_host goes with the policy anti-affinity only, not"
            f" {policy}. Leave it out or change the policy."
        )
    most = 1 if max_server_per_host is None else max_server_per_host
    validation.check_whole(f"Server group {name}: max_server_per_host", most, least=1)
    if max_moving is not None:
        validation.check_whole(f"Server group {name}: max_moving (0 is no limit)", max_moving)
    row = by_name(connection, name)
    if row is not None:
        if (row.policy, row.max_server_per_host) != (policy, most):
            raise DroverError(
                f"Server group {name} exists with policy {row.policy} and max_server_per_host"
                f" {row.max_server_per_host}; it cannot become {policy} with {most}, as its members"
                " were placed under the old rule. Use another name, or delete the group when it"
                " has no members."
            )
        if max_moving is None or (max_moving or None) == row.max_moving:
            return row, False
        bulk.update(
            connection, tables.server_groups, [{"id": row.id, "max_moving": max_moving or None}]
        )
        return find(connection, name), True
    added = bulk.add(
        connection,
        tables.server_groups,
        "name",
        [
            {
                "uuid": bulk.new_uuid(),
                "name": name,
                "policy": policy,
                "max_server_per_host": most,
                "max_moving": max_moving or None,
            }
        ],
    )
    if not added:
        # Another run made it at this moment.
        return ensure(connection, name, policy, max_server_per_host, max_moving)
    return find(connection, name), True


def delete(connection: Connection, name: str) -> bool:
    """Delete a server group without members; return whether it existed.

    :raises DroverError: it has members.
    """
    row = by_name(connection, name)
    if row is None:
        return False
    names = [member.name for member in _member_rows(connection, row)]
    if names:
        raise DroverError(
            f"Server group {name} has members: {', '.join(names[:10])}. A server cannot leave its"
            " group; delete the group after its instances are gone."
        )
    connection.execute(sa.delete(tables.server_groups).where(tables.server_groups.c.id == row.id))
    return True


def find(connection: Connection, group: str | GroupDescription) -> Row:
    """Return the row of a server group by its name or description; by a description it is made if
    it is new.
    """
    if isinstance(group, dict):
        return ensure(connection, group["name"], group["policy"], group.get("max_server_per_host"))[
            0
        ]
    row = by_name(connection, group)
    if row is None:
        raise DroverError(
            f"Server group {group} is not in the store. Make it with drover.compute.server_group."
        )
    return row


def described(row: Row | None) -> dict[str, object] | None:
    """Return the row of a server group as people see it; None for none."""
    return (
        None
        if row is None
        else {
            name: getattr(row, name)
            for name in ("uuid", "name", "policy", "max_server_per_host", "max_moving")
        }
    )


def names(connection: Connection) -> list[str]:
    """Return the names of all server groups."""
    return list(connection.execute(sa.select(tables.server_groups.c.name)).scalars())


def name_of(group: str | GroupDescription | None) -> str | None:
    """Return the name of a server group that is given by name or description; None without one."""
    return group["name"] if isinstance(group, dict) else group or None


def hold(connection: Connection, wanted: Iterable[str | GroupDescription | None]) -> dict[str, Row]:
    """Find or make the server groups of selections, and lock them.

    :returns: {name: row}.
    """
    groups_by_name: dict[str, Row] = {}
    for name, group in sorted(
        ((name_of(group) or "", group) for group in wanted if group), key=lambda pair: pair[0]
    ):
        if isinstance(group, dict) or name not in groups_by_name:
            groups_by_name[name] = find(connection, group)
    if groups_by_name:
        lock(connection, groups_by_name.values())
    return groups_by_name


def of_instance(connection: Connection, uuid: str) -> list[Row]:
    """Lock the server group of an instance; return at most one row."""
    groups, instances = tables.server_groups, tables.instances
    query = sa.select(groups).join(instances, instances.c.server_group_id == groups.c.id)
    rows = list(connection.execute(query.where(instances.c.uuid == uuid)))
    if rows:
        lock(connection, rows)
    return rows


def lock(connection: Connection, found: Iterable[Row]) -> None:
    """Lock groups until the end of the transaction: two claims must not both be the first of a
    group on a host.

    A writer locks them before all other rows, in the order of their ids.
    """
    bulk.hold(connection, tables.server_groups, "id", {group.id for group in found})


def members(connection: Connection, group: Row) -> dict[str, set[str]]:
    """Return the present hosts of the members, and their destinations while they move: {instance
    uuid: hosts}.
    """
    migrations, nodes = tables.migrations, tables.compute_nodes
    where: dict[str, set[str]] = {
        row.uuid: {row.host} if row.host else set() for row in _member_rows(connection, group)
    }
    query = (
        sa.select(migrations.c.instance_uuid, nodes.c.host)
        .join(nodes, nodes.c.id == migrations.c.destination_node_id)
        .where(migrations.c.status.in_(tables.OPEN_MIGRATION))
    )
    # A resize that waits for its confirmation may still be reverted.
    back = (
        sa.select(migrations.c.instance_uuid, nodes.c.host)
        .join(nodes, nodes.c.id == migrations.c.source_node_id)
        .where(migrations.c.status == "finished")
    )
    for row in (
        *bulk.among(connection, query, migrations.c.instance_uuid, where),
        *bulk.among(connection, back, migrations.c.instance_uuid, where),
    ):
        where[row.instance_uuid].add(row.host)
    return where


def refusal(
    group: Row, where: Mapping[str, set[str]], uuid: str, host: str, leaving: str | None = None
) -> str | None:
    """Return the reason why the group's policy keeps an instance off a host; None if it does not.

    As in Nova, a group knows hosts: members on two compute nodes of one host are on one host.

    :param where: the result of members().
    :param leaving: the host that the instance leaves. The first member of an affinity group may
        leave the others there, as a drain moves them all to one host, one after the other.
    """
    others = [hosts for member, hosts in where.items() if member != uuid and hosts]
    count = sum(1 for hosts in others if host in hosts)
    if group.policy == ANTI_AFFINITY and count >= group.max_server_per_host:
        return (
            f"server group {group.name} (anti-affinity) has {count} of at most"
            f" {group.max_server_per_host} there"
        )
    if group.policy == AFFINITY and not count and any(hosts != {leaving} for hosts in others):
        return f"server group {group.name} (affinity) is on other hosts"
    return None


def by_name(connection: Connection, name: str) -> Row | None:
    """Return the row of a server group, or None."""
    table = tables.server_groups
    return connection.execute(sa.select(table).where(table.c.name == name)).one_or_none()


def _member_rows(connection: Connection, group: Row) -> list[Row]:
    instances, nodes = tables.instances, tables.compute_nodes
    query = (
        sa.select(instances.c.uuid, instances.c.name, nodes.c.host)
        .outerjoin(nodes, nodes.c.id == instances.c.compute_node_id)
        .where(instances.c.server_group_id == group.id)
        .order_by(instances.c.name)
    )
    return list(connection.execute(query))
