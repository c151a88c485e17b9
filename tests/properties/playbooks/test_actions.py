# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugins on a real store: results, check mode, diff mode, failures."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.drover.compute.plugins.plugin_utils._migrations.options import (
    MigrationOptions,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import schema
from ansible_collections.drover.compute.tests.unit.action.running import failure, is_plain, run
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import (
    domain,
    host,
    selection,
    uuid_of,
)


@pytest.fixture
def fleet_url(prepared_url):
    """Fill a store: kvm1 with a running web, kvm2 and kvm3 without instances."""
    fleets.discover(prepared_url, host("kvm1", domain("web")), host("kvm2"), host("kvm3"))
    return prepared_url


def test_store_makes_the_schema_once(store_url):
    assert run("store", store_url=store_url, check=True)["changed"] is True
    first = run("store", store_url=store_url, diff=True)
    assert (first["changed"], first["revision"]) == (True, schema.LATEST)
    assert first["diff"] == [{"before": "empty\n", "after": f"{schema.LATEST}\n"}]
    assert run("store", store_url=store_url)["changed"] is False
    assert "%25s" not in first["url"]


def test_compute_node_takes_nodes_as_data(prepared_url):
    nodes = [host("kvm1", domain("web")), {"vcpus": 1, "memory_mb": 1024}]
    arguments = {
        "nodes": nodes,
        "host": "kvm9",
        "store_url": prepared_url,
        "reserved_host_memory_mb": 0,
    }
    assert run("compute_node", check=True, **arguments)["changed"] is True
    answer = run("compute_node", **arguments)
    assert (answer["changed"], answer["added"], answer["adopted"]) == (
        True,
        ["kvm1", "kvm9"],
        ["web"],
    )
    assert run("compute_node", **arguments)["changed"] is False
    assert is_plain(answer)


def test_compute_node_takes_its_options_from_variables(prepared_url):
    variables = {
        "drover_cpu_allocation_ratio": "2.5",
        "drover_reserved_host_cpus": 1,
        "drover_availability_zone": "az1",
    }
    run(
        "compute_node",
        variables,
        nodes=[{"host": "a", "vcpus": 4, "memory_mb": 1024}],
        store_url=prepared_url,
    )
    columns = fleets.columns(prepared_url)
    assert (columns["resources"]["VCPU"]["ratio"], columns["resources"]["VCPU"]["reserved"]) == (
        [2.5],
        [1],
    )
    assert columns["zones"] == [["az1"]]
    # An argument has precedence.
    run(
        "compute_node",
        variables,
        nodes=[{"host": "a", "vcpus": 4}],
        store_url=prepared_url,
        cpu_allocation_ratio=3.0,
    )
    assert fleets.columns(prepared_url)["resources"]["VCPU"]["ratio"] == [3.0]


def test_compute_node_refuses_bad_nodes(prepared_url):
    message = failure("compute_node", nodes=[{"host": "a", "vcpus": -1}], store_url=prepared_url)
    assert message.startswith("nodes, item 1 (a): vcpus must be a whole number")


def test_host_switches_and_says_what_was(fleet_url):
    arguments = {"name": "kvm1", "state": "disabled", "reason": "fans", "store_url": fleet_url}
    assert run("host", check=True, **arguments)["changed"] is True
    answer = run("host", diff=True, **arguments)
    assert answer["changed"] is True
    assert answer["host"] == {
        "host": "kvm1",
        "disabled": True,
        "disabled_reason": "fans",
        "maintenance": False,
        "forced_down": False,
    }
    assert (answer["diff"][0]["before"]["disabled"], answer["diff"][0]["after"]["disabled"]) == (
        False,
        True,
    )
    assert run("host", **arguments)["changed"] is False
    assert is_plain(answer)


def test_host_failures(fleet_url):
    assert "Known hosts: kvm1, kvm2, kvm3" in failure(
        "host", name="kvm9", state="enabled", store_url=fleet_url
    )
    assert "reason goes with" in failure(
        "host", name="kvm1", state="enabled", reason="x", store_url=fleet_url
    )
    assert "one of the following" in failure("host", name="kvm1", store_url=fleet_url)


