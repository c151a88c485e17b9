# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The messages of a rolling maintenance: its progress, and the reason to continue or stop."""

from __future__ import annotations

from collections.abc import Sequence

from .._common.errors import as_sentence, said_once
from .._records.hosts import ListedHost
from .._records.outcomes import MaintainedHost, RollingRecord
from .._records.plans import BlockedHost

#: The words for the stages of a host that has not stopped.
STAGES = {"done": "done", "waiting": "not begun"}


def host_state(record: RollingRecord, known: ListedHost | None) -> MaintainedHost:
    """Return a host in the form of the report.

    :param known: None if the store does not have the host.
    """
    state, instances = "not in the store any more", 0
    if known is not None:
        state = f"{known['state']}, {'in maintenance' if known['maintenance'] else known['status']}"
        instances = known["instances"]
    return {
        "host": record["host"],
        "stage": record["stage"],
        "message": record["message"],
        "state": state,
        "instances": instances,
    }


def lines(states: Sequence[MaintainedHost], left_out: Sequence[BlockedHost]) -> list[str]:
    """Return the report as lines: each host, and the next step if one is not done."""
    output = [_line(each) for each in states] + [
        f"{each['host']}: left out: {each['reason']}" for each in left_out
    ]
    if any(each["stage"] != "done" for each in states):
        output.append(
            "Nothing else was started. Hosts that are disabled or in maintenance stay so. Correct"
            " the cause and run the same command again: it continues where it stopped. To give it"
            " up, bring the hosts back with drover.compute.undrain, and start a new one with"
            " drover_rolling_restart=true."
        )
    return output


def goes_on(begun: list[str], left: list[str]) -> str:
    """Return the sentence that an earlier run did not finish.

    :param begun: hosts that were begun and are not done. left: all hosts that are not done.
    """
    return (
        f"Going on with a maintenance that was not finished: {', '.join(begun) or 'no host'} was"
        f" begun with, {len(left) - len(begun)} wait. (drover_rolling_restart=true begins anew.)"
    )


def none_taken(seen: int, left_out: int) -> str:
    """Return the sentence that no host is taken, with the reason.

    :param seen: the number of hosts that were examined. left_out: the number of them that cannot be
        taken; their reasons follow.
    """
    if not left_out:
        return "There is nothing to do: no host needs a reboot, or all are done."
    reason = (
        "1 is left out for the reason below"
        if left_out == 1
        else f"{left_out} are left out for the reasons below"
    )
    return f"No host is taken: {reason}." + (
        " The others need no reboot, or are done." if seen > left_out else ""
    )


def refusal(left_out: Sequence[BlockedHost]) -> str:
    """Return the sentence that nothing is begun, because hosts cannot be taken."""
    reasons = " ".join(
        said_once(
            (each["host"], f"{each['host']}: {as_sentence(each['reason'])}") for each in left_out
        )
    )
    return (
        f"{len(left_out)} of the hosts cannot be taken, so nothing was changed. {reasons} Correct"
        " that, or leave them out with drover_rolling_blocked=skip; drover_unmovable=shutdown"
        " shuts down what cannot move."
    )


def reboot_by_hand(host: str, what: str) -> str:
    """Return the way to reboot a host that the run itself needs."""
    return (
        f"{host} is drained and comes last, because it is {what}: this run would end with it."
        " Reboot it now by systemctl reboot there, or from a controller elsewhere:"
        f" ansible-playbook drover.compute.power -e drover_host={host} -e"
        " drover_power_action=reboot. When it is back, give the command of this rolling"
        " maintenance again: it goes on after the reboot."
    )


def unfinished(waiting: list[str]) -> str:
    """Return the error of an unfinished run, with the hosts that are not done."""
    return (
        f"The rolling maintenance is not finished: {', '.join(waiting)} still to do. The lines"
        " above have the state of each host."
    )


def _line(found: MaintainedHost) -> str:
    reason = found["message"] or (
        ""
        if found["stage"] in STAGES
        else "nothing is known of why: it was lost, or the run was cut off"
    )
    number = f"{found['instances']} instance{'' if found['instances'] == 1 else 's'}"
    stage = STAGES.get(found["stage"], f"stopped at {found['stage']}")
    return f"{found['host']}: {stage}, {found['state']}, {number}" + (
        f" ({reason})" if reason else ""
    )
