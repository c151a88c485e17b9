# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI devices: the devices that instances may get, aliases, requests."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import InvalidSpecs
from ansible_collections.drover.compute.plugins.plugin_utils._numa.device_requests import (
    SOCKET_TRAIT,
    PciRequest,
    affinity_policy,
    read_aliases,
    requests_of_flavor,
)
from ansible_collections.drover.compute.plugins.plugin_utils._numa.device_specs import (
    DeviceSpec,
    read_device_specs,
    tags_of,
)
from ansible_collections.drover.compute.plugins.plugin_utils._numa.hosts import (
    DoesNotFit,
    NumaHosts,
)
from ansible_collections.drover.compute.plugins.plugin_utils._numa.request import read_request

PF = {
    "address": "0000:3b:00.0",
    "vendor_id": "15b3",
    "product_id": "101d",
    "dev_type": "type-PF",
    "interface": "ens1",
}
VF = {
    "address": "0000:3b:00.2",
    "vendor_id": "15b3",
    "product_id": "101e",
    "dev_type": "type-VF",
    "parent_addr": "0000:3b:00.0",
}
GPU = {
    "address": "0000:81:00.0",
    "vendor_id": "10de",
    "product_id": "2204",
    "dev_type": "type-PCI",
    "numa_node": 1,
}
DEVICES = [PF, VF, GPU]
GPU_ALIAS = {"name": "gpu", "vendor_id": "10de", "product_id": "2204"}


@pytest.mark.parametrize(
    ("spec", "matched"),
    [
        ({}, [PF, VF, GPU]),
        ({"vendor_id": "15b3"}, [PF, VF]),
        ({"vendor_id": "15b3", "product_id": "101e"}, [VF]),
        ({"address": "*:81:00.*"}, [GPU]),
        ({"address": "81:"}, [GPU]),
        ({"address": "81:00"}, [GPU]),
        ({"address": ".2"}, [VF]),
        ({"address": "0000:3b:00.0"}, [PF, VF]),
        ({"address": "3b:00.0"}, [PF]),
        ({"address": {"bus": "3b", "function": "[1-7]"}}, [VF]),
        ({"devname": "ens1"}, [PF, VF]),
        ({"vendor_id": "10de", "remote_managed": "true"}, []),
    ],
)
def test_a_device_spec_matches_as_nova_s(spec, matched):
    tags = tags_of(DEVICES, read_device_specs([spec]))
    assert [device for device, each in zip(DEVICES, tags) if each is not None] == matched


def test_the_first_spec_that_matches_gives_the_tags():
    specs = [
        {"address": ".2", "physical_network": "blue", "traits": "CUSTOM_X"},
        {"live_migratable": "yes"},
    ]
    assert tags_of(DEVICES, read_device_specs(specs)) == [
        {"live_migratable": "true"},
        {"physical_network": "blue"},
        {"live_migratable": "true"},
    ]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"vendor_id": "nvidia"}, "vendor_id must be four hexadecimal digits"),
        ({"address": "0000:00:3b:00.0"}, "too many parts"),
        (
            {"address": "0000:zz:00.0"},
            "the bus of the address must be a hexadecimal number up to ff",
        ),
        ({"address": "0000:3b:00.9"}, "the function of the address .* up to 7"),
        ({"address": {"bus": "["}}, "in a regular expression"),
        ({"address": "3b:00.0", "devname": "ens1"}, "has address and devname"),
        ({"managed": "perhaps"}, "managed is 'perhaps'. It must be true or false"),
        ({"one_time_use": "once"}, "one_time_use is 'once'. It must be true or false"),
        ({"tag": ["a"]}, "the tag tag must be a text or a number"),
    ],
)
def test_device_specs_that_are_refused(spec, words):
    with pytest.raises(InvalidSpecs, match=words):
        DeviceSpec(spec)


@pytest.mark.parametrize(
    ("aliases", "words"),
    [
        ([{"vendor_id": "10de", "product_id": "2204"}], "has no name"),
        ([{"name": "gpu", "vendor_id": "10de"}], "needs a product_id of four hexadecimal digits"),
        ([{**GPU_ALIAS, "class": "X"}], "unknown key class"),
        (
            [{**GPU_ALIAS, "resource_class": "X"}],
            "has resource_class, which needs pci_in_placement: true",
        ),
        ([{**GPU_ALIAS, "traits": "X"}], "has traits, which needs pci_in_placement: true"),
        ([{**GPU_ALIAS, "device_type": "gpu"}], "it must be type-PCI, type-PF, type-VF"),
        (
            [{**GPU_ALIAS, "numa_policy": "near"}],
            "it must be one of required, legacy, preferred, socket",
        ),
        ([GPU_ALIAS, {**GPU_ALIAS, "numa_policy": "required"}], "must have the same one"),
        ([GPU_ALIAS, {**GPU_ALIAS, "device_type": "type-PF"}], "different device types"),
    ],
)
def test_aliases_that_are_refused(aliases, words):
    with pytest.raises(InvalidSpecs, match=words) as caught:
        read_aliases(aliases)
    assert caught.value.code == "PciInvalidAlias"


