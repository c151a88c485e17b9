# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rolling maintenance: the fewest batches of hosts that can be down together."""

from __future__ import annotations

import itertools

from ansible_collections.drover.compute.plugins.plugin_utils.arrays import np
from ansible_collections.drover.compute.plugins.plugin_utils.errors import PlanError
from ansible_collections.drover.compute.plugins.plugin_utils.planner import packing
from ansible_collections.drover.compute.plugins.plugin_utils.planner.destinations import packing_state_of
from ansible_collections.drover.compute.plugins.plugin_utils.planner.movability import is_to_shut_down, why_unmovable
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.host_states import HostStates

#: In fleets of more nodes than this a batch keeps the places it has found when another host joins it.
LARGE = 60


def plan_rolling(fleet, instances, policy, hosts=None, spare_hosts=0, batch_size=None, back=True):
    """Batches of hosts, each of which the hosts that stay can hold the instances of.

    A batch is only formed when a place for every instance of its hosts has been found (room, host
    filters, server groups). With ``spare_hosts`` the fleet must also survive the loss of that many of
    the fullest hosts that stay while the batch is down. Instances that cannot move keep their host
    out of every batch, unless their policy is to be shut down. Affinity groups are treated one
    instance at a time: a batch that fits may still be refused by the drain of a host.

    :param fleet: columns as the store's read_fleet returns them.
    :param instances: all instances as the store gives them, with host.
    :param policy: scheduler Policy.
    :param hosts: names of the hosts to be worked on; None for all.
    :param spare_hosts: how many more hosts may fail meanwhile.
    :param batch_size: most hosts in a batch, None for no limit.
    :param back: True when instances return before the next batch, so that each batch meets the fleet
        as it is now; False when they stay where they went.
    :returns: a dict batches [[host]]; blocked [{host, reason}]; bound: no plan can have fewer batches
        than this (with ``back``; else 1).
    :raises PlanError: an unknown host.
    """
    states = HostStates(fleet)
    names = sorted(set(states.host))
    wanted = names if hosts is None else sorted(set(hosts))
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise PlanError(f"The store has no compute node of host '{unknown[0]}'; it has hosts: {', '.join(names) or 'none at all'}.")
    moving, blocked = [], {}
    for each in sorted(instances, key=lambda found: (found["name"], found["uuid"])):
        if is_to_shut_down(each):
            continue
        reason = why_unmovable(each)
        if reason is None:
            moving.append(each)
        elif each["host"] in wanted:
            blocked.setdefault(each["host"], f"{each['name']} cannot move: {reason}")
    packing_state, items = packing_state_of(states, policy, moving)
    world = _World(packing_state, items, spare_hosts)
    free = [name for name in wanted if name not in blocked]
    for name in free:
        if not (world.large and _Batch(world).add(name)) and not world.fits([name]):
            blocked[name] = world.why or "its instances fit on no other hosts"
    free = [name for name in free if name not in blocked]
    bound = world.bound(free) if back else min(1, len(free))
    if batch_size:
        bound = max(bound, -(-len(free) // batch_size))
    batches = _grow(world, free, batch_size, back)
    if back:
        for count in range(max(bound, 1), len(batches)):
            found = _even(world, free, count, batch_size)
            if found is not None:
                batches = found
                break
    return {
        "batches": batches,
        "blocked": [{"host": name, "reason": blocked[name]} for name in sorted(blocked)],
        "bound": bound,
    }


class _World:
    """The fleet, asked whether hosts can be down together."""

    def __init__(self, packing_state, items, spare_hosts):
        self.packing_state = packing_state
        self.spare = spare_hosts
        self.large = packing_state.size > LARGE
        self.why = None
        states = packing_state.states
        self.rows = {}
        for row in range(states.size):
            self.rows.setdefault(states.host[row], []).append(row)
        self.on = {}
        for item in items:
            self.on.setdefault(states.host[packing_state.at[item]], []).append(item)
        self._known = {}
        self._loads, self._by_load = {}, None

    def load(self, name):
        """The share of the fleet's free room that a host's instances need, of the scarcest class."""
        if name not in self._loads:
            self._loads[name] = self._load(name)
        return self._loads[name]

    def _load(self, name):
        packing_state = self.packing_state
        items = self.on.get(name, [])
        if not items:
            return 0.0
        free = np.maximum(packing_state.free.clip(min=0).sum(axis=0), 1)
        return float((packing_state.need[items].sum(axis=0) / free).max())

    def fits(self, names):
        """True when everything on these hosts has a place on the others, with spare hosts to lose."""
        key = tuple(sorted(names))
        if key not in self._known:
            placed = self.places(key)
            self._known[key] = placed is not None
        return self._known[key]

    def places(self, names):
        """{item: node} for everything on these hosts, or None."""
        packing_state = self.packing_state
        rows = [row for name in names for row in self.rows[name]]
        items = [item for name in names for item in self.on.get(name, ())]
        packing_state.open[rows] = False
        placed = None
        try:
            self.why = None
            found = self._pack(items)
            if found is not None and self._survives(found, names):
                placed = found
        finally:
            packing_state.open[rows] = True
        return placed

    def _pack(self, items):
        packing_state = self.packing_state
        if not items:
            return {}
        if (packing_state.need[items].sum(axis=0) > packing_state.free[packing_state.open].clip(min=0).sum(axis=0)).any():
            return None
        placed, stuck, _words = packing.pack(packing_state, items)
        if stuck:
            self.why = f"{packing_state.label[stuck[0]][0]} fits on no other host"
        return None if stuck else placed

    def _survives(self, placed, names):
        """Could the fullest hosts that stay be lost too?"""
        if not self.spare:
            return True
        packing_state = self.packing_state
        for item, node in placed.items():
            packing_state.put(item, node)
        lost = self.fullest(names)
        if lost is None:
            for item, node in placed.items():
                packing_state.take(item, node)
            self.why = "too few others would be left to lose one"
            return False
        rows = [row for name in lost for row in self.rows[name]]
        hit = {item: node for item, node in placed.items() if node in rows}
        items = [item for name in lost for item in self.on.get(name, ())]
        packing_state.open[rows] = False
        origin = packing_state.at[list(hit)].copy()
        for (item, node), _source in zip(hit.items(), origin):
            packing_state.take(item, node)
        fine = self._pack(items + list(hit)) is not None
        for item, node in hit.items():
            packing_state.put(item, node)
        packing_state.open[rows] = True
        for item, node in placed.items():
            packing_state.take(item, node)
        if not fine:
            self.why = f"the loss of {', '.join(lost)} as well could not be borne"
        return fine

    def bound(self, names):
        """At least so many batches: the room of a batch is at most all that is free in the fleet."""
        packing_state = self.packing_state
        if not names:
            return 0
        up = packing_state.states.enabled & packing_state.states.up
        rows = [row for name in names for row in self.rows[name]]
        free = packing_state.free[up | np.isin(np.arange(packing_state.size), rows)].clip(min=0).sum(axis=0)
        used = np.zeros(len(packing_state.classes), dtype=np.int64)
        room = np.zeros(len(packing_state.classes), dtype=np.int64)
        for name in names:
            items = self.on.get(name, [])
            if items:
                used += packing_state.need[items].sum(axis=0)
            room += packing_state.free[self.rows[name]].clip(min=0).sum(axis=0)
        least = 1
        for number in np.flatnonzero(used):
            # A batch takes away its own free room, and what it holds must go into the rest of it.
            if free[number]:
                least = max(least, int(-(-(used[number] + room[number]) // free[number])))
        return least

    def fullest(self, but):
        """The hosts that would be missed most, as many as are to be spared; None when there are not so many others."""
        if self._by_load is None:
            self._by_load = sorted(self.rows, key=lambda name: (-self.load(name), name))
        but = set(but)
        staying = (name for name in self._by_load if name not in but and self.packing_state.open[self.rows[name]].any())
        found = list(itertools.islice(staying, self.spare + 1))
        return found[: self.spare] if len(found) > self.spare else None

    def settle(self, names, placed=None):
        """The instances of these hosts stay where they went."""
        for item, node in (self.places(names) if placed is None else placed).items():
            packing_state = self.packing_state
            self.on[packing_state.states.host[packing_state.at[item]]].remove(item)
            packing_state.move(item, node)
            self.on.setdefault(packing_state.states.host[node], []).append(item)
        self._known, self._loads, self._by_load = {}, {}, None


class _Tried:
    """A batch of a small fleet: everything is placed anew when a host joins."""

    placed = None

    def __init__(self, world):
        self.world, self.names = world, []

    def add(self, name):
        """Take a host in; False when the others cannot hold what is on all of them."""
        fits = self.world.fits([*self.names, name])
        if fits:
            self.names.append(name)
        return fits


class _Batch:
    """A batch of a large fleet: what has found a place keeps it, unless its new host joins too."""

    def __init__(self, world):
        packing_state = world.packing_state
        self.world, self.names, self.placed = world, [], {}
        self._load = packing_state.copy_of_load()

    def add(self, name):
        """Take a host in; False when the others cannot hold what is on all of them."""
        packing_state = self.world.packing_state
        fleet, packing_state.load = packing_state.load, self._load
        try:
            return self._add(name)
        finally:
            packing_state.load = fleet

    def _add(self, name):
        world, packing_state = self.world, self.world.packing_state
        rows = world.rows[name]
        was_open = packing_state.open[rows].copy()
        packing_state.open[rows] = False
        moved = {item: node for item, node in self.placed.items() if node in rows}
        new = self._place(moved, world.on.get(name, []))
        if new is not None:
            if self._survives({**self.placed, **new}, [*self.names, name]):
                self.placed.update(new)
                self.names.append(name)
                return True
            for item, node in new.items():
                packing_state.take(item, node)
            for item, node in moved.items():
                packing_state.put(item, node)
        packing_state.open[rows] = was_open
        return False

    def _place(self, moved, items):
        """New places for items, and for those that had one on hosts that are closed now; None, and all as before."""
        packing_state = self.world.packing_state
        for item, node in moved.items():
            packing_state.take(item, node)
        every = [*moved, *items]
        if not every:
            return {}
        weights = packing.weights_of(packing_state, every)
        for _words, order in packing.orders(packing_state, every)[:2]:
            for fit in (packing.best_fit, packing.worst_fit):
                placed, stuck = packing.place(packing_state, order, fit, weights)
                if not stuck:
                    return placed
                for item, node in placed.items():
                    packing_state.take(item, node)
        for item, node in moved.items():
            packing_state.put(item, node)
        return None

    def _survives(self, placed, names):
        """Could the fullest hosts that stay be lost too? The board is as before."""
        world, packing_state = self.world, self.world.packing_state
        if not world.spare:
            return True
        lost = world.fullest(names)
        if lost is None:
            return False
        rows = [row for name in lost for row in world.rows[name]]
        packing_state.open[rows] = False
        hit = {item: node for item, node in placed.items() if node in rows}
        found = self._place(hit, [item for name in lost for item in world.on.get(name, ())])
        if found is not None:
            for item, node in found.items():
                packing_state.take(item, node)
            for item, node in hit.items():
                packing_state.put(item, node)
        packing_state.open[rows] = True
        return found is not None


def _new_batch(world):
    return _Batch(world) if world.large else _Tried(world)


def _grow(world, free, batch_size, back):
    """Batches one after the other, each grown as far as it goes, the fullest hosts first."""
    left = sorted(free, key=lambda name: (-world.load(name), name))
    batches = []
    while left:
        growing = _new_batch(world)
        for name in left:
            if batch_size is None or len(growing.names) < batch_size:
                growing.add(name)
        batch = growing.names
        if not batch:
            # Only where instances stay: what went before has filled the room of a host that was free.
            batch = [left[0]]
            batches.append(batch)
            left = left[1:]
            continue
        if not back:
            world.settle(batch, growing.placed)
        batches.append(sorted(batch))
        left = [name for name in left if name not in batch]
    return batches


def _even(world, free, count, batch_size):
    """The hosts dealt into so many batches, or None; the fullest first, each where there is most left."""
    batches = [_new_batch(world) for _number in range(count)]
    loads = [0.0] * count
    room = {name: world.load(name) + float(_own_share(world, name)) for name in free}
    for name in sorted(free, key=lambda each: (-room[each], each)):
        for number in sorted(range(count), key=lambda each: (loads[each], each)):
            batch = batches[number]
            if (batch_size is None or len(batch.names) < batch_size) and batch.add(name):
                loads[number] += room[name]
                break
        else:
            return None
    return [sorted(batch.names) for batch in batches if batch.names]


def _own_share(world, name):
    packing_state = world.packing_state
    free = np.maximum(packing_state.free.clip(min=0).sum(axis=0), 1)
    return (packing_state.free[world.rows[name]].clip(min=0).sum(axis=0) / free).max()
