# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Labels that a task sets, and instances and hosts selected by them, on hypervisors in this process
and by the playbooks."""

from __future__ import annotations

import json

import pytest
import sqlalchemy as sa

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.action.running import failure, playbook, run
from ansible_collections.drover.compute.tests.unit.action.test_instance import (
    acts,
    at,
    move,
    states,
)
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host, uuid_of


def label(url, labels, **given):
    return run("instance_labels", store_url=url, labels=labels, **given)


def refused(module, url, **given):
    return failure(module, None, store_url=url, **given)


def shown(url, **given):
    return {
        each["name"]: each["labels"]
        for each in run("instance_info", store_url=url, **given)["instances"]
    }


@pytest.fixture
def labelled(fleet_url, there):
    label(fleet_url, {"project": "shop", "tier": "front"}, name="web")
    label(fleet_url, {"project": "shop", "tier": "db"}, name="db")
    there.calls.clear()
    return fleet_url


def test_labels_are_changed_on_the_host_and_in_the_store(fleet_url, there):
    before = fleets.snapshot(fleet_url)
    arguments = {
        "labels": {"project": "web", "tier": "db"},
        "instances": ["web", "db"],
        "store_url": fleet_url,
    }
    dry_run = run("instance_labels", check=True, **arguments)
    assert dry_run["changed"] is True and fleets.snapshot(fleet_url) == before and acts(there) == []
    done = run("instance_labels", **arguments)
    assert done["changed"] is True and acts(there) == [("kvm1", "_domain_settings", None)], (
        "one call for all of a host"
    )
    assert (
        [each["labels"] for each in dry_run["instances"]]
        == [each["labels"] for each in done["instances"]]
        == [{"project": "web", "tier": "db"}] * 2
    )
    assert at(there, "kvm1")["metadata"] == {"labels": "project=web,tier=db"}
    assert shown(fleet_url) == {name: {"project": "web", "tier": "db"} for name in ("web", "db")}
    assert run("instance_labels", **arguments)["changed"] is False
    # A dead host's instances are started from the store's data about them.
    with Store.open(fleet_url).read() as connection:
        row = connection.execute(
            sa.select(tables.domains).where(tables.domains.c.uuid == uuid_of("web"))
        ).one()
    assert "project=web,tier=db" in row.xml and row.facts["metadata"] == {
        "labels": "project=web,tier=db"
    }
    assert label(fleet_url, {"tier": None}, name="web")["changed"] is True
    assert shown(fleet_url)["web"] == {"project": "web"}


def test_the_host_counts_not_the_store(fleet_url, there):
    """A person has labelled the domain since the last discovery: that label stays, and the store
    records it."""
    guest = there.hosts["kvm1"].domains()[uuid_of("web")]
    flags = libvirt.VIR_DOMAIN_AFFECT_LIVE | libvirt.VIR_DOMAIN_AFFECT_CONFIG
    element = "<instance><labels>by=hand</labels></instance>"
    guest.setMetadata(
        libvirt.VIR_DOMAIN_METADATA_ELEMENT,
        element,
        "drover",
        "https://drover.compute/instance/1",
        flags,
    )
    label(fleet_url, {"project": "web"}, name="web")
    assert shown(fleet_url)["web"] == {"by": "hand", "project": "web"}


def test_an_operation_records_the_labels_that_the_host_shows(fleet_url, there):
    test_the_host_counts_not_the_store(fleet_url, there)
    with Store.open(fleet_url).write() as connection:
        connection.execute(sa.update(tables.instances).values(labels=None))
    run("instance", store_url=fleet_url, name="web", state="stopped")
    assert shown(fleet_url)["web"] == {"by": "hand", "project": "web"}


def test_a_new_store_finds_them_again(labelled, there, tmp_path):
    other = f"sqlite:///{tmp_path / 'other.db'}"
    facts = there.hand("kvm1").read("hypervisor_info", {})["hypervisor"]
    run("compute_node", store_url=other, nodes=[{"host": "kvm1", "hypervisor": facts}])
    assert (
        shown(other)
        == shown(labelled)
        == {
            "web": {"project": "shop", "tier": "front"},
            "db": {"project": "shop", "tier": "db"},
        }
    )


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({}, "Which labels?"),
        ({"a b": "c"}, "cannot be the key of a label"),
        (
            {"rack": 7},
            (
                "the label rack cannot be 7. A value is a text of 1 to 63 letters, digits and - _ ."
                " /, with a letter or digit at both ends. Put"
            ),
        ),
        ({"a": "b,c=d"}, "the label a cannot be 'b,c=d'"),
    ],
)
def test_bad_labels_reach_no_host(fleet_url, there, labels, said):
    assert said in refused("instance_labels", fleet_url, labels=labels, name="web")
    assert there.calls == []


def test_an_instance_that_moves_is_not_labelled(fleet_url, there):
    with Store.open(fleet_url).write() as connection:
        values = {
            "uuid": uuid_of("m"),
            "instance_uuid": uuid_of("web"),
            "instance_name": "web",
            "source": "kvm1",
            "destination": "kvm2",
        }
        times = {"created_at": 1.0, "updated_at": 1.0}
        connection.execute(
            sa.insert(tables.migrations).values(
                **values, type="live-migration", status="running", **times
            )
        )
    message = refused("instance_labels", fleet_url, labels={"a": "b"}, name="web")
    assert (
        "Instance web has an open live-migration from kvm1 to kvm2. Its labels are not changed"
        in message
        and acts(there) == []
    )
    with Store.open(fleet_url).write() as connection:
        connection.execute(sa.update(tables.migrations).values(type="resize", status="finished"))
    assert "waits to be confirmed. Its labels are not changed" in refused(
        "instance_labels", fleet_url, labels={"a": "b"}, name="web"
    )


def test_one_host_that_fails_stops_no_other(fleet_url, there):
    move(there, "db", "kvm1", "kvm2")
    fleets.discover(
        fleet_url,
        host("kvm1", domain("web", disk_gb=1)),
        host("kvm2", domain("db", disk_gb=1, state="shutoff")),
    )
    there.hosts["kvm1"].reached = False
    said = refused("instance_labels", fleet_url, labels={"a": "b"}, instances=["web", "db"])
    assert "kvm1" in said and shown(fleet_url) == {"web": {}, "db": {"a": "b"}}


def test_instances_are_chosen_by_their_labels(labelled, there):
    assert shown(labelled, selector="tier=db") == {"db": {"project": "shop", "tier": "db"}}
    assert set(shown(labelled, selector="project=shop")) == {"web", "db"}
    assert (
        run("instance", store_url=labelled, selector="project=shop,tier!=db", state="stopped")[
            "changed"
        ]
        is True
    )
    assert states(labelled) == {"web": "shutoff", "db": "running"}
    assert label(labelled, {"project": None}, selector="tier=db")["changed"] is True
    assert shown(labelled, selector="!project") == {"db": {"tier": "db"}}


def test_they_move_and_are_resized(labelled, there):
    done = run("instance_migrate", store_url=labelled, selector="tier=front", host="kvm2")
    assert [each["name"] for each in done["migrations"]] == ["web"]
    assert there.where() == {"web": [("kvm2", "running")], "db": [("kvm1", "running")]}
    assert at(there, "kvm2")["metadata"] == {"labels": "project=shop,tier=front"}
    done = run(
        "instance_resize",
        store_url=labelled,
        selector="tier=db",
        flavor="big",
        ending="confirm",
        timeout=1,
    )
    assert [each["name"] for each in done["resizes"]] == ["db"] and at(there, "kvm1", "db")[
        "vcpus"
    ] == 2


EVERYWHERE = [
    ("instance", {"state": "stopped"}),
    ("instance", {"state": "absent"}),
    ("instance_labels", {"labels": {"a": "b"}}),
    ("instance_migrate", {}),
    ("instance_resize", {"flavor": "big"}),
    ("_migration", {"state": "aborted"}),
]


@pytest.mark.parametrize(("module", "given"), EVERYWHERE)
def test_a_wrong_selector_changes_nothing(labelled, there, module, given):
    before = fleets.snapshot(labelled)
    assert "cannot be read at 'a==b'" in refused(module, labelled, selector="a==b", **given)
    assert "is empty or no text" in refused(module, labelled, selector="", **given)
    assert "The selector project=shpo selects no instance. Nothing was done." in refused(
        module, labelled, selector="project=shpo", **given
    )
    assert "No instance has a label teir (did you mean tier?)" in refused(
        module, labelled, selector="project=shop,!teir", **given
    )
    both = refused(module, labelled, selector="project=shop", instances=["web"], **given)
    assert (
        "Give instances or a selector, not both: instances (drover_instances) is ['web']" in both
        and "Nothing was done." in both
    )
    assert acts(there) == [] and fleets.snapshot(labelled) == before


def test_a_selector_is_no_further_name(labelled):
    assert "Give name or a selector, not both" in refused(
        "instance", labelled, selector="tier=db", name="web"
    )
    assert "Give name or a selector, not both" in refused(
        "instance_info", labelled, selector="tier=db", name="web"
    )
    assert "Give host or a selector, not both" in refused(
        "host_info", labelled, selector="rack=7", host="kvm1"
    )


def test_law_nothing_is_removed_by_a_selector(labelled, there):
    """The refusal names the instances of the selector, and a person must name the ones to
    remove.
    """
    before = fleets.snapshot(labelled)
    dry_run = run(
        "instance",
        store_url=labelled,
        selector="tier=db",
        state="absent",
        check=True,
        force=True,
        timeout=0,
    )
    assert [(each["name"], bool(each["removed_disks"])) for each in dry_run["instances"]] == [
        ("db", True)
    ]
    message = refused("instance", labelled, selector="project=shop", state="absent", force=True)
    assert (
        "Nothing was removed: a selector may select more than you have in mind. project=shop"
        " selects db, web." in message
    )
    assert "-e drover_instances=db,web" in message
    assert acts(there) == [] and fleets.snapshot(labelled) == before
    assert set(there.where()) == {"web", "db"}


def test_those_of_one_name_or_an_odd_name_are_told_by_their_uuids(prepared_url):
    metadata = {"labels": "old=1"}
    twins = [{**domain("a", metadata=metadata), "uuid": uuid_of(each)} for each in ("one", "two")]
    fleets.discover(
        prepared_url,
        host("kvm1", *twins, domain("b, c", metadata=metadata), domain("-x", metadata=metadata)),
    )
    said = refused("instance", prepared_url, selector="old", state="absent")
    words = said.partition("drover_instances=")[2].partition(",or ")[0].partition(", or")[0]
    assert sorted(words.split(",")) == sorted(
        uuid_of(each) for each in ("one", "two", "b, c", "-x")
    )


def test_a_domain_that_was_renamed_is_not_touched(labelled, there):
    """The name belongs to another instance than the one that was shown."""
    with Store.open(labelled).write() as connection:
        connection.execute(
            sa.update(tables.instances).where(tables.instances.c.name == "db").values(name="other")
        )
    assert (
        "is named 'db'" in refused("instance", labelled, selector="tier=db", state="stopped")
        and states(labelled)["other"] == "running"
    )


def test_lists_that_are_empty_say_why(labelled):
    answer = run("instance_info", store_url=labelled, selector="tire=db")
    assert answer["table"] == [
        "The selector tire=db selects no instance. No instance has a label tire (did you mean"
        " tier?)."
    ]
    assert run("instance_info", store_url=labelled, selector="tier=db", host="kvm3")["table"] == [
        "No instances."
    ]
    answer = run("host_info", store_url=labelled, selector="rack=7")
    assert (
        answer["table"] == ["The selector rack=7 selects no host. No host has a label rack."]
        and answer["hosts"] == []
    )


def test_hosts_have_labels(prepared_url):
    arguments = {"store_url": prepared_url, "nodes": [{"host": "kvm2", "vcpus": 4}]}
    run("compute_node", {"drover_labels": {"rack": "7"}}, **arguments)
    for capacity in (True, False):
        assert [
            each["labels"]
            for each in run("host_info", store_url=prepared_url, capacity=capacity)["hosts"]
        ] == [{"rack": "7"}]
    assert run("host_info", store_url=prepared_url, selector="rack=7")["hosts"][0]["host"] == "kvm2"
    assert any("rack=7" in line for line in run("host_info", store_url=prepared_url)["table"])
    assert run("compute_node", **arguments)["changed"] is True
    assert run("host_info", store_url=prepared_url)["hosts"][0]["labels"] == {}
    message = failure("compute_node", {"drover_labels": {"rack": 7}}, **arguments)
    assert (
        "Host kvm2 (drover_labels): the label rack cannot be 7" in message
        and "Put it into quotes." in message
    )


@pytest.fixture
def stored(tmp_path):
    """Return a store for playbooks: other tests above cover the differences between databases."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    web, db = ({"labels": f"project=shop,tier={tier}"} for tier in ("front", "db"))
    fleets.discover(
        url,
        host(
            "kvm1",
            domain("web", metadata=web),
            domain("db", metadata=db),
            domain("bare"),
            labels={"rack": "7"},
        ),
        host("kvm2", labels={"rack": "8"}),
    )
    return url


