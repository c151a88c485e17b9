# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Moves off several hosts: stage after stage, host after host."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from .._common.errors import DroverError, RunOver
from .._records.outcomes import MoveOutcome, PrecheckReport
from .._records.plans import Move
from .host_moves import HostMoves
from .ports import Ports
from .progress import Progress
from .settings import MoveSettings


class MovesResult(NamedTuple):
    """The results of moves: all outcomes, the failed outcomes, and the moves that were not begun.

    problems: by name, the failed sources that must not fail the others. The outcomes of their moves
    are in the details of the errors.
    """

    migrations: list[MoveOutcome]
    failed: list[MoveOutcome]
    skipped: list[Move]
    problems: dict[str, DroverError]


class StagedMoves:
    """The run of the moves of a plan."""

    def __init__(self, ports: Ports, settings: MoveSettings) -> None:
        self._ports, self._settings = ports, settings
        self._progress = Progress(ports.say, ports.clock)

    def _of_host(self, host: str) -> HostMoves:
        return HostMoves(self._ports, host, self._settings, progress=self._progress)

    def check(self, moves: Sequence[Move]) -> list[PrecheckReport]:
        """Let the hypervisors check moves, without a move of any instance."""
        reports = []
        for source in dict.fromkeys(move["from_host"] for move in moves):
            reports += self._of_host(source).check(_moves_from(moves, source))
        return reports

    def settle(self, host: str) -> list[MoveOutcome]:
        """Finish or undo the open moves of an earlier run at a host.

        Begin moves that were never begun.
        """
        return self._of_host(host).carry_out()

    def run(self, moves: Sequence[Move], purpose: str, apart: Collection[str] = ()) -> MovesResult:
        """Make moves, stage after stage; skip moves that wait for a move that was not done.

        :param purpose: the purpose, for other runs that want the hosts.
        :param apart: sources with a failure that does not end the moves of the others.
        :raises DroverError: the moves of another source failed.
        """
        migrations: list[MoveOutcome] = []
        skipped: list[Move] = []
        problems: dict[str, DroverError] = {}
        done: set[str] = set()
        self._progress.expect({move["uuid"]: move.get("seconds") for move in moves})
        with self._ports.leasing.held(sorted({move["from_host"] for move in moves}), purpose):
            for stage in sorted({move.get("stage", 1) for move in moves}):
                of_stage = [
                    move
                    for move in moves
                    if move.get("stage", 1) == stage and move["from_host"] not in problems
                ]
                ready = [move for move in of_stage if done.issuperset(move.get("after", ()))]
                skipped += [move for move in of_stage if move not in ready]
                self._progress.leave_out(move["uuid"] for move in skipped)
                if len(ready) < len(of_stage):
                    names = ", ".join(dict.fromkeys(move["name"] for move in skipped))
                    self._ports.say(
                        f"Not begun, as a move that was to make room before was not done: {names}."
                    )
                for source in dict.fromkeys(move["from_host"] for move in ready):
                    try:
                        migrations += self._of_host(source).carry_out(_moves_from(ready, source))
                    except RunOver:
                        raise
                    except DroverError as problem:
                        if source not in apart:
                            raise
                        problems[source] = problem
                        self._progress.leave_out(
                            move["uuid"]
                            for move in _moves_from(moves, source)
                            if move.get("stage", 1) > stage
                        )
                done = {each["uuid"] for each in migrations if each["status"] == "completed"}
        return MovesResult(
            migrations,
            [each for each in migrations if each["status"] != "completed"],
            skipped,
            problems,
        )


def _moves_from(moves: Iterable[Move], source: str) -> list[Move]:
    return [move for move in moves if move["from_host"] == source]
