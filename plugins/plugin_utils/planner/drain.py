# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan that empties one living host."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils import resource_classes, validation
from ansible_collections.drover.compute.plugins.plugin_utils.errors import PlanError
from ansible_collections.drover.compute.plugins.plugin_utils.planner import greedy, infeasibility, relocation_search
from ansible_collections.drover.compute.plugins.plugin_utils.planner.destinations import NEEDED_FILTERS, CandidateBuilder, may_step_aside
from ansible_collections.drover.compute.plugins.plugin_utils.planner.drain_solver import DrainSolver
from ansible_collections.drover.compute.plugins.plugin_utils.planner.migration_candidates import Unit, spec_of
from ansible_collections.drover.compute.plugins.plugin_utils.planner.movability import is_live, is_to_shut_down, why_unmovable
from ansible_collections.drover.compute.plugins.plugin_utils.planner.move_order import BANDWIDTH_MIB, move_seconds, plan_seconds, plan_waves
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.explanation import explain_failure
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.filtering import filter_hosts
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.host_states import HostStates

LIMITS = ("per_source", "per_destination", "total", "bandwidth_mib")
#: For so many instances without a place a way out is sought; the rest names what is short.
WAYS_OUT = 8


def plan_drain(fleet, instances, host, policy, limits=None, excluded=None, others=None, extra_moves=0, solver_seconds=0):
    """A destination for every instance of a host that can move, and why the others cannot.

    All movable instances are placed as one problem. First as the scheduler's host filters and weighers
    would, the largest first; where that leaves one without a place, by several orders and fits; then,
    if ``extra_moves`` allows it, with instances of other hosts stepping aside; then, if
    ``solver_seconds`` allows it and highspy is installed, by an exact model. The host itself, other
    cells (N9.2), and disabled or down hosts are never destinations. An instance counts
    at its source while it may be there. Members of an anti-affinity group are never together, not even
    for a moment. Members of an affinity group go to one host, one after the other; if one of them
    cannot move, they all stay; those on other hosts never step aside. What cannot move does not keep
    the rest from being planned. The same input gives the same plan (but for a solver that was
    stopped by its time limit on one machine and not on another).

    :param fleet: columns as the store's read_fleet returns them. A server group may have
        ``max_moving``, the most members that move at the same time. Column ``traits`` (list per node)
        is needed where instances have required_traits.
    :param instances: the host's instances as the store's read_host_instances returns them. Each may
        have: policy (never, cold, live, shutdown), priority (higher moves first, 0), dirty_mib (MiB
        per second), required_traits, resources ({class: amount}, beside or instead of vcpus, memory_mb
        and disk_gb).
    :param host: the host to empty, with all its compute nodes; or a list of hosts.
    :param policy: scheduler Policy.
    :param limits: None, or a dict with per_source, per_destination, total: most moves at once (>= 1);
        and bandwidth_mib: MiB per second of each migration, for the forecast.
    :param excluded: None, or a dict instance uuid -> nodes (names or provider uuids), a list or a dict node -> why in words, that it
        must not go to, because a move there has failed before.
    :param others: None, or the instances of all other hosts, as ``instances`` and with ``host``. Only
        with them can others step aside and can a plan prove that there is none.
    :param extra_moves: most moves of instances of other hosts.
    :param solver_seconds: how long the exact model may be worked on.
    :returns: a plain dict: host; status: ok (every instance is moved or shut down), infeasible (proven,
        see proof) or partial; method (words); moves [{uuid, name, state, live, from_host, from_node,
        host, node, provider, vcpus, memory_mb, disk_gb, server_group, extra, bandwidth_mib, copies_mib,
        copies_disk_mib, seconds, converges, wave, order, stage, after, for_host, allocations}] in the order to
        start them, allocations ({provider uuid: {class: amount}}) only of a move whose destination may choose
        between providers, extra telling those of other hosts, copies_mib only the memory of live moves until
        move_order.count_disks() has added the disks, for_host then the host that they make room for, after and
        stage as planner.move_order says;
        extra_moves (number);
        shutdowns [{uuid, name, state, vcpus, memory_mb, disk_gb}] in the order to do them; unmovable
        [{uuid, name, state, vcpus, memory_mb, disk_gb, reason, nearest, way_out}]; proof (words or
        None); hint (None, or a sentence on what may still find a plan, such as a package that is missing);
        waves (number); seconds (expected, from memory, dirty rate and bandwidth).
    :raises PlanError: the store does not know the host, or a limit is no number >= 1.
    """
    bandwidth = _checked(limits)["bandwidth_mib"]
    states = HostStates(fleet)
    names = [host] if isinstance(host, str) else sorted(set(host))
    sources = _sources(states, names)
    policy = policy.requiring(NEEDED_FILTERS)
    builder = CandidateBuilder(states, sources)
    excluded = excluded or {}
    unmovable, shutdowns, candidates = [], [], []
    for instance in sorted(instances, key=lambda each: (each["name"], each["uuid"])):
        if is_to_shut_down(instance):
            shutdowns.append(instance)
            continue
        reason = why_unmovable(instance)
        if reason is None:
            candidates.append(builder.candidate(instance, sources, excluded.get(instance["uuid"], ())))
        else:
            unmovable.append(_unmovable(instance, reason))
    units = _units(states, candidates, instances, unmovable)

    def aside():
        found = may_step_aside(states, others, names)
        return [builder.candidate(each, None, excluded.get(each["uuid"], ())) for each in found]

    solver = DrainSolver(states, policy, units, aside, others is not None)
    solution = solver.solve(extra_moves, solver_seconds)
    for number, unit in enumerate(solution.stuck):
        unmovable.extend(_stuck(solver, unit, solution, number < WAYS_OUT, excluded))
    taken = _taken(states, solution)
    moves = [_move(states, candidate, index, bandwidth, True, taken) for candidate, index in solution.steps]
    leaving = [_move(states, candidate, index, bandwidth, False, taken) for candidate, index in solution.places]
    priority = {candidate.spec.key: -_priority(candidate.instance) for candidate, _index in solution.places}
    moves += sorted(leaving, key=lambda move: priority[move["uuid"]])
    waves = plan_waves(moves, fleet, limits)
    named = host if isinstance(host, str) else ", ".join(names)
    moves = [{**move, "for_host": named if move["extra"] else None} for move in moves]
    unmovable.sort(key=lambda each: (each["name"], each["uuid"]))
    shutdowns.sort(key=lambda each: (_priority(each), each["name"], each["uuid"]))
    # A proof speaks of room alone, and what was refused elsewhere has nothing to do with that.
    proven = solution.stuck and (solution.impossible or solution.certificate) and not excluded
    return {
        "host": named,
        "status": "infeasible" if proven else "partial" if unmovable else "ok",
        "method": solution.method,
        "moves": moves,
        "extra_moves": len(solution.steps),
        "shutdowns": [_identity(each) for each in shutdowns],
        "unmovable": unmovable,
        "proof": _proof(solution) if proven else None,
        "hint": None if proven else solution.hint,
        "waves": waves,
        "seconds": plan_seconds(moves),
    }


