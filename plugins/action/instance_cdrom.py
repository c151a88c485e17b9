# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Insert a CD-ROM medium into a drive of an instance, or eject it."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.instance_device import (
    INSTANCE_SPEC,
    ONE_INSTANCE,
    InstanceArgs,
    InstanceDeviceAction,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.instance_devices import (
    CDROM,
)


class Args(InstanceArgs):
    """The arguments of this action."""

    path: str | None
    target: str | None


class ActionModule(InstanceDeviceAction[Args]):
    KIND = CDROM
    ARGUMENT_SPEC = {
        "path": {"type": "str"},
        "target": {"type": "str"},
        **INSTANCE_SPEC,
    }
    REQUIREMENTS = {"required_one_of": [ONE_INSTANCE, ["path", "target"]]}

    def device(self, args: Args) -> dict[str, object]:
        if args["state"] == "present" and not args["path"]:
            raise DroverError(
                "The medium has no path. Nothing was done: give the path of its image,"
                " drover_disk_path (option path)."
            )
        return {key: args[key] for key in ("path", "target")}
