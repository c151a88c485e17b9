# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time of `ansible-inventory` with the inventory plugin, from its start to its end.

    python tests/benchmarks/inventory.py --hosts 10000 --instances 2 --repeat 5

The program fills a temporary store, or reads --store-url without changes. It prints JSON: hosts and
groups of the inventory; seconds and cpu_seconds, each the best of --repeat runs; seconds_each;
seconds_nothing, the best time of ansible-inventory with an inventory of one host, the share of
Ansible itself.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

# The checkout's own conftest.py makes the checkout importable as a collection.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
importlib.import_module("conftest")

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import aggregates
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import node_data, record

AT_ONCE = 2000
SIZES = ((32, 131072), (64, 262144), (96, 393216), (128, 524288))


def fill(url, hosts, instances):
    """Record a fleet with four zones, ten aggregates, five cells, four versions and three traits
    per host."""
    Store.open(url).upgrade()
    names = [f"kvm{number:06}" for number in range(hosts)]
    for first in range(0, hosts, AT_ONCE):
        nodes = [node(number, instances) for number in range(first, min(first + AT_ONCE, hosts))]
        with Store.open(url).write() as connection:
            record.record(connection, node_data.reports(nodes, "unused", {}), time.time())
    with Store.open(url).write() as connection:
        for number in range(10):
            aggregates.ensure(connection, f"row{number}", hosts=names[number::10])


def node(number, instances):
    vcpus, memory_mb = SIZES[number % len(SIZES)]
    return {
        "host": f"kvm{number:06}",
        "vcpus": vcpus,
        "memory_mb": memory_mb,
        "local_gb": 2000,
        "availability_zone": f"az{number % 4}",
        "cell": f"cell{number % 5}",
        "hypervisor_type": "QEMU",
        "hypervisor_version": 8002002 + number // 7 % 4,
        "traits": [["CUSTOM_SSD"], ["CUSTOM_GPU", "CUSTOM_SSD"], ["CUSTOM_OLD"]][number % 3],
        "domains": [
            {
                "uuid": f"00000000-0000-4000-8000-{number:08x}{each:04x}",
                "name": f"app{number}-{each}",
                "state": "running",
                "vcpus": 2,
                "memory_mb": 4096,
                "disk_gb": 40,
            }
            for each in range(instances)
        ],
    }


def run(folder, *options):
    """Run it once; return (seconds, CPU seconds, output)."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "ansible", "inventory", *options],
        cwd=folder,
        # An inventory that cannot be read must fail, because it would be the fastest.
        env={
            **os.environ,
            "HOME": folder,
            "LC_ALL": "C.UTF-8",
            "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true",
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def measure(folder, url, show, repeat):
    """Return the result as a dict."""
    pathlib.Path(folder, "fleet.drover.yml").write_text(
        json.dumps({"plugin": "drover.compute.fleet", "store_url": url})
    )
    pathlib.Path(folder, "one.yml").write_text(json.dumps({"all": {"hosts": {"one": {}}}}))
    nothing = min(run(folder, "-i", "one.yml", show)[0] for dummy in range(repeat))
    runs = [run(folder, "-i", "fleet.drover.yml", show) for dummy in range(repeat)]
    graph = run(folder, "-i", "fleet.drover.yml", "--graph")[2].splitlines()
    return {
        "hosts": len({line.rpartition("--")[2] for line in graph if "@" not in line}),
        "groups": sum("@" in line for line in graph),
        "seconds": round(min(seconds for seconds, dummy, dummy in runs), 2),
        "cpu_seconds": round(min(seconds for dummy, seconds, dummy in runs), 2),
        "seconds_each": [round(seconds, 2) for seconds, dummy, dummy in runs],
        "seconds_nothing": round(nothing, 2),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=10000)
    parser.add_argument("--instances", type=int, default=2, help="of each host")
    parser.add_argument("--store-url", help="of a store that is there already")
    parser.add_argument("--show", choices=("graph", "list"), default="graph")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = options.store_url
        if not url:
            url = f"sqlite:///{folder}/store.db"
            fill(url, options.hosts, options.instances)
        print(json.dumps(measure(folder, url, f"--{options.show}", options.repeat), indent=2))


if __name__ == "__main__":
    main()
