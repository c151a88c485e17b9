# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One request for room, checked and in one shape."""

from __future__ import annotations

import uuid as uuidlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.errors import RequestError

#: Policies the two server group filters understand. The soft ones need weighers of their own.
GROUP_POLICIES = ("affinity", "anti-affinity")

KEYS = (
    "name",
    "uuid",
    "vcpus",
    "memory_mb",
    "disk_gb",
    "availability_zone",
    "server_group",
    "hints",
    "ignore_hosts",
    "host",
    "project",
    "user",
)
HINTS = ("same_host", "different_host")
GROUP_KEYS = ("name", "policy", "max_server_per_host")

#: Largest amount of one class that the store can record (signed 32 bit, as Placement's max_unit).
MAX_AMOUNT = 2147483647


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
class RequestSpec:
    """What one instance asks for.

    Amounts are whole numbers: ``resources`` maps a resource class (VCPU, MEMORY_MB in MiB,
    DISK_GB in GiB) to an amount > 0; a class that was asked with 0 is left out, as in
    NOVA_SEMANTICS 1.3 ("zero amounts are stripped").

    ``hints`` maps same_host / different_host to tuples of instance uuids or names.
    ``ignore_nodes`` (compute node names or provider uuids) is for planners; requests cannot set it.
    """

    name: str
    resources: Mapping[str, int]
    uuid: str | None = None
    availability_zone: str | None = None
    server_group: ServerGroupRequest | None = None
    hints: Mapping[str, tuple] = field(default_factory=dict)
    ignore_hosts: tuple = ()
    ignore_nodes: tuple = ()
    host: str | None = None
    project: str | None = None
    user: str | None = None

    @property
    def key(self):
        """What this instance is called in the host states: its uuid, else its name."""
        return self.uuid or self.name

    @property
    def size(self):
        """The amounts for people: ``1 vCPU, 64 MiB, 1 GiB``."""
        return size_text(self.resources)

    @classmethod
    def from_request(cls, request):
        """A spec from a request mapping as users write it.

        :param request: mapping with the keys in KEYS; vcpus and memory_mb (MiB) >= 1,
            disk_gb (GiB) >= 0, all whole numbers.
        :raises RequestError: naming the key and what was expected.
        """
        if not isinstance(request, Mapping):
            raise RequestError(
                f"A request must be a mapping with name, vcpus, memory_mb and disk_gb, not {_shown(request)}."
            )
        name = _text(request, "name", "A request", required=True)
        who = f"Request '{name}'"
        unknown = sorted(str(key) for key in request if key not in KEYS)
        if unknown:
            raise RequestError(f"{who} has the unknown key '{unknown[0]}'; a request knows: {', '.join(KEYS)}.")
        amounts = {
            "VCPU": _amount(request, "vcpus", who, least=1),
            "MEMORY_MB": _amount(request, "memory_mb", who, least=1),
            "DISK_GB": _amount(request, "disk_gb", who, least=0, default=0),
        }
        return cls(
            name=name,
            resources={rc: amount for rc, amount in amounts.items() if amount},
            uuid=_uuid(request, who),
            availability_zone=_text(request, "availability_zone", who),
            server_group=_group(request.get("server_group"), who),
            hints=_hints(request.get("hints"), who),
            ignore_hosts=_names(request.get("ignore_hosts"), "ignore_hosts", who),
            host=_text(request, "host", who),
            project=_text(request, "project", who),
            user=_text(request, "user", who),
        )


def size_text(resources):
    """Amounts by resource class as people say them: ``2 vCPU, 64 MiB, 1 GiB``."""
    units = {"VCPU": "vCPU", "MEMORY_MB": "MiB", "DISK_GB": "GiB"}
    return ", ".join(f"{amount} {units.get(rc, rc)}" for rc, amount in resources.items())


def _shown(value):
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _text(request, key, who, required=False):
    value = request.get(key)
    if value is None or value == "":
        if required:
            raise RequestError(f"{who} has no '{key}'; give it one.")
        return None
    if not isinstance(value, str) or not value.strip() or any(ord(char) < 32 for char in value):
        raise RequestError(f"{who}: '{key}' must be a line of text, not {_shown(value)}.")
    return str(value)


def _amount(request, key, who, least, default=None):
    value = request.get(key, default)
    if value is None:
        raise RequestError(f"{who} has no '{key}'; give a whole number, {least} or more.")
    # Extra variables of the command line (-e vcpus=2) arrive as text.
    if isinstance(value, str) and value.strip().lstrip("+-").isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise RequestError(f"{who}: '{key}' must be a whole number, {least} or more, not {_shown(value)}.")
    if not least <= value <= MAX_AMOUNT:
        raise RequestError(f"{who}: '{key}' is {value}; it must be from {least} to {MAX_AMOUNT}.")
    return int(value)


def _uuid(request, who):
    text = _text(request, "uuid", who)
    if text is None:
        return None
    try:
        return str(uuidlib.UUID(text))
    except ValueError:
        raise RequestError(
            f"{who}: 'uuid' must look like 1b4e28ba-2fa1-11d2-883f-0016d3cca427, not {_shown(text)}."
        ) from None


def _names(value, key, who):
    if value is None:
        return ()
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, (list, tuple, set, frozenset)):
        raise RequestError(f"{who}: '{key}' must be a name or a list of names, not {_shown(value)}.")
    for item in values:
        if not isinstance(item, str) or not item:
            raise RequestError(f"{who}: '{key}' must hold names only, not {_shown(item)}.")
    return tuple(str(item) for item in values)


def _hints(value, who):
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise RequestError(f"{who}: 'hints' must be a mapping, not {_shown(value)}.")
    unknown = sorted(str(key) for key in value if key not in HINTS)
    if unknown:
        raise RequestError(f"{who} has the unknown hint '{unknown[0]}'; known hints: {', '.join(HINTS)}.")
    named = {str(key): _names(item, f"hints.{key}", who) for key, item in value.items()}
    return {key: names for key, names in named.items() if names}


def _group(value, who):
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return ServerGroupRequest(str(value))
    if not isinstance(value, Mapping):
        raise RequestError(
            f"{who}: 'server_group' must be the name of a server group, or a mapping with name and policy,"
            f" not {_shown(value)}."
        )
    unknown = sorted(str(key) for key in value if key not in GROUP_KEYS)
    if unknown:
        raise RequestError(
            f"{who}: 'server_group' has the unknown key '{unknown[0]}'; it knows: {', '.join(GROUP_KEYS)}."
        )
    where = f"{who}: the server group"
    name = _text(value, "name", where, required=True)
    policy = _text(value, "policy", where)
    if policy is not None and policy not in GROUP_POLICIES:
        raise RequestError(
            f"{who}: server group '{name}' has the unknown policy '{policy}'; known: {', '.join(GROUP_POLICIES)}."
        )
    most = None
    if value.get("max_server_per_host") is not None:
        most = _amount(value, "max_server_per_host", f"{who}: server group '{name}'", least=1)
        # NOVA_SEMANTICS 8, os-server-groups: the rule is for anti-affinity only.
        if policy == "affinity":
            raise RequestError(
                f"{who}: server group '{name}' has max_server_per_host, which goes with anti-affinity only;"
                " remove it or change the policy."
            )
    return ServerGroupRequest(name, policy, most)
