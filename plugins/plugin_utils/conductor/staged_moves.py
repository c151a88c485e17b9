# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Moves off several hosts: stage after stage, host after host."""

from __future__ import annotations

import typing

from ansible_collections.drover.compute.plugins.plugin_utils.conductor.host_moves import HostMoves
from ansible_collections.drover.compute.plugins.plugin_utils.conductor.progress import Progress


class Moved(typing.NamedTuple):
    """What became of moves: outcomes (see migrate.Mover), those of them that did not complete, and the moves not begun."""

    migrations: list
    failed: list
    skipped: list


class StagedMoves:
    """Carries out the moves of a plan.

    :param ports: ports.Ports.
    :param settings: settings.MoveSettings.
    """

    def __init__(self, ports, settings):
        self._ports, self._settings = ports, settings
        self._progress = Progress(ports.say, ports.clock)

    def _of_host(self, host):
        return HostMoves(self._ports, host, self._settings, progress=self._progress)

    def checked(self, moves: list[dict[str, typing.Any]]) -> list[dict[str, typing.Any]]:
        """What the hypervisors say of moves, without moving anything: results of HostMoves.check()."""
        results = []
        for source in dict.fromkeys(move["from_host"] for move in moves):
            results += self._of_host(source).check(_of(moves, source))
        return results

    def check(self, moves):
        """Those that a hypervisor refuses."""
        return [found for found in self.checked(moves) if not found["ok"]]

    def settle(self, host):
        """Finish or undo what an earlier run left open at a host; one that was never begun is begun.

        :returns: outcomes.
        """
        return self._of_host(host).carry_out()

    def run(self, moves, purpose):
        """Carry out moves, each stage when the one before is over; what waits for a move that was not done is left out.

        :param moves: moves of a plan; ``after`` and ``stage`` may be missing.
        :param purpose: what for; others who want the hosts read it.
        :returns: Moved.
        """
        migrations, skipped, done = [], [], set()
        moves = [{"after": [], "stage": 1, **move} for move in moves]
        self._progress.expect(moves)
        with self._ports.leasing.held(sorted({move["from_host"] for move in moves}), purpose):
            for stage in sorted({move["stage"] for move in moves}):
                wanted = [move for move in moves if move["stage"] == stage]
                ready = [move for move in wanted if done.issuperset(move["after"])]
                skipped += [move for move in wanted if move not in ready]
                self._progress.leave_out(skipped)
                if len(ready) < len(wanted):
                    names = ", ".join(dict.fromkeys(move["name"] for move in skipped))
                    self._ports.say(f"Not begun, as a move that was to make room before was not done: {names}.")
                for source in dict.fromkeys(move["from_host"] for move in ready):
                    migrations += self._of_host(source).carry_out(_of(ready, source))
                done = {each["uuid"] for each in migrations if each["status"] == "completed"}
        return Moved(migrations, [each for each in migrations if each["status"] != "completed"], skipped)


def _of(moves, source):
    return [move for move in moves if move["from_host"] == source]
