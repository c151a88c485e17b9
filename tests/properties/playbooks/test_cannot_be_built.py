# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Definitions that no host can build, or with a part that the guest would ignore: they are refused
before any decision, with file and line."""

from __future__ import annotations

import json

import pytest
import yaml

from ansible_collections.drover.compute.plugins.plugin_utils._common import resource_classes
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import check
from ansible_collections.drover.compute.tests.pages import definitions as page
from ansible_collections.drover.compute.tests.unit.action.running import failure, run
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host

DIGITS = "sha256:" + "0" * 64


@pytest.fixture(name="read")
def reader(prepared_url, tmp_path):
    """Return a reader of definitions files, as the role place reads them; ``refused`` returns its
    sentence."""
    fleets.discover(prepared_url, host("kvm1", domain("old", memory_mb=64)), host("kvm2"))

    class Reader:
        path = tmp_path / "fleet.yml"

        def given(self, text):
            self.path.write_text(
                text if isinstance(text, str) else yaml.safe_dump(text, sort_keys=False),
                encoding="utf-8",
            )
            return {"path": str(self.path), "store_url": prepared_url}

        def __call__(self, text):
            return run("_definitions", **self.given(text))

        def refused(self, text):
            return failure("_definitions", **self.given(text))

    return Reader()


def instance(**more):
    return {"instances": [{"name": "web", "memory_mb": 64, **more}]}


def test_walk_f12_an_image_without_a_checksum(read):
    definitions = {
        "images": [{"name": "tiny", "source": "/srv/tiny.qcow2"}],
        **instance(image="tiny", disk_gb=1),
    }
    message = read.refused(definitions)
    assert message.startswith(
        f"{read.path} line 5: instance web: the image tiny has a source and no checksum"
    ) and message.endswith("Nothing was placed.")
    # The image of a second disk counts too, and an image that only the store has.
    second = instance(disks=[{"size_gb": 1}, {"size_gb": 1, "image": "tiny"}])
    assert "the image tiny has a source and no checksum" in read.refused({**definitions, **second})
    run("image", name="tiny", source="/srv/tiny.qcow2", store_url=read.given("")["store_url"])
    assert "the image tiny has a source and no checksum" in read.refused(
        instance(image="tiny", disk_gb=1)
    )
    definitions["images"][0]["checksum"] = DIGITS
    assert read(definitions)["instances"][0]["images"][0]["checksum"] == DIGITS


def test_walk_f12_a_source_that_is_no_place(read):
    message = read.refused(
        {"images": [{"name": "tiny", "source": "tiny.qcow2", "checksum": DIGITS}], "instances": []}
    )
    assert (
        f"{read.path} line 2: image tiny: source must be a URL of http or https, or an absolute"
        " path, not 'tiny.qcow2'." in message
    )


@pytest.mark.parametrize(
    "seed, sentence",
    [
        (
            {"user_data": "packages: [nginx]\n"},
            "user_data begins with 'packages: [nginx]', which cloud-init ignores in silence. Write #cloud-config into",
        ),
        (
            {"user_data": "# cloud-config\npackages: [nginx]\n"},
            "user_data begins with '# cloud-config', which cloud-init ignores",
        ),
        ({"user_data": '{"packages": ["nginx"]}'}, "which cloud-init ignores in silence"),
        (
            {"user_data": "#cloud-config\npackages: [nginx\n"},
            "user_data is no YAML: line 3 cannot be read",
        ),
        (
            {"user_data": "#cloud-config\n- nginx\n"},
            "user_data must be a mapping, or a text of one, not ['nginx']",
        ),
        ({"meta_data": "local-hostname: [a"}, "meta_data is no YAML"),
        ({"meta_data": "web1"}, "meta_data must be a mapping, or a text of one, not 'web1'"),
        ({"network_config": "version: 2: 3"}, "network_config is no YAML"),
        (
            {"network_config": {"ethernets": {"all": {"dhcp4": True}}}},
            "network_config has no version, and cloud-init knows 1 and 2",
        ),
        (
            {"network_config": {"version": "2", "ethernets": {}}},
            "network_config has the version '2'",
        ),
        ({"network_config": "network:\n  version: 3\n"}, "network_config has the version 3"),
        (
            {"user_data": "#cloud-config  # of the web team\n- packages\n"},
            "user_data must be a mapping, or a text of one",
        ),
        (
            {"meta_data": {"local-hostname": "Web_01."}},
            "local-hostname of meta_data as its host name, and 'Web_01.' is none",
        ),
    ],
)
def test_f18_what_cloud_init_would_ignore(read, seed, sentence):
    message = read.refused(instance(cloud_init=seed))
    assert (
        message.startswith(f"{read.path} line 2: instance web, cloud_init")
        and sentence in message
        and message.endswith("Nothing was placed.")
    )


@pytest.mark.parametrize(
    "user_data",
    [
        "#cloud-config\npackages: [nginx]\n",
        "\n#Cloud-Config\nx: 1\n",
        "#!/bin/sh\nid\n",
        "#include\nhttps://example.com/x\n",
        {"packages": []},
        "## template: jinja\n#cloud-config\n{% if x %}\n",
        "Content-Type: multipart/mixed\n\n",
        "#ps1_sysnative\ndir\n",
        "",
        '{"ignition": {"version": "3.0.0"}}',
        "#cloud-config\n",
        "#cloud-config-archive\n- type: text/cloud-config\n",
    ],
)
def test_f18_what_cloud_init_runs(read, user_data):
    assert read(instance(cloud_init={"user_data": user_data}))["instances"]


@pytest.mark.parametrize(
    "network",
    [
        "",
        {},
        {"config": "disabled"},
        {"network": {"version": 2}},
        "network: {config: disabled}\n",
        {"version": 1},
    ],
)
def test_f18_networks_that_cloud_init_takes(read, network):
    assert read(instance(cloud_init={"network_config": network}))["instances"]


@pytest.mark.parametrize("name", ["Web_01.", "web server", "-web", "web..1", "w" * 65, "ünïcode"])
def test_f18_a_name_that_is_no_host_name(read, name):
    """The name became the host name of the guest unchanged."""
    definition = {"name": name, "memory_mb": 64, "cloud_init": {"user_data": {}}}
    assert "the guest gets the name of the instance as its host name, and" in read.refused(
        {"instances": [definition]}
    )
    definition["cloud_init"]["meta_data"] = "local-hostname: web1.example.com\n"
    assert read({"instances": [definition]})["instances"]
    # Without cloud_init only libvirt uses the name.
    del definition["cloud_init"]
    assert read({"instances": [definition]})["instances"]


def test_f18_an_instance_that_is_there_is_none_that_is_built(read):
    definition = {"name": "old", "memory_mb": 64, "cloud_init": {"user_data": "packages: []\n"}}
    assert read({"instances": [definition]})["instances"][0]["state"] == "running"


@pytest.mark.parametrize(
    "lines, sentence",
    [
        (
            "- name: 103",
            'name must be a text, not 103, which YAML reads as a number. Put it into quotes, such as name: "103".',
        ),
        ("- name: 1e3", "name must be a text, not 1000.0, which YAML reads as a number."),
        ("- name: on", None),
        ("- name: true", "name must be a text, not True, which YAML reads as true or false."),
        ("- name: 2026-01-01", "which YAML reads as a date or the like."),
        (
            "- {name: web, memory_mb: 64, project: 7}",
            'project must be a text, not 7, which YAML reads as a number. Put it into quotes, such as project: "7".',
        ),
        ("- 7", "each instance is a mapping with a name, not 7."),
    ],
)
def test_f21_a_number_in_place_of_a_text(read, lines, sentence):
    """The old message was: the name is missing or empty."""
    text = f"instances:\n  {lines}\n"
    if sentence is None:
        # YAML 1.2 reads it as a text.
        assert "memory_mb is missing" in read.refused(text)
    else:
        assert read.refused(text).startswith(f"{read.path} line 2: ") and sentence in read.refused(
            text
        )


def test_a_pool_that_no_host_has_declared(read):
    """The old message was: a resource class CUSTOM_DISK_GB_VMS does not exist."""
    message = read.refused(instance(disks=[{"size_gb": 1}, {"size_gb": 2, "pool": "vms"}]))
    assert message.startswith(
        f"{read.path} line 2: instance web, disk 2: no host has the storage pool vms in its"
        " drover_storage_pools."
    )
    assert message.endswith("Nothing was placed.") and "CUSTOM" not in message


@pytest.mark.parametrize(
    "pools",
    [[], [{"name": "vms", "type": "dir", "state": "inactive", "path": "/srv/vms"}]],
    ids=["none", "off"],
)
def test_a_pool_that_a_host_has_declared_and_that_never_ran(read, prepared_url, pools):
    """The old message was: no host has it in its drover_storage_pools."""
    definitions = instance(disks=[{"size_gb": 1}, {"size_gb": 2, "pool": "vms"}])
    fleets.discover(
        prepared_url, host("kvm1", pools=pools), host("kvm2", pools=pools), storage_pools=["vms"]
    )
    message = read.refused(definitions)
    assert (
        "disk 2: drover_storage_pools of kvm1, kvm2 names the storage pool vms, and no discovery"
        " has found it running there." in message
    )
    ran = {"name": "vms", "type": "dir", "state": "running", "path": "/srv/vms", "capacity_gb": 10}
    fleets.discover(prepared_url, host("kvm2", pools=[ran]), storage_pools=["vms"])
    assert read(definitions)["instances"]


def test_the_pools_that_hosts_have_are_named():
    item = {"name": "web", "state": "new", "disks": [{"pool": "sna"}]}
    with pytest.raises(
        DroverError, match=r"storage pool sna .*\(did you mean san\?\). Hosts have: fast, san."
    ):
        check.known_pools([item], {"san", "fast"}, {"web": "fleet.yml line 2"})
    for known in ({**item, "disks": [{"pool": "san"}]}, {**item, "state": "running"}):
        check.known_pools([known], {"san"}, {"web": "fleet.yml line 2"})


def test_sentences_about_a_storage_pool_have_its_name():
    name = resource_classes.pool_class("vms")
    assert (
        resource_classes.words_of(name) == "storage pool vms (GiB)"
        and resource_classes.label_of(name) == "GiB in the storage pool vms"
    )


def test_walk_f33_keys_of_ones_own(read):
    """A part that several instances share is in the file once."""
    text = (
        "x-common: &c\n  memory_mb: 64\n  vcpus: 2\ninstances:\n  - {<<: *c, name: web1}\n  - <<:"
        " *c\n    name: web2\n"
    )
    assert [each["vcpus"] for each in read(text)["instances"]] == [2, 2]
    assert "^x-" in json.loads(page.schema())["patternProperties"]


def test_a_file_that_cannot_be_written_is_refused_before(read, monkeypatch):
    """The mistake was found only after the build."""
    arguments = read.given(instance())
    monkeypatch.setattr("os.access", lambda path, mode: False)
    message = failure("_definitions", **arguments)
    assert (
        message.startswith(f"The definitions file {read.path} cannot be written here")
        and "Nothing was placed" in message
    )
    # A dry run writes nothing, and an existing instance is not placed.
    assert run("_definitions", None, check=True, **arguments)["instances"]
    assert run("_definitions", **read.given({"instances": [{"name": "old", "memory_mb": 64}]}))[
        "instances"
    ]


def disk(**more):
    return {"disks": [{"size_gb": 1, **more}]}


def network(**more):
    return {"networks": [{"bridge": "br0", **more}]}


@pytest.mark.parametrize(
    "definition, sentence",
    [
        (
            disk(image="/srv/tiny.img", image_format="qcow"),
            "image_format must be qcow2, raw, qed, vdi, vhdx, vmdk or vpc, not 'qcow' (did you mean qcow2?).",
        ),
        (
            disk(image="/srv/images/"),
            "image must be the path of a file, and '/srv/images/' is a folder. Add the name of the file.",
        ),
        (disk(path="/srv/vms/"), "path must be the path of a file, and '/srv/vms/' is a folder."),
        (
            disk(source={"path": "/srv/.."}),
            "path must be the path of a file, and '/srv/..' is a folder.",
        ),
        (
            {"cdroms": [{"path": "/srv/isos/"}]},
            "cdrom 1: path must be the path of a file, and '/srv/isos/' is a folder.",
        ),
        (
            {"cdroms": [{"path": "/srv/a\nb.iso"}]},
            r"path must be one line without control characters, and has '\n'. Take that out.",
        ),
        (disk(path="/" + "x" * 1024), "path has 1025 characters, and can have 1024."),
        (network(model="e100"), "network 1: model must be virtio, virtio-transitional,"),
        (network(vlan={"trunk": []}), "network 1: vlan: trunk has no VLAN."),
        (
            network(bridge="br\0"),
            r"network 1: bridge must be one line without control characters, and has '\x00'.",
        ),
        (
            network(openvswitch={"profileid": "p" * 40}),
            "profileid has 40 characters, and can have 39.",
        ),
        (
            {"networks": [{"bridge": "br0", "mac": "52:54:00:00:00:01"}] * 2},
            "network 2: the mac 52:54:00:00:00:01 on br0 stands twice",
        ),
        (
            {"machine": "pc", "disks": [{"size_gb": 1, "bus": "ide"}] * 5},
            "5 of its disks and CD-ROM drives, that of cloud_init among them, have the bus ide",
        ),
        (
            {
                "machine": "pc",
                "disks": [{"size_gb": 1, "bus": "ide"}] * 4,
                "cloud_init": {"user_data": {}},
            },
            "5 of its disks and CD-ROM drives",
        ),
        ({"project": "p" * 256}, "project has 256 characters, and can have 255."),
        (
            {"availability_zone": "z" * 256},
            "availability_zone has 256 characters, and can have 255.",
        ),
        (
            {"server_group": {"name": "g" * 256, "policy": "affinity"}},
            "name has 256 characters, and can have 255.",
        ),
        (
            {"graphics": {"type": "vnc", "listen": "fe80::1%eth0"}},
            "listen must be an IP address of the host",
        ),
        (
            {"graphics": {"type": "vnc", "listen": "224.0.0.1"}},
            "listen must be an IP address of the host",
        ),
        (
            {"image": {"properties": {"hw_vif_model": "e100"}}, **network()},
            "hw_vif_model must be virtio,",
        ),
        (
            {"image": {"properties": {"hw_scsi_model": "buslogix"}}, **disk(bus="scsi")},
            "hw_scsi_model must be virtio-scsi,",
        ),
        ({"image": {"disk_format": "qcow3"}}, "disk_format must be qcow2, raw,"),
        (
            {"ignore_hosts": "kvm1,kvm2"},
            "ignore_hosts must name one in each item, and 'kvm1,kvm2' has a comma. Write a list, such as [kvm1, kvm2].",
        ),
        ({"force_hosts": ["kvm1,kvm2"]}, "has a comma."),
        ({"traits": {"forbidden": ["custom_slow"]}}, "there is no trait 'custom_slow'"),
        (
            {"traits": {"required": ["HW_CPU_X86_AVX22"]}},
            "there is no trait 'HW_CPU_X86_AVX22' (did you mean HW_CPU_X86_AVX2?).",
        ),
    ],
)
def test_walk_f12_what_each_host_would_refuse(read, definition, sentence):
    """Each value was accepted, and failed at each host with the message of libvirt, QEMU or the
    database."""
    said = read.refused(instance(**definition))
    assert said.startswith(f"{read.path} line 2: instance web") and sentence in said


@pytest.mark.parametrize(
    "kind, given", [("vhd", "vpc"), ("raw", "raw"), ("iso", None), ("ami", None)]
)
def test_walk_f12_an_image_of_a_format_of_which_no_disk_is_made(read, kind, given):
    definitions = {
        "images": [
            {"name": "tiny", "source": "/srv/tiny", "checksum": DIGITS, "disk_format": kind}
        ],
        **instance(image="tiny", disk_gb=1),
    }
    if given is None:
        assert (
            f"the image tiny, of which QEMU makes none: its disk_format is {kind}."
            in read.refused(definitions)
        )
    else:
        assert read(definitions)["instances"][0]["disks"][0]["image_format"] == given
    # An existing instance was built before the rule.
    definitions["instances"][0]["name"] = "old"
    assert read(definitions)["instances"][0]["state"] == "running"


def test_the_name_of_an_instance_may_have_a_comma(read):
    assert read(instance(hints={"different_host": ["web,1"]}))["instances"]


@pytest.mark.parametrize("vcpus", [2**31 - 1, 2**30, 65536, 9973])
def test_walk_f12_any_number_of_vcpus_is_judged_at_once(read, vcpus):
    """The check tried each number of sockets and threads: with more than some ten thousand vCPUs it
    did not end."""
    if vcpus == 2**31 - 1:
        assert "vCPUs do not fit into 65536 sockets" in read.refused(instance(vcpus=vcpus))
    else:
        assert read(instance(vcpus=vcpus))["instances"][0]["vcpus"] == vcpus


def test_walk_f12_a_query_that_is_nested_too_deeply(read):
    deep = '["not",' * 100000 + "1" + "]" * 100000
    assert "the hint 'query' cannot be read: its lists are nested too deeply" in read.refused(
        instance(hints={"query": deep})
    )
