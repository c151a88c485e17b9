# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Node devices as libvirt's documentation and its own test data describe them; this machine has no
such hardware."""

from __future__ import annotations

import pathlib
import types
import xml.etree.ElementTree as ET

import libvirt
import pytest

from ansible_collections.drover.compute.plugins.module_utils._host import devices

NODEDEVS = ET.parse(pathlib.Path(__file__).parents[1] / "data" / "nodedevs.xml").getroot()
TEXTS = [ET.tostring(each, encoding="unicode") for each in NODEDEVS]


@pytest.fixture(scope="module")
def found():
    return devices.parse_devices((text, "3627463d" not in text) for text in TEXTS)


@pytest.fixture(scope="module")
def pci(found):
    return {each["address"]: each for each in found["pci_devices"]}


def test_an_intel_nic_with_two_of_its_functions(pci):
    assert pci["0000:3b:00.0"] == {
        "name": "pci_0000_3b_00_0",
        "address": "0000:3b:00.0",
        "class": "020000",
        "vendor_id": "8086",
        "product_id": "1572",
        "vendor": "Intel Corporation",
        "product": "Ethernet Controller X710 for 10GbE SFP+",
        "numa_node": 0,
        "driver": "i40e",
        "dev_type": "type-PF",
        "parent_addr": None,
        "virtual_functions": ["0000:3b:02.0", "0000:3b:02.1"],
        "max_virtual_functions": 64,
        "iommu_group": 40,
        "iommu_group_members": ["0000:3b:00.0"],
        "interface": "ens1f0",
        "mac": "3c:fd:fe:9e:11:20",
        "vdpa": None,
    }
    function = pci["0000:3b:02.0"]
    assert (function["dev_type"], function["parent_addr"], function["interface"]) == (
        "type-VF",
        "0000:3b:00.0",
        "ens1f0v0",
    )
    # Its driver is vfio-pci, so it has no interface on the host.
    assert (pci["0000:3b:02.1"]["driver"], pci["0000:3b:02.1"]["interface"]) == ("vfio-pci", None)


def test_a_mellanox_nic_without_functions_is_a_physical_function(pci):
    device = pci["0000:42:00.0"]
    assert (device["dev_type"], device["virtual_functions"], device["max_virtual_functions"]) == (
        "type-PF",
        [],
        16,
    )


def test_a_function_with_a_vdpa_device(pci):
    device = pci["0000:43:00.2"]
    assert (device["dev_type"], device["vdpa"], device["parent_addr"]) == (
        "vdpa",
        "/dev/vhost-vdpa-0",
        "0000:43:00.0",
    )


def test_a_gpu_and_its_sound_share_an_iommu_group(pci):
    device = pci["0000:85:00.0"]
    assert (device["dev_type"], device["class"], device["iommu_group_members"]) == (
        "type-PCI",
        "030000",
        ["0000:85:00.0", "0000:85:00.1"],
    )
    # No <numa>: the cell is not known; that is different from cell 0.
    assert device["numa_node"] is None


def test_the_types_of_mediated_devices(found):
    kinds = {(each["parent"], each["type"]): each for each in found["mdev_types"]}
    assert kinds["pci_0000_84_00_0", "nvidia-11"] == {
        "parent": "pci_0000_84_00_0",
        "type": "nvidia-11",
        "name": "GRID M60-0B",
        "device_api": "vfio-pci",
        "available_instances": 14,
    }
    assert kinds["pci_0000_84_00_0", "nvidia-18"]["available_instances"] == 0
    # A virtual function of an A100, Intel's GVT-g, and a parent that is not a PCI device.
    assert {"pci_0000_c1_00_4", "pci_0000_00_02_0", "css_0_0_fffe"} < {
        parent for parent, dummy in kinds
    }
    assert kinds["pci_0000_00_02_0", "i915-GVTg_V5_8"]["available_instances"] == 2
    assert kinds["css_0_0_fffe", "vfio_ccw-io"]["device_api"] == "vfio-ccw"


def test_mediated_devices_that_are_there_or_only_defined(found):
    assert found["mdev_devices"] == [
        {
            "name": "mdev_3627463d_b7f0_4fea_b468_f1da537d301b",
            # An old libvirt has the uuid only in the name.
            "uuid": "3627463d-b7f0-4fea-b468-f1da537d301b",
            "type": "mtty-1",
            "parent": "computer",
            "iommu_group": 12,
            "active": False,
        },
        {
            "name": "mdev_4b20d080_1b54_4048_85b3_a6a62d165c01_0000_84_00_0",
            "uuid": "4b20d080-1b54-4048-85b3-a6a62d165c01",
            "type": "nvidia-11",
            "parent": "pci_0000_84_00_0",
            "iommu_group": 112,
            "active": True,
        },
    ]


class Device:
    def __init__(self, text, gone=False):
        self.text, self.gone = text, gone

    def XMLDesc(self, flags):  # noqa: N802  # libvirt's name
        if self.gone:
            raise libvirt.libvirtError("no node device with matching name")
        return self.text

    def isActive(self):  # noqa: N802  # libvirt's name
        return 1


def test_a_libvirt_that_knows_no_defined_devices():
    calls = []

    def listing(flags):
        calls.append(flags)
        if flags & libvirt.VIR_CONNECT_LIST_NODE_DEVICES_INACTIVE:
            problem = libvirt.libvirtError("unsupported flags (0x80000000)")
            problem.err = (
                libvirt.VIR_ERR_INVALID_ARG,
                libvirt.VIR_FROM_NODEDEV,
                "unsupported flags",
                2,
                None,
                None,
                None,
                0,
                0,
            )
            raise problem
        return [Device(TEXTS[0]), Device(TEXTS[1], gone=True)]

    read = devices.read_devices(types.SimpleNamespace(listAllDevices=listing))
    assert [each["address"] for each in read["pci_devices"]] == ["0000:3b:00.0"]
    assert len(calls) == 2
    assert calls[1] & libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV


def test_what_libvirt_itself_makes_of_them(found, tmp_path):
    """libvirt's test driver reads the file with libvirt's own parser, filters by kind, and writes
    the XML again."""
    node = ET.Element("node")
    # That driver parses no vDPA device, and does not write drivers of devices.
    node.extend(each for each in NODEDEVS if each.findtext("name") != "vdpa_vdpa0")
    path = tmp_path / "node.xml"
    path.write_text(ET.tostring(node, encoding="unicode"))
    conn = libvirt.open(f"test://{path}")
    try:
        read = devices.read_devices(conn)
    finally:
        conn.close()
    expected = [{**each, "driver": None} for each in found["pci_devices"]]
    expected[[each["address"] for each in expected].index("0000:43:00.2")].update(
        dev_type="type-VF", vdpa=None
    )
    assert read["pci_devices"] == expected
    assert read["mdev_types"] == found["mdev_types"]
    assert read["mdev_devices"] == [{**each, "active": True} for each in found["mdev_devices"]]
