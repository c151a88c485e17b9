# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The store came back from a backup and has not read kvm2, where web runs; kvm1 still has web's old
definition, and the store knows that one."""

from __future__ import annotations

import os

import pytest
from ansible.errors import AnsibleActionFail

pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import continuity
from ansible_collections.drover.compute.tests.unit import hypervisors
from ansible_collections.drover.compute.tests.unit.action.running import run
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of

UNKNOWN = (
    "kvm2 was not read since the store was made or brought back from a backup, so whether it runs"
    " there is not known. Run drover.compute.discover"
)


def discover(url, *hosts):
    for host in hosts:
        run(
            "compute_node",
            {"inventory_hostname": host, "drover_cpu_allocation_ratio": 4.0},
            store_url=url,
        )


@pytest.fixture
def url(fleet_url, there):
    discover(fleet_url, *there.hosts)
    return fleet_url


def brought_back(url, *read):
    with Store.open(url).write() as connection:
        continuity.come_back(connection)
    discover(url, *read)


def domain(there, host="kvm1"):
    return there.hosts[host].domains()[uuid_of("web")]


def stale(there):
    """Move web to kvm2 as a person would, and leave its definition."""
    disks = hypervisors.disks_of(domain(there))
    domain(there).destroy()
    there.hosts["kvm2"].define("web", uuid_of("web"), disks=disks)


def refused(url, module, **args):
    before = fleets.snapshot(url)
    with pytest.raises(AnsibleActionFail) as caught:
        run(module, store_url=url, **args)
    assert fleets.snapshot(url) == before
    return str(caught.value)


GROW = (
    "instance_disk",
    {"state": "resized", "name": "web", "target": "vda", "size": "3GiB"},
    "No disk is made larger",
)
MIGRATE = (
    "instance_migrate",
    {"instances": ["web"], "host": "kvm3", "timeout": 1},
    "It is not moved",
)
RESIZE = (
    "instance_resize",
    {"instances": ["web"], "flavor": "big", "host": "kvm1", "timeout": 1, "force": True},
    "It is not resized",
)
SNAPSHOT = (
    "instance_snapshot",
    {"instances": ["web"], "state": "present", "snapshot": "one", "timeout": 1},
    "No snapshot is made",
)
START = ("instance", {"instances": ["web"], "state": "running", "timeout": 1}, "It is not started")


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(("module", "given", "not_done"), [GROW, MIGRATE, RESIZE, SNAPSHOT, START])
def test_a_stale_definition_is_neither_moved_nor_resized_and_its_disk_does_not_grow(
    url, there, module, given, not_done, check
):
    stale(there)
    brought_back(url, "kvm1", "kvm3")
    before = there.where()
    assert refused(url, module, check=check, **given).startswith(
        f"Instance web: {not_done}: {UNKNOWN}"
    )
    assert there.where() == before
    discover(url, "kvm2")
    with Store.open(url).read() as connection:
        continuity.refuse_unread(connection, "Nothing is done", there.hosts)


@pytest.mark.parametrize("check", [True, False])
def test_a_drain_leaves_a_stale_definition_where_it_is(url, there, check):
    stale(there)
    brought_back(url, "kvm1", "kvm3")
    before = there.where()
    # The call reads its host, so the store has a newer report about it.
    with pytest.raises(AnsibleActionFail) as caught:
        run("drain", store_url=url, host=["kvm1"], check=check)
    message = str(caught.value)
    assert (
        f"it is shut off, and {UNKNOWN[: -len('. Run drover.compute.discover')]}; run"
        " drover.compute.discover with all hosts up" in message
    ), message
    assert there.where() == before
    discover(url, "kvm2")
    run("drain", store_url=url, host=["kvm1"], check=check)


def test_a_drain_moves_what_runs_there(url, there):
    brought_back(url, "kvm1", "kvm3")
    run("drain", store_url=url, host=["kvm1"])
    assert there.where()["web"] == [("kvm3", "running")]


@pytest.mark.parametrize(
    ("ending", "not_done"),
    [("confirm", "Its resize is not confirmed"), ("revert", "Its resize is not reverted")],
)
def test_a_resize_that_may_have_ended_since_is_left_as_it_is(url, there, ending, not_done):
    run(RESIZE[0], store_url=url, **RESIZE[1])
    stale(there)
    brought_back(url, "kvm1", "kvm3")
    before = there.where()
    said = refused(url, "instance_resize", instances=["web"], ending=ending, timeout=1, force=True)
    assert said.startswith(f"Instance web: {not_done}: {UNKNOWN}") and there.where() == before


def test_one_that_is_shut_down_for_its_move_or_its_size_is_refused_too(url, there):
    """The domain would be started again, as by a hard reboot."""
    brought_back(url, "kvm1", "kvm3")
    for module, given, not_done in ((MIGRATE[0], {**MIGRATE[1], "cold": True}, MIGRATE[2]), RESIZE):
        assert refused(url, module, **given).startswith(f"Instance web: {not_done}: {UNKNOWN}")
    assert there.where()["web"] == [("kvm1", "running")]


def test_one_that_runs_where_it_is_recorded_moves_live_and_its_disk_grows(url, there):
    brought_back(url, "kvm1", "kvm3")
    for module, given, _not_done in (GROW, MIGRATE):
        assert run(module, store_url=url, **given)["changed"] is True
    assert there.where()["web"] == [("kvm3", "running")]


@pytest.mark.parametrize("check", [True, False])
def test_a_disk_that_a_guest_there_may_write_to_is_not_attached(url, there, check):
    """A new disk belongs to no guest, and two guests may read a read-only one."""
    folder = os.path.dirname(hypervisors.disks_of(domain(there))[0])
    theirs = os.path.join(folder, "data.img")
    with open(theirs, "wb") as file:
        file.truncate(1 << 20)
    brought_back(url, "kvm1", "kvm3")
    attach = {"name": "web", "path": theirs, "format": "raw", "timeout": 0}
    message = refused(url, "instance_disk", check=check, **attach)
    assert (
        message.startswith("Instance web: Nothing is attached: kvm2 was not read")
        and "the files that are needed there are not known" in message
    )
    run("instance_disk", store_url=url, check=True, readonly=True, **attach)
    assert (
        run(
            "instance_disk",
            store_url=url,
            name="web",
            path=os.path.join(folder, "own.qcow2"),
            size=1,
            timeout=0,
        )["changed"]
        is True
    )
    discover(url, "kvm2")
    assert run("instance_disk", store_url=url, **attach)["changed"] is True
    assert run("instance_disk", store_url=url, **attach)["changed"] is False


def test_an_old_definition_of_one_that_ran_does_not_move_live(url, there):
    """The store has it as running since its export, and its host has not been read since."""
    stale(there)
    brought_back(url)
    before = there.where()
    with pytest.raises(
        AnsibleActionFail, match="only a running or paused instance can be moved live"
    ):
        run(MIGRATE[0], store_url=url, **MIGRATE[1])
    assert there.where() == before


def test_a_missing_instance_is_not_removed_even_if_its_disks_are_kept(url, there):
    """Its room would be free, and its record removed, while it may run on kvm2."""
    disks = hypervisors.disks_of(domain(there))
    domain(there).destroy()
    domain(there).undefine()
    brought_back(url, "kvm1", "kvm3")
    delete = {"state": "absent", "name": "web", "keep_disks": True, "timeout": 1}
    for check in (True, False):
        message = refused(url, "instance", check=check, **delete)
        assert (
            message.startswith(f"Instance web: It is not removed: {UNKNOWN}")
            and "keep_disks" not in message
        )
    discover(url, "kvm2")
    assert run("instance", store_url=url, **delete)["changed"] is True
    assert uuid_of("web") not in fleets.holdings(url) and all(
        os.path.exists(path) for path in disks
    )


def test_one_that_its_host_shows_is_removed_if_its_disks_are_kept(url, there):
    disks = hypervisors.disks_of(domain(there))
    brought_back(url, "kvm1", "kvm3")
    delete = {"state": "absent", "name": "web", "timeout": 1, "force": True}
    said = refused(url, "instance", **delete)
    assert "Instance web: It is not removed: kvm2 was not read" in said and said.endswith(
        "Or keep the disks: -e drover_delete_keep_disks=true."
    )
    assert run("instance", store_url=url, keep_disks=True, **delete)["changed"] is True
    assert "web" not in there.where() and disks and all(os.path.exists(path) for path in disks)
