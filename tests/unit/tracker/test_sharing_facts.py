# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts that make the storage of two hosts one: pools as libvirt writes them, mounts as the kernel
lists them."""

from __future__ import annotations

import os

import pytest

from ansible_collections.drover.compute.plugins.module_utils._files import mounts as _mounts
from ansible_collections.drover.compute.plugins.module_utils._libvirt.xml import parse
from ansible_collections.drover.compute.plugins.module_utils._storage import shared_storage
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import sharing_facts
from ansible_collections.drover.compute.tests.unit.store import fleets

POOL = (
    "<pool"
    " type='{kind}'><name>vms</name><source>{source}</source><target><path>/srv/vms</path></target></pool>"
)
# The forms of libvirt's formatstorage documentation.
POOLS = {
    "netfs": (
        "<host name='NFS.example.com.'/><dir path='/export/vms/'/><format type='nfs'/>",
        "nfs:nfs.example.com:/export/vms",
    ),
    "netfs auto": ("<host name='nfs'/><dir path='/'/><format type='auto'/>", "nfs:nfs:/"),
    "netfs cifs": (
        "<host name='filer'/><dir path='Share'/><format type='cifs'/>",
        "cifs:filer:/share",
    ),
    "netfs glusterfs": (
        "<host name='gl1'/><dir path='/gv0'/><format type='glusterfs'/>",
        "glusterfs:gl1:/gv0",
    ),
    "rbd": (
        (
            "<name>vms</name><host name='mon2' port='6789'/><host name='mon1'/><host name='mon3'"
            " port='3300'/><auth username='admin' type='ceph'><secret"
            " uuid='2ec115d7-3a88-3ceb-bc12-0ac909a6fd87'/></auth>"
        ),
        "rbd:mon1,mon2,mon3:3300:/vms",
    ),
    "gluster": ("<host name='gl1'/><name>gv0</name><dir path='/vms'/>", "glusterfs:gl1:/gv0/vms"),
    "iscsi": (
        "<host name='192.0.2.1' port='3260'/><device path='iqn.2013-06.com.example:Vms'/>",
        "iscsi:192.0.2.1:iqn.2013-06.com.example:vms",
    ),
    "iscsi-direct": (
        (
            "<host name='192.0.2.1'/><device path='iqn.2013-06.com.example:vms'/>"
            "<initiator><iqn name='iqn.2013-06.com.example:host1'/></initiator>"
        ),
        "iscsi:192.0.2.1:iqn.2013-06.com.example:vms",
    ),
    # The monitors are in /etc/ceph/ceph.conf, so the cluster is not known.
    "rbd without monitors": ("<name>vms</name>", None),
    "netfs without server": ("<dir path='/export'/><format type='nfs'/>", None),
    "logical": ("<device path='/dev/sda1'/><name>vg</name><format type='lvm2'/>", None),
    "disk": ("<device path='/dev/sda'/><format type='gpt'/>", None),
    "scsi": ("<adapter type='fc_host' wwnn='20000000c9831b4b' wwpn='10000000c9831b4b'/>", None),
    "mpath": ("", None),
    "zfs": ("<name>tank</name>", None),
    "fs": ("<device path='/dev/sdb1'/><format type='ext4'/>", None),
    "dir": ("", None),
}


@pytest.mark.parametrize("name", POOLS)
def test_pools_by_their_source(name):
    source, expected = POOLS[name]
    assert (
        shared_storage.pool_id(parse(POOL.format(kind=name.split()[0], source=source))) == expected
    )


@pytest.mark.parametrize("name", [name for name, (dummy, expected) in POOLS.items() if expected])
def test_libvirt_takes_these_pools_and_gives_them_back_alike(name):
    libvirt = pytest.importorskip("libvirt")
    source, expected = POOLS[name]
    connection = libvirt.open("test:///default")
    try:
        pool = connection.storagePoolDefineXML(POOL.format(kind=name.split()[0], source=source), 0)
        assert shared_storage.pool_id(parse(pool.XMLDesc(0))) == expected
        pool.undefine()
    finally:
        connection.close()


MOUNTINFO = r"""
21 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
22 21 0:20 / /proc rw shared:2 - proc proc rw
30 21 0:40 / /srv/nfs4 rw,relatime shared:20 - nfs4 NFS.example.com:/export rw,vers=4.2,addr=192.0.2.9
31 21 0:41 / /srv/nfs3 rw - nfs nfs.example.com:/export/vms rw,vers=3
32 21 0:40 /vms /srv/bound rw shared:20 - nfs4 nfs.example.com:/export/vms rw
33 21 0:42 / /srv/ceph rw - ceph mon2:6789,mon1,mon3:3300:/vms rw,name=admin
34 21 0:43 / /srv/ceph17 rw - ceph admin@b6c1d8a0-0000-11ee-8000-0cc47a000001.cephfs=/vms rw,mon_addr=192.0.2.1:3300
35 21 0:44 / /srv/gluster rw - fuse.glusterfs gl1:gv0 rw
36 21 0:45 /sub /srv/smb rw - cifs //Filer/Share rw
37 21 0:46 / /srv/smb3 rw - smb3 \134\134Filer\134Share rw
38 21 0:47 / /srv/lustre rw - lustre 192.0.2.2@tcp:192.0.2.1@tcp:/work rw
39 21 0:48 / /srv/with\040blank rw - nfs4 nfs:/a\040b rw
40 30 254:2 / /srv/nfs4/local rw - xfs /dev/vdb rw
41 21 0:49 / /srv/virtiofs rw - virtiofs shared rw
42 21 0:50 / /srv/beegfs rw - beegfs beegfs_nodev rw,cfgFile=/etc/beegfs/beegfs-client.conf
43 21 0:51 / /srv/twice rw - nfs4 nfs:/first rw
44 43 0:52 / /srv/twice rw - nfs4 nfs:/second rw
45 21 253:3 /images /srv/gfs2 rw - gfs2 /dev/mapper/vg-lv rw
46 21 0:53 / /srv/v6 rw - nfs4 [2001:db8::1]:/export rw
47 21 0:54 / /srv/sshfs rw - fuse.sshfs root@other:/srv rw
too short
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/srv/nfs4", "nfs:nfs.example.com:/export"),
        ("/srv/nfs4/vms", "nfs:nfs.example.com:/export/vms"),
        ("/srv/nfs4/vms/../vms/", "nfs:nfs.example.com:/export/vms"),
        ("/srv/nfs3", "nfs:nfs.example.com:/export/vms"),
        ("/srv/bound", "nfs:nfs.example.com:/export/vms"),
        ("/srv/nfs4x", None),
        ("/srv/nfs4/local/images", None),
        ("/srv/ceph/images", "ceph:mon1,mon2,mon3:3300:/vms/images"),
        ("/srv/ceph17", "ceph:b6c1d8a0-0000-11ee-8000-0cc47a000001.cephfs:/vms"),
        ("/srv/gluster/images", "glusterfs:gl1:/gv0/images"),
        ("/srv/smb/images", "cifs:filer:/share/sub/images"),
        ("/srv/smb3", "cifs:filer:/share"),
        ("/srv/lustre", "lustre:192.0.2.1@tcp:192.0.2.2@tcp:/work"),
        ("/srv/with blank", "nfs:nfs:/a b"),
        ("/srv/twice", "nfs:nfs:/second"),
        ("/srv/v6", "nfs:[2001:db8::1]:/export"),
        ("/srv/virtiofs", None),
        ("/srv/beegfs", None),
        ("/srv/sshfs", None),
        ("/var/lib/libvirt/images", None),
        ("/", None),
    ],
)
def test_paths_by_their_mount(path, expected):
    assert shared_storage.path_id(path, _mounts.parse_mounts(MOUNTINFO)) == expected


