# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulations: the effects of changes on a fleet, while the store stays as it is."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._simulation.simulate import (
    Question,
    simulate,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import aggregates
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host

SMALL = {"name": "small", "vcpus": 1, "memory_mb": 1000, "disk_gb": 0}


@pytest.fixture
def store(prepared_url):
    fleets.discover(
        prepared_url,
        host(
            "kvm1",
            domain("a", memory_mb=2000),
            domain("b", memory_mb=1000),
            availability_zone="one",
        ),
        host("kvm2", domain("c", memory_mb=1000), availability_zone="one"),
        host("kvm3", availability_zone="two"),
    )
    return Store.open(prepared_url)


def simulated(store, *changes, **options):
    return simulate(
        store, list(changes), Question(Policy.from_mapping(), **{"flavors": [SMALL], **options})
    )


def used(state, zone, resource_class="MEMORY_MB"):
    return next(
        each["used"]
        for each in state["totals"]
        if (each["zone"], each["resource_class"]) == (zone, resource_class)
    )


def test_nothing_changes_without_changes(store):
    outcome = simulated(store)
    assert outcome["before"] == outcome["after"] and outcome["changes"] == []
    assert outcome["before"]["hosts"] == 3 and outcome["before"]["instances"] == 3
    assert outcome["before"]["capacity"][0]["total"] == 8 and outcome["before"]["unbearable"] == []


def test_instances_are_placed_as_many_as_fit(store):
    before = fleets.figures(store.url.render_as_string(hide_password=False))
    outcome = simulated(store, {"add_instances": {**SMALL, "count": 10}})
    assert outcome["placed"] == 8 and outcome["left_out"] == 2
    assert (
        outcome["changes"][0]["left_out"][0]["name"] == "small"
        and "RamFilter rejected" in outcome["changes"][0]["left_out"][0]["reason"]
    )
    assert outcome["after"]["capacity"][0]["total"] == 0 and outcome["after"]["instances"] == 11
    assert fleets.figures(store.url.render_as_string(hide_password=False)) == before


def test_a_lost_host_is_restarted_elsewhere_and_gone(store):
    outcome = simulated(store, {"lose_hosts": ["kvm1"]})
    assert outcome["moved"] == 2 and outcome["left_out"] == 0
    assert (
        outcome["after"]["hosts"] == 2
        and used(outcome["after"], "one") + used(outcome["after"], "two") == 4000
    )


def test_what_does_not_fit_is_left_out(store):
    outcome = simulated(store, {"lose_hosts": {"availability_zone": "one"}})
    assert outcome["moved"] == 3 and outcome["after"]["hosts"] == 1
    outcome = simulated(store, {"add_instances": {**SMALL, "count": 8}}, {"lose_hosts": ["kvm1"]})
    assert outcome["changes"][1]["moved"] == 0 and outcome["changes"][1]["left_out"]
    assert outcome["before"]["unbearable"] == [] and outcome["after"]["unbearable"] != []


def test_a_zone_may_have_several_aggregates(store, prepared_url):
    with Store.open(prepared_url).write() as connection:
        aggregates.ensure(connection, "one", remove_hosts=["kvm2"])
        aggregates.ensure(connection, "more", {"availability_zone": "two"}, hosts=["kvm2"])
    found = simulated(store, {"lose_hosts": {"availability_zone": "two"}})
    assert found["changes"][0]["hosts"] == ["kvm2", "kvm3"] and found["after"]["hosts"] == 1
    assert simulated(store, {"lose_hosts": {"aggregate": "more"}})["changes"][0]["hosts"] == [
        "kvm2"
    ]


def test_hosts_like_another_have_its_room_and_none_of_its_instances(store):
    outcome = simulated(store, {"add_hosts": {"like": "kvm1", "count": 2}})
    assert outcome["changes"][0]["hosts"] == ["new-1", "new-2"]
    assert outcome["after"]["hosts"] == 5 and outcome["after"]["capacity"][0]["total"] == 16
    assert used(outcome["after"], "one") == used(outcome["before"], "one")


def test_hosts_of_a_size_are_added_as_the_module_compute_node_takes_them(store):
    size = {
        "vcpus": 8,
        "memory_mb": 8192,
        "local_gb": 100,
        "availability_zone": "two",
        "cpu_allocation_ratio": 1.0,
    }
    outcome = simulated(
        store, {"add_hosts": {"name": "big", **size}}, {"lose_hosts": ["kvm1", "kvm2", "kvm3"]}
    )
    assert (
        outcome["changes"][0]["hosts"] == ["big"]
        and outcome["moved"] == 3
        and outcome["after"]["instances"] == 3
    )


