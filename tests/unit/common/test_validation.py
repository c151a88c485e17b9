# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The only place for whole numbers, uuids and unknown keys."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import (
    DroverError,
    PlanError,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.validation import (
    check_keys,
    check_whole,
    is_uuid,
    read_uuid,
    read_whole,
)

UUID = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"


@pytest.mark.parametrize("value", [1, 2**31 - 1, "7", " 7 ", "+7"])
def test_a_whole_number(value):
    assert read_whole("web1: vcpus", value, least=1) == int(value)


@pytest.mark.parametrize(
    "value", [0, -1, 2**31, True, None, 1.0, "", "one", "1.0", "9" * 5000, [1]]
)
def test_what_is_no_whole_number_in_the_range(value):
    with pytest.raises(
        PlanError, match=r"^web1: vcpus must be a whole number from 1 to 2147483647, not "
    ) as caught:
        read_whole("web1: vcpus", value, least=1, refuse=PlanError)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("least", "most", "says"),
    [(1, None, "a whole number of at least 1, not '1'"), (None, None, "a whole number, not '1'")],
)
def test_digits_are_text_where_nobody_writes_them_so(least, most, says):
    with pytest.raises(DroverError, match=says):
        check_whole("vcpus", "1", least, most)


@pytest.mark.parametrize(
    "value", [UUID.upper(), f"{{{UUID}}}", UUID.replace("-", ""), f" {UUID}\n"]
)
def test_a_uuid_in_another_spelling(value):
    assert not is_uuid(value)
    assert read_uuid("uuid", value) == UUID


@pytest.mark.parametrize("value", ["web1", "", None, 7, UUID + "0"])
def test_what_is_no_uuid(value):
    assert not is_uuid(value)
    with pytest.raises(DroverError, match="uuid must be a uuid such as"):
        read_uuid("uuid", value)


def test_unknown_keys_are_named_with_the_nearest_known_one():
    with pytest.raises(DroverError) as caught:
        check_keys(
            "web1", {"vcpu": 1, "Memory_MB": 64, 5: 5, "vcpus": 1}, ("vcpus", "memory_mb"), "option"
        )
    assert (
        str(caught.value)
        == "web1: unknown option 5, Memory_MB (did you mean memory_mb?), vcpu (did you mean"
        " vcpus?). Known: vcpus, memory_mb."
    )
