# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes by people and failures to disks and copies between two incremental copies: each copy has
the guest's data, or is not made."""

from __future__ import annotations

import concurrent.futures
import contextlib

import pytest
from test_before_drain import FOLDER, Incremental, copied, copies
from test_fleet import SHARED, eventually
from test_snapshot import snapshot

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

IMAGE, OTHER = f"{SHARED}/web-0.qcow2", f"{SHARED}/web-1.qcow2"


@pytest.fixture
def guest(fleet):
    return Incremental(fleet)


def off(guest):
    """Shut the guest off; QEMU closes its images."""
    guest.fleet.run(guest.host(), "virsh destroy web --graceful")


def on(guest):
    guest.fleet.run(guest.host(), "virsh start web")


def both(guest, byte):
    """Write to both disks as the guest, each time to another place."""
    guest.write(byte, byte)
    guest.write(byte, byte + 100, "vdb")


def changed_while_off(guest, commands):
    """Copy, change something while the guest is off, and copy again."""
    guest.write(1, 1)
    guest.write(2, 640)
    guest.write(3, 1, "vdb")
    first = guest.copy()
    off(guest)
    guest.fleet.run("kvm1", f"set -e; {commands}")
    on(guest)
    return first, guest.copy()


def since(answer):
    return [bool(each["since"]) for each in answer["copies"]]


def test_disks_that_have_changed_places(guest):
    changed_while_off(guest, f"mv {IMAGE} {IMAGE}.x; mv {OTHER} {IMAGE}; mv {IMAGE}.x {OTHER}")


def test_a_disk_that_was_replaced_by_a_file_copy_of_another(guest):
    changed_while_off(guest, f"cp {IMAGE} {OTHER}")


@pytest.mark.xfail(
    strict=True, raises=AssertionError, reason="the bitmaps of before stay in the images"
)
def test_a_disk_that_was_detached_and_attached_again_between_copies(guest):
    """A full copy is made each time that the disks are different, and each image has one bitmap at
    the end."""
    guest.write(1, 1)
    guest.copy()
    off(guest)
    guest.fleet.run("kvm1", "virsh detach-disk web vdb --config")
    on(guest)
    guest.write(2, 2)
    guest.copy()
    off(guest)
    guest.fleet.run("kvm1", f"virsh attach-disk web {OTHER} vdb --subdriver qcow2 --config")
    on(guest)
    guest.write(3, 3)
    last = guest.copy()
    guest.write(4, 4)
    guest.is_since(guest.copy(), last)
    off(guest)
    assert len(guest.bitmaps()) == 1


def test_a_disk_that_was_made_smaller_and_larger_again(guest):
    changed_while_off(guest, f"qemu-img resize --shrink {IMAGE} 32M; qemu-img resize {IMAGE} 64M")


def test_a_disk_that_was_written_to_while_the_guest_was_off(guest):
    dummy, second = changed_while_off(guest, f"qemu-io -c 'write -P 77 20M 1M' {IMAGE}")
    assert since(second) == [False, False]


def test_images_of_before_the_last_copy_are_brought_back(guest):
    keep = " ".join(f"cp {path} {path}.kept;" for path in (IMAGE, OTHER))
    changed_while_off(guest, keep)
    both(guest, 5)
    guest.copy()
    off(guest)
    guest.fleet.run("kvm1", f"set -e; mv {IMAGE}.kept {IMAGE}; mv {OTHER}.kept {OTHER}")
    on(guest)
    both(guest, 6)
    before = guest.copy()
    assert since(before) == [False, False]
    both(guest, 7)
    guest.is_since(guest.copy(), before)


@pytest.mark.parametrize(("which", "how"), [(0, "rm"), (1, "truncate -s 0")])
def test_a_copy_that_later_ones_need_is_gone(guest, which, how):
    """The copy before the last is removed, or the last copy is empty."""
    made = []
    for byte in (1, 2, 3):
        both(guest, byte)
        made.append(guest.copy())
    guest.fleet.run("kvm1", f"{how} {made[which + 1]['copies'][0]['path']}")
    both(guest, 4)
    guest.copy()


def test_back_to_an_internal_snapshot(guest):
    """The snapshot existed before the first copy."""
    guest.fleet.run("kvm1", "virsh snapshot-create-as web inner")
    both(guest, 1)
    guest.copy()
    guest.fleet.run("kvm1", "virsh snapshot-revert web inner")
    guest.copy()


def killed_in_the_middle(guest):
    """The module dies while libvirt copies."""
    guest.write_much()
    killed = f"until ls -A {FOLDER} | grep -q backup-; do :; done; sleep 0.1; pkill -KILL python3"
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        kill = pool.submit(guest.fleet.run, "kvm1", killed)
        assert "copies" not in copied(guest.fleet, "kvm1")
        kill.result(60)
    eventually(lambda: "None" in guest.fleet.run("kvm1", "virsh domjobinfo web"))


def test_a_snapshot_of_a_guest_that_went_off_after_its_copy_was_killed(fleet, guest):
    guest.copy()
    killed_in_the_middle(guest)
    off(guest)
    snapshot(fleet, "present")


@contextlib.contextmanager
def mounted(fleet, options):
    """Mount a separate file system on the folder."""
    fleet.run("kvm1", f"mount -t tmpfs -o {options} tmpfs {FOLDER}")
    try:
        yield
    finally:
        fleet.run("kvm1", f"umount -l {FOLDER}")


def test_the_folder_gets_full(fleet, guest):
    with mounted(fleet, "size=20M"):
        both(guest, 1)
        first = guest.copy()
        guest.write_much()
        messages = [copied(fleet, "kvm1")["msg"] for dummy in range(2)]
        assert (
            all("No space left on device" in each for each in messages) and len(copies(fleet)) == 2
        )
        both(guest, 2)
        fleet.run("kvm1", f"mount -o remount,size=200M {FOLDER}")
        guest.needs(guest.copy(), first)