def test_host_info(fleet_url):
    answer = run("host_info", store_url=fleet_url)
    assert [(row["host"], row["state"], row["instances"]) for row in answer["hosts"]] == [
        ("kvm1", "up", 1),
        ("kvm2", "up", 0),
        ("kvm3", "up", 0),
    ]
    assert (answer["changed"], is_plain(answer)) == (False, True)
    one = run("host_info", host="kvm1", store_url=fleet_url)
    assert [row["project"] for row in one["resources"]] == [
        "(total)",
        "(used_now)",
        "(used_max)",
        "(none)",
    ]
    assert [row["vcpus"] for row in one["resources"]] == [4, 1, 1, 1]
    # The discovery of this test was in the future.
    old = run("host_info", {"drover_service_down_time": 60}, store_url=fleet_url)
    assert {row["state"] for row in old["hosts"]} == {"down"}
    assert "Known hosts" in failure("host_info", host="kvm9", store_url=fleet_url)


def test_host_info_without_capacity(fleet_url):
    state = (
        "host",
        "state",
        "status",
        "maintenance",
        "forced_down",
        "disabled_reason",
        "down_reason",
        "last_seen_up",
        "last_seen_up_iso",
        "drained",
        "labels",
    )
    whole = run("host_info", store_url=fleet_url)["hosts"]
    states = [{key: row[key] for key in state} for row in whole]
    assert run("host_info", capacity=False, store_url=fleet_url)["hosts"] == states
    one = run("host_info", host="kvm2", capacity=False, store_url=fleet_url)
    assert (one["hosts"], "resources" in one) == (states[1:2], False)
    assert "Known hosts" in failure("host_info", host="kvm9", capacity=False, store_url=fleet_url)


def test_instance_info(fleet_url):
    answer = run("instance_info", store_url=fleet_url)
    assert [(row["name"], row["host"], row["state"]) for row in answer["instances"]] == [
        ("web", "kvm1", "running")
    ]
    assert is_plain(answer)
    for args in ({"host": "kvm2"}, {"name": "WEB"}, {"uuid": uuid_of("db")}):
        assert run("instance_info", store_url=fleet_url, **args)["instances"] == []


def test_server_group(prepared_url):
    arguments = {
        "name": "web",
        "policy": "anti-affinity",
        "max_server_per_host": 2,
        "store_url": prepared_url,
    }
    assert run("server_group", check=True, **arguments)["changed"] is True
    found = run("server_group", **arguments)
    assert (found["changed"], found["server_group"]["max_server_per_host"]) == (True, 2)
    assert run("server_group", **arguments)["changed"] is False
    assert "cannot become affinity" in failure(
        "server_group", name="web", policy="affinity", store_url=prepared_url
    )
    assert (
        run("server_group", name="web", state="absent", store_url=prepared_url)["changed"] is True
    )
    assert (
        run("server_group", name="web", state="absent", store_url=prepared_url)["changed"] is False
    )
    for args in ({"max_server_per_host": 0}, {"max_server_per_host": -1}):
        assert "max_server_per_host" in failure("server_group", **{**arguments, **args})


def test_allocation_from_claim_to_release(fleet_url):
    arguments = {"selections": [selection("db", "kvm1", "kvm2", vcpus=4)], "store_url": fleet_url}
    assert run("allocation", check=True, **arguments)["claims"][0]["host"] == "kvm2"
    assert fleets.used(fleet_url) == {"kvm1": 1}
    answer = run("allocation", **arguments)
    assert (answer["changed"], answer["claims"][0]["host"], is_plain(answer)) == (
        True,
        "kvm2",
        True,
    )
    assert run("allocation", **arguments)["changed"] is False
    one = {"instances": [uuid_of("db")], "store_url": fleet_url}
    answer = run("allocation", state="next", alternates=[{"host": "kvm3"}], **one)
    assert (answer["changed"], answer["claims"][0]["host"]) == (True, "kvm3")
    assert run("allocation", state="released", **one) == {
        "changed": True,
        "released": [uuid_of("db")],
    }
    assert run("allocation", state="released", **one)["changed"] is False


