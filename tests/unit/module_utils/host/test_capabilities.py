# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Capabilities and domain capabilities as recorded from a QEMU host."""

from __future__ import annotations

import pathlib

import libvirt
import pytest

from ansible_collections.drover.compute.plugins.module_utils._host.capabilities import (
    cpu_element,
    features_of,
    host_model_cpu,
    parse_capabilities,
    read_free_pages,
)
from ansible_collections.drover.compute.plugins.module_utils._libvirt.xml import parse_cpu_set

DATA = pathlib.Path(__file__).parents[1] / "data"
CAPABILITIES = (DATA / "capabilities-qemu.xml").read_text()
DOMAIN_CAPABILITIES = (DATA / "domcapabilities-qemu.xml").read_text()


def test_a_recorded_qemu_host():
    facts = parse_capabilities(CAPABILITIES)
    assert facts["host_uuid"] == "2f4e4012-a963-5b98-ba63-4c1dcd0a613f"
    cpu = facts["cpu"]
    assert (cpu["arch"], cpu["model"], cpu["vendor"]) == ("x86_64", "Broadwell", "Intel")
    assert "avx512f" in cpu["features"]
    assert cpu["topology"] == {"cells": 1, "sockets": 1, "cores": 2, "threads": 1}
    cell = facts["numa_cells"][0]
    assert [c["id"] for c in cell["cpus"]] == [0, 1]
    assert [page["size_kb"] for page in cell["pages"]] == [4, 2048, 1048576]
    assert cell["pages"][0]["count"] * 4 // 1024 == cell["memory_mb"]
    assert ["x86_64", "qemu", "hvm"] in facts["supported_instances"]
    assert ["x86_64", "kvm", "hvm"] in facts["supported_instances"]


def test_the_cpu_that_host_model_stands_for():
    element = host_model_cpu(DOMAIN_CAPABILITIES)
    assert element.startswith("<cpu ")
    assert '<model fallback="forbid">EPYC</model>' in element
    assert "hypervisor" in features_of(element)
    assert (
        host_model_cpu(
            "<domainCapabilities><cpu><mode name='host-model'"
            " supported='no'/></cpu></domainCapabilities>"
        )
        is None
    )


def test_a_feature_that_is_disabled_is_not_counted():
    assert features_of(
        "<cpu><feature policy='disable' name='svm'/><feature policy='require' name='aes'/></cpu>"
    ) == ["aes"]


def test_a_host_without_cpu_model_or_topology():
    facts = parse_capabilities(
        "<capabilities><host><cpu><arch>riscv64</arch></cpu></host></capabilities>"
    )
    assert facts["cpu"]["model"] is None
    assert facts["numa_cells"] == []
    assert facts["cpu"]["topology"] == {"cells": 1, "sockets": 1, "cores": 1, "threads": 1}
    assert (
        cpu_element("<capabilities><host><cpu><arch>riscv64</arch></cpu></host></capabilities>")
        is None
    )


@pytest.mark.parametrize(
    "text, numbers",
    [("0-2,8", [0, 1, 2, 8]), ("0-3,^1", [0, 2, 3]), ("", []), (None, []), ("5", [5])],
)
def test_cpu_sets(text, numbers):
    assert parse_cpu_set(text) == numbers


def test_what_is_no_xml():
    with pytest.raises(ValueError, match="not well-formed"):
        parse_capabilities("<capabilities>")


def test_what_is_other_xml():
    with pytest.raises(ValueError, match="there is no <host>"):
        parse_capabilities("<domain/>")


def test_the_cells_of_a_host_with_two_sockets():
    cells = parse_capabilities((DATA / "capabilities-two-cells.xml").read_text())["numa_cells"]
    assert [(cell["id"], cell["memory_mb"], len(cell["cpus"])) for cell in cells] == [
        (0, 16384, 4),
        (1, 16384, 4),
        (2, 8192, 0),
    ]
    assert cells[0]["cpus"][2] == {
        "id": 4,
        "socket": 0,
        "die": 0,
        "cluster": 0,
        "core": 0,
        "siblings": [0, 4],
    }
    assert cells[0]["pages"][1] == {"size_kb": 2048, "count": 2048, "free": None}
    assert cells[1]["distances"] == [
        {"id": 0, "value": 21},
        {"id": 1, "value": 10},
        {"id": 2, "value": 28},
    ]


def test_an_offline_cpu_is_no_core_of_one_thread():
    cells = parse_capabilities((DATA / "capabilities-two-cells.xml").read_text())["numa_cells"]
    offline = {"id": 7, "socket": None, "die": None, "cluster": None, "core": None, "siblings": []}
    assert cells[1]["cpus"][3] == offline
    assert cells[1]["cpus"][1]["siblings"] == [3]


def test_an_unknown_socket_is_not_socket_0():
    cpus = (
        "<cpu id='0' socket_id='-1' core_id='0' siblings='0'/><cpu id='1' core_id='1'"
        " siblings='1'/>"
    )
    text = (
        "<capabilities><host><topology><cells><cell"
        f" id='0'><cpus>{cpus}</cpus></cell></cells></topology></host></capabilities>"
    )
    assert [
        (cpu["socket"], cpu["siblings"])
        for cpu in parse_capabilities(text)["numa_cells"][0]["cpus"]
    ] == [(None, [0]), (None, [1])]


class FreePages:
    """A stand-in for virNodeGetFreePages: it knows the sizes of each cell alone, and refuses
    others."""

    def __init__(self, free):
        self.free, self.calls = free, []

    def getFreePages(self, sizes, start, count, flags=0):  # noqa: N802  # libvirt's name
        self.calls.append((tuple(sizes), start, count))
        counts = self.free.get(start)
        if counts is None or not set(sizes) <= set(counts):
            raise libvirt.libvirtError("page size is not available on the node")
        return {start: {size: counts[size] for size in sizes}}


def test_the_free_pages_of_each_size_and_cell():
    cells = parse_capabilities((DATA / "capabilities-two-cells.xml").read_text())["numa_cells"]
    conn = FreePages({0: {4: 900000, 2048: 1500, 1048576: 1}, 2: {4: 2000000}})
    read_free_pages(conn, cells)
    assert [page["free"] for page in cells[0]["pages"]] == [900000, 1500, 1]
    # A cell without an answer of libvirt hides no other cell.
    assert [page["free"] for page in cells[1]["pages"]] == [None, None, None]
    assert [page["free"] for page in cells[2]["pages"]] == [2000000]
    assert len(conn.calls) == 3
