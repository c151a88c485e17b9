# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A domain that moves gets devices of the other host in place of devices of this one."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.module_utils._bindings import reading
from ansible_collections.drover.compute.plugins.module_utils._domain.definition import (
    parse_hostdevs,
)
from ansible_collections.drover.compute.plugins.module_utils._libvirt.xml import parse
from ansible_collections.drover.compute.plugins.module_utils._migration import checks, passthrough

OLD, NEW = "4b20d080-1b54-4048-85b3-a6a62d165c01", "4b20d080-1b54-4048-85b3-a6a62d165c02"
TEXT = f"""<domain type='kvm'>
  <name>web</name>
  <metadata><drover:instance xmlns:drover="https://drover.compute/xmlns/instance/1"><drover:owner>x</drover:owner></drover:instance></metadata>
  <devices>
    <hostdev mode='subsystem' type='pci' managed='yes'>
      <source><address domain='0x0000' bus='0x3b' slot='0x02' function='0x1'/></source>
      <address type='pci' domain='0x0000' bus='0x06' slot='0x00' function='0x0'/>
    </hostdev>
    <hostdev mode='subsystem' type='pci' managed='no'>
      <source><address domain='0x0000' bus='0x3b' slot='0x02' function='0x2'/></source>
    </hostdev>
    <hostdev mode='subsystem' type='mdev' model='vfio-pci'><source><address uuid='{OLD}'/></source></hostdev>
    <interface type='hostdev' managed='yes'>
      <mac address='52:54:00:00:00:01'/>
      <source><address type='pci' domain='0x0000' bus='0x81' slot='0x00' function='0x0'/></source>
    </interface>
    <interface type='direct'><mac address='52:54:00:00:00:02'/><source dev='ens1f0v3' mode='bridge'/></interface>
    <interface type='direct'><mac address='52:54:00:00:00:03'/><source dev='bond0' mode='bridge'/></interface>
  </devices>
</domain>"""


def pair(address, there, interface=None, interface_there=None, live_migratable=False):
    return {
        "address": address,
        "address_there": there,
        "interface": interface,
        "interface_there": interface_there,
        "live_migratable": live_migratable,
    }


DEVICES = {
    "pci": [
        # The two devices change places.
        pair("0000:3b:02.1", "0000:3b:02.2"),
        pair("0000:3b:02.2", "0000:3b:02.1"),
        pair("0000:81:00.0", "0001:af:1f.7"),
        pair("0000:3b:02.4", "0000:3b:02.5", "ens1f0v3", "ens9f1v0"),
    ],
    "mdevs": [
        {"uuid": OLD, "there": {"uuid": NEW, "parent": "pci_0000_84_00_0", "type": "nvidia-11"}}
    ],
}


def test_each_device_is_replaced_and_all_else_stays():
    root = parse(passthrough.with_devices_there(TEXT, DEVICES))
    assert [each["address"] for each in parse_hostdevs(root)] == [
        "0000:3b:02.2",
        "0000:3b:02.1",
        NEW,
        "0001:af:1f.7",
    ]
    assert [
        each.get("dev") for each in root.findall("devices/interface/source") if each.get("dev")
    ] == ["ens9f1v0", "bond0"]
    # The address of the device in the guest, and the value of managed.
    assert root.find("devices/hostdev/address").get("bus") == "0x06"
    assert [each.get("managed") for each in root.findall("devices/hostdev")] == ["yes", "no", None]
    assert "<drover:instance" in passthrough.with_devices_there(TEXT, DEVICES)
    assert passthrough.with_devices_there(TEXT, passthrough.NONE) == TEXT


def test_only_devices_without_another_one_hold_a_domain():
    assert checks.device_reasons(reading.read(TEXT, but=passthrough.names(DEVICES)), True) == []
    assert len(reading.in_the_way(reading.read(TEXT), live=True)) == 4
    (binding,) = reading.in_the_way(
        reading.read(TEXT, but=passthrough.names(DEVICES) - {"0000:3b:02.2"}), live=True
    )
    assert "0000:3b:02.2" in binding.what


class End:
    def __init__(self, libvirt, qemu):
        self._versions = libvirt, qemu

    def getLibVersion(self):
        return self._versions[0]

    def getVersion(self):
        return self._versions[1]


NEWEST, OLDER, OLDEST = End(11000000, 10000000), End(9000000, 8001000), End(8005000, 8000000)


@pytest.mark.parametrize(
    ("devices", "ends", "options", "says"),
    [
        (passthrough.NONE, (OLDEST, OLDEST), {"post_copy": True}, None),
        (
            {"pci": [pair("a", "b")], "mdevs": []},
            (NEWEST, NEWEST),
            {},
            "do not move while it runs (a): shut it down",
        ),
        ({"pci": [pair("a", "b", live_migratable=True)], "mdevs": []}, (NEWEST, NEWEST), {}, None),
        (
            {"pci": [pair("a", "b", live_migratable=True)], "mdevs": []},
            (NEWEST, OLDER),
            {},
            "libvirt 10.0.0 and QEMU 8.2.2",
        ),
        ({"pci": [], "mdevs": DEVICES["mdevs"]}, (OLDER, NEWEST), {}, None),
        (
            {"pci": [], "mdevs": DEVICES["mdevs"]},
            (OLDEST, NEWEST),
            {},
            "libvirt 8.6.0 and QEMU 8.1.0",
        ),
        (
            {"pci": [], "mdevs": DEVICES["mdevs"]},
            (NEWEST, NEWEST),
            {"post_copy": True},
            "leave post_copy out",
        ),
    ],
)
def test_which_devices_move_with_a_running_guest(devices, ends, options, says):
    found = passthrough.live_reasons(ends, devices, options)
    assert len(found) == (says is not None) and (says is None or says in found[0])


def device(address, request=0, **more):
    return {
        "address": address,
        "request": request,
        "interface": None,
        "live_migratable": True,
        **more,
    }


def test_pairs_are_of_the_same_request_and_the_same_type():
    one, other = (
        {"uuid": name, "parent": parent, "type": kind}
        for name, parent, kind in (("u1", "p1", "nvidia-11"), ("u2", "p0", "nvidia-12"))
    )
    matches = passthrough.pairs(
        [device("a", 1), device("b"), device("c", None)],
        [device("x"), device("y", 1, live_migratable=False), device("z", 1)],
        [one, other],
        [{**other, "uuid": "n2"}, {**one, "uuid": "n1"}],
    )
    assert [
        (each["address"], each["address_there"], each["live_migratable"]) for each in matches["pci"]
    ] == [
        ("b", "x", True),
        ("a", "y", False),
    ]
    assert [(each["uuid"], each["there"]["uuid"]) for each in matches["mdevs"]] == [
        ("u1", "n1"),
        ("u2", "n2"),
    ]
    assert passthrough.pairs([device("a")], [], [one], []) == {"pci": [], "mdevs": []}
