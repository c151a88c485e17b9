# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guests with disks that are images in a real Ceph cluster: their data are not copied, and each
image counts once."""

from __future__ import annotations

import json
import math
import shutil

import pytest
from lablib.storage import beside, ceph
from test_evacuate import AT_ONCE
from test_fleet import DOMAIN, SHARED, Domain, changed, eventually, said
from test_sharing import holdings

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        any(shutil.which(name) is None for name in ceph.PROGRAMS),
        reason="Ceph is not here: run tests/setup/setup.sh storage",
    ),
]

pytest_plugins = ["test_fleet"]

BASE = "/srv/shared/images/clones.raw"
CLASS, POOL = "CUSTOM_DISK_GB_CEPH", "pool/ceph"
VARIABLES = {
    "drover_shared_pools": ["shared"],
    "drover_storage_pools": [{"name": "ceph", "traits": ["STORAGE_DISK_SSD"]}],
    **AT_ONCE,
}


class OnCeph:
    """A fleet with access to a Ceph cluster."""

    def __init__(self, fleet):
        self.fleet, self.cluster = fleet, ceph.Cluster(fleet.lab.layout)

    def make(self, host, name, *images, state="running"):
        """Make a guest by hand; images are (name, GiB)."""
        for image, size in images:
            self.cluster.rbd("create", "--size", f"{size}G", image)
        disks = "".join(
            ceph.disk_xml(image, f"vd{'abc'[number]}")
            for number, (image, dummy) in enumerate(images)
        )
        domain = Domain(name)
        xml = DOMAIN.format(
            disks=disks, name=name, uuid=domain.uuid, memory_mb=64, vcpus=1, metadata=""
        )
        start = f"\nvirsh start {name}" if state == "running" else ""
        self.fleet.run(
            host, f"virsh pool-refresh ceph\nvirsh define /dev/stdin <<'END'\n{xml}\nEND{start}"
        )
        return domain

    def clean(self):
        """Remove all images, as a person does on a host; images with clones come last."""
        left = self.images()
        for image in sorted(left, key=lambda name: (name.startswith("drover-image-"), name)):
            if image.startswith("drover-image-"):
                self.fleet.run(
                    "kvm1",
                    f"virsh pool-refresh ceph && virsh vol-delete --delete-snapshots {image} ceph",
                )
            else:
                self.cluster.rbd("rm", image)

    def parent(self, image):
        """Return image and snapshot behind a clone, or None."""
        found = json.loads(self.cluster.rbd("info", "--format", "json", image)).get("parent")
        return found and (found["image"], found["snapshot"])

    def content(self, image, length):
        """Return the first bytes of an image."""
        path = self.fleet.folder / "exported"
        self.cluster.rbd("export", "--no-progress", image, str(path))
        with open(path, "rb") as file:
            found = file.read(length)
        path.unlink()
        return found

    def images(self):
        """Return {image: GiB} as Ceph itself lists them."""
        listed = json.loads(self.cluster.rbd("ls", "--long", "--format", "json"))
        return {each["image"]: each["size"] / 2**30 for each in listed}

    def written(self):
        """Return the size of each image's data in Ceph, in bytes."""
        return {
            each["name"]: each["used_size"]
            for each in json.loads(self.cluster.rbd("du", "--format", "json"))["images"]
        }

    def miss(self, image):
        """Wait until Ceph notices the death of a client with an open image, which takes half a
        minute: an evacuation is refused before that."""
        beside.until(
            "its host is missed",
            lambda: (
                not json.loads(self.cluster.rbd("status", image, "--format", "json"))["watchers"]
            ),
        )

    def counted(self):
        """Return the store's size and allocation of the pool."""
        rows = self.fleet.query(
            "SELECT i.total, i.used FROM inventories i JOIN resource_providers p ON p.id ="
            " i.provider_id WHERE p.name = :name",
            name=POOL,
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
    storage = OnCeph(fleet)
    yield storage
    for host in fleet.hosts:
        fleet.lab.command("start", host)
    fleet.everywhere(
        "for each in $(virsh list --all --name); do virsh destroy $each; virsh undefine $each;"
        " done; true"
    )
    storage.clean()
    fleet.run("kvm1", f"rm -rf {SHARED}/_base")


def test_images_count_once_and_as_ceph_lists_them(on_ceph):
    on_ceph.make("kvm1", "web", ("web-root", 1), ("web-data", 2))
    on_ceph.make("kvm2", "db", ("db-root", 3))
    on_ceph.make("kvm3", "off", ("off-root", 2), state="shutoff")
    done = on_ceph.playbook("discover")
    assert changed(done) > 0
    found = holdings(on_ceph.fleet)
    assert {name: places[POOL][CLASS] for name, places in found.items()} == {
        "web": 3,
        "db": 3,
        "off": 2,
    }
    total, used = on_ceph.counted()
    assert used == sum(math.ceil(size) for size in on_ceph.images().values()) == 8
    assert total in (5, 6)
    assert changed(on_ceph.playbook("discover")) == 0


def test_a_guest_whose_size_nobody_knows_has_moved_to_a_host_whose_pool_runs(on_ceph):
    """The pool was read before the image was made. The command in the message helps on the new host
    too."""
    fleet = on_ceph.fleet
    on_ceph.make("kvm1", "off", ("off-root", 4), state="shutoff")
    fleet.run("kvm1", "virsh pool-destroy ceph")
    try:
        on_ceph.playbook("discover")
        on_ceph.playbook("drain", drover_host="kvm1")
    finally:
        fleet.run("kvm1", "virsh pool-start ceph")
    done = on_ceph.playbook("discover")
    ((host, state),) = fleet.where().values()
    assert (host, state) != (
        "kvm1",
        "shutoff",
    ) and f"Instance off on {host}: the size of its disks in the storage pool ceph" in done.stderr
    assert on_ceph.counted()[1] == 0 and "virsh pool-refresh ceph" in done.stderr, done.stderr
    fleet.run(host, "virsh pool-refresh ceph")
    done = on_ceph.playbook("discover")
    assert (
        on_ceph.counted()[1] == 4 == sum(on_ceph.images().values())
        and "is not known" not in done.stderr
    ), done.stderr


def test_live_move_and_drain_copy_nothing(on_ceph):
    fleet = on_ceph.fleet
    on_ceph.make("kvm2", "web", ("web-root", 1))
    on_ceph.make("kvm1", "off", ("off-root", 1), state="shutoff")
    on_ceph.playbook("discover")
    images, written = on_ceph.images(), on_ceph.written()
    assert (
        fleet.move_live("web", **VARIABLES) == "kvm1"
        and on_ceph.images() == images
        and on_ceph.written() == written
    )
    done = on_ceph.playbook("drain", drover_host="kvm1")
    where = fleet.settled()
    assert {name: state for name, (dummy, state) in where.items()} == {
        "web": "running",
        "off": "shutoff",
    }, said(done)
    assert "kvm1" not in {host for host, dummy in where.values()}
    assert on_ceph.images() == images and on_ceph.written() == written
    assert on_ceph.counted()[1] == 2
    assert {name: places[POOL] for name, places in holdings(fleet).items()} == {
        "web": {CLASS: 1},
        "off": {CLASS: 1},
    }
    assert changed(on_ceph.playbook("discover")) == 0


def test_evacuation_and_deletion(on_ceph):
    fleet = on_ceph.fleet
    on_ceph.make("kvm1", "web", ("web-root", 1))
    on_ceph.playbook("discover")
    fleet.lab.command("kill", "kvm1")
    fleet.playbook(
        "discover", "-e", json.dumps(VARIABLES), "--limit", "kvm1,localhost", check=False
    )
    on_ceph.miss("web-root")
    done = on_ceph.playbook(
        "evacuate", drover_host="kvm1", drover_host_is_off="kvm1 is powered off"
    )
    there, state = fleet.where(["kvm2", "kvm3"])["web"]
    assert state == "running" and on_ceph.images() == {"web-root": 1}, said(done)

    fleet.lab.command("start", "kvm1")
    ceph.up(fleet.lab.layout)
    on_ceph.playbook("discover")
    # The old guest is off, and named; the image stays whole.
    assert fleet.run("kvm1", "virsh list --name").split() == []
    fleet.run("kvm1", "virsh undefine web 2>/dev/null; true")
    on_ceph.playbook("discover")
    done = on_ceph.playbook("instance_delete", drover_instance="web", drover_instance_force=True)
    assert fleet.where() == {}
    # Nothing proves that the image belongs to drover: it stays, and is named.
    assert on_ceph.images() == {"web-root": 1} and "rbd:vms/web-root" in said(done), said(done)
    assert on_ceph.counted()[1] == 0


def place(on_ceph, *disks, check=True, name="db"):
    return on_ceph.fleet.place(
        [{"name": name, "memory_mb": 64, "disks": list(disks)}], check=check, **VARIABLES
    )


def test_the_whole_life_of_an_instance_with_a_volume(on_ceph):
    """The image is made by its definition, used in a live move, and removed with the guest; another
    image stays."""
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
    fleet.run(
        "kvm1",
        f"qemu-img create -q -f qcow2 {base} 512M && qemu-io -c 'write -q -P 90 1M 3M' {base}",
    )
    done = place(on_ceph, {"size_gb": 1, "pool": "ceph", "image": base})
    (volume,) = on_ceph.images()
    assert fleet.settled()["db"][1] == "running" and on_ceph.images() == {volume: 1}, said(done)
    on_ceph.cluster.rbd("export", "--no-progress", volume, f"{fleet.folder}/exported")
    data = (fleet.folder / "exported").read_bytes()
    assert (
        data[: 2**20] == bytes(2**20)
        and data[2**20 : 4 * 2**20] == b"Z" * 3 * 2**20
        and not any(data[4 * 2**20 : 8 * 2**20])
    )
    on_ceph.playbook("instance_delete", drover_instance="db", drover_instance_force=True)
    assert on_ceph.images() == {} and "base.qcow2" in fleet.files(SHARED)

    # The image is larger than its disk: nothing is made.
    fleet.run("kvm1", f"qemu-img resize -q {base} 2G")
    done = place(on_ceph, {"size_gb": 1, "pool": "ceph", "image": base}, check=False)
    assert "make size_gb larger" in said(done) and on_ceph.images() == {}, said(done)


def test_a_volume_that_others_use_stays(on_ceph):
    fleet = on_ceph.fleet
    on_ceph.playbook("discover")
    place(on_ceph, {"size_gb": 1, "pool": "ceph"})
    ((host, (domain,)),) = [(host, found) for host, found in fleet.look().items() if found]
    (volume,) = on_ceph.images()
    # One client has it open, and another one has cloned it.
    other = next(each for each in fleet.hosts if each != host)
    xml = DOMAIN.format(
        disks=ceph.disk_xml(volume),
        name="thief",
        uuid=Domain("thief").uuid,
        memory_mb=64,
        vcpus=1,
        metadata="",
    )
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
    """The image counts on its pool, stays in a live move, and is kept, although its name has the
    uuid of the instance."""
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
    done = fleet.place(
        [{"name": "db", "uuid": uuid, "memory_mb": 64, "disks": [disk]}], **VARIABLES
    )
    host, state = fleet.settled()["db"]
    assert state == "running" and on_ceph.images() == {image: 2} and on_ceph.counted()[1] == 2, (
        said(done)
    )
    assert changed(on_ceph.playbook("discover")) == 0
    on_ceph.playbook("drain", drover_host=host)
    there, state = fleet.settled()["db"]
    assert there != host and state == "running" and on_ceph.images() == {image: 2}
    done = on_ceph.playbook("instance_delete", drover_instance="db", drover_instance_force=True)
    assert (
        fleet.where() == {}
        and on_ceph.images() == {image: 2}
        and "it was there before the instance" in said(done)
    ), said(done)
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


def test_a_new_store_counts_the_guests_of_a_host_whose_pool_does_not_run(on_ceph):
    """The host cannot report the disk size of a guest that is off: a message says so, until the
    pool runs."""
    fleet = on_ceph.fleet
    on_ceph.make("kvm3", "web", ("web-root", 1))
    on_ceph.make("kvm3", "off", ("off-root", 4), state="shutoff")
    fleet.run("kvm3", "virsh pool-destroy ceph")
    try:
        # The other hosts, with running pools, are read after it.
        fleet.playbook("discover", "--limit", "kvm3,localhost", "-e", json.dumps(VARIABLES))
        done = on_ceph.playbook("discover")
        assert on_ceph.counted()[1] == 1 and holdings(fleet)["web"][POOL] == {CLASS: 1}
        assert (
            "Instance off on kvm3: the size of its disks in the storage pool ceph is not known"
            in done.stderr
        ), done.stderr
    finally:
        fleet.run("kvm3", "virsh pool-start ceph")
    done = on_ceph.playbook("discover")
    assert (
        on_ceph.counted()[1] == 5 == sum(on_ceph.images().values())
        and "is not known" not in done.stderr
    )


def test_a_build_that_was_killed_after_it_had_made_the_volume_is_continued(on_ceph):
    fleet = on_ceph.fleet
    on_ceph.playbook("discover")
    uuid = Domain("db").uuid
    fleet.run("kvm1", f"virsh vol-create-as ceph {uuid}-vda 1G --format raw")
    definition = {
        "name": "db",
        "uuid": uuid,
        "memory_mb": 64,
        "disks": [{"size_gb": 1, "pool": "ceph"}],
    }
    fleet.place([definition], **VARIABLES)
    assert fleet.settled()["db"][1] == "running" and on_ceph.images() == {f"{uuid}-vda": 1}
    on_ceph.playbook("instance_delete", drover_instance="db", drover_instance_force=True)

    # A volume with data may belong to a person: nothing is built on it.
    fleet.run(
        "kvm1", f"virsh pool-refresh ceph && virsh vol-create-as ceph {uuid}-vda 1G --format raw"
    )
    on_ceph.cluster.rbd(
        "bench", "--io-type", "write", "--io-size", "4096", "--io-total", "4096", f"{uuid}-vda"
    )
    done = fleet.place([definition], check=False, **VARIABLES)
    assert done.returncode != 0 and "is there already and is not the requested disk" in said(
        done
    ), said(done)
    assert fleet.where() == {} and fleet.query("SELECT * FROM allocations") == []


@pytest.mark.parametrize("by", ["network", "volume"])
def test_a_volume_that_a_domain_of_another_host_has_stays(on_ceph, by):
    """That domain is off, so Ceph itself would remove the image."""
    fleet = on_ceph.fleet
    on_ceph.playbook("discover")
    place(on_ceph, {"size_gb": 1, "pool": "ceph"})
    (volume,), host = on_ceph.images(), fleet.where()["db"][0]
    other = next(each for each in fleet.hosts if each != host)
    source = f"<source pool='ceph' volume='{volume}'/><target dev='vda' bus='virtio'/>"
    disk = (
        ceph.disk_xml(volume)
        if by == "network"
        else f"<disk type='volume'><driver name='qemu' type='raw'/>{source}</disk>"
    )
    xml = DOMAIN.format(
        disks=disk, name="thief", uuid=Domain("thief").uuid, memory_mb=64, vcpus=1, metadata=""
    )
    fleet.run(other, f"virsh define /dev/stdin <<'END'\n{xml}\nEND")
    on_ceph.playbook("discover")
    done = on_ceph.playbook("instance_delete", drover_instance="db", drover_instance_force=True)
    assert volume in on_ceph.images() and "a domain of another hypervisor uses it" in said(done), (
        said(done)
    )


def test_no_second_guest_writes_to_an_image(on_ceph):
    """A person has started the image of the dead host's guest under another name."""
    fleet = on_ceph.fleet
    on_ceph.make("kvm1", "web", ("web-root", 1))
    on_ceph.playbook("discover")
    fleet.lab.command("kill", "kvm1")
    fleet.playbook(
        "discover", "-e", json.dumps(VARIABLES), "--limit", "kvm1,localhost", check=False
    )
    xml = DOMAIN.format(
        disks=ceph.disk_xml("web-root"),
        name="rescue",
        uuid=Domain("r").uuid,
        memory_mb=64,
        vcpus=1,
        metadata="",
    )
    fleet.run("kvm2", f"virsh define /dev/stdin <<'END'\n{xml}\nEND\nvirsh start rescue")
    off = {"drover_host": "kvm1", "drover_host_is_off": "kvm1 is powered off"}
    done = on_ceph.playbook("evacuate", check=False, **off)
    assert fleet.where(["kvm2", "kvm3"]) == {
        "rescue": ("kvm2", "running")
    } and "disks of its instances are in use" in said(done), said(done)
    done = on_ceph.playbook("evacuate", check=False, drover_evacuate_force="storage_active", **off)
    assert fleet.where(["kvm2", "kvm3"]) == {
        "rescue": ("kvm2", "running")
    } and "rescue on kvm2 too" in said(done), said(done)


# -- disks that are clones of an image -------------------------------------------------------------


def an_image(fleet, data="64M"):
    """Make an image with a name; its first bytes after 1 MiB are Z."""
    fleet.run(
        "kvm1",
        f"qemu-img create -q -f raw {BASE} 2G && qemu-io -f raw -c 'write -q -P 90 1M {data}'"
        f" {BASE}",
    )
    return [
        {
            "name": "debian-12",
            "source": BASE,
            "checksum": "sha256:" + fleet.run("kvm1", f"sha256sum {BASE}").split()[0],
        }
    ]


def place_from(on_ceph, images, *names, check=True, **more):
    disk = {"size_gb": 3, "pool": "ceph", "image": "debian-12"}
    definitions = [{"name": name, "memory_mb": 64, "disks": [disk], **more} for name in names]
    path = on_ceph.fleet.folder / "fleet.yml"
    path.write_text(json.dumps({"images": images, "instances": definitions}), encoding="utf-8")
    return on_ceph.playbook("place", drover_definitions=str(path), check=check)


def volumes_of(fleet):
    """Return {name of an instance: its first volume}."""
    return {
        each["name"]: f"{each['uuid']}-vda" for found in fleet.look().values() for each in found
    }


def test_disks_from_one_image_are_clones_of_it(on_ceph):
    """The second clone takes no space; changes and losses of one instance do not affect the
    others.
    """
    fleet = on_ceph.fleet
    on_ceph.playbook("discover")
    images = an_image(fleet)
    done = place_from(on_ceph, images, "web")
    assert "is copied into" not in said(done), said(done)
    place_from(on_ceph, images, "db")
    volumes = volumes_of(fleet)
    (image,) = set(on_ceph.images()) - set(volumes.values())
    assert image.startswith(f"drover-image-{images[0]['checksum'][7:]}-")
    assert on_ceph.images() == {image: 2, volumes["web"]: 3, volumes["db"]: 3}
    assert (
        on_ceph.parent(volumes["web"]) == on_ceph.parent(volumes["db"]) == (image, "drover-whole")
    )
    written = on_ceph.written()
    assert written[volumes["web"]] == written[volumes["db"]] == 0
    # The disks count, and the image does not.
    assert on_ceph.counted()[1] == 6 and changed(on_ceph.playbook("discover")) == 0
    assert "drover-image" not in said(on_ceph.playbook("audit"))

    host = fleet.settled()["web"][0]
    on_ceph.playbook("drain", drover_host=host)
    assert (
        host not in {there for there, dummy in fleet.settled().values()}
        and on_ceph.written() == written
    )
    on_ceph.playbook("undrain", drover_host=host)

    done = on_ceph.playbook("instance_delete", drover_instance="web", drover_instance_force=True)
    assert on_ceph.images() == {image: 2, volumes["db"]: 3}, said(done)
    assert (
        on_ceph.content(volumes["db"], 2**20 + 8)[-8:] == b"Z" * 8
        and fleet.settled()["db"][1] == "running"
    )
    shown = said(on_ceph.playbook("image_cache_clean"))
    assert f"ceph/{image}: kept, as" in shown and image in on_ceph.images(), shown
    # A person cannot remove it either while it has a clone.
    fleet.run(
        "kvm1",
        f"virsh pool-refresh ceph; virsh vol-delete --delete-snapshots {image} ceph 2>/dev/null &&"
        " exit 1; true",
    )
    assert on_ceph.parent(volumes["db"]) == (image, "drover-whole")
    place_from(on_ceph, images, "web")
    assert (
        on_ceph.parent(volumes_of(fleet)["web"]) == (image, "drover-whole")
        and len(on_ceph.images()) == 3
    )


def test_an_image_with_the_name_and_the_mark_of_another_content_is_not_cloned(on_ceph):
    """A stranger has made it. Each host compares images that others have filled, once."""
    fleet = on_ceph.fleet
    on_ceph.playbook("discover")
    images = an_image(fleet)
    strange = f"drover-image-{images[0]['checksum'][7:]}-00000000"
    on_ceph.cluster.rbd("create", "--size", "2G", strange)
    on_ceph.cluster.rbd(
        "bench", "--io-type", "write", "--io-size", "4K", "--io-total", "64K", strange
    )
    on_ceph.cluster.rbd("snap", "create", f"{strange}@drover-whole")
    on_ceph.cluster.rbd("snap", "protect", f"{strange}@drover-whole")
    place_from(on_ceph, images, "web")
    on_ceph.playbook("host_disable", drover_host=fleet.settled()["web"][0])
    place_from(on_ceph, images, "db")
    volumes = volumes_of(fleet)
    (image,) = set(on_ceph.images()) - set(volumes.values()) - {strange}
    assert (
        on_ceph.parent(volumes["web"]) == on_ceph.parent(volumes["db"]) == (image, "drover-whole")
    )
    assert on_ceph.content(volumes["web"], 2**20 + 8)[-8:] == b"Z" * 8
    assert len({host for host, dummy in fleet.settled().values()}) == 2, (
        "the image was compared by no host but the one that filled it"
    )


def test_a_dead_hosts_clones_run_elsewhere(on_ceph):
    fleet = on_ceph.fleet
    on_ceph.playbook("discover")
    place_from(on_ceph, an_image(fleet), "web")
    (host, _state), (volume,) = fleet.settled()["web"], volumes_of(fleet).values()
    images = on_ceph.images()
    on_ceph.playbook("discover")
    fleet.lab.command("kill", host)
    fleet.playbook(
        "discover", "-e", json.dumps(VARIABLES), "--limit", f"{host},localhost", check=False
    )
    done = on_ceph.playbook(
        "evacuate", drover_host=host, drover_host_is_off=f"{host} is powered off"
    )
    there, state = fleet.where([each for each in fleet.hosts if each != host])["web"]
    assert state == "running" and there != host and on_ceph.images() == images, said(done)
    assert on_ceph.content(volume, 2**20 + 8)[-8:] == b"Z" * 8


def test_a_kill_while_the_image_is_filled(on_ceph):
    """The host loses its power then. The repeated command makes a clone of a whole image, and
    removes the unfinished one."""
    fleet = on_ceph.fleet
    on_ceph.playbook("discover")
    images = an_image(fleet, "1500M")
    uuid = Domain("db").uuid
    definition = {"uuid": uuid, "requested_destination": {"host": "kvm2"}}
    path = fleet.folder / "fleet.yml"
    disk = {"size_gb": 3, "pool": "ceph", "image": "debian-12"}
    path.write_text(
        json.dumps(
            {
                "images": images,
                "instances": [{"name": "db", "memory_mb": 64, "disks": [disk], **definition}],
            }
        )
    )
    run = fleet.start("place", "-e", json.dumps({**VARIABLES, "drover_definitions": str(path)}))
    eventually(lambda: any(size == 2 for size in on_ceph.images().values()))
    (incomplete_image,) = on_ceph.images()
    fleet.lab.command("kill", "kvm2")
    run.finish()
    assert "drover-whole" not in on_ceph.cluster.rbd("snap", "ls", incomplete_image), (
        "it was filled too soon for this test"
    )
    fleet.lab.command("start", "kvm2")
    ceph.up(fleet.lab.layout)
    # Ceph counts the dead client as a client for a while.
    eventually(lambda: "watcher=" not in on_ceph.cluster.rbd("status", incomplete_image))
    done = place_from(on_ceph, images, "db", **definition)
    assert fleet.settled()["db"][1] == "running", said(done)
    (image,) = set(on_ceph.images()) - {f"{uuid}-vda"}
    assert image != incomplete_image and on_ceph.parent(f"{uuid}-vda") == (
        image,
        "drover-whole",
    ), said(done)
    assert on_ceph.content(f"{uuid}-vda", 2**20 + 8)[-8:] == b"Z" * 8


def test_a_build_that_was_killed_after_it_had_made_the_clone(on_ceph):
    fleet = on_ceph.fleet
    on_ceph.playbook("discover")
    images, uuid = an_image(fleet), Domain("db").uuid
    place_from(on_ceph, images, "web")
    (image,) = set(on_ceph.images()) - set(volumes_of(fleet).values())
    on_ceph.cluster.rbd("clone", f"{image}@drover-whole", f"{ceph.POOL}/{uuid}-vda")
    more = {"uuid": uuid, "requested_destination": {"host": "kvm2"}}
    # Its data may belong to a person.
    done = place_from(on_ceph, images, "db", check=False, **more)
    assert done.returncode != 0 and "is there already and is not the requested disk" in said(
        done
    ), said(done)
    folder = "/var/lib/drover/migrations"
    fleet.run(
        "kvm2",
        f'mkdir -p {folder}; echo \'{{"ceph/{uuid}-vda": "clone"}}\' > {folder}/{uuid}.volumes',
    )
    place_from(on_ceph, images, "db", **more)
    assert fleet.settled()["db"] == ("kvm2", "running") and on_ceph.images()[f"{uuid}-vda"] == 3
    assert (
        on_ceph.parent(f"{uuid}-vda") == (image, "drover-whole")
        and on_ceph.written()[f"{uuid}-vda"] == 0
    )


def test_a_new_store_that_has_read_one_host_starts_and_removes_nothing(on_ceph):
    """The store is lost. kvm1 has old definitions of guests that are on kvm2, and a discovery with
    --limit has read only kvm1."""
    fleet = on_ceph.fleet
    (fleet.folder / "store.db").unlink()
    images = []
    for name, state in (("web", "running"), ("off", "shutoff")):
        guest = Domain(name)
        images.append(f"{guest.uuid}-vda")
        on_ceph.cluster.rbd("create", "--size", "1G", images[-1])
        xml = DOMAIN.format(
            disks=ceph.disk_xml(images[-1]),
            name=name,
            uuid=guest.uuid,
            memory_mb=64,
            vcpus=1,
            metadata="",
        )
        for host in ("kvm1", "kvm2"):
            start = f"\nvirsh start {name}" if (host, state) == ("kvm2", "running") else ""
            fleet.run(
                host, f"virsh pool-refresh ceph\nvirsh define /dev/stdin <<'END'\n{xml}\nEND{start}"
            )
    on_ceph.fleet.playbook("discover", "-e", json.dumps(VARIABLES), "--limit", "kvm1,localhost")
    before = fleet.look()
    for playbook, variables, sentence in (
        ("instance_start", {"drover_instance": "web"}, "Instance web: It is not started"),
        ("instance_delete", {"drover_instance": "off"}, "Instance off: It is not removed"),
        ("drain", {"drover_pool": "ceph"}, "The storage pool ceph is not drained"),
    ):
        done = on_ceph.playbook(playbook, check=False, **variables)
        assert (
            done.returncode
            and f"{sentence}: kvm2, kvm3 were not read since the store was made" in said(done)
        ), said(done)
    assert fleet.look() == before and set(on_ceph.images()) == set(images)
    # All hosts are read: both guests are named, and still nothing is done with them.
    done = on_ceph.playbook("discover", check=False)
    assert "web is on kvm1 (shutoff) and kvm2 (running)" in said(done), said(done)
    done = on_ceph.playbook("instance_start", check=False, drover_instance="web")
    assert done.returncode and "was seen on kvm1 and kvm2 at once" in said(done), said(done)


# -- disks that move into Ceph and out of it -------------------------------------------------------

#: The content of a guest's disk: its boot sector is before it.
WRITTEN_MB = 16


def a_guest(fleet):
    """Make a guest with a file; return it and the name of the image for its disk."""
    guest = Domain("web", boots=True, size="64M", written_mb=WRITTEN_MB)
    fleet.make("kvm1", guest)
    return guest, f"{guest.uuid}-vda"


def source(fleet):
    """Return the source of web's disk, in the running guest and in the definition."""
    return {
        line.split()[3] if len(line.split()) > 3 else None
        for words in ("", "--inactive")
        for line in fleet.run("kvm1", f"virsh domblklist --details {words} web").splitlines()
        if " vda " in line
    }


def move(on_ceph, pool, check=True, **variables):
    return on_ceph.playbook(
        "instance_disk_move",
        drover_instance="web",
        drover_disk="vda",
        drover_pool=pool,
        check=check,
        **variables,
    )


def nothing_left(fleet):
    assert (
        fleet.query(
            "SELECT name, task_state FROM instances WHERE order_uuid IS NOT NULL OR task_state IS"
            " NOT NULL"
        )
        == []
    )
    assert (
        "disk_move" not in fleet.run("kvm1", "virsh dumpxml --inactive web")
        and fleet.query("SELECT name FROM leases") == []
    )


def test_a_disk_moves_into_ceph_and_out_of_it(on_ceph):
    """The guest continues to run; the old disk is removed, and each disk counts at its place."""
    fleet = on_ceph.fleet
    guest, image = a_guest(fleet)
    on_ceph.playbook("discover")
    pid = fleet.run("kvm1", "cat /run/libvirt/qemu/web.pid")
    done = move(on_ceph, "ceph")
    assert changed(done) == 1 and source(fleet) == {f"{ceph.POOL}/{image}"}, said(done)
    assert (
        on_ceph.images() == {image: 0.0625}
        and fleet.files(SHARED) == []
        and on_ceph.counted()[1] == 1
    )
    assert (
        holdings(fleet)["web"][POOL] == {CLASS: 1}
        and fleet.run("kvm1", "cat /run/libvirt/qemu/web.pid") == pid
    )
    data = on_ceph.content(image, WRITTEN_MB * 2**20)
    assert data[2**20 :] == b"Z" * (WRITTEN_MB - 1) * 2**20
    assert changed(move(on_ceph, "ceph")) == 0 and changed(on_ceph.playbook("discover")) == 0
    nothing_left(fleet)

    done = move(on_ceph, SHARED)
    new = f"{SHARED}/{image}"
    assert source(fleet) == {new} and on_ceph.images() == {} and on_ceph.counted()[1] == 0, said(
        done
    )
    assert "failed" not in fleet.run(
        "kvm1", f"qemu-io -r -U -f raw -c 'read -P 90 1M {WRITTEN_MB - 1}M' {new}"
    )
    assert changed(on_ceph.playbook("discover")) == 0
    nothing_left(fleet)
    # A guest that was off starts with the disk of its definition.
    fleet.run("kvm1", "virsh destroy web && virsh start web")
    assert guest.uuid and source(fleet) == {new}


@pytest.mark.parametrize("then", ["again", "aborted", "the guest went off"])
def test_a_run_that_is_killed_while_it_copies_into_ceph(on_ceph, then):
    fleet = on_ceph.fleet
    _guest, image = a_guest(fleet)
    old = f"{SHARED}/web-0.qcow2"
    on_ceph.playbook("discover")
    variables = {
        "drover_instance": "web",
        "drover_disk": "vda",
        "drover_pool": "ceph",
        "drover_migration": {"bandwidth_mib": 2},
    }
    run = fleet.start("instance_disk_move", "-e", json.dumps({**VARIABLES, **variables}))
    eventually(lambda: "job='copy'" in fleet.run("kvm1", "virsh dumpxml web"))
    run.kill()
    assert list(on_ceph.images()) == [image]
    if then == "again":
        done = move(on_ceph, "ceph")
        assert source(fleet) == {f"{ceph.POOL}/{image}"} and fleet.files(SHARED) == [], said(done)
    elif then == "aborted":
        done = move(on_ceph, "ceph", drover_abort=True)
        assert source(fleet) == {old} and on_ceph.images() == {}, said(done)
    else:
        fleet.run("kvm1", "virsh destroy web")
        eventually(lambda: "drover.compute/" not in fleet.run("kvm1", "cat /proc/net/unix"))
        done = move(on_ceph, "ceph", check=False)
        assert done.returncode and "while its guest runs" in said(done), said(done)
        assert on_ceph.images() == {} and fleet.files(SHARED) == ["web-0.qcow2"]
    nothing_left(fleet)


def test_a_clone_is_moved_whole_and_its_image_stays(on_ceph):
    fleet = on_ceph.fleet
    on_ceph.playbook("discover")
    place_from(on_ceph, an_image(fleet, "8M"), "web", requested_destination={"host": "kvm1"})
    (volume,) = volumes_of(fleet).values()
    (image,) = set(on_ceph.images()) - {volume}
    done = move(on_ceph, SHARED)
    assert list(on_ceph.images()) == [image] and source(fleet) == {f"{SHARED}/{volume}"}, said(done)
    assert "failed" not in fleet.run(
        "kvm1", f"qemu-io -r -U -f raw -c 'read -P 90 1M 8M' {SHARED}/{volume}"
    )
    nothing_left(fleet)
