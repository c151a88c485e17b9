# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Another size for a domain that is defined, on libvirt's test driver with real image files."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

libvirt = pytest.importorskip("libvirt")

UUID = "00000000-0000-4000-8000-000000000007"
EXTRA = (
    "<metadata><app:info xmlns:app='https://example.org/app'>kept</app:info></metadata>"
    "<cpu><topology sockets='1' dies='1' cores='2' threads='1'/></cpu>"
)


@pytest.fixture
def disk(tmp_path):
    path = str(tmp_path / "vm.qcow2")
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", path, "1G"], check=True)
    return path


@pytest.fixture
def vm(fake_host, domain_xml, disk):
    """A host with a running vm: 2 vCPUs, 64 MiB, one disk."""
    devices = (
        "<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source"
        f" file='{disk}'/><target dev='vda'/></disk>"
    )
    return fake_host(domain_xml("vm", 7, devices=devices))


def size_of(path):
    return (
        json.loads(subprocess.check_output(["qemu-img", "info", "--output=json", path]))[
            "virtual-size"
        ]
        // 2**30
    )


def test_shut_off_and_redefined_in_one_call(run_module, vm):
    uri, connection = vm
    arguments = {
        "uri": uri,
        "uuid": UUID,
        "state": "stopped",
        "vcpus": 4,
        "memory_mb": 128,
        "flavor": "big",
    }
    dry_run = run_module("domain", check_mode=True, **arguments)
    assert connection.lookupByName("vm").isActive()
    done = run_module("domain", **arguments)
    for result in (dry_run, done):
        domain = result["domain"]
        assert (result["changed"], domain["state"], domain["vcpus"], domain["memory_mb"]) == (
            True,
            "shutoff",
            4,
            128,
        )
        assert domain["metadata"] == {"flavor": "big"}
    assert run_module("domain", **arguments)["changed"] is False
    started = run_module("domain", **{**arguments, "state": "running"})
    assert (started["changed"], started["domain"]["state"], started["domain"]["vcpus"]) == (
        True,
        "running",
        4,
    )
    assert (
        run_module("domain", uri=uri, uuid=UUID, state="stopped", flavor="")["domain"]["metadata"]
        == {}
    )


def test_a_running_domain_keeps_its_size(run_module, vm):
    uri, connection = vm
    result = run_module("domain", uri=uri, uuid=UUID, state="running", vcpus=4)
    assert result["rc"] == 1 and "shut it off first" in result["msg"]
    assert connection.lookupByName("vm").isActive()
    assert (
        run_module("domain", uri=uri, uuid=UUID, state="running", vcpus=2, memory_mb=64)["changed"]
        is False
    )


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("<cpu><topology sockets='1' cores='2' threads='1'/></cpu>", "3 is no multiple"),
        ("<cpu><numa><cell id='0' cpus='0-1' memory='64' unit='MiB'/></numa></cpu>", "NUMA cells"),
        (
            (
                "<maxMemory slots='2' unit='MiB'>100</maxMemory><cpu><numa><cell id='0' cpus='0-1'"
                " memory='64' unit='MiB'/></numa></cpu>"
            ),
            "NUMA",
        ),
    ],
)
def test_what_numbers_cannot_say_is_refused_before_it_is_shut_down(domain_xml, extra, words):
    from ansible_collections.drover.compute.plugins.module_utils._devices import resize
    from ansible_collections.drover.compute.plugins.module_utils._libvirt.binding import (
        LibvirtProblem,
    )

    with pytest.raises(LibvirtProblem, match=words):
        resize.resized(domain_xml("vm", 7, extra=extra), vcpus=3, memory_mb=128)


def test_the_rest_of_the_xml_stays(domain_xml):
    from ansible_collections.drover.compute.plugins.module_utils._devices import resize

    text = domain_xml("vm", 7, extra=EXTRA).replace(
        "<vcpu>2<", "<currentMemory unit='MiB'>32</currentMemory><vcpu current='1'>2<"
    )
    new = resize.resized(text, vcpus=4, memory_mb=64, flavor="big")
    assert (
        "<app:info" in new
        and ">kept<" in new
        and "currentMemory" not in new
        and "current=" not in new
    )
    assert 'sockets="2"' in new and "<drover:flavor>big</drover:flavor>" in new
    assert resize.resized(new, vcpus=4, memory_mb=64, flavor="big") is None


def test_a_disk_grows_and_never_shrinks(run_module, vm, disk):
    uri, connection = vm
    connection.lookupByName("vm").destroy()
    arguments = {"uri": uri, "uuid": UUID, "state": "present"}
    told = run_module("domain", check_mode=True, **arguments, disk_gb=3)
    assert told["changed"] is True and size_of(disk) == 1
    assert run_module("domain", **arguments, disk_gb=3)["changed"] is True
    assert size_of(disk) == 3
    assert run_module("domain", **arguments, disk_gb=3)["changed"] is False
    result = run_module("domain", **arguments, disk_gb=2)
    assert result["rc"] == 1 and "never made smaller" in result["msg"]
    assert size_of(disk) == 3


