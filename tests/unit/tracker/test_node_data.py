# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute nodes given as data: refusals, and the treatment of the rest."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import (
    checked_facts,
    node,
    node_data,
)
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, uuid_of

WEB = {"uuid": uuid_of("web"), "name": "web"}


def described(**given):
    """Return one node given as data, described."""
    (found,) = node_data.reports([given], "kvm1", {})["kvm1"]
    return found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"vcpu": 4}, "unknown key vcpu .did you mean vcpus... Known: .*vcpus"),
        ({"vcpus": -1}, "vcpus must be a whole number from 0 to 65536, not -1"),
        ({"vcpus": 2147483647}, "vcpus must be a whole number from 0 to 65536, not 2147483647"),
        ({"vcpus": True}, "vcpus must be a whole number"),
        ({"memory_mb": "much"}, "memory_mb must be a whole number of MiB from 0 .*not 'much'"),
        ({"memory_mb": 4096.5}, "memory_mb must be a whole number"),
        ({"local_gb": 2**63}, "local_gb must be"),
        ({"reserved_host_memory_mb": -1}, "reserved_host_memory_mb must be"),
        ({"cpu_allocation_ratio": 0}, "cpu_allocation_ratio must be a number above 0, not 0"),
        ({"ram_allocation_ratio": -1.5}, "ram_allocation_ratio must be a number above 0"),
        ({"disk_allocation_ratio": True}, "disk_allocation_ratio must be a number"),
        ({"disk_allocation_ratio": float("nan")}, "disk_allocation_ratio must be a number"),
        ({"disk_allocation_ratio": float("inf")}, "disk_allocation_ratio must be a number"),
        ({"hypervisor_hostname": ""}, "hypervisor_hostname must be a text of 1 to 255"),
        ({"hypervisor_hostname": "x" * 256}, "hypervisor_hostname must be a text of 1 to 255"),
        ({"host": 7}, "host must be a text"),
        ({"host": None}, "host must be a text"),
        ({"availability_zone": ["az1"]}, "availability_zone must be a text"),
        ({"disk_available_least_gb": "much"}, "disk_available_least_gb must be a whole number"),
        ({"domains": "web"}, "domains must be a list"),
        ({"domains": ["web"]}, "domain 1 needs a uuid and a name"),
        ({"domains": [{"name": "web"}]}, "domain 1 needs a uuid and a name"),
        ({"domains": [{**WEB, "name": ""}]}, "domain 1 needs a uuid and a name"),
        ({"domains": [{**WEB, "uuid": "1"}]}, "domain 1 .*'1' is no uuid"),
        (
            {"domains": [{**WEB, "uuid": WEB["uuid"].upper()}]},
            "domain 1 .*is no uuid in lower case",
        ),
        ({"domains": [{**WEB, "name": 5}]}, "domain 1 .*name must be a text"),
        ({"domains": [{**WEB, "name": "x" * 256}]}, "domain 1 .*name must be a text of 1 to 255"),
        ({"domains": [WEB, domain("db", vcpus=-1)]}, "domain 2 .*vcpus must be a whole number"),
        ({"domains": [{**WEB, "memory_mb": "64"}]}, "domain 1 .*memory_mb must be a whole number"),
        ({"domains": [{**WEB, "disk_gb": -3}]}, "domain 1 .*disk_gb must be a whole number"),
        ({"domains": [{**WEB, "vcpus": 2**31}]}, "domain 1 .*vcpus must be a whole number"),
        ({"domains": [WEB, WEB]}, "domain 2 .*stands twice"),
        ({"traits": "CUSTOM_A"}, "traits must be a list of texts"),
        ({"traits": [1]}, "traits must be a list of texts"),
        ({"hypervisor": "kvm"}, "hypervisor must be a mapping"),
        ({"hypervisor": {}}, "hypervisor_hostname"),
        ({"cpu_shared_set": {}}, "cpu_shared_set"),
        ({"numa_cells": [7]}, "numa_cells must be a list of mappings"),
        ({"numa_cells": [{"id": 0, "memory_mb": 64, "cpus": [0, 1]}]}, "numa_cells, cell 0.*cpus"),
        (
            {"numa_cells": [{"id": 0, "memory_mb": 64}]},
            "numa_cells, cell 0: cpus must be a list of mappings",
        ),
    ],
)
def test_bad_data_is_refused_with_its_place(given, message):
    good = {"host": "kvm0", "vcpus": 1}
    with pytest.raises(DroverError, match=f"nodes, item 2 .*{message}|^(Compute node.*)?{message}"):
        node_data.reports([good, {"host": "kvm1", **given}], "kvm9", {})


