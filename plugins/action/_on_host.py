# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a module of the collection on a hypervisor for a role, with a comparison of the machine."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, TypedDict

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import ssh_ways
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    DroverAction,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import (
    NotThisHost,
    Unreachable,
)

#: The modules with connections that use no master of SSH.
PAST_MASTERS = ("_boot_info", "ansible.builtin.command")
#: Seconds between two attempts.
PAUSE = 2


class Args(TypedDict):
    """The arguments of this action."""

    module: str
    arguments: Any
    wait: int
    unlike: str


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {
        "module": {
            "type": "str",
            "choices": [
                "_boot_info",
                "_domain_backup",
                "_migration_trust",
                "hypervisor_info",
                "ansible.builtin.command",
            ],
            "default": "_boot_info",
        },
        "arguments": {"type": "dict", "default": {}},
        "wait": {"type": "int", "default": 0},
        "unlike": {"type": "str", "default": ""},
    }

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        # A module that only looks for an answer, or that ends the host, must not wait for a dead
        # master of SSH.
        ssh_ways.prepare(self._connection, probe=args["module"] in PAST_MASTERS)
        deadline = time.monotonic() + args["wait"]
        while True:
            found = self._once(args, task_vars, is_last=time.monotonic() >= deadline)
            if found is not None:
                return found
            # A rebooted host no longer has the temporary files of the module.
            self._connection._shell.tmpdir = None
            time.sleep(PAUSE)

    def _once(self, args: Args, task_vars: Variables, is_last: bool) -> Mapping[str, object] | None:
        """Run the module. Return None to try again, if the host is silent or has its old boot."""
        try:
            answer = self.hand(args, task_vars).task(args["module"], args["arguments"])
            if (
                not args["unlike"]
                or answer.get("failed")
                or answer.get("boot_id") != args["unlike"]
            ):
                return answer
            if not is_last:
                return None
            return {
                **answer,
                "failed": True,
                "msg": f"it answers with the boot id {args['unlike']}, which it had before",
            }
        except NotThisHost as problem:
            # Return the failure: after an exception, a play would treat the host as silent,
            # although something answers in its place.
            return {"failed": True, "not_this_host": True, "msg": str(problem.cause_of_it)}
        except Unreachable as problem:
            if not is_last:
                return None
            raise (
                problem.cause_of_it if isinstance(problem.cause_of_it, Exception) else problem
            ) from None
        except (Exception, KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            # At the time limit of the task. Without this line Ansible would remove the files of the
            # module from the host, and wait for that.
            self._connection._shell.tmpdir = None
            raise