@pytest.mark.parametrize("way", ["domain", "_domain_device"])
@pytest.mark.parametrize("check_mode", [True, False])
def test_f3_a_size_is_not_given_to_another_file_of_the_running_guest(
    run_module, vm, disk, domain_xml, monkeypatch, way, check_mode
):
    """The file of the definition has 1 GiB, and the file of the guest 5 GiB: a size of 3 GiB would
    cut the guest's data."""
    uri, connection = vm
    other, resized = f"{disk}.new", []
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", other, "5G"], check=True)
    devices = (
        "<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source"
        " file='{}'/><target dev='vda'/></disk>"
    )
    connection.lookupByName("vm").destroy()
    connection.defineXML(domain_xml("vm", 7, devices=devices.format(other))).create()
    connection.defineXML(domain_xml("vm", 7, devices=devices.format(disk)))
    monkeypatch.setattr(
        libvirt.virDomain, "blockResize", lambda domain, target, size, flags: resized.append(size)
    )
    arguments = (
        {"state": "present", "disk_gb": 3}
        if way == "domain"
        else {"growth": {"target": "vda", "size_gb": 3}}
    )
    result = run_module(way, check_mode=check_mode, uri=uri, uuid=UUID, **arguments)
    assert (
        result["rc"] == 1
        and "is not made larger" in result["msg"]
        and "the running guest has another file there" in result["msg"]
    )
    assert resized == [] and (size_of(disk), size_of(other)) == (1, 5)


def test_images_that_others_need_are_kept(run_module, fake_host, domain_xml, tmp_path):
    """Kept are the backing files of another domain here, the images of another hypervisor's domain,
    and images of other owners."""
    names = ("own", "base", "far", "top", "clone")
    paths = {name: str(tmp_path / f"{name}.qcow2") for name in names}
    for name in ("own", "base", "far"):
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", paths[name], "1M"], check=True)
    for name, behind in (("top", "base"), ("clone", "top")):
        subprocess.run(
            [
                "qemu-img",
                "create",
                "-q",
                "-f",
                "qcow2",
                "-b",
                paths[behind],
                "-F",
                "qcow2",
                paths[name],
            ],
            check=True,
        )
    library = str(tmp_path / "vm.iso")
    mine = str(tmp_path / f"vm-{UUID[:8]}-seed.iso")
    for path in (library, mine):
        open(path, "w", encoding="utf-8").close()

    def disk(path, target, device="disk", more=""):
        return (
            f"<disk type='file' device='{device}'><source file='{path}'/><target"
            f" dev='{target}'/>{more}</disk>"
        )

    devices = disk(paths["own"], "vda") + disk(paths["base"], "vdb") + disk(paths["far"], "vdc")
    devices += disk(library, "hdc", "cdrom", "<readonly/>") + disk(
        mine, "hdd", "cdrom", "<readonly/>"
    )
    uri, connection = fake_host(
        domain_xml("vm", 7, devices=devices),
        domain_xml("other", 8, devices=disk(paths["clone"], "vda")),
    )
    arguments = {
        "uri": uri,
        "uuid": UUID,
        "state": "absent",
        "remove_disks": True,
        "used_elsewhere": [paths["far"]],
    }
    told = run_module("domain", check_mode=True, **arguments)
    done = run_module("domain", **arguments)
    assert told["removed_disks"] == done["removed_disks"] == [paths["own"], mine]
    assert {each["path"]: each["reason"] for each in done["kept_disks"]} == {
        paths["base"]: "the domain other uses it",
        paths["far"]: "a domain of another hypervisor uses it",
        library: "it is read-only and its name does not say that it is this instance's",
    }
    assert sorted(os.listdir(tmp_path)) == sorted(
        ["node0.xml", "vm.iso", *(f"{name}.qcow2" for name in ("base", "far", "top", "clone"))]
    )


def facts(vcpus, memory_mb, cpu, pages=()):
    return {
        "vcpu_pins": {str(vcpu): [cpu + vcpu] for vcpu in range(vcpus)},
        "emulator_pins": list(range(cpu, cpu + vcpus)),
        "memory": {"mode": "strict", "nodes": [0]},
        "cells": [
            {
                "id": 0,
                "cpus": list(range(vcpus)),
                "memory_mb": memory_mb,
                "mode": "strict",
                "nodes": [0],
            }
        ],
        "pages": [{"size_kb": size, "cells": [0]} for size in pages],
    }


def shown(domain):
    return {
        key: domain["numa"][key]
        for key in ("vcpu_pins", "emulator_pins", "memory", "cells", "pages")
    }


def test_the_new_size_has_its_own_cells_and_pins_and_the_old_one_gets_them_back(run_module, vm):
    uri, connection = vm
    old, new = facts(2, 64, 4), facts(4, 128, 8, pages=[2048])
    arguments = {"uri": uri, "uuid": UUID, "state": "stopped"}
    assert (
        shown(run_module("domain", **arguments, vcpus=2, memory_mb=64, numa=old)["domain"]) == old
    )
    larger = {**arguments, "vcpus": 4, "memory_mb": 128, "numa": new}
    dry_run = run_module("domain", check_mode=True, **larger)
    assert parse_shown(connection)["vcpu_pins"] == old["vcpu_pins"]
    done = run_module("domain", **larger)
    assert shown(dry_run["domain"]) == shown(done["domain"]) == new
    assert (done["domain"]["vcpus"], done["domain"]["memory_mb"]) == (4, 128)
    assert run_module("domain", **larger)["changed"] is False
    assert (
        shown(run_module("domain", **arguments, vcpus=2, memory_mb=64, numa=old)["domain"]) == old
    )
    # A size without cells has no pins.
    floating = run_module("domain", **arguments, vcpus=2, memory_mb=64, numa={})
    assert (floating["changed"], floating["domain"]["numa"]) == (True, None)
    assert run_module("domain", **arguments, vcpus=2, memory_mb=64, numa={})["changed"] is False


def parse_shown(connection):
    from ansible_collections.drover.compute.plugins.module_utils._domain.numa import parse_numa
    from ansible_collections.drover.compute.plugins.module_utils._libvirt.xml import parse

    return parse_numa(parse(connection.lookupByName("vm").XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)))
