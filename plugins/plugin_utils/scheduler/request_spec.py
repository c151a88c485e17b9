# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One request for room, checked and in one shape."""

from __future__ import annotations

import ipaddress
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils import resource_classes
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler import json_query, resource_specs
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.errors import RequestError
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.extra_spec_operators import predicates, requirement
from ansible_collections.drover.compute.plugins.plugin_utils.validation import check_keys, read_uuid, read_whole, shown

#: The first two are for the server group filters, the soft ones for the weighers.
GROUP_POLICIES = ("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")

KEYS = (
    "name",
    "uuid",
    "vcpus",
    "memory_mb",
    "disk_gb",
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
    "num_instances",
    "uuids",
    "flavor",
    "image",
    "retry",
    "project",
    "user",
    "scheduler",
)
HINTS = ("same_host", "different_host", "query", "build_near_host_ip", "cidr", "group")
FLAVOR_KEYS = ("name", "vcpus", "memory_mb", "disk_gb", "root_gb", "ephemeral_gb", "swap_mb", "extra_specs")
IMAGE_KEYS = ("name", "id", "disk_format", "properties")
DESTINATION_KEYS = ("host", "node", "cell", "allow_cross_cell_move")
GROUP_KEYS = ("name", "policy", "max_server_per_host")

#: The extra spec that is a number to be reached.
MAXPHYSADDR = "hw:maxphysaddr_bits"
#: As many instances as one request may ask for; a slip of the finger must not fill the memory.
MAX_INSTANCES = 10000


@dataclass(frozen=True)
class ServerGroupRequest:
    """The server group a request names.

    ``policy`` None means: it must already be in the store.
    ``max_server_per_host`` (anti-affinity only) None means 1 for a new group.
    """

    name: str
    policy: str | None = None
    max_server_per_host: int | None = None


@dataclass(frozen=True)
class Flavor:
    """A flavor as the request names it; extra_specs maps keys to text."""

    name: str
    extra_specs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Image:
    """An image as the request names it; its properties are plain values."""

    name: str
    properties: Mapping[str, object] = field(default_factory=dict)
    id: str | None = None
    disk_format: str | None = None


