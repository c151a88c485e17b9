# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disk of the store is full from one moment of an operation on, until a person makes room."""

from __future__ import annotations

import contextlib
import os
import shutil

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.tests.matrix.faults import Fault
from ansible_collections.drover.compute.tests.matrix.operations import OPERATIONS
from ansible_collections.drover.compute.tests.matrix.world import (
    FAILURES,
    Run,
    prepared,
    world_of,
)
from ansible_collections.drover.compute.tests.unit.store.test_sqlite_file_systems import fill, small

small = small

TRIED = ("place", "drain", "start", "delete")


class StoreFull(Fault):
    def happen(self):
        # Its log has no room left that an earlier write has made.
        self.room = fill(os.path.dirname(self.world.url.removeprefix("sqlite:///")))

    def mend(self):
        self.room.unlink()


def writes(name):
    """Return the moments of an operation at the writes of the store."""
    operation = OPERATIONS[name]()
    with world_of(operation) as world:
        run = Run(world)
        operation.run(run)
    return [each for each in run.moments.passed if " write " in each]


@pytest.mark.parametrize("name, moment", [(name, each) for name in TRIED for each in writes(name)])
def test_the_disk_of_the_store_is_full(small, name, moment):
    operation = OPERATIONS[name]()
    path = small / "store.db"
    shutil.copyfile(prepared(), path)
    with world_of(operation, f"sqlite:///{path}") as world:
        world.close_stores()
        full = StoreFull(world, operation, moment)
        with contextlib.suppress(*FAILURES):
            operation.run(Run(world, full))
        assert full.happened
        world.dead.add("run")
        world.check_running()
        full.mend()
        full.again()
        operation.check(world)
        operation.afterwards(world)
        world.discover()
        world.check_end()
