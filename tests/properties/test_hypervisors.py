# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hypervisors in this process have the refusals of real ones, and no call avoids them."""

from __future__ import annotations

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.tests.unit import hypervisors

UUID = "00000000-0000-4000-8000-000000000001"
OTHER = "00000000-0000-4000-8000-000000000002"


@pytest.fixture
def fleet(tmp_path, monkeypatch):
    made = hypervisors.Fleet(tmp_path / "hosts", monkeypatch)
    yield made
    made.close()


def test_a_module_runs_where_it_is_sent(fleet, tmp_path):
    disk = str(tmp_path / "web.qcow2")
    arguments = {
        "name": "web",
        "xml": hypervisors.xml("web", UUID, [disk]),
        "disks": [{"path": disk, "size_gb": 1}],
    }
    answer = fleet.hand("kvm2").act("domain", arguments)
    assert (answer.outcome, answer.result["created_disks"]) == ("done", [disk])
    assert fleet.where() == {"web": [("kvm2", "running")]}
    again = fleet.hand("kvm2").act("domain", arguments)
    assert again.result["changed"] is False
    same_name = fleet.hand("kvm2").act(
        "domain", {**arguments, "xml": hypervisors.xml("web", OTHER, [disk])}
    )
    assert same_name.outcome == "nothing" and "with another uuid" in same_name.message
    assert fleet.hand("kvm1").foretell("domain", arguments)["changed"] is True
    assert fleet.where() == {"web": [("kvm2", "running")]}


def test_power_and_network(fleet):
    fleet.hosts["kvm1"].define("web", UUID)
    fleet.hosts["kvm1"].reached = False
    assert (
        fleet.hand("kvm1").act("domain", {"uuid": UUID, "state": "stopped"}).outcome == "uncertain"
    )
    fleet.hosts["kvm1"].reached = True
    fleet.hosts["kvm1"].libvirt = False
    refused = fleet.hand("kvm1").act("domain", {"uuid": UUID, "state": "stopped"})
    assert refused.outcome == "nothing" and "libvirt is not running on kvm1" in refused.message
    fleet.hosts["kvm1"].libvirt = True
    fleet.hosts["kvm1"].power_off()
    assert fleet.running(UUID) == [] and fleet.where() == {"web": [("kvm1", "shutoff")]}


def test_a_move(fleet):
    fleet.hosts["kvm1"].define("web", UUID)
    move = {
        "uuid": UUID,
        "destination": "kvm2",
        "destination_uri": "qemu+ssh://root@kvm2/system",
        "migration": OTHER,
    }
    answer = fleet.hand("kvm1").act("_domain_migration", {"start": [move], "wait": 5})
    (found,) = answer.result["moves"]
    assert (found["status"], found["migration"]) == ("completed", OTHER), found["message"]
    assert fleet.where() == {"web": [("kvm2", "running")]}


def test_a_hypervisor_that_is_read(fleet):
    fleet.hosts["kvm3"].define("web", UUID)
    facts = fleet.hand("kvm3").read("hypervisor_info", {})["hypervisor"]
    assert facts["hypervisor_hostname"] == "kvm3" and [
        each["name"] for each in facts["domains"]
    ] == ["web"]
