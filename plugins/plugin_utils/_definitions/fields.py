# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of the keys of a definitions file: checked from them, described by them in JSON Schema and
in the documentation.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from .._common import sizes, validation
from .._common.errors import DroverError, either

#: The kinds of values, as a sentence names them and as JSON Schema does.
TEXT, WHOLE, SWITCH, LIST, MAPPING, MIB, GIB, ANY = (
    "text",
    "whole",
    "switch",
    "list",
    "mapping",
    "mib",
    "gib",
    "any",
)
_WORDS = {
    TEXT: "a text",
    WHOLE: "a whole number",
    SWITCH: "true or false",
    LIST: "a list",
    MAPPING: "a mapping",
}
_CLASSES: dict[str, type] = {TEXT: str, WHOLE: int, SWITCH: bool, LIST: list, MAPPING: dict}
_UNITS = {MIB: sizes.MIB, GIB: sizes.GIB}
_SCHEMA_TYPES = {
    TEXT: "string",
    WHOLE: "integer",
    SWITCH: "boolean",
    LIST: "array",
    MAPPING: "object",
}
_ODD = re.compile(
    "[\0-\x1f\x7f-\x9f\ud800-\udfff"
    + "".join(chr(plane << 16 | last) for plane in range(17) for last in (0xFFFE, 0xFFFF))
    + "]"
)
#: The most characters that the store keeps of a name, and of a path.
LONGEST, LONGEST_PATH = 255, 1024


