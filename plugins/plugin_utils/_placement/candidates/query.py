# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A query for allocation candidates (N10.4), read from a mapping.

query_string.py reads the form of Placement's query strings into the same classes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..._common import validation
from ..._common.errors import DroverError, either
from ..._records.claims import Resources

SUFFIX = re.compile(r"[A-Za-z0-9_-]{1,64}")
GROUP_KEYS = ("resources", "required", "member_of", "in_tree")
WIDE_KEYS = ("group_policy", "same_subtree", "root_required", "limit")
POLICIES = ("none", "isolate")


@dataclass
class RequestGroup:
    """A request group; the group with the suffix "" is spread over a tree, any other group is on
    one provider.

    required and member_of: a provider needs one name (a trait, the uuid of an aggregate) of each
    set. forbidden and outside: names that a provider must not have or be in. in_tree: the uuid of a
    provider.
    """

    suffix: str = ""
    resources: Resources = field(default_factory=dict)
    required: list[frozenset[str]] = field(default_factory=list)
    forbidden: set[str] = field(default_factory=set)
    member_of: list[frozenset[str]] = field(default_factory=list)
    outside: set[str] = field(default_factory=set)
    in_tree: str | None = None

    def traits(self) -> set[str]:
        """Return all traits that are named."""
        return self.forbidden.union(*self.required)


@dataclass
class Query:
    """groups: by suffix, in the order given, the group without a suffix first. same_subtrees: sets
    of suffixes.

    equal_groups: suffixes of groups with equal requests. Candidates that only exchange providers
    among such groups count as one; of very many candidates of one root, only some are found
    (search.MOST_ALIKE).
    """

    groups: dict[str, RequestGroup] = field(default_factory=dict)
    group_policy: str | None = None
    same_subtrees: list[set[str]] = field(default_factory=list)
    root_required: set[str] = field(default_factory=set)
    root_forbidden: set[str] = field(default_factory=set)
    limit: int | None = None
    equal_groups: list[list[str]] = field(default_factory=list)

    def classes(self) -> dict[str, str]:
        """Return the keys that name classes, by class."""
        return {
            name: f"resources{group.suffix}"
            for group in self.groups.values()
            for name in group.resources
        }

    def traits(self) -> dict[str, str]:
        """Return the keys that name traits, by trait."""
        keys = dict.fromkeys(self.root_required | self.root_forbidden, "root_required")
        for group in self.groups.values():
            keys.update(dict.fromkeys(group.traits(), f"required{group.suffix}"))
        return keys

    def aggregates(self) -> set[str]:
        """Return the uuids of all aggregates that are named."""
        return {
            name for group in self.groups.values() for name in group.outside.union(*group.member_of)
        }


def from_mapping(given: Any) -> Query:
    """Read the query of a mapping.

    Keys: resources {class: amount}; required and root_required: lists of traits, "!TRAIT" forbids
    it, an inner list means any of its traits; member_of alike with uuids of aggregates; in_tree:
    uuid of a provider; groups {suffix: mapping of these four}; group_policy; same_subtree:
    suffixes, or lists of them; limit.

    :raises DroverError: it names the key, the value and the expected form.
    """
    if not isinstance(given, dict):
        raise refused("the query", given, "a mapping or a query string")
    validation.check_keys("A query", given, (*GROUP_KEYS, "groups", *WIDE_KEYS))
    query = Query()
    if any(given.get(key) is not None for key in GROUP_KEYS):
        query.groups[""] = read_group("", given)
    groups = given.get("groups") or {}
    if not isinstance(groups, dict):
        raise refused("groups", groups, "a mapping of suffixes to groups")
    for suffix, content in groups.items():
        suffix = str(suffix)
        if not SUFFIX.fullmatch(suffix):
            raise refused("groups", suffix, "suffixes of 1 to 64 letters, digits, _ and -")
        if not isinstance(content, dict):
            raise refused(f"groups.{suffix}", content, f"a mapping with {either(GROUP_KEYS)}")
        validation.check_keys(f"groups.{suffix}", content, GROUP_KEYS)
        query.groups[suffix] = read_group(suffix, content)
    query.group_policy = given.get("group_policy")
    if query.group_policy is None:
        pass
    elif query.group_policy not in POLICIES:
        raise refused("group_policy", query.group_policy, either(POLICIES))
    query.same_subtrees = _subtrees(given.get("same_subtree"))
    query.root_required, query.root_forbidden = _root(given.get("root_required"))
    query.limit = None if given.get("limit") is None else whole("limit", given["limit"])
    return checked(query)


