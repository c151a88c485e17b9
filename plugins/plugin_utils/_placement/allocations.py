# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Consumers and their allocations, replaced in bulk (N10.5). No capacity check here.

Each writer locks the consumers first, in the order of their uuids, and the rows of inventories
last, see inventory.py. The generation of a provider stays as it is: it guards inventories, traits
and aggregates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from .._common.errors import DroverError
from .._records.claims import Resources
from .._store.database import bulk
from .._store.database.sql import Connection, Row, sa
from .._store.schema import tables
from . import inventory
from .inventory import Amounts, InventoryKey

INSTANCE, MIGRATION = "INSTANCE", "MIGRATION"

#: The allocations of a consumer, by provider id.
Held = dict[int, Resources]


def read(connection: Connection, consumer_uuids: Iterable[str]) -> dict[str, Held]:
    """Return the allocations of consumers by their uuids, without consumers that have none."""
    allocations, consumers, classes = tables.allocations, tables.consumers, tables.resource_classes
    query = (
        sa.select(consumers.c.uuid, allocations.c.provider_id, classes.c.name, allocations.c.used)
        .join(consumers, consumers.c.id == allocations.c.consumer_id)
        .join(classes, classes.c.id == allocations.c.class_id)
    )
    allocated: dict[str, Held] = {}
    for row in bulk.among(connection, query, consumers.c.uuid, consumer_uuids):
        allocated.setdefault(row.uuid, {}).setdefault(row.provider_id, {})[row.name] = row.used
    return allocated


def total(held: Mapping[Any, Resources]) -> Resources:
    """Return the sums of the allocations on all providers."""
    sums: Resources = {}
    for amounts in held.values():
        for name, amount in amounts.items():
            sums[name] = sums.get(name, 0) + amount
    return sums


def class_names(connection: Connection, amounts: Amounts) -> dict[int, str]:
    """Return the names of the resource classes of amounts by their ids."""
    classes = tables.resource_classes
    rows = bulk.among(
        connection,
        bulk.select(classes.c.id, classes.c.name),
        classes.c.id,
        {key[1] for key in amounts},
    )
    return {row.id: row.name for row in rows}


def by_class(amounts: Amounts, names: Mapping[int, str]) -> Resources:
    """Return the sums of amounts on all providers.

    :param names: the result of class_names().
    """
    return total({key: {names[key[1]]: amount} for key, amount in sorted(amounts.items())})


def used_providers(connection: Connection, provider_ids: Iterable[int]) -> set[int]:
    """Return the ids of the providers that have allocations."""
    table = tables.allocations
    rows = bulk.among(
        connection, sa.select(table.c.provider_id).distinct(), table.c.provider_id, provider_ids
    )
    return {row.provider_id for row in rows}


