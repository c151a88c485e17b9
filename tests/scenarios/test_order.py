# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A command with a missing step, or with another order of steps, is noticed: a golden scenario has
another end."""

from __future__ import annotations

import contextlib

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._conductor import rolling
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.drain import Drain
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.evacuation import Evacuation
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.instance_migrations import (
    InstanceMigrations,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.resize import ResizeRun
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.resize_steps import (
    ResizeSteps,
    StepResult,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.rolling import Rolling
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.rolling_records import (
    RollingRecords,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.staged_moves import (
    StagedMoves,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.undrain import Undrain
from ansible_collections.drover.compute.tests.scenarios.simulated import Violation
from ansible_collections.drover.compute.tests.scenarios.test_scenarios import (  # noqa: F401  pylint: disable=unused-import
    HERE,
    cases_of,
    empty,
    expected,
    fresh,
    memory,
    store,
)


def without(name):
    """Return a change that leaves a step out."""
    return name, lambda kept: lambda self, *args, **options: None


def without_step(name):
    """Return the steps of a rolling maintenance except one."""
    return rolling, "STEPS", lambda kept: tuple(step for step in kept if step.name != name)


def moved(name, before):
    """Return the steps of a rolling maintenance, with one of them moved right before another
    one.
    """

    def changed(kept):
        (step,) = (each for each in kept if each.name == name)
        rest = [each for each in kept if each is not step]
        place = [each.name for each in rest].index(before)
        return (*rest[:place], step, *rest[place:])

    return rolling, "STEPS", changed


#: The changes: name -> (class, method, function of the method that returns another, scenario that
#: notices it).
CHANGES = {
    "not disabled": (Drain, *without("_set_state"), "drain"),
    "not settled": (
        StagedMoves,
        "settle",
        lambda kept: lambda self, host: [],
        "drain_killed_at_a_call",
    ),
    "not checked": (
        StagedMoves,
        "check",
        lambda kept: lambda self, moves: [],
        "drain_refused_beforehand",
    ),
    "not moved": (Drain, *without("_move_instances"), "drain"),
    "not shut down": (Drain, *without("_shut_down"), "drain_does_not_shut_down"),
    "shut down first": (
        Drain,
        "_move_instances",
        lambda kept: lambda self: (self._shut_down(), kept(self)),
        "drain_does_not_shut_down",
    ),
    "not looked at": (
        Drain,
        "_surprising",
        lambda kept: lambda self, host, seen: [],
        "drain_newcomer",
    ),
    "a host that fails ends the others": (
        Drain,
        "_apart",
        lambda kept: lambda self, host: contextlib.nullcontext(),
        "drain_two_hosts_one_cannot",
    ),
    "one host after the other is disabled": (
        Drain,
        "_set_state",
        lambda kept: lambda self, state, hosts, **given: kept(self, state, hosts[:1], **given),
        "drain_two_hosts",
    ),
    "resized without leaving": (
        ResizeSteps,
        "leave",
        lambda kept: lambda self, resize: StepResult(False, resize),
        "resize",
    ),
    "resized without moving": (ResizeRun, *without("_move_domain"), "resize"),
    "not arrived": (
        ResizeSteps,
        "arrive",
        lambda kept: lambda self, resize: StepResult(False, resize),
        "resize",
    ),
    "not ended": (ResizeRun, *without("end"), "resize"),
    "not taken back": (
        ResizeSteps,
        "undo",
        lambda kept: lambda self, resize, why: StepResult(False, None),
        "resize_does_not_shut_down",
    ),
    "reverted without leaving": (
        ResizeSteps,
        "leave_again",
        lambda kept: lambda self, resize: StepResult(False, resize),
        "resize",
    ),
    "confirmed before it is resized": (
        ResizeRun,
        "resize",
        lambda kept: lambda self, instances: (self.end(instances), kept(self, instances)),
        "resize",
    ),
    "open moves not ended": (
        InstanceMigrations,
        "_end_open",
        lambda kept: lambda self, instances: instances,
        "migrate_instances",
    ),
    "state not restored": (
        Undrain,
        "_restore",
        lambda kept: lambda self, host: ({"disabled": False}, []),
        "undrain_does_not_start",
    ),
    "nothing started": (
        Undrain,
        "_start_instance",
        lambda kept: lambda self, host, instance: [],
        "undrain_does_not_start",
    ),
    "one round": (
        Drain,
        "_moves_to_make",
        lambda kept: lambda self: kept(self) if self.round == 1 else [],
        "drain_faults",
    ),
    "evacuated although it answers": (
        Evacuation,
        *without("_refuse_alive"),
        "evacuate_while_it_lives",
    ),
    "its libvirt not restarted": (
        Evacuation,
        *without("_restart_libvirt"),
        "evacuate_while_it_lives",
    ),
    "not closed when it is back": (Evacuation, *without("_close_open"), "evacuate_returned"),
    "a word not written down": (Evacuation, *without("_take_word"), "evacuate_by_word"),
    "not kept off": (Evacuation, *without("_keep_off"), "evacuate_by_word"),
    "not read": (Evacuation, *without("_read_others"), "evacuate_by_word"),
    "not withdrawn": (Evacuation, *without("_withdraw"), "evacuate_killed"),
    "not asked again before the start": (
        Evacuation,
        *without("_refuse_returned"),
        "evacuate_while_it_comes_back",
    ),
    "an evacuation not settled": (
        Evacuation,
        *without("_settle_instances"),
        "drain_source_dies_for_good",
    ),
    "not started": (Evacuation, *without("_restart_all"), "evacuate_by_word"),
    "rolling: not drained": (*without_step("drain"), "rolling"),
    "rolling: not disabled first": (*without_step("disable"), "rolling"),
    "rolling: drained after the reboot": (*moved("reboot", "drain"), "rolling"),
    "rolling: a host that is down is not switched on": (
        *without_step("startup"),
        "rolling_killed_at_a_call",
    ),
    "rolling: not rebooted": (*without_step("reboot"), "rolling"),
    "rolling: enabled before the reboot": (*moved("enable", "startup"), "rolling_hook_fails"),
    "rolling: not enabled": (*without_step("enable"), "rolling"),
    "rolling: what was begun with is not finished first": (
        RollingRecords,
        "begun",
        lambda kept: lambda self, records: [],
        "rolling_hook_fails",
    ),
    "rolling: nobody goes home": (Rolling, *without("_bring_back"), "rolling"),
    "rolling: goes on after a failure": (
        Rolling,
        "close",
        lambda kept: lambda self, batch: self._records.write(batch, {"stage": "done"}),
        "rolling_hook_fails",
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_in_the_order_changes_a_scenario(what, fresh, monkeypatch):  # noqa: F811
    kind, method, change, scenario = CHANGES[what]
    monkeypatch.setattr(kind, method, change(getattr(kind, method)))
    assert any(
        _differs(HERE / scenario, name, commands, fresh)
        for name, commands in cases_of(HERE / scenario)
    )


def _differs(folder, name, commands, fresh):  # noqa: F811
    run = fresh(folder)
    try:
        for command in commands:
            run.do(command)
    except Violation:
        return True
    return run.said + run.journal() != expected(folder).get(name)
