# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Module ``hypervisor_info`` on libvirt's test driver."""

from __future__ import annotations

import collections
import os
import shutil
import socket
import subprocess
import time
import types
import xml.etree.ElementTree as ET

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._migration import reach
from ansible_collections.drover.compute.tests.unit.module_utils.images import disk, qemu_img

DRIVER_PREFIX = "vir"


def test_the_facts_are_those_of_the_contract(run_module, default_host):
    result = run_module("hypervisor_info", uri="test:///default")
    assert result["changed"] is False
    host = result["hypervisor"]
    assert set(host) == {
        "uri",
        "hypervisor_hostname",
        "hypervisor_type",
        "hypervisor_version",
        "libvirt_version",
        "host_uuid",
        "boot_id",
        "firmware_uuid",
        "reboot_sign",
        "cpu",
        "machine_id",
        "memory_mb",
        "memory_used_mb",
        "numa_cells",
        "storage",
        "system_uuid",
        "pools",
        "networks",
        "supported_instances",
        "guest_hardware",
        "host_model",
        "pci_devices",
        "mdev_types",
        "mdev_devices",
        "domains",
        "mounts",
        "addresses",
        "block_devices",
        "images",
        "untold_domains",
        "missing_drivers",
        "missing_pool_types",
    }
    assert host["hypervisor_type"] == "TEST"
    assert host["memory_mb"] == 3072
    # The test driver has CPUs 0, 2 and 4 online of eight.
    assert host["cpu"]["online"] == [0, 2, 4]
    assert host["cpu"]["count"] == 3
    assert [cell["memory_mb"] for cell in host["numa_cells"]] == [2048, 4096]
    cpu = host["numa_cells"][0]["cpus"][1]
    # A newer libvirt names clusters.
    assert cpu.pop("cluster") in (None, 0)
    assert cpu == {"id": 1, "socket": 0, "die": 0, "core": 1, "siblings": [1]}
    pages = host["numa_cells"][0]["pages"][0]
    # The test driver of a newer libvirt reports free pages.
    assert pages.pop("free") in (None, 7)
    assert pages == {"size_kb": 4, "count": 524288}
    assert ["i686", "test", "hvm"] in host["supported_instances"]
    assert [pool["path"] for pool in host["pools"]] == ["/default-pool"]
    assert host["networks"] == [
        {"name": "default", "uuid": host["networks"][0]["uuid"], "bridge": "virbr0", "active": True}
    ]
    domain = host["domains"][0]
    assert set(domain) == {
        "uuid",
        "name",
        "state",
        "vcpus",
        "memory_mb",
        "persistent",
        "autostart",
        "managed_save",
        "snapshots",
        "fixed_snapshots",
        "bindings",
        "disks",
        "running_disks",
        "other_files",
        "interfaces",
        "hostdevs",
        "numa",
        "next_start_cpus",
        "running_vcpus",
        "running_memory_mb",
        "metadata",
        "title",
        "xml",
    }
    assert (domain["name"], domain["state"], domain["vcpus"], domain["memory_mb"]) == (
        "test",
        "running",
        2,
        8192,
    )
    assert set(domain["disks"][0]) == {
        "target",
        "device",
        "bus",
        "type",
        "source",
        "format",
        "cache",
        "readonly",
        "shareable",
        "capacity_bytes",
        "allocation_bytes",
        "path",
        "real_path",
        "shared_id",
        "chain",
        "behind_on_network",
    }
    assert domain["interfaces"] == [
        {
            "mac": "aa:bb:cc:dd:ee:ff",
            "type": "network",
            "source": "default",
            "model": None,
            "target": "testnet0",
            "addresses": [],
        }
    ]


def test_names_with_odd_characters_and_metadata(run_module, domain_xml, fake_host):
    metadata = (
        "<metadata><drover:instance"
        " xmlns:drover='https://drover.compute/instance/1'><drover:project>a &amp;"
        " b</drover:project><drover:server_group>web</drover:server_group></drover:instance><x:other"
        " xmlns:x='urn:x'><x:project>no</x:project></x:other></metadata>"
    )
    uri, connection = fake_host(
        domain_xml("we &amp; &lt;you&gt; 'é' \u65e5\u672c", 1, extra=metadata),
        domain_xml("-dash {{ x }}", 2),
        domain_xml("  blanks  ", 3),
    )
    domains = {
        d["uuid"][-1]: d for d in run_module("hypervisor_info", uri=uri)["hypervisor"]["domains"]
    }
    assert domains["1"]["name"] == "we & <you> 'é' \u65e5\u672c"
    assert domains["1"]["metadata"] == {"project": "a & b", "server_group": "web"}
    assert domains["2"]["name"] == "-dash {{ x }}"
    assert domains["2"]["metadata"] == {}
    assert domains["3"]["name"] == connection.lookupByUUIDString(domains["3"]["uuid"]).name()


