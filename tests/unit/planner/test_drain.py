# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans of drains, by example."""

from __future__ import annotations

import json

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import PlanError
from ansible_collections.drover.compute.plugins.plugin_utils._planner import milp
from ansible_collections.drover.compute.plugins.plugin_utils._planner.drain import plan_drain
from ansible_collections.drover.compute.plugins.plugin_utils._report.plans import drain_lines
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.tests.unit.planner.guests import drain, guest
from ansible_collections.drover.compute.tests.unit.scheduler.fleets import host, uuid_of

THREE = [host("kvm1"), host("kvm2"), host("kvm3")]


def targets(plan):
    return {move["name"]: move["host"] for move in plan["moves"]}


def reasons(plan):
    return {each["name"]: each["reason"] for each in plan["unmovable"]}


def test_largest_first_live_and_cold():
    guests = [
        guest("small"),
        guest("off", memory_mb=256, state="shutoff"),
        guest("big", memory_mb=1024, vcpus=4),
        guest("resting", memory_mb=128, state="paused"),
        guest("elsewhere", host="kvm2"),
    ]
    plan, columns = drain(THREE, guests)
    assert [(move["name"], move["live"]) for move in plan["moves"]] == [
        ("big", True),
        ("off", False),
        ("resting", True),
        ("small", True),
    ]
    assert [move["order"] for move in plan["moves"]] == [1, 2, 3, 4]
    assert plan["waves"] == 1
    big = plan["moves"][0]
    assert {
        key: big[key]
        for key in ("from_host", "from_node", "host", "node", "uuid", "memory_mb", "vcpus")
    } == {
        "from_host": "kvm1",
        "from_node": "kvm1",
        "host": "kvm3",
        "node": "kvm3",
        "uuid": uuid_of("big"),
        "memory_mb": 1024,
        "vcpus": 4,
    }
    assert big["provider"] == columns["uuid"][2]
    assert json.loads(json.dumps(plan)) == plan


def test_never_onto_the_host_itself_nor_disabled_nor_down_hosts_whatever_the_policy_leaves_out():
    nodes = [
        host("kvm1"),
        host("kvm2", memory_mb=99999, disabled="x"),
        host("kvm3", memory_mb=99999, down="x"),
        host("kvm4"),
    ]
    plan, _columns = drain(nodes, [guest("a"), guest("b")], policy={"enabled_filters": []})
    assert targets(plan) == {"a": "kvm4", "b": "kvm4"}


def test_stays_in_its_cell():
    nodes = [
        host("kvm1", cell="x"),
        host("kvm2", cell="y", memory_mb=99999),
        host("kvm3", cell="x"),
    ]
    plan, _columns = drain(nodes, [guest("a"), guest("b", memory_mb=9000)])
    assert targets(plan) == {"a": "kvm3"}
    assert "same cell rejected 1 (kvm2)" in reasons(plan)["b"]


def test_a_host_with_several_compute_nodes_is_emptied_whole():
    nodes = [host("kvm1", node="one"), host("kvm1", node="two"), host("kvm2")]
    plan, _columns = drain(nodes, [guest("a", node="one"), guest("b", node="two")])
    assert {(move["name"], move["from_node"], move["host"]) for move in plan["moves"]} == {
        ("a", "one", "kvm2"),
        ("b", "two", "kvm2"),
    }


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"move_policy": "never"}, "its migration policy is 'never'"),
        (
            {"own_devices": [{"type": "pci", "address": "0000:3b:00.0"}]},
            "devices of its host that no claim gave it (pci 0000:3b:00.0)",
        ),
        (
            {"snapshots": True},
            (
                "it has snapshots, and whether these can be moved is not known; run"
                " drover.compute.discover"
            ),
        ),
        (
            {"snapshots": True, "fixed_snapshots": ["in", "mem"]},
            "it has snapshots in its image or with memory (in, mem)",
        ),
        (
            {"snapshots": True, "fixed_snapshots": [], "local_disks": True},
            "its disks are not known to be on shared storage",
        ),
        ({"task_state": "moving_disk"}, "a disk of it is being moved to another storage"),
        (
            {"resized_from": "kvm3"},
            "it was resized and still holds its old room on kvm3; confirm or revert that first",
        ),
        ({"state": "shutoff", "managed_save": True}, "managed save"),
        ({"state": "shutoff", "persistent": False}, "not persistent"),
        ({"state": "crashed"}, "it has crashed"),
        ({"state": "pmsuspended"}, "suspended itself"),
        ({"state": "shutdown"}, "shutting down"),
        ({"state": "nostate"}, "does not know its state"),
        ({"state": "building"}, "still being built"),
        ({"state": "missing"}, "no longer reports it"),
        ({"state": "active"}, "its host does not show it any more, and another host did"),
        ({"state": "odd"}, "its state is odd"),
    ],
)
def test_what_cannot_move_is_named_and_the_rest_is_planned(more, says):
    plan, _columns = drain(THREE, [guest("stuck", **more), guest("free")])
    assert says in reasons(plan)["stuck"]
    assert list(targets(plan)) == ["free"]
    assert any("stuck" in line and says in line for line in plan["lines"])


