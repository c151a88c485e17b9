# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mistakes of an operator at the command line, and the sentence that answers each.

Each case is a command as an operator types it. It fails, has no traceback, and ends in one
sentence: the mistake, its place, the remedy; a misspelt name brings the nearest right one.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
import shutil
import sqlite3

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import flavors
from ansible_collections.drover.compute.tests.unit.action.running import ansible, failure, run
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host

ROOT = pathlib.Path(__file__).resolve().parents[3]
HOSTS = [f"kvm{number}" for number in range(1, 13)]
#: A longer text is not a sentence.
LONGEST = 1300

DEFINITIONS = {
    "broken.yml": "instances:\n  - name: a\n     memory_mb: 512\n",
    "tab.yml": "instances:\n\t- name: a\n",
    "quote.yml": 'instances:\n  - name: "a\n    memory_mb: 64\n',
    "twice.yml": (
        "instances:\n  - {name: a, memory_mb: 64}\n  - {name: b, memory_mb: 64}\n  - {name: a,"
        " memory_mb: 64}\n"
    ),
    "key.yml": "instances:\n  - name: a\n    memory: 512\n",
    "size.yml": "instances:\n  - {name: a, memory_mb: 2X}\n",
    "odd.yml": "instances:\n  - {name: a, memory_mb: 1500K}\n",
    "group.yml": (
        "server_groups: [{name: web, policy: affinity}]\ninstances:\n\n  - {name: a, memory_mb: 64,"
        " server_group: wbe}\n"
    ),
    "latin.yml": None,
    "good.yml": "instances:\n  - {name: a, memory_mb: 64}\n",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a store with twelve hosts; kvm2 has an instance."""
    path = tmp_path_factory.mktemp("made") / "store.db"
    url = f"sqlite:///{path}"
    Store.open(url).upgrade()
    fleets.discover(
        url, *(host(name, *([domain("web1")] if name == "kvm2" else [])) for name in HOSTS)
    )
    with Store.open(url).write() as connection:
        flavors.ensure(connection, "small", {"vcpus": 1, "memory_mb": 64, "disk_gb": 1}, fleets.NOW)
    return path


@pytest.fixture
def folder(made, tmp_path):
    shutil.copyfile(made, tmp_path / "store.db")
    (tmp_path / "hosts.yml").write_text(
        json.dumps(
            {
                "hypervisors": {
                    "hosts": dict.fromkeys(HOSTS),
                    "vars": {"ansible_connection": "local"},
                }
            }
        )
    )
    (tmp_path / "ansible.cfg").write_text(
        "[defaults]\ninventory = hosts.yml\nlocalhost_warning = false\n"
    )
    for name, text in DEFINITIONS.items():
        (tmp_path / name).write_bytes(b"instances: \xe9\n" if text is None else text.encode())
    (tmp_path / "policy.yml").write_text("enabled_filters: [RamFiler]\n")
    (tmp_path / "policy2.yml").write_text("max_attempts: 2\nweigher: {}\n")
    (tmp_path / "plan.json").write_text('{"moves": 1}')
    (tmp_path / "plan2.json").write_text('{"moves": [{"uuid": "x"}]}')
    (tmp_path / "plan3.json").write_text("moves: 1")
    return tmp_path


def said(folder, name, *words, url=None, environment=None):
    """Return the sentence that a playbook of the collection fails with.

    :param words: words of the command line; without a URL the store is in the folder.
    """
    store = f"sqlite:///{folder}/store.db" if url is None else url
    environment = {"DROVER_STORE_URL": store, "ANSIBLE_NOCOLOR": "1", **(environment or {})}
    status, output = ansible(
        folder, "playbook", f"drover.compute.{name}", *words, environment=environment
    )
    assert status not in (0, 250), output
    assert "Traceback" not in output and "argument_spec" not in output, output
    # Ansible's own words about the place of a failed template or task.
    assert (
        "Error while resolving value" not in output and "Finalization of task args" not in output
    ), output
    found = re.findall(r"(?:fatal: .*?|failed: .*?)=> (\{.*\})$", output, re.MULTILINE)
    sentence = json.loads(found[-1])["msg"] if found else " ".join(output.split())
    assert len(sentence) < LONGEST, sentence
    return sentence


def drain(name):
    return ("drain", "-e", f"drover_host={name}", "-e", "drover_plan_only=true")


def place(file, *words):
    return ("place", "-e", f"drover_definitions={file}", *words)


ANSWERS = {
    "unknown host": (
        drain("kmv1"),
        "Host kmv1 is not in the store (did you mean kvm1?). Known hosts: kvm1, kvm2, kvm3, kvm4,",
        "kvm10 and 2 more",
    ),
    "host of hosts": (("hosts", "-e", "drover_host=kmv1"), "(did you mean kvm1?)"),
    "two hosts": (
        drain("kvm1,kmv2"),
        "Host kmv2 is not in the store (did you mean kvm2?). Known hosts: kvm1,",
    ),
    "two hosts to undrain": (
        ("undrain", "-e", "drover_host=kvm1,kmv2"),
        "Host kmv2 is not in the store (did you mean kvm2?).",
    ),
    "hosts without commas": (
        drain("kvm1;kvm2"),
        "kvm1;kvm2 is no name of a host. Name a host",
        "-e drover_host=kvm1,kvm2. Nothing was done.",
    ),
    "two hosts to evacuate": (
        ("evacuate", "-e", "drover_host=kvm1,kvm2"),
        "kvm1,kvm2 names several hosts, and this playbook takes one at a time.",
    ),
    "two hosts to show": (
        ("hosts", "-e", "drover_host=kvm1,kvm2"),
        "kvm1,kvm2 names 2 hosts, and one host is wanted here",
    ),
    "a list of hosts": (
        ("evacuate", "-e", '{"drover_host": ["kvm1", "kvm2"]}'),
        "kvm1, kvm2 names several hosts",
    ),
    "a number for a host": (
        ("power", "-e", '{"drover_host": 5}'),
        "5 is no name of a host. Name one host as the inventory has it",
    ),
    "a host that is a list": (
        ("power", "-e", '{"drover_host": ["kvm1"]}'),
        "drover_host is a list. Name one host",
    ),
    "a list of hosts with a slip": (
        ("drain", "-e", '{"drover_host": ["kvm1", "kmv2"]}'),
        "Host kmv2 is not in the store",
    ),
    "an empty list of hosts": (("drain", "-e", '{"drover_host": []}'), "Which host? Name a host"),
    "no host": (
        ("drain",),
        "Which host? Name a host as the inventory has it, such as -e drover_host=kvm1, or several",
    ),
    "no host to undrain": (("undrain",), "Which host?"),
    "no host to evacuate": (("evacuate",), "Which host?"),
    "no host to power": (("power",), "Which host?"),
    "power action": (
        ("power", "-e", "drover_host=kvm1", "-e", "drover_power_action=rebot"),
        (
            "drover_power_action is rebot, which does not exist. There are: status, startup,"
            " shutdown, reboot, hard_off, cycle."
        ),
    ),
    "choice of a drain": (
        (*drain("kvm2"), "-e", "drover_unmovable=skipp"),
        "unmovable",
        "fail, skip, shutdown",
        "skipp",
    ),
    "no power driver": (
        ("power", "-e", "drover_host=kvm1"),
        "kvm1 has no power driver. Set drover_power_driver in its host variables",
    ),
    "broken YAML": (
        place("broken.yml"),
        "broken.yml, line 3, column ",
        "second colon or does not fit the line above",
    ),
    "tab": (place("tab.yml"), "tab.yml, line 2, column 1: there is a tab. Indent with blanks only"),
    "quote": (
        place("quote.yml"),
        "quote.yml, line 4, column 1: a quote (\" or ') is opened and not closed",
    ),
    "name twice": (
        place("twice.yml"),
        "twice.yml line 4: instance a: the name a stands twice; first at",
        "line 2",
    ),
    "unknown key": (
        place("key.yml"),
        (
            "key.yml line 2: instance a: unknown key memory (did you mean memory_mb?). Known:"
            " autostart,"
        ),
    ),
    "size": (
        place("size.yml"),
        "size.yml line 2: instance a: memory_mb must be a whole number of MiB from 1",
        "such as 512MiB, 4GiB or 2T",
        "'2X'",
    ),
    "odd size": (
        place("odd.yml"),
        "memory_mb is 1500K, which is not a whole number of MiB. Write 1MiB or 2MiB.",
    ),
    "server group": (
        place("group.yml"),
        (
            "group.yml line 4: instance a: server group wbe is neither under server_groups nor in"
            " the store (did you mean web?). There are: web."
        ),
        "Nothing was placed.",
    ),
    "unknown filter": (
        place("good.yml", "-e", "drover_scheduler_file=policy.yml"),
        "policy.yml, line 1, column ",
        (
            "names 'RamFiler' under 'enabled_filters', which does not exist (did you mean"
            " RamFilter?); there are: "
        ),
    ),
    "policy key": (
        place("good.yml", "-e", "drover_scheduler_file=policy2.yml"),
        (
            "policy2.yml, line 2, column 1: The scheduler policy: unknown key weigher (did you mean"
            " weighers?)"
        ),
    ),
    "policy of a rebalance": (
        ("rebalance", "-e", "drover_scheduler_file=policy.yml"),
        "(did you mean RamFilter?)",
    ),
    "no such file": (place("gone.yml"), "gone.yml cannot be read: No such file or directory."),
    "no UTF-8": (place("latin.yml"), "latin.yml cannot be read: it is not UTF-8 text."),
    "plan": (
        ("rebalance", "-e", "drover_plan_file=plan.json", "-e", "drover_plan_only=false"),
        (
            "plan.json is no plan of a rebalance: it has no list of moves. Nothing was moved. Write"
            " the plan again, with drover_plan_file="
        ),
    ),
    "plan with a bad move": (
        ("rebalance", "-e", "drover_plan_file=plan2.json", "-e", "drover_plan_only=false"),
        "move 1 has no live, from_host,",
    ),
    "plan that is no JSON": (
        ("rebalance", "-e", "drover_plan_file=plan3.json", "-e", "drover_plan_only=false"),
        "plan3.json is no plan",
        "not JSON",
    ),
    "plan that is not there": (
        ("rebalance", "-e", "drover_plan_file=gone.json", "-e", "drover_plan_only=false"),
        "gone.json cannot be read: No such file",
    ),
    "report": (
        ("report", "-e", "drover_report=/nowhere/at/all.html"),
        "/nowhere/at/all.html cannot be written: there is no folder /nowhere/at.",
        "a path that you may write",
    ),
    "evacuate a host that is up": (
        ("evacuate", "-e", "drover_host=kvm1"),
        "kvm1 is up in the store, so it is not evacuated; nothing was changed.",
    ),
    "flavor": (
        ("schedule", "-e", "drover_flavor=smal"),
        "flavor 'smal' is not in the store (did you mean small?) (it has: small); make it with",
    ),
    "flavor to count": (
        ("capacity", "-e", "drover_flavor=smal"),
        "flavor 'smal' is not in the store (did you mean small?)",
    ),
    "no size": (
        ("schedule",),
        "Which size? Name a flavor, such as -e drover_flavor=small, or a size",
    ),
    "half a size": (
        ("capacity", "-e", "drover_vcpus=2"),
        "has no 'memory_mb'; give a number of MiB, 1 or more, or a size such as 4GiB.",
    ),
    "size of a flavor": (
        ("schedule", "-e", "drover_vcpus=2", "-e", "drover_memory_mb=4GX"),
        "'memory_mb' must be a whole number of MiB from 1",
        "'4GX'",
    ),
    "instance": (
        ("instance_stop", "-e", "drover_instance=wbe1"),
        "No instance wbe1 is in the store (did you mean web1?), so nothing was done.",
    ),
    "variable": (
        (*drain("kvm1"), "-e", "drover_plan_onyl=true"),
        "has no variable drover_plan_onyl (did you mean drover_plan_only?)",
    ),
    "neither true nor false": (
        ("audit", "-e", "drover_audit_heal=maybe"),
        (
            "drover_audit_heal is 'maybe', which is neither true nor false. Write true, yes, on or"
            " 1, or false, no, off or 0."
        ),
    ),
    "a misspelt true": (
        ("drain", "-e", "drover_host=kvm1", "-e", "drover_plan_only=ture"),
        "Nothing was done. drover_plan_only is 'ture', which is neither true nor false.",
    ),
    "a misspelt true of a rebalance": (
        ("rebalance", "-e", "drover_plan_only=ture"),
        "Nothing was done. drover_plan_only is 'ture', which is neither true nor false.",
    ),
    "a misspelt true of a delete": (
        ("instance_delete", "-e", "drover_instance=web1", "-e", "drover_delete_keep_disks=ture"),
        "Nothing was done. drover_delete_keep_disks is 'ture', which is neither true nor false.",
    ),
    "no whole number": (
        ("evacuate", "-e", "drover_host=kvm1", "-e", "drover_evacuate_down_percent=many"),
        (
            "Nothing was done. drover_evacuate_down_percent is 'many', which is no whole number"
            " from 0 on. Write one, or leave it out."
        ),
    ),
    "an empty number": (
        ("drain", "-e", "drover_host=kvm1", "-e", "drover_max_migrations="),
        "drover_max_migrations is '', which is no whole number",
    ),
    "a number below 0": (
        ("rolling_maintenance", "-e", "drover_rolling_batch_size=-2"),
        "drover_rolling_batch_size is '-2', which is no whole",
    ),
    "a number that is too small": (
        ("drain", "-e", "drover_host=kvm1", "-e", "drover_max_migrations=0"),
        "drover_max_migrations must be at least 1",
    ),
    "a size below 0": (
        ("instance_resize", "-e", "drover_instance=web1", "-e", "drover_vcpus=-1"),
        "drover_vcpus must be 0 or more, not -1.",
    ),
    "a list of reports": (
        ("report", "-e", '{"drover_report": ["a.html", "b.html"]}'),
        'drover_report is ["a.html", "b.html"], which is no path. Give the path of one page',
    ),
    "a text for a plan": (
        ("report", "-e", "drover_plan=plan.json"),
        "drover_plan is a text",
        "use -e drover_plan_drain=kvm1",
    ),
    "a text for a policy": (
        ("schedule", "-e", "drover_flavor=small", "-e", "drover_scheduler=policy.yml"),
        "argument 'drover_scheduler' must be a mapping, not 'policy.yml'",
    ),
    "drain in a report": (
        ("report", "-e", "drover_plan_drain=kmv1"),
        "Host kmv1 is not in the store (did you mean kvm1?)",
    ),
}

URLS = {
    "no store": (
        "sqlite:////nowhere/x.db",
        (
            "There is no store at sqlite:////nowhere/x.db yet. Run the playbook"
            " drover.compute.discover first, or set"
        ),
    ),
    "kind": (
        "mysql://user:secret@db/drover",
        "The store can be SQLite or PostgreSQL, not mysql. Change drover_store_url.",
    ),
    "path": (
        "/var/lib/store.db",
        (
            "The store URL (drover_store_url) is malformed or of an unknown kind. Write"
            " sqlite:////absolute/path.db or"
        ),
    ),
    "slashes": ("postgres//user:secret@db/drover", "The store URL (drover_store_url) is malformed"),
    "refused": (
        "postgresql://user:secret@127.0.0.1:9/drover",
        "connection failed",
        "Check that the database runs, and the host, user, password and",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("case", ANSWERS)
def test_the_answer_of_a_playbook(folder, case):
    (name, *words), *sentences = ANSWERS[case]
    found = said(folder, name, *words)
    assert [sentence for sentence in sentences if sentence not in found] == [], found


@pytest.mark.parametrize(
    "case",
    [
        "two hosts",
        "no host",
        "power action",
        "a misspelt true",
        "neither true nor false",
        "no whole number",
        "a number that is too small",
        "a list of reports",
        "a text for a policy",
        "server group",
        "plan",
        "flavor",
        "instance",
        "choice of a drain",
    ],
)
def test_the_answer_of_the_most_frequent(folder, case):
    """Run a case that make test leaves out otherwise, because there are too many others."""
    test_the_answer_of_a_playbook(folder, case)


@pytest.mark.parametrize("case", URLS)
def test_the_answer_to_a_wrong_url(case):
    url, *sentences = URLS[case]
    found = failure("host_info", store_url=url)
    assert [sentence for sentence in sentences if sentence not in found] == [], found
    assert "secret" not in found and len(found) < LONGEST


def test_a_url_of_the_command_line(folder):
    found = said(folder, "hosts", "-e", "drover_store_url=mysql://user:secret@db/drover")
    assert found == "The store can be SQLite or PostgreSQL, not mysql. Change drover_store_url."


# --- the file of a store ----------------------------------------------------------------------


def contents(folder):
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
    }


def others(path, write_ahead=False):
    """A database of another program."""
    connection = sqlite3.connect(path)
    if write_ahead:
        connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE users (name TEXT)")
    connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
    connection.execute("INSERT INTO users VALUES ('jane')")
    connection.execute("INSERT INTO alembic_version VALUES ('0001')")
    connection.commit()
    connection.close()


@pytest.mark.parametrize("write_ahead", [False, True])
@pytest.mark.parametrize(
    "module, args",
    [("host_info", {}), ("flavor", {"name": "small", "vcpus": 1, "memory_mb": 64}), ("store", {})],
)
def test_a_database_of_another_program_is_refused_and_not_touched(
    tmp_path, module, args, write_ahead
):
    others(tmp_path / "others.db", write_ahead)
    before = contents(tmp_path)
    message = failure(module, store_url=f"sqlite:///{tmp_path}/others.db", **args)
    assert contents(tmp_path) == before
    assert (
        f"The database sqlite:///{tmp_path}/others.db belongs to another program: it has the tables"
        " alembic_version, users," in message
    )
    assert (
        "Nothing was written. Set drover_store_url to a file or a database of its own." in message
    )


def test_a_database_without_a_version_is_refused(tmp_path):
    connection = sqlite3.connect(tmp_path / "others.db")
    connection.execute("CREATE TABLE users (name TEXT)")
    connection.commit()
    connection.close()
    before = contents(tmp_path)
    assert "belongs to another program: it has the tables users" in failure(
        "store", store_url=f"sqlite:///{tmp_path}/others.db"
    )
    assert contents(tmp_path) == before


def test_an_empty_database_becomes_a_store(tmp_path):
    sqlite3.connect(tmp_path / "new.db").close()
    assert run("store", store_url=f"sqlite:///{tmp_path}/new.db")["changed"] is True


def test_a_database_of_postgresql_with_tables_of_others_is_refused(postgres):
    with postgres.database() as url:
        engine = sa.create_engine(
            url.replace("postgresql://", "postgresql+psycopg://"), poolclass=sa.pool.NullPool
        )
        with engine.begin() as connection:
            connection.execute(sa.text("CREATE TABLE users (name TEXT)"))
        for module in ("host_info", "store"):
            assert "belongs to another program: it has the tables users" in failure(
                module, store_url=url
            )
        with engine.begin() as connection:
            assert sa.inspect(connection).get_table_names() == ["users"]


@pytest.mark.parametrize("module", ["host_info", "store"])
def test_a_file_that_is_no_database(tmp_path, module):
    path = tmp_path / "notes.txt"
    path.write_text("Remember the milk. " * 100)
    before = contents(tmp_path)
    message = failure(module, store_url=f"sqlite:///{path}")
    assert contents(tmp_path) == before
    assert (
        f"{path} is no SQLite database, or it is damaged. Nothing was written. Set drover_store_url"
        " to the file of the store" in message
    )
    assert "report it" not in message


def test_a_folder(tmp_path):
    message = failure("host_info", store_url=f"sqlite:///{tmp_path}")
    assert (
        f"{tmp_path} is a folder. Set drover_store_url to a file, such as"
        f" sqlite:///{tmp_path}/store.db." in message
    )


@pytest.fixture
def as_nobody(tmp_path):
    """The rest of the test runs as another user, because root may read and write everything."""
    for parent in (tmp_path, *tmp_path.parents):
        if (
            parent.stat().st_uid == os.geteuid()
            and parent != pathlib.Path("/")
            and not parent.stat().st_mode & 0o001
        ):
            parent.chmod(parent.stat().st_mode | 0o011)
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    yield
    os.seteuid(0)


@pytest.fixture
def protected(made, tmp_path):
    shutil.copyfile(made, tmp_path / "store.db")
    yield tmp_path / "store.db"
    tmp_path.chmod(0o700)


@pytest.mark.parametrize(
    "mode, folder_mode, module, sentence",
    [
        (
            0o000,
            0o755,
            "host_info",
            (
                "may not read {path}. Give the user the right to read and write the file and its"
                " folder"
            ),
        ),
        (
            0o444,
            0o755,
            "store",
            (
                "may not write to {path}, or its file system is read-only. Give the user the right"
                " to read and write"
            ),
        ),
        (0o666, 0o555, "store", "may not make files in {folder}, or its file system is read-only."),
    ],
)
def test_a_file_without_permission(protected, mode, folder_mode, module, sentence, request):
    protected.chmod(mode)
    protected.parent.chmod(folder_mode)
    request.getfixturevalue("as_nobody")
    args = {"name": "x", "vcpus": 1, "memory_mb": 1} if module == "store" else {}
    message = failure(
        "flavor" if module == "store" else module, store_url=f"sqlite:///{protected}", **args
    )
    assert sentence.format(path=protected, folder=protected.parent) in message, message
    assert "password" not in message and "database runs" not in message


# --- the rest ---------------------------------------------------------------------------------


def test_a_newer_schema(folder):
    connection = sqlite3.connect(folder / "store.db")
    connection.execute("UPDATE alembic_version SET version_num = '9042'")
    connection.commit()
    connection.close()
    message = failure("host_info", store_url=f"sqlite:///{folder}/store.db")
    assert (
        "has schema 9042, which this drover.compute does not know" in message
        and "nothing was changed" in message
    )


@pytest.mark.parametrize("full", [False, True])
def test_an_export_that_was_edited(folder, full):
    run(
        "store",
        state="exported",
        path=str(folder / "export.sqlite"),
        store_url=f"sqlite:///{folder}/store.db",
    )
    data = (folder / "export.sqlite").read_bytes()
    (folder / "export.sqlite").write_bytes(data.replace(b"kvm12", b"kvm13", 1))
    target = "store" if full else "new"
    message = failure(
        "store",
        state="imported",
        path=str(folder / "export.sqlite"),
        store_url=f"sqlite:///{folder}/{target}.db",
    )
    assert (
        "is not as it was exported: its checksum is another." in message
        and "nothing was imported" in message
    )


def test_a_missing_package_names_the_whole_path_of_the_requirements(folder):
    (folder / "sqlalchemy.py").write_text("raise ImportError('not here')\n")
    found = said(folder, "hosts", environment={"PYTHONPATH": str(folder)})
    assert "The Python package SQLAlchemy is missing on this controller." in found
    path = re.search(r"-m pip install -r (\S+)", found)[1]
    assert pathlib.Path(path).is_absolute() and pathlib.Path(path).samefile(
        ROOT / "requirements.txt"
    )


def test_the_inventory_without_a_store(tmp_path):
    (tmp_path / "fleet.drover.yml").write_text("plugin: drover.compute.fleet\n")
    dummy, output = ansible(tmp_path, "inventory", "-i", "fleet.drover.yml", "--list")
    assert f"There is no store at sqlite:///{tmp_path}/.ansible/drover/store.db yet." in " ".join(
        output.split()
    ), output
    assert "Traceback" not in output


def test_an_unknown_option_of_the_inventory(folder):
    (folder / "fleet.drover.yml").write_text("plugin: drover.compute.fleet\ninstancs: true\n")
    dummy, output = ansible(folder, "inventory", "-i", "fleet.drover.yml", "--list")
    assert "unknown key instancs (did you mean instances?)" in " ".join(output.split()), output


@pytest.mark.parametrize(
    "module, variables, options, words",
    [
        (
            "drain",
            {"drover_unmovable": "maybe"},
            {"unmovable": "maybe"},
            "value of drover_unmovable must be one of: fail, skip, shutdown",
        ),
        (
            "drain",
            {"drover_drain_rounds": "few"},
            {"rounds": "few"},
            "argument 'drover_drain_rounds' must be a whole number",
        ),
        (
            "host_info",
            {"drover_service_down_time": "soon"},
            {},
            "argument 'drover_service_down_time' must be a whole number",
        ),
        # The value is in the task itself: another value, or one without a variable.
        (
            "drain",
            {"drover_unmovable": "skip"},
            {"unmovable": "maybe"},
            "value of unmovable must be one of",
        ),
        ("drain", {}, {"unmovable": "maybe"}, "value of unmovable must be one of"),
    ],
)
def test_a_wrong_value_is_that_of_the_variable_that_was_typed(module, variables, options, words):
    assert words in failure(module, variables, host="kvm1", **options)
