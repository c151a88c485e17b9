# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The audit: each finding, the repairs of heal, and the rows that heal never changes."""

from __future__ import annotations

import json
import random

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement import allocations, claims
from ansible_collections.drover.compute.plugins.plugin_utils._placement.audit import audit, findings
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import orders
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import (
    NOW,
    domain,
    host,
    selection,
    uuid_of,
)
from ansible_collections.drover.compute.tests.unit.tracker import machines

PROOF = certainty.word("a test")

HOUR = 3600
WEB = uuid_of("web")


@pytest.fixture
def fleet_url(prepared_url):
    """Fill a store: kvm1 with web and mail, kvm2 with nothing, kvm3 with db."""
    fleets.discover(
        prepared_url, host("kvm1", domain("web", vcpus=2), domain("mail")), host("kvm2")
    )
    fleets.discover(prepared_url, host("kvm3", domain("db", disk_gb=3)))
    return prepared_url


def look(url, **options):
    with Store.open(url).read() as connection:
        return audit(connection, NOW, **options)


def heal(url, **options):
    with Store.open(url).write() as connection:
        return audit(connection, NOW, mend=True, **options)


def kinds(found, key="findings"):
    """Return kind and name of each finding, in order."""
    return [(each["kind"], each["name"] or each["provider"]) for each in found[key]]


def write(url, statement):
    with Store.open(url).write() as connection:
        connection.execute(statement)


def hold(url, uuid, place, consumer_type=allocations.INSTANCE, now=NOW, **amounts):
    """Let a consumer hold exactly these amounts on a host, without any check."""
    with Store.open(url).write() as connection:
        allocations.replace(
            connection, {uuid: {provider(connection, place): amounts}}, now, consumer_type
        )


def provider(connection, place):
    table = tables.resource_providers
    return connection.execute(sa.select(table.c.id).where(table.c.name == place)).scalar_one()


def node_id(url, place):
    table = tables.compute_nodes
    with Store.open(url).read() as connection:
        return connection.execute(sa.select(table.c.id).where(table.c.host == place)).scalar_one()


def show(url, place, name, state="running"):
    """Let a host show a domain."""
    row = {
        "compute_node_id": node_id(url, place),
        "uuid": uuid_of(name),
        "name": name,
        "state": state,
    }
    write(
        url,
        sa.insert(tables.domains).values(
            **row, persistent=True, autostart=False, facts={}, seen_at=NOW
        ),
    )


def hide(url, name):
    write(url, sa.delete(tables.domains).where(tables.domains.c.uuid == uuid_of(name)))


def expire(url, name, when):
    table = tables.consumers
    write(url, sa.update(table).where(table.c.uuid == uuid_of(name)).values(expires_at=when))


def begin(url, name, to, now=NOW):
    with Store.open(url).write() as connection:
        return migration_claims.begin(connection, uuid_of(name), to, to, "live-migration", now)[
            "uuid"
        ]


def counted_right(url):
    """Return True if the use beside each inventory is the sum of its allocations."""
    inventories, table = tables.inventories, tables.allocations
    with Store.open(url).read() as connection:
        sums = {
            (row.provider_id, row.class_id): row.use
            for row in connection.execute(
                sa.select(
                    table.c.provider_id, table.c.class_id, sa.func.sum(table.c.used).label("use")
                ).group_by(table.c.provider_id, table.c.class_id)
            )
        }
        rows = connection.execute(sa.select(inventories)).all()
    return all(row.used == sums.get((row.provider_id, row.class_id), 0) for row in rows)


def test_a_sound_store(fleet_url):
    before = fleets.snapshot(fleet_url)
    for found in (look(fleet_url), heal(fleet_url), heal(fleet_url, release_expired=True)):
        checked = {"hosts": 3, "instances": 3, "allocations": 7}
        assert found == {
            "changed": False,
            "findings": [],
            "mended": [],
            "left": [],
            "counts": {},
            "sound": True,
            "checked": checked,
        }
    assert fleets.snapshot(fleet_url) == before


def test_an_empty_store(prepared_url):
    assert look(prepared_url)["sound"] is True