def bound(move="never", **more):
    return [
        {
            "what": "its shared memory s is memory that it shares",
            "way_out": "take it away",
            "move": move,
            "evacuation": "lost",
            "only": "",
            "address": None,
            "keep_running": False,
            **more,
        }
    ]


@pytest.mark.parametrize(
    ("move", "state", "policy", "stays"),
    [
        ("never", "running", None, True),
        ("never", "shutoff", None, True),
        ("off", "running", None, True),
        ("off", "running", "cold", False),
        ("off", "shutoff", None, False),
        ("live", "running", None, False),
        ("live", "running", "cold", True),
        ("live", "shutoff", None, True),
        ("looked_up", "running", None, False),
    ],
)
def test_f12_what_binds_an_instance_is_a_reason_of_the_plan(move, state, policy, stays):
    plan, _columns = drain(
        THREE, [guest("a", state=state, move_policy=policy, bindings=bound(move))]
    )
    assert reasons(plan) == (
        {"a": "its shared memory s is memory that it shares: take it away"} if stays else {}
    )


def test_f09_a_guest_that_a_shutdown_would_lose_is_not_shut_down_by_its_policy():
    plan, _columns = drain(
        THREE,
        [
            guest("a", move_policy="shutdown", bindings=bound(keep_running=True)),
            guest("b", move_policy="shutdown"),
        ],
    )
    assert [each["name"] for each in plan["shutdowns"]] == ["b"]
    (stays,) = plan["unmovable"]
    assert stays["name"] == "a" and stays["keep_running"]


@pytest.mark.parametrize("more", [{"persistent": False}, {"managed_save": True}])
def test_running_ones_do_not_mind(more):
    assert targets(drain(THREE, [guest("a", **more)])[0]) == {"a": "kvm2"}


def test_fits_nowhere_names_the_filters_and_the_nearest():
    nodes = [host("kvm1"), host("kvm2", memory_mb=100), host("kvm3", memory_mb=90)]
    plan, _columns = drain(nodes, [guest("fat", memory_mb=128), guest("thin", memory_mb=64)])
    assert list(targets(plan)) == ["thin"]
    assert (
        reasons(plan)["fat"]
        == "fits on no other host: of 3 hosts, drained host rejected 1 (kvm1), RamFilter rejected"
        " 2; nearest misses: kvm2 (RAM: asked 128 MiB, 100 MiB free of 100), kvm3 (RAM: asked"
        " 128 MiB, 90 MiB free of 90)"
    )


def test_fits_alone_but_not_beside_the_others():
    nodes = [host("kvm1"), host("kvm2", memory_mb=200)]
    plan, _columns = drain(nodes, [guest("a", memory_mb=150), guest("b", memory_mb=100)])
    assert len(plan["moves"]) == 1
    assert "once the others have their places" in next(iter(reasons(plan).values()))


@pytest.mark.parametrize(
    ("nodes", "guests"),
    [
        # Fleets that a search found: a place for all instances exists, and only one part of the
        # planner finds it.
        pytest.param(
            [(5, 17), (8, 9)], [(2, 2), (3, 5), (1, 9), (4, 8)], id="another order than by memory"
        ),
        pytest.param(
            [(4, 17), (8, 13)], [(4, 8), (4, 7), (3, 3), (1, 3)], id="packing in place of spreading"
        ),
        pytest.param([(4, 13), (5, 14)], [(4, 4), (2, 7), (3, 5)], id="packing the tightest"),
        pytest.param(
            [(5, 13), (7, 17)],
            [(4, 8), (2, 6), (2, 8), (2, 7)],
            id="what found no place goes first",
        ),
    ],
)
def test_more_than_one_way_is_tried_before_it_is_given_up(nodes, guests):
    """(vCPUs, MiB) of the hosts and of the instances of kvm1."""
    hosts = [host("kvm1", 64, 640)] + [
        host(f"kvm{i}", *size) for i, size in enumerate(nodes, start=2)
    ]
    plan, _columns = drain(
        hosts, [guest(f"vm{i}", vcpus=v, memory_mb=m) for i, (v, m) in enumerate(guests)]
    )
    assert plan["unmovable"] == []
    assert len(plan["moves"]) == len(guests)


