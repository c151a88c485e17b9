# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Weights of hosts, and the best of them."""

from __future__ import annotations

try:
    import numpy as np
except ImportError:
    np = None


def normalise(raw, minval, maxval):
    """Raw values on a scale from 0 to 1 (NOVA_SEMANTICS 3.1).

    :param raw: float64 array of the hosts that passed the filters.
    :param minval, maxval: fixed ends of the scale or None; values beyond are clipped to them.
    """
    if minval is not None or maxval is not None:
        raw = np.clip(raw, minval, maxval)
    low = raw.min() if minval is None else minval
    high = raw.max() if maxval is None else maxval
    if low == high:
        return np.zeros(len(raw), dtype=np.float64)
    return (raw - low) / (high - low)


def weigh(states, spec, policy, passed):
    """Weights of the hosts that passed.

    :param passed: int array of row numbers, not empty.
    :returns: (float64 array of weights, [(name, multiplier, raw array, normalised array)]).
        With one host nothing is weighed: its weight is 0.
    """
    weights = np.zeros(len(passed), dtype=np.float64)
    parts = []
    for weigher, multiplier in policy.weighers:
        raw = weigher.raw(states, spec)[passed]
        if len(passed) > 1:
            normalised = normalise(raw, weigher.minval, weigher.maxval)
        else:
            normalised = np.zeros(1, dtype=np.float64)
        weights += multiplier * normalised
        parts.append((weigher.name, multiplier, raw, normalised))
    return weights, parts


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
