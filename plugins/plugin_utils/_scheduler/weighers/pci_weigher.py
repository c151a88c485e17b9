# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts with PCI devices are kept for requests for them."""

from __future__ import annotations

from collections.abc import Collection

from ..._common.arrays import FloatArray, np
from ..components import HostStates, RequestSpec, Weigher


class PCIWeigher(Weigher):
    """Hosts with free PCI devices are kept for requests for them.

    Inputs: free PCI devices of the host: their number for most requests; with their cells if an
    instance of the batch may take some.
    Raw value: 100 - min(free devices, 99). The multiplier may not be negative. Source: N3.2.
    """

    name = "PCIWeigher"
    measures = "free PCI devices"
    extremes = ("fewest", "most")
    multiplier_option = "pci_weight_multiplier"
    options = {"pci_weight_multiplier": 1.0}
    least_multiplier = 0.0

    def needs(self, spec: RequestSpec) -> Collection[str]:
        return ("free_pci_devices",) if spec.host_request.is_empty else ("numa",)

    def raw(self, states: HostStates, spec: RequestSpec) -> FloatArray | float:
        free = states.free_pci_devices if states.numa is None else states.numa.free_devices
        return 100.0 - np.minimum(free, 99)
