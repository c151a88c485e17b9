# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leases: one at a time, renewed, taken over with a message, lost with a message (rule S4)."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import types

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import (
    lease_holder as actor_module,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.lease_holder import (
    LeaseHolder,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database import clock
from ansible_collections.drover.compute.plugins.plugin_utils._store.runs import leases


def actor(name, gone=(), alive=()):
    def lives(process):
        return False if process in gone else True if process in alive else None

    return types.SimpleNamespace(holder=f"{name}@ctrl", process=name, lives=lives)


@pytest.fixture(name="store")
def opened(prepared_url):
    return Store.open(prepared_url)


@pytest.fixture(name="at")
def database_clock(monkeypatch):
    """Return a function that sets the database's clock."""
    return lambda now: monkeypatch.setattr(clock, "now", lambda connection: now)


@pytest.fixture(name="take")
def taking(store, at, monkeypatch):
    monkeypatch.setattr(clock, "refuse_other_time", lambda connection: None)

    def take(who, now, **more):
        at(now)
        with store.write() as connection:
            return leases.take(connection, "kvm1", who, "drain", **more)

    return take


def test_a_second_one_is_told_who_is_at_work(store, take):
    assert take(actor("a"), 1000) == {"changed": True, "taken_over": None}
    assert take(actor("a"), 1100) == {"changed": False, "taken_over": None}
    with pytest.raises(
        DroverError,
        match=(
            r"kvm1 is being worked on by a@ctrl \(drain\), since 200 s, last heard of 100 s"
            r" ago.*ends in 201 s"
        ),
    ):
        take(actor("b"), 1200)
    with store.read() as connection:
        (lease,) = leases.read(connection)
    assert (lease["holder"], lease["acquired_at"], lease["renewed_at"]) == ("a@ctrl", 1000, 1100)
    assert take(actor("a"), 1110, seconds=900)["changed"] is False
    take(actor("a"), 1120)
    with store.read() as connection:
        assert leases.read(connection)[0]["expires_at"] == 2010


def test_one_whose_time_is_over_is_taken_over_in_the_open(store, take, at):
    take(actor("a"), 1000, seconds=60)
    outcome = take(actor("b"), 1061)
    assert (
        outcome["changed"]
        and "by a@ctrl" in outcome["taken_over"]
        and "time is over" in outcome["taken_over"]
    )
    at(1062)
    with store.write() as connection:
        with pytest.raises(DroverError, match="worked on by b@ctrl.*lost it, so it stops"):
            leases.renew(connection, "kvm1", actor("a"))
        leases.renew(connection, "kvm1", actor("b"))


def test_one_whose_time_is_over_and_whose_run_lives_is_not_taken_over(take):
    take(actor("a"), 1000, seconds=60)
    with pytest.raises(
        DroverError, match="Its time is over, but its process lives on this machine: end that"
    ):
        take(actor("b", alive=["a"]), 1061)


def test_one_whose_run_is_gone_is_taken_over_at_once(take):
    take(actor("a"), 1000)
    assert "process is gone" in take(actor("b", gone=["a"]), 1001)["taken_over"]


def test_only_the_holder_gives_it_back(store, take):
    take(actor("a"), 1000)
    with store.write() as connection:
        with pytest.raises(DroverError, match="held by a@ctrl.*force"):
            leases.release(connection, "kvm1", actor("b"))
        assert leases.release(connection, "kvm1", actor("b"), force=True) is True
        assert leases.release(connection, "kvm1", actor("a")) is False
        with pytest.raises(DroverError, match="taken away"):
            leases.renew(connection, "kvm1", actor("a"))


def test_a_process_is_gone_when_it_ended(store):
    child = multiprocessing.get_context("fork").Process(target=lambda: None)
    child.start()
    process = LeaseHolder(child.pid).process
    child.join()
    me = LeaseHolder(os.getpid())
    assert me.lives(process) is False
    assert me.lives(me.process) is True
    # The processes of another machine, or of another boot, are not known.
    assert me.lives("elsewhere/" + process.partition("/")[2]) is None
    assert me.lives("nonsense") is None


def test_the_number_of_a_process_that_is_another_ones_by_now():
    process = LeaseHolder(os.getpid()).process
    assert LeaseHolder(os.getpid()).lives(process.rpartition(":")[0] + ":1") is False


def test_safety_07_a_process_that_cannot_be_seen_is_not_gone(monkeypatch):
    """With hidepid=2 /proc shows nothing of the processes of other users."""
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    child.start()
    other = LeaseHolder(child.pid).process
    monkeypatch.setattr(actor_module, "_started", lambda pid: "")
    assert LeaseHolder(os.getpid()).lives(other) is None
    child.kill()
    child.join()
    assert LeaseHolder(os.getpid()).lives(other) is False


def test_safety_18_the_clock_of_a_controller_takes_no_lease_over(store, monkeypatch):
    with store.write() as connection:
        leases.take(connection, "kvm1", actor("a"), "drain")
        postgresql = connection.dialect.name == "postgresql"
    ahead = types.SimpleNamespace(time=lambda: time.time() + 360)
    if not postgresql:
        # All controllers are this machine, and its processes are visible.
        monkeypatch.setattr(clock, "time", ahead)
        with (
            store.write() as connection,
            pytest.raises(DroverError, match="but its process lives on this machine"),
        ):
            leases.take(connection, "kvm1", actor("b", alive=["a"]), "drain")
        return
    monkeypatch.setattr(clock, "time", ahead)
    with store.write() as connection:
        with pytest.raises(
            DroverError, match="The clock of this controller is 360 s ahead of that of the database"
        ):
            leases.take(connection, "kvm1", actor("b"), "drain")
        monkeypatch.setattr(clock, "TOLERANCE", 3600)
        with pytest.raises(leases.LeaseHeld):
            leases.take(connection, "kvm1", actor("b"), "drain")
        (row,) = leases.read(connection)
        assert (
            abs(
                row["acquired_at"]
                - connection.execute(sa.text("SELECT extract(epoch FROM now())::float")).scalar()
            )
            < 30
        )


def _race(url, number, queue):
    try:
        with Store.open(url).write() as connection:
            leases.take(connection, "kvm1", actor(f"run{number}"), "drain")
        queue.put(True)
    except DroverError:
        queue.put(False)


def test_of_many_at_once_one_gets_it(prepared_url):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    runs = [
        context.Process(target=_race, args=(prepared_url, number, queue)) for number in range(8)
    ]
    for run in runs:
        run.start()
    won = [queue.get(timeout=60) for dummy in runs]
    for run in runs:
        run.join()
    assert won.count(True) == 1


def _orphan(ours, line):
    """Act as the worker of a playbook that is killed; send the name of the holder before and
    after.
    """
    line.send(LeaseHolder.of_this_task().holder)
    os.kill(ours, signal.SIGKILL)
    while os.getppid() == ours:
        time.sleep(0.01)
    try:
        line.send(LeaseHolder.of_this_task().holder)
    except DroverError as problem:
        line.send(str(problem))


def test_a_worker_whose_playbook_is_gone_takes_nothing():
    """Process 1 adopts the worker, and a lease of process 1 would never count as a lease of a dead
    run."""
    context = multiprocessing.get_context("fork")
    child_end, parent_end = context.Pipe()

    def playbook():
        worker = context.Process(target=_orphan, args=(os.getpid(), child_end))
        worker.start()
        worker.join()

    playing = context.Process(target=playbook)
    playing.start()
    playing.join(30)
    assert not playing.is_alive()
    assert parent_end.poll(30) and f"process {playing.pid}" in parent_end.recv()
    assert parent_end.poll(30) and parent_end.recv().startswith(
        "The playbook of this task was killed. This task has begun nothing."
    )