@pytest.mark.parametrize(
    "damage", ["missing", "wrong", "doubled", "elsewhere", "elsewhere and wrong", "record"]
)
def test_an_allocation_is_mended_where_the_domain_is(fleet_url, damage):
    right = fleets.holdings(fleet_url)
    if damage == "missing":
        hold(fleet_url, WEB, "kvm1")
    elif damage == "wrong":
        hold(fleet_url, WEB, "kvm1", VCPU=1, MEMORY_MB=64)
    elif damage == "doubled":
        with Store.open(fleet_url).write() as connection:
            amounts = {"VCPU": 2, "MEMORY_MB": 64}
            held = {provider(connection, place): amounts for place in ("kvm1", "kvm2")}
            allocations.replace(connection, {WEB: held}, NOW)
    elif damage == "elsewhere":
        hold(fleet_url, WEB, "kvm2", VCPU=2, MEMORY_MB=64)
    elif damage == "elsewhere and wrong":
        hold(fleet_url, WEB, "kvm2", VCPU=3)
    else:
        table = tables.instances
        write(
            fleet_url,
            sa.update(table)
            .where(table.c.uuid == WEB)
            .values(compute_node_id=node_id(fleet_url, "kvm2"), state="missing"),
        )
    kind = {
        "missing": "allocation_missing",
        "wrong": "allocation_wrong",
        "doubled": "allocation_doubled",
    }
    kind = kind.get(damage, "wrong_host")
    before = fleets.snapshot(fleet_url)
    audit_report = look(fleet_url)
    assert kinds(audit_report) == [(kind, "web")]
    assert (audit_report["changed"], audit_report["mended"], audit_report["sound"]) == (
        False,
        [],
        False,
    )
    assert audit_report["findings"][0]["host"] == "kvm1"
    assert (
        audit_report["findings"][0]["heal"]
        == "gives it VCPU 2, MEMORY_MB 64 on kvm1, over capacity or not"
    )
    assert fleets.snapshot(fleet_url) == before
    audit_report = heal(fleet_url)
    assert (audit_report["changed"], kinds(audit_report, "mended"), audit_report["left"]) == (
        True,
        [(kind, "web")],
        [],
    )
    assert fleets.holdings(fleet_url) == right
    assert fleets.where(fleet_url) == {"web": "kvm1", "mail": "kvm1", "db": "kvm3"}
    assert counted_right(fleet_url)
    assert heal(fleet_url)["changed"] is False


def test_the_room_of_an_open_order_is_kept(fleet_url):
    """A run that attached a disk was killed: its host may have the disk, so its room is right and
    stays claimed."""
    hold(fleet_url, WEB, "kvm1", VCPU=2, MEMORY_MB=64, DISK_GB=5)
    with Store.open(fleet_url).write() as connection:
        orders.begin(connection, WEB, orders.ATTACHING, "cut off")
    before = fleets.snapshot(fleet_url)
    for found in (look(fleet_url), heal(fleet_url)):
        assert kinds(found) == [("order_open", "web")] and found["sound"], found
        (finding,) = found["findings"]
        assert (
            "has a device attached" in finding["why"]
            and finding["heal"] == "leaves it: an open order keeps its room"
        )
    assert fleets.snapshot(fleet_url) == before


def test_what_runs_gets_its_room_over_capacity(fleet_url):
    fleets.claim(fleet_url, selection("big", "kvm1", vcpus=1))
    hold(fleet_url, WEB, "kvm1")
    fleets.claim(fleet_url, selection("more", "kvm1", vcpus=2))
    audit_report = heal(fleet_url)
    assert kinds(audit_report, "mended") == [("allocation_missing", "web")]
    assert kinds(audit_report, "left") == [("over_capacity", "kvm1")]
    assert (audit_report["sound"], audit_report["left"][0]["why"]) == (
        True,
        "VCPU: 6 is allocated of 4.",
    )
    assert fleets.used(fleet_url)["kvm1"] == 6


