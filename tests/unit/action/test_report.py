# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module report and its playbook, as a task and as a real run."""

from __future__ import annotations

import re
import stat
import time

import pytest

from ansible_collections.drover.compute.tests.unit.action.running import (
    failure,
    is_plain,
    play,
    playbook,
    run,
)
from ansible_collections.drover.compute.tests.unit.report import pages
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import host


@pytest.fixture
def url(tmp_path):
    return pages.small(f"sqlite:///{tmp_path / 'store.db'}")


def report(url, *options, **more):
    """Run the playbook by its name; return (exit code, its output)."""
    return playbook("report", url, *options, settings="callback_result_format=yaml\n", **more)


def written(path):
    return re.search(r'Written <time datetime="([^"]+)"', path.read_text()).group(1)


def test_its_time_is_always_that_of_the_last_run(url, tmp_path, monkeypatch):
    """A page that differs only in its times counts as unchanged."""
    path = tmp_path / "fleet.html"
    first = run("report", path=str(path), store_url=url)
    assert first["changed"] and first["path"] == str(path) and is_plain(first)
    assert first["summary"]["hosts"] == 6 and first["summary"]["memory_mb_physical"] == 3000
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 7200)
    before = written(path)
    assert (
        not run("report", path=str(path), store_url=url, check=True)["changed"]
        and written(path) == before
    )
    assert not run("report", path=str(path), store_url=url)["changed"]
    assert written(path) > before
    fleets.discover(url, host("kvm7"))
    assert run("report", path=str(path), store_url=url)["changed"]
    assert b"kvm7" in path.read_bytes()


def test_the_name_of_the_fleet(url, tmp_path):
    path = tmp_path / "fleet.html"
    run("report", path=str(path), store_url=url, fleet="prod-fra")
    assert "<h1>prod-fra: fleet report</h1>" in path.read_text()
    assert run("report", {"drover_fleet": "test"}, path=str(path), store_url=url)["changed"]
    assert "<h1>test: fleet report</h1>" in path.read_text()


