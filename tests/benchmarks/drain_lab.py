# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long the drain of a host takes, and the same live migrations by parallel virsh.

In a lab of its own with two hosts. Each pair of measurements moves the same guests from kvm1 to kvm2 by the playbook, back,
and by ``virsh migrate --live --p2p`` with as many at a time, and back. The playbook's start, which the ratio leaves out, is what
a drain takes whose host has one guest, longer than virsh with that one: reading the host, planning, asking both hypervisors
about the moves, looking at the host again. A drain of the host while it is empty is there to compare. Prints one JSON document.

Usage: .venv/bin/python tests/benchmarks/drain_lab.py [--instances 8] [--limit 2] [--memory-mb 256] [--bandwidth-mib N] [--pairs 3]

With --bandwidth-mib each migration, by the playbook and by virsh alike, sends so many MiB per second at most: so that small guests
take as long as large ones.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.fspath(pathlib.Path(__file__).parents[1] / "lab"))

from guests import Full  # noqa: E402
from lablib.layout import Layout  # noqa: E402
from test_fleet import Fleet  # noqa: E402

from conftest import HERE, Lab  # noqa: E402

#: The lab's hosts are given little memory in the store.
ROOM = {"drover_ram_allocation_ratio": 100.0, "drover_cpu_allocation_ratio": 100.0}
#: libvirt does not know that the folder of the disks is shared.
VIRSH = "xargs -P {limit} -I NAME virsh migrate --live --p2p --unsafe --persistent --undefinesource NAME qemu+ssh://root@{to}/system"


def seconds(work, *words, **options):
    """How long a call takes."""
    began = time.monotonic()
    work(*words, **options)
    return time.monotonic() - began


class Bench:
    def __init__(self, fleet, options):
        self.fleet, self.limit, self.bandwidth = fleet, options.limit, options.bandwidth_mib
        self.guests = [Full(f"guest{number}", memory_mb=options.memory_mb) for number in range(options.instances)]
        fleet.make("kvm1", *self.guests)
        # Until each has written to its memory.
        while self.cpu_seconds(before := self.cpu_seconds()) - before > 0.2 * options.instances:
            pass

    def cpu_seconds(self, dummy=None):
        time.sleep(2)
        said = self.fleet.run("kvm1", "virsh domstats --cpu-total")
        return sum(int(line.partition("=")[2]) for line in said.splitlines() if "cpu.time" in line) / 1e9

    def drain(self):
        self.fleet.drain(
            "kvm1", drover_max_migrations=self.limit, **ROOM, drover_migration={"bandwidth_mib": self.bandwidth} if self.bandwidth else {}
        )

    def virsh(self, source, to, bandwidth=None, guests=None):
        names = "\n".join(guest.name for guest in guests or self.guests)
        self.fleet.run(
            source, f"printf '{names}\\n' | {VIRSH.format(limit=self.limit, to=to)}" + (f" --bandwidth {bandwidth}" if bandwidth else "")
        )

    def back(self, guests=None):
        """All of them, or these, are at kvm1, which is enabled, and the store knows."""
        self.fleet.playbook("undrain", "-e", json.dumps({"drover_host": "kvm1", **ROOM}))
        self.virsh("kvm2", "kvm1", guests=guests)
        self.fleet.playbook("discover", "-e", json.dumps(ROOM))

    def see(self, host):
        assert {where for where, state in self.fleet.where().values() if state == "running"} == {host}

    def pair(self, number):
        """The times, in seconds; the guests are at kvm2 in the end."""
        if number:
            self.back()
        drained = seconds(self.drain)
        self.see("kvm2")
        empty = seconds(self.drain)
        one = self.guests[:1]
        self.back(one)
        drained_of_one = seconds(self.drain)
        self.see("kvm2")
        self.back(one)
        one_by_virsh = seconds(self.virsh, "kvm1", "kvm2", self.bandwidth, one)
        self.back()
        by_virsh = seconds(self.virsh, "kvm1", "kvm2", self.bandwidth)
        self.see("kvm2")
        return {
            "drain_s": drained,
            "virsh_s": by_virsh,
            "one_s": drained_of_one,
            "one_by_virsh_s": one_by_virsh,
            "empty_s": empty,
            "load": os.getloadavg()[0],
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (("instances", 8), ("limit", 2), ("memory-mb", 256), ("pairs", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--bandwidth-mib", type=int)
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="drover-bench-"))
    command = [os.fspath(HERE / "lab"), "--folder", os.fspath(folder / "lab")]
    try:
        subprocess.run([*command, "up", "--hosts", "2"], check=True, stdout=sys.stderr)
        lab = Lab(Layout(folder / "lab"))
        lab.command("install")
        fleet = Fleet(lab, folder, f"sqlite:///{folder / 'store.db'}")
        bench = Bench(fleet, options)
        fleet.playbook("discover", "-e", json.dumps(ROOM))
        pairs = [bench.pair(number) for number in range(options.pairs)]
    finally:
        subprocess.run([*command, "down"], check=False, stdout=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
    shown = [{key: round(value, 2) for key, value in pair.items()} for pair in pairs]
    median = {key: statistics.median(pair[key] for pair in pairs) for key in pairs[0]}
    start = median["one_s"] - median["one_by_virsh_s"]
    print(
        json.dumps(
            {
                "instances": options.instances,
                "limit": options.limit,
                "memory_mb": options.memory_mb,
                "bandwidth_mib": options.bandwidth_mib,
                "pairs": shown,
                "start_s": round(start, 2),
                "ratio": round((median["drain_s"] - start) / median["virsh_s"], 3),
            },
            indent=1,
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
