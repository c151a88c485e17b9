# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of a request, each read from the user's input, checked and in one form."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .._common import sizes
from .._common.errors import either
from .._common.validation import check_keys, did_you_mean, read_uuid, read_whole, shown, which_name
from .._numa.device_requests import VNICS, PciRequest, request_of_port
from . import json_query
from .errors import RequestError
from .extra_spec_operators import predicates, requirement

#: The first two policies are for the server group filters, the soft ones for the weighers.
GROUP_POLICIES = ("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")

HINTS = ("same_host", "different_host", "query", "build_near_host_ip", "cidr", "group")
FLAVOR_KEYS = (
    "name",
    "vcpus",
    "memory_mb",
    "disk_gb",
    "root_gb",
    "ephemeral_gb",
    "swap_mb",
    "extra_specs",
)
IMAGE_KEYS = ("name", "id", "disk_format", "properties")
TRAIT_KEYS = ("required", "forbidden")
DESTINATION_KEYS = ("host", "node", "cell", "allow_cross_cell_move")
PORT_KEYS = ("physical_network", "vnic")
GROUP_KEYS = ("name", "policy", "max_server_per_host")

#: The extra spec with a number that a host must reach.
MAXPHYSADDR = "hw:maxphysaddr_bits"


@dataclass(frozen=True)
class ServerGroupRequest:
    """The server group that a request names.

    ``policy`` None means that the group must already be in the store. ``max_server_per_host``
    (anti-affinity only) None means 1 for a new group.
    """

    name: str
    policy: str | None = None
    max_server_per_host: int | None = None


@dataclass(frozen=True)
class Flavor:
    """A flavor of a request; extra_specs maps keys to text.

    ``in_place``: the request has the flavor itself, not only its name.
    """

    name: str
    extra_specs: Mapping[str, str] = field(default_factory=dict)
    in_place: bool = False


@dataclass(frozen=True)
class Image:
    """An image of a request; its properties are plain values."""

    name: str
    properties: Mapping[str, object] = field(default_factory=dict)
    id: str | None = None
    disk_format: str | None = None


def is_line(value: Any) -> bool:
    """Return True if a value is a line of text that a database and a terminal can take."""
    if not isinstance(value, str) or not value.strip():
        return False
    return not any(ord(char) < 32 or 0xD800 <= ord(char) <= 0xDFFF for char in value)


def read_text(request: Mapping[str, object], key: str, who: str, required: bool = False) -> Any:
    """Read a line of text; None if the key is missing or empty.

    :raises RequestError: it is not a line of text, or it is required and missing.
    """
    value = request.get(key)
    if value is None or value == "":
        if required:
            raise RequestError(f"{who} has no '{key}'; give it one.")
        return None
    if not is_line(value):
        raise RequestError(f"{who}: '{key}' must be a line of text, not {shown(value)}.")
    return str(value)


def read_amount(
    request: Mapping[str, object], key: str, who: str, least: int, default: int | None = None
) -> int:
    """Read a whole number.

    :raises RequestError: it is not a whole number, or too small, or it is missing and has no
        default.
    """
    value = request.get(key, default)
    if value is None:
        raise RequestError(f"{who} has no '{key}'; give a whole number, {least} or more.")
    return read_whole(f"{who}: '{key}'", value, least, refuse=RequestError)


def read_size(
    request: Mapping[str, object], key: str, who: str, least: int, default: int | None = None
) -> int:
    """Read a size in MiB, or in GiB if the key ends in _gb.

    :raises RequestError: it is not a size, or too small, or it is missing and has no default.
    """
    value = request.get(key, default)
    unit = sizes.GIB if key.endswith("_gb") else sizes.MIB
    if value is None:
        raise RequestError(
            f"{who} has no '{key}'; give a number of {unit}, {least} or more, or a size such as"
            " 4GiB."
        )
    return sizes.read(f"{who}: '{key}'", value, unit, least, RequestError)


def optional_uuid(request: Mapping[str, object], who: str, key: str = "uuid") -> str | None:
    """Read a uuid; None if the key is missing."""
    text = read_text(request, key, who)
    if text is None:
        return None
    return read_uuid(f"{who}: '{key}'", text, RequestError)


