# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our fit to NUMA cells, CPUs, pages and PCI devices, for JSON input; and its time beside Nova's.

    gen_numa_fleet.py 7 | .venv/bin/python tests/benchmarks/numa.py > answers.jsonl
    .venv/bin/python tests/benchmarks/numa.py --time --nova .venv-nova/bin/python

Input and output have the form of numa_peer.py, and its head describes them; answers have the form
of ``numa_peer.py --fresh``. The time is measured with 1,000 hosts with two cells of 40 dedicated
CPUs each: for each instance, the hosts that fit, and the resources of the instance on one of them,
which are taken before the next instance. Nova's part (numa_nova.py) runs in the same call, with the
Python of an environment with Nova. Both are CPU times. Nova's time is the time of its fit alone.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
    import conftest  # noqa: F401  pylint: disable=unused-import

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import InvalidSpecs
from ansible_collections.drover.compute.plugins.plugin_utils._numa.device_requests import (
    LEGACY,
    PciRequest,
    read_aliases,
)
from ansible_collections.drover.compute.plugins.plugin_utils._numa.hosts import (
    DoesNotFit,
    NumaHosts,
)
from ansible_collections.drover.compute.plugins.plugin_utils._numa.request import read_request
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler import resource_specs

HERE = pathlib.Path(__file__).resolve().parent


class Request:
    """A request of the document: its needs on a host, or the exception of a request that is wrong
    in itself."""

    def __init__(self, data, number, aliases):
        self.name = data.get("name") or f"r{number}"
        self.error = self.asked = self.constraints = None
        flavor = data["flavor"]
        self.specs = {key: str(value) for key, value in (flavor.get("extra_specs") or {}).items()}
        image = data.get("image") or {}
        self.properties = image.get("properties", image)
        self.amounts = {"VCPU": flavor["vcpus"], "MEMORY_MB": flavor["ram"]}
        ports = [
            PciRequest(
                each.get("count", 1),
                tuple(tuple(sorted(spec.items())) for spec in each["spec"]),
                each.get("numa_policy") or LEGACY,
            )
            for each in data.get("pci_requests") or ()
        ]
        try:
            self.asked, self.constraints = read_request(
                flavor["vcpus"],
                flavor["ram"],
                self.specs,
                self.properties,
                aliases,
                ports,
                data.get("network"),
            )
        except InvalidSpecs as problem:
            self.error = f"{problem.code}: {problem}"

    def placement(self):
        """Return the request to Placement."""
        if self.error is not None:
            return None
        overrides, groups, _policy = resource_specs.from_extra_specs(self.specs, self.name)
        cpus = self.constraints.resources or {"VCPU": self.amounts["VCPU"]}
        amounts = resource_specs.not_replaced(
            {"MEMORY_MB": self.amounts["MEMORY_MB"], **cpus}, overrides, groups
        )
        traits = {
            key.removeprefix("trait:"): value
            for key, value in {**self.properties, **self.specs}.items()
            if key.startswith("trait:")
        }
        return {
            "resources": resource_specs.total({**amounts, **overrides}, groups),
            "required": sorted(
                self.constraints.required
                | {name for name, value in traits.items() if value == "required"}
            ),
            "forbidden": sorted(
                self.constraints.forbidden
                | {name for name, value in traits.items() if value == "forbidden"}
            ),
        }


def place(hosts, number, request):
    """Return the answer of one host: (printed answer, result of place() or None)."""
    answer = {
        "fits": False,
        "why": None,
        "numa": request.asked.topology is not None,
        "cells": [],
        "pci": [],
    }
    try:
        placed = hosts.place(request.asked, number)
    except DoesNotFit as problem:
        return dict(answer, why=problem.why), None
    cells = [
        {key: value for key, value in cell.items() if not key.endswith("_policy")}
        for cell in placed["cells"]
    ]
    return dict(answer, fits=True, cells=cells, pci=placed["pci"]), placed


def load(document):
    """Return (NumaHosts, names of the instances of each host that did not fit, aliases)."""
    aliases = read_aliases(document.get("alias") or ())
    specs = document.get("device_spec")
    specs = [{}] if specs is None else specs
    hosts = NumaHosts(
        [{**each, "device_spec": specs, "instances": ()} for each in document["hosts"]],
        bool(document.get("pack")),
    )
    unplaced = []
    for number, host in enumerate(document["hosts"]):
        unplaced.append([])
        for place_of_it, each in enumerate(host.get("instances") or ()):
            request = Request(each, place_of_it, aliases)
            placed = place(hosts, number, request)[1] if request.error is None else None
            if placed is None:
                unplaced[-1].append(request.name)
            else:
                hosts.consume(number, placed)
    return hosts, unplaced, aliases


def answers(document):
    """Return one answer for each request and host, as numa_peer.py prints them.

    :raises AssertionError: the answer about all hosts at once differs from the answer about one.
    """
    hosts, unplaced, aliases = load(document)
    for number, each in enumerate(document["requests"]):
        request = Request(each, number, aliases)
        fit = hosts.fits(request.asked) if request.error is None else None
        for row, host in enumerate(document["hosts"]):
            if fit is None:
                answer = {"fits": False, "why": request.error, "numa": None, "cells": [], "pci": []}
            else:
                answer, _placed = place(hosts, row, request)
                assert fit.why(row) == (answer["why"] or "") or answer["why"] == "pci claim", (
                    request.name,
                    host["name"],
                )
            answer = {
                "request": request.name,
                "host": host["name"],
                **answer,
                "placement": request.placement(),
            }
            if unplaced[row]:
                answer["unplaced"] = unplaced[row]
            yield answer


