# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of one domain after an order, in the caller's transaction."""

from __future__ import annotations

from typing import Any

from .._common.errors import DroverError
from .._placement import allocations
from .._store.engine import Connection
from .._store.hosts import compute_nodes
from .._store.instances import files, instances
from .domain import DomainReport, needs
from .record_hardware import Hardware


def record_built(
    connection: Connection, uuid: str, host: str, domain: DomainReport, now: float
) -> bool:
    """Record that the instance of a claim has its domain on a host.

    :returns: True when the store did not know it yet.
    :raises DroverError: the instance has no claim on that host.
    """
    # A second run that records the instance waits: both replace the rows of its domain.
    row = instances.hold(connection, uuid)
    node = instances.place(connection, uuid)
    if row is None or node is None or node.host != host:
        where = node.host if node is not None else "no host"
        raise DroverError(
            f"Instance {domain['columns']['name']} ({uuid}) was built on {host}, but the store has"
            f" its claim on {where}. Run drover.compute.discover, which records what really runs."
        )
    _write_domain(connection, node, domain, now)
    Hardware.of_node(connection, node, domain).write_one()
    allocations.confirm(connection, [uuid])
    compute_nodes.clear_failed_builds(connection, node)
    instances.set_policy(connection, row, domain["policy"])
    instances.set_labels(connection, uuid, domain["labels"])
    if row.state == "active":
        return False
    instances.set_state(connection, [row], "active")
    return True


def record_seen(
    connection: Connection, uuid: str, host: str, domain: DomainReport, now: float
) -> None:
    """Record the new report of a host on an instance, if the instance is recorded there."""
    instances.hold(connection, uuid)
    node = instances.place(connection, uuid)
    if node is not None and node.host == host:
        _write_domain(connection, node, domain, now)
        instances.set_labels(connection, uuid, domain["labels"])


def _write_domain(connection: Connection, node: Any, domain: DomainReport, now: float) -> None:
    uses = needs(domain, node.facts or {})
    compute_nodes.write_domain(connection, node.id, domain, now)
    files.write_one(connection, node.id, domain["columns"]["uuid"], uses)