def test_anti_affinity_holds_and_says_when_it_is_in_the_way():
    groups = {"web": ("anti-affinity", 1)}
    guests = [
        guest("w1", group="web"),
        guest("w2", group="web", host="kvm2"),
        guest("x", memory_mb=512),
    ]
    plan, _columns = drain(THREE, guests, groups=groups)
    assert targets(plan)["w1"] == "kvm3"
    plan, _columns = drain(THREE[:2], guests, groups=groups)
    assert "anti-affinity: the host holds 1 of server group web, 1 allowed" in reasons(plan)["w1"]
    assert targets(plan) == {"x": "kvm2"}


def test_members_that_share_the_drained_host_part():
    groups = {"web": ("anti-affinity", 2)}
    guests = [
        guest("w1", group="web"),
        guest("w2", group="web"),
        guest("w3", group="web", host="kvm2"),
        guest("w4", group="web", host="kvm2"),
    ]
    plan, _columns = drain(
        [host("kvm1"), host("kvm2"), host("kvm3", memory_mb=128)], guests, groups=groups
    )
    assert targets(plan) == {"w1": "kvm3", "w2": "kvm3"}


def test_an_affinity_group_moves_together_or_not_at_all():
    groups = {"db": ("affinity", None)}
    guests = [
        guest("d1", group="db", memory_mb=100),
        guest("d2", group="db", memory_mb=100),
        guest("d3", group="db", memory_mb=100),
    ]
    nodes = [
        host("kvm1"),
        host("kvm2", memory_mb=250),
        host("kvm3", memory_mb=300),
        host("kvm4", memory_mb=250),
    ]
    plan, _columns = drain(nodes, guests, groups=groups)
    assert targets(plan) == {"d1": "kvm3", "d2": "kvm3", "d3": "kvm3"}
    plan, _columns = drain([nodes[0], nodes[1], nodes[3]], guests, groups=groups)
    assert plan["moves"] == []
    assert "no host could" not in "".join(reasons(plan).values())
    assert (
        sum("the rest of its server group together" in each for each in reasons(plan).values()) == 1
    )
    assert sum("(affinity) stays together" in each for each in reasons(plan).values()) == 2


def test_an_affinity_group_stays_with_a_member_that_cannot_move():
    guests = [guest("d1", group="db"), guest("d2", group="db", snapshots=True)]
    plan, _columns = drain(THREE, guests, groups={"db": ("affinity", None)})
    assert (
        reasons(plan)["d1"] == "its server group db (affinity) stays together, and d2 cannot move"
    )


def test_the_rest_of_an_affinity_group_follows_those_that_went_before():
    """A drain that was killed half way."""
    guests = [guest("d1", group="db"), guest("d2", group="db", host="kvm3")]
    plan, _columns = drain(THREE, guests, groups={"db": ("affinity", None)})
    assert targets(plan) == {"d1": "kvm3"}


def test_a_lonely_member_of_an_affinity_group_may_go_anywhere():
    plan, _columns = drain(THREE, [guest("d1", group="db")], groups={"db": ("affinity", None)})
    assert targets(plan) == {"d1": "kvm2"}


def test_what_destinations_said_is_the_reason():
    said = {"kvm2": "the network br9 does not exist.", "kvm3": "the network br9 does not exist."}
    plan, columns = drain(THREE, [guest("a"), guest("b")], excluded={uuid_of("a"): said})
    assert reasons(plan) == {
        "a": "no host that has room takes it: kvm2, kvm3: the network br9 does not exist"
    }
    assert plan["proof"] is None and "large enough" not in plan["unmovable"][0]["way_out"]


def test_what_destinations_said_that_differs_in_their_names_alone_is_told_once():
    """A fleet without SSH between its hosts had eleven long sentences for each instance."""
    refusals = {
        host: f"No SSH connection to qemu+ssh://root@{host}/system: {host} refuses."
        for host in ("kvm2", "kvm3")
    }
    plan, _columns = drain(THREE, [guest("a")], excluded={uuid_of("a"): refusals})
    assert reasons(plan) == {
        "a": (
            "no host that has room takes it: kvm2: No SSH connection to"
            " qemu+ssh://root@kvm2/system: kvm2 refuses; the same for kvm3"
        )
    }


