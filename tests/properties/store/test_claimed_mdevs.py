# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mediated devices are claimed with the room of an instance, and a discovery keeps the claims."""

from __future__ import annotations

import uuid

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.module_utils._ownership import mdev_uuids
from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._placement import (
    claims,
    mdevs,
    provider_uuids,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import devices
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of
from ansible_collections.drover.compute.tests.unit.tracker import machines
from ansible_collections.drover.compute.tests.unit.tracker.machines import domain, node

PARENT, THERE = "pci_0000_84_00_0", "4b20d080-1b54-4048-85b3-a6a62d165c01"
TYPES = {"mdev_types": ["nvidia-11"]}


def discover(url, *domains, without=()):
    found = machines.devices()
    found["mdev_devices"] = [each for each in found["mdev_devices"] if each["uuid"] not in without]
    return fleets.discover(url, node(*domains, options=TYPES, **found))


def provider_of(connection, parent):
    node_uuid = connection.execute(sa.select(tables.compute_nodes.c.uuid)).scalar()
    query = sa.select(tables.resource_providers.c.id)
    return connection.execute(
        query.where(tables.resource_providers.c.uuid == provider_uuids.uuid_of(node_uuid, parent))
    ).scalar()


def claim(url, name, amount=1, parent=PARENT, resource_class="VGPU"):
    """Claim an instance and the mediated devices of an allocation."""
    fleets.claim(url, fleets.selection(name, "kvm1"))
    with Store.open(url).write() as connection:
        claimed = mdevs.claim(
            connection,
            {uuid_of(name): {provider_of(connection, parent): {resource_class: amount, "VCPU": 1}}},
        )
        (place,) = devices.mdevs_of_consumers(connection, [uuid_of(name)]) or [None]
        of_consumers = devices.mdevs_of_consumers(connection, [uuid_of(name)]).get(place, [])
    assert sorted(claimed.get(uuid_of(name), []), key=str) == sorted(of_consumers, key=str)
    return [each["uuid"] for each in claimed.get(uuid_of(name), [])]


def rows(url):
    with Store.open(url).read() as connection:
        return {
            each["uuid"]: (each["owner"], each["active"])
            for found in devices.read_mdevs(connection).values()
            for each in found
        }


def made(name, number=0):
    return mdev_uuids.made_for(uuid_of(name), PARENT, "nvidia-11", number)


def test_a_free_one_is_taken_before_a_new_one(prepared_url):
    discover(prepared_url)
    assert claim(prepared_url, "web") == [THERE]
    assert claim(prepared_url, "db") == [made("db")]
    assert claim(prepared_url, "ci", 2) == [made("ci"), made("ci", 1)]
    assert rows(prepared_url)[THERE] == (uuid_of("web"), True) and rows(prepared_url)[
        made("db")
    ] == (uuid_of("db"), False)


def test_a_claim_that_is_made_again_gives_the_same(prepared_url):
    discover(prepared_url)
    assert claim(prepared_url, "web", 2) == [THERE, made("web")]
    assert sorted(claim(prepared_url, "web", 2)) == sorted([THERE, made("web")])
    # More of them: the rest only.
    assert sorted(claim(prepared_url, "web", 3)) == sorted([THERE, made("web"), made("web", 1)])


def test_one_that_a_domain_has_is_not_free(prepared_url):
    discover(prepared_url, domain("db", 1, 64, devices=[("mdev", THERE)]))
    assert claim(prepared_url, "web") == [made("web")]


def test_allocations_of_other_providers_and_classes_give_none(prepared_url):
    discover(prepared_url)
    assert claim(prepared_url, "web", resource_class="CUSTOM_LICENCE") == []
    with Store.open(prepared_url).write() as connection:
        root = connection.execute(
            sa.select(tables.resource_providers.c.id).where(
                tables.resource_providers.c.root_id.is_(None)
            )
        ).scalar()
        assert mdevs.claim(connection, {uuid_of("web"): {root: {"VGPU": 1}}}) == {}
        assert mdevs.claim(connection, {}) == {}


def test_a_discovery_keeps_what_is_claimed_and_not_made_yet(prepared_url):
    discover(prepared_url)
    claim(prepared_url, "web", 2)
    discover(prepared_url, without=[THERE])
    assert rows(prepared_url)[made("web")] == (uuid_of("web"), False)
    # The host does not show the device now, and the device stays the instance's.
    assert rows(prepared_url)[THERE] == (uuid_of("web"), False)
    discover(prepared_url)
    assert rows(prepared_url)[THERE] == (uuid_of("web"), True)


def test_one_that_is_defined_only_is_not_taken_for_free(prepared_url):
    discover(prepared_url)
    claim(prepared_url, "web", 2)
    with Store.open(prepared_url).write() as connection:
        connection.execute(sa.delete(tables.consumers))
    assert rows(prepared_url)[made("web")] == (None, False)
    assert claim(prepared_url, "db", 2) == [THERE, made("db")]
    discover(prepared_url)
    assert made("web") not in rows(prepared_url)


def test_two_instances_never_get_the_same_one(prepared_url):
    discover(prepared_url)
    fleets.claim(prepared_url, fleets.selection("web", "kvm1"), fleets.selection("db", "kvm1"))
    with Store.open(prepared_url).write() as connection:
        connection.execute(sa.delete(tables.mdevs).where(tables.mdevs.c.uuid != THERE))
        provider = provider_of(connection, PARENT)
        claimed = mdevs.claim(
            connection, {uuid_of(name): {provider: {"VGPU": 1}} for name in ("web", "db")}
        )
    given = [each["uuid"] for each in (*claimed[uuid_of("web")], *claimed[uuid_of("db")])]
    assert len(set(given)) == 2 and THERE in given


def test_a_uuid_proves_that_it_was_made_here():
    names = [made(name, number) for name in ("web", "db") for number in range(200)]
    assert (
        len(set(names)) == 400
        and all(map(mdev_uuids.is_ours, names))
        and mdev_uuids.is_ours(names[0].upper())
    )
    for foreign in (
        THERE,
        str(uuid.uuid4()),
        str(uuid.uuid5(uuid.NAMESPACE_DNS, "web")),
        "no uuid",
        "",
        names[0][:-1] + "g",
    ):
        assert not mdev_uuids.is_ours(foreign)
    # Any other bit.
    number = uuid.UUID(names[0]).int
    assert not any(mdev_uuids.is_ours(str(uuid.UUID(int=number ^ 1 << bit))) for bit in range(128))


def test_the_claim_of_an_instance_gives_them_and_the_next_alternate_gets_its_own(prepared_url):
    """The claims are in one transaction with the room: a device that a build cannot get on the
    first host is free there, and new on the second."""
    fleets.discover(
        prepared_url,
        *(node(host=name, options=TYPES, **machines.devices()) for name in ("kvm1", "kvm2")),
    )
    selection = fleets.selection("web", "kvm1", "kvm2")
    selection["resources"] = {**selection["resources"], "VGPU": 1}
    (first,) = fleets.claim(prepared_url, selection)
    assert (first["host"], first["mdevs"]) == (
        "kvm1",
        [{"uuid": THERE, "parent": PARENT, "type": "nvidia-11"}],
    )
    # A second request gives the same.
    assert fleets.claim(prepared_url, selection)[0]["mdevs"] == first["mdevs"]
    with Store.open(prepared_url).write(together=True) as connection:
        second = claims.reclaim(
            connection, first["uuid"], first["alternates"], certainty.word("a test"), fleets.NOW
        )
    assert second["host"] == "kvm2" and second["mdevs"] == first["mdevs"]
    with Store.open(prepared_url).read() as connection:
        owners = {
            (key, each["uuid"]): each["owner"]
            for key, found in devices.read_mdevs(connection).items()
            for each in found
            if each["owner"]
        }
    assert list(owners.values()) == [uuid_of("web")]
    with Store.open(prepared_url).write(together=True) as connection:
        assert claims.release(
            connection, [first["uuid"]], certainty.word("a test"), fleets.NOW
        ) == [first["uuid"]]
    with Store.open(prepared_url).read() as connection:
        assert not any(
            each["owner"] for found in devices.read_mdevs(connection).values() for each in found
        )


def test_as_many_instances_get_one_as_the_device_makes(prepared_url):
    """No mediated device is claimed twice, and the claims end where the device ends."""
    discover(prepared_url)
    (kind,) = [
        each
        for each in machines.devices()["mdev_types"]
        if (each["parent"], each["type"]) == (PARENT, "nvidia-11")
    ]
    total = kind["available_instances"] + 1
    claimed = []
    for number in range(total):
        selection = fleets.selection(f"vm{number}", "kvm1", memory_mb=1)
        selection["resources"] = {"MEMORY_MB": 1, "VGPU": 1}
        claimed += fleets.claim(prepared_url, selection)[0]["mdevs"]
    assert len({each["uuid"] for each in claimed}) == total
    with pytest.raises(DroverError, match="VGPU"):
        fleets.claim(prepared_url, {**selection, "name": "more", "uuid": uuid_of("more")})
