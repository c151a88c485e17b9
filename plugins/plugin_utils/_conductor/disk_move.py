# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The move of a disk of an instance to another storage of its host.

The order and the new file are in the store before the hypervisor gets the order. The hypervisor
makes one step at each call, and has its own record of the move. The order is closed when the host
reports that nothing of the move is unfinished. Until then the next run continues it.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from ansible_collections.drover.compute.plugins.module_utils._domain.facts import DomainDisk
from ansible_collections.drover.compute.plugins.module_utils._migration import (
    options as move_options,
)
from ansible_collections.drover.compute.plugins.module_utils._ownership import move_record

from .._common import certainty
from .._common.errors import DroverError, UncertainOrder
from .._migrations.options import MigrationOptions
from .._records.domains import ReportedDomain
from .._records.instances import Disk, NamedInstance
from .._store.database import bulk
from .._store.engine import Connection
from .._store.hosts import continuity
from .._store.instances import orders
from .._store.runs import leases
from .._tracker import record_device
from . import used_files
from .instance_order import InstanceOrder, named_domain, refuse_moved, sentence_of
from .ports import Hand, Ports
from .under_way import COPIES

#: Seconds that one call waits for the copy; that a call waits for one of another run; that a run
#: holds its lease beyond the time limit of the move.
STEP, PATIENCE, SPARE = 10, 60, 300
#: Seconds that a look at other hosts stays valid. The old file is removed after the copy, so
#: the look must be recent at its end.
COUNTS = 60
#: The answers of the module _domain_disk_move: during the copy, when the guest can be switched to
#: the copy, and after an abort.
COPYING, READY, ABORTED = "copying", "ready", "aborted"

NOT_DONE = "No disk is moved"
GIB = 2**30


class DiskMoveRequest(NamedTuple):
    """The request to move a disk.

    - instance: its name or uuid.
    - disk: its target, such as vda.
    - pool: a storage pool of the host, or the absolute path of a folder; empty for an abort.
    - options: the options of migrations; timeout_per_gib and bandwidth_mib count here.
    - abort: give up an unfinished move.
    - whole: make a copy that has no backing image.
    - wait: seconds that one call waits for the copy; by default STEP.
    """

    instance: str
    disk: str
    pool: str
    options: Mapping[str, object]
    abort: bool
    whole: bool = False
    wait: int | None = None


#: A move step by step; it returns the result at its end.
Steps = Generator[None, None, dict[str, Any]]