@dataclass(frozen=True)
class RequestSpec:
    """What one instance asks for.

    Amounts are whole numbers: ``resources`` maps a resource class (VCPU, MEMORY_MB in MiB,
    DISK_GB in GiB, any other) to an amount > 0; a class that was asked with 0 is left out, as in
    N1.3.
    ``groups`` (resource_specs.ResourceGroup): what of that must come from one provider each;
    ``group_policy``: isolate if they must be different ones, none if not; None without groups.

    ``hints`` maps same_host / different_host to tuples of instance uuids or names, query to the
    JSON query as lists, build_near_host_ip and cidr to text.
    ``host``, ``node``: the requested destination; all host filters must pass it.
    ``force_hosts``, ``force_nodes``: the only ones; of the host filters just those for room are asked.
    ``retry``: (host, node) pairs that were tried and failed.
    ``scheduler``: policy keys for this request alone (Policy.of); None without any.
    ``preferred_cell``, ``cross_cell``: where a move would like to stay, and whether it may leave.
    ``ignore_nodes`` (compute node names or provider uuids) is for planners; requests cannot set it.
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

    @property
    def forced(self) -> bool:
        """Does the request name the only hosts or nodes it may go to, whatever host filters say?"""
        return bool(self.force_hosts or self.force_nodes)

    @property
    def extra_specs(self) -> Mapping[str, str]:
        return self.flavor.extra_specs if self.flavor is not None else {}

    @property
    def image_properties(self) -> Mapping[str, Any]:
        return self.image.properties if self.image is not None else {}

    def is_equivalent(self, other: RequestSpec | None) -> bool:
        """Do two requests differ in name and uuid at most, so that one answer serves both?"""
        return other is not None and (self is other or _EQUIVALENCE(self) == _EQUIVALENCE(other))

    @property
    def key(self) -> str:
        """What this instance is called in the host states: its uuid, else its name."""
        return self.uuid or self.name

    @property
    def size(self) -> str:
        """The amounts for people: ``1 vCPU, 64 MiB, 1 GiB``."""
        return resource_classes.size_text(self.resources)

    @classmethod
    def from_request(cls, request: Mapping[str, Any], flavors: Mapping[str, Mapping[str, Any]] | None = None) -> RequestSpec:
        """A spec from a request mapping as users write it.

        :param request: mapping with the keys in KEYS but num_instances above 1, for which there is
            ``expand``; vcpus and memory_mb (MiB) >= 1, disk_gb (GiB) >= 0, all whole numbers, each
            from the flavor when the request does not give it.
        :param flavors: {name: mapping with FLAVOR_KEYS}, those of the store.
        :raises RequestError: naming the key and what was expected.
        """
        specs = cls.expand(request, flavors)
        if len(specs) != 1:
            raise RequestError(f"Request '{request['name']}': 'num_instances' must be 1 here.")
        return specs[0]

    @classmethod
    def expand(cls, request: Mapping[str, Any], flavors: Mapping[str, Mapping[str, Any]] | None = None) -> list[RequestSpec]:
        """The specs of a request, as many as its num_instances [1]; see from_request.

        With more than one, the names are NAME-1, NAME-2, ... and the uuids those of ``uuids``.
        """
        if not isinstance(request, Mapping):
            raise RequestError(f"A request must be a mapping with name, vcpus, memory_mb and disk_gb, not {shown(request)}.")
        name = _text(request, "name", "A request", required=True)
        who = f"Request '{name}'"
        check_keys(who, request, KEYS, refuse=RequestError)
        flavor, amounts = _flavor(request, who, flavors)
        specs = flavor.extra_specs if flavor is not None else {}
        overrides, groups, group_policy = resource_specs.from_extra_specs(specs, who)
        amounts = {**resource_specs.not_replaced(amounts, overrides, groups), **overrides}
        amounts.update(resource_specs.from_request(request.get("resources"), resource_classes.KEYS, who))
        destination = _destination(request, who)
        hints = _hints(request.get("hints"), who)
        group = _group(request.get("server_group"), who)
        if "group" in hints:
            hinted = _group(hints.pop("group"), who)
            if group is not None and hinted is not None and group.name != hinted.name:
                raise RequestError(f"{who} names the server group {group.name} and by hint the group {hinted.name}; keep one.")
            group = group or hinted
        spec = cls(
            name=name,
            resources=resource_specs.total(amounts, groups),
            groups=groups,
            group_policy=group_policy,
            uuid=_uuid(request, who),
            availability_zone=_text(request, "availability_zone", who),
            server_group=group,
            hints=hints,
            ignore_hosts=_names(request.get("ignore_hosts"), "ignore_hosts", who),
            host=destination["host"],
            node=destination["node"],
            preferred_cell=destination["cell"],
            cross_cell=destination["cross_cell"],
            force_hosts=_names(request.get("force_hosts"), "force_hosts", who),
            force_nodes=_names(request.get("force_nodes"), "force_nodes", who),
            flavor=flavor,
            image=_image(request.get("image"), who),
            retry=_retry(request.get("retry"), who),
            project=_text(request, "project", who),
            user=_text(request, "user", who),
            scheduler=_scheduler(request.get("scheduler"), who),
        )
        count = _amount(request, "num_instances", who, least=1, default=1)
        if count > MAX_INSTANCES:
            raise RequestError(f"{who}: 'num_instances' is {count}; ask for {MAX_INSTANCES} at a time at most.")
        uuids = _names(request.get("uuids"), "uuids", who)
        if uuids and len(uuids) != count:
            raise RequestError(f"{who}: 'uuids' has {len(uuids)} entries for {count} instances; give one each.")
        if count == 1:
            return [replace(spec, uuid=_uuid({"uuids": uuids[0]}, who, "uuids")) if uuids else spec]
        if spec.uuid is not None:
            raise RequestError(f"{who}: 'uuid' is for one instance; give a list as 'uuids'.")
        return [
            replace(spec, name=f"{name}-{number}", uuid=_uuid({"uuids": uuids[number - 1]}, who, "uuids") if uuids else None)
            for number in range(1, count + 1)
        ]

    @classmethod
    def from_instance(cls, instance: Mapping[str, Any]) -> RequestSpec:
        """The spec of an instance that exists, to find it another place.

        :param instance: mapping with name, uuid, vcpus, memory_mb and disk_gb, and if known
            availability_zone, server_group, project, user, flavor (name), extra_specs and image (properties).
        :raises RequestError: an extra spec of its flavor cannot be read.
        """
        amounts = resource_classes.to_resources(instance)
        flavor, image, group = instance.get("flavor"), instance.get("image"), instance.get("server_group")
        return cls(
            name=instance["name"],
            uuid=instance["uuid"],
            resources={rc: amount for rc, amount in amounts.items() if amount},
            availability_zone=instance.get("availability_zone") or None,
            server_group=ServerGroupRequest(group) if group else None,
            project=instance.get("project") or None,
            user=instance.get("user") or None,
            flavor=Flavor(flavor, extra_specs(instance, f"Instance {instance['name']}")) if flavor else None,
            image=Image("", dict(image)) if image else None,
        )


#: Everything of a spec but its name and uuid.
_EQUIVALENCE = operator.attrgetter(*(each.name for each in fields(RequestSpec) if each.name not in ("name", "uuid")))


def is_line(value: Any) -> bool:
    """Is it a line of text that a database and a terminal can take?"""
    if not isinstance(value, str) or not value.strip():
        return False
    return not any(ord(char) < 32 or 0xD800 <= ord(char) <= 0xDFFF for char in value)


def _text(request: Mapping[str, Any], key: str, who: str, required: bool = False) -> Any:
    value = request.get(key)
    if value is None or value == "":
        if required:
            raise RequestError(f"{who} has no '{key}'; give it one.")
        return None
    if not is_line(value):
        raise RequestError(f"{who}: '{key}' must be a line of text, not {shown(value)}.")
    return str(value)


def _amount(request: Mapping[str, Any], key: str, who: str, least: int, default: int | None = None) -> int:
    value = request.get(key, default)
    if value is None:
        raise RequestError(f"{who} has no '{key}'; give a whole number, {least} or more.")
    return read_whole(f"{who}: '{key}'", value, least, refuse=RequestError)


def _uuid(request: Mapping[str, Any], who: str, key: str = "uuid") -> str | None:
    text = _text(request, key, who)
    if text is None:
        return None
    return read_uuid(f"{who}: '{key}'", text, RequestError)


def _names(value: Any, key: str, who: str) -> tuple[str, ...]:
    if value is None:
        return ()
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, (list, tuple, set, frozenset)):
        raise RequestError(f"{who}: '{key}' must be a name or a list of names, not {shown(value)}.")
    for item in values:
        if not is_line(item):
            raise RequestError(f"{who}: '{key}' must hold names only, not {shown(item)}.")
    return tuple(str(item) for item in values)


def _hints(value: Any, who: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise RequestError(f"{who}: 'hints' must be a mapping, not {shown(value)}.")
    check_keys(who, value, HINTS, "hint", RequestError)
    found = {str(key): _hint(str(key), item, who) for key, item in value.items() if item is not None}
    if "cidr" in found and "build_near_host_ip" not in found:
        raise RequestError(f"{who}: the hint 'cidr' goes with 'build_near_host_ip'; give both or neither.")
    if "build_near_host_ip" in found:
        _network(found, who)
    return {key: item for key, item in found.items() if item}


def _hint(key: str, value: Any, who: str) -> Any:
    if key in ("same_host", "different_host"):
        return _names(value, f"hints.{key}", who)
    # Nova's API gives every hint as a list.
    if key != "query" and isinstance(value, (list, tuple)) and len(value) == 1:
        value = value[0]
    if key == "group":
        return value
    if key == "query":
        wrapped = isinstance(value, list) and len(value) == 1 and isinstance(value[0], (str, list))
        if wrapped and value[0] not in json_query.OPERATORS:
            value = value[0]
        try:
            return json_query.parse(value)
        except ValueError as problem:
            raise RequestError(f"{who}: the hint 'query' cannot be read: {problem}.") from None
    if not isinstance(value, str):
        raise RequestError(f"{who}: the hint '{key}' must be text, not {shown(value)}.")
    return str(value)


def _network(hints: Mapping[str, Any], who: str) -> None:
    address, cidr = hints["build_near_host_ip"], hints.get("cidr") or "/24"
    try:
        ipaddress.ip_address(address)
    except ValueError:
        raise RequestError(
            f"{who}: the hint 'build_near_host_ip' must be an IP address, not {shown(address)}; a host's name will not do."
        ) from None
    try:
        ipaddress.ip_network(f"{address}/{cidr.lstrip('/')}", strict=False)
    except ValueError:
        raise RequestError(f"{who}: the hint 'cidr' must be like /24, not {shown(cidr)}.") from None


def _flavor(request: Mapping[str, Any], who: str, flavors: Mapping[str, Mapping[str, Any]] | None) -> tuple[Flavor | None, dict[str, int]]:
    """(Flavor or None, {class: amount})."""
    value = request.get("flavor")
    found: Mapping[str, Any] = {}
    flavor = None
    if isinstance(value, Mapping):
        check_keys(f"{who}: 'flavor'", value, FLAVOR_KEYS, refuse=RequestError)
        found = value
        flavor = Flavor(_text(value, "name", f"{who}: the flavor", required=True), extra_specs(value, who))
    elif value is not None and value != "":
        name = _text(request, "flavor", who)
        if flavors and name in flavors:
            found = flavors[name]
            flavor = Flavor(name, extra_specs(found, who))
        elif request.get("vcpus") is None:
            has = f"it has: {', '.join(sorted(flavors))}" if flavors else "it has none"
            raise RequestError(
                f"{who}: flavor '{name}' is not in the store ({has}); make it with drover.compute.flavor, or give vcpus and memory_mb."
            )
        else:
            flavor = Flavor(name)
    disk = found.get("disk_gb")
    if disk is None and any(found.get(key) is not None for key in ("root_gb", "ephemeral_gb", "swap_mb")):
        parts = [_amount(found, key, who, least=0, default=0) for key in ("root_gb", "ephemeral_gb", "swap_mb")]
        disk = parts[0] + parts[1] - -parts[2] // 1024
    defaults = {"vcpus": found.get("vcpus"), "memory_mb": found.get("memory_mb"), "disk_gb": disk}
    given = {key: request[key] for key in defaults if request.get(key) is not None}
    asked = {key: value for key, value in {**defaults, **given}.items() if value is not None}
    amounts = {
        "VCPU": _amount(asked, "vcpus", who, least=1),
        "MEMORY_MB": _amount(asked, "memory_mb", who, least=1),
        "DISK_GB": _amount(asked, "disk_gb", who, least=0, default=0),
    }
    return flavor, amounts


def extra_specs(flavor: Mapping[str, Any], who: str) -> dict[str, str]:
    """The extra specs of a flavor (a mapping) as text.

    :param who: whose they are, for messages.
    :raises RequestError: naming the key and what was expected.
    """
    value = flavor.get("extra_specs")
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise RequestError(f"{who}: 'extra_specs' must be a mapping of key to text, not {shown(value)}.")
    specs = {}
    for key, text in value.items():
        if isinstance(text, (Mapping, list, tuple)) or text is None:
            raise RequestError(f"{who}: the extra spec '{key}' must be text, not {shown(text)}.")
        # YAML makes booleans and numbers of what Nova keeps as text.
        text = str(text).lower() if isinstance(text, bool) else str(text)
        scope = str(key).split(":", maxsplit=1)[0]
        if scope == "trait" and text not in ("required", "forbidden"):
            raise RequestError(f"{who}: the extra spec '{key}' must be required or forbidden, not {shown(text)}.")
        judged = ":" not in str(key) or scope in ("", "capabilities", "aggregate_instance_extra_specs")
        if judged or key == MAXPHYSADDR:
            try:
                requirement(f">= {text}" if key == MAXPHYSADDR else text)
            except ValueError as problem:
                raise RequestError(f"{who}: the extra spec '{key}' is {shown(text)}, but {problem}.") from None
        specs[str(key)] = text
    return specs


def _image(value: Any, who: str) -> Image | None:
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return Image(str(value))
    if not isinstance(value, Mapping):
        raise RequestError(f"{who}: 'image' must be a name or a mapping with name and properties, not {shown(value)}.")
    check_keys(f"{who}: 'image'", value, IMAGE_KEYS, refuse=RequestError)
    properties = value.get("properties")
    if properties is not None and not isinstance(properties, Mapping):
        raise RequestError(f"{who}: 'image.properties' must be a mapping, not {shown(properties)}.")
    properties = {str(key): item for key, item in (properties or {}).items() if item is not None}
    if "img_hv_requested_version" in properties:
        try:
            predicates(str(properties["img_hv_requested_version"]))
        except ValueError as problem:
            raise RequestError(f"{who}: the image property 'img_hv_requested_version' {problem}.") from None
    if "hw_maxphysaddr_bits" in properties:
        properties["hw_maxphysaddr_bits"] = _amount(properties, "hw_maxphysaddr_bits", f"{who}: the image", least=1)
    traits = properties.get("traits_required", [])
    if not isinstance(traits, (str, list, tuple)) or not all(isinstance(each, str) for each in traits):
        raise RequestError(f"{who}: the image property 'traits_required' must be a list of traits, not {shown(traits)}.")
    identity = _text(value, "id", f"{who}: the image")
    name = _text(value, "name", f"{who}: the image") or identity or ""
    return Image(name, properties, identity, _text(value, "disk_format", f"{who}: the image"))


def _destination(request: Mapping[str, Any], who: str) -> dict[str, Any]:
    value = request.get("requested_destination")
    if value is None:
        value = {}
    if not isinstance(value, Mapping):
        raise RequestError(f"{who}: 'requested_destination' must be a mapping with host and node, not {shown(value)}.")
    check_keys(f"{who}: 'requested_destination'", value, DESTINATION_KEYS, refuse=RequestError)
    for key in ("host", "node"):
        if value.get(key) and request.get(key) and value[key] != request[key]:
            raise RequestError(f"{who} gives '{key}' twice, also under 'requested_destination'; keep one.")
    where = {**request, **{key: item for key, item in value.items() if item is not None}}
    cross = value.get("allow_cross_cell_move") or False
    if not isinstance(cross, bool):
        raise RequestError(f"{who}: 'requested_destination.allow_cross_cell_move' must be true or false.")
    return {
        "host": _text(where, "host", who),
        "node": _text(where, "node", who),
        "cell": _text(value, "cell", who),
        "cross_cell": cross,
    }


def _retry(value: Any, who: str) -> tuple[tuple[str, str], ...]:
    """[(host, node)] out of mappings, pairs or names of hosts, as Nova's retry data has them."""
    if isinstance(value, Mapping):
        value = value.get("hosts")
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        raise RequestError(f"{who}: 'retry' must be a list of mappings with host and node, not {shown(value)}.")
    found = []
    for item in value:
        if isinstance(item, Mapping):
            item = (item.get("host"), item.get("node"))
        if not isinstance(item, (list, tuple)) or len(item) != 2 or not all(isinstance(each, str) for each in item):
            raise RequestError(f"{who}: 'retry' must hold mappings with host and node, not {shown(item)}.")
        found.append((str(item[0]), str(item[1])))
    return tuple(found)


