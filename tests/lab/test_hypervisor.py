# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""drover.compute.hypervisor: with libvirt's lock manager no two hosts open one disk."""

from __future__ import annotations

import pathlib

import pytest
from test_fleet import SHARED, Domain, changed, said

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

#: QEMU's own lock works on the lab's one kernel, and on few kinds of shared storage. This is QEMU
#: without it.
UNLOCKED = """#!/usr/bin/python3
import os, sys
words = [word.replace('"driver":"file"', '"driver":"file","locking":"off"') for word in sys.argv[1:]]
os.execv("/usr/bin/qemu-system-x86_64", ["qemu-system-x86_64", *words])
"""
EMULATOR = f"{SHARED}/qemu-without-locks"


NO_LOCK_MANAGER = """
grep -q '^lock_manager' /etc/libvirt/qemu.conf || exit 0
sed -i /lock_manager/d /etc/libvirt/qemu.conf
kill $(cat /run/libvirtd.pid); while [ -e /run/libvirtd.pid ]; do sleep 0.1; done
setsid /usr/sbin/libvirtd > /dev/null 2>&1 < /dev/null &
until virsh list > /dev/null 2>&1; do sleep 0.2; done
"""


@pytest.fixture
def unlocked(fleet):
    """Define the same domain, shut off, on kvm1 and kvm2. Its QEMU locks nothing, and there is no
    lock manager of an earlier test."""
    fleet.everywhere(NO_LOCK_MANAGER, ["kvm1", "kvm2"])
    folder = pathlib.Path(fleet.lab.layout.shared) / "instances"
    program = folder / "qemu-without-locks"
    program.write_text(UNLOCKED, encoding="ascii")
    program.chmod(0o755)
    domain = Domain("web")
    script = (
        domain.script()
        .replace("<devices>", f"<devices><emulator>{EMULATOR}</emulator>")
        .replace("virsh start web", "true")
    )
    fleet.run("kvm1", script)
    xml = fleet.run("kvm1", "virsh dumpxml web")
    fleet.run("kvm2", f"virsh define /dev/stdin <<'END'\n{xml}\nEND")
    return fleet


def start(fleet, host):
    return fleet.lab.host(host).run("virsh start web")


def test_two_hosts_never_run_one_disk(unlocked):
    fleet = unlocked
    # Without a lock manager both run, and write to one disk.
    assert start(fleet, "kvm1").rc == 0 and start(fleet, "kvm2").rc == 0
    fleet.everywhere("virsh destroy web", ["kvm1", "kvm2"])

    done = fleet.playbook("hypervisor.yml")
    assert changed(done) > 0
    assert changed(fleet.playbook("hypervisor.yml")) == 0

    assert start(fleet, "kvm1").rc == 0
    refused = start(fleet, "kvm2")
    assert refused.rc != 0 and "resource busy" in refused.stderr and "is locked" in refused.stderr
    states = {
        host: [each["state"] for each in found]
        for host, found in fleet.look(["kvm1", "kvm2"]).items()
    }
    assert states == {"kvm1": ["running"], "kvm2": ["shutoff"]}
    fleet.run("kvm2", "virsh undefine web")

    # The lock moves with the instance.
    fleet.playbook("discover")
    fleet.drain("kvm1")
    ((host, state),) = fleet.settled().values()
    assert host != "kvm1" and state == "running"
    xml = fleet.run(host, "virsh dumpxml --inactive web")
    fleet.run("kvm1", f"virsh define /dev/stdin <<'END'\n{xml}\nEND")
    refused = start(fleet, "kvm1")
    assert refused.rc != 0 and "is locked" in refused.stderr
    fleet.run("kvm1", "virsh undefine web")

    # A power failure leaves no lock behind, and the lock daemon runs after the host's return.
    fleet.lab.command("kill", host)
    (other,) = set(fleet.hosts) - {"kvm1", host}
    fleet.run(other, f"virsh define /dev/stdin <<'END'\n{xml}\nEND\nvirsh start web")
    fleet.lab.command("start", host)
    refused = start(fleet, host)
    assert refused.rc != 0 and "is locked" in refused.stderr


