# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of resource classes and traits: standard ones from OpenStack's packages, and custom
ones.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

try:
    import os_resource_classes
    import os_traits
except ImportError:
    os_resource_classes = os_traits = None

from .._common.errors import DroverError, require, some
from .._common.resource_classes import POOL_PREFIX, pool_of
from .._common.validation import did_you_mean
from .._store.database import bulk
from .._store.database.sql import Connection, sa
from .._store.schema import tables

CUSTOM = "CUSTOM_"
MAX_LENGTH = 255
_ALLOWED = re.compile(r"[A-Z0-9_]+")
_CUSTOM = re.compile(CUSTOM + _ALLOWED.pattern)


@dataclass(frozen=True)
class NameKind:
    """Resource classes or traits: the word for people, the module that makes custom ones, the
    table.
    """

    word: str
    words: str
    module: str
    table_name: str

    @property
    def table(self) -> sa.Table:
        """Return the table of the names."""
        return getattr(tables, self.table_name)


RESOURCE_CLASS = NameKind(
    "resource class", "resource classes", "resource_class", "resource_classes"
)
TRAIT = NameKind("trait", "traits", "trait", "traits")


def standard(kind: NameKind) -> frozenset[str]:
    """Return the standard names."""
    if kind is TRAIT:
        require("os-traits", os_traits)
        return frozenset(os_traits.get_traits())
    require("os-resource-classes", os_resource_classes)
    return frozenset(os_resource_classes.STANDARDS)


def is_custom(name: str) -> bool:
    """Return True if a name can be the name of a custom resource class or trait."""
    return len(name) <= MAX_LENGTH and _CUSTOM.fullmatch(name) is not None


def check_known(connection: Connection, kind: NameKind, names: Iterable[str], where: str) -> None:
    """Refuse names that are neither standard nor in the store.

    :param where: the beginning of the sentence, such as ``Resource provider x``.
    :raises DroverError: it names the first unknown name, and the known name that is nearest to it.
    """
    usual = standard(kind)
    names = set(names) - usual
    for name in sorted(names):
        _check_spelling(kind, name, where)
    table = kind.table
    custom = _existing(connection, kind, names)
    for name in sorted(names - custom):
        everything = usual | set(connection.execute(sa.select(table.c.name)).scalars())
        make = (
            f"Make it first with the module drover.compute.{kind.module}."
            if name.startswith(CUSTOM)
            else f"It is no standard one, and one of your own begins with {CUSTOM}."
        )
        raise DroverError(
            f"{where}: there is no {kind.word} {name}{did_you_mean(name, everything)}. {make}"
        )


def check_stored(kind: NameKind, asked: Mapping[str, str], stored: Collection[str]) -> None:
    """Refuse names that are neither standard nor in the store.

    :param asked: {name: the key of a query that names it}.
    :param stored: the names in the store.
    :raises DroverError: it names the key and the name.
    """
    unknown = {name: key for name, key in asked.items() if name not in stored}
    for name, key in sorted(unknown.items()):
        if name not in standard(kind):
            if name.startswith(POOL_PREFIX):
                raise DroverError(
                    f"No host has the storage pool {pool_of(name)} in its drover_storage_pools, of"
                    f" which {key} asks for room, or it never ran. Correct the name, or add the"
                    " pool to drover_storage_pools of a host that has it, start it there and run"
                    " drover.compute.discover."
                )
            raise DroverError(
                f"{key} names the {kind.word} '{name}', which does not exist: it is no standard one"
                f" and the store has no such custom one. Correct the name, or make the {kind.word}"
                " first."
            )


def assume(connection: Connection, kind: NameKind, names: Iterable[Any], where: str) -> list[str]:
    """In a dry run, create the custom names that do not exist yet, as an earlier task will have
    created them in the run itself.

    :param connection: the connection of a transaction that is rolled back.
    :param names: a name that is not a custom name is left to check_known().
    :returns: a warning for each.
    """
    wanted = {each for each in names if isinstance(each, str) and is_custom(each)}
    missing = sorted(wanted - _existing(connection, kind, wanted))
    bulk.insert(connection, kind.table, [{"name": name} for name in missing])
    return [
        f"{where}: there is no {kind.word} {name} yet. The run itself fails here unless a task"
        f" before makes it with drover.compute.{kind.module}."
        for name in missing
    ]


