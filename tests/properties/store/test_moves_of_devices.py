# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance with devices of its host gets equal devices at its destination, in the transaction
that opens its move."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.module_utils._ownership import mdev_uuids
from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import scheduling
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import DrainQuestion
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import orders, resizes
from ansible_collections.drover.compute.plugins.plugin_utils._migrations.limits import (
    MigrationLimits,
)
from ansible_collections.drover.compute.plugins.plugin_utils._numa import stored_hosts
from ansible_collections.drover.compute.plugins.plugin_utils._placement import claims
from ansible_collections.drover.compute.plugins.plugin_utils._planner.evacuation import why_lost
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.host_states import (
    HostStates,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import (
    devices,
    host_columns,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import evacuations
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import NOW, uuid_of
from ansible_collections.drover.compute.tests.unit.tracker import machines
from ansible_collections.drover.compute.tests.unit.tracker.machines import domain, node

PROOF = certainty.word("a test")
OPTIONS = {
    "pci_device_specs": [{"vendor_id": "10de", "product_id": "2204"}],
    "mdev_types": ["nvidia-11"],
}
MIGRATABLE = {
    **OPTIONS,
    "pci_device_specs": [{"vendor_id": "10de", "product_id": "2204", "live_migratable": True}],
}
ALIAS = {"name": "gpu", "vendor_id": "10de", "product_id": "2204"}
SPECS = {"pci_passthrough:alias": "gpu:1"}
GPU, PARENT, THERE = "0000:65:00.0", "pci_0000_84_00_0", "4b20d080-1b54-4048-85b3-a6a62d165c01"


def write(url, function, *arguments):
    with Store.open(url).write(together=True) as connection:
        return function(connection, *arguments)


def discover(url, guests=None, options=None, hosts=("kvm1", "kvm2")):
    """Discover hosts with the same devices.

    :param guests: {host: its domains}.
    """
    fleets.discover(
        url,
        *(
            node(
                *(guests or {}).get(name, ()),
                host=name,
                options=options or OPTIONS,
                **machines.devices(),
            )
            for name in hosts
        ),
    )


def gpu(url):
    """Return the address of the only device that instances may get."""
    with Store.open(url).read() as connection:
        (address,) = {
            each["address"] for found in devices.read_pci(connection).values() for each in found
        }
    return address


def owners(url):
    """Return {(host, device): instance} of devices with an owner."""
    names = {uuid_of(name): name for name in ("a", "b")}
    with Store.open(url).read() as connection:
        hosts = {row.id: row.host for row in connection.execute(sa.select(tables.compute_nodes))}
        pci, mdevs = devices.read_pci(connection), devices.read_mdevs(connection)
    owned = [
        (hosts[key], each["address"], each["owner"]) for key, some in pci.items() for each in some
    ]
    owned += [
        (hosts[key], each["uuid"], each["owner"]) for key, some in mdevs.items() for each in some
    ]
    return {(host, device): names[owner] for host, device, owner in owned if owner}


#: Free devices of two hosts after kvm1 gave away: nothing, a virtual function (its physical one is
#: lost too), that physical one (the other virtual one is lost too), a whole device.
FREE = [{"kvm1": left, "kvm2": 9} for left in (9, 7, 6, 5)]


def test_peers_1_free_devices_are_counted_as_the_fit_counts_them(prepared_url):
    """Functions that exclude each other all count until one is taken; then only the compatible ones
    count."""
    every = {"pci_device_specs": [{"vendor_id": "8086"}, {"vendor_id": "10de"}]}
    discover(prepared_url, options=every)
    cells = stored_hosts.COLUMNS | {"free_pci_devices"}

    def free():
        with Store.open(prepared_url).read() as connection:
            columns = host_columns.read_columns(
                connection, NOW, 0, host_columns.ColumnQuery(columns=set(cells))
            )
        columns["numa"] = stored_hosts.hosts_of(columns)
        states = HostStates(columns)
        assert states.free_pci_devices.tolist() == states.numa.free_devices.tolist()
        return dict(zip(states.host, states.free_pci_devices.tolist()))

    def take(kind):
        with Store.open(prepared_url).write() as connection:
            table = tables.pci_devices
            query = (
                sa.select(table.c.id)
                .where(table.c.dev_type == kind, table.c.consumer_id.is_(None))
                .order_by(table.c.id)
                .limit(1)
            )
            connection.execute(
                sa.update(table)
                .where(table.c.id.in_(query.scalar_subquery()))
                .values(consumer_id=consumer)
            )

    place(prepared_url)
    with Store.open(prepared_url).read() as connection:
        consumer = connection.execute(sa.select(tables.consumers.c.id)).scalar()
    counts = [free()]
    for kind in ("type-VF", "type-PF", "type-PCI"):
        take(kind)
        counts.append(free())
    assert counts == FREE


def test_peers_1_an_instance_without_devices_leaves_hosts_with_devices_alone(prepared_url):
    """kvm0 has the most room, and the only device that instances may get."""
    discover(prepared_url, hosts=["kvm0"])
    fleets.discover(prepared_url, node(domain("c", 1, 1024), host="kvm1"))
    requests = [
        {"name": name, "uuid": uuid_of(name), "vcpus": 1, "memory_mb": 64, "disk_gb": 1}
        for name in ("a", "b")
    ]
    policy = Policy.from_mapping(
        {"weighers": {"PCIWeigher": 1.0, "RAMWeigher": 0.5}, "pci_alias": [ALIAS]}
    )
    with Store.open(prepared_url).read() as connection:
        assert [each["host"] for each in scheduling.decide(connection, requests, policy, NOW)] == [
            "kvm1",
            "kvm1",
        ]
        requests[0]["extra_specs"] = SPECS
        assert [each["host"] for each in scheduling.decide(connection, requests, policy, NOW)] == [
            "kvm0",
            "kvm0",
        ]


def place(url, name="a", host="kvm1", alias=None, **more):
    request = {
        "name": name,
        "uuid": uuid_of(name),
        "vcpus": 1,
        "memory_mb": 64,
        "disk_gb": 1,
        "host": host,
        **more,
    }
    with Store.open(url).read() as connection:
        selections = scheduling.decide(
            connection, [request], Policy.from_mapping({"pci_alias": [alias or ALIAS]}), NOW
        )
    (claimed,) = fleets.claim(url, *selections)
    return claimed


def with_gpu(url, state="shutoff", options=None, alias=None):
    """Return an instance with a device on kvm1, as the next discovery shows it."""
    discover(url, options=options)
    claimed = place(url, alias=alias, extra_specs=SPECS)
    guest = domain("a", 1, 64, devices=[("pci", claimed["pci_devices"][0]["address"])], state=state)
    discover(url, {"kvm1": [guest]}, options)
    return claimed["pci_devices"][0]["address"]


def drain(url):
    """Plan a drain of kvm1; return the destinations, and the reasons why instances stay."""
    with Store.open(url).read() as connection:
        plan = DrainQuestion(Policy.from_mapping({}), MigrationLimits()).plan(connection, ["kvm1"])
    return {each["name"]: each["host"] for each in plan["moves"]}, {
        each["name"]: each["reason"] for each in plan["unmovable"]
    }


def begin(url, move_type="migration", host="kvm2"):
    return write(url, migration_claims.begin, uuid_of("a"), host, None, move_type, NOW)["uuid"]


@pytest.mark.parametrize("end", ["finish", "undo"])
def test_a_cold_move_claims_such_a_device_and_says_which(prepared_url, end):
    address = with_gpu(prepared_url)
    assert drain(prepared_url) == ({"a": "kvm2"}, {})
    migration = begin(prepared_url)
    assert owners(prepared_url) == {("kvm1", address): "a", ("kvm2", address): "a"}
    with Store.open(prepared_url).read() as connection:
        fact = orders.order(connection, migration)["devices"]
    pair = {
        "address": address,
        "address_there": address,
        "interface": None,
        "interface_there": None,
        "live_migratable": False,
    }
    assert fact == {"pci": [pair], "mdevs": []}
    # The claim counts, for any report of a host during the move.
    discover(prepared_url, hosts=("kvm2",))
    assert len(owners(prepared_url)) == 2
    if end == "finish":
        write(prepared_url, migration_claims.finish, migration, PROOF, "shutoff", NOW)
    else:
        write(prepared_url, migration_claims.undo, migration, PROOF, "aborted", NOW)
    assert list(owners(prepared_url)) == [("kvm2" if end == "finish" else "kvm1", address)]


def test_no_device_is_left_at_the_destination(prepared_url):
    with_gpu(prepared_url)
    place(prepared_url, "b", "kvm2", extra_specs=SPECS)
    moves, unmovable = drain(prepared_url)
    assert moves == {} and "kvm2" in unmovable["a"]
    with pytest.raises(DroverError, match="No room for a"):
        begin(prepared_url)
    assert len(owners(prepared_url)) == 2


def test_a_running_guest_stays_unless_its_devices_move_live(prepared_url):
    with_gpu(prepared_url, "running")
    moves, unmovable = drain(prepared_url)
    assert (
        moves == {}
        and "cannot move while it runs; shut it down, or give it the migration policy 'cold'"
        in unmovable["a"]
    )


def test_a_running_guest_moves_live_where_its_alias_says_so(prepared_url):
    alias = {**ALIAS, "live_migratable": True}
    with_gpu(prepared_url, "running", MIGRATABLE, alias)
    assert drain(prepared_url) == ({"a": "kvm2"}, {})
    migration = begin(prepared_url, "live-migration")
    with Store.open(prepared_url).read() as connection:
        (pair,) = orders.order(connection, migration)["devices"]["pci"]
    assert pair["live_migratable"]


def test_a_device_that_no_claim_gave_stays_with_its_host(prepared_url):
    discover(prepared_url)
    address = gpu(prepared_url)
    discover(
        prepared_url, {"kvm1": [domain("a", 1, 64, devices=[("pci", address)], state="shutoff")]}
    )
    moves, unmovable = drain(prepared_url)
    assert (
        moves == {}
        and f"that no claim gave it (pci {address}); detach them first" in unmovable["a"]
    )
    with pytest.raises(DroverError, match="devices that no claim gave it"):
        begin(prepared_url)
    with Store.open(prepared_url).read() as connection:
        (found,) = evacuations.instances(connection, "kvm1")
        known = evacuations.storage(connection)
    assert "no claim gave it" in why_lost({**found, "xml": "<domain/>"}, next(iter(known.values())))


@pytest.mark.parametrize("end", ["finish", "undo"])
def test_a_mediated_device_is_claimed_with_its_allocation(prepared_url, end):
    discover(prepared_url)
    claimed = place(prepared_url, resources={"VGPU": 1})
    (mdev,) = claimed["mdevs"]
    assert mdev["uuid"] == THERE
    discover(
        prepared_url, {"kvm1": [domain("a", 1, 64, devices=[("mdev", THERE)], state="shutoff")]}
    )
    assert drain(prepared_url) == ({"a": "kvm2"}, {})
    migration = begin(prepared_url)
    with Store.open(prepared_url).read() as connection:
        fact = orders.order(connection, migration)["devices"]
    (pair,) = fact["mdevs"]
    assert pair["uuid"] == THERE and {**pair["there"], "uuid": None} == {
        "uuid": None,
        "parent": PARENT,
        "type": "nvidia-11",
    }
    claimed_uuid = pair["there"]["uuid"]
    assert claimed_uuid in (THERE, mdev_uuids.made_for(uuid_of("a"), PARENT, "nvidia-11", 0))
    assert owners(prepared_url) == {("kvm1", THERE): "a", ("kvm2", claimed_uuid): "a"}
    if end == "finish":
        write(prepared_url, migration_claims.finish, migration, PROOF, "shutoff", NOW)
    else:
        write(prepared_url, migration_claims.undo, migration, PROOF, "aborted", NOW)
    assert list(owners(prepared_url)) == [
        ("kvm2", claimed_uuid) if end == "finish" else ("kvm1", THERE)
    ]


def test_an_evacuation_claims_them_and_the_dead_host_keeps_its_own(prepared_url):
    address = with_gpu(prepared_url, "running")
    with Store.open(prepared_url).read() as connection:
        (found,) = evacuations.instances(connection, "kvm1")
        known = evacuations.storage(connection)
    assert why_lost({**found, "xml": "<domain/>"}, next(iter(known.values()))) is None
    migration = begin(prepared_url, "evacuation")
    assert owners(prepared_url) == {("kvm1", address): "a", ("kvm2", address): "a"}
    write(prepared_url, migration_claims.finish, migration, PROOF, None, NOW)
    assert len(owners(prepared_url)) == 2
    write(prepared_url, migration_claims.clear_source, migration, PROOF, NOW)
    assert list(owners(prepared_url)) == [("kvm2", address)]


def target(flavor, selection):
    return {
        "flavor": flavor,
        "resources": selection["resources"],
        "host_request": selection.get("host_request"),
        "running": False,
    }


@pytest.mark.parametrize("host", ["kvm1", "kvm2"])
def test_a_resize_changes_no_devices(prepared_url, host):
    address = with_gpu(prepared_url)
    request = {
        "name": "a",
        "uuid": uuid_of("b"),
        "vcpus": 1,
        "memory_mb": 128,
        "disk_gb": 1,
        "host": host,
    }
    with Store.open(prepared_url).read() as connection:
        (plain,) = scheduling.decide(connection, [request], Policy.from_mapping({}), NOW)
    with pytest.raises(DroverError, match="asks for other PCI devices than the instance has"):
        write(
            prepared_url,
            migration_claims.begin_resize,
            uuid_of("a"),
            host,
            None,
            target("plain", plain),
            NOW,
        )
    pci = {**plain, "host_request": asked(prepared_url)}
    opened = write(
        prepared_url,
        migration_claims.begin_resize,
        uuid_of("a"),
        host,
        None,
        target("larger", pci),
        NOW,
    )
    with Store.open(prepared_url).read() as connection:
        resize = resizes.describe(connection, opened["uuid"])
    if host == "kvm1":
        assert owners(prepared_url) == {("kvm1", address): "a"} and "devices" not in resize["order"]
        return
    assert owners(prepared_url) == {("kvm1", address): "a", ("kvm2", address): "a"}
    for way in ("order", "back"):
        assert [each["address_there"] for each in resize[way]["devices"]["pci"]] == [address]


def asked(url):
    with Store.open(url).read() as connection:
        return connection.execute(
            sa.select(tables.instances.c.host_request).where(
                tables.instances.c.uuid == uuid_of("a")
            )
        ).scalar()


def test_what_was_claimed_is_free_again_with_its_instance(prepared_url):
    with_gpu(prepared_url)
    begin(prepared_url)
    with pytest.raises(DroverError):
        write(prepared_url, claims.release, [uuid_of("a")], PROOF, NOW)
    assert len(owners(prepared_url)) == 2
