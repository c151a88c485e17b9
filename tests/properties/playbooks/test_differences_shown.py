# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Diff mode of server_group and compute_node, in check mode and really."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.tests.unit.action.running import run
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host

pytestmark = pytest.mark.parametrize("check", [True, False])


def shown(module, check, **args):
    """Return the differences of a task; they are the same in check mode, and after a real run
    too.
    """
    result = run(module, check=check, diff=True, **args)
    assert "diff" not in run(module, check=True, **args)
    return result, [
        (each["before_header"], each["before"], each["after"]) for each in result["diff"]
    ]


def test_a_server_group(prepared_url, check):
    group = {"name": "web", "policy": "anti-affinity", "store_url": prepared_url}
    rule = {"name": "web", "policy": "anti-affinity", "max_server_per_host": 1, "max_moving": None}
    result, differences = shown("server_group", check, **group)
    assert (result["changed"], differences) == (True, [("web", {}, rule)])
    run("server_group", **group)
    assert shown("server_group", check, max_moving=2, **group)[1] == [
        ("web", rule, {**rule, "max_moving": 2})
    ]
    assert (
        shown("server_group", check, name="web", state="absent", store_url=prepared_url)[1][0][2]
        == {}
    )


def test_nothing_new_is_no_difference(prepared_url, check):
    given = {"nodes": [host("kvm1", domain("web"))], "store_url": prepared_url}
    run("compute_node", **given)
    result, differences = shown("compute_node", check, **given)
    assert (result["changed"], differences) == (False, [])


def test_what_a_discovery_changes(prepared_url, check):
    """web moved to kvm2, old was removed, new was adopted, kvm1 has less memory, and kvm3 did not
    change."""
    arguments = {"store_url": prepared_url, "reserved_host_memory_mb": 0}
    before = [host("kvm1", domain("web"), domain("old")), host("kvm2"), host("kvm3")]
    run("compute_node", nodes=before, **arguments)
    after = [
        host("kvm1", memory_mb=2048),
        host("kvm2", domain("web"), domain("new", vcpus=2)),
        host("kvm3"),
    ]
    result, differences = shown("compute_node", check, nodes=after, **arguments)
    assert (result["adopted"], result["moved"], result["missing"]) == (["new"], ["web"], ["old"])
    (one, was1, is1), (two, was2, is2) = differences
    assert (one, two) == ("kvm1", "kvm2")
    running = {"state": "running", "vcpus": 1, "memory_mb": 64, "disk_gb": 0}
    assert was1["instances"] == {"web": running, "old": running}
    assert is1["instances"] == {"old": {**running, "state": "missing"}}
    assert was1["compute_nodes"]["kvm1"]["MEMORY_MB"]["total"] == 4096
    assert is1["compute_nodes"]["kvm1"]["MEMORY_MB"] == {
        "total": 2048,
        "reserved": 0,
        "allocation_ratio": 1.0,
    }
    assert (was2["instances"], is2["instances"]) == (
        {},
        {"new": {**running, "vcpus": 2}, "web": running},
    )


def test_a_host_that_is_new_and_one_that_goes(prepared_url, check):
    run("compute_node", nodes=[host("kvm1")], store_url=prepared_url)
    (name, was, becomes), *others = shown(
        "compute_node", check, nodes=[host("kvm2", domain("web"))], store_url=prepared_url
    )[1]
    assert (name, was, list(becomes["instances"]), others) == ("kvm2", {}, ["web"], [])
    (name, was, becomes), *others = shown(
        "compute_node", check, host="kvm1", nodes=[], store_url=prepared_url
    )[1]
    assert (name, list(was["compute_nodes"]), becomes, others) == ("kvm1", ["kvm1"], {}, [])
