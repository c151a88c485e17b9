# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules aggregate and flavor in real plays."""

from __future__ import annotations

import json
import sys

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import aggregates
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import flavors
from ansible_collections.drover.compute.tests.unit.action.running import play
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host


@pytest.fixture
def fleet_url(prepared_url):
    """Fill a store: kvm1 with an instance that was placed by its zone az1, kvm2 with one that was
    not, kvm3 with none."""
    fleets.discover(prepared_url, host("kvm1"), host("kvm2", domain("any")), host("kvm3"))
    with Store.open(prepared_url).write() as connection:
        aggregates.ensure(connection, "zone1", {"availability_zone": "az1"}, ["kvm1"])
    fleets.claim(prepared_url, fleets.selection("web", "kvm1", availability_zone="az1"))
    return prepared_url


def stored(url, kind, name):
    with Store.open(url).read() as connection:
        return kind.find(connection, name)


def results(folder, url, *tasks, options=()):
    """Return the result of each task of one play; a task is (module, arguments, keywords such as
    check_mode)."""
    written = []
    for number, (module, arguments, keywords) in enumerate(tasks):
        written.append(
            {
                f"drover.compute.{module}": arguments,
                "register": f"r{number}",
                "ignore_errors": True,
                **keywords,
            }
        )
    names = ", ".join(f"r{number}" for number in range(len(tasks)))
    written.append(
        {
            "ansible.builtin.copy": {
                "dest": f"{folder}/results.json",
                "content": f"{{{{ [{names}] | to_json }}}}",
            }
        }
    )
    code, output = play(
        folder,
        written,
        options=options,
        vars={"drover_store_url": url, "ansible_python_interpreter": sys.executable},
    )
    assert code == 0 and "Traceback" not in output, output
    return json.loads((folder / "results.json").read_text()), output


CHECK = {"check_mode": True, "diff": True}
DIFF = {"diff": True}


def test_aggregate_from_making_it_to_deleting_it(fleet_url, tmp_path):
    aggregate = {
        "name": "fast",
        "metadata": {"ssd": True, "tier": "gold"},
        "hosts": ["kvm3", "kvm2"],
    }
    made = {"name": "fast", "metadata": {"ssd": "True", "tier": "gold"}, "hosts": ["kvm2", "kvm3"]}
    less = {"name": "fast", "metadata": {"tier": None}, "remove_hosts": ["kvm2"]}
    gone = {"name": "fast", "state": "absent"}
    answers, output = results(
        tmp_path,
        fleet_url,
        ("aggregate", aggregate, CHECK),
        ("aggregate", aggregate, DIFF),
        ("aggregate", aggregate, DIFF),
        ("aggregate", {"name": "fast"}, {}),
        ("aggregate", gone, {}),
        ("aggregate", less, DIFF),
        ("aggregate", less, {}),
        ("aggregate", {"name": "fast", "remove_hosts": ["kvm3"]}, {}),
        ("aggregate", gone, CHECK),
        ("aggregate", gone, {}),
        ("aggregate", gone, {}),
    )
    assert [each["changed"] for each in answers] == [
        True,
        True,
        False,
        False,
        False,
        True,
        False,
        True,
        True,
        True,
        False,
    ]
    (difference,) = answers[1]["diff"]
    assert (difference["before"], difference["after"]) == ({}, made)
    assert answers[0]["diff"] == answers[1]["diff"]
    assert answers[2]["diff"][0]["before"] == answers[2]["diff"][0]["after"] == made
    assert {key: answers[1]["aggregate"][key] for key in made} == made and len(
        answers[1]["aggregate"]["uuid"]
    ) == 36
    assert (
        "Aggregate fast has hosts: kvm2, kvm3. Take them out with remove_hosts first."
        in answers[4]["msg"]
    )
    assert answers[5]["aggregate"]["metadata"] == {"ssd": "True"} and answers[5]["aggregate"][
        "hosts"
    ] == ["kvm3"]
    assert (answers[8]["diff"][0]["after"], answers[8]["diff"][0]["before"]["hosts"]) == ({}, [])
    assert '+        "tier": "gold"' in output
    assert stored(fleet_url, aggregates, "fast") is None


