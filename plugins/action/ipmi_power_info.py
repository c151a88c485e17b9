# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask over IPMI whether the power is on."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border.action import DroverAction
from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border.remote_module import Hand


class ActionModule(DroverAction):
    ARGUMENT_SPEC = {
        "name": {"type": "str", "required": True},
        "port": {"type": "int", "default": 623},
        "user": {"type": "str", "required": True},
        "password": {"type": "str", "required": True, "no_log": True},
    }

    def act(self, args, task_vars):
        # community.general.ipmi_power cannot only ask. In check mode it asks, and says whether it would have switched
        # the power to what is wanted; that must not count as a change here. What it would not switch is so: to be
        # neither off nor on is no answer.
        hand = Hand(self, self.target(task_vars), task_vars)
        for state in ("off", "on"):
            result = hand.foretell("community.general.ipmi_power", {**args, "state": state})
            if result.get("failed"):
                # Not raised: failed_when of a task does not see what is raised.
                return {"failed": True, "msg": result.get("msg") or "ipmi_power failed without a message"}
            if result.get("changed") is False:
                return {"changed": False, "power_state": state}
        sentence = f"{args['name']} says neither that the power is on nor that it is off. Ask again, or look at its own page."
        return {"changed": False, "power_state": "unknown", "msg": sentence}
