# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices of a host in the domain of an instance: from the definition to the request, and from the
claim to the XML."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import requests
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.errors import RequestError
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.request_spec import (
    RequestSpec,
)
from ansible_collections.drover.compute.tests.unit.definitions.test_hardware import (
    accepted,
    claim_of,
    made,
    rendered,
)

GPU, FUNCTION, OTHER, CARD = "0000:85:00.0", "0000:3b:02.0", "0000:3b:02.1", "0000:3b:00.0"
MDEV = "4b20d080-1b54-4048-85b3-a6a62d165c01"


def device(address, request, managed=True, interface=None, dev_type=None):
    return {
        "address": address,
        "request": request,
        "managed": managed,
        "interface": interface,
        "dev_type": dev_type,
    }


def port(vnic="direct", **more):
    return {"physical_network": "physnet1", "vnic": vnic, **more}


def address_of(element):
    found = element.find("source/address").attrib
    parts = [found[key].removeprefix("0x") for key in ("domain", "bus", "slot", "function")]
    return "{}:{}:{}.{}".format(*parts)


def hostdevs(root):
    """Return the type of each <hostdev>, the value of managed, and the device."""
    return [
        (
            each.get("type"),
            each.get("managed"),
            (
                address_of(each)
                if each.get("type") == "pci"
                else each.find("source/address").get("uuid")
            ),
        )
        for each in root.findall("devices/hostdev")
    ]


def test_a_device_of_an_alias_is_passed_through():
    root = made(
        {},
        pci_devices=[device(GPU, 0), device(FUNCTION, 1, managed=False)],
        mdevs=[{"uuid": MDEV, "parent": "p", "type": "t"}],
    )
    assert hostdevs(root) == [("pci", "yes", GPU), ("pci", "no", FUNCTION), ("mdev", "no", MDEV)]
    assert (
        root.find("devices/hostdev[3]").get("model") == "vfio-pci"
        and root.findall("devices/interface") == []
    )
    assert hostdevs(made({})) == []


def test_the_order_of_interfaces_is_that_of_the_definition():
    networks = [
        port(mac="52:54:00:00:00:02", vlan={"tag": 42}),
        {"bridge": "br0", "mac": "52:54:00:00:00:01"},
        port("macvtap", mac="52:54:00:00:00:03", vlan={"tag": 7}, queues=4),
        {"network": "default", "mac": "52:54:00:00:00:04"},
    ]
    devices = [
        device(GPU, 0),
        device(FUNCTION, 1, managed=False),
        device(OTHER, 2, interface="ens1f0v1"),
    ]
    root = made({"networks": networks}, pci_devices=devices)
    nics = root.findall("devices/interface")
    assert [each.find("mac").get("address") for each in nics] == [
        f"52:54:00:00:00:0{number}" for number in (2, 1, 3, 4)
    ]
    assert [each.get("type") for each in nics] == ["hostdev", "bridge", "direct", "network"]
    assert (
        nics[0].get("managed"),
        address_of(nics[0]),
        nics[0].find("vlan/tag").get("id"),
        nics[0].find("model"),
    ) == (
        "no",
        FUNCTION,
        "42",
        None,
    )
    assert nics[0].find("source/address").get("type") == "pci"
    assert dict(nics[2].find("source").attrib) == {"dev": "ens1f0v1", "mode": "passthrough"}
    assert (nics[2].find("model").get("type"), nics[2].find("driver").get("queues")) == (
        "virtio",
        "4",
    )
    # Devices of aliases are not interfaces.
    assert hostdevs(root) == [("pci", "yes", GPU)]


def test_a_physical_function_is_no_interface_but_a_device():
    root = made(
        {"networks": [port("direct-physical"), {"bridge": "br0"}]},
        pci_devices=[device(CARD, 0, dev_type="type-PF")],
    )
    assert [each.get("type") for each in root.findall("devices/interface")] == [
        "bridge"
    ] and hostdevs(root) == [("pci", "yes", CARD)]


def test_an_alias_of_several_devices_goes_before_the_ports():
    devices = [device(FUNCTION, 0), device(OTHER, 0), device(CARD, 1)]
    root = made({"networks": [port()]}, pci_devices=devices)
    assert [each[2] for each in hostdevs(root)] == [FUNCTION, OTHER] and address_of(
        root.find("devices/interface")
    ) == CARD


