# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resources of the event source while it watches many hosts of libvirt's test driver in one
process.

    python tests/benchmarks/event_source.py --hosts 1000 --instances 10 --seconds 60

Each host is a separate connection with its own domains; some of them stop and start all the time.
The program prints JSON: hosts, instances, seconds_to_connect, resident_mib (of the process, with
Python and the hosts themselves), cpu_percent (of one core, over --seconds), changes, events, and
true if both limits are kept. The test driver is in the same process: the figures include the work
of libvirt on real hosts, and no ssh.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import pathlib
import resource
import sys
import tempfile
import time
import uuid

# The checkout's own conftest.py makes the checkout importable as a collection.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
importlib.import_module("conftest")

import libvirt

from ansible_collections.drover.compute.plugins.plugin_utils._events.options import WatchOptions
from ansible_collections.drover.compute.plugins.plugin_utils._events.watch import FleetWatch

MOST_MIB, MOST_PERCENT = 300, 10

NODE = "<node>{domains}<cpu><mhz>1</mhz><model>x</model><active>8</active><nodes>1</nodes><sockets>1</sockets><cores>8</cores>"
NODE += "<threads>1</threads></cpu><memory>67108864</memory></node>"
DOMAIN = (
    "<domain"
    " type='test'><name>{name}</name><uuid>{uuid}</uuid><memory>65536</memory><os><type>hvm</type></os></domain>"
)


def make(folder: pathlib.Path, hosts: int, instances: int) -> dict[str, str]:
    """Write the description of each host; return {name: URI}."""
    uris = {}
    for number in range(hosts):
        domains = "".join(
            DOMAIN.format(name=f"vm{number}-{each}", uuid=uuid.uuid4()) for each in range(instances)
        )
        path = folder / f"kvm{number:04}.xml"
        path.write_text(NODE.format(domains=domains))
        uris[path.stem] = f"test://{path}"
    return uris


def resident_mib() -> float:
    pages = int(pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def measure(hosts: dict[str, str], seconds: float) -> dict[str, object]:
    # The second connection to a file of the test driver is another host: the changes go through the
    # connections of the source.
    libvirt.openReadOnly = libvirt.open
    watch = FleetWatch(WatchOptions.of_args({"hosts": hosts}))
    events = []

    async def run() -> None:
        async for event in watch.events():
            events.append(event)

    began = time.monotonic()
    task = asyncio.create_task(run())
    while sum(not watch._instances.is_new(host) for host in hosts) < len(hosts):
        await asyncio.sleep(0.1)
    connected = time.monotonic() - began
    opened = list(watch._connections._open.values())
    used, began = cpu_seconds(), time.monotonic()
    number = 0
    while time.monotonic() - began < seconds:
        # Ten changes a second: a domain of the next host stops, or starts again in the next round.
        domain = opened[number % len(opened)].conn.listAllDomains()[0]
        if domain.isActive():
            domain.destroy()
        else:
            domain.create()
        number += 1
        await asyncio.sleep(0.1)
    took = time.monotonic() - began
    percent = 100 * (cpu_seconds() - used) / took
    task.cancel()
    return {
        "seconds_to_connect": round(connected, 1),
        "resident_mib": round(resident_mib()),
        "cpu_percent": round(percent, 1),
        "changes": number,
        "events": len(events),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--instances", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(
            measure(make(pathlib.Path(folder), options.hosts, options.instances), options.seconds)
        )
    fits = figures["resident_mib"] <= MOST_MIB and figures["cpu_percent"] <= MOST_PERCENT
    print(
        json.dumps(
            {
                "hosts": options.hosts,
                "instances": options.hosts * options.instances,
                **figures,
                "fits": fits,
            }
        )
    )
    sys.stdout.flush()
    os._exit(0 if fits else 1)


if __name__ == "__main__":
    main()
