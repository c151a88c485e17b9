# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attach a network interface to an instance, or detach it."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.instance_device import (
    INSTANCE_SPEC,
    ONE_INSTANCE,
    TIMEOUT_SPEC,
    InstanceArgs,
    InstanceDeviceAction,
    TimeoutArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._common.validation import (
    did_you_mean,
    shown,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.instance_devices import (
    INTERFACE,
)
from ansible_collections.drover.compute.plugins.plugin_utils._definitions.hardware_fields import (
    NETWORK_MODELS,
)


class Args(InstanceArgs, TimeoutArgs):
    """The arguments of this action."""

    network: str | None
    bridge: str | None
    mac: str | None
    model: str


class ActionModule(InstanceDeviceAction[Args]):
    KIND = INTERFACE
    ARGUMENT_SPEC = {
        "network": {"type": "str"},
        "bridge": {"type": "str"},
        "mac": {"type": "str"},
        "model": {"type": "str", "default": "virtio"},
        **INSTANCE_SPEC,
        **TIMEOUT_SPEC,
    }
    REQUIREMENTS = {
        "required_one_of": [ONE_INSTANCE, ["network", "bridge", "mac"]],
        "mutually_exclusive": [["network", "bridge"]],
    }

    def device(self, args: Args) -> dict[str, object]:
        if args["state"] == "present" and not (args["network"] or args["bridge"]):
            raise DroverError(
                "The new interface has neither a network nor a bridge. Nothing was done: give one"
                " of them."
            )
        model = args["model"]
        if args["state"] == "present" and model not in NETWORK_MODELS:
            raise DroverError(
                f"There is no model {shown(model)} of a network"
                f" card{did_you_mean(model, NETWORK_MODELS)}. Nothing was done: correct model."
            )
        return {key: args[key] for key in ("network", "bridge", "mac", "model")}
