# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests: accepted values, and the refusals with their texts."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.errors import RequestError
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.request_spec import (
    RequestSpec,
)

GOOD = {"name": "web1", "vcpus": 1, "memory_mb": 64, "disk_gb": 1}


def test_a_whole_request():
    spec = RequestSpec.from_request(
        {
            **GOOD,
            "uuid": "1B4E28BA-2FA1-11D2-883F-0016D3CCA427",
            "availability_zone": "az1",
            "server_group": {"name": "web", "policy": "anti-affinity", "max_server_per_host": 2},
            "hints": {"same_host": "db1", "different_host": ["a", "b"]},
            "ignore_hosts": "kvm9",
            "host": "kvm1",
            "project": "p",
            "user": "u",
        }
    )
    assert spec.key == "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
    assert spec.resources == {"VCPU": 1, "MEMORY_MB": 64, "DISK_GB": 1}
    assert spec.hints == {"same_host": ("db1",), "different_host": ("a", "b")}
    assert spec.ignore_hosts == ("kvm9",)
    assert spec.server_group.max_server_per_host == 2
    assert spec.size == "1 vCPU, 64 MiB, 1 GiB"


@pytest.mark.parametrize(
    "extra_specs, resources",
    [
        ({"resources1:VCPU": "2"}, {"VCPU": 2, "MEMORY_MB": 64, "DISK_GB": 1}),
        (
            {"resources1:VCPU": "2", "resources2:VCPU": "3"},
            {"VCPU": 5, "MEMORY_MB": 64, "DISK_GB": 1},
        ),
        ({"resources:VCPU": "3"}, {"VCPU": 3, "MEMORY_MB": 64, "DISK_GB": 1}),
        (
            {"resources:VCPU": "3", "resources1:VCPU": "2"},
            {"VCPU": 5, "MEMORY_MB": 64, "DISK_GB": 1},
        ),
        ({"resources:PCPU": "4"}, {"PCPU": 4, "MEMORY_MB": 64, "DISK_GB": 1}),
        ({"resources1:PCPU": "4"}, {"PCPU": 4, "MEMORY_MB": 64, "DISK_GB": 1}),
        ({"hw:cpu_policy": "dedicated"}, {"PCPU": 4, "MEMORY_MB": 64, "DISK_GB": 1}),
        (
            {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0"},
            {"VCPU": 1, "PCPU": 3, "MEMORY_MB": 64, "DISK_GB": 1},
        ),
        ({"hw:cpu_policy": "shared"}, {"VCPU": 4, "MEMORY_MB": 64, "DISK_GB": 1}),
        ({"resources:PCPU": "0"}, {"VCPU": 4, "MEMORY_MB": 64, "DISK_GB": 1}),
        ({"resources1:MEMORY_MB": "128"}, {"VCPU": 4, "MEMORY_MB": 128, "DISK_GB": 1}),
        ({"resources86:MEMORY_MB": "0"}, {"VCPU": 4, "DISK_GB": 1}),
        (
            {"resources1:MEMORY_MB": "0", "resources2:MEMORY_MB": "32"},
            {"VCPU": 4, "MEMORY_MB": 32, "DISK_GB": 1},
        ),
        (
            {"resources1:MEMORY_MB": "0", "resources:MEMORY_MB": "32"},
            {"VCPU": 4, "MEMORY_MB": 32, "DISK_GB": 1},
        ),
    ],
)
def test_peers_3_what_extra_specs_name_replaces_the_flavors_own_amount(extra_specs, resources):
    """N1.3."""
    flavor = {"name": "f", "vcpus": 4, "memory_mb": 64, "disk_gb": 1, "extra_specs": extra_specs}
    assert RequestSpec.from_request({"name": "x", "flavor": flavor}).resources == resources


def test_amounts_of_zero_are_left_out_and_disk_may_be_missing():
    assert "DISK_GB" not in RequestSpec.from_request({**GOOD, "disk_gb": 0}).resources
    spec = RequestSpec.from_request({"name": "x", "vcpus": 1, "memory_mb": 1})
    assert spec.resources == {"VCPU": 1, "MEMORY_MB": 1}


def test_amounts_from_the_command_line_are_text():
    assert RequestSpec.from_request({**GOOD, "vcpus": "4"}).resources["VCPU"] == 4


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": None}, "has no 'name'"),
        ({"name": "a\nb"}, "'name' must be a line of text"),
        ({"name": 7}, "'name' must be a line of text"),
        ({"vcpus": None}, "has no 'vcpus'"),
        ({"vcpus": 0}, "'vcpus' must be a whole number from 1 to 2147483647, not 0"),
        (
            {"memory_mb": -64},
            (
                "'memory_mb' must be a whole number of MiB from 1 to 2147483647, or a size such as"
                " 512MiB, 4GiB or 2T, not -64"
            ),
        ),
        ({"memory_mb": 1.5}, "'memory_mb' must be a whole number"),
        ({"memory_mb": "lots"}, "'memory_mb' must be a whole number"),
        ({"vcpus": True}, "'vcpus' must be a whole number"),
        (
            {"disk_gb": -1},
            (
                "'disk_gb' must be a whole number of GiB from 0 to 2147483647, or a size such as"
                " 512MiB, 4GiB or 2T, not -1"
            ),
        ),
        (
            {"disk_gb": 2**40},
            (
                "'disk_gb' must be a whole number of GiB from 0 to 2147483647, or a size such as"
                " 512MiB, 4GiB or 2T, not 1099511627776"
            ),
        ),
        ({"uuid": "nonsense"}, "'uuid' must be a uuid such as"),
        ({"number": 3}, "unknown key number"),
        ({"count": 0}, "'count' must be a whole number from 1"),
        ({"count": 10001}, "'count' is 10001; ask for 10000 at a time at most"),
        ({"count": 2, "num_instances": 2}, "'count' and 'num_instances' are the same; keep one"),
        ({"extra_specs": ["x"]}, "'extra_specs' must be a mapping"),
        (
            {"extra_specs": {"trait:HW_X": "maybe"}},
            "the extra spec 'trait:HW_X' must be required or forbidden",
        ),
        ({"traits": ["x"]}, "'traits' must be a mapping with required and forbidden"),
        ({"traits": {"needed": ["x"]}}, "unknown key needed"),
        (
            {"traits": {"required": ["A"], "forbidden": ["A"]}},
            "the trait A is required and forbidden; keep one",
        ),
        ({"traits": {"required": [3]}}, "'traits.required' must hold names only"),
        ({"vcpu": 3}, "unknown key vcpu (did you mean vcpus?)"),
        ({"hints": ["x"]}, "'hints' must be a mapping"),
        ({"hints": {"near": "x"}}, "unknown hint near. Known: same_host, different_host"),
        ({"hints": {"same_host": 3}}, "'hints.same_host' must be a name or a list of names"),
        ({"ignore_hosts": [None]}, "'ignore_hosts' must hold names only"),
        ({"server_group": 3}, "'server_group' must be the name"),
        ({"server_group": {"policy": "affinity"}}, "the server group has no 'name'"),
        (
            {"server_group": {"name": "g", "policy": "near"}},
            "unknown policy 'near'; known: affinity, anti-affinity",
        ),
        ({"server_group": {"name": "g", "rules": 1}}, "unknown key rules"),
        (
            {"server_group": {"name": "g", "policy": "affinity", "max_server_per_host": 2}},
            "goes with anti-affinity only",
        ),
        (
            {"server_group": {"name": "g", "policy": "anti-affinity", "max_server_per_host": 0}},
            "must be a whole number from 1",
        ),
    ],
)
def test_what_is_refused_names_the_key(change, says):
    with pytest.raises(RequestError) as caught:
        RequestSpec.from_request({**GOOD, **change})
    assert says in str(caught.value)


