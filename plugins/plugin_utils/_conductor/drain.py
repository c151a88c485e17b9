# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drain of living hosts: its order, from the first look to maintenance.

A Drain has the whole state of its run. Each step is in the store before it is done. If a drain is
killed, the next one settles the open steps and continues. Several hosts have one plan, and none of
them is a destination. A host that cannot be drained does not stop the drain of the others, unless
nothing was begun and the operator wants all hosts or none (FAIL).
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Iterator, Sequence

from .._common import certainty
from .._common.errors import DroverError, RunOver, some
from .._common.validation import host_names
from .._records.hosts import Occupant, Occupants
from .._records.instances import Binding, InstanceSummary
from .._records.outcomes import DrainedHost, DrainResult, MoveOutcome, PrecheckReport
from .._records.plans import DrainMove, DrainPlan, UnmovableInstance
from .._report import drain as report
from .._store.hosts import services
from .._store.instances import instances, occupancy
from . import host_state, starting
from .plans import DrainQuestion, count_disks
from .ports import Ports
from .settings import MoveSettings
from .staged_moves import StagedMoves

#: The choices of the operator for instances that cannot move.
FAIL, SKIP, SHUTDOWN = "fail", "skip", "shutdown"


@dataclasses.dataclass(frozen=True)
class DrainRequest:
    """The request of the operator.

    - hosts: their names; a name that occurs twice counts once.
    - reason: the reason of the drain, in words; the hosts keep it.
    - unmovable: FAIL, SKIP or SHUTDOWN.
    - plan_only: change nothing.
    - rounds: the maximum number of times to plan and move.
    """

    hosts: Sequence[str]
    question: DrainQuestion
    moves: MoveSettings
    reason: str = host_state.NO_REASON
    unmovable: str = FAIL
    plan_only: bool = False
    rounds: int = 3