class DiskMoveOrder(InstanceOrder):
    """A run that moves one disk of one instance."""

    def __init__(self, ports: Ports, request: DiskMoveRequest, check_mode: bool = False) -> None:
        super().__init__(ports, check_mode)
        self._request, self._under_way = request, ports.under_way
        self._options = move_record.Options()

    def run(self) -> dict[str, object]:
        """Make all steps, see steps()."""
        steps = self.steps()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return dict(end.value)

    def steps(self) -> Steps:
        """Make the move in steps.

        Between two steps, while the host copies, the caller may do other work.

        :returns: a dict: changed, host, uuid, name, and status, source, destination, seconds,
            removed, kept, device and diff of the module _domain_disk_move.
        :raises DroverError: the move is refused, it failed, or its result is not certain.
        """
        self._options = self._checked_options()
        instance = self._find_instance()
        host = self._host(instance)
        if self._request.abort:
            result = self._abort(instance, host)
        else:
            with self._lease(host, "moving a disk"):
                instance = self._find_instance()
                refuse_moved(instance, host, "Nothing was done")
                result = yield from self._move_disk(instance, host)
        shown = (
            "changed",
            "status",
            "source",
            "destination",
            "seconds",
            "removed",
            "kept",
            "device",
            "diff",
        )
        outcome: dict[str, object] = {
            "host": host,
            "uuid": instance["uuid"],
            "name": instance["name"],
        }
        for each in result.get("kept") or []:
            self._say(
                f"{instance['name']}: the file {each['path']} on {host} stays: {each['reason']}."
            )
        return {**outcome, **{key: value for key, value in result.items() if key in shown}}

    def _checked_options(self) -> move_record.Options:
        try:
            return MigrationOptions(self._request.options).of(
                {"uuid": "", "name": self._request.instance}
            )
        except DroverError as problem:
            raise DroverError(f"{NOT_DONE}, because of drover_migration: {problem}") from problem

    def _find_instance(self) -> NamedInstance:
        return self._instance_with_domain(self._request.instance, NOT_DONE, orders.MOVING_DISK)

    @staticmethod
    def _host(instance: NamedInstance) -> str:
        # refuse() has refused an instance without a host.
        return instance["host"] or ""

    def _module_arguments(self, instance: NamedInstance) -> dict[str, object]:
        return {**named_domain(instance), "target": self._request.disk}

    # -- the move --------------------------------------------------------------------------------

    def _move_disk(self, instance: NamedInstance, host: str) -> Steps:
        hand, uuid = self._hosts.hand(host), instance["uuid"]
        earlier = instance["order_uuid"] if instance["task_state"] in orders.MOVING_DISKS else None
        if earlier is not None and not self._check_mode:
            # First withdraw the order of the earlier run, so that nothing of it can begin any more.
            self._withdraw_order(hand, instance, earlier)
        options = {
            **self._module_arguments(instance),
            "pool": self._request.pool,
            "wait": STEP if self._request.wait is None else self._request.wait,
            "whole": self._request.whole,
        }
        foreseen = hand.foretell("_domain_disk_move", options)
        if foreseen.get("failed"):
            self._fail_refused(instance, host, hand, earlier, foreseen)
        if not foreseen["changed"] and earlier is None:
            return foreseen
        names = _new_paths(foreseen)
        with self._store.read() as connection:
            continuity.refuse_unread(
                connection, f"Instance {instance['name']}: {NOT_DONE}", self._hosts.names()
            )
            self._refuse_used(connection, instance, names, foreseen["device"])
        options["used_elsewhere"] = self._removing.look(uuid, host, _both(foreseen))
        limit = self._limit(foreseen.get("device"))
        options.update(
            timeout=limit, bandwidth_mib=self._options.get("bandwidth_mib"), looked_up=names
        )
        order = bulk.new_uuid()
        with self._store.write() as connection:
            # An earlier run may have switched it over.
            switching = instance["task_state"] == orders.SWITCHING_DISK
            orders.begin(
                connection,
                uuid,
                orders.SWITCHING_DISK if switching else orders.MOVING_DISK,
                order,
                instead_of=earlier,
            )
            # From now on no other run gets the file.
            self._refuse_used(connection, instance, names, foreseen["device"])
            record_device.claim(connection, uuid, host, foreseen["domain"], self._clock.time())
        if self._check_mode:
            return foreseen
        self._leasing.extend(host, limit + SPARE)
        with self._under_way.known(COPIES, lambda: [instance["name"]]):
            return (
                yield from self._follow_steps(
                    instance, host, hand, order, {**options, "order": order}, limit
                )
            )

    def _follow_steps(
        self,
        instance: NamedInstance,
        host: str,
        hand: Hand,
        order: str,
        given: dict[str, object],
        limit: int,
    ) -> Steps:
        """Order step after step from the host, until the disk is in its new place."""
        deadline, looked_at, shown = self._clock.monotonic() + limit, self._clock.monotonic(), None
        # The old file has all data until the guest is switched over. The store must have that fact
        # in case the host dies.
        answer = hand.act("_domain_disk_move", {**given, "hold": True})
        while answer.outcome == certainty.DONE and answer.result["status"] in (COPYING, READY):
            if answer.result["status"] == READY:
                with self._store.write() as connection:
                    orders.begin(connection, instance["uuid"], orders.SWITCHING_DISK, order)
                answer = hand.act("_domain_disk_move", {**given, "goes_on": True})
                continue
            if self._clock.monotonic() > deadline:
                return self._too_late(instance, host, hand, order, limit)
            percent = answer.result.get("percent")
            if percent != shown:
                shown = percent
                self._say(
                    f"{instance['name']}: {self._request.disk} is copied to"
                    f" {answer.result['destination']}, {percent} %."
                )
            yield
            if self._clock.monotonic() - looked_at > COUNTS:
                looked_at = self._clock.monotonic()
                given["used_elsewhere"] = self._removing.look(
                    instance["uuid"], host, _both(answer.result)
                )
            answer = hand.act("_domain_disk_move", {**given, "goes_on": True, "hold": True})
        if answer.outcome == certainty.DONE:
            self._close(instance, host, order, answer.result["domain"])
            return answer.result
        self._failed(instance, host, hand, order, answer)

    def _too_late(
        self, instance: NamedInstance, host: str, hand: Hand, order: str, limit: int
    ) -> NoReturn:
        answer = self._order_abort(instance, hand)
        if answer.outcome != certainty.DONE:
            self._failed(instance, host, hand, order, answer)
        self._close(instance, host, order, answer.result["domain"])
        raise DroverError(
            sentence_of(
                instance,
                f"the disk {self._request.disk} was not copied within {limit} s, so the move was"
                " given up; the guest runs on with the old file. Raise timeout_per_gib in"
                " drover_migration, or choose a faster storage.",
            ),
            host=host,
        )

    def _failed(
        self, instance: NamedInstance, host: str, hand: Hand, order: str, answer: certainty.Answer
    ) -> NoReturn:
        """Handle a move that failed.

        Close its order if the host reports that nothing is unfinished. Otherwise the next run does
        that.

        :raises DroverError: always.
        """
        if answer.outcome == certainty.NOTHING:
            self._close(instance, host, order, self._withdraw_order(hand, instance, order))
            raise DroverError(sentence_of(instance, answer.message), host=host)
        raise UncertainOrder(
            f"{sentence_of(instance, answer.message)} It is not certain what became of the move of"
            f" its disk {self._request.disk}, which may go on. The guest has all its data in the"
            " file that its domain names. Run this again, which finds out and goes on, or with"
            " drover_abort=true.",
            host=host,
        )

    def _fail_refused(
        self,
        instance: NamedInstance,
        host: str,
        hand: Hand,
        earlier: str | None,
        foreseen: dict[str, object],
    ) -> NoReturn:
        """Fail with the refusal of the host.

        Close an earlier order if nothing of it is unfinished.

        :raises DroverError: always.
        """
        if (
            earlier is not None
            and certainty.judge(foreseen).outcome == certainty.NOTHING
            and not self._check_mode
        ):
            self._close(instance, host, earlier, self._withdraw_order(hand, instance, earlier))
        raise DroverError(sentence_of(instance, str(foreseen.get("msg"))), host=host)

    def _limit(self, device: Disk | None) -> int:
        """Return the seconds that the move may take, by the size of the disk."""
        size = ((device or Disk()).get("capacity_bytes") or 0) / GIB
        return round(
            (self._options.get("timeout_per_gib") or move_options.TIMEOUT_PER_GIB) * max(2, size)
        )

    def _refuse_used(
        self,
        connection: Connection,
        instance: NamedInstance,
        names: Sequence[str],
        device: DomainDisk | None,
    ) -> None:
        """Refuse a file that an instance of any host uses."""
        where = (instance["uuid"], instance["name"], self._host(instance))
        used_files.refuse_taken(connection, *where, names)
        used_files.refuse_taken_origins(connection, *where, [device] if device else [])

    # -- an abort --------------------------------------------------------------------------------

    def _order_abort(self, instance: NamedInstance, hand: Hand) -> certainty.Answer:
        options = {**self._module_arguments(instance), "state": ABORTED, "timeout": PATIENCE}
        foreseen = hand.foretell("_domain_disk_move", options)
        options["used_elsewhere"] = self._removing.look(
            instance["uuid"], self._host(instance), _both(foreseen)
        )
        return hand.act("_domain_disk_move", options)

    def _abort(self, instance: NamedInstance, host: str) -> dict[str, Any]:
        """Give up the move, whichever run began it.

        An abort begins nothing, so it needs no lease. The run that holds the lease records the end.
        """
        hand = self._hosts.hand(host)
        if self._check_mode:
            foreseen = hand.foretell(
                "_domain_disk_move", {**self._module_arguments(instance), "state": ABORTED}
            )
            if foreseen.get("failed"):
                raise DroverError(
                    sentence_of(instance, str(foreseen.get("msg"))),
                    host=host,
                )
            return foreseen
        answer = self._order_abort(instance, hand)
        if answer.outcome != certainty.DONE:
            raise DroverError(
                sentence_of(instance, answer.message),
                host=host,
                uncertain=answer.outcome != certainty.NOTHING,
            )
        try:
            with self._leasing.held([host], "aborting the move of a disk"):
                instance = self._find_instance()
                if instance["task_state"] in orders.MOVING_DISKS and instance["order_uuid"]:
                    order = instance["order_uuid"]
                    self._close(instance, host, order, self._withdraw_order(hand, instance, order))
        except leases.LeaseHeld as other:
            self._say(f"{other.holder} That run writes down that the move has ended.")
        if answer.result["status"] != ABORTED:
            self._say(
                f"{instance['name']}: no move of its disk {self._request.disk} was under way, so"
                " nothing was aborted."
            )
        return answer.result

    # -- the record ------------------------------------------------------------------------------

    def _withdraw_order(
        self, hand: Hand, instance: NamedInstance, withdrawn: str
    ) -> ReportedDomain | None:
        return self._withdraw(
            hand,
            instance,
            withdrawn,
            PATIENCE,
            lambda reason: (
                f"Instance {instance['name']} on {instance['host']} has a disk moved by an earlier"
                f" run, and what became of that is not known: {reason}. Run this again later, which"
                " finds out and goes on."
            ),
        )


def _both(result: Mapping[str, object]) -> list[str]:
    """Return the old and the new file of a move."""
    return [str(result[key]) for key in ("source", "destination") if result.get(key)]


def _new_paths(foreseen: Mapping[str, Any]) -> list[str]:
    """Return the paths of the new file of the disk."""
    device = foreseen["device"] or {}
    return sorted(
        {
            path
            for path in (foreseen["destination"], device.get("path"), device.get("real_path"))
            if path
        }
    )