@pytest.mark.parametrize(
    "shown", [["kvm1", "kvm2"], [], ["kvm1"]], ids=["twice", "nowhere", "moving"]
)
def test_what_is_not_certain_is_left(fleet_url, shown):
    """The domain is on two hosts, on none, or on its way."""
    if shown == ["kvm1"]:
        uuid = begin(fleet_url, "web", "kvm2")
        hold(fleet_url, WEB, "kvm1")
        expected = [("allocation_missing", "web")]
        assert uuid in fleets.holdings(fleet_url)
    else:
        hold(fleet_url, WEB, "kvm2", VCPU=2, MEMORY_MB=64)
        if shown:
            show(fleet_url, "kvm2", "web")
            expected = [("domain_doubled", "web"), ("wrong_host", "web")]
        else:
            hide(fleet_url, "web")
            expected = [("instance_missing", "web"), ("wrong_host", "web")]
    before = fleets.snapshot(fleet_url)
    found = heal(fleet_url, release_expired=True)
    assert (found["changed"], found["mended"], kinds(found, "left")) == (False, [], expected)
    assert all(each["heal"].startswith("leaves it: ") for each in found["left"])
    assert fleets.snapshot(fleet_url) == before


def test_a_domain_on_two_hosts_names_both(fleet_url):
    show(fleet_url, "kvm3", "web", "shutoff")
    (finding,) = look(fleet_url)["findings"]
    assert (finding["kind"], finding["host"]) == ("domain_doubled", "kvm1, kvm3")
    assert (
        finding["why"]
        == "One domain is on several hosts: running on kvm1 (read 0 s ago), shutoff on kvm3 (read 0"
        " s ago)."
    )
    assert "fence one by hand" in finding["heal"]


def test_hostile_c3_reports_of_different_times_are_no_double(fleet_url):
    """The old report of one host is compared with the new report of another."""
    show(fleet_url, "kvm3", "web")
    write(
        fleet_url,
        sa.update(tables.compute_nodes)
        .where(tables.compute_nodes.c.host == "kvm1")
        .values(updated_at=NOW - 2400),
    )
    (found,) = look(fleet_url)["findings"]
    assert (found["kind"], found["level"]) == ("domain_seen_twice", "information")
    assert "running on kvm1 (read 40 min ago), running on kvm3 (read 0 s ago)" in found["why"]


def test_a_move_under_way_is_no_finding(fleet_url):
    begin(fleet_url, "web", "kvm2")
    assert look(fleet_url)["findings"] == []
    show(fleet_url, "kvm2", "web")
    assert look(fleet_url)["findings"] == []
    show(fleet_url, "kvm3", "web")
    assert kinds(look(fleet_url)) == [("domain_doubled", "web")]


def test_an_old_migration_is_information(fleet_url):
    begin(fleet_url, "web", "kvm2", NOW - 30 * HOUR)
    found = look(fleet_url)
    assert (kinds(found), found["sound"]) == ([("migration_old", "web")], True)
    assert "is accepted since 30 h" in found["findings"][0]["why"]


def test_a_closed_migration_gives_its_room_back(fleet_url):
    uuid = begin(fleet_url, "web", "kvm2")
    with Store.open(fleet_url).write() as connection:
        migration_claims.undo(connection, uuid, PROOF, "x", NOW)
    right = fleets.holdings(fleet_url)
    hold(fleet_url, uuid, "kvm2", allocations.MIGRATION, VCPU=2)
    found = heal(fleet_url)
    assert kinds(found, "mended") == [("migration_closed", "web")]
    assert fleets.holdings(fleet_url) == right


def test_a_resize_that_waits_to_be_confirmed_holds_both_sizes(fleet_url):
    with Store.open(fleet_url).write() as connection:
        wanted = {"flavor": None, "resources": {"VCPU": 3, "MEMORY_MB": 64}}
        opened = migration_claims.begin_resize(connection, WEB, "kvm2", None, wanted, NOW)
        migration_claims.finish(connection, opened["uuid"], PROOF, "running", NOW)
    show(fleet_url, "kvm1", "web", state="shutoff")
    held = fleets.holdings(fleet_url)
    assert kinds(heal(fleet_url)) == []
    assert fleets.holdings(fleet_url) == held and len(held) == 4


