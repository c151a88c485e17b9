# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pinned guests, one with huge pages, on the real libvirt: their CPUs in the running domain, before
and after moves, as virsh reports them.

All hosts of the lab are on this machine, so they have the same two CPUs and share its huge pages.
"""

from __future__ import annotations

import json
import pathlib
import re
import xml.etree.ElementTree as ET

import pytest
from test_fleet import eventually

pytest_plugins = ["test_fleet"]
pytestmark = pytest.mark.long

PAGES = pathlib.Path("/proc/sys/vm/nr_hugepages")
PAGE_KB = 2048
#: Pages for both guests, and a second time for a guest that moves.
ENOUGH = 128

#: The first two CPUs are only for pinned guests. kvm2 reserves a CPU by the other option.
SETS = {
    "drover_cpu_dedicated_set": "0-1",
    "drover_reserved_host_cpus": 0,
    "drover_instances_path": "/srv/shared/instances",
}

#: A guest without a system ignores the power button.
OFF = {
    "drover_instance": "small",
    "drover_instance_timeout": 1,
    "drover_instance_force": True,
    **SETS,
}

MOUNT = (
    "mkdir -p /run/hugepages && mount -t hugetlbfs hugetlbfs /run/hugepages && service libvirtd"
    " restart"
)
UNMOUNT = "umount /run/hugepages && service libvirtd restart"


@pytest.fixture
def pages(fleet):
    """Yield huge pages of the machine, which its hosts can use, for the length of a test."""
    before = PAGES.read_text()
    PAGES.write_text(str(int(before) + ENOUGH))
    try:
        if int(PAGES.read_text()) < int(before) + ENOUGH:
            pytest.fail(
                f"the kernel did not find {ENOUGH} huge pages: its memory is too fragmented or too"
                " full",
                pytrace=False,
            )
        fleet.everywhere(MOUNT)
        yield
        fleet.everywhere(
            "for name in $(virsh list --name --all); do virsh destroy $name; done 2> /dev/null; "
            + UNMOUNT
        )
    finally:
        PAGES.write_text(before)


def guest(name, **extra_specs):
    return {
        "name": name,
        "memory_mb": 64,
        "vcpus": 1,
        "disks": [{"size_gb": 1}],
        "extra_specs": {"hw:cpu_policy": "dedicated", **extra_specs},
    }


def pins(fleet, name):
    """Return (host, CPU of vCPU 0 now, the same at the next start), as virsh reports them."""
    host, state = fleet.where()[name]
    assert state == "running"
    cpu_lists = [
        re.search(r"^ *0 +(\S+)", fleet.run(host, f"virsh vcpupin {name} {flag}"), re.MULTILINE)[1]
        for flag in ("--live", "--config")
    ]
    return host, *cpu_lists


def affinity(fleet, name):
    """Return the CPUs for the threads of a guest's vCPU, as the kernel reports them."""
    host = fleet.where()[name][0]
    script = (
        f"pid=$(cat /run/libvirt/qemu/{name}.pid); for task in /proc/$pid/task/*; do grep -q '^CPU"
        " 0/' $task/comm && grep Cpus_allowed_list $task/status; done"
    )
    return fleet.run(host, script).split()[-1]


def definitions(fleet, name):
    """Return the running domain and its definition."""
    host = fleet.where()[name][0]
    return [
        ET.fromstring(fleet.run(host, f"virsh dumpxml {name} {flag}"))
        for flag in ("", "--inactive")
    ]


def variables(given):
    return ["-e", json.dumps(given)]


