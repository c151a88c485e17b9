# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances with pins, NUMA cells or huge pages go only to hosts with free cells, and a drain names
the others before a move begins."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import DrainQuestion
from ansible_collections.drover.compute.plugins.plugin_utils._records.orders import MigrationLimits
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.tracker.machines import domain, node, pins

SETS = {
    "cpu_shared_set": "0,8,4,12",
    "cpu_dedicated_set": "1-3,9-11,5-7,13-15",
    "cpu_allocation_ratio": 8.0,
}
PAGES = (
    "<numatune><memory nodeset='1'/></numatune><memoryBacking><hugepages><page size='1'"
    " unit='G'/></hugepages></memoryBacking>"
)
ANYWHERE = "<memoryBacking><hugepages/></memoryBacking>"


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


def drain(url, *nodes, host="kvm1"):
    """Plan a drain; return {instance: destination} and {instance: reason why it cannot move}."""
    fleets.discover(url, *nodes)
    question = DrainQuestion(Policy.from_mapping({}), MigrationLimits())
    with Store.open(url).read() as connection:
        plan = question.plan(connection, [host])
    return {move["name"]: move["host"] for move in plan["moves"]}, {
        each["name"]: each["reason"] for each in plan["unmovable"]
    }


def kvm1(*domains):
    return node(*domains, options=SETS)


def other(name, *domains, **more):
    return node(*domains, host=name, **{"options": SETS, **more})


def test_a_pinned_guest_goes_where_as_many_cpus_are_free(url):
    full = [
        domain(f"db{number}", 5, 64, pins(*cpus, cell=cell))
        for number, cell, cpus in ((0, 0, (1, 2, 3, 9, 10)), (1, 1, (5, 6, 7, 13, 14)))
    ]
    moves, unmovable = drain(
        url,
        kvm1(domain("web", 2, 64, pins(1, 9, cell=0))),
        other("kvm2", *full),
        other("kvm3", options={"cpu_dedicated_set": "2,14"}),
        # CPUs that the instance does not have now.
        other("kvm4", options={"cpu_dedicated_set": "6-7"}),
    )
    assert (moves, unmovable) == ({"web": "kvm4"}, {})


@pytest.mark.parametrize(
    "guest, words",
    [
        (
            domain("web", 6, 64, pins(1, 2, 3, 9, 10, 11, cell=0)),
            "its NUMA cell 0 comes nearest and has 5 of 6 CPUs to pin",
        ),
        (
            domain("web", 1, 4096, PAGES),
            "its NUMA cell 0 comes nearest and has 1 of 4 free pages of 1048576 KiB",
        ),
        (
            domain("web", 1, 64, ANYWHERE),
            "it is tied to CPUs or NUMA cells of its host in a way that no claim makes",
        ),
        (
            domain("web", 2, 64, pins(1, 5)),
            "it is tied to CPUs or NUMA cells of its host in a way that no claim makes",
        ),
        (
            domain("web", 1, 64, pins(1, cell=0, emulator="2-3")),
            "it is tied to CPUs or NUMA cells of its host in a way that no claim makes",
        ),
    ],
)
def test_what_stands_against_it_is_said_before_anything_moves(url, guest, words):
    domains = [
        domain("db", 1, 64, pins(9, cell=0)),
        domain("mail", 1, 64, pins(13, cell=1)),
        domain("large", 1, 3072, PAGES),
    ]
    domains.append(domain("larger", 1, 3072, PAGES.replace("nodeset='1'", "nodeset='0'")))
    moves, unmovable = drain(url, kvm1(guest), other("kvm2", *domains))
    assert moves == {}
    assert words in unmovable["web"]


def test_two_guests_do_not_get_one_cpu(url):
    one = {
        "options": {"cpu_shared_set": "0", "cpu_dedicated_set": "6", "cpu_allocation_ratio": 8.0}
    }
    moves, unmovable = drain(
        url,
        kvm1(domain("a", 1, 64, pins(1)), domain("b", 1, 64, pins(2))),
        other("kvm2"),
        host="kvm1",
    )
    assert (moves, unmovable) == ({"a": "kvm2", "b": "kvm2"}, {})
    fleets.empty(url)
    moves, unmovable = drain(
        url,
        kvm1(domain("a", 1, 64, pins(1)), domain("b", 1, 64, pins(2))),
        other("kvm2", **one),
        host="kvm1",
    )
    assert (moves, list(unmovable)) == ({"a": "kvm2"}, ["b"])


def test_the_cpus_of_one_that_leaves_are_not_free_before_it_has_left(url):
    fleets.discover(
        url,
        kvm1(domain("a", 1, 64, pins(1))),
        other("kvm3", domain("b", 1, 64, pins(1))),
        other("kvm2"),
    )
    question = DrainQuestion(Policy.from_mapping({}), MigrationLimits())
    with Store.open(url).read() as connection:
        plan = question.plan(connection, ["kvm1", "kvm3"])
    assert {move["name"]: move["host"] for move in plan["moves"]} == {"a": "kvm2", "b": "kvm2"}


def test_a_guest_that_floats_moves_as_any_other(url):
    floating = domain("web", 2, 64, "<vcpu cpuset='0,8'>2</vcpu>")
    assert drain(url, kvm1(floating), fleets.host("kvm2")) == ({"web": "kvm2"}, {})


def test_a_host_that_tells_no_cells_takes_no_pinned_guest(url):
    moves, unmovable = drain(
        url, kvm1(domain("web", 1, 64, pins(1))), fleets.host("kvm2", cpu_dedicated_set="0-3")
    )
    assert moves == {} and "kvm2 (reports no NUMA cells)" in unmovable["web"]


def test_interfaces_that_are_devices_of_the_host_stay(url):
    guests = [
        domain("nic", 1, 64, devices=[("pci", "0000:3b:02.1")]),
        domain("vdpa", 1, 64, devices=[("vdpa", "/dev/vhost-vdpa-0")]),
    ]
    moves, unmovable = drain(url, kvm1(*guests), other("kvm2"))
    assert moves == {}
    assert "devices of its host that no claim gave it (pci 0000:3b:02.1)" in unmovable["nic"]
    assert "devices of its host that no claim gave it (vdpa /dev/vhost-vdpa-0)" in unmovable["vdpa"]
