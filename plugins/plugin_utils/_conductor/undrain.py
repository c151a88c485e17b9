# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring a drained host back: the order of things, from the first look to the last start.

An undrain that is killed is run again: what the drain shut down is in the store until it runs.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._conductor import host_state
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.host_moves import HostMoves
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.operations import Operations
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.ports import Ports
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.settings import MoveSettings
from ansible_collections.drover.compute.plugins.plugin_utils._errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._store import drained, services

#: Seconds that the lease of the host is held beyond what a start may take.
SPARE = 300


@dataclasses.dataclass(frozen=True)
class UndrainRequest:
    """What the operator wants.

    - moves: for what the drain left open.
    - timeout: seconds that an instance may take to start.
    - check_mode: change nothing.
    """

    host: str
    moves: MoveSettings
    timeout: int = 60
    check_mode: bool = False


class Undrain:
    """One run of an undrain."""

    def __init__(self, ports: Ports, request: UndrainRequest) -> None:
        self._ports, self._request, self.host = ports, request, request.host
        self._store, self._hosts, self._leasing, self._say = ports.store, ports.hosts, ports.leasing, ports.say
        #: Whether a drain began at the host, and no undrain followed.
        self._drained = False
        self.changed = False
        #: Instances that were started, and sentences on those that were not.
        self.started: list[dict[str, str]] = []
        self.failed: list[str] = []

    def run(self) -> dict[str, Any]:
        """Carry it out.

        :returns: a dict: changed, host (host_state.FIELDS), started (instances, each uuid and name), message.
        :raises DroverError: the host is unknown or does not answer; or an instance does not start: the host is back all the same.
        """
        with self._store.read() as connection:
            self._drained = services.is_drained(services.get(connection, self.host).status_before_drain)
        with self._leasing.held([self.host], "undrain"):
            self.changed |= bool(self._hosts.discover(self.host).get("changed"))
            self._settle()
            state, to_start = self._restore()
            message = self._message(state, to_start)
            self._say(message)
            for instance in to_start:
                self._start(instance)
        result = {"changed": self.changed, "host": state, "started": self.started}
        if self.failed:
            raise DroverError(
                f"{self.host} is back, but what its drain shut down does not all run again. {' '.join(self.failed)} Correct that and run the "
                "undrain again, which starts what is left; or start or delete it by itself, and the undrain forgets it.",
                **result,
            )
        return {**result, "message": message}

    def _settle(self) -> None:
        """Finish or undo what the drain left open; a move that was never begun is not begun. The host is brought back in any case."""
        if self._request.check_mode:
            return
        try:
            self.changed |= bool(HostMoves(self._ports, self.host, self._request.moves).carry_out(begin=False))
        except DroverError as problem:
            if "timedout" in problem.details:
                raise
            self._say(f"{problem} {self.host} is brought back all the same.")

    def _restore(self) -> tuple[dict[str, Any], list[dict[str, str]]]:
        """Give the host the state that it had before the drain.

        :returns: (its state, the instances that the drain shut down and that are to be started).
        """
        with self._store.write() as connection:
            before, after = host_state.change(connection, self.host, "restored")
            memory = services.get(connection, self.host).status_before_drain
            to_start = drained.left_to_start(connection, self.host, memory)
        self.changed |= before != after
        return after, to_start

    def _message(self, state: dict[str, Any], to_start: list[dict[str, str]]) -> str:
        was = "is as it was before its drain or evacuation" if self._drained else "was not drained; nothing was changed"
        now = f"disabled ({state['disabled_reason']})" if state["disabled"] else "enabled"
        names = ", ".join(each["name"] for each in to_start)
        return f"{self.host} {was}: {now}." + (f" Its drain shut down {names}, to be started now." if names else "")

    def _start(self, instance: dict[str, str]) -> None:
        """Start an instance; one that does not start keeps no other from it."""
        name, host = instance["name"], self.host
        try:
            if not self._request.check_mode:
                self._leasing.extend(host, self._request.timeout + SPARE)
            self._say(f"{name}: starting on {host}")
            operations = Operations(self._store, self._hosts.hand(host), host, self._request.check_mode)
            outcomes, _differences, failed = operations.carry_out(
                [instance["uuid"]], "running", {"timeout": self._request.timeout, "force": False, "hard": False}
            )
        except DroverError as problem:
            if "timedout" in problem.details:
                raise
            self.failed.append(str(problem))
            return
        self.changed |= any(each["changed"] for each in outcomes)
        self.failed += failed
        self.started += [] if failed else [instance]
