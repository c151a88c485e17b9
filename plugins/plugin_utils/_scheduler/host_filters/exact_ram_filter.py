# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exactly as much RAM as requested."""

from __future__ import annotations

from ..._common.arrays import BoolArray, IntArray, np
from ..components import HostFilter, HostStates, RequestSpec


class ExactRamFilter(HostFilter):
    """The host has exactly the requested amount (bare metal).

    Inputs: the request's memory_mb; the host's MEMORY_MB.
    Rule: memory_mb = free_ram_mb. Source: N2.7.
    """

    name = "ExactRamFilter"

    def passes(self, states: HostStates, spec: RequestSpec) -> BoolArray:
        return self._free_ram(states) == spec.resources.get("MEMORY_MB", 0)

    def rejection_reason(self, states: HostStates, spec: RequestSpec, index: int) -> str:
        return (
            f"RAM: asked exactly {spec.resources.get('MEMORY_MB', 0)} MiB, the host has"
            f" {self._free_ram(states)[index]:g}"
        )

    @staticmethod
    def _free_ram(states: HostStates) -> IntArray:
        resource = states.resources.get("MEMORY_MB")
        if resource is None:
            return np.zeros(states.size, dtype=np.int64)
        return resource.total - resource.reserved - resource.used
