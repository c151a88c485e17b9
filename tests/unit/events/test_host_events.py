# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that are silent, come back, or come and go: each change gives one event, and a change on
purpose gives none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.plugin_utils._events.host_events import HostEvents
from ansible_collections.drover.compute.plugins.plugin_utils._events.observations import (
    HostAnswered,
    HostConnected,
    HostLost,
    View,
)

HOSTS = [f"kvm{number}" for number in range(1, 6)]

NOTHING = View()


@pytest.fixture
def hosts():
    found = HostEvents(silent_seconds=20, flap_seconds=300)
    found.watch(HOSTS)
    return found


def fall(hosts, name, at, means="silent"):
    hosts.lost(HostLost(name, at, "it closed the connection"))
    hosts.answered(HostAnswered(name, at + 1, means, "Connection timed out"))


def types(found):
    return [each["type"] for each in found]


def run(hosts, begin, end, view=NOTHING):
    return [made for at in range(begin, end) for made in hosts.tick(at, view)]


def test_a_silent_host_is_said_once_and_then_that_it_is_back(hosts):
    fall(hosts, "kvm1", 1000)
    assert run(hosts, 1000, 1020) == []
    (made,) = run(hosts, 1020, 1200)
    assert (made["type"], made["host"], made["name"], made["uuid"]) == (
        "host_silent",
        "kvm1",
        "kvm1",
        None,
    )
    assert made["since"] == "1970-01-01T00:16:40+00:00"
    assert (
        "neither its libvirt nor SSH answers (Connection timed out)" in made["sentence"]
        and "drover.compute.evacuate" in made["sentence"]
    )
    assert types(hosts.connected(HostConnected("kvm1", 1200, []))) == ["host_back"]
    assert (
        hosts.connected(HostConnected("kvm1", 1201, [])) == []
        and run(hosts, 1201, 1600) == []
        and hosts.quiet
    )


def test_a_short_loss_is_nothing(hosts):
    fall(hosts, "kvm1", 1000)
    assert run(hosts, 1000, 1015) == []
    assert hosts.connected(HostConnected("kvm1", 1015, [])) == [] and run(hosts, 1015, 1400) == []


def test_nothing_is_said_before_it_was_looked_at(hosts):
    hosts.lost(HostLost("kvm1", 1000, ""))
    assert run(hosts, 1000, 1100) == []


@pytest.mark.parametrize(("means", "login"), [("login", True), ("refused", False)])
def test_only_its_libvirt_is_dead(hosts, means, login):
    fall(hosts, "kvm1", 1000, means)
    (made,) = run(hosts, 1000, 1100)
    assert (made["type"], made["login"]) == (
        "libvirt_dead_alone",
        login,
    ) and "nothing is to be evacuated" in made["sentence"]
    # Now the host dies: this is another event.
    hosts.answered(HostAnswered("kvm1", 1101, "silent", ""))
    assert types(run(hosts, 1101, 1200)) == ["host_silent"]


def test_what_nobody_understands_is_no_silence(hosts):
    fall(hosts, "kvm1", 1000, "unclear")
    assert run(hosts, 1000, 1100) == []


@pytest.mark.parametrize("why", ["in maintenance", "drained"])
def test_a_host_that_may_be_down_is_not_said(hosts, why):
    fall(hosts, "kvm1", 1000)
    assert run(hosts, 1000, 1100, View(quiet={"kvm1": why})) == []
    # The maintenance has ended, and the host is still away.
    assert types(run(hosts, 1100, 1200)) == ["host_silent"]


def test_half_of_the_fleet_is_one_event_and_what_stays_is_said(hosts):
    for name in HOSTS[:3]:
        fall(hosts, name, 1000)
    (made,) = run(hosts, 1000, 1100)
    assert (made["type"], made["host"], made["hosts"]) == ("fleet_silent", None, HOSTS[:3])
    assert "3 of 5 hosts" in made["sentence"] and "nothing is done" in made["sentence"]
    assert types(hosts.connected(HostConnected("kvm1", 1100, []))) == ["host_back"]
    assert types(hosts.connected(HostConnected("kvm2", 1100, []))) == ["host_back"]
    assert [(made["type"], made["host"]) for made in run(hosts, 1100, 1200)] == [
        ("host_silent", "kvm3")
    ]