def _count(number, word):
    return f"{number} {word}" + ("" if number == 1 else "s")


def _checked(limits):
    limits = limits or {}
    validation.check_keys("A drain", limits, LIMITS, "limit", PlanError)
    for key, value in limits.items():
        if value is not None:
            validation.check_whole(f"The limit '{key}' of a drain", value, least=1, refuse=PlanError)
    return {key: limits.get(key) for key in LIMITS}


def _sources(states, names):
    rows = [index for index in range(states.size) if states.host[index] in names]
    missing = sorted(set(names) - {states.host[index] for index in rows})
    if missing or not rows:
        known = ", ".join(sorted(set(states.host))) or "none at all"
        raise PlanError(f"The store has no compute node of host '{(missing or ['none'])[0]}'; it has hosts: {known}.")
    return rows


def _priority(instance):
    return int(instance.get("priority") or 0)


def _units(states, candidates, instances, unmovable):
    """CandidateBuilder by what must go together; affinity groups with an unmovable member become unmovable."""
    held = {}
    for each in unmovable:
        instance = next(found for found in instances if found["uuid"] == each["uuid"])
        group = instance.get("server_group")
        if group:
            held.setdefault(group, each["name"])
    units, together = [], {}
    for candidate in candidates:
        if not greedy.is_affinity(states, candidate):
            units.append(Unit((candidate,)))
            continue
        group = candidate.spec.server_group.name
        if group in held:
            reason = f"its server group {group} (affinity) stays together, and {held[group]} cannot move"
            unmovable.append(_unmovable(candidate.instance, reason))
        else:
            together.setdefault(group, []).append(candidate)
    return units + [Unit(tuple(group)) for group in together.values()]


