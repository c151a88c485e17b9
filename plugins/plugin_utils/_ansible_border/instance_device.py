# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base class and options of instance_disk, instance_interface and instance_cdrom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._conductor.instance_devices import DeviceRequest, InstanceDevices
from .action import STORE_SPEC
from .conducting import ConductorAction

#: The options of all three.
INSTANCE_SPEC: dict[str, dict[str, Any]] = {
    "name": {"type": "str"},
    "uuid": {"type": "str"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    **STORE_SPEC,
}
#: The options of actions on devices that a guest must release.
TIMEOUT_SPEC: dict[str, dict[str, Any]] = {"timeout": {"type": "int", "default": 60}}
ONE_INSTANCE = ["name", "uuid"]


class InstanceDeviceAction(ConductorAction):
    """An action on the controller that attaches, detaches or enlarges a device of an instance."""

    _requires_connection = False
    TYPED = {"path": "drover_disk_path", "target": "drover_disk", "name": "drover_instance"}
    #: The kind of device, see DeviceRequest.
    KIND = ""

    def conduct(self, args: dict[str, Any], task_vars: Mapping[str, Any]) -> Mapping[str, Any]:
        # The value may be a name or a uuid, because playbooks have one variable for both.
        instance = (
            args["name"]
            if args["uuid"] is None
            else {key: args[key] for key in ("name", "uuid") if args[key] is not None}
        )
        request = DeviceRequest(
            instance,
            self.kind(args),
            self.device(args),
            args["state"] != "absent",
            args.get("timeout") or 0,
        )
        result = InstanceDevices(self.ports(args, task_vars), request, self._task.check_mode).run()
        if not self._task.diff:
            result.pop("diff", None)
        return result

    def kind(self, args: dict[str, Any]) -> str:
        """Return the kind of device."""
        return self.KIND

    def device(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the options of the device in the form of the module _domain_device."""
        raise NotImplementedError
