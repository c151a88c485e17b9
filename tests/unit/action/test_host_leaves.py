# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that leave the fleet, or get another name or another machine: nothing counts twice, and
nothing that still exists is forgotten."""

from __future__ import annotations

import json
import re
import time

import pytest
import sqlalchemy as sa
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure

pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.plugin_utils._conductor import report_data
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import rolling
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import node
from ansible_collections.drover.compute.tests.unit import hypervisors
from ansible_collections.drover.compute.tests.unit.action.running import playbook, run
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host, uuid_of

HOSTS = ["kvm1", "kvm2", "kvm3"]
GROUPS = {"groups": {"all": [*HOSTS, "new1"], "hypervisors": HOSTS}}


def discover(url, *names, **args):
    for name in names:
        run(
            "compute_node",
            {"inventory_hostname": name, "drover_cpu_allocation_ratio": 1.0, **GROUPS},
            store_url=url,
            **args,
        )


@pytest.fixture
def fleet(fleet_url, there):
    """Fill a store: web and db run on kvm1. new1 and spare are names and machines that the store
    does not have."""
    for name in ("new1", "spare"):
        there.hosts[name] = hypervisors.Host(there, name, 8, 8192)
    discover(fleet_url, *HOSTS)
    return fleet_url


def hosts(url):
    return {each["host"]: each for each in run("host_info", store_url=url)["hosts"]}


def room(url):
    """Return the vCPUs of the fleet, from each place that counts them."""
    listed = sum(each["vcpus_capacity"] for each in hosts(url).values())
    text = run("metrics", store_url=url)["metrics"]
    metrics = sum(
        float(line.split()[-1])
        for line in text.splitlines()
        if line.startswith("drover_resource_capacity{") and '"VCPU"' in line
    )
    fits = capacity(url)
    return {"listed": listed, "metrics": metrics, "fits": fits, "up": text.count("drover_host_up{")}


def capacity(url):
    return run(
        "capacity_info",
        store_url=url,
        requests=[{"name": "x", "vcpus": 1, "memory_mb": 1, "disk_gb": 0}],
    )["capacity"][0]["total"]


def refused(*args, **options):
    with pytest.raises(AnsibleActionFail) as caught:
        run(*args, **options)
    return str(caught.value)


# B6: one machine has one name.


def test_b6_one_machine_under_two_names_is_refused_and_counts_once(fleet, there):
    before = room(fleet)
    there.addresses = {"new1": "kvm2"}
    with pytest.raises(AnsibleActionFail) as caught:
        discover(fleet, "new1")
    for part in (
        "new1 is the same machine as kvm2",
        uuid_of("kvm2"),
        "host_remove -e drover_host=kvm2 -e drover_new_name=new1",
        "ansible_host",
    ):
        assert part in str(caught.value)
    assert (
        room(fleet) == {**before, "up": before["up"] + 1}
        and hosts(fleet)["new1"]["state"] == "down"
    )
    discover(fleet, "kvm2")
    assert hosts(fleet)["kvm2"]["state"] == "up"


def test_b6_a_second_name_that_an_earlier_release_has_let_in_counts_once(fleet, there):
    fleets.discover(fleet, host("new1", domain("web")))
    fleets.identify(fleet, "new1", host_uuid=uuid_of("kvm1"), machine_id=None)
    there.addresses = {"new1": "kvm1"}
    discover(fleet, "kvm1")
    with pytest.raises(AnsibleActionFail, match="new1 is the same machine as kvm1"):
        discover(fleet, "new1")
    found = hosts(fleet)
    assert (found["kvm1"]["state"], found["new1"]["state"]) == ("up", "down")
    assert capacity(fleet) == sum(found[name]["vcpus_free"] for name in HOSTS)


def test_b6_clones_are_two_machines(fleet):
    fleets.identify(
        fleet, "kvm2", host_uuid=uuid_of("kvm3"), machine_id="a clone has one of its own"
    )
    discover(fleet, "kvm3")


def test_b6_two_names_for_one_machine_in_one_discovery(prepared_url):
    facts = {**node.flat_facts(host("a")), "host_uuid": uuid_of("a"), "machine_id": "m"}
    nodes = [
        {"host": name, "hypervisor": facts, "cpu_allocation_ratio": 1.0} for name in ("b", "a")
    ]
    assert "b is the same machine as a" in refused(
        "compute_node", store_url=prepared_url, nodes=nodes
    )
    with Store.open(prepared_url).read() as connection:
        assert not connection.execute(sa.select(tables.compute_nodes)).all()


# F8: a host or a node that is no longer reported does not count.


def test_f08_a_host_that_is_not_reported_any_more_counts_nowhere_and_is_said(fleet):
    discover(fleet, "kvm1")
    before, gone = room(fleet), hosts(fleet)["kvm1"]["vcpus_capacity"]
    run("compute_node", GROUPS, host="kvm1", nodes=[], store_url=fleet)
    now, host_row = room(fleet), hosts(fleet)["kvm1"]
    assert (
        now["listed"] == now["metrics"] == before["listed"] - gone and now["up"] == before["up"] - 1
    )
    assert (host_row["state"], host_row["down_reason"], host_row["vcpus_free"]) == (
        "unreported",
        "no longer reported by its host",
        0,
    )
    answer = refused(
        "schedule_info",
        store_url=fleet,
        requests=[{"name": "x", "vcpus": 1, "memory_mb": 1, "disk_gb": 0, "force_hosts": ["kvm1"]}],
    )
    assert answer.startswith("No valid host for x") and "kvm1" in answer


def wanted(name, **place):
    return {"uuid": uuid_of(name), "name": name, **place, "resources": {"VCPU": 1, "MEMORY_MB": 1}}


def test_f08_a_host_that_is_not_reported_any_more_takes_nothing(fleet):
    """Placement and claims know no room there; a host with a renamed node counts by the new name
    only."""
    discover(fleet, "kvm1")

    def candidates():
        query = {"resources": {"VCPU": 1}}
        found = run("allocation_candidates_info", store_url=fleet, query=query)
        requests = (found.get("candidates") or found)["allocation_requests"]
        return {uuid for each in requests for uuid in each["allocations"]}

    before = candidates()
    run("compute_node", GROUPS, host="kvm1", nodes=[], store_url=fleet)
    assert len(before) == 3 and len(candidates()) == 2 and candidates() < before
    assert "no longer reported by its host" in refused(
        "allocation", store_url=fleet, selections=[wanted("new", host="kvm1", node="kvm1")]
    )
    # The node is back, with another hostname.
    fleets.discover(fleet, host("kvm1", hypervisor_hostname="kvm1.new"))
    claimed = run("allocation", store_url=fleet, selections=[wanted("new", host="kvm1")])["claims"][
        0
    ]
    assert (claimed["host"], claimed["node"]) == ("kvm1", "kvm1.new")


def test_f08_the_report_has_a_host_that_has_left_as_that_alone(fleet):
    """The way of leaving does not matter: here the host was disabled before. Its old use and its
    last report belong to no present machine."""
    discover(fleet, "kvm1")
    run("host", store_url=fleet, host="kvm1", state="disabled", reason="old")
    run("compute_node", GROUPS, host="kvm1", nodes=[], store_url=fleet)
    with Store.open(fleet).write() as connection:
        connection.execute(
            sa.update(tables.compute_nodes).values(memory_mb_used=1000, local_gb_used=10)
        )
        connection.execute(
            sa.update(tables.services)
            .where(tables.services.c.host == "kvm1")
            .values(last_seen_up=1000)
        )
    with Store.open(fleet).read() as connection:
        report = report_data.read(connection, Policy.from_mapping({}), time.time())
    by_name = {each["host"]: each for each in report["hosts"]}
    assert by_name["kvm1"]["kind"] == "unreported" and report["seen"]["oldest"]["host"] != "kvm1"
    assert (report["summary"]["up"], report["summary"]["left"]) == (2, 1)
    (gone,) = by_name["kvm1"]["nodes"]
    assert (gone["memory_mb_physical"], gone["disk_gb_physical"]) == (None, None)


# host_remove and its module.


def test_walk_f10_a_host_leaves_at_the_first_time(fleet):
    run("aggregate", store_url=fleet, name="fast", hosts=["kvm3"])
    assert run("host", check=True, store_url=fleet, host="kvm3", state="absent")[
        "changed"
    ] and "kvm3" in hosts(fleet)
    found = run("host", store_url=fleet, host="kvm3", state="absent")
    assert found["changed"] and found["removed"] == {
        "host": "kvm3",
        "nodes": ["kvm3"],
        "aggregates": ["fast"],
        "evacuated": [],
    }
    assert set(hosts(fleet)) == {"kvm1", "kvm2"}
    assert not run("host", store_url=fleet, host="kvm3", state="absent")["changed"]
    # It comes back as a new one.
    discover(fleet, "kvm3")
    assert hosts(fleet)["kvm3"]["state"] == "up"


def test_walk_f10_what_is_there_holds_it(fleet):
    words = refused("host", store_url=fleet, host="kvm1", state="absent")
    for part in (
        "not removed",
        "db, web",
        "drover.compute.drain",
        "drover.compute.evacuate",
        "instance_delete",
        "released",
        uuid_of("db"),
    ):
        assert part in words, words
    run("lease", store_url=fleet, host="kvm2", purpose="drain")
    assert "kvm2 is held by" in refused("host", store_url=fleet, host="kvm2", state="absent")
    fleets.claim(fleet, fleets.selection("new", "kvm3"))
    assert "new" in refused("host", store_url=fleet, host="kvm3", state="absent")
    assert set(hosts(fleet)) == set(HOSTS)


def test_walk_f10_what_was_lost_with_a_dead_machine_is_released(fleet):
    """No host can undefine it. The instance is not lost before its host is seen to be off, or while
    another host shows it."""
    arguments = {
        "store_url": fleet,
        "state": "released",
        "instances": [uuid_of("db"), uuid_of("web")],
    }
    assert "kvm1 is dead: drover.compute.evacuate" in refused("allocation", **arguments)
    event = run("_power_event", store_url=fleet, host="kvm1", action="fence", driver="ipmi")[
        "event"
    ]["uuid"]
    run(
        "_power_event",
        store_url=fleet,
        host="kvm1",
        uuid=event,
        status="completed",
        power_state="off",
    )
    fleets.discover(fleet, host("kvm2", domain("db")), now=time.time())
    assert "on kvm2" in refused("allocation", **arguments)
    discover(fleet, "kvm2")
    assert "released" in refused("host", store_url=fleet, host="kvm1", state="absent")
    assert run("allocation", **arguments)["changed"] is True
    assert run("host", store_url=fleet, host="kvm1", state="absent")["removed"]["nodes"] == ["kvm1"]
    assert set(hosts(fleet)) == {"kvm2", "kvm3"} and not fleets.holdings(fleet)


def test_walk_f10_a_new_name_keeps_all(fleet, there):
    run("aggregate", store_url=fleet, name="fast", hosts=["kvm1"])
    run("host", store_url=fleet, host="kvm1", state="disabled", reason="fan")
    there.addresses = {"new1": "kvm1"}
    with pytest.raises(AnsibleActionFail):
        discover(fleet, "new1")
    before = room(fleet)
    assert (
        run("host", store_url=fleet, host="kvm1", state="renamed", new_name="new1")["renamed"][
            "instances"
        ]
        == 2
    )
    discover(fleet, "new1")
    by_host = hosts(fleet)
    assert set(by_host) == {"kvm2", "kvm3", "new1"} and (
        by_host["new1"]["state"],
        by_host["new1"]["disabled_reason"],
    ) == ("up", "fan")
    assert {name: fleets.where(fleet)[name] for name in ("web", "db")} == {
        "web": "new1",
        "db": "new1",
    }
    assert room(fleet)["listed"] == before["listed"]
    assert run("aggregate", store_url=fleet, name="fast")["aggregate"]["hosts"] == ["new1"]
    assert run("store_audit_info", store_url=fleet)["findings"] == []
    assert not run("host", store_url=fleet, host="kvm1", state="renamed", new_name="new1")[
        "changed"
    ]


def rolled(url):
    with Store.open(url).read() as connection:
        return {each["host"]: each["stage"] for each in rolling.read(connection)}


def test_b4_a_host_with_a_new_name_is_not_maintained_a_second_time(fleet, there):
    """A maintenance that is open for other hosts has done this one."""
    for name, stage in (("kvm1", "done"), ("kvm2", "waiting")):
        run("_rolling_host", store_url=fleet, hosts=[name], stage=stage)
    there.addresses = {"new1": "kvm1"}
    run("host", store_url=fleet, host="kvm1", state="renamed", new_name="new1")
    assert rolled(fleet) == {"new1": "done", "kvm2": "waiting"}


def test_b4_what_a_maintenance_did_to_a_host_goes_with_the_host(fleet):
    """Another machine that gets its name later is maintained like each other one."""
    run("_rolling_host", store_url=fleet, hosts=["kvm3"], stage="done")
    run("host", store_url=fleet, host="kvm3", state="absent")
    assert rolled(fleet) == {}
    run("_rolling_host", store_url=fleet, hosts=["kvm2"], stage="done")
    discover(fleet, "kvm3")
    run("host", store_url=fleet, host="kvm2", state="absent")
    run("host", store_url=fleet, host="kvm3", state="renamed", new_name="kvm2")
    assert rolled(fleet) == {}


def test_walk_f10_a_new_name_of_another_machine_is_none(fleet):
    assert "another machine" in refused(
        "host", store_url=fleet, host="kvm3", state="renamed", new_name="kvm2"
    )
    assert set(hosts(fleet)) == set(HOSTS)


def test_walk_f10_the_playbooks(fleet, tmp_path):
    def play(*options, name="host_remove", **variables):
        return playbook(name, fleet, *options, folder=tmp_path, variables=variables)

    code, output = play(drover_host="kvm9")
    assert code and "kvm9 is not in the store" in output.replace("\n", " ")
    code, output = play(drover_host="kvm1")
    assert code and "db, web" in " ".join(output.split())
    code, output = play("--check", drover_host="kvm3")
    assert not code and "kvm3 would be out of the store" in output and "kvm3" in hosts(fleet)
    code, output = play(drover_host="kvm2", drover_new_name="rack1")
    assert code and "the inventory has no host of that name" in " ".join(output.split())
    code, output = play(drover_host="kvm3")
    assert (
        not code and "kvm3 is out of the store" in output and set(hosts(fleet)) == {"kvm1", "kvm2"}
    )
    code, output = play(name="hosts")
    assert not code and "in the store and not" not in " ".join(output.split())
    code, output = playbook("hosts", fleet, "-i", "kvm2,kvm7,", folder=tmp_path)
    assert not code and "kvm1 is in the store and not in the inventory" in " ".join(output.split())
    assert "host_remove -e drover_host=kvm1" in " ".join(output.split())


# host_replace and its option.


def test_b2_another_machine_is_accepted_when_a_person_says_so(fleet, there):
    there.addresses = {"kvm3": "spare"}
    run("host", store_url=fleet, host="kvm3", state="disabled", reason="no fan")
    with pytest.raises(AnsibleConnectionFailure, match="host_replace -e drover_host=kvm3"):
        discover(fleet, "kvm3")
    answer = run(
        "compute_node", {"inventory_hostname": "kvm3", **GROUPS}, store_url=fleet, exchanged=True
    )
    assert (
        uuid_of("kvm3") in answer["machines"]["before"]
        and uuid_of("spare") in answer["machines"]["after"]
    )
    discover(fleet, "kvm3")
    assert (hosts(fleet)["kvm3"]["state"], hosts(fleet)["kvm3"]["disabled_reason"]) == (
        "up",
        "no fan",
    )


def test_b2_the_disks_of_the_old_machine_are_in_the_new_one(fleet, there):
    for name in ("web", "db"):
        there.hosts["kvm3"].define(name, uuid_of(name), state="shutoff")
    run("host", store_url=fleet, host="kvm3", state="absent")
    there.addresses = {"kvm1": "kvm3"}
    answer = run(
        "compute_node", {"inventory_hostname": "kvm1", **GROUPS}, store_url=fleet, exchanged=True
    )
    assert (
        answer["instances"] == 2
        and fleets.where(fleet)["web"] == "kvm1"
        and answer["missing"] == []
    )


def test_b2_what_the_new_machine_does_not_show_is_not_given_up(fleet, there):
    there.addresses = {"kvm1": "spare"}
    words = refused(
        "compute_node", {"inventory_hostname": "kvm1", **GROUPS}, store_url=fleet, exchanged=True
    )
    for part in (
        "kvm1 was not replaced",
        "db, web",
        "does not show them",
        "drover.compute.evacuate",
    ):
        assert part in words, words
    with Store.open(fleet).read() as connection:
        assert set(connection.execute(sa.select(tables.instances.c.state)).scalars()) == {"active"}


def test_b2_another_host_of_the_store_takes_no_second_place(fleet, there):
    there.addresses = {"kvm3": "kvm2"}
    words = refused(
        "compute_node", {"inventory_hostname": "kvm3", **GROUPS}, store_url=fleet, exchanged=True
    )
    assert "kvm3 is the same machine as kvm2" in words


# A forecast of a loss.


def test_walk_f06_a_forecast_counts_disks_that_only_the_lost_host_has(fleet, tmp_path):
    """Give web and db one file each that no other host is known to see."""
    sentence = "an evacuation leaves these instances: 2 on kvm1"
    assert sentence in " ".join(
        run(
            "capacity_info", store_url=fleet, requests=[{"vcpus": 1, "memory_mb": 1, "disk_gb": 0}]
        )["lines"]
    )
    assert sentence in json.dumps(run("report", store_url=fleet, path=str(tmp_path / "fleet.html")))
    assert sentence in (tmp_path / "fleet.html").read_text(encoding="utf-8")
    assert re.search(
        r'drover_instances_left_by_evacuation\{zone=""\} 2\b',
        run("metrics", store_url=fleet)["metrics"],
    )
    made = run("simulate", store_url=fleet, changes=[{"lose_hosts": ["kvm1"]}])["simulation"][
        "changes"
    ][0]
    assert "2 of its 2 have disks that only kvm1 has: an evacuation leaves them" in made["text"], (
        made
    )
    made = run("simulate", store_url=fleet, changes=[{"lose_hosts": ["kvm2"]}])["simulation"][
        "changes"
    ][0]
    assert "evacuation" not in made["text"]


# A request that nothing reads.


def test_b7_the_host_of_a_new_definition_is_no_wish_and_that_is_said(fleet):
    wanted = [{"name": name, "memory_mb": 64, "host": "kvm3"} for name in ("neu", "neu2")]
    (sentence,) = run("_definitions", store_url=fleet, instances=wanted)["warnings"]
    for part in (
        "Instance neu is new",
        "host: kvm3",
        "requested_destination: {host: kvm3}",
        "The same for neu2.",
    ):
        assert part in sentence, sentence
    known = [{"name": "web", "memory_mb": 64, "host": "kvm1"}]
    assert not run("_definitions", store_url=fleet, instances=known).get("warnings")


def test_b7_after_a_restore_nothing_is_said_to_be_gone():
    from ansible_collections.drover.compute.plugins.plugin_utils._planner.movability import (
        why_unmovable,
    )

    for state in ("missing", "active"):
        words = why_unmovable(
            {
                "name": "web",
                "state": state,
                "may_run_elsewhere": "kvm2 was not read since the store was brought back",
            }
        )
        assert "brought back" in words and "release" not in words
    assert "release" in why_unmovable({"name": "web", "state": "missing"})


def test_walk_f09_a_host_that_left_the_inventory_is_said_to_have(fleet, there):
    """DNS does not have its name either; the reason contains the way out."""
    there.hosts["kvm1"].reached = False
    variables = {"groups": {"all": ["kvm2", "kvm3"], "hypervisors": ["kvm2", "kvm3"]}}
    for module, args in (
        ("drain", {"host": "kvm1"}),
        ("instance", {"name": "web", "state": "rebooted"}),
    ):
        with pytest.raises(AnsibleActionFail) as caught:
            run(module, variables, store_url=fleet, **args)
        text = f"{caught.value} {json.dumps(caught.value.result)}"
        assert (
            "kvm1 is not in the inventory" in text and "host_remove -e drover_host=kvm1" in text
        ), text


def test_c2_one_discovery_finds_what_was_moved_by_hand(fleet, there, tmp_path):
    """The new host was read before the old one, and showed nothing of the instance then."""
    there.hosts["kvm2"].define("web", uuid_of("web"))
    there.hosts["kvm1"].domains()[uuid_of("web")].destroy()
    there.hosts["kvm1"].domains()[uuid_of("web")].undefine()
    discover(fleet, "kvm2", "kvm1", "kvm3")
    assert fleets.where(fleet)["web"] == "kvm1"
    assert run("_history", store_url=fleet)["unseen_arrivals"] == ["kvm2"]
    discover(fleet, "kvm2")
    assert fleets.where(fleet)["web"] == "kvm2"
    assert run("_history", store_url=fleet)["unseen_arrivals"] == []
