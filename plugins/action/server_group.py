# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create or delete a server group."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.kept_item import (
    KEPT_SPEC,
    KeptArgs,
    KeptItem,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement import server_groups


class ActionModule(KeptItem[KeptArgs]):
    ARGUMENT_SPEC = {
        **KEPT_SPEC,
        "policy": {"type": "str", "choices": list(server_groups.POLICIES)},
        "max_server_per_host": {"type": "int"},
        "max_moving": {"type": "int"},
    }
    REQUIREMENTS = {"required_if": [["state", "present", ["policy"]]]}
    SECTION = "server_groups"
