# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List every way to meet a request for resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    DroverAction,
    StoreArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement.candidates import (
    query_string,
    response,
)


class Args(StoreArgs):
    """The arguments of this action."""

    query: Any


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {"query": {"type": "raw", "required": True}, **STORE_SPEC}
    _requires_connection = False

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        wanted = query_string.read(args["query"])
        with self.store(args, task_vars).read() as connection:
            return {**response.answer(connection, wanted)}
