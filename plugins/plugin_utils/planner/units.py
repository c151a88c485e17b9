# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What moves together, and in which order places are sought."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.request_spec import RequestSpec

RESOURCE_KEYS = {"VCPU": "vcpus", "MEMORY_MB": "memory_mb", "DISK_GB": "disk_gb"}


@dataclass(frozen=True)
class Mover:
    """One instance that is to move.

    instance: its dict; spec: RequestSpec; source: row number of the node it is on; limits: what
    narrow takes, so that it stays off the hosts to be emptied and in its cell; limits_key: the same
    for movers with the same limits.
    """

    instance: Any
    spec: RequestSpec
    source: int
    limits: tuple
    limits_key: tuple = ()


@dataclass(frozen=True)
class Unit:
    """Instances that must arrive on one host: one mover, or all those of an affinity group."""

    movers: tuple

    @property
    def together(self):
        return len(self.movers) > 1

    @property
    def name(self):
        return self.movers[0].spec.name

    def amount(self, resource_class):
        return sum(mover.spec.resources.get(resource_class, 0) for mover in self.movers)


def amounts_of(instance):
    """{resource class: amount}: ``resources`` of the instance, else its vcpus, memory_mb and disk_gb."""
    amounts = {rc: int(instance.get(key) or 0) for rc, key in RESOURCE_KEYS.items()}
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
    return (unit.name, unit.movers[0].spec.key)
