# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Move a disk of an instance to another storage of its host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    StoreArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.conducting import (
    ConductorAction,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.disk_move import (
    DiskMoveOrder,
    DiskMoveRequest,
)


class Args(StoreArgs):
    """The arguments of this action."""

    instance: str
    disk: str
    pool: str
    state: str
    migration: Any


class ActionModule(ConductorAction[Args]):
    _requires_connection = False
    ARGUMENT_SPEC = {
        "instance": {"type": "str", "default": ""},
        "disk": {"type": "str", "default": ""},
        "pool": {"type": "str", "default": ""},
        "state": {"type": "str", "choices": ["moved", "aborted"], "default": "moved"},
        "migration": {"type": "dict", "default": {}},
        **STORE_SPEC,
    }

    def conduct(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        abort = args["state"] == "aborted"
        wanted = {"instance": "web1", "disk": "vda", **({} if abort else {"pool": "fast"})}
        given: Mapping[str, object] = args
        missing = [
            f"drover_{name}, such as {sample}" for name, sample in wanted.items() if not given[name]
        ]
        if missing:
            raise DroverError(
                f"Which disk is moved, and where? Set {'; '.join(missing)}. Nothing was done."
            )
        request = DiskMoveRequest(
            args["instance"], args["disk"], args["pool"], args["migration"], abort
        )
        result = DiskMoveOrder(self.ports(args, task_vars), request, self._task.check_mode).run()
        if not self._task.diff:
            result.pop("diff", None)
        return result
