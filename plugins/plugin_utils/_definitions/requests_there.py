# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The extra specs, NUMA cells and PCI devices of an instance compared with its definition, in the
words of extra specs.

Extra specs are read from the record of the instance. CPUs, cells, pages and devices are read from
the claims of the instance on its host.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from .._numa.guest import ANY, ISOLATE, LARGE, PREFER, SHARED, SMALL, GuestTopology
from .._numa.pinning import topology_of
from .._numa.request import HostRequest
from .._records.flavors import FlavorFields
from .definition import Resolved
from .devices_there import Difference

ALIAS = "pci_passthrough:alias"
#: Specs that keys of a definition write too. The domain shows more about them.
OF_DOMAIN = ("hw:tpm_version", "hw:tpm_model", "os:secure_boot")
_SMALL_PAGE = 4
_NEW = (
    "it is an extra spec of the instance itself, which no resize changes. Remove the instance and"
    " place it again, or take the key out of its definition"
)
_RESIZE = (
    "resize it with drover.compute.instance_resize to a flavor of another name with the wanted"
    " extra specs, and name that flavor in the definition. A resize to the flavor that it has"
    " changes nothing"
)


def differing(
    definition: Resolved,
    there: Mapping[str, Any],
    flavors: Mapping[str, FlavorFields],
    of_domain: bool,
) -> list[Difference]:
    """Compare the request of a definition with its instance.

    :param definition: a result of identity.resolve().
    :param there: the facts in the store: flavor (its name), extra_specs (its own), vcpus, memory_mb
        (MiB), cells and devices, see instances.kept().
    :param flavors: the flavors of the store, by name.
    :param of_domain: True if the values of the domain are compared elsewhere.
    """
    own_there, own_wanted = (
        there["extra_specs"] or {},
        definition["selection"].get("extra_specs") or {},
    )
    flavor_specs = flavors.get(there["flavor"] or "", {}).get("extra_specs")
    specs_there = {**(flavor_specs or {}), **own_there}
    specs_wanted = {**definition["guest"]["extra_specs"], **own_wanted}
    if flavor_specs is None and there["flavor"] and there["flavor"] == definition.get("flavor"):
        # The flavor was deleted, and nothing is known of its specs.
        specs_wanted = dict(own_wanted)
    differences = []
    for key in sorted({*specs_there, *specs_wanted}):
        has, asked = specs_there.get(key), specs_wanted.get(key)
        if has != asked and not (of_domain and key in OF_DOMAIN):
            differences.append(_difference(key, has, asked, _NEW if key in own_there else _RESIZE))
    named = {each.key for each in differences}
    differences += [each for each in _topology(definition, there) if each.key not in named]
    return (
        differences
        if _name_of_extra_spec(ALIAS) in named
        else differences + _devices(definition, specs_wanted, there)
    )


def _difference(key: str, there: Any, wanted: Any, way: str) -> Difference:
    texts = ["none" if each in (None, "") else str(each) for each in (there, wanted)]
    return Difference(_name_of_extra_spec(key), texts[0], texts[1], way=way)


def _name_of_extra_spec(key: str) -> str:
    return f"extra spec {key}"


def _topology(definition: Resolved, there: Mapping[str, Any]) -> list[Difference]:
    """Compare CPUs, cells and pages. Nothing is compared if the domain is bound in another way than
    by a claim.
    """
    has = topology_of(there["cells"], there["vcpus"])
    if there["cells"] and has is None:
        return []
    data = definition["selection"].get("host_request")
    topology = (
        HostRequest.from_data(data, f"Instance {definition['name']}").topology if data else None
    )
    differences = [
        _difference(f"hw:{key}", said(has), said(topology), _RESIZE)
        for key, said in _POLICIES.items()
        if said(has) != said(topology)
    ]
    pages = [each.page_size if each is not None else None for each in (has, topology)]
    if not _is_page(pages[0], pages[1]):
        differences.append(_difference("hw:mem_page_size", pages[0], pages[1], _RESIZE))
    count, wanted = (len(each.cells) if each is not None else 0 for each in (has, topology))
    if count != wanted and (not differences or {count, wanted} != {0, 1}):
        differences.append(_difference("hw:numa_nodes", count or None, wanted or None, _RESIZE))
    elif (
        has is not None
        and topology is not None
        and (there["vcpus"], there["memory_mb"]) == (definition["vcpus"], definition["memory_mb"])
    ):
        for number, (mine, other) in enumerate(zip(has.cells, topology.cells)):
            pairs = {
                "numa_cpus": tuple(_set({*cell.shared, *cell.pinned}) for cell in (mine, other)),
                "numa_mem": (str(mine.memory_mb), str(other.memory_mb)),
            }
            differences += [
                _difference(f"hw:{key}.{number}", pair[0], pair[1], _RESIZE)
                for key, pair in pairs.items()
                if pair[0] != pair[1]
            ]
    return differences


def _devices(
    definition: Resolved, specs: Mapping[str, Any], there: Mapping[str, Any]
) -> list[Difference]:
    """Compare the number of PCI devices, including the devices of interfaces."""
    devices = sum(
        int(count)
        for count in re.findall(r":\s*([0-9]{1,5})\s*(?:,|$)", str(specs.get(ALIAS) or ""))
    )
    ports = sum(bool(network.get("vnic")) for network in definition.get("networks") or ())
    has = len(there["devices"])
    if has == devices + ports:
        return []
    return [Difference("PCI devices", str(has), str(devices + ports), way=_RESIZE)]


def _mask(topology: GuestTopology | None) -> str:
    if topology is None or not any(cell.shared for cell in topology.cells):
        return ""
    return _set({cpu for cell in topology.cells for cpu in cell.pinned})


def _is_page(there: int | str | None, wanted: int | str | None) -> bool:
    """Return True if a page size is one of the requested ones."""
    if isinstance(there, int):
        fits = {SMALL: there == _SMALL_PAGE, LARGE: there > _SMALL_PAGE, ANY: True}
        return fits[wanted] if isinstance(wanted, str) else there == wanted
    return wanted is None or wanted in (SMALL, ANY)


def _set(cpus: set[int]) -> str:
    return ",".join(map(str, sorted(cpus)))


#: Key without hw: -> its text for a guest.
_POLICIES: dict[str, Callable[[GuestTopology | None], str]] = {
    "cpu_policy": lambda each: (each.cpu_policy if each is not None else None) or SHARED,
    "cpu_dedicated_mask": _mask,
    "cpu_thread_policy": lambda each: (each.thread_policy if each is not None else None) or PREFER,
    "emulator_threads_policy": lambda each: (
        ISOLATE if each is not None and each.emulator_policy == ISOLATE else ""
    ),
}
