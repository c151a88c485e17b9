# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room on providers: what is there, what is used, whether an amount fits (NOVA_SEMANTICS 10.2)."""

from __future__ import annotations

try:
    import sqlalchemy as sa
except ImportError:
    sa = None

from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, tables


class Room:
    """Inventory and use of one class on one provider."""

    __slots__ = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio", "used")

    def __init__(self, row):
        self.total, self.reserved = row.total, row.reserved
        self.min_unit, self.max_unit, self.step_size = row.min_unit, row.max_unit, row.step_size
        self.allocation_ratio = row.allocation_ratio
        self.used = row.used

    @property
    def capacity(self):
        """(total - reserved) x allocation_ratio, unrounded."""
        return (self.total - self.reserved) * self.allocation_ratio

    def refusal(self, name, amount):
        """Why ``amount`` of class ``name`` does not fit, in words; None when it does."""
        if self.used + amount > self.capacity:
            return f"{name}: asked {amount}, used {self.used} of {self.capacity:g}"
        if not self.min_unit <= amount <= self.max_unit:
            return f"{name}: asked {amount}, one instance may have {self.min_unit} to {self.max_unit}"
        if amount % self.step_size:
            return f"{name}: asked {amount}, which is no multiple of {self.step_size}"
        return None


def read(connection, provider_ids):
    """The room of providers.

    :returns: dict provider id -> dict class name -> Room.
    """
    inventories, classes = tables.inventories, tables.resource_classes
    rooms = {key: {} for key in provider_ids}
    query = sa.select(inventories, classes.c.name).join(classes, classes.c.id == inventories.c.class_id)
    for row in bulk.among(connection, query, inventories.c.provider_id, provider_ids):
        rooms[row.provider_id][row.name] = Room(row)
    return rooms


def lock(connection, provider_ids):
    """Hold providers until the end of the transaction, so that what is read of them stays true.

    Taken in the order of their ids, so that two claims never wait for each other. On SQLite the
    whole store is held by the writer already.
    """
    table = tables.resource_providers
    if provider_ids and connection.dialect.name != "sqlite":
        connection.execute(
            sa.select(table.c.id).where(table.c.id.in_(sorted(provider_ids))).order_by(table.c.id).with_for_update()
        ).all()
