# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cost of each command in a large fleet: CPU seconds and memory, without Ansible's start.

    python tests/benchmarks/scale.py --hosts 10000 --growth --json
    python tests/benchmarks/scale.py --hosts 1000 --empty-every 20 --commands
    rebalance,rolling --against ../before

The program fills a temporary store, or a store in --folder that is kept for further runs. The hosts
have 192, 256 and 320 GiB and are filled to 90 % of their memory with instances of 5 flavors, about
12 each; 4 zones, 2 cells, 10 aggregates, 90 traits for each host; the first instances of three
hosts are an anti-affinity group. With --empty-every N each Nth host is empty.

Each command runs in a separate process, and calls the functions of its plugin or lookup. For each
the output has: seconds, its CPU time (user and system) after the imports, the least of --repeat
runs; mb, the peak memory of the process; and figures of its result. A command that needs more than
--memory GiB of addresses or --seconds of CPU is stopped and has the key failed. --against also
measures another checkout in turn, by its own program and with a store that it fills: before, and
ratio, our seconds divided by its seconds. --growth also measures a tenth of the hosts: tenth, and
growth, the seconds of all hosts divided by the seconds of a tenth.

drain plans a host with an instance that never moves. drain_room plans a host with largest instances
that need an empty host: without one, the planner examines all instances of their cell. import and
simulation_export read the file that export wrote. inventory and inventory_instances are the whole
ansible-inventory --list, with Ansible's start. static is its time with the same JSON from an
inventory script, which is faster than a YAML file, and of_static the seconds divided by static.
simulation_1000 is only the placement of 1,000 instances.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]
AT_ONCE = 1000
MEMORY_GIB = (192, 256, 320)
#: vCPUs, GiB of memory, GiB of disk, and weight.
FLAVORS = {
    "small": (1, 4, 20, 15),
    "medium": (2, 8, 40, 20),
    "large": (4, 16, 80, 28),
    "xlarge": (8, 32, 160, 24),
    "huge": (16, 64, 320, 13),
}
FULL, MOST = 0.90, 0.93


def fill(url, hosts, empty_every):
    """Fill a store that does not exist yet."""
    from ansible_collections.drover.compute.plugins.plugin_utils._placement import server_groups
    from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
    from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
    from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import aggregates
    from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import flavors
    from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
    from ansible_collections.drover.compute.plugins.plugin_utils._tracker import node_data, record

    Store.open(url).upgrade()
    flavor_of, group_of = {}, {}
    for first in range(0, hosts, AT_ONCE):
        nodes = [node(number, empty_every) for number in range(first, min(first + AT_ONCE, hosts))]
        with Store.open(url).write() as connection:
            record.record(connection, node_data.reports(nodes, "unused", {}), time.time())
        for number, each in enumerate(nodes, first):
            for place, domain in enumerate(each["domains"]):
                flavor_of[domain["uuid"]] = next(
                    name for name, size in FLAVORS.items() if size[0] == domain["vcpus"]
                )
                if place == 0:
                    group_of[domain["uuid"]] = f"group{number // 3}"
    with Store.open(url).write() as connection:
        for number in range(10):
            aggregates.ensure(
                connection,
                f"row{number}",
                hosts=[name_of(each) for each in range(number, hosts, 10)],
            )
        for name, (vcpus, memory, disk, _often) in FLAVORS.items():
            flavors.ensure(
                connection,
                name,
                {"vcpus": vcpus, "memory_mb": memory * 1024, "disk_gb": disk},
                time.time(),
            )
        numbers = {
            name: server_groups.ensure(connection, name, "anti-affinity")[0].id
            for name in sorted(set(group_of.values()))
        }
        table = tables.instances
        connection.execute(
            sa.update(table)
            .where(table.c.uuid == sa.bindparam("of"))
            .values(flavor=sa.bindparam("flavor_name"), server_group_id=sa.bindparam("group_id")),
            [
                {"of": uuid, "flavor_name": name, "group_id": numbers.get(group_of.get(uuid))}
                for uuid, name in flavor_of.items()
            ],
        )


def url_in(folder):
    return f"sqlite:///{folder}/store.db"


def name_of(number):
    return f"kvm{number:06}"


