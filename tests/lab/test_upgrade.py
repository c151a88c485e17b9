# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The upgrade of a fleet: three hosts with Debian 12 are emptied one by one, and each comes back
with Debian 13. Nine guests run all the time."""

from __future__ import annotations

import json
import os
import pathlib
import threading
import time

import labs
import pytest
from guests import Beating
from lablib import layout as lab_layout
from test_fleet import eventually, said
from watching import Watch

from conftest import HERE

pytestmark = pytest.mark.long

OLD, NEW = "bookworm", "trixie"
GUESTS = [(f"kvm{host}", f"guest{host}{letter}") for host in (1, 2, 3) for letter in "abc"]


@pytest.fixture(scope="module")
def upgraded(tmp_path_factory):
    """Yield a lab for this file alone, with hosts of the old release and BMCs."""
    words = [word for name in (1, 2, 3) for word in ("--host", f"kvm{name}={OLD}")]
    try:
        # The hosts get it in the middle of the test.
        lab_layout.release_root(NEW)
    except lab_layout.NoLabHere as problem:
        pytest.skip(str(problem))
    with labs.separate(tmp_path_factory.mktemp("upgraded") / "lab", *words) as lab:
        lab.command("bmc", "up")
        yield lab


@pytest.fixture
def fleet(upgraded, tmp_path):
    with labs.emptied(upgraded, tmp_path) as fleet:
        yield fleet


class Beats:
    """The numbers that guests write to their disks, read from outside from ``with`` to its end."""

    def __init__(self, guests: list[Beating], shared: pathlib.Path) -> None:
        self._guests, self._shared, self._ended = guests, shared, threading.Event()
        self._thread = threading.Thread(target=self._read)
        #: For each name the last number, and the longest time between two of them (seconds).
        self.last = {guest.name: guest.beats(shared) for guest in guests}
        self.longest = dict.fromkeys(self.last, 0.0)
        #: The guests whose number went back: they were started again.
        self.again: set[str] = set()

    def __enter__(self) -> Beats:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ended.set()
        self._thread.join()

    def _read(self) -> None:
        seen = dict.fromkeys(self.last, time.monotonic())
        while not self._ended.wait(0.02):
            for guest in self._guests:
                number, now = guest.beats(self._shared), time.monotonic()
                if number < self.last[guest.name]:
                    self.again.add(guest.name)
                if number != self.last[guest.name]:
                    self.longest[guest.name] = max(self.longest[guest.name], now - seen[guest.name])
                    self.last[guest.name], seen[guest.name] = number, now


def releases(fleet):
    return {
        host: text.strip()
        for host, text in fleet.everywhere(". /etc/os-release; echo $VERSION_CODENAME").items()
    }


def upgrade_hook(fleet):
    """Return the hook of a person who upgrades an empty host before its reboot."""
    file = fleet.folder / "upgrade.yml"
    lab = [os.fspath(HERE / "lab"), "--folder", os.fspath(fleet.lab.layout.folder)]
    task = {
        "name": "Upgrade the host",
        "ansible.builtin.command": {"argv": [*lab, "upgrade", "{{ inventory_hostname }}", NEW]},
        "delegate_to": "localhost",
        "changed_when": True,
    }
    file.write_text(json.dumps([task]))
    return {"after_drain": os.fspath(file)}


def test_each_host_is_emptied_and_comes_back_newer(fleet, capsys):
    guests = {name: Beating(name) for dummy, name in GUESTS}
    for host in fleet.hosts:
        fleet.make(host, *[guests[name] for there, name in GUESTS if there == host])
    fleet.playbook("discover")
    assert releases(fleet) == dict.fromkeys(fleet.hosts, OLD)
    shared = fleet.lab.layout.shared
    eventually(lambda: all(guest.beats(shared) for guest in guests.values()))

    variables = {
        "drover_rolling_batch_size": 1,
        "drover_rolling_reboot": "always",
        "drover_rolling_hooks": upgrade_hook(fleet),
    }
    with Watch(fleet) as watch, Beats(list(guests.values()), shared) as beats:
        done = fleet.playbook("rolling_maintenance", "-e", json.dumps(variables))
        last = dict(beats.last)
        eventually(lambda: all(beats.last[name] > last[name] for name in guests))
    assert releases(fleet) == dict.fromkeys(fleet.hosts, NEW), said(done)
    where = fleet.settled()
    assert {name: state for name, (dummy, state) in where.items()} == dict.fromkeys(
        guests, "running"
    )
    # None was started again: each has counted since its start, and ran on one host at a time.
    assert not beats.again and not watch.doubled("uuid")
    moves = fleet.query("SELECT type, status FROM migrations")
    assert len(moves) >= len(guests) and set(moves) == {("live-migration", "completed")}
    with capsys.disabled():
        figures = {
            "guests": len(guests),
            "moves": len(moves),
            "longest_pause_s": round(max(beats.longest.values()), 3),
        }
        print(json.dumps({"upgrade": figures}))
