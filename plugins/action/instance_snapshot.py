# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make snapshots of instances, delete them, revert to them, and list them."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import selecting
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    StoreArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.conducting import (
    ConductorAction,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.operating import (
    CHOICE_REQUIREMENTS,
    CHOICE_SPEC,
    ChoiceArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.instance_snapshots import (
    ABSENT,
    PRESENT,
    REVERTED,
    InstanceSnapshots,
    SnapshotRequest,
)
from ansible_collections.drover.compute.plugins.plugin_utils._report.snapshots import (
    snapshots_table,
)


class Args(ChoiceArgs, StoreArgs):
    """The arguments of this action."""

    state: str | None
    snapshot: str | None
    description: str | None
    discard: bool
    timeout: int


class ActionModule(ConductorAction[Args]):
    ARGUMENT_SPEC = {
        "state": {"type": "str", "choices": [PRESENT, ABSENT, REVERTED]},
        "snapshot": {"type": "str"},
        "description": {"type": "str"},
        "discard": {"type": "bool", "default": False},
        "timeout": {"type": "int", "default": 600},
        **CHOICE_SPEC,
        **STORE_SPEC,
    }
    REQUIREMENTS = CHOICE_REQUIREMENTS
    _requires_connection = False

    def conduct(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        state, name = args["state"] or None, args["snapshot"] or None
        if state is not None and name is None:
            raise DroverError(
                "No snapshot is named. Set drover_snapshot_name (option snapshot) to its name."
                " Nothing was done."
            )
        if state is None and name is not None:
            raise DroverError(
                f"The snapshot {name} is named without a state. Set drover_snapshot_state (option"
                " state) to present, absent or reverted. Nothing was done."
            )
        chosen = selecting.instances(self.store(args, task_vars), args, self.show)
        request = SnapshotRequest(
            state, name, args["description"] or None, args["discard"], args["timeout"]
        )
        outcomes, differences, failed = InstanceSnapshots(
            self.ports(args, task_vars), request, self._task.check_mode
        ).run(chosen)
        result: dict[str, object] = {
            "changed": any(each["changed"] for each in outcomes),
            "instances": outcomes,
            "table": snapshots_table([each for each in outcomes if each["status"] == "done"]),
        }
        if self._task.diff:
            result["diff"] = differences
        if failed:
            raise DroverError(" ".join(failed), **result)
        return result
