# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The moves of a host share one SSH login at each destination; a failure of that login fails no
move."""

from __future__ import annotations

import contextlib
import json

import pytest
from guests import Full
from test_fleet import eventually

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

GUESTS = [Full(f"guest{number}") for number in range(4)]
#: The memory of each takes 15 s and more.
SLOW = {"drover_host": "kvm1", "drover_max_migrations": 2, "drover_migration": {"bandwidth_mib": 5}}
#: The processes of kvm1 with the shared logins at destinations.
LOGINS = r"pgrep -f '^ssh: /var/lib/drover/migrations/ssh-.*\[mux\]'"


def logins(fleet):
    """Return the number of logins of kvm1 at the others."""
    (line,) = fleet.run("kvm1", "ip -br -4 address show br0").splitlines()
    address = line.split()[-1].partition("/")[0]
    return sum(
        int(count)
        for count in fleet.everywhere(
            f"grep -c 'Accepted .* from {address} ' /var/log/sshd.out || true"
        ).values()
    )


def moved(fleet):
    """Check that all guests run once, on other hosts, and that each move has succeeded."""
    where = fleet.settled()
    assert {guest.name for guest in GUESTS} == set(where) and {
        state for dummy, state in where.values()
    } == {"running"}, where
    assert "kvm1" not in {host for host, dummy in where.values()}, where
    assert fleet.query("SELECT DISTINCT status FROM migrations") == [("completed",)]


@contextlib.contextmanager
def draining(fleet):
    """Start a drain, and wait for its first two moves."""
    fleet.make("kvm1", *GUESTS)
    run = fleet.start("drain", "-e", json.dumps(SLOW))
    try:
        moving = (
            "for guest in $(virsh list --name); do virsh domjobinfo $guest; done | grep -c 'Memory"
            " remaining' || true"
        )
        eventually(lambda: int(fleet.run("kvm1", moving)) == 2)
        yield
        text = run.finish()
    finally:
        if run.process.poll() is None:
            run.kill()
    assert run.process.returncode == 0, text
    moved(fleet)


def test_a_drain_logs_in_once_at_each_destination(fleet):
    fleet.make("kvm1", *GUESTS)
    before = logins(fleet)
    fleet.drain("kvm1")
    # libvirt's own login for each migration, and two destinations at most.
    assert len(GUESTS) < logins(fleet) - before <= len(GUESTS) + 2
    moved(fleet)
    eventually(lambda: not fleet.run("kvm1", f"{LOGINS} || true"))


@pytest.mark.parametrize("signal", ["KILL", "STOP"])
def test_the_shared_login_ends_or_hangs_in_the_middle(fleet, signal):
    with draining(fleet):
        assert fleet.run("kvm1", LOGINS).split()
        fleet.run("kvm1", f"kill -{signal} $({LOGINS})")
    fleet.run("kvm1", f"pkill -KILL -f {LOGINS.partition('-f ')[2]} || true")


def test_where_no_program_runs_from_the_folder_each_move_logs_in(fleet):
    fleet.make("kvm1", *GUESTS)
    before = logins(fleet)
    fleet.run("kvm1", "mkdir -p /var/lib/drover && mount -t tmpfs -o noexec tmpfs /var/lib/drover")
    try:
        fleet.drain("kvm1")
    finally:
        fleet.run("kvm1", "umount -l /var/lib/drover")
    assert logins(fleet) - before > 2 * len(GUESTS)
    moved(fleet)


def test_a_server_that_lets_one_in_over_a_login(fleet):
    fleet.everywhere("echo MaxSessions 1 >>/etc/ssh/sshd_config; kill -HUP $(cat /run/sshd.pid)")
    try:
        fleet.make("kvm1", *GUESTS)
        fleet.drain("kvm1")
    finally:
        fleet.everywhere(
            "sed -i '/^MaxSessions 1$/d' /etc/ssh/sshd_config; kill -HUP $(cat /run/sshd.pid)"
        )
    moved(fleet)
