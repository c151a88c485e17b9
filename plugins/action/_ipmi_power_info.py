# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the power state over IPMI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import DroverAction


class ActionModule(DroverAction):
    ARGUMENT_SPEC = {
        "name": {"type": "str", "required": True},
        "port": {"type": "int", "default": 623},
        "user": {"type": "str", "required": True},
        "password": {"type": "str", "required": True, "no_log": True},
    }

    def act(self, args: dict[str, Any], task_vars: Mapping[str, Any]) -> Mapping[str, Any]:
        # community.general.ipmi_power has no state that only reads. In check mode it reads, and returns if it would switch the power. If it
        # would not, the power has the wanted state.
        hand = self.hand(args, task_vars)
        for state in ("off", "on"):
            result = hand.foretell("community.general.ipmi_power", {**args, "state": state})
            if result.get("failed"):
                # Not raised, because failed_when does not see an exception.
                return {"failed": True, "msg": result.get("msg") or "ipmi_power failed without a message"}
            if result.get("changed") is False:
                return {"changed": False, "power_state": state}
        sentence = f"{args['name']} reports the power neither as on nor as off. Try again, or check its own page."
        return {"changed": False, "power_state": "unknown", "msg": sentence}