def read_names(value: Any, key: str, who: str) -> tuple[str, ...]:
    """Read a name or a list of names."""
    if value is None:
        return ()
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, (list, tuple, set, frozenset)):
        raise RequestError(f"{who}: '{key}' must be a name or a list of names, not {shown(value)}.")
    for item in values:
        if not is_line(item):
            raise RequestError(f"{who}: '{key}' must hold names only, not {shown(item)}.")
    return tuple(str(item) for item in values)


def read_hints(value: Any, who: str) -> dict[str, object]:
    """Read the scheduler hints."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise RequestError(f"{who}: 'hints' must be a mapping, not {shown(value)}.")
    check_keys(who, value, HINTS, "hint", RequestError)
    hints = {
        str(key): _hint(str(key), item, who) for key, item in value.items() if item is not None
    }
    if "cidr" in hints and "build_near_host_ip" not in hints:
        raise RequestError(
            f"{who}: the hint 'cidr' goes with 'build_near_host_ip'; give both or neither."
        )
    if "build_near_host_ip" in hints:
        _network(hints, who)
    return {key: item for key, item in hints.items() if item}


def _hint(key: str, value: Any, who: str) -> Any:
    if key in ("same_host", "different_host"):
        return read_names(value, f"hints.{key}", who)
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
            f"{who}: the hint 'build_near_host_ip' must be an IP address, not {shown(address)}; a"
            " host's name will not do."
        ) from None
    try:
        ipaddress.ip_network(f"{address}/{cidr.lstrip('/')}", strict=False)
    except ValueError:
        raise RequestError(f"{who}: the hint 'cidr' must be like /24, not {shown(cidr)}.") from None


def read_flavor(
    request: Mapping[str, object], who: str, flavors: Mapping[str, Mapping[str, object]] | None
) -> tuple[Flavor | None, dict[str, int]]:
    """Read the flavor and the amounts by resource class; amounts in the request replace the
    flavor's amounts.

    :param flavors: {name: mapping with FLAVOR_KEYS}, the flavors of the store.
    """
    value = request.get("flavor")
    fields: Mapping[str, Any] = {}
    flavor = None
    if isinstance(value, Mapping):
        check_keys(f"{who}: 'flavor'", value, FLAVOR_KEYS, refuse=RequestError)
        fields = value
        flavor = Flavor(
            read_text(value, "name", f"{who}: the flavor", required=True),
            extra_specs(value, who),
            in_place=True,
        )
    elif value is not None and value != "":
        name = read_text(request, "flavor", who)
        if flavors and name in flavors:
            fields = flavors[name]
            flavor = Flavor(name, extra_specs(fields, who))
        elif request.get("vcpus") is None:
            has = f"it has: {', '.join(sorted(flavors))}" if flavors else "it has none"
            raise RequestError(
                f"{who}: flavor '{name}' is not in the store{which_name(name, flavors or ())}"
                f" ({has}); make it with drover.compute.flavor, or give vcpus and memory_mb."
            )
        else:
            flavor = Flavor(name)
    disk = fields.get("disk_gb")
    if disk is None and any(
        fields.get(key) is not None for key in ("root_gb", "ephemeral_gb", "swap_mb")
    ):
        parts = [
            read_size(fields, key, who, least=0, default=0)
            for key in ("root_gb", "ephemeral_gb", "swap_mb")
        ]
        disk = parts[0] + parts[1] - -parts[2] // 1024
    defaults = {"vcpus": fields.get("vcpus"), "memory_mb": fields.get("memory_mb"), "disk_gb": disk}
    given = {key: request[key] for key in defaults if request.get(key) is not None}
    request_sizes = {
        key: value for key, value in {**defaults, **given}.items() if value is not None
    }
    amounts = {
        "VCPU": read_amount(request_sizes, "vcpus", who, least=1),
        "MEMORY_MB": read_size(request_sizes, "memory_mb", who, least=1),
        "DISK_GB": read_size(request_sizes, "disk_gb", who, least=0, default=0),
    }
    return flavor, amounts


def extra_specs(flavor: Mapping[str, object], who: str) -> dict[str, str]:
    """Read the extra specs of a flavor as text.

    :param flavor: a mapping with extra_specs.
    :param who: the owner, for messages.
    :raises RequestError: an extra spec is wrong; the message names the key and the expected value.
    """
    value = flavor.get("extra_specs")
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise RequestError(
            f"{who}: 'extra_specs' must be a mapping of key to text, not {shown(value)}."
        )
    specs = {}
    for key, text in value.items():
        if isinstance(text, (Mapping, list, tuple)) or text is None:
            raise RequestError(f"{who}: the extra spec '{key}' must be text, not {shown(text)}.")
        # YAML turns texts of Nova into booleans and numbers.
        text = str(text).lower() if isinstance(text, bool) else str(text)
        scope = str(key).split(":", maxsplit=1)[0]
        if scope == "trait" and text not in ("required", "forbidden"):
            raise RequestError(
                f"{who}: the extra spec '{key}' must be required or forbidden, not {shown(text)}."
            )
        judged = ":" not in str(key) or scope in (
            "",
            "capabilities",
            "aggregate_instance_extra_specs",
        )
        if judged or key == MAXPHYSADDR:
            try:
                requirement(f">= {text}" if key == MAXPHYSADDR else text)
            except ValueError as problem:
                raise RequestError(
                    f"{who}: the extra spec '{key}' is {shown(text)}, but {problem}."
                ) from None
        specs[str(key)] = text
    return specs


def own_extra_specs(request: Mapping[str, object], who: str) -> dict[str, str]:
    """Read the extra specs of a request itself: its extra_specs and its traits.

    :raises RequestError: a value is wrong; the message names the key and the expected value.
    """
    specs = extra_specs(request, who)
    value = request.get("traits")
    if value is None:
        return specs
    if not isinstance(value, Mapping):
        raise RequestError(
            f"{who}: 'traits' must be a mapping with required and forbidden, not {shown(value)}."
        )
    check_keys(f"{who}: 'traits'", value, TRAIT_KEYS, refuse=RequestError)
    for word in TRAIT_KEYS:
        for trait in read_names(value.get(word), f"traits.{word}", who):
            if specs.setdefault(f"trait:{trait}", word) != word:
                raise RequestError(f"{who}: the trait {trait} is required and forbidden; keep one.")
    return specs


def read_image(
    value: Any, who: str, images: Mapping[str, Mapping[str, Any]] | None = None
) -> Image | None:
    """Read the image: a name, or a mapping with IMAGE_KEYS.

    :param images: {name: mapping with IMAGE_KEYS}, the images of the store. An unknown name is an
        image without properties.
    """
    if value is None or value == "":
        return None
    if isinstance(value, str):
        if images is None or value not in images:
            return Image(str(value))
        value = {
            **{key: item for key, item in images[value].items() if key in IMAGE_KEYS},
            "name": str(value),
        }
    if not isinstance(value, Mapping):
        raise RequestError(
            f"{who}: 'image' must be a name or a mapping with name and properties, not"
            f" {shown(value)}."
        )
    check_keys(f"{who}: 'image'", value, IMAGE_KEYS, refuse=RequestError)
    properties = value.get("properties")
    if properties is not None and not isinstance(properties, Mapping):
        raise RequestError(f"{who}: 'image.properties' must be a mapping, not {shown(properties)}.")
    properties = {str(key): item for key, item in (properties or {}).items() if item is not None}
    if "img_hv_requested_version" in properties:
        try:
            predicates(str(properties["img_hv_requested_version"]))
        except ValueError as problem:
            raise RequestError(
                f"{who}: the image property 'img_hv_requested_version' {problem}."
            ) from None
    if "hw_maxphysaddr_bits" in properties:
        properties["hw_maxphysaddr_bits"] = read_amount(
            properties, "hw_maxphysaddr_bits", f"{who}: the image", least=1
        )
    traits = properties.get("traits_required", [])
    if not isinstance(traits, (str, list, tuple)) or not all(
        isinstance(each, str) for each in traits
    ):
        raise RequestError(
            f"{who}: the image property 'traits_required' must be a list of traits, not"
            f" {shown(traits)}."
        )
    identity = read_text(value, "id", f"{who}: the image")
    name = read_text(value, "name", f"{who}: the image") or identity or ""
    return Image(name, properties, identity, read_text(value, "disk_format", f"{who}: the image"))


def read_destination(request: Mapping[str, Any], who: str) -> dict[str, Any]:
    """Read host, node, cell and cross_cell (whether a move may leave its cell)."""
    value = request.get("requested_destination")
    if value is None:
        value = {}
    if not isinstance(value, Mapping):
        raise RequestError(
            f"{who}: 'requested_destination' must be a mapping with host and node, not"
            f" {shown(value)}."
        )
    check_keys(f"{who}: 'requested_destination'", value, DESTINATION_KEYS, refuse=RequestError)
    for key in ("host", "node"):
        if value.get(key) and request.get(key) and value[key] != request[key]:
            raise RequestError(
                f"{who} gives '{key}' twice, also under 'requested_destination'; keep one."
            )
    where = {**request, **{key: item for key, item in value.items() if item is not None}}
    cross = value.get("allow_cross_cell_move") or False
    if not isinstance(cross, bool):
        raise RequestError(
            f"{who}: 'requested_destination.allow_cross_cell_move' must be true or false."
        )
    return {
        "host": read_text(where, "host", who),
        "node": read_text(where, "node", who),
        "cell": read_text(value, "cell", who),
        "cross_cell": cross,
    }


def read_retry(value: Any, who: str) -> tuple[tuple[str, str], ...]:
    """Read (host, node) pairs from mappings or pairs, in the form of Nova's retry data."""
    if isinstance(value, Mapping):
        value = value.get("hosts")
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        raise RequestError(
            f"{who}: 'retry' must be a list of mappings with host and node, not {shown(value)}."
        )
    destinations = []
    for item in value:
        if isinstance(item, Mapping):
            item = (item.get("host"), item.get("node"))
        if (
            not isinstance(item, (list, tuple))
            or len(item) != 2
            or not all(isinstance(each, str) for each in item)
        ):
            raise RequestError(
                f"{who}: 'retry' must hold mappings with host and node, not {shown(item)}."
            )
        destinations.append((str(item[0]), str(item[1])))
    return tuple(destinations)