def test_a_cluster_file_system_is_known_by_its_superblock(tmp_path, monkeypatch):
    mounts = _mounts.parse_mounts(MOUNTINFO)
    monkeypatch.setattr(shared_storage, "BY_UUID", os.fspath(tmp_path))
    # The device's name is not a proof: another cluster may also have a vg-lv.
    assert shared_storage.path_id("/srv/gfs2/a", mounts) is None
    (tmp_path / "0F3C-AA").symlink_to("/dev/mapper/vg-lv")
    assert shared_storage.path_id("/srv/gfs2/a", mounts) == "gfs2:0f3c-aa:/images/a"


def test_a_symbolic_link_is_followed(tmp_path):
    mounts = [("/", "/", "ext4", "/dev/vda1"), (f"{tmp_path}/nfs", "/", "nfs4", "nfs:/export")]
    (tmp_path / "images").symlink_to(tmp_path / "nfs" / "vms")
    assert shared_storage.path_id(f"{tmp_path}/images", mounts) == "nfs:nfs:/export/vms"


def test_this_machine_s_own_mounts_are_read():
    assert "/proc" in {mount[0] for mount in shared_storage.read_mounts("/")}


# The tracker


def facts(pools=(), path="/srv/vms/images", total=100, shared_id=None):
    return {
        "hypervisor_hostname": "kvm1",
        "storage": {"instances_path": path, "total_gb": total, "shared_id": shared_id},
        "pools": list(pools),
    }


