# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far long work over many hosts has come, in few lines however many hosts there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from .._planner.move_times import SETUP_SECONDS
from .._records.orders import MoveOrder
from .._records.outcomes import MoveAnswer, MoveOutcome
from .._report import formatting
from .ports import Clock

#: Seconds between two lines on one thing that is under way, at least.
MENTION = 10
#: A play of fewer hosts needs no milestones; one of more has so many.
MANY = 50
LINES = 10


def milestone(host: str, hosts: Sequence[str]) -> str | None:
    """Return a line on how far a play has come where this host is a milestone of it, else None.

    Each host is worked on in a process of its own that knows nothing of the others. All of them know the order in
    which Ansible begins with the hosts, so the line says how far down that order this host is.

    :param host: the host that is done.
    :param hosts: all hosts of the play, in order.
    """
    count = len(hosts)
    if count < MANY or host not in hosts:
        return None
    place = hosts.index(host) + 1
    if place * LINES // count == (place - 1) * LINES // count:
        return None
    return f"{host} is done: about {place} of {count} hosts ({100 * place // count} %)"


def pause(elapsed_s: float | None, count: int) -> float:
    """Return the seconds between two lines on one of so many things, which has been under way for so many seconds.

    However many there are, together they make no more than twelve lines in a minute; one that has taken an hour
    makes a line every six minutes.
    """
    return max(MENTION, MENTION * count / 2, (elapsed_s or 0) / 10)


class Progress:
    """Shows the moves of a run: the start and the end of each at once, what is in between now and then.

    Each event is one line, which ends with how far all moves of the run are.

    :param say: show a line to the person who watches.
    """

    def __init__(self, say: Callable[[str], None], clock: Clock) -> None:
        self._say, self._clock = say, clock
        # By the uuid of the instance: the seconds that its move is expected to take, and the share that is done.
        self._seconds: dict[str, float] = {}
        self._shares: dict[str, float] = {}
        # Of those under way: when each will be over by its own rate.
        self._ends: dict[str, float] = {}
        # When this run began its first move, and when each move was mentioned last.
        self._began: float | None = None
        self._mentioned: dict[str, float] = {}

    def expect(self, seconds: Mapping[str, float | None]) -> None:
        """Count moves, each once; one that has ended before is to be done again.

        :param seconds: dict uuid of the instance -> seconds that its move is expected to take, None where that is not known.
        """
        for uuid, expected in seconds.items():
            self._seconds[uuid] = expected or SETUP_SECONDS
            self._shares[uuid] = 0.0

    def leave_out(self, uuids: Iterable[str]) -> None:
        """Do not count the moves of these instances any more."""
        for uuid in uuids:
            self._seconds.pop(uuid, None)
            self._shares.pop(uuid, None)

    def started(self, order: MoveOrder) -> None:
        """Show that a move begins."""
        now = self._clock.monotonic()
        if self._began is None:
            self._began = now
        self._mentioned[order["uuid"]] = now
        kind = "live" if order["live"] else "cold"
        again = ", shut down first" if order["restart"] else ""
        self._tell(f"{_way(order['name'], order['source'], order['destination'])}, {kind}, started{again}", now)

    def goes_on(self, order: MoveOrder, answer: MoveAnswer, count: int) -> None:
        """Show how far a move is, one of ``count`` that are under way."""
        uuid, now = order["uuid"], self._clock.monotonic()
        self._shares[uuid] = min((answer.get("percent") or 0) / 100, 1.0)
        seconds = _seconds_left(answer)
        if seconds is not None:
            self._ends[uuid] = now + seconds
        if now - self._mentioned.setdefault(uuid, now) >= pause(answer.get("elapsed_s"), count):
            self._mentioned[uuid] = now
            self._tell(_state(order["name"], answer), now)

    def ended(self, outcome: MoveOutcome, state: str | None) -> None:
        """Show that a move is over.

        :param state: of the domain at the destination, None where that is not known.
        """
        uuid, status, message, took = outcome["uuid"], outcome["status"], outcome["message"], outcome["elapsed_s"]
        self._shares[uuid] = 1.0
        self._ends.pop(uuid, None)
        self._seconds.setdefault(uuid, SETUP_SECONDS)
        if status == "completed":
            after = f" after {took:.1f} s" if took is not None else ""
            said = f"{state or 'there'} there{after}" + (f" ({message})" if message else "")
        else:
            said = f"{status}: {message}"
        self._tell(f"{_way(outcome['name'], outcome['source'], outcome['destination'])}, {said}", self._clock.monotonic())

    def _tell(self, event: str, now: float) -> None:
        """Show an event, and how far all moves are: ``[2 of 3, 45 %, about 2 min left]``; those that are over, of all."""
        over = sum(share == 1.0 for share in self._shares.values())
        left = sum(seconds * (1 - self._shares[uuid]) for uuid, seconds in self._seconds.items())
        done = sum(seconds * self._shares[uuid] for uuid, seconds in self._seconds.items())
        parts = [f"{over} of {len(self._shares)}"]
        if left and done:
            parts.append(f"{formatting.percent(done, done + left)} %")
        if left and done and self._began is not None and now > self._began:
            # By the rate of this run so far: the links, and what else the hosts do, are as they are. Not before the slowest is over.
            slowest = max([end - now for end in self._ends.values()], default=0.0)
            parts.append(f"about {formatting.duration(max(round(max(left * (now - self._began) / done, slowest)), 1))} left")
        self._say(f"{event} [{', '.join(parts)}]")


def _way(name: str, source: str, destination: str) -> str:
    return f"{name}: {source} -> {destination}"


def _state(name: str, answer: MoveAnswer) -> str:
    """Return a line on a move that is under way: ``web1: 43 %, 1.2 of 2.8 GiB, about 20 s left``."""
    elapsed, total, left = answer.get("elapsed_s"), answer.get("total_mib"), answer.get("remaining_mib")
    if not total or left is None:
        return f"{name}: under way" + ("" if elapsed is None else f" for {formatting.duration(round(elapsed))}")
    done, unit = max(total - left, 0), 1024 if total >= 1024 else 1
    parts = [f"{answer.get('percent') or 0:.0f} %", f"{formatting.number(done / unit)} of {formatting.memory(total)}"]
    seconds = _seconds_left(answer)
    if seconds is not None:
        parts.append(f"about {formatting.duration(round(seconds))} left")
    return f"{name}: {', '.join(parts)}"


def _seconds_left(answer: MoveAnswer) -> float | None:
    """Return how long a move that is under way still takes by its own rate; None where that is not known."""
    elapsed, total, left = answer.get("elapsed_s"), answer.get("total_mib"), answer.get("remaining_mib")
    done = (total or 0) - (left or 0)
    return left * elapsed / done if elapsed and left is not None and done > 0 else None
