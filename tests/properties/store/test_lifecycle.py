# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Instances by the names that people use, refusals, and the store's part in removal and resize."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import resize_destination
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    orders as migration_orders,
)
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import resizes
from ansible_collections.drover.compute.plugins.plugin_utils._placement import claims
from ansible_collections.drover.compute.plugins.plugin_utils._records.orders import NewSize
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import (
    flavors,
    instance_lookup,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host, uuid_of

PROOF = certainty.word("a test")

OLD = {"VCPU": 1, "MEMORY_MB": 64, "DISK_GB": 5}
NEW = {"VCPU": 2, "MEMORY_MB": 128, "DISK_GB": 10}


@pytest.fixture
def fleet_url(prepared_url):
    """Fill a store with three hosts; web and db run on kvm1, twin on kvm2 and kvm3 under two
    uuids.
    """
    fleets.discover(
        prepared_url,
        host("kvm1", domain("web", disk_gb=5), domain("db")),
        host("kvm2", domain("twin")),
        host("kvm3", {**domain("other"), "name": "twin"}),
    )
    with Store.open(prepared_url).write() as connection:
        for name, vcpus, memory_mb, disk_gb in (
            ("big", 2, 128, 10),
            ("less", 1, 64, 1),
            ("nodisk", 2, 64, 0),
            ("huge", 4, 64, 5),
        ):
            values = {"vcpus": vcpus, "memory_mb": memory_mb, "disk_gb": disk_gb}
            flavors.ensure(connection, name, values, fleets.NOW)
    return prepared_url


def write(url, function, *arguments):
    with Store.open(url).write(together=True) as connection:
        return function(connection, *arguments)


def find(url, *wanted, **more):
    with Store.open(url).read() as connection:
        return instance_lookup.find(connection, list(wanted), **more)


def test_by_name_by_uuid_and_by_both(fleet_url):
    instances = find(fleet_url, "web", uuid_of("db"), {"name": "web", "uuid": uuid_of("web")})
    assert [(each["name"], each["host"], each["named"]) for each in instances] == [
        ("web", "kvm1", True),
        ("db", "kvm1", False),
    ]
    assert instances[0]["nodes"] == ["kvm1"] and instances[0]["migration"] is None


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("nosuch", "No instance nosuch is in the store"),
        (uuid_of("nosuch"), "is in the store"),
        ("twin", "Several instances are named twin: .* on kvm"),
        (
            {"name": "db", "uuid": uuid_of("web")},
            "Name and uuid disagree: .* is the uuid of web, not of db",
        ),
        ({"name": "db", "uuid": uuid_of("nosuch")}, "nobody's in the store"),
        ({"host": "kvm1"}, "names no instance"),
        ({"uuid": "12"}, "names no instance"),
    ],
)
def test_what_names_nothing_is_refused(fleet_url, wanted, words):
    with pytest.raises(DroverError, match=words):
        find(fleet_url, wanted)


def test_unknown_ones_can_be_listed(fleet_url):
    unknown = []
    assert [each["name"] for each in find(fleet_url, "nosuch", "web", unknown=unknown)] == ["web"]
    assert unknown == ["nosuch"]


def refusal(url, name, **more):
    (instance,) = find(url, name)
    with pytest.raises(DroverError) as caught:
        instance_lookup.refuse(instance, "It is not started", **more)
    return str(caught.value)


def test_on_two_hosts_it_is_left_alone(fleet_url):
    fleets.discover(fleet_url, host("kvm2", domain("twin"), domain("web", disk_gb=5)))
    assert "was seen on kvm1 and kvm2 at once. It is not started" in refusal(fleet_url, "web")


def test_while_it_moves_cold(fleet_url):
    """A resize that keeps the flavor has another command for its end."""
    wanted = {"flavor": None, "resources": NEW}
    write(
        fleet_url, migration_claims.begin_resize, uuid_of("web"), "kvm2", None, wanted, fleets.NOW
    )
    assert (
        "run drover.compute.instance_migrate with drover_destination=kvm2 and"
        " drover_migrate_cold=true again first" in refusal(fleet_url, "web")
    )


