# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a dead, fenced host, and the verdict on each of its instances (rules S8 and S9).

Nothing of the host runs any more. The caller has a proof of that.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from ansible_collections.drover.compute.plugins.module_utils._bindings import reading
from ansible_collections.drover.compute.plugins.module_utils._domain.definition import is_written
from ansible_collections.drover.compute.plugins.module_utils._storage import kinds
from ansible_collections.drover.compute.plugins.module_utils._storage.kinds import Source

from .._common import storage_identity
from .._common.errors import some
from .._evacuation.fencing import OPEN_DISK_CHANGE, UNREAD_HOSTS
from .._migrations import claims as migration_claims
from .._planner.evacuation import RAN, blind_nodes, why_lost
from .._records.hosts import NodeStorage, Sighting, StorageOfNode
from .._records.instances import Binding, Disk, EvacuatedInstance
from .._records.orders import HostMigration
from .._store.engine import Connection, Rehearsal, Transactions
from .._store.hosts import services
from .._store.instances import evacuations, files, orders
from .ports import Clock

#: The state of a domain that does not run.
OFF = "shutoff"
# Start an instance elsewhere; continue a start that was begun; start it at the destination of a
# cold move; record it on the host that has it; leave it; or give it up as lost.
RESTART, RESUME, ARRIVED, FOUND, LEAVE, LOST = (
    "restart",
    "resume",
    "arrived",
    "found",
    "leave",
    "lost",
)
LIVE = "live-migration"
#: The types of moves of an instance that is off. The host with its definition has its whole disks.
COLD = (migration_claims.RESIZE, "migration")


class InstanceVerdict(NamedTuple):
    """The decision on one instance.

    - migration: its open migration off the dead host; RESUME continues that migration.
    - act: RESTART, RESUME, ARRIVED, FOUND, LEAVE or LOST.
    - place: for FOUND and ARRIVED; else None.
    - why: the reason of LEAVE and LOST, a sentence; else empty.
    """

    instance: EvacuatedInstance
    migration: HostMigration | None
    act: str
    place: Sighting | None
    why: str


