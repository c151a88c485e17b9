# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the operator wants of a rolling maintenance."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from .drain import DrainRequest
from .plans import RollingQuestion

#: When to reboot a host.
NEEDED, ALWAYS, NEVER = "needed", "always", "never"
#: What to do about hosts that cannot be emptied.
FAIL, SKIP = "fail", "skip"


@dataclasses.dataclass(frozen=True)
class RollingRequest:
    """What the operator wants.

    - hosts: the hypervisors of the play, by name. pattern: what they were found by, for a message.
    - question: what the batches go by.
    - drain: how each host is drained; its host is filled in.
    - hooks: dict name of a hook -> task file.
    - reboot: NEEDED, ALWAYS or NEVER. sentinels: files that say that a host needs a reboot, or none
      for the signs of its own system. all_hosts: take hosts that need none too.
    - blocked: FAIL or SKIP hosts that cannot be emptied.
    - bring_back: bring instances back after each batch.
    - restart: forget what an earlier run left.
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
