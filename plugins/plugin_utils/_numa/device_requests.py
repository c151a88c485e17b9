# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests for PCI devices: aliases, and the settings of flavors and images (N12.2)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .._common.errors import DroverError, InvalidSpecs
from .._common.validation import shown, which_name
from . import device_providers

PLAIN, PHYSICAL, VIRTUAL, VDPA = "type-PCI", "type-PF", "type-VF", "vdpa"
REQUIRED, LEGACY, PREFERRED, SOCKET = "required", "legacy", "preferred", "socket"
POLICIES = (REQUIRED, LEGACY, PREFERRED, SOCKET)
#: The kinds of network ports that are devices, by Nova's names -> the type of the device.
VNICS = {"direct": VIRTUAL, "macvtap": VIRTUAL, "direct-physical": PHYSICAL}
#: The trait of nodes that support the policy ``socket``.
SOCKET_TRAIT = "COMPUTE_SOCKET_PCI_NUMA_AFFINITY"
ALIAS_KEYS = (
    "name",
    "vendor_id",
    "product_id",
    "device_type",
    "numa_policy",
    "live_migratable",
    "capability_type",
)
#: The keys for requests to Placement only.
PLACEMENT_KEYS = ("resource_class", "traits")
_ALIAS_TYPES = (PLAIN, PHYSICAL, VIRTUAL)
_IDS = re.compile(r"[0-9a-fA-F]{4}")
_TRUE = ("1", "t", "true", "on", "y", "yes")
_FALSE = ("0", "f", "false", "off", "n", "no")


@dataclass(frozen=True)
class PciRequest:
    """A number of equal PCI devices.

    specs: alternatives, each a tuple of (property, value) that a device must have; text is compared
        without case.
    policy: the required distance of the devices from the guest's NUMA cells.
    resource_class, traits: the requirements on a provider of a device; None, if the devices are not
        allocated in Placement.
    providers: (key of a provider, the most devices that it gives); None, if any provider gives
        them.
    """

    count: int
    specs: tuple[tuple[tuple[str, Any], ...], ...]
    policy: str = LEGACY
    resource_class: str | None = None
    traits: tuple[str, ...] = ()
    providers: tuple[tuple[str, int], ...] | None = None

    def asks(self, key: str, value: str) -> bool:
        """Return True if an alternative requires a property with this value."""
        return any(
            name == key and str(found).lower() == value
            for spec in self.specs
            for name, found in spec
        )

    def always_asks(self, key: str, value: str) -> bool:
        """Return True if each alternative requires a property with this value."""
        return all(
            any(name == key and str(found).lower() == value for name, found in spec)
            for spec in self.specs
        )


def request_of_data(data: Mapping[str, Any]) -> PciRequest:
    """Make a request of its plain data, the result of HostRequest.as_data().

    :raises KeyError, TypeError, ValueError: it is not of that form.
    """
    specs = tuple(tuple(sorted(spec.items())) for spec in data["specs"])
    resource_class = data.get("resource_class")
    return PciRequest(
        int(data["count"]),
        specs,
        str(data["policy"]),
        str(resource_class) if resource_class is not None else None,
        tuple(map(str, data.get("traits") or ())),
    )


@dataclass(frozen=True)
class Alias:
    """A name for devices: alternatives, policy, resource class and traits as in PciRequest."""

    specs: tuple[tuple[tuple[str, Any], ...], ...]
    policy: str
    resource_class: str | None = None
    traits: tuple[str, ...] = ()


def truth(where: str, value: Any, code: str) -> str:
    """Return ``true`` or ``false`` for the forms that people write.

    :raises InvalidSpecs: it is neither.
    """
    text = str(value).strip().lower()
    if text not in _TRUE + _FALSE:
        raise InvalidSpecs(f"{where} is {shown(value)}. It must be true or false.", code)
    return "true" if text in _TRUE else "false"


def read_aliases(
    given: Iterable[Mapping[str, object]], in_placement: bool = False
) -> dict[str, Alias]:
    """Read the aliases of a fleet. Several of one name are alternatives.

    :param in_placement: whether the devices are allocated in Placement. Then an alias has no
        alternatives.
    :raises InvalidSpecs: one is wrong, or two of one name differ in policy or type.
    """
    aliases: dict[str, Alias] = {}
    for each in given:
        name, alias = _alias(each, in_placement)
        first = aliases.get(name)
        if first is None:
            aliases[name] = alias
            continue
        if in_placement:
            raise _bad_alias(
                f"There are two PCI aliases {name}, but with pci_in_placement an alias has no"
                " alternatives. Keep one, and give the devices of both the same resource_class in"
                " drover_pci_device_specs."
            )
        if first.policy != alias.policy:
            raise _bad_alias(
                f"Two PCI aliases {name} have the policies {first.policy} and {alias.policy}. They"
                " must have the same one."
            )
        if _type_of(first.specs[0]) != _type_of(alias.specs[0]):
            raise _bad_alias(
                f"Two PCI aliases {name} have different device types. They must have the same one."
            )
        aliases[name] = Alias(first.specs + alias.specs, first.policy)
    return aliases


