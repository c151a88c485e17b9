# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The CPU that a guest needs, and the check that a hypervisor can run it.

Private to the collection.
"""

from __future__ import annotations

import copy
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from typing import Any
from xml.etree.ElementTree import Element

from .._libvirt import binding
from .._libvirt.binding import libvirt
from .._libvirt.xml import child_text
from .capabilities import cpu_element, features_of, host_model_cpu

_NOT_KNOWN = ("VIR_ERR_NO_SUPPORT", "VIR_ERR_CONFIG_UNSUPPORTED", "VIR_ERR_ARGUMENT_UNSUPPORTED")


def wanted(source: Any, root: Element) -> dict[str, str | None] | None:
    """Return the CPU that a guest needs, with arch and type of its domain, and cpu, the element's
    text.

    :param source: the hypervisor that it is on.
    :param root: its domain XML.
    :returns: None if the guest runs on any CPU, as guests of plain QEMU bring their own; None also
        if libvirt does not report the CPU, or says that the source cannot run it, where it runs.
    """
    kind, cpu = root.find("os/type"), root.find("cpu")
    if root.get("type") == "qemu" or kind is None:
        return None
    mode = cpu.get("mode", "custom") if cpu is not None else None
    arch, domain_type = kind.get("arch"), root.get("type")

    def host_model() -> str | None:
        return host_model_cpu(
            source.getDomainCapabilities(
                child_text(root, "devices/emulator"), arch, kind.get("machine"), domain_type, 0
            )
        )

    if mode in ("host-passthrough", "host-model", "maximum"):
        try:
            text = host_model() or cpu_element(source.getCapabilities())
        except libvirt.libvirtError as exc:
            if _is_not_known(exc):
                return None
            raise
        return {"arch": arch, "type": domain_type, "cpu": text} if text else None
    if cpu is None or cpu.find("model") is None:
        return None
    needed = {
        "arch": arch,
        "type": domain_type,
        "cpu": ET.tostring(cpu, encoding="unicode").strip(),
    }
    # libvirt writes this into the CPU of a guest that runs, with all features that QEMU gave it.
    if cpu.get("check") != "full" or runs(source, needed):
        return needed
    # QEMU emulates features that the host's CPU lacks, such as topoext, and can do so elsewhere.
    of_host, cpu = features_of(host_model() or "<cpu/>"), copy.deepcopy(cpu)
    for feature in cpu.findall("feature"):
        if feature.get("policy") == "require" and feature.get("name") not in of_host:
            cpu.remove(feature)
    needed["cpu"] = ET.tostring(cpu, encoding="unicode").strip()
    return needed if runs(source, needed) else None


def runs(destination: Any, cpu: Mapping[str, str | None]) -> bool:
    """Return False only if the hypervisor says that its CPU lacks something of a CPU that
    ``wanted`` returned.
    """
    try:
        answer = destination.compareHypervisorCPU(
            None, cpu.get("arch"), None, cpu.get("type"), cpu["cpu"], 0
        )
    except libvirt.libvirtError as exc:
        if _is_not_known(exc):
            return True
        raise
    return bool(answer > libvirt.VIR_CPU_COMPARE_INCOMPATIBLE)


def _is_not_known(exc: Any) -> bool:
    return binding.code_of(exc) in [getattr(libvirt, name) for name in _NOT_KNOWN]
