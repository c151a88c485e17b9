# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports about the connections between hosts: they contain only connections that were tried."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ansible_collections.drover.compute.plugins.filter._migration_connections import (
    migration_connections,
)

TEST = {"drover_uris": ["test:///default"]}


def reached(tried, unreached=(), **more):
    sentences = [f"a host cannot reach {host}: no SSH key." for host in unreached]
    return {
        "hypervisor_reach": {
            "tried": list(tried),
            "unreached": list(unreached),
            "sentences": sentences,
        },
        **more,
    }


def test_all_work():
    hostvars = {
        "kvm1": reached(["kvm2"]),
        "kvm2": reached(["kvm1"], hypervisor_root_reach={"changed": False, "skipped": True}),
    }
    assert migration_connections(["kvm1", "kvm2"], hostvars) == [
        "2 connections were tried as a migration makes them, and all work."
    ]
    hostvars["kvm2"]["hypervisor_root_reach"] = reached(["kvm1"])["hypervisor_reach"]
    assert migration_connections(["kvm1", "kvm2"], hostvars)[0].startswith(
        "3 connections were tried "
    )


def test_some_do_not_work():
    hostvars = {"kvm1": reached(["kvm2"], ["kvm2"]), "kvm2": reached(["kvm1"])}
    assert migration_connections(["kvm1", "kvm2"], hostvars) == [
        "a host cannot reach kvm2: no SSH key.",
        "2 connections were tried as a migration makes them; 1 does not work.",
    ]


def test_a_host_alone():
    assert migration_connections(["kvm1"], {"kvm1": reached([])}) == [
        "No connection was tried: kvm1 is the only host."
    ]


def test_hosts_to_which_nothing_was_connected():
    hostvars = {"kvm1": reached([], **TEST), "kvm2": reached([], **TEST)}
    assert migration_connections(["kvm1", "kvm2"], hostvars) == [
        "No connection was tried.",
        (
            "No connection to kvm1, kvm2: the first URI in drover_uris is no QEMU, and there is no"
            " drover_migration_uri."
        ),
    ]

    class Wrong(dict):
        def __getitem__(self, name):
            if name == "drover_migration_uri":
                raise AnsibleFilterError("nothing is undefined")
            return super().__getitem__(name)

    hostvars = {
        "kvm1": reached([], drover_uris=["test:///default"]),
        "kvm2": reached(["kvm3"]),
        "kvm3": reached(["kvm2"]),
        "a host": reached(["kvm2", "kvm3"]),
        "kvm9": Wrong(reached(["kvm2", "kvm3"]), drover_migration_uri="{{ nothing }}"),
    }
    assert migration_connections(list(hostvars), hostvars) == [
        "6 connections were tried as a migration makes them, and all work.",
        (
            "No connection to kvm1: the first URI in drover_uris is no QEMU, and there is no"
            " drover_migration_uri."
        ),
        (
            "No connection to a host: its name is no name that SSH can reach, and there is no"
            " drover_migration_uri."
        ),
        (
            "No connection to kvm9: its drover_migration_uri or drover_uris cannot be read: nothing"
            " is undefined."
        ),
    ]
