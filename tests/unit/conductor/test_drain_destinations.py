# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A drain names a destination that it excludes, because the plan shown later has other
destinations."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._conductor import drain as drain_module
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import DrainQuestion
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.ports import Ports
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.settings import MoveSettings
from ansible_collections.drover.compute.plugins.plugin_utils._records.orders import MigrationLimits
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy


def test_a_destination_that_is_not_reached_is_named_once():
    lines = []
    question = DrainQuestion(Policy.from_mapping({}), MigrationLimits(2))
    request = drain_module.DrainRequest(["kvm1"], question, MoveSettings(MigrationLimits(2)))
    drain = drain_module.Drain(Ports(None, None, None, lines.append, None), request)
    for uuid in ("one", "two"):
        drain._exclude(
            {"uuid": uuid, "source": "kvm1", "destination": "kvm2", "provider": "p2"},
            "it does not answer",
            reached=False,
        )
    drain._exclude(
        {"uuid": "two", "source": "kvm1", "destination": "kvm3", "provider": "p3"},
        "its CPU is older",
    )
    assert lines == ["Nothing of kvm1 goes to kvm2: it does not answer"]
    assert drain.unreached == {"kvm1": {"p2": "it does not answer"}} and drain.excluded == {
        "two": {"p3": "its CPU is older"}
    }
