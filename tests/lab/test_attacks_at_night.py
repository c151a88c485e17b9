# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tired operator at night: the store is lost, a libvirt hangs, the clock jumps, a second operator
works at the same time.

No guest runs twice, none is lost, and no disk that a guest needs is removed.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import time

import pytest
from settings import read_by
from test_evacuate import AT_ONCE, OFF, SHARED_POOL
from test_fleet import BOOT_SECTOR, SHARED, Domain, Run, eventually
from test_self_healing import Copies
from trouble import Losing, hanging

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

VARIABLES = {**SHARED_POOL, **AT_ONCE}

#: Words that never occur in a sentence for an operator.
BAD = ("Traceback", "Unexpected", "None on", "KeyError", "TypeError")


class Night(Losing):
    """A fleet, and its state as seen from outside."""

    def __init__(self, fleet):
        self.fleet = fleet
        self.environment = {}

    def play(self, name, *words, check=False, **variables):
        """Run a playbook; return True if it failed, and its output in one line. No sentence of it
        may come from a program."""
        began = time.monotonic()
        run = self.begin(name, *words, **variables)
        run.finish()
        return self.ended(run, name, variables, check, time.monotonic() - began)

    def begin(self, name, *words, **variables):
        """Start a playbook, in this night's environment."""
        given = read_by(name, ["-e", json.dumps({**VARIABLES, **variables}), *words])
        command = ["ansible-playbook", self.fleet.path_of(name), *given]
        return Run(
            command, {**self.fleet.lab.environment(self.fleet.store_url), **self.environment}
        )

    def ended(self, run, name, variables=(), check=False, took=0.0):
        text = " ".join(run.said.split())
        code = run.process.returncode
        self.note(f"##### {name} {variables} -> {code}, {took:.0f} s\n{run.said}")
        assert not any(word in text for word in BAD), text
        assert not check or code == 0, run.said
        return code, text

    def both(self, first, second):
        """Run two playbooks in the same second; return the result of each."""
        runs = [
            (self.begin(name, **variables), name, variables) for name, variables in (first, second)
        ]
        for run, _name, _variables in reversed(runs):
            run.finish()
        return [self.ended(run, name, variables) for run, name, variables in runs]

    def place(self, *names, host=None, check=True, **more):
        """Build instances with volumes that provably belong to them."""
        definitions = [
            {"name": name, "memory_mb": 64, "disks": [{"size_gb": 1}], **more} for name in names
        ]
        if host:
            definitions = [
                {**each, "requested_destination": {"host": host}} for each in definitions
            ]
        return self.play("place", check=check, drover_instance_definitions=definitions)

    def bootable(self, host, name):
        """Give a placed guest an operating system that obeys the power button."""
        ((path,),) = [
            each["disks"] for each in self.fleet.look([host])[host] if each["name"] == name
        ]
        sector = base64.b64encode(BOOT_SECTOR).decode()
        write = (
            f"echo {sector} | base64 -d > /tmp/boot; qemu-io -f qcow2 -c 'write -q -s /tmp/boot 0"
            f" 512' {path}"
        )
        self.fleet.run(host, f"virsh destroy {name}; {write}; virsh start {name}")

    def disks(self, host="kvm1"):
        """Return the disks on shared storage and their sizes in GiB."""
        text = self.fleet.run(
            host,
            f"find {SHARED} -type f -name '*.qcow2' | while read each; do qemu-img info -U"
            " --output=json $each | tr -d '\\n'; echo; done",
        )
        found = [json.loads(line) for line in text.splitlines() if line]
        return {each["filename"]: each["virtual-size"] >> 30 for each in found}

    def seen(self, hosts=None):
        """Return the host of each guest; check that none is on two hosts, and that each has its
        disks."""
        found, disks = self.fleet.look(hosts), self.disks((hosts or self.fleet.hosts)[0])
        for domains in found.values():
            for each in domains:
                assert all(path in disks for path in each["disks"] if path.startswith(SHARED)), (
                    each,
                    disks,
                )
        where = self.fleet.where(hosts)
        self.note(f"seen: {where} {disks} booked: {self.fleet.booked()}")
        return where


@pytest.fixture
def night(fleet, request):
    night_run = Night(fleet)
    night_run.note(f"\n################ {request.node.name}")
    night_run.play("discover", check=True)
    return night_run


# The store is lost, and hosts were disabled