def test_an_evacuation_holds_both_ends_until_its_source_is_back(fleet_url):
    with Store.open(fleet_url).write() as connection:
        opened = migration_claims.begin(
            connection, WEB, "kvm2", None, migration_claims.EVACUATION, NOW
        )
        migration_claims.finish(connection, opened["uuid"], PROOF, "running", NOW)
    holdings = fleets.holdings(fleet_url)
    assert kinds(heal(fleet_url)) == [] and set(holdings[WEB]) == {"kvm1", "kvm2"}
    # kvm1 is back, and shows an instance that was started on another host.
    show(fleet_url, "kvm1", "web")
    assert kinds(heal(fleet_url)) == [("domain_doubled", "web")]
    assert fleets.holdings(fleet_url) == holdings


def test_an_allocation_of_nobody(fleet_url):
    right = fleets.holdings(fleet_url)
    nobody = uuid_of("nobody")
    hold(fleet_url, nobody, "kvm2", VCPU=1)
    (found,) = look(fleet_url)["findings"]
    assert (found["kind"], found["uuid"], found["host"], found["safe"]) == (
        "allocation_of_nobody",
        nobody,
        "kvm2",
        True,
    )
    assert heal(fleet_url)["left"] == []
    assert fleets.holdings(fleet_url) == right


def test_an_allocation_of_a_domain_that_is_no_instance_is_left(fleet_url):
    hold(fleet_url, uuid_of("stranger"), "kvm2", VCPU=1)
    show(fleet_url, "kvm2", "stranger")
    before = fleets.snapshot(fleet_url)
    assert kinds(heal(fleet_url), "left") == [
        ("allocation_of_nobody", None),
        ("stranger", "stranger"),
    ]
    assert fleets.snapshot(fleet_url) == before


def test_consumers_of_a_type_of_their_own_are_the_users(fleet_url):
    hold(fleet_url, uuid_of("reservation"), "kvm2", "RESERVATION", VCPU=1)
    assert heal(fleet_url)["findings"] == []


def test_an_expired_claim_goes_only_when_told(fleet_url):
    right = fleets.holdings(fleet_url)
    fleets.claim(fleet_url, selection("new", "kvm2"))
    expire(fleet_url, "new", NOW + 1)
    assert look(fleet_url)["findings"] == []
    expire(fleet_url, "new", NOW - 2 * HOUR)
    assert kinds(heal(fleet_url), "left") == [("claim_expired", "new")]
    assert look(fleet_url, release_expired=True)["findings"][0]["heal"] == "releases it"
    found = heal(fleet_url, release_expired=True)
    assert (kinds(found, "mended"), found["left"]) == ([("claim_expired", "new")], [])
    assert fleets.holdings(fleet_url) == right
    assert "new" not in fleets.where(fleet_url)


def test_walk_f01_a_claim_of_a_build_that_no_run_is_at(fleet_url):
    with Store.open(fleet_url).write(together=True) as connection:
        chosen = selection("new", "kvm2", explanation={"hosts": 3, "filters": []})
        claims.claim(connection, [chosen], NOW, actor="root@here, process 1")
    assert look(fleet_url)["findings"] == []
    ended = look(fleet_url, has_ended=lambda holder: holder == "root@here, process 1")["findings"]
    assert [(each["kind"], each["name"], each["host"]) for each in ended] == [
        ("claim_unattended", "new", "kvm2")
    ]
    assert (
        "by root@here, process 1, which has ended" in ended[0]["why"]
        and "instance_delete" in ended[0]["advice"]
    )


def test_an_expired_claim_of_a_domain_that_was_seen_stays(fleet_url):
    expire(fleet_url, "web", NOW - HOUR)
    before = fleets.snapshot(fleet_url)
    assert heal(fleet_url, release_expired=True)["findings"] == []
    assert fleets.snapshot(fleet_url) == before
    # The instance is still in its build, and its host shows it already.
    fleets.claim(fleet_url, selection("new", "kvm2"))
    expire(fleet_url, "new", NOW - HOUR)
    show(fleet_url, "kvm2", "new")
    assert heal(fleet_url, release_expired=True)["findings"] == []


