# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stored CPUs of groups of hosts, so that each instance of a group gets the same CPU; and the
CPUs that the hosts can give.
"""

from __future__ import annotations

from collections.abc import Collection

from ..._records.fleet_cpus import CpuGroup, FleetCpu, HostModel, group_of
from ..database import bulk
from ..database.sql import Connection, sa
from ..schema import tables

#: The hypervisor_type of hosts with a libvirt that has models of CPUs.
_QEMU = "QEMU"


def read(connection: Connection) -> dict[CpuGroup, FleetCpu]:
    """Read all that are kept."""
    table = tables.fleet_cpus
    return {
        CpuGroup(row.cell, row.arch, row.domain_type, row.vendor): {
            "cpu": row.cpu,
            "hosts": row.hosts,
            "created_at": row.created_at,
        }
        for row in connection.execute(sa.select(table))
    }


def keep(connection: Connection, group: CpuGroup, found: FleetCpu) -> FleetCpu:
    """Keep the CPU of a group that has none, and return the one that is kept."""
    recorded = read(connection).get(group)
    if recorded is None:
        replace(connection, group, found)
    return recorded or found


def replace(connection: Connection, group: CpuGroup, found: FleetCpu) -> None:
    """Keep this CPU of a group in place of the one that it has."""
    forget(connection, group)
    connection.execute(sa.insert(tables.fleet_cpus).values(**group._asdict(), **found))


def forget(connection: Connection, group: CpuGroup) -> None:
    """Delete the CPU of a group."""
    table = tables.fleet_cpus
    connection.execute(
        sa.delete(table).where(*(table.c[name] == value for name, value in group._asdict().items()))
    )


def host_models(connection: Connection, hosts: Collection[str] | None = None) -> list[HostModel]:
    """Read the CPUs that compute nodes of QEMU can give their guests, by host and node.

    :param hosts: the only hosts; None for all hosts.
    """
    table = tables.compute_nodes
    names = ("host", "hypervisor_hostname", "uri", "cell", "hypervisor_version", "host_model")
    # The architecture of a node that has it nowhere else, and nothing more of its large cpu_info.
    arch = sa.case((table.c.host_model.is_(None), table.c.cpu_info["arch"].as_string()))
    query = sa.select(*(table.c[name] for name in names), arch.label("arch")).where(
        table.c.hypervisor_type == _QEMU, table.c.reported
    )
    rows = (
        connection.execute(query).all()
        if hosts is None
        else bulk.among(connection, query, table.c.host, hosts)
    )
    return [
        {
            "host": row.host,
            "node": row.hypervisor_hostname,
            "uri": row.uri,
            "group": group_of(row.cell, row.host_model),
            "cell": row.cell or "",
            "arch": row.host_model["arch"] if row.host_model else row.arch,
            "features": frozenset((row.host_model or {}).get("features") or ()),
            "hypervisor_version": row.hypervisor_version or 0,
        }
        for row in sorted(rows, key=lambda row: (row.host, row.hypervisor_hostname))
    ]