def test_hosts_that_were_not_looked_at_yet_count_as_dead_for_that(hosts):
    fall(hosts, "kvm1", 1000)
    for name in HOSTS[1:3]:
        hosts.lost(HostLost(name, 1015, ""))
    assert types(run(hosts, 1000, 1025)) == ["fleet_silent"]


def test_hosts_in_maintenance_do_not_count_for_that(hosts):
    view = View(quiet=dict.fromkeys(HOSTS[2:], "in maintenance"))
    for name in HOSTS[1:]:
        fall(hosts, name, 1000)
    assert [(made["type"], made["host"]) for made in run(hosts, 1000, 1100, view)] == [
        ("host_silent", "kvm2")
    ]


def test_a_host_that_comes_and_goes_is_one_event(hosts):
    events = []
    for at in range(1000, 2000, 30):
        fall(hosts, "kvm1", at)
        events += run(hosts, at, at + 10)
        events += hosts.connected(HostConnected("kvm1", at + 10, []))
        events += run(hosts, at + 10, at + 30)
    assert (
        types(events) == ["host_flapping"]
        and "3 times in 5 min" in events[0]["sentence"]
        and events[0]["times"] == 3
    )
    assert types(run(hosts, 2000, 2400)) == ["host_back"] and hosts.quiet


def test_a_host_that_comes_and_goes_and_then_dies_is_said(hosts):
    events = []
    for at in (1000, 1060, 1120):
        fall(hosts, "kvm1", at)
        events += [
            *run(hosts, at, at + 30),
            *(hosts.connected(HostConnected("kvm1", at + 30, [])) if at < 1120 else ()),
        ]
    events += run(hosts, 1150, 1600)
    assert types(events) == [
        "host_silent",
        "host_back",
        "host_silent",
        "host_back",
        "host_flapping",
        "host_silent",
    ]


def test_a_host_that_is_watched_no_longer_says_nothing(hosts):
    fall(hosts, "kvm1", 1000)
    hosts.watch(HOSTS[1:])
    assert run(hosts, 1000, 1100) == [] and hosts.connected(HostConnected("kvm1", 1100, [])) == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from(HOSTS), st.sampled_from(["lost", "silent", "login", "up", "wait"])
        ),
        max_size=80,
    )
)
def test_whatever_happens_no_event_is_said_twice_in_a_row_and_nobody_is_silent_while_half_of_them_is(
    steps,
):
    hosts = HostEvents(silent_seconds=20, flap_seconds=300)
    hosts.watch(HOSTS)
    at, away, last = 1000.0, {}, {}
    for name, what in steps:
        events = []
        if what == "lost":
            hosts.lost(HostLost(name, at, ""))
            away.setdefault(name, None)
        elif what in ("silent", "login"):
            hosts.answered(HostAnswered(name, at, what, ""))
            if name in away:
                away[name] = what
        elif what == "up":
            events += hosts.connected(HostConnected(name, at, []))
            away.pop(name, None)
        at += 25 if what == "wait" else 1
        events += hosts.tick(at, View())
        dead = [each for each, means in away.items() if means != "login"]
        for made in events:
            if made["host"]:
                assert last.get(made["host"]) != made["type"], made
                last[made["host"]] = made["type"]
            if made["type"] == "host_silent":
                assert made["host"] in dead and (len(dead) == 1 or 2 * len(dead) < len(HOSTS))
            if made["type"] == "fleet_silent":
                assert 2 * len(dead) >= len(HOSTS)
    # At the end all hosts are up, and no event is open.
    for name in HOSTS:
        hosts.connected(HostConnected(name, at, []))
    for later in (301, 700):
        hosts.tick(at + later, View())
    assert hosts.quiet and not any(hosts.said(name) for name in HOSTS)
