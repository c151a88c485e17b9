# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The output in the pages: the commands' output about a small fleet, without root and without
hypervisors.

There are two sources. A playbook that reads only the store runs unchanged, on a store with the
fleet. A playbook that needs hypervisors (a drain, an evacuation) runs with the real planner,
conductor and store on the simulated hosts of tests/scenarios, in simulated time; its lines are the
conductor's lines in the terminal.
"""

from __future__ import annotations

import contextlib
import functools
import json
import pathlib
import re
import tempfile
import time

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._conductor.drain import (
    Drain,
    DrainRequest,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.evacuation import Evacuation
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.evacuation_request import (
    EvacuationRequest,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.leasing import Leasing
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import DrainQuestion
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.ports import Ports
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.settings import MoveSettings
from ansible_collections.drover.compute.plugins.plugin_utils._evacuation import fencing
from ansible_collections.drover.compute.plugins.plugin_utils._records.orders import MigrationLimits
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import node, record
from ansible_collections.drover.compute.tests.scenarios.migrating import MIB_PER_SECOND
from ansible_collections.drover.compute.tests.scenarios.ports import (
    Actor,
    Fate,
    FatedStore,
    SimulatedHosts,
)
from ansible_collections.drover.compute.tests.scenarios.running import Scenario
from ansible_collections.drover.compute.tests.unit import examples
from ansible_collections.drover.compute.tests.unit.store import fleets

#: name, host, vcpus, memory_mb, disk_gb, state
INSTANCES = (
    ("web1", "kvm1", 2, 4096, 20, "running"),
    ("db1", "kvm1", 4, 8192, 200, "running"),
    ("build1", "kvm1", 4, 8192, 40, "running"),
    ("web2", "kvm2", 2, 4096, 20, "running"),
    ("app1", "kvm2", 2, 8192, 40, "running"),
    ("web3", "kvm3", 2, 4096, 20, "running"),
)
HOSTS = ("kvm1", "kvm2", "kvm3")
VCPUS, MEMORY_MB, DISK_GB = 16, 65536, 1000
POOL = {"name": "vms", "path": "/var/lib/libvirt/images", "shared_id": "nfs:filer:/vms"}
BIG = {"name": "big", "vcpus": 4, "memory_mb": 8192}


# --- playbooks on a store -------------------------------------------------------------------------


def fill(url, **more):
    """Record the fleet, as a discovery does.

    :param more: more facts of each host.
    """
    reports = {}
    for host in HOSTS:
        domains = [
            {
                "uuid": fleets.uuid_of(name),
                "name": name,
                "state": state,
                "vcpus": vcpus,
                "memory_mb": memory,
                "disk_gb": disk,
            }
            for name, there, vcpus, memory, disk, state in INSTANCES
            if there == host
        ]
        facts = node.flat_facts(
            {
                "host": host,
                "vcpus": VCPUS,
                "memory_mb": MEMORY_MB,
                "local_gb": DISK_GB,
                "domains": domains,
                **more,
            }
        )
        reports[host] = [
            fleets.described(
                facts,
                {"reserved_host_memory_mb": 2048, "instances_path": "/var/lib/libvirt/images"},
            )
        ]
    with Store.open(url).write() as connection:
        record.record(connection, reports, time.time())


#: Columns of the terminal that a page shows.
WIDTH = "160"


@contextlib.contextmanager
def store(*commands, **more):
    """Make a folder with an inventory and the fleet in a store, and run ``commands`` in it. Yield a
    function that runs a command and returns its output."""
    # An underline, see surroundings._home().
    with tempfile.TemporaryDirectory(prefix="drover-pages_") as name:
        folder = pathlib.Path(name)
        url = f"sqlite:///{folder}/store.db"
        fill(url, **more)
        examples.inventory(folder)

        def run(*words, before=None):
            if before:
                with Store.open(url).write() as connection:  # pylint: disable=contextmanager-generator-missing-cleanup
                    before(connection)
            done = examples.command(
                folder,
                words[0],
                "-i",
                "inventory.yml",
                *words[1:],
                url=url,
                environment={"COLUMNS": WIDTH},
            )
            text = done.stdout.replace(str(folder), "/home/you/fleet")
            return shown(text) if words[0] == "ansible-playbook" else text.rstrip().split("\n")

        for words in commands:
            run(*words)
        yield run


#: Ansible's own lines about plays, tasks and hosts.
OF_ANSIBLE = re.compile(
    r"(PLAY|TASK|RUNNING HANDLER|ok:|changed:|skipping:|included:|fatal:|\[WARNING\])|\s*\w+ +:"
    r" ok=|\s*\"[\w.]+\": \[|\s*[\]\[}{],?$"
)


def shown(output):
    """Return the part of a playbook's output that a person reads: without Ansible's own lines about
    plays, tasks and hosts."""
    lines = []
    # After an error there are lines of the task's file.
    output = re.sub(
        r"^\[ERROR\]: Task failed: (.*\n)Origin: (?:.*\n)*?(?=fatal: )",
        r"ERROR: \1",
        output,
        flags=re.M,
    )
    for line in output.splitlines():
        text = re.fullmatch(r'\s*(?:"msg": )?("(?:[^"\\]|\\.)*"),?', line)
        if text:
            lines.append(json.loads(text.group(1)))
        elif not OF_ANSIBLE.match(line):
            lines.append(line.rstrip())
    return re.sub(r"\n{2,}", "\n\n", "\n".join(lines)).strip("\n").split("\n")


def playbook(name, *words, before=None, **more):
    with store(**more) as run:
        return run("ansible-playbook", f"drover.compute.{name}", *words, before=before)


def broken(connection):
    """Return the lines of an audit: an instance without its allocations, and one that no host
    shows."""
    consumer = sa.select(tables.consumers.c.id).where(
        tables.consumers.c.uuid == fleets.uuid_of("web3")
    )
    connection.execute(
        sa.delete(tables.allocations).where(tables.allocations.c.consumer_id.in_(consumer))
    )


SMALL = (
    "ansible",
    "localhost",
    "-m",
    "drover.compute.flavor",
    "-a",
    "name=small vcpus=2 memory_mb=4096 disk_gb=20",
)


def flavors():
    """Return the number of instances of each flavor that fit."""
    with store(SMALL) as run:
        return run("ansible-playbook", "drover.compute.capacity")


def what_if(*changes):
    """Return the effects of changes."""
    with store(SMALL) as run:
        return run(
            "ansible-playbook",
            "drover.compute.simulate",
            "-e",
            json.dumps({"drover_changes": changes}),
        )


def no_valid_host(request):
    """Return the scheduler's answer to a request without a valid host.

    :param request: the request as JSON.
    """
    words = ("-a", f"msg={{{{ query('drover.compute.schedule', {request}) }}}}")
    licence = (
        "ansible",
        "localhost",
        "-m",
        "drover.compute.resource_class",
        "-a",
        "name=CUSTOM_LICENSE",
    )
    with store(licence) as run:
        text = "\n".join(run("ansible", "localhost", "-m", "ansible.builtin.debug", *words))
    return [re.search(r"No valid host.*?(?=\"|$)", text, re.M).group()]


def power():
    """Return the power of a host that is a domain of libvirt's test driver."""
    host = {
        "drover_power_driver": "libvirt",
        "drover_power_address": "test:///default",
        "drover_power_domain": "test",
    }
    with store() as run:
        return run(
            "ansible-playbook",
            "drover.compute.power",
            "-e",
            "drover_host=kvm1",
            "-e",
            json.dumps(host),
        )


