# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drain of a storage pool.

Every disk in it moves to another pool of its host, by disk_move.DiskMoveOrder.

The order is the same as in the drain of a host: settle the moves of an earlier run, read the hosts,
plan, show the plan, close the pool for new disks, move, and check with the reports of the hosts
that the pool is empty. After a killed run, another run continues.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from .._common.errors import DroverError, RunOver, UncertainOrder, natural
from .._placement import pool_drains
from .._planner import pool_drain as planner
from .._planner.pool_drain import DiskKey, PoolMove, UnmovableDisk
from .._report import pool_drain as report
from .._store.hosts import continuity
from .._store.hosts.compute_nodes import DEFAULT_URI
from . import drained_pools, pool_proof
from .disk_move import DiskMoveOrder, DiskMoveRequest, Steps
from .disk_settling import DiskSettling
from .drained_pools import Contents, HostPool
from .ports import Ports

#: Seconds that one call waits for a copy while others run.
TURN = 2


@dataclasses.dataclass(frozen=True)
class PoolDrainRequest:
    """The request of the operator.

    - pool: the name of the pool.
    - hosts: the hosts with the pool; if empty, all hosts that have one.
    - destination: the only pool that disks may go to, or None.
    - reason: the reason in words.
    - skip: move the other disks if some disks cannot move.
    - plan_only: change nothing.
    - limit: disks of one host that are copied at a time.
    - rounds: the maximum number of times to plan and move.
    - options: of migrations; disk_move.DiskMoveRequest says which of them count.
    """

    pool: str
    hosts: Sequence[str]
    destination: str | None = None
    reason: str = "drained by drover.compute"
    skip: bool = False
    plan_only: bool = False
    limit: int = 2
    rounds: int = 3
    options: Mapping[str, object] = dataclasses.field(default_factory=dict)


class MovedDisk(TypedDict):
    """A move that was tried."""

    uuid: str
    name: str
    disk: str
    host: str
    source: str
    destination: str | None
    status: Literal["moved", "failed"]
    message: str


