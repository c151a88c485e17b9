# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Moves between simulated hypervisors, answered as the module _domain_migration does.

A Job is libvirt's part; a Worker is the process that begins it, watches it and reports its result,
by the rules of module_utils/_migration/worker.py, with separate verdicts on the states of both
sides. test_simulator.py compares the two.
"""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.module_utils._migration import state
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.tests.scenarios.simulated import (
    INCOMING,
    Broken,
    Domain,
    Violation,
)

#: Seconds of each phase; the copy of the memory takes a second for each MIB_PER_SECOND.
CHECK, PREPARE, HANDOVER, CLEAN_UP = 1.0, 1.0, 0.5, 1.0
MIB_PER_SECOND = 256
#: The values of _migration.worker.
SETTLE, SETTLE_BEFORE, RECONNECT, POLL, POLL_TURN, READY, CHECKED = 20, 5, 60, 0.5, 0.05, 2, 30
ENDED = ("completed", "failed", "cancelled", "conflict", "lost")
BEFORE = ("checking", "waiting")
SETTLED = ("completed", "failed", "cancelled")


class Job:
    """A migration inside libvirt of the source: it continues without its caller."""

    def __init__(self, fleet, order):
        self.fleet, self.uuid, self.name = fleet, order["uuid"], order["name"]
        self.source, self.destination = order["source"], order["destination"]
        self.phase, self.error, self.refused = "check", None, None

    @property
    def here(self):
        return self.fleet.hosts[self.source].domains

    @property
    def there(self):
        return self.fleet.hosts[self.destination].domains

    def course(self, live):
        """Copy the memory, then hand over; a cold move sends only a definition."""
        domain = self.here[self.uuid]
        self.was = domain.state
        self.fleet.jobs.append(self)
        self.fleet.count()
        self.phase = "copy"
        size = {"vcpus": domain.vcpus, "memory_mb": domain.memory_mb}
        seconds = domain.memory_mb / MIB_PER_SECOND if live else 1.0
        if live:
            domain.job = True
            self.there[self.uuid] = Domain(
                self.name, "paused", reason=INCOMING, job=True, persistent=False, **size
            )
        yield seconds / 2
        self.fleet.happen("copy", self.name, self)
        yield seconds / 2
        if self not in self.fleet.jobs:
            return
        self.phase = "handover"
        if live:
            domain.state = "paused"
            self.there[self.uuid] = Domain(self.name, self.was, **size)
        else:
            self.there[self.uuid] = Domain(self.name, "shutoff", **size)
        self.fleet.check()
        yield HANDOVER / 2
        self.fleet.happen("handover", self.name, self)
        yield HANDOVER / 2
        if self in self.fleet.jobs:
            self.fleet.jobs.remove(self)
            del self.here[self.uuid]
            self.fleet.check()

    def _end(self, error):
        if self in self.fleet.jobs:
            self.fleet.jobs.remove(self)
            self.here[self.uuid].job = False
        self.error = error

    def fail(self, error):
        """Let libvirt fail: before the handover the source continues, afterwards the lock of its
        disk keeps it paused."""
        if self in self.fleet.jobs and self.phase == "copy":
            self.there.pop(self.uuid, None)
        self._end(error)

    def break_off(self):
        """Let the two hosts lose their connection."""
        self.fail("client socket is closed")

    def end_by_death(self, host):
        """Let one of the two hosts lose its power."""
        if host == self.destination:
            self.there.pop(self.uuid, None)
            self.here[self.uuid].state = self.was
        elif self.phase == "copy":
            self.there.pop(self.uuid, None)
        self._end("client socket is closed")


class Worker:
    """A worker that carries one move out, or settles it."""

    def __init__(self, fleet, order, may_start, most=None):
        self.fleet, self.order, self.most = fleet, order, most
        self.uuid, self.host = order["uuid"], fleet.hosts[order["source"]]
        self.may_start = (
            may_start and order.get("begin", True) and order["migration"] not in self.host.withdrawn
        )
        self.previous = self.host.records.get(self.uuid)
        if self.previous is not None and self.previous["destination"] != order["destination"]:
            self.previous = None
        self.job = Job(fleet, order)
        self.record = {
            "destination": order["destination"],
            "status": "running",
            "phase": "checking",
            "started_at": fleet.clock.now,
            "finished_at": None,
            "message": "",
            "was": None,
            "took_over": False,
            "order": order,
            "source_state": None,
            "destination_state": None,
        }

    def alive(self):
        return self.host.workers.get(self.uuid) is self

    def _turn_has_come(self):
        """Release the places of a worker at its end."""
        self.host.turns = [each for each in self.host.turns if each.alive()]
        return self.most is None or self.host.turns.index(self) < self.most

    def _is_to_be_checked(self):
        checks = self.host.checks = [each for each in self.host.checks if each.alive()]
        return checks.index(self) < min(
            self.most, READY * self.most - sum(each.alive() for each in self.host.turns)
        )

    def _leave(self):
        for line in (self.host.checks, self.host.turns):
            if self in line:
                line.remove(self)

    def start(self):
        """Run until the end, or until it is killed."""
        self.host.workers[self.uuid] = self
        self.fleet.clock.start(self._guarded())

    def _guarded(self):
        course = self._course()
        while self.alive():
            try:
                seconds = next(course, None)
            except Broken as problem:
                self._look_at_source()
                begun = self._begun() or self.record["took_over"]
                self._end(
                    "lost" if begun else "failed",
                    f"{problem}. " + ("Start the move again." if begun else "Not begun."),
                )
                return
            if seconds is None:
                return
            yield seconds

    def _begun(self):
        return self.record["phase"] in ("migrating", "verifying", "cleaning")

    def _save(self, **changes):
        self.record.update(changes)
        self.host.records[self.uuid] = self.record

    def _abort_asked(self):
        return self.host.aborts.get(self.uuid, "") == self.order["migration"]

    def _end(self, status, message=""):
        if status == "failed" and self._abort_asked():
            status = "cancelled"
        if status in SETTLED:
            self.host.aborts.pop(self.uuid, None)
            self.host.withdrawn.update({self.order["migration"]} - {None})
        phase = "done" if status in SETTLED else self.record["phase"]
        self._leave()
        self._save(status=status, message=message, finished_at=self.fleet.clock.now, phase=phase)
        self.host.workers.pop(self.uuid, None)

    def _look_at_source(self):
        self.record.update(source_state=None, destination_state=None)
        try:
            domain = self.fleet.look(self.order["source"], self.uuid, self.order["source"])
        except Broken:
            return
        if domain is None or not domain["job"]:
            self.record["source_state"] = state.state_word(domain)

    def _look(self):
        """Return the states of both sides, with patience for a lost connection."""
        end = self.fleet.clock.now + RECONNECT
        while True:
            try:
                source_domain = self.fleet.look(
                    self.order["source"], self.uuid, self.order["source"]
                )
                destination_domain = self.fleet.look(
                    self.order["destination"], self.uuid, self.order["source"]
                )
                break
            except Broken:
                if not self._begun() or self.fleet.clock.now >= end:
                    raise
                yield 2
        words = state.state_word(source_domain), state.state_word(destination_domain)
        self.record.update(source_state=words[0], destination_state=words[1])
        return source_domain, destination_domain

    def _settled(self):
        """Return the verdict when both sides agree, or patience ends."""
        end = self.fleet.clock.now + (SETTLE if self._begun() else SETTLE_BEFORE)
        while True:
            here, there = yield from self._look()
            verdict = state.classify(here, there)
            unsure = verdict in (state.ARRIVING, state.BOTH_ACTIVE, state.NOWHERE, state.OFF_HERE)
            if (
                not unsure
                or self.fleet.clock.now >= end
                or (verdict == state.NOWHERE and not self._begun())
            ):
                return verdict
            yield POLL

    def _course(self):
        if self._was_cancelled():
            self.record = self.previous
            self._save()
            self.host.workers.pop(self.uuid, None)
            return
        if self.previous is not None and self.previous["status"] not in SETTLED:
            self.record.update(
                {key: self.previous[key] for key in ("was", "started_at", "phase")}, took_over=True
            )
        self._save()
        verdict = yield from self._settled()
        if verdict == state.MOVING:
            if not self.record["took_over"] and not self._abort_asked():
                self._end(
                    "failed", "It was refused: a job that this run did not begin is under way."
                )
                return
            verdict = yield from self._followed()
        if verdict == state.HERE and self.may_start and not self._abort_asked():
            yield from self._begin()
        elif verdict == state.OFF_THERE and not self._begun():
            self._end(
                "failed", "It was refused: the destination has a definition of it that is shut off."
            )
        else:
            yield from self._conclude(verdict)

    def _was_cancelled(self):
        """Return True if this very migration of the store was aborted: it is not begun again."""
        return self._was_of_this_migration() and self.previous["status"] == "cancelled"

    def _was_of_this_migration(self):
        mine = self.order["migration"]
        return (
            self.previous is not None
            and mine is not None
            and self.previous["order"]["migration"] == mine
        )

    def _is_new(self):
        """Return True if no worker can have begun it."""
        return self.previous is None or (
            self.previous["status"] in SETTLED and not self._was_of_this_migration()
        )

    def _heed_abort(self):
        """Let libvirt abort the job of a live move, before its handover."""
        for job in self.fleet.jobs:
            if (
                job.uuid == self.uuid
                and job.phase == "copy"
                and self.order["live"]
                and self._abort_asked()
            ):
                job.fail("operation aborted: migration out job: canceled by client")
                return

    def _begin(self):
        order, job = self.order, self.job
        if self.most is not None and self._is_new():
            self.host.checks.append(self)
            began = self.fleet.clock.now
            while (
                not self._is_to_be_checked()
                and not self._abort_asked()
                and self.fleet.clock.now - began < CHECKED
            ):
                self._save(phase="waiting")
                yield POLL_TURN
            if self._abort_asked():
                self._end("failed", "It did not go through.")
                return
        self._save(phase="checking", took_over=False, started_at=self.fleet.clock.now)
        yield CHECK / 2
        self.fleet.happen("check", order["name"], job)
        yield CHECK / 2
        source_domain, _there = yield from self._look()
        job.refused = job.refused or self.fleet.refusal(order["name"], order["destination"])
        if source_domain["active"] != order["live"]:
            job.refused = f"it is {source_domain['state']}"
        if job.refused:
            self._end("failed", f"It was refused: {job.refused}.")
            return
        self._save(was=source_domain["state"])
        self._leave()
        self.host.turns.append(self)
        if not self._turn_has_come():
            self._save(phase="waiting")
            while not self._turn_has_come():
                if self._abort_asked():
                    self._end(
                        "failed", "It failed before anything was moved: it was aborted on request."
                    )
                    return
                yield POLL_TURN
            self._save(started_at=self.fleet.clock.now)
        self._save(phase="preparing")
        self.fleet.most = max(
            self.fleet.most, sum(each.moves() for each in self.host.workers.values())
        )
        yield PREPARE / 2
        self.fleet.happen("prepare", order["name"], job)
        yield PREPARE / 2
        yield from self._look()
        if self._abort_asked():
            job.error = "it was aborted on request"
        if job.error:
            self._end("failed", f"It failed before anything was moved: {job.error}.")
            return
        self._save(phase="migrating")
        self.fleet.clock.start(job.course(order["live"]))
        yield POLL
        while job in self.fleet.jobs:
            self._heed_abort()
            yield POLL
        self._leave()
        self._save(phase="verifying")
        verdict = yield from self._settled()
        yield from self._conclude(verdict)

    def moves(self):
        return self.record["phase"] in ("preparing", "migrating")

    def _followed(self):
        self._save(phase="migrating")
        self.host.turns.insert(0, self)
        while any(job.uuid == self.uuid for job in self.fleet.jobs):
            self._heed_abort()
            yield POLL
        return (yield from self._settled())

    def _conclude(self, verdict):
        source_domain, destination_domain = yield from self._look()
        if verdict == state.THERE:
            yield from self._arrived(destination_domain)
        elif (
            verdict in (state.OFF_HERE, state.BOTH_OFF)
            and self._begun()
            and (self.record["was"] == "shutoff") == (verdict == state.BOTH_OFF)
        ):
            del self.host.domains[self.uuid]
            source_domain, destination_domain = yield from self._look()
            yield from self._arrived(destination_domain)
        elif verdict in (state.HERE, state.OFF_THERE):
            words = (
                "; it is paused at the source now, resume it"
                if self.record["was"] == "running" and source_domain["state"] == "paused"
                else ""
            )
            self._end("failed", f"{self.job.error or 'it did not go through'}{words}.")
        elif verdict == state.NOWHERE:
            self._end("lost" if self._begun() else "failed", "Neither host knows it.")
        else:
            self._end("conflict", "Both hosts know it. Nothing was repaired.")

    def _arrived(self, there):
        was = self.record["was"]
        if was is not None and there["state"] != was:
            self._end(
                "conflict", f"It is gone from the source, but {there['state']} at the destination."
            )
            return
        self._save(phase="cleaning")
        yield CLEAN_UP / 2
        self.fleet.happen("cleanup", self.order["name"], self.job)
        yield CLEAN_UP / 2
        yield from self._look()
        self._end("completed")


class Module:
    """The source host's domain_migration, as the conductor's Mover calls it.

    :param open_moves: a function () -> {(uuid, source, destination)} of the open moves of the
        store.
    :param most: number of moves at a time; the others wait.
    """

    def __init__(self, fleet, host, open_moves, most=None):
        self.fleet, self.host, self.open_moves, self.most = fleet, host, open_moves, most

    def __call__(self, start, follow, wait, until=None, abort=(), news_within=None, waiting=()):
        self._reach()
        server = self.fleet.hosts[self.host]
        known = self.open_moves() if start else ()
        for order in start:
            if (order["uuid"], order["source"], order["destination"]) not in known:
                raise Violation(
                    f"the move of {order['name']} is begun, and the store knows nothing of it"
                )
            if order["uuid"] not in server.workers:
                Worker(self.fleet, order, True, self.most).start()
        for order in abort:
            self._abort(server, order)
        for order in follow:
            record = server.records.get(order["uuid"])
            mine = record is not None and record["order"]["migration"] == order["migration"]
            if mine and record["status"] not in ENDED and order["uuid"] not in server.workers:
                Worker(self.fleet, record["order"], False).start()
        orders = [*start, *abort, *follow]
        self.fleet.clock.sleep(0)
        if until is None:
            until = len(self._under_way(orders)) - 1

        def over():
            return len(self._under_way(orders)) <= until or not self._reachable()

        end = self.fleet.clock.now + wait
        self.fleet.clock.sleep(
            wait, lambda: over() or (news_within is not None and self._is_news(orders, waiting))
        )
        self.fleet.clock.sleep(max(0, min(end - self.fleet.clock.now, news_within or 0)), over)
        self._reach()
        return [self.answer(order) for order in orders]

    def check(self, order):
        """Return the result of a check of the move, as the module returns it."""
        self._reach()
        answer = {
            "uuid": order["uuid"],
            "name": order["name"],
            "destination": order["destination"],
            "ok": False,
            "would_start": False,
            "message": "",
            "why": "",
            "reached": True,
            "storage": "none",
            "copies_disk_mib": None,
            "copied_disks": {},
            "source_state": None,
            "destination_state": None,
        }
        try:
            source_domain, destination_domain = (
                self.fleet.look(host, order["uuid"], self.host)
                for host in (self.host, order["destination"])
            )
        except Broken as problem:
            return {
                **answer,
                "message": f"{problem}.",
                "why": f"it cannot be reached: {problem}",
                "reached": False,
            }
        answer.update(
            source_state=state.state_word(source_domain),
            destination_state=state.state_word(destination_domain),
        )
        reason = self.fleet.refusal(order["name"], order["destination"])
        if source_domain is None:
            reason = "it is not here"
        elif source_domain["active"] != order["live"] and not order.get("will_stop"):
            reason = f"it is {source_domain['state']}"
        elif destination_domain is not None:
            reason = "the destination has it already"
        if reason:
            message = f"{order['name']} cannot be moved to {order['destination']}: {reason}."
            return {**answer, "message": message, "why": reason}
        return {**answer, "ok": True, "would_start": True}

    def _abort(self, here, order):
        """Record the abort, and start a worker if none is alive."""
        record = here.records.get(order["uuid"])
        if (
            record is not None
            and record["status"] == "cancelled"
            and record["order"]["migration"] == order["migration"]
        ):
            return
        here.aborts[order["uuid"]] = order["migration"]
        if order["uuid"] not in here.workers:
            Worker(self.fleet, order, False).start()

    def _reachable(self):
        return self.fleet.hosts[self.host].on and self.fleet.hosts[self.host].answers

    def _reach(self):
        if not self._reachable():
            raise DroverError(
                f"Host {self.host} cannot be reached: timed out. Migrations that had begun go on by"
                " themselves."
            )

    def _under_way(self, orders):
        server = self.fleet.hosts[self.host]
        return {
            order["uuid"]
            for order in orders
            if server.records.get(order["uuid"], {}).get("status") == "running"
        }

    def _is_news(self, orders, waiting):
        """Return True if one has ended, or one of the waiting moves has begun."""
        records = self.fleet.hosts[self.host].records
        begun = [uuid for uuid in waiting if records.get(uuid, {}).get("phase") not in BEFORE]
        return begun or len(self._under_way(orders)) < len(orders)

    def answer(self, order):
        """Return one move as the module returns it."""
        server = self.fleet.hosts[self.host]
        record = server.records.get(order["uuid"])
        if record is not None and record["order"]["migration"] != order["migration"]:
            record = {"status": "lost", "message": "Another move of it is recorded on this host."}
        if record is None:
            domain = server.domains.get(order["uuid"])
            word = state.state_word(domain.seen() if domain else None)
            record = {
                "status": "lost",
                "message": "No move of it is recorded on this host.",
                "source_state": word,
            }
        status, started = record["status"], record.get("started_at")
        finished = record.get("finished_at") or self.fleet.clock.now
        return {
            "uuid": order["uuid"],
            "name": order.get("name"),
            "destination": order.get("destination"),
            "migration": record.get("order", order)["migration"],
            "status": status,
            "phase": record.get("phase"),
            "percent": 100 if status == "completed" else 0,
            "total_mib": None,
            "remaining_mib": 0 if status == "completed" else None,
            "elapsed_s": round(finished - started, 1) if started else None,
            "copies": None,
            "message": record["message"],
            "storage": "shared",
            "source_state": record.get("source_state"),
            "destination_state": record.get("destination_state"),
            "leftovers": [],
            "kept": [],
            "removed": [],
        }
