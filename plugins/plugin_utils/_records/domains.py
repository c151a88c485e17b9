# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts of a domain, as its host shows it."""

from __future__ import annotations

from typing import Any, TypedDict

from .instances import Binding, Disk, HostDevice
from .statuses import PowerState


class InterfaceFacts(TypedDict, total=False):
    """An interface of a domain."""

    mac: str | None
    type: str | None
    #: The network, the bridge or the device of the host.
    source: str | None
    model: str | None
    #: The device of the host that the guest has it by.
    target: str | None
    addresses: list[str]


class OtherFile(Disk, total=False):
    """A file, folder or volume of a domain that is no disk of its definition."""

    written: bool


class ReportedDomain(TypedDict, total=False):
    """A domain, as the module hypervisor_info describes it. Hosts given as data may leave out
    keys.
    """

    uuid: str
    name: str
    title: str | None
    state: PowerState
    persistent: bool
    autostart: bool
    managed_save: bool
    snapshots: bool
    #: Names of snapshots that no other host can have; None if they are not known.
    fixed_snapshots: list[str] | None
    vcpus: int
    memory_mb: int
    disks: list[Disk]
    interfaces: list[InterfaceFacts]
    hostdevs: list[HostDevice]
    #: See module_utils._domain.facts.NumaFacts.
    numa: Any
    metadata: dict[str, str]
    #: None for a domain that is off.
    running_vcpus: int | None
    running_memory_mb: int | None
    next_start_cpus: list[int]
    #: Disks that only the running guest has.
    running_disks: list[Disk]
    other_files: list[OtherFile]
    bindings: list[Binding]
    #: The definition of the next start.
    xml: str
