# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hardware of an instance: from each key of a definition to the XML, which libvirt checks by
its schema; and the effects of Nova's names."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import libvirt
import pytest
import yaml

from ansible_collections.drover.compute.plugins.filter._disk_layout import disk_layout
from ansible_collections.drover.compute.plugins.filter._guest import guest
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import (
    hardware,
    hardware_there,
)
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import (
    hardware_fields as known,
)
from ansible_collections.drover.compute.tests.unit import examples
from ansible_collections.drover.compute.tests.unit.domains import UUID, claim_of, rendered

AGENT = "devices/channel/target"


def accepted(text):
    """Return the XML as an element, after libvirt has checked it against its schema and accepted
    it."""
    connection = libvirt.open("test:///default")
    try:
        domain = connection.defineXMLFlags(
            re.sub("<domain type='[a-z]+'", "<domain type='test'", text),
            libvirt.VIR_DOMAIN_DEFINE_VALIDATE,
        )
        domain.undefine()
    finally:
        connection.close()
    return ET.fromstring(text)


def made(definition, seed=None, **more):
    """Return the domain of a definition."""
    return accepted(rendered(claim_of(definition, **more), seed))


#: For each key the part of the XML that its example makes: path -> attributes, or the text of the
#: element.
SEEN = {
    "firmware": {
        "os": {"firmware": "efi"},
        "os/firmware/feature": {"enabled": "no", "name": "secure-boot"},
    },
    "tpm": {
        "devices/tpm": {"model": "tpm-crb"},
        "devices/tpm/backend": {"type": "emulator", "version": "2.0"},
    },
    "machine": {"os/type": {"machine": "pc-q35-7.2"}},
    "os_type": {
        "clock": {"offset": "localtime"},
        "clock/timer[@name='hypervclock']": {"present": "yes"},
        "features/hyperv/relaxed": {"state": "on"},
        "features/hyperv/vapic": {"state": "on"},
        "features/hyperv/spinlocks": {"state": "on", "retries": "8191"},
    },
    "cpu": {"cpu": {"mode": "host-model"}, "cpu/feature": {"policy": "require", "name": "pcid"}},
    "graphics": {
        "devices/graphics": {"type": "vnc", "listen": "127.0.0.1", "autoport": "yes"},
        "devices/video/model": {"type": "virtio"},
    },
    "video": {"devices/video/model": {"type": "vga", "vram": "16384"}},
    "console": {
        "devices/serial/log": {
            "file": f"/var/lib/libvirt/images/{UUID}-console.log",
            "append": "on",
        }
    },
    "guest_agent": {
        "devices/channel": {"type": "unix"},
        AGENT: {"type": "virtio", "name": "org.qemu.guest_agent.0"},
    },
    "watchdog": {"devices/watchdog": {"model": "i6300esb", "action": "reset"}},
    "rng": {
        "devices/rng/rate": {"bytes": "2048", "period": "1000"},
        "devices/rng/backend": "/dev/urandom",
    },
    "boot": {"os/boot": {"dev": "network"}, "os/boot[2]": {"dev": "hd"}},
    "boot_menu": {"os/bootmenu": {"enable": "yes"}},
    "input_bus": {
        "devices/input": {"type": "tablet", "bus": "usb"},
        "devices/input[2]": {"type": "keyboard", "bus": "usb"},
    },
    "cdroms": {
        "devices/disk/source": {"file": "/srv/isos/virtio-win.iso"},
        "devices/disk/target": {"dev": "sda", "bus": "sata"},
        "devices/disk[2]/target": {"dev": "sdb", "bus": "sata"},
    },
}
DISKS_SEEN = {
    "bus": {
        "devices/disk/target": {"dev": "sda", "bus": "scsi"},
        "devices/controller[@type='scsi']": {"model": "virtio-scsi"},
    },
    "cache": {"devices/disk/driver": {"cache": "none"}},
    "io": {"devices/disk/driver": {"io": "native", "cache": "none"}},
    "discard": {"devices/disk/driver": {"discard": "unmap"}},
    "serial": {"devices/disk/serial": "WD-WMAP9A966149"},
    "iotune": {"devices/disk/iotune/read_iops_sec": "500"},
}
NETWORKS_SEEN = {
    "mac": {"devices/interface/mac": {"address": "52:54:00:12:34:56"}},
    "model": {"devices/interface/model": {"type": "e1000e"}},
    "vlan": {"devices/interface/vlan/tag": {"id": "42"}},
    "mtu": {"devices/interface/mtu": {"size": "9000"}},
    "queues": {"devices/interface/driver": {"queues": "4"}},
    "openvswitch": {
        "devices/interface/virtualport": {"type": "openvswitch"},
        "devices/interface/virtualport/parameters": {"profileid": "web"},
    },
}


