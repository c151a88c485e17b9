# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of a resize: begin, leave its host, arrive, confirm; or undo, or revert.

Each step works on one host and can be repeated, so the next run can continue a killed one. A cold
migration is a resize to the present size of the instance on another host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from ansible_collections.drover.compute.plugins.module_utils._migration import rebinding

from .._common import certainty, resource_classes
from .._common.errors import DroverError, as_sentence
from .._migrations import claims as migration_claims
from .._migrations import resizes
from .._migrations.options import MigrationOptions
from .._planner import movability
from .._records.domains import ReportedDomain
from .._records.instances import MovePolicy, NamedInstance
from .._records.orders import NewSize, Resize, ResizeTarget, Size
from .._records.outcomes import DomainLook
from .._store.engine import Connection
from .._store.hosts import numa
from .._store.instances import instance_lookup, migrations_open
from .._store.runs import decisions
from .._tracker import domain, record_domain
from . import refusals, starting, used_files
from .ports import Hand, Ports
from .resize_destination import find_destination, size_of, wanted_size
from .settings import ResizeSettings
from .starting import Starting

#: The states of a domain that is off.
OFF = ("shutoff", "crashed")
LOST = "The resize stays open: run this again when the host is back, and it goes on."
#: The advice for an instance that no host has.
REMOVE = "If it is really gone, remove what is left of it with drover.compute.instance_delete."


class StepResult(NamedTuple):
    """The result of a step.

    - changed: True if the step changed anything.
    - resize: the resize; None after its end.
    - difference: None, or (before, after).
    """

    changed: bool
    resize: Resize | None
    difference: tuple[Mapping[str, object], Mapping[str, object]] | None = None


class AbsentDomain(DroverError):
    """The host does not have the domain, so the order was not carried out."""


