# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a module of the collection on a hypervisor from a role, by the way that compares the machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import ssh_ways
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import DroverAction
from ansible_collections.drover.compute.plugins.plugin_utils._errors import NotThisHost, Unreachable


class ActionModule(DroverAction):
    ARGUMENT_SPEC = {
        "module": {
            "type": "str",
            "choices": ["_boot_info", "_domain_backup", "_migration_trust", "hypervisor_info"],
            "default": "_boot_info",
        },
        "arguments": {"type": "dict", "default": {}},
    }

    def act(self, args: dict[str, Any], task_vars: Mapping[str, Any]) -> Mapping[str, Any]:
        # What only finds out who answers waits for no dead master of SSH.
        ssh_ways.prepare(self._connection, probe=args["module"] == "_boot_info")
        try:
            return self.hand(args, task_vars).task(args["module"], args["arguments"])
        except NotThisHost as problem:
            # Not raised: to a play the host would be one that is silent, and something answers in its place.
            return {"failed": True, "not_this_host": True, "msg": str(problem.cause_of_it)}
        except Unreachable as problem:
            raise problem.cause_of_it if isinstance(problem.cause_of_it, Exception) else problem from None
        except (Exception, KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            # The time limit of the task. Without this line Ansible would remove the files of the module from the host, and wait for that.
            self._connection._shell.tmpdir = None
            raise
