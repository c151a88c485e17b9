# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The compute nodes as one scheduling run sees them: columns of NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ansible_collections.drover.compute.plugins.plugin_utils.arrays import BoolArray, IntArray, np
from ansible_collections.drover.compute.plugins.plugin_utils.errors import node_label
from ansible_collections.drover.compute.plugins.plugin_utils.records.claims import Allocations, GroupDescription
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.aggregates import Aggregates
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.attributes import OPTIONAL
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.categorical import Categorical, decoded
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.errors import RequestError, SchedulerError
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.request_spec import RequestSpec, ServerGroupRequest
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.resource_columns import ResourceColumns

#: The key of an aggregate's metadata that makes it a zone.
ZONE_KEY = "availability_zone"


class ProviderCapacity(Protocol):
    """Knows more of room than the columns do: where it decides about a class, it is used in their place."""

    def decides(self, rc: str, spec: RequestSpec) -> bool: ...

    def fits(self, spec: RequestSpec, rc: str | None = None) -> BoolArray:
        """Which rows have room for one class, or for all of a request."""

    def left(self, rc: str, index: int) -> tuple[float, float] | None:
        """(Free, capacity) of a row; None when it has none of the class."""

    def choose(self, spec: RequestSpec, index: int) -> Allocations | None:
        """What the request would take of which provider; None when there is no room."""

    def count(self, allocations: Allocations, sign: int) -> None:
        """Count as taken (1) or as free again (-1)."""


@dataclass(eq=False)
class GroupState:
    """A server group during one run; members are keys of instances, per_host counts them on each host (not node)."""

    name: str
    policy: str
    max_server_per_host: int
    members: set[str]
    per_host: IntArray
    in_store: bool

    @property
    def description(self) -> GroupDescription:
        """Plain dict, from which a claim can make the group if it is new."""
        most = self.max_server_per_host if self.policy == "anti-affinity" else None
        return {"name": self.name, "policy": self.policy, "max_server_per_host": most}


