# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI devices for the guest."""

from __future__ import annotations

from collections.abc import Collection

from ..._common.arrays import BoolArray, np
from ..._numa.hosts import PCI_FILTER, REASONS
from ..components import HostFilter, HostStates, RequestSpec


class PciPassthroughFilter(HostFilter):
    """The host has free PCI devices for the request.

    Inputs: pci_passthrough:alias of the flavor, policy key pci_alias; the devices and instances of
    hosts (``numa``).
    Rule: a request without devices passes; else the pools of the host, of any cell, must meet all
    requests; with pci_in_placement, the pools of the providers of a candidate must. Source: N12.3,
    N12.7.
    """

    name = "PciPassthroughFilter"
    # The claim checks forced hosts too.
    skipped_when_forced = False

    def needs(self, spec: RequestSpec) -> Collection[str]:
        return () if self.not_applicable(spec) else ("numa",)

    def not_applicable(self, spec: RequestSpec) -> bool:
        return not spec.host_request.pci

    def passes(self, states: HostStates, spec: RequestSpec) -> BoolArray:
        if self.not_applicable(spec):
            return np.ones(states.size, dtype=bool)
        passing = (
            np.zeros(states.size, dtype=bool)
            if states.numa is None
            else states.numa.has_devices(spec.host_request)
        )
        if states.asks_providers(spec):
            for row in np.flatnonzero(passing).tolist():
                passing[row] = states.has_candidate(row, spec, with_cells=False)
        return passing

    def rejection_reason(self, states: HostStates, spec: RequestSpec, index: int) -> str:
        return REASONS[PCI_FILTER]
