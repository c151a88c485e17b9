# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules that plan and count: their answers, which are those of the lookups, one clear
sentence if there is no answer, and the playbooks that show them."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import flavors
from ansible_collections.drover.compute.tests.properties.lookups.test_lookups import ask
from ansible_collections.drover.compute.tests.unit.action.running import (
    failure,
    is_plain,
    play,
    playbook,
    run,
)
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host, uuid_of

SMALL = {"name": "new", "vcpus": 1, "memory_mb": "1GiB", "disk_gb": 1}
# The settings of the module copy; localhost is in the inventory of these tests.
LOCAL = ("-c", "local", "-e", f"ansible_python_interpreter={sys.executable}")
HOMES = [{"uuid": uuid_of("web"), "host": "kvm2", "node": "kvm2"}]


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    path = tmp_path_factory.mktemp("plans") / "store.db"
    url = f"sqlite:///{path}"
    Store.open(url).upgrade()
    kept = domain("kept", disk_gb=1, snapshots=True)
    full = [domain(f"app{number}", memory_mb=512, disk_gb=5) for number in range(3)]
    fleets.discover(
        url, host("kvm1", domain("web", disk_gb=1), kept, *full), host("kvm2"), host("kvm10")
    )
    with Store.open(url).write() as connection:
        flavors.ensure(
            connection, "small", {"vcpus": 1, "memory_mb": 512, "disk_gb": 1}, fleets.NOW
        )
        flavors.ensure(
            connection, "huge", {"vcpus": 64, "memory_mb": 65536, "disk_gb": 1}, fleets.NOW
        )
    return path


@pytest.fixture
def url(filled, tmp_path):
    shutil.copyfile(filled, tmp_path / "store.db")
    return f"sqlite:///{tmp_path}/store.db"


def looked_up(name, url, *terms, **options):
    return ask(name, *terms, store_url=url, **options)


@pytest.mark.parametrize(
    "module, args, same",
    [
        ("plan_drain_info", {"host": "kvm1", "max_migrations": 1}, {}),
        ("plan_drain_info", {"host": "kvm1, kvm2"}, {"host": ["kvm2", "kvm1", "kvm2"]}),
        ("plan_home_info", {"instances": HOMES}, {}),
        ("plan_rolling_info", {"spare_hosts": 1}, {"hosts": ["kvm1", "kvm2", "kvm10"]}),
        ("plan_rolling_info", {"hosts": ["kvm2", "kvm10"], "batch_size": 1}, {}),
        ("plan_rebalance_info", {"max_moves": 2, "cooldown": 0}, {}),
    ],
)
def test_the_same_question_has_the_same_plan(url, module, args, same):
    answer = run(module, store_url=url, **args)
    assert answer["changed"] is False
    assert answer["plan"]["lines"] and is_plain(answer["plan"])
    assert run(module, store_url=url, **{**args, **same})["plan"] == answer["plan"]
    assert run(module, store_url=url, check=True, **args)["plan"] == answer["plan"]


def test_there_is_something_in_these_plans(url):
    drain = run("plan_drain_info", store_url=url, host="kvm1")["plan"]
    assert {move["name"] for move in drain["moves"]} == {"web", "app0", "app1", "app2"}
    assert [each["name"] for each in drain["unmovable"]] == ["kept"]
    both = run("plan_drain_info", store_url=url, host=["kvm2", "kvm1"])["plan"]
    assert (
        both["hosts"] == ["kvm1", "kvm2"]
        and both["moves"]
        and {move["host"] for move in both["moves"]} == {"kvm10"}
    )
    assert {each["host"] for each in both["unmovable"]} <= {"kvm1", "kvm2"}
    assert run("plan_rebalance_info", store_url=url)["plan"]["moves"]
    assert [
        move["host"]
        for move in run("plan_home_info", store_url=url, instances=HOMES)["plan"]["moves"]
    ] == ["kvm2"]


def test_selections_are_those_of_the_lookup(url):
    uuids = [uuid_of("a"), uuid_of("b")]
    requests = [{**SMALL, "num_instances": 2, "uuids": uuids}]
    answer = run("schedule_info", store_url=url, requests=requests)
    assert (
        answer["selections"] == looked_up("schedule", url, requests) and answer["changed"] is False
    )
    assert answer["lines"][0].split() == ["INSTANCE", "HOST", "ELSE"]
    assert [line.split()[:2] for line in answer["lines"][1:3]] == [
        [each["name"], each["host"]] for each in answer["selections"]
    ]
    assert all(each["resources"]["MEMORY_MB"] == 1024 for each in answer["selections"])
    assert answer["selections"][0]["explanation"]["filters"]
    short = run("schedule_info", store_url=url, requests=requests, explain=False)
    assert short["selections"][0]["explanation"]["filters"] == []


