# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Consumers that are no instance: of closed migrations, of nobody; claims that expired; old migrations."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.placement.allocations import INSTANCE, MIGRATION
from ansible_collections.drover.compute.plugins.plugin_utils.placement.audit.about_instances import BUILDING

# A migration that nothing was written of for so long (seconds) is worth a look.
OLD_MIGRATION = 24 * 3600


def examine(seen, found, now, release_expired):
    """Note what is held by nobody. Consumers of a type of their own are the user's, and no business here."""
    for uuid, consumer in seen.consumers.items():
        instance = seen.instances.get(uuid)
        migration = seen.migrations.get(uuid)
        what = {
            "uuid": uuid,
            "name": instance.name
            if instance is not None
            else migration.instance_name
            if migration is not None
            else None,
            "host": ", ".join(sorted({seen.place(key) for key in seen.held.get(uuid, {})})) or None,
        }
        if instance is not None:
            if instance.state == BUILDING and uuid not in seen.open:
                _expired(seen, found, consumer, now, release_expired, what)
        elif migration is not None:
            if uuid not in {row.uuid for row in seen.open.get(migration.instance_uuid, ())}:
                why = f"It is held by migration {uuid} of {migration.instance_name}, which is {migration.status}."
                found.mends.holdings[uuid] = {}
                found.add("migration_closed", why, "drops it", safe=True, **what)
        elif consumer.type in (INSTANCE, MIGRATION):
            if consumer.expires_at is not None:
                _expired(seen, found, consumer, now, release_expired, what)
            else:
                _nobody(seen, found, uuid, what)


def _nobody(seen, found, uuid, what):
    why = "Its consumer is neither an instance nor an open migration."
    if uuid in seen.domains:
        hosts = seen.hosts(seen.domains[uuid])
        found.add("allocation_of_nobody", why, f"leaves it: {hosts} shows a domain of this uuid", **what)
    elif uuid in seen.open:
        found.add("allocation_of_nobody", why, "leaves it: a migration of this uuid is open", **what)
    else:
        found.mends.holdings[uuid] = {}
        found.add("allocation_of_nobody", why, "drops it", safe=True, **what)


def _expired(seen, found, consumer, now, release_expired, what):
    """A claim whose time is over and whose domain nobody has seen."""
    if consumer.expires_at is None or consumer.expires_at >= now or consumer.uuid in seen.domains:
        return
    instance = seen.instances.get(consumer.uuid)
    if instance is not None and instance.order_uuid is not None:
        # A hypervisor was told to build it, and what became of that is for the next run of place to find out.
        return
    hours = (now - consumer.expires_at) / 3600
    why = f"It was claimed and not built; the claim expired {hours:.1f} h ago."
    if not release_expired:
        found.add("claim_expired", why, "leaves it: only with release_expired", **what)
        return
    if consumer.uuid in seen.instances:
        found.mends.releases.append(consumer.uuid)
    else:
        found.mends.holdings[consumer.uuid] = {}
    found.add("claim_expired", why, "releases it", safe=True, **what)


def examine_migrations(seen, found, now):
    """Note open migrations that nothing was written of for long."""
    for rows in seen.open.values():
        for row in rows:
            age = now - row.updated_at
            if age > OLD_MIGRATION:
                found.add(
                    "migration_old",
                    f"Its migration from {row.source} to {row.destination} is {row.status} since {age / 3600:.0f} h.",
                    "leaves it: it may be under way",
                    uuid=row.instance_uuid,
                    name=row.instance_name,
                    host=row.source,
                )