def test_while_it_is_resized(fleet_url):
    opened = write(
        fleet_url,
        migration_claims.begin_resize,
        uuid_of("web"),
        "kvm2",
        None,
        {"flavor": "big", "resources": NEW},
        fleets.NOW,
    )
    message = refusal(fleet_url, "web")
    assert (
        "open resize from kvm1 to kvm2" in message
        and "run drover.compute.instance_resize with drover_flavor=big again first" in message
    )
    write(fleet_url, migration_claims.finish, opened["uuid"], PROOF, "running", fleets.NOW)
    (instance,) = find(fleet_url, "web")
    instance_lookup.refuse(instance, "It is not started", settled=False)
    assert "waits to be confirmed" in refusal(fleet_url, "web")
    with pytest.raises(DroverError, match="was resized"):
        write(fleet_url, claims.forget, [uuid_of("web")], PROOF, fleets.NOW)
    assert find(fleet_url, "web")[0]["state"] == "running"


def test_forget_gives_all_back(fleet_url):
    before = fleets.holdings(fleet_url)
    write(fleet_url, claims.forget, [uuid_of("web")], PROOF, fleets.NOW)
    del before[uuid_of("web")]
    assert fleets.holdings(fleet_url) == before
    assert find(fleet_url, "web", unknown=[]) == []
    # A second call does nothing.
    after = fleets.snapshot(fleet_url)
    write(fleet_url, claims.forget, [uuid_of("web")], PROOF, fleets.NOW)
    assert fleets.snapshot(fleet_url) == after


def begin(url, wanted=None):
    sizes = {
        "old": {"vcpus": 1, "memory_mb": 64},
        "new": {"vcpus": 2, "memory_mb": 128, "disk_gb": 10},
    }
    wanted = wanted or {"flavor": "big", "resources": NEW, "running": True, "sizes": sizes}
    return write(
        url, migration_claims.begin_resize, uuid_of("web"), "kvm2", None, wanted, fleets.NOW
    )


def test_a_resize_can_be_gone_on_with_by_another_run(fleet_url):
    opened = begin(fleet_url)
    assert begin(fleet_url)["new"] is False
    with Store.open(fleet_url).read() as connection:
        resize = resizes.describe(connection, opened["uuid"])
        # A drain of its host leaves it to the run of the resize.
        assert migration_orders.pending(connection, "kvm1") == []
    assert (resize["source"], resize["destination"], resize["same_host"], resize["running"]) == (
        "kvm1",
        "kvm2",
        False,
        True,
    )
    assert resize["old"] == {"flavor": None, "vcpus": 1, "memory_mb": 64, "disk_gb": 5}
    assert resize["new"] == {"flavor": "big", "vcpus": 2, "memory_mb": 128, "disk_gb": 10}
    assert (
        resize["order"]["destination"] == "kvm2"
        and resize["back"]["destination"] == "kvm1"
        and resize["arrived"] is False
    )
    write(fleet_url, migration_claims.finish, opened["uuid"], PROOF, "shutoff", fleets.NOW)
    write(fleet_url, migration_claims.note, opened["uuid"], {"arrived": True}, fleets.NOW)
    with Store.open(fleet_url).read() as connection:
        resize = resizes.describe(connection, opened["uuid"])
    assert (resize["status"], resize["arrived"], resize["old"]["vcpus"]) == ("finished", True, 1)
    write(fleet_url, migration_claims.revert, opened["uuid"], PROOF, "running", fleets.NOW)
    assert fleets.holdings(fleet_url)[uuid_of("web")] == {"kvm1": OLD}


