# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show instances and where they are."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.action import STORE_SPEC, DroverAction
from ansible_collections.drover.compute.plugins.plugin_utils.report import table
from ansible_collections.drover.compute.plugins.plugin_utils.store import instances


class ActionModule(DroverAction):
    ARGUMENT_SPEC = {
        "host": {"type": "str"},
        "name": {"type": "str"},
        "uuid": {"type": "str"},
        **STORE_SPEC,
    }
    _requires_connection = False

    def act(self, args, task_vars):
        with self.store(args, task_vars).read() as connection:
            found = instances.listing(connection, args["host"], args["name"], args["uuid"])
        return {"instances": found, "table": table.instances_table(found)}
