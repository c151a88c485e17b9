# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts as a table: allocated and free amounts, and their age."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._common import labels
from .._common.errors import natural, said_once
from . import formatting
from .anchor import command
from .attention import EVACUATE
from .text import align, state
from .view import FIGURES, sums, takes_instances

HEADINGS = (
    "HOST",
    "STATE",
    "ZONE",
    "VCPU",
    "MEMORY",
    "DISK",
    "INSTANCES",
    "SEEN",
    "FREE VCPU, MEMORY, DISK",
    "LABELS",
    "REASON",
)
NUMBERS = ("VCPU", "MEMORY", "DISK", "INSTANCES")
FREE = "FREE VCPU, MEMORY, DISK"
EMPTY = "The store has no hosts yet. Run the playbook drover.compute.discover."
UNITS = {"vcpus": formatting.COUNT, "memory_mb": formatting.MEMORY, "disk_gb": formatting.DISK}


def hosts_table(hosts: Sequence[Mapping[str, Any]], now: float) -> list[str]:
    """Return hosts by name, one line each, and the free amounts of the hosts that take instances; a
    sentence if there are none.

    :param hosts: dicts from hosts.listing of the store: host, state (up or down), status (enabled
        or disabled), maintenance, disabled_reason, down_reason, last_seen_up, zones, instances,
        nodes, and for each of vcpus, memory_mb (MiB) and disk_gb (GiB) NAME_used and NAME_capacity,
        which is (total - reserved) x ratio; labels; disk_pool, which marks the disk as shared. A
        missing value is shown as ``-``; zones, labels and reasons that no host has are left out.
    :param now: seconds since 1970.
    """
    if not hosts:
        return [EMPTY]
    ordered = sorted(hosts, key=lambda each: natural(each["host"]))
    rows = [_row(host, now) for host in ordered]
    shown = [
        at
        for at, name in enumerate(HEADINGS)
        if name not in ("ZONE", "LABELS", "REASON") or any(row[at] for row in rows)
    ]
    headings, rows = [HEADINGS[at] for at in shown], [[row[at] for at in shown] for row in rows]
    # The free amounts follow from the used ones, and few hosts have zones.
    optional = [each for each in ("LABELS", FREE, "ZONE") if each in headings]
    lines = align(headings, rows, right=NUMBERS, optional=optional)
    return lines + _free(hosts) + _restarts(ordered)


def _restarts(hosts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the next step for hosts that are down with instances."""
    lost = [each for each in hosts if each.get("state") == "down" and each.get("instances")]
    return said_once(
        (
            each["host"],
            (
                f"{each['host']} is down and has instances: {command(EVACUATE, each['host'])} shows"
                " how they restart elsewhere."
            ),
        )
        for each in lost
        if command(EVACUATE, each["host"])
    )


def _row(host: Mapping[str, Any], now: float) -> list[Any]:
    seen = host.get("last_seen_up")
    reasons = [host[key] for key in ("disabled_reason", "down_reason") if host.get(key)]
    figures = [
        formatting.share(host.get(f"{name}_used"), host.get(f"{name}_capacity"), units)
        for name, units in UNITS.items()
    ]
    if figures[2] and host.get("disk_pool"):
        figures[2] += " shared"
    return [
        host["host"],
        state(host),
        host.get("zones"),
        *figures,
        host.get("instances"),
        "never" if seen is None else formatting.ago(now - seen),
        _amounts(
            {
                name: host[f"{name}_capacity"] - host[f"{name}_used"]
                for name in UNITS
                if f"{name}_capacity" in host
            }
        ),
        labels.as_text(host.get("labels")),
        "; ".join(reasons),
    ]


def _free(hosts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the free amounts of all hosts that take instances, each shared pool counted once."""
    taking = [host for host in hosts if host.get("nodes") and takes_instances(host)]
    if len(hosts) < 2 or not taking:
        return []
    free = _amounts(
        {each["name"]: each["capacity"] - each["used"] for each in sums(taking)},
        ("vCPU", "memory", "disk"),
    )
    return ["", f"Free on the hosts that take instances ({len(taking)} of {len(hosts)}): {free}."]


def _amounts(free: Mapping[str, float], labels: Sequence[str] = ("", "", "")) -> str:
    """Write free amounts such as ``41, 51 GiB, 350 GiB``; an overused resource has 0 free."""
    texts = ((name, text_of) for name, _label, text_of in FIGURES if name in free)
    words = [text_of(max(free[name], 0)) for name, text_of in texts]
    return ", ".join(f"{word} {label}".rstrip() for word, label in zip(words, labels))
