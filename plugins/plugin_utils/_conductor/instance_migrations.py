# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The migration of single instances: its order, from open moves to the last confirmation.

A running or paused instance moves live, and an instance that is off moves cold, host after host. An
instance that is shut down for its move is resized to its own size on another host
(conductor.resize).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypedDict

from .._common.errors import DroverError, TimeOver, as_sentence
from .._planner import movability
from .._records.instances import HeldMigration, MovePolicy, NamedInstance
from .._records.outcomes import MoveOutcome, PrecheckReport
from .._records.plans import Move
from .._store.database import clock
from .._store.hosts import continuity
from .._store.instances import instance_lookup
from .._store.instances.migrations_open import EVACUATION, RESIZE
from .host_moves import HostMoves
from .ports import Ports
from .resize import CONFIRM, Difference, ResizeRequest, ResizeRun
from .resize_destination import request
from .scheduling import decide
from .settings import MoveSettings, ResizeSettings


@dataclasses.dataclass(frozen=True)
class InstanceMigrationRequest:
    """The request of the operator.

    - instances: names, uuids, or mappings of both.
    - settings: for the instances that are shut down for their move.
    - host: the destination; None to let the scheduler choose one.
    - cold: shut down the running instances.
    """

    instances: Sequence[Any]
    moves: MoveSettings
    settings: ResizeSettings
    host: str | None = None
    cold: bool = False


class PolicyOnMove(TypedDict):
    """The policy of an instance on its migration.

    - moves_cold: it is shut down for the move.
    - kept_by_policy: None, or the reason why it stays.
    """

    moves_cold: bool
    kept_by_policy: str | None


def by_policy(instance: NamedInstance) -> PolicyOnMove:
    """Return the policy of an instance on its migration."""
    policy, state = instance["policy"] or MovePolicy(), instance["state"]
    move = policy.get("move")
    return {
        "moves_cold": move == "cold" and state in movability.LIVE_STATES,
        "kept_by_policy": movability.why_policy_keeps(move, policy.get("error"), state),
    }