def test_zones_of_aggregates(fleet_url, tmp_path):
    """A host has one zone, and the zone does not change while instances that were placed by it are
    there."""
    answers, _output = results(
        tmp_path,
        fleet_url,
        (
            "aggregate",
            {"name": "zone2", "metadata": {"availability_zone": "az2"}, "hosts": ["kvm1"]},
            {},
        ),
        ("aggregate", {"name": "zone1", "metadata": {"availability_zone": "az9"}}, {}),
        ("aggregate", {"name": "zone1", "metadata": {"availability_zone": None}}, {}),
        ("aggregate", {"name": "zone1", "remove_hosts": ["kvm1"]}, {}),
        ("aggregate", {"name": "zone1", "metadata": {"availability_zone": "a,b"}}, {}),
        ("aggregate", {"name": "zone1", "metadata": {"availability_zone": ""}}, {}),
        ("aggregate", {"name": "zone1", "hosts": ["kvm9"]}, {}),
        ("aggregate", {"name": "zone1", "state": "gone"}, {}),
        ("aggregate", {"name": "zone1", "hosts": ["kvm3"]}, {}),
    )
    says = [
        "host kvm1 is in the zone az1 already and would be in az2 too; a host is in one zone",
        "the zone of host kvm1 would change (az1 to az9) under the instance web",
        "the zone of host kvm1 would change (az1 to none) under the instance web",
        "the zone of host kvm1 would change (az1 to none) under the instance web",
        "availability_zone must be the name of one zone, not 'a,b'",
        "availability_zone must be the name of one zone, not ''",
        "host kvm9 is not in the store. Run drover.compute.discover, or correct the name.",
        "value of state must be one of: present, absent",
    ]
    for result, text in zip(answers, says):
        assert result["failed"] and text in result["msg"], result["msg"]
    assert answers[8]["changed"] and answers[8]["aggregate"]["hosts"] == ["kvm1", "kvm3"]
    assert stored(fleet_url, aggregates, "zone2") is None
    assert stored(fleet_url, aggregates, "zone1")["metadata"] == {"availability_zone": "az1"}


def test_flavor_from_making_it_to_deleting_it(fleet_url, tmp_path):
    flavor = {
        "name": "db",
        "vcpus": 4,
        "memory_mb": 2048,
        "extra_specs": {"ssd": True, "hw:cpu_cores": 1},
    }
    made = {
        "name": "db",
        "vcpus": 4,
        "memory_mb": 2048,
        "disk_gb": 0,
        "extra_specs": {"ssd": "true", "hw:cpu_cores": "1"},
    }
    less = {
        "name": "db",
        "memory_mb": 1024,
        "extra_specs": {"hw:cpu_cores": None, "tier": "<or> a <or> b"},
    }
    gone = {"name": "db", "state": "absent"}
    answers, output = results(
        tmp_path,
        fleet_url,
        ("flavor", flavor, CHECK),
        ("flavor", flavor, DIFF),
        ("flavor", flavor, DIFF),
        ("flavor", less, DIFF),
        ("flavor", less, {}),
        ("flavor", gone, CHECK),
        ("flavor", gone, {}),
        ("flavor", gone, {}),
    )
    assert [each["changed"] for each in answers] == [
        True,
        True,
        False,
        True,
        False,
        True,
        True,
        False,
    ]
    (difference,) = answers[1]["diff"]
    assert (difference["before"], difference["after"]) == ({}, made)
    assert answers[0]["diff"] == answers[1]["diff"]
    assert answers[2]["diff"][0]["before"] == answers[2]["diff"][0]["after"] == made
    changed = {**made, "memory_mb": 1024, "extra_specs": {"ssd": "true", "tier": "<or> a <or> b"}}
    assert {key: answers[3]["flavor"][key] for key in made} == changed
    assert answers[3]["diff"][0]["before"]["memory_mb"] == 2048
    assert '-    "memory_mb": 2048,' in output
    assert stored(fleet_url, flavors, "db") is None


def test_bad_flavors(fleet_url, tmp_path):
    whole = {"name": "db", "vcpus": 1, "memory_mb": 64}
    answers, _output = results(
        tmp_path,
        fleet_url,
        ("flavor", {"name": "db", "vcpus": 1}, {}),
        ("flavor", {**whole, "vcpus": 0}, {}),
        ("flavor", {**whole, "disk_gb": -1}, {}),
        ("flavor", {**whole, "memory_mb": "much"}, {}),
        ("flavor", {**whole, "extra_specs": {"capabilities:x": ">="}}, {}),
        ("flavor", {**whole, "extra_specs": {"trait:CUSTOM_X": "maybe"}}, {}),
        ("flavor", {**whole, "extra_specs": {"x": [1]}}, {}),
        ("flavor", {"vcpus": 1}, {}),
    )
    says = [
        "Flavor db: memory_mb must be given and be 1 or more.",
        "Flavor db: vcpus must be given and be 1 or more.",
        (
            "Flavor db: disk_gb must be a whole number of GiB from 0 to 2147483647, or a size such"
            " as 512MiB, 4GiB or 2T, not -1."
        ),
        "memory_mb",
        (
            "Flavor db: the extra spec 'capabilities:x' is '>=', but the operator >= must be"
            " followed by a value."
        ),
        "Flavor db: the extra spec 'trait:CUSTOM_X' must be required or forbidden, not 'maybe'.",
        "Flavor db: the extra spec 'x' must be text, not [1].",
        "missing required arguments: name",
    ]
    for result, text in zip(answers, says):
        assert result["failed"] and text in result["msg"], result["msg"]
    assert stored(fleet_url, flavors, "db") is None
