# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A storage pool without files on a simulated host. A fault can happen at each call that makes or
removes a volume."""

from __future__ import annotations

from ansible_collections.drover.compute.tests.unit.module_utils.faraway import Faraway, Volume


class _Volume(Volume):
    def delete(self, flags=0):
        self.pool.host.guarded("delete", super().delete)


class _Volumes(Faraway):
    """The storage of a host."""

    def __init__(self, fleet, host, shared, root):
        super().__init__(host.connection, root, shared=[shared] if shared else [])
        self._fleet, self._host = fleet, host

    def guarded(self, name, call):
        return self._fleet._guarded(lambda _connection: call(), name)(self._host.connection)


def give(fleet, host, name, folder, shared, root=""):
    """Give a host a pool of ZFS; its devices are files.

    :param folder: folder of its volumes.
    :param shared: a folder above it with the same paths on the machine of the tests; None if all
        files are below root.
    """
    found = fleet.hosts[host]
    storage, connection = _Volumes(fleet, found, shared, root), found.connection
    storage.pool(name, folder, kind="zfs")
    pool, look_up, list_all = (
        storage.pools[name],
        connection.storagePoolLookupByName,
        connection.listAllStoragePools,
    )
    create, find = pool.createXML, pool.storageVolLookupByName
    pool.createXML = lambda text, flags=0: storage.guarded("createXML", lambda: create(text, flags))
    pool.storageVolLookupByName = lambda each: _Volume(pool, find(each).volume_name)
    connection.newStream = storage.newStream
    connection.storagePoolLookupByName = lambda each: pool if each == name else look_up(each)
    connection.listAllStoragePools = lambda flags=0: [*list_all(flags), pool]
