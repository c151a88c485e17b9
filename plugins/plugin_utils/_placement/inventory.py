# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room on providers: capacity, use, and the check of an amount (N10.2); inventories of operators,
checked (N10.1).

Each writer locks the rows of inventories after all other rows, in the order (provider, class), so
that no two writers wait for each other.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypedDict

from .._common import capacity_rule, validation
from .._common.errors import DroverError
from .._common.resource_classes import words_of
from .._common.validation import MOST
from .._store.database import bulk
from .._store.database.sql import Connection, Row, Select, sa
from .._store.schema import tables

#: (provider id, class id).
InventoryKey = tuple[int, int]
#: Allocated amounts, or changes of them.
Amounts = dict[InventoryKey, int]


class InventoryFields(TypedDict):
    """An inventory of a class, in its unit."""

    total: int
    reserved: int
    min_unit: int
    max_unit: int
    step_size: int
    allocation_ratio: float


def fields_of(row: Row | ProviderInventory) -> InventoryFields:
    """Return the fields of an inventory."""
    return {
        "total": row.total,
        "reserved": row.reserved,
        "min_unit": row.min_unit,
        "max_unit": row.max_unit,
        "step_size": row.step_size,
        "allocation_ratio": row.allocation_ratio,
    }


def reserved_of(row: Row) -> int:
    """Return the reserved amount of an inventory; a drain of its storage pool does not count."""
    return row.reserved if row.reserved_before_drain is None else row.reserved_before_drain


def while_drained(row: Row, values: Mapping[str, object]) -> dict[str, object]:
    """Return the new values of an inventory as they are written: of a storage pool that is drained
    all is reserved, and the rest is remembered.
    """
    if row.reserved_before_drain is None:
        return {**values, "reserved_before_drain": None}
    return {**values, "reserved": values["total"], "reserved_before_drain": values["reserved"]}


class ProviderInventory:
    """Inventory and use of one class on one provider."""

    __slots__ = (
        "key",
        "total",
        "reserved",
        "min_unit",
        "max_unit",
        "step_size",
        "allocation_ratio",
        "used",
        "is_drained",
    )

    def __init__(self, row: Row) -> None:
        self.key: InventoryKey = (row.provider_id, row.class_id)
        self.total: int = row.total
        self.reserved: int = row.reserved
        self.min_unit: int = row.min_unit
        self.max_unit: int = row.max_unit
        self.step_size: int = row.step_size
        self.allocation_ratio: float = row.allocation_ratio
        self.used: int = row.used
        self.is_drained = row.reserved_before_drain is not None

    @property
    def capacity(self) -> float:
        """Return (total - reserved) x allocation_ratio, unrounded."""
        return capacity_rule.capacity(self.total, self.reserved, self.allocation_ratio)

    def refusal(self, name: str, amount: int) -> str | None:
        """Return the reason why an amount of class ``name`` does not fit; None if it does."""
        return self.shortage(name, amount) or self.unfit(name, amount)

    def shortage(self, name: str, amount: int) -> str | None:
        """Do as refusal(), for the capacity alone. To take nothing more is never refused, however
        full the provider is.
        """
        if amount > 0 and not capacity_rule.has_room(self.used, amount, self.capacity):
            if self.is_drained:
                return (
                    f"{words_of(name)}: asked {amount}, and its storage pool is drained, which"
                    " drover.compute.undrain ends"
                )
            return f"{words_of(name)}: asked {amount}, used {self.used} of {self.capacity:g}"
        return None

    def unfit(self, name: str, amount: int) -> str | None:
        """Do as refusal(), for the limits of a single allocation."""
        if capacity_rule.is_allowed(amount, self.min_unit, self.max_unit, self.step_size):
            return None
        if self.min_unit <= amount <= self.max_unit:
            return f"{words_of(name)}: asked {amount}, which is no multiple of {self.step_size}"
        return (
            f"{words_of(name)}: asked {amount}, one instance may have {self.min_unit} to"
            f" {self.max_unit}"
        )

    def data(self, name: str, amount: int) -> dict[str, Any]:
        """Return a refusal for a program."""
        return {
            "resource_class": name,
            "asked": amount,
            "used": self.used,
            "capacity": self.capacity,
        }


