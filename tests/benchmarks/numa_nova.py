# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time of Nova's own fit, for numa.py --time.

    PYTHONPATH=tests/peers NOVA/bin/python tests/benchmarks/numa_nova.py < DOCUMENT

The document has hosts, requests and aliases as numa_peer.py reads them, and ``batches``. Only
nova.virt.hardware.numa_fit_instance_to_host is timed, in seconds of CPU: once for each instance of
a batch and each host. Copies of the objects that it changes are made before, and the resources of
the chosen host are counted afterwards, both outside the measured time. The program prints
{"request/batch": [seconds, [names of chosen hosts]]}.
"""

from __future__ import annotations

import copy
import json
import sys
import time

import numa_peer
from nova import objects
from nova.virt import hardware


def run(document, request, batch):
    hosts = [numa_peer.Host(each) for each in document["hosts"]]
    stats = [host.scheduler_stats() for host in hosts]
    limits = [objects.NUMATopologyLimits(**host.limits) for host in hosts]
    seconds, chosen = 0.0, []
    for number in range(batch):
        topologies = [copy.deepcopy(request.topology) for _host in hosts]
        fitted = []
        begin = time.process_time()
        for host, pools, limit, topology in zip(hosts, stats, limits, topologies):
            fitted.append(
                hardware.numa_fit_instance_to_host(
                    host.topology,
                    topology,
                    provider_mapping=None,
                    limits=limit,
                    pci_requests=request.pci.requests,
                    pci_stats=pools,
                )
            )
        seconds += time.process_time() - begin
        rows = [row for row, each in enumerate(fitted) if each is not None]
        if not rows:
            break
        row = rows[(number * 7) % len(rows)]
        host = hosts[row]
        host.topology = stats[row].numa_topology = hardware.numa_usage_from_instance_numa(
            host.topology, fitted[row]
        )
        if request.pci.requests:
            stats[row].apply_requests(request.pci.requests, None, fitted[row].cells)
        chosen.append(host.name)
    return seconds, chosen


def main():
    document = json.load(sys.stdin)
    numa_peer.configure(document)
    requests = [numa_peer.Request(each, number) for number, each in enumerate(document["requests"])]
    print(
        json.dumps(
            {
                f"{each.name}/{batch}": run(document, each, batch)
                for each in requests
                for batch in document["batches"]
            }
        )
    )


if __name__ == "__main__":
    main()
