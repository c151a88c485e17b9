# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Misleading names: a guest with a name like another guest's file, a host with a name like another
host's."""

from __future__ import annotations

import contextlib
import json

import pytest
from test_fleet import LOCAL, SHARED, Domain, said
from test_storage_safety import cdrom, define, disk, images, starts

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

#: Each host's own name; two of them have the inventory name of another host.
OWN_NAMES = {"kvm1": "rack7-node3", "kvm2": "kvm3", "kvm3": "kvm2"}


def image(path, byte):
    """Make an image with content that differs from the others."""
    return (
        f"qemu-img create -q -f qcow2 {path} 8M && qemu-io -f qcow2 -c 'write -q -P {byte} 0 64k'"
        f" {path}"
    )


def has(fleet, host, path, byte):
    """Return True if an image has that content."""
    text = fleet.run(host, f"qemu-io -U -r -f qcow2 -c 'read -P {byte} 0 64k' {path}")
    return "read 65536/65536" in text and "verification failed" not in text


def test_guests_that_are_named_like_files_of_others(fleet):
    """The guest x moves and is deleted, beside guests x.qcow2 and win on other hosts, and a library
    with virtio-win.iso."""
    own, shared, library = f"{LOCAL}/x.qcow2", f"{SHARED}/x.qcow2", f"{LOCAL}/virtio-win.iso"
    images(
        fleet,
        "kvm1",
        image(own, 1),
        image(shared, 3),
        image(f"{LOCAL}/win.qcow2", 4),
        f"echo drivers > {library}",
    )
    images(fleet, "kvm2", image(own, 2))
    define(fleet, "kvm2", "near", disk(own))
    define(fleet, "kvm3", "far", disk(shared))
    define(fleet, "kvm1", "x", disk(own), start=True)
    define(fleet, "kvm1", "win", disk(f"{LOCAL}/win.qcow2") + cdrom(library), start=True)
    fleet.playbook("discover")

    done = fleet.drain("kvm1")
    where = fleet.settled()
    # On kvm2 its disk would have the path of near's disk.
    assert (
        where["x"] == ("kvm3", "running")
        and where["win"][0] != "kvm1"
        and where["win"][1] == "running"
    )
    # near may use this very file: it stays, and is named.
    assert f"{own} (a domain of another hypervisor uses it)" in said(done)
    assert (
        fleet.files(LOCAL, "kvm1") == ["virtio-win.iso", "x.qcow2"]
        and fleet.run("kvm1", f"cat {library}") == "drivers\n"
    )
    assert has(fleet, "kvm3", own, 1) and has(fleet, where["win"][0], f"{LOCAL}/win.qcow2", 4)
    there = fleet.run(where["win"][0], "virsh domblklist win")
    assert library in there and fleet.run(where["win"][0], f"cat {library}") == "drivers\n"

    done = fleet.playbook(
        "instance_delete",
        "-e",
        json.dumps(
            {
                "drover_instances": ["x", "win"],
                "drover_instance_force": True,
                "drover_instance_timeout": 5,
            }
        ),
    )
    assert set(fleet.settled()) == {"near", "far"}, said(done)
    assert fleet.files(LOCAL, "kvm1") == [
        "virtio-win.iso",
        "x.qcow2",
    ] and "virtio-win.iso" in fleet.files(LOCAL, where["win"][0])
    assert f"x: removed no disk. Kept {own}: a domain of another hypervisor uses it." in said(done)
    assert f"win: removed {LOCAL}/win.qcow2. Kept {library}: it is read-only" in said(done)
    assert has(fleet, "kvm2", own, 2) and has(fleet, "kvm3", shared, 3)
    for name, host in (("near", "kvm2"), ("far", "kvm3")):
        starts(fleet, host, name)


@contextlib.contextmanager
def own_names(fleet):
    """Give each host another name than in the inventory; its libvirt uses that name."""

    def call(names):
        for host, name in names.items():
            fleet.run(
                host,
                f"hostname {name} && echo {name} > /etc/hostname && /etc/init.d/libvirtd restart <"
                " /dev/null > /dev/null 2>&1",
            )

    try:
        call(OWN_NAMES)
        yield
    finally:
        call({host: host for host in OWN_NAMES})


def test_hosts_that_call_themselves_by_other_names(empty_fleet):
    """The inventory's name gives the address of a host; another host with that name as its own
    changes nothing."""
    fleet = empty_fleet
    with own_names(fleet):
        assert {host: fleet.run(host, "virsh hostname").strip() for host in OWN_NAMES} == OWN_NAMES
        fleet.make(
            "kvm1",
            Domain("live"),
            Domain("local", folder=LOCAL, written_mb=1),
            Domain("cold", state="shutoff"),
        )
        fleet.make("kvm2", Domain("there", state="shutoff"))
        fleet.playbook("discover")
        assert dict(fleet.query("SELECT host, hypervisor_hostname FROM compute_nodes")) == OWN_NAMES
        done = fleet.drain("kvm1")
        where = fleet.settled()
        assert "kvm1" not in {host for host, dummy in where.values()}, said(done)
        assert {name: state for name, (dummy, state) in where.items()} == {
            "live": "running",
            "local": "running",
            "cold": "shutoff",
            "there": "shutoff",
        }
        assert fleet.files(LOCAL, "kvm1") == [] and fleet.files(LOCAL, where["local"][0]) == [
            "local-0.qcow2"
        ]
        # The guest moves to the two hosts that have each other's names, and back from one of them.
        fleet.playbook("undrain", "-e", "drover_host=kvm1")
        fleet.drain("kvm3")
        where = fleet.settled()
        assert "kvm3" not in {host for host, dummy in where.values()}
        assert fleet.service("kvm3")["maintenance"] and not fleet.service("kvm2")["disabled"]
