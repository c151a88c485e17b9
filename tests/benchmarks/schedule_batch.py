# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time of the scheduler for a batch, from columns in memory to the answer.

    python tests/benchmarks/schedule_batch.py --hosts 10000 --requests 100

The program prints JSON: hosts, requests, seconds (the best of --repeat runs, of HostStates and of
the batch), seconds_states, seconds_batch, placed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import random
import sys
import time

# The checkout's own conftest.py makes the checkout importable as a collection.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
importlib.import_module("conftest")

from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.filter_scheduler import (
    schedule,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.host_states import (
    HostStates,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.request_spec import (
    RequestSpec,
)


def make_fleet(hosts, seed):
    """Return columns of a fleet that is about half full."""
    rng = random.Random(seed)
    names = [f"kvm{number:06d}" for number in range(hosts)]
    cpus = [rng.choice((16, 32, 48, 64, 96, 128)) for _name in names]
    memory = [count * 1024 * rng.choice((2, 4, 8)) for count in cpus]
    disk = [rng.choice((500, 1000, 2000, 4000)) for _name in names]

    def resource(totals, ratio, reserved):
        return {
            "total": totals,
            "reserved": [reserved] * hosts,
            "ratio": [ratio] * hosts,
            "used": [int(rng.random() * 0.95 * total * ratio) for total in totals],
            "min_unit": [1] * hosts,
            "max_unit": totals,
            "step_size": [1] * hosts,
        }

    return {
        "host": names,
        "node": names,
        "uuid": names,
        "cell": [f"cell{number % 4}" for number in range(hosts)],
        "zones": [[f"az{number % 3}"] for number in range(hosts)],
        "disabled": [rng.random() < 0.02 for _name in names],
        "disabled_reason": [None] * hosts,
        "up": [rng.random() > 0.02 for _name in names],
        "down_reason": [None] * hosts,
        "disk_available_least": [None] * hosts,
        "num_instances": [0] * hosts,
        "resources": {
            "VCPU": resource(cpus, 4.0, 0),
            "MEMORY_MB": resource(memory, 1.0, 512),
            "DISK_GB": resource(disk, 1.0, 0),
        },
        "instances": {},
        "instance_names": {},
        "server_groups": {},
    }


def make_requests(count, seed):
    """Return a batch of assorted sizes; a tenth of it in an anti-affinity group, a tenth bound to a
    zone."""
    rng = random.Random(seed)
    specs = []
    for number in range(count):
        vcpus = rng.choice((1, 2, 4, 8))
        request = {
            "name": f"vm{number:04d}",
            "vcpus": vcpus,
            "memory_mb": vcpus * rng.choice((1024, 2048, 4096)),
            "disk_gb": rng.choice((0, 10, 20, 80)),
        }
        if number % 10 == 0:
            request["server_group"] = {"name": "apart", "policy": "anti-affinity"}
        if number % 10 == 1:
            request["availability_zone"] = "az1"
        specs.append(RequestSpec.from_request(request))
    return specs


def measure(hosts, requests, seed, repeat):
    """Return the result as a dict."""
    columns, specs, policy = (
        make_fleet(hosts, seed),
        make_requests(requests, seed),
        Policy.from_mapping(),
    )
    best = None
    for _run in range(repeat):
        start = time.perf_counter()
        states = HostStates(columns)
        built = time.perf_counter()
        placed = schedule(states, specs, policy)
        end = time.perf_counter()
        if best is None or end - start < best["seconds"]:
            best = {
                "hosts": hosts,
                "requests": requests,
                "seconds": end - start,
                "seconds_states": built - start,
                "seconds_batch": end - built,
                "placed": len(placed),
            }
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=10000)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    print(json.dumps(measure(given.hosts, given.requests, given.seed, given.repeat), indent=2))


if __name__ == "__main__":
    main()