class Counter:
    """Count the calls that reach libvirt's C library, by name."""

    def __init__(self, monkeypatch):
        self.calls = collections.Counter()
        real = libvirt.libvirtmod

        def counted(name):
            target = getattr(real, name)
            if not name.startswith(DRIVER_PREFIX) or isinstance(target, int):
                return target

            def call(*args):
                self.calls[name] += 1
                return target(*args)

            return call

        fake = types.SimpleNamespace(
            **{name: counted(name) for name in dir(real) if not name.startswith("__")}
        )
        monkeypatch.setattr(libvirt, "libvirtmod", fake)


def test_the_number_of_calls_does_not_grow_with_the_domains(
    run_module, domain_xml, fake_host, monkeypatch
):
    few, dummy = fake_host(*[domain_xml(f"vm{i}", i) for i in range(2)])
    many, dummy = fake_host(*[domain_xml(f"vm{i}", i) for i in range(40)])
    with monkeypatch.context() as patch:
        counter = Counter(patch)
        run_module("hypervisor_info", uri=few)
        small = +counter.calls
        counter.calls.clear()
        assert len(run_module("hypervisor_info", uri=many)["hypervisor"]["domains"]) == 40
        large = +counter.calls
    for calls in (small, large):
        # These read objects that libvirt has already returned, without a call to the hypervisor.
        # Python frees some of them later.
        for name in [each for each in calls if each.endswith("Free")]:
            del calls[name]
        for name in (
            "virDomainGetName",
            "virDomainGetUUIDString",
            "virDomainRef",
            "virGetLastError",
        ):
            calls.pop(name, None)
    # There is no bulk call for the XML: one call for each running domain's live form, and one for
    # its definition.
    assert small.pop("virDomainGetXMLDesc") == 4
    assert large.pop("virDomainGetXMLDesc") == 80
    assert small == large


PINS = "<cputune><vcpupin vcpu='0' cpuset='3'/></cputune>"


def test_pins_and_devices_of_the_running_guest_count(
    run_module, domain_xml, fake_host, monkeypatch
):
    """The test driver's two forms are one, so the running one is changed here as virsh
    vcpupin --live and attach-device --live do.
    """
    uri, connection = fake_host(domain_xml("vm1", 1, extra=PINS), domain_xml("off", 2, extra=PINS))
    connection.lookupByName("off").destroy()
    real = libvirt.virDomain.XMLDesc
    device = (
        "<hostdev mode='subsystem' type='mdev' model='vfio-pci'><source><address"
        " uuid='c2177883-f1bb-47f0-914d-32a22e3a8804'/></source></hostdev>"
    )

    def live(domain, flags=0):
        text = real(domain, flags)
        if not flags & libvirt.VIR_DOMAIN_XML_INACTIVE:
            text = text.replace("cpuset='3'", "cpuset='5'").replace(
                "</devices>", f"{device}</devices>"
            )
        return text

    monkeypatch.setattr(libvirt.virDomain, "XMLDesc", live)
    off, running = run_module("hypervisor_info", uri=uri)["hypervisor"]["domains"]
    assert (running["name"], running["numa"]["vcpu_pins"], off["numa"]["vcpu_pins"]) == (
        "vm1",
        {"0": [5]},
        {"0": [3]},
    )
    assert (running["next_start_cpus"], off["next_start_cpus"]) == ([3], [])
    assert running["hostdevs"] == [
        {"type": "mdev", "address": "c2177883-f1bb-47f0-914d-32a22e3a8804"}
    ]
    assert off["hostdevs"] == []
    # The next start is as the definition says.
    assert "cpuset='3'" in running["xml"]


def test_a_driver_without_bulk_statistics(run_module, domain_xml, fake_host, monkeypatch):
    uri, dummy = fake_host(domain_xml("vm1", 1), domain_xml("vm2", 2))

    def unsupported(self, *args):
        error = libvirt.libvirtError("this function is not supported by the connection driver")
        error.err = (libvirt.VIR_ERR_NO_SUPPORT, 0, "not supported", 0, None, None, None, 0, 0)
        raise error

    monkeypatch.setattr(libvirt.virConnect, "getAllDomainStats", unsupported)
    assert [
        d["state"] for d in run_module("hypervisor_info", uri=uri)["hypervisor"]["domains"]
    ] == ["running", "running"]


