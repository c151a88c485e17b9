# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Objects of libvirt with time limits on their calls; only this module has these limits.

Private to the collection.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._files.limits import CallTimeout, is_limited, within

#: The time limit of a call in seconds.
CALL_TIMEOUT = 60

#: The calls with another limit. 0: the call needs no limit, because it only reads data of this
#: process. None: the call has no limit, because another thread watches the migration.
CALL_TIMEOUTS = {
    "name": 0,
    "UUIDString": 0,
    "close": 10,
    # libvirt calls the QEMU of each running domain, and starts each unknown emulator.
    "getAllDomainStats": 120,
    "domainListGetStats": 120,
    "getCapabilities": 120,
    "getDomainCapabilities": 120,
    # libvirt waits one minute for the guest's agent before it presses the power button.
    "shutdown": 120,
    "reboot": 120,
    # A guest starts. On huge pages all its memory is cleared first.
    "createWithFlags": 180,
    # libvirt first reads saved memory of a domain, or makes a pool or a volume.
    "create": 900,
    "createXML": 900,
    "createXMLFrom": 900,
    # The host frees the memory of a large guest, and resets its devices.
    "destroy": 180,
    # Every image of a pool is opened, and calls about a pool or its volumes wait for that.
    "refresh": 300,
    "storagePoolCreateXML": 300,
    "listAllStoragePools": 300,
    "numOfStoragePools": 300,
    "storagePoolLookupByName": 300,
    "storageVolLookupByName": 300,
    "storageVolLookupByPath": 300,
    # The time to remove a large file depends on the file system.
    "delete": 600,
    # libvirt answers after all sent data have reached the disk.
    "finish": 900,
    # The limit is from one piece to the next.
    "sendAll": 120,
    "sparseSendAll": 120,
    # The guest freezes its file systems, and libvirt makes a new image for each disk.
    "snapshotCreateXML": 300,
    # libvirt makes an image for each disk.
    "backupBegin": 300,
    # libvirt reads the memory of the guest, and the last writes of the guest reach the merged
    # image.
    "revertToSnapshot": 900,
    "blockJobAbort": 180,
    "migrateToURI3": None,
}

#: The calls about the abilities of a hypervisor. libvirt may start each emulator for an answer.
#: With a broken KVM it does this again for each call, and this takes seconds. So each call is made
#: only once over a connection. A failure is remembered too.
CAPABILITIES = (
    "getCapabilities",
    "getDomainCapabilities",
    "compareHypervisorCPU",
    "baselineHypervisorCPU",
)

#: The limit of these calls is the time between two callbacks. A call may continue as long as data
#: move.
BY_PIECES = ("sendAll", "sparseSendAll")

#: libvirt refuses these calls while it makes a volume of the same pool for another call. A refused
#: call has changed nothing.
POOL_CALLS = ("createXML", "createXMLFrom", "refresh")
#: The seconds that a call waits for the end of that work, the seconds that it waits for an inactive
#: pool (the pool may be starting), and the seconds between two tries.
POOL_PATIENCE, POOL_STARTS, POOL_PAUSE = 60, 3, 0.25


