# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unknown names of extra specs and image properties are refused."""

from __future__ import annotations

import pathlib
import re

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common import spec_names
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import check, identity
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.request_spec import (
    RequestSpec,
)

ROOT = pathlib.Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("specs", "properties", "sentence"),
    [
        (
            {"hw:cpu_polcy": "dedicated"},
            {},
            "there is no extra spec hw:cpu_polcy (did you mean hw:cpu_policy?)",
        ),
        (
            {"hw_cpu_policy": "dedicated"},
            {},
            "there is no extra spec hw_cpu_policy (did you mean hw:cpu_policy?)",
        ),
        (
            {"hw:numa_cpu.0": "0"},
            {},
            "there is no extra spec hw:numa_cpu.0 (did you mean hw:numa_cpus.0?)",
        ),
        ({"pci_passthrough:alais": "gpu:1"}, {}, "(did you mean pci_passthrough:alias?)"),
        ({"quota:disk_read_iop_sec": "1"}, {}, "(did you mean quota:disk_read_iops_sec?)"),
        ({"os:secureboot": "required"}, {}, "(did you mean os:secure_boot?)"),
        (
            {},
            {"hw:cpu_policy": "dedicated"},
            "there is no image property hw:cpu_policy (did you mean hw_cpu_policy?)",
        ),
        ({}, {"hw:numa_mem.1": "64"}, "(did you mean hw_numa_mem.1?)"),
        (
            {},
            {"hw_disk_buss": "scsi"},
            "there is no image property hw_disk_buss (did you mean hw_disk_bus?)",
        ),
        (
            {"hw:pmu": "false", "quota:cpu_shares": 100},
            {},
            "the extra spec quota:cpu_shares asks for what drover does not do",
        ),
        (
            {},
            {"hw_sound_model": "ich9"},
            "the image property hw_sound_model asks for what drover does not do",
        ),
    ],
)
def test_it_is_refused_with_the_nearest_one(specs, properties, sentence):
    with pytest.raises(DroverError, match=f"^x: .*{re.escape(sentence)}"):
        spec_names.refuse_unknown(specs, properties, "x")
    # In a definition, of the file's sections, and in a request.
    item = {
        "name": "web",
        "memory_mb": 64,
        "extra_specs": specs,
        "image": {"name": "i", "properties": properties},
    }
    with pytest.raises(DroverError, match=f"^f: instance web.*{re.escape(sentence)}"):
        check.instances([item], lambda item: "f")
    with pytest.raises(DroverError, match=re.escape(sentence)):
        check.flavors(
            [{"name": "m", "memory_mb": 64, "vcpus": 1, "disk_gb": 0, "extra_specs": specs}],
            lambda item: "f",
        )
        check.images([{"name": "i", "properties": properties}], lambda item: "f")


def test_names_of_other_namespaces_and_values_that_ask_for_nothing_are_free():
    specs = {
        "capabilities:x": "1",
        "aggregate_instance_extra_specs:y": "1",
        "trait:A": "required",
        "mine": "1",
        "vmware:z": "1",
    }
    spec_names.refuse_unknown(
        {**specs, "hw:typo": None, "hw:cpu_realtime": "no"}, {"os_type": "linux", "mine": "1"}, "x"
    )
    spec_names.refuse_unknown(
        {"hw:numa_cpus.11": "0", "resources1:VGPU": "1"},
        {"hw_numa_mem.0": "64", "hw_vm_mode": "hvm"},
        "x",
    )


def test_those_of_the_store_are_refused_where_a_new_instance_needs_them():
    (definition,) = check.instances(
        [{"name": "web", "memory_mb": 64, "image": "i", "disks": []}], lambda item: "f"
    )
    images = {"i": {"properties": {"hw_disk_buss": "scsi"}}}
    with pytest.raises(DroverError, match="hw_disk_buss"):
        identity.resolve([definition], [], images=images)
    recorded = {
        "uuid": "4678f48e-9e6e-53d3-9c13-dbd66056a5d1",
        "name": "web",
        "host": "kvm1",
        "node": "kvm1",
        "state": "running",
    }
    assert identity.resolve(
        [definition], [{**recorded, "definition": "/web", "project": None}], images=images
    )


@pytest.mark.parametrize(
    "more",
    [
        {"extra_specs": {"hw:numa_cpus.0": "0"}},
        {"image": {"properties": {"hw_numa_mem.0": 64}, "name": "i"}},
    ],
)
def test_sizes_of_cells_without_cells(more):
    with pytest.raises(
        DroverError,
        match=(
            "is the size of a NUMA cell, and nothing says how many cells there are. Set"
            " hw:numa_nodes"
        ),
    ):
        RequestSpec.from_request({"name": "web", "vcpus": 1, "memory_mb": 64, **more})


def test_the_page_has_each_name_once():
    text = (ROOT / "docs" / "hardware.md").read_text()
    section = text[text.index("These extra specs do something") :].partition("\n## ")[0]
    parts = [re.findall("`([^`]+)`", part) for part in section.split("These ")[1:]]
    tables = (
        spec_names.EXTRA_SPECS,
        spec_names.PROPERTIES,
        spec_names.REFUSED_SPECS,
        spec_names.REFUSED_PROPERTIES,
    )
    assert parts == [sorted(table) for table in tables]


def test_what_the_code_reads_is_in_the_table():
    """Each name in the quotes of the code has an effect."""
    files = [
        path
        for path in (ROOT / "plugins" / "plugin_utils").rglob("*.py")
        if path.name != "spec_names.py"
    ]
    read = {
        name
        for path in files
        for name in re.findall(
            r'"((?:hw|hw_rng|hw_video|os|quota):[a-z_]+|hw_[a-z_]+)"', path.read_text()
        )
    }
    assert read - {*spec_names.EXTRA_SPECS, *spec_names.PROPERTIES} == set()