class DeadHost:
    """The instances of one dead host, and the other hosts that show them.

    :param read: names of the hosts that were read in this run; the run removes a host that stops
        answering.
    :param keep: renew the lease of the host, or raise DroverError if it is lost; in the transaction
        of each step.
    :param lifted: names of the rules that the operator lifts.
    """

    def __init__(
        self,
        store: Transactions,
        host: str,
        read: Iterable[str],
        keep: Callable[[Connection], None],
        lifted: Collection[str] = (),
        clock: Clock = time,
    ) -> None:
        self.store, self.host, self.read = store, host, set(read)
        self._keep, self._lifted, self._clock = keep, lifted, clock
        #: The reason why an instance on another host cannot be recorded there, by its uuid.
        self.refused: dict[str, str] = {}
        #: The texts of the disks that the host was cut off from, if the proof is the cut and not
        #: that the host is off; else None.
        self.cut: Collection[str] | None = None

    def rehearsed(self, store: Rehearsal) -> DeadHost:
        """Return the same host for a dry run, without a lease."""
        other = DeadHost(
            store, self.host, self.read, lambda connection: None, self._lifted, self._clock
        )
        other.cut = self.cut
        return other

    @contextlib.contextmanager
    def step(self) -> Iterator[tuple[Connection, float]]:
        """Begin a write transaction and renew the lease in it; yield it with the time.

        A run without the lease thus writes nothing.
        """
        with self.store.write() as connection:
            self._keep(connection)
            yield connection, self._clock.time()

    def incoming(self) -> list[Sighting]:
        """Return the living hosts that have a part of an instance, from an interrupted live move.

        libvirt removes that part when it notices the death of the source.
        """
        with self.store.read() as connection:
            moves = [
                each
                for each in evacuations.open_migrations(connection, self.host)
                if each["source"] == self.host
            ]
            shown = evacuations.shown(
                connection, [each["instance_uuid"] for each in moves], self.host
            )
        return [
            place
            for move in moves
            for place in shown.get(move["instance_uuid"], ())
            if _is_part(place, move) and place["host"] in self.read
        ]

    def verdicts(self, connection: Connection) -> list[InstanceVerdict]:
        """Return the decision on each instance, the most important instance first."""
        instances = evacuations.instances(connection, self.host)
        shown = evacuations.shown(connection, [each["uuid"] for each in instances], self.host)
        # A definition that an earlier evacuation has left does not count, unless the instance runs
        # there.
        old = evacuations.old_definitions(connection, shown)
        shown = {
            uuid: [
                each
                for each in found
                if each["host"] not in old.get(uuid, ()) or each["state"] != OFF
            ]
            for uuid, found in shown.items()
        }
        migrations = {
            each["instance_uuid"]: each
            for each in evacuations.open_migrations(connection, self.host)
            if each["source"] == self.host
        }
        storage = evacuations.storage(connection)
        nodes = {each["node"]: each for each in storage.values() if each["host"] == self.host}
        # A host that is off runs no instance either.
        silent = evacuations.unread_nodes(connection, self.host, self.read)
        unread = {} if UNREAD_HOSTS in self._lifted else silent
        closed = services.closed_hosts(connection)
        instances.sort(key=lambda each: (-each["priority"], each["name"], each["uuid"]))
        verdicts = []
        for instance in instances:
            migration, node = migrations.get(instance["uuid"]), nodes[instance["node"]]
            may_have = _may_have(instance, node, storage, unread)
            act, place, reason = sort_out(
                instance,
                shown.get(instance["uuid"], []),
                migration,
                node,
                self.read,
                may_have,
                set(silent.values()),
                closed,
            )
            if act == RESTART and (used := _why_used(connection, instance, self.host, node)):
                act, reason = LEAVE, used
            if (
                act == RESTART
                and OPEN_DISK_CHANGE not in self._lifted
                and (unknown := _why_unknown(instance))
            ):
                act, reason = LEAVE, unknown
            if (
                act in (RESTART, RESUME)
                and self.cut is not None
                and (open_ := why_not_cut(instance, node, self.cut))
            ):
                act, reason = LEAVE, open_
            verdicts.append(InstanceVerdict(instance, migration, act, place, reason))
        return verdicts


def why_not_cut(instance: EvacuatedInstance, node: NodeStorage, cut: Collection[str]) -> str | None:
    """Return the reason why an instance may still write to a disk after its host lost its storage;
    else None.

    :param node: the storage of its node.
    :param cut: the texts of the disks that the host is proven to be cut off from.
    """
    host = instance["host"]
    written = [
        disk
        for disk in storage_identity.all_disks(instance)
        if disk.get("source") and is_written(disk)
    ]
    advice = f"confirm that {host} is off, or cut that storage off too"
    if not written:
        return (
            f"it has no disk that {host} could be cut off from, so it may still run there: confirm"
            f" that {host} is off"
        )
    for disk in written:
        if storage_identity.anywhere(disk, node) not in cut:
            return (
                f"its disk {disk['source']} is on no storage that {host} was cut off from, so it"
                f" may still run there: {advice}"
            )
    return None


