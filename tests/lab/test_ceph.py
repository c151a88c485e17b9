# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guests whose disks are images in a real Ceph cluster: nothing of them is copied, and each image counts once."""

from __future__ import annotations

import json
import math
import shutil

import pytest
from lablib.storage import beside, ceph
from test_evacuate import AT_ONCE
from test_fleet import DOMAIN, SHARED, Domain, changed, said
from test_sharing import holdings

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        any(shutil.which(name) is None for name in ceph.PROGRAMS), reason="Ceph is not here: run tests/setup/setup.sh storage"
    ),
]

pytest_plugins = ["test_fleet"]

CLASS, POOL = "CUSTOM_DISK_GB_CEPH", "pool/ceph"
VARIABLES = {"drover_shared_pools": ["shared"], "drover_storage_pools": [{"name": "ceph", "traits": ["STORAGE_DISK_SSD"]}], **AT_ONCE}


class OnCeph:
    """A fleet whose hosts reach a Ceph cluster."""

    def __init__(self, fleet):
        self.fleet, self.cluster = fleet, ceph.Cluster(fleet.lab.layout)

    def make(self, host, name, *images, state="running"):
        """A guest by hand; images are (name, GiB)."""
        for image, size in images:
            self.cluster.rbd("create", "--size", f"{size}G", image)
        disks = "".join(ceph.disk_xml(image, f"vd{'abc'[number]}") for number, (image, dummy) in enumerate(images))
        domain = Domain(name)
        xml = DOMAIN.format(disks=disks, name=name, uuid=domain.uuid, memory_mb=64, vcpus=1, metadata="")
        start = f"\nvirsh start {name}" if state == "running" else ""
        self.fleet.run(host, f"virsh pool-refresh ceph\nvirsh define /dev/stdin <<'END'\n{xml}\nEND{start}")
        return domain

    def images(self):
        """{image: GiB} as Ceph itself lists them."""
        listed = json.loads(self.cluster.rbd("ls", "--long", "--format", "json"))
        return {each["image"]: each["size"] / 2**30 for each in listed}

    def written(self):
        """What Ceph has of the images' data, in bytes."""
        return {each["name"]: each["used_size"] for each in json.loads(self.cluster.rbd("du", "--format", "json"))["images"]}

    def miss(self, image):
        """Wait until Ceph misses the client that had an image open, which takes half a minute: until then an evacuation is refused."""
        beside.until(
            "its host is missed", lambda: not json.loads(self.cluster.rbd("status", image, "--format", "json"))["watchers"], patience=90
        )

    def counted(self):
        """What the store has allocated of the pool."""
        rows = self.fleet.query(
            "SELECT i.total, i.used FROM inventories i JOIN resource_providers p ON p.id = i.provider_id WHERE p.name = :name", name=POOL
        )
        return rows[0] if rows else None

    def playbook(self, name, check=True, **variables):
        return self.fleet.playbook(name, "-e", json.dumps({**VARIABLES, **variables}), check=check)


@pytest.fixture(scope="module")
def cluster(own_lab):
    own_lab.command("up", "--with", "ceph")
    return own_lab


@pytest.fixture
def on_ceph(cluster, fleet):
    # A host that was off has its secret and its pool again.
    ceph.up(fleet.lab.layout)
    found = OnCeph(fleet)
    yield found
    for host in fleet.hosts:
        fleet.lab.command("start", host)
    fleet.everywhere("for each in $(virsh list --all --name); do virsh destroy $each; virsh undefine $each; done; true")
    for image in found.images():
        found.cluster.rbd("rm", image)


def test_images_count_once_and_as_ceph_lists_them(on_ceph):
    on_ceph.make("kvm1", "web", ("web-root", 1), ("web-data", 2))
    on_ceph.make("kvm2", "db", ("db-root", 3))
    on_ceph.make("kvm3", "off", ("off-root", 2), state="shutoff")
    done = on_ceph.playbook("discover")
    assert changed(done) > 0
    found = holdings(on_ceph.fleet)
    assert {name: places[POOL][CLASS] for name, places in found.items()} == {"web": 3, "db": 3, "off": 2}
    total, used = on_ceph.counted()
    assert used == sum(math.ceil(size) for size in on_ceph.images().values()) == 8
    assert total in (5, 6)
    assert changed(on_ceph.playbook("discover")) == 0