def shared(hypervisor, **options):
    return fleets.described(hypervisor, options)["columns"]["facts"].get("shared_storage")


NFS = {"name": "nfs", "path": "/srv/vms", "shared_id": "nfs:s:/e", "state": "running"}
LOCAL = {"name": "local", "path": "/srv/vms/images", "shared_id": None, "state": "running"}


@pytest.mark.parametrize(
    ("hypervisor", "options", "expected"),
    [
        (facts(), {}, None),
        (facts([NFS]), {}, ("nfs:s:/e", "nfs", 100)),
        (facts([NFS], path="/srv/vms"), {}, ("nfs:s:/e", "nfs", 100)),
        (facts([NFS], path="/srv/vms2"), {}, None),
        (facts([{**NFS, "path": "/"}]), {}, ("nfs:s:/e", "nfs", 100)),
        (facts([{**NFS, "path": None}]), {}, None),
        # Without a pool the file system gives the storage.
        (facts(shared_id="nfs:s:/e/images"), {}, ("nfs:s:/e/images", "s:/e/images", 100)),
        # The nearest pool counts, and it is local.
        (facts([NFS, LOCAL]), {}, None),
        (facts([NFS, LOCAL]), {"shared_pools": ["local"]}, ("declared:local", "local", 100)),
        (facts([NFS]), {"shared_pools": ["nfs"]}, ("declared:nfs", "nfs", 100)),
        (
            facts([NFS, LOCAL]),
            {"shared_pools": {"local": "rack1"}},
            ("declared:rack1", "local", 100),
        ),
        (facts([LOCAL]), {"shared_pools": ["other"]}, None),
        # A stopped pool is still that pool, but it does not report its size.
        (facts([{**NFS, "state": "inactive"}]), {}, ("nfs:s:/e", "nfs", None)),
        (facts([NFS], total=0), {}, ("nfs:s:/e", "nfs", None)),
    ],
)
def test_the_pool_of_the_instances(hypervisor, options, expected):
    found = shared(hypervisor, **options)
    assert (found and (found["id"], found["name"], found["total"])) == expected


def test_pools_that_are_equal_by_chance_are_not_one():
    cloned = {
        "name": "default",
        "uuid": "2d9bb2f4-3b4f-4a5b-8b1c-111111111111",
        "path": "/srv/vms",
        "type": "dir",
    }
    assert shared(facts([cloned])) is None


def test_declared_pools_are_marked_in_the_facts():
    pools = fleets.described(facts([NFS, LOCAL]), {"shared_pools": {"nfs": "x"}})["columns"][
        "facts"
    ]["pools"]
    assert [pool["shared_id"] for pool in pools] == ["declared:x", None]


def test_a_declared_pool_that_is_not_there_is_told():
    (warning,) = fleets.described(facts([NFS]), {"shared_pools": ["nsf"]})["warnings"]
    assert "kvm1" in warning and "nsf" in warning and "it has nfs" in warning
    assert fleets.described(facts([NFS]), {"shared_pools": ["nfs"]})["warnings"] == []


