# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The list "Needs a look", the most urgent line first, each with a command that helps. Data in,
data out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .._common.errors import natural
from .._records.instances import ListedInstance
from .._records.outcomes import RollingRecord
from .._records.overview import Lease, MigrationRow, Overview, OwnMachine, WentDown
from .anchor import command
from .formatting import count, number
from .migrations import UNDER_WAY
from .parts import HostView, Look

EVACUATE = "ansible-playbook drover.compute.evacuate -e drover_host={} --check"
DISCOVER_ONE = "ansible-playbook drover.compute.discover --limit {},localhost"
DISCOVER = "ansible-playbook drover.compute.discover"
UNDRAIN = "ansible-playbook drover.compute.undrain -e drover_host={}"
ENABLE = "ansible-playbook drover.compute.host_enable -e drover_host={}"
CONFIRM = (
    "ansible-playbook drover.compute.instance_resize -e drover_instance={} -e drover_resize=confirm"
)
POWER = "ansible-playbook drover.compute.power -e drover_host={}"


def attention(
    hosts: Sequence[HostView],
    instances: Iterable[ListedInstance],
    overview: Overview,
    fatal: Sequence[str],
) -> list[Look]:
    """Rank the lines of "Needs a look".

    :param hosts: the hosts of the view.
    :param instances: rows of the store's instances.listing().
    :param overview: the result of overview.read() of the store.
    :param fatal: the hosts that the other hosts cannot replace, from host_loss.host_losses().
    """
    by_kind: dict[str, list[HostView]] = {}
    for host in hosts:
        by_kind.setdefault(host["kind"], []).append(host)
    down = sorted(
        by_kind.get("down", ()), key=lambda host: (-host["instances"], natural(host["host"]))
    )
    at = {host["host"]: host for host in hosts}
    return [
        *(_down_with_instances(host) for host in down if host["instances"]),
        *_lines_of_missing_instances(instances),
        *_went_down(overview["went_down"], at),
        *(_line_of_down_host(host) for host in down if not host["instances"]),
        *_loss(fatal),
        *_migrations(overview),
        *_power(overview, at),
        *_rolling(overview["rolling"]),
        *(_taken_out(host, "disabled") for host in by_kind.get("disabled", ())),
        *(_unreported(host) for host in by_kind.get("unreported", ())),
        *(_taken_out(host, "maintenance") for host in by_kind.get("maintenance", ())),
        *_leases(overview["leases"], at),
        *_lines_of_own_machines(overview.get("own") or (), at),
    ]


def _make_line(kind: str, label: str, text: str, **more: Any) -> Look:
    look: Look = {
        "kind": kind,
        "label": label,
        "link": None,
        "name": None,
        "text": text,
        "reason": None,
        "since": None,
        "command": None,
        "guide": None,
    }
    look.update(more)  # type: ignore[typeddict-item]  # the keys of Look
    return look


def _of_host(host: HostView, kind: str, label: str, text: str, **more: Any) -> Look:
    return _make_line(kind, label, text, link=host["id"], name=host["host"], **more)


def _count_of_instances(instances: int) -> str:
    return f"{number(instances)} instance{'' if instances == 1 else 's'}"


def _down_with_instances(host: HostView) -> Look:
    return _of_host(
        host,
        "down",
        host["state"],
        f"has {_count_of_instances(host['instances'])}. Restart them elsewhere:",
        reason=host["reason"],
        command=command(EVACUATE, host["host"]),
        guide="evacuate.md",
    )


def _line_of_down_host(host: HostView) -> Look:
    return _of_host(
        host,
        "down",
        host["state"],
        "has no instances. Repair it, then read it again:",
        reason=host["reason"],
        command=command(DISCOVER_ONE, host["host"]),
        guide="troubleshooting.md",
    )


def _lines_of_missing_instances(instances: Iterable[ListedInstance]) -> Iterator[Look]:
    for instance in instances:
        if instance["state"] == "missing":
            yield _make_line(
                "down",
                "missing",
                f"is on no host any more; it was on {instance['host']}. Look for it on all hosts:",
                link=f"i-{instance['uuid']}",
                name=instance["name"],
                command=DISCOVER,
                guide="audit.md",
            )


def _row(at: Mapping[str, HostView], host: str | None) -> str | None:
    """Return the id of the row of a host; None if the page has none."""
    return at[host]["id"] if host is not None and host in at else None


