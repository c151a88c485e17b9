# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The return of drained hosts, one after the other, from the first look to the last start.

A killed undrain can be repeated: the store keeps the instances that the drain shut down until they
run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from .._common.errors import DroverError, RunOver
from .._common.validation import host_names
from .._store.hosts import rolling, services
from .._store.instances import drained, went_down
from . import host_state
from .host_moves import HostMoves
from .operations import Operations
from .ports import Ports
from .settings import MoveSettings
from .starting import Starting

#: Seconds of the lease of the host beyond the time of a start.
SPARE = 300


@dataclasses.dataclass(frozen=True)
class UndrainRequest:
    """The request of the operator.

    - hosts: their names; a name that occurs twice counts once.
    - moves: the settings for open moves of the drain.
    - timeout: seconds that an instance may take to start.
    - check_mode: change nothing.
    """

    hosts: Sequence[str]
    moves: MoveSettings
    timeout: int = 60
    check_mode: bool = False


class Undrain:
    """One run of an undrain. A host that cannot be brought back does not stop the others."""

    def __init__(self, ports: Ports, request: UndrainRequest) -> None:
        self._ports, self._request, self.hosts = ports, request, host_names(request.hosts)
        self._store, self._hosts, self._leasing, self._say = (
            ports.store,
            ports.hosts,
            ports.leasing,
            ports.say,
        )
        self._proofs, self.changed = Starting(ports), False
        #: The states of the hosts that are back: a dict host and host_state.FIELDS for each.
        self.states: list[dict[str, object]] = []
        #: Instances that were started.
        self.started: list[dict[str, str]] = []

    def run(self) -> dict[str, object]:
        """Bring the hosts back.

        :returns: a dict: changed, hosts (see states), started (instances, each uuid and name),
            message.
        :raises DroverError: a host is unknown, and nothing was changed; or a host does not answer;
            or an instance does not start, but its host is back.
        """
        with self._store.read() as connection:
            drained_before = {
                host: services.is_drained(services.get(connection, host).status_before_drain)
                for host in self.hosts
            }
        messages: list[str] = []
        problems: list[DroverError] = []
        for host, was_drained in drained_before.items():
            try:
                messages.append(self._bring_back(host, was_drained))
            except RunOver:
                raise
            except DroverError as problem:
                problems.append(problem)
                if len(self.hosts) > 1:
                    self._say(str(problem))
        result = {"changed": self.changed, "hosts": self.states, "started": self.started}
        if problems:
            details = {key: value for problem in problems for key, value in problem.details.items()}
            raise DroverError(
                " ".join([*(str(problem) for problem in problems), *messages]),
                **{**details, **result},
            )
        return {**result, "message": " ".join(messages)}

    def _bring_back(self, host: str, was_drained: bool) -> str:
        """Bring a host back, and start the instances that its drain shut down.

        :returns: its new state, in a sentence.
        :raises DroverError: it does not answer, or an instance does not start.
        """
        failed: list[str] = []
        with self._leasing.held([host], "undrain"):
            self.changed |= bool(self._hosts.discover(host).get("changed"))
            self._settle_moves(host)
            state, to_start = self._restore(host)
            self.states.append({"host": host, **state})
            message = _message(
                host, was_drained, state, to_start, self._request.check_mode
            ) + self._maintenance(host)
            self._say(message)
            if to_start:
                self._proofs.look({each["uuid"]: each["name"] for each in to_start}, [host])
            for instance in to_start:
                failed += self._start_instance(host, instance)
            self._say_what_went_down(host)
        if failed:
            raise DroverError(
                f"{host} is back, but what its drain shut down does not all run again."
                f" {' '.join(failed)} Correct that and run the undrain again: it starts the"
                " instances that are still off. Or start or delete them yourself; then the undrain"
                " leaves them alone."
            )
        return message

    def _say_what_went_down(self, host: str) -> None:
        """Show the instances that ran on the host when it went down and are still off.

        An evacuation may have left them, for example.
        """
        with self._store.read() as connection:
            found = went_down.read(connection, host)
        for line in went_down.sentences(found):
            self._say(line)

    def _maintenance(self, host: str) -> str:
        """Return a sentence on the rolling maintenance of this host, if it is still in one.

        The undrain of the rolling maintenance comes after the reboot.
        """
        with self._store.read() as connection:
            stages = {each["host"]: each["stage"] for each in rolling.read(connection)}
        if stages.get(host) not in (
            "before_drain",
            "drain",
            "after_drain",
            "reboot",
            "after_reboot",
        ):
            return ""
        return (
            f" It is in a rolling maintenance that has not finished (stage {stages[host]}):"
            " drover.compute.rolling_maintenance drains it again and goes on, and with"
            " drover_rolling_restart=true forgets what was begun."
        )

    def _settle_moves(self, host: str) -> None:
        """Finish or undo the open moves of the drain; do not begin moves that were never begun.

        A failure here does not stop the return of the host.
        """
        if self._request.check_mode:
            return
        try:
            self.changed |= bool(
                HostMoves(self._ports, host, self._request.moves).carry_out(begin=False)
            )
        except RunOver:
            raise
        except DroverError as problem:
            self._say(f"{problem} {host} is brought back all the same.")

    def _restore(self, host: str) -> tuple[dict[str, object], list[dict[str, str]]]:
        """Give a host its state from before the drain.

        :returns: (its state, the instances that the drain shut down and that must be started).
        """
        with self._store.write() as connection:
            before, after = host_state.change(connection, host, "restored")
            memory = services.get(connection, host).status_before_drain
            to_start = drained.left_to_start(connection, host, memory)
        self.changed |= before != after
        return after, to_start

    def _start_instance(self, host: str, instance: dict[str, str]) -> list[str]:
        """Start an instance; a failure does not stop the starts of the others.

        :returns: the reasons why it does not start; empty if it starts.
        """
        try:
            if not self._request.check_mode:
                self._leasing.extend(host, self._request.timeout + SPARE)
            self._say(f"{instance['name']}: starting on {host}")
            operations = Operations(
                self._ports, self._hosts.hand(host), host, self._request.check_mode, self._proofs
            )
            outcomes, _differences, failed = operations.carry_out(
                [instance["uuid"]],
                "running",
                {"timeout": self._request.timeout, "force": False, "hard": False},
            )
        except RunOver:
            raise
        except DroverError as problem:
            return [str(problem)]
        self.changed |= any(each["changed"] for each in outcomes)
        self.started += [] if failed else [instance]
        return failed


def _message(
    host: str,
    was_drained: bool,
    state: dict[str, Any],
    to_start: list[dict[str, str]],
    check_mode: bool,
) -> str:
    is_now = "would be" if check_mode else "is"
    was = (
        f"{is_now} as it was before its drain or evacuation"
        if was_drained
        else "was not drained; nothing was changed"
    )
    now = f"disabled ({state['disabled_reason']})" if state["disabled"] else "enabled"
    names = ", ".join(each["name"] for each in to_start)
    started = "which would be started" if check_mode else "to be started now"
    return f"{host} {was}: {now}." + (f" Its drain shut down {names}, {started}." if names else "")
