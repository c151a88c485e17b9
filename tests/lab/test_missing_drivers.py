# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host with a libvirt that lacks a driver: the driver is named with its package, and only an
operation that needs it fails."""

from __future__ import annotations

import contextlib
import pathlib

import pytest
from test_fleet import IMAGE, LOCAL, Domain, said

from ansible_collections.drover.compute.plugins.module_utils._files import system
from ansible_collections.drover.compute.plugins.module_utils._libvirt.drivers import DRIVERS

pytest_plugins = ["test_fleet"]
pytestmark = pytest.mark.long

#: The libvirtd of a host loads its drivers from this folder.
FOLDER = "$(dirname $(find /usr/lib /usr/lib64 -name libvirt_driver_qemu.so | head -n 1))"
HIDE = """set -e
folder={folder}
mkdir -p /run/drivers
cp -a $folder/. /run/drivers/
rm /run/drivers/libvirt_driver_{driver}.so
mount --bind /run/drivers $folder
service libvirtd restart
virsh list
"""
SHOW = f"umount --lazy {FOLDER}; rm -rf /run/drivers; service libvirtd restart && virsh list"

UUID = "00000000-0000-4000-8000-00000000000{}"
#: Devices of a guest that need a driver.
DEVICES = {
    "network": "<interface type='network'><source network='lan'/></interface>",
    "nwfilter": "<interface type='ethernet'><filterref filter='own'/></interface>",
    "secret": (
        "<disk type='network'><driver name='qemu'/><auth username='u'><secret type='ceph'"
        " uuid='00000000-0000-4000-8000-000000000009'/></auth><source protocol='rbd'"
        " name='vms/web'><host name='192.0.2.1'/></source><target dev='vda'/></disk>"
    ),
    "storage": (
        "<disk type='file'><driver name='qemu' type='qcow2'/><source"
        f" file='{LOCAL}/needs.qcow2'/><target dev='vda'/></disk>"
    ),
}
#: The resources for them on the other hosts.
THERE = {
    "network": (
        "echo \"<network><name>lan</name><forward mode='bridge'/><bridge name='lo'/></network>\" >"
        " /run/x && virsh net-define /run/x"
    ),
    "nwfilter": "echo \"<filter name='own'/>\" > /run/x && virsh nwfilter-define /run/x",
    "secret": (
        'echo "<secret><uuid>00000000-0000-4000-8000-000000000009</uuid><usage'
        " type='ceph'><name>u</name></usage></secret>\" > /run/x && virsh secret-define /run/x"
    ),
    "storage": "true",
}
GONE = (
    "virsh net-destroy lan; virsh net-undefine lan; virsh nwfilter-undefine own; virsh"
    " secret-undefine 00000000-0000-4000-8000-000000000009; true"
)


@contextlib.contextmanager
def without(fleet, host, driver):
    """Restart the libvirtd of a host without a driver."""
    fleet.run(host, HIDE.format(folder=FOLDER, driver=driver))
    try:
        yield
    finally:
        fleet.run(host, SHOW)


def package(driver):
    """Return the package of the machine with the libvirt of the lab's hosts."""
    if system.names() & {"debian", "ubuntu"}:
        changelog = pathlib.Path("/usr/share/doc/libvirt-daemon-driver-storage")
        return f"libvirt-daemon-driver-{driver}" if changelog.exists() else "libvirt-daemon"
    return f"libvirt-daemon-driver-{'storage-core' if driver == 'storage' else driver}"


@pytest.mark.parametrize("driver", DRIVERS)
def test_all_that_does_not_need_it_works(fleet, driver):
    with without(fleet, "kvm2", driver):
        names = (
            f"kvm2: its libvirt has no {driver} driver: {DRIVERS[driver].lost}. Install"
            f" {package(driver)} there, and restart libvirtd"
        )
        assert names in said(fleet.playbook("discover"))
        text = said(fleet.playbook("check"))
        assert f"warning {names}" in text and "errors: 0" in text, text
        fleet.place(
            [
                {
                    "name": f"web-{host}",
                    "requested_destination": {"host": host},
                    "memory_mb": 64,
                    "disks": [{"size_gb": 1, "image": IMAGE}],
                }
                for host in fleet.hosts
            ]
        )
        assert fleet.settled() == {f"web-{host}": (host, "running") for host in fleet.hosts}
        # Its guest leaves, even with a local disk, and the host is empty at the end.
        fleet.drain("kvm2")
        assert "kvm2" not in {host for host, _state in fleet.settled().values()}
        fleet.playbook("undrain", "-e", "drover_host=kvm2")
        # Guests of other hosts avoid the host, or go there.
        fleet.drain("kvm1")
        places = fleet.settled()
        assert "kvm1" not in {host for host, _state in places.values()}
        if driver != "storage":
            assert "kvm2" in {host for host, _state in places.values()}
        fleet.playbook("undrain", "-e", "drover_host=kvm1")
        for name in places:
            fleet.delete(name)
        assert fleet.where() == {}


@pytest.mark.parametrize("driver", DEVICES)
def test_what_needs_it_says_so(fleet, driver):
    fleet.everywhere(THERE[driver], ["kvm1", "kvm3"])
    with without(fleet, "kvm2", driver):
        fleet.run("kvm1", f"qemu-img create -q -f qcow2 {LOCAL}/needs.qcow2 1G")
        xml = (
            f"<domain type='qemu'><name>needs</name><uuid>{UUID.format(1)}</uuid><memory"
            " unit='MiB'>64</memory><vcpu>1</vcpu><os><type arch='x86_64'"
            f" machine='q35'>hvm</type></os><devices>{DEVICES[driver]}</devices></domain>"
        )
        fleet.run("kvm1", f"cat > /run/needs.xml <<'END'\n{xml}\nEND\nvirsh define /run/needs.xml")
        try:
            fleet.playbook("discover")
            text = fleet.refused(
                "instance_migrate", "-e", "drover_instance=needs", "-e", "drover_destination=kvm2"
            )
            assert (
                f"libvirt on kvm2 has no {driver} driver: install " in text
                and package(driver) in text
            ), text
            assert "not supported by the connection driver" not in text, text
            assert fleet.where()["needs"] == ("kvm1", "shutoff")
            if driver != "storage":
                output = said(fleet.playbook("check"))
                remedy = (
                    f"which needs uses: no move to here. Install {package(driver)} there, and"
                    " restart libvirtd"
                )
                assert (
                    f"kvm2: it lacks the {'network filter' if driver == 'nwfilter' else driver} "
                    in output
                    and remedy in output
                ), output
        finally:
            fleet.run("kvm1", "virsh undefine needs")
            fleet.everywhere(GONE, ["kvm1", "kvm3"])


def test_a_drain_says_which_host_lacks_the_storage_driver(fleet):
    fleet.make("kvm1", Domain("web", folder=LOCAL))
    fleet.playbook("discover")
    fleet.drain("kvm3")
    with without(fleet, "kvm2", "storage"):
        fleet.playbook("discover")
        text = said(fleet.drain("kvm1", check=False))
        assert (
            "libvirt on kvm2 has no storage driver: install " in text and package("storage") in text
        ), text
        assert "not supported by the connection driver" not in text, text
        assert fleet.where()["web"] == ("kvm1", "running")
    fleet.drain("kvm1")
    assert fleet.settled()["web"] == ("kvm2", "running")
