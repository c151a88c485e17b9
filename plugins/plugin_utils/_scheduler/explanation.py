# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reasons why no host was valid: counts, nearest misses, and a sentence for people."""

from __future__ import annotations

from collections.abc import Sequence

from .._common import resource_classes
from .._common.arrays import np
from .._common.errors import node_labels, some
from .._records.claims import FailureExplanation, NearMiss, Stage
from .capacity import ClassFilter, number
from .components import HostFilter
from .errors import NoValidHost
from .filtering import Filtering, Limit, Mask, ask_filter
from .host_states import HostStates
from .policy import Policy
from .prefilters import traits_asked
from .request_spec import RequestSpec

NEAREST = 3
SHOWN = 2


def explain_failure(
    states: HostStates, spec: RequestSpec, policy: Policy, limits: Sequence[Limit] = ()
) -> NoValidHost:
    """Return a NoValidHost with all known reasons; the caller raises it."""
    head = f"No valid host for {spec.name} ({spec.size})"
    if not states.size:
        return NoValidHost(
            f"{head}: the store has no compute node; run the playbook drover.compute.discover"
            " first.",
            {"hosts": 0, "filters": [], "nearest": [], "never": False},
        )
    filtering = Filtering(states, spec, policy, limits)
    stages = filtering.stages()[1]
    filters = filtering.filters
    all_limits = filtering.before + filtering.room
    # The statement that all classes do not fit together says less than the class that is short.
    nearest = _nearest(
        states, spec, filters, all_limits if states.provider_capacity is None else filtering.before
    )
    never = _never(states, spec)
    explanation: FailureExplanation = {
        "hosts": states.size,
        "filters": stages,
        "nearest": nearest,
        "never": never is not None,
    }
    counts = _counts(states, spec, policy, filters, all_limits, stages, nearest)
    sentences = [f"of {states.size} host{'s'[: states.size > 1]}, {counts}"]
    if nearest:
        label = node_labels((miss["host"], miss["node"]) for miss in nearest)
        sentences.append(
            "nearest misses: "
            + ", ".join(
                f"{label(miss['host'], miss['node'])}"
                f" ({'; '.join(lack['text'] for lack in miss['lacks'])})"
                for miss in nearest
            )
        )
    if never is not None:
        sentences.append(never)
    why = "; ".join(sentences)
    return NoValidHost(f"{head}: {why}.", explanation, why)


def _counts(
    states: HostStates,
    spec: RequestSpec,
    policy: Policy,
    filters: Sequence[HostFilter],
    limits: Sequence[Mask],
    stages: Sequence[Stage],
    nearest: Sequence[NearMiss],
) -> str:
    """Return the counts of rejections, such as ``ComputeFilter rejected 1 (kvm1: disabled),
    RamFilter rejected 2``.
    """
    by_name = {each.name: each for each in filters}
    masks = dict(limits)
    near = {(miss["host"], miss["node"]) for miss in nearest}
    alive = np.ones(states.size, dtype=bool)
    parts = []
    for stage in stages:
        name = stage["name"]
        keep = masks[name] if name in masks else ask_filter(by_name[name], states, spec)
        fell = np.flatnonzero(alive & ~keep)
        alive &= keep
        if not stage["rejected"]:
            continue
        text = f"{resource_classes.words_of(name)} rejected {stage['rejected']}"
        traits = traits_asked(name, spec, policy.options) if name not in by_name else None
        if traits:
            text += f" (asked {traits})"
        if name in by_name:
            shown = [
                i
                for i in fell.tolist()[: SHOWN * 2]
                if (states.host[i], states.node[i]) not in near
            ][:SHOWN]
            examples = [
                f"{states.label(i)}: {by_name[name].rejection_reason(states, spec, i)}"
                for i in shown
            ]
            # For many hosts the count says more than the names of two of them.
            if isinstance(by_name[name], ClassFilter) and not keep.any():
                text += f" (asked {spec.resources[name]}, no host has that free)"
            elif examples and len(fell) <= SHOWN * 2:
                text += f" ({'; '.join(examples)})"
        elif len(fell) <= SHOWN:
            text += f" ({', '.join(states.label(i) for i in fell.tolist())})"
        hosts_named = {"host": [spec.host], "force_hosts": spec.force_hosts}.get(name)
        if hosts_named and not stage["after"] and not keep.any():
            hosts = some(sorted(set(states.host)))
            text += (
                f", for there is no host {' or '.join(map(str, hosts_named))}: there are {hosts}"
            )
        parts.append(text)
    return ", ".join(parts)


def _nearest(
    states: HostStates, spec: RequestSpec, filters: Sequence[HostFilter], limits: Sequence[Mask]
) -> list[NearMiss]:
    """Return the hosts that no limit excludes, by the number of host filters that reject them, then
    by the missing amounts.
    """
    alive = np.ones(states.size, dtype=bool)
    for _name, keep in limits:
        alive &= keep
    failed = np.zeros(states.size, dtype=np.int64)
    rejects = []
    for host_filter in filters:
        falls = ~ask_filter(host_filter, states, spec)
        failed += falls
        rejects.append((host_filter, falls))
    # In a large fleet only the hosts with the fewest rejections are examined closely.
    candidates = np.flatnonzero(alive & (failed > 0))
    if not len(candidates):
        return []
    candidates = candidates[np.argsort(failed[candidates], kind="stable")][:256]
    fewest = int(failed[candidates[0]])
    ranked = []
    for index in candidates.tolist():
        lacking = [each for each, falls in rejects if falls[index]]
        far = sum(each.distance(states, spec, index) for each in lacking)
        ranked.append((int(failed[index]) - fewest, far, index, lacking))
    ranked.sort(key=lambda row: row[:3])
    return [
        {
            "host": states.host[index],
            "node": states.node[index],
            "lacks": [
                {"filter": each.name, "text": each.rejection_reason(states, spec, index)}
                for each in lacking
            ],
        }
        for _count, _far, index, lacking in ranked[:NEAREST]
    ]


def _never(states: HostStates, spec: RequestSpec) -> str | None:
    """Return a clause if no host could hold the request even if it were empty, otherwise None."""
    possible = np.ones(states.size, dtype=bool)
    covered = {
        rc: amount
        for rc, amount in spec.resources.items()
        if states.provider_capacity is None or not states.provider_capacity.decides(rc, spec)
    }
    for rc, amount in covered.items():
        resource = states.resources.get(rc)
        possible &= (
            np.zeros(states.size, dtype=bool) if resource is None else resource.fits_empty(amount)
        )
    if possible.any():
        return None
    room = {
        rc: np.minimum(column.capacity, column.max_unit) for rc, column in states.resources.items()
    }
    # The comparison is with the host that is nearest to holding the request.
    share = np.full(states.size, np.inf)
    for rc, amount in covered.items():
        if rc in room:
            share = np.minimum(share, room[rc] / amount)
    index = int(np.argmax(share))
    sizes = ", ".join(
        f"{number(room[rc][index] // 1)} {unit}"
        for rc, unit in resource_classes.UNITS.items()
        if rc in room
    )
    return (
        f"no host could ever hold it: the biggest for it, {states.label(index)}, has {sizes} when"
        " it is empty"
    )
