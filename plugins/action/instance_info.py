# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show instances and their hosts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import node_labels
from ansible_collections.drover.compute.plugins.plugin_utils._common.plain import to_plain
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import resize_destination
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.instance_migrations import (
    by_policy,
)
from ansible_collections.drover.compute.plugins.plugin_utils._report import text
from ansible_collections.drover.compute.plugins.plugin_utils._report.hosts import EMPTY
from ansible_collections.drover.compute.plugins.plugin_utils._report.instance import (
    console,
    instance_lines,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.database import clock
from ansible_collections.drover.compute.plugins.plugin_utils._store.engine import Connection
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import (
    compute_nodes,
    services,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import (
    instance_lookup,
    instances,
    migrations_open,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import (
    labels as label_rows,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.reports import hosts
from ansible_collections.drover.compute.plugins.plugin_utils._tracker.checked_facts import STATES

#: The number of newest migrations of an instance in the result.
MIGRATIONS = 5
#: Options that narrow the list, besides the options with names of instances.
FILTERS = ("host", "state", "project")


class Args(SelectorArgs, StoreArgs):
    """The arguments of this action."""

    host: str | None
    name: str | None
    uuid: str | None
    instances: list[Any] | None
    allow_unknown: bool
    state: str | None
    project: str | None
    show: bool


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {
        "host": {"type": "str"},
        "name": {"type": "str"},
        "uuid": {"type": "str"},
        "instances": {"type": "list", "elements": "raw"},
        "allow_unknown": {"type": "bool", "default": False},
        "state": {"type": "str", "choices": [*STATES, "building", "missing"]},
        "project": {"type": "str"},
        **SELECTOR_SPEC,
        "show": {"type": "bool", "default": False},
        **STORE_SPEC,
    }
    _requires_connection = False

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        selector = selector_of(args, "instances", "name", "uuid")
        with self.store(args, task_vars).read() as connection:
            now = clock.now(connection)
            if args["host"] is not None:
                services.get(connection, args["host"])
            listed: Sequence[Mapping[str, Any]] = instances.listing(
                connection, args["host"], args["name"], args["uuid"], selector
            )
            given: Mapping[str, object] = args
            for key in FILTERS[1:]:
                if given[key] is not None:
                    listed = [each for each in listed if each[key] == given[key]]
            addresses = instances.addresses(connection, [each["uuid"] for each in listed])
            chosen = [{**each, "addresses": addresses.get(each["uuid"], [])} for each in listed]
            unknown: list[Any] | None = [] if args["allow_unknown"] else None
            result = {}
            if args["instances"] is not None and selector is None:
                chosen = self._read_named_instances(connection, chosen, args["instances"], unknown)
                result["lines"] = self._lines(connection, chosen, now, task_vars)
            nodes = [
                *compute_nodes.by_host(
                    connection, {each["host"] for each in chosen if each["host"]}
                )
            ]
            pools = instances.pool_disks(connection, [each["uuid"] for each in chosen])
            shown = [{**each, "pool_disks": pools.get(each["uuid"])} for each in chosen]
            moves = migrations_open.under_way(connection, [each["uuid"] for each in chosen])
            table = [*text.instances_table(shown, nodes), *text.moving_lines(moves, now)]
            if not chosen and not services.any_host(connection):
                table = [EMPTY]
            elif selector is not None and not chosen and not any(given[key] for key in FILTERS):
                table = [label_rows.no_instance(connection, selector)]
        if args["show"]:
            for line in table:
                self.show(line)
        return {"unknown": unknown or [], "instances": chosen, "table": table, **result}

    def _lines(
        self,
        connection: Connection,
        found: Iterable[Mapping[str, Any]],
        now: float,
        task_vars: Variables,
    ) -> list[str]:
        """Return some lines on each instance."""
        states = {each["host"]: each for each in hosts.states(connection, now)}
        lines: list[str] = []
        label = node_labels(
            compute_nodes.by_host(connection, {each["host"] for each in found if each["host"]})
        )
        pools = instances.pool_disks(connection, [each["uuid"] for each in found])
        for instance in found:
            command = console(instance, _variables(task_vars, instance["host"]))
            lines += [
                "",
                *instance_lines(
                    {**instance, "pool_disks": pools.get(instance["uuid"])},
                    states.get(instance["host"]),
                    command,
                    now,
                    label,
                ),
            ]
        return lines[1:]

    def _read_named_instances(
        self,
        connection: Connection,
        found: Iterable[Mapping[str, Any]],
        wanted: list[Any],
        unknown: list[Any] | None,
    ) -> list[dict[str, Any]]:
        """Return the named instances, in that order, with the properties for operations on them."""
        listed = {each["uuid"]: each for each in found}
        rows = [
            row
            for row in instance_lookup.find(connection, wanted, unknown)
            if row["uuid"] in listed
        ]
        return [
            to_plain(
                {
                    **listed[row["uuid"]],
                    "uri": row["uri"],
                    "flavor": row["flavor"],
                    "nodes": row["nodes"],
                    "migration": (
                        row["migration"]
                        and {
                            key: value
                            for key, value in row["migration"].items()
                            if key != "details"
                        }
                    ),
                    "migrations": instances.newest_migrations(connection, row["uuid"], MIGRATIONS),
                    "asked": instance_lookup.as_named(row),
                    "request": resize_destination.request(connection, row),
                    **by_policy(row),
                }
            )
            for row in rows
        ]


def _variables(task_vars: Variables, host: str | None) -> Mapping[str, Any]:
    """Return the variables of a host; empty if the inventory does not have it.

    Ansible's own get() would return an undefined value.
    """
    by_host: Any = task_vars.get("hostvars") or {}
    if host is None or host not in by_host:
        return {}
    return by_host[host]
