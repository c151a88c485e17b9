# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fences that shut a host out of shared storage if its power cannot be switched.

They let the host in again when it is back.

The tasks of a fence belong to the operator, or to the role evacuate for Ceph: they cut, verify and
lift. This module has their arguments, the records of fences in the store, and the conditions of a
lift.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.module_utils._domain.definition import is_written
from ansible_collections.drover.compute.plugins.module_utils._storage import kinds
from ansible_collections.drover.compute.plugins.module_utils._storage.kinds import Fence

from .._common import storage_identity
from .._common.errors import DroverError, HostTimeout, Unreachable, some
from .._store.database import clock
from .._store.engine import Connection
from .._store.hosts import storage_fences
from .._store.instances import evacuations
from . import evidence
from .ports import Ports

#: Seconds that the discovery of a host may take before the host is let in again.
READ = 200
#: Seconds until Ceph has forgotten a client that is gone (30, and a reserve); seconds between two
#: looks.
FORGOTTEN, LOOK = 45, 5
#: The fence of Ceph, and the seconds that its cluster may take to answer.
CEPH, ASKED = Fence.CEPH.value, 60
#: The fences with tasks in the role evacuate.
FENCES = tuple(each.value for each in Fence)


def is_done(connection: Connection, host: str) -> bool:
    """Return True if a host was seen to be shut out and needs no evacuation any more.

    That is, no instance and no open migration of the host is left.
    """
    fenced = any(each["cut"] for each in storage_fences.read(connection, host))
    return (
        fenced
        and not evacuations.instances(connection, host)
        and not evacuations.open_migrations(connection, host)
    )


