# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one instance asks of the cells and the PCI devices of a host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._numa.cpu_topology import read_cpu_topology
from ansible_collections.drover.compute.plugins.plugin_utils._numa.guest import DEDICATED, REQUIRE, GuestConstraints, GuestTopology
from ansible_collections.drover.compute.plugins.plugin_utils._numa.specs import Specs, read_constraints
from ansible_collections.drover.compute.plugins.plugin_utils._pci.requests import (
    SOCKET,
    SOCKET_TRAIT,
    Alias,
    PciRequest,
    affinity_policy,
    requests_of_flavor,
)


@dataclass(frozen=True)
class HostRequest:
    """What an instance asks of the cells and the PCI devices of a host.

    physnets, is_tunneled: networks that may belong to certain cells of a host.
    needs_threads: only hosts with SMT are looked at (N11.6).
    with_limits: False for a host that is forced: its allocation ratios do not count.
    """

    topology: GuestTopology | None = None
    pci: tuple[PciRequest, ...] = ()
    physnets: frozenset[str] = frozenset()
    is_tunneled: bool = False
    needs_threads: bool = False
    with_limits: bool = True

    @property
    def is_empty(self) -> bool:
        """Tell whether every host fits, whatever it has."""
        return self.topology is None and not self.pci


def read_request(
    vcpus: int,
    memory_mb: int,
    extra_specs: Mapping[str, Any],
    properties: Mapping[str, Any] | None,
    aliases: Mapping[str, Alias],
    ports: Sequence[PciRequest] = (),
    network: Mapping[str, Any] | None = None,
) -> tuple[HostRequest, GuestConstraints]:
    """Read what a flavor and an image ask of a host, and what of it goes to Placement.

    :param memory_mb: MiB of the flavor.
    :param ports: requests for devices that are network ports.
    :param network: ``physnets`` (names) and ``tunneled``.
    :raises InvalidSpecs: flavor and image are wrong or contradict each other.
    """
    specs = Specs(extra_specs, properties or {})
    constraints = read_constraints(vcpus, memory_mb, extra_specs, properties)
    read_cpu_topology(extra_specs, properties)
    policy = affinity_policy(extra_specs, properties)
    pci = requests_of_flavor(extra_specs, aliases, policy) + tuple(replace(port, policy=policy or port.policy) for port in ports)
    if policy == SOCKET:
        constraints = replace(constraints, required=constraints.required | {SOCKET_TRAIT})
    network = network or {}
    request = HostRequest(
        topology=constraints.topology,
        pci=pci,
        physnets=frozenset(network.get("physnets") or ()),
        is_tunneled=bool(network.get("tunneled")),
        needs_threads=DEDICATED in specs.both("cpu_policy") and REQUIRE in specs.both("cpu_thread_policy"),
    )
    return request, constraints