def hold(
    connection: Connection, provider_ids: Collection[int], names: Iterable[str] | None
) -> dict[int, dict[str, ProviderInventory]]:
    """Lock the inventories of providers until the end of the transaction.

    :param names: the resource classes that matter; None for all.
    :returns: {provider id: {class: inventory}}.
    """
    inventories: dict[int, dict[str, ProviderInventory]] = {key: {} for key in provider_ids}
    wanted = sorted(provider_ids)
    for start in range(0, len(wanted), bulk.NAMED_VALUES):
        some, named = wanted[start : start + bulk.NAMED_VALUES], sorted(names or ())
        values = {**bulk.numbered("provider", some), **bulk.numbered("name", named)}
        for row in bulk.run(
            connection, values, _lock_statement, len(some), None if names is None else len(named)
        ):
            inventories[row.provider_id][row.name] = ProviderInventory(row)
    return inventories


def _lock_statement(providers: int, names: int | None) -> Select:
    """Make the statement that locks the rows of so many providers and so many classes; None for all
    classes.
    """
    inventories, classes = tables.inventories, tables.resource_classes
    query = (
        sa.select(inventories, classes.c.name)
        .join(classes, classes.c.id == inventories.c.class_id)
        .where(bulk.one_of(inventories.c.provider_id, "provider", providers))
        .order_by(inventories.c.provider_id, inventories.c.class_id)
        .with_for_update(of=inventories)
    )
    return query if names is None else query.where(bulk.one_of(classes.c.name, "name", names))


#: The most rows that one statement changes.
MOST_AT_ONCE = 12


def _use_statement(size: int, limited: bool) -> sa.Update:
    """Make the statement that changes the use of so many rows."""
    table = tables.inventories
    capacity = capacity_rule.capacity(table.c.total, table.c.reserved, table.c.allocation_ratio)
    zero, amounts, where = sa.literal_column("0", sa.BigInteger), [], []
    for number in range(size):
        row = sa.and_(
            table.c.provider_id == sa.bindparam(f"provider_{number}", type_=sa.Integer),
            table.c.class_id == sa.bindparam(f"class_{number}", type_=sa.Integer),
        )
        amount = sa.bindparam(f"amount_{number}", type_=sa.BigInteger)
        amounts.append((row, amount))
        where.append(
            sa.and_(
                row, sa.or_(amount <= zero, capacity_rule.has_room(table.c.used, amount, capacity))
            )
            if limited
            else row
        )
    more = amounts[0][1] if size == 1 else sa.case(*amounts, else_=zero)
    return sa.update(table).where(sa.or_(*where)).values(used=table.c.used + more)


def _allocation_statement(size: int, changes: int) -> Select:
    """Make PostgreSQL's statement that inserts so many allocations, changes the use of so many rows
    and counts these.
    """
    table = tables.allocations
    names = [column.name for column in table.c if column.name != "id"]
    values = [
        {name: sa.bindparam(f"{name}_of_{n}", type_=table.c[name].type) for name in names}
        for n in range(size)
    ]
    counted = _use_statement(changes, True).returning(tables.inventories.c.id).cte("counted")
    query = sa.select(sa.func.count()).select_from(counted)
    return query.add_cte(sa.insert(table).values(values).cte("allocated"))


def allocate(
    connection: Connection,
    rows: Sequence[dict[str, int]],
    change: Mapping[InventoryKey, int],
    limited: bool = False,
) -> None:
    """Insert allocations, and change the use that is counted beside the inventories.

    :param rows: rows for the table of allocations.
    :param limited: never more than the capacity. The caller has locked the rows and checked that;
        the database checks it once more.
    """
    changes = [
        {"provider": provider, "class": class_id, "amount": amount}
        for (provider, class_id), amount in sorted(change.items())
        if amount
    ]
    few = limited and 0 < len(changes) <= MOST_AT_ONCE
    values = _by_number("{}_{}", changes) if few else {}
    if few and 0 < len(rows) <= MOST_AT_ONCE and connection.dialect.name == "postgresql":
        values.update(_by_number("{}_of_{}", rows))
        done = bulk.run(
            connection, values, _allocation_statement, len(rows), len(changes)
        ).scalar_one()
    else:
        bulk.insert(connection, tables.allocations, rows)
        done = _change_use(connection, changes, values, limited) if changes else 0
    if limited and done != len(changes):
        raise DroverError(
            "The room that was claimed was taken meanwhile. Nothing was claimed: schedule again.",
            cause="no_room",
        )