@pytest.mark.parametrize("how", ["new", "restored"])
def test_what_was_disabled_is_not_known_any_more(night, how):
    fleet = night.fleet
    night.place("web", host="kvm1")
    night.store("exported")
    night.play("host_disable", check=True, drover_host="kvm2", drover_reason="bad memory")
    night.play("drain", check=True, drover_host="kvm3", drover_reason="new board")
    before = night.seen()
    night.lost(how)
    assert night.place("early", check=False)[0]
    output = night.play("discover", check=True)[1]
    assert (
        "The store is new, and there are instances already"
        if how == "new"
        else "The store was brought back from a backup"
    ) in output, output
    assert "drover.compute.host_disable" in output
    # Only once.
    again = night.play("discover", check=True)[1]
    assert "The store is new" not in again and "The store was brought back" not in again, again
    night.play("host_disable", check=True, drover_host="kvm2", drover_reason="bad memory")
    night.play("drain", check=True, drover_host="kvm3", drover_reason="new board")
    night.place("a", "b")
    after = night.seen()
    assert after == {**before, "a": ("kvm1", "running"), "b": ("kvm1", "running")}
    fleet.settled()


# A resize is open, and the store is lost


GIVEN = {"drover_instance": "web", "drover_instance_timeout": 30}


@pytest.mark.parametrize("destination", ["kvm2", None])
def test_an_open_resize_and_a_new_store(night, destination):
    fleet = night.fleet
    night.place("web", "other", host="kvm1")
    night.bootable("kvm1", "web")
    night.play("discover", check=True)
    where = {"drover_destination": destination} if destination else {}
    night.play(
        "instance_resize", check=True, drover_memory_mb=96, drover_disk_gb=2, **where, **GIVEN
    )
    before, disks = night.seen(), night.disks()
    night.lose()
    night.play("instance_resize", drover_resize="confirm", **GIVEN)
    night.play("discover", check=True)
    for act, more in (
        ("instance_resize", {"drover_resize": "confirm"}),
        ("instance_resize", {"drover_resize": "revert"}),
        ("instance_start", {}),
    ):
        night.play(act, **{**GIVEN, **more})
        assert night.seen() == before and night.disks() == disks
    # A second resize, this time to the end.
    night.play("instance_resize", check=True, drover_memory_mb=128, drover_disk_gb=2, **GIVEN)
    night.seen()
    night.play("instance_resize", check=True, drover_resize="confirm", **GIVEN)
    where = night.seen()
    assert set(where) == {"web", "other"} and where["web"][1] == "running"
    fleet.settled()
    night.play("instance_delete", drover_instance_force=True, **GIVEN)
    assert set(night.seen()) == {"other"}
    night.play("discover", check=True)
    fleet.settled()


def test_an_open_resize_is_deleted_with_a_new_store(night):
    fleet = night.fleet
    night.place("web", "other", host="kvm1")
    night.bootable("kvm1", "web")
    night.play("discover", check=True)
    night.play(
        "instance_resize", check=True, drover_memory_mb=96, drover_destination="kvm2", **GIVEN
    )
    night.lose()
    with hanging(fleet, "kvm2"):
        night.play("discover")
        for act, more in (
            ("instance_start", {}),
            ("instance_delete", {"drover_instance_force": True}),
            ("instance_resize", {"drover_memory_mb": 128}),
            ("instance_resize", {"drover_resize": "revert"}),
        ):
            code, text = night.play(act, **{**GIVEN, **more})
            assert code and "there is nothing to remove" not in text, text
            if act == "instance_delete":
                assert "kvm2 was not read since the store was made" in text, text
        assert night.place("web", check=False)[0]
    where = night.seen()
    assert where["web"] == ("kvm2", "running") and set(where) == {"web", "other"}
    night.play("discover", check=True)
    night.play("instance_delete", check=True, drover_instance_force=True, **GIVEN)
    assert set(night.seen()) == {"other"} and len(night.disks()) == 1
    fleet.settled()


# A libvirt hangs


def crowd(night):
    """Return a fleet with two guests on kvm1; kvm3 is fuller than kvm2, so kvm2 is the best
    target.
    """
    night.fleet.make("kvm1", Domain("one"), Domain("two"), Domain("off", state="shutoff"))
    night.fleet.make("kvm3", *[Domain(f"full{number}", memory_mb=128) for number in range(3)])
    night.play("discover", check=True)


