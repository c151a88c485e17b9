# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Amounts of any resource class: from the extra specs of a flavor and from the request (N1.3)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._common import validation
from .._numa.request import HostRequest
from .errors import RequestError

#: Largest amount of one class that the store can record (signed 32 bit, as Placement's max_unit).
KEY = re.compile(r"(resources|trait)([a-zA-Z0-9_-]{1,64})?:(.*)")
CLASS = re.compile(r"[A-Z][A-Z0-9_]{0,254}")
POLICIES = ("none", "isolate")


@dataclass(frozen=True)
class ResourceGroup:
    """The demands on one provider: resources ((class, amount), ...), the traits that it must have
    and must not have.
    """

    suffix: str
    resources: tuple[tuple[str, int], ...] = ()
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()


def from_extra_specs(
    specs: Mapping[str, str], who: str
) -> tuple[dict[str, int], tuple[ResourceGroup, ...], str | None]:
    """Return ({class: amount} of resources:CLASS, (ResourceGroup, ...), group policy or None).

    If groups name a class with amounts of 0 alone, the amount is 0, which removes the flavor's
    amount.

    :param who: their owner, for messages.
    :raises RequestError: an extra spec is wrong; the message names the key and the expected value.
    """
    amounts = {}
    groups: dict[str, dict[str, int]] = {}
    named: set[str] = set()
    traits: dict[str, dict[str, set[str]]] = {}
    for key, text in specs.items():
        match = KEY.fullmatch(key)
        if match is None:
            continue
        kind, suffix, name = match.groups()
        if kind == "resources":
            amount = _amount(text, f"{who}: the extra spec '{key}'")
            _check_class(name, f"{who}: the extra spec '{key}'")
            if suffix is None:
                amounts[name] = amount
            else:
                named.add(name)
                if amount:
                    groups.setdefault(suffix, {})[name] = amount
        elif suffix is not None:
            if text not in ("required", "forbidden"):
                raise RequestError(
                    f"{who}: the extra spec '{key}' must be required or forbidden, not {text!r}."
                )
            traits.setdefault(suffix, {}).setdefault(text, set()).add(name)
    for name in named:
        amounts.setdefault(name, 0)
    for suffix in sorted(set(traits) - set(groups)):
        raise RequestError(
            f"{who}: the extra specs have trait{suffix}: but no resources{suffix}:; say what the"
            " provider with that trait shall give."
        )
    policy = specs.get("group_policy")
    if policy is not None and policy not in POLICIES:
        raise RequestError(
            f"{who}: the extra spec 'group_policy' must be none or isolate, not {policy!r}."
        )
    resource_groups = tuple(
        ResourceGroup(
            suffix,
            tuple(sorted(wanted.items())),
            frozenset(traits.get(suffix, {}).get("required", ())),
            frozenset(traits.get(suffix, {}).get("forbidden", ())),
        )
        for suffix, wanted in sorted(groups.items())
    )
    # Groups may share a provider by default; Placement requires an explicit policy (N1.3).
    return amounts, resource_groups, (policy or "none") if resource_groups else None


def of_devices(
    request: HostRequest, groups: Sequence[ResourceGroup], who: str
) -> tuple[ResourceGroup, ...]:
    """Return a group for each PCI device that is allocated in Placement (N12.7).

    :param groups: the groups of the extra specs.
    :raises RequestError: one of these has the suffix of a new group.
    """
    requests = [each for each in request.pci if each.resource_class is not None]
    device_groups = tuple(
        ResourceGroup(suffix, ((str(each.resource_class), 1),), frozenset(each.traits))
        for each, suffixes in zip(requests, request.device_groups)
        for suffix in suffixes
    )
    for suffix in sorted(
        {each.suffix for each in groups} & {each.suffix for each in device_groups}
    ):
        raise RequestError(
            f"{who}: the extra specs have resources{suffix}:, which is kept for PCI devices. Choose"
            " another suffix."
        )
    return device_groups


def from_request(value: Any, keys: Mapping[str, str], who: str) -> dict[str, int]:
    """Return {class: amount} of the request's own key resources.

    :param keys: {class: the key of the request for this class}.
    :raises RequestError: a class or an amount is wrong; the message names the class and the
        expected value.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RequestError(
            f"{who}: 'resources' must be a mapping of resource classes to amounts, not {value!r}."
        )
    resources = {}
    for name, amount in value.items():
        if name in keys:
            raise RequestError(f"{who}: 'resources' has {name}; give that as '{keys[name]}'.")
        if name == "PCPU":
            raise RequestError(
                f"{who}: 'resources' has PCPU, which pins no vCPU. Ask for pinned vCPUs with the"
                " extra spec hw:cpu_policy: dedicated."
            )
        _check_class(name, f"{who}: 'resources'")
        resources[str(name)] = _amount(amount, f"{who}: 'resources.{name}'")
    return resources


def not_replaced(
    amounts: Mapping[str, int], overrides: Mapping[str, int], groups: Iterable[ResourceGroup]
) -> dict[str, int]:
    """Return a flavor's own amounts without the classes that its extra specs replace: any class
    that a group names, and VCPU by PCPU.
    """
    named = {name for group in groups for name, dummy in group.resources}
    if "PCPU" in named or overrides.get("PCPU"):
        named.add("VCPU")
    return {name: amount for name, amount in amounts.items() if name not in named}


def total(amounts: Mapping[str, int], groups: Iterable[ResourceGroup]) -> dict[str, int]:
    """Return the total {class: amount}, without amounts of 0."""
    sums = dict(amounts)
    for group in groups:
        for name, amount in group.resources:
            sums[name] = sums.get(name, 0) + amount
    return {name: amount for name, amount in sums.items() if amount}


def _check_class(name: Any, where: str) -> None:
    if not isinstance(name, str) or not CLASS.fullmatch(name):
        raise RequestError(
            f"{where} names {name!r}, which is no resource class; they look like VGPU or"
            " CUSTOM_LICENSE."
        )


def _amount(value: Any, where: str) -> int:
    return validation.read_whole(where, value, refuse=RequestError)
