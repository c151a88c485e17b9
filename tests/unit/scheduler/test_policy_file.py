# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Policy files: errors name file, line and column; and the user's own host filters and weighers."""

from __future__ import annotations

import pathlib
import re

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._report.explanation import render
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler import policy_file
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.errors import (
    PolicyError,
    SchedulerError,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.filter_scheduler import (
    schedule,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.host_states import (
    HostStates,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.tests.unit.scheduler.fleets import fleet, host, request

DOCS = pathlib.Path(__file__).resolve().parents[3] / "docs"
GUIDES = "".join((DOCS / name).read_text() for name in ("scheduler.md", "scheduler-nova.md"))


@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        ("enabled_filters:\n  - RamFilter\n  - Nonsense\n", "line 3, column 5", "names 'Nonsense'"),
        ("max_attempts: 2\nfilters: []\n", "line 2, column 1", "unknown key filters"),
        (
            "weighers:\n  RAMWeigher: 1\n  CPUWeigher: much\n",
            "line 3, column 3",
            "must be a number",
        ),
        (
            "drover_scheduler:\n  max_attempts: 0\n",
            "line 2, column 3",
            "a whole number of at least 1",
        ),
        ("a: [1\nb: 2\n", "line 2, column", "a list that begins with [ has no ] at its end"),
        ("- RamFilter\n", "line 1, column 1", "must be a mapping"),
    ],
)
def test_errors_name_line_and_column(tmp_path, text, where, says):
    path = tmp_path / "policy.yml"
    path.write_text(text)
    with pytest.raises(PolicyError) as caught:
        policy_file.load(str(path))
    assert (
        str(path) in str(caught.value) and where in str(caught.value) and says in str(caught.value)
    )


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(PolicyError, match="cannot be read: No such file"):
        policy_file.load(str(tmp_path / "none.yml"))


def test_a_good_file(tmp_path):
    path = tmp_path / "policy.yml"
    path.write_text("enabled_filters: [ComputeFilter]\nweighers: {RAMWeigher: -1}\n")
    policy = policy_file.load(str(path))
    assert [each.name for each in policy.filters] == ["ComputeFilter"]
    assert [(each.name, multiplier) for each, multiplier in policy.weighers] == [
        ("RAMWeigher", -1.0)
    ]
    path.write_text("")
    assert policy_file.load(str(path)).max_attempts == 3


def write(folder, kind, name, text):
    (folder / kind).mkdir(exist_ok=True)
    (folder / kind / name).write_text(text)


def test_the_guide_s_own_filter_and_weigher_work(tmp_path):
    blocks = dict(
        re.findall(r"```python\n# ((?:host_filters|weighers)/\S+)\n(.*?)```", GUIDES, re.S)
    )
    assert len(blocks) == 4
    for path, text in blocks.items():
        kind, name = path.split("/")
        write(tmp_path, kind, name, text)
    filters = ["EvenHostFilter", "RoomyFilter", "SpareFilter"]
    policy = Policy.from_mapping(
        {"enabled_filters": filters, "spare_mb": 2048, "weighers": {"NameWeigher": 2.0}},
        [str(tmp_path)],
    )
    columns = fleet(
        host("kvm1"), host("kvm2"), host("kvm3"), host("kvm4"), host("kvm6", memory_mb=100)
    )
    (chosen,) = schedule(HostStates(columns), [request()], policy)
    assert (chosen["host"], chosen["weight"], [each["host"] for each in chosen["alternates"]]) == (
        "kvm4",
        2.0,
        ["kvm2"],
    )


def test_a_filter_that_raises_names_itself_and_the_host(tmp_path):
    write(
        tmp_path,
        "host_filters",
        "bad_filter.py",
        "class BadFilter:\n    def host_passes(self, host, spec):\n        return 1 / 0\n",
    )
    policy = Policy.from_mapping({"enabled_filters": ["BadFilter"]}, [str(tmp_path)])
    with pytest.raises(
        SchedulerError, match="The host filter BadFilter failed on host a: ZeroDivisionError"
    ):
        schedule(HostStates(fleet(host("a"))), [request()], policy)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("x_filter.py", "class Other: pass\n", "has no class XFilter"),
        ("x_filter.py", "class XFilter: pass\n", "has neither a method passes nor host_passes"),
        ("x_filter.py", "import nothing_of_that_name\n", "cannot be loaded: ModuleNotFoundError"),
        (
            "y_filter.py",
            "",
            (
                "names 'XFilter' under 'enabled_filters', which does not exist .did you mean"
                " YFilter.*; there are: .*YFilter"
            ),
        ),
    ],
)
def test_own_filters_that_cannot_be_used(tmp_path, name, text, says):
    write(tmp_path, "host_filters", name, text)
    with pytest.raises(PolicyError, match=says):
        Policy.from_mapping({"enabled_filters": ["XFilter"]}, [str(tmp_path)])


def test_a_collection_s_filter_that_is_not_there():
    with pytest.raises(
        PolicyError,
        match="ansible_collections.acme.cloud.plugins.plugin_utils.host_filters.gpu_filter",
    ):
        Policy.from_mapping({"enabled_filters": ["acme.cloud.GpuFilter"]})


def test_rendering():
    (chosen,) = schedule(
        HostStates(fleet(host("a"), host("b", memory_mb=64))), [request()], Policy.from_mapping()
    )
    assert render(chosen) == [
        "web1 goes to a; alternates: b",
        "hosts: 2",
        f"  {len(chosen['explanation']['filters'])} filters rejected none",
        "1. a: most free vCPU (8), most free disk (100 GiB), most free memory (8 GiB)",
        "2. b: most free vCPU (8), most free disk (100 GiB), free memory 64 MiB",
    ]
    lines = render(chosen, numbers=True)
    assert lines[0] == "web1 goes to a (weight 3); alternates: b"
    assert "  ComputeFilter                  2 left, 0 rejected" in lines
    assert "     RAMWeigher: 8192, normalised 1.000, times 1" in lines
