# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show the recorded CPUs of groups of hosts, and determine them again."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    StoreArgs,
    difference,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.conducting import (
    ConductorAction,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._common.validation import host_names
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.fleet_cpu import FleetCpus
from ansible_collections.drover.compute.plugins.plugin_utils._report.fleet_cpus import (
    fleet_cpus_lines,
)


class Args(StoreArgs):
    """The arguments of this action."""

    renew: bool
    hosts: list[str]


class ActionModule(ConductorAction[Args]):
    ARGUMENT_SPEC = {
        "renew": {"type": "bool", "default": False},
        "hosts": {"type": "list", "elements": "str", "default": []},
        **STORE_SPEC,
    }
    _requires_connection = False

    def conduct(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        ports = self.ports(args, task_vars)
        cpus = FleetCpus(ports.store, ports.hosts)
        before = cpus.listing()
        chosen = host_names(args["hosts"]) if args["hosts"] else []
        if chosen and not args["renew"]:
            raise DroverError(
                "hosts says of which hosts the CPU of the fleet is made: give renew too. Nothing"
                " was changed."
            )
        after = cpus.renewed(chosen) if args["renew"] else before
        result: dict[str, object] = {
            "changed": after != before,
            "cpus": after,
            "lines": fleet_cpus_lines(after),
        }
        if self._task.diff and result["changed"]:
            result["diff"] = [difference("CPUs of the fleet", {"cpus": before}, {"cpus": after})]
        return result
