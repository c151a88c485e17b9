# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options pci_device_specs and mdev_types, and how devices are reported to Placement."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.tracker import machines

DEVICES = machines.devices()


def described(**options):
    return fleets.described(machines.facts(**DEVICES), {"host": "kvm1", **options})


def addresses(*specs):
    return [each["address"] for each in described(pci_device_specs=list(specs))["pci_devices"]]


@pytest.mark.parametrize(
    "specs, found",
    [
        ([], []),
        ([{"vendor_id": "10de", "product_id": "2204"}], ["0000:85:00.0"]),
        ([{"address": "0000:85:00.*"}], ["0000:85:00.0", "0000:85:00.1"]),
        ([{"address": ":85:", "product_id": "1AEF"}], ["0000:85:00.1"]),
        (
            [{"address": {"bus": "3b", "function": "[01]"}, "product_id": "154c"}],
            ["0000:3b:02.0", "0000:3b:02.1"],
        ),
        # The address or the interface of a physical function, and its virtual ones.
        ([{"address": "0000:3b:00.0"}], ["0000:3b:00.0", "0000:3b:02.0", "0000:3b:02.1"]),
        ([{"devname": "ens1f0"}], ["0000:3b:00.0", "0000:3b:02.0", "0000:3b:02.1"]),
    ],
)
def test_which_devices_a_spec_names(specs, found):
    assert addresses(*specs) == found


def test_the_first_spec_counts():
    description = described(
        pci_device_specs=[
            {"address": "0000:3b:02.0", "physical_network": "a"},
            {"product_id": "154c", "physical_network": "b"},
        ]
    )
    assert [each["tags"]["physical_network"] for each in description["pci_devices"]] == ["a", "b"]


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"pci_device_specs": [{"vendor": "10de"}]}, "unknown key vendor .did you mean vendor_id"),
        (
            {"pci_device_specs": [{"vendor_id": "10dex"}]},
            "vendor_id must be four hexadecimal digits",
        ),
        (
            {"pci_device_specs": [{"address": "0000:3b:00.0", "devname": "ens1"}]},
            "has address and devname",
        ),
        ({"pci_device_specs": [{"address": "0000:3b:40.0"}]}, "slot of the address"),
        ({"pci_device_specs": [{"address": "0000:3b:00.0", "remote_managed": True}]}, None),
        ({"pci_device_specs": [{"address": "0000:3b:00.0", "managed": "perhaps"}]}, "managed"),
        ({"pci_device_specs": ["10de:2204"]}, "must be a list of mappings"),
        ({"pci_device_specs": [{"devname": 5}]}, "devname must be a text"),
        (
            {"pci_device_specs": [{"vendor_id": "10de", "traits": 5}]},
            "traits must be a list of names",
        ),
        (
            {"pci_device_specs": [{"devname": "ens1f0"}], "pci_report_in_placement": True},
            "devname does not go with pci_report_in_placement",
        ),
        (
            {"pci_device_specs": [{"address": "0000:3b:00.0"}], "pci_report_in_placement": True},
            "a physical function and one of its virtual ones",
        ),
        (
            {
                "pci_device_specs": [
                    {"address": "0000:3b:02.0", "resource_class": "a"},
                    {"product_id": "154c"},
                ],
                "pci_report_in_placement": True,
            },
            "are of one card and have different resource classes",
        ),
        (
            {
                "pci_device_specs": [
                    {"address": "0000:3b:02.0", "traits": "a"},
                    {"product_id": "154c"},
                ],
                "pci_report_in_placement": True,
            },
            "are of one card and have different traits",
        ),
        (
            {"pci_device_specs": [{"vendor_id": "10de", "one_time_use": True}]},
            "has one_time_use, which needs pci_report_in_placement",
        ),
        (
            {
                "pci_device_specs": [
                    {"vendor_id": "10de", "one_time_use": True, "physical_network": "a"}
                ],
                "pci_report_in_placement": True,
            },
            "has one_time_use, which does not go with physical_network",
        ),
        ({"mdev_types": [{"typ": "nvidia-11"}]}, "unknown key typ .did you mean type"),
        ({"mdev_types": [5]}, "must be a list of mappings"),
        (
            {"mdev_types": [{"type": "nvidia-11", "device_addresses": ["0000:84:00"]}]},
            "0000:84:00 is no PCI address",
        ),
        (
            {
                "mdev_types": [
                    {"type": "a", "device_addresses": ["0000:84:00.0"]},
                    {"type": "b", "device_addresses": ["0000:84:00.0"]},
                ]
            },
            "0000:84:00.0 has two types, a and b",
        ),
        ({"mdev_types": [{"type": "nvidia-11", "max_instances": 0}]}, "max_instances"),
        (
            {
                "mdev_types": [
                    "nvidia-11",
                    {"type": "nvidia-11", "device_addresses": ["0000:84:00.0"]},
                ]
            },
            "nvidia-11 stands there twice",
        ),
    ],
)
def test_options_that_cannot_be(options, sentence):
    if sentence is None:
        # No device here has the serial number of a card that is managed remotely.
        assert described(**options)["pci_devices"] == []
        return
    with pytest.raises(DroverError, match=sentence):
        described(**options)


def kinds(*option):
    report = described(mdev_types=list(option))
    return {
        each["parent"]: (each["type"], each["resource_class"], each["total"])
        for each in report["mdev_types"]
    }, report["warnings"]


def test_types_of_mediated_devices():
    default = {"pci_0000_84_00_0": ("nvidia-11", "VGPU", 15)}
    assert kinds("nvidia-11") == (default, [])
    named = {"type": "nvidia-558", "device_addresses": ["0000:C1:00.4"], "mdev_class": "a100"}
    assert kinds(named, "nvidia-11") == (
        {**default, "pci_0000_c1_00_4": ("nvidia-558", "CUSTOM_A100", 1)},
        [],
    )
    # A device that another mapping names is not of the default type.
    assert kinds({"type": "nvidia-18", "device_addresses": ["0000:84:00.0"]}, "nvidia-11")[0] == {
        "pci_0000_84_00_0": ("nvidia-18", "VGPU", 0)
    }


def test_at_most_so_many_of_a_type():
    found, dummy = kinds({"type": "nvidia-11", "max_instances": 4})
    assert found["pci_0000_84_00_0"] == ("nvidia-11", "VGPU", 4)


def test_types_that_nothing_comes_of_are_said():
    types, warnings = kinds(
        "nvidia-11", "nvidia-558", {"type": "nvidia-99", "device_addresses": ["0000:84:00.0"]}
    )
    assert types == {}
    assert any(
        "nvidia-558 is ignored: it has no device_addresses, and nvidia-11 takes all other devices"
        in each
        for each in warnings
    )
    assert any(
        "no device of this host makes nvidia-99. It has: i915-GVTg_V5_4, " in each
        for each in warnings
    )
