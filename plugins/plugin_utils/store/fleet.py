# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What administrators and planners ask about hosts beside the columns of host_columns.py."""

from __future__ import annotations

try:
    import sqlalchemy as sa
except ImportError:
    sa = None

from ansible_collections.drover.compute.plugins.plugin_utils.store import tables

ZONE_KEY = "availability_zone"


def read_zones(connection):
    """The availability zones of hosts, from the metadata of their aggregates.

    :returns: dict host -> sorted list of zones.
    """
    aggregates, hosts = tables.aggregates, tables.aggregate_hosts
    query = sa.select(hosts.c.host, aggregates.c.metadata).join(aggregates, aggregates.c.id == hosts.c.aggregate_id)
    zones = {}
    for row in connection.execute(query):
        zone = row.metadata.get(ZONE_KEY)
        if zone:
            zones.setdefault(row.host, set()).update(part.strip() for part in zone.split(","))
    return {host: sorted(names) for host, names in zones.items()}


def read_host_instances(connection, host):
    """The instances of one host with what a planner needs to know of them.

    :returns: a list of dicts sorted by name: uuid, name, node, state (of the domain, or building or
        missing), vcpus, memory_mb, disk_gb, server_group, availability_zone, project, user, flavor (its
        name), extra_specs (of the flavor as it is now), image (its properties), and of the domain:
        persistent, autostart, disks, hostdevs, managed_save, snapshots.
    """
    instances, nodes, domains, groups = tables.instances, tables.compute_nodes, tables.domains, tables.server_groups
    flavors = tables.flavors
    query = (
        sa.select(
            instances,
            nodes.c.hypervisor_hostname,
            groups.c.name.label("group_name"),
            flavors.c.extra_specs,
            domains.c.state.label("domain_state"),
            domains.c.persistent,
            domains.c.autostart,
            domains.c.facts,
        )
        .join(nodes, nodes.c.id == instances.c.compute_node_id)
        .outerjoin(groups, groups.c.id == instances.c.server_group_id)
        .outerjoin(flavors, flavors.c.name == instances.c.flavor)
        .outerjoin(
            domains,
            sa.and_(domains.c.uuid == instances.c.uuid, domains.c.compute_node_id == instances.c.compute_node_id),
        )
        .where(nodes.c.host == host)
        .order_by(instances.c.name, instances.c.uuid)
    )
    found = []
    for row in connection.execute(query):
        facts = row.facts or {}
        found.append(
            {
                "uuid": row.uuid,
                "name": row.name,
                "node": row.hypervisor_hostname,
                "state": row.domain_state if row.state == "active" and row.domain_state else row.state,
                "vcpus": row.vcpus,
                "memory_mb": row.memory_mb,
                "disk_gb": row.disk_gb,
                "server_group": row.group_name,
                "availability_zone": row.availability_zone,
                "project": row.project,
                "user": row.user,
                "flavor": row.flavor,
                "extra_specs": row.extra_specs or {},
                "image": row.image,
                "persistent": bool(row.persistent) if row.persistent is not None else True,
                "autostart": bool(row.autostart),
                "disks": facts.get("disks", []),
                "hostdevs": facts.get("hostdevs", []),
                "managed_save": bool(facts.get("managed_save")),
                "snapshots": bool(facts.get("snapshots")),
            }
        )
    return found