def test_a_claim_without_an_instance_lives_until_it_expires(fleet_url):
    hold(fleet_url, uuid_of("other"), "kvm2", VCPU=1)
    expire(fleet_url, "other", NOW + 1)
    assert look(fleet_url)["findings"] == []
    expire(fleet_url, "other", NOW - 1)
    assert kinds(heal(fleet_url), "left") == [("claim_expired", None)]
    assert kinds(heal(fleet_url, release_expired=True), "mended") == [("claim_expired", None)]


def test_strangers_and_missing_instances(fleet_url):
    write(fleet_url, sa.delete(tables.instances).where(tables.instances.c.uuid == uuid_of("mail")))
    hide(fleet_url, "db")
    assert kinds(look(fleet_url)) == [
        ("instance_missing", "db"),
        ("allocation_of_nobody", None),
        ("stranger", "mail"),
    ]


def test_a_miscount_is_counted_again(fleet_url):
    right = fleets.snapshot(fleet_url)
    inventories = tables.inventories
    write(fleet_url, sa.update(inventories).values(used=inventories.c.used + 5))
    found = look(fleet_url)
    assert found["counts"] == {"use_miscounted": 9}
    assert found["findings"][0]["why"] == "DISK_GB: 5 is counted as used, and 0 is allocated."
    assert len(heal(fleet_url)["mended"]) == 9
    assert fleets.snapshot(fleet_url) == right


def test_a_miscount_and_other_damage_together(fleet_url):
    right = fleets.holdings(fleet_url)
    hold(fleet_url, WEB, "kvm1")
    hold(fleet_url, uuid_of("nobody"), "kvm1", VCPU=1)
    write(fleet_url, sa.update(tables.inventories).values(used=77))
    assert heal(fleet_url)["left"] == []
    assert fleets.holdings(fleet_url) == right
    assert counted_right(fleet_url)


def test_nodes_and_providers_that_lost_each_other(fleet_url):
    nodes, providers = tables.compute_nodes, tables.resource_providers
    write(fleet_url, sa.update(nodes).where(nodes.c.host == "kvm2").values(host="gone"))
    write(
        fleet_url,
        sa.update(providers).where(providers.c.name == "kvm3").values(uuid=uuid_of("other")),
    )
    before = fleets.snapshot(fleet_url)
    audit_report = heal(fleet_url)
    assert kinds(audit_report) == [
        ("wrong_host", "db"),
        ("node_without_service", "kvm2"),
        ("node_without_provider", "kvm3"),
        ("provider_without_node", "kvm3"),
    ]
    assert "has no resource provider" in audit_report["left"][0]["heal"]
    assert fleets.snapshot(fleet_url) == before


def test_room_on_a_provider_without_that_class(fleet_url):
    write(fleet_url, sa.delete(tables.inventories).where(tables.inventories.c.total == 100))
    found = look(fleet_url)
    assert [(each["kind"], each["why"]) for each in found["findings"]] == [
        ("over_capacity", "DISK_GB: 3 is allocated, and the provider has none.")
    ]


def share_disk(url):
    """Let the three hosts share one pool with all their disk space."""
    with Store.open(url).write() as connection:
        providers = {name: provider(connection, name) for name in ("kvm1", "kvm2", "kvm3")}
        connection.execute(
            sa.insert(tables.resource_providers).values(
                uuid=uuid_of("pool"), name="pool", generation=0
            )
        )
        pool = provider(connection, "pool")
        disk = connection.execute(
            sa.select(tables.resource_classes.c.id).where(
                tables.resource_classes.c.name == "DISK_GB"
            )
        ).scalar_one()
        connection.execute(
            sa.delete(tables.inventories).where(tables.inventories.c.class_id == disk)
        )
        row = {
            "total": 9,
            "reserved": 0,
            "min_unit": 1,
            "max_unit": 9,
            "step_size": 1,
            "allocation_ratio": 1.0,
        }
        connection.execute(
            sa.insert(tables.inventories).values(provider_id=pool, class_id=disk, **row)
        )
        connection.execute(sa.insert(tables.traits).values(name="MISC_SHARES_VIA_AGGREGATE"))
        trait = connection.execute(
            sa.select(tables.traits.c.id).where(tables.traits.c.name == "MISC_SHARES_VIA_AGGREGATE")
        ).scalar_one()
        connection.execute(
            sa.insert(tables.provider_traits).values(provider_id=pool, trait_id=trait)
        )
        connection.execute(
            sa.insert(tables.placement_aggregates).values(id=1, uuid=uuid_of("storage"))
        )
        for key in (pool, *providers.values()):
            connection.execute(
                sa.insert(tables.provider_aggregates).values(provider_id=key, aggregate_id=1)
            )
        node = providers["kvm3"]
        right = {node: {"VCPU": 1, "MEMORY_MB": 64}, pool: {"DISK_GB": 3}}
        allocations.replace(connection, {uuid_of("db"): right}, NOW)
        return right


