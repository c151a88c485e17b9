# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Aggregates of providers, by their uuids; made on use (N10.1)."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.drover.compute.plugins.plugin_utils.placement import providers
from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import Connection


def set_aggregates(connection: Connection, wanted: Mapping[int, set[str]]) -> set[int]:
    """Replace the aggregates of providers.

    :param wanted: {provider id: uuids of aggregates}.
    :returns: the ids of the changed providers; their generations are one more.
    """
    ids = bulk.ids_by(connection, tables.placement_aggregates.c.uuid, {uuid for uuids in wanted.values() for uuid in uuids})
    column = tables.provider_aggregates.c.aggregate_id
    by_id = {provider: {ids[uuid] for uuid in uuids} for provider, uuids in wanted.items()}
    return providers.set_links(connection, column, by_id, providers.links(connection, column, wanted))
