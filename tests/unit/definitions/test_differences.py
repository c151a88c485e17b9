# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Differences between an existing instance and its definition."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._definitions import (
    check,
    differences,
    disk_files,
    identity,
)
from ansible_collections.drover.compute.plugins.plugin_utils._definitions.devices_there import (
    InstanceChange,
)
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of

THERE = {
    "name": "web",
    "vcpus": 2,
    "memory_mb": 4096,
    "disk_gb": 40,
    "server_group": None,
    "availability_zone": None,
    "user": None,
    "labels": {},
    "autostart": False,
    "definition": "/web",
    "project": None,
}


def wanted(**more):
    item = {"name": "web", "vcpus": 2, "memory_mb": 4096, "disks": [{"size_gb": 40}], **more}
    return check.instances([item], lambda item: "fleet.yml")[0]


def resolved(**more):
    known = [{"uuid": uuid_of("web"), "host": "kvm1", "node": "kvm1", "state": "running", **THERE}]
    (found,) = identity.resolve([wanted(**more)], known)
    return found


#: Facts about an instance that the store has besides its list.
KEPT = {
    "policy": None,
    "flavor": None,
    "image_name": None,
    "extra_specs": None,
    "cells": [],
    "devices": [],
}


def said(there=None, policy=None, more=None, flavors=None, **kept):
    entries = differences.found(
        resolved(**(more or {})),
        {**THERE, **(there or {})},
        {**KEPT, "policy": policy, **kept},
        flavors=flavors,
    )
    assert all(each.change is None for each in entries), "without its hypervisor nothing is changed"
    return differences.lines("web", entries)


def test_an_instance_as_it_is_defined():
    assert said() == []
    assert said(more={"policy": {}, "autostart": False}) == []
    policy = {"move": "cold", "priority": 0, "migration": {"copy_storage": "always"}}
    assert said(policy=policy, more={"policy": policy}) == []
    assert said(more={"image": "debian"}, image_name="debian") == []


@pytest.mark.parametrize(
    ("more", "there", "policy", "words"),
    [
        ({"vcpus": 16}, {}, None, "web: vcpus 2, the definition says 16"),
        ({"memory_mb": 1}, {}, None, "web: memory_mb 4096, the definition says 1"),
        ({"disks": []}, {}, None, "web: disk_gb 40, the definition says 0"),
        ({"server_group": "g"}, {}, None, "web: server_group none, the definition says g"),
        (
            {},
            {"availability_zone": "az1"},
            None,
            "web: availability_zone az1, the definition says none",
        ),
        ({"user": "ann"}, {"user": "bob"}, None, "web: user bob, the definition says ann"),
        ({"autostart": True}, {}, None, "web: autostart no, the definition says yes"),
        (
            {"policy": {"move": "never"}},
            {},
            None,
            "web: policy none, the definition says move never",
        ),
        (
            {"policy": {"priority": 5, "migration": {"post_copy": True}}},
            {},
            {"move": "cold"},
            (
                'web: policy move cold, the definition says migration {"post_copy": true} and'
                " priority 5"
            ),
        ),
        (
            {"labels": {"tier": "db", "a": "b"}},
            {},
            None,
            "web: labels none, the definition says a=b, tier=db",
        ),
        ({}, {"labels": {"tier": "db"}}, None, "web: labels tier=db, the definition says none"),
        ({}, {}, {"error": "unreadable"}, "web: policy error unreadable, the definition says none"),
        (
            {"vcpus": 3, "memory_mb": 5},
            {},
            None,
            "web: vcpus 2, the definition says 3; memory_mb 4096, the definition says 5",
        ),
    ],
)
def test_each_difference_is_named(more, there, policy, words):
    assert said(there, policy, more) == [f"{words}."]


def test_flavor_and_image_of_the_store():
    flavor = {"name": "small", "vcpus": 2, "memory_mb": 4096}
    assert said(more={"flavor": flavor, "image": "debian"}, flavor="big") == [
        "web: flavor big, the definition says small; image none, the definition says debian."
    ]


def cell(**more):
    """Return a cell of an instance with two pinned vCPUs, as a claim writes it."""
    return {
        "guest": 0,
        "host": 0,
        "memory_mb": 4096,
        "page_kb": None,
        "shared": [],
        "pins": {"0": 2, "1": 3},
        "reserved": [],
        "cpu_policy": "dedicated",
        "thread_policy": None,
        "emulator_policy": None,
        **more,
    }


