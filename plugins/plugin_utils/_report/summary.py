# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report in a terminal: a summary, the list "Needs a look", and the fullest hosts."""

from __future__ import annotations

from collections.abc import Sequence

from .._common.errors import natural
from . import formatting
from .decision import short
from .hosts import EMPTY, UNITS
from .parts import Decision, Figure, HostView, ProjectsView, ReportView, Seen
from .projects import projects_table
from .text import align, shortened

#: The number of hosts that need a look, and the number of the fullest hosts.
SHOWN = 20
HEADINGS = ("HOST", "STATE", "FULL", "VCPU", "MEMORY", "DISK", "INSTANCES", "REASON")
NUMBERS = ("FULL", "VCPU", "MEMORY", "DISK", "INSTANCES")
#: The number of the newest decisions, and the columns of a terminal for their reasons.
DECISIONS = 5
WIDEST_WHY = 100


def report_lines(view: ReportView, now: float) -> list[str]:
    """Return the report as lines; their number does not grow with the fleet.

    :param view: the result of conductor.report_data.read().
    :param now: seconds since 1970.
    """
    summary = view["summary"]
    if not summary["hosts"]:
        return [EMPTY]
    counts = ", ".join(
        f"{formatting.number(count)} {word}"
        for count, word in (
            (summary["up"], "up"),
            (summary["down"], "down"),
            (summary["maintenance"], "in maintenance"),
            (summary["disabled"], "disabled"),
            (summary["left"], "no longer reported"),
        )
        if count or word == "up"
    )
    lines = [
        f"{formatting.count(summary['hosts'], 'host')}: {counts};"
        f" {formatting.count(summary['instances'], 'instance')}"
    ]
    lines += _lines_of_discovery(view["seen"], now)
    lines += [
        f"{each['label']}: {each['text']} allocated"
        + (f" ({each['percent']} %)" if each["percent"] is not None else "")
        + (f", physically used {each['physical_text']}" if each["physical_text"] else "")
        for each in summary["figures"]
    ]
    lines.append(formatting.clean(view["capacity"]["verdict"]))
    lines += [formatting.clean(each) for each in view["growth"]]
    lines += _hosts("Need a look", [host for host in view["hosts"] if host["kind"] != "well"])
    full = sorted(
        (host for host in view["hosts"] if host["kind"] == "well"),
        key=lambda host: (-(host["full"] or 0), natural(host["host"])),
    )
    return (
        lines
        + _hosts("Fullest", full)
        + _projects(view["projects"])
        + _decisions(view["decisions"][:DECISIONS])
    )


def _lines_of_discovery(seen: Seen, now: float) -> list[str]:
    newest, oldest = seen["newest"], seen["oldest"]
    if newest is None or oldest is None:
        return []
    age = {
        key: formatting.age(max(now - (at or 0), 0))
        for key, at in (("newest", newest), ("oldest", oldest["last_seen_up"]))
    }
    never = f"; {formatting.number(seen['never'])} never" if seen["never"] else ""
    return [
        f"Discovered {age['newest']} ago (oldest: {formatting.clean(oldest['host'])},"
        f" {age['oldest']} ago{never})"
    ]


def _projects(projects: ProjectsView) -> list[str]:
    """Write the projects with an instance or a quota, projects at a limit first."""
    if not projects["rows"]:
        return []
    rows = sorted(projects["rows"], key=lambda each: not each["full"])
    more = [f"  and {formatting.number(len(rows) - SHOWN)} more"] if len(rows) > SHOWN else []
    return [
        "",
        "Projects:",
        *projects_table({**projects, "rows": rows[:SHOWN]}, indent="  "),
        *more,
    ]


def _decisions(newest: Sequence[Decision]) -> list[str]:
    if not newest:
        return []
    rows = [
        [
            formatting.moment(each["created_at"]),
            each["purpose"],
            formatting.clean(each["name"]),
            each["where"] or "no valid host",
            shortened(formatting.clean(short(each) or ""), WIDEST_WHY),
        ]
        for each in newest
    ]
    return [
        "",
        "Newest decisions:",
        *align(("WHEN", "FOR", "INSTANCE", "HOST", "WHY"), rows, indent="  "),
    ]


def _share(figure: Figure) -> str | None:
    text = formatting.share(figure["used"], figure["capacity"], UNITS[figure["name"]])
    return f"{text} shared" if text and figure["shared"] else text


def _hosts(title: str, hosts: Sequence[HostView]) -> list[str]:
    if not hosts:
        return []
    rows = [
        [
            host["host"],
            host["state"],
            None if host["full"] is None else f"{host['full']} %",
            *(_share(each) for each in host["figures"]),
            formatting.number(host["instances"]),
            formatting.clean(host["reason"]),
        ]
        for host in hosts[:SHOWN]
    ]
    more = [f"  and {formatting.number(len(hosts) - SHOWN)} more"] if len(hosts) > SHOWN else []
    return ["", f"{title}:", *align(HEADINGS, rows, right=NUMBERS, indent="  "), *more]
