# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module ``host_probe``: hosts that answer, hosts that are silent, probes that failed; disks in
use."""

from __future__ import annotations

import errno
import fcntl
import socket
import subprocess
import sys

import pytest

from ansible_collections.drover.compute.plugins.module_utils._files import probe

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_SH, 1, 100)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(name="listening")
def a_port_that_somebody_listens_on():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_it_answers(run_module, listening):
    answer = run_module("_host_probe", addresses=["127.0.0.1"], port=listening)
    assert (
        answer["reached"] is True
        and "answers on port" in answer["message"]
        and answer["changed"] is False
    )


def test_a_closed_port_is_an_answer(run_module):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert run_module("_host_probe", addresses=["127.0.0.1"], port=port)["reached"] is True


def test_a_name_that_is_not_known_is_no_silence(run_module, listening):
    """Rule S2: a peer that cannot look up a name has not seen that the host is dead."""
    found = run_module("_host_probe", addresses=["nowhere.invalid"], port=listening, timeout=1)
    assert found["reached"] is None and "no name that is known here" in found["message"]
    assert (
        run_module("_host_probe", addresses=["nowhere.invalid", "127.0.0.1"], port=listening)[
            "reached"
        ]
        is True
    )


@pytest.mark.parametrize(
    "error, answer",
    [
        (errno.EHOSTUNREACH, False),
        (errno.ETIMEDOUT, False),
        (errno.ENETUNREACH, None),
        (errno.ECONNREFUSED, True),
        (errno.ECONNRESET, True),
    ],
)
def test_what_the_network_says(monkeypatch, error, answer):
    def connect(self, where):
        raise OSError(error, "said by the network")

    monkeypatch.setattr(probe.socket.socket, "connect", connect)
    assert probe.reach("127.0.0.1", 22, 1)[0] is answer


def test_a_lock_of_another_process_is_seen(run_module, tmp_path, listening):
    disk, free = tmp_path / "disk.qcow2", tmp_path / "free.qcow2"
    disk.write_bytes(b"x" * 300)
    free.write_bytes(b"x")
    arguments = {"addresses": ["127.0.0.1"], "port": listening, "disks": [str(disk), str(free)]}
    assert run_module("_host_probe", **arguments)["in_use"] == []
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(disk)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout.readline() == b"held\n"
        found = run_module("_host_probe", **arguments)
        assert (found["storage"], found["in_use"]) == ("active", [str(disk)])
        with open(free, "r+b") as mine:  # the probe takes no lock
            fcntl.lockf(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        holder.stdin.close()
        holder.wait()
    assert run_module("_host_probe", **arguments)["in_use"] == []


def test_no_lock_proves_something_only_with_a_lock_manager(tmp_path):
    disk, settings = tmp_path / "disk.qcow2", tmp_path / "qemu.conf"
    disk.write_bytes(b"x")
    assert probe.storage([str(disk)], False) == ("unknown", [])
    assert probe.storage([str(disk)], True) == ("silent", [])
    assert probe.storage([str(disk), "/nowhere/disk"], True) == ("unknown", [])
    assert probe.storage([], True) == ("unknown", [])
    assert not probe.locked_by_libvirt(str(settings))
    settings.write_text('#lock_manager = "lockd"\n')
    assert not probe.locked_by_libvirt(str(settings))
    settings.write_text('user = "root"\nlock_manager = "lockd"\n')
    assert probe.locked_by_libvirt(str(settings))
    # sanlock keeps its leases in separate files: a disk without a lock proves nothing.
    settings.write_text('lock_manager = "sanlock"\n')
    assert not probe.locked_by_libvirt(str(settings))
