# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files and devices that domains need, on all hosts, and other users of one.

A folder that a domain has with all that is in it stands here with a slash at the end of its path
and of its identity.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ..._common import storage_identity
from ..._records.hosts import NodeStorage, StorageFacts
from ..database import bulk
from ..database.sql import Connection, sa
from ..schema import tables

_LONGEST = 1024

#: A file by its path and its identity on shared storage; a file counts by either.
FileName = tuple[str, str | None]
#: A file name, and True if a domain writes to the file.
Use = tuple[str, str | None, bool]


def _key(text: str) -> str:
    """Return a name as the table has it: its digest if it is too long for an index."""
    if len(text) <= _LONGEST:
        return text
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def write(
    connection: Connection,
    wanted: Mapping[int, Mapping[str, Iterable[Use]]],
    leaving: Collection[str] = (),
    attaching: Collection[str] = (),
) -> None:
    """Replace the files of nodes' domains, without writing rows that do not change.

    :param wanted: {node id: {uuid: files}}.
    :param leaving: uuids with an open migration; their files are kept if they are not in
        ``wanted``.
    :param attaching: uuids that get a disk just now; all their files are kept.
    """
    table = tables.domain_files
    existing: dict[tuple[int, str], dict[Use, int]] = {}
    for row in bulk.among(connection, bulk.select(table), table.c.compute_node_id, wanted):
        existing.setdefault((row.compute_node_id, row.uuid), {})[
            (row.path, row.identity, row.written)
        ] = row.id
    gone: list[int] = []
    new: list[dict[str, object]] = []
    for node, domains in wanted.items():
        for uuid, uses in domains.items():
            of_domain = existing.pop((node, uuid), {})
            names = _keys(uses)
            gone += [
                row
                for name, row in of_domain.items()
                if name not in names and uuid not in attaching
            ]
            new += [_row(node, uuid, *name) for name in sorted(names - of_domain.keys(), key=str)]
    gone += [
        row
        for (dummy, uuid), known in existing.items()
        if uuid not in leaving
        for row in known.values()
    ]
    bulk.delete(connection, table, table.c.id, gone)
    bulk.insert(connection, table, new)


def write_one(connection: Connection, node_id: int, uuid: str, uses: Iterable[Use]) -> None:
    """Replace the files of one domain of a node, as write() does."""
    _write_one(connection, node_id, uuid, uses)


def reserve(connection: Connection, node_id: int, uuid: str, uses: Iterable[Use]) -> None:
    """Add files to the files of one domain of a node, before the domain gets them."""
    _write_one(connection, node_id, uuid, uses, keep=True)


def _write_one(
    connection: Connection, node_id: int, uuid: str, uses: Iterable[Use], keep: bool = False
) -> None:
    table = tables.domain_files
    query = sa.select(table).where(table.c.uuid == uuid, table.c.compute_node_id == node_id)
    existing = {(row.path, row.identity, row.written): row.id for row in connection.execute(query)}
    names = _keys(uses)
    bulk.delete(
        connection,
        table,
        table.c.id,
        [row for name, row in existing.items() if name not in names and not keep],
    )
    bulk.insert(
        connection,
        table,
        [_row(node_id, uuid, *name) for name in sorted(names - existing.keys(), key=str)],
    )


def _keys(uses: Iterable[Use]) -> set[Use]:
    return {(_key(path), identity and _key(identity), written) for path, identity, written in uses}


def _row(node: int, uuid: str, path: str, identity: str | None, written: bool) -> dict[str, Any]:
    return {
        "compute_node_id": node,
        "uuid": uuid,
        "path": path,
        "identity": identity,
        "written": written,
    }


def move(connection: Connection, uuid: str, from_node: int | None, to_node: int) -> None:
    """Move the files of a domain to another node, together with the domain."""
    table = tables.domain_files
    if from_node != to_node:
        connection.execute(
            sa.delete(table).where(table.c.uuid == uuid, table.c.compute_node_id == to_node)
        )
        query = sa.update(table).where(table.c.uuid == uuid, table.c.compute_node_id == from_node)
        connection.execute(query.values(compute_node_id=to_node))


def forget(connection: Connection, uuids: Iterable[str]) -> None:
    """Remove the files of removed domains."""
    bulk.delete(connection, tables.domain_files, tables.domain_files.c.uuid, uuids)


def of_instances(connection: Connection, uuids: Collection[str]) -> dict[str, set[FileName]]:
    """Read the files of instances, on all nodes that showed them."""
    table = tables.domain_files
    names: dict[str, set[FileName]] = {uuid: set() for uuid in uuids}
    query = bulk.select(table.c.uuid, table.c.path, table.c.identity)
    for row in bulk.among(connection, query, table.c.uuid, uuids):
        names[row.uuid].add((row.path, row.identity))
    return names


def only_read(connection: Connection, uuids: Collection[str]) -> dict[str, set[str]]:
    """Read the paths of the images behind the disks of instances and of their kernels and the like,
    without their disks themselves.

    Thousands of instances may have them, and they are never removed with one.
    """
    table = tables.domains
    paths: dict[str, set[str]] = {uuid: set() for uuid in uuids}
    for row in bulk.among(
        connection, bulk.select(table.c.uuid, table.c.facts), table.c.uuid, uuids
    ):
        disks, others = row.facts.get("disks") or [], row.facts.get("other_files") or []
        own = {
            name
            for disk in disks
            for name in (disk.get("path") or disk.get("source"), disk.get("real_path"))
        }
        read = [layer for each in (*disks, *others) for layer in each.get("chain") or []]
        read += [each for each in others if not each.get("written")]
        paths[row.uuid] |= {
            name for each in read for name in (each.get("path"), each.get("real_path"))
        } - own
    return paths


