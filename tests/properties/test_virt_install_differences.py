# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of hardware and the tables of tests/lab/test_virt_install.py say the same."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._definitions import (
    hardware_fields as known,
)
from ansible_collections.drover.compute.tests.lab import virt_install_differences as differences
from ansible_collections.drover.compute.tests.lab.virt_install_wishes import WISHES
from ansible_collections.drover.compute.tests.unit import examples

PAGE = (examples.ROOT / "docs" / "hardware.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("\n## Compared with virt-install\n")[2].partition("\n## ")[0]


def cell(value):
    return "none" if value is None else f"`{value}`"


def test_the_page_has_each_difference_and_its_reason():
    rows = [line for line in SECTION.splitlines() if line.startswith("| `")]
    assert rows == [
        f"| `{each.path}` | {cell(each.ours)} | {cell(each.theirs)} | {each.reason} |"
        for each in differences.PURPOSES
    ]


def test_the_page_has_the_versions_and_the_number_of_wishes():
    for words in (
        f"each of {len(WISHES)} wishes",
        f"virt-install {differences.VIRT_INSTALL} ",
        f"libvirt {differences.LIBVIRT} with QEMU {differences.QEMU}\n",
    ):
        assert words in SECTION


@pytest.mark.parametrize(
    ("table", "things"),
    [
        (known.INSTANCE_FIELDS, lambda definition: [definition]),
        (known.DISK_FIELDS, lambda definition: definition.get("disks", [])),
        # virt-install has no word for the VLANs of an interface.
        (
            {key: field for key, field in known.NETWORK_FIELDS.items() if key != "vlan"},
            lambda definition: definition.get("networks", []),
        ),
    ],
    ids=["instance", "disk", "network"],
)
def test_each_key_is_in_a_wish(table, things):
    used = {key for wish in WISHES.values() for each in things(wish.definition) for key in each}
    assert set(table) <= used


def test_a_pattern_covers_no_other_difference():
    purpose = differences.Purpose("devices/tpm", None, "<tpm *", "It is a sentence.")
    found = differences.Difference("devices/tpm", None, '<tpm model="tpm-crb"/>')
    assert purpose.covers(found)
    for key, value in (
        ("path", "devices"),
        ("ours", "<tpm/>"),
        ("theirs", None),
        ("theirs", "<tp"),
    ):
        assert not purpose.covers(found._replace(**{key: value})), key
