# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hardware that a domain has, in the words of a definition, read from its XML
(https://libvirt.org/formatdomain.html).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from xml.etree.ElementTree import Element

from ansible_collections.drover.compute.plugins.module_utils._domain.definition import (
    parse_interface,
)

from . import hardware, hardware_fields
from .definition import Resolved


def differing(definition: Resolved, root: Element, where: str) -> list[tuple[str, str, str]]:
    """Compare the hardware that a definition, its flavor or its image request with the hardware of
    a domain. Hardware that none of them requests is not compared.

    :param definition: a result of identity.resolve().
    :param root: the XML of the domain.
    :returns: for each key that differs: (key, the value of the domain, the value of the
        definition).
    """
    guest = definition.get("guest") or {}
    sources = (guest.get("extra_specs"), guest.get("image_properties"))
    arch = _find_element(root, "os/type").get("arch") or "x86_64"
    chosen = hardware.hardware(
        definition, *sources, where=where, vcpus=definition["vcpus"], arch=arch
    )
    default = hardware.hardware({}, where=where, vcpus=definition["vcpus"], arch=arch)
    differences = []
    for key, (wish, read) in _READERS.items():
        if definition.get(key) is None and wish(chosen) == wish(default):
            continue
        wish_text, present = wish(chosen), read(root)
        same = {
            "machine": _is_machine(present, wish_text),
            "firmware": _is_optional(chosen) and present != hardware_fields.BIOS,
        }
        if wish_text != present and not same.get(key):
            differences.append((key, present, wish_text))
    for key in _OWN:
        if definition.get(key) is not None:
            wish_text, present = _OWN[key][0](definition), _OWN[key][1](root)
            if wish_text != present:
                differences.append((key, present, wish_text))
    return differences


def of_disk(root: Element, target: str | None) -> dict[str, str]:
    """Return bus, cache, io, discard and serial of a disk of a domain, without missing ones."""
    for disk in root.findall("devices/disk"):
        place, driver, serial = (
            disk.find("target"),
            disk.find("driver"),
            (disk.findtext("serial") or "").strip(),
        )
        if place is None or place.get("dev") != target:
            continue
        driver_values = (
            {key: driver.get(key) for key in ("cache", "io", "discard")}
            if driver is not None
            else {}
        )
        return {
            key: value
            for key, value in {**driver_values, "bus": place.get("bus"), "serial": serial}.items()
            if value
        }
    return {}


def of_interface(root: Element, mac: str | None) -> dict[str, str]:
    """Return model, mtu, queues and vlan of an interface of a domain, without missing ones."""
    for nic in root.findall("devices/interface"):
        if (parse_interface(nic)["mac"] or "").lower() == (mac or "").lower():
            values = {
                "model": _find_element(nic, "model").get("type"),
                "mtu": _find_element(nic, "mtu").get("size"),
                "queues": _find_element(nic, "driver").get("queues"),
                "vlan": " ".join(tag.get("id", "") for tag in nic.findall("vlan/tag")),
            }
            return {key: value for key, value in values.items() if value}
    return {}


def _find_element(root: Element, path: str) -> Element:
    """Return an element; an empty one where there is none."""
    found = root.find(path)
    return Element("none") if found is None else found


def _firmware(root: Element) -> str:
    os = _find_element(root, "os")
    loader = _find_element(root, "os/loader")
    if os.get("firmware") != "efi" and loader.get("type") != "pflash":
        return hardware_fields.BIOS
    secure = any(
        each.get("name") == "secure-boot" and each.get("enabled") == "yes"
        for each in root.findall("os/firmware/feature")
    ) or (
        root.find("os/firmware/feature[@name='secure-boot']") is None
        and loader.get("secure") == "yes"
    )
    return hardware_fields.SECURE_BOOT if secure else hardware_fields.UEFI


def _asked_firmware(asked: hardware.Hardware) -> str:
    if asked["firmware"] is None:
        return hardware_fields.BIOS
    features = {each["name"]: each["enabled"] for each in asked["firmware"]["features"]}
    return hardware_fields.SECURE_BOOT if features.get("secure-boot") else hardware_fields.UEFI


def _is_optional(asked: hardware.Hardware) -> bool:
    """Return True if UEFI is requested, with or without Secure Boot."""
    return asked["firmware"] is not None and not asked["firmware"]["features"]


def _tpm(root: Element) -> str:
    tpm, backend = root.find("devices/tpm"), root.find("devices/tpm/backend")
    return (
        "none"
        if tpm is None or backend is None
        else f"{backend.get('version') or backend.get('type')} {tpm.get('model')}"
    )


def _graphics(root: Element) -> str:
    graphics = [
        f"{each.get('type')} on {each.get('listen') or '127.0.0.1'}"
        for each in root.findall("devices/graphics")
    ]
    return ", ".join(graphics) or "none"


def _asked_graphics(asked: hardware.Hardware) -> str:
    return (
        f"{asked['graphics']['type']} on {asked['graphics']['listen']}"
        if asked["graphics"]
        else "none"
    )


def _video(root: Element) -> str:
    return (
        ", ".join(each.get("type") or "" for each in root.findall("devices/video/model")) or "none"
    )


def _watchdog(root: Element) -> str:
    # libvirt adds a watchdog to the machine type q35.
    watchdogs = [
        f"{each.get('model')} {each.get('action')}"
        for each in root.findall("devices/watchdog")
        if each.get("model") != "itco"
    ]
    return ", ".join(watchdogs) or "none"


def _asked_watchdog(asked: hardware.Hardware) -> str:
    return (
        f"{asked['watchdog']['model']} {asked['watchdog']['action']}"
        if asked["watchdog"]
        else "none"
    )


def _rng(root: Element) -> str:
    rng = root.find("devices/rng")
    if rng is None:
        return "none"
    rate = _find_element(rng, "rate")
    return (
        f"{rate.get('bytes')} bytes in {rate.get('period')} ms"
        if rate.get("bytes")
        else "without limit"
    )


def _asked_rng(asked: hardware.Hardware) -> str:
    rng = asked["rng"]
    if rng is None:
        return "none"
    return (
        f"{rng['rate_bytes']} bytes in {rng['rate_period']} ms"
        if rng["rate_bytes"]
        else "without limit"
    )


def _agent(root: Element) -> str:
    names = {each.get("name") for each in root.findall("devices/channel/target")}
    return _word("org.qemu.guest_agent.0" in names)


def _boot(root: Element) -> str:
    return ", ".join(each.get("dev") or "" for each in root.findall("os/boot")) or "none"


def _inputs(root: Element) -> str:
    found = [(each.get("type"), each.get("bus")) for each in root.findall("devices/input")]
    # QEMU always adds its own mouse and keyboard.
    return ", ".join(f"{kind} {bus}" for kind, bus in sorted(found) if bus != "ps2") or "none"


def _machine(root: Element) -> str:
    return _find_element(root, "os/type").get("machine") or "none"


def _is_machine(there: str, wanted: str) -> bool:
    """Return True if a machine type is a version of a name: q35 becomes pc-q35-7.2, and pc becomes
    pc-i440fx-7.2.
    """
    return there == wanted or there.startswith(
        {"q35": "pc-q35-", "pc": "pc-i440fx-"}.get(wanted, f"{wanted}-")
    )


def _word(value: bool) -> str:
    return "yes" if value else "no"


def _cpu(cpu: Mapping[str, Any]) -> str:
    features = ", ".join(
        f"{name} {policy}" for name, policy in sorted((cpu.get("features") or {}).items())
    )
    return " ".join(
        part for part in (cpu["mode"], cpu.get("model"), features and f"with {features}") if part
    )


def _cpu_there(root: Element) -> str:
    cpu = root.find("cpu")
    if cpu is None or not cpu.get("mode"):
        return "none"
    features = {each.get("name"): each.get("policy") for each in cpu.findall("feature")}
    model = (cpu.findtext("model") or "").strip() if cpu.get("mode") == "custom" else None
    return _cpu({"mode": cpu.get("mode"), "model": model, "features": features})


#: Key -> (its text from the result of hardware(), its text in a domain).
_READERS: dict[str, tuple[Callable[[hardware.Hardware], str], Callable[[Element], str]]] = {
    "firmware": (_asked_firmware, _firmware),
    "tpm": (
        lambda asked: (
            f"{asked['tpm']['version']} {asked['tpm']['model']}" if asked["tpm"] else "none"
        ),
        _tpm,
    ),
    "machine": (lambda asked: asked["machine"] or "none", _machine),
    "graphics": (_asked_graphics, _graphics),
    "video": (lambda asked: asked["video"]["model"] if asked["video"] else "none", _video),
    "console": (
        lambda asked: f"{asked['serial_ports']} serial ports",
        lambda root: f"{len(root.findall('devices/serial'))} serial ports",
    ),
    "guest_agent": (lambda asked: _word(asked["guest_agent"]), _agent),
    "watchdog": (_asked_watchdog, _watchdog),
    "rng": (_asked_rng, _rng),
    "boot": (lambda asked: ", ".join(asked["boot"]), _boot),
    "boot_menu": (
        lambda asked: _word(asked["boot_menu"]),
        lambda root: _word(_find_element(root, "os/bootmenu").get("enable") == "yes"),
    ),
    "input_bus": (
        lambda asked: (
            ", ".join(
                f"{each['type']} {each['bus']}"
                for each in sorted(asked["inputs"], key=lambda each: each["type"])
            )
            or "none"
        ),
        _inputs,
    ),
}
#: The keys that are compared only if the definition itself has them: key -> (its text in a
#: definition, its text in a domain).
_OWN: dict[str, tuple[Callable[[Resolved], str], Callable[[Element], str]]] = {
    "domain_type": (
        lambda definition: str(definition["domain_type"]),
        lambda root: root.get("type") or "none",
    ),
    "cpu": (lambda definition: _cpu(definition["cpu"]), _cpu_there),
    "os_type": (
        lambda definition: definition["os_type"],
        lambda root: (
            hardware_fields.WINDOWS
            if _find_element(root, "clock").get("offset") == "localtime"
            else "linux"
        ),
    ),
}
