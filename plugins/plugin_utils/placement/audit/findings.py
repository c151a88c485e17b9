# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a finding is, and what mends those that are safe to mend."""

from __future__ import annotations

import dataclasses

LEVELS = ("problem", "information")

# In the order they are shown: kind -> (level, what the operator does about it).
KINDS = {
    "domain_doubled": (
        "problem",
        "Look at both hosts with virsh list --all, stop the wrong domain by hand (fence its host if it cannot be "
        "reached), undefine it there and run drover.compute.discover. Two that run write to one disk. Are both hosts one machine "
        "under two names, then stop nothing, and take the wrong name out (docs/troubleshooting.md).",
    ),
    "instance_missing": (
        "problem",
        "Run drover.compute.discover on all hosts. If the domain is really gone, remove what is left of it with "
        "drover.compute.instance_delete; else define it again from its disk.",
    ),
    "allocation_doubled": (
        "problem",
        "Run drover.compute.discover on all hosts, then the audit with drover_heal=true.",
    ),
    "wrong_host": ("problem", "Run drover.compute.discover on all hosts, then the audit with drover_heal=true."),
    "allocation_wrong": ("problem", "Run drover.compute.discover on its host, or the audit with drover_heal=true."),
    "allocation_missing": ("problem", "Run drover.compute.discover on its host, or the audit with drover_heal=true."),
    "allocation_of_nobody": (
        "problem",
        "Run drover.compute.discover on all hosts, which adopts what runs, then the audit with drover_heal=true.",
    ),
    "migration_closed": ("problem", "Run the audit with drover_heal=true: the move is over and the room is free."),
    "claim_expired": (
        "problem",
        "Finish the build by running drover.compute.place again, or give the room back: the audit with "
        "drover_heal=true and drover_release_expired=true.",
    ),
    "stranger": ("problem", "Run drover.compute.discover on its host: it adopts the domain with the room it takes."),
    "node_without_service": ("problem", "Run drover.compute.discover on the host."),
    "node_without_provider": ("problem", "Run drover.compute.discover on the host, which makes it again."),
    "provider_without_node": (
        "problem",
        "Run drover.compute.discover if the host still exists. If not, remove what is allocated on the provider, then the provider.",
    ),
    "use_miscounted": ("problem", "Run the audit with drover_heal=true, which counts again."),
    "over_capacity": ("information", "Nothing new is claimed there. Drain it, or raise its allocation ratio or room."),
    "migration_old": (
        "information",
        "Run the drain of its source host again, which finishes or undoes it; a resize drover.compute.instance_resize.",
    ),
}


@dataclasses.dataclass
class Mends:
    """What heal does: holdings by consumer uuid, places by instance uuid, and so on."""

    holdings: dict = dataclasses.field(default_factory=dict)
    owners: dict = dataclasses.field(default_factory=dict)
    places: dict = dataclasses.field(default_factory=dict)
    releases: list = dataclasses.field(default_factory=list)
    recounts: list = dataclasses.field(default_factory=list)

    @property
    def nothing(self):
        return not (self.holdings or self.places or self.releases or self.recounts)


class Findings:
    """Collects findings; ``mends`` is what would mend the safe ones."""

    def __init__(self):
        self.rows = []
        self.mends = Mends()

    def add(self, kind, why, heal, safe=False, **what):
        """Note one finding.

        :param why: what is wrong, in a sentence.
        :param heal: what heal does about it when safe, else why it leaves it.
        :param what: uuid and name of the instance (or consumer), host, provider (name), resource (class).
        """
        level, advice = KINDS[kind]
        named = {name: what.get(name) for name in ("uuid", "name", "host", "provider", "resource")}
        self.rows.append({"kind": kind, "level": level, **named, "why": why, "advice": advice, "safe": safe, "heal": heal})

    def listing(self):
        """All findings, the gravest kinds first, then by host and name."""
        order = {kind: number for number, kind in enumerate(KINDS)}

        def key(row):
            words = (row[name] or "" for name in ("host", "name", "uuid", "provider", "resource"))
            return (LEVELS.index(row["level"]), order[row["kind"]], *words)

        return sorted(self.rows, key=key)
