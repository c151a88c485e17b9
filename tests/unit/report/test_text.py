# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables that people read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.plugin_utils._report import formatting
from ansible_collections.drover.compute.plugins.plugin_utils._report.hosts import EMPTY, hosts_table
from ansible_collections.drover.compute.plugins.plugin_utils._report.placing import capacity_lines
from ansible_collections.drover.compute.plugins.plugin_utils._report.plans import evacuation_lines
from ansible_collections.drover.compute.plugins.plugin_utils._report.text import (
    BAD,
    NOTABLE,
    Row,
    align,
    folded,
    instances_table,
    names_within,
    width,
)


def test_columns_line_up():
    assert align(["NAME", "N"], [["a", 1], ["longer", 22.5], [None, True]], right=("N",)) == [
        "NAME       N",
        "a          1",
        "longer  22.5",
        "-        yes",
    ]


def test_wide_characters_and_control_characters():
    lines = align(
        ["NAME", "X"], [["データ", "a"], ["e\u0301te\u0301", "b"], ["two\nlines\t\x1b[31m", "c"]]
    )
    assert width("データ") == 6 and width("e\u0301te\u0301") == 3
    assert len({width(line) for line in lines}) == 1
    assert lines[3].startswith("two lines [31m")


def test_rows_must_fit_the_headings():
    with pytest.raises(ValueError, match="1 values"):
        align(["A", "B"], [["x"]])
    assert align(["A", "B"], []) == ["A  B"]


def within(lines, most):
    """Return the lines as a terminal with this number of columns shows them, before it folds long
    lines; None for no terminal."""
    return [line.within(most) if most and isinstance(line, Row) else line for line in lines]


def test_columns_that_may_be_left_out_are_when_the_lines_do_not_fit():
    table = (["NAME", "FREE", "ZONE", "WHY"], [["kvm1", "12 GiB", "east", "broken"]])
    whole = within(align(*table, optional=("FREE", "ZONE")), 30)
    assert whole == ["NAME  FREE    ZONE  WHY", "kvm1  12 GiB  east  broken"]
    assert within(align(*table, optional=("FREE", "ZONE"), indent=" "), 26) == [
        " NAME  ZONE  WHY",
        " kvm1  east  broken",
    ]
    assert within(align(*table, optional=("FREE", "ZONE")), 12) == ["NAME  WHY", "kvm1  broken"]


WORKERS = [f"production-cluster-eu-west-worker-{number}" for number in (1, 2)]


def instances_named(names, most, **more):
    rows = [
        {
            "name": name,
            "state": "running",
            "host": "kvm1",
            "node": "kvm1",
            "vcpus": 1,
            "memory_mb": 64,
            "disk_gb": 1,
            **more,
        }
        for name in names
    ]
    return within(instances_table(rows, NODES), most)


def test_names_are_whole_where_there_is_room():
    for most in (200, 120, None):
        heading, *lines = instances_named(
            WORKERS, most, server_group="web", project="shop", labels={"tier": "front"}
        )
        assert [line.split()[0] for line in lines] == WORKERS and heading.endswith("LABELS"), (
            heading
        )
    # Other columns are dropped first.
    heading, *lines = instances_named(
        WORKERS, 74, server_group="web", project="shop", labels={"tier": "front"}
    )
    assert [line.split()[0] for line in lines] == WORKERS and heading.endswith("DISK"), heading


def test_names_without_room_are_cut_in_the_middle():
    lines = instances_named([*WORKERS, "db"], 68)[1:]
    first, second, third = (line.split()[0] for line in lines)
    assert (
        first == "production-clu...u-west-worker-1"
        and second == "production-clu...u-west-worker-2"
        and third == "db"
    )
    assert width(first) == 32 and max(map(width, lines)) <= 68


def test_names_of_a_plan_stay_different():
    plan = {"restarts": [{"name": name, "host": "kvm2", "node": "kvm2"} for name in WORKERS]}
    lines = evacuation_lines("kvm1", plan)
    assert [line.split()[0] for line in lines[2:]] == WORKERS
    cut = [line.split()[0] for line in within(lines[2:], 40)]
    assert len(set(cut)) == 2 and max(map(len, cut)) == 32


@pytest.mark.parametrize(
    ("state", "alarming"),
    [
        ("up", None),
        ("down", BAD),
        ("up, disabled", NOTABLE),
        ("up, maintenance", NOTABLE),
        ("down, maintenance", BAD),
        ("running", None),
    ]
    + [("missing", BAD), ("crashed", BAD), ("paused", NOTABLE), ("shutoff", None)],
)
def test_a_row_knows_how_alarming_its_state_is(state, alarming):
    heading, row = align(["NAME", "STATE"], [["down", state]])
    assert (heading.alarm, row.alarm) == (None, alarming) and state in row
    assert align(["NAME", "MESSAGE"], [["a", state]])[1].alarm is None


