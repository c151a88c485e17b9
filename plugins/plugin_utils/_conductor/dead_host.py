# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A dead, fenced host as the store has it, and the verdict on each of its instances (rules S8 and S9).

Nothing of the host runs any more; the caller has a proof of that.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple, cast

from ansible_collections.drover.compute.plugins.module_utils._bindings import reading
from ansible_collections.drover.compute.plugins.module_utils._domain_xml import is_written
from ansible_collections.drover.compute.plugins.plugin_utils import _storage_identity as storage_identity
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.ports import Clock
from ansible_collections.drover.compute.plugins.plugin_utils._errors import some
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import claims as migration_claims
from ansible_collections.drover.compute.plugins.plugin_utils._planner.evacuation import RAN, blind_nodes, why_lost
from ansible_collections.drover.compute.plugins.plugin_utils._planner.fencing import OPEN_DISK_CHANGE, UNREAD_HOSTS
from ansible_collections.drover.compute.plugins.plugin_utils._records.hosts import NodeStorage, Sighting, StorageOfNode
from ansible_collections.drover.compute.plugins.plugin_utils._records.instances import Binding, Disk, EvacuatedInstance
from ansible_collections.drover.compute.plugins.plugin_utils._records.orders import HostMigration
from ansible_collections.drover.compute.plugins.plugin_utils._store import evacuations, files, orders, services
from ansible_collections.drover.compute.plugins.plugin_utils._store.engine import Connection, Rehearsal, Transactions

#: The state of a domain that does not run.
OFF = "shutoff"
# Start an instance elsewhere, go on with a start that was begun, start it where a cold move has taken it, record it where another host has
# it, leave it, or give it up as lost.
RESTART, RESUME, ARRIVED, FOUND, LEAVE, LOST = "restart", "resume", "arrived", "found", "leave", "lost"
LIVE = "live-migration"
#: The types of moves of an instance that is off: where its definition is, its disks are whole.
COLD = (migration_claims.RESIZE, "migration")


class Verdict(NamedTuple):
    """What to do about one instance.

    - migration: its open migration off the dead host; RESUME goes on with that.
    - act: RESTART, RESUME, ARRIVED, FOUND, LEAVE or LOST.
    - place: for FOUND and ARRIVED; else None.
    - why: for LEAVE and LOST, in words; else empty.
    """

    instance: EvacuatedInstance
    migration: HostMigration | None
    act: str
    place: Sighting | None
    why: str


