# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The providers of the store as arrays, as far as a query for candidates is decided by them.

A provider is its place in the order of names. What is read are not rows but whole columns, each as
one text that the database makes: for ten thousand providers that is three times as fast.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from ansible_collections.drover.compute.plugins.plugin_utils.arrays import np
from ansible_collections.drover.compute.plugins.plugin_utils.placement import classes_and_traits
from ansible_collections.drover.compute.plugins.plugin_utils.store import column_reader, sharing_providers, tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa

#: More than there will be resource classes.
KEY = 1048576
#: Up to this many providers are named in a query; of more, the whole table is read.
NAMED = 500


@dataclass
class Inventory:
    """One class: arrays (int64) over the providers that have it, in the order of their places.

    capacity is (total - reserved) x allocation_ratio without its fraction: amounts are whole numbers.
    """

    places: object
    capacity: object
    used: object
    min_unit: object
    max_unit: object
    step_size: object

    def fits(self, amount):
        """bool array: who has room for an amount (N10.2)."""
        return (
            (self.used + amount <= self.capacity) & (self.min_unit <= amount) & (self.max_unit >= amount) & (amount % self.step_size == 0)
        )


@dataclass
class Topology:
    """uuids, names: lists; parents (-1 for none), roots (own place for a root): int64 arrays.

    inventories {class: Inventory}, traits {name: bool array}, aggregates {uuid: bool array}: those the
    query names. nested: whether any provider has a parent. reached: {place of a sharing provider:
    int64 array of the roots of the trees it serves, its own included}.
    """

    uuids: list
    names: list
    parents: object
    roots: object
    inventories: dict = field(default_factory=dict)
    traits: dict = field(default_factory=dict)
    aggregates: dict = field(default_factory=dict)
    reached: dict = field(default_factory=dict)
    # What the rest of the store is found by: ids by place, places by id, names of classes and traits.
    ids: object = None
    places: object = None
    class_ids: dict = field(default_factory=dict)
    trait_names: dict = field(default_factory=dict)

    @property
    def size(self):
        return len(self.uuids)

    def mask(self, ids):
        """bool array over the providers, true for those with these ids."""
        found = np.zeros(self.size, dtype=bool)
        found[self.places[ids]] = True
        return found


def read(connection, query):
    """The Topology that decides a query.

    :param query: placement.candidates.query.Query.
    :raises DroverError: the query names a class or a trait that does not exist.
    """
    with column_reader.uncollected():
        return _read(connection, query)


def _read(connection, query):
    statements = _statements(connection.dialect)
    classes, traits, found, nested = column_reader.together(
        connection, statements.classes, statements.traits, statements.providers, statements.nested
    )
    class_ids = dict(zip(column_reader.words(classes[1]), column_reader.numbers(classes[0]).tolist()))
    trait_names = dict(zip(column_reader.numbers(traits[0]).tolist(), column_reader.words(traits[1])))
    trait_ids = {name: number for number, name in trait_names.items()}
    asked = query.traits()
    classes_and_traits.check_stored(classes_and_traits.RESOURCE_CLASS, query.classes(), class_ids)
    classes_and_traits.check_stored(classes_and_traits.TRAIT, asked, trait_ids)

    numbers, uuids, called = _providers(connection, found)
    order = sorted(range(len(called)), key=called.__getitem__)
    if order != list(range(len(called))):
        uuids, called = [uuids[each] for each in order], [called[each] for each in order]
        numbers = numbers[order]
    places = np.full((int(numbers.max()) if len(numbers) else 0) + 1, -1, dtype=np.int64)
    places[numbers] = np.arange(len(numbers))
    topology = Topology(uuids, called, np.full(len(uuids), -1, dtype=np.int64), np.arange(len(uuids)))
    topology.ids, topology.places = numbers, places
    topology.class_ids, topology.trait_names = class_ids, trait_names
    children, parents, roots = (places[column_reader.numbers(text)] for text in nested)
    topology.parents[children] = parents
    topology.roots[children] = roots
    wanted = {name: class_ids[name] for name in query.classes() if name in class_ids}
    deciding = {name: trait_ids.get(name) for name in [*asked, sharing_providers.SHARES]}
    room, owned, joined = column_reader.together(
        connection,
        column_reader.where(statements.room, _of_classes(wanted, class_ids)),
        column_reader.where(statements.owned, column_reader.among("trait_id", [each for each in deciding.values() if each is not None])),
        column_reader.where(statements.joined, _of_aggregates(connection, query, deciding[sharing_providers.SHARES], topology)),
    )
    read_inventories = _inventories(room, wanted, places)
    topology.inventories = {name: Inventory(*columns) for name, columns in read_inventories.items()}
    _members(topology, deciding, owned, joined)
    return topology


def _providers(connection, texts):
    """ids, uuids and names of all."""
    numbers, uuids, called = column_reader.numbers(texts[0]), column_reader.words(texts[1]), column_reader.words(texts[2])
    if not len(numbers) == len(uuids) == len(called):
        # A name holds the separator.
        rows = column_reader.rows(connection, _statements(connection.dialect).plain)
        numbers = np.array([row[0] for row in rows], dtype=np.int64)
        uuids, called = [row[1] for row in rows], [row[2] for row in rows]
    return numbers, uuids, called


