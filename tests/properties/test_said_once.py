# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fact of many instances is in the output once; the name of a host with one node has no node."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import (
    node_labels,
    said_once,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.resource_classes import (
    size_text,
)
from ansible_collections.drover.compute.plugins.plugin_utils._report import (
    drain,
    placing,
    rolling,
    text,
)


def test_the_same_sentence_for_many_is_one():
    pairs = [(f"web{n}", f"Instance web{n} on kvm1: its size is not known.") for n in range(121)]
    assert said_once(pairs) == [
        "Instance web0 on kvm1: its size is not known. The same for web1, web2 and 118 more."
    ]
    other = ("db", "Instance db on kvm1: its pool does not run.")
    assert said_once([pairs[0], other, pairs[1]]) == [
        "Instance web0 on kvm1: its size is not known. The same for web1.",
        "Instance db on kvm1: its pool does not run.",
    ]


def test_a_refusal_of_a_drain_says_a_reason_once():
    staying = [
        {
            "name": f"web{n}",
            "host": "kvm1",
            "reason": "its network is not on another host",
            "way_out": "make it there",
            "keep_running": False,
        }
        for n in range(5)
    ]
    message = drain.cannot_move(["kvm1"], staying, [])
    assert (
        message.count("its network is not on another host") == 1
        and "The same for web1, web2 and 2 more." in message
    )
    assert message.startswith("5 of the instances of kvm1 cannot move")


def test_walk_f27_a_rolling_maintenance_says_a_reason_once():
    left_out = [
        {
            "host": f"kvm{n}",
            "reason": "it cannot be told whether it needs a reboot: no sign is known",
        }
        for n in range(1, 4)
    ]
    message = rolling.refusal(left_out)
    assert (
        message.count("it cannot be told") == 1
        and "kvm1: it cannot be told whether it needs a reboot: no sign is known. The same for kvm2, kvm3."
        in message
    )


def test_the_audit_says_a_finding_of_many_once():
    findings = [
        {
            "kind": "allocation_missing",
            "name": f"web{n}",
            "provider": None,
            "uuid": f"u{n}",
            "host": "kvm1",
            "why": f"web{n} has no allocation",
            "heal": "gives it one",
            "advice": "Run the audit.",
        }
        for n in range(120)
    ]
    lines = text.audit_table(findings)
    assert (
        len(lines) == 4
        and "web0, web1 and 118 more" in lines[1]
        and "The same for web1, web2 and 117 more." in lines[1]
    )


def test_walk_f20_the_host_alone_where_it_has_one_node():
    """The name was kvm-node01/hv-kvm-node01.example in every table."""
    place = {"host": "kvm-node01", "node": "hv-kvm-node01.example"}
    instance = {
        "name": "web",
        "state": "running",
        **place,
        "vcpus": 1,
        "memory_mb": 64,
        "disk_gb": 1,
    }
    assert "hv-" not in "".join(text.instances_table([instance]))
    selection = {
        "name": "web",
        **place,
        "alternates": [{"host": "kvm-node02", "node": "hv-kvm-node02.example"}],
    }
    assert "hv-" not in "".join(placing.schedule_lines([selection]))
    # A host with two nodes is named with both.
    both = [instance, {**instance, "node": "lxc"}]
    assert "kvm-node01/lxc" in "".join(
        text.instances_table(both)
    ) and "kvm-node01/hv-kvm-node01.example" in "".join(text.instances_table(both))
    assert "kvm-node01/lxc" in "".join(
        text.instances_table(both[1:], [("kvm-node01", "hv-kvm-node01.example")])
    )
    assert node_labels([])("kvm1", "other") == "kvm1"


def test_walk_f22_disks_in_a_named_pool_are_shown():
    """A disk of 2 GiB in the pool san counted "0 GiB"."""
    instance = {
        "name": "web",
        "state": "running",
        "host": "kvm1",
        "node": "kvm1",
        "vcpus": 1,
        "memory_mb": 64,
        "disk_gb": 0,
        "pool_disks": {"san": 2},
    }
    assert (
        "2 GiB san" in text.instances_table([instance])[1]
        and "0 GiB" not in text.instances_table([instance])[1]
    )
    assert "20 GiB + 2 GiB san" in text.instances_table([{**instance, "disk_gb": 20}])[1]
    assert (
        size_text({"VCPU": 2, "MEMORY_MB": 96, "DISK_GB": 0, "CUSTOM_DISK_GB_SAN": 2})
        == "2 vCPU, 96 MiB, 2 GiB in the storage pool san"
    )
    assert size_text({"VCPU": 2, "MEMORY_MB": 96, "DISK_GB": 0}) == "2 vCPU, 96 MiB, 0 GiB"