class DeadHost:
    """The instances of one dead host, and where else they are shown.

    :param read: names of the hosts that were read in this run; the run takes those out that it loses on the way.
    :param keep: renew the lease of the host, or raise DroverError where it is lost; in the transaction of each step.
    :param lifted: names of rules that the operator lifts.
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
        #: Why an instance that another host has already cannot be recorded there, by its uuid.
        self.refused: dict[str, str] = {}
        #: The texts of the disks that it was cut off from, where that is the proof, and not that it is off.
        self.cut: Collection[str] | None = None

    def rehearsed(self, store: Rehearsal) -> DeadHost:
        """Return the same host for a dry run, which has no lease."""
        other = DeadHost(store, self.host, self.read, lambda connection: None, self._lifted, self._clock)
        other.cut = self.cut
        return other

    @contextlib.contextmanager
    def step(self) -> Iterator[tuple[Connection, float]]:
        """Begin a write transaction by renewing the lease, so that a run that has lost it writes nothing; with the time."""
        with self.store.write() as connection:
            self._keep(connection)
            yield connection, self._clock.time()

    def incoming(self) -> list[Sighting]:
        """Find the living hosts that have a part of an instance, which was on its way there live. libvirt gives it up once it notices the death."""
        with self.store.read() as connection:
            moves = [each for each in evacuations.open_migrations(connection, self.host) if each["source"] == self.host]
            shown = evacuations.shown(connection, [each["instance_uuid"] for each in moves], self.host)
        return [
            place
            for move in moves
            for place in shown.get(move["instance_uuid"], ())
            if _is_part(place, move) and place["host"] in self.read
        ]

    def verdicts(self, connection: Connection) -> list[Verdict]:
        """Decide what to do about each instance, the most important first."""
        instances = evacuations.instances(connection, self.host)
        shown = evacuations.shown(connection, [each["uuid"] for each in instances], self.host)
        # What an earlier evacuation has left is no place of an instance, unless it runs there.
        old = evacuations.old_definitions(connection, shown)
        shown = {
            uuid: [each for each in found if each["host"] not in old.get(uuid, ()) or each["state"] != OFF] for uuid, found in shown.items()
        }
        migrations = {
            each["instance_uuid"]: each for each in evacuations.open_migrations(connection, self.host) if each["source"] == self.host
        }
        storage = evacuations.storage(connection)
        nodes = {each["node"]: each for each in storage.values() if each["host"] == self.host}
        # A host that is off has nothing that runs either.
        silent = evacuations.unread_nodes(connection, self.host, self.read)
        unread = {} if UNREAD_HOSTS in self._lifted else silent
        closed = services.closed_hosts(connection)
        instances.sort(key=lambda each: (-each["priority"], each["name"], each["uuid"]))
        found = []
        for each in instances:
            migration, node = migrations.get(each["uuid"]), nodes[each["node"]]
            may_have = _may_have(each, node, storage, unread)
            act, place, why = sort_out(
                each, shown.get(each["uuid"], []), migration, node, self.read, may_have, set(silent.values()), closed
            )
            if act == RESTART and (used := _why_used(connection, each, self.host, node)):
                act, why = LEAVE, used
            if act == RESTART and OPEN_DISK_CHANGE not in self._lifted and (unknown := _why_unknown(each)):
                act, why = LEAVE, unknown
            if act in (RESTART, RESUME) and self.cut is not None and (open_ := why_not_cut(each, node, self.cut)):
                act, why = LEAVE, open_
            found.append(Verdict(each, migration, act, place, why))
        return found


def why_not_cut(instance: EvacuatedInstance, node: NodeStorage, cut: Collection[str]) -> str | None:
    """Why an instance may still write to a disk although its host is cut off from storage; None if it cannot.

    :param node: the storage of its node.
    :param cut: the texts of the disks that the host was seen to be cut off from.
    """
    host = instance["host"]
    written = [disk for disk in storage_identity.all_disks(instance) if disk.get("source") and is_written(disk)]
    advice = f"confirm that {host} is off, or cut that storage off too"
    if not written:
        return f"it has no disk that {host} could be cut off from, so it may still run there: confirm that {host} is off"
    for disk in written:
        if storage_identity.anywhere(disk, node) not in cut:
            return f"its disk {disk['source']} is on no storage that {host} was cut off from, so it may still run there: {advice}"
    return None


def _why_unknown(instance: EvacuatedInstance) -> str | None:
    """Why it is not known which images have the newest data of an instance; None where it is, or where its new host finds out.

    A disk that is copied has all its data in its old file until the guest is switched over; nobody writes to the disks of one that is off. A
    snapshot that was made is seen at its new host, by the image that is backed by the disk.
    """
    if instance["state"] not in RAN:
        return None
    for now in instance.get("running_disks") or ():
        later = next((each for each in instance["disks"] if each.get("target") == now.get("target") and each.get("source")), None)
        if later is not None and has_data(now) and has_data(later) and not _is_same(now, later):
            return (
                f"its disk {now['target']} was {now['source']} in the running guest and is {later['source']} in its definition, from which it would start, "
                f"and it is not known which of them has the newest data. Look at both. If the right one is {later['source']}: -e drover_evacuate_force="
                f"{OPEN_DISK_CHANGE}, which lifts just this rule; else put the right data there first, or bring {instance['host']} back, and run this again"
            )
    does = {
        orders.SWITCHING_DISK: "was just switched over to the copy of a disk",
        orders.DELETING_SNAPSHOT: "had a snapshot merged into one of its images",
    }.get(instance["task_state"] or "")
    if does is None:
        return None
    disks = some([source for disk in instance["disks"] if (source := disk.get("source")) and is_written(disk)])
    return (
        f"it {does} when {instance['host']} died, and it is not known which of its images has the newest data. Look at the images beside {disks}. If the "
        f"right ones are {disks}: -e drover_evacuate_force={OPEN_DISK_CHANGE}, which lifts just this rule; else put the right data there first, or bring "
        f"{instance['host']} back, and run this again"
    )


def has_data(disk: Disk) -> bool:
    """Whether a guest keeps data of its own on a disk."""
    return disk.get("device", "disk") in ("disk", "lun") and is_written(disk)


def _is_same(one: Disk, other: Disk) -> bool:
    """Whether two disks are one file by two names."""
    return bool(one.get("real_path")) and one.get("real_path") == other.get("real_path")


def _why_used(connection: Connection, instance: EvacuatedInstance, host: str, node: NodeStorage) -> str | None:
    """Why an instance is not restarted: a domain of another host has one of its disks on the network, where no lock keeps two writers apart.

    Of files the destination itself finds out.
    """
    for disk in instance["disks"]:
        if (
            not disk.get("source")
            or disk.get("path")
            or disk.get("type") not in ("network", "volume")
            or disk.get("shareable")
            or not is_written(disk)
        ):
            continue
        for name, text in sorted(storage_identity.names_on_network(disk, node), key=str):
            user = files.user(connection, name, text, instance["uuid"], writes=True, but_host=host)
            if user is not None:
                return (
                    f"its disk {disk['source']} is one of {user['name'] or user['uuid']} on {user['host']} too, and both would write to it: take it out of "
                    "that domain or remove that domain, if it is not the one that is to go on, and run this again"
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
    """Decide what to do about one instance of the dead host (rules S8 and S9).

    :param shown: the other hosts that show it.
    :param migration: its open migration off the dead host.
    :param node: the storage of the node that it was on.
    :param read: the hosts that were read in this run.
    :param unread: the hosts that may have it and were not.
    :param silent: the hosts that were not read, and of which it is not proven that they are off.
    :param closed: the hosts that are disabled or forced down: what was claimed there and never begun is started elsewhere.
    :returns: act, place and why of a Verdict.
    """
    ours = migration if migration is not None and migration["type"] == migration_claims.EVACUATION else None
    if len(shown) > 1:
        hosts = " and ".join(place["host"] for place in shown)
        return LEAVE, None, f"it is on {hosts} at once: destroy and undefine all but one of them, and run this again"
    if shown:
        return _shown(instance, shown[0], migration, read)
    # A resize on one host has no other end.
    if migration is not None and migration["destination"] != instance["host"]:
        known = migration["destination"] in read or (ours is None and migration["destination"] not in silent)
        # Accepted: the destination has no order yet.
        begun = ours is None or ours["status"] != "accepted"
        if not known and begun:
            where = migration["destination"]
            why = f"it was on its way to {where}, which does not answer, and may run there: bring {where} back, or evacuate it"
            return LEAVE, None, why
        if ours is not None and known and (begun or migration["destination"] not in closed):
            return RESUME, None, ""
    if instance["task_state"] == orders.DELETING:
        why = (
            "it is being removed: run drover.compute.instance_delete again when its host is back; if that never is, release it: ansible localhost -m "
            f'drover.compute.allocation -a \'{{"state": "released", "instances": ["{instance["uuid"]}"]}}\''
        )
        return LEAVE, None, why
    if instance.get("bindings") is None and instance["xml"]:
        # Its host was last read by a drover that did not tell them.
        found = cast(list[Binding], reading.as_facts(reading.read(instance["xml"])))
        instance = {**instance, "bindings": found}
    reason = why_lost(instance, node)
    if reason:
        return LOST, None, reason
    if unread:
        hosts = some(sorted(unread))
        why = (
            f"it may run on {hosts}, not read now, where somebody may have moved it: bring {hosts} back, or evacuate it first. To go on all the "
            f"same: -e drover_evacuate_force={UNREAD_HOSTS}, which lifts just this rule"
        )
        return LEAVE, None, why
    return RESTART, None, ""


def _shown(
    instance: EvacuatedInstance, place: Sighting, migration: HostMigration | None, read: Collection[str]
) -> tuple[str, Sighting | None, str]:
    host = place["host"]
    there = migration if migration is not None and migration["provider"] == place["provider"] else None
    if host not in read:
        return (
            LEAVE,
            None,
            f"{host} had it when it was last read, and does not answer now: bring {host} back, or evacuate it first",
        )
    ran = instance["state"] in RAN
    if place["state"] in ("running", "blocked"):
        return FOUND, place, ""
    if place["state"] == OFF:
        if there is not None and there["type"] in COLD and (ran or there["runs"]):
            return ARRIVED, place, ""
        if not ran:
            return FOUND, place, ""
        if there is not None and there["type"] == migration_claims.EVACUATION:
            return RESUME, None, ""
        why = "is defined there, shut off, and not by an evacuation: start it there or undefine it there"
    elif there is not None and _is_part(place, there):
        why = f"has a part only, which its live move had brought when {instance['host']} died, and which libvirt there gives up by itself: never resume it"
    else:
        why = f"is {place['state']} there: resume it there, or destroy and undefine it there"
    return LEAVE, None, f"on {host} it {why}, and run this again"


def _is_part(place: Sighting, move: HostMigration) -> bool:
    """Return whether a host shows what a live move had brought there so far; libvirt starts it when all is there."""
    return move["type"] == LIVE and move["provider"] == place["provider"] and place["state"] == "paused"


def _may_have(instance: EvacuatedInstance, node: NodeStorage, storage: dict[str, StorageOfNode], unread: dict[str, str]) -> list[str]:
    """Return the hosts that were not read and see the storage of an instance."""
    if not unread:
        return []
    blind = set(blind_nodes(instance, node, {provider: storage[provider] for provider in unread if provider in storage}))
    return sorted({host for provider, host in unread.items() if provider not in blind})
