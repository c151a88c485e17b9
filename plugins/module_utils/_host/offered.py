# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check that a hypervisor has the hardware of a domain.

Private to the collection. Source: https://libvirt.org/formatdomaincaps.html. Hardware that libvirt
does not describe is not refused: the start of the domain then shows if it is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element

from .._libvirt import binding
from .._libvirt.binding import libvirt
from .._libvirt.xml import child_text, parse
from . import distribution

#: libvirt's number of 11.0.0, which has VLANs on bridges of Linux.
VLAN_ON_BRIDGES = 11000000
#: libvirt's number of 7.2.0, which picks UEFI firmware by its features. Before, it takes the first
#: firmware of the host, and that of Debian 11 is one with Secure Boot.
FIRMWARE_FEATURES = 7002000

#: Devices by path: the compared attribute, its enum in the capabilities, and its name for people.
_DEVICES = (
    ("devices/video/model", "type", "devices/video", "modelType", "video model"),
    ("devices/graphics", "type", "devices/graphics", "type", "graphics type"),
    ("devices/disk/target", "bus", "devices/disk", "bus", "disk bus"),
    ("devices/tpm", "model", "devices/tpm", "model", "TPM model"),
    ("devices/tpm/backend", "type", "devices/tpm", "backendModel", "TPM backend"),
    ("devices/tpm/backend", "version", "devices/tpm", "backendVersion", "TPM version"),
)
#: libvirt does not list all values of these enums: only these values are judged.
_JUDGED = {"graphics type": ("vnc", "spice"), "disk bus": ("ide", "scsi", "sata", "usb", "virtio")}
#: The facts that discovery records: the name, and the place in the capabilities.
_READ = (
    ("firmware", "os", "firmware"),
    ("secure_boot", "os/loader", "secure"),
    ("tpm_backends", "devices/tpm", "backendModel"),
    ("tpm_models", "devices/tpm", "model"),
    ("tpm_versions", "devices/tpm", "backendVersion"),
    ("video_models", "devices/video", "modelType"),
    ("disk_buses", "devices/disk", "bus"),
)
#: The remedies by which a host gets the hardware.
_ADVICE = {
    "TPM backend": "install swtpm there",
    "firmware": "install UEFI firmware there, such as the package ovmf",
}


def reasons(conn: Any, text: str, where: str) -> list[str]:
    """List the hardware of a domain that the hypervisor does not have, a clause for each device.

    :param text: the domain XML for the definition here, or of the guest that runs elsewhere.
    :param where: the name of the hypervisor.
    """
    root = parse(text)
    kind = root.find("os/type")
    if root.get("type") not in ("kvm", "qemu") or kind is None or kind.get("arch") is None:
        return []
    machine = kind.get("machine")
    try:
        offered = parse(
            conn.getDomainCapabilities(None, kind.get("arch"), machine, root.get("type"), 0)
        )
    except libvirt.libvirtError as exc:
        if binding.code_of(exc) == libvirt.VIR_ERR_NO_SUPPORT:
            return []
        what = f"its machine {machine}" if machine else f"a guest of type {root.get('type')}"
        return [
            f"the hypervisor of {where} cannot run {what} ({binding.text_of(exc)}): choose another"
            " host, or upgrade QEMU there"
        ]
    found = [*_firmware(root, offered), *_devices(root, offered), *_cpu(root, offered)]
    sentences = [_sentence(where, *each) for each in found]
    if conn.getLibVersion() < FIRMWARE_FEATURES and root.find("os/firmware/feature") is not None:
        sentences.append(
            f"libvirt of {where} cannot pick UEFI firmware with or without Secure Boot, which came"
            " with libvirt 7.2: choose another host, or upgrade libvirt there"
        )
    sentences += distribution.reasons(conn, root, child_text(offered, "path"), where)
    if conn.getLibVersion() < VLAN_ON_BRIDGES and any(
        _is_vlan_on_bridge(nic) for nic in root.findall("devices/interface")
    ):
        sentences.append(
            f"libvirt of {where} has no VLANs on a bridge of Linux, which came with libvirt 11.0:"
            " use a bridge of Open vSwitch, a libvirt network with VLANs, or another host"
        )
    return list(dict.fromkeys(sentences))


