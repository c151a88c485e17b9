# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One move of one instance, from the checks to the verification.

Private to the collection. A worker runs in a separate process (see ``_files.detach``). At every
step it reads the place of the instance from libvirt; the record only adds facts that libvirt cannot
know. The source is the truth until the instance was seen at the destination and gone from the
source. If two hosts disagree, nothing is ever "repaired".
"""

from __future__ import annotations

import contextlib
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from .._bindings import reading
from .._bindings import there as far
from .._devices import mdevs
from .._domain import power
from .._host import distribution, offered
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, libvirt
from .._libvirt.xml import keep_prefixes, parse
from .._orders import orders
from .._orders.records import BEFORE, SETTLED, Records, new_record, same_move, uptime
from .._ownership.move_record import Move, MoveRecord, Status
from .._ownership.ownership import undefine
from .._snapshots import records as _snapshot_records
from .._storage.sources import missing_secrets
from . import checks, passthrough, rebinding, snapshots, state, way_there
from .certificates import certificate_reasons
from .flags import flags_and_parameters, version_reasons
from .options import contradictions, merged, time_limit
from .rebinding import confined, rebound
from .state import DomainState
from .storage import Storage, survey
from .turn import Turn
from .watch import MigrationWatch

#: Seconds to wait for two hosts to agree before their disagreement is reported.
SETTLE = 20

#: Seconds to wait before the move has begun: the two hosts then only have to finish the work of
#: another process.
SETTLE_BEFORE = 5

#: Seconds to try to reach a libvirt again after its connection broke.
RECONNECT = 60

#: Seconds to try the source's own libvirt again before a decision: libvirt may just be restarting.
RESTART = 10

#: Fields that a worker takes over from the record of a worker that died.
INHERITED = (
    "files",
    "probes",
    "leftovers",
    "kept",
    "removed",
    "was",
    "autostart",
    "started_at",
    "since",
    "storage",
    "name",
    "phase",
    "temporary",
    "ends",
    "limit",
    "escalated",
    "shut_down",
)

#: Time limit of a clean shutdown of a guest, in seconds.
SHUTDOWN = 180

#: Seconds to try to resume a post-copy that broke off, and the pause between two attempts.
RESUME = 300
RESUME_PAUSE = 5

POLL = 0.5

#: Seconds between two looks of a worker that waits for its turn: the move ahead of it may end
#: within a second.
POLL_TURN = 0.05

#: For each move that may run, so many moves are checked in advance. The number of checks at one
#: time is the number of moves that may run, because checks take time and processors from them.
READY = 2

#: Seconds of waiting after which a check may be out of date; no move waits longer for its check.
CHECKED = 30


#: The text about a migration that failed after its time limit, by the action at the limit.
AFTERWARDS = {
    "abort": (
        " and was aborted: allow more time, bandwidth or downtime, or set auto_converge or another"
        " on_timeout"
    ),
    "post_copy": ", and switching it over to post-copy did not end it in as much time again",
    "pause": (
        ", and nothing more arrived while the guest was paused: look at the network between the two"
        " hosts"
    ),
    "shutdown": " and was aborted to shut it down",
}

#: An option that needs a set-up of the hosts, and the advice if a move with it fails.
ADVICE = (
    (
        "tls",
        (
            "look whether the certificates of both hosts are valid, that of {where} for its host"
            " name (libvirt's log there says more)"
        ),
    ),
    (
        "post_copy",
        (
            "let QEMU fetch memory on {where} (sysctl vm.unprivileged_userfaultfd=1 there;"
            " libvirt's log there says more)"
        ),
    ),
)


#: Codes of the errors that libvirt reports when the set-up of a host is missing: there is no
#: special code for it.
_OF_SETUP = (
    (
        libvirt.VIR_ERR_INTERNAL_ERROR,
        libvirt.VIR_ERR_OPERATION_FAILED,
        libvirt.VIR_ERR_OPERATION_UNSUPPORTED,
        libvirt.VIR_ERR_SYSTEM_ERROR,
    )
    if libvirt
    else ()
)


class Aborted(LibvirtProblem):
    """An abort on request, before the move has begun a step that must be stopped."""


class MoveRefused(Exception):
    """The move was not begun; the text holds all the reasons."""


class Worker:
    """The worker of one move: it carries the move through, or finds out its result.

    ``acknowledge(word)`` is called once, when the next work of this call is known: started,
    following, or the status that the move has already.

    :param most: the number of moves off this host that may run at a time, or None for no limit.
    """

    def __init__(
        self,
        move: Move,
        source_uri: str,
        records: Records,
        acknowledge: Callable[[str], object] | None = None,
        may_start: bool = True,
        most: int | None = None,
    ) -> None:
        self.move = move.copy()
        self.uuid = move["uuid"]
        self.source_uri = source_uri
        self.records = records
        self._acknowledge = acknowledge or (lambda word: None)
        self.may_start = may_start and orders.may_begin(records, self.uuid, move.get("migration"))
        self._most = most
        self._turn = Turn(records.folder, self.uuid)
        self._check = Turn(records.folder, self.uuid, "checks")
        self.previous = records.read(self.uuid)
        if not same_move(self.previous, move, source_uri):
            # The record is of another way and long over: nothing in it is about this move.
            self.previous = None
        self.record = new_record(move, source_uri)
        self.record["earlier"] = records.files_left(move, source_uri)
        self.options = merged(move)
        self.devices = move.get("devices") or passthrough.NONE
        self.source: Any = None
        self.destination: Any = None
        self._stopped_once = False
        self._writing = threading.Lock()

    # -- the frame ---------------------------------------------------------------------------

    def run(self) -> None:
        """Do the whole work; never raise. The outcome is in the record."""
        try:
            self._run()
        except MoveRefused as exc:
            self._record_end("failed", str(exc))
        except (LibvirtProblem, libvirt.libvirtError) as exc:
            self._break_off(_reason(exc))
        except Exception as exc:  # pylint: disable=broad-except
            # A worker has nobody to raise to: an unforeseen error must end in the record as well.
            self._break_off(f"unforeseen {type(exc).__name__}: {exc}")
        finally:
            self._acknowledge(self.record["status"])
            self._check.leave()
            self._turn.leave()
            binding.close(self.source)
            binding.close(self.destination)

    def _break_off(self, reason: str) -> None:
        """End the work if the place of the instance is not known, or before anything was begun."""
        reason = reason.rstrip(".")
        self._look_at_source()
        if self._is_begun() or self.record["took_over"] or self.record["shut_down"]:
            self._record_end(
                "lost",
                f"{self._title()}: {reason}. It is not known where it is: start the move again when"
                " both hosts answer.",
            )
        else:
            self._record_end("failed", f"{self._title()} was not begun: {reason}.")

    def _look_at_source(self) -> None:
        """Note the state at the source alone: the destination, or the connection to it, is gone."""
        self.record.update({"source_state": None, "destination_state": None})
        source = None
        try:
            # A new connection, because the present one may be broken.
            source = self._open_source(keepalive=False)
            at_source = state.look(source, self.uuid)
        except (LibvirtProblem, libvirt.libvirtError):
            return
        finally:
            binding.close(source)
        if at_source is None or not at_source["job"]:
            self.record["source_state"] = state.state_word(at_source)

    def _is_begun(self) -> bool:
        return self.record["phase"] in ("migrating", "verifying", "cleaning")

    def _title(self) -> str:
        return f"Moving {self.record['name'] or self.uuid} to {self.move['destination']}"

    def save(self, **changes: Any) -> None:
        """Change the record and write it."""
        with self._writing:
            cast("dict[str, object]", self.record).update(changes)
            self.records.write(self.record)

    def _abort_asked(self) -> bool:
        return self.records.abort_asked(self.uuid, self.move.get("migration"))

    def _save_or_stop(self, **changes: Any) -> None:
        """Save the record for the storage helper: here a long copy notices a request to abort."""
        self.save(**changes)
        if self.record["phase"] == "preparing" and not self._stopped_once and self._abort_asked():
            self._stopped_once = True
            raise Aborted("it was aborted on request")

    def _record_end(self, status: Status, message: str = "", **changes: Any) -> None:
        if status == "completed":
            changes.update(percent=100, remaining_mib=0)
        if status == "failed" and self._abort_asked():
            status = "cancelled"
        if status in SETTLED:
            self.records.forget_abort(self.uuid)
        if status in SETTLED:
            # A lost move or a conflict keeps its phase: a later call must know how far it had come.
            changes.setdefault("phase", "done")
            migration = self.move.get("migration")
            if migration:
                # A late call must not begin it again; if the list cannot be read, no call begins
                # it.
                with contextlib.suppress(LibvirtProblem):
                    orders.withdraw(self.records, self.uuid, [migration])
        self.save(status=status, message=message, finished_at=time.time(), **changes)

    def _connect(self, shared: bool = False) -> None:
        """:param shared: True if the connection to the destination may share its login with other
        moves.
        """
        self.source = self._open_source(keepalive=True)
        folder = self.records.folder if shared else None
        self.destination = binding.opened_again(
            self.move["destination_uri"], lambda: way_there.open_connection(self.move, folder)
        )

    def _open_source(self, keepalive: bool) -> Any:
        """Open the source's libvirt; wait for it during the seconds of a restart."""
        deadline = time.monotonic() + min(RESTART, RECONNECT)
        while True:
            try:
                return binding.open_connection(self.source_uri, keepalive=keepalive)
            except LibvirtProblem:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(POLL)

    def _reconnect(self) -> None:
        """Open new connections in place of broken ones, with patience: a libvirtd may just be
        restarting.
        """
        deadline = time.monotonic() + RECONNECT
        while True:
            binding.close(self.source)
            binding.close(self.destination)
            self.source = self.destination = None
            try:
                self._connect()
                return
            except LibvirtProblem:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(2)

    # -- the course --------------------------------------------------------------------------

    def _run(self) -> None:
        if self.previous is not None:
            if self._was_cancelled(self.previous):
                self.record = self.previous
                self.save()
                return
            self._inherit(self.previous)
        elif self.may_start and not self.move.get("migration"):
            self.records.forget_abort(self.uuid)
        self.save()
        if self.may_start and self._is_new():
            self._wait_to_be_checked()
        # The files of a cold move go over its connection.
        self._connect(shared=self.move.get("live") is not False)
        verdict = self._settled()
        if verdict == state.MOVING:
            verdict = self._follow_job()
        if verdict == state.HERE and self.may_start and not self._abort_asked():
            if self.record["took_over"]:
                self._begin_again()
            self._start_move()
            return
        if verdict == state.HERE:
            self._came_to_nothing()
            return
        if verdict == state.BROKEN and self.may_start and self.record["took_over"]:
            verdict = self._resume_post_copy()
        if verdict == state.OFF_THERE and not self._is_begun():
            raise MoveRefused(
                f"{self._title()} was refused: {self.move['destination']} has a definition of it"
                " that is shut off. Make sure that it is a leftover, then remove it there (virsh"
                f" undefine {self.uuid})."
            )
        self._conclude(verdict)

    def _was_cancelled(self, previous: MoveRecord) -> bool:
        """Return True if this migration of the store was aborted: it does not begin again, but the
        next migration does.
        """
        return (
            previous["status"] == "cancelled"
            and self.move.get("migration") is not None
            and self._was_of_this_migration(previous)
        )

    def _was_of_this_migration(self, previous: MoveRecord) -> bool:
        return previous["move"].get("migration") == self.move.get("migration")

    def _is_new(self) -> bool:
        """Return True if no run can have begun the move: then there is no earlier work to find."""
        return self.previous is None or (
            self.previous["status"] in SETTLED and not self._was_of_this_migration(self.previous)
        )

    def _never_began(self) -> bool:
        """Return True if this worker and the workers before it only checked the move and waited."""
        earlier = None if self._is_new() else self.previous
        return self.record["phase"] in BEFORE and (earlier is None or earlier["phase"] in BEFORE)

    def _inherit(self, previous: MoveRecord) -> None:
        """Take over the notes of an earlier call on the same way."""
        if previous["status"] not in SETTLED:
            # An earlier worker died, or did not find the instance: this worker takes over its
            # notes.
            inherited = {key: value for key, value in previous.items() if key in INHERITED}
            cast("dict[str, object]", self.record).update(inherited)
            self.record["took_over"] = True
            # The work under way keeps the options of its beginning.
            self.options = merged(previous["move"])
            if not passthrough.names(self.devices):
                # A later discovery may have seen that the source does not have them.
                self.devices = previous["move"].get("devices") or passthrough.NONE

    def _begin_again(self) -> None:
        """Clean up after a worker that died before anything was moved, and forget it."""
        self._give_back()
        self.options = merged(self.move)
        storage = self.storage()
        storage.drop_probes()
        self._drop_there(storage)
        earlier = [entry for entry in self.record["files"] if entry["made"] != "no"]
        self.record = new_record(self.move, self.source_uri)
        self.record["earlier"] = earlier
        self.save()

    def _settled(self) -> str:
        """Return the verdict of :func:`state.classify`, once both sides agree or the time to wait
        is over.
        """
        deadline = time.monotonic() + (SETTLE if self._is_begun() else SETTLE_BEFORE)
        while True:
            here, at_destination = self._read_both_sides()
            verdict = state.classify(here, at_destination)
            unsure = verdict in (state.ARRIVING, state.BOTH_ACTIVE, state.NOWHERE, state.OFF_HERE)
            if (
                verdict == state.THERE
                and at_destination is not None
                and at_destination["state"] == "paused"
                and self.record["was"] != "paused"
                and self._is_begun()
            ):
                unsure = True
            if not unsure or time.monotonic() >= deadline:
                return verdict
            if verdict == state.NOWHERE and not self._is_begun():
                return verdict
            time.sleep(POLL)

    def _read_both_sides(self) -> tuple[DomainState | None, DomainState | None]:
        """Look at both sides, and note their states."""
        try:
            at_source, at_destination = (
                state.look(self.source, self.uuid),
                state.look(self.destination, self.uuid),
            )
        except libvirt.libvirtError:
            self._reconnect()
            at_source, at_destination = (
                state.look(self.source, self.uuid),
                state.look(self.destination, self.uuid),
            )
        self.record.update(
            {
                "source_state": state.state_word(at_source),
                "destination_state": state.state_word(at_destination),
            }
        )
        for seen in (at_source, at_destination):
            if seen is not None:
                self.record["name"] = seen["name"]
        return at_source, at_destination

    def _follow_job(self) -> str:
        """Wait for a migration that a worker before us began; it runs inside libvirt without
        one.
        """
        if not self.record["took_over"] and not self._abort_asked():
            raise MoveRefused(
                f"{self._title()} was refused: a job that this run did not begin is under way on it"
                " at the source. Wait for its end, or abort it there (virsh domjobabort"
                f" {self.uuid})."
            )
        self._acknowledge("following")
        self.save(phase="migrating", status="running")
        # This move continues in any case, and the waiting moves must count it.
        self._turn.take_place(self.record["since"])
        with self._watch_move():
            while True:
                here, there = self._read_both_sides()
                if state.classify(here, there) != state.MOVING:
                    break
                time.sleep(POLL)
        return self._settled()

    def _watch_move(self) -> MigrationWatch:
        return MigrationWatch(
            self.source_uri,
            self.uuid,
            self.options,
            self.record["ends"],
            self.record["limit"],
            self._abort_asked,
            lambda action: self.save(escalated=action),
            self.record["escalated"],
        )

    def _start_move(self) -> None:
        """Check, prepare, migrate, conclude."""
        # From here on the record belongs to this move. An earlier move on the same way has ended.
        self.previous = None
        domain = self.source.lookupByUUIDString(self.uuid)
        at_source = _require_domain(self._read_both_sides()[0], "source")
        # A move that was cut off may have taken the snapshots from libvirt.
        _snapshot_records.give_back(domain)
        live = checks.is_live(self.move, at_source)
        self.record.update(
            {
                "was": (
                    "paused"
                    if at_source["state"] == "paused"
                    else "running"
                    if at_source["active"]
                    else "shutoff"
                ),
                "autostart": (
                    _autostart(domain)
                    if self.move.get("autostart") is None
                    else bool(self.move["autostart"])
                ),
                "persistent": at_source["persistent"],
            }
        )
        storage = self._check_move(domain, at_source)
        self._turn.take_place()
        self._check.leave()
        self._acknowledge("started")
        try:
            if self._wait_for_turn() > CHECKED:
                # This look comes first, because it opens a broken connection again.
                at_source = _require_domain(self._read_both_sides()[0], "source")
                domain = self.source.lookupByUUIDString(self.uuid)
                storage = self._check_move(domain, at_source)
            copies = {
                "memory_mib": (domain.maxMemory() >> 10) if live else 0,
                "disk_mib": storage.copied_mib(),
            }
            self.save(phase="preparing", storage=storage.word(), copies=copies)
            self._prepare_there(storage, live)
            self._save_or_stop()
            # This look decides, right before the migration.
            now, at_destination = self._read_both_sides()
            if (
                now is None
                or state.classify(now, at_destination) != state.HERE
                or checks.is_live(self.move, now) != live
                or (self.record["was"] == "shutoff" and now["active"])
            ):
                raise LibvirtProblem(
                    "the instance changed its state while the move was prepared; begin again"
                )
            self.save(phase="migrating")
            self._migrate(domain, live, storage)
            error = None
        except (LibvirtProblem, libvirt.libvirtError) as exc:
            error = exc
        if self.record["escalated"] != "shutdown":
            self._turn.leave()
        self.save(
            phase="verifying" if self.record["phase"] == "migrating" else self.record["phase"]
        )
        if error is not None and self.record["phase"] in ("waiting", "preparing"):
            self._drop_there(storage)
            self._read_both_sides()
            self._record_end(
                "failed", f"{self._title()} failed before anything was moved: {_reason(error)}."
            )
            return
        verdict = self._settled()
        if verdict == state.MOVING:
            # The call broke, but libvirt continues the migration by itself.
            self.record["took_over"] = True
            verdict = self._follow_job()
        if (
            verdict == state.HERE
            and self.record["escalated"] == "shutdown"
            and not self._abort_asked()
        ):
            verdict, error = self._shut_down_and_move(domain)
        self._conclude(verdict, error)

    def _check_move(self, domain: Any, here: DomainState) -> Storage:
        """Return the storage helper of a move that nothing speaks against."""
        storage = self.storage()
        reasons = precheck(self.source, self.destination, domain, self.move, here, storage)
        if reasons:
            raise MoveRefused(f"{self._title()} was refused: {'; '.join(reasons)}.")
        return storage

    def _wait_to_be_checked(self) -> None:
        """Wait while enough other moves are checked and ready."""
        if self._most is None:
            return
        self._check.take_place()
        if self._is_to_be_checked():
            return
        self._acknowledge("started")
        self.save(phase="waiting")
        began = time.monotonic()
        while (
            not self._is_to_be_checked()
            and not self._abort_asked()
            and time.monotonic() - began < CHECKED
        ):
            time.sleep(POLL_TURN)
        # The time of a move counts from here.
        self.save(phase="checking", started_at=time.time())

    def _is_to_be_checked(self) -> bool:
        return self._most is None or self._check.has_come(
            min(self._most, READY * self._most - self._turn.count())
        )

    def _wait_for_turn(self) -> float:
        """Returns how many seconds that took."""
        began = time.monotonic()
        if self._turn.has_come(self._most):
            return 0
        self.save(phase="waiting")
        while not self._turn.has_come(self._most):
            if self._abort_asked():
                raise Aborted("it was aborted on request")
            time.sleep(POLL_TURN)
        self.save(started_at=time.time())
        return time.monotonic() - began

    def storage(self) -> Storage:
        """Return the storage helper on the present connections."""
        return Storage(self.record, self.source, self.destination, self._save_or_stop)

    def _resume_post_copy(self) -> str:
        """Continue a post-copy that broke off, because the network between the hosts may work
        again; return the verdict.
        """
        self._acknowledge("following")
        self.save(phase="migrating", status="running")
        domain = self.source.lookupByUUIDString(self.uuid)
        flags, parameters = flags_and_parameters(self.options, self.destination)
        flags |= (
            libvirt.VIR_MIGRATE_PEER2PEER
            | libvirt.VIR_MIGRATE_LIVE
            | getattr(libvirt, "VIR_MIGRATE_POSTCOPY_RESUME", 0)
        )
        if domain.isPersistent():
            flags |= libvirt.VIR_MIGRATE_PERSIST_DEST | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
        parameters.update(self._address())
        deadline = time.monotonic() + RESUME
        while True:
            try:
                domain.migrateToURI3(self.move["destination_uri"], parameters, flags)
            except libvirt.libvirtError:
                # The move may continue without libvirt: QEMU's own connections often outlive an
                # interruption that libvirt's did not.
                pass
            verdict = self._settled()
            if verdict != state.BROKEN or time.monotonic() >= deadline:
                return verdict
            time.sleep(RESUME_PAUSE)

    def _prepare_there(self, storage: Storage, live: bool) -> None:
        """Make the room and the devices that the destination must have before the domain comes."""
        storage.make_room(live)
        wanted = passthrough.made_there(self.devices)
        mdevs.check(self.destination, wanted, self.uuid, self.move["destination"])
        for each in wanted:
            mdevs.make(self.destination, each)

    def _drop_there(self, storage: Storage) -> None:
        """Remove the things that this move made at the destination for a domain that did not
        come.
        """
        storage.drop_copies()
        for mdev in mdevs.remove(
            self.destination,
            [each["uuid"] for each in passthrough.made_there(self.devices)],
            self.uuid,
        ):
            self.record["leftovers"].append(_mdev_left(mdev))

    # -- the last resort ---------------------------------------------------------------------

    def _shut_down_and_move(self, domain: Any) -> tuple[str, Exception | None]:
        """Shut the guest down cleanly and move it cold; :meth:`_arrived` starts it again.

        Returns ``(verdict, error)``. After any failure, :meth:`_came_to_nothing` starts it at the
        source.
        """
        storage = self.storage()
        try:
            self._drop_there(storage)
            # The time limit of a copy does not apply here.
            self.save(phase="preparing", copies=None)
            self._shut_down(domain)
            text = domain.XMLDesc(0)
            self.record["files"], reasons = survey(self.source, domain, text)
            reasons += checks.device_reasons(
                reading.read(text, but=passthrough.names(self.devices)), False
            ) + storage.decide(False)
            reasons += snapshots.reasons(domain, storage)
            if reasons:
                raise LibvirtProblem("; ".join(reasons))
            self._prepare_there(storage, False)
            self._save_or_stop()
            here, there = self._read_both_sides()
            if here is None or state.classify(here, there) != state.HERE or here["active"]:
                raise LibvirtProblem("somebody started it while its cold move was prepared")
            self.save(phase="migrating", storage=storage.word())
            self._migrate(domain, False, storage)
            error = None
        except (LibvirtProblem, libvirt.libvirtError) as exc:
            error = exc
        if self.record["phase"] == "migrating":
            self.save(phase="verifying")
        return self._settled(), error

    def _shut_down(self, domain: Any) -> None:
        # Another process may have undefined it since the check.
        power.refuse_transient(domain)
        power.refuse_opposite(domain, "poweroff")
        # The record is written first: a run that finds the guest off must know that this move shut
        # it down, and not its user.
        self.save(shut_down=True)
        domain.shutdown()
        deadline = time.monotonic() + SHUTDOWN
        while domain.isActive():
            if self._abort_asked():
                raise Aborted(
                    "it was aborted on request; the guest already has the request to shut down and"
                    " may still do so"
                )
            if time.monotonic() >= deadline:
                raise LibvirtProblem(
                    f"it was not done in time, and the guest did not shut down within {SHUTDOWN} s"
                    " after the request (it may still do so): allow more time or bandwidth, or"
                    " shut it down by hand and move it cold"
                )
            time.sleep(POLL)

    def _give_back(self) -> str:
        """Let the instance at the source run again if this move has stopped it; return the words
        about this for the message.
        """
        at_source = state.look(self.source, self.uuid)
        if at_source is None:
            return ""
        domain = self.source.lookupByUUIDString(self.uuid)
        try:
            if self.record["shut_down"] and at_source["state"] == "shutoff":
                power.boot(domain)
                self._read_both_sides()
                return "; it had been shut down and was started again"
            if (
                self.record["escalated"] == "pause"
                and self.record["was"] == "running"
                and at_source["state"] == "paused"
            ):
                domain.resume()
                self._read_both_sides()
        except libvirt.libvirtError as exc:
            return (
                f"; it is {at_source['state']} and cannot be let run again"
                f" ({binding.text_of(exc)}): look at it there"
            )
        return ""

    def _migrate(self, domain: Any, live: bool, storage: Storage) -> None:
        # This comes first, because each definition for the destination carries the records.
        _snapshot_records.take_along(domain)
        flags = libvirt.VIR_MIGRATE_PEER2PEER
        parameters: dict[object, object] = {**self._address()}
        if domain.isPersistent():
            flags |= libvirt.VIR_MIGRATE_PERSIST_DEST | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
        copied = storage.copied("disk")
        if live:
            flags |= libvirt.VIR_MIGRATE_LIVE | libvirt.VIR_MIGRATE_ABORT_ON_ERROR
            options = self.options
            if self.record["was"] == "paused":
                # libvirt refuses it, and a guest that writes nothing does not need it.
                options = merged(options, {"post_copy": False})
            more, asked = flags_and_parameters(options, self.destination)
            flags |= more
            parameters.update(asked)
            # Disks of the next start only were copied before, because libvirt does not see them.
            running = [entry["target"] for entry in copied if not entry.get("next_start")]
            if running:
                flags |= libvirt.VIR_MIGRATE_NON_SHARED_DISK
                parameters[libvirt.VIR_MIGRATE_PARAM_MIGRATE_DISKS] = running
        else:
            flags |= libvirt.VIR_MIGRATE_OFFLINE
        if (
            live
            and proven_safe(storage)
            and any(entry["mode"] == "shared" for entry in storage.files)
        ):
            # libvirt may not know that the file system is shared: the probe has just shown that it
            # is, and the disks bypass the host's cache.
            flags |= libvirt.VIR_MIGRATE_UNSAFE
        flattened = (
            [entry["target"] for entry in copied]
            if any(entry["backing"] for entry in copied)
            else []
        )
        parameters.update(self._definitions(domain, flattened, live))
        if live:
            limit = self._time_limit(storage)
            self.save(limit=limit, ends=uptime() + limit)
        try:
            with self._watch_move() if live else contextlib.nullcontext():
                domain.migrateToURI3(self.move["destination_uri"], parameters, flags)
        except libvirt.libvirtError as exc:
            raise self._explained(exc, storage, live) from exc

    def _address(self) -> dict[object, str]:
        """Return the parameter with the address that the data go to."""
        address = self.move.get("migrate_uri")
        if not address or self.options.get("tunnelled"):
            # The data of a tunnelled move go over libvirt's own connection, and libvirt takes no
            # address then.
            return {}
        return {libvirt.VIR_MIGRATE_PARAM_URI: address}

    def _definitions(
        self, domain: Any, flattened: Collection[str], live: bool
    ) -> dict[object, str]:
        """Return the parameters with the definitions for the destination; empty if they equal the
        definitions here.

        A live guest has two definitions: as it runs, and as it starts next time. If the second one
        is missing, it would come back with the CPUs of this host (CVE-2020-17376 of Nova).

        :param flattened: targets of copied disks, which have no image behind them now.
        """
        numa = self.move.get("numa")
        emulator = distribution.emulator_there(self.destination, domain.XMLDesc(0))
        if (
            numa is None
            and not flattened
            and not passthrough.names(self.devices)
            and emulator is None
        ):
            return {}
        flags = {}
        if live:
            flags[libvirt.VIR_MIGRATE_PARAM_DEST_XML] = libvirt.VIR_DOMAIN_XML_MIGRATABLE
            if domain.isPersistent():
                flags[libvirt.VIR_MIGRATE_PARAM_PERSIST_XML] = libvirt.VIR_DOMAIN_XML_INACTIVE
        else:
            flags[libvirt.VIR_MIGRATE_PARAM_DEST_XML] = libvirt.VIR_DOMAIN_XML_INACTIVE
        own = {
            name: domain.XMLDesc(libvirt.VIR_DOMAIN_XML_SECURE | flag)
            for name, flag in flags.items()
        }
        bind = confined if self.move.get("resized") else rebound
        definitions = {
            name: text if numa is None else bind(text, numa) for name, text in own.items()
        }
        definitions = {
            name: passthrough.with_devices_there(text, self.devices)
            for name, text in definitions.items()
        }
        if emulator is not None:
            definitions = {
                name: distribution.with_emulator(text, emulator)
                for name, text in definitions.items()
            }
        if flattened:
            definitions = {
                name: _without_backing(text, flattened) for name, text in definitions.items()
            }
        return definitions if definitions != own else {}

    def _explained(self, error: Exception, storage: Storage, live: bool) -> Exception:
        text = binding.text_of(error)
        if binding.code_of(error) == libvirt.VIR_ERR_MIGRATE_UNSAFE:
            cached = [
                f["path"]
                for f in storage.files
                if f["mode"] == "shared" and f["cache"] not in ("none", "directsync")
            ]
            return LibvirtProblem(
                f"libvirt calls it unsafe ({text}): the file system of"
                f" {', '.join(cached) or 'its disks'} is shared, but libvirt cannot know that, and"
                " the disk's cache mode is not none. Set cache='none' in the domain's <driver>, or"
                " shut it down and move it cold"
            )
        if self._abort_asked():
            return Aborted("it was aborted on request")
        if live and self.record["escalated"]:
            return LibvirtProblem(
                f"it was not done within {self.record['limit']}"
                f" s{AFTERWARDS[self.record['escalated']]}"
            )
        if binding.code_of(error) in _OF_SETUP:
            options: Mapping[str, object] = self.options
            advice = [
                f"{words.format(where=self.move['destination'])}, or leave {option} out"
                for option, words in ADVICE
                if options.get(option)
            ]
            if advice:
                return LibvirtProblem(f"{text}: {'; '.join(advice)}")
        return error

    def _time_limit(self, storage: Storage) -> float:
        domain = self.source.lookupByUUIDString(self.uuid)
        return time_limit(
            self.options,
            domain.maxMemory() >> 20,
            [(entry["capacity"] or 0) >> 30 for entry in storage.copied("disk")],
        )

    # -- the end -----------------------------------------------------------------------------

    def _conclude(self, verdict: str, error: Exception | None = None) -> None:
        """Judge the verdict after a migration, ours or one taken over, and clean up."""
        at_source, at_destination = self._read_both_sides()
        if verdict == state.THERE:
            self._arrived(_require_domain(at_destination, "destination"), error)
        elif verdict in (state.OFF_HERE, state.BOTH_OFF) and self._may_finish(verdict):
            self.save(phase="cleaning")
            _undefine_quietly(self.source, self.uuid)
            at_source, at_destination = self._read_both_sides()
            if at_source is None and at_destination is not None:
                self._arrived(at_destination, error)
            else:
                self._record_end(
                    "conflict",
                    f"{self._title()}: it is at the destination, but its definition at the source"
                    " cannot be removed.",
                )
        elif verdict in (state.HERE, state.OFF_THERE):
            self._came_to_nothing(error)
        elif verdict == state.NOWHERE:
            if self._is_begun():
                self._record_end(
                    "lost",
                    f"{self._title()}: neither host knows the domain any more. Its disks are"
                    " untouched; look at both hosts' logs.",
                )
            else:
                self._record_end(
                    "failed",
                    f"There is no domain {self.uuid} at the source, nor on"
                    f" {self.move['destination']}.",
                )
        elif verdict == state.BROKEN:
            self._record_end(
                "conflict",
                f"{self._title()}: its post-copy broke off, and its memory is partly on each host,"
                " so neither copy may be thrown away. Nothing was repaired. Mend the network"
                " between the two and run this again: it goes on from there.",
            )
        elif verdict == state.ARRIVING:
            self._record_end(
                "conflict",
                f"{self._title()}: it waits paused at the destination for a migration that has"
                " ended. Nothing was repaired: look at both hosts.",
            )
        else:
            what = (
                "runs on both hosts" if verdict == state.BOTH_ACTIVE else "is known to both hosts"
            )
            self._record_end(
                "conflict",
                f"{self._title()}: the domain {what} (source: {self.record['source_state']},"
                f" destination: {self.record['destination_state']}) and no migration is under way."
                " Nothing was repaired: the source is the truth. Look at both, then remove the one"
                " that is wrong.",
            )

    def _may_finish(self, verdict: str) -> bool:
        """Return True if the definition that is left at the source is the last step of this
        move.
        """
        if not self.record["took_over"] and self.record["phase"] not in ("verifying", "cleaning"):
            return False
        if verdict == state.OFF_HERE:
            return self.record["was"] in ("running", "paused") and self._is_begun()
        # Both are off: the files decide. Begun means that every copy was complete and verified.
        return (self.record["was"] == "shutoff" or self.record["shut_down"]) and self._is_begun()

    def _arrived(self, there: DomainState, error: Exception | None) -> None:
        """Finish a move with the instance at the destination only: verify, carry over, clean the
        source.
        """
        if self.previous is not None and self.previous["status"] == "completed":
            # This is a repeated call after the end: the answer is the earlier one, with the present
            # states. By now the instance may have been started there, or have stopped.
            self.record = {
                **self.previous,
                "move": self.record["move"],
                "source_state": self.record["source_state"],
                "destination_state": self.record["destination_state"],
            }
            self.save()
            self.records.forget_abort(self.uuid)
            return
        usual = {"running": ("running", "blocked"), "paused": ("paused",), "shutoff": ("shutoff",)}
        expected_states: tuple[str, ...] = usual.get(self.record["was"] or "", ())
        if not expected_states:
            # The state before the move is not known: running and shut off are both a normal end of
            # a move.
            expected_states = (
                ("shutoff",)
                if self.move.get("live") is False
                else ("running", "blocked", "paused", "shutoff")
            )
        notes = []
        if self.record["shut_down"] and there["state"] == "shutoff":
            notes.append(self._start_there())
            there = _require_domain(self._read_both_sides()[1], "destination")
            expected_states += ("shutoff",)
        if (
            self.record["escalated"] == "pause"
            and self.record["was"] == "running"
            and there["state"] == "paused"
        ):
            there = self._resume_there(there)
        if there["state"] not in expected_states:
            self._record_end(
                "conflict",
                f"{self._title()}: it is gone from the source, but {there['state']} at the"
                f" destination where it should be {expected_states[0]}. Look at it there (virsh"
                f" domstate --reason {self.uuid}).",
            )
            return
        self.save(phase="cleaning")
        storage = self.storage()
        notes += self._record_snapshots(lambda: self.destination)
        if self.record["autostart"] is not None and there["persistent"]:
            try:
                self.destination.lookupByUUIDString(self.uuid).setAutostart(
                    int(self.record["autostart"])
                )
            except libvirt.libvirtError as exc:
                notes.append(f"its autostart flag could not be set ({binding.text_of(exc)})")
        if self.record["files"]:
            storage.drop_sources()
        elif self.previous is None and binding.is_local(self.source_uri):
            storage.name_leftovers(self.destination.lookupByUUIDString(self.uuid).XMLDesc(0))
        storage.drop_temporary()
        storage.drop_probes()
        kept = mdevs.remove(
            self.source, [each["uuid"] for each in self.devices["mdevs"]], self.uuid
        )
        if kept:
            notes.append(f"left at the source: {', '.join(_mdev_left(each) for each in kept)}")
        if self.record["leftovers"]:
            notes.append(f"left at the source: {_with_reasons(self.record)}")
        if self._abort_asked():
            notes.append("it was too late to abort it")
        self._read_both_sides()
        self.record.update({"total_mib": state.moved_mib(self.destination, self.uuid)})
        if self.record["storage"] is None and self.previous is not None:
            self.record["storage"] = self.previous["storage"]
        self._record_end("completed", "; ".join(notes), storage=self.record["storage"])

    def _record_snapshots(self, conn: Callable[[], Any]) -> list[str]:
        """Give libvirt the records of the snapshots again at the host of the instance; return the
        notes about this.
        """
        for last in (False, True):
            try:
                _snapshot_records.give_back(conn().lookupByUUIDString(self.uuid))
                break
            except libvirt.libvirtError as exc:
                if binding.code_of(exc) == libvirt.VIR_ERR_NO_DOMAIN:
                    break
                if last:
                    return [
                        "libvirt there did not take the records of its snapshots"
                        f" ({binding.text_of(exc)}), and they stay in the metadata of the domain:"
                        f" run drover.compute.instance_snapshot for {self.record['name']}, which"
                        " gives them to libvirt before anything else"
                    ]
                # This look opens a broken connection again.
                self._read_both_sides()
        return []

    def _start_there(self) -> str:
        """Start a guest that was shut down for the move; the source is known to be without it.
        Return the words about this for the message.
        """
        try:
            power.boot(self.destination.lookupByUUIDString(self.uuid))
        except libvirt.libvirtError as exc:
            return (
                "it was shut down to be moved and CANNOT BE STARTED there"
                f" ({binding.text_of(exc)}): start it by hand"
            )
        return (
            f"it was not done within {self.record['limit']} s, so it was shut down, moved cold and"
            " started again"
        )

    def _resume_there(self, there: DomainState) -> DomainState:
        """Resume a guest that was paused for the move, if libvirt has not resumed it."""
        try:
            self.destination.lookupByUUIDString(self.uuid).resume()
        except libvirt.libvirtError:
            return there
        return _require_domain(self._read_both_sides()[1], "destination")

    def _came_to_nothing(self, error: Exception | None = None) -> None:
        """End a move with the instance at the source only: give it back as it was and remove the
        copies at the destination.
        """
        changes: dict[str, object] = {}
        given_back = (
            "".join(f"; {each}" for each in self._record_snapshots(lambda: self.source))
            + self._give_back()
        )
        at_source, at_destination = self._read_both_sides()
        storage = self.storage()
        storage.drop_probes()
        if at_destination is None:
            self._drop_there(storage)
        if error is not None:
            message = _reason(error)
        elif self._abort_asked():
            message = "it was aborted on request"
        elif self._never_began():
            message, changes = "it had not begun", {"phase": self.record["phase"]}
        else:
            message = "the worker that moved it died and the migration did not go through"
        message += given_back
        if (
            self.record["was"] == "running"
            and at_source is not None
            and at_source["state"] == "paused"
        ):
            # libvirt resumes a guest after a failed migration by itself; if it did not, a person
            # must know.
            message += "; it is paused at the source now, look at it and resume it (virsh resume)"
        notes = f" Left behind: {_with_reasons(self.record)}." if self.record["leftovers"] else ""
        self._record_end(
            "failed",
            f"{self._title()} failed: {message.rstrip('.')}. It is {self.record['source_state']} at"
            f" the source.{notes}",
            **changes,
        )