def _alias(given: Mapping[str, Any], in_placement: bool) -> tuple[str, Alias]:
    name = str(given.get("name") or "").strip()
    if not name:
        raise _bad_alias(f"The PCI alias {shown(dict(given))} has no name.")
    unknown = sorted(set(given) - {*ALIAS_KEYS, *PLACEMENT_KEYS})
    if unknown:
        raise _bad_alias(
            f"The PCI alias {name} has the unknown key {unknown[0]}. Known:"
            f" {', '.join(ALIAS_KEYS + PLACEMENT_KEYS)}."
        )
    for key in PLACEMENT_KEYS:
        if given.get(key) and not in_placement:
            raise _bad_alias(
                f"The PCI alias {name} has {key}, which needs pci_in_placement: true in the same"
                " policy."
            )
    resource_class, traits = _names_in_placement(name, given) if in_placement else (None, ())
    ids = [
        key
        for key in ("vendor_id", "product_id")
        if given.get(key) is not None or not given.get("resource_class")
    ]
    for key in ids:
        if not _IDS.fullmatch(str(given.get(key, ""))):
            more = " (or a resource_class)" if in_placement else ""
            raise _bad_alias(
                f"The PCI alias {name} needs a {key} of four hexadecimal digits, such as"
                f" 10de{more}, not {shown(given.get(key))}."
            )
    if given.get("device_type") not in (None, *_ALIAS_TYPES):
        raise _bad_alias(
            f"The PCI alias {name} has the device_type {shown(given['device_type'])}; it must be"
            f" {', '.join(_ALIAS_TYPES)}."
        )
    policy = given.get("numa_policy") or LEGACY
    if policy not in POLICIES:
        raise _bad_alias(
            f"The PCI alias {name} has the numa_policy {shown(policy)}; it must be one of"
            f" {', '.join(POLICIES)}."
        )
    spec = {key: str(given[key]) for key in ids}
    if given.get("device_type"):
        spec["dev_type"] = given["device_type"]
    if given.get("live_migratable") is not None:
        spec["live_migratable"] = truth(
            f"live_migratable of the PCI alias {name}", given["live_migratable"], "PciInvalidAlias"
        )
    return name, Alias((tuple(sorted(spec.items())),), policy, resource_class, traits)


def _names_in_placement(name: str, given: Mapping[str, object]) -> tuple[str, tuple[str, ...]]:
    """Return the resource class and the traits of an alias."""
    try:
        class_given = given.get("resource_class")
        own = (
            device_providers.class_name(class_given, f"resource_class of the PCI alias {name}")
            if class_given
            else None
        )
        traits = device_providers.trait_names(
            given.get("traits") or [], f"traits of the PCI alias {name}"
        )
    except DroverError as problem:
        raise _bad_alias(str(problem)) from None
    ids = {key: given.get(key) for key in ("vendor_id", "product_id")}
    return device_providers.class_of({**ids, "resource_class": own}), tuple(traits)


def _type_of(spec: tuple[tuple[str, Any], ...]) -> Any:
    return dict(spec).get("dev_type")


def _bad_alias(message: str) -> InvalidSpecs:
    return InvalidSpecs(message, "PciInvalidAlias")


def affinity_policy(
    extra_specs: Mapping[str, Any], properties: Mapping[str, Any] | None = None
) -> str | None:
    """Return the affinity policy of flavor and image, which replaces the policy of the aliases;
    None if they have none.

    :raises InvalidSpecs: they differ, or it is not a policy.
    """
    flavor, image = (
        extra_specs.get("hw:pci_numa_affinity_policy"),
        (properties or {}).get("hw_pci_numa_affinity_policy"),
    )
    if flavor and image and flavor != image:
        raise InvalidSpecs(
            f"The image property hw_pci_numa_affinity_policy is {image}, but the flavor has"
            f" hw:pci_numa_affinity_policy {flavor}. An image may not change that: take the"
            " property away, or choose another flavor.",
            "ImagePCINUMAPolicyForbidden",
        )
    policy = flavor or image
    if policy and policy not in POLICIES:
        raise InvalidSpecs(
            f"hw:pci_numa_affinity_policy is {policy!r}. It must be one of {', '.join(POLICIES)}.",
            "InvalidPCINUMAAffinity",
        )
    return policy or None


def request_of_port(physical_network: str, vnic: str) -> PciRequest:
    """Return the request for the device of a network port.

    Nova asks for a type with direct-physical only. libvirt takes nothing but a virtual function for
    the others, so the start would fail.

    :param vnic: a key of VNICS.
    """
    return PciRequest(1, ((("dev_type", VNICS[vnic]), ("physical_network", physical_network)),))


def requests_of_flavor(
    extra_specs: Mapping[str, object], aliases: Mapping[str, Alias], policy: str | None = None
) -> tuple[PciRequest, ...]:
    """Return the requests of ``pci_passthrough:alias``, such as ``gpu:2,nic:1``. A count of 0 asks
    for nothing.

    :param policy: affinity_policy().
    :raises InvalidSpecs: it cannot be read, or names an alias that does not exist.
    """
    text = str(extra_specs.get("pci_passthrough:alias") or "")
    requests = []
    for part in text.split(",") if text else ():
        match = re.fullmatch(r"\s*([^:]+?)\s*:\s*([0-9]{1,5})\s*", part)
        if match is None:
            raise InvalidSpecs(
                f"pci_passthrough:alias is {text!r}. Write aliases with their counts, such as"
                " gpu:2,nic:1.",
                "ValueError",
            )
        name, count = match[1], int(match[2])
        if name not in aliases:
            raise InvalidSpecs(
                f"pci_passthrough:alias names the PCI alias {name}, which does not"
                f" exist{which_name(name, aliases)}.",
                "PciRequestAliasNotDefined",
            )
        if count:
            alias = aliases[name]
            requests.append(
                PciRequest(
                    count, alias.specs, policy or alias.policy, alias.resource_class, alias.traits
                )
            )
    return tuple(requests)
