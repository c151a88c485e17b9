# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute nodes given as data, for fleets that libvirt does not reach, and for tests."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.tracker import node

_AMOUNTS = (
    "vcpus",
    "memory_mb",
    "local_gb",
    "reserved_host_cpus",
    "reserved_host_memory_mb",
    "reserved_host_disk_mb",
    "hypervisor_version",
    "num_io_ops",
    "failed_builds",
)
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
    "host_ip",
)
_STRUCTURES = {"stats": dict, "metrics": (dict, list), "cpu_info": dict, "supported_instances": list}
_OTHERS = {
    "disk_available_least_gb",
    *_STRUCTURES,
    "domains",
    "hypervisor",
    "traits",
    "cpu_shared_set",
    "cpu_dedicated_set",
}
KNOWN = {*_AMOUNTS, *_RATIOS, *_TEXTS, *_OTHERS}


def reports(nodes, host, options):
    """Reports for tracker.record.record() from a list of nodes given as data.

    :param nodes: a list of dicts of KNOWN keys. host defaults to ``host``; hypervisor is the whole
        facts of hypervisor_info in place of the figures.
    :param options: defaults for the options of each node.
    :returns: dict host -> list of described nodes.
    :raises DroverError: an unknown key, a wrong type, a negative amount.
    """
    found = {}
    for number, given in enumerate(nodes, start=1):
        data = {"host": host, **given}
        _check(data, f"nodes, item {number} ({data.get('hypervisor_hostname') or data['host']})")
        facts = data.get("hypervisor") or node.flat_facts(data)
        found.setdefault(data["host"], []).append(node.describe(facts, {**options, **data}))
    return found


def _check(data, where):
    unknown = sorted(set(data) - KNOWN)
    if unknown:
        raise DroverError(f"{where}: unknown key {', '.join(unknown)}. Known: {', '.join(sorted(KNOWN))}.")
    for name in _AMOUNTS:
        value = data.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            raise DroverError(f"{where}: {name} must be a whole number of 0 or more, not {value!r}.")
    for name in _RATIOS:
        value = data.get(name)
        if value is not None and (not isinstance(value, (int, float)) or isinstance(value, bool) or value <= 0):
            raise DroverError(f"{where}: {name} must be a number above 0, not {value!r}.")
    for name in _TEXTS:
        value = data.get(name)
        if value is not None and (not isinstance(value, str) or not 0 < len(value) <= 255):
            raise DroverError(f"{where}: {name} must be a text of 1 to 255 characters, not {value!r}.")
    for name, kind in _STRUCTURES.items():
        value = data.get(name)
        if value is not None and not isinstance(value, kind):
            raise DroverError(f"{where}: {name} must be a {'list' if kind is list else 'mapping'}, not {value!r}.")
    for number, domain in enumerate(data.get("domains") or [], start=1):
        if not isinstance(domain, dict) or not domain.get("uuid") or not domain.get("name"):
            raise DroverError(f"{where}: domain {number} needs a uuid and a name.")