def see(root, expected):
    for path, values in expected.items():
        element = root.find(path)
        assert element is not None, f"{path} is not there:\n{ET.tostring(root, encoding='unicode')}"
        actual = (
            element.text if isinstance(values, str) else {key: element.get(key) for key in values}
        )
        assert actual == values, path


def test_each_key_of_the_tables_is_seen():
    assert (set(SEEN), set(DISKS_SEEN), set(NETWORKS_SEEN)) == (
        set(known.INSTANCE_FIELDS),
        set(known.DISK_FIELDS),
        set(known.NETWORK_FIELDS),
    )


@pytest.mark.parametrize("key", SEEN)
def test_an_example_of_an_instance_is_in_its_domain(key):
    see(made({key: known.INSTANCE_FIELDS[key].example}), SEEN[key])


@pytest.mark.parametrize("key", DISKS_SEEN)
def test_an_example_of_a_disk_is_in_its_domain(key):
    see(made({"disks": [{"size_gb": 1, key: known.DISK_FIELDS[key].example}]}), DISKS_SEEN[key])


@pytest.mark.parametrize("key", NETWORKS_SEEN)
def test_an_example_of_a_network_is_in_its_domain(key):
    see(
        made({"networks": [{"bridge": "br0", key: known.NETWORK_FIELDS[key].example}]}),
        NETWORKS_SEEN[key],
    )


def test_what_an_instance_gets_that_asks_for_nothing():
    root = made(
        {"disks": [{"size_gb": 1}], "networks": [{"network": "default"}]},
        seed={"path": "/images/seed.iso"},
    )
    assert root.find("os").attrib == {} and root.find("os/type").get("machine") == "q35"
    assert [each.get("dev") for each in root.findall("os/boot")] == ["hd"]
    assert [dict(each.attrib) for each in root.findall("devices/disk/target")] == [
        {"dev": "vda", "bus": "virtio"},
        {"dev": "sda", "bus": "sata"},
    ]
    assert root.find("devices/disk/driver").attrib == {
        "name": "qemu",
        "type": "qcow2",
        "cache": "none",
        "discard": "unmap",
    }
    assert (
        root.find("devices/interface/model").get("type") == "virtio"
        and root.find("devices/interface").get("type") == "network"
    )
    assert len(root.findall("devices/serial")) == 1 and root.find("devices/serial/log") is None
    assert root.find("devices/rng") is not None
    assert {each.get("type") for each in root.findall("devices/controller")} == {"pci"}
    for absent in ("tpm", "graphics", "video", "channel", "watchdog", "input"):
        assert root.find(f"devices/{absent}") is None, absent


def timers_of(root):
    return [dict(each.attrib) for each in root.findall("clock/timer")]


@pytest.mark.parametrize("machine", ["q35", "pc", "pc-q35-7.2", "pc-i440fx-7.2"])
def test_a_guest_of_x86_has_timers_that_keep_its_time(machine):
    """An HPET costs a guest processor time, and ticks that are lost make its clock late."""
    root = made({"machine": machine})
    assert root.find("clock").get("offset") == "utc" and timers_of(root) == [
        {"name": "rtc", "tickpolicy": "catchup"},
        {"name": "pit", "tickpolicy": "delay"},
        {"name": "hpet", "present": "no"},
    ]


@pytest.mark.parametrize("machine", ["q35", "pc"])
def test_a_guest_cannot_put_itself_to_sleep(machine):
    """A guest that sleeps is not moved, so one would keep a drain from its end."""
    root = made({"machine": machine})
    assert {each.tag: each.get("enabled") for each in root.findall("pm/*")} == {
        "suspend-to-mem": "no",
        "suspend-to-disk": "no",
    }


def ports_of(root):
    return [
        each.get("model")
        for each in root.findall("devices/controller[@type='pci']")
        if each.get("model") != "pcie-root"
    ]


