# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where long work over many hosts is: few lines, whoever writes them and however many hosts there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils.conductor.ports import Clock
from ansible_collections.drover.compute.plugins.plugin_utils.planner.move_order import SETUP_SECONDS
from ansible_collections.drover.compute.plugins.plugin_utils.report import formatting

#: How often, in seconds, one thing that is under way is mentioned at most.
MENTION = 10
#: Of fewer hosts than this nobody needs to be told.
MANY = 50
#: So many lines at most.
LINES = 10


def milestone(host, hosts):
    """A line when this host is one at which to tell how far a play has come, else None.

    Each host is worked on in a process of its own that knows nothing of the others. What all of them know is the order in
    which Ansible begins with the hosts, so the line tells how far down that order a host is that is done.

    :param host: the name of the host that is done.
    :param hosts: all hosts of the play, in order.
    """
    count = len(hosts)
    if count < MANY or host not in hosts:
        return None
    place = hosts.index(host) + 1
    if place * LINES // count == (place - 1) * LINES // count:
        return None
    return f"{host} is done: about {place} of {count} hosts ({100 * place // count} %)"


def pause(elapsed_s, count):
    """How long (seconds) nothing is said of one thing that has been under way for some time, among so many.

    However many there are, together they make no more than twelve lines in a minute; and what has taken an hour is
    mentioned every six minutes.
    """
    return max(MENTION, MENTION * count / 2, (elapsed_s or 0) / 10)


class Progress:
    """Says how far the moves of a run have come.

    The start and the end of each move is said at once, what goes on in between now and then.

    :param say: a function (line) for the person who watches.
    :param clock: ports.Clock.
    """

    def __init__(self, say: Callable[[str], None], clock: Clock) -> None:
        self._say, self._clock = say, clock
        # Of each move of the run, by the uuid of the instance: the seconds that it was expected to take, and the share that is done.
        self._seconds: dict[str, float] = {}
        self._shares: dict[str, float] = {}
        self._completed: set[str] = set()
        # When this run began its first move, when each move was mentioned last, and when all of them were summed up last.
        self._began: float | None = None
        self._mentioned: dict[str, float] = {}
        self._summed_up = 0.0

    def expect(self, moves: Iterable[Mapping[str, Any]]) -> None:
        """Count moves, each once; one that has ended before is to be done again."""
        for move in moves:
            self._seconds[move["uuid"]] = move.get("seconds") or SETUP_SECONDS
            self._shares[move["uuid"]] = 0.0
            self._completed.discard(move["uuid"])

    def leave_out(self, moves: Iterable[Mapping[str, Any]]) -> None:
        """Do not count moves any more."""
        for move in moves:
            self._seconds.pop(move["uuid"], None)
            self._shares.pop(move["uuid"], None)

    def started(self, order: Mapping[str, Any]) -> None:
        """A move begins."""
        now = self._clock.monotonic()
        if self._began is None:
            self._began = self._summed_up = now
        self._mentioned[order["uuid"]] = now
        kind = "live" if order["live"] else "cold"
        again = ", shut down first" if order.get("restart") else ""
        self._say(f"{_way(order)}, {kind}, started{again}")

    def goes_on(self, order: Mapping[str, Any], result: Mapping[str, Any], count: int) -> None:
        """A move is under way.

        :param result: what its hypervisor says, as the module domain_migration returns it.
        :param count: how many are under way.
        """
        self._shares[order["uuid"]] = min((result.get("percent") or 0) / 100, 1.0)
        now = self._clock.monotonic()
        if now - self._mentioned.setdefault(order["uuid"], now) >= pause(result.get("elapsed_s"), count):
            self._mentioned[order["uuid"]] = now
            self._say(_state(order["name"], result))
        self._sum_up(now)

    def ended(self, order: Mapping[str, Any], status: str, message: str, result: Mapping[str, Any]) -> None:
        """A move is over.

        :param status: completed, or how it ended else.
        :param result: as in goes_on(); empty for one that was not begun.
        """
        self._shares[order["uuid"]] = 1.0
        self._seconds.setdefault(order["uuid"], SETUP_SECONDS)
        if status == "completed":
            self._completed.add(order["uuid"])
            took = f" after {result['elapsed_s']:.1f} s" if result.get("elapsed_s") is not None else ""
            state = result.get("destination_state") or "there"
            said = f"{state} there{took}" + (f" ({message})" if message else "")
        else:
            said = f"{status}: {message}"
        over = sum(share == 1.0 for share in self._shares.values())
        self._say(f"{_way(order)}, {said} [{over} of {len(self._shares)}]")
        self._sum_up(self._clock.monotonic())

    def _sum_up(self, now: float) -> None:
        """Say how far all of them are, now and then."""
        if self._began is None or now - self._summed_up < pause(now - self._began, 1):
            return
        left = sum(seconds * (1 - self._shares[uuid]) for uuid, seconds in self._seconds.items())
        if not left:
            return
        self._summed_up = now
        done = sum(seconds * self._shares[uuid] for uuid, seconds in self._seconds.items())
        # By the rate of this run so far: the links, and what else the hosts do, are as they are.
        time_left = f", about {formatting.duration(round(left * (now - self._began) / done))} left" if done else ""
        self._say(f"{len(self._completed)} of {len(self._shares)} moved{time_left}")


def _way(order: Mapping[str, Any]) -> str:
    return f"{order['name']}: {order['source']} -> {order['destination']}"


def _state(name: str, result: Mapping[str, Any]) -> str:
    """A move that is under way, in words: ``web1: 43 %, 1.2 of 2.8 GiB, about 20 s left``."""
    elapsed, total, left = (result.get(key) for key in ("elapsed_s", "total_mib", "remaining_mib"))
    if not total or left is None:
        return f"{name}: under way" + ("" if elapsed is None else f" for {formatting.duration(round(elapsed))}")
    done, unit = max(total - left, 0), 1024 if total >= 1024 else 1
    parts = [f"{result.get('percent') or 0:.0f} %", f"{formatting.number(done / unit)} of {formatting.memory(total)}"]
    if done and elapsed:
        parts.append(f"about {formatting.duration(round(left * elapsed / done))} left")
    return f"{name}: {', '.join(parts)}"
