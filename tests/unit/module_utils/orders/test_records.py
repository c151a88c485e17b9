# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The records of moves. One worker at a time has an instance, for any user that started it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import time
import uuid

import pytest

from ansible_collections.drover.compute.plugins.module_utils._migration import following
from ansible_collections.drover.compute.plugins.module_utils._orders import records as module
from ansible_collections.drover.compute.plugins.module_utils._orders.records import (
    Records,
    new_record,
)
from ansible_collections.drover.compute.tests import parts

NOBODY = 65534
MOVE = {"destination_uri": "qemu+ssh://root@kvm2/system", "destination": "kvm2"}

fork = multiprocessing.get_context("fork")


@pytest.fixture(name="instance")
def an_instance():
    """Return a random uuid. Its lock is a lock of this machine, so no other test may use the
    uuid.
    """
    return str(uuid.uuid4())


@pytest.fixture
def home():
    """A folder that another user may write."""
    if os.geteuid() != 0:
        parts.leave_out("The tests with files of other users", "they need root")
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, NOBODY, NOBODY)
        yield folder


@pytest.fixture
def somebody(home, monkeypatch):
    """``somebody(function)`` calls the function in a process of another user with a home, and
    returns its result."""
    monkeypatch.setenv("XDG_STATE_HOME", home)

    def call(function):
        ours, theirs = fork.Pipe()

        def work():
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            theirs.send(function())

        process = fork.Process(target=work)
        process.start()
        process.join(30)
        assert process.exitcode == 0
        return ours.recv()

    return call


def test_suspected_8_one_worker_at_a_time_whichever_user_started_it(instance, somebody):
    def locked():
        lock = Records().lock(instance)
        return Records().is_locked(instance), lock is not None

    ours = Records()
    assert not ours.is_locked(instance)
    # Locks of these processes end with the process.
    assert somebody(locked) == (True, True)
    lock = ours.lock(instance)
    assert ours.is_locked(instance) and somebody(locked) == (True, False)
    os.close(lock)
    assert not ours.is_locked(instance) and somebody(locked) == (True, True)


def test_suspected_8_a_worker_of_another_user_is_seen(instance, somebody):
    """The worker of another user has the instance while root looks; after its death root's worker
    may continue."""
    ready = fork.Event()

    def stand():
        os.setuid(NOBODY)
        lock = Records().lock(instance)
        ready.set()
        time.sleep(600 if lock is not None else 0)

    worker = fork.Process(target=stand)
    worker.start()
    try:
        assert ready.wait(30)
        assert Records().is_locked(instance) and Records().lock(instance, patience=0.2) is None
    finally:
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
    lock = Records().lock(instance)
    assert lock is not None
    os.close(lock)


def test_suspected_8_records_of_a_user_outlive_the_session(
    instance, somebody, home, monkeypatch, tmp_path
):
    """XDG_RUNTIME_DIR is removed when the user's last session ends, while the worker continues."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", os.fspath(tmp_path / "session"))

    def write():
        records = Records()
        records.write(new_record({**MOVE, "uuid": instance}, "qemu:///system"))
        return records.folder

    folder = somebody(write)
    assert folder == os.path.join(home, "drover", "migrations", os.uname().nodename)
    assert not (tmp_path / "session").exists()
    assert somebody(lambda: Records().read(instance)["status"]) == "running"
    assert os.stat(folder).st_mode & 0o077 == 0


def test_suspected_8_what_was_under_way_before_the_host_was_started_is_not_under_way(
    instance, tmp_path, monkeypatch
):
    records = Records(os.fspath(tmp_path))
    records.write(new_record({**MOVE, "uuid": instance}, "qemu:///system"))
    assert records.read(instance)["move"]["destination"] == "kvm2"
    monkeypatch.setattr(module, "boot_id", lambda: "another start")
    assert records.read(instance) is None


def test_who_names_a_folder_has_locks_of_its_own(instance, tmp_path):
    own_records, there = Records(os.fspath(tmp_path / "a")), Records(os.fspath(tmp_path / "b"))
    lock = own_records.lock(instance)
    assert own_records.is_locked(instance) and not there.is_locked(instance)
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert Records(os.fspath(tmp_path / "b")).is_locked(instance)
    os.close(lock)
    assert not own_records.is_locked(instance)


@pytest.mark.parametrize("key", sorted(new_record({**MOVE, "uuid": "u"}, "qemu:///system")))
def test_a_record_without_one_of_its_keys_is_followed_or_said_to_be_damaged(
    instance, tmp_path, key
):
    """A release that is older, or a person, may have written it."""
    records = Records(str(tmp_path))
    whole = new_record({**MOVE, "uuid": instance}, "qemu:///system")
    whole["message"] = "as it was"
    records.write(
        {name: value for name, value in whole.items() if name != key} | {"uuid": instance}
    )
    (report,) = following.follow([{**MOVE, "uuid": instance}], "test:///none", records, 0)
    if report["status"] == "lost":
        assert key in module.ESSENTIAL and f"{instance}.json, cannot be read" in report["message"]
    else:
        assert report["kept"] == [] and report["leftovers"] == [] and report["percent"] == 0