def test_a_running_guest_with_q35_has_room_for_new_devices():
    """libvirt adds one free port by itself, so the second device was refused."""
    assert (
        ports_of(made({})) == ports_of(made({"machine": "pc-q35-7.2"})) == ["pcie-root-port"] * 14
    )
    assert ports_of(made({"machine": "pc"})) == []


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ({"graphics": {"type": "vnc"}}, ["tablet usb"]),
        ({"graphics": {"type": "spice"}, "machine": "pc"}, ["tablet usb"]),
        (
            {"graphics": {"type": "vnc"}, "input_bus": "virtio"},
            ["tablet virtio", "keyboard virtio"],
        ),
        ({}, []),
    ],
)
def test_the_pointer_of_a_graphical_console_is_where_the_person_points(definition, expected):
    """Without a tablet the guest has a mouse, and its pointer is never below that of the viewer."""
    root = made(definition)
    assert [
        f"{each.get('type')} {each.get('bus')}" for each in root.findall("devices/input")
    ] == expected


def test_spice_has_the_channel_of_its_agent():
    """Without it a guest has no clipboard, and not the size of the viewer's window."""
    agent = "devices/channel[@type='spicevmc']/target"
    root = made({"graphics": {"type": "spice"}})
    assert root.find(agent).attrib == {"type": "virtio", "name": "com.redhat.spice.0"}
    # VMware's port would have a second pointer, which fights that of the agent.
    assert root.find("features/vmport").get("state") == "off"
    root = made({"graphics": {"type": "vnc"}})
    assert root.find(agent) is None and root.find("features/vmport") is None


def test_other_machines_get_nothing_that_only_a_pc_has():
    root = ET.fromstring(rendered(claim_of({"graphics": {"type": "spice"}}, arch="aarch64")))
    for path in ("clock/timer", "pm", "features/vmport", "devices/controller[@type='pci']"):
        assert root.find(path) is None, path
    assert made({"machine": "microvm"}).find("pm") is None


@pytest.mark.parametrize(
    ("definition", "properties", "expected"),
    [
        ({}, {}, False),
        ({}, {"os_type": "Windows"}, True),
        ({}, {"os_type": "linux"}, False),
        ({}, {"os_type": "our-appliance"}, False),
        ({"os_type": "linux"}, {"os_type": "windows"}, False),
        ({"os_type": "windows"}, {}, True),
    ],
)
def test_windows_of_an_image_or_a_definition(definition, properties, expected):
    assert of({}, properties, definition)["windows"] is expected


def test_a_guest_with_windows_from_before_differs_only_if_its_definition_says_windows():
    """Images said windows before this had an effect."""
    root = made({})
    image = {**claim_of({}), "guest": {"image_properties": {"os_type": "windows"}}}
    assert hardware_there.differing(image, root, "web1") == []
    assert hardware_there.differing({**claim_of({}), "os_type": "windows"}, root, "web1") == [
        ("os_type", "linux", "windows")
    ]


@pytest.mark.parametrize("graphics", [{"type": "vnc"}, {"type": "spice"}])
def test_an_instance_from_before_does_not_differ(graphics):
    """The devices that nobody asks for are not compared with those of an instance that is there."""
    claim = claim_of({"graphics": graphics})
    root = made({"graphics": graphics})
    devices = root.find("devices")
    for each in devices.findall("input") + devices.findall("channel"):
        devices.remove(each)
    for each in devices.findall("controller[@type='pci']"):
        devices.remove(each)
    root.remove(root.find("clock"))
    root.remove(root.find("pm"))
    definition = {**claim, **claim["guest"]}
    assert hardware_there.differing(definition, root, "web1") == []


