# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks, interfaces and media of instances on real hypervisors; the tests check them with virsh
from outside.

The guests of the lab have no operating system, so they release no PCI device: a virtio disk stays,
which a test checks too. QEMU removes a USB disk without the guest.
"""

from __future__ import annotations

import json
import subprocess

import pytest
from test_fleet import SHARED, Domain

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

DATA, ISO = f"{SHARED}/data.qcow2", f"{SHARED}/tools.iso"


def task(fleet, module, check=True, **arguments):
    """Run one of the modules as a person does; return (True if it changed anything, its output in
    one line).

    :param check: True if it must succeed; None for either result.
    """
    words = ["ansible", "localhost", "-m", f"drover.compute.{module}", "-a", json.dumps(arguments)]
    done = subprocess.run(
        words,
        env=fleet.lab.environment(fleet.store_url),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    said = " ".join((done.stdout + done.stderr).split())
    assert check in (None, done.returncode == 0) and "Traceback" not in said, said
    return " | CHANGED => " in said, said


def disk(fleet, state="present", check=True, **arguments):
    return task(
        fleet,
        "instance_disk",
        check,
        state=state,
        **{"name": "web", "path": DATA, "timeout": 10, **arguments},
    )


def disks(fleet, host="kvm1", name="web"):
    """Return dict target -> file of the running domain (None while it is off) and of the
    definition."""
    running = name in fleet.run(host, "virsh list --name").split()
    return tuple(
        (
            None
            if words is None
            else {
                line.split()[2]: line.split(maxsplit=3)[3]
                for line in fleet.run(host, words).splitlines()
                if line.startswith(" file")
            }
        )
        for words in (
            f"virsh domblklist --details {name}" if running else None,
            f"virsh domblklist --details --inactive {name}",
        )
    )


def gib(fleet, name="web"):
    return fleet.booked()[name]["kvm1"]["DISK_GB"]


def test_a_disk_comes_and_goes_while_the_guest_runs(fleet):
    fleet.make("kvm1", Domain("web", boots=True))
    fleet.make("kvm2", Domain("db", boots=True))
    fleet.playbook("discover")
    own = {"vda": f"{SHARED}/web-0.qcow2"}
    assert disk(fleet, size="2GiB", bus="usb")[0] and disks(fleet) == ({**own, "sda": DATA},) * 2
    assert gib(fleet) == 3 and not disk(fleet, size="2GiB", bus="usb")[0]
    fleet.playbook("discover")
    assert gib(fleet) == 3

    # All hosts have the storage: no other instance gets the file, not even to read.
    for readonly in (False, True):
        assert "web on kvm1" in disk(fleet, name="db", readonly=readonly, check=False)[1]
    assert set(disks(fleet, "kvm2", "db")[0]) == {"vda"}

    assert disk(fleet, "absent")[0] and disks(fleet) == (own, own) and gib(fleet) == 1
    assert not disk(fleet, "absent")[0] and "data.qcow2" in fleet.files(SHARED)
    assert disk(fleet, name="db", bus="usb")[0], "now it is free"
    fleet.settled()


def test_a_guest_that_does_not_release_a_disk_keeps_it(fleet):
    fleet.make("kvm1", Domain("web", boots=True))
    fleet.playbook("discover")
    disk(fleet, size="1GiB")
    both = ({"vda": f"{SHARED}/web-0.qcow2", "vdb": DATA},) * 2
    assert disks(fleet) == both
    said = disk(fleet, "absent", check=False)[1]
    assert (
        "did not release the device within 10 s" in said
        and disks(fleet) == both
        and gib(fleet) == 2
    )
    # QEMU has already requested the device from the guest.
    assert "did not release" in disk(fleet, "absent", check=False)[1] and disks(fleet) == both
    fleet.playbook("instance_stop", "-e", "drover_instance=web")
    assert (
        disk(fleet, "absent")[0]
        and disks(fleet) == (None, {"vda": f"{SHARED}/web-0.qcow2"})
        and gib(fleet) == 1
    )
    fleet.settled()


def test_what_libvirt_refuses_leaves_the_definition_as_it_was(fleet):
    """A guest with the machine q35 has few ports for new devices."""
    fleet.make("kvm1", Domain("web", boots=True))
    fleet.playbook("discover")
    for number in range(12):
        definition = fleet.run("kvm1", "virsh dumpxml --inactive web")
        path = f"{SHARED}/more-{number}.qcow2"
        said = disk(fleet, path=path, size=1, check=None)[1]
        if "No more available PCI slots" in said:
            break
    else:
        pytest.fail("it had a port for each of 12 disks")
    assert fleet.run("kvm1", "virsh dumpxml --inactive web") == definition and path.rpartition("/")[
        2
    ] not in fleet.files(SHARED)
    assert gib(fleet) == number + 1
    assert (
        "a running guest gets no disk on the bus sata"
        in disk(fleet, size=1, bus="sata", check=False)[1]
    )
    fleet.playbook("instance_stop", "-e", "drover_instance=web")
    assert disk(fleet, path=path, size=1)[0], "one that is off gets ports"
    fleet.playbook("instance_start", "-e", "drover_instance=web")
    assert disks(fleet)[0] == disks(fleet)[1]
    fleet.settled()


def test_interfaces_and_media(fleet):
    drive = (
        "<disk type='file' device='cdrom'><driver name='qemu' type='raw'/><target dev='sdb'"
        " bus='sata'/><readonly/></disk>"
    )
    fleet.run(
        "kvm1", Domain("web", boots=True).script().replace("</devices>", f"{drive}</devices>")
    )
    fleet.run("kvm1", f"truncate -s 1M {ISO}")
    fleet.playbook("discover")
    assert task(fleet, "instance_cdrom", name="web", path=ISO)[0] and all(
        each["sdb"] == ISO for each in disks(fleet)
    )
    assert not task(fleet, "instance_cdrom", name="web", path=ISO)[0]
    assert task(fleet, "instance_cdrom", name="web", path=ISO, state="absent")[0]
    assert all(each["sdb"] == "-" for each in disks(fleet))

    assert task(fleet, "instance_interface", name="web", bridge="br0")[0]
    for flag in ("", " --inactive"):
        assert "br0" in fleet.run("kvm1", f"virsh domiflist{flag} web")
    assert not task(fleet, "instance_interface", name="web", bridge="br0")[0]
    assert (
        "There is no bridge br9"
        in task(fleet, "instance_interface", check=False, name="web", bridge="br9")[1]
    )
    fleet.playbook("instance_stop", "-e", "drover_instance=web")
    assert task(fleet, "instance_interface", name="web", bridge="br0", state="absent")[0]
    assert "br0" not in fleet.run("kvm1", "virsh domiflist --inactive web")
    fleet.settled()


def test_a_file_that_was_there_before_outlives_its_guest(fleet):
    """A bridge that was made for the interface is removed with it."""
    fleet.make("kvm1", Domain("web", boots=True))
    fleet.playbook("discover")
    mine, made = f"{SHARED}/golden.qcow2", f"{SHARED}/made.qcow2"
    fleet.run("kvm1", f"qemu-img create -q -f qcow2 {mine} 64M")
    assert disk(fleet, path=mine, bus="usb")[0] and disk(fleet, path=made, size=1, bus="usb")[0]
    fleet.playbook(
        "instance_delete", "-e", "drover_instance=web", "-e", "drover_instance_force=true"
    )
    files = fleet.files(SHARED)
    assert "golden.qcow2" in files and "made.qcow2" not in files