def test_the_best_target_of_a_drain_hangs(night):
    fleet = night.fleet
    crowd(night)
    before = night.seen()
    with hanging(fleet, "kvm2"):
        _code, text = night.play("drain", drover_host="kvm1")
        assert "Nothing of kvm1 goes to kvm2: it cannot be reached: libvirt at" in text, text
        night.note("after the first run: " + str(night.seen(["kvm1", "kvm3"])))
    time.sleep(5)
    assert set(night.seen()) == set(before)
    night.play("discover", check=True)
    night.play("drain", check=True, drover_host="kvm1")
    where = night.seen()
    assert {name: state for name, (_host, state) in where.items()} == {
        name: state for name, (_host, state) in before.items()
    }
    assert not [name for name, (host, _state) in where.items() if host == "kvm1"]
    assert fleet.settled() == where


def test_the_target_hangs_after_the_drain_has_planned(night):
    """The libvirt of the destination hangs in the middle of the moves."""
    fleet = night.fleet
    fleet.make("kvm1", *[Domain(f"web{number}", memory_mb=96) for number in range(4)])
    fleet.make("kvm3", *[Domain(f"full{number}", memory_mb=128) for number in range(3)])
    night.play("discover", check=True)
    before = night.seen()
    run = night.begin("drain", drover_host="kvm1", drover_max_migrations=1)
    run.until(r"^web\d.*kvm1 -> kvm2")
    eventually(lambda: fleet.query("SELECT * FROM migrations") != [])
    began = time.monotonic()
    with hanging(fleet, "kvm2"):
        run.finish()
        night.ended(run, "drain", took=time.monotonic() - began)
    time.sleep(5)
    assert set(night.seen()) == set(before)
    night.play("discover")
    night.play("drain", check=True, drover_host="kvm1")
    where = night.seen()
    assert {name: state for name, (_host, state) in where.items()} == {
        name: state for name, (_host, state) in before.items()
    }
    assert not [name for name, (host, _state) in where.items() if host == "kvm1"]
    assert fleet.settled() == where


def test_a_host_is_dead_and_another_one_hangs(night):
    fleet = night.fleet
    crowd(night)
    before = night.seen()
    fleet.lab.command("kill", "kvm1")
    with hanging(fleet, "kvm2"):
        night.play("discover")
        night.play("evacuate", drover_host="kvm1", **OFF)
        night.play("evacuate", drover_host="kvm1", drover_evacuate_force=["many_down"], **OFF)
        night.note("while it hangs: " + str(night.seen(["kvm3"])))
    time.sleep(5)
    night.note("after it hung: " + str(night.seen(["kvm2", "kvm3"])))
    night.play("discover")
    night.play("evacuate", check=True, drover_host="kvm1", **OFF)
    where = night.seen(["kvm2", "kvm3"])
    assert {name: state for name, (_host, state) in where.items()} == {
        name: state for name, (_host, state) in before.items()
    }
    fleet.lab.command("start", "kvm1")
    night.play("discover")
    night.play("undrain", check=True, drover_host="kvm1")
    assert fleet.settled() == where


def test_one_host_hangs_in_a_rolling_maintenance(with_bmcs, night):
    fleet = night.fleet
    for host in fleet.hosts:
        fleet.make(host, Domain(f"on-{host}"))
    night.play("discover", check=True)
    before = night.seen()
    rolling = {"drover_rolling_all_hosts": True, "drover_rolling_reboot": "never"}
    with hanging(fleet, "kvm2"):
        night.play("rolling_maintenance", **rolling)
        night.note("first: " + str(night.seen(["kvm1", "kvm3"])))
        night.play("rolling_maintenance", drover_rolling_blocked="skip", **rolling)
        night.note("second: " + str(night.seen(["kvm1", "kvm3"])))
    time.sleep(5)
    assert set(night.seen()) == set(before)
    night.play("discover", check=True)
    night.play("rolling_maintenance", check=True, **rolling)
    where = night.seen()
    assert {name: state for name, (_host, state) in where.items()} == {
        name: state for name, (_host, state) in before.items()
    }
    assert fleet.settled() == where
    assert [fleet.service(host)["disabled"] for host in fleet.hosts] == [False] * 3


# The clock of the controller jumps


#: Each Python program of the controller imports this: its clock is ahead by this number of seconds.
CLOCK = """
import os, time
ahead = float(os.environ.get("AHEAD", 0))
real_time, real_time_ns = time.time, time.time_ns
time.time = lambda: real_time() + ahead
time.time_ns = lambda: real_time_ns() + int(ahead * 10**9)
"""


