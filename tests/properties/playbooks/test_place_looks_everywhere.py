# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hostile C2: an instance that is new to this store may be on a host already, because another store
has placed it there since the last discovery."""

from __future__ import annotations

import time

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.plugin_utils._conductor import asking
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.action.running import failure, run
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of

NEW = {"name": "new", "vcpus": 1, "memory_mb": 64}


def test_hostile_c2_a_name_that_a_host_has_and_the_store_does_not_know(fleet_url, there):
    there.hosts["kvm3"].define("new", uuid_of("other"), "shutoff")
    sentence = failure("_schedule", None, store_url=fleet_url, requests=[NEW])
    assert (
        f"kvm3 has new (uuid {uuid_of('other')})" in sentence
        and "drover.compute.discover" in sentence
    )


def test_hostile_c2_a_uuid_that_a_host_has(fleet_url, there):
    there.hosts["kvm2"].define("old-name", uuid_of("new"))
    assert "kvm2 has new" in failure(
        "_schedule", None, store_url=fleet_url, requests=[{**NEW, "uuid": uuid_of("new")}]
    )


@pytest.mark.parametrize(
    "what", [{"name": "new"}, {"name": "old-name", "uuid": "new"}], ids=["name", "uuid"]
)
def test_c2_in_a_large_fleet_old_looks_of_the_cell_are_made_anew(
    fleet_url, there, monkeypatch, what
):
    monkeypatch.setattr(asking, "ALL", 2)
    there.hosts["kvm3"].define(what["name"], uuid_of(what.get("uuid", "other")), "shutoff")
    request = {**NEW, "uuid": uuid_of("new"), "force_hosts": ["kvm2"]}
    for age in (0, 1000):
        with Store.open(fleet_url).write() as connection:
            connection.execute(sa.update(tables.services).values(last_seen_up=time.time()))
            connection.execute(
                sa.update(tables.services)
                .where(tables.services.c.host == "kvm3")
                .values(last_seen_up=time.time() - age)
            )
        if age == 0:
            assert run("_schedule", None, store_url=fleet_url, requests=[request])["selections"]
    assert "kvm3 has" in failure("_schedule", None, store_url=fleet_url, requests=[request])


def test_an_instance_of_the_store_may_have_the_name(fleet_url, there):
    """The store knows the instance of the other project."""
    found = run("_schedule", None, store_url=fleet_url, requests=[{**NEW, "name": "web"}])
    assert found["selections"] and found["looked_at"]


def test_a_host_that_does_not_answer_is_named_and_holds_nothing_back(fleet_url, there, capsys):
    there.hosts["kvm3"].reached = False
    assert run("_schedule", None, store_url=fleet_url, requests=[NEW])["selections"]
    assert "Not read, as they do not answer: kvm3" in " ".join(capsys.readouterr().out.split())


def network(host, name):
    """Define a network in the libvirt of a host, and start it."""
    new_network = host.connection.networkDefineXML(
        f"<network><name>{name}</name><ip address='192.0.2.1' netmask='255.255.255.0'/></network>"
    )
    new_network.create()
    return new_network


def test_walk_f11_a_network_that_no_host_has(fleet_url, there):
    """The dry run succeeded, and each host failed with a message of libvirt."""
    needs = {"requests": [NEW], "networks": [[{"network": "lan"}]], "store_url": fleet_url}
    message = failure("_schedule", None, **needs)
    assert (
        message
        == "Instance new cannot be built on any host: kvm1: the network lan does not exist on that"
        " host: define it there. The same for kvm2, kvm3. Or correct networks of its definition."
        " Nothing was placed."
    )
    network(there.hosts["kvm2"], "lan")
    (selection,) = run("_schedule", None, **needs)["selections"]
    assert selection["host"] == "kvm2" and selection["alternates"] == []
    # The second of two instances is on another host.
    network(there.hosts["kvm3"], "dmz")
    message = failure(
        "_schedule", None, **{**needs, "networks": [[{"network": "lan"}, {"network": "dmz"}]]}
    )
    assert (
        "the network lan does not exist on" in message
        and "the network dmz does not exist on" in message
    )


def test_walk_f11_a_network_that_does_not_run(fleet_url, there):
    network(there.hosts["kvm2"], "lan").destroy()
    message = failure(
        "_schedule",
        None,
        store_url=fleet_url,
        requests=[{**NEW, "force_hosts": ["kvm2"]}],
        networks=[[{"network": "lan"}]],
    )
    assert "the network lan is not active on" in message and "virsh net-start lan" in message


def test_what_plugs_into_nothing_is_on_any_host(fleet_url, there):
    assert run("_schedule", None, store_url=fleet_url, requests=[NEW], networks=[[]])["selections"]


def kinds(url, **of_hosts):
    """Set the domain types that hosts offer."""
    with Store.open(url).write() as connection:
        for host, offered in of_hosts.items():
            table = tables.compute_nodes
            values = {
                "cpu_info": {"arch": "x86_64"},
                "supported_instances": [["x86_64", each, "hvm"] for each in offered],
            }
            connection.execute(sa.update(table).where(table.c.host == host).values(values))


@pytest.mark.parametrize(
    "guest",
    [{"domain_type": "kvm"}, {"cpu": {"mode": "host-passthrough", "model": None}}],
    ids=["type", "passthrough"],
)
def test_walk_f11_kvm_where_hosts_have_none(fleet_url, there, guest):
    """Each host failed after the claim, and the alternates after it."""
    kinds(fleet_url, kvm1=["qemu"], kvm2=["kvm", "qemu"], kvm3=["qemu"])
    needs = {"requests": [NEW], "guests": [guest], "store_url": fleet_url}
    (selection,) = run("_schedule", None, **needs)["selections"]
    assert selection["host"] == "kvm2" and selection["alternates"] == []
    kinds(fleet_url, kvm2=["qemu"])
    message = failure("_schedule", None, **needs)
    assert (
        message.startswith("Instance new cannot be built on any host: kvm1: ")
        and "that host offers only qemu" in message
        and "kvm2, kvm3" in message
    )
    assert message.endswith("Nothing was placed.")
    # A host's default type is built there.
    assert run("_schedule", None, store_url=fleet_url, requests=[NEW], guests=[{}])["selections"]


def test_walk_f11_more_vcpus_than_a_guest_can_have(fleet_url, there):
    """libvirt refuses more than 255 without an IOMMU of extended interrupt mode, at the definition
    of the domain.
    """
    kinds(fleet_url, kvm1=["kvm"], kvm2=["kvm"], kvm3=["kvm"])
    message = failure(
        "_schedule", None, store_url=fleet_url, requests=[{**NEW, "vcpus": 256}], guests=[{}]
    )
    assert (
        "a guest of x86_64 has at most 255 vCPUs, and it has 256" in message
        and "kvm2, kvm3" in message
    )


def test_walk_f15_a_forced_host_that_does_not_exist_is_named(fleet_url, there):
    """It said only that force_hosts rejected all hosts."""
    request = {**NEW, "force_hosts": ["kmv1"]}
    said = failure("_schedule", None, store_url=fleet_url, requests=[request])
    assert "there is no host kmv1: there are kvm1, kvm2, kvm3" in said
