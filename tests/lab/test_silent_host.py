# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""drover.compute.evacuate for a host that does not answer and is not dead (rules S2, S3 and S13)."""
from __future__ import annotations

import contextlib
import time

import pytest
from lablib.layout import SWITCH_ADDRESS
from test_evacuate import copies, discover, evacuate, migrations, refused, sharing  # noqa: F401  pylint: disable=unused-import
from test_fleet import Domain, said
from test_power import has_power

pytest_plugins = ["test_fleet"]


@pytest.fixture
def web(sharing):  # noqa: F811  pylint: disable=redefined-outer-name
    """An instance on kvm1 that the store knows."""
    domain = Domain("web")
    sharing.make("kvm1", domain)
    discover(sharing)
    return domain


@contextlib.contextmanager
def cut_from_the_controller(fleet):
    """kvm1 no longer answers this machine; the other hosts reach it as before."""
    # Said over another host, as the answer would not arrive here.
    fleet.run("kvm2", f"ssh kvm1 ip route add blackhole {SWITCH_ADDRESS}/32")
    try:
        yield
    finally:
        fleet.run("kvm2", f"ssh kvm1 ip route del blackhole {SWITCH_ADDRESS}/32")


@contextlib.contextmanager
def power_cut_in_the_end(fleet):
    """What a test did to kvm1 ends with its power: the next test finds it as it is after a start."""
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
        assert "kvm2 and kvm3 can reach it" in text and "only the network between this controller and it is broken" in text
        assert "drover_evacuate_force=peers_reach" in text and "Nothing was started elsewhere" in text
        untouched(fleet, web)
        # A person who says that it is off is wrong.
        text = refused(fleet, drover_host_is_off="kvm1 is powered off")
        assert "You say that kvm1 is powered off, but kvm2 and kvm3 can reach it" in text
        # The plan is shown, with that sentence.
        done = evacuate(fleet, "--check")
        assert "can reach it" in said(done) and "web to kvm" in said(done)
        # Another rule's flag does not lift it.
        assert "drover_evacuate_force=peers_reach" in refused(fleet, drover_evacuate_force="many_down,storage_active")
        untouched(fleet, web)
    discover(fleet)
    assert fleet.settled() == {"web": ("kvm1", "running")}


def test_its_network_is_cut_and_its_disks_are_in_use(with_bmcs, fleet, web):
    """Nobody reaches it, and it runs: the locks on shared storage say so. Then an operator cuts it off."""
    with power_cut_in_the_end(fleet):
        fleet.run("kvm1", "(sleep 1; ip link set eth0 down) > /dev/null 2>&1 &")
        time.sleep(2)  # the answer is here by then
        unseen(fleet)
        text = refused(fleet)
        assert "disks of its instances are in use" in text and "drover_evacuate_force=storage_active" in text
        untouched(fleet, web)
        done = evacuate(fleet, drover_evacuate_force="storage_active")
        assert "1 instance(s) restarted, 0 not" in said(done) and copies(web) == [True] and not has_power(fleet)
        ((host, state),) = fleet.where(["kvm2", "kvm3"]).values()
        assert host in ("kvm2", "kvm3") and state == "running"


def test_libvirt_alone_is_dead(fleet, web):
    """It is restarted, and its guests did not notice."""
    pid = fleet.run("kvm1", "cat /run/libvirt/qemu/web.pid")
    fleet.run("kvm1", "kill -9 $(cat /run/libvirtd.pid)")
    unseen(fleet)
    done = evacuate(fleet, "--check")
    assert "only its libvirt does not: restart that" in said(done)
    text = refused(fleet)
    assert "The libvirt of kvm1 was dead. It was restarted, and answers again" in text and "not evacuated" in text
    assert fleet.run("kvm1", "cat /run/libvirt/qemu/web.pid") == pid and migrations(fleet) == []
    assert fleet.service("kvm1")["last_error"] is None and fleet.query("SELECT * FROM leases") == []
    discover(fleet)
    assert fleet.settled() == {"web": ("kvm1", "running")}


def test_not_now(with_bmcs, fleet, web):
    """Rule S3, in the playbook: each refusal names what lifts it."""
    with power_cut_in_the_end(fleet):
        fleet.run("kvm1", "mount --bind /bin/false /usr/sbin/libvirtd; kill -9 $(cat /run/libvirtd.pid)")
        unseen(fleet)
        text = refused(fleet, drover_evacuate_down_seconds=3600)
        assert "kvm1 was seen up" in text and "drover_evacuate_force=too_early" in text
        text = refused(fleet, drover_evacuate_down_seconds=3600, drover_evacuate_start_seconds=10**9)
        assert "This controller started" in text and "drover_evacuate_force=just_started" in text
        text = refused(
            fleet, drover_evacuate_down_seconds=3600, drover_evacuate_start_seconds=10**9, drover_evacuate_force=["just_started"]
        )
        assert "drover_evacuate_force=too_early" in text
        untouched(fleet, web)
        # Two of three look dead: the sentence says so, and one is no reason.
        fleet.lab.command("kill", "kvm3")
        discover(fleet, "--limit", "kvm3,localhost", check=False)
        text = refused(fleet)
        assert "2 of 3 hosts look dead at the same time" in text and "drover_evacuate_force=many_down" in text
        untouched(fleet, web)
