# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of instances in an inventory, never equal to a hypervisor or this machine."""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

#: The ends of the parts of a uuid.
PARTS = (8, 13, 18, 23, 36)


class Names(NamedTuple):
    """The names of instances in an inventory."""

    #: {name: instance}, in the order of the instances.
    names: dict[str, Mapping[str, Any]]
    #: Sentences such as "kvm2 is kvm2-1b4e28ba", sorted: the names that are taken or not usable.
    changed: list[str]


def choose(instances: Collection[Mapping[str, Any]], taken: Collection[str]) -> Names:
    """Give each instance a unique name.

    :param instances: mappings with name and uuid.
    :param taken: names that no instance may have.
    """
    count: dict[str, int] = {}
    for instance in instances:
        count[instance["name"]] = count.get(instance["name"], 0) + 1
    by_name: dict[str, Mapping[str, Any]] = {}
    changed = []
    # First the instances that keep their names, then by uuid, so that their order has no effect.
    for instance in sorted(
        instances, key=lambda each: (not _keeps(each, count, taken), each["uuid"])
    ):
        name, uuid = instance["name"], instance["uuid"]
        if _keeps(instance, count, taken):
            by_name[name] = instance
            continue
        free_name = next(
            form
            for form in _forms(name, uuid, count[name] > 1)
            if form not in taken and form not in by_name
        )
        by_name[free_name] = instance
        if name in taken or not _is_usable(name):
            changed.append(f"{name} is {free_name}")
    names = {each["uuid"]: name for name, each in by_name.items()}
    return Names({names[each["uuid"]]: each for each in instances}, sorted(changed))


def is_address(addresses: Sequence[str]) -> bool:
    """Return True if the first of a host's reported addresses is valid.

    SSH would interpret any other text.
    """
    try:
        return bool(addresses) and ipaddress.ip_address(addresses[0]) is not None
    except ValueError:
        return False


def _keeps(instance: Mapping[str, Any], count: Mapping[str, int], taken: Collection[str]) -> bool:
    name = instance["name"]
    return count[name] == 1 and name not in taken and _is_usable(name)


def _is_usable(name: str) -> bool:
    """Return True if SSH accepts the name as a host name and does not read it as an option."""
    return bool(name) and not name.startswith("-")


def _forms(name: str, uuid: str, several: bool) -> Iterator[str]:
    """Yield names for an instance, the best first."""
    name = name if _is_usable(name) else f"instance{name}"
    for end in PARTS[-1:] if several else PARTS:
        yield f"{name}-{uuid[:end]}"
    for number in itertools.count(2):
        yield f"{name}-{uuid}-{number}"
