# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stored facts of all hosts that answer, for a comparison of the hosts with each other: one
query.
"""

from __future__ import annotations

from typing import NamedTuple

from ..._records.fleet_cpus import FleetCpu
from ..database.sql import Connection, sa
from ..schema import tables


class RecordedHost(NamedTuple):
    """The first compute node of a host. fleet_cpu: the CPU of its guests; features: the features
    that it can give them, with a fleet_cpu only.
    """

    hypervisor_hostname: str
    hypervisor_version: int | None
    libvirt_version: int | None
    host_uuid: str | None
    addresses: list[str] | None
    migration_address: str | None
    missing_drivers: list[dict[str, str | None]]
    fleet_cpu: FleetCpu | None
    features: list[str]


_OWN = (
    "hypervisor_hostname",
    "hypervisor_version",
    "libvirt_version",
    "host_uuid",
    "addresses",
    "migration_address",
)


def read(connection: Connection) -> dict[str, RecordedHost]:
    """Read the recorded hosts, by name."""
    nodes, services, cpus = tables.compute_nodes.c, tables.services.c, tables.fleet_cpus.c
    model = {
        key: sa.func.coalesce(nodes.host_model[key].as_string(), "")
        for key in ("arch", "type", "vendor")
    }
    same = sa.and_(
        cpus.cell == sa.func.coalesce(nodes.cell, ""),
        cpus.arch == model["arch"],
        cpus.domain_type == model["type"],
        cpus.vendor == model["vendor"],
    )
    query = (
        sa.select(
            nodes.host,
            nodes.hypervisor_hostname,
            nodes.hypervisor_version,
            nodes.facts["libvirt_version"].label("libvirt_version"),
            nodes.facts["host_uuid"].as_string().label("host_uuid"),
            nodes.facts["addresses"].label("addresses"),
            nodes.facts["missing_drivers"].label("missing_drivers"),
            nodes.migration_address,
            cpus.cpu,
            cpus.hosts,
            cpus.created_at,
            sa.case((cpus.cpu.is_not(None), nodes.host_model)).label("host_model"),
        )
        .join(tables.services, services.id == nodes.service_id)
        .outerjoin(tables.fleet_cpus, same)
        .where(nodes.reported, services.last_error.is_(None))
        .order_by(nodes.host, nodes.hypervisor_hostname)
    )
    by_host: dict[str, RecordedHost] = {}
    for row in connection.execute(query):
        kept: FleetCpu | None = (
            {"cpu": row.cpu, "hosts": row.hosts, "created_at": row.created_at} if row.cpu else None
        )
        features: list[str] = (row.host_model or {}).get("features") or []
        own = {name: getattr(row, name) for name in _OWN}
        drivers = row.missing_drivers or []
        by_host.setdefault(
            row.host,
            RecordedHost(**own, missing_drivers=drivers, fleet_cpu=kept, features=features),
        )
    return by_host