def test_what_one_destination_said_stands_beside_the_room_of_the_others():
    plan, columns = drain(
        THREE, [guest("a", memory_mb=900_000)], excluded={uuid_of("a"): {"kvm2": "no network"}}
    )
    assert "RamFilter rejected" in reasons(plan)["a"] and reasons(plan)["a"].endswith(
        "; kvm2: no network"
    )
    assert plan["proof"] is None


def test_excluded_nodes():
    plan, columns = drain(THREE, [guest("a"), guest("b")], excluded={uuid_of("a"): ["kvm2"]})
    assert targets(plan)["a"] == "kvm3"
    plan, columns = drain(
        THREE, [guest("a")], excluded={uuid_of("a"): [columns["uuid"][1], "kvm3"]}
    )
    assert reasons(plan)["a"] == "no host that has room takes it: kvm2, kvm3: a move there failed"
    assert plan["status"] == "partial" and plan["proof"] is None


@pytest.mark.parametrize(
    ("limits", "waves"),
    [
        (None, 1),
        ({}, 1),
        ({"per_source": 2}, 3),
        ({"per_source": None, "per_destination": 2}, 3),
        ({"per_source": 1}, 5),
    ],
)
def test_waves(limits, waves):
    nodes = [host("kvm1"), host("kvm2")]
    plan, _columns = drain(nodes, [guest(f"vm{i}") for i in range(5)], limits=limits)
    assert plan["waves"] == waves == max(move["wave"] for move in plan["moves"])
    assert [move["wave"] for move in plan["moves"]] == sorted(
        move["wave"] for move in plan["moves"]
    )
    most = (limits or {}).get("per_source") or 9
    assert all(
        sum(move["wave"] == wave for move in plan["moves"]) <= most for wave in range(1, waves + 1)
    )


def test_an_empty_host_and_an_unknown_one():
    plan, _columns = drain(THREE, [])
    assert plan == {
        "host": "kvm1",
        "hosts": ["kvm1"],
        "status": "ok",
        "method": "as the policy weighs",
        "moves": [],
        "extra_moves": 0,
        "shutdowns": [],
        "unmovable": [],
        "proof": None,
        "hint": None,
        "waves": 0,
        "seconds": 0,
        "lines": ["kvm1 holds no instances; there is nothing to move."],
    }
    with pytest.raises(
        PlanError, match="Host kvm7 is not in the store. Known hosts: kvm1, kvm2, kvm3"
    ):
        drain(THREE, [], host="kvm7")


@pytest.mark.parametrize(
    "limits", [{"per_source": 0}, {"per_source": "2"}, {"per_source": True}, {"most": 1}]
)
def test_bad_limits(limits):
    with pytest.raises(PlanError, match="limit"):
        drain(THREE, [], limits=limits)


def test_lines_are_a_table_for_people():
    guests = [
        guest("web1", memory_mb=512),
        guest("database", memory_mb=64, state="shutoff"),
        guest("gpu", own_devices=[{"type": "pci", "address": "0000:3b:00.0"}]),
    ]
    plan, _columns = drain(THREE, guests, limits={"per_source": 1})
    assert plan["lines"] == [
        "Drain of kvm1: 2 instances to move in 2 waves, 1 cannot move.",
        "  WAVE  INSTANCE  STATE    VCPU   MEMORY   DISK  FROM      TO    HOW",
        "     1  web1      running     1  512 MiB  1 GiB  kvm1  ->  kvm2  live, copies 512 MiB",
        "     2  database  shutoff     1   64 MiB  1 GiB  kvm1  ->  kvm3  cold",
        "Expected to take about 9 s.",
        "Copies 512 MiB: memory at 110 MiB/s, assumed.",
        "Cannot move:",
        (
            "  gpu (running): it uses devices of its host that no claim gave it (pci 0000:3b:00.0);"
            " detach them first"
        ),
    ]


def test_the_limit_of_an_instance_goes_over_that_of_all():
    own = guest("own", migration={"bandwidth_mib": 20})
    plan, _columns = drain(THREE, [own, guest("other")], limits={"bandwidth_mib": 100})
    assert {move["name"]: move["bandwidth_mib"] for move in plan["moves"]} == {
        "own": 20,
        "other": 100,
    }
    assert {move["name"]: move["copying"][0]["rate"] for move in plan["moves"]} == {
        "own": 20,
        "other": 100,
    }


