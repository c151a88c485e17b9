# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read or switch the power by a management controller."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypedDict

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    DroverAction,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._management_controllers import (
    address,
    answers,
    ipmi,
    redfish,
)

#: Seconds to wait for one answer, and for a busy controller if no state is awaited.
ANSWER, BUSY = 20, 60


class Args(TypedDict):
    """The arguments of this action."""

    host: str
    uuid: str
    driver: str
    address: str
    user: str
    password: str
    request: str | None
    wanted: str
    timeout: int
    deadline: float
    resource_id: str
    ca_path: str
    validate_certs: bool


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {
        "host": {"type": "str", "default": ""},
        "uuid": {"type": "str", "default": ""},
        "driver": {"type": "str", "required": True, "choices": ["redfish", "ipmi"]},
        "address": {"type": "str", "required": True},
        "user": {"type": "str", "required": True},
        "password": {"type": "str", "required": True, "no_log": True},
        "request": {"type": "str", "choices": list(answers.REQUESTS)},
        "wanted": {"type": "str", "choices": ["on", "off", "any"], "default": "any"},
        "timeout": {"type": "int", "default": 300},
        "deadline": {"type": "float", "default": 0},
        "resource_id": {"type": "str", "default": ""},
        "ca_path": {"type": "path", "default": ""},
        "validate_certs": {"type": "bool", "default": True},
    }
    _requires_connection = False

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        controller: answers.Controller | None = None
        try:
            controller = _controller(args, self._why_not(args, task_vars))
            if args["request"] is None:
                look = answers.look(
                    controller, args["wanted"], min(BUSY, args["timeout"]), args["deadline"]
                )
                return _result(look)
            if self._task.check_mode:
                return {"changed": True}
            return {"changed": answers.request(controller, args["request"], args["timeout"])}
        except (DroverError, answers.ControllerRefused, answers.UncertainRequest) as problem:
            if args["request"] is None:
                return _result(answers.PowerReport("unknown", str(problem)))
            # Return the failure, because the role decides by the result.
            return {
                "failed": True,
                "msg": str(problem),
                "begun": isinstance(problem, answers.UncertainRequest),
            }
        finally:
            if controller is not None:
                controller.close()

    def _why_not(self, args: Args, task_vars: Variables) -> Callable[[Collection[str]], str | None]:
        machines = self.machines({}, task_vars)
        return lambda reported: machines.why_not_switched(args["host"], reported, args["uuid"])


def _controller(args: Args, why_not: Callable[[Collection[str]], str | None]) -> answers.Controller:
    login = args["user"], args["password"], why_not
    if args["driver"] == "ipmi":
        return ipmi.Ipmi(address.parse(args["address"], ipmi.PORT, None), *login)
    place = address.parse(args["address"], redfish.PORT, "https")
    return redfish.Redfish(
        place,
        *login,
        timeout=max(1, min(ANSWER, args["timeout"])),
        resource_id=args["resource_id"],
        ca_path=args["ca_path"],
        validate_certs=args["validate_certs"],
    )


def _result(found: answers.PowerReport) -> dict[str, object]:
    can = list(answers.REQUESTS) if found.can is None else list(found.can)
    return {"changed": False, "power_state": found.state, "problem": found.problem, "can": can}
