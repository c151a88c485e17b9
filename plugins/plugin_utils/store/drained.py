# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drain found on a host, for undrain to give back (rule S5).

It is in the column status_before_drain of the service: how the host was switched, until it is given back; and
the instances that ran and were shut down for the drain, until each has been started again.
"""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, migrations_open, services, tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa

SHUT_DOWN = "shut_down"
#: States of a domain that is off.
OFF = ("shutoff", "crashed")


def before(memory):
    """How the host was switched before its drain, a dict of columns of the service."""
    return {name: value for name, value in (memory or {}).items() if name != SHUT_DOWN}


def with_shut_down(connection, memory, uuids):
    """The memory with these instances too, if they run by what the store last saw of them.

    One that is off now was so before, or is there already from a run that was killed.
    """
    states = migrations_open.domain_states(connection, uuids)
    known = (memory or {}).get(SHUT_DOWN, [])
    running = [uuid for uuid in uuids if uuid not in known and states.get(uuid) not in (None, *OFF)]
    return {**(memory or {}), SHUT_DOWN: [*known, *running]} if running else memory


def left_to_start(connection, host, memory):
    """What is still to be started of what was shut down: what is on the host, and off.

    :returns: a list of dicts uuid, name; the more important first, by their policies.
    """
    instances, nodes, domains = tables.instances, tables.compute_nodes, tables.domains
    query = (
        sa.select(instances.c.uuid, instances.c.name, instances.c.policy)
        .join(nodes, nodes.c.id == instances.c.compute_node_id)
        .join(domains, sa.and_(domains.c.uuid == instances.c.uuid, domains.c.compute_node_id == nodes.c.id))
        .where(nodes.c.host == host, instances.c.state == "active", domains.c.state.in_(OFF))
    )
    rows = bulk.among(connection, query, instances.c.uuid, (memory or {}).get(SHUT_DOWN, []))
    rows.sort(key=lambda row: (-int((row.policy or {}).get("priority") or 0), row.name, row.uuid))
    return [{"uuid": row.uuid, "name": row.name} for row in rows]


def keep_only(memory, uuids):
    """The memory in which only these were shut down; None when nothing is left in it."""
    return {**before(memory), **({SHUT_DOWN: list(uuids)} if uuids else {})} or None


def settle(connection, host, uuids):
    """Somebody has started, stopped or removed these instances of a host: undrain has nothing to do with them."""
    row = services.get(connection, host)
    known = (row.status_before_drain or {}).get(SHUT_DOWN, [])
    left = [uuid for uuid in known if uuid not in uuids]
    if left != known:
        services.change(connection, row, {"status_before_drain": keep_only(row.status_before_drain, left)})