class Holdings:
    """Some consumers and their allocations, locked until the end of the transaction.

    :param keep: {uuid: columns of a new consumer (type, project, user, expires_at)}; consumers that
        do not exist are created.
    :param now: seconds since 1970.
    :param drop: uuids of consumers that are locked if they exist.
    :param made: {uuid: id} of the consumers of ``keep`` that the caller has created; None if it has
        created none.
    :ivar held: {uuid: allocations}.
    """

    def __init__(
        self,
        connection: Connection,
        keep: Mapping[str, Mapping[str, object]],
        now: float,
        drop: Iterable[str] = (),
        made: Mapping[str, int] | None = None,
    ) -> None:
        self.connection = connection
        table = tables.consumers
        self.ids: dict[str, int] = (
            bulk.add(connection, table, "uuid", consumer_rows(keep, now))
            if made is None
            else dict(made)
        )
        self.new = set(self.ids)
        self.rows: dict[str, Row] = bulk.hold(
            connection, table, "uuid", (set(keep) | set(drop)) - self.new
        )
        self.ids.update({uuid: row.id for uuid, row in self.rows.items()})
        for uuid in keep:
            if uuid not in self.ids:
                raise changed_meanwhile(uuid, "another run removed it at this moment")
        self.held = self._sum_allocations()

    def _sum_allocations(self) -> dict[str, Amounts]:
        table, uuids = tables.allocations, {row.id: uuid for uuid, row in self.rows.items()}
        allocated: dict[str, Amounts] = {}
        for row in bulk.among(self.connection, bulk.select(table), table.c.consumer_id, uuids):
            allocated.setdefault(uuids[row.consumer_id], {})[row.provider_id, row.class_id] = (
                row.used
            )
        return allocated

    def sums(self, uuids: Iterable[str]) -> Amounts:
        """Return the sums of the allocations of consumers."""
        sums: Counter[InventoryKey] = Counter()
        for uuid in uuids:
            sums.update(self.held.get(uuid, {}))
        return sums

    def renew(self, uuids: Collection[str], expires_at: float | None) -> None:
        """Set a later expiry (seconds since 1970) of the consumers that have an expiry."""
        if expires_at is not None:
            late = [
                row
                for uuid, row in self.rows.items()
                if uuid in uuids and row.expires_at is not None
            ]
            bulk.update(
                self.connection,
                tables.consumers,
                [
                    {"id": row.id, "expires_at": expires_at}
                    for row in late
                    if row.expires_at != expires_at
                ],
            )

    def change(self, wanted: Mapping[str, Amounts]) -> Amounts:
        """Return by how much write() will change the use of each inventory."""
        change: Counter[InventoryKey] = Counter()
        for uuid, amounts in wanted.items():
            change.subtract(self.held.get(uuid, {}))
            change.update(amounts)
        return change

    def write(
        self,
        wanted: Mapping[str, Amounts],
        columns: Mapping[str, Mapping[str, Any]] | None = None,
        limited: bool = False,
    ) -> None:
        """Replace the allocations of consumers; a consumer without any is removed.

        :param wanted: {uuid: allocations}, without amounts of 0.
        :param columns: {uuid: columns to change}, for consumers that are not new.
        :param limited: never more than the capacity, see inventory.allocate().
        """
        table, columns = tables.consumers, columns or {}
        bulk.delete(
            self.connection,
            tables.allocations,
            tables.allocations.c.consumer_id,
            [self.ids[uuid] for uuid in wanted if self.held.get(uuid)],
        )
        gone = [
            self.ids[uuid] for uuid, amounts in wanted.items() if not amounts and uuid in self.ids
        ]
        bulk.delete(self.connection, table, table.c.id, gone)
        different: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for uuid, amounts in wanted.items():
            if amounts and uuid not in self.new:
                row = self.rows[uuid]
                changed = {"id": row.id, "generation": row.generation + 1, **columns.get(uuid, {})}
                different.setdefault(tuple(sorted(changed)), []).append(changed)
        for changes in different.values():
            bulk.update(self.connection, table, changes)
        rows = [
            {
                "consumer_id": self.ids[uuid],
                "provider_id": provider,
                "class_id": class_id,
                "used": amount,
            }
            for uuid, amounts in wanted.items()
            for (provider, class_id), amount in amounts.items()
        ]
        inventory.allocate(self.connection, rows, self.change(wanted), limited)


def replace(
    connection: Connection,
    wanted: Mapping[str, Held],
    now: float,
    consumer_type: str = INSTANCE,
    owners: Mapping[str, tuple[str | None, str | None]] | None = None,
) -> None:
    """Replace the allocations of consumers, whether there is room or not; a consumer without any is
    removed.

    :param wanted: {consumer uuid: allocations}.
    :param owners: {consumer uuid: (project, user)}, for consumers that are new.
    """
    if not wanted:
        return
    owners = owners or {}
    classes = bulk.ids_by(
        connection,
        tables.resource_classes.c.name,
        {name for held in wanted.values() for amounts in held.values() for name in amounts},
    )
    flat = {uuid: flatten(held, classes) for uuid, held in wanted.items()}
    keep = {
        uuid: dict(
            zip(("type", "project", "user"), (consumer_type, *owners.get(uuid, (None, None))))
        )
        for uuid, amounts in flat.items()
        if amounts
    }
    Holdings(connection, keep, now, drop=flat).write(flat)


def consumer_rows(keep: Mapping[str, Mapping[str, object]], now: float) -> list[dict[str, object]]:
    """Return the rows of new consumers, see Holdings."""
    return [
        {"uuid": uuid, "generation": 1, "created_at": now, **columns}
        for uuid, columns in keep.items()
    ]


def flatten(held: Held, classes: Mapping[str, int]) -> Amounts:
    """Return allocations by (provider id, class id), without zeros.

    :param classes: {name: id}.
    """
    return {
        (provider, classes[name]): amount
        for provider, amounts in held.items()
        for name, amount in amounts.items()
        if amount
    }


def confirm(connection: Connection, consumer_uuids: Iterable[str]) -> None:
    """Remove the expiry of claims: discovery, or the build, has seen their instances."""
    table, uuids = tables.consumers, sorted(consumer_uuids)
    for start in range(0, len(uuids), bulk.NAMED_VALUES):
        connection.execute(
            sa.update(table)
            .where(
                table.c.uuid.in_(uuids[start : start + bulk.NAMED_VALUES]),
                table.c.expires_at.is_not(None),
            )
            .values(expires_at=None)
        )


def changed_meanwhile(uuid: str, why: str) -> DroverError:
    """Make the error for a consumer that another run has changed."""
    return DroverError(
        f"Consumer {uuid} changed meanwhile: {why}. Nothing was written: read it again, then decide"
        " again.",
        cause="changed_meanwhile",
        consumer=uuid,
    )
