# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An address that leads to another machine: that machine never counts as the host, and nothing is
done there."""

from __future__ import annotations

import json

import pytest
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure

pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import services
from ansible_collections.drover.compute.tests.unit import hypervisors
from ansible_collections.drover.compute.tests.unit.action.running import run
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of

HOSTS = ["kvm1", "kvm2", "kvm3"]
GROUPS = {"groups": {"all": HOSTS, "hypervisors": HOSTS}}


def discover(url, *hosts):
    for host in hosts:
        run(
            "compute_node",
            {"inventory_hostname": host, "drover_cpu_allocation_ratio": 4.0, **GROUPS},
            store_url=url,
        )


@pytest.fixture
def swapped(fleet_url, there):
    """Exchange the addresses of kvm1 and kvm2 since the last discovery; app runs on kvm1, and both
    machines have a domain with its uuid."""
    there.hosts["kvm1"].define("app", uuid_of("app"))
    discover(fleet_url, *HOSTS)
    there.hosts["kvm2"].define("app", uuid_of("app"), state="shutoff")
    there.addresses = {"kvm1": "kvm2", "kvm2": "kvm1"}
    there.calls.clear()
    return fleet_url


def test_a_discovery_refuses_it_and_the_record_stays(swapped, there):
    with pytest.raises(AnsibleConnectionFailure) as caught:
        discover(swapped, "kvm1")
    for part in (
        "this is not kvm1, but another machine",
        uuid_of("kvm1"),
        uuid_of("kvm2"),
        "ansible_host",
    ):
        assert part in str(caught.value)
    assert fleets.where(swapped)["app"] == "kvm1"
    with Store.open(swapped).read() as connection:
        assert "another machine" in services.get(connection, "kvm1").last_error


@pytest.mark.parametrize(
    "module, args",
    [
        ("drain", {"host": "kvm1", "unmovable": "skip"}),
        ("drain", {"host": "kvm1", "unmovable": "shutdown"}),
        ("instance", {"name": "app", "state": "stopped", "force": True, "timeout": 1}),
        ("instance", {"name": "app", "state": "rebooted", "force": True, "timeout": 1}),
        ("instance", {"name": "app", "state": "absent", "force": True, "timeout": 1}),
        ("instance_migrate", {"instances": ["app"], "host": "kvm3"}),
    ],
)
def test_no_operation_touches_it(swapped, there, module, args):
    before = there.where()
    with pytest.raises(AnsibleActionFail) as caught:
        run(module, GROUPS, store_url=swapped, **args)
    assert "not kvm1" in str(caught.value) or "another machine" in json.dumps(
        caught.value.result
    ), caught.value
    assert there.where() == before and fleets.where(swapped)["app"] == "kvm1"


BOARD = "03000200-0400-0500-0006-000700080009"


@pytest.fixture
def boards(swapped, monkeypatch):
    """Give kvm1 and kvm2 boards of a series in which each has the same uuid."""
    machine_here = hypervisors.machine.here
    identity = {"host_uuid": BOARD, "system_uuid": BOARD, "firmware_uuid": BOARD}
    for name in ("kvm1", "kvm2"):
        fleets.identify(swapped, name, machine_id=uuid_of(name).replace("-", ""), **identity)
    monkeypatch.setattr(
        hypervisors.machine, "here", lambda: {**machine_here(), "uuids": [BOARD], "firmware": BOARD}
    )
    return swapped


def test_b2_of_two_boards_with_one_uuid_the_machine_id_decides(boards, there):
    with pytest.raises(AnsibleConnectionFailure) as caught:
        discover(boards, "kvm1")
    assert "this is not kvm1, but another machine" in str(caught.value)
    before = there.where()
    with pytest.raises(AnsibleActionFail) as refused:
        run("instance", GROUPS, store_url=boards, name="app", state="stopped", timeout=1)
    assert "not kvm1" in str(refused.value) and there.where() == before
    there.addresses = {}
    found = run("instance", GROUPS, store_url=boards, name="app", state="stopped", timeout=1)
    assert found["changed"] is True


def test_b2_the_power_driver_of_a_board_with_a_twin(boards):
    """It tells no machine id: its own uuid may be the twin's, but another one is never the
    host's.
    """
    known = {"drover_store_url": boards}
    for uuid, is_other in ((BOARD, False), (uuid_of("third"), True)):
        problem = run("_power_machine", known, host="kvm1", reported=uuid)["problem"]
        assert ("it switches another machine than kvm1" in problem) == is_other, problem


def test_b2_a_board_that_got_a_new_system_is_the_same_machine(fleet_url, there, monkeypatch):
    """No other host has its uuid, so a new machine id says nothing."""
    discover(fleet_url, *HOSTS)
    fleets.identify(
        fleet_url,
        "kvm1",
        host_uuid=uuid_of("kvm1"),
        system_uuid=uuid_of("kvm1"),
        machine_id="before it was installed anew",
    )
    discover(fleet_url, "kvm1")


def test_a_machine_that_was_exchanged_is_accepted_when_the_old_one_is_taken_out(swapped, there):
    there.addresses = {"kvm3": "kvm2"}
    with pytest.raises(AnsibleConnectionFailure):
        discover(swapped, "kvm3")
    run("host", GROUPS, host="kvm3", state="absent", store_url=swapped)
    with pytest.raises(AnsibleActionFail, match="kvm3 is the same machine as kvm2"):
        discover(swapped, "kvm3")
    run("host", GROUPS, host="kvm2", state="absent", store_url=swapped)
    discover(swapped, "kvm3")


def test_the_controller_refuses_an_answer_of_another_machine_by_itself(swapped, there, monkeypatch):
    """The module got no expectation, for example because a shell drops the environment."""
    from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.machines import (
        Machines,
    )

    monkeypatch.setattr(Machines, "environment", lambda self, host: {})
    with pytest.raises(AnsibleConnectionFailure, match="not kvm1"):
        discover(swapped, "kvm1")


@pytest.mark.parametrize("module, arguments", [("_boot_info", {}), ("hypervisor_info", {})])
def test_b2_tasks_of_roles_compare_the_machine_too(swapped, there, module, arguments):
    """The result is not "unreachable": the role power waits for a silent host, and a decision to
    fence would count that as silence."""
    variables = {"inventory_hostname": "kvm1", "drover_store_url": swapped, **GROUPS}
    answer = run("_on_host", variables, module=module, arguments=arguments)
    assert (
        answer["failed"]
        and answer["not_this_host"]
        and not answer.get("unreachable")
        and "not kvm1" in answer["msg"]
    )
    there.addresses = {}
    assert not run("_on_host", variables, module=module, arguments=arguments).get("failed")


def test_b2_a_module_of_ansible_runs_on_this_host_only(swapped, there):
    from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.machines import (
        Machines,
    )
    from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import NotThisHost

    hand = there.hand("kvm1")
    hand._machines = Machines(lambda: Store.open(swapped))
    with pytest.raises(NotThisHost):
        hand.read("ansible.builtin.stat", {"path": "/"})
    answer = hand.act("ansible.builtin.service", {"name": "libvirtd", "state": "restarted"})
    assert answer.outcome == "nothing" and "not kvm1" in answer.message, answer


def test_the_machines_of_a_look_are_one_query(swapped):
    """The same rule for one query on each host."""
    from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.machines import (
        Machines,
    )

    opened = []

    def store():
        opened.append(1)
        return Store.open(swapped)

    machines = Machines(store)
    machines.learn(HOSTS)
    assert [bool(machines.environment(host)) for host in HOSTS] == [True] * 3 and len(opened) == 1


@pytest.mark.parametrize(
    "module, more",
    [
        ("instance_migrate", {"instances": ["web"], "host": "kvm2"}),
        ("instance_resize", {"instances": ["web"], "flavor": "big", "host": "kvm2"}),
        ("drain", {"host": "kvm1", "unmovable": "skip"}),
    ],
)
def test_b2_a_destination_whose_uri_leads_to_another_machine_gets_nothing(
    fleet_url, there, module, more
):
    """The source reaches the destination by another name, which the controller does not see."""
    discover(fleet_url, *HOSTS)
    for name, leads_to in (("kvm2", "kvm3"), ("kvm3", "kvm2")):
        run(
            "compute_node",
            {
                "inventory_hostname": name,
                "drover_migration_uri": f"qemu+ssh://{leads_to}/system",
                **GROUPS,
            },
            store_url=fleet_url,
        )
    before = there.where()
    if module == "drain":
        text = json.dumps(run(module, GROUPS, store_url=fleet_url, **more))
    else:
        with pytest.raises(AnsibleActionFail) as caught:
            run(module, GROUPS, store_url=fleet_url, **more)
        text = f"{caught.value} {json.dumps(caught.value.result)}"
    assert (
        "leads to another machine than kvm2: to kvm3" in text and "drover_migration_uri" in text
    ), text
    assert there.where() == before and fleets.where(fleet_url)["web"] == "kvm1"
    # With the right address it continues.
    discover(fleet_url, *HOSTS)
    run(module, GROUPS, store_url=fleet_url, **more)
    assert fleets.where(fleet_url)["web"] != "kvm1"


def test_b2_a_uri_that_leads_to_another_machine_is_refused(fleet_url, there):
    """The module runs on kvm1, and the libvirt behind drover_uris belongs to kvm2."""
    discover(fleet_url, *HOSTS)
    before = fleets.where(fleet_url)
    uris = {"drover_uris": ["qemu+ssh://root@kvm2/system"]}
    with pytest.raises(AnsibleConnectionFailure) as caught:
        run("compute_node", {"inventory_hostname": "kvm1", **uris, **GROUPS}, store_url=fleet_url)
    for part in (
        "a libvirt of kvm1",
        uuid_of("kvm2"),
        "Correct drover_uris of kvm1",
        "host_replace",
    ):
        assert part in str(caught.value)
    assert fleets.where(fleet_url) == before


def test_b6_a_uri_to_a_machine_that_has_another_name_counts_once(fleet_url, there, monkeypatch):
    """The rule also covers a host that the store has never read."""
    discover(fleet_url, *HOSTS)
    monkeypatch.setattr(there, "hosts", {**there.hosts, "kvm9": there.hosts["kvm3"]})
    with pytest.raises(AnsibleActionFail, match="kvm9 is the same machine as kvm2"):
        run(
            "compute_node",
            {
                "inventory_hostname": "kvm9",
                "drover_uris": ["qemu+ssh://root@kvm2/system"],
                **GROUPS,
            },
            store_url=fleet_url,
        )
    del there.hosts["kvm9"]


def test_c2_a_dry_run_of_a_drain_leaves_nothing_out_that_its_host_shows(fleet_url, there):
    """The dry run reads the host and records nothing, and its plan uses the store."""
    discover(fleet_url, *HOSTS)
    there.hosts["kvm3"].define("new", uuid_of("new"))
    with pytest.raises(
        AnsibleActionFail,
        match="kvm3 shows new, which the store does not have there.*drover.compute.discover",
    ):
        run("drain", GROUPS, check=True, store_url=fleet_url, host="kvm3")
    discover(fleet_url, "kvm3")
    assert run("drain", GROUPS, check=True, store_url=fleet_url, host="kvm3")["changed"] is True
    assert run("drain", GROUPS, store_url=fleet_url, host="kvm3")["changed"] is True
