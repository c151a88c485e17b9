# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fault matrix on real hypervisors: operations x faults x moments, with the shipped playbooks,
over real SSH.

A cell gives a command, lets a fault happen exactly before or after its work on a hypervisor, or in
the middle of it, removes the fault as an operator would, and gives the command again. No instance
ever runs twice, and no file that a domain needs is missing or changed. At the end room is held on
the hosts of the instances, and no order, claim, lease, migration, worker or part file is left.

The tables are cells/operations.py and cells/faults.py; every operation has the cells of every
possible fault. A sample runs with ``make test-lab``, all cells with ``make test-operations``.
"""

from __future__ import annotations

import json
import re

import pytest
from cells.faults import FAULTS
from cells.operations import OPERATIONS
from cells.stops import Stop
from cells.world import Prepared, World
from watching import Watch

pytest_plugins = ["test_fleet"]


def cells():
    """Return (operation, fault, moment) of every cell."""
    combinations, seen = [], set()
    for name, operation in OPERATIONS.items():
        for fault, what in FAULTS.items():
            wanted = operation.faults is None or fault in operation.faults
            if (
                wanted
                and what.applies(operation)
                and not (what.of_kinds and (fault, operation.kind, operation.storage) in seen)
            ):
                seen.add((fault, operation.kind, operation.storage))
                combinations += [(name, fault, moment) for moment in what.moments_of(operation)]
    return combinations


CELLS = cells()

#: The cells of each ``make test``: different faults, few operations, because each begins with a new
#: store.
SAMPLE = [
    ("place", "task timeout", "during"),
    ("live move", "controller killed", "during"),
]

TAKEN_BACK = (
    "The first run had begun to take it back; the next one does that to its end, says so, and the"
    " one after it resizes."
)

#: Cells with an error in the repeated command, and the reason: it ends well after a discovery, in
#: the next run.
NOT_AT_ONCE = {
    ("resize and confirm", "task timeout"): TAKEN_BACK,
    ("resize and confirm", "libvirtd dies"): TAKEN_BACK,
    (
        "resize and confirm",
        "moved by hand",
    ): "Neither host of the move has it: a discovery finds it on the third.",
    ("live move", "moved by hand"): "As above.",
    ("drain", "moved by hand"): "As above.",
    ("drain after copies", "moved by hand"): "As above.",
    (
        "drain",
        "store from a backup",
    ): (
        "A copy of the lost run that ends while the hosts are read is on both of them: a discovery"
        " after its end finds it."
    ),
    (
        "live move",
        "destroyed by hand",
    ): (
        "The store has it as running, and only what runs is moved live: a discovery sees that it is"
        " off."
    ),
}


@pytest.fixture(scope="module")
def prepared(own_lab, tmp_path_factory):
    stores = Prepared(own_lab, tmp_path_factory.mktemp("prepared"))
    yield stores
    stores.close()


def test_the_matrix_is_large_enough():
    """A new operation or fault extends the matrix; it is not sampled."""
    print(f"{len(CELLS)} real cells: {len(OPERATIONS)} operations, {len(FAULTS)} faults")
    assert len(CELLS) >= 60
    assert {cell[0] for cell in CELLS} == set(OPERATIONS) and {cell[1] for cell in CELLS} == set(
        FAULTS
    )
    assert set(SAMPLE) <= set(CELLS)
    assert set(NOT_AT_ONCE) <= {cell[:2] for cell in CELLS}


@pytest.mark.parametrize(
    ("name", "fault", "moment"),
    [
        pytest.param(*cell, id=", ".join(cell), marks=() if cell in SAMPLE else pytest.mark.long)
        for cell in CELLS
    ],
)
def test_cell(prepared, tmp_path, name, fault, moment):
    operation = OPERATIONS[name]()
    if not operation.storage.is_here():
        pytest.skip(f"{operation.storage.name}: not here: run tests/setup/setup.sh storage")
    world = World(prepared, operation, tmp_path)
    happens = FAULTS[fault](world)
    try:
        with Watch(world.fleet, world.living()) as watch:
            struck(world, happens, moment, watch)
            happens.mend(watch)
            if moment == "during":
                world.quick_start()
            runs = happens.again()
            namesakes = happens.namesakes and operation.kind == "build"
            world.check_always(watch, namesakes)
            if runs[-1].process.returncode and not happens.gone:
                assert (name.partition(" on ")[0], fault) in NOT_AT_ONCE, "given again it fails"
                world.discover()
                assert happens.give().process.returncode == 0, "given a third time it fails"
                world.check_always(watch, namesakes)
            if operation.dead:
                # The host is back, and its discovery removes its old definitions.
                world.power_on("kvm1")
                watch.on("kvm1")
                happens.back(world.discover())
                operation.back(world)
                world.check_always(watch)
            if happens.gone:
                # Its room is held until a person says that the instance is lost.
                assert happens.forget().process.returncode == 0
                assert "web" not in world.check_end(gone=True)
                return
            if namesakes:
                # A store has one of them; the other one belongs to another store.
                return
            where = world.check_end()
            if happens.exact:
                assert where.get("web", (None, None))[1] == operation.state, where
                assert (
                    operation.host is None
                    or operation.state is None
                    or where["web"][0] == operation.host
                ), where
                operation.check(world.fleet)
    finally:
        world.close()
        print("\n====\n".join(run.said for run in world.runs))


def struck(world, fault, moment, watch):
    """Give the command and let the fault happen at its moment; wait for the end of the run."""
    if moment == "during":
        world.slow_start()
    when, dummy, task = moment.partition(" ")
    with Stop("after" if when == "after" else "before", task or world.operation.task) as stop:
        run = world.start({**fault.environment, **stop.environment()})
        assert stop.wait(run.process), "it has not come to its task"
        if moment == "during":
            stop.go()
            world.come_to_the_middle()
        fault.strike(run, watch)
        stop.go()
        run.finish()
    assert "Traceback" not in run.said


@pytest.fixture
def of_place(prepared, tmp_path):
    """Return the world of a place, and a watch over it."""
    world = World(prepared, OPERATIONS["place"](), tmp_path)
    with Watch(world.fleet) as watch:
        yield world, watch
    world.close()


@pytest.mark.long
def test_hosts_that_take_longer_than_a_task_may(of_place):
    """The start of a guest takes 12 s, and Ansible gives each task 8 s: one instance is made,
    once.
    """
    world, watch = of_place
    world.slow_start(12)
    first = world.start({"ANSIBLE_TASK_TIMEOUT": "8"})
    first.finish()
    world.check_always(watch)
    second = world.start()
    assert second.finish() == 0, f"{first.said}\n====\n{second.said}"
    world.check_always(watch)
    (where, state), _beside = sorted(world.check_end().values(), key=lambda found: found[1])
    assert state == "running" and watch.path(
        world.fleet.query("SELECT uuid FROM instances WHERE name = 'web'")[0][0]
    ) == [where]


@pytest.mark.long
def test_two_places_of_one_file_at_once(of_place):
    """Two people, each with a copy of the file: a definition is one instance."""
    world, watch = of_place
    names = [f"web{number}" for number in range(8)]
    text = "instances:\n" + "".join(f"  - {{name: {name}, memory_mb: 64}}\n" for name in names)
    files = [world.folder.with_name(f"{who}.yml") for who in ("one", "other")]
    for file in files:
        file.write_text(text)

    def place(file):
        return world.playbook("place", "-e", json.dumps({"drover_definitions": str(file)}))

    runs = [place(file) for file in files]
    for run in runs:
        run.finish()
    for file in files:
        again = place(file)
        assert again.finish() == 0, again.said
        assert changes(again) == 0 or file.read_text() == text, again.said
    for file in files:
        again = place(file)
        assert again.finish() == 0 and changes(again) == 0, again.said
    world.check_always(watch)
    assert sorted(set(world.check_end()) - {"beside"}) == names


@pytest.mark.long
def test_two_stores_drain_one_host(prepared, tmp_path):
    """Two controllers without knowledge of each other: nothing is lost or doubled, and at the end
    both stores are right."""
    world = World(prepared, OPERATIONS["drain"](), tmp_path)
    try:
        with Watch(world.fleet) as watch:
            theirs = world.copy_of_the_store("theirs")
            runs = [world.start(), world.start(store=theirs)]
            for run in runs:
                run.finish()
            world.check_always(watch)
            for store in (world.folder, theirs):
                assert world.discover(store=store).process.returncode == 0
                again = world.start(store=store)
                assert again.finish() == 0, again.said
            world.check_always(watch)
            where = world.check_end()
            assert {name: host for name, (host, dummy) in where.items()} == {
                "web": "kvm2",
                "beside": "kvm2",
            }
            assert world.check_end(theirs) == where
    finally:
        world.close()
        print("\n====\n".join(run.said for run in world.runs))


def changes(run):
    return sum(int(number) for number in re.findall(r"changed=(\d+)", run.said))
