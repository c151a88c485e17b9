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

from .._libvirt.binding import libvirt
from .._libvirt.xml import child_text, integer, parse, parse_cpu_set, size_bytes
from .facts import Capabilities, CellCpu, Cpu, HostCell, Pages


def parse_capabilities(text: str) -> Capabilities:
    """Parse the capabilities XML.

    Returns ``host_uuid``, ``cpu`` (arch, model, vendor, features and topology), ``numa_cells``
    and ``supported_instances``.
    Raises ValueError if it is not XML, or no capabilities XML.
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


def _cpu(element: Element | None, cells: Sequence[HostCell]) -> Cpu:
    topology = element.find("topology") if element is not None else None
    values = {} if topology is None else topology.attrib
    # As in Nova, dies and clusters multiply the cores of a socket.
    dies = integer(values.get("dies", 1), 1) * integer(values.get("clusters", 1), 1)
    features = (
        []
        if element is None
        else [name for f in element.findall("feature") if (name := f.get("name"))]
    )
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


def numa_cells(host: Element) -> list[HostCell]:
    """Return the NUMA cells below a ``<host>`` element: memory in MiB, CPUs, distances, counts of
    page sizes in KiB.

    The smallest page size has all memory that is in no huge page. ``free`` of the pages is None,
    because the XML does not have it, see :func:`read_free_pages`.
    """
    cells: list[HostCell] = []
    for cell in host.findall("topology/cells/cell"):
        pages: list[Pages] = [
            {"size_kb": integer(page.get("size")), "count": integer(page.text), "free": None}
            for page in cell.findall("pages")
        ]
        cells.append(
            {
                "id": integer(cell.get("id")),
                "memory_mb": size_bytes(cell.find("memory")) // 2**20,
                "cpus": [_cell_cpu(cpu) for cpu in cell.findall("cpus/cpu")],
                "pages": pages,
                "distances": [
                    {"id": integer(each.get("id")), "value": integer(each.get("value"))}
                    for each in cell.findall("distances/sibling")
                ],
            }
        )
    return cells


def _cell_cpu(cpu: Element) -> CellCpu:
    """Return a CPU of a cell. libvirt does not know where a CPU is that is offline: then all but
    its number is None, and it has no siblings.
    """
    has_topology = cpu.get("core_id") is not None
    return {
        "id": integer(cpu.get("id")),
        "socket": _number(cpu.get("socket_id")),
        "die": _number(cpu.get("die_id")),
        "cluster": _number(cpu.get("cluster_id")),
        "core": _number(cpu.get("core_id")),
        "siblings": parse_cpu_set(cpu.get("siblings") or cpu.get("id")) if has_topology else [],
    }


def _number(text: str | None) -> int | None:
    """Return a number of a part of the CPU; None if the kernel does not know it, which libvirt may
    write as -1.
    """
    return None if text is None or integer(text, -1) < 0 else integer(text)


def read_free_pages(conn: Any, cells: Sequence[HostCell]) -> None:
    """Put the number of free pages into the pages of cells; it stays None if the driver does not
    report it.

    There is one call for each cell, because libvirt refuses a page size that one of several cells
    does not have.
    """
    for cell in cells:
        sizes = [page["size_kb"] for page in cell["pages"]]
        if not sizes:
            continue
        try:
            free = conn.getFreePages(sizes, cell["id"], 1).get(cell["id"], {})
        except libvirt.libvirtError:
            continue
        for page in cell["pages"]:
            page["free"] = free.get(page["size_kb"])


def supported_instances(root: Element) -> list[list[str]]:
    """Return ``[[arch, domain type, os type], ...]`` for each guest the hypervisor can run."""
    entries = []
    for guest in root.findall("guest"):
        os_type = child_text(guest, "os_type")
        for arch in guest.findall("arch"):
            for domain in arch.findall("domain"):
                entry = [
                    word
                    for word in (arch.get("name"), domain.get("type"), os_type)
                    if word is not None
                ]
                if len(entry) == 3 and entry not in entries:
                    entries.append(entry)
    return entries


def cpu_element(text: str) -> str | None:
    """Return the ``<cpu>`` element of a host's capabilities as XML text, or None when it names no
    model.
    """
    element = parse(text).find("host/cpu")
    if element is None or element.find("model") is None:
        return None
    return _to_text(element)


def host_model_cpu(text: str) -> str | None:
    """Return the CPU that ``host-model`` stands for, from domain capabilities, as a ``<cpu>``
    element's text.

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
    """Return the names of the features that a ``<cpu>`` element requires."""
    return sorted(
        {
            feature.get("name", "")
            for feature in parse(text).findall("feature")
            if feature.get("name") and feature.get("policy", "require") in ("require", "force")
        }
    )


def _to_text(element: Element) -> str:
    return ET.tostring(element, encoding="unicode")
