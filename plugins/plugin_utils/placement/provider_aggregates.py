# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Aggregates of providers, by their uuids; made on use (N10.1)."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.placement import providers
from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, tables


def set_aggregates(connection, wanted):
    """Bring providers to exactly these aggregates.

    :param wanted: dict provider id -> set of aggregate uuids.
    :returns: set of provider ids that changed; their generation went up by one.
    """
    ids = bulk.ids_by(connection, tables.placement_aggregates.c.uuid, set().union(*wanted.values()))
    wanted = {provider: {ids[uuid] for uuid in uuids} for provider, uuids in wanted.items()}
    column = tables.provider_aggregates.c.aggregate_id
    return providers.set_links(connection, column, wanted, providers.links(connection, column, wanted))
