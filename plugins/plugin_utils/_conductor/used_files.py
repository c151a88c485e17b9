# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of other hosts that a hypervisor must know before it makes, moves or removes files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from ansible_collections.drover.compute.plugins.module_utils._domain.facts import DomainDisk

from .._common import storage_identity
from .._common.errors import DroverError
from .._records.hosts import NodeStorage
from .._store.engine import Connection
from .._store.instances import files

#: The path of a file, and its identity on shared storage; None for a file of one host alone.
Name = tuple[str, str | None]


def elsewhere(
    connection: Connection, uuid: str, host: str, paths: Collection[str] = ()
) -> list[str]:
    """Return the paths of an instance's disks that instances of other hosts also need.

    :param paths: further files of the instance that the store has not seen.
    """
    names = own(connection, [uuid])[uuid] | _names_of_files(connection, host, paths)
    return _meant(names, files.needed(connection, names, host), uuid)


def of_instance(connection: Connection, uuid: str) -> list[str]:
    """Return the paths of the disks of an instance at its last report, sorted."""
    return sorted({path for path, _identity in own(connection, [uuid])[uuid]})


def refuse_taken(
    connection: Connection, uuid: str, name: str, host: str, paths: Collection[str]
) -> None:
    """Refuse to build an instance with a disk that belongs to another instance on any host."""
    for path, user in _users(connection, uuid, host, paths):
        raise _nothing_begun(
            f"Instance {name} on {host}: its disk {path} is a file that {user} uses. Nothing was"
            " begun: give it another path",
            host,
        )


def refuse_taken_origins(
    connection: Connection, uuid: str, name: str, host: str, disks: Collection[DomainDisk]
) -> None:
    """Refuse to build an instance with a disk on the network that another instance has.

    :param disks: disks as in the facts of a domain.
    """
    for disk in disks:
        if disk.get("origin"):
            user = files.user_of_origin(
                connection, str(disk["origin"]), str(disk["source"]).partition(":")[2], uuid
            )
            if user is not None:
                raise _nothing_begun(
                    f"Instance {name} on {host}: its disk {disk['source']} is one that"
                    f" {user['name']} on {user['host']} uses, and two writers would destroy it."
                    " Nothing was begun: give it another source",
                    host,
                )


def refuse_written(
    connection: Connection, uuid: str, name: str, host: str, images: Collection[str]
) -> None:
    """Refuse to back a disk by a file that an instance of any host may write to.

    Each write would destroy the new disk.
    """
    for path, user in _users(connection, uuid, host, images, writes=True):
        raise _nothing_begun(
            f"Instance {name} on {host}: the image {path} is a file that {user} writes to, which"
            " destroys every disk that it backs. Nothing was begun: give it a copy of that image",
            host,
        )


def refuse_read(
    connection: Connection, uuid: str, name: str, host: str, paths: Collection[str]
) -> None:
    """Refuse to let an instance read a disk or medium that an instance of any host may write to."""
    for path, user in _users(connection, uuid, host, paths, writes=True):
        raise _nothing_begun(
            f"Instance {name} on {host}: {path} is a file that {user} writes to, so what is read"
            " from it would change. Nothing was begun: give it a copy of that file",
            host,
        )


def shared_elsewhere(connection: Connection, host: str, paths: Collection[str]) -> set[str]:
    """Return the files of a host on shared storage that instances of other hosts need.

    The other hosts may have other paths for them.
    """
    names = {name for name in _names_of_files(connection, host, paths) if name[1]}
    taken = {row["identity"] for row in files.needed(connection, names, host)}
    return {path for path, identity in names if not taken.isdisjoint(files.keys_of(path, identity))}


def _users(
    connection: Connection, uuid: str, host: str, paths: Collection[str], writes: bool = False
) -> Iterator[tuple[str, str]]:
    """Return the paths that another instance needs or may write to, with its name and host."""
    for path, identity in sorted(_names_of_files(connection, host, paths), key=str):
        user = files.user(connection, path, identity, uuid, writes)
        if user is not None:
            yield path, f"{user['name'] or user['uuid']} on {user['host']}"