def node(number, empty_every):
    import os_traits

    chosen = random.Random(number)
    memory = MEMORY_GIB[number % len(MEMORY_GIB)]
    standard = sorted(os_traits.get_traits("HW_CPU_X86") + os_traits.get_traits("COMPUTE_"))
    return {
        "host": name_of(number),
        "vcpus": 64,
        "memory_mb": memory * 1024,
        "reserved_host_memory_mb": 0,
        "local_gb": 8000,
        "availability_zone": f"az{number % 4}",
        "cell": f"cell{number // 4 % 2}",
        "hypervisor_type": "QEMU",
        "hypervisor_version": 8002002,
        "traits": [
            *standard[number % 5 :][:88],
            f"CUSTOM_RACK_{number // 40 % 20}",
            ("CUSTOM_SSD", "CUSTOM_GPU")[number % 2],
        ],
        "domains": (
            []
            if empty_every and number % empty_every == empty_every - 1
            else domains(number, memory, chosen)
        ),
    }


def domains(number, memory, chosen):
    domain_list, used = [], 0
    while used < FULL * memory:
        fitting = {
            name: size
            for name, size in FLAVORS.items()
            if used + size[1] <= max(MOST * memory, FULL * memory + 4)
        }
        vcpus, gib, disk, _often = FLAVORS[
            chosen.choices(list(fitting), [size[3] for size in fitting.values()])[0]
        ]
        domain_list.append(
            {
                "uuid": f"00000000-0000-4000-8000-{number:08x}{len(domain_list):04x}",
                "name": f"app{number}-{len(domain_list)}",
                "state": "running",
                "vcpus": vcpus,
                "memory_mb": gib * 1024,
                "disk_gb": disk,
                # One instance keeps its host from becoming empty.
                "metadata": {"move": "never"} if number == 0 and not domain_list else {},
            }
        )
        used += gib
    return domain_list


#: Imported before the measured time.
IMPORTED = (
    "action.host_info",
    "action.report",
    "plugin_utils._conductor.capacity",
    "plugin_utils._conductor.plans",
    "plugin_utils._placement.audit",
    "plugin_utils._store.copies.transfer",
    "plugin_utils._tracker.record",
)


