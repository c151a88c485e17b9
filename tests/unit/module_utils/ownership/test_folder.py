# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A folder of a hypervisor that has a storage pool on it."""

from __future__ import annotations

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._ownership.folder import Folder

POOL = "<pool type='dir'><name>vms</name><target><path>/data/vms</path></target></pool>"


@pytest.fixture
def conn():
    conn = libvirt.open("test:///default")
    yield conn
    conn.close()


def pools(conn):
    return {pool.name(): bool(pool.isActive()) for pool in conn.listAllStoragePools(0)}


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize("path", ["/data/vms", "/data/vms/"])
def test_a_folder_with_a_pool_is_seen(conn, active, path):
    """libvirt refuses a second pool on it. A pool that was stopped is stopped afterwards."""
    pool = conn.storagePoolDefineXML(POOL)
    if active:
        pool.create()
    before = pools(conn)
    assert Folder(conn, path).is_seen() and pools(conn) == before


def test_a_folder_without_a_pool_is_seen_and_no_pool_stays(conn):
    before = pools(conn)
    assert Folder(conn, "/data/other").is_seen() and pools(conn) == before
