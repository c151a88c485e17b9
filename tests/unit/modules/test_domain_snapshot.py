# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module ``_domain_snapshot``: real image files, domains of libvirt's test driver that are off.
Running ones are in the lab.
"""

from __future__ import annotations

import os
import subprocess
import xml.etree.ElementTree as ET

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._images import images
from ansible_collections.drover.compute.tests.unit import disk_snapshots
from ansible_collections.drover.compute.tests.unit.module_utils.images import disk, qemu_img

UUID = "00000000-0000-4000-8000-000000000007"


def qemu_io(path, command, *words):
    done = subprocess.run(
        ["qemu-io", *words, "-f", "qcow2", "-c", command, str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


class Guest:
    """The domain vm, off, with one disk, and a way to run the module for it."""

    def __init__(self, run_module, uri, connection, folder):
        self._run, self._uri, self.connection, self.folder = run_module, uri, connection, folder

    @property
    def domain(self):
        return self.connection.lookupByUUIDString(UUID)

    @property
    def active(self):
        return (
            ET.fromstring(self.domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
            .find("devices/disk/source")
            .get("file")
        )

    def run(self, state=None, snapshot=None, **given):
        given = {
            key: value
            for key, value in {"state": state, "snapshot": snapshot, **given}.items()
            if value is not None
        }
        return self._run("_domain_snapshot", uri=self._uri, uuid=UUID, **given)

    def done(self, *args, **given):
        result = self.run(*args, **given)
        assert result["rc"] == 0, result
        return result

    def refuses(self, state, snapshot="one", begun=False, **given):
        before = self.state()
        result = self.run(state, snapshot, **given)
        assert result["rc"] == 1 and result["begun"] is begun, result
        assert begun or self.state() == before
        return result["msg"]

    def state(self):
        snapshots = [each.getXMLDesc(0) for each in self.domain.listAllSnapshots(0)]
        return (
            self.domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE),
            snapshots,
            sorted(os.listdir(self.folder)),
        )

    def write(self, byte, piece=0):
        qemu_io(self.active, f"write -q -P {byte} {piece * 65536} 64k")

    def has(self, path, *pieces):
        return all(
            "verification failed"
            not in qemu_io(path, f"read -P {byte} {piece * 65536} 64k", "-r", "-U")
            for piece, byte in enumerate(pieces)
        )


@pytest.fixture
def vm(run_module, fake_host, domain_xml, tmp_path, monkeypatch):
    folder = tmp_path / "images"
    folder.mkdir()
    uri, connection = fake_host(domain_xml("vm", 7, devices=disk(qemu_img(folder / "vda.qcow2"))))
    disk_snapshots.install(monkeypatch)
    guest = Guest(run_module, uri, connection, folder)
    if guest.domain.isActive():
        guest.domain.destroy()
    return guest


def test_made_listed_and_merged(vm):
    vm.write(1)
    base = vm.active
    before = vm.state()
    dry_run = vm.done("present", "one", check_mode=True, diff_mode=True)
    assert (
        dry_run["changed"]
        and vm.state() == before
        and [each["name"] for each in dry_run["snapshots"]] == ["one"]
    )
    assert (
        dry_run["diff"]["before"] == "" and dry_run["diff"]["after"] == "snapshot one (external)\n"
    )
    made = vm.done("present", "one", description="first")
    assert made["changed"] and made["consistency"] == "off" and made["consistency_reason"] is None
    assert (
        vm.active.startswith(f"{vm.folder}/{UUID}-vda-one-")
        and made["domain"]["disks"][0]["source"] == vm.active
    )
    assert not vm.done("present", "one", description="another")["changed"]
    vm.write(2, 1)
    vm.done("present", "two")
    vm.write(3, 2)
    one, two = vm.done()["snapshots"]
    assert (one["name"], one["kind"], one["description"], one["current"], one["parent"]) == (
        "one",
        "external",
        "first",
        False,
        None,
    )
    assert (two["name"], two["current"], two["parent"]) == ("two", True, "one") and one[
        "disks"
    ] == [{"target": "vda", "path": base, "format": "qcow2"}]
    middle, top = two["disks"][0]["path"], vm.active
    assert vm.has(base, 1, 0, 0) and vm.has(middle, 1, 2, 0) and vm.has(top, 1, 2, 3)

    gone = vm.done("absent", "one", check_mode=True)
    assert gone["changed"] and gone["removed_files"] == [middle] and os.path.exists(middle)
    gone = vm.done("absent", "one")
    assert (
        gone["removed_files"] == [middle]
        and gone["kept_files"] == []
        and not os.path.exists(middle)
    )
    assert vm.active == top and vm.has(top, 1, 2, 3) and vm.has(base, 1, 2, 0)
    (two,) = vm.done()["snapshots"]
    assert two["disks"][0]["path"] == base and two["parent"] is None
    assert vm.done("absent", "two")["removed_files"] == [top]
    assert vm.active == base and vm.has(base, 1, 2, 3) and os.listdir(vm.folder) == ["vda.qcow2"]
    assert not vm.done("absent", "two")["changed"]


def test_a_revert_whose_change_of_the_domain_is_in_doubt_keeps_the_new_image(vm, monkeypatch):
    """libvirt carries the change out, and its answer is lost: the domain has the new image."""
    vm.write(1)
    vm.done("present", "one")
    vm.write(2)
    old, define = vm.active, libvirt.virConnect.defineXML

    def lost(connection, text):
        define(connection, text)
        raise libvirt.libvirtError("Cannot recv data: Input/output error")

    monkeypatch.setattr(libvirt.virConnect, "defineXML", lost)
    assert vm.run("reverted", "one")["rc"] == 1
    monkeypatch.setattr(libvirt.virConnect, "defineXML", define)
    assert vm.active != old and vm.has(vm.active, 1)
    again = vm.done("reverted", "one")
    assert [each["path"] for each in again["kept_files"]] == [old] and vm.has(old, 2)
    assert again["changed"] and not vm.done("reverted", "one")["changed"]


def test_a_revert_that_libvirt_refuses_leaves_no_image(vm, monkeypatch):
    vm.write(1)
    vm.done("present", "one")
    vm.write(2)
    before = vm.state()

    def refused(connection, text):
        raise libvirt.libvirtError("unsupported configuration")

    monkeypatch.setattr(libvirt.virConnect, "defineXML", refused)
    assert vm.run("reverted", "one")["rc"] == 1 and vm.state() == before


def test_reverted(vm):
    vm.write(1)
    base = vm.active
    vm.done("present", "one")
    assert not vm.done("reverted", "one")["changed"], "nothing was written since"
    vm.write(2)
    old = vm.active
    assert vm.done("reverted", "one", check_mode=True)["changed"] and vm.active == old
    back = vm.done("reverted", "one")
    assert (
        back["changed"]
        and [each["path"] for each in back["kept_files"]] == [old]
        and vm.active not in (old, base)
    )
    assert vm.has(vm.active, 1) and vm.has(old, 2) and not vm.done("reverted", "one")["changed"]
    # The image that was kept would be destroyed by a merge.
    vm.write(3)
    assert f"would change {base}: the image {old} is backed by it" in vm.refuses("absent")
    os.unlink(old)
    old = vm.active
    assert vm.done("reverted", "one", discard=True)["removed_files"] == [
        old
    ] and not os.path.exists(old)
    vm.write(4)
    vm.done("present", "two")
    assert "'two'" not in vm.refuses("reverted") and "two was made after it" in vm.refuses(
        "reverted"
    )
    assert "has no snapshot 'three': it has one, two" in vm.refuses("reverted", "three")
    vm.domain.create()
    assert vm.refuses("reverted", "two").startswith(
        "vm on "
    ) and "drover.compute.instance_stop" in vm.refuses("reverted", "two")


def test_law_what_another_one_is_backed_by_is_not_written_to(vm, domain_xml):
    vm.write(1)
    base = vm.active
    vm.done("present", "one")
    vm.write(2)
    clone = str(vm.folder.parent / "clone.qcow2")
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", base, clone], check=True
    )
    vm.connection.defineXML(domain_xml("clone", 8, devices=disk(clone)))
    assert f"would change {base}: the domain clone uses it" in vm.refuses("absent")
    vm.connection.lookupByName("clone").undefine()
    # The store knows the use on other hosts.
    assert "a domain of another hypervisor uses it" in vm.refuses("absent", used_elsewhere=[base])
    assert vm.done("absent", "one")["changed"] and vm.has(base, 2)


def test_walk_f23_a_dry_run_removes_what_the_run_removes(vm):
    """An image that another host needs stays in both."""
    vm.write(1)
    vm.done("present", "one")
    vm.write(2)
    old = vm.active
    given = {"discard": True, "used_elsewhere": [old]}
    foreseen, done = (
        vm.done("reverted", "one", check_mode=check, **given) for check in (True, False)
    )
    for each in (foreseen, done):
        assert each["removed_files"] == [] and [kept["path"] for kept in each["kept_files"]] == [
            old
        ]
    vm.write(3)
    new = vm.active
    os.unlink(old)
    foreseen, done = (vm.done("absent", "one", check_mode=check) for check in (True, False))
    assert (
        foreseen["removed_files"] == done["removed_files"] == [new]
        and foreseen["kept_files"] == done["kept_files"] == []
    )


def test_a_merge_that_was_cut_off_goes_on(vm, monkeypatch):
    vm.write(1)
    base = vm.active
    vm.done("present", "one")
    vm.write(2, 1)
    top = vm.active
    commit = images.commit

    def killed(*args):
        commit(*args)
        raise images.ImageProblem("killed")

    monkeypatch.setattr(images, "commit", killed)
    assert vm.refuses("absent", begun=True) == "Killed." and vm.active == top and vm.has(top, 1, 2)
    monkeypatch.setattr(images, "commit", commit)
    # A run was killed after it changed the definition and before it removed the file; nothing
    # proves the state of the file.
    text = vm.domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    vm.connection.defineXML(text.replace(top, base))
    assert "which is not directly over" in vm.refuses("reverted")
    gone = vm.done("absent", "one")
    assert (
        gone["removed_files"] == []
        and [each["path"] for each in gone["kept_files"]] == [top]
        and os.path.exists(top)
    )
    assert vm.active == base and vm.has(base, 1, 2) and vm.done()["snapshots"] == []


def test_refused(vm, domain_xml):
    assert "cannot be the name of a snapshot" in vm.refuses("present", "../x")
    base = vm.active
    vm.done("present", "one")
    vm.write(1)
    text = vm.domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    foreign = qemu_img(vm.folder / "other.qcow2")
    vm.connection.defineXML(text.replace(vm.active, str(foreign)))
    assert f"is not over {base}" in vm.refuses("absent") and "not directly over" in vm.refuses(
        "reverted"
    )
    for kind, reason in (("type='block'", "is no image file but a block"), ("", "")):
        if kind:
            vm.connection.defineXML(
                domain_xml(
                    "vm",
                    7,
                    devices=(
                        f"<disk {kind} device='disk'><source dev='/dev/null'/><target"
                        " dev='vda'/></disk>"
                    ),
                )
            )
            assert reason in vm.refuses("present", "two")


def test_internal_ones_are_libvirts(vm):
    vm.domain.snapshotCreateXML("<domainsnapshot><name>inside</name></domainsnapshot>", 0)
    (found,) = vm.done()["snapshots"]
    assert (found["kind"], found["state"], found["current"]) == ("internal", "shutoff", True)
    assert vm.done("reverted", "inside")["changed"]
    assert vm.done("absent", "inside")["changed"] and vm.done()["snapshots"] == []


def qemu_img_of(*words):
    subprocess.run(["qemu-img", *map(str, words)], check=True)


@pytest.mark.parametrize("inside", ["snapshot", "bitmap"])
@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize("check_mode", [True, False])
def test_f1_a_merge_does_not_lose_what_is_in_the_image(vm, inside, newest, check_mode):
    """A merge writes the guest's view into the image below, and removes the image with all its
    content."""
    vm.write(1)
    vm.done("present", "one")
    vm.write(2)
    image = vm.active
    if inside == "snapshot":
        qemu_img_of("snapshot", "-c", "before the upgrade", image)
    else:
        qemu_img_of("bitmap", "--add", image, "nightly")
    if not newest:
        vm.done("present", "two")
    reason = vm.refuses("absent", "one", check_mode=check_mode)
    name, command = (
        ("before the upgrade", "qemu-img snapshot -d")
        if inside == "snapshot"
        else ("nightly", "qemu-img bitmap --remove")
    )
    assert image in reason and name in reason and command in reason and os.path.exists(image)


def test_f1_what_is_in_an_image_is_not_discarded_with_it(vm):
    vm.done("present", "one")
    vm.write(2)
    old = vm.active
    qemu_img_of("snapshot", "-c", "before the upgrade", old)
    foreseen, done = (
        vm.done("reverted", "one", check_mode=check, discard=True) for check in (True, False)
    )
    for answer in (foreseen, done):
        (kept,) = answer["kept_files"]
        assert (
            answer["removed_files"] == []
            and kept["path"] == old
            and "before the upgrade" in kept["reason"]
        )
    assert os.path.exists(old)


def test_f1_the_bitmaps_of_drover_keep_no_image(vm):
    """After a merge the next copy has the whole disk."""
    vm.done("present", "one")
    vm.write(2)
    qemu_img_of("bitmap", "--add", vm.active, "drover-20261128T000000Z")
    assert vm.done("absent", "one")["changed"]


@pytest.mark.parametrize("only", ["running", "next start"])
def test_f3_a_disk_of_one_definition_alone_gets_no_image_by_chance(vm, domain_xml, only):
    """libvirt makes an image for each disk of the running guest, also for a disk that the request
    does not name."""
    one = disk(vm.active)
    both = one + disk(qemu_img(vm.folder / "vdb.qcow2"), "vdb")
    vm.connection.defineXML(domain_xml("vm", 7, devices=both if only == "running" else one))
    vm.domain.create()
    vm.connection.defineXML(domain_xml("vm", 7, devices=one if only == "running" else both))
    reason = vm.refuses("present")
    assert (
        "the disk vdb of vm" in reason.lower()
        and ("only as it runs" if only == "running" else "only from its next start on") in reason
    )
