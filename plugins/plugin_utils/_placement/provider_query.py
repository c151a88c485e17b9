# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters of GET /resource_providers, read and applied to single providers (N10.4)."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any

from .candidates import query as language
from .candidates import query_string


def parse(
    required: Any = None, member_of: Any = None, resources: Any = None
) -> language.RequestGroup:
    """Read filters, each written as in a query string or as in a query mapping.

    :raises DroverError: it names the filter and its fault.
    """
    texts: list[tuple[str, str]] = []
    mapping: dict[str, Any] = {}
    for key, value in (("required", required), ("member_of", member_of), ("resources", resources)):
        for condition in value if isinstance(value, list) else [value]:
            if isinstance(condition, str) and condition.strip():
                texts.append((key, condition.strip()))
            elif isinstance(condition, list):
                mapping.setdefault(key, []).append(condition)
            elif isinstance(condition, dict) and key == "resources":
                mapping[key] = condition
            elif condition not in (None, ""):
                raise language.refused(
                    key, condition, "a text; quote what begins with an exclamation mark"
                )
    group = language.read_group("", mapping)
    for key, text in texts:
        query_string.add(group, key, text)
    language.check_traits(group)
    return group


def matches(
    group: language.RequestGroup,
    traits: Set[str],
    aggregates: Set[str],
    fits: Callable[[str, int], bool],
) -> bool:
    """Return True if a provider meets the filters.

    :param traits: the traits of the provider; ``aggregates``: the uuids of its aggregates.
    :param fits: returns True if the provider has room for an amount of a class.
    """
    return (
        all(traits & some for some in group.required)
        and not traits & group.forbidden
        and all(aggregates & some for some in group.member_of)
        and not aggregates & group.outside
        and all(fits(name, amount) for name, amount in group.resources.items())
    )
