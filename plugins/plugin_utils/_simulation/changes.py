# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The changes that people write; all of them are checked before the first one is made."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .._common.errors import DroverError
from .._common.validation import (
    check_keys,
    did_you_mean,
    host_names,
    is_host_name,
    read_whole,
    shown,
)
from .._tracker import node_data

#: The maximum of hosts of one change: a typing error must not fill the memory.
MOST_HOSTS = 10_000
#: The ways to name the hosts of a change.
SELECTORS = ("hosts", "aggregate", "availability_zone")
#: The keys of a change that adds hosts; all other keys are those for a node of the module
#: compute_node.
_OF_ADDED = ("like", "count", "name")
#: Keys that a change which adds hosts cannot set: ``name`` gives the names, and a new host has no
#: domains.
_GIVEN_BY_NAME = {"host", "hypervisor_hostname", "hypervisor", "domains"}


class FleetChange(NamedTuple):
    """One change. key: its kind. value: its arguments in one form, see READERS. number: its place
    in the list, from 1.
    """

    key: str
    value: Any
    number: int

    @property
    def where(self) -> str:
        """The start of a message about it."""
        return f"Change {self.number} ({self.key})"


def read(given: Any) -> list[FleetChange]:
    """Check a list of changes, each a mapping with one key.

    :raises DroverError: a change is wrong; the message names the change and the expected value.
    """
    if not isinstance(given, list):
        raise DroverError(
            f"The changes must be a list, such as - lose_hosts: [kvm1], not {shown(given)}."
        )
    changes = []
    for number, change in enumerate(given, 1):
        if not isinstance(change, Mapping) or len(change) != 1:
            raise DroverError(
                f"Change {number} must be a mapping with one key, such as lose_hosts: [kvm1], not"
                f" {shown(change)}. There are: {', '.join(READERS)}."
            )
        ((key, value),) = change.items()
        check_keys(f"Change {number}", [key], READERS, "change")
        changes.append(FleetChange(key, READERS[key](f"Change {number} ({key})", value), number))
    return changes


def _added_hosts(where: str, value: Any) -> dict[str, object]:
    """Return like (None for hosts with sizes), count, name (or None) and node: the other keys."""
    if not isinstance(value, Mapping):
        raise DroverError(
            f"{where} must be a mapping, such as like: kvm3 and count: 2, not {shown(value)}."
        )
    node = {key: each for key, each in value.items() if key not in _OF_ADDED}
    like, name = (_text(where, key, value.get(key)) for key in ("like", "name"))
    if name is not None and not is_host_name(name):
        raise DroverError(f"{where}: name {shown(name)} is no name of a host.")
    check_keys(where, node, sorted(node_data.KNOWN - _GIVEN_BY_NAME))
    if (like is None) == (not node):
        raise DroverError(
            f"{where}: give either like, the host that the new ones are like, or sizes such as"
            " vcpus, memory_mb and local_gb."
        )
    return {
        "like": like,
        "count": read_whole(f"{where}: count", value.get("count", 1), 1, MOST_HOSTS),
        "name": name,
        "node": node,
    }


def _hosts(where: str, value: Any) -> dict[str, Any]:
    """Return hosts (a list of names), aggregate or availability_zone: one of them."""
    if isinstance(value, (str, list)):
        value = {"hosts": value}
    if not isinstance(value, Mapping) or len(value) != 1:
        raise DroverError(
            f"{where} must be names of hosts, or a mapping with one of {', '.join(SELECTORS)}, not"
            f" {shown(value)}."
        )
    check_keys(where, value, SELECTORS)
    ((key, names),) = value.items()
    if key != "hosts":
        return {key: _text(where, key, names, required=True)}
    try:
        return {key: host_names([names] if isinstance(names, str) else names)}
    except (DroverError, TypeError):
        raise DroverError(
            f"{where}: name at least one host, such as kvm1; not {shown(names)}."
        ) from None


def _added_instances(where: str, value: Any) -> list[dict[str, object]]:
    """Return requests in the form of the lookup schedule, each with a name; a request without a
    name gets the name of its flavor.
    """
    requests = value if isinstance(value, list) else [value]
    named: list[dict[str, object]] = []
    for number, request in enumerate(requests, 1):
        if not isinstance(request, Mapping):
            raise DroverError(
                f"{where} must be a request such as flavor: small and count: 100, or a list of"
                f" them, not {shown(value)}."
            )
        flavor = request.get("flavor")
        name = flavor if isinstance(flavor, str) and flavor else "new"
        named.append({"name": name if len(requests) == 1 else f"{name} {number}", **request})
    if not named:
        raise DroverError(f"{where} has no request.")
    return named


def _growth(where: str, value: Any) -> float:
    """Return the growth in percent."""
    try:
        percent = float(str(value).strip().removesuffix("%"))
    except ValueError:
        percent = -1.0
    if isinstance(value, bool) or not 0 < percent <= 1000:
        raise DroverError(
            f"{where} must be a number of percent above 0 and at most 1000, such as 20, not"
            f" {shown(value)}."
        )
    return percent


def _policy(where: str, value: Any) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise DroverError(
            f"{where} must be a policy as drover_scheduler has it, such as host_subset_size: 3, not"
            f" {shown(value)}."
        )
    return dict(value)


def _text(where: str, key: str, value: Any, required: bool = False) -> str | None:
    if value is None and not required:
        return None
    if not isinstance(value, str) or not value.strip():
        raise DroverError(f"{where}: {key} must be a name, not {shown(value)}.")
    return value.strip()


#: The possible changes, and their checks.
READERS: Mapping[str, Any] = {
    "add_hosts": _added_hosts,
    "remove_hosts": _hosts,
    "lose_hosts": _hosts,
    "maintenance": _hosts,
    "add_instances": _added_instances,
    "grow": _growth,
    "scheduler": _policy,
}


def selected(
    selector: Mapping[str, Any],
    where: str,
    known: Sequence[str],
    aggregates: Mapping[str, Collection[str]],
    zones: Mapping[str, Collection[str]],
) -> list[str]:
    """Return the hosts of a selector, in the order of the fleet.

    :param selector: the result of _hosts().
    :param known: the hosts of the fleet.
    :param aggregates: the hosts of each aggregate.
    :param zones: the availability zones of each host.
    :raises DroverError: a host, an aggregate or a zone is unknown, or has no hosts.
    """
    ((key, value),) = selector.items()
    names: Iterable[str] = value
    choices: Collection[str]
    if key == "hosts":
        words, choices, members = "host", known, set(value)
    elif key == "aggregate":
        words, choices, members, names = (
            "aggregate",
            aggregates,
            set(aggregates.get(value, ())),
            [value],
        )
    else:
        words, choices, names = (
            "availability zone",
            {zone for each in zones.values() for zone in each},
            [value],
        )
        members = {host for host, each in zones.items() if value in each}
    for name in names:
        if name not in choices:
            raise DroverError(
                f"{where}: there is no {words} {name} in the fleet as it is"
                f" then{did_you_mean(name, choices)}."
            )
    chosen = [host for host in known if host in members]
    if not chosen:
        raise DroverError(f"{where}: {value} has no host in the fleet as it is then.")
    return chosen
