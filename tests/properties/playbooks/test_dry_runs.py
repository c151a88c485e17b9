# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dry runs report the changes of a real run, and predict if it changes something."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import terminal
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import services
from ansible_collections.drover.compute.tests.unit.action.running import run


@pytest.fixture(name="act")
def acting(request, fleet_url, monkeypatch):
    """Run a module on hypervisors of libvirt's test driver; return its result with the lines that
    were shown."""
    request.getfixturevalue("there")
    lines = []
    monkeypatch.setattr(terminal, "show", lines.append)

    def act(module, check=False, **args):
        lines.clear()
        return {
            **run(module, None, check=check, store_url=fleet_url, **args),
            "lines": " | ".join(lines),
        }

    return act


def reason(url, host):
    with Store.open(url).read() as connection:
        return services.get(connection, host).disabled_reason


def test_walk_f14_a_dry_run_of_a_drain_predicts_changed(act):
    """The old message was that nothing would change."""
    assert act("drain", True, host="kvm2")["changed"] is True
    # A plan is not a dry run: it changes nothing, and says so.
    assert act("drain", host="kvm2", plan_only=True)["changed"] is False
    assert act("drain", host="kvm2")["changed"] is True
    assert act("drain", True, host="kvm2")["changed"] is False


def test_walk_f24_a_second_drain_without_a_reason_keeps_the_first_ones(act, fleet_url):
    act("drain", host="kvm2", reason="disk swap ticket 42")
    assert (
        act("drain", host="kvm2")["changed"] is False
        and reason(fleet_url, "kvm2") == "disk swap ticket 42"
    )
    act("drain", host="kvm2", reason="new kernel")
    assert reason(fleet_url, "kvm2") == "new kernel"
    act("undrain", host="kvm2")
    act("drain", host="kvm2")
    assert reason(fleet_url, "kvm2") == "drained by drover.compute"


def test_walk_f13_undrain_says_what_would_be(act):
    act("drain", host="kvm2")
    answer = act("undrain", True, host="kvm2")
    assert (
        answer["changed"] is True
        and "kvm2 would be as it was before its drain or evacuation: enabled." in answer["message"]
    )
    answer = act("undrain", host="kvm2")
    assert "kvm2 is as it was before its drain or evacuation: enabled." in answer["message"]


def test_walk_f23_start_and_stop_say_what_would_be(act):
    answer = act("instance", True, state="stopped", instances=["web", "db"])
    assert (
        answer["changed"] is True
        and "web on kvm1: would be shut down." in answer["lines"]
        and "db on kvm1: would be shut down." in answer["lines"]
    )
    answer = act("instance", True, state="running", instances=["web"])
    assert answer["changed"] is False and "web on kvm1: nothing would change." in answer["lines"]
    assert (
        "would"
        not in act("instance", state="stopped", instances=["web"], force=True, timeout=0)["lines"]
    )


def test_walk_f23_a_resize_says_what_would_be(act):
    answer = act("instance_resize", True, instances=["web"], flavor="big")
    assert answer["changed"] is True
    assert (
        "web: would be resized on kvm1: 1 vCPU, 64 MiB -> 2 vCPU, 128 MiB. It would be shut down"
        " for that, and started again." in answer["lines"]
    )


def test_what_is_there_already_is_said(act):
    """A move to the own host and a resize to the own size said nothing at all."""
    for check in (True, False):
        moved = act("instance_migrate", check, instances=["web"], host="kvm1")
        assert not moved["changed"] and moved["lines"].startswith("web: it is on kvm1 already")
        resized = act("instance_resize", check, instances=["web"], vcpus=1, memory_mb=64)
        assert not resized["changed"]
        assert resized["lines"].startswith("web: it has that size on kvm1 already")
