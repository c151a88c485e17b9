# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connections to libvirt. Each is opened and watched by libvirt's own events, or read again and
again if a driver has none.

One thread runs libvirt's event loop; the functions that may wait run in threads of the caller.
Observations go to observe(), in any thread. The thread of the event loop calls no function of
libvirt that needs an answer.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection
from typing import Any

from ansible_collections.drover.compute.plugins.module_utils._libvirt.machine import (
    described,
    plain_uuid,
    replace_command,
)
from ansible_collections.drover.compute.plugins.module_utils._libvirt.xml import parse

from .._common.errors import DroverError
from . import observations
from .observations import DomainChanged, HostConnected, HostLost, Observation, ObservedDomain

try:
    import libvirt
except ImportError:
    libvirt = None

#: The number of unanswered keepalives of libvirt after which a connection is lost.
KEEPALIVES = 2
#: virDomainState -> the states of this package.
_STATES = {
    0: observations.RUNNING,
    1: observations.RUNNING,
    2: observations.RUNNING,
    3: observations.PAUSED,
    4: observations.RUNNING,
    5: observations.SHUTOFF,
    6: observations.SHUTOFF,
    7: observations.PAUSED,
}
#: {(state, reason): reason} of libvirt's numbers.
_REASONS = {
    (3, 5): observations.IO_ERROR,
    (5, 1): observations.SHUTDOWN,
    (5, 2): observations.DESTROYED,
    (5, 3): observations.CRASHED,
    (5, 4): observations.MIGRATED,
}
#: {event: {detail: (state, reason)}} of virDomainEventType; detail None for all other details.
_EVENTS: dict[int, dict[int | None, tuple[str, str]]] = {
    0: {0: (observations.SHUTOFF, "")},
    1: {None: (observations.GONE, observations.UNDEFINED)},
    2: {1: (observations.PAUSED, ""), None: (observations.RUNNING, "")},
    3: {2: (observations.PAUSED, observations.IO_ERROR), None: (observations.PAUSED, "")},
    4: {None: (observations.RUNNING, "")},
    5: {
        0: (observations.SHUTOFF, observations.SHUTDOWN),
        1: (observations.SHUTOFF, observations.DESTROYED),
        2: (observations.SHUTOFF, observations.CRASHED),
        3: (observations.SHUTOFF, observations.MIGRATED),
        5: (observations.SHUTOFF, observations.CRASHED),
        None: (observations.SHUTOFF, ""),
    },
    7: {None: (observations.PAUSED, "")},
    8: {None: (observations.SHUTOFF, observations.CRASHED)},
}


class Connections:
    """The connection of each host."""

    _loop_started = False

    def __init__(
        self,
        observe: Callable[[Observation], None],
        clock: Callable[[], float],
        keepalive_seconds: int,
    ) -> None:
        if libvirt is None:
            raise DroverError(
                "The Python that runs this has no libvirt: install python3-libvirt (Debian, RHEL)"
                " or libvirt-python (PyPI) where ansible-rulebook is installed."
            )
        self._observe, self._clock, self._keepalive = observe, clock, max(1, keepalive_seconds)
        self._open: dict[str, _Opened] = {}
        self._polled: set[str] = set()
        #: The hosts with another machine at their address.
        self.strangers: set[str] = set()
        self._start_loop()

    @classmethod
    def _start_loop(cls) -> None:
        if cls._loop_started:
            return
        cls._loop_started = True
        # Without a handler libvirt writes each error to stderr.
        libvirt.registerErrorHandler(lambda _context, _error: None, None)
        libvirt.virEventRegisterDefaultImpl()

        def run() -> None:
            while True:
                libvirt.virEventRunDefaultImpl()

        threading.Thread(target=run, name="libvirt events", daemon=True).start()

    def open(self, host: str, uri: str, machine: Collection[str] = ()) -> str | None:
        """Connect to a host, read-only, and read its domains; this may take long, or never end.

        :param machine: the host_uuids of the host in the store; empty if the store has none.
        :returns: the reason of a failure; None on success.
        """
        opened = None
        try:
            opened = _Opened(host, libvirt.openReadOnly(uri), self._observe)
            self.strangers.discard(host)
            uuid = _host_uuid(opened.conn) if machine else None
            if uuid is not None and uuid not in machine:
                self.strangers.add(host)
                _close_connection(opened)
                return _another(host, uri, uuid, machine)
            self._watch_connection(opened)
            domains = _domains(opened.conn)
        except libvirt.libvirtError as problem:
            if opened is not None:
                _close_connection(opened)
            return str(problem)
        self._open[host] = opened
        opened.begin(HostConnected(host, self._clock(), domains))
        return None

    def must_be_polled(self, host: str) -> bool:
        """Return True if the driver of a host has no events."""
        return host in self._polled

    def poll(self, host: str) -> bool:
        """Read the domains of a connected host again; return True if it answers."""
        opened = self._open.get(host)
        if opened is None:
            return False
        try:
            opened.give(HostConnected(host, self._clock(), _domains(opened.conn)))
        except libvirt.libvirtError as problem:
            self._lose(opened, str(problem))
            return False
        return True

    def close(self, host: str) -> None:
        """Close the connection of a host that is no longer watched."""
        opened = self._open.pop(host, None)
        if opened is not None:
            _close_connection(opened)

    def _watch_connection(self, opened: _Opened) -> None:
        host = opened.host

        def changed(_conn: Any, dom: Any, kind: int, detail: int, _opaque: Any) -> None:
            found = _EVENTS.get(kind, {})
            state = found.get(detail, found.get(None))
            if state is not None:
                opened.give(
                    DomainChanged(
                        host, self._clock(), ObservedDomain(dom.UUIDString(), dom.name(), *state)
                    )
                )

        def closed(_conn: Any, reason: int, _opaque: Any) -> None:
            if reason == libvirt.VIR_CONNECT_CLOSE_REASON_KEEPALIVE:
                silent = KEEPALIVES * self._keepalive
                self._lose(opened, f"no answer to {KEEPALIVES} keepalives of libvirt", silent)
            else:
                self._lose(opened, "it closed the connection")

        try:
            opened.conn.setKeepAlive(self._keepalive, KEEPALIVES)
            opened.conn.registerCloseCallback(closed, None)
        except libvirt.libvirtError:
            # Drivers in this process have neither.
            pass
        try:
            opened.callback = opened.conn.domainEventRegisterAny(
                None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, changed, None
            )
            self._polled.discard(host)
        except libvirt.libvirtError:
            self._polled.add(host)

    def _lose(self, opened: _Opened, words: str, silent: int = 0) -> None:
        """Give up a connection.

        :param silent: the seconds without an answer before.
        """
        if self._open.get(opened.host) is opened:
            del self._open[opened.host]
        opened.give(HostLost(opened.host, self._clock() - silent, words))
        # The connection is not closed in this thread: libvirt may be using it now.
        threading.Thread(target=_close_connection, args=(opened,), daemon=True).start()


