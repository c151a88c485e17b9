# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show the quotas and the usage of projects."""

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
from ansible_collections.drover.compute.plugins.plugin_utils._placement import quotas
from ansible_collections.drover.compute.plugins.plugin_utils._report.projects import (
    projects_table,
    projects_view,
)


class Args(StoreArgs):
    """The arguments of this action."""

    project: str | None


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {"project": {"type": "str"}, **STORE_SPEC}
    _requires_connection = False

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        with self.store(args, task_vars).read() as connection:
            found = quotas.listing(connection, args["project"] or None)
        return {"quotas": found, "table": projects_table(projects_view(found))}