class Drain:
    """One run of a drain."""

    #: The last plan; it is not set before the hosts are read.
    plan: DrainPlan

    def __init__(self, ports: Ports, request: DrainRequest) -> None:
        self.request, self.hosts = request, host_names(request.hosts)
        #: The names of the hosts in a sentence.
        self.named = ", ".join(self.hosts)
        self._store, self._hosts, self._leasing, self._say = (
            ports.store,
            ports.hosts,
            ports.leasing,
            ports.say,
        )
        self._moves, self._own = StagedMoves(ports, request.moves), ports.own
        #: The destinations that an instance cannot have, because a host refused it or its move
        #: there failed: dict uuid -> {provider: the reason}.
        self.excluded: dict[str, dict[str, str]] = {}
        #: The destinations that a host does not reach: dict host -> {provider: the reason}.
        self.unreached: dict[str, dict[str, str]] = {}
        #: The bindings that hosts found, valid for every destination: dict uuid of an instance ->
        #: bindings.
        self.held: dict[str, list[Binding]] = {}
        #: Uuids of instances whose move was aborted, or that did not shut down for it: they stay.
        self.unmoved: set[str] = set()
        #: Sentences on failures, each with the name of its host; None for all hosts.
        self.messages: list[tuple[str | None, str]] = []
        #: Hosts that cannot be drained, with the error. The drain does nothing more there.
        self.problems: dict[str, DroverError] = {}
        #: The hosts with a finished drain.
        self.done: dict[str, DrainedHost] = {}
        #: The hosts that were read because their instances may move to make room.
        self._read: set[str] = set()
        #: All moves, also the moves of an earlier run.
        self.migrations: list[MoveOutcome] = []
        #: The occupants of disabled hosts, as long as the run has changed nothing there.
        self._shown: dict[str, Occupants] = {}
        #: True when all hosts are disabled and instances may move.
        self._begun = False
        self.changed = False
        #: The value of ``changed`` that a plan foresees.
        self.would_change = False
        self.round = 1
        self.staying: list[UnmovableInstance] = []
        self.stopping: list[InstanceSummary] = []
        self.shut_down: list[InstanceSummary] = []

    def run(self) -> DrainResult:
        """Drain the hosts.

        :raises DroverError: a host could not be drained; finished steps stay. Its details have
            ``hosts`` in the form of the result.
        """
        try:
            return self._run()
        except DroverError as problem:
            problem.details.setdefault("changed", self._has_changed())
            problem.details["hosts"] = [
                self.done.get(host) or self._failed(host, problem) for host in self.hosts
            ]
            raise

    def _run(self) -> DrainResult:
        with self._store.read() as connection:
            for host in self.hosts:
                services.get(connection, host)
        if self.request.plan_only:
            self._make_plan()
            self._refuse_unmovable()
            for host in self._hosts_to_drain():
                self.done[host] = {
                    "host": host,
                    "status": "planned",
                    "message": f"Nothing was changed on {host}: this is the plan.",
                }
            self.would_change = self._would_change()
            return self._result(
                f"Nothing was changed: this is the plan of a drain of {self.named}."
            )
        with self._leasing.held(self.hosts, "drain"):
            with self._disabled_if_empty():
                self._make_plan()
                self._refuse_unmovable()
            # Disable all hosts before the first move. Otherwise one of them could receive an
            # instance that leaves another one, or that another run moves.
            self._set_state("draining", self.hosts)
            self._begun = True
            self._move_instances()
            self._shut_down()
            return self._verify()

    def _has_changed(self) -> bool:
        return self.changed or bool(self.migrations or self.shut_down)

    def _would_change(self) -> bool:
        """Return True if the drain would change a host or an instance."""
        with self._store.read() as connection:
            is_drained = all(
                services.get(connection, host).maintenance for host in self._hosts_to_drain()
            )
        return bool(self.plan["moves"] or self.stopping or not is_drained)

    # Hosts that cannot be drained

    def _hosts_to_drain(self) -> list[str]:
        """Return the hosts that the run still drains."""
        return [host for host in self.hosts if host not in self.problems]

    @contextlib.contextmanager
    def _apart(self, host: str) -> Iterator[None]:
        """Continue without a host of the request if the block fails there."""
        try:
            yield
        except RunOver:
            raise
        except DroverError as problem:
            if host not in self.hosts:
                raise
            self._give_up(host, problem)

    def _give_up(self, host: str, problem: DroverError) -> None:
        """Continue without a host.

        :raises DroverError: it is the only host; or nothing was begun, and the operator wants all
            hosts or none; or no host is left.
        """
        if len(self.hosts) == 1:
            raise problem
        if not self._begun and self.request.unmovable == FAIL:
            others = ", ".join(each for each in self.hosts if each != host)
            raise DroverError(
                f"{problem} So {host} cannot be drained, and no drain of {others} was begun."
                f" Correct that, leave {host} out of drover_host, or have the others drained"
                " without it: drover_unmovable=skip.",
                **problem.details,
            )
        self.problems[host] = problem
        self.migrations += [
            each for each in problem.details.get("migrations", ()) if each not in self.migrations
        ]
        self._say(f"{host} cannot be drained: {problem}")
        if not self._hosts_to_drain():
            raise self._failure()

    def _failed(self, host: str, problem: DroverError) -> DrainedHost:
        if len(self.hosts) == 1:
            # The error itself has the message.
            return {"host": host, "status": "failed", "message": ""}
        why = str(self.problems.get(host, problem))
        stays = ", and stays disabled" if self._begun else ""
        return {"host": host, "status": "failed", "message": f"{host} is not drained{stays}: {why}"}

    def _failure(self) -> DroverError:
        """Return the error of a drain of several hosts that failed for some of them."""
        ended = [
            self.done.get(host) or self._failed(host, self.problems[host]) for host in self.hosts
        ]
        return DroverError(
            " ".join(each["message"] for each in ended),
            migrations=self.migrations,
            shut_down=self.shut_down,
            staying=self.staying,
        )

    @contextlib.contextmanager
    def _disabled_if_empty(self) -> Iterator[None]:
        """Disable hosts before they are read, if the store has no instance on them.

        No instance can arrive then, so one look at them is enough. If the drain ends before it has
        begun, they get their old state again.
        """
        with self._store.read() as connection:
            empty = [
                host
                for host in self.hosts
                if not instances.listing(connection, host)
                and not any(occupancy.occupants(connection, host).values())
            ]
            new = [
                host
                for host in empty
                if not services.is_drained(services.get(connection, host).status_before_drain)
            ]
        changed = self.changed
        if empty:
            self._set_state("draining", empty)
        try:
            yield
        except DroverError:
            if new:
                self._set_state("restored", new)
            # The hosts have their old state again.
            self.changed = changed
            raise
        self._shown = {host: seen for host, seen in self._shown.items() if host in empty}

    # Planning

    def _make_plan(self) -> None:
        self._look_and_plan()
        for line in self.plan["lines"]:
            self._say(line)
        self.staying, self.stopping = self.plan["unmovable"], self.plan["shutdowns"]

    def _look_and_plan(self) -> None:
        """Settle open moves, read the hosts, and plan.

        Repeat the plan without the destinations that a hypervisor refuses.
        """
        for host in self._hosts_to_drain() if not self.request.plan_only else ():
            with self._apart(host):
                self.migrations += self._moves.settle(host)
        for host in self._hosts_to_drain():
            with self._apart(host):
                self._shown[host] = self._hosts.discover(host)["occupants"]
                if self.request.plan_only:
                    self._refuse_unrecorded(host)
        settled: set[str] = set()
        while True:
            self.plan = self._planned()
            helpers = self._helpers(settled)
            if helpers is not None:
                settled |= helpers
                continue
            given_up, reports = len(self.problems), self._precheck_moves()
            if len(self.problems) > given_up:
                continue
            refused = [each for each in reports if not each["ok"]]
            if not refused:
                # The hypervisors have read the disks now; the store has only their last report.
                with self._store.read() as connection:
                    count_disks(connection, self.plan, reports)
                return
            for precheck in refused:
                if precheck.get("bindings"):
                    self.held[precheck["uuid"]] = precheck["bindings"]
                self._exclude(precheck, precheck["why"] or precheck["message"], precheck["reached"])
            if not self.request.plan_only:
                with self._store.write() as connection:
                    self._leasing.renew(connection, self.hosts[0])

    def _refuse_unrecorded(self, host: str) -> None:
        """Refuse a plan for a host that shows an instance which the store does not have there.

        A dry run records nothing, so its plan would lack that instance.

        :raises DroverError: the host shows such an instance.
        """
        with self._store.read() as connection:
            known = occupancy.occupants(connection, host)
        recorded = {each["uuid"] for each in (*known["running"], *known["shut_off"])}
        shown = self._shown[host]
        new = sorted(
            each["name"]
            for each in (*shown["running"], *shown["shut_off"])
            if each["uuid"] not in recorded
        )
        if new:
            raise DroverError(
                f"{host} shows {some(new)}, which the store does not have there. A dry run records"
                f" nothing, so its plan would be without {'it' if len(new) == 1 else 'them'}; the"
                " drain itself reads the host first. Run drover.compute.discover, then this again."
            )

    def _precheck_moves(self) -> list[PrecheckReport]:
        """Let the hypervisors check the moves of the plan, and return their reports."""
        reports: list[PrecheckReport] = []
        for source in dict.fromkeys(move["from_host"] for move in self.plan["moves"]):
            with self._apart(source):
                reports += self._moves.check(
                    [move for move in self.plan["moves"] if move["from_host"] == source]
                )
        return reports

    def _planned(self) -> DrainPlan:
        question = dataclasses.replace(self.request.question, own=self._own.guests())
        with self._store.read() as connection:
            return question.plan(
                connection,
                self._hosts_to_drain(),
                self.excluded,
                self.unreached,
                closed=list(self.problems),
                inventory=self._hosts.names(),
                held=self.held,
            )

    def _helpers(self, settled: set[str]) -> set[str] | None:
        """Settle and read the hosts with instances that make room, or did so for an earlier run.

        :param settled: hosts that were settled already for this plan.
        :returns: the hosts that were settled now; None if no host was settled or read, so that the
            plan is valid.
        """
        unsettled = (
            set()
            if self.request.plan_only
            else set(self.plan["unsettled"]).difference(self.hosts, settled)
        )
        unread = {move["from_host"] for move in self.plan["moves"]}.difference(
            self.hosts, self._read
        )
        if not unsettled and not unread:
            return None
        self._settle_moves(sorted(unsettled), f"making room for the drain of {self.named}")
        for name in sorted(unread):
            try:
                self._hosts.discover(name)
            except RunOver:
                raise
            except DroverError as problem:
                # The host is recorded as down, and the next plan does not use it.
                self._say(str(problem))
        self._read |= unread
        return unsettled

    def _settle_moves(self, hosts: Collection[str], purpose: str) -> None:
        with self._leasing.held(hosts, purpose):
            for name in hosts:
                self.migrations += self._moves.settle(name)

    def _exclude(self, move: PrecheckReport | MoveOutcome, why: str, reached: bool = True) -> None:
        """Note that an instance cannot go to its destination.

        If the host does not reach the destination, note that for all instances of the host.
        """
        provider = move["provider"]
        if provider is None:
            # The move was not begun; the destination may be tried again.
            return
        if not reached and move["source"] in self.hosts:
            reasons = self.unreached.setdefault(move["source"], {})
            if provider not in reasons:
                # The look there may have taken long, and the operator sees a plan with other
                # destinations.
                self._say(f"Nothing of {move['source']} goes to {move['destination']}: {why}")
            reasons[provider] = why
        else:
            self.excluded.setdefault(move["uuid"], {})[provider] = why

    def _refuse_unmovable(self) -> None:
        kept = [each for each in self.staying if each["keep_running"]]
        if self.request.unmovable == SHUTDOWN and kept:
            raise DroverError(report.not_to_shut_down(self.hosts, kept), staying=self.staying)
        if not self.staying or self.request.unmovable != FAIL:
            return
        raise DroverError(
            report.cannot_move(self.hosts, self.staying, self._said()), staying=self.staying
        )

    # The moves

    def _move_instances(self) -> None:
        """Move the instances, and plan again for the rest, as often as rounds are left."""
        while True:
            moves = self._moves_to_make()
            if not moves or self.round > self.request.rounds:
                return
            self._shown = {}
            # A failure at the only host fails the run. With several hosts it fails one host.
            apart = self._hosts_to_drain() if len(self.hosts) > 1 else ()
            moved = self._moves.run(moves, f"making room for the drain of {self.named}", apart)
            self.migrations += moved.migrations
            for host, problem in moved.problems.items():
                self._give_up(host, problem)
            for outcome in moved.failed:
                if outcome["status"] == "cancelled" or outcome["ignores_shutdown"]:
                    # An operator aborted the move, or its guest ignores a shutdown, which it would
                    # do again: the instance stays.
                    self.unmoved.add(outcome["uuid"])
                else:
                    self._exclude(outcome, outcome["message"])
                self.messages.append(
                    (
                        outcome["source"] if outcome["source"] in self.hosts else None,
                        outcome["message"],
                    )
                )
            self.round += 1
            if not moved.failed and not moved.skipped:
                return
            self._look_and_plan()

    def _moves_to_make(self) -> list[DrainMove]:
        return [move for move in self.plan["moves"] if move["uuid"] not in self.unmoved]

    def _shut_down(self) -> None:
        """Shut down the instances that do not move, if their policy or the operator wants that."""
        unmovable = self.staying if self.request.unmovable == SHUTDOWN else []
        for instance in [*self.stopping, *(each for each in unmovable if not each["keep_running"])]:
            if instance["host"] not in self.problems:
                with self._apart(instance["host"]):
                    self._shut_one_down(instance)

    def _shut_one_down(self, instance: InstanceSummary) -> None:
        host, timeout = instance["host"], self.request.moves.shutdown_timeout
        self._shown = {}
        for each in self.hosts:
            self._leasing.extend(each, timeout + 300)
        # Record it first: undrain starts the instances that ran.
        self._set_state("draining", [host], shuts_down=[instance["uuid"]])
        self._say(
            f"{instance['name']}: shutting down on {host},"
            f" {instance.get('reason') or 'as its policy wants'}"
        )
        given = {"uuid": instance["uuid"], "state": "stopped", "timeout": timeout}
        answer = starting.order(self._hosts.hand(host), host, "domain", given)
        if answer.outcome != certainty.DONE:
            raise DroverError(
                f"Instance {instance['name']} on {host} was not shut down: {answer.message} {host}"
                " stays disabled. Correct the cause and run the drain again."
            )
        if answer.result["changed"]:
            self.shut_down.append(instance)

    def _verify(self) -> DrainResult:
        """Move the instances that arrived during the drain, set each empty host to maintenance, and
        return the result.
        """
        seen = self._look_at_all()
        came = [
            each
            for host, found in seen.items()
            for each in self._surprising(host, found)
            if each["host"] == host and each["uuid"] not in self.unmoved
        ]
        if came and self.round <= self.request.rounds:
            self._look_and_plan()
            self._move_instances()
            self._shown = {}
            seen = self._look_at_all()
        for host, found in seen.items():
            with self._apart(host):
                self._close_host(host, found)
        if self.problems:
            raise self._failure()
        return self._result(" ".join(each["message"] for each in self.done.values()))

    def _look_at_all(self) -> dict[str, Occupants]:
        """Return the occupants of the hosts; give up hosts that cannot be read."""
        seen: dict[str, Occupants] = {}
        for host in self._hosts_to_drain():
            shown = self._shown.get(host)
            with self._apart(host):
                seen[host] = (
                    shown
                    if shown is not None and not shown["arriving"]
                    else self._read_occupants(host)
                )
        return seen

    def _close_host(self, host: str, seen: Occupants) -> None:
        """Set a host to maintenance if no instance runs there.

        :raises DroverError: the host shows an instance that should not be there.
        """
        surprising = self._surprising(host, seen)
        if surprising or seen["arriving"]:
            problem = report.not_empty(
                host, surprising, seen["arriving"], self.round - 1, self._said(host)
            )
            raise DroverError(problem, migrations=self.migrations, staying=self.staying)
        if not seen["running"]:
            self._set_state("maintenance", [host])
        self.done[host] = {
            "host": host,
            "status": "disabled" if seen["running"] else "maintenance",
            "message": report.ending(host, seen),
        }

    def _read_occupants(self, host: str) -> Occupants:
        """Read a host. If moves to it are open, settle them and read it again."""
        seen = self._hosts.discover(host)["occupants"]
        sources = sorted(
            {each["source"] for each in seen["arriving"] if each["source"] is not None}
        )
        if not sources:
            return seen
        try:
            self._settle_moves(sources, f"the drain of {host}, to which instances are on their way")
        except RunOver:
            raise
        except DroverError as problem:
            self.messages.append((host, str(problem)))
        return self._hosts.discover(host)["occupants"]

    def _surprising(self, host: str, seen: Occupants) -> list[Occupant]:
        """Return the instances that a host should not have, wherever the store records them."""
        expected = {
            each["uuid"] for each in [*self.staying, *self.stopping] if each["host"] == host
        }
        return [each for each in seen["running"] + seen["shut_off"] if each["uuid"] not in expected]

    def _said(self, host: str | None = None) -> list[str]:
        """Return the messages about a host, each once; with None, all messages."""
        return list(
            dict.fromkeys(
                message for about, message in self.messages if host is None or about in (None, host)
            )
        )

    def _set_state(self, state: str, hosts: Sequence[str], shuts_down: Sequence[str] = ()) -> None:
        """Change the state of all given hosts in one transaction."""
        with self._store.write() as connection:
            for host in hosts:
                self._leasing.renew(connection, host)
                reason = (
                    host_state.reason_of_drain(connection, host, self.request.reason)
                    if state != "restored"
                    else None
                )
                before, after = host_state.change(
                    connection, host, state, reason, shuts_down=shuts_down
                )
                self.changed = self.changed or before != after

    def _result(self, message: str) -> DrainResult:
        return {
            "changed": self._has_changed(),
            "hosts": list(self.done.values()),
            "plan": self.plan,
            "migrations": self.migrations,
            "shut_down": self.shut_down,
            "staying": self.staying,
            "message": message,
        }
