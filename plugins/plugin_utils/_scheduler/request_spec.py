# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One request for capacity, checked and in one form."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from .._common import resource_classes
from .._common.errors import InvalidSpecs
from .._common.validation import check_keys, shown
from .._numa.device_requests import Alias, PciRequest, request_of_data
from .._numa.guest import GuestConstraints
from .._numa.pinning import topology_of
from .._numa.request import HostRequest, read_request
from .._records.claims import RecordedRequest
from . import resource_specs
from .errors import RequestError
from .request_fields import (
    Flavor,
    Image,
    ServerGroupRequest,
    extra_specs,
    optional_uuid,
    own_extra_specs,
    read_amount,
    read_destination,
    read_flavor,
    read_group,
    read_hints,
    read_image,
    read_names,
    read_ports,
    read_retry,
    read_scheduler,
    read_text,
)

KEYS = (
    "name",
    "uuid",
    "vcpus",
    "memory_mb",
    "disk_gb",
    "extra_specs",
    "traits",
    "resources",
    "availability_zone",
    "server_group",
    "hints",
    "ignore_hosts",
    "host",
    "node",
    "force_hosts",
    "force_nodes",
    "requested_destination",
    "count",
    "num_instances",
    "uuids",
    "flavor",
    "image",
    "networks",
    "retry",
    "project",
    "user",
    "scheduler",
)
#: The maximum of instances of one request: a typing error must not fill the memory.
MAX_INSTANCES = 10000