def test_two_names_never_become_the_same():
    names = [f"production-cluster-eu-{region}-of-the-shop-worker-1" for region in ("west", "east")]
    assert [line.split()[0] for line in instances_named(names, 70)[1:]] == names


def test_a_filter_that_gives_no_reason_is_named():
    rejected = {
        "host": "kvm1",
        "node": "kvm1",
        "count": 0,
        "short": None,
        "rejected_by": "OwnFilter",
        "reason": None,
    }
    found = {"name": "small", "total": 0, "short": None, "with_loss": None, "hosts": [rejected]}
    assert capacity_lines([found])[-1] == "kvm1         0  rejected by OwnFilter"


@given(st.lists(st.text("abデ-", min_size=1, max_size=60), unique=True), st.integers(32, 60))
def test_cut_names_fit_or_are_whole(names, most):
    cut = names_within(names, most)
    assert len(set(cut)) == len(names)
    assert cut == names or all(width(each) <= most for each in cut)


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("", [""]),
        ("a line that fits it", ["a line that fits it"]),
        ("a sentence that does not fit", ["a sentence that does", "not fit"]),
        ("  one that is indented so", ["  one that is", "  indented so"]),
        # Below the last column.
        ("kvm1  up  a bad fan and more", ["kvm1  up  a bad fan", "          and more"]),
        # It would begin too far to the right.
        ("kvm1    maintenance  bad fan", ["kvm1    maintenance", "    bad fan"]),
        ("/a/path/without/any/blank/in/it", ["/a/path/without/any/", "blank/in/it"]),
        ("データデータデータデータ", ["データデータデータデ", "ータ"]),
    ],
)
def test_folding(line, lines):
    assert folded(line, 20) == lines


@given(st.text(st.sampled_from(" abcデ\u0301"), max_size=200), st.integers(20, 60))
def test_a_folded_line_is_never_too_wide_and_loses_nothing(line, most):
    lines = folded(line, most)
    assert all(width(each) <= most for each in lines)
    assert "".join("".join(lines).split()) == "".join(line.split())


@pytest.mark.parametrize(
    ("gib", "text"),
    [
        (0, "0 GiB"),
        (1.5, "1.5 GiB"),
        (2000, "1.95 TiB"),
        (2048, "2 TiB"),
        (4000, "3.91 TiB"),
        (1023, "1,023 GiB"),
        (40960, "40 TiB"),
    ],
)
def test_sizes(gib, text):
    assert formatting.disk(gib) == text
    assert formatting.memory(gib * 1024) == (text if gib else "0 MiB")


@pytest.mark.parametrize(
    ("used", "capacity", "text"),
    [
        (201 * 1024, 252 * 1024, "201/252 GiB 79%"),
        (0, 512, "0/512 MiB 0%"),
        (None, None, None),
        (5, 0, "5/0 MiB"),
        (1650 * 1024, 2000 * 1024, "1.61/1.95 TiB 82%"),
    ],
)
def test_shares(used, capacity, text):
    assert formatting.share(used, capacity, formatting.MEMORY) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "just now"),
        (0, "just now"),
        (119.9, "1 min ago"),
        (180, "3 min ago"),
        (7200, "2 h ago"),
        (9 * 86400, "9 days ago"),
        (None, None),
    ],
)
def test_how_long_ago(seconds, text):
    assert formatting.ago(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1.5, "1.5 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7199, "2 h"),
        (7200, "2 h"),
        (12600, "3 h 30 min"),
        (None, None),
    ],
)
def test_durations(seconds, text):
    assert formatting.duration(seconds) == text


def node(**sizes):
    node_row = {"uuid": "u", "disk_pool": None}
    for name, (used, capacity) in sizes.items():
        node_row[f"{name}_used"], node_row[f"{name}_capacity"], node_row[name] = (
            used,
            capacity,
            capacity,
        )
    return node_row


def listed(name, state="up", status="enabled", seen=940, **more):
    sizes = more.pop("sizes", None)
    nodes = [] if sizes is None else [{**node(**sizes), "uuid": name}]
    base = {
        "host": name,
        "state": state,
        "status": status,
        "maintenance": False,
        "last_seen_up": seen,
        "instances": 0,
        "nodes": nodes,
    }
    return {**base, **({} if sizes is None else node(**sizes)), **more}


KVM1 = {"vcpus": (3, 4), "memory_mb": (192, 256), "disk_gb": (3, 10)}
KVM2 = {"vcpus": (0, 256), "memory_mb": (1536, 65024), "disk_gb": (0, 1000)}


