# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show the recorded actions, with their users."""

from __future__ import annotations

import calendar
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
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._report.history import history_table
from ansible_collections.drover.compute.plugins.plugin_utils._store.reports.history import DAY
from ansible_collections.drover.compute.plugins.plugin_utils._store.runs import actions


class Args(StoreArgs):
    """The arguments of this action."""

    instances: list[str]
    host: str | None
    day: str | None
    rows: int
    show: bool


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {
        "instances": {"type": "list", "elements": "str", "default": []},
        "host": {"type": "str"},
        "day": {"type": "str"},
        "rows": {"type": "int", "default": 50},
        "show": {"type": "bool", "default": False},
        **STORE_SPEC,
    }
    _requires_connection = False

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        days = None if args["day"] in (None, "") else _day(args["day"])
        names = [each.strip() for each in args["instances"] if each.strip()]
        with self.store(args, task_vars).read() as connection:
            rows = actions.read(connection, args["rows"], names, args["host"], days)
        table = history_table(rows)
        if args["show"]:
            for line in table:
                self.show(line)
        return {"actions": rows, "table": table}


def _day(text: str) -> tuple[float, float]:
    """Return the begin and the end of a day in UTC (seconds since 1970).

    :raises DroverError: the text is not a date.
    """
    try:
        begin = calendar.timegm(time.strptime(text, "%Y-%m-%d"))
    except ValueError:
        raise DroverError(
            f"The day is {text!r}. Write it as YEAR-MONTH-DAY, such as 2026-11-27; it is a day in"
            " UTC."
        ) from None
    return begin, begin + DAY