# Wishes of instances by policy, and obstacles for all of them.


def test_policies_of_instances():
    guests = [
        guest("cold", move_policy="cold"),
        guest("live", move_policy="live"),
        guest("off", move_policy="live", state="shutoff"),
        guest("stop", move_policy="shutdown"),
        guest("gone", move_policy="shutdown", state="missing"),
    ]
    plan, _columns = drain(THREE, guests)
    assert reasons(plan).pop("gone").startswith("its host no longer reports it")
    assert {move["name"]: move["live"] for move in plan["moves"]} == {"cold": False, "live": True}
    assert (
        reasons(plan)["off"]
        == "it is shut off and its migration policy is 'live'; start it first, or change the policy"
    )
    assert [each["name"] for each in plan["shutdowns"]] == ["stop"]
    assert "To be shut down by their policy: stop." in plan["lines"]
    with pytest.raises(
        PlanError, match="migration policy 'often', which does not exist; there are: never, cold"
    ):
        drain(THREE, [guest("a", move_policy="often")])


def test_priority_goes_first():
    plan, _columns = drain(
        THREE, [guest("big", memory_mb=512), guest("vital", priority=5)], limits={"per_source": 1}
    )
    assert [move["name"] for move in plan["moves"]] == ["vital", "big"]


def test_required_traits():
    nodes = [
        host("kvm1", traits=["A"]),
        host("kvm2", traits=["A", "B"]),
        host("kvm3", memory_mb=99999, traits=["A"]),
    ]
    plan, _columns = drain(
        nodes, [guest("a", required_traits=["B"]), guest("b", required_traits=["C"])]
    )
    assert targets(plan) == {"a": "kvm2"}
    assert "required traits rejected 2" in reasons(plan)["b"]


def test_others_step_aside_when_that_is_allowed():
    nodes = [host("kvm1"), host("kvm2", memory_mb=100), host("kvm3", memory_mb=50)]
    guests = [guest("big", memory_mb=80), guest("small", host="kvm2", memory_mb=40)]
    others = guests[1:]
    plan, _columns = drain(nodes, guests, others=others)
    assert plan["status"] == "partial" and plan["moves"] == []
    assert plan["unmovable"][0]["way_out"] == "allow 1 more move of others (small to kvm3)"
    assert plan["unmovable"][0]["nearest"] == {
        "host": "kvm2",
        "node": "kvm2",
        "short": {"MEMORY_MB": 20},
        "group": 0,
    }
    plan, _columns = drain(nodes, guests, others=others, extra_moves=1)
    assert [
        (move["name"], move["host"], move["extra"], move["wave"]) for move in plan["moves"]
    ] == [
        ("small", "kvm3", True, 1),
        ("big", "kvm2", False, 2),
    ]
    assert (
        plan["lines"][0]
        == "Drain of kvm1: 1 instance to move and 1 elsewhere to make room in 2 waves."
    )
    plan, _columns = drain(
        nodes,
        [guests[0], {**guests[1], "move_policy": "never"}],
        others=[{**guests[1], "move_policy": "never"}],
    )
    assert plan["status"] == "infeasible"
    assert (
        plan["proof"]
        == "no host that big may go to could hold it, even if all that can move had left it"
    )


def test_too_little_room_in_all_is_proven():
    nodes = [host("kvm1"), host("kvm2", memory_mb=100), host("kvm3", memory_mb=100)]
    guests = [guest("a", memory_mb=60), guest("b", memory_mb=60)] + [
        guest(f"x{i}", host=f"kvm{i}", memory_mb=50) for i in (2, 3)
    ]
    plan, _columns = drain(nodes, guests, others=guests[2:], extra_moves=20)
    assert plan["status"] == "infeasible"
    assert (
        plan["proof"]
        == "2 instances can only go to 2 nodes and need 120 MiB together, but those nodes have 100"
        " MiB free in all, and the 2 instances that are there can go nowhere else either"
    )


def test_what_only_the_exact_model_could_settle_says_so(monkeypatch):
    nodes = [host("kvm1"), host("kvm2", memory_mb=100), host("kvm3", memory_mb=100)]
    guests = [guest(name, memory_mb=60) for name in "abc"]
    for available, words in ((False, "highspy, which is not installed"), (True, "give it time")):
        monkeypatch.setattr(milp, "AVAILABLE", available)
        plan, _columns = drain(nodes, guests, others=[], extra_moves=5)
        assert plan["status"] == "partial" and plan["proof"] is None
        assert words in plan["hint"] and plan["lines"][-1] == plan["hint"]
    # Without moves of others it would not help; neither would it if all instances are placed.
    assert drain(nodes, guests, others=[])[0]["hint"] is None
    assert drain(nodes, guests[:2], others=[], extra_moves=5)[0]["hint"] is None