def test_a_domain_that_vanishes_while_it_is_read_is_left_out(
    run_module, domain_xml, fake_host, monkeypatch
):
    uri, connection = fake_host(domain_xml("vm1", 1), domain_xml("gone", 2), domain_xml("vm3", 3))
    real = libvirt.virDomain.XMLDesc

    def vanish(self, flags=0):
        if self.name() == "gone":
            victim = connection.lookupByName("gone")
            victim.destroy()
            victim.undefine()
        return real(self, flags)

    monkeypatch.setattr(libvirt.virDomain, "XMLDesc", vanish)
    assert [d["name"] for d in run_module("hypervisor_info", uri=uri)["hypervisor"]["domains"]] == [
        "vm1",
        "vm3",
    ]


def test_all_files_of_a_domain_are_told(run_module, domain_xml, fake_host, monkeypatch, tmp_path):
    """The module reports files that are not disks, and files that only the running domain, its
    snapshots or its saved memory have."""
    base, hot = qemu_img(tmp_path / "base.qcow2"), str(tmp_path / "hot.qcow2")
    qemu_img(hot, backing=base)
    for name in ("vda", "vars", "log"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "state").mkdir()
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(str(tmp_path / "sock"))
    sock.close()
    serial = "".join(
        f"<serial type='{kind}'><source {mode}path='{tmp_path}/{name}'/><target"
        f" port='{number}'/></serial>"
        for number, (kind, mode, name) in enumerate(
            (
                ("file", "", "log"),
                ("unix", "mode='bind' ", "sock"),
                ("file", "", "none"),
                ("file", "", "state"),
            )
        )
    )
    devices = (
        disk(tmp_path / "vda", kind="raw")
        + f"<filesystem type='mount'><source dir='{tmp_path}'/><target dir='x'/></filesystem>"
        + serial
    )
    text = domain_xml("vm", 1, devices=devices).replace(
        "<os><type>hvm</type>",
        "<os><type>hvm</type><loader readonly='yes'"
        f" type='pflash'>/usr/share/code.fd</loader><nvram>{tmp_path}/vars</nvram>",
    )
    uri, connection = fake_host(text)
    real = libvirt.virDomain.XMLDesc

    def describe(domain, flags=0):
        live = "" if flags else disk(hot, "vdb")
        return real(domain, flags).replace("</devices>", f"{live}</devices>")

    monkeypatch.setattr(libvirt.virDomain, "XMLDesc", describe)
    (facts,) = run_module("hypervisor_info", uri=uri)["hypervisor"]["domains"]
    assert [each["source"] for each in facts["disks"]] == [str(tmp_path / "vda")]
    assert [(each["path"], each["only"]) for each in facts["running_disks"]] == [(hot, "running")]
    files = {
        os.path.relpath(each["path"], tmp_path): (each["type"], each["written"])
        for each in facts["other_files"]
    }
    assert files == {
        ".": ("dir", True),
        "vars": ("file", True),
        "log": ("file", True),
        "none": ("file", True),
        "state": ("dir", True),
        "hot.qcow2": ("file", True),
    }
    (live,) = [each for each in facts["other_files"] if each["path"] == hot]
    assert live["real_path"] == hot and [layer["path"] for layer in live["chain"]] == [base]

    domain = connection.lookupByName("vm")
    domain.destroy()
    (facts,) = run_module("hypervisor_info", uri=uri)["hypervisor"]["domains"]
    assert hot not in [each["path"] for each in facts["other_files"]]
    # The files of the saved memory's definition, and an unreadable one.
    domain.create()
    domain.managedSave(0)
    saved = real(domain, 0).replace("</devices>", f"{disk(hot, 'vdb')}</devices>")
    monkeypatch.setattr(libvirt.virDomain, "managedSaveGetXMLDesc", lambda domain, flags=0: saved)
    (facts,) = run_module("hypervisor_info", uri=uri)["hypervisor"]["domains"]
    assert hot in [each["path"] for each in facts["other_files"]]

    def broken(domain, flags=0):
        raise libvirt.libvirtError("cannot read the image")

    monkeypatch.setattr(libvirt.virDomain, "managedSaveGetXMLDesc", broken)
    result = run_module("hypervisor_info", uri=uri)
    assert [each["name"] for each in result["hypervisor"]["domains"]] == ["vm"]
    assert "The files of the snapshots and of the saved memory of vm are not known" in str(
        result["warnings"]
    )


