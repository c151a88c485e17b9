# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What moves together, and the order in which destinations are sought."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils.resource_classes import to_resources
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.request_spec import RequestSpec


@dataclass(frozen=True)
class MigrationCandidate:
    """One instance that is to move.

    instance: its dict; spec: RequestSpec; source: row number of the node it is on; limits: what
    narrow takes, so that it stays off the hosts to be emptied and in its cell; limits_key: the same
    for candidates with the same limits.
    """

    instance: Any
    spec: RequestSpec
    source: int
    limits: tuple
    limits_key: tuple = ()


@dataclass(frozen=True)
class Unit:
    """Instances that must arrive on one host: one candidate, or all those of an affinity group."""

    candidates: tuple

    @property
    def together(self):
        return len(self.candidates) > 1

    @property
    def name(self):
        return self.candidates[0].spec.name

    def amount(self, resource_class):
        return sum(candidate.spec.resources.get(resource_class, 0) for candidate in self.candidates)


def amounts_of(instance):
    """{resource class: amount}: ``resources`` of the instance, else its vcpus, memory_mb and disk_gb."""
    amounts = to_resources(instance)
    amounts.update(instance.get("resources") or {})
    return amounts


def spec_of(instance, states, excluded):
    """The RequestSpec of an instance that exists.

    :param excluded: nodes (names or provider uuids) that it must not go to.
    """
    group = instance.get("server_group")
    known = group and states.group(group) is not None
    spec = RequestSpec.from_instance(instance)
    return replace(
        spec,
        resources={rc: amount for rc, amount in amounts_of(instance).items() if amount},
        server_group=spec.server_group if known else None,
        ignore_nodes=tuple(excluded),
    )


def by_memory(unit):
    """Largest memory first, then vCPUs, then disk; names make it the same every time."""
    return (-unit.amount("MEMORY_MB"), -unit.amount("VCPU"), -unit.amount("DISK_GB"), *_identity(unit))


def _identity(unit):
    return (unit.name, unit.candidates[0].spec.key)
