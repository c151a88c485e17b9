# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resource providers as arrays, for allocation candidates and the columns of compute nodes.

A provider is its place in the order of names. See column_reader.py on how columns are read.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..._common import capacity_rule
from ..._common.arrays import BoolArray, FloatArray, IntArray, np
from ..database import bulk, column_reader
from ..database.sql import Connection, sa
from ..schema import tables

#: The trait of a provider that serves every tree with a provider in one of its aggregates.
SHARES = "MISC_SHARES_VIA_AGGREGATE"
#: More than there will be resource classes.
KEY = 1048576
#: Up to this many providers are named in a query; of more, the whole table is read.
NAMED = 500
#: Fields of inventories with their usual values; only others are read.
USUAL = {"reserved": 0, "min_unit": 1, "step_size": 1}
#: SQLite writes 15 digits of a number: a text as long as that may have lost some.
LONG = re.compile("[0-9.]{16}")


@dataclass
class Inventory:
    """The inventories of one class: arrays over the providers that have it, in the order of their
    places.

    capacity is rounded down, because amounts are whole numbers. Only read() with figures gives
    total, reserved and ratio.
    """

    places: IntArray
    capacity: IntArray
    used: IntArray
    min_unit: IntArray
    max_unit: IntArray
    step_size: IntArray
    total: IntArray | None = None
    reserved: IntArray | None = None
    ratio: FloatArray | None = None

    def fits(self, amount: int) -> BoolArray:
        """Return the providers that have room for an amount."""
        allowed = capacity_rule.is_allowed(amount, self.min_unit, self.max_unit, self.step_size)
        return allowed & capacity_rule.has_room(self.used, amount, self.capacity)


