# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes to instances without drover.compute give one event, in any order of observation; changes
by drover.compute give none."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.plugin_utils._events.instance_events import (
    InstanceEvents,
)
from ansible_collections.drover.compute.plugins.plugin_utils._events.observations import (
    DomainChanged,
    HostConnected,
    ObservedDomain,
    View,
)

WEB, DB = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"


def seen(host, state, reason="", at=1000.0, uuid=WEB):
    return DomainChanged(
        host, at, ObservedDomain(uuid, "web" if uuid == WEB else "db", state, reason)
    )


NOTHING = View()


@pytest.fixture
def instances():
    instance_events = InstanceEvents()
    assert (
        instance_events.connected(
            HostConnected(
                "kvm1",
                900,
                [ObservedDomain(WEB, "web", "running"), ObservedDomain(DB, "db", "shutoff")],
            )
        )
        == []
    )
    assert instance_events.connected(HostConnected("kvm2", 900, [])) == []
    return instance_events


def after(instances, *changes, view=NOTHING, at=1010.0):
    found = [made for change in changes for made in instances.changed(change)]
    return found + instances.tick(at, view)


def test_a_crash_is_said_with_how_often(instances):
    for number, at in enumerate((1000.0, 1100.0, 1200.0), 1):
        (made,) = after(instances, seen("kvm1", "shutoff", "crashed", at), at=at + 3)
        assert (made["type"], made["name"], made["uuid"], made["host"]) == (
            "instance_crashed",
            "web",
            WEB,
            "kvm1",
        )
        assert made["crashes_last_hour"] == number and "web crashed on kvm1" in made["sentence"]
        # The rulebook started the instance again. Its run has the lease of the host, and recorded
        # the start.
        view = View(busy_hosts={"kvm1"})
        assert after(instances, seen("kvm1", "running", at=at + 10), view=view, at=at + 20) == []
        assert instances.tick(at + 21, View(recorded={WEB: ("kvm1", True)})) == []
    (made,) = after(instances, seen("kvm1", "shutoff", "crashed", 9000.0), at=9003)
    assert made["crashes_last_hour"] == 1


def test_a_change_is_judged_when_nothing_more_comes(instances):
    assert after(instances, seen("kvm1", "shutoff", "shutdown", 1000), at=1000.9) == []
    assert (
        after(instances, seen("kvm1", "running", at=1000.9), at=1010) == []
        and instances.pending() == []
    )


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (
            seen("kvm1", "shutoff", "destroyed"),
            "instance_stopped_outside",
            "somebody switched it off",
        ),
        (seen("kvm1", "shutoff", "shutdown"), "instance_stopped_outside", "it shut itself down"),
        (seen("kvm1", "running", uuid=DB), "instance_changed_outside", "db was started on kvm1"),
        (
            seen("kvm1", "gone", "undefined", uuid=DB),
            "instance_changed_outside",
            "db was undefined on kvm1",
        ),
        (
            seen("kvm2", "running", uuid="33333333-3333-3333-3333-333333333333"),
            "instance_changed_outside",
            "is new on kvm2",
        ),
        (seen("kvm1", "shutoff", "migrated"), "instance_stopped_outside", "it left in a migration"),
    ],
)
def test_what_is_done_outside(instances, change, kind, words):
    (made,) = after(instances, change)
    assert (
        made["type"] == kind
        and words in made["sentence"]
        and made["since"].startswith("1970-01-01T00:16:40")
    )
    assert instances.tick(2000, View()) == []


def test_undefined_while_it_runs_it_runs_on(instances):
    assert after(instances, seen("kvm1", "gone", "undefined")) == []
    assert [made["type"] for made in after(instances, seen("kvm1", "shutoff", "destroyed"))] == [
        "instance_stopped_outside"
    ]


MOVE = [
    seen("kvm2", "paused"),
    seen("kvm2", "running"),
    seen("kvm1", "paused"),
    seen("kvm1", "shutoff", "migrated"),
    seen("kvm1", "gone", "undefined"),
]


