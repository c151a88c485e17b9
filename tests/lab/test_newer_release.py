# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet during an upgrade: kvm3 has Debian 13, and kvm1 and kvm2 have the machine's release. The
QEMU of kvm3 has machine types that they do not have."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import labs
import pytest
from test_evacuate import AT_ONCE, SHARED_POOL
from test_fleet import SHARED, Domain, Fleet, changed, said

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """Yield a lab for this file alone."""
    with labs.separate(tmp_path_factory.mktemp("mixed") / "lab", "--host", "kvm3=trixie") as lab:
        yield lab


@pytest.fixture
def fleet(mixed, tmp_path):
    with labs.emptied(mixed, tmp_path, "-e", json.dumps(SHARED_POOL)) as fleet:
        yield fleet


@pytest.fixture
def newest(fleet):
    """Return a machine type that only kvm3 has."""
    machines = fleet.everywhere(
        "virsh capabilities | grep -o 'pc-q35-[0-9.]*<' | tr -d '<' | sort -Vu"
    )
    machine_types = [
        name
        for name in machines["kvm3"].split()
        if name not in machines["kvm1"].split() + machines["kvm2"].split()
    ]
    assert machine_types and machines["kvm1"] == machines["kvm2"], machines
    return machine_types[-1]


def machine(fleet, host, name):
    return fleet.run(host, f"virsh dumpxml {name} | grep -o \"machine='[^']*'\"").split("'")[1]


def newer(name, machine_type, **more):
    return {
        "name": name,
        "memory_mb": 64,
        "disks": [{"size_gb": 1}],
        "machine": machine_type,
        **more,
    }


def on(host):
    return {"requested_destination": {"host": host}}


def test_a_drain_moves_guests_to_the_newer_host_and_none_back(fleet):
    fleet.make("kvm1", Domain("web"), Domain("off", state="shutoff"))
    fleet.playbook("discover")
    old = machine(fleet, "kvm1", "web")
    for name in ("web", "off"):
        fleet.playbook(
            "instance_migrate", "-e", f"drover_instance={name}", "-e", "drover_destination=kvm3"
        )
    assert fleet.settled() == {"web": ("kvm3", "running"), "off": ("kvm3", "shutoff")}
    assert machine(fleet, "kvm3", "web") == old
    # Nova has the same refusal.
    refused = fleet.drain("kvm3", check=False)
    assert refused.returncode != 0 and "the destination's hypervisor is older (7." in said(
        refused
    ), said(refused)
    assert fleet.settled() == {"web": ("kvm3", "running"), "off": ("kvm3", "shutoff")}


def test_a_drain_to_the_newer_host_and_a_deletion_there(fleet, newest):
    """A drained guest keeps its machine type. It is deleted there, and so is a guest that only the
    newer host can run."""
    fleet.place(
        [
            {"name": "web", "memory_mb": 64, "disks": [{"size_gb": 1}], **on("kvm1")},
            newer("new", newest),
        ]
    )
    fleet.make("kvm1", Domain("off", state="shutoff"))
    fleet.playbook("discover", "-e", json.dumps(SHARED_POOL))
    old = machine(fleet, "kvm1", "web")
    fleet.playbook("host_disable", "-e", "drover_host=kvm2")
    done = fleet.drain("kvm1", **SHARED_POOL)
    assert fleet.settled() == {
        "web": ("kvm3", "running"),
        "off": ("kvm3", "shutoff"),
        "new": ("kvm3", "running"),
    }, said(done)
    assert machine(fleet, "kvm3", "web") == old != newest
    disks = {each["name"]: each["disks"][0] for each in fleet.look()["kvm3"]}
    assert fleet.service("kvm1")["maintenance"] and set(fleet.files(SHARED)) >= {
        path.rpartition("/")[2] for path in disks.values()
    }
    for name in disks:
        fleet.delete(name)
    assert fleet.settled() == {} and not set(fleet.files(SHARED)) & {
        path.rpartition("/")[2] for path in disks.values()
    }


def test_a_machine_type_that_one_host_has(fleet, newest):
    fleet.make("kvm1", Domain("web"))
    fleet.playbook("discover")
    done = fleet.place([newer("new", newest)])
    assert (
        fleet.settled()["new"] == ("kvm3", "running") and machine(fleet, "kvm3", "new") == newest
    ), said(done)
    assert changed(fleet.place([newer("new", newest)])) == 0

    refused = fleet.place([newer("other", newest, **on("kvm1"))], check=False)
    assert refused.returncode != 0 and newest in said(refused) and "other" not in fleet.where(), (
        said(refused)
    )

    done = fleet.playbook("check", check=False)
    assert f"the machine type x86_64 {newest}" in said(done) and "kvm1" in said(done), said(done)
    refused = fleet.drain("kvm3", check=False)
    assert refused.returncode != 0 and "new" in said(refused) and "older" in said(refused), said(
        refused
    )
    assert fleet.settled() == {"web": ("kvm1", "running"), "new": ("kvm3", "running")}


