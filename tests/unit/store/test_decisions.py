# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decisions: written with their claims, small, and limited in number."""

from __future__ import annotations

import json
import math

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import refusals, scheduling
from ansible_collections.drover.compute.plugins.plugin_utils._placement import claims
from ansible_collections.drover.compute.plugins.plugin_utils._report.explanation import render
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.errors import NoValidHost
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.runs import decisions
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import (
    NOW,
    domain,
    host,
    selection,
    uuid_of,
)

PROOF = certainty.word("a test")

PART = {"raw": 0.123456789, "normalised": 1.0, "multiplier": 2.0}
NOTHING = {"raw": 0.0, "normalised": 0.0, "multiplier": 1.0}
WHY = {
    "hosts": 9,
    "filters": [
        {"name": "ComputeFilter", "before": 9, "after": 8, "rejected": 1},
        {"name": "RamFilter", "before": 8, "after": 8, "rejected": 0},
    ],
    "weighers": [{"name": "RAMWeigher", "multiplier": 2.0}],
    "top": [
        {
            "host": f"kvm{n}",
            "node": f"kvm{n}",
            "weight": 2.0 - n,
            "weighers": {"RAMWeigher": PART, "IoOpsWeigher": NOTHING},
        }
        for n in range(5)
    ],
}


@pytest.fixture
def fleet_url(prepared_url):
    fleets.discover(prepared_url, host("kvm1"), host("kvm2", domain("full", 4)), host("kvm3"))
    return prepared_url


def newest(url, limit=100):
    with Store.open(url).read() as connection:
        return decisions.newest(connection, limit)


def count(url):
    with Store.open(url).read() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(tables.decisions)).scalar()


def decide(url, *requests):
    with Store.open(url).read() as connection:
        return scheduling.decide(connection, list(requests), Policy.from_mapping({}), NOW)


def claim(url, selections, actor="ada@desk, process 7", now=NOW):
    with Store.open(url).write(together=True) as connection:
        return claims.claim(connection, selections, now, actor=actor)


def request(name, **more):
    return {"name": name, "uuid": uuid_of(name), "vcpus": 1, "memory_mb": 64, **more}


def test_what_was_decided_is_kept_with_its_claim(fleet_url):
    (picked,) = decide(fleet_url, request("web"))
    claim(fleet_url, [picked])
    (decision,) = newest(fleet_url)
    assert {
        key: decision[key]
        for key in ("created_at", "purpose", "actor", "instance_uuid", "instance_name", "message")
    } == {
        "created_at": NOW,
        "purpose": "place",
        "actor": "ada@desk, process 7",
        "instance_uuid": uuid_of("web"),
        "instance_name": "web",
        "message": None,
    }
    assert (decision["host"], decision["node"]) == (picked["host"], picked["node"])
    assert (
        [each["host"] for each in decision["alternates"]]
        == [each["host"] for each in picked["alternates"]]
        != []
    )
    explanation, whole = decision["explanation"], picked["explanation"]
    assert (
        explanation["hosts"] == 3
        and explanation["filters"] == [each for each in whole["filters"] if each["rejected"]] != []
    )
    assert [(each["host"], each["weight"]) for each in explanation["top"]] == [
        (each["host"], pytest.approx(each["weight"], rel=1e-5)) for each in whole["top"]
    ]
    # The filter explain reads a decision as it reads a selection.
    assert render(explanation)[0] == "hosts: 3"


def test_a_claim_again_is_no_new_decision(fleet_url):
    picked = decide(fleet_url, request("web"), request("db"))
    claim(fleet_url, picked)
    claim(fleet_url, picked)
    assert [each["instance_name"] for each in newest(fleet_url)] == ["db", "web"]


def test_a_claim_that_nobody_decided_is_none(fleet_url):
    fleets.claim(fleet_url, selection("mine", "kvm1"))
    assert newest(fleet_url) == []


def test_an_alternate_says_why_it_was_taken(fleet_url):
    claim(fleet_url, [selection("web", "kvm2", "kvm3", "kvm1", explanation=WHY)])
    (found,) = newest(fleet_url)
    assert (found["host"], found["alternates"]) == ("kvm3", [{"host": "kvm1", "node": "kvm1"}])
    assert found["message"].startswith("kvm2, which was picked first, was refused")


def test_the_next_alternate_after_a_build_that_failed(fleet_url):
    claim(fleet_url, [selection("web", "kvm1", "kvm3", explanation=WHY)])
    with Store.open(fleet_url).write(together=True) as connection:
        claims.reclaim(connection, uuid_of("web"), [{"host": "kvm3"}], PROOF, NOW + 5, actor="bob")
    last, first = newest(fleet_url)
    assert (first["host"], last["host"], last["actor"], last["created_at"]) == (
        "kvm1",
        "kvm3",
        "bob",
        NOW + 5,
    )
    assert "could not be built" in last["message"] and last["explanation"] is None


def test_a_claim_that_fails_leaves_none(fleet_url):
    with pytest.raises(DroverError, match="No room"):
        claim(
            fleet_url,
            [selection("a", "kvm1", explanation=WHY), selection("b", "kvm2", explanation=WHY)],
        )
    assert newest(fleet_url) == []