def test_only_its_owner_reads_it_unless_told_otherwise(url, tmp_path):
    path = tmp_path / "fleet.html"
    run("report", path=str(path), store_url=url)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    fleets.discover(url, host("kvm7"))
    assert run("report", path=str(path), store_url=url)["changed"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_link_stays_one(url, tmp_path):
    (tmp_path / "real").mkdir()
    path = tmp_path / "link.html"
    path.symlink_to(tmp_path / "real" / "page.html")
    run("report", path=str(path), store_url=url)
    assert path.is_symlink() and (tmp_path / "real" / "page.html").read_bytes().startswith(
        b"<!DOCTYPE html>"
    )


def test_check_mode_writes_nothing(url, tmp_path):
    path = tmp_path / "fleet.html"
    checked = run("report", path=str(path), store_url=url, check=True, diff=True)
    assert checked["changed"] and not path.exists()
    assert checked["diff"][0]["before"] == "" and "Fleet report" in checked["diff"][0]["after"]
    run("report", path=str(path), store_url=url)
    again = run("report", path=str(path), store_url=url, check=True, diff=True)
    assert not again["changed"] and "diff" not in again


def test_a_long_page_is_only_named_in_a_difference(tmp_path):
    url = pages.large(f"sqlite:///{tmp_path / 'store.db'}", hosts=100, instances=3)
    (difference,) = run(
        "report", path=str(tmp_path / "x.html"), store_url=url, check=True, diff=True
    )["diff"]
    assert difference["src_larger"] and "after" not in difference and difference["before"] == ""


def test_a_page_of_somebody_else_is_replaced(url, tmp_path):
    path = tmp_path / "fleet.html"
    path.write_bytes(b"\xff<html>mine</html>")
    assert run("report", path=str(path), store_url=url, diff=True)["changed"]
    assert b"Fleet report" in path.read_bytes()


@pytest.mark.parametrize(
    "path, why", [("none/x.html", "there is no folder"), (".", "it is no regular file")]
)
def test_where_nothing_can_be_written(url, tmp_path, path, why):
    said = failure("report", path=str(tmp_path / path), store_url=url)
    assert why in said and "Give drover_report a path" in said


def test_without_a_store(tmp_path):
    message = failure(
        "report", path=str(tmp_path / "x.html"), store_url=f"sqlite:///{tmp_path / 'none.db'}"
    )
    assert "drover.compute.discover first" in message and not (tmp_path / "x.html").exists()


def test_what_is_no_plan(url, tmp_path):
    said = failure("report", path=str(tmp_path / "x.html"), store_url=url, plans=[{"host": "kvm1"}])
    assert "is no plan" in said and not (tmp_path / "x.html").exists()


@pytest.mark.long
def test_the_playbook(url, tmp_path):
    code, output = report(url, "--check", folder=tmp_path)
    assert code == 0 and "changed=1" in output and not (tmp_path / "drover-report.html").exists(), (
        output
    )
    code, output = report(url, folder=tmp_path)
    assert code == 0 and "changed=1" in output, output
    assert (
        "6 hosts: 5 up, 1 down" in output
        and "Need a look" in output
        and "no route to <kvm5>" in output
    )
    assert (tmp_path / "drover-report.html").exists()
    code, output = report(url, folder=tmp_path)
    assert (
        code == 0
        and "changed=0" in output
        and "nothing but the times changed" in " ".join(output.split())
    ), output


@pytest.mark.long
def test_the_playbook_draws_plans(url, tmp_path):
    variables = {
        "drover_report": "plan.html",
        "drover_plan": run("plan_drain_info", store_url=url, host="kvm2")["plan"],
    }
    code, output = report(url, folder=tmp_path, variables=variables)
    assert code == 0, output
    page = (tmp_path / "plan.html").read_text()
    assert "Drain of kvm2" in page
    variables["drover_plan"] = [
        run(f"plan_{kind}_info", store_url=url)["plan"] for kind in ("rebalance", "rolling")
    ]
    code, output = report(url, folder=tmp_path, variables=variables)
    assert code == 0, output
    page = (tmp_path / "plan.html").read_text()
    assert "Plan: Rebalance" in page and "Plan: Rolling maintenance" in page


@pytest.mark.long
@pytest.mark.parametrize(
    "value, titles",
    [("kvm2", ["kvm2"]), ("kvm2, kvm6", ["kvm2, kvm6"]), (["kvm6"], ["kvm6"]), ("", [])],
)
def test_the_playbook_plans_a_drain_by_a_short_word(url, tmp_path, value, titles):
    """The option is ``-e drover_plan_drain=kvm2``, beside a plan that is given as before."""
    variables = {
        "drover_plan_drain": value,
        "drover_plan": run("plan_rebalance_info", store_url=url)["plan"],
        "drover_fleet": "prod",
    }
    code, said = report(url, folder=tmp_path, variables=variables)
    assert code == 0, said
    page = (tmp_path / "drover-report.html").read_text()
    assert re.findall("Plan: (.*?)</h2>", page) == [
        "Rebalance",
        *(f"Drain of {name}" for name in titles),
    ]
    assert "<h1>prod: fleet report</h1>" in page


@pytest.mark.long
@pytest.mark.parametrize("count, lines", [(20, 0), (60, 10)])
def test_a_long_discovery_tells_where_it_is(tmp_path, count, lines):
    names = [f"kvm{number:03}" for number in range(1, count + 1)]
    tasks = [
        {
            "drover.compute.compute_node": {
                "nodes": [
                    {
                        "host": "{{ inventory_hostname }}",
                        "vcpus": "{{ 4 if inventory_hostname != 'kvm030' else -1 }}",
                    }
                ],
                "store_url": f"sqlite:///{tmp_path / 'fleet.db'}",
            }
        }
    ]
    options = ("-i", ",".join(names) + ",", "-f", "2")
    settings = "display_ok_hosts = false\n"
    _code, output = play(tmp_path, tasks, settings, options=options, hosts="kvm*")
    progress_lines = [line for line in output.splitlines() if " is done: about " in line]
    assert len(progress_lines) == lines, output
    if lines:
        # A failed host counts as done too.
        assert any(
            "kvm030 is done: about 30 of 60 hosts (50 %)" in line for line in progress_lines
        ), output
        assert f"kvm{count:03} is done: about {count} of {count} hosts (100 %)" in output
