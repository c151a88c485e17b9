# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances that may move, groups of them that move together, and the order of the search for
destinations.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from .._common.resource_classes import to_resources
from .._records.instances import InstanceAmounts
from .._scheduler.filtering import Limit
from .._scheduler.request_spec import RequestSpec


@dataclass(frozen=True)
class MigrationCandidate:
    """An instance that may move.

    source: row of its node, -1 for none. limits: keep it in its cell and off the hosts to be
    emptied. limits_key: equal for candidates with equal limits. common: one spec for all candidates
    with specs that differ in name, uuid and server group at most; None if unknown.
    """

    spec: RequestSpec
    source: int
    limits: tuple[Limit, ...] = ()
    limits_key: tuple[int, tuple[str, ...]] | None = None
    common: RequestSpec | None = None


#: A candidate, and the row of its destination.
Place = tuple[MigrationCandidate, int]


@dataclass(frozen=True)
class Unit:
    """Instances that must arrive on one host: one candidate, or all candidates of an affinity
    group.
    """

    candidates: tuple[MigrationCandidate, ...]

    @property
    def together(self) -> bool:
        return len(self.candidates) > 1

    @property
    def name(self) -> str:
        return self.candidates[0].spec.name

    @property
    def largest(self) -> MigrationCandidate:
        """The candidate with the most memory."""
        return max(self.candidates, key=lambda each: each.spec.resources.get("MEMORY_MB", 0))

    def amount(self, resource_class: str) -> int:
        return sum(candidate.spec.resources.get(resource_class, 0) for candidate in self.candidates)


def spec_of(instance: InstanceAmounts, excluded: Iterable[str]) -> RequestSpec:
    """Make the RequestSpec of an existing instance, with its allocated amounts.

    :param excluded: nodes (names or provider uuids) that it must not go to.
    """
    amounts = {**to_resources(instance), **(instance.get("resources") or {})}
    return replace(
        RequestSpec.from_instance(instance),
        resources={rc: amount for rc, amount in amounts.items() if amount},
        ignore_nodes=tuple(excluded),
    )


def by_memory(unit: Unit) -> tuple[int, int, int, str, str]:
    """Return the sort key of a unit: largest memory first, then vCPUs, then disk. Names make the
    order unique.
    """
    key = unit.candidates[0].spec.key
    return -unit.amount("MEMORY_MB"), -unit.amount("VCPU"), -unit.amount("DISK_GB"), unit.name, key
