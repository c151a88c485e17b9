# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The devices of a host that domains may get, and the domains that have them.

The options pci_device_specs and mdev_types decide.

Data in, data out. Domains get only devices that an option names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .._common import validation
from .._common.errors import DroverError, InvalidSpecs
from .._numa import device_providers
from .._numa.device_requests import PHYSICAL, VIRTUAL
from .._numa.device_specs import DeviceSpec
from .._records.hosts import MdevType, ReportedPciDevice
from .facts import Entry

SPEC_KEYS = (
    "vendor_id",
    "product_id",
    "address",
    "devname",
    "physical_network",
    "trusted",
    "remote_managed",
    "managed",
    "live_migratable",
    "one_time_use",
    "resource_class",
    "traits",
)
TYPE_KEYS = ("type", "device_addresses", "mdev_class", "max_instances")
_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


class _Group(NamedTuple):
    """An item of the option mdev_types."""

    type: str
    addresses: list[str]
    resource_class: str
    most: int | None


def pci_devices(facts: Sequence[Entry], specs: Any, where: str) -> list[ReportedPciDevice]:
    """Return the PCI devices that domains may get by their first matching spec, sorted by address.

    :param facts: pci_devices of hypervisor_info.
    :param specs: the option pci_device_specs.
    :raises DroverError: a device spec cannot be read, or it gives a physical function to a remote
        manager.
    """
    where = f"{where}: pci_device_specs (drover_pci_device_specs)"
    read = [
        _Spec(each, where)
        for each in _mappings(specs, where, "such as [{vendor_id: 10de, product_id: 2204}]")
    ]
    physical = {each["address"]: each for each in facts if each.get("dev_type") == PHYSICAL}
    devices: list[ReportedPciDevice] = []
    for device in sorted(facts, key=lambda each: str(each.get("address"))):
        if any(
            device.get(key) is None for key in ("address", "vendor_id", "product_id", "dev_type")
        ):
            continue
        spec = next((each for each in read if each.rule.matches(device, physical)), None)
        if spec is None:
            continue
        if spec.rule.tags.get("remote_managed") == "true" and device["dev_type"] == PHYSICAL:
            raise DroverError(
                f"{where}: {device['address']} is a physical function, which cannot be"
                " remote_managed. Name its functions."
            )
        devices.append(
            {
                "address": device["address"],
                "vendor_id": device["vendor_id"],
                "product_id": device["product_id"],
                "numa_node": device.get("numa_node"),
                "dev_type": device["dev_type"],
                "parent_addr": device.get("parent_addr"),
                "iommu_group": device.get("iommu_group"),
                "interface": device.get("interface"),
                "device_class": device.get("class"),
                "tags": {key: str(value) for key, value in spec.rule.tags.items()},
                "resource_class": spec.resource_class,
                "traits": spec.traits,
            }
        )
    return devices


class _Spec:
    """A device spec with its resource class and traits for Placement."""

    def __init__(self, given: Mapping[str, object], where: str) -> None:
        validation.check_keys(where, given, SPEC_KEYS)
        for key in ("physical_network", "devname"):
            if given.get(key) is not None and not isinstance(given[key], str):
                raise DroverError(
                    f"{where}: {key} must be a text, not {validation.shown(given[key])}."
                )
        try:
            self.rule = DeviceSpec(
                {key: value for key, value in given.items() if value is not None}
            )
        except InvalidSpecs as problem:
            raise DroverError(f"{where}: {problem}") from None
        name = given.get("resource_class")
        self.resource_class = (
            device_providers.class_name(name, f"{where}, resource_class")
            if name is not None
            else None
        )
        self.traits = device_providers.trait_names(given.get("traits") or [], f"{where}: traits")


def _mappings(given: Any, where: str, example: str) -> list[dict[str, object]]:
    if given is not None and not (
        isinstance(given, list) and all(isinstance(each, dict) for each in given)
    ):
        raise DroverError(
            f"{where} must be a list of mappings, {example}, not {validation.shown(given)}."
        )
    return given or []


