# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""drover.compute.evacuate for a host that does not answer and is not dead (rules S2, S3 and
S13).
"""

from __future__ import annotations

import contextlib

import pytest
from lablib import layout as lab_layout
from lablib.layout import SWITCH_ADDRESS
from test_evacuate import (
    copies,
    discover,
    evacuate,
    migrations,
    refused,
)  # noqa: F401  pylint: disable=unused-import
from test_fleet import LOCAL, Domain, eventually, said
from test_power import has_power
from trouble import hanging

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]


@pytest.fixture
def web(sharing):  # noqa: F811  pylint: disable=redefined-outer-name
    """Make an instance on kvm1 that the store knows."""
    domain = Domain("web")
    sharing.make("kvm1", domain)
    discover(sharing)
    return domain


@contextlib.contextmanager
def cut_from_the_controller(fleet):
    """Let kvm1 stop answering this machine; the other hosts still reach it."""
    # The command goes through another host, because the answer would not arrive here.
    fleet.run("kvm2", f"ssh kvm1 ip route add blackhole {SWITCH_ADDRESS}/32")
    try:
        yield
    finally:
        fleet.run("kvm2", f"ssh kvm1 ip route del blackhole {SWITCH_ADDRESS}/32")


def cut_off(fleet):
    """Let kvm1 answer nobody."""
    # The answer of this command does not arrive either: ssh waits three times this long for it.
    fleet.run("kvm2", "ssh -o ServerAliveInterval=5 kvm1 ip link set eth0 down; true")


@contextlib.contextmanager
def power_cut_in_the_end(fleet):
    """Cut the power of kvm1 at the end: the next test finds it as after a start."""
    try:
        yield
    finally:
        fleet.lab.command("kill", "kvm1", check=False)


def unseen(fleet):
    discover(fleet, "--limit", "kvm1,localhost", check=False)
    assert fleet.service("kvm1")["last_error"]


def untouched(fleet, *domains):
    assert copies(*domains) == [True] * len(domains) and has_power(fleet)
    assert migrations(fleet) == [] and fleet.query("SELECT * FROM leases") == []
    assert not fleet.service("kvm1")["forced_down"] and not fleet.service("kvm1")["disabled"]


def test_only_the_controllers_network_is_cut(with_bmcs, fleet, web):
    with cut_from_the_controller(fleet):
        unseen(fleet)
        text = refused(fleet)
        assert (
            "kvm2 and kvm3 can reach it" in text
            and "only the network between this controller and it is broken" in text
        )
        assert (
            "drover_evacuate_force=peers_reach" in text and "Nothing was started elsewhere" in text
        )
        untouched(fleet, web)
        # A person wrongly says that the host is off.
        text = refused(fleet, drover_host_is_off="kvm1 is powered off")
        assert "You say that kvm1 is powered off, but kvm2 and kvm3 can reach it" in text
        # The output shows the plan, with that sentence.
        done = evacuate(fleet, "--check", check=False)
        assert (
            done.returncode == 2
            and "can reach it" in said(done)
            and "web kvm1 -> kvm" in said(done)
        )
        # Another rule's flag does not lift it.
        assert "drover_evacuate_force=peers_reach" in refused(
            fleet, drover_evacuate_force="many_down,storage_active"
        )
        untouched(fleet, web)
    discover(fleet)
    assert fleet.settled() == {"web": ("kvm1", "running")}


def test_its_network_is_cut_and_its_disks_are_in_use(with_bmcs, fleet, web):
    """The controller does not reach it, and it runs: the locks on shared storage prove that. Then
    an operator cuts its power."""
    with power_cut_in_the_end(fleet):
        cut_off(fleet)
        unseen(fleet)
        text = refused(fleet)
        assert (
            "disks of its instances are in use" in text
            and "drover_evacuate_force=storage_active" in text
        )
        untouched(fleet, web)
        done = evacuate(fleet, drover_evacuate_force="storage_active")
        assert (
            "1 instance restarted, 0 not" in said(done)
            and copies(web) == [True]
            and not has_power(fleet)
        )
        ((host, state),) = fleet.where(["kvm2", "kvm3"]).values()
        assert host in ("kvm2", "kvm3") and state == "running"


def test_safety_13_a_persons_word_does_not_outweigh_locks(with_bmcs, fleet, web):
    """A person has switched off another machine: the guest continues to run, and its disk is
    locked."""
    with power_cut_in_the_end(fleet):
        cut_off(fleet)
        unseen(fleet)
        text = refused(
            fleet, drover_host_is_off="kvm1 is powered off", drover_evacuate_force="driver_says_on"
        )
        assert (
            "disks of its instances are in use" in text
            and "drover_evacuate_force=storage_active" in text
        )
        untouched(fleet, web)


def test_libvirt_alone_is_dead(fleet, web):
    """Its libvirt is restarted, and its guests continue."""
    pid = fleet.run("kvm1", "cat /run/libvirt/qemu/web.pid")
    fleet.run("kvm1", "kill -9 $(cat /run/libvirtd.pid)")
    unseen(fleet)
    restarted(fleet)
    came_back(fleet, pid)


def restarted(fleet):
    """An evacuation restarts the libvirt of kvm1, because only libvirt is dead, and does nothing
    else."""
    done = evacuate(fleet, "--check", check=False)
    assert done.returncode == 2 and "only its libvirt does not: libvirt is restarted" in said(done)
    text = refused(fleet)
    assert (
        "The libvirt of kvm1 was dead. It was restarted, and answers again" in text
        and "not evacuated" in text
    )


def came_back(fleet, pid):
    """Check that kvm1 answers, that its guest continued, and that nothing is left behind."""
    assert fleet.run("kvm1", "cat /run/libvirt/qemu/web.pid") == pid and migrations(fleet) == []
    assert fleet.service("kvm1")["last_error"] is None and fleet.query("SELECT * FROM leases") == []
    discover(fleet)
    assert fleet.settled() == {"web": ("kvm1", "running")}


def test_safety_09_libvirt_hangs(fleet, web):
    """It hangs as it does with hanging storage. No run waits for it, it is restarted, and its
    guests continue."""
    pid = fleet.run("kvm1", "cat /run/libvirt/qemu/web.pid")
    with hanging(fleet, "kvm1"):
        done = discover(fleet, check=False)
        assert "takes connections, but did not answer within 30 s" in said(done)
        assert "did not answer within 30 s" in fleet.service("kvm1")["last_error"]
        assert [fleet.service(name)["last_error"] for name in ("kvm2", "kvm3")] == [None, None]
        restarted(fleet)
    came_back(fleet, pid)


@contextlib.contextmanager
def dead_storage(fleet, folder):
    """Mount a file system without an answering server over a folder of kvm1."""
    script = (lab_layout.CHECKOUT / "tests" / "unit" / "silent_fs.py").read_text(encoding="utf-8")
    fleet.run("kvm1", f"cat > /run/silent_fs.py <<'END'\n{script}\nEND")
    fleet.run(
        "kvm1",
        f"(/usr/bin/python3 /run/silent_fs.py {folder} > /run/silent_fs & echo $! >"
        " /run/silent_fs.pid) 2> /dev/null < /dev/null",
    )
    eventually(lambda: fleet.run("kvm1", "cat /run/silent_fs") == "mounted\n")
    try:
        yield
    finally:
        fleet.run("kvm1", f"kill -9 $(cat /run/silent_fs.pid); umount --lazy {folder}")


def test_storage_a_host_whose_storage_is_dead_is_read(fleet):
    """Its libvirt answers: disks on the storage keep their allocations, and no run waits."""
    local, shared = Domain("local", state="shutoff", folder=LOCAL), Domain("shared")
    fleet.make("kvm1", local, shared)
    discover(fleet)
    booked, sizes = fleet.booked(), "SELECT name, disk_gb FROM instances ORDER BY name"
    assert fleet.query(sizes) == [("local", 1), ("shared", 1)]
    with dead_storage(fleet, LOCAL):
        done = discover(fleet)
        assert f"look at the server of what is mounted at {LOCAL}, or unmount it." in said(done)
        assert fleet.service("kvm1")["last_error"] is None
        assert fleet.booked() == booked and fleet.query(sizes) == [("local", 1), ("shared", 1)]
    assert "did not answer" not in said(discover(fleet))
    assert fleet.settled() == {"local": ("kvm1", "shutoff"), "shared": ("kvm1", "running")}


def test_not_now(with_bmcs, fleet, web):
    """Rule S3, in the playbook: each refusal names the flag that lifts it."""
    with power_cut_in_the_end(fleet):
        fleet.run(
            "kvm1", "mount --bind /bin/false /usr/sbin/libvirtd; kill -9 $(cat /run/libvirtd.pid)"
        )
        unseen(fleet)
        text = refused(fleet, drover_evacuate_down_seconds=3600)
        assert "kvm1 was seen up" in text and "drover_evacuate_force=too_early" in text
        text = refused(
            fleet, drover_evacuate_down_seconds=3600, drover_evacuate_start_seconds=10**9
        )
        assert "This controller started" in text and "drover_evacuate_force=just_started" in text
        text = refused(
            fleet,
            drover_evacuate_down_seconds=3600,
            drover_evacuate_start_seconds=10**9,
            drover_evacuate_force=["just_started"],
        )
        assert "drover_evacuate_force=too_early" in text
        untouched(fleet, web)
        # Two of three look dead: the sentence says so; one dead host is not a reason.
        fleet.lab.command("kill", "kvm3")
        discover(fleet, "--limit", "kvm3,localhost", check=False)
        text = refused(fleet)
        assert (
            "2 of 3 hosts look dead at the same time" in text
            and "drover_evacuate_force=many_down" in text
        )
        untouched(fleet, web)