def needed(
    connection: Connection, names: Iterable[FileName], but_host: str
) -> list[dict[str, Any]]:
    """Find the files that instances of other hosts need.

    :param but_host: the host that does not count.
    :returns: for each file a dict with path and identity (as the others have them), and the least
        and the greatest uuid of its users as first and last.
    """
    table, nodes = tables.domain_files, tables.compute_nodes
    query = (
        sa.select(
            table.c.path,
            table.c.identity,
            sa.func.min(table.c.uuid).label("first"),
            sa.func.max(table.c.uuid).label("last"),
        )
        .join(nodes, nodes.c.id == table.c.compute_node_id)
        .where(nodes.c.host != but_host)
        .group_by(table.c.path, table.c.identity)
    )
    chosen = sorted(set().union(*(keys_of(*name) for name in names)))
    return [
        dict(row._mapping)
        for start in range(0, len(chosen), bulk.NAMED_VALUES)
        for row in connection.execute(
            query.where(_among(chosen[start : start + bulk.NAMED_VALUES]))
        )
    ]


def user(
    connection: Connection,
    path: str,
    identity: str | None,
    but: str,
    writes: bool = False,
    but_host: str | None = None,
) -> dict[str, Any] | None:
    """Find another instance that needs a file.

    :param but: the uuid of the instance that does not count.
    :param writes: only an instance that may write to it.
    :param but_host: a host with instances that do not count.
    :returns: a dict with uuid, name and host; None without one.
    """
    table, nodes, domains = tables.domain_files, tables.compute_nodes, tables.domains
    query = (
        sa.select(table.c.uuid, domains.c.name, nodes.c.host)
        .join(nodes, nodes.c.id == table.c.compute_node_id)
        .outerjoin(
            domains,
            sa.and_(
                domains.c.uuid == table.c.uuid, domains.c.compute_node_id == table.c.compute_node_id
            ),
        )
        .where(_among(keys_of(path, identity)), table.c.uuid != but)
        .limit(1)
    )
    if writes:
        query = query.where(table.c.written)
    if but_host is not None:
        query = query.where(nodes.c.host != but_host)
    row = connection.execute(query).one_or_none()
    return None if row is None else dict(row._mapping)


def user_of_origin(
    connection: Connection, origin: str, name: str, but: str
) -> dict[str, object] | None:
    """Find another instance that has a disk on the network.

    :param origin: the origin of the disk, as in the facts of domains.
    :param name: its name on its server, which the facts of each such domain have in them.
    :param but: the uuid of the instance that does not count.
    :returns: a dict with uuid, name and host; None without one.
    """
    domains, nodes = tables.domains, tables.compute_nodes
    query = (
        sa.select(domains.c.uuid, domains.c.name, domains.c.facts, nodes.c.host)
        .join(nodes, nodes.c.id == domains.c.compute_node_id)
        .where(
            domains.c.uuid != but, sa.cast(domains.c.facts, sa.Text).contains(name, autoescape=True)
        )
    )
    for row in connection.execute(query):
        if any(disk.get("origin") == origin for disk in row.facts.get("disks") or ()):
            return {"uuid": row.uuid, "name": row.name, "host": row.host}
    return None


def holders(connection: Connection, ending: str) -> dict[str, str]:
    """Find hosts that have a file that their domains only read.

    :param ending: the end of its path, such as ``/_base/DIGITS``.
    :returns: {host: path there}.
    """
    table, nodes = tables.domain_files, tables.compute_nodes
    query = (
        sa.select(nodes.c.host, sa.func.min(table.c.path).label("path"))
        .join(nodes, nodes.c.id == table.c.compute_node_id)
        .where(table.c.path.endswith(ending, autoescape=True), sa.not_(table.c.written))
        .group_by(nodes.c.host)
    )
    return {row.host: row.path for row in connection.execute(query)}


def _among(keys: Iterable[str]) -> sa.ColumnElement[bool]:
    table, keys = tables.domain_files, sorted(keys)
    return sa.or_(table.c.path.in_(keys), table.c.identity.in_(keys))


def keys_of(path: str, identity: str | None) -> set[str]:
    """Return the names that rows about a file have, as path or identity: its own names, and the
    names of the folders that contain it.
    """
    names = [path, identity] if identity else [path]
    return {_key(each) for name in names for each in (name, *storage_identity.folders_above(name))}


def nodes_of(
    connection: Connection, keys: Collection[tuple[str, str | None]]
) -> dict[tuple[str, str | None], NodeStorage]:
    """Read the storage of nodes.

    :param keys: pairs (host, name of the node); a name of None means any node of the host.
    """
    table = tables.compute_nodes
    query = bulk.select(table.c.host, table.c.hypervisor_hostname, table.c.facts)
    rows = bulk.among(connection, query, table.c.host, {host for host, dummy in keys})
    storages: dict[tuple[str, str | None], NodeStorage] = {
        (row.host, row.hypervisor_hostname): storage_of(row.facts) for row in rows
    }
    storages.update({(host, None): each for (host, dummy), each in list(storages.items())})
    return {
        key: storages.get(key) or storages.get((key[0], None)) or storage_of(None) for key in keys
    }


def storage_of(facts: Mapping[str, Any] | None) -> NodeStorage:
    """Reduce a node's facts to its storage."""
    facts = facts or {}
    return {
        "storage": facts.get("storage") or StorageFacts(),
        "pools": facts.get("pools") or [],
        "mounts": facts.get("mounts") or [],
        "block_devices": facts.get("block_devices") or [],
        "shared_block_devices": facts.get("shared_block_devices") or [],
        "images": facts.get("images") or [],
    }