PINNED = {"hw:cpu_policy": "dedicated"}
FLOATING = {"shared": [0, 1], "pins": {}, "cpu_policy": None}


@pytest.mark.parametrize(
    ("specs", "cells", "same"),
    [
        (PINNED, [cell()], True),
        ({**PINNED, "hw:cpu_thread_policy": "require"}, [cell(thread_policy="require")], True),
        ({"hw:mem_page_size": "large"}, [cell(**FLOATING, page_kb=2048)], True),
        ({"hw:mem_page_size": "2048"}, [cell(**FLOATING, page_kb=2048)], True),
        ({"hw:numa_nodes": "1"}, [cell(**FLOATING)], True),
        (PINNED, [], "hw:cpu_policy shared, the definition says dedicated"),
        ({}, [cell()], "hw:cpu_policy dedicated, the definition says shared"),
        (
            {**PINNED, "hw:cpu_thread_policy": "isolate"},
            [cell()],
            "hw:cpu_thread_policy prefer, the definition says isolate",
        ),
        (
            {**PINNED, "hw:emulator_threads_policy": "isolate"},
            [cell()],
            "hw:emulator_threads_policy none, the definition says isolate",
        ),
        (
            {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "1"},
            [cell()],
            "hw:cpu_dedicated_mask none, the definition says 1",
        ),
        (
            {"hw:mem_page_size": "1GB"},
            [cell(**FLOATING, page_kb=2048)],
            "hw:mem_page_size 2048, the definition says 1048576",
        ),
        ({"hw:numa_nodes": "2"}, [cell(**FLOATING)], "hw:numa_nodes 1, the definition says 2"),
        ({"hw:numa_nodes": "1"}, [], "hw:numa_nodes none, the definition says 1"),
        (
            {
                "hw:numa_nodes": 2,
                "hw:numa_cpus.0": "0",
                "hw:numa_mem.0": 1096,
                "hw:numa_cpus.1": "1",
                "hw:numa_mem.1": 3000,
            },
            [
                cell(shared=[0], pins={}, memory_mb=2048),
                cell(guest=1, host=1, shared=[1], pins={}, memory_mb=2048),
            ],
            "hw:numa_mem.0 2048, the definition says 1096",
        ),
    ],
)
def test_cells_and_pins_are_compared_with_what_the_definition_asks_for_now(specs, cells, same):
    """Its flavor was changed in the store after the instance was placed, so both say the same extra
    specs.
    """
    flavor = {
        "vcpus": 2,
        "memory_mb": 4096,
        "extra_specs": {key: str(value) for key, value in specs.items()},
    }
    lines = said(
        more={"flavor": {"name": "f", **flavor}},
        flavor="f",
        flavors={"f": flavor},
        cells=cells,
        extra_specs=flavor["extra_specs"],
    )
    assert lines == [] if same is True else f"extra spec {same}" in lines[0], lines


def test_changed_extra_specs_are_named_once():
    lines = said(
        more={"extra_specs": {**PINNED, "trait:CUSTOM_SSD": "required"}},
        extra_specs={"trait:CUSTOM_HDD": "required"},
    )
    assert lines == [
        "web: extra spec hw:cpu_policy none, the definition says dedicated; extra spec"
        " trait:CUSTOM_HDD required, the definition says none; extra spec trait:CUSTOM_SSD none,"
        " the definition says required."
    ]
    # A flavor that was removed from the store gives no value.
    assert said(more={"flavor": {"name": "f", "vcpus": 2, "memory_mb": 4096}}, flavor="f") == []


def test_devices_are_counted():
    specs = {"pci_passthrough:alias": "gpu:1,nic:2"}
    assert said(more={"extra_specs": specs}, extra_specs=specs, devices=[{}, {}, {}]) == []
    assert said(more={"extra_specs": specs}, extra_specs=specs, devices=[{}]) == [
        "web: PCI devices 1, the definition says 3."
    ]


def test_a_domain_that_somebody_tied_by_hand_is_not_compared():
    assert said(cells=[cell(reserved=[4, 5])]) == []


def test_another_project():
    assert said({"project": "shop"}, more={"uuid": uuid_of("web"), "project": "bank"}) == [
        "web: project shop, the definition says bank."
    ]


def test_an_instance_that_was_not_built_from_the_definition_is_named():
    (line,) = differences.stranger(wanted(), {**THERE, "definition": None})
    assert (
        line == "web: it was there already, and the store does not know that it was built from this"
        " definition; it is taken for it by its name."
    )
    assert differences.stranger(wanted(), THERE) == []
    # A definition with a uuid names its instance.
    assert differences.stranger(wanted(uuid=uuid_of("web")), {**THERE, "definition": None}) == []


