# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check that a guest starts with KVM on a host where libvirt offers it: it starts one.

Private to the collection. The device may open and guests still not start, in virtual machines with
nested virtualisation that is broken or made in software (``failed to set MSR 0x10a``).
"""

from __future__ import annotations

import re
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from .._libvirt import binding
from .._libvirt.binding import libvirt

#: The limit in seconds for the start of the guest, which takes half a second on an idle machine.
TIMEOUT = 60
#: One name for all probes: libvirt keeps a log for each name that it has seen.
NAME = "drover-kvm-probe"


class Answer(TypedDict):
    """The answer of a probe: works is None if that is not known, message says why not."""

    offered: bool
    works: bool | None
    message: str


def probe(
    conn: Any,
    arch: str | None,
    supported_instances: Iterable[Sequence[str]],
    cpu: Mapping[str, str | None] | None = None,
) -> Answer:
    """Start a tiny paused guest as the role place would, and destroy it. Nothing of it is left.

    :param arch: the architecture of the host's CPU.
    :param supported_instances: triples of architecture, domain type and operating system type.
    :param cpu: mode and model of the guest's CPU; host-model without.
    """
    if (arch, "kvm") not in {(each[0], each[1]) for each in supported_instances}:
        return {
            "offered": False,
            "works": None,
            "message": f"libvirt offers no KVM for guests of {arch}",
        }
    answer = []
    thread = threading.Thread(
        target=lambda: answer.append(_start_guest(conn, _xml(arch or "", cpu or {}))), daemon=True
    )
    thread.start()
    thread.join(TIMEOUT)
    # A guest that still starts ends with the connection.
    works, message = answer[0] if answer else (False, f"it has not started after {TIMEOUT} s")
    return {"offered": True, "works": works, "message": message}


def _start_guest(conn: Any, text: str) -> tuple[bool | None, str]:
    """Return (True if it started, or None if this is not known; the reason why it did not)"""
    flags = libvirt.VIR_DOMAIN_START_PAUSED | libvirt.VIR_DOMAIN_START_AUTODESTROY
    deadline = time.monotonic() + TIMEOUT / 2
    while True:
        try:
            domain = conn.createXML(text, flags)
            break
        except libvirt.libvirtError as exc:
            if not _is_taken(exc):
                return False, _cause(exc)
            if time.monotonic() > deadline:
                return None, f"another probe is under way: {binding.text_of(exc)}"
        except binding.LibvirtProblem as exc:
            return None, str(exc)
        time.sleep(0.5)
    try:
        domain.destroy()
    except (libvirt.libvirtError, binding.LibvirtProblem):
        # The domain ends with the connection.
        pass
    return True, ""


def _is_taken(error: Exception) -> bool:
    """Return True if another probe has the name: libvirt itself refuses, and not QEMU."""
    codes = (libvirt.VIR_ERR_OPERATION_FAILED, libvirt.VIR_ERR_OPERATION_INVALID)
    return binding.code_of(error) in codes and binding.domain_of(error) == libvirt.VIR_FROM_DOMAIN


def _cause(error: Exception) -> str:
    """Return QEMU's message without libvirt's words before it, or else libvirt's message."""
    said = re.search(r"qemu[\w.-]*: (.*)", str(error))
    return said.group(1).strip().rstrip(".") if said else binding.text_of(error)


def _xml(arch: str, cpu: Mapping[str, str | None]) -> str:
    root = ET.Element("domain", type="kvm")
    ET.SubElement(root, "name").text = NAME
    ET.SubElement(root, "memory", unit="MiB").text = "64"
    ET.SubElement(root, "vcpu").text = "1"
    kind = ET.SubElement(ET.SubElement(root, "os"), "type", arch=arch)
    kind.text = "hvm"
    if arch == "x86_64":
        kind.set("machine", "q35")
    mode = cpu.get("mode") or "host-model"
    element = ET.SubElement(root, "cpu", mode=mode)
    if cpu.get("model"):
        ET.SubElement(element, "model").text = cpu["model"]
    ET.SubElement(root, "on_crash").text = "destroy"
    devices = ET.SubElement(root, "devices")
    ET.SubElement(devices, "controller", type="usb", model="none")
    ET.SubElement(devices, "memballoon", model="none")
    return ET.tostring(root, encoding="unicode")