@contextlib.contextmanager
def clock(night, ahead):
    """Set the clock of the controller's programs ahead by this number of seconds."""
    folder = night.fleet.folder / "clock"
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(CLOCK, encoding="utf-8")
    night.environment = {"PYTHONPATH": os.fspath(folder), "AHEAD": str(ahead)}
    try:
        yield
    finally:
        night.environment = {}


@pytest.mark.parametrize("ahead", [600, -600])
def test_the_clock_jumps_before_a_drain(night, ahead):
    fleet = night.fleet
    fleet.make("kvm1", Domain("one"), Domain("off", state="shutoff"))
    night.play("discover", check=True)
    before = night.seen()
    with clock(night, ahead):
        night.play("hosts", check=True)
        code, text = night.play("drain", drover_host="kvm1", drover_service_down_time=300)
        assert (
            code and ("in the future" if ahead < 0 else "s ago") in text and night.seen() == before
        ), text
        night.play("discover", check=True)
        night.play("drain", check=True, drover_host="kvm1", drover_service_down_time=300)
        where = night.seen()
        assert {name: state for name, (_host, state) in where.items()} == {
            name: state for name, (_host, state) in before.items()
        }
    # And back again.
    night.play("hosts", check=True)
    night.play("undrain", check=True, drover_host="kvm1")
    night.play("discover", check=True)
    assert fleet.settled() == where and fleet.query("SELECT * FROM leases") == []
    night.place("new", host="kvm1")
    night.seen()


@pytest.mark.parametrize("ahead", [600, -600])
def test_a_lease_and_a_clock_that_jumps(night, ahead):
    """A drain runs while another one begins with a different clock."""
    fleet = night.fleet
    domains = [Domain(f"web{number}") for number in range(4)]
    fleet.make("kvm1", *domains)
    night.play("discover", check=True)
    before = night.seen()
    run = night.begin("drain", drover_host="kvm1", drover_max_migrations=1)
    run.until(r"^web\d.*kvm1 -> kvm\d")
    with clock(night, ahead):
        second = night.play("drain", drover_host="kvm1")
    run.finish()
    night.ended(run, "drain")
    night.note(f"second: {second[0]}")
    where = night.seen()
    assert {name: state for name, (_host, state) in where.items()} == {
        name: state for name, (_host, state) in before.items()
    }
    night.play("drain", check=True, drover_host="kvm1")
    assert fleet.settled() == where and fleet.query("SELECT * FROM leases") == []


@pytest.mark.parametrize("ahead", [600, -600])
def test_the_clock_jumps_before_an_evacuation(night, ahead):
    fleet = night.fleet
    web, off = Domain("web"), Domain("off", state="shutoff")
    fleet.make("kvm1", web, off)
    night.play("discover", check=True)
    ages = {"drover_evacuate_down_seconds": 60, "drover_service_down_time": 300}
    with clock(night, ahead):
        # The host is up, for any clock.
        night.play("hosts", check=True, drover_service_down_time=300)
        code, _text = night.play("evacuate", drover_host="kvm1", **ages, **OFF)
        assert code and night.seen()["web"] == ("kvm1", "running")
    fleet.lab.command("kill", "kvm1")
    night.play("discover")
    with clock(night, ahead):
        night.play("evacuate", drover_host="kvm1", **ages, **OFF)
        night.note("with the clock: " + str(night.seen(["kvm2", "kvm3"])))
    night.play("evacuate", check=True, drover_host="kvm1", **OFF)
    where = night.seen(["kvm2", "kvm3"])
    assert {name: state for name, (_host, state) in where.items()} == {
        "web": "running",
        "off": "shutoff",
    }
    fleet.lab.command("start", "kvm1")
    with clock(night, ahead):
        night.play("discover")
        assert night.seen() == where
    night.play("undrain", check=True, drover_host="kvm1")
    night.play("discover", check=True)
    assert fleet.settled() == where and fleet.query("SELECT * FROM leases") == []


# Two operators at once


OTHERS = {
    "delete": ("instance_delete", {"drover_instance_force": True}),
    "resize": ("instance_resize", {"drover_memory_mb": 96}),
    "elsewhere": ("instance_resize", {"drover_memory_mb": 96, "drover_destination": "kvm3"}),
    "migrate": ("instance_migrate", {"drover_destination": "kvm2"}),
}


