# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every call to libvirt ends. After a call without an answer no other call is sent over its
connection."""

from __future__ import annotations

import concurrent.futures
import errno
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._files import limits
from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding
from ansible_collections.drover.compute.plugins.module_utils._libvirt import calls as _libvirt_calls
from ansible_collections.drover.compute.plugins.module_utils._libvirt.binding import (
    LibvirtProblem,
    LibvirtSilent,
)
from ansible_collections.drover.compute.plugins.module_utils._storage import volumes

HERE = os.uname().nodename

#: A module that calls a libvirt without answers; the second argument selects the call.
MODULE = """
import sys, time
import libvirt
from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding, calls
from ansible_collections.drover.compute.plugins.modules import domain_power, hypervisor_info
from ansible_collections.drover.compute.tests.unit.module_args import patch_module_args
binding.CONNECT_TIMEOUT = calls.CALL_TIMEOUT = hypervisor_info.READ_TIMEOUT = 0.5
uri, what = sys.argv[1:]
if what != "open":
    # As the C library does: without the interpreter's lock, for ever.
    setattr(libvirt.virConnect, what, lambda *args: time.sleep(600))
if what == "lookupByUUIDString":
    domains = [{"uuid": f"00000000-0000-4000-8000-{number:012d}"} for number in range(5)]
    module, args = domain_power, {"state": "running", "domains": domains}
else:
    module, args = hypervisor_info, {}
with patch_module_args({"uri": uri, **args}):
    module.main()
