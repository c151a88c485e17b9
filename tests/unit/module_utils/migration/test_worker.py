# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Results of moves: every pair of states, and moves between two fake hosts that break in all
places.

The hosts are libvirt's test driver. It has no migration, so a function takes the place of the one
libvirt call: the domain appears at the destination and disappears at the source.
"""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import time
import types

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._domain.numa import parse_numa
from ansible_collections.drover.compute.plugins.module_utils._libvirt.xml import parse
from ansible_collections.drover.compute.plugins.module_utils._migration import (
    control,
    following,
    state,
)
from ansible_collections.drover.compute.plugins.module_utils._migration import (
    worker as worker_module,
)
from ansible_collections.drover.compute.plugins.module_utils._migration.turn import Turn
from ansible_collections.drover.compute.plugins.module_utils._migration.worker import Worker
from ansible_collections.drover.compute.plugins.module_utils._orders.records import (
    Records,
    new_record,
)

UUID = "00000000-0000-4000-8000-000000000001"
XML = (
    f"<domain type='test'><name>vm</name><uuid>{UUID}</uuid><memory"
    " unit='MiB'>64</memory><os><type>hvm</type></os></domain>"
)
DEST_XML, PERSIST_XML = libvirt.VIR_MIGRATE_PARAM_DEST_XML, libvirt.VIR_MIGRATE_PARAM_PERSIST_XML
NODE = "<node>{0}<cpu><active>4</active></cpu><memory>8388608</memory></node>"


def seen(word, active=None, reason=1, job=False):
    """Return a look at one side."""
    active = word != "shutoff" if active is None else active
    return {
        "name": "vm",
        "state": word,
        "reason": reason,
        "active": active,
        "persistent": True,
        "job": job,
    }


@pytest.mark.parametrize(
    "here, there, verdict",
    [
        (seen("running"), None, state.HERE),
        (seen("shutoff"), None, state.HERE),
        (None, seen("running"), state.THERE),
        (None, seen("shutoff"), state.THERE),
        (None, seen("paused"), state.THERE),
        (None, None, state.NOWHERE),
        (seen("running", job=True), None, state.MOVING),
        (seen("running", job=True), seen("paused", reason=2), state.MOVING),
        (seen("paused", job=True), seen("running"), state.MOVING),
        (seen("running"), seen("running"), state.BOTH_ACTIVE),
        (seen("paused"), seen("running"), state.BOTH_ACTIVE),
        (seen("running"), seen("shutoff"), state.OFF_THERE),
        (seen("shutoff"), seen("running"), state.OFF_HERE),
        (seen("shutoff"), seen("shutoff"), state.BOTH_OFF),
        (None, seen("paused", reason=2), state.ARRIVING),
        (None, seen("running", job=True), state.ARRIVING),
        (seen("shutoff"), seen("paused", reason=11), state.ARRIVING),
    ],
)
def test_every_pair_of_states(here, there, verdict):
    assert state.classify(here, there) == verdict


def test_progress_takes_memory_and_disks_together_and_keeps_100_for_the_end():
    assert state.progress_of(
        {
            "memory_total": 100 << 20,
            "memory_remaining": 0,
            "disk_total": 300 << 20,
            "disk_remaining": 100 << 20,
        }
    ) == {
        "percent": 75,
        "total_mib": 400,
        "remaining_mib": 100,
    }
    assert state.progress_of({"data_total": 1 << 20, "data_remaining": 0})["percent"] == 99
    assert state.progress_of({}) == {"percent": 0, "total_mib": 0, "remaining_mib": 0}


class Fleet:
    """Two fake hosts and a migration between them that the test can break."""

    def __init__(self, tmp_path, monkeypatch):
        self.records = Records(str(tmp_path / "run"))
        self.connections = {}
        real_open = libvirt.open
        for name, domains in (("kvm1", XML), ("kvm2", "")):
            path = tmp_path / f"{name}.xml"
            path.write_text(NODE.format(domains))
            connection = real_open(f"test://{path}")
            connection.close = lambda: 0
            connection.getHostname = lambda name=name: name
            self.connections[f"test:///{name}"] = connection
        self.source, self.destination = (
            self.connections["test:///kvm1"],
            self.connections["test:///kvm2"],
        )
        self.down = set()
        self.behave = self.succeed
        self.calls = []
        monkeypatch.setattr(libvirt, "open", self._open)
        self.parameters = {}
        monkeypatch.setattr(
            libvirt.virDomain,
            "migrateToURI3",
            lambda domain, uri, params, flags: self._migrate(domain, flags, params),
        )
        monkeypatch.setattr(worker_module, "SETTLE", 0.2)
        monkeypatch.setattr(worker_module, "SETTLE_BEFORE", 0.2)
        monkeypatch.setattr(worker_module, "RECONNECT", 0.2)
        monkeypatch.setattr(worker_module, "POLL", 0.02)
        monkeypatch.setattr(worker_module, "POLL_TURN", 0.01)

    def close(self):
        """Close the connections to the hosts."""
        for connection in self.connections.values():
            libvirt.virConnect.close(connection)

    def _open(self, uri):
        if uri in self.down or uri not in self.connections:
            raise libvirt.libvirtError("Failed to connect socket")
        return self.connections[uri]

    def _migrate(self, domain, flags, parameters):
        self.calls.append(flags)
        self.parameters = parameters
        return self.behave(domain, flags)

    def succeed(self, domain, flags=0):
        """Act as libvirt does if the migration succeeds."""
        state_before, active = domain.state()[0], domain.isActive()
        given = self.parameters
        guest = self.destination.defineXML(
            given.get(PERSIST_XML) or given.get(DEST_XML) or domain.XMLDesc(0)
        )
        if active:
            guest.create()
            if state_before == libvirt.VIR_DOMAIN_PAUSED:
                guest.suspend()
            domain.destroy()
        domain.undefine()
        return 0

    def fail(self, domain, flags=0):
        """Fail; nothing has moved."""
        raise libvirt.libvirtError("QEMU said no")

    def move(self, may_start=True, most=None, **more):
        """Run one worker in this process; return its record, and its first answer."""
        words = []
        request = {"uuid": UUID, "destination": "kvm2", "destination_uri": "test:///kvm2", **more}
        Worker(
            request, "test:///kvm1", self.records, words.append, may_start=may_start, most=most
        ).run()
        return self.records.read(UUID), words[0]

    def states(self):
        """Return ``(state at kvm1, state at kvm2)``."""
        return tuple(state.state_word(state.look(conn, UUID)) for conn in self.connections.values())

    def domain(self, there=False):
        """Return the domain on one side."""
        return (self.destination if there else self.source).lookupByUUIDString(UUID)


@pytest.fixture
def fleet(tmp_path, monkeypatch):
    """Return two fake hosts, with the domain running on the first."""
    made = Fleet(tmp_path, monkeypatch)
    yield made
    made.close()


def test_a_live_move_is_verified_and_asking_again_is_harmless(fleet):
    record, word = fleet.move()
    assert (record["status"], word, fleet.states()) == (
        "completed",
        "started",
        ("absent", "running"),
    )
    assert (record["percent"], record["source_state"], record["destination_state"]) == (
        100,
        "absent",
        "running",
    )
    flags = fleet.calls[0]
    expected = (
        libvirt.VIR_MIGRATE_PEER2PEER
        | libvirt.VIR_MIGRATE_LIVE
        | libvirt.VIR_MIGRATE_PERSIST_DEST
        | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
        | libvirt.VIR_MIGRATE_ABORT_ON_ERROR
    )
    assert flags == expected
    record, word = fleet.move()
    assert (record["status"], word, len(fleet.calls)) == ("completed", "completed", 1)


def test_a_cold_move_takes_the_autostart_flag_along(fleet):
    fleet.domain().destroy()
    fleet.domain().setAutostart(1)
    record, dummy = fleet.move()
    assert (record["status"], fleet.states()) == ("completed", ("absent", "shutoff"))
    assert fleet.domain(there=True).autostart()
    assert fleet.calls[0] & libvirt.VIR_MIGRATE_OFFLINE
    assert not fleet.calls[0] & libvirt.VIR_MIGRATE_LIVE


def test_the_same_way_a_second_time_is_a_move_of_its_own(fleet):
    first, dummy = fleet.move()
    fleet.domain(there=True).destroy()
    fleet.domain(there=True).undefine()
    fleet.source.defineXML(XML).setAutostart(1)
    second, word = fleet.move()
    assert (second["status"], word, len(fleet.calls)) == ("completed", "started", 2)
    assert second["started_at"] > first["started_at"]
    assert second["was"] == "shutoff"
    assert fleet.domain(there=True).autostart()
    # Another call gives the answer of the second.
    assert fleet.move()[0]["started_at"] == second["started_at"]


def test_a_paused_domain_stays_paused(fleet):
    fleet.domain().suspend()
    record, dummy = fleet.move()
    assert (record["status"], fleet.states()) == ("completed", ("absent", "paused"))


@pytest.mark.parametrize("was", ["paused", "running"])
def test_libvirt_takes_no_post_copy_for_a_paused_domain(fleet, was):
    if was == "paused":
        fleet.domain().suspend()
    record, dummy = fleet.move(post_copy=True, on_timeout="post_copy")
    assert (record["status"], fleet.states()) == ("completed", ("absent", was))
    assert bool(fleet.calls[0] & libvirt.VIR_MIGRATE_POSTCOPY) is (was == "running")


def test_a_failed_move_leaves_the_source_as_it_was(fleet):
    fleet.behave = fleet.fail
    record, word = fleet.move()
    assert (record["status"], word, fleet.states()) == ("failed", "started", ("running", "absent"))
    assert "QEMU said no" in record["message"]
    fleet.behave = fleet.succeed
    assert fleet.move()[0]["status"] == "completed"


def test_an_error_after_the_domain_has_moved_is_a_completed_move(fleet):
    def late(domain, flags):
        fleet.succeed(domain)
        raise libvirt.libvirtError("client socket is closed")

    fleet.behave = late
    assert fleet.move()[0]["status"] == "completed"


def test_running_on_both_hosts_is_a_conflict_and_nothing_is_repaired(fleet):
    def split(domain, flags):
        fleet.destination.defineXML(XML).create()
        raise libvirt.libvirtError("client socket is closed")

    fleet.behave = split
    for _attempt in range(2):
        record, dummy = fleet.move()
        assert (record["status"], fleet.states()) == ("conflict", ("running", "running"))
        assert "Nothing was repaired" in record["message"]
    assert len(fleet.calls) == 1
    # After a person has settled it, the move can be made.
    fleet.domain(there=True).destroy()
    fleet.domain(there=True).undefine()
    fleet.behave = fleet.succeed
    assert fleet.move()[0]["status"] == "completed"


def test_a_definition_of_it_at_the_destination_is_in_the_way(fleet):
    fleet.destination.defineXML(XML)
    record, dummy = fleet.move()
    assert (record["status"], fleet.calls, fleet.states()) == ("failed", [], ("running", "shutoff"))
    assert "virsh undefine" in record["message"]


def broken(*args):
    """Fail as a call over a closed connection does."""
    raise libvirt.libvirtError("client socket is closed")


def test_the_destination_is_lost_in_the_middle(fleet):
    def vanish(domain, flags):
        fleet.down.add("test:///kvm2")
        fleet.destination.lookupByUUIDString = broken
        raise libvirt.libvirtError("client socket is closed")

    fleet.behave = vanish
    record, dummy = fleet.move()
    assert (record["status"], record["source_state"], record["destination_state"]) == (
        "lost",
        "running",
        None,
    )
    assert "start the move again" in record["message"]
    # The move is still lost while the host is away, and the known facts are kept.
    assert fleet.move()[0]["status"] == "lost"
    fleet.down.clear()
    del fleet.destination.lookupByUUIDString
    fleet.behave = fleet.succeed
    assert fleet.move()[0]["status"] == "completed"


def test_a_destination_that_never_answered_leaves_no_doubt(fleet):
    fleet.down.add("test:///kvm2")
    record, dummy = fleet.move()
    assert (record["status"], record["source_state"], record["destination_state"]) == (
        "failed",
        "running",
        None,
    )
    assert "was not begun" in record["message"] and fleet.calls == []


def test_a_source_that_does_not_answer_was_not_seen(fleet):
    fleet.down.add("test:///kvm1")
    record, dummy = fleet.move()
    assert (record["status"], record["source_state"], record["destination_state"]) == (
        "failed",
        None,
        None,
    )


def test_gone_from_both_hosts(fleet):
    def lose(domain, flags):
        domain.destroy()
        domain.undefine()

    fleet.behave = lose
    assert fleet.move()[0]["status"] == "lost"


def test_arrived_but_off(fleet):
    def arrive_off(domain, flags):
        fleet.succeed(domain)
        fleet.domain(there=True).destroy()

    fleet.behave = arrive_off
    record, dummy = fleet.move()
    assert record["status"] == "conflict"
    assert "shutoff at the destination" in record["message"]


class Killed(BaseException):
    """End the worker as kill -9 would, within one process."""


PHASES = ("checking", "waiting", "preparing", "migrating", "verifying", "cleaning")


@pytest.mark.parametrize(
    "phase, was, resume",
    list(itertools.product(PHASES, ("running", "paused", "shutoff"), ("start", "follow"))),
)
def test_a_worker_killed_after_any_step_leaves_what_the_next_call_ends_right(
    fleet, monkeypatch, phase, was, resume
):
    if was == "paused":
        fleet.domain().suspend()
    elif was == "shutoff":
        fleet.domain().destroy()
    if phase == "waiting":
        Line(fleet, monkeypatch)
    real_write = Records.write

    def write_and_die(self, record):
        real_write(self, record)
        if record["phase"] == phase:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Records, "write", write_and_die)
        with pytest.raises(Killed):
            fleet.move(most=1)
    moved = phase in ("verifying", "cleaning")
    assert fleet.states() == (("absent", was) if moved else (was, "absent"))
    record, dummy = fleet.move(may_start=resume == "start")
    if moved or resume == "start":
        assert (record["status"], fleet.states()) == ("completed", ("absent", was))
        assert len(fleet.calls) == 1
    else:
        # Following never starts anything.
        assert (record["status"], fleet.states(), fleet.calls) == ("failed", (was, "absent"), [])
    assert fleet.move()[0]["status"] == "completed"


@pytest.mark.parametrize("was", ["running", "shutoff"])
def test_killed_between_the_definition_there_and_its_removal_here(fleet, was):
    """The code completes the last step of our own move; the same state without our record is a
    conflict."""
    if was == "shutoff":
        fleet.domain().destroy()

    def half(domain, flags):
        there = fleet.destination.defineXML(XML)
        if was == "running":
            there.create()
            domain.destroy()
        raise Killed

    fleet.behave = half
    with pytest.raises(Killed):
        fleet.move()
    text = fleet.records.read(UUID)
    record, dummy = fleet.move(may_start=False)
    assert (record["status"], fleet.states()) == ("completed", ("absent", was))

    fleet.source.defineXML(XML)
    fleet.records.write({**text, "status": "completed", "phase": "done", "was": None})
    record, dummy = fleet.move()
    assert (record["status"], fleet.states()) == ("conflict", ("shutoff", was))


def test_safety_a_domain_that_libvirt_would_forget_is_not_shut_down_for_a_cold_move(fleet):
    """A person undefined the domain while it ran."""
    fleet.domain().undefine()
    move = {
        "uuid": UUID,
        "destination": "kvm2",
        "destination_uri": "test:///kvm2",
        "live": False,
        "will_stop": True,
    }
    (verdict,) = control.check([move], "test:///kvm1", fleet.records)
    assert (
        not verdict["ok"]
        and "it is transient, so that libvirt forgets it once it is shut off: define it first"
        in verdict["message"]
    )


def test_live_and_cold_must_fit_the_state(fleet):
    assert "a cold move wants it shut off" in fleet.move(live=False)[0]["message"]
    fleet.domain().destroy()
    assert "only a running or paused" in fleet.move(live=True)[0]["message"]


def test_another_domain_of_that_name_at_the_destination(fleet):
    fleet.destination.defineXML(XML.replace(UUID, UUID[:-1] + "2"))
    assert "another domain named 'vm'" in fleet.move()[0]["message"]


def test_the_host_it_is_on_is_no_destination(fleet):
    fleet.destination.getHostname = lambda: "kvm1"
    assert "host name of the source" in fleet.move()[0]["message"]


@pytest.mark.parametrize("tunnelled", [True, False])
def test_libvirt_takes_no_address_for_a_tunnelled_move(fleet, tunnelled):
    record, dummy = fleet.move(migrate_uri="tcp://10.98.0.12", tunnelled=tunnelled)
    assert record["status"] == "completed"
    assert (libvirt.VIR_MIGRATE_PARAM_URI in fleet.parameters) is not tunnelled


@pytest.mark.parametrize(
    ("ask", "what"), [("getVersion", "hypervisor"), ("getLibVersion", "libvirt")]
)
@pytest.mark.parametrize("state_here", ["running", "shutoff"])
def test_nothing_moves_back_to_an_older_release(fleet, ask, what, state_here):
    if state_here == "shutoff":
        fleet.domain().destroy()
    setattr(fleet.source, ask, lambda: 11003000)
    setattr(fleet.destination, ask, lambda: 9000002)
    record, dummy = fleet.move()
    assert (record["status"], fleet.calls, fleet.states()) == ("failed", [], (state_here, "absent"))
    assert (
        f"the destination's {what} is older (9.0.2) than the source's (11.3.0)" in record["message"]
    )


def test_a_network_that_the_destination_has_not(fleet):
    fleet.domain().destroy()
    fleet.source.defineXML(
        XML.replace(
            "</os>",
            "</os><devices><interface type='network'><source"
            " network='blue'/></interface></devices>",
        )
    )
    assert "the network blue does not exist on kvm2" in fleet.move()[0]["message"]


class Line:
    """Another move of the host. It has its turn until a given number of looks at the line; then the
    test calls a function."""

    def __init__(self, fleet, monkeypatch, looks=3, then=lambda: None):
        self.other = Turn(fleet.records.folder, "00000000-0000-4000-8000-000000000002")
        self.other.take_place()
        real = Turn.has_come

        def has_come(turn, most):
            nonlocal looks
            looks -= 1
            if looks == 0:
                then()
                self.other.leave()
            return real(turn, most)

        monkeypatch.setattr(Turn, "has_come", has_come)


def test_a_move_waits_for_its_turn(fleet, monkeypatch):
    seen_phases = []
    Line(
        fleet,
        monkeypatch,
        then=lambda: seen_phases.append((fleet.records.read(UUID)["phase"], list(fleet.calls))),
    )
    record, word = fleet.move(most=1)
    assert (record["status"], word, fleet.states()) == (
        "completed",
        "started",
        ("absent", "running"),
    )
    assert seen_phases == [("waiting", [])]
    assert os.listdir(f"{fleet.records.folder}/turns") == ["lock"]


@pytest.fixture
def ready(fleet):
    """Make two other moves of the host: one that moves and one that is ready. If only one may move,
    no third is checked."""
    others = [
        Turn(fleet.records.folder, f"00000000-0000-4000-8000-00000000000{number}")
        for number in (2, 3)
    ]
    for other in others:
        other.take_place()
    yield others
    for other in others:
        other.leave()


def look_at(monkeypatch, act):
    """Call ``act(worker, number of the look)`` each time that the worker looks for its turn to be
    checked."""
    real, looks = worker_module.Worker._is_to_be_checked, []

    def look(worker):
        looks.append(worker)
        act(worker, len(looks))
        return real(worker)

    monkeypatch.setattr(worker_module.Worker, "_is_to_be_checked", look)


def test_a_move_stands_by_while_enough_are_ready(fleet, monkeypatch, ready):
    seen = []

    def act(worker, number):
        seen.append((fleet.records.read(UUID)["phase"], worker.destination))
        if number == 4:
            for other in ready:
                other.leave()

    look_at(monkeypatch, act)
    before = time.time()
    record, word = fleet.move(most=1)
    assert (record["status"], word, seen) == (
        "completed",
        "started",
        [("checking", None)] + [("waiting", None)] * 3,
    )
    assert record["started_at"] > before
    assert {
        os.path.basename(where): names
        for where, _folders, names in os.walk(fleet.records.folder)
        if where != fleet.records.folder
    } == {"checks": ["lock"], "turns": ["lock"]}


@pytest.mark.parametrize(
    "first, second, stands_by",
    [("m1", "m2", True), ("m1", "m1", False), (None, None, False), (None, "m1", True)],
)
def test_a_migration_that_failed_once_stands_by_when_it_is_another_one(
    fleet, monkeypatch, ready, first, second, stands_by
):
    """The move of a host's next drain is as new as its first. Only a move that may have begun
    already is examined at once."""
    fleet.behave, phases = fleet.fail, []
    fleet.move(migration=first)
    fleet.behave = fleet.succeed

    def act(worker, number):
        phases.append(fleet.records.read(UUID)["phase"])
        if number == 3:
            for other in ready:
                other.leave()

    look_at(monkeypatch, act)
    monkeypatch.setattr(worker_module.Worker, "_wait_for_turn", lambda worker: 0)
    again = first is not None and first == second
    assert fleet.move(most=1, migration=second)[0]["status"] == ("failed" if again else "completed")
    assert phases == (["checking", "waiting", "waiting"] if stands_by else [])


def test_another_migration_of_what_has_moved_already_is_answered_as_its_own(fleet):
    """A store from a backup does not know the first migration: for the store the second was carried
    out."""
    assert fleet.move(migration="m1")[0]["status"] == "completed"
    record, word = fleet.move(migration="m2")
    assert (record["status"], word, record["move"]["migration"], len(fleet.calls)) == (
        "completed",
        "completed",
        "m2",
        1,
    )
    wanted = {"uuid": record["uuid"], "migration": "m2"}
    told = following.report(wanted, fleet.records, None)
    assert (told["status"], told["source_state"], told["destination_state"]) == (
        "completed",
        "absent",
        "running",
    )


def test_a_move_that_waits_for_another_call_says_so(fleet):
    """A step of a killed run that moves a disk still has the lock of the instance."""
    order = {"uuid": UUID, "migration": "m1"}
    assert "No move of it is recorded" in following.report(order, fleet.records, None)["message"]
    lock = fleet.records.lock(UUID)
    answer = following.report(order, fleet.records, None)
    assert (
        answer["status"] == "lost"
        and "Another call of drover.compute works on it on this host" in answer["message"]
    )
    os.close(lock)


@pytest.mark.parametrize("phase", [None, "checking", "waiting", "preparing", "migrating"])
def test_what_never_began_is_told_from_what_did_not_go_through(fleet, phase):
    """No worker ever got the move, or the worker died at that point."""
    if phase is not None:
        order = {
            "uuid": UUID,
            "destination": "kvm2",
            "destination_uri": "test:///kvm2",
            "migration": "m1",
        }
        fleet.records.prepare()
        fleet.records.write({**new_record(order, "test:///kvm1"), "phase": phase})
    record, dummy = fleet.move(may_start=False, migration="m1")
    assert (record["status"], fleet.states(), fleet.calls) == ("failed", ("running", "absent"), [])
    if phase in ("preparing", "migrating"):
        assert record["phase"] == "done" and "the worker that moved it died" in record["message"]
    else:
        assert record["phase"] == (phase or "checking") and record["message"].endswith(
            "it had not begun. It is running at the source."
        )


def test_a_migration_that_has_ended_is_never_begun_again(fleet):
    """The call that begins it may come late, after its run died and another run settled it."""
    assert fleet.move(may_start=False, migration="m1")[0]["status"] == "failed"
    record, dummy = fleet.move(migration="m1")
    assert (record["status"], fleet.states(), fleet.calls) == ("failed", ("running", "absent"), [])
    # It is not begun after another migration either.
    fleet.behave = fleet.fail
    fleet.move(migration="m2")
    fleet.behave = fleet.succeed
    assert (fleet.move(migration="m1")[0]["status"], fleet.states()) == (
        "failed",
        ("running", "absent"),
    )
    assert (fleet.move(migration="m3")[0]["status"], fleet.states()) == (
        "completed",
        ("absent", "running"),
    )


def test_safety_16_the_record_of_another_move_is_not_this_ones(fleet):
    fleet.move(migration="m1")
    mine = {"uuid": UUID, "migration": "m1", "destination_uri": "test:///kvm2"}
    assert following.report(mine, fleet.records, None)["status"] == "completed"
    assert following.report({"uuid": UUID}, fleet.records, None)["status"] == "completed"
    for other in ({"migration": "m2"}, {"migration": None, "destination_uri": "test:///kvm3"}):
        answer = following.report({**mine, **other}, fleet.records, None)
        assert (
            answer["status"] == "lost"
            and answer["source_state"] is None
            and answer["destination_state"] is None
        )
        assert "Another move of it is recorded on this host" in answer["message"]


def test_no_more_are_checked_at_a_time_than_may_move(fleet, monkeypatch):
    """If no move runs yet, the moves that may begin at once do not wait for the checks of the moves
    behind them."""
    before = Turn(fleet.records.folder, "00000000-0000-4000-8000-000000000002", "checks")
    before.take_place()
    phases = []

    def act(worker, number):
        phases.append(fleet.records.read(UUID)["phase"])
        if number == 3:
            before.leave()

    look_at(monkeypatch, act)
    assert fleet.move(most=1)[0]["status"] == "completed"
    assert phases == ["checking", "waiting", "waiting"]


def test_a_move_that_stands_by_can_be_aborted(fleet, monkeypatch, ready):
    look_at(monkeypatch, lambda worker, number: number == 2 and fleet.records.ask_abort(UUID, "m1"))
    record, word = fleet.move(most=1, migration="m1")
    assert (record["status"], word, fleet.states(), fleet.calls) == (
        "cancelled",
        "started",
        ("running", "absent"),
        [],
    )


def test_a_move_does_not_stand_by_for_ever(fleet, monkeypatch, ready):
    """A move that hangs while it is checked does not stop the check and the refusal of another."""
    monkeypatch.setattr(worker_module, "CHECKED", 0.05)
    monkeypatch.setattr(worker_module, "precheck", lambda *arguments: ["there is no room"])
    record, dummy = fleet.move(most=1)
    assert record["status"] == "failed" and "there is no room" in record["message"]


def test_a_move_does_not_wait_where_there_is_room(fleet, monkeypatch):
    Line(fleet, monkeypatch, looks=-1)
    assert fleet.move(most=2)[0]["status"] == "completed"


@pytest.mark.parametrize("fate, status", [("succeed", "completed"), ("fail", "failed")])
def test_the_next_move_begins_before_this_one_has_tidied_up(fleet, monkeypatch, fate, status):
    other = Turn(fleet.records.folder, "00000000-0000-4000-8000-000000000002")
    came = []
    real_write = Records.write

    def write(self, record):
        real_write(self, record)
        if record["phase"] == "migrating":
            other.take_place()
            came.append(other.has_come(1))
        if record["phase"] == "verifying":
            came.append(other.has_come(1))

    monkeypatch.setattr(Records, "write", write)
    fleet.behave = getattr(fleet, fate)
    assert fleet.move(most=1)[0]["status"] == status
    assert (came[0], came[-1]) == (False, True)


def test_a_move_that_waits_can_be_aborted(fleet, monkeypatch):
    Line(fleet, monkeypatch, looks=9, then=lambda: pytest.fail("it was not aborted"))
    fleet.records.prepare()
    real_write = Records.write

    def write(self, record):
        real_write(self, record)
        if record["phase"] == "waiting":
            self.ask_abort(UUID, "m1")

    monkeypatch.setattr(Records, "write", write)
    record, word = fleet.move(most=1, migration="m1")
    assert (record["status"], word, fleet.states(), fleet.calls) == (
        "cancelled",
        "started",
        ("running", "absent"),
        [],
    )
    assert "was aborted on request" in record["message"]


@pytest.mark.parametrize("waited, calls", [(31, 0), (29, 1)])
def test_what_was_checked_long_ago_is_checked_again(fleet, monkeypatch, waited, calls):
    monkeypatch.setattr(worker_module.Worker, "_wait_for_turn", lambda worker: waited)
    real, prechecks = worker_module.precheck, []

    def precheck(*arguments):
        prechecks.append(arguments)
        return real(*arguments) if len(prechecks) == 1 else ["no room any more"]

    monkeypatch.setattr(worker_module, "precheck", precheck)
    record, dummy = fleet.move(most=1)
    assert (record["status"], len(fleet.calls)) == ("completed" if calls else "failed", calls)
    assert calls or "no room any more" in record["message"]


def test_an_instance_that_goes_away_while_its_move_waits(fleet, monkeypatch):
    def wait(worker):
        worker.save(phase="waiting")
        fleet.domain().destroy()
        fleet.domain().undefine()
        return 31

    monkeypatch.setattr(worker_module.Worker, "_wait_for_turn", wait)
    record, dummy = fleet.move()
    assert (record["status"], fleet.calls) == ("failed", [])
    assert "failed before anything was moved: it is gone from the source" in record["message"]


def test_a_connection_that_breaks_while_it_waits_is_opened_anew(fleet, monkeypatch):
    opened = []

    def wait(worker):
        real, reconnect = worker.destination, worker._reconnect
        worker.destination = Broken()
        worker._reconnect = lambda: opened.append(real) or reconnect()
        return 31

    class Broken:
        def close(self, *dummy):
            raise libvirt.libvirtError("client socket is closed")

        lookupByUUIDString = listAllDomains = close

    monkeypatch.setattr(worker_module.Worker, "_wait_for_turn", wait)
    record, dummy = fleet.move()
    assert (record["status"], len(opened), fleet.states()) == (
        "completed",
        1,
        ("absent", "running"),
    )


@pytest.mark.parametrize("until, left", [(None, 2), (2, 2), (1, 1), (0, 0), (9, 3)])
def test_following_ends_when_so_few_are_under_way(fleet, monkeypatch, until, left):
    """One move ends at each look after the first."""
    looks = []

    def report(wanted, records, conn):
        uuid = wanted["uuid"]
        # The last look calls libvirt too.
        if conn is None:
            looks.append(uuid)
        over = (len(looks) - 1) // 3
        return {"uuid": uuid, "status": "completed" if int(uuid) < over else "running"}

    monkeypatch.setattr(following, "report", report)
    monkeypatch.setattr(following, "POLL", 0.001)
    answers = following.follow(
        [{"uuid": each} for each in "012"], "test:///kvm1", fleet.records, 60, until
    )
    assert sum(answer["status"] == "running" for answer in answers) == left


@pytest.mark.parametrize("event", ["ends", "ended before", "begins", "begins unknown", "nothing"])
def test_following_ends_soon_after_news(fleet, monkeypatch, event):
    """``1`` waits for its turn; the caller waits until no move is open, and would wait for long."""
    now, states = [0.0], {"0": ("running", "migrating"), "1": ("running", "waiting")}
    late = {
        "ends": ("0", ("completed", "done")),
        "begins": ("1", ("running", "preparing")),
        "begins unknown": ("0", ("running", "cleaning")),
    }
    if event == "ended before":
        states["0"] = ("failed", "done")

    def pass_time(seconds):
        now[0] += seconds
        if event in late and now[0] >= 5:
            states.update([late[event]])

    def report(wanted, records, conn):
        status, phase = states[wanted["uuid"]]
        return {"uuid": wanted["uuid"], "status": status, "phase": phase}

    monkeypatch.setattr(following, "report", report)
    monkeypatch.setattr(
        following, "time", types.SimpleNamespace(monotonic=lambda: now[0], sleep=pass_time)
    )
    news = following.News(1, ["1"])
    following.follow([{"uuid": "0"}, {"uuid": "1"}], "test:///kvm1", fleet.records, 60, 0, news)
    expected = {"ends": 6, "ended before": 1, "begins": 6, "begins unknown": 60, "nothing": 60}
    assert now[0] == pytest.approx(expected[event], abs=0.3)


def test_one_worker_at_a_time(fleet):
    lock = fleet.records.lock(UUID)
    assert fleet.records.is_locked(UUID)
    assert fleet.records.lock(UUID) is None
    os.close(lock)
    assert not fleet.records.is_locked(UUID)


def test_a_broken_record_is_no_record(fleet):
    fleet.move()
    (path,) = pathlib.Path(fleet.records.folder).glob("*.json")
    for text in ("", "{", "[]", json.dumps({"version": 99})):
        path.write_text(text)
        assert fleet.records.read(UUID) is None
    assert fleet.move()[0]["status"] == "completed"


def test_a_destination_that_cannot_be_reached_leaves_a_running_instance_where_it_is_seen(fleet):
    fleet.down.add("test:///kvm2")
    record, dummy = fleet.move()
    assert (record["status"], record["source_state"]) == ("failed", "running")
    assert "was not begun" in record["message"]


PINNED = XML.replace(
    "<memory ",
    """<vcpu>1</vcpu><cputune><shares>512</shares><vcpupin vcpu='0' cpuset='1'/><emulatorpin cpuset='1'/></cputune>
    <numatune><memory mode='strict' nodeset='0'/></numatune><memory """,
)
THERE = {
    "cpuset": None,
    "vcpu_pins": {"0": [3]},
    "emulator_pins": [3],
    "iothread_pins": {},
    "memory": {"mode": "strict", "nodes": [1]},
    "cells": [{"id": 0, "cpus": [0], "memory_mb": 64, "mode": "strict", "nodes": [1]}],
    "pages": [],
    "locked": False,
}


@pytest.fixture
def pinned(fleet, request):
    """Return the domain pinned to CPU 1 and cell 0, running or off."""
    domain = fleet.source.lookupByUUIDString(UUID)
    domain.destroy()
    domain.undefine()
    domain = fleet.source.defineXML(PINNED)
    if request.param != "shutoff":
        domain.create()
    return domain


def numa_of(domain):
    return parse_numa(parse(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)))


@pytest.mark.parametrize("pinned", ["running", "shutoff"], indirect=True)
def test_a_pinned_domain_gets_the_cpus_that_were_claimed_at_the_destination(fleet, pinned):
    live = bool(pinned.isActive())
    record, dummy = fleet.move(live=live, numa=THERE)
    assert record["status"] == "completed", record["message"]
    assert fleet.parameters.keys() == ({DEST_XML, PERSIST_XML} if live else {DEST_XML})
    for text in fleet.parameters.values():
        found = parse_numa(parse(text))
        assert (found["vcpu_pins"], found["emulator_pins"], found["memory"]["nodes"]) == (
            {"0": [3]},
            [3],
            [1],
        )
        assert "<shares>512</shares>" in text
    assert numa_of(fleet.destination.lookupByUUIDString(UUID))["vcpu_pins"] == {"0": [3]}


@pytest.mark.parametrize("pinned", ["running", "shutoff"], indirect=True)
def test_after_a_failed_move_the_source_has_its_own_pins(fleet, pinned):
    before, fleet.behave = numa_of(pinned), fleet.fail
    record, dummy = fleet.move(live=bool(pinned.isActive()), numa=THERE)
    assert record["status"] == "failed"
    assert numa_of(fleet.source.lookupByUUIDString(UUID)) == before
    assert before["vcpu_pins"] == {"0": [1]}


@pytest.mark.parametrize("pinned", ["running"], indirect=True)
def test_a_move_that_begins_again_uses_the_same_pins(fleet, pinned, monkeypatch):
    def killed(domain, flags=0):
        raise Killed

    fleet.behave = killed
    with pytest.raises(Killed):
        fleet.move(live=True, migration="m1", numa=THERE)
    first, fleet.behave = dict(fleet.parameters), fleet.succeed
    record, dummy = fleet.move(live=True, migration="m1", numa=THERE)
    assert record["status"] == "completed", record["message"]
    assert fleet.parameters == first != {}


@pytest.mark.parametrize("pinned", ["running"], indirect=True)
def test_a_domain_bound_by_hand_is_refused_before_anything_moves(fleet, pinned):
    record, dummy = fleet.move(live=True, numa={})
    assert (record["status"], fleet.calls) == ("failed", [])
    assert "its vCPUs (vcpupin)" in record["message"] and "virsh edit" in record["message"]
    assert "as it starts next time" not in record["message"]
    (checked,) = control.check(
        [{"uuid": UUID, "destination": "kvm2", "destination_uri": "test:///kvm2", "numa": {}}],
        "test:///kvm1",
        fleet.records,
    )
    assert checked["ok"] is False and "vcpupin" in checked["why"]


@pytest.mark.parametrize("pinned", ["running"], indirect=True)
def test_what_only_the_next_start_has_is_refused_too(fleet, pinned):
    fleet.source.defineXML(
        PINNED.replace("mode='strict' nodeset='0'", "mode='preferred' nodeset='0'")
    )
    record, dummy = fleet.move(live=True, numa=THERE)
    assert (record["status"], fleet.calls) == ("failed", [])
    assert (
        "as it starts next time, its memory comes from cells of the host by the mode preferred"
        in record["message"]
    )


def test_a_domain_that_floats_everywhere_is_sent_as_it_is(fleet):
    record, dummy = fleet.move(live=True, numa={})
    assert (record["status"], fleet.parameters) == ("completed", {})