def test_allocation_swaps_there_and_back(fleet_url):
    one = {"instances": [uuid_of("web")], "store_url": fleet_url}
    swapped = run("allocation", state="swapped", host="kvm2", **one)
    assert (swapped["changed"], swapped["migrations"][0]["destination"]) == (True, "kvm2")
    assert run("allocation", state="swapped", host="kvm2", **one)["changed"] is False
    assert fleets.used(fleet_url) == {"kvm1": 1, "kvm2": 1}
    assert run("allocation", state="swapped_back", **one)["changed"] is True
    assert run("allocation", state="swapped_back", **one)["changed"] is False
    assert fleets.used(fleet_url) == {"kvm1": 1}
    run("allocation", state="swapped", host="kvm3", **one)
    assert run("allocation", state="moved", **one)["changed"] is True
    assert run("allocation", state="moved", **one)["changed"] is False
    assert (fleets.used(fleet_url), fleets.where(fleet_url)) == ({"kvm3": 1}, {"web": "kvm3"})


def test_allocation_failures(fleet_url):
    before = fleets.snapshot(fleet_url)
    one = {"instances": [uuid_of("web")], "store_url": fleet_url}
    assert "selections" in failure("allocation", store_url=fleet_url)
    assert "no uuid" in failure(
        "allocation", selections=[{**selection("a", "kvm1"), "uuid": "a"}], store_url=fleet_url
    )
    assert "no alternate is left" in failure("allocation", state="next", alternates=[], **one)
    assert "alternate 1" in failure(
        "allocation", state="next", alternates=[{"node": "kvm2"}], **one
    )
    assert "has a domain" in failure("allocation", state="released", **one)
    with pytest.raises(AnsibleActionFail) as caught:
        run(
            "allocation",
            selections=[selection("big", "kvm1", "kvm2", vcpus=9)],
            store_url=fleet_url,
        )
    # The call of ansible-core since 2.19, and the call of older versions.
    result = getattr(caught.value, "_result", None) or caught.value.result
    assert len(result["refusals"]) == 2
    assert fleets.snapshot(fleet_url) == before


def test_definitions_read_and_written_back(fleet_url, tmp_path):
    path = tmp_path / "fleet.yml"
    text = (
        "# Ours\ninstances:\n  - name: web # the shop\n    memory_mb: 64\n  - name: new\n   "
        " memory_mb: 64\n"
    )
    path.write_text(text)
    read = run("_definitions", path=str(path), store_url=fleet_url)
    assert [(row["name"], row["state"], row["host"]) for row in read["instances"]] == [
        ("web", "running", "kvm1"),
        ("new", "new", None),
    ]
    assert (read["changed"], path.read_text(), is_plain(read)) == (False, text, True)
    arguments = {"path": str(path), "store_url": fleet_url, "write_back": True}
    after = text.replace("shop\n", f"shop\n    host: kvm1\n    uuid: {uuid_of('web')}\n")
    checked = run("_definitions", check=True, diff=True, **arguments)
    assert (checked["changed"], checked["diff"][0]["after"], path.read_text()) == (
        True,
        after,
        text,
    )
    assert run("_definitions", **arguments)["changed"] is True
    assert path.read_text() == after
    assert run("_definitions", **arguments)["changed"] is False


def test_definitions_of_a_variable(fleet_url):
    definition = {"name": "web", "memory_mb": 64}
    (found,) = run("_definitions", instances=[definition], store_url=fleet_url)["instances"]
    assert found["uuid"] == uuid_of("web")
    message = failure("_definitions", instances=[definition, definition], store_url=fleet_url)
    assert "the name web stands twice" in message
    assert "path|instances" in failure("_definitions", path="x", instances=[], store_url=fleet_url)