class ResizeSteps:
    """The steps of the resizes of one run.

    :param hand: the way to run modules on a host; by default the way of ports.hosts.
    :raises DroverError: the options of migrations contradict each other.
    """

    def __init__(
        self, ports: Ports, settings: ResizeSettings, hand: Callable[[str], Hand] | None = None
    ) -> None:
        self._store, self._clock, self._say, self._settings = (
            ports.store,
            ports.clock,
            ports.say,
            settings,
        )
        self._hand, self._actor = hand or ports.hosts.hand, ports.leasing.holder
        self._options, self._proofs = MigrationOptions(settings.migration), Starting(ports)

    def find(self, wanted: str | Mapping[str, str]) -> tuple[NamedInstance, Resize | None]:
        """Return an instance and its resize, or None.

        :param wanted: a name, a uuid, or a mapping with both.
        """
        with self._store.read() as connection:
            (instance,) = instance_lookup.find(connection, [wanted])
            migration = instance["migration"]
            if migration is None or migration["type"] != migration_claims.RESIZE:
                return instance, None
            return instance, self._describe_resize(connection, migration["uuid"])

    def _describe_resize(self, connection: Connection, migration: str) -> Resize:
        """Return a resize, with the options of its move in both of its orders."""
        resize = resizes.describe(connection, migration)
        options = self._options.of(resize)
        resize.pop("migration_options", None)
        uuid, source, destination = resize["uuid"], resize["source"], resize["destination"]
        for move, way in (
            (resize["order"], (source, destination)),
            (resize["back"], (destination, source)),
        ):
            move.update(used_files.of_ways(connection, {uuid: way})[uuid], **options)
        return resize

    # The way to the new size

    def begin(
        self, instance: NamedInstance, resize: Resize | None, new: NewSize | None, host: str | None
    ) -> StepResult:
        """Find the size and the destination, let the hypervisor check them, and record the resize.

        :param instance, resize: as find() returns them; an open resize is continued.
        :param new: the new size; None for a cold migration.
        :param host: the destination; None to choose one.
        :returns: not changed if there is nothing to do.
        """
        if resize is not None:
            return self._going_on(resize, new, host)
        instance_lookup.refuse(instance, "It is not resized")
        if instance["state"] == "missing":
            raise DroverError(
                f"Instance {instance['name']} is missing: {instance['host']} no longer shows its"
                " domain. It is not resized: find out where it is with drover.compute.discover."
            )
        if instance["host"] is None or (new is None and host == instance["host"]):
            # refuse() has refused an instance without a host.
            return StepResult(False, None)
        settings, now, purpose = (
            self._settings,
            self._clock.time(),
            "migrate" if new is None else "resize",
        )
        hand = self._hand(instance["host"])
        have = size_of(instance)
        with (
            refusals.kept(self._store, purpose, self._actor, now),
            self._store.read() as connection,
        ):
            if (
                new is not None
                and host in (None, instance["host"])
                and wanted_size(connection, instance, new) == have
            ):
                # No search for room here: the host need not have room for both sizes if nothing
                # changes.
                return StepResult(False, None)
            selection, size = find_destination(
                connection, instance, new, host, settings.policy, now, settings.service_down_time
            )
            cells = numa.of_consumers(connection, [instance["uuid"]])
        if selection["host"] != instance["host"] and not settings.despite_policy:
            _refuse_by_policy(instance, selection["host"])
        # The cells of the instance are known only after the claim. The look only finds out if the
        # size can be changed.
        facts = self._foretell_size(
            hand, instance, {**size, "numa": {}} if selection.get("host_request") or cells else size
        )
        if new is None or new.sizes:
            _refuse_stale(instance, facts)
        if facts["state"] == "paused":
            raise DroverError(
                f"Instance {instance['name']} on {instance['host']} is paused. It would be shut"
                " down, and come back running. Nothing was done: resume it, or shut it off, first."
            )
        if selection["host"] != instance["host"] and not cells:
            _refuse_bound(instance, selection["host"], facts)
        if facts["state"] not in OFF:
            self._proofs.foresee(
                instance["host"],
                instance["uuid"],
                instance["name"],
                f"Instance {instance['name']}: Nothing was done",
            )
        old = {"vcpus": facts["vcpus"], "memory_mb": facts["memory_mb"]}
        new_size = {
            "vcpus": size["vcpus"],
            "memory_mb": size["memory_mb"],
            "disk_gb": size["disk_gb"],
        }
        target: ResizeTarget = {
            "flavor": size["flavor"],
            "resources": selection["resources"],
            "running": facts["state"] not in OFF,
            "sizes": {"old": old, "new": new_size},
        }
        if selection.get("host_request"):
            target["host_request"] = selection["host_request"]
        if new is not None and new.sizes:
            target["given"] = new.sizes
        with self._store.write(together=True) as connection:
            opened = migration_claims.begin_resize(
                connection,
                instance["uuid"],
                selection["host"],
                selection["node"],
                target,
                now,
                instance["host"],
            )
            resize = self._describe_resize(connection, opened["uuid"])
            owner, place = (
                (instance["uuid"], instance["name"]),
                (selection["host"], selection["node"]),
            )
            decided = decisions.row(
                purpose, self._actor, owner, now, place, explanation=selection["explanation"]
            )
            decisions.record(connection, [decided])
        before = {**have, **old, "host": instance["host"]}
        return StepResult(True, resize, (before, {**size, "host": selection["host"]}))

    def _going_on(self, resize: Resize, new: NewSize | None, host: str | None) -> StepResult:
        """Continue a resize that an earlier run began; refuse another one."""
        if not _has_requested_size(resize, new) or host not in (None, resize["destination"]):
            raise DroverError(
                f"Instance {resize['name']} is being resized or moved cold to"
                f" {resize['destination']} already, or waits to be confirmed. End that first: run"
                f" {_command(resize)} again, or drover.compute.instance_resize with"
                " drover_resize=confirm or revert."
            )
        if has_arrived(resize) and self._has_old_size(resize):
            resize = {**resize, "arrived": False, "undone": True}
            if not self._settings.check_mode:
                with self._store.write() as connection:
                    migration_claims.note(
                        connection, resize["migration"], {"arrived": False}, self._clock.time()
                    )
        return StepResult(not has_arrived(resize), resize)

    def _has_old_size(self, resize: Resize) -> bool:
        """Return True if an instance has its old size again, after it was seen with the new one."""
        old, new = (
            (resize[which]["vcpus"], resize[which]["memory_mb"]) for which in ("old", "new")
        )
        if old == new:
            return False
        given = {"uri": resize["destination_uri"], "uuid": resize["uuid"], "state": "present"}
        foreseen = self._hand(resize["destination"]).foretell("domain", given)
        facts = foreseen.get("domain") or {}
        return not foreseen.get("failed") and (facts.get("vcpus"), facts.get("memory_mb")) == old

    def _foretell_size(self, hand: Hand, instance: NamedInstance, size: Size) -> ReportedDomain:
        """Check that the hypervisor has the instance and could give it that size; change nothing.

        :returns: the facts of its domain.
        """
        sentence = f"Instance {instance['name']} on {instance['host']}: {{}} Nothing was done."
        options = {
            **self._size_arguments(instance, instance["uri"], size),
            "state": "stopped",
            "disk_gb": size["disk_gb"] or None,
        }
        _foretell_change(hand, options, sentence)
        options = {"uri": instance["uri"], "uuid": instance["uuid"], "state": "present"}
        found: ReportedDomain = _foretell_change(hand, options, sentence)["domain"]
        return found

    def leave(self, resize: Resize) -> StepResult:
        """Shut the instance down at its host, and give it the new size there if it stays."""
        if resize["status"] not in ("accepted", "running"):
            if not resize["undone"]:
                return StepResult(False, resize)
            self._foresee_start(resize, resize["destination"])
            return self._off(
                resize, resize["destination"], resize["destination_uri"], resize["new"], None
            )
        self._foresee_start(resize, resize["source"])
        return self._off(
            resize, resize["source"], resize["source_uri"], resize["new"], resize["migration"]
        )

    def arrive(self, resize: Resize) -> StepResult:
        """Find the instance at its destination, give it the new size, and start it if it ran."""
        if has_arrived(resize):
            return StepResult(False, resize)
        host, uri = resize["destination"], resize["destination_uri"]
        hand = self._hand(host)
        given = {
            **self._domain_arguments(resize, uri),
            "state": "present",
            "order": resize["migration"],
        }
        shown, new = self._domain(hand, host, given, resize)["domain"], resize["new"]
        proof = certainty.is_shown(host, shown["state"])
        with self._store.write(together=True) as connection:
            migration_claims.finish(
                connection, resize["migration"], proof, "shutoff", self._clock.time()
            )
        # A person may have started it there before it had the new size.
        started = shown["state"] not in OFF and (shown["vcpus"], shown["memory_mb"]) != (
            new["vcpus"],
            new["memory_mb"],
        )
        if started:
            self._foresee_start(resize, host)
        try:
            self._domain(
                hand,
                host,
                {
                    **self._size_arguments(resize, uri, new),
                    "state": "stopped" if started else "present",
                },
                resize,
            )
        except DroverError as problem:
            raise DroverError(
                f"{problem} It is there with another size. {_again(resize)} Or revert it with"
                " drover_resize=revert."
            ) from None
        facts = self._power(
            hand, host, uri, resize, "It has the new size there, and can be confirmed or reverted."
        )
        with self._store.write(together=True) as connection:
            migration_claims.note(
                connection, resize["migration"], {"arrived": True}, self._clock.time()
            )
            record_domain.record_seen(
                connection, resize["uuid"], host, domain.describe(facts), self._clock.time()
            )
        self._say(f"{resize['name']}: {_size_text(resize['new'])}, {facts['state']} on {host}")
        return StepResult(True, {**resize, "status": "finished", "arrived": True})

    def undo(self, resize: Resize, message: str | None = None) -> StepResult:
        """Give the instance its old size and state at its old host, then free the new room.

        :param message: the reason, for people who look later.
        :raises DroverError: the instance is perhaps not there, or may leave it.
        """
        if resize["status"] == "finished":
            return StepResult(False, resize)
        hand = self._hand(resize["source"])
        # First withdraw its move and the orders of an earlier run at its host, so that nothing of
        # them can begin.
        withdrawn = {resize["uuid"]: [resize["migration"]]}
        look = hand.look(resize["source_uri"], withdrawn, self._settings.timeout)[resize["uuid"]]
        proof = certainty.has_not_left(resize["source"], look)
        if proof is None:
            self._seek(hand, resize, look)
            raise DroverError(
                f"Instance {resize['name']}: {resize['source']} does not show it, or is still at"
                f" work on it, so nothing was taken back. {_again(resize)}"
            )
        facts = self._give_old_size(hand, resize)
        with self._store.write(together=True) as connection:
            migration_claims.undo(
                connection, resize["migration"], proof, message or "undone", self._clock.time()
            )
            record_domain.record_seen(
                connection,
                resize["uuid"],
                resize["source"],
                domain.describe(facts),
                self._clock.time(),
            )
        return StepResult(True, None)

    def _seek(self, hand: Hand, resize: Resize, here: DomainLook | None) -> None:
        """Record that neither end has the instance, if that is so.

        A discovery that finds it ends the resize.

        :raises DroverError: neither end has it.
        """
        source, destination = resize["source"], resize["destination"]
        gone = certainty.is_absent(source, here) is not None
        if gone and not resize["same_host"]:
            foreseen = hand.foretell(
                "_domain_migration", {"uri": resize["source_uri"], "start": [resize["order"]]}
            )
            gone = all(certainty.is_nowhere(each) for each in foreseen.get("moves") or [{}])
        if gone:
            with self._store.write() as connection:
                migration_claims.note_nowhere(connection, resize["migration"], self._clock.time())
            raise DroverError(
                f"Instance {resize['name']}: neither {source} nor {destination} has it, so somebody"
                " moved or removed it. Nothing was taken back. Run drover.compute.discover: if"
                f" another host has it, that ends the resize. {REMOVE}"
            )

    # The end of a resize

    def confirm(self, resize: Resize) -> StepResult:
        """Make its disk larger, which cannot be undone, and free the room of the old size."""
        if not has_arrived(resize):
            _refuse_unfinished(resize)
        host = resize["destination"]
        if self._has_old_size(resize):
            raise DroverError(
                f"Instance {resize['name']} on {host} has the size of before,"
                f" {_size_text(resize['old'])}: somebody has taken its resize back, so it is not"
                f" confirmed. Nothing was done. {_again(resize)} Or revert it with"
                " drover_resize=revert."
            )
        options: dict[str, object] = {
            "uri": resize["destination_uri"],
            "uuid": resize["uuid"],
            "name": resize["name"],
            "state": "present",
        }
        if resize["new"]["disk_gb"]:
            options["disk_gb"] = resize["new"]["disk_gb"]
        hand = self._hand(host)
        try:
            done = self._domain(hand, host, options, resize)
        except AbsentDomain:
            self._refuse_gone(hand, resize)
            raise DroverError(
                f"Instance {resize['name']} is not on {host} any more: {resize['source']} has it,"
                " so its resize cannot be confirmed. Nothing was done: run"
                " drover.compute.instance_resize with drover_resize=revert."
            ) from None
        if not self._settings.check_mode:
            proof = certainty.is_shown(host, done["domain"]["state"])
            with self._store.write(together=True) as connection:
                migration_claims.confirm(connection, resize["migration"], proof, self._clock.time())
                record_domain.record_seen(
                    connection,
                    resize["uuid"],
                    host,
                    domain.describe(done["domain"]),
                    self._clock.time(),
                )
        difference = {"size": resize["new"], "else": resize["old"]}, {"size": resize["new"]}
        return StepResult(True, {**resize, "status": "confirmed"}, difference)

    def leave_again(self, resize: Resize) -> StepResult:
        """Shut the instance down at its present host.

        Give it the old size there, if that is also its old host.
        """
        if resize["status"] != "finished":
            _refuse_unfinished(resize)
        self._foresee_start(resize, resize["destination"])
        return self._off(
            resize, resize["destination"], resize["destination_uri"], resize["old"], None
        )

    def _refuse_gone(self, hand: Hand, resize: Resize) -> None:
        """Refuse to end a finished resize if neither its destination nor its source has a domain.

        :param hand: the way to run modules on the destination.
        :raises DroverError: the source has no domain either, or does not answer.
        """
        name, source, destination = resize["name"], resize["source"], resize["destination"]
        nowhere, state = f"{destination} has no domain", "absent"
        if not resize["same_host"]:
            foreseen = hand.foretell(
                "_domain_migration", {"uri": resize["destination_uri"], "start": [resize["back"]]}
            )
            (move,) = foreseen.get("moves") or [{}]
            nowhere, state = (
                f"neither {source} nor {destination} has a domain",
                move.get("destination_state"),
            )
        if state is None:
            raise DroverError(
                f"Instance {name} is not on {destination} any more, and {source} does not answer,"
                f" so it may be there. Nothing was done: run this again when {source} answers."
            )
        if state == "absent":
            instance, _resize = self.find(resize["uuid"])
            others = instance_lookup.shown_elsewhere(instance, (source, destination))
            if others:
                raise DroverError(
                    f"Instance {name}: {nowhere} of it, but {' and '.join(others)} has one, so"
                    f" somebody took it there. Nothing was done: take it back to {destination} by"
                    " hand, run drover.compute.discover, and then this again."
                )
            raise DroverError(
                f"Instance {name}: {nowhere} of it, so somebody moved or removed it. Nothing was"
                f" done. {REMOVE} Else define it on {destination} again from its disk, and run this"
                " again."
            )

    def revert(self, resize: Resize) -> StepResult:
        """Give the instance its old size and state at its old host, and its room there."""
        if resize["status"] != "finished":
            _refuse_unfinished(resize)
        host = resize["source"]
        if not self._settings.check_mode:
            facts = self._give_old_size(self._hand(host), resize)
            proof = certainty.is_shown(host, facts["state"])
            with self._store.write(together=True) as connection:
                migration_claims.revert(
                    connection, resize["migration"], proof, facts["state"], self._clock.time()
                )
                record_domain.record_seen(
                    connection, resize["uuid"], host, domain.describe(facts), self._clock.time()
                )
            self._say(
                f"{resize['name']}: {_size_text(resize['old'])} again, {facts['state']} on {host}"
            )
        new, old = {**resize["new"], "host": resize["destination"]}, {**resize["old"], "host": host}
        return StepResult(True, {**resize, "status": "reverted"}, (new, old))

    # Parts of the steps

    def _foresee_start(self, resize: Resize, host: str) -> None:
        """Check, before a shutdown, that the instance may start again."""
        if resize["running"]:
            self._proofs.foresee(
                host,
                resize["uuid"],
                resize["name"],
                f"Instance {resize['name']}: It is not shut down",
            )

    def _off(
        self, resize: Resize, host: str, uri: str, size: Size, order: str | None
    ) -> StepResult:
        """Shut the instance down.

        If it goes to another host, its definition stays as it is: only the other host has CPUs for
        the new size.
        """
        options = (
            self._size_arguments(resize, uri, size)
            if resize["same_host"]
            else self._domain_arguments(resize, uri)
        )
        options |= {"state": "stopped", "order": order}
        hand = self._hand(host)
        try:
            result = self._domain(hand, host, options, resize)
        except AbsentDomain:
            if resize["status"] == "finished":
                self._refuse_gone(hand, resize)
            if resize["same_host"]:
                raise
            # A killed run had already moved it.
            return StepResult(False, resize)
        if resize["nowhere"] and not self._settings.check_mode:
            with self._store.write() as connection:
                migration_claims.note_nowhere(
                    connection, resize["migration"], self._clock.time(), nowhere=False
                )
        return StepResult(bool(result["changed"]), resize)

    def _give_old_size(self, hand: Hand, resize: Resize) -> ReportedDomain:
        """Give the instance the old size at its source, and start it if it ran.

        :returns: the facts of its domain.
        """
        host, uri = resize["source"], resize["source_uri"]
        options = {**self._size_arguments(resize, uri, resize["old"]), "state": "present"}
        _foretell_change(
            hand,
            options,
            f"Instance {resize['name']} on {host}: {{}} Nothing was taken back. {_again(resize)}",
        )
        self._domain(hand, host, options, resize)
        return self._power(
            hand, host, uri, resize, "It has its old size there; the resize stays open."
        )

    def _power(self, hand: Hand, host: str, uri: str, resize: Resize, note: str) -> ReportedDomain:
        options = {"uri": uri, "uuid": resize["uuid"], "timeout": self._settings.timeout}
        state = "running" if resize["running"] else "present"
        try:
            uuid, name = resize["uuid"], resize["name"]
            proofs = (
                [self._proofs.prove(host, uuid, name, f"Instance {name}: It is not started")]
                if resize["running"]
                else []
            )
            done = self._domain(hand, host, {**options, "state": state}, resize, proofs)
            found: ReportedDomain = done["domain"]
            return found
        except DroverError as problem:
            raise DroverError(f"{problem} {note}") from None

    def _size_arguments(
        self, instance: NamedInstance | Resize, uri: str | None, size: Size
    ) -> dict[str, object]:
        """Return the arguments of the module domain that give an instance a size."""
        in_cells = {"numa": size["numa"]} if "numa" in size else {}
        return {
            **self._domain_arguments(instance, uri),
            **in_cells,
            "vcpus": size["vcpus"],
            "memory_mb": size["memory_mb"],
            "flavor": size["flavor"] or "",
        }

    def _domain_arguments(
        self, instance: NamedInstance | Resize, uri: str | None
    ) -> dict[str, object]:
        """Return the arguments of the module domain on the instance and its shutdown."""
        return {
            "uri": uri,
            "uuid": instance["uuid"],
            "name": instance["name"],
            "timeout": self._settings.timeout,
            "force": self._settings.force,
        }

    @staticmethod
    def _domain(
        hand: Hand,
        host: str,
        given: dict[str, object],
        resize: Resize,
        proofs: Sequence[certainty.StartProof] = (),
    ) -> dict[str, Any]:
        answer = starting.order(hand, host, "domain", given, proofs)
        if answer.outcome != certainty.DONE:
            sentence = (
                f"Instance {resize['name']} on {host}: {as_sentence(answer.message)}"
                f" {'' if answer.result else LOST}".strip()
            )
            if certainty.unable(host, answer) is not None:
                raise AbsentDomain(sentence, absent=True)
            raise DroverError(sentence, absent=False)
        return answer.result


