# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that see the storage of a dead host's instances, and the images that they must find
there.
"""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common import storage_identity
from ansible_collections.drover.compute.plugins.plugin_utils._planner import evacuation


def mount(path, shared_id):
    return {"path": path, "shared_id": shared_id}


def node(name="kvm1", **more):
    return {
        "host": name,
        "node": name,
        "pools": [],
        "storage": {},
        "mounts": [],
        "block_devices": [],
        "images": [],
        **more,
    }


def file(path, *behind):
    chain = [{"path": each, "shared_id": None} for each in behind]
    return {"target": "vda", "type": "file", "source": path, "path": path, "chain": chain}


def instance(*disks):
    return {
        "name": "vm",
        "state": "running",
        "xml": "<domain/>",
        "disks": list(disks),
        "own_devices": [],
        "managed_save": False,
    }


def sees(disk, here, there):
    return evacuation.blind_nodes(instance(disk), here, {"there": there}) == []


def test_storage_evacuation_knows_mounts():
    """A mounted export needs no pool, and new instances may go to another folder."""
    source = node(mounts=[mount("/srv/nfs", "nfs:filer:/vms")])
    disk = file("/srv/nfs/a/vm.qcow2")
    assert evacuation.why_lost(instance(disk), source) is None
    assert "is on the dead host alone" in evacuation.why_lost(
        instance(file("/srv/local.qcow2")), source
    )
    assert sees(disk, source, node("kvm2", mounts=[mount("/srv/nfs", "nfs:filer:/vms")]))
    # The same file by another mount of it, or by a pool on it.
    assert sees(disk, source, node("kvm2", mounts=[mount("/srv/nfs/a", "nfs:filer:/vms/a")]))
    assert sees(
        disk,
        source,
        node("kvm2", pools=[{"name": "x", "path": "/srv/nfs", "shared_id": "nfs:filer:/vms"}]),
    )
    # Another export, another folder of it, no mount, and a local file system mounted over it.
    assert not sees(disk, source, node("kvm2", mounts=[mount("/srv/nfs", "nfs:other:/vms")]))
    assert not sees(disk, source, node("kvm2", mounts=[mount("/srv/nfs", "nfs:filer:/vms/old")]))
    assert not sees(disk, source, node("kvm2"))
    assert not sees(
        disk,
        source,
        node("kvm2", mounts=[mount("/srv/nfs", "nfs:filer:/vms"), mount("/srv/nfs/a", None)]),
    )


def test_pools_and_the_instances_path_as_before():
    source = node(
        pools=[{"name": "p", "path": "/p", "shared_id": "declared:p"}],
        storage={"instances_path": "/i", "shared_id": "nfs:a:/i"},
    )
    for path in ("/p/vm.qcow2", "/i/x/vm.qcow2"):
        assert sees(file(path), source, {**source, "host": "kvm2"}) and not sees(
            file(path), source, node("kvm2")
        )
    volume = {"target": "vda", "type": "volume", "source": "p/vm.qcow2"}
    assert sees(volume, source, {**source, "host": "kvm2"}) and not sees(
        volume, source, node("kvm2")
    )
    assert storage_identity.of_disk(volume, source) == "declared:p/vm.qcow2"
    # The path of a volume's file gives its storage if the pool does not.
    inside = node(
        pools=[{"name": "p", "path": "/nfs/p", "shared_id": None}],
        mounts=[mount("/nfs", "nfs:a:/x")],
    )
    assert storage_identity.of_disk(volume, inside) == "nfs:a:/x/p/vm.qcow2"
    assert (
        storage_identity.of_disk(
            {**volume, "path": "/nfs/p/vm.qcow2"}, node(mounts=[mount("/nfs", "nfs:a:/x")])
        )
        is None
    )


@pytest.mark.parametrize("declared", [True, False])
def test_storage_devices_by_worldwide_name_or_by_the_operators_word(declared):
    path = "/dev/mapper/san-1"
    disk = {"target": "vda", "type": "block", "source": path, "path": path, "chain": []}
    more = (
        {"shared_block_devices": ["/dev/mapper/san-*"]}
        if declared
        else {"block_devices": [{"id": "naa.1", "names": [path]}]}
    )
    source = node(**more)
    assert evacuation.why_lost(instance(disk), source) is None
    assert sees(disk, source, node("kvm2", **more)) and not sees(disk, source, node("kvm2"))
    assert not sees(disk, source, node("kvm2", block_devices=[{"id": "naa.2", "names": [path]}]))
    assert "is on the dead host alone" in evacuation.why_lost(instance(disk), node())


def test_safety_05_what_a_destination_is_to_find():
    """A base on shared storage is the same file there. A local base must have the same content. A
    fact that is not known is None."""
    source = node(
        mounts=[mount("/nfs", "nfs:a:/x")],
        images=[{"path": "/img/golden", "digest": "d1", "size": 1}],
    )
    destination = node(
        "kvm2",
        mounts=[mount("/nfs", "nfs:a:/x")],
        images=[{"path": "/img/golden", "digest": "other"}],
    )
    disks = [
        file("/nfs/vm", "/nfs/base", "/img/golden", "/img/unread"),
        {"target": "vdb", "type": "file", "source": "/nfs/old"},
    ]
    images = evacuation.images_of(
        [*disks, {"target": "vdc", "type": "network", "source": "rbd:p/x"}], source, destination
    )
    assert images == [
        {
            "target": "vda",
            "identity": "nfs:a:/x/vm",
            "behind": [
                {"path": "/nfs/base", "shared": True, "digest": None},
                {"path": "/img/golden", "shared": False, "digest": "d1"},
                {"path": "/img/unread", "shared": False, "digest": None},
            ],
        },
        {"target": "vdb", "identity": "nfs:a:/x/old", "behind": None},
    ]


@pytest.mark.parametrize(
    ("evacuation_of_it", "only", "lost"),
    [
        ("lost", "", True),
        ("lost", "next_start", True),
        ("lost", "running", False),
        ("starts", "", False),
    ],
)
def test_f02_what_binds_an_instance_is_lost_with_its_host(evacuation_of_it, only, lost):
    """Another host starts the definition of the next start: devices of the running guest alone do
    not hold the restart back."""
    source = node(mounts=[mount("/srv/nfs", "nfs:filer:/vms")])
    bindings = [
        {
            "what": "its disk vda is an NVMe device",
            "move": "never",
            "evacuation": evacuation_of_it,
            "only": only,
        }
    ]
    why = evacuation.why_lost({**instance(file("/srv/nfs/vm.qcow2")), "bindings": bindings}, source)
    assert why == (
        "its disk vda is an NVMe device; define it elsewhere by hand without that" if lost else None
    )