def _went_down(found: Iterable[WentDown], at: Mapping[str, HostView]) -> Iterator[Look]:
    for host in found:
        yield _make_line(
            "down",
            "restarted",
            f"was restarted: {', '.join(host['names'])} ran before and went down with it. Start"
            " them:",
            link=_row(at, host["host"]),
            name=host["host"],
            command=host["command"],
            guide="evacuate.md",
        )


def _lines_of_own_machines(
    found: Iterable[OwnMachine], at: Mapping[str, HostView]
) -> Iterator[Look]:
    for machine in found:
        if machine["uuid"] is None:
            link = _row(at, machine["host"])
            text = f"is {machine['what']}: it is maintained last, and not rebooted from there."
            yield _make_line(
                "calm", "own host", text, link=link, name=machine["host"], guide="own-machines.md"
            )
        else:
            text = (
                f"on {machine['host'] or 'no host'} is {machine['what']}: it is moved live and"
                " last, and never stopped."
            )
            yield _make_line(
                "calm",
                "own guest",
                text,
                link=f"i-{machine['uuid']}",
                name=machine["name"],
                guide="own-machines.md",
            )


def _loss(fatal: Sequence[str]) -> Iterator[Look]:
    if fatal:
        yield _make_line(
            "disabled",
            "no spare room",
            f"The instances of {' or '.join(fatal)} do not fit on the other hosts.",
            link="loss",
        )


def _migrations(overview: Overview) -> Iterator[Look]:
    working = {each["name"] for each in overview["leases"]}
    for migration in overview["migrations"]:
        if migration["status"] not in UNDER_WAY:
            continue
        way = f"{migration['source']} → {migration['destination']}"
        more = {
            "link": f"i-{migration['instance_uuid']}",
            "name": migration["instance_name"],
            "since": migration["created_at"],
        }
        if migration["status"] == "finished":
            text = f"is resized ({way}) and waits until you confirm or revert it:"
            yield _make_line(
                "calm",
                "resize",
                text,
                command=command(CONFIRM, migration["instance_name"]),
                guide="instances.md",
                **more,
            )
        elif _hosts(migration) & working:
            yield _make_line("calm", "moving", f"moves {way}", **more)
        else:
            text = (
                f"was to move {way}, and no run works on it. Run the same command again: it"
                " finishes or undoes the move."
            )
            yield _make_line("disabled", "open move", text, guide="migration.md", **more)


def _hosts(migration: MigrationRow) -> set[str]:
    """Return the hosts at both ends, which are recorded as compute nodes HOST or HOST/NODE."""
    return {end.partition("/")[0] for end in (migration["source"], migration["destination"])}


def _power(overview: Overview, at: Mapping[str, HostView]) -> Iterator[Look]:
    for event in overview["power_events"]:
        if event["status"] == "running":
            yield _make_line(
                "calm",
                "power",
                f"{event['action']} over {event['driver']} has begun and has no result yet. Ask for"
                " its power:",
                link=_row(at, event["host"]),
                name=event["host"],
                since=event["created_at"],
                command=command(POWER, event["host"]),
                guide="power.md",
            )


def _rolling(records: Sequence[RollingRecord]) -> Iterator[Look]:
    if records:
        done = sum(each["stage"] == "done" for each in records)
        yield _make_line(
            "calm",
            "rolling maintenance",
            f"{number(done)} of {count(len(records), 'host')} done. If no run is at work, run the"
            " same command again to continue.",
            link="rolling",
            guide="rolling.md",
        )


def _taken_out(host: HostView, kind: str) -> Look:
    return _of_host(
        host,
        kind,
        host["state"],
        f"has {_count_of_instances(host['instances'])} and takes no new ones. Bring it back:",
        reason=host["reason"],
        command=command(UNDRAIN if host["drained"] else ENABLE, host["host"]),
        guide="drain.md",
    )


def _unreported(host: HostView) -> Look:
    return _of_host(
        host,
        "disabled",
        "incomplete",
        "Read it again:",
        reason=host["reason"],
        command=command(DISCOVER_ONE, host["host"]),
        guide="audit.md",
    )


def _leases(leases: Sequence[Lease], at: Mapping[str, HostView]) -> Iterator[Look]:
    for lease in sorted(leases, key=lambda each: natural(each["name"])):
        yield _make_line(
            "calm",
            "at work",
            f"{lease['holder']}, {lease['purpose']}",
            link=at[lease["name"]]["id"] if lease["name"] in at else None,
            name=lease["name"],
            since=lease["acquired_at"],
        )
