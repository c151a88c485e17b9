# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create, change or delete a resource provider."""

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
from ansible_collections.drover.compute.plugins.plugin_utils._placement import (
    classes_and_traits,
    resource_providers,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement.provider_info import (
    ProviderDescription,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.engine import Connection


class Args(StoreArgs):
    """The arguments of this action."""

    name: str | None
    uuid: str | None
    state: str
    parent: str | None
    inventories: Any
    traits: list[str] | None
    aggregates: list[str] | None
    generation: int | None


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {
        "name": {"type": "str"},
        "uuid": {"type": "str"},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "parent": {"type": "str"},
        "inventories": {"type": "dict"},
        "traits": {"type": "list", "elements": "str"},
        "aggregates": {"type": "list", "elements": "str"},
        "generation": {"type": "int"},
        **STORE_SPEC,
    }
    REQUIREMENTS = {"required_one_of": [["name", "uuid"]]}
    _requires_connection = False

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        before: ProviderDescription | None
        after: ProviderDescription | None = None
        warnings: list[str] = []
        with self.store(args, task_vars).write() as connection:
            if args["state"] == "absent":
                before = resource_providers.delete(
                    connection, args["name"], args["uuid"], args["generation"]
                )
            else:
                warnings = self._assumed(connection, args) if self._task.check_mode else []
                before, after, more = resource_providers.ensure(
                    connection,
                    args["name"],
                    args["uuid"],
                    args["parent"],
                    args["inventories"],
                    args["traits"],
                    args["aggregates"],
                    args["generation"],
                )
                warnings += more
        result: dict[str, object] = {"changed": before != after}
        if after is not None:
            result["resource_provider"] = after
        if warnings:
            result["warnings"] = warnings
        if self._task.diff:
            name = (after or before or args)["name"]
            result["diff"] = [
                {
                    "before": before or {},
                    "after": after or {},
                    "before_header": name,
                    "after_header": name,
                }
            ]
        return result

    @staticmethod
    def _assumed(connection: Connection, args: Args) -> list[str]:
        where = f"Resource provider {args['name'] or args['uuid']}"
        kinds = (
            (classes_and_traits.RESOURCE_CLASS, args["inventories"]),
            (classes_and_traits.TRAIT, args["traits"]),
        )
        return [
            text
            for kind, names in kinds
            for text in classes_and_traits.assume(connection, kind, names or (), where)
        ]
