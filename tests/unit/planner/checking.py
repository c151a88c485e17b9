# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A checker of plans that shares no code with the planner: it carries plans out by the rules."""

from __future__ import annotations

CLASSES = {"VCPU": "vcpus", "MEMORY_MB": "memory_mb", "DISK_GB": "disk_gb"}


def check_moves(columns, instances, moves, drained=(), limits=None):
    """Carry out moves wave by wave: every destination is booked before any source is freed.

    :returns: ([error], {name: host} at the end).
    """
    limits = limits or {}
    row = {host: number for number, host in enumerate(columns["host"])}
    size = {each["name"]: each for each in instances}
    where = {each["name"]: each["host"] for each in instances}
    used = {rc: list(columns["resources"][rc]["used"]) for rc in CLASSES}
    groups = columns["server_groups"]
    errors = []

    def members_on(group, host, extra):
        return sum(
            1
            for name in size
            if size[name]["server_group"] == group and host in (where[name], extra.get(name))
        )

    for wave in sorted({move["wave"] for move in moves}):
        running = [move for move in moves if move["wave"] == wave]
        arriving = {move["name"]: move["host"] for move in running}
        for move in running:
            name, target = move["name"], move["host"]
            if where[name] != move["from_host"]:
                errors.append(f"{name} is on {where[name]}, not on {move['from_host']}")
            if target in drained or target == where[name]:
                errors.append(f"{name} may not go to {target}")
            if columns["disabled"][row[target]] or not columns["up"][row[target]]:
                errors.append(f"{target} takes nothing")
            if size[name].get("move_policy") in ("never", "shutdown"):
                errors.append(f"{name} may not move")
            for rc, key in CLASSES.items():
                used[rc][row[target]] += size[name][key]
        for move in running:
            target, group = move["host"], size[move["name"]]["server_group"]
            for rc in CLASSES:
                column = columns["resources"][rc]
                room = (column["total"][row[target]] - column["reserved"][row[target]]) * column[
                    "ratio"
                ][row[target]]
                if used[rc][row[target]] > room:
                    errors.append(
                        f"wave {wave}: {rc} of {target}: {used[rc][row[target]]} > {room}"
                    )
            apart = group and groups[group]["policy"] == "anti-affinity"
            if apart and members_on(group, target, arriving) > groups[group]["max_server_per_host"]:
                errors.append(f"wave {wave}: too many of {group} on {target}")
        for key, attribute in (("per_source", "from_host"), ("per_destination", "host")):
            for host in {move[attribute] for move in running}:
                if (
                    limits.get(key)
                    and sum(move[attribute] == host for move in running) > limits[key]
                ):
                    errors.append(f"wave {wave}: {key} of {host}")
        if limits.get("total") and len(running) > limits["total"]:
            errors.append(f"wave {wave}: {len(running)} moves")
        for group, kept in groups.items():
            moving = sum(size[move["name"]]["server_group"] == group for move in running)
            if kept.get("max_moving") and moving > kept["max_moving"]:
                errors.append(f"wave {wave}: {moving} of {group} move at once")
        for move in running:
            for rc, key in CLASSES.items():
                used[rc][row[where[move["name"]]]] -= size[move["name"]][key]
            where[move["name"]] = move["host"]
    return errors, where


def moved_to(columns, instances, where):
    """Return (columns, instances) of the same fleet with instances on other hosts."""
    row = {host: number for number, host in enumerate(columns["host"])}
    moved = [
        {**each, "host": where[each["name"]], "node": where[each["name"]]} for each in instances
    ]
    resources = {
        rc: {**column, "used": [0] * len(row)} for rc, column in columns["resources"].items()
    }
    for each in moved:
        for rc, key in CLASSES.items():
            resources[rc]["used"][row[each["host"]]] += each[key]
    return {
        **columns,
        "resources": resources,
        "instances": {each["uuid"]: row[each["host"]] for each in moved},
    }, moved
