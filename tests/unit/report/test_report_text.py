# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables that people read."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils.report.text import align, hosts_table, instances_table, width


def test_columns_line_up():
    assert align(["NAME", "N"], [["a", 1], ["longer", 22.5], [None, True]], right=("N",)) == [
        "NAME       N",
        "a          1",
        "longer  22.5",
        "-        yes",
    ]


def test_wide_characters_and_control_characters():
    lines = align(["NAME", "X"], [["データ", "a"], ["e\u0301te\u0301", "b"], ["two\nlines\t\x1b[31m", "c"]])
    assert width("データ") == 6 and width("e\u0301te\u0301") == 3
    assert len({width(line) for line in lines}) == 1
    assert lines[3].startswith("two lines [31m")


def test_rows_must_fit_the_headings():
    with pytest.raises(ValueError, match="1 values"):
        align(["A", "B"], [["x"]])
    assert align(["A", "B"], []) == ["A  B"]


def figures(**sizes):
    found = {}
    for name, (used, capacity) in sizes.items():
        found[f"{name}_used"], found[f"{name}_capacity"] = used, capacity
    return found


def test_hosts():
    hosts = [
        {
            "host": "kvm1",
            "state": "up",
            "status": "enabled",
            "zones": ["az1", "az2"],
            "instances": 1,
            **figures(vcpus=(3, 4), memory_mb=(192, 256), disk_gb=(3, 10)),
        },
        {
            "host": "kvm2",
            "state": "up",
            "status": "disabled",
            "disabled_reason": "new fan",
            "zones": [],
            "instances": 0,
            **figures(vcpus=(0, 256), memory_mb=(1536, 65024), disk_gb=(0, 1000)),
        },
        {
            "host": "kvm3",
            "state": "down",
            "down_reason": "no route",
            "maintenance": True,
            "status": "disabled",
            "disabled_reason": "patch",
            "instances": 0,
        },
    ]
    assert hosts_table(hosts) == [
        "HOST  STATE              ZONE       VCPU           RAM        DISK  INSTANCES  REASON",
        "kvm1  up                 az1, az2    3/4   192/256 MiB    3/10 GiB          1  -",
        "kvm2  up, disabled       -         0/256  1.5/63.5 GiB  0/1000 GiB          0  new fan",
        "kvm3  down, maintenance  -             -             -           -          0  patch; no route",
    ]


def test_hosts_come_in_the_order_of_their_numbers():
    rows = [{"host": name} for name in ("kvm10", "kvm2", "b1", "kvm1-b", "kvm1")]
    assert [line.split()[0] for line in hosts_table(rows)[1:]] == ["b1", "kvm1", "kvm1-b", "kvm2", "kvm10"]


def test_instances():
    rows = [
        {
            "name": "web1",
            "state": "running",
            "host": "kvm1",
            "node": "kvm1",
            "vcpus": 1,
            "memory_mb": 64,
            "disk_gb": 1,
            "server_group": "web",
            "project": None,
        },
        {"name": "x", "state": "building", "host": "kvm2", "node": "kvm2-lxc", "vcpus": 10, "memory_mb": 512},
    ]
    assert instances_table(rows) == [
        "INSTANCE  STATE     HOST           VCPU  MiB  GiB  GROUP  PROJECT",
        "web1      running   kvm1              1   64    1  web    -",
        "x         building  kvm2/kvm2-lxc    10  512    -  -      -",
    ]
