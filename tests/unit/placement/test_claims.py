# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims: all or none, never over capacity, once per uuid (N8 and N10.2)."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import host_state
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement import claims, server_groups
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import selection

PROOF = certainty.word("a test")

ROUNDS = range(4)


@pytest.fixture
def fleet_url(prepared_url):
    """Fill a store with three hosts of 4 VCPU, 4096 MiB and 100 GiB each."""
    fleets.discover(prepared_url, *(fleets.host(name) for name in ("kvm1", "kvm2", "kvm3")))
    return prepared_url


def in_store(url, function, *arguments):
    with Store.open(url).write(together=True) as connection:
        return function(connection, *arguments)


def release(url, *names):
    return in_store(
        url, claims.release, [fleets.uuid_of(name) for name in names], PROOF, fleets.NOW
    )


def reclaim(url, name, *hosts):
    return in_store(
        url,
        claims.reclaim,
        fleets.uuid_of(name),
        [{"host": host} for host in hosts],
        PROOF,
        fleets.NOW,
    )


def set_host(url, name, *arguments):
    return in_store(url, host_state.change, name, *arguments)


# Capacity


@pytest.mark.parametrize(
    ("node", "fits", "too_much"),
    [
        ({"vcpus": 4}, {"vcpus": 4}, {"vcpus": 5}),
        ({"vcpus": 4, "reserved_host_cpus": 1}, {"vcpus": 3}, {"vcpus": 4}),
        ({"memory_mb": 1000, "ram_allocation_ratio": 0.5}, {"memory_mb": 500}, {"memory_mb": 501}),
        (
            {"memory_mb": 1000, "reserved_host_memory_mb": 600, "ram_allocation_ratio": 1.5},
            {"memory_mb": 400},
            {"memory_mb": 601},
        ),
        # A reserved part of a GiB counts as a whole GiB.
        ({"local_gb": 10, "reserved_host_disk_mb": 1025}, {"disk_gb": 8}, {"disk_gb": 9}),
        # max_unit: one instance never gets more than the host has, for any over-commitment.
        ({"vcpus": 4, "cpu_allocation_ratio": 16.0}, {"vcpus": 4}, {"vcpus": 5}),
        ({"local_gb": 0}, {"disk_gb": 0}, {"disk_gb": 1}),
    ],
)
def test_what_fits_and_what_does_not(prepared_url, node, fits, too_much):
    fleets.discover(prepared_url, fleets.host("kvm1", **node))
    before = fleets.snapshot(prepared_url)
    with pytest.raises(
        DroverError, match="No room for big .*kvm1: (VCPU|MEMORY_MB|DISK_GB): asked"
    ):
        fleets.claim(prepared_url, selection("big", "kvm1", **too_much))
    assert fleets.snapshot(prepared_url) == before
    assert fleets.claim(prepared_url, selection("big", "kvm1", **fits))[0]["host"] == "kvm1"


def test_the_capacity_is_not_rounded(prepared_url):
    # 3 x 1.5 is 4.5: the fourth vCPU fits and the fifth does not. Three instances of two do not
    # fit, although 4.5 / 2 rounds to 2.
    fleets.discover(prepared_url, fleets.host("kvm1", vcpus=3, cpu_allocation_ratio=1.5))
    for number in range(4):
        fleets.claim(prepared_url, selection(f"web{number}", "kvm1"))
    with pytest.raises(DroverError, match=r"VCPU: asked 1, used 4 of 4\.5"):
        fleets.claim(prepared_url, selection("web4", "kvm1"))
    assert fleets.used(prepared_url) == {"kvm1": 4}


def test_the_refusal_says_what_is_short_at_each_place(fleet_url):
    fleets.claim(fleet_url, selection("first", "kvm1", vcpus=3))
    set_host(fleet_url, "kvm2", "disabled", "new fans")
    with pytest.raises(DroverError) as caught:
        fleets.claim(fleet_url, selection("web", "kvm1", "kvm2", "kvm3", vcpus=2, memory_mb=5000))
    assert caught.value.details["refusals"] == [
        "kvm1: VCPU: asked 2, used 3 of 4",
        "kvm2: disabled (new fans)",
        "kvm3: MEMORY_MB: asked 5000, used 0 of 4096",
    ]
    assert f"web ({fleets.uuid_of('web')})" in str(caught.value)
    assert "Nothing was claimed" in str(caught.value)


