# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Allocations replaced and reshaped, their generations, and claims that expire (N10.3, N10.5,
N10.6).
"""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._placement import (
    audit,
    claims,
    reshaper,
    selections,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import (
    domain,
    host,
    selection,
    uuid_of,
)

PROOF = certainty.word("a test")

A, B = uuid_of("a"), uuid_of("b")


@pytest.fixture
def fleet_url(prepared_url):
    """Fill a store: kvm1 and kvm2 of 4 VCPU, 4096 MiB and 100 GiB each."""
    fleets.discover(prepared_url, host("kvm1"), host("kvm2"))
    return prepared_url


def replace(url, consumers):
    with Store.open(url).write(together=True) as connection:
        return reshaper.replace(connection, consumers, fleets.NOW)


def on(name, generation="any", **amounts):
    wanted = {"allocations": {name: amounts} if amounts else {}}
    return wanted if generation == "any" else {**wanted, "consumer_generation": generation}


def refused(url, consumers, cause, match):
    before = fleets.snapshot(url)
    with pytest.raises(DroverError, match=match) as caught:
        replace(url, consumers)
    assert caught.value.details["cause"] == cause
    assert fleets.snapshot(url) == before
    return caught.value.details


def test_replaced_in_one_transaction(fleet_url):
    found = replace(fleet_url, {A: on("kvm1", VCPU=4), B: on("kvm2", VCPU=1, DISK_GB=0)})
    assert sorted((each["uuid"], each["generation"], each["changed"]) for each in found) == sorted(
        [(A, 1, True), (B, 1, True)]
    )
    # One consumer takes the room that another gives up: that needs no free room.
    replace(fleet_url, {A: on("kvm2", VCPU=1), B: on("kvm1", VCPU=4)})
    assert fleets.holdings(fleet_url) == {A: {"kvm2": {"VCPU": 1}}, B: {"kvm1": {"VCPU": 4}}}
    (found,) = replace(fleet_url, {A: on("kvm2", VCPU=1)})
    assert (found["generation"], found["changed"]) == (2, False)
    (found,) = replace(fleet_url, {A: on("kvm2")})
    assert (found["generation"], found["changed"]) == (None, True)
    (found,) = replace(fleet_url, {A: on("kvm2")})
    assert found["changed"] is False
    assert fleets.used(fleet_url) == {"kvm1": 4}


def test_consumer_generations(fleet_url):
    replace(fleet_url, {A: on("kvm1", None, VCPU=1)})
    refused(
        fleet_url,
        {A: on("kvm1", None, VCPU=2)},
        "changed_meanwhile",
        "it was to be new, and has generation 1",
    )
    replace(fleet_url, {A: on("kvm1", 1, VCPU=2)})
    refused(
        fleet_url, {A: on("kvm1", 1, VCPU=1)}, "changed_meanwhile", "its generation is 2, not 1"
    )
    refused(
        fleet_url,
        {B: on("kvm1", 1, VCPU=1)},
        "changed_meanwhile",
        "was to be 1, and it is not there",
    )


def test_provider_generations_are_left_alone(fleet_url):
    before = fleets.generations(fleet_url)
    replace(fleet_url, {A: on("kvm1", VCPU=1)})
    fleets.claim(fleet_url, selection("web", "kvm1"))
    assert fleets.generations(fleet_url) == before


def test_each_cause_is_told(fleet_url):
    details = refused(
        fleet_url,
        {A: on("kvm1", VCPU=3), B: on("kvm1", VCPU=2)},
        "no_room",
        "VCPU: asked 5, used 0 of 4",
    )
    assert (details["resource_class"], details["asked"], details["used"], details["capacity"]) == (
        "VCPU",
        5,
        0,
        4,
    )
    assert details["provider"] == "kvm1"
    refused(fleet_url, {A: on("kvm1", VGPU=1)}, "unknown_class", "Resource class VGPU")
    refused(
        fleet_url,
        {A: on("kvm9", VCPU=1)},
        "unknown_provider",
        "Resource provider kvm9 is not in the store",
    )
    sql = "kvm1'; DROP TABLE allocations; --"
    refused(fleet_url, {A: on(sql, VCPU=1)}, "unknown_provider", "is not in the store")
    refused(fleet_url, {A: on("k" * 300, VCPU=1)}, "unknown_provider", "is not in the store")
    with pytest.raises(DroverError) as caught:
        fleets.claim(fleet_url, selection("web", "kvm1", vcpus=5))
    assert caught.value.details["cause"] == "no_room"
    assert caught.value.details["places"] == [
        {
            "host": "kvm1",
            "node": "kvm1",
            "resource_class": "VCPU",
            "asked": 5,
            "used": 0,
            "capacity": 4.0,
        }
    ]


@pytest.mark.parametrize("amount", [-1, 2**31, 2**70, 1.5, True, "1", None])
def test_amounts_that_are_none(fleet_url, amount):
    for function in (
        lambda: replace(fleet_url, {A: {"allocations": {"kvm1": {"VCPU": amount}}}}),
        lambda: selections.check(
            [{**selection("web", "kvm1"), "allocations": {A: {"VCPU": amount}}}]
        ),
    ):
        with pytest.raises(DroverError, match="VCPU must be a whole number from 0 to 2147483647"):
            function()


@pytest.mark.parametrize("name", ["x" * 256, "a\0b", 7])
def test_texts_that_are_none(fleet_url, name):
    with pytest.raises(DroverError, match="must be a text of at most 255"):
        replace(fleet_url, {A: {**on("kvm1", VCPU=1), "project": name}})
    with pytest.raises(DroverError, match="must be a text of at most 255"):
        selections.check([{**selection("web", "kvm1"), "name": name}])


@pytest.mark.parametrize("name", ["'; DROP TABLE instances; --", "x" * 255, '"%s%%(n)s:x'])
def test_odd_names_are_names(fleet_url, name):
    request = {**selection("web", "kvm1"), "name": name, "project": name, "user": name}
    assert fleets.claim(fleet_url, *selections.check([request]))[0]["name"] == name


def test_over_capacity_only_less_is_taken(fleet_url):
    replace(fleet_url, {A: on("kvm1", VCPU=4)})
    fleets.discover(fleet_url, host("kvm1", vcpus=2))
    # The largest amount of one instance shrank with the host.
    details = refused(
        fleet_url, {A: on("kvm1", VCPU=4, MEMORY_MB=1)}, "unfit", "one instance may have 1 to 2"
    )
    assert details["asked"] == 4
    replace(fleet_url, {A: on("kvm1", VCPU=2), B: on("kvm2", VCPU=2)})
    refused(fleet_url, {B: on("kvm1", VCPU=1)}, "no_room", "VCPU: asked 1, used 2 of 2")


def reshape(url, inventories, consumers):
    with Store.open(url).write() as connection:
        return reshaper.reshape(connection, inventories, consumers, fleets.NOW)


def test_reshaped(fleet_url):
    replace(fleet_url, {A: on("kvm1", DISK_GB=60)})
    generation = fleets.generations(fleet_url)
    inventories = {
        "kvm1": {
            "generation": generation["kvm1"],
            "inventories": {"VCPU": {"total": 4}, "MEMORY_MB": {"total": 4096}},
        },
        "kvm2": {
            "generation": generation["kvm2"],
            "inventories": {
                "VCPU": {"total": 4},
                "MEMORY_MB": {"total": 4096},
                "DISK_GB": {"total": 200},
            },
        },
    }
    before = fleets.snapshot(fleet_url)
    with pytest.raises(
        DroverError, match="its inventory of DISK_GB is in use and cannot be removed"
    ):
        reshape(fleet_url, inventories, {})
    with pytest.raises(DroverError, match="changed meanwhile: its generation is"):
        reshape(fleet_url, {"kvm1": {**inventories["kvm1"], "generation": 99}}, {})
    assert fleets.snapshot(fleet_url) == before
    found = reshape(fleet_url, inventories, {A: on("kvm2", DISK_GB=60)})
    assert [each["name"] for each in found["providers"]] == ["kvm1", "kvm2"]
    assert fleets.holdings(fleet_url) == {A: {"kvm2": {"DISK_GB": 60}}}
    assert fleets.generations(fleet_url)["kvm1"] > generation["kvm1"]


# Expiry


def expired(url, now):
    """Return the consumers with expired claims."""
    with Store.open(url).read() as connection:
        table = tables.consumers
        return connection.execute(sa.select(table).where(table.c.expires_at < now)).all()


def release_expired(url, now):
    with Store.open(url).write() as connection:
        return [
            item["uuid"]
            for item in audit.audit(connection, now, mend=True, release_expired=True)["mended"]
        ]


def test_a_claim_expires_until_its_instance_is_seen(fleet_url):
    fleets.claim(fleet_url, selection("web", "kvm1"), selection("db", "kvm1"))
    assert expired(fleet_url, fleets.NOW + 3600) == []
    late = fleets.NOW + 3601
    assert {item.uuid for item in expired(fleet_url, late)} == {uuid_of("web"), uuid_of("db")}
    (item,) = [item for item in expired(fleet_url, late) if item.uuid == uuid_of("web")]
    assert (item.type, item.created_at, item.expires_at) == ("INSTANCE", fleets.NOW, late - 1)
    assert fleets.holdings(fleet_url)[uuid_of("web")] == {"kvm1": {"VCPU": 1, "MEMORY_MB": 64}}
    fleets.discover(fleet_url, host("kvm1", domain("web")))
    assert release_expired(fleet_url, late) == [uuid_of("db")]
    assert fleets.where(fleet_url) == {"web": "kvm1"}
    assert release_expired(fleet_url, late) == []


def test_a_claim_made_again_is_renewed(fleet_url):
    for now in (fleets.NOW, fleets.NOW + 3000):
        fleets.claim(fleet_url, selection("web", "kvm1"), now=now)
    assert expired(fleet_url, fleets.NOW + 3600) == []
    with Store.open(fleet_url).write(together=True) as connection:
        claims.reclaim(connection, uuid_of("web"), [{"host": "kvm2"}], PROOF, fleets.NOW + 6000)
    assert expired(fleet_url, fleets.NOW + 9000) == []
    assert len(expired(fleet_url, fleets.NOW + 9601)) == 1


def test_a_claim_that_never_expires(fleet_url):
    with Store.open(fleet_url).write(together=True) as connection:
        claims.claim(connection, [selection("web", "kvm1")], fleets.NOW, 0)
    assert expired(fleet_url, fleets.NOW * 2) == []
