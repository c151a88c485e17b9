# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The request of one instance for the cells and the PCI devices of a host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from .._common.errors import DroverError
from .cpu_topology import read_cpu_topology
from .device_providers import group_of
from .device_requests import (
    SOCKET,
    SOCKET_TRAIT,
    Alias,
    PciRequest,
    affinity_policy,
    request_of_data,
    requests_of_flavor,
)
from .guest import DEDICATED, REQUIRE, GuestCell, GuestConstraints, GuestTopology
from .specs import Specs, read_constraints


@dataclass(frozen=True)
class HostRequest:
    """The request of an instance for the cells and the PCI devices of a host.

    physnets, is_tunneled: networks that may belong to certain cells of a host.
    needs_threads: only hosts with SMT can fit (N11.6).
    with_limits: False for a forced host, without its allocation ratios.
    """

    topology: GuestTopology | None = None
    pci: tuple[PciRequest, ...] = ()
    physnets: frozenset[str] = frozenset()
    is_tunneled: bool = False
    needs_threads: bool = False
    with_limits: bool = True

    @property
    def is_empty(self) -> bool:
        """True if every host fits in any case."""
        return self.topology is None and not self.pci

    @property
    def in_placement(self) -> bool:
        """True if devices are allocated in Placement."""
        return any(each.resource_class for each in self.pci)

    @property
    def device_groups(self) -> list[list[str]]:
        """The suffixes of the resource groups for the devices of each request that is allocated in
        Placement.
        """
        return [
            [group_of(number, device) for device in range(each.count)]
            for number, each in enumerate(self.pci)
            if each.resource_class is not None
        ]

    def on_providers(
        self, mappings: Mapping[str, Sequence[str]], keys: Mapping[str, str]
    ) -> HostRequest:
        """Return this with the providers that give the devices of each request.

        :param mappings: {suffix of a resource group: uuids of its providers}, from the answer of
            Placement.
        :param keys: {uuid of a provider: key} of the host; any other provider gives no device.
        """
        suffixes = iter(self.device_groups)
        pci = []
        for request in self.pci:
            if request.resource_class is not None:
                counts = Counter(
                    keys.get(uuid, "")
                    for suffix in next(suffixes)
                    for uuid in mappings.get(suffix, ())
                )
                request = replace(request, providers=tuple(sorted(counts.items())))
            pci.append(request)
        return replace(self, pci=tuple(pci))

    @property
    def vcpus(self) -> int | None:
        """The number of vCPUs of the guest's cells; None without cells."""
        if self.topology is None:
            return None
        return sum(len(cell.shared) + len(cell.pinned) for cell in self.topology.cells)

    def as_data(self) -> dict[str, Any]:
        """Return this as plain data; ``from_data`` reverses it."""
        plain = asdict(self)
        plain["physnets"] = sorted(self.physnets)
        plain["pci"] = [_pci_data(each) for each in self.pci]
        return plain

    @classmethod
    def from_data(cls, data: Any, where: str) -> HostRequest:
        """Make a request of the result of ``as_data``.

        :param where: the start of the error message.
        :raises DroverError: it is not of that form.
        """
        try:
            topology, pci = data["topology"], data["pci"]
            return cls(
                topology=_topology(topology) if topology is not None else None,
                pci=tuple(request_of_data(each) for each in pci),
                physnets=frozenset(data["physnets"]),
                is_tunneled=bool(data["is_tunneled"]),
                needs_threads=bool(data["needs_threads"]),
                with_limits=bool(data["with_limits"]),
            )
        except (AttributeError, KeyError, TypeError, ValueError):
            raise DroverError(
                f"{where}: host_request cannot be read. Pass what the lookup"
                " drover.compute.schedule returned."
            ) from None


def _topology(data: Mapping[str, Any]) -> GuestTopology:
    cells = tuple(
        GuestCell(
            tuple(map(int, cell["shared"])), tuple(map(int, cell["pinned"])), int(cell["memory_mb"])
        )
        for cell in data["cells"]
    )
    return GuestTopology(
        cells,
        *(data[key] for key in ("cpu_policy", "thread_policy", "emulator_policy", "page_size")),
    )


def _pci_data(request: PciRequest) -> dict[str, object]:
    """Return a request as plain data, without the providers, which belong to one host."""
    plain: dict[str, object] = {
        "count": request.count,
        "specs": [dict(spec) for spec in request.specs],
        "policy": request.policy,
    }
    if request.resource_class is not None:
        plain.update(resource_class=request.resource_class, traits=list(request.traits))
    return plain


def read_request(
    vcpus: int,
    memory_mb: int,
    extra_specs: Mapping[str, Any],
    properties: Mapping[str, Any] | None,
    aliases: Mapping[str, Alias] | None,
    ports: Sequence[PciRequest] = (),
    network: Mapping[str, Any] | None = None,
) -> tuple[HostRequest, GuestConstraints]:
    """Read the requirements of a flavor and an image on a host, and the parts for the request to
    Placement.

    :param memory_mb: MiB of the flavor.
    :param aliases: the aliases of PCI devices; None: they are not read.
    :param ports: requests for devices that are network ports.
    :param network: ``physnets`` (names) and ``tunneled``.
    :raises InvalidSpecs: flavor and image are wrong or contradict each other.
    """
    specs = Specs(extra_specs, properties or {})
    constraints = read_constraints(vcpus, memory_mb, extra_specs, properties)
    read_cpu_topology(extra_specs, properties)
    policy = affinity_policy(extra_specs, properties)
    named = requests_of_flavor(extra_specs, aliases, policy) if aliases is not None else ()
    pci = named + tuple(replace(port, policy=policy or port.policy) for port in ports)
    if policy == SOCKET:
        constraints = replace(constraints, required=constraints.required | {SOCKET_TRAIT})
    network = network or {}
    request = HostRequest(
        topology=constraints.topology,
        pci=pci,
        physnets=frozenset(network.get("physnets") or ()),
        is_tunneled=bool(network.get("tunneled")),
        needs_threads=DEDICATED in specs.both("cpu_policy")
        and REQUIRE in specs.both("cpu_thread_policy"),
    )
    return request, constraints
