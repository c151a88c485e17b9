# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulation: the fleet before, the changes, the fleet after. Nothing is written to the store."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .._conductor import capacity, plans, scheduling
from .._planner.capacity import unbearable_losses
from .._records.plans import RebalancePlan
from .._records.simulation import FleetState, Simulation
from .._report import view
from .._report.simulation import left_out
from .._scheduler.policy import Policy
from .._store import Store
from .._store.copies import scratch
from .._store.copies.export_file import Export
from .._store.database import clock
from .._store.engine import Connection
from .._store.reports import overview, totals
from . import changes
from .changes import FleetChange
from .fleet import SimulatedFleet

#: The default maximum of moves of the plan of a rebalance.
MAX_MOVES = 100


@dataclass(frozen=True)
class Question:
    """The question of a simulation.

    policy: the policy that places instances. flavors: the flavors with a count of further instances
    that fit; None for all of the store. rebalance: the maximum of moves of the plan of a rebalance
    after the changes; 0 for no such plan. service_down_time: seconds. maps: whether the answer has
    heat maps too.
    """

    policy: Policy
    flavors: Sequence[Any] | None = None
    rebalance: int = 0
    service_down_time: int = 0
    maps: bool = False

    def answer(
        self, connection: Connection, given: Sequence[FleetChange], now: float
    ) -> Simulation:
        """Make changes in a copy of the store.

        :param connection: the connection to the copy, which may be changed freely.
        :param given: the result of changes.read().
        :param now: seconds since 1970.
        :raises DroverError: a change names an unknown part of the fleet, or cannot be read.
        """
        fleet = SimulatedFleet(connection, self.policy, now, self.service_down_time)
        before = self._state(fleet)
        if self.rebalance:
            before["score"] = rebalance(connection, self.policy, 0, self.service_down_time)[
                "score_before"
            ]
        made = [fleet.make(change) for change in given]
        after = self._state(fleet)
        answer: Simulation = {
            "changes": made,
            "before": before,
            "after": after,
            "moves": None,
            "score": None,
            "placed": sum(each["placed"] for each in made),
            "moved": sum(each["moved"] for each in made),
            "left_out": sum(map(left_out, made)),
        }
        if self.rebalance:
            plan = rebalance(connection, fleet.policy, self.rebalance, self.service_down_time)
            answer["moves"], answer["score"] = len(plan["moves"]), plan["score_after"]
            after["score"] = plan["score_before"]
        return answer

    def _state(self, fleet: SimulatedFleet) -> FleetState:
        connection = fleet.connection
        wanted = capacity.flavors_by_size(connection) if self.flavors is None else self.flavors
        specs = capacity.read_specs(connection, wanted, fleet.policy)
        columns, placed = scheduling.read_for_losses(
            connection, specs, fleet.policy, fleet.now, self.service_down_time
        )
        listed = overview.read_hosts(connection, fleet.now, self.service_down_time, columns)
        taking = {each["host"] for each in listed if view.takes_instances(each)}
        state: FleetState = {
            "hosts": len(listed),
            "taking": len(taking),
            "instances": len(placed),
            "totals": [each._asdict() for each in totals.read(connection, taking)],
            "unbearable": unbearable_losses(columns, fleet.policy, placed),
            "capacity": capacity.named_plans(columns, specs, fleet.policy, placed),
            "score": None,
        }
        if self.maps:
            state["map"] = view.hosts_map(listed)
        return state


def rebalance(
    connection: Connection, policy: Policy, most: int, service_down_time: int
) -> RebalancePlan:
    """Plan a rebalance of all movable instances.

    :param most: the maximum of moves; with 0 the plan has only the score.
    :param service_down_time: seconds.
    """
    question = plans.RebalanceQuestion(
        policy,
        max_moves=most,
        cooldown=0,
        despite_maintenance=True,
        service_down_time=service_down_time,
    )
    return question.plan(connection)


@contextlib.contextmanager
def copied(store: Store, path: str | None = None) -> Iterator[tuple[Connection, float]]:
    """Open a copy of a store, or of an export, in memory.

    :param path: an export; None for the present store.
    :returns: its connection, and the time of its content, in seconds since 1970.
    :raises DroverError: there is no store, or the file is not an export.
    """
    if path is None:
        with store.read() as connection, scratch.copy_of(connection) as copy:
            yield copy, clock.now(connection)
    else:
        with (
            Export(os.path.abspath(os.path.expanduser(path))) as exported,
            scratch.of_export(exported) as copy,
        ):
            yield copy, exported.exported_at


def simulate(store: Store, given: Any, question: Question, path: str | None = None) -> Simulation:
    """Return the effect of changes on a fleet.

    :param given: the changes that a person wrote.
    :param path: an export of a store; None for the present store.
    :raises DroverError: a change cannot be read, or there is no store.
    """
    wanted = changes.read(given)
    with copied(store, path) as (copy, now):
        return question.answer(copy, wanted, now)
