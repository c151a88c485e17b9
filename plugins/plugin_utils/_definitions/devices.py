# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The devices of its host in the domain of an instance, as its claim gave them (N12.5)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .._common.errors import DroverError
from .._numa.device_requests import VNICS


def with_devices(
    networks: Sequence[Mapping[str, Any]],
    pci_devices: Sequence[Mapping[str, Any]],
    mdevs: Iterable[Mapping[str, Any]],
    where: str,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the interfaces of a domain, each with its device if it is one, and the other devices
    of the domain.

    :param networks: the result of hardware.networks().
    :param pci_devices: the PCI devices of the claim: address, request, managed, and interface if
        the device has one on the host. The requests of network ports are the last ones, in the
        order of the networks.
    :param mdevs: the mediated devices of the claim, each with uuid.
    :param where: the beginning of each sentence.
    :returns: the interfaces, each with ``type`` (of libvirt), ``address`` and ``managed`` (of a
        hostdev), ``dev`` (of a macvtap); and hostdevs, each with ``type`` (pci or mdev) and
        ``address`` and ``managed``, or ``uuid``. An ``address`` is domain, bus, slot and function
        in hexadecimal.
    :raises DroverError: the claim has no device for an interface, or one that cannot be used so.
    """
    of_request: dict[int, list[Mapping[str, Any]]] = {}
    for each in sorted(pci_devices, key=lambda device: str(device["address"])):
        of_request.setdefault(-1 if each.get("request") is None else each["request"], []).append(
            each
        )
    numbers = sorted(of_request)
    ports = [number for number, network in enumerate(networks) if network.get("vnic")]
    if len(ports) > len([number for number in numbers if number >= 0]):
        raise DroverError(
            f"{where}: its claim has no device for network {ports[0] + 1} (physical_network"
            f" {networks[ports[0]]['physical_network']}). Remove what was begun with"
            " drover.compute.instance_delete, and run drover.compute.place again."
        )
    chosen = dict(zip(ports, numbers[len(numbers) - len(ports) :]))
    interfaces: list[dict[str, Any]] = []
    hostdevs = [
        _pci(each)
        for number in numbers
        if number not in chosen.values()
        for each in of_request[number]
    ]
    for number, network in enumerate(networks):
        if number not in chosen:
            interfaces.append({**network, "type": "bridge" if network.get("bridge") else "network"})
            continue
        device, place = of_request[chosen[number]][0], f"{where}, network {number + 1}"
        if device.get("dev_type") not in (None, VNICS[network["vnic"]]):
            raise DroverError(
                f"{place}: its claim has {device['address']}, a {device['dev_type']}, which does"
                f" not go with vnic {network['vnic']}."
            )
        if network["vnic"] == "direct":
            interfaces.append({**network, **_pci(device), "type": "hostdev"})
        elif network["vnic"] == "macvtap":
            interfaces.append({**network, "type": "direct", "dev": _interface(device, place)})
        else:
            hostdevs.append(_pci(device))
    return interfaces, hostdevs + [{"type": "mdev", "uuid": each["uuid"]} for each in mdevs]


def _pci(device: Mapping[str, Any]) -> dict[str, Any]:
    parts = re.split("[:.]", device["address"])
    address = {key: f"0x{part}" for key, part in zip(("domain", "bus", "slot", "function"), parts)}
    return {"type": "pci", "address": address, "managed": device.get("managed", True)}


def _interface(device: Mapping[str, object], place: str) -> str:
    if not device.get("interface"):
        raise DroverError(
            f"{place}: its device {device['address']} has no network interface on the host, which"
            " vnic macvtap needs. Bind it to its network driver there and run"
            " drover.compute.discover, or take vnic direct."
        )
    return str(device["interface"])
