# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show allocations and their consumers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    DroverAction,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common import validation
from ansible_collections.drover.compute.plugins.plugin_utils._placement import usages

FILTERS = ("provider", "project", "user", "consumer_type")


class ActionModule(DroverAction):
    ARGUMENT_SPEC = {
        "consumers": {"type": "list", "elements": "str", "aliases": ["consumer"]},
        "provider": {"type": "str"},
        "project": {"type": "str"},
        "user": {"type": "str"},
        "consumer_type": {"type": "str"},
        **STORE_SPEC,
    }
    _requires_connection = False

    def act(self, args: dict[str, Any], task_vars: Mapping[str, Any]) -> Mapping[str, Any]:
        consumers = args["consumers"]
        if consumers is not None:
            consumers = [validation.read_uuid("consumers", each) for each in consumers]
        with self.store(args, task_vars).read() as connection:
            return usages.read(connection, consumers, **{name: args[name] for name in FILTERS})
