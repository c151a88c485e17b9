# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guests with image files on CephFS, which the hosts mount with FUSE: such a mount does not name
its origin, so it is declared."""

from __future__ import annotations

import json
import shutil

import pytest
from lablib.storage import cephfs
from test_evacuate import AT_ONCE
from test_fleet import LOCAL, SHARED, Domain, changed, said
from test_sharing import holdings

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        any(shutil.which(name) is None for name in cephfs.PROGRAMS),
        reason="CephFS is not here: run tests/setup/setup.sh storage",
    ),
]

pytest_plugins = ["test_fleet"]

#: The declaration in the documentation for a storage of unknown origin.
DECLARED = {"drover_shared_pools": ["shared", cephfs.NAME], "drover_storage_pools": [cephfs.NAME]}


class OnFiles:
    """A fleet with CephFS mounted on its hosts."""

    def __init__(self, fleet):
        self.fleet, self.variables = fleet, {**DECLARED, **AT_ONCE}

    def playbook(self, name, check=True, **variables):
        return self.fleet.playbook(
            name, "-e", json.dumps({**self.variables, **variables}), check=check
        )

    def place(self, name, *disks, **more):
        return self.fleet.place(
            [{"name": name, "memory_mb": 64, "disks": list(disks), **more}], **self.variables
        )

    def files(self):
        """Return the files of CephFS: name and inode."""
        listed = self.fleet.run("kvm1", f"ls -1i {cephfs.MOUNT}").splitlines()
        return {name: inode for inode, name in map(str.split, listed)}

    def elsewhere(self):
        """Return the content of the other folders of instances on all hosts."""
        return [self.fleet.run(host, f"ls {LOCAL} {SHARED}") for host in self.fleet.hosts]

    def die(self, host):
        self.fleet.lab.command("kill", host)
        self.fleet.playbook(
            "discover",
            "-e",
            json.dumps(self.variables),
            "--limit",
            f"{host},localhost",
            check=False,
        )

    def evacuate(self, host, check=True):
        return self.playbook(
            "evacuate", check=check, drover_host=host, drover_host_is_off=f"{host} is powered off"
        )


@pytest.fixture(scope="module")
def server(own_lab):
    own_lab.command("up", "--with", cephfs.NAME)
    return own_lab


@pytest.fixture
def on_files(server, fleet):
    cephfs.up(fleet.lab.layout)
    yield OnFiles(fleet)
    for host in fleet.hosts:
        fleet.lab.command("start", host)
    cephfs.up(fleet.lab.layout)
    fleet.everywhere(
        "for each in $(virsh list --all --name); do virsh destroy $each; virsh undefine $each;"
        " done; true"
    )
    fleet.run("kvm1", f"find {cephfs.MOUNT} -mindepth 1 -delete")


def test_the_whole_life_of_an_instance(on_files):
    """The guest is placed, moved live and by a drain, evacuated and deleted; its file is made once,
    never copied, and removed at the end."""
    fleet = on_files.fleet
    on_files.playbook("discover")
    elsewhere = on_files.elsewhere()
    done = on_files.place("db", {"size_gb": 1, "pool": cephfs.NAME})
    host, state = fleet.settled()["db"]
    before = on_files.files()
    (image,) = before
    assert (
        state == "running" and image.endswith("-vda.qcow2") and on_files.elsewhere() == elsewhere
    ), said(done)
    assert holdings(fleet)["db"][f"pool/{cephfs.NAME}"] == {"CUSTOM_DISK_GB_CEPHFS": 1}
    assert changed(on_files.playbook("discover")) == 0

    first = next(each for each in fleet.hosts if each != host)
    on_files.playbook("instance_migrate", drover_instance="db", drover_destination=first)
    assert fleet.settled()["db"] == (first, "running")
    done = on_files.playbook("drain", drover_host=first)
    destination, state = fleet.settled()["db"]
    assert (
        destination != first
        and state == "running"
        and on_files.files() == before
        and on_files.elsewhere() == elsewhere
    ), said(done)
    moves = fleet.query("SELECT type, copied_disk_mib FROM migrations")
    assert len(moves) == 2 and all(
        kind.startswith("live") and not copied for kind, copied in moves
    ), moves
    on_files.playbook("undrain", drover_host=first)

    on_files.die(destination)
    done = on_files.evacuate(destination)
    assert (
        fleet.where([each for each in fleet.hosts if each != destination])["db"][1] == "running"
    ), said(done)
    fleet.lab.command("start", destination)
    cephfs.up(fleet.lab.layout)
    assert on_files.files() == before and on_files.elsewhere() == elsewhere
    fleet.run(destination, "virsh undefine db 2>/dev/null; true")
    on_files.playbook("discover")
    done = on_files.playbook("instance_delete", drover_instance="db", drover_instance_force=True)
    assert fleet.where() == {} and on_files.files() == {} and "db" not in holdings(fleet), said(
        done
    )


def test_qemu_locks_the_image(on_files):
    """This prevents a start by hand of a second guest on another host."""
    fleet = on_files.fleet
    fleet.make("kvm1", Domain("web", folder=cephfs.MOUNT))
    copy = Domain("copy", folder=cephfs.MOUNT)
    script = (
        copy.script()
        .replace(f"{cephfs.MOUNT}/copy-0.qcow2", f"{cephfs.MOUNT}/web-0.qcow2")
        .split("\n")
    )
    said_there = fleet.run(
        "kvm2",
        "\n".join(line for line in script if not line.startswith(("set -e", "qemu-img")))
        + " 2>&1; true",
    )
    assert 'Failed to get "write" lock' in said_there, said_there
    assert fleet.where()["copy"][1] == "shutoff"


def test_a_mount_that_is_not_declared_is_no_proof(on_files):
    """All clusters have the source ceph-fuse: nothing is started on a host that may see another
    cluster."""
    fleet = on_files.fleet
    on_files.variables = {"drover_shared_pools": ["shared"], **AT_ONCE}
    fleet.make("kvm1", Domain("web", folder=cephfs.MOUNT))
    on_files.playbook("discover")
    on_files.die("kvm1")
    done = on_files.evacuate("kvm1", check=False)
    assert done.returncode != 0 and fleet.where(["kvm2", "kvm3"]) == {}, said(done)
    assert f"its disk {cephfs.MOUNT}/web-0.qcow2 is on the dead host alone" in said(done), said(
        done
    )