XML = """<domain type='qemu'><name>web</name>
<os firmware='efi'><type arch='x86_64' machine='pc-q35-7.2'>hvm</type><firmware><feature enabled='no' name='secure-boot'/></firmware><boot dev='hd'/></os>
<cpu mode='host-model'/>
<devices>
 <disk type='file' device='disk'><driver name='qemu' type='qcow2' cache='none' discard='unmap'/><source file='/v/web.qcow2'/>
  <target dev='vda' bus='virtio'/></disk>
 <interface type='bridge'><mac address='52:54:00:00:00:01'/><source bridge='br0'/><model type='virtio'/></interface>
 <serial type='pty'/><rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
 <watchdog model='itco' action='reset'/>
</devices></domain>"""


def facts(**more):
    layer = {"path": "/v/debian.qcow2", "real_path": "/v/debian.qcow2", "shared_id": None}
    base = disk_files.base("web", uuid_of("web"))
    disk = {
        "target": "vda",
        "device": "disk",
        "bus": "virtio",
        "type": "file",
        "format": "qcow2",
        "readonly": False,
        "real_path": None,
    }
    own = {
        **disk,
        "source": f"/v/{base}-vda.qcow2",
        "path": f"/v/{base}-vda.qcow2",
        "capacity_bytes": 40 * 2**30,
        "chain": [layer],
    }
    nic = {"mac": "52:54:00:00:00:01", "type": "bridge", "source": "br0", "model": "virtio"}
    domain_facts = {
        "name": "web",
        "uuid": uuid_of("web"),
        "vcpus": 2,
        "memory_mb": 4096,
        "autostart": False,
        "metadata": {},
        "state": "running",
    }
    return {**domain_facts, "disks": [own], "interfaces": [nic], "xml": XML, **more}


def compared(more, flavors=None, kept=None, /, **there):
    more = {"networks": [{"bridge": "br0"}], **more}
    of_store = {**KEPT, **(kept or {})}
    return differences.found(resolved(**more), THERE, of_store, facts(**there), "/srv", flavors)


def test_a_domain_as_its_definition_says():
    disk = {
        "size_gb": 40,
        "image": "/v/debian.qcow2",
        "bus": "virtio",
        "cache": "none",
        "discard": "unmap",
    }
    hardware = {
        "firmware": "uefi",
        "machine": "q35",
        "cpu": {"mode": "host-model"},
        "domain_type": "qemu",
        "boot": ["hd"],
        "rng": True,
    }
    assert (
        compared(
            {"disks": [disk], **hardware, "console": {"serial_ports": 1}, "guest_agent": False}
        )
        == []
    )
    assert compared({}) == [], "what the definition does not say is not compared"


