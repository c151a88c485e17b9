# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The PCI devices of one host: pools of equal devices, the devices for a request, and the devices
of instances (N12.3, N12.4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .device_requests import LEGACY, PHYSICAL, PLAIN, REQUIRED, SOCKET, VDPA, VIRTUAL, PciRequest
from .device_specs import DeviceSpec, tags_of

#: Properties of a pool about the place of its devices, not their kind.
PLACES = ("numa_node", "address", "parent_ifname")


class DevicePool:
    """Equal devices with one physical function, or one device by itself.

    properties: the properties that requests are compared with; ``kind``: the properties without the
        place, as a key.
    devices: numbers of its devices, by address, taken ones too.
    """

    def __init__(self, properties: dict[str, Any]) -> None:
        self.properties = properties
        self.key = frozenset(properties.items())
        self.node: int | None = properties["numa_node"]
        self.kind = frozenset(
            (key, folded(value)) for key, value in properties.items() if key not in PLACES
        )
        self.devices: list[int] = []

    def matches(self, request: PciRequest) -> bool:
        """Return True if its devices have all properties of an alternative of the request."""
        return any(
            all(folded(self.properties.get(key)) == folded(value) for key, value in spec)
            for spec in request.specs
        )


def folded(value: Any) -> Any:
    """Return the form of a value for comparisons: text without case."""
    return value.lower() if isinstance(value, str) else value


def is_usable(properties: Mapping[str, object], request: PciRequest) -> bool:
    """Return True if a request may take devices that match it: PFs and similar devices only if it
    names that type (N12.3).
    """
    dev_type = properties.get("dev_type")
    if dev_type in (PHYSICAL.lower(), VDPA) and not request.asks("dev_type", dev_type):
        return False
    if properties.get("remote_managed") == "true" and not request.asks("remote_managed", "true"):
        return False
    # Only Placement knows the used ones of these.
    if properties.get("one_time_use") == "true" and request.resource_class is None:
        return False
    return all(
        properties.get("live_migratable") == word
        for word in ("true", "false")
        if request.always_asks("live_migratable", word)
    )


@dataclass(frozen=True)
class Nearness:
    """The place of the chosen cells of a guest: their numbers, and the host cells of the same
    sockets (None: a socket is unknown).
    """

    cells: frozenset[int]
    same_socket: frozenset[int] | None


class HostDevices:
    """The PCI devices of a host that instances may use.

    :param devices: mappings with ``address``, ``vendor_id``, ``product_id``, ``numa_node`` (None:
        unknown), ``dev_type`` and ``parent_addr``.
    :param specs: the rules for the devices that instances may use, with their tags.
    """

    def __init__(self, devices: Sequence[Mapping[str, Any]], specs: Sequence[DeviceSpec]) -> None:
        self.devices = sorted(devices, key=lambda each: each["address"])
        self._number = {each["address"]: number for number, each in enumerate(self.devices)}
        self._relatives = self._relations()
        #: The number of instances that have a device; more than one only after an assignment by
        #: hand.
        self._taken: Counter[int] = Counter()
        pools: dict[frozenset[tuple[str, Any]], DevicePool] = {}
        for number, tags in enumerate(tags_of(self.devices, specs)):
            if tags is None:
                continue
            properties = _properties(self.devices[number], tags)
            key = frozenset(properties.items())
            if key not in pools:
                pools[key] = DevicePool(properties)
            pools[key].devices.append(number)
        # Devices without a separate tag come first, as in Nova.
        self.pools = sorted(pools.values(), key=lambda pool: len(pool.properties))

    def _relations(self) -> list[list[int]]:
        """Return for each device the devices that must not be in use at the same time: its physical
        or its virtual functions.
        """
        relatives: list[list[int]] = [[] for _each in self.devices]
        for number, each in enumerate(self.devices):
            parent = self._number.get(each.get("parent_addr") or "")
            if parent is not None and each.get("dev_type") in (VIRTUAL, VDPA):
                relatives[number].append(parent)
                relatives[parent].append(number)
        return relatives

    def _is_free(self, device: int, taken: Collection[int]) -> bool:
        return device not in taken and not any(each in taken for each in self._relatives[device])

    def free(self, pool: DevicePool, taken: Collection[int] | None = None) -> list[int]:
        """Return the free devices of a pool, by address."""
        taken = self._taken if taken is None else taken
        return (
            [each for each in pool.devices if self._is_free(each, taken)] if taken else pool.devices
        )

    def counts_key(self) -> tuple[tuple[Any, ...], ...]:
        """Return the inputs of supports(): equal for hosts that give the same answers."""
        return tuple((pool.key, len(self.free(pool))) for pool in self.pools)

    def supports(self, requests: Iterable[PciRequest], near: Nearness | None = None) -> bool:
        """Return True if the counts of the pools meet all requests, one after the other.

        Like Nova's scheduler, it does not see that a physical function and its virtual functions
        exclude each other.

        :param near: None if no cells are chosen, which leaves policies out.
        """
        counts = [len(self.free(pool)) for pool in self.pools]
        for request in requests:
            chosen = self._select(counts, request, near)
            if chosen is None:
                return False
            missing = request.count
            for number, most in chosen:
                taken = min(missing, most)
                counts[number] -= taken
                missing -= taken
        return True

    def choose(
        self, requests: Iterable[PciRequest], near: Nearness | None = None
    ) -> list[list[int]] | None:
        """Return the numbers of the devices for each request, or None. Nothing is taken yet."""
        taken = set(self._taken)
        devices = []
        for request in requests:
            chosen = self._select(
                [len(self.free(pool, taken)) for pool in self.pools], request, near
            )
            mine: list[int] = []
            for number, most in chosen or ():
                for _device in range(min(most, request.count - len(mine))):
                    free = self.free(self.pools[number], taken)
                    if not free:
                        break
                    mine.append(free[-1])
                    taken.add(free[-1])
            if len(mine) < request.count:
                return None
            devices.append(mine)
        return devices

    def _select(
        self, counts: Sequence[int], request: PciRequest, near: Nearness | None
    ) -> list[tuple[int, int]] | None:
        """Return the pools from which a request may take, in order, with the most devices of each;
        None if these are too few.
        """
        pools = [number for number, pool in enumerate(self.pools) if pool.matches(request)]
        if near is not None:
            pools = self._by_policy(pools, counts, request, near)
        pools = [number for number in pools if is_usable(dict(self.pools[number].kind), request)]
        counted = [(number, counts[number]) for number in pools]
        if request.providers is not None:
            counted = self._of_providers(counted, dict(request.providers))
        return counted if sum(most for _number, most in counted) >= request.count else None

    def _of_providers(
        self, pools: Iterable[tuple[int, int]], left: dict[str, int]
    ) -> list[tuple[int, int]]:
        """Return the given pools with devices of the given providers, with the most devices that a
        provider still gives.
        """
        counted = []
        for number, count in pools:
            key = self.pools[number].properties["address"]
            most = min(count, left.get(key, 0))
            if most:
                counted.append((number, most))
                left[key] -= most
        return counted

    def _by_policy(
        self, pools: list[int], counts: Sequence[int], request: PciRequest, near: Nearness
    ) -> list[int]:
        def among(nodes: Collection[int | None]) -> list[int]:
            return [number for number in pools if self.pools[number].node in nodes]

        def is_enough(numbers: list[int]) -> bool:
            return sum(counts[number] for number in numbers) >= request.count

        nearest = among(near.cells)
        if request.policy == REQUIRED or is_enough(nearest):
            return nearest
        if request.policy == SOCKET:
            return among(near.same_socket) if near.same_socket is not None else []
        legacy = near.cells | {None}
        nearest = among(legacy)
        if request.policy == LEGACY or is_enough(nearest):
            return nearest
        return sorted(pools, key=lambda number: self.pools[number].node not in legacy)

    def describe(self, device: int) -> dict[str, Any]:
        """Return the description of a device for a placement; ``pool`` is the address of the
        physical function or its own.
        """
        facts = self.devices[device]
        return {
            "address": facts["address"],
            "numa_node": facts.get("numa_node"),
            "dev_type": facts.get("dev_type", PLAIN),
            "pool": facts.get("parent_addr") or facts["address"],
        }

    def not_free(self, addresses: Iterable[str]) -> list[str]:
        """Return the given devices that do not exist, are taken, or exclude a device before
        them.
        """
        taken = set(self._taken)
        refused = []
        for address in addresses:
            device = self._number.get(address)
            if device is None or not self._is_free(device, taken):
                refused.append(address)
            else:
                taken.add(device)
        return refused

    def not_taken(self, addresses: Iterable[str]) -> list[str]:
        """Return the given devices that no instance has."""
        return [
            address
            for address in addresses
            if address in self._number and not self._taken[self._number[address]]
        ]

    def count(self, addresses: Iterable[str], sign: int) -> None:
        """Count an instance on devices (1) or off them (-1). Unknown devices are left out."""
        for address in addresses:
            if address in self._number:
                device = self._number[address]
                self._taken[device] += sign
                if not self._taken[device]:
                    del self._taken[device]


def _properties(device: Mapping[str, object], tags: Mapping[str, object]) -> dict[str, Any]:
    properties = {
        "product_id": device["product_id"],
        "vendor_id": device["vendor_id"],
        "numa_node": device.get("numa_node"),
        "dev_type": device.get("dev_type", PLAIN),
        **tags,
        "address": device.get("parent_addr") or device["address"],
    }
    if device.get("parent_ifname"):
        properties["parent_ifname"] = device["parent_ifname"]
    if properties["dev_type"] != PLAIN:
        properties.setdefault("remote_managed", "false")
    return properties
