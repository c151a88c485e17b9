# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The statements of docs/security.md give exactly the documented rights, and no more."""

from __future__ import annotations

import json
import re
import urllib.parse

import psycopg
import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.tests.unit import examples
from ansible_collections.drover.compute.tests.unit import postgres as server

postgres = server.postgres
DATABASE = "fleet_of_the_documentation"


@pytest.fixture(scope="module")
def roles(postgres):
    """Return URLs by role. All statements come from the page, except for the password."""
    page = (examples.ROOT / "docs" / "security.md").read_text()
    admin = {
        "host": "127.0.0.1",
        "port": postgres.port,
        "user": f"{server.ROLE}_admin",
        "password": postgres.password,
        "autocommit": True,
    }
    # The cluster of the tests already has a role of this name, which belongs to other tests.
    blocks = [
        block.replace("drover_owner", "t_owner")
        .replace("drover_run", "t_run")
        .replace("drover_read", "t_read")
        .replace("DATABASE drover", f"DATABASE {DATABASE}")
        for block in re.findall(r"^```sql\n(.*?)^```", page, re.M | re.S)
    ]
    assert len(blocks) == 2
    with psycopg.connect(dbname="postgres", **admin) as connection:
        for statement in filter(str.strip, blocks[0].split(";")):
            connection.execute(statement)
        for role in ("t_owner", "t_run", "t_read"):
            connection.execute(f"ALTER ROLE {role} PASSWORD '{postgres.password}'")
    password = urllib.parse.quote(postgres.password, safe="")
    urls = {
        name: f"postgresql://t_{name}:{password}@127.0.0.1:{postgres.port}/{DATABASE}"
        for name in ("owner", "run", "read")
    }
    with psycopg.connect(dbname=DATABASE, **admin) as connection:
        for statement in filter(str.strip, blocks[1].split(";")):
            connection.execute(statement)
    Store.open(urls["owner"]).upgrade()
    return urls


def run(folder, url, *tasks):
    examples.inventory(folder)
    play = {"name": "Try", "hosts": "localhost", "gather_facts": False, "tasks": list(tasks)}
    examples.write_play(folder, [play])
    return examples.command(
        folder, "ansible-playbook", "-i", "inventory.yml", "example.yml", url=url
    )


REQUEST = {"name": "web1", "vcpus": 1, "memory_mb": 64}
READERS = [
    {"ansible.builtin.debug": {"msg": f"{{{{ query('drover.compute.schedule', {REQUEST}) }}}}"}},
    {"drover.compute.plan_drain_info": {"host": "kvm1"}},
    {"ansible.builtin.debug": {"msg": f"{{{{ lookup('drover.compute.capacity', {REQUEST}) }}}}"}},
    {"drover.compute.plan_rebalance_info": {}},
    {"drover.compute.plan_rolling_info": {}},
    {"drover.compute.host_info": {}},
    {"drover.compute.instance_info": {}},
    {"drover.compute.resource_provider_info": {}},
    {"drover.compute.allocation_info": {}},
]


def test_the_role_that_runs_playbooks(roles, tmp_path):
    examples.fill(roles["run"])
    done = run(
        tmp_path,
        roles["run"],
        *READERS,
        {
            "ansible.builtin.set_fact": {
                "picked": f"{{{{ query('drover.compute.schedule', {REQUEST}) }}}}"
            }
        },
        {"drover.compute.allocation": {"selections": "{{ picked }}"}, "register": "claimed"},
        {
            "drover.compute.allocation": {
                "state": "released",
                "instances": "{{ claimed.claims | map(attribute='uuid') | list }}",
            }
        },
        {"drover.compute.lease": {"name": "kvm1", "purpose": "a test"}},
        {"drover.compute.host": {"name": "kvm1", "state": "disabled", "reason": "a test"}},
        {"drover.compute.host": {"name": "kvm1", "state": "enabled"}},
        {"drover.compute.lease": {"name": "kvm1", "state": "absent"}},
        {"drover.compute.server_group": {"name": "web", "policy": "anti-affinity"}},
        {"drover.compute.aggregate": {"name": "fast", "hosts": ["kvm1"]}},
        {"drover.compute.flavor": {"name": "db", "vcpus": 1, "memory_mb": 64}},
        {"drover.compute.store_audit_info": {}},
        {"drover.compute.store": {"state": "healed"}},
        {"drover.compute.store": {}},
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "statement", ["DROP TABLE instances", "CREATE TABLE mine (id int)", "TRUNCATE instances"]
)
def test_it_cannot_change_the_schema(roles, statement):
    with (
        psycopg.connect(roles["run"]) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(statement)


def test_the_role_that_reads(roles, tmp_path):
    examples.fill(roles["run"])
    done = run(tmp_path, roles["read"], *READERS)
    assert done.returncode == 0, done.stdout
    (tmp_path / "fleet.drover.yml").write_text("plugin: drover.compute.fleet\ninstances: true\n")
    done = examples.command(
        tmp_path, "ansible-inventory", "-i", "fleet.drover.yml", "--list", url=roles["read"]
    )
    assert done.returncode == 0, done.stdout
    assert set(examples.HOSTS) <= set(json.loads(done.stdout)["_meta"]["hostvars"])


def test_it_changes_nothing(roles, tmp_path):
    done = run(
        tmp_path,
        roles["read"],
        {"drover.compute.host": {"name": "kvm1", "state": "disabled", "reason": "x"}},
    )
    assert done.returncode != 0
    said = " ".join(done.stdout.split())
    assert "permission denied" in said and "may not do this" in said, done.stdout
    assert "defect" not in said
    with (
        psycopg.connect(roles["read"]) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute("DELETE FROM instances")


def test_a_role_without_rights_is_told_so(roles, postgres):
    with (
        pytest.raises(DroverError, match="permission"),
        Store.open(roles["read"]).write() as connection,
    ):
        connection.exec_driver_sql("DELETE FROM instances")


def test_the_password_is_in_no_log_result_or_export(roles, postgres, tmp_path):
    """The test gives the URL as a variable to tasks that write, export and show differences, at
    -vvv --diff."""
    examples.inventory(tmp_path)
    tasks = [
        {"drover.compute.host": {"name": "kvm1", "state": "disabled", "reason": "a reason"}},
        {"drover.compute.lease": {"name": "kvm1", "purpose": "a test"}},
        {"drover.compute.store": {"state": "exported", "path": str(tmp_path / "export.sqlite")}},
        {"drover.compute.lease": {"name": "kvm1", "state": "absent"}},
        {"drover.compute.host_info": {}},
        {"drover.compute.plan_drain_info": {"host": "kvm1"}},
    ]
    play = {"name": "Try", "hosts": "localhost", "gather_facts": False, "tasks": tasks}
    examples.write_play(tmp_path, [{**play, "vars": {"drover_store_url": roles["run"]}}])
    examples.fill(roles["run"])
    done = examples.command(
        tmp_path, "ansible-playbook", "-i", "inventory.yml", "-vvv", "--diff", "example.yml"
    )
    assert done.returncode == 0, done.stdout
    for text in (done.stdout.encode(), (tmp_path / "export.sqlite").read_bytes()):
        assert postgres.password.encode() not in text
        assert urllib.parse.quote(postgres.password, safe="").encode() not in text
