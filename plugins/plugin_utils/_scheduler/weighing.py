# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Weights of hosts (N3.1)."""

from __future__ import annotations

from typing import Any

from .._common.arrays import FloatArray, IntArray, np
from .components import PACKAGE, Weigher
from .errors import SchedulerError
from .host_states import HostStates
from .policy import Policy
from .request_spec import RequestSpec

#: A weigher's part in the weights: its name, multiplier, raw and normalised values, each of them a
#: float or one for each host.
Part = tuple[str, Any, Any, Any]
#: The share of a weigher in the weights (None for nothing), raw and normalised values.
Share = tuple[Any, Any, Any]


def normalise(raw: FloatArray, minval: float | None, maxval: float | None) -> FloatArray:
    """Return raw values on a scale from 0 to 1 (N3.1).

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
    """The weights for one request, usable many times while equivalent instances are placed.

    It keeps the values that do not change with placed instances: multipliers, the raw values of
    weighers with ``run_filter_once_per_request``, and their share of the weights as long as the
    same hosts pass.
    """

    def __init__(self, states: HostStates, spec: RequestSpec, policy: Policy) -> None:
        self._states = states
        self._spec = spec
        self._weighers = policy.weighers
        self._raw: dict[str, float | FloatArray] = {}
        self._multipliers: dict[str, float | FloatArray] = {}
        self._passed: IntArray | None = None
        self._base: FloatArray | None = None
        self._kept: dict[str, Share] = {}
        self._own: dict[str, FloatArray] = {}
        self._changing: list[tuple[Weigher, float | FloatArray]] = []

    def weigh(self, passed: IntArray, detail: bool = True) -> tuple[FloatArray, list[Part]]:
        """Return the weights of the hosts that passed.

        :param passed: int array of row numbers, not empty; the same object if nothing changed.
        :param detail: False leaves out the parts, and values that do not change the weights.
        :returns: (the weights, the parts). A single host is not weighed: its weight is 0.
        """
        if passed is not self._passed:
            self._passed, self._kept, self._own, self._base = passed, {}, {}, None
        if len(passed) < 2:
            return np.zeros(len(passed), dtype=np.float64), self._parts_of_single_host(
                passed
            ) if detail else []
        if self._base is None:
            self._base = self._prepare(passed)
        weights = self._base.copy()
        shares: dict[str, Share] = {}
        for weigher, multiplier in self._changing:
            shares[weigher.name] = share = self._share(weigher, multiplier, passed)
            if share[0] is not None:
                weights += share[0]
        if not detail:
            return weights, []
        shares.update(self._kept)
        parts = []
        for weigher, _multiplier in self._weighers:
            multiplier = self._multiplier(weigher, passed)
            found = shares.get(weigher.name) or self._share(weigher, multiplier, passed)
            parts.append((weigher.name, multiplier, *found[1:]))
        return weights, parts

    def _prepare(self, passed: IntArray) -> FloatArray:
        """Return the sum of the shares that do not change as long as these hosts pass; list the
        other weighers.
        """
        base = np.zeros(len(passed), dtype=np.float64)
        self._changing = []
        for weigher, _multiplier in self._weighers:
            multiplier = self._multiplier(weigher, passed)
            if isinstance(multiplier, float) and not multiplier:
                continue
            share = self._share(weigher, multiplier, passed)
            # If one of our own weighers gives all hosts the same weight, it does so for all
            # equivalent requests.
            if weigher.run_filter_once_per_request or (share[0] is None and _ours(weigher)):
                self._kept[weigher.name] = share
                if share[0] is not None:
                    base += share[0]
            else:
                self._changing.append((weigher, multiplier))
        return base

    def _parts_of_single_host(self, passed: IntArray) -> list[Part]:
        """Return the parts of a single host: raw values, and nothing normalised."""
        parts = []
        for weigher, _multiplier in self._weighers:
            try:
                raw = self._raw_of(weigher, passed)
            except SchedulerError:
                # A single host is not weighed, so errors in its figures do not matter.
                continue
            parts.append(
                (
                    weigher.name,
                    self._multiplier(weigher, passed),
                    raw if isinstance(raw, float) else raw[passed],
                    0.0,
                )
            )
        return parts

    def _share(self, weigher: Weigher, multiplier: float | FloatArray, passed: IntArray) -> Share:
        """Return (its share of the weights or None for nothing, raw values, normalised values)."""
        raw = self._raw_of(weigher, passed)
        if isinstance(raw, float):
            return (None, raw, 0.0)
        raw = raw[passed]
        normalised = normalise(raw, weigher.minval, weigher.maxval)
        return (multiplier * normalised, raw, normalised)

    def _raw_of(self, weigher: Weigher, passed: IntArray) -> float | FloatArray:
        if weigher.name in self._raw:
            return self._raw[weigher.name]
        weights = weigher.raw_of(self._states, self._spec, passed)
        raw: float | FloatArray
        if isinstance(weights, (int, float)):
            # One value for all hosts may still count on a scale with a fixed end.
            fixed = weigher.minval is not None or weigher.maxval is not None
            raw = np.full(self._states.size, float(weights)) if fixed else float(weights)
        else:
            # The values of our own weighers need no check; a check costs more than the weighing.
            trusted = _ours(weigher)
            raw = weights if trusted else np.asarray(weights, dtype=np.float64)
            if not trusted and (raw.shape != (self._states.size,) or not np.isfinite(raw).all()):
                raise SchedulerError(
                    f"The weigher {weigher.name} must give one finite number per host; correct it"
                    " or take it out of weighers."
                )
        # Hosts that drop out of the list later were checked before.
        if weigher.run_filter_once_per_request:
            self._raw[weigher.name] = raw
        return raw

    def _multiplier(self, weigher: Weigher, passed: IntArray) -> float | FloatArray:
        """Return a float, or an array over ``passed`` if aggregates set the multiplier."""
        multiplier = self._multipliers.get(weigher.name)
        if multiplier is None:
            multiplier = self._states.aggregates.least(
                weigher.multiplier_option, weigher.multiplier
            )
            multiplier = weigher.sign * multiplier
            if not isinstance(multiplier, np.ndarray):
                multiplier = float(multiplier)
            self._multipliers[weigher.name] = multiplier
        if not isinstance(multiplier, np.ndarray):
            return multiplier
        # As long as the same hosts pass, their multipliers are the same too.
        if weigher.name not in self._own:
            self._own[weigher.name] = multiplier[passed]
        return self._own[weigher.name]


def _ours(weigher: Weigher) -> bool:
    return type(weigher).__module__.startswith(PACKAGE)


def weigh(
    states: HostStates, spec: RequestSpec, policy: Policy, passed: IntArray
) -> tuple[FloatArray, list[Part]]:
    """Return the weights of the hosts that passed, for one call; see Weighing.weigh."""
    return Weighing(states, spec, policy).weigh(passed)


def at(value: float | FloatArray, position: int) -> float:
    """Return the entry of an array at a position, or the number that stands for all of them."""
    return float(value[position]) if isinstance(value, np.ndarray) else float(value)


def best(weights: FloatArray, count: int) -> IntArray:
    """Return the positions of the highest weights, best first; equal weights keep their order.

    It costs one pass over the hosts, not a sort of them.
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
