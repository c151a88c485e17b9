# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The events of hosts: silent, dead libvirt alone, back, or flapping."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable

from .._evacuation import fencing, host_answer
from . import event
from .observations import HostAnswered, HostConnected, HostLost, View

#: A host that was lost this number of times within flap_seconds is flapping.
FLAPS = 3
#: The evacuation itself asks witnesses, waits and proves; an event is not a proof.
LEFT_TO_EVACUATE = frozenset({"no_witness"})

SILENT, ALONE, BACK, FLAPPING, FLEET = (
    "host_silent",
    "libvirt_dead_alone",
    "host_back",
    "host_flapping",
    "fleet_silent",
)


@dataclasses.dataclass
class _Host:
    #: The time since which its libvirt does not answer; None while it answers.
    lost: float | None = None
    means: str | None = None
    words: str = ""
    #: The reason why it refuses the login, if it does.
    refusal: str = ""
    #: The last time it was lost or came back.
    turned: float = 0.0
    losses: collections.deque[float] = dataclasses.field(
        default_factory=lambda: collections.deque(maxlen=100)
    )
    flapping: bool = False
    #: The type of the last event that is still true.
    said: str | None = None


class HostEvents:
    """One state machine for each host."""

    def __init__(self, silent_seconds: float, flap_seconds: float) -> None:
        self._silent_seconds, self._flap_seconds = silent_seconds, flap_seconds
        self._hosts: dict[str, _Host] = {}
        #: The hosts with a libvirt that does not answer, and the flapping ones: tick() checks only
        #: these.
        self._open: set[str] = set()
        self._fleet: frozenset[str] = frozenset()

    def watch(self, hosts: Iterable[str]) -> None:
        """Watch these hosts, and no others."""
        wanted = set(hosts)
        self._hosts = {name: self._hosts.get(name) or _Host() for name in wanted}
        self._open &= wanted

    def said(self, host: str) -> str | None:
        """Return the type of the last event about a host that is still true."""
        return self._hosts[host].said if host in self._hosts else None

    def is_lost(self, host: str) -> bool:
        """Return True if the libvirt of a host does not answer."""
        return host in self._hosts and self._hosts[host].lost is not None

    @property
    def quiet(self) -> bool:
        """True if tick() has nothing to check."""
        return not self._open

    def lost(self, seen: HostLost) -> None:
        """Record that libvirt does not answer."""
        host = self._hosts.get(seen.host)
        if host is None or host.lost is not None:
            return
        host.lost = host.turned = seen.at
        host.means, host.words = None, seen.words
        host.losses.append(seen.at)
        self._open.add(seen.host)

    def answered(self, seen: HostAnswered) -> None:
        """Record the answer of a host with a libvirt that does not answer."""
        host = self._hosts.get(seen.host)
        if host is not None and host.lost is not None:
            host.means, host.words, host.refusal = (
                seen.means,
                seen.words or host.words,
                seen.refusal,
            )

    def connected(self, seen: HostConnected) -> list[event.Event]:
        """Record that libvirt answers; report that the host is back, if an event said that it is
        away.
        """
        name, host = seen.host, self._hosts.get(seen.host)
        if host is None or host.lost is None:
            return []
        away, since, host.lost, host.turned = seen.at - host.lost, host.lost, None, seen.at
        if host.said is None or host.flapping:
            if not host.flapping and self._recent(host, seen.at) < FLAPS:
                self._open.discard(name)
            return []
        if self._recent(host, seen.at) >= FLAPS:
            return []
        was, host.said = host.said, None
        self._open.discard(name)
        return [
            _back_event(
                name, seen.at, f"It was away since {event.clock(since)} ({int(away)} s, {was})."
            )
        ]

    def tick(self, now: float, view: View) -> list[event.Event]:
        """Return the events that are due after the passed time."""
        events: list[event.Event] = []
        down = {name for name in self._open if self._looks_dead(name) and name not in view.quiet}
        counted = [name for name in self._hosts if name not in view.quiet] if down else []
        many: set[str] = set()
        for name in sorted(self._open):
            host = self._hosts[name]
            if self._flaps(name, host, now, events) or host.lost is None or name in view.quiet:
                continue
            if now - host.lost < self._silent_seconds or host.means is None:
                continue
            decision = fencing.decide(
                fencing.Evidence(
                    host=name,
                    ssh=host.means == host_answer.LOGIN,
                    refused=host.means == host_answer.REFUSED,
                    unclear=(host.words or "nothing") if host.means == host_answer.UNCLEAR else "",
                    hosts=len(counted),
                    down=len(down),
                ),
                lifted=LEFT_TO_EVACUATE,
            )
            if decision.rule == "many_down":
                many.add(name)
            elif decision.act == fencing.SOFT_FENCE or decision.rule == "login_refused":
                self._add_event_once(events, host, ALONE, _alone_event(name, host))
            elif decision.act in (fencing.WORD, fencing.HARD_FENCE):
                self._add_event_once(events, host, SILENT, _silent(name, host, now))
        if many and not many <= self._fleet:
            self._fleet = frozenset(down)
            events.append(
                _many(
                    sorted(down), len(counted), min(self._hosts[name].lost or now for name in down)
                )
            )
            for name in many:
                self._hosts[name].said = self._hosts[name].said or FLEET
        elif not many:
            self._fleet = frozenset()
        return events

    def _looks_dead(self, name: str) -> bool:
        host = self._hosts[name]
        return host.lost is not None and host.means not in (host_answer.LOGIN, host_answer.REFUSED)

    def _recent(self, host: _Host, now: float) -> int:
        return sum(at > now - self._flap_seconds for at in host.losses)

    def _flaps(self, name: str, host: _Host, now: float, found: list[event.Event]) -> bool:
        """Return True if a host is flapping; report the beginning and the end of the flapping."""
        steady = now - host.turned >= self._flap_seconds
        if not host.flapping and self._recent(host, now) >= FLAPS and not steady:
            host.flapping, host.said = True, FLAPPING
            found.append(_flapping(name, host, self._recent(host, now), self._flap_seconds))
        elif host.flapping and steady:
            host.flapping = False
            host.losses.clear()
            if host.lost is None:
                found.append(
                    _back_event(
                        name,
                        now,
                        f"It came and went, and is steady since {event.clock(host.turned)}.",
                    )
                )
                host.said = None
                self._open.discard(name)
        elif not host.flapping and host.lost is None:
            self._open.discard(name)
        return host.flapping

    @staticmethod
    def _add_event_once(
        found: list[event.Event], host: _Host, kind: str, made: event.Event
    ) -> None:
        """Report an event once."""
        if host.said != kind:
            host.said = kind
            found.append(made)


