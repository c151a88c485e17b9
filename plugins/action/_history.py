# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record the totals of the fleet for today, and the fact that all hosts have been read."""

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
from ansible_collections.drover.compute.plugins.plugin_utils._store.database import clock
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import (
    compute_nodes,
    continuity,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.reports import history, totals
from ansible_collections.drover.compute.plugins.plugin_utils._store.runs import actions


class Args(StoreArgs):
    """The arguments of this action."""

    inventory_hosts: list[str]


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {
        "inventory_hosts": {"type": "list", "elements": "str", "default": []},
        **STORE_SPEC,
    }
    _requires_connection = False

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        with self.store(args, task_vars).write() as connection:
            now = clock.now(connection)
            history.keep(connection, totals.read(connection, ()), now)
            if not self._task.check_mode:
                actions.note(connection, "run", "discovery")
                continuity.note_all_read(connection, args["inventory_hosts"])
            arrivals = compute_nodes.unseen_arrivals(connection, now)
        # Figures of use do not count as a change, as in a discovery.
        return {"changed": False, "day": int(now // history.DAY), "unseen_arrivals": arrivals}
