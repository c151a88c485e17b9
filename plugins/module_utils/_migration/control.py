# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Starting, following and checking moves: what ``domain_migration`` does.

Private to the collection.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.drover.compute.plugins.module_utils import _detach, _libvirt
from ansible_collections.drover.compute.plugins.module_utils._libvirt import LibvirtProblem, libvirt
from ansible_collections.drover.compute.plugins.module_utils._migration import state
from ansible_collections.drover.compute.plugins.module_utils._migration.record import ENDED, Records, new_record
from ansible_collections.drover.compute.plugins.module_utils._migration.storage import Storage
from ansible_collections.drover.compute.plugins.module_utils._migration.worker import Worker, precheck

#: Seconds to wait for the workers to say what they are about to do.
HEAR = 90

POLL = 0.1


def launch(
    moves: Sequence[Mapping[str, Any]], uri: str, records: Records, may_start: bool = True, most: int | None = None
) -> dict[str, str | None]:
    """Start a worker for each move; returns ``{uuid: what it is about to do}``.

    At most so many moves off this host (None for no limit) are carried out at a time, the others wait.
    The word is started, following, a final status, or None if the worker has not said within time. A move whose
    ``begin`` is False is not begun, only found out about.
    Must be called before libvirt is touched in this process.
    """
    records.prepare()
    ears = {}
    for move in moves:
        begins = may_start and move.get("begin") is not False
        ears[move["uuid"]] = _detach.spawn(functools.partial(_work, move, uri, records, begins, most))
    return _detach.hear(ears, HEAR)


def _work(move: Mapping[str, Any], uri: str, records: Records, may_start: bool, most: int | None, say: Callable[[str], object]) -> None:
    lock = records.lock(move["uuid"], patience=2)
    if lock is None:
        say("following")
        return
    # The descriptor stays open, and with it the lock held, for as long as the process lives.
    _libvirt.start_event_loop()
    Worker(move, uri, records, acknowledge=say, may_start=may_start, most=most).run()


def revive(wanted: Iterable[Mapping[str, Any]], uri: str, records: Records) -> None:
    """Give each unfinished move whose worker died a new one, which follows or concludes but never starts."""
    orphans = []
    for each in wanted:
        record = records.read(each["uuid"])
        if record is None or record["status"] in ENDED or records.is_locked(each["uuid"]):
            continue
        if is_of(record, each):
            orphans.append(record["move"])
    if orphans:
        launch(orphans, uri, records, may_start=False)


def abort(moves: Sequence[Mapping[str, Any]], uri: str, records: Records) -> bool:
    """Leave word that moves are to be aborted, and see that somebody heeds it; returns whether there was anything to abort."""
    idle = []
    changed = False
    for move in moves:
        record = records.read(move["uuid"])
        if record is not None and record["status"] == "cancelled" and record["move"].get("migration") == move.get("migration"):
            continue
        changed = True
        records.ask_abort(move["uuid"], move.get("migration"))
        if not records.is_locked(move["uuid"]):
            idle.append(move)
    if idle:
        launch(idle, uri, records, may_start=False)
    return changed


#: The phases of a move that has not begun.
BEFORE = ("checking", "waiting")


class News:
    """Moves that have ended or begun, for a caller that waits.

    :param within: seconds after which the caller gets its answer at the latest; None if news end no wait.
    :param waiting: uuids of the moves that have not begun as far as the caller knows.
    """

    def __init__(self, within: float | None = None, waiting: Iterable[str] = ()) -> None:
        self._within, self._waiting = within, set(waiting)
        self._since: float | None = None

    def is_due(self, reports: Iterable[Mapping[str, Any]]) -> bool:
        """Whether to answer the caller now.

        :param reports: of all moves that the caller takes for unfinished.
        """
        if self._within is None:
            return False
        if self._since is None and any(self._is_news(each) for each in reports):
            self._since = time.monotonic()
        return self._since is not None and time.monotonic() >= self._since + self._within

    def _is_news(self, each: Mapping[str, Any]) -> bool:
        return each["status"] != "running" or (each["uuid"] in self._waiting and each["phase"] not in BEFORE)


def follow(
    wanted: Sequence[Mapping[str, Any]], uri: str, records: Records, wait: float, until: int | None = None, news: News | None = None
) -> list[dict[str, Any]]:
    """The state of each move, in the order of ``wanted``, after at most ``wait`` seconds.

    A move is known by the uuid of its instance, and by its migration or its destination where these are given.
    Returns as soon as a move ends that was under way when the call began, or all have ended; with
    ``until`` not before so few are under way, or ``news`` (a News) is due.
    """
    deadline = time.monotonic() + wait
    before = None
    while True:
        # The records alone: to ask libvirt all the time would take from those that move.
        reports = [report(each, records, None) for each in wanted]
        under_way = {each["uuid"] for each in reports if each["status"] == "running"}
        if before is None:
            before = under_way
        enough = under_way != before if until is None else len(under_way) <= until
        if not under_way or enough or time.monotonic() >= deadline or (news and news.is_due(reports)):
            break
        time.sleep(min(POLL, max(0.0, deadline - time.monotonic())))
    conn = _connected(uri)
    try:
        return [report(each, records, conn) for each in wanted]
    finally:
        _libvirt.close(conn)


def _connected(uri: str) -> Any:
    """A connection for the progress, or None: the records are enough to go on with."""
    try:
        return _libvirt.open_connection(uri)
    except LibvirtProblem:
        return None


