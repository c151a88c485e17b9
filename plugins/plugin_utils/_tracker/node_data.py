# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute nodes given as data, for fleets that libvirt does not reach, and for tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .._common import sizes, validation
from .._common.errors import DroverError
from .._common.validation import MOST, shown
from .._records.node_fields import NODE_FIELDS, NUMBER, TEXT
from . import checked_facts, hardware_facts, node
from .facts import HostFacts
from .hardware_facts import CPUS
from .node import NodeReport
from .node_options import NODE_OPTIONS

_GIVEN = [each for each in NODE_FIELDS if each.given]


def _options(*kinds: str) -> list[str]:
    """Return the names of the options of some types."""
    return [name for name, spec in NODE_OPTIONS.items() if spec["type"] in kinds]


_SIZES = {
    "memory_mb": sizes.MIB,
    "local_gb": sizes.GIB,
    "reserved_host_memory_mb": sizes.MIB,
    "reserved_host_disk_mb": sizes.MIB,
}
_AMOUNTS = (
    "vcpus",
    *_SIZES,
    *_options("int"),
    "hypervisor_version",
    *(each.name for each in _GIVEN if each.types == NUMBER),
)
_RATIOS = _options("float")
#: The readers of these options accept other types too.
_CPU_SETS = {"cpu_shared_set", "cpu_dedicated_set", "vcpu_pin_set"}
_TEXTS = (
    "host",
    "hypervisor_hostname",
    "uri",
    "hypervisor_type",
    *(name for name in _options("str", "path") if name not in _CPU_SETS),
    *(each.name for each in _GIVEN if each.types == TEXT),
)
_STRUCTURES = {each.name: each.types for each in _GIVEN if each.types not in (NUMBER, TEXT)}
_OTHERS = {
    "disk_available_least_gb",
    *_STRUCTURES,
    "domains",
    "hypervisor",
    "traits",
    "pools",
    "mounts",
    "addresses",
    "numa_cells",
    "pci_devices",
}
KNOWN = {*_AMOUNTS, *_TEXTS, *_OTHERS, *NODE_OPTIONS}


def reports(
    nodes: Iterable[Any], host: str, options: Mapping[str, object]
) -> dict[str, list[NodeReport]]:
    """Return reports for tracker.record.record() from a list of nodes given as data.

    :param nodes: a list of dicts of KNOWN keys. host defaults to ``host``; hypervisor has the whole
        facts of hypervisor_info and replaces the figures.
    :param options: defaults for the options of each node.
    :raises DroverError: an unknown key, a wrong type, a negative amount.
    """
    by_host: dict[str, list[node.NodeReport]] = {}
    for number, node_options in enumerate(nodes, start=1):
        if not isinstance(node_options, dict):
            raise DroverError(
                f"nodes, item {number}: must be a mapping such as host: kvm1, not {node_options!r}."
            )
        data = {"host": host, **node_options}
        where = f"nodes, item {number} ({data.get('hypervisor_hostname') or data['host']})"
        data.update(
            {
                name: sizes.read(f"{where}: {name}", data[name], unit)
                for name, unit in _SIZES.items()
                if isinstance(data.get(name), str)
            }
        )
        _check_data(data, where)
        by_host.setdefault(data["host"], []).append(
            node.describe(_facts(data, where), {**options, **data})
        )
    return by_host


def _facts(data: Mapping[str, object], where: str) -> HostFacts:
    """Return the facts of a node after their check; figures alone become facts first."""
    own = data.get("hypervisor")
    if own is not None and not isinstance(own, dict):
        raise DroverError(
            f"{where}: hypervisor must be a mapping as hypervisor_info returns it, not {own!r}."
        )
    if own is not None:
        return checked_facts.of_people(own, f"{where}, hypervisor", where)
    facts = node.flat_facts(data)
    return checked_facts.of_people(facts, f"Compute node {facts['hypervisor_hostname']}", where)


def _check_data(data: Mapping[str, Any], where: str) -> None:
    validation.check_keys(where, data, sorted(KNOWN))
    for name in _AMOUNTS:
        # The store has a row for each CPU number.
        checked_facts.amount(data, name, where, most=CPUS if name == "vcpus" else MOST)
    # An over-committed disk may have a negative amount left.
    checked_facts.amount(data, "disk_available_least_gb", where, least=-MOST)
    for name in _RATIOS:
        value = data.get(name)
        if value is not None and not (checked_facts.is_number(value) and value > 0):
            raise DroverError(f"{where}: {name} must be a number above 0, not {value!r}.")
    for name in _TEXTS:
        if data.get(name) is not None or name == "host":
            checked_facts.text(data, name, where)
    for name, types in _STRUCTURES.items():
        value = data.get(name)
        if value is not None and not isinstance(value, types):
            raise DroverError(
                f"{where}: {name} must be a {'mapping' if dict in types else 'list'}, not"
                f" {value!r}."
            )
    names = data.get("traits") or []
    if not isinstance(names, list) or not all(
        isinstance(name, str) and 0 < len(name) <= 255 for name in names
    ):
        raise DroverError(
            f"{where}: traits must be a list of texts of 1 to 255 characters, not {names!r}."
        )
    checked_facts.pools(data.get("pools"), where)
    cells = data.get("numa_cells") or []
    if not isinstance(cells, list) or not all(isinstance(each, dict) for each in cells):
        raise DroverError(
            f"{where}: numa_cells must be a list of mappings as hypervisor_info returns it, not"
            f" {shown(cells)}."
        )
    hardware_facts.cells(cells, where)