def test_an_evacuation_starts_what_the_older_hosts_can_run_and_names_the_rest(fleet, newest):
    fleet.make("kvm1", Domain("web"))
    discover = ("discover", "-e", json.dumps(SHARED_POOL))
    fleet.playbook(*discover)
    fleet.playbook("instance_migrate", "-e", "drover_instance=web", "-e", "drover_destination=kvm3")
    fleet.place([newer("new", newest, **on("kvm3"))])
    assert fleet.settled() == {"web": ("kvm3", "running"), "new": ("kvm3", "running")}
    fleet.lab.command("kill", "kvm3")
    fleet.playbook(*discover, "--limit", "kvm3,localhost", check=False)
    words = {
        "drover_host": "kvm3",
        "drover_host_is_off": "kvm3 is powered off",
        **SHARED_POOL,
        **AT_ONCE,
    }
    done = fleet.playbook("evacuate", "-e", json.dumps(words), check=False)
    found = fleet.where(["kvm1", "kvm2"])
    assert set(found) == {"web"} and found["web"][1] == "running", said(done)
    # libvirt looks at the elements before it looks at the machine type.
    assert "the definition of new has something that libvirt" in said(done), said(done)
    assert done.returncode != 0
    fleet.lab.command("start", "kvm3")
    fleet.run("kvm3", "virsh undefine web 2>/dev/null; virsh start new")
    fleet.playbook(*discover)
    assert fleet.settled()["new"] == ("kvm3", "running")


def cpu(fleet, host, name):
    """Return the CPU in the definition of a domain: model, features."""
    root = ET.fromstring(fleet.run(host, f"virsh dumpxml --inactive {name}")).find("cpu")
    return (
        root.get("mode"),
        root.findtext("model"),
        {each.get("name"): each.get("policy") for each in root.findall("feature")},
    )


def test_the_cpu_of_the_fleet_is_one_that_all_hosts_run(fleet, tmp_path):
    machines = fleet.everywhere(
        "virsh capabilities | grep -o 'pc-q35-[0-9.]*<' | tr -d '<' | sort -Vu"
    )
    alike = [name for name in machines["kvm1"].split() if name in machines["kvm3"].split()][-1]

    def guest(name, host):
        return newer(name, alike, cpu="fleet", **on(host))

    # The store knows only the newest host.
    alone = Fleet(fleet.lab, tmp_path, f"sqlite:///{tmp_path / 'alone.db'}")
    alone.playbook("discover", "--limit", "kvm3,localhost", "-e", json.dumps(SHARED_POOL))
    alone.place([guest("one", "kvm3")], "-e", "drover_place_force=unread_hosts")
    alone.playbook("discover", "-e", json.dumps(SHARED_POOL))
    refused = alone.place([guest("two", "kvm1")], check=False)
    assert (
        refused.returncode != 0
        and "kvm1 lacks " in said(refused)
        and "of the CPU of the fleet" in said(refused)
    ), said(refused)
    shown = said(alone.playbook("fleet_cpu"))
    assert "kvm1 lacks " in shown and "kvm2 lacks " in shown and "kvm3 lacks" not in shown, shown

    before = alone.query("SELECT * FROM fleet_cpus")
    foreseen = alone.playbook("fleet_cpu", "-e", "drover_fleet_cpu_renew=true", "--check")
    assert (
        changed(foreseen) == 1
        and " lacks " not in said(foreseen)
        and alone.query("SELECT * FROM fleet_cpus") == before
    )
    assert changed(alone.playbook("fleet_cpu", "-e", "drover_fleet_cpu_renew=true")) == 1
    assert changed(alone.playbook("fleet_cpu", "-e", "drover_fleet_cpu_renew=true")) == 0
    done = alone.place([guest("two", "kvm1"), guest("three", "kvm3")])
    assert cpu(alone, "kvm1", "two") == cpu(alone, "kvm3", "three") != cpu(alone, "kvm3", "one"), (
        said(done)
    )
    mode, model, features = cpu(alone, "kvm1", "two")
    assert mode == "custom" and model and features
    # An existing guest keeps its CPU, and a comparison reports that it differs.
    again = alone.place(
        [guest("one", "kvm3"), guest("two", "kvm1"), guest("three", "kvm3")], "--check", "--diff"
    )
    assert "one: cpu custom" in said(again) and "two: cpu" not in said(again), said(again)
    alone.playbook("instance_migrate", "-e", "drover_instance=two", "-e", "drover_destination=kvm3")
    assert alone.settled() == dict.fromkeys(("one", "two", "three"), ("kvm3", "running"))
