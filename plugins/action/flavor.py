# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create, change or delete a flavor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.kept_item import (
    KEPT_SPEC,
    KeptArgs,
    KeptItem,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common import sizes
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import check


class Args(KeptArgs):
    """The arguments of this action."""

    vcpus: int | None
    memory_mb: Any
    disk_gb: Any
    extra_specs: Any


class ActionModule(KeptItem[Args]):
    ARGUMENT_SPEC = {
        **KEPT_SPEC,
        "vcpus": {"type": "int"},
        "memory_mb": {"type": "raw"},
        "disk_gb": {"type": "raw"},
        "extra_specs": {"type": "dict"},
    }
    SECTION = "flavors"

    def item(self, args: Args) -> Mapping[str, object]:
        # Check here, so that a mistake is found before a request names the flavor.
        specs = check.extra_specs(args["extra_specs"] or {}, f"Flavor {args['name']}")
        given: Mapping[str, object] = args
        units = {
            key: unit
            for key, unit in (("memory_mb", sizes.MIB), ("disk_gb", sizes.GIB))
            if given[key] is not None
        }
        amounts = {
            key: sizes.read(f"Flavor {args['name']}: {key}", given[key], unit)
            for key, unit in units.items()
        }
        return {**args, **amounts, "extra_specs": specs}
