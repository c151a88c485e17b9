# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leases: one at a time, renewed, taken over in the open, lost in the open (rule S4)."""

from __future__ import annotations

import multiprocessing
import os
import types

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils.actor import Actor
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.store import Store, leases


def actor(name, gone=()):
    return types.SimpleNamespace(holder=f"{name}@ctrl", process=name, is_gone=lambda process: process in gone)


@pytest.fixture(name="store")
def opened(prepared_url):
    return Store.open(prepared_url)


def take(store, who, now, **more):
    with store.write() as connection:
        return leases.take(connection, "kvm1", who, "drain", now, **more)


def test_a_second_one_is_told_who_is_at_work(store):
    assert take(store, actor("a"), 1000) == {"changed": True, "taken_over": None}
    assert take(store, actor("a"), 1100) == {"changed": False, "taken_over": None}
    with pytest.raises(
        DroverError,
        match=r"kvm1 is being worked on by a@ctrl \(drain\), since 200 s, last heard of 100 s ago.*ends in 201 s",
    ):
        take(store, actor("b"), 1200)
    with store.read() as connection:
        (lease,) = leases.read(connection)
    assert (lease["holder"], lease["acquired_at"], lease["renewed_at"]) == ("a@ctrl", 1000, 1100)
    assert take(store, actor("a"), 1110, seconds=900)["changed"] is False
    take(store, actor("a"), 1120)
    with store.read() as connection:
        assert leases.read(connection)[0]["expires_at"] == 2010


def test_one_whose_time_is_over_is_taken_over_in_the_open(store):
    take(store, actor("a"), 1000, seconds=60)
    found = take(store, actor("b"), 1061)
    assert found["changed"] and "by a@ctrl" in found["taken_over"] and "time is over" in found["taken_over"]
    with store.write() as connection:
        with pytest.raises(DroverError, match="worked on by b@ctrl.*lost it, so it stops"):
            leases.renew(connection, "kvm1", actor("a"), 1062)
        leases.renew(connection, "kvm1", actor("b"), 1062)


def test_one_whose_run_is_gone_is_taken_over_at_once(store):
    take(store, actor("a"), 1000)
    assert "process is gone" in take(store, actor("b", gone=["a"]), 1001)["taken_over"]


def test_only_the_holder_gives_it_back(store):
    take(store, actor("a"), 1000)
    with store.write() as connection:
        with pytest.raises(DroverError, match="held by a@ctrl.*force"):
            leases.release(connection, "kvm1", actor("b"))
        assert leases.release(connection, "kvm1", actor("b"), force=True) is True
        assert leases.release(connection, "kvm1", actor("a")) is False
        with pytest.raises(DroverError, match="taken away"):
            leases.renew(connection, "kvm1", actor("a"), 1001)


def test_a_process_is_gone_when_it_ended(store):
    child = multiprocessing.get_context("fork").Process(target=lambda: None)
    child.start()
    process = Actor(child.pid).process
    child.join()
    me = Actor(os.getpid())
    assert me.is_gone(process)
    assert not me.is_gone(me.process)
    # Of another machine, or another boot, nothing is known.
    assert not me.is_gone("elsewhere/" + process.partition("/")[2])
    assert not me.is_gone("nonsense")


def _race(url, number, queue):
    try:
        with Store.open(url).write() as connection:
            leases.take(connection, "kvm1", actor(f"run{number}"), "drain", 1000)
        queue.put(True)
    except DroverError:
        queue.put(False)


def test_of_many_at_once_one_gets_it(prepared_url):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    runs = [context.Process(target=_race, args=(prepared_url, number, queue)) for number in range(8)]
    for run in runs:
        run.start()
    won = [queue.get(timeout=60) for dummy in runs]
    for run in runs:
        run.join()
    assert won.count(True) == 1