def test_all_or_none(fleet_url):
    before = fleets.snapshot(fleet_url)
    with pytest.raises(DroverError, match="No room for third"):
        fleets.claim(
            fleet_url,
            *(selection(name, "kvm1", vcpus=2) for name in ("first", "second", "third")),
            selection("x", "kvm2"),
        )
    assert fleets.snapshot(fleet_url) == before


def test_a_batch_counts_what_it_claimed_itself(fleet_url):
    claimed = fleets.claim(
        fleet_url, *(selection(f"web{number}", "kvm1", "kvm2", vcpus=2) for number in range(4))
    )
    assert [item["host"] for item in claimed] == ["kvm1", "kvm1", "kvm2", "kvm2"]
    assert fleets.used(fleet_url) == {"kvm1": 4, "kvm2": 4}


def test_a_claim_says_all_that_a_build_needs(fleet_url):
    (claimed,) = fleets.claim(fleet_url, selection("web", "kvm1", "kvm2", "kvm3"))
    provider = fleets.columns(fleet_url)["uuid"][0]
    assert (claimed["uuid"], claimed["name"], claimed["new"]) == (
        fleets.uuid_of("web"),
        "web",
        True,
    )
    assert (claimed["host"], claimed["node"], claimed["provider"]) == ("kvm1", "kvm1", provider)
    assert claimed["resources"] == {"VCPU": 1, "MEMORY_MB": 64, "DISK_GB": 0}
    assert [place["host"] for place in claimed["alternates"]] == ["kvm2", "kvm3"]
    assert fleets.holdings(fleet_url) == {
        fleets.uuid_of("web"): {"kvm1": {"VCPU": 1, "MEMORY_MB": 64}}
    }


def test_alternates_are_tried_in_their_order(fleet_url):
    fleets.claim(fleet_url, selection("big1", "kvm1", vcpus=4), selection("big2", "kvm2", vcpus=4))
    (found,) = fleets.claim(fleet_url, selection("web", "kvm1", "kvm2", "kvm3"))
    assert (found["host"], found["alternates"]) == ("kvm3", [])
    assert fleets.where(fleet_url)["web"] == "kvm3"


def test_a_claim_is_idempotent_by_uuid(fleet_url):
    fleets.claim(fleet_url, selection("web", "kvm1", vcpus=4))
    before = fleets.snapshot(fleet_url)
    # The instance itself uses the room, and the schedule may name another host by now.
    for place in ("kvm1", "kvm2"):
        (found,) = fleets.claim(fleet_url, selection("web", place, vcpus=4))
        assert (found["host"], found["new"]) == ("kvm1", False)
    assert fleets.snapshot(fleet_url) == before


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"memory_mb": 65}, "memory_mb was 64 and is 65"),
        ({"vcpus": 2, "disk_gb": 1}, "vcpus was 1 and is 2, disk_gb was 0 and is 1"),
        ({"availability_zone": "red"}, "availability_zone was none and is red"),
        ({"server_group": {"name": "web", "policy": "affinity"}}, "server_group is another one"),
    ],
)
def test_a_definition_that_was_changed_is_not_built_with_the_old_claim(fleet_url, more, said):
    def claim(**wanted):
        return in_store(
            fleet_url,
            lambda connection: claims.claim(
                connection, [selection("web", "kvm1", **wanted)], fleets.NOW, defined=True
            ),
        )

    (first,) = claim()
    before = fleets.figures(fleet_url)
    with pytest.raises(
        DroverError,
        match=(
            f"Instance web .* was begun and is not built yet.*: {said}. Nothing was claimed or"
            " built"
        ),
    ):
        claim(**more)
    assert fleets.figures(fleet_url) == before
    assert [each["new"] for each in (first, *claim())] == [True, False]
    # Only a resize changes a built instance, and place does not change it.
    fleets.discover(
        fleet_url,
        fleets.host("kvm1", fleets.domain("web")),
        fleets.host("kvm2"),
        fleets.host("kvm3"),
    )
    assert claim(**more)[0]["host"] == "kvm1"


