# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs, decisions, claims, moves and power actions have user, controller, command and reason, in
AWX the job; no secret is among them.
"""

from __future__ import annotations

import json
import socket
import time

import pytest
from ansible.parsing.vault import VaultLib, VaultSecret

from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import claims as migrations
from ansible_collections.drover.compute.plugins.plugin_utils._records.runs import Run
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.runs import actions
from ansible_collections.drover.compute.tests.unit.action.running import ansible, failure, play, run
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import NOW, domain, host, uuid_of

SECRET = "sw0rdf1sh"
SMALL = {"name": "web", "vcpus": 1, "memory_mb": 64}
AWX = {
    "awx_job_id": 42,
    "tower_job_id": 42,
    "awx_job_template_name": "drover-drain",
    "awx_job_launch_type": "workflow",
    "awx_user_name": "alice",
    "awx_workflow_job_id": 41,
    "awx_workflow_job_name": "drover-rolling-approved",
}


@pytest.fixture
def url(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    Store.open(url).upgrade()
    fleets.discover(url, host("kvm1", domain("db", 2)), host("kvm2"))
    return url


def told(url, **chosen):
    """Return the records, oldest first."""
    with Store.open(url).read() as connection:
        return actions.read(connection, 1000, **chosen)[::-1]


def words(row):
    return row["kind"], row["message"], row["instance_name"], row["host"], row["destination"]


def test_a_claim_and_its_decision_and_a_refusal(url, tmp_path):
    decide = {
        "drover.compute._schedule": {"requests": [SMALL], "store_url": url},
        "register": "picked",
    }
    claim = {
        "drover.compute.allocation": {"selections": "{{ picked.selections }}", "store_url": url}
    }
    refused = {
        "drover.compute._schedule": {
            "requests": [{**SMALL, "name": "big", "vcpus": 64}],
            "store_url": url,
        },
        "ignore_errors": True,
    }
    secrets = {"drover_power_password": SECRET, "my_token": SECRET, "drover_host": "kvm1"}
    given = ["-e", "drover_reason='ticket 7'", "-e", json.dumps(secrets)]
    status, said = play(tmp_path, [decide, claim, refused], options=given)
    assert status == 0, said
    entries = told(url)
    chosen = entries[0]["host"]
    assert [words(each) for each in entries] == [
        ("decision", f"place: host {chosen}", "web", chosen, None),
        ("claim", "room claimed", "web", chosen, None),
        ("decision", "place: no valid host", "big", None, None),
    ]
    command = (
        "ansible-playbook play.json -e drover_host=kvm1 -e drover_power_password -e"
        " 'drover_reason=ticket 7' -e my_token"
    )
    assert {(each["command"], each["reason"], each["controller"]) for each in entries} == {
        (command, "ticket 7", socket.gethostname())
    }
    assert all(each["user"] and each["job"] is None for each in entries)
    assert SECRET not in json.dumps(entries)


def test_secrets_that_ansible_vault_has_encrypted(url, tmp_path):
    """Each playbook failed with "cannot turn EncryptedString into plain data", for any name of the
    variable."""
    (tmp_path / "key").write_text("key", encoding="utf-8")
    encrypted = VaultLib([("default", VaultSecret(b"key"))]).encrypt(SECRET).decode()
    lines = "".join(f"  {line}\n" for line in encrypted.splitlines())
    names = ("my_token", "drover_power_password", "drover_project")
    (tmp_path / "secrets.yml").write_text(
        "".join(f"{name}: !vault |\n{lines}" for name in names), encoding="utf-8"
    )
    tasks = [{"drover.compute.host": {"name": "kvm1", "state": "disabled", "store_url": url}}]
    status, output = play(
        tmp_path, tasks, options=["-e", "@secrets.yml", "--vault-password-file", "key"]
    )
    assert status == 0, output
    (row,) = told(url)
    assert (
        row["command"]
        == "ansible-playbook play.json -e drover_power_password -e drover_project -e my_token"
    )
    assert SECRET not in json.dumps(row)


def test_power_events_hosts_and_leases(url, tmp_path):
    tasks = [
        {"drover.compute.lease": {"name": "kvm1", "purpose": "new fans", "store_url": url}},
        {
            "drover.compute.host": {
                "name": "kvm1",
                "state": "disabled",
                "reason": "fans",
                "store_url": url,
            }
        },
        {
            "drover.compute._power_event": {
                "host": "kvm1",
                "action": "shutdown",
                "driver": "ssh",
                "store_url": url,
            },
            "register": "begun",
        },
        {
            "drover.compute._power_event": {
                "host": "kvm1",
                "uuid": "{{ begun.event.uuid }}",
                "status": "failed",
                "power_state": "on",
                "message": f"https://root:{SECRET}@bmc1?password={SECRET}&x=1 says no",
                "store_url": url,
            }
        },
    ]
    status, said = play(tmp_path, tasks)
    assert status == 0, said
    assert [words(each) for each in told(url, host="kvm1")] == [
        ("run", "new fans", None, "kvm1", None),
        ("host", "disabled: yes, reason: fans", None, "kvm1", None),
        ("power", "shutdown by ssh: begun", None, "kvm1", None),
        (
            "power",
            "shutdown by ssh: failed, power on (https://***@bmc1?password=***&x=1 says no)",
            None,
            "kvm1",
            None,
        ),
    ]
    # The option of a task counts as a reason too.
    assert [each["reason"] for each in told(url)] == ["", "fans", "", ""]


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "sslpassword",
        "passwd",
        "passphrase",
        "pass",
        "PWD",
        "token",
        "secret",
        "client_secret",
        "api_key",
        "apikey",
    ],
)
def test_a_secret_among_the_options_of_an_address_is_not_written_down(url, name):
    store = Store.open(
        url,
        run=Run("bob", "ctl1", "ansible-playbook x.yml", f"see https://bmc1/x?{name}={SECRET}&a=1"),
    )
    with store.write() as connection:
        actions.note(connection, "run", f"postgresql://db/drover?user=x&{name}={SECRET}: refused")
    (row,) = told(url)
    assert SECRET not in json.dumps(row) and row["reason"].endswith(f"{name}=***&a=1")


def test_a_check_writes_nothing(url, tmp_path):
    tasks = [{"drover.compute.host": {"name": "kvm1", "state": "disabled", "store_url": url}}]
    assert play(tmp_path, tasks, options=["--check"])[0] == 0
    assert told(url) == []


def test_the_job_of_awx_and_its_user(url, tmp_path):
    tasks = [{"drover.compute.host": {"name": "kvm1", "state": "disabled", "store_url": url}}]
    assert play(tmp_path, tasks, options=["-e", json.dumps(AWX)])[0] == 0
    (row,) = told(url)
    job = {
        "id": "42",
        "template": "drover-drain",
        "launched": "workflow",
        "user": "alice",
        "workflow_id": "41",
        "workflow": "drover-rolling-approved",
    }
    assert row["job"] == job and row["command"] == "ansible-playbook play.json"
    # Older releases give only the other prefix; a schedule has no user.
    tower = {"tower_job_id": 43, "tower_schedule_name": "nightly"}
    assert (
        play(
            tmp_path,
            [{"drover.compute.host": {"name": "kvm1", "state": "enabled", "store_url": url}}],
            options=["-e", json.dumps(tower)],
        )[0]
        == 0
    )
    assert told(url)[-1]["job"] == {"id": "43", "schedule": "nightly"}
    shown = run("history_info", store_url=url)["table"]
    assert (
        "schedule nightly, AWX job 43" in shown[1]
        and "alice, AWX job 42 of workflow 41" in shown[2]
    )


def test_a_move_its_end_and_a_delete(url):
    store = Store.open(url, run=Run("bob", "ctl1", "ansible-playbook drain.yml", "fans"))
    with store.write() as connection:
        move = migrations.begin(connection, uuid_of("db"), "kvm2", None, "live-migration", NOW)
        migrations.finish(connection, move["uuid"], certainty.word("a test"), "running", NOW)
    assert [words(each) for each in told(url, instances=["db"])] == [
        ("move", "live-migration: begun", "db", "kvm1", "kvm2"),
        ("move", "live-migration: completed", "db", "kvm1", "kvm2"),
    ]
    assert told(url, host="kvm2") == told(url, host="kvm1") == told(url, instances=[uuid_of("db")])


def test_by_instance_host_and_day(url):
    store = Store.open(url, run=Run("bob", "ctl1", "ansible-playbook x.yml"))
    for number, name in enumerate(["kvm1", "kvm2", "kvm1"]):
        with store.write() as connection:
            actions.note(connection, "run", f"drain {number}", host=name)
    today = time.strftime("%Y-%m-%d", time.gmtime())
    assert [
        each["message"] for each in run("history_info", store_url=url, host="kvm1")["actions"]
    ] == ["drain 2", "drain 0"]
    assert [each["message"] for each in run("history_info", store_url=url, rows=1)["actions"]] == [
        "drain 2"
    ]
    assert run("history_info", store_url=url, day="2020-02-29")["actions"] == []
    # Midnight may have passed in between.
    assert len(
        run("history_info", store_url=url, day=today)["actions"]
    ) == 3 or today != time.strftime("%Y-%m-%d", time.gmtime())
    assert "Write it as YEAR-MONTH-DAY" in failure("history_info", store_url=url, day="27.11.2026")


def test_the_playbook_shows_it(url, tmp_path):
    tasks = [
        {
            "drover.compute.host": {
                "name": "kvm2",
                "state": "disabled",
                "reason": "new disks",
                "store_url": url,
            }
        }
    ]
    assert play(tmp_path, tasks)[0] == 0
    wide = {"COLUMNS": "400"}
    given = ["-e", f"drover_store_url={url}", "-e", "drover_host=kvm2"]
    status, output = ansible(
        tmp_path, "playbook", "-i", "localhost,", "drover.compute.history", *given, environment=wide
    )
    assert status == 0, output
    assert (
        "host: disabled: yes, reason: new disks" in output
        and "ansible-playbook play.json" in output
    )


def test_the_oldest_rows_go(url, monkeypatch):
    monkeypatch.setattr(actions, "KEPT", 3)
    monkeypatch.setattr(actions, "PRUNED_EVERY", 2)
    for number in range(10):
        with Store.open(url).write() as connection:
            actions.note(connection, "run", str(number))
    found = told(url)
    assert [each["message"] for each in found][-3:] == ["7", "8", "9"] and len(found) <= 5
