# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a hypervisor, and the difference of its clock from the controller's."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, TypedDict

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    DroverAction,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import Unreachable


class Args(TypedDict):
    """The arguments of this action."""

    uri: str
    instances_path: str
    cpus: list[Any]
    names: list[str]
    probe_kvm: bool


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {
        "uri": {"type": "str", "default": "qemu:///system"},
        "instances_path": {"type": "path", "default": "/var/lib/libvirt/images"},
        "cpus": {"type": "list", "elements": "dict", "default": []},
        "names": {"type": "list", "elements": "str", "default": []},
        "probe_kvm": {"type": "bool", "default": False},
    }

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        before = time.time()
        try:
            result = self.hand(args, task_vars).read("_host_check", args)
        except Unreachable as problem:
            # Return the failure, because failed_when does not see an exception.
            return {"failed": True, "msg": str(problem)}
        after, host = time.time(), result.get("host")
        if isinstance(host, dict) and isinstance(host.get("clock"), (int, float)):
            result["clock_bounds"] = [
                round(host["clock"] - after, 3),
                round(host["clock"] - before, 3),
            ]
        return result
