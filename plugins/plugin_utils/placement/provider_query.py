# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters of GET /resource_providers, read and applied to single providers (NOVA_SEMANTICS 10.4)."""

from __future__ import annotations

import uuid as uuids
from dataclasses import dataclass, field

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError


def uuid_of(text, where):
    """A uuid in its usual spelling.

    :param where: what begins the refusal.
    :raises DroverError: it is none.
    """
    try:
        return str(uuids.UUID(str(text).strip()))
    except ValueError:
        raise DroverError(f"{where}: {str(text)[:80]!r} is no uuid.") from None


@dataclass
class Query:
    """What single providers shall have; empty parts ask nothing.

    any_traits and any_aggregates are lists of sets, of each of which one is enough.
    """

    any_traits: list = field(default_factory=list)
    forbidden_traits: set = field(default_factory=set)
    any_aggregates: list = field(default_factory=list)
    forbidden_aggregates: set = field(default_factory=set)
    resources: dict = field(default_factory=dict)

    @property
    def traits(self):
        """Every trait that is named."""
        return self.forbidden_traits.union(*self.any_traits)

    def matches(self, traits, aggregates, fits):
        """Whether a provider is meant.

        :param traits, aggregates: its sets of names and uuids.
        :param fits: function of class and amount; True when the provider has that room.
        """
        return (
            all(traits & some for some in self.any_traits)
            and not traits & self.forbidden_traits
            and all(aggregates & some for some in self.any_aggregates)
            and not aggregates & self.forbidden_aggregates
            and all(fits(name, amount) for name, amount in self.resources.items())
        )


def parse(required=None, member_of=None, resources=None):
    """A Query from filters, each as Placement's query string has it; a list is the repeated parameter.

    :raises DroverError: with the filter and what is wrong in it.
    """
    query = Query(resources=_resources(resources))
    for text in _texts("required", required):
        if text.startswith("in:"):
            query.any_traits.append(_any_of("required", text))
            continue
        for name in _split("required", text):
            if name.startswith("!"):
                query.forbidden_traits.add(name[1:])
            else:
                query.any_traits.append({name})
    for name in sorted(query.forbidden_traits):
        if {name} in query.any_traits:
            raise DroverError(f"required: {name} is required and forbidden at once. Take one of the two away.")
    for text in _texts("member_of", member_of):
        forbidden = text.startswith("!")
        rest = text[1:] if forbidden else text
        found = _any_of("member_of", rest) if rest.startswith("in:") else {rest}
        found = {uuid_of(each, "member_of") for each in found}
        if forbidden:
            query.forbidden_aggregates |= found
        else:
            query.any_aggregates.append(found)
    return query


def _texts(where, value):
    if value is None or value == "":
        return []
    values = value if isinstance(value, list) else [value]
    for each in values:
        if not isinstance(each, str) or not each.strip():
            raise DroverError(f"{where}: must be a text or a list of texts, not {each!r}. Quote what begins with '!'.")
    return [each.strip() for each in values]


def _split(where, text):
    names = [name.strip() for name in text.split(",")]
    if not all(name.strip("!") for name in names):
        raise DroverError(f"{where}: a name is missing in {text!r}.")
    return names


def _any_of(where, text):
    names = set(_split(where, text[len("in:") :]))
    if any(name.startswith("!") for name in names):
        raise DroverError(f"{where}: {text!r} mixes in: and !. Forbid each by itself.")
    return names


def _resources(value):
    if value is None or value == "":
        return {}
    if isinstance(value, str):
        pairs = [part.rpartition(":")[::2] for part in value.split(",")]
        if not all(name for name, dummy in pairs):
            raise DroverError(f"resources: {value!r} is not of the form CLASS:amount,CLASS:amount.")
        value = {name.strip(): amount for name, amount in pairs}
    if not isinstance(value, dict):
        raise DroverError(f"resources: must be a mapping such as {{VCPU: 2}}, not {value!r}.")
    return {str(name): _amount(name, amount) for name, amount in value.items()}


def _amount(name, amount):
    if isinstance(amount, str) and amount.strip().isdecimal() and len(amount) < 30:
        amount = int(amount)
    if not isinstance(amount, int) or isinstance(amount, bool) or amount < 1:
        raise DroverError(f"resources: the amount of {name} must be a whole number of 1 or more, not {amount!r}.")
    return amount