def _refuse_stale(instance: NamedInstance, facts: ReportedDomain) -> None:
    """Refuse a partial new size if the domain has another size than the store by now.

    :param facts: the facts of its domain.
    :raises DroverError: a person has changed the size by hand.
    """
    shown = resource_classes.to_sizes(resource_classes.of_domain(facts))
    if (shown["vcpus"], shown["memory_mb"]) != (instance["vcpus"], instance["memory_mb"]):
        raise DroverError(
            f"Instance {instance['name']} on {instance['host']} has {shown['vcpus']} vCPU and"
            f" {shown['memory_mb']} MiB, and the store has {instance['vcpus']} vCPU and"
            f" {instance['memory_mb']} MiB: somebody has changed it by hand. Nothing was done. Run"
            " drover.compute.discover, then this again."
        )


def has_arrived(resize: Resize) -> bool:
    """Return True if an instance was seen at its destination with the new size.

    Its resize then waits to be confirmed.
    """
    return resize["status"] == "finished" and resize["arrived"]


def _has_requested_size(resize: Resize, new: NewSize | None) -> bool:
    """Return True if an open resize has the requested size; None is a cold migration."""
    if new is not None and new.sizes:
        there: Mapping[str, object] = resize["new"]
        return bool(resize["given"]) and all(
            there[name] == size for name, size in new.sizes.items()
        )
    flavor = new.flavor if new is not None else resize["old"]["flavor"]
    return not resize["given"] and flavor == resize["new"]["flavor"]


