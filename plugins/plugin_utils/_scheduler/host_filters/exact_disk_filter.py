# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exactly as much disk as requested."""

from __future__ import annotations

from ..._common.arrays import BoolArray, np
from ..components import HostFilter, HostStates, RequestSpec


class ExactDiskFilter(HostFilter):
    """The host has exactly the requested amount (bare metal).

    Inputs: the request's disk_gb; the host's DISK_GB.
    Rule: disk_gb = free disk, disk_available_least included. Source: N2.7.
    """

    name = "ExactDiskFilter"

    def passes(self, states: HostStates, spec: RequestSpec) -> BoolArray:
        return self._free_disk(states) == spec.resources.get("DISK_GB", 0)

    def rejection_reason(self, states: HostStates, spec: RequestSpec, index: int) -> str:
        return (
            f"disk: asked exactly {spec.resources.get('DISK_GB', 0)} GiB, the host has"
            f" {self._free_disk(states)[index]:g}"
        )

    @staticmethod
    def _free_disk(states: HostStates) -> np.ndarray:
        resource = states.resources.get("DISK_GB")
        if resource is None:
            return np.zeros(states.size, dtype=np.int64)
        return np.minimum(
            resource.total - resource.reserved - resource.used, states.disk_available_least
        )