@dataclass
class ProviderArrays:
    """All providers; inventories, traits and aggregates only for the names that read() got."""

    uuids: list[str]
    names: list[str]
    #: -1 for a root.
    parents: IntArray
    #: The place of the root of each provider; a root has its own place.
    roots: IntArray
    #: The id in the store of each place.
    ids: IntArray
    #: The place of each id.
    places: IntArray
    #: {resource class: inventory}.
    inventories: dict[str, Inventory] = field(default_factory=dict)
    #: The providers with a trait, by its name; with an aggregate, by its uuid.
    traits: dict[str, BoolArray] = field(default_factory=dict)
    aggregates: dict[str, BoolArray] = field(default_factory=dict)
    #: {place of a sharing provider: the roots of the trees that it serves, its own included}.
    reached: dict[int, IntArray] = field(default_factory=dict)
    #: The roots of compute nodes that their hosts no longer report; they have no room; None if
    #: there is none, or if it does not matter.
    gone: BoolArray | None = None
    #: Ids by name.
    class_ids: dict[str, int] = field(default_factory=dict)
    trait_ids: dict[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Count the providers."""
        return len(self.uuids)

    def mask(self, ids: IntArray) -> BoolArray:
        """Mark the providers with some ids."""
        found: BoolArray = np.zeros(self.size, dtype=bool)
        found[self.places[ids]] = True
        return found

    def serving(self, places: IntArray, lent: BoolArray | None) -> tuple[IntArray, IntArray]:
        """Pair providers with the roots of the trees that they serve.

        :param places: the places of the providers.
        :param lent: a bool for each provider, True if it serves other trees too; None if no
            provider does.
        :returns: roots and providers, by root and then by provider.
        """
        anchors = self.roots[places]
        if lent is not None:
            more = [
                (roots[roots != self.roots[place]], place)
                for place, roots in self.reached.items()
                if lent[place]
            ]
            if more:
                anchors = np.concatenate([anchors, *[roots for roots, _place in more]])
                places = np.concatenate(
                    [places, *[np.full(len(roots), place) for roots, place in more]]
                )
        if np.any(anchors[1:] < anchors[:-1]):
            order = np.lexsort((places, anchors))
            anchors, places = anchors[order], places[order]
        return anchors, places


def read(
    connection: Connection,
    classes: Iterable[str],
    traits: Iterable[str] = (),
    aggregates: Iterable[str] = (),
    figures: bool = False,
) -> ProviderArrays:
    """Read all providers with some classes and traits (names) and aggregates (uuids).

    Unknown classes are left out; no provider has an unknown trait or aggregate.

    :param figures: also read total, reserved and ratio of inventories.
    """
    with bulk.without_collection():
        return _read_arrays(connection, classes, traits, set(aggregates), figures)


def _read_arrays(
    connection: Connection,
    classes: Iterable[str],
    traits: Iterable[str],
    aggregates: set[str],
    figures: bool,
) -> ProviderArrays:
    statements = _statements(connection.dialect)
    class_columns, named, provider_columns, nested = column_reader.together(
        connection, statements.classes, statements.traits, statements.providers, statements.nested
    )
    arrays = _sort_providers(*_providers(connection, provider_columns))
    arrays.class_ids = dict(
        zip(column_reader.words(class_columns[1]), column_reader.numbers(class_columns[0]).tolist())
    )
    arrays.trait_ids = dict(
        zip(column_reader.words(named[1]), column_reader.numbers(named[0]).tolist())
    )
    children, parents, roots = (arrays.places[column_reader.numbers(text)] for text in nested)
    arrays.parents[children] = parents
    arrays.roots[children] = roots
    numbers_wanted = {name: arrays.class_ids[name] for name in classes if name in arrays.class_ids}
    wanted_traits = {name: arrays.trait_ids.get(name, -1) for name in [*traits, SHARES]}
    numbers = _aggregate_ids(connection, aggregates)
    of_classes = _of_classes(numbers_wanted, arrays.class_ids)
    owned, joined, inventories, *rare = column_reader.together(
        connection,
        column_reader.where(
            statements.owned, column_reader.among("trait_id", wanted_traits.values())
        ),
        column_reader.where(statements.joined, _of_aggregates(numbers, wanted_traits[SHARES])),
        column_reader.where(statements.figures if figures else statements.room, of_classes),
        *(
            [
                column_reader.where(
                    statements.rare, " AND ".join(filter(None, (statements.unusual, of_classes)))
                )
            ]
            if figures
            else []
        ),
    )
    by_class = _by_class(inventories, numbers_wanted, arrays.places)
    if figures:
        unusual = _by_class(rare[0], numbers_wanted, arrays.places)
        exact = _exact_ratios(connection, inventories[-1])
        for name, number in numbers_wanted.items():
            arrays.inventories[name] = _with_figures(
                by_class[name], unusual[name], arrays.ids * KEY + number, exact
            )
    else:
        arrays.inventories = {name: Inventory(*columns) for name, columns in by_class.items()}
    _members(arrays, wanted_traits, numbers, owned, joined)
    return arrays


def _providers(
    connection: Connection, texts: Sequence[str]
) -> tuple[IntArray, list[str], list[str]]:
    """Read ids, uuids and names of all providers."""
    numbers, uuids, called = (
        column_reader.numbers(texts[0]),
        column_reader.words(texts[1]),
        column_reader.words(texts[2]),
    )
    if not len(numbers) == len(uuids) == len(called):
        # A name has the separator in it.
        rows = column_reader.rows(connection, _statements(connection.dialect).plain)
        numbers = np.array([row[0] for row in rows], dtype=np.int64)
        uuids, called = [row[1] for row in rows], [row[2] for row in rows]
    return numbers, uuids, called


def _sort_providers(numbers: IntArray, uuids: list[str], called: list[str]) -> ProviderArrays:
    """Sort providers by name, each a root for now."""
    order = sorted(range(len(called)), key=called.__getitem__)
    if order != list(range(len(called))):
        uuids, called = [uuids[each] for each in order], [called[each] for each in order]
        numbers = numbers[order]
    size = len(uuids)
    places = np.full((int(numbers.max()) if size else 0) + 1, -1, dtype=np.int64)
    places[numbers] = np.arange(size)
    return ProviderArrays(
        uuids, called, np.full(size, -1, dtype=np.int64), np.arange(size), numbers, places
    )


def _of_classes(wanted: dict[str, int], known: dict[str, int]) -> str | None:
    if len(wanted) == len(known):
        return None
    # The index of classes is not used: the order of the table is faster for most rows.
    return column_reader.among("class_id + 0", wanted.values())


def _aggregate_ids(connection: Connection, uuids: set[str]) -> dict[str, int]:
    """Read the ids of aggregates by uuid, -1 for one that is not in the store."""
    ids = dict.fromkeys(uuids, -1)
    if uuids:
        rows = column_reader.rows(connection, _statements(connection.dialect).aggregates)
        ids.update((uuid, number) for uuid, number in rows if uuid in uuids)
    return ids


def _of_aggregates(numbers: dict[str, int], shares: int) -> str:
    """Return the test for the rows of some aggregates, or of all if a provider shares."""
    test = column_reader.among("aggregate_id", numbers.values())
    return f"{test} OR EXISTS (SELECT 1 FROM provider_traits WHERE trait_id = {int(shares)})"


def _by_class(
    texts: Sequence[str], wanted: dict[str, int], places: IntArray
) -> dict[str, list[Any]]:
    """Split columns by class, in the order of places.

    :param wanted: {class: id}.
    :returns: {class: [places, other columns ...]}.
    """
    key, *columns = map(column_reader.numbers, texts)
    where, which = places[key // KEY], key % KEY
    by_class = {}
    for name, number in wanted.items():
        mine = np.flatnonzero(which == number)
        at = where[mine]
        if np.any(at[1:] < at[:-1]):
            mine = mine[np.argsort(at, kind="stable")]
            at = where[mine]
        by_class[name] = [at, *(column[mine] for column in columns)]
    return by_class


def _exact_ratios(connection: Connection, text: str) -> dict[int, float] | None:
    """Read ratios by key if their texts may lack digits; None if the texts are exact."""
    if connection.dialect.name != "sqlite" or LONG.search(text) is None:
        return None
    return dict(column_reader.rows(connection, _statements(connection.dialect).ratios))


def _with_figures(
    columns: list[Any], rare: list[Any], keys: IntArray, exact: dict[int, float] | None
) -> Inventory:
    """Make the Inventory of a class.

    :param keys: the ids of its rows in the store, by the place of their provider.
    """
    places, total, used, max_unit, ratio = columns
    if exact is not None:
        ratio = np.array([exact[key] for key in keys[places].tolist()], dtype=np.float64)
    where = np.searchsorted(places, rare[0])
    more: dict[str, IntArray] = {}
    for (name, usual), found in zip(USUAL.items(), rare[1:]):
        more[name] = np.full(len(places), usual, dtype=np.int64)
        more[name][where] = found
    capacity = np.trunc(capacity_rule.capacity(total, more["reserved"], ratio)).astype(np.int64)
    return Inventory(places, capacity, used, max_unit=max_unit, total=total, ratio=ratio, **more)


def _members(
    arrays: ProviderArrays,
    trait_ids: dict[str, int],
    aggregate_ids: dict[str, int],
    owned: Sequence[str],
    joined: Sequence[str],
) -> None:
    """Fill traits, aggregates and reached."""
    which, provider = map(column_reader.numbers, owned)
    arrays.traits = {
        name: arrays.mask(provider[which == number]) for name, number in trait_ids.items()
    }
    which, provider = map(column_reader.numbers, joined)
    arrays.aggregates = {
        name: arrays.mask(provider[which == number]) for name, number in aggregate_ids.items()
    }
    where = arrays.places[provider]
    for place in np.flatnonzero(arrays.traits[SHARES]).tolist():
        mine = np.isin(which, which[where == place])
        arrays.reached[place] = np.unique(np.append(arrays.roots[where[mine]], arrays.roots[place]))


def read_rest(
    connection: Connection, arrays: ProviderArrays, touched: BoolArray
) -> tuple[dict[str, tuple[IntArray, IntArray, IntArray]], list[list[str]]]:
    """Read the other classes and the traits of some providers.

    :param touched: marks the providers.
    :returns: {class: (places, capacity, used)} of the classes that are not in the arrays, and
        the trait names of each provider, sorted; for those not touched perhaps empty.
    """
    statements = _statements(connection.dialect)
    ids = arrays.ids[touched]
    few = ids.tolist() if len(ids) <= NAMED else None
    others = {
        name: number for name, number in arrays.class_ids.items() if name not in arrays.inventories
    }
    shown, owned = column_reader.together(
        connection,
        column_reader.where(
            statements.shown, column_reader.among("class_id", others.values()), few
        ),
        column_reader.where(statements.owned, None, few),
    )
    rest = {
        name: (places, capacity, used)
        for name, (places, capacity, used) in _by_class(shown, others, arrays.places).items()
    }
    names = {number: name for name, number in arrays.trait_ids.items()}
    which, provider = map(column_reader.numbers, owned)
    traits: list[list[str]] = [[] for _each in range(arrays.size)]
    for place, trait in zip(arrays.places[provider].tolist(), which.tolist()):
        traits[place].append(names[trait])
    return rest, traits


@functools.lru_cache(maxsize=2)
def _statements(dialect: sa.Dialect) -> _Statements:
    """Return the statements as text, made once: making them takes as long as running them on a
    small fleet.
    """
    return _Statements(dialect)


class _Statements:
    def __init__(self, dialect: sa.Dialect) -> None:
        providers, inventories = tables.resource_providers.c, tables.inventories.c
        owned, joined = tables.provider_traits.c, tables.provider_aggregates.c
        classes, traits, aggregates = (
            tables.resource_classes.c,
            tables.traits.c,
            tables.placement_aggregates.c,
        )
        capacity = capacity_rule.capacity(
            inventories.total, inventories.reserved, inventories.allocation_ratio
        )
        # A cast drops the fraction in SQLite and rounds in PostgreSQL.
        sqlite = dialect.name == "sqlite"
        capacity = sa.cast(capacity if sqlite else sa.func.trunc(capacity), sa.BigInteger)
        # Two ids in one number: a column less. It is larger than PostgreSQL's integer from provider
        # 2048 on.
        key = sa.cast(inventories.provider_id, sa.BigInteger) * KEY + inventories.class_id

        def text(statement: Any) -> str:
            return str(statement.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))

        self.classes = text(column_reader.select(sqlite, classes.id, classes.name))
        self.traits = text(column_reader.select(sqlite, traits.id, traits.name))
        self.aggregates = text(sa.select(aggregates.uuid, aggregates.id))
        self.plain = text(sa.select(providers.id, providers.uuid, providers.name))
        self.providers = text(
            column_reader.select(sqlite, providers.id, providers.uuid, providers.name)
        )
        self.nested = text(
            column_reader.select(
                sqlite, providers.id, providers.parent_id, providers.root_id
            ).where(providers.parent_id.is_not(None))
        )
        limits = (inventories.min_unit, inventories.max_unit, inventories.step_size)
        self.room = text(column_reader.select(sqlite, key, capacity, inventories.used, *limits))
        self.figures = text(
            column_reader.select(
                sqlite,
                key,
                inventories.total,
                inventories.used,
                inventories.max_unit,
                inventories.allocation_ratio,
            )
        )
        self.rare = text(column_reader.select(sqlite, key, *(inventories[name] for name in USUAL)))
        self.unusual = (
            "(" + " OR ".join(f"{name} <> {value}" for name, value in USUAL.items()) + ")"
        )
        self.ratios = text(sa.select(key, inventories.allocation_ratio))
        self.shown = text(column_reader.select(sqlite, key, capacity, inventories.used))
        self.owned = text(column_reader.select(sqlite, owned.trait_id, owned.provider_id))
        self.joined = text(column_reader.select(sqlite, joined.aggregate_id, joined.provider_id))