@pytest.mark.parametrize(
    ("aliases", "words"),
    [
        (
            [GPU_ALIAS, GPU_ALIAS],
            "two PCI aliases gpu, but with pci_in_placement an alias has no alternatives",
        ),
        (
            [{"name": "gpu", "vendor_id": "10de"}],
            r"needs a product_id of four .* \(or a resource_class\)",
        ),
        ([{"name": "gpu", "resource_class": "gpu", "vendor_id": "nvidia"}], "needs a vendor_id"),
        (
            [{"name": "gpu", "resource_class": ["gpu"]}],
            "resource_class of the PCI alias gpu must be a name",
        ),
        (
            [{**GPU_ALIAS, "traits": {"a": 1}}],
            "traits of the PCI alias gpu must be a list of names",
        ),
    ],
)
def test_aliases_that_are_refused_in_placement(aliases, words):
    with pytest.raises(InvalidSpecs, match=words) as caught:
        read_aliases(aliases, in_placement=True)
    assert caught.value.code == "PciInvalidAlias"


def test_aliases_in_placement_have_a_class_and_traits():
    alias_specs = [
        GPU_ALIAS,
        {"name": "nic", "resource_class": "fast-nic", "traits": "HW_NIC_ACCEL_SSL, blue"},
    ]
    aliases = read_aliases(alias_specs, in_placement=True)
    assert [(each.resource_class, each.traits) for each in aliases.values()] == [
        ("CUSTOM_PCI_10DE_2204", ()),
        ("CUSTOM_FAST_NIC", ("CUSTOM_BLUE", "HW_NIC_ACCEL_SSL")),
    ]
    assert aliases["nic"].specs == ((),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gpux:1", r"does not exist \(did you mean gpu\?\)"),
        ("gpu", "such as gpu:2,nic:1"),
        ("gpu:-1", "such as"),
        ("gpu:1,", "such as"),
    ],
)
def test_requests_that_are_refused(text, words):
    with pytest.raises(InvalidSpecs, match=words):
        requests_of_flavor({"pci_passthrough:alias": text}, read_aliases([GPU_ALIAS]))


def test_the_flavor_s_policy_replaces_that_of_the_alias():
    aliases = read_aliases([{**GPU_ALIAS, "numa_policy": "preferred"}])
    request, constraints = read_request(
        1,
        512,
        {"pci_passthrough:alias": "gpu:2", "hw:pci_numa_affinity_policy": "socket"},
        {},
        aliases,
    )
    assert [(each.count, each.policy) for each in request.pci] == [(2, "socket")]
    assert constraints.required == {SOCKET_TRAIT}
    assert requests_of_flavor({"pci_passthrough:alias": "gpu:0"}, aliases) == ()
    with pytest.raises(InvalidSpecs, match="An image may not change that"):
        affinity_policy(
            {"hw:pci_numa_affinity_policy": "socket"}, {"hw_pci_numa_affinity_policy": "legacy"}
        )


def test_no_device_is_given_away_unasked():
    request, _constraints = read_request(
        1, 512, {"pci_passthrough:alias": "gpu:1"}, {}, read_aliases([GPU_ALIAS])
    )
    for specs, fits in (([], False), ([{"vendor_id": "10de"}], True)):
        hosts = NumaHosts([{"name": "kvm1", "cells": [], "pci": DEVICES, "device_spec": specs}])
        assert hosts.fits(request).mask.tolist() == [fits]
    assert hosts.place(request, 0)["pci"][0]["devices"][0]["address"] == GPU["address"]


def test_the_reason_of_a_host_is_a_sentence():
    asked, _constraints = read_request(1, 512, {"hw:cpu_policy": "dedicated"}, {}, {})
    with pytest.raises(DoesNotFit, match="^Host kvm1 reports no NUMA cells.$"):
        NumaHosts([{"name": "kvm1", "cells": []}]).place(asked, 0)


def test_a_port_may_ask_for_one_card():
    documents = [
        {
            "name": name,
            "cells": [],
            "pci": [{**VF, "parent_ifname": name}],
            "device_spec": [{"physical_network": "blue"}],
        }
        for name in ("ens1", "ens2")
    ]
    for spec, fits in (
        ({"parent_ifname": "ens2"}, [False, True]),
        ({"physical_network": "BLUE"}, [True, True]),
        ({"physical_network": "red"}, [False] * 2),
    ):
        port = PciRequest(1, (tuple(spec.items()),))
        asked, _constraints = read_request(1, 512, {}, {}, {}, [port])
        assert NumaHosts(documents).fits(asked).mask.tolist() == fits
