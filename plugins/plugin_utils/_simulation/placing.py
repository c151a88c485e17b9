# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The placement of as many instances as fit; the scheduler itself places all or none."""

from __future__ import annotations

import copy
import itertools
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

from .._conductor import scheduling
from .._placement import claims, relocation
from .._records.claims import ClaimRequest, Selection
from .._scheduler import drivers
from .._scheduler.errors import NoValidHost
from .._scheduler.host_states import HostStates
from .._scheduler.policy import Policy
from .._scheduler.request_spec import RequestSpec
from .._store.engine import Connection

#: Equal instances that fit nowhere, and the reason.
Refused = tuple[list[RequestSpec], str]

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://drover.compute/simulation")


def place(
    connection: Connection,
    specs: Sequence[RequestSpec],
    occasion: str,
    policy: Policy,
    now: float,
    service_down_time: float,
) -> tuple[list[Selection], list[Refused]]:
    """Place and claim as many instances as fit, and mark them as running.

    :param specs: the requests, with unique names.
    :param occasion: a text that separates these instances from others with the same names.
    :param now: seconds since 1970.
    :param service_down_time: seconds.
    :raises DroverError: a request contradicts the store.
    """
    if not specs:
        return [], []
    # Equal names and policies give equal answers in each run, also with a random choice of the
    # policy.
    specs = [
        (
            spec
            if spec.uuid
            else replace(spec, uuid=str(uuid.uuid5(_NAMESPACE, f"{occasion}/{spec.name}")))
        )
        for spec in specs
    ]
    states = scheduling.read_states(connection, specs, policy, now, service_down_time)
    # No alternates are needed.
    policy = copy.copy(policy)
    policy.max_attempts = 1
    chosen: list[Selection] = []
    refused: list[Refused] = []
    for run in _runs(specs):
        selections, problem = _as_many_as_fit(states, run, policy)
        chosen += selections
        if problem is not None:
            refused.append((run[len(selections) :], problem.why))
    wanted = [cast(ClaimRequest, each) for each in chosen]
    claims.claim(connection, wanted, now, lifetime=0)
    relocation.start(connection, [each["uuid"] for each in wanted], now)
    return chosen, refused


def _runs(specs: Sequence[RequestSpec]) -> Iterator[list[RequestSpec]]:
    """Yield runs of consecutive equivalent specs."""
    first: list[RequestSpec] = []

    def number(spec: RequestSpec) -> int:
        if not first or not spec.is_equivalent(first[-1]):
            first.append(spec)
        return len(first)

    for _dummy, run in itertools.groupby(specs, number):
        yield list(run)


def _as_many_as_fit(
    states: HostStates, run: list[RequestSpec], policy: Policy
) -> tuple[list[Selection], NoValidHost | None]:
    """Place equivalent instances until one fits nowhere: no later one fits either, because there is
    not more room than before.
    """
    try:
        return drivers.schedule(states, run, policy, explain=False), None
    except NoValidHost as problem:
        failed = problem.instance[0] if problem.instance else None
        first = list(itertools.takewhile(lambda spec: spec.uuid != failed, run))
        return (drivers.schedule(states, first, policy, explain=False) if first else []), problem
