# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Consumers and what they hold, replaced in bulk (N10.5). No capacity check here.

Who changes what consumers hold holds the consumers first, in the order of their uuids, and the rows of
inventories last, see inventory.py. The generation of a provider is left alone: it guards inventories, traits
and aggregates.
"""

from __future__ import annotations

import collections

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.placement import inventory
from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa

INSTANCE, MIGRATION = "INSTANCE", "MIGRATION"


def read(connection, consumer_uuids):
    """What consumers hold.

    :returns: dict consumer uuid -> dict provider id -> dict class name -> amount.
    """
    allocations, consumers, classes = tables.allocations, tables.consumers, tables.resource_classes
    query = (
        sa.select(consumers.c.uuid, allocations.c.provider_id, classes.c.name, allocations.c.used)
        .join(consumers, consumers.c.id == allocations.c.consumer_id)
        .join(classes, classes.c.id == allocations.c.class_id)
    )
    held = {}
    for row in bulk.among(connection, query, consumers.c.uuid, consumer_uuids):
        held.setdefault(row.uuid, {}).setdefault(row.provider_id, {})[row.name] = row.used
    return held


def used_providers(connection, provider_ids):
    """Those of the providers that something is allocated on, as a set of ids."""
    table = tables.allocations
    rows = bulk.among(connection, sa.select(table.c.provider_id).distinct(), table.c.provider_id, provider_ids)
    return {row.provider_id for row in rows}


class Holdings:
    """Some consumers and what they hold, held against everybody else until the end of the transaction.

    :param keep: dict uuid -> dict of the columns that a new consumer gets (type, project, user,
        expires_at); it is made.
    :param drop: uuids of consumers that shall be held where they exist.
    :param made: dict uuid -> id of those of ``keep`` that were made by the caller; None when that is to be done here.
    """

    def __init__(self, connection, keep, now, drop=(), made=None):
        self.connection = connection
        table = tables.consumers
        self.ids = bulk.add(connection, table, "uuid", consumer_rows(keep, now)) if made is None else dict(made)
        self.new = set(self.ids)
        self.rows = bulk.hold(connection, table, "uuid", (set(keep) | set(drop)) - self.new)
        self.ids.update({uuid: row.id for uuid, row in self.rows.items()})
        for uuid in keep:
            if uuid not in self.ids:
                raise changed_meanwhile(uuid, "another run removed it at this moment")
        self.held = self._held()

    def _held(self):
        table, uuids = tables.allocations, {row.id: uuid for uuid, row in self.rows.items()}
        held = {}
        for row in bulk.among(self.connection, sa.select(table), table.c.consumer_id, uuids):
            held.setdefault(uuids[row.consumer_id], {})[row.provider_id, row.class_id] = row.used
        return held

    def sums(self, uuids):
        """What consumers hold together: dict (provider id, class id) -> amount."""
        sums = collections.Counter()
        for uuid in uuids:
            sums.update(self.held.get(uuid, {}))
        return sums

    def renew(self, uuids, expires_at):
        """Give those whose claim may expire a later time."""
        if expires_at is not None:
            late = [row for uuid, row in self.rows.items() if uuid in uuids and row.expires_at is not None]
            bulk.update(
                self.connection,
                tables.consumers,
                [{"id": row.id, "expires_at": expires_at} for row in late if row.expires_at != expires_at],
            )

    def change(self, wanted):
        """What write() will change: dict (provider id, class id) -> amount more or less."""
        change = collections.Counter()
        for uuid, amounts in wanted.items():
            change.subtract(self.held.get(uuid, {}))
            change.update(amounts)
        return change

    def write(self, wanted, columns=None, limited=False):
        """Make consumers hold exactly this; one that shall hold nothing is removed.

        :param wanted: dict uuid -> dict (provider id, class id) -> amount, without amounts of 0.
        :param columns: dict uuid -> dict of columns to change, for those that are not new.
        :param limited: never more than there is, see inventory.allocate().
        """
        table, columns = tables.consumers, columns or {}
        bulk.delete(
            self.connection,
            tables.allocations,
            tables.allocations.c.consumer_id,
            [self.ids[uuid] for uuid in wanted if self.held.get(uuid)],
        )
        gone = [self.ids[uuid] for uuid, amounts in wanted.items() if not amounts and uuid in self.ids]
        bulk.delete(self.connection, table, table.c.id, gone)
        different = {}
        for uuid, amounts in wanted.items():
            if amounts and uuid not in self.new:
                row = self.rows[uuid]
                changed = {"id": row.id, "generation": row.generation + 1, **columns.get(uuid, {})}
                different.setdefault(tuple(sorted(changed)), []).append(changed)
        for rows in different.values():
            bulk.update(self.connection, table, rows)
        rows = [
            {"consumer_id": self.ids[uuid], "provider_id": provider, "class_id": class_id, "used": amount}
            for uuid, amounts in wanted.items()
            for (provider, class_id), amount in amounts.items()
        ]
        inventory.allocate(self.connection, rows, self.change(wanted), limited)


def replace(connection, wanted, now, consumer_type=INSTANCE, owners=None):
    """Make consumers hold exactly this, whether there is room or not; one that shall hold nothing is removed.

    :param wanted: dict consumer uuid -> dict provider id -> dict class name -> amount.
    :param owners: dict consumer uuid -> (project, user), for consumers that are new.
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
        uuid: dict(zip(("type", "project", "user"), (consumer_type, *owners.get(uuid, (None, None)))))
        for uuid, amounts in flat.items()
        if amounts
    }
    Holdings(connection, keep, now, drop=flat).write(flat)


