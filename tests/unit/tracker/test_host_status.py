# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Switching hosts on and off, and giving back what was before a drain (rule S5)."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.store import Store
from ansible_collections.drover.compute.plugins.plugin_utils.tracker import host_status
from ansible_collections.drover.compute.tests.unit.store import fleets

ENABLED = {"disabled": False, "disabled_reason": None, "maintenance": False, "forced_down": False}
DISABLED = {**ENABLED, "disabled": True}


@pytest.fixture
def fleet_url(prepared_url):
    fleets.discover(prepared_url, fleets.host("kvm1"), fleets.host("kvm2"))
    return prepared_url


def change(url, *arguments, host="kvm1", **named):
    """Change a host; what it is afterwards. What came before has to be what the last change left."""
    with Store.open(url).write() as connection:
        return host_status.change(connection, host, *arguments, **named)[1]


def status(url, host="kvm1"):
    with Store.open(url).write() as connection:
        return host_status.change(connection, host)[0]


def test_a_host_is_enabled_at_first(fleet_url):
    assert status(fleet_url) == ENABLED


def test_disable_and_enable(fleet_url):
    assert change(fleet_url, "disabled", "fans") == {**DISABLED, "disabled_reason": "fans"}
    # Without a reason the one that is there stays; with one it is replaced.
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
    found = status(fleet_url)
    assert change(fleet_url, "draining", "kernel")["disabled_reason"] == "kernel"
    # A second drain, after the first was killed, does not remember what the first one made of it.
    change(fleet_url, "draining", "kernel again")
    change(fleet_url, "maintenance")
    assert change(fleet_url, "restored") == found
    # Once.
    assert change(fleet_url, "restored") == found
    change(fleet_url, "enabled")
    assert change(fleet_url, "restored") == {**ENABLED, "forced_down": found["forced_down"]}


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
    # Whatever its heartbeat says.
    fleets.discover(fleet_url, fleets.host("kvm1"))
    assert fleets.columns(fleet_url)["down_reason"] == ["forced down", None]
    assert change(fleet_url, forced_down=False) == ENABLED
    assert fleets.columns(fleet_url)["up"] == [True, True]


@pytest.mark.parametrize("state", ["enabled", "restored", None])
def test_a_reason_goes_with_a_state_that_has_one(fleet_url, state):
    change(fleet_url, "disabled", "fans")
    before = fleets.snapshot(fleet_url)
    with pytest.raises(DroverError, match="Host kvm1: a reason goes with disabled, maintenance or draining"):
        change(fleet_url, state, "because", True)
    assert fleets.snapshot(fleet_url) == before


@pytest.mark.parametrize(
    "arguments", [("disabled", "fans"), ("maintenance", "fans"), ("draining", "fans"), ("enabled",), (None, None, True)]
)
def test_a_second_time_changes_nothing(fleet_url, arguments):
    change(fleet_url, *arguments)
    before = fleets.snapshot(fleet_url)
    change(fleet_url, *arguments)
    assert fleets.snapshot(fleet_url) == before


def test_an_unknown_host_is_told_with_those_that_are_known(fleet_url):
    with pytest.raises(DroverError, match="Host kvm9 is not in the store. Known hosts: kvm1, kvm2. Run drover.comp"):
        change(fleet_url, "disabled", host="kvm9")
    fleets.discover(fleet_url, *(fleets.host(f"node{number:02}") for number in range(20)))
    with pytest.raises(DroverError, match="Known hosts: kvm1, kvm2, node00, .*node07, ...\\."):
        change(fleet_url, "disabled", host="KVM1")


def test_an_unknown_host_of_an_empty_store(prepared_url):
    Store.open(prepared_url).upgrade()
    with pytest.raises(DroverError, match="is not in the store, which is empty. Run .* drover.compute.discover"):
        change(prepared_url, "disabled")
