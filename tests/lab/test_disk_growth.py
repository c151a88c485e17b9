# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks that grow, and the playbooks instance_disk and instance_cdrom, on real hypervisors and a
real Ceph; the tests check them from outside."""

from __future__ import annotations

import json
import shutil

import pytest
from lablib.storage import ceph
from test_devices import DATA, ISO, disks, gib
from test_fleet import LOCAL, SHARED, Domain, changed, said
from test_sharing import holdings

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]


def playbook(fleet, name, *words, check=True, **variables):
    return fleet.playbook(
        name, "-e", json.dumps({"drover_instance": "web", **variables}), *words, check=check
    )


def grow(fleet, gib, *words, check=True, disk="vda"):
    return playbook(
        fleet,
        "instance_disk",
        *words,
        check=check,
        drover_disk=disk,
        drover_disk_gb=gib,
        drover_disk_state="resized",
    )


def size(fleet, path):
    return (
        json.loads(fleet.run("kvm1", f"qemu-img info -U --output=json {path}"))["virtual-size"]
        / 2**30
    )


def seen(fleet):
    """Return the size that QEMU shows the guest, in GiB."""
    shown = fleet.run(fleet.where()["web"][0], "virsh domblkinfo web vda")
    return (
        int(next(line.split()[1] for line in shown.splitlines() if line.startswith("Capacity")))
        / 2**30
    )


@pytest.mark.parametrize("folder", [SHARED, LOCAL])
@pytest.mark.parametrize("state", ["running", "shutoff"])
def test_an_image_file_grows(fleet, folder, state):
    fleet.make("kvm1", Domain("web", folder=folder, state=state))
    fleet.playbook("discover")
    path, before = f"{folder}/web-0.qcow2", fleet.dump()
    assert (
        changed(grow(fleet, 3, "--check")) == 1
        and size(fleet, path) == 1
        and fleet.dump() == before
    )
    done = grow(fleet, 3, "--diff")
    assert (
        changed(done) == 1
        and "-vda: 1 GiB +vda: 3 GiB" in said(done)
        and "vda is " in said(done)
        and "3.0 GiB now" in said(done)
    ), said(done)
    assert size(fleet, path) == 3 and gib(fleet) == 3 and (state == "shutoff" or seen(fleet) == 3)
    assert changed(grow(fleet, "3GiB")) == 0
    fleet.playbook("discover")
    assert gib(fleet) == 3 and fleet.where() == {"web": ("kvm1", state)}
    refused = grow(fleet, 2, check=False)
    assert (
        refused.returncode != 0
        and "a disk is never made smaller" in said(refused)
        and size(fleet, path) == 3
    )
    fleet.settled()


def test_one_with_a_snapshot_is_refused(fleet):
    fleet.make("kvm1", Domain("web"))
    fleet.playbook("discover")
    playbook(
        fleet, "instance_snapshot", drover_snapshot_state="present", drover_snapshot_name="before"
    )
    refused = grow(fleet, 3, check=False)
    assert refused.returncode != 0 and "delete the snapshots first" in said(refused), said(refused)


def test_a_disk_and_a_medium_come_and_go_by_playbook(fleet):
    fleet.make("kvm1", Domain("web", state="shutoff"))
    fleet.run("kvm1", f"truncate -s 1M {ISO}")
    fleet.playbook("discover")
    done = playbook(fleet, "instance_disk", drover_disk_path=DATA, drover_disk_gb="2GiB")
    assert changed(done) == 1 and f"vdb is {DATA}, 2.0 GiB now" in said(done) and gib(fleet) == 3, (
        said(done)
    )
    assert (
        changed(playbook(fleet, "instance_disk", drover_disk_path=DATA, drover_disk_gb="2GiB")) == 0
    )
    done = playbook(fleet, "instance_cdrom", drover_disk_path=ISO)
    assert (
        changed(done) == 1 and f"has {ISO} now" in said(done) and ISO in disks(fleet)[1].values()
    ), said(done)
    done = playbook(fleet, "instance_cdrom", drover_disk_path=ISO, drover_disk_state="absent")
    assert (
        changed(done) == 1 and "is empty now" in said(done) and ISO not in disks(fleet)[1].values()
    ), said(done)
    done = playbook(fleet, "instance_disk", drover_disk_path=DATA, drover_disk_state="absent")
    assert (
        changed(done) == 1
        and f"the disk {DATA} is not attached now" in said(done)
        and gib(fleet) == 1
    ), said(done)
    assert "data.qcow2" in fleet.files(SHARED) and fleet.where() == {"web": ("kvm1", "shutoff")}
    unnamed = fleet.playbook("instance_disk", "-e", "drover_disk=vda", check=False)
    assert unnamed.returncode != 0 and "Traceback" not in said(unnamed), said(unnamed)


@pytest.mark.skipif(
    any(shutil.which(name) is None for name in ceph.PROGRAMS),
    reason="Ceph is not here: run tests/setup/setup.sh storage",
)
@pytest.mark.parametrize("state", ["running", "shutoff"])
def test_an_image_of_ceph_grows(own_lab, fleet, state):
    own_lab.command("up", "--with", "ceph")
    cluster = ceph.Cluster(own_lab.layout)
    variables = {"drover_storage_pools": ["ceph"]}
    fleet.playbook("discover", "-e", json.dumps(variables))
    fleet.place(
        [{"name": "web", "memory_mb": 64, "disks": [{"size_gb": 1, "pool": "ceph"}]}], **variables
    )
    if state == "shutoff":
        playbook(fleet, "instance_stop", drover_instance_force=True)
    try:
        done = grow(fleet, 2)
        (image,) = json.loads(cluster.rbd("ls", "--long", "--format", "json"))
        assert (
            changed(done) == 1
            and image["size"] == 2 * 2**30
            and holdings(fleet)["web"]["pool/ceph"] == {"CUSTOM_DISK_GB_CEPH": 2}
        ), said(done)
        assert (state == "shutoff" or seen(fleet) == 2) and changed(grow(fleet, 2)) == 0
        assert changed(fleet.playbook("discover", "-e", json.dumps(variables))) == 0
        refused = grow(fleet, 1000, check=False)
        assert refused.returncode != 0 and "there is no room for the disk" in said(refused), said(
            refused
        )
    finally:
        playbook(fleet, "instance_delete", drover_instance_force=True)
