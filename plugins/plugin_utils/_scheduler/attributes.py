# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The attributes of a host state by name, for capabilities, JSON queries and users' own filters.

The names come from N1.1. ``lookup`` returns a Numbers or a Categorical, None for a name that no
host state has.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from .._common.arrays import BoolArray, FloatArray, IntArray, np
from .._records.node_fields import ALWAYS, NUMBER, ON_DEMAND, TEXT, read_when
from .categorical import Categorical


class AttributeColumns(Protocol):
    """The columns that an attribute is read from. HostStates has them, and reads attributes
    itself.
    """

    size: int
    disk_available_least: FloatArray
    num_instances: IntArray

    @property
    def resources(self) -> Mapping[str, Any]:
        """The amounts of each resource class."""

    def categorical(self, name: str) -> Categorical:
        """Return a column of texts or structures."""


class Numbers:
    """A numeric column; valid is a bool array, or None when every row has a value."""

    def __init__(self, array: np.ndarray, valid: BoolArray | None = None) -> None:
        self.array = array
        self.valid = valid

    def __getitem__(self, index: int) -> Any:
        if self.valid is not None and not self.valid[index]:
            return None
        return self.array[index].item()

    def each(self, predicate: Callable[[Any], object]) -> BoolArray:
        """Return a bool array: predicate(value), computed once for each distinct value; False for
        rows without a value.
        """
        values, codes = np.unique(self.array, return_inverse=True)
        matching = np.array([bool(predicate(value)) for value in values.tolist()], dtype=bool)[
            codes.reshape(-1)
        ]
        return matching if self.valid is None else matching & self.valid


def _reader_of_amount(
    rc: str, amount: Callable[[Any], np.ndarray]
) -> Callable[[AttributeColumns], np.ndarray]:
    """Return a function that reads an amount of a class from host states; it gives 0 on a fleet
    without the class.
    """

    def read(states: AttributeColumns) -> np.ndarray:
        resource = states.resources.get(rc)
        return np.zeros(states.size, dtype=np.int64) if resource is None else amount(resource)

    return read


def _amount(rc: str, field: str) -> Callable[[AttributeColumns], np.ndarray]:
    return _reader_of_amount(rc, operator.attrgetter(field))


def _free(rc: str) -> Callable[[AttributeColumns], np.ndarray]:
    return _reader_of_amount(
        rc, lambda resource: resource.total - resource.reserved - resource.used
    )


def _reader_of_use(rc: str) -> Callable[[AttributeColumns], np.ndarray]:
    """Return a reader of the amount in use, with the room that is reserved for the host (N5.1)."""
    return _reader_of_amount(rc, lambda resource: resource.reserved + resource.used)


def free_disk_mb(states: AttributeColumns) -> IntArray:
    """Return 1024 * min(free, disk_available_least), MiB."""
    free = np.minimum(_free("DISK_GB")(states), states.disk_available_least)
    return (1024 * free).astype(np.int64)


_FIELDS = [each for each in read_when(ALWAYS, ON_DEMAND) if each.attribute]
#: The fields of compute nodes that are numbers and attributes, by name.
_FIELD_NUMBERS = {each.name: each for each in _FIELDS if each.types == NUMBER}
_TEXTS_AND_STRUCTURES = [each.name for each in _FIELDS if each.types != NUMBER]

NUMBERS: dict[str, Callable[[AttributeColumns], np.ndarray]] = {
    "total_usable_ram_mb": _amount("MEMORY_MB", "total"),
    "free_ram_mb": _free("MEMORY_MB"),
    "total_usable_disk_gb": _amount("DISK_GB", "total"),
    "disk_mb_used": lambda states: 1024 * _reader_of_use("DISK_GB")(states),
    "free_disk_mb": free_disk_mb,
    "vcpus_total": _amount("VCPU", "total"),
    "vcpus_used": _reader_of_use("VCPU"),
    "num_instances": lambda states: states.num_instances,
    "cpu_allocation_ratio": _amount("VCPU", "ratio"),
    "ram_allocation_ratio": _amount("MEMORY_MB", "ratio"),
    "disk_allocation_ratio": _amount("DISK_GB", "ratio"),
}

#: Names of columns of text or of structures -> their names in the fleet.
COLUMNS = {
    "host": "host",
    "nodename": "node",
    "hypervisor_hostname": "node",
    "uuid": "uuid",
    "cell_uuid": "cell",
    **{name: name for name in _TEXTS_AND_STRUCTURES},
    "service": "service",
}

#: The columns above that a fleet may lack and that are read on demand.
OPTIONAL = (*_TEXTS_AND_STRUCTURES, "service", "traits", "pool_traits")
#: The optional columns with structures.
STRUCTURES = (
    *(each.name for each in _FIELDS if each.types not in (NUMBER, TEXT)),
    "service",
    "traits",
    "pool_traits",
)

#: The attributes that are read on demand.
READ_ON_WISH = (*(each.name for each in read_when(ON_DEMAND)), "service", "num_io_ops")

#: Keys of stats with separate columns.
COUNTED = {
    "num_instances": "num_instances",
    "io_workload": "num_io_ops",
    "failed_builds": "failed_builds",
}

NAMES = tuple(sorted([*NUMBERS, *COLUMNS, *_FIELD_NUMBERS]))


def lookup(states: AttributeColumns, name: str) -> Numbers | Categorical | None:
    """Return the column of an attribute of host states, None if there is no such attribute."""
    if name in NUMBERS:
        return Numbers(NUMBERS[name](states))
    if name in _FIELD_NUMBERS:
        array, field = getattr(states, name), _FIELD_NUMBERS[name]
        return Numbers(array, array != field.unknown if field.default is None else None)
    if name in COLUMNS:
        return states.categorical(COLUMNS[name])
    return None


def columns_of(name: str) -> tuple[str, ...]:
    """Return the optional columns that must be read for an attribute, or for a key of stats, of
    this name.
    """
    name = COUNTED.get(name, name)
    if name not in NAMES or name == "stats":
        # One key of stats has a separate column.
        return ("stats", "num_io_ops")
    column = COLUMNS.get(name, name)
    return (column,) if column in READ_ON_WISH else ()


def stat(states: AttributeColumns, key: str) -> Categorical:
    """Return the column of one key of stats, as text; None for rows without the key."""
    if key in COUNTED:
        return _texts(getattr(states, COUNTED[key]))

    def read(stats: Any) -> str | None:
        value = stats.get(key) if isinstance(stats, dict) else None
        return None if value is None else _text(value)

    return states.categorical("stats").map(read)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _texts(array: np.ndarray) -> Categorical:
    values, codes = np.unique(array, return_inverse=True)
    return Categorical([str(value) for value in values.tolist()], codes.reshape(-1))


def follow(value: Any, path: Iterable[str]) -> Any:
    """Follow a path of keys as Nova's capability lookup does; return None if a step is missing.

    Text is read as JSON on the way; bad JSON counts as missing.
    """
    for key in path:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                return None
        if not isinstance(value, dict):
            return None
        value = value.get(key)
        if value is None:
            return None
    return value