def test_two_pinned_guests_move_live_to_other_cpus(fleet, pages):
    large = guest("large", **{"hw:mem_page_size": str(PAGE_KB)})
    at_kvm1 = {"requested_destination": {"host": "kvm1"}}
    fleet.playbook("discover", *variables(SETS))
    fleet.place([{**guest("small"), **at_kvm1}, {**large, **at_kvm1}], **SETS)
    before = {name: pins(fleet, name) for name in ("small", "large")}
    assert sorted(before.values()) == [("kvm1", "0", "0"), ("kvm1", "1", "1")]
    assert {name: affinity(fleet, name) for name in before} == {
        name: cpu for name, (_host, cpu, _next) in before.items()
    }

    # The guest on CPU 1 gets CPU 0 there, so the other one must take CPU 1.
    for name in sorted(before, key=lambda each: before[each][1], reverse=True):
        fleet.playbook(
            "instance_migrate",
            *variables({"drover_instance": name, "drover_destination": "kvm2", **SETS}),
        )
    after = {name: pins(fleet, name) for name in before}
    other = {"0": "1", "1": "0"}
    assert after == {
        name: ("kvm2", other[cpu], other[cpu]) for name, (_host, cpu, _next) in before.items()
    }
    assert {name: affinity(fleet, name) for name in after} == {
        name: cpu for name, (_host, cpu, _next) in after.items()
    }

    for root in definitions(fleet, "large"):
        page = root.find("memoryBacking/hugepages/page")
        assert (page.get("size"), page.get("unit"), page.get("nodeset")) == (
            str(PAGE_KB),
            "KiB",
            "0",
        )
        assert root.find("cpu/numa/cell").get("memAccess") == "shared"
        assert root.find("numatune/memnode").attrib == {
            "cellid": "0",
            "mode": "strict",
            "nodeset": "0",
        }
        assert root.find("cputune/emulatorpin").get("cpuset") == after["large"][1]
    for root in definitions(fleet, "small"):
        assert (
            root.find("memoryBacking") is None
            and root.find("cpu/numa/cell").get("memAccess") is None
        )
    # The guest has its huge pages of the host.
    taken = "grep -h ^HugetlbPages: /proc/$(cat /run/libvirt/qemu/large.pid)/status"
    assert int(fleet.run("kvm2", taken).split()[1]) >= 64 * 1024

    # The store's record is equal to the hosts' report.
    rows = fleet.query(
        "SELECT i.name, n.host FROM numa_allocations a JOIN compute_nodes n ON n.id ="
        " a.compute_node_id JOIN consumers c ON c.id = a.consumer_id LEFT JOIN instances i ON"
        " i.uuid = c.uuid ORDER BY 1"
    )
    assert rows == [("large", "kvm2"), ("small", "kvm2")]
    fleet.playbook("discover", *variables(SETS))
    assert "pinned" not in fleet.playbook("audit", *variables(SETS)).stdout


def test_a_guest_bound_by_hand_stays_where_it_is(fleet):
    """Its emulator is bound to a CPU in a form that no claim makes: a refusal before any move."""
    fleet.playbook("discover", *variables(SETS))
    fleet.place([{**guest("small"), "requested_destination": {"host": "kvm1"}}], **SETS)
    fleet.run("kvm1", "virsh numatune small --mode preferred --config")
    refusal = fleet.refused(
        "instance_migrate",
        *variables({"drover_instance": "small", "drover_destination": "kvm2", **SETS}),
    )
    assert (
        "as it starts next time, its memory comes from cells of the host by the mode preferred"
        in refusal
    )
    assert pins(fleet, "small") == ("kvm1", "0", "0")


def shape(fleet, name):
    """Return (vCPUs, MiB, CPUs of its vCPUs) of the running domain and of its definition, which are
    equal."""
    shapes = [
        (
            int(root.findtext("vcpu")),
            sum(int(cell.get("memory")) for cell in root.findall("cpu/numa/cell")) // 1024,
            [pin.get("cpuset") for pin in root.findall("cputune/vcpupin")],
        )
        for root in definitions(fleet, name)
    ]
    assert shapes[0] == shapes[1]
    return shapes[0]


def test_a_pinned_guest_is_resized_and_back(fleet):
    fleet.playbook("discover", *variables(SETS))
    fleet.place([{**guest("small"), "requested_destination": {"host": "kvm1"}}], **SETS)
    assert shape(fleet, "small") == (1, 64, ["0"])
    # It stays on its host, and holds both sizes until the confirmation: so the new size has the
    # other CPU.
    fleet.playbook("instance_resize", *variables({**OFF, "drover_memory_mb": 128}))
    assert (fleet.where()["small"], shape(fleet, "small")) == (("kvm1", "running"), (1, 128, ["1"]))
    fleet.playbook("instance_resize", *variables({**OFF, "drover_resize": "revert"}))
    assert (fleet.where()["small"], shape(fleet, "small")) == (("kvm1", "running"), (1, 64, ["0"]))
    # Two vCPUs do not fit there beside the old size.
    fleet.playbook("instance_resize", *variables({**OFF, "drover_vcpus": 2}))
    host, state = fleet.where()["small"]
    assert (host != "kvm1", state, shape(fleet, "small")) == (True, "running", (2, 64, ["0", "1"]))
    fleet.playbook("instance_resize", *variables({**OFF, "drover_resize": "revert"}))
    assert (fleet.where()["small"], shape(fleet, "small")) == (("kvm1", "running"), (1, 64, ["0"]))