def _stuck(solver, unit, solution, seek, excluded):
    """Why the members of a unit have no place: [unmovable]."""
    states, policy = solver.states, solver.policy
    refused = next((each for each in unit.candidates if _are_all_refused(states, policy, each, excluded)), None)
    if refused is not None:
        return _refused(unit, refused, states, excluded[refused.spec.key])
    candidate = max(unit.candidates, key=lambda each: each.spec.resources.get("MEMORY_MB", 0))
    left = greedy.leave(states, unit) if greedy.is_affinity(states, candidate) else []
    alone = len(filter_hosts(states, candidate.spec, policy, candidate.limits)[0]) > 0
    if not alone:
        why = f"fits on no other host: {explain_failure(states, candidate.spec, policy, candidate.limits).why}"
    else:
        done = _acted(states, solution)
        if len(filter_hosts(states, candidate.spec, policy, candidate.limits)[0]):
            why = "no host has room for it and the rest of its server group together"
        else:
            failure = explain_failure(states, candidate.spec, policy, candidate.limits)
            why = f"fits on no other host once the others have their places: {failure.why}"
        for undo, row, spec in reversed(done):
            undo(row, spec)
    greedy.come_back(states, left)
    near, way_out = _way_out(solver, unit, solution, seek)
    given = excluded.get(candidate.spec.key)
    if given:
        why += f"; {_reasons(states, given)}"
        # Whether a larger host would do nobody knows: these were not looked at for room.
        way_out = way_out if near is not None else None
    found = []
    for each in unit.candidates:
        reason = why
        if each is not candidate:
            group = each.spec.server_group.name
            reason = f"its server group {group} (affinity) stays together, and {candidate.spec.name} cannot move"
        found.append(_unmovable(each.instance, reason, near, way_out))
    return found


def _are_all_refused(states, policy, candidate, excluded):
    """Whether an instance could go somewhere, were it not for the hosts that refused it."""
    given = excluded.get(candidate.spec.key)
    if not given:
        return False
    rows = filter_hosts(states, spec_of(candidate.instance, states, ()), policy, candidate.limits)[0]
    return len(rows) > 0 and all(states.uuid[row] in given or states.node[row] in given for row in rows)


def _reasons(states, given):
    """What destinations said, once for all that said the same."""
    said = {}
    for provider, words in given.items() if isinstance(given, dict) else dict.fromkeys(given, "a move there failed").items():
        label = next((states.label(row) for row in range(states.size) if states.uuid[row] == provider), provider)
        said.setdefault(words.rstrip(". "), []).append(label)
    return "; ".join(f"{', '.join(sorted(labels))}: {words}" for words, labels in said.items())


def _refused(unit, candidate, states, given):
    """The members of a unit where each host with room refused one of them: [unmovable]."""
    found = []
    for each in unit.candidates:
        reason = f"no host that has room takes it: {_reasons(states, given)}"
        if each is not candidate:
            reason = f"its server group {each.spec.server_group.name} (affinity) stays together, and {candidate.spec.name} cannot move"
        found.append(_unmovable(each.instance, reason, None, "mend what these hosts say, or shut the instance down"))
    return found


def _acted(states, solution):
    """Carry a solution out in memory; returns what undoes it."""
    done = []
    for candidate, row in solution.steps:
        states.consume(row, candidate.spec)
        states.release(candidate.source, candidate.spec)
        done += [(states.release, row, candidate.spec), (states.consume, candidate.source, candidate.spec)]
    for candidate, row in solution.places:
        states.consume(row, candidate.spec)
        done.append((states.release, row, candidate.spec))
    return done