def test_all_at_once():
    """All keys in one definition fit together."""
    definition = {key: field.example for key, field in known.INSTANCE_FIELDS.items()}
    definition |= {
        "firmware": "uefi-secure-boot",
        "graphics": {"type": "spice", "listen": "0.0.0.0", "password_variable": "secret"},
    }
    definition["console"] = {"serial_ports": 4, "log": True}
    definition["disks"] = [
        {"size_gb": 1},
        {
            "size_gb": 1,
            "bus": "sata",
            "cache": "directsync",
            "io": "native",
            "iotune": {"total_iops_sec": 9, "read_bytes_sec": 8, "write_bytes_sec": 7},
        },
        {"size_gb": 1, "bus": "usb"},
    ]
    definition["networks"] = [
        {
            "bridge": "ovs",
            "openvswitch": True,
            "vlan": {"trunk": [7, 8], "native": 8},
            "mtu": 1400,
            "queues": 2,
        },
        {"network": "default", "model": "igb"},
    ]
    root = made(definition, seed={"path": "/images/seed.iso"})
    assert [(each.get("dev"), each.get("bus")) for each in root.findall("devices/disk/target")] == [
        ("vda", "virtio"),
        ("sda", "sata"),
        ("sdb", "usb"),
        ("sdc", "sata"),
        ("sdd", "sata"),
        ("sde", "sata"),
    ]
    # The names of files do not change.
    assert [each.get("file") for each in root.findall("devices/disk[@device='disk']/source")] == [
        f"/images/web1-5f0c6a3e-vd{letter}.qcow2" for letter in "abc"
    ]
    assert [dict(each.attrib) for each in root.findall("devices/interface/vlan/tag")] == [
        {"id": "7"},
        {"id": "8", "nativeMode": "untagged"},
    ]
    assert (
        root.find("devices/interface/vlan").get("trunk") == "yes"
        and root.find("devices/interface/virtualport/parameters") is None
    )
    assert [dict(each.attrib) for each in root.findall("os/firmware/feature")] == [
        {"enabled": "yes", "name": "secure-boot"},
        {"enabled": "yes", "name": "enrolled-keys"},
    ]
    assert root.find("features/smm").get("state") == "on"
    assert [each.get("port") for each in root.findall("devices/serial/target")] == [
        "0",
        "1",
        "2",
        "3",
    ]
    assert len(root.findall("devices/serial/log")) == 1
    # The name of the variable is with the domain; the password comes from the module that defines
    # it.
    assert root.find("devices/graphics").get("passwd") is None
    assert ET.tostring(root.find("metadata"), encoding="unicode").count(">secret<") == 1


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        (
            {"firmware": "efi"},
            "fleet.yml: instance web1: firmware must be bios, uefi or uefi-secure-boot, not 'efi'",
        ),
        ({"tpm": {"model": "tpm-crb"}}, "tpm: version is missing"),
        ({"tpm": {"version": "3.0"}}, "version must be 1.2 or 2.0"),
        ({"tpm": {"version": 2}}, "version must be 1.2 or 2.0, in quotes, not 2"),
        ({"tpm": {"version": "1.2", "model": "tpm-crb"}}, "tpm-crb exists with version 2.0 only"),
        ({"machine": "q35'/>"}, "machine must be a name of letters"),
        ({"cpu": {"features": {"vmx": "require"}}}, "cpu needs a mode"),
        (
            {"cpu": {"mode": "host-model", "features": {"vmx": "on"}}},
            "vmx must be force, require, optional, disable or forbid, not 'on'",
        ),
        ({"cpu": {"mode": "host-model", "features": {"<": "require"}}}, "names of CPU features"),
        ({"graphics": {}}, "graphics: type is missing"),
        ({"graphics": {"type": "rdp"}}, "type must be vnc or spice, not 'rdp'"),
        (
            {"graphics": {"type": "vnc", "password": "hunter2"}},
            "unknown key password (did you mean password_variable?)",
        ),
        (
            {"graphics": {"type": "vnc", "password_variable": "a b"}},
            "must be the name of a variable",
        ),
        (
            {"graphics": {"type": "vnc", "listen": "everywhere"}},
            "listen must be an IP address of the host",
        ),
        ({"video": {"model": "voodoo"}}, "model must be virtio, vga"),
        ({"video": {"model": "none", "vram_mb": 16}}, "none has no memory of its own"),
        ({"console": {"serial_ports": 5}}, "serial_ports must be a whole number from 1 to 4"),
        ({"guest_agent": "yes please"}, "guest_agent must be true or false"),
        ({"watchdog": {"action": "bark"}}, "action must be none, pause"),
        ({"rng": {"rate_period": 5}}, "rate_period goes with rate_bytes only"),
        ({"boot": ["hd", "hd"]}, "each kind of device once"),
        ({"boot": ["floppy"]}, "boot must be hd, cdrom or network, not 'floppy'"),
        ({"cdroms": [{"path": "virtio.iso"}]}, "cdrom 1: path must be absolute"),
        ({"disks": [{"size_gb": 1, "bus": "nvme"}]}, "disk 1: bus must be virtio, scsi"),
        (
            {"disks": [{"size_gb": 1, "io": "native", "cache": "writeback"}]},
            "disk 1: io native needs cache none or directsync, not writeback",
        ),
        (
            {"disks": [{"size_gb": 1, "bus": "ide"}]},
            "disk 1: the bus ide exists with the machine type pc only, and the machine is q35",
        ),
        (
            {"cdroms": [{"bus": "ide"}]},
            "CD-ROM drive 1: the bus ide exists with the machine type pc only",
        ),
        (
            {"firmware": "uefi-secure-boot", "machine": "pc"},
            "web1: Secure Boot needs the machine type q35, and the machine is pc",
        ),
        ({"disks": [{"size_gb": 1, "serial": "<x>"}]}, "serial must have 1 to 36 letters"),
        (
            {"disks": [{"size_gb": 1, "iotune": {"total_iops_sec": 1, "read_iops_sec": 1}}]},
            "total_iops_sec and read_iops_sec",
        ),
        ({"disks": [{"size_gb": 1, "iotune": {"iops": 1}}]}, "unknown key iops"),
        (
            {"networks": [{"bridge": "br0", "vlan": {"tag": 1, "trunk": [1]}}]},
            "network 1: vlan has either tag, one VLAN, or trunk",
        ),
        (
            {"networks": [{"bridge": "br0", "vlan": {"trunk": [1], "native": 2}}]},
            "native must be one of trunk",
        ),
        (
            {"networks": [{"bridge": "br0", "vlan": {"tag": 4096}}]},
            "tag must be a whole number from 0 to 4095",
        ),
        ({"networks": [{"bridge": "br0", "mac": "52:54:00"}]}, "mac must be a MAC address"),
        ({"networks": [{"bridge": "br0", "mac": "53:54:00:12:34:56"}]}, "is a multicast address"),
        (
            {"networks": [{"network": "default", "openvswitch": True}]},
            "openvswitch goes with bridge",
        ),
        (
            {"networks": [{"bridge": "br0", "model": "e1000", "queues": 4}]},
            "queues needs the model virtio, not e1000",
        ),
        (
            {"networks": [{"bridge": "br0", "openvswitch": {"interfaceid": "x"}}]},
            "interfaceid must be a uuid",
        ),
    ],
)
def test_nonsense_is_said(definition, words):
    with pytest.raises(DroverError) as caught:
        claim_of(definition)
    assert words in str(caught.value) and "hunter2" not in str(caught.value)


