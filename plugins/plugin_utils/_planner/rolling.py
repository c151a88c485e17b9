# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rolling maintenance: the fewest batches of hosts that can be down together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .._common.validation import unknown_host
from .._records.hosts import FleetColumns
from .._records.instances import PlannedInstance
from .._records.plans import RollingPlan
from .._scheduler.host_states import HostStates
from .._scheduler.policy import Policy
from .destinations import packing_state_of
from .maintenance_batches import Batch, MaintenanceFleet
from .movability import is_to_shut_down, why_unmovable

#: The maximum of hosts that are distributed without success in the search for fewer batches.
IN_VAIN = 5000


def plan_rolling(
    fleet: FleetColumns,
    instances: Iterable[PlannedInstance],
    policy: Policy,
    hosts: Iterable[str] | None = None,
    spare_hosts: int = 0,
    batch_size: int | None = None,
    back: bool = True,
) -> RollingPlan:
    """Plan few batches of hosts that can be down together.

    In each batch every instance of its hosts has a destination on the hosts that stay (capacity,
    host filters, server groups). With ``spare_hosts`` the fleet must also survive the loss of that
    many of the fullest hosts that stay. A host with an instance that cannot move is in no batch,
    unless the instance is shut down by its move policy. Members of affinity groups are placed one
    by one here, so the drain of a host may still refuse a batch.

    :param instances: all instances.
    :param hosts: names; None for all.
    :param spare_hosts: the number of further hosts that may fail during the maintenance.
    :param batch_size: the maximum of hosts in a batch, None for no limit.
    :param back: whether instances return before the next batch, so that each batch meets the fleet
        as it is now.
    :raises PlanError: a host is unknown.
    """
    states = HostStates(fleet)
    names = sorted(set(states.host))
    chosen = names if hosts is None else sorted(set(hosts))
    unknown = sorted(set(chosen) - set(names))
    if unknown:
        raise unknown_host(unknown[0], names)
    moving: list[PlannedInstance] = []
    blocked: dict[str, str] = {}
    for instance in sorted(instances, key=lambda found: (found["name"], found["uuid"])):
        if is_to_shut_down(instance):
            continue
        reason = why_unmovable(instance)
        if reason is None:
            moving.append(instance)
        elif instance["host"] in chosen:
            blocked.setdefault(instance["host"], f"{instance['name']} cannot move: {reason}")
    packing_state, items = packing_state_of(states, policy, moving)
    maintained = MaintenanceFleet(packing_state, items, spare_hosts)
    free = [name for name in chosen if name not in blocked]
    alone = Batch(maintained)
    for name in free:
        fits = maintained.foresee(name)
        if fits is None:
            fits = alone.fits(name) or maintained.fits([name])
        if not fits:
            blocked[name] = maintained.why or "its instances fit on no other hosts"
    free = [name for name in free if name not in blocked]
    bound = maintained.bound(free) if back else min(1, len(free))
    if batch_size:
        bound = max(bound, -(-len(free) // batch_size))
    batches = _grow(maintained, free, batch_size, back)
    if back:
        batches = _fewer(maintained, free, batches, max(bound, 1), batch_size)
    return {
        "batches": batches,
        "blocked": [{"host": name, "reason": blocked[name]} for name in sorted(blocked)],
        "bound": bound,
    }


def _grow(
    fleet: MaintenanceFleet, free: Iterable[str], batch_size: int | None, back: bool
) -> list[list[str]]:
    """Form batches one after the other, each as large as possible, from the fullest hosts on."""
    remaining = sorted(free, key=lambda name: (-fleet.load(name), name))
    batches = []
    while remaining:
        growing = Batch(fleet)
        for name in remaining:
            if batch_size is None or len(growing.names) < batch_size:
                growing.add(name)
        batch = growing.names
        if not batch:
            # This happens only if instances stay on their destinations: the instances of earlier
            # batches have filled the fleet.
            batch = [remaining[0]]
            batches.append(batch)
            remaining = remaining[1:]
            continue
        if not back:
            fleet.settle(batch, growing.placed)
        batches.append(sorted(batch))
        taken = set(batch)
        remaining = [name for name in remaining if name not in taken]
    return batches


def _fewer(
    fleet: MaintenanceFleet,
    free: Sequence[str],
    batches: list[list[str]],
    bound: int,
    batch_size: int | None,
) -> list[list[str]]:
    """Return fewer batches than these, if the hosts can be distributed over them, no fewer than the
    bound.
    """
    vain = 0
    for count in range(len(batches) - 1, bound - 1, -1):
        found = _even(fleet, free, count, batch_size)
        if found is not None:
            batches = found
            continue
        vain += len(free)
        if vain > IN_VAIN:
            break
    return batches


def _even(
    fleet: MaintenanceFleet, free: Sequence[str], count: int, batch_size: int | None
) -> list[list[str]] | None:
    """Distribute the hosts over a number of batches, the fullest first, each to the batch with the
    least load; None if one fits in none.
    """
    batches = [Batch(fleet) for _number in range(count)]
    loads = [0.0] * count
    room = {name: fleet.load(name) + _own_share(fleet, name) for name in free}
    for name in sorted(free, key=lambda each: (-room[each], each)):
        for number in sorted(range(count), key=lambda each: (loads[each], each)):
            batch = batches[number]
            if (batch_size is None or len(batch.names) < batch_size) and batch.add(name):
                loads[number] += room[name]
                break
        else:
            return None
    return [sorted(batch.names) for batch in batches if batch.names]


def _own_share(fleet: MaintenanceFleet, name: str) -> float:
    return float(
        (fleet.packing_state.free[fleet.rows[name]].clip(min=0).sum(axis=0) / fleet.free).max()
    )