# --- times ---


def timed_fleet(hosts):
    """Return hosts with two cells of 40 dedicated CPUs each (20 cores with two threads), pages and
    two GPUs."""
    cells = []
    for cell in range(2):
        cores = [[cell * 22 + core, 44 + cell * 22 + core] for core in range(22)]
        cells.append(
            {
                "id": cell,
                "socket": cell,
                "cpus": sorted(cpu for core in cores[:2] for cpu in core),
                "pcpus": sorted(cpu for core in cores[2:] for cpu in core),
                "siblings": cores,
                "memory_mb": 262144,
                "pages": [
                    {"size_kb": 4, "total": 131072 * 256, "reserved": 0},
                    {"size_kb": 2048, "total": 65536, "reserved": 0},
                ],
            }
        )
    gpus = [
        {
            "vendor_id": "10de",
            "product_id": "2204",
            "address": f"0000:{bus}:00.0",
            "numa_node": cell,
            "dev_type": "type-PCI",
        }
        for cell, bus in enumerate(("3b", "af"))
    ]
    return [{"name": f"host{number}", "cells": cells, "pci": gpus} for number in range(hosts)]


def timed_requests():
    """Return {name: request} for the times."""
    pinned = {"hw:cpu_policy": "dedicated"}
    kinds = {
        "pinned": pinned,
        "pinned, 2 MiB pages, two cells": {
            **pinned,
            "hw:mem_page_size": "2MB",
            "hw:numa_nodes": "2",
        },
        "pinned, threads required, GPU": {
            **pinned,
            "hw:cpu_thread_policy": "require",
            "pci_passthrough:alias": "gpu:1",
        },
        "shared, 2 MiB pages": {"hw:mem_page_size": "large"},
    }
    return {
        name: {"name": name, "flavor": {"vcpus": 4, "ram": 8192, "extra_specs": specs}}
        for name, specs in kinds.items()
    }


ALIAS = [{"name": "gpu", "vendor_id": "10de", "product_id": "2204", "device_type": "type-PCI"}]


def run(hosts, request, batch):
    """Return the seconds of a batch, and the chosen hosts; release their resources."""
    placements = []
    begin = time.process_time()
    for _number in range(batch):
        fit = hosts.fits(request.asked)
        rows = fit.mask.nonzero()[0]
        if not len(rows):
            break
        # Choose different places, so that the fit sees hosts of all states.
        row = int(rows[(len(placements) * 7) % len(rows)])
        placed = hosts.place(request.asked, row)
        hosts.consume(row, placed)
        placements.append((row, placed))
    seconds = time.process_time() - begin
    for row, placed in placements:
        hosts.release(row, placed)
    return seconds, [hosts.names[row] for row, _placed in placements]


def times(number_of_hosts, batches, nova, repeat):
    """Return the times of both in seconds, and the ratio."""
    document = {
        "hosts": timed_fleet(number_of_hosts),
        "alias": ALIAS,
        "requests": list(timed_requests().values()),
        "batches": batches,
    }
    theirs = None
    if nova:
        env = {**os.environ, "PYTHONPATH": str(HERE.parent / "peers")}
        nova_run = subprocess.run(
            [nova, str(HERE / "numa_nova.py")],
            input=json.dumps(document),
            env=env,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        theirs = json.loads(nova_run.stdout)
    begin = time.process_time()
    hosts, _unplaced, aliases = load(document)
    loaded = time.process_time() - begin
    figures = {"hosts": number_of_hosts, "seconds_to_build": round(loaded, 3), "cases": []}
    for number, entry in enumerate(document["requests"]):
        request = Request(entry, number, aliases)
        for batch in batches:
            measured = [run(hosts, request, batch) for _again in range(repeat)]
            case = {
                "request": entry["name"],
                "batch": batch,
                "placed": len(measured[0][1]),
                "ours_s": round(statistics.median(s for s, _h in measured), 6),
            }
            if theirs is not None:
                nova_s, chosen = theirs[f"{entry['name']}/{batch}"]
                case.update(
                    nova_s=round(nova_s, 3),
                    ratio=round(nova_s / case["ours_s"], 1),
                    same_hosts=chosen == measured[0][1],
                )
            figures["cases"].append(case)
    if theirs is not None:
        figures["least_ratio"] = min(case["ratio"] for case in figures["cases"])
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--time", action="store_true", help="measure, as JSON")
    parser.add_argument("--nova", help="the Python of an environment with Nova, for --time")
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 100])
    parser.add_argument("--repeat", type=int, default=5, help="runs of ours; the median counts")
    options = parser.parse_args()
    if options.time:
        print(
            json.dumps(
                times(options.hosts, options.batches, options.nova, options.repeat), indent=2
            )
        )
        return
    for found in answers(json.load(sys.stdin)):
        print(json.dumps(found, sort_keys=True))


if __name__ == "__main__":
    main()