def _words(host: _Host) -> str:
    words = " ".join(host.words.split()).rstrip(".")
    return f" ({words})" if words else ""


def _silent(name: str, host: _Host, now: float) -> event.Event:
    lost = host.lost or now
    return event.make(
        SILENT,
        lost,
        f"{name} is silent since {event.clock(lost)} ({int(now - lost)} s): neither its libvirt nor"
        f" SSH answers{_words(host)}. To do: drover.compute.evacuate with drover_host={name}, which"
        " finds out by itself whether it is off before anything starts elsewhere.",
        name,
    )


def _alone_event(name: str, host: _Host) -> event.Event:
    lost, login = host.lost or 0.0, host.means == host_answer.LOGIN
    to_do = (
        "restart libvirt there"
        if login
        else f"look at the host, which {fencing.refused_how(host.refusal)}{_words(host)}"
    )
    return event.make(
        ALONE,
        lost,
        f"The libvirt of {name} does not answer since {event.clock(lost)}, but the host does: its"
        f" instances may run on, and nothing is to be evacuated. To do: {to_do}.",
        name,
        login=login,
    )


def _back_event(name: str, at: float, why: str) -> event.Event:
    return event.make(
        BACK,
        at,
        f"{name} is back: its libvirt answers. {why} To do: drover.compute.discover with"
        f" drover_hypervisors={name}; if it was evacuated, drover.compute.undrain when it is"
        " sound.",
        name,
        changed_hosts=[name],
    )


def _flapping(name: str, host: _Host, times: int, seconds: float) -> event.Event:
    minutes = max(1, round(seconds / 60))
    return event.make(
        FLAPPING,
        host.losses[0],
        f"{name} comes and goes: its libvirt was lost {times} times in {minutes} min. Nothing is"
        f" said of it until it was steady for {minutes} min. To do: look at its network and at its"
        f" libvirt{_words(host)}.",
        name,
        times=times,
    )


def _many(names: list[str], hosts: int, since: float) -> event.Event:
    shown = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    return event.make(
        FLEET,
        since,
        f"{len(names)} of {hosts} hosts are silent at the same time: {shown}. That is a network, a"
        " power supply or a storage more often than so many hosts, so nothing is done. To do: find"
        " out which; hosts that stay silent alone are said one by one.",
        hosts=names,
    )
