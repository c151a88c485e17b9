# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""drover.compute.drain and undrain: the host is empty, and its instances continue unchanged on
other hosts."""

from __future__ import annotations

import json
import re

import pytest
from test_fleet import LOCAL, SHARED, Domain, changed

pytest_plugins = ["test_fleet"]

PAIR = [
    {"name": name, "memory_mb": 64, "disks": [{"size_gb": 1}], "server_group": "web"}
    for name in ("web1", "web2")
]
GROUPS = {"drover_server_groups": [{"name": "web", "policy": "anti-affinity"}]}


def without_times(dump):
    """Return a dump of the store without the times of the last report, and without the sizes that a
    file system reports only after a write."""
    return [
        [
            tuple(without_sizes(value) for value in row if not isinstance(value, float))
            for row in rows
        ]
        for rows in dump
    ]


def without_sizes(value):
    return (
        re.sub(r'("allocation_bytes": )\d+', r"\1...", value) if isinstance(value, str) else value
    )


def undrain(fleet, host):
    return fleet.playbook("undrain", "-e", f"drover_host={host}")


def test_running_paused_and_shut_off_on_shared_storage(fleet):
    fleet.place(PAIR, **GROUPS)
    host, other = (fleet.where()[name][0] for name in ("web1", "web2"))
    (third,) = set(fleet.hosts) - {host, other}
    fleet.make(
        host,
        Domain("running", memory_mb=96, boots=True),
        Domain("paused", state="paused"),
        Domain("cold", state="shutoff", vcpus=2),
    )
    fleet.playbook("discover")
    before, where = fleet.dump(), fleet.settled()
    files = fleet.files(SHARED)

    # Only the plan.
    done = fleet.drain(host, "--check")
    assert changed(done) == 1
    plan = " ".join(done.stdout.split())
    for name, state, how in (
        ("running", "running", "live"),
        ("paused", "paused", "live"),
        ("cold", "shutoff", "cold"),
        ("web1", "running", "live"),
    ):
        assert re.search(rf"\d {name} +{state} .*? {host} +-> +kvm\d +{how}", plan), plan
    assert fleet.dump() == before and fleet.where() == where
    plan_only = fleet.drain(host, drover_plan_only=True)
    assert changed(plan_only) == 0 and f"Drain of {host}: 4 instances" in plan_only.stdout
    assert without_times(fleet.dump()) == without_times(before) and fleet.where() == where

    done = fleet.drain(host, drover_reason="new kernel")
    after = fleet.settled()
    assert fleet.run(host, "virsh list --all --name").split() == []
    assert {name: state for name, (dummy, state) in after.items()} == {
        name: state for name, (dummy, state) in where.items()
    }
    assert after["web2"] == where["web2"] and after["web1"] == (third, "running")  # the last host
    assert fleet.service(host) == {
        "disabled": True,
        "reason": "new kernel",
        "maintenance": True,
        "forced_down": False,
        "last_error": None,
    }
    for name in ("running", "paused", "cold", "web1"):
        assert re.search(
            rf"^{name}: {host} -> kvm\d, \w+ there after [\d.]+ s \[\d of 4[],]", done.stdout, re.M
        )
    assert f"{host} is empty and in maintenance" in " ".join(done.stdout.split())
    assert fleet.files(SHARED) == files
    # It is the same guest: it still obeys the power button.
    fleet.run(
        after["running"][0],
        "virsh shutdown running; for i in $(seq 50); do virsh domstate running | grep -q off &&"
        " exit 0; sleep 0.1; done; exit 1",
    )

    # A second run is harmless, and no new instance goes to the host, although it has the most room.
    assert changed(fleet.drain(host, drover_reason="new kernel")) == 0
    fleet.place([{"name": "new", "memory_mb": 64}])
    assert host not in {where for where, dummy in fleet.where().values()}

    done = undrain(fleet, host)
    assert fleet.service(host) == {
        "disabled": False,
        "reason": None,
        "maintenance": False,
        "forced_down": False,
        "last_error": None,
    }
    assert changed(done) == 1
    again = undrain(fleet, host)
    assert changed(again) == 0 and "was not drained; nothing was changed" in " ".join(
        again.stdout.split()
    )


def test_local_disks_are_copied_and_a_disabled_host_stays_disabled(fleet):
    domains = [
        Domain("live", folder=LOCAL, disks=2, written_mb=8),
        Domain("cold", folder=LOCAL, state="shutoff", written_mb=4),
        Domain("paused", folder=LOCAL, state="paused"),
    ]
    fleet.make("kvm1", *domains)
    fleet.run("kvm1", f"echo keep > {LOCAL}/notes.txt")
    variables = {"drover_instances_path": LOCAL}
    fleet.playbook("discover", "-e", json.dumps(variables))
    fleet.playbook(
        "host_state.yml",
        "-e",
        json.dumps({"service_host": "kvm1", "state": "disabled", "reason": "bad fan"}),
    )

    done = fleet.drain("kvm1", **variables)
    where = fleet.settled()
    assert {name: state for name, (dummy, state) in where.items()} == {
        "live": "running",
        "cold": "shutoff",
        "paused": "paused",
    }
    assert "kvm1" not in {host for host, dummy in where.values()}
    assert fleet.files(LOCAL, "kvm1") == ["notes.txt"]  # removed, and no others
    for domain in domains:
        host = where[domain.name][0]
        for path in domain.paths:
            fleet.run(host, f"test -f {path}")
    # The guest's writes are on the disk.
    cold = domains[1]
    output = fleet.run(
        where["cold"][0],
        f"qemu-img check -q {cold.paths[0]} && qemu-io -r -f qcow2 -c 'read -P 90 0 4M'"
        f" {cold.paths[0]}",
    )
    assert "read 4194304/4194304" in output and "verification failed" not in output
    output = fleet.run(
        where["live"][0], f"qemu-io -U -r -f qcow2 -c 'read -P 90 0 8M' {domains[0].paths[0]}"
    )
    assert "read 8388608/8388608" in output and "verification failed" not in output
    assert fleet.service("kvm1")["maintenance"]
    assert "kvm1 is empty and in maintenance" in " ".join(done.stdout.split())

    undrain(fleet, "kvm1")
    assert fleet.service("kvm1") == {
        "disabled": True,
        "reason": "bad fan",
        "maintenance": False,
        "forced_down": False,
        "last_error": None,
    }


@pytest.mark.long
def test_two_hosts_at_once(fleet):
    """Each of them has room for the instances of the other one, and gets none of them."""
    fleet.make("kvm1", Domain("one", boots=True), Domain("cold", state="shutoff"))
    fleet.make("kvm2", Domain("two", folder=LOCAL, written_mb=4), Domain("paused", state="paused"))
    fleet.make("kvm3", Domain("stays"))
    fleet.playbook("discover")
    before = fleet.settled()
    plan = fleet.drain("kvm2, kvm1", "--check")
    assert changed(plan) == 1 and fleet.where() == before
    assert "Drain of kvm1, kvm2: 4 instances to move" in plan.stdout
    assert len(re.findall(r" kvm[12] +-> +kvm3 ", plan.stdout)) == 4, plan.stdout

    done = fleet.drain(["kvm1", "kvm2"], drover_reason="new rack")
    assert fleet.settled() == {name: ("kvm3", state) for name, (dummy, state) in before.items()}
    for host in ("kvm1", "kvm2"):
        assert fleet.run(host, "virsh list --all --name").split() == []
        assert fleet.service(host) == {
            "disabled": True,
            "reason": "new rack",
            "maintenance": True,
            "forced_down": False,
            "last_error": None,
        }
        assert f"{host} is empty and in maintenance" in " ".join(done.stdout.split())
    assert fleet.files(LOCAL, "kvm2") == []
    assert (
        fleet.query("SELECT DISTINCT destination FROM migrations") == [("kvm3",)]
        and fleet.query("SELECT name FROM leases") == []
    )
    assert changed(fleet.drain("kvm1,kvm2", drover_reason="new rack")) == 0

    back = undrain(fleet, "kvm1,kvm2")
    assert not any(fleet.service(host)["disabled"] for host in ("kvm1", "kvm2"))
    said = " ".join(back.stdout.split())
    assert all(
        f"{host} is as it was before its drain or evacuation: enabled." in said
        for host in ("kvm1", "kvm2")
    )


@pytest.mark.long
def test_what_cannot_move(fleet):
    # With as many vCPUs as CPUs, kvm2 and kvm3 have one left each.
    ratio = {"drover_cpu_allocation_ratio": 1}
    fleet.make(
        "kvm1",
        Domain("saved"),
        Domain("snapped", boots=True),
        Domain("big", vcpus=2, boots=True),
        Domain("fine"),
    )
    fleet.make("kvm3", Domain("full"))
    fleet.run("kvm1", "virsh managedsave saved && virsh snapshot-create-as snapped one")
    fleet.playbook("discover", "-e", json.dumps(ratio))
    before, where = fleet.dump(), fleet.where()

    # Nothing is begun, and each is named with its reason and the way out.
    done = fleet.drain("kvm1", check=False, **ratio)
    output = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2, output
    assert re.search(r"saved: it has a saved memory image .*managedsave-remove", output), output
    assert re.search(r"snapped: it has snapshots", output), output
    assert re.search(r"big: .*VCPU|big: .*CoreFilter", output), output
    assert "fine:" not in output
    assert "drover_unmovable=skip" in output and "drover_unmovable=shutdown" in output
    assert without_times(fleet.dump()) == without_times(before) and fleet.where() == where

    # skip: the others move, and the host does not count as empty.
    done = fleet.drain("kvm1", drover_unmovable="skip", **ratio)
    where = fleet.settled()
    assert {name: where[name] for name in ("saved", "snapped", "big")} == {
        "saved": ("kvm1", "shutoff"),
        "snapped": ("kvm1", "running"),
        "big": ("kvm1", "running"),
    }
    assert where["fine"][0] != "kvm1" and where["fine"][1] == "running"
    assert fleet.service("kvm1")["disabled"] and not fleet.service("kvm1")["maintenance"]
    assert "disabled but not in maintenance" in " ".join(done.stdout.split())

    # shutdown: they are shut down in order, and the host is in maintenance.
    done = fleet.drain("kvm1", drover_unmovable="shutdown", drover_shutdown_timeout=20, **ratio)
    where = fleet.settled()
    assert {name: where[name] for name in ("saved", "snapped", "big")} == dict.fromkeys(
        ("saved", "snapped", "big"), ("kvm1", "shutoff")
    )
    assert fleet.run("kvm1", "virsh domstate --reason big").split() == ["shut", "off", "(shutdown)"]
    assert fleet.service("kvm1")["maintenance"]
    undrain(fleet, "kvm1")
    assert not fleet.service("kvm1")["disabled"]


@pytest.mark.long
def test_mistakes(fleet):
    before = fleet.dump()
    refusal = fleet.refused("drain", "-e", "drover_host=kvm9")
    assert "kvm9" in refusal and "drover.compute.discover" in refusal
    assert "drover_host" in fleet.refused("drain")
    assert "max_migrations must be at least 1" in fleet.refused(
        "drain", "-e", json.dumps({"drover_host": "kvm1", "drover_max_migrations": 0})
    )
    refusal = fleet.refused(
        "drain", "-e", json.dumps({"drover_host": "kvm1", "drover_unmovable": "kill"})
    )
    assert "fail" in refusal and "skip" in refusal and "shutdown" in refusal
    assert "kvm9" in fleet.refused("undrain", "-e", "drover_host=kvm9")
    assert without_times(fleet.dump()) == without_times(before)
