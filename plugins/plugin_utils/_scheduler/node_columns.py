# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The properties of compute nodes: columns of NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .._common.arrays import BoolArray, FloatArray, IntArray, np
from .._common.errors import node_label
from .._records.node_fields import ALWAYS, NUMBER, ON_DEMAND, NodeField, read_when
from .aggregates import Aggregates
from .attributes import OPTIONAL, STRUCTURES
from .categorical import Categorical, decoded
from .errors import SchedulerError
from .resource_columns import ResourceColumns

#: The key of an aggregate's metadata that makes it a zone.
ZONE_KEY = "availability_zone"
#: The fields of compute nodes that are attributes of NodeColumns, as arrays.
NUMBERS = tuple(each for each in read_when(ALWAYS, ON_DEMAND) if each.types == NUMBER)


class NodeColumns:
    """n compute nodes, sorted by (host, node): the first of nodes with equal weights is taken.

    Columns: host, node, uuid, cell, disabled_reason, down_reason (lists); zones (list of lists, or
    None to take them from the aggregates); enabled, up (bool); num_instances, num_io_ops,
    failed_builds, hypervisor_version and the other NUMBERS (int64, 0 if unknown); free_pci_devices
    (int64, 0 if it is not read); host_of (int64: the number of the host, equal for nodes of one
    host); disk_available_least (float64, GiB, +inf if unknown).

    :param columns: records.hosts.FleetColumns; all but host, node, disabled and up may be missing;
        structures may be JSON text.
    """

    disk_available_least: FloatArray
    num_io_ops: IntArray
    failed_builds: IntArray
    hypervisor_version: IntArray

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
        self.num_instances: IntArray = np.array(
            columns.get("num_instances", [0] * self.size), dtype=np.int64
        )
        self.free_pci_devices: IntArray = np.array(
            columns.get("free_pci_devices", [0] * self.size), dtype=np.int64
        )
        for field in NUMBERS:
            setattr(self, field.name, self._numbers(columns.get(field.name), field))
        self._optional = {name: columns[name] for name in OPTIONAL if columns.get(name) is not None}
        self._categorical: dict[str, Categorical] = {}
        #: A document for each node in the form of _numa.hosts.NumaHosts, or None; None as a whole
        #: if they are not read.
        self._numa_documents = list(columns["numa"]) if columns.get("numa") is not None else None
        self._node_flavors = columns.get("node_flavors")
        self._node_images = columns.get("node_images")
        self._flavor_counts: dict[str, IntArray] | None = None
        self._image_counts: dict[tuple[str, str], IntArray] | None = None
        self.resources = {
            rc: ResourceColumns(resource, self.size)
            for rc, resource in columns.get("resources", {}).items()
        }
        self._base_where: dict[str, int] = columns.get("instances") or {}
        self._sort()
        numbers: dict[str, int] = {}
        self.host_of = np.array(
            [numbers.setdefault(host, len(numbers)) for host in self.host], dtype=np.int64
        )
        self.host_count = len(numbers)
        self.aggregates = Aggregates(columns.get("aggregates"), numbers, self.host_of)
        cells: dict[str | None, int] = {}
        self.cell_of = np.array(
            [cells.setdefault(cell, len(cells)) for cell in self.cell], dtype=np.int64
        )
        self._zone_masks: dict[str | None, BoolArray] | None = None
        self._lowered: list[str] | None = None

    def _column(self, columns: Mapping[str, Any], key: str) -> Any:
        values = columns.get(key)
        if values is None:
            return [None] * self.size
        return values if isinstance(values, np.ndarray) else list(values)

    def _numbers(self, values: Any, field: NodeField) -> IntArray | FloatArray:
        kind: Any = np.float64 if np.isinf(field.unknown) else np.int64
        if isinstance(values, np.ndarray):
            return values.astype(kind)
        return np.array(
            [field.unknown if value is None else value for value in values or [None] * self.size],
            dtype=kind,
        )

    def _sort(self) -> None:
        """Sort the rows by (host, node), if they are not."""
        keys = list(zip(self.host, self.node))
        if all(keys[i] <= keys[i + 1] for i in range(self.size - 1)):
            return
        order = sorted(range(self.size), key=keys.__getitem__)
        for name in (
            "host",
            "node",
            "uuid",
            "cell",
            "zones",
            "disabled_reason",
            "down_reason",
            "_numa_documents",
        ):
            column = getattr(self, name)
            if column is not None:
                setattr(self, name, [column[old] for old in order])
        index = np.array(order, dtype=np.int64)
        for name in (
            "enabled",
            "up",
            "num_instances",
            "free_pci_devices",
            *(field.name for field in NUMBERS),
        ):
            setattr(self, name, getattr(self, name)[index])
        self._optional = {
            name: [column[old] for old in order] for name, column in self._optional.items()
        }
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
        """Return a column of text or structures; JSON text is parsed, unknown values are None.

        :raises SchedulerError: a text is not JSON.
        """
        values = self._categorical.get(name)
        if values is None:
            if name in OPTIONAL:
                column = self._optional.get(name)
                values = (
                    Categorical.constant(None, self.size)
                    if column is None
                    else Categorical.of(column)
                )
                if name in STRUCTURES:
                    values = values.map(lambda value: _structure(name, value))
            else:
                values = Categorical.of(getattr(self, name))
            self._categorical[name] = values
        return values

    @property
    def flavor_counts(self) -> dict[str, IntArray]:
        """The number of instances of each flavor (by name) on each node."""
        if self._flavor_counts is None:
            self._flavor_counts = self._counts(self._node_flavors)
        return self._flavor_counts

    @property
    def image_counts(self) -> dict[tuple[str, str], IntArray]:
        """The number of instances with each image property (name, value as text) on each node."""
        if self._image_counts is None:
            rows = [
                (index, pair, count)
                for index, image, count in self._node_images or ()
                for pair in image_pairs(decoded(image))
            ]
            self._image_counts = self._counts(rows)
        return self._image_counts

    def _counts(self, rows: Iterable[tuple[int, Any, int]] | None) -> dict[Any, IntArray]:
        counts = {}
        for index, what, count in rows or ():
            if what not in counts:
                counts[what] = np.zeros(self.size, dtype=np.int64)
            counts[what][index] += count
        return counts

    def label(self, index: int) -> str:
        """Return the name of a node for people: the name of its host, with the name of the node if
        the host has several nodes.
        """
        host, node = self.host[index], self.node[index]
        alone = int(np.count_nonzero(self.host_of == self.host_of[index])) == 1
        return host if alone else node_label(host, node)

    def mask(self, predicate: Callable[[int], bool]) -> BoolArray:
        """Return a bool array of a predicate over row numbers."""
        return np.fromiter((predicate(i) for i in range(self.size)), dtype=bool, count=self.size)

    def named(self, names: Iterable[str], column: str = "host", fold: bool = False) -> BoolArray:
        """Return a bool array: True if the host (or node) has one of these names.

        :param fold: whether case is ignored, for hosts only.
        """
        names_wanted, values = set(names), getattr(self, column)
        if fold:
            if self._lowered is None:
                self._lowered = [host.lower() for host in self.host]
            names_wanted, values = {name.lower() for name in names_wanted}, self._lowered
        found = np.zeros(self.size, dtype=bool)
        found[[index for index, value in enumerate(values) if value in names_wanted]] = True
        return found

    # Zones

    @property
    def zone_names(self) -> list[str]:
        """All zones with a node, sorted."""
        return sorted(zone for zone in self._zones() if zone is not None)

    def in_zone(self, zone: str | None) -> BoolArray:
        """Return a bool array: True if the node is in a zone; None stands for no zone."""
        found = self._zones().get(zone)
        return np.zeros(self.size, dtype=bool) if found is None else found

    def zones_at(self, index: int) -> list[str]:
        """Return the zones of one node, sorted."""
        if self.zones is not None:
            return sorted(self.zones[index] or ())
        return sorted(self.aggregates.at(index).split.get(ZONE_KEY, ()))

    def _zones(self) -> dict[str | None, BoolArray]:
        if self._zone_masks is None:
            masks: dict[str | None, BoolArray] = {}
            if self.zones is None:
                inside = [
                    frozenset[Any](each.split.get(ZONE_KEY) or (None,))
                    for each in self.aggregates.memberships
                ]
                for zone in frozenset[Any]().union(*inside):
                    masks[zone] = np.array([zone in each for each in inside], dtype=bool)[
                        self.aggregates.of
                    ]
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


def image_pairs(properties: Mapping[str, object] | None) -> set[tuple[str, str]]:
    """Return image properties as a set of (name, value as text)."""
    return {(str(key), str(value)) for key, value in (properties or {}).items()}


def _structure(name: str, value: Any) -> Any:
    try:
        return decoded(value)
    except ValueError:
        if name == "cpu_info":
            return None
        raise SchedulerError(
            f"The store holds text that is not JSON as the {name} of a compute node."
        ) from None
