# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The number of further instances that a simulation and Ganeti's hspace place, on the same seeded
clusters.

    hspace.py [--seeds 10] [--hosts 8,20,40] [--vcpus 2] [--gib 4] [--seconds 120]

Needs Debian's package ganeti-htools. Disks are on storage that all nodes share (template ext). All
instances have one size. There are two rules: until nothing fits (plain), and as long as each host
may be lost (n+1), hspace's own default. The program prints JSON: for each cluster the numbers and
times (seconds) of both by each rule, and the number of cases with fewer instances of ours. hspace
is stopped after --seconds, and its figure is null then.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
importlib.import_module("conftest")

import htools  # noqa: E402

from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import (
    Policy,
)  # noqa: E402
from ansible_collections.drover.compute.plugins.plugin_utils._simulation.simulate import (  # noqa: E402
    Question,
    simulate,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store  # noqa: E402
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import (
    node_data,
    record,
)  # noqa: E402

NOW = 1_800_000_000.0
MANY = 10_000


def filled(folder, nodes, instances):
    """Yield a store with a cluster."""
    store = Store.open(f"sqlite:///{folder}/store.db")
    on = {}
    for number, (name, memory, _disk, vcpus, node) in enumerate(instances):
        uuid = f"00000000-0000-4000-8000-{number:012x}"
        on.setdefault(node, []).append(
            {
                "uuid": uuid,
                "name": name,
                "state": "running",
                "vcpus": vcpus,
                "memory_mb": memory,
                "disk_gb": 0,
            }
        )
    node_specs = [
        {
            "host": name,
            "vcpus": cpus,
            "memory_mb": memory,
            "local_gb": disk,
            "reserved_host_memory_mb": 0,
            "cpu_allocation_ratio": float(htools.RATIO),
            "domains": on.get(name, []),
        }
        for name, cpus, memory, disk in nodes
    ]
    with store.write() as connection:
        record.record(connection, node_data.reports(node_specs, "unused", {}), NOW)
    return store


def ours(store, size, n_plus_1):
    """Return the number of further instances: all that fit, or the greatest number at which each
    host may be lost."""
    question = Question(Policy.from_mapping(), flavors=[])

    def placed(count):
        outcome = simulate(
            store, [{"add_instances": {**size, "name": "new", "count": count}}], question
        )
        return outcome["placed"], outcome["after"]["unbearable"]

    most, unbearable = placed(MANY)
    if not n_plus_1 or not unbearable:
        return most
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        if placed(middle)[1]:
            high = middle
        else:
            low = middle
    return low


def theirs(path, size, n_plus_1, seconds):
    """Return the number of further instances that hspace places; None if it refuses, or takes too
    long."""
    spec = f"--standard-alloc=1024,{size['memory_mb']},{size['vcpus']}"
    more = () if n_plus_1 else ("--no-capacity-checks",)
    output = htools.run(
        "timeout",
        str(seconds),
        "hspace",
        "-t",
        str(path),
        "--disk-template=ext",
        spec,
        "--machine-readable",
        *more,
    )
    values = dict(line.split("=", 1) for line in output.splitlines() if line.startswith("HTS_"))
    if "HTS_FIN_INST_CNT" not in values:
        return None
    return int(values["HTS_FIN_INST_CNT"]) - int(values["HTS_INI_INST_CNT"])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--hosts", default="8,20,40")
    parser.add_argument("--vcpus", type=int, default=2)
    parser.add_argument("--gib", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=120)
    options = parser.parse_args()
    size = {"vcpus": options.vcpus, "memory_mb": options.gib * 1024, "disk_gb": 0}
    rows = []
    for hosts in (int(each) for each in options.hosts.split(",")):
        for seed in range(1, options.seeds + 1):
            nodes, instances = htools.cluster(seed, hosts, (0.4, 0.55, 0.7)[seed % 3])
            row = {"hosts": hosts, "seed": seed, "instances": len(instances)}
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "cluster"
                path.write_text(htools.text(nodes, instances))
                store = filled(folder, nodes, instances)
                for rule, n_plus_1 in (("plain", False), ("n+1", True)):
                    row[rule] = {}
                    for who, count, arguments in (
                        ("ours", ours, (store, size, n_plus_1)),
                        ("hspace", theirs, (path, size, n_plus_1, options.seconds)),
                    ):
                        began = time.monotonic()
                        row[rule][who] = count(*arguments)
                        row[rule][f"{who}_seconds"] = round(time.monotonic() - began, 1)
            rows.append(row)
    answered = {
        rule: [row for row in rows if row[rule]["hspace"] is not None] for rule in ("plain", "n+1")
    }
    summary = {
        rule: {
            "clusters": len(found),
            "ours": sum(row[rule]["ours"] for row in found),
            "hspace": sum(row[rule]["hspace"] for row in found),
            "fewer_than_hspace": sum(row[rule]["ours"] < row[rule]["hspace"] for row in found),
        }
        for rule, found in answered.items()
    }
    print(json.dumps({"size": size, "clusters": rows, "answered_by_hspace": summary}, indent=2))


if __name__ == "__main__":
    main()
