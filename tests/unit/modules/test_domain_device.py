# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Module ``_domain_device``: disks, interfaces and media that come and go. Real image files,
domains of libvirt's test driver.
"""

from __future__ import annotations

import os
import subprocess
import xml.etree.ElementTree as ET

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._devices import attachable
from ansible_collections.drover.compute.plugins.module_utils._domain import hotplug
from ansible_collections.drover.compute.plugins.module_utils._files import block_devices, mounts
from ansible_collections.drover.compute.plugins.module_utils._orders import orders
from ansible_collections.drover.compute.plugins.module_utils._orders.records import Records
from ansible_collections.drover.compute.plugins.module_utils._ownership import ownership
from ansible_collections.drover.compute.tests.unit import devices
from ansible_collections.drover.compute.tests.unit.module_utils.images import disk, qemu_img

UUID = "00000000-0000-4000-8000-000000000007"
DRIVE = (
    "<disk type='file' device='cdrom'><driver name='qemu' type='raw'/>{}<target dev='sda'"
    " bus='sata'/><readonly/></disk>"
)
NIC = (
    "<interface type='network'><mac address='52:54:00:00:00:0{}'/><source network='default'/><model"
    " type='virtio'/></interface>"
)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(hotplug, "POLL", 0.01)
    monkeypatch.setattr(orders, "LEAST_PATIENCE", 0.1)


@pytest.fixture
def guests(monkeypatch):
    return devices.Devices(monkeypatch)


class Guest:
    """The domain vm (running, with one disk) and a way to run the module for it."""

    def __init__(self, run_module, uri, connection, folder):
        self._run, self._uri, self.connection, self.folder = run_module, uri, connection, folder

    @property
    def domain(self):
        return self.connection.lookupByUUIDString(UUID)

    def run(self, state="present", **given):
        given.setdefault("timeout", 0)
        return self._run("_domain_device", uri=self._uri, uuid=UUID, state=state, **given)

    def refuses(self, state="present", begun=False, **given):
        """Return the error message, and check that nothing was changed; check mode changes nothing
        at all."""
        before = self.xml()
        result = self.run(state, **given)
        assert result["rc"] == 1 and result["begun"] is begun, result
        assert begun or self.xml() == before
        return result["msg"]

    def xml(self):
        live = self.domain.XMLDesc(0) if self.domain.isActive() else None
        return live, self.domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)

    def disks(self):
        """(target, file) of the running domain, None while it is off, and of its definition."""
        return tuple(text and _disks(text) for text in self.xml())

    def macs(self):
        return tuple(
            text
            and [
                each.get("address")
                for each in ET.fromstring(text).iterfind("devices/interface/mac")
            ]
            for text in self.xml()
        )


def _disks(text):
    return [
        (
            each.find("target").get("dev"),
            each.find("source").get("file") if each.find("source") is not None else None,
        )
        for each in ET.fromstring(text).iterfind("devices/disk")
    ]


@pytest.fixture
def make(run_module, fake_host, domain_xml, tmp_path, guests):
    def made(devices_="", others=()):
        path = qemu_img(tmp_path / "vda.qcow2")
        uri, connection = fake_host(domain_xml("vm", 7, devices=disk(path) + devices_), *others)
        network = "<network><name>{}</name><bridge name='virbr{}'/></network>"
        for number, name in enumerate(("default", "other")):
            connection.networkDefineXML(network.format(name, number)).create()
        return Guest(run_module, uri, connection, tmp_path)

    return made


@pytest.fixture
def vm(make):
    return make()


# Disks


def test_a_disk_is_made_attached_and_detached_and_its_file_stays(vm):
    path = str(vm.folder / "data.qcow2")
    disk_options = {"path": path, "size_gb": 2}
    before = vm.disks()
    dry_run = vm.run(disk=disk_options, check_mode=True, diff_mode=True)
    assert (
        dry_run["changed"]
        and dry_run["created_disks"] == [path]
        and vm.disks() == before
        and not os.path.exists(path)
    )
    done = vm.run(disk=disk_options, diff_mode=True)
    assert done["changed"] and done["created_disks"] == [path] and done["diff"] == dry_run["diff"]
    assert done["diff"]["after"].splitlines()[1] == f"vdb: {path} (virtio, qcow2)"
    assert vm.disks() == tuple([*each, ("vdb", path)] for each in before)
    seen = [
        {key: each[key] for key in ("target", "source", "capacity_bytes", "path")}
        for each in done["domain"]["disks"]
    ]
    assert seen == [
        {key: each[key] for key in ("target", "source", "capacity_bytes", "path")}
        for each in dry_run["domain"]["disks"]
    ]
    assert done["device"]["capacity_bytes"] == 2 * 2**30 and done["device"]["real_path"] == path
    again = vm.run(disk=disk_options, diff_mode=True)
    assert (
        not again["changed"]
        and again["diff"]["before"] == again["diff"]["after"]
        and again["created_disks"] == []
    )

    assert (
        vm.run("absent", disk={"path": path}, check_mode=True)["changed"]
        and len(vm.disks()[0]) == 2
    )
    gone = vm.run("absent", disk={"path": path})
    assert (
        gone["changed"] and gone["device"] is None and vm.disks() == before and os.path.exists(path)
    )
    assert [each["target"] for each in gone["domain"]["disks"]] == ["vda"]
    assert not vm.run("absent", disk={"path": path})["changed"]
    assert vm.run(disk={"path": path})["changed"], "a file that exists needs no size"


def test_a_domain_that_is_off_has_its_definition_changed(vm):
    path = qemu_img(vm.folder / "data.qcow2")
    vm.domain.destroy()
    assert vm.run(disk={"path": path, "bus": "sata", "target": "sdc"})["changed"]
    assert vm.disks() == (None, [("vda", str(vm.folder / "vda.qcow2")), ("sdc", path)])
    assert vm.run("absent", disk={"path": path})["changed"] and len(vm.disks()[1]) == 1


@pytest.mark.parametrize("flag", [devices.LIVE, devices.CONFIG])
def test_what_is_missing_in_one_form_only_is_attached_there(vm, flag):
    path = qemu_img(vm.folder / "data.qcow2")
    xml = (
        "<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source"
        f" file='{path}'/><target dev='vdd' bus='virtio'/></disk>"
    )
    vm.domain.attachDeviceFlags(xml, flag)
    done = vm.run(disk={"path": path}, diff_mode=True)
    assert done["changed"] and all(("vdd", path) in each for each in vm.disks())
    assert (
        ", after the next start" in done["diff"]["before"]
        or ", until it is off" in done["diff"]["before"]
    )
    assert vm.run("absent", disk={"path": path})["changed"] and all(
        len(each) == 1 for each in vm.disks()
    )


def test_a_guest_that_does_not_release_a_disk_keeps_it_in_its_definition(vm, guests):
    """Otherwise libvirt removes the disk from the definition, and no record says that the guest
    still writes to it."""
    path = qemu_img(vm.folder / "data.qcow2")
    vm.run(disk={"path": path})
    guests.releases = False
    refusal = vm.refuses("absent", begun=True, disk={"path": path})
    assert (
        "did not release the device within 0 s" in refusal
        and "so it is not detached. Run this again" in refusal
    )
    assert all(("vdb", path) in each for each in vm.disks())
    guests.release()
    assert [("vdb", path) in each for each in vm.disks()] == [False, True]
    assert vm.run("absent", disk={"path": path})["changed"] and all(
        len(each) == 1 for each in vm.disks()
    )


def test_f06_a_guest_that_was_asked_before_is_waited_for(vm, guests, monkeypatch):
    path = qemu_img(vm.folder / "data.qcow2")
    vm.run(disk={"path": path})
    guests.releases, calls = False, []

    def asked(domain, text, flags):
        calls.append(flags)
        if len(calls) == 1:
            guests.asked.append((domain, text))
            # The message of libvirt on a host with another language.
            text = (
                "Interner Fehler: QEMU-Befehl 'device_del' kann nicht ausgeführt werden: Device"
                " virtio-disk1 is already in the process of unplug"
            )
            raise devices.error(libvirt.VIR_ERR_INTERNAL_ERROR, text)
        return guests._detach(domain, text, flags)

    monkeypatch.setattr(libvirt.virDomain, "detachDeviceFlags", asked)
    monkeypatch.setattr(hotplug.time, "sleep", lambda seconds: guests.release())
    assert vm.run("absent", disk={"path": path}, timeout=5)["changed"] and calls == [
        devices.LIVE,
        devices.CONFIG,
    ]


def test_a_running_guest_without_a_free_port_keeps_its_definition(vm, guests):
    guests.ports = 0
    path = str(vm.folder / "data.qcow2")
    said = vm.refuses(disk={"path": path, "size_gb": 1})
    assert "No more available PCI slots" in said and not os.path.exists(path), (
        "what was made for it is gone"
    )
    vm.domain.destroy()
    assert vm.run(disk={"path": path, "size_gb": 1})["changed"]


def test_a_file_of_somebody_stays_when_its_disk_cannot_be_attached(vm, guests):
    guests.ports, path = 0, qemu_img(vm.folder / "data.qcow2")
    vm.refuses(disk={"path": path})
    assert os.path.exists(path)


def test_no_disk_is_written_to_by_two(make, domain_xml, tmp_path):
    taken, base, seen = (qemu_img(tmp_path / f"{name}.qcow2") for name in ("taken", "base", "seen"))
    overlay = qemu_img(tmp_path / "overlay.qcow2", backing=base)
    os.symlink(taken, tmp_path / "link.qcow2")
    os.link(taken, tmp_path / "hard.qcow2")
    others = [
        domain_xml("other", 8, devices=disk(taken) + disk(seen, target="vdb", more="<readonly/>")),
        domain_xml("clone", 9, devices=disk(overlay)),
    ]
    vm = make(others=others)
    vm.connection.lookupByName("other").destroy()
    for name in ("taken", "link", "hard"):
        assert "in use: the domain other uses it" in vm.refuses(
            disk={"path": str(tmp_path / f"{name}.qcow2")}
        )
        assert "the domain other" in vm.refuses(
            disk={"path": str(tmp_path / f"{name}.qcow2"), "readonly": True}
        )
    assert "the domain clone uses it" in vm.refuses(disk={"path": base})
    assert "the domain other uses it" in vm.refuses(disk={"path": seen})
    assert vm.run(disk={"path": seen, "readonly": True})["changed"], "several may read it"
    # No domain uses the file, but an image in its folder is backed by it.
    lonely = qemu_img(tmp_path / "lonely.qcow2")
    qemu_img(tmp_path / "child.qcow2", backing=lonely)
    assert "the image" in vm.refuses(disk={"path": lonely})
    assert "is backed by, a file that the domain other" in vm.refuses(
        disk={"path": qemu_img(tmp_path / "on.qcow2", backing=taken)}
    )


def test_a_file_that_the_host_itself_uses_is_refused(vm, tmp_path, monkeypatch):
    """It is mounted by way of a loop device, or the host swaps to it."""
    path, swap = (
        qemu_img(tmp_path / name, kind="raw") for name in ("mounted.raw", "swap space.raw")
    )
    loop = tmp_path / "sys" / "block" / "loop7" / "loop"
    loop.mkdir(parents=True)
    (loop / "backing_file").write_text(f"{path}\n")
    (tmp_path / "sys" / "block" / "loop8").mkdir()
    (tmp_path / "swaps").write_text(
        f"Filename\tType\nSize\n/dev/sda2 partition 1 0 -2\n{swap.replace(' ', chr(92) + '040')}"
        " file 1 0 -3\n"
    )
    monkeypatch.setattr(block_devices, "SYSFS", str(tmp_path / "sys"))
    monkeypatch.setattr(mounts, "SWAPS", str(tmp_path / "swaps"))
    assert "in use: the loop device /dev/loop7 uses it" in vm.refuses(
        disk={"path": path, "format": "raw"}
    )
    assert "in use: the swap space uses it" in vm.refuses(disk={"path": swap, "format": "raw"})
    (loop / "backing_file").unlink()
    assert vm.run(disk={"path": path, "format": "raw"})["changed"]


def test_an_image_whose_backing_file_has_no_recorded_format_is_refused(vm, tmp_path):
    """QEMU would follow the content that a guest wrote there."""
    base = qemu_img(tmp_path / "base.qcow2")
    middle, top = str(tmp_path / "middle.qcow2"), str(tmp_path / "top.qcow2")
    qemu_img(middle, backing=base)
    with open(middle, "r+b") as handle:
        head = handle.read(4096)
        # The header extension with the format of the backing file becomes the end of the
        # extensions.
        handle.seek(head.index(bytes.fromhex("e2792aca")))
        handle.write(bytes(8))
    qemu_img(top, backing=middle)
    for path, readonly in ((top, False), (top, True), (middle, True)):
        refusal = vm.refuses(disk={"path": path, "readonly": readonly})
        assert (
            f"The image {middle} on" in refusal
            and f"is backed by {base}, and does not say of which format that is" in refusal
        )
    assert vm.run(disk={"path": qemu_img(tmp_path / "good.qcow2", backing=base), "readonly": True})[
        "changed"
    ]


def test_a_log_that_a_guest_writes_is_not_read_as_a_disk(make, domain_xml, tmp_path):
    log = qemu_img(tmp_path / "log.raw", kind="raw")
    (tmp_path / "given").mkdir()
    inside = qemu_img(tmp_path / "given" / "in.raw", kind="raw")
    folder = (
        f"<filesystem type='mount'><source dir='{tmp_path}/given'/><target dir='x'/></filesystem>"
    )
    vm = make(
        others=[
            domain_xml(
                "other", 8, devices=f"<serial type='file'><source path='{log}'/></serial>{folder}"
            )
        ]
    )
    for path in (log, inside):
        assert "a file that the domain other" in vm.refuses(
            disk={"path": path, "format": "raw", "readonly": True}
        )


def test_a_file_of_two_names_is_refused(vm, tmp_path):
    """A guest of another host may write to it by the other name."""
    path = qemu_img(tmp_path / "data.qcow2")
    os.link(path, tmp_path / "again.qcow2")
    assert "has 2 names (hard links)" in vm.refuses(disk={"path": path})
    os.unlink(tmp_path / "again.qcow2")
    assert vm.run(disk={"path": path})["changed"]


def test_an_image_with_its_data_elsewhere_is_refused(vm, tmp_path):
    """Several images may have the same data file."""
    path = str(tmp_path / "outer.qcow2")
    subprocess.run(
        [
            "qemu-img",
            "create",
            "-q",
            "-f",
            "qcow2",
            "-o",
            f"data_file={tmp_path}/data.raw",
            path,
            "1M",
        ],
        check=True,
    )
    for readonly in (False, True):
        assert f"keeps its data in another file, {tmp_path}/data.raw" in vm.refuses(
            disk={"path": path, "readonly": readonly}
        )


@pytest.mark.parametrize("name", ["a\nb", "a\tb", "a\0b", "a\x7fb"])
def test_a_path_that_xml_does_not_keep_is_refused(vm, tmp_path, name):
    for kind, given in (("disk", {"size_gb": 1}), ("cdrom", {})):
        assert "has control characters" in vm.refuses(
            **{kind: {"path": f"{tmp_path}/{name}.qcow2", **given}}
        )
    assert "has control characters" in vm.refuses(
        "absent", disk={"path": f"{tmp_path}/{name}.qcow2"}
    )
    assert len(os.listdir(tmp_path)) == len(
        [each for each in os.listdir(tmp_path) if each.isprintable()]
    )


def test_a_file_that_was_there_before_stays_when_its_guest_is_deleted(vm, guests, tmp_path):
    """A guest that writes to the disk proves nothing; the alias, which libvirt keeps, proves it."""
    made, existing_path = str(tmp_path / "made.qcow2"), qemu_img(tmp_path / "there.qcow2")
    for given in ({"path": made, "size_gb": 1}, {"path": existing_path}):
        assert vm.run(disk=given)["changed"]
    text = vm.domain.XMLDesc(0)
    candidates = {each.path: each for each in ownership.candidates_of(vm.connection, [text])}
    assert candidates[made].by_use
    assert (
        not candidates[existing_path].by_use
        and "it was there before it was attached" in candidates[existing_path].foreign
    )


def test_a_file_that_may_be_needed_is_refused(make, domain_xml, tmp_path):
    vm = make(others=[domain_xml("odd", 8, devices=disk(tmp_path / "lost.qcow2"))])
    path = qemu_img(tmp_path / "data.qcow2")
    assert "It is not certain that nobody else needs the file" in vm.refuses(disk={"path": path})
    vm.connection.lookupByName("odd").destroy()
    vm.connection.lookupByName("odd").undefine()
    assert vm.run(disk={"path": path})["changed"]


def test_a_locked_file_is_refused(vm, monkeypatch):
    path = qemu_img(vm.folder / "data.qcow2")
    monkeypatch.setattr(
        "ansible_collections.drover.compute.plugins.module_utils._files.probe.in_use",
        lambda path: True,
    )
    assert "is not free: a process has it locked" in vm.refuses(disk={"path": path})


def test_its_own_backing_file_is_no_disk_of_it(make, tmp_path):
    vm = make()
    base = qemu_img(tmp_path / "base.qcow2")
    overlay = qemu_img(tmp_path / "overlay.qcow2", backing=base)
    assert vm.run(disk={"path": overlay})["changed"]
    assert "the domain vm uses it" in vm.refuses(disk={"path": base})


def test_what_a_disk_must_not_be(vm, tmp_path):
    path = qemu_img(tmp_path / "data.qcow2")
    vda = str(tmp_path / "vda.qcow2")
    assert "is not absolute" in vm.refuses(disk={"path": "data.qcow2"})
    assert "does not exist" in vm.refuses(disk={"path": str(tmp_path / "none.qcow2")})
    assert "The folder" in vm.refuses(disk={"path": str(tmp_path / "no/none.qcow2"), "size_gb": 1})
    assert "is no file" in vm.refuses(disk={"path": str(tmp_path)})
    assert "has the format qcow2, not raw" in vm.refuses(disk={"path": path, "format": "raw"})
    assert "not 7 GiB" in vm.refuses(disk={"path": path, "size_gb": 7})
    assert "has another disk as vda" in vm.refuses(disk={"path": path, "target": "vda"})
    for target in ("vdzzz", "sdb", "vd1", "vdb1", "b"):
        words = (
            f"{target} is no target on the bus virtio: write vd and one or two letters, such as"
            " vdb, or leave the target out."
        )
        assert words in vm.refuses(disk={"path": path, "target": target})
    for bus in ("sata", "ide"):
        assert "a running guest gets no disk on the bus" in vm.refuses(
            disk={"path": path, "bus": bus}
        )
    vm.run(disk={"path": path})
    for options, words in (
        ({"target": "vdc"}, "with target vdb, not vdc"),
        ({"bus": "scsi"}, "with bus virtio, not scsi"),
        ({"readonly": True}, "with readonly False, not True"),
        ({"format": "raw"}, "with format qcow2, not raw"),
    ):
        assert words in vm.refuses(disk={"path": path, **options})
    # An empty target counts as no target.
    assert not vm.run(disk={"path": path, "target": ""})["changed"]
    assert "with target vdb, not vdc" in vm.refuses("absent", disk={"path": path, "target": "vdc"})
    assert "was another file a moment ago" in vm.refuses(
        disk={"path": qemu_img(tmp_path / "new.qcow2"), "size_gb": None}, looked_up=[vda]
    )


def test_a_domain_that_cannot_be_changed_for_good_is_refused(vm, tmp_path, domain_xml, monkeypatch):
    path = qemu_img(tmp_path / "data.qcow2")
    device = {"disk": {"path": path}}
    vm.domain.snapshotCreateXML("<domainsnapshot/>")
    assert "has snapshots" in vm.refuses(**device)
    vm.domain.snapshotLookupByName(vm.domain.snapshotListNames()[0]).delete()
    vm.run(**device)
    vm.domain.suspend()
    assert "is paused, and a guest that does not run cannot release" in vm.refuses(
        "absent", **device
    )
    vm.domain.resume()
    vm.domain.managedSave()
    assert "has its memory saved" in vm.refuses("absent", **device)
    vm.domain.managedSaveRemove()
    assert vm.run("absent", **device)["changed"]
    vm.domain.undefine()
    vm.connection.createXML(domain_xml("vm", 7))
    assert "is transient" in vm.refuses(**device)
    vm.domain.destroy()
    result = vm.run(**device)
    assert result["rc"] == 1 and "There is no domain" in result["msg"]
    assert "named 'vm'" not in result["msg"]


def test_one_call_at_a_time_and_no_withdrawn_order(vm, tmp_path):
    device = {"disk": {"path": qemu_img(tmp_path / "data.qcow2")}}
    with orders.alone(Records(), UUID, "vm", 1):
        assert "Another call works on" in vm.refuses(**device)
        orders.withdraw(Records(), UUID, ["one"])
    assert "was withdrawn" in vm.refuses(order="one", **device)
    assert vm.run(order="two", **device)["changed"]
    assert "is named 'vm'" in vm.refuses(name="other", **device)


# Interfaces


def test_an_interface_comes_and_goes_by_its_network_or_its_address(vm):
    dry_run = vm.run(interface={"network": "default"}, check_mode=True, diff_mode=True)
    done = vm.run(interface={"network": "default"}, diff_mode=True)
    assert (
        done["changed"]
        and dry_run["device"]["mac"] == done["device"]["mac"]
        and dry_run["diff"] == done["diff"]
    )
    mac = done["device"]["mac"]
    assert vm.macs() == ([mac], [mac]) and mac.startswith("52:54:00:")
    assert not vm.run(interface={"network": "default"})["changed"]
    assert not vm.run(interface={"network": "default", "mac": mac.upper()})["changed"]
    assert vm.run(interface={"network": "default", "mac": "52:54:00:00:00:99"})["changed"]
    assert "has 2 interfaces in the network default" in vm.refuses(
        "absent", interface={"network": "default"}
    )
    assert vm.run("absent", interface={"mac": "52:54:00:00:00:99"})["changed"]
    assert vm.run("absent", interface={"network": "default"})["changed"] and vm.macs() == ([], [])
    assert not vm.run("absent", interface={"network": "default"})["changed"]
    assert vm.run(interface={"network": "default"})["device"]["mac"] == mac, (
        "it has the same address again"
    )


def test_what_an_interface_must_not_be(make, tmp_path, monkeypatch, guests):
    vm = make(NIC.format(1))
    assert "has no network nowhere" in vm.refuses(interface={"network": "nowhere"})
    assert "There is no bridge br9" in vm.refuses(interface={"bridge": "br9"})
    assert "not network other" in vm.refuses(
        interface={"network": "other", "mac": "52:54:00:00:00:01"}
    )
    assert "not network other" in vm.refuses(
        "absent", interface={"network": "other", "mac": "52:54:00:00:00:01"}
    )
    assert "with the model virtio, not e1000" in vm.refuses(
        interface={"network": "default", "model": "e1000"}
    )
    vm.connection.networkLookupByName("default").destroy()
    given = {"network": "default", "mac": "52:54:00:00:00:02"}
    assert "is not active" in vm.refuses(interface=given)
    os.makedirs(tmp_path / "net/br9")
    monkeypatch.setattr(attachable, "NETWORK_DEVICES", str(tmp_path / "net"))
    assert "There is no bridge br9" in vm.refuses(interface={"bridge": "br9"}), (
        "it is another network device"
    )
    os.makedirs(tmp_path / "net/br9/bridge")
    assert vm.run(interface={"bridge": "br9"})["device"]["source"] == "br9"
    guests.releases = False
    assert "did not release" in vm.refuses("absent", begun=True, interface={"bridge": "br9"})
    assert [len(each) for each in vm.macs()] == [2, 2]


# Media


def test_a_medium_is_inserted_replaced_and_ejected(make, tmp_path):
    vm = make(DRIVE.format(""))
    tools, rescue = str(tmp_path / "tools.iso"), str(tmp_path / "rescue.iso")
    for path in (tools, rescue):
        with open(path, "wb") as handle:
            handle.write(b"medium")
    dry_run = vm.run(cdrom={"path": tools}, check_mode=True, diff_mode=True)
    done = vm.run(cdrom={"path": tools}, diff_mode=True)
    assert (
        done["changed"]
        and dry_run["diff"] == done["diff"]
        and f"sda: CD-ROM, {tools}" in done["diff"]["after"]
    )
    assert all(("sda", tools) in each for each in vm.disks()) and done["device"]["source"] == tools
    assert not vm.run(cdrom={"path": tools})["changed"]
    assert f"has no empty CD-ROM drive: sda has {tools}" in vm.refuses(cdrom={"path": rescue})
    assert vm.run(cdrom={"path": rescue, "target": "sda"})["changed"] and all(
        ("sda", rescue) in each for each in vm.disks()
    )
    assert not vm.run("absent", cdrom={"path": tools})["changed"], "it is in no drive"
    assert vm.run("absent", cdrom={"path": rescue})["changed"] and all(
        ("sda", None) in each for each in vm.disks()
    )
    assert not vm.run("absent", cdrom={"target": "sda"})["changed"]
    vm.run(cdrom={"path": tools})
    assert vm.run("absent", cdrom={"target": "sda"})["changed"]


def test_what_a_medium_must_not_be(make, domain_xml, tmp_path, guests):
    other = qemu_img(tmp_path / "other.qcow2")
    vm = make(others=[domain_xml("other", 8, devices=disk(other))])
    iso = str(tmp_path / "tools.iso")
    with open(iso, "wb") as handle:
        handle.write(b"medium")
    assert "does not exist" in vm.refuses(cdrom={"path": str(tmp_path / "none.iso")})
    assert "has no CD-ROM drive, and a running guest gets none" in vm.refuses(cdrom={"path": iso})
    assert "has no CD-ROM drive sdc" in vm.refuses(cdrom={"path": iso, "target": "sdc"})
    assert not vm.run("absent", cdrom={"path": iso})["changed"]
    vm.domain.destroy()
    assert "has another disk as vda" in vm.refuses(cdrom={"path": iso, "target": "vda"})
    assert "sdx9 is no target on the bus sata: write sd and one" in vm.refuses(
        cdrom={"path": iso, "target": "sdx9"}
    )
    assert "a file that the domain other" in vm.refuses(cdrom={"path": other})
    assert vm.run(cdrom={"path": iso})["device"]["target"] == "sda", (
        "a guest that is off gets a drive"
    )
    vm.domain.create()
    guests.tray = False
    assert "timed out waiting to open tray" in vm.refuses("absent", cdrom={"path": iso})
    assert all(("sda", iso) in each for each in vm.disks())
    second = str(tmp_path / "second.iso")
    os.link(iso, second)
    assert "timed out" in vm.refuses(cdrom={"path": second, "target": "sda"}), (
        "the definition has the old one again"
    )


# The output after a change


def test_the_addresses_of_a_domain_are_known_after_a_change(make, run_module, monkeypatch):
    vm = make(NIC.format(1))
    lease = {"mac": "52:54:00:00:00:01", "ipaddr": "192.168.122.5"}
    monkeypatch.setattr(
        libvirt.virNetwork,
        "DHCPLeases",
        lambda network, mac=None, flags=0: [lease] if network.name() == "default" else [],
    )
    stopped = run_module(
        "domain_power", uri=vm._uri, state="stopped", timeout=1, domains=[{"uuid": UUID}]
    )
    for domain in (
        stopped["domains"][0]["domain"],
        vm.run(disk={"path": str(vm.folder / "data.qcow2"), "size_gb": 1})["domain"],
    ):
        assert [each["addresses"] for each in domain["interfaces"]] == [["192.168.122.5"]]