def cut_off(fleet, **size):
    """Begin a resize of the guest small of kvm1 to kvm2, and kill the run when the guest is off."""
    run = fleet.start("instance_resize", *variables({**OFF, **size, "drover_destination": "kvm2"}))
    eventually(lambda: fleet.where().get("small", ("", ""))[1] == "shutoff")
    run.kill()


def next_pins(fleet, host, name="small"):
    """Return the CPUs of its vCPUs in its definition."""
    return re.findall(
        r"^ *\d+ +(\S+)", fleet.run(host, f"virsh vcpupin {name} --config"), re.MULTILINE
    )


def test_a_resize_that_is_cut_off_leaves_no_foreign_cpus(fleet):
    fleet.playbook("discover", *variables(SETS))
    fleet.place([{**guest("small"), "requested_destination": {"host": "kvm1"}}], **SETS)
    cut_off(fleet, drover_vcpus=2)
    assert fleet.where()["small"] == ("kvm1", "shutoff") and next_pins(fleet, "kvm1") == ["0"]
    # Another guest gets the CPU beside it, and small may still be started by hand.
    fleet.playbook("discover", *variables(SETS))
    fleet.place([{**guest("other"), "requested_destination": {"host": "kvm1"}}], **SETS)
    fleet.run("kvm1", "virsh start small")
    assert {name: pins(fleet, name) for name in ("small", "other")} == {
        "small": ("kvm1", "0", "0"),
        "other": ("kvm1", "1", "1"),
    }
    assert "pins_unclaimed" not in fleet.playbook("audit", *variables(SETS)).stdout
    # The resize continues, and is reverted.
    fleet.playbook(
        "instance_resize", *variables({**OFF, "drover_vcpus": 2, "drover_destination": "kvm2"})
    )
    assert (fleet.where()["small"], shape(fleet, "small")) == (
        ("kvm2", "running"),
        (2, 64, ["0", "1"]),
    )
    fleet.playbook("instance_resize", *variables({**OFF, "drover_resize": "revert"}))
    assert (fleet.where()["small"], shape(fleet, "small")) == (("kvm1", "running"), (1, 64, ["0"]))

    # Pins that a person sets by hand during an open resize are named.
    cut_off(fleet, drover_vcpus=2)
    fleet.run("kvm1", "virsh vcpupin small 0 1 --config")
    fleet.playbook("discover", *variables(SETS))
    said = fleet.playbook("audit", *variables(SETS), check=False).stdout
    assert "pins_unclaimed" in said and "CPU 1 is claimed for other" in said


def test_a_resized_guest_whose_domain_is_gone_is_removed(fleet):
    fleet.playbook("discover", *variables(SETS))
    fleet.place([{**guest("small"), "requested_destination": {"host": "kvm1"}}], **SETS)
    for host, more in (
        ("kvm2", {"drover_vcpus": 2, "drover_destination": "kvm2"}),
        ("kvm1", {"drover_memory_mb": 128}),
    ):
        if "small" not in fleet.where():
            fleet.place([{**guest("small"), "requested_destination": {"host": "kvm1"}}], **SETS)
        fleet.playbook("instance_resize", *variables({**OFF, **more}))
        assert fleet.where()["small"] == (host, "running")
        assert "waits to be confirmed" in fleet.refused("instance_delete", *variables(OFF))
        (disk,) = re.findall(
            r"/srv/shared/instances/\S+vda\S*", fleet.run(host, "virsh domblklist small")
        )
        fleet.run(host, "virsh destroy small && virsh undefine small")
        fleet.playbook("discover", *variables(SETS))
        assert "instance_missing" in fleet.playbook("audit", *variables(SETS), check=False).stdout
        for ending in ("confirm", "revert"):
            assert "drover.compute.instance_delete" in fleet.refused(
                "instance_resize", *variables({**OFF, "drover_resize": ending})
            )
        said = fleet.playbook("instance_delete", *variables(OFF)).stdout
        assert f"Kept {disk}: its domain is gone" in said
        assert fleet.run(host, f"ls {disk}").strip() == disk
        assert (
            fleet.query("SELECT count(*) FROM numa_allocations") == [(0,)] and fleet.booked() == {}
        )
        assert fleet.query("SELECT name FROM instances") == []
        fleet.run(host, f"rm {disk}")
        fleet.playbook("audit", *variables(SETS))