def test_only_the_new_ones_of_a_batch_are_claimed(fleet_url):
    fleets.claim(fleet_url, selection("old", "kvm1"))
    found = fleets.claim(fleet_url, selection("old", "kvm2"), selection("new", "kvm1"))
    assert [(item["host"], item["new"]) for item in found] == [("kvm1", False), ("kvm1", True)]
    assert fleets.used(fleet_url) == {"kvm1": 2}


@pytest.mark.parametrize(
    "place", [{"host": "gone"}, {"host": "gone", "node": "gone"}, {"host": "kvm1", "node": "kvm2"}]
)
def test_an_unknown_place_claims_nothing(fleet_url, place):
    before = fleets.snapshot(fleet_url)
    with pytest.raises(DroverError, match="not in the store.*nothing was claimed"):
        fleets.claim(
            fleet_url,
            selection("good", "kvm1"),
            {**selection("web", "kvm1"), "node": None, **place},
        )
    assert fleets.snapshot(fleet_url) == before


def test_a_host_with_one_node_need_not_name_it(prepared_url):
    fleets.discover(prepared_url, fleets.host("kvm1", hypervisor_hostname="kvm1.example.com"))
    (found,) = fleets.claim(prepared_url, {**selection("web", "kvm1"), "node": None})
    assert found["node"] == "kvm1.example.com"


def test_a_host_with_several_nodes_must_name_one(prepared_url):
    fleets.discover(
        prepared_url, *(fleets.host("kvm1", hypervisor_hostname=node) for node in ("a", "b"))
    )
    with pytest.raises(DroverError, match="several compute nodes: a, b"):
        fleets.claim(prepared_url, {**selection("web", "kvm1"), "node": None})
    assert fleets.claim(prepared_url, {**selection("web", "kvm1"), "node": "b"})[0]["node"] == "b"


def test_a_claim_of_nothing_leaves_no_consumer_behind(fleet_url):
    fleets.claim(fleet_url, selection("nothing", "kvm1", vcpus=0, memory_mb=0))
    assert fleets.holdings(fleet_url) == {}
    assert fleets.where(fleet_url) == {"nothing": "kvm1"}
    assert release(fleet_url, "nothing") == [fleets.uuid_of("nothing")]
    assert fleets.where(fleet_url) == {}


# Hosts that take no instance


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("disabled", "new fans"), r"disabled \(new fans\)"),
        (("disabled",), r"disabled \(no reason given\)"),
        (("maintenance", "firmware"), r"disabled \(firmware\)"),
        (("draining", "empty it"), r"disabled \(empty it\)"),
        ((None, None, True), "forced down"),
    ],
)
def test_a_host_that_was_switched_off_meanwhile_gets_nothing(fleet_url, change, reason):
    set_host(fleet_url, "kvm1", *change)
    with pytest.raises(DroverError, match=f"kvm1: {reason}"):
        fleets.claim(fleet_url, selection("web", "kvm1"))
    assert fleets.claim(fleet_url, selection("web", "kvm1", "kvm2"))[0]["host"] == "kvm2"


# Server groups


def make_group(url, name, policy, most=None):
    return in_store(url, lambda connection: server_groups.ensure(connection, name, policy, most)[0])


def test_anti_affinity_is_checked_again_at_the_claim(fleet_url):
    make_group(fleet_url, "web", "anti-affinity")
    fleets.claim(fleet_url, selection("web1", "kvm1", server_group="web"))
    with pytest.raises(
        DroverError, match=r"server group web \(anti-affinity\) has 1 of at most 1 there"
    ):
        fleets.claim(fleet_url, selection("web2", "kvm1", server_group="web"))
    assert (
        fleets.claim(fleet_url, selection("web2", "kvm1", "kvm2", server_group="web"))[0]["host"]
        == "kvm2"
    )
    # Other groups do not matter.
    assert fleets.claim(fleet_url, selection("db", "kvm1"))[0]["host"] == "kvm1"


def test_anti_affinity_holds_within_a_batch(fleet_url):
    batch = [
        selection(f"web{number}", "kvm1", "kvm2", "kvm3", server_group="web") for number in range(3)
    ]
    make_group(fleet_url, "web", "anti-affinity")
    assert [item["host"] for item in fleets.claim(fleet_url, *batch)] == ["kvm1", "kvm2", "kvm3"]
    with pytest.raises(DroverError, match="No room for web3"):
        fleets.claim(fleet_url, selection("web3", "kvm1", "kvm2", "kvm3", server_group="web"))