@pytest.mark.parametrize(
    "order",
    [
        order
        for order in itertools.permutations(range(5))
        if order.index(2) < order.index(3) < order.index(4) and order.index(0) < order.index(1)
    ],
)
def test_a_move_by_hand_is_one_event_in_whatever_order_its_hosts_show_it(instances, order):
    (made,) = after(instances, *(MOVE[number] for number in order))
    assert (made["type"], made["source"], made["destination"], made["host"]) == (
        "migrated_outside",
        "kvm1",
        "kvm2",
        "kvm2",
    )
    assert made["changed_hosts"] == ["kvm1", "kvm2"] and "from kvm1 to kvm2" in made["sentence"]


def test_a_move_to_a_host_that_is_not_watched(instances):
    (made,) = after(instances, *MOVE[3:])
    assert (made["type"], made["destination"], made["changed_hosts"]) == (
        "migrated_outside",
        None,
        ["kvm1"],
    )


@pytest.mark.parametrize(
    "view", [View(busy_hosts={"kvm1"}), View(busy_hosts={"kvm2"}), View(busy_instances={WEB})]
)
def test_what_a_run_does_is_judged_after_it(instances, view):
    assert after(instances, *MOVE, view=view) == [] and instances.pending() == [WEB]
    assert (
        instances.tick(1100, View(recorded={WEB: ("kvm2", True)})) == []
        and instances.pending() == []
    )


def test_what_somebody_did_during_a_run_is_said_after_it(instances):
    assert (
        after(instances, seen("kvm1", "shutoff", "destroyed"), view=View(busy_hosts={"kvm1"})) == []
    )
    assert [
        made["type"] for made in instances.tick(1100, View(recorded={WEB: ("kvm1", True)}))
    ] == ["instance_stopped_outside"]


def test_a_crash_on_a_host_in_maintenance_is_not_said(instances):
    assert (
        after(
            instances,
            seen("kvm1", "shutoff", "crashed"),
            view=View(quiet={"kvm1": "in maintenance"}),
        )
        == []
    )


def test_an_io_error_is_said_at_once_and_once(instances):
    (made,) = instances.changed(seen("kvm1", "paused", "io_error"))
    assert made["type"] == "instance_paused_io_error" and "virsh resume web" in made["sentence"]
    assert after(instances, seen("kvm1", "paused", "io_error")) == []
    assert after(instances, seen("kvm1", "running", at=1100), at=1110) == []
    assert len(instances.changed(seen("kvm1", "paused", "io_error", at=1200))) == 1


def test_what_a_silent_host_had_is_forgotten(instances):
    instances.forget("kvm1")
    assert (
        instances.connected(HostConnected("kvm1", 2000, [ObservedDomain(WEB, "web", "shutoff")]))
        == []
        and instances.tick(2010, View()) == []
    )


def test_what_changed_while_libvirt_was_away_is_said(instances):
    assert (
        instances.connected(
            HostConnected("kvm1", 1000, [ObservedDomain(WEB, "web", "shutoff", "crashed")])
        )
        == []
    )
    assert [made["type"] for made in instances.tick(1010, View())] == [
        "instance_crashed",
        "instance_changed_outside",
    ]


@given(
    st.permutations([(1, MOVE[0]), (2, MOVE[1]), (3, MOVE[2]), (4, MOVE[3]), (5, MOVE[4])]),
    st.lists(st.integers(0, 4), max_size=6),
)
def test_however_late_and_often_a_move_is_seen_no_move_is_said_twice(order, repeated):
    instances = InstanceEvents()
    for host, domains in (("kvm1", [ObservedDomain(WEB, "web", "running")]), ("kvm2", [])):
        instances.connected(HostConnected(host, 900, domains))
    events = [
        made
        for _number, change in [*order, *(order[number] for number in repeated)]
        for made in instances.changed(change)
    ]
    # At the end the source reads libvirt again.
    for host, domains in (("kvm1", []), ("kvm2", [ObservedDomain(WEB, "web", "running")])):
        events += instances.connected(HostConnected(host, 1000, domains))
    events += instances.tick(1010, View())
    events += instances.tick(2000, View())
    assert [made["type"] for made in events] == ["migrated_outside"]
