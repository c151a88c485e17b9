# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The capabilities documents of a hypervisor, as plain dictionaries.

Private to the collection. Sources: https://libvirt.org/formatcaps.html and
https://libvirt.org/formatdomaincaps.html.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Any
from xml.etree.ElementTree import Element

from ansible_collections.drover.compute.plugins.module_utils._xml import child_text, integer, parse, size_bytes


def parse_capabilities(text: str) -> dict[str, Any]:
    """Parse the capabilities XML.

    Returns ``host_uuid``, ``cpu`` (arch, model, vendor, features and topology), ``numa_cells``
    and ``supported_instances``.
    Raises ValueError when it is not XML, or not that of capabilities.
    """
    root = parse(text)
    host = root.find("host")
    if host is None:
        raise ValueError("not capabilities XML: there is no <host>")
    cells = numa_cells(host)
    return {
        "host_uuid": child_text(host, "uuid"),
        "cpu": _cpu(host.find("cpu"), cells),
        "numa_cells": cells,
        "supported_instances": supported_instances(root),
    }


def _cpu(element: Element | None, cells: Sequence[Any]) -> dict[str, Any]:
    topology = element.find("topology") if element is not None else None
    values = {} if topology is None else topology.attrib
    # As in Nova, dies and clusters multiply the cores of a socket.
    dies = integer(values.get("dies", 1), 1) * integer(values.get("clusters", 1), 1)
    features = [] if element is None else [f.get("name") for f in element.findall("feature") if f.get("name")]
    return {
        "arch": child_text(element, "arch") if element is not None else None,
        "model": child_text(element, "model") if element is not None else None,
        "vendor": child_text(element, "vendor") if element is not None else None,
        "features": sorted(set(features)),
        "topology": {
            "cells": len(cells) or 1,
            "sockets": integer(values.get("sockets", 1), 1),
            "cores": integer(values.get("cores", 1), 1) * dies,
            "threads": integer(values.get("threads", 1), 1),
        },
    }


def numa_cells(host: Element) -> list[dict[str, Any]]:
    """The NUMA cells below a ``<host>`` element: memory in MiB, CPUs, counts of page sizes in KiB."""
    cells = []
    for cell in host.findall("topology/cells/cell"):
        cpus = [
            {
                "id": integer(cpu.get("id")),
                "socket": integer(cpu.get("socket_id", 0)),
                "core": integer(cpu.get("core_id", 0)),
                "siblings": parse_cpu_set(cpu.get("siblings") or cpu.get("id")),
            }
            for cpu in cell.findall("cpus/cpu")
        ]
        pages = [{"size_kb": integer(page.get("size")), "count": integer(page.text)} for page in cell.findall("pages")]
        cells.append(
            {
                "id": integer(cell.get("id")),
                "memory_mb": size_bytes(cell.find("memory")) // 2**20,
                "cpus": cpus,
                "pages": pages,
            }
        )
    return cells


def parse_cpu_set(text: str | None) -> list[int]:
    """``'0-2,8'`` to ``[0, 1, 2, 8]`` (libvirt's cpuset syntax, ``^n`` takes one out)."""
    chosen = set()
    for part in str(text or "").split(","):
        part = part.strip()
        if not part:
            continue
        if part.startswith("^"):
            chosen.discard(integer(part[1:]))
        elif "-" in part:
            first, last = part.split("-", 1)
            chosen.update(range(integer(first), integer(last) + 1))
        else:
            chosen.add(integer(part))
    return sorted(chosen)


def supported_instances(root: Element) -> list[list[str]]:
    """``[[arch, domain type, os type], ...]`` for each guest the hypervisor can run."""
    found = []
    for guest in root.findall("guest"):
        os_type = child_text(guest, "os_type")
        for arch in guest.findall("arch"):
            for domain in arch.findall("domain"):
                entry = [word for word in (arch.get("name"), domain.get("type"), os_type) if word is not None]
                if len(entry) == 3 and entry not in found:
                    found.append(entry)
    return found


def cpu_element(text: str) -> str | None:
    """The ``<cpu>`` element of a host's capabilities as XML text, or None when it names no model."""
    element = parse(text).find("host/cpu")
    if element is None or element.find("model") is None:
        return None
    return _to_text(element)


def host_model_cpu(text: str) -> str | None:
    """The CPU that ``host-model`` stands for, from domain capabilities, as a ``<cpu>`` element's text.

    None when the hypervisor does not support host-model (TCG of another architecture, say).
    """
    root = parse(text)
    mode = root.find("cpu/mode[@name='host-model']")
    if mode is None or mode.get("supported") != "yes" or mode.find("model") is None:
        return None
    mode.tag = "cpu"
    mode.attrib.clear()
    mode.set("mode", "custom")
    mode.set("match", "exact")
    return _to_text(mode)


def features_of(text: str) -> list[str]:
    """The names of the features that a ``<cpu>`` element requires."""
    return sorted(
        {
            feature.get("name", "")
            for feature in parse(text).findall("feature")
            if feature.get("name") and feature.get("policy", "require") in ("require", "force")
        }
    )


def _to_text(element: Element) -> str:
    return ET.tostring(element, encoding="unicode")