def test_a_version_without_quotes_is_understood():
    assert claim_of({"tpm": {"version": 2.0}})["guest"]["tpm"] == {"version": "2.0"}


def of(extra_specs=None, properties=None, definition=None, **more):
    return hardware.hardware(
        definition or {}, extra_specs, properties, where="Instance web1 on kvm1", **more
    )


UEFI = {"hw_firmware_type": "uefi"}
PLAIN = {"features": [{"name": "secure-boot", "enabled": False}], "smm": False}
SECURE = {
    "features": [
        {"name": "secure-boot", "enabled": True},
        {"name": "enrolled-keys", "enabled": True},
    ],
    "smm": True,
}


@pytest.mark.parametrize(
    ("key", "extra_specs", "properties", "definition", "expected"),
    [
        ("firmware", {}, {}, {}, None),
        ("firmware", {}, {"hw_firmware_type": "bios"}, {}, None),
        ("firmware", {}, UEFI, {}, PLAIN),
        ("firmware", {"os:secure_boot": "required"}, UEFI, {}, SECURE),
        ("firmware", {}, {**UEFI, "os_secure_boot": "required"}, {}, SECURE),
        ("firmware", {"os:secure_boot": "optional"}, UEFI, {}, {"features": [], "smm": True}),
        ("firmware", {"os:secure_boot": "disabled"}, UEFI, {}, PLAIN),
        ("firmware", {"os:secure_boot": "required"}, UEFI, {"firmware": "uefi"}, PLAIN),
        ("firmware", {"os:secure_boot": "required"}, UEFI, {"firmware": "bios"}, None),
        ("firmware", {}, {}, {"firmware": "uefi-secure-boot"}, SECURE),
        ("machine", {}, {"hw_machine_type": "pc"}, {}, "pc"),
        ("machine", {}, {"hw_machine_type": "pc"}, {"machine": "q35"}, "q35"),
        ("cdrom_bus", {}, {"hw_machine_type": "pc"}, {}, "ide"),
        ("cdrom_bus", {}, {"hw_machine_type": "pc-q35-7.2"}, {}, "sata"),
        ("cdrom_bus", {}, {"hw_cdrom_bus": "scsi"}, {}, "scsi"),
        ("disk_bus", {}, {"hw_disk_bus": "scsi"}, {}, "scsi"),
        ("scsi_model", {}, {"hw_scsi_model": "lsilogic"}, {}, "lsilogic"),
        ("tpm", {"hw:tpm_version": "2.0"}, {}, {}, {"version": "2.0", "model": "tpm-tis"}),
        (
            "tpm",
            {"hw:tpm_version": "2.0"},
            {"hw_tpm_model": "tpm-crb"},
            {},
            {"version": "2.0", "model": "tpm-crb"},
        ),
        (
            "tpm",
            {"hw:tpm_version": "1.2"},
            {"hw_tpm_version": "1.2"},
            {},
            {"version": "1.2", "model": "tpm-tis"},
        ),
        ("tpm", {"hw:tpm_model": "tpm-crb"}, {}, {}, None),
        (
            "tpm",
            {"hw:tpm_version": "1.2"},
            {},
            {"tpm": {"version": "2.0"}},
            {"version": "2.0", "model": "tpm-tis"},
        ),
        ("video", {}, {}, {}, None),
        ("video", {}, {}, {"graphics": {"type": "vnc"}}, {"model": "virtio", "vram_mb": None}),
        ("video", {}, {"hw_video_model": "qxl"}, {}, {"model": "qxl", "vram_mb": None}),
        (
            "video",
            {"hw_video:ram_max_mb": "64"},
            {"hw_video_model": "qxl", "hw_video_ram": 32},
            {},
            {"model": "qxl", "vram_mb": 32},
        ),
        (
            "video",
            {"hw_video:ram_max_mb": "64"},
            {"hw_video_model": "qxl"},
            {},
            {"model": "qxl", "vram_mb": None},
        ),
        ("guest_agent", {}, {"hw_qemu_guest_agent": "yes"}, {}, True),
        ("guest_agent", {}, {"hw_qemu_guest_agent": True}, {"guest_agent": False}, False),
        ("watchdog", {}, {}, {}, None),
        (
            "watchdog",
            {"hw:watchdog_action": "reset"},
            {},
            {},
            {"model": "i6300esb", "action": "reset"},
        ),
        (
            "watchdog",
            {"hw:watchdog_action": "reset"},
            {"hw_watchdog_action": "pause"},
            {},
            {"model": "i6300esb", "action": "pause"},
        ),
        ("watchdog", {"hw:watchdog_action": "reset"}, {"hw_watchdog_action": "disabled"}, {}, None),
        ("rng", {}, {}, {}, {"rate_bytes": None, "rate_period": None}),
        ("rng", {"hw_rng:allowed": "False"}, {"hw_rng_model": "virtio"}, {}, None),
        (
            "rng",
            {"hw_rng:allowed": "False"},
            {},
            {"rng": True},
            {"rate_bytes": None, "rate_period": None},
        ),
        (
            "rng",
            {"hw_rng:rate_bytes": "5", "hw_rng:rate_period": "7"},
            {},
            {},
            {"rate_bytes": 5, "rate_period": 7},
        ),
        ("rng", {}, {}, {"rng": False}, None),
        ("boot_menu", {"hw:boot_menu": "true"}, {}, {}, True),
        ("boot_menu", {"hw:boot_menu": "true"}, {"hw_boot_menu": "false"}, {}, False),
        ("serial_ports", {}, {}, {}, 1),
        ("serial_ports", {"hw:serial_port_count": "3"}, {}, {}, 3),
        ("serial_ports", {"hw:serial_port_count": "3"}, {"hw_serial_port_count": 2}, {}, 2),
        ("serial_ports", {}, {"hw_serial_port_count": 4}, {}, 4),
        ("inputs", {}, {"hw_pointer_model": "usbtablet"}, {}, [{"type": "tablet", "bus": "usb"}]),
        (
            "inputs",
            {},
            {"hw_input_bus": "virtio"},
            {},
            [{"type": "tablet", "bus": "virtio"}, {"type": "keyboard", "bus": "virtio"}],
        ),
        ("vif_model", {}, {"hw_vif_model": "VirtualE1000"}, {}, "e1000"),
        ("queues", {"hw:vif_multiqueue_enabled": "true"}, {}, {}, 4),
        ("queues", {}, {"hw_vif_multiqueue_enabled": True}, {}, 4),
        ("queues", {}, {}, {}, None),
        (
            "iotune",
            {"quota:disk_read_iops_sec": "100", "quota:disk_total_bytes_sec": "4096"},
            {},
            {},
            {"read_iops_sec": 100, "total_bytes_sec": 4096},
        ),
    ],
)
def test_what_flavor_image_and_definition_make(key, extra_specs, properties, definition, expected):
    assert of(extra_specs, properties, definition, vcpus=4)[key] == expected


