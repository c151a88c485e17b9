# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dead host had the guest with the store. Another machine evacuates it from the nightly export;
later the store, back again, learns the result."""

from __future__ import annotations

import time

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.copies import transfer
from ansible_collections.drover.compute.plugins.plugin_utils._store.copies.export_file import Export
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import services
from ansible_collections.drover.compute.tests.unit.conductor.test_evacuation import (
    World,
    host,
    instance,
)
from ansible_collections.drover.compute.tests.unit.store import fleets

GUESTS = {"db": "running", "off": "shutoff", "web": "running"}


@pytest.fixture
def world(prepared_url):
    return World(prepared_url, instance("db"), instance("off", state="shutoff"), instance("web"))


def at(world, url):
    """Use the same fleet with another store."""
    world.url = url
    return world


def is_down(url):
    with Store.open(url).write() as connection:
        services.record_unreachable(connection, "kvm1", "no route to host", time.time())


def rescue_store(world, tmp_path):
    """Put the nightly export of the store into a new store on another machine."""
    path, url = str(tmp_path / "drover.sqlite"), f"sqlite:///{tmp_path / 'rescue.db'}"
    with Store.open(world.url).read() as connection:
        transfer.export(connection, path, time.time())
    with Export(path) as export, Store.open(url).write() as connection:
        transfer.load(connection, export)
    return url


def test_issue_44_the_rescue_store_restarts_all_and_the_store_learns_it(world, tmp_path):
    first, rescue = world.url, rescue_store(world, tmp_path)
    # The store is lost with kvm1; the rescue store reads the living hosts, and evacuates.
    at(world, rescue).look()
    is_down(rescue)
    outcome = world.run()
    assert world.where() == GUESTS and not (outcome["left"] or outcome["lost"])
    calls = list(world.calls)
    # The guest with the store runs again. The store has all guests on kvm1; the same two commands
    # bring it up to date, and start nothing.
    at(world, first).look()
    is_down(first)
    outcome = world.run()
    assert (
        world.calls == calls
        and world.where() == GUESTS
        and not (outcome["restarts"] or outcome["left"] or outcome["lost"])
    )
    places = {
        name: next(host for host, found in world.there.items() if name in found) for name in GUESTS
    }
    with Store.open(first).read() as connection:
        service = services.get(connection, "kvm1")
    assert service.forced_down and {status for _name, status in world.statuses()} == {"done"}
    assert world.holds() == {name: {"kvm1", place} for name, place in places.items()}
    # kvm1 comes back with its old definitions: the store has the guests on their present hosts, and
    # none twice.
    world.look()
    discovered = fleets.discover(
        first, host("kvm1", *(instance(name, state="shutoff") for name in GUESTS)), now=time.time()
    )
    assert sorted(discovered["stale"]) == sorted(GUESTS) and discovered["doubled"] == []


def test_issue_44_a_guest_that_has_moved_since_the_export_is_left_where_it_runs(world, tmp_path):
    """Between the export and the death of kvm1 web was moved to kvm2; the rescue store has it on
    kvm1.
    """
    rescue = rescue_store(world, tmp_path)
    world.there["kvm2"]["web"] = "running"
    at(world, rescue).look()
    is_down(rescue)
    world.run()
    assert (
        ("kvm2", "web") not in world.calls
        and ("kvm3", "web") not in world.calls
        and world.where() == GUESTS
    )


def test_issue_44_nothing_starts_while_a_host_that_may_have_it_was_not_read(world, tmp_path):
    """An export is old: only hosts that answer show instances that were made or moved since."""
    rescue = rescue_store(world, tmp_path)
    at(world, rescue)
    fleets.discover(rescue, host("kvm2"), now=time.time())
    is_down(rescue)
    left = world.run(read=("kvm2",))
    assert world.calls == [] and {each["name"] for each in left["left"]} == set(GUESTS)
