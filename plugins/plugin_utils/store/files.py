# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files and devices domains need, on whichever hosts, and who else needs one."""

from __future__ import annotations

import hashlib

from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa

_LONGEST = 1024


def _key(text):
    """A name as the table has it: one that is too long for an index by its digest."""
    if text is None or len(text) <= _LONGEST:
        return text
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def write(connection, wanted, leaving=()):
    """Replace what nodes' domains need, without touching what is as it was.

    :param wanted: dict node id -> dict uuid -> set of (path, identity or None, whether the domain writes to it).
    :param leaving: uuids with an open migration: of those that are not in wanted, what was there is kept.
    """
    table, there = tables.domain_files, {}
    for row in bulk.among(connection, sa.select(table), table.c.compute_node_id, wanted):
        there.setdefault((row.compute_node_id, row.uuid), {})[(row.path, row.identity, row.written)] = row.id
    gone, new = [], []
    for node, domains in wanted.items():
        for uuid, names in domains.items():
            known = there.pop((node, uuid), {})
            names = _keys(names)
            gone += [row for name, row in known.items() if name not in names]
            new += [_row(node, uuid, *name) for name in sorted(names - known.keys(), key=str)]
    gone += [row for (dummy, uuid), known in there.items() if uuid not in leaving for row in known.values()]
    bulk.delete(connection, table, table.c.id, gone)
    bulk.insert(connection, table, new)


def write_one(connection, node_id, uuid, names):
    """The same of one domain of a node."""
    table = tables.domain_files
    query = sa.select(table).where(table.c.uuid == uuid, table.c.compute_node_id == node_id)
    known = {(row.path, row.identity, row.written): row.id for row in connection.execute(query)}
    names = _keys(names)
    bulk.delete(connection, table, table.c.id, [row for name, row in known.items() if name not in names])
    bulk.insert(connection, table, [_row(node_id, uuid, *name) for name in sorted(names - known.keys(), key=str)])


def _keys(names):
    return {(_key(path), _key(identity), written) for path, identity, written in names}


def _row(node, uuid, path, identity, written):
    return {"compute_node_id": node, "uuid": uuid, "path": path, "identity": identity, "written": written}


def move(connection, uuid, from_node, to_node):
    """A domain has gone from one node to another, and its files with it or to its sight."""
    table = tables.domain_files
    if from_node != to_node:
        connection.execute(sa.delete(table).where(table.c.uuid == uuid, table.c.compute_node_id == to_node))
        query = sa.update(table).where(table.c.uuid == uuid, table.c.compute_node_id == from_node)
        connection.execute(query.values(compute_node_id=to_node))


def forget(connection, uuids):
    """Domains that are removed need nothing any more."""
    bulk.delete(connection, tables.domain_files, tables.domain_files.c.uuid, uuids)


def of_instances(connection, uuids):
    """What instances need, wherever they were seen: dict uuid -> set of (path, identity or None)."""
    table, found = tables.domain_files, {uuid: set() for uuid in uuids}
    query = sa.select(table.c.uuid, table.c.path, table.c.identity)
    for row in bulk.among(connection, query, table.c.uuid, uuids):
        found[row.uuid].add((row.path, row.identity))
    return found


def behind_disks(connection, uuids):
    """The paths of what is behind the disks of instances, and is no disk of theirs itself: dict uuid -> set."""
    table, found = tables.domains, {uuid: set() for uuid in uuids}
    for row in bulk.among(connection, sa.select(table.c.uuid, table.c.facts), table.c.uuid, uuids):
        disks = row.facts.get("disks") or []
        own = {name for disk in disks for name in (disk.get("path") or disk.get("source"), disk.get("real_path"))}
        layers = [layer for disk in disks for layer in disk.get("chain") or []]
        found[row.uuid] |= {name for layer in layers for name in (layer["path"], layer.get("real_path"))} - own
    return found


def needed(connection, names, but_host):
    """Which files instances of other hosts need: one row for each, whoever many need it.

    :param names: a set of (path, identity or None): a file counts by either.
    :param but_host: the host that is not meant.
    :returns: a list of dicts: path and identity (as the others have them), first and last (uuids of those that need it).
    """
    table, nodes = tables.domain_files, tables.compute_nodes
    query = (
        sa.select(table.c.path, table.c.identity, sa.func.min(table.c.uuid).label("first"), sa.func.max(table.c.uuid).label("last"))
        .join(nodes, nodes.c.id == table.c.compute_node_id)
        .where(nodes.c.host != but_host)
        .group_by(table.c.path, table.c.identity)
    )
    names = sorted(names, key=str)
    return [
        dict(row._mapping)
        for start in range(0, len(names), bulk.NAMED_VALUES)
        for row in connection.execute(query.where(_among(names[start : start + bulk.NAMED_VALUES])))
    ]


def user(connection, path, identity, but, writes=False):
    """An instance that needs a file: a dict uuid, name and host; None when there is none but one.

    :param but: the uuid of the instance that is not meant.
    :param writes: only one that may write to it.
    """
    table, nodes, domains = tables.domain_files, tables.compute_nodes, tables.domains
    query = (
        sa.select(table.c.uuid, domains.c.name, nodes.c.host)
        .join(nodes, nodes.c.id == table.c.compute_node_id)
        .outerjoin(domains, sa.and_(domains.c.uuid == table.c.uuid, domains.c.compute_node_id == table.c.compute_node_id))
        .where(_among([(path, identity)]), table.c.uuid != but)
        .limit(1)
    )
    if writes:
        query = query.where(table.c.written)
    row = connection.execute(query).one_or_none()
    return None if row is None else dict(row._mapping)


def _among(names):
    table = tables.domain_files
    paths = sorted({_key(path) for path, dummy in names})
    identities = sorted({_key(identity) for dummy, identity in names if identity})
    return sa.or_(table.c.path.in_(paths), table.c.identity.in_(identities)) if identities else table.c.path.in_(paths)


def is_meant(row, path, identity):
    """Whether a row of needed() is about a file."""
    return row["path"] == _key(path) or (identity is not None and row["identity"] == _key(identity))


def nodes_of(connection, keys):
    """What nodes say of their storage.

    :param keys: pairs (host, name of the node); a name of None is any of the host's nodes.
    :returns: dict (host, name) -> as storage_of() has it.
    """
    table = tables.compute_nodes
    query = sa.select(table.c.host, table.c.hypervisor_hostname, table.c.facts)
    rows = bulk.among(connection, query, table.c.host, {host for host, dummy in keys})
    found = {(row.host, row.hypervisor_hostname): storage_of(row.facts) for row in rows}
    found.update({(host, None): each for (host, dummy), each in list(found.items())})
    return {key: found.get(key) or found.get((key[0], None)) or storage_of(None) for key in keys}


def storage_of(facts):
    """Those of a node's facts that tell one file from another: dict pools, storage, mounts, block_devices, shared_block_devices, images."""
    facts = facts or {}
    lists = ("pools", "mounts", "block_devices", "shared_block_devices", "images")
    return {"storage": facts.get("storage") or {}, **{name: facts.get(name) or [] for name in lists}}
