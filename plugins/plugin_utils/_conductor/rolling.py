# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rolling maintenance: its order, from the first look at the hosts to the report.

The whole state is in the store: a record for each host, with its last begun stage
(_store/hosts/rolling.py). Each call of Rolling reads it and returns the next step. The call before
may be from this run or from a killed one.

Hooks are task files of the user, and power drivers are task files too, so one action plugin cannot
do all the work. The role drover.compute.rolling calls begin, look (for each host), plan; then in
each round next, the steps of the batch (for each host), close; and report at the end. The role
obeys the result of each step, and decides nothing. The hosts of a batch work at the same time, like
the hosts of a play.

The number of batches is not known beforehand, because each batch is planned when it begins (rule
S6). The role loops over ``rounds``. They are enough in any case, and a round without a host left
does nothing. A task file that includes itself would be too deep a recursion for Ansible.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .._common.errors import DroverError, Unreachable, said_once, some
from .._records.outcomes import Home, RollingRecord
from .._records.plans import BlockedHost, RollingPlan
from .._report import rolling as rolling_text
from .._store.database import clock
from .._store.hosts import rolling, services
from .._store.instances import instances, occupancy
from .._store.instances.migrations_open import open_moves
from .._store.reports import hosts
from . import host_boot, host_state
from .drain import Drain
from .plans import plan_home
from .ports import Ports
from .rolling_records import HostLook, Records, RollingRecords
from .rolling_request import FAIL, NEEDED, NEVER, RollingRequest
from .staged_moves import StagedMoves

LEASE = PURPOSE = "rolling maintenance"
#: Seconds that other controllers wait for a killed run. On its own controller a killed run is known
#: to be dead.
LEASE_SECONDS = 86400


class RollingStep(NamedTuple):
    """One step of a host.

    - stage: the stage that is recorded when the step begins.
    - tasks: the task file of the role that does it.
    """

    name: str
    stage: str
    tasks: str


#: All steps of a host, in their order.
STEPS = (
    RollingStep("before_drain", "before_drain", "hook"),
    # All hosts of the batch, before one of them looks for destinations.
    RollingStep("disable", "drain", "disable"),
    RollingStep("drain", "drain", "drain"),
    RollingStep("after_drain", "after_drain", "hook"),
    # An earlier run may have ended while the host was down.
    RollingStep("startup", "reboot", "power"),
    RollingStep("reboot", "reboot", "power"),
    RollingStep("after_reboot", "after_reboot", "hook"),
    RollingStep("enable", "enable", "enable"),
    RollingStep("after_enable", "after_enable", "hook"),
    RollingStep("back", "back", "back"),
)
#: The stages of a drained host, before and after its return.
EMPTIED, BROUGHT_BACK = (
    ("after_drain", "reboot", "after_reboot"),
    ("enable", "after_enable", "back"),
)
#: The stages after the undrain.
ENABLED = ("after_enable", "back")
HOOKS = tuple(step.name for step in STEPS if step.tasks == "hook")


