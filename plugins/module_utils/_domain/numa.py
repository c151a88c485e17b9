# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bindings of the vCPUs and the memory of a domain to CPUs and NUMA cells of its host.

Private to the collection. Source: https://libvirt.org/formatdomain.html (cputune, numatune,
memoryBacking, cpu).
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from .._libvirt.xml import integer, parse_cpu_set, size_bytes
from .facts import GuestCell, GuestPages, MemoryPlace, NumaBound, NumaFacts


def parse_numa(root: Element) -> NumaFacts | None:
    """Return the pins, NUMA cells and huge pages of domain XML; None for a domain without these.

    Returns ``cpuset`` (host CPUs of all vCPUs without a pin, or None), ``vcpu_pins``,
    ``emulator_pins`` (list or None), ``iothread_pins``, ``memory`` (``mode`` and ``nodes``, or
    None), ``cells`` (of the guest), ``pages`` and ``locked``. CPUs and cells are lists of numbers,
    memory is MiB, sizes of pages are KiB. Keys of vCPUs and I/O threads are texts, as in JSON.
    """
    numa_facts = binding(root)
    locked = root.find("memoryBacking/locked") is not None
    return (
        {**numa_facts, "locked": locked}
        if locked or any(each not in (None, {}, []) for each in numa_facts.values())
        else None
    )


def binding(root: Element) -> NumaBound:
    """Return the pins, NUMA cells and huge pages of domain XML; None or empty without these."""
    return {
        "cpuset": _cpus(root.find("vcpu")),
        "vcpu_pins": _pins(root, "vcpupin", "vcpu"),
        "emulator_pins": _cpus(root.find("cputune/emulatorpin")),
        "iothread_pins": _pins(root, "iothreadpin", "iothread"),
        "memory": _memory(root.find("numatune/memory")),
        "cells": _cells(root),
        "pages": _pages(root),
    }


def pinned_cpus(numa: NumaFacts | None) -> set[int]:
    """Return the host CPUs with a pin of exactly one CPU, for a vCPU or for the emulator.

    :param numa: the result of parse_numa().
    """
    if numa is None:
        return set()
    allowed = [*numa["vcpu_pins"].values(), numa["emulator_pins"] or []]
    return {cpus[0] for cpus in allowed if len(cpus) == 1}


def _cpus(element: Element | None) -> list[int] | None:
    text = element.get("cpuset") if element is not None else None
    return parse_cpu_set(text) or None


def _pins(root: Element, tag: str, key: str) -> dict[str, list[int]]:
    pins = {}
    for pin in root.findall(f"cputune/{tag}"):
        cpus = _cpus(pin)
        if cpus:
            pins[str(integer(pin.get(key)))] = cpus
    return pins


def _memory(element: Element | None) -> MemoryPlace | None:
    """Return mode and host cells. libvirt's default mode is strict. For ``placement='auto'`` numad
    chooses the cells.
    """
    if element is None:
        return None
    return {"mode": element.get("mode", "strict"), "nodes": parse_cpu_set(element.get("nodeset"))}


def _cells(root: Element) -> list[GuestCell]:
    """Return the cells of the guest, each with the host cells of its memory. Without host cells
    ``mode`` is None and ``nodes`` is empty.
    """
    where = {
        integer(each.get("cellid")): _memory(each) for each in root.findall("numatune/memnode")
    }
    cells: list[GuestCell] = []
    for number, cell in enumerate(root.findall("cpu/numa/cell")):
        key = integer(cell.get("id"), number) if cell.get("id") else number
        place: MemoryPlace = where.get(key) or {"mode": None, "nodes": []}
        cells.append(
            {
                "id": key,
                "cpus": parse_cpu_set(cell.get("cpus")),
                "memory_mb": _cell_memory(cell),
                **place,
            }
        )
    return cells


def _cell_memory(cell: Element) -> int:
    """Return the memory of a guest cell in MiB. The size is in one attribute and the unit in
    another.
    """
    size = Element("memory", {"unit": cell.get("unit", "KiB")})
    size.text = cell.get("memory", "0")
    return size_bytes(size) // 2**20


def _pages(root: Element) -> list[GuestPages]:
    """Return the huge pages: size in KiB (None for the default size of the host) and cells of the
    guest (empty for all).
    """
    huge = root.find("memoryBacking/hugepages")
    if huge is None:
        return []
    pages: list[GuestPages] = []
    for page in huge.findall("page"):
        size = Element("page", {"unit": page.get("unit", "KiB")})
        size.text = page.get("size", "0")
        pages.append(
            {
                "size_kb": size_bytes(size) // 1024 or None,
                "cells": parse_cpu_set(page.get("nodeset")),
            }
        )
    return pages or [{"size_kb": None, "cells": []}]