class Commands:
    """The measured commands; each method returns figures of its result."""

    def __init__(self, folder, empty_every):
        from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
        from ansible_collections.drover.compute.plugins.plugin_utils._store import Store

        self.folder, self.empty_every, self.url = folder, empty_every, url_in(folder)
        self.store, self.policy = Store.open(self.url), Policy.from_mapping(None)

    def hosts(self):
        return {"hosts": len(self._hosts(None))}

    def host(self):
        return {"hosts": len(self._hosts(name_of(1)))}

    def _hosts(self, host):
        from ansible_collections.drover.compute.plugins.action.host_info import ActionModule

        action = ActionModule.__new__(ActionModule)
        action.store = lambda args, task_vars: self.store
        return action.act(
            {
                "host": host,
                "capacity": True,
                "service_down_time": 0,
                "show": False,
                "selector": None,
            },
            {},
        )["hosts"]

    def audit(self):
        from ansible_collections.drover.compute.plugins.plugin_utils._placement import audit

        with self.store.read() as connection:
            return {"findings": len(audit.audit(connection, time.time())["findings"])}

    def report(self):
        from ansible_collections.drover.compute.plugins.plugin_utils._conductor import report_data
        from ansible_collections.drover.compute.plugins.plugin_utils._report import html
        from ansible_collections.drover.compute.plugins.plugin_utils._store.database import bulk

        with bulk.without_collection():
            with self.store.read() as connection:
                view = report_data.read(connection, self.policy, time.time())
            return {"html_mb": round(len(html.page(view, time.time())) / 1e6, 2)}

    def capacity(self):
        from ansible_collections.drover.compute.plugins.plugin_utils._conductor import capacity

        with self.store.read() as connection:
            found = capacity.count(connection, capacity.all_flavors(connection), self.policy, True)
        return {each["name"]: [each["total"], each["with_loss"]["total"]] for each in found}

    def drain(self):
        return self._drain(name_of(0))

    def drain_room(self):
        return self._drain(name_of(2))

    def _drain(self, host):
        from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import (
            DrainQuestion,
        )
        from ansible_collections.drover.compute.plugins.plugin_utils._migrations.limits import (
            MigrationLimits,
        )

        with self.store.read() as connection:
            plan = DrainQuestion(self.policy, MigrationLimits(2, None, None)).plan(
                connection, [host]
            )
        return {
            "status": plan["status"],
            "moves": len(plan["moves"]),
            "unmovable": len(plan["unmovable"]),
        }

    def rolling(self):
        from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import (
            RollingQuestion,
        )

        with self.store.read() as connection:
            plan = RollingQuestion(self.policy).plan(connection, None)
        return {
            "batches": len(plan["batches"]),
            "bound": plan["bound"],
            "blocked": len(plan["blocked"]),
        }

    def rebalance(self):
        from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import (
            RebalanceQuestion,
        )

        with self.store.read() as connection:
            plan = RebalanceQuestion(self.policy).plan(connection)
        return {
            "moves": len(plan["moves"]),
            "score": [plan["score_before"], plan["score_after"]],
            "reason": plan["reason"],
        }

    def inventory(self):
        return self._inventory(False)

    def inventory_instances(self):
        return self._inventory(True)

    def _inventory(self, instances):
        import inventory

        wanted = {"plugin": "drover.compute.fleet", "store_url": self.url, "instances": instances}
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "fleet.drover.yml").write_text(json.dumps(wanted))
            _seconds, cpu, output = inventory.run(folder, "-i", "fleet.drover.yml", "--list")
            memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            # The same JSON from a script, which is faster than a YAML file.
            pathlib.Path(folder, "static.json").write_text(output)
            static = pathlib.Path(folder, "static.sh")
            static.write_text("#!/bin/sh\nexec cat static.json\n")
            static.chmod(0o700)
            _seconds, plain, same = inventory.run(folder, "-i", "static.sh", "--list")
        if same != output:
            raise SystemExit("the static inventory is another one")
        return {
            "json_mb": round(len(output) / 1e6, 2),
            "seconds": round(cpu, 3),
            "mb": round(memory),
            "static": round(plain, 3),
            "of_static": round(cpu / plain, 2),
        }

    def record_1(self):
        return self._record(1)

    def record_100(self):
        return self._record(100)

    def _record(self, count):
        from ansible_collections.drover.compute.plugins.plugin_utils._tracker import (
            node_data,
            record,
        )

        reports = node_data.reports(
            [node(number, self.empty_every) for number in range(count)], "unused", {}
        )
        with self.store.write() as connection:
            found = record.record(connection, reports, time.time())
        return {key: len(value) for key, value in found.items() if isinstance(value, (list, dict))}

    def export(self):
        from ansible_collections.drover.compute.plugins.plugin_utils._store.copies import transfer

        path = pathlib.Path(self.folder, "export")
        path.unlink(missing_ok=True)
        with self.store.read() as connection:
            transfer.export(connection, str(path), time.time())
        return {"file_mb": round(path.stat().st_size / 1e6, 1)}

    def _exported(self):
        path = pathlib.Path(self.folder, "export")
        if not path.exists():
            raise SystemExit("this command needs the file of export: name export before it")
        return str(path)

    def restore(self):
        from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
        from ansible_collections.drover.compute.plugins.plugin_utils._store.copies import transfer
        from ansible_collections.drover.compute.plugins.plugin_utils._store.copies.export_file import (
            Export,
        )

        path = self._exported()
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            store = Store.open(url_in(folder))
            store.upgrade()
            with Export(path) as file, store.write() as connection:
                return {"rows": sum(transfer.load(connection, file)["rows"].values())}

    def simulation_load(self):
        from ansible_collections.drover.compute.plugins.plugin_utils._simulation import simulate

        with simulate.copied(self.store):
            return {}

    def simulation_export(self):
        from ansible_collections.drover.compute.plugins.plugin_utils._simulation import simulate

        with simulate.copied(self.store, self._exported()):
            return {}

    def simulation_1000(self):
        from ansible_collections.drover.compute.plugins.plugin_utils._simulation import (
            changes,
            simulate,
        )
        from ansible_collections.drover.compute.plugins.plugin_utils._simulation.fleet import (
            SimulatedFleet,
        )

        (change,) = changes.read([{"add_instances": {"flavor": "small", "count": 1000}}])
        with simulate.copied(self.store) as (copy, now):
            began = time.process_time()
            made = SimulatedFleet(copy, self.policy, now).make(change)
            return {"placed": made["placed"], "seconds": round(time.process_time() - began, 3)}

    def simulation(self):
        from ansible_collections.drover.compute.plugins.plugin_utils._simulation import simulate

        wanted = [{"add_instances": {"flavor": "small", "count": 1000}}, {"lose_hosts": name_of(7)}]
        found = simulate.simulate(self.store, wanted, simulate.Question(self.policy))
        return {key: found[key] for key in ("placed", "moved", "left_out")}


#: import is a word of Python.
METHODS = {
    {"restore": "import"}.get(name, name): name
    for name in vars(Commands)
    if not name.startswith("_")
}


def measure(checkout, folder, given, command):
    """Run one command in a separate process; return its figures."""
    options = [
        sys.executable,
        __file__,
        "--folder",
        folder,
        "--hosts",
        given.hosts,
        "--empty-every",
        given.empty_every,
        "--memory",
        given.memory,
    ]
    options += ["--seconds", given.seconds, "--here", checkout, "--alone", "--commands", command]
    done = subprocess.run(
        [str(each) for each in options], capture_output=True, text=True, check=False
    )
    if done.returncode == -signal.SIGXCPU:
        return {"failed": f"more than {given.seconds:g} s of CPU"}
    if done.returncode:
        return {
            "failed": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        }
    return json.loads(done.stdout)


