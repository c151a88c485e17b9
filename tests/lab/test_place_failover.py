# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""drover.compute.place with a host that cannot build or is lost, or with two runs that want the
same room."""

from __future__ import annotations

import json
import signal

import pytest
from test_fleet import LOCAL, Domain, Fleet, clean, eventually

from ansible_collections.drover.compute.tests.unit import postgres as server

pytest_plugins = ["test_fleet"]

postgres = server.postgres

ONE = {"name": "one", "vcpus": 1, "memory_mb": 64, "disks": [{"size_gb": 1}]}
#: The instances' disks are on local storage of the hosts, so that one host can fail alone.
ON_LOCAL_DISKS = {"drover_instances_path": LOCAL}


def first_choice(fleet, definition):
    """Return the scheduler's hosts for an instance, in their order."""
    output = fleet.playbook(
        "schedule_one.yml",
        "-e",
        json.dumps(
            {
                "request": {
                    "name": "probe",
                    "vcpus": definition["vcpus"],
                    "memory_mb": definition["memory_mb"],
                    "disk_gb": 1,
                }
            }
        ),
    ).stdout
    (line,) = [line for line in output.splitlines() if "ORDER" in line]
    return line.split("ORDER ")[1].strip(" \"'").split()


def test_a_host_that_cannot_build_is_passed_over(fleet):
    order = first_choice(fleet, ONE)
    first, second = order[0], order[1]
    # The first disk can be made there and the second cannot: its folder is missing.
    for host in fleet.hosts:
        if host != first:
            fleet.run(host, f"mkdir {LOCAL}/data")
    definition = {
        **ONE,
        "disks": [{"size_gb": 1}, {"size_gb": 1, "path": f"{LOCAL}/data/one.qcow2"}],
    }
    done = fleet.place([definition], **ON_LOCAL_DISKS)
    assert f"{LOCAL}/data" in done.stdout  # the reason why the first failed
    assert fleet.settled() == {"one": (second, "running")}
    assert fleet.booked() == {"one": {second: {"VCPU": 1, "MEMORY_MB": 64, "DISK_GB": 2}}}
    assert fleet.files(LOCAL, first) == []
    assert len(fleet.files(LOCAL, second)) == 2  # its disk, and the folder of the other


@pytest.mark.long
def test_no_host_can_build_and_nothing_is_left(fleet):
    refusal = fleet.refused(
        "place",
        "-e",
        json.dumps(
            {
                "drover_instance_definitions": [
                    {
                        **ONE,
                        "disks": [
                            {"size_gb": 1},
                            {"size_gb": 1, "path": f"{LOCAL}/data/one.qcow2"},
                        ],
                    },
                    {**ONE, "name": "good"},
                ],
                **ON_LOCAL_DISKS,
            }
        ),
    )
    assert "one could not be built" in refusal
    # The other instance is not affected.
    where = fleet.settled()
    assert set(where) == {"good"}
    for host in fleet.hosts:
        assert len(fleet.files(LOCAL, host)) == (where["good"][0] == host)


@pytest.mark.long
def test_a_host_that_is_off_is_passed_over_before_anything_begins(fleet):
    first, second, *dummy = first_choice(fleet, ONE)
    fleet.lab.command("kill", first)  # and the store does not know yet
    fleet.place([ONE])
    others = [host for host in fleet.hosts if host != first]
    assert fleet.settled(others) == {"one": (second, "running")}


@pytest.mark.long
def test_a_host_that_is_lost_in_the_middle_is_uncertain(fleet):
    first = first_choice(fleet, ONE)[0]
    # qemu-img stops in the middle of the build, and the host's power fails.
    fleet.run(
        first,
        "printf '#!/bin/sh\\ntouch /root/begun; exec sleep 60\\n' > /root/qemu-img; chmod +x"
        " /root/qemu-img; mount --bind /root/qemu-img $(readlink -f /usr/bin/qemu-img)",
    )
    run = fleet.start("place", "-e", json.dumps({"drover_instance_definitions": [ONE]}))
    try:
        eventually(lambda: fleet.lab.host(first).file("/root/begun").exists)
        fleet.lab.command("kill", first)
    except BaseException:
        run.kill()
        raise
    output = " ".join(run.finish().split())
    assert run.process.returncode != 0, output
    assert (
        f"Host {first} cannot be reached" in output
        and "so it is not built elsewhere and keeps its room" in output
    )
    others = [host for host in fleet.hosts if host != first]
    assert fleet.where(others) == {}
    assert list(fleet.booked()["one"]) == [first]  # without proof it keeps its room
    # After the host's return, it is built on the host of its claim.
    fleet.lab.command("start", first)
    fleet.run(first, "rm /root/begun")
    fleet.playbook("discover")
    fleet.place([ONE])
    assert fleet.settled() == {"one": (first, "running")}


@pytest.mark.long
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_two_runs_want_the_last_room(own_lab, discovered, tmp_path, request, database):
    if database == "sqlite":
        race(request.getfixturevalue("fleet"))
        return
    clean(own_lab)
    with request.getfixturevalue("postgres").database() as url:
        race(Fleet(own_lab, tmp_path, url))
    clean(own_lab)


def race(fleet):
    """With as many vCPUs as CPUs, and kvm1's CPUs in use, only kvm3 has two left."""
    fleet.make("kvm1", Domain("full", vcpus=2))
    fleet.playbook("discover", "-e", "drover_cpu_allocation_ratio=1")
    names = ("left", "right")
    runs = [
        fleet.start(
            "place",
            "-e",
            json.dumps(
                {"drover_instance_definitions": [{"name": name, "vcpus": 2, "memory_mb": 64}]}
            ),
        )
        for name in names
    ]
    # Both have looked for a host before one of them may claim.
    for run in runs:
        run.until(r"TASK .*Pick a host")
        run.signal(signal.SIGSTOP)
    for run in runs:
        run.signal(signal.SIGCONT)
    outputs = [" ".join(run.finish().split()) for run in runs]
    won = [name for name, run in zip(names, runs) if run.process.returncode == 0]
    assert len(won) == 1, outputs
    where = fleet.settled()
    assert set(where) == {"full", won[0]} and where[won[0]] == ("kvm3", "running")
    lost = outputs[1 - names.index(won[0])]
    assert "No room for" in lost or "No valid host" in lost
