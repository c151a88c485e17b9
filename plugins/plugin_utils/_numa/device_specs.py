# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The PCI devices of a host that instances may use: Nova's device_spec (N12.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .._common.errors import InvalidSpecs
from .._common.validation import shown
from .device_requests import PHYSICAL, truth

#: Parts of an address, with the largest number and the digits of each.
_PARTS = (("domain", 0xFFFF, 4), ("bus", 0xFF, 2), ("slot", 0x1F, 2), ("function", 0x7, 1))
_ANY = "*"
_TRUTHS = ("managed", "live_migratable", "one_time_use", "remote_managed")


class DeviceSpec:
    """A rule that allows devices for instances, with the tags that it gives them.

    :raises InvalidSpecs: it cannot be read.
    """

    def __init__(self, given: Mapping[str, object]) -> None:
        self._where = f"The PCI device spec {shown(dict(given))}"
        tags = dict(given)
        self._vendor = self._identity(tags.pop("vendor_id", _ANY), "vendor_id")
        self._product = self._identity(tags.pop("product_id", _ANY), "product_id")
        address, self._interface = tags.pop("address", None), tags.pop("devname", None)
        if address and self._interface:
            raise InvalidSpecs(
                f"{self._where} has address and devname. Keep one of them.",
                "PciDeviceInvalidDeviceName",
            )
        self._address = self._patterns(address) if not self._interface else []
        for key in _TRUTHS:
            if tags.get(key) is not None:
                tags[key] = truth(f"{self._where}: {key}", tags[key], "PciConfigInvalidSpec")
        self._remote_managed = tags.get("remote_managed") == "true"
        # resource_class and traits are for Placement, and no abilities of a device.
        self.tags = {
            key: value for key, value in tags.items() if key not in ("resource_class", "traits")
        }
        for key, value in self.tags.items():
            if not isinstance(value, (str, int, float)):
                raise InvalidSpecs(
                    f"{self._where}: the tag {key} must be a text or a number.",
                    "PciConfigInvalidSpec",
                )

    def _identity(self, value: Any, key: str) -> str:
        text = str(value).strip()
        if text != _ANY and not re.fullmatch(r"[0-9a-fA-F]{1,4}", text):
            raise InvalidSpecs(
                f"{self._where}: {key} must be four hexadecimal digits or *.",
                "PciConfigInvalidSpec",
            )
        return text if text == _ANY else f"{int(text, 16):04x}"

    def _patterns(self, address: Any) -> list[re.Pattern[str]]:
        """Return a pattern for each part of an address; a mapping has regular expressions, which
        match from the start.
        """
        if isinstance(address, Mapping):
            try:
                return [re.compile(str(address.get(name, ".*"))) for name, _most, _digits in _PARTS]
            except re.error as problem:
                raise InvalidSpecs(
                    f"{self._where}: {problem} in a regular expression.",
                    "PciDeviceWrongAddressFormat",
                ) from None
        if address is not None and not isinstance(address, str):
            raise InvalidSpecs(
                f"{self._where}: address must be a text such as 0000:3b:00.* or a mapping.",
                "PciDeviceWrongAddressFormat",
            )
        place, _dot, function = (address or "").partition(".")
        fields = place.split(":") if place else []
        if len(fields) > 3:
            raise InvalidSpecs(
                f"{self._where}: the address has too many parts; write 0000:3b:00.0.",
                "PciDeviceWrongAddressFormat",
            )
        texts = [_ANY] * (3 - len(fields)) + fields + [function]
        return [self._pattern(text.strip() or _ANY, *part) for text, part in zip(texts, _PARTS)]

    def _pattern(self, text: str, name: str, most: int, digits: int) -> re.Pattern[str]:
        if text == _ANY:
            return re.compile("")
        if not re.fullmatch(r"[0-9a-fA-F]+", text) or int(text, 16) > most:
            raise InvalidSpecs(
                f"{self._where}: the {name} of the address must be a hexadecimal number up to"
                f" {most:x}, or *.",
                "PciConfigInvalidSpec",
            )
        return re.compile(f"{int(text, 16):0{digits}x}$")

    def _matches_address(self, address: str) -> bool:
        parts = re.split("[:.]", address.lower())
        return len(parts) == len(self._address) and all(
            pattern.match(part) for pattern, part in zip(self._address, parts)
        )

    def matches(self, device: Mapping[str, Any], physical: Mapping[str, Mapping[str, Any]]) -> bool:
        """Return True if the rule allows a device for instances.

        :param device: with ``address``, ``vendor_id``, ``product_id``, ``parent_addr``, and
            ``interface`` if it has a name.
        :param physical: {address: device} of the physical functions of the host.
        """
        if self._vendor not in (_ANY, device["vendor_id"]) or self._product not in (
            _ANY,
            device["product_id"],
        ):
            return False
        if self._remote_managed and not device.get("card_serial_number"):
            return False
        parent = physical.get(device.get("parent_addr") or "")
        if self._interface:
            return self._interface in (device.get("interface"), (parent or {}).get("interface"))
        # The address of a physical function also stands for its virtual functions; a pattern over
        # several addresses does not.
        if parent is not None and self._is_one_address and self._matches_address(parent["address"]):
            return True
        return self._matches_address(device["address"])

    @property
    def _is_one_address(self) -> bool:
        return all(re.fullmatch(r"[0-9a-fA-F]+\$?", pattern.pattern) for pattern in self._address)


def read_device_specs(given: Iterable[Mapping[str, object]]) -> list[DeviceSpec]:
    """Read the device specs of a host.

    :raises InvalidSpecs: one cannot be read.
    """
    return [DeviceSpec(each) for each in given]


def tags_of(
    devices: Sequence[Mapping[str, Any]], specs: Sequence[DeviceSpec]
) -> list[dict[str, Any] | None]:
    """Return the tags of each device by the first device spec that matches it; None for a device
    that instances may not use.
    """
    physical = {each["address"]: each for each in devices if each.get("dev_type") == PHYSICAL}
    return [
        next((spec.tags for spec in specs if spec.matches(each, physical)), None)
        for each in devices
    ]
