# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of all plans: the possible destinations of an instance, and the instances that may make
room.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from .._common.arrays import np
from .._records.instances import InstanceAmounts, PlannedInstance
from .._scheduler.filtering import Limit
from .._scheduler.host_states import HostStates
from .._scheduler.policy import Policy
from .._scheduler.request_fields import ServerGroupRequest
from .._scheduler.request_spec import RequestSpec
from .migration_candidates import MigrationCandidate, spec_of
from .movability import is_to_shut_down, why_unmovable
from .packing_state import PackingState

#: No move goes to a host that these filters reject, even if the policy leaves them out: the claim
#: would refuse it, or the instance would land on a host that is being emptied itself.
NEEDED_FILTERS = (
    "ComputeFilter",
    "CoreFilter",
    "RamFilter",
    "DiskFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
)


class CandidateBuilder:
    """A maker of migration candidates; candidates with equal limits share them.

    :param sources: rows of the nodes to be emptied.
    """

    def __init__(self, states: HostStates, sources: Iterable[int]) -> None:
        self._states = states
        self._open = ~np.isin(states.host_of, states.host_of[list(sources)])
        self._limits: dict[tuple[int, tuple[str, ...]], tuple[Limit, ...]] = {}
        self._common: dict[tuple[object, ...], RequestSpec] = {}
        self._groups: dict[str, ServerGroupRequest | None] = {}

    def candidate(
        self, instance: InstanceAmounts, sources: Sequence[int] | None, excluded: Iterable[str]
    ) -> MigrationCandidate:
        """Make the candidate of an instance.

        :param sources: rows of the nodes that it may be on; None for any.
        :param excluded: nodes (names or provider uuids) that it must not go to.
        """
        states = self._states
        common = self._spec(instance, tuple(excluded))
        spec = common.twin(
            instance["name"], instance["uuid"], self._group(instance.get("server_group"))
        )
        allocations = instance.get("allocations")
        if allocations:
            states.hold(spec.key, allocations)
        source_rows = [
            index for index in states.where(spec.key) if sources is None or index in sources
        ]
        if not source_rows:
            rows = (
                sources
                if sources is not None
                else [i for i in range(states.size) if states.host[i] == instance["host"]]
            )
            source_rows = [
                index for index in rows if states.node[index] == instance.get("node")
            ] or list(rows)
        source = source_rows[0]
        traits = tuple(sorted(instance.get("required_traits") or ()))
        of_pools = tuple(instance.get("required_pool_traits") or ())
        key = (int(states.cell_of[source]), (*traits, *of_pools))
        if key not in self._limits:
            limits = [
                ("drained host", self._open, "the host to be emptied"),
                ("same cell", states.cell_of == states.cell_of[source], "in another cell"),
            ]
            if traits:
                have = states.categorical("traits").each(
                    lambda found: set(traits) <= set(found or ())
                )
                limits.append(("required traits", have, f"without {', '.join(traits)}"))
            if of_pools:
                have = states.categorical("pool_traits").each(
                    lambda found: set(of_pools) <= set(found or ())
                )
                words = " and ".join("{1} in {0}".format(*each.split(":")) for each in of_pools)
                limits.append(("traits of storage pools", have, f"without {words}"))
            self._limits[key] = tuple(limits)
        return MigrationCandidate(spec, source, self._limits[key], key, common)

    def _spec(self, instance: InstanceAmounts, excluded: tuple[str, ...]) -> RequestSpec:
        """Return the one spec for all instances like this one."""
        resources = instance.get("resources") or {}
        key = (*RequestSpec.likeness(instance), tuple(resources.items()), excluded)
        if key not in self._common:
            self._common[key] = spec_of(instance, excluded)
        return self._common[key]

    def _group(self, name: str | None) -> ServerGroupRequest | None:
        """Return the request for a server group; None if the group does not exist."""
        if not name:
            return None
        if name not in self._groups:
            self._groups[name] = (
                ServerGroupRequest(name) if self._states.group(name) is not None else None
            )
        return self._groups[name]


def may_step_aside(
    states: HostStates, others: Iterable[PlannedInstance] | None, names: Collection[str] = ()
) -> list[PlannedInstance]:
    """Return the instances that may move to make room, sorted.

    Instances of down or disabled hosts and of the hosts in ``names`` are left out, and so are
    instances that cannot move, instances with NUMA cells, and instances that share their host with
    an affinity group.
    """
    movable = []
    for instance in others or ():
        if (
            instance["host"] in names
            or why_unmovable(instance)
            or is_to_shut_down(instance)
            or "cells" in instance
        ):
            continue
        rows = states.where(instance["uuid"])
        if not rows or not (states.enabled[rows[0]] and states.up[rows[0]]):
            continue
        name = instance.get("server_group")
        group = states.group(name) if name else None
        if group is not None and group.policy == "affinity" and len(group.members) > 1:
            continue
        movable.append(instance)
    return sorted(movable, key=lambda each: (each["name"], each["uuid"]))


def packing_state_of(
    states: HostStates, policy: Policy, instances: Iterable[PlannedInstance]
) -> tuple[PackingState, list[int]]:
    """Make a PackingState with a separate item for each instance; return it and the items."""
    packing_state = PackingState(states, policy.requiring(NEEDED_FILTERS))
    builder = CandidateBuilder(states, ())
    found = sorted(instances, key=lambda each: (each["name"], each["uuid"]))
    return packing_state, packing_state.add(
        [(builder.candidate(each, None, ()),) for each in found]
    )
