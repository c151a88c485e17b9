# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The query language of the hint ``query`` (N2.5).

``[op, arg, ...]`` with op one of = < > <= >= in not or and. An argument is a query, a literal or
``$attribute[.key...]`` of the host state; null arguments are dropped.

There is one difference: in Nova the answer of ``not`` is a list, and a list inside ``and`` or
``or`` counts as true in any case, so ``["and", ["not", X]]`` always passes. Here a list counts as
true if an item in it is true, as in Nova at the end of a query.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping
from typing import Any

from .._common.arrays import BoolArray, np
from . import attributes
from .attributes import AttributeColumns, Numbers
from .categorical import Categorical

COMPARE = {
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
_TOO_DEEP = "its lists are nested too deeply"
OPERATORS = (*COMPARE, "in", "not", "or", "and")


def parse(value: Any) -> list[Any]:
    """Return a checked query from JSON text or from lists.

    :returns: nested lists; an empty list passes every host.
    :raises ValueError: the query is malformed; the message has words.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else []
        except ValueError as problem:
            raise ValueError(f"it is not JSON ({problem})") from None
        except RecursionError:
            raise ValueError(_TOO_DEEP) from None
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError('a query is a list, such as [">=", "$free_ram_mb", 8192]')
    if value:
        try:
            _check_query(value)
        except RecursionError:
            raise ValueError(_TOO_DEEP) from None
    return value


def _check_query(query: list[Any]) -> None:
    if not query:
        raise ValueError("an inner query is empty")
    if not isinstance(query[0], str) or query[0] not in OPERATORS:
        raise ValueError(
            f"{json.dumps(query[0])} is no operator; there are: {', '.join(OPERATORS)}"
        )
    for argument in query[1:]:
        if isinstance(argument, list):
            _check_query(argument)
        elif isinstance(argument, dict):
            raise ValueError(
                "an argument is a mapping; it must be a query, a literal or $attribute"
            )


def names(query: list[Any]) -> set[tuple[str, ...]]:
    """Return every attribute path (tuple of keys) that a query names."""
    paths = set()
    for argument in query[1:]:
        if isinstance(argument, list):
            paths |= names(argument)
        elif isinstance(argument, str) and argument.startswith("$"):
            paths.add(tuple(argument[1:].split(".")))
    return paths


def evaluate(query: list[Any], states: AttributeColumns) -> BoolArray:
    """Return a bool array: True for the hosts that a query passes.

    :raises ValueError: values of two kinds are compared; the message has words.
    """
    if not query:
        return np.ones(states.size, dtype=bool)
    columns = {path: _column(states, path) for path in names(query)}
    # A number has no keys, so a path below it finds nothing.
    whole = all(len(path) == 1 or path[0] == "stats" for path in columns)
    arrays = {
        path: column.array
        for path, column in columns.items()
        if isinstance(column, Numbers) and column.valid is None
    }
    if whole and len(arrays) == len(columns):
        found = _arrays(query, arrays, states.size)
        if found is not None:
            return found
    answers = {}
    result = np.zeros(states.size, dtype=bool)
    paths = list(columns)
    for index in range(states.size):
        values = tuple(_at(columns[path], path, index) for path in paths)
        key = repr(values)
        if key not in answers:
            answer = _value(query, dict(zip(paths, values)))
            answers[key] = any(answer) if isinstance(answer, list) else bool(answer)
        result[index] = answers[key]
    return result


def _column(states: AttributeColumns, path: tuple[str, ...]) -> Numbers | Categorical | None:
    if path[0] == "stats" and len(path) > 1:
        return attributes.stat(states, path[1])
    return attributes.lookup(states, path[0])


def _at(column: Numbers | Categorical | None, path: tuple[str, ...], index: int) -> Any:
    value = None if column is None else column[index]
    # Values inside stats are text without inner keys.
    for key in () if path[0] == "stats" else path[1:]:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _arrays(
    query: list[Any], columns: Mapping[tuple[str, ...], np.ndarray], size: int
) -> BoolArray | None:
    """Evaluate the query over whole columns of numbers; return None if each host must be evaluated
    separately.
    """
    arguments = []
    for argument in query[1:]:
        if isinstance(argument, list):
            argument = _arrays(argument, columns, size)
            if argument is None:
                return None
        elif isinstance(argument, str) and argument.startswith("$"):
            argument = columns[tuple(argument[1:].split("."))]
        elif argument is None or argument == "":
            continue
        elif isinstance(argument, str):
            return None
        arguments.append(argument)
    name = query[0]
    if name in ("and", "or", "not"):
        truths = [
            np.broadcast_to(np.asarray(argument, dtype=bool), (size,)) for argument in arguments
        ]
        if name == "and":
            return np.logical_and.reduce(truths) if truths else np.ones(size, dtype=bool)
        if name == "not":
            truths = [~truth for truth in truths]
        return np.logical_or.reduce(truths) if truths else np.zeros(size, dtype=bool)
    if len(arguments) < 2:
        return np.zeros(size, dtype=bool)
    compare, join = (
        (operator.eq, np.logical_or) if name == "in" else (COMPARE[name], np.logical_and)
    )
    first = arguments[0]
    return join.reduce([np.broadcast_to(compare(first, other), (size,)) for other in arguments[1:]])


def _value(query: list[Any], known: Mapping[tuple[str, ...], Any]) -> Any:
    if not query:
        return True
    arguments = []
    for argument in query[1:]:
        if isinstance(argument, list):
            argument = _value(argument, known)
        elif isinstance(argument, str):
            if argument.startswith("$"):
                argument = known[tuple(argument[1:].split("."))]
            elif not argument:
                argument = None
        if argument is not None:
            arguments.append(argument)
    name = query[0]
    if name in ("and", "or", "not"):
        truths = [
            any(argument) if isinstance(argument, list) else bool(argument)
            for argument in arguments
        ]
        if name == "not":
            return [not truth for truth in truths]
        return all(truths) if name == "and" else any(truths)
    if len(arguments) < 2:
        return False
    first, others = arguments[0], arguments[1:]
    if name == "in":
        return first in others
    try:
        return all(COMPARE[name](first, other) for other in others)
    except TypeError:
        other = next((each for each in others if type(each) is not type(first)), others[0])
        raise ValueError(f"{name} cannot compare {first!r} with {other!r}") from None