@pytest.mark.skipif(not milp.AVAILABLE, reason="highspy is not installed")
def test_the_exact_model_proves_it():
    nodes = [host("kvm1"), host("kvm2", memory_mb=100), host("kvm3", memory_mb=100)]
    plan, _columns = drain(
        nodes,
        [guest(name, memory_mb=60) for name in "abc"],
        others=[],
        extra_moves=5,
        solver_seconds=5,
    )
    assert (
        plan["status"] == "infeasible" and "exact model" in plan["proof"] and plan["hint"] is None
    )


def test_a_guest_that_dirties_faster_than_can_be_sent_is_named():
    plan, _columns = drain(THREE, [guest("busy", dirty_mib=500)], limits={"bandwidth_mib": 100})
    assert plan["moves"][0]["converges"] is False
    assert any("need auto-converge or post-copy: busy" in line for line in plan["lines"])


def test_several_hosts_are_emptied_together():
    guests = [guest("a"), guest("b", host="kvm2")]
    columns = drain(THREE, guests)[1]
    plan = plan_drain(columns, guests, ["kvm2", "kvm1"], Policy.from_mapping(None))
    assert (
        targets(plan) == {"a": "kvm3", "b": "kvm3"}
        and plan["host"] == "kvm1, kvm2"
        and plan["hosts"] == ["kvm1", "kvm2"]
    )


def test_a_plan_of_several_hosts_says_where_each_instance_is():
    guests = [
        guest("a"),
        guest("b", host="kvm2"),
        guest("c", host="kvm2", snapshots=True),
        guest("d", host="kvm1", move_policy="shutdown"),
    ]
    columns = drain(THREE, guests)[1]
    plan = plan_drain(columns, guests, ["kvm1", "kvm2"], Policy.from_mapping(None))
    assert [(each["name"], each["host"]) for each in plan["unmovable"] + plan["shutdowns"]] == [
        ("c", "kvm2"),
        ("d", "kvm1"),
    ]
    lines = drain_lines({**plan, "down": [{"host": "kvm2", "reason": "no route to host"}]})
    assert lines[0] == "Drain of kvm1, kvm2: 2 instances to move in 1 wave, 1 cannot move."
    assert lines[1].startswith("kvm2 is down: no route to host. Only a host that answers")
    assert "To be shut down by their policy: d on kvm1." in lines
    assert any(line.startswith("  c (running on kvm2): ") for line in lines)
    nothing = plan_drain(columns, [], ["kvm1", "kvm2"], Policy.from_mapping(None))
    assert drain_lines(nothing) == ["kvm1, kvm2 hold no instances; there is nothing to move."]


def test_closed_hosts_take_nothing_and_give_nothing():
    """kvm2 alone has room as it is, and its small instance alone could step aside."""
    nodes = [host("kvm1"), host("kvm2", memory_mb=400), host("kvm3", memory_mb=100)]
    guests = [guest("big", memory_mb=300), guest("small", host="kvm2", memory_mb=90)]
    columns = drain(nodes, guests)[1]
    options = {"others": guests[1:], "extra_moves": 5}
    plan = plan_drain(columns, guests[:1], "kvm1", Policy.from_mapping(None), **options)
    assert targets(plan)["big"] == "kvm2"
    plan = plan_drain(
        columns, guests[:1], "kvm1", Policy.from_mapping(None), closed=["kvm2"], **options
    )
    assert plan["moves"] == [] and reasons(plan)["big"].startswith("fits on no other host: ")


def test_a_host_filter_that_looks_at_the_load_is_asked_again():
    policy = {"enabled_filters": ["NumInstancesFilter", "RamFilter"], "max_instances_per_host": 2}
    nodes = [host("kvm1"), host("kvm2", memory_mb=150), host("kvm3", memory_mb=100)]
    plan, _columns = drain(
        nodes, [guest(f"v{i}", memory_mb=m) for i, m in enumerate((90, 60, 50, 10))], policy=policy
    )
    held = list(targets(plan).values())
    assert max(held.count(name) for name in held) <= 2 and len(held) >= 3
