# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulated loss of each host gives the answer of capacity (N+1), and the answer of a real
disable with a drain plan."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.plugin_utils._conductor import host_state, plans
from ansible_collections.drover.compute.plugins.plugin_utils._records.orders import MigrationLimits
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._simulation.simulate import (
    Question,
    simulate,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import flavors
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host

POLICY = Policy.from_mapping()
SMALL = {"name": "small", "vcpus": 1, "memory_mb": 100, "disk_gb": 0}
ROOM = 1000


@st.composite
def fleets_nearly_full(draw):
    """Hosts with ten units of memory each, filled with guests of one to four units."""
    host_list = []
    for number in range(draw(st.integers(2, 5))):
        units_left, guests = draw(st.sampled_from([10, 10, 9, 8, 6])), []
        while units_left:
            units = draw(st.integers(1, min(4, units_left)))
            units_left -= units
            guests.append(
                domain(
                    f"{number}-{len(guests)}", memory_mb=units * 100, vcpus=draw(st.integers(1, 2))
                )
            )
        kept = guests[: draw(st.integers(0, len(guests)))]
        host_list.append(host(f"kvm{number}", *kept, memory_mb=ROOM, vcpus=12))
    return host_list


@given(fleets_nearly_full())
@settings(max_examples=12, deadline=None)
def test_each_loss(tmp_path_factory, nodes):
    url = f"sqlite:///{tmp_path_factory.mktemp('fleet')}/store.db"
    fleets.discover(url, *nodes)
    store = Store.open(url)
    question = Question(POLICY, [SMALL])
    before = simulate(store, [], question)["before"]
    unbearable, worst = set(before["unbearable"]), before["capacity"][0]["with_loss"]
    assert worst["survives"] == (not unbearable)
    for name in (node["host"] for node in nodes):
        lost = simulate(store, [{"lose_hosts": [name]}], question)
        assert (lost["left_out"] > 0) == (name in unbearable)
        with store.write() as connection:
            host_state.change(connection, name, "disabled", reason="test")
        with store.read() as connection:
            plan = plans.DrainQuestion(POLICY, MigrationLimits()).plan(connection, [name])
        assert bool(plan["unmovable"]) == (name in unbearable)
        with store.write() as connection:
            host_state.change(connection, name, "enabled")


def test_a_loss_counts_what_instances_require(tmp_path):
    """Only one host has a trait; the flavor, the instance or a property of its image requires
    it.
    """
    url = f"sqlite:///{tmp_path / 'store.db'}"
    fleets.discover(url, host("kvm1", traits=["CUSTOM_SSD"]), host("kvm2"), host("kvm3"))
    store = Store.open(url)
    with store.write() as connection:
        flavors.ensure(
            connection,
            "ssd",
            {
                "vcpus": 1,
                "memory_mb": 64,
                "disk_gb": 0,
                "extra_specs": {"trait:CUSTOM_SSD": "required"},
            },
            0.0,
        )
    question = Question(POLICY, [SMALL])
    for asked in ({"flavor": "ssd"}, {**SMALL, "extra_specs": {"trait:CUSTOM_SSD": "required"}}):
        added = {"add_instances": {**asked, "name": "web"}}
        after = simulate(store, [added], question)["after"]
        assert (
            after["unbearable"] == ["kvm1"]
            and after["capacity"][0]["with_loss"]["survives"] is False
        )
        assert simulate(store, [added, {"lose_hosts": ["kvm1"]}], question)["left_out"] == 1