def test_sanlock_is_left_alone(fleet):
    """Hosts with different lock managers would not see each other's locks."""
    setting, files = (
        'lock_manager = "sanlock"',
        "cat /etc/libvirt/qemu.conf /etc/libvirt/qemu-lockd.conf 2>&1; cat /run/libvirtd.pid",
    )
    fleet.everywhere(NO_LOCK_MANAGER, ["kvm1"])
    fleet.run(
        "kvm1",
        f"cp /etc/libvirt/qemu.conf /root/before.conf && echo '{setting}' >>"
        " /etc/libvirt/qemu.conf",
    )
    try:
        before = fleet.run("kvm1", files)
        text = fleet.refused("hypervisor.yml", "--limit", "kvm1")
        assert (
            f"kvm1 has {setting} in /etc/libvirt/qemu.conf" in text.replace("\\", "")
            and fleet.run("kvm1", files) == before
        ), text
    finally:
        fleet.run("kvm1", "cp /root/before.conf /etc/libvirt/qemu.conf")


def test_restart_only_when_something_changed(fleet):
    fleet.playbook("hypervisor.yml")
    before = fleet.everywhere("cat /run/libvirtd.pid")
    done = fleet.playbook("hypervisor.yml")
    assert changed(done) == 0 and fleet.everywhere("cat /run/libvirtd.pid") == before
    done = fleet.playbook("hypervisor.yml", "--check")
    assert changed(done) == 0
    fleet.run("kvm2", "sed -i /lock_manager/d /etc/libvirt/qemu.conf")
    assert changed(fleet.playbook("hypervisor.yml")) == 2
    after = fleet.everywhere("cat /run/libvirtd.pid")
    assert [host for host in fleet.hosts if after[host] != before[host]] == ["kvm2"]


#: The machine's own device, as it was before the lab hid it.
UNHIDE = """
umount /dev/kvm && rm -rf /var/cache/libvirt/qemu/capabilities
kill $(cat /run/libvirtd.pid); while [ -e /run/libvirtd.pid ]; do sleep 0.1; done
setsid /usr/sbin/libvirtd > /dev/null 2>&1 < /dev/null &
until virsh list > /dev/null 2>&1; do sleep 0.2; done
"""


@pytest.fixture
def with_kvm_unhidden(fleet):
    """Give kvm1 a /dev/kvm that starts no guest with the host's CPU."""
    if fleet.run("kvm1", "mount | grep -c /dev/kvm || true").strip() == "0":
        pytest.skip("this machine has no /dev/kvm, or one that works")
    try:
        fleet.run("kvm1", UNHIDE)
        yield fleet
    finally:
        # The next test finds the host as after a start.
        fleet.lab.command("kill", "kvm1", check=False)


def test_kvm_that_is_offered_and_does_not_work(with_kvm_unhidden):
    fleet = with_kvm_unhidden
    before = fleet.run(
        "kvm1", "virsh list --all --name; ls /var/lib/libvirt/images /run/libvirt/qemu"
    )
    assert "offers KVM, but no guest starts with it" not in said(
        fleet.playbook("discover", "--limit", "kvm1,localhost")
    )
    done = fleet.playbook("discover", "--limit", "kvm1,localhost", "-e", "drover_probe_kvm=true")
    assert "Host kvm1 offers KVM, but no guest starts with it: " in said(
        done
    ) and "drover_cpu" in said(done)
    text = said(fleet.playbook("check_hypervisor.yml", "--limit", "kvm1", check=False))
    assert "kvm1 offers KVM, but no guest starts with it" in text
    # An operator may choose a host without KVM; then there is no finding.
    done = fleet.playbook(
        "check_hypervisor.yml", "--limit", "kvm1", "-e", "drover_domain_type=qemu"
    )
    assert "KVM is not to be used" in said(done)
    assert (
        fleet.run("kvm1", "virsh list --all --name; ls /var/lib/libvirt/images /run/libvirt/qemu")
        == before
    )