def read_scheduler(value: Any, who: str) -> dict[str, object] | None:
    """Read the policy keys of a request."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise RequestError(
            f"{who}: 'scheduler' must be a mapping of policy keys, not {shown(value)}."
        )
    return dict(value) or None


def read_group(value: Any, who: str) -> ServerGroupRequest | None:
    """Read the server group: a name, or a mapping with GROUP_KEYS."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return ServerGroupRequest(read_text({"server_group": value}, "server_group", who))
    if not isinstance(value, Mapping):
        raise RequestError(
            f"{who}: 'server_group' must be the name of a server group, or a mapping with name and"
            f" policy, not {shown(value)}."
        )
    check_keys(f"{who}: 'server_group'", value, GROUP_KEYS, refuse=RequestError)
    where = f"{who}: the server group"
    name = read_text(value, "name", where, required=True)
    policy = read_text(value, "policy", where)
    if policy is not None and policy not in GROUP_POLICIES:
        raise RequestError(
            f"{who}: server group '{name}' has the unknown policy '{policy}'; known:"
            f" {', '.join(GROUP_POLICIES)}."
        )
    most = None
    if value.get("max_server_per_host") is not None:
        most = read_amount(value, "max_server_per_host", f"{who}: server group '{name}'", least=1)
        # N8, os-server-groups: the rule is for anti-affinity only.
        if policy is not None and policy != "anti-affinity":
            raise RequestError(
                f"{who}: server group '{name}' has max_server_per_host, which goes with"
                " anti-affinity only; remove it or change the policy."
            )
    return ServerGroupRequest(name, policy, most)


def read_ports(value: Any, who: str) -> tuple[PciRequest, ...]:
    """Read the networks with interfaces that are devices: mappings with PORT_KEYS."""
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, Mapping) for each in value):
        raise RequestError(
            f"{who}: 'networks' must be a list of mappings with physical_network and vnic, not"
            f" {shown(value)}."
        )
    requests = []
    for number, port in enumerate(value, 1):
        where = f"{who}: network {number}"
        check_keys(where, port, PORT_KEYS, refuse=RequestError)
        physical_network, vnic = (read_text(port, key, where, required=True) for key in PORT_KEYS)
        if vnic not in VNICS:
            raise RequestError(
                f"{where}: 'vnic' must be {either(tuple(VNICS))}, not"
                f" {shown(vnic)}{did_you_mean(vnic, VNICS)}."
            )
        requests.append(request_of_port(physical_network, vnic))
    return tuple(requests)
