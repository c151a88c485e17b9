# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attach a disk to an instance, detach it, or make it larger."""

from __future__ import annotations

from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.instance_device import (
    INSTANCE_SPEC,
    ONE_INSTANCE,
    TIMEOUT_SPEC,
    InstanceArgs,
    InstanceDeviceAction,
    TimeoutArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common import sizes
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.instance_devices import (
    DISK,
    GROWTH,
)

#: The state that makes a disk larger.
RESIZED = "resized"


class Args(InstanceArgs, TimeoutArgs):
    """The arguments of this action."""

    path: str | None
    size: Any
    format: str
    target: str | None
    bus: str
    readonly: bool


class ActionModule(InstanceDeviceAction[Args]):
    KIND = DISK
    TYPED = {**InstanceDeviceAction.TYPED, "size": "drover_disk_gb"}
    ARGUMENT_SPEC = {
        "path": {"type": "str"},
        "size": {"type": "raw"},
        "format": {"type": "str", "choices": ["qcow2", "raw"], "default": "qcow2"},
        "target": {"type": "str"},
        "bus": {
            "type": "str",
            "choices": ["virtio", "scsi", "usb", "sata", "ide"],
            "default": "virtio",
        },
        "readonly": {"type": "bool", "default": False},
        **INSTANCE_SPEC,
        **TIMEOUT_SPEC,
        "state": {"type": "str", "choices": ["present", "absent", RESIZED], "default": "present"},
    }
    REQUIREMENTS = {
        "required_one_of": [ONE_INSTANCE],
        "required_if": [
            ("state", "present", ["path"]),
            ("state", "absent", ["path"]),
            ("state", RESIZED, ["target", "size"]),
        ],
    }

    def kind(self, args: Args) -> str:
        return GROWTH if args["state"] == RESIZED else DISK

    def device(self, args: Args) -> dict[str, object]:
        size = (
            None if args["size"] is None else sizes.read("size", args["size"], sizes.GIB, least=1)
        )
        if args["state"] == RESIZED:
            if args["path"]:
                raise DroverError(
                    "A disk that is made larger has no path. Nothing was done: leave out"
                    " drover_disk_path (option path), and name the disk by drover_disk (option"
                    " target) alone, such as vda."
                )
            return {"target": args["target"], "size_gb": size}
        return {
            "size_gb": size,
            **{key: args[key] for key in ("path", "format", "target", "bus", "readonly")},
        }
