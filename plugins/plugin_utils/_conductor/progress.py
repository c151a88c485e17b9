# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The progress of long work over many hosts, in few lines for any number of hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from .._planner.move_times import SETUP_SECONDS
from .._records.orders import MoveOrder
from .._records.outcomes import MoveAnswer, MoveOutcome
from .._report import formatting
from .ports import Clock

#: Minimum of seconds between two lines on one thing that is under way.
MENTION = 10
#: MANY: plays of fewer hosts get no milestones. LINES: the number of milestones of larger plays.
MANY = 50
LINES = 10


def milestone(host: str, hosts: Sequence[str]) -> str | None:
    """Return a line on the progress of a play if this host is a milestone, else None.

    Each host is worked on in its own process, which knows nothing of the others. All processes know
    Ansible's order of the hosts. The line gives the place of this host in that order.

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
    """Return the seconds between two lines on one of ``count`` things, under way for ``elapsed_s``.

    All of them together make at most twelve lines in a minute. A thing that has taken an hour makes
    a line every six minutes.
    """
    return max(MENTION, MENTION * count / 2, (elapsed_s or 0) / 10)


class Progress:
    """The progress of the moves of a run: each start and end, and now and then the state between.

    Each event is one line. It ends with the progress of all moves of the run.

    :param say: show a line to the operator.
    """

    def __init__(self, say: Callable[[str], None], clock: Clock) -> None:
        self._say, self._clock = say, clock
        # The keys are uuids of instances: the expected seconds of the move, the share that is done.
        self._seconds: dict[str, float] = {}
        self._shares: dict[str, float] = {}
        # {uuid of the instance: the expected end of its running move, by its own rate}.
        self._ends: dict[str, float] = {}
        # The begin of the first move of this run, and the last mention of each move.
        self._began: float | None = None
        self._mentioned: dict[str, float] = {}

    def expect(self, seconds: Mapping[str, float | None]) -> None:
        """Count moves, each once. A move that has ended before counts as not done again.

        :param seconds: dict uuid of the instance -> expected seconds of its move, None if not
            known.
        """
        for uuid, expected in seconds.items():
            self._seconds[uuid] = expected or SETUP_SECONDS
            self._shares[uuid] = 0.0

    def leave_out(self, uuids: Iterable[str]) -> None:
        """Stop counting the moves of these instances."""
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
        self._tell(
            f"{_way(order['name'], order['source'], order['destination'])}, {kind}, started{again}",
            now,
        )

    def goes_on(self, order: MoveOrder, answer: MoveAnswer, count: int) -> None:
        """Show the progress of a move, one of ``count`` that are under way."""
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

        :param state: the state of the domain at the destination; None if it is not known.
        """
        uuid, status, message, took = (
            outcome["uuid"],
            outcome["status"],
            outcome["message"],
            outcome["elapsed_s"],
        )
        self._shares[uuid] = 1.0
        self._ends.pop(uuid, None)
        self._seconds.setdefault(uuid, SETUP_SECONDS)
        if status == "completed":
            after = f" after {took:.1f} s" if took is not None else ""
            ending = f"{state or 'there'} there{after}" + (f" ({message})" if message else "")
        else:
            ending = f"{status}: {message}"
        self._tell(
            f"{_way(outcome['name'], outcome['source'], outcome['destination'])}, {ending}",
            self._clock.monotonic(),
        )

    def _tell(self, event: str, now: float) -> None:
        """Show an event and the progress of all moves: ``[2 of 3, 45 %, about 2 min left]``.

        The first two numbers are ended moves and all moves.
        """
        over = sum(share == 1.0 for share in self._shares.values())
        remaining = sum(
            seconds * (1 - self._shares[uuid]) for uuid, seconds in self._seconds.items()
        )
        done = sum(seconds * self._shares[uuid] for uuid, seconds in self._seconds.items())
        parts = [f"{over} of {len(self._shares)}"]
        if remaining and done:
            parts.append(f"{formatting.percent(done, done + remaining)} %")
        if remaining and done and self._began is not None and now > self._began:
            # Use the rate of this run so far, because it includes the links and the other load of
            # the hosts. The estimate does not end before the slowest move.
            slowest = max([end - now for end in self._ends.values()], default=0.0)
            parts.append(
                "about"
                f" {formatting.duration(max(round(max(remaining * (now - self._began) / done, slowest)), 1))}"
                " left"
            )
        self._say(f"{event} [{', '.join(parts)}]")


def _way(name: str, source: str, destination: str) -> str:
    return f"{name}: {source} -> {destination}"


def _state(name: str, answer: MoveAnswer) -> str:
    """Return a line on a move that is under way: ``web1: 43 %, 1.2 of 2.8 GiB, about 20 s
    left``.
    """
    elapsed, total, remaining = (
        answer.get("elapsed_s"),
        answer.get("total_mib"),
        answer.get("remaining_mib"),
    )
    if not total or remaining is None:
        return f"{name}: under way" + (
            "" if elapsed is None else f" for {formatting.duration(round(elapsed))}"
        )
    done, unit = max(total - remaining, 0), 1024 if total >= 1024 else 1
    parts = [
        f"{answer.get('percent') or 0:.0f} %",
        f"{formatting.number(done / unit)} of {formatting.memory(total)}",
    ]
    seconds = _seconds_left(answer)
    if seconds is not None:
        parts.append(f"about {formatting.duration(round(seconds))} left")
    return f"{name}: {', '.join(parts)}"


def _seconds_left(answer: MoveAnswer) -> float | None:
    """Return the seconds that a running move still takes by its own rate; None if not known."""
    elapsed, total, remaining = (
        answer.get("elapsed_s"),
        answer.get("total_mib"),
        answer.get("remaining_mib"),
    )
    done = (total or 0) - (remaining or 0)
    return remaining * elapsed / done if elapsed and remaining is not None and done > 0 else None
