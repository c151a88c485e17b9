# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Empty a living host: the order of things, from the first look to maintenance.

A Drain has the whole state of its run. Each step is in the store before it is done. If a drain is killed, the next one settles
what is open and goes on.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Iterable, Iterator, Sequence

from ansible_collections.drover.compute.plugins.plugin_utils import _certainty as certainty
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import host_state
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import DrainQuestion, count_disks
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.ports import Ports
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.settings import MoveSettings
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.staged_moves import StagedMoves
from ansible_collections.drover.compute.plugins.plugin_utils._errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._records.hosts import Arrival, Occupant, Occupants
from ansible_collections.drover.compute.plugins.plugin_utils._records.instances import InstanceSummary
from ansible_collections.drover.compute.plugins.plugin_utils._records.outcomes import DrainResult, MoveOutcome, PrecheckReport
from ansible_collections.drover.compute.plugins.plugin_utils._records.plans import DrainMove, DrainPlan, UnmovableInstance
from ansible_collections.drover.compute.plugins.plugin_utils._store import instances, occupancy, services

#: What may be done about instances that cannot move.
FAIL, SKIP, SHUTDOWN = "fail", "skip", "shutdown"


@dataclasses.dataclass(frozen=True)
class DrainRequest:
    """What the operator wants.

    - reason: why, in words; the host keeps it.
    - unmovable: FAIL, SKIP or SHUTDOWN.
    - plan_only: change nothing.
    - rounds: how many times to plan and move at most.
    """

    host: str
    question: DrainQuestion
    moves: MoveSettings
    reason: str = "drained by drover.compute"
    unmovable: str = FAIL
    plan_only: bool = False
    rounds: int = 3


