# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The event source's data from the store, beside the reports of hosts."""

from __future__ import annotations

import types

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._conductor import host_state
from ansible_collections.drover.compute.plugins.plugin_utils._events.fleet_view import FleetView
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import power
from ansible_collections.drover.compute.plugins.plugin_utils._store.reports import watched
from ansible_collections.drover.compute.plugins.plugin_utils._store.runs import leases
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import record
from ansible_collections.drover.compute.tests.unit.store import fleets

ACTOR = types.SimpleNamespace(holder="somebody", process="elsewhere", lives=lambda process: None)


@pytest.fixture
def url(prepared_url):
    web, off = fleets.domain("web"), fleets.domain("off", state="shutoff")
    fleets.discover(
        prepared_url,
        fleets.host("kvm1", web, off),
        fleets.host("kvm2", migration_address="10.0.0.2"),
    )
    return prepared_url


def written(url, function):
    with Store.open(url).write() as connection:
        return function(connection)


def read(url, function, *args):
    with Store.open(url).read() as connection:
        return function(connection, *args)


def test_the_addresses_of_hosts(url):
    assert read(url, watched.addresses) == {"kvm1": "kvm1", "kvm2": "10.0.0.2"}


def test_who_may_be_down_on_purpose(url):
    assert read(url, watched.quiet) == {}
    written(url, lambda connection: host_state.change(connection, "kvm1", "maintenance", "fans"))
    written(url, lambda connection: host_state.change(connection, "kvm2", "draining", "kernel"))
    assert read(url, watched.quiet) == {"kvm1": "in maintenance", "kvm2": "drained"}


def test_a_host_whose_evacuation_was_killed_is_not_quiet_before_it_is_empty(url):
    """An evacuation records the host as drained, switched off and forced down before it restarts
    anything.
    """

    def evacuate(connection):
        event = power.begin(connection, "kvm1", "fence", "redfish", None, fleets.NOW)
        power.finish(connection, event["uuid"], "completed", "off", None, None, fleets.NOW)
        host_state.change(connection, "kvm1", "draining", "evacuated", forced_down=True)

    written(url, evacuate)
    assert read(url, watched.quiet) == {}
    written(
        url,
        lambda connection: connection.execute(sa.update(tables.domains).values(state="shutoff")),
    )
    assert list(read(url, watched.quiet)) == ["kvm1"]


def test_a_host_that_was_switched_off_empty_is_quiet(url):
    def switch_off(connection):
        event = power.begin(connection, "kvm2", "shutdown", "redfish", None, fleets.NOW)
        power.finish(connection, event["uuid"], "completed", "off", None, None, fleets.NOW)

    written(url, switch_off)
    assert list(read(url, watched.quiet)) == ["kvm2"]


def test_what_runs_work_on(url):
    assert read(url, watched.busy) == (set(), set())
    written(url, lambda connection: leases.take(connection, "kvm2", ACTOR, "drain"))
    web = fleets.uuid_of("web")
    written(
        url,
        lambda connection: connection.execute(
            sa.update(tables.instances).where(tables.instances.c.uuid == web).values(order_uuid="x")
        ),
    )
    assert read(url, watched.busy) == ({"kvm2"}, {web})
    # A dead run works on no instance.
    written(
        url, lambda connection: connection.execute(sa.update(tables.leases).values(expires_at=1))
    )
    assert read(url, watched.busy)[0] == set()


def test_where_instances_are_recorded(url):
    uuids = [fleets.uuid_of(name) for name in ("web", "off", "nobody")]
    assert read(url, watched.recorded, uuids) == {
        uuids[0]: ("kvm1", True),
        uuids[1]: ("kvm1", False),
    }


def test_the_view_and_the_findings(url):
    view = FleetView(url).view([fleets.uuid_of("web")])
    assert view.recorded == {fleets.uuid_of("web"): ("kvm1", True)} and view.quiet == {}
    found = FleetView(url).findings()
    assert found.capacity["with_loss"]["survives"] and found.audit == []


def test_hosts_that_need_a_reboot(url):
    sign = "kernel 1 runs, and 2 is installed"
    facts = {
        "hypervisor_hostname": "kvm3",
        "hypervisor_type": "QEMU",
        "memory_mb": 4096,
        "cpu": {"count": 4},
        "reboot_sign": sign,
    }
    assert read(url, watched.reboot_signs) == {}
    fleets.discover(url, {"host": "kvm3", "hypervisor": facts})
    assert read(url, watched.reboot_signs) == {"kvm3": sign} == FleetView(url).findings().reboots
    written(url, lambda connection: host_state.change(connection, "kvm3", "maintenance", "reboot"))
    assert read(url, watched.reboot_signs) == {}
    written(url, lambda connection: host_state.change(connection, "kvm3", "enabled"))
    fleets.discover(url, {"host": "kvm3", "hypervisor": {**facts, "reboot_sign": None}})
    assert read(url, watched.reboot_signs) == {}


def test_f08_a_host_that_has_left_is_not_watched(url):
    """Its instances are still in the store. An alarm about its silence at night would be wrong."""
    with Store.open(url).write() as connection:
        record.record(connection, {"kvm1": []}, fleets.NOW)
    assert read(url, watched.addresses) == {"kvm2": "10.0.0.2"}