def _nothing_begun(sentence: str, host: str) -> DroverError:
    advice = "or run drover.compute.discover if that instance does not have it any more."
    return DroverError(f"{sentence}, {advice}", host=host, uncertain=False)


def on_ways(connection: Connection, ways: Mapping[str, tuple[str, str]]) -> dict[str, list[str]]:
    """Return the disks of moving instances that instances of other hosts also need: paths by uuid.

    :param ways: dict uuid of an instance -> (source, destination).
    """
    disks_of, rows = own(connection, list(ways)), {}
    for source in sorted({source for source, _there in ways.values()}):
        disks = [disks_of[uuid] for uuid, way in ways.items() if way[0] == source]
        rows[source] = files.needed(connection, set().union(*disks), source)
    return {
        uuid: _meant(disks_of[uuid], rows[source], uuid)
        for uuid, (source, _destination) in ways.items()
    }


def of_ways(
    connection: Connection, ways: Mapping[str, tuple[str, str]]
) -> dict[str, dict[str, object]]:
    """Collect the facts on the storage of both ends that the sources of moves need.

    :param ways: dict uuid of an instance -> (source, destination).
    :returns: dict uuid -> arguments of the module _domain_migration: shared_folders, devices_there,
        file_systems_there, images_there.
    """
    needed = files.of_instances(connection, list(ways))
    hosts = files.nodes_of(connection, {(host, None) for way in ways.values() for host in way})
    facts: dict[str, dict[str, object]] = {}
    for uuid, (source, destination) in ways.items():
        source_storage, destination_storage = hosts[(source, None)], hosts[(destination, None)]
        paths = {path for path, _identity in needed[uuid]}
        facts[uuid] = {
            "shared_folders": sorted(
                {
                    path
                    for pool in source_storage["pools"]
                    if (path := pool.get("path")) and pool.get("shared_id")
                }
            ),
            "devices_there": _devices(paths, source_storage, destination_storage),
            "file_systems_there": storage_identity.file_systems(destination_storage),
            "images_there": [
                image for image in destination_storage["images"] if image["path"] in paths
            ],
        }
    return facts


def own(connection: Connection, uuids: Collection[str]) -> dict[str, set[Name]]:
    """Return the disks of instances, by uuid, without backing images and kernels.

    These are never removed with an instance.
    """
    needed = files.of_instances(connection, uuids)
    read = files.only_read(connection, uuids)
    return {
        uuid: {name for name in names if name[0] not in read[uuid]}
        for uuid, names in needed.items()
    }


def _names_of_files(connection: Connection, host: str, paths: Iterable[str]) -> set[Name]:
    if not paths:
        return set()
    node = files.nodes_of(connection, [(host, None)])[(host, None)]
    return {
        (path, storage_identity.of_path(path, node) or storage_identity.of_device(path, node))
        for path in paths
    }


def _meant(names: Iterable[Name], rows: Iterable[Mapping[str, object]], uuid: str) -> list[str]:
    """Return the paths of the names that another instance needs.

    :param rows: rows of store.files.needed().
    :param uuid: the instance that has the names.
    """
    others = [row for row in rows if {row["first"], row["last"]} != {uuid}]
    taken = {row[key] for row in others for key in ("path", "identity")}
    return sorted(
        {path for path, identity in names if not taken.isdisjoint(files.keys_of(path, identity))}
    )


def _devices(paths: Iterable[str], here: NodeStorage, there: NodeStorage) -> dict[str, str]:
    """Return the names of devices on the destination, by path.

    A name is the worldwide one, or ``declared`` if the operator declares the device on both hosts.
    """
    devices = {}
    for path in paths:
        if not path.startswith("/dev/"):
            continue
        if storage_identity.is_declared(path, here) and storage_identity.is_declared(path, there):
            devices[path] = "declared"
        else:
            known = storage_identity.of_device(path, {"block_devices": there["block_devices"]})
            if known:
                devices[path] = known[len(storage_identity.DEVICE) :]
    return devices
