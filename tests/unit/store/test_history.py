# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The size and use of the fleet on each day: one row for each day, zone and class, in a bounded
number."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.reports import history, totals
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import NOW, domain, host

TODAY = int(NOW // history.DAY)


def kept(url, since=0):
    with Store.open(url).read() as connection:
        return {
            (each.day, each.resource_class): (each.capacity, each.used)
            for each in history.read(connection, since)
        }


def keep(url, now):
    with Store.open(url).write() as connection:
        history.keep(connection, totals.read(connection, ()), now)


def test_a_later_reading_of_the_day_replaces_the_earlier_one(prepared_url):
    fleets.discover(prepared_url, host("kvm1", domain("web", memory_mb=100)))
    keep(prepared_url, NOW)
    fleets.discover(
        prepared_url,
        host("kvm1", domain("web", memory_mb=100)),
        host("kvm2", domain("db", memory_mb=200)),
    )
    keep(prepared_url, NOW + 60)
    assert kept(prepared_url)[TODAY, "MEMORY_MB"] == (8192, 300)
    keep(prepared_url, NOW + history.DAY)
    assert {day for day, _name in kept(prepared_url)} == {TODAY, TODAY + 1}
    assert {day for day, _name in kept(prepared_url, TODAY + 1)} == {TODAY + 1}


def test_old_days_go(prepared_url):
    fleets.discover(prepared_url, host("kvm1"))
    for days in (0, 1, history.KEPT):
        keep(prepared_url, NOW + days * history.DAY)
    assert {day - TODAY for day, _name in kept(prepared_url)} == {1, history.KEPT}
