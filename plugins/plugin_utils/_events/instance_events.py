# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The events of instances without drover.compute: crashes, I/O errors, stops and moves by hand.

A change is judged when its domain has not changed further for a moment: the state before is
compared with the state then. So the order in which two hosts show a move does not matter. A change
while a run of drover.compute works on the host or the instance is judged after that run; it is not
an event if the store has it by then.
"""

from __future__ import annotations

import collections
import dataclasses
import shlex

from . import event, observations
from .observations import DomainChanged, HostConnected, ObservedDomain, View

#: Seconds without a further change, after which a change is judged.
SETTLED = 1.0
HOUR = 3600.0

CRASH, STOPPED, MOVED, CHANGED, PAUSE = (
    "instance_crashed",
    "instance_stopped_outside",
    "migrated_outside",
    "instance_changed_outside",
    "instance_paused_io_error",
)
#: A host, and the state of the domain there.
Place = tuple[str, str]
_ORDER = (observations.RUNNING, observations.PAUSED, observations.SHUTOFF)


@dataclasses.dataclass
class _Change:
    was: Place | None
    began: float
    last: float
    reason: str


class InstanceEvents:
    """One state machine for each instance."""

    def __init__(self) -> None:
        #: {host: {uuid: state}}, and {uuid: its hosts}. They have only hosts that were read.
        self._states: dict[str, dict[str, str]] = {}
        self._hosts: dict[str, tuple[str, ...]] = {}
        self._names: dict[str, str] = {}
        self._changes: dict[str, _Change] = {}
        self._crashes: dict[str, collections.deque[float]] = {}
        self._paused: set[str] = set()

    def pending(self) -> list[str]:
        """Return the instances with changes that are not judged yet. The judgement needs their
        records in the store.
        """
        return list(self._changes)

    def is_new(self, host: str) -> bool:
        """Return True if a host was not read yet, or was forgotten."""
        return host not in self._states

    def forget(self, host: str) -> None:
        """Forget the domains of a host: it is silent, and the domains that it has after its return
        are not a change.
        """
        for uuid in list(self._states.pop(host, ())):
            self._leave_host(uuid, host)
            change = self._changes.get(uuid)
            if change is not None and change.was is not None and change.was[0] == host:
                del self._changes[uuid]

    def connected(self, seen: HostConnected) -> list[event.Event]:
        """Compare all domains of a host with its former ones; the first time there is nothing to
        compare.
        """
        states = self._states.get(seen.host)
        if states is None:
            self._states[seen.host] = {}
            events = [
                made
                for domain in seen.domains
                for made in self._io_error(seen.host, seen.at, domain)
            ]
            for domain in seen.domains:
                self._record(seen.host, domain)
            return events
        present = {domain.uuid for domain in seen.domains}
        gone = [
            ObservedDomain(uuid, self._names.get(uuid, uuid), observations.GONE)
            for uuid in states
            if uuid not in present
        ]
        return [
            made
            for domain in [*seen.domains, *gone]
            for made in self.changed(DomainChanged(seen.host, seen.at, domain))
        ]

    def changed(self, seen: DomainChanged) -> list[event.Event]:
        """Record the state of a domain."""
        domain, host = seen.domain, seen.host
        uuid = domain.uuid
        states = self._states.get(host)
        if states is None:
            # The host was not read as a whole yet.
            return []
        before = states.get(uuid)
        events = self._io_error(host, seen.at, domain)
        if domain.reason == observations.UNDEFINED and before in (
            observations.RUNNING,
            observations.PAUSED,
        ):
            # The domain runs on.
            return events
        if before == domain.state or (before is None and domain.state == observations.GONE):
            return events
        # An earlier move or crash is a better reason than the removal of the definition.
        reason = "" if domain.reason == observations.UNDEFINED else domain.reason
        change = self._changes.get(uuid)
        if change is None:
            self._changes[uuid] = _Change(self._place_of_instance(uuid), seen.at, seen.at, reason)
        else:
            change.last = max(change.last, seen.at)
            change.reason = reason or change.reason
        self._record(host, domain)
        return events

    def tick(self, now: float, view: View) -> list[event.Event]:
        """Return the events of the changes that have settled."""
        events = []
        for uuid, change in list(self._changes.items()):
            if now - change.last < SETTLED:
                continue
            now_at = self._place_of_instance(uuid)
            ends = {place[0] for place in (change.was, now_at) if place is not None}
            if uuid in view.busy_instances or not ends.isdisjoint(view.busy_hosts):
                continue
            del self._changes[uuid]
            made = self._judge(uuid, change, now_at, view)
            if made is not None:
                events.append(made)
            if now_at is None:
                self._names.pop(uuid, None)
        return events

    def _judge(
        self, uuid: str, change: _Change, here: Place | None, view: View
    ) -> event.Event | None:
        name, was, recorded = self._names.get(uuid, uuid), change.was, view.recorded.get(uuid)
        if was == here:
            return None
        off = here is None or here[1] == observations.SHUTOFF
        if (
            off
            and was is not None
            and was[1] != observations.SHUTOFF
            and change.reason == observations.CRASHED
        ):
            return None if was[0] in view.quiet else self._crash(uuid, name, was[0], change.began)
        if here is not None and recorded == (here[0], here[1] != observations.SHUTOFF):
            return None
        if was is None:
            return (
                None if here is None else _changed(uuid, name, here[0], change.began, "is new on")
            )
        if here is None and change.reason == observations.MIGRATED:
            return _moved(uuid, name, was[0], None, change.began)
        if off and was[1] != observations.SHUTOFF:
            return _stopped(uuid, name, was[0], change, here is None)
        if here is None:
            return _changed(uuid, name, was[0], change.began, "was undefined on")
        if here[0] != was[0]:
            return _moved(uuid, name, was[0], here[0], change.began)
        if was[1] == observations.SHUTOFF:
            return _changed(uuid, name, here[0], change.began, "was started on")
        # The domain was paused and resumed.
        return None

    def _crash(self, uuid: str, name: str, host: str, at: float) -> event.Event:
        times = self._crashes.setdefault(uuid, collections.deque(maxlen=100))
        while times and times[0] <= at - HOUR:
            times.popleft()
        times.append(at)
        often = "" if len(times) == 1 else f", for the {len(times)}th time within an hour"
        return event.make(
            CRASH,
            at,
            f"{name} crashed on {host} at {event.clock(at)}{often}: its QEMU has ended, and nobody"
            " stopped it. To do: drover.compute.instance_start; the reason is in"
            f" /var/log/libvirt/qemu/{name}.log there.",
            host,
            uuid,
            name,
            crashes_last_hour=len(times),
        )

    def _io_error(self, host: str, at: float, domain: ObservedDomain) -> list[event.Event]:
        if domain.state != observations.PAUSED:
            self._paused.discard(domain.uuid)
            return []
        if domain.reason != observations.IO_ERROR or domain.uuid in self._paused:
            return []
        self._paused.add(domain.uuid)
        return [
            event.make(
                PAUSE,
                at,
                f"{domain.name} is paused on {host} since {event.clock(at)}, because its disk could"
                f" not be written. To do: make room on its storage or repair it (df -h on {host}),"
                f" then: virsh resume {shlex.quote(domain.name)}.",
                host,
                domain.uuid,
                domain.name,
            )
        ]

    def _place_of_instance(self, uuid: str) -> Place | None:
        """Return the place of an instance: the host on which it runs, if it runs."""
        places = [(host, self._states[host][uuid]) for host in self._hosts.get(uuid, ())]
        return min(places, key=lambda place: (_ORDER.index(place[1]), place[0])) if places else None

    def _record(self, host: str, domain: ObservedDomain) -> None:
        states = self._states[host]
        if domain.state == observations.GONE:
            states.pop(domain.uuid, None)
            self._leave_host(domain.uuid, host)
            return
        if domain.uuid not in states:
            self._hosts[domain.uuid] = (*self._hosts.get(domain.uuid, ()), host)
        states[domain.uuid] = domain.state
        self._names[domain.uuid] = domain.name

    def _leave_host(self, uuid: str, host: str) -> None:
        left = tuple(each for each in self._hosts.get(uuid, ()) if each != host)
        if left:
            self._hosts[uuid] = left
        else:
            self._hosts.pop(uuid, None)


_HOW = {
    observations.SHUTDOWN: "it shut itself down, or somebody shut it down",
    observations.DESTROYED: "somebody switched it off",
    observations.MIGRATED: "it left in a migration",
}


def _stopped(uuid: str, name: str, host: str, change: _Change, gone: bool) -> event.Event:
    how = _HOW.get(change.reason, "nobody knows why")
    if gone:
        how += ", and it is not defined there any more"
    return event.make(
        STOPPED,
        change.began,
        f"{name} stopped on {host} at {event.clock(change.began)} without drover.compute: {how}. To"
        " do: nothing if that was wanted; otherwise drover.compute.instance_start.",
        host,
        uuid,
        name,
        reason=change.reason,
        changed_hosts=[host],
    )


def _moved(uuid: str, name: str, source: str, destination: str | None, at: float) -> event.Event:
    return event.make(
        MOVED,
        at,
        f"{name} was moved from {source} to {destination or 'a host that is not watched'} at"
        f" {event.clock(at)} without drover.compute. To do: drover.compute.discover of both hosts,"
        " so that the store knows it.",
        destination or source,
        uuid,
        name,
        source=source,
        destination=destination,
        changed_hosts=sorted({source, destination or source}),
    )


def _changed(uuid: str, name: str, host: str, at: float, what: str) -> event.Event:
    return event.make(
        CHANGED,
        at,
        f"{name} {what} {host} at {event.clock(at)} without drover.compute. To do:"
        f" drover.compute.discover of {host}, so that the store knows it.",
        host,
        uuid,
        name,
        changed_hosts=[host],
    )
