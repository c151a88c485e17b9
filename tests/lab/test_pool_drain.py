# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drains of storage pools, on real hypervisors: kvm1 has the pool fast beside default and the
shared pool of the instances' path."""

from __future__ import annotations

import json

import pytest
from test_devices import disks
from test_fleet import LOCAL, SHARED, Domain, changed, eventually, said
from test_sharing import discover, holdings

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

FAST = f"{LOCAL}/fast"
VARIABLES = {
    "drover_shared_pools": ["shared"],
    "drover_storage_pools": ["default", {"name": "fast", "reserved_gb": 1}],
}
CLASS = "CUSTOM_DISK_GB_FAST"
WRITTEN_MB = 16


@pytest.fixture
def storage(fleet):
    """Return the fleet with a third pool on kvm1."""
    fleet.run(
        "kvm1",
        f"mkdir -p {FAST} && virsh pool-define-as fast dir --target {FAST} && virsh pool-start"
        " fast",
    )
    yield fleet
    fleet.run("kvm1", "virsh pool-destroy fast; virsh pool-undefine fast")


def guest(name="web", **given):
    return Domain(
        name, **{"folder": FAST, "boots": True, "size": "64M", "written_mb": WRITTEN_MB, **given}
    )


def given(**variables):
    return "-e", json.dumps({"drover_pool": "fast", **VARIABLES, **variables})


def drain(fleet, *words, check=True, **variables):
    return fleet.playbook("drain", *given(**variables), *words, check=check)


def reserved(fleet):
    """Return (reserved, reserved before its drain, total) of the pool."""
    (amounts,) = fleet.query(
        "SELECT i.reserved, i.reserved_before_drain, i.total FROM inventories i JOIN"
        " resource_providers p ON p.id = i.provider_id WHERE p.name = 'kvm1_pool_fast'"
    )
    return tuple(amounts)


def in_order(fleet):
    """Check that no order, lease, record or part file is left, and that store and hosts agree."""
    assert (
        fleet.query(
            "SELECT name FROM instances WHERE order_uuid IS NOT NULL OR task_state IS NOT NULL"
        )
        == []
    )
    assert fleet.query("SELECT name FROM leases") == []
    assert [
        name
        for folder in (SHARED, LOCAL, FAST)
        for name in fleet.files(folder)
        if ".drover" in name
    ] == []
    fleet.settled()


def intact(fleet, folder, name="web"):
    shown = fleet.run(
        "kvm1",
        f"qemu-io -r -U -f qcow2 -c 'read -P 90 1M {WRITTEN_MB - 1}M' {folder}/{name}-0.qcow2",
    )
    return "Pattern verification failed" not in shown


def test_running_and_shut_off(storage):
    """All disks move to the named pool, the guests continue to run, no new disk comes, and undrain
    restores the reserved space."""
    fleet = storage
    fleet.make("kvm1", guest(), guest("db", state="shutoff"))
    fleet.run("kvm1", f"echo mine > {FAST}/notes.txt")
    discover(fleet, **VARIABLES)
    assert holdings(fleet)["web"]["kvm1_pool_fast"] == {CLASS: 1} and reserved(fleet)[:2] == (
        1,
        None,
    )
    before, pid = fleet.dump(), fleet.run("kvm1", "cat /run/libvirt/qemu/web.pid")

    shown = drain(fleet, "--check", drover_destination_pool="default")
    assert (
        "2 disks to move" in said(shown) and fleet.dump() == before and len(fleet.files(FAST)) == 3
    )

    done = drain(fleet, drover_destination_pool="default", drover_reason="new disks")
    assert changed(done) == 1 and "is empty of disks" in said(done) and "notes.txt" in said(done), (
        said(done)
    )
    assert fleet.files(FAST) == ["notes.txt"]
    assert disks(fleet) == ({"vda": f"{LOCAL}/web-0.qcow2"},) * 2 and disks(fleet, name="db") == (
        None,
        {"vda": f"{LOCAL}/db-0.qcow2"},
    )
    assert fleet.run("kvm1", "cat /run/libvirt/qemu/web.pid") == pid
    assert intact(fleet, LOCAL) and intact(fleet, LOCAL, "db")
    assert (
        "kvm1_pool_fast" not in holdings(fleet)["web"]
        and holdings(fleet)["web"]["kvm1_pool_default"]
    )
    total = reserved(fleet)[2]
    assert reserved(fleet) == (total, 1, total)
    in_order(fleet)

    # Discovery keeps the pool closed, a second drain finds nothing to do, and no new disk gets
    # space there.
    discover(fleet, **VARIABLES)
    assert reserved(fleet) == (total, 1, total) and changed(drain(fleet)) == 0
    definition = {"name": "new", "memory_mb": 64, "disks": [{"size_gb": 1, "pool": "fast"}]}
    refused = fleet.place([definition], check=False, **VARIABLES)
    assert refused.returncode != 0 and CLASS in said(refused), said(refused)

    move = json.dumps({"drover_instance": "db", "drover_disk": "vda", "drover_pool": "fast"})
    assert "its storage pool is drained" in fleet.refused("instance_disk_move", "-e", move)
    assert "running, drained" in said(fleet.playbook("hosts", "-e", "drover_host=kvm1"))

    back = fleet.playbook("undrain", *given())
    assert changed(back) == 1 and "gets new disks again" in said(back)
    assert reserved(fleet) == (1, None, total) and changed(fleet.playbook("undrain", *given())) == 0
    discover(fleet, **VARIABLES)
    assert reserved(fleet) == (1, None, total)


