# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Definitions of instances that were removed: marked in the file, and not built again."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from ansible.errors import AnsibleActionFail

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.action.running import run
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host, uuid_of

TEXT = """instances:
  # The first web server
  - name: web1
    memory_mb: 64
    host: kvm1
  - {name: web2, memory_mb: 64}
  - name: web3
    uuid: %s
    memory_mb: 64
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "fleet.yml"
    path.write_text(TEXT % uuid_of("web3"))
    return path


def test_those_that_were_removed_are_marked(prepared_url, file):
    arguments = {"path": str(file), "store_url": prepared_url}
    gone = [
        "web1",
        {"name": "web2", "uuid": uuid_of("web2")},
        {"name": "web3", "uuid": uuid_of("another")},
    ]
    before = file.read_text()
    dry_run = run("_definitions", mark_absent=gone, check=True, diff=True, **arguments)
    assert dry_run["changed"] is True and file.read_text() == before
    assert run("_definitions", mark_absent=gone, **arguments)["changed"] is True
    # The third one has another uuid, so it is another instance.
    expected = before.replace("- name: web1\n", "- name: web1\n    state: absent\n").replace(
        "{name: web2,", "{name: web2, state: absent,"
    )
    assert file.read_text() == expected and dry_run["diff"][0]["after"] == expected
    assert run("_definitions", mark_absent=gone, **arguments)["changed"] is False
    found = run("_definitions", **arguments)
    assert [each["name"] for each in found["instances"]] == ["web3"]
    assert (found["absent"], found["still_there"]) == (["web1", "web2"], [])


def test_one_that_is_marked_and_there_is_named(prepared_url, file):
    fleets.discover(prepared_url, host("kvm1", domain("web1")))
    given = {"path": str(file), "store_url": prepared_url}
    run("_definitions", mark_absent=["web1"], **given)
    found = run("_definitions", write_back=True, **given)
    assert (found["absent"], found["still_there"], found["changed"]) == (["web1"], ["web1"], False)


def test_another_state_is_refused(prepared_url, file):
    file.write_text(file.read_text().replace("host: kvm1", "state: gone"))
    with pytest.raises(AnsibleActionFail, match="state must be present or absent, not 'gone'"):
        run("_definitions", path=str(file), store_url=prepared_url)


@pytest.mark.parametrize(
    ("item", "built_from", "removable"),
    [
        ({"name": "web1"}, "/web1", True),
        ({"name": "web1", "uuid": uuid_of("web1")}, None, True),
        # The instance has the name, and nothing proves that it is the same one.
        ({"name": "web1"}, None, False),
        ({"name": "other", "uuid": uuid_of("web1")}, "/web1", False),
        ({"name": "web1", "project": "shop"}, "/web1", False),
    ],
)
def test_what_may_be_removed_provably_is_of_its_definition(
    prepared_url, item, built_from, removable
):
    fleets.discover(prepared_url, host("kvm1", domain("web1")))
    with Store.open(prepared_url).write() as connection:
        connection.execute(sa.update(tables.instances).values(definition=built_from))
    answer = run(
        "_definitions",
        instances=[{"memory_mb": 64, "state": "absent", **item}],
        store_url=prepared_url,
    )
    assert answer["still_there"] == [item["name"]]
    assert answer["removable"] == ([{"uuid": uuid_of("web1"), "name": "web1"}] if removable else [])
    assert [
        uuid_of("web1") in line and "not removed here" in line for line in answer["unproven"]
    ] == ([] if removable else [True])
