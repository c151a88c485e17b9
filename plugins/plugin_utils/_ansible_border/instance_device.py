# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base class and options of instance_disk, instance_interface and instance_cdrom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict, TypeVar

from .._conductor.instance_devices import DeviceRequest, InstanceDevices
from .action import STORE_SPEC, StoreArgs
from .conducting import ConductorAction
from .options import OptionSpec, Variables

#: The options of all three.
INSTANCE_SPEC: dict[str, OptionSpec] = {
    "name": {"type": "str"},
    "uuid": {"type": "str"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    **STORE_SPEC,
}


class InstanceArgs(StoreArgs):
    """The values of the options of INSTANCE_SPEC."""

    name: str | None
    uuid: str | None
    state: str


#: The options of actions on devices that a guest must release.
TIMEOUT_SPEC: dict[str, OptionSpec] = {"timeout": {"type": "int", "default": 60}}


class TimeoutArgs(TypedDict):
    """The values of the options of TIMEOUT_SPEC."""

    timeout: int


ONE_INSTANCE = ["name", "uuid"]


#: The TypedDict of the arguments of an action.
Device = TypeVar("Device", bound=InstanceArgs)


class InstanceDeviceAction(ConductorAction[Device]):
    """An action on the controller that attaches, detaches or enlarges a device of an instance."""

    _requires_connection = False
    TYPED = {"path": "drover_disk_path", "target": "drover_disk", "name": "drover_instance"}
    #: The kind of device, see DeviceRequest.
    KIND = ""

    def conduct(self, args: Device, task_vars: Variables) -> Mapping[str, object]:
        # The value may be a name or a uuid, because playbooks have one variable for both.
        name, uuid, timeout = args["name"], args["uuid"], args.get("timeout")
        both = {"name": name, "uuid": uuid}
        instance = (
            name or ""
            if uuid is None
            else {key: value for key, value in both.items() if value is not None}
        )
        request = DeviceRequest(
            instance,
            self.kind(args),
            self.device(args),
            args["state"] != "absent",
            timeout if isinstance(timeout, int) else 0,
        )
        result = InstanceDevices(self.ports(args, task_vars), request, self._task.check_mode).run()
        if not self._task.diff:
            result.pop("diff", None)
        return result

    def kind(self, args: Device) -> str:
        """Return the kind of device."""
        return self.KIND

    def device(self, args: Device) -> dict[str, object]:
        """Return the options of the device in the form of the module _domain_device."""
        raise NotImplementedError