def test_anti_affinity_with_a_limit(fleet_url):
    make_group(fleet_url, "web", "anti-affinity", 2)
    batch = [selection(f"web{number}", "kvm1", "kvm2", server_group="web") for number in range(3)]
    assert [item["host"] for item in fleets.claim(fleet_url, *batch)] == ["kvm1", "kvm1", "kvm2"]


def test_affinity_is_checked_again_at_the_claim(fleet_url):
    make_group(fleet_url, "db", "affinity")
    fleets.claim(fleet_url, selection("db1", "kvm2", server_group="db"))
    with pytest.raises(DroverError, match=r"server group db \(affinity\) is on other hosts"):
        fleets.claim(fleet_url, selection("db2", "kvm1", "kvm3", server_group="db"))
    assert (
        fleets.claim(fleet_url, selection("db2", "kvm1", "kvm2", server_group="db"))[0]["host"]
        == "kvm2"
    )


def test_members_that_are_moving_count_on_both_hosts(fleet_url):
    make_group(fleet_url, "web", "anti-affinity")
    fleets.claim(fleet_url, selection("web1", "kvm1", server_group="web"))
    fleets.build(fleet_url)
    move = in_store(
        fleet_url,
        migration_claims.begin,
        fleets.uuid_of("web1"),
        "kvm2",
        None,
        "live-migration",
        fleets.NOW,
    )
    with pytest.raises(DroverError) as caught:
        fleets.claim(fleet_url, selection("web2", "kvm1", "kvm2", server_group="web"))
    assert [text.split(":")[0] for text in caught.value.details["refusals"]] == ["kvm1", "kvm2"]
    in_store(fleet_url, migration_claims.finish, move["uuid"], PROOF, "running", fleets.NOW)
    assert (
        fleets.claim(fleet_url, selection("web2", "kvm1", server_group="web"))[0]["host"] == "kvm1"
    )


def test_a_move_keeps_to_its_server_group(fleet_url):
    make_group(fleet_url, "web", "anti-affinity")
    make_group(fleet_url, "db", "affinity")
    fleets.claim(
        fleet_url,
        selection("web1", "kvm1", server_group="web"),
        selection("web2", "kvm2", server_group="web"),
    )
    fleets.claim(
        fleet_url, *(selection(name, "kvm1", server_group="db") for name in ("db1", "db2"))
    )
    fleets.build(fleet_url)
    begin = [migration_claims.begin, fleets.uuid_of("web1"), "kvm2", None, "migration", fleets.NOW]
    with pytest.raises(DroverError, match="server group web"):
        in_store(fleet_url, *begin)
    begin[2] = "kvm3"
    assert in_store(fleet_url, *begin)["destination"] == "kvm3"
    # The first member may leave the others behind, and then the others must follow.
    in_store(
        fleet_url,
        migration_claims.begin,
        fleets.uuid_of("db1"),
        "kvm3",
        None,
        "migration",
        fleets.NOW,
    )
    with pytest.raises(DroverError, match="server group db"):
        in_store(
            fleet_url,
            migration_claims.begin,
            fleets.uuid_of("db2"),
            "kvm2",
            None,
            "migration",
            fleets.NOW,
        )
    assert in_store(
        fleet_url,
        migration_claims.begin,
        fleets.uuid_of("db2"),
        "kvm3",
        None,
        "migration",
        fleets.NOW,
    )["new"]


def test_a_group_given_with_the_selection_is_made(fleet_url):
    group = {"name": "web", "policy": "anti-affinity", "max_server_per_host": 2}
    fleets.claim(
        fleet_url,
        selection("web1", "kvm1", server_group=group),
        selection("web2", "kvm1", server_group=group),
    )
    found = fleets.columns(fleet_url)["server_groups"]["web"]
    assert (found["policy"], found["max_server_per_host"]) == ("anti-affinity", 2)
    assert sorted(found["members"]) == sorted(map(fleets.uuid_of, ("web1", "web2")))
    with pytest.raises(DroverError, match="exists with policy anti-affinity"):
        fleets.claim(
            fleet_url, selection("web3", "kvm2", server_group={"name": "web", "policy": "affinity"})
        )