def test_multiqueue_of_the_flavor_is_not_for_a_device_of_the_guest():
    claim = claim_of(
        {"vcpus": 2, "networks": [port(), port("macvtap")]},
        pci_devices=[device(FUNCTION, 0), device(OTHER, 1, interface="ens1")],
    )
    claim["guest"]["extra_specs"] = {"hw:vif_multiqueue_enabled": "true"}
    root = accepted(rendered(claim))
    assert [each.find("driver") is not None for each in root.findall("devices/interface")] == [
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("networks", "devices", "words"),
    [
        (
            [port()],
            [],
            (
                "Instance web1 on kvm1: its claim has no device for network 1 (physical_network"
                " physnet1)"
            ),
        ),
        ([port(), port()], [device(FUNCTION, 0)], "no device for network 1"),
        ([port()], [device(FUNCTION, None)], "no device for network 1"),
        (
            [port("macvtap")],
            [device(FUNCTION, 0)],
            "network 1: its device 0000:3b:02.0 has no network interface on the host",
        ),
        (
            [port()],
            [device(CARD, 0, dev_type="type-PF")],
            "network 1: its claim has 0000:3b:00.0, a type-PF, which does not go with vnic direct",
        ),
    ],
)
def test_what_a_claim_lacks_is_said(networks, devices, words):
    with pytest.raises(AnsibleFilterError) as caught:
        made({"networks": networks}, pci_devices=devices)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (
            {"physical_network": "physnet1"},
            (
                "network 1: physical_network needs vnic, which says how the guest gets the device:"
                " direct, macvtap"
            ),
        ),
        ({"vnic": "direct"}, "network 1: vnic direct needs physical_network"),
        ({"vnic": "direct", "bridge": "br0"}, "vnic direct needs physical_network"),
        (
            port(bridge="br0"),
            (
                "bridge does not go with vnic direct, which takes a device of the host instead."
                " Take bridge out"
            ),
        ),
        (port(network="default"), "network does not go with vnic direct"),
        (port("macvtap", openvswitch=True), "openvswitch does not go with vnic macvtap"),
        (port("macvtap", mtu=9000), "mtu does not go with vnic macvtap"),
        (
            port(model="e1000"),
            "model does not go with vnic direct, as the guest sees the device itself",
        ),
        (port(queues=4), "queues does not go with vnic direct"),
        (port(vlan={"trunk": [1, 2]}), "a virtual function has one VLAN, not a trunk"),
        (
            port("direct-physical", vlan={"tag": 1}),
            "vlan does not go with vnic direct-physical, as the whole card belongs to the guest",
        ),
        (
            port("direct-physical", mac="52:54:00:12:34:56"),
            "mac does not go with vnic direct-physical",
        ),
        (port("macvtap", model="e1000", queues=4), "queues needs the model virtio, not e1000"),
        (port("normal"), "vnic must be direct, macvtap or direct-physical, not 'normal'"),
        (port("macvtab"), "did you mean macvtap?"),
        (
            {"physical_netwrk": "physnet1"},
            "unknown key physical_netwrk (did you mean physical_network?)",
        ),
        ({}, "name either a bridge or a libvirt network; or a physical_network with vnic"),
        ({"bridge": "br0", "network": "default"}, "name either a bridge or a libvirt network"),
    ],
)
def test_what_does_not_go_with_a_device_is_refused(network, words):
    with pytest.raises(DroverError) as caught:
        claim_of({"networks": [network]})
    assert words in str(caught.value) and "fleet.yml: instance web1" in str(caught.value)


def test_a_definition_asks_the_scheduler_for_its_devices():
    networks = [
        {"bridge": "br0"},
        port(mac="52:54:00:12:34:56"),
        port("macvtap"),
        {"physical_network": "physnet2", "vnic": "direct-physical"},
    ]
    asked = requests.request(claim_of({"networks": networks})["request"] | {"networks": networks})
    assert asked["networks"] == [
        port(),
        port("macvtap"),
        {"physical_network": "physnet2", "vnic": "direct-physical"},
    ]
    spec = RequestSpec.from_request(claim_of({"networks": networks})["request"])
    assert [
        (each.count, [dict(spec) for spec in each.specs]) for each in spec.host_request.pci
    ] == [
        (1, [{"physical_network": "physnet1", "dev_type": "type-VF"}]),
        (1, [{"physical_network": "physnet1", "dev_type": "type-VF"}]),
        (1, [{"physical_network": "physnet2", "dev_type": "type-PF"}]),
    ]
    assert "networks" not in claim_of({"networks": [{"bridge": "br0"}]})["request"]


@pytest.mark.parametrize(
    ("networks", "words"),
    [
        (
            "physnet1",
            (
                "Request 'web1': 'networks' must be a list of mappings with physical_network and"
                " vnic, not 'physnet1'"
            ),
        ),
        (["physnet1"], "must be a list of mappings"),
        ([{"vnic": "direct"}], "network 1 has no 'physical_network'"),
        ([{"physical_network": "physnet1"}], "network 1 has no 'vnic'"),
        (
            [port("macvtab")],
            (
                "'vnic' must be direct, macvtap or direct-physical, not 'macvtab' (did you mean"
                " macvtap?)"
            ),
        ),
        (
            [port(), {"physical_networks": "a"}],
            "network 2: unknown key physical_networks (did you mean physical_network?)",
        ),
    ],
)
def test_a_wrong_request_is_refused(networks, words):
    with pytest.raises(RequestError) as caught:
        RequestSpec.from_request(
            {"name": "web1", "vcpus": 1, "memory_mb": 64, "networks": networks}
        )
    assert words in str(caught.value)