class Drain:
    """One run of a drain."""

    #: The last plan.
    plan: DrainPlan

    def __init__(self, ports: Ports, request: DrainRequest) -> None:
        self.request, self.host = request, request.host
        self._store, self._hosts, self._leasing, self._say = ports.store, ports.hosts, ports.leasing, ports.say
        self._moves = StagedMoves(ports, request.moves)
        #: Where an instance cannot go, as a host refused it or its move there failed: dict uuid -> {provider: why in words}.
        self.excluded: dict[str, dict[str, str]] = {}
        #: Where nothing of this host can go, as it does not reach it: dict provider -> why in words.
        self.unreached: dict[str, str] = {}
        #: Uuids of instances whose move somebody aborted: they stay.
        self.aborted: set[str] = set()
        #: Sentences on what did not go well.
        self.messages: list[str] = []
        #: Hosts whose instances may make room, and that were read for it.
        self._read: set[str] = set()
        #: Of all moves, those of an earlier run included.
        self.migrations: list[MoveOutcome] = []
        #: What the host has shown since it was disabled, while the run has done nothing there; else None.
        self._shown: Occupants | None = None
        self.changed = False
        self.round = 1
        self.staying: list[UnmovableInstance] = []
        self.stopping: list[InstanceSummary] = []
        self.shut_down: list[InstanceSummary] = []

    def run(self) -> DrainResult:
        """Carry it out.

        :raises DroverError: it could not be done; what is done stays done.
        """
        with self._store.read() as connection:
            services.get(connection, self.host)
        if self.request.plan_only:
            self._make_plan()
            self._refuse_unmovable()
            return self._result(f"Nothing was changed: this is the plan of a drain of {self.host}.")
        with self._leasing.held([self.host], "drain"):
            with self._disabled_if_empty():
                self._make_plan()
                self._refuse_unmovable()
            self._set_state("draining")
            self._move()
            self._shut_down()
            return self._verify()

    @contextlib.contextmanager
    def _disabled_if_empty(self) -> Iterator[None]:
        """Disable a host on which the store has nothing before it is read: nothing can come any more, so it is read once.

        Where the drain ends before it has begun, the host is given back the state it had.
        """
        with self._store.read() as connection:
            drained = services.is_drained(services.get(connection, self.host).status_before_drain)
            empty = not instances.listing(connection, self.host) and not any(occupancy.occupants(connection, self.host).values())
        if empty:
            self._set_state("draining")
        try:
            yield
        except DroverError:
            if empty and not drained:
                self._set_state("restored")
            raise
        if not empty:
            self._shown = None

    # Planning

    def _make_plan(self) -> None:
        self._look_and_plan()
        for line in self.plan["lines"]:
            self._say(line)
        self.staying, self.stopping = self.plan["unmovable"], self.plan["shutdowns"]

    def _look_and_plan(self) -> None:
        """Settle what is open, read the host, and plan; plan anew without the destinations that a hypervisor refuses."""
        if not self.request.plan_only:
            self.migrations += self._moves.settle(self.host)
        self._shown = self._hosts.discover(self.host)["occupants"]
        settled: set[str] = set()
        while True:
            self.plan = self._planned()
            helpers = self._helpers(settled)
            if helpers is not None:
                settled |= helpers
                continue
            reports = self._moves.check(self.plan["moves"])
            refused = [each for each in reports if not each["ok"]]
            if not refused:
                # The hypervisors have seen the disks; the store has what they showed last.
                copied = {each["uuid"]: each["copies_disk_mib"] for each in reports if each["copies_disk_mib"] is not None}
                with self._store.read() as connection:
                    count_disks(connection, self.plan, copied)
                return
            for report in refused:
                self._exclude(report, report["why"] or report["message"], report["reached"])
            if not self.request.plan_only:
                with self._store.write() as connection:
                    self._leasing.renew(connection, self.host)

    def _planned(self) -> DrainPlan:
        with self._store.read() as connection:
            return self.request.question.plan(connection, self.host, self.excluded, self.unreached)

    def _helpers(self, settled: set[str]) -> set[str] | None:
        """Settle and read the hosts whose instances make room, or did for an earlier run.

        :param settled: hosts that were settled already for this plan.
        :returns: the hosts that were settled now; None where there was no host to settle or read, so that the plan stands.
        """
        unsettled = set() if self.request.plan_only else set(self.plan["unsettled"]) - {self.host} - settled
        unread = {move["from_host"] for move in self.plan["moves"]} - {self.host} - self._read
        if not unsettled and not unread:
            return None
        self._settle(sorted(unsettled), f"making room for the drain of {self.host}")
        for name in sorted(unread):
            try:
                self._hosts.discover(name)
            except DroverError as problem:
                # It is recorded as down, and the plan does without it.
                self._say(str(problem))
        self._read |= unread
        return unsettled

    def _settle(self, hosts: Collection[str], purpose: str) -> None:
        with self._leasing.held(hosts, purpose):
            for name in hosts:
                self.migrations += self._moves.settle(name)

    def _exclude(self, move: PrecheckReport | MoveOutcome, why: str, reached: bool = True) -> None:
        """Note that an instance cannot go to its destination; or no instance of the host, where that is not reached."""
        provider = move["provider"]
        if provider is None:
            # The move was not begun, and the destination may be tried again.
            return
        if not reached and move["source"] == self.host:
            self.unreached[provider] = why
        else:
            self.excluded.setdefault(move["uuid"], {})[provider] = why

    def _refuse_unmovable(self) -> None:
        if not self.staying or self.request.unmovable != FAIL:
            return
        reasons = []
        for each in self.staying:
            reasons.append(f"{each['name']}: {each['reason']}." + (f" Way out: {each['way_out']}." if each["way_out"] else ""))
        raise DroverError(
            f"{len(self.staying)} of the instances of {self.host} cannot move, so nothing was changed. {' '.join(reasons + self._said())} "
            "Correct that, or say what to do about them: drover_unmovable=skip leaves them where they are, drover_unmovable=shutdown "
            "shuts them down.",
            staying=self.staying,
        )

    # Carrying out

    def _move(self) -> None:
        """Move the instances, and plan anew for those that did not move, until all did or the rounds are over."""
        while True:
            moves = self._wanted()
            if not moves or self.round > self.request.rounds:
                return
            self._shown = None
            moved = self._moves.run(moves, f"making room for the drain of {self.host}")
            self.migrations += moved.migrations
            for each in moved.failed:
                if each["status"] == "cancelled":
                    # Somebody wants it to stay.
                    self.aborted.add(each["uuid"])
                else:
                    self._exclude(each, each["message"])
                self.messages.append(each["message"])
            self.round += 1
            if not moved.failed and not moved.skipped:
                return
            self._look_and_plan()

    def _wanted(self) -> list[DrainMove]:
        return [move for move in self.plan["moves"] if move["uuid"] not in self.aborted]

    def _shut_down(self) -> None:
        """Shut down the instances that their policy, or the operator, wants to be shut down instead of moved."""
        timeout = self.request.moves.shutdown_timeout
        for instance in [*self.stopping, *(self.staying if self.request.unmovable == SHUTDOWN else ())]:
            self._shown = None
            self._leasing.extend(self.host, timeout + 300)
            # Before it is done: undrain starts what ran.
            self._set_state("draining", shuts_down=[instance["uuid"]])
            self._say(f"{instance['name']}: shutting down on {self.host}, {instance.get('reason') or 'as its policy wants'}")
            answer = self._hosts.hand(self.host).act("domain", {"uuid": instance["uuid"], "state": "stopped", "timeout": timeout})
            if answer.outcome != certainty.DONE:
                raise DroverError(
                    f"Instance {instance['name']} on {self.host} was not shut down: {answer.message} {self.host} stays disabled. Correct the "
                    "cause and run the drain again."
                )
            if answer.result["changed"]:
                self.shut_down.append(instance)

    def _verify(self) -> DrainResult:
        """See that the host is empty, by what it shows; move the instances that came meanwhile."""
        seen = self._shown if self._shown is not None and not self._shown["arriving"] else self._look()
        came = [each for each in self._surprising(seen) if each["host"] == self.host and each["uuid"] not in self.aborted]
        if came and self.round <= self.request.rounds:
            self._look_and_plan()
            self._move()
            seen = self._look()
        surprising = self._surprising(seen)
        if surprising or seen["arriving"]:
            raise DroverError(
                self._not_empty(surprising, seen["arriving"]), migrations=self.migrations, shut_down=self.shut_down, staying=self.staying
            )
        if not seen["running"]:
            self._set_state("maintenance")
        return self._result(self._ending(seen))

    def _look(self) -> Occupants:
        """Read the host; where moves to it are open, settle them and read it again."""
        seen = self._hosts.discover(self.host)["occupants"]
        sources = sorted({each["source"] for each in seen["arriving"] if each["source"] is not None})
        if not sources:
            return seen
        try:
            self._settle(sources, f"the drain of {self.host}, to which instances are on their way")
        except DroverError as problem:
            self.messages.append(str(problem))
        return self._hosts.discover(self.host)["occupants"]

    def _surprising(self, seen: Occupants) -> list[Occupant]:
        """Return what the host shows and should not have, wherever the store has it."""
        expected = {each["uuid"] for each in [*self.staying, *self.stopping]}
        return [each for each in seen["running"] + seen["shut_off"] if each["uuid"] not in expected]

    def _not_empty(self, surprising: Collection[Occupant], arriving: Iterable[Arrival]) -> str:
        head = f"{self.host} is not empty"
        if surprising:
            head += f": {', '.join(each['name'] for each in surprising)} is still there after {self.round - 1} round(s)"
        parts = [
            f"{each['name']} is {each['state']} there, and the store has it {'on ' + each['host'] if each['host'] else 'nowhere'}."
            for each in surprising
            if each["host"] != self.host
        ]
        parts += [
            f"{each['name']} is {'on its way there from ' + each['source'] if each['source'] else 'being built there'}."
            for each in arriving
        ]
        return " ".join([f"{head}.", *parts, *self._said(), "The host stays disabled. Correct the cause and run the drain again."])

    def _ending(self, seen: Occupants) -> str:
        back = "Bring it back with drover.compute.undrain."
        if seen["running"]:
            names = ", ".join(each["name"] for each in seen["running"])
            return f"{self.host} is disabled but not in maintenance, as {names} still runs there (drover_unmovable=skip). {back}"
        if seen["shut_off"]:
            names = ", ".join(each["name"] for each in seen["shut_off"])
            return f"{self.host} is in maintenance; {names} is there, shut off. {back}"
        return f"{self.host} is empty and in maintenance. {back}"

    def _said(self) -> list[str]:
        return list(dict.fromkeys(self.messages))

    def _set_state(self, state: str, shuts_down: Sequence[str] = ()) -> None:
        reason = self.request.reason if state != "restored" else None
        with self._store.write() as connection:
            self._leasing.renew(connection, self.host)
            before, after = host_state.change(connection, self.host, state, reason, shuts_down=shuts_down)
        self.changed = self.changed or before != after

    def _result(self, message: str) -> DrainResult:
        return {
            "changed": self.changed or bool(self.migrations or self.shut_down),
            "plan": self.plan,
            "migrations": self.migrations,
            "shut_down": self.shut_down,
            "staying": self.staying,
            "message": message,
        }
