# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks of CPUs, pages and devices that one instance has for itself. Nothing is repaired: only
the hosts can change it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from ..._common.errors import some
from .findings import Findings
from .snapshot import AuditSnapshot

#: The types of devices that only one domain at a time can have; a USB device is found by its ids at
#: each start.
_DEVICES = ("pci", "mdev", "vdpa")


def examine(seen: AuditSnapshot, found: Findings) -> None:
    """Find CPUs and devices that several instances have, pins to CPUs that are not for that, and
    more pages than there are.
    """
    for node in sorted(seen.numa):
        _overlaps(seen, found, node)
        _pages(seen, found, node)
    for uuid, places in seen.domains.items():
        for node, domain in places.items():
            if domain.numa:
                _outside(seen, found, uuid, node)
            if uuid in seen.open:
                _unclaimed(seen, found, uuid, node)
    _devices(seen, found)


def _users(seen: AuditSnapshot, node: int) -> dict[int, set[str]]:
    """Return the instances that a CPU of a node is claimed for, by CPU."""
    users: dict[int, set[str]] = {}
    for domain in seen.numa.get(node, ()):
        for cell in domain["cells"]:
            for cpu in (*cell["pins"].values(), *cell["reserved"]):
                users.setdefault(cpu, set()).add(_instance(seen, domain["uuid"]))
    return users


def _overlaps(seen: AuditSnapshot, found: Findings, node: int) -> None:
    shared: dict[tuple[str, ...], list[int]] = {}
    for cpu, uuids in _users(seen, node).items():
        if len(uuids) > 1:
            shared.setdefault(tuple(sorted(uuids)), []).append(cpu)
    for together, cpus in sorted(shared.items()):
        reason = (
            f"{_cpus(cpus)} of {seen.host(node)} {'is' if len(cpus) == 1 else 'are'} pinned for"
            f" {_names_of_instances(seen, together)}."
        )
        found.add(
            "pins_overlap",
            reason,
            "leaves it: only the host can change pins",
            _what(seen, together, node),
        )


def _instance(seen: AuditSnapshot, uuid: str) -> str:
    """Return the instance of a consumer, which may be a migration at its source: a guest does not
    overlap with itself.
    """
    migration = seen.migrations.get(uuid)
    return migration.instance_uuid if migration is not None else uuid


def _outside(seen: AuditSnapshot, found: Findings, uuid: str, node: int) -> None:
    cells, numa = _cells(seen, node), seen.domains[uuid][node].numa
    if not cells or not numa:
        return
    pinnable = {cpu for cell in cells for cpu in cell["pcpus"]}
    pins = {cpus[0] for cpus in (numa.get("vcpu_pins") or {}).values() if len(cpus) == 1}
    if pins - pinnable:
        reason = (
            f"It is pinned to {_cpus(pins - pinnable)}, which {seen.host(node)} does not keep for"
            " pinned vCPUs."
        )
        found.add(
            "pins_outside",
            reason,
            "leaves it: only the host can change pins",
            _what(seen, [uuid], node),
        )


def _unclaimed(seen: AuditSnapshot, found: Findings, uuid: str, node: int) -> None:
    """Find CPUs of an instance that moves which are not claimed for it at that end, as it runs or
    as it starts next time.

    Without a move, a discovery claims the CPUs of a domain.
    """
    moves, domain, cells = seen.open[uuid], seen.domains[uuid][node], _cells(seen, node)
    numa = domain.numa or {}
    pinnable = {cpu for cell in cells for cpu in cell["pcpus"]}
    # On others shared vCPUs may float.
    own = pinnable - {cpu for cell in cells for cpu in cell["cpus"]}
    sets = [
        *(numa.get("vcpu_pins") or {}).values(),
        numa.get("emulator_pins") or [],
        numa.get("cpuset") or [],
    ]
    named = {cpu for cpus in sets for cpu in cpus if cpu in (pinnable if len(cpus) == 1 else own)}
    named |= pinnable.intersection(domain.next_start_cpus or ())
    users = _users(seen, node)
    foreign = {cpu for cpu in named if uuid not in users.get(cpu, ())}
    if not foreign:
        return
    taken = {cpu for cpu in foreign if cpu in users}
    reason = (
        f"It is pinned to {_cpus(foreign)} of {seen.host(node)}, not claimed for it there, while"
        f" its migration from {moves[0].source} to {moves[0].destination} is open."
    )
    if taken:
        others = set().union(*(users[cpu] for cpu in taken))
        reason += (
            f" {_cpus(taken)} {'is' if len(taken) == 1 else 'are'} claimed for"
            f" {_names_of_instances(seen, others)}."
        )
    found.add(
        "pins_unclaimed",
        reason,
        "leaves it: only the host can change pins",
        _what(seen, [uuid], node),
    )


def _pages(seen: AuditSnapshot, found: Findings, node: int) -> None:
    totals = {
        (cell["id"], page["size_kb"]): page["total"]
        for cell in _cells(seen, node)
        for page in cell["pages"]
    }
    used: Counter[tuple[int, int]] = Counter()
    users: dict[tuple[int, int], set[str]] = {}
    for domain in seen.numa[node]:
        for cell in domain["cells"]:
            if cell["page_kb"]:
                key = (cell["host"], cell["page_kb"])
                used[key] += cell["memory_mb"] * 1024 // cell["page_kb"]
                users.setdefault(key, set()).add(domain["uuid"])
    for key, count in sorted(used.items()):
        total = totals.get(key, 0)
        if count > total:
            number, size = key
            reason = (
                f"{_names_of_instances(seen, users[key])} have {count} pages of {size} KiB in cell {number} of"
                f" {seen.host(node)}, which has {total}."
            )
            found.add(
                "pages_exceeded",
                reason,
                "leaves it: what runs has its pages",
                {"host": seen.host(node)},
            )


def _devices(seen: AuditSnapshot, found: Findings) -> None:
    users: dict[tuple[int, str], set[str]] = {}
    for uuid, places in seen.domains.items():
        for node, row in places.items():
            for device in row.hostdevs or ():
                address = device.get("address")
                if device.get("type") in _DEVICES and address:
                    users.setdefault((node, address), set()).add(uuid)
    for (node, address), uuids in sorted(users.items()):
        if len(uuids) > 1:
            reason = f"The device {address} of {seen.host(node)} is in {_names_of_instances(seen, uuids)}."
            found.add(
                "device_doubled",
                reason,
                "leaves it: only the host can change domains",
                _what(seen, uuids, node),
            )


def _cells(seen: AuditSnapshot, node: int) -> list[dict[str, Any]]:
    return seen.nodes[node].numa_cells or []


def _what(seen: AuditSnapshot, uuids: Iterable[str], node: int) -> dict[str, str | None]:
    """Return the object of a finding: the first of the instances by name."""
    uuid = min(uuids, key=lambda each: (seen.name(each), each))
    return {"uuid": uuid, "name": seen.name(uuid), "host": seen.host(node)}


def _names_of_instances(seen: AuditSnapshot, uuids: Iterable[str]) -> str:
    return some(sorted({seen.name(uuid) for uuid in uuids}), 5)


def _cpus(cpus: Iterable[int]) -> str:
    found = sorted(cpus)
    return f"CPU{'s' if len(found) > 1 else ''} {', '.join(map(str, found))}"