@pytest.mark.parametrize(
    ("extra_specs", "properties", "words"),
    [
        (
            {"hw:tpm_version": "2.0"},
            {"hw_tpm_version": "1.2"},
            "its flavor has hw:tpm_version 2.0 and its image hw_tpm_version 1.2",
        ),
        ({"hw:tpm_version": "3"}, {}, "hw:tpm_version must be 1.2 or 2.0, not '3'"),
        (
            {"hw:tpm_version": "1.2", "hw:tpm_model": "tpm-crb"},
            {},
            "tpm-crb exists with hw:tpm_version 2.0 only",
        ),
        (
            {"os:secure_boot": "required"},
            {**UEFI, "os_secure_boot": "disabled"},
            "its flavor has os:secure_boot required and its image",
        ),
        (
            {"os:secure_boot": "required"},
            {},
            "os:secure_boot is required, and its firmware is bios",
        ),
        (
            {"os:secure_boot": "required"},
            {**UEFI, "hw_machine_type": "pc"},
            "Secure Boot needs the machine type q35, and the machine is pc",
        ),
        ({}, {"hw_firmware_type": "coreboot"}, "hw_firmware_type must be bios or uefi"),
        (
            {},
            {"hw_video_ram": 16},
            "asks for 16 MiB of video memory (hw_video_ram), and its flavor allows 0",
        ),
        (
            {"hw:serial_port_count": "1"},
            {"hw_serial_port_count": 2},
            "asks for 2 serial ports (hw_serial_port_count), and its flavor allows 1",
        ),
        (
            {"hw:serial_port_count": "many"},
            {},
            "hw:serial_port_count must be a whole number from 0 to 4",
        ),
        ({"hw:watchdog_action": "bark"}, {}, "hw:watchdog_action must be none"),
        (
            {},
            {"hw_qemu_guest_agent": "perhaps"},
            "hw_qemu_guest_agent must be true or false, not 'perhaps'",
        ),
        ({}, {"hw_rng_model": "tpm"}, "hw_rng_model must be virtio, not 'tpm'"),
        ({}, {"hw_disk_bus": "xen"}, "hw_disk_bus must be virtio, scsi"),
        ({}, {"hw_pointer_model": "mouse"}, "hw_pointer_model must be usbtablet"),
        (
            {"hw:vif_multiqueue_enabled": "true"},
            {"hw_vif_multiqueue_enabled": "false"},
            "hw:vif_multiqueue_enabled of its flavor",
        ),
        (
            {"quota:disk_total_iops_sec": "1", "quota:disk_read_iops_sec": "1"},
            {},
            "total_iops_sec and read_iops_sec",
        ),
    ],
)
def test_contradictions_are_refused_as_nova_does(extra_specs, properties, words):
    with pytest.raises(DroverError) as caught:
        of(extra_specs, properties, vcpus=4)
    assert str(caught.value).startswith("Instance web1 on kvm1: ") and words in str(caught.value)