@pytest.mark.parametrize("odd", [None, "web1", 3, ["web1"]])
def test_a_request_is_a_mapping(odd):
    with pytest.raises(RequestError, match="must be a mapping"):
        RequestSpec.from_request(odd)


def test_count_is_nova_s_num_instances():
    specs = RequestSpec.expand({**GOOD, "count": 3})
    assert [spec.name for spec in specs] == ["web1-1", "web1-2", "web1-3"]
    assert [spec.name for spec in RequestSpec.expand({**GOOD, "num_instances": 3})] == [
        spec.name for spec in specs
    ]


def test_extra_specs_of_the_request_go_over_those_of_the_flavor():
    flavors = {
        "m": {
            "vcpus": 1,
            "memory_mb": 64,
            "extra_specs": {"a": "1", "b": "2", "resources:VGPU": "1"},
        }
    }
    spec = RequestSpec.from_request(
        {
            "name": "x",
            "flavor": "m",
            "extra_specs": {"b": 3, "resources:VGPU": 2},
            "traits": {"required": ["T"], "forbidden": ["F"]},
        },
        flavors,
    )
    own = {"b": "3", "resources:VGPU": "2", "trait:T": "required", "trait:F": "forbidden"}
    assert spec.extra_specs == {"a": "1", **own} and spec.resources["VGPU"] == 2
    # The flavor is read again by its name.
    image = dict.fromkeys(("image", "image_name", "image_id", "image_format"))
    assert spec.recorded() == {"flavor": "m", "extra_specs": own, **image}


def test_a_flavor_in_place_is_recorded_whole():
    flavor = {"name": "m", "vcpus": 1, "memory_mb": 64, "extra_specs": {"a": "1", "b": "2"}}
    spec = RequestSpec.from_request({"name": "x", "flavor": flavor, "extra_specs": {"b": "3"}})
    assert spec.recorded()["extra_specs"] == {"a": "1", "b": "3"}


def test_an_image_by_name_has_the_properties_of_the_store():
    images = {
        "debian": {
            "disk_format": "raw",
            "properties": {"hw_architecture": "aarch64"},
            "source": "/x",
            "checksum": None,
        }
    }
    spec = RequestSpec.from_request({**GOOD, "image": "debian"}, None, images)
    assert (spec.image.name, spec.image.disk_format, spec.image_properties) == (
        "debian",
        "raw",
        {"hw_architecture": "aarch64"},
    )
    assert spec.recorded()["image_name"] == "debian" and spec.recorded()["image"] == {
        "hw_architecture": "aarch64"
    }
    assert (
        RequestSpec.from_request({**GOOD, "image": "another"}, None, images).image_properties == {}
    )


def test_who_asks_begins_the_error():
    with pytest.raises(RequestError, match="^fleet.yml line 3: instance x: 'hints' must be"):
        RequestSpec.from_request({**GOOD, "hints": 3}, who="fleet.yml line 3: instance x")


def test_an_instance_moves_by_what_it_was_asked_with():
    instance = {
        "name": "x",
        "uuid": None,
        "vcpus": 1,
        "memory_mb": 64,
        "disk_gb": 0,
        "flavor": None,
    }
    spec = RequestSpec.from_instance(
        {**instance, "extra_specs": {"trait:T": "required"}, "image": None, "image_name": "debian"}
    )
    assert (
        spec.extra_specs == {"trait:T": "required"}
        and spec.flavor is None
        and spec.image.name == "debian"
    )
