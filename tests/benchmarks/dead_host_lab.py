# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time from a host's power cut to the restart of its first guest, by a person.

The program uses a separate lab with three hosts. Right before the cut Ansible opens a master of SSH
to the host, which is stale afterwards. Then the two commands of docs/evacuate.md run one after the
other, without a pause and without the event source: discover, and evacuate with the words that the
host is off. The guests start when QEMU writes its pid file on their new hosts. The program prints
one JSON document; the exit status is 1 if it took longer than the limit.

Usage: .venv/bin/python tests/benchmarks/dead_host_lab.py [--instances 4] [--limit 75]
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import runpy
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

# The checkout's own conftest.py makes the checkout importable as a collection; the lab's has the
# same name.
runpy.run_path(os.fspath(pathlib.Path(__file__).parents[2] / "conftest.py"))
sys.path.insert(0, os.fspath(pathlib.Path(__file__).parents[1] / "lab"))

from lablib.layout import Layout  # noqa: E402
from test_fleet import Domain, Fleet  # noqa: E402

from conftest import HERE, Lab, run  # noqa: E402

GIVEN = {
    "drover_shared_pools": ["shared"],
    "drover_ram_allocation_ratio": 100.0,
    "drover_cpu_allocation_ratio": 100.0,
}
OFF = {"drover_host": "kvm1", "drover_host_is_off": "kvm1 is powered off", **GIVEN}

#: The start times of a host's guests, in seconds since 1970.
STARTED = (
    "import glob, os; print(*(os.stat(path).st_mtime for path in"
    " glob.glob('/run/libvirt/qemu/guest*.pid')))"
)


def measure(fleet: Fleet, instances: int) -> dict[str, float]:
    """Cut the power of kvm1 and restart its guests; return seconds since the cut."""
    guests = [Domain(f"guest{number}") for number in range(instances)]
    fleet.playbook("discover", "-e", json.dumps(GIVEN))
    fleet.make("kvm1", *guests)
    fleet.playbook("discover", "-e", json.dumps(GIVEN))
    # A master with Ansible's own arguments, as another playbook of the operator leaves it.
    masters = {
        **fleet.lab.environment(),
        "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=60s",
    }
    run(["ansible", "kvm1", "-m", "ansible.builtin.ping"], masters)
    fleet.run("kvm1", "(sleep 1; ip link set eth0 down) > /dev/null 2>&1 &")
    time.sleep(1)
    cut = time.time()
    fleet.lab.command("kill", "kvm1")
    # The discovery fails because of the dead host.
    fleet.playbook("discover", "-e", json.dumps(GIVEN), check=False)
    discovered = time.time() - cut
    fleet.playbook("evacuate", "-e", json.dumps(OFF))
    evacuated = time.time() - cut
    started = [fleet.run(host, f"python3 -c {shlex.quote(STARTED)}") for host in ("kvm2", "kvm3")]
    times = [float(each) for text in started for each in text.split()]
    assert len(times) == instances, times
    return {
        "discovered_s": discovered,
        "first_guest_s": min(times) - cut,
        "last_guest_s": max(times) - cut,
        "evacuated_s": evacuated,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (("instances", 4), ("limit", 75)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="drover-bench-"))
    command = [os.fspath(HERE / "lab"), "--folder", os.fspath(folder / "lab")]
    load = os.getloadavg()[0]
    try:
        subprocess.run([*command, "up", "--hosts", "3"], check=True, stdout=sys.stderr)
        lab = Lab(Layout(folder / "lab"))
        lab.command("install")
        figures = measure(Fleet(lab, folder, f"sqlite:///{folder / 'store'}.db"), options.instances)
    finally:
        subprocess.run([*command, "down"], check=False, stdout=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
    met = figures["first_guest_s"] <= options.limit
    print(
        json.dumps(
            {
                **vars(options),
                "load": load,
                **{key: round(value, 1) for key, value in figures.items()},
                "met": met,
            },
            indent=1,
        )
    )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
