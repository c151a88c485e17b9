# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record the fences of a host on shared storage, and return the arguments of their tasks."""

from __future__ import annotations

from collections.abc import Mapping

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
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.storage_fencing import (
    StorageFencing,
    tasks_of,
)
from ansible_collections.drover.compute.plugins.plugin_utils._evacuation.fencing import rules_lifted
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import storage_fences


class Args(StoreArgs):
    """The arguments of this action."""

    #: REQUIREMENTS says which states have the hosts, and which the host and the fence.
    host: str
    hosts: list[str]
    state: str
    fence: str
    addresses: list[str]
    disks: list[str]
    cut: list[str]
    others: list[str]
    force: list[str]


class ActionModule(ConductorAction[Args]):
    _requires_connection = False
    ARGUMENT_SPEC = {
        "host": {"type": "str"},
        "hosts": {"type": "list", "elements": "str"},
        "state": {
            "type": "str",
            "choices": ["known", "begun", "verified", "returned", "lifted"],
            "required": True,
        },
        "fence": {"type": "str"},
        "addresses": {"type": "list", "elements": "str", "default": []},
        "disks": {"type": "list", "elements": "str", "default": []},
        "cut": {"type": "list", "elements": "str", "default": []},
        "others": {"type": "list", "elements": "str", "default": []},
        "force": {"type": "list", "elements": "str", "default": []},
        **STORE_SPEC,
    }
    REQUIREMENTS = {
        "required_if": [
            *(["state", state, ["host", "fence"]] for state in ("begun", "verified", "lifted")),
            ["state", "known", ["hosts"]],
        ],
        "required_one_of": [["host", "hosts"]],
    }

    def conduct(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        if args["state"] == "known":
            with self.store(args, task_vars).read() as connection:
                return {
                    "changed": False,
                    "fenced": [
                        host for host in args["hosts"] if storage_fences.read(connection, host)
                    ],
                }
        fencing = StorageFencing(self.ports(args, task_vars), args["host"])
        if args["state"] == "begun":
            tasks = tasks_of(args["fence"], args["host"])
            begun = fencing.begin(args["fence"], args["addresses"])
            return {"changed": bool(begun["disks"]), "tasks": tasks, **begun}
        if args["state"] == "verified":
            unknown = sorted(set(args["cut"]) - set(args["disks"]))
            if unknown:
                raise DroverError(
                    f"The tasks of the fence say that {args['host']} is cut off from {unknown[0]},"
                    " which is none of the disks that they were given. Nothing was started."
                    " Correct evacuate_fence_cut in verify: it has items of evacuate_fence_disks."
                )
            fencing.verified(
                args["fence"], args["cut"], args["others"], rules_lifted(args["force"])
            )
            return {"changed": True}
        if args["state"] == "returned":
            return {
                "changed": False,
                "fences": [
                    {**each, "tasks": tasks_of(str(each["fence"]), args["host"], True)}
                    for each in fencing.returned()
                ],
            }
        return {"changed": fencing.lifted(args["fence"])}
