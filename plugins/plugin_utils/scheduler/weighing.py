# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Weights of hosts (N3.1)."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.arrays import np
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.components import PACKAGE
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.errors import SchedulerError


def normalise(raw, minval, maxval):
    """Raw values on a scale from 0 to 1 (N3.1).

    :param raw: float64 array of the hosts that passed the filters.
    :param minval, maxval: fixed ends of the scale or None; values beyond are clipped to them.
    """
    if minval is not None:
        raw = np.maximum(raw, minval)
    if maxval is not None:
        raw = np.minimum(raw, maxval)
    low = raw.min() if minval is None else minval
    high = raw.max() if maxval is None else maxval
    if low == high:
        return np.zeros(len(raw), dtype=np.float64)
    if low:
        raw = raw - low
    return raw / (high - low)


class Weighing:
    """Weighs for one request, any number of times while alike instances are placed.

    Keeps what placing an instance does not change: multipliers, the raw values of weighers that say
    ``once``, and their share in the weights as long as the same hosts pass.
    """

    def __init__(self, states, spec, policy):
        self._states = states
        self._spec = spec
        self._weighers = policy.weighers
        self._raw = {}
        self._multipliers = {}
        self._passed = self._base = None
        self._kept = {}
        self._changing = []

    def weigh(self, passed, detail=True):
        """Weights of the hosts that passed.

        :param passed: int array of row numbers, not empty; the same object when nothing changed.
        :param detail: False leaves out the parts and what does not change the weights.
        :returns: (float64 array of weights, [(name, multiplier, raw, normalised)] with a float or array
            for each of the three). With one host nothing is weighed: its weight is 0.
        """
        if passed is not self._passed:
            self._passed, self._kept, self._base = passed, {}, None
        if len(passed) < 2:
            return np.zeros(len(passed), dtype=np.float64), self._alone(passed) if detail else []
        if self._base is None:
            self._prepare(passed)
        weights = self._base.copy()
        shares = {}
        for weigher, multiplier in self._changing:
            shares[weigher.name] = share = self._share(weigher, multiplier, passed)
            if share[0] is not None:
                weights += share[0]
        if not detail:
            return weights, []
        shares.update(self._kept)
        parts = []
        for weigher, _multiplier in self._weighers:
            share = shares.get(weigher.name)
            if share is None:
                share = self._share(weigher, self._multiplier(weigher, passed), passed)
            parts.append((weigher.name, self._multiplier(weigher, passed), *share[1:]))
        return weights, parts

    def _prepare(self, passed):
        """Sum what does not change as long as these hosts pass; list what does."""
        self._base = np.zeros(len(passed), dtype=np.float64)
        self._changing = []
        for weigher, _multiplier in self._weighers:
            multiplier = self._multiplier(weigher, passed)
            if isinstance(multiplier, float) and not multiplier:
                continue
            share = self._share(weigher, multiplier, passed)
            # Of our own weighers one that tells no host from another does so for all alike instances.
            if weigher.once or (share[0] is None and _ours(weigher)):
                self._kept[weigher.name] = share
                if share[0] is not None:
                    self._base += share[0]
            else:
                self._changing.append((weigher, multiplier))

    def _alone(self, passed):
        """Parts of a host that has no rival: raw values, and nothing normalised."""
        parts = []
        for weigher, _multiplier in self._weighers:
            try:
                raw = self._raw_of(weigher, passed)
            except SchedulerError:
                # One host is not weighed, so whatever is amiss with its figures is no obstacle.
                continue
            parts.append((weigher.name, self._multiplier(weigher, passed), raw if isinstance(raw, float) else raw[passed], 0.0))
        return parts

    def _share(self, weigher, multiplier, passed):
        """(what it adds to the weights or None for nothing, raw values, normalised values)."""
        raw = self._raw_of(weigher, passed)
        if isinstance(raw, float):
            return (None, raw, 0.0)
        raw = raw[passed]
        normalised = normalise(raw, weigher.minval, weigher.maxval)
        return (multiplier * normalised, raw, normalised)

    def _raw_of(self, weigher, passed):
        if weigher.name in self._raw:
            return self._raw[weigher.name]
        raw = weigher.raw_of(self._states, self._spec, passed)
        if isinstance(raw, (int, float)):
            # One value for all: on a scale that is fixed at an end it may still count.
            fixed = weigher.minval is not None or weigher.maxval is not None
            raw = np.full(self._states.size, float(raw)) if fixed else float(raw)
        else:
            # Our own weighers give what they promise; looking again costs more than weighing.
            trusted = _ours(weigher)
            raw = raw if trusted else np.asarray(raw, dtype=np.float64)
            if not trusted and (raw.shape != (self._states.size,) or not np.isfinite(raw).all()):
                raise SchedulerError(
                    f"The weigher {weigher.name} must give one finite number per host; correct it or take it out of weighers."
                )
        # The figures of whoever falls out of the list later were looked at before.
        if weigher.once:
            self._raw[weigher.name] = raw
        return raw

    def _multiplier(self, weigher, passed):
        """A float, or an array over ``passed`` when aggregates set it."""
        found = self._multipliers.get(weigher.name)
        if found is None:
            found = self._states.aggregates.least(weigher.multiplier_option, weigher.multiplier)
            found = weigher.sign * found
            if not isinstance(found, np.ndarray):
                found = float(found)
            self._multipliers[weigher.name] = found
        if not isinstance(found, np.ndarray):
            return found
        # As long as the same hosts pass, their multipliers are the same too.
        key = (weigher.name, "multiplier")
        if key not in self._kept:
            self._kept[key] = found[passed]
        return self._kept[key]


def _ours(weigher):
    return type(weigher).__module__.startswith(PACKAGE)


def weigh(states, spec, policy, passed):
    """Weights of the hosts that passed, once; see Weighing.weigh."""
    return Weighing(states, spec, policy).weigh(passed)


def at(value, position):
    """The entry of an array at a position, or the number that stands for all of them."""
    return float(value[position]) if isinstance(value, np.ndarray) else float(value)


def best(weights, count):
    """Positions of the highest weights, best first; equal weights keep their order.

    Costs one pass over the hosts rather than a sort of them.
    """
    size = len(weights)
    if size > 4 * count:
        least = np.partition(weights, size - count)[size - count]
        above = np.flatnonzero(weights > least)
        equal = np.flatnonzero(weights == least)[: count - len(above)]
        positions = np.concatenate([above, equal])
    else:
        positions = np.arange(size)
    return positions[np.argsort(-weights[positions], kind="stable")][:count]
