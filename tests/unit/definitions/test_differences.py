# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where an instance that is there differs from its definition."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._definitions import check, differences

THERE = {
    "name": "web",
    "vcpus": 2,
    "memory_mb": 4096,
    "disk_gb": 40,
    "server_group": None,
    "availability_zone": None,
    "user": None,
    "labels": {},
    "autostart": False,
    "definition": "/web",
    "project": None,
}


def wanted(**more):
    item = {"name": "web", "vcpus": 2, "memory_mb": 4096, "disks": [{"size_gb": 40}], **more}
    return check.instances([item], lambda item: "fleet.yml")[0]


def test_an_instance_as_it_is_defined():
    assert differences.lines(wanted(), THERE, None) == []
    assert differences.lines(wanted(policy={}, autostart=False), THERE, None) == []
    policy = {"move": "cold", "priority": 0, "migration": {"copy_storage": "always"}}
    assert differences.lines(wanted(policy=policy), THERE, policy) == []


@pytest.mark.parametrize(
    ("more", "there", "policy", "said"),
    [
        ({"vcpus": 16}, {}, None, "web: vcpus 2, the definition says 16"),
        ({"memory_mb": 1}, {}, None, "web: memory_mb 4096, the definition says 1"),
        ({"disks": []}, {}, None, "web: disk_gb 40, the definition says 0"),
        ({"server_group": "g"}, {}, None, "web: server_group none, the definition says g"),
        ({}, {"availability_zone": "az1"}, None, "web: availability_zone az1, the definition says none"),
        ({"user": "ann"}, {"user": "bob"}, None, "web: user bob, the definition says ann"),
        ({"autostart": True}, {}, None, "web: autostart no, the definition says yes"),
        ({"policy": {"move": "never"}}, {}, None, "web: policy none, the definition says move never"),
        (
            {"policy": {"priority": 5, "migration": {"post_copy": True}}},
            {},
            {"move": "cold"},
            'web: policy move cold, the definition says migration {"post_copy": true} and priority 5',
        ),
        ({"labels": {"tier": "db", "a": "b"}}, {}, None, "web: labels none, the definition says a=b, tier=db"),
        ({}, {"labels": {"tier": "db"}}, None, "web: labels tier=db, the definition says none"),
        ({}, {}, {"error": "unreadable"}, "web: policy error unreadable, the definition says none"),
        ({"vcpus": 3, "memory_mb": 5}, {}, None, "web: vcpus 2, the definition says 3; memory_mb 4096, the definition says 5"),
    ],
)
def test_each_difference_is_named(more, there, policy, said):
    assert differences.lines(wanted(**more), {**THERE, **there}, policy) == [f"{said}."]


def test_an_instance_that_was_not_built_from_the_definition_is_named():
    (said,) = differences.lines(wanted(), {**THERE, "definition": None}, None)
    assert said == (
        "web: it was there already, and the store does not know that it was built from this definition; it is taken for it by its name."
    )
    assert len(differences.lines(wanted(vcpus=1), {**THERE, "definition": None}, None)) == 2
    # With its uuid the definition says itself which instance it means.
    uuid = "11111111-1111-4111-8111-111111111111"
    assert differences.lines(wanted(uuid=uuid), {**THERE, "definition": None}, None) == []
