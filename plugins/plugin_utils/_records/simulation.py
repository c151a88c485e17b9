# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The data that a simulation returns: plain data for people, pages and programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    # Python 3.10 does not have it in typing.
    from typing_extensions import NotRequired


class LeftOut(TypedDict):
    """Instances that have no place after a change, and why.

    name: the name of one instance, or the common request of several alike ones. count: their
    number.
    """

    name: str
    count: int
    reason: str


class SimulatedChange(TypedDict):
    """The result of a change.

    change: its key, such as add_hosts. text: the change as a sentence. hosts: the hosts that it
    changes. placed: new instances that have a host. moved: instances that are on another host now.
    """

    change: str
    text: str
    hosts: list[str]
    placed: int
    moved: int
    left_out: list[LeftOut]


class FleetState(TypedDict):
    """The state of a fleet at one moment.

    totals: {zone, resource_class, capacity, used, free} of each zone and class, see
    totals.ClassTotal. unbearable: the hosts with instances that do not all fit on the other hosts;
    each host is lost alone. capacity: as of the lookup capacity. score: of the rebalance, 0 is
    even; None if it was not requested. map: see the report's heat.heat_map(), present if it was
    requested.
    """

    hosts: int
    taking: int
    instances: int
    totals: Sequence[Mapping[str, Any]]
    unbearable: list[str]
    capacity: Sequence[Mapping[str, Any]]
    score: float | None
    map: NotRequired[Sequence[Mapping[str, object]]]


class Simulation(TypedDict):
    """The answer of a simulation.

    moves: of a rebalance after the changes; None if it was not requested. score: of the fleet after
    these moves.
    """

    changes: list[SimulatedChange]
    before: FleetState
    after: FleetState
    moves: int | None
    score: float | None
    placed: int
    moved: int
    left_out: int


class OtherPlacement(TypedDict):
    """An instance that another policy would have placed elsewhere. host: the host that it was
    placed on. would: the host under the other policy.
    """

    uuid: str
    name: str
    host: str
    would: str


class Replay(TypedDict):
    """Decisions that were decided again under another policy.

    decided: the number of decisions. skipped: decisions about instances that are gone.
    score_before, score_after: of the fleet as it is, and as it would be; 0 is even.
    """

    decided: int
    skipped: int
    elsewhere: list[OtherPlacement]
    refused: list[LeftOut]
    score_before: float
    score_after: float
