# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The compute nodes for one scheduling run: their columns, and the instances on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from .._common.arrays import BoolArray, IntArray, np
from .._common.validation import which_name
from .._numa.hosts import NumaHosts
from .._numa.request import HostRequest
from .._records.claims import Allocations, GroupDescription, Mappings
from .._records.numa import NumaHost, Placed
from .errors import RequestError
from .host_counts import HostCounts
from .node_columns import NodeColumns, image_pairs
from .request_fields import ServerGroupRequest
from .request_spec import RequestSpec

#: The ratios that the fit to cells uses, and their classes.


class DeviceCandidates(NamedTuple):
    """The possible allocations of a request for PCI devices in Placement, by provider; mappings:
    the groups of the devices.

    request: its needs of cells and devices, with these providers.
    """

    allocations: Allocations
    mappings: Mappings
    request: HostRequest


class ProviderCapacity(Protocol):
    """A port that decides about the capacity of some classes instead of the columns."""

    def decides(self, rc: str, spec: RequestSpec) -> bool: ...

    def fits(self, spec: RequestSpec, rc: str | None = None) -> BoolArray:
        """Return a bool array: True if the node has capacity for one class of a request, or for
        all.
        """

    def left(self, rc: str, index: int) -> tuple[float, float] | None:
        """Return (free, capacity) of a row, None if it has none of the class."""

    def choose(self, spec: RequestSpec, index: int) -> Allocations | None:
        """Return the allocations of a request by provider, None if there is no capacity."""

    def candidates(self, spec: RequestSpec, index: int) -> Iterator[DeviceCandidates]:
        """Yield possible allocations of a request, the best first."""

    def count(self, allocations: Allocations, sign: int) -> None:
        """Count allocations as used (1) or as free again (-1)."""


@dataclass(eq=False)
class GroupState:
    """A server group during one run. members: keys of instances. per_host: the number of them on
    each host (not node).
    """

    name: str
    policy: str
    max_server_per_host: int
    members: set[str]
    per_host: HostCounts
    in_store: bool

    @property
    def description(self) -> GroupDescription:
        """The description with which a claim makes the group if it is new."""
        most = self.max_server_per_host if self.policy == "anti-affinity" else None
        return {"name": self.name, "policy": self.policy, "max_server_per_host": most}


