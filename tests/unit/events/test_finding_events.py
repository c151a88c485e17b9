# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A finding gives one event, and another event when it changes or comes back."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._events.finding_events import (
    FindingEvents,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement.audit.findings import LEVELS


def finding(level="problem", why="it is on two hosts"):
    return {
        "kind": "domain_doubled",
        "level": level,
        "uuid": "u",
        "name": "web",
        "host": "kvm1",
        "provider": None,
        "resource": None,
        "why": why,
        "advice": "Look at both.",
    }


def loss(survives):
    return {
        "name": "small",
        "total": 5,
        "with_loss": {"host": "kvm2", "total": 0, "survives": survives},
    }


def test_a_finding_of_the_audit():
    events = FindingEvents()
    (made,) = events.look(1000, None, [finding()])
    assert (made["type"], made["name"], made["uuid"], made["host"]) == (
        "audit_finding",
        "web",
        "u",
        "kvm1",
    )
    assert made["sentence"] == "web: it is on two hosts. Look at both."
    assert events.look(1001, None, [finding()]) == []
    assert len(events.look(1002, None, [finding(why="it is on three hosts")])) == 1
    assert events.look(1003, None, []) == [] and len(events.look(1004, None, [finding()])) == 1
    assert events.look(1005, None, [finding(level=LEVELS[-1])]) == []


def test_a_reboot_that_is_needed():
    events = FindingEvents()
    (made,) = events.look(1000, None, [], {"kvm1": "kernel 1 runs, and 2 is installed"})
    assert (made["type"], made["host"], made["uuid"]) == ("needs_reboot", "kvm1", None)
    assert made["sentence"].startswith(
        "kvm1 needs a reboot: kernel 1 runs, and 2 is installed. To do: "
    )
    assert events.look(1001, None, [], {"kvm1": "kernel 1 runs, and 2 is installed"}) == []
    assert len(events.look(1002, None, [], {"kvm1": "kernel 1 runs, and 3 is installed"})) == 1
    assert events.look(1003, None, [], {}) == []


def test_capacity():
    events = FindingEvents()
    assert events.look(1000, loss(True), []) == []
    (made,) = events.look(1001, loss(False), [])
    assert (made["type"], made["host"]) == (
        "capacity_below_one_loss",
        "kvm2",
    ) and "If kvm2 is lost" in made["sentence"]
    assert events.look(1002, loss(False), []) == []
