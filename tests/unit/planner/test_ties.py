# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances with pins, NUMA cells or huge pages go only where these are free, and a drain names the others before anything moves."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import DrainQuestion
from ansible_collections.drover.compute.plugins.plugin_utils._records.orders import MigrationLimits
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.tracker.machines import domain, node, pins

SETS = {"cpu_shared_set": "0,8,4,12", "cpu_dedicated_set": "1-3,9-11,5-7,13-15", "cpu_allocation_ratio": 8.0}
PAGES = "<numatune><memory nodeset='1'/></numatune><memoryBacking><hugepages><page size='1' unit='G'/></hugepages></memoryBacking>"
ANYWHERE = "<memoryBacking><hugepages/></memoryBacking>"


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


def drain(url, *nodes, host="kvm1"):
    """The plan of a drain: {instance: destination}, {instance: why it cannot move}."""
    fleets.discover(url, *nodes)
    question = DrainQuestion(Policy.from_mapping({}), MigrationLimits())
    with Store.open(url).read() as connection:
        plan = question.plan(connection, [host])
    return {move["name"]: move["host"] for move in plan["moves"]}, {each["name"]: each["reason"] for each in plan["unmovable"]}


def kvm1(*domains):
    return node(*domains, options=SETS)


def other(name, *domains, **more):
    return node(*domains, host=name, **{"options": SETS, **more})


def test_a_pinned_guest_goes_where_its_cpus_are_free(url):
    moves, unmovable = drain(
        url,
        kvm1(domain("web", 2, 64, pins(1, 9, cell=0))),
        other("kvm2", domain("db", 1, 64, pins(9, cell=0))),
        other("kvm3", domain("mail", 1, 64, pins(5, cell=1))),
        other("kvm4", options={"cpu_dedicated_set": "2-7"}),
    )
    assert (moves, unmovable) == ({"web": "kvm3"}, {})


@pytest.mark.parametrize(
    "guest, words",
    [
        (domain("web", 2, 64, pins(1, 9, cell=0)), "it is pinned to CPUs 1, 9 and has its memory in NUMA cell 0, which no move changes, and no other "
         "host has that free (kvm2: CPU 9 is taken); give it other pins by hand, or shut it down"),
        (domain("web", 2, 64, pins(0, cell=1)), "kvm2: it does not keep CPU 0 for pinned vCPUs"),
        (domain("web", 1, 64, "<numatune><memory nodeset='7'/></numatune>"), "has its memory in NUMA cell 7.*kvm2: it has no NUMA cell 7"),
        (domain("web", 1, 4096, PAGES), "has huge pages.*kvm2: it has 1 of 4 pages of 1048576 KiB free in cell 1"),
        (domain("web", 1, 64, ANYWHERE), "kvm2: nobody knows which huge pages it has"),
    ],
)  # fmt: skip
def test_what_stands_against_it_is_said_before_anything_moves(url, guest, words):
    there = [domain("db", 1, 64, pins(9, cell=0)), domain("large", 1, 3072, PAGES)]
    moves, unmovable = drain(url, kvm1(guest), other("kvm2", *there))
    assert moves == {}
    for part in words.split(".*"):
        assert part in unmovable["web"]


def test_two_guests_do_not_get_one_cpu(url):
    moves, unmovable = drain(url, kvm1(domain("a", 1, 64, pins(1)), domain("b", 1, 64, pins(2))), other("kvm2"), host="kvm1")
    assert (moves, unmovable) == ({"a": "kvm2", "b": "kvm2"}, {})
    fleets.empty(url)
    # Two hosts at once, with one guest each on the same CPU.
    fleets.discover(url, kvm1(domain("a", 1, 64, pins(1))), other("kvm3", domain("b", 1, 64, pins(1))), other("kvm2"))
    question = DrainQuestion(Policy.from_mapping({}), MigrationLimits())
    with Store.open(url).read() as connection:
        plan = question.plan(connection, ["kvm1", "kvm3"])
    assert [move["name"] for move in plan["moves"]] == ["a"]
    assert [each["name"] for each in plan["unmovable"]] == ["b"]


def test_a_guest_that_floats_moves_as_any_other(url):
    floating = domain("web", 2, 64, "<vcpu cpuset='0,8'>2</vcpu>")
    assert drain(url, kvm1(floating), fleets.host("kvm2")) == ({"web": "kvm2"}, {})


def test_a_host_that_tells_no_cells_takes_no_pinned_guest(url):
    moves, unmovable = drain(url, kvm1(domain("web", 1, 64, pins(1))), fleets.host("kvm2", cpu_dedicated_set="0-3"))
    assert moves == {} and "kvm2: it tells no NUMA cells" in unmovable["web"]


def test_interfaces_that_are_devices_of_the_host_stay(url):
    guests = [domain("nic", 1, 64, devices=[("pci", "0000:3b:02.1")]), domain("vdpa", 1, 64, devices=[("vdpa", "/dev/vhost-vdpa-0")])]
    moves, unmovable = drain(url, kvm1(*guests), other("kvm2"))
    assert moves == {}
    assert "devices of its host (pci 0000:3b:02.1)" in unmovable["nic"]
    assert "devices of its host (vdpa /dev/vhost-vdpa-0)" in unmovable["vdpa"]
