# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cost of discovery for each host, beside Ansible's own ping, in one run.

    python tests/benchmarks/discovery.py --hosts 20,80 --repeat 3 [--instances 4] [--forks 10]

The hosts are libvirt's test driver on this machine, each with a separate node, by Ansible's local
connection: so the figures do not include SSH or the network. ping is a playbook with
ansible.builtin.ping and the fact gathering off; both start Python on each host once. The program
prints JSON: for each number of hosts the CPU seconds and the seconds of both, the least of --repeat
runs each; and each_host, the cost of one more host, with the ratio.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
importlib.import_module("conftest")

CPU = """<cpu><mhz>2000</mhz><model>x86_64</model><active>8</active><nodes>1</nodes><sockets>1</sockets><cores>8</cores><threads>1</threads></cpu>"""
PING = [
    {
        "name": "Ping",
        "hosts": "hypervisors",
        "gather_facts": False,
        "tasks": [{"name": "Ping", "ansible.builtin.ping": None}],
    }
]


def node(name, instances):
    """Return the XML of a node of the test driver."""
    domains = "".join(
        "<domain"
        f' type="test"><name>{name}-{number}</name><uuid>{uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}-{number}")}</uuid><memory>1048576</memory>'
        "<vcpu>1</vcpu><os><type>hvm</type></os></domain>"
        for number in range(instances)
    )
    return f"<node>{CPU}<memory>67108864</memory>{domains}</node>"


def inventory(folder, hosts, instances):
    """Write an inventory of hosts that are nodes of the test driver."""
    by_name = {}
    for number in range(hosts):
        name = f"kvm{number:04}"
        path = folder / f"{name}.xml"
        path.write_text(node(name, instances))
        by_name[name] = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "drover_uris": [f"test://{path}"],
            "drover_instances_path": str(folder),
        }
    (folder / "hosts.yml").write_text(json.dumps({"hypervisors": {"hosts": by_name}}))
    (folder / "ping.yml").write_text(json.dumps(PING))


def cost(folder, playbook, forks):
    """Return (CPU seconds, seconds) of a playbook, with all processes that it starts and waits
    for.
    """
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "ansible",
            "playbook",
            "-i",
            "hosts.yml",
            "-f",
            str(forks),
            playbook,
        ],
        cwd=folder,
        env={
            **os.environ,
            "DROVER_STORE_URL": f"sqlite:///{folder}/store.db",
            "HOME": str(folder),
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "ANSIBLE_PIPELINING": "true",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stdout[-3000:])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        time.monotonic() - began,
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", default="20,80")
    parser.add_argument("--instances", type=int, default=4)
    parser.add_argument("--forks", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    rows = []
    for hosts in (int(each) for each in options.hosts.split(",")):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            inventory(folder, hosts, options.instances)
            # The first run makes the store.
            cost(folder, "drover.compute.discover", options.forks)
            runs = {"ping": [], "discover": []}
            for _again in range(options.repeat):
                runs["ping"].append(cost(folder, "ping.yml", options.forks))
                runs["discover"].append(cost(folder, "drover.compute.discover", options.forks))
        least = {
            what: [round(min(each), 2) for each in zip(*found)] for what, found in runs.items()
        }
        rows.append(
            {
                "hosts": hosts,
                **{what: dict(zip(("cpu", "seconds"), found)) for what, found in least.items()},
            }
        )
    first, last = rows[0], rows[-1]
    more = last["hosts"] - first["hosts"] or 1
    costs = {
        what: round((last[what]["cpu"] - first[what]["cpu"]) / more, 4)
        for what in ("ping", "discover")
    }
    costs["ratio"] = round(costs["discover"] / costs["ping"], 2) if costs["ping"] else None
    print(
        json.dumps(
            {
                "instances": options.instances,
                "forks": options.forks,
                "runs": rows,
                "cpu_each_host": costs,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