def _require_domain(seen: DomainState | None, side: str) -> DomainState:
    """Return the sighting of an instance that must be there.

    :raises LibvirtProblem: it is gone.
    """
    if seen is None:
        raise LibvirtProblem(f"it is gone from the {side}, where it was a moment ago")
    return seen


def precheck(
    source: Any,
    destination: Any,
    domain: Any,
    move: Move,
    here: DomainState,
    storage: Storage,
) -> list[str]:
    """Return all reasons against a move, each a few words, and put the files of the domain into the
    record of ``storage``.
    """
    text = domain.XMLDesc(0)
    # A guest that runs has two definitions, and both go along.
    next_start = (
        domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
        if here["persistent"] and here["active"]
        else None
    )
    live = checks.is_live(move, here)
    reasons = checks.state_reasons(domain, move, here)
    reasons += checks.host_reasons(source, destination, move)
    reasons += checks.twin_reasons(destination, move, here, move["destination"])
    devices = move.get("devices") or passthrough.NONE
    bindings = reading.read(
        next_start or text, text if next_start else None, passthrough.names(devices)
    )
    reasons += checks.device_reasons(bindings, live)
    reasons += far.reasons(
        destination, bindings, storage.same, move.get("addresses_there") or (), live, move["uuid"]
    )
    numa = move.get("numa")
    if numa is not None and not move.get("resized"):
        reasons += _by_both(lambda each: rebinding.reasons(each, numa), text, next_start)
    if live:
        reasons += passthrough.live_reasons((source, destination), devices, merged(move))
        reasons += checks.cpu_reasons(source, destination, text)
        reasons += checks.memory_reasons(destination, domain, move["destination"])
        reasons += contradictions(merged(move)) + version_reasons(
            source, destination, merged(move), move["destination"]
        )
        if move.get("tls") and binding.is_local(storage.record["source_uri"]):
            reasons += certificate_reasons(destination, move["destination"])
        if move.get("on_timeout") == "shutdown" and not here["persistent"]:
            reasons.append(
                "on_timeout is shutdown, but it is transient and would be gone once it is shut"
                " down: choose another on_timeout"
            )
    where = move["destination"]
    reasons += _by_both(lambda each: offered.reasons(destination, each, where), text, next_start)
    reasons += _by_both(
        lambda each: checks.network_reasons(
            destination, passthrough.with_devices_there(each, devices), where
        ),
        text,
        next_start,
    )
    reasons += _by_both(lambda each: missing_secrets(destination, each, where), text, next_start)
    files, storage_reasons = survey(source, domain, text, next_start)
    storage.record["files"] = files
    # A problem with the files at the source is the same for each destination.
    storage.record["at_source"] = storage_reasons
    reasons += storage_reasons
    reasons += storage.decide(live)
    reasons += snapshots.reasons(domain, storage)
    reasons += _by_both(lambda each: checks.boot_reasons(storage.same, each), text, next_start)
    if live and move.get("tunnelled") and storage.copied("disk"):
        reasons.append(
            "its disks are on storage of this host only, and tunnelled carries memory, not disks:"
            " leave tunnelled out (tls encrypts both)"
        )
    return reasons