def _refuse_unfinished(resize: Resize) -> NoReturn:
    raise DroverError(
        f"The resize of {resize['name']} has not ended yet, so it cannot be confirmed or reverted."
        f" {_again(resize)}"
    )


def _again(resize: Resize) -> str:
    return f"Run {_command(resize)} again, which goes on with it."


def _command(resize: Resize) -> str:
    return migrations_open.how_to_end(
        {key: resize[key] for key in ("old", "new", "given")}, resize["destination"]
    )


def _refuse_by_policy(instance: NamedInstance, host: str) -> None:
    policy = instance["policy"] or MovePolicy()
    kept = movability.why_policy_keeps(
        policy.get("move"), policy.get("error"), instance["state"], cold=True
    )
    if kept:
        raise DroverError(
            f"Instance {instance['name']} is not moved from {instance['host']} to {host}: {kept}."
            " Nothing was done. Change its policy, or move it despite that with"
            " drover_despite_policy=true."
        )


def _refuse_bound(instance: NamedInstance, host: str, facts: ReportedDomain) -> None:
    """Refuse an instance that a person bound to its host by hand, before it is shut down."""
    bound = rebinding.reasons(facts["xml"], {})
    if bound:
        raise DroverError(
            f"Instance {instance['name']} is not moved from {instance['host']} to {host}:"
            f" {'; '.join(bound)}. Nothing was done."
        )


def _foretell_change(hand: Hand, given: dict[str, object], sentence: str) -> dict[str, Any]:
    foreseen = hand.foretell("domain", given)
    if foreseen.get("failed"):
        raise DroverError(sentence.format(foreseen.get("msg")))
    return foreseen


def _size_text(size: Size) -> str:
    flavor = f"{size['flavor']}, " if size["flavor"] else ""
    return f"{flavor}{size['vcpus']} vCPU, {size['memory_mb']} MiB"
