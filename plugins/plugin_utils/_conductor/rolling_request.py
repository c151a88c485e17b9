# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The request of an operator for a rolling maintenance."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from .drain import DrainRequest
from .plans import RollingQuestion

#: The choices for reboots.
NEEDED, ALWAYS, NEVER = "needed", "always", "never"
#: The choices for hosts that cannot be emptied.
FAIL, SKIP = "fail", "skip"


@dataclasses.dataclass(frozen=True)
class RollingRequest:
    """The request of the operator.

    - hosts: the names of the hypervisors of the play.
    - pattern: the pattern that found them, for a message.
    - question: the settings of the batches.
    - drain: the settings of the drain of each host; each drain gets its host.
    - hooks: dict name of a hook -> task file.
    - reboot: NEEDED, ALWAYS or NEVER.
    - sentinels: files as signs of a needed reboot; empty for the signs of the host's own system.
    - all_hosts: take also hosts that need no reboot.
    - blocked: FAIL or SKIP for hosts that cannot be emptied.
    - bring_back: bring instances back after each batch.
    - restart: delete the records of an earlier run.
    - plan_only: change nothing.
    """

    hosts: list[str]
    question: RollingQuestion
    drain: DrainRequest
    hooks: dict[str, str] = dataclasses.field(default_factory=dict)
    reboot: str = NEEDED
    sentinels: Sequence[str] = ()
    all_hosts: bool = False
    blocked: str = FAIL
    bring_back: bool = False
    restart: bool = False
    plan_only: bool = False
    pattern: str = "hypervisors"
