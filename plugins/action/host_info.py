# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show hosts with their services, compute nodes and capacity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    DroverAction,
    StoreArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.selecting import (
    SELECTOR_SPEC,
    SelectorArgs,
    selector_of,
)
from ansible_collections.drover.compute.plugins.plugin_utils._records.hosts import (
    HostStatus,
    ListedPool,
)
from ansible_collections.drover.compute.plugins.plugin_utils._report.hosts import hosts_table
from ansible_collections.drover.compute.plugins.plugin_utils._report.pools import pools_table
from ansible_collections.drover.compute.plugins.plugin_utils._store.database import clock
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import services
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import labels
from ansible_collections.drover.compute.plugins.plugin_utils._store.reports import hosts
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import pools_listing


class Args(SelectorArgs, StoreArgs):
    """The arguments of this action."""

    host: str | None
    capacity: bool
    service_down_time: int
    show: bool


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {
        "host": {"type": "str", "aliases": ["name"]},
        **SELECTOR_SPEC,
        "capacity": {"type": "bool", "default": True},
        "service_down_time": {"type": "int", "default": 0},
        "show": {"type": "bool", "default": False},
        **STORE_SPEC,
    }
    VARIABLES = ("service_down_time",)
    _requires_connection = False

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        host: str | None = args["host"]
        result: dict[str, object] = {}
        selector = selector_of(args, "host")
        rows: Sequence[HostStatus]
        pools: Sequence[ListedPool] = ()
        with self.store(args, task_vars).read() as connection:
            now = clock.now(connection)
            if not args["capacity"]:
                rows = hosts.states(connection, now, args["service_down_time"], host, selector)
                if host is not None and not rows:
                    raise services.unknown_host(connection, host)
            else:
                rows = listed = hosts.listing(
                    connection, now, args["service_down_time"], selector=selector, host=host
                )
                if host is not None:
                    services.get(connection, host)
                    result["resources"] = hosts.resource_rows(connection, host, listed)
                    pools = pools_listing.of_host(connection, host)
                    result["storage_pools"] = pools
            table = hosts_table(rows, now) + pools_table(pools)
            if selector is not None and not rows:
                table = [labels.no_host(connection, selector)]
        if args["show"]:
            for line in table:
                self.show(line)
        return {"hosts": rows, "table": table, **result}
