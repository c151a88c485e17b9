# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Aligned columns of plain text, for terminals and job logs: hosts, instances, what an audit found."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils import resource_classes
from ansible_collections.drover.compute.plugins.plugin_utils.errors import node_label
from ansible_collections.drover.compute.plugins.plugin_utils.report.formatting import natural

GAP = "  "


def width(text: str) -> int:
    """How many columns of a terminal a text takes.

    Wide East Asian characters take two, marks that combine with the character before none.
    """
    columns = 0
    for char in text:
        if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
            continue
        columns += 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1
    return columns


def cell(value: Any) -> str:
    """One value as a cell: None as ``-``, booleans as yes and no, floats short, always one line."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    if isinstance(value, (list, tuple)):
        return ", ".join(cell(item) for item in value) or "-"
    return " ".join("".join(char if char.isprintable() else " " for char in str(value)).split()) or "-"


def shortened(value: Any, most: int) -> str:
    """A cell cut to so many columns of a terminal."""
    text = cell(value)
    if width(text) <= most:
        return text
    kept = ""
    for char in text:
        if width(kept + char) > most - 3:
            break
        kept += char
    return kept + "..."


def align(headings: Sequence[str], rows: Sequence[Sequence[Any]], right: Collection[str] = (), indent: str = "") -> list[str]:
    """Values under headings.

    :param right: headings of the columns whose values (numbers) end under each other.
    :param indent: put before every line.
    :returns: a list of lines without trailing blanks, the headings first.
    :raises ValueError: a row has another number of values than there are headings.
    """
    texts = [[cell(value) for value in row] for row in rows]
    for row in texts:
        if len(row) != len(headings):
            raise ValueError(f"a row has {len(row)} values, the table has {len(headings)} columns")
    lines = [list(headings)] + texts
    widths = [max(width(line[number]) for line in lines) for number in range(len(headings))]

    def aligned(line: Sequence[str]) -> str:
        cells = []
        for heading, text, most in zip(headings, line, widths):
            blanks = " " * (most - width(text))
            cells.append(blanks + text if heading in right else text + blanks)
        return (indent + GAP.join(cells)).rstrip()

    return [aligned(line) for line in lines]


#: Below this much memory (MiB) a host's is shown in MiB, from here on in GiB.
SHOWN_IN_GIB = 16 * 1024

HOST_HEADINGS = ("HOST", "STATE", "ZONE", "VCPU", "RAM", "DISK", "INSTANCES", "REASON")
HOST_NUMBERS = ("VCPU", "RAM", "DISK", "INSTANCES")
INSTANCE_HEADINGS = ("INSTANCE", "STATE", "HOST", "VCPU", "MiB", "GiB", "GROUP", "PROJECT")
INSTANCE_NUMBERS = ("VCPU", "MiB", "GiB")


def hosts_table(hosts: Iterable[Mapping[str, Any]]) -> list[str]:
    """Hosts by name, one line each: what is allocated and what may be.

    :param hosts: dicts as the store's hosts.listing returns them: host, state (up or down), status
        (enabled or disabled), maintenance, disabled_reason, down_reason, zones, instances, and of
        vcpus, memory_mb (MiB) and disk_gb (GiB) NAME_used and NAME_capacity, which is
        (total - reserved) x ratio; disk_pool, with which the disk is marked as shared. What is missing is
        shown as ``-``.
    """
    rows = [_host(host) for host in sorted(hosts, key=lambda each: natural(each["host"]))]
    return align(HOST_HEADINGS, rows, right=HOST_NUMBERS)


def instances_table(instances: Iterable[Mapping[str, Any]]) -> list[str]:
    """Instances, one line each.

    :param instances: dicts as the store's instances.listing returns them: name, state, host, node,
        vcpus, memory_mb (MiB), disk_gb (GiB), server_group, project.
    """
    keys = (*resource_classes.KEYS.values(), "server_group", "project")
    rows = [[each.get("name"), each.get("state"), place(each), *(each.get(key) for key in keys)] for each in instances]
    return align(INSTANCE_HEADINGS, rows, right=INSTANCE_NUMBERS)


def place(row: Mapping[str, Any]) -> str | None:
    """Where something is: the host, and the compute node where its name says more."""
    return node_label(row.get("host") or "", row.get("node")) or None


def state(host: Mapping[str, Any]) -> str:
    """``up``, ``down``, ``up, disabled``, ``up, maintenance``..."""
    words = [host.get("state") or "up"]
    if host.get("maintenance"):
        words.append("maintenance")
    elif host.get("status") == "disabled":
        words.append("disabled")
    return ", ".join(words)


def _host(host: Mapping[str, Any]) -> list[Any]:
    unit, divisor = ("GiB", 1024) if (host.get("memory_mb_capacity") or 0) >= SHOWN_IN_GIB else ("MiB", 1)
    reasons = [host[key] for key in ("disabled_reason", "down_reason") if host.get(key)]
    return [
        host["host"],
        state(host),
        host.get("zones"),
        _share(host, "vcpus"),
        _share(host, "memory_mb", divisor, unit),
        _share(host, "disk_gb", 1, "GiB shared" if host.get("disk_pool") else "GiB"),
        host.get("instances"),
        "; ".join(reasons),
    ]


def _share(host: Mapping[str, Any], name: str, divisor: int = 1, unit: str = "") -> str | None:
    """``3/8``, ``1.5/64 GiB``."""
    capacity = host.get(f"{name}_capacity")
    if capacity is None:
        return None
    used = host.get(f"{name}_used") or 0
    return f"{_short(used / divisor)}/{_short(capacity / divisor)} {unit}".rstrip()


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


FINDING_HEADINGS = ("FINDING", "NAME", "HOST", "WHY", "HEAL")
#: More columns of a terminal than this a name does not get; the data has it whole.
WIDEST = 32
#: The same for what is told of it.
WIDEST_WHY = 100


def audit_table(findings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Findings, one line each, then what to do about each kind.

    :param findings: dicts as placement.audit returns them.
    :returns: a list of lines; none when there are no findings.
    """
    if not findings:
        return []
    rows = [
        [
            each["kind"],
            shortened(each["name"] or each["provider"] or each["uuid"], WIDEST),
            shortened(each["host"], WIDEST),
            shortened(each["why"], WIDEST_WHY),
            each["heal"],
        ]
        for each in findings
    ]
    advice = {each["kind"]: each["advice"] for each in findings}
    return [*align(FINDING_HEADINGS, rows), "", *(f"{kind}: {text}" for kind, text in advice.items())]
