# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The moves off one host: check, run, settle and abort, by the module _domain_migration there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from .._common import certainty
from .._common.errors import DroverError, as_sentence
from .._migrations import orders as migration_orders
from .._migrations.options import MigrationOptions
from .._records.orders import MoveOrder, UnopenedOrder
from .._records.outcomes import MoveAnswer, MoveOutcome, PrecheckReport
from .._records.plans import Move
from .._store.instances import migrations_open
from . import returned_host, starting
from .migrate import NEWS, AskHypervisor, Mover
from .move_endings import UNDONE
from .ports import Hand, Ports
from .progress import Progress
from .removing import Removing
from .restarting import ACTIVE, Restarts
from .settings import MoveSettings
from .starting import Starting

AnyOrder = TypeVar("AnyOrder", bound=UnopenedOrder)

ADVICE = (
    "Migrations that had begun go on by themselves; run the drain again and it looks after them"
    " first."
)


class HostMoves:
    """The moves of one run off one host.

    :param hand: the way to run modules on the host; by default the way of ports.hosts.
    :param progress: the progress of a run that also moves instances off other hosts.
    """

    def __init__(
        self,
        ports: Ports,
        host: str,
        settings: MoveSettings,
        hand: Hand | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._ports, self._store, self._leasing, self._say, self._clock = (
            ports,
            ports.store,
            ports.leasing,
            ports.say,
            ports.clock,
        )
        self._host, self._settings, self._progress, self._proofs = (
            host,
            settings,
            progress,
            Starting(ports),
        )
        self._hand, self._own, self._under_way = (
            hand or ports.hosts.hand(host),
            ports.own,
            ports.under_way,
        )
        self._removing = Removing(ports)

    def carry_out(self, moves: Sequence[Move] = (), begin: bool = True) -> list[MoveOutcome]:
        """Settle open moves of an earlier run, then make the given moves, under the host's lease.

        :param moves: moves that start at this host.
        :param begin: begin an open migration that was never begun; without it, undo such a
            migration.
        :raises DroverError: the place of an instance is not certain; with ``migrations`` and
            ``failed_moves`` in its details.
        """
        for move in moves:
            self._from_here(move)
        self._own.refuse_stop([move for move in moves if not move["live"]], "It is not moved")
        with self._leasing.held([self._host], "moving instances"):
            problem = self._settle_restarts()
            mover = self.mover(moves)
            mover.settle(self._host, begin)
            outcomes = mover.run(moves)
        refuse_unknown_whereabouts(outcomes)
        if problem:
            raise DroverError(
                f"{problem} Nothing was done about it: correct that, and run this again.",
                migrations=outcomes,
            )
        return outcomes

    def _settle_restarts(self) -> str:
        """Close the open restarts of a killed evacuation of the host.

        Return the uncertain ones, in words.
        """
        said, staying = returned_host.settle(self._ports, self._host)
        for sentence in said:
            self._say(sentence)
        return " ".join(
            f"{each['name']} of {self._host}, which was being evacuated: {each['reason']}."
            for each in staying
        )

    def mover(self, moves: Sequence[Move] = ()) -> Mover:
        """Return the Mover of these moves."""
        options = self._settings.options(moves)

        def ask(
            start: list[MoveOrder], follow: list[MoveOrder], wait: int, until: int
        ) -> list[MoveAnswer]:
            self._add_files(start, options, fresh=True)
            return self.ask(
                start, follow, options=options, wait=wait, until=until, news_within=NEWS
            )

        def foresee(order: UnopenedOrder) -> str | None:
            return self._refusal(order, options) or self._foresee_start(order)

        return self._mover(ask, foresee)

    def aborter(self) -> Mover:
        """Return the Mover that aborts every move that it follows."""

        def ask(
            start: list[MoveOrder], follow: list[MoveOrder], wait: int, until: int
        ) -> list[MoveAnswer]:
            return self.ask(abort=follow, wait=wait, until=until)

        return self._mover(ask, self._foresee_start)

    def _mover(self, ask: AskHypervisor, foresee: Callable[[UnopenedOrder], str | None]) -> Mover:
        settings, host = self._settings, self._host
        return Mover(
            self._store,
            ask,
            self._say,
            settings.limits,
            lambda connection: self._leasing.renew(connection, host),
            Restarts(
                self._read_domain_states,
                self._switch,
                settings.shutdown_timeout,
                self._clock,
                foresee,
            ),
            settings.max_wait,
            self._leasing.begun(host),
            self._clock,
            self._progress,
            self._under_way,
        )

    def check(self, moves: Sequence[Move]) -> list[PrecheckReport]:
        """Let the hypervisors check moves, without a move of any instance."""
        options = self._settings.options(moves)
        with self._store.read() as connection:
            orders = [
                migration_orders.unopened(connection, self._from_here(move)) for move in moves
            ]
            states = migrations_open.domain_states(connection, [order["uuid"] for order in orders])
        self._add_files(orders, options, fresh=False)
        stopped = {
            order["uuid"]
            for order in orders
            if not order["live"] and states.get(order["uuid"]) in ACTIVE
        }
        reports: list[PrecheckReport] = []
        for uri, start in _by_uri(orders).items():
            starts = [
                {**self._begin_arguments(order, options), "will_stop": order["uuid"] in stopped}
                for order in start
            ]
            reports += self._module({"uri": uri, "check": True, "start": starts})
        providers = {order["uuid"]: order["provider"] for order in orders}
        for report in reports:
            report["provider"], report["source"] = providers[report["uuid"]], self._host
        return reports

    def ask(
        self,
        start: Iterable[MoveOrder] = (),
        follow: Iterable[MoveOrder] = (),
        abort: Iterable[MoveOrder] = (),
        options: MigrationOptions | None = None,
        **given: Any,
    ) -> list[MoveAnswer]:
        """Call the module _domain_migration.

        :param options: options of the moves to start.
        :param given: more arguments of the module.
        """
        answers: list[MoveAnswer] = []
        started, followed, aborted = _by_uri(start), _by_uri(follow), _by_uri(abort)
        for uri in sorted(started.keys() | followed.keys() | aborted.keys()):
            of_uri = [*started.get(uri, ()), *followed.get(uri, ())]
            answers += self._module(
                {
                    "uri": uri,
                    "start": [
                        self._begin_arguments(order, options) for order in started.get(uri, ())
                    ],
                    "follow": [
                        {"uuid": order["uuid"], "migration": order["migration"]}
                        for order in followed.get(uri, ())
                    ],
                    "abort": [_move_arguments(order) for order in aborted.get(uri, ())],
                    "max_migrations": self._settings.limits.per_source,
                    "waiting": [order["uuid"] for order in of_uri if order.get("waiting")],
                    **given,
                }
            )
        return answers

    def _begin_arguments(
        self, order: UnopenedOrder, options: MigrationOptions | None
    ) -> dict[str, object]:
        """Return a move that begins, with its options, as the module _domain_migration takes it."""
        return {
            **_move_arguments(order),
            **(self._own.keep_up(order["uuid"], options.of(order)) if options else {}),
        }

    def _from_here(self, move: Move) -> Move:
        """Return a move that starts at this host; refuse any other."""
        if move.get("from_host") != self._host:
            raise DroverError(
                f"The move of {move.get('name')} starts at {move.get('from_host')}, but this task"
                f" runs on {self._host}. Delegate the task to the host the moves start at."
            )
        return move

    def _add_files(
        self, orders: Sequence[UnopenedOrder], options: MigrationOptions, fresh: bool
    ) -> None:
        """Add to orders the facts that their host needs on storage and files of other hosts."""
        if not orders:
            return
        files = self._removing.of_moves(
            orders, {order["uuid"]: options.of(order) for order in orders}, fresh
        )
        for order in orders:
            order["files"] = files[order["uuid"]]

    def _read_domain_states(self, order: UnopenedOrder) -> tuple[str | None, str | None]:
        """Return the states of a domain at its source and destination, see conductor.restarting."""
        (answer,) = self._module(
            {"uri": order["source_uri"], "check": True, "start": [_move_arguments(order)]}
        )
        return answer["source_state"], answer["destination_state"]

    def _switch(self, order: UnopenedOrder, there: bool, on: bool, timeout: int) -> str | None:
        """Start or shut down a domain, see conductor.restarting.

        Each host does it itself: a module refuses the libvirt of another machine.
        """
        options: dict[str, object] = {
            "uri": order["uri_there"] if there else order["source_uri"],
            "uuid": order["uuid"],
            "state": "running" if on else "stopped",
            "timeout": timeout,
        }
        host, proofs = order["destination"] if there else order["source"], []
        if not on:
            try:
                self._own.refuse_stop([order], "It is not shut down for its move")
            except DroverError as problem:
                return str(problem)
        if on:
            try:
                proofs = [
                    self._proofs.prove(host, order["uuid"], order["name"], "it is not started")
                ]
            except DroverError as problem:
                return str(problem)
        hand = self._ports.hosts.hand(host) if there else self._hand
        answer = starting.order(hand, host, "domain", options, proofs)
        return None if answer.outcome == certainty.DONE else answer.message

    def _refusal(self, order: UnopenedOrder, options: MigrationOptions) -> str | None:
        """Return the reason why a running instance cannot be moved once it is shut off, or None.

        Without this check a move that is refused would cost the instance a shutdown.
        """
        self._add_files([order], options, fresh=True)
        (report,) = self._module(
            {
                "uri": order["source_uri"],
                "check": True,
                "start": [{**self._begin_arguments(order, options), "will_stop": True}],
            }
        )
        return None if report["ok"] else report["message"]

    def _foresee_start(self, order: UnopenedOrder) -> str | None:
        """Return the reason why an instance could not start again after its move, see
        conductor.restarting.

        Return None otherwise.
        """
        try:
            self._proofs.foresee(
                order["source"], order["uuid"], order["name"], "It is not shut down for its move"
            )
        except DroverError as problem:
            return str(problem)
        return None

    def _module(self, given: dict[str, object]) -> list[Any]:
        # The host has its own record of a move, and the next call reads it. A failed call thus ends
        # no move.
        answer = self._hand.act("_domain_migration", given)
        if answer.outcome != certainty.DONE:
            named = (
                answer.message
                if answer.message.startswith(f"Host {self._host}")
                else f"Host {self._host}: {answer.message}"
            )
            raise DroverError(f"{as_sentence(named)} {ADVICE}")
        return answer.result["moves"]


def refuse_unknown_whereabouts(outcomes: Iterable[MoveOutcome]) -> None:
    """Stop if the place of an instance is not certain.

    :raises DroverError: with the outcomes in its details.
    """
    failed = [outcome for outcome in outcomes if outcome["status"] != "completed"]
    stuck = [outcome for outcome in failed if outcome["status"] not in UNDONE]
    if stuck:
        raise DroverError(
            "; ".join(
                f"{outcome['name']} is {outcome['status']}: {outcome['message'].rstrip('.')}"
                for outcome in stuck
            )
            + ". Nothing was done about it, as both hosts may be needed to tell. Look at both hosts"
            " with virsh list --all, correct what is wrong there, and run the drain again.",
            migrations=outcomes,
            failed_moves=failed,
        )


def _by_uri(orders: Iterable[AnyOrder]) -> dict[str, list[AnyOrder]]:
    """Return orders by the libvirt URI of their source."""
    by_uri: dict[str, list[AnyOrder]] = {}
    for order in orders:
        by_uri.setdefault(order["source_uri"], []).append(order)
    return dict(sorted(by_uri.items()))


def _move_arguments(order: UnopenedOrder) -> dict[str, object]:
    """Return a move without options as the module _domain_migration takes it."""
    values: Mapping[str, Any] = order
    keys = (
        "uuid",
        "name",
        "migration",
        "destination",
        "destination_uri",
        "host_uuids_there",
        "live",
        "begin",
        "numa",
        "devices",
    )
    move = {key: values[key] for key in keys if values.get(key) is not None}
    if order["migration_address"]:
        move["migrate_uri"] = migration_orders.migrate_uri(order["migration_address"])
    return {**move, **order.get("files", {})}