def _of_classes(wanted, known):
    if len(wanted) == len(known):
        return None
    # Not by the index of classes: most rows are wanted, and in the order of the table they come faster.
    return column_reader.among("class_id + 0", wanted.values())


def _of_aggregates(connection, query, shares, topology):
    """The test for provider_aggregates: those the query names, or all where something is shared."""
    asked = query.aggregates()
    found = dict.fromkeys(asked, -1)
    if asked:
        rows = column_reader.rows(connection, _statements(connection.dialect).aggregates)
        found.update((uuid, number) for uuid, number in rows if uuid in asked)
    topology.aggregates = found
    test = column_reader.among("aggregate_id", found.values())
    if shares is not None:
        test += f" OR EXISTS (SELECT 1 FROM provider_traits WHERE trait_id = {int(shares)})"
    return test


def _inventories(texts, wanted, places):
    """{class: [places, other columns ...]} of the wanted classes {name: id}, in the order of places."""
    key, *columns = map(column_reader.numbers, texts)
    where, which = places[key // KEY], key % KEY
    found = {}
    for name, number in wanted.items():
        mine = np.flatnonzero(which == number)
        at = where[mine]
        if np.any(at[1:] < at[:-1]):
            mine = mine[np.argsort(at, kind="stable")]
            at = where[mine]
        found[name] = [at, *(column[mine] for column in columns)]
    return found


def _members(topology, trait_ids, owned, joined):
    """Fill traits, aggregates (ids until now) and reached."""
    which, provider = map(column_reader.numbers, owned)
    for name, number in trait_ids.items():
        topology.traits[name] = topology.mask(provider[which == (-1 if number is None else number)])
    which, provider = map(column_reader.numbers, joined)
    topology.aggregates = {name: topology.mask(provider[which == each]) for name, each in topology.aggregates.items()}
    where = topology.places[provider]
    for place in np.flatnonzero(topology.traits[sharing_providers.SHARES]).tolist():
        mine = np.isin(which, which[where == place])
        topology.reached[place] = np.unique(np.append(topology.roots[where[mine]], topology.roots[place]))


def read_rest(connection, topology, touched):
    """What an answer shows besides: the other classes and the traits of some providers.

    :param touched: bool array over the providers.
    :returns: {class: [places, capacity, used]} of the classes that the topology has not (arrays), and
        a list of trait names (sorted) for each provider, for those not touched perhaps empty.
    """
    statements = _statements(connection.dialect)
    ids = topology.ids[touched]
    few = ids.tolist() if len(ids) <= NAMED else None
    others = {name: number for name, number in topology.class_ids.items() if name not in topology.inventories}
    shown, owned = column_reader.together(
        connection,
        column_reader.where(statements.shown, column_reader.among("class_id", others.values()), few),
        column_reader.where(statements.owned, None, few),
    )
    rest = _inventories(shown, others, topology.places)
    which, provider = map(column_reader.numbers, owned)
    traits = [[] for _each in range(topology.size)]
    for place, trait in zip(topology.places[provider].tolist(), which.tolist()):
        traits[place].append(topology.trait_names[trait])
    return rest, traits


@functools.lru_cache(maxsize=2)
def _statements(dialect):
    """The statements as text, made once: to make them takes as long as to run them on a small fleet."""
    return _Statements(dialect)


class _Statements:
    def __init__(self, dialect):
        providers, inventories = tables.resource_providers.c, tables.inventories.c
        owned, joined = tables.provider_traits.c, tables.provider_aggregates.c
        classes, traits, aggregates = tables.resource_classes.c, tables.traits.c, tables.placement_aggregates.c
        capacity = (inventories.total - inventories.reserved) * inventories.allocation_ratio
        # A cast drops the fraction in SQLite and rounds in PostgreSQL.
        sqlite = dialect.name == "sqlite"
        capacity = sa.cast(capacity if sqlite else sa.func.trunc(capacity), sa.BigInteger)
        # Two ids in one number: a column less.
        key = (inventories.provider_id * KEY + inventories.class_id, capacity, inventories.used)

        def text(statement):
            return str(statement.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))

        self.classes = text(column_reader.select(sqlite, classes.id, classes.name))
        self.traits = text(column_reader.select(sqlite, traits.id, traits.name))
        self.aggregates = text(sa.select(aggregates.uuid, aggregates.id))
        self.plain = text(sa.select(providers.id, providers.uuid, providers.name))
        self.providers = text(column_reader.select(sqlite, providers.id, providers.uuid, providers.name))
        self.nested = text(
            column_reader.select(sqlite, providers.id, providers.parent_id, providers.root_id).where(providers.parent_id.is_not(None))
        )
        self.room = text(column_reader.select(sqlite, *key, inventories.min_unit, inventories.max_unit, inventories.step_size))
        self.shown = text(column_reader.select(sqlite, *key))
        self.owned = text(column_reader.select(sqlite, owned.trait_id, owned.provider_id))
        self.joined = text(column_reader.select(sqlite, joined.aggregate_id, joined.provider_id))
