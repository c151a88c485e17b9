# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hostile B3 and B5 on real hypervisors: domains that a person defines after the last discovery,
and one file under two names."""

from __future__ import annotations

import json

import pytest
from test_fleet import DISK, DOMAIN, LOCAL, SHARED, Domain

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

#: A bind mount that only kvm2 has.
ALIAS = "/run/alias"


def define(fleet, host, name, *paths):
    """Define a domain by hand that is off, with these disks."""
    disks = "".join(
        DISK.format(path=path, target=f"vd{'abcdef'[number]}") for number, path in enumerate(paths)
    )
    values = {
        "name": name,
        "uuid": Domain(name).uuid,
        "memory_mb": 64,
        "vcpus": 1,
        "metadata": "",
        "disks": disks,
    }
    fleet.run(host, f"virsh define /dev/stdin <<'END'\n{DOMAIN.format(**values)}\nEND")


def said(done):
    return " ".join((done.stdout + done.stderr).split())


def is_there(fleet, path, host="kvm1"):
    return fleet.run(host, f"test -e {path} && echo yes || echo no").strip() == "yes"


def delete(fleet, *words, check=True):
    return fleet.playbook("instance_delete", "-e", "drover_instance=web", *words, check=check)


@pytest.fixture
def web(fleet):
    """Make web, which is off on kvm1, and return its disk; the store knows no more domains."""
    fleet.make("kvm1", Domain("web", state="shutoff"))
    fleet.playbook("discover")
    return f"{SHARED}/web-0.qcow2"


def test_a_disk_that_another_host_has_since_stays(fleet, web):
    define(fleet, "kvm2", "other", web)
    assert "on kvm2 the domain other uses it" in said(delete(fleet)) and is_there(fleet, web)


def test_the_base_of_a_disk_of_another_host_stays(fleet, web):
    kid = f"{LOCAL}/kid.qcow2"
    fleet.run("kvm2", f"qemu-img create -q -f qcow2 -b {web} -F qcow2 {kid}")
    define(fleet, "kvm2", "kid", kid)
    assert "on kvm2" in said(delete(fleet)) and is_there(fleet, web)


def test_an_image_of_no_domain_on_the_disk_of_another_host_keeps_its_base(fleet, web):
    fleet.run("kvm2", f"qemu-img create -q -f qcow2 -b {web} -F qcow2 {LOCAL}/kid.qcow2")
    assert "on kvm2" in said(delete(fleet)) and is_there(fleet, web)


def test_a_disk_that_a_silent_host_may_need_stays_and_a_local_one_goes(fleet, web):
    fleet.make("kvm1", Domain("local", state="shutoff", folder=LOCAL))
    fleet.playbook("discover")
    fleet.run("kvm2", "kill -STOP $(cat /run/libvirtd.pid)")
    try:
        done = delete(fleet)
        assert "drover_absent_hosts=kvm2" in said(done) and is_there(fleet, web)
        fleet.playbook("instance_delete", "-e", "drover_instance=local")
        assert not is_there(fleet, f"{LOCAL}/local-0.qcow2")
    finally:
        fleet.run("kvm2", "kill -CONT $(cat /run/libvirtd.pid)")


def test_a_disk_that_nobody_else_needs_goes(fleet, web):
    define(fleet, "kvm2", "other", f"{SHARED}/other.qcow2")
    fleet.run("kvm2", f"qemu-img create -q -f qcow2 {SHARED}/other.qcow2 1M")
    delete(fleet)
    assert not is_there(fleet, web)


def test_a_bind_mount_of_anothers_disk_is_not_given_away(fleet, web):
    fleet.run("kvm2", f"mkdir -p {ALIAS} && mount --bind {SHARED} {ALIAS}")
    try:
        definition = {
            "name": "thief",
            "memory_mb": 64,
            "disks": [{"source": {"path": f"{ALIAS}/web-0.qcow2"}, "size_gb": 1}],
            "requested_destination": {"host": "kvm2"},
        }
        given = json.dumps({"drover_instance_definitions": [definition]})
        done = fleet.playbook("place", "-e", given, check=False)
        assert done.returncode == 2 and "on kvm1 the domain web uses it" in said(done), said(done)[
            -3000:
        ]
        assert [each["name"] for each in fleet.look(["kvm2"])["kvm2"]] == []
    finally:
        fleet.run("kvm2", f"umount {ALIAS}")