def test_a_node_that_is_no_mapping():
    with pytest.raises(DroverError, match="nodes, item 1"):
        node_data.reports(["kvm1"], "kvm9", {})


def test_the_host_of_the_task_is_the_default():
    by_host = node_data.reports(
        [{"vcpus": 1}, {"host": "b"}, {"host": "b", "hypervisor_hostname": "c"}], "a", {}
    )
    names = {
        host: [node["hypervisor_hostname"] for node in nodes] for host, nodes in by_host.items()
    }
    assert names == {"a": ["a"], "b": ["b", "c"]}


def test_options_are_defaults_of_each_node():
    options = {
        "cpu_allocation_ratio": 2.0,
        "reserved_host_cpus": 1,
        "availability_zone": "az1",
        "cell": None,
    }
    nodes = [
        {"host": "a", "vcpus": 4},
        {"host": "b", "vcpus": 4, "cpu_allocation_ratio": 8.0, "availability_zone": "az2"},
    ]
    by_host = node_data.reports(nodes, "x", options)
    ratios = {
        host: nodes[0]["inventories"]["VCPU"]["allocation_ratio"] for host, nodes in by_host.items()
    }
    assert ratios == {"a": 2.0, "b": 8.0}
    assert {host: nodes[0]["availability_zone"] for host, nodes in by_host.items()} == {
        "a": "az1",
        "b": "az2",
    }
    assert by_host["a"][0]["inventories"]["VCPU"]["reserved"] == 1


def test_what_there_is_none_of_has_no_inventory():
    assert set(described(vcpus=2, memory_mb=0)["inventories"]) == {"VCPU"}


def test_the_whole_facts_of_a_hypervisor():
    facts = {
        "hypervisor_hostname": "kvm1.example.com",
        "uri": "qemu:///system",
        "cpu": {"count": 8, "online": [0, 1, 2]},
        "memory_mb": 1024,
        "storage": {"total_gb": 10, "disk_available_least_gb": 7},
        "domains": [domain("web")],
    }
    node_report = described(hypervisor=facts)
    assert node_report["hypervisor_hostname"] == "kvm1.example.com"
    # The node has the name that the operator uses.
    assert node_report["columns"]["migration_uri"] == "qemu+ssh://root@kvm1/system"
    assert node_report["columns"]["disk_available_least"] == 7
    # Offline CPUs do not count.
    assert node_report["inventories"]["VCPU"]["total"] == 3
    assert [row["columns"]["name"] for row in node_report["domains"]] == ["web"]


def test_a_domain_that_libvirt_forgets_when_it_is_off_is_a_warning():
    facts = {
        "hypervisor_hostname": "kvm1",
        "domains": [domain("web"), domain("made", persistent=False)],
    }
    (warning,) = described(hypervisor=facts)["warnings"]
    assert (
        warning.startswith(
            "made on kvm1 is transient: libvirt has no definition, and loses the guest when it is"
            " off."
        )
        and "virsh define" in warning
    )


def test_several_uris_of_one_machine_get_names_of_their_own():
    facts = [
        checked_facts.host({"hypervisor_hostname": name, "uri": f"test:///{number}"}, name)
        for number, name in enumerate("aab")
    ]
    found = [each.name for each in node.distinct_names(facts)]
    assert found == ["a", "a (test:///1)", "b"]


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0", {0}),
        ("0-3,8,^2", {0, 1, 3, 8}),
        (" 1 , 3-4 ", {1, 3, 4}),
        ("^1,0-2", {0, 2}),
        (5, {5}),
    ],
)
def test_cpu_sets_as_nova_writes_them(text, cpus):
    assert node.parse_cpu_set(text, "cpu_shared_set") == cpus


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "1,,2", "1;2", "2-1", "^1", "0-99999999999"])
def test_texts_that_are_no_cpu_set(text):
    with pytest.raises(DroverError, match="cpu_shared_set: "):
        node.parse_cpu_set(text, "cpu_shared_set")
