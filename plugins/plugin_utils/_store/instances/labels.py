# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances and hosts by their labels, each selection in one query."""

from __future__ import annotations

import json
from typing import Any

from ..._common.errors import DroverError
from ..._common.validation import which_name
from ..._records.labels import Requirement, Selector
from ..database.sql import Connection, sa
from ..schema import tables


def condition(labels: sa.ColumnElement[Any], selector: Selector) -> sa.ColumnElement[bool]:
    """Return the SQL condition for the rows that a selector selects.

    :param labels: the column of its labels.
    """
    return sa.and_(*(_meets(labels[each.key].as_string(), each) for each in selector.requirements))


def _meets(value: sa.ColumnElement[Any], wanted: Requirement) -> sa.ColumnElement[bool]:
    if wanted.value is None:
        return value.is_(None) if wanted.negated else value.is_not(None)
    return value.is_distinct_from(wanted.value) if wanted.negated else value == wanted.value


def instances(connection: Connection, selector: Selector) -> list[dict[str, str]]:
    """Read the instances that a selector selects, to be changed.

    :returns: uuid and name of each, sorted by name.
    :raises DroverError: it selects none, or a key that it excludes is of no instance, so that it
        would exclude nothing.
    """
    table = tables.instances
    query = (
        sa.select(table.c.uuid, table.c.name)
        .where(condition(table.c.labels, selector))
        .order_by(table.c.name, table.c.uuid)
    )
    selected = [{"uuid": row.uuid, "name": row.name} for row in connection.execute(query)]
    if not selected:
        raise DroverError(f"{no_instance(connection, selector)} Nothing was done.")
    excluded = {each.key: each for each in selector.requirements if each.negated}
    keys = _keys(connection, table) if excluded else set()
    for key in sorted(set(excluded) - keys):
        raise DroverError(
            f"No instance has a label {key}{which_name(key, keys)}, so that {excluded[key]} would"
            " exclude none. Nothing was done. Correct the key, or leave out this part of the"
            " selector."
        )
    return selected


def no_instance(connection: Connection, selector: Selector) -> str:
    """Write the sentence for a selector that selects no instance."""
    return _nothing(connection, tables.instances, selector, "instance")


def no_host(connection: Connection, selector: Selector) -> str:
    """Write the sentence for a selector that selects no host."""
    return _nothing(connection, tables.services, selector, "host")


def _nothing(connection: Connection, table: sa.Table, selector: Selector, word: str) -> str:
    known = _keys(connection, table)
    unknown = sorted({each.key for each in selector.requirements} - known)
    why = "".join(f" No {word} has a label {key}{which_name(key, known)}." for key in unknown)
    return f"The selector {selector} selects no {word}.{why}"


def _keys(connection: Connection, table: sa.Table) -> set[str]:
    """Read the keys of all labels of a table."""
    # The values are compared as text: PostgreSQL does not compare JSON.
    text = sa.cast(table.c.labels, sa.Text)
    return {
        key
        for row in connection.execute(sa.select(text).where(table.c.labels.is_not(None)).distinct())
        for key in json.loads(row[0])
    }