@pytest.mark.parametrize("value", ["nfs", 1, [1], [""], {"nfs": 1}, {"nfs": None}, ["x" * 1001]])
def test_a_bad_declaration(value):
    with pytest.raises(DroverError, match="Compute node kvm1: shared_pools must be"):
        fleets.described(facts(), {"shared_pools": value})


def test_the_uuid_is_the_same_in_every_run():
    assert (
        sharing_facts.uuid_of("nfs:s:/e")
        == sharing_facts.uuid_of("nfs:s:/e")
        != sharing_facts.uuid_of("nfs:s:/f")
    )


# Addresses


@pytest.mark.parametrize(
    ("addresses", "total"),
    [
        (["10.0.0.0/24"], 254),
        (["10.0.0.0/31"], 2),
        (["10.0.0.7/32"], 1),
        (["10.0.0.7"], 1),
        (["10.0.0.0-10.0.0.255"], 256),
        (["10.0.0.0/24", "10.0.1.1 - 10.0.1.10", "10.9.9.9"], 265),
        (["0.0.0.0/0"], 2**32 - 2),
    ],
)
def test_how_many_addresses(addresses, total):
    assert (
        sharing_facts.describe_ip_pools([{"name": "a", "addresses": addresses}], "x")["a"]["total"]
        == total
    )


def test_the_same_addresses_in_another_spelling_are_the_same():
    one = sharing_facts.describe_ip_pools(
        [{"name": "a", "addresses": ["10.0.0.0/30", "10.0.1.1"]}], "x"
    )
    assert one == sharing_facts.describe_ip_pools(
        [{"name": "a", "addresses": ["10.0.1.1-10.0.1.1", "10.0.0.1-10.0.0.2"]}], "x"
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("a", "must be a list of mappings"),
        (["a"], "must be a list of mappings"),
        ([{"addresses": ["10.0.0.1"]}], "the name of an IP pool"),
        ([{"name": "", "addresses": ["10.0.0.1"]}], "the name of an IP pool"),
        ([{"name": "a\nb", "addresses": ["10.0.0.1"]}], "the name of an IP pool"),
        ([{"name": "x" * 151, "addresses": ["10.0.0.1"]}], "the name of an IP pool"),
        ([{"name": "a"}], "addresses must be a list"),
        ([{"name": "a", "addresses": []}], "addresses must be a list"),
        ([{"name": "a", "addresses": "10.0.0.1"}], "addresses must be a list"),
        ([{"name": "a", "addresses": ["10.0.0.1"], "gateway": "x"}], "unknown key gateway"),
        ([{"name": "a", "addresses": ["10.0.0.1/24"]}], "has host bits set"),
        ([{"name": "a", "addresses": ["10.0.0.256"]}], "no network, range or address"),
        ([{"name": "a", "addresses": ["all"]}], "no network, range or address"),
        ([{"name": "a", "addresses": [7]}], "no network, range or address"),
        ([{"name": "a", "addresses": ["10.0.0.9-10.0.0.1"]}], "runs backwards"),
        ([{"name": "a", "addresses": ["2001:db8::/64"]}], "IPv6"),
        ([{"name": "a", "addresses": ["10.0.0.1-2001:db8::1"]}], "IPv6"),
        ([{"name": "a", "addresses": ["10.0.0.0/24", "10.0.0.9"]}], "10.0.0.9 stands twice"),
        (
            [{"name": "a", "addresses": ["10.0.0.0/24"]}, {"name": "b", "addresses": ["10.0.0.9"]}],
            "a and b: 10.0.0.9 stands twice",
        ),
        (
            [{"name": "a", "addresses": ["10.0.0.1"]}, {"name": "a", "addresses": ["10.0.0.2"]}],
            "a stands twice",
        ),
    ],
)
def test_bad_pools_of_addresses(value, message):
    with pytest.raises(DroverError, match=message):
        fleets.described(facts(), {"ip_pools": value})
