# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time of a disk's move on its host, by the playbook and by ``virsh blockcopy``.

The guest runs, and the disk moves to another folder. The program uses a separate lab with one host.
The disk is full of data. Each pair moves it there and back by each of the two ways, which take
turns. The virsh command is ``virsh blockcopy --pivot --wait``. The host reports the time of the
playbook's move: from the record of the move to the removal of the old file. `virsh_s` is the
command, run on the host; it leaves the old file, which is removed in the same time. `playbook_s` is
the whole command, with the start of Ansible. The program prints one JSON document.

Usage: .venv/bin/python tests/benchmarks/disk_move.py [--mib 1024] [--pairs 3]
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.fspath(pathlib.Path(__file__).parents[1] / "lab"))

from lablib.layout import Layout  # noqa: E402
from test_fleet import LOCAL, Domain, Fleet  # noqa: E402

from conftest import HERE, Lab  # noqa: E402

#: The greatest allowed ratio of a move.
BAR = 1.1
FAST = f"{LOCAL}/fast"
#: Run on the host: the seconds of a command.
TIMED = (
    "import subprocess, sys, time; began = time.monotonic(); subprocess.run(sys.argv[1],"
    " shell=True, check=True); print(time.monotonic() - began)"
)


def by_playbook(fleet, folder):
    """Return (seconds that the host reports, seconds of the whole command)."""
    words = [
        "-e",
        json.dumps({"drover_instance": "web", "drover_disk": "vda", "drover_pool": folder}),
        "-v",
    ]
    began = time.monotonic()
    done = fleet.playbook("instance_disk_move", *words)
    whole = time.monotonic() - began
    return float(re.search(r'\bseconds"?: ([0-9.]+)', done.stdout).group(1)), whole


def by_virsh(fleet, folder, other):
    """Return the seconds of the command, by the clock of the host."""
    command = (
        f"virsh blockcopy web vda --dest {folder}/web-0.qcow2 --format qcow2 --transient-job --wait"
        f" --pivot > /dev/null && rm {other}/web-0.qcow2"
    )
    return float(fleet.run("kvm1", f"python3 -c {shlex.quote(TIMED)} {shlex.quote(command)}"))


def pair(fleet, number):
    """Make one move there and back by each way, in turn."""
    times = {}
    for way in ("virsh", "playbook") if number % 2 else ("playbook", "virsh"):
        if way == "virsh":
            times["virsh_s"] = [by_virsh(fleet, FAST, LOCAL), by_virsh(fleet, LOCAL, FAST)]
            fleet.playbook("discover")
        else:
            found = [by_playbook(fleet, folder) for folder in (FAST, LOCAL)]
            times["move_s"], times["playbook_s"] = (
                [each[which] for each in found] for which in (0, 1)
            )
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="drover-bench-"))
    command = [os.fspath(HERE / "lab"), "--folder", os.fspath(folder / "lab")]
    try:
        subprocess.run([*command, "up", "--hosts", "1"], check=True, stdout=sys.stderr)
        lab = Lab(Layout(folder / "lab"))
        lab.command("install")
        fleet = Fleet(lab, folder, f"sqlite:///{folder / 'store.db'}")
        fleet.run("kvm1", f"mkdir -p {FAST}")
        fleet.make(
            "kvm1", Domain("web", folder=LOCAL, size=f"{options.mib}M", written_mb=options.mib)
        )
        fleet.playbook("discover")
        pairs = [pair(fleet, number) for number in range(options.pairs)]
    finally:
        subprocess.run([*command, "down"], check=False, stdout=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
    median = {
        key: statistics.median(time_ for each in pairs for time_ in each[key])
        for key in ("virsh_s", "move_s", "playbook_s")
    }
    ratio = median["move_s"] / median["virsh_s"]
    figures = {
        "mib": options.mib,
        "pairs": pairs,
        "median": median,
        "ratio": round(ratio, 3),
        "bar": BAR,
        "ok": ratio <= BAR,
    }
    print(json.dumps(figures, indent=1))
    return 0 if ratio <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