def test_hosts():
    hosts = [
        listed("kvm1", sizes=KVM1, zones=["az1", "az2"], instances=1),
        listed(
            "kvm2", status="disabled", sizes=KVM2, disabled_reason="new fan", zones=[], seen=None
        ),
        listed(
            "kvm3",
            "down",
            "disabled",
            down_reason="no route",
            maintenance=True,
            disabled_reason="patch",
            seen=1000 - 2 * 86400,
        ),
    ]
    assert hosts_table(hosts, 1000)[:2] == [
        (
            "HOST  STATE              ZONE          VCPU           MEMORY            DISK "
            " INSTANCES  SEEN        FREE VCPU, MEMORY, DISK  REASON"
        ),
        (
            "kvm1  up                 az1, az2   3/4 75%  192/256 MiB 75%    3/10 GiB 30%         "
            " 1  1 min ago   1, 64 MiB, 7 GiB         -"
        ),
    ]
    assert within(hosts_table(hosts, 1000), 100) == [
        (
            "HOST  STATE                  VCPU           MEMORY            DISK  INSTANCES  SEEN   "
            "     REASON"
        ),
        (
            "kvm1  up                  3/4 75%  192/256 MiB 75%    3/10 GiB 30%          1  1 min"
            " ago   -"
        ),
        (
            "kvm2  up, disabled       0/256 0%  1.5/63.5 GiB 2%  0/1,000 GiB 0%          0  never  "
            "     new fan"
        ),
        (
            "kvm3  down, maintenance         -                -               -          0  2 days"
            " ago  patch; no route"
        ),
        "",
        "Free on the hosts that take instances (1 of 3): 1 vCPU, 64 MiB memory, 7 GiB disk.",
    ]


def test_walk_f29_a_host_that_is_down_has_its_next_step():
    hosts = [listed(name, "down", instances=2, down_reason="no route") for name in ("kvm1", "kvm2")]
    assert (
        hosts_table(hosts, 1000)[-1]
        == "kvm1 is down and has instances: ansible-playbook drover.compute.evacuate -e"
        " drover_host=kvm1 --check shows how they restart elsewhere. The same for kvm2."
    )


def test_the_plan_of_an_evacuation_is_a_table():
    restarts = [
        {"name": "web1", "host": "kvm2", "node": "kvm2"},
        {"name": "db1", "host": "kvm3", "node": "kvm3-b"},
        {"name": "x", "host": "kvm3", "node": "kvm3"},
    ]
    plan = {"restarts": restarts, "found": [], "left": [], "lost": []}
    assert evacuation_lines("kvm1", plan) == [
        "Evacuation of kvm1: 3 instances to restart.",
        "  INSTANCE  FROM      TO",
        "  web1      kvm1  ->  kvm2",
        "  db1       kvm1  ->  kvm3/kvm3-b",
        "  x         kvm1  ->  kvm3",
    ]
    assert evacuation_lines("kvm1", {**plan, "restarts": []}) == [
        "No instance of kvm1 is to be restarted."
    ]


def test_no_hosts():
    assert hosts_table([], 1000) == [EMPTY] and "drover.compute.discover" in EMPTY


def test_hosts_come_in_the_order_of_their_numbers():
    rows = [listed(name) for name in ("kvm10", "kvm2", "b1", "kvm1-b", "kvm1")]
    assert [line.split()[0] for line in hosts_table(rows, 1000)[1:]] == [
        "b1",
        "kvm1",
        "kvm1-b",
        "kvm2",
        "kvm10",
    ]


#: kvm2 has two nodes.
NODES = [("kvm2", "kvm2"), ("kvm2", "kvm2-lxc")]


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
        {
            "name": "x",
            "state": "building",
            "host": "kvm2",
            "node": "kvm2-lxc",
            "vcpus": 10,
            "memory_mb": 512,
        },
    ]
    assert instances_table(rows, NODES) == [
        "INSTANCE  STATE     HOST           VCPU   MEMORY   DISK  GROUP  PROJECT",
        "web1      running   kvm1              1   64 MiB  1 GiB  web    -",
        "x         building  kvm2/kvm2-lxc    10  512 MiB      -  -      -",
    ]
    rows[0]["labels"] = {"tier": "front", "app": "shop"}
    assert instances_table(rows, NODES)[:2] == [
        "INSTANCE  STATE     HOST           VCPU   MEMORY   DISK  GROUP  PROJECT  LABELS",
        (
            "web1      running   kvm1              1   64 MiB  1 GiB  web    -        app=shop,"
            " tier=front"
        ),
    ]
    # Shown only if there is room.
    assert within(instances_table(rows, NODES), 80)[0].endswith("GROUP  PROJECT")
