# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The types of a checked definition. tables.py has the meaning of each key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from .._records.flavors import ImageFields


class DiskSource(TypedDict, total=False):
    """An existing disk."""

    protocol: str
    name: str
    hosts: list[Any]
    identity: Any
    auth: Any
    path: str
    format: str


class DefinedDisk(TypedDict, total=False):
    """A disk of a definition."""

    #: GiB.
    size_gb: int
    image: str
    image_format: str
    path: str
    pool: str
    traits: list[str]
    source: DiskSource
    bus: str
    cache: str
    io: str
    discard: str
    serial: str
    iotune: dict[str, int]


class DefinedNetwork(TypedDict, total=False):
    """An interface of a definition."""

    bridge: str
    network: str
    physical_network: str
    vnic: str | None
    mac: str
    model: str | None
    vlan: Any
    mtu: int
    queues: int | None
    openvswitch: Any


class DefinedDrive(TypedDict, total=False):
    """A CD-ROM drive of a definition."""

    path: str | None
    bus: str


class GroupFields(TypedDict, total=False):
    """A server group."""

    name: str
    policy: str
    max_server_per_host: int
    max_moving: int


class Definition(TypedDict, total=False):
    """An instance of a definitions file. With its sizes after requests.complete()."""

    name: str
    count: int
    #: Their names, after identity.resolve().
    flavor: Any
    image: Any
    server_group: Any
    vcpus: int
    memory_mb: int
    disk_gb: int
    disks: list[DefinedDisk]
    networks: list[DefinedNetwork]
    extra_specs: dict[str, str]
    resources: dict[str, int]
    traits: dict[str, list[str]]
    availability_zone: str
    hints: Mapping[str, object]
    requested_destination: Mapping[str, object]
    ignore_hosts: list[str]
    force_hosts: list[str]
    force_nodes: list[str]
    scheduler: Mapping[str, object]
    project: str
    user: str
    cloud_init: Mapping[str, object]
    autostart: bool
    policy: Any
    labels: dict[str, str]
    domain_type: str
    firmware: str
    tpm: Any
    machine: str
    os_type: str
    cpu: Any
    graphics: Any
    video: Any
    console: Any
    guest_agent: bool
    watchdog: Any
    rng: Any
    boot: list[str]
    boot_menu: bool
    input_bus: str
    cdroms: list[DefinedDrive]
    #: present or absent; after identity.resolve() the state of its instance, new or unseen.
    state: str
    host: str | None
    uuid: str


class Resolved(Definition, total=False):
    """A definition with the instance of the store that it means."""

    node: str | None
    metadata: dict[str, str]
    #: The keys of the definition in guest.KEYS, with extra_specs and image_properties.
    guest: Mapping[str, Any]
    #: The images that its disks name.
    images: list[ImageFields]
    #: The argument of the lookup schedule.
    request: Any
    #: The selection of an instance that has its claim.
    selection: Any
