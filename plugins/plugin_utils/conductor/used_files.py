# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a hypervisor has to know of other hosts before it makes, moves or removes files of an instance."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils import storage_identity
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.store import files


def elsewhere(connection, uuid, host, paths=()):
    """The disks of an instance that instances of other hosts need too: a sorted list of paths, as its host has them.

    :param paths: more of its files than those that the store has seen.
    """
    names = _own(connection, [uuid])[uuid] | _named(connection, host, paths)
    return _meant(names, files.needed(connection, names, host), uuid)


def refuse_taken(connection, uuid, name, host, paths):
    """Refuse to build an instance with a disk that is another's, on whichever host.

    :raises DroverError: nothing was begun then.
    """
    for path, user in _users(connection, uuid, host, paths):
        raise _nothing_begun(
            f"Instance {name} on {host}: its disk {path} is a file that {user} uses. Nothing was begun: give it another path", host
        )


def refuse_written(connection, uuid, name, host, images):
    """Refuse to back a disk by what an instance of any host writes to, running or shut off: each write would destroy the new one.

    :raises DroverError: nothing was begun then.
    """
    for path, user in _users(connection, uuid, host, images, writes=True):
        raise _nothing_begun(
            f"Instance {name} on {host}: the image {path} is a disk that {user} writes to, and whatever is backed by it is destroyed by "
            "that. Nothing was begun: give it a copy of that image",
            host,
        )


def _users(connection, uuid, host, paths, writes=False):
    """Pairs of a path and the words for another instance that needs it, or may write to it."""
    for path, identity in sorted(_named(connection, host, paths), key=str):
        user = files.user(connection, path, identity, uuid, writes)
        if user is not None:
            yield path, f"{user['name'] or user['uuid']} on {user['host']}"


def _nothing_begun(sentence, host):
    advice = "or run drover.compute.discover if that instance does not have it any more."
    return DroverError(f"{sentence}, {advice}", host=host, uncertain=False)


def of_moves(connection, orders):
    """What the sources of moves have to know of their destinations and of the store.

    :param orders: dicts uuid, source and destination (hosts).
    :returns: dict uuid -> options of domain_migration: used_elsewhere, shared_folders, devices_there, images_there.
    """
    needed = files.of_instances(connection, [order["uuid"] for order in orders])
    own, rows = _own(connection, needed, needed), {}
    for source in sorted({order["source"] for order in orders}):
        disks = [own[order["uuid"]] for order in orders if order["source"] == source]
        rows[source] = files.needed(connection, set().union(*disks), source)
    hosts = files.nodes_of(connection, {(order[end], None) for order in orders for end in ("source", "destination")})
    found = {}
    for order in orders:
        here, there = (hosts[(order[end], None)] for end in ("source", "destination"))
        paths = {path for path, dummy in needed[order["uuid"]]}
        found[order["uuid"]] = {
            "used_elsewhere": _meant(own[order["uuid"]], rows[order["source"]], order["uuid"]),
            "shared_folders": sorted({pool["path"] for pool in here["pools"] if pool.get("path") and pool.get("shared_id")}),
            "devices_there": _devices(paths, here, there),
            "images_there": [image for image in there["images"] if image["path"] in paths],
        }
    return found


def _own(connection, uuids, needed=None):
    """The disks of instances without what is behind them, which is never removed with them: dict uuid -> set of (path, identity)."""
    needed = files.of_instances(connection, uuids) if needed is None else needed
    behind = files.behind_disks(connection, uuids)
    return {uuid: {name for name in names if name[0] not in behind[uuid]} for uuid, names in needed.items()}


def _named(connection, host, paths):
    if not paths:
        return set()
    node = files.nodes_of(connection, [(host, None)])[(host, None)]
    return {(path, storage_identity.of_path(path, node) or storage_identity.of_device(path, node)) for path in paths}


def _meant(names, rows, uuid):
    """Those of the names, as paths, that rows are about of which not only the instance itself is the reason."""
    others = [row for row in rows if {row["first"], row["last"]} != {uuid}]
    return sorted({path for path, identity in names if any(files.is_meant(row, path, identity) for row in others)})


def _devices(paths, here, there):
    """By which name the destination knows devices: the worldwide one, or that the operator declares them on both hosts."""
    found = {}
    for path in paths:
        if not path.startswith("/dev/"):
            continue
        if storage_identity.is_declared(path, here) and storage_identity.is_declared(path, there):
            found[path] = "declared"
        else:
            known = storage_identity.of_device(path, {"block_devices": there["block_devices"]})
            if known:
                found[path] = known[len(storage_identity.DEVICE) :]
    return found