def new_store():
    """Return the answer of the module store to a new user, who has no store."""
    with tempfile.TemporaryDirectory(prefix="drover-pages_") as name:
        folder = pathlib.Path(name)
        examples.inventory(folder)
        done = examples.command(
            folder, "ansible", "-i", "inventory.yml", "localhost", "-m", "drover.compute.store"
        )
        return done.stdout.replace(str(folder), "/home/you").rstrip().split("\n")


# --- the conductor on simulated hosts -------------------------------------------------------------


class Watched(Scenario):
    """A scenario that keeps its lines, as (seconds, line)."""

    @contextlib.contextmanager
    def run(self, *dummy, **_dummies):
        began, self.lines = self.clock.time(), []
        run_store = FatedStore(self.open_store(), Fate())
        hosts = SimulatedHosts(
            self.fleet,
            run_store,
            Fate(),
            lambda names: self.discover(run_store, names),
            self._open_moves,
        )

        def show(line):
            self.lines.append((self.clock.time() - began, line))

        yield Ports(
            run_store,
            hosts,
            Leasing(run_store, Actor("ansible@desk, process 4711", set()), show),
            show,
            self.clock,
        )

    def do_drain(self, host, **request):
        """Run the playbook drain, with drover_migration: {bandwidth_mib: 256}: the speed of the
        simulated network."""
        options = {"bandwidth_mib": MIB_PER_SECOND}
        limits = MigrationLimits(2)
        with self.run() as run:
            question = DrainQuestion(
                self.policy, limits, MIB_PER_SECOND, **request.pop("question", {})
            )
            drain_request = DrainRequest(
                [host] if isinstance(host, str) else host,
                question,
                MoveSettings(limits, options),
                "new kernel",
                **request,
            )
            result = Drain(run, drain_request).run()
            for each in [result] if drain_request.plan_only else result["hosts"]:
                run.say(each["message"])

    def do_evacuate(self, host):
        """Run the playbook evacuate for a host with a right power driver; the role power has
        switched the host off."""
        with self.run() as run:
            others = [name for name in sorted(self.fleet.hosts) if name != host]
            limits = fencing.Limits(down_seconds=0, quiet_seconds=0, down_percent=100)
            evacuation_request = EvacuationRequest(
                host, others, self.policy, operator="somebody", limits=limits
            )
            if Evacuation(run, evacuation_request).judge("off")["fence"]:
                self._fence(run, host, driver=True)
            run.say(Evacuation(run, evacuation_request).restart()["message"])


