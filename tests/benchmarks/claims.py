# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims by several processes at once: the number per second, and a check of the sums.

    python tests/benchmarks/claims.py --store-url URL --workers 8 --claims 4000 [--hot 10] [--kill]

EMPTIES the store, fills it with --providers hosts of --size VCPU, and claims with the engine
function that the module drover.compute.allocation calls, one transaction for each. Prints JSON;
exits with 1 when a provider is over capacity, or the sums of allocations, of successes and of
inventories.used differ. With --kill half of the workers are killed in the middle; a claim that was
in flight may then have been committed without an answer.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import json
import multiprocessing
import os
import pathlib
import random
import signal
import sys
import time
import uuid

# The checkout's own conftest.py makes the checkout importable as a collection.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
importlib.import_module("conftest")

import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._placement import claims, selections
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import node_data, record

RESOURCES = {"VCPU": 1, "MEMORY_MB": 256, "DISK_GB": 10}


def prepare(url, providers, size):
    """Empty the store and record a fleet of equal hosts without over-commitment."""
    Store.open(url).upgrade()
    nodes = [
        {
            "host": f"kvm{number:05}",
            "vcpus": size,
            "memory_mb": size * 256,
            "local_gb": size * 10,
            "cpu_allocation_ratio": 1.0,
            "ram_allocation_ratio": 1.0,
            "disk_allocation_ratio": 1.0,
            "reserved_host_memory_mb": 0,
            "domains": [],
        }
        for number in range(providers)
    ]
    with Store.open(url).write() as connection:
        for table in reversed(tables.metadata.sorted_tables):
            connection.execute(sa.delete(table))
        record.record(connection, node_data.reports(nodes, "unused", {}), time.time())


def work(number, url, hosts, share, start, answers, seed):
    """Claim until the share is done; the count of successes is shared memory, because the worker
    may be killed.
    """
    done, refused, other = share["done"], share["refused"], share["other"]
    store, chance = Store.open(url), random.Random(f"{seed}/{number}")
    start.wait()
    began, busy = time.time(), time.process_time()
    for turn in range(share["claims"]):
        host = chance.choice(hosts)
        key = str(uuid.UUID(int=chance.getrandbits(128), version=4))
        selection = {
            "name": f"i{number}-{turn}",
            "uuid": key,
            "host": host,
            "node": host,
            "resources": dict(RESOURCES),
        }
        try:
            with store.write(together=True) as connection:
                claims.claim(connection, selections.check([selection]), time.time())
            done.value += 1
        except DroverError as problem:
            if problem.details.get("cause") == "no_room":
                refused.value += 1
            else:
                other.value += 1
                sys.stderr.write(f"{problem}\n")
    answers.put((began, time.time(), time.process_time() - busy))


def run(url, hosts, workers, total, kill, seed):
    """Run the workers; return the figures."""
    context = multiprocessing.get_context("fork")
    start, answers = context.Barrier(workers), context.Queue()
    shares, processes = [], []
    for number in range(workers):
        share = {name: context.RawValue("q", 0) for name in ("done", "refused", "other")}
        share["claims"] = total // workers + (number < total % workers)
        shares.append(share)
        arguments = (number, url, hosts, share, start, answers, seed)
        processes.append(context.Process(target=work, args=arguments))
    for process in processes:
        process.start()
    killed = processes[::2] if kill else []
    while (
        kill and sum(share["done"].value + share["refused"].value for share in shares) < total // 4
    ):
        time.sleep(0.01)
    for process in killed:
        os.kill(process.pid, signal.SIGKILL)
    timings = [answers.get() for dummy in range(workers - len(killed))]
    for process in processes:
        process.join()
    sums = collections.Counter()
    for share in shares:
        sums.update({name: share[name].value for name in ("done", "refused", "other")})
    wall = max(ended for dummy, ended, busy in timings) - min(
        began for began, ended, busy in timings
    )
    return {
        "workers": workers,
        "killed": len(killed),
        "hosts": len(hosts),
        "claims": sums["done"] + sums["refused"] + sums["other"],
        "successes": sums["done"],
        "conflicts": {"no_room": sums["refused"], "other": sums["other"]},
        "wall_s": round(wall, 3),
        "claims_per_s": round(sums["done"] / wall, 1),
        "cpu_s": round(sum(busy for began, ended, busy in timings), 2),
    }


def check(url, figures):
    """Add the sums of the store, and the result of their check."""
    inventories, allocations = tables.inventories, tables.allocations
    classes, consumers, instances = tables.resource_classes, tables.consumers, tables.instances
    capacity = (inventories.c.total - inventories.c.reserved) * inventories.c.allocation_ratio
    with Store.open(url).read() as connection:
        over = connection.execute(
            sa.select(sa.func.count()).select_from(inventories).where(inventories.c.used > capacity)
        ).scalar_one()
        sums = {}
        for what, table in (("allocated", allocations), ("used", inventories)):
            query = sa.select(classes.c.name, sa.func.sum(table.c.used)).join(
                classes, classes.c.id == table.c.class_id
            )
            sums[what] = {
                name: int(n or 0) for name, n in connection.execute(query.group_by(classes.c.name))
            }
        rows = [
            connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            for table in (consumers, instances)
        ]
    least = figures["successes"]
    most = least + figures["killed"]
    allocated = {name: sums["allocated"].get(name, 0) for name in RESOURCES}
    right = (
        over == 0
        and all(sums["used"].get(name, 0) == amount for name, amount in allocated.items())
        and all(allocated[name] == rows[0] * amount for name, amount in RESOURCES.items())
        and rows[0] == rows[1]
        and least <= rows[0] <= most
    )
    return {
        **figures,
        "over_capacity": over,
        "consumers": rows[0],
        "allocated": allocated,
        "used": sums["used"],
        "ok": right,
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store-url", required=True)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--claims", type=int, default=4000, help="in all")
    parser.add_argument("--hot", type=int, default=0, help="claim on this many hosts only")
    parser.add_argument("--providers", type=int, default=200)
    parser.add_argument(
        "--size", type=int, default=1000, help="VCPU of each, which is the claims that fit"
    )
    parser.add_argument(
        "--kill", action="store_true", help="kill -9 half of the workers in the middle"
    )
    parser.add_argument("--seed", default="0")
    arguments = parser.parse_args()
    prepare(arguments.store_url, arguments.providers, arguments.size)
    hosts = [f"kvm{number:05}" for number in range(arguments.hot or arguments.providers)]
    figures = run(
        arguments.store_url,
        hosts,
        arguments.workers,
        arguments.claims,
        arguments.kill,
        arguments.seed,
    )
    figures = check(arguments.store_url, figures)
    print(json.dumps(figures, indent=1))
    return 0 if figures["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
