# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the report of the fleet as an HTML page, and return a summary."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible import constants as C

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import own_known
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
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import report_data
from ansible_collections.drover.compute.plugins.plugin_utils._report import html
from ansible_collections.drover.compute.plugins.plugin_utils._report.output_file import OutputFile
from ansible_collections.drover.compute.plugins.plugin_utils._report.parts import ReportView
from ansible_collections.drover.compute.plugins.plugin_utils._report.summary import report_lines
from ansible_collections.drover.compute.plugins.plugin_utils._store.database import bulk


class Args(SchedulerArgs, StoreArgs):
    """The arguments of this action."""

    path: str
    fleet: str | None
    plans: list[Any]


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {
        "path": {"type": "path", "default": "drover-report.html"},
        "fleet": {"type": "str"},
        "plans": {"type": "list", "elements": "dict", "default": []},
        **SCHEDULER_SPEC,
        **STORE_SPEC,
    }
    VARIABLES = ("service_down_time", "fleet")
    _requires_connection = False

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        # Only its owner may read a new page, because it shows the places of all instances.
        file, now = OutputFile("report", "drover_report", args["path"], 0o600), time.time()
        before = file.read()
        policy = policy_of(args, task_vars)
        with bulk.without_collection():
            store = self.store(args, task_vars)
            own = own_known.machines(store, self.variables(task_vars), self._templar).read()
            with store.read() as connection:
                view = report_data.read(
                    connection, policy, now, args["service_down_time"], args["plans"], own
                )
            after = html.page(view, now, args["fleet"])
        # Always write the page, because it shows its age. New times alone are not a change.
        changed = html.differ(before, after)
        lines = report_lines(view, now)
        # Show the lines here, because some output formats of Ansible fold the long lines of a
        # result.
        for line in lines:
            self.show(line)
        if not self._task.check_mode:
            file.write(after)
        result = {
            "changed": changed,
            "path": file.path,
            "summary": _make_summary(view),
            "table": lines,
        }
        if changed and self._task.diff:
            result["diff"] = [_difference(file.path, before, after)]
        return result


def _make_summary(view: ReportView) -> dict[str, object]:
    summary: dict[str, object] = {
        key: value for key, value in view["summary"].items() if key != "figures"
    }
    for each in view["summary"]["figures"]:
        summary.update({each["name"]: each["capacity"], f"{each['name']}_used": each["used"]})
        summary[f"{each['name']}_physical"] = each["physical"]
    return summary


def _difference(path: str, before: bytes, after: bytes) -> dict[str, object]:
    """Return an entry of ``diff``; name a long file only, as modules of Ansible do."""
    entry: dict[str, object] = {"before_header": path if before else "", "after_header": path}
    for name, content in (("before", before), ("after", after)):
        if len(content) > C.MAX_FILE_SIZE_FOR_DIFF:
            entry["dst_larger" if name == "before" else "src_larger"] = C.MAX_FILE_SIZE_FOR_DIFF
        else:
            entry[name] = content.decode("utf-8", "replace")
    return entry
