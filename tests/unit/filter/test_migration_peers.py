# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ways between hosts for migrations, and the ways that cannot be set up."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.drover.compute.plugins.filter._following import following
from ansible_collections.drover.compute.plugins.filter._migration_peers import migration_peers
from ansible_collections.drover.compute.plugins.filter._whole_fleet import whole_fleet

HOSTS = [f"kvm{number}" for number in range(1, 6)]


def account(user="root", key="A", **more):
    return {"user": user, "public_key": key, "host_keys": ["H"], **more}


def test_each_host_is_as_often_a_destination_as_a_source():
    peers = [{"host": host, "uri": f"qemu+ssh://{host}/system"} for host in HOSTS]
    rings = {host: [each["host"] for each in following(peers, host, 2)] for host in HOSTS}
    assert rings["kvm4"] == ["kvm5", "kvm1"]
    assert all(sum(host in ring for ring in rings.values()) == 2 for host in HOSTS)
    assert following(peers, "kvm2") == [*peers[2:], peers[0]]
    assert following(peers[:1], "kvm1", 32) == []
    # A host that is read with another pattern.
    assert following(peers[:2], "kvm9", 1) == peers[:1]


def test_the_uri_is_that_of_discovery():
    hostvars = {
        "kvm1": {},
        "kvm2": {"drover_migration_uri": "qemu+tls://kvm2/system"},
        "kvm3": {"drover_uris": ["test:///default"]},
        "a host": {},
    }
    peers = migration_peers(
        list(hostvars),
        {host: {"hypervisor_account": account(), **each} for host, each in hostvars.items()},
    )
    assert [each["uri"] for each in peers] == [
        "qemu+ssh://root@kvm1/system",
        "qemu+tls://kvm2/system",
        None,
        None,
    ]


def test_a_wrong_variable_is_that_host_s_error():
    class Wrong(dict):
        def __getitem__(self, name):
            raise AnsibleFilterError(f"{name} is undefined")

    with pytest.raises(AnsibleFilterError, match="undefined"):
        migration_peers(
            ["kvm1", "kvm2"],
            {
                "kvm1": {"hypervisor_account": account()},
                "kvm2": Wrong(drover_migration_uri="{{ nothing }}"),
            },
        )


def test_both_accounts_of_a_host_connect():
    hostvars = {
        "kvm1": {
            "hypervisor_account": account("drover", "A"),
            "hypervisor_root": account("root", "B"),
            "drover_migration_uri": "qemu+ssh://drover@kvm1/system",
            "drover_migration_source": "10.0.0.1",
        },
        # If Ansible is root, the second look was skipped.
        "kvm2": {
            "hypervisor_account": account(key="C"),
            "hypervisor_root": {"changed": False, "skipped": True},
        },
    }
    one, two = migration_peers(["kvm1", "kvm2"], hostvars)
    assert one["keys"] == [
        {"user": "drover", "public_key": "A"},
        {"user": "root", "public_key": "B"},
    ] and one["sources"] == ["10.0.0.1"]
    assert two == {
        "host": "kvm2",
        "uri": "qemu+ssh://root@kvm2/system",
        "keys": [{"user": "root", "public_key": "C"}],
        "host_keys": ["H"],
        "sources": [],
    }


@pytest.mark.parametrize(
    ("variables", "word"),
    [
        (
            {"drover_migration_uri": "qemu+ssh://nova@kvm1/system"},
            "logs in as nova, but Ansible works there as root",
        ),
        ({"drover_migration_uri": "qemu+ssh://root@kvm1/system?keyfile=/x"}, "uses keyfile"),
        (
            {"drover_migration_source": ["10.0.0.1", "kvm1"]},
            "drover_migration_source: 'kvm1' does not appear",
        ),
        ({"drover_migration_source": 5}, "drover_migration_source"),
    ],
)
def test_what_cannot_be_set_up_is_a_sentence(variables, word):
    with pytest.raises(AnsibleFilterError, match=word) as raised:
        migration_peers(["kvm1"], {"kvm1": {"hypervisor_account": account(), **variables}})
    assert str(raised.value).startswith("Host kvm1: ") and "No line was written." in str(
        raised.value
    )


def test_a_key_of_two_hosts_cannot_be_limited_to_one():
    hostvars = {
        name: {"hypervisor_account": account(), "drover_migration_source": f"10.0.0.{name[-1]}"}
        for name in ("kvm1", "kvm2")
    }
    with pytest.raises(AnsibleFilterError, match="kvm1, kvm2 have the same SSH key"):
        migration_peers(["kvm1", "kvm2"], hostvars)
    for variables in hostvars.values():
        variables["drover_migration_source"] = "10.0.0.0/24"
    assert len(migration_peers(["kvm1", "kvm2"], hostvars)) == 2


GROUPS = {"all": ["kvm1", "kvm2", "desk"], "hypervisors": ["kvm1", "kvm2"], "site_a": ["kvm1"]}


@pytest.mark.parametrize("limit", [None, "", "all", "kvm1,kvm2", "hypervisors,localhost", "!desk"])
def test_a_limit_that_leaves_out_nobody(limit):
    assert whole_fleet("hypervisors", limit, GROUPS) == "hypervisors"


@pytest.mark.parametrize("limit", ["kvm1", "localhost", "all,!kvm2", "site_a"])
def test_a_limit_that_leaves_out_a_hypervisor(limit):
    with pytest.raises(
        AnsibleFilterError,
        match=(
            "Nothing was done: --limit .* leaves out .*kvm2, and this playbook needs every"
            " hypervisor"
        ),
    ):
        whole_fleet("hypervisors", limit, GROUPS)
    assert whole_fleet("site_a", "kvm1", GROUPS) == "site_a"
