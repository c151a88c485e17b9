# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of a live move: valid combinations, the arguments of the libvirt call, and the action
when the time limit is over.

The two hosts are the hosts of ``test_migration``; a slow migration ends only by an action.
"""

from __future__ import annotations

import threading
import time
import types

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._migration import (
    certificates,
    options,
    state,
)
from ansible_collections.drover.compute.plugins.module_utils._migration import watch as watch_module
from ansible_collections.drover.compute.plugins.module_utils._migration import (
    worker as worker_module,
)
from ansible_collections.drover.compute.plugins.module_utils._migration.flags import (
    flags_and_parameters,
    version_reasons,
)
from ansible_collections.drover.compute.plugins.module_utils._orders.records import Records
from ansible_collections.drover.compute.tests.unit.module_utils.migration.test_worker import (
    UUID,
    Fleet,
    Killed,
    seen,
)

LIMIT = 0.3


@pytest.mark.parametrize(
    "given, words",
    [
        ({}, []),
        (
            {
                "parallel_connections": 4,
                "tls": True,
                "post_copy": True,
                "on_timeout": "post_copy",
                "compression": "zstd",
            },
            [],
        ),
        ({"tunnelled": True, "compression": "xbzrle", "on_timeout": "shutdown"}, []),
        ({"post_copy": True, "on_timeout": "abort"}, []),
        ({"tunnelled": True, "parallel_connections": 2}, ["tunnelled and parallel_connections"]),
        (
            {"tunnelled": True, "tls": True, "post_copy": True},
            ["tunnelled and post_copy", "tunnelled and tls"],
        ),
        ({"tunnelled": True, "tls": False}, []),
        ({"on_timeout": "post_copy"}, ["on_timeout is post_copy"]),
        ({"on_timeout": "post_copy", "post_copy": False}, ["on_timeout is post_copy"]),
        ({"compression": "xbzrle", "parallel_connections": 2}, ["compression xbzrle"]),
        ({"compression": "zlib"}, ["compression zlib"]),
        ({"parallel_connections": 1}, ["give 2 or more"]),
        (
            {"bandwidth_mib": 0, "timeout_per_gib": -1},
            ["bandwidth_mib is 0", "timeout_per_gib is -1"],
        ),
    ],
)
def test_contradictions(given, words):
    found = options.contradictions(given)
    assert len(found) == len(words)
    for reason, part in zip(found, words):
        assert part in reason


def test_a_policy_is_laid_over_the_task_and_says_only_what_it_says():
    general = {"bandwidth_mib": 100, "post_copy": True, "tls": None}
    assert options.merged(
        general, {"post_copy": False, "tls": True, "bandwidth_mib": None, "priority": 3}
    ) == {
        "bandwidth_mib": 100,
        "post_copy": False,
        "tls": True,
    }
    assert options.merged(general, None) == {"bandwidth_mib": 100, "post_copy": True}


def test_the_time_limit_is_novas():
    assert options.time_limit({}, 8, [10]) == 800 * 18
    assert options.time_limit({}, 0, [0, 1]) == 800 * 6
    assert options.time_limit({"timeout_per_gib": 10}, 4, []) == 40


def host(version, name="kvm2"):
    return types.SimpleNamespace(getLibVersion=lambda: version, getHostname=lambda: name)


def test_flags_and_parameters():
    flags, parameters = flags_and_parameters(
        {
            "bandwidth_mib": 9,
            "parallel_connections": 3,
            "auto_converge": True,
            "post_copy": True,
            "tls": True,
            "compression": "zstd",
        },
        host(9004000),
    )
    assert flags == (
        libvirt.VIR_MIGRATE_PARALLEL
        | libvirt.VIR_MIGRATE_AUTO_CONVERGE
        | libvirt.VIR_MIGRATE_POSTCOPY
        | libvirt.VIR_MIGRATE_TLS
        | libvirt.VIR_MIGRATE_COMPRESSED
    )
    assert parameters == {
        "bandwidth": 9,
        "bandwidth.postcopy": 9,
        "parallel.connections": 3,
        "compression": "zstd",
        "tls.destination": "kvm2",
    }
    assert flags_and_parameters({"tunnelled": True, "tls": False}, host(9000000)) == (
        libvirt.VIR_MIGRATE_TUNNELLED,
        {},
    )
    assert flags_and_parameters({}, host(9000000)) == (0, {})


def test_what_a_libvirt_is_too_old_for_is_said_with_the_host():
    move_options = {"parallel_connections": 2, "compression": "zlib", "post_copy": True}
    assert version_reasons(host(9004000), host(9004000), move_options, "kvm2") == []
    (reason,) = version_reasons(host(9004000), host(9000000), move_options, "kvm2")
    assert "compression zlib needs libvirt 9.4.0, and kvm2 has 9.0.0" in reason
    assert len(version_reasons(host(4005000), host(4005000), move_options, "kvm2")) == 2


def test_a_binding_that_does_not_know_a_flag(monkeypatch):
    monkeypatch.delattr(libvirt, "VIR_MIGRATE_PARALLEL")
    (reason,) = version_reasons(host(9004000), host(9004000), {"parallel_connections": 2}, "kvm2")
    assert "upgrade python3-libvirt" in reason


def test_certificates_that_are_missing_are_named_before_anything_begins(tmp_path, monkeypatch):
    there = {"ca-cert.pem", "server-cert.pem"}

    class Folder:
        def __init__(self, conn, path):
            assert path == str(tmp_path)

        def stat(self, name):
            return {} if name in there else None

    monkeypatch.setattr(certificates, "Folder", Folder)
    (tmp_path / "qemu.conf").write_text(
        f'default_tls_x509_cert_dir = "/nowhere"\n migrate_tls_x509_cert_dir = "{tmp_path}"\n'
    )
    reasons = certificates.certificate_reasons(None, "kvm2", str(tmp_path / "qemu.conf"))
    assert [
        f"the source has no {tmp_path}/ca-cert.pem" in reasons[0],
        f"kvm2 has no {tmp_path}/server-key.pem" in reasons[1],
    ] == [True, True]
    there.add("server-key.pem")
    for name in ("ca-cert.pem", "client-cert.pem", "client-key.pem"):
        (tmp_path / name).write_text("")
    assert certificates.certificate_reasons(None, "kvm2", str(tmp_path / "qemu.conf")) == []


class Slow(Fleet):
    """A migration that never ends without an action."""

    def __init__(self, tmp_path, monkeypatch):
        super().__init__(tmp_path, monkeypatch)
        self.done = []
        self.job, self.end = False, threading.Event()
        self.deaf = set()
        self.behave = self.crawl
        domain = libvirt.virDomain
        self.real = {
            name: getattr(domain, name)
            for name in ("jobInfo", "suspend", "shutdown", "create", "resume")
        }
        monkeypatch.setattr(domain, "jobInfo", lambda each: [2 if self.job else 0] + 11 * [0])
        monkeypatch.setattr(domain, "abortJob", lambda each: self.act("abort", each))
        monkeypatch.setattr(
            domain, "migrateStartPostCopy", lambda each, flags: self.act("post_copy", each)
        )
        monkeypatch.setattr(domain, "suspend", lambda each: self.act("suspend", each))
        monkeypatch.setattr(domain, "shutdown", lambda each: self.act("shutdown", each))
        monkeypatch.setattr(
            domain,
            "jobStats",
            lambda each, flags=0: {"type": 2 if self.job else 0, "memory_remaining": 7},
        )
        monkeypatch.setattr(watch_module, "POLL", 0.02)
        monkeypatch.setattr(watch_module, "STALLED", 0.2)
        monkeypatch.setattr(worker_module, "SHUTDOWN", 0.3)
        monkeypatch.setattr(worker_module, "time_limit", lambda *args: LIMIT)

    def act(self, what, domain):
        """Record an action of another thread. The migration ignores the actions in ``deaf``."""
        if what != "shutdown" and not self.job:
            raise libvirt.libvirtError("no job is active on the domain")
        self.done.append(what)
        if what in ("suspend", "shutdown") and what not in self.deaf:
            self.real[what](domain)
        if what not in self.deaf and what != "shutdown":
            self.how = what
            self.end.set()

    def crawl(self, domain, flags):
        if flags & libvirt.VIR_MIGRATE_OFFLINE:
            return self.cold(domain, flags)
        self.end.clear()
        self.job = True
        assert self.end.wait(10), "nobody has done anything about it"
        self.job = False
        if self.how == "abort":
            raise libvirt.libvirtError("operation aborted: job 'migration out' canceled by client")
        if self.how == "suspend":
            # libvirt does the same: a guest that ran at the beginning runs after its arrival.
            self.real["resume"](domain)
        return self.succeed(domain)

    def cold(self, domain, flags):
        return self.succeed(domain)


@pytest.fixture
def slow(tmp_path, monkeypatch):
    """Return two hosts; the domain runs on the first, and cannot be moved in time."""
    made = Slow(tmp_path, monkeypatch)
    yield made
    made.close()


@pytest.mark.parametrize(
    "action, end, done",
    [
        (None, ("failed", ("running", "absent")), {"abort"}),
        ("abort", ("failed", ("running", "absent")), {"abort"}),
        ("post_copy", ("completed", ("absent", "running")), {"post_copy"}),
        ("pause", ("completed", ("absent", "running")), {"suspend"}),
        ("shutdown", ("completed", ("absent", "running")), {"abort", "shutdown"}),
    ],
)
def test_when_the_time_is_over(slow, action, end, done):
    record, dummy = slow.move(on_timeout=action, post_copy=action == "post_copy")
    assert ((record["status"], slow.states()), set(slow.done)) == (end, done), record["message"]
    assert record["escalated"] == (action or "abort")
    if end[0] == "failed":
        assert f"not done within {LIMIT} s and was aborted" in record["message"]
    if action == "shutdown":
        assert "it was shut down, moved cold and started again" in record["message"]
        assert slow.calls[-1] & libvirt.VIR_MIGRATE_OFFLINE


@pytest.mark.parametrize("step", [86400, -86400])
def test_suspected_9_a_clock_that_is_set_ends_no_time(slow, monkeypatch, step):
    """A migration within its time limit continues, and a migration over its limit does not."""
    monkeypatch.setattr(worker_module, "time_limit", lambda *args: 20 if step > 0 else LIMIT)

    def set_the_clock(domain, flags):
        monkeypatch.setattr(time, "time", lambda real=time.time: real() + step)
        if step < 0:
            return slow.crawl(domain, flags)
        slow.job = True
        time.sleep(20 * watch_module.POLL)
        slow.job = False
        return slow.succeed(domain)

    slow.behave = set_the_clock
    record, dummy = slow.move()
    expected = ("completed", [], None) if step > 0 else ("failed", ["abort"], "abort")
    assert (record["status"], slow.done[:1], record["escalated"]) == expected, record["message"]


@pytest.mark.parametrize(
    "action, deaf, words",
    [
        ("post_copy", "post_copy", "post-copy did not end it"),
        ("pause", "suspend", "nothing more arrived while the guest was paused"),
    ],
)
def test_what_does_not_help_is_aborted_in_the_end(slow, monkeypatch, action, deaf, words):
    slow.deaf = {deaf}
    if action == "post_copy":
        # The switch to post-copy also failed.
        refuse = libvirt.virDomain.migrateStartPostCopy

        def refused(domain, flags):
            refuse(domain, flags)
            raise libvirt.libvirtError("Postcopy must be started after migration has been started")

        monkeypatch.setattr(libvirt.virDomain, "migrateStartPostCopy", refused)
    record, dummy = slow.move(on_timeout=action, post_copy=True)
    assert (record["status"], slow.states()) == ("failed", ("running", "absent")), record["message"]
    assert words in record["message"] and slow.done[-1] == "abort"


def test_a_guest_left_paused_by_us_goes_on(slow, monkeypatch):
    """libvirt resumes the guest of a migration that it ends. If it does not, our code does, because
    our code paused the guest."""

    def abort_and_stay_paused(domain):
        slow.done.append("abort")
        slow.how = "abort"
        slow.end.set()

    slow.deaf = {"suspend"}
    plain = libvirt.virDomain.suspend

    def suspend(domain):
        plain(domain)
        slow.real["suspend"](domain)

    monkeypatch.setattr(libvirt.virDomain, "suspend", suspend)
    monkeypatch.setattr(libvirt.virDomain, "abortJob", abort_and_stay_paused)
    record, dummy = slow.move(on_timeout="pause")
    assert (record["status"], slow.states()) == ("failed", ("running", "absent"))


def test_a_guest_that_does_not_shut_down_stays(slow):
    slow.deaf = {"shutdown"}
    record, dummy = slow.move(on_timeout="shutdown")
    assert (record["status"], slow.states()) == ("failed", ("running", "absent"))
    assert "did not shut down within" in record["message"]


def test_what_was_shut_down_and_cannot_be_moved_is_started_again(slow):
    slow.cold = slow.fail
    record, dummy = slow.move(on_timeout="shutdown")
    assert (record["status"], slow.states()) == ("failed", ("running", "absent"))
    assert "QEMU said no" in record["message"] and "was started again" in record["message"]


def test_what_cannot_be_started_there_is_told(slow, monkeypatch):
    def refuse(domain, flags):
        raise libvirt.libvirtError("no memory")

    monkeypatch.setattr(
        slow,
        "succeed",
        lambda domain, flags=0: (slow.destination.defineXML(domain.XMLDesc(0)), domain.undefine()),
    )
    monkeypatch.setattr(libvirt.virDomain, "createWithFlags", refuse)
    record, dummy = slow.move(on_timeout="shutdown")
    assert (record["status"], slow.states()) == ("completed", ("absent", "shutoff"))
    assert "CANNOT BE STARTED there (no memory)" in record["message"]


def test_a_transient_domain_is_not_shut_down(slow):
    slow.domain().undefine()
    record, dummy = slow.move(on_timeout="shutdown")
    assert (record["status"], slow.states()) == ("failed", ("running", "absent"))
    assert "it is transient and would be gone" in record["message"]


@pytest.mark.parametrize("write", range(4, 14))
@pytest.mark.parametrize("resume", ["start", "follow"])
def test_killed_on_the_way_to_a_cold_move_it_runs_in_one_place_afterwards(
    slow, monkeypatch, write, resume
):
    """Kill the worker after any write of the record. A cold move that had not ended is not begun
    again if it is only followed."""
    real_write, count = Records.write, [0]

    def write_and_die(self, record):
        real_write(self, record)
        count[0] += 1
        if count[0] >= write and threading.current_thread() is threading.main_thread():
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Records, "write", write_and_die)
        try:
            slow.move(on_timeout="shutdown")
        except Killed:
            pass
    # The migration was not begun yet, or it was aborted when its time was over.
    slow.job = False
    record, dummy = slow.move(may_start=resume == "start", on_timeout="shutdown")
    assert record["status"] in ("completed", "failed"), record["message"]
    assert slow.states() == (
        ("absent", "running") if record["status"] == "completed" else ("running", "absent")
    )


# Abort


def test_an_abort_is_heeded_by_the_worker_at_work(slow, monkeypatch):
    monkeypatch.setattr(worker_module, "time_limit", lambda *args: 100)
    timer = threading.Timer(0.2, slow.records.ask_abort, (UUID, "m1"))
    timer.start()
    record, dummy = slow.move(migration="m1")
    assert (record["status"], slow.states(), set(slow.done)) == (
        "cancelled",
        ("running", "absent"),
        {"abort"},
    )
    assert "aborted on request" in record["message"]
    # The same migration is not begun again; another one is.
    record, word = slow.move(migration="m1")
    assert (record["status"], word, len(slow.calls)) == ("cancelled", "cancelled", 1)
    slow.behave = slow.succeed
    assert slow.move(migration="m2")[0]["status"] == "completed"


@pytest.mark.parametrize("migration", ["m1", None])
def test_what_was_not_begun_is_not_begun_after_an_abort(slow, migration):
    slow.records.ask_abort(UUID, migration)
    record, dummy = slow.move(may_start=False, migration=migration)
    assert (record["status"], slow.calls, slow.states()) == ("cancelled", [], ("running", "absent"))
    slow.behave = slow.succeed
    assert slow.move(migration="m2")[0]["status"] == "completed"


def test_an_abort_that_was_meant_for_an_earlier_migration_does_not_count(slow):
    slow.records.ask_abort(UUID, "m1")
    slow.behave = slow.succeed
    assert slow.move(migration="m2")[0]["status"] == "completed"


def test_what_a_dead_worker_had_begun_is_aborted(slow, monkeypatch):
    def die(domain, flags):
        slow.job = True
        raise Killed

    slow.behave = die
    with pytest.raises(Killed):
        slow.move(migration="m1")

    def stop(domain):
        slow.done.append("abort")
        slow.job = False

    monkeypatch.setattr(libvirt.virDomain, "abortJob", stop)
    slow.records.ask_abort(UUID, "m1")
    record, dummy = slow.move(may_start=False, migration="m1")
    assert (record["status"], slow.states()) == ("cancelled", ("running", "absent"))


def test_too_late(slow):
    slow.behave = slow.succeed
    slow.move(migration="m1")
    slow.records.ask_abort(UUID, "m1")
    record, dummy = slow.move(may_start=False, migration="m1")
    assert (record["status"], slow.states()) == ("completed", ("absent", "running"))
    assert not slow.records.abort_asked(UUID, "m1")


# A post-copy that failed


@pytest.mark.parametrize(
    "here, there",
    [
        (seen("paused", reason=13), seen("paused", reason=13)),
        (seen("paused", reason=13, job=True), seen("running", reason=11)),
        (None, seen("paused", reason=13)),
    ],
)
def test_half_of_the_memory_on_each_side_is_nobodys_truth(here, there):
    assert state.classify(here, there) == state.BROKEN


def test_a_broken_post_copy_is_a_conflict_and_gone_on_with_when_asked_again(slow, monkeypatch):
    broken = [True]
    look = state.look
    monkeypatch.setattr(
        state,
        "look",
        lambda conn, uuid: (
            {**look(conn, uuid), "state": "paused", "reason": 13} if broken[0] else look(conn, uuid)
        ),
    )

    def part(domain, flags):
        slow.destination.defineXML(domain.XMLDesc(0)).create()
        raise libvirt.libvirtError("connection closed")

    broken[0] = False
    monkeypatch.setattr(
        slow, "behave", lambda domain, flags: broken.__setitem__(0, True) or part(domain, flags)
    )
    record, dummy = slow.move(post_copy=True, on_timeout="post_copy")
    assert (
        record["status"] == "conflict" and "its memory is partly on each host" in record["message"]
    )

    monkeypatch.setattr(worker_module, "RESUME", 0.2)
    monkeypatch.setattr(worker_module, "RESUME_PAUSE", 0.05)
    attempts = []

    def still_running(domain, flags):
        attempts.append(flags)
        raise libvirt.libvirtError("QEMU reports migration is still running")

    slow.behave = still_running
    record, dummy = slow.move(post_copy=True, on_timeout="post_copy")
    assert record["status"] == "conflict" and len(attempts) > 1

    def recover(domain, flags):
        assert flags & libvirt.VIR_MIGRATE_POSTCOPY_RESUME and flags & libvirt.VIR_MIGRATE_POSTCOPY
        broken[0] = False
        domain.destroy()
        domain.undefine()

    slow.behave = recover
    record, dummy = slow.move(post_copy=True, on_timeout="post_copy")
    assert (record["status"], slow.states()) == ("completed", ("absent", "running")), record[
        "message"
    ]
