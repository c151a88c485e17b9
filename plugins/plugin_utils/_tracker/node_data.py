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
from .hardware_facts import CPUS
from .node import NodeReport

_GIVEN = [each for each in NODE_FIELDS if each.given]
_AMOUNTS = (
    "vcpus",
    "memory_mb",
    "local_gb",
    "reserved_host_cpus",
    "reserved_host_memory_mb",
    "reserved_host_disk_mb",
    "hypervisor_version",
    *(each.name for each in _GIVEN if each.types == NUMBER),
)
_SIZES = {
    "memory_mb": sizes.MIB,
    "local_gb": sizes.GIB,
    "reserved_host_memory_mb": sizes.MIB,
    "reserved_host_disk_mb": sizes.MIB,
}
_RATIOS = ("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio")
_TEXTS = (
    "host",
    "hypervisor_hostname",
    "uri",
    "hypervisor_type",
    "availability_zone",
    "cell",
    "migration_uri",
    "migration_address",
    "instances_path",
    *(each.name for each in _GIVEN if each.types == TEXT),
)
_STRUCTURES = {each.name: each.types for each in _GIVEN if each.types not in (NUMBER, TEXT)}
_OTHERS = {
    "disk_available_least_gb",
    *_STRUCTURES,
    "labels",
    "domains",
    "hypervisor",
    "traits",
    "pools",
    "mounts",
    "addresses",
    "shared_pools",
    "shared_block_devices",
    "ip_pools",
    "storage_pools",
    "cpu_shared_set",
    "cpu_dedicated_set",
    "vcpu_pin_set",
    "reserved_huge_pages",
    "pci_device_specs",
    "pci_report_in_placement",
    "mdev_types",
    "numa_report_in_placement",
    "numa_cells",
    "pci_devices",
}
KNOWN = {*_AMOUNTS, *_RATIOS, *_TEXTS, *_OTHERS}


def reports(
    nodes: Iterable[Any], host: str, options: Mapping[str, Any]
) -> dict[str, list[NodeReport]]:
    """Return reports for tracker.record.record() from a list of nodes given as data.

    :param nodes: a list of dicts of KNOWN keys. host defaults to ``host``; hypervisor has the whole
        facts of hypervisor_info and replaces the figures.
    :param options: defaults for the options of each node.
    :raises DroverError: an unknown key, a wrong type, a negative amount.
    """
    found: dict[str, list[node.NodeReport]] = {}
    for number, given in enumerate(nodes, start=1):
        if not isinstance(given, dict):
            raise DroverError(
                f"nodes, item {number}: must be a mapping such as host: kvm1, not {given!r}."
            )
        data = {"host": host, **given}
        where = f"nodes, item {number} ({data.get('hypervisor_hostname') or data['host']})"
        data.update(
            {
                name: sizes.read(f"{where}: {name}", data[name], unit)
                for name, unit in _SIZES.items()
                if isinstance(data.get(name), str)
            }
        )
        _check(data, where)
        facts = data.get("hypervisor") or node.flat_facts(data)
        facts = (
            {**facts, "domains": _checked(facts["domains"], where)}
            if facts.get("domains")
            else facts
        )
        found.setdefault(data["host"], []).append(node.describe(facts, {**options, **data}))
    return found


def _check(data: Mapping[str, Any], where: str) -> None:
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
                f"{where}: {name} must be a {'mapping' if dict in types else 'list'}, not {value!r}."
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
            f"{where}: numa_cells must be a list of mappings as hypervisor_info returns it, not {shown(cells)}."
        )
    hardware_facts.cells(cells, where)
    facts = data.get("hypervisor")
    if facts is not None:
        if not isinstance(facts, dict):
            raise DroverError(
                f"{where}: hypervisor must be a mapping as hypervisor_info returns it, not {facts!r}."
            )
        checked_facts.host(facts, f"{where}, hypervisor")


def _checked(domains: Any, where: str) -> list[dict[str, Any]]:
    """Return the checked domains of data from people. Nothing of them is mended or left out."""
    if not isinstance(domains, list):
        raise DroverError(f"{where}: domains must be a list, not {domains!r}.")
    seen: set[str] = set()
    return [
        checked_facts.domain(each, f"{where}: domain {number}", seen)
        for number, each in enumerate(domains, start=1)
    ]