def test_playbooks_that_show(stored, tmp_path):
    status, output = playbook(
        "instances", stored, "-e", "drover_selector=project=shop,tier!=db", folder=tmp_path
    )
    assert (
        status == 0
        and "web " in output
        and "db " not in output.replace("tier!=db", "")
        and "bare" not in output
    )
    status, output = playbook("instances", stored, "-e", "drover_selector=tire", folder=tmp_path)
    assert (
        status == 0
        and "The selector tire selects no instance. No instance has a label tire (did you mean tier?)."
        in output
    )
    status, output = playbook(
        "instance_show", stored, "-e", "drover_selector=tier=db", folder=tmp_path
    )
    assert status == 0 and "project=shop, tier=db" in output and "web (" not in output
    status, output = playbook(
        "instance_show", stored, "-e", "drover_selector=tire", folder=tmp_path
    )
    assert status == 0 and "The selector tire selects no instance." in output
    status, output = playbook("hosts", stored, "-e", "drover_selector=rack=8", folder=tmp_path)
    assert status == 0 and "kvm2" in output and "kvm1" not in output
    status, output = playbook("hosts", stored, "-e", "drover_selector=rack=9", folder=tmp_path)
    assert status == 0 and "The selector rack=9 selects no host." in output


def fails(name, url, folder, *words):
    before = fleets.snapshot(url)
    status, said = playbook(name, url, *words, folder=folder)
    assert status == 2 and fleets.snapshot(url) == before, said
    return " ".join(said.split())