class InstanceMigrations:
    """One run of the migrations of single instances."""

    def __init__(self, ports: Ports, wanted: InstanceMigrationRequest) -> None:
        self._ports, self._store, self._request, self._settings = (
            ports,
            ports.store,
            wanted,
            wanted.settings,
        )
        self._colds = ResizeRun(
            ports, ResizeRequest([], wanted.settings, ending=CONFIRM, host=wanted.host)
        )
        #: The failures, as sentences.
        self.failed: list[str] = []
        #: The moves of this run.
        self.migrations: list[MoveOutcome] = []
        self.changed = False

    @property
    def differences(self) -> list[Difference]:
        """Return the changes of the instances that were shut down for their move."""
        return self._colds.differences

    def run(self) -> dict[str, object]:
        """Migrate the instances.

        :returns: a dict: changed, migrations, resizes (of instances that were shut down for their
            move).
        :raises DroverError: an instance was not moved, but the others were; or one fits nowhere,
            and none was moved.
        """
        instance_lookup.refuse_none(self._request.instances)
        instances = self._end_open(self._find_instances())
        moving = self._sort_out(instances)
        stopping = {each["uuid"]: each for each in moving if self._is_to_stop(each)}
        self._move_instances([each for each in moving if each["uuid"] not in stopping])
        # A killed run may have left a resize unfinished.
        colds = [
            each
            for each in instances
            if each["migration"] is not None and each["migration"]["type"] == RESIZE
        ] + list(stopping.values())
        self._colds.resize(colds)
        if not self._settings.check_mode:
            self._colds.end(colds)
        return self._result()

    def _find_instances(self) -> list[NamedInstance]:
        with self._store.read() as connection:
            return instance_lookup.find(connection, self._request.instances)

    def _end_open(self, instances: list[NamedInstance]) -> list[NamedInstance]:
        """End the moves that an earlier run left open.

        :returns: the instances in their state afterwards.
        """
        unended = [move for move in map(_move_of, instances) if move is not None]
        if not unended:
            return instances
        problems = {}
        if not self._settings.check_mode:
            for source in sorted(
                {each["source"] for each in unended if each["type"] != EVACUATION}
            ):
                try:
                    self.changed |= bool(self._of_host(source).carry_out(begin=False))
                except DroverError as problem:
                    problems[source] = str(problem)
        instances = self._find_instances()
        for instance in instances:
            migration = _move_of(instance)
            if migration is not None and not self._settings.check_mode:
                back = (
                    f"Run drover.compute.evacuate of {migration['source']} again, or, if that host"
                    " answers, drover.compute.undrain."
                )
                advice = problems.get(migration["source"]) or back
                self.failed.append(
                    f"Instance {instance['name']} is not moved: its {migration['type']} from"
                    f" {migration['source']} to {migration['destination']} is not ended. {advice}"
                )
        return instances

    def _of_host(self, host: str) -> HostMoves:
        return HostMoves(self._ports, host, self._request.moves)

    def _sort_out(self, instances: list[NamedInstance]) -> list[NamedInstance]:
        """Return the instances that move.

        Keep one that its policy keeps, unless the operator overrides it.
        """
        moving = []
        for instance in instances:
            if instance["migration"] is not None:
                continue
            if instance["host"] is None or instance["node"] is None:
                self.failed.append(
                    f"Instance {instance['name']} is on no host that the store knows, so it is not"
                    " moved: run drover.compute.discover."
                )
                continue
            if instance["host"] == self._request.host:
                self._ports.say(
                    f"{instance['name']}: it is on {instance['host']} already, so it is not moved."
                )
                continue
            kept = None if self._settings.despite_policy else by_policy(instance)["kept_by_policy"]
            if kept is None:
                try:
                    self._refuse_unread(instance)
                except DroverError as problem:
                    self.failed.append(str(problem))
                else:
                    moving.append(instance)
            else:
                self.failed.append(
                    f"Instance {instance['name']} is not moved from {instance['host']}:"
                    f" {as_sentence(kept)} Change its policy, or move it despite that with"
                    " drover_despite_policy=true."
                )
        return moving

    def _refuse_unread(self, instance: NamedInstance) -> None:
        """Refuse a cold move while an unread host may run the instance.

        Then the definition here would be an old one. A live move is not refused, because its host
        makes it only with a guest that runs there.
        """
        if instance["state"] == "shutoff" or self._is_to_stop(instance):
            with self._store.read() as connection:
                refused = f"Instance {instance['name']}: It is not moved"
                continuity.refuse_unread(
                    connection, refused, self._ports.hosts.names(), continuity.RUNNING
                )

    def _is_to_stop(self, instance: NamedInstance) -> bool:
        if self._request.cold:
            return instance["state"] != "shutoff"
        return not self._settings.despite_policy and by_policy(instance)["moves_cold"]

    def _move_instances(self, instances: list[NamedInstance]) -> None:
        """Find places for all instances in one batch, and move them host by host.

        A failure at one host stops no other.
        """
        moves = self._find_destinations(instances)
        for source in dict.fromkeys(move["from_host"] for move in moves):
            try:
                self._move_off(source, [move for move in moves if move["from_host"] == source])
            except TimeOver:
                raise
            except DroverError as problem:
                self.migrations += problem.details.get("migrations") or []
                self.failed.append(str(problem))

    def _move_off(self, source: str, moves: list[Move]) -> None:
        failed: Sequence[MoveOutcome | PrecheckReport]
        if self._settings.check_mode:
            reports = self._of_host(source).check(moves)
            failed = [each for each in reports if not each["ok"]]
            lives = {move["uuid"]: move["live"] for move in moves}
            for report in reports:
                if report["ok"]:
                    copies = (
                        f", and copy {report['copies_disk_mib']} MiB of its disks"
                        if report["copies_disk_mib"]
                        else ""
                    )
                    how = "live" if lives[report["uuid"]] else "cold"
                    self._ports.say(
                        f"{report['name']}: would move {how} from {source} to"
                        f" {report['destination']}{copies}."
                    )
            self.changed |= bool(reports)
        else:
            outcomes = self._of_host(source).carry_out(moves)
            failed = [each for each in outcomes if each["status"] != "completed"]
            self.migrations += outcomes
            self.changed |= bool(outcomes)
        to = {move["uuid"]: move["host"] for move in moves}
        self.failed += [
            f"{each['name']} did not move from {source} to {to.get(each['uuid'])}:"
            f" {each['message']}"
            for each in failed
        ]

    def _find_destinations(self, instances: list[NamedInstance]) -> list[Move]:
        """Find destinations for instances, all in one batch.

        :raises DroverError: an instance fits nowhere.
        """
        host = self._request.host
        with self._store.read() as connection:
            requests = [
                {
                    **request(connection, each),
                    **({"host": host} if host else {"ignore_hosts": [each["host"]]}),
                }
                for each in instances
            ]
            try:
                places = decide(
                    connection,
                    requests,
                    self._settings.policy,
                    clock.now(connection),
                    self._settings.service_down_time,
                    explain=False,
                )
            except DroverError as problem:
                raise DroverError(" ".join([*self.failed, str(problem)])) from None
        place_of = {each["uuid"]: each for each in places}
        return [
            {
                "uuid": each["uuid"],
                "name": each["name"],
                "from_host": each["host"],
                "from_node": each["node"],
                "host": place_of[each["uuid"]]["host"],
                "node": place_of[each["uuid"]]["node"],
                "live": each["state"] != "shutoff",
            }
            for each in instances
            if each["host"] is not None and each["node"] is not None
        ]

    def _result(self) -> dict[str, object]:
        result = {
            "changed": self.changed or self._colds.changed,
            "migrations": self.migrations,
            "resizes": list(self._colds.resizes.values()),
        }
        failed = self.failed + self._colds.failed
        if failed:
            raise DroverError(" ".join(failed), **result)
        return result


def _move_of(instance: NamedInstance) -> HeldMigration | None:
    """Return the open migration of an instance, unless it is a resize."""
    migration = instance["migration"]
    return migration if migration is not None and migration["type"] != RESIZE else None