def test_counts_are_those_of_the_lookup(url):
    found = run("capacity_info", store_url=url, requests=["small", SMALL])
    assert found["capacity"] == looked_up("capacity", url, "small", SMALL)
    assert found["capacity"][0]["total"] == found["capacity"][1]["total"] == 8
    assert (
        run("capacity_info", store_url=url, requests=["small"], loss=False)["capacity"][0][
            "with_loss"
        ]
        is None
    )


def test_all_flavors_are_counted_the_smallest_first(url):
    answer = run("capacity_info", store_url=url)
    assert [(each["name"], each["total"]) for each in answer["capacity"]] == [
        ("small", 8),
        ("huge", 0),
    ]
    assert answer["lines"][0].startswith(
        "SIZE   MORE FIT  RUNS OUT FIRST  IF THE WORST HOST IS LOST"
    )
    assert answer["lines"][1].split()[:3] == ["small", "8", "vCPUs"]
    assert len(answer["lines"]) == 3


def test_one_flavor_is_shown_on_each_host(url):
    lines = run("capacity_info", store_url=url, requests=["small"])["lines"]
    assert [line.split()[0] for line in lines[4:]] == ["kvm1", "kvm2", "kvm10"]
    assert [line.split()[1] for line in lines[4:]] == ["0", "4", "4"]


def test_a_host_that_is_rejected_is_shown_with_the_filter_and_its_reason(url):
    run("host", store_url=url, name="kvm2", state="disabled", reason="new fan")
    answer = run("capacity_info", store_url=url, requests=["small"])
    assert answer["lines"][5].split(maxsplit=2) == [
        "kvm2",
        "0",
        "rejected by ComputeFilter: disabled, 'new fan'",
    ]
    rejected = [(each["rejected_by"], each["reason"]) for each in answer["capacity"][0]["hosts"]]
    assert sorted(rejected, key=str) == [
        ("ComputeFilter", "disabled, 'new fan'"),
        (None, None),
        (None, None),
    ]
    huge = run("capacity_info", store_url=url, requests=["huge"])["lines"]
    assert huge[4].endswith("rejected by CoreFilter: CPU: asked 64 vCPU, 0 vCPU free of 4"), huge

    for name in ("small", "huge"):
        run("flavor", store_url=url, name=name, state="absent")
    assert failure("capacity_info", store_url=url).startswith(
        "The store has no flavor to count. Make one with drover.compute.flavor, or"
    )
    assert run("capacity_info", store_url=url, requests=[])["lines"] == [
        "There is nothing to count."
    ]


@pytest.mark.parametrize("query", [{"resources": {"VCPU": 1}}, "resources=VCPU:1"])
def test_candidates_are_those_of_the_lookup(url, query):
    answer = run("allocation_candidates_info", store_url=url, query=query)
    (wanted,) = looked_up("allocation_candidates", url, query)
    assert {key: answer[key] for key in wanted} == wanted and len(
        answer["allocation_requests"]
    ) == 3 - 1
    assert answer["changed"] is False


@pytest.mark.parametrize(
    "module, args, sentence",
    [
        (
            "plan_drain_info",
            {"host": "kmv1"},
            (
                "Host kmv1 is not in the store (did you mean kvm1?). Known hosts: kvm1, kvm2,"
                " kvm10. Run"
            ),
        ),
        (
            "plan_drain_info",
            {"host": "kvm9"},
            "Host kvm9 is not in the store. Known hosts: kvm1, kvm2, kvm10. Run",
        ),
        (
            "plan_drain_info",
            {"host": "kvm1,kmv2"},
            (
                "Host kmv2 is not in the store (did you mean kvm2?). Known hosts: kvm1, kvm2,"
                " kvm10. Run"
            ),
        ),
        (
            "plan_drain_info",
            {"host": []},
            "Which host? Name at least one, such as kvm1, or several as kvm1,kvm2.",
        ),
        (
            "plan_drain_info",
            {"host": "kvm1", "max_migrations": 0},
            "max_migrations must be at least 1, or nothing would ever move.",
        ),
        (
            "plan_home_info",
            {"instances": [{"uuid": "x"}]},
            "is a mapping with uuid, host and node, not {'uuid': 'x'}.",
        ),
        (
            "plan_home_info",
            {"instances": [], "max_migrations": 0},
            "max_migrations must be at least 1",
        ),
        (
            "plan_rolling_info",
            {"hosts": ["kvm01", "kvm7"]},
            "Host kvm01 is not in the store (did you mean kvm1?).",
        ),
        ("plan_rebalance_info", {"max_migrations": 0}, "max_migrations must be 1 or more, not 0."),
        ("schedule_info", {"requests": [{**SMALL, "vcpus": 500}]}, "No valid host for"),
        (
            "schedule_info",
            {"requests": [{"name": "a", "flavor": "smal"}]},
            "flavor 'smal' is not in the store (did you mean small?)",
        ),
        (
            "capacity_info",
            {"requests": [{**SMALL, "num_instances": 2}]},
            "num_instances of a request for capacity must be 1",
        ),
        (
            "allocation_candidates_info",
            {"query": {"resource": {}}},
            "unknown key resource (did you mean resources?)",
        ),
        (
            "schedule_info",
            {"requests": [SMALL], "policy": {"enabled_filters": ["RamFiler"]}},
            "(did you mean RamFilter?)",
        ),
    ],
)
def test_a_failure_is_one_sentence(url, module, args, sentence):
    found = failure(module, store_url=url, **args)
    assert sentence in found and "lookup plugin" not in found


