# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quotas of projects: the counted resources, the refusals, and a limit that no number of
simultaneous claims exceeds."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement import claims
from ansible_collections.drover.compute.plugins.plugin_utils._placement import quotas as usage
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import quotas
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import (
    domain,
    host,
    selection,
    uuid_of,
)

PROOF = certainty.word("a test")
SHOP = {"project": "shop"}


@pytest.fixture
def fleet_url(prepared_url):
    fleets.discover(prepared_url, *(host(f"kvm{number}", vcpus=100) for number in (1, 2, 3)))
    return prepared_url


def limit(url, **limits):
    with Store.open(url).write() as connection:
        return quotas.ensure(connection, "shop", limits)


def write(url, function, *arguments):
    with Store.open(url).write(together=True) as connection:
        return function(connection, *arguments)


def use(url, *names):
    """Return the use of the project; without names the use of Nova's three resources."""
    with Store.open(url).read() as connection:
        found = usage.read(connection, ["shop"])["shop"]
    return tuple(found.of(name) for name in names or usage.NOVA)


def claim(url, *names, **more):
    return fleets.claim(
        url, *(selection(name, "kvm1", "kvm2", **{**SHOP, **more}) for name in names)
    )


def refusal(function, *arguments, **more):
    with pytest.raises(DroverError) as caught:
        function(*arguments, **more)
    assert caught.value.details["cause"] == "quota"
    return str(caught.value)


def test_limits_are_set_changed_and_removed(fleet_url):
    assert limit(fleet_url, instances=3, cores=4) == ({"instances": 3, "cores": 4}, True)
    assert limit(fleet_url, cores=4)[1] is False
    assert limit(fleet_url, cores=5, instances=None) == ({"cores": 5}, True)
    with Store.open(fleet_url).write() as connection:
        assert quotas.read(connection) == {"shop": {"cores": 5}}
        assert (
            quotas.delete(connection, "shop") is True and quotas.delete(connection, "shop") is False
        )


def test_without_a_quota_nothing_is_refused(fleet_url):
    claim(fleet_url, "a", "b", vcpus=4)
    assert use(fleet_url) == (2, 8, 128)


def test_a_claim_beyond_the_limit_is_refused_with_the_figures(fleet_url):
    limit(fleet_url, cores=4, ram=10000)
    claim(fleet_url, "a", vcpus=3)
    before = fleets.snapshot(fleet_url)
    said = refusal(claim, fleet_url, "b", vcpus=2)
    assert (
        said
        == "Project shop has a limit of 4 for cores. It uses 3, and 2 more are wanted. Nothing was"
        " claimed. Remove instances of the project, ask for less, or raise the limit with"
        " drover.compute.quota, project shop."
    )
    assert fleets.snapshot(fleet_url) == before
    claim(fleet_url, "c", vcpus=1)
    assert use(fleet_url) == (2, 4, 128)


def test_a_batch_counts_as_a_whole(fleet_url):
    limit(fleet_url, instances=2)
    assert "limit of 2 for instances. It uses 0, and 3 more are wanted" in refusal(
        claim, fleet_url, "a", "b", "c"
    )
    claim(fleet_url, "a", "b")
    # A repeated claim is not a new one.
    assert [each["new"] for each in claim(fleet_url, "a", "b")] == [False, False]
    assert "1 more is wanted" in refusal(claim, fleet_url, "c")


def test_each_limit_that_is_exceeded_is_named(fleet_url):
    limit(fleet_url, instances=0, ram=100, DISK_GB=5)
    message = refusal(claim, fleet_url, "a", memory_mb=200, disk_gb=6)
    assert (
        "limit of 0 for instances" in message
        and "limit of 100 MiB for ram. It uses 0 MiB, and 200 MiB more are wanted" in message
    )
    assert "limit of 5 GiB for DISK_GB" in message


def test_other_projects_and_instances_without_one_have_no_limit(fleet_url):
    limit(fleet_url, instances=0)
    claim(fleet_url, "a", project="other")
    claim(fleet_url, "b", project=None)
    refusal(claim, fleet_url, "c")


