# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The evacuation of a dead host: its order, from the first look to the last restart.

Power drivers are tasks of the role power, so the run has two halves: judge() before the power is
cut, restart() after it. The lease of the host stays with the run between them. Each step is in the
store before it is done. If an evacuation is killed, the next one settles the open steps and
continues.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from .._common import certainty
from .._common.errors import Answers, DroverError, as_sentence, counted
from .._evacuation import fencing, host_answer
from .._records.outcomes import EvacuationResult, RestartOutcome
from .._records.plans import EvacuationPlan, StayingInstance
from .._report.plans import evacuation_lines
from .._store.database import clock
from .._store.engine import Connection
from .._store.hosts import power, services, storage_fences
from .._store.instances import evacuations
from .._store.runs import leases
from . import (
    asking,
    evacuation_forecast,
    evidence,
    host_state,
    returned_host,
    starting,
    storage_fencing,
)
from .dead_host import DeadHost
from .evacuation_request import FAIL, EvacuationRequest
from .evacuation_restarts import EvacuationRestarts
from .evacuation_settling import EvacuationSettling
from .ports import Hand, Ports
from .starting import Starting

#: Seconds of the lease: the time that a look at the whole fleet may take. A run that ends or is
#: killed holds no lease.
LEASE = 3600
#: Seconds that the service manager of the host may take to restart libvirt.
SERVICE = 120
#: The socket of the modular daemon. virtproxyd has the socket of libvirtd, so that one proves
#: nothing.
VIRTQEMUD = "/run/libvirt/virtqemud-sock"
#: Seconds that the last probe of the dead host stays valid. A later start probes it again.
SILENCE = 15
#: Seconds until libvirt gives up a move from a dead host, by its keepalives (half a minute unless
#: set); and seconds between two looks.
INCOMING, LOOK_AGAIN = 60, 5
#: Number of times that a restarted libvirt is read, and seconds between them.
TRIES, DELAY = 6, 2

#: The advice in the error of a run that leaves instances.
SKIPS = "With drover_unmovable=skip a run ends without an error here."


