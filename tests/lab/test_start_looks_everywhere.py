# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hostile B1 on real hypervisors: a guest that a person has moved to another host by hand is not
started a second time.

Its disk is local and copied with it, so no lock of QEMU prevents the second start.
"""

from __future__ import annotations

import json

import pytest
from test_fleet import LOCAL, SHARED, Domain

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]


def carry(fleet, name, source="kvm1", destination="kvm2", start=True):
    """Copy the disk of a guest that is off to another host, and define it there too."""
    path, copy = f"{LOCAL}/{name}-0.qcow2", f"{SHARED}/carried"
    xml = fleet.run(source, f"cp {path} {copy} && virsh dumpxml --inactive {name}")
    more = f"virsh start {name}" if start else "true"
    fleet.run(
        destination,
        f"set -e\nmv {copy} {path}\nvirsh define /dev/stdin <<'END'\n{xml}\nEND\n{more}",
    )


def runs(fleet, name):
    """Return the hosts of a running guest."""
    return [
        host
        for host in fleet.hosts
        for each in fleet.look([host])[host]
        if (each["name"], each["state"]) == (name, "running")
    ]


def said(done):
    return " ".join((done.stdout + done.stderr).split())


@pytest.fixture
def carried(fleet):
    """Make web, off on kvm1 in the store, and running on kvm2 since."""
    fleet.make("kvm1", Domain("web", state="shutoff", folder=LOCAL))
    fleet.playbook("discover")
    carry(fleet, "web")
    return fleet


@pytest.mark.parametrize(
    "words",
    [["instance_start"], ["instance_reboot", "-e", "drover_reboot_hard=true"]],
    ids=["start", "hard reboot"],
)
def test_a_guest_that_runs_elsewhere_is_not_started(carried, words):
    done = carried.playbook(*words, "-e", "drover_instance=web", check=False)
    assert (
        done.returncode == 2 and "kvm1 (shutoff)" in said(done) and "kvm2 (running)" in said(done)
    )
    assert runs(carried, "web") == ["kvm2"]


def test_an_undrain_starts_nothing_twice(fleet):
    fleet.make("kvm1", Domain("web", boots=True, folder=LOCAL))
    fleet.playbook("discover")
    fleet.drain(
        "kvm1",
        drover_unmovable="shutdown",
        drover_migration={"copy_storage": "never"},
        drover_shutdown_timeout=60,
    )
    carry(fleet, "web")
    done = fleet.playbook("undrain", "-e", "drover_host=kvm1", check=False)
    assert done.returncode == 2 and "kvm1 is back" in said(done) and "kvm2 (running)" in said(done)
    assert runs(fleet, "web") == ["kvm2"]


def test_a_cold_migration_does_not_start_what_runs_elsewhere(carried):
    moved = carried.playbook(
        "instance_migrate",
        "-e",
        "drover_instance=web",
        "-e",
        "drover_destination=kvm3",
        check=False,
    )
    done = carried.playbook("instance_start", "-e", "drover_instance=web", check=False)
    assert done.returncode == 2 and "kvm2 (running)" in said(done), said(moved)
    assert runs(carried, "web") == ["kvm2"]


def test_a_host_that_does_not_answer_is_named_and_lifted_by_its_name(carried):
    """The libvirt of kvm2 is stopped: the controller reaches kvm2, and it reports nothing."""
    carried.run(
        "kvm2", "virsh destroy web; virsh undefine web; kill -STOP $(cat /run/libvirtd.pid)"
    )
    try:
        done = carried.playbook("instance_start", "-e", "drover_instance=web", check=False)
        assert (
            done.returncode == 2
            and "drover_absent_hosts=kvm2" in said(done)
            and runs_on(carried, "kvm1") == []
        )
        other = json.dumps({"drover_instance": "web", "drover_absent_hosts": ["kvm3"]})
        assert carried.playbook("instance_start", "-e", other, check=False).returncode == 2
        carried.playbook(
            "instance_start", "-e", "drover_instance=web", "-e", "drover_absent_hosts=kvm2"
        )
        assert runs_on(carried, "kvm1") == ["web"]
    finally:
        carried.run("kvm2", "kill -CONT $(cat /run/libvirtd.pid)")


def runs_on(fleet, host):
    return [each["name"] for each in fleet.look([host])[host] if each["state"] == "running"]


def test_place_does_not_build_what_somebody_has_defined_since_the_last_discovery(fleet):
    """Hostile C2: another store has placed it, and this store does not know it."""
    fleet.make("kvm2", Domain("new"))
    done = fleet.place([{"name": "new", "memory_mb": 64, "disks": [{"size_gb": 1}]}], check=False)
    assert done.returncode == 2 and "kvm2 has new" in said(done)
    assert runs(fleet, "new") == ["kvm2"]