@pytest.mark.parametrize(
    ("more", "there", "parts"),
    [
        (
            {"firmware": "uefi-secure-boot"},
            {},
            ["firmware uefi, the definition says uefi-secure-boot"],
        ),
        ({"firmware": "bios"}, {}, ["firmware uefi, the definition says bios"]),
        ({"tpm": {"version": "2.0"}}, {}, ["tpm none, the definition says 2.0 tpm-tis"]),
        (
            {"extra_specs": {"hw:tpm_version": "2.0"}},
            {},
            ["tpm none, the definition says 2.0 tpm-tis"],
        ),
        (
            {"image": {"name": "i", "properties": {"hw_qemu_guest_agent": "yes"}}},
            {},
            ["image none, the definition says i", "guest_agent no, the definition says yes"],
        ),
        ({"machine": "pc"}, {}, ["machine pc-q35-7.2, the definition says pc"]),
        (
            {"graphics": {"type": "vnc"}},
            {},
            [
                "graphics none, the definition says vnc on 127.0.0.1",
                "video none, the definition says virtio",
            ],
        ),
        (
            {"watchdog": {"action": "reset"}},
            {},
            ["watchdog none, the definition says i6300esb reset"],
        ),
        ({"rng": False}, {}, ["rng without limit, the definition says none"]),
        ({"boot": ["network", "hd"]}, {}, ["boot hd, the definition says network, hd"]),
        ({"os_type": "windows"}, {}, ["os_type linux, the definition says windows"]),
        ({"boot_menu": True}, {}, ["boot_menu no, the definition says yes"]),
        (
            {"input_bus": "usb"},
            {},
            ["input_bus none, the definition says keyboard usb, tablet usb"],
        ),
        (
            {"console": {"serial_ports": 2}},
            {},
            ["console 1 serial ports, the definition says 2 serial ports"],
        ),
        ({"cpu": {"model": "EPYC"}}, {}, ["cpu host-model, the definition says custom EPYC"]),
        ({"domain_type": "kvm"}, {}, ["domain_type qemu, the definition says kvm"]),
        ({"disks": [{"size_gb": 30}]}, {}, ["disk 1 size 40 GiB, the definition says 30 GiB"]),
        (
            {"disks": [{"size_gb": 40, "image": "/i.qcow2"}]},
            {},
            ["disk 1 image /v/debian.qcow2, the definition says /i.qcow2"],
        ),
        (
            {"disks": [{"size_gb": 40, "bus": "scsi", "io": "native"}]},
            {},
            ["disk 1 bus virtio, the definition says scsi", "disk 1 io none,"],
        ),
        ({"disks": []}, {}, ["the definition says none"]),
        ({"networks": []}, {}, ["network 52:54:00:00:00:01 bridge br0, the definition says none"]),
        (
            {"networks": [{"bridge": "br0", "mtu": 9000}]},
            {},
            ["network 1 mtu none, the definition says 9000"],
        ),
        (
            {"networks": [{"bridge": "br1", "mac": "52:54:00:00:00:01"}]},
            {},
            ["network 1 bridge br0, the definition says bridge br1"],
        ),
        ({"cdroms": [{}]}, {}, ["cdrom 1 no drive, the definition says an empty drive"]),
        ({}, {"name": "other"}, ["name other, the definition says web"]),
    ],
)
def test_what_nothing_changes_is_named_with_a_way(more, there, parts):
    entries = compared(more, **there)
    text = differences.lines("web", entries)
    assert all(part in text[0] for part in parts) and len(entries) == len(parts), text
    assert all(each.change is None and each.way for each in entries)
    assert all(
        any(each.key in line and line.endswith(f"{each.way}.") for line in text[1:])
        for each in entries
    )


def changes(more, *given, **there):
    return [each.change for each in compared(more, *given, **there)]


def test_what_can_be_changed():
    assert changes({"vcpus": 4, "memory_mb": 1024}) == [
        InstanceChange("resize", {"vcpus": 4}),
        InstanceChange("resize", {"memory_mb": 1024}),
    ]
    assert changes({"autostart": True}) == [InstanceChange("settings", {"autostart": True})]
    whole = {"move": "never", "on_drain": None, "priority": None, "migration": None}
    assert changes({"policy": {"move": "never"}}, metadata={"move": "cold", "priority": "3"}) == [
        InstanceChange("settings", {"policy": whole})
    ]
    assert changes({"labels": {"a": "b", "c": "d"}}, metadata={"labels": "a=b,c=x,own=1"}) == [
        InstanceChange("settings", {"labels": {"c": "d"}})
    ]
    base = disk_files.base("web", uuid_of("web"))
    disk = {"format": "qcow2", "bus": "virtio", "readonly": False}
    assert changes(
        {"disks": [{"size_gb": 40}, {"size_gb": 5}, {"size_gb": 6, "path": "/d//x.qcow2"}]}
    ) == [
        InstanceChange("disk", {"path": f"/srv/{base}-vdb.qcow2", "size_gb": 5, **disk}),
        InstanceChange("disk", {"path": "/d/x.qcow2", "size_gb": 6, **disk}),
    ]
    assert changes({"networks": [{"bridge": "br0"}, {"network": "default"}]}) == [
        InstanceChange("interface", {"network": "default", "mac": None, "model": "virtio"})
    ]
    drive = {
        "device": "cdrom",
        "target": "sda",
        "source": "/a.iso",
        "path": "/a.iso",
        "real_path": "/a.iso",
    }
    assert changes({"cdroms": [{"path": "/b.iso"}]}, disks=[*facts()["disks"], drive]) == [
        InstanceChange("cdrom", {"path": "/b.iso", "target": "sda"})
    ]