def test_flags_of_the_domains(run_module, domain_xml, fake_host):
    uri, connection = fake_host(domain_xml("a", 1), domain_xml("b", 2), domain_xml("c", 3))
    connection.lookupByName("a").setAutostart(1)
    connection.lookupByName("b").managedSave(0)
    connection.lookupByName("c").snapshotCreateXML(
        "<domainsnapshot><name>s</name></domainsnapshot>", 0
    )
    domains = {
        d["name"]: d for d in run_module("hypervisor_info", uri=uri)["hypervisor"]["domains"]
    }
    assert [domains[n]["autostart"] for n in "abc"] == [True, False, False]
    assert [domains[n]["managed_save"] for n in "abc"] == [False, True, False]
    assert [domains[n]["snapshots"] for n in "abc"] == [False, False, True]
    assert [domains[n]["fixed_snapshots"] for n in "abc"] == [[], [], ["s"]]
    assert domains["b"]["state"] == "shutoff"
    assert all(d["persistent"] for d in domains.values())


def test_disk_available_least_counts_what_images_may_still_grow(
    run_module, domain_xml, fake_host, tmp_path
):
    thin, raw = tmp_path / "thin.qcow2", tmp_path / "sparse.img"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(thin), "40G"], check=True)
    with open(raw, "wb") as handle:
        handle.truncate(20 * 2**30)
    devices = (
        "<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source"
        f" file='{thin}'/><target dev='vda'/></disk><disk type='file' device='disk'><driver"
        f" name='qemu' type='raw'/><source file='{raw}'/><target dev='vdb'/></disk><disk"
        f" type='file' device='cdrom'><source file='{raw}'/><target"
        " dev='hdc'/><readonly/></disk><disk type='block' device='disk'><source"
        " dev='/dev/nosuch'/><target dev='vdc'/></disk>"
    )
    uri, dummy = fake_host(domain_xml("vm", 1, devices=devices))
    host = run_module(
        "hypervisor_info", uri=uri, instances_path=str(tmp_path / "not" / "there" / "yet")
    )["hypervisor"]
    disks = {disk["target"]: disk for disk in host["domains"][0]["disks"]}
    assert disks["vda"]["capacity_bytes"] == 40 * 2**30
    assert disks["vda"]["allocation_bytes"] == os.stat(thin).st_blocks * 512
    assert disks["vdb"]["capacity_bytes"] == 20 * 2**30
    storage = host["storage"]
    info = os.statvfs(tmp_path)
    assert storage["total_gb"] == info.f_frsize * info.f_blocks // 2**30
    # 60 GiB less the few KiB of the qcow2 header, rounded down.
    assert storage["free_gb"] - storage["disk_available_least_gb"] in (59, 60)


@pytest.mark.parametrize(
    "uri, words",
    [
        ("qemu:///nosuch", "qemu:///nosuch"),
        ("foo:///system", "correct the URI"),
        (":::", "is not a libvirt URI"),
        ("http://[::1/system", "is not a libvirt URI"),
        # F19: an IPv6 address without brackets.
        (
            "qemu+ssh://root@fd00::20/system",
            "with an IPv6 address like qemu+ssh://root@[fd00::20]/system",
        ),
        ("test+tcp://127.0.0.1:1/default", "Start libvirtd on 127.0.0.1"),
    ],
)
def test_a_bad_uri_is_one_sentence(run_module, uri, words):
    result = run_module("hypervisor_info", uri=uri)
    assert result["rc"] == 1
    # A running libvirtd gets URIs that the library does not know, and only root may connect to it.
    assert words in result["msg"] or (
        os.geteuid() and "Permission denied. Run with become: true" in result["msg"]
    )
    assert "Traceback" not in result["msg"]


def test_the_missing_binding_is_named_with_its_package(run_module, no_binding):
    result = run_module("hypervisor_info", uri="test:///default")
    assert result["rc"] == 1
    assert "python3-libvirt" in result["msg"]
    assert os.uname().nodename in result["msg"]