def _scheduler(value: Any, who: str) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise RequestError(f"{who}: 'scheduler' must be a mapping of policy keys, not {shown(value)}.")
    return dict(value) or None


def _group(value: Any, who: str) -> ServerGroupRequest | None:
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return ServerGroupRequest(_text({"server_group": value}, "server_group", who))
    if not isinstance(value, Mapping):
        raise RequestError(
            f"{who}: 'server_group' must be the name of a server group, or a mapping with name and policy, not {shown(value)}."
        )
    check_keys(f"{who}: 'server_group'", value, GROUP_KEYS, refuse=RequestError)
    where = f"{who}: the server group"
    name = _text(value, "name", where, required=True)
    policy = _text(value, "policy", where)
    if policy is not None and policy not in GROUP_POLICIES:
        raise RequestError(f"{who}: server group '{name}' has the unknown policy '{policy}'; known: {', '.join(GROUP_POLICIES)}.")
    most = None
    if value.get("max_server_per_host") is not None:
        most = _amount(value, "max_server_per_host", f"{who}: server group '{name}'", least=1)
        # N8, os-server-groups: the rule is for anti-affinity only.
        if policy is not None and policy != "anti-affinity":
            raise RequestError(
                f"{who}: server group '{name}' has max_server_per_host, which goes with anti-affinity only; remove it or change the policy."
            )
    return ServerGroupRequest(name, policy, most)
