# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many writers of allocations at once, some of them killed: no host is over capacity, and every sum
is right."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._placement import claims
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import host, selection, uuid_of

PROOF = certainty.word("a test")


def check_sums(url):
    """Check that no provider is over capacity, and that the use is the sum of the allocations;
    return the number of consumers."""
    allocations, inventories = tables.allocations, tables.inventories
    query = sa.select(
        allocations.c.provider_id, allocations.c.class_id, sa.func.sum(allocations.c.used)
    )
    with Store.open(url).read() as connection:
        rows = connection.execute(query.group_by(allocations.c.provider_id, allocations.c.class_id))
        sums = {(provider, kind): int(amount) for provider, kind, amount in rows}
        inventory_rows = connection.execute(sa.select(inventories)).all()
        consumers = connection.execute(
            sa.select(sa.func.count()).select_from(tables.consumers)
        ).scalar_one()
        held = sa.select(sa.func.count(allocations.c.consumer_id.distinct()))
        assert connection.execute(held).scalar_one() == consumers
    assert {(row.provider_id, row.class_id): row.used for row in inventory_rows if row.used} == sums
    assert all(
        row.used <= (row.total - row.reserved) * row.allocation_ratio for row in inventory_rows
    )
    return consumers


def test_processes_race_for_fewer_places_than_they_want(prepared_url):
    fleets.discover(prepared_url, *(host(f"kvm{number}", vcpus=5) for number in range(4)))

    def work(number):
        store, won = Store.open(prepared_url), 0
        for turn in range(6):
            places = [f"kvm{(number + turn + step) % 4}" for step in range(4)]
            try:
                with store.write(together=True) as connection:
                    claims.claim(
                        connection, [selection(f"web{number}-{turn}", *places)], fleets.NOW
                    )
                won += 1
            except DroverError as problem:
                if problem.details.get("cause") != "no_room":
                    raise
        return won

    answers = fleets.race(*(lambda number=number: work(number) for number in range(6)))
    assert sum(answers) == 20, answers
    assert check_sums(prepared_url) == 20
    assert fleets.used(prepared_url) == {f"kvm{number}": 5 for number in range(4)}


def test_batches_in_opposite_orders_do_not_hang(prepared_url):
    fleets.discover(prepared_url, *(host(f"kvm{number}", vcpus=100) for number in range(3)))

    def work(number):
        store = Store.open(prepared_url)
        for turn in range(5):
            names = [(f"w{number}-{turn}-{each}", f"kvm{each}") for each in range(3)]
            batch = [
                selection(name, place) for name, place in (names if number % 2 else names[::-1])
            ]
            with store.write(together=True) as connection:
                claims.claim(connection, batch, fleets.NOW)
            if turn % 2:
                with store.write(together=True) as connection:
                    claims.release(connection, [item["uuid"] for item in batch], PROOF, fleets.NOW)
        return "done"

    assert fleets.race(*(lambda number=number: work(number) for number in range(4))) == ["done"] * 4
    assert check_sums(prepared_url) == 4 * 3 * 3


def test_a_claim_does_not_wait_for_another_provider(postgres):
    with postgres.database() as url:
        fleets.discover(url, host("kvm1"), host("kvm2"))
        with Store.open(url).write(together=True) as connection:
            claims.claim(connection, [selection("web", "kvm1")], fleets.NOW)
            # The first is not committed yet.
            assert fleets.claim(url, selection("db", "kvm2"))[0]["host"] == "kvm2"
        assert check_sums(url) == 2


def test_killed_writers_change_no_sum(prepared_url):
    """Half of the processes are killed with -9 in the middle of their work."""
    fleets.discover(
        prepared_url,
        host("kvm1", vcpus=10000, memory_mb=10**6),
        host("kvm2", vcpus=10000, memory_mb=10**6),
    )
    context = multiprocessing.get_context("fork")
    done = [context.RawValue("q", 0) for dummy in range(6)]

    def work(number):
        store = Store.open(prepared_url)
        while done[number].value < 25:
            turn = done[number].value
            with store.write(together=True) as connection:
                claims.claim(
                    connection, [selection(f"k{number}-{turn}", f"kvm{1 + turn % 2}")], fleets.NOW
                )
            done[number].value += 1

    processes = [
        context.Process(target=work, args=(number,), daemon=True) for number in range(len(done))
    ]
    for process in processes:
        process.start()
    end = time.monotonic() + fleets.RACE_SECONDS
    while sum(each.value for each in done) < 20 and time.monotonic() < end:
        time.sleep(0.005)
    for process in processes[::2]:
        os.kill(process.pid, signal.SIGKILL)
    for process in processes:
        process.join(fleets.RACE_SECONDS)
    assert [process.exitcode for process in processes] == [-signal.SIGKILL, 0] * 3
    counted = sum(each.value for each in done)
    # Each killed process may have written one claim without counting it.
    assert counted <= check_sums(prepared_url) <= counted + 3


@pytest.mark.parametrize("verb", ["claim", "release"])
def test_a_failure_half_way_leaves_nothing(prepared_url, verb, monkeypatch):
    fleets.discover(prepared_url, host("kvm1"))
    fleets.claim(prepared_url, selection("old", "kvm1"))
    before = fleets.snapshot(prepared_url)

    allocate = claims.allocations.inventory.allocate

    def broken(*arguments):
        allocate(*arguments)
        raise RuntimeError("half way")

    monkeypatch.setattr(claims.allocations.inventory, "allocate", broken)
    with (
        pytest.raises(RuntimeError, match="half way"),
        Store.open(prepared_url).write(together=True) as connection,
    ):
        if verb == "claim":
            claims.claim(connection, [selection("new", "kvm1")], fleets.NOW)
        else:
            claims.release(connection, [uuid_of("old")], PROOF, fleets.NOW)
    monkeypatch.undo()
    assert fleets.snapshot(prepared_url) == before
