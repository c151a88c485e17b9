# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host is empty when it shows no domain, for any recorded place of instances."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import (
    occupancy,
    orders,
)
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import (
    NOW,
    domain,
    host,
    selection,
    uuid_of,
)


def occupants(url, name):
    with Store.open(url).read() as connection:
        found = occupancy.occupants(connection, name)
    return {key: [each["name"] for each in each_kind] for key, each_kind in found.items()}


def test_nothing_is_nothing(prepared_url):
    fleets.discover(prepared_url, host("kvm1"), host("kvm2", domain("web")))
    assert occupants(prepared_url, "kvm1") == {"running": [], "shut_off": [], "arriving": []}


def test_safety_03_one_that_arrived_while_its_run_was_killed(prepared_url):
    """Its migration is open and the store has it at its source; it runs on this host."""
    fleets.discover(prepared_url, host("kvm1"), host("kvm2", domain("web")))
    with Store.open(prepared_url).write(together=True) as connection:
        migration_claims.begin(
            connection, uuid_of("web"), "kvm1", "kvm1", "live-migration", NOW, "kvm2"
        )
    fleets.discover(prepared_url, host("kvm1", domain("web")), now=NOW + 1)
    assert occupants(prepared_url, "kvm1") == {
        "running": ["web"],
        "shut_off": [],
        "arriving": ["web"],
    }


def test_safety_03_one_that_is_on_its_way(prepared_url):
    fleets.discover(prepared_url, host("kvm1"), host("kvm2", domain("web")))
    with Store.open(prepared_url).write(together=True) as connection:
        migration_claims.begin(
            connection, uuid_of("web"), "kvm1", "kvm1", "live-migration", NOW, "kvm2"
        )
    assert occupants(prepared_url, "kvm1") == {"running": [], "shut_off": [], "arriving": ["web"]}
    assert occupants(prepared_url, "kvm2")["arriving"] == []


@pytest.mark.parametrize(
    "state", ["running", "paused", "crashed", "pmsuspended", "nostate", "shutdown"]
)
def test_safety_03_one_that_is_there_twice(prepared_url, state):
    """The store has it on the first host that showed it. In every state except shutoff it may
    run.
    """
    fleets.discover(prepared_url, host("kvm2", domain("web")), host("kvm1"))
    fleets.discover(prepared_url, host("kvm1", domain("web", state=state)), now=NOW + 1)
    assert occupants(prepared_url, "kvm1")["running"] == ["web"]


def test_one_that_is_only_defined_holds_nobody_up(prepared_url):
    fleets.discover(prepared_url, host("kvm1", domain("web", state="shutoff")))
    assert occupants(prepared_url, "kvm1") == {"running": [], "shut_off": ["web"], "arriving": []}


def test_what_was_there_before_is_not_there(prepared_url):
    fleets.discover(prepared_url, host("kvm1", domain("web")))
    fleets.discover(prepared_url, host("kvm1"), now=NOW + 1)
    assert occupants(prepared_url, "kvm1")["running"] == []


def test_safety_03_one_that_is_being_built_there(prepared_url):
    fleets.discover(prepared_url, host("kvm1"))
    fleets.claim(prepared_url, selection("web", "kvm1"))
    with Store.open(prepared_url).write(together=True) as connection:
        orders.begin(connection, uuid_of("web"), orders.SPAWNING, uuid_of("order"), None)
    assert occupants(prepared_url, "kvm1")["arriving"] == ["web"]
