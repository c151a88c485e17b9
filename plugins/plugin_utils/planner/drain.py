# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan that empties one living host."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.planner import fitting
from ansible_collections.drover.compute.plugins.plugin_utils.planner.errors import PlanError
from ansible_collections.drover.compute.plugins.plugin_utils.planner.movable import is_live, why_unmovable
from ansible_collections.drover.compute.plugins.plugin_utils.planner.units import Mover, Unit, spec_of
from ansible_collections.drover.compute.plugins.plugin_utils.planner.waves import assign_waves
from ansible_collections.drover.compute.plugins.plugin_utils.report.columns import align
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.diagnosis import explain_failure
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.host_states import HostStates
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.narrowing import narrow

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
LIMITS = ("per_source", "per_destination")


def plan_drain(fleet, instances, host, policy, limits=None, excluded=None):
    """A destination for every instance of a host that can move, and why the others cannot.

    All movable instances are one batch, largest first, each placed by the scheduler's host filters
    and weighers on states in which the ones before are booked. The host itself, other cells
    (NOVA_SEMANTICS 9.2), and disabled or down hosts are never destinations. An instance counts at
    its source while it may be there. Members of an anti-affinity group are never together, not even
    for a moment. Members of an affinity group go to one host, one after the other; if one of them
    cannot move, they all stay. What cannot move does not keep the rest from being planned. The same
    input gives the same plan.

    :param fleet: columns as the store's read_fleet returns them.
    :param instances: the host's instances as the store's read_host_instances returns them; ``policy``
        in one of them may be ``never``.
    :param host: the host to empty, with all its compute nodes.
    :param policy: scheduler Policy.
    :param limits: None, or a dict with per_source and per_destination: most moves at once (>= 1).
    :param excluded: None, or a dict instance uuid -> list of nodes (names or provider uuids) that it
        must not go to, because a move there has failed before.
    :returns: a plain dict: host; moves [{uuid, name, state, live, from_host, from_node, host, node,
        provider, vcpus, memory_mb, disk_gb, server_group, wave, order}] in the order to start them;
        unmovable [{uuid, name, state, vcpus, memory_mb, disk_gb, reason}]; waves (number); lines (the
        plan for people).
    :raises PlanError: the store does not know the host, or a limit is no number >= 1.
    """
    most = _checked(limits)
    states = HostStates(fleet)
    sources = [index for index in range(states.size) if states.host[index] == host]
    if not sources:
        known = ", ".join(sorted(set(states.host))) or "none at all"
        raise PlanError(f"The store has no compute node of host '{host}'; it has hosts: {known}.")
    policy = policy.requiring(NEEDED_FILTERS)
    excluded = excluded or {}
    unmovable, movers = [], []
    for instance in sorted(instances, key=lambda each: (each["name"], each["uuid"])):
        reason = why_unmovable(instance)
        if reason is None:
            movers.append(_mover(states, instance, sources, excluded.get(instance["uuid"], ())))
        else:
            unmovable.append(_unmovable(instance, reason))
    units = _units(states, movers, instances, unmovable)
    attempt = fitting.best_attempt(states, units, policy)
    for unit in attempt.stuck:
        unmovable.extend(_stuck(states, unit, policy, attempt))
    moves = [_move(states, mover, index) for mover, index in attempt.places]
    waves = assign_waves(moves, **most)
    unmovable.sort(key=lambda each: (each["name"], each["uuid"]))
    plan = {"host": host, "moves": moves, "unmovable": unmovable, "waves": waves}
    plan["lines"] = plan_lines(plan)
    return plan


def plan_lines(plan):
    """A plan for people.

    :param plan: what plan_drain returns, ``lines`` not needed.
    :returns: a list of lines.
    """
    moves, unmovable = plan["moves"], plan["unmovable"]
    if not moves and not unmovable:
        return [f"{plan['host']} holds no instances; there is nothing to move."]
    head = f"Drain of {plan['host']}: {_count(len(moves), 'instance')} to move"
    if moves:
        head += f" in {_count(plan['waves'], 'wave')}"
    lines = [head + (f", {len(unmovable)} cannot move." if unmovable else ".")]
    if moves:
        rows = [
            [
                move["wave"],
                move["name"],
                move["state"],
                move["vcpus"],
                move["memory_mb"],
                move["disk_gb"],
                _place(move["from_host"], move["from_node"]),
                "->",
                _place(move["host"], move["node"]),
                "live" if move["live"] else "cold",
            ]
            for move in moves
        ]
        headings = ["WAVE", "INSTANCE", "STATE", "VCPU", "MiB", "GiB", "FROM", "", "TO", "HOW"]
        lines.extend(align(headings, rows, right=("WAVE", "VCPU", "MiB", "GiB"), indent="  "))
    if unmovable:
        lines.append("Cannot move:")
        lines.extend(f"  {each['name']} ({each['state']}): {each['reason']}" for each in unmovable)
    return lines