def test_an_unknown_group_is_refused(fleet_url):
    with pytest.raises(DroverError, match="Server group nosuch is not in the store"):
        fleets.claim(fleet_url, selection("web", "kvm1", server_group="nosuch"))


def test_a_group_with_members_stays(fleet_url):
    make_group(fleet_url, "web", "affinity")
    fleets.claim(fleet_url, selection("web1", "kvm1", server_group="web"))
    with pytest.raises(DroverError, match="has members: web1"):
        in_store(fleet_url, server_groups.delete, "web")
    release(fleet_url, "web1")
    assert in_store(fleet_url, server_groups.delete, "web") is True
    assert in_store(fleet_url, server_groups.delete, "web") is False


def test_a_limit_goes_with_anti_affinity_only(fleet_url):
    with pytest.raises(DroverError, match="max_server_per_host goes with the policy anti-affinity"):
        make_group(fleet_url, "web", "affinity", 2)


# Releases and reclaims


def test_reclaim_moves_the_room_to_the_next_alternate(fleet_url):
    (first,) = fleets.claim(fleet_url, selection("web", "kvm1", "kvm2", "kvm3", vcpus=4))
    fleets.claim(fleet_url, selection("other", "kvm2", vcpus=4))
    found = reclaim(fleet_url, "web", "kvm2", "kvm3")
    assert (found["host"], found["alternates"]) == ("kvm3", [])
    assert found["resources"] == {
        name: amount for name, amount in first["resources"].items() if amount
    }
    assert fleets.used(fleet_url) == {"kvm2": 4, "kvm3": 4}
    assert fleets.where(fleet_url)["web"] == "kvm3"


def test_reclaim_without_room_keeps_what_there_is(fleet_url):
    fleets.claim(fleet_url, selection("web", "kvm1"), selection("other", "kvm2", vcpus=4))
    before = fleets.snapshot(fleet_url)
    with pytest.raises(DroverError, match="No room for web"):
        reclaim(fleet_url, "web", "kvm2")
    with pytest.raises(DroverError, match="nor its alternates: no alternate is left"):
        reclaim(fleet_url, "web")
    assert fleets.snapshot(fleet_url) == before


def test_reclaim_keeps_to_the_server_group(fleet_url):
    make_group(fleet_url, "web", "anti-affinity")
    fleets.claim(
        fleet_url,
        *(selection(f"web{number}", f"kvm{number}", server_group="web") for number in (1, 2)),
    )
    assert reclaim(fleet_url, "web1", "kvm2", "kvm3")["host"] == "kvm3"


def test_only_what_is_being_built_is_given_up(fleet_url):
    fleets.discover(fleet_url, fleets.host("kvm1", fleets.domain("web")))
    with pytest.raises(DroverError, match="is active, not being built"):
        reclaim(fleet_url, "web", "kvm2")
    with pytest.raises(DroverError, match="not in the store"):
        reclaim(fleet_url, "nosuch", "kvm2")


def test_release_gives_the_room_back(fleet_url):
    fleets.claim(fleet_url, selection("web", "kvm1", vcpus=4), selection("db", "kvm2"))
    assert release(fleet_url, "web") == [fleets.uuid_of("web")]
    assert release(fleet_url, "web") == []
    assert fleets.where(fleet_url) == {"db": "kvm2"}
    assert list(fleets.holdings(fleet_url)) == [fleets.uuid_of("db")]
    assert fleets.claim(fleet_url, selection("next", "kvm1", vcpus=4))[0]["new"]


def test_release_refuses_what_runs_and_releases_nothing_then(fleet_url):
    fleets.discover(fleet_url, fleets.host("kvm1", fleets.domain("runs")))
    fleets.claim(fleet_url, selection("web", "kvm2"))
    before = fleets.snapshot(fleet_url)
    with pytest.raises(DroverError, match="Instance runs .* nothing was released"):
        release(fleet_url, "web", "runs")
    assert fleets.snapshot(fleet_url) == before


def test_release_refuses_what_is_moving(fleet_url):
    # The migration holds the room at the source: a release of the rest would leave this room held
    # for ever.
    fleets.claim(fleet_url, selection("web", "kvm1"))
    fleets.build(fleet_url)
    in_store(
        fleet_url,
        migration_claims.begin,
        fleets.uuid_of("web"),
        "kvm2",
        None,
        "migration",
        fleets.NOW,
    )
    before = fleets.snapshot(fleet_url)
    with pytest.raises(DroverError, match="web .*migration"):
        release(fleet_url, "web")
    assert fleets.snapshot(fleet_url) == before


