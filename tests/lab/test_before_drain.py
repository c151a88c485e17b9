# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tasks of the user before a drain: copies of the disks of real guests, and a failure with which nothing is moved."""

from __future__ import annotations

import json
import re

import pytest
from test_evacuate import SHARED_POOL
from test_fleet import SHARED, Domain, said
from test_snapshot import has, snapshot, write

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

FOLDER = f"{SHARED}/copies"
COPY = "- name: Copy the disks\n  ansible.builtin.include_role:\n    name: drover.compute.drain\n    tasks_from: backup\n"
FAIL = "- name: Refuse\n  ansible.builtin.fail:\n    msg: no backup today on {{ drain_before_host }}\n"


def drain(fleet, tmp_path, tasks, run=None, **variables):
    file = tmp_path / "before.yml"
    file.write_text(tasks)
    given = {"drover_host": "kvm1", "drover_before_drain": str(file), "drover_backup_folder": FOLDER, **SHARED_POOL, **variables}
    return (run or fleet.playbook)("drain", "-e", json.dumps(given))


def copies(fleet):
    return sorted(fleet.run("kvm1", f"ls -A {FOLDER}").split())


def test_the_disks_are_copied_and_then_the_guests_are_moved(fleet, tmp_path):
    web = Domain("web", disks=2, size="8M")
    fleet.make("kvm1", web, Domain("off", state="shutoff", size="8M"))
    fleet.playbook("discover", "-e", json.dumps(SHARED_POOL))
    write(fleet, 1, 0)
    # The copy has what is behind the disk, too.
    snapshot(fleet, "present", "one")
    write(fleet, 2, 1)
    write(fleet, 3, 0, target="vdb")
    text = drain(fleet, tmp_path, COPY, fleet.refused)
    assert f"The folder {FOLDER} does not exist on kvm1" in text and {host for host, dummy in fleet.where().values()} == {"kvm1"}
    fleet.run("kvm1", f"mkdir {FOLDER}")
    text = said(drain(fleet, tmp_path, COPY))
    assert "off on kvm1 has no copy: it is shutoff" in text and re.search(r"web on kvm1: vda was copied to \S+\.qcow2", text)
    assert fleet.where()["web"][0] != "kvm1" and fleet.where()["off"][0] != "kvm1"
    found = copies(fleet)
    assert [re.sub(r"\d{8}T\d{6}Z", "T", each) for each in found] == [f"{web.uuid}-vda-T.qcow2", f"{web.uuid}-vdb-T.qcow2"]
    assert has(fleet, f"{FOLDER}/{found[0]}", p0=1, p1=2) and has(fleet, f"{FOLDER}/{found[1]}", p0=3)
    assert "backing file" not in fleet.run("kvm1", f"qemu-img info {FOLDER}/{found[0]}")
    # The guest was quiet: its disks are still what they were.
    host = fleet.where()["web"][0]
    shown = fleet.run(host, "virsh domblklist web --details")
    for target, name in zip(("vda", "vdb"), found):
        path = re.search(rf"disk +{target} +(\S+)", shown).group(1)
        assert "identical" in fleet.run(host, f"qemu-img compare -U {path} {FOLDER}/{name}")


def test_a_failure_moves_nothing(fleet, tmp_path):
    fleet.make("kvm1", Domain("web", size="64M", written_mb=32))
    fleet.playbook("discover", "-e", json.dumps(SHARED_POOL))
    before = fleet.service("kvm1")
    assert "no backup today on kvm1" in drain(fleet, tmp_path, FAIL, fleet.refused)
    assert fleet.settled() == {"web": ("kvm1", "running")} and fleet.service("kvm1")["disabled"] == before["disabled"]
    # No time for the copy: its job is cancelled, and nothing is left of it.
    fleet.run("kvm1", f"mkdir {FOLDER}")
    text = drain(fleet, tmp_path, COPY, fleet.refused, drover_backup_timeout=0)
    assert "was not done within 0 s and was cancelled" in text and copies(fleet) == []
    assert fleet.settled() == {"web": ("kvm1", "running")} and fleet.query("SELECT * FROM migrations") == []
    # The plan alone, or a plan that cannot be, runs no tasks.
    drain(fleet, tmp_path, FAIL, drover_plan_only=True)