class Line:
    """The calls over one connection.

    :param host: the name of the host of the libvirt.
    :param error: the exception class for a call without an answer in time; it takes a sentence.
    :param classes: the classes of the objects that libvirt returns.
    :param busy: a function that returns True if an exception may mean a busy storage pool.
    :param kept: a function that wraps another one so that its exceptions keep libvirt's error, see
        _kept() in binding.
    :param explain: a function that returns a better text for the failure of a call than libvirt's
        text, or None. Its arguments are the name of the call, the exception, the host, and a
        function that makes another call.
    """

    def __init__(
        self,
        host: str,
        error: Callable[[str], Exception],
        classes: tuple[type, ...],
        kept: Callable[[Callable[..., Any]], Callable[..., Any]],
        busy: Callable[[Exception], bool],
        conn: Any,
        explain: Callable[[str, Exception, str, Callable[..., Any]], str | None],
    ) -> None:
        self._host, self._error, self._classes, self._kept, self._busy = (
            host,
            error,
            classes,
            kept,
            busy,
        )
        self._conn, self._explain = conn, explain
        #: The answers to CAPABILITIES, or the exceptions, by call and arguments. Several threads
        #: check guests.
        self._known: dict[str, tuple[Any, Exception | None]] = {}
        self._asking = threading.Lock()
        #: The error of a silent connection; None before that.
        self._silent: str | None = None

    def call(
        self,
        name: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, object],
    ) -> Any:
        """Return the result of a method, given by its name and as a function. Wait for other work
        in the same storage pool.
        """
        if name not in CAPABILITIES:
            return self._patient(name, function, args, kwargs)
        question = repr((name, args, sorted(kwargs.items())))
        with self._asking:
            if question not in self._known:
                try:
                    self._known[question] = (self._patient(name, function, args, kwargs), None)
                except Exception as exc:
                    if self._silent:
                        raise
                    self._known[question] = (None, exc)
            answer, problem = self._known[question]
        if problem is not None:
            raise problem
        return answer

    def _patient(
        self,
        name: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, object],
    ) -> Any:
        begun = time.monotonic()
        while True:
            try:
                return self._call_function(name, function, args, kwargs)
            except Exception as exc:
                pool: Any = getattr(function, "__self__", None)
                if name not in POOL_CALLS or not hasattr(pool, "isActive") or not self._busy(exc):
                    words = self._explain(name, exc, self._host, self._ask_connection)
                    if words is not None:
                        exc.args = (words,)
                    raise
                waited = time.monotonic() - begun
                if waited >= POOL_PATIENCE:
                    exc.args = (
                        (
                            f"the storage pool {pool.name()} on {self._host} was busy for"
                            f" {POOL_PATIENCE} s, and nothing was done there ({exc}): run this"
                            " again when that has ended, or look whether its storage hangs"
                        ),
                    )
                    raise
                if waited >= POOL_STARTS and not self._call_function(
                    "isActive", pool.isActive, (), {}
                ):
                    raise
            time.sleep(POOL_PAUSE)

    def _ask_connection(self, name: str, *args: Any) -> Any:
        """Return the answer of the connection to a call."""
        return self._call_function(name, getattr(self._conn, name), args, {})

    def _call_function(
        self,
        name: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, object],
    ) -> Any:
        limit = CALL_TIMEOUTS.get(name, CALL_TIMEOUT)
        if limit == 0:
            return function(*args, **kwargs)
        if self._silent:
            raise self._error(self._silent)
        function = self._kept(function)
        # A call needs no separate limit if all the work together has one.
        if limit is None or is_limited():
            return self.limited(function(*args, **kwargs))
        alive = None
        if name in BY_PIECES:
            args, alive = _with_beat(args)
        try:
            return self.limited(within(limit, lambda: function(*args, **kwargs), alive))
        except CallTimeout:
            self._silent = silent = (
                f"libvirt on {self._host} did not answer within {limit} s ({name}): look whether"
                " libvirtd or storage hangs there"
            )
            raise self._error(silent) from None

    def limited(self, value: Any) -> Any:
        """Return ``value`` with a time limit on the objects of libvirt in it."""
        if isinstance(value, self._classes):
            return LimitedObject(value, self)
        if isinstance(value, (list, tuple)):
            return type(value)(self.limited(each) for each in value)
        return value


class LimitedObject:
    """An object of libvirt with a time limit on all its calls, and on all calls of the objects that
    it returns.

    After a call without an answer in time nothing more is sent, and each later call raises the same
    error at
    once.
    """

    __slots__ = ("_object", "_line")

    def __init__(self, obj: Any, line: Line) -> None:
        self._object, self._line = obj, line

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._object, name)
        if not callable(attribute):
            return attribute
        return lambda *args, **kwargs: self._line.call(
            name, attribute, [_bare(each) for each in args], kwargs
        )


def _bare(argument: Any) -> Any:
    if isinstance(argument, list):
        return [_bare(each) for each in argument]
    return argument._object if isinstance(argument, LimitedObject) else argument


def _with_beat(args: Sequence[Any]) -> tuple[list[Any], Callable[[], float]]:
    """Return (the arguments, a function that returns the time of the last callback).

    A callback is a function in the arguments.
    """
    last = [time.monotonic()]

    def with_beat(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            last[0] = time.monotonic()
            return function(*given)

        return call

    return [with_beat(each) if callable(each) else each for each in args], lambda: last[0]
