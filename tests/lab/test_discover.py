# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""drover.compute.discover over ssh: its records are equal to virsh's output on the hosts."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
from test_fleet import LOCAL, Domain, changed, recap

pytest_plugins = ["test_fleet"]


def capacity(host):
    """Return vCPUs and MiB of a host, as virsh reports them."""
    said = host.run("virsh nodeinfo").stdout
    return (
        int(re.search(r"CPU\(s\): +(\d+)", said).group(1)),
        int(re.search(r"Memory size: +(\d+)", said).group(1)) // 1024,
    )


def test_what_it_records_is_what_virsh_says(empty_fleet):
    fleet = empty_fleet
    fleet.make(
        "kvm1", Domain("old1", vcpus=2, memory_mb=96, disks=2), Domain("old2", state="shutoff")
    )
    fleet.make(
        "kvm2",
        Domain(
            "old3", state="paused", folder=LOCAL, metadata="<drover:project>blue</drover:project>"
        ),
    )
    done = fleet.playbook("discover")
    assert {host: counts["changed"] for host, counts in recap(done).items()} == {
        "kvm1": 1,
        "kvm2": 1,
        "kvm3": 1,
        "localhost": 0,
    }
    assert re.search(
        r"kvm1 +up +a +3/8 37% +\S+ \wiB \d+% +\S+ \wiB \d+%( shared)? +2 +just now", done.stdout
    )

    for name in fleet.hosts:
        rows = {
            key: (total, node)
            for key, total, node in fleet.query(
                "SELECT r.name, i.total, n.hypervisor_hostname FROM inventories i JOIN"
                " resource_classes r ON r.id = i.class_id JOIN resource_providers p ON p.id ="
                " i.provider_id JOIN compute_nodes n ON n.uuid = p.uuid WHERE n.host = :host",
                host=name,
            )
        }
        vcpus, memory_mb = capacity(fleet.lab.host(name))
        assert rows["VCPU"] == (vcpus, name) and rows["MEMORY_MB"] == (memory_mb, name)
        disk = (
            fleet.lab.host(name)
            .run("df --block-size=1G --output=size /srv/shared/instances")
            .stdout
        )
        assert abs(rows["DISK_GB"][0] - int(disk.split()[-1])) <= 1

    # Domains that a person started by hand are instances, with their room.
    assert fleet.settled() == {
        "old1": ("kvm1", "running"),
        "old2": ("kvm1", "shutoff"),
        "old3": ("kvm2", "paused"),
    }
    assert fleet.booked() == {
        "old1": {"kvm1": {"VCPU": 2, "MEMORY_MB": 96, "DISK_GB": 2}},
        "old2": {"kvm1": {"VCPU": 1, "MEMORY_MB": 64, "DISK_GB": 1}},
        "old3": {"kvm2": {"VCPU": 1, "MEMORY_MB": 64, "DISK_GB": 1}},
    }
    assert dict(fleet.query("SELECT name, state FROM domains")) == {
        "old1": "running",
        "old2": "shutoff",
        "old3": "paused",
    }
    assert fleet.query("SELECT name FROM instances WHERE project = 'blue'") == [("old3",)]

    # A second run changes nothing. Then the world changes, and so does the store.
    assert changed(fleet.playbook("discover")) == 0
    fleet.run("kvm1", "virsh destroy old1; virsh undefine old1; virsh start old2")
    done = fleet.playbook("discover", "--limit", "kvm1,localhost")
    assert changed(done) == 1 and "missing here: old1" in done.stdout
    assert dict(fleet.query("SELECT name, state FROM instances"))["old1"] == "missing"
    assert dict(fleet.query("SELECT name, state FROM domains")) == {
        "old2": "running",
        "old3": "paused",
    }


def test_a_hypervisor_that_cannot_be_reached_is_down_and_the_rest_goes_on(fleet):
    fleet.make("kvm1", Domain("one"))
    fleet.lab.command("kill", "kvm3")
    done = fleet.playbook("discover", check=False)
    assert done.returncode == 4, done.stdout
    counts = recap(done)
    assert counts["kvm3"]["unreachable"] == 1
    assert counts["kvm1"]["failed"] + counts["kvm2"]["failed"] == 0
    assert "kvm3" in fleet.service("kvm3")["last_error"]
    assert fleet.service("kvm1")["last_error"] is None
    assert fleet.booked()["one"]["kvm1"]["VCPU"] == 1
    output = " ".join(fleet.playbook("hosts").stdout.split())
    assert re.search(r"kvm3 down .* reached over ssh", output), output
    # Nothing is placed on it in this state: there is no room on another host in zone b.
    output = fleet.refused(
        "place",
        "-e",
        json.dumps(
            {
                "drover_instance_definitions": [
                    {"name": "new", "memory_mb": 64, "availability_zone": "b"}
                ]
            }
        ),
    )
    assert "ComputeFilter" in output and "No valid host" in output

    fleet.lab.command("start", "kvm3")
    assert changed(fleet.playbook("discover")) == 1
    assert fleet.service("kvm3")["last_error"] is None
    assert re.search(r"kvm3 +up ", fleet.playbook("hosts").stdout)


@pytest.mark.long
def test_a_hypervisor_without_the_libvirt_binding_is_told_which_package(fleet):
    # This hides python3-libvirt: a host has its own mounts.
    folder = fleet.run(
        "kvm2", "dirname $(/usr/bin/python3 -c 'import libvirt; print(libvirt.__file__)')"
    ).strip()
    fleet.run("kvm2", f"mount -t tmpfs none {folder}")
    try:
        done = fleet.playbook("discover", check=False)
    finally:
        fleet.run("kvm2", f"umount {folder}")
    assert done.returncode == 2, done.stdout
    assert {host: counts["failed"] for host, counts in recap(done).items()} == {
        "kvm1": 0,
        "kvm2": 1,
        "kvm3": 0,
        "localhost": 0,
    }
    output = " ".join(done.stdout.split())
    assert re.search(r"kvm2\S*: FAILED! .*python3-libvirt", output)
    assert "python3-libvirt" in fleet.service("kvm2")["last_error"]
    assert "kvm2" in fleet.service("kvm2")["last_error"]
    # A host that runs but does not answer takes no instance either, until it answers.
    assert re.search(r"kvm2 +down ", output)
    assert changed(fleet.playbook("discover")) == 1
    assert fleet.service("kvm2")["last_error"] is None


@pytest.mark.long
def test_without_pipelining(fleet):
    config = fleet.folder / "ansible.cfg"
    text = (fleet.lab.layout.folder / "ansible.cfg").read_text(encoding="utf-8")
    assert "pipelining = True" in text
    config.write_text(text.replace("pipelining = True", "pipelining = False"), encoding="utf-8")
    fleet.make("kvm3", Domain("one"))
    environment = {**fleet.lab.environment(fleet.store_url), "ANSIBLE_CONFIG": str(config)}
    subprocess.run(
        ["ansible-playbook", "drover.compute.discover"],
        env=environment,
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    assert fleet.settled() == {"one": ("kvm3", "running")}


def test_a_malformed_store_url_is_an_error_without_its_password(fleet):
    words = (
        "discover",
        "-e",
        "drover_store_url=postgresql://drover:hunter2@@:host/x",
        "--limit",
        "kvm1,localhost",
    )
    said = fleet.refused(*words)
    assert "URL" in said and "hunter2" not in said
    # With -vvv ansible-core before 2.19 shows the traceback of every failure.
    done = fleet.playbook(*words, "-vvv", check=False)
    assert "URL" in done.stdout and "hunter2" not in done.stdout + done.stderr
