# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute nodes given as data, for fleets that libvirt does not reach, and for tests."""

from __future__ import annotations

import math
import uuid

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
_DOMAIN_AMOUNTS = ("vcpus", "memory_mb", "disk_gb")
_MOST = 2**31 - 1
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
    "instances_path",
)
_STRUCTURES = {"stats": dict, "metrics": (dict, list), "cpu_info": dict, "supported_instances": list}
_OTHERS = {
    "disk_available_least_gb",
    *_STRUCTURES,
    "domains",
    "hypervisor",
    "traits",
    "pools",
    "shared_pools",
    "ip_pools",
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
        if not isinstance(given, dict):
            raise DroverError(f"nodes, item {number}: must be a mapping such as host: kvm1, not {given!r}.")
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
        _check_amount(data, name, where)
    # A disk that is over-committed may have less than nothing left.
    least = data.get("disk_available_least_gb")
    if least is not None and (not isinstance(least, int) or isinstance(least, bool) or abs(least) > _MOST):
        raise DroverError(f"{where}: disk_available_least_gb must be a whole number, not {least!r}.")
    for name in _RATIOS:
        value = data.get(name)
        if value is not None and not (_is_number(value) and 0 < value < math.inf):
            raise DroverError(f"{where}: {name} must be a number above 0, not {value!r}.")
    for name in _TEXTS:
        if data.get(name) is not None or name == "host":
            _check_text(data, name, where)
    for name, kind in _STRUCTURES.items():
        value = data.get(name)
        if value is not None and not isinstance(value, kind):
            raise DroverError(f"{where}: {name} must be a {'list' if kind is list else 'mapping'}, not {value!r}.")
    names = data.get("traits") or []
    if not isinstance(names, list) or not all(isinstance(name, str) and 0 < len(name) <= 255 for name in names):
        raise DroverError(f"{where}: traits must be a list of texts of 1 to 255 characters, not {names!r}.")
    _check_pools(data.get("pools"), where)
    facts = data.get("hypervisor")
    if facts is not None:
        if not isinstance(facts, dict):
            raise DroverError(f"{where}: hypervisor must be a mapping as hypervisor_info returns it, not {facts!r}.")
        _check_text(facts, "hypervisor_hostname", f"{where}, hypervisor")
    _check_domains((data if facts is None else facts).get("domains") or [], where)


def _check_pools(pools, where):
    if pools is not None and not (isinstance(pools, list) and all(isinstance(pool, dict) for pool in pools)):
        raise DroverError(f"{where}: pools must be a list of mappings as hypervisor_info returns them, not {pools!r}.")
    for pool in pools or []:
        _check_text(pool, "name", f"{where}, pools")
        for name in ("path", "shared_id", "state"):
            if pool.get(name) is not None:
                _check_text(pool, name, f"{where}, pools, {pool['name']}")


def _check_domains(domains, where):
    if not isinstance(domains, list):
        raise DroverError(f"{where}: domains must be a list, not {domains!r}.")
    seen = set()
    for number, domain in enumerate(domains, start=1):
        if not isinstance(domain, dict) or not domain.get("uuid") or not domain.get("name"):
            raise DroverError(f"{where}: domain {number} needs a uuid and a name.")
        place = f"{where}: domain {number} ({domain['name']})"
        _check_text(domain, "name", place)
        try:
            same = str(uuid.UUID(domain["uuid"])) == domain["uuid"]
        except (ValueError, AttributeError, TypeError):
            same = False
        if not same:
            raise DroverError(f"{place}: {domain['uuid']!r} is no uuid in lower case.")
        if domain["uuid"] in seen:
            raise DroverError(f"{place}: uuid {domain['uuid']} stands twice. Each domain has its own.")
        seen.add(domain["uuid"])
        for name in _DOMAIN_AMOUNTS:
            _check_amount(domain, name, place)


def _check_amount(data, name, where):
    value = data.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST):
        raise DroverError(f"{where}: {name} must be a whole number of 0 or more, at most {_MOST}, not {value!r}.")


def _check_text(data, name, where):
    value = data.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= 255:
        raise DroverError(f"{where}: {name} must be a text of 1 to 255 characters, not {value!r}.")


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)
