# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare rolling batches and rebalancing with Ganeti's hroller and hbal on the same seeded
clusters.

    htools.py [--seeds 10] [--hosts 8,20,40]

Needs Debian's package ganeti-htools. Disks are on storage that all nodes share (template ext).
hroller: the number of reboot groups. hbal: its final score, against the score that it gives to our
final state, with at most as many moves as it made itself.
"""

from __future__ import annotations

import argparse
import importlib
import pathlib
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
importlib.import_module("conftest")

from ansible_collections.drover.compute.plugins.plugin_utils._planner.rebalance import (
    plan_rebalance,  # noqa: E402
)
from ansible_collections.drover.compute.plugins.plugin_utils._planner.rolling import (
    plan_rolling,
)  # noqa: E402
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import (
    Policy,
)  # noqa: E402

RATIO = 4
#: hbal uses vCPUs per CPU, from 0 to RATIO; we use the share of the usable vCPUs.
WEIGHTS = {"VCPU": RATIO}
POLICY = "|128,1,1024,1,1,1|128,1,1024,1,1,1;1048576,256,1048576,16,8,64|ext|4.0|64.0"


def cluster(seed, hosts, load):
    """Return uneven nodes [(name, cpus, MiB, GiB)] and instances [(name, MiB, GiB, vcpus,
    node)].
    """
    draw = random.Random(seed)
    nodes = [
        (f"node{i:03d}", draw.choice((24, 32)), draw.choice((65536, 131072)), 4000)
        for i in range(hosts)
    ]
    instances = []
    for name, cpus, memory, disk in nodes:
        share = max(0.05, min(0.95, load + draw.uniform(-0.3, 0.3)))
        used = [0, 0, 0]
        while used[1] < memory * share:
            vcpus, gib = draw.choice(((1, 2), (2, 4), (2, 8), (4, 8), (4, 16)))
            size = gib * draw.choice((5, 10))
            if (
                used[0] + vcpus > cpus * RATIO
                or used[1] + gib * 1024 > memory
                or used[2] + size > disk
            ):
                break
            for number, amount in enumerate((vcpus, gib * 1024, size)):
                used[number] += amount
            instances.append([f"vm{len(instances):04d}", gib * 1024, size, vcpus, name])
    return nodes, instances


def text(nodes, instances):
    """Return the cluster in the text format of htools."""
    used = {name: [0, 0] for name, *_rest in nodes}
    for _name, memory, disk, _vcpus, node in instances:
        used[node][0] += memory
        used[node][1] += disk
    lines = ["group|uuid-1|preferred||", ""]
    for name, cpus, memory, disk in nodes:
        free = disk  # the disks are on other storage
        lines.append(
            f"{name}|{memory}|0|{memory - used[name][0]}|{disk * 1024}|{free * 1024}|{cpus}|N|uuid-1|1||N|0|0|1.0"
        )
    lines[2] = lines[2].replace("|N|uuid-1|1|", "|M|uuid-1|1|")
    lines.append("")
    for name, memory, disk, vcpus, node in instances:
        lines.append(f"{name}|{memory}|{disk * 1024}|{vcpus}|running|Y|{node}||ext||1|1|N")
    return "\n".join([*lines, "", "", POLICY, "group" + POLICY, ""])


def store(nodes, instances):
    """Return (columns, instances) as the store would return them; disks are on shared storage."""
    row = {name: number for number, (name, *_rest) in enumerate(nodes)}
    names = list(row)
    count = len(names)
    used = {"VCPU": [0] * count, "MEMORY_MB": [0] * count}
    for _name, memory, _disk, vcpus, node in instances:
        used["VCPU"][row[node]] += vcpus
        used["MEMORY_MB"][row[node]] += memory
    fleet = {
        "host": names,
        "node": names,
        "uuid": names,
        "disabled": [False] * count,
        "up": [True] * count,
        "zones": [[]] * count,
        "resources": {
            "VCPU": {
                "total": [node[1] for node in nodes],
                "ratio": [float(RATIO)] * count,
                "used": used["VCPU"],
            },
            "MEMORY_MB": {"total": [node[2] for node in nodes], "used": used["MEMORY_MB"]},
        },
        "instances": {each[0]: row[each[4]] for each in instances},
        "instance_names": {each[0]: [each[0]] for each in instances},
        "server_groups": {},
    }
    instance_rows = [
        {
            "uuid": name,
            "name": name,
            "host": node,
            "node": node,
            "state": "running",
            "resources": {},
        }
        | {"vcpus": vcpus, "memory_mb": memory, "disk_gb": 0}
        for name, memory, _disk, vcpus, node in instances
    ]
    return fleet, instance_rows


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--hosts", default="8,20,40")
    options = parser.parse_args()
    policy = Policy.from_mapping({"enabled_filters": ["ComputeFilter", "CoreFilter", "RamFilter"]})
    worse = 0
    for hosts in (int(each) for each in options.hosts.split(",")):
        for seed in range(1, options.seeds + 1):
            nodes, instances = cluster(seed, hosts, (0.4, 0.55, 0.7)[seed % 3])
            with tempfile.TemporaryDirectory() as folder:
                data = pathlib.Path(folder, "cluster.data")
                data.write_text(text(nodes, instances), encoding="utf-8")
                groups = run("hroller", "--no-headers", "--force", "-t", str(data))
                balanced = run("hbal", "--ignore-dynu", "-t", str(data))
                steps = len(re.findall(r"^\s+\d+\. ", balanced, re.MULTILINE))
                scores = re.search(r"improved from ([\d.]+) to ([\d.]+)", balanced)
                fleet, instance_rows = store(nodes, instances)
                plan = plan_rolling(fleet, instance_rows, policy)
                moved = plan_rebalance(
                    fleet,
                    instance_rows,
                    policy,
                    max_moves=steps,
                    threshold=0.0,
                    margin=0.0,
                    weights=WEIGHTS,
                )
                where = {move["uuid"]: move["host"] for move in moved["moves"]}
                data.write_text(
                    text(nodes, [[*each[:4], where.get(each[0], each[4])] for each in instances]),
                    encoding="utf-8",
                )
                ours = re.search(
                    r"Initial score: ([\d.]+)",
                    run("hbal", "-v", "--ignore-dynu", "-l", "0", "-t", str(data)),
                )
            theirs = len(
                [line for line in groups.splitlines() if line.strip() and "Warning" not in line]
            )
            mine = ours.group(1) if ours else None
            final = scores.group(2) if scores else "?"
            bad = len(plan["batches"]) > theirs or (
                mine and scores and float(mine) > float(final) + 1e-6
            )
            worse += bool(bad)
            print(
                f"{hosts} hosts, seed {seed}: hroller {theirs} groups, ours {len(plan['batches'])}"
                f" (bound {plan['bound']}, blocked {len(plan['blocked'])}); hbal"
                f" {scores.group(1) if scores else '?'} to {final} in {steps} moves, ours to {mine}"
                f" in {len(moved['moves'])}{'   WORSE' if bad else ''}",
                flush=True,
            )
    print(f"worse in {worse}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