def test_killed(storage):
    """The next run continues with libvirt's copy."""
    fleet = storage
    fleet.make("kvm1", guest(), guest("db", state="shutoff"))
    discover(fleet, **VARIABLES)
    run = fleet.start(
        "drain", *given(drover_migration={"bandwidth_mib": 1}, drover_max_migrations=1)
    )
    # Before any copy the run reads the host and lets it check each move.
    eventually(lambda: "job='copy'" in fleet.run("kvm1", "virsh dumpxml web"))
    run.kill()
    assert reserved(fleet)[0] == reserved(fleet)[2], "the pool was closed before anything moved"
    done = drain(fleet)
    assert "goes on" in said(done) and "is empty of disks" in said(done), said(done)
    assert fleet.files(FAST) == []
    folder = next(iter(disks(fleet)[1].values())).rpartition("/")[0]
    assert disks(fleet)[0] == disks(fleet)[1] and intact(fleet, folder)
    in_order(fleet)


def test_what_cannot_move_is_named_and_nothing_begins(storage):
    fleet = storage
    fleet.make("kvm1", guest(), guest("db", state="shutoff"))
    fleet.run(
        "kvm1",
        "virsh snapshot-create-as web one --disk-only --diskspec vda,snapshot=external > /dev/null",
    )
    discover(fleet, **VARIABLES)
    before = sorted(fleet.files(FAST))
    refused = drain(fleet, check=False)
    assert (
        refused.returncode != 0
        and "cannot move, so nothing was changed" in said(refused)
        and "has snapshots" in said(refused)
    ), said(refused)
    assert sorted(fleet.files(FAST)) == before and reserved(fleet)[:2] == (1, None)

    # The others move with skip, and the run still fails.
    partly = drain(fleet, check=False, drover_unmovable="skip")
    assert partly.returncode != 0 and "is not empty" in said(partly), said(partly)
    assert "db-0.qcow2" not in fleet.files(FAST) and "web-0.qcow2" in fleet.files(FAST)
    assert reserved(fleet)[0] == reserved(fleet)[2]


def test_an_image_in_the_pool_that_is_behind_a_disk(storage):
    """The copy has all data, so no file of the pool is needed; the image stays and is named."""
    fleet = storage
    script = guest(written_mb=0).script()
    path = f"{FAST}/web-0.qcow2"
    fleet.run(
        "kvm1",
        f"qemu-img create -q -f qcow2 {FAST}/base.qcow2 64M && qemu-io -f qcow2 -c 'write -q -P 7"
        f" 40M 4M' {FAST}/base.qcow2",
    )
    fleet.run(
        "kvm1",
        script.replace(
            f"qemu-img create -q -f qcow2 {path} 64M",
            f"qemu-img create -q -f qcow2 -F qcow2 -b base.qcow2 {path}",
        ),
    )
    discover(fleet, **VARIABLES)
    done = drain(fleet, drover_destination_pool="default")
    assert "is empty of disks" in said(done) and "base.qcow2" in said(done), said(done)
    image = json.loads(fleet.run("kvm1", f"qemu-img info -U --output=json {LOCAL}/web-0.qcow2"))
    assert "backing-filename" not in image
    assert "failed" not in fleet.run(
        "kvm1", f"qemu-io -r -U -f qcow2 -c 'read -P 7 40M 4M' {LOCAL}/web-0.qcow2"
    )
    assert fleet.files(FAST) == ["base.qcow2"]
    in_order(fleet)


def test_a_pool_that_all_hosts_share(storage):
    """The pool of the instances' path: each disk moves to a local pool of its host, and every host
    proves that no disk is left."""
    fleet = storage
    fleet.make("kvm1", guest(folder=SHARED))
    fleet.make("kvm2", guest("db", folder=SHARED, state="shutoff"))
    discover(fleet, **VARIABLES)
    variables = {"drover_pool": "shared", "drover_destination_pool": "default"}
    shown = said(drain(fleet, "--check", **variables))
    assert "2 disks to move" in shown and "kvm1" in shown and "kvm2" in shown, shown
    done = drain(fleet, **variables)
    assert changed(done) == 1 and said(done).count("is empty of disks") >= 2, said(done)
    assert [name for name in fleet.files(SHARED) if name.endswith(".qcow2")] == []
    assert disks(fleet) == ({"vda": f"{LOCAL}/web-0.qcow2"},) * 2
    assert "db-0.qcow2" in fleet.run("kvm2", f"ls {LOCAL}") and intact(fleet, LOCAL)
    in_order(fleet)
    assert changed(fleet.playbook("undrain", *given(drover_pool="shared"))) == 1
    discover(fleet, **VARIABLES)


def test_contradictions_are_refused(storage):
    fleet = storage
    discover(fleet, **VARIABLES)
    for variables, sentence in (
        ({"drover_pool": "fats"}, "No host has a storage pool fats (did you mean fast?)"),
        ({"drover_host": "kvm2"}, "is not counted on kvm2"),
        ({"drover_destination_pool": "fast"}, "the pool that is to be emptied"),
        ({"drover_unmovable": "shutdown"}, "has no meaning for a drain of a storage pool"),
        ({"drover_pool": "shared", "drover_host": "kvm1"}, "leave drover_host out"),
    ):
        done = drain(fleet, check=False, **variables)
        assert done.returncode != 0 and sentence in said(done), said(done)
    done = fleet.playbook(
        "drain",
        "-e",
        json.dumps({"drover_host": "kvm1", "drover_destination_pool": "default"}),
        check=False,
    )
    assert done.returncode != 0 and "goes with drover_pool" in said(done), said(done)
