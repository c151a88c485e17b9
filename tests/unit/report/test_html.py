# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of a fleet: its figures are the store's, and nothing in it is taken for markup."""

from __future__ import annotations

import base64
import gzip
import pathlib
import re

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._report import (
    formatting,
    html,
    migrations,
    version,
)
from ansible_collections.drover.compute.plugins.plugin_utils._report.anchor import command
from ansible_collections.drover.compute.plugins.plugin_utils._report.plan import DRAWN, plan_view
from ansible_collections.drover.compute.plugins.plugin_utils._report.summary import (
    SHOWN,
    report_lines,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database import bulk
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import rolling, services
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.report import pages
from ansible_collections.drover.compute.tests.unit.report.pages import NASTY, NOW
from ansible_collections.drover.compute.tests.unit.report.reading import Reader, truth
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host, uuid_of


def page(url, **keywords):
    return html.page(pages.view(url, **keywords), NOW)


@pytest.fixture
def small_url(prepared_url):
    return pages.small(prepared_url)


def test_every_figure_of_a_host_is_the_stores(small_url):
    read = Reader(page(small_url))
    shown = {
        name: {key: value for key, value in each.items() if not key.endswith("_physical")}
        for name, each in read.hosts.items()
    }
    assert shown == truth(small_url)
    assert read.hosts["kvm1"]["memory_mb_physical"] == "3000/4096"
    assert read.hosts["kvm1"]["disk_gb_physical"] == "61/100"
    assert "memory_mb_physical" not in read.hosts["kvm2"]


def test_the_sums_are_the_stores(small_url):
    read = Reader(page(small_url))
    expected = {
        "hosts": 6,
        "up": 5,
        "down": 1,
        "maintenance": 1,
        "disabled": 1,
        "instances": 7,
        "missing": 0,
    }
    assert {key: int(read.values[f"sum-{key}"]) for key in expected} == expected
    summary = {each["name"]: each for each in pages.view(small_url)["summary"]["figures"]}
    for name in ("vcpus", "memory_mb", "disk_gb"):
        parts = [each[name].split("/") for each in truth(small_url).values()]
        assert summary[name]["used"] == sum(int(used) for used, _capacity in parts)
        assert summary[name]["capacity"] == sum(int(capacity) for _used, capacity in parts)
    # Only the hosts that reported it count.
    assert (summary["memory_mb"]["physical"], summary["memory_mb"]["physical_total"]) == (
        3000,
        4096,
    )


def test_further_storage_pools_are_summed_by_name_and_a_shared_one_counts_once(prepared_url):
    fast = {
        "name": "fast",
        "type": "dir",
        "path": "/srv/fast",
        "capacity_gb": 500,
        "state": "running",
    }
    san = {
        "name": "san",
        "type": "rbd",
        "path": None,
        "capacity_gb": 1000,
        "state": "running",
        "shared_id": "rbd:mon1:/vms",
    }
    disk = {
        "target": "vda",
        "device": "disk",
        "type": "file",
        "source": "/srv/fast/a",
        "path": "/srv/fast/a",
        "capacity_bytes": 7 * 1024**3,
    }
    web1 = {
        "uuid": uuid_of("web1"),
        "name": "web1",
        "state": "running",
        "vcpus": 1,
        "memory_mb": 64,
        "disks": [disk],
    }
    with_pools = {"pools": [fast, san], "storage_pools": ["fast", "san"]}
    fleets.discover(prepared_url, host("kvm1", web1, **with_pools), host("kvm2", **with_pools))
    shown = (
        page(prepared_url)
        .decode()
        .partition('<table id="further-pools">')[2]
        .partition("</table>")[0]
    )
    rows = [re.sub(r"<[^>]+>", " ", row).split() for row in shown.split("<tr>")[2:]]
    assert [row[:2] for row in rows] == [
        ["fast", "2"],
        ["san", "1"],
    ], "two disks of hosts, and one pool of both"
    assert "7 GiB of 1,000 GiB" in " ".join(rows[0]) and "0 GiB of 1,000 GiB" in " ".join(
        rows[1]
    ), rows


def lease(name):
    return {
        "name": name,
        "holder": "ada@<desk>",
        "process": "secret",
        "purpose": "drain",
        "acquired_at": NOW,
        "renewed_at": NOW,
        "expires_at": NOW,
    }


def looks(found):
    return [
        (each["kind"], each["label"], each["name"], each["command"]) for each in found["attention"]
    ]


def test_what_needs_a_look_is_ranked(small_url):
    """Instances on a host that is down first; each line with the command that helps."""
    with Store.open(small_url).write() as connection:
        services.record_unreachable(connection, "kvm0", "no route", NOW)
        instances = tables.instances
        connection.execute(
            sa.update(instances).where(instances.c.name == "web1").values(state="missing")
        )
        services.change(
            connection,
            services.get(connection, "kvm4"),
            {"status_before_drain": {"disabled": False, "maintenance": False}},
        )
        bulk.insert(connection, tables.leases, [lease("kvm2")])
    page_data = pages.view(small_url)
    assert looks(page_data) == [
        (
            "down",
            "down",
            "kvm5",
            "ansible-playbook drover.compute.evacuate -e drover_host=kvm5 --check",
        ),
        ("down", "missing", "web1", "ansible-playbook drover.compute.discover"),
        ("down", "down", "kvm0", "ansible-playbook drover.compute.discover --limit kvm0,localhost"),
        ("disabled", "no spare room", None, None),
        ("disabled", "open move", "batch", None),
        ("calm", "power", "kvm1", "ansible-playbook drover.compute.power -e drover_host=kvm1"),
        (
            "disabled",
            "up, disabled",
            "kvm3",
            "ansible-playbook drover.compute.host_enable -e drover_host=kvm3",
        ),
        (
            "maintenance",
            "up, maintenance",
            "kvm4",
            "ansible-playbook drover.compute.undrain -e drover_host=kvm4",
        ),
        ("calm", "at work", "kvm2", None),
    ]
    assert [each["host"] for each in page_data["hosts"]] == [
        "kvm0",
        "kvm5",
        "kvm3",
        "kvm4",
        "kvm1",
        "kvm2",
        "kvm6",
    ]
    content = html.page(page_data, NOW).decode()
    section = content.partition('<section id="attention"')[2].partition("</section>")[0]
    assert (
        section.index("kvm5 --check</code>")
        < section.index("no route to &lt;kvm5&gt;")
        < section.index("host_enable -e drover_host=kvm3")
    )
    assert (
        'rel="noreferrer"'
        ' href="https://github.com/drover-compute/drover.compute/blob/main/docs/evacuate.md"'
        in section
    )


def test_hosts_with_most_instances_come_first_among_those_that_are_down(prepared_url):
    fleets.discover(
        prepared_url,
        host("kvm1", domain("a")),
        host("kvm2", domain("b"), domain("c")),
        host("kvm3"),
    )
    with Store.open(prepared_url).write() as connection:
        for name in ("kvm1", "kvm2"):
            services.record_unreachable(connection, name, "no route", NOW)
    assert [(name, told) for _kind, _label, name, told in looks(pages.view(prepared_url))][:2] == [
        ("kvm2", "ansible-playbook drover.compute.evacuate -e drover_host=kvm2 --check"),
        ("kvm1", "ansible-playbook drover.compute.evacuate -e drover_host=kvm1 --check"),
    ]


def test_a_move_is_no_alarm_while_a_run_works_on_it(small_url):
    with Store.open(small_url).write() as connection:
        bulk.insert(connection, tables.leases, [lease("kvm6")])
    assert ("calm", "moving", "batch", None) in looks(pages.view(small_url))


def test_a_resize_that_waits_says_how_it_is_confirmed(small_url):
    with Store.open(small_url).write() as connection:
        table = tables.migrations
        connection.execute(
            sa.update(table)
            .where(table.c.status == "running")
            .values(status="finished", type="resize")
        )
    confirm = (
        "ansible-playbook drover.compute.instance_resize -e drover_instance=batch -e"
        " drover_resize=confirm"
    )
    assert ("calm", "resize", "batch", confirm) in looks(pages.view(small_url))


@pytest.mark.parametrize(
    "name",
    ["x; reboot", "$(reboot)", "{{ lookup('pipe', 'id') }}", "a b", "-e", "", None, "x\n", "datä"],
)
def test_no_command_has_a_name_that_would_be_interpreted(name):
    assert command("ansible-playbook x -e drover_host={}", name) is None
    assert (
        command("ansible-playbook x -e drover_host={}", "kvm-1.example.com")
        == "ansible-playbook x -e drover_host=kvm-1.example.com"
    )


def test_a_maintenance_is_no_alarm(small_url):
    """Down is red, disabled amber, maintenance blue; a host that reboots in its maintenance is not
    down.
    """
    with Store.open(small_url).write() as connection:
        services.record_unreachable(connection, "kvm4", "it reboots", NOW)
    found = {each["host"]: each["kind"] for each in pages.view(small_url)["hosts"]}
    assert found == {
        "kvm1": "well",
        "kvm2": "well",
        "kvm3": "disabled",
        "kvm4": "maintenance",
        "kvm5": "down",
        "kvm6": "well",
    }
    content = page(small_url).decode()
    for kind in ("down", "disabled", "maintenance"):
        assert f'<a class="cell {kind} ' in content and f'<span class="state {kind}">' in content


def test_a_migration_that_a_person_cancelled_is_no_alarm(small_url):
    def marked():
        section = (
            page(small_url)
            .decode()
            .partition('<section id="migrations"')[2]
            .partition("</section>")[0]
        )
        return re.findall(r'<span class="state (\w+)">(\w+)</span>', section)

    assert ("down", "failed") in marked()
    with Store.open(small_url).write() as connection:
        table = tables.migrations
        connection.execute(
            sa.update(table).where(table.c.status == "failed").values(status="cancelled")
        )
    assert ("well", "cancelled") in marked() and "down" not in dict(marked())
    assert sum(each["undone"] for each in pages.view(small_url)["days"]["days"]) == 1


def test_the_page_begins_with_its_age(small_url):
    with Store.open(small_url).write() as connection:
        table = tables.services
        connection.execute(
            sa.update(table).where(table.c.host == "kvm3").values(last_seen_up=NOW - 3 * 3600)
        )
        services.record_unreachable(connection, "kvm7", "no such name", NOW)
    page_data = pages.view(small_url, now=NOW + 240)
    content = html.page(page_data, NOW + 240)
    text = " ".join(
        Reader(content).text.partition("Fleet report\n")[2].partition("Summary")[0].split()
    )
    expected = (
        "Discovered 2027-01-15 08:00 UTC, 4 min before this page was written. Oldest: kvm3 (up,"
        " disabled), 2027-01-15 05:00 UTC, 3 h before. Never discovered: 1 host. Written 2027-01-15"
        " 08:04 UTC."
    )
    assert expected in text
    assert (
        report_lines(page_data, NOW + 240)[1]
        == "Discovered 4 min ago (oldest: kvm3, 3 h ago; 1 never)"
    )


def test_ages_alone_are_no_difference(small_url):
    page_data = pages.view(small_url)
    first, later = html.page(page_data, NOW), html.page(page_data, NOW + 1000)
    assert first != later and not html.differ(first, later)
    assert html.differ(first, html.page(page_data, NOW, "prod")) and html.differ(b"", first)
    fleets.discover(small_url, host("kvm7"))
    assert html.differ(first, page(small_url))


def test_the_fleet_and_the_version_are_named(small_url, tmp_path):
    content = html.page(pages.view(small_url), NOW, "<prod> & test").decode()
    assert (
        "<title>&lt;prod&gt; &amp; test: fleet report</title>" in content
        and "<h1>&lt;prod&gt; &amp; test: fleet report</h1>" in content
    )
    of_galaxy = re.search(
        "^version: (.*)$", (pathlib.Path(__file__).parents[3] / "galaxy.yml").read_text(), re.M
    ).group(1)
    assert version.version() == of_galaxy and f"Made by drover.compute {of_galaxy}." in content
    # The archive as ansible-galaxy installs it.
    (tmp_path / "MANIFEST.json").write_text('{"collection_info": {"version": "9.8.7"}}')
    assert version.version(tmp_path) == "9.8.7"
    (tmp_path / "MANIFEST.json").write_text("[]")
    assert version.version(tmp_path / "none") is None


def test_addresses_and_anchors_of_instances(prepared_url):
    interface = {
        "mac": "52:54:00:00:00:01",
        "type": "network",
        "source": "default",
        "model": "virtio",
        "addresses": ["10.0.0.7", "10.0.0.8"],
    }
    fleets.discover(
        prepared_url,
        host("kvm 1", domain("web", interfaces=[interface]), domain("db")),
        host("kvm2"),
    )
    content = page(prepared_url).decode()
    (row,) = re.findall(f'<tr id="i-{uuid_of("web")}">(.*)</tr>', content)
    assert "<td>10.0.0.7, 10.0.0.8</td>" in row
    assert '<tr id="host-kvm2">' in content and re.search('<tr id="host-~[0-9]">', content)


def test_flavors_are_sorted_by_size_with_what_runs_out_first(small_url):
    rows = pages.view(small_url)["capacity"]["rows"]
    assert [(row["name"], row["vcpus"], row["short"]) for row in rows] == [
        ("small", 1, "vCPU"),
        ("large", 2, "vCPU"),
    ]
    assert "Runs out first" in Reader(page(small_url)).text


def test_a_loss_that_does_not_fit_is_said_plainly(prepared_url):
    fleets.discover(prepared_url, host("kvm1", domain("a", 4)), host("kvm2", domain("b", 4)))
    page_data = pages.view(prepared_url)
    assert page_data["capacity"]["verdict"].startswith(
        "If kvm1 is lost, not all of its instances fit on the other hosts."
    )
    text = Reader(html.page(page_data, NOW)).text
    assert "does not fit" in text and "borne" not in text
    assert ("disabled", "no spare room", None, None) in looks(page_data)


def test_figures_are_written_in_one_way(small_url):
    text = Reader(page(small_url)).text
    assert text.count("no figure for vCPUs") == 1 and "such figure" not in text


def test_older_migrations_are_folded_with_short_words(small_url):
    with Store.open(small_url).write() as connection:
        rows = [
            {
                "uuid": bulk.new_uuid(),
                "instance_uuid": uuid_of(f"vm{n}"),
                "instance_name": f"vm{n}",
                "source": "a",
                "destination": "b",
                "type": "migration",
                "status": "completed",
                "created_at": NOW - n,
                "updated_at": NOW,
            }
            for n in range(20)
        ]
        bulk.insert(connection, tables.migrations, rows)
    section = (
        page(small_url).decode().partition('<section id="migrations"')[2].partition("</section>")[0]
    )
    before, _heading, folded = section.partition("Older ones (15)")
    assert before.count('<td class="when">') == 10 and folded.count('<td class="when">') == 15
    assert "<td>cold</td>" in section and "<td>live</td>" in folded and "-migration" not in section


def test_a_cell_of_the_heat_map_tells_all(small_url):
    (cell,) = (
        each
        for group in pages.view(small_url)["map"]
        for each in group["hosts"]
        if each["host"] == "kvm1"
    )
    assert (
        cell["text"]
        == "kvm1: vCPU 75 %, memory 75 %, disk 50 %; physical memory 73 %, physical disk 61 %; up;"
        " 2 instances"
    )
    assert cell["percents"] == {"f": 75, "v": 75, "m": 75, "d": 50, "p": 73} and cell["bands"] == {
        "f": 2,
        "v": 2,
        "m": 2,
        "d": 1,
        "p": 2,
    }
    assert f'title="{cell["text"]}"' in page(small_url).decode()


def test_a_large_fleet_is_text_for_the_script(small_url, monkeypatch):
    """Without a script the browser shows all rows; the texts are the same."""
    whole = Reader(page(small_url))
    monkeypatch.setattr(html, "MOST_HOSTS", 3)
    large = page(small_url)
    (inside,) = re.findall(b'<noscript id="hosts-source">(.*?)</noscript>', large, re.S)
    assert inside.count(b'<tbody class="host">') == 6 and inside.count(b'<tr id="i-') == 7
    assert Reader(large).hosts == whole.hosts


def test_the_rows_of_a_very_large_fleet_are_packed(small_url, monkeypatch):
    """The same rows, and the same page each time."""
    monkeypatch.setattr(html, "MOST_HOSTS", 3)
    (inside,) = re.findall(b'<noscript id="hosts-source">(.*?)</noscript>', page(small_url), re.S)
    monkeypatch.setattr(html, "MOST_TEXT", 100)
    packed = page(small_url)
    (text,) = re.findall(b'<template id="hosts-packed">(.*?)</template>', packed, re.S)
    assert (
        gzip.decompress(base64.b64decode(text)).strip() == inside.strip()
        and page(small_url) == packed
    )
    assert b"needs scripts" in packed and b'<tr id="i-' not in packed.replace(b'<tr id="(i-', b"")


@pytest.fixture
def decided_url(prepared_url):
    return pages.decided(prepared_url)


def test_decisions_are_the_stores(decided_url):
    """Newest first, each with the figures of its row."""
    table = tables.decisions
    with Store.open(decided_url).read() as connection:
        rows = connection.execute(sa.select(table).order_by(table.c.id.desc())).all()
    assert [row.instance_name for row in rows] == ["web1", "big", NASTY, "new"]
    section = (
        page(decided_url)
        .decode()
        .partition('<section id="decisions"')[2]
        .partition("</section>")[0]
    )
    shown = section.split('<details class="decision">')[1:]
    assert len(shown) == len(rows)
    for row, part in zip(rows, shown):
        part = part.partition("</details>")[0]
        read, explanation = Reader(part.encode()), row.explanation or {}
        assert (
            formatting.clean(row.instance_name) in read.text
            and formatting.moment(row.created_at) in read.text
        )
        assert (f"→\u00a0{row.host}" in read.text) == (row.host is not None)
        assert ("no valid host" in read.text) == (row.host is None)
        assert (row.actor is None) or f"Asked by {row.actor}." in read.text
        assert (row.message or "") in read.text
        figures = [(each["class"], each["value"]) for tag, each in read.attributes if tag == "data"]
        expected = [("looked", str(explanation["hosts"]))] if explanation else []
        for stage in explanation.get("filters", []):
            expected += [("rejected", str(stage["rejected"])), ("after", str(stage["after"]))]
        expected += [("weight", str(each["weight"])) for each in explanation.get("top", [])]
        assert figures == expected
        assert read.text.count("(chosen)") == (1 if explanation.get("top") else 0)
        for each in row.alternates:
            assert each["host"] in read.text.partition("Alternates:")[2]


def test_decisions_in_a_terminal(decided_url):
    lines = report_lines(pages.view(decided_url), NOW)
    table = lines[lines.index("Newest decisions:") + 1 :]
    assert [line.split()[0] for line in table] == ["WHEN", *["2027-01-15"] * 4]
    assert table[1].split()[-4:] == ["resize", "web1", "kvm2", "-"]
    assert "no valid host  of 6 hosts rejected: ComputeFilter 3, CoreFilter 3" in table[2]
    assert "kvm6, which was picked first, was refused" in table[3] and "\u202e" not in table[3]
    assert table[4].endswith(
        "3 of 6 hosts left by host filters; most free vCPU (1), free disk 90 GiB, most free memory"
        " (2.94 GiB)"
    )


def test_names_are_sorted_by_their_numbers(prepared_url):
    fleets.discover(
        prepared_url, *(host(f"kvm{n}", domain(f"web{n}")) for n in (10, 2, 1)), host("kvm02")
    )
    fleets.discover(prepared_url, host("kvm10", domain("web10"), domain("web9")))
    page_data = pages.view(prepared_url)
    order = ["kvm1", "kvm02", "kvm2", "kvm10"]
    assert (
        [each["host"] for each in page_data["hosts"]]
        == [each["host"] for each in page_data["map"][0]["hosts"]]
        == order
    )
    assert [each["name"] for each in page_data["hosts"][3]["instance_rows"]] == ["web9", "web10"]
    fullest = [line.split()[0] for line in report_lines(page_data, NOW) if line.startswith("  kvm")]
    assert fullest == ["kvm10", "kvm1", "kvm2", "kvm02"]


def test_nothing_is_taken_for_markup(decided_url):
    content = page(decided_url, plans=[pages.plan()])
    read = Reader(content)
    # The page has one script, its own, at the end.
    assert read.tags.count("script") == 1
    assert "<script>alert('x')" in read.text
    assert not [
        attrs for _tag, attrs in read.attributes if any(name.startswith("on") for name in attrs)
    ]
    assert not [attrs for _tag, attrs in read.attributes if "style" in attrs]
    assert "\u202e" not in read.text and "\x07" not in read.text and "データ" in read.text
    assert "no route to <kvm5>" in read.text


def test_the_page_needs_nothing_from_elsewhere(small_url):
    content = page(small_url)
    links = [
        (tag, attrs[name])
        for tag, attrs in Reader(content).attributes
        for name in ("href", "src")
        if name in attrs
    ]
    # A person may follow a link to a runbook; nothing is loaded.
    runbooks = {each for each in links if each[0] == "a" and each[1].startswith(html.GUIDES)}
    assert [
        each for each in links if each not in runbooks and not each[1].startswith(("#", "data:,"))
    ] == []
    guides = pathlib.Path(__file__).parents[3] / "docs"
    assert runbooks and all(
        (guides / link.removeprefix(html.GUIDES)).is_file() for _tag, link in runbooks
    )
    assert (
        b"http:" not in content
        and content.count(b"https:") == content.count(html.GUIDES.encode())
        and b"@import" not in content
    )
    (policy,) = re.findall(rb'Content-Security-Policy" content="([^"]*)"', content)
    assert (
        b"default-src &#39;none&#39;" in policy and b"unsafe" not in policy and b"//" not in policy
    )


def test_no_url_of_the_store(small_url):
    content = page(small_url)
    assert b"sqlite" not in content and b"postgresql" not in content


def test_tables_have_captions_and_scopes(decided_url):
    content = page(decided_url, plans=[pages.plan()]).decode()
    read = Reader(content.encode())
    assert read.tags.count("table") == read.tags.count("caption") == content.count("<thead>")
    assert all("scope" in attrs for tag, attrs in read.attributes if tag == "th")
    for tag, attrs in read.attributes:
        if tag == "svg":
            assert (
                attrs.get("aria-label")
                or attrs.get("aria-labelledby")
                or attrs.get("aria-hidden") == "true"
            )
    names = [attrs["id"] for _tag, attrs in read.attributes if "id" in attrs]
    assert len(names) == len(set(names))
    for _tag, attrs in read.attributes:
        if attrs.get("href", "").startswith("#"):
            assert attrs["href"][1:] in names
        if "aria-labelledby" in attrs:
            assert attrs["aria-labelledby"] in names
    levels = [int(tag[1]) for tag in read.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(levels, levels[1:]))


def test_an_empty_store(prepared_url):
    page_data = pages.view(prepared_url)
    read = Reader(html.page(page_data, NOW))
    assert read.values["sum-hosts"] == "0" and "The store has no hosts yet" in read.text
    assert report_lines(page_data, NOW) == [
        "The store has no hosts yet. Run the playbook drover.compute.discover."
    ]
    assert page_data["capacity"]["verdict"] == "There is no host to lose."


def test_hosts_without_instances(prepared_url):
    fleets.discover(prepared_url, host("kvm1"), host("kvm2"))
    page_data = pages.view(prepared_url)
    assert [each["full"] for each in page_data["hosts"]] == [0, 0]
    assert page_data["hosts"][0]["instance_rows"] == []
    assert "Nothing has been moved yet" in Reader(html.page(page_data, NOW)).text


def test_shared_pools_count_once(prepared_url):
    pages.pooled(prepared_url)
    page_data = pages.view(prepared_url)
    (pool,) = page_data["pools"]
    assert (pool["hosts"], pool["used"], pool["capacity"]) == (3, 120, 500)
    disk = page_data["summary"]["figures"][2]
    assert (disk["used"], disk["capacity"]) == (127, 700)
    by_name = {each["host"]: each for each in page_data["hosts"]}
    assert by_name["kvm1"]["figures"][2]["shared"] and not by_name["kvm4"]["figures"][2]["shared"]
    # The pool's name does not contain the host.
    assert by_name["kvm1"]["fullest"] == "vCPU" or by_name["kvm1"]["full"] == 25
    assert "of a shared pool" in Reader(html.page(page_data, NOW)).text


def test_a_host_that_was_never_reached(prepared_url):
    fleets.discover(prepared_url, host("kvm1", domain("web")))
    with Store.open(prepared_url).write() as connection:
        services.record_unreachable(connection, "kvm2", "no such name", NOW)
    page_data = pages.view(prepared_url)
    assert [(each["host"], each["full"], each["down"]) for each in page_data["hosts"]] == [
        ("kvm2", None, True),
        ("kvm1", 25, False),
    ]
    read = Reader(html.page(page_data, NOW))
    assert read.hosts["kvm2"] == {
        **dict.fromkeys(("vcpus", "memory_mb", "disk_gb"), "0/0"),
        "instances": "0",
    }
    assert report_lines(page_data, NOW)


def test_who_is_at_work_is_told(prepared_url):
    fleets.discover(prepared_url, host("kvm1"))
    with Store.open(prepared_url).write() as connection:
        bulk.insert(connection, tables.leases, [lease("kvm1")])
        rolling.write(connection, "kvm1", {"stage": "reboot", "message": "slow"}, NOW)
    text = Reader(html.page(pages.view(prepared_url), NOW)).text
    assert "kvm1 ada@<desk>, drain since 2027-01-15 08:00 UTC" in text and "secret" not in text
    assert (
        "The rolling maintenance that is under way" in text
        and "slow" in text
        and "0 of 1 host done" in text
    )


def test_a_missing_instance_is_told(prepared_url):
    fleets.discover(prepared_url, host("kvm1", domain("web"), domain("db")))
    fleets.discover(prepared_url, host("kvm1", domain("web")))
    found = pages.view(prepared_url)
    assert [each["name"] for each in found["attention"] if each["label"] == "missing"] == ["db"]
    assert found["summary"]["missing"] == 1


def test_migrations_by_day(small_url):
    history = pages.view(small_url)["days"]
    counts = {
        each["date"]: (each["well"], each["open"], each["failed"])
        for each in history["days"]
        if each["total"]
    }
    assert counts == {
        formatting.date(NOW // 86400): (1, 1, 0),
        formatting.date(NOW // 86400 - 1): (1, 0, 1),
    }
    assert (history["most"], history["dropped"], len(history["days"])) == (2, 1, migrations.DAYS)


def test_the_same_store_gives_the_same_bytes(small_url):
    assert page(small_url) == page(small_url)
    with Store.open(small_url).write() as connection:
        connection.execute(sa.update(tables.services).values(last_seen_up=NOW - 1000))
    # An age alone is not shown as news.
    later = [
        html.page(pages.view(small_url, now=NOW + more, service_down_time=60), NOW)
        for more in (0, 1, 50)
    ]
    assert later[0] == later[1] == later[2]
    assert b"last seen 2027-01-15" in later[0] and b"s ago" not in later[0]


def test_a_plan_before_and_after(small_url):
    drawn_plan = pages.view(small_url, plans=[pages.plan()])["plans"][0]
    assert drawn_plan["title"] == "Drain of kvm1" and not drawn_plan["stale"]
    by_host = {each["host"]: each for each in drawn_plan["hosts"]}
    stored = truth(small_url)
    for name, count, cpus, memory in (
        ("kvm1", -2, -3, -3072),
        ("kvm2", 1, 2, 1024),
        ("kvm6", 1, 1, 2048),
    ):
        used = [int(stored[name][key].split("/")[0]) for key in ("vcpus", "memory_mb")]
        figures = by_host[name]["figures"]
        assert [each["before"] for each in figures[:2]] == used
        assert [each["after"] for each in figures[:2]] == [used[0] + cpus, used[1] + memory]
        assert by_host[name]["after"] - by_host[name]["before"] == count
    assert [
        (each["from_host"], each["host"], each["count"]) for each in drawn_plan["drawing"]["lines"]
    ] == [
        ("kvm1", "kvm2", 1),
        ("kvm1", "kvm6", 1),
    ]
    assert drawn_plan["staying"][0]["name"] == NASTY


def test_a_plan_that_is_old_says_so(small_url):
    plan = pages.plan()
    plan["moves"][0]["from_host"] = "kvm3"
    plan["moves"][1]["uuid"] = uuid_of("gone")
    page_data = pages.view(small_url, plans=[plan])
    assert page_data["plans"][0]["stale"] == [
        "web1 is on kvm1 now, not on kvm3.",
        "db1 is no longer in the store.",
    ]
    assert "This plan is older than the store" in Reader(html.page(page_data, NOW)).text


def test_rolling_rebalance_and_the_way_home(small_url):
    moves = pages.plan()["moves"]
    plans = [
        {
            "batches": [["kvm1", "kvm2"], ["kvm6"]],
            "blocked": [{"host": "kvm3", "reason": "old cannot move"}],
            "bound": 2,
        },
        {
            "score_before": 0.25,
            "score_after": 0.125,
            "moves": moves,
            "waves": 2,
            "seconds": 24.0,
            "reason": "enough",
        },
        {
            "moves": [],
            "staying": [{"uuid": "u", "name": "web1", "reason": "no room"}],
            "waves": 0,
            "seconds": 0,
        },
    ]
    page_data = pages.view(small_url, plans=plans)
    assert [each["kind"] for each in page_data["plans"]] == ["rolling", "rebalance", "home"]
    text = Reader(html.page(page_data, NOW)).text
    assert "0.2500" in text and "old cannot move" in text and "web1: no room" in text
    assert page_data["plans"][0]["batches"][0]["instances"] == 4


def test_walk_f21_sentences_of_a_plan_are_below_its_figures():
    """The sentences were in the tiles of figures, as "Proof" and "That is", in a row that was 900
    px high."""
    plan = {
        **pages.plan(),
        "estimate": [
            "Expected to take about 24 s.",
            "Copies 1 GiB: memory at 96 MiB/s, measured.",
            "Not known: x.",
        ],
    }
    plan["proof"] = "kvm2 lacks 4 GiB of memory"
    view = plan_view(plan, [], [])
    assert view["notes"] == [
        "It cannot be done: kvm2 lacks 4 GiB of memory.",
        "Copies 1 GiB: memory at 96 MiB/s, measured.",
        "Not known: x.",
    ]
    assert all(len(text) <= 20 for _label, text in view["facts"])
    for without in (None, [], ["Expected to take about 24 s."], "text"):
        assert plan_view({**plan, "proof": None, "estimate": without}, [], [])["notes"] == []


@pytest.mark.parametrize(
    "plan",
    [
        {},
        {"host": "kvm1"},
        [],
        {"moves": [{"name": "x"}]},
        {"moves": "x"},
        {"moves": [], "unmovable": [1]},
    ],
)
def test_what_is_no_plan_is_refused(plan):
    with pytest.raises(DroverError, match="Give the plan"):
        plan_view(plan, [], [])


def test_a_drawing_of_many_hosts_leaves_some_out():
    moves = [
        {"uuid": None, "name": f"vm{n}", "from_host": "kvm0", "host": f"kvm{n + 1}"}
        for n in range(DRAWN + 9)
    ]
    found = plan_view({"moves": moves}, [], [])
    assert len(found["drawing"]["rows"]) == DRAWN and found["drawing"]["left_out"] == 10
    assert len(found["hosts"]) == DRAWN + 10


def test_the_summary_does_not_grow_with_the_fleet(prepared_url):
    pages.large(prepared_url, hosts=60, instances=1)
    lines = report_lines(pages.view(prepared_url), NOW)
    assert len(lines) < SHOWN + 12 and lines[-1] == "  and 40 more"


@pytest.mark.parametrize(
    "told, wanted",
    [
        (formatting.memory(512), "512 MiB"),
        (formatting.memory(65024), "63.5 GiB"),
        (formatting.memory(3 * 2**20), "3 TiB"),
        (formatting.memory(None), None),
        (formatting.memory(2**20 - 1), "1,024 GiB"),
        (formatting.disk(1536), "1.5 TiB"),
        (formatting.disk(2000), "1.95 TiB"),
        (formatting.disk(4000), "3.91 TiB"),
        (formatting.number(10863), "10,863"),
        (formatting.number(1000), "1,000"),
        (formatting.number(None), None),
        (formatting.age(59), "less than a minute"),
        (formatting.age(240), "4 min"),
        (formatting.age(3 * 3600 + 60), "3 h"),
        (formatting.age(49 * 3600), "2 days"),
        (formatting.percent(999, 1000), 99),
        (formatting.percent(1, 0), None),
        (formatting.percent(3, 2), 150),
        (formatting.moment(NOW), "2027-01-15 08:00 UTC"),
        (formatting.duration(90), "90 s"),
        (formatting.duration(600), "10 min"),
        (formatting.clean("a\x00\u2066b\nc\ud800"), "a\ufffd\ufffdb c?"),
    ],
)
def test_words(told, wanted):
    assert told == wanted
