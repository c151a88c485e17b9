# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Allocations by consumer, and their sums (N10.5)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from .._common.errors import DroverError, some
from .._store.database import bulk
from .._store.database.sql import Connection, Row, Select, sa
from .._store.schema import tables

NOBODY = "(none)"
GROUPS = ("provider", "project", "user", "consumer_type")
# The most consumers that a refusal names.
_SOME = 3


def read(
    connection: Connection,
    consumers: Iterable[str] | None = None,
    provider: str | None = None,
    project: str | None = None,
    user: str | None = None,
    consumer_type: str | None = None,
) -> dict[str, Any]:
    """Read the allocations that meet all conditions; None stands for no condition.

    :param consumers: uuids.
    :param provider: a name or uuid.
    :returns: usages {class: sum}, usages_by {each of GROUPS: {name: {class: sum}}}, and with
        consumers or provider also consumers, as the module allocation_info returns them.
    :raises DroverError: there is no such provider.
    """
    query = _select_usages()
    for column, value in (
        (
            tables.resource_providers.c.id,
            None if provider is None else _provider_id(connection, provider),
        ),
        (tables.consumers.c.project, project),
        (tables.consumers.c.user, user),
        (tables.consumers.c.type, consumer_type),
    ):
        if value is not None:
            query = query.where(column == value)
    if consumers is None and provider is None:
        return _sums(connection.execute(_grouped(query)))
    query = query.add_columns(*_of_consumer())
    if consumers is None:
        rows = list(connection.execute(query))
    else:
        rows = bulk.among(connection, query, tables.consumers.c.uuid, consumers)
    return {**_sums(rows), "consumers": _by_consumer(connection, rows)}


def holders(
    connection: Connection, provider_id: int, class_names: Iterable[str] | None = None
) -> str | None:
    """Return the consumers with allocations on a provider as text; None if there are none.

    :param class_names: only allocations of these classes.
    """
    query = (
        _select_usages()
        .add_columns(*_of_consumer())
        .where(tables.resource_providers.c.id == provider_id)
    )
    if class_names is not None:
        query = query.where(tables.resource_classes.c.name.in_(class_names))
    by_consumer: dict[str, tuple[str, list[str]]] = {}
    for row in connection.execute(query.order_by(tables.consumers.c.id)):
        by_consumer.setdefault(row.consumer, (row.consumer_type, []))[1].append(
            f"{row.used} {row.name}"
        )
    if not by_consumer:
        return None
    texts = [
        f"{kind} {uuid} ({', '.join(sorted(amounts))})"
        for uuid, (kind, amounts) in by_consumer.items()
    ]
    return some(texts, _SOME)


def _select_usages() -> Select:
    allocations, consumers = tables.allocations, tables.consumers
    providers, classes = tables.resource_providers, tables.resource_classes
    return (
        sa.select(
            providers.c.name.label("provider"),
            consumers.c.project,
            consumers.c.user,
            consumers.c.type.label("consumer_type"),
            classes.c.name,
            allocations.c.used,
        )
        .select_from(allocations)
        .join(consumers, consumers.c.id == allocations.c.consumer_id)
        .join(providers, providers.c.id == allocations.c.provider_id)
        .join(classes, classes.c.id == allocations.c.class_id)
    )


def _grouped(query: Select) -> Select:
    """Return a query in which the database adds up the allocations; it does not list them one by
    one.
    """
    *groups, used = query.selected_columns
    return query.with_only_columns(*groups, sa.func.sum(used).label("used")).group_by(*groups)


def _of_consumer() -> tuple[sa.ColumnElement[Any], ...]:
    consumers = tables.consumers
    return (
        consumers.c.uuid.label("consumer"),
        consumers.c.generation,
        consumers.c.expires_at,
        tables.resource_providers.c.uuid.label("provider_uuid"),
    )


def _provider_id(connection: Connection, given: str) -> int:
    table = tables.resource_providers
    query = sa.select(table.c.id).where(
        sa.or_(table.c.uuid == given.lower(), table.c.name == given)
    )
    provider_id = connection.execute(query).scalars().first()
    if provider_id is None:
        raise DroverError(
            f"There is no resource provider {given}. drover.compute.resource_provider_info shows"
            " those that there are."
        )
    return provider_id


def _sums(rows: Iterable[Row]) -> dict[str, object]:
    usages: dict[str, int] = {}
    groups: dict[str, dict[str, dict[str, int]]] = {group: {} for group in GROUPS}
    for row in rows:
        used = int(row.used)
        usages[row.name] = usages.get(row.name, 0) + used
        for group, names in groups.items():
            sums = names.setdefault(getattr(row, group) or NOBODY, {})
            sums[row.name] = sums.get(row.name, 0) + used
    return {
        "usages": dict(sorted(usages.items())),
        "usages_by": {
            group: {name: dict(sorted(sums.items())) for name, sums in sorted(names.items())}
            for group, names in groups.items()
        },
    }


def _by_consumer(connection: Connection, rows: Sequence[Row]) -> list[dict[str, Any]]:
    consumers: dict[str, dict[str, Any]] = {}
    names = _names_of_instances(connection, {row.consumer for row in rows})
    for row in rows:
        consumer = consumers.setdefault(
            row.consumer,
            {
                "uuid": row.consumer,
                "name": names.get(row.consumer),
                "type": row.consumer_type,
                "project": row.project,
                "user": row.user,
                "generation": row.generation,
                "expires_at": row.expires_at,
                "allocations": {},
            },
        )
        place = consumer["allocations"].setdefault(
            row.provider,
            {"provider": row.provider, "provider_uuid": row.provider_uuid, "resources": {}},
        )
        place["resources"][row.name] = row.used
    for consumer in consumers.values():
        consumer["allocations"] = [
            place for dummy, place in sorted(consumer["allocations"].items())
        ]
    return [consumers[uuid] for uuid in sorted(consumers)]


def _names_of_instances(connection: Connection, uuids: Collection[str]) -> dict[str, str]:
    """Return the names of instances, and of the instances that migrations move, by uuid."""
    names: dict[str, str] = {}
    for table, column in ((tables.migrations, "instance_name"), (tables.instances, "name")):
        query = sa.select(table.c.uuid, table.c[column].label("name"))
        names.update(
            {row.uuid: row.name for row in bulk.among(connection, query, table.c.uuid, uuids)}
        )
    return names
