# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resize instances, confirm or revert: one run of conductor.resize.Resize."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border.action import STORE_SPEC, difference
from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border.conducting import ConductorAction
from ansible_collections.drover.compute.plugins.plugin_utils.conductor.resize import CONFIRM, REVERT, Resize, ResizeRequest
from ansible_collections.drover.compute.plugins.plugin_utils.conductor.settings import ResizeSettings
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler import policy_file


class ActionModule(ConductorAction):
    _requires_connection = False
    ARGUMENT_SPEC = {
        "instances": {"type": "list", "elements": "raw", "required": True},
        "flavor": {"type": "str"},
        "ending": {"type": "str", "choices": [CONFIRM, REVERT]},
        "host": {"type": "str"},
        "timeout": {"type": "int", "default": 60},
        "force": {"type": "bool", "default": False},
        "despite_policy": {"type": "bool", "default": False},
        "migration": {"type": "dict", "default": {}},
        "policy": {"type": "dict", "default": {}},
        "policy_file": {"type": "path"},
        "service_down_time": {"type": "int", "default": 0},
        **STORE_SPEC,
    }
    VARIABLES = ("migration", "service_down_time", ("policy", "scheduler"), ("policy_file", "scheduler_file"))

    def conduct(self, args, task_vars):
        settings = ResizeSettings(
            policy=policy_file.combined(args["policy"], args["policy_file"], task_vars.get("playbook_dir")),
            check_mode=self._task.check_mode,
            **{key: args[key] for key in ("timeout", "force", "despite_policy", "migration", "service_down_time")},
        )
        request = ResizeRequest(args["instances"], settings, args["flavor"] or None, args["ending"] or None, args["host"] or None)
        resize = Resize(self.ports(args, task_vars), request)
        result = resize.run()
        if self._task.diff:
            result["diff"] = [difference(*each) for each in resize.differences]
        return result
