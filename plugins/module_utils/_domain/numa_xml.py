# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The change of pins, NUMA cells and huge pages in domain XML, with the same elements as Nova.

Private to the collection. Module numa reads these facts. Source:
https://libvirt.org/formatdomain.html (cputune, numatune, memoryBacking, cpu), and
LibvirtDriver._get_guest_numa_config of Nova.
"""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from xml.etree.ElementTree import Element

from .._libvirt.xml import child_of, child_text, format_cpu_set, integer, keep_prefixes, parse
from .facts import GuestPages, NumaBinding, NumaBound
from .numa import binding


def with_numa(text: str, facts: NumaBinding) -> str:
    """Return domain XML with the pins, NUMA cells and huge pages of the facts. All else stays
    unchanged.

    The guest's cells stay unchanged if their CPUs, memory and pages are the same: then a running
    guest keeps distances, caches and ``memAccess``. I/O threads run on the CPUs of the emulator;
    ``iothread_pins`` does not count. ``locked`` does not count either, because it does not bind the
    domain to CPUs or cells of the host.

    :param text: domain XML from a template or from libvirt.
    :param facts: in the form of :func:`parse_numa`. The elements of missing facts are
        removed; ``{}`` removes all of them.
    :returns: ``text`` itself if nothing differs.
    """
    root = parse(text)
    emulator_pins = facts.get("emulator_pins") or None
    settings: NumaBound = {
        "cpuset": facts.get("cpuset") or None,
        "vcpu_pins": facts.get("vcpu_pins") or {},
        "emulator_pins": emulator_pins,
        "iothread_pins": iothread_pins(root, emulator_pins),
        "memory": facts.get("memory") or None,
        "cells": facts.get("cells") or [],
        "pages": facts.get("pages") or [],
    }
    present = binding(root)
    if present == settings:
        return text
    _set_vcpus(root, settings["cpuset"])
    _set_tuning(root, settings)
    _set_places(root, settings)
    if _guest_cells(present) != _guest_cells(settings):
        _set_pages(root, settings["pages"])
        _set_cells(root, settings)
    keep_prefixes(text)
    return ET.tostring(root, encoding="unicode")


def iothread_pins(root: Element, emulator_pins: list[int] | None) -> dict[str, list[int]]:
    """Return {number of each I/O thread, as text: CPUs}. Nova pins all of them to the CPUs of the
    emulator.
    """
    if not emulator_pins:
        return {}
    named = {integer(each.get("id")) for each in root.findall("iothreadids/iothread")}
    # Threads without an element have the lowest free numbers.
    free = (number for number in itertools.count(1) if number not in named)
    numbers = [
        *named,
        *itertools.islice(free, max(0, integer(child_text(root, "iothreads")) - len(named))),
    ]
    return {str(number): emulator_pins for number in sorted(numbers)}


def _guest_cells(
    facts: NumaBound,
) -> tuple[list[tuple[int, list[int], int]], list[GuestPages]]:
    """Return the cells that the guest sees, and the pages of its memory."""
    cells = [(cell["id"], cell["cpus"], cell["memory_mb"]) for cell in facts["cells"]]
    return cells, facts["pages"]


def _set_vcpus(root: Element, cpuset: Iterable[int] | None) -> None:
    if cpuset is None and root.find("vcpu") is None:
        return
    element = child_of(root, "vcpu")
    element.attrib.pop("cpuset", None)
    if element.get("placement") == "auto":
        # numad would choose CPUs, and numad refuses a list of given CPUs.
        del element.attrib["placement"]
    if cpuset is not None:
        element.set("cpuset", format_cpu_set(cpuset))


def _set_tuning(root: Element, wanted: NumaBound) -> None:
    pins = [
        *(
            ("vcpupin", {"vcpu": vcpu}, cpus)
            for vcpu, cpus in sorted(wanted["vcpu_pins"].items(), key=lambda pin: int(pin[0]))
        ),
        *(("emulatorpin", {}, cpus) for cpus in (wanted["emulator_pins"],) if cpus),
        *(
            ("iothreadpin", {"iothread": thread}, cpus)
            for thread, cpus in wanted["iothread_pins"].items()
        ),
    ]
    made = [ET.Element(tag, {**which, "cpuset": format_cpu_set(cpus)}) for tag, which, cpus in pins]
    _replace_children(root, "cputune", ("vcpupin", "emulatorpin", "iothreadpin"), made)


def _set_places(root: Element, wanted: NumaBound) -> None:
    """Set the host cells of the memory."""
    made = []
    memory = wanted["memory"]
    if memory:
        # If no cells are given, numad chooses them.
        where = (
            {"nodeset": format_cpu_set(memory["nodes"])}
            if memory["nodes"]
            else {"placement": "auto"}
        )
        made.append(ET.Element("memory", {"mode": memory["mode"] or "strict", **where}))
    for cell in wanted["cells"]:
        if cell["nodes"]:
            made.append(
                ET.Element(
                    "memnode",
                    {
                        "cellid": str(cell["id"]),
                        "mode": cell["mode"] or "strict",
                        "nodeset": format_cpu_set(cell["nodes"]),
                    },
                )
            )
    _replace_children(root, "numatune", ("memory", "memnode"), made)


def _set_pages(root: Element, pages: Iterable[GuestPages]) -> None:
    pages = list(pages)
    huge = ET.Element("hugepages")
    for page in pages:
        if page["size_kb"]:
            cells = {"nodeset": format_cpu_set(page["cells"])} if page["cells"] else {}
            ET.SubElement(huge, "page", {"size": str(page["size_kb"]), "unit": "KiB", **cells})
    _replace_children(root, "memoryBacking", ("hugepages",), [huge] if pages else [])


def _set_cells(root: Element, wanted: NumaBound) -> None:
    """Write the cells of the guest. With huge pages other processes may map the memory, because
    vhost-user devices need this.
    """
    numa = ET.Element("numa")
    for cell in wanted["cells"]:
        element = ET.SubElement(numa, "cell", {"id": str(cell["id"])})
        if cell["cpus"]:
            element.set("cpus", format_cpu_set(cell["cpus"]))
        element.set("memory", str(cell["memory_mb"] * 1024))
        element.set("unit", "KiB")
        if wanted["pages"]:
            element.set("memAccess", "shared")
    _replace_children(root, "cpu", ("numa",), [numa] if wanted["cells"] else [])


def _replace_children(
    root: Element, tag: str, children: Iterable[str], made: Iterable[Element]
) -> None:
    """Replace the children with given names of an element of the domain. Remove the element if it
    is empty then.
    """
    made = list(made)
    parent = root.find(tag)
    if parent is None and not made:
        return
    parent = child_of(root, tag)
    for each in [each for each in parent if each.tag in children]:
        parent.remove(each)
    parent.extend(made)
    if not len(parent) and not parent.attrib:
        root.remove(parent)
