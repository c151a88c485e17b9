# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The request of an operator for an evacuation."""

from __future__ import annotations

import dataclasses

from .._evacuation import fencing
from .._scheduler.policy import Policy

#: The choices of the operator for instances that could not be restarted.
FAIL, SKIP = "fail", "skip"


@dataclasses.dataclass(frozen=True)
class EvacuationRequest:
    """The request of the operator.

    - others: the other hypervisors of the inventory.
    - service_down_time: seconds, see store.services.down_reason().
    - said: the words of a person who confirms that the host is off; empty without such words.
    - operator: the name of that person.
    - reason: the reason in words; the host keeps it.
    - lifted: names of rules to lift, of fencing.LIFTABLE.
    - unmovable: FAIL or SKIP.
    - plan_only: change nothing.
    - rounds: the number of destinations to try for an instance.
    - at_once: the number of instances that start at the same time on one destination.
    - start_timeout: seconds that a start may take.
    - call_timeout: seconds that a hypervisor may take to answer.
    """

    host: str
    others: list[str]
    policy: Policy
    service_down_time: int = 0
    said: str = ""
    operator: str = ""
    reason: str = "evacuated by drover.compute"
    lifted: frozenset[str] = frozenset()
    limits: fencing.Limits = fencing.Limits()
    unmovable: str = FAIL
    plan_only: bool = False
    rounds: int = 3
    at_once: int = 4
    start_timeout: int = 60
    call_timeout: int = 200
