# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The store's PostgreSQL loses its power in the middle of an operation, and its standby takes over.

Two real servers with streaming replication, and the fleet of the fault matrix. If the standby was
synchronous, it has each commit that a run relies on. If not, the last commits may be lost: the
store then counts as one that was brought back from a backup. In both cases no instance runs twice,
none is lost, and the command that is given again after a discovery ends well.
"""

from __future__ import annotations

import contextlib
import itertools

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.tests.matrix.operations import OPERATIONS
from ansible_collections.drover.compute.tests.matrix.world import FAILURES, Run, world_of
from ansible_collections.drover.compute.tests.unit import postgres as server

#: A place has the claim in it, and is one; a drain has a claim for each move.
TRIED = ("place", "drain", "live move", "start")


class Pair:
    """A primary and its standby. After a promotion the old standby is the primary, and another
    standby of it is made: that is faster than two new servers."""

    def __init__(self):
        self.primary, self.standby, self._numbers = server.Cluster(), None, itertools.count(1)

    @contextlib.contextmanager
    def store(self, synchronous):
        """Yield the URL of an empty store that leads to the primary of the two.

        :param synchronous: True if each commit waits for the standby.
        """
        name = f"pair_{next(self._numbers)}"
        with self.primary.admin() as admin:
            admin.execute("ALTER SYSTEM RESET synchronous_standby_names")
            admin.execute("SELECT pg_reload_conf()")
            admin.execute(f"CREATE DATABASE {name} OWNER {server.ROLE}")
        Store.open(self.primary.url(name)).upgrade()
        self.standby = server.Standby(self.primary)
        try:
            if synchronous:
                self.standby.synchronize()
            yield self.standby.either_url(name)
        finally:
            self.primary.stop()
            self.primary, self.standby = self.standby, None
            with self.primary.admin() as admin:
                admin.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def stop(self):
        self.primary.stop()


@pytest.fixture(scope="module")
def pair():
    made = Pair()
    yield made
    made.stop()


class PowerLost:
    """The primary loses its power at a moment of a run.

    :param moment: a moment; "commit N" is the one when write N is committed, and nobody knows it.
    :param cut: the moment when the standby is cut off from its primary, as from an asynchronous
        one; None: it is synchronous.
    :param at_once: True if the standby takes over in this run, False if after its end.
    """

    def __init__(self, world, pair, moment, cut=None, at_once=False):
        self._world, self._pair, self._cut, self._at_once = world, pair, cut, at_once
        self._committed = moment.startswith("commit ")
        self._moment = moment.replace("commit ", "in write ")
        self.happened = self.promoted = False

    def __call__(self, name):
        if name == self._cut:
            self._pair.standby.catch_up()
            self._pair.standby.cut()
        if name == self._moment and not self.happened:
            self.happened = True
            if self._committed:
                self._world.at_commit(self._lose_answer)
            else:
                self._happen()

    def _lose_answer(self, connection):
        self._happen()
        connection.execute("SELECT 1")

    def _happen(self):
        self._pair.primary.power_off()
        if self._at_once:
            self.promote()

    def promote(self):
        if not self.promoted:
            self.promoted = True
            self._pair.standby.promote()


def moments_of(name):
    """Return the writes of an operation without a fault, and the moment of each commit."""
    operation = OPERATIONS[name]()
    with world_of(operation) as world:
        run = Run(world)
        operation.run(run)
    passed = [each for each in run.moments.passed if " write " in each]
    return [*passed, *(each.replace("in write", "commit") for each in passed if each[:2] == "in")]


def again(world, operation):
    """Give the command again; return the sentence of its refusal, or None."""
    try:
        operation.run(Run(world, name="next"))
    except FAILURES as problem:
        return str(problem)
    return None


def cells():
    """Return (operation, cut, moment, at_once) of every cell."""
    found = []
    for name in TRIED:
        moments = moments_of(name)
        for moment in moments:
            found += [(name, None, moment, at_once) for at_once in (False, True)]
        writes = [each for each in moments if each.startswith("before")]
        last = moments[[each[:5] for each in moments].index("commi") - 1]
        for number, cut in enumerate(writes):
            after = cut.replace("before", "after")
            # One commit is lost, then all to the end, then those of the first half.
            found += [(name, cut, after, at_once) for at_once in (False, True)]
            found.append((name, cut, last, False))
            if number > 1:
                found.append((name, writes[0], after, bool(number % 2)))
    return list(dict.fromkeys(found))


CELLS = cells()


@pytest.mark.long
@pytest.mark.parametrize(
    "name, cut, moment, at_once",
    CELLS,
    ids=[
        ", ".join(
            (name, f"cut {cut}" if cut else "synchronous", moment, "at once" if now else "later")
        )
        for name, cut, moment, now in CELLS
    ],
)
def test_a_standby_takes_over(pair, name, cut, moment, at_once):
    operation = OPERATIONS[name]()
    with pair.store(synchronous=cut is None) as url, world_of(operation, url) as world:
        lost = PowerLost(world, pair, moment, cut, at_once)
        with contextlib.suppress(*FAILURES):
            operation.run(Run(world, lost))
        assert lost.happened, f"the run did not pass: {moment}"
        lost.promote()
        world.dead.add("run")
        world.check_running()
        first = again(world, operation)
        world.check_running()
        world.discover()
        if first is not None:
            second = again(world, operation)
            assert second is None, f"{first} After a discovery: {second}"
            world.check_running()
        operation.check(world)
        operation.afterwards(world)
        world.discover()
        world.check_end()
