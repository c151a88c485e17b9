# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show allocations and their consumers."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    DroverAction,
    StoreArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common import validation
from ansible_collections.drover.compute.plugins.plugin_utils._placement import usages


class Args(StoreArgs):
    """The arguments of this action."""

    consumers: list[str] | None
    provider: str | None
    project: str | None
    user: str | None
    consumer_type: str | None


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {
        "consumers": {"type": "list", "elements": "str", "aliases": ["consumer"]},
        "provider": {"type": "str"},
        "project": {"type": "str"},
        "user": {"type": "str"},
        "consumer_type": {"type": "str"},
        **STORE_SPEC,
    }
    _requires_connection = False

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        consumers = args["consumers"]
        if consumers is not None:
            consumers = [validation.read_uuid("consumers", each) for each in consumers]
        with self.store(args, task_vars).read() as connection:
            return usages.read(
                connection,
                consumers,
                args["provider"],
                args["project"],
                args["user"],
                args["consumer_type"],
            )
