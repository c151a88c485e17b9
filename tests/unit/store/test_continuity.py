# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A new store, or a store from a backup, places nothing new before every host was read."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import time

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import (
    continuity,
    power,
    services,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import evacuations
from ansible_collections.drover.compute.tests.unit import postgres as server
from ansible_collections.drover.compute.tests.unit.action.running import run
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import host, selection


def place(url, name, **more):
    """Claim room for a definition, as role place does."""
    return run(
        "allocation",
        selections=[selection(name, "kvm1")],
        of_definitions=True,
        store_url=url,
        **more,
    )


def refused(url, name, **more):
    """Return the sentence of the refusal."""
    with pytest.raises(AnsibleActionFail) as caught:
        place(url, name, **more)
    return str(caught.value)


def read(url, *names):
    fleets.discover(url, *(host(name) for name in names), now=time.time())


def known(url, name):
    """Record a host that was never read."""
    with Store.open(url).write() as connection:
        services.record_unreachable(connection, name, "it cannot be reached", time.time())


def switched_off(url, name):
    """Record that a fence has switched a host off."""
    with Store.open(url).write() as connection:
        event = power.begin(connection, name, "fence", "ipmi", None, time.time())
        power.finish(connection, event["uuid"], "completed", "off", None, None, time.time())


def test_a_new_store_that_has_read_all(prepared_url):
    read(prepared_url, "kvm1", "kvm2")
    assert place(prepared_url, "web")["changed"] is True


def test_a_new_store_that_has_not_read_one(prepared_url):
    read(prepared_url, "kvm1")
    known(prepared_url, "kvm2")
    said = refused(prepared_url, "web")
    assert said.startswith("kvm2 was not read since the store was made")
    assert "drover_place_force=unread_hosts" in said
    assert place(prepared_url, "web", force=["unread_hosts"])["changed"] is True
    # An instance with a claim is known, for any readings of hosts.
    assert place(prepared_url, "web")["changed"] is False
    read(prepared_url, "kvm2")
    assert place(prepared_url, "db")["changed"] is True


def test_a_host_that_is_gone_for_good(prepared_url):
    """The refusal names the command that removes the host from the store, and that command
    helps.
    """
    read(prepared_url, "kvm1")
    known(prepared_url, "kvm2")
    said = refused(prepared_url, "web")
    assert "ansible-playbook drover.compute.host_remove -e drover_host=kvm2" in said
    run("host", store_url=prepared_url, host="kvm2", state="absent")
    assert place(prepared_url, "web")["changed"] is True


def test_a_host_of_the_inventory_that_a_new_store_has_never_had(prepared_url):
    """The host was never read: it may run the very instance that is placed."""
    inventory = {"inventory_hosts": ["kvm1", "kvm2"]}
    read(prepared_url, "kvm1")
    assert refused(prepared_url, "web", **inventory).startswith(
        "kvm2 was not read since the store was made"
    )
    read(prepared_url, "kvm2")
    assert place(prepared_url, "web", **inventory)["changed"] is True
    # A host that comes later is a new one.
    assert place(prepared_url, "db", inventory_hosts=["kvm1", "kvm2", "kvm3"])["changed"] is True


def test_a_host_of_the_inventory_that_a_backup_does_not_have(prepared_url):
    read(prepared_url, "kvm1")
    with Store.open(prepared_url).write() as connection:
        continuity.come_back(connection)
    with Store.open(prepared_url).read() as connection:
        continuity.witness(connection)
    read(prepared_url, "kvm1")
    assert refused(prepared_url, "web", inventory_hosts=["kvm1", "kvm2"]).startswith(
        "kvm2 was not read since the store was made or brought back"
    )
    read(prepared_url, "kvm2")
    for name in ("web", "db"):
        assert place(prepared_url, name, inventory_hosts=["kvm1", "kvm2"])["changed"] is True
    assert place(prepared_url, "app", inventory_hosts=["kvm1", "kvm2", "kvm3"])["changed"] is True


def test_a_rule_that_does_not_exist_is_not_lifted(prepared_url):
    known(prepared_url, "kvm2")
    sentence = refused(prepared_url, "web", force=["unread_host"])
    assert (
        sentence
        == "There is no rule named unread_host to lift; the rules are unread_hosts. Nothing was"
        " changed."
    )


def test_nothing_to_place_is_nothing_to_refuse(prepared_url):
    known(prepared_url, "kvm2")
    assert run("allocation", selections=[], of_definitions=True, store_url=prepared_url) == {
        "changed": False,
        "claims": [],
    }


def test_many_definitions_at_once(prepared_url):
    read(prepared_url, "kvm1")
    chosen = [selection(f"web{number}", "kvm1") for number in range(3)]
    for changed in (True, False):
        assert (
            run("allocation", selections=chosen, of_definitions=True, store_url=prepared_url)[
                "changed"
            ]
            is changed
        )


def test_other_claims_are_nobodys_concern(prepared_url):
    """A caller that claims room without definitions is responsible for its claims."""
    read(prepared_url, "kvm1")
    known(prepared_url, "kvm2")
    assert (
        run("allocation", selections=[selection("web", "kvm1")], store_url=prepared_url)["changed"]
        is True
    )


def test_a_host_that_was_switched_off_is_known_to_run_nothing(prepared_url):
    read(prepared_url, "kvm1")
    known(prepared_url, "kvm2")
    with Store.open(prepared_url).write() as connection:
        # A person may set this for a host that runs.
        services.change(connection, services.get(connection, "kvm2"), {"forced_down": True})
    with pytest.raises(AnsibleActionFail, match="kvm2 was not read"):
        place(prepared_url, "web")
    switched_off(prepared_url, "kvm2")
    assert place(prepared_url, "web")["changed"] is True


@pytest.fixture
def file(tmp_path, prepared_sqlite):
    """Return a store of SQLite that has read its hosts."""
    path = tmp_path / "store.db"
    shutil.copyfile(prepared_sqlite, path)
    read(f"sqlite:///{path}", "kvm1", "kvm2")
    return path


def bring_back(backup, path):
    for ending in ("-wal", "-shm"):
        if os.path.exists(f"{path}{ending}"):
            os.unlink(f"{path}{ending}")
    shutil.copyfile(backup, path)


def backup(path, name="backup.db"):
    target = path.parent / name
    # Python 3.13 closes no connection without references, and an open one has a log that is lost
    # when the file is replaced.
    with (
        contextlib.closing(sqlite3.connect(path)) as source,
        contextlib.closing(sqlite3.connect(target)) as copy,
    ):
        source.backup(copy)
    return target


def test_a_file_that_came_back(file):
    url, old = f"sqlite:///{file}", backup(file)
    place(url, "web")
    bring_back(old, file)
    said = refused(url, "db")
    assert "kvm1, kvm2 were not read since the store was made or brought back from a backup" in said
    # A second claim gets the refusal too.
    assert "brought back" in refused(url, "db")
    read(url, "kvm1")
    assert "kvm2 was not read since" in refused(url, "db")
    read(url, "kvm2")
    assert place(url, "db")["changed"] is True
    assert place(url, "other")["changed"] is True


def test_a_file_that_came_back_twice(file):
    url, old = f"sqlite:///{file}", backup(file)
    place(url, "web")
    bring_back(old, file)
    refused(url, "db")
    bring_back(old, file)
    assert "brought back" in refused(url, "db")


def test_a_file_that_was_moved_without_its_witness(file, tmp_path):
    """It is not known which changes the file misses."""
    place(f"sqlite:///{file}", "web")
    moved = tmp_path / "moved.db"
    shutil.copyfile(backup(file), moved)
    assert "brought back" in refused(f"sqlite:///{moved}", "db")


def test_a_new_file_where_another_one_was(file):
    url = f"sqlite:///{file}"
    place(url, "web")
    for ending in ("", "-wal", "-shm"):
        if os.path.exists(f"{file}{ending}"):
            os.unlink(f"{file}{ending}")
    read(url, "kvm1", "kvm2")
    assert place(url, "db")["changed"] is True


def test_a_file_that_is_as_it_was(file):
    url = f"sqlite:///{file}"
    place(url, "web")
    copy = backup(file)
    bring_back(copy, file)
    assert place(url, "db")["changed"] is True


def test_a_witness_that_cannot_be_written_is_none(file, monkeypatch):
    url = f"sqlite:///{file}"
    place(url, "web")
    old = backup(file)
    replace = os.replace

    def full(source, target):
        if str(target).endswith(continuity.WITNESS):
            raise OSError(28, "No space left on device")
        return replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    place(url, "db")
    monkeypatch.undo()
    bring_back(old, file)
    assert "brought back" in refused(url, "other")


def test_check_mode_leaves_no_witness(file):
    place(f"sqlite:///{file}", "web", check=True)
    assert not os.path.exists(f"{file}{continuity.WITNESS}")


def test_a_store_that_was_filled_from_a_file(prepared_url, tmp_path):
    read(prepared_url, "kvm1", "kvm2")
    place(prepared_url, "web")
    run("store", state="exported", path=str(tmp_path / "export.json"), store_url=prepared_url)
    fleets.empty(prepared_url)
    run("store", state="imported", path=str(tmp_path / "export.json"), store_url=prepared_url)
    assert "brought back" in refused(prepared_url, "db")
    read(prepared_url, "kvm1", "kvm2")
    assert place(prepared_url, "db")["changed"] is True


def test_a_dump_that_was_loaded(postgres):
    """The copy is made as pg_dump and psql make it."""
    with postgres.database() as url, postgres.database() as other:
        Store.open(url).upgrade()
        read(url, "kvm1", "kvm2")
        place(url, "web")
        assert place(url, "cache")["changed"] is True
        postgres.copy(url, other)
        said = refused(other, "db")
        assert "kvm1, kvm2 were not read since the store was made or brought back" in said
        read(other, "kvm1", "kvm2")
        assert place(other, "db")["changed"] is True
        # The first database has all its changes.
        assert place(url, "db")["changed"] is True


@pytest.fixture
def standby(postgres):
    """Return (URL of a store, its Standby, URL of the standby's store)."""
    with postgres.database() as url:
        Store.open(url).upgrade()
        follower = server.Standby(postgres)
        try:
            yield url, follower, follower.url(url.rpartition("/")[2])
        finally:
            follower.stop()


@pytest.mark.parametrize("before", [["cache"], []])
def test_a_standby_that_was_promoted_without_the_last_commits(standby, before):
    """It is noticed at once: the checkpoint of the new primary comes minutes later."""
    url, follower, other = standby
    read(url, "kvm1", "kvm2")
    for name in before:
        place(url, name)
    follower.catch_up()
    follower.cut()
    place(url, "web")
    follower.promote()
    said = refused(other, "web")
    assert "kvm1, kvm2 were not read since the store was made or brought back" in said
    read(other, "kvm1", "kvm2")
    assert place(other, "web")["changed"] is True
    # The checkpoint is no other promotion.
    with follower.admin() as admin:
        admin.execute("CHECKPOINT")
    assert place(other, "db")["changed"] is True


def unread(url, inventory=(), unknown=continuity.FILES, later=False):
    """Return the refusal of an operation that is not a claim; "" if it is not refused."""
    with Store.open(url).read() as connection:
        try:
            continuity.refuse_unread(connection, "Web stays", inventory, unknown, later=later)
        except DroverError as problem:
            return str(problem)
    return ""


def test_files_and_starts_wait_for_hosts_that_a_new_store_has_never_had(prepared_url):
    """A discovery with --limit has recorded kvm1 alone."""
    inventory = ["kvm1", "kvm2"]
    read(prepared_url, "kvm1")
    message = unread(prepared_url, inventory)
    assert (
        message.startswith("Web stays: kvm2 was not read since the store was made")
        and "host_remove -e drover_host=kvm2" in message
    )
    assert "whether it runs there is not known" in unread(
        prepared_url, inventory, continuity.RUNNING
    )
    read(prepared_url, "kvm2")
    assert (
        unread(prepared_url, inventory) == "" == unread(prepared_url, inventory, continuity.RUNNING)
    )
    # A host that comes later is a new one. It may have its own guests, and these need files; files
    # of other hosts are not on it.
    place(prepared_url, "web", inventory_hosts=inventory)
    assert unread(prepared_url, [*inventory, "kvm3"]) == ""
    known(prepared_url, "kvm3")
    assert (
        unread(prepared_url, inventory) == "" == unread(prepared_url, inventory, continuity.RUNNING)
    )
    assert "kvm3 was not read" in unread(prepared_url, inventory, later=True)


def test_a_rule_that_was_lifted_for_one_claim_holds_on(prepared_url):
    """The claim did not make the store complete: kvm2 may run the next instance, and may need the
    files that are removed."""
    inventory = ["kvm1", "kvm2"]
    read(prepared_url, "kvm1")
    assert (
        place(prepared_url, "web", inventory_hosts=inventory, force=["unread_hosts"])["changed"]
        is True
    )
    for unknown in (continuity.FILES, continuity.RUNNING):
        assert "kvm2 was not read" in unread(prepared_url, inventory, unknown)
    assert refused(prepared_url, "db", inventory_hosts=inventory).startswith(
        "kvm2 was not read since the store was made"
    )
    read(prepared_url, "kvm2")
    assert unread(prepared_url, inventory) == ""
    assert place(prepared_url, "db", inventory_hosts=inventory)["changed"] is True
    # In a complete store, the rule is lifted for a new host only.
    known(prepared_url, "kvm3")
    assert (
        place(prepared_url, "app", inventory_hosts=[*inventory, "kvm3"], force=["unread_hosts"])[
            "changed"
        ]
        is True
    )
    assert unread(prepared_url, [*inventory, "kvm3"]) == ""


@pytest.mark.parametrize("check", [False, True])
def test_a_discovery_of_all_hosts_makes_later_hosts_new_ones(file, check):
    """A fleet without definitions has no claim: there, too, a new host in the inventory stops no
    start of another host's instances."""
    url, inventory = f"sqlite:///{file}", ["kvm1", "kvm2"]
    assert "kvm3 was not read" in unread(url, [*inventory, "kvm3"])
    run("_history", inventory_hosts=[*inventory, "kvm3"], store_url=url)
    assert "kvm3 was not read" in unread(url, [*inventory, "kvm3"])
    old = backup(file)
    run("_history", inventory_hosts=inventory, store_url=url, check=check)
    assert bool(unread(url, [*inventory, "kvm3"])) is check
    run("_history", inventory_hosts=inventory, store_url=url)
    # From now on an older store is noticed.
    bring_back(old, file)
    assert "kvm1, kvm2 were not read" in unread(url, inventory)


def test_a_host_that_is_off_is_read_before_its_files_are_no_concern(prepared_url):
    """A claim does not wait for the host, and does not make the store complete."""
    read(prepared_url, "kvm1")
    known(prepared_url, "kvm2")
    switched_off(prepared_url, "kvm2")
    assert place(prepared_url, "web", inventory_hosts=["kvm1", "kvm2"])["changed"] is True
    run("_history", inventory_hosts=["kvm1", "kvm2"], store_url=prepared_url)
    assert "kvm2 was not read" in unread(prepared_url, ["kvm1", "kvm2"])
    assert unread(prepared_url, ["kvm1", "kvm2"], continuity.RUNNING) == ""


def test_a_host_that_is_off_runs_nothing_and_needs_its_files(prepared_url):
    read(prepared_url, "kvm1")
    known(prepared_url, "kvm2")
    switched_off(prepared_url, "kvm2")
    assert unread(prepared_url, unknown=continuity.RUNNING) == ""
    assert "kvm2 was not read" in unread(prepared_url)


def discovered(url, *names, **more):
    """Record hosts with the action of a discovery, now."""
    for name in names:
        run("compute_node", nodes=[host(name)], store_url=url, **more)


@pytest.mark.parametrize("check", [False, True])
def test_a_discovery_notices_that_the_store_was_brought_back(prepared_url, tmp_path, check):
    """Later readings then count, and an unread host is named, without any claim."""
    discovered(prepared_url, "kvm1", "kvm2")
    place(prepared_url, "web")
    run("store", state="exported", path=str(tmp_path / "export.json"), store_url=prepared_url)
    fleets.empty(prepared_url)
    run("store", state="imported", path=str(tmp_path / "export.json"), store_url=prepared_url)
    for unknown in (continuity.FILES, continuity.RUNNING):
        assert unread(prepared_url, unknown=unknown).startswith(
            "Web stays: kvm1, kvm2 were not read since the store was made or brought back"
        )
    discovered(prepared_url, "kvm1", check=check)
    unread_hosts = "kvm1, kvm2 were" if check else "kvm2 was"
    for unknown in (continuity.FILES, continuity.RUNNING):
        assert unread(prepared_url, unknown=unknown).startswith(
            f"Web stays: {unread_hosts} not read since the store was made or brought back"
        )
    discovered(prepared_url, "kvm1", "kvm2")
    assert unread(prepared_url) == unread(prepared_url, unknown=continuity.RUNNING) == ""
    assert place(prepared_url, "db")["changed"] is True


def test_a_discovery_notices_a_file_that_came_back(file):
    url = f"sqlite:///{file}"
    place(url, "web")
    old = backup(file)
    place(url, "db")
    bring_back(old, file)
    discovered(url, "kvm1")
    assert unread(url).startswith("Web stays: kvm2 was not read since")
    assert "kvm2 was not read since the store was made or brought back from a backup" in refused(
        url, "db"
    )
    discovered(url, "kvm2")
    assert unread(url) == "" and place(url, "db")["changed"] is True


def test_a_host_that_was_off_in_a_backup_may_be_on(prepared_url):
    """The host may now run an instance that the store has as off, or does not know."""
    read(prepared_url, "kvm1", "kvm2")
    switched_off(prepared_url, "kvm2")
    assert unread(prepared_url, unknown=continuity.RUNNING) == ""
    with Store.open(prepared_url).write() as connection:
        continuity.come_back(connection)
        continuity.witness(connection)
    discovered(prepared_url, "kvm1")
    assert unread(prepared_url, unknown=continuity.RUNNING).startswith(
        "Web stays: kvm2 was not read since"
    )
    assert "kvm2 was not read since" in refused(prepared_url, "web")
    with Store.open(prepared_url).write() as connection:
        assert set(evacuations.unread_nodes(connection, "kvm3", ["kvm1"]).values()) == {"kvm2"}
        event = power.begin(connection, "kvm2", "fence", "ipmi", None, time.time())
        power.finish(connection, event["uuid"], "completed", "off", None, None, time.time())
        assert evacuations.unread_nodes(connection, "kvm3", ["kvm1"]) == {}
    assert unread(prepared_url, unknown=continuity.RUNNING) == ""
    assert place(prepared_url, "web")["changed"] is True


def told(url, **instances):
    """Look at hosts with so many instances; return the kinds of facts that the store does not
    know.
    """
    with Store.open(url).write() as connection:
        continuity.notice(connection, time.time())
        return continuity.forgotten(connection, instances)


def test_a_new_store_says_that_it_may_have_forgotten_what_was_disabled(prepared_url):
    assert told(prepared_url, kvm1=0) == []
    assert told(prepared_url, kvm1=0, kvm2=1) == [continuity.MADE]
    # A host that was down has not been read.
    known(prepared_url, "kvm2")
    assert told(prepared_url, kvm2=1) == [continuity.MADE]
    read(prepared_url, "kvm1", "kvm2")
    assert told(prepared_url, kvm2=1) == []
    place(prepared_url, "web")
    # A new host of a store in use.
    assert told(prepared_url, kvm3=1) == []


def test_a_store_that_came_back_says_so_until_all_are_read(prepared_url):
    read(prepared_url, "kvm1", "kvm2")
    place(prepared_url, "web")
    with Store.open(prepared_url).write() as connection:
        continuity.come_back(connection)
        continuity.witness(connection)
    assert told(prepared_url, kvm1=0) == [continuity.BROUGHT_BACK]
    read(prepared_url, "kvm1")
    assert told(prepared_url, kvm1=0) == []
    assert told(prepared_url, kvm2=0) == [continuity.BROUGHT_BACK]


def test_an_instance_that_is_unknown_is_not_called_gone_before_all_are_read(prepared_url):
    """The instance may be on the host that was not read, and its definition would be marked as
    absent."""
    arguments = {"instances": ["web"], "state": "absent", "store_url": prepared_url}
    read(prepared_url, "kvm1")
    known(prepared_url, "kvm2")
    with pytest.raises(
        AnsibleActionFail,
        match=(
            "Not in the store: web. Nothing was removed: kvm2 was not read since the store was made"
        ),
    ) as caught:
        run("instance", **arguments)
    result = getattr(caught.value, "_result", None) or caught.value.result
    assert result["gone"] == []
    read(prepared_url, "kvm2")
    assert run("instance", **arguments)["gone"] == ["web"]
