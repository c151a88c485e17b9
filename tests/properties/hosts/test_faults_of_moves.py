# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults that operators of other systems saw at moves: data inside images, two definitions, ties
between a guest and its host."""

from __future__ import annotations

import os
import socket
import subprocess
import types
import xml.etree.ElementTree as ET

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._bindings import reading
from ansible_collections.drover.compute.plugins.module_utils._bindings.there import reasons_here
from ansible_collections.drover.compute.plugins.module_utils._domain.definition import parse_disk
from ansible_collections.drover.compute.plugins.module_utils._host.disk_facts import DiskFacts
from ansible_collections.drover.compute.tests.unit.module_utils.images import disk, domain, qemu_img
from ansible_collections.drover.compute.tests.unit.module_utils.migration.test_storage import (
    Place,
    place,
)
from ansible_collections.drover.compute.tests.unit.module_utils.migration.test_worker import UUID

__all__ = ["place"]

VNC = (
    "<graphics type='vnc' port='{}' autoport='{}'><listen type='address' address='{}'/></graphics>"
)


def both(place: Place, devices: str, later: str) -> None:
    """Let the instance run with some devices, and have others in the definition of its next
    start.
    """
    place.define(devices, running=True)
    place.source.defineXML(domain("vm", 1, later, uuid=UUID))


# -- F1: data inside an image ----------------------------------------------------------------------


def with_snapshot(path):
    subprocess.run(["qemu-img", "snapshot", "-c", "before", path], check=True)


def with_bitmap(path):
    subprocess.run(["qemu-img", "bitmap", "--add", path, "of-a-backup"], check=True)


def test_f01_a_snapshot_inside_an_image_is_not_lost_by_a_live_move(place):
    path = qemu_img(place.local / "vm.qcow2")
    with_snapshot(path)
    place.define(disk(path), running=True)
    text = place.refused()
    assert (
        f"its disk {path} has snapshots inside (before), which are not copied: delete them with"
        " qemu-img snapshot -d" in text
    )
    assert "a cold move takes all of the file along" in text


def test_f01_a_cold_move_takes_a_snapshot_inside_an_image_along(place):
    path = qemu_img(place.local / "vm.qcow2")
    with_snapshot(path)
    with_bitmap(path)
    content = open(path, "rb").read()
    place.define(disk(path))
    place.moved()
    assert place.far.read(path) == content


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (with_snapshot, "has snapshots inside (before)"),
        (with_bitmap, "has bitmaps inside (of-a-backup)"),
    ],
)
def test_f01_a_cold_move_that_makes_an_image_flat_is_refused(place, change, words):
    base = qemu_img(place.local / "base.qcow2")
    path = qemu_img(place.local / "vm.qcow2", backing=base)
    place.far.write(base, open(base, "rb").read())
    change(path)
    place.define(disk(path))
    assert words in place.refused()


@pytest.mark.parametrize("running", [True, False])
def test_f01_a_disk_that_is_only_read_is_looked_at_too(place, running):
    """The file has the name of the instance, so the move would remove it at the source."""
    base = qemu_img(place.local / "base.qcow2")
    path = qemu_img(place.local / f"{UUID}-tools.qcow2", backing=base)
    place.far.write(base, open(base, "rb").read())
    with_snapshot(path)
    place.define(disk(path, more="<readonly/>"), running=running)
    assert "has snapshots inside (before)" in place.refused()


def test_f01_a_running_guest_takes_its_bitmaps_along(place):
    path = qemu_img(place.local / "vm.qcow2")
    with_bitmap(path)
    place.define(disk(path), running=True)
    place.moved()


def test_f01_data_in_another_file(place):
    path = qemu_img(place.local / "vm.qcow2", "-o", f"data_file={place.local}/vm.data")
    place.define(disk(path), running=True)
    assert f"keeps its data in another file, {place.local}/vm.data" in place.refused()


@pytest.mark.parametrize("running", [True, False])
def test_f01_an_encrypted_image_is_copied_whole_or_not_at_all(place, running):
    secret = "3b2a1c5e-0000-4000-8000-000000000001"
    path = qemu_img(
        place.local / "vm.luks",
        "--object",
        "secret,id=s,data=x",
        "-o",
        "key-secret=s,iter-time=10",
        kind="luks",
    )
    luks = f"<encryption format='luks'><secret type='passphrase' uuid='{secret}'/></encryption>"
    place.far.secrets = {secret: Secret()}
    place.define(disk(path, kind="raw", more=luks), running=running)
    if running:
        assert "is encrypted, and a copy of it would not be" in place.refused()
    else:
        content = open(path, "rb").read()
        place.moved()
        assert place.far.read(path) == content


# -- F2: unknown is not empty ----------------------------------------------------------------------

UNKNOWN = [
    (
        (
            "<disk type='nvme'><source type='pci' managed='yes' namespace='1'><address domain='0'"
            " bus='1' slot='0' function='0'/></source>"
        ),
        "NVMe device",
    ),
    (
        (
            "<disk type='vhostuser'><driver name='qemu' type='raw'/><source type='unix'"
            " path='/run/blk.sock'/>"
        ),
        "/run/blk.sock",
    ),
]


@pytest.mark.parametrize(("xml", "words"), UNKNOWN)
def test_f02_a_disk_of_another_type_is_no_empty_drive(place, xml, words):
    place.define(f"{xml}<target dev='vda' bus='virtio'/></disk>")
    text = place.refused()
    assert "its disk vda" in text and words in text


# -- F3: two definitions ---------------------------------------------------------------------------


def test_f03_a_disk_of_the_next_start_alone_is_copied(place):
    path, later = qemu_img(place.local / "vm.qcow2"), qemu_img(place.local / "data.qcow2")
    content = open(later, "rb").read()
    both(place, disk(path), disk(path) + disk(later, "vdb"))
    record = place.moved()
    assert place.far.read(later) == content and os.listdir(place.local) == []
    # libvirt copies the disks of the running guest.
    assert place.parameters[libvirt.VIR_MIGRATE_PARAM_MIGRATE_DISKS] == ["vda"]
    assert sorted(record["removed"]) == sorted([path, later])


def test_f03_a_disk_of_the_next_start_alone_that_cannot_go(place):
    path = qemu_img(place.shared / "vm.qcow2")
    both(
        place,
        disk(path, more="<driver cache='none'/>"),
        disk(path) + disk(place.local / "gone.qcow2", "vdb"),
    )
    assert "as it starts next time, of its disk" in place.refused()


LATER = [
    (
        "<interface type='network'><source network='blue'/></interface>",
        "",
        "the network blue does not exist on kvm2",
    ),
    (
        "<filesystem type='mount'><source dir='/srv/x'/><target dir='x'/></filesystem>",
        "",
        "a folder of the host is shared with it (/srv/x)",
    ),
    ("", "<kernel>{folder}/vmlinuz</kernel>", "does not exist on kvm2"),
    (
        "<shmem name='s'><model type='ivshmem-plain'/><size unit='M'>4</size></shmem>",
        "",
        "its shared memory s",
    ),
]


@pytest.mark.parametrize(("devices", "boot", "words"), LATER)
def test_f03_what_the_next_start_alone_has_is_checked(place, devices, boot, words):
    path = qemu_img(place.shared / "vm.qcow2")
    (place.local / "vmlinuz").write_bytes(b"kernel")
    place.define(disk(path), running=True)
    place.source.defineXML(
        domain("vm", 1, disk(path) + devices, boot.format(folder=place.local), uuid=UUID)
    )
    text = place.refused()
    assert "as it starts next time, " in text and words in text


def test_f03_what_the_running_guest_alone_has_is_checked(place):
    path = qemu_img(place.shared / "vm.qcow2")
    both(
        place,
        disk(path) + "<shmem name='s'><model type='ivshmem-plain'/><size unit='M'>4</size></shmem>",
        disk(path),
    )
    assert "its shared memory s is memory that it shares" in place.refused()


# -- F10, F11: ports and addresses -----------------------------------------------------------------


def another(place, devices):
    """Start a guest at the destination."""
    place.far._domains.defineXML(domain("other", 7, devices)).create()


def test_f10_a_port_that_a_guest_of_the_destination_has(place):
    another(place, VNC.format(5911, "no", "127.0.0.1"))
    place.define(VNC.format(5911, "no", "127.0.0.1"), running=True)
    assert (
        "its graphics vnc has the fixed port 5911, and other has that on kvm2: give it another"
        " port, or autoport='yes'" in place.refused()
    )


def test_f10_a_port_that_libvirt_chose_is_chosen_anew(place):
    another(place, VNC.format(5900, "no", "127.0.0.1"))
    place.define(VNC.format(5900, "yes", "127.0.0.1"), running=True)
    place.moved()


def test_f10_an_address_that_the_destination_does_not_have(place):
    place.define(VNC.format(5911, "no", "192.0.2.7"), running=True)
    assert (
        "listens on 192.0.2.7, an address of its host, and kvm2 does not have it"
        in place.refused(addresses_there=["192.0.2.8"])
    )
    place.moved(addresses_there=["192.0.2.7"])


@pytest.mark.parametrize("kind", ["serial", "parallel", "console"])
def test_f11_a_character_device_that_listens(place, kind):
    device = (
        f"<{kind} type='tcp'><source mode='bind' host='192.0.2.7' service='4555'/><protocol"
        f" type='raw'/></{kind}>"
    )
    another(place, device)
    place.define(device, running=True)
    text = place.refused(addresses_there=["192.0.2.8"])
    assert (
        "listens on 192.0.2.7" in text
        and "has the fixed port 4555" not in text.partition("192.0.2.7")[0]
    )
    assert "other has that on kvm2" in place.refused(addresses_there=["192.0.2.7"])


UDP_SERIAL = (
    "<serial type='udp'><source mode='bind' host='127.0.0.1' service='{port}'/><source"
    " mode='connect' host='192.0.2.9' service='9'/></serial>"
)


def test_f11_a_port_of_udp_is_another_port(place):
    """Start a guest at the destination with this TCP port."""
    another(
        place,
        "<serial type='tcp'><source mode='bind' host='127.0.0.1' service='4555'/><protocol"
        " type='raw'/></serial>",
    )
    place.define(UDP_SERIAL.format(port=4555), running=True)
    place.moved()


def test_f11_a_port_of_udp_that_is_taken(place):
    another(place, UDP_SERIAL.format(port=4555))
    place.define(UDP_SERIAL.format(port=4555), running=True)
    assert "has the fixed UDP port 4555, and other has that on kvm2" in place.refused()


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_f11_a_start_tries_the_port_of_its_protocol(protocol):
    """The test makes the definition as an evacuation does on the new host: another program has the
    port."""
    kinds = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}
    taken = socket.socket(socket.AF_INET, kinds[protocol])
    with taken:
        taken.bind(("127.0.0.1", 0))
        if protocol == "tcp":
            taken.listen()
        number = taken.getsockname()[1]
        for transport in ("tcp", "udp"):
            device = (
                f"<serial type='{transport}'><source mode='bind' host='127.0.0.1'"
                f" service='{number}'/></serial>"
            )
            reasons = reasons_here(
                libvirt.open("test:///default"), reading.read(domain("vm", 1, device)), "kvm2", UUID
            )
            assert bool(reasons) is (transport == protocol) and all(
                "that is taken on kvm2" in why for why in reasons
            ), reasons


HUGE = {
    "of the usual size": (
        "<memoryBacking><hugepages/></memoryBacking>",
        "",
        "its memory is in huge pages",
    ),
    "of a memory device": (
        "",
        (
            "<memory model='dimm'><source><pagesize"
            " unit='KiB'>2048</pagesize></source><target><size"
            " unit='KiB'>524288</size><node>0</node></target></memory>"
        ),
        "is in pages of 2048 KiB",
    ),
}


@pytest.mark.parametrize("which", HUGE)
@pytest.mark.parametrize("free", [0, 8])
def test_f12_huge_pages_that_the_destination_does_not_have(which, free):
    extra, device, words = HUGE[which]
    text = domain("vm", 1, device).replace("<devices>", f"{extra}<devices>")
    host = types.SimpleNamespace(
        getCapabilities=lambda: (
            "<capabilities><host><cpu><pages unit='KiB' size='4'/><pages unit='KiB'"
            " size='2048'/></cpu></host></capabilities>"
        ),
        getFreePages=lambda sizes, start, count, flags=0: {
            0: {size: free if size == 2048 else 1000 for size in sizes}
        },
        listAllDomains=lambda flags: [],
    )
    reasons = reasons_here(host, reading.read(text), "kvm2", UUID)
    assert bool(reasons) is not bool(free) and all(
        words in why and "none is free on kvm2" in why for why in reasons
    ), reasons


def test_f11_a_socket_whose_folder_is_not_there(place):
    path = place.local / "sockets" / "serial.sock"
    place.define(f"<serial type='unix'><source mode='bind' path='{path}'/></serial>", running=True)
    assert (
        f"the folder {path.parent} does not exist on kvm2: make that folder there"
        in place.refused()
    )
    os.makedirs(place.far.real(str(path.parent)))
    place.moved()


def test_f11_a_log_whose_folder_is_not_there(place):
    place.define(
        f"<serial type='pty'><log file='{place.local}/logs/console.log'/></serial>", running=True
    )
    assert (
        f"its serial 0 has a log in {place.local}/logs, and the folder {place.local}/logs does not"
        " exist on kvm2" in place.refused()
    )


def test_f11_a_fixed_cid(place):
    device = "<vsock model='virtio'><cid auto='no' address='7'/></vsock>"
    another(place, device)
    place.define(device, running=True)
    assert "has the fixed CID 7, and other has that on kvm2" in place.refused()


# -- F14: secrets ----------------------------------------------------------------------------------


class Secret:
    """Define a secret of libvirt; with a value, without one, or private."""

    def __init__(self, code=None):
        self.code = code

    def value(self, flags=0):
        if self.code is not None:
            problem = libvirt.libvirtError("secret")
            problem.err = (self.code, 30, "secret", 2, None, None, None, 0, 0)
            raise problem
        return b"x"


@pytest.mark.parametrize(
    ("code", "refused"),
    [(None, False), (libvirt.VIR_ERR_NO_SECRET, True), (libvirt.VIR_ERR_INVALID_SECRET, False)],
)
def test_f14_a_secret_without_a_value(place, code, refused):
    number = "3b2a1c5e-0000-4000-8000-000000000001"
    path = qemu_img(place.shared / "vm.qcow2")
    place.define(
        disk(
            path,
            more=(
                "<encryption format='luks'><secret type='passphrase'"
                f" uuid='{number}'/></encryption>"
            ),
        )
    )
    place.far.secrets = {number: Secret(code)}
    if refused:
        words = (
            f"the secret {number} (passphrase) of its disks has no value on kvm2: set it there"
            " (virsh secret-set-value)"
        )
        assert words in place.refused()
    else:
        place.moved()


# -- F9, F13: missing files ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "state", "words", "keeps"),
    [
        (
            "disk",
            "running",
            "is not there any more, and only the running guest has what is in it",
            True,
        ),
        ("disk", "shutoff", "does not exist", False),
        ("cdrom", "running", "does not exist any more", False),
    ],
)
def test_f09_f13_a_file_that_is_gone_is_a_fact(tmp_path, device, state, words, keeps):
    there, lost = qemu_img(tmp_path / "there.qcow2"), str(tmp_path / "lost.qcow2")
    disks = [
        parse_disk(ET.fromstring(disk(path, device=device, kind="raw"))) for path in (there, lost)
    ]
    facts = {
        "name": "vm",
        "state": state,
        "disks": disks,
        "running_disks": [],
        "other_files": [],
        "bindings": [],
    }
    DiskFacts((), [], types.SimpleNamespace(getType=lambda: "QEMU")).add_domains([facts])
    (binding,) = facts["bindings"]
    assert (
        lost in binding["what"]
        and words in binding["what"]
        and (binding["move"], binding["keep_running"]) == ("never", keeps)
    )
    # The objects of libvirt's test driver have no files.
    facts["bindings"] = []
    DiskFacts((), [], types.SimpleNamespace(getType=lambda: "TEST")).add_domains([facts])
    assert facts["bindings"] == []
