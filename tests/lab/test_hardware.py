# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hardware of definitions, checked in running domains, and its state after moves and
removals.
"""

from __future__ import annotations

import json
import shlex
import xml.etree.ElementTree as ET

import pytest
from test_evacuate import OFF, die, discover, evacuate, living
from test_fleet import LOCAL

pytest_plugins = ["test_fleet"]

NVRAM = "/var/lib/libvirt/qemu/nvram"
SWTPM = "/var/lib/libvirt/swtpm"
ISO = "/srv/shared/images/drivers.iso"
PASSWORD = "Kn0ck-3x"
NO_PASSWORD, VNC_AUTHENTICATION = 1, 2

FULL = {
    "name": "full",
    "memory_mb": 192,
    "vcpus": 2,
    "firmware": "uefi-secure-boot",
    "tpm": {"version": "2.0", "model": "tpm-crb"},
    "machine": "pc-q35-7.2",
    "cpu": {"mode": "custom", "model": "qemu64", "features": {"svm": "disable"}},
    "graphics": {"type": "vnc", "password_variable": "console_password"},
    "video": {"model": "vga", "vram_mb": 16},
    "console": {"serial_ports": 2, "log": True},
    "guest_agent": True,
    "watchdog": {"action": "reset"},
    "rng": {"rate_bytes": 2048, "rate_period": 500},
    "boot": ["network", "hd"],
    "boot_menu": True,
    "input_bus": "usb",
    "cdroms": [{"path": ISO}, {"bus": "scsi"}],
    "cloud_init": {"user_data": "#cloud-config"},
    "disks": [
        {
            "size_gb": 1,
            "cache": "directsync",
            "io": "native",
            "discard": "ignore",
            "serial": "FULL-1",
            "iotune": {"read_iops_sec": 500},
        },
        {"size_gb": 1, "bus": "scsi"},
        {"size_gb": 1, "bus": "usb"},
        {"size_gb": 1, "bus": "sata"},
    ],
    "networks": [
        {"bridge": "br0", "mac": "52:54:00:ab:cd:01", "mtu": 1400, "queues": 2},
        {"bridge": "br0", "model": "e1000e"},
    ],
}
#: The path in the domain, an attribute of it (None for the text), and its values in order.
SEEN = [
    ("os/type", "machine", ["pc-q35-7.2"]),
    ("os/firmware/feature[@name='secure-boot']", "enabled", ["yes"]),
    ("os/loader", "secure", ["yes"]),
    ("features/smm", "state", ["on"]),
    ("devices/tpm", "model", ["tpm-crb"]),
    ("devices/tpm/backend", "version", ["2.0"]),
    ("cpu/model", None, ["qemu64"]),
    ("cpu/feature[@name='svm']", "policy", ["disable"]),
    ("devices/graphics", "type", ["vnc"]),
    ("devices/graphics", "listen", ["127.0.0.1"]),
    ("devices/video/model", "type", ["vga"]),
    ("devices/video/model", "vram", ["16384"]),
    ("devices/serial/target", "port", ["0", "1"]),
    ("devices/channel/target", "name", ["org.qemu.guest_agent.0"]),
    ("devices/watchdog[@action='reset']", "model", ["i6300esb"]),
    ("devices/rng/rate", "bytes", ["2048"]),
    ("devices/rng/rate", "period", ["500"]),
    ("os/boot", "dev", ["network", "hd"]),
    ("os/bootmenu", "enable", ["yes"]),
    ("devices/input[@bus='usb']", "type", ["tablet", "keyboard"]),
    ("devices/disk[@device='cdrom']/target", "bus", ["sata", "sata", "scsi"]),
    ("devices/disk[@device='disk']/target", "bus", ["virtio", "scsi", "usb", "sata"]),
    ("devices/controller[@type='scsi']", "model", ["virtio-scsi"]),
    ("devices/disk[@device='disk']/driver", "cache", ["directsync", "none", "none", "none"]),
    ("devices/disk[@device='disk']/driver", "discard", ["ignore", "unmap", "unmap", "unmap"]),
    ("devices/disk/driver[@io]", "io", ["native"]),
    ("devices/disk/serial", None, ["FULL-1"]),
    ("devices/disk/iotune/read_iops_sec", None, ["500"]),
    ("devices/interface/mtu", "size", ["1400"]),
    ("devices/interface/driver", "queues", ["2"]),
    ("devices/interface/model", "type", ["virtio", "e1000e"]),
]
OLD = {
    "name": "old",
    "memory_mb": 64,
    "machine": "pc",
    "firmware": "bios",
    "tpm": {"version": "1.2"},
    "graphics": {"type": "spice", "listen": "0.0.0.0"},
    "video": {"model": "qxl"},
    "input_bus": "virtio",
    "rng": False,
    "cdroms": [{}],
    "watchdog": {"action": "pause", "model": "ib700"},
    "disks": [{"size_gb": 1, "bus": "ide"}],
}
OLD_SEEN = [
    ("os/type", "machine", ["pc-i440fx-7.2"]),
    ("os/loader", "type", []),
    ("devices/tpm", "model", ["tpm-tis"]),
    ("devices/tpm/backend", "version", ["1.2"]),
    ("devices/graphics", "type", ["spice"]),
    ("devices/graphics", "listen", ["0.0.0.0"]),
    ("devices/video/model", "type", ["qxl"]),
    ("devices/input[@bus='virtio']", "type", ["tablet", "keyboard"]),
    ("devices/rng", "model", []),
    ("devices/disk/target", "bus", ["ide", "ide"]),
    ("devices/watchdog", "model", ["ib700"]),
]
UEFI = {
    "name": "uefi",
    "memory_mb": 128,
    "firmware": "uefi",
    "disks": [{"size_gb": 1}],
    "console": {"log": True},
}

#: Run on a host: the kinds of authentication that the VNC server of a domain offers.
KNOCK = """
import socket, subprocess, sys
display = subprocess.run(["virsh", "vncdisplay", sys.argv[1]], capture_output=True, text=True, check=True).stdout.strip()
with socket.create_connection((display.partition(":")[0], 5900 + int(display.rpartition(":")[2])), 10) as server:
    server.recv(12)
    server.sendall(b"RFB 003.008\\n")
    count = server.recv(1)[0]
    print(*server.recv(count))