def _why_unknown(instance: EvacuatedInstance) -> str | None:
    """Return the reason why the images with the newest data are not known; None if they are.

    It returns None also if the new host finds them out. A disk that is copied has all its data in
    its old file until the guest is switched over. A guest that is off writes to no disk. The new
    host sees a snapshot by the image that is backed by the disk.
    """
    if instance["state"] not in RAN:
        return None
    for now in instance.get("running_disks") or ():
        later = next(
            (
                each
                for each in instance["disks"]
                if each.get("target") == now.get("target") and each.get("source")
            ),
            None,
        )
        if later is not None and has_data(now) and has_data(later) and not _is_same(now, later):
            return (
                f"its disk {now['target']} was {now['source']} in the running guest and is"
                f" {later['source']} in its definition, from which it would start, and it is not"
                " known which of them has the newest data. Look at both. If the right one is"
                f" {later['source']}: -e drover_evacuate_force={OPEN_DISK_CHANGE}, which lifts just"
                f" this rule; else put the right data there first, or bring {instance['host']}"
                " back, and run this again"
            )
    does = {
        orders.SWITCHING_DISK: "was just switched over to the copy of a disk",
        orders.DELETING_SNAPSHOT: "had a snapshot merged into one of its images",
    }.get(instance["task_state"] or "")
    if does is None:
        return None
    disks = some(
        [
            source
            for disk in instance["disks"]
            if (source := disk.get("source")) and is_written(disk)
        ]
    )
    return (
        f"it {does} when {instance['host']} died, and it is not known which of its images has the"
        f" newest data. Look at the images beside {disks}. If the right ones are {disks}: -e"
        f" drover_evacuate_force={OPEN_DISK_CHANGE}, which lifts just this rule; else put the right"
        f" data there first, or bring {instance['host']} back, and run this again"
    )


def has_data(disk: Disk) -> bool:
    """Return True if a guest keeps its own data on a disk."""
    return disk.get("device", "disk") in ("disk", "lun") and is_written(disk)


def _is_same(one: Disk, other: Disk) -> bool:
    """Return True if two disks are one file with two names."""
    return bool(one.get("real_path")) and one.get("real_path") == other.get("real_path")


def _why_used(
    connection: Connection, instance: EvacuatedInstance, host: str, node: NodeStorage
) -> str | None:
    """Return the reason why an instance is not restarted because of a disk on the network; else
    None.

    The reason is a domain of another host that has the same disk. On the network no lock separates
    two writers. For files, the destination itself finds such a domain.
    """
    for disk in instance["disks"]:
        if (
            not disk.get("source")
            or disk.get("path")
            or kinds.of_disk(disk).source not in (Source.SERVER, Source.VOLUME)
            or disk.get("shareable")
            or not is_written(disk)
        ):
            continue
        for name, text in sorted(storage_identity.names_on_network(disk, node), key=str):
            user = files.user(connection, name, text, instance["uuid"], writes=True, but_host=host)
            if user is not None:
                return (
                    f"its disk {disk['source']} is one of {user['name'] or user['uuid']} on"
                    f" {user['host']} too, and both would write to it: take it out of that domain,"
                    " or remove that domain if it is the wrong one, and run this again"
                )
    return None