# Races


def attempt(url, *selections):
    """Claim in a process of a race; return the hosts, or the first words of the refusal."""
    try:
        return [item["host"] for item in fleets.claim(url, *selections)]
    except DroverError as problem:
        return (
            str(problem).split(" (", maxsplit=1)[0] if "No room" in str(problem) else str(problem)
        )


def test_two_processes_race_for_the_last_room(prepared_url):
    for _dummy in ROUNDS:
        fleets.empty(prepared_url)
        fleets.discover(prepared_url, fleets.host("kvm1", vcpus=2))
        fleets.claim(prepared_url, selection("before", "kvm1"))
        works = [
            lambda name=name: attempt(prepared_url, selection(name, "kvm1")) for name in ("a", "b")
        ]
        answers = fleets.race(*works)
        assert sorted(map(str, answers)) in (
            ["No room for a", "['kvm1']"],
            ["No room for b", "['kvm1']"],
        )
        assert fleets.used(prepared_url) == {"kvm1": 2}


def test_eight_processes_race_for_five_places(prepared_url):
    places = ["kvm1", "kvm2"]

    def work(number):
        # Half of the processes use the opposite order, and the locks must not be taken in that
        # order.
        return attempt(
            prepared_url, selection(f"web{number}", *(places if number % 2 else places[::-1]))
        )

    for _dummy in ROUNDS:
        fleets.empty(prepared_url)
        fleets.discover(prepared_url, fleets.host("kvm1", vcpus=2), fleets.host("kvm2", vcpus=3))
        answers = fleets.race(*(lambda number=number: work(number) for number in range(8)))
        won = [answer for answer in answers if isinstance(answer, list)]
        assert len(won) == 5, answers
        lost = {number: answer for number, answer in enumerate(answers) if answer not in won}
        assert lost == {number: f"No room for web{number}" for number in lost}
        assert fleets.used(prepared_url) == {"kvm1": 2, "kvm2": 3}
        assert len(fleets.holdings(prepared_url)) == 5


@pytest.mark.parametrize("places", [("kvm1",), ("kvm1", "kvm2")])
def test_one_instance_claimed_by_several_processes_is_claimed_once(fleet_url, places):
    def work(number):
        return attempt(fleet_url, selection("web", places[number % len(places)]))

    answers = fleets.race(*(lambda number=number: work(number) for number in range(4)))
    assert len(set(map(str, answers))) == 1, answers
    assert [[host] for host in fleets.used(fleet_url)] == answers[:1]


def test_processes_racing_into_one_server_group(fleet_url):
    group = {"name": "web", "policy": "anti-affinity"}

    def work(number):
        return attempt(
            fleet_url, selection(f"web{number}", "kvm1", "kvm2", "kvm3", server_group=group)
        )

    answers = fleets.race(*(lambda number=number: work(number) for number in range(6)))
    won = sorted(answer[0] for answer in answers if isinstance(answer, list))
    assert won == ["kvm1", "kvm2", "kvm3"], answers
    assert all(answer.startswith("No room") for answer in answers if not isinstance(answer, list))


def test_processes_that_fall_over_to_each_others_hosts_do_not_hang(prepared_url):
    fleets.discover(prepared_url, fleets.host("kvm1", vcpus=40), fleets.host("kvm2", vcpus=40))
    names = [f"web{number}" for number in range(4)]
    for number, name in enumerate(names):
        fleets.claim(prepared_url, selection(name, f"kvm{number % 2 + 1}"))

    def work(number):
        for turn in range(5):
            reclaim(prepared_url, names[number], f"kvm{(number + turn + 1) % 2 + 1}")
        return "done"

    assert fleets.race(*(lambda number=number: work(number) for number in range(4))) == ["done"] * 4
    # After five turns each instance is on the other host.
    assert fleets.used(prepared_url) == {"kvm1": 2, "kvm2": 2}
    assert fleets.where(prepared_url) == {
        name: f"kvm{(number + 1) % 2 + 1}" for number, name in enumerate(names)
    }
