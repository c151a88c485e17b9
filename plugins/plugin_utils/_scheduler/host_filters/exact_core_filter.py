# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exactly as much CPU as requested."""

from __future__ import annotations

from ..._common.arrays import BoolArray, IntArray, np
from ..components import HostFilter, HostStates, RequestSpec


class ExactCoreFilter(HostFilter):
    """The host has exactly the requested amount (bare metal).

    Inputs: the request's vcpus; the host's VCPU.
    Rule: vcpus = the host's total. Source: N2.7.
    """

    name = "ExactCoreFilter"

    def passes(self, states: HostStates, spec: RequestSpec) -> BoolArray:
        return self._total_cores(states) == spec.resources.get("VCPU", 0)

    def rejection_reason(self, states: HostStates, spec: RequestSpec, index: int) -> str:
        return (
            f"CPU: asked exactly {spec.resources.get('VCPU', 0)} vCPU, the host has"
            f" {self._total_cores(states)[index]:g}"
        )

    @staticmethod
    def _total_cores(states: HostStates) -> IntArray:
        resource = states.resources.get("VCPU")
        if resource is None:
            return np.zeros(states.size, dtype=np.int64)
        return resource.total
