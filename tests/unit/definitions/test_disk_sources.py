# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks of definitions that exist already: refusals, their size in the request, and their elements
in the domain."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.filter._disk_layout import disk_layout
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import (
    check,
    disk_sources,
    requests,
)

UUID = "5e0ae0b4-92a5-4d10-a1f5-5b0a3a7b6d01"
RBD = {
    "protocol": "rbd",
    "name": "vms/data",
    "hosts": [{"name": "mon1", "port": 6789}],
    "auth": {"username": "libvirt", "secret": UUID},
}
NFS = {"protocol": "nfs", "name": "/vms/data.raw", "hosts": [{"name": "filer"}]}
NBD = {"protocol": "nbd", "name": "data", "hosts": [{"name": "store1"}]}


def instances(*definitions):
    return check.instances(
        [{"memory_mb": 64, **each} for each in definitions], lambda item: "fleet.yml line 1"
    )


def instance(*disks, **more):
    return instances({"name": "db", "disks": list(disks), **more})[0]


@pytest.mark.parametrize(
    ("disk", "sentence"),
    [
        (
            {"source": {**NBD, "protocol": "http"}},
            "protocol must be rbd, iscsi, nbd, gluster or nfs, not 'http'",
        ),
        (
            {"source": {}},
            (
                "give protocol for a disk on the network, or path for a file or a block device; one"
                " of them"
            ),
        ),
        (
            {"source": {**NBD, "path": "/dev/sdx"}},
            "give protocol for a disk on the network, or path",
        ),
        (
            {"source": {"path": "/dev/sdx"}},
            (
                "size_gb is missing. What is at the path of a source counts on its host as other"
                " disks do"
            ),
        ),
        (
            {"source": {"path": "/dev/sdx", "auth": RBD["auth"]}, "size_gb": 1},
            "auth goes with protocol only",
        ),
        ({"source": {"path": "sdx"}, "size_gb": 1}, "path must be absolute, not 'sdx'"),
        (
            {"source": NBD, "image": "/base.qcow2"},
            "source is a disk that exists, so image does not go with it",
        ),
        ({"source": NBD, "path": "/srv/x"}, "so path does not go with it"),
        ({"source": {**RBD, "name": "data"}}, "the name for rbd must be POOL/IMAGE, not 'data'"),
        (
            {"source": {**RBD, "protocol": "iscsi"}},
            "the name for iscsi must be TARGET/UNIT, such as iqn.2026-01.com.example:vms/1, not",
        ),
        ({"source": {**NBD, "hosts": []}}, "hosts is missing"),
        (
            {"source": {**NBD, "hosts": [{"name": "localhost"}]}},
            "localhost is another server on each host, so the instance could not move",
        ),
        ({"source": {**NBD, "auth": RBD["auth"]}}, "nbd has no auth. Take it out"),
        ({"source": {**NBD, "identity": {"user": 7}}}, "nbd has no identity. Take it out"),
        (
            {"source": {"path": "/dev/sdx", "identity": {"user": 7}}, "size_gb": 1},
            "identity goes with protocol only",
        ),
        (
            {"source": {**NFS, "name": "vms/data"}},
            "the name for nfs must be /EXPORT/FILE, not 'vms/data'",
        ),
        (
            {"source": {**NFS, "hosts": [{"name": "a"}, {"name": "b"}]}},
            "QEMU takes one server for nfs, and hosts has 2. Keep one",
        ),
        (
            {"source": {**NFS, "hosts": [{"name": "a", "port": 2049}]}},
            "QEMU asks an NFS server for its port. Take port out",
        ),
        ({"source": {**NFS, "identity": {"user": -1}}}, "user must be"),
        ({"source": NBD, "size_gb": 1}, "size_gb goes with pool. Give both, or take size_gb out"),
        ({"source": NBD, "pool": "fast"}, "pool goes with size_gb"),
    ],
)
def test_what_is_refused(disk, sentence):
    with pytest.raises(DroverError) as problem:
        instance(disk)
    assert sentence in str(problem.value) and str(problem.value).startswith(
        "fleet.yml line 1: instance db, disk 1"
    )


def test_no_two_instances_get_one():
    with pytest.raises(DroverError, match="the source nbd:data stands twice"):
        instances(
            {"name": "db", "disks": [{"source": NBD}]},
            {"name": "other", "disks": [{"source": NBD}]},
        )
    with pytest.raises(DroverError, match="the source of disk 1 can be of one instance only"):
        instance({"source": NBD}, count=2)


def test_it_counts_on_its_pool_or_not_at_all():
    found = instance({"size_gb": 5}, {"source": NBD}, {"source": RBD, "pool": "ceph", "size_gb": 7})
    assert found["disk_gb"] == 5 and [disk["size_gb"] for disk in found["disks"]] == [5, 0, 7]
    assert requests.request(found)["extra_specs"] == {"resources:CUSTOM_DISK_GB_CEPH": "7"}
    # The size of a flavor is the size of a new disk.
    assert (
        requests.complete(
            {"disks": [{"source": NBD}], "memory_mb": 1},
            {"vcpus": 1, "memory_mb": 1, "disk_gb": 9},
            "here",
        )["disk_gb"]
        == 0
    )
    assert instance({"source": {"path": "/dev/sdx"}, "size_gb": 3})["disk_gb"] == 3


def test_nothing_of_it_is_made():
    layout = disk_layout(
        [
            {"source": RBD, "size_gb": 0},
            {"source": {"path": "/dev/sdx"}, "size_gb": 1},
            {"size_gb": 1},
        ],
        "/srv/db",
    )
    assert [disk["make"] and disk["make"]["path"] for disk in layout] == [
        None,
        None,
        "/srv/db-vdc.qcow2",
    ]
    assert layout[0]["source"] == {
        "type": "network",
        "format": "raw",
        "protocol": "rbd",
        "name": "vms/data",
        "hosts": [{"name": "mon1", "port": 6789}],
        "auth": {"username": "libvirt", "type": "ceph", "uuid": UUID},
        "identity": {},
    }
    assert layout[1]["source"] == {"type": "block", "format": "raw", "dev": "/dev/sdx"}


def test_a_secret_is_named_by_its_usage_too():
    source = {**RBD, "auth": {"username": "libvirt", "secret": "client.libvirt secret"}}
    assert disk_sources.for_domain({"source": source})["auth"] == {
        "username": "libvirt",
        "type": "ceph",
        "usage": "client.libvirt secret",
    }
