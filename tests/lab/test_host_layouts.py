# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts with different layouts work together: libvirtd, libvirt's split daemons, sudo, only IPv6.

kvm1 has libvirtd and Ansible logs in as root; kvm2 has the split daemons; kvm3 has no IPv4 address,
and Ansible uses an account with sudo.
"""

from __future__ import annotations

import os

import labs
import pytest
from lablib import layout as lab_layout
from test_evacuate import extra
from test_fleet import IMAGE, SHARED, Domain, changed, eventually, said

from conftest import run

pytestmark = pytest.mark.long

KINDS = ("--split", "kvm2", "--sudo", "kvm3", "--ipv6", "kvm3")
NETWORK = "<network><name>lan</name><forward mode='bridge'/><bridge name='br0'/></network>"


@pytest.fixture(scope="module")
def layouts(tmp_path_factory):
    """Yield a lab for this file alone, with one host of each layout."""
    with labs.separate(tmp_path_factory.mktemp("layouts") / "lab", *KINDS) as lab:
        yield lab


@pytest.fixture
def fleet(layouts, tmp_path):
    """Return the hosts, empty, and a store that knows them."""
    with labs.emptied(layouts, tmp_path) as fleet:
        yield fleet


def test_the_hosts_are_what_they_are_said_to_be(fleet):
    daemons = fleet.everywhere("ps -e -o comm= | grep -E '^(libvirtd|virt[a-z]+d)$' | sort -u")
    assert daemons["kvm1"].split() == ["libvirtd"] and "libvirtd" not in daemons["kvm2"].split()
    assert set(lab_layout.SPLIT_DAEMONS) <= set(daemons["kvm2"].split())
    assert "inet " not in fleet.run("kvm3", "ip address show br0")
    config = os.fspath(fleet.lab.layout.ssh_config)
    assert run(
        ["ssh", "-F", config, "-l", "drover", "kvm3", "id -un; sudo -n id -un"]
    ).stdout.split() == ["drover", "root"]
    assert fleet.query("SELECT count(*) FROM services WHERE last_error IS NULL") == [(3,)]


@pytest.mark.parametrize("source", ["kvm1", "kvm2", "kvm3"])
def test_place_and_move_to_each_other_host(fleet, source):
    """Instances with a shared disk and with a local one; both move live to both other hosts and
    back."""
    fleet.everywhere(
        f'virsh net-info lan > /dev/null 2>&1 || {{ echo "{NETWORK}" > /root/lan.xml && virsh'
        " net-define /root/lan.xml; }"
    )
    fleet.everywhere("virsh net-start lan > /dev/null 2>&1; virsh net-list --name | grep -qx lan")
    there = {"requested_destination": {"host": source}}
    definitions = [
        {
            "name": "web",
            "memory_mb": 64,
            **there,
            "disks": [{"size_gb": 1, "image": IMAGE}],
            "networks": [{"network": "lan"}],
        },
        {
            "name": "db",
            "memory_mb": 64,
            **there,
            "disks": [{"size_gb": 1, "path": "/var/lib/libvirt/images/db.qcow2"}],
        },
    ]
    fleet.place(definitions)
    assert fleet.settled() == dict.fromkeys(("web", "db"), (source, "running"))
    for destination in sorted(set(fleet.hosts) - {source}):
        for there in (destination, source):
            for name in ("web", "db"):
                fleet.playbook(
                    "instance_migrate",
                    "-e",
                    f"drover_instance={name}",
                    "-e",
                    f"drover_destination={there}",
                )
            assert fleet.settled() == dict.fromkeys(("web", "db"), (there, "running"))


@pytest.mark.parametrize("source", ["kvm1", "kvm2", "kvm3"])
def test_drain_and_back(fleet, source):
    fleet.make(source, Domain("a"), Domain("b", state="shutoff"))
    fleet.playbook("discover")
    fleet.drain(source)
    assert all(host != source for host, dummy in fleet.settled().values())
    assert fleet.service(source)["maintenance"]
    fleet.playbook("undrain", "-e", f"drover_host={source}")
    assert not fleet.service(source)["maintenance"]


@pytest.mark.parametrize(
    ("dead", "destination"), [("kvm1", "kvm2"), ("kvm2", "kvm3"), ("kvm3", "kvm1")]
)
def test_evacuated_and_deleted(fleet, dead, destination):
    """Each layout dies once, and each gets once the guest of another layout; there it is deleted,
    with its disk."""
    (third,) = set(fleet.hosts) - {dead, destination}
    definition = {
        "name": "web",
        "memory_mb": 64,
        "disks": [{"size_gb": 1, "image": IMAGE}],
        "requested_destination": {"host": dead},
    }
    fleet.place([definition])
    fleet.playbook("discover", *extra())
    assert fleet.settled() == {"web": (dead, "running")}
    (disk,) = fleet.look()[dead][0]["disks"]
    fleet.playbook("host_disable", "-e", f"drover_host={third}")
    fleet.lab.command("kill", dead)
    fleet.playbook("discover", *extra(), "--limit", f"{dead},localhost", check=False)
    done = fleet.playbook(
        "evacuate", *extra(drover_host=dead, drover_host_is_off=f"{dead} is powered off")
    )
    assert fleet.where([destination, third]) == {"web": (destination, "running")}, said(done)

    fleet.lab.command("start", dead)
    fleet.playbook("undrain", *extra(drover_host=dead))
    assert fleet.settled() == {"web": (destination, "running")} and fleet.look()[destination][0][
        "disks"
    ] == [disk]
    done = fleet.delete("web")
    assert (
        fleet.settled() == {}
        and disk.startswith(SHARED)
        and disk.rpartition("/")[2] not in fleet.files(SHARED)
    ), said(done)


def test_the_role_hypervisor_restarts_the_daemon_that_is_there(fleet):
    """The run has no drover_libvirt_service; a running guest continues."""
    fleet.everywhere(
        "sed -i /lock_manager/d /etc/libvirt/qemu.conf; service $(basename $(ls"
        " /etc/init.d/virtqemud /etc/init.d/libvirtd 2>/dev/null)) restart"
    )
    fleet.make("kvm2", Domain("web"))
    pids = "cat /run/libvirtd.pid /run/virtqemud.pid 2>/dev/null; true"
    before = fleet.everywhere(pids)
    assert changed(fleet.playbook("hypervisor.yml")) > 0
    after = fleet.everywhere(pids)
    assert all(before[host] != after[host] for host in fleet.hosts)
    assert fleet.where() == {"web": ("kvm2", "running")}
    assert changed(fleet.playbook("hypervisor.yml")) == 0 and fleet.everywhere(pids) == after


def test_a_daemon_that_dies_is_said_so_and_a_drain_afterwards_works(fleet):
    fleet.make("kvm2", Domain("web"))
    fleet.playbook("discover")
    fleet.run("kvm2", "kill -9 $(cat /run/virtqemud.pid)")
    seen = said(fleet.playbook("discover", check=False))
    assert "kvm2" in seen and "Traceback" not in seen, seen
    assert fleet.service("kvm2")["last_error"]
    fleet.run("kvm2", "service virtqemud start")
    eventually(lambda: fleet.lab.host("kvm2").run("virsh list").rc == 0)
    fleet.playbook("discover")
    fleet.drain("kvm2")
    ((host, state),) = fleet.settled().values()
    assert host != "kvm2" and state == "running"


def test_check_and_trust(fleet):
    """SSH between the hosts is checked by names that stand for IPv6 addresses too."""
    done = fleet.playbook("check")
    assert "errors: 0" in said(done) or "nothing was found" in said(done), said(done)
    fleet.playbook("migration_trust")
    fleet.drain("kvm3")


def test_a_daemon_that_is_not_installed(fleet):
    """Without virtstoraged the host moves its guests away and deletes them; only an operation that
    needs the daemon names it."""
    placement = {"requested_destination": {"host": "kvm2"}}
    disks = {
        name: {"size_gb": 1, "image": IMAGE, "path": f"/var/lib/libvirt/images/{name}.qcow2"}
        for name in ("gone", "stays")
    }
    fleet.place(
        [
            {"name": name, "memory_mb": 64, **placement, "disks": [disk]}
            for name, disk in disks.items()
        ]
    )
    fleet.run(
        "kvm2",
        "kill $(cat /run/virtstoraged.pid) && sleep 1 && mount --bind /dev/null"
        " /usr/sbin/virtstoraged",
    )
    try:
        # The lab builds no virtinterfaced.
        for driver in ("storage", "interface"):
            for name in ("discover", "check"):
                text = said(fleet.playbook(name))
                assert (
                    f"kvm2: its libvirt has no {driver} driver: " in text
                    and f"systemctl enable --now virt{driver}d.socket" in text
                ), text
        fleet.delete("gone")
        assert fleet.run("kvm2", "ls /var/lib/libvirt/images | grep -v base").split() == [
            "stays.qcow2"
        ]
        fleet.drain("kvm2")
        host, state = fleet.settled()["stays"]
        assert host != "kvm2" and state == "running"
        fleet.playbook("undrain", "-e", "drover_host=kvm2")
        text = fleet.refused(
            "instance_migrate", *extra(drover_instance="stays", drover_destination="kvm2")
        )
        assert (
            "libvirt on kvm2 has no storage driver: install " in text
            and "virtstoraged.socket" in text
        ), text
    finally:
        fleet.run(
            "kvm2",
            "umount /usr/sbin/virtstoraged; /usr/sbin/virtstoraged -d && virsh pool-list --all",
        )
