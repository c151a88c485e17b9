# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Instances compared with their definitions and brought into line, on a real store and hypervisors
in this process.
"""

from __future__ import annotations

import os

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._domain import definition, hotplug
from ansible_collections.drover.compute.plugins.module_utils._files.image_size import image_size
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import instance_devices
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import flavors, orders
from ansible_collections.drover.compute.plugins.plugin_utils._store.runs import leases
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit import hypervisors
from ansible_collections.drover.compute.tests.unit.action.running import run
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of

WEB = {"name": "web", "uuid": uuid_of("web"), "memory_mb": 64, "disks": [{"size_gb": 1}]}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(hotplug, "POLL", 0.01)
    monkeypatch.setattr(instance_devices, "GRACE", 0)


@pytest.fixture
def url(fleet_url, there, tmp_path):
    there.variables["drover_instances_path"] = str(tmp_path)
    for host in there.hosts:
        run("compute_node", {"inventory_hostname": host}, store_url=fleet_url)
    there.calls.clear()
    yield fleet_url
    with Store.open(fleet_url).read() as connection:
        assert leases.read(connection) == []


def align(url, *definitions, check=False, diff=False, **args):
    resolved = run(
        "_definitions", instances=[{**WEB, **each} for each in definitions], store_url=url
    )["instances"]
    return run(
        "_alignment", check=check, diff=diff, definitions=resolved, timeout=1, store_url=url, **args
    )


def domain(there, name="web", host=None):
    ((at, _state),) = there.where()[name]
    assert host in (None, at)
    return there.hosts[at].domains()[uuid_of(name)]


def inner(there):
    return domain(there).XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)


def metadata(there):
    return definition.parse_domain(inner(there))["metadata"]


def test_nothing_differs(url):
    assert align(url, {}, apply=True) == {"changed": False, "lines": [], "problems": []}


def test_without_a_cpu_of_the_fleet_there_is_none_to_compare_with(url):
    """The warning is about the instance's host, and about an instance that the definition does not
    name."""
    before = fleets.snapshot(url)
    wanted = [{"cpu": "fleet"}, {"name": "db", "uuid": uuid_of("db"), "cpu": "fleet"}]
    assert align(url, *wanted, apply=True)["problems"] == []
    assert align(url, *wanted)["lines"] == [] and fleets.snapshot(url) == before


def test_differences_are_those_of_the_host_and_not_of_the_store(url, there):
    before = fleets.snapshot(url)
    domain(there).setAutostart(1)
    assert align(url, {})["lines"][0] == "web: autostart yes, the definition says no."
    assert "drover_apply_changes=true" in align(url, {})["lines"][-1]
    assert align(url, {"autostart": True})["lines"] == []
    assert fleets.snapshot(url) == before


def test_one_call_for_all_instances_of_a_host(url, there):
    align(url, {}, {"name": "db", "uuid": uuid_of("db"), "vcpus": 3})
    assert [(host, module.rpartition(".")[2]) for host, module, *dummy in there.calls] == [
        ("kvm1", "_domain_order")
    ]


def test_settings_and_devices_are_changed_and_the_guest_runs_on(url, there, tmp_path):
    wish = {
        "autostart": True,
        "policy": {"move": "never", "priority": 3},
        "labels": {"tier": "front"},
        "disks": [{"size_gb": 1}, {"size_gb": 1, "path": str(tmp_path / "data.qcow2")}],
    }
    before = fleets.snapshot(url)
    dry_run = align(url, wish, apply=True, check=True, diff=True)
    assert dry_run["changed"] is True and not dry_run["problems"] and fleets.snapshot(url) == before
    assert not os.path.exists(tmp_path / "data.qcow2") and "move" not in inner(there)
    assert "the definition says move never and priority 3" in dry_run["lines"][0], (
        "in check mode it is as it was"
    )
    begun = domain(there).ID()
    done = align(url, wish, apply=True, diff=True)
    assert (
        done["changed"] is True
        and done["problems"] == done["lines"] == []
        and done["diff"] == dry_run["diff"]
    )
    assert (
        done["diff"][0]["before_header"] == "web" and done["diff"][0]["after"]["autostart"] == "yes"
    )
    assert (
        domain(there).autostart() == 1
        and os.path.exists(tmp_path / "data.qcow2")
        and domain(there).ID() == begun
    )
    assert metadata(there) == {"move": "never", "priority": "3", "labels": "tier=front"}
    with Store.open(url).read() as connection:
        assert orders.read(connection, uuid_of("web")).order_uuid is None
    seen = fleets.snapshot(url)
    assert (
        align(url, wish, apply=True) == {"changed": False, "lines": [], "problems": []}
        and fleets.snapshot(url) == seen
    )
    # A different policy replaces the old one completely.
    assert align(url, {**wish, "policy": {"move": "cold"}}, apply=True)["changed"]
    assert metadata(there) == {"move": "cold", "labels": "tier=front"}


def test_sizes_are_changed_by_a_resize_that_waits_to_be_confirmed(url, there):
    wish = {"vcpus": 2, "memory_mb": 32}
    told = align(url, wish, apply=True, check=True)
    assert told["changed"] is True and domain(there).info()[1] == 64 * 1024
    done = align(url, wish, apply=True)
    assert (
        done["changed"] is True
        and done["lines"] == []
        and domain(there).info()[1] == 32 * 1024
        and domain(there).isActive()
    )
    assert align(url, wish, apply=True)["changed"] is False
    # An open resize must end before another one begins.
    refused = align(url, {"vcpus": 3, "memory_mb": 32}, apply=True)
    assert (
        "drover_resize=confirm" in refused["problems"][0]
        and "vcpus 2, the definition says 3" in refused["lines"][0]
    )
    run("instance_resize", instances=["web"], ending="confirm", timeout=1, store_url=url)
    assert align(url, wish, apply=True)["changed"] is False


def test_nothing_is_detached(url, there, tmp_path):
    extra = str(tmp_path / "extra.qcow2")
    run("instance_disk", name="web", path=extra, size=1, timeout=0, store_url=url)
    answer = align(url, {}, apply=True)
    assert (
        answer["changed"] is False
        and f"disk vdb {extra}, the definition says none" in answer["lines"][0]
    )
    answer = align(url, {"disks": []}, apply=True)
    assert (
        answer["changed"] is False
        and "detach it with drover.compute.instance_disk" in answer["lines"][1]
    )
    assert inner(there).count("<disk ") == 2


def test_a_host_that_does_not_answer_stops_no_other(url, there):
    there.moved(there.hosts["kvm1"], there.hosts["kvm2"], domain(there, "db"))
    for host in there.hosts:
        run("compute_node", {"inventory_hostname": host}, store_url=url)
    there.hosts["kvm1"].reached = False
    db = {"name": "db", "uuid": uuid_of("db"), "autostart": True}
    answer = align(url, {"vcpus": 4}, db, apply=True)
    assert answer["changed"] is True and domain(there, "db", "kvm2").autostart() == 1
    assert "web was not changed: its host kvm1 does not answer." in answer["problems"]
    assert answer["lines"][:2] == [
        "web: its host kvm1 does not answer; it is compared with what the last discovery saw.",
        "web: vcpus 1, the definition says 4.",
    ]
    answer = align(url, {"vcpus": 4}, db)
    assert answer["problems"] == [] and len(answer["lines"]) == 2, (
        "what is only compared is no failure"
    )


def test_an_instance_whose_domain_is_not_there_or_has_another_name(url, there):
    domain(there).destroy()
    domain(there).undefine()
    answer = align(url, {"vcpus": 4}, apply=True)
    assert "drover.compute.discover" in answer["problems"][0] and answer["changed"] is False
    there.hosts["kvm1"].define("other", uuid_of("web"), disks=[])
    answer = align(url, {"vcpus": 4}, apply=True)
    assert (
        answer["changed"] is False and "name other, the definition says web" in answer["lines"][0]
    )
    assert "virsh domrename" in answer["lines"][1]


def test_an_instance_that_is_off_stays_off(url, there):
    domain(there).destroy()
    done = align(url, {"memory_mb": 128, "autostart": True}, apply=True)
    assert (
        done["changed"] is True
        and done["lines"] == []
        and not domain(there).isActive()
        and domain(there).autostart() == 1
    )


def test_one_change_that_fails_stops_no_other(url, there):
    wish = {"networks": [{"network": "nowhere"}], "autostart": True, "memory_mb": 128}
    done = align(url, wish, apply=True)
    assert done["changed"] is True and domain(there).autostart() == 1
    assert "has no network nowhere" in done["problems"][0] and "network 1 none" in done["lines"][0]
    # A resize that waits for its confirmation would block the other changes.
    assert (
        done["problems"][1] == "web was not resized before its other changes are made."
        and domain(there).info()[1] == 64 * 1024
    )


def test_what_an_earlier_run_began_is_ended(url, there, tmp_path):
    """The disk is attached, and the run was killed before it closed its order."""
    path = str(tmp_path / "data.qcow2")
    wish = {"disks": [{"size_gb": 1}, {"size_gb": 1, "path": path}]}
    align(url, wish, apply=True)
    with Store.open(url).write() as connection:
        orders.begin(
            connection, uuid_of("web"), orders.ATTACHING, "00000000-0000-4000-8000-000000000001"
        )
    align(url, wish, apply=True)
    with Store.open(url).read() as connection:
        assert orders.read(connection, uuid_of("web")).order_uuid is None
    assert hypervisors.disks_of(domain(there)).count(path) == 1


def test_a_definition_of_the_same_disk_by_its_size_only(url, there, tmp_path):
    comparison = align(url, {"disks": [{"size_gb": 2}]})
    assert (
        comparison["changed"] is False
        and comparison["lines"][0] == "web: disk 1 size 1 GiB, the definition says 2 GiB."
    )
    done = align(url, {"disks": [{"size_gb": 2}]}, apply=True)
    assert (
        done["changed"] is True
        and done["problems"] == []
        and align(url, {"disks": [{"size_gb": 2}]})["lines"] == []
    )
    (path,) = hypervisors.disks_of(domain(there))
    assert image_size(path, "qcow2")[0] == 2 * 2**30
    # The run was killed before it closed its order.
    with Store.open(url).write() as connection:
        orders.begin(
            connection, uuid_of("web"), orders.EXTENDING, "00000000-0000-4000-8000-000000000001"
        )
    align(url, {"disks": [{"size_gb": 2}]}, apply=True)
    with Store.open(url).read() as connection:
        assert orders.read(connection, uuid_of("web")).order_uuid is None
    answer = align(url, {"disks": [{"size_gb": 1}]}, apply=True)
    assert (
        answer["changed"] is False
        and "a disk is never made smaller; correct the definition" in answer["lines"][1]
    )


def test_changed_extra_specs_are_named_with_the_way_out(url):
    """The flavor is changed in the store after the resize to it: the instance has no pinned CPUs,
    and the flavor requires them."""
    with Store.open(url).write() as connection:
        flavors.ensure(
            connection,
            "f",
            {"vcpus": 1, "memory_mb": 64, "disk_gb": 1, "extra_specs": {}},
            fleets.NOW,
        )
        connection.execute(
            sa.update(tables.instances).where(tables.instances.c.name == "web").values(flavor="f")
        )
    assert align(url, {"flavor": "f"})["lines"] == []
    with Store.open(url).write() as connection:
        flavors.ensure(
            connection,
            "f",
            {"extra_specs": {"hw:cpu_policy": "dedicated", "trait:CUSTOM_A": "required"}},
            fleets.NOW,
        )
    answer = align(url, {"flavor": "f", "extra_specs": {"hw:numa_nodes": 1}})
    assert (
        answer["lines"][0]
        == "web: extra spec hw:numa_nodes none, the definition says 1; extra spec hw:cpu_policy"
        " shared, the definition says dedicated."
    )
    assert (
        "resize it with drover.compute.instance_resize to a flavor of another name"
        in answer["lines"][1]
    )
    assert len(answer["lines"]) == 2, "no change is promised"
    applied = align(url, {"flavor": "f"}, apply=True)
    assert (
        applied["changed"] is False
        and applied["problems"] == []
        and "hw:cpu_policy shared" in applied["lines"][0]
    )


def test_another_project_is_named_with_the_way_out(url):
    lines = align(url, {"project": "shop"})["lines"]
    assert lines[0] == "web: project none, the definition says shop."
    assert lines[1].startswith("web: project is not changed here: only a new instance gets it")
