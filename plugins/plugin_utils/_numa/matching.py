# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check if guest cells of some kinds get separate host cells, for all hosts at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import combinations

from .._common.arrays import BoolArray, np


def can_match(masks: Sequence[BoolArray], counts: Sequence[int]) -> BoolArray:
    """Return True for each host on which all guest cells get separate cells.

    Hall's theorem gives the condition: any kinds of guest cells together have at least as many
    fitting host cells as guest cells.

    :param masks: for each kind of guest cells [hosts, cells], the host cells that fit it.
    :param counts: the number of guest cells of each kind.
    """
    matching = np.ones(masks[0].shape[0], dtype=bool)
    for size in range(1, len(masks) + 1):
        for kinds in combinations(range(len(masks)), size):
            reached = reduce(np.logical_or, (masks[kind] for kind in kinds))
            matching &= reached.sum(axis=1) >= sum(counts[kind] for kind in kinds)
    return matching
