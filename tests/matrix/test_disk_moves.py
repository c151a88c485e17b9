# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Moves of disks that are not complete, and other operations on their instances."""

from __future__ import annotations

import os

import pytest
from ansible.errors import AnsibleActionFail

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.plugin_utils._conductor import disk_move
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import orders
from ansible_collections.drover.compute.tests.matrix.operations import OPERATIONS
from ansible_collections.drover.compute.tests.matrix.world import Killed, Run, world_of
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of


@pytest.fixture
def copying(monkeypatch):
    """Yield (operation, world) with a copy that libvirt does not complete, after a kill of its
    run.
    """
    monkeypatch.setattr(disk_move, "STEP", 0)
    operation = OPERATIONS["move disk"]()
    with world_of(operation) as world:
        world.fleet.devices.ready = False

        def end(name):
            if name.startswith("after call") and os.path.exists(operation.new):
                raise Killed

        with pytest.raises(Killed):
            operation.run(Run(world, end))
        world.dead.add("run")
        yield operation, world


def order_of(world):
    with Store.open(world.url).read() as connection:
        return orders.read(connection, uuid_of("web")).task_state


def abort(world, **given):
    return Run(world, name="next").task(
        "localhost", "_disk_move", instance="web", disk="vda", state="aborted", **given
    )


def test_others_are_refused_until_it_has_ended(copying):
    _operation, world = copying
    for module, arguments in (
        ("instance", {"state": "absent"}),
        ("instance", {"state": "stopped"}),
        ("instance_migrate", {"host": "kvm2"}),
        ("instance_resize", {"vcpus": 2}),
    ):
        try:
            result = Run(world, name="next").task(
                "localhost", module, instances=["web"], **arguments
            )
        except AnsibleActionFail as problem:
            assert "has a disk moved" in str(problem) or "being moved to another storage" in str(
                problem
            )
        else:
            raise AssertionError(result)
    assert order_of(world) == orders.MOVING_DISK
    assert abort(world)["status"] == "aborted" and order_of(world) is None
    world.discover()
    world.check_end()


def test_an_abort_takes_it_back_once(copying):
    operation, world = copying
    assert abort(world)["removed"] == [operation.new] and os.path.exists(operation.old)
    assert not abort(world)["changed"]
    world.check_end()


def test_a_move_that_takes_too_long_is_given_up(copying):
    operation, world = copying
    with pytest.raises(
        AnsibleActionFail, match="was not copied within 2 s, so the move was given up"
    ):
        Run(world, name="next").task(
            "localhost",
            "_disk_move",
            instance="web",
            disk="vda",
            pool=os.path.dirname(operation.new),
            migration={"timeout_per_gib": 1},
        )
    assert os.path.exists(operation.old) and not os.path.exists(operation.new)
    world.check_end()


def test_wrong_options_are_refused(copying):
    operation, world = copying
    for options, says in (
        ({"disk": "", "pool": "fast"}, "Set drover_disk"),
        ({"pool": ""}, "Set drover_pool"),
        (
            {"pool": os.path.dirname(operation.new), "migration": {"bandwidth_mib": 0}},
            "because of drover_migration",
        ),
    ):
        with pytest.raises(AnsibleActionFail, match=says):
            Run(world, name="next").task(
                "localhost", "_disk_move", **{"instance": "web", "disk": "vda", **options}
            )
    assert order_of(world) == orders.MOVING_DISK


@pytest.mark.parametrize("task_state", [orders.MOVING_DISK, orders.SWITCHING_DISK])
def test_c1_the_host_of_the_move_is_dead(task_state):
    """Until the switch of the guest its old file has all its data. During the switch it is not
    known which of the two files has them."""
    operation = OPERATIONS["evacuate"]()
    with world_of(operation) as world:
        with Store.open(world.url).write() as connection:
            orders.begin(connection, uuid_of("web"), task_state, "cut off")
        run = Run(world)
        message = ""
        try:
            operation.run(run)
        except AnsibleActionFail as problem:
            message = str(problem)
        restarted = task_state == orders.MOVING_DISK
        assert bool(world.fleet.running(uuid_of("web"))) is restarted, message
        assert order_of(world) == (None if restarted else task_state)
        assert ("drover_evacuate_force=open_disk_change" in message) is not restarted
