# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Set or remove the quotas of a project."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    DroverAction,
    StoreArgs,
    difference,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common import sizes
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._common.resource_classes import UNITS
from ansible_collections.drover.compute.plugins.plugin_utils._common.validation import (
    read_whole,
    shown,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement import classes_and_traits
from ansible_collections.drover.compute.plugins.plugin_utils._placement.quotas import NOVA, RAM
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.request_fields import (
    is_line,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import quotas

#: The value that removes a limit, as in Nova.
UNLIMITED = -1


class Args(StoreArgs):
    """The arguments of this action."""

    project: str
    state: str
    instances: Any
    cores: Any
    ram: Any
    resources: Any


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {
        "project": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "instances": {"type": "raw"},
        "cores": {"type": "raw"},
        "ram": {"type": "raw"},
        "resources": {"type": "dict", "default": {}},
        **STORE_SPEC,
    }
    _requires_connection = False

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        project = args["project"]
        if not is_line(project):
            raise DroverError(
                f"project must be the name of a project, in one line of text, not {shown(project)}."
            )
        who = f"Quota of project {project}"
        given: Mapping[str, object] = args
        limits = {
            name: _limit(f"{who}: {name}", name, given[name])
            for name in NOVA
            if given[name] is not None
        }
        resource_limits = {
            name: _limit(f"{who}: resources: {name}", name, value)
            for name, value in (args["resources"] or {}).items()
        }
        warnings: list[str] = []
        after: Mapping[str, object] = {}
        with self.store(args, task_vars).write() as connection:
            if self._task.check_mode:
                warnings = classes_and_traits.assume(
                    connection,
                    classes_and_traits.RESOURCE_CLASS,
                    resource_limits,
                    f"{who}: resources",
                )
            classes_and_traits.check_known(
                connection, classes_and_traits.RESOURCE_CLASS, resource_limits, f"{who}: resources"
            )
            before = quotas.read(connection, [project]).get(project)
            if args["state"] == "absent":
                result: dict[str, object] = {"changed": quotas.delete(connection, project)}
            else:
                if not limits and not resource_limits:
                    raise DroverError(
                        f"{who}: no limit is given. Set instances, cores, ram or resources, or"
                        " remove all limits of the project with state absent."
                    )
                after, changed = quotas.ensure(connection, project, {**limits, **resource_limits})
                result = {"changed": changed, "quota": {"project": project, "limits": after}}
        if warnings:
            result["warnings"] = warnings
        if self._task.diff:
            result["diff"] = [difference(project, before, after or None)]
        return result


def _limit(where: str, name: str, value: Any) -> int | None:
    """Return a limit: a number, or a size for a class in MiB or GiB; None removes the limit."""
    if value is None or str(value).strip() == str(UNLIMITED):
        return None
    unit = sizes.MIB if name == RAM else UNITS.get(name)
    if unit in (sizes.MIB, sizes.GIB):
        return sizes.read(where, value, unit)
    return read_whole(where, value)