def read(
    conn: Any, arch: str | None, supported_instances: Iterable[Sequence[str]]
) -> dict[str, list[str]] | None:
    """Return the hardware that guests of this architecture can have here: lists of words by
    firmware, secure_boot, tpm_models, tpm_versions, video_models, disk_buses.

    :param supported_instances: triples of architecture, domain type and operating system type.
    :returns: None if libvirt does not report it.
    """
    kinds = {each[1] for each in supported_instances if each[0] == arch}
    kind = next((each for each in ("kvm", "qemu") if each in kinds), None)
    values_by_name: dict[str, list[str]] = {}
    if kind is None:
        return None
    # The buses and the firmware differ by machine type.
    for machine in ("q35", "pc") if arch == "x86_64" else (None,):
        try:
            offered = parse(conn.getDomainCapabilities(None, arch, machine, kind, 0))
        except libvirt.libvirtError:
            continue
        for name, path, enum in _READ:
            values = values_by_name.setdefault(name, [])
            values.extend(each for each in _values(offered, path, enum) or () if each not in values)
    if "emulator" not in values_by_name.pop("tpm_backends", ()):
        # The other backend models pass a TPM of the host through to the guest.
        values_by_name.update(
            {key: [] for key in ("tpm_models", "tpm_versions") if key in values_by_name}
        )
    elif not values_by_name["tpm_versions"]:
        # libvirt before 8.6 does not say it.
        values_by_name["tpm_versions"] = ["1.2", "2.0"]
    if "secure_boot" in values_by_name and conn.getLibVersion() < FIRMWARE_FEATURES:
        values_by_name["secure_boot"] = []
    return values_by_name or None


def _sentence(where: str, what: str, value: str, values: Iterable[str]) -> str:
    has = ", ".join(values)
    ways = (
        f"{_ADVICE[what]}, or choose another host"
        if what in _ADVICE
        else "choose another one, or another host"
    )
    return f"the hypervisor of {where} has no {what} {value}; it has {has or 'none'}: {ways}"


def _values(offered: Element, path: str, name: str) -> list[str] | None:
    """Return the values of an enum of the capabilities; None if they do not have it, [] if its
    device is not supported.
    """
    place = offered.find(path)
    if place is None:
        return None
    if place.get("supported") == "no":
        return []
    enum = place.find(f"enum[@name='{name}']")
    return None if enum is None else [value.text or "" for value in enum.findall("value")]


def _firmware(root: Element, offered: Element) -> Iterable[tuple[str, str, list[str]]]:
    os_element = root.find("os")
    firmware = None if os_element is None else os_element.get("firmware")
    has = _values(offered, "os", "firmware")
    if os_element is not None and firmware and has is not None:
        secure = any(
            each.get("name") == "secure-boot" and each.get("enabled") == "yes"
            for each in os_element.findall("firmware/feature")
        )
        loaders = _values(offered, "os/loader", "secure")
        if firmware not in has:
            yield "firmware", firmware, has or ["bios"]
        elif secure and loaders is not None and "yes" not in loaders:
            yield "firmware", f"{firmware} with Secure Boot", [*has, "bios"]


def _devices(root: Element, offered: Element) -> Iterable[tuple[str, str, list[str]]]:
    for path, attribute, place, enum, what in _DEVICES:
        has = _values(offered, place, enum)
        if has is None:
            continue
        for element in root.findall(path):
            value = element.get(attribute)
            if value is not None and value not in has and value in _JUDGED.get(what, (value,)):
                yield what, value, has


def _cpu(root: Element, offered: Element) -> Iterable[tuple[str, str, list[str]]]:
    cpu = root.find("cpu")
    modes: Mapping[str | None, Element] = {
        each.get("name"): each for each in offered.findall("cpu/mode")
    }
    if cpu is None or not modes:
        return
    mode = cpu.get("mode", "custom")
    supported = [name for name, each in modes.items() if name and each.get("supported") == "yes"]
    if mode in modes and mode not in supported:
        yield "CPU mode", mode, supported
    elif mode == "custom" and mode in modes:
        models = [each.text or "" for each in modes[mode].findall("model")]
        model = child_text(cpu, "model")
        if model and models and model not in models:
            yield "CPU model", model, [f"those of virsh cpu-models {child_text(offered, 'arch')}"]


def _is_vlan_on_bridge(nic: Element) -> bool:
    return (
        nic.get("type") == "bridge"
        and nic.find("vlan") is not None
        and nic.find("virtualport") is None
    )