def test_drives_are_found_by_their_bus():
    """libvirt sorts the devices of a domain by their buses, so their order differs from the order
    in the definition."""
    empty = {"device": "cdrom", "target": "sdc", "bus": "scsi", "source": None}
    full = {
        "device": "cdrom",
        "target": "sdb",
        "bus": "sata",
        "source": "/a.iso",
        "path": "/a.iso",
        "real_path": "/a.iso",
    }
    wished = [{"path": "/a.iso"}, {"bus": "scsi"}]
    assert changes({"cdroms": wished}, disks=[*facts()["disks"], empty, full]) == []
    wished[0] = {"path": "/b.iso"}
    assert changes({"cdroms": wished}, disks=[*facts()["disks"], empty, full]) == [
        InstanceChange("cdrom", {"path": "/b.iso", "target": "sdb"})
    ]
    # A domain that was not built from this definition may have other buses.
    wished = [{"path": "/a.iso", "bus": "usb"}, {"path": "/c.iso", "bus": "scsi"}]
    assert changes({"cdroms": wished}, disks=[*facts()["disks"], empty, full]) == [
        InstanceChange("cdrom", {"path": "/c.iso", "target": "sdc"})
    ]
    (extra,) = compared({"cdroms": [{"bus": "scsi"}]}, disks=[*facts()["disks"], full, empty])
    assert (extra.key, extra.there, extra.wanted) == ("cdrom sdb", "/a.iso", "none")


def test_what_cannot_be_changed_is_only_named():
    """A policy or labels that another tool has set, media that would be ejected, devices that the
    modules do not attach."""
    drive = {
        "device": "cdrom",
        "target": "sda",
        "source": "/a.iso",
        "path": "/a.iso",
        "real_path": "/a.iso",
    }
    assert changes({}, metadata={"move": "never", "labels": "own=1"}) == [None, None]
    assert changes({"cdroms": [{}]}, disks=[*facts()["disks"], drive]) == [None]
    assert changes({"disks": [{"size_gb": 40}, {"size_gb": 5, "image": "/i.qcow2"}]}) == [None]
    assert changes({"disks": [{"size_gb": 40}, {"size_gb": 5, "serial": "x"}]}) == [None]
    assert changes({"networks": [{"bridge": "br0"}, {"bridge": "br0"}]}) == [None], (
        "a second one without a MAC address"
    )
    assert changes({"networks": [{"bridge": "br0"}, {"bridge": "br1", "vlan": {"tag": 4}}]}) == [
        None
    ]
    assert changes({"vcpus": 4}, name="other") == [None, None], "it may be another domain"


def test_a_flavor_is_given_where_it_changes_the_size():
    of_store = {
        "small": {"vcpus": 1, "memory_mb": 512, "disk_gb": 0},
        "same": {"vcpus": 2, "memory_mb": 4096, "disk_gb": 0},
    }
    given = check.with_flavors([wanted(flavor="small")], of_store, {"web": "f"})
    assert given[0]["vcpus"] == 2, "its own sizes go before those of the flavor"
    small = {"flavor": "small", "vcpus": 1, "memory_mb": 512}
    found = {each.key: each.change for each in compared(small, of_store)}
    assert (
        found["flavor"] == InstanceChange("resize", {"flavor": "small"})
        and found["vcpus"] is not None
    )
    assert changes({"flavor": "same"}, of_store) == [None], "no guest is shut down for a name"
    assert changes({"flavor": "small", "vcpus": 3}, of_store)[1] is None, (
        "it has not the size of the flavor"
    )


def test_a_disk_of_an_instance_that_was_built_elsewhere_is_found():
    """The disk is found by the name of its file in another folder; an adopted disk is found by its
    place."""
    (own,) = facts()["disks"]
    adopted = {**own, "source": "/old/x.img", "path": "/old/x.img"}
    assert compared({}, disks=[adopted]) == []
    extra = {
        **own,
        "target": "vdb",
        "source": "/d.qcow2",
        "path": "/d.qcow2",
        "capacity_bytes": 2**30,
    }
    (found,) = compared({}, disks=[extra, own])
    assert found.key == "disk vdb" and "instance_disk" in found.way
    assert (
        compared(
            {"disks": [{"size_gb": 40}, {"size_gb": 1, "path": "/d.qcow2"}]}, disks=[extra, own]
        )
        == []
    )


def test_a_larger_disk_is_a_change_and_a_smaller_one_is_none():
    (entry,) = compared({"disks": [{"size_gb": 50}]})
    assert entry.change is not None and (entry.change.kind, entry.change.given) == (
        "growth",
        {"target": "vda", "size_gb": 50},
    )
    (entry,) = compared({"disks": [{"size_gb": 30}]})
    assert entry.change is None and "never made smaller" in entry.way
