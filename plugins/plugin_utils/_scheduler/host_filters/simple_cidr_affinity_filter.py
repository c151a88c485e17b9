# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Near an address."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection
from typing import Any

from ..._common.arrays import BoolArray, np
from ..components import HostFilter, HostStates, RequestSpec


class SimpleCIDRAffinityFilter(HostFilter):
    """The host's address is in the network around an address.

    Inputs: hints build_near_host_ip (an address, not a host's name) and cidr [/24]; host_ip.
    Rule: without a hint, pass; else host_ip is in build_near_host_ip + cidr. A host without an
    address fails. Source: N2.1.
    """

    name = "SimpleCIDRAffinityFilter"
    run_filter_once_per_request = True

    def needs(self, spec: RequestSpec) -> Collection[str]:
        return ("host_ip",) if "build_near_host_ip" in spec.hints else ()

    def passes(self, states: HostStates, spec: RequestSpec) -> BoolArray:
        network = self._network(spec)
        if network is None:
            return np.ones(states.size, dtype=bool)
        family = socket.AF_INET if network.version == 4 else socket.AF_INET6
        first, mask = int(network.network_address), int(network.netmask)

        def near(address: Any) -> bool:
            try:
                return int.from_bytes(socket.inet_pton(family, address), "big") & mask == first
            except (OSError, TypeError):
                return False

        return states.categorical("host_ip").each(near)

    def rejection_reason(self, states: HostStates, spec: RequestSpec, index: int) -> str:
        return (
            f"address: asked {self._network(spec)}, the host has"
            f" {states.categorical('host_ip')[index] or 'none'}"
        )

    @staticmethod
    def _network(spec: RequestSpec) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
        address = spec.hints.get("build_near_host_ip")
        if address is None:
            return None
        return ipaddress.ip_network(
            f"{address}/{(spec.hints.get('cidr') or '/24').lstrip('/')}", strict=False
        )