class Field(NamedTuple):
    """A key of a mapping in a definitions file.

    kind: the kind of its value; several kinds if people may write it in several ways. description:
    one or more sentences of plain Markdown, for the documentation and editors. example: a value as
    it is written in the file. choices: the only texts that it may be. least, most: the ends of a
    whole number; ``least`` is the least size, too. required: True if each mapping must have it.
    fields: the table of a mapping, or of each item of a list of mappings. A mapping without a table
    takes any keys. items: of a list of other things, the field of one item. check: converts a value
    to the form that the rest of the program uses; called with the value and the place. longest: the
    most characters of a text, which is one line; None for a text of several lines, or with its own
    rules.
    """

    kind: str | tuple[str, ...]
    description: str
    example: Any
    choices: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None
    required: bool = False
    fields: Mapping[str, Field] | None = None
    items: Field | None = None
    check: Callable[[Any, str], Any] | None = None
    longest: int | None = LONGEST

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of its value."""
        return (self.kind,) if isinstance(self.kind, str) else self.kind


Table = Mapping[str, Field]


def absolute(value: str, place: str) -> str:
    """Check that a path is absolute and of a file; the ``check`` of a field."""
    if not value.startswith("/"):
        raise DroverError(f"{place} must be absolute, not {validation.shown(value)}.")
    return of_file(value, place)


def of_file(value: str, place: str) -> str:
    """Check that an absolute path may be the path of a file."""
    if value.startswith("/") and posixpath.basename(value) in ("", ".", ".."):
        raise DroverError(
            f"{place} must be the path of a file, and {validation.shown(value)} is a folder. Add"
            " the name of the file."
        )
    return value


def read(table: Table, given: Any, place: str) -> dict[str, Any]:
    """Check a mapping by its table.

    :param place: the beginning of each sentence, such as ``fleet.yml line 3: instance web1``.
    :returns: the keys that have a value, with sizes as whole numbers of their unit.
    :raises DroverError: the first thing that is wrong; an unknown key with the nearest known one.
    """
    if not isinstance(given, Mapping):
        raise DroverError(f"{place}: must be a mapping, not {validation.shown(given)}.")
    validation.check_keys(place, given, sorted(table))
    for key, field in table.items():
        if field.required and given.get(key) in (None, ""):
            raise DroverError(f"{place}: {key} is missing. For example: {key}: {field.example}.")
    return {
        key: _value(table[key], value, key, place)
        for key, value in given.items()
        if value is not None
    }


def _value(field: Field, value: Any, key: str, place: str) -> Any:
    unit = next((_UNITS[kind] for kind in field.kinds if kind in _UNITS), None)
    if unit is not None:
        value = sizes.read(f"{place}: {key}", value, unit, field.least or 0)
    elif not any(_is_kind(kind, value) for kind in field.kinds):
        if TEXT in field.kinds and not isinstance(value, (list, dict)):
            raise DroverError(f"{place}: {no_text(key, value)}")
        words = " or ".join(_WORDS[kind] for kind in field.kinds)
        raise DroverError(f"{place}: {key} must be {words}, not {validation.shown(value)}.")
    elif (
        WHOLE in field.kinds
        and isinstance(value, int)
        and (field.least is not None or field.most is not None)
    ):
        validation.check_whole(
            f"{place}: {key}",
            value,
            field.least,
            field.most if field.most is not None else validation.MOST,
        )
    if TEXT in field.kinds and isinstance(value, str) and field.longest is not None:
        _refuse_text(value, field.longest, f"{place}: {key}")
    if field.choices and isinstance(value, str) and value not in field.choices:
        meant = validation.did_you_mean(value, field.choices)
        raise DroverError(
            f"{place}: {key} must be {either(field.choices)}, not {validation.shown(value)}{meant}."
        )
    if isinstance(value, Mapping) and field.fields is not None:
        value = read(field.fields, value, f"{place}, {key}")
    elif isinstance(value, list):
        value = list(_items(field, value, key, place))
    return value if field.check is None else field.check(value, f"{place}: {key}")


def _refuse_text(value: str, longest: int, what: str) -> None:
    """Refuse a text that neither the store nor the XML of a domain takes."""
    if len(value) > longest:
        raise DroverError(f"{what} has {len(value)} characters, and can have {longest}.")
    odd = odd_character(value)
    if odd is not None:
        raise DroverError(
            f"{what} must be one line without control characters, and has {ascii(odd)}. Take that"
            " out."
        )


def odd_character(text: str) -> str | None:
    """Return the first character that cannot stand in a line of XML: control characters, halves of
    surrogate pairs, the last two of a plane.
    """
    found = _ODD.search(text)
    return None if found is None else found[0]


def no_text(key: str, value: Any) -> str:
    """Return the sentence about a value that YAML does not read as a text, such as ``name:
    103``.
    """
    kind = (
        "true or false"
        if isinstance(value, bool)
        else "a number"
        if isinstance(value, (int, float))
        else "a date or the like"
    )
    # YAML does not keep the original spelling of other numbers.
    example = (
        f', such as {key}: "{value}"'
        if isinstance(value, int) and not isinstance(value, bool)
        else ""
    )
    shown = validation.shown(value) if isinstance(value, (bool, int, float)) else value
    return (
        f"{key} must be a text, not {shown}, which YAML reads as {kind}. Put it into"
        f" quotes{example}."
    )


def _items(field: Field, values: list[Any], key: str, place: str) -> Iterator[Any]:
    for number, item in enumerate(values, 1):
        where = f"{place}, {key.removesuffix('s')} {number}"
        if field.fields is not None and not (
            field.items is not None and not isinstance(item, Mapping)
        ):
            yield read(field.fields, item, where)
        elif field.items is not None:
            yield _value(field.items, item, key, where)
        else:
            yield item


def _is_kind(kind: str, value: Any) -> bool:
    return kind == ANY or (
        isinstance(value, _CLASSES[kind]) and (kind == SWITCH or not isinstance(value, bool))
    )


def json_schema(table: Table) -> dict[str, object]:
    """Return the JSON Schema of a mapping that read() takes."""
    schema: dict[str, object] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {key: _schema(field) for key, field in sorted(table.items())},
    }
    required = sorted(key for key, field in table.items() if field.required)
    return {**schema, "required": required} if required else schema


def _schema(field: Field) -> dict[str, object]:
    schema: dict[str, object] = {"description": field.description, "examples": [field.example]}
    kinds = [_SCHEMA_TYPES[kind] for kind in field.kinds if kind in _SCHEMA_TYPES]
    if any(kind in _UNITS for kind in field.kinds):
        kinds = ["integer", "string"]
        schema["pattern"] = sizes.PATTERN
    if kinds:
        schema["type"] = kinds[0] if len(kinds) == 1 else kinds
    if field.choices:
        schema["enum"] = list(field.choices)
    if field.least is not None:
        schema["minimum"] = field.least
    if field.most is not None:
        schema["maximum"] = field.most
    if field.fields is not None:
        of_fields = json_schema(field.fields)
        if LIST in field.kinds:
            schema["items"] = (
                of_fields if field.items is None else {"anyOf": [of_fields, _schema(field.items)]}
            )
        else:
            schema.update({key: value for key, value in of_fields.items() if key != "type"})
    elif field.items is not None:
        schema["items"] = _schema(field.items)
    return schema
