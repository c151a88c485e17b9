# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every host."""

from __future__ import annotations

from ..._common.arrays import BoolArray, np
from ..components import HostFilter, HostStates, RequestSpec


class AllHostsFilter(HostFilter):
    """Every host passes.

    Inputs: none. Rule: pass. Source: N2.1.
    """

    name = "AllHostsFilter"
    run_filter_once_per_request = True

    def passes(self, states: HostStates, spec: RequestSpec) -> BoolArray:
        return np.ones(states.size, dtype=bool)
