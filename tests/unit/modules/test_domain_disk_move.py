# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Module ``_domain_disk_move``: a disk that comes to another storage. Real image files, domains of
libvirt's test driver.
"""

from __future__ import annotations

import json
import os
import shutil
import types
import xml.etree.ElementTree as ET

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._disk_move import (
    destination,
    move,
    record,
)
from ansible_collections.drover.compute.plugins.module_utils._domain import hotplug, metadata
from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding
from ansible_collections.drover.compute.plugins.module_utils._orders import orders
from ansible_collections.drover.compute.plugins.module_utils._ownership import ownership
from ansible_collections.drover.compute.plugins.module_utils._storage import backing
from ansible_collections.drover.compute.tests.unit import devices
from ansible_collections.drover.compute.tests.unit.module_utils.images import disk, qemu_img

UUID = "00000000-0000-4000-8000-000000000007"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(move, "POLL", 0.01)
    monkeypatch.setattr(orders, "LEAST_PATIENCE", 0.1)


class Guest:
    """The domain vm with the disk vda, and a way to run the module for it."""

    def __init__(self, run_module, uri, connection, folder, guests):
        self._run, self._uri, self.connection, self.guests = run_module, uri, connection, guests
        self.old, self.new = str(folder / "vda.qcow2"), str(folder / "fast" / "vda.qcow2")
        self.fast = str(folder / "fast")

    @property
    def domain(self):
        return self.connection.lookupByUUIDString(UUID)

    def run(self, **given):
        return self._run(
            "_domain_disk_move",
            **{
                "uri": self._uri,
                "uuid": UUID,
                "target": "vda",
                "pool": self.fast,
                "wait": 0,
                "timeout": 30,
                **given,
            },
        )

    def done(self, status="moved", **given):
        result = self.run(**given)
        assert result["rc"] == 0 and result["status"] == status, result
        return result

    def refuses(self, begun=False, **given):
        """Return the error message."""
        result = self.run(**given)
        assert result["rc"] == 1 and result.get("begun") is begun, result
        return result["msg"]

    def remove(self, **given):
        return self._run(
            "domain",
            uri=self._uri,
            uuid=UUID,
            state="absent",
            remove_disks=True,
            force=True,
            timeout=0,
            **given,
        )

    def disks(self):
        """The file in each form of the domain."""
        flags = ([0] if self.domain.isActive() else []) + [libvirt.VIR_DOMAIN_XML_INACTIVE]
        return [
            ET.fromstring(self.domain.XMLDesc(each)).find("devices/disk/source").get("file")
            for each in flags
        ]

    @property
    def recorded(self):
        return "disk_move" in self.domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)

    def is_as_before(self):
        assert (
            set(self.disks()) == {self.old}
            and os.path.exists(self.old)
            and os.listdir(self.fast) == []
            and not self.recorded
        )

    def is_moved(self):
        assert (
            set(self.disks()) == {self.new}
            and os.listdir(self.fast) == ["vda.qcow2"]
            and not os.path.exists(self.old)
        )
        assert not self.recorded


def on_a_disk(folder, monkeypatch):
    """Show a folder as a file system on a disk, for any temporary folder of the machine: /tmp may
    be in memory."""
    real_mounts = destination.all_mounts
    monkeypatch.setattr(
        destination,
        "all_mounts",
        lambda: [*real_mounts(), (os.path.realpath(folder), "/", "ext4", "/dev/vdb1")],
    )


@pytest.fixture
def make(run_module, fake_host, domain_xml, tmp_path, monkeypatch):
    def made(more="", running=True, others=(), **image):
        path = qemu_img(tmp_path / "vda.qcow2", **image)
        (tmp_path / "fast").mkdir()
        on_a_disk(tmp_path, monkeypatch)
        element = disk(path).replace("</disk>", f"{more}</disk>")
        uri, connection = fake_host(domain_xml("vm", 7, devices=element), *others)
        vm = Guest(run_module, uri, connection, tmp_path, devices.Devices(monkeypatch))
        if not running and vm.domain.isActive():
            vm.domain.destroy()
        return vm

    return made


@pytest.mark.parametrize("running", [True, False])
def test_it_moves_once(make, running):
    vm = make(running=running)
    dry_run = vm.done(check_mode=True, diff_mode=True)
    assert dry_run["changed"] and dry_run["device"]["source"] == vm.new
    vm.is_as_before()
    done = vm.done(diff_mode=True)
    assert (
        done["changed"]
        and done["removed"] == [vm.old]
        and done["kept"] == []
        and done["diff"] == dry_run["diff"]
    )
    assert vm.new in done["diff"]["after"] and vm.old in done["diff"]["before"]
    vm.is_moved()
    assert (
        not vm.done("unchanged")["changed"] and not vm.done("unchanged", check_mode=True)["changed"]
    )


@pytest.mark.parametrize("whole", [True, False])
def test_the_image_behind_it_stays_behind_it_but_of_a_whole_copy(make, tmp_path, whole):
    """The image of a running guest is tested in tests/lab/test_pool_drain.py, because no job of the
    test driver reads an image."""
    base = qemu_img(tmp_path / "base.qcow2")
    vm = make(running=False, backing=base)
    vm.done(whole=whole)
    vm.is_moved()
    assert os.path.exists(base) and (backing.references_of(vm.new) == []) is whole


def test_each_call_goes_on(make):
    vm = make()
    vm.guests.ready = False
    assert vm.done("copying", order="one")["changed"] and vm.recorded and os.path.exists(vm.old)
    assert vm.done("copying", check_mode=True)["changed"]
    assert "is being moved to" in vm.refuses(begun=True, pool="/tmp")
    vm.done("copying", goes_on=True, order="one")
    ready(vm)
    vm.done(goes_on=True, order="two")
    vm.is_moved()


def ready(vm):
    """The copy is complete."""
    vm.guests.ready = True
    for key, text in list(vm.guests._running.items()):
        vm.guests._running[key] = text.replace('job="copy"', 'job="copy" ready="yes"')


def test_an_abort_takes_everything_back(make):
    vm = make()
    assert not vm.done("none", state="aborted")["changed"]
    vm.guests.ready = False
    vm.done("copying", order="one")
    assert vm.done("aborted", state="aborted", check_mode=True)["changed"] and vm.recorded
    assert vm.done("aborted", state="aborted")["removed"] == [vm.new]
    vm.is_as_before()
    assert "withdrawn" in vm.refuses(order="one", goes_on=True)
    vm.is_as_before()


@pytest.mark.parametrize("aborted", [True, False])
def test_a_disk_that_is_detached_from_the_definition_meanwhile_ends_the_move(make, aborted):
    """libvirt refuses to detach the disk from the running guest, because it copies the disk; it
    detaches it from the definition."""
    vm = make()
    vm.guests.ready = False
    vm.done("copying", order="one")
    detach(vm)
    if aborted:
        assert vm.done("aborted", state="aborted")["removed"] == [vm.new]
    else:
        assert vm.done("aborted", check_mode=True)["changed"] and vm.recorded
        told = vm.refuses(order="one", goes_on=True)
        assert (
            "was detached from the definition" in told and f"All its data are in {vm.old}" in told
        )
    assert os.path.exists(vm.old) and os.listdir(vm.fast) == [] and not vm.recorded
    assert "has only in one of the running guest and the definition" in vm.refuses()


def detach(vm):
    element = ET.fromstring(vm.domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)).find("devices/disk")
    vm.domain.detachDeviceFlags(
        ET.tostring(element, encoding="unicode"), libvirt.VIR_DOMAIN_AFFECT_CONFIG
    )


def test_a_disk_that_a_guest_that_went_off_has_lost_ends_the_move(make):
    vm = make()
    vm.guests.ready = False
    vm.done("copying", order="one")
    vm.domain.destroy()
    detach(vm)
    assert "was detached from the definition" in vm.refuses(order="one", goes_on=True)
    assert os.path.exists(vm.old) and os.listdir(vm.fast) == [] and not vm.recorded


@pytest.mark.parametrize("state", ["moved", "aborted"])
def test_a_libvirt_that_does_not_answer_is_no_disk_that_is_gone(make, monkeypatch, state):
    """The answer of libvirt is not known: the copy and the record stay, and the next run
    continues.
    """
    vm = make()
    vm.guests.ready = False
    vm.done("copying", order="one")
    made = os.listdir(vm.fast)
    forms, answers = hotplug.forms_of, [True]

    def silent(domain):
        # The module itself reads the domain first.
        if answers:
            answers.pop()
            return forms(domain)
        raise binding.LibvirtSilent("libvirt did not answer")

    with monkeypatch.context() as patch:
        patch.setattr(hotplug, "forms_of", silent)
        assert "did not answer" in vm.refuses(
            begun=True, state=state, goes_on=state == "moved", order="one"
        )
    assert os.listdir(vm.fast) == made != [] and vm.recorded and os.path.exists(vm.old)
    vm.done("aborted", state="aborted")
    vm.is_as_before()


def test_a_switch_that_libvirt_refuses_leaves_the_guest_on_the_old_disk(make):
    vm = make()
    vm.guests.pivots = False
    assert f"runs on with {vm.old}" in vm.refuses()
    vm.is_as_before()


def test_a_lost_job_is_not_begun_anew_by_the_run_that_began_it(make):
    vm = make()
    vm.guests.ready = False
    vm.done("copying", order="one")
    vm.domain.destroy()
    assert "is off by now" in vm.refuses(goes_on=True, order="one")
    vm.is_as_before()


def test_the_next_run_begins_anew_after_the_guest_went_off(make):
    vm = make()
    vm.guests.ready = False
    vm.done("copying")
    vm.domain.destroy()
    assert vm.recorded
    vm.done()
    vm.is_moved()


def test_a_definition_that_was_not_switched_is_mended(make):
    """libvirt has switched the running guest to the copy, and died before it wrote the
    definition.
    """
    vm = make()
    vm.guests.ready = False
    vm.done("copying")
    for key, text in list(vm.guests._running.items()):
        root = ET.fromstring(text)
        found = root.find("devices/disk")
        found.remove(found.find("mirror"))
        found.find("source").set("file", vm.new)
        vm.guests._running[key] = ET.tostring(root, encoding="unicode")
    assert vm.disks() == [vm.new, vm.old]
    vm.done()
    vm.is_moved()


def test_what_is_not_provably_the_copy_stays(make):
    vm = make()
    vm.guests.ready = False
    vm.done("copying")
    vm.domain.destroy()
    shutil.copyfile(vm.old, vm.new + ".other")
    os.replace(vm.new + ".other", vm.new)
    assert "another file has its name by now" in vm.refuses()
    assert os.path.exists(vm.new) and set(vm.disks()) == {vm.old}


@pytest.mark.parametrize("what", ["removed", "moved away", "replaced"])
def test_the_guest_is_not_switched_to_a_copy_that_has_lost_its_name(make, what):
    """QEMU continues to write to its open file, and no name leads to that file."""
    vm = make()
    vm.guests.ready = False
    vm.done("copying", order="one")
    if what == "moved away":
        os.rename(vm.new, vm.new + ".away")
    elif what == "removed":
        os.unlink(vm.new)
    else:
        shutil.copyfile(vm.new, vm.new + ".other")
        os.replace(vm.new + ".other", vm.new)
    names = sorted(os.listdir(vm.fast))
    ready(vm)
    text = vm.refuses(goes_on=True, order="one")
    assert "was not switched over" in text and vm.new in text and f"runs on with {vm.old}" in text
    assert (
        set(vm.disks()) == {vm.old}
        and os.path.exists(vm.old)
        and not vm.recorded
        and sorted(os.listdir(vm.fast)) == names
    )


def test_what_is_mounted_over_the_destination_meanwhile_ends_the_move(make, monkeypatch):
    """The copy has lost its name, in memory or not. No new move begins there."""
    vm = make()
    vm.guests.ready = False
    vm.done("copying", order="one")
    ready(vm)
    os.rename(vm.new, f"{vm.new}.elsewhere")
    monkeypatch.setattr(destination, "mount_of", lambda *dummy: (vm.fast, "/", "tmpfs", "over"))
    text = vm.refuses(goes_on=True, order="one")
    assert "was not switched over" in text and f"runs on with {vm.old}" in text and not vm.recorded
    assert "is in memory (tmpfs)" in vm.refuses()


def test_the_old_file_stays_where_the_copy_has_lost_its_name(make):
    """A person has switched the guest to the copy, and has moved the file."""
    vm = make()
    vm.guests.ready = False
    vm.done("copying")
    ready(vm)
    vm.domain.blockJobAbort("vda", libvirt.VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT)
    os.rename(vm.new, vm.new + ".away")
    shutil.copyfile(vm.old, vm.new)
    done = vm.done()
    assert (
        done["removed"] == []
        and [each["path"] for each in done["kept"]] == [vm.old]
        and os.path.exists(vm.old)
    )
    assert "is not the file any more to which it was copied" in done["kept"][0]["reason"]


def test_a_destination_that_is_taken_is_refused(make):
    vm = make()
    with open(vm.new, "w", encoding="ascii") as file:
        file.write("precious")
    assert "exists" in vm.refuses() and "exists" in vm.refuses(check_mode=True)
    with open(vm.new, encoding="ascii") as file:
        assert file.read() == "precious"


def test_a_destination_that_another_domain_names_is_refused(make, domain_xml, tmp_path):
    vm = make(others=[domain_xml("other", 8, devices=disk(tmp_path / "fast" / "vda.qcow2"))])
    assert "in use" in vm.refuses() and "domain other" in vm.refuses()


def test_a_folder_in_memory_is_refused(make):
    vm = make()
    assert "is in memory (tmpfs), and a disk there would be lost" in vm.refuses(pool="/dev/shm")
    vm.is_as_before()


def test_a_destination_without_space_is_refused(make, monkeypatch):
    vm = make()
    stats = types.SimpleNamespace(f_bavail=1, f_frsize=4096)
    monkeypatch.setattr(destination.os, "statvfs", lambda path: stats)
    monkeypatch.setattr(
        destination.access, "call", lambda function, *given, limit=None: function(*given)
    )
    assert "make room there" in vm.refuses()
    vm.is_as_before()


@pytest.mark.parametrize(
    "more, says",
    [
        ("<shareable/>", "is shareable"),
        ("<readonly/>", "is read-only"),
        ("<transient/>", "is transient"),
    ],
)
def test_a_disk_that_cannot_be_moved_is_refused(make, more, says):
    assert says in make(more).refuses()


def test_others(make):
    vm = make()
    assert "has no disk vdz" in vm.refuses(target="vdz")
    assert "There is no storage pool slow" in vm.refuses(pool="slow")
    assert "does not exist" in vm.refuses(pool=vm.fast + "/none")
    vm.domain.snapshotCreateXML("<domainsnapshot/>", 0)
    assert "has snapshots" in vm.refuses()
    vm.is_as_before()


def test_a_file_that_another_host_needs_stays(make):
    vm = make()
    done = vm.done(used_elsewhere=[vm.old])
    assert (
        done["removed"] == []
        and [each["path"] for each in done["kept"]] == [vm.old]
        and os.path.exists(vm.old)
    )
    assert set(vm.disks()) == {vm.new} and not vm.recorded


def test_a_foreign_job_is_left_alone(make):
    vm = make()
    root = ET.fromstring(vm.domain.XMLDesc(0))
    ET.SubElement(
        ET.SubElement(root.find("devices/disk"), "mirror", type="file", job="active-commit"),
        "source",
        file="/srv/base.qcow2",
    )
    vm.guests._save(vm.domain, devices.LIVE, root)
    assert "drover did not begin" in vm.refuses() and vm.done("none", state="aborted")


def test_a_copy_that_qemu_does_not_close(make, monkeypatch):
    """The job has ended, and its storage delays the last writes. The job still belongs to drover;
    nothing is removed or begun before it is closed."""
    monkeypatch.setattr(move, "ABORT", 0.3)
    vm = make()
    vm.guests.ready = False
    vm.done("copying")
    copy = ET.fromstring(vm.domain.XMLDesc(0))
    ending = ET.fromstring(vm.domain.XMLDesc(0))
    ending.find("devices/disk/mirror").set("job", "")
    vm.guests._save(vm.domain, devices.LIVE, ending)
    for given in ({}, {"goes_on": True}, {"state": "aborted"}):
        assert (
            "QEMU has not closed it" in vm.refuses(begun=True, **given)
            and vm.recorded
            and os.path.exists(vm.new)
        )
    closed = ET.fromstring(ET.tostring(copy))
    closed.find("devices/disk").remove(closed.find("devices/disk/mirror"))
    vm.guests._save(vm.domain, devices.LIVE, closed)
    vm.guests.ready = True
    vm.done()
    vm.is_moved()


def test_a_locked_part_is_left_alone(make, monkeypatch):
    """A process of a call that was killed still writes to it."""
    vm = make()
    vm.guests.ready = False
    vm.done("copying")
    vm.domain.destroy()
    monkeypatch.setattr(move.os.path, "lexists", lambda path: True)
    monkeypatch.setattr(ownership, "why_locked", lambda path: "a process has it locked")
    assert "still writes to" in vm.refuses(begun=True)


@pytest.mark.parametrize(
    "change",
    [{"part": "/etc/passwd"}, {"made": "all"}, {"destination": "fast"}, {"began": None}, None],
)
def test_a_record_that_makes_no_sense_is_believed_by_nobody(make, change):
    vm = make()
    vm.guests.ready = False
    vm.done("copying")
    found = record.read(vm.domain)
    text = "{" if change is None else json.dumps({**found, **change})
    for place in metadata.places(vm.domain):
        metadata.change(vm.domain, place, record.ELEMENT, text)
    for given in ({}, {"state": "aborted"}):
        answer = vm.run(**given)
        assert (
            answer["rc"] == 1
            and "cannot be read, so nothing was done" in answer["msg"]
            and "begun" not in answer
        )
    assert os.path.exists(vm.new) and os.path.exists(vm.old)


@pytest.mark.parametrize("check_mode", [True, False])
def test_a_domain_whose_disk_is_being_moved_is_not_removed(make, check_mode):
    """The store can be lost, so the record in the definition is the only place that names the
    copy.
    """
    vm = make()
    vm.guests.ready = False
    vm.done("copying")
    gone = vm.remove(check_mode=check_mode)
    assert (
        gone["rc"] == 1
        and f"is being moved to {vm.new}" in gone["msg"]
        and "drover_abort=true" in gone["msg"]
    ), gone
    assert vm.domain.isActive() and vm.recorded and os.path.exists(vm.old)
    vm.done("aborted", state="aborted")
    assert vm.remove()["removed_disks"] == [vm.old]


@pytest.mark.parametrize("check_mode", [True, False])
def test_the_copy_that_another_host_has_made_is_named_when_the_domain_is_removed(make, check_mode):
    vm = make()
    vm.guests.ready = False
    vm.done("copying")
    found = record.read(vm.domain)
    vm.done("aborted", state="aborted")
    record.write(vm.domain, {**found, "host": "kvm9"})
    gone = vm.remove(check_mode=check_mode)
    assert gone["rc"] == 0 and gone["removed_disks"] == [vm.old], gone
    (kept,) = gone["kept_disks"]
    assert kept["path"] == vm.new and "kvm9" in kept["reason"]


ENCRYPTION = (
    "<encryption format='luks'><secret type='passphrase'"
    " uuid='00000000-0000-4000-8000-00000000000a'/></encryption>"
)
SLICE = "<slices><slice type='storage' offset='65536' size='65536'/></slices>"
INSIDE = {
    "encrypted": ("{source}>" + ENCRYPTION + "</source>", "is encrypted"),
    "an encrypted image behind it": (
        "{source}/><backingStore type='file'><format type='qcow2'/><source file='/v/base'>"
        + ENCRYPTION
        + "</source></backingStore>",
        "is encrypted",
    ),
    "a part of its file": ("{source}>" + SLICE + "</source>", "is a part (slice) of its file"),
}


@pytest.mark.parametrize("which", INSIDE)
def test_f1_a_source_of_which_a_copy_has_only_a_part_stays(make, which):
    """qemu-img copies the whole file, and the definition of the copy would lose the settings of the
    source element."""
    vm = make(running=False)
    text, says = INSIDE[which]
    source = f"<source file='{vm.old}'"
    vm.connection.defineXML(
        vm.domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE).replace(
            f"{source}/>", text.format(source=source)
        )
    )
    assert says in vm.refuses()
    vm.is_as_before()
