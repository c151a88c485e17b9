# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run takes the lease of a host once, gives it back once, and writes nothing without it (rule
S4).
"""

from __future__ import annotations

import types

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import drain as drain_module
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import host_state
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.leasing import Leasing
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import DrainQuestion
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.ports import Ports
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.settings import MoveSettings
from ansible_collections.drover.compute.plugins.plugin_utils._records.orders import MigrationLimits
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import services
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import occupancy
from ansible_collections.drover.compute.plugins.plugin_utils._store.runs import leases
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host

CLOCK = types.SimpleNamespace(time=lambda: 0.0, monotonic=lambda: 0.0, sleep=lambda seconds: None)


def actor(name, gone=()):
    return types.SimpleNamespace(
        holder=name, process=name, lives=lambda process: False if process in gone else None
    )


@pytest.fixture(name="taken")
def counted(monkeypatch):
    """Return the names of the hosts with a lease that take() took or renewed, one for each time."""
    names, kept = [], leases.take

    def take(connection, name, *arguments):
        names.append(name)
        return kept(connection, name, *arguments)

    monkeypatch.setattr(leases, "take", take)
    return names


@pytest.fixture(name="store")
def opened(prepared_url):
    fleets.discover(prepared_url, host("kvm1"), host("kvm2"))
    return Store.open(prepared_url)


@pytest.fixture(name="holding")
def with_an_instance(prepared_url):
    """Return a store with an instance on kvm1 that is off and stays."""
    fleets.discover(
        prepared_url, host("kvm1", domain("kept", state="shutoff", snapshots=True)), host("kvm2")
    )
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
        with pytest.raises(leases.LeaseHeld), leasing.held(["kvm1", "kvm2"], "drain"):
            pytest.fail("it is another's")
        assert holders(store) == {"kvm2": "b"}


class Hosts:
    """Hosts that show the content of the store. During one reading, another run takes over the
    lease of the host.

    :param at: number of the reading at which that happens.
    """

    def __init__(self, store, at=None):
        self.store, self.at, self.read = store, at, 0

    def discover(self, name):
        self.read += 1
        if self.read == self.at:
            take(self.store, name, actor("b", gone=["a"]))
        with self.store.read() as connection:
            return {"occupants": occupancy.occupants(connection, name)}

    def hand(self, name):
        """Do nothing on the host."""

    def names(self):
        return []


def drained(store, hosts, unmovable="skip", names=("kvm1",)):
    ports = Ports(store, hosts, Leasing(store, actor("a"), [].append), [].append, CLOCK)
    question = DrainQuestion(Policy.from_mapping({}), MigrationLimits(2))
    request = drain_module.DrainRequest(
        names, question, MoveSettings(MigrationLimits(2)), unmovable=unmovable
    )
    return drain_module.Drain(ports, request).run()


def service(store, name="kvm1"):
    with store.read() as connection:
        row = services.get(connection, name)
    return bool(row.disabled), bool(row.maintenance)


def test_a_drain_takes_the_lease_of_its_host_once(store, taken):
    drained(store, Hosts(store))
    assert taken == ["kvm1"]
    assert service(store) == (True, True)
    assert holders(store) == {}


@pytest.mark.parametrize("at, state", [(1, (False, False)), (2, (True, False))])
def test_a_drain_that_lost_its_lease_changes_nothing_more(holding, at, state):
    with pytest.raises(leases.LeaseLost, match="This run had the lease and lost it"):
        drained(holding, Hosts(holding, at))
    assert service(holding) == state
    assert holders(holding) == {"kvm1": "b"}


def test_a_drain_of_an_empty_host_that_lost_its_lease_changes_nothing_more(store):
    with pytest.raises(leases.LeaseLost):
        drained(store, Hosts(store, 1))
    assert service(store) == (True, False), "it was disabled before it was read"
    assert holders(store) == {"kvm1": "b"}


def test_an_empty_host_is_disabled_and_then_read_once(store):
    hosts, seen = Hosts(store), []
    kept = hosts.discover
    hosts.discover = lambda name: seen.append(service(store)) or kept(name)
    drained(store, hosts)
    assert seen == [(True, False)] and service(store) == (True, True)


def test_a_host_with_something_on_it_is_read_again_at_the_end(holding):
    hosts = Hosts(holding)
    drained(holding, hosts)
    assert hosts.read == 2 and service(holding) == (True, True)


class Surprising(Hosts):
    """Hosts with a domain that the store does not have."""

    def discover(self, name):
        fleets.discover(self.url, host("kvm1", domain("kept", snapshots=True)), host("kvm2"))
        return super().discover(name)


class Silent(Hosts):
    def discover(self, name):
        raise DroverError("it does not answer")


@pytest.mark.parametrize(
    "kind, words",
    [(Surprising, "cannot move, so nothing was changed"), (Silent, "does not answer")],
)
@pytest.mark.parametrize("before", ["enabled", "disabled", "maintenance"])
def test_a_drain_that_does_not_begin_leaves_the_state_of_its_host(
    store, prepared_url, kind, words, before
):
    with store.write() as connection:
        host_state.change(connection, "kvm1", before)
    was = service(store)
    kind.url = prepared_url
    with pytest.raises(DroverError, match=words):
        drained(store, kind(store), "fail")
    assert service(store) == was


BOTH = ("kvm2", "kvm1")


def test_a_drain_of_two_hosts_has_both_leases_or_none(store, taken):
    """Two runs with the same hosts in different order cannot have one each."""
    take(store, "kvm2", actor("b"))
    hosts = Hosts(store)
    with pytest.raises(
        leases.LeaseHeld, match="^kvm2 is being worked on by b .* Nothing was done."
    ):
        drained(store, hosts, names=BOTH)
    assert taken == [
        "kvm2",
        "kvm1",
        "kvm2",
    ], "in the order of their names, whatever the order they are given in"
    assert holders(store) == {"kvm2": "b"} and hosts.read == 0
    assert [service(store, name) for name in BOTH] == [(False, False), (False, False)]


def test_two_hosts_are_disabled_at_once_and_before_they_are_read(store):
    hosts, seen = Hosts(store), []
    kept = hosts.discover
    hosts.discover = lambda name: seen.append([service(store, each) for each in BOTH]) or kept(name)
    result = drained(store, hosts, names=[*BOTH, "kvm1"])
    assert seen == [[(True, False), (True, False)]] * 2, "each is read once"
    assert [(each["host"], each["status"]) for each in result["hosts"]] == [
        ("kvm1", "maintenance"),
        ("kvm2", "maintenance"),
    ]
    assert holders(store) == {}


def test_an_unknown_host_is_refused_before_anything_is_done(store, taken):
    with pytest.raises(DroverError, match="kvm9") as refused:
        drained(store, Hosts(store), names=["kvm1", "kvm9"])
    assert taken == [] and service(store) == (False, False)
    assert [each["status"] for each in refused.value.details["hosts"]] == ["failed", "failed"]


@pytest.mark.parametrize("names", [[], [" , "]])
def test_no_host_at_all_is_refused(store, names):
    with pytest.raises(DroverError, match="Which host"):
        drained(store, Hosts(store), names=names)


@pytest.mark.parametrize("at", [1, 2])
def test_a_run_that_lost_one_of_its_leases_ends_for_all_hosts(store, at):
    hosts = Hosts(store, at)
    with pytest.raises(leases.LeaseLost):
        drained(store, hosts, names=BOTH)
    assert hosts.read == 2 and not any(service(store, name)[1] for name in BOTH)


class Half(Hosts):
    """kvm2 does not answer."""

    def discover(self, name):
        if name == "kvm2":
            raise DroverError("kvm2 does not answer")
        return super().discover(name)


def test_all_or_nothing_where_one_of_two_hosts_does_not_answer(store):
    with pytest.raises(
        DroverError, match="So kvm2 cannot be drained, and no drain of kvm1 was begun"
    ) as refused:
        drained(store, Half(store), "fail", BOTH)
    assert [service(store, name) for name in BOTH] == [(False, False), (False, False)]
    assert [each["status"] for each in refused.value.details["hosts"]] == ["failed", "failed"]


@pytest.mark.parametrize("unmovable", ["skip", "shutdown"])
def test_a_host_that_does_not_answer_keeps_no_other_from_its_drain(store, unmovable):
    with pytest.raises(
        DroverError,
        match=(
            "kvm1 is empty and in maintenance.* kvm2 is not drained, and stays disabled: kvm2 does"
        ),
    ) as ended:
        drained(store, Half(store), unmovable, BOTH)
    assert (service(store, "kvm1"), service(store, "kvm2")) == ((True, True), (True, False))
    assert [(each["host"], each["status"]) for each in ended.value.details["hosts"]] == [
        ("kvm1", "maintenance"),
        ("kvm2", "failed"),
    ]


def test_hosts_of_which_none_answers_are_left_as_they_were(store):
    with pytest.raises(
        DroverError,
        match="kvm1 is not drained: it does not answer kvm2 is not drained: it does not answer",
    ):
        drained(store, Silent(store), "skip", BOTH)
    assert [service(store, name) for name in BOTH] == [(False, False), (False, False)]


def test_a_second_drain_that_does_not_begin_leaves_the_first_as_it_was(store):
    drained(store, Hosts(store))
    with pytest.raises(DroverError):
        drained(store, Silent(store))
    assert service(store) == (True, True)
    with store.read() as connection:
        assert services.is_drained(services.get(connection, "kvm1").status_before_drain)
