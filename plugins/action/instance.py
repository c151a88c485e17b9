# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the instance of a claim on its hypervisor and record that it is there."""

from __future__ import annotations

import time

from ansible.errors import AnsibleConnectionFailure

from ansible_collections.drover.compute.plugins.plugin_utils.action import STORE_SPEC, DroverAction
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.plain import to_plain
from ansible_collections.drover.compute.plugins.plugin_utils.placement import claims
from ansible_collections.drover.compute.plugins.plugin_utils.tracker import domain, record


class ActionModule(DroverAction):
    ARGUMENT_SPEC = {
        "uuid": {"type": "str", "required": True},
        "name": {"type": "str", "required": True},
        "xml": {"type": "str", "required": True},
        "disks": {"type": "list", "elements": "dict", "default": []},
        "seed": {"type": "dict"},
        "autostart": {"type": "bool", "default": False},
        "uri": {"type": "str", "default": "qemu:///system"},
        "timeout": {"type": "int", "default": 60},
        **STORE_SPEC,
    }

    def act(self, args, task_vars):
        host = self.target(task_vars)
        # In check mode the claim was rolled back, so there is none to find.
        if not self._task.check_mode:
            with self.store(args, task_vars).read() as connection:
                claims.require_claim(connection, args["uuid"], host)
        result = self._build(host, args, task_vars)
        if not self._task.check_mode:
            with self.store(args, task_vars).write() as connection:
                built = domain.describe(to_plain(result["domain"]))
                record.record_built(connection, args["uuid"], host, built, time.time())
        answer = {"changed": bool(result.get("changed")), "host": host, "domain": result.get("domain")}
        if self._task.diff and "diff" in result:
            answer["diff"] = result["diff"]
        return to_plain(answer)

    def _build(self, host, args, task_vars):
        given = {
            name: args[name]
            for name in ("uuid", "name", "xml", "disks", "seed", "autostart", "uri", "timeout")
            if args[name] is not None
        }
        self._reach(host, args)
        try:
            result = self._execute_module(
                module_name="drover.compute.domain",
                module_args={**given, "state": "running"},
                task_vars=task_vars,
            )
        except AnsibleConnectionFailure as problem:
            raise DroverError(
                f"Instance {args['name']}: host {host} was lost while it was being built: "
                f"{' '.join(str(problem).split())}. Whether it runs there is not known, so it is not built elsewhere. "
                f"When {host} is back, run drover.compute.discover and then place again.",
                host=host,
                uncertain=True,
            ) from None
        if result.get("failed"):
            details = {"host": host}
            if "domain_left" in result or "module_stdout" in result:
                # A module that crashed, or found the domain there, leaves nobody sure; others began nothing.
                details["uncertain"] = result.get("domain_left") is not False
            raise DroverError(f"Instance {args['name']} on {host}: {result.get('msg')}", **details)
        return result

    def _reach(self, host, args):
        """Find out that a host cannot be reached before anything is begun there.

        A failure, not "unreachable": the play goes on with this instance's alternates.
        """
        try:
            self._low_level_execute_command("true")
        except AnsibleConnectionFailure as problem:
            reason = " ".join(str(problem).split())
            raise DroverError(
                f"Instance {args['name']}: host {host} cannot be reached: {reason}. Nothing was begun there.",
                host=host,
            ) from None
