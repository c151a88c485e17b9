# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wrong selection, which a user may have written, is refused before any claim."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._placement import selections
from ansible_collections.drover.compute.tests.unit.store.fleets import selection, uuid_of

GOOD = selection("web", "kvm1", "kvm2", server_group="web", project="p")


def test_good_ones_come_back_as_they_are():
    group = {"name": "web", "policy": "anti-affinity"}
    assert selections.check([GOOD, selection("db", "kvm1", server_group=group)]) == [
        GOOD,
        selection("db", "kvm1", server_group=group),
    ]
    assert selections.check([]) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "name is missing"),
        ({"uuid": None}, "uuid is missing"),
        ({"host": None}, "host is missing. Pass what the lookup drover.compute.schedule returned"),
        ({"resources": {}}, "resources is missing"),
        ({"uuid": "5"}, "'5' is no uuid"),
        ({"uuid": 5}, "5 is no uuid"),
        ({"uuid": uuid_of("web").upper()}, "is no uuid in lower case"),
        ({"uuid": "{" + uuid_of("web") + "}"}, "is no uuid in lower case"),
        ({"uuid": uuid_of("good")}, "stands twice"),
        ({"resources": ["VCPU"]}, "resources must be a mapping"),
        ({"resources": {"VCPU": -1}}, "VCPU must be a whole number from 0 to 2147483647, not -1"),
        ({"resources": {"VCPU": True}}, "VCPU must be a whole number .*not True"),
        ({"resources": {"VCPU": 1.0}}, "VCPU must be a whole number .*not 1.0"),
        ({"resources": {"VCPU": "1"}}, "VCPU must be a whole number .*not '1'"),
        ({"resources": {"VCPU": 2**31}}, "VCPU must be a whole number"),
        ({"allocations": []}, "allocations must be a mapping"),
        ({"allocations": {5: {"VCPU": 1}}}, "provider must be a text"),
        ({"allocations": {"u": {"VCPU": -1}}}, "VCPU must be a whole number"),
        (
            {"allocations": {"u": {"VCPU": 1}}},
            "allocations have 0 MEMORY_MB in all, but resources has 64",
        ),
        (
            {"alternates": [{"host": "b", "allocations": {"u": {"VGPU": 1}}}]},
            "allocations have 0 MEMORY_MB in all",
        ),
        ({"name": "x" * 256}, "name must be a text of at most 255"),
        ({"name": 7}, "name must be a text"),
        ({"host": ["kvm1"]}, "host must be a text"),
        ({"node": 5}, "node must be a text"),
        ({"project": "x" * 256}, "project must be a text of at most 255"),
        ({"availability_zone": ["az1"]}, "availability_zone must be a text"),
        ({"alternates": "kvm2"}, "alternate 1: must be a mapping with host, not 'kvm2'"),
        (
            {"alternates": [{"host": "kvm2"}, {"node": "kvm3"}]},
            "alternate 2: must be a mapping with host",
        ),
        ({"alternates": None}, "alternate 1"),
        ({"server_group": {"name": "web"}}, "policy of the server group must be .*not None"),
        (
            {"server_group": {"name": "web", "policy": "soft"}},
            "policy of the server group must be .*not 'soft'",
        ),
        ({"server_group": {"policy": "affinity"}}, "server group has no name"),
        ({"server_group": 5}, "server_group must be a text"),
    ],
)
def test_bad_ones_are_told_with_their_place(change, message):
    with pytest.raises(
        DroverError, match=rf"selections, item 2 \(.*\).*: .*{message}|item 2 .*{message}"
    ):
        selections.check([selection("good", "kvm1"), {**GOOD, **change}])


def test_one_that_is_no_mapping():
    with pytest.raises(DroverError, match="selections, item 1: must be a mapping, not 'web'"):
        selections.check(["web"])