@dataclass(frozen=True)
class RequestSpec:
    """The requirements of one instance.

    Amounts are whole numbers: ``resources`` maps a resource class (VCPU, MEMORY_MB in MiB, DISK_GB
    in GiB, any other) to an amount > 0; a class with the requested amount 0 is left out, as in
    N1.3. ``groups`` (resource_specs.ResourceGroup): the parts of these amounts that must come from
    one provider each; ``group_policy``: isolate if these providers must be different, none if not;
    None without groups.

    ``hints`` maps same_host / different_host to tuples of instance uuids or names, query to the
    JSON query as lists, build_near_host_ip and cidr to text.
    ``host``, ``node``: the requested destination; all host filters must pass it.
    ``force_hosts``, ``force_nodes``: the only hosts and nodes; of the host filters only the filters
    of room run.
    ``retry``: (host, node) pairs that were tried and failed.
    ``scheduler``: policy keys for this request alone (Policy.of); None without any.
    ``preferred_cell``, ``cross_cell``: the preferred cell of a move, and True if it may leave this
    cell.
    ``own_specs``: extra specs of the request in addition to its flavor; they override the flavor's.
    ``ignore_nodes`` (compute node names or provider uuids) is for planners; requests cannot set it.
    ``host_request``: cells, pinned CPUs, pages and PCI devices (N11.1, N12.2).
    ``required_traits``, ``forbidden_traits``: traits of the node that follow from the host_request;
    traits in extra specs are not among them.
    """

    name: str
    resources: Mapping[str, int]
    uuid: str | None = None
    availability_zone: str | None = None
    server_group: ServerGroupRequest | None = None
    hints: Mapping[str, Any] = field(default_factory=dict)
    ignore_hosts: tuple[str, ...] = ()
    ignore_nodes: tuple[str, ...] = ()
    host: str | None = None
    project: str | None = None
    user: str | None = None
    node: str | None = None
    force_hosts: tuple[str, ...] = ()
    force_nodes: tuple[str, ...] = ()
    flavor: Flavor | None = None
    image: Image | None = None
    retry: tuple[tuple[str, str], ...] = ()
    preferred_cell: str | None = None
    cross_cell: bool = False
    scheduler: Mapping[str, object] | None = None
    groups: tuple[resource_specs.ResourceGroup, ...] = ()
    group_policy: str | None = None
    own_specs: Mapping[str, str] = field(default_factory=dict)
    host_request: HostRequest = HostRequest()
    required_traits: frozenset[str] = frozenset()
    forbidden_traits: frozenset[str] = frozenset()

    @property
    def forced(self) -> bool:
        """True if the request names the only hosts or nodes that it may go to, even if host filters
        reject them.
        """
        return bool(self.force_hosts or self.force_nodes)

    @property
    def extra_specs(self) -> Mapping[str, str]:
        of_flavor = self.flavor.extra_specs if self.flavor is not None else {}
        return {**of_flavor, **self.own_specs} if self.own_specs else of_flavor

    @property
    def vcpus(self) -> int:
        """The number of vCPUs of the guest, pinned ones too."""
        return self.host_request.vcpus or self.resources.get("VCPU", 0) or 1

    @property
    def kept_specs(self) -> Mapping[str, str]:
        """The extra specs of the instance itself; the extra specs of a flavor that has only a name
        are read by the name again.
        """
        return (
            self.extra_specs if self.flavor is not None and self.flavor.in_place else self.own_specs
        )

    @property
    def image_properties(self) -> Mapping[str, Any]:
        return self.image.properties if self.image is not None else {}

    def recorded(self) -> RecordedRequest:
        """Return the data of a selection without the resources, for the record of the instance."""
        recorded: RecordedRequest = {
            "flavor": self.flavor.name if self.flavor is not None else None,
            "extra_specs": dict(self.kept_specs) or None,
            "image": dict(self.image.properties) or None if self.image is not None else None,
            "image_name": self.image.name or None if self.image is not None else None,
            "image_id": self.image.id if self.image is not None else None,
            "image_format": self.image.disk_format if self.image is not None else None,
        }
        if not self.host_request.is_empty:
            recorded["host_request"] = self.host_request.as_data()
        return recorded

    def is_equivalent(self, other: RequestSpec | None) -> bool:
        """Return True if two requests differ in name and uuid at most, so that one answer serves
        both.
        """
        return other is not None and (self is other or _EQUIVALENCE(self) == _EQUIVALENCE(other))

    @property
    def key(self) -> str:
        """The key of this instance in the host states: its uuid, otherwise its name."""
        return self.uuid or self.name

    @property
    def size(self) -> str:
        """The amounts for people: ``1 vCPU, 64 MiB, 1 GiB``."""
        return resource_classes.size_text(self.resources)

    @classmethod
    def from_request(
        cls,
        request: Mapping[str, Any],
        flavors: Mapping[str, Mapping[str, Any]] | None = None,
        images: Mapping[str, Mapping[str, Any]] | None = None,
        who: str | None = None,
        aliases: Mapping[str, Alias] | None = None,
    ) -> RequestSpec:
        """Make the spec of a request that a user wrote.

        :param request: mapping with the keys in KEYS; vcpus and memory_mb (MiB) >= 1, disk_gb (GiB)
            >= 0, all whole numbers; a missing size is taken from the flavor. For a count above 1
            there is ``expand``.
        :param flavors, images: {name: mapping with FLAVOR_KEYS or IMAGE_KEYS}, the definitions of
            the store.
        :param who: the start of an error message; by default the name of the request.
        :param aliases: aliases of PCI devices, from the policy; None: PCI devices are not read.
        :raises RequestError: a value is wrong; the message names the key and the expected value.
        """
        specs = cls.expand(request, flavors, images, who, aliases)
        if len(specs) != 1:
            raise RequestError(f"{who or _who(request['name'])}: 'count' must be 1 here.")
        return specs[0]

    @classmethod
    def expand(
        cls,
        request: Mapping[str, object],
        flavors: Mapping[str, Mapping[str, object]] | None = None,
        images: Mapping[str, Mapping[str, object]] | None = None,
        who: str | None = None,
        aliases: Mapping[str, Alias] | None = None,
    ) -> list[RequestSpec]:
        """Make the number of specs that the count of a request gives; see from_request.

        Several specs have the names NAME-1, NAME-2, ... and the uuids of ``uuids``.
        """
        if not isinstance(request, Mapping):
            raise RequestError(
                "A request must be a mapping with name, vcpus, memory_mb and disk_gb, not"
                f" {shown(request)}."
            )
        name = read_text(request, "name", "A request", required=True)
        who = who or _who(name)
        check_keys(who, request, KEYS, refuse=RequestError)
        flavor, amounts = read_flavor(request, who, flavors)
        own = own_extra_specs(request, who)
        specs = {**(flavor.extra_specs if flavor is not None else {}), **own}
        image = read_image(request.get("image"), who, images)
        overrides, groups, group_policy = resource_specs.from_extra_specs(specs, who)
        host_request, constraints = _read_host_request(
            who, amounts, specs, image, aliases, read_ports(request.get("networks"), who)
        )
        if host_request.topology is None:
            _refuse_cells(who, specs, image)
        if constraints.resources:
            amounts = {
                **{rc: amount for rc, amount in amounts.items() if rc != "VCPU"},
                **constraints.resources,
            }
        amounts = {**resource_specs.not_replaced(amounts, overrides, groups), **overrides}
        amounts.update(
            resource_specs.from_request(request.get("resources"), resource_classes.KEYS, who)
        )
        devices = resource_specs.of_devices(host_request, groups, who)
        if devices:
            groups, group_policy = (
                groups + devices,
                group_policy or specs.get("group_policy", "none"),
            )
        destination = read_destination(request, who)
        hints = read_hints(request.get("hints"), who)
        group = read_group(request.get("server_group"), who)
        if "group" in hints:
            hinted = read_group(hints.pop("group"), who)
            if group is not None and hinted is not None and group.name != hinted.name:
                raise RequestError(
                    f"{who} names the server group {group.name} and by hint the group"
                    f" {hinted.name}; keep one."
                )
            group = group or hinted
        spec = cls(
            name=name,
            resources=resource_specs.total(amounts, groups),
            groups=groups,
            group_policy=group_policy,
            uuid=optional_uuid(request, who),
            availability_zone=read_text(request, "availability_zone", who),
            server_group=group,
            hints=hints,
            ignore_hosts=read_names(request.get("ignore_hosts"), "ignore_hosts", who),
            host=destination["host"],
            node=destination["node"],
            preferred_cell=destination["cell"],
            cross_cell=destination["cross_cell"],
            force_hosts=read_names(request.get("force_hosts"), "force_hosts", who),
            force_nodes=read_names(request.get("force_nodes"), "force_nodes", who),
            flavor=flavor,
            image=image,
            retry=read_retry(request.get("retry"), who),
            project=read_text(request, "project", who),
            user=read_text(request, "user", who),
            scheduler=read_scheduler(request.get("scheduler"), who),
            own_specs=own,
            required_traits=constraints.required,
            forbidden_traits=constraints.forbidden,
        )
        # Allocation ratios do not limit a forced host (N11.4).
        spec = replace(spec, host_request=replace(host_request, with_limits=not spec.forced))
        if request.get("count") is not None and request.get("num_instances") is not None:
            raise RequestError(f"{who}: 'count' and 'num_instances' are the same; keep one.")
        key = "num_instances" if request.get("num_instances") is not None else "count"
        count = read_amount(request, key, who, least=1, default=1)
        if count > MAX_INSTANCES:
            raise RequestError(
                f"{who}: '{key}' is {count}; ask for {MAX_INSTANCES} at a time at most."
            )
        uuids = read_names(request.get("uuids"), "uuids", who)
        if uuids and len(uuids) != count:
            raise RequestError(
                f"{who}: 'uuids' has {len(uuids)} entries for {count} instances; give one each."
            )
        if count == 1:
            return [
                (
                    replace(spec, uuid=optional_uuid({"uuids": uuids[0]}, who, "uuids"))
                    if uuids
                    else spec
                )
            ]
        if spec.uuid is not None:
            raise RequestError(f"{who}: 'uuid' is for one instance; give a list as 'uuids'.")
        return [
            replace(
                spec,
                name=f"{name}-{number}",
                uuid=optional_uuid({"uuids": uuids[number - 1]}, who, "uuids") if uuids else None,
            )
            for number in range(1, count + 1)
        ]

    @staticmethod
    def likeness(instance: Mapping[str, object]) -> tuple[object, ...]:
        """Return a key that is equal for instances with from_instance() results that differ in
        name, uuid and server group at most.
        """
        values = [
            instance.get(key)
            for key in (
                "vcpus",
                "memory_mb",
                "disk_gb",
                "flavor",
                "availability_zone",
                "project",
                "user",
            )
        ]
        structures = (
            "extra_specs",
            "image",
            "image_name",
            "image_id",
            "image_format",
            "cells",
            "pci_requests",
        )
        return (
            *values,
            *[repr(instance[key]) if instance.get(key) else None for key in structures],
        )

    def twin(
        self, name: str, uuid: str | None, server_group: ServerGroupRequest | None
    ) -> RequestSpec:
        """Return this spec for another instance. It shares everything else with this one, and takes
        a tenth of the time of replace().
        """
        found = object.__new__(type(self))
        found.__dict__.update(self.__dict__, name=name, uuid=uuid, server_group=server_group)
        return found

    @classmethod
    def from_instance(cls, instance: Mapping[str, Any]) -> RequestSpec:
        """Make the spec of an existing instance, to find another host for it.

        :param instance: mapping with name, uuid, vcpus, memory_mb and disk_gb, and if known
            availability_zone, server_group, project, user, flavor (name), extra_specs, image
            (properties), image_name, image_id, image_format (its disk format), cells: its share of
            the NUMA cells of its host, and pci_requests: the requests of its claim for PCI devices.
        :raises RequestError: an extra spec of its flavor cannot be read.
        """
        amounts = resource_classes.to_resources(instance)
        flavor, group = instance.get("flavor"), instance.get("server_group")
        image, name, identity, disk_format = (
            instance.get(key) for key in ("image", "image_name", "image_id", "image_format")
        )
        cells = instance.get("cells")
        specs = extra_specs(instance, f"Instance {instance['name']}")
        return cls(
            name=instance["name"],
            uuid=instance["uuid"],
            resources={rc: amount for rc, amount in amounts.items() if amount},
            availability_zone=instance.get("availability_zone") or None,
            server_group=ServerGroupRequest(group) if group else None,
            project=instance.get("project") or None,
            user=instance.get("user") or None,
            flavor=Flavor(flavor, specs) if flavor else None,
            own_specs={} if flavor else specs,
            image=(
                Image(name or "", dict(image or {}), identity, disk_format)
                if image or name or identity or disk_format
                else None
            ),
            host_request=HostRequest(
                topology_of(cells, instance["vcpus"]) if cells else None,
                tuple(request_of_data(each) for each in instance.get("pci_requests") or ()),
            ),
        )