def test_live_move_and_drain_copy_nothing(on_ceph):
    fleet = on_ceph.fleet
    on_ceph.make("kvm1", "web", ("web-root", 1))
    on_ceph.make("kvm1", "off", ("off-root", 1), state="shutoff")
    on_ceph.playbook("discover")
    images, written = on_ceph.images(), on_ceph.written()
    done = on_ceph.playbook("drain", drover_host="kvm1")
    where = fleet.settled()
    assert {name: state for name, (dummy, state) in where.items()} == {"web": "running", "off": "shutoff"}, said(done)
    assert "kvm1" not in {host for host, dummy in where.values()}
    assert on_ceph.images() == images and on_ceph.written() == written
    assert on_ceph.counted()[1] == 2
    assert {name: places[POOL] for name, places in holdings(fleet).items()} == {"web": {CLASS: 1}, "off": {CLASS: 1}}
    assert changed(on_ceph.playbook("discover")) == 0


def test_evacuation_and_deletion(on_ceph):
    fleet = on_ceph.fleet
    on_ceph.make("kvm1", "web", ("web-root", 1))
    on_ceph.playbook("discover")
    fleet.lab.command("kill", "kvm1")
    fleet.playbook("discover", "-e", json.dumps(VARIABLES), "--limit", "kvm1,localhost", check=False)
    on_ceph.miss("web-root")
    done = on_ceph.playbook("evacuate", drover_host="kvm1", drover_host_is_off="kvm1 is powered off")
    there, state = fleet.where(["kvm2", "kvm3"])["web"]
    assert state == "running" and on_ceph.images() == {"web-root": 1}, said(done)

    fleet.lab.command("start", "kvm1")
    ceph.up(fleet.lab.layout)
    on_ceph.playbook("discover")
    # What came back is off, and named; the image stays whole.
    assert fleet.run("kvm1", "virsh list --name").split() == []
    fleet.run("kvm1", "virsh undefine web 2>/dev/null; true")
    on_ceph.playbook("discover")
    done = on_ceph.playbook("instance_delete", drover_instance="web", drover_instance_force=True)
    assert fleet.where() == {}
    # Nothing proves that the image is drover's: it stays, and is named.
    assert on_ceph.images() == {"web-root": 1} and "rbd:vms/web-root" in said(done), said(done)
    assert on_ceph.counted()[1] == 0


def place(on_ceph, *disks, check=True, name="db"):
    return on_ceph.fleet.place([{"name": name, "memory_mb": 64, "disks": list(disks)}], check=check, **VARIABLES)


def test_the_whole_life_of_an_instance_with_a_volume(on_ceph):
    """Made by its definition, moved live, and removed with it; another image stays."""
    fleet = on_ceph.fleet
    on_ceph.playbook("discover")
    on_ceph.cluster.rbd("create", "--size", "1G", "somebodys")
    disks = [{"size_gb": 1}, {"size_gb": 2, "pool": "ceph", "traits": ["STORAGE_DISK_SSD"]}]
    done = place(on_ceph, *disks)
    host, state = fleet.settled()["db"]
    (domain,) = [each for found in fleet.look().values() for each in found]
    volume = f"{domain['uuid']}-vdb"
    assert state == "running" and on_ceph.images() == {"somebodys": 1, volume: 2}, said(done)
    assert "<source protocol='rbd'" in fleet.run(host, "virsh dumpxml --inactive db")
    assert holdings(fleet)["db"][POOL] == {CLASS: 2} and on_ceph.counted()[1] == 2
    assert changed(on_ceph.playbook("discover")) == 0
    again = place(on_ceph, *disks)
    assert changed(again) == 0, said(again)

    on_ceph.playbook("drain", drover_host=host)
    there, state = fleet.settled()["db"]
    assert there != host and state == "running" and on_ceph.images() == {"somebodys": 1, volume: 2}
    assert holdings(fleet)["db"][POOL] == {CLASS: 2}

    done = on_ceph.playbook("instance_delete", drover_instance="db", drover_instance_force=True)
    assert fleet.where() == {} and on_ceph.images() == {"somebodys": 1}, said(done)
    assert on_ceph.counted()[1] == 0