def why_open(ports: Ports, host: str, fences: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the reason why a fenced host may have its storage again. Call it right before a start.

    The blocklist of Ceph may have been lifted since. The watchers of an image prove nothing here: a
    client that is let in again continues to write and watches no image. The tasks of the operator
    cannot run here.

    :param fences: the fences that this run has verified.
    :returns: a sentence: the reason why it is not known to be shut out. None if it is shut out, or
        if the fence is not the blocklist of Ceph.
    """
    variables = ports.hosts.variables(host)
    for fence in fences:
        if fence["fence"] != CEPH:
            continue
        question = {
            "state": "verified",
            "addresses": fence["addresses"],
            "arguments": variables.get("drover_ceph_arguments") or [],
        }
        try:
            seen = ports.hosts.hand(variables.get("drover_ceph_admin") or "localhost", ASKED).read(
                "_ceph_fence", question
            )
        except (Unreachable, HostTimeout) as problem:
            return str(problem)
        if seen.get("failed"):
            return str(seen.get("msg") or "Ceph does not say why.")
    return None


def tasks_of(fence: str, host: str, lift: bool = False) -> str:
    """Return the file with the tasks of a fence.

    :param lift: True if the tasks let the host in again.
    :raises DroverError: no such file exists.
    """
    if fence in FENCES:
        return f"storage_fences/{fence}.yml"
    if os.path.isabs(fence) and os.path.isfile(fence):
        return fence
    if lift:
        raise DroverError(
            f"{host} stays shut out of its storage: the tasks {fence}, which were to shut it out,"
            " are not on the controller. Put them there again; if they have cut nothing off, a"
            " file with an empty list of tasks, [], lifts nothing."
        )
    raise DroverError(
        f"drover_storage_fence of {host} is {fence}, and that is neither {' nor '.join(FENCES)} nor"
        " the absolute path of a file with tasks on the controller. Nothing was cut off."
    )


class StorageFencing:
    """The fences of the storage of one host. The run has the lease of the host."""

    def __init__(self, ports: Ports, host: str) -> None:
        self.host, self._ports = host, ports

    def begin(self, fence: str, declared: Collection[str] = ()) -> dict[str, object]:
        """Record that the host is about to be shut out.

        :param fence: the name or the path of the tasks.
        :param declared: addresses that the host uses for its storage, from its variables.
        :returns: a dict: addresses to shut out; disks, the texts of the disks of its instances on
            shared storage. Both are empty if an earlier run has shut it out, and all of its
            instances are elsewhere.
        :raises DroverError: its addresses are not known, or none of its disks is on shared storage.
        """
        with self._ports.store.write() as connection:
            self._ports.leasing.renew(connection, self.host)
            if is_done(connection, self.host):
                self._ports.say(
                    f"{self.host} was shut out of its storage before, and nothing is left of it"
                    " that could be restarted."
                )
                return {"addresses": [], "disks": []}
            addresses, disks = self._targets(connection, declared)
            every = storage_fences.begin(
                connection, self.host, fence, addresses, clock.now(connection)
            )
        return {"addresses": every, "disks": disks}

    def foresee(self, fence: str, declared: Collection[str] = ()) -> None:
        """Check that the host could be shut out, and change nothing.

        :param fence, declared: see begin().
        :raises DroverError: the fence has no tasks, the addresses of the host are not known, or
            none of its disks is on shared storage.
        """
        tasks_of(fence, self.host)
        with self._ports.store.read() as connection:
            if not is_done(connection, self.host):
                self._targets(connection, declared)

    def _targets(
        self, connection: Connection, declared: Collection[str]
    ) -> tuple[set[str], list[str]]:
        """Return the addresses to shut out, and the texts of the disks."""
        addresses = {*declared, *evacuations.own_addresses(connection, self.host)}
        if not addresses:
            raise DroverError(
                f"It is not known from which addresses {self.host} reaches its storage, so it"
                " cannot be shut out of it. Nothing was cut off. Set drover_storage_addresses of"
                f" {self.host}, a list of IP addresses; discovery records them while a host"
                " answers."
            )
        disks = sorted(self._disks(connection))
        if not disks:
            raise DroverError(
                f"No instance of {self.host} writes to shared storage from which it could be cut"
                " off. Nothing was cut off."
            )
        return addresses, disks

    def _disks(self, connection: Connection) -> set[str]:
        nodes = {
            each["node"]: each
            for each in evacuations.storage(connection).values()
            if each["host"] == self.host
        }
        return {
            text
            for each in evacuations.instances(connection, self.host)
            for disk in storage_identity.all_disks(each)
            if disk.get("source")
            and is_written(disk)
            and (text := storage_identity.anywhere(disk, nodes[each["node"]]))
        }

    def verified(
        self,
        fence: str,
        cut: Collection[str],
        others: Collection[str] = (),
        lifted: Collection[str] = (),
    ) -> None:
        """Record the disks that a fence has cut the host off from.

        The tasks of a fence report them, and they may be wrong. So other hypervisors look for
        clients that still have images of Ceph open.

        :param others: the other hypervisors of the inventory.
        :param lifted: the rules of fencing.LIFTABLE that the operator lifts.
        :raises DroverError: the host is cut off from no disk, or a client still has an image open.
        """
        if not cut:
            raise DroverError(f"{self.host} was seen to be cut off from no disk of its instances.")
        if "storage_active" not in lifted:
            self._refuse_open(cut, others)
        with self._ports.store.write() as connection:
            self._ports.leasing.renew(connection, self.host)
            storage_fences.verified(connection, self.host, fence, cut, clock.now(connection))
        self._ports.say(f"{self.host} is cut off from its storage: {some(sorted(cut), 5)}.")

    def _refuse_open(self, cut: Collection[str], others: Collection[str]) -> None:
        images = sorted(each for each in cut if kinds.is_watched(each))
        if not images:
            return
        with self._ports.store.read() as connection:
            peers = evidence.peers(connection, self.host, others)
        deadline = self._ports.clock.monotonic() + FORGOTTEN
        while True:
            still_open = {image for peer in peers for image in self._open_images(peer, images)}
            if not still_open:
                return
            if self._ports.clock.monotonic() >= deadline:
                raise DroverError(
                    f"The tasks of the fence say that {self.host} is cut off from"
                    f" {some(sorted(still_open), 3)}, but Ceph still has a client that writes"
                    " there: its instances run. Nothing was started. Correct the tasks so that"
                    " they cut it off, and run this again. To go on all the same: -e"
                    " drover_evacuate_force=storage_active, which lifts just this rule."
                )
            self._ports.clock.sleep(LOOK)

    def _open_images(self, peer: str, images: list[str]) -> set[str]:
        """Return the images that a client has open, as another hypervisor sees them."""
        try:
            seen = self._ports.hosts.hand(peer, evidence.PROBE).read(
                "_host_probe", {"addresses": [], "disks": images}
            )
        except (Unreachable, HostTimeout):
            return set()
        return set(seen.get("in_use") or ())

    def returned(self) -> list[dict[str, object]]:
        """Read the host, and check that it may be let in again.

        Return the fences of the host, the oldest first.

        :raises DroverError: it does not answer, or a guest that was started elsewhere still runs
            there, or starts of its instances are still open.
        """
        with self._ports.store.read() as connection:
            fences = storage_fences.read(connection, self.host)
        if not fences:
            return []
        self._ports.hosts.discover(self.host, READ)
        with self._ports.store.read() as connection:
            moved = storage_fences.still_there(connection, self.host)
            begun = evacuations.begun_destinations(connection, self.host)
        if moved:
            names = some([f"{each['name']} (now on {each['host']})" for each in moved])
            first = moved[0]["name"]
            raise DroverError(
                f"{self.host} stays shut out of its storage: {names} still runs there, and would"
                " write to the disks of the instance that runs elsewhere. Destroy it on"
                f" {self.host} (virsh destroy {shlex.quote(first)}), or start {self.host} anew, and"
                " run this again."
            )
        if begun:
            raise DroverError(
                f"{self.host} stays shut out of its storage: starts of its instances on"
                f" {some(sorted(begun))} are open. Run drover.compute.evacuate for {self.host} once"
                " more, which closes them, and run this again."
            )
        return fences

    def lifted(self, fence: str) -> bool:
        """Record that a fence was lifted. Return True if the fence had shut the host out."""
        with self._ports.store.write() as connection:
            self._ports.leasing.renew(connection, self.host)
            done = storage_fences.forget(connection, self.host, fence)
            left = storage_fences.read(connection, self.host)
        if done and not left:
            self._ports.say(f"{self.host} has its storage again.")
        return done
