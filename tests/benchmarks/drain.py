# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan a drain of a fleet in the format drainbench/1: fleet on standard input, plan on standard
output.

    drain.py [--extra-moves 64] [--solver-seconds 0] < fleet.json > plan.json

The planner is the playbook's own, plan_drain; the program turns the fleet into the data of a store.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import sys
import time

# The checkout's own conftest.py makes the checkout importable as a collection.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
importlib.import_module("conftest")

from ansible_collections.drover.compute.plugins.plugin_utils._planner.drain import (
    plan_drain,
)  # noqa: E402
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import (
    Policy,
)  # noqa: E402

CLASSES = {"VCPU": "vcpus", "MEMORY_MB": "mem_mb", "DISK_GB": "disk_gb"}


def columns_of(fleet):
    """Return the fleet as read_fleet of the store would return it."""
    hosts = sorted(fleet["hosts"], key=lambda host: host["name"])
    row = {host["name"]: number for number, host in enumerate(hosts)}
    size = len(hosts)
    used = {rc: [0] * size for rc in CLASSES}
    groups = {}
    for vm in fleet["vms"]:
        if len(vm["groups"]) > 1:
            raise SystemExit(
                f"{vm['name']} is in {len(vm['groups'])} groups; an instance is in one server group"
                " at most."
            )
        for rc, key in CLASSES.items():
            used[rc][row[vm["host"]]] += vm[key]
        for group in vm["groups"]:
            groups.setdefault(group, []).append(vm["name"])

    def column(rc, total, reserved, ratio):
        return {"total": total, "reserved": reserved, "ratio": [ratio] * size, "used": used[rc]}

    nothing = [0] * size
    names = [host["name"] for host in hosts]
    return {
        "host": names,
        "node": names,
        "uuid": names,
        "cell": [None] * size,
        "zones": [[host["zone"]] for host in hosts],
        "disabled": [False] * size,
        "disabled_reason": [None] * size,
        "up": [host["status"] == "up" for host in hosts],
        "down_reason": [None if host["status"] == "up" else host["status"] for host in hosts],
        "disk_available_least": [None] * size,
        "num_instances": nothing,
        "traits": [host["traits"] for host in hosts],
        "resources": {
            "VCPU": column(
                "VCPU", [host["threads"] for host in hosts], nothing, fleet["limits"]["cpu_ratio"]
            ),
            "MEMORY_MB": column(
                "MEMORY_MB",
                [host["mem_mb"] for host in hosts],
                [host["mem_reserved_mb"] for host in hosts],
                1.0,
            ),
            "DISK_GB": column("DISK_GB", [host["disk_gb"] for host in hosts], nothing, 1.0),
        },
        "instances": {vm["name"]: row[vm["host"]] for vm in fleet["vms"]},
        "instance_names": {vm["name"]: [vm["name"]] for vm in fleet["vms"]},
        "server_groups": {
            name: {
                "uuid": name,
                "policy": "anti-affinity",
                "max_server_per_host": 1,
                "members": members,
            }
            for name, members in groups.items()
        },
    }


def instance_of(vm):
    """Return a VM as read_host_instances of the store would return it."""
    return {
        "uuid": vm["name"],
        "name": vm["name"],
        "host": vm["host"],
        "node": vm["host"],
        "state": "running",
        "vcpus": vm["vcpus"],
        "memory_mb": vm["mem_mb"],
        "disk_gb": vm["disk_gb"],
        "server_group": vm["groups"][0] if vm["groups"] else None,
        "required_traits": vm["requires"],
        "dirty_mib": vm["dirty_mb_s"],
        "move_policy": "never" if vm["pinned"] else None,
        "persistent": True,
    }


def answer(fleet, extra_moves, solver_seconds):
    """Return the plan in the format of the benchmark."""
    drained = set(fleet["drain"])
    instances = [instance_of(vm) for vm in fleet["vms"]]
    limits = {
        "per_source": fleet["limits"]["parallel_per_host"],
        "per_destination": fleet["limits"]["parallel_per_host"],
        "total": fleet["limits"]["parallel_total"],
    }
    plan = plan_drain(
        columns_of(fleet),
        [each for each in instances if each["host"] in drained],
        fleet["drain"],
        Policy.from_mapping(None),
        limits,
        others=[each for each in instances if each["host"] not in drained],
        extra_moves=extra_moves,
        solver_seconds=solver_seconds,
    )
    return {
        "status": plan["status"],
        "moves": [
            {
                "vm": move["name"],
                "from": move["from_host"],
                "to": move["host"],
                "wave": move["wave"],
            }
            for move in plan["moves"]
        ],
        "blocked": [
            {
                "vm": each["name"],
                "why": each["reason"],
                "nearest": each["nearest"],
                "way_out": each["way_out"],
            }
            for each in plan["unmovable"]
        ],
        "method": plan["method"],
        "proof": plan["proof"],
        "waves": plan["waves"],
        "expected_seconds": plan["seconds"],
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--extra-moves", type=int, default=64, help="most moves of instances of other hosts [64]"
    )
    parser.add_argument(
        "--solver-seconds", type=float, default=0, help="time for the exact model, 0: not used [0]"
    )
    options = parser.parse_args()
    fleet = json.load(sys.stdin)
    fleet.pop("truth", None)
    began, busy = time.perf_counter(), time.process_time()
    plan = answer(fleet, options.extra_moves, options.solver_seconds)
    plan["wall_s"] = round(time.perf_counter() - began, 4)
    plan["cpu_s"] = round(time.process_time() - busy, 4)
    json.dump(plan, sys.stdout)
    print()


if __name__ == "__main__":
    main()
