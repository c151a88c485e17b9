# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parts of a domain that come from the distribution of its host: the path of QEMU, and labels
of SELinux or AppArmor.

Private to the collection. Sources: https://libvirt.org/formatdomain.html#security-label
and #devices.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import Any
from xml.etree.ElementTree import Element

from .._libvirt.binding import libvirt
from .._libvirt.xml import child_text, keep_prefixes, parse

#: The paths at which distributions have QEMU: libvirt writes such a path into each domain. Any
#: other path was chosen by a person.
_USUAL = re.compile(r"/usr/(?:bin|libexec)/(?:qemu-kvm|kvm|qemu-system-[a-z0-9_]+)")
_DRIVERS = ("selinux", "apparmor")


def emulator_there(conn: Any, text: str) -> str | None:
    """Return the QEMU of a hypervisor for a domain with the QEMU of another distribution; None if
    the domain can keep its own.
    """
    root = parse(text)
    emulator = child_text(root, "devices/emulator")
    if not emulator or not _USUAL.fullmatch(emulator):
        return None
    usual = _path(conn, root, None)
    return None if usual in (None, emulator) or _path(conn, root, emulator) else usual


def for_host(conn: Any, text: str) -> str:
    """Return domain XML from another host as this hypervisor is to define it: with a QEMU that it
    has, and no label of a driver that it lacks.

    Only labels that libvirt chooses are removed: libvirt chooses one for each domain without a
    label too.
    """
    path = emulator_there(conn, text)
    text = text if path is None else with_emulator(text, path)
    root = parse(text)
    lacking = [
        each
        for each in root.findall("seclabel")
        if not _is_own(each) and each.get("model") in _missing_drivers(conn, root)
    ]
    if not lacking:
        return text
    for each in lacking:
        root.remove(each)
    keep_prefixes(text)
    return ET.tostring(root, encoding="unicode")


def with_emulator(text: str, path: str) -> str:
    """Return domain XML with another QEMU."""
    root = parse(text)
    for each in root.findall("devices/emulator"):
        each.text = path
    keep_prefixes(text)
    return ET.tostring(root, encoding="unicode")


def reasons(conn: Any, root: Element, usual: str | None, where: str) -> list[str]:
    """Return the parts of a domain that come from its distribution and that a hypervisor lacks, a
    clause for each.

    :param usual: the path of QEMU there.
    """
    sentences = []
    emulator = child_text(root, "devices/emulator")
    if (
        emulator
        and usual
        and emulator != usual
        and not _USUAL.fullmatch(emulator)
        and not _path(conn, root, emulator)
    ):
        sentences.append(
            f"{where} has no {emulator}, the emulator of its domain; QEMU is {usual} there: install"
            " it there, or change <emulator> with virsh edit, or choose another host"
        )
    own = {each.get("model") for each in root.findall("seclabel") if _is_own(each)}
    sentences += [
        f"it has a label of {model} of its own, and libvirt of {where} works without {model}: use"
        " the same security_driver in /etc/libvirt/qemu.conf of both hosts, or take <seclabel> out"
        " with virsh edit, or choose another host"
        for model in _missing_drivers(conn, root)
        if model in own
    ]
    return sentences


def _missing_drivers(conn: Any, root: Element) -> list[str]:
    """Return the drivers of labels of a domain that a hypervisor works without."""
    models = {each.get("model", "") for each in root.findall("seclabel")}.intersection(_DRIVERS)
    if not models:
        return []
    return sorted(
        models
        - {
            (each.text or "").strip()
            for each in parse(conn.getCapabilities()).findall("host/secmodel/model")
        }
    )


def _is_own(label: Element) -> bool:
    """Return True if a person has given the label to the domain: libvirt's own labels of running
    domains are dynamic.
    """
    return (
        label.get("type") == "static"
        or label.get("relabel") == "no"
        or label.find("baselabel") is not None
    )


def _path(conn: Any, root: Element, emulator: str | None) -> str | None:
    """Return the path of the QEMU that a hypervisor takes for a domain; None if it has none."""
    kind = root.find("os/type")
    if kind is None:
        return None
    try:
        offered = conn.getDomainCapabilities(
            emulator, kind.get("arch"), kind.get("machine"), root.get("type"), 0
        )
    except libvirt.libvirtError:
        return None
    return child_text(parse(offered), "path")
