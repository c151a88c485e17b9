# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time of a drain of a host, and of the same live migrations by parallel virsh.

The program uses a separate lab with two hosts. Each pair of measurements moves the same guests from
kvm1 to kvm2 by the playbook, back, and by ``virsh migrate --live --p2p`` with the same number at a
time, and back. The ratio leaves out the playbook's start: the time of a drain of a host with one
guest, minus virsh's time with that guest. It contains the reading of the host, the planning, the
checks of the moves by both hypervisors, and the last reading of the host. The program also measures
a drain of the empty host, for comparison. It prints one JSON document.

Usage: .venv/bin/python tests/benchmarks/drain_lab.py [--instances 8] [--limit 2] [--memory-mb 256]
[--bandwidth-mib N] [--pairs 3]
                                                       [--storage folder|rbd] [--other CHECKOUT]

With ``--storage rbd`` the disks are images in a Ceph cluster of the lab, which counts as a separate
pool; otherwise they are files in a folder that both hosts see. ``ratios`` has the ratio of each
pair: playbook and virsh take turns as the first.

With --other the collection of a second checkout, such as an earlier commit, does the same drains in
the same run. It has a separate store. The checkouts take turns, and `than_other` has the times of
this one divided by the times of the other.

With --bandwidth-mib each migration, by the playbook and by virsh, sends at most this number of MiB
per second, so that small guests take as long as large ones.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import runpy
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

# The checkout's own conftest.py makes the checkout importable as a collection; the lab's has the
# same name.
runpy.run_path(os.fspath(pathlib.Path(__file__).parents[2] / "conftest.py"))
sys.path.insert(0, os.fspath(pathlib.Path(__file__).parents[1] / "lab"))

from guests import Full  # noqa: E402
from lablib.layout import CHECKOUT, Layout  # noqa: E402
from lablib.storage import ceph  # noqa: E402
from test_fleet import DOMAIN, Fleet  # noqa: E402

from conftest import HERE, Lab, run  # noqa: E402

#: The store gives the lab's hosts little memory.
ROOM = {"drover_ram_allocation_ratio": 100.0, "drover_cpu_allocation_ratio": 100.0}
#: The pool of the lab's Ceph counts as a separate pool; it is small.
POOLS = {"drover_storage_pools": [{"name": "ceph", "allocation_ratio": 100.0}]}
#: libvirt does not know that the folder of the disks is shared.
VIRSH = (
    "xargs -P {limit} -I NAME virsh migrate --live --p2p --unsafe --persistent --undefinesource"
    " NAME qemu+ssh://root@{to}/system"
)


def seconds(work, *words, **options):
    """Return the time of a call in seconds."""
    began = time.monotonic()
    work(*words, **options)
    return time.monotonic() - began


class OtherLab(Lab):
    """The same lab, for the collection of another checkout.

    :param checkout: folder of the checkout.
    """

    def __init__(self, layout, checkout):
        super().__init__(layout)
        folder = layout.folder / "other"
        folder.mkdir()
        self._settings = folder / "ansible.cfg"
        settings = (layout.folder / "ansible.cfg").read_text(encoding="utf-8")
        own, its = (
            f"collections_path = {path}"
            for path in (layout.folder / "collections", folder / "collections")
        )
        self._settings.write_text(settings.replace(own, its), encoding="utf-8")
        galaxy = [os.fspath(CHECKOUT / ".venv" / "bin" / "ansible-galaxy"), "collection"]
        run([*galaxy, "build", "--output-path", os.fspath(folder), os.fspath(checkout)])
        (archive,) = folder.glob("*.tar.gz")
        run(
            [
                *galaxy,
                "install",
                "--offline",
                "--force",
                "-p",
                os.fspath(folder / "collections"),
                os.fspath(archive),
            ]
        )

    def environment(self, store_url=None):
        return {**super().environment(store_url), "ANSIBLE_CONFIG": os.fspath(self._settings)}