"""


@pytest.fixture
def deaf(tmp_path):
    """Return the URI of a libvirt that takes connections and answers nothing."""
    path = tmp_path / "libvirt-sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.fspath(path))
        server.listen()
        yield f"qemu:///system?socket={path}"


@pytest.fixture
def connection(monkeypatch):
    """Return a connection with a limit of half a second for its calls."""
    monkeypatch.setattr(_libvirt_calls, "CALL_TIMEOUT", 0.5)
    made = binding.open_connection("test:///default")
    yield made
    binding.close(made)


@pytest.fixture
def hang(monkeypatch):
    """``hang(class, name)`` has that call hang until the test is over; it returns the list of times
    of the call."""
    over = threading.Event()

    def make(kind, name):
        calls = []

        def call(*args):
            calls.append(args)
            over.wait(60)
            return 0

        monkeypatch.setattr(kind, name, call)
        return calls

    yield make
    over.set()


def test_safety_09_a_local_libvirt_that_answers_nothing_is_given_up(deaf, monkeypatch):
    monkeypatch.setattr(binding, "CONNECT_TIMEOUT", 0.5)
    began = time.monotonic()
    with pytest.raises(LibvirtProblem) as problem:
        binding.open_connection(deaf)
    assert time.monotonic() - began < 5
    assert str(problem.value).startswith(
        f"libvirt on {HERE} ({deaf}) takes connections, but did not answer within 0.5 s: look"
        " whether"
    )


@pytest.mark.parametrize(
    "what", ["open", "listAllDomains", "getCapabilities", "getHostname", "lookupByUUIDString"]
)
def test_safety_09_a_module_ends_whatever_hangs(deaf, what):
    """The module reports it, and its process ends although the thread is stuck in the call."""
    uri = deaf if what == "open" else "test:///default"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", MODULE, uri, what],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert time.monotonic() - began < 20
    assert "Traceback" not in done.stdout + done.stderr
    assert (
        "did not answer within" in done.stdout or "took longer than 0.5 s" in done.stdout
    ) and HERE in done.stdout
    assert '"failed"' in done.stdout


def test_safety_09_after_one_that_hangs_nothing_more_is_sent(connection, hang):
    domain = connection.lookupByName("test")
    calls, later = hang(libvirt.virConnect, "listAllDomains"), hang(libvirt.virDomain, "isActive")
    began = time.monotonic()
    with pytest.raises(LibvirtSilent) as problem:
        connection.listAllDomains(0)
    sentence = (
        f"libvirt on {HERE} did not answer within 0.5 s (listAllDomains): look whether libvirtd or"
        " storage hangs there"
    )
    assert str(problem.value) == sentence == binding.text_of(problem.value)
    # The exception is the same as for a broken connection.
    assert isinstance(problem.value, libvirt.libvirtError) and isinstance(
        problem.value, LibvirtProblem
    )
    assert binding.code_of(problem.value) is None and problem.value.code is None
    for call in (
        connection.listAllDomains,
        connection.getHostname,
        domain.isActive,
        domain.info,
        connection.close,
    ):
        with pytest.raises(LibvirtSilent, match="listAllDomains"):
            call()
    assert (len(calls), later) == (1, [])
    assert time.monotonic() - began < 5
    # The names that this process knows need no call.
    assert (domain.name(), domain.UUIDString()) == ("test", "6695eb01-f6a4-8304-79aa-97f2502e193f")
    binding.close(connection)


def test_safety_09_what_libvirt_hands_out_has_limits_too(connection, hang):
    hang(libvirt.virStorageVol, "info")
    pool = connection.listAllStoragePools(0)[0]
    pool.createXML("<volume><name>v</name><capacity>1</capacity></volume>", 0)
    (volume,) = pool.listAllVolumes(0)
    with pytest.raises(LibvirtSilent, match="within 0.5 s"):
        volume.info()
    other = binding.open_connection("test:///default")
    hang(libvirt.virDomain, "XMLDesc")
    ((domain, stats),) = other.getAllDomainStats(0, 0)
    assert stats["state.state"] == 1
    with pytest.raises(LibvirtSilent, match="XMLDesc"):
        domain.XMLDesc(0)
    binding.close(other)


POOL_CALLS = pytest.mark.parametrize(
    ("call", "args"),
    [("refresh", (0,)), ("createXML", ("<volume/>", 0)), ("createXMLFrom", ("<volume/>", None, 0))],
)


@pytest.fixture
def at_work(connection, monkeypatch):
    """``at_work(call, times)`` has libvirt make volumes of a pool for others during the first
    calls; it returns the pool and the list of calls."""
    monkeypatch.setattr(_libvirt_calls, "POOL_PAUSE", 0.01)

    def make(call, times):
        calls = []

        def busy(*args):
            calls.append(args)
            if len(calls) <= times:
                problem = libvirt.libvirtError("")
                text = "Interner Fehler: In Pool 'ceph' laufen asynchrone Jobs."
                problem.err, problem.args = (
                    (libvirt.VIR_ERR_INTERNAL_ERROR, 18, text, 2, None, None, None, 0, 0),
                    (text,),
                )
                raise problem
            return 0

        monkeypatch.setattr(libvirt.virStoragePool, call, busy)
        return connection.listAllStoragePools(0)[0], calls

    return make


@POOL_CALLS
def test_f06_a_call_waits_while_the_pool_is_at_work_for_others(at_work, call, args):
    pool, calls = at_work(call, 3)
    assert getattr(pool, call)(*args) == 0 and len(calls) == 4


@POOL_CALLS
def test_a_pool_that_stays_at_work_is_said_in_a_sentence(at_work, monkeypatch, call, args):
    monkeypatch.setattr(_libvirt_calls, "POOL_PATIENCE", 0.2)
    pool, calls = at_work(call, 10**6)
    began = time.monotonic()
    with pytest.raises(libvirt.libvirtError) as problem:
        getattr(pool, call)(*args)
    assert 0.2 <= time.monotonic() - began < 5 and len(calls) > 2
    assert (
        binding.text_of(problem.value)
        == f"the storage pool {pool.name()} on {HERE} was busy for 0.2 s, and nothing was done"
        " there (Interner Fehler: In Pool 'ceph' laufen asynchrone Jobs.): run this again when"
        " that has ended, or look whether its storage hangs"
    )
    assert binding.code_of(problem.value) == libvirt.VIR_ERR_INTERNAL_ERROR


def test_no_other_call_waits_for_a_pool(at_work):
    pool, calls = at_work("destroy", 10**6)
    with pytest.raises(libvirt.libvirtError, match="asynchrone Jobs"):
        pool.destroy()
    assert len(calls) == 1


def test_the_builds_of_two_instances_meet_in_a_pool(at_work, connection, monkeypatch):
    pool, calls = at_work("createXML", 3)
    volumes.make(connection, pool.name(), "vda", 1)
    assert len(calls) == 4
    monkeypatch.setattr(_libvirt_calls, "POOL_PATIENCE", 0.2)
    pool, calls = at_work("createXML", 10**6)
    with pytest.raises(
        LibvirtProblem,
        match=(
            f"The volume vda of the storage pool {pool.name()} cannot be made on {HERE}: the"
            f" storage pool {pool.name()} .* was busy"
        ),
    ):
        volumes.make(connection, pool.name(), "vda", 1)


def test_what_is_given_to_libvirt_is_its_own(connection):
    binding.start_event_loop()
    conn = binding.open_connection("test:///default", keepalive=True)
    domain, seen = conn.lookupByName("test"), threading.Event()
    watch = conn.domainEventRegisterAny(
        domain, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, lambda *dummy: seen.set(), None
    )
    domain.suspend()
    assert seen.wait(10)
    domain.resume()
    conn.domainEventDeregisterAny(watch)
    binding.close(conn)


def test_errors_and_answers_arrive_as_they_are(connection):
    with pytest.raises(libvirt.libvirtError) as problem:
        connection.lookupByName("nobody")
    assert not isinstance(problem.value, LibvirtSilent)
    assert binding.code_of(problem.value) == libvirt.VIR_ERR_NO_DOMAIN
    assert connection.getInfo()[1] == 3072
    with pytest.raises(AttributeError):
        connection.noSuchThing  # noqa: B018
    # It still answers.
    assert connection.listAllDomains(0)[0].name() == "test"


def test_many_threads_share_a_connection(connection):
    def look(number):
        return (
            connection.lookupByName("test").info()[0],
            connection.listAllDomains(0)[0].name(),
            number,
        )

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert list(pool.map(look, range(200))) == [(1, "test", number) for number in range(200)]


@pytest.mark.parametrize("call", ["sparseSendAll", "sendAll"])
def test_a_long_copy_ends_when_nothing_moves(monkeypatch, connection, call):
    """The copy may take any time while data moves."""
    monkeypatch.setitem(_libvirt_calls.CALL_TIMEOUTS, call, 0.5)

    class Stream(libvirt.virStream):
        def __init__(self, pieces):
            self._o, self.pieces = None, pieces

        def send(self, handler, opaque):
            for _dummy in range(self.pieces):
                handler(self, 10, opaque)
                time.sleep(0.1)
            time.sleep(600 if self.pieces < 10 else 0)
            return self.pieces

        def __del__(self):
            pass

    setattr(Stream, call, Stream.send)
    line = object.__getattribute__(connection, "_line")
    seen = []
    assert (
        getattr(_libvirt_calls.LimitedObject(Stream(15), line), call)(
            lambda *args: seen.append(args), None
        )
        == 15
    )
    assert len(seen) == 15
    with pytest.raises(LibvirtSilent, match=call):
        getattr(_libvirt_calls.LimitedObject(Stream(3), line), call)(
            lambda *args: seen.append(args), None
        )
    assert len(seen) == 18


class Stopped(Exception):
    """The exception that a module raises when a signal ends it."""


def test_a_signal_does_not_leave_a_call_in_its_middle():
    """The code that cleans up must know the result of the call."""
    done = []

    def stop(number, frame):
        raise Stopped

    def slow():
        time.sleep(0.7)
        done.append("create")

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Stopped):
            limits.within(30, slow)
        assert done == ["create"]
    finally:
        signal.signal(signal.SIGALRM, before)
    assert limits.within(30, lambda: "again") == "again"


@pytest.mark.parametrize("left", [None, (0, 0, None, 0, None, None, None, 0, 0)])
def test_what_libvirt_said_is_not_lost(monkeypatch, left):
    """Python frees objects while the binding makes its exception. That clears the error before the
    binding reads it, or during the read."""
    conn = binding.open_connection("test:///default")
    monkeypatch.setattr(libvirt.libvirtmod, "virGetLastError", lambda: left)
    with pytest.raises(libvirt.libvirtError) as caught:
        conn.lookupByName("nobody")
    assert (
        binding.code_of(caught.value) == libvirt.VIR_ERR_NO_DOMAIN
        and str(caught.value) == "Domain not found"
    )


def test_a_helper_holds_nothing_when_it_is_idle(connection):
    """A connection with a reference would never be closed."""

    class Thing:
        def method(self):
            return 1

    thing = Thing()
    gone = weakref.ref(thing)
    assert limits.within(5, thing.method) == 1
    del thing
    gc.collect()
    assert gone() is None


def test_a_host_without_ssh_is_named_with_what_may_be_old():
    """The URI comes from the store: the store does not have a new drover_migration_uri before the
    next discovery."""
    with pytest.raises(LibvirtProblem) as caught:
        binding.open_connection("qemu+ssh://root@127.0.0.1:9/system")
    message = str(caught.value)
    assert message.startswith(
        f"No SSH connection from {binding.host_name()} to libvirt at"
        " qemu+ssh://root@127.0.0.1:9/system: "
    )
    assert message.endswith(
        "Was drover_migration_uri changed? It counts once the playbook drover.compute.discover has"
        " recorded it."
    )


def test_a_login_that_finds_no_libvirt_is_not_called_a_fault_of_ssh(monkeypatch):
    """The text is libvirt 7.0's, when the daemon of a host with 12.8 is not running."""

    text = (
        "End of file while reading data: virt-ssh-helper: cannot connect to"
        " '/var/run/libvirt/libvirt-sock': Failed to connect socket to"
        " '/var/run/libvirt/libvirt-sock': No such file or directory: Input/output error"
    )
    problem = libvirt.libvirtError(text)
    # The binding puts the text of an earlier test's error into the exception.
    problem.args, problem.err = (text,), (38, 7, text, 2, *(None,) * 3, errno.EIO, 0)

    def refuse(uri):
        raise problem

    monkeypatch.setattr(libvirt, "open", refuse)
    with pytest.raises(LibvirtProblem) as caught:
        binding.open_connection("qemu+ssh://root@kvm2/system")
    message = str(caught.value)
    assert message.startswith("libvirt at qemu+ssh://root@kvm2/system does not answer ")
    assert message.endswith(". Start libvirtd on kvm2, or correct the URI.")


def test_an_error_that_was_cleared_keeps_its_code_and_its_text(monkeypatch):
    """Python may free an object of libvirt between the failure and the exception, and then the
    binding finds no error."""
    connection = binding.open_connection("test:///default")
    monkeypatch.setattr(libvirt, "virGetLastError", lambda: None)
    with pytest.raises(libvirt.libvirtError, match="Domain not found") as caught:
        connection.lookupByName("nobody")
    assert binding.code_of(caught.value) == libvirt.VIR_ERR_NO_DOMAIN
