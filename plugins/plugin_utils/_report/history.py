# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recorded actions and their users, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._records.overview import ActionRow
from . import formatting
from .text import align, shortened

HEADINGS = ("WHEN", "WHAT", "INSTANCE", "HOST", "WHO", "WHY", "COMMAND")
#: The columns of a terminal for the action and for the reason; the data has the full texts.
WIDEST = 48


def history_table(rows: Sequence[ActionRow]) -> list[str]:
    """Return rows of the store's actions.read(), one line each, or a sentence if there are none."""
    if not rows:
        return ["Nothing was done, or it is older than what the store keeps."]
    return align(
        HEADINGS, [_row(each) for each in rows], optional=["COMMAND", "WHY"], name="INSTANCE"
    )


def who(row: ActionRow) -> str:
    """Return the person, and the origin of the command: the job of AWX, or the controller."""
    job = row["job"]
    if not job:
        return f"{row['user']} on {row['controller']}"
    person = job.get("user") or _schedule(job) or "AWX"
    workflow = f" of workflow {job['workflow_id']}" if job.get("workflow_id") else ""
    return f"{person}, AWX job {job['id']}{workflow}"


def _schedule(job: Mapping[str, str]) -> str | None:
    name = job.get("schedule") or job.get("workflow_schedule")
    return f"schedule {name}" if name else None


def where(row: ActionRow) -> str | None:
    """Return the host, or both hosts of a move."""
    return f"{row['host']} -> {row['destination']}" if row["destination"] else row["host"]


def _row(each: ActionRow) -> list[Any]:
    what = shortened(f"{each['kind']}: {each['message']}", WIDEST)
    moment = formatting.moment(each["created_at"])
    return [
        moment,
        what,
        each["instance_name"],
        where(each),
        who(each),
        shortened(each["reason"], WIDEST),
        each["command"],
    ]