@pytest.mark.parametrize("pause", [0, 3])
@pytest.mark.parametrize("other", OTHERS)
def test_a_drain_and_another_operator(night, other, pause):
    fleet = night.fleet
    night.place("web0", "web1", "web2", host="kvm1")
    night.bootable("kvm1", "web1")
    night.play("discover", check=True)
    before, disks = night.seen(), night.disks()
    name, more = OTHERS[other]
    variables = {"drover_instance": "web1", "drover_instance_timeout": 30, **more}
    if name == "instance_migrate":
        del variables["drover_instance_timeout"]
    run = night.begin("drain", drover_host="kvm1")
    time.sleep(pause)
    beside = night.begin(name, **variables)
    beside.finish()
    run.finish()
    drained, (code, text) = night.ended(run, "drain"), night.ended(beside, name, variables)
    where = night.seen()
    gone = {"web1"} if other == "delete" and not code else set()
    assert set(where) == set(before) - gone, (where, text)
    assert {each[1] for each in where.values()} == {"running"}
    assert set(night.disks()) == {path for path in disks if not (gone and "web1" in path)}
    # A second run repairs the result, or names the way out.
    night.play("discover", check=True)
    where = night.seen()
    again = night.play("drain", drover_host="kvm1")
    if again[0]:
        assert (
            "web1: it was resized and still holds its old room on kvm1; confirm or revert that"
            " first" in again[1]
        ), again[1]
        assert night.seen() == where
        night.play(
            "instance_resize",
            check=True,
            drover_instance="web1",
            drover_resize="confirm",
            drover_instance_timeout=30,
        )
        night.play("drain", check=True, drover_host="kvm1")
    where = night.seen()
    assert not [each for each, (host, _state) in where.items() if host == "kvm1"], (drained, again)
    if fleet.query("SELECT * FROM migrations WHERE status = 'finished'"):
        night.play(
            "instance_resize",
            check=True,
            drover_instance="web1",
            drover_resize="confirm",
            drover_instance_timeout=30,
        )
    assert fleet.settled() == night.seen() and fleet.query("SELECT * FROM leases") == []


def test_two_evacuations_at_once(night):
    fleet = night.fleet
    domains = [Domain(f"web{number}") for number in range(4)]
    fleet.make("kvm2", *domains, Domain("off", state="shutoff"))
    night.play("discover", check=True)
    fleet.lab.command("kill", "kvm2")
    night.play("discover")
    word = {"drover_host": "kvm2", "drover_host_is_off": "kvm2 is powered off"}
    with Copies(*domains):
        first, second = night.both(("evacuate", word), ("evacuate", word))
        night.note(f"{first[0]} {second[0]} {night.seen(['kvm1', 'kvm3'])}")
        assert 0 in (first[0], second[0]), (first, second)
    where = night.seen(["kvm1", "kvm3"])
    assert {name: state for name, (_host, state) in where.items()} == {
        **{each.name: "running" for each in domains},
        "off": "shutoff",
    }
    night.play("evacuate", check=True, **word)
    assert night.seen(["kvm1", "kvm3"]) == where
    fleet.lab.command("start", "kvm2")
    night.play("discover", check=True)
    night.play("undrain", check=True, drover_host="kvm2")
    assert fleet.settled() == where and fleet.query("SELECT * FROM leases") == []


def test_a_rebalance_during_a_drain(night):
    fleet = night.fleet
    domains = [Domain(f"web{number}", memory_mb=96) for number in range(4)]
    fleet.make("kvm1", *domains[:2])
    fleet.make("kvm2", *domains[2:])
    night.play("discover", check=True)
    before = night.seen()
    moves = {
        "drover_plan_only": False,
        "drover_rebalance_threshold": 0,
        "drover_rebalance_margin": 0,
        "drover_rebalance_cooldown": 0,
    }
    run = night.begin("drain", drover_host="kvm1", drover_max_migrations=1)
    run.until(r"^web\d.*kvm1 -> kvm\d")
    night.play("rebalance", **moves)
    night.play("rebalance", **moves, drover_rebalance_despite_maintenance=True)
    run.finish()
    night.ended(run, "drain")
    assert {name: each[1] for name, each in night.seen().items()} == {
        name: each[1] for name, each in before.items()
    }
    night.play("drain", check=True, drover_host="kvm1")
    where = night.seen()
    assert not [name for name, (host, _state) in where.items() if host == "kvm1"]
    assert fleet.settled() == where and fleet.query("SELECT * FROM leases") == []
