# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wishes, each as a definition of drover and in the words of virt-install."""

from __future__ import annotations

import typing

FOLDER = "/var/lib/libvirt/images"
#: The path of the disks and of the seed of the instance, without its end.
BASE = f"{FOLDER}/web1-5f0c6a3e"
DISK = f"path={BASE}-vda.qcow2,format=qcow2,size=1,bus=virtio"
MAC = "52:54:00:ab:cd:01"
NETWORK = f"bridge=br0,mac={MAC},model=virtio"
SECURE_BOOT = (
    "firmware=efi,firmware.feature0.name=secure-boot,firmware.feature0.enabled=yes,"
    "firmware.feature1.name=enrolled-keys,firmware.feature1.enabled=yes"
)
ISO = f"{FOLDER}/drivers.iso"
ONE_DISK = {"disks": [{"size_gb": 1}]}


class Wish(typing.NamedTuple):
    """A wish, twice.

    definition: the definition of drover, without name, uuid and size. words: of virt-install; an
    option of BASE_WORDS that is not among them is added. numa: the CPUs, cells and pages of the
    claim. seed: the instance has an image for cloud-init. pools: the storage pools of the host.
    """

    definition: dict[str, typing.Any]
    words: list[str]
    numa: dict[str, typing.Any] | None = None
    seed: bool = False
    pools: dict[str, typing.Any] | None = None


#: Each wish has these words, unless it says the option differently.
BASE_WORDS = {
    "--memory": "64",
    "--vcpus": "1",
    "--osinfo": "linux2022",
    "--disk": "none",
    "--network": "none",
    "--graphics": "none",
}


def _disk(definition: dict[str, typing.Any], words: str) -> Wish:
    """Return a wish for a disk in place of the usual one."""
    return Wish({"disks": [{"size_gb": 1, **definition}]}, ["--disk", f"{DISK},{words}"])


def _network(definition: dict[str, typing.Any], words: str) -> Wish:
    """Return a wish for an interface."""
    return Wish({"networks": [{"mac": MAC, **definition}]}, ["--network", f"{words},mac={MAC}"])


