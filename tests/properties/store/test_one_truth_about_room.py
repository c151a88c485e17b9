# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The claim takes the scheduler's decision: pools, other classes, nested providers, groups."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import scheduling
from ansible_collections.drover.compute.plugins.plugin_utils._placement import selections
from ansible_collections.drover.compute.plugins.plugin_utils._placement.candidates import batch
from ansible_collections.drover.compute.plugins.plugin_utils._planner.drain import plan_drain
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database import bulk
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import host_columns
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances.instances_for_plans import (
    read_host_instances,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.providers import provider_arrays
from ansible_collections.drover.compute.plugins.plugin_utils._store.reports import hosts
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.properties.store.test_claims_spread import (
    add_provider,
    held,
)
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import NOW, domain, host, uuid_of

POLICY = Policy.from_mapping({})
POOL = {"name": "nfs", "path": "/srv/vms", "shared_id": "nfs:filer:/vms", "state": "running"}


def on_pool(name, *domains, **more):
    return host(name, *domains, instances_path="/srv/vms/images", pools=[POOL], **more)


def asked(name, vcpus=1, memory_mb=64, disk_gb=0, **more):
    return {
        "name": name,
        "uuid": uuid_of(name),
        "vcpus": vcpus,
        "memory_mb": memory_mb,
        "disk_gb": disk_gb,
        **more,
    }


def decide(url, *requests, policy=POLICY):
    with Store.open(url).read() as connection:
        return scheduling.decide(connection, list(requests), policy, NOW)


def place(url, *requests, **more):
    """Decide and claim; return the selections."""
    found = decide(url, *requests, **more)
    fleets.claim(url, *selections.check(found))
    return found


def flavor(**specs):
    return {
        "name": "special",
        "extra_specs": {key.replace("__", ":"): value for key, value in specs.items()},
    }


def write(url, function, *arguments, **more):
    with Store.open(url).write() as connection:
        return function(connection, *arguments, **more)


@pytest.fixture
def pool_url(prepared_url):
    """Fill a store: kvm1 and kvm2 share 100 GiB, kvm3 has 20 GiB locally."""
    fleets.discover(prepared_url, on_pool("kvm1"), on_pool("kvm2"), host("kvm3", local_gb=20))
    return prepared_url


@pytest.fixture
def gpu_url(prepared_url):
    """Fill a store: kvm1 has two cards with 2 VGPU each, kvm2 one with 1 and a trait; kvm3 a
    licence in a separate provider."""
    fleets.discover(prepared_url, *(host(f"kvm{number}", vcpus=8) for number in (1, 2, 3)))

    def fill(connection):
        add_provider(connection, "kvm1-a", {"VGPU": 2}, parent="kvm1")
        add_provider(connection, "kvm1-b", {"VGPU": 2}, parent="kvm1")
        add_provider(connection, "kvm2-a", {"VGPU": 1}, parent="kvm2", traits=["CUSTOM_FAST"])
        add_provider(connection, "other", {"CUSTOM_LICENCE": 1})
        table = tables.inventories
        providers, classes = tables.resource_providers, tables.resource_classes
        other = connection.execute(
            sa.select(providers.c.id).where(providers.c.name == "other")
        ).scalar_one()
        third = connection.execute(
            sa.select(providers.c.id).where(providers.c.name == "kvm3")
        ).scalar_one()
        connection.execute(
            sa.update(table).where(table.c.provider_id == other).values(provider_id=third)
        )
        assert connection.execute(
            sa.select(classes.c.id).where(classes.c.name == "CUSTOM_LICENCE")
        ).scalar_one()

    write(prepared_url, fill)
    return prepared_url


# Pools


def test_hosts_of_a_pool_show_its_disk_and_a_batch_takes_it_once(pool_url):
    made = place(pool_url, *(asked(f"web{number}", disk_gb=50) for number in range(2)))
    assert {each["host"] for each in made} == {"kvm1", "kvm2"}
    assert all("allocations" not in each for each in made)
    assert {name for each in held(pool_url).values() for name in each} == {
        "kvm1",
        "kvm2",
        "pool/nfs",
    }
    with pytest.raises(DroverError, match="disk: asked 50 GiB, 0 GiB free of 100"):
        decide(pool_url, asked("late", disk_gb=50))
    with pytest.raises(DroverError, match="number 2 of 3 in the batch"):
        decide(pool_url, *(asked(f"db{number}", disk_gb=20) for number in range(3)))


def test_the_hosts_show_the_figures_of_the_pool(pool_url):
    place(pool_url, asked("web", disk_gb=30))
    with Store.open(pool_url).read() as connection:
        listed = hosts.listing(connection, NOW)
    assert [(each["disk_gb"], each["disk_gb_used"], each["disk_pool"]) for each in listed] == [
        (100, 30, "pool/nfs"),
        (100, 30, "pool/nfs"),
        (20, 0, None),
    ]
    assert listed[0]["nodes"][0]["disk_pool"] == "pool/nfs"


def test_the_same_answers_as_the_candidates(pool_url):
    place(pool_url, asked("web", disk_gb=95))
    spec = scheduling.read_specs(None, [asked("new", disk_gb=6)])[0]
    with Store.open(pool_url).read() as connection:
        states = scheduling.read_states(connection, [spec], POLICY, NOW)
        assert states.provider_capacity is None
        arrays = host_columns.read_columns(connection, NOW)["provider_arrays"]
    exact = scheduling.ProviderCapacity(batch.CandidateCapacity(arrays, states.uuid), set(), states)
    for name in ("VCPU", "MEMORY_MB", "DISK_GB"):
        assert exact.fits(spec, name).tolist() == states.fits(spec, name).tolist()
    assert exact.fits(spec).tolist() == [False, False, True]


def test_a_provider_with_a_large_id_is_read(pool_url):
    """One number contains its id and the id of a class."""
    number = 1_000_000

    def add(connection):
        class_id = bulk.ids_by(connection, tables.resource_classes.c.name, ["VCPU"])["VCPU"]
        connection.execute(
            sa.insert(tables.resource_providers).values(
                id=number, uuid=uuid_of("late"), name="late", generation=0
            )
        )
        limits = {
            "reserved": 0,
            "min_unit": 1,
            "max_unit": 7,
            "step_size": 1,
            "allocation_ratio": 1.0,
        }
        connection.execute(
            sa.insert(tables.inventories).values(
                provider_id=number, class_id=class_id, total=7, **limits
            )
        )

    write(pool_url, add)
    with Store.open(pool_url).read() as connection:
        arrays = provider_arrays.read(connection, ["VCPU"])
    found = arrays.inventories["VCPU"]
    assert found.capacity[arrays.ids[found.places] == number].tolist() == [7]


def test_of_several_pools_the_one_with_the_most_room_is_claimed(pool_url):
    def more(connection):
        add_provider(connection, "old", {"DISK_GB": 40}, traits=[provider_arrays.SHARES])
        table, providers = tables.provider_aggregates, tables.resource_providers
        key = connection.execute(
            sa.select(providers.c.id).where(providers.c.name == "old")
        ).scalar_one()
        group = connection.execute(sa.select(table.c.aggregate_id).limit(1)).scalar_one()
        connection.execute(sa.insert(table).values(provider_id=key, aggregate_id=group))

    write(pool_url, more)
    made = place(
        pool_url, *(asked(f"web{number}", disk_gb=size) for number, size in enumerate((70, 35, 25)))
    )
    from_pools = [
        next(name for name, amounts in held(pool_url)[each["uuid"]].items() if "DISK_GB" in amounts)
        for each in made
    ]
    assert from_pools == ["pool/nfs", "old", "pool/nfs"]
    assert all(each["allocations"] for each in made)
    assert all(spare["allocations"] for each in made for spare in each["alternates"])


def test_a_full_pool_can_be_drained_from_host_to_host(prepared_url):
    fleets.discover(
        prepared_url,
        on_pool("kvm1", domain("a", disk_gb=60), domain("b", disk_gb=40)),
        on_pool("kvm2"),
        host("kvm3", local_gb=45, memory_mb=65536),
    )
    with Store.open(prepared_url).read() as connection:
        instances = read_host_instances(connection, "kvm1")
        wanted = scheduling.columns_for_moves(instances, POLICY)
        columns = host_columns.read_columns(connection, NOW, wanted=wanted)
    plan = plan_drain(columns, instances, "kvm1", POLICY)
    assert plan["status"] == "ok"
    assert {move["name"]: move["host"] for move in plan["moves"]}["a"] == "kvm2"


# Other classes


def test_a_class_of_the_request(gpu_url):
    (made,) = place(gpu_url, asked("web", resources={"CUSTOM_LICENCE": 1}))
    assert made["host"] == "kvm3" and made["allocations"] == {
        made["provider"]: {"VCPU": 1, "MEMORY_MB": 64, "CUSTOM_LICENCE": 1}
    }
    assert held(gpu_url)[uuid_of("web")] == {
        "kvm3": {"VCPU": 1, "MEMORY_MB": 64, "CUSTOM_LICENCE": 1}
    }
    with pytest.raises(
        DroverError, match=r"CUSTOM_LICENCE rejected 3 \(asked 1, no host has that free\)"
    ):
        decide(gpu_url, asked("db", resources={"CUSTOM_LICENCE": 1}))
    with pytest.raises(DroverError, match=r"CUSTOM_LICENCE: asked 1, 0 free of 1"):
        decide(gpu_url, asked("db", resources={"CUSTOM_LICENCE": 1}, force_hosts=["kvm3"]))
    with pytest.raises(
        DroverError, match=r"kvm1 \(CUSTOM_LICENCE: asked 1, the host has none at all\)"
    ):
        decide(gpu_url, asked("db", resources={"CUSTOM_LICENCE": 1}, host="kvm1"))
    with pytest.raises(DroverError, match="CUSTOM_LICENSE.*does not exist"):
        decide(gpu_url, asked("db", resources={"CUSTOM_LICENSE": 1}))


def test_a_batch_over_nested_providers_takes_all_and_no_more(gpu_url):
    batch = [asked(f"web{number}", flavor=flavor(resources__VGPU="1")) for number in range(5)]
    made = place(gpu_url, *batch)
    taken = {}
    for each in held(gpu_url).values():
        for name, amounts in each.items():
            taken[name] = taken.get(name, 0) + amounts.get("VGPU", 0)
    assert {name: n for name, n in taken.items() if n} == {"kvm1-a": 2, "kvm1-b": 2, "kvm2-a": 1}
    assert [each["host"] for each in made].count("kvm1") == 4
    with pytest.raises(DroverError, match="VGPU"):
        decide(gpu_url, batch[0] | {"name": "late", "uuid": uuid_of("late")})


def test_alternates_say_what_they_would_take_and_are_claimed_so(gpu_url):
    (made,) = decide(gpu_url, asked("web", resources={"VGPU": 1}))
    (spare,) = made["alternates"]
    assert spare["allocations"] and {"VGPU": 1} in spare["allocations"].values()
    full = {each["host"]: each for each in (made, spare)}["kvm2"]
    place(gpu_url, asked("db", resources={"VGPU": 1}, host="kvm2"))
    (claimed,) = fleets.claim(
        gpu_url,
        {**made, **full, "alternates": [each for each in (made, spare) if each["host"] == "kvm1"]},
    )
    assert claimed["host"] == "kvm1"


def test_extra_specs_override_amounts(gpu_url):
    specs = flavor(resources__VCPU="0", resources__MEMORY_MB="128")
    (made,) = place(gpu_url, asked("web", vcpus=99, flavor=specs))
    assert made["resources"] == {"MEMORY_MB": 128}


def test_groups_each_from_one_provider(gpu_url):
    two = flavor(resources1__VGPU="2", resources2__VGPU="2", group_policy="isolate")
    (made,) = place(gpu_url, asked("web", flavor=two))
    assert made["host"] == "kvm1" and made["resources"]["VGPU"] == 4
    (made,) = decide(
        gpu_url, asked("fast", flavor=flavor(resources1__VGPU="1", trait1__CUSTOM_FAST="required"))
    )
    assert made["host"] == "kvm2"
    with pytest.raises(DroverError, match="No valid host"):
        decide(
            gpu_url,
            asked("slow", flavor=flavor(resources1__VGPU="1", trait1__CUSTOM_FAST="forbidden")),
        )


def test_flat_requests_do_without_the_candidates(gpu_url, monkeypatch):
    monkeypatch.setattr(scheduling, "ProviderCapacity", None)
    assert decide(gpu_url, asked("web", disk_gb=1))[0]["host"]


def test_processors_in_nested_providers(prepared_url):
    fleets.discover(prepared_url, host("kvm1"), host("kvm2"))

    def split(connection):
        add_provider(connection, "numa0", {"VCPU": 2}, parent="kvm1")
        add_provider(connection, "numa1", {"VCPU": 3}, parent="kvm1")
        providers, table = tables.resource_providers, tables.inventories
        classes = tables.resource_classes
        key = connection.execute(
            sa.select(providers.c.id).where(providers.c.name == "kvm1")
        ).scalar_one()
        vcpu = connection.execute(
            sa.select(classes.c.id).where(classes.c.name == "VCPU")
        ).scalar_one()
        connection.execute(
            sa.delete(table).where(table.c.provider_id == key, table.c.class_id == vcpu)
        )

    write(prepared_url, split)
    made = place(prepared_url, asked("a", 3, host="kvm1"), asked("b", 2, host="kvm1"))
    takes = [sorted(held(prepared_url)[each["uuid"]]) for each in made]
    assert takes == [["kvm1", "numa1"], ["kvm1", "numa0"]]
    with pytest.raises(DroverError, match="CPU: asked 1 vCPU, 0 vCPU free of"):
        decide(prepared_url, asked("c", 1, host="kvm1"))


def test_f15_memory_that_was_plugged_into_a_running_guest_is_taken(prepared_url):
    """The request is 1 GiB more than the definition: neither a new instance nor a moving one gets
    the host."""
    grown = domain("web", memory_mb=128, running_memory_mb=1152, running_vcpus=1)
    fleets.discover(
        prepared_url,
        host("kvm1", grown, memory_mb=2048),
        host("kvm2", domain("db", memory_mb=1024), memory_mb=1536),
    )
    assert held(prepared_url)[uuid_of("web")]["kvm1"]["MEMORY_MB"] == 1152
    assert place(prepared_url, asked("small", memory_mb=512))
    with pytest.raises(DroverError):
        place(prepared_url, asked("large", memory_mb=1024))
    with Store.open(prepared_url).read() as connection:
        (instance,) = [
            each for each in read_host_instances(connection, "kvm1") if each["name"] == "web"
        ]
        assert instance["memory_mb"] == 1152


@pytest.mark.parametrize("running", [None, 64])
def test_f15_the_larger_size_of_the_next_start_is_taken(prepared_url, running):
    more = {} if running is None else {"running_memory_mb": running, "running_vcpus": 1}
    fleets.discover(prepared_url, host("kvm1", domain("web", vcpus=2, memory_mb=128, **more)))
    assert held(prepared_url)[uuid_of("web")]["kvm1"] == {"VCPU": 2, "MEMORY_MB": 128}


def test_f15_cpus_that_a_running_guest_has_are_taken(prepared_url):
    fleets.discover(
        prepared_url, host("kvm1", domain("web", vcpus=1, running_vcpus=3, running_memory_mb=64))
    )
    assert held(prepared_url)[uuid_of("web")]["kvm1"]["VCPU"] == 3