def test_that_there_is_no_valid_host_is_kept(fleet_url):
    store = Store.open(fleet_url)
    with pytest.raises(NoValidHost), refusals.kept(store, "place", "ada", NOW):
        decide(fleet_url, request("small"), request("big", vcpus=64))
    (decision,) = newest(fleet_url)
    assert (decision["instance_name"], decision["instance_uuid"], decision["actor"]) == (
        "big",
        uuid_of("big"),
        "ada",
    )
    assert (decision["host"], decision["node"], decision["alternates"]) == (None, None, [])
    assert (
        decision["message"].startswith("No valid host for big")
        and "number 2 of 2" in decision["message"]
    )
    assert decision["explanation"]["filters"][-1]["after"] == 0


def test_any_other_failure_is_no_decision(fleet_url):
    with (
        pytest.raises(DroverError, match="vcpus"),
        refusals.kept(Store.open(fleet_url), "place", "ada", NOW),
    ):
        decide(fleet_url, {"name": "x"})
    assert newest(fleet_url) == []


def test_in_check_mode_nothing_is_kept(fleet_url):
    with (
        pytest.raises(NoValidHost),
        refusals.kept(Store.open(fleet_url, check_mode=True), "place", "ada", NOW),
    ):
        decide(fleet_url, request("big", vcpus=64))
    assert newest(fleet_url) == []


def rows(first, last):
    return [
        decisions.row("place", None, (None, f"vm{n}"), NOW + n, ("kvm1", "kvm1"))
        for n in range(first, last + 1)
    ]


def test_the_newest_are_kept_and_no_more(prepared_url, monkeypatch):
    monkeypatch.setattr(decisions, "KEPT", 250)
    sizes = []
    # Single writes and batches, over the points where old rows are pruned.
    for first, last in [
        (1, 1),
        (2, 240),
        (241, 299),
        (300, 300),
        (301, 399),
        (400, 1401),
        (1402, 1402),
    ]:
        with Store.open(prepared_url).write(together=True) as connection:
            decisions.record(connection, rows(first, last))
        sizes.append(count(prepared_url))
        assert newest(prepared_url, 1)[0]["instance_name"] == f"vm{last}"
    assert max(sizes) <= 250 + decisions.PRUNED_EVERY and sizes[-1] >= 250
    assert newest(prepared_url, 10_000)[-1]["instance_name"] == f"vm{1402 - sizes[-1] + 1}"


def test_many_at_once_keep_the_newest(prepared_url, monkeypatch):
    """A writer that prunes never waits for another one, and does not undo its work."""
    monkeypatch.setattr(decisions, "KEPT", 100)

    def write():
        store = Store.open(prepared_url)
        for number in range(0, 400, 10):
            with store.write(together=True) as connection:
                decisions.record(connection, rows(number, number + 9))
        return "done"

    assert fleets.race(write, write, write, write) == ["done"] * 4
    assert 100 <= count(prepared_url) <= 100 + 2 * decisions.PRUNED_EVERY


def test_nothing_to_write_down_is_no_statement(prepared_url):
    with Store.open(prepared_url).write(together=True) as connection:
        decisions.record(connection, [])
    assert newest(prepared_url) == []


def test_what_is_kept_is_small():
    explanation = decisions.kept(WHY)
    assert explanation["filters"] == WHY["filters"][:1]
    assert len(explanation["top"]) == decisions.TOP
    assert explanation["top"][0]["weighers"] == {
        "RAMWeigher": {"raw": 0.123457, "normalised": 1.0, "multiplier": 2.0}
    }
    assert "weighers" not in explanation and len(json.dumps(explanation)) < 700


@pytest.mark.parametrize(
    "given",
    [
        None,
        {},
        "because",
        ["because"],
        {"hosts": "many", "filters": []},
        {"hosts": 3, "filters": {"a": 1}},
        {"hosts": 3, "filters": [{"name": "x"}]},
        {**WHY, "top": [{"host": "kvm1"}]},
        {**WHY, "top": [{**WHY["top"][0], "weight": math.inf}]},
        {**WHY, "top": [{**WHY["top"][0], "weight": "much"}]},
        {**WHY, "top": [{**WHY["top"][0], "weighers": {"x": {**PART, "raw": math.nan}}}]},
    ],
)
def test_what_is_no_explanation_is_left_out(given):
    assert decisions.kept(given) is None


def test_texts_that_no_database_takes(fleet_url):
    top = [{**WHY["top"][0], "host": "kvm\0\ud800" + "x" * 300}]
    claim(fleet_url, [selection("web", "kvm1", explanation={**WHY, "top": top})])
    (found,) = newest(fleet_url)
    assert found["explanation"]["top"][0]["host"].startswith("kvm?xxx")
    assert len(found["explanation"]["top"][0]["host"]) <= 255
    with Store.open(fleet_url).write() as connection:
        decisions.record(
            connection,
            [decisions.row("place", None, (None, "a\0b\ud800"), NOW, message="c\0d\udfff")],
        )
    assert [newest(fleet_url, 1)[0][key] for key in ("instance_name", "message")] == ["ab?", "cd?"]
