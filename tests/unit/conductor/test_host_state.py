# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of hosts: disable, enable, and restore the state before a drain (rule S5)."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import host_state
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import services
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import drained
from ansible_collections.drover.compute.tests.unit.store import fleets

ENABLED = {"disabled": False, "disabled_reason": None, "maintenance": False, "forced_down": False}
DISABLED = {**ENABLED, "disabled": True}


@pytest.fixture
def fleet_url(prepared_url):
    fleets.discover(prepared_url, fleets.host("kvm1"), fleets.host("kvm2"))
    return prepared_url


def change(url, *arguments, host="kvm1", **named):
    """Change a host; return its new state. The state before must be the result of the last
    change.
    """
    with Store.open(url).write() as connection:
        return host_state.change(connection, host, *arguments, **named)[1]


def status(url, host="kvm1"):
    with Store.open(url).write() as connection:
        return host_state.change(connection, host)[0]


def test_a_host_is_enabled_at_first(fleet_url):
    assert status(fleet_url) == ENABLED


def test_disable_and_enable(fleet_url):
    assert change(fleet_url, "disabled", "fans") == {**DISABLED, "disabled_reason": "fans"}
    # Without a reason the old one stays; a new reason replaces it.
    assert change(fleet_url, "disabled")["disabled_reason"] == "fans"
    assert change(fleet_url, "disabled", "more fans")["disabled_reason"] == "more fans"
    assert fleets.columns(fleet_url)["disabled"] == [True, False]
    assert fleets.columns(fleet_url)["disabled_reason"] == ["more fans", None]
    assert change(fleet_url, "enabled") == ENABLED
    assert fleets.columns(fleet_url)["disabled"] == [False, False]


def test_maintenance_and_its_end(fleet_url):
    assert change(fleet_url, "maintenance", "firmware") == {
        **DISABLED,
        "disabled_reason": "firmware",
        "maintenance": True,
    }
    assert change(fleet_url, "disabled") == {**DISABLED, "disabled_reason": "firmware"}
    change(fleet_url, "maintenance")
    assert change(fleet_url, "enabled") == ENABLED


@pytest.mark.parametrize(
    "before",
    [
        [],
        [("disabled", "noisy disk")],
        [("disabled",)],
        [("maintenance", "firmware")],
        [("disabled", "noisy disk"), (None, None, True)],
    ],
)
def test_undrain_gives_back_exactly_what_was(fleet_url, before):
    for step in before:
        change(fleet_url, *step)
    state_before = status(fleet_url)
    assert change(fleet_url, "draining", "kernel")["disabled_reason"] == "kernel"
    # A second drain, after the first was killed, does not take the result of the first as the state
    # before.
    change(fleet_url, "draining", "kernel again")
    change(fleet_url, "maintenance")
    assert change(fleet_url, "restored") == state_before
    # Only once.
    assert change(fleet_url, "restored") == state_before
    change(fleet_url, "enabled")
    assert change(fleet_url, "restored") == {**ENABLED, "forced_down": state_before["forced_down"]}


def test_restoring_leaves_a_mark_that_came_meanwhile(fleet_url):
    change(fleet_url, "draining", "kernel")
    change(fleet_url, forced_down=True)
    assert change(fleet_url, "restored") == {**ENABLED, "forced_down": True}


def test_enabling_forgets_what_a_drain_remembered(fleet_url):
    change(fleet_url, "disabled", "noisy disk")
    change(fleet_url, "draining", "kernel")
    change(fleet_url, "enabled")
    assert change(fleet_url, "restored") == ENABLED
    change(fleet_url, "draining", "kernel")
    assert change(fleet_url, "restored") == ENABLED


def test_forced_down(fleet_url):
    assert change(fleet_url, forced_down=True) == {**ENABLED, "forced_down": True}
    assert fleets.columns(fleet_url)["up"] == [False, True]
    # For any heartbeat.
    fleets.discover(fleet_url, fleets.host("kvm1"))
    assert fleets.columns(fleet_url)["down_reason"] == ["forced down", None]
    assert change(fleet_url, forced_down=False) == ENABLED
    assert fleets.columns(fleet_url)["up"] == [True, True]


@pytest.mark.parametrize("state", ["enabled", "restored", None])
def test_a_reason_goes_with_a_state_that_has_one(fleet_url, state):
    change(fleet_url, "disabled", "fans")
    before = fleets.snapshot(fleet_url)
    with pytest.raises(
        DroverError, match="Host kvm1: a reason goes with disabled, maintenance or draining"
    ):
        change(fleet_url, state, "because", True)
    assert fleets.snapshot(fleet_url) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("disabled", "fans"),
        ("maintenance", "fans"),
        ("draining", "fans"),
        ("enabled",),
        (None, None, True),
    ],
)
def test_a_second_time_changes_nothing(fleet_url, arguments):
    change(fleet_url, *arguments)
    before = fleets.snapshot(fleet_url)
    change(fleet_url, *arguments)
    assert fleets.snapshot(fleet_url) == before