class _Opened:
    """A connection. Observations before the first reading of its domains are delivered after this
    reading.
    """

    def __init__(self, host: str, conn: Any, observe: Callable[[Observation], None]) -> None:
        self.host, self.conn, self._observe = host, conn, observe
        #: libvirt's number of the callback for its events.
        self.callback: int | None = None
        self._early: list[Observation] | None = []
        self._lock = threading.Lock()

    def give(self, seen: Observation) -> None:
        with self._lock:
            if self._early is None:
                self._observe(seen)
            else:
                self._early.append(seen)

    def begin(self, seen: HostConnected) -> None:
        with self._lock:
            for each in (seen, *(self._early or ())):
                self._observe(each)
            self._early = None


def _close_connection(opened: _Opened) -> None:
    """Close a connection. libvirt keeps it for as long as it has callbacks."""
    conn, callback = opened.conn, opened.callback
    steps: list[Callable[[], Any]] = [conn.unregisterCloseCallback, conn.close]
    if callback is not None:
        steps.insert(0, lambda: conn.domainEventDeregisterAny(callback))
    for step in steps:
        with contextlib.suppress(libvirt.libvirtError):
            step()


def _host_uuid(conn: Any) -> str | None:
    """Read the host uuid of the machine that answers; None if it does not report one."""
    try:
        return plain_uuid(parse(conn.getCapabilities()).findtext("host/uuid") or "")
    except (libvirt.libvirtError, ValueError):
        return None


def _another(host: str, uri: str, found: str, machine: Collection[str]) -> str:
    return (
        f"{uri} leads to another machine ({described([found], None)}) than {host}, of which the"
        f" store has {described(machine, None)}. What it shows does not count: correct the address"
        f" of {host} in the inventory (drover_migration_address), or the option uri of the event"
        " source, and run drover.compute.discover. If that machine has replaced the old one:"
        f" {replace_command(host)}"
    )


def _domains(conn: Any) -> list[ObservedDomain]:
    """Read all domains, by one call if the driver has it."""
    try:
        domains = [
            (dom, stats["state.state"], stats.get("state.reason", 0))
            for dom, stats in conn.getAllDomainStats(libvirt.VIR_DOMAIN_STATS_STATE)
        ]
    except libvirt.libvirtError as problem:
        if problem.get_error_code() != libvirt.VIR_ERR_NO_SUPPORT:
            raise
        domains = [(dom, *dom.state()) for dom in conn.listAllDomains()]
    return [
        ObservedDomain(
            dom.UUIDString(),
            dom.name(),
            _STATES[state],
            observations.CRASHED if state == 6 else _REASONS.get((state, reason), ""),
        )
        for dom, state, reason in domains
    ]