def _by_number(called: str, rows: Sequence[dict[str, int]]) -> dict[str, int]:
    return {
        called.format(name, number): value
        for number, row in enumerate(rows)
        for name, value in row.items()
    }


def _change_use(
    connection: Connection,
    changes: Sequence[dict[str, int]],
    together: dict[str, int],
    limited: bool,
) -> int:
    """Change the use; return the number of changed rows."""
    if together:
        return bulk.run(connection, together, _use_statement, len(changes), True).rowcount
    # The statements run one after the other, in the order in which all writers lock the rows.
    values = [{f"{name}_0": value for name, value in each.items()} for each in changes]
    return bulk.run(connection, values, _use_statement, 1, limited).rowcount


def insert(connection: Connection, rows: Sequence[dict[str, object]]) -> None:
    """Insert inventories, with the sums of their existing allocations: after a heal or an import,
    or if the first host of a pool did not know its size.

    :param rows: rows for the table of inventories, without their use.
    """
    table = tables.allocations
    query = sa.select(
        table.c.provider_id, table.c.class_id, sa.func.sum(table.c.used).label("used")
    ).group_by(table.c.provider_id, table.c.class_id)
    found = bulk.among(connection, query, table.c.provider_id, {row["provider_id"] for row in rows})
    used = {(row.provider_id, row.class_id): int(row.used) for row in found}
    bulk.insert(
        connection,
        tables.inventories,
        [{**row, "used": used.get((row["provider_id"], row["class_id"]), 0)} for row in rows],
    )


# Placement's limits: a 32-bit amount, a single-precision ratio.
MOST_RATIO = 3.40282e38
DEFAULTS = {"reserved": 0, "min_unit": 1, "max_unit": MOST, "step_size": 1, "allocation_ratio": 1.0}


def complete(where: str, inventories: Mapping[str, object]) -> dict[str, InventoryFields]:
    """Complete inventories with Placement's defaults.

    :param where: the beginning of a refusal, such as ``Resource provider x``.
    :param inventories: {class: {total and any of DEFAULTS}}.
    :returns: {class: its inventory}.
    :raises DroverError: an unknown field, a wrong type, an amount out of range, reserved above
        total.
    """
    return {
        name: _complete(f"{where}, inventory of {name}", given)
        for name, given in inventories.items()
    }


def _complete(where: str, given: Any) -> InventoryFields:
    if not isinstance(given, dict):
        raise DroverError(f"{where}: must be a mapping such as {{total: 4}}, not {given!r}.")
    validation.check_keys(where, given, ("total", *DEFAULTS), "field")
    if given.get("total") is None:
        raise DroverError(f"{where}: total is missing. Say how much there is.")
    given = {**DEFAULTS, **{name: value for name, value in given.items() if value is not None}}

    def whole(name: str) -> int:
        return validation.read_whole(
            f"{where}: {name}", given[name], 0 if name == "reserved" else 1
        )

    values: InventoryFields = {
        "total": whole("total"),
        "reserved": whole("reserved"),
        "min_unit": whole("min_unit"),
        "max_unit": whole("max_unit"),
        "step_size": whole("step_size"),
        "allocation_ratio": _ratio(f"{where}: allocation_ratio", given["allocation_ratio"]),
    }
    if values["reserved"] > values["total"]:
        raise DroverError(
            f"{where}: {values['reserved']} cannot be reserved of a total of {values['total']}."
            " Lower reserved."
        )
    if values["min_unit"] > values["max_unit"]:
        raise DroverError(
            f"{where}: min_unit {values['min_unit']} is above max_unit {values['max_unit']}, so"
            " that nothing could ever be claimed. Correct one of them."
        )
    return values


def _ratio(where: str, value: Any) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 < number <= MOST_RATIO:
        raise DroverError(
            f"{where} must be a number above 0 and at most {MOST_RATIO:g}, not {value!r}."
        )
    return number