class PoolDrain:
    """One run of a drain of a pool."""

    def __init__(self, ports: Ports, request: PoolDrainRequest) -> None:
        self._ports, self.request = ports, request
        self._store, self._hosts, self._leasing, self._say = (
            ports.store,
            ports.hosts,
            ports.leasing,
            ports.say,
        )
        #: The reasons why a disk cannot go to a pool, by the name of the pool.
        self._refused: dict[DiskKey, dict[str, str]] = {}
        #: Pairs of a disk and a pool; a hypervisor has foretold that this move is possible.
        self._foretold: set[tuple[DiskKey, str]] = set()
        #: The moves that were tried.
        self.disks: list[MovedDisk] = []
        #: The disks and files that cannot move: dicts uuid, name, disk (None for another file),
        #: host, reason, way_out.
        self.staying: list[dict[str, object]] = []
        self.moves: list[PoolMove] = []
        self.plan: dict[str, object] = {}
        self._lines: list[str] = []
        self.kept: list[dict[str, object]] = []
        self.changed = False
        #: The value of ``changed`` that a plan foresees.
        self.would_change = False

    def run(self) -> dict[str, object]:
        """Drain the pool.

        :returns: a dict: changed, pool, hosts, plan, disks, staying, kept, message.
        :raises DroverError: the pool could not be emptied; finished moves stay. Its details have
            the same keys.
        """
        if self.request.destination == self.request.pool:
            raise DroverError(
                f"drover_destination_pool is {self.request.pool}, the pool that is to be emptied."
                " Nothing was done: name another one, or leave it out."
            )
        pools = self._find_pools()
        hosts = _hosts(pools)
        try:
            if self.request.plan_only:
                self._look_and_plan(hosts)
                self._refuse_unmovable()
                places = drained_pools.places_of(pools)
                with self._store.read() as connection:
                    self.would_change = bool(self.moves) or len(
                        pool_drains.reasons(connection, places)
                    ) < len(places)
                return self._result(
                    pools,
                    "planned",
                    "Nothing was changed: this is the plan of a drain of the storage pool"
                    f" {self.request.pool}.",
                )
            with self._leasing.held(hosts, f"drain of the storage pool {self.request.pool}"):
                return self._carry_out(hosts)
        except DroverError as problem:
            ended = {
                "disks": self.disks,
                "staying": self.staying,
                "plan": self.plan,
                "kept": self.kept,
            }
            problem.details.update(
                {key: value for key, value in ended.items() if key not in problem.details}
            )
            problem.details.setdefault(
                "hosts", [{"host": host, "status": "failed", "message": ""} for host in hosts]
            )
            raise

    def _find_pools(self) -> list[HostPool]:
        with self._store.read() as connection:
            pools = drained_pools.find(connection, self.request.pool, self.request.hosts)
            if any(each.shared_id for each in pools):
                # A host that was not read may have the pool too, with disks in it.
                refused = f"The storage pool {self.request.pool} is not drained"
                continuity.refuse_unread(
                    connection,
                    refused,
                    self._hosts.names(),
                    "whether it has disks there is",
                    later=True,
                )
            return pools

    def _carry_out(self, hosts: Sequence[str]) -> dict[str, object]:
        settling = DiskSettling(self._ports, self.request.options)
        for host in hosts:
            self.changed |= settling.settle(host, self.request.pool)
        pools = self._look_and_plan(hosts)
        self._refuse_unmovable()
        with self._store.write() as connection:
            for host in hosts:
                self._leasing.renew(connection, host)
            self.changed |= pool_drains.begin(
                connection, drained_pools.places_of(pools), self.request.reason
            )
        # Disks that came before the pool was closed are not in the plan; later rounds move them.
        for _round in range(self.request.rounds):
            failed = self._move_disks()
            pools = self._look_and_plan(hosts, show=False)
            if not self.moves and not failed:
                break
            for line in self._lines if self.moves else ():
                self._say(line)
        return self._verify(pools)

    # -- the plan ----------------------------------------------------------------------------------

    def _look_and_plan(self, hosts: Sequence[str], show: bool = True) -> list[HostPool]:
        """Read the hosts, and plan from their reports.

        Repeat the plan without the destinations that a hypervisor refuses.
        """
        for host in hosts:
            self._hosts.discover(host)
        pools = self._find_pools()
        drained_pools.refuse_stopped(pools)
        with self._store.read() as connection:
            contents = Contents(connection, pools)
        while True:
            self.moves, unmovable = planner.plan(
                contents.disks,
                contents.spaces,
                contents.taken,
                self.request.destination,
                self._refused,
            )
            if not self._precheck_moves(contents):
                break
        self.staying = [_staying(each) for each in unmovable]
        self.staying += [each._asdict() for each in contents.others]
        off = {each.uuid for each in contents.domains if each.state in ("shutoff", "crashed")}
        shown = [_describe_move(each, each.disk.uuid not in off) for each in self.moves]
        self._lines = report.lines(self.request.pool, hosts, shown, self.staying)
        self.plan = {
            "pool": self.request.pool,
            "hosts": list(hosts),
            "moves": shown,
            "unmovable": self.staying,
            "lines": self._lines,
        }
        for line in self._lines if show else ():
            self._say(line)
        return pools

    def _precheck_moves(self, contents: Contents) -> bool:
        """Let the hypervisors foretell the new moves. Return True if one is refused."""
        refused = False
        for move in self.moves:
            if (move.disk.key, move.space.name) in self._foretold:
                continue
            disk, node = move.disk, contents.nodes[move.disk.node]
            options = {
                "uuid": disk.uuid,
                "target": disk.target,
                "pool": move.space.destination,
                "whole": disk.whole,
            }
            answer = self._hosts.hand(disk.host).foretell(
                "_domain_disk_move", {"uri": node.uri or DEFAULT_URI, **options}
            )
            if answer.get("failed"):
                self._refused.setdefault(disk.key, {})[move.space.name] = str(answer.get("msg"))
                refused = True
            else:
                self._foretold.add((disk.key, move.space.name))
        return refused

    def _refuse_unmovable(self) -> None:
        if self.staying and not self.request.skip:
            raise DroverError(
                report.cannot_move(self.request.pool, self.staying), changed=self.changed
            )

    # -- the moves ---------------------------------------------------------------------------------

    def _move_disks(self) -> bool:
        """Make the moves of the plan, a limited number at a time on each host.

        Return True if one failed.
        """
        waiting, running = list(self.moves), list[tuple[PoolMove, Steps]]()
        failed = False
        while waiting or running:
            with self._store.write() as connection:
                self._leasing.renew(connection, self.moves[0].disk.host)
            for move in list(waiting):
                beside = [each.disk for each, _steps in running]
                # An instance has one order at a time.
                if any(each.uuid == move.disk.uuid for each in beside):
                    continue
                if sum(each.host == move.disk.host for each in beside) < self.request.limit:
                    waiting.remove(move)
                    self._say(
                        f"{move.disk.name}: {move.disk.target} to {move.space.name} on"
                        f" {move.disk.host}, started"
                    )
                    running.append((move, self._steps(move)))
            for step in list(running):
                ended = self._advance(*step)
                if ended is not None:
                    running.remove(step)
                    failed |= ended["status"] == "failed"
        return failed

    def _steps(self, move: PoolMove) -> Steps:
        disk = move.disk
        request = DiskMoveRequest(
            disk.uuid,
            disk.target,
            move.space.destination,
            self.request.options,
            False,
            disk.whole,
            TURN if len(self.moves) > 1 else None,
        )
        return DiskMoveOrder(self._ports, request).steps()

    def _advance(self, move: PoolMove, steps: Steps) -> MovedDisk | None:
        """Make the next step of a move.

        :returns: the result of the move; None while it is under way.
        """
        disk = move.disk
        outcome: MovedDisk = {
            "uuid": disk.uuid,
            "name": disk.name,
            "disk": disk.target,
            "host": disk.host,
            "source": disk.source,
            "destination": None,
            "status": "failed",
            "message": "",
        }
        try:
            next(steps)
            return None
        except StopIteration as end:
            result = end.value
            self.changed |= bool(result["changed"])
            outcome["destination"], outcome["status"] = result["destination"], "moved"
            self.kept += [{**each, "host": disk.host} for each in result.get("kept") or ()]
            self._say(
                f"{disk.name}: {disk.target} is {result['destination']} now [{self._count_moved() + 1} of"
                f" {len(self.moves)}]"
            )
        except RunOver:
            raise
        except DroverError as problem:
            outcome["message"] = str(problem)
            if not isinstance(problem, UncertainOrder):
                self._refused.setdefault(disk.key, {})[move.space.name] = str(problem)
            self._say(str(problem))
        self.disks.append(outcome)
        return outcome

    def _count_moved(self) -> int:
        planned = {move.disk.key for move in self.moves}
        return sum(
            each["status"] == "moved" and (each["uuid"], each["disk"]) in planned
            for each in self.disks
        )

    # -- the proof ---------------------------------------------------------------------------------

    def _verify(self, pools: Sequence[HostPool]) -> dict[str, object]:
        """Check with the lists of its hosts that the pool is empty.

        :raises DroverError: it is not empty, or that is not known.
        """
        with self._store.read() as connection:
            contents = Contents(connection, pools)
        sentences = list(
            dict.fromkeys(
                each["message"]
                for each in self.disks
                if each["status"] == "failed" and not self._has_moved(each)
            )
        )
        sentences += [report.named_reason(each) for each in self.staying]
        ends, problems = [], []
        for remaining in pool_proof.look(self._ports, contents, pools):
            name, host = remaining.pool.name, remaining.pool.node.host
            if remaining.is_empty:
                known = {each["path"] for each in self.kept if each["host"] == host}
                self.kept += [
                    {**each, "host": host} for each in remaining.others if each["path"] not in known
                ]
                message = report.ending(name, host, remaining.others)
            else:
                message = report.not_empty(
                    name, host, remaining.needed, remaining.doubts, sentences
                )
                problems.append(message)
            ends.append(
                {
                    "host": host,
                    "status": "empty" if remaining.is_empty else "failed",
                    "message": message,
                }
            )
        if problems:
            raise DroverError(" ".join(problems), hosts=ends, changed=self.changed)
        return {
            **self._result(pools, "empty", " ".join(each["message"] for each in ends)),
            "hosts": ends,
        }

    def _has_moved(self, failed: MovedDisk) -> bool:
        return any(
            each["status"] == "moved"
            and (each["uuid"], each["disk"]) == (failed["uuid"], failed["disk"])
            for each in self.disks
        )

    def _result(self, pools: Sequence[HostPool], status: str, message: str) -> dict[str, object]:
        return {
            "changed": self.changed,
            "pool": self.request.pool,
            "hosts": [
                {"host": host, "status": status, "message": message} for host in _hosts(pools)
            ],
            "plan": self.plan,
            "disks": self.disks,
            "staying": self.staying,
            "kept": self.kept,
            "message": message,
        }


def _hosts(pools: Sequence[HostPool]) -> list[str]:
    return sorted({each.node.host for each in pools}, key=natural)


def _describe_move(move: PoolMove, live: bool) -> dict[str, object]:
    disk = move.disk
    return {
        "uuid": disk.uuid,
        "name": disk.name,
        "disk": disk.target,
        "host": disk.host,
        "source": disk.source,
        "size": disk.size,
        "pool": move.space.name,
        "folder": move.space.destination if os.path.isabs(move.space.destination) else None,
        "live": live,
    }


def _staying(each: UnmovableDisk) -> dict[str, object]:
    disk = each.disk
    return {
        "uuid": disk.uuid,
        "name": disk.name,
        "disk": disk.target,
        "host": disk.host,
        "reason": each.reason,
        "way_out": each.way_out,
    }
