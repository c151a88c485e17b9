# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The query strings of Placement's GET /allocation_candidates (N10.4, microversion 1.39)."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable
from typing import Any

from ..._common import validation
from ..._common.errors import DroverError
from . import query as language

_GROUP_KEY = re.compile(f"({'|'.join(language.GROUP_KEYS)})({language.SUFFIX.pattern})?")
# The others may be repeated; all of them are to hold.
_NOT_REPEATED = ("resources", "in_tree", "group_policy", "root_required", "limit")


def read(given: Any) -> language.Query:
    """Read a query: a mapping, or the query string of Placement.

    :raises DroverError: it names the key and the expected form.
    """
    return parse(given) if isinstance(given, str) else language.from_mapping(given)


def parse(text: str) -> language.Query:
    """Read a query string.

    A repeated parameter is refused if Placement would take only the last one, such as
    ``resources``.

    :raises DroverError: it names the parameter, the value and the expected form.
    """
    query = language.Query()
    seen: set[str] = set()
    for key, value in urllib.parse.parse_qsl(text.lstrip("?"), keep_blank_values=True):
        match = _GROUP_KEY.fullmatch(key)
        name, suffix = (match[1], match[2] or "") if match else (key, "")
        if name in _NOT_REPEATED and key in seen:
            raise DroverError(
                f"{key} is given twice; write it once, and separate what it lists by commas."
            )
        seen.add(key)
        if match:
            group = query.groups.setdefault(suffix, language.RequestGroup(suffix))
            _READERS[name](group, key, value)
        elif key in language.WIDE_KEYS:
            _wide(query, key, value)
        else:
            parameters = ", ".join(
                [*(f"{each}[SUFFIX]" for each in language.GROUP_KEYS), *language.WIDE_KEYS]
            )
            raise DroverError(
                f"Unknown parameter '{key}' with value '{value}'; there are {parameters}."
            )
    return language.checked(query)


def add(group: language.RequestGroup, key: str, value: str) -> None:
    """Add a parameter of a query string to a group.

    :param key: a key of query.GROUP_KEYS.
    :raises DroverError: it names the parameter, the value and the expected form.
    """
    _READERS[key](group, key, value)


def _wide(query: language.Query, key: str, value: str) -> None:
    if key == "group_policy":
        if value not in language.POLICIES:
            raise language.refused(key, value, " or ".join(language.POLICIES))
        query.group_policy = value
    elif key == "same_subtree":
        query.same_subtrees.append({each.strip() for each in value.split(",")})
    elif key == "root_required":
        if value.startswith("in:"):
            raise language.refused(key, value, "TRAIT,!TRAIT; any of several is not possible here")
        required, query.root_forbidden = _traits(key, value)
        query.root_required = {name for choice in required for name in choice}
    else:
        query.limit = language.whole(key, value)


def _resources(group: language.RequestGroup, key: str, value: str) -> None:
    for each in value.split(","):
        name, colon, amount = each.strip().partition(":")
        if not name or not colon:
            raise language.refused(key, value, "CLASS:AMOUNT,CLASS:AMOUNT")
        if name in group.resources:
            raise language.refused(key, value, f"{name} once")
        group.resources[name] = language.whole(f"{key}: the amount of {name}", amount.strip())


def _required(group: language.RequestGroup, key: str, value: str) -> None:
    required, forbidden = _traits(key, value)
    group.required += required
    group.forbidden |= forbidden


def _traits(key: str, value: str) -> tuple[list[frozenset[str]], set[str]]:
    if value.startswith("in:"):
        names = [each.strip() for each in value[3:].split(",")]
        if not all(names) or any(each.startswith("!") for each in names):
            raise language.refused(
                key, value, "in:TRAIT,TRAIT without '!' and without an empty name"
            )
        return [frozenset(names)], set()
    names = [each.strip() for each in value.split(",")]
    if not all(each.lstrip("!") for each in names):
        raise language.refused(key, value, "TRAIT,!TRAIT without an empty name")
    # As in Placement, any number of exclamation marks is one.
    forbidden = {each.lstrip("!") for each in names if each.startswith("!")}
    return [frozenset([each]) for each in names if not each.startswith("!")], forbidden


def _member_of(group: language.RequestGroup, key: str, value: str) -> None:
    forbidden, listed = value.startswith("!"), value.removeprefix("!")
    many = listed.startswith("in:")
    if "," in listed and not many:
        raise language.refused(key, value, "in: or !in: before several uuids")
    names = {
        validation.read_uuid(key, each) for each in (listed[3:].split(",") if many else [listed])
    }
    if forbidden:
        group.outside |= names
    else:
        group.member_of.append(frozenset(names))


def _in_tree(group: language.RequestGroup, key: str, value: str) -> None:
    group.in_tree = validation.read_uuid(key, value)


_READERS: dict[str, Callable[[language.RequestGroup, str, str], None]] = {
    "resources": _resources,
    "required": _required,
    "member_of": _member_of,
    "in_tree": _in_tree,
}
