# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Modules on a host with storage whose server is gone, while its libvirt answers."""

from __future__ import annotations

import os
import socket
import subprocess
import time

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._files import access, probe
from ansible_collections.drover.compute.plugins.module_utils._images import images

HERE = os.uname().nodename


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(access, "LIMIT", 0.5)
    monkeypatch.setattr(access, "FIND", 0.5)
    monkeypatch.setattr(probe, "LOOK", 0.5)
    monkeypatch.setattr(images, "QEMU_IMG_TIMEOUT", 1)


def warnings(result, path):
    """Return the warnings that name a path, as texts. ansible-core has several forms of them, and
    keeps the warnings of earlier modules."""
    return [str(each) for each in result.get("warnings", ()) if str(path) in str(each)]


def disk(path, target):
    return (
        "<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source"
        f" file='{path}'/><target dev='{target}'/></disk>"
    )


def test_storage_a_disk_that_does_not_answer_is_a_fact_without_sizes(
    run_module, fake_host, domain_xml, dead_storage, impatient, tmp_path
):
    alive = tmp_path / "alive.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(alive), "3G"], check=True)
    uri, dummy = fake_host(
        *(
            domain_xml(f"vm{number}", number, devices=disk(f"{dead_storage}/{number}.qcow2", "vda"))
            for number in range(300)
        ),
        domain_xml(
            "vm300", 300, devices=disk(alive, "vda") + disk(f"{dead_storage}/more.qcow2", "vdb")
        ),
    )
    began = time.monotonic()
    result = run_module("hypervisor_info", uri=uri, instances_path=f"{dead_storage}/images")
    assert time.monotonic() - began < 20
    assert result["rc"] == 0, result
    domains = {each["name"]: each for each in result["hypervisor"]["domains"]}
    assert len(domains) == 301
    assert [(each["source"], each["capacity_bytes"]) for each in domains["vm300"]["disks"]] == [
        (str(alive), 3 * 2**30),
        (f"{dead_storage}/more.qcow2", None),
    ]
    storage = result["hypervisor"]["storage"]
    # The source of the mount is known, so the host still counts among the hosts that share it.
    assert storage == {
        "instances_path": f"{dead_storage}/images",
        "real_path": f"{dead_storage}/images",
        "total_gb": 0,
        "used_gb": 0,
        "free_gb": 0,
        "shared_id": "glusterfs:server:/export/images",
        "folder_id": None,
        "disk_available_least_gb": None,
    }
    sizes, room = sorted(warnings(result, dead_storage), key=lambda text: "The room below" in text)
    assert f"look at the server of what is mounted at {dead_storage}, or unmount it." in sizes
    assert "Disks there whose sizes are unknown: 301." in sizes
    assert (
        f"The room below {dead_storage}/images on" in room and f"mounted at {dead_storage}" in room
    )