class HostStates(NodeColumns):
    """Compute nodes and their instances, and the placement of further instances in memory.

    provider_capacity: decides instead of the columns if it is set, see ProviderCapacity.
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        super().__init__(columns)
        self.provider_capacity: ProviderCapacity | None = None
        self._where: dict[str, tuple[int, ...]] = {}
        self._taken: dict[tuple[str, int], Allocations] = {}
        self._held: dict[str, Allocations] = {}
        self._provided = any(column.providers is not None for column in self.resources.values())
        self._names = columns.get("instance_names") or {}
        self._new_names: dict[str, list[str]] = {}
        self._stored_groups = columns.get("server_groups") or {}
        self._groups: dict[str, GroupState] = {}
        self._numa: NumaHosts | None = None
        self._placed: dict[tuple[str, int], Placed] = {}
        self._mappings: dict[tuple[str, int], Mappings] = {}
        #: {row: True if a request for PCI devices in Placement has a candidate there}.
        self._has_candidate: dict[int, dict[Any, bool]] = {}

    @property
    def numa(self) -> NumaHosts | None:
        """The cells and PCI devices of the nodes, with the parts that instances have; None if they
        are not read.
        """
        if self._numa is None and self._numa_documents is not None:
            cpus, memory = self.resources.get("VCPU"), self.resources.get("MEMORY_MB")
            hosts = []
            for row, document in enumerate(self._numa_documents):
                host: NumaHost = {
                    "cells": [],
                    **(document or NumaHost()),
                    "name": self.label(row),
                }
                if cpus is not None:
                    host["cpu_allocation_ratio"] = cpus.ratio[row]
                if memory is not None:
                    host["ram_allocation_ratio"] = memory.ratio[row]
                hosts.append(host)
            self._numa = NumaHosts(hosts)
        return self._numa

    def _has_cells_left(self, index: int, spec: RequestSpec) -> bool:
        if self.asks_providers(spec):
            return self.has_candidate(index, spec)
        return (
            self.numa is None
            or spec.host_request.is_empty
            or not self.numa.why(spec.host_request, index)
        )

    def asks_providers(self, spec: RequestSpec) -> bool:
        """Return True if providers decide about PCI devices of a request."""
        return self.provider_capacity is not None and spec.host_request.in_placement

    def devices(self, index: int) -> Sequence[Mapping[str, Any]]:
        """Return the PCI devices of a row."""
        documents = self._numa_documents
        return () if documents is None else (documents[index] or {}).get("pci") or ()

    def candidate(
        self,
        index: int,
        spec: RequestSpec,
        with_cells: bool = True,
        taken: Allocations | None = None,
    ) -> DeviceCandidates | None:
        """Return the best candidate of a row with providers for the PCI devices of a request, and
        with cells near them (N12.7).

        :param with_cells: whether cells of the guest count.
        :param taken: the only accepted allocations; None for any.
        """
        if self.numa is None or self.provider_capacity is None:
            return None
        for candidate in self.provider_capacity.candidates(spec, index):
            request = candidate.request if with_cells else replace(candidate.request, topology=None)
            if taken in (None, candidate.allocations) and not self.numa.why(request, index):
                return candidate
        return None

    def has_candidate(self, index: int, spec: RequestSpec, with_cells: bool = True) -> bool:
        """Return True if candidate() finds one."""
        answers = self._has_candidate.setdefault(index, {})
        key = (
            with_cells,
            spec.host_request,
            spec.groups,
            spec.group_policy,
            tuple(spec.resources.items()),
        )
        if key not in answers:
            answers[key] = self.candidate(index, spec, with_cells) is not None
        return answers[key]

    def mappings(self, index: int, spec: RequestSpec) -> Mappings | None:
        """Return the providers of the PCI devices of an instance on a node, None if the devices are
        not allocated in Placement.
        """
        return self._mappings.get((spec.key, index))

    def where(self, key: str) -> tuple[int, ...]:
        """Return the rows of the nodes of an instance: none, one, or two while it moves."""
        if key in self._where:
            return self._where[key]
        index = self._base_where.get(key)
        return () if index is None else (index,)

    def resolve(self, name_or_uuid: str) -> tuple[str, ...]:
        """Return the keys of the known instances with a name or uuid."""
        if self.where(name_or_uuid):
            return (name_or_uuid,)
        lowered = name_or_uuid.lower()
        if self.where(lowered):
            return (lowered,)
        return tuple(self._names.get(name_or_uuid, ())) + tuple(
            self._new_names.get(name_or_uuid, ())
        )

    def holds(self, names: Iterable[str]) -> BoolArray:
        """Return a bool array: True if the node's host has one of these instances (uuids or
        names).
        """
        hosts = np.zeros(self.host_count, dtype=bool)
        for name in names:
            for key in self.resolve(name):
                for index in self.where(key):
                    hosts[self.host_of[index]] = True
        return hosts[self.host_of]

    # Server groups

    def group(self, name: str) -> GroupState | None:
        """Return a server group, None if neither the store nor the batch has it."""
        if name not in self._groups and name in self._stored_groups:
            stored = self._stored_groups[name]
            members = set(stored.get("members") or ())
            self._groups[name] = GroupState(
                name,
                stored["policy"],
                stored.get("max_server_per_host") or 1,
                members,
                self._count_members(members),
                True,
            )
        return self._groups.get(name)

    def group_of(self, spec: RequestSpec) -> GroupState | None:
        """Return the server group that a request names, if it names one."""
        return self.group(spec.server_group.name) if spec.server_group else None

    def add_group(self, request: ServerGroupRequest) -> bool:
        """Add the server group that a request names, if it does not exist.

        :returns: True if the group is new and was added.
        :raises RequestError: unknown group without a policy, or another policy than the store's.
        """
        group = self.group(request.name)
        if group is None:
            if request.policy is None:
                names = sorted(set(self._stored_groups) | set(self._groups))
                has = f"it has: {', '.join(names)}" if names else "it has none"
                raise RequestError(
                    f"Server group '{request.name}' is not in the"
                    f" store{which_name(request.name, names)} ({has}); give name and policy to make"
                    " it, or correct the name."
                )
            self._groups[request.name] = GroupState(
                request.name,
                request.policy,
                request.max_server_per_host or 1,
                set(),
                self._count_members(()),
                False,
            )
            return True
        origin = "in the store" if group.in_store else "in another request"
        if request.policy not in (None, group.policy):
            raise RequestError(
                f"Server group '{request.name}' has policy {group.policy} {origin}, but a request"
                f" says {request.policy}; make them agree or use another name."
            )
        if request.max_server_per_host not in (None, group.max_server_per_host):
            raise RequestError(
                f"Server group '{request.name}' has max_server_per_host {group.max_server_per_host}"
                f" {origin}, but a request says {request.max_server_per_host}; make them agree or"
                " use another name."
            )
        return False

    def drop_group(self, name: str) -> None:
        """Remove a group that add_group() added."""
        self._groups.pop(name, None)

    def _count_members(self, members: Iterable[str]) -> HostCounts:
        counts = HostCounts(self.host_count)
        for key in members:
            for number in {int(self.host_of[index]) for index in self.where(key)}:
                counts.add(number, 1)
        return counts

    # Consumption

    @property
    def choosing(self) -> set[str]:
        """The classes with several providers on some node."""
        return {
            rc
            for rc, column in self.resources.items()
            if column.providers is not None and column.providers.several
        }

    def hold(self, key: str, allocations: Allocations) -> None:
        """Record the allocations of an instance in the store."""
        self._held[key] = allocations

    def holding(self, index: int, spec: RequestSpec) -> Allocations:
        """Return the allocations of an instance on one of its nodes."""
        return self._taken.get((spec.key, index)) or self._allocations_on_first_node(index, spec)

    def _allocations_on_first_node(self, index: int, spec: RequestSpec) -> Allocations:
        """Return the allocations of an instance on its first node."""
        stored = self._held.get(spec.key)
        allocations: Allocations = {}
        for rc, amount in spec.resources.items():
            column = self.resources.get(rc)
            if column is None or column.providers is None:
                allocations.setdefault(self.uuid[index], {})[rc] = amount
                continue
            for number, part in column.providers.of_instance(index, _of_class(stored, rc), amount):
                allocations.setdefault(column.providers.uuid[number], {})[rc] = part
        return allocations

    def kept(self, key: str, rc: str) -> int:
        """Return the number of the sharing provider that gives an instance a class, -1 for none;
        the instance keeps it on all its nodes.
        """
        column = self.resources.get(rc)
        if column is None or column.providers is None:
            return -1
        for place in self.where(key):
            held = self._taken.get((key, place), self._held.get(key))
            for number, _amount in column.providers.of_instance(place, _of_class(held, rc), 0):
                if column.providers.lends(place, number):
                    return number
        return -1

    def allocations(self, index: int, spec: RequestSpec) -> Allocations | None:
        """Return the allocations of an instance on a node, even if it does not fit; on its first
        node the allocations of the store.

        :returns: None if ``provider_capacity`` has no capacity.
        """
        if self.provider_capacity is not None:
            return self.provider_capacity.choose(spec, index)
        if self._base_where.get(spec.key) == index:
            return self._allocations_on_first_node(index, spec)
        allocations: Allocations = {}
        for rc, amount in spec.resources.items():
            column, uuid = self.resources.get(rc), self.uuid[index]
            if column is not None and column.providers is not None:
                number = column.providers.choose(index, amount, self.kept(spec.key, rc), full=True)
                uuid = column.providers.uuid[number] if number >= 0 else uuid
            allocations.setdefault(uuid, {})[rc] = amount
        return allocations

    def consume(
        self, index: int, spec: RequestSpec, allocations: Allocations | None = None
    ) -> Allocations | None:
        """Put an instance on a node, in memory (N1.1, consuming a request).

        :param allocations: None for the result of allocations().
        :returns: the allocations, None without ``provider_capacity``.
        """
        request = spec.host_request
        if self.asks_providers(spec):
            candidate = self.candidate(index, spec, taken=allocations)
            if candidate is not None:
                allocations, request = candidate.allocations, candidate.request
                self._mappings[spec.key, index] = candidate.mappings
        else:
            allocations = allocations or self.allocations(index, spec)
        if allocations is None:
            raise ValueError(f"{self.label(index)} has no room for instance {spec.name}")
        if self.numa is not None and not request.is_empty:
            placed = self.numa.place(request, index)
            self.numa.consume(index, placed)
            self._placed[spec.key, index] = placed
        self._has_candidate.pop(index, None)
        if self.provider_capacity is not None:
            self.provider_capacity.count(allocations, 1)
        self._count_allocations(index, spec, 1, allocations)
        self._taken[spec.key, index] = allocations
        self._where[spec.key] = self.where(spec.key) + (index,)
        self._new_names.setdefault(spec.name, []).append(spec.key)
        group = self.group_of(spec)
        if group is not None:
            group.members.add(spec.key)
            group.per_host.add(self.host_of[index], 1)
        return None if self.provider_capacity is None else allocations

    def release(self, index: int, spec: RequestSpec) -> Allocations | None:
        """Undo consume().

        :returns: the result of consume().
        :raises ValueError: the instance is not on that node.
        """
        places = list(self.where(spec.key))
        if index not in places:
            raise ValueError(f"instance {spec.name} is not on {self.label(index)}")
        allocations = self.holding(index, spec)
        taken = self._taken.pop((spec.key, index), None)
        if taken is not None and self.provider_capacity is not None:
            self.provider_capacity.count(allocations, -1)
        if self.numa is not None and not spec.host_request.is_empty:
            placed = (
                self._placed.pop((spec.key, index))
                if (spec.key, index) in self._placed
                else self.numa.held(index, spec.key)
            )
            self.numa.release(index, placed)
        self._mappings.pop((spec.key, index), None)
        self._has_candidate.pop(index, None)
        places.remove(index)
        self._where[spec.key] = tuple(places)
        self._count_allocations(index, spec, -1, allocations)
        named = self._new_names.get(spec.name)
        if named and spec.key in named:
            named.remove(spec.key)
        group = self.group_of(spec)
        if group is not None and spec.key in group.members:
            group.per_host.add(self.host_of[index], -1)
            if not places:
                group.members.discard(spec.key)
        return None if self.provider_capacity is None else taken

    def fits(self, spec: RequestSpec, rc: str) -> BoolArray:
        """Return a bool array: True if a request fits now by one class."""
        if self.provider_capacity is not None and self.provider_capacity.decides(rc, spec):
            return self.provider_capacity.fits(spec, rc)
        column = self.resources.get(rc)
        if column is None:
            return np.zeros(self.size, dtype=bool)
        held = self.holds_at(spec.key, rc)
        fits = column.fits(spec.resources[rc])
        return fits if held is None else fits | held

    def fits_at(self, index: int, spec: RequestSpec, classes: Iterable[str]) -> bool:
        """Return True if a request fits on one row now, by some classes and by
        ``provider_capacity``.
        """
        if self.provider_capacity is not None and not self.provider_capacity.fits(spec)[index]:
            return False
        if not self._has_cells_left(index, spec):
            return False
        for rc in classes:
            if self.provider_capacity is not None and self.provider_capacity.decides(rc, spec):
                continue
            column = self.resources.get(rc)
            if column is None:
                return False
            if not column.fits_at(index, spec.resources[rc]):
                held = self.holds_at(spec.key, rc)
                if held is None or not held[index]:
                    return False
        return True

    def holds_at(self, key: str, rc: str) -> BoolArray | None:
        """Return a bool array: True if an instance keeps its allocation of a class on the node;
        None if it keeps none anywhere.

        It keeps the allocation on the nodes of its sharing provider of the class: a move between
        them leaves its disk in place.
        """
        number, column = self.kept(key, rc), self.resources.get(rc)
        if number < 0 or column is None or column.providers is None:
            return None
        return column.providers.reaching(np.arange(len(column.providers.uuid)) == number)

    def _count_allocations(
        self, index: int, spec: RequestSpec, sign: int, allocations: Allocations
    ) -> None:
        """Count the allocations of an instance on a node, which may be on other nodes too."""
        elsewhere = (
            [self.holding(place, spec) for place in self.where(spec.key)] if self._provided else []
        )
        for uuid, amounts in allocations.items():
            for rc, amount in amounts.items():
                column = self.resources.get(rc)
                rows: Any = index
                if column is not None:
                    # The amount counts once for a sharing provider, even if the instance is on
                    # several of its nodes.
                    if uuid != self.uuid[index] and any(
                        rc in held.get(uuid, ()) for held in elsewhere
                    ):
                        continue
                    rows = column.count(index, uuid, self.uuid[index], sign * amount)
                if rc == "DISK_GB":
                    self.disk_available_least[rows] -= sign * amount
        self.num_instances[index] += sign
        # A build reads and writes until it is done (N1.1).
        self.num_io_ops[index] += sign
        if spec.flavor is not None and self._node_flavors is not None:
            self._count_at(self.flavor_counts, spec.flavor.name, index, sign)
        if spec.image is not None and self._node_images is not None:
            for pair in image_pairs(spec.image.properties):
                self._count_at(self.image_counts, pair, index, sign)

    def _count_at(self, counts: dict[Any, IntArray], what: Any, index: int, sign: int) -> None:
        if what not in counts:
            counts[what] = np.zeros(self.size, dtype=np.int64)
        counts[what][index] += sign


def _of_class(held: Allocations | None, rc: str) -> dict[str, int] | None:
    """Return {provider uuid: amount} of one class, None if unknown."""
    return {uuid: amounts[rc] for uuid, amounts in (held or {}).items() if rc in amounts} or None