def test_a_host_in_maintenance_is_empty_and_stays(store):
    found = simulated(store, {"maintenance": "kvm1"})
    assert found["after"]["hosts"] == 3 and found["after"]["taking"] == 2 and found["moved"] == 2
    assert found["after"]["capacity"][0]["total"] == 4


def test_removed_hosts_are_emptied_first(store):
    found = simulated(store, {"remove_hosts": ["kvm2"]}, {"remove_hosts": ["kvm1"]})
    assert (
        found["moved"] >= 3 and found["after"]["hosts"] == 1 and used(found["after"], "two") == 4000
    )


def test_growth_is_of_the_kinds_that_there_are(store):
    found = simulated(store, {"grow": 100})
    assert (
        found["placed"] == 3 and used(found["after"], "one") + used(found["after"], "two") == 8000
    )


def test_a_policy_decides_what_follows(store):
    spread = simulated(store, {"add_instances": {**SMALL, "count": 2}})
    packed = simulated(
        store,
        {"scheduler": {"weighers": {"RAMWeigher": -1.0}}},
        {"add_instances": {**SMALL, "count": 2}},
    )
    assert used(spread["after"], "two") == 1000 and used(packed["after"], "two") == 0


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"lose_host": ["kvm1"]}, "did you mean lose_hosts?"),
        ({"lose_hosts": []}, "name at least one host"),
        ({"lose_hosts": ["kvm9"]}, "no host kvm9"),
        ({"lose_hosts": {"availability_zone": "on"}}, "did you mean one?"),
        ({"add_hosts": {"like": "kvm1", "vcpus": 3}}, "either like"),
        ({"add_hosts": {"like": "kvm9"}}, "kvm9"),
        ({"add_hosts": {"count": 2}}, "either like"),
        ({"add_hosts": {"like": "kvm1", "name": "kvm2"}}, "there is a host kvm2 already"),
        ({"add_hosts": {"vcpus": 4, "memory_mb": 4096, "host": "other"}}, "unknown key host"),
        ({"add_hosts": {"vcpu": 4, "memory_mb": 4096}}, "did you mean vcpus?"),
        (
            {"lose_hosts": {"aggregate": "rack"}},
            "there is no aggregate rack in the fleet as it is then",
        ),
        ({"add_instances": {**SMALL, "uuid": fleets.uuid_of("a")}}, "a has the uuid"),
        ({"grow": "much"}, "percent"),
        ({"grow": -5}, "percent"),
        ({"add_instances": {"flavor": "none"}}, "none"),
        ({"scheduler": {"weighers": {"RamWeigher": 1}}}, "RAMWeigher"),
        ("lose_hosts", "mapping with one key"),
        (
            {"add_hosts": {"vcpus": -1}},
            r"^Change 1 \(add_hosts\): vcpus must be a whole number from 0 to 65536",
        ),
        ({"scheduler": {"host_subset_size": -1}}, r"^Change 1 \(scheduler\): "),
        ({"add_instances": {**SMALL, "count": 0}}, r"^Change 1 \(add_instances\): Request 'small'"),
    ],
)
def test_a_wrong_change_is_refused_with_what_is_wrong(store, change, sentence):
    with pytest.raises(DroverError, match=sentence.replace("?", r"\?")):
        simulated(store, change)


def test_a_host_that_is_gone_is_no_host_to_copy(store):
    with pytest.raises(
        DroverError,
        match=r"^Change 2 \(add_hosts\): there is no host kvm1 in the fleet as it is then",
    ):
        simulated(store, {"lose_hosts": "kvm1"}, {"add_hosts": {"like": "kvm1"}})


def test_a_definition_asks_for_all_that_it_may(store, prepared_url):
    pools = [{"name": "ssd", "traits": ["CUSTOM_SSD"]}]
    seen = {
        "name": "ssd",
        "path": "/ssd",
        "capacity_gb": 50,
        "allocation_gb": 0,
        "type": "dir",
        "active": True,
    }
    fleets.discover(
        prepared_url, host("kvm3", availability_zone="two", pools=[seen]), storage_pools=pools
    )
    definition = {
        "name": "db",
        "vcpus": 1,
        "memory_mb": 500,
        "count": 4,
        "disks": [{"size_gb": 20, "pool": "ssd", "traits": ["CUSTOM_SSD"]}],
    }
    outcome = simulated(store, {"add_instances": definition})
    assert (outcome["placed"], outcome["left_out"]) == (2, 2) and outcome["changes"][0]["left_out"][
        0
    ]["count"] == 2
    assert used(outcome["after"], "two", "CUSTOM_DISK_GB_SSD") == 40
    with pytest.raises(DroverError, match="diskz"):
        simulated(store, {"add_instances": {**definition, "diskz": []}})
