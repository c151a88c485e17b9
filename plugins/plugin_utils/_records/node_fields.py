# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The properties of compute nodes that hosts report: one row for each property; all packages derive
their treatment of it from its row.

The tracker checks and records the properties, the store has a column for each, and the host states
of the scheduler have the ones that the scheduler reads. CONTRIBUTING.md lists the files that a new
one touches.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

#: When store.host_columns reads a field, for the host states.
ALWAYS, ON_DEMAND, NEVER = "always", "on demand", "never"
NUMBER, TEXT = (int,), (str,)


class NodeField(NamedTuple):
    """A property of compute nodes."""

    #: The name of the column in the store, and of the attribute of host states.
    name: str
    #: NUMBER, TEXT, or the types of a structure, which the store has as JSON.
    types: tuple[type, ...]
    #: The path of the property in the facts of hypervisor_info; empty if libvirt has no such fact.
    fact: tuple[str, ...] = ()
    #: True if a node in given data may have the property under this name; the given value overrides
    #: the fact.
    given: bool = False
    read: str = NEVER
    #: True if requests and policies may name it.
    attribute: bool = True
    #: True if it changes by itself; a new value is then no change by the operator.
    volatile: bool = False
    #: The default of a new node; the column may be null without it.
    default: int | None = None
    #: The value of an unknown number in the host states.
    unknown: float = 0
    #: True if a number may be negative.
    signed: bool = False
    #: The most characters of a text.
    length: int = 255


NODE_FIELDS = (
    NodeField("hypervisor_type", TEXT, ("hypervisor_type",), read=ON_DEMAND),
    NodeField("hypervisor_version", NUMBER, ("hypervisor_version",), read=ON_DEMAND),
    # MiB; without buffers and caches, so that it may be negative.
    NodeField("memory_mb_used", NUMBER, ("memory_used_mb",), volatile=True, signed=True),
    # GiB.
    NodeField("local_gb_used", NUMBER, ("storage", "used_gb"), volatile=True),
    # GiB; negative if the disk is overcommitted.
    NodeField(
        "disk_available_least",
        NUMBER,
        ("storage", "disk_available_least_gb"),
        read=ALWAYS,
        attribute=False,
        volatile=True,
        unknown=math.inf,
        signed=True,
    ),
    NodeField("cpu_info", (dict,), ("cpu",), given=True, read=ON_DEMAND),
    # The CPU that guests can have: arch, type, vendor, model, features; null if libvirt does not
    # report it.
    NodeField("host_model", (dict,), ("host_model",), attribute=False),
    # The cells with the CPU sets and reserved pages of the host, see tracker.host_cells; null if
    # the host reports no cells.
    NodeField("numa_cells", (list,), read=ON_DEMAND, attribute=False),
    # The shared CPUs of all cells; null if all CPUs serve all instances.
    NodeField("shared_cpus", (list,), attribute=False),
    NodeField("supported_instances", (list,), ("supported_instances",), given=True, read=ON_DEMAND),
    NodeField("host_ip", TEXT, given=True, read=ON_DEMAND, length=64),
    NodeField("stats", (dict,), given=True, read=ON_DEMAND, volatile=True),
    NodeField("metrics", (dict, list), given=True, read=ON_DEMAND, volatile=True),
    NodeField("num_io_ops", NUMBER, given=True, read=ALWAYS, volatile=True, default=0),
    NodeField("failed_builds", NUMBER, given=True, read=ALWAYS, volatile=True, default=0),
    # Pools, networks, devices and the rest that discovery reads, see tracker.node.
    NodeField("facts", (dict,), volatile=True),
)


def read_when(*when: str) -> tuple[NodeField, ...]:
    """Return the fields that are read at some time: ALWAYS, ON_DEMAND."""
    return tuple(each for each in NODE_FIELDS if each.read in when)


def fact_at(facts: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """Return the fact at a path; None if it is missing or an empty mapping."""
    fact: Any = facts
    for key in path:
        fact = (fact or {}).get(key)
    return None if fact == {} else fact
