# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances that ran when their host went down and are off since: they are named until they are
started, stopped or removed."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement.audit import audit
from ansible_collections.drover.compute.plugins.plugin_utils._report.attention import attention
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import went_down
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import (
    node_data,
    record,
    record_domain,
)
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host, uuid_of

COMMAND = "ansible-playbook drover.compute.instance_start -e drover_instances="


def discover(url, *nodes, boots=(), now=fleets.NOW):
    """Run a discovery of hosts; return the names of the instances that went down. ``boots``: {host:
    boot id}."""
    reports = node_data.reports(list(nodes), "unused", {})
    for name, found in reports.items():
        for each in found:
            if name in boots:
                each["columns"]["facts"]["boot_id"] = boots[name]
    with Store.open(url).write() as connection:
        return [each["name"] for each in record.record(connection, reports, now)["went_down"]]


def of_store(url):
    with Store.open(url).read() as connection:
        return went_down.sentences(went_down.read(connection))


def off(name):
    return domain(name, state="shutoff")


@pytest.fixture
def url(prepared_url):
    guests = [domain("web1"), domain("web10"), domain("web2"), off("spare"), domain("auto")]
    discover(prepared_url, host("kvm1", *guests), host("kvm2"), boots={"kvm1": "a", "kvm2": "x"})
    return prepared_url


def after_a_restart(url):
    return discover(
        url,
        host("kvm1", off("web1"), off("web10"), off("web2"), off("spare"), domain("auto")),
        boots={"kvm1": "b"},
    )


def test_walk_f08_what_ran_and_is_off_is_named_with_the_command(url):
    assert after_a_restart(url) == ["web1", "web2", "web10"]
    (said,) = of_store(url)
    assert (
        said
        == "kvm1 was restarted: web1, web2, web10 ran before and went down with it. To start them:"
        f" {COMMAND}web1,web2,web10"
    )
    # The name stays until a person acts, for any number of discoveries.
    assert after_a_restart(url) == ["web1", "web2", "web10"]
    assert discover(
        url,
        host("kvm1", domain("web1"), off("web10"), off("spare"), domain("auto")),
        boots={"kvm1": "b"},
    ) == ["web10"]
    assert of_store(url)[0].endswith(f"{COMMAND}web10")


def test_walk_f08_a_resize_that_waits_to_be_confirmed_hides_nothing(url):
    with Store.open(url).write() as connection:
        node = connection.execute(
            sa.select(tables.compute_nodes.c.id).where(tables.compute_nodes.c.host == "kvm1")
        ).scalar_one()
        other = connection.execute(
            sa.select(tables.compute_nodes.c.id).where(tables.compute_nodes.c.host == "kvm2")
        ).scalar_one()
        ends = {
            "source": "kvm2",
            "source_node_id": other,
            "destination": "kvm1",
            "destination_node_id": node,
        }
        times = {"created_at": fleets.NOW, "updated_at": fleets.NOW}
        row = {
            "uuid": uuid_of("resize"),
            "instance_uuid": uuid_of("web1"),
            "instance_name": "web1",
            "type": "resize",
            "status": "finished",
        }
        connection.execute(sa.insert(tables.migrations).values(**row, **ends, **times))
    assert after_a_restart(url) == ["web1", "web2", "web10"]
    assert of_store(url)[0].endswith(f"{COMMAND}web1,web2,web10")


def test_walk_f08_audit_and_report_name_it(url):
    after_a_restart(url)
    with Store.open(url).read() as connection:
        found = audit(connection, fleets.NOW)
        listing = went_down.listing(connection)
    (finding,) = [each for each in found["findings"] if each["kind"] == "went_down"]
    assert finding["host"] == "kvm1" and finding["level"] == "information"
    assert (
        "web1, web2, web10 ran before" in finding["why"]
        and f"{COMMAND}web1,web2,web10" in finding["heal"]
    )
    overview = {
        "went_down": listing,
        "leases": [],
        "migrations": [],
        "power_events": [],
        "rolling": [],
    }
    (look,) = attention([], [], overview, [])
    assert (
        look["name"] == "kvm1"
        and look["command"] == f"{COMMAND}web1,web2,web10"
        and "ran before" in look["text"]
    )


def test_walk_f08_a_guest_that_was_shut_down_is_not_named(url):
    """The boot of the host is the same, so a person shut the guest down; or the guest was off
    before; or no boot is known."""
    assert (
        discover(url, host("kvm1", off("web1"), domain("web2"), off("spare")), boots={"kvm1": "a"})
        == []
    )
    assert (
        discover(url, host("kvm1", off("web1"), domain("web2"), off("spare")), boots={"kvm1": "b"})
        == []
    )
    assert discover(url, host("kvm1", off("web1"), off("web2"), off("spare"))) == []
    assert of_store(url) == []


def test_walk_f08_what_a_person_has_stopped_is_not_named_any_more(url):
    """The instance was recorded by a command that read it."""
    after_a_restart(url)
    (report,) = node_data.reports([host("kvm1", off("web1"))], "unused", {})["kvm1"]
    with Store.open(url).write() as connection:
        (shown,) = report["domains"]
        record_domain.record_seen(connection, uuid_of("web1"), "kvm1", shown, fleets.NOW)
    assert "web1," not in of_store(url)[0] and "web2, web10" in of_store(url)[0]


def test_walk_f08_what_was_evacuated_runs_elsewhere(url):
    with Store.open(url).write() as connection:
        migration_claims.begin(
            connection,
            uuid_of("web1"),
            "kvm2",
            "kvm2",
            migration_claims.EVACUATION,
            fleets.NOW,
            "kvm1",
        )
    with Store.open(url).read() as connection:
        assert went_down.read(connection) == {}
    discover(url, host("kvm2", domain("web1")), boots={"kvm2": "x"})
    assert "web1" not in after_a_restart(url)


def test_walk_f08_odd_names_are_their_uuids_in_the_command(prepared_url):
    discover(prepared_url, host("kvm1", domain("my web, old")), boots={"kvm1": "a"})
    discover(prepared_url, host("kvm1", off("my web, old")), boots={"kvm1": "b"})
    assert of_store(prepared_url)[0].endswith(f"{COMMAND}{uuid_of('my web, old')}")
