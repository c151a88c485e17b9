# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The watch over the fleet: one task for each host, and one that makes events of the
observations.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from .._common.errors import DroverError
from .._evacuation import host_answer
from . import host_events, host_probe, options
from .event import Event
from .finding_events import FindingEvents
from .fleet_view import FleetView
from .host_events import HostEvents
from .instance_events import InstanceEvents
from .libvirt_connections import Connections
from .observations import DomainChanged, HostAnswered, HostConnected, HostLost, Observation, View

#: The number of connections that are opened at the same time, and of hosts that are probed at the
#: same time.
OPENING, LOOKING = 32, 32
#: The limit in seconds for opening a connection.
PATIENCE = 30
#: The longest pause in seconds before the next probe of a host that is away.
LONGEST_PAUSE = 30.0
#: Seconds between two readings: of the list of hosts, and of the other records while a change of an
#: instance or of a host waits for its judgement.
HOSTS, OF_INSTANCES, OF_HOSTS = 60.0, 1.0, 5.0

log = logging.getLogger("drover.compute.fleet")


class FleetWatch:
    """A watch with its connections; events() runs it."""

    def __init__(self, given: options.WatchOptions) -> None:
        self._options = given
        self._view = FleetView(given.store_url) if given.store_url else None
        self._hosts = HostEvents(given.silent_seconds, given.flap_seconds)
        self._instances, self._findings = InstanceEvents(), FindingEvents()
        self._seen: asyncio.Queue[Observation] = asyncio.Queue()
        self._lost: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, tuple[str, asyncio.Task[None]]] = {}
        #: The host_uuids of the hosts in the store.
        self._machines: dict[str, list[str]] = {}
        self._opening, self._looking = asyncio.Semaphore(OPENING), asyncio.Semaphore(LOOKING)
        self._loop = asyncio.get_running_loop()
        self._connections = Connections(self._observe, time.time, round(given.poll_seconds))
        #: The last state that was read from the store. Before the first reading nothing is judged.
        self._known = None if self._view else View()
        self._read_hosts = self._read_view = self._read_findings = float("-inf")

    async def events(self) -> AsyncIterator[Event]:
        """Yield the events of the fleet, without end."""
        try:
            while True:
                await self._follow_hosts()
                for seen in await self._next():
                    for made in self._take_observation(seen):
                        yield made
                await self._follow_store()
                if self._known is not None:
                    for made in self._events_of_tick(time.time(), self._known):
                        yield made
                for made in await self._find_at_intervals():
                    yield made
        finally:
            for host, (_uri, task) in self._tasks.items():
                task.cancel()
                self._connections.close(host)

    def _events_of_tick(self, now: float, known: View) -> list[Event]:
        events = [*self._hosts.tick(now, known), *self._instances.tick(now, known)]
        for made in events:
            if made["type"] == host_events.SILENT:
                self._instances.forget(made["host"])
        return events

    def _observe(self, seen: Observation) -> None:
        """Take an observation from any thread."""
        with contextlib.suppress(RuntimeError):  # The loop has ended.
            self._loop.call_soon_threadsafe(self._put, seen)

    def _put(self, seen: Observation) -> None:
        self._seen.put_nowait(seen)
        if isinstance(seen, HostLost) and seen.host in self._lost:
            self._lost[seen.host].set()

    async def _next(self) -> list[Observation]:
        """Wait for the next observation, a second at most; return all observations that have
        arrived.
        """
        observations = []
        with contextlib.suppress(asyncio.TimeoutError):
            observations.append(await asyncio.wait_for(self._seen.get(), 1))
        while not self._seen.empty():
            observations.append(self._seen.get_nowait())
        return observations

    def _take_observation(self, seen: Observation) -> list[Event]:
        if seen.host not in self._tasks:
            return []
        if isinstance(seen, HostConnected):
            if self._instances.is_new(seen.host) or self._hosts.is_lost(seen.host):
                log.info("%s: libvirt is connected, with %s domains", seen.host, len(seen.domains))
            return [*self._hosts.connected(seen), *self._instances.connected(seen)]
        if isinstance(seen, DomainChanged):
            return self._instances.changed(seen)
        if isinstance(seen, HostAnswered):
            self._hosts.answered(seen)
        else:
            log.info("%s: %s", seen.host, seen.words)
            self._hosts.lost(seen)
        return []

    # The store

    async def _follow_hosts(self) -> None:
        """Start and stop the watch of hosts by the present list."""
        if time.monotonic() - self._read_hosts < HOSTS:
            return
        self._read_hosts = time.monotonic()
        uris, addresses = self._options.hosts, {}
        if self._view is not None:
            try:
                self._machines = await asyncio.to_thread(self._view.machines)
                addresses = await asyncio.to_thread(self._view.addresses) if uris is None else {}
            except DroverError as problem:
                log.error("The hosts of the store are not read: %s", problem)
                if uris is None:
                    return
        if uris is None:
            if self._view is None:
                return
            if not addresses:
                log.warning(
                    "The store has no hosts, so that nothing is watched. Run the playbook"
                    " drover.compute.discover."
                )
            uris = {
                host: options.fill(self._options.uri, host, address)
                for host, address in addresses.items()
            }
        for host in [host for host, (uri, _task) in self._tasks.items() if uris.get(host) != uri]:
            self._tasks.pop(host)[1].cancel()
            self._connections.close(host)
            self._instances.forget(host)
        self._hosts.watch(uris)
        for host, uri in uris.items():
            if host not in self._tasks:
                self._lost[host] = asyncio.Event()
                self._tasks[host] = (uri, asyncio.create_task(self._tend(host, uri)))

    async def _follow_store(self) -> None:
        """Read the store while a change waits for its judgement."""
        pending = self._instances.pending()
        if self._view is None or (not pending and self._hosts.quiet):
            return
        if time.monotonic() - self._read_view < (OF_INSTANCES if pending else OF_HOSTS):
            return
        self._read_view = time.monotonic()
        try:
            self._known = await asyncio.to_thread(self._view.view, pending)
        except DroverError as problem:
            log.error(
                "The store is not read, and what it said last counts; nothing is said before it was"
                " read once: %s",
                problem,
            )

    async def _find_at_intervals(self) -> list[Event]:
        """Return the findings in the store, at intervals."""
        if (
            self._view is None
            or not self._options.audit_seconds
            or time.monotonic() - self._read_findings < self._options.audit_seconds
        ):
            return []
        self._read_findings = time.monotonic()
        try:
            findings = await asyncio.to_thread(self._view.findings)
        except DroverError as problem:
            log.error("The store is not checked: %s", problem)
            return []
        return self._findings.look(time.time(), findings.capacity, findings.audit, findings.reboots)

    # One host

    async def _tend(self, host: str, uri: str) -> None:
        """Watch a host in spite of errors; an error is reported once, and the watch tries again."""
        last_words = None
        while True:
            try:
                await self._keep_connected(host, uri)
            except (
                Exception
            ) as problem:  # An error at one host must not end the watch, and must not be silent.
                words = (
                    f"its libvirt URI {uri} cannot be read: {why}"
                    if (why := options.why_no_uri(uri))
                    else str(problem)
                )
                if words != last_words:
                    log.error("%s is not watched: %s", host, words)
                last_words = words
                await asyncio.sleep(LONGEST_PAUSE)

    async def _keep_connected(self, host: str, uri: str) -> None:
        """Keep a host connected; while it is not connected, probe it."""
        way, pause, last_words = host_probe.Way.of_uri(uri), 1.0, None
        await asyncio.sleep(0)
        while True:
            words = await self._open_connection(host, uri)
            if words is None:
                pause, last_words = 1.0, None
                await self._stay(host)
                continue
            if host in self._connections.strangers and words != last_words:
                last_words = words
                log.error("%s is not watched: %s", host, words)
            self._put(HostLost(host, time.time(), words))
            while True:
                async with self._looking:
                    answer = await host_probe.ask(way)
                # The message of libvirt says more than the words about a host that answers.
                shown = _answered(host, answer)
                if host in self._connections.strangers:
                    # The answer of another machine says nothing about the host.
                    shown = shown._replace(means=host_answer.UNCLEAR, words=words)
                self._put(shown)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                if answer.means == host_answer.LOGIN:
                    break

    async def _open_connection(self, host: str, uri: str) -> str | None:
        self._lost[host].clear()
        async with self._opening:
            opening = self._in_thread(
                self._connections.open, host, uri, self._machines.get(host, ())
            )
            done, _pending = await asyncio.wait([opening], timeout=PATIENCE)
        if done:
            return opening.result()
        self._put(HostLost(host, time.time(), f"libvirt did not answer within {PATIENCE} s"))
        # Only one opening runs at a time: it continues while the host is probed.
        return await self._late(host, uri, opening)

    async def _late(self, host: str, uri: str, opening: asyncio.Future[str | None]) -> str | None:
        way, pause = host_probe.Way.of_uri(uri), 1.0
        while not opening.done():
            async with self._looking:
                answer = await host_probe.ask(way)
            self._put(_answered(host, answer))
            await asyncio.wait([opening], timeout=pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        return opening.result()

    async def _stay(self, host: str) -> None:
        """Wait until the connection of a host is lost."""
        while not self._lost[host].is_set():
            if not self._connections.must_be_polled(host):
                await self._lost[host].wait()
                return
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._lost[host].wait(), self._options.poll_seconds)
                return
            async with self._opening:
                await asyncio.wait(
                    [self._in_thread(self._connections.poll, host)], timeout=PATIENCE
                )

    def _in_thread(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Call a function in a thread that does not delay the end of the program: libvirt may
        hang.
        """
        answer: asyncio.Future[Any] = self._loop.create_future()

        def finish(result: Any, problem: BaseException | None) -> None:
            if not answer.done():
                answer.set_result(result) if problem is None else answer.set_exception(problem)

        def run() -> None:
            result, problem = None, None
            try:
                result = function(*args)
            except Exception as raised:  # The waiting task raises it.
                problem = raised
            with contextlib.suppress(RuntimeError):  # The loop has ended.
                self._loop.call_soon_threadsafe(finish, result, problem)

        threading.Thread(target=run, name="libvirt", daemon=True).start()
        return answer


def _answered(host: str, answer: host_answer.HostAnswer) -> HostAnswered:
    words = "" if answer.means == host_answer.LOGIN else answer.words
    return HostAnswered(host, time.time(), answer.means, words, answer.refusal)
