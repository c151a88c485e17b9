# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The examples that need real hypervisors, unchanged: the examples with LAB in
tests/unit/examples.py."""

from __future__ import annotations

import json
import pathlib

import pytest
from test_evacuate import AT_ONCE, SHARED_POOL, die, discover
from test_fleet import DISK, DOMAIN, IMAGE, LOCAL, SHARED, Domain

from ansible_collections.drover.compute.tests.unit import examples

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

FIRST, SECOND = "5f0c6a3e-7d0c-4c56-9f2e-0f6d5a9b1c01", "5f0c6a3e-7d0c-4c56-9f2e-0f6d5a9b1c02"
FLEET = f"""\
server_groups:
  - name: web
    policy: anti-affinity
instances:
  - name: web1
    memory_mb: 64
    disks: [{{size_gb: 1, image: {IMAGE}}}]
    networks: [{{bridge: br0}}]
    server_group: web
"""
DISKLESS = DOMAIN.format(
    name="web-1",
    uuid=FIRST,
    memory_mb=64,
    vcpus=1,
    metadata="",
    disks=DISK.format(path=f"{LOCAL}/web-1.qcow2", target="vda"),
).replace(f"<uuid>{FIRST}</uuid>", "")


DRIVE = (
    "<disk type='file' device='cdrom'><driver name='qemu' type='raw'/><target dev='sdb'"
    " bus='sata'/><readonly/></disk>"
)
CDROM_GUEST = Domain("web1", boots=True).script().replace("</devices>", f"{DRIVE}</devices>")


def two_guests(fleet):
    fleet.make(
        "kvm1", Domain("web-1", uuid=FIRST, boots=True), Domain("web-2", uuid=SECOND, boots=True)
    )
    fleet.playbook("discover")


def web1(fleet):
    fleet.make("kvm1", Domain("web1", boots=True))
    fleet.playbook("discover")


#: Run on a host: make a second pool, which is removed afterwards.
POOL = f"mkdir -p {LOCAL}/fast && virsh pool-create-as fast dir --target {LOCAL}/fast"


def two_guests_and_a_pool(fleet):
    two_guests(fleet)
    fleet.run("kvm1", POOL)


def web1_and_a_pool(fleet):
    web1(fleet)
    fleet.run("kvm1", POOL)


def is_moved(fleet, name):
    """Return True if the disk of a guest is in the second pool; remove the pool."""
    fleet.run("kvm1", "virsh pool-destroy fast")
    return f"{LOCAL}/fast/" in fleet.run("kvm1", f"virsh domblklist {name}")


def with_a_drive(fleet):
    fleet.run(
        "kvm1",
        f"mkdir -p /srv/shared/isos && truncate -s 1M /srv/shared/isos/tools.iso\n{CDROM_GUEST}",
    )
    fleet.playbook("discover")


def storage_network(fleet):
    network = "<network><name>storage</name><bridge name='br0'/><forward mode='bridge'/></network>"
    define = f"virsh net-define /dev/stdin <<'END'\n{network}\nEND\nvirsh net-start storage"
    fleet.run("kvm1", f"virsh net-info storage || {{ {define}\n}}")


def in_a_network(fleet):
    """Its guests release no interface while they run."""
    storage_network(fleet)
    fleet.make("kvm1", Domain("web1", state="shutoff"))
    fleet.playbook("discover")


def off(fleet):
    """The same as above."""
    fleet.make("kvm1", Domain("web1", state="shutoff"))
    fleet.playbook("discover")


def four(fleet):
    fleet.make(
        "kvm1", *[Domain(f"web{number}", memory_mb=32, boots=True) for number in range(1, 5)]
    )
    fleet.playbook("discover")


def an_image(fleet):
    (fleet.folder / "domain.xml.j2").write_text(DISKLESS, encoding="utf-8")
    fleet.everywhere(f"cp {IMAGE} {LOCAL}/debian-12.qcow2")


def a_shared_image(fleet):
    fleet.everywhere(f"mkdir -p /srv/images && cp {IMAGE} /srv/images/debian-12.qcow2")
    digits = fleet.run("kvm1", f"sha256sum {IMAGE}").split()[0]
    (fleet.folder / "debian-12.sha256").write_text(digits, encoding="utf-8")


def of_a_dead_host(fleet):
    fleet.run("kvm1", "qemu-img create -q -f qcow2 /srv/shared/web-1.qcow2 1G")
    xml = DOMAIN.format(
        name="web-1",
        uuid=FIRST,
        memory_mb=64,
        vcpus=1,
        metadata="",
        disks=DISK.format(path="/srv/shared/web-1.qcow2", target="vda"),
    )
    (fleet.folder / "web-1.xml").write_text(xml, encoding="utf-8")


def resized(fleet):
    web1(fleet)
    flavor = {"name": "big", "vcpus": 1, "memory_mb": 96, "disk_gb": 0}
    fleet.playbook("flavor.yml", "-e", json.dumps({"flavor": flavor, **flavor}))
    fleet.playbook(
        "instance_resize",
        "-e",
        "drover_instance=web1",
        "-e",
        "drover_flavor=big",
        "-e",
        "drover_destination=kvm1",
    )


def large(fleet):
    web1(fleet)
    flavor = {"name": "large", "vcpus": 2, "memory_mb": 96, "disk_gb": 0}
    fleet.playbook("flavor.yml", "-e", json.dumps({"flavor": flavor, **flavor}))


def drained(fleet):
    web1(fleet)
    fleet.drain("kvm1")


def two_to_stop(fleet):
    fleet.make("kvm1", Domain("web1", boots=True), Domain("web2", boots=True))
    fleet.playbook("discover")


def dead(fleet):
    fleet.make("kvm1", Domain("web1", boots=True))
    discover(fleet)
    die(fleet)


def definitions(fleet):
    (fleet.folder / "fleet.yml").write_text(FLEET, encoding="utf-8")


def disabled(fleet):
    fleet.playbook("drain", "-e", "drover_host=kvm1")


def wants_a_reboot(fleet):
    web1(fleet)
    fleet.run("kvm1", "touch /run/reboot-required")


def nothing(fleet):
    del fleet


# The preparation of each, and the check afterwards.
PREPARE = {
    ("module", "domain"): an_image,
    ("module", "_cpu_baseline"): nothing,
    ("module", "_disk_move"): web1_and_a_pool,
    ("module", "_domain_backup"): two_guests,
    ("module", "_domain_device"): two_guests,
    ("module", "_domain_disk_move"): two_guests_and_a_pool,
    ("module", "_domain_snapshot"): two_guests,
    ("module", "fleet_cpu"): nothing,
    ("module", "_host_check"): nothing,
    ("module", "_on_host"): nothing,
    ("module", "_pool_contents"): two_guests_and_a_pool,
    ("module", "instance_snapshot"): web1,
    ("module", "_domain_migration"): two_guests,
    ("module", "_domain_order"): nothing,
    ("module", "_domain_sightings"): nothing,
    ("module", "_file_users"): nothing,
    ("module", "domain_power"): two_guests,
    ("module", "_domain_restart"): of_a_dead_host,
    ("module", "drain"): web1,
    ("module", "hypervisor_info"): two_guests,
    ("module", "_image_cache"): a_shared_image,
    ("module", "_image_file"): a_shared_image,
    ("module", "instance"): four,
    ("module", "instance_labels"): web1,
    ("module", "instance_cdrom"): with_a_drive,
    ("module", "instance_disk"): off,
    ("module", "instance_interface"): in_a_network,
    ("module", "instance_migrate"): web1,
    ("module", "instance_resize"): large,
    ("module", "_migration"): two_guests,
    ("module", "_resize"): resized,
    ("module", "undrain"): drained,
    ("module", "_rolling"): two_guests,
    ("role", "drain"): web1,
    ("role", "evacuate"): dead,
    ("module", "_migration_trust"): nothing,
    ("role", "hypervisor"): nothing,
    ("role", "instance"): two_to_stop,
    ("role", "migrate"): web1,
    ("role", "place"): definitions,
    ("role", "power"): disabled,
    ("role", "rolling"): wants_a_reboot,
}
AFTER = {
    ("module", "_disk_move"): lambda fleet: is_moved(fleet, "web1"),
    ("module", "_domain_disk_move"): lambda fleet: is_moved(fleet, "web-1"),
    ("module", "_pool_contents"): lambda fleet: (
        "destroyed" in fleet.run("kvm1", "virsh pool-destroy fast")
    ),
    ("module", "_domain_backup"): lambda fleet: (
        [name for name in fleet.files(LOCAL) if "-vda-" in name] != []
    ),
    ("module", "_domain_device"): lambda fleet: "data.qcow2" in fleet.files(LOCAL),
    ("module", "_domain_snapshot"): lambda fleet: (
        fleet.run("kvm1", "virsh snapshot-list web-1 --name").split() == ["before-upgrade"]
    ),
    ("module", "instance_snapshot"): lambda fleet: (
        fleet.run("kvm1", "virsh snapshot-list web1 --name").split() == []
        and not [name for name in fleet.files(SHARED) if "before" in name]
    ),
    ("module", "_domain_migration"): lambda fleet: fleet.where()["web-1"] == ("kvm2", "running"),
    ("module", "domain_power"): lambda fleet: set(fleet.where().values()) == {("kvm1", "shutoff")},
    ("module", "_domain_restart"): lambda fleet: fleet.where() == {"web-1": ("kvm2", "running")},
    ("module", "drain"): lambda fleet: (
        fleet.service("kvm1")["maintenance"] and fleet.settled()["web1"][0] != "kvm1"
    ),
    ("module", "fleet_cpu"): lambda fleet: (
        [json.loads(hosts) for (hosts,) in fleet.query("SELECT hosts FROM fleet_cpus")]
        == [["kvm1", "kvm2"]]
    ),
    ("module", "_image_cache"): lambda fleet: (
        len(fleet.run("kvm2", f"ls {LOCAL}/_base").split()) == 2
    ),
    ("module", "_image_file"): lambda fleet: (
        len(fleet.run("kvm2", f"ls {LOCAL}/_base").split()) == 2
    ),
    ("module", "instance"): lambda fleet: (
        fleet.where()
        == {
            "web1": ("kvm1", "running"),
            "web2": ("kvm1", "shutoff"),
            "web3": ("kvm1", "shutoff"),
        }
        and "web4" not in fleet.booked()
    ),
    ("module", "instance_labels"): lambda fleet: (
        json.loads(fleet.query("SELECT labels FROM instances WHERE name = 'web1'")[0][0])
        == {
            "backup": "daily",
            "project": "web",
            "tier": "front",
        }
    ),
    ("module", "instance_cdrom"): lambda fleet: fleet.settled()["web1"] == ("kvm1", "running"),
    ("module", "instance_disk"): lambda fleet: "web1-data.qcow2" in fleet.files(SHARED),
    ("module", "instance_interface"): lambda fleet: fleet.settled()["web1"] == ("kvm1", "shutoff"),
    ("module", "instance_migrate"): lambda fleet: fleet.settled()["web1"][0] == "kvm2",
    ("module", "instance_resize"): lambda fleet: (
        {each["VCPU"] for each in fleet.booked()["web1"].values()} == {2}
    ),
    ("module", "_migration"): lambda fleet: (
        "kvm1" not in {host for host, dummy in fleet.settled().values()}
    ),
    ("module", "undrain"): lambda fleet: not fleet.service("kvm1")["disabled"],
    ("role", "drain"): lambda fleet: (
        fleet.service("kvm1")["maintenance"] and fleet.settled()["web1"][0] != "kvm1"
    ),
    ("role", "evacuate"): lambda fleet: fleet.where(["kvm2", "kvm3"])["web1"][1] == "running",
    ("role", "instance"): lambda fleet: set(fleet.where().values()) == {("kvm1", "shutoff")},
    ("role", "migrate"): lambda fleet: fleet.settled()["web1"][0] != "kvm1",
    ("role", "place"): lambda fleet: fleet.settled()["web1"][1] == "running",
    ("role", "rolling"): lambda fleet: fleet.settled()["web1"][1] == "running",
}


def test_every_example_for_the_lab_is_prepared():
    assert set(PREPARE) == {key for key, where in examples.WHERE.items() if examples.LAB in where}


@pytest.mark.parametrize("kind, name", sorted(PREPARE))
def test_examples_run(with_bmcs, fleet, kind, name):
    PREPARE[kind, name](fleet)
    path = pathlib.Path(fleet.folder) / "example.yml"
    path.write_text(json.dumps(examples.plays_for(kind, name, examples.LAB)), encoding="utf-8")
    # In one lab all hosts die and come back within minutes, and share a folder of one machine.
    shared = json.dumps({**SHARED_POOL, **AT_ONCE} if name == "evacuate" else {})
    done = fleet.playbook(str(path), "-e", shared, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert AFTER.get((kind, name), lambda fleet: True)(fleet), done.stdout
    # kvm1 may be off by now.
    fleet.run("kvm2", "rm -f /srv/shared/web-1.qcow2")
