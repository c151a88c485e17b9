# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings, and the repairs of the safe ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TypedDict

from ..allocations import Held

LEVELS = ("problem", "information")

#: The kinds in the order of the report: {kind: (level, the action for the operator)}.
KINDS = {
    "domain_doubled": (
        "problem",
        (
            "Look at both hosts with virsh list --all, stop the wrong domain by hand (fence its"
            " host if it cannot be reached), undefine it there and run drover.compute.discover. Two"
            " that run write to one disk. Are both hosts one machine under two names, then stop"
            " nothing, and take the wrong name out (docs/troubleshooting.md)."
        ),
    ),
    "domain_seen_twice": (
        "information",
        (
            "Run drover.compute.discover on these hosts, and the audit again. If a host cannot be"
            " read, it may still have the domain: see there before anything is started or removed."
        ),
    ),
    "instance_missing": (
        "problem",
        (
            "Run drover.compute.discover on all hosts. If the domain is really gone, remove what is"
            " left of it with drover.compute.instance_delete; else define it again from its disk."
        ),
    ),
    "allocation_doubled": (
        "problem",
        "Run drover.compute.discover on all hosts, then the audit with drover_audit_heal=true.",
    ),
    "wrong_host": (
        "problem",
        "Run drover.compute.discover on all hosts, then the audit with drover_audit_heal=true.",
    ),
    "allocation_wrong": (
        "problem",
        "Run drover.compute.discover on its host, or the audit with drover_audit_heal=true.",
    ),
    "allocation_missing": (
        "problem",
        "Run drover.compute.discover on its host, or the audit with drover_audit_heal=true.",
    ),
    "allocation_of_nobody": (
        "problem",
        (
            "Run drover.compute.discover on all hosts, which adopts what runs, then the audit with"
            " drover_audit_heal=true."
        ),
    ),
    "migration_closed": (
        "problem",
        "Run the audit with drover_audit_heal=true: the move is over and the room is free.",
    ),
    "claim_expired": (
        "problem",
        (
            "Finish the build by running drover.compute.place again, or give the room back: the"
            " audit with drover_audit_heal=true and drover_audit_release_expired=true."
        ),
    ),
    "claim_unattended": (
        "problem",
        (
            "Run drover.compute.place again, which builds it, or give its room back with"
            " drover.compute.instance_delete."
        ),
    ),
    "stranger": (
        "problem",
        "Run drover.compute.discover on its host: it adopts the domain with the room it takes.",
    ),
    "pins_overlap": (
        "problem",
        (
            "Run drover.compute.discover on the host. If it is so there, give one of them other"
            " CPUs (virsh vcpupin, virsh emulatorpin, with --live and --config)."
        ),
    ),
    "pins_outside": (
        "problem",
        (
            "Give the vCPUs CPUs of the set (virsh vcpupin with --live and --config), or change"
            " drover_cpu_dedicated_set of the host."
        ),
    ),
    "pins_unclaimed": (
        "problem",
        (
            "Do not start it there by hand. Run the command that moves it again, which gives it its"
            " own CPUs: drover.compute.instance_resize for a resize, or else the drain of its"
            " source host."
        ),
    ),
    "pages_exceeded": (
        "problem",
        (
            "Not all of them can run at the same time. Give the host more pages, or move one that"
            " is shut off to another host."
        ),
    ),
    "device_doubled": (
        "problem",
        (
            "Only one of them can run at a time. Take the device out of the others (virsh"
            " detach-device --config)."
        ),
    ),
    "node_without_service": ("problem", "Run drover.compute.discover on the host."),
    "node_without_provider": (
        "problem",
        "Run drover.compute.discover on the host, which makes it again.",
    ),
    "provider_without_node": (
        "problem",
        (
            "Run drover.compute.discover if the host still exists. If not, remove what is allocated"
            " on the provider, then the provider."
        ),
    ),
    "use_miscounted": ("problem", "Run the audit with drover_audit_heal=true, which counts again."),
    "over_capacity": (
        "information",
        (
            "Nothing new is claimed there. Drain it, or raise its allocation ratio or room. A"
            " storage pool without capacity does not run or cannot be read: start it (virsh"
            " pool-start), then run drover.compute.discover on its host."
        ),
    ),
    "went_down": (
        "information",
        (
            "Start what should run: drover.compute.instance_start. drover.compute.instance_stop"
            " says that it stays off."
        ),
    ),
    "order_open": (
        "information",
        (
            "If no run works on it, run the last command for it again: it finds out at the host if"
            " the order was done."
        ),
    ),
    "migration_old": (
        "information",
        (
            "Run the drain of its source host again, which finishes or undoes it; a resize"
            " drover.compute.instance_resize."
        ),
    ),
}


class Finding(TypedDict):
    """A problem, or a piece of information.

    uuid, name: of an instance or a consumer, or of a compute node or provider. provider: a name.
    resource: a class. why: the description of the problem. heal: the repair by heal if ``safe``,
    else the reason why heal leaves it.
    """

    kind: str
    level: str
    uuid: str | None
    name: str | None
    host: str | None
    provider: str | None
    resource: str | None
    why: str
    advice: str
    safe: bool
    heal: str


#: The object of a finding: uuid, name, host, provider and resource, without unknown ones.
What = Mapping[str, str | None]


@dataclasses.dataclass
class Mends:
    """The repairs that heal makes.

    holdings: allocations by consumer. owners: (project, user) by consumer. places: (id of the
    instance, id of its node) by instance. releases: consumers. recounts: ids of inventories.
    """

    holdings: dict[str, Held] = dataclasses.field(default_factory=dict)
    owners: dict[str, tuple[str | None, str | None]] = dataclasses.field(default_factory=dict)
    places: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    releases: list[str] = dataclasses.field(default_factory=list)
    recounts: list[int] = dataclasses.field(default_factory=list)

    @property
    def nothing(self) -> bool:
        """Return True if there is nothing to do."""
        return not (self.holdings or self.places or self.releases or self.recounts)


class Findings:
    """A collection of findings; ``mends`` has the repairs of the safe ones."""

    def __init__(self) -> None:
        self.rows: list[Finding] = []
        self.mends = Mends()

    def add(self, kind: str, why: str, heal: str, what: What, safe: bool = False) -> None:
        """Add a finding."""
        level, advice = KINDS[kind]
        self.rows.append(
            {
                "kind": kind,
                "level": level,
                "uuid": what.get("uuid"),
                "name": what.get("name"),
                "host": what.get("host"),
                "provider": what.get("provider"),
                "resource": what.get("resource"),
                "why": why,
                "advice": advice,
                "safe": safe,
                "heal": heal,
            }
        )

    def listing(self) -> list[Finding]:
        """Return all findings, the gravest kinds first, then by host and name."""
        order = {kind: number for number, kind in enumerate(KINDS)}

        def key(row: Finding) -> tuple[int | str, ...]:
            words = (row["host"], row["name"], row["uuid"], row["provider"], row["resource"])
            return (LEVELS.index(row["level"]), order[row["kind"]], *(word or "" for word in words))

        return sorted(self.rows, key=key)
