# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show hosts with their services, nodes and room."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border.action import STORE_SPEC, DroverAction
from ansible_collections.drover.compute.plugins.plugin_utils.report import text
from ansible_collections.drover.compute.plugins.plugin_utils.store import clock, hosts, services


class ActionModule(DroverAction):
    ARGUMENT_SPEC = {
        "host": {"type": "str"},
        "service_down_time": {"type": "int", "default": 0},
        **STORE_SPEC,
    }
    VARIABLES = ("service_down_time",)
    _requires_connection = False

    def act(self, args, task_vars):
        with self.store(args, task_vars).read() as connection:
            found = hosts.listing(connection, clock.now(connection), args["service_down_time"])
            result = {}
            if args["host"] is not None:
                services.get(connection, args["host"])
                result["resources"] = hosts.resource_rows(connection, args["host"], found)
                found = [host for host in found if host["host"] == args["host"]]
        return {"hosts": found, "table": text.hosts_table(found), **result}