@pytest.mark.parametrize("check", [False, True])
def test_the_table_has_what_is_there_and_names_what_a_definition_says_otherwise(fleet_url, check):
    fleets.discover(
        fleet_url,
        host("kvm1", domain("web", 2, 4096, 40, metadata={"move": "cold"}), memory_mb=65536),
    )
    web = {
        "name": "web",
        "vcpus": 16,
        "memory_mb": 99999,
        "disks": [{"size_gb": 1}],
        "policy": {"move": "never"},
    }
    answer = run(
        "_definitions",
        instances=[web, {"name": "new", "memory_mb": 64}],
        store_url=fleet_url,
        check=check,
    )
    assert answer["table"][1].split() == [
        "web",
        "running",
        "kvm1",
        "2",
        "4",
        "GiB",
        "40",
        "GiB",
        "-",
        "-",
    ]
    assert (
        answer["table"][2:]
        == answer["differences"]
        == [
            (
                "web: vcpus 2, the definition says 16; memory_mb 4096, the definition says 99999;"
                " disk_gb 40, the definition says 1; policy move cold, the definition says move"
                " never."
            ),
            (
                "web: it was there already, and the store does not know that it was built from this"
                " definition; it is taken for it by its name."
            ),
            (
                "Nothing of an instance that is there was changed. drover.compute.place with -e"
                " drover_apply_changes=true changes those that differ; or correct the definition."
            ),
        ]
    )
    # An instance that does not exist yet has the sizes of its definition.
    assert [each["vcpus"] for each in answer["instances"]] == [16, 1]
    same = {
        "name": "web",
        "uuid": uuid_of("web"),
        "vcpus": 2,
        "memory_mb": 4096,
        "disks": [{"size_gb": 40}],
        "policy": {"move": "cold"},
    }
    answer = run("_definitions", instances=[same], store_url=fleet_url, check=check)
    assert answer["differences"] == [] and len(answer["table"]) == 2


#: A move of a plan.
MOVE = {
    "uuid": uuid_of("web"),
    "name": "web",
    "from_host": "kvm1",
    "host": "kvm2",
    "node": "kvm2",
    "live": True,
}


def test_migration_refuses_what_it_cannot_do(fleet_url):
    assert "at least 1" in failure("_migration", max_migrations=0, store_url=fleet_url)
    assert "starts at kvm1, but this task runs on kvm2" in failure(
        "_migration", {"inventory_hostname": "kvm2"}, moves=[MOVE], store_url=fleet_url
    )
    assert run("_migration", store_url=fleet_url) == {
        "changed": False,
        "migrations": [],
        "failed_moves": [],
    }


@pytest.mark.parametrize(
    "args, words",
    [
        ({"options": {"tunnelled": True, "tls": True}}, "tunnelled and tls do not go together"),
        ({"options": {"on_timeout": "wait"}}, "value of on_timeout must be one of"),
        ({"options": {"bandwith": 3}}, "Unsupported parameters"),
        ({"state": "aborted", "moves": [{}]}, "state aborted takes no moves"),
        (
            {"state": "aborted", "instances": ["wbe"]},
            "No instance wbe is in the store (did you mean web?), so nothing was done.",
        ),
        ({"instances": ["web"]}, "The options instances and selector are for state aborted"),
        (
            {"moves": [{"uuid": "u1", "host": "kvm2"}]},
            "Move 1 of moves lacks name, from_host, live.",
        ),
        ({"moves": [{**MOVE, "name": "db"}]}, "is the uuid of web, not of db"),
        ({"moves": [{**MOVE, "uuid": uuid_of("other")}]}, "is nobody's in the store"),
        ({"max_wait": -1}, "max_wait must be 0 or more, not -1."),
    ],
)
def test_migration_refuses_contradictory_options(fleet_url, args, words):
    assert words in failure("_migration", store_url=fleet_url, **args)


