# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict of a dry run: the reason why the real run would restart nothing of a host now."""

from __future__ import annotations

from .._common.errors import DroverError
from .._evacuation import fencing
from .ports import Ports
from .storage_fencing import StorageFencing

#: The decisions that let a run continue.
GOES_ON = (fencing.HARD_FENCE, fencing.RESTART, fencing.WORD)


def why_not(ports: Ports, host: str, decision: fencing.Decision, power_state: str) -> str:
    """Return the reason why the real run would restart nothing after a decision; empty if it would
    continue.

    An uncertain step counts as a refusal: a libvirt that must be restarted first, or a power driver
    that does not answer now.

    :param power_state: on, off, unknown or none, the answer of its power driver.
    """
    if decision.act == fencing.SOFT_FENCE:
        return f"{decision.sentence} If it answers then, the run ends there; else it decides again."
    if decision.act not in GOES_ON:
        return decision.sentence
    if decision.act == fencing.RESTART or power_state == "on":
        return ""
    variables = ports.hosts.variables(host)
    fence = str(variables.get("drover_storage_fence") or "")
    if fence:
        try:
            StorageFencing(ports, host).foresee(
                fence, variables.get("drover_storage_addresses") or ()
            )
        except DroverError as problem:
            return f"{problem} {fencing.say_so(host)}"
        return ""
    if power_state == "unknown":
        return (
            f"The power driver of {host} does not say whether it is on, so it is not expected to"
            f" confirm that it is off. {fencing.say_so(host)}"
        )
    return f"{decision.sentence} {fencing.say_so(host)}"