def _by_both(reasons: Callable[[str], list[str]], text: str, next_start: str | None) -> list[str]:
    """Return the reasons in both definitions of a guest; a reason of its next start alone says so.

    :param next_start: None for a guest that has one definition.
    """
    found = reasons(text)
    later = reasons(next_start) if next_start is not None else []
    return found + [f"as it starts next time, {each}" for each in later if each not in found]


def proven_safe(storage: Storage) -> bool:
    """Return True if each writable disk is copied, or is proven shared and bypasses the host's
    cache.
    """
    return all(
        entry["mode"] == "copied"
        or (entry["mode"] == "shared" and entry["cache"] in ("none", "directsync"))
        for entry in storage.files
        if entry["kind"] == "disk" and not entry.get("next_start")
    )


def _reason(error: Exception) -> str:
    if not isinstance(error, libvirt.libvirtError):
        return str(error)
    text = binding.text_of(error)
    if binding.domain_of(error) == libvirt.VIR_FROM_RPC:
        return f"QEMU ended, or the connection to libvirt broke, in the middle ({text})"
    return text


def _autostart(domain: Any) -> bool | None:
    try:
        return bool(domain.autostart())
    except libvirt.libvirtError:
        return None


def _without_backing(text: str, targets: Collection[str]) -> str:
    root = parse(text)
    for disk in root.findall("devices/disk"):
        target = disk.find("target")
        if target is not None and target.get("dev") in targets:
            for layer in disk.findall("backingStore"):
                disk.remove(layer)
    keep_prefixes(text)
    return ET.tostring(root, encoding="unicode")


def _mdev_left(each: Mapping[str, str]) -> str:
    return f"the mediated device {each['uuid']} ({each['reason']})"


def _undefine_quietly(conn: Any, uuid: str) -> None:
    """Undefine a domain that is shut off and keep its files; the next look shows if the domain is
    gone.
    """
    with contextlib.suppress(libvirt.libvirtError):
        domain = conn.lookupByUUIDString(uuid)
        if not domain.isActive():
            undefine(domain)


def _with_reasons(record: MoveRecord) -> str:
    """Return the files that were left, each with the reason if one is known."""
    reasons = {each["path"]: each["reason"] for each in record["kept"]}
    return ", ".join(
        f"{path} ({reasons[path]})" if path in reasons else path for path in record["leftovers"]
    )
