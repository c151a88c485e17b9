# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Following moves by their records.

Private to the collection. It imports little: a run follows its moves with many calls, each call
compiles its imports, and the moves need the processors.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, TypedDict

from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, libvirt
from .._orders.records import BEFORE, ENDED, Records
from .._ownership.move_record import Copies, KeptFile, Move, MoveRecord, Phase, Status, StorageWord
from . import state

POLL = 0.1


class Report(TypedDict):
    """A move, as the module _domain_migration returns it."""

    uuid: str
    name: str | None
    destination: str | None
    migration: str | None
    status: Status
    #: None without a record of the move; so are all facts that only the record has.
    phase: Phase | None
    percent: int
    total_mib: int | None
    remaining_mib: int | None
    elapsed_s: float | None
    copies: Copies | None
    message: str
    storage: StorageWord | None
    source_state: str | None
    destination_state: str | None
    leftovers: list[str]
    kept: list[KeptFile]
    removed: list[str]


class News:
    """Moves that have ended or begun, for a caller that waits.

    :param within: seconds after which the caller gets its answer at the latest; None if news end no
        wait.
    :param waiting: uuids of the moves that have not begun as far as the caller knows.
    """

    def __init__(self, within: float | None = None, waiting: Iterable[str] = ()) -> None:
        self._within, self._waiting = within, set(waiting)
        self._since: float | None = None

    def is_due(self, reports: Iterable[Report]) -> bool:
        """Return True if the caller gets its answer now.

        :param reports: the reports of all moves that the caller counts as unfinished.
        """
        if self._within is None:
            return False
        if self._since is None and any(self._is_news(each) for each in reports):
            self._since = time.monotonic()
        return self._since is not None and time.monotonic() >= self._since + self._within

    def _is_news(self, each: Report) -> bool:
        return each["status"] != "running" or (
            each["uuid"] in self._waiting and each["phase"] not in BEFORE
        )


def orphans(wanted: Iterable[Move], records: Records) -> list[Move]:
    """Return the unfinished moves with a dead worker, as the worker was given them."""
    moves = []
    for move in wanted:
        record = records.read(move["uuid"])
        if record is None or record["status"] in ENDED or records.is_locked(move["uuid"]):
            continue
        if is_of(record, move):
            moves.append(record["move"])
    return moves


def follow(
    wanted: Sequence[Move],
    uri: str,
    records: Records,
    wait: float,
    until: int | None = None,
    news: News | None = None,
) -> list[Report]:
    """Return the state of each move, in the order of ``wanted``, after at most ``wait`` seconds.

    A move is known by the uuid of its instance, and by its migration or its destination where these
    are given. Returns as soon as a move ends that was under way when the call began, or all have
    ended; with ``until`` not before so few are under way, or ``news`` (a News) is due.
    """
    deadline = time.monotonic() + wait
    before = None
    while True:
        # Only the records are read: constant calls to libvirt would take time from the moves.
        reports = [report(each, records, None) for each in wanted]
        under_way = {each["uuid"] for each in reports if each["status"] == "running"}
        if before is None:
            before = under_way
        enough = under_way != before if until is None else len(under_way) <= until
        if (
            not under_way
            or enough
            or time.monotonic() >= deadline
            or (news and news.is_due(reports))
        ):
            break
        time.sleep(min(POLL, max(0.0, deadline - time.monotonic())))
    conn = _connected(uri)
    try:
        return [report(each, records, conn) for each in wanted]
    finally:
        binding.close(conn)


def _connected(uri: str) -> Any:
    """Return a connection for the progress, or None: the records are enough."""
    try:
        return binding.open_connection(uri)
    except LibvirtProblem:
        return None


def is_of(record: MoveRecord, wanted: Move) -> bool:
    """Return True if a record is of the requested move, and not of another move of the same
    instance.
    """
    move = record["move"]
    if wanted.get("migration") and move.get("migration"):
        return wanted["migration"] == move["migration"]
    return wanted.get("destination_uri") in (None, move["destination_uri"])


def report(wanted: Move, records: Records, conn: Any) -> Report:
    """Return one move as the module returns it."""
    uuid = wanted["uuid"]
    record = records.read(uuid)
    if record is not None and not is_of(record, wanted):
        return _of_another(wanted, record)
    if record is None:
        seen = None
        if conn is not None:
            try:
                seen = state.look(conn, uuid)
            except libvirt.libvirtError:
                pass
        # Each call that works on an instance has its lock.
        explanation = (
            "Another call of drover.compute works on it on this host, such as a step of a run that"
            " was killed: wait for the end of that, and start the move again."
            if records.is_locked(uuid)
            else records.damage(uuid)
            or "No move of it is recorded on this host: start the move again, which finds out where it is."
        )
        return {
            **_unrecorded(uuid, seen and seen["name"], explanation),
            "source_state": state.state_word(seen),
        }
    progress = None
    status, message = record["status"], record["message"]
    if status == "running":
        if conn is not None:
            progress = state.job_of(conn, uuid)
        if not records.is_locked(uuid):
            # The record may have ended between the two looks.
            record = records.read(uuid) or record
            status, message = record["status"], record["message"]
            if status == "running":
                message = (
                    "Its worker died; ask again, and another one finds out what became of the move."
                )
    return _recorded(record, progress if status == "running" else None, status, message)


def _of_another(wanted: Move, record: MoveRecord) -> Report:
    """Return the answer about a move while the record is of another one: no fact about the other
    move counts for this one.
    """
    other = f"to {record['move']['destination']}, which is {record['status']}"
    why = (
        f"Another move of it is recorded on this host, {other}: wait for its end, then run this"
        " again."
    )
    return {
        **_unrecorded(wanted["uuid"], record["name"] or wanted.get("name"), why),
        "destination": wanted.get("destination"),
        "migration": wanted.get("migration"),
    }


def _unrecorded(uuid: str, name: str | None, message: str) -> Report:
    """Return the report of a move without a record."""
    return {
        "uuid": uuid,
        "name": name,
        "destination": None,
        "migration": None,
        "status": "lost",
        "phase": None,
        "percent": 0,
        "total_mib": None,
        "remaining_mib": None,
        "elapsed_s": None,
        "copies": None,
        "message": message,
        "storage": None,
        "source_state": None,
        "destination_state": None,
        "leftovers": [],
        "kept": [],
        "removed": [],
    }


def _recorded(
    record: MoveRecord, progress: state.Progress | None, status: Status, message: str
) -> Report:
    """Return the report of a move with a record."""
    seconds = (record["finished_at"] or time.time()) - record["started_at"]
    return {
        "uuid": record["uuid"],
        "name": record["name"] or record["move"].get("name"),
        "destination": record["move"]["destination"],
        "migration": record["move"].get("migration"),
        "status": status,
        "phase": record["phase"],
        "percent": progress["percent"] if progress else record["percent"],
        "total_mib": progress["total_mib"] if progress else record["total_mib"],
        "remaining_mib": progress["remaining_mib"] if progress else record["remaining_mib"],
        "elapsed_s": round(seconds, 1),
        "copies": record["copies"],
        "message": message,
        "storage": record["storage"],
        "source_state": record["source_state"],
        "destination_state": record["destination_state"],
        "leftovers": sorted(set(record["leftovers"])),
        "kept": record["kept"],
        "removed": record["removed"],
    }
