# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of the keys that describe the hardware of an instance, its disks, its CD-ROM drives and
its networks.

Names and values are libvirt's (https://libvirt.org/formatdomain.html), or Nova's where libvirt has
no word for the thing.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from ansible_collections.drover.compute.plugins.module_utils._domain.definition import CPU_MODES

from .._common import validation
from .._common.errors import DroverError, either
from .._numa.device_requests import VNICS
from .fields import ANY, LIST, LONGEST_PATH, MAPPING, SWITCH, TEXT, WHOLE, Field, absolute

BIOS, UEFI, SECURE_BOOT = "bios", "uefi", "uefi-secure-boot"
WINDOWS = "windows"
TPM_VERSIONS = ("1.2", "2.0")
TPM_MODELS = ("tpm-tis", "tpm-crb")
#: The mode of a CPU that all hosts of its kind can run, see _conductor/fleet_cpu.py.
FLEET = "fleet"
FEATURE_POLICIES = ("force", "require", "optional", "disable", "forbid")
VIDEO_MODELS = ("virtio", "vga", "qxl", "cirrus", "bochs", "ramfb", "vmvga", "none")
WATCHDOG_MODELS = ("i6300esb", "ib700")
WATCHDOG_ACTIONS = ("none", "pause", "poweroff", "reset", "shutdown", "dump", "inject-nmi")
DISK_BUSES = ("virtio", "scsi", "sata", "ide", "usb")
CDROM_BUSES = ("sata", "scsi", "ide", "usb")
INPUT_BUSES = ("usb", "virtio")
#: The cards that libvirt or QEMU knows, of any architecture. Another name fails when the guest is
#: started, on each host.
NETWORK_MODELS = (
    "virtio",
    "virtio-transitional",
    "virtio-non-transitional",
    "e1000",
    "e1000e",
    "igb",
    "rtl8139",
    "vmxnet3",
    "pcnet",
    "ne2k_pci",
    "ne2k_isa",
    "i82550",
    "i82551",
    "i82557a",
    "i82557b",
    "i82557c",
    "i82558a",
    "i82558b",
    "i82559a",
    "i82559b",
    "i82559c",
    "i82559er",
    "i82562",
    "i82801",
    "tulip",
    "spapr-vlan",
    "lan9118",
    "smc91c111",
)
SCSI_MODELS = (
    "virtio-scsi",
    "virtio-transitional",
    "virtio-non-transitional",
    "lsilogic",
    "lsisas1068",
    "lsisas1078",
    "vmpvscsi",
    "ibmvscsi",
    "buslogic",
    "ncr53c90",
    "dc390",
    "am53c974",
)
#: The drives of the one IDE controller that the machine type pc has.
MOST_IDE = 4
CACHES = ("none", "writeback", "writethrough", "directsync", "unsafe")
#: QEMU has four serial ports of the ISA bus.
MOST_SERIAL_PORTS = 4
#: The queues of a tap device of Linux.
MOST_QUEUES = 256
#: The limits of libvirt's iotune that Nova has, too.
LIMITS = tuple(
    f"{which}_{what}_sec" for which in ("total", "read", "write") for what in ("iops", "bytes")
)