def test_disk_of_a_pool_that_hosts_share(fleet_url):
    right = share_disk(fleet_url)
    assert look(fleet_url)["findings"] == []
    for held in ({}, {key: value for key, value in right.items() if "DISK_GB" in value}):
        with Store.open(fleet_url).write() as connection:
            allocations.replace(connection, {uuid_of("db"): held}, NOW)
        assert heal(fleet_url)["left"] == []
        with Store.open(fleet_url).read() as connection:
            assert allocations.read(connection, [uuid_of("db")])[uuid_of("db")] == right


def test_dedicated_cpus_and_own_classes_are_kept(fleet_url):
    hold(fleet_url, WEB, "kvm1", PCPU=2, MEMORY_MB=64, CUSTOM_LICENCE=1)
    assert kinds(look(fleet_url)) == [("over_capacity", "kvm1")] * 2
    hold(fleet_url, WEB, "kvm1", PCPU=1, MEMORY_MB=64, CUSTOM_LICENCE=1)
    heal(fleet_url)
    assert fleets.holdings(fleet_url)[WEB] == {
        "kvm1": {"PCPU": 2, "MEMORY_MB": 64, "CUSTOM_LICENCE": 1}
    }


def test_check_mode_says_it_and_writes_nothing(fleet_url):
    hold(fleet_url, WEB, "kvm1")
    before = fleets.snapshot(fleet_url)
    with Store.open(fleet_url, check_mode=True).write() as connection:
        found = audit(connection, NOW, mend=True)
    assert (found["changed"], kinds(found, "mended")) == (True, [("allocation_missing", "web")])
    assert fleets.snapshot(fleet_url) == before


def test_findings_are_plain_and_in_order(fleet_url):
    show(fleet_url, "kvm3", "web")
    hold(fleet_url, uuid_of("nobody"), "kvm2", VCPU=1)
    begin(fleet_url, "mail", "kvm2", NOW - 30 * HOUR)
    audit_report = look(fleet_url)
    assert json.loads(json.dumps(audit_report)) == audit_report
    assert [each["kind"] for each in audit_report["findings"]] == [
        "domain_doubled",
        "allocation_of_nobody",
        "migration_old",
    ]
    assert {each["kind"] for each in audit_report["findings"]} <= set(findings.KINDS)
    assert all(each["advice"] and each["why"].endswith(".") for each in audit_report["findings"])


def test_the_number_of_queries_does_not_grow(prepared_url):
    def count():
        with Store.open(prepared_url).read() as connection:
            return fleets.count_queries(connection, audit, NOW)

    fleets.discover(prepared_url, host("kvm0", domain("a")))
    first = count()
    fleets.discover(
        prepared_url,
        *(host(f"kvm{n}", *(domain(f"{n}-{m}") for m in range(4))) for n in range(300)),
    )
    for number in range(20):
        hold(prepared_url, uuid_of(f"{number}-1"), "kvm0", VCPU=1)
    assert count() == first <= 16