def _count(number, word):
    return f"{number} {word}" + ("" if number == 1 else "s")


def _place(host, node):
    return host if host == node else f"{host}/{node}"


def _checked(limits):
    limits = limits or {}
    unknown = sorted(key for key in limits if key not in LIMITS)
    if unknown:
        raise PlanError(f"Unknown limit '{unknown[0]}' of a drain; known: {', '.join(LIMITS)}.")
    for key, value in limits.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise PlanError(f"The limit '{key}' of a drain must be a whole number, 1 or more, not {value!r}.")
    return {key: limits.get(key) for key in LIMITS}


def _mover(states, instance, sources, excluded):
    spec = spec_of(instance, states, excluded)
    held = [index for index in states.where(spec.key) if index in sources]
    named = [index for index in sources if states.node[index] == instance.get("node")]
    source = (held or named or sources)[0]
    return Mover(
        instance,
        spec,
        source,
        (
            ("drained host", states.host_of != states.host_of[source], "the host to be emptied"),
            ("same cell", states.cell_of == states.cell_of[source], "in another cell"),
        ),
    )


def _units(states, movers, instances, unmovable):
    """Movers by what must go together; affinity groups with an unmovable member become unmovable."""
    held = {}
    for each in unmovable:
        instance = next(found for found in instances if found["uuid"] == each["uuid"])
        group = instance.get("server_group")
        if group:
            held.setdefault(group, each["name"])
    units, together = [], {}
    for mover in movers:
        if not fitting.is_affinity(states, mover):
            units.append(Unit((mover,)))
            continue
        group = mover.spec.server_group.name
        if group in held:
            reason = f"its server group {group} (affinity) stays together, and {held[group]} cannot move"
            unmovable.append(_unmovable(mover.instance, reason))
        else:
            together.setdefault(group, []).append(mover)
    return units + [Unit(tuple(group)) for group in together.values()]


def _stuck(states, unit, policy, attempt):
    """Why the members of a unit have no place: [unmovable]."""
    mover = max(unit.movers, key=lambda each: each.spec.resources.get("MEMORY_MB", 0))
    left = fitting.leave(states, unit) if fitting.is_affinity(states, mover) else []
    alone = len(narrow(states, mover.spec, policy, mover.limits)[0]) > 0
    if not alone:
        why = f"fits on no other host: {explain_failure(states, mover.spec, policy, mover.limits).why}"
    else:
        fitting.apply(states, attempt.places)
        if len(narrow(states, mover.spec, policy, mover.limits)[0]):
            why = "no host has room for it and the rest of its server group together"
        else:
            failure = explain_failure(states, mover.spec, policy, mover.limits)
            why = f"fits on no other host once the others have their places: {failure.why}"
        fitting.unapply(states, attempt.places)
    fitting.come_back(states, left)
    found = []
    for each in unit.movers:
        reason = why
        if each is not mover:
            group = each.spec.server_group.name
            reason = f"its server group {group} (affinity) stays together, and {mover.spec.name} cannot move"
        found.append(_unmovable(each.instance, reason))
    return found


def _sizes(instance):
    return {key: int(instance.get(key) or 0) for key in ("vcpus", "memory_mb", "disk_gb")}


def _unmovable(instance, reason):
    return {
        "uuid": instance["uuid"],
        "name": instance["name"],
        "state": instance.get("state"),
        **_sizes(instance),
        "reason": reason,
    }


def _move(states, mover, index):
    instance = mover.instance
    return {
        "uuid": instance["uuid"],
        "name": instance["name"],
        "state": instance["state"],
        "live": is_live(instance),
        "from_host": states.host[mover.source],
        "from_node": states.node[mover.source],
        "host": states.host[index],
        "node": states.node[index],
        "provider": states.uuid[index],
        **_sizes(instance),
        "server_group": instance.get("server_group"),
    }
