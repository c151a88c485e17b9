# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scheduler's decisions for a file of requests over a file of hosts, and their time.

    python tests/benchmarks/schedule.py --fleet FLEET.json --requests REQUESTS.json [--filters A,B]
        [--policy P.yml] [--carry] [--repeat N] [--json OUT]

The files come from the peers' gen_fleet.py; the output has the form of their nova_sched.py. The
fleet is loaded into a store, and each request goes through the code of the lookup schedule: read
the store, filter and weigh, select. With --carry the store is read once and each request sees the
resources that earlier requests took. Times are in milliseconds, the median of --repeat runs:
store_read, filter_weigh, total.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import resource
import statistics
import sys
import tempfile
import time

# The checkout's own conftest.py makes the checkout importable as a collection.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
importlib.import_module("conftest")

import numpy as np

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import scheduling
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler import drivers
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.filter_scheduler import (
    Ranking,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.host_states import (
    HostStates,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts.host_columns import (
    ColumnQuery,
    read_columns,
)
from ansible_collections.drover.compute.tests.benchmarks import fleet_file


class Runner:
    """A runner of requests over a store."""

    def __init__(self, store, policy, requests, carry, top):
        self.store, self.policy, self.requests, self.top = store, policy, requests, top
        self.carried = self._carried() if carry else None

    def _carried(self):
        everything = ColumnQuery()
        with self.store.read() as connection:
            for number, request in enumerate(self.requests):
                specs = scheduling.read_specs(connection, [fleet_file.request(number, request)])
                self._want(scheduling.columns_for_specs(specs, self.policy), request, everything)
            columns = read_columns(connection, time.time(), 0, everything)
        for number, request in enumerate(self.requests):
            if request.get("group"):
                columns["server_groups"][f"group{number}"] = fleet_file.group(request)
        return HostStates(columns)

    @staticmethod
    def _want(wanted, asked, into=None):
        if asked.get("group"):
            wanted.instances.update(asked["group"].get("members") or ())
        if into is not None:
            into.columns |= wanted.columns
            into.instances |= wanted.instances
        return wanted

    def run(self, number, detail=True):
        """Run one request; return (result without times, milliseconds by name)."""
        request = self.requests[number]
        began, cpu = time.perf_counter(), time.process_time()
        if self.carried is not None:
            specs, states = (
                scheduling.read_specs(None, [fleet_file.request(number, request)]),
                self.carried,
            )
        else:
            with self.store.read() as connection:
                specs = scheduling.read_specs(connection, [fleet_file.request(number, request)])
                wanted = self._want(scheduling.columns_for_specs(specs, self.policy), request)
                columns = read_columns(connection, time.time(), 0, wanted)
            if request.get("group"):
                columns["server_groups"][f"group{number}"] = fleet_file.group(request)
            states = HostStates(columns)
        result = self._ranking(states, specs[0]) if detail else {}
        read, read_cpu = time.perf_counter(), time.process_time()
        try:
            selections = drivers.schedule(states, specs, self.policy, explain=False)
            result["chosen"] = [each["host"] for each in selections]
            if self.policy.max_attempts > 1:
                result["alternates"] = [
                    [spare["host"] for spare in each["alternates"]] for each in selections
                ]
        except DroverError as problem:
            selections = []
            result["chosen"], result["error"] = [], f"{type(problem).__name__}: {problem}"
        done, done_cpu = time.perf_counter(), time.process_time()
        if self.carried is not None:
            self._settle(selections)
        times = {"store_read": read - began, "filter_weigh": done - read, "total": done - began}
        cpu_times = {
            "store_read": read_cpu - cpu,
            "filter_weigh": done_cpu - read_cpu,
            "total": done_cpu - cpu,
        }
        return result, *(
            {key: 1000 * value for key, value in each.items()} for each in (times, cpu_times)
        )

    def _ranking(self, states, spec):
        ranking = Ranking(states, spec, self.policy)
        weights = ranking.weights
        order = np.argsort(-weights, kind="stable")[: self.top]
        shown = {
            "filters": [
                {"filter": each["name"], "start": each["before"], "end": each["after"]}
                for each in ranking.stages
            ],
            "passed": len(ranking.passed),
            "weighed": [
                {
                    "host": states.host[ranking.passed[place]],
                    "node": states.node[ranking.passed[place]],
                    "weight": float(weights[place]),
                }
                for place in order
            ],
        }
        if len(weights):
            shown["ties_for_first"] = int(np.count_nonzero(weights == weights.max()))
        return shown

    def _settle(self, selections):
        """End the builds, so that they do not count as I/O."""
        where = {host: row for row, host in enumerate(self.carried.host)} if selections else {}
        for each in selections:
            self.carried.num_io_ops[where[each["host"]]] -= 1


def run(arguments):
    with open(arguments.fleet) as file:
        fleet = json.load(file)
    with open(arguments.requests) as file:
        requests = json.load(file)
    requests = requests["requests"] if isinstance(requests, dict) else requests
    policy = make_policy(arguments)
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(arguments.store or f"sqlite:///{folder}/store.db")
        began = time.perf_counter()
        if not arguments.loaded:
            fleet_file.load(store, fleet)
        loaded = time.perf_counter() - began
        hosts = len(fleet["hosts"])
        del fleet
        runner = Runner(store, policy, requests, arguments.carry, arguments.top)
        results = []
        for number in range(len(requests)):
            result, wall, cpu = runner.run(number)
            if arguments.repeat > 1:
                runs = [runner.run(number, detail=False)[1:] for _again in range(arguments.repeat)]
                wall = {key: statistics.median(each[0][key] for each in runs) for key in wall}
                cpu = {key: statistics.median(each[1][key] for each in runs) for key in cpu}
            result.update(index=number, ms=_rounded(wall), cpu_ms=_rounded(cpu))
            results.append(result)
    return {
        "mode": "drover",
        "carry": arguments.carry,
        "hosts": hosts,
        "enabled_filters": [each.name for each in policy.filters],
        "weighers": {each.name: each.sign * multiplier for each, multiplier in policy.weighers},
        "load_s": round(loaded, 3),
        "max_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "totals": {
            "scheduled": sum(len(each["chosen"]) for each in results),
            "failed_requests": sum("error" in each for each in results),
        },
        "results": results,
    }


def make_policy(arguments):
    mapping = {}
    if arguments.policy:
        from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy_file import (
            read_policy,
        )

        mapping = read_policy(arguments.policy)
    if arguments.filters is not None:
        mapping["enabled_filters"] = [name for name in arguments.filters.split(",") if name]
    mapping.setdefault("max_attempts", 3 if arguments.alternates else 1)
    return Policy.from_mapping(mapping)


def _rounded(times):
    return {key: round(value, 3) for key, value in times.items()}


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fleet", required=True)
    parser.add_argument("--requests", required=True)
    parser.add_argument("--filters", help="enabled host filters, in order")
    parser.add_argument("--policy", help="a policy file")
    parser.add_argument("--carry", action="store_true")
    parser.add_argument("--alternates", action="store_true")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--top", type=int, default=20)
    parser.add_argument("--store", help="store URL; default a SQLite file that is removed")
    parser.add_argument("--loaded", action="store_true", help="the store has the fleet already")
    parser.add_argument("--json", default="-", help="where to; default standard output")
    arguments = parser.parse_args(argv)
    text = json.dumps(run(arguments), indent=1, sort_keys=True)
    if arguments.json == "-":
        print(text)
    else:
        pathlib.Path(arguments.json).write_text(text + "\n")


if __name__ == "__main__":
    main()