def test_an_unknown_host_is_told_with_those_that_are_known(fleet_url):
    with pytest.raises(
        DroverError, match="Host kvm9 is not in the store. Known hosts: kvm1, kvm2. Run drover.comp"
    ):
        change(fleet_url, "disabled", host="kvm9")
    fleets.discover(fleet_url, *(fleets.host(f"node{number:02}") for number in range(20)))
    with pytest.raises(
        DroverError, match="Known hosts: kvm1, kvm2, node00, .*node07 and 12 more\\."
    ):
        change(fleet_url, "disabled", host="KVM1")


def test_an_unknown_host_of_an_empty_store(prepared_url):
    Store.open(prepared_url).upgrade()
    with pytest.raises(
        DroverError, match="is not in the store, which is empty. Run .* drover.compute.discover"
    ):
        change(prepared_url, "disabled")


def uuids(*names):
    return [fleets.uuid_of(name) for name in names]


def to_start(url, host="kvm1"):
    """Return the names of the instances that must still be started, in that order."""
    with Store.open(url).read() as connection:
        memory = services.get(connection, host).status_before_drain
        return [each["name"] for each in drained.left_to_start(connection, host, memory)]


def settle(url, *names):
    with Store.open(url).write() as connection:
        drained.settle(connection, "kvm1", uuids(*names))


def seen(url, where="kvm1", **states):
    """Run a discovery of that host: these instances in these states, prio with a priority."""
    facts = {"prio": {"metadata": {"priority": "9"}}}
    fleets.discover(
        url,
        fleets.host(
            where,
            *(
                fleets.domain(name, state=state, **facts.get(name, {}))
                for name, state in states.items()
            ),
        ),
    )


def test_a_drain_remembers_what_it_shuts_down(fleet_url):
    seen(fleet_url, web="running", prio="running", idle="paused", off="shutoff")
    change(fleet_url, "disabled", "fans")
    change(fleet_url, "draining", "kernel")
    change(fleet_url, "draining", shuts_down=uuids("web", "off", "gone"))
    assert to_start(fleet_url) == [], "it runs still"
    seen(fleet_url, web="shutoff", prio="running", idle="paused", off="shutoff")
    # The run was killed; the next one finds web off, and shuts down the others.
    change(fleet_url, "draining", "kernel")
    change(fleet_url, "draining", shuts_down=uuids("web", "off"))
    change(fleet_url, "draining", shuts_down=uuids("prio", "idle"))
    seen(fleet_url, web="shutoff", prio="shutoff", idle="shutoff", off="shutoff")
    change(fleet_url, "maintenance")
    assert to_start(fleet_url) == ["prio", "idle", "web"]

    # Killed again: the host is back, and they are not started yet.
    found = change(fleet_url, "restored")
    assert found["disabled_reason"] == "fans" and change(fleet_url, "restored") == found
    with Store.open(fleet_url).read() as connection:
        assert services.drained_hosts(connection) == []
    assert to_start(fleet_url) == ["prio", "idle", "web"]
    settle(fleet_url, "prio", "off")
    assert to_start(fleet_url) == ["idle", "web"]
    settle(fleet_url, "idle", "web")
    assert to_start(fleet_url) == []
    with Store.open(fleet_url).read() as connection:
        assert services.get(connection, "kvm1").status_before_drain is None


def test_undrain_has_nothing_to_do_with_what_runs_or_is_elsewhere(fleet_url):
    seen(fleet_url, web="running", prio="running", idle="running")
    change(fleet_url, "draining", shuts_down=uuids("web", "prio", "idle"))
    seen(fleet_url, web="running", prio="shutoff")
    seen(fleet_url, "kvm2", idle="shutoff")
    change(fleet_url, "restored")
    assert to_start(fleet_url) == ["prio"]
    # The end is final: a later shutdown is the wish of a person.
    seen(fleet_url, web="shutoff", prio="shutoff")
    assert to_start(fleet_url) == ["prio"]


@pytest.mark.parametrize("between", ["restored", "enabled"])
def test_what_was_off_before_the_next_drain_stays_off(fleet_url, between):
    """The instance could not be started after the last drain, and no one repaired it."""
    seen(fleet_url, web="running")
    change(fleet_url, "draining", shuts_down=uuids("web"))
    seen(fleet_url, web="shutoff")
    change(fleet_url, between)
    change(fleet_url, "draining", "again", shuts_down=uuids("web"))
    assert to_start(fleet_url) == []


def test_only_a_drain_shuts_down(fleet_url):
    with pytest.raises(
        DroverError, match="shuts_down goes with the state draining, not with disabled"
    ):
        change(fleet_url, "disabled", shuts_down=uuids("web"))