def test_kvm_that_is_not_offered_is_not_probed(run_module, default_host):
    kvm = run_module("hypervisor_info", uri="test:///default", probe_kvm=True)["hypervisor"]["kvm"]
    assert (kvm["offered"], kvm["works"]) == (False, None)
    refused = run_module(
        "hypervisor_info", uri="test:///default", probe_kvm=True, probe_cpu={"mode": "fast"}
    )
    assert refused["rc"] == 1 and "mode" in refused["msg"]


def test_hosts_that_ssh_cannot_reach_are_a_warning(run_module, default_host, monkeypatch):
    peers = [
        {"host": "kvm2", "uri": "qemu+ssh://root@kvm2/system"},
        {"host": "kvm3", "uri": None},
        {"host": "kvm4", "uri": "qemu+tls://kvm4/system"},
    ]
    monkeypatch.setattr(reach, "_settings", lambda where: {"identityfile": ["/nowhere/id"]})
    answer = run_module(
        "hypervisor_info", uri="test:///default", migration_trust={"host": "kvm1", "peers": peers}
    )
    # Warnings of modules that ran before in this process are in the list too.
    (warning,) = [text for text in map(str, answer["warnings"]) if "cannot reach" in text]
    assert (
        "kvm1 cannot reach kvm2: no SSH key. Migrations from kvm1 to there will be refused; run the"
        " playbook drover.compute.migration_t" in warning
    )


def test_a_home_that_hangs_does_not_hold_up_the_reading(run_module, default_host, monkeypatch):
    monkeypatch.setattr(reach, "LOOK_TIMEOUT", 0.1)
    monkeypatch.setattr(reach, "look_at_all", lambda peers: time.sleep(5))
    answer = run_module(
        "hypervisor_info", uri="test:///default", migration_trust={"host": "kvm1", "peers": []}
    )
    assert answer["hypervisor"]["hypervisor_type"] == "TEST"
    assert "kvm1: it cannot be told whether its SSH reaches other hosts for migrations" in str(
        answer["warnings"]
    )


def test_what_is_free_in_a_folder_is_asked_of_its_file_system(
    run_module, fake_host, domain_xml, tmp_path
):
    """libvirt reports its last reading, which is older than later writes and removals of others."""
    uri, connection = fake_host(domain_xml("web", 1))
    for name, kind in (("fast", "dir"), ("gone", "dir"), ("off", "dir"), ("vms", "logical")):
        path, source = (
            tmp_path / name,
            (
                "<source><device path='/dev/sdz'/><name>vms</name></source>"
                if kind == "logical"
                else ""
            ),
        )
        if name != "gone":
            path.mkdir()
        pool = connection.storagePoolDefineXML(
            "<pool"
            f" type='{kind}'><name>{name}</name>{source}<target><path>{path}</path></target></pool>",
            0,
        )
        if name != "off":
            pool.create(0)
    free_gib = {pool.name(): pool.info()[3] / 2**30 for pool in connection.listAllStoragePools(0)}
    pools = {
        each["name"]: each["available_gb"]
        for each in run_module("hypervisor_info", uri=uri)["hypervisor"]["pools"]
    }
    free = shutil.disk_usage(tmp_path).free / 2**30
    assert abs(free_gib["fast"] - free) > 5, "or this proves nothing"
    assert abs(pools["fast"] - free) < 2
    assert {name: pools[name] for name in ("gone", "off", "vms")} == {
        name: round(free_gib[name], 2) for name in ("gone", "off", "vms")
    }


def test_f15_the_size_of_the_running_guest_is_told_too(
    run_module, domain_xml, fake_host, monkeypatch
):
    """libvirt counts memory devices in <memory>; here the running form is changed as virsh
    attach-device --live does.
    """
    uri, connection = fake_host(domain_xml("vm1", 1), domain_xml("off", 2))
    connection.lookupByName("off").destroy()
    real = libvirt.virDomain.XMLDesc

    def live(domain, flags=0):
        root = ET.fromstring(real(domain, flags))
        if not flags & libvirt.VIR_DOMAIN_XML_INACTIVE:
            root.find("memory").text = str(int(root.find("memory").text) + 1024 * 1024)
            root.find("vcpu").text = "5"
        return ET.tostring(root, encoding="unicode")

    monkeypatch.setattr(libvirt.virDomain, "XMLDesc", live)
    off, running = run_module("hypervisor_info", uri=uri)["hypervisor"]["domains"]
    assert (
        running["running_memory_mb"] == running["memory_mb"] + 1024
        and running["running_vcpus"] == 5
    )
    assert (off["running_memory_mb"], off["running_vcpus"]) == (None, None)
