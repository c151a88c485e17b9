# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the figures of the fleet as OpenMetrics."""

from __future__ import annotations

import time
from collections.abc import Mapping

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    DroverAction,
    StoreArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.scheduler_options import (
    SCHEDULER_SPEC,
    SchedulerArgs,
    policy_of,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import metrics_data
from ansible_collections.drover.compute.plugins.plugin_utils._report import metrics
from ansible_collections.drover.compute.plugins.plugin_utils._report.output_file import OutputFile


class Args(SchedulerArgs, StoreArgs):
    """The arguments of this action."""

    path: str | None


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {"path": {"type": "path"}, **SCHEDULER_SPEC, **STORE_SPEC}
    VARIABLES = ("service_down_time",)
    _requires_connection = False

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        policy = policy_of(args, task_vars)
        with self.store(args, task_vars).read() as connection:
            figures = metrics_data.read(connection, policy, time.time(), args["service_down_time"])
        content = metrics.text(figures)
        result: dict[str, object] = {"changed": False, "path": None, "metrics": content.decode()}
        if args["path"]:
            # The collector of node_exporter reads it, and runs as another user.
            file = OutputFile("metrics file", "drover_metrics", args["path"], 0o644)
            result.update(path=file.path, changed=metrics.differ(file.read(), content))
            if not self._task.check_mode:
                file.write(content)
        return result
