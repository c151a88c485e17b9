# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The start, abort and check of moves: the work of ``domain_migration`` without the watch of moves.

Private to the collection.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypedDict

from .._bindings import gone
from .._domain.facts import BindingFacts
from .._files import detach
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, libvirt
from .._orders.records import Records, new_record
from .._ownership.move_record import Move, StorageWord
from . import state, way_there
from .storage import Storage
from .worker import Worker, precheck

#: Seconds to wait for the first words of the workers.
HEAR = 90


class Precheck(TypedDict):
    """The answer of the checks alone about a move, as the module _domain_migration returns it."""

    uuid: str
    name: str | None
    destination: str
    #: The move can be made.
    ok: bool
    storage: StorageWord | None
    #: The reason why not; ``why`` is the same without names.
    message: str
    source_state: str | None
    destination_state: str | None
    would_start: bool
    why: str
    #: The source reaches libvirt at the destination.
    reached: bool
    #: None if it is not known.
    copies_disk_mib: int | None
    #: MiB by target.
    copied_disks: dict[str, int]
    #: The reasons that hold it at its host, whatever the destination.
    bindings: list[BindingFacts]


def launch(
    moves: Sequence[Move],
    uri: str,
    records: Records,
    may_start: bool = True,
    most: int | None = None,
) -> dict[str, str | None]:
    """Start a worker for each move; return ``{uuid: its first word}``.

    At most ``most`` moves off this host (None for no limit) run at a time, the others wait. The
    word is started, following, a final status, or None if the worker has sent no word in time. A
    move with a ``begin`` of False is not begun: its worker only finds out its state. Must be called
    before libvirt is touched in this process.
    """
    records.prepare()
    ears = {}
    for move in moves:
        begins = may_start and move.get("begin") is not False
        if records.damage(move["uuid"]):
            continue
        ears[move["uuid"]] = detach.spawn(
            functools.partial(_run_worker, move, uri, records, begins, most)
        )
    return {**dict.fromkeys((move["uuid"] for move in moves), "lost"), **detach.hear(ears, HEAR)}


def _run_worker(
    move: Move,
    uri: str,
    records: Records,
    may_start: bool,
    most: int | None,
    say: Callable[[str], object],
) -> None:
    lock = records.lock(move["uuid"], patience=2)
    if lock is None:
        say("following")
        return
    # The descriptor stays open, and with it the lock held, for as long as the process lives.
    binding.start_event_loop()
    Worker(move, uri, records, acknowledge=say, may_start=may_start, most=most).run()


def abort(moves: Sequence[Move], uri: str, records: Records) -> bool:
    """Leave the requests to abort moves, and make sure that a worker carries them out; return True
    if there was a move to abort.
    """
    idle = []
    changed = False
    for move in moves:
        record = records.read(move["uuid"])
        if (
            record is not None
            and record["status"] == "cancelled"
            and record["move"].get("migration") == move.get("migration")
        ):
            continue
        changed = True
        records.ask_abort(move["uuid"], move.get("migration"))
        if not records.is_locked(move["uuid"]):
            idle.append(move)
    if idle:
        launch(idle, uri, records, may_start=False)
    return changed


def check(moves: Sequence[Move], uri: str, records: Records) -> list[Precheck]:
    """Return the answer of the checks alone for each move: ``{uuid, name, destination, ok, storage,
    message, ...}``.
    """
    source = binding.open_connection(uri, keepalive=True)
    destinations: dict[str, Any] = {}
    answers = []
    try:
        for move in moves:
            answers.append(_check_move(move, uri, records, source, destinations))
    finally:
        binding.close(source)
        for conn in destinations.values():
            if not isinstance(conn, LibvirtProblem):
                binding.close(conn)
    return answers


def _check_move(
    move: Move, uri: str, records: Records, source: Any, destinations: dict[str, Any]
) -> Precheck:
    answer: Precheck = {
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
        "copied_disks": {},
        "bindings": [],
    }
    where = move["destination_uri"]
    if where not in destinations:
        try:
            destinations[where] = way_there.open_connection(move, records.folder)
        except LibvirtProblem as exc:
            destinations[where] = exc
    destination = destinations[where]
    if isinstance(destination, LibvirtProblem):
        answer.update(
            {
                "message": (
                    f"The destination {move['destination']} cannot be reached: {destination}"
                ),
                "why": f"it cannot be reached: {destination}",
                "reached": False,
            }
        )
        return answer
    try:
        return _check_reachable(move, uri, records, source, destination, answer)
    except libvirt.libvirtError as exc:
        answer["message"] = f"The check broke off: {binding.text_of(exc)}."
    except LibvirtProblem as exc:
        answer["message"] = f"The check broke off: {exc}."
    return answer


def _check_reachable(
    move: Move,
    uri: str,
    records: Records,
    source: Any,
    destination: Any,
    answer: Precheck,
) -> Precheck:
    uuid = move["uuid"]
    damage = records.damage(uuid)
    if damage:
        answer["message"] = damage
        answer["bindings"] = [
            gone.held(
                "the record of a move of it cannot be read", "see to that file on its host", True
            )
        ]
        return answer
    at_source, at_destination = state.look(source, uuid), state.look(destination, uuid)
    answer.update(
        {
            "source_state": state.state_word(at_source),
            "destination_state": state.state_word(at_destination),
        }
    )
    verdict = state.classify(at_source, at_destination)
    if records.is_locked(uuid):
        answer.update({"ok": True, "message": "It is being moved already."})
        return answer
    if verdict == state.THERE and at_destination is not None:
        answer.update(
            {
                "ok": True,
                "name": at_destination["name"],
                "message": "It is at the destination already.",
            }
        )
        return answer
    if verdict == state.NOWHERE:
        answer["message"] = (
            f"There is no domain {uuid} at the source, nor on {move['destination']}."
        )
        answer["bindings"] = [
            gone.held(
                "its host does not have it any more",
                "run drover.compute.discover, which finds where it is",
            )
        ]
        return answer
    if verdict == state.MOVING:
        answer["message"] = "A job is under way on it at the source already: wait for its end."
        answer["bindings"] = [
            gone.held(
                "a job is under way on it already",
                f"wait for its end (virsh domjobinfo {uuid}), or abort it (virsh domjobabort"
                f" {uuid})",
                True,
            )
        ]
        return answer
    if verdict != state.HERE or at_source is None:
        answer["message"] = (
            f"Both hosts know it (source: {answer['source_state']}, destination:"
            f" {answer['destination_state']}): look at both and remove the one that is wrong."
        )
        return answer
    answer["name"] = at_source["name"]
    record = new_record(move, uri)
    record["earlier"] = records.files_left(move, uri)
    storage = Storage(record, source, destination, lambda **changes: None)
    reasons = precheck(
        source, destination, source.lookupByUUIDString(uuid), move, at_source, storage
    )
    answer.update(
        {
            "bindings": [
                gone.held(each, "correct that on its host") for each in storage.record["at_source"]
            ],
            "ok": not reasons,
            "would_start": not reasons,
            "storage": storage.word() if not reasons else None,
            "copies_disk_mib": storage.copied_mib() if not reasons else None,
            "copied_disks": storage.copied_disks() if not reasons else {},
            "message": (
                f"{at_source['name']} cannot be moved to {move['destination']}:"
                f" {'; '.join(reasons)}."
                if reasons
                else ""
            ),
            "why": "; ".join(reasons),
        }
    )
    return answer