def test_nothing_is_written(url, tmp_path):
    before = (tmp_path / "store.db").read_bytes()
    run("schedule_info", store_url=url, requests=[SMALL])
    failure("schedule_info", store_url=url, requests=[{**SMALL, "vcpus": 500}])
    run("plan_drain_info", store_url=url, host="kvm1")
    run("capacity_info", store_url=url)
    assert (tmp_path / "store.db").read_bytes() == before


def test_variables_set_options_and_lines_are_shown_on_wish(url, tmp_path):
    tasks = [
        {"drover.compute.plan_rebalance_info": {"show": True}, "register": "moved"},
        {"drover.compute.plan_drain_info": {"host": "kvm1"}},
        {"ansible.builtin.assert": {"that": "moved.plan.moves | length == 1"}},
    ]
    status, output = play(
        tmp_path, tasks, vars={"drover_store_url": url, "drover_rebalance_max_moves": 1}
    )
    assert status == 0, output
    assert "\nScore 0." in output and "Drain of kvm1" not in output


def test_a_saved_plan_is_compared(url, tmp_path):
    plan = run("plan_rebalance_info", store_url=url)["plan"]
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    assert run("plan_rebalance_info", store_url=url, plan_file=str(path))["same"] is True
    # A new duration of a move is not a difference.
    plan["moves"][0]["seconds"] += 1
    path.write_text(json.dumps(plan))
    assert run("plan_rebalance_info", store_url=url, plan_file=str(path))["same"] is True
    plan["moves"][0]["host"] = "elsewhere"
    path.write_text(json.dumps(plan))
    assert run("plan_rebalance_info", store_url=url, plan_file=str(path))["same"] is False
    assert "same" not in run("plan_rebalance_info", store_url=url)


# --- the playbooks ----------------------------------------------------------------------------


def test_where_instances_would_go(url, tmp_path):
    words = ("-e", "drover_vcpus=1", "-e", "drover_memory_mb=1G", "-e", "drover_num_instances=2")
    status, output = playbook("schedule", url, *words, folder=tmp_path)
    assert status == 0, output
    assert (
        "\nINSTANCE  HOST" in output
        and "\nnew-1     kvm10  kvm2" in output
        and "\nnew-2     kvm2   kvm10" in output
    ), output
    # The reason in a few words.
    assert "\nnew-1 on kvm10: most free " in output and "\nnew-2 on kvm2: " in output, output
    assert (
        "\nNothing was claimed:" in output and '"' not in output.partition("TASK [Pick hosts]")[2]
    ), output


def test_where_a_flavor_would_go(url, tmp_path):
    status, output = playbook("schedule", url, "-e", "drover_flavor=small", folder=tmp_path)
    assert status == 0 and "\nsmall     kvm10  kvm2" in output, output


def test_what_fits(url, tmp_path):
    status, output = playbook("capacity", url, folder=tmp_path)
    assert status == 0, output
    assert (
        "\nSIZE   MORE FIT" in output
        and "\nsmall" in output
        and "\nhuge" in output
        and "\nHOST" not in output
    )
    status, output = playbook(
        "capacity", url, "-e", "drover_vcpus=2", "-e", "drover_memory_mb=2GiB", folder=tmp_path
    )
    assert status == 0, output
    assert "\none more         4" in output and "\nHOST " in output, output


def test_a_rebalance_is_reviewed_and_refused_if_the_fleet_has_changed(url, tmp_path):
    status, output = playbook(
        "rebalance", url, *LOCAL, "-e", "drover_plan_file=plan.json", folder=tmp_path
    )
    assert status == 0 and "\nScore 0." in output and (tmp_path / "plan.json").is_file(), output
    plan = json.loads((tmp_path / "plan.json").read_text())
    plan["moves"][0]["host"] = "elsewhere"
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    words = (*LOCAL, "-e", "drover_plan_file=plan.json", "-e", "drover_plan_only=false")
    status, output = playbook("rebalance", url, *words, folder=tmp_path)
    assert status == 2 and "plan.json has other moves than those that are shown above" in output, (
        output
    )
    assert (
        output.index("Score 0.") < output.index("other moves than those")
        and "TASK [migrate" not in output
    )


def test_a_drain_is_drawn(url, tmp_path):
    status, output = playbook("report", url, "-e", "drover_plan_drain=kvm1", folder=tmp_path)
    assert status == 0, output
    page = (tmp_path / "drover-report.html").read_text()
    assert "Drain of kvm1" in page
    status, output = playbook("report", url, folder=tmp_path)
    assert status == 0 and "Drain of kvm1" not in (tmp_path / "drover-report.html").read_text(), (
        output
    )