def is_of(record: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a record is of the very move that is meant, and not of another one of the same instance."""
    move = record["move"]
    if wanted.get("migration") and move.get("migration"):
        return wanted["migration"] == move["migration"]
    return wanted.get("destination_uri") in (None, move["destination_uri"])


def report(wanted: Mapping[str, Any], records: Records, conn: Any) -> dict[str, Any]:
    """One move as the module returns it."""
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
        return _shape(
            {"uuid": uuid, "name": seen and seen["name"], "status": "lost", "source_state": state.state_word(seen)},
            "No move of it is recorded on this host: start the move again, which finds out where it is.",
        )
    progress = {}
    status, message = record["status"], record["message"]
    if status == "running":
        if conn is not None:
            progress = state.job_of(conn, uuid) or {}
        if not records.is_locked(uuid):
            # The record may have ended between the two looks.
            record = records.read(uuid) or record
            status, message = record["status"], record["message"]
            if status == "running":
                message = "Its worker died; ask again, and another one finds out what became of the move."
    return _shape({**record, **(progress if status == "running" else {}), "status": status}, message)


def _of_another(wanted: Mapping[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    """The answer about a move while the record is of another one: nothing that is seen of that one is this one's."""
    other = f"to {record['move']['destination']}, which is {record['status']}"
    entry = {"uuid": wanted["uuid"], "name": record.get("name"), "status": "lost", "move": wanted}
    return _shape(entry, f"Another move of it is recorded on this host, {other}: wait for its end, then run this again.")


def _shape(record: Mapping[str, Any], message: str) -> dict[str, Any]:
    started, finished = record.get("started_at"), record.get("finished_at")
    move = record.get("move") or {}
    return {
        "uuid": record["uuid"],
        "name": record.get("name") or move.get("name"),
        "destination": move.get("destination"),
        "migration": move.get("migration"),
        "status": record["status"],
        "phase": record.get("phase"),
        "percent": record.get("percent") or 0,
        "total_mib": record.get("total_mib"),
        "remaining_mib": record.get("remaining_mib"),
        "elapsed_s": round((finished or time.time()) - started, 1) if started else None,
        "message": message,
        "storage": record.get("storage"),
        "source_state": record.get("source_state"),
        "destination_state": record.get("destination_state"),
        "leftovers": sorted(set(record.get("leftovers") or [])),
        "kept": record.get("kept") or [],
        "removed": record.get("removed") or [],
    }


def check(moves: Sequence[Mapping[str, Any]], uri: str, records: Records) -> list[dict[str, Any]]:
    """The answer of the checks alone for each move: ``{uuid, name, destination, ok, storage, message, ...}``."""
    source = _libvirt.open_connection(uri, keepalive=True)
    destinations: dict[str, Any] = {}
    answers = []
    try:
        for move in moves:
            answers.append(_check(move, uri, records, source, destinations))
    finally:
        _libvirt.close(source)
        for conn in destinations.values():
            if not isinstance(conn, LibvirtProblem):
                _libvirt.close(conn)
    return answers


def _check(move: Mapping[str, Any], uri: str, records: Records, source: Any, destinations: dict[str, Any]) -> dict[str, Any]:
    answer = {
        "uuid": move["uuid"],
        "name": move.get("name"),
        "destination": move["destination"],
        "ok": False,
        "storage": None,
        "message": "",
        "source_state": None,
        "destination_state": None,
        "would_start": False,
        "why": "",
        "reached": True,
        "copies_disk_mib": None,
    }
    where = move["destination_uri"]
    if where not in destinations:
        try:
            destinations[where] = _libvirt.open_connection(where, keepalive=True)
        except LibvirtProblem as exc:
            destinations[where] = exc
    destination = destinations[where]
    if isinstance(destination, LibvirtProblem):
        answer.update(
            message=f"The destination {move['destination']} cannot be reached: {destination}",
            why=f"it cannot be reached: {destination}",
            reached=False,
        )
        return answer
    try:
        return _check_reachable(move, uri, records, source, destination, answer)
    except libvirt.libvirtError as exc:
        answer["message"] = f"The check broke off: {_libvirt.text_of(exc)}."
    except LibvirtProblem as exc:
        answer["message"] = f"The check broke off: {exc}."
    return answer


def _check_reachable(
    move: Mapping[str, Any], uri: str, records: Records, source: Any, destination: Any, answer: dict[str, Any]
) -> dict[str, Any]:
    uuid = move["uuid"]
    here, there = state.look(source, uuid), state.look(destination, uuid)
    answer.update(source_state=state.state_word(here), destination_state=state.state_word(there))
    verdict = state.classify(here, there)
    if records.is_locked(uuid):
        answer.update(ok=True, message="It is being moved already.")
        return answer
    if verdict == state.THERE and there is not None:
        answer.update(ok=True, name=there["name"], message="It is at the destination already.")
        return answer
    if verdict == state.NOWHERE:
        answer["message"] = f"There is no domain {uuid} at the source, nor on {move['destination']}."
        return answer
    if verdict == state.MOVING:
        answer["message"] = "A job is under way on it at the source already: wait for its end."
        return answer
    if verdict != state.HERE or here is None:
        answer["message"] = (
            f"Both hosts know it (source: {answer['source_state']}, destination: {answer['destination_state']}): "
            "look at both and remove the one that is wrong."
        )
        return answer
    answer["name"] = here["name"]
    record = new_record(move, uri)
    record["earlier"] = records.files_left(move, uri)
    storage = Storage(record, source, destination, lambda **changes: None)
    reasons = precheck(source, destination, source.lookupByUUIDString(uuid), move, here, storage)
    answer.update(
        ok=not reasons,
        would_start=not reasons,
        storage=storage.word() if not reasons else None,
        copies_disk_mib=storage.copied_mib() if not reasons else None,
        message=f"{here['name']} cannot be moved to {move['destination']}: {'; '.join(reasons)}." if reasons else "",
        why="; ".join(reasons),
    )
    return answer
