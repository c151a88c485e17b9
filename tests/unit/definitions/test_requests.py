# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that definitions make to the scheduler: flavors, sizes, counts, and refusals."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import (
    check,
    identity,
    keeping,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler import drivers
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.host_states import (
    HostStates,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.request_spec import (
    RequestSpec,
)
from ansible_collections.drover.compute.tests.unit.scheduler.fleets import fleet, host
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of

PLACES = {"web": "fleet.yml line 2", "web-1": "fleet.yml line 2", "web-2": "fleet.yml line 2"}
FLAVORS = {
    "small": {
        "vcpus": 2,
        "memory_mb": 2048,
        "disk_gb": 20,
        "extra_specs": {"trait:CUSTOM_SSD": "required"},
    },
    "diskless": {"vcpus": 1, "memory_mb": 512, "disk_gb": 0, "extra_specs": {}},
}
IMAGES = {
    "debian-12": {
        "properties": {"hw_architecture": "x86_64"},
        "disk_format": None,
        "source": None,
        "checksum": None,
    }
}


def checked(**more):
    return check.instances([{"name": "web", **more}], lambda item: "fleet.yml line 2")


def resolved(known=(), groups=(), **more):
    wanted = check.with_flavors(checked(**more), FLAVORS, PLACES)
    return identity.resolve(wanted, list(known), list(groups), FLAVORS, IMAGES, PLACES)


@pytest.mark.parametrize(
    ("more", "sizes"),
    [
        ({"flavor": "small"}, (2, 2048, [20])),
        ({"flavor": "diskless"}, (1, 512, [])),
        ({"flavor": "small", "vcpus": 4, "memory_mb": "1GiB"}, (4, 1024, [20])),
        ({"flavor": "small", "disks": []}, (2, 2048, [])),
        ({"flavor": "small", "disks": [{"image": "/i.qcow2"}, {"size_gb": 5}]}, (2, 2048, [20, 5])),
        ({"flavor": "small", "disks": [{"size_gb": 30}]}, (2, 2048, [30])),
        ({"flavor": "small", "disk_gb": 40}, (2, 2048, [40])),
        ({"flavor": "small", "disk_gb": 0}, (2, 2048, [])),
        ({"flavor": {"name": "mine", "vcpus": 3, "memory_mb": "3G", "disk_gb": 3}}, (3, 3072, [3])),
        ({"flavor": {"name": "mine", "vcpus": 3}, "memory_mb": 64}, (3, 64, [])),
        ({"memory_mb": 64, "disk_gb": "1T"}, (1, 64, [1024])),
        ({"memory_mb": 64, "disk_gb": 7, "disks": [{"image": "/i.qcow2"}]}, (1, 64, [7])),
    ],
)
def test_sizes_are_those_of_the_flavor_unless_given(more, sizes):
    (instance,) = resolved(**more)
    assert (
        instance["vcpus"],
        instance["memory_mb"],
        [disk["size_gb"] for disk in instance["disks"]],
    ) == sizes
    assert instance["disk_gb"] == instance["request"].get("disk_gb", 0) == sum(sizes[2])
    assert instance["selection"]["resources"] == {
        key: value
        for key, value in {
            "VCPU": sizes[0],
            "MEMORY_MB": sizes[1],
            "DISK_GB": sum(sizes[2]),
        }.items()
        if value
    }


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({}, "memory_mb is missing. Give a size such as 4GiB, or a flavor."),
        ({"flavor": {"name": "mine", "vcpus": 1}}, "memory_mb is missing"),
        ({"flavor": {"vcpus": 1}}, "flavor: name is missing. For example: name: small."),
        ({"flavor": {"name": "mine", "vcpu": 1}}, "flavor: unknown key vcpu (did you mean vcpus?)"),
        (
            {"flavor": "smal"},
            (
                "flavor smal is neither under flavors nor in the store (did you mean small?). There"
                " are: diskless, small."
            ),
        ),
        (
            {"flavor": "small", "disks": [{"size_gb": 1}], "disk_gb": 2},
            "disk_gb is the size of the first disk, and disks says it too",
        ),
        (
            {"flavor": "diskless", "disks": [{"image": "/x"}]},
            "disk 1: size_gb is missing. Give a size such as 20 or 2T, or a flavor",
        ),
        (
            {"flavor": "small", "disks": [{}, {}]},
            "disk 2: size_gb is missing. Give a size such as 20 or 2T.",
        ),
        (
            {"flavor": "small", "extra_specs": {"trait:X": "maybe"}},
            "the extra spec 'trait:X' must be required or forbidden",
        ),
        (
            {"flavor": "small", "traits": {"require": ["X"]}},
            "traits: unknown key require (did you mean required?)",
        ),
        (
            {"flavor": "small", "traits": {"required": "X"}},
            "traits: required must be a list, not 'X'",
        ),
        (
            {"flavor": "small", "resources": {"VCPU": 1}},
            "'resources' has VCPU; give that as 'vcpus'",
        ),
        (
            {"flavor": "small", "resources": {"licence": 1}},
            "names 'licence', which is no resource class",
        ),
        (
            {"flavor": "small", "hints": {"same_hosts": "db"}},
            "hints: unknown key same_hosts (did you mean same_host?)",
        ),
        (
            {"flavor": "small", "requested_destination": {"hots": "kvm1"}},
            "requested_destination: unknown key hots (did you mean host?)",
        ),
        (
            {"flavor": "small", "image": {"properties": []}},
            "image: properties must be a mapping, not []",
        ),
        (
            {"flavor": "small", "image": {"properties": {"hw_maxphysaddr_bits": "x"}}},
            "'hw_maxphysaddr_bits' must be a whole number",
        ),
        (
            {"flavor": "small", "server_group": {"name": "g", "policy": "near"}},
            "server_group: policy must be affinity, anti-affinity,",
        ),
        (
            {
                "flavor": "small",
                "server_group": {"name": "g", "policy": "affinity", "max_server_per_host": 2},
            },
            "goes with the policy",
        ),
        ({"flavor": "small", "scheduler": [1]}, "scheduler must be a mapping, not [1]"),
        ({"flavor": "small", "count": 0}, "count must be a whole number from 1 to 10000, not 0"),
        (
            {"flavor": "small", "count": 2, "uuid": uuid_of("x")},
            "uuid can be of one instance only, and count is 2",
        ),
        (
            {"flavor": "small", "count": 2, "disks": [{"path": "/srv/x"}]},
            "the path of disk 1 can be of one instance only",
        ),
        (
            {
                "flavor": "small",
                "count": 2,
                "networks": [{"bridge": "b", "mac": "52:54:00:00:00:01"}],
            },
            "the mac of network 1 can be",
        ),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(more, says):
    with pytest.raises(DroverError) as refused:
        resolved(**more)
    assert str(refused.value).startswith("fleet.yml line 2: instance web")
    assert says in str(refused.value)


def test_count_makes_instances_of_their_own():
    instances = resolved(flavor="small", count=2, server_group="g", labels={"a": "b"})
    assert [(each["name"], each["request"]["name"]) for each in instances] == [
        ("web-1", "web-1"),
        ("web-2", "web-2"),
    ]
    assert len({each["uuid"] for each in instances}) == 2
    assert all("count" not in each and "count" not in each["request"] for each in instances)
    recorded = {
        "uuid": uuid_of("x"),
        "name": "web-2",
        "host": "kvm1",
        "node": "kvm1",
        "state": "running",
        "definition": "/web-2",
    }
    again = resolved([recorded], flavor="small", count=2)
    assert [(each["state"], each["host"]) for each in again] == [("new", None), ("running", "kvm1")]
    # One of them has a number too.
    assert [each["name"] for each in resolved(flavor="small", count=1)] == ["web-1"]


def test_a_name_of_a_count_is_taken():
    items = [{"name": "web-2", "memory_mb": 64}, {"name": "web", "memory_mb": 64, "count": 2}]
    with pytest.raises(
        DroverError,
        match="line 2: instance web: the name web-2 stands twice; first at fleet.yml line 1",
    ):
        check.instances(items, lambda item: f"fleet.yml line {items.index(item) + 1}")


def test_the_claim_of_one_that_was_begun_is_what_was_asked():
    more = {
        "flavor": "small",
        "extra_specs": {"resources:CUSTOM_LICENCE": "2"},
        "resources": {"VGPU": 1},
        "traits": {"forbidden": ["CUSTOM_SLOW"]},
        "image": "debian-12",
    }
    (instance,) = resolved(**more)
    selection = instance["selection"]
    assert selection["resources"] == {
        "VCPU": 2,
        "MEMORY_MB": 2048,
        "DISK_GB": 20,
        "CUSTOM_LICENCE": 2,
        "VGPU": 1,
    }
    assert {key: selection[key] for key in ("flavor", "extra_specs", "image", "image_name")} == {
        "flavor": "small",
        "extra_specs": {"resources:CUSTOM_LICENCE": "2", "trait:CUSTOM_SLOW": "forbidden"},
        "image": {"hw_architecture": "x86_64"},
        "image_name": "debian-12",
    }
    assert (instance["flavor"], instance["image"]) == ("small", "debian-12")


def test_a_server_group_may_stand_in_place_or_in_a_hint():
    group = {"name": "g", "policy": "anti-affinity", "max_server_per_host": 2}
    (instance,) = resolved(flavor="small", server_group=group)
    assert (
        instance["request"]["server_group"] == instance["selection"]["server_group"] == group
        and instance["server_group"] == "g"
    )
    (instance,) = resolved(flavor="small", hints={"group": "g"})
    assert instance["server_group"] == instance["selection"]["server_group"] == "g"


@pytest.mark.parametrize(
    ("section", "item", "says"),
    [
        (
            "flavors",
            {"name": "f", "vcpus": 1},
            "flavor f: memory_mb is missing. For example: memory_mb: 4GiB.",
        ),
        (
            "flavors",
            {"name": "f", "vcpus": 0, "memory_mb": 1},
            "flavor f: vcpus must be a whole number from 1",
        ),
        (
            "flavors",
            {"name": "f", "vcpus": 1, "memory_mb": 1, "extra_spec": {}},
            "unknown key extra_spec (did you mean extra_specs?)",
        ),
        (
            "flavors",
            {"name": "f", "vcpus": 1, "memory_mb": 1, "extra_specs": {"trait:T": "no"}},
            "'trait:T' must be required or forbidden",
        ),
        (
            "images",
            {"name": "i", "sources": "/x"},
            "image i: unknown key sources (did you mean source?)",
        ),
        (
            "images",
            {"name": "i", "checksum": "md5:1"},
            "image i: checksum must be sha256: and 64 hexadecimal digits or sha512: and 128",
        ),
        ("images", {"name": "i", "checksum": "sha256:12"}, "not 'sha256:12'"),
        (
            "images",
            {"name": "i", "properties": {"img_hv_requested_version": "~x"}},
            "'img_hv_requested_version'",
        ),
        (
            "aggregates",
            {"name": "a", "hosts": "kvm1"},
            "aggregate a: hosts must be a list, not 'kvm1'",
        ),
        (
            "aggregates",
            {"name": "a", "hosts": [1]},
            "aggregate a, host 1: hosts must be a text, not 1",
        ),
        ("aggregates", {"name": "a", "meta": {}}, "unknown key meta (did you mean metadata?)"),
        ("aggregates", {"hosts": []}, "each aggregate is a mapping with a name"),
        ("aggregates", "a", "each aggregate is a mapping with a name"),
    ],
)
def test_sections_are_checked(section, item, says):
    with pytest.raises(DroverError) as refused:
        getattr(check, section)([item], lambda item: "fleet.yml line 7")
    assert str(refused.value).startswith("fleet.yml line 7: ") and says in str(refused.value)


@pytest.mark.parametrize("section", ["flavors", "images", "aggregates"])
def test_sections_are_lists_with_each_name_once(section):
    with pytest.raises(
        DroverError, match=f"fleet.yml: {section} must be a list of mappings, each with name"
    ):
        getattr(check, section)({"name": "x"}, lambda item: "fleet.yml")
    item = {"name": "x", **({"vcpus": 1, "memory_mb": 1} if section == "flavors" else {})}
    with pytest.raises(DroverError, match="the name x stands twice"):
        getattr(check, section)([item, item], lambda item: "fleet.yml")


def test_every_section_but_the_instances_is_kept():
    assert set(keeping.CHECKS) | {"instances"} == set(check.WORDS)


def test_the_first_disk_is_made_from_an_image_with_a_source(monkeypatch):
    monkeypatch.setitem(
        IMAGES,
        "debian-13",
        {
            **IMAGES["debian-12"],
            "source": "/srv/debian-13.qcow2",
            "checksum": "sha256:1",
            "disk_format": "raw",
        },
    )
    disks = [{"size_gb": 5}, {"size_gb": 1}]
    (instance,) = resolved(memory_mb=64, image="debian-13", disks=disks)
    assert instance["disks"] == [
        {"size_gb": 5, "image": "debian-13", "image_format": "raw"},
        {"size_gb": 1},
    ]
    assert instance["images"] == [
        {"name": "debian-13", "source": "/srv/debian-13.qcow2", "checksum": "sha256:1"}
    ]
    (instance,) = resolved(flavor="small", image="debian-13")
    assert instance["disks"][0]["image"] == "debian-13"
    for name in ("debian-31", "debian-12"):
        with pytest.raises(
            DroverError,
            match=f"instance web: a disk has the image {name}, which is no .* Nothing was placed",
        ):
            resolved(memory_mb=64, disks=[{"size_gb": 5, "image": name}])
    # An image of the disk; an image with properties only; no image.
    (instance,) = resolved(
        memory_mb=64, image="debian-13", disks=[{"size_gb": 5, "image": "/i.qcow2"}]
    )
    assert instance["disks"] == [{"size_gb": 5, "image": "/i.qcow2"}]
    for more in ({"image": "debian-12"}, {}):
        (instance,) = resolved(memory_mb=64, disks=disks, **more)
        assert instance["disks"] == disks


def test_hardware_that_flavor_and_image_contradict_is_refused_before_a_host_is_chosen():
    with pytest.raises(DroverError, match="fleet.yml line 2: instance web"):
        resolved(
            memory_mb=64,
            image={
                "name": "win",
                "properties": {"hw_firmware_type": "bios", "os_secure_boot": "required"},
            },
        )


@pytest.mark.parametrize(
    ("more", "specs"),
    [
        ({"tpm": {"version": "2.0"}}, {"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-tis"}),
        (
            {"tpm": {"version": "2.0", "model": "tpm-crb"}},
            {"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"},
        ),
        ({"firmware": "uefi-secure-boot"}, {"os:secure_boot": "required"}),
        # The definition decides its domain, and its flavor and extra specs do not.
        (
            {"firmware": "uefi", "extra_specs": {"os:secure_boot": "required"}},
            {"os:secure_boot": "disabled"},
        ),
        (
            {"tpm": {"version": "1.2"}, "extra_specs": {"hw:tpm_version": "2.0"}},
            {"hw:tpm_version": "1.2", "hw:tpm_model": "tpm-tis"},
        ),
        ({"extra_specs": {"a": "b"}}, {"a": "b"}),
        ({"machine": "q35"}, None),
    ],
)
def test_hardware_of_a_definition_asks_for_a_host_that_has_it(more, specs):
    (found,) = resolved(memory_mb=64, **more)
    assert (
        found["selection"]["extra_specs"] == specs and found["request"].get("extra_specs") == specs
    )


def test_a_host_without_a_tpm_or_secure_boot_is_filtered():
    traits = [
        "COMPUTE_SECURITY_TPM_2_0",
        "COMPUTE_SECURITY_TPM_CRB",
        "COMPUTE_SECURITY_UEFI_SECURE_BOOT",
    ]
    columns = fleet(host("old"), host("new", traits=traits))
    for more in ({"tpm": {"version": "2.0", "model": "tpm-crb"}}, {"firmware": "uefi-secure-boot"}):
        (instance,) = resolved(memory_mb=64, **more)
        (answer,) = drivers.schedule(
            HostStates(columns),
            [RequestSpec.from_request(instance["request"])],
            Policy.from_mapping({}),
        )
        assert [each["host"] for each in (answer, *answer["alternates"])] == ["new"]


def test_extra_specs_of_a_definition_reach_its_domain():
    (instance,) = resolved(
        memory_mb=64, flavor="small", disks=[], extra_specs={"hw:tpm_version": "2.0"}
    )
    assert instance["guest"]["extra_specs"] == {
        "trait:CUSTOM_SSD": "required",
        "hw:tpm_version": "2.0",
    }


# Disks in storage pools


def pooled(**more):
    return {"size_gb": 20, "pool": "fast", **more}


def test_a_disk_in_a_pool_is_asked_of_its_pool():
    (instance,) = resolved(
        memory_mb=64,
        disks=[{"size_gb": 5}, pooled(), pooled(size_gb=7), pooled(pool="big-1", size_gb=1)],
    )
    assert instance["disk_gb"] == 5
    assert instance["selection"]["resources"] == {
        "VCPU": 1,
        "MEMORY_MB": 64,
        "DISK_GB": 5,
        "CUSTOM_DISK_GB_FAST": 27,
        "CUSTOM_DISK_GB_BIG_1": 1,
    }


def test_traits_are_those_of_the_pool():
    (instance,) = resolved(
        memory_mb=64, disks=[pooled(traits=["STORAGE_DISK_SSD"]), pooled(traits=["CUSTOM_NEAR"])]
    )
    assert instance["request"]["extra_specs"] == {
        "resources_CUSTOM_DISK_GB_FAST:CUSTOM_DISK_GB_FAST": "40",
        "trait_CUSTOM_DISK_GB_FAST:CUSTOM_NEAR": "required",
        "trait_CUSTOM_DISK_GB_FAST:STORAGE_DISK_SSD": "required",
    }
    assert instance["disk_gb"] == 0


def test_the_disk_of_a_flavor_may_be_in_a_pool():
    (found,) = resolved(flavor="small", disks=[{"pool": "fast"}])
    assert found["selection"]["resources"] == {
        "VCPU": 2,
        "MEMORY_MB": 2048,
        "CUSTOM_DISK_GB_FAST": 20,
    }


@pytest.mark.parametrize(
    ("disk", "sentence"),
    [
        (pooled(path="/srv/a.qcow2"), "has a pool, in whose folder its file is made, and a path"),
        ({"size_gb": 1, "traits": ["STORAGE_DISK_SSD"]}, "Give the pool with them"),
    ],
)
def test_what_contradicts_itself_is_refused(disk, sentence):
    with pytest.raises(DroverError, match=sentence):
        checked(memory_mb=64, disks=[disk])


def test_a_pool_that_is_asked_for_twice_is_refused():
    with pytest.raises(DroverError, match="the extra spec resources:CUSTOM_DISK_GB_FAST too"):
        resolved(memory_mb=64, disks=[pooled()], extra_specs={"resources:CUSTOM_DISK_GB_FAST": "5"})