def test_an_image_is_copied_into_the_volume(on_ceph):
    fleet, base = on_ceph.fleet, f"{SHARED}/base.qcow2"
    on_ceph.playbook("discover")
    fleet.run("kvm1", f"qemu-img create -q -f qcow2 {base} 512M && qemu-io -c 'write -q -P 90 1M 3M' {base}")
    done = place(on_ceph, {"size_gb": 1, "pool": "ceph", "image": base})
    (volume,) = on_ceph.images()
    assert fleet.settled()["db"][1] == "running" and on_ceph.images() == {volume: 1}, said(done)
    on_ceph.cluster.rbd("export", "--no-progress", volume, f"{fleet.folder}/exported")
    data = (fleet.folder / "exported").read_bytes()
    assert data[: 2**20] == bytes(2**20) and data[2**20 : 4 * 2**20] == b"Z" * 3 * 2**20 and not any(data[4 * 2**20 : 8 * 2**20])
    on_ceph.playbook("instance_delete", drover_instance="db", drover_instance_force=True)
    assert on_ceph.images() == {} and "base.qcow2" in fleet.files(SHARED)

    # Larger than its disk: nothing is made.
    fleet.run("kvm1", f"qemu-img resize -q {base} 2G")
    done = place(on_ceph, {"size_gb": 1, "pool": "ceph", "image": base}, check=False)
    assert "make size_gb larger" in said(done) and on_ceph.images() == {}, said(done)


def test_a_volume_that_others_use_stays(on_ceph):
    fleet = on_ceph.fleet
    on_ceph.playbook("discover")
    place(on_ceph, {"size_gb": 1, "pool": "ceph"})
    ((host, (domain,)),) = [(host, found) for host, found in fleet.look().items() if found]
    (volume,) = on_ceph.images()
    # Somebody has it open, and somebody else has cloned it.
    other = next(each for each in fleet.hosts if each != host)
    xml = DOMAIN.format(disks=ceph.disk_xml(volume), name="thief", uuid=Domain("thief").uuid, memory_mb=64, vcpus=1, metadata="")
    fleet.run(host, f"virsh define /dev/stdin <<'END'\n{xml}\nEND")
    done = on_ceph.playbook("instance_delete", drover_instance="db", drover_instance_force=True)
    assert volume in on_ceph.images() and "the domain thief uses it" in said(done), said(done)
    fleet.run(host, "virsh undefine thief")
    assert domain["uuid"] in volume and other

    place(on_ceph, {"size_gb": 1, "pool": "ceph"}, name="other")
    (volume,) = set(on_ceph.images()) - {volume}
    on_ceph.cluster.rbd("snap", "create", f"{volume}@kept")
    done = on_ceph.playbook("instance_delete", drover_instance="other", drover_instance_force=True)
    assert volume in on_ceph.images() and "libvirt does not remove it" in said(done), said(done)
    on_ceph.cluster.rbd("snap", "purge", volume)


def test_an_image_that_exists_is_attached_and_never_removed(on_ceph):
    """Counted on its pool, moved live, and kept, although its name has the uuid of the instance."""
    fleet, uuid = on_ceph.fleet, Domain("db").uuid
    on_ceph.playbook("discover")
    image = f"{uuid}-vda"
    on_ceph.cluster.rbd("create", "--size", "2G", image)
    fleet.everywhere("virsh pool-refresh ceph")
    source = {
        "protocol": "rbd",
        "name": f"{ceph.POOL}/{image}",
        "hosts": [{"name": ceph.SWITCH_ADDRESS, "port": 6789}],
        "auth": {"username": ceph.CLIENT, "secret": ceph.SECRET},
    }
    disk = {"source": source, "pool": "ceph", "size_gb": 2}
    done = fleet.place([{"name": "db", "uuid": uuid, "memory_mb": 64, "disks": [disk]}], **VARIABLES)
    host, state = fleet.settled()["db"]
    assert state == "running" and on_ceph.images() == {image: 2} and on_ceph.counted()[1] == 2, said(done)
    assert changed(on_ceph.playbook("discover")) == 0
    on_ceph.playbook("drain", drover_host=host)
    there, state = fleet.settled()["db"]
    assert there != host and state == "running" and on_ceph.images() == {image: 2}
    done = on_ceph.playbook("instance_delete", drover_instance="db", drover_instance_force=True)
    assert fleet.where() == {} and on_ceph.images() == {image: 2} and "it was there before the instance" in said(done), said(done)
    assert on_ceph.counted()[1] == 0


