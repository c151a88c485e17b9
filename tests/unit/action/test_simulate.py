# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module simulate, its playbook and its page."""

from __future__ import annotations

import html
import json

import pytest

from ansible_collections.drover.compute.tests.unit.action.running import (
    failure,
    is_plain,
    playbook,
    run,
)
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host

SMALL = {"vcpus": 1, "memory_mb": 1000, "disk_gb": 0}


@pytest.fixture
def url(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    fleets.discover(
        url,
        host("kvm1", domain("a", memory_mb=2000)),
        host("kvm2", domain("<b>", memory_mb=1000)),
        host("kvm3"),
    )
    run("flavor", store_url=url, name="small", **SMALL)
    return url


def test_the_answer_is_plain_and_nothing_changes(url):
    before = fleets.figures(url)
    answer = run(
        "simulate",
        store_url=url,
        changes=[{"lose_hosts": "kvm1"}, {"add_instances": {"flavor": "small", "count": 9}}],
    )
    assert is_plain(answer) and answer["changed"] is False and answer["path"] is None
    assert (
        answer["simulation"]["moved"],
        answer["simulation"]["placed"],
        answer["simulation"]["left_out"],
    ) == (1, 5, 4)
    assert any(line.startswith("kvm1 is lost") for line in answer["lines"])
    assert any(line.startswith("  small (4 instances): ") for line in answer["lines"])
    assert fleets.figures(url) == before


def test_the_page_has_both_maps_and_escapes_names(url, tmp_path):
    path = tmp_path / "page.html"
    arguments = {
        "store_url": url,
        "path": str(path),
        "fleet": "prod",
        "changes": [{"add_hosts": {"like": "kvm1", "count": 2}}],
    }
    assert run("simulate", check=True, **arguments)["changed"] and not path.exists()
    answer = run("simulate", **arguments)
    text = path.read_text()
    assert (
        answer["changed"] and answer["path"] == str(path) and path.stat().st_mode & 0o777 == 0o600
    )
    assert (
        "map" not in answer["simulation"]["before"]
        and text.count('<ul class="map') == 2
        and text.count("cell well") == 3 + 5
    )
    assert (
        "<script" not in text
        and "script-src 'none'" in html.unescape(text)
        and "prod: simulation" in text
    )
    assert run("simulate", **arguments)["changed"] is False
    arguments["changes"] = [
        {"maintenance": "kvm2"},
        {"add_instances": {"name": "<i>", "memory_mb": 99999, "vcpus": 1}},
    ]
    run("simulate", **arguments)
    assert "&lt;i&gt;" in path.read_text() and "<i>" not in path.read_text()


def test_an_export_is_taken_instead_of_the_store(url, tmp_path):
    path = tmp_path / "fleet.export"
    run("store", store_url=url, state="exported", path=str(path))
    changes = [{"lose_hosts": "kvm1"}]
    one = run("simulate", store_url=url, changes=changes)["simulation"]
    assert (
        run(
            "simulate", store_url=f"sqlite:///{tmp_path}/none.db", changes=changes, export=str(path)
        )["simulation"]
        == one
    )
    assert not (tmp_path / "none.db").exists()
    assert (
        "no such file"
        in failure(
            "simulate", store_url=url, changes=changes, export=str(tmp_path / "other")
        ).lower()
    )


def test_past_decisions_are_decided_again(url):
    for number in range(4):
        decided = run("schedule_info", store_url=url, requests=[{"name": f"new{number}", **SMALL}])[
            "selections"
        ]
        run("allocation", store_url=url, state="claimed", selections=decided)
    same = run("simulate", store_url=url, replay={})["replay"]
    assert (
        same["decided"] == 4
        and same["elsewhere"] == []
        and same["refused"] == []
        and same["score_before"] == same["score_after"]
    )
    answer = run("simulate", store_url=url, replay={"weighers": {"RAMWeigher": -1.0}})
    assert (
        is_plain(answer)
        and answer["replay"]["elsewhere"]
        and answer["replay"]["score_after"] > answer["replay"]["score_before"]
    )
    assert {each["would"] for each in answer["replay"]["elsewhere"]} <= {"kvm1", "kvm2", "kvm3"}
    assert any(line.startswith("4 decisions decided again") for line in answer["lines"])
    refused = run(
        "simulate",
        store_url=url,
        replay={"enabled_filters": ["ComputeFilter"], "weighers": {"RAMWeigher": -1.0}},
    )["replay"]
    assert refused["decided"] == 4
    assert "Leave one of them out" in failure(
        "simulate", store_url=url, replay={}, changes=[{"grow": 5}]
    )


def test_quotas_do_not_count(url):
    run("quota", store_url=url, project="shop", cores=1)
    answer = run(
        "simulate",
        store_url=url,
        changes=[{"add_instances": {"flavor": "small", "count": 3, "project": "shop"}}],
    )
    assert answer["simulation"]["placed"] == 3


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ({"changes": [{"loose_hosts": "kvm1"}]}, "lose_hosts"),
        ({"changes": [{"lose_hosts": "kvm9"}]}, "no host kvm9"),
        ({"max_moves": -1}, "0 or more"),
        ({"changes": [{"grow": 5}], "path": "/none/page.html"}, "drover_simulation_page"),
    ],
)
def test_what_is_wrong_is_said(url, arguments, sentence):
    assert sentence in failure("simulate", store_url=url, **arguments)


def test_the_playbook_shows_the_answer(url, tmp_path):
    changes = [{"lose_hosts": ["kvm1"]}]
    given = {"drover_changes": changes, "drover_simulation_page": str(tmp_path / "page.html")}
    code, output = playbook("simulate", url, folder=tmp_path, variables=given)
    assert (
        code == 0 and "kvm1 is lost" in output and f"The page is {tmp_path}/page.html" in output
    ), output
    # A survey of AWX gives it like this.
    code, output = playbook(
        "simulate", url, folder=tmp_path, variables={"drover_changes": json.dumps(changes)}
    )
    assert code == 0 and "kvm1 is lost" in output, output
    code, output = playbook("simulate", url, folder=tmp_path)
    assert code != 0 and "What would change?" in output


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"lose_hosts": ["kvm1"]},
            (
                "The changes must be a list, such as - lose_hosts: [kvm1], not {'lose_hosts':"
                " ['kvm1']}."
            ),
        ),
        (5, "The changes must be a list, such as - lose_hosts: [kvm1], not 5."),
        (
            "[{lose_hosts: [kvm1",
            "The changes, line 1: a list that begins with [ has no ] at its end",
        ),
    ],
)
def test_changes_that_are_no_list_are_refused_with_a_sentence(url, changes, sentence):
    assert failure("simulate", store_url=url, changes=changes).startswith(sentence)


def test_a_value_of_a_wrong_type_is_refused_without_the_types_of_python(url):
    assert (
        failure("simulate", store_url=url, changes=[], max_moves="many")
        == "argument 'max_moves' must be a whole number, not 'many'."
    )
    assert (
        failure("simulate", store_url=url, replay=["x"])
        == "argument 'replay' must be a mapping, not ['x']."
    )


def test_changes_may_be_a_text(url):
    assert (
        run("simulate", store_url=url, changes="- lose_hosts: [kvm1]")["simulation"]["moved"] == 1
    )