def test_flavor_and_image_reach_the_domain():
    claim = claim_of(
        {
            "disks": [
                {"size_gb": 1},
                {"size_gb": 1, "bus": "virtio", "iotune": {"read_iops_sec": 7}},
            ],
            "networks": [{"bridge": "br0"}],
            "vcpus": 2,
        },
    )
    claim["guest"] |= {
        "extra_specs": {
            "hw:tpm_version": "2.0",
            "quota:disk_write_iops_sec": "30",
            "hw:vif_multiqueue_enabled": "true",
        },
        "image_properties": {
            "hw_disk_bus": "scsi",
            "hw_firmware_type": "uefi",
            "hw_scsi_model": "virtio-scsi",
        },
    }
    root = accepted(rendered(claim))
    assert [each.get("bus") for each in root.findall("devices/disk/target")] == ["scsi", "virtio"]
    assert [
        [(limit.tag, limit.text) for limit in each] for each in root.findall("devices/disk/iotune")
    ] == [[("write_iops_sec", "30")], [("read_iops_sec", "7")]]
    assert root.find("devices/interface/driver").get("queues") == "2"
    assert (
        root.find("os").get("firmware") == "efi"
        and root.find("devices/tpm").get("model") == "tpm-tis"
    )


def test_other_machines_and_architectures():
    """A bus that the machine type does not have is refused. A machine type that libvirt chooses is
    not checked."""
    root = ET.fromstring(rendered(claim_of({}, arch="aarch64"), {"path": "/images/seed.iso"}))
    assert root.find("os").get("firmware") == "efi" and root.find("os/type").get("machine") is None
    assert (
        root.find("devices/disk/target").get("bus") == "scsi"
        and root.find("devices/controller").get("model") == "virtio-scsi"
    )
    root = made(
        {"machine": "pc", "disks": [{"size_gb": 1, "bus": "ide"}]},
        seed={"path": "/images/seed.iso"},
    )
    assert [each.get("dev") for each in root.findall("devices/disk/target")] == ["hda", "hdb"]


