# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the scheduler answers: selections, and why."""

from __future__ import annotations

from typing import Any, TypedDict

#: {provider uuid: {resource class: amount}}.
Allocations = dict[str, dict[str, int]]


class GroupDescription(TypedDict):
    """A server group, from which a claim can make it if it is new."""

    name: str
    policy: str
    #: Of anti-affinity; else None.
    max_server_per_host: int | None


class Stage(TypedDict):
    """A host filter or a limit that ran: how many hosts there were before and after it."""

    name: str
    before: int
    after: int
    rejected: int


class Lack(TypedDict):
    """Why one host filter rejects a host."""

    filter: str
    text: str


class NearMiss(TypedDict):
    """A host that fell at few host filters."""

    host: str
    node: str
    lacks: list[Lack]


class FailureExplanation(TypedDict):
    """Why there was no valid host.

    hosts: how many compute nodes there are; filters: up to the one that left nothing; nearest: hosts that
    fell at the fewest filters and by the least, best first; never: no host could hold the request even
    if it were empty.
    """

    hosts: int
    filters: list[Stage]
    nearest: list[NearMiss]
    never: bool


class Explanation(TypedDict):
    """Why a host was selected; without explanations the lists are empty.

    weighers: [{name, multiplier}]; top: [{host, node, weight, weighers: {name: {raw, normalised, multiplier}}}].
    """

    hosts: int
    filters: list[Stage]
    weighers: list[dict[str, Any]]
    top: list[dict[str, Any]]


class _Destination(TypedDict):
    host: str
    node: str
    #: Uuid of the node's resource provider.
    provider: str
    weight: float


class Destination(_Destination, total=False):
    """A compute node that may take an instance; ``allocations`` where several providers could give its resources."""

    allocations: Allocations | None


class Selection(Destination):
    """The host for one instance, and alternates in the order in which to try them.

    resources: {resource class: amount}, MEMORY_MB in MiB, DISK_GB in GiB; flavor: its name; image: its properties.
    """

    name: str
    uuid: str | None
    cell: str | None
    resources: dict[str, int]
    server_group: GroupDescription | None
    availability_zone: str | None
    project: str | None
    user: str | None
    flavor: str | None
    image: dict[str, Any] | None
    alternates: list[Destination]
    explanation: Explanation
