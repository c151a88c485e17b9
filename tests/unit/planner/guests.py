# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances as the store's read_host_instances returns them, and plans that are carried out step by
step."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._planner.drain import plan_drain
from ansible_collections.drover.compute.plugins.plugin_utils._report.plans import drain_lines
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.tests.unit.scheduler.fleets import CLASSES, fleet, uuid_of


def guest(name, host="kvm1", vcpus=1, memory_mb=64, disk_gb=1, state="running", **more):
    """One instance. ``group`` is its server group."""
    return {
        "name": name,
        "uuid": uuid_of(name),
        "host": host,
        "node": more.get("node", host),
        "vcpus": vcpus,
        "memory_mb": memory_mb,
        "disk_gb": disk_gb,
        "state": state,
        "server_group": more.get("group"),
        "availability_zone": None,
        "persistent": True,
        "disks": [],
        "hostdevs": [],
        "own_devices": [],
        "managed_save": False,
        "snapshots": False,
        **more,
    }


def drain(nodes, guests, host="kvm1", groups=None, policy=None, **more):
    """Return (plan, columns) of a drain of one host of a fleet; the plan with its lines, as the
    lookup returns it."""
    columns = fleet(*nodes, instances=guests, groups=groups)
    here = [each for each in guests if each["host"] == host]
    plan = plan_drain(columns, here, host, Policy.from_mapping(policy), **more)
    return {**plan, "lines": drain_lines(plan)}, columns


def act_out(plan, columns, guests, check):
    """Carry a plan out in the worst way: in each wave every destination is booked before any
    source is freed, and instances arrive in any order. Calls check(used, where) at each step.

    ``used``: {class: list}, ``where``: {name: set of hosts}.
    """
    used = {rc: list(columns["resources"][rc]["used"]) for rc in CLASSES}
    where = {each["name"]: {each["host"]} for each in guests}
    size = {each["name"]: each for each in guests}
    rows = {(host, node): i for i, (host, node) in enumerate(zip(columns["host"], columns["node"]))}
    check(used, where)
    for wave in range(1, plan["waves"] + 1):
        moves = [move for move in plan["moves"] if move["wave"] == wave]
        for move in moves:
            for rc, key in CLASSES.items():
                used[rc][rows[move["host"], move["node"]]] += size[move["name"]][key]
            where[move["name"]].add(move["host"])
            check(used, where)
        for move in moves:
            for rc, key in CLASSES.items():
                used[rc][rows[move["from_host"], move["from_node"]]] -= size[move["name"]][key]
            where[move["name"]].discard(move["from_host"])
            check(used, where)
    return used, where
