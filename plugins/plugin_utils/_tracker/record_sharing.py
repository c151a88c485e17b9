# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The storage pools and pools of IP addresses that the nodes of a discovery share.

Data in, data out: _placement.shared_pools writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .._placement.shared_pools import DISK, Addresses, SharedPools, contradiction
from .._placement.sharing import SharingProvider
from . import record_pools
from .node import NodeReport
from .sharing_facts import uuid_of


class SharedParts:
    """The shared pools of nodes, collected node after node in the order of their names."""

    def __init__(self) -> None:
        # The keys are uuids of aggregates: pools, their origins, their traits now and before.
        self._instances: dict[str, SharingProvider] = {}
        self._further: dict[str, SharingProvider] = {}
        self._origins: dict[str, str] = {}
        self._traits: dict[str, set[str]] = {}
        self._reported: dict[str, set[str]] = {}
        #: (host, definition, earlier definitions) by the name of a pool of addresses.
        self._addresses: dict[str, tuple[str, Mapping[str, object], list[Any]]] = {}
        #: The aggregates of each added node now and before, and its shared storage of instances.
        self._nodes: list[tuple[set[str], set[str], str | None]] = []

    def add(self, host: str, node: NodeReport, before: Mapping[str, Any] | None) -> None:
        """Add a node.

        :param before: the facts of its last discovery; None for a new node.
        :raises DroverError: two hosts define one pool differently.
        """
        facts, earlier = node["columns"]["facts"], before or {}
        now, uuids_left = aggregates(facts), aggregates(before)
        shared = facts.get("shared_storage")
        if shared:
            self._origins[uuid_of(shared["id"])] = shared["id"]
            pool = self._instances.setdefault(
                uuid_of(shared["id"]),
                {
                    "name": f"pool/{shared['name']}",
                    "resource": DISK,
                    "total": None,
                    "allocation_ratio": None,
                    "reserved": None,
                },
            )
            # Use the largest of several values, so that their order does not matter.
            pool["total"] = max(pool["total"] or 0, shared["total"] or 0) or None
            ratio = max(pool["allocation_ratio"] or 0, node["shared_disk_ratio"] or 0)
            pool["allocation_ratio"] = ratio or None
        for further in node["storage_pools"]:
            if further["shared_id"]:
                uuid = uuid_of(further["shared_id"])
                self._origins[uuid] = further["shared_id"]
                self._traits.setdefault(uuid, set()).update(further["traits"])
                record_pools.merge(self._further, uuid, further)
        for earlier_pool in earlier.get("storage_pools") or ():
            if earlier_pool["shared_id"]:
                self._reported.setdefault(uuid_of(earlier_pool["shared_id"]), set()).update(
                    earlier_pool["traits"]
                )
        for name, definition in (facts.get("ip_pools") or {}).items():
            first, other, definitions = self._addresses.setdefault(name, (host, definition, []))
            if other != definition:
                raise contradiction(name, first, other, host, definition)
            definitions.append((earlier.get("ip_pools") or {}).get(name))
        disk = uuid_of(shared["id"]) if shared else None
        self._nodes.append((now, uuids_left, disk))

    def part(self, uuids: Iterable[str]) -> SharedPools:
        """Return the part of the writer.

        :param uuids: the uuids of the added nodes, in their order.
        """
        nodes = list(zip(uuids, self._nodes))
        return SharedPools(
            places={uuid: now for uuid, (now, _before, _disk) in nodes},
            leaving={uuid: before - now for uuid, (now, before, _disk) in nodes},
            instances=self._instances,
            further=self._further,
            addresses={
                _ip_uuid(name): Addresses(name, *found) for name, found in self._addresses.items()
            },
            disks={uuid: disk for uuid, (_now, _before, disk) in nodes if disk},
            origins=self._origins,
            traits=self._traits,
            reported=self._reported,
        )


def aggregates(facts: Mapping[str, Any] | None) -> set[str]:
    """Return the aggregates of a node: of its storage, its further pools and its IP pools."""
    facts = facts or {}
    uuids = {_ip_uuid(name) for name in facts.get("ip_pools") or {}}
    if facts.get("shared_storage"):
        uuids.add(uuid_of(facts["shared_storage"]["id"]))
    further = facts.get("storage_pools") or ()
    return uuids | {uuid_of(pool["shared_id"]) for pool in further if pool["shared_id"]}


def _ip_uuid(name: str) -> str:
    return uuid_of(f"ip:{name}")
