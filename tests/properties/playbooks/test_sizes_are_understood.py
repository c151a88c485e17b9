# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes such as 4GiB in every place for an operator's input; the store has whole MiB and GiB."""

from __future__ import annotations

import shutil

import pytest

from ansible_collections.drover.compute.tests.unit.action.running import failure, run


@pytest.fixture
def url(prepared_sqlite, tmp_path):
    shutil.copyfile(prepared_sqlite, tmp_path / "store.db")
    return f"sqlite:///{tmp_path}/store.db"


def test_a_flavor(url):
    made = run("flavor", name="db", vcpus=1, memory_mb="4GiB", disk_gb="1.5T", store_url=url)[
        "flavor"
    ]
    assert (made["memory_mb"], made["disk_gb"]) == (4096, 1536)
    assert (
        run("flavor", name="db", memory_mb=4096, disk_gb="1536", store_url=url)["changed"] is False
    )
    assert "disk_gb is 500M, which is not a whole number of GiB. Write 1GiB." in failure(
        "flavor", name="db", disk_gb="500M", store_url=url
    )


def test_a_definition(url):
    wanted = [{"name": "a", "memory_mb": "2G", "disks": [{"size_gb": "2T"}, {"size_gb": 3}]}]
    (instance,) = run("_definitions", instances=wanted, store_url=url)["instances"]
    assert (
        instance["memory_mb"],
        instance["disk_gb"],
        [disk["size_gb"] for disk in instance["disks"]],
    ) == (
        2048,
        2051,
        [2048, 3],
    )
    assert (instance["request"]["memory_mb"], instance["selection"]["resources"]["DISK_GB"]) == (
        2048,
        2051,
    )


def test_a_node_as_data(url):
    node = {
        "host": "kvm1",
        "vcpus": 4,
        "memory_mb": "64GiB",
        "local_gb": "2T",
        "reserved_host_memory_mb": "2GiB",
    }
    run("compute_node", nodes=[node], reserved_host_disk_mb="10G", store_url=url)
    (found,) = run("host_info", store_url=url)["hosts"]
    assert (found["memory_mb"], found["memory_mb_reserved"]) == (65536, 2048)
    assert (found["disk_gb"], found["disk_gb_reserved"]) == (2048, 10)


def test_a_variable_of_a_host(url):
    variables = {"drover_reserved_host_memory_mb": "lots"}
    found = failure("compute_node", variables, nodes=[], host="kvm1", store_url=url)
    assert found.startswith(
        "Host kvm1: drover_reserved_host_memory_mb must be a whole number of MiB from 0 to "
    )
