# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of open evacuations, and of open migrations from or to a dead host.

The living hosts decide the end by the domains that they show. Each restart is in the store before
its destination gets the order. A killed run thus leaves open evacuations, and the next run finds
out their results at the destinations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .._common import certainty
from .._common.errors import DroverError
from .._migrations import claims as migration_claims
from .._placement import claims
from .._records.hosts import Sighting
from .._records.instances import EvacuatedInstance
from .._records.orders import BegunRestart, HostMigration
from .._records.outcomes import DomainLook
from .._records.plans import StayingInstance
from .._store.instances import evacuations, orders
from .dead_host import ARRIVED, FOUND, LOST, RESTART, DeadHost
from .ports import Hand


class EvacuationSettling:
    """The run that closes the open steps of one host."""

    def __init__(self, dead: DeadHost) -> None:
        self._dead, self._host, self._store = dead, dead.host, dead.store
        #: {uuid: failed move to the dead host}: the instances were shut down for the move and
        #: are off at their sources. They stay open until end_shut_down(). If the run is killed
        #: before it starts these instances, the next run does it.
        self.shut_down: dict[str, HostMigration] = {}

    def withdraw(self, destination: str, hand: Hand, patience: int) -> list[str]:
        """Withdraw the starts that a destination has, and close the starts with a known result.

        :param patience: seconds to wait for a call that works on one of the instances.
        :returns: sentences on the closed starts and on the uncertain ones.
        """
        with self._store.read() as connection:
            begun = evacuations.begun_at(connection, self._host, destination)
        found = looked_at(begun, hand, patience)
        return [self._withdrawn(destination, each, found[each["uuid"]]) for each in begun]

    def _withdrawn(self, destination: str, each: BegunRestart, entry: DomainLook | None) -> str:
        name, proof = each["name"], certainty.is_absent(destination, entry)
        seen = entry["domain"] if entry is not None and not entry["busy"] else None
        if proof is not None:
            with self._dead.step() as (connection, now):
                migration_claims.undo(
                    connection,
                    each["migration"],
                    proof,
                    f"it was not started on {destination}",
                    now,
                )
            return f"{name}: it was not started on {destination}."
        if seen is not None and seen["state"] in ("running", "blocked"):
            proof = certainty.is_shown(destination, seen["state"])
            with self._dead.step() as (connection, now):
                migration_claims.finish(connection, each["migration"], proof, seen["state"], now)
            return f"{name}: it runs on {destination}."
        state = f"is {seen['state']} there" if seen is not None else "is not known"
        return (
            f"{name}: its start on {destination} was begun, and what became of it {state}: left as"
            " it is."
        )

    def settle(self) -> list[str]:
        """Close the migrations that the reports of the living hosts decide.

        :returns: sentences on the closed migrations and on the uncertain ones.
        """
        sentences = self._settle_arrivals()
        with self._store.read() as connection:
            verdicts = self._dead.verdicts(connection)
            resized = {
                each["instance_uuid"]: each
                for each in evacuations.finished_resizes(connection, self._host)
            }
        for instance, migration, act, place, _why in verdicts:
            # End also the resize of a lost instance: no other run could end it, and the instance
            # could not be released.
            if act in (RESTART, FOUND, LOST) and instance["uuid"] in resized:
                sentences.append(self._end_resize(instance["name"], resized[instance["uuid"]]))
            if act == ARRIVED and migration is not None and place is not None:
                sentences.append(self._take_over(instance, place, migration))
            elif place is not None:
                sentences.append(self._record_found(instance, place, migration))
            elif act in (RESTART, LOST) and migration is not None:
                proof = self._is_over(migration)
                if proof is None:
                    continue
                with self._dead.step() as (connection, now):
                    migration_claims.end_at_dead(
                        connection,
                        migration["uuid"],
                        proof,
                        f"{self._host} died before it had moved",
                        now,
                    )
                sentences.append(
                    f"{instance['name']}: its {migration['type']} to {migration['destination']}"
                    " came to nothing; it is closed."
                )
            if instance["state"] == claims.BUILDING:
                sentences.append(self._release(instance))
        return sentences

    def _end_resize(self, name: str, resize: HostMigration) -> str:
        """End a resize that waited for its confirmation. Only the dead host could revert it."""
        with self._dead.step() as (connection, now):
            kept = migration_claims.end_at_dead(
                connection, resize["uuid"], certainty.is_off(self._host), f"{self._host} died", now
            )
        more = ""
        if kept == "new" and resize["disk_grows"]:
            more = (
                " Its disk was not made larger yet: do that with drover.compute.instance_disk and"
                " drover_disk_state=resized."
            )
        return (
            f"{name}: its resize waited to be confirmed; it is ended, and the instance keeps its"
            f" {kept or 'new'} size.{more}"
        )

    def _take_over(
        self, instance: EvacuatedInstance, place: Sighting, migration: HostMigration
    ) -> str:
        """Replace the cold move of an instance by a restart at its destination, where it is off."""
        name, host, message = (
            instance["name"],
            place["host"],
            f"{self._host} died when it had arrived",
        )
        try:
            with self._dead.step() as (connection, now):
                migration_claims.end_at_dead(
                    connection, migration["uuid"], certainty.is_off(self._host), message, now
                )
                migration_claims.begin(
                    connection,
                    instance["uuid"],
                    host,
                    place["node"],
                    migration_claims.EVACUATION,
                    now,
                    self._host,
                )
        except DroverError as problem:
            return self._note_refusal(
                instance,
                f"its {migration['type']} had taken it to {host}, where it is off, but it cannot be"
                f" started there: {problem}",
            )
        return (
            f"{name}: its {migration['type']} had taken it to {host}, where it is off; it is"
            " started there."
        )

    def _release(self, instance: EvacuatedInstance) -> str:
        """Give back the claim of an instance with an unfinished build.

        Its disks are new and it does not run.
        """
        proof = certainty.is_off(self._host)
        with self._dead.step() as (connection, now):
            row = orders.read(connection, instance["uuid"])
            orders.end(connection, instance["uuid"], None if row is None else row.order_uuid)
            claims.release(connection, [instance["uuid"]], proof, now)
        return (
            f"{instance['name']}: it was only being built; its claim is given back, so that it can"
            " be placed again."
        )

    def _is_over(self, migration: HostMigration) -> certainty.Proof | None:
        """Return the Proof that a migration off the dead host has ended; None without a proof."""
        if migration["type"] != migration_claims.EVACUATION:
            return certainty.is_off(self._host)
        if migration["status"] == "accepted":
            return certainty.never_begun(f"{migration['destination']} has no order for it.")
        return None

    def settle_returned(self) -> tuple[list[str], list[StayingInstance]]:
        """Close the open evacuations of an interrupted run from a host that answers again.

        :returns: (sentences on the closed evacuations, the instances with an uncertain place).
        """
        sentences: list[str] = []
        staying: list[StayingInstance] = []
        with self._store.read() as connection:
            evacuated = [
                each
                for each in evacuations.open_migrations(connection, self._host)
                if each["source"] == self._host and each["type"] == migration_claims.EVACUATION
            ]
            shown = evacuations.shown(
                connection, [each["instance_uuid"] for each in evacuated], self._host
            )
        for migration in evacuated:
            name, where, places = (
                migration["name"],
                migration["destination"],
                shown.get(migration["instance_uuid"], []),
            )
            proof, reason = self._is_over(migration), None
            if where not in self._dead.read:
                reason = f"it may run on {where}, which was not read"
            elif not places and proof is None:
                reason = f"it may be about to start on {where}: run this again"
            elif not places and proof is not None:
                with self._dead.step() as (connection, now):
                    migration_claims.undo(
                        connection, migration["uuid"], proof, f"{self._host} is back", now
                    )
                sentences.append(
                    f"{name}: it was not started on {where}, and is on {self._host} as before."
                )
            elif [place["provider"] for place in places] == [migration["provider"]] and places[0][
                "state"
            ] in (
                "running",
                "blocked",
            ):
                proof = certainty.is_shown(where, places[0]["state"])
                with self._dead.step() as (connection, now):
                    migration_claims.finish(
                        connection, migration["uuid"], proof, places[0]["state"], now
                    )
                sentences.append(f"{name}: it runs on {where}.")
            else:
                seen = " and ".join(f"{place['state']} on {place['host']}" for place in places)
                reason = f"it is {seen}: undefine it there, or start it there, and run this again"
            if reason:
                staying.append({"uuid": migration["instance_uuid"], "name": name, "reason": reason})
        return sentences, staying

    def _settle_arrivals(self) -> list[str]:
        """Close the migrations to the dead host, by the domains that their living sources show."""
        sentences = []
        with self._store.read() as connection:
            coming = [
                each
                for each in evacuations.open_migrations(connection, self._host)
                if each["source"] != self._host
            ]
            shown = evacuations.shown(
                connection, [each["instance_uuid"] for each in coming], self._host
            )
        for migration in coming:
            name, source = migration["name"], migration["source"]
            at_source = any(
                place["host"] == source for place in shown.get(migration["instance_uuid"], ())
            )
            if migration["type"] != migration_claims.EVACUATION and source not in self._dead.read:
                sentences.append(
                    f"{name}: it was on its way from {source}, which does not answer: left as"
                    " it is."
                )
                continue
            if at_source and migration["runs"]:
                if migration["uuid"] not in self.shut_down:
                    self.shut_down[migration["uuid"]] = migration
                    sentences.append(
                        f"{name}: it was on its way from {source} and is still there; it is started"
                        " there if it is off."
                    )
                continue
            with self._dead.step() as (connection, now):
                if at_source or migration["type"] == migration_claims.EVACUATION:
                    migration_claims.undo(
                        connection,
                        migration["uuid"],
                        certainty.is_off(self._host),
                        f"{self._host} died",
                        now,
                    )
                    sentences.append(f"{name}: it was on its way from {source} and is still there.")
                else:
                    migration_claims.finish(
                        connection, migration["uuid"], certainty.is_not_shown(source), None, now
                    )
                    sentences.append(
                        f"{name}: it had arrived from {source}, which no longer has it."
                    )
        return sentences

    def end_shut_down(self, move: HostMigration) -> None:
        """Close a move of shut_down. Its instance was started again, or a person must start it."""
        with self._dead.step() as (connection, now):
            migration_claims.undo(
                connection, move["uuid"], certainty.is_off(self._host), f"{self._host} died", now
            )

    def _record_found(
        self, instance: EvacuatedInstance, place: Sighting, migration: HostMigration | None
    ) -> str:
        """Record an evacuation for an instance that another host already has."""
        uuid, name, host, state = instance["uuid"], instance["name"], place["host"], place["state"]
        opened, proof = None, None
        if (
            migration is not None
            and migration["type"] == migration_claims.EVACUATION
            and migration["provider"] == place["provider"]
        ):
            opened = migration["uuid"]
        elif migration is not None:
            proof = self._is_over(migration)
            if proof is None:
                return (
                    f"{name}: it is {state} on {host}, and its start on {migration['destination']}"
                    " was begun too: left as it is until that host answers."
                )
        try:
            with self._dead.step() as (connection, now):
                if migration is not None and proof is not None:
                    migration_claims.undo(
                        connection,
                        migration["uuid"],
                        proof,
                        f"{self._host} died; found on {host}",
                        now,
                    )
                if opened is None:
                    opened = migration_claims.begin(
                        connection,
                        uuid,
                        host,
                        place["node"],
                        migration_claims.EVACUATION,
                        now,
                        self._host,
                        shown=True,
                    )["uuid"]
                migration_claims.finish(
                    connection, opened, certainty.is_shown(host, state), state, now
                )
        except DroverError as problem:
            return self._note_refusal(
                instance,
                f"it is {state} on {host} already, but cannot be recorded there: {problem}",
            )
        return f"{name}: it is {state} on {host} already."

    def _note_refusal(self, instance: EvacuatedInstance, why: str) -> str:
        self._dead.refused[instance["uuid"]] = why
        return f"{instance['name']}: {why}"


def looked_at(
    begun: Sequence[BegunRestart], hand: Hand, patience: int
) -> Mapping[str, DomainLook | None]:
    """Look at instances on a destination, after the withdrawal of their earlier orders.

    :param hand, patience: see EvacuationSettling.withdraw().
    :returns: dict uuid -> the answer of the destination; None without an answer.
    """
    by_uuid: dict[str, DomainLook | None] = {}
    for uri in sorted({each["uri"] for each in begun}):
        by_uuid.update(
            hand.look(
                uri,
                {each["uuid"]: each["orders"] for each in begun if each["uri"] == uri},
                patience,
            )
        )
    return by_uuid
