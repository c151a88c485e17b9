# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Domain XML for another host: bound to the CPUs and NUMA cells that were claimed there.

Private to the collection. The guest sees no difference: its cells, their memory and the size of its
pages stay as they are.
"""

from __future__ import annotations

from .._domain.facts import NumaBinding, NumaBound
from .._domain.numa import binding
from .._domain.numa_xml import iothread_pins, with_numa
from .._libvirt.xml import parse

#: The end of every sentence about a domain that a person has bound by hand.
BY_HAND = "take that away with virsh edit, or move it by hand"
#: The remedy if the host shows other facts than the claim has.
DISCOVER = "run drover.compute.discover, then plan again"


def rebound(text: str, facts: NumaBinding) -> str:
    """Return domain XML bound to the CPUs and cells of another host.

    This follows a live migration of Nova: CPUs and cells of the host in the domain get the numbers
    of the other host, and all else stays. A domain without a source for its memory stays without
    one.

    :param facts: the fact ``numa`` of the claim there, see :func:`numa.parse_numa`; empty
        if the domain may float over all of the host.
    """
    present = binding(parse(text))
    cells = {cell["id"]: cell["nodes"] for cell in facts.get("cells") or ()}
    memory = facts.get("memory")
    everywhere = memory["nodes"] if memory else []
    wanted: NumaBinding = {
        "cpuset": facts.get("cpuset"),
        "vcpu_pins": facts.get("vcpu_pins"),
        "emulator_pins": facts.get("emulator_pins"),
        "memory": facts.get("memory") if present["memory"] else None,
        "cells": [
            {
                **cell,
                "mode": memory["mode"] if memory and cell["nodes"] and everywhere else None,
                "nodes": (cells.get(cell["id"]) or everywhere) if cell["nodes"] else [],
            }
            for cell in present["cells"]
        ],
        "pages": present["pages"],
    }
    return with_numa(text, wanted)


def confined(text: str, facts: NumaBinding) -> str:
    """Return domain XML of a guest that gets another size after its arrival, on the CPUs and cells
    that were claimed for that size.

    Its vCPUs and NUMA cells still have the old size, so none of them has a place of its own: the
    whole guest may use all claimed CPUs and cells, and nothing else.

    :param facts: the facts as for :func:`rebound`.
    """
    present = binding(parse(text))
    claimed = sorted({cpu for cpus in (facts.get("vcpu_pins") or {}).values() for cpu in cpus})
    wanted: NumaBinding = {
        "cpuset": claimed or facts.get("cpuset"),
        "emulator_pins": facts.get("emulator_pins"),
        "memory": facts.get("memory"),
        "cells": [{**cell, "mode": None, "nodes": []} for cell in present["cells"]],
        "pages": present["pages"],
    }
    return with_numa(text, wanted)


def reasons(text: str, facts: NumaBinding) -> list[str]:
    """Return the reasons why a domain cannot be bound to another host as it is bound to this one,
    each a few words.

    The record of its bindings here leaves out bindings that no claim makes, so this looks at the
    domain itself.

    :param facts: the facts as for :func:`rebound`.
    """
    root = parse(text)
    present = binding(root)
    sentences = []
    if present["memory"] and present["memory"]["mode"] != "strict":
        sentences.append(
            f"its memory comes from cells of the host by the mode {present['memory']['mode']}, not"
            f" strict: {BY_HAND}"
        )
    odd = [
        cell
        for cell in present["cells"]
        if cell["nodes"] and (cell["mode"] != "strict" or len(cell["nodes"]) > 1)
    ]
    if odd and not sentences:
        sentences.append(
            f"the memory of its NUMA cell {odd[0]['id']} does not come strictly from one cell of"
            f" the host: {BY_HAND}"
        )
    if present["iothread_pins"] and present["iothread_pins"] != iothread_pins(
        root, present["emulator_pins"]
    ):
        sentences.append(
            f"its I/O threads have pins that are not those of its emulator (iothreadpin): {BY_HAND}"
        )
    return sentences + (
        _cell_reasons(present, facts) if facts.get("cells") else _floating_reasons(present)
    )


def _cell_reasons(present: NumaBound, facts: NumaBinding) -> list[str]:
    """Return the reasons of a domain with claimed cells."""
    floating = sorted((facts.get("vcpu_pins") or {}).keys() - present["vcpu_pins"].keys(), key=int)
    if not present["vcpu_pins"] and not present["cells"]:
        return [f"pins or NUMA cells were claimed for it, and its domain has none: {DISCOVER}"]
    if present["cpuset"] and floating:
        return [
            f"its vCPU {', '.join(floating)} floats over CPUs that somebody gave it (cpuset of"
            f" vcpu): {BY_HAND}"
        ]
    shape = [(cell["id"], cell["cpus"], cell["memory_mb"]) for cell in facts.get("cells") or ()]
    if present["cells"]:
        if shape != [(cell["id"], cell["cpus"], cell["memory_mb"]) for cell in present["cells"]]:
            return [f"its NUMA cells are not those that were claimed for it: {DISCOVER}"]
    elif len(shape) > 1:
        return [
            f"it has no NUMA cells of its own, and {len(shape)} were claimed for it: {DISCOVER}"
        ]
    if bool(present["pages"]) != bool(facts.get("pages")):
        return [
            f"{'no huge pages were' if present['pages'] else 'huge pages were'} claimed for it, and"
            f" its domain differs: {DISCOVER}"
        ]
    return []


def _floating_reasons(present: NumaBound) -> list[str]:
    """Return the reasons of a domain without claimed cells: it may only float over CPUs of its
    host.
    """
    bound = {
        "its vCPUs (vcpupin)": present["vcpu_pins"],
        "its emulator (emulatorpin)": present["emulator_pins"],
        "its memory (numatune)": (
            present["memory"] or any(cell["nodes"] for cell in present["cells"])
        ),
    }
    bindings = [name for name, value in bound.items() if value]
    if bindings:
        return [
            f"somebody bound {' and '.join(bindings)} to this host, and nobody knows to what at the"
            f" other one: {BY_HAND}"
        ]
    if present["pages"]:
        return [
            "it has huge pages, and nobody knows of which NUMA cell, so none were claimed for it:"
            f" {BY_HAND}"
        ]
    return []