@pytest.mark.parametrize("name", ["start", "stop", "reboot", "delete", "migrate", "resize"])
def test_playbooks_that_change_take_a_selector(stored, tmp_path, name):
    assert "The selector project=shpo selects no instance. Nothing was done." in fails(
        f"instance_{name}", stored, tmp_path, "-e", "drover_selector=project=shpo"
    )


def test_a_playbook_with_names_and_a_selector_or_neither(stored, tmp_path):
    assert "Give instances or a selector, not both" in fails(
        "instance_stop", stored, tmp_path, "-e", "drover_selector=tier", "-e", "drover_instance=web"
    )
    assert "Which instances?" in fails(
        "instance_stop", stored, tmp_path, "-e", "drover_selector=", "-e", "drover_instances="
    )


def test_the_playbook_that_deletes_names_what_is_selected(stored, tmp_path):
    status, output = playbook(
        "instance_delete", stored, "-e", "drover_selector=project=shop", folder=tmp_path
    )
    output = " ".join(output.split())
    assert status == 2 and "The selector project=shop selects 2: db, web" in output
    assert "Nothing was removed" in output and "-e drover_instances=db,web" in output
    with Store.open(stored).read() as connection:
        assert (
            connection.execute(
                sa.select(sa.func.count()).select_from(tables.instances)
            ).scalar_one()
            == 3
        )


def test_the_playbook_that_aborts_never_aborts_all_for_a_selector(stored, tmp_path):
    """Without names it aborts all moves off the host."""
    (tmp_path / "hosts.json").write_text(
        json.dumps({"hypervisors": {"hosts": {"kvm1": {"ansible_connection": "local"}}}})
    )
    words = ("-i", "hosts.json", "-e", "drover_host=kvm1")
    status, output = playbook(
        "migration_abort", stored, *words, "-e", "drover_selector=project=shpo", folder=tmp_path
    )
    assert (
        status == 2
        and "The selector project=shpo selects no instance. Nothing was done."
        in " ".join(output.split())
    )
    status, output = playbook(
        "migration_abort",
        stored,
        *words,
        "-e",
        "drover_selector=tier=db",
        "-e",
        "drover_instance=web",
        folder=tmp_path,
    )
    assert status == 2 and "Give instances or a selector, not both" in " ".join(output.split())
    status, output = playbook(
        "migration_abort", stored, *words, "-e", "drover_selector=tier=db", folder=tmp_path
    )
    assert status == 0 and "No move off kvm1 is under way of: db." in " ".join(output.split())
