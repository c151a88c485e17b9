# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines and sentences of a drain of a storage pool: its plan, the disks that cannot move, and
its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._common.errors import as_sentence, some
from . import formatting, text

MIB = 2**20


def lines(
    pool: str,
    hosts: Sequence[str],
    moves: Sequence[Mapping[str, Any]],
    staying: Sequence[Mapping[str, Any]],
) -> list[str]:
    """Return the plan as lines.

    :param moves: dicts name, disk, host, size, pool (the destination), live.
    :param staying: dicts name, disk (or None), host, reason, way_out.
    """
    where = ", ".join(hosts)
    if not moves and not staying:
        return [f"Drain of the storage pool {pool} of {where}: there is no disk in it."]
    head = (
        f"Drain of the storage pool {pool} of {where}: {formatting.count(len(moves), 'disk')} to"
        " move"
    )
    output = [f"{head}, {len(staying)} cannot move." if staying else f"{head}."]
    if moves:
        rows = [
            (
                each["host"],
                each["name"],
                each["disk"],
                formatting.memory(each["size"] // MIB),
                pool,
                "->",
                each["pool"],
                "live" if each["live"] else "off",
            )
            for each in moves
        ]
        output += text.align(
            ("HOST", "INSTANCE", "DISK", "SIZE", "FROM", "", "TO", "HOW"),
            rows,
            right=("SIZE",),
            indent="  ",
            name="INSTANCE",
        )
    if staying:
        output.append("Cannot move:")
        for disk in staying:
            output.append(f"  {_label_of_disk(disk)}: {disk['reason'].rstrip('.')}")
            output.append(f"    Way out: {disk['way_out']}.")
    return output


def cannot_move(pool: str, staying: Sequence[Mapping[str, object]]) -> str:
    """Return the sentences about things that cannot leave a pool, with reasons and remedies."""
    reasons = " ".join(named_reason(each) for each in staying)
    return (
        f"{len(staying)} of what is in the storage pool {pool} cannot move, so nothing was changed."
        f" {reasons} Correct that, or have the others moved all the same: drover_unmovable=skip."
    )


def named_reason(each: Mapping[str, object]) -> str:
    """Return the reason why a thing stays, and the remedy."""
    return f"{_label_of_disk(each)}: {as_sentence(each['reason'])} Way out: {each['way_out']}."


def _label_of_disk(each: Mapping[str, object]) -> str:
    return (
        f"{each['name']} {each['disk']} on {each['host']}"
        if each["disk"]
        else f"{each['name']} on {each['host']}"
    )


def ending(pool: str, host: str, files: Sequence[Mapping[str, Any]]) -> str:
    """Return the sentence that a pool is empty on a host.

    :param files: the files that are still there, dicts path and reason (or None).
    """
    end = (
        f"The storage pool {pool} of {host} is empty of disks, and gets nothing new. Bring it back"
        " with drover.compute.undrain."
    )
    if not files:
        return end
    named = some(
        [
            f"{each['path']} ({each['reason']})" if each["reason"] else each["path"]
            for each in files
        ],
        5,
    )
    return f"{end} No domain of {host} needs these files there: {named}."


def not_empty(
    pool: str,
    host: str,
    needed: Sequence[Mapping[str, object]],
    doubts: Sequence[str],
    said: Sequence[str],
) -> str:
    """Return the sentences about the files in a pool that was not emptied.

    :param needed: dicts path and reason. doubts, said: sentences.
    """
    parts = [f"{each['path']} ({each['reason']})" for each in needed]
    head = (
        f"The storage pool {pool} of {host} is not empty: {some(parts, 5)}."
        if parts
        else f"It is not proven that the storage pool {pool} of {host} is empty."
    )
    unknown = [f"Not known is: {some([each.rstrip('.') for each in doubts], 3)}."] if doubts else []
    return " ".join(
        [
            head,
            *unknown,
            *said,
            (
                "The pool gets nothing new. Correct the cause and run the drain again, or undo it"
                " with drover.compute.undrain."
            ),
        ]
    )
