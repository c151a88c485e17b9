# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A recorded stage is not a state: a run reads the state before it continues, and repeats a step
without an effect."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleActionFail

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.tests.matrix.operations import OPERATIONS
from ansible_collections.drover.compute.tests.matrix.world import Run, world_of
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of


def test_b4_a_resize_that_was_undone_by_hand_is_not_confirmed():
    operation = OPERATIONS["resize that was undone by hand"]()
    with world_of(operation) as world:
        with pytest.raises(
            AnsibleActionFail,
            match=(
                "has the size of before, .* so it is not confirmed. Nothing was done. Run"
                " .*instance_resize"
            ),
        ):
            Run(world).task(
                "localhost",
                "instance_resize",
                instances=["web"],
                timeout=1,
                force=True,
                ending="confirm",
            )
        # The repeated command carries it out.
        operation.run(Run(world))
        operation.check(world)
        world.check_end()


def test_c1_an_evacuation_restarts_what_waits_to_be_confirmed():
    operation = OPERATIONS["evacuate a resized one"]()
    with world_of(operation) as world:
        run = Run(world)
        operation.run(run)
        operation.check(world)
        assert any(
            "web: its resize waited to be confirmed; it is ended, and the instance keeps its new"
            " size." in line
            for line in run.said
        )
        operation.afterwards(world)
        world.check_end()
        assert uuid_of("web") not in world.fleet.hosts["kvm1"].domains()
