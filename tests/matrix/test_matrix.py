# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fault matrix, simulated: operations x faults x moments. Each cell is a separate world.

A cell carries out an operation, lets a fault happen at one moment of it, repairs the world as an
operator would, and repeats the command. At every step no instance runs twice, and no file that a
domain needs is missing or changed. At the end room is held on the hosts of the instances, and no
order, claim, lease, migration or part file is left.

The moments are the moments of an operation without a fault: one more write or call is one more row.
``--one-in 20`` tries a fixed sample; pytest's last lines have the number of cells.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import pathlib
import shutil
import tempfile

import pytest
import sqlalchemy as sa

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import orders
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.conftest import in_sample
from ansible_collections.drover.compute.tests.matrix.faults import FAULTS
from ansible_collections.drover.compute.tests.matrix.operations import OPERATIONS
from ansible_collections.drover.compute.tests.matrix.world import (
    FAILURES,
    Killed,
    Run,
    TimedOut,
    world_of,
)
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of


def moments_of(name):
    """Return the moments of an operation without a fault."""
    operation = OPERATIONS[name]()
    with world_of(operation) as world:
        run = Run(world)
        operation.run(run)
        operation.check(world)
        operation.afterwards(world)
        world.check_end()
    return run.moments.passed


def moments():
    """Return the moments of each operation. The workers of one run of pytest share the work."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if run is None:
        return {name: moments_of(name) for name in OPERATIONS}
    folder = pathlib.Path(tempfile.gettempdir(), f"drover-moments_{run}")
    folder.mkdir(exist_ok=True)
    # No test begins before all workers have collected the tests.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    by_operation = {}
    # First the operations that no other worker has begun, then the operations of the others.
    for flags in (fcntl.LOCK_EX | fcntl.LOCK_NB, fcntl.LOCK_EX):
        for number, name in enumerate(OPERATIONS):
            if name in by_operation:
                continue
            with open(folder / str(number), "a+", encoding="utf-8") as file:
                try:
                    fcntl.flock(file, flags)
                except BlockingIOError:
                    continue
                file.seek(0)
                text = file.read()
                if not text:
                    text = json.dumps(moments_of(name))
                    file.write(text)
                by_operation[name] = json.loads(text)
    return by_operation


def cells():
    """Return (operation, fault, moment) of every cell."""
    by_operation = moments()
    return [
        (name, fault, moment)
        for name in OPERATIONS
        for moment in by_operation[name]
        for fault, kind in FAULTS.items()
        if kind.can_happen(moment)
    ]


CELLS = cells()


def test_the_matrix_is_large_enough():
    """The matrix grows with each operation and each fault."""
    assert len(CELLS) >= 800
    assert {name for name, dummy, dummy in CELLS} == set(OPERATIONS) and {
        fault for dummy, fault, dummy in CELLS
    } == set(FAULTS)


def test_a_dead_host_ends_what_was_begun_with_a_device():
    """Its instance is evacuated, although the run that attached a disk to it was killed."""
    operation = OPERATIONS["evacuate"]()
    with world_of(operation) as world:
        with Store.open(world.url).write() as connection:
            orders.begin(connection, uuid_of("web"), orders.ATTACHING, "cut off")
        operation.run(Run(world))
        operation.afterwards(world)
        operation.check(world)
        world.check_end()


def test_a_dead_host_ends_what_was_begun_with_a_snapshot():
    """No image was made for it yet, so the disk has the newest data, and its instance is
    evacuated.
    """
    operation = OPERATIONS["evacuate"]()
    with world_of(operation) as world:
        with Store.open(world.url).write() as connection:
            orders.begin(connection, uuid_of("web"), orders.SNAPSHOTTING, "cut off")
        operation.run(Run(world))
        operation.afterwards(world)
        operation.check(world)
        world.check_end()


def test_a_guest_that_ignores_its_shutdown_is_asked_in_one_move():
    """A drain that tried each destination would take the time limit for each of them."""
    operation = OPERATIONS["drain, shut down"]()
    # The world replaces the same method: this one is put back before its own.
    with world_of(operation) as world, pytest.MonkeyPatch.context() as patch:
        patch.setattr(libvirt.virDomain, "shutdown", lambda domain: 0)
        with pytest.raises(FAILURES, match="did not shut down within 1 s"):
            operation.run(Run(world))
        assert world.fleet.where()["web"] == [("kvm1", "running")]
        with Store.open(world.url).read() as connection:
            moves = connection.execute(
                sa.select(tables.migrations.c.status).where(
                    tables.migrations.c.instance_uuid == uuid_of("web")
                )
            ).all()
        assert [row.status for row in moves] == ["failed"]


def pytest_generate_tests(metafunc):
    """Only the cells of the sample are tests: a test for each cell that is then left out takes as
    long as the sample."""
    if metafunc.function is test_cell:
        share = metafunc.config.getoption("one_in")
        ids = {", ".join(cell): cell for cell in CELLS}
        tried = [each for each in ids if in_sample(f"test_cell[{each}]", share)]
        metafunc.parametrize("name, fault, moment", [ids[each] for each in tried], ids=tried)


def test_cell(name, fault, moment):
    operation = OPERATIONS[name]()
    with world_of(operation) as world:
        happens = FAULTS[fault](world, operation, moment)
        try:
            operation.run(Run(world, happens, late=happens.late))
        except (*FAILURES, Killed, TimedOut):
            # The fault decides if the run fails; only its result counts.
            pass
        assert happens.happened, f"the run did not pass: {moment}"
        # The run has ended in any case, and so has its process.
        world.dead.add("run")
        world.check_running()
        happens.mend()
        refused = happens.again()
        for each in world.behind:
            each.wait()
        world.check_running()
        operation.afterwards(world)
        world.check_running()
        if refused is None or happens.ends_well:
            for _round in range(happens.discoveries):
                world.discover()
            world.check_end()