def ensure(
    connection: Connection, kind: NameKind, names: Iterable[str]
) -> tuple[list[str], list[str]]:
    """Make custom names.

    :returns: the names that existed before, and the names that exist now, sorted.
    :raises DroverError: a name is a standard name, or is not CUSTOM_[A-Z0-9_]+.
    """
    names = _custom(kind, names, "is there without being made")
    before = _existing(connection, kind, names)
    bulk.insert(connection, kind.table, [{"name": name} for name in sorted(names - before)])
    return sorted(before), sorted(names)


def delete(
    connection: Connection, kind: NameKind, names: Iterable[str]
) -> tuple[list[str], list[str]]:
    """Delete custom names that no provider has.

    :returns: the same as ensure().
    :raises DroverError: a standard name, or one in use, with the providers that use it.
    """
    names = _custom(kind, names, "cannot be deleted")
    before = _existing(connection, kind, names)
    for name, users in sorted(_users(connection, kind, before).items()):
        raise DroverError(
            f"The {kind.word} {name} is in use by the resource providers {some(sorted(users), 5)}."
            " Take it from them with drover.compute.resource_provider first; nothing was deleted."
        )
    bulk.delete(connection, kind.table, kind.table.c.name, sorted(before))
    return sorted(before), []


def _custom(kind: NameKind, names: Iterable[str], refusal: str) -> set[str]:
    names = set(names)
    for name in sorted(names):
        _check_spelling(kind, name, f"The {kind.word} {_short(name)}")
        if not name.startswith(CUSTOM):
            reason = (
                f"is a standard one, which {refusal}"
                if name in standard(kind)
                else f"does not begin with {CUSTOM}, as one of your own has to"
            )
            raise DroverError(f"The {kind.word} {name} {reason}; nothing was changed.")
        if name == CUSTOM:
            raise DroverError(
                f"The {kind.word} {CUSTOM} needs a name after {CUSTOM}; nothing was changed."
            )
    return names


def _check_spelling(kind: NameKind, name: str, where: str) -> None:
    if not _ALLOWED.fullmatch(name):
        raise DroverError(
            f"{where}: the name {_short(name)!r} of a {kind.word} may have nothing but A-Z, 0-9 and"
            " _ in it."
        )
    if len(name) > MAX_LENGTH:
        raise DroverError(
            f"{where}: the name {_short(name)} of a {kind.word} has {len(name)} characters;"
            f" {MAX_LENGTH} are the most."
        )


def _short(name: str, most: int = 60) -> str:
    return name if len(name) <= most else name[:most] + "..."


def _existing(connection: Connection, kind: NameKind, names: Iterable[str]) -> set[str]:
    table = kind.table
    return {
        row.name for row in bulk.among(connection, bulk.select(table.c.name), table.c.name, names)
    }


def _users(connection: Connection, kind: NameKind, names: Iterable[str]) -> dict[str, set[str]]:
    """Return the providers that use each name, by their names."""
    providers, table = tables.resource_providers, kind.table
    if kind is TRAIT:
        columns = [(tables.provider_traits, tables.provider_traits.c.trait_id)]
    else:
        # An allocation without its inventory is an error that the audit repairs; until then it is a
        # use.
        columns = [(each, each.c.class_id) for each in (tables.inventories, tables.allocations)]
    users: dict[str, set[str]] = {}
    for used, column in columns:
        query = (
            sa.select(table.c.name, providers.c.name.label("provider"))
            .join(used, column == table.c.id)
            .join(providers, providers.c.id == used.c.provider_id)
            .distinct()
        )
        for row in bulk.among(connection, query, table.c.name, names):
            users.setdefault(row.name, set()).add(row.provider)
    return users
