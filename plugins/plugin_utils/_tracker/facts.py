# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts of a host after their check, as the tracker reads them.

Only checked_facts makes these records. A function that takes one gets no other facts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from .._records.hosts import Occupant, PoolFacts


class CheckedDomain(dict[str, Any]):
    """The facts of a domain after their check."""


class CpuFacts(TypedDict, total=False):
    """The CPU of a host."""

    arch: str | None
    features: list[str] | None
    count: int | None
    #: The numbers of the CPUs that are online; None if the host does not report them.
    online: list[int] | None


class StorageFacts(TypedDict, total=False):
    """The storage of the instances of a host."""

    instances_path: str | None
    real_path: str | None
    shared_id: str | None
    folder_id: str | None
    total_gb: int | None


class KvmFacts(TypedDict, total=False):
    """The result of a probe of KVM."""

    offered: bool | None
    works: bool | None
    message: str


#: A pool, cell or device with the keys of the module hypervisor_info.
Entry = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class HostFacts:
    """The facts of one hypervisor of a host, see the module hypervisor_info."""

    #: The hypervisor_hostname.
    name: str
    uri: str | None
    cpu: CpuFacts
    storage: StorageFacts
    kvm: KvmFacts
    pools: Sequence[PoolFacts]
    numa_cells: Sequence[Entry]
    pci_devices: Sequence[Entry]
    mdev_types: Sequence[Entry]
    mdev_devices: Sequence[Entry]
    guest_hardware: Mapping[str, Sequence[str]]
    missing_drivers: Sequence[Entry]
    missing_pool_types: Mapping[str, str]
    domains: Sequence[CheckedDomain]
    #: All facts as the host reports them, for properties that the store keeps as they are.
    reported: Mapping[str, Any]


class CheckedReport(NamedTuple):
    """The report of a hypervisor after its check.

    - untold: the domains that cannot be recorded.
    - sentences: sentences about domains that were changed or left out.
    """

    facts: HostFacts
    untold: list[Occupant]
    sentences: list[str]
