# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An evacuation is killed while a destination starts an instance, and its host comes back before
the next evacuation."""

from __future__ import annotations

import contextlib

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible.errors import AnsibleActionFail

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.matrix.operations import OPERATIONS
from ansible_collections.drover.compute.tests.matrix.world import Killed, Run, world_of
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of

COMMANDS = {
    "undrain": lambda run: run.task("localhost", "undrain", host="kvm1", timeout=1),
    "drain": lambda run: run.task("localhost", "drain", host="kvm1", max_wait=1),
}


def killed(world, late):
    """Kill the run after the first destination has begun to start the first instance."""

    begun = []

    def fault(name):
        if name.startswith("in ") and "_domain_restart" in name and not begun:
            begun.append(name)
            raise Killed

    with contextlib.suppress(Killed):
        OPERATIONS["evacuate"]().run(Run(world, fault, name="first", late=late))
    world.dead.add("first")
    with Store.open(world.url).read() as connection:
        table = tables.migrations
        query = sa.select(table.c.instance_name, table.c.destination).where(
            table.c.type == "evacuation", table.c.status == "running"
        )
        ((name, place),) = connection.execute(query).all()
    return name, place


@pytest.mark.parametrize("late", [True, False], ids=["it still starts", "it has started"])
@pytest.mark.parametrize("command", COMMANDS)
def test_b1_no_command_ends_a_restart_that_may_still_begin(command, late):
    operation = OPERATIONS["evacuate"]()
    with world_of(operation) as world:
        name, place = killed(world, late)
        world.fleet.hosts["kvm1"].power_on()
        world.discover()
        run = Run(world, name="second")
        with contextlib.suppress(AnsibleActionFail):
            COMMANDS[command](run)
        world.check_running()
        assert any(f"{name}: it runs on {place}." in line for line in run.said), run.said
        # Its old definition is removed, and the others are unchanged.
        assert world.fleet.where()[name] == [(place, "running")]
        Run(world, name="third").task("localhost", "undrain", host="kvm1", timeout=1)
        for each in world.behind:
            each.wait()
        Run(world, name="third").task(
            "localhost", "instance", instances=["web", "beside"], timeout=1
        )
        assert world.fleet.where()[name] == [(place, "running")]
        world.discover()
        world.check_end()
        assert uuid_of(name) not in world.fleet.hosts["kvm1"].domains()