def where(url, new, to=None, name="web"):
    (instance,) = find(url, name)
    new = NewSize(new) if isinstance(new, str) else new
    with Store.open(url).read() as connection:
        selection, size = resize_destination.find_destination(
            connection, instance, new, to, Policy.from_mapping({}), fleets.NOW
        )
    return selection["host"], selection["resources"], size


def test_it_stays_where_it_is_if_both_sizes_fit_there(fleet_url):
    found, resources, size = where(fleet_url, "big")
    assert (found, resources) == ("kvm1", NEW)
    assert size == {"flavor": "big", "vcpus": 2, "memory_mb": 128, "disk_gb": 10}
    # 2 of 4 vCPUs are taken, and 4 more do not fit beside them.
    with pytest.raises(DroverError, match="VCPU|Core"):
        where(fleet_url, "huge")
    assert where(fleet_url, "big", "kvm3")[0] == "kvm3"


def test_elsewhere_if_they_do_not(fleet_url):
    fleets.discover(fleet_url, host("kvm3", {**domain("other"), "name": "twin"}, vcpus=8))
    assert where(fleet_url, "huge")[0] == "kvm3"


def test_a_cold_migration_goes_elsewhere_with_its_size(fleet_url):
    found, resources, size = where(fleet_url, None)
    assert found in ("kvm2", "kvm3") and resources == OLD and size["disk_gb"] == 5


def test_disks_are_never_made_smaller(fleet_url):
    with pytest.raises(DroverError, match="never made smaller"):
        where(fleet_url, "less")
    assert where(fleet_url, "nodisk")[1:] == (
        {"VCPU": 2, "MEMORY_MB": 64, "DISK_GB": 5},
        {"flavor": "nodisk", "vcpus": 2, "memory_mb": 64, "disk_gb": 5},
    )
    with pytest.raises(DroverError, match="Flavor nosuch is not in the store"):
        where(fleet_url, "nosuch")


def test_sizes_in_place_of_a_flavor(fleet_url):
    host_name, resources, size = where(
        fleet_url, NewSize(sizes={"vcpus": 2, "memory_mb": 128, "disk_gb": 10})
    )
    assert (host_name, resources) == ("kvm1", NEW)
    assert size == {"flavor": None, "vcpus": 2, "memory_mb": 128, "disk_gb": 10}
    # A size without a value stays.
    assert where(fleet_url, NewSize(sizes={"memory_mb": 128}))[1:] == (
        {"VCPU": 1, "MEMORY_MB": 128, "DISK_GB": 5},
        {"flavor": None, "vcpus": 1, "memory_mb": 128, "disk_gb": 5},
    )
    with pytest.raises(DroverError, match="never made smaller"):
        where(fleet_url, NewSize(sizes={"disk_gb": 4}))
    with pytest.raises(DroverError, match="VCPU|Core"):
        where(fleet_url, NewSize(sizes={"vcpus": 4}))


def test_sizes_leave_the_flavor_and_what_it_asks_of_hosts(fleet_url):
    with Store.open(fleet_url).write() as connection:
        values = {
            "vcpus": 1,
            "memory_mb": 64,
            "disk_gb": 5,
            "extra_specs": {"trait:CUSTOM_SSD": "required"},
        }
        flavors.ensure(connection, "ssd", values, fleets.NOW)
        connection.execute(
            sa.update(tables.instances)
            .where(tables.instances.c.uuid == uuid_of("web"))
            .values(flavor="ssd")
        )
    with pytest.raises(DroverError, match="CUSTOM_SSD"):
        where(fleet_url, NewSize(sizes={"vcpus": 2}))
    with Store.open(fleet_url).write() as connection:
        flavors.ensure(
            connection, "ssd", {**values, "extra_specs": {"trait:CUSTOM_SSD": None}}, fleets.NOW
        )
    assert where(fleet_url, NewSize(sizes={"vcpus": 2}))[2] == {
        "flavor": "ssd",
        "vcpus": 2,
        "memory_mb": 64,
        "disk_gb": 5,
    }
