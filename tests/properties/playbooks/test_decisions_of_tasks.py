# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decisions of tasks and of the role place reach the store, refusals too."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.lease_holder import (
    LeaseHolder,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.runs import decisions
from ansible_collections.drover.compute.tests.unit.action.running import is_plain, play, run
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host

SMALL = {"name": "web", "vcpus": 1, "memory_mb": 64}
BIG = {"name": "big", "vcpus": 64, "memory_mb": 64}


@pytest.fixture
def url(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    Store.open(url).upgrade()
    fleets.discover(url, host("kvm1", domain("db", 2)), host("kvm2"))
    return url


def kept(url):
    with Store.open(url).read() as connection:
        return decisions.newest(connection, 100)


def test_scheduled_then_claimed(url):
    picked = run("_schedule", requests=[SMALL], store_url=url)
    assert not picked["changed"] and is_plain(picked) and kept(url) == []
    run("allocation", selections=picked["selections"], store_url=url)
    (decision,) = kept(url)
    assert (decision["instance_name"], decision["host"]) == ("web", picked["selections"][0]["host"])
    assert decision["instance_uuid"] == picked["selections"][0]["uuid"]
    assert decision["actor"] == LeaseHolder.of_this_task().holder


def test_scheduled_as_the_lookup_does(url):
    policy = {"enabled_filters": ["ComputeFilter", "DifferentHostFilter"]}
    wanted = {**SMALL, "hints": {"different_host": "db"}}
    picked = run("_schedule", requests=[wanted], policy=policy, store_url=url)
    assert picked["selections"][0]["host"] == "kvm2"
    picked = run("_schedule", {"drover_service_down_time": 60}, requests=[], store_url=url)
    assert picked["selections"] == []
    with pytest.raises(AnsibleActionFail, match="ComputeFilter rejected 2"):
        run("_schedule", {"drover_service_down_time": 60}, requests=[SMALL], store_url=url)


def test_no_valid_host_is_kept_and_said(url):
    with pytest.raises(AnsibleActionFail) as caught:
        run("_schedule", requests=[SMALL, BIG], store_url=url)
    (decision,) = kept(url)
    assert (
        decision["message"] == str(caught.value)
        and decision["instance_name"] == "big"
        and decision["host"] is None
    )
    assert caught.value.result["explanation"]["nearest"]


def test_a_bad_request_is_no_decision(url):
    with pytest.raises(AnsibleActionFail, match="vcpus"):
        run("_schedule", requests=[{"name": "x"}], store_url=url)
    assert kept(url) == []


def place(url, folder, *wanted, options=()):
    decide = {
        "ansible.builtin.include_role": {"name": "drover.compute.place", "tasks_from": "decide"}
    }
    tasks = [decide, {"ansible.builtin.debug": {"msg": "GOES ON {{ place_claims | length }}"}}]
    values = {"drover_store_url": url, "drover_instance_definitions": list(wanted)}
    return play(folder, tasks, options=options, vars=values)


@pytest.mark.long
def test_the_role_place(url, tmp_path):
    code, output = place(url, tmp_path, SMALL)
    assert code == 0 and "GOES ON 1" in output, output
    (decision,) = kept(url)
    assert (
        decision["instance_name"] == "web"
        and decision["explanation"]["hosts"] == 2
        and "process" in decision["actor"]
    )
    # The instance is claimed already, so there is no decision.
    code, output = place(url, tmp_path, SMALL)
    assert code == 0 and len(kept(url)) == 1, output


@pytest.mark.long
def test_the_role_place_says_and_keeps_that_there_is_no_host(url, tmp_path):
    code, output = place(url, tmp_path, SMALL, BIG)
    assert code != 0 and "GOES ON" not in output, output
    assert "No valid host for big" in output
    (found,) = kept(url)
    assert found["instance_name"] == "big" and found["host"] is None
    code, output = place(url, tmp_path, BIG, options=["--check"])
    assert code != 0 and len(kept(url)) == 1, output