def test_storage_libvirt_is_not_asked_about_images_that_do_not_answer(
    run_module, fake_host, domain_xml, dead_storage, impatient, monkeypatch, tmp_path
):
    """qemu-img would open the disks, and block while the domain is locked."""
    device = "<disk type='block' device='disk'><source dev='/dev/zero'/><target dev='vdb'/></disk>"
    volume = (
        "<disk type='volume' device='disk'><source pool='{0}' volume='v'/><target"
        " dev='vdc'/></disk>"
    )
    dead = disk(f"{dead_storage}/a", "vda")
    uri, connection = fake_host(
        domain_xml("dead", 1, devices=dead),
        domain_xml("device", 2, devices=device),
        domain_xml("both", 3, devices=dead + device),
        domain_xml("volume", 4, devices=volume.format("gone")),
        domain_xml("far", 5, devices=volume.format("elsewhere")),
        domain_xml("near", 6, devices=volume.format("here")),
    )
    for name, path in (("gone", dead_storage), ("here", tmp_path)):
        connection.storagePoolDefineXML(
            f"<pool type='dir'><name>{name}</name><target><path>{path}</path></target></pool>", 0
        )
    (tmp_path / "v").write_bytes(b"x" * 1000)
    names = []

    def stats(self, wanted=0, flags=0, real=libvirt.virConnect.getAllDomainStats):
        assert not wanted & libvirt.VIR_DOMAIN_STATS_BLOCK
        return real(self, wanted, flags)

    def stats_of(self, domains, wanted=0, flags=0):
        names.extend(domain.name() for domain in domains)
        return [
            (domain, {"block.count": 1, "block.0.name": "vdb", "block.0.capacity": 5})
            for domain in domains
        ]

    def info(self, target, flags=0):
        assert (self.name(), target) == ("far", "vdc")
        return 7, 7, 7

    monkeypatch.setattr(libvirt.virConnect, "getAllDomainStats", stats)
    monkeypatch.setattr(libvirt.virConnect, "domainListGetStats", stats_of)
    monkeypatch.setattr(libvirt.virDomain, "blockInfo", info)
    result = run_module("hypervisor_info", uri=uri, instances_path=str(tmp_path))
    assert result["rc"] == 0, result
    sizes = {
        each["name"]: [disk["capacity_bytes"] for disk in each["disks"]]
        for each in result["hypervisor"]["domains"]
    }
    assert sizes == {
        "dead": [None],
        "device": [5],
        "both": [None, None],
        "volume": [None],
        "far": [7],
        "near": [1000],
    }
    assert sorted(names) == ["device", "far"]


def test_storage_a_disk_that_is_a_pipe_is_no_wait(run_module, fake_host, domain_xml, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    uri, dummy = fake_host(domain_xml("vm", 1, devices=disk(tmp_path / "pipe", "vda")))
    result = run_module("hypervisor_info", uri=uri)
    assert [each["capacity_bytes"] for each in result["hypervisor"]["domains"][0]["disks"]] == [
        None
    ]
    assert warnings(result, tmp_path) == []


def test_storage_a_probe_of_disks_that_do_not_answer_ends(run_module, dead_storage, impatient):
    with socket.create_server(("127.0.0.1", 0)) as server:
        arguments = {"addresses": ["127.0.0.1"], "port": server.getsockname()[1]}
        began = time.monotonic()
        answer = run_module(
            "_host_probe",
            disks=[f"{dead_storage}/{number}.qcow2" for number in range(300)],
            **arguments,
        )
    assert time.monotonic() - began < 15
    assert (answer["reached"], answer["storage"], answer["in_use"]) == (True, "unknown", [])


def test_storage_qemu_img_is_given_up(dead_storage, impatient):
    class Module:
        def get_bin_path(self, name):
            return f"/usr/bin/{name}"

    began = time.monotonic()
    with pytest.raises(images.ImageProblem) as problem:
        images.image_info(Module(), f"{dead_storage}/a.qcow2")
    assert time.monotonic() - began < 10
    assert (
        str(problem.value)
        == f"On {HERE}, reading {dead_storage}/a.qcow2 did not end within 1 s and was given up:"
        " look whether its storage hangs there."
    )


@pytest.mark.parametrize(
    "silent", ["listAllNetworks", "listAllStoragePools", "listAllDevices", "getMemoryStats"]
)
def test_safety_09_half_a_reading_is_none(run_module, default_host, monkeypatch, silent):
    """A value that a driver does not support is left out. A value that a dying libvirt did not give
    is not left out."""
    broken = []

    def breaks(self, *args):
        broken.append(silent)
        raise libvirt.libvirtError("internal error: client socket is closed")

    def name(self, real=libvirt.virConnect.getHostname):
        if broken:
            raise libvirt.libvirtError("internal error: client socket is closed")
        return real(self)

    monkeypatch.setattr(libvirt.virConnect, silent, breaks)
    monkeypatch.setattr(libvirt.virConnect, "getHostname", name)
    result = run_module("hypervisor_info", uri="test:///default")
    assert result["rc"] == 1 and result["msg"].startswith("Reading test:///default from")
