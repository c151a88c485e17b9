# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cells of the guest in cells of the host."""

from __future__ import annotations

from collections.abc import Collection

from ..._common.arrays import BoolArray, np
from ..._numa.hosts import NO_CELLS, REASONS
from ..components import HostFilter, HostStates, RequestSpec


class NUMATopologyFilter(HostFilter):
    """The host has cells for the cells of the guest, with pinned CPUs, pages, and PCI devices and
    networks near them.

    Inputs: the extra specs and image properties of N11.1; the cells, devices and instances of hosts
    (``numa``).
    Rule: a request without cells passes; else the fit of N11.4 decides. Devices that Placement
    allocates must come from the providers of a candidate. Source: N11.6, N12.7.
    """

    name = "NUMATopologyFilter"
    # The claim checks forced hosts too, but without allocation ratios.
    skipped_when_forced = False

    def needs(self, spec: RequestSpec) -> Collection[str]:
        return () if self.not_applicable(spec) else ("numa",)

    def not_applicable(self, spec: RequestSpec) -> bool:
        return spec.host_request.topology is None

    def passes(self, states: HostStates, spec: RequestSpec) -> BoolArray:
        if self.not_applicable(spec):
            return np.ones(states.size, dtype=bool)
        passing = (
            np.zeros(states.size, dtype=bool)
            if states.numa is None
            else states.numa.fits(spec.host_request).mask
        )
        if states.asks_providers(spec):
            for row in np.flatnonzero(passing).tolist():
                passing[row] = states.has_candidate(row, spec)
        return passing

    def rejection_reason(self, states: HostStates, spec: RequestSpec, index: int) -> str:
        return (
            REASONS[NO_CELLS]
            if states.numa is None
            else states.numa.lack(spec.host_request, index).text
        )

    def distance(self, states: HostStates, spec: RequestSpec, index: int) -> float:
        return 1.0 if states.numa is None else states.numa.lack(spec.host_request, index).share
