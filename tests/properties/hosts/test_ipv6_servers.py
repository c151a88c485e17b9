# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Storage behind an IPv6 address is one storage, for each form of the address in a disk, a
pool and a mount (F19)."""

from __future__ import annotations

import os
from xml.etree import ElementTree as ET

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._storage import (
    rbd,
    rbd_watchers,
    shared_storage,
    volumes,
)

#: libvirt's form for a pool of Ceph: it appends the port to the name as it is.
POOL = (
    "<pool type='rbd'><name>ceph6</name><source><host name='[fd00::11]'"
    " port='6789'/><name>vms</name></source></pool>"
)
#: QEMU's form for a disk: it adds the brackets.
DISK = "<disk type='network'><source protocol='rbd' name='vms/web'>{}</source></disk>"


@pytest.mark.parametrize(
    "hosts",
    [
        "<host name='fd00::11' port='6789'/>",
        "<host name='fd00::11'/>",
        "<host name='FD00:0::11'/>",
        "<host name='[fd00::11]' port='6789'/>",
    ],
)
def test_f19_an_image_is_in_the_pool_of_its_servers(hosts):
    assert (
        shared_storage.disk_id(ET.fromstring(DISK.format(hosts)).find("source"))
        == "rbd:[fd00::11]:/vms/web"
    )
    assert shared_storage.pool_id(ET.fromstring(POOL)) == "rbd:[fd00::11]:/vms"


def test_f19_an_address_that_ends_like_a_port_is_whole():
    ids = [
        shared_storage.disk_id(ET.fromstring(DISK.format(f"<host name='{name}'/>")).find("source"))
        for name in ("fd00::6789", "fd00::", "fd00::1:6789")
    ]
    assert ids == [
        "rbd:[fd00::6789]:/vms/web",
        "rbd:[fd00::]:/vms/web",
        "rbd:[fd00::1:6789]:/vms/web",
    ]
    other = shared_storage.disk_id(
        ET.fromstring(DISK.format("<host name='fd00::11' port='3300'/>")).find("source")
    )
    assert other == "rbd:[fd00::11]:3300:/vms/web"


@pytest.fixture
def conn():
    """All connections to the test driver have the same pools."""
    conn = libvirt.open("test:///default")
    yield conn
    for pool in conn.listAllStoragePools(0):
        if pool.name() == "ceph6":
            pool.undefine()
    conn.close()


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Make programs of Ceph and QEMU that record their arguments."""
    for name in ("rbd", "qemu-img"):
        program = tmp_path / name
        program.write_text(
            f"""#!/bin/sh\necho "$*" >> {tmp_path}/calls\necho '{{"watchers":[{{"address":"[fd00::12]:0/1"}}]}}'\n"""
        )
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path / "calls"


@pytest.mark.parametrize("name", ["[fd00::11]", "fd00::11"])
def test_f19_the_programs_get_the_address_as_each_reads_it(conn, programs, name):
    pool = conn.storagePoolDefineXML(POOL.replace("[fd00::11]", name))
    disk = shared_storage.disk_id(
        ET.fromstring(DISK.format("<host name='fd00::11'/>")).find("source")
    )
    assert rbd_watchers.watched(conn, [disk]) == [disk]
    rbd.make_snapshot(conn, pool, "web", "before")
    watching, snapshot = programs.read_text().splitlines()
    assert (
        "--mon-host [fd00::11]:6789" in watching
        and "file.server.0.host=fd00::11,file.server.0.port=6789" in snapshot
    )


def test_f19_a_volume_of_a_pool_is_a_disk_without_brackets(conn):
    conn.storagePoolDefineXML(POOL)
    text = (
        "<domain><devices><disk type='volume'><source pool='ceph6'"
        " volume='web'/></disk></devices></domain>"
    )
    (host,) = ET.fromstring(volumes.with_sources(conn, text)).iter("host")
    assert host.attrib == {"name": "fd00::11", "port": "6789"}