class Bench:
    """Guests, and the drains of each checkout.

    :param fleets: dict name of a checkout -> Fleet of its collection.
    """

    def __init__(self, fleets, options):
        self.fleets, self.limit, self.bandwidth = fleets, options.limit, options.bandwidth_mib
        self.fleet = next(iter(fleets.values()))
        self.given = {**ROOM, **(POOLS if options.storage == "rbd" else {})}
        self.guests = [
            Full(f"guest{number}", memory_mb=options.memory_mb)
            for number in range(options.instances)
        ]
        if options.storage == "rbd":
            self.make_on_ceph()
        else:
            self.fleet.make("kvm1", *self.guests)
        # Wait until each has written to its memory.
        while self.cpu_seconds(before := self.cpu_seconds()) - before > 0.2 * options.instances:
            pass

    def make_on_ceph(self):
        """The guests, each with a disk that is an image in Ceph."""
        cluster, disk = ceph.Cluster(self.fleet.lab.layout), self.fleet.folder / "boot.raw"
        with open(disk, "wb") as file:
            file.write(self.guests[0].sector())
            file.truncate(8 << 20)
        for guest in self.guests:
            cluster.rbd("import", "--no-progress", os.fspath(disk), guest.name)
            identity = {
                "name": guest.name,
                "uuid": guest.uuid,
                "memory_mb": guest.memory_mb,
                "vcpus": 1,
                "metadata": "",
            }
            xml = DOMAIN.format(disks=ceph.disk_xml(guest.name), **identity)
            self.fleet.run(
                "kvm1", f"virsh define /dev/stdin <<'END'\n{xml}\nEND\nvirsh start {guest.name}"
            )

    def cpu_seconds(self, dummy=None):
        time.sleep(2)
        said = self.fleet.run("kvm1", "virsh domstats --cpu-total")
        return (
            sum(int(line.partition("=")[2]) for line in said.splitlines() if "cpu.time" in line)
            / 1e9
        )

    def drain(self, fleet):
        fleet.drain(
            "kvm1",
            drover_max_migrations=self.limit,
            **self.given,
            drover_migration={"bandwidth_mib": self.bandwidth} if self.bandwidth else {},
        )

    def virsh(self, source, to, bandwidth=None, guests=None):
        names = "\n".join(guest.name for guest in guests or self.guests)
        self.fleet.run(
            source,
            f"printf '{names}\\n' | {VIRSH.format(limit=self.limit, to=to)}"
            + (f" --bandwidth {bandwidth}" if bandwidth else ""),
        )

    def back(self, guests):
        """Move these guests from kvm2 to kvm1."""
        self.virsh("kvm2", "kvm1", guests=guests)

    def know(self, fleet):
        """Bring the store of a checkout up to date: kvm1 enabled, and all guests on their hosts."""
        fleet.playbook("undrain", "-e", json.dumps({"drover_host": "kvm1", **self.given}))
        fleet.playbook("discover", "-e", json.dumps(self.given))

    def see(self, host):
        assert {where for where, state in self.fleet.where().values() if state == "running"} == {
            host
        }

    def times(self, fleet):
        """Return the times of a checkout, in seconds; the guests are at kvm2 before and after."""
        self.back(self.guests)
        self.know(fleet)
        drained = seconds(self.drain, fleet)
        self.see("kvm2")
        self.know(fleet)
        empty = seconds(self.drain, fleet)
        self.back(self.guests[:1])
        self.know(fleet)
        one = seconds(self.drain, fleet)
        self.see("kvm2")
        return {"drain_s": drained, "one_s": one, "empty_s": empty}

    def pair(self, number):
        """Return the times, in seconds: of virsh, and of each checkout by its name."""
        if not number:
            self.virsh("kvm1", "kvm2")
        ways = [
            (name, lambda fleet=fleet: self.times(fleet)) for name, fleet in self.fleets.items()
        ]
        ways.append(("virsh", self.times_of_virsh))
        load = os.getloadavg()[0]
        times = {name: way() for name, way in (reversed(ways) if number % 2 else ways)}
        return {"load": load, **times.pop("virsh"), **times}

    def times_of_virsh(self):
        """Return the times of virsh, in seconds; the guests are at kvm2 before and after."""
        one = self.guests[:1]
        self.back(one)
        one_by_virsh = seconds(self.virsh, "kvm1", "kvm2", self.bandwidth, one)
        self.back(self.guests)
        by_virsh = seconds(self.virsh, "kvm1", "kvm2", self.bandwidth)
        self.see("kvm2")
        return {"virsh_s": by_virsh, "one_by_virsh_s": one_by_virsh}


def medians(pairs):
    """Return the median of each figure, of nested dicts too."""
    return {
        key: (
            medians([pair[key] for pair in pairs])
            if isinstance(value, dict)
            else statistics.median(pair[key] for pair in pairs)
        )
        for key, value in pairs[0].items()
    }


def figures(median, name):
    """Return the results of one checkout: seconds, except for ``ratio``."""
    times = median[name]
    start = times["one_s"] - median["one_by_virsh_s"]
    return {
        "empty_s": times["empty_s"],
        "start_s": start,
        "ratio": (times["drain_s"] - start) / median["virsh_s"],
    }


def rounded(value):
    """Return the same with two decimals, three for ratios."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list) else round(value, 3)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (("instances", 8), ("limit", 2), ("memory-mb", 256), ("pairs", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--bandwidth-mib", type=int)
    parser.add_argument("--storage", choices=("folder", "rbd"), default="folder")
    parser.add_argument("--other", metavar="CHECKOUT")
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="drover-bench-"))
    command = [os.fspath(HERE / "lab"), "--folder", os.fspath(folder / "lab")]
    try:
        subprocess.run(
            [
                *command,
                "up",
                "--hosts",
                "2",
                *(["--with", "ceph"] if options.storage == "rbd" else []),
            ],
            check=True,
            stdout=sys.stderr,
        )
        layout = Layout(folder / "lab")
        labs = {"this": Lab(layout)}
        labs["this"].command("install")
        if options.other:
            labs["other"] = OtherLab(layout, options.other)
        fleets = {
            name: Fleet(lab, folder, f"sqlite:///{folder / name}.db") for name, lab in labs.items()
        }
        bench = Bench(fleets, options)
        for fleet in fleets.values():
            fleet.playbook("discover", "-e", json.dumps(bench.given))
        pairs = [bench.pair(number) for number in range(options.pairs)]
    finally:
        subprocess.run([*command, "down"], check=False, stdout=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
    median = medians(pairs)
    own_figures = figures(median, "this")
    ratios = [figures(pair, "this")["ratio"] for pair in pairs]
    answer = {
        **vars(options),
        "pairs": rounded(pairs),
        "ratios": rounded(ratios),
        **rounded(own_figures),
    }
    if options.other:
        theirs = figures(median, "other")
        answer["other"] = {"checkout": options.other, **rounded(theirs)}
        answer["than_other"] = rounded(
            {key: value / theirs[key] for key, value in own_figures.items()}
        )
    print(json.dumps(answer, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
