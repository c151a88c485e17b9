# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings of drover.compute.check and discover between hosts, caused by the test: names, uuids,
addresses of migrations."""

from __future__ import annotations

import json

import pytest
from guests import Full
from test_fleet import Domain, said

pytest_plugins = ["test_fleet"]
pytestmark = pytest.mark.long

RESTART = (
    "service $(basename $(ls /etc/init.d/virtqemud /etc/init.d/libvirtd 2>/dev/null)) restart &&"
    " virsh list"
)


def address(fleet, host):
    return fleet.run(host, "hostname -I").split()[0]


def with_address(fleet, host, other):
    """Return the variables of a run with this drover_migration_address for one host, and the hosts'
    own addresses for the others."""
    own = {name: address(fleet, name) for name in fleet.hosts}
    addresses = {**own, host: other}
    return (
        "-e",
        json.dumps(
            {"drover_migration_address": f"{{{{ {addresses!r}.get(inventory_hostname, '') }}}}"}
        ),
    )


def test_an_address_that_is_not_of_its_host(fleet):
    own, other = address(fleet, "kvm1"), address(fleet, "kvm2")
    assert "migration_address" not in said(
        fleet.playbook("check", *with_address(fleet, "kvm1", own))
    )
    done = fleet.playbook("check", *with_address(fleet, "kvm1", other), check=False)
    assert (
        f"error kvm1: its drover_migration_address {other} is {other}, which is no address of it"
        " (seen from kvm2, kvm3)." in said(done)
    )
    assert done.returncode == 2
    done = fleet.playbook("check", *with_address(fleet, "kvm1", "nowhere.invalid"), check=False)
    assert (
        "error kvm1: its drover_migration_address nowhere.invalid cannot be resolved (seen from"
        " kvm2, kvm3)." in said(done)
    ), said(done)

    seen = said(fleet.playbook("discover", *with_address(fleet, "kvm1", other)))
    assert f"kvm1: its drover_migration_address is {other}, which is no address of it." in seen, (
        seen
    )
    assert "migration_address" not in said(fleet.playbook("discover"))


def test_an_address_that_does_not_answer(fleet):
    """A second address of kvm1, without a listener on its port of SSH."""
    fleet.run("kvm1", "ip address add 198.51.100.7/32 dev lo")
    try:
        done = fleet.playbook("check", *with_address(fleet, "kvm1", "198.51.100.7"))
        assert (
            "warning kvm1: its drover_migration_address 198.51.100.7 does not answer (seen from"
            " kvm2, kvm3)." in said(done)
        ), said(done)
    finally:
        fleet.run("kvm1", "ip address del 198.51.100.7/32 dev lo")


def test_hosts_that_libvirt_takes_for_one(fleet):
    uuid = fleet.run(
        "kvm1", "virsh capabilities | grep -m1 -o '<uuid>[^<]*' | cut -d'>' -f2"
    ).strip()
    fleet.run(
        "kvm2",
        "cp /etc/libvirt/libvirtd.conf /root/kept.conf && sed -i 's/^host_uuid.*/host_uuid ="
        f' "{uuid}"/\' /etc/libvirt/libvirtd.conf',
    )
    name = fleet.run("kvm3", "hostname").strip()
    fleet.run("kvm3", "hostname kvm1")
    fleet.everywhere(RESTART, ["kvm2", "kvm3"])
    try:
        done = fleet.playbook("check", check=False)
        seen = said(done)
        assert (
            done.returncode == 2
            and f"error kvm1, kvm2: they have the same host uuid {uuid}: libvirt refuses moves between them."
            in seen
        ), seen
        assert (
            "error kvm1, kvm3: they have the same host name kvm1: libvirt refuses moves between"
            " them." in seen
        ), seen
        assert (
            "warning kvm3: its host name is kvm1, which is another host of the inventory." in seen
        ), seen
        seen = said(fleet.playbook("discover", check=False))
        assert f"kvm1, kvm2: they have the same host uuid {uuid}" in seen, seen
    finally:
        fleet.run("kvm2", "cp /root/kept.conf /etc/libvirt/libvirtd.conf")
        fleet.run("kvm3", f"hostname {name}")
        fleet.everywhere(RESTART, ["kvm2", "kvm3"])
    done = fleet.playbook("check")
    assert "same host" not in said(done) and "host name is" not in said(done), said(done)
    fleet.playbook("discover")


def test_a_pool_without_room_that_then_does_not_run(fleet):
    fleet.run(
        "kvm2",
        "mkdir -p /srv/small && mount -t tmpfs -o size=16M tmpfs /srv/small && virsh pool-define-as"
        " small dir --target /srv/small && virsh pool-start small && virsh pool-autostart small",
    )
    try:
        seen = said(fleet.playbook("check"))
        assert "warning kvm2: its storage pool small has 0.0 GiB left." in seen, seen
        fleet.run("kvm2", "virsh pool-destroy small")
        seen = said(fleet.playbook("check"))
        assert (
            "warning kvm2: its storage pool small starts with the host, but is stopped. Start it:"
            " virsh pool-start small." in seen
        ), seen
    finally:
        fleet.run(
            "kvm2",
            "virsh pool-destroy small; virsh pool-undefine small; umount /srv/small; rmdir"
            " /srv/small",
        )


def test_an_instances_path_without_room(fleet):
    fleet.run("kvm2", "mkdir -p /srv/small && mount -t tmpfs -o size=16M tmpfs /srv/small")
    try:
        done = fleet.playbook("check", "-e", '{"drover_instances_path": "/srv/small"}', check=False)
        assert (
            done.returncode == 2
            and "error kvm2: the folder of its instances has 0.0 GiB left." in said(done)
        ), said(done)
    finally:
        fleet.run("kvm2", "umount /srv/small; rmdir /srv/small")


def test_guests_that_cannot_move_in_the_time_that_they_have(fleet):
    fleet.make("kvm1", Full("web"))
    migration_options = {"bandwidth_mib": 1, "timeout_per_gib": 10}
    seen = said(fleet.playbook("check", "-e", json.dumps({"drover_migration": migration_options})))
    assert (
        "warning kvm1: with bandwidth_mib 1 of drover_migration, a migration of web can take longer"
        " than it may (10 s for each GiB)." in seen
    )
    # The finding is right.
    fleet.playbook("discover")
    done = fleet.drain("kvm1", check=False, drover_migration=migration_options)
    assert done.returncode == 2 and "was aborted: allow more time, bandwidth" in said(done), said(
        done
    )


def test_a_bridge_that_other_hosts_lack(fleet):
    fleet.run("kvm1", "ip link add br7 type bridge")
    fleet.make("kvm1", Domain("web", state="shutoff"))
    try:
        fleet.run("kvm1", "virsh attach-interface web bridge br7 --config")
        seen = said(fleet.playbook("check"))
        assert (
            "warning kvm2, kvm3: it lacks the bridge or interface br7, which web uses: no move to"
            " here." in seen
        ), seen
    finally:
        fleet.run("kvm1", "ip link del br7")