def fleet(**changes):
    """Return a state in the form of tests/scenarios/*/state.yml. ``changes``: {name of an instance:
    its keys}."""
    instances = [
        {
            "name": name,
            "host": host,
            "vcpus": vcpus,
            "memory_mb": memory,
            "state": state,
            **changes.get(name, {}),
        }
        for name, host, vcpus, memory, dummy, state in INSTANCES
    ]
    return {
        "hosts": [{"name": host, "vcpus": VCPUS, "memory_mb": MEMORY_MB} for host in HOSTS],
        "instances": instances,
    }


def simulated(*commands, data=None):
    """Carry out commands of tests/scenarios; return the lines of the last one, with their seconds,
    and its error, if it failed."""
    with (
        tempfile.TemporaryDirectory(prefix="drover-pages_") as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        url = f"sqlite:///{folder}/store.db"
        Store.open(url).upgrade()
        scenario = Watched(url, data or fleet(), patch)
        scenario.begin()
        for command in commands:
            scenario.lines = []
            scenario.said.clear()
            scenario.do(dict(command))
        errors = [
            (0, line.partition(": ")[2])
            for line in scenario.said
            if not line.startswith(("rolling: ", "reboots: "))
        ]
        return scenario.lines + errors


def lines(*commands, data=None):
    return [line.rstrip() for dummy, line in simulated(*commands, data=data)]


# --- the output of the pages
# ---------------------------------------------------------------------------

#: Only one of the hosts has room for it, and that host is drained.
TIGHT = {"db1": {"memory_mb": 49152}, "web2": {"memory_mb": 16384}, "web3": {"memory_mb": 24576}}
DEAD = ({"power_off": "kvm1"}, {"notice": "kvm1"})

#: name of an output -> a function that returns its lines.
OUTPUTS = {
    "hosts": lambda: playbook("hosts"),
    "one host": lambda: playbook("hosts", "-e", "drover_host=kvm1"),
    "report": lambda: playbook("report"),
    "audit": lambda: playbook("audit", before=broken),
    "rebalance": lambda: playbook("rebalance"),
    "capacity": flavors,
    "simulation": lambda: what_if(
        {"lose_hosts": ["kvm1"]}, {"add_instances": {"flavor": "small", "count": 30}}
    ),
    "no valid host": lambda: no_valid_host('{"name": "big1", "vcpus": 8, "memory_mb": 131072}'),
    "no licence": lambda: no_valid_host(
        '{"name": "render1", "vcpus": 4, "memory_mb": 8192, "resources": {"CUSTOM_LICENSE": 1} }'
    ),
    "shared pool": lambda: playbook("hosts", pools=[POOL]),
    "power": power,
    "store": new_store,
    "drain plan": lambda: lines({"drain": "kvm1", "plan_only": True}),
    "drain that does not fit": lambda: lines({"drain": "kvm1"}, data=fleet(**TIGHT)),
    "drain": lambda: lines({"drain": "kvm1"}),
    "drain of two hosts": lambda: lines({"drain": ["kvm1", "kvm2"]}),
    "undrain": lambda: lines({"drain": "kvm1"}, {"undrain": "kvm1"}),
    "migrate": lambda: lines({"migrate": ["web1"]}),
    "resize": lambda: lines(
        {"resize": ["web1"], "flavor": "big"}, data=fleet() | {"flavors": [BIG]}
    ),
    "evacuate": lambda: lines(*DEAD, {"evacuate": "kvm1"}),
    "rolling plan": lambda: lines(
        {"want_reboot": ["kvm1", "kvm3"]}, {"rolling": list(HOSTS), "plan_only": True}
    ),
}


@functools.cache
def output(name):
    """Return the lines of an output."""
    return OUTPUTS[name]()