def test_a_limit_that_was_lowered_refuses_only_what_it_counts(fleet_url):
    claim(fleet_url, "a", vcpus=3, disk_gb=1)
    limit(fleet_url, cores=1, DISK_GB=5)
    refusal(claim, fleet_url, "b", vcpus=1)
    with Store.open(fleet_url).write() as connection:
        usage.refuse(connection, {"shop": {"DISK_GB": 4}})


def test_dedicated_cpus_are_cores(fleet_url):
    claim(fleet_url, "a")
    with Store.open(fleet_url).write() as connection:
        fleets.hold(connection, "a", "kvm1", {"PCPU": 3})
    assert use(fleet_url, "cores", "PCPU", "VCPU") == (4, 3, 1)
    limit(fleet_url, cores=4)
    refusal(claim, fleet_url, "b")


def test_instances_count_in_every_state_until_they_are_gone(fleet_url):
    limit(fleet_url, instances=1)
    claim(fleet_url, "a")
    with Store.open(fleet_url).write() as connection:
        connection.execute(sa.update(tables.instances).values(state="missing"))
    refusal(claim, fleet_url, "b")
    write(fleet_url, claims.release, [uuid_of("a")], PROOF, fleets.NOW)
    claim(fleet_url, "b")


# Moves


def active(url, *names, **more):
    claim(url, *names, **more)
    fleets.build(url)


def resize(url, name, to, **amounts):
    resources = {"VCPU": 1, "MEMORY_MB": 64, **amounts}
    return write(
        url,
        migration_claims.begin_resize,
        uuid_of(name),
        to,
        None,
        {"flavor": None, "resources": resources},
        fleets.NOW,
    )["uuid"]


@pytest.mark.parametrize("to", ["kvm1", "kvm2"])
def test_a_resize_counts_with_both_sizes_until_it_is_confirmed(fleet_url, to):
    active(fleet_url, "a")
    limit(fleet_url, cores=4, ram=128)
    message = refusal(resize, fleet_url, "a", to, VCPU=4)
    assert (
        "limit of 4 for cores. It uses 1, and 4 more are wanted." in message
        and "Remove instances" in message
    )
    move = resize(fleet_url, "a", to, VCPU=3)
    assert use(fleet_url) == (1, 4, 128)
    assert "Confirm or revert the resizes of the project, which hold their old size too" in refusal(
        claim, fleet_url, "b"
    )
    write(fleet_url, migration_claims.finish, move, PROOF, "shutoff", fleets.NOW)
    assert use(fleet_url) == (1, 4, 128)
    write(fleet_url, migration_claims.confirm, move, PROOF, fleets.NOW)
    assert use(fleet_url) == (1, 3, 64)


def test_a_reverted_resize_counts_with_the_old_size(fleet_url):
    active(fleet_url, "a")
    move = resize(fleet_url, "a", "kvm2", VCPU=3)
    # A limit that was set later does not keep the instance from its old size.
    limit(fleet_url, cores=1)
    write(fleet_url, migration_claims.finish, move, PROOF, "shutoff", fleets.NOW)
    write(fleet_url, migration_claims.revert, move, PROOF, "running", fleets.NOW)
    assert use(fleet_url) == (1, 1, 64)


def test_a_project_beyond_its_limit_can_shrink_its_instances(fleet_url):
    active(fleet_url, "a", vcpus=4)
    limit(fleet_url, cores=2)
    move = resize(fleet_url, "a", "kvm1", VCPU=1)
    write(fleet_url, migration_claims.finish, move, PROOF, "shutoff", fleets.NOW)
    write(fleet_url, migration_claims.confirm, move, PROOF, fleets.NOW)
    assert use(fleet_url) == (1, 1, 64)


@pytest.mark.parametrize("kind", ["live-migration", "migration", "evacuation"])
def test_a_move_counts_once_and_is_never_refused(fleet_url, kind):
    active(fleet_url, "a", vcpus=2)
    limit(fleet_url, instances=1, cores=2, ram=64)
    move = write(fleet_url, migration_claims.begin, uuid_of("a"), "kvm2", None, kind, fleets.NOW)[
        "uuid"
    ]
    assert use(fleet_url) == (1, 2, 64)
    write(fleet_url, migration_claims.finish, move, PROOF, "running", fleets.NOW)
    assert use(fleet_url) == (1, 2, 64)