def _way_out(solver, unit, solution, seek):
    """(the nearest host once everything planned is done, the cheapest way out in words)."""
    packing_state = solver.packing_state
    item = solver.item_of(unit)
    by_key = {candidates[0].spec.key: number for number, candidates in enumerate(packing_state.candidates)}
    steps = [(by_key[candidate.spec.key], candidate.source, row) for candidate, row in solution.steps]
    for each, _origin, row in steps:
        packing_state.move(each, row)
    places = [(by_key[candidate.spec.key], row) for candidate, row in solution.places if candidate.spec.key in by_key]
    for each, row in places:
        packing_state.put(each, row)
    near = infeasibility.nearest(packing_state, item)
    way_out = None
    if item in [solver.item_of(each) for each in solution.impossible]:
        way_out = "a host that is large enough, or a smaller instance"
    elif seek and solver.others and not solution.certificate:
        moved = {each for each, _origin, _row in steps}
        search = relocation_search.Search(packing_state, [item], [each for each in solver.others if each not in moved], 8)
        search.run([item], relocation_search.packing.best_fit, False)
        if not search.stuck and search.steps:
            names = ", ".join(f"{packing_state.label[each][0]} to {solver.states.label(to)}" for each, _origin, to in search.steps)
            way_out = f"allow {_count(len(search.steps), 'more move')} of others ({names})"
        search.undo()
    if way_out is None and near is not None:
        way_out = f"{infeasibility.nearest_text(near)}; free that there, or shut the instance down"
    for each, row in places:
        packing_state.take(each, row)
    for each, origin, _row in reversed(steps):
        packing_state.move(each, origin)
    return near, way_out


def _proof(solution):
    if solution.impossible:
        names = ", ".join(unit.name for unit in solution.impossible)
        return f"no host that {names} may go to could hold it, even if all that can move had left it"
    return solution.certificate


def _sizes(instance):
    return resource_classes.to_sizes(resource_classes.to_resources(instance))


def _identity(instance):
    return {
        "uuid": instance["uuid"],
        "name": instance["name"],
        "state": instance.get("state"),
        **_sizes(instance),
    }


def _unmovable(instance, reason, nearest=None, way_out=None):
    return {**_identity(instance), "reason": reason, "nearest": nearest, "way_out": way_out}


def _taken(states, solution):
    """What each instance takes at its destination, of those whose node may choose: {uuid: {provider uuid: {class: amount}}}."""
    if not states.choosing:
        return {}
    done = _acted(states, solution)
    moves = [*solution.steps, *solution.places]
    found = {
        candidate.spec.key: states.holding(row, candidate.spec)
        for candidate, row in moves
        if states.choosing.intersection(candidate.spec.resources)
    }
    for undo, row, spec in reversed(done):
        undo(row, spec)
    return found


def _move(states, candidate, index, bandwidth, extra, taken):
    instance = candidate.instance
    bandwidth = (instance.get("migration") or {}).get("bandwidth_mib") or bandwidth
    memory_mb = int(instance.get("memory_mb") or 0)
    seconds, converges = move_seconds(memory_mb, is_live(instance), bandwidth, instance.get("dirty_mib"))
    return {
        "uuid": instance["uuid"],
        "name": instance["name"],
        "state": instance["state"],
        "live": is_live(instance),
        "from_host": states.host[candidate.source],
        "from_node": states.node[candidate.source],
        "host": states.host[index],
        "node": states.node[index],
        "provider": states.uuid[index],
        **_sizes(instance),
        "server_group": instance.get("server_group"),
        "extra": extra,
        "bandwidth_mib": bandwidth or BANDWIDTH_MIB,
        "copies_disk_mib": 0,
        "copies_mib": memory_mb if is_live(instance) else 0,
        "seconds": seconds,
        "converges": converges,
        **({"allocations": taken[candidate.spec.key]} if candidate.spec.key in taken else {}),
    }