class Rolling:
    """One run of a rolling maintenance."""

    def __init__(self, ports: Ports, request: RollingRequest) -> None:
        self.request, self._ports = request, ports
        self._store, self._hosts, self._say, self._own = (
            ports.store,
            ports.hosts,
            ports.say,
            ports.own,
        )
        self._records = RollingRecords(ports.store, ports.clock, request.hosts)

    # The steps for all hosts

    def begin(self) -> dict[str, object]:
        """Check the settings, and take the lease of the only rolling maintenance.

        :returns: a dict: changed, finished (False).
        :raises DroverError: a hook cannot be run, the play has no hypervisor, or another run is at
            work.
        """
        self._refuse_hooks()
        if not self.request.hosts:
            raise DroverError(
                f"No host of this play matches '{self.request.pattern}' but the controller, which"
                " cannot reboot itself. Put your hypervisors into the group hypervisors, or name"
                " another one with drover_hypervisors."
            )
        if not self.request.plan_only:
            self._ports.leasing.take(LEASE, PURPOSE, LEASE_SECONDS)
        return {"changed": self.request.restart and self._records.forget(), "finished": False}

    def plan(self, seen: Sequence[HostLook]) -> dict[str, object]:
        """Choose the hosts, form the batches, show the plan, and record the hosts.

        :returns: a dict: changed, plan, left_out [{host, reason}], work (False for a plan only),
            rounds (see rounds()).
        :raises DroverError: some hosts cannot take part, and ``blocked`` is FAIL. The lease is
            given back.
        """
        try:
            return self._plan(seen)
        except DroverError:
            with contextlib.suppress(DroverError):
                self._ports.leasing.release([LEASE])
            raise

    def _plan(self, seen: Sequence[HostLook]) -> dict[str, object]:
        records = self._records.read()
        if records:
            self._say(
                rolling_text.goes_on(self._records.begun(records), self._records.left(records))
            )
            records = self._as_they_are(records)
        todo, out = self._choose_hosts(seen, records)
        plan = self._batches(todo, records)
        left_out = plan["blocked"] + out
        for line in plan["lines"] if todo else [rolling_text.none_taken(len(seen), len(out))]:
            self._say(line)
        for line in self._own.sentences() if todo else ():
            self._say(line)
        if left_out and self.request.blocked == FAIL:
            raise DroverError(rolling_text.refusal(left_out))
        for line in said_once((each["host"], f"{each['host']}: {each['reason']}") for each in out):
            self._say(line)
        blocked = {each["host"] for each in plan["blocked"]}
        new = (
            []
            if self.request.plan_only
            else [host for host in todo if host not in blocked and host not in records]
        )
        self._records.write(new, {})
        return {
            "changed": bool(new),
            "plan": plan,
            "left_out": left_out,
            "work": not self.request.plan_only,
            "rounds": rounds(len(self._records.left(self._records.read()))),
        }

    def next(self) -> dict[str, object]:
        """Plan the next batch; begun hosts come first (rule S6).

        :returns: a dict: finished (no host is left), hosts of the batch, and their steps in order.
        :raises DroverError: no host that is left can be emptied.
        """
        records = self._records.read()
        remaining = self._records.left(records)
        if not remaining:
            return {"finished": True, "hosts": [], "steps": []}
        self._ports.leasing.take(LEASE, PURPOSE, LEASE_SECONDS)
        plan = self._batches(
            self._own_last(self._records.begun(records) or remaining, remaining), records
        )
        if not plan["batches"]:
            raise DroverError(
                ". ".join(f"{each['host']}: {each['reason']}" for each in plan["blocked"]) + "."
            )
        batch = plan["batches"][0]
        self._say(f"This batch: {', '.join(batch)}. {_waiting(len(remaining) - len(batch))}")
        steps = [
            step for step in STEPS if step.name not in HOOKS or step.name in self.request.hooks
        ]
        named_steps = [
            step._asdict()
            for step in steps
            if any(self._is_ahead(step, records[host]) for host in batch)
        ]
        return {"finished": False, "hosts": batch, "steps": named_steps}

    def close(self, batch: list[str]) -> dict[str, object]:
        """End a batch: check its hosts, bring their instances back, and record the hosts as done.

        :returns: a dict: changed.
        :raises DroverError: a host did not pass all steps, or an instance did not come back.
        """
        records = self._records.read()
        failed = [host for host in batch if host not in records or records[host]["stage"] != "back"]
        if failed:
            raise DroverError(f"{', '.join(failed)} did not come through; no other batch is begun.")
        if self.request.bring_back and batch:
            self._bring_back([each for host in batch for each in records[host]["instances"] or ()])
        return {"changed": self._records.write(batch, {"stage": "done", "message": ""})}

    def report(self, left_out: list[BlockedHost]) -> dict[str, object]:
        """Give the lease back, and report the state of the fleet.

        Delete the records if all hosts are done.

        :param left_out: as plan() returned it.
        :returns: a dict: report (finished, hosts [{host, stage, message, state, instances}],
            left_out), and message, the reason why it is not finished.
        """
        self._ports.leasing.release([LEASE])
        with self._store.read() as connection:
            rows = hosts.listing(
                connection, clock.now(connection), self.request.question.service_down_time
            )
        known = {each["host"]: each for each in rows}
        states = [
            rolling_text.host_state(record, known.get(name))
            for name, record in self._records.read().items()
        ]
        waiting = [each["host"] for each in states if each["stage"] != "done"]
        for line in rolling_text.lines(states, left_out):
            self._say(line)
        if not waiting:
            self._records.forget()
        report = {"finished": not waiting, "hosts": states, "left_out": left_out}
        return {"report": report, "message": rolling_text.unfinished(waiting) if waiting else ""}

    # The steps for each host

    def look(self, host: str) -> HostLook:
        """Read a host, and find out if it needs a reboot."""
        try:
            self._hosts.discover(host)
            need = self._need(host)
            return {"host": host, "unread": None, "needed": need.needed, "why": need.why}
        except DroverError as problem:
            reason = (
                str(problem.cause_of_it).strip()
                if isinstance(problem, Unreachable)
                else str(problem)
            )
            return {"host": host, "unread": reason, "needed": None, "why": ""}

    def step(self, host: str, name: str) -> dict[str, object]:
        """Begin a step of a host if it is due; do it, or return the work for the role.

        :returns: a dict: changed, and ``hook`` (a task file to run), ``power`` (startup or reboot)
            or ``undrain`` (True) for the role.
        """
        (step,) = (each for each in STEPS if each.name == name)
        records = self._records.read()
        _refuse_stranger(host, records)
        if not self._is_due(step, records[host]):
            return {"changed": False}
        if step.tasks == "hook":
            return {
                "changed": self._records.begin(host, step.stage),
                "hook": os.path.realpath(self.request.hooks[name]),
            }
        return getattr(self, f"_{name}")(host, records[host])

    def fail(self, host: str, task: str, message: str) -> dict[str, object]:
        """Record a failure; the host stays at its stage.

        :param task: the name of the task, may be empty.
        :param message: the message of the failure, may be empty.
        :returns: a dict: changed.
        """
        _refuse_stranger(host, self._records.read())
        text = f"{task or 'a task'}: {(message or 'the host was lost').strip()}"
        return {"changed": self._records.write([host], {"message": text})}

    def _is_ahead(self, step: RollingStep, record: RollingRecord) -> bool:
        """Return True if a host is at most at a step."""
        return rolling.STAGES.index(record["stage"]) <= rolling.STAGES.index(step.stage)

    def _is_due(self, step: RollingStep, record: RollingRecord) -> bool:
        """Return True if a step of a host is due, after the steps before it."""
        if step.name == "after_reboot" and record["stage"] != "after_reboot":
            # This hook runs only after a reboot. The record then has the id of the boot before it.
            return record["stage"] == "reboot" and bool(record["boot_id"])
        return self._is_ahead(step, record)

    def _disable(self, host: str, record: RollingRecord) -> dict[str, object]:
        with self._store.write() as connection:
            # Instances that an earlier run recorded belong to this host.
            drained = record["instances"] or [
                {"uuid": each["uuid"], "host": host, "node": each["node"]}
                for each in instances.listing(connection, host=host)
                if each["node"] is not None
            ]
            values = {"stage": "drain", "message": "", "instances": drained}
            changed = rolling.write(connection, host, values, self._ports.clock.time())
            before, after = host_state.change(
                connection, host, "draining", self.request.drain.reason
            )
        return {"changed": changed or before != after}

    def _drain(self, host: str, record: RollingRecord) -> dict[str, object]:
        result = Drain(self._ports, dataclasses.replace(self.request.drain, hosts=[host])).run()
        self._say(result["message"])
        return {"changed": result["changed"]}

    def _startup(self, host: str, record: RollingRecord) -> dict[str, object]:
        try:
            host_boot.boot_id(self._hosts, host)
        except Unreachable:
            return {"changed": False, "power": "startup"}
        return {"changed": False}

    def _reboot(self, host: str, record: RollingRecord) -> dict[str, object]:
        """Decide if a host must be rebooted.

        Only its boot id proves a reboot, not its answer (rule S14).
        """
        boot_id = host_boot.boot_id(self._hosts, host)
        if record["boot_id"] and record["boot_id"] != boot_id:
            # The host was rebooted, perhaps before another drain.
            return {"changed": self._records.begin(host, "reboot")}
        if self.request.reboot == NEVER or (
            self.request.reboot == NEEDED and not self._is_needed(host)
        ):
            # A begun reboot that is no longer wanted did not happen.
            return {"changed": self._records.write([host], {"boot_id": ""})}
        begun = self._records.begin(host, "reboot", boot_id=boot_id)
        if host in self._own.hosts():
            raise DroverError(rolling_text.reboot_by_hand(host, self._own.hosts()[host]))
        return {"changed": begun, "power": "reboot"}

    def _enable(self, host: str, record: RollingRecord) -> dict[str, object]:
        return {"changed": self._records.begin(host, "enable"), "undrain": True}

    def _back(self, host: str, record: RollingRecord) -> dict[str, object]:
        return {"changed": self._records.begin(host, "back")}

    # Parts of the steps

    def _refuse_hooks(self) -> None:
        for name, path in self.request.hooks.items():
            if name not in HOOKS:
                reason = f"but there is no such hook, only {', '.join(HOOKS)}"
            elif not isinstance(path, str):
                reason = "which is no path of a task file"
            elif not os.path.isfile(os.path.realpath(path)):
                reason = "which is no file on the controller"
            else:
                continue
            raise DroverError(
                f"drover_rolling_hooks: {name} is {path}, {reason}. Nothing was changed."
            )

    def _choose_hosts(
        self, seen: Sequence[HostLook], records: Records
    ) -> tuple[list[str], list[BlockedHost]]:
        """Return the hosts that take part, and those left out, each with the reason."""
        with self._store.read() as connection:
            drained = services.drained_hosts(connection)
        todo: list[str] = []
        out: list[BlockedHost] = []
        every = self.request.reboot != NEEDED or self.request.all_hosts
        for host_seen in seen:
            stage = records[host_seen["host"]]["stage"] if host_seen["host"] in records else None
            if stage == "done" or (
                stage is None
                and not (every or host_seen["unread"])
                and host_seen["needed"] is False
            ):
                continue
            reason = None
            if stage in (None, "waiting"):
                if host_seen["unread"]:
                    reason = f"it cannot be read: {host_seen['unread']}"
                elif host_seen["needed"] is None and self.request.reboot == NEEDED:
                    reason = _unknown(host_seen["why"])
                elif host_seen["host"] in drained:
                    reason = (
                        "it is drained already, not by this maintenance; bring it back first"
                        " (drover.compute.undrain)"
                    )
            if reason is None:
                todo.append(host_seen["host"])
            else:
                out.append({"host": host_seen["host"], "reason": reason})
        return todo, out

    def _as_they_are(self, records: Records) -> Records:
        """Return hosts that are no longer drained to their drain.

        A record of an earlier run is not a state.

        :raises DroverError: a person has drained a host again after its return.
        """
        updated = dict(records)
        begun = self._records.begun(records)
        self._refuse_drained(
            {host: records[host]["stage"] for host in begun if records[host]["stage"] in ENABLED}
        )
        for host in begun:
            if records[host]["stage"] not in EMPTIED:
                continue
            reason = self._why_not_drained(host)
            if reason is None:
                continue
            self._say(f"{host}: it is drained again, as {reason} since its drain.")
            updated[host] = {**records[host], "stage": "drain"}
            if not self.request.plan_only:
                self._records.begin(host, "drain")
        return updated

    def _refuse_drained(self, stages: Mapping[str, str]) -> None:
        """Refuse hosts that were brought back and are drained again.

        :param stages: the stages by host.
        """
        if not stages:
            return
        with self._store.read() as connection:
            drained = set(services.drained_hosts(connection))
        host = next((each for each in stages if each in drained), None)
        if host is not None:
            raise DroverError(
                f"{host}: this maintenance had brought it back (stage {stages[host]}), and somebody"
                " has drained it since. Nothing was done. Bring it back (drover.compute.undrain),"
                " and run this again; or leave it out with --limit for as long as it is to stay"
                " drained."
            )

    def _why_not_drained(self, host: str) -> str | None:
        with self._store.read() as connection:
            if host not in services.drained_hosts(connection):
                return "it was brought back"
            there = occupancy.occupants(connection, host)
        names = [each["name"] for each in (*there["running"], *there["arriving"])]
        return f"{some(names)} came there" if names else None

    def _batches(self, wanted: Sequence[str], records: Records) -> RollingPlan:
        # At these stages only instances that are off may still be on the host.
        empty = [
            host for host, record in records.items() if record["stage"] in (*EMPTIED, *BROUGHT_BACK)
        ]
        with self._store.read() as connection:
            return self.request.question.plan(connection, wanted, empty)

    def _own_last(self, hosts: Sequence[str], left: Sequence[str]) -> Sequence[str]:
        """Return the hosts without the run's own machines, as long as others are left."""
        own = self._own.hosts()
        return (
            [host for host in hosts if host not in own]
            or [host for host in left if host not in own]
            or hosts
        )

    def _bring_back(self, homes: Sequence[Home]) -> None:
        question, moves = self.request.question, self.request.drain.moves
        homes_by_uuid, staged = (
            {each["uuid"]: (each["host"], each["node"]) for each in homes},
            StagedMoves(self._ports, moves),
        )
        with self._store.read() as connection:
            left_open = {
                row.source for row in open_moves(connection) if row.instance_uuid in homes_by_uuid
            }
        for source in sorted(left_open):
            # An earlier run had begun their return.
            staged.settle(source)
        own = self._own.guests()
        with self._store.read() as connection:
            plan = plan_home(
                connection,
                homes_by_uuid,
                question.policy,
                moves.limits.per_source,
                question.service_down_time,
                own,
            )
        for line in plan["lines"]:
            self._say(line)
        moved = staged.run(plan["moves"], "bringing instances back")
        away = [each["name"] for each in moved.failed] + [each["name"] for each in moved.skipped]
        if away:
            said = " ".join(each["message"] for each in moved.failed if each["message"])
            raise DroverError(f"{', '.join(away)} did not come back: {said}")

    def _need(self, host: str) -> host_boot.Need:
        return host_boot.needs_reboot(self._hosts, host, self.request.sentinels)

    def _is_needed(self, host: str) -> bool:
        """Return True if a host needs a reboot after its hook.

        :raises DroverError: the need is not known; the host stays in maintenance.
        """
        need = self._need(host)
        if need.needed is None:
            raise DroverError(f"Host {host}: {_unknown(need.why)}.")
        return need.needed


def _unknown(why: str) -> str:
    return (
        f"it cannot be told whether it needs a reboot: {why}. Set drover_reboot_sentinel to a file"
        " that asks for one, or use drover_rolling_reboot=always"
    )


def _refuse_stranger(host: str, records: Records) -> None:
    if host not in records:
        raise DroverError(
            f"{host} is in no rolling maintenance, so nothing was done there. Run"
            " drover.compute.rolling_maintenance."
        )


def rounds(count: int) -> list[list[int]]:
    """Return numbers of rounds in groups, enough for batches of one host each.

    The number of groups is about the number of rounds in a group. Ansible makes the tasks of all
    items of a loop for each host before it begins the first item. Groups keep that to the items of
    one group.

    :param count: the number of hosts that are left.
    """
    size = math.isqrt(count) + 1
    return [list(range(first, min(first + size, count + 1))) for first in range(1, count + 1, size)]


def _waiting(count: int) -> str:
    return "1 host waits." if count == 1 else f"{count} hosts wait."
