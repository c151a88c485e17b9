# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sentences at the end of a drain: hosts that are empty, hosts that are not, and instances that
cannot move. plans.py has the plan before the drain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .._common.errors import counted, said_once
from .._records.hosts import Arrival, Occupant, Occupants
from .._records.plans import UnmovableInstance


def cannot_move(
    hosts: Sequence[str], staying: Sequence[UnmovableInstance], said: Sequence[str]
) -> str:
    """Return the sentences about the instances that cannot move, with reasons and remedies.

    :param hosts: the hosts of the drain.
    :param said: sentences on other failures.
    """
    sentences = []
    for instance in staying:
        name = f"{instance['name']} on {instance['host']}" if len(hosts) > 1 else instance["name"]
        sentences.append(
            (
                instance["name"],
                f"{name}: {instance['reason']}."
                + (f" Way out: {instance['way_out']}." if instance["way_out"] else ""),
            )
        )
    reasons = said_once(sentences)
    shutdown = (
        ", drover_unmovable=shutdown shuts them down"
        if not any(each["keep_running"] for each in staying)
        else ""
    )
    return (
        f"{len(staying)} of the instances of {', '.join(hosts)} cannot move, so nothing was"
        f" changed. {' '.join([*reasons, *said])} Correct that, or say what to do about them:"
        f" drover_unmovable=skip leaves them where they are{shutdown}."
    )


def not_to_shut_down(hosts: Sequence[str], staying: Sequence[UnmovableInstance]) -> str:
    """Return the sentences about the instances that cannot move and must not be shut down.

    :param hosts: the hosts of the drain.
    """
    reasons = " ".join(f"{each['name']} on {each['host']}: {each['reason']}." for each in staying)
    return (
        f"{len(staying)} of the instances of {', '.join(hosts)} cannot move, and must not be shut"
        f" down, so nothing was changed. {reasons} Correct that, or leave them where they are:"
        " drover_unmovable=skip."
    )


def not_empty(
    host: str,
    surprising: Sequence[Occupant],
    arriving: Iterable[Arrival],
    rounds: int,
    said: Sequence[str],
) -> str:
    """Return the sentences about the instances on a host that a drain has not emptied.

    :param surprising: instances that the host shows but must not have.
    :param arriving: instances that move there or are built there.
    :param rounds: the number of rounds in which the drain has planned and moved.
    :param said: sentences on failures.
    """
    head = f"{host} is not empty"
    if surprising:
        are = "is" if len(surprising) == 1 else "are"
        head += (
            f": {', '.join(each['name'] for each in surprising)} {are} still there after"
            f" {counted(rounds, 'round')}"
        )
    parts = [
        f"{each['name']} is {each['state']} there, and the store has it"
        f" {'on ' + each['host'] if each['host'] else 'nowhere'}."
        for each in surprising
        if each["host"] != host
    ]
    parts += [
        f"{each['name']} is"
        f" {'on its way there from ' + each['source'] if each['source'] else 'being built there'}."
        for each in arriving
    ]
    return " ".join(
        [
            f"{head}.",
            *parts,
            *said,
            "The host stays disabled. Correct the cause and run the drain again.",
        ]
    )


def ending(host: str, seen: Occupants) -> str:
    """Return the sentences on the state of a host at the end of its drain, by its instances."""
    back = "Bring it back with drover.compute.undrain."
    if seen["running"]:
        names = ", ".join(each["name"] for each in seen["running"])
        return (
            f"{host} is disabled but not in maintenance, as {names} still runs there"
            f" (drover_unmovable=skip). {back}"
        )
    if seen["shut_off"]:
        names = ", ".join(each["name"] for each in seen["shut_off"])
        return f"{host} is in maintenance; {names} is there, shut off. {back}"
    return f"{host} is empty and in maintenance. {back}"
