# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run takes the lease of a host once, gives it back once, and writes nothing without it (rule S4)."""

from __future__ import annotations

import types

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils.conductor import drain as drain_module
from ansible_collections.drover.compute.plugins.plugin_utils.conductor.leasing import Leasing
from ansible_collections.drover.compute.plugins.plugin_utils.conductor.ports import Ports
from ansible_collections.drover.compute.plugins.plugin_utils.conductor.settings import MoveSettings
from ansible_collections.drover.compute.plugins.plugin_utils.migrations.limits import Caps
from ansible_collections.drover.compute.plugins.plugin_utils.store import Store, leases, services
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import host

CLOCK = types.SimpleNamespace(time=lambda: 0.0, monotonic=lambda: 0.0, sleep=lambda seconds: None)


def actor(name, gone=()):
    return types.SimpleNamespace(holder=name, process=name, lives=lambda process: False if process in gone else None)


@pytest.fixture(name="taken")
def counted(monkeypatch):
    """The names whose leases were taken or renewed by take(), one for each time."""
    found, kept = [], leases.take

    def take(connection, name, *arguments):
        found.append(name)
        return kept(connection, name, *arguments)

    monkeypatch.setattr(leases, "take", take)
    return found


@pytest.fixture(name="store")
def opened(prepared_url):
    fleets.discover(prepared_url, host("kvm1"), host("kvm2"))
    return Store.open(prepared_url)


def holders(store):
    with store.read() as connection:
        return {lease["name"]: lease["holder"] for lease in leases.read(connection)}


def take(store, name, who):
    with store.write() as connection:
        leases.take(connection, name, who, "by hand")


def test_what_is_held_is_not_taken_again(store, taken):
    leasing = Leasing(store, actor("a"), [].append)
    with leasing.held(["kvm1"], "drain"):
        with leasing.held(["kvm1", "kvm2"], "making room"):
            assert holders(store) == {"kvm1": "a", "kvm2": "a"}
        assert holders(store) == {"kvm1": "a"}
        with leasing.held(["kvm2"], "making room"):
            pass
    assert holders(store) == {}
    assert taken == ["kvm1", "kvm2", "kvm2"]


def test_the_lease_of_another_task_of_the_run_is_left_to_it(store):
    take(store, "kvm1", actor("a"))
    with Leasing(store, actor("a"), [].append).held(["kvm1"], "drain"):
        pass
    assert holders(store) == {"kvm1": "a"}


def test_one_that_cannot_be_had_gives_the_others_back(store):
    take(store, "kvm2", actor("b"))
    leasing = Leasing(store, actor("a"), [].append)
    for _time in range(2):
        with pytest.raises(leases.Held), leasing.held(["kvm1", "kvm2"], "drain"):
            pytest.fail("it is another's")
        assert holders(store) == {"kvm2": "b"}


class Hosts:
    """Hosts with nothing on them. While one is read, somebody else takes its lease over.

    :param at: the number of the reading at which that happens.
    """

    def __init__(self, store, at=None):
        self.store, self.at, self.read = store, at, 0

    def discover(self, name):
        self.read += 1
        if self.read == self.at:
            take(self.store, name, actor("b", gone=["a"]))
        return {"occupants": {"running": [], "shut_off": [], "arriving": []}}

    def hand(self, name):
        """Nothing is done there."""


def drained(store, hosts):
    ports = Ports(store, hosts, Leasing(store, actor("a"), [].append), [].append, CLOCK)
    question = types.SimpleNamespace(plan=lambda *arguments: {"moves": [], "unmovable": [], "shutdowns": [], "unsettled": [], "lines": []})
    request = drain_module.DrainRequest("kvm1", question, MoveSettings(Caps(2)))
    return drain_module.Drain(ports, request).run()


def service(store):
    with store.read() as connection:
        row = services.get(connection, "kvm1")
    return bool(row.disabled), bool(row.maintenance)


def test_a_drain_takes_the_lease_of_its_host_once(store, taken):
    drained(store, Hosts(store))
    assert taken == ["kvm1"]
    assert service(store) == (True, True)
    assert holders(store) == {}


@pytest.mark.parametrize("at, state", [(1, (False, False)), (2, (True, False))])
def test_a_drain_that_lost_its_lease_changes_nothing_more(store, at, state):
    with pytest.raises(leases.Lost, match="This run had the lease and lost it"):
        drained(store, Hosts(store, at))
    assert service(store) == state
    assert holders(store) == {"kvm1": "b"}