def test_many_drives_have_names_of_their_own():
    root = made({"cdroms": [{} for dummy in range(30)]})
    names = [each.get("dev") for each in root.findall("devices/disk/target")]
    assert names[24:28] == ["sdy", "sdz", "sdaa", "sdab"] and len(set(names)) == 30


def test_the_example_of_the_page_has_every_key():
    """The definition is built: its domain passes libvirt's check."""
    page = (examples.ROOT / "docs" / "hardware.md").read_text(encoding="utf-8")
    (definition,) = yaml.safe_load(
        re.search(r"```yaml\n# fleet.yml\n(.*?)```", page, re.S).group(1)
    )["instances"]
    assert set(known.INSTANCE_FIELDS) <= set(definition)
    for table, items in (
        (known.DISK_FIELDS, definition["disks"]),
        (known.NETWORK_FIELDS, definition["networks"]),
    ):
        assert set(table) <= {key for item in items for key in item}
    root = made(definition)
    assert root.find("devices/graphics") is not None and len(root.findall("devices/interface")) == 3


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        ({}, None),
        ({"hw:cpu_max_sockets": "2"}, {"sockets": "2", "cores": "4", "threads": "1"}),
        ({"hw:cpu_threads": "2"}, {"sockets": "4", "cores": "1", "threads": "2"}),
        (
            {"hw:cpu_sockets": "1", "hw:cpu_cores": "8"},
            {"sockets": "1", "cores": "8", "threads": "1"},
        ),
    ],
)
def test_sockets_cores_and_threads(specs, expected):
    root = made({"vcpus": 8, "extra_specs": specs})
    topology = root.find("cpu/topology")
    assert (None if topology is None else dict(topology.attrib)) == expected
    assert root.find("cpu").get("mode") == "host-model"


def test_sockets_cores_and_threads_of_a_guest_with_the_default_cpu():
    root = made({"vcpus": 2, "extra_specs": {"hw:cpu_max_sockets": "1"}, "domain_type": "qemu"})
    assert dict(root.find("cpu/topology").attrib) == {"sockets": "1", "cores": "2", "threads": "1"}
    assert "mode" not in root.find("cpu").attrib


def test_a_topology_that_cannot_be_is_refused_before_a_host_is_chosen():
    with pytest.raises(
        DroverError, match="web1: 3 vCPUs do not fit into 2 sockets of 1 cores with 1 threads"
    ):
        claim_of(
            {
                "vcpus": 3,
                "extra_specs": {
                    "hw:cpu_max_sockets": "2",
                    "hw:cpu_max_cores": "1",
                    "hw:cpu_max_threads": "1",
                },
            }
        )


def test_more_disks_than_letters():
    """The 27th disk and all after it were left out without a message, and with 703 disks on one bus
    the role failed with a traceback."""
    for number, last in ((27, "vdaa"), (53, "vdba")):
        root = made({"disks": [{"size_gb": 1}] * number})
        targets = [each.get("dev") for each in root.findall("devices/disk/target")]
        assert len(targets) == number and targets[25:27] == ["vdz", "vdaa"] and targets[-1] == last
    many = claim_of({"disks": [{"size_gb": 1, "bus": "scsi"}] * 703})
    assert [
        each["target"]
        for each in guest(many, disks=disk_layout(many["disks"], "/images/web1"))["disks"]
    ][-2:] == ["sdzz", "sdaaa"]