@pytest.mark.parametrize(
    "policy, words",
    [
        (
            {"post_copy": False},
            "The migration options of web, with those of its policy: on_timeout is post_copy",
        ),
        ({"parallel_connections": "many"}, "Correct its policy"),
        ({"bandwith": 1}, "unknown option bandwith (did you mean bandwidth_mib?). Known: "),
    ],
)
def test_migration_checks_the_policy_of_an_instance_with_the_options(fleet_url, policy, words):
    move = {
        "uuid": uuid_of("web"),
        "name": "web",
        "from_host": "localhost",
        "host": "kvm2",
        "live": True,
        "migration": policy,
    }
    options = {"post_copy": True, "on_timeout": "post_copy"}
    assert words in failure("_migration", moves=[move], options=options, store_url=fleet_url)


def test_what_a_policy_says_is_stronger_than_the_task():
    moves = [
        {"uuid": "u1", "name": "web", "migration": {"on_timeout": "abort", "bandwidth_mib": "7"}}
    ]
    options = MigrationOptions(
        {"post_copy": True, "on_timeout": "post_copy", "bandwidth_mib": None}, moves
    )
    assert options.of({"uuid": "u1", "name": "web"}) == {
        "post_copy": True,
        "on_timeout": "abort",
        "bandwidth_mib": 7,
    }
    assert options.of({"uuid": "u2", "name": "db"}) == {
        "post_copy": True,
        "on_timeout": "post_copy",
    }
    # The policy in the journal counts for moves that another run has left open.
    left = {"uuid": "u2", "name": "db", "migration_options": {"tls": True}}
    assert options.of(left) == {"post_copy": True, "on_timeout": "post_copy", "tls": True}


def test_aborting_where_nothing_is_under_way(fleet_url, capsys):
    wanted = {"state": "aborted", "instances": ["web"], "store_url": fleet_url}
    assert run("_migration", **wanted) == {"changed": False, "migrations": [], "failed_moves": []}
    assert "No move off localhost is under way of: web." in capsys.readouterr().out


@pytest.mark.parametrize("module", ["host_info", "instance_info"])
def test_reading_before_any_discovery(store_url, module):
    assert "drover.compute.discover" in failure(module, store_url=store_url)


@pytest.mark.parametrize("end, holds, vcpus", [("confirmed", 2, 2), ("reverted", 1, 1)])
def test_allocation_resizes_on_the_same_host(fleet_url, end, holds, vcpus):
    one = {"instances": [uuid_of("web")], "store_url": fleet_url}
    arguments = {
        "state": "resized",
        "resources": {"VCPU": 2, "MEMORY_MB": 64},
        "flavor": "large",
        **one,
    }
    assert run("allocation", check=True, **arguments)["changed"] is True
    opened = run("allocation", **arguments)
    assert (opened["changed"], opened["migrations"][0]["destination"], is_plain(opened)) == (
        True,
        "kvm1",
        True,
    )
    assert run("allocation", **arguments)["changed"] is False
    assert run("allocation", state=end, **one)["changed"] is False, "it has not ended yet"
    assert run("allocation", state="moved", **one)["changed"] is True
    # Both sizes are held until a person decides.
    assert fleets.used(fleet_url) == {"kvm1": 3}
    assert "Confirm or revert" in failure("allocation", **arguments)
    assert run("allocation", state=end, **one)["changed"] is True
    assert run("allocation", state=end, **one)["changed"] is False
    (row,) = run("instance_info", store_url=fleet_url)["instances"]
    assert (fleets.used(fleet_url), row["vcpus"]) == ({"kvm1": holds}, vcpus)


def test_allocation_refuses_a_resize_that_cannot_be(fleet_url):
    one = {"instances": [uuid_of("web")], "store_url": fleet_url, "state": "resized"}
    assert "used 1 of 4" in failure("allocation", resources={"VCPU": 4}, **one)
    assert "whole number" in failure("allocation", resources={"VCPU": "many"}, **one)
    assert "exactly one instance" in failure(
        "allocation", resources={"VCPU": 1}, **{**one, "instances": []}
    )
    assert "not on any host" in failure(
        "allocation", resources={"VCPU": 1}, **{**one, "instances": [uuid_of("x")]}
    )
    assert fleets.used(fleet_url) == {"kvm1": 1}
