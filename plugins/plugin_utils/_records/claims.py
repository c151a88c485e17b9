# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Selections, why the scheduler made them, and the claims that are made from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from ansible_collections.drover.compute.plugins.module_utils._domain.facts import NumaBinding

if TYPE_CHECKING:
    # Python 3.10 does not have it in typing.
    from typing_extensions import NotRequired

#: {resource class: amount}: MEMORY_MB in MiB, DISK_GB in GiB, the others in pieces.
Resources = dict[str, int]
#: {provider uuid: amounts that are allocated at the provider}.
Allocations = dict[str, Resources]
#: {suffix of a resource group: uuids of the providers that meet it}, as in Placement.
Mappings = dict[str, list[str]]


class GroupDescription(TypedDict):
    """A server group; a claim creates it from this description if it is new."""

    name: str
    policy: str
    #: Only for anti-affinity.
    max_server_per_host: NotRequired[int | None]


class Stage(TypedDict):
    """A host filter or a limit that ran: how many hosts there were before and after it."""

    name: str
    before: int
    after: int
    rejected: int


class HostRejection(TypedDict):
    """Why one host filter rejects a host."""

    filter: str
    text: str


class NearMiss(TypedDict):
    """A host that fell at few host filters."""

    host: str
    node: str
    lacks: list[HostRejection]


class FailureExplanation(TypedDict):
    """Why there was no valid host.

    hosts: how many compute nodes there are; filters: up to the one that left nothing; nearest:
    hosts that fell at the fewest filters and by the least, best first; never: no host could hold
    the request even if it were empty.
    """

    hosts: int
    filters: list[Stage]
    nearest: list[NearMiss]
    never: bool


class Explanation(TypedDict):
    """Why a host was selected; without explanations the lists are empty.

    weighers: [{name, multiplier}]; top: [{host, node, weight, weighers: {name: {raw, normalised,
    multiplier}}}].
    """

    hosts: int
    filters: list[Stage]
    weighers: list[dict[str, Any]]
    top: list[dict[str, Any]]


class Destination(TypedDict):
    """A compute node that may take an instance; ``allocations`` where several providers could give
    its resources.

    mappings: the groups of PCI devices; missing if the request has no devices for Placement.
    """

    host: str
    node: str
    #: Uuid of the node's resource provider.
    provider: str
    weight: float
    allocations: NotRequired[Allocations | None]
    mappings: NotRequired[Mappings]


class RecordedRequest(TypedDict):
    """The parameters of an instance's request, without its resources.

    flavor: its name; extra_specs: the extra specs of the instance itself; image: its properties;
    image_format: its disk format.
    """

    flavor: str | None
    extra_specs: dict[str, str] | None
    image: dict[str, Any] | None
    image_name: str | None
    image_id: str | None
    image_format: str | None
    #: The needs of cells and PCI devices, as _numa.request.HostRequest.as_data() returns them;
    #: missing if there are none.
    host_request: NotRequired[dict[str, Any]]


class Selection(Destination, RecordedRequest):
    """The host for one instance, and its alternates in the order of the attempts."""

    name: str
    uuid: str | None
    cell: str | None
    resources: Resources
    server_group: GroupDescription | None
    availability_zone: str | None
    project: str | None
    user: str | None
    alternates: list[Destination]
    explanation: Explanation


class Alternate(TypedDict):
    """The part of a Destination that a claim needs; without ``node`` the only compute node of the
    host.
    """

    host: str
    node: NotRequired[str | None]
    allocations: NotRequired[Allocations | None]
    mappings: NotRequired[Mappings | None]


class ClaimRequest(Alternate):
    """The part of a Selection that a claim needs; people may write it, too; a server group is given
    by its name or by a description.
    """

    name: str
    uuid: str
    resources: Resources
    server_group: NotRequired[str | GroupDescription | None]
    availability_zone: NotRequired[str | None]
    project: NotRequired[str | None]
    user: NotRequired[str | None]
    flavor: NotRequired[str | None]
    extra_specs: NotRequired[dict[str, str] | None]
    image: NotRequired[dict[str, Any] | None]
    image_name: NotRequired[str | None]
    image_id: NotRequired[str | None]
    image_format: NotRequired[str | None]
    alternates: NotRequired[list[Alternate]]
    explanation: NotRequired[Explanation]
    #: See Recorded.
    host_request: NotRequired[dict[str, Any]]


class ClaimedDevice(TypedDict):
    """A PCI device of an instance."""

    address: str
    #: The number of the request that it meets; None if no claim gave it.
    request: int | None
    #: libvirt changes its driver.
    managed: bool
    dev_type: str
    #: On the host.
    interface: str | None
    live_migratable: bool


class ClaimedMdev(TypedDict):
    """A mediated device of an instance; parent: libvirt's name of the device that makes it."""

    uuid: str
    parent: str
    type: str


class HardwareClaim(TypedDict, total=False):
    """The NUMA cells and devices of an instance on its host, as its domain must define them."""

    #: The fact ``numa`` of its domain, as hypervisor_info returns it.
    numa: NumaBinding
    #: The PCI devices of the instance: address, request (the number of the request that the device
    #: meets), managed, dev_type, interface (on the host, or None).
    pci_devices: list[ClaimedDevice]
    mdevs: list[ClaimedMdev]


class ClaimedPools(TypedDict, total=False):
    """The storage pools of the host of a claim by their names, each with type and path."""

    pools: dict[str, dict[str, str | None]]


class Claim(TypedDict):
    """The claim of an instance and its place; host, node and provider are None if its compute node
    is gone.
    """

    uuid: str
    name: str
    resources: Resources
    host: str | None
    node: str | None
    provider: str | None
    #: The libvirt URI of the node, its architecture, and the best type of domain there. Missing
    #: without a node.
    uri: NotRequired[str | None]
    arch: NotRequired[str | None]
    domain_type: NotRequired[str]
    #: See HardwareClaim; missing if its domain needs none of it.
    numa: NotRequired[NumaBinding]
    pci_devices: NotRequired[list[ClaimedDevice]]
    mdevs: NotRequired[list[ClaimedMdev]]
    #: The storage pools of the host by their names, each with type and path; missing if it claims
    #: nothing of one.
    pools: NotRequired[dict[str, dict[str, str | None]]]
    #: The alternates after the claimed one.
    alternates: list[Alternate]
    #: False if the instance had its claim already.
    new: bool