def _who(name: str) -> str:
    return f"Request '{name}'"


def _read_host_request(
    who: str,
    amounts: Mapping[str, int],
    specs: Mapping[str, str],
    image: Image | None,
    aliases: Mapping[str, Alias] | None,
    ports: Sequence[PciRequest],
) -> tuple[HostRequest, GuestConstraints]:
    """Read cells, pinned CPUs, pages and PCI devices of a request.

    :param amounts: by resource class, as in the flavor or the request.
    :raises RequestError: extra specs and image properties are wrong or contradict each other.
    """
    properties = image.properties if image is not None else None
    try:
        return read_request(
            amounts["VCPU"], amounts["MEMORY_MB"], specs, properties, aliases, ports
        )
    except InvalidSpecs as problem:
        raise RequestError(f"{who}: {problem}") from None


def _refuse_cells(who: str, specs: Mapping[str, str], image: Image | None) -> None:
    """Refuse sizes of cells of a guest without cells. Nova ignores them."""
    names = ("hw:numa_cpus.", "hw:numa_mem.", "hw_numa_cpus.", "hw_numa_mem.")
    keys = [
        key
        for key in (*specs, *(image.properties if image is not None else ()))
        if key.startswith(names)
    ]
    if keys:
        raise RequestError(
            f"{who}: {keys[0]} is the size of a NUMA cell, and nothing says how many cells there"
            " are. Set hw:numa_nodes, or take it out."
        )


#: The values of a spec, without name and uuid.
_EQUIVALENCE = operator.attrgetter(
    *(each.name for each in fields(RequestSpec) if each.name not in ("name", "uuid"))
)