WISHES = {
    "nothing": Wish({}, []),
    "what virt-install adds by itself": Wish(
        {
            **ONE_DISK,
            "networks": [{"bridge": "br0", "mac": MAC}],
            "graphics": {"type": "spice"},
            "guest_agent": True,
        },
        ["--disk", DISK, "--network", NETWORK, "--graphics", "spice,listen=127.0.0.1"],
    ),
    "bios": Wish({"firmware": "bios"}, []),
    "uefi": Wish({"firmware": "uefi"}, ["--boot", "uefi"]),
    "uefi without secure boot": Wish(
        {"firmware": "uefi"},
        [
            "--boot",
            "firmware=efi,firmware.feature0.name=secure-boot,firmware.feature0.enabled=no",
            "--tpm",
            "none",
        ],
    ),
    "uefi with secure boot": Wish(
        {"firmware": "uefi-secure-boot"},
        [
            "--boot",
            SECURE_BOOT,
            "--tpm",
            "none",
        ],
    ),
    "tpm 2.0": Wish(
        {"tpm": {"version": "2.0", "model": "tpm-crb"}},
        ["--tpm", "backend.type=emulator,backend.version=2.0,model=tpm-crb"],
    ),
    "tpm without a word": Wish({"tpm": {"version": "2.0"}}, ["--tpm", "emulator"]),
    "disk": Wish(ONE_DISK, ["--disk", f"path={BASE}-vda.qcow2,format=qcow2,size=1"]),
    "disk on scsi": _disk({"bus": "scsi"}, "bus=scsi"),
    "disk on sata": _disk({"bus": "sata"}, "bus=sata"),
    "disk on usb": _disk({"bus": "usb"}, "bus=usb"),
    "disk on ide": Wish(
        {"machine": "pc", "disks": [{"size_gb": 1, "bus": "ide"}]},
        ["--machine", "pc", "--disk", f"{DISK},bus=ide"],
    ),
    "disk with cache, io and discard": _disk(
        {"cache": "directsync", "io": "native", "discard": "ignore"},
        "cache=directsync,driver.io=native,discard=ignore",
    ),
    "disk with a serial number and limits": _disk(
        {"serial": "WD-1", "iotune": {"total_iops_sec": 500}},
        "serial=WD-1,iotune.total_iops_sec=500",
    ),
    "several disks": Wish(
        {"disks": [{"size_gb": 1}, {"size_gb": 1}, {"size_gb": 1, "bus": "scsi"}]},
        [
            "--disk",
            DISK,
            "--disk",
            DISK.replace("vda", "vdb"),
            "--disk",
            DISK.replace("vda", "vdc").replace("virtio", "scsi"),
        ],
    ),
    "raw file": Wish(
        {"disks": [{"size_gb": 1, "source": {"path": f"{FOLDER}/data.raw"}}]},
        ["--disk", f"path={FOLDER}/data.raw,format=raw,bus=virtio,size=1"],
    ),
    "disk of ceph": Wish(
        {
            "disks": [
                {
                    "source": {
                        "protocol": "rbd",
                        "name": "vms/db-data",
                        "hosts": [{"name": "mon1", "port": 6789}],
                    }
                }
            ]
        },
        [
            "--disk",
            "type=network,source.protocol=rbd,source.name=vms/db-data,source.host0.name=mon1,"
            "source.host0.port=6789,format=raw,target.bus=virtio",
        ],
    ),
    "cdrom": Wish(
        {"cdroms": [{"path": ISO}], "boot": ["cdrom", "hd"]},
        ["--disk", f"{ISO},device=cdrom", "--boot", "cdrom,hd"],
    ),
    "empty cdrom": Wish({**ONE_DISK, "cdroms": [{}]}, ["--disk", DISK, "--disk", "device=cdrom"]),
    "cloud-init": Wish(
        ONE_DISK,
        ["--disk", DISK, "--disk", f"path={BASE}-seed.iso,device=cdrom"],
        seed=True,
    ),
    "network of libvirt": _network({"network": "default"}, "network=default"),
    "bridge": _network({"bridge": "br0"}, "bridge=br0"),
    "several interfaces": Wish(
        {
            "networks": [
                {"bridge": "br0", "mac": MAC},
                {"network": "default", "mac": "52:54:00:ab:cd:02", "model": "e1000e"},
            ]
        },
        [
            "--network",
            NETWORK,
            "--network",
            "network=default,mac=52:54:00:ab:cd:02,model=e1000e",
        ],
    ),
    "interface with queues and mtu": _network(
        {"bridge": "br0", "queues": 4, "mtu": 1400}, "bridge=br0,driver.queues=4,mtu.size=1400"
    ),
    "open vswitch": _network(
        {
            "bridge": "br0",
            "openvswitch": {
                "interfaceid": "09b11c53-8b5c-4eeb-8f00-d84eaa0aaa4f",
                "profileid": "web",
            },
        },
        "bridge=br0,virtualport.type=openvswitch,"
        "virtualport.parameters.interfaceid=09b11c53-8b5c-4eeb-8f00-d84eaa0aaa4f,"
        "virtualport.parameters.profileid=web",
    ),
    "cpu host-model": Wish({"cpu": {"mode": "host-model"}}, ["--cpu", "host-model"]),
    "cpu of all features": Wish({"cpu": {"mode": "maximum"}}, ["--cpu", "mode=maximum"]),
    "cpu model with features": Wish(
        {"cpu": {"model": "Nehalem", "features": {"pcid": "require", "vmx": "disable"}}},
        ["--cpu", "Nehalem,require=pcid,disable=vmx"],
    ),
    "topology of vcpus": Wish(
        {"vcpus": 4, "extra_specs": {"hw:cpu_sockets": "1", "hw:cpu_cores": "2"}},
        ["--vcpus", "4,sockets=1,cores=2,threads=2"],
    ),
    "several vcpus": Wish({"vcpus": 2}, ["--vcpus", "2"]),
    "console": Wish(
        {"console": {"serial_ports": 2, "log": True}},
        [
            "--serial",
            f"pty,log.file={FOLDER}/5f0c6a3e-7d0c-4c56-9f2e-0f6d5a9b1c01-console.log,log.append=on",
            "--serial",
            "pty",
        ],
    ),
    "vnc": Wish(
        {"graphics": {"type": "vnc", "listen": "0.0.0.0"}}, ["--graphics", "vnc,listen=0.0.0.0"]
    ),
    "spice": Wish({"graphics": {"type": "spice"}}, ["--graphics", "spice"]),
    "video": Wish(
        {"graphics": {"type": "vnc"}, "video": {"model": "vga", "vram_mb": 32}},
        ["--graphics", "vnc", "--video", "model.type=vga,model.vram=32768"],
    ),
    "qxl": Wish(
        {"graphics": {"type": "spice"}, "video": {"model": "qxl"}},
        ["--graphics", "spice", "--video", "qxl"],
    ),
    "keyboard and tablet on usb": Wish(
        {"graphics": {"type": "vnc"}, "input_bus": "usb"},
        ["--graphics", "vnc", "--input", "tablet,bus=usb", "--input", "keyboard,bus=usb"],
    ),
    "random numbers": Wish(
        {"rng": {"rate_bytes": 2048, "rate_period": 1000}},
        ["--rng", "/dev/urandom,rate.bytes=2048,rate.period=1000"],
    ),
    "no random numbers": Wish({"rng": False}, ["--rng", "none"]),
    "watchdog": Wish({"watchdog": {"action": "reset"}}, ["--watchdog", "default,action=reset"]),
    "guest agent": Wish(
        {"guest_agent": True}, ["--channel", "unix,target.type=virtio,name=org.qemu.guest_agent.0"]
    ),
    "machine pc": Wish({"machine": "pc"}, ["--machine", "pc"]),
    "machine with a version": Wish({"machine": "pc-q35-7.0"}, ["--machine", "pc-q35-7.0"]),
    "boot from the network with a menu": Wish(
        {"boot": ["network", "hd"], "boot_menu": True}, ["--boot", "network,hd,menu=on"]
    ),
    "huge pages": Wish(
        {},
        ["--memorybacking", "hugepages=on,hugepages.page.size=2048,hugepages.page.unit=KiB"],
        numa={"pages": [{"size_kb": 2048, "cells": []}]},
    ),
    "pinned vcpus in a cell": Wish(
        {"vcpus": 2},
        [
            "--vcpus",
            "2",
            "--cpu",
            "cell0.id=0,cell0.cpus=0-1,cell0.memory=65536",
            "--cputune",
            "vcpupin0.vcpu=0,vcpupin0.cpuset=0,vcpupin1.vcpu=1,vcpupin1.cpuset=1,"
            "emulatorpin.cpuset=0-1",
            "--numatune",
            "memory.mode=strict,memory.nodeset=0,memnode0.cellid=0,memnode0.mode=strict,"
            "memnode0.nodeset=0",
        ],
        numa={
            "vcpu_pins": {"0": [0], "1": [1]},
            "emulator_pins": [0, 1],
            "memory": {"mode": "strict", "nodes": [0]},
            "cells": [{"id": 0, "cpus": [0, 1], "memory_mb": 64, "mode": "strict", "nodes": [0]}],
        },
    ),
    "windows": Wish(
        {**ONE_DISK, "os_type": "windows", "graphics": {"type": "vnc"}},
        ["--osinfo", "win10", "--disk", DISK, "--graphics", "vnc"],
    ),
    "windows 11": Wish(
        {
            **ONE_DISK,
            "os_type": "windows",
            "firmware": "uefi-secure-boot",
            "tpm": {"version": "2.0", "model": "tpm-crb"},
            "graphics": {"type": "spice"},
            "video": {"model": "qxl"},
            "networks": [{"bridge": "br0", "mac": MAC, "model": "e1000e"}],
        },
        [
            *("--osinfo", "win11", "--disk", DISK, "--graphics", "spice", "--boot", SECURE_BOOT),
            *("--network", f"bridge=br0,mac={MAC}"),
        ],
    ),
}