def test_a_cold_migration_is_no_resize(fleet_url):
    active(fleet_url, "a")
    limit(fleet_url, cores=1)
    resize(fleet_url, "a", "kvm2")
    assert use(fleet_url) == (1, 1, 64)


def test_a_resize_after_an_evacuation_leaves_out_the_dead_host(fleet_url):
    active(fleet_url, "a")
    move = write(
        fleet_url, migration_claims.begin, uuid_of("a"), "kvm2", None, "evacuation", fleets.NOW
    )["uuid"]
    write(fleet_url, migration_claims.finish, move, PROOF, "running", fleets.NOW)
    limit(fleet_url, cores=4)
    resize(fleet_url, "a", "kvm2", VCPU=3)
    assert use(fleet_url, "cores") == (4,)


def test_what_discovery_finds_is_recorded_and_counts(fleet_url):
    limit(fleet_url, instances=1)
    found = [domain(name, metadata={"project": "shop"}) for name in ("a", "b")]
    fleets.discover(fleet_url, host("kvm1", *found, vcpus=100))
    assert use(fleet_url, "instances") == (2,)
    refusal(claim, fleet_url, "c")


def test_the_listing_has_projects_with_instances_or_limits(fleet_url):
    limit(fleet_url, cores=4, DISK_GB=10)
    claim(fleet_url, "a", project="other", vcpus=2)
    with Store.open(fleet_url).read() as connection:
        other, shop = usage.listing(connection)
        (nobody,) = usage.listing(connection, "nobody") or [None]
    assert (other["project"], other["resources"][1]) == (
        "other",
        {"resource": "cores", "limit": None, "in_use": 2},
    )
    assert shop["project"] == "shop" and shop["resources"][-1] == {
        "resource": "DISK_GB",
        "limit": 10,
        "in_use": 0,
    }
    assert nobody["resources"][0] == {"resource": "instances", "limit": None, "in_use": 0}


# Many at once


def attempt(function):
    """Try it; return 1 if it was done, 0 if the quota refused it."""
    try:
        function()
    except DroverError as problem:
        if problem.details.get("cause") != "quota":
            raise
        return 0
    return 1


def test_eight_writers_never_exceed_a_limit(fleet_url):
    limit(fleet_url, cores=20, ram=20 * 64)

    def work(number):
        places = [f"kvm{(number + step) % 3 + 1}" for step in range(3)]
        done = 0
        for turn in range(5):
            wanted = selection(f"web{number}-{turn}", *places, **SHOP)
            done += attempt(lambda wanted=wanted: fleets.claim(fleet_url, wanted))
            assert use(fleet_url)[1] <= 20
        return done

    answers = fleets.race(*(lambda number=number: work(number) for number in range(8)))
    assert sum(answers) == 20, answers
    assert use(fleet_url) == (20, 20, 20 * 64)


def test_resizes_and_claims_of_two_projects_at_once(fleet_url):
    """Batches of two projects in both orders, and resizes: no limit is exceeded, and no process
    waits for another forever."""
    active(fleet_url, *(f"old{number}" for number in range(4)))
    limit(fleet_url, cores=12)
    with Store.open(fleet_url).write() as connection:
        quotas.ensure(connection, "other", {"cores": 9})

    def work(number):
        if number < 4:
            return attempt(lambda: resize(fleet_url, f"old{number}", "kvm1", VCPU=2))
        done = 0
        for turn in range(4):
            pair = [
                selection(f"w{number}-{turn}-{project}", "kvm2", "kvm3", project=project)
                for project in ("shop", "other")
            ]
            done += attempt(
                lambda pair=pair: fleets.claim(fleet_url, *(pair if number % 2 else pair[::-1]))
            )
        return done

    answers = fleets.race(*(lambda number=number: work(number) for number in range(8)))
    resized, batches = sum(answers[:4]), sum(answers[4:])
    assert use(fleet_url, "cores") == (4 + 2 * resized + batches,) and use(fleet_url, "cores")[
        0
    ] in (11, 12), answers
    with Store.open(fleet_url).read() as connection:
        assert usage.read(connection, ["other"])["other"].of("cores") == batches <= 9
