# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tree of providers: parents, roots, and moving a part of it (NOVA_SEMANTICS 10.1)."""

from __future__ import annotations

try:
    import sqlalchemy as sa
except ImportError:
    sa = None

from ansible_collections.drover.compute.plugins.plugin_utils.placement import providers
from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, tables


def below(connection, provider):
    """The ids of all providers below one (a row), in one query.

    :returns: a list, parents before their children.
    """
    table = tables.resource_providers
    query = sa.select(table.c.id, table.c.parent_id).where(table.c.root_id == (provider.root_id or provider.id))
    children = {}
    for row in connection.execute(query):
        children.setdefault(row.parent_id, []).append(row.id)
    found = []
    rest = list(children.get(provider.id, ()))
    while rest:
        found.append(rest.pop())
        rest.extend(children.get(found[-1], ()))
    return found


def move(connection, provider, parent):
    """Hang a provider with everything below it under another one, which is not below it.

    :param provider: its row.
    :param parent: the row of the new parent, or None to make the provider a root.
    """
    table = tables.resource_providers
    root = None if parent is None else (parent.root_id or parent.id)
    moved = below(connection, provider)
    bulk.update(
        connection,
        table,
        [{"id": provider.id, "parent_id": None if parent is None else parent.id, "root_id": root}],
    )
    new_root = root or provider.id
    if new_root != provider.root_id:
        bulk.update(connection, table, [{"id": key, "root_id": new_root} for key in moved])


def trees(connection, root_ids):
    """The providers below roots: dict root id -> set of ids, without the root and without empty ones."""
    table = tables.resource_providers
    found = {}
    for row in bulk.among(connection, sa.select(table.c.id, table.c.root_id), table.c.root_id, root_ids):
        found.setdefault(row.root_id, set()).add(row.id)
    return found


def remove(connection, ids):
    """Remove providers below roots that nothing is allocated on, in whatever order."""
    table = tables.resource_providers
    # Cut loose first: none may go while another one has it for its parent.
    bulk.update(connection, table, [{"id": key, "parent_id": None, "root_id": None} for key in sorted(ids)])
    providers.remove(connection, ids)


def roots(connection, provider_ids):
    """The roots of those providers that have one above them: dict id -> set of the one root's id."""
    table = tables.resource_providers
    query = sa.select(table.c.id, table.c.root_id).where(table.c.root_id.is_not(None))
    return {
        row.id: {row.root_id}
        for row in bulk.among(connection, query, table.c.id, provider_ids)
        if row.root_id != row.id
    }