def test_a_pool_that_does_not_run_builds_nothing(on_ceph):
    fleet = on_ceph.fleet
    on_ceph.playbook("discover")
    fleet.everywhere("virsh pool-destroy ceph")
    try:
        done = place(on_ceph, {"size_gb": 1, "pool": "ceph"}, check=False)
        assert done.returncode != 0 and "the pool does not run" in said(done), said(done)
    finally:
        fleet.everywhere("virsh pool-start ceph")
    assert on_ceph.images() == {} and fleet.where() == {}
    assert fleet.query("SELECT * FROM allocations") == []


def test_a_build_that_was_killed_after_it_had_made_the_volume_is_continued(on_ceph):
    fleet = on_ceph.fleet
    on_ceph.playbook("discover")
    uuid = Domain("db").uuid
    fleet.run("kvm1", f"virsh vol-create-as ceph {uuid}-vda 1G --format raw")
    definition = {"name": "db", "uuid": uuid, "memory_mb": 64, "disks": [{"size_gb": 1, "pool": "ceph"}]}
    fleet.place([definition], **VARIABLES)
    assert fleet.settled()["db"][1] == "running" and on_ceph.images() == {f"{uuid}-vda": 1}
    on_ceph.playbook("instance_delete", drover_instance="db", drover_instance_force=True)

    # One that has data may be somebody's: nothing is built on it.
    fleet.run("kvm1", f"virsh pool-refresh ceph && virsh vol-create-as ceph {uuid}-vda 1G --format raw")
    on_ceph.cluster.rbd("bench", "--io-type", "write", "--io-size", "4096", "--io-total", "4096", f"{uuid}-vda")
    done = fleet.place([definition], check=False, **VARIABLES)
    assert done.returncode != 0 and "is there already and is not the requested disk" in said(done), said(done)
    assert fleet.where() == {} and fleet.query("SELECT * FROM allocations") == []


@pytest.mark.parametrize("by", ["network", "volume"])
def test_a_volume_that_a_domain_of_another_host_has_stays(on_ceph, by):
    """That domain is off, so Ceph itself would let the image go."""
    fleet = on_ceph.fleet
    on_ceph.playbook("discover")
    place(on_ceph, {"size_gb": 1, "pool": "ceph"})
    (volume,), host = on_ceph.images(), fleet.where()["db"][0]
    other = next(each for each in fleet.hosts if each != host)
    source = f"<source pool='ceph' volume='{volume}'/><target dev='vda' bus='virtio'/>"
    disk = ceph.disk_xml(volume) if by == "network" else f"<disk type='volume'><driver name='qemu' type='raw'/>{source}</disk>"
    xml = DOMAIN.format(disks=disk, name="thief", uuid=Domain("thief").uuid, memory_mb=64, vcpus=1, metadata="")
    fleet.run(other, f"virsh define /dev/stdin <<'END'\n{xml}\nEND")
    on_ceph.playbook("discover")
    done = on_ceph.playbook("instance_delete", drover_instance="db", drover_instance_force=True)
    assert volume in on_ceph.images() and "a domain of another hypervisor uses it" in said(done), said(done)


def test_no_second_guest_writes_to_an_image(on_ceph):
    """Somebody has started the image of the dead host's guest under another name."""
    fleet = on_ceph.fleet
    on_ceph.make("kvm1", "web", ("web-root", 1))
    on_ceph.playbook("discover")
    fleet.lab.command("kill", "kvm1")
    fleet.playbook("discover", "-e", json.dumps(VARIABLES), "--limit", "kvm1,localhost", check=False)
    xml = DOMAIN.format(disks=ceph.disk_xml("web-root"), name="rescue", uuid=Domain("r").uuid, memory_mb=64, vcpus=1, metadata="")
    fleet.run("kvm2", f"virsh define /dev/stdin <<'END'\n{xml}\nEND\nvirsh start rescue")
    off = {"drover_host": "kvm1", "drover_host_is_off": "kvm1 is powered off"}
    done = on_ceph.playbook("evacuate", check=False, **off)
    assert fleet.where(["kvm2", "kvm3"]) == {"rescue": ("kvm2", "running")} and "disks of its instances are in use" in said(done), said(
        done
    )
    done = on_ceph.playbook("evacuate", check=False, drover_evacuate_force="storage_active", **off)
    assert fleet.where(["kvm2", "kvm3"]) == {"rescue": ("kvm2", "running")} and "rescue on kvm2 too" in said(done), said(done)
