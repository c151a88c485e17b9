# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""On real hypervisors: no file in use is removed, and no guest continues with another file than its
own."""

from __future__ import annotations

import contextlib
import json
import subprocess
import uuid

import pytest
import yaml
from test_evacuate import AT_ONCE, SHARED_POOL
from test_fleet import LOCAL, SHARED, Domain, said

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.playbook_variables import (
    READ,
)

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

OVER = "qemu-img create -q -f qcow2 -F {kind} -b {base} {top}"
DISK = """<disk type='file' device='{device}'><driver name='qemu' type='{kind}' cache='none'/><source file='{path}'/>
<target dev='{target}' bus='{bus}'/>{more}</disk>"""
XML = """<domain type='qemu'><name>{name}</name><uuid>{uuid}</uuid><memory unit='MiB'>64</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='q35'>hvm</type>{os}</os><features><acpi/></features><devices>{devices}</devices></domain>"""


def disk(path, target="vda", kind="qcow2"):
    return DISK.format(path=path, target=target, kind=kind, device="disk", bus="virtio", more="")


def cdrom(path, target="sda"):
    return DISK.format(
        path=path, target=target, kind="raw", device="cdrom", bus="sata", more="<readonly/>"
    )


def define(fleet, host, name, devices, start=False, boot=""):
    """Make a domain with devices of the test, besides its disks."""
    text = XML.format(name=name, uuid=uuid.uuid4(), devices=devices, os=boot)
    fleet.run(host, f"virsh define /dev/stdin <<'END'\n{text}\nEND")
    if start:
        fleet.run(host, f"virsh start {name}")


def images(fleet, host, *commands):
    fleet.run(host, "set -e\n" + "\n".join(commands))


def discover(fleet, *words, **variables):
    return fleet.playbook("discover", *words, "-e", json.dumps(variables))


def act(fleet, what, name, **variables):
    """Run one of the playbooks on an instance, by force if the playbook has that option: the guests
    ignore the power button."""
    playbook = f"instance_{what}"
    force = {"drover_instance_force": True} if "instance_force" in READ[playbook].split() else {}
    given = {"drover_instance_timeout": 30, **force, **variables}
    return fleet.playbook(playbook, "-e", json.dumps({"drover_instances": [name], **given}))


def checked(fleet, name, destination="kvm2", host="kvm1"):
    """Return the hypervisors' objections to a move."""
    uuid_ = fleet.run(host, f"virsh domuuid {name}").strip()
    given = json.dumps({"start": [{"uuid": uuid_, "destination": destination}], "check": True})
    words = ["ansible", host, "-m", "drover.compute._domain_migration", "-a", given]
    done = subprocess.run(
        words,
        env=fleet.lab.environment(fleet.store_url),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    (answer,) = yaml.safe_load(done.stdout.partition("=>")[2])["moves"]
    assert answer["ok"] is (answer["message"] == "")
    return answer["message"]


def refused(fleet, name, **variables):
    """Return the reason why an instance is not moved to kvm2."""
    extra_vars = {
        "drover_instances": [name],
        "drover_destination": "kvm2",
        "drover_instance_timeout": 30,
        **variables,
    }
    return fleet.refused("instance_migrate", "-e", json.dumps(extra_vars))


def starts(fleet, host, name):
    """Start and stop a domain, to prove that it has all its files."""
    fleet.run(host, f"virsh start {name} && virsh destroy {name}")


@contextlib.contextmanager
def hidden(fleet, host, folder):
    """Mount another file system over a folder of a host."""
    fleet.run(host, f"mount -t tmpfs other {folder}")
    try:
        yield
    finally:
        fleet.run(host, f"umount {folder}")


def test_safety_02_and_04_what_clones_are_backed_by_stays(fleet):
    """A template on a local disk with a clone by path and one by volume, all shut off: moved,
    drained and deleted."""
    base, clone, by_volume = (f"{LOCAL}/{name}.qcow2" for name in ("tmpl", "clone", "cl"))
    images(
        fleet,
        "kvm1",
        f"qemu-img create -q -f qcow2 {base} 64M",
        f"qemu-io -f qcow2 -c 'write -q -P 7 0 1M' {base}",
        *(OVER.format(kind="qcow2", base=base, top=top) for top in (clone, by_volume)),
        "virsh pool-refresh default",
    )
    define(fleet, "kvm1", "tmpl", disk(base))
    define(fleet, "kvm1", "clone", disk(clone))
    define(
        fleet,
        "kvm1",
        "cl",
        "<disk type='volume' device='disk'><driver name='qemu' type='qcow2' cache='none'/>"
        "<source pool='default' volume='cl.qcow2'/><target dev='vda' bus='virtio'/></disk>",
    )
    discover(fleet)
    # The hypervisor refuses a single move, the plan refuses a drain.
    text = checked(fleet, "tmpl")
    assert (
        f"its disk {base} is on storage of this host only, and the domain c" in text
        and "uses it" in text
    )
    text = fleet.refused("drain", "-e", "drover_host=kvm1")
    assert "tmpl: one of its disks backs cl, clone on its host" in text
    done = act(fleet, "delete", "tmpl")
    assert f"Kept {base}: the domain c" in said(done)
    # Both clones move with all their backing files.
    done = fleet.playbook(
        "instance_migrate",
        "-e",
        json.dumps({"drover_instances": ["clone", "cl"], "drover_destination": "kvm2"}),
    )
    assert fleet.where() == {"clone": ("kvm2", "shutoff"), "cl": ("kvm2", "shutoff")}, said(done)
    assert fleet.files(LOCAL, "kvm1") == ["tmpl.qcow2"] and sorted(fleet.files(LOCAL, "kvm2")) == [
        "cl.qcow2",
        "clone.qcow2",
    ]
    for name, path in (("clone", clone), ("cl", by_volume)):
        assert "failed" not in fleet.run("kvm2", f"qemu-io -r -f qcow2 -c 'read -P 7 0 1M' {path}")
        starts(fleet, "kvm2", name)


def test_safety_06_pools_of_one_name_with_other_files(fleet):
    folder, old = f"{SHARED}/vols", f"{LOCAL}/vols"
    images(fleet, "kvm1", f"mkdir {folder}", f"qemu-img create -q -f qcow2 {folder}/vol3.qcow2 8M")
    images(fleet, "kvm2", f"mkdir {old}", f"qemu-img create -q -f qcow2 {old}/vol3.qcow2 8M")
    pool = "virsh pool-define-as vols dir --target {} && virsh pool-start vols"
    try:
        for host, path in (("kvm1", folder), ("kvm2", old)):
            fleet.run(host, pool.format(path))
        define(
            fleet,
            "kvm1",
            "web",
            "<disk type='volume' device='disk'><driver name='qemu' type='qcow2' cache='none'/>"
            "<source pool='vols' volume='vol3.qcow2'/><target dev='vda' bus='virtio'/></disk>",
            start=True,
        )
        discover(fleet)
        assert (
            f"its volume vols/vol3.qcow2 is another file on kvm2, {old}/vol3.qcow2 rather than"
            f" {folder}/vol3.qcow2" in checked(fleet, "web")
        )
        fleet.run(
            "kvm2", f"virsh pool-destroy vols && virsh pool-undefine vols && {pool.format(folder)}"
        )
        act(fleet, "migrate", "web", drover_destination="kvm2")
        assert fleet.where() == {"web": ("kvm2", "running")} and fleet.files(folder) == [
            "vol3.qcow2"
        ]
    finally:
        fleet.everywhere(
            "for d in $(virsh list --all --name); do virsh destroy $d; virsh undefine $d; done;"
            "virsh pool-destroy vols; virsh pool-undefine vols; true"
        )


def test_safety_05_another_golden_image_of_the_same_length(fleet):
    """A move compares backing files over the network; an evacuation compares them with the record
    of discovery."""
    golden, other = f"{LOCAL}/golden.raw", f"{LOCAL}/other.raw"
    tops = {name: f"{SHARED}/{name}.qcow2" for name in ("web", "shop")}
    for host, byte in (("kvm1", 1), ("kvm2", 1), ("kvm3", 3)):
        images(
            fleet,
            host,
            *(f"truncate -s 32M {path}" for path in (golden, other)),
            f"qemu-io -f raw -c 'write -q -P {byte} 0 64k' {golden}",
            f"qemu-io -f raw -c 'write -q -P {host[-1]} 0 64k' {other}",
        )
    images(
        fleet,
        "kvm1",
        OVER.format(kind="raw", base=golden, top=tops["web"]),
        OVER.format(kind="raw", base=other, top=tops["shop"]),
    )
    for name, path in tops.items():
        define(fleet, "kvm1", name, disk(path), start=True)
    assert (
        f"the image {golden} behind its disk {tops['web']} is another one on kvm3 (its content"
        " differs)" in checked(fleet, "web", "kvm3")
    )
    assert checked(fleet, "web") == ""
    discover(fleet, **SHARED_POOL)
    fleet.lab.command("kill", "kvm1")
    fleet.playbook(
        "discover", "--limit", "kvm1,localhost", "-e", json.dumps(SHARED_POOL), check=False
    )
    variables = {
        **SHARED_POOL,
        **AT_ONCE,
        "drover_host": "kvm1",
        "drover_host_is_off": "kvm1 is powered off",
    }
    done = fleet.playbook("evacuate", "-e", json.dumps(variables), check=False)
    text = said(done)
    assert (
        done.returncode == 2 and f"{other} behind its disk {tops['shop']} is another one on" in text
    ), text
    assert fleet.where(["kvm2", "kvm3"]) == {"web": ("kvm2", "running")}


def test_safety_17_and_21_a_library_and_a_kernel(fleet):
    """Media of a library do not count as the instance's own; a kernel that the destination does not
    have is a reason."""
    library, kernel = f"{LOCAL}/debian-12.iso", f"{LOCAL}/vmlinuz"
    images(
        fleet,
        "kvm1",
        f"truncate -s 1M {library}",
        f"qemu-img create -q -f qcow2 {LOCAL}/deb.qcow2 8M",
        f"echo a kernel > {kernel}",
    )
    define(
        fleet,
        "kvm1",
        "deb",
        disk(f"{LOCAL}/deb.qcow2") + cdrom(library),
        boot=f"<kernel>{kernel}</kernel>",
    )
    discover(fleet)
    assert f"{kernel}, which it is started from, does not exist on kvm2: copy it there" in checked(
        fleet, "deb"
    )
    images(fleet, "kvm2", f"echo a kernex > {kernel}")
    assert f"{kernel}, which it is started from, is another one on kvm2" in checked(fleet, "deb")
    images(fleet, "kvm2", f"echo a kernel > {kernel}")
    act(fleet, "migrate", "deb", drover_destination="kvm2")
    assert fleet.where() == {"deb": ("kvm2", "shutoff")}
    assert sorted(fleet.files(LOCAL, "kvm1")) == ["debian-12.iso", "vmlinuz"]
    assert sorted(fleet.files(LOCAL, "kvm2")) == ["deb.qcow2", "debian-12.iso", "vmlinuz"]


def test_storage_a_server_on_the_source_itself(fleet):
    images(
        fleet,
        "kvm1",
        f"qemu-img create -q -f raw {LOCAL}/exported.raw 8M",
        "setsid qemu-nbd --fork --persistent --bind 127.0.0.1 --port 10809 --format raw"
        f" --export-name x --pid-file /run/nbd.pid {LOCAL}/exported.raw",
    )
    try:
        define(
            fleet,
            "kvm1",
            "web",
            "<disk type='network' device='disk'><driver name='qemu' type='raw'"
            " cache='none'/><source protocol='nbd' name='x'><host name='127.0.0.1'"
            " port='10809'/></source><target dev='vda' bus='virtio'/></disk>",
            start=True,
        )
        assert "its disk vda comes from a server of this host itself (127.0.0.1)" in checked(
            fleet, "web"
        )
        assert fleet.where() == {"web": ("kvm1", "running")}
    finally:
        fleet.run("kvm1", "virsh destroy web; kill $(cat /run/nbd.pid); true")


def test_storage_what_the_destination_does_not_see(fleet):
    """A third host's guest is backed by a disk on shared storage, and the destination has not
    mounted it."""
    base, top = f"{SHARED}/base-0.qcow2", f"{LOCAL}/far.qcow2"
    fleet.make("kvm1", Domain("base", state="shutoff", size="8M"))
    images(fleet, "kvm3", OVER.format(kind="qcow2", base=base, top=top))
    define(fleet, "kvm3", "far", disk(top))
    discover(fleet, **SHARED_POOL)
    with hidden(fleet, "kvm2", SHARED):
        text = refused(fleet, "base", **SHARED_POOL)
        assert (
            f"its disk {base} is on shared storage here ({SHARED}, as the operator has declared),"
            " which kvm2 does not see: mount it there" in text
        )
        done = act(
            fleet,
            "migrate",
            "base",
            drover_destination="kvm2",
            drover_migration={"copy_storage": "always"},
        )
        assert f"left at the source: {base} (a domain of another hypervisor uses it)" in said(done)
        assert fleet.where()["base"] == ("kvm2", "shutoff")
        fleet.run("kvm2", "virsh undefine base")
    starts(fleet, "kvm3", "far")


def test_storage_a_device_that_both_hosts_have(fleet):
    """The hosts of the lab have the devices of their machine, which the operator declares here."""
    outcome = fleet.lab.host("kvm1").run(
        f"truncate -s 8M {SHARED}/lun && losetup -f --show {SHARED}/lun"
    )
    device = outcome.stdout.strip()
    if outcome.rc or not device:
        pytest.skip(f"this machine lets nobody set up a loop device: {outcome.stderr}")
    try:
        define(
            fleet,
            "kvm1",
            "web",
            "<disk type='block' device='disk'><driver name='qemu' type='raw' cache='none'/>"
            f"<source dev='{device}'/><target dev='vda' bus='virtio'/></disk>",
            start=True,
        )
        discover(fleet)
        assert f"of its device {device} cannot be proven that kvm2 has the same one" in refused(
            fleet, "web"
        )
        discover(fleet, drover_shared_block_devices=["/dev/loop*"])
        act(fleet, "migrate", "web", drover_destination="kvm2")
        assert fleet.where() == {"web": ("kvm2", "running")}
    finally:
        fleet.everywhere("virsh destroy web; true")
        fleet.run("kvm1", f"losetup -d {device}")