def checked(query: Query) -> Query:
    """Return a query if its parts agree.

    :raises DroverError: they do not.
    """
    named = {suffix for suffixes in query.same_subtrees for suffix in suffixes}
    if "" in named:
        raise refused("same_subtree", "", "suffixes; the group without one cannot be named")
    if not any(group.resources for group in query.groups.values()):
        raise DroverError(
            "The query asks for no resources: give resources, as {VCPU: 1}, to it or to one of its"
            " groups."
        )
    for suffix, group in query.groups.items():
        if not group.resources and suffix not in named:
            raise DroverError(
                f"The group '{suffix}' asks for no resources. Give it resources{suffix}, or name it"
                " in same_subtree: a group that is named there may go without."
                if suffix
                else (
                    "The group without a suffix asks for no resources. Give it resources, or move"
                    " what else it asks for into a group with a suffix."
                )
            )
        check_traits(group)
    for suffix in sorted(named - set(query.groups)):
        raise refused(
            "same_subtree",
            suffix,
            f"suffixes of groups of this query: {either(sorted(set(query.groups) - {''}))}",
        )
    both = query.root_required & query.root_forbidden
    if both:
        raise DroverError(
            f"root_required both requires and forbids {', '.join(sorted(both))}: take one of the"
            " two out."
        )
    if query.group_policy is None and len(set(query.groups) - {""}) > 1:
        raise DroverError(
            "group_policy is missing: with two or more groups say isolate (each on a provider of"
            " its own) or none."
        )
    query.groups = dict(sorted(query.groups.items(), key=lambda pair: pair[0] != ""))
    return query


def check_traits(group: RequestGroup) -> None:
    """Refuse a group that requires and forbids the same trait."""
    for choice in group.required:
        if choice <= group.forbidden:
            raise DroverError(
                f"required{group.suffix} both requires and forbids {', '.join(sorted(choice))}: no"
                " provider can do that. Take one of the two out."
            )


def refused(key: str, value: object, expected: str) -> DroverError:
    """Make the error for a value of a key."""
    shown = "nothing" if value is None else f"'{value}'"
    return DroverError(f"{key} is {shown}; expected {expected}.")


def whole(key: str, value: object) -> int:
    """Read a whole number of at least 1, given as a number or its digits."""
    return validation.read_whole(key, value, 1, None)


def trait(key: str, value: object) -> str:
    """Read the name of a trait, which the store may not have."""
    if not isinstance(value, str) or not value.strip() or value.startswith("!"):
        raise refused(key, value, "the name of a trait, or !NAME to forbid it")
    return value.strip()


def read_group(suffix: str, given: Mapping[str, object]) -> RequestGroup:
    """Read the group of a mapping with GROUP_KEYS.

    :raises DroverError: it names the key, the value and the expected form.
    """
    group = RequestGroup(suffix)
    resources = given.get("resources")
    if resources is not None and not isinstance(resources, dict):
        raise refused(
            f"resources{suffix}",
            resources,
            "a mapping of resource classes to amounts, as {VCPU: 1}",
        )
    for name, amount in (resources or {}).items():
        group.resources[str(name)] = whole(f"resources{suffix}: the amount of {name}", amount)
    group.required, group.forbidden = _choices(f"required{suffix}", given.get("required"), trait)
    group.member_of, group.outside = _choices(
        f"member_of{suffix}", given.get("member_of"), validation.read_uuid
    )
    if given.get("in_tree") is not None:
        group.in_tree = validation.read_uuid(f"in_tree{suffix}", given["in_tree"])
    return group


def _choices(
    key: str, given: Any, name: Callable[[str, Any], str]
) -> tuple[list[frozenset[str]], set[str]]:
    """Read the needed and the forbidden names of a list, see RequestGroup; a text is a list of one.

    :param name: reads the name of a key.
    """
    needed: list[frozenset[str]] = []
    forbidden: set[str] = set()
    for choice in _check_list(key, given):
        if isinstance(choice, list):
            if not choice:
                raise refused(key, choice, "at least one name in an inner list")
            if any(str(one).startswith("!") for one in choice):
                raise refused(key, choice, "no '!' in a list of which any will do")
            needed.append(frozenset(name(key, one) for one in choice))
        elif isinstance(choice, str) and choice.startswith("!"):
            forbidden.add(name(key, choice[1:]))
        else:
            needed.append(frozenset([name(key, choice)]))
    return needed, forbidden


def _check_list(key: str, given: Any) -> list[Any]:
    if given is None:
        return []
    if isinstance(given, str):
        return [given]
    if not isinstance(given, list):
        raise refused(key, given, "a list")
    return given


def _root(given: Any) -> tuple[set[str], set[str]]:
    needed, forbidden = _choices("root_required", given, trait)
    for choice in needed:
        if len(choice) > 1:
            raise refused(
                "root_required",
                sorted(choice),
                "single traits; any of several is not possible here",
            )
    return {name for choice in needed for name in choice}, forbidden


def _subtrees(given: Any) -> list[set[str]]:
    groups = _check_list("same_subtree", given)
    if groups and not any(isinstance(each, list) for each in groups):
        groups = [groups]
    for group in groups:
        if (
            not isinstance(group, list)
            or not group
            or not all(isinstance(one, (str, int)) for one in group)
        ):
            raise refused("same_subtree", group, "a list of suffixes, or a list of such lists")
    return [{str(one) for one in each} for each in groups]
