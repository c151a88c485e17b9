# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ties of a guest to its host: a drain names them before it begins, with the way out; an evacuation
leaves the guest alone."""

from __future__ import annotations

import re

import pytest
from test_evacuate import OFF, die, discover, evacuate, extra
from test_fleet import LOCAL, SHARED, said
from test_storage_safety import cdrom, define, disk, images

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

NVME = """<disk type='nvme' device='disk'><driver name='qemu' type='raw'/><source type='pci' managed='yes' namespace='1'>
<address domain='0x0000' bus='0x01' slot='0x00' function='0x0'/></source><target dev='vda' bus='virtio'/></disk>"""
SHMEM = "<shmem name='both'><model type='ivshmem-plain'/><size unit='M'>4</size></shmem>"
VNC = (
    "<graphics type='vnc' port='{}' autoport='no'><listen type='address' address='{}'/></graphics>"
)


def qcow2(fleet, *names, folder=LOCAL):
    images(
        fleet, "kvm1", *(f"qemu-img create -q -f qcow2 {folder}/{name}.qcow2 8M" for name in names)
    )


def test_f01_f09_f10_f12_f13_a_drain_names_them_before_anything_is_begun(fleet):
    address = fleet.run("kvm1", "hostname -I").split()[0]
    qcow2(fleet, "snap", "gone")
    images(
        fleet,
        "kvm1",
        f"qemu-img snapshot -c before {LOCAL}/snap.qcow2",
        f"echo medium > {LOCAL}/rescue.iso",
    )
    define(fleet, "kvm1", "snap", disk(f"{LOCAL}/snap.qcow2"), start=True)
    define(fleet, "kvm1", "gone", disk(f"{LOCAL}/gone.qcow2"), start=True)
    define(fleet, "kvm1", "medium", cdrom(f"{LOCAL}/rescue.iso"), start=True)
    define(fleet, "kvm1", "listens", VNC.format(5931, address), start=True)
    define(fleet, "kvm1", "shares", SHMEM, start=True)
    fleet.run("kvm1", f"rm {LOCAL}/gone.qcow2 {LOCAL}/rescue.iso")
    discover(fleet)
    where, text = fleet.where(), fleet.refused("drain", "-e", "drover_host=kvm1")
    assert "so nothing was changed" in text and fleet.where() == where
    for words in (
        r"snap: its disk \S*snap.qcow2 has snapshots inside \(before\), which are not copied",
        r"gone: its disk vda \(\S*gone.qcow2\) is not there any more, .*virsh blockcopy gone vda",
        (
            r"medium: its medium in sda \(\S*rescue.iso\) does not exist any more: eject it with"
            r" drover.compute.instance_cdrom"
        ),
        rf"listens: .*its graphics vnc listens on {re.escape(address)}, an address of its host",
        r"shares: its shared memory both is memory that it shares",
    ):
        assert re.search(words, text), (words, text)
    assert "drover_unmovable=shutdown shuts them down" not in text
    # A shutdown would lose the deleted disk.
    text = fleet.refused("drain", "-e", "drover_host=kvm1", "-e", "drover_unmovable=shutdown")
    assert "must not be shut down" in text and "gone on kvm1" in text and fleet.where() == where
    # The command in the message works.
    fleet.run(
        "kvm1",
        f"virsh blockcopy gone vda --dest {LOCAL}/saved.qcow2 --format qcow2 --transient-job --wait"
        " --pivot",
    )
    fleet.run("kvm1", f"qemu-img info -U {LOCAL}/saved.qcow2")
    assert "gone:" not in fleet.refused("drain", "-e", "drover_host=kvm1")


def test_f10_a_taken_port_has_another_destination(fleet):
    define(fleet, "kvm1", "wants", VNC.format(5941, "127.0.0.1"), start=True)
    define(fleet, "kvm2", "has", VNC.format(5941, "127.0.0.1"), start=True)
    discover(fleet)
    fleet.drain("kvm1")
    assert fleet.settled()["wants"] == ("kvm3", "running")


def test_f03_what_the_next_start_alone_has_goes_along(fleet):
    qcow2(fleet, "cfg", "data")
    images(fleet, "kvm1", f"qemu-io -f qcow2 -c 'write -q -P 7 0 64k' {LOCAL}/data.qcow2")
    define(fleet, "kvm1", "cfg", disk(f"{LOCAL}/cfg.qcow2"), start=True)
    fleet.run(
        "kvm1",
        f"virsh attach-disk cfg {LOCAL}/data.qcow2 vdb --driver qemu --subdriver qcow2 --config",
    )
    discover(fleet)
    done = fleet.drain("kvm1")
    host, state = fleet.settled()["cfg"]
    assert host != "kvm1" and state == "running", said(done)
    assert "data.qcow2" not in fleet.files(LOCAL, "kvm1")
    fleet.run(host, "virsh destroy cfg && virsh start cfg")
    assert "vdb" in fleet.run(host, "virsh domblklist cfg")
    assert "verification failed" not in fleet.run(
        host, f"qemu-io -U -r -f qcow2 -c 'read -P 7 0 64k' {LOCAL}/data.qcow2"
    )


def test_f02_an_nvme_disk_stays_with_its_host(fleet):
    qcow2(fleet, "fine", folder=SHARED)
    define(fleet, "kvm1", "nvme", NVME)
    define(fleet, "kvm1", "fine", disk(f"{SHARED}/fine.qcow2"), start=True)
    discover(fleet)
    text = fleet.refused("drain", *extra(drover_host="kvm1"))
    assert "nvme: its disk vda is an NVMe device of the host (0000:01:00.0/1)" in text, text
    die(fleet)
    text = said(evacuate(fleet, check=False, **OFF))
    where = fleet.where(["kvm2", "kvm3"])
    assert "nvme" not in where and where["fine"][1] == "running", text
    assert re.search(r"nvme.*is on the dead host alone", text), text


def test_f14_a_secret_without_a_value(fleet):
    number = "3b2a1c5e-0000-4000-8000-00000000f014"
    secret = f"<secret ephemeral='no' private='no'><uuid>{number}</uuid></secret>"
    for host in ("kvm1", "kvm2", "kvm3"):
        fleet.run(host, f"virsh secret-define /dev/stdin <<'END'\n{secret}\nEND")
    try:
        fleet.run("kvm1", f"virsh secret-set-value {number} --base64 c2VjcmV0")
        images(
            fleet,
            "kvm1",
            # A measurement of the processor decides the time for the key, and it fails on a busy
            # machine.
            "for n in 1 2 3 4 5 6 7 8 9; do qemu-img create -q -f luks --object"
            f" secret,id=s,data=secret -o key-secret=s,iter-time=10 {SHARED}/luks.raw 8M && break;"
            " done",
        )
        luks = f"<encryption format='luks'><secret type='passphrase' uuid='{number}'/></encryption>"
        define(
            fleet,
            "kvm1",
            "luks",
            disk(f"{SHARED}/luks.raw", kind="raw").replace("</disk>", f"{luks}</disk>"),
            start=True,
        )
        discover(fleet)
        text = fleet.refused("drain", "-e", "drover_host=kvm1")
        assert re.search(
            rf"the secret {number} \(passphrase\) of its disks has no value on kvm\d: set it there"
            r" \(virsh secret-set-value\)",
            text,
        ), text
        fleet.run("kvm3", f"virsh secret-set-value {number} --base64 c2VjcmV0")
        fleet.drain("kvm1")
        assert fleet.settled()["luks"] == ("kvm3", "running")
    finally:
        fleet.everywhere(f"virsh destroy luks; virsh secret-undefine {number}; true")