def sort_out(
    instance: EvacuatedInstance,
    shown: list[Sighting],
    migration: HostMigration | None,
    node: NodeStorage,
    read: Collection[str],
    unread: Collection[str] = (),
    silent: Collection[str] = (),
    closed: Collection[str] = (),
) -> tuple[str, Sighting | None, str]:
    """Decide on one instance of the dead host (rules S8 and S9).

    :param shown: the other hosts that show it.
    :param migration: its open migration off the dead host.
    :param node: the storage of the node that it was on.
    :param read: the hosts that were read in this run.
    :param unread: the hosts that may have it and were not read.
    :param silent: the hosts that were not read, without a proof that they are off.
    :param closed: the hosts that are disabled or forced down. An instance with a claim there that
        was never begun is started elsewhere.
    :returns: act, place and why of a Verdict.
    """
    ours = (
        migration
        if migration is not None and migration["type"] == migration_claims.EVACUATION
        else None
    )
    if len(shown) > 1:
        hosts = " and ".join(place["host"] for place in shown)
        return (
            LEAVE,
            None,
            (
                f"it is on {hosts} at once: destroy and undefine all but one of them, and run this"
                " again"
            ),
        )
    if shown:
        return _decide_on_shown(instance, shown[0], migration, read)
    # A resize on one host has no other host.
    if migration is not None and migration["destination"] != instance["host"]:
        is_known = migration["destination"] in read or (
            ours is None and migration["destination"] not in silent
        )
        # "accepted": the destination has no order yet.
        begun = ours is None or ours["status"] != "accepted"
        if not is_known and begun:
            where = migration["destination"]
            cause = (
                f"it was on its way to {where}, which does not answer, and may run there: bring"
                f" {where} back, or evacuate it"
            )
            return LEAVE, None, cause
        if ours is not None and is_known and (begun or migration["destination"] not in closed):
            return RESUME, None, ""
    if instance["task_state"] == orders.DELETING:
        cause = (
            "it is being removed: run drover.compute.instance_delete again when its host is back;"
            " if that never is, release it: ansible localhost -m "
            'drover.compute.allocation -a \'{"state": "released", "instances":'
            f' ["{instance["uuid"]}"]}}\''
        )
        return LEAVE, None, cause
    if instance.get("bindings") is None and instance["xml"]:
        # An older version of drover read its host and did not report the bindings.
        found: list[Binding] = reading.as_facts(reading.read(instance["xml"]))
        instance = {**instance, "bindings": found}
    reason = why_lost(instance, node)
    if reason:
        return LOST, None, reason
    if unread:
        hosts = some(sorted(unread))
        cause = (
            f"it may run on {hosts}, not read now, where somebody may have moved it: bring {hosts}"
            " back, or evacuate it first. To go on all the same: -e"
            f" drover_evacuate_force={UNREAD_HOSTS}, which lifts just this rule"
        )
        return LEAVE, None, cause
    return RESTART, None, ""


def _decide_on_shown(
    instance: EvacuatedInstance,
    place: Sighting,
    migration: HostMigration | None,
    read: Collection[str],
) -> tuple[str, Sighting | None, str]:
    host = place["host"]
    arriving = (
        migration if migration is not None and migration["provider"] == place["provider"] else None
    )
    if host not in read:
        return (
            LEAVE,
            None,
            (
                f"{host} had it when it was last read, and does not answer now: bring {host} back,"
                " or evacuate it first"
            ),
        )
    ran = instance["state"] in RAN
    if place["state"] in ("running", "blocked"):
        return FOUND, place, ""
    if place["state"] == OFF:
        if arriving is not None and arriving["type"] in COLD and (ran or arriving["runs"]):
            return ARRIVED, place, ""
        if not ran:
            return FOUND, place, ""
        if arriving is not None and arriving["type"] == migration_claims.EVACUATION:
            return RESUME, None, ""
        reason = (
            "is defined there, shut off, and not by an evacuation: start it there or undefine it"
            " there"
        )
    elif arriving is not None and _is_part(place, arriving):
        reason = (
            f"has a part only, which its live move had brought when {instance['host']} died, and"
            " which libvirt there gives up by itself: never resume it"
        )
    else:
        reason = f"is {place['state']} there: resume it there, or destroy and undefine it there"
    return LEAVE, None, f"on {host} it {reason}, and run this again"


def _is_part(place: Sighting, move: HostMigration) -> bool:
    """Return True if a host shows only a part of an instance, from an unfinished live move.

    libvirt starts the instance there when all of it has arrived.
    """
    return (
        move["type"] == LIVE
        and move["provider"] == place["provider"]
        and place["state"] == "paused"
    )


def _may_have(
    instance: EvacuatedInstance,
    node: NodeStorage,
    storage: dict[str, StorageOfNode],
    unread: dict[str, str],
) -> list[str]:
    """Return the hosts that see the storage of an instance and were not read."""
    if not unread:
        return []
    blind = set(
        blind_nodes(
            instance,
            node,
            {provider: storage[provider] for provider in unread if provider in storage},
        )
    )
    return sorted({host for provider, host in unread.items() if provider not in blind})