def mdev_types(
    kinds: Sequence[Entry],
    mediated: Sequence[Entry],
    option: Any,
    where: str,
) -> tuple[list[MdevType], list[str]]:
    """Return the types of mediated devices that may be made, one for each device that makes them.

    :param kinds: mdev_types of hypervisor_info.
    :param mediated: mdev_devices of hypervisor_info.
    :param option: the option mdev_types: a list of mappings of TYPE_KEYS, or of names of types.
    :returns: a list of columns of the table mdev_types without its node; and sentences for people.
        ``total`` is the number of existing devices and of devices that can still be made, at most
        the rest of max_instances.
    :raises DroverError: the option cannot be read, or gives a device two types.
    """
    where = f"{where}: mdev_types (drover_mdev_types)"
    named = (
        [{"type": each} if isinstance(each, str) else each for each in option]
        if isinstance(option, list)
        else option
    )
    groups = [
        _group(each, where) for each in _mappings(named, where, "such as [{type: nvidia-35}]")
    ]
    twice = sorted(
        name for name, count in Counter(group.type for group in groups).items() if count > 1
    )
    if twice:
        raise DroverError(
            f"{where}: {twice[0]} stands there twice. Keep each type once, with the addresses of"
            " all its devices."
        )
    warnings: list[str] = []
    by_address: dict[str, _Group] = {}
    default: _Group | None = None
    for group in groups:
        for address in group.addresses:
            if address in by_address:
                raise DroverError(
                    f"{where}: {address} has two types, {by_address[address].type} and"
                    f" {group.type}. Give it one."
                )
            by_address[address] = group
        if not group.addresses and default is None:
            default = group
        elif not group.addresses:
            warnings.append(
                f"{where}: {group.type} is ignored: it has no device_addresses, and"
                f" {default.type if default else ''} takes all other devices. Give it the addresses"
                " of its devices."
            )
    counts: dict[tuple[str, str], int] = {}
    for each in mediated:
        if each.get("active", True):
            key = (str(each.get("parent")), str(each.get("type")))
            counts[key] = counts.get(key, 0) + 1
    remaining = {group.type: group.most for group in groups if group.most is not None}
    described: list[MdevType] = []
    for kind in sorted(kinds, key=lambda each: (str(each.get("parent")), str(each.get("type")))):
        chosen = by_address.get(address_of(str(kind["parent"])) or str(kind["parent"]), default)
        if chosen is None or chosen.type != kind["type"]:
            continue
        total = counts.get((kind["parent"], kind["type"]), 0) + int(
            kind.get("available_instances") or 0
        )
        if kind["type"] in remaining:
            # Nova leaves a device out if max_instances does not cover all that it can make. Here
            # the device makes the rest.
            total = min(total, remaining[kind["type"]])
            remaining[kind["type"]] -= total
        described.append(
            {
                "parent": kind["parent"],
                "type": kind["type"],
                "resource_class": chosen.resource_class,
                "total": total,
            }
        )
    made_types = {each["type"] for each in described}
    warnings += [
        f"{where}: no device of this host makes {group.type}. It has:"
        f" {', '.join(sorted({str(each['type']) for each in kinds})) or 'none'}."
        for group in groups
        if group.type not in made_types and (group.addresses or group is default)
    ]
    return described, warnings


def _group(given: Mapping[str, object], where: str) -> _Group:
    validation.check_keys(where, given, TYPE_KEYS)
    name = given.get("type")
    if not isinstance(name, str) or not name:
        raise DroverError(
            f"{where}: type must be the name of a type, such as nvidia-35, not"
            f" {validation.shown(name)}."
        )
    addresses = given.get("device_addresses") or []
    if not isinstance(addresses, list) or not all(isinstance(each, str) for each in addresses):
        raise DroverError(
            f"{where}, {name}: device_addresses must be a list such as [0000:84:00.0], not"
            f" {validation.shown(addresses)}."
        )
    addresses = [each.lower() for each in addresses]
    wrong = [each for each in addresses if ":" in each and not _ADDRESS.fullmatch(each)]
    if wrong:
        raise DroverError(
            f"{where}, {name}: {wrong[0]} is no PCI address. Write it as 0000:84:00.0."
        )
    most = given.get("max_instances")
    if most is not None:
        most = validation.read_whole(f"{where}, {name}, max_instances", most, 1)
    wanted = given.get("mdev_class") or device_providers.VGPU
    return _Group(
        name, addresses, device_providers.class_name(wanted, f"{where}, mdev_class"), most
    )


def address_of(name: str) -> str | None:
    """Return the PCI address in libvirt's name of a device: 0000:84:00.0 of pci_0000_84_00_0."""
    found = re.fullmatch(r"pci_([0-9a-f]{4})_([0-9a-f]{2})_([0-9a-f]{2})_([0-7])", name)
    return "{}:{}:{}.{}".format(*found.groups()) if found else None


def owners(domains: Iterable[Entry], devices: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the uuids of the domains that have each device, by its PCI address or its uuid.

    :param domains: domains of hypervisor_info.
    :param devices: with their addresses, the devices that a domain may name by their vDPA device
        (``vdpa``), or virtual functions by their network interface (``dev_type``, ``interface``).
    """
    devices = list(devices)
    by_vdpa = {each["vdpa"]: each["address"] for each in devices if each.get("vdpa")}
    # The interface of a physical function may serve many domains at a time, so it proves no owner.
    by_interface = {
        each["interface"]: each["address"]
        for each in devices
        if each.get("interface") and each["dev_type"] == VIRTUAL
    }
    by_address: dict[str, list[str]] = {}
    for domain in domains:
        for device in domain.get("hostdevs") or ():
            address = (
                by_vdpa.get(device.get("address"))
                if device.get("type") == "vdpa"
                else device.get("address")
            )
            if address and device.get("type") in ("pci", "mdev", "vdpa"):
                by_address.setdefault(str(address), []).append(domain["uuid"])
        for device in domain.get("interfaces") or ():
            if device.get("type") == "direct" and device.get("source") in by_interface:
                by_address.setdefault(by_interface[device["source"]], []).append(domain["uuid"])
    return {address: sorted(set(uuids)) for address, uuids in by_address.items()}
