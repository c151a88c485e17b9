# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The examples of the documentation, as plays, and the place of the run of each.

Used by tests/properties/test_examples.py and tests/lab/test_examples.py.
"""

from __future__ import annotations

import ast
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import yaml

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import node, record
from ansible_collections.drover.compute.tests import deprecations
from ansible_collections.drover.compute.tests.unit import ansible_process
from ansible_collections.drover.compute.tests.unit.store import fleets

ROOT = pathlib.Path(__file__).resolve().parents[2]

# The places for the plays of an example:
HERE = "here"  # on a store with a small fleet; libvirt's test driver is the hypervisor
LAB = "lab"  # on the hypervisors of the lab: tests/lab/test_examples.py

# (kind, name) -> the places of its plays, one word for each play, in order.
WHERE = {
    ("module", "aggregate"): (HERE,),
    ("module", "allocation"): (HERE,),
    ("module", "allocation_info"): (HERE,),
    ("module", "allocation_candidates_info"): (HERE,),
    ("module", "capacity_info"): (HERE,),
    ("module", "compute_node"): (HERE, HERE, HERE, HERE),
    ("module", "domain"): (HERE, LAB),
    ("module", "domain_power"): (HERE, LAB),
    ("module", "drain"): (LAB,),
    ("module", "evacuate"): (HERE,),
    ("module", "flavor"): (HERE,),
    ("module", "fleet_cpu"): (HERE, HERE, LAB),
    ("module", "image"): (HERE,),
    ("module", "host"): (HERE,),
    ("module", "history_info"): (HERE,),
    ("module", "host_info"): (HERE,),
    ("module", "hypervisor_info"): (LAB, HERE),
    ("module", "instance"): (LAB,),
    ("module", "instance_cdrom"): (LAB,),
    ("module", "instance_disk"): (LAB,),
    ("module", "instance_info"): (HERE,),
    ("module", "instance_labels"): (LAB,),
    ("module", "instance_interface"): (LAB,),
    ("module", "instance_migrate"): (LAB,),
    ("module", "instance_resize"): (LAB,),
    ("module", "instance_snapshot"): (LAB,),
    ("module", "lease"): (HERE,),
    ("module", "metrics"): (HERE,),
    ("module", "quota"): (HERE,),
    ("module", "quota_info"): (HERE,),
    ("module", "report"): (HERE, HERE),
    ("module", "resource_class"): (HERE,),
    ("module", "resource_provider"): (HERE,),
    ("module", "resource_provider_info"): (HERE,),
    ("module", "server_group"): (HERE,),
    ("module", "show"): (HERE,),
    ("module", "store"): (HERE, HERE, HERE),
    ("module", "store_audit_info"): (HERE,),
    ("module", "trait"): (HERE,),
    ("module", "undrain"): (LAB,),
    ("module", "plan_drain_info"): (HERE,),
    ("module", "plan_home_info"): (HERE,),
    ("module", "plan_rebalance_info"): (HERE,),
    ("module", "plan_rolling_info"): (HERE,),
    ("module", "schedule_info"): (HERE,),
    ("module", "simulate"): (HERE,),
    ("lookup", "allocation_candidates"): (HERE,),
    ("lookup", "capacity"): (HERE,),
    ("lookup", "schedule"): (HERE,),
    ("filter", "_cloud_init_seed"): (HERE,),
    ("filter", "_disk_layout"): (HERE,),
    ("filter", "explain"): (HERE,),
    ("filter", "_fleet_findings"): (HERE,),
    ("filter", "_guest"): (HERE,),
    ("filter", "_migration_connections"): (HERE,),
    ("filter", "_following"): (HERE,),
    ("filter", "_migration_peers"): (HERE,),
    ("filter", "_on_localhost"): (HERE,),
    ("filter", "_some_host"): (HERE,),
    ("filter", "_whole_fleet"): (HERE,),
    ("filter", "_without_tags"): (HERE,),
    ("inventory", "fleet"): (HERE,),
    ("role", "drain"): (LAB,),
    ("role", "evacuate"): (LAB,),
    ("role", "hypervisor"): (LAB, LAB),
    ("role", "instance"): (LAB,),
    ("role", "migrate"): (LAB,),
    ("role", "place"): (LAB,),
    ("role", "power"): (LAB,),
    ("role", "rolling"): (LAB,),
}


def text(kind, name):
    """Return the examples of a plugin as ansible-doc prints them; for a role, the examples of its
    README."""
    if kind == "role":
        blocks = re.findall(
            r"^```yaml\n(.*?)^```", (ROOT / "roles" / name / "README.md").read_text(), re.M | re.S
        )
        return "\n".join(block for block in blocks if re.search(r"^- name: .*\n  hosts:", block))
    if kind == "filter":
        return yaml.safe_load((ROOT / "plugins" / "filter" / f"{name}.yml").read_text())["EXAMPLES"]
    folder = {"module": "modules"}.get(kind, kind)
    for statement in ast.parse((ROOT / "plugins" / folder / f"{name}.py").read_text()).body:
        if isinstance(statement, ast.Assign) and statement.targets[0].id == "EXAMPLES":
            return ast.literal_eval(statement.value)
    raise LookupError(f"{kind} {name} has no EXAMPLES")


def plays(kind, name):
    """Return the plays of the examples; tasks without a play get one on localhost."""
    items = yaml.safe_load(text(kind, name))
    if any("hosts" in item for item in items):
        return items
    return [
        {"name": f"Examples of {name}", "hosts": "localhost", "gather_facts": False, "tasks": items}
    ]


def plays_for(kind, name, where):
    """Return the plays for this place."""
    return [
        play
        for play, place in zip(plays(kind, name), WHERE[kind, name], strict=True)
        if place == where
    ]


# --- a small fleet ----------------------------------------------------------------------------

HOSTS = ("kvm1", "kvm2", "kvm3")
MIB = 65536


def fill(url):
    """Fill a store with kvm1, kvm2 and kvm3; there are two instances on each."""
    reports = {}
    for number, host in enumerate(HOSTS, 1):
        domains = [
            {
                "uuid": f"5f0c6a3e-7d0c-4c56-9f2e-0f6d5a9b{number}c0{each}",
                "name": f"app{number}{each}",
                "state": "running",
                "vcpus": 1,
                "memory_mb": 1024,
            }
            for each in (1, 2)
        ]
        facts = node.flat_facts(
            {"host": host, "vcpus": 16, "memory_mb": MIB, "local_gb": 500, "domains": domains}
        )
        reports[host] = [fleets.described(facts, {"availability_zone": f"az{number}"})]
    with Store.open(url).write() as connection:
        record.record(connection, reports, time.time())


def inventory(folder):
    """Write an inventory of the fleet; its hosts need no SSH and have libvirt's test driver as
    their hypervisor."""
    path = pathlib.Path(folder) / "inventory.yml"
    common = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "drover_uris": ["test:///default"],
    }
    path.write_text(
        yaml.safe_dump({"hypervisors": {"hosts": dict.fromkeys(HOSTS), "vars": common}})
    )
    return path


def command(folder, *words, url=None, environment=None):
    """Run one of Ansible's commands in this folder, which is its home too; return the finished
    process."""
    kept = {
        name: os.environ[name]
        for name in ("PATH", "ANSIBLE_COLLECTIONS_PATH", "LANG")
        if name in os.environ
    }
    programs = os.path.dirname(sys.executable)
    # The name of Ansible's command "ansible" is "adhoc" there.
    name = words[0].removeprefix("ansible-").replace("ansible", "adhoc")
    status, output = ansible_process.run(
        folder,
        [name, *words[1:]],
        {
            **kept,
            "PATH": f"{programs}:{kept['PATH']}",
            "HOME": os.fspath(folder),
            "LC_ALL": "C.UTF-8",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_LOCALHOST_WARNING": "0",
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
            "PYTHONDONTWRITEBYTECODE": "1",
            **({"DROVER_STORE_URL": url} if url else {}),
            **(environment or {}),
        },
    )
    deprecations.refuse(output)
    return subprocess.CompletedProcess(words, status, output)


def write_play(folder, found):
    path = pathlib.Path(folder) / "example.yml"
    path.write_text(json.dumps(found))
    return path