@pytest.mark.parametrize("seed", range(4))
def test_any_damage_is_mended_or_said(prepared_url, seed):
    """Random damage: the findings that heal calls safe are gone after it, and nothing else has
    changed."""
    chance = random.Random(seed)
    names = [f"i{number}" for number in range(12)]
    hosts = ["kvm1", "kvm2", "kvm3"]
    for place in hosts:
        fleets.discover(
            prepared_url, host(place, *(domain(name) for name in names[hosts.index(place) :: 3]))
        )
    for name in chance.sample(names, 5):
        damage = chance.choice(["hold", "hold", "hide", "show", "forget"])
        if damage == "hold":
            hold(
                prepared_url,
                uuid_of(name),
                chance.choice(hosts),
                VCPU=chance.randint(0, 2),
                MEMORY_MB=64,
            )
        elif damage == "hide":
            hide(prepared_url, name)
        elif damage == "show":
            place = next(place for place in hosts if place != hosts[names.index(name) % 3])
            show(prepared_url, place, name)
        else:
            write(
                prepared_url,
                sa.delete(tables.instances).where(tables.instances.c.uuid == uuid_of(name)),
            )
    table = tables.domains
    with Store.open(prepared_url).read() as connection:
        domains = connection.execute(sa.select(table)).all()
    before = look(prepared_url)["findings"]
    audit_report = heal(prepared_url, release_expired=True)
    assert audit_report["findings"] == before
    assert audit_report["mended"] == [each for each in before if each["safe"]]
    assert not any(each["safe"] for each in audit_report["left"])
    assert counted_right(prepared_url)
    assert heal(prepared_url, release_expired=True)["changed"] is False
    with Store.open(prepared_url).read() as connection:
        assert connection.execute(sa.select(table)).all() == domains


SETS = {"cpu_shared_set": "0,8,4,12", "cpu_dedicated_set": "1-3,9-11,5-7,13-15"}
PAGES = (
    "<numatune><memory nodeset='0'/></numatune><memoryBacking><hugepages><page size='2'"
    " unit='M'/></hugepages></memoryBacking>"
)


def test_cpus_pages_and_devices_that_two_have(prepared_url):
    domains = [
        machines.domain("web", 2, 64, machines.pins(1, 9, cell=0), [("pci", "0000:3b:00.0")]),
        machines.domain(
            "db", 2, 64, machines.pins(9, 10, cell=0), [("pci", "0000:3b:00.0"), ("usb", "0x1:0x2")]
        ),
        machines.domain("odd", 2, 64, machines.pins(0, 7)),
        machines.domain("big", 1, 3000, PAGES),
        machines.domain("large", 1, 2000, PAGES),
        machines.domain("usb", 1, 64, devices=[("usb", "0x1:0x2")]),
    ]
    fleets.discover(prepared_url, machines.node(*domains, options=SETS))
    found = {each["kind"]: (each["name"], each["why"]) for each in look(prepared_url)["findings"]}
    assert found == {
        "pins_overlap": ("db", "CPU 9 of kvm1 is pinned for db, web."),
        "pins_outside": (
            "odd",
            "It is pinned to CPU 0, which kvm1 does not keep for pinned vCPUs.",
        ),
        "pages_exceeded": (
            None,
            "big, large have 2500 pages of 2048 KiB in cell 0 of kvm1, which has 2048.",
        ),
        "device_doubled": ("db", "The device 0000:3b:00.0 of kvm1 is in db, web."),
    }
    assert heal(prepared_url)["mended"] == []


def test_a_sound_host_with_pins_and_an_emulator_of_its_own(prepared_url):
    """The emulator's CPU is beside the CPUs of the vCPUs, in the allocation too."""
    domains = [
        machines.domain(
            "web", 2, 64, machines.pins(1, 9, cell=0, emulator="2"), [("pci", "0000:3b:00.0")]
        )
    ]
    fleets.discover(prepared_url, machines.node(*domains, options=SETS))
    assert look(prepared_url)["findings"] == []
    provider_id = (
        sa.select(tables.resource_providers.c.id)
        .where(tables.resource_providers.c.name == "kvm1")
        .scalar_subquery()
    )
    write(
        prepared_url,
        sa.update(tables.allocations)
        .where(tables.allocations.c.used == 3)
        .values(used=5, provider_id=provider_id),
    )
    assert kinds(look(prepared_url))[0] == ("allocation_wrong", "web")
