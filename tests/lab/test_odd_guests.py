# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rare guests: the drain of their host moves them completely, or gives the reason why it does not.

test_drain.py has paused guests, guests with an internal snapshot and saved guests that are not
started; test_storage_safety.py has guests with clones, test_odd_names.py has odd names.
"""

from __future__ import annotations

import re
import uuid

import pytest
from test_evacuate import OFF, die, discover, evacuate, living
from test_fleet import LOCAL, SHARED, Domain, said
from test_storage_safety import OVER, XML, cdrom, define, disk, images

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

EMPTY_DRIVE = "<disk type='file' device='cdrom'><target dev='sdb' bus='sata'/><readonly/></disk>"
FOLDER = (
    "<filesystem type='mount' accessmode='mapped'><source dir='/root'/><target"
    " dir='exported'/></filesystem>"
)


def content(fleet, host, path, byte):
    """Return True if the first 64 KiB of a disk, with its backing files, have that byte."""
    text = fleet.run(host, f"qemu-io -U -r -f qcow2 -c 'read -P {byte} 0 64k' {path}")
    return "read 65536/65536" in text and "verification failed" not in text


def chain(base, top, byte):
    """Return the commands for an image over another one with the content."""
    return (
        f"qemu-img create -q -f qcow2 {base} 8M",
        f"qemu-io -f qcow2 -c 'write -q -P {byte} 0 64k' {base}",
        OVER.format(kind="qcow2", base=base, top=top),
    )


def boots(fleet, host):
    """Return the start time of each running guest of a host: another number means a new start."""
    return fleet.run(
        host, "for n in $(virsh list --name); do echo $n $(cat /run/libvirt/qemu/$n.pid); done"
    )


def create(fleet, host, name):
    """Start a transient domain."""
    images(fleet, host, f"qemu-img create -q -f qcow2 {SHARED}/{name}.qcow2 8M")
    text = XML.format(name=name, uuid=uuid.uuid4(), devices=disk(f"{SHARED}/{name}.qcow2"), os="")
    fleet.run(host, f"virsh create /dev/stdin <<'END'\n{text}\nEND")


def test_moved_with_all_that_they_are(fleet):
    """The guests are transient, have a local chain, have an external snapshot that libvirt does not
    know, and have CD-ROM drives."""
    medium, base, top = f"{LOCAL}/debian.iso", f"{LOCAL}/golden.qcow2", f"{LOCAL}/chained.qcow2"
    images(
        fleet,
        "kvm1",
        *chain(base, top, 5),
        f"echo medium > {medium}",
        *(f"qemu-img create -q -f qcow2 {SHARED}/{name}.qcow2 8M" for name in ("external", "disc")),
        f"qemu-io -f qcow2 -c 'write -q -P 6 0 64k' {SHARED}/external.qcow2",
    )
    create(fleet, "kvm1", "fleeting")
    define(fleet, "kvm1", "chained", disk(top), start=True)
    define(fleet, "kvm1", "external", disk(f"{SHARED}/external.qcow2"), start=True)
    fleet.run(
        "kvm1",
        "virsh snapshot-create-as external --disk-only --no-metadata --diskspec"
        f" vda,file={SHARED}/external.one",
    )
    define(
        fleet,
        "kvm1",
        "disc",
        disk(f"{SHARED}/disc.qcow2") + cdrom(medium) + EMPTY_DRIVE,
        start=True,
    )
    fleet.playbook("discover")
    before = {each["name"]: each for each in fleet.look(["kvm1"])["kvm1"]}
    assert not before["fleeting"]["persistent"] and before["external"]["disks"] == [
        f"{SHARED}/external.one"
    ]
    files = fleet.files(SHARED)

    done = fleet.drain("kvm1")
    where = fleet.settled()
    assert {name: state for name, (dummy, state) in where.items()} == dict.fromkeys(
        before, "running"
    ), said(done)
    assert "kvm1" not in {host for host, dummy in where.values()}
    after = {each["name"]: each for domains in fleet.look().values() for each in domains}
    assert after == before  # the same uuids, disks, media; a transient guest stays transient
    # Its copy needs no base, and the other users of the base are not known: it stays.
    assert fleet.files(SHARED) == files and sorted(fleet.files(LOCAL, "kvm1")) == [
        "debian.iso",
        "golden.qcow2",
    ]
    host = where["chained"][0]
    assert content(fleet, host, top, 5) and content(
        fleet, where["external"][0], f"{SHARED}/external.one", 6
    )
    assert fleet.run(where["disc"][0], f"cat {medium}") == "medium\n"


def test_transient_ones_evacuated_and_deleted(fleet):
    """A guest that libvirt of its host would have forgotten starts on another host, and is
    persistent there. Each is deleted, with its disk."""
    for host, name in (("kvm1", "lost"), ("kvm2", "fleeting")):
        create(fleet, host, name)
    discover(fleet)
    assert not any(each["persistent"] for each in sum(fleet.look().values(), []))
    die(fleet)
    done = evacuate(fleet, **OFF)
    where = living(fleet)
    assert where["lost"][1] == "running" and where["fleeting"] == ("kvm2", "running"), said(done)
    persistent = {
        each["name"]: each["persistent"] for each in sum(fleet.look(["kvm2", "kvm3"]).values(), [])
    }
    assert persistent == {"lost": True, "fleeting": False}
    fleet.lab.command("start", "kvm1")
    discover(fleet)
    assert fleet.settled() == where and fleet.look(["kvm1"]) == {"kvm1": []}
    for name in where:
        done = fleet.delete(name)
        assert name not in fleet.where() and f"{name}.qcow2" not in fleet.files(SHARED), said(done)
    assert fleet.settled() == {}


def test_refused_and_nothing_of_them_is_lost(fleet):
    """The guests have a folder of the host (9p), an external snapshot with a record of libvirt, and
    a saved state."""
    for name in ("folder", "recorded", "saved"):
        images(fleet, "kvm1", f"qemu-img create -q -f qcow2 {LOCAL}/{name}.qcow2 8M")
        define(
            fleet,
            "kvm1",
            name,
            disk(f"{LOCAL}/{name}.qcow2") + (FOLDER if name == "folder" else ""),
            start=True,
        )
    fleet.make("kvm1", Domain("fine"))
    fleet.run(
        "kvm1",
        "virsh snapshot-create-as recorded one --disk-only --diskspec"
        f" vda,file={LOCAL}/recorded.one && virsh managedsave saved",
    )
    fleet.playbook("discover")
    where, files, running = fleet.where(), fleet.files(LOCAL, "kvm1"), boots(fleet, "kvm1")
    assert "recorded.one" in files

    text = fleet.refused("drain", "-e", "drover_host=kvm1")
    assert re.search(
        r"folder: .*a folder of the host is shared with it \(/root\): take it away or move the"
        r" instance by hand",
        text,
    ), text
    assert re.search(r"recorded: it has snapshots", text) and re.search(
        r"saved: it has a saved memory image .*managedsave-remove", text
    ), text
    assert "fine:" not in text and "so nothing was changed" in text
    assert (
        fleet.where() == where
        and fleet.files(LOCAL, "kvm1") == files
        and boots(fleet, "kvm1") == running
    )
    assert not fleet.service("kvm1")["disabled"] and fleet.query("SELECT * FROM leases") == []

    done = fleet.drain("kvm1", drover_unmovable="skip")
    after = fleet.settled()
    assert after["fine"][0] != "kvm1" and after["fine"][1] == "running"
    assert {name: place for name, place in after.items() if name != "fine"} == {
        "folder": ("kvm1", "running"),
        "recorded": ("kvm1", "running"),
        "saved": ("kvm1", "shutoff"),
    }
    assert "disabled but not in maintenance" in said(done) and fleet.files(LOCAL, "kvm1") == files
    assert set(boots(fleet, "kvm1").splitlines()) < set(running.splitlines())
    # The saved guest continues from its saved state.
    fleet.run("kvm1", "virsh start saved")
    assert fleet.run("kvm1", "virsh domstate --reason saved").split() == ["running", "(restored)"]
    assert fleet.run("kvm1", "virsh snapshot-list recorded --name").split() == ["one"]