"""


def live(fleet, name, flags=""):
    """Return the domain as it runs, and its host."""
    host, _state = fleet.where()[name]
    return ET.fromstring(fleet.run(host, f"virsh dumpxml {flags} {name}")), host


def see(root, expected):
    for path, attribute, values in expected:
        texts = [
            element.text if attribute is None else element.get(attribute)
            for element in root.findall(path)
        ]
        # libvirt sorts devices by their buses.
        order = sorted if path.startswith("devices/") else list
        assert order(texts) == order(values), (
            f"{path}: {texts}\n{ET.tostring(root, encoding='unicode')}"
        )


def exists(fleet, host, path):
    return fleet.lab.host(host).file(path).exists


def knock(fleet, host, name):
    return {
        int(each)
        for each in fleet.run(host, f"/usr/bin/python3 -c {shlex.quote(KNOCK)} {name}").split()
    }


def fill(fleet):
    fleet.run("kvm1", f"head -c 400K /dev/zero > {ISO}")


@pytest.mark.long
def test_each_key_is_in_a_domain_that_runs(fleet):
    """Check also that the password of the console is with libvirt of the host, and in no other
    place."""
    fill(fleet)
    said = fleet.refused("place", "-e", json.dumps({"drover_instance_definitions": [FULL]}))
    assert "Not set, or empty: console_password." in said and fleet.where() == {}
    vault = fleet.folder / "vault.yml"
    vault.write_text(f"console_password: {PASSWORD}\n", encoding="utf-8")
    foretold = fleet.place([FULL, OLD], "-e", f"@{vault}", "--check", "--diff", "-vvv")
    done = fleet.place([FULL, OLD], "-e", f"@{vault}", "--diff", "-vvv")
    root, host = live(fleet, "full", "--security-info")
    see(root, SEEN)
    see(live(fleet, "old")[0], OLD_SEEN)
    # The guest runs on the firmware that libvirt has chosen.
    assert "secboot" in root.findtext("os/loader") or ".ms." in root.findtext("os/loader")
    uuid = root.findtext("uuid")
    assert root.find("devices/serial/log").get("file").endswith(f"/{uuid}-console.log")
    assert exists(fleet, host, root.find("devices/serial/log").get("file"))
    assert root.find("devices/graphics").get("passwd") == PASSWORD
    assert knock(fleet, host, "full") == {VNC_AUTHENTICATION}
    fleet.playbook("discover")
    for text in (done.stdout, done.stderr, foretold.stdout, foretold.stderr):
        assert PASSWORD not in text
    assert not [
        path for path in fleet.folder.glob("store.db*") if PASSWORD.encode() in path.read_bytes()
    ]
    assert fleet.run(host, f"grep -rl {PASSWORD} /var/log /tmp /root/.ansible || true") == ""
    assert fleet.query("SELECT count(*) FROM instances") == [(2,)]


@pytest.mark.long
def test_removed_with_all_that_is_its_own(fleet):
    """Off or running: UEFI variables, the state of the TPM, the log of the console are removed;
    files of other guests stay."""
    secure = {
        **UEFI,
        "name": "secure",
        "memory_mb": 192,
        "firmware": "uefi-secure-boot",
        "tpm": {"version": "2.0"},
    }
    fleet.place([UEFI, secure])
    where, files = fleet.where(), {}
    for name, (host, _state) in where.items():
        root = live(fleet, name)[0]
        files[name] = [
            f"{NVRAM}/{name}_VARS.fd",
            root.find("devices/serial/log").get("file"),
            root.find("devices/disk/source").get("file"),
        ]
        assert all(exists(fleet, host, path) for path in files[name])
        fleet.run(host, f"touch {NVRAM}/other_VARS.fd")
    state = f"{SWTPM}/{live(fleet, 'secure')[0].findtext('uuid')}"
    assert exists(fleet, where["secure"][0], state)
    fleet.run(where["uefi"][0], "virsh destroy uefi")
    for name, (host, _state) in where.items():
        fleet.playbook(
            "instance_delete",
            "-e",
            f"drover_instance={name}",
            "-e",
            "drover_instance_timeout=1",
            "-e",
            "drover_instance_force=true",
        )
        assert not [path for path in files[name] if exists(fleet, host, path)]
        assert exists(fleet, host, f"{NVRAM}/other_VARS.fd")
    assert not exists(fleet, where["secure"][0], state)
    assert fleet.where() == {}


@pytest.mark.long
def test_moved_with_all_that_is_its_own(fleet):
    """It moves live with its TPM, its UEFI variables and its password; it moves cold with its
    variables, and does not move cold with a TPM."""
    fill(fleet)
    variables = {"console_password": PASSWORD, "drover_instances_path": LOCAL}
    fleet.place([FULL, UEFI], **variables)
    where = fleet.where()
    to = {
        name: next(host for host in fleet.hosts if host != where[name][0] and host != "kvm2")
        for name in where
    }
    root = live(fleet, "full")[0]
    log = root.find("devices/serial/log").get("file")
    state = f"{SWTPM}/{root.findtext('uuid')}"

    fleet.playbook(
        "instance_migrate", "-e", "drover_instance=full", "-e", f"drover_destination={to['full']}"
    )
    after, host = live(fleet, "full", "--security-info")
    assert host == to["full"]
    # libvirt does not show the firmware features of a migrated domain; its definition has them for
    # the next start.
    firmware = "os/firmware/feature[@name='secure-boot']"
    see(after, [each for each in SEEN if each[0] != firmware])
    defined = ET.fromstring(fleet.run(host, "virsh dumpxml --inactive full"))
    see(defined, [each for each in SEEN if each[0] == firmware])
    assert defined.find("os").get("firmware") == "efi"
    assert after.find("devices/graphics").get("passwd") == PASSWORD and knock(
        fleet, host, "full"
    ) == {VNC_AUTHENTICATION}
    for path in (f"{NVRAM}/full_VARS.fd", state, log):
        assert exists(fleet, host, path) and not exists(fleet, where["full"][0], path), path

    # Off: the variables are copied byte by byte, as in their file.
    fleet.run(
        where["uefi"][0],
        f"virsh destroy uefi && printf marked | dd of={NVRAM}/uefi_VARS.fd conv=notrunc bs=1"
        " seek=100000 status=none",
    )
    fleet.run(host, "virsh destroy full")
    fleet.playbook("discover")
    digest = fleet.run(where["uefi"][0], f"sha256sum < {NVRAM}/uefi_VARS.fd")
    fleet.playbook(
        "instance_migrate", "-e", "drover_instance=uefi", "-e", f"drover_destination={to['uefi']}"
    )
    assert fleet.where()["uefi"] == (to["uefi"], "shutoff")
    assert fleet.run(to["uefi"], f"sha256sum < {NVRAM}/uefi_VARS.fd") == digest
    assert not exists(fleet, where["uefi"][0], f"{NVRAM}/uefi_VARS.fd")
    fleet.playbook("instance_start", "-e", "drover_instance=uefi")
    assert fleet.settled()["uefi"][1] == "running"
    refusal = fleet.refused(
        "instance_migrate",
        "-e",
        "drover_instance=full",
        "-e",
        f"drover_destination={where['full'][0]}",
    )
    assert (
        "its emulated TPM keeps its state in a folder of this host, which a cold move does not take"
        " along" in refusal
    )
    assert fleet.where()["full"] == (host, "shutoff")


@pytest.mark.long
def test_what_a_host_does_not_have_is_refused_before_anything_is_made(fleet):
    """The build goes to the next alternate; if no host has it, nothing is left."""
    # libvirt caches the capabilities of a machine type until its end.
    restart = "/etc/init.d/libvirtd restart"
    hide = f"mkdir -p /run/empty && mount --bind /run/empty /usr/share/qemu/firmware && {restart}"
    fleet.everywhere(hide, ["kvm1", "kvm3"])
    try:
        done = fleet.place([UEFI])
        assert fleet.where() == {"uefi": ("kvm2", "running")}
        fleet.playbook(
            "instance_delete",
            "-e",
            "drover_instance=uefi",
            "-e",
            "drover_instance_timeout=1",
            "-e",
            "drover_instance_force=true",
        )
        assert done.returncode == 0
        fleet.everywhere(hide, ["kvm2"])
        refusal = fleet.refused("place", "-e", json.dumps({"drover_instance_definitions": [UEFI]}))
        assert "has no firmware efi; it has bios: install UEFI firmware there" in refusal
    finally:
        fleet.everywhere(f"umount /usr/share/qemu/firmware; {restart}")
    files = {host: fleet.files(LOCAL, host) for host in fleet.hosts}
    for hardware, words in (
        ({"machine": "pc-q35-99"}, "cannot run its machine pc-q35-99"),
        ({"cpu": {"model": "Pentium-9"}}, "has no CPU model Pentium-9"),
        (
            {"networks": [{"bridge": "br0", "vlan": {"tag": 7}}]},
            "has no VLANs on a bridge of Linux",
        ),
    ):
        refusal = fleet.refused(
            "place",
            "--check",
            "-e",
            json.dumps(
                {"drover_instance_definitions": [{"name": "no", "memory_mb": 64, **hardware}]}
            ),
        )
        assert words in refusal, refusal
        refusal = fleet.refused(
            "place",
            "-e",
            json.dumps(
                {"drover_instance_definitions": [{"name": "no", "memory_mb": 64, **hardware}]}
            ),
        )
        assert words in refusal and "no alternate is left" in refusal, refusal
    assert fleet.where() == {} and {host: fleet.files(LOCAL, host) for host in fleet.hosts} == files
    assert fleet.booked() == {}


@pytest.mark.long
def test_started_anew_on_another_host_nobody_looks_on(fleet):
    """The store has no password, so after an evacuation the console is locked, not open."""
    fleet.place(
        [{**UEFI, "graphics": {"type": "vnc", "password_variable": "console_password"}}],
        console_password=PASSWORD,
    )
    host, _state = fleet.where()["uefi"]
    text = fleet.query("SELECT xml FROM domains")[0][0]
    assert "graphics" in text and "passwd" not in text and "graphics_password_variable" in text
    order = {
        "uuid": ET.fromstring(text).findtext("uuid"),
        "name": "uefi",
        "xml": text,
        "running": True,
        "autostart": False,
        "files": [],
        "images": [],
    }
    fleet.run(host, "virsh destroy uefi && virsh undefine uefi --nvram")
    play = fleet.folder / "restart.yml"
    task = {"drover.compute._domain_restart": {"instances": [order]}}
    play.write_text(
        json.dumps([{"hosts": host, "gather_facts": False, "tasks": [task]}]), encoding="utf-8"
    )
    fleet.lab.playbook(str(play), store_url=fleet.store_url)
    assert knock(fleet, host, "uefi") == {VNC_AUTHENTICATION}
    assert PASSWORD not in fleet.run(host, "virsh dumpxml --security-info uefi")


@pytest.mark.long
def test_evacuated_with_secure_boot_and_consoles(fleet):
    """Only the disks of the guests were on shared storage: Secure Boot stays, with new variables,
    and the console that had a password is locked."""
    placement = {"requested_destination": {"host": "kvm1"}}
    console = {"type": "vnc", "password_variable": "console_password"}
    secure = {
        **UEFI,
        **placement,
        "name": "secure",
        "memory_mb": 192,
        "firmware": "uefi-secure-boot",
        "graphics": console,
    }
    opened = {
        **placement,
        "name": "open",
        "memory_mb": 64,
        "disks": [{"size_gb": 1}],
        "graphics": {"type": "vnc"},
    }
    fleet.place([secure, opened], console_password=PASSWORD)
    discover(fleet)
    assert knock(fleet, "kvm1", "secure") == {VNC_AUTHENTICATION} and knock(
        fleet, "kvm1", "open"
    ) == {NO_PASSWORD}
    die(fleet)
    evacuate(fleet, **OFF)
    where = living(fleet)
    assert {name: state for name, (_host, state) in where.items()} == {
        "secure": "running",
        "open": "running",
    }
    assert knock(fleet, where["secure"][0], "secure") == {VNC_AUTHENTICATION} and knock(
        fleet, where["open"][0], "open"
    ) == {NO_PASSWORD}
    host = where["secure"][0]
    root = ET.fromstring(fleet.run(host, "virsh dumpxml --security-info secure"))
    see(
        root,
        [
            each
            for each in SEEN
            if each[0] in ("os/firmware/feature[@name='secure-boot']", "os/loader", "features/smm")
        ],
    )
    assert root.find("devices/graphics").get("passwd") not in (None, "", PASSWORD) and exists(
        fleet, host, f"{NVRAM}/secure_VARS.fd"
    )
    fleet.lab.command("start", "kvm1")
    discover(fleet)
    assert fleet.settled() == where
    for name in where:
        fleet.delete(name)
    assert fleet.settled() == {} and not exists(fleet, host, f"{NVRAM}/secure_VARS.fd")