class HostStates:
    """n compute nodes, sorted by (host, node): the order in which equal weights are taken.

    Built from the columns of ``store.host_columns.read_columns`` (lists or arrays of length n).
    Amounts are in MiB for MEMORY_MB and GiB for DISK_GB.

    Public columns: host, node, uuid, cell, disabled_reason, down_reason (lists); zones (list of
    lists, or None to take them from the aggregates);
    enabled, up (bool arrays); num_instances, host_of (int64 arrays; host_of numbers the hosts, so
    that nodes of one host share a number); disk_available_least (float64, +inf where unknown);
    resources ({class: ResourceColumns}); num_io_ops, failed_builds, hypervisor_version (int64, 0
    where unknown); aggregates (Aggregates).

    provider_capacity: None, or a ProviderCapacity.

    A fleet need not have: host_ip, hypervisor_type, cpu_info, supported_instances, stats, metrics
    (lists, structures as such or as JSON text, see ``distinct``); aggregates ([{name, metadata,
    hosts}]); node_flavors, node_images ([(row, flavor name or image properties, count)], the
    instances on each node by what they were made from).
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self.size = len(columns["host"])
        self.host = list(columns["host"])
        self.node = list(columns["node"])
        self.uuid = self._column(columns, "uuid")
        self.cell = self._column(columns, "cell")
        self.zones = list(columns["zones"]) if columns.get("zones") is not None else None
        self.disabled_reason = self._column(columns, "disabled_reason")
        self.down_reason = self._column(columns, "down_reason")
        self.enabled = ~np.array(columns["disabled"], dtype=bool)
        self.up = np.array(columns["up"], dtype=bool)
        self.num_instances: IntArray = self._ints(columns, "num_instances")
        self.num_io_ops: IntArray = self._ints(columns, "num_io_ops")
        self.failed_builds: IntArray = self._ints(columns, "failed_builds")
        self.hypervisor_version = self._ints(columns, "hypervisor_version")
        least = self._column(columns, "disk_available_least_gb")
        if isinstance(least, np.ndarray):
            self.disk_available_least = least.astype(np.float64)
        else:
            self.disk_available_least = np.array([np.inf if gb is None else gb for gb in least], dtype=np.float64)
        self._optional = {name: columns[name] for name in OPTIONAL if columns.get(name) is not None}
        self._categorical: dict[str, Categorical] = {}
        self._node_flavors = columns.get("node_flavors")
        self._node_images = columns.get("node_images")
        self._flavor_counts: dict[str, IntArray] | None = None
        self._image_counts: dict[tuple[str, str], IntArray] | None = None
        self.resources = {rc: ResourceColumns(resource, self.size) for rc, resource in columns.get("resources", {}).items()}
        self.provider_capacity: ProviderCapacity | None = None
        self._base_where = columns.get("instances") or {}
        self._sort()
        numbers: dict[str, int] = {}
        self.host_of = np.array([numbers.setdefault(host, len(numbers)) for host in self.host], dtype=np.int64)
        self.host_count = len(numbers)
        #: The host aggregates (Aggregates), by row.
        self.aggregates = Aggregates(columns.get("aggregates"), numbers, self.host_of)
        cells: dict[str | None, int] = {}
        self.cell_of = np.array([cells.setdefault(cell, len(cells)) for cell in self.cell], dtype=np.int64)
        self._where: dict[str, tuple[int, ...]] = {}
        self._taken: dict[tuple[str, int], Allocations] = {}
        self._held: dict[str, Allocations] = {}
        self._provided = any(column.providers is not None for column in self.resources.values())
        self._names = columns.get("instance_names") or {}
        self._new_names: dict[str, list[str]] = {}
        self._stored_groups = columns.get("server_groups") or {}
        self._groups: dict[str, GroupState] = {}
        self._zone_masks: dict[str | None, BoolArray] | None = None
        self._lowered: list[str] | None = None

    def _column(self, columns: Mapping[str, Any], key: str) -> Any:
        values = columns.get(key)
        if values is None:
            return [None] * self.size
        return values if isinstance(values, np.ndarray) else list(values)

    def _ints(self, columns: Mapping[str, Any], key: str) -> IntArray:
        values = columns.get(key)
        if values is None:
            return np.zeros(self.size, dtype=np.int64)
        if isinstance(values, np.ndarray):
            return values.astype(np.int64)
        return np.array([value or 0 for value in values], dtype=np.int64)

    def _sort(self) -> None:
        """Bring the rows into (host, node) order, should the reader not have done it."""
        keys = list(zip(self.host, self.node))
        if all(keys[i] <= keys[i + 1] for i in range(self.size - 1)):
            return
        order = sorted(range(self.size), key=keys.__getitem__)
        for name in ("host", "node", "uuid", "cell", "zones", "disabled_reason", "down_reason"):
            column = getattr(self, name)
            if column is not None:
                setattr(self, name, [column[old] for old in order])
        index = np.array(order, dtype=np.int64)
        numbers = ("num_instances", "num_io_ops", "failed_builds", "hypervisor_version")
        for name in ("enabled", "up", "disk_available_least", *numbers):
            setattr(self, name, getattr(self, name)[index])
        self._optional = {name: [column[old] for old in order] for name, column in self._optional.items()}
        for resource in self.resources.values():
            resource.reorder(index)
        new_of = {old: new for new, old in enumerate(order)}
        self._base_where = {key: new_of[old] for key, old in self._base_where.items()}
        for name in ("_node_flavors", "_node_images"):
            rows = getattr(self, name)
            if rows is not None:
                setattr(self, name, [(new_of[old], *rest) for old, *rest in rows])

    # Columns that few requests need

    def categorical(self, name: str) -> Categorical:
        """A column of text or structures as a Categorical; JSON text is read, None where unknown.

        :raises SchedulerError: the store has text there that is not JSON.
        """
        found = self._categorical.get(name)
        if found is None:
            if name in OPTIONAL:
                column = self._optional.get(name)
                found = Categorical.constant(None, self.size) if column is None else Categorical.of(column)
                if name in STRUCTURES:
                    found = found.map(lambda value: _structure(name, value))
            else:
                found = Categorical.of(getattr(self, name))
            self._categorical[name] = found
        return found

    @property
    def flavor_counts(self) -> dict[str, IntArray]:
        """{flavor name: int64 array, how many instances of it each node has}."""
        if self._flavor_counts is None:
            self._flavor_counts = self._counts(self._node_flavors)
        return self._flavor_counts

    @property
    def image_counts(self) -> dict[tuple[str, str], IntArray]:
        """{(image property, value as text): int64 array, how many instances each node has with it}."""
        if self._image_counts is None:
            rows = [(index, pair, count) for index, image, count in self._node_images or () for pair in image_pairs(decoded(image))]
            self._image_counts = self._counts(rows)
        return self._image_counts

    def _counts(self, rows: Iterable[tuple[int, Any, int]] | None) -> dict[Any, IntArray]:
        counts = {}
        for index, what, count in rows or ():
            if what not in counts:
                counts[what] = np.zeros(self.size, dtype=np.int64)
            counts[what][index] += count
        return counts

    # Who is where

    def label(self, index: int) -> str:
        """The host's name for people; with the node's when one name does not say which node."""
        host, node = self.host[index], self.node[index]
        alone = int(np.count_nonzero(self.host_of == self.host_of[index])) == 1
        return host if alone else node_label(host, node)

    def mask(self, predicate: Callable[[int], bool]) -> BoolArray:
        """bool array from a Python predicate over row numbers."""
        return np.fromiter((predicate(i) for i in range(self.size)), dtype=bool, count=self.size)

    def named(self, names: Iterable[str], column: str = "host", fold: bool = False) -> BoolArray:
        """bool array: does the row's host (or node) have one of these names?

        :param fold: without regard to case.
        """
        wanted, values = set(names), getattr(self, column)
        if fold:
            if self._lowered is None:
                self._lowered = [host.lower() for host in self.host]
            wanted, values = {name.lower() for name in wanted}, self._lowered
        found = np.zeros(self.size, dtype=bool)
        found[[index for index, value in enumerate(values) if value in wanted]] = True
        return found

    def where(self, key: str) -> tuple[int, ...]:
        """Row numbers of the nodes that hold an instance (tuple; two while it moves)."""
        if key in self._where:
            return self._where[key]
        index = self._base_where.get(key)
        return () if index is None else (index,)

    def resolve(self, name_or_uuid: str) -> tuple[str, ...]:
        """Keys of the known instances that a hint names (tuple, may be empty)."""
        if self.where(name_or_uuid):
            return (name_or_uuid,)
        lowered = name_or_uuid.lower()
        if self.where(lowered):
            return (lowered,)
        return tuple(self._names.get(name_or_uuid, ())) + tuple(self._new_names.get(name_or_uuid, ()))

    def holds(self, names: Iterable[str]) -> BoolArray:
        """bool array: does the node's host hold one of the instances named (uuids or names)?"""
        hosts = np.zeros(self.host_count, dtype=bool)
        for name in names:
            for key in self.resolve(name):
                for index in self.where(key):
                    hosts[self.host_of[index]] = True
        return hosts[self.host_of]

    # Zones

    @property
    def zone_names(self) -> list[str]:
        """Every zone that some node is in, sorted."""
        return sorted(zone for zone in self._zones() if zone is not None)

    def in_zone(self, zone: str | None) -> BoolArray:
        """bool array: is the node in this zone? None asks for nodes that are in no zone."""
        found = self._zones().get(zone)
        return np.zeros(self.size, dtype=bool) if found is None else found

    def zones_at(self, index: int) -> list[str]:
        """The zones that one node is in, sorted."""
        if self.zones is not None:
            return sorted(self.zones[index] or ())
        return sorted(self.aggregates.at(index).split.get(ZONE_KEY, ()))

    def _zones(self) -> dict[str | None, BoolArray]:
        if self._zone_masks is None:
            masks: dict[str | None, BoolArray] = {}
            if self.zones is None:
                inside = [frozenset[Any](each.split.get(ZONE_KEY) or (None,)) for each in self.aggregates.memberships]
                for zone in frozenset[Any]().union(*inside):
                    masks[zone] = np.array([zone in each for each in inside], dtype=bool)[self.aggregates.of]
            else:
                members: dict[str | None, list[int]] = {}
                for index, zones in enumerate(self.zones):
                    for zone in zones or (None,):
                        members.setdefault(zone, []).append(index)
                for zone, indexes in members.items():
                    masks[zone] = np.zeros(self.size, dtype=bool)
                    masks[zone][indexes] = True
            self._zone_masks = masks
        return self._zone_masks

    # Server groups

    def group(self, name: str) -> GroupState | None:
        """The GroupState of a server group, or None when neither store nor batch knows it."""
        if name not in self._groups and name in self._stored_groups:
            stored = self._stored_groups[name]
            members = set(stored.get("members") or ())
            self._groups[name] = GroupState(
                name, stored["policy"], stored.get("max_server_per_host") or 1, members, self._count(members), True
            )
        return self._groups.get(name)

    def group_of(self, spec: RequestSpec) -> GroupState | None:
        """The GroupState of the server group that a request names, if it names one."""
        return self.group(spec.server_group.name) if spec.server_group else None

    def add_group(self, request: ServerGroupRequest) -> bool:
        """Make sure that the server group a request names exists.

        :returns: True if the group is new and was added.
        :raises RequestError: unknown group without a policy, or another policy than the store's.
        """
        known = self.group(request.name)
        if known is None:
            if request.policy is None:
                names = sorted(set(self._stored_groups) | set(self._groups))
                has = f"it has: {', '.join(names)}" if names else "it has none"
                raise RequestError(
                    f"Server group '{request.name}' is not in the store ({has}); give name and policy to make it, or correct the name."
                )
            self._groups[request.name] = GroupState(
                request.name, request.policy, request.max_server_per_host or 1, set(), self._count(()), False
            )
            return True
        origin = "in the store" if known.in_store else "in another request"
        if request.policy not in (None, known.policy):
            raise RequestError(
                f"Server group '{request.name}' has policy {known.policy} {origin}, but a request says"
                f" {request.policy}; make them agree or use another name."
            )
        if request.max_server_per_host not in (None, known.max_server_per_host):
            raise RequestError(
                f"Server group '{request.name}' has max_server_per_host {known.max_server_per_host} {origin}, but"
                f" a request says {request.max_server_per_host}; make them agree or use another name."
            )
        return False

    def drop_group(self, name: str) -> None:
        """Forget a group that add_group added (a batch that failed)."""
        self._groups.pop(name, None)

    def _count(self, members: Iterable[str]) -> IntArray:
        counts = np.zeros(self.host_count, dtype=np.int64)
        for key in members:
            for number in {int(self.host_of[index]) for index in self.where(key)}:
                counts[number] += 1
        return counts

    # Consumption

    @property
    def choosing(self) -> set[str]:
        """The classes that some node may take from other providers than the one that it shows (set)."""
        return {rc for rc, column in self.resources.items() if column.providers is not None and column.providers.several}

    def hold(self, key: str, allocations: Allocations) -> None:
        """Say what an instance of the store holds: {provider uuid: {class: amount}}."""
        self._held[key] = allocations

    def holding(self, index: int, spec: RequestSpec) -> Allocations:
        """{provider uuid: {class: amount}} that an instance holds on a node where it is, of the classes that it asks for."""
        return self._taken.get((spec.key, index)) or self._first(index, spec)

    def _first(self, index: int, spec: RequestSpec) -> Allocations:
        """What an instance of the store holds where it was at first."""
        held = self._held.get(spec.key)
        found: Allocations = {}
        for rc, amount in spec.resources.items():
            column = self.resources.get(rc)
            if column is None or column.providers is None:
                found.setdefault(self.uuid[index], {})[rc] = amount
                continue
            for number, part in column.providers.of_instance(index, _of_class(held, rc), amount):
                found.setdefault(column.providers.uuid[number], {})[rc] = part
        return found

    def kept(self, key: str, rc: str) -> int:
        """The sharing provider (number) that an instance holds a class of, and keeps where it is moved to a node that reaches it; or -1."""
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
        """What an instance would take on a node, whether there is room or not: {provider uuid: {class: amount}}.

        Where it was at first it takes what it held there. None when ``provider_capacity`` has no room.
        """
        if self.provider_capacity is not None:
            return self.provider_capacity.choose(spec, index)
        if self._base_where.get(spec.key) == index:
            return self._first(index, spec)
        found: Allocations = {}
        for rc, amount in spec.resources.items():
            column, uuid = self.resources.get(rc), self.uuid[index]
            if column is not None and column.providers is not None:
                number = column.providers.choose(index, amount, self.kept(spec.key, rc), full=True)
                uuid = column.providers.uuid[number] if number >= 0 else uuid
            found.setdefault(uuid, {})[rc] = amount
        return found

    def consume(self, index: int, spec: RequestSpec, allocations: Allocations | None = None) -> Allocations | None:
        """Put an instance on a node, in memory (N1.1, consuming a request).

        :param allocations: what it takes of which provider; None leaves that to allocations().
        :returns: {provider uuid: {class: amount}} as ``provider_capacity`` decided, None without it.
        """
        allocations = allocations or self.allocations(index, spec)
        if allocations is None:
            raise ValueError(f"{self.label(index)} has no room for instance {spec.name}")
        if self.provider_capacity is not None:
            self.provider_capacity.count(allocations, 1)
        self._change(index, spec, 1, allocations)
        self._taken[spec.key, index] = allocations
        self._where[spec.key] = self.where(spec.key) + (index,)
        self._new_names.setdefault(spec.name, []).append(spec.key)
        group = self.group_of(spec)
        if group is not None:
            group.members.add(spec.key)
            group.per_host[self.host_of[index]] += 1
        return None if self.provider_capacity is None else allocations

    def release(self, index: int, spec: RequestSpec) -> Allocations | None:
        """Take an instance off a node: the exact opposite of consume.

        :returns: what consume returned.
        :raises ValueError: the instance is not on that node.
        """
        places = list(self.where(spec.key))
        if index not in places:
            raise ValueError(f"instance {spec.name} is not on {self.label(index)}")
        allocations = self.holding(index, spec)
        placed = self._taken.pop((spec.key, index), None)
        if placed is not None and self.provider_capacity is not None:
            self.provider_capacity.count(allocations, -1)
        places.remove(index)
        self._where[spec.key] = tuple(places)
        self._change(index, spec, -1, allocations)
        named = self._new_names.get(spec.name)
        if named and spec.key in named:
            named.remove(spec.key)
        group = self.group_of(spec)
        if group is not None and spec.key in group.members:
            group.per_host[self.host_of[index]] -= 1
            if not places:
                group.members.discard(spec.key)
        return None if self.provider_capacity is None else placed

    def fits(self, spec: RequestSpec, rc: str) -> BoolArray:
        """bool array: is there room now for what a spec asks of one class?"""
        if self.provider_capacity is not None and self.provider_capacity.decides(rc, spec):
            return self.provider_capacity.fits(spec, rc)
        column = self.resources.get(rc)
        if column is None:
            return np.zeros(self.size, dtype=bool)
        held = self.holds_at(spec.key, rc)
        fits = column.fits(spec.resources[rc])
        return fits if held is None else fits | held

    def fits_at(self, index: int, spec: RequestSpec, classes: Iterable[str]) -> bool:
        """Is there room now on one row for what a spec asks of some classes, and as ``provider_capacity`` says of all?"""
        if self.provider_capacity is not None and not self.provider_capacity.fits(spec)[index]:
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
        """bool array: where an instance needs no room of a class, as it holds it there already.

        That is on the nodes that reach the sharing provider that it holds the class of: what moves between them leaves
        its disk where it is. None when there is no such node.
        """
        number, column = self.kept(key, rc), self.resources.get(rc)
        if number < 0 or column is None or column.providers is None:
            return None
        return column.providers.reaching(np.arange(len(column.providers.uuid)) == number)

    def _change(self, index: int, spec: RequestSpec, sign: int, allocations: Allocations) -> None:
        """Count what an instance takes on a node, or gives back; on other nodes it may be as well."""
        elsewhere = [self.holding(place, spec) for place in self.where(spec.key)] if self._provided else []
        for uuid, amounts in allocations.items():
            for rc, amount in amounts.items():
                column = self.resources.get(rc)
                rows: Any = index
                if column is not None:
                    # Once for a sharing provider, on however many of its nodes the instance is.
                    if uuid != self.uuid[index] and any(rc in held.get(uuid, ()) for held in elsewhere):
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
    """{provider uuid: amount} of one class, None where that is not known."""
    return {uuid: amounts[rc] for uuid, amounts in (held or {}).items() if rc in amounts} or None


#: Optional columns that hold structures.
STRUCTURES = ("cpu_info", "supported_instances", "stats", "metrics", "traits")


def image_pairs(properties: Mapping[str, Any] | None) -> set[tuple[str, str]]:
    """Image properties as a set of (name, value as text)."""
    return {(str(key), str(value)) for key, value in (properties or {}).items()}


def _structure(name: str, value: Any) -> Any:
    try:
        return decoded(value)
    except ValueError:
        if name == "cpu_info":
            return None
        raise SchedulerError(f"The store holds text that is not JSON as the {name} of a compute node.") from None
