# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show resource providers."""

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
from ansible_collections.drover.compute.plugins.plugin_utils._common import validation
from ansible_collections.drover.compute.plugins.plugin_utils._placement import (
    provider_info,
    provider_query,
)


class Args(StoreArgs):
    """The arguments of this action."""

    name: str | None
    uuid: str | None
    in_tree: str | None
    member_of: Any
    required: Any
    resources: Any


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {
        "name": {"type": "str"},
        "uuid": {"type": "str"},
        "in_tree": {"type": "str"},
        "member_of": {"type": "raw"},
        "required": {"type": "raw"},
        "resources": {"type": "raw"},
        **STORE_SPEC,
    }
    _requires_connection = False

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        group = provider_query.parse(args["required"], args["member_of"], args["resources"])
        uuids = {
            name: None if args[name] is None else validation.read_uuid(name, args[name])
            for name in ("uuid", "in_tree")
        }
        with self.store(args, task_vars).read() as connection:
            found = provider_info.listing(connection, name=args["name"], group=group, **uuids)
        return {"resource_providers": found}
