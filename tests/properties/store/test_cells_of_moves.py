# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Orders for hypervisors name the CPUs and cells of the destination that the instance claimed; also
after a run was killed."""

from __future__ import annotations

import contextlib
import time

import pytest

from ansible_collections.drover.compute.plugins.module_utils._domain.numa import parse_numa
from ansible_collections.drover.compute.plugins.module_utils._libvirt.xml import parse
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.evacuation_restarts import (
    EvacuationRestarts,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.ports import Ports
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.starting import Starting
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import orders, resizes
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.properties.store.test_claims_of_cells import (
    FEW,
    PINNED,
    SETS,
    decide,
    write,
)
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import NOW, uuid_of
from ansible_collections.drover.compute.tests.unit.tracker import machines
from ansible_collections.drover.compute.tests.unit.tracker.machines import node


def read(url, function, *arguments):
    with Store.open(url).read() as connection:
        return function(connection, *arguments)


def pins(facts):
    return {vcpu: cpu for vcpu, (cpu,) in facts["vcpu_pins"].items()}


@pytest.fixture
def url(prepared_url):
    """Fill a store: a is pinned to CPUs 1 and 2 of kvm1, b floats over its shared CPUs; kvm2 has
    CPUs 5 and 13 of cell 1 for pinned vCPUs."""
    guests = [
        machines.domain("a", 2, 64, machines.pins(1, 2, cell=0)),
        machines.domain("b", 1, 64, "<domain><vcpu cpuset='0,4,8,12'>1</vcpu></domain>"),
    ]
    fleets.discover(
        prepared_url, node(*guests, options=SETS), node(host="kvm2", options=FEW), node(host="kvm3")
    )
    return prepared_url


@pytest.mark.parametrize("kind", ["live-migration", "migration"])
def test_the_order_of_a_move_has_the_cells_of_the_destination(url, kind):
    opened = write(url, migration_claims.begin, uuid_of("a"), "kvm2", None, kind, NOW)
    numa_facts = read(url, orders.order, opened["uuid"])["numa"]
    assert pins(numa_facts) == {"0": 5, "1": 13} and numa_facts["memory"] == {
        "mode": "strict",
        "nodes": [1],
    }
    assert numa_facts["cells"] == [
        {"id": 0, "cpus": [0, 1], "memory_mb": 64, "mode": "strict", "nodes": [1]}
    ]
    # The next run gives the same order after a kill, for any reports of the hosts during the move.
    guest = machines.domain("a", 2, 64, machines.pins(1, 2, cell=0))
    fleets.discover(url, node(guest, options=SETS), node(host="kvm2", options=FEW))
    (again,) = read(url, orders.pending, "kvm1")
    assert again["numa"] == numa_facts


@pytest.mark.parametrize(("host", "facts"), [("kvm2", [0, 8]), ("kvm3", None)])
def test_one_that_floats_gets_the_shared_cpus_of_the_destination(url, host, facts):
    opened = write(url, migration_claims.begin, uuid_of("b"), host, None, "live-migration", NOW)
    assert read(url, orders.order, opened["uuid"])["numa"].get("cpuset") == facts


def test_a_check_before_the_claim_has_what_the_store_knows_here(url):
    move = {"uuid": uuid_of("a"), "name": "a", "from_host": "kvm1", "host": "kvm2", "live": True}
    assert pins(read(url, orders.unopened, move)["numa"]) == {"0": 1, "1": 2}


def resize(url, host, **asked):
    (selection,) = decide(url, "c", **asked)
    target = {
        "flavor": None,
        "resources": selection["resources"],
        "host_request": selection.get("host_request"),
    }
    write(
        url,
        lambda connection: connection.execute(sa.update(tables.instances).values(state="active")),
    )
    opened = write(url, migration_claims.begin_resize, uuid_of("a"), host, None, target, NOW)
    return read(url, resizes.describe, opened["uuid"])


def test_a_resize_where_it_is_has_the_cells_of_both_sizes(url):
    found = resize(url, "kvm1", vcpus=4, extra_specs=PINNED)
    assert found["same_host"] and pins(found["old"]["numa"]) == {"0": 1, "1": 2}
    new = pins(found["new"]["numa"])
    assert len(new) == 4 and {1, 2}.isdisjoint(new.values())


def test_a_resize_to_another_host_is_moved_with_the_cells_of_each_way(url):
    description = resize(url, "kvm2", vcpus=2, memory_mb=128, extra_specs=PINNED)
    assert (
        pins(description["new"]["numa"]) == pins(description["order"]["numa"]) == {"0": 5, "1": 13}
    )
    assert pins(description["old"]["numa"]) == pins(description["back"]["numa"]) == {"0": 1, "1": 2}
    # The domain at the old host shows other pins; they are not the pins of the instance there.
    guest = machines.domain("a", 2, 128, machines.pins(5, 13, cell=1))
    fleets.discover(url, node(guest, options=SETS), node(host="kvm2", options=FEW))
    assert read(url, resizes.describe, description["migration"]) == description


def test_a_size_without_cells_has_no_pins(url):
    found = resize(url, "kvm2", vcpus=2, memory_mb=64)
    assert pins(found["old"]["numa"]) == {"0": 1, "1": 2}
    assert found["new"]["numa"]["cpuset"] == [0, 8] and found["new"]["numa"]["vcpu_pins"] == {}


def test_sizes_without_cells_leave_the_domain_as_it_is(url):
    (wanted,) = decide(url, "c", vcpus=1, memory_mb=128)
    target = {"flavor": None, "resources": wanted["resources"]}
    opened = write(url, migration_claims.begin_resize, uuid_of("b"), "kvm1", None, target, NOW)
    found = read(url, resizes.describe, opened["uuid"])
    assert "numa" not in found["old"] and "numa" not in found["new"]


def test_an_evacuated_instance_is_started_on_cpus_of_its_new_host(url):
    guest = machines.domain("a", 2, 64, machines.pins(1, 2, cell=0))
    fleets.discover(
        url,
        node({**guest, "xml": f"<domain>{machines.pins(1, 2, cell=0)}</domain>"}, options=SETS),
        now=NOW + 1,
    )
    opened = write(url, migration_claims.begin, uuid_of("a"), "kvm2", None, "evacuation", NOW)
    given = []

    class Hypervisor:
        def reach(self):
            pass

        def act(self, module, arguments):
            given.append((module, arguments))
            raise DroverError("that was all")

    class Hypervisors:
        def names(self):
            return ["kvm1", "kvm2"]

        def at_once(self, questions, limit):
            return {host: {"domains": []} for host in questions}

    class Dead:
        host, store = "kvm1", Store.open(url)

        @contextlib.contextmanager
        def step(self):
            with contextlib.ExitStack() as stack:
                yield stack.enter_context(self.store.write(together=True)), NOW

    with pytest.raises(DroverError, match="that was all"):
        EvacuationRestarts(Dead()).start(
            "kvm2",
            [opened["uuid"]],
            Hypervisor(),
            1,
            60,
            Starting(Ports(Dead.store, Hypervisors(), None, None, time)),
        )
    ((module, arguments),) = given
    assert module == "_domain_restart"
    found = parse_numa(parse(arguments["instances"][0]["xml"]))
    assert pins(found) == {"0": 5, "1": 13} and found["memory"] == {"mode": "strict", "nodes": [1]}
