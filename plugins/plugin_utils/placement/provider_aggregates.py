# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Aggregates of providers, by their uuids; made on use (NOVA_SEMANTICS 10.1)."""

from __future__ import annotations

try:
    import sqlalchemy as sa
except ImportError:
    sa = None

from ansible_collections.drover.compute.plugins.plugin_utils.placement import providers
from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, tables


def set_aggregates(connection, wanted):
    """Bring providers to exactly these aggregates.

    :param wanted: dict provider id -> set of aggregate uuids.
    :returns: set of provider ids that changed; their generation went up by one.
    """
    table = tables.provider_aggregates
    ids = _ids(connection, {uuid for uuids in wanted.values() for uuid in uuids})
    current = {}
    for row in bulk.among(connection, sa.select(table), table.c.provider_id, wanted):
        current.setdefault(row.provider_id, set()).add(row.aggregate_id)
    new, changed = [], set()
    for provider, uuids in wanted.items():
        want, have = {ids[uuid] for uuid in uuids}, current.get(provider, set())
        if want == have:
            continue
        changed.add(provider)
        new.extend({"provider_id": provider, "aggregate_id": key} for key in sorted(want - have))
        gone = have - want
        if gone:
            connection.execute(sa.delete(table).where(table.c.provider_id == provider, table.c.aggregate_id.in_(gone)))
    bulk.insert(connection, table, new)
    providers.bump(connection, changed)
    return changed


def _ids(connection, uuids):
    table = tables.placement_aggregates
    query = sa.select(table.c.uuid, table.c.id)
    found = {row.uuid: row.id for row in bulk.among(connection, query, table.c.uuid, uuids)}
    new = sorted(uuids - set(found))
    bulk.insert(connection, table, [{"uuid": uuid} for uuid in new])
    found.update({row.uuid: row.id for row in bulk.among(connection, query, table.c.uuid, new)})
    return found
