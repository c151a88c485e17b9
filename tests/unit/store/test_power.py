# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Power events: the intent, then the result."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import power, services
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import record
from ansible_collections.drover.compute.tests.unit.store import fleets


@pytest.fixture(name="store")
def opened(prepared_url):
    store = Store.open(prepared_url)
    with store.write() as connection:
        services.heartbeat(connection, ["kvm1"], 1000)
    return store


def begin(store, action="hard_off", host="kvm1", boot_id="old"):
    with store.write() as connection:
        return power.begin(connection, host, action, "redfish", boot_id, 2000)


def finish(store, event, status="completed", power_state="off", boot_id=None, message=None):
    with store.write() as connection:
        return power.finish(connection, event["uuid"], status, power_state, boot_id, message, 2010)


def read(store, host="kvm1"):
    with store.read() as connection:
        return power.last(connection, host), services.get(connection, host).last_error


def test_the_intent_is_there_before_the_result(store):
    assert read(store) == (None, None)
    event = begin(store)
    last, error = read(store)
    assert last == event and last["status"] == "running" and error is None
    done = finish(store, event)
    last, error = read(store)
    assert last == done
    assert (last["status"], last["power_state"], last["boot_id"]) == ("completed", "off", "old")
    assert (last["created_at"], last["updated_at"]) == (2000, 2010)
    # A host without power is down, until a discovery reaches it.
    assert error == "switched off (hard_off) by drover.compute.power"


def test_the_boot_that_came_of_it_replaces_the_one_before(store):
    finish(store, begin(store, "startup"), power_state="on", boot_id="new")
    last, error = read(store)
    assert last["boot_id"] == "new" and error is None


def test_what_failed_proves_nothing_about_the_host(store):
    finish(store, begin(store, "fence"), "failed", "unknown", message="it says on")
    last, error = read(store)
    assert (last["status"], last["message"], error) == ("failed", "it says on", None)


def test_an_event_ends_once(store):
    event = begin(store)
    finish(store, event)
    with pytest.raises(DroverError, match="is completed already; nothing was recorded"):
        finish(store, event, "failed")
    with pytest.raises(DroverError, match="is not in the store"):
        finish(store, {"uuid": "nothing"})


def test_an_unknown_host(store):
    with pytest.raises(DroverError, match="Host kvm9 is not in the store"):
        begin(store, host="kvm9")


def test_when_a_driver_last_fenced_a_host(store):
    """Rule S3: the word of a person is not a fencing, nor is a failed fencing."""
    with store.read() as connection:
        assert power.last_fencing(connection) is None
    finish(store, begin(store, "fence"), "failed", "unknown")
    finish(store, begin(store, "hard_off"))
    with store.write() as connection:
        event = power.begin(connection, "kvm1", "fence", power.OPERATOR, None, 2000)
        power.finish(connection, event["uuid"], "completed", "off", None, None, 2001)
        assert power.last_fencing(connection) is None
    finish(store, begin(store, "fence"))
    with store.read() as connection:
        assert power.last_fencing(connection) == 2010


def test_who_looks_dead_at_the_same_time(store):
    """Rule S3: hosts that are down for a known reason, and hosts that have been down for long, do
    not count."""
    names = [f"kvm{number}" for number in range(2, 9)]
    with store.write() as connection:
        services.heartbeat(connection, ["kvm1", *names], 10_000)
        services.heartbeat(connection, ["kvm3"], 10_000 - power.SAME_TIME - 1)  # died long before
        for name in ("kvm1", "kvm2", "kvm3", "kvm4", "kvm5"):
            services.record_unreachable(connection, name, "timed out", 10_100)
        services.change(connection, services.get(connection, "kvm4"), {"maintenance": True})
        services.change(connection, services.get(connection, "kvm5"), {"forced_down": True})
    finish(store, begin(store, host="kvm6"))
    with store.read() as connection:
        assert power.looking_dead(connection, "kvm1") == (
            {"kvm1", "kvm2", "kvm7", "kvm8"},
            {"kvm1", "kvm2"},
        )
        # The host itself counts, in any state.
        assert power.looking_dead(connection, "kvm5")[1] == {"kvm1", "kvm2", "kvm5"}


def test_f08_hosts_that_have_left_do_not_make_the_fleet_larger(prepared_url):
    """Rule S3: both of the two remaining hosts look dead; removed hosts that are still in the store
    do not count."""
    old = [f"old{number}" for number in range(4)]
    fleets.discover(
        prepared_url,
        *[fleets.host(name, fleets.domain(f"vm-{name}")) for name in ("kvm1", "kvm2", *old)],
    )
    store = Store.open(prepared_url)
    with store.write() as connection:
        record.record(connection, {name: [] for name in old[:3]}, fleets.NOW)
        for name in ("kvm1", "kvm2"):
            services.record_unreachable(connection, name, "timed out", fleets.NOW)
    with store.read() as connection:
        assert power.looking_dead(connection, "kvm1") == (
            {"kvm1", "kvm2", "old3"},
            {"kvm1", "kvm2"},
        )
        # The last old host was removed only from the inventory.
        assert power.looking_dead(connection, "kvm1", ["kvm1", "kvm2"]) == (
            {"kvm1", "kvm2"},
            {"kvm1", "kvm2"},
        )
