# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module store and the playbook audit, as a task and as a real run."""

from __future__ import annotations

import pathlib

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._placement import allocations
from ansible_collections.drover.compute.plugins.plugin_utils._report.text import (
    WIDEST,
    Row,
    audit_table,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import schema, tables
from ansible_collections.drover.compute.tests.unit.action.running import (
    failure,
    is_plain,
    playbook,
    run,
)
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host, uuid_of

LONG = "{{ 1 + 1 }}" + "w" * 200


@pytest.fixture
def broken_url(prepared_url):
    """Return a store: web lost its allocation, and a domain with a long name is on two hosts."""
    fleets.discover(prepared_url, host("kvm1", domain("web"), domain(LONG)))
    fleets.discover(prepared_url, host("kvm2", domain(LONG)))
    with Store.open(prepared_url).write() as connection:
        allocations.replace(connection, {uuid_of("web"): {}}, fleets.NOW)
    return prepared_url


def audit(url, *options, **more):
    """Run the playbook by its name; return (exit code, its output)."""
    return playbook("audit", url, *options, settings="show_custom_stats=true\n", **more)


def test_an_audit_is_dry_unless_told(broken_url):
    before = fleets.snapshot(broken_url)
    answer = run("store_audit_info", store_url=broken_url, diff=True)
    assert [each["kind"] for each in answer["findings"]] == ["domain_doubled", "allocation_missing"]
    assert (answer.get("changed", False), answer["sound"], is_plain(answer)) == (False, False, True)
    assert fleets.snapshot(broken_url) == before
    assert "diff" not in answer
    answer = run("store", state="healed", store_url=broken_url, check=True, diff=True)
    assert (answer["changed"], [each["name"] for each in answer["mended"]]) == (True, ["web"])
    assert "allocation_missing" in answer["diff"][0]["before"]
    assert "allocation_missing" not in answer["diff"][0]["after"]
    assert fleets.snapshot(broken_url) == before
    answer = run("store", state="healed", store_url=broken_url)
    assert (answer["changed"], answer["counts"]) == (True, {"domain_doubled": 1})
    assert run("store", state="healed", store_url=broken_url)["changed"] is False


def test_export_and_import(broken_url, tmp_path):
    arguments = {"path": str(tmp_path / "x.sqlite"), "store_url": broken_url}
    assert run("store", state="exported", check=True, **arguments)["changed"] is True
    assert not (tmp_path / "x.sqlite").exists()
    answer = run("store", state="exported", diff=True, **arguments)
    assert (answer["changed"], answer["rows"]["services"], is_plain(answer)) == (True, 2, True)
    assert (answer["diff"][0]["before"], "services 2\n" in answer["diff"][0]["after"]) == ("", True)
    assert run("store", state="exported", **arguments)["changed"] is False
    new = {"path": str(tmp_path / "x.sqlite"), "store_url": f"sqlite:///{tmp_path / 'new.db'}"}
    assert run("store", state="imported", check=True, **new)["changed"] is True
    assert not (tmp_path / "new.db").exists()
    answer = run("store", state="imported", diff=True, **new)
    assert (answer["changed"], answer["diff"][0]["before"], answer["revision"]) == (
        True,
        "",
        schema.LATEST,
    )
    assert fleets.snapshot(new["store_url"]).keys() == fleets.snapshot(broken_url).keys()
    assert fleets.holdings(new["store_url"]) == fleets.holdings(broken_url)
    again = run("store", state="imported", diff=True, **new)
    assert (again["changed"], again["diff"][0]["before"]) == (False, again["diff"][0]["after"])
    fleets.discover(new["store_url"], host("kvm3"))
    assert "The store is not empty: it has" in failure("store", state="imported", **new)


def test_bad_input_gives_a_sentence(broken_url, tmp_path):
    (tmp_path / "garbage").write_bytes(b"\0garbage")
    before = fleets.snapshot(broken_url)
    one = {"store_url": broken_url}
    assert "there is no folder" in failure(
        "store", state="exported", path=str(tmp_path / "no" / "x"), **one
    )
    assert "it is a folder" in failure("store", state="exported", path=str(tmp_path), **one)
    assert "No such file" in failure("store", state="imported", path=str(tmp_path / "none"), **one)
    assert "is no export" in failure(
        "store", state="imported", path=str(tmp_path / "garbage"), **one
    )
    assert "path" in failure("store", state="imported", **one)
    assert "release_expired goes with state=healed, not with state=present" in failure(
        "store", release_expired=True, **one
    )
    assert "path goes with state=exported or state=imported" in failure(
        "store", state="healed", path="x", **one
    )
    assert "discover" in failure("store_audit_info", store_url=f"sqlite:///{tmp_path / 'none.db'}")
    assert "discover" in failure(
        "store",
        state="exported",
        path=str(tmp_path / "x"),
        store_url=f"sqlite:///{tmp_path / 'none.db'}",
    )
    assert fleets.snapshot(broken_url) == before
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_file_that_goes_away_under_a_writer(tmp_path, how):
    path = tmp_path / "store.db"
    fleets.discover(f"sqlite:///{path}", host("kvm1"))
    other = tmp_path / "other.db"
    fleets.discover(f"sqlite:///{other}", host("kvm9"))
    with (
        pytest.raises(
            DroverError,
            match="was deleted or replaced while it was written to: what this step wrote is lost",
        ),
        Store.open(f"sqlite:///{path}").write() as connection,
    ):
        connection.execute(sa.update(tables.services).values(disabled=True))
        if how == "deleted":
            path.unlink()
        else:
            other.rename(path)


def test_a_file_that_goes_away_between_two_tasks(tmp_path):
    path = tmp_path / "store.db"
    fleets.discover(f"sqlite:///{path}", host("kvm1"))
    path.unlink()
    assert "There is no store at" in failure("store_audit_info", store_url=f"sqlite:///{path}")
    with pytest.raises(DroverError, match="no store at.*drover.compute.discover"):
        fleets.claim(f"sqlite:///{path}", fleets.selection("web", "kvm1"))


def test_the_table_stays_a_table_with_wide_names(broken_url):
    answer = run("store_audit_info", store_url=broken_url)
    assert LONG in answer["table"][1]
    # In a terminal.
    lines = [
        line.within(100) if isinstance(line, Row) else line
        for line in audit_table(answer["findings"])
    ]
    assert lines[0].split() == ["FINDING", "NAME", "HOST", *["WHY,", "AND", "WHAT", "HEAL", "DOES"]]
    column = lines[0].index("HOST")
    assert column <= len("allocation_missing") + WIDEST + 4
    assert [line[column:].split("  ")[0] for line in lines[1:3]] == ["kvm1, kvm2", "kvm1"]
    assert "..." in lines[1] and lines[3] == ""
    assert lines[4].startswith("domain_doubled: ")
    assert answer["findings"][0]["name"] == LONG
    assert audit_table([]) == []


@pytest.mark.long
def test_the_playbook(broken_url, tmp_path):
    code, output = audit(broken_url, folder=tmp_path)
    assert code == 0, output
    assert "domain_doubled" in output and "FINDING" in output and "changed=0" in output
    code, output = audit(
        broken_url,
        folder=tmp_path,
        variables={"drover_audit_heal": "true", "drover_audit_strict": "yes"},
    )
    assert code == 2, output
    assert "changed=1" in output and "The audit left problems: domain_doubled 1." in " ".join(
        output.split()
    )
    fleets.discover(broken_url, host("kvm2"))
    code, output = audit(
        broken_url,
        "--check",
        folder=tmp_path,
        variables={"drover_audit_heal": True, "drover_audit_strict": True},
    )
    assert code == 0, output
    assert "checked: consistent." in output
    stats = output.partition("CUSTOM STATS")[2]
    assert '"sound": true' in stats.replace("'", '"').replace("True", "true"), output


@pytest.mark.long
def test_the_playbook_says_what_it_mended(broken_url, tmp_path):
    code, output = audit(broken_url, folder=tmp_path, variables={"drover_audit_heal": True})
    assert code == 0, output
    mended = output.partition("Mended:\n")[2].partition("Left:\n")
    assert "allocation_missing" in mended[0] and "domain_doubled" not in mended[0]
    assert "domain_doubled" in mended[2].partition("Keep the data")[0]
    # A name is data, never a template.
    assert "{{ 1 + 1 }}www" in output


def test_the_playbook_without_a_store(tmp_path):
    code, said = audit(f"sqlite:///{tmp_path / 'none.db'}", folder=tmp_path)
    assert code == 2
    assert "drover.compute.discover first" in " ".join(said.split())
    assert not pathlib.Path(tmp_path / "none.db").exists()
