# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Moves stay in their cell, if they can."""

from __future__ import annotations

from ..._common.arrays import FloatArray, np
from ..components import HostStates, RequestSpec, Weigher


class CrossCellWeigher(Weigher):
    """A move that may leave its cell preferably stays.

    Inputs: requested_destination.cell and allow_cross_cell_move; the host's cell.
    Raw value: without a preferred cell or without permission to leave it: 0; else 1 inside it and
    -1 outside. Source: N3.2.
    """

    name = "CrossCellWeigher"
    extremes = ("in its cell", "in another cell")
    multiplier_option = "cross_cell_move_weight_multiplier"
    options = {"cross_cell_move_weight_multiplier": 1000000.0}
    run_filter_once_per_request = True

    def raw(self, states: HostStates, spec: RequestSpec) -> FloatArray | float:
        if not spec.cross_cell or spec.preferred_cell is None:
            return 0.0
        inside = states.categorical("cell").each(lambda cell: cell == spec.preferred_cell)
        return np.where(inside, 1.0, -1.0)