def consumer_rows(keep, now):
    """The rows of new consumers, see Holdings."""
    return [{"uuid": uuid, "generation": 1, "created_at": now, **columns} for uuid, columns in keep.items()]


def flatten(held, classes):
    """dict provider id -> dict class name -> amount, as dict (provider id, class id) -> amount, without zeros."""
    return {(provider, classes[name]): amount for provider, amounts in held.items() for name, amount in amounts.items() if amount}


def confirm(connection, consumer_uuids):
    """What these consumers hold does not expire any more: discovery, or the build, has seen the instance."""
    table, uuids = tables.consumers, sorted(consumer_uuids)
    for start in range(0, len(uuids), bulk.NAMED_VALUES):
        connection.execute(
            sa.update(table)
            .where(table.c.uuid.in_(uuids[start : start + bulk.NAMED_VALUES]), table.c.expires_at.is_not(None))
            .values(expires_at=None)
        )


def expired(connection, now):
    """Claims whose time is over and whose instance nobody has seen.

    :returns: a list of dicts sorted by uuid: uuid, type, project, user, created_at, expires_at (seconds
        since 1970), holds (dict provider name -> dict class name -> amount).
    """
    consumers, allocations = tables.consumers, tables.allocations
    providers, classes = tables.resource_providers, tables.resource_classes
    query = (
        sa.select(consumers, providers.c.name.label("provider"), classes.c.name.label("class_name"), allocations.c.used)
        .join(allocations, allocations.c.consumer_id == consumers.c.id)
        .join(providers, providers.c.id == allocations.c.provider_id)
        .join(classes, classes.c.id == allocations.c.class_id)
        .where(consumers.c.expires_at <= now)
        .order_by(consumers.c.uuid, providers.c.name, classes.c.name)
    )
    found = {}
    for row in connection.execute(query):
        item = found.setdefault(
            row.uuid,
            {
                **{name: getattr(row, name) for name in ("uuid", "type", "project", "user", "created_at", "expires_at")},
                "holds": {},
            },
        )
        item["holds"].setdefault(row.provider, {})[row.class_name] = row.used
    return list(found.values())


def changed_meanwhile(uuid, why):
    """The error of a writer whose consumer is not what he took it for."""
    return DroverError(
        f"Consumer {uuid} changed meanwhile: {why}. Nothing was written: read it again, then decide again.",
        cause="changed_meanwhile",
        consumer=uuid,
    )
