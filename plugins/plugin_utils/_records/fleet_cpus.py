# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU that the guests of a group of hosts have, so that each of these hosts can run each of
them.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypedDict


class CpuGroup(NamedTuple):
    """Hosts between which a guest can move live. The texts are empty if there is no cell, or no
    vendor.
    """

    cell: str
    arch: str
    domain_type: str
    vendor: str

    @property
    def label(self) -> str:
        """Return its name in a sentence."""
        cell = f" of the cell {self.cell}" if self.cell else ""
        return f"{self.vendor} hosts{cell} ({self.arch}, {self.domain_type})".strip()


class Cpu(TypedDict):
    """A CPU as the modules hypervisor_info and _cpu_baseline return it.

    policies: of features that are added to the model or removed from it. features: all that it
    has.
    """

    vendor: str | None
    model: str
    policies: dict[str, str]
    features: list[str]


class FleetCpu(TypedDict):
    """A stored CPU, and the hosts from which it was computed. created_at: seconds since 1970."""

    cpu: Cpu
    hosts: list[str]
    created_at: float


class HostModel(TypedDict):
    """The CPU that a compute node can give its guests.

    group: None if libvirt reports no CPU model.
    """

    host: str
    node: str
    uri: str | None
    group: CpuGroup | None
    #: A node without a group has a cell, too.
    cell: str
    arch: str | None
    features: frozenset[str]
    hypervisor_version: int


def group_of(cell: str | None, model: dict[str, Any] | None) -> CpuGroup | None:
    """Return the group of a node with this host_model."""
    if not model:
        return None
    return CpuGroup(cell or "", model["arch"] or "", model["type"], model.get("vendor") or "")
