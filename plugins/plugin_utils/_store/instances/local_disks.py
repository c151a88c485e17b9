# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disks of instances that are only on storage of the host, so that a move copies them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ansible_collections.drover.compute.plugins.module_utils._storage import kinds
from ansible_collections.drover.compute.plugins.module_utils._storage.kinds import Source

from ..._common import storage_identity
from ..._records.instances import Disk, PlannedInstance
from ..._records.plans import DiskMove, LocalDisks
from ..database import bulk
from ..database.sql import Connection, sa
from ..schema import tables
from . import files


def read(connection: Connection, instances: Sequence[PlannedInstance]) -> dict[str, LocalDisks]:
    """Read the disks of instances that a move copies, by uuid, as far as the store knows."""
    names = files.of_instances(connection, [each["uuid"] for each in instances])
    by_uuid = {
        each["uuid"]: _of_files(storage_identity.all_disks(each), names[each["uuid"]])
        for each in instances
        if each["disks"]
    }
    # Hosts that are recorded as data may have sizes only.
    by_uuid.update(
        _of_sizes(connection, [each for each in instances if not each["disks"] and each["disk_gb"]])
    )
    return by_uuid


def _of_files(disks: Sequence[Disk], names: Collection[files.FileName]) -> LocalDisks:
    mib, unknown, moves = 0, [], list[DiskMove]()
    for disk in disks:
        path = disk.get("path") or disk.get("source")
        which = f"its disk {disk.get('target') or path or 'without a name'}"
        kind = kinds.disk(disk.get("type", "file"))
        if disk.get("readonly") or not path or kind.stays:
            continue
        capacity = disk.get("capacity_bytes")
        move = DiskMove(
            target=disk.get("target"),
            source=str(path),
            how="shared",
            mib=0,
            virtual_mib=capacity >> 20 if capacity else None,
        )
        moves.append(move)
        # A disk on the network is never copied.
        if kind.source is Source.SERVER:
            continue
        if kind.source is Source.VOLUME and not disk.get("path"):
            move["how"], move["mib"] = "unknown", None
            unknown.append(f"where {which} is")
        elif (path, None) in names:
            # A device is copied as a whole, whatever the guest has written.
            written = None if str(path).startswith("/dev/") else disk.get("allocation_bytes")
            size = written or disk.get("capacity_bytes")
            mib += (size or 0) >> 20
            move["how"], move["mib"] = "copied", size >> 20 if size else None
            if not size:
                unknown.append(f"the size of {which}")
            elif disk.get("chain"):
                # A copy has no images behind it: it contains their data.
                unknown.append(f"the size of the images behind {which}")
    return LocalDisks(mib, tuple(unknown), tuple(moves))


def _of_sizes(
    connection: Connection, instances: Sequence[PlannedInstance]
) -> dict[str, LocalDisks]:
    """Return the disks of instances without a list of disks: the sum of their allocations of
    DISK_GB on their own compute node.
    """
    providers, nodes = tables.resource_providers, tables.compute_nodes
    roots = providers.alias()
    query = sa.select(providers.c.uuid, sa.func.coalesce(roots.c.uuid, providers.c.uuid)).outerjoin(
        roots, roots.c.id == providers.c.root_id
    )
    holding = {
        uuid
        for each in instances
        for uuid, amounts in each.get("allocations", {}).items()
        if amounts.get("DISK_GB")
    }
    root = {row[0]: row[1] for row in bulk.among(connection, query, providers.c.uuid, holding)}
    query = bulk.select(nodes.c.uuid, nodes.c.host, nodes.c.hypervisor_hostname)
    node = {
        (row.host, row.hypervisor_hostname): row.uuid
        for row in bulk.among(connection, query, nodes.c.host, {i["host"] for i in instances})
    }
    by_uuid = {}
    for instance in instances:
        own = node[instance["host"], instance["node"]]
        amounts = [
            held.get("DISK_GB", 0)
            for uuid, held in instance.get("allocations", {}).items()
            if root.get(uuid) == own
        ]
        by_uuid[instance["uuid"]] = LocalDisks(sum(amounts) * 1024)
    return by_uuid
