# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that the lab can run, in one definitions file, checked in the running domains.

The lab does not have these: VLANs and Open vSwitch, KVM (host-model, host-passthrough), several
NUMA cells on a host, PCI devices, virtual functions and virtual GPUs.
"""

from __future__ import annotations

import base64
import json
import os
import pathlib
import re

import pytest
from test_devices import task
from test_examples import storage_network
from test_fleet import IMAGE, SHARED, changed, said
from test_hardware import (
    FULL,
    NVRAM,
    OLD,
    OLD_SEEN,
    PASSWORD,
    SEEN,
    SWTPM,
    VNC_AUTHENTICATION,
    exists,
    fill,
    knock,
    live,
    see,
)
from test_labels import of_host
from test_place import images, read_iso

pytest_plugins = ["test_fleet", "test_pinned_guests"]
pytestmark = pytest.mark.long

DEFINITIONS = pathlib.Path(__file__).with_name("fleet.yml")
#: kvm2 is only for pinned guests; the others have one CPU for pinned guests, and one for the rest.
HOSTS = {
    "kvm1": {"drover_cpu_dedicated_set": "0", "drover_cpu_shared_set": "1"},
    "kvm2": {"drover_cpu_dedicated_set": "0-1"},
    "kvm3": {"drover_cpu_dedicated_set": "0", "drover_cpu_shared_set": "1"},
}
POLICY = {
    "enabled_filters": [
        "ComputeFilter",
        "AvailabilityZoneFilter",
        "SameHostFilter",
        "DifferentHostFilter",
        "ServerGroupAffinityFilter",
        "ServerGroupAntiAffinityFilter",
        "AggregateInstanceExtraSpecsFilter",
        "AggregateImagePropertiesIsolation",
        "ImagePropertiesFilter",
        "JsonFilter",
        "IsolatedHostsFilter",
    ],
    "isolated_hosts": ["kvm2"],
    "isolated_images": ["appliance"],
}
#: Each has only one possible host; web-1 and web-2 are on both hosts that are not isolated.
WHERE = {
    "vault": "kvm2",
    "mixed": "kvm1",
    "pinned": "kvm3",
    "full": "kvm3",
    "old": "kvm1",
    "seeded": "kvm1",
    "beside": "kvm1",
    "apart": "kvm3",
    "asked": "kvm3",
    "zoned": "kvm3",
    "forced": "kvm3",
    "not-there": "kvm3",
    "tight": "kvm1",
}
#: The form of test_hardware: the path in the domain, an attribute of it, and its values in order.
SEEN_IN = {
    "full": SEEN,
    "old": OLD_SEEN,
    **dict.fromkeys(
        ("web-1", "web-2"),
        [
            ("os/type", "machine", ["pc-q35-7.1"]),
            ("os/bootmenu", "enable", ["yes"]),
            ("devices/disk[@device='disk']/target", "bus", ["scsi"]),
            ("devices/disk[@device='cdrom']/target", "bus", ["scsi"]),
            ("devices/controller[@type='scsi']", "model", ["lsilogic"]),
            ("devices/disk[@device='disk']/iotune/write_iops_sec", None, ["300"]),
            ("devices/interface/model", "type", ["e1000", "virtio"]),
            ("devices/interface/mtu", "size", ["1300"]),
            ("devices/video/model", "type", ["vga"]),
            ("devices/video/model", "vram", ["16384"]),
            ("devices/input[@bus='usb']", "type", ["tablet", "keyboard"]),
            ("devices/channel/target", "name", ["org.qemu.guest_agent.0"]),
            ("devices/serial/target", "port", ["0"]),
            ("devices/watchdog[@action='poweroff']", "model", ["i6300esb"]),
            ("devices/rng/rate", "bytes", ["1024"]),
            ("vcpu", "cpuset", ["1"]),
        ],
    ),
    "vault": [
        ("os/firmware/feature[@name='secure-boot']", "enabled", ["yes"]),
        ("os/firmware/feature[@name='enrolled-keys']", "enabled", ["yes"]),
        ("os/loader", "secure", ["yes"]),
        ("devices/tpm", "model", ["tpm-crb"]),
        ("devices/tpm/backend", "version", ["2.0"]),
        ("devices/interface/driver", "queues", ["2"]),
        ("cpu/topology", "sockets", ["1"]),
        ("cpu/topology", "cores", ["2"]),
        ("cpu/topology", "threads", ["1"]),
        ("memoryBacking/hugepages/page", "size", ["2048"]),
        ("cpu/numa/cell", "cpus", ["0-1"]),
        ("cpu/numa/cell", "memory", [str(192 * 1024)]),
        ("numatune/memnode", "nodeset", ["0"]),
        ("cputune/emulatorpin", "cpuset", ["0-1"]),
    ],
    "mixed": [
        ("memoryBacking/hugepages/page", "size", ["2048"]),
        ("cpu/numa/cell", "memory", [str(64 * 1024)]),
        ("cpu/topology", "sockets", ["1"]),
        ("cpu/topology", "threads", ["2"]),
        ("devices/interface/driver", "queues", ["2"]),
    ],
    "pinned": [
        ("memoryBacking/hugepages/page", "size", []),
        ("cpu/numa/cell", "memory", [str(96 * 1024)]),
        ("numatune/memnode", "mode", ["strict"]),
        ("cputune/emulatorpin", "cpuset", ["1"]),
    ],
    "seeded": [
        ("devices/disk[@device='cdrom']/target", "bus", ["sata"]),
        ("devices/disk[@device='disk']/target", "bus", ["virtio", "sata"]),
        ("devices/disk/serial", None, ["OWN-1"]),
        ("vcpu", "cpuset", ["1"]),
    ],
    "beside": [
        ("devices/interface/source", "network", ["storage"]),
        ("devices/interface/mac", "address", ["52:54:00:ab:cd:05"]),
    ],
    "zoned": [(".", "type", ["qemu"])],
}
#: vCPU -> CPU of the host, as virsh shows it for the running domain.
PINS = {
    "vault": {"0": "0", "1": "1"},
    "mixed": {"0": "1", "1": "0"},
    "pinned": {"0": "0"},
    "apart": {"0": "1"},
}
#: In kB, as the kernel reports it for the guest's process.
HUGE = {"vault": 192 * 1024, "mixed": 64 * 1024, "pinned": 0}
BOOKED = {
    "vault": {"kvm2": {"PCPU": 2, "MEMORY_MB": 192, "DISK_GB": 1}},
    "mixed": {"kvm1": {"PCPU": 1, "VCPU": 1, "MEMORY_MB": 64}},
    "pinned": {"kvm3": {"PCPU": 1, "MEMORY_MB": 96, "DISK_GB": 1, "CUSTOM_LICENCE": 2}},
    "full": {"kvm3": {"VCPU": 1, "MEMORY_MB": 192, "DISK_GB": 4}},
    "tight": {"kvm1": {"VCPU": 1, "MEMORY_MB": 32}},
}
#: One more instance each, and place's answer.
REFUSED = [
    ({"name": "foreign", "memory_mb": 32, "image": "arm"}, "ImagePropertiesFilter rejected 3"),
    (
        {"name": "more", "memory_mb": 32, "project": "shop"},
        "Project shop has a limit of 3 for instances. It uses 3, and 1 more",
    ),
    (
        {"name": "licensed", "memory_mb": 32, "resources": {"CUSTOM_LICENCE": 2}},
        "IsolatedHostsFilter rejected 1, CUSTOM_LICENCE rejected 2",
    ),
    (
        {
            "name": "both",
            "memory_mb": 32,
            "image": {"properties": {"hw_cpu_policy": "dedicated"}},
            "extra_specs": {"hw:cpu_policy": "shared"},
        },
        "hw_cpu_policy",
    ),
]


@pytest.fixture
def prepared(fleet, pages):
    """Yield variables of each host, a trait and a resource of kvm3, a quota, an ISO image; the
    file, and the words for each run."""
    inventory = fleet.folder / "hosts.yml"
    hosts = {
        host: {"drover_reserved_host_cpus": 0, "drover_cpu_allocation_ratio": 8.0, **given}
        for host, given in HOSTS.items()
    }
    inventory.write_text(json.dumps({"hypervisors": {"hosts": hosts}}), encoding="utf-8")
    words = ["-i", os.fspath(fleet.lab.layout.folder / "inventory.yml"), "-i", os.fspath(inventory)]
    fleet.playbook("discover", *words)
    task(fleet, "resource_class", name="CUSTOM_LICENCE")
    task(fleet, "trait", names=["CUSTOM_FAST", "CUSTOM_SLOW"])
    task(
        fleet,
        "resource_provider",
        name="kvm3",
        inventories={"CUSTOM_LICENCE": {"total": 3}},
        traits=["CUSTOM_FAST"],
    )
    task(fleet, "quota", project="shop", instances=3, cores=4)
    fill(fleet)
    storage_network(fleet)
    return words


def digits(fleet):
    return fleet.run("kvm1", f"sha256sum {IMAGE}").split()[0]


def written(fleet, *more):
    """Return the file, with the checksum and with instances that other tests have."""
    others = [
        {**FULL, "vcpus": 1, "image": "windows"},
        {**OLD, "requested_destination": {"host": "kvm1"}},
        *more,
    ]
    text = DEFINITIONS.read_text(encoding="utf-8").replace("CHECKSUM", f"sha256:{digits(fleet)}")
    file = fleet.folder / "fleet.yml"
    file.write_text(
        text + "".join(f"  - {json.dumps(each)}\n" for each in others), encoding="utf-8"
    )
    return file


def vcpupin(fleet, host, name):
    return dict(
        re.findall(
            r"^ *(\d+) +(\S+)$", fleet.run(host, f"virsh vcpupin {name} --live"), re.MULTILINE
        )
    )


def test_each_thing_asked_for_is_seen(fleet, prepared):
    variables = {"drover_scheduler": POLICY, "console_password": PASSWORD}
    file, before = written(fleet), fleet.dump()
    foretold = fleet.place(file, *prepared, "--check", "--diff", **variables)
    assert fleet.where() == {} and fleet.dump() == before
    assert all(word in foretold.stdout for word in ("flavor small", "web-2", "vault", "full")), (
        foretold.stdout
    )

    done = fleet.place(file, *prepared, "--diff", **variables)
    where = fleet.where()
    assert {state for _host, state in where.values()} == {"running"}
    hosts = {name: host for name, (host, _state) in where.items()}
    assert {hosts.pop("web-1"), hosts.pop("web-2")} == {"kvm1", "kvm3"}
    assert hosts == WHERE

    for name, expected in SEEN_IN.items():
        see(live(fleet, name)[0], expected)
    for name, expected in PINS.items():
        assert vcpupin(fleet, where[name][0], name) == expected, name
    for name, expected in HUGE.items():
        taken = f"grep -h ^HugetlbPages: /proc/$(cat /run/libvirt/qemu/{name}.pid)/status"
        assert int(fleet.run(where[name][0], taken).split()[1]) == expected, name
    booked = fleet.booked()
    assert {name: booked[name] for name in BOOKED} == BOOKED
    see_files(fleet, digits(fleet))
    see_records(fleet)

    # No running domain differs from the file, and a later change in the file gives a difference.
    again = fleet.place(file, *prepared, "--diff", drover_apply_changes=True, **variables)
    assert (
        changed(again) == 0 and "the definition says" not in said(again) and fleet.where() == where
    ), said(again)
    file.write_text(
        file.read_text(encoding="utf-8").replace("tier: front", "tier: back"), encoding="utf-8"
    )
    assert "seeded: labels tier=front, the definition says tier=back" in said(
        fleet.place(file, *prepared, **variables)
    )

    before = fleet.dump()
    for more, words in REFUSED:
        refused_run = fleet.place(
            written(fleet, more), *prepared, "--check", check=False, **variables
        )
        assert refused_run.returncode and words in said(refused_run), said(refused_run)
    assert fleet.where() == where and fleet.dump() == before
    for run in (foretold, done, again, refused_run):
        assert PASSWORD not in said(run)
    assert not [
        path for path in fleet.folder.glob("store.db*") if PASSWORD.encode() in path.read_bytes()
    ]


def see_files(fleet, image):
    """Check the files of the instances on their hosts, beside the domains."""
    domains = {domain["name"]: domain for found in fleet.look().values() for domain in found}
    assert [name for name, domain in domains.items() if domain["autostart"]] == ["seeded"]
    assert images(fleet, domains["seeded"]) == [
        ("qcow2", 1, f"{SHARED}/_base/{image}"),
        ("qcow2", 2, None),
    ]
    assert images(fleet, domains["web-1"]) == [("qcow2", 1, f"{SHARED}/_base/{image}")]
    (seed,) = domains["seeded"]["cdroms"]
    files = read_iso(base64.b64decode(fleet.run("kvm1", f"base64 -w0 {seed}")))
    for name, text in (
        ("user-data", "hostname: seeded"),
        ("meta-data", "local-hostname: seeded.example"),
        ("network-config", "version: 2"),
    ):
        assert text in files[name]
    for host, name in (("kvm2", "vault"), ("kvm3", "full")):
        assert exists(fleet, host, f"{NVRAM}/{name}_VARS.fd") and exists(
            fleet, host, f"{SWTPM}/{domains[name]['uuid']}"
        )
    assert exists(fleet, "kvm3", f"{SHARED}/{domains['full']['uuid']}-console.log")
    assert knock(fleet, "kvm3", "full") == {VNC_AUTHENTICATION}


def see_records(fleet):
    """Check labels, policies, projects and sizes in the domains and in the store."""
    assert of_host(fleet, "kvm1", "seeded") == ["tier=front"] * 2
    text = fleet.run("kvm1", "virsh dumpxml seeded")
    assert (
        "<drover:move>cold</drover:move>" in text and "<drover:priority>7</drover:priority>" in text
    )
    text = fleet.run(fleet.where()["web-2"][0], "virsh dumpxml web-2")
    assert all(
        f"<drover:{key}>{value}<" in text
        for key, value in (("project", "shop"), ("user", "ann"), ("flavor", "small"))
    )
    rows_by_name = {
        name: given
        for name, *given in fleet.query("SELECT name, flavor, image_name, project FROM instances")
    }
    assert rows_by_name["vault"] == ["secure", "appliance", "shop"] and rows_by_name["mixed"] == [
        "half",
        None,
        None,
    ]
    assert "shop 3 of 3 4 of 4" in " ".join(task(fleet, "quota_info", project="shop")[1].split())
