# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tasks of the user before a drain: copies of the disks of real guests, and a failure that stops
all moves."""

from __future__ import annotations

import concurrent.futures
import json
import re
import subprocess

import pytest
from test_evacuate import SHARED_POOL
from test_fleet import SHARED, Domain, eventually, said
from test_snapshot import has, snapshot, write

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

FOLDER = f"{SHARED}/copies"
COPY = (
    "- name: Copy the disks\n  ansible.builtin.include_role:\n    name: drover.compute.drain\n   "
    " tasks_from: backup\n"
)
FAIL = (
    "- name: Refuse\n  ansible.builtin.fail:\n    msg: no backup today on {{ drain_before_host }}\n"
)


def drain(fleet, tmp_path, tasks, run=None, **variables):
    file = tmp_path / "before.yml"
    file.write_text(tasks)
    extra_vars = {
        "drover_host": "kvm1",
        "drover_before_drain": str(file),
        "drover_backup_folder": FOLDER,
        **SHARED_POOL,
        **variables,
    }
    return (run or fleet.playbook)("drain", "-e", json.dumps(extra_vars))


def copies(fleet):
    return sorted(fleet.run("kvm1", f"ls -A {FOLDER}").split())


def test_the_disks_are_copied_and_then_the_guests_are_moved(fleet, tmp_path):
    web = Domain("web", disks=2, size="8M")
    fleet.make("kvm1", web, Domain("off", state="shutoff", size="8M"))
    fleet.playbook("discover", "-e", json.dumps(SHARED_POOL))
    write(fleet, 1, 0)
    # The copy also has the data of the backing file.
    snapshot(fleet, "present", "one")
    write(fleet, 2, 1)
    write(fleet, 3, 0, target="vdb")
    text = drain(fleet, tmp_path, COPY, fleet.refused)
    assert f"The folder {FOLDER} does not exist on kvm1" in text and {
        host for host, dummy in fleet.where().values()
    } == {"kvm1"}
    fleet.run("kvm1", f"mkdir {FOLDER}")
    text = said(drain(fleet, tmp_path, COPY))
    assert "off on kvm1 has no copy: it is shutoff" in text and re.search(
        r"web on kvm1: vda was copied to \S+\.qcow2", text
    )
    assert fleet.where()["web"][0] != "kvm1" and fleet.where()["off"][0] != "kvm1"
    file_names = copies(fleet)
    assert [re.sub(r"\d{8}T\d{6}Z", "T", each) for each in file_names] == [
        f"{web.uuid}-vda-T.qcow2",
        f"{web.uuid}-vdb-T.qcow2",
    ]
    assert has(fleet, f"{FOLDER}/{file_names[0]}", p0=1, p1=2) and has(
        fleet, f"{FOLDER}/{file_names[1]}", p0=3
    )
    assert "backing file" not in fleet.run("kvm1", f"qemu-img info {FOLDER}/{file_names[0]}")
    # The guest wrote nothing: its disks are unchanged.
    host = fleet.where()["web"][0]
    shown = fleet.run(host, "virsh domblklist web --details")
    for target, name in zip(("vda", "vdb"), file_names):
        path = re.search(rf"disk +{target} +(\S+)", shown).group(1)
        assert "identical" in fleet.run(host, f"qemu-img compare -U {path} {FOLDER}/{name}")


def test_a_failure_moves_nothing(fleet, tmp_path):
    fleet.make("kvm1", Domain("web", size="64M", written_mb=32))
    fleet.playbook("discover", "-e", json.dumps(SHARED_POOL))
    before = fleet.service("kvm1")
    assert "no backup today on kvm1" in drain(fleet, tmp_path, FAIL, fleet.refused)
    assert (
        fleet.settled() == {"web": ("kvm1", "running")}
        and fleet.service("kvm1")["disabled"] == before["disabled"]
    )
    # The copy has no time: its job is cancelled, and nothing is left of it.
    fleet.run("kvm1", f"mkdir {FOLDER}")
    text = drain(fleet, tmp_path, COPY, fleet.refused, drover_backup_timeout=0)
    assert "was not done within 0 s and was cancelled" in text and copies(fleet) == []
    assert (
        fleet.settled() == {"web": ("kvm1", "running")}
        and fleet.query("SELECT * FROM migrations") == []
    )
    # A plan alone, or a drain without a possible plan, runs no tasks.
    drain(fleet, tmp_path, FAIL, drover_plan_only=True)


def copied(fleet, host, **options):
    """Return the module's report of its copies on a host: the file of each disk."""
    given = json.dumps({"folder": FOLDER, "incremental": True, **options})
    words = ["ansible", host, "-m", "drover.compute._domain_backup", "-a", given]
    environment = {**fleet.lab.environment(), "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"}
    done = subprocess.run(
        words,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    answer = json.loads((done.stdout + done.stderr).partition(" => ")[2])
    assert ("msg" in answer) == bool(done.returncode), answer
    return answer


class Incremental:
    """One guest with two disks; its copies have the writes since the copies before."""

    def __init__(self, fleet):
        self.fleet = fleet
        self.guest = Domain("web", disks=2, size="64M")
        fleet.make("kvm1", self.guest)
        fleet.playbook("discover", "-e", json.dumps(SHARED_POOL))
        fleet.run("kvm1", f"mkdir {FOLDER}")

    def host(self):
        return self.fleet.where()["web"][0]

    def write(self, byte, piece, target="vda"):
        write(self.fleet, byte, piece, target=target, host=self.host())

    def bitmaps(self):
        """Return the names of the bitmaps in the image of vda, as of its last close."""
        info = json.loads(
            self.fleet.run(self.host(), f"qemu-img info -U --output json {self.images()['vda']}")
        )
        return [each["name"] for each in info["format-specific"]["data"].get("bitmaps", [])]

    def images(self):
        return dict(
            re.findall(
                r"^ *file +disk +(\S+) +(\S+)$",
                self.fleet.run(self.host(), "virsh domblklist web --details"),
                re.MULTILINE,
            )
        )

    def copy(self, **options):
        """Copy, and check that each copy has the guest's present data, and that libvirt has no
        checkpoint left."""
        answer = copied(self.fleet, self.host(), **options)
        for each in answer["copies"]:
            self.is_whole(each["target"], each["path"])
        return answer

    def is_whole(self, target, path):
        shown = self.fleet.run(self.host(), f"qemu-img compare -U {self.images()[target]} {path}")
        assert "Images are identical" in shown, shown
        assert self.fleet.run(self.host(), "virsh checkpoint-list web --name").split() == []

    def write_much(self):
        """Write so much that its copy takes a while."""
        device = "/machine/peripheral/virtio-disk0/virtio-backend"
        self.fleet.run(
            "kvm1",
            f"virsh qemu-monitor-command web --hmp 'qemu-io -d {device} \"write -P 2 0 48M\"'",
        )

    def needs(self, answer, before):
        """Check that each copy needs the one before."""
        assert [each["since"] for each in answer["copies"]] == [
            each["path"] for each in before["copies"]
        ], answer
        assert [each["why_whole"] for each in answer["copies"]] == ["", ""]

    def is_since(self, answer, before):
        """Check that each copy needs the one before, and has little data."""
        self.needs(answer, before)
        for disk_copy in answer["copies"]:
            info = json.loads(
                self.fleet.run("kvm1", f"qemu-img info --output json {disk_copy['path']}")
            )
            assert (
                info["full-backing-filename"] == disk_copy["since"]
                and info["actual-size"] < 1 << 20
            ), info


@pytest.fixture
def guest(fleet):
    return Incremental(fleet)


def test_a_copy_has_what_was_written_since_also_after_moves(fleet, tmp_path, guest):
    guest.write(1, 0)
    text = said(drain(fleet, tmp_path, COPY, drover_backup_incremental=True))
    assert (
        text.count(
            "the whole disk, because what was written since a copy in this folder is not known"
        )
        == 2
    ), text
    host = guest.host()
    assert host != "kvm1" and len(copies(fleet)) == 2
    guest.write(2, 1)
    guest.write(3, 0, "vdb")
    fleet.playbook("undrain", "-e", '{"drover_host": "kvm1"}')
    text = said(drain(fleet, tmp_path, COPY, drover_host=host, drover_backup_incremental=True))
    assert text.count("what was written since") == 2 and "the whole disk" not in text, text
    for name in copies(fleet)[1::2]:
        guest.is_whole(re.search(r"-(vd.)-", name)[1], f"{FOLDER}/{name}")
    # There is one bitmap, for any number of copies.
    (bitmap,) = guest.bitmaps()
    third = guest.copy()
    assert len(copies(fleet)) == 6
    guest.write(4, 2)
    guest.is_since(guest.copy(), third)
    assert bitmap.startswith("drover-")


def test_a_copy_that_was_cancelled_loses_nothing_of_the_next(fleet, guest):
    guest.write(1, 0)
    first = guest.copy()
    guest.write_much()
    assert "was cancelled" in copied(fleet, "kvm1", timeout=0)["msg"]
    guest.write(3, 1)
    guest.needs(guest.copy(), first)


def test_a_copy_whose_module_was_killed_loses_nothing_of_the_next(fleet, guest):
    first = guest.copy()
    guest.write_much()
    # The file exists when libvirt has begun, and the module reads the state again after half a
    # second.
    killed = f"until ls -A {FOLDER} | grep -q backup-; do :; done; sleep 0.1; pkill -KILL python3"
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        kill = pool.submit(fleet.run, "kvm1", killed)
        assert "copies" not in copied(fleet, "kvm1")
        kill.result(60)
    guest.write(3, 1)
    eventually(lambda: "None" in fleet.run("kvm1", "virsh domjobinfo web"))
    assert len(fleet.run("kvm1", "virsh checkpoint-list web --name").split()) == 2
    guest.needs(guest.copy(), first)
    assert len(copies(fleet)) == 4


def test_the_whole_disk_where_it_is_not_known(fleet, guest):
    def whole(why="what was written since a copy in this folder is not known"):
        answer = guest.copy()
        assert [(each["since"], each["why_whole"]) for each in answer["copies"]] == [
            ("", why)
        ] * 2, answer
        return answer

    whole()
    # A snapshot puts other images in front, and its removal removes them.
    snapshot(fleet, "present", "one")
    guest.write(1, 0)
    whole()
    guest.write(2, 1)
    snapshot(fleet, "absent", "one")
    guest.write(3, 2)
    whole()
    # QEMU dies: its bitmap is lost.
    guest.write(4, 3)
    fleet.run(
        "kvm1",
        "pkill -KILL qemu-system; while virsh list --name | grep -q web; do sleep 0.1; done; virsh"
        " start web",
    )
    before = whole()
    guest.write(5, 4)
    guest.is_since(guest.copy(), before)
    # Another program writes to the image.
    fleet.run("kvm1", "virsh checkpoint-create-as web theirs")
    answer = copied(fleet, "kvm1")
    assert {each["why_whole"] for each in answer["copies"]} == {
        "another program keeps checkpoints of it"
    }
    assert fleet.run("kvm1", "virsh checkpoint-list web --name").split() == ["theirs"]
    fleet.run("kvm1", "virsh checkpoint-delete web theirs")
    assert len(guest.bitmaps()) <= 1


def test_copies_that_are_gone_are_not_laid_on(fleet, guest):
    guest.copy()
    fleet.run("kvm1", f"rm {FOLDER}/*-vdb-*")
    answer = guest.copy()
    assert {each["since"] for each in answer["copies"]} == {""}
    guest.write(1, 0)
    guest.is_since(guest.copy(), answer)