def run_here(given):
    """Run the one command, and print its figures."""
    for name in IMPORTED:
        importlib.import_module(f"ansible_collections.drover.compute.plugins.{name}")
    limit = int(time.process_time() + given.seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    resource.setrlimit(resource.RLIMIT_AS, (int(given.memory * 2**30),) * 2)
    method = getattr(Commands(given.folder, given.empty_every), METHODS[given.commands])
    began = time.process_time()
    figures = method()
    seconds = round(time.process_time() - began, 3)
    # The peak of this program alone: ru_maxrss begins with the value of the parent process.
    memory = next(
        line.split()[1]
        for line in pathlib.Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM")
    )
    print(json.dumps({"seconds": seconds, "mb": round(int(memory) / 1024), **figures}))


def best(checkout, folder, given, command):
    runs = [measure(checkout, folder, given, command) for _again in range(given.repeat)]
    return min(runs, key=lambda each: each.get("seconds", float("inf")))


def best_of(checkout, folder, given, command):
    """Run the program of another checkout, whose store may have another schema."""
    program = pathlib.Path(checkout).resolve() / "tests" / "benchmarks" / "scale.py"
    options = [sys.executable, program, "--json", "--commands", command, "--folder", folder]
    for name in ("hosts", "empty_every", "memory", "seconds", "repeat"):
        options += [f"--{name.replace('_', '-')}", getattr(given, name)]
    done = subprocess.run(
        [str(each) for each in options], capture_output=True, text=True, check=False
    )
    if done.returncode:
        return {
            "failed": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        }
    return json.loads(done.stdout)["commands"][command]


def filled(folder, hosts, empty_every):
    """Yield a folder with a store, as text."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "store.db").exists():
        fill(url_in(folder), hosts, empty_every)
    return str(folder)


def compare(found, name, ratio, other):
    """Add other figures of a command to its figures, by a name, and the ratio of the seconds."""
    found[name] = other
    if other.get("seconds") and "seconds" in found:
        found[ratio] = round(found["seconds"] / other["seconds"], 3)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--empty-every", type=int, default=0, help="each Nth host is empty [none]")
    parser.add_argument("--commands", default=",".join(METHODS), help="[%(default)s]")
    parser.add_argument(
        "--memory", type=float, default=7, help="most GiB of addresses of a command [7]"
    )
    parser.add_argument(
        "--seconds", type=float, default=120, help="most CPU seconds of a command [120]"
    )
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--folder", help="with the store; made if it is not there")
    parser.add_argument("--against", help="another checkout to measure in turn")
    parser.add_argument("--growth", action="store_true", help="measure a tenth of the hosts too")
    parser.add_argument("--json", action="store_true", help="JSON, not lines")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--here", default=str(CHECKOUT), help=argparse.SUPPRESS)
    options = parser.parse_args()
    # A checkout's own conftest.py makes the checkout importable as a collection.
    sys.path.insert(0, options.here)
    importlib.import_module("conftest")
    if options.alone:
        run_here(options)
        return
    unknown = sorted(set(options.commands.split(",")) - set(METHODS))
    if unknown:
        raise SystemExit(f"there is no command {unknown[0]}; there are: {', '.join(METHODS)}")
    with tempfile.TemporaryDirectory() as temporary:
        folders = [
            filled(pathlib.Path(options.folder or temporary), options.hosts, options.empty_every)
        ]
        if options.growth:
            folders.append(
                filled(
                    pathlib.Path(options.folder or temporary, "tenth"),
                    options.hosts // 10,
                    options.empty_every,
                )
            )
        by_command = {}
        for command in options.commands.split(","):
            by_command[command] = best(options.here, folders[0], options, command)
            if options.against:
                compare(
                    by_command[command],
                    "before",
                    "ratio",
                    best_of(options.against, os.path.join(folders[0], "before"), options, command),
                )
            if options.growth:
                compare(
                    by_command[command],
                    "tenth",
                    "growth",
                    best(options.here, folders[1], options, command),
                )
            if not options.json:
                print(command, json.dumps(by_command[command]), flush=True)
    if options.json:
        print(
            json.dumps(
                {
                    "hosts": options.hosts,
                    "empty_every": options.empty_every,
                    "commands": by_command,
                },
                indent=2,
            )
        )


if __name__ == "__main__":
    main()
