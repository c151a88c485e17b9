# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is true of all plans: where an instance may go at all, and who may be moved."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.arrays import np
from ansible_collections.drover.compute.plugins.plugin_utils.planner.migration_candidates import MigrationCandidate, spec_of
from ansible_collections.drover.compute.plugins.plugin_utils.planner.movability import is_to_shut_down, why_unmovable
from ansible_collections.drover.compute.plugins.plugin_utils.planner.packing_state import PackingState

#: A move never goes where these say no, whatever the policy leaves out: the claim would refuse it,
#: or the instance would land on a host that is being emptied itself.
NEEDED_FILTERS = (
    "ComputeFilter",
    "CoreFilter",
    "RamFilter",
    "DiskFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
)


class CandidateBuilder:
    """Where instances may go, by what is true of their source: limits that many of them share."""

    def __init__(self, states, sources):
        self._states = states
        self._open = ~np.isin(states.host_of, states.host_of[list(sources)])
        self._limits = {}

    def candidate(self, instance, sources, excluded):
        """The MigrationCandidate of an instance; ``sources``: the rows it may be on, None for any."""
        states = self._states
        spec = spec_of(instance, states, excluded)
        if instance.get("allocations"):
            states.hold(spec.key, instance["allocations"])
        held = [index for index in states.where(spec.key) if sources is None or index in sources]
        if not held:
            rows = sources if sources is not None else [i for i in range(states.size) if states.host[i] == instance["host"]]
            held = [index for index in rows if states.node[index] == instance.get("node")] or list(rows)
        source = held[0]
        traits = tuple(sorted(instance.get("required_traits") or ()))
        key = (int(states.cell_of[source]), traits)
        if key not in self._limits:
            limits = [
                ("drained host", self._open, "the host to be emptied"),
                ("same cell", states.cell_of == states.cell_of[source], "in another cell"),
            ]
            if traits:
                have = states.categorical("traits").each(lambda found: set(traits) <= set(found or ()))
                limits.append(("required traits", have, f"without {', '.join(traits)}"))
            self._limits[key] = tuple(limits)
        return MigrationCandidate(instance, spec, source, self._limits[key], key)


def may_step_aside(states, others, names=()):
    """Of the instances those that may move for the sake of others, sorted.

    Not those of down or disabled hosts, of the hosts in ``names``, whose policy or state keeps them, or
    who share their host with an affinity group.
    """
    found = []
    for each in others or ():
        if each["host"] in names or why_unmovable(each) or is_to_shut_down(each):
            continue
        rows = states.where(each["uuid"])
        if not rows or not (states.enabled[rows[0]] and states.up[rows[0]]):
            continue
        group = states.group(each["server_group"]) if each.get("server_group") else None
        if group is not None and group.policy == "affinity" and len(group.members) > 1:
            continue
        found.append(each)
    return sorted(found, key=lambda each: (each["name"], each["uuid"]))


def packing_state_of(states, policy, instances):
    """(PackingState, [item]) with every instance given as an item of its own."""
    packing_state = PackingState(states, policy.requiring(NEEDED_FILTERS))
    builder = CandidateBuilder(states, ())
    found = sorted(instances, key=lambda each: (each["name"], each["uuid"]))
    return packing_state, packing_state.add([(builder.candidate(each, None, ()),) for each in found])