class Evacuation:
    """One run of an evacuation."""

    #: The last plan.
    plan: EvacuationPlan

    def __init__(self, ports: Ports, request: EvacuationRequest) -> None:
        self.request, self.host, self._ports = request, request.host, ports
        self._store, self._hosts, self._leasing, self._clock = (
            ports.store,
            ports.hosts,
            ports.leasing,
            ports.clock,
        )
        self._show = ports.say
        #: The instances of the host, and the hosts that were read and still answer.
        self._dead = DeadHost(
            ports.store, self.host, (), self._renew_lease, request.lifted, ports.clock
        )
        self._settling = EvacuationSettling(self._dead)
        self._restarts, self._proofs = (
            EvacuationRestarts(self._dead),
            Starting(ports, lambda: self._dead.read),
        )
        #: The destinations of failed starts: dict uuid of an instance -> {provider: the reason}.
        self.failed: dict[str, dict[str, str]] = {}
        #: The instances that are at their destination now.
        self.restarted: list[RestartOutcome] = []
        #: Sentences on failures.
        self.messages: list[str] = []
        self.changed = False
        #: The time of the last look that found the host silent, by the clock of the run.
        self._silent_at: float | None = None
        #: The fences of its storage, if they are the proof.
        self._fences: list[dict[str, object]] = []

    # Before its power is cut

    def judge(self, power_state: str) -> dict[str, object]:
        """Check that the host is dead, and decide if its power must be cut.

        The run keeps the lease.

        :param power_state: on, off, unknown or none, the answer of its power driver.
        :returns: a dict: changed, fence (True if its power must be cut and confirmed to be off),
            message, and refused: in a plan, the reason why the real run would restart nothing now.
        :raises DroverError: the host cannot be evacuated now; the lease is given back.
        """
        self._refuse_request()
        if self.request.plan_only:
            return self._judge(power_state)
        self._leasing.take(self.host, "evacuate", LEASE)
        try:
            return self._judge(power_state)
        except BaseException:
            self._leasing.release([self.host])
            raise

    def _judge(self, power_state: str) -> dict[str, object]:
        answer = self._hosts.answer(self.host)
        self._refuse_alive(self._answers())
        if power_state != "off":
            self._ports.own.refuse_dead(self.host)
        facts = evidence.collect(
            self._ports,
            self.host,
            self.request.others,
            power_state,
            bool(self.request.said),
            answer,
        )
        decision = self._decide(facts)
        if self.request.plan_only:
            why = evacuation_forecast.why_not(self._ports, self.host, decision, power_state)
            return self._make_result(False, why or decision.sentence, why)
        if decision.act == fencing.SOFT_FENCE:
            self._restart_libvirt()
            decision = self._decide(dataclasses.replace(facts, soft_fenced=True))
        if decision.act not in evacuation_forecast.GOES_ON:
            raise DroverError(f"{decision.sentence} Nothing was started elsewhere.")
        if self.request.said:
            self._take_word()
        # With the word of a person no fence is needed: the exact words are recorded (rule S1).
        # Without it, the power driver must confirm that the host is off, whatever it answered
        # before.
        return self._make_result(not self.request.said, decision.sentence)

    def _make_result(self, fence: bool, sentence: str, refused: str = "") -> dict[str, object]:
        return {"changed": self.changed, "fence": fence, "message": sentence, "refused": refused}

    def _refuse_request(self) -> None:
        with self._store.read() as connection:
            service = services.get(connection, self.host)
            down = services.down_reason(
                service, clock.now(connection), self.request.service_down_time
            )
        if down is None:
            raise DroverError(
                f"{self.host} is up in the store, so it is not evacuated; nothing was changed. A"
                " host that answers is emptied with drover.compute.drain. Where it does not"
                " answer, drover.compute.discover notices that; or say it: ansible localhost -m"
                f" drover.compute.host -a 'host={self.host} forced_down=true'"
            )
        if service.last_seen_up is None:
            # An unread host is not empty. Do not cut its power for instances that the run could not
            # restart, for example after the loss of the store.
            raise DroverError(
                f"The store has never read {self.host}, so it does not know which instances are"
                " there, and could restart none; nothing was changed. If the store was made anew,"
                " restore its backup or an export (docs/backup.md) and run this again. Else get"
                f" {self.host} to answer, and run drover.compute.discover."
            )
        if self.request.said not in ("", fencing.words_of(self.host)):
            raise DroverError(
                f'drover_host_is_off is "{self.request.said}", which is not taken for an answer;'
                " nothing was changed. Go and see that "
                f"{self.host} is off, and then say exactly: -e"
                f" 'drover_host_is_off=\"{fencing.words_of(self.host)}\"'"
            )

    def _answers(self) -> bool:
        """Read the host. Return True if its libvirt answers, even with an unusable answer.

        A host with a dead libvirt may still run its guests; the evidence covers that case.
        """
        try:
            self._hosts.discover(self.host, self.request.call_timeout)
        except Answers:
            return True
        except DroverError:
            return False
        if not self.request.plan_only:
            self._close_open()
        return True

    def _close_open(self) -> None:
        """Close the open steps of a killed run, because the host came back before the next run."""
        sentences, staying = returned_host.settle(
            self._ports, self.host, self.request.start_timeout, self.request.call_timeout
        )
        self._say_sentences(sentences)
        self.messages += [*sentences, *(f"{each['name']}: {each['reason']}." for each in staying)]

    def _refuse_alive(self, answers: bool, before: str = "") -> None:
        if answers:
            raise DroverError(
                " ".join(
                    [
                        (
                            f"{before}{self.host} answers, so it is not evacuated: its instances"
                            " may run. Empty it with drover.compute.drain, or bring it back with"
                            " drover.compute.undrain."
                        ),
                        *self._messages(),
                    ]
                )
            )

    def _decide(self, known: fencing.Evidence) -> fencing.Decision:
        decision = fencing.decide(known, self.request.limits, self.request.lifted)
        self._show(decision.sentence)
        return decision

    def _restart_libvirt(self) -> None:
        """Restart libvirt on the host. It harms no guest, because guests run without libvirt."""
        hand = self._hosts.hand(self.host, SERVICE)
        service = self._hosts.variables(self.host).get("drover_libvirt_service")
        if not service:
            found = hand.read("ansible.builtin.stat", {"path": VIRTQEMUD}).get("stat") or {}
            service = "virtqemud" if found.get("exists") else "libvirtd"
        answer = hand.act("ansible.builtin.service", {"name": service, "state": "restarted"})
        if answer.result.get("failed") and _has_no_service(hand, service):
            raise DroverError(
                f"{self.host} answers over SSH and has no service {service} that could be"
                " restarted, so its instances may run. Set drover_libvirt_service in its"
                " variables. Nothing was started elsewhere."
            )
        for _dummy in range(TRIES):
            self._refuse_alive(
                self._answers(),
                f"The libvirt of {self.host} was dead. It was restarted, and answers again; its"
                " instances went on. ",
            )
            self._clock.sleep(DELAY)

    def _take_word(self) -> None:
        """Record that a person says that the host is off."""
        message = f"{self.request.operator} says: {self.request.said}"
        with self._dead.step() as (connection, _dummy):
            now = clock.now(connection)
            event = power.begin(connection, self.host, "fence", power.OPERATOR, None, now)
            power.finish(connection, event["uuid"], "completed", "off", None, message, now)
        self.changed = True

    # After its power is off

    def restart(self, read: list[str] | None = None, refused: str = "") -> EvacuationResult:
        """Restart its instances elsewhere. Give the lease back in every case.

        :param read: names of hosts that were read since judge(); None to read the others now.
        :param refused: for a plan, the field of the result of judge().
        :raises DroverError: an instance is left, or a step failed; finished steps stay. A plan ends
            like the real run.
        """
        if self.request.plan_only:
            self._read_others(self.request.others, read)
            self._await_given_up()
            self.plan, sentences = self._rehearsed()
            for sentence in self._restarts.open_orders():
                self._show(sentence)
            for sentence in sentences:
                self._show(f"Would be settled first: {sentence}")
            self._show_plan()
            return self._foreseen(refused)
        try:
            self._leasing.take(self.host, "evacuate", LEASE)
            self._keep_off()
            self._read_others(self.request.others, read)
            self._await_given_up()
            self._withdraw()
            for sentence in self._restarts.open_orders():
                self._show(sentence)
            for _dummy in range(self.request.rounds):
                self._settle_instances()
                self._plan()
                if not self.plan["restarts"]:
                    break
                self._restart_all()
            return self._report(self._start_again())
        finally:
            self._leasing.release([self.host])

    def _foreseen(self, refused: str) -> EvacuationResult:
        """Return the result that the real run would have.

        :raises DroverError: the real run would fail.
        """
        result = self._result(
            len(self.plan["restarts"]), "would be restarted", self.plan["left"] + self.plan["lost"]
        )
        if refused:
            result["message"] = (
                f"{self.host}: nothing would be restarted now. {refused} Once it is off:"
                f" {result['message']}"
            )
        elif not (result["remaining"] and self.request.unmovable == FAIL):
            return result
        else:
            result["message"] += f" {SKIPS}"
        raise DroverError(
            result["message"], plan=result["plan"], restarted=[], remaining=result["remaining"]
        )

    def _keep_off(self) -> None:
        """Close the host for every instance.

        :raises DroverError: no proof that it is off: this run has not seen that, or the host was up
            again later.
        """
        with self._dead.step() as (connection, _dummy):
            service, event = (
                services.get(connection, self.host),
                power.last(connection, self.host) or {},
            )
            # An event from before the lease is too old: the host may have been switched on since.
            begun = leases.begun(connection, self.host)
            off = (event.get("status"), event.get("power_state")) == ("completed", "off")
            proven = off and begun is not None and event["updated_at"] >= begun
            if not proven:
                fences = [
                    each
                    for each in storage_fences.read(connection, self.host)
                    if begun is not None and (each["verified_at"] or 0) >= begun
                ]
                self._fences, self._dead.cut = (
                    fences,
                    {text for each in fences for text in each["cut"]},
                )
                # If no instance is left, the run starts none and needs no proof.
                proven = bool(fences) or storage_fencing.is_done(connection, self.host)
            if not service.last_error or not proven:
                raise DroverError(
                    f"It is not proven that {self.host} is off or cut off: this run has not seen"
                    " that, or the host was up since. Nothing was started. Run"
                    " drover.compute.evacuate again from its beginning."
                )
            before, after = host_state.change(
                connection, self.host, "draining", self.request.reason, forced_down=True
            )
        self.changed = self.changed or before != after

    def _read_others(self, others: list[str], read: list[str] | None = None) -> None:
        """Look at every other host (rule S9), unless that was done already."""
        if read is None:
            read = [name for name in others if self._is_read(name)]
        self._dead.read = set(read)
        silent = [name for name in others if name not in self._dead.read]
        if silent:
            self._show(
                f"Not read, as they do not answer: {', '.join(silent)}. What they were last seen to"
                " have is left alone."
            )

    def _await_given_up(self) -> None:
        """Wait while a host has a part of an instance from an unfinished live move.

        No start is safe while such a part exists.
        """
        deadline, shown = self._clock.monotonic() + INCOMING, False
        while places := sorted({place["host"] for place in self._dead.incoming()}):
            if not shown:
                shown = True
                self._show(
                    f"Live moves to {', '.join(places)} were under way: waiting for libvirt there"
                    f" to give them up, at most {INCOMING} s."
                )
            if self._clock.monotonic() >= deadline:
                return
            self._clock.sleep(LOOK_AGAIN)
            self._dead.read -= {name for name in places if not self._is_read(name)}

    def _is_read(self, name: str) -> bool:
        return asking.is_read(self._hosts, name, self.request.call_timeout)

    def _withdraw(self) -> None:
        """Withdraw the starts of an earlier run, and find out their results at the destinations.

        That happens before anything is begun elsewhere.
        """
        with self._store.read() as connection:
            begun = evacuations.begun_destinations(connection, self.host)
        patience = self.request.start_timeout
        for place in begun:
            if place in self._dead.read:
                hand = self._hosts.hand(place, self.request.call_timeout + patience)
                self._say_sentences(self._settling.withdraw(place, hand, patience))

    def _settle_instances(self) -> None:
        self._say_sentences(self._settling.settle())

    def _plan(self) -> None:
        self.plan = self._planned(self._restarts)
        self.changed = self.changed or bool(self.plan["restarts"])
        if self.restarted and not self.plan["restarts"]:
            # The lines above name the restarted instances, and the last line all others.
            return
        self._show_plan()

    def _show_plan(self) -> None:
        for line in evacuation_lines(self.host, self.plan):
            self._show(line)

    def _planned(self, restarts: EvacuationRestarts) -> EvacuationPlan:
        return restarts.plan(self.request.policy, self.request.service_down_time, self.failed)

    def _rehearsed(self) -> tuple[EvacuationPlan, list[str]]:
        """Return the plan of the next round, and sentences on the steps that it would settle first.

        It makes the same steps in a copy of the store.
        """
        with self._store.rehearsal() as store:
            dead = self._dead.rehearsed(store)
            restarts = EvacuationRestarts(dead)
            elsewhere = restarts.found()
            sentences = EvacuationSettling(dead).settle()
            plan = self._planned(restarts)
        for each in plan["restarts"]:
            if "node" in each:
                each["migration"] = None
        return {**plan, "found": [*elsewhere, *plan["found"]]}, sentences

    def _restart_all(self) -> None:
        """Start the claimed instances, one destination after the other.

        If a start fails, the next round tries another destination.
        """
        # Look again: an instance may have been started elsewhere since the plan.
        instances = {each["uuid"]: each["name"] for each in self.plan["restarts"]}
        self._proofs.look(instances, {each["host"] for each in self.plan["restarts"]})
        for place in dict.fromkeys(each["host"] for each in self.plan["restarts"]):
            self._refuse_returned()
            self._refuse_let_in()
            migrations = [
                each["migration"]
                for each in self.plan["restarts"]
                if each["host"] == place and each["migration"] is not None
            ]
            # One call contains all starts of the destination; allow each its full time.
            timeout = self.request.start_timeout
            hand = self._hosts.hand(place, self.request.call_timeout + timeout * len(migrations))
            done = self._restarts.start(
                place, migrations, hand, self.request.at_once, timeout, self._proofs
            )
            for instance in done["restarted"]:
                self._show(
                    f"{instance['name']}: {self.host} -> {place}, {instance['state']}"
                    f" there{instance['message']}"
                )
            for instance in done["failed"]:
                self._show(
                    f"{instance['name']}: {self.host} -> {place}, did not start:"
                    f" {instance['message']}"
                )
                self.failed.setdefault(instance["uuid"], {})[instance["provider"]] = (
                    f"it did not start: {instance['message']}"
                )
                self.messages.append(
                    f"{instance['name']} did not start on {place}:"
                    f" {as_sentence(instance['message'])}"
                )
            for instance in done["uncertain"]:
                self._show(
                    f"{instance['name']}: {self.host} -> {place}, it is not known what became of"
                    f" it: {instance['message']}"
                )
                self.messages.append(
                    f"It is not known what became of {instance['name']} on {place}:"
                    f" {as_sentence(instance['message'])}"
                )
            if done["uncertain"]:
                # The hypervisor may still obey the order. It stays open in the store, and the run
                # begins nothing more there.
                self._dead.read.discard(place)
            self.restarted += done["restarted"]
        for name in sorted(self._restarts.elsewhere & self._dead.read):
            # Read these hosts again, so that the next plan knows their present domains.
            if not self._is_read(name):
                self._dead.read.discard(name)
        self._restarts.elsewhere.clear()

    def _start_again(self) -> list[StayingInstance]:
        """Start instances again that were shut down on living hosts for a move to the dead host.

        :returns: the instances that stay off.
        """
        stay: list[StayingInstance] = []
        for move in self._settling.shut_down.values():
            uuid, name, host = move["instance_uuid"], move["name"], move["source"]
            try:
                proof = self._proofs.prove(
                    host, uuid, name, f"Instance {name}: It is not started", silent=False
                )
                hand = self._hosts.hand(
                    host, self.request.call_timeout + self.request.start_timeout
                )
                options = {
                    "uri": move["source_uri"],
                    "uuid": uuid,
                    "timeout": self.request.start_timeout,
                    "state": "running",
                }
                answer = starting.order(hand, host, "domain", options, [proof])
                if answer.outcome != certainty.DONE:
                    raise DroverError(answer.message)
            except DroverError as problem:
                reason = (
                    f"it was shut down on {host} for a move to {self.host}, and is off there:"
                    f" {as_sentence(problem)} "
                )
                stay.append(
                    {
                        "uuid": uuid,
                        "name": name,
                        "reason": f"{reason}Start it with drover.compute.instance_start",
                    }
                )
            else:
                if answer.result.get("changed", True):
                    self.changed = True
                    self._show(
                        f"{name}: started on {host} again, where it was shut down for its move to"
                        f" {self.host}"
                    )
            self._settling.end_shut_down(move)
        self._settling.shut_down.clear()
        return stay

    def _refuse_returned(self) -> None:
        """Probe the host right before a start, because it may have been switched on since.

        :raises DroverError: the host answers, or its answer is unclear.
        """
        if self._silent_at is not None and self._clock.monotonic() - self._silent_at < SILENCE:
            return
        answer = self._hosts.answer(self.host)
        if answer.means == host_answer.SILENT or (
            answer.means == host_answer.UNCLEAR and "unclear_answer" in self.request.lifted
        ):
            self._silent_at = self._clock.monotonic()
            return
        if answer.means == host_answer.UNCLEAR:
            raise DroverError(
                f"It is not clear any more whether {self.host} answers: {as_sentence(answer.words)}"
                " Nothing more was started elsewhere. Run drover.compute.evacuate again, which"
                " begins with that."
            )
        before = (
            f"{self.host} has come back while its instances were to be started elsewhere."
            f" {self._started_before()}"
        )
        # If its libvirt reports its domains, the claims without a start are given back.
        self._answers()
        self._refuse_alive(True, before)

    def _refuse_let_in(self) -> None:
        """Check the fences right before a start, because they may have been lifted since.

        :raises DroverError: the fences are no longer proven.
        """
        reason = storage_fencing.why_open(self._ports, self.host, self._fences)
        if reason is not None:
            raise DroverError(
                f"It is not proven any more that {self.host} is cut off from its storage, so its"
                f" instances may write there: {as_sentence(reason)} Nothing more was started"
                f" elsewhere. {self._started_before()}Find out who lifted it, and run"
                " drover.compute.evacuate again, which cuts it off and verifies anew."
            )

    def _started_before(self) -> str:
        started = ", ".join(f"{each['name']} on {each['host']}" for each in self.restarted)
        return (
            f"Started before that: {started}. See that none of them runs on {self.host} too. "
            if started
            else ""
        )

    def _report(self, off: list[StayingInstance]) -> EvacuationResult:
        """Return the report of the run. The plan in it has the restarts that are left."""
        self.plan, _said = self._rehearsed()
        remaining = self.plan["left"] + self.plan["lost"] + off
        for instance in self.plan["restarts"]:
            causes = list(self.failed.get(instance["uuid"], {}).values())
            reason = (
                causes[-1]
                if causes
                else "its start was not tried, as all rounds were used up: run this again"
            )
            remaining.append({"uuid": instance["uuid"], "name": instance["name"], "reason": reason})
        result = self._result(len(self.restarted), "restarted", remaining)
        if remaining and self.request.unmovable == FAIL:
            self._show(result["message"])
            raise DroverError(
                " ".join(
                    [
                        (
                            f"{counted(len(remaining), 'instance')} of {self.host}"
                            f" {'is' if len(remaining) == 1 else 'are'} not restarted; all others"
                            " are."
                        ),
                        *_reasons(remaining),
                        *self._messages(),
                        f"Correct the causes and run the evacuation again. {SKIPS}",
                    ]
                ),
                plan=result["plan"],
                restarted=result["restarted"],
                remaining=result["remaining"],
            )
        return result

    def _result(self, done: int, words: str, remaining: list[StayingInstance]) -> EvacuationResult:
        reasons = " ".join(_reasons(remaining))
        return {
            "changed": self.changed,
            "plan": self.plan,
            "restarted": self.restarted,
            "remaining": remaining,
            "message": (
                f"{self.host}: {counted(done, 'instance')} {words}, {len(remaining)} not. {reasons}".rstrip()
            ),
        }

    def _messages(self) -> list[str]:
        return list(dict.fromkeys(self.messages))

    def _say_sentences(self, sentences: Sequence[str]) -> None:
        self.changed = self.changed or bool(sentences)
        for sentence in sentences:
            self._show(sentence)

    def _renew_lease(self, connection: Connection) -> None:
        self._leasing.renew(connection, self.host)


def _reasons(remaining: Iterable[StayingInstance]) -> list[str]:
    """Return a sentence for each reason, with the names of its instances."""
    names: dict[str, list[str]] = {}
    for each in remaining:
        names.setdefault(each["reason"], []).append(each["name"])
    return [f"{', '.join(found)}: {as_sentence(reason)}" for reason, found in names.items()]


def _has_no_service(hand: Hand, service: str) -> bool:
    """Return True if systemd of a host has no such service.

    It reads a property, because words depend on the language of the host.
    """
    words = ["systemctl", "show", "--property=LoadState", "--value", "--", service]
    try:
        output = hand.read("ansible.builtin.command", {"argv": words})
    except DroverError:
        return False
    return str(output.get("stdout") or "").strip() == "not-found"
