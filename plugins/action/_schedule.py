# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pick hosts, and keep in the store why there is none."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import STORE_SPEC
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.conducting import ConductorAction
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.lease_holder import Actor
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.scheduler_options import SCHEDULER_SPEC, policy_of
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import refusals, scheduling
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.starting import Starting
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import keeping
from ansible_collections.drover.compute.plugins.plugin_utils._errors import some
from ansible_collections.drover.compute.plugins.plugin_utils._placement import claims
from ansible_collections.drover.compute.plugins.plugin_utils._report.placing import schedule_lines


class ActionModule(ConductorAction):
    ARGUMENT_SPEC = {
        "requests": {"type": "list", "elements": "dict", "required": True},
        "sections": {"type": "dict", "default": {}},
        **SCHEDULER_SPEC,
        **STORE_SPEC,
    }
    VARIABLES = ("service_down_time",)
    _requires_connection = False

    def conduct(self, args: dict[str, Any], task_vars: Mapping[str, Any]) -> Mapping[str, Any]:
        now, store = time.time(), self.store(args, task_vars)
        looked_at = self._look(args["requests"], args, task_vars)
        policy = policy_of(args, task_vars)
        # In check mode the task before this one has kept nothing: what it would keep is kept here and rolled back.
        sections = args["sections"] if self._task.check_mode else {}
        with contextlib.ExitStack() as stack:
            stack.enter_context(refusals.kept(store, claims.PURPOSE, Actor.of_this_task().holder, now))
            connection = stack.enter_context(store.write() if any(sections.values()) else store.read())
            keeping.keep(connection, sections, now)
            found = scheduling.decide(connection, args["requests"], policy, now, args["service_down_time"])
        return {"changed": False, "selections": found, "lines": schedule_lines(found), "looked_at": looked_at}

    def _look(self, requests: Sequence[Mapping[str, Any]], args: dict[str, Any], task_vars: Mapping[str, Any]) -> float | None:
        """See that no host has what is new already.

        :returns: when the hosts were read.
        """
        names = {str(each["name"]): each.get("uuid") for each in requests if each.get("name")}
        if not names:
            return None
        ports, began = self.ports(args, task_vars), time.time()
        silent = Starting(ports).refuse_namesakes(names)
        if silent:
            self.show(f"Not read, as they do not answer: {some(silent)}. What is new is not looked for there.")
        return began
