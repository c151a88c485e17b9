# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create, change or delete a host aggregate."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.kept_item import (
    KEPT_SPEC,
    KeptArgs,
    KeptItem,
)


class ActionModule(KeptItem[KeptArgs]):
    ARGUMENT_SPEC = {
        **KEPT_SPEC,
        "metadata": {"type": "dict"},
        "hosts": {"type": "list", "elements": "str"},
        "remove_hosts": {"type": "list", "elements": "str"},
    }
    SECTION = "aggregates"
