# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attach a disk to an instance, or detach it."""

from __future__ import annotations

from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils import _sizes as sizes
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.instance_device import (
    INSTANCE_SPEC,
    ONE_INSTANCE,
    TIMEOUT_SPEC,
    InstanceDeviceAction,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.instance_devices import DISK


class ActionModule(InstanceDeviceAction):
    KIND = DISK
    ARGUMENT_SPEC = {
        "path": {"type": "str", "required": True},
        "size": {"type": "raw"},
        "format": {"type": "str", "choices": ["qcow2", "raw"], "default": "qcow2"},
        "target": {"type": "str"},
        "bus": {"type": "str", "choices": ["virtio", "scsi", "usb", "sata", "ide"], "default": "virtio"},
        "readonly": {"type": "bool", "default": False},
        **INSTANCE_SPEC,
        **TIMEOUT_SPEC,
    }
    REQUIREMENTS = {"required_one_of": [ONE_INSTANCE]}

    def device(self, args: dict[str, Any]) -> dict[str, Any]:
        size = None if args["size"] is None else sizes.read("size", args["size"], sizes.GIB, least=1)
        return {"size_gb": size, **{key: args[key] for key in ("path", "format", "target", "bus", "readonly")}}