_Given = TypeVar("_Given", bound=Mapping[str, Any])

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
#: The characters that libvirt's schema allows.
_SERIAL = re.compile(r"[A-Za-z0-9_.+ -]{1,36}")
_MAC = re.compile(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _word(value: str, place: str) -> str:
    if not _WORD.fullmatch(value):
        raise DroverError(
            f"{place} must be a name of letters, digits, dots and hyphens, not"
            f" {validation.shown(value)}."
        )
    return value


def _tpm_version(value: Any, place: str) -> str:
    # YAML reads 2.0 without quotes as a number.
    if isinstance(value, float):
        value = f"{value:.1f}"
    if value not in TPM_VERSIONS:
        raise DroverError(
            f"{place} must be {either(TPM_VERSIONS)}, in quotes, not {validation.shown(value)}."
        )
    return str(value)


def _tpm(value: _Given, place: str) -> _Given:
    # N9.5: the interface CRB is part of TPM 2.0.
    if value.get("model") == "tpm-crb" and value["version"] != "2.0":
        raise DroverError(
            f"{place}: model tpm-crb exists with version 2.0 only. Take model: tpm-tis, or version:"
            " '2.0'."
        )
    return value


def _features(value: Mapping[str, Any], place: str) -> dict[str, str]:
    for name, policy in value.items():
        if not _WORD.fullmatch(str(name)):
            raise DroverError(
                f"{place} must have names of CPU features, such as pcid, not"
                f" {validation.shown(name)}."
            )
        if policy not in FEATURE_POLICIES:
            raise DroverError(
                f"{place}: {name} must be {either(FEATURE_POLICIES)}, not"
                f" {validation.shown(policy)}."
            )
    return dict(value)


def cpu(value: Mapping[str, object] | str, place: str) -> dict[str, Any]:
    """Check that the keys of a CPU fit together.

    :returns: mode, model (None if the mode has none), and features if there are any.
    """
    if isinstance(value, str):
        if value != FLEET:
            raise DroverError(
                f"{place} must be {FLEET}, or a mapping with a mode or a model, not"
                f" {validation.shown(value)}."
            )
        value = {"mode": FLEET}
    if value.get("mode") == FLEET and len(value) > 1:
        others = " and ".join(sorted(set(value) - {"mode"}))
        raise DroverError(
            f"{place}: the mode {FLEET} has a model and features of its own. Take {others} out."
        )
    model = value.get("model")
    mode = value.get("mode") or ("custom" if model else None)
    if mode is None:
        raise DroverError(f"{place} needs a mode ({', '.join(CPU_MODES)}), or a model.")
    if (mode == "custom") != (model is not None):
        raise DroverError(
            f"{place} has a model with the mode custom, and only then; it has mode {mode} and model"
            f" {validation.shown(model)}."
        )
    return {
        "mode": mode,
        "model": model,
        **({"features": value["features"]} if value.get("features") else {}),
    }


def _listen(value: str, place: str) -> str:
    try:
        # libvirt takes no zone, and no server listens on a group.
        if "%" in value or ipaddress.ip_address(value).is_multicast:
            raise ValueError
    except ValueError:
        raise DroverError(
            f"{place} must be an IP address of the host, such as 127.0.0.1, or 0.0.0.0 for all, not"
            f" {validation.shown(value)}."
        ) from None
    return value


def _variable(value: str, place: str) -> str:
    if not _VARIABLE.fullmatch(value):
        raise DroverError(
            f"{place} must be the name of a variable, such as web1_console_password, not"
            f" {validation.shown(value)}."
        )
    return value


def _video(value: _Given, place: str) -> _Given:
    if value["model"] in ("none", "ramfb") and value.get("vram_mb"):
        raise DroverError(
            f"{place}: the model {value['model']} has no memory of its own. Take vram_mb out."
        )
    return value


def _rng(value: Any, place: str) -> Any:
    if isinstance(value, Mapping) and value.get("rate_period") and not value.get("rate_bytes"):
        raise DroverError(f"{place}: rate_period goes with rate_bytes only.")
    return value


def _boot(value: list[Any], place: str) -> list[Any]:
    if not value or len(set(value)) != len(value):
        raise DroverError(
            f"{place} must name each kind of device once, the first to try first, such as [network,"
            " hd]."
        )
    return value


def _iotune(value: dict[str, int], place: str) -> dict[str, int]:
    for what in ("iops", "bytes"):
        total, parts = (
            f"total_{what}_sec",
            [key for key in (f"read_{what}_sec", f"write_{what}_sec") if value.get(key)],
        )
        if value.get(total) and parts:
            raise DroverError(
                f"{place} has {total} and {parts[0]}; libvirt takes a limit of both together, or of"
                " each. Take one out."
            )
    return value


def _disk_serial(value: str, place: str) -> str:
    if not _SERIAL.fullmatch(value):
        raise DroverError(
            f"{place} must have 1 to 36 letters, digits, spaces and the signs _ . + - only, not"
            f" {validation.shown(value)}."
        )
    return value


def disk(value: _Given, place: str) -> _Given:
    """Check that the keys of a disk fit together."""
    if value.get("io") == "native" and value.get("cache", "none") not in ("none", "directsync"):
        raise DroverError(
            f"{place}: io native needs cache none or directsync, not {value['cache']}."
        )
    if value.get("pool") and value.get("path"):
        raise DroverError(
            f"{place} has a pool, in whose folder its file is made, and a path. Take one of them"
            " out."
        )
    if value.get("traits") and not value.get("pool"):
        raise DroverError(
            f"{place} has traits, which are those of its storage pool. Give the pool with them."
        )
    return value


def _vlan(value: _Given, place: str) -> _Given:
    if value.get("trunk") == []:
        raise DroverError(f"{place}: trunk has no VLAN. Name one at least, or take it out.")
    if ("tag" in value) == ("trunk" in value):
        raise DroverError(f"{place} has either tag, one VLAN, or trunk, a list of VLANs.")
    if "native" in value and value["native"] not in value.get("trunk", ()):
        raise DroverError(f"{place}: native must be one of trunk.")
    return value


def _mac(value: str, place: str) -> str:
    if not _MAC.fullmatch(value):
        raise DroverError(
            f"{place} must be a MAC address such as 52:54:00:12:34:56, not"
            f" {validation.shown(value)}."
        )
    if int(value[:2], 16) & 1:
        raise DroverError(
            f"{place} {value} is a multicast address, which no interface has. Make its first byte"
            " even, such as 52."
        )
    return value.lower()


def _interface_id(value: str, place: str) -> str:
    return validation.read_uuid(place, value)


def network(value: _Given, place: str) -> _Given:
    """Check that the keys of a network fit together."""
    if value.get("vnic") or value.get("physical_network"):
        _refuse_port(value, place)
    elif bool(value.get("bridge")) == bool(value.get("network")):
        raise DroverError(
            f"{place}: name either a bridge or a libvirt network; or a physical_network with vnic,"
            " for a device of the host."
        )
    if value.get("openvswitch") and not value.get("bridge"):
        raise DroverError(
            f"{place}: openvswitch goes with bridge, the name of the Open vSwitch bridge. A libvirt"
            " network says itself what it is."
        )
    if value.get("queues", 1) > 1 and value.get("model", "virtio") != "virtio":
        raise DroverError(f"{place}: queues needs the model virtio, not {value['model']}.")
    return value


def _refuse_port(value: Mapping[str, Any], place: str) -> None:
    """Refuse the settings that libvirt refuses or cannot make for a network with a device of the
    host as its interface.
    """
    vnic = value.get("vnic")
    if not vnic:
        raise DroverError(
            f"{place}: physical_network needs vnic, which says how the guest gets the device:"
            f" {', '.join(VNICS)}. For another network take bridge or network instead."
        )
    if not value.get("physical_network"):
        raise DroverError(
            f"{place}: vnic {vnic} needs physical_network, as drover_pci_device_specs has it for"
            " the devices of the hosts."
        )
    without = [key for key in ("bridge", "network", "openvswitch", "mtu") if value.get(key)]
    if vnic == "direct":
        without += [key for key in ("model", "queues") if value.get(key)]
    elif vnic == "direct-physical":
        without += [key for key in ("mac", "vlan", "model", "queues") if value.get(key)]
    if without:
        raise DroverError(
            f"{place}: {without[0]} does not go with vnic {vnic}, {_WHY[without[0]]}. Take"
            f" {without[0]} out."
        )
    if "trunk" in (value.get("vlan") or {}):
        raise DroverError(
            f"{place}: a virtual function has one VLAN, not a trunk. Take vlan: {{tag: 42}}, or"
            " another kind of network."
        )


#: The reasons why a key cannot be combined with a device of the host.
_WHY = {
    "bridge": "which takes a device of the host instead",
    "network": "which takes a device of the host instead",
    "openvswitch": "as no bridge has the device",
    "mtu": "as libvirt does not set the MTU of a device",
    "model": "as the guest sees the device itself",
    "queues": "as the guest sees the device itself",
    "mac": "as the whole card belongs to the guest",
    "vlan": "as the whole card belongs to the guest",
}

TPM_FIELDS = {
    "version": Field(
        (TEXT, ANY),
        "The version of the TPM, in quotes (Nova: `hw:tpm_version`).",
        "2.0",
        choices=TPM_VERSIONS,
        required=True,
        check=_tpm_version,
    ),
    "model": Field(
        TEXT,
        "The interface: `tpm-tis`, or `tpm-crb` with version 2.0 [`tpm-tis`, as in Nova].",
        "tpm-crb",
        choices=TPM_MODELS,
    ),
}

CPU_FIELDS = {
    "mode": Field(
        TEXT,
        "`host-model`, `host-passthrough`, `maximum`, `fleet`, or `custom`, which needs `model`.",
        "host-model",
        choices=(*CPU_MODES, FLEET),
    ),
    "model": Field(
        TEXT, "A model of `virsh cpu-models x86_64`.", "Skylake-Server-IBRS", check=_word
    ),
    "features": Field(
        MAPPING,
        "Features of the CPU, each with libvirt's policy: `require`, `disable`, `optional`, `force`"
        " or `forbid`.",
        {"pcid": "require", "svm": "disable"},
        check=_features,
    ),
}

GRAPHICS_FIELDS = {
    "type": Field(TEXT, "`vnc` or `spice`.", "vnc", choices=("vnc", "spice"), required=True),
    "listen": Field(
        TEXT,
        "The address of the host on which it listens [127.0.0.1, the host itself].",
        "127.0.0.1",
        check=_listen,
    ),
    "password_variable": Field(
        TEXT,
        "The name of an Ansible variable that has the password. The password goes to libvirt of the"
        " host only. VNC takes 8 characters at most.",
        "web1_console_password",
        check=_variable,
    ),
}

VIDEO_FIELDS = {
    "model": Field(
        TEXT,
        "The model of the video card; `none` for no card.",
        "virtio",
        choices=VIDEO_MODELS,
        required=True,
    ),
    "vram_mb": Field(WHOLE, "Its memory in MiB [libvirt's default].", 16, least=1, most=512),
}

CONSOLE_FIELDS = {
    "serial_ports": Field(
        WHOLE,
        "The number of serial ports; the first is the console [1].",
        2,
        least=1,
        most=MOST_SERIAL_PORTS,
    ),
    "log": Field(
        SWITCH,
        "Write what the console shows into a file beside the disks, `UUID-console.log`. It is"
        " removed with the instance and is not moved [false].",
        True,
    ),
}

WATCHDOG_FIELDS = {
    "action": Field(
        TEXT,
        "The action when the guest does not answer its watchdog.",
        "reset",
        choices=WATCHDOG_ACTIONS,
        required=True,
    ),
    "model": Field(TEXT, "The device [`i6300esb`].", "i6300esb", choices=WATCHDOG_MODELS),
}

RNG_FIELDS = {
    "rate_bytes": Field(
        WHOLE, "The guest gets at most so many bytes in each period.", 2048, least=1
    ),
    "rate_period": Field(WHOLE, "The period in milliseconds [1000].", 1000, least=1),
}

CDROM_FIELDS = {
    "path": Field(
        TEXT,
        "An ISO image on the host. Without it the drive is empty.",
        "/srv/isos/virtio-win.iso",
        check=absolute,
        longest=LONGEST_PATH,
    ),
    "bus": Field(
        TEXT,
        "The bus of the drive [`sata`; `ide` with the machine type `pc`; `scsi` on other"
        " architectures].",
        "sata",
        choices=CDROM_BUSES,
    ),
}

INSTANCE_FIELDS = {
    "firmware": Field(
        TEXT,
        "`bios`, `uefi`, or `uefi-secure-boot`, with the keys of Microsoft enrolled and with System"
        " Management Mode (Nova: `hw_firmware_type`, `os_secure_boot`). libvirt of the host picks"
        " the files. The UEFI variables move with the instance and are removed with it.",
        "uefi",
        choices=(BIOS, UEFI, SECURE_BOOT),
    ),
    "tpm": Field(
        MAPPING,
        "An emulated TPM (Nova: `hw:tpm_version`, `hw:tpm_model`). Its state stays on its host: the"
        " instance can move live only.",
        {"version": "2.0", "model": "tpm-crb"},
        fields=TPM_FIELDS,
        check=_tpm,
    ),
    "machine": Field(
        TEXT,
        "The machine type (Nova: `hw_machine_type`) [`q35` on x86_64, elsewhere libvirt's].",
        "pc-q35-7.2",
        check=_word,
    ),
    "os_type": Field(
        TEXT,
        "`linux` or `windows` (Nova: `os_type` of the image) [`linux`]. Windows gets the local time"
        " of the host in its clock, and the interfaces of Hyper-V with which it runs faster.",
        "windows",
        choices=("linux", WINDOWS),
    ),
    "cpu": Field(
        (TEXT, MAPPING),
        "The CPU: a mode, a model, features [`host-model` with KVM]; or `fleet`, the one that all"
        " hosts of its kind can run.",
        {"mode": "host-model", "features": {"pcid": "require"}},
        fields=CPU_FIELDS,
        check=cpu,
    ),
    "graphics": Field(
        MAPPING,
        "A graphical console. Without it there is none.",
        {"type": "vnc", "listen": "127.0.0.1"},
        fields=GRAPHICS_FIELDS,
    ),
    "video": Field(
        MAPPING,
        "The video card (Nova: `hw_video_model`, `hw_video_ram`) [`virtio` with `graphics`, else"
        " none].",
        {"model": "vga", "vram_mb": 16},
        fields=VIDEO_FIELDS,
        check=_video,
    ),
    "console": Field(
        MAPPING, "The serial console.", {"serial_ports": 1, "log": True}, fields=CONSOLE_FIELDS
    ),
    "guest_agent": Field(
        SWITCH, "A channel for the QEMU guest agent (Nova: `hw_qemu_guest_agent`) [false].", True
    ),
    "watchdog": Field(
        MAPPING,
        "A watchdog (Nova: `hw:watchdog_action`). Without it there is none.",
        {"action": "reset"},
        fields=WATCHDOG_FIELDS,
    ),
    "rng": Field(
        (SWITCH, MAPPING),
        "A source of random numbers; `false` for none, or a mapping with its rate (Nova:"
        " `hw_rng:allowed`) [true].",
        {"rate_bytes": 2048, "rate_period": 1000},
        fields=RNG_FIELDS,
        check=_rng,
    ),
    "boot": Field(
        LIST,
        "The kinds of devices to boot from, the first to try first: `hd`, `cdrom`, `network` [hd].",
        ["network", "hd"],
        items=Field(TEXT, "A kind of device.", "hd", choices=("hd", "cdrom", "network")),
        check=_boot,
    ),
    "boot_menu": Field(
        SWITCH, "Show the menu of boot devices (Nova: `hw:boot_menu`) [false].", True
    ),
    "input_bus": Field(
        TEXT,
        "The bus of a tablet and a keyboard, for the pointer of a graphical console (Nova:"
        " `hw_input_bus`).",
        "usb",
        choices=INPUT_BUSES,
    ),
    "cdroms": Field(
        LIST,
        "CD-ROM drives in addition to the drive of `cloud_init`.",
        [{"path": "/srv/isos/virtio-win.iso"}, {"bus": "sata"}],
        fields=CDROM_FIELDS,
    ),
}

IOTUNE_FIELDS = {
    f"{which}_{what}_sec": Field(
        WHOLE,
        f"The most {'requests' if what == 'iops' else 'bytes'} a second, {words} (Nova: `quota:disk_{which}_{what}_sec`).",
        example,
        least=1,
        most=2**63 - 1,
    )
    for which, words in (
        ("total", "reads and writes together"),
        ("read", "reads"),
        ("write", "writes"),
    )
    for what, example in (("iops", 500), ("bytes", 104857600))
}

DISK_FIELDS = {
    "bus": Field(TEXT, "The bus (Nova: `hw_disk_bus`) [`virtio`].", "scsi", choices=DISK_BUSES),
    "cache": Field(
        TEXT,
        "The cache of the host. Only `none` and `directsync` are safe for a live migration on"
        " shared storage [`none`].",
        "none",
        choices=CACHES,
    ),
    "io": Field(
        TEXT,
        "The way in which QEMU reads and writes [QEMU's default].",
        "native",
        choices=("native", "threads", "io_uring"),
    ),
    "discard": Field(
        TEXT,
        "`unmap` gives back the blocks that the guest discards; `ignore` does not [`unmap`].",
        "unmap",
        choices=("unmap", "ignore"),
    ),
    "serial": Field(
        TEXT, "The serial number that the guest sees.", "WD-WMAP9A966149", check=_disk_serial
    ),
    "iotune": Field(
        MAPPING,
        "Limits of the disk for a second.",
        {"read_iops_sec": 500},
        fields=IOTUNE_FIELDS,
        check=_iotune,
    ),
}

VLAN_FIELDS = {
    "tag": Field(WHOLE, "The VLAN of the interface.", 42, least=0, most=4095),
    "trunk": Field(
        LIST,
        "The VLANs that the guest sees with their tags.",
        [42, 47],
        items=Field(WHOLE, "A VLAN.", 42, least=0, most=4095),
    ),
    "native": Field(
        WHOLE, "The VLAN of `trunk` that the guest sees without a tag.", 42, least=0, most=4095
    ),
}

OPENVSWITCH_FIELDS = {
    "interfaceid": Field(
        TEXT,
        "The uuid of the port, `iface-id` in Open vSwitch [a new one].",
        "09b11c53-8b5c-4eeb-8f00-d84eaa0aaa4f",
        check=_interface_id,
    ),
    "profileid": Field(TEXT, "The profile of the port.", "web", check=_word, longest=39),
}

NETWORK_FIELDS = {
    "mac": Field(TEXT, "The MAC address [a new one].", "52:54:00:12:34:56", check=_mac),
    "model": Field(
        TEXT,
        "The model of the card (Nova: `hw_vif_model`) [`virtio`].",
        "e1000e",
        choices=NETWORK_MODELS,
    ),
    "vlan": Field(
        MAPPING,
        "The VLANs of the interface. On a bridge of Linux this needs libvirt 11.0; else the bridge"
        " is of Open vSwitch, or the libvirt network allows it.",
        {"tag": 42},
        fields=VLAN_FIELDS,
        check=_vlan,
    ),
    "mtu": Field(WHOLE, "The MTU of the interface.", 9000, least=68, most=65535),
    "queues": Field(
        WHOLE,
        "The number of queues of the card (Nova: `hw:vif_multiqueue_enabled`, one for each vCPU)"
        " [1].",
        4,
        least=1,
        most=MOST_QUEUES,
    ),
    "openvswitch": Field(
        (SWITCH, MAPPING),
        "The bridge is one of Open vSwitch.",
        {"profileid": "web"},
        fields=OPENVSWITCH_FIELDS,
    ),
}
