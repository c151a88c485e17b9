# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The removal of an instance with an open resize and an undefined domain.

Nothing of it is left to confirm or revert.

Both ends of the resize must show that they have no domain of it. Its files stay, because only its
domain recorded which files belong to it.
"""

from __future__ import annotations

from collections.abc import Collection

from .._common import certainty
from .._common.errors import DroverError
from .._migrations import claims as migration_claims
from .._migrations import resizes
from .._placement import claims
from .._records.instances import NamedInstance
from .._records.orders import Resize
from .._records.outcomes import InstanceOutcome
from .._store.engine import Store
from .._store.hosts import continuity
from .._store.instances import drained, instance_lookup
from . import used_files
from .operations import refuse
from .ports import Ports

#: The message of the closed migration, for people who look later.
MESSAGE = "Its domain was gone, and the instance was removed."
KEPT = (
    "its domain is gone, and nothing else says that the file is its own: look at it, and remove it"
    " by hand"
)


def is_resized(instance: NamedInstance) -> bool:
    """Return True if an instance on a host has an open or unconfirmed resize."""
    migration = instance["migration"]
    return (
        migration is not None
        and migration["type"] == migration_claims.RESIZE
        and instance["host"] is not None
    )


class ResizeRemoval:
    """The removal of such instances, one after the other.

    :param patience: seconds to wait for other calls that work on a domain.
    """

    def __init__(self, ports: Ports, patience: int, check_mode: bool = False) -> None:
        self._store: Store = ports.store
        self._hosts, self._clock, self._patience, self._check_mode = (
            ports.hosts,
            ports.clock,
            patience,
            check_mode,
        )

    def hosts(self, uuid: str) -> list[str]:
        """Return the hosts with leases that remove() needs.

        :raises DroverError: see remove().
        """
        _instance, resize = self._read_resize(uuid)
        return list(dict.fromkeys((resize["source"], resize["destination"])))

    def _read_resize(self, uuid: str) -> tuple[NamedInstance, Resize]:
        with self._store.read() as connection:
            (instance,) = instance_lookup.find(connection, [uuid])
            migration = instance["migration"]
            if migration is None or not is_resized(instance):
                raise DroverError(
                    f"Instance {instance['name']}: another run has just ended its resize. Nothing"
                    " was removed: run this again."
                )
            return instance, resizes.describe(connection, migration["uuid"])

    def remove(self, uuid: str) -> InstanceOutcome:
        """Remove an instance if neither end of its resize has a domain of it.

        :raises DroverError: an end does not answer or has its domain, or another run has ended the
            resize; nothing was removed.
        """
        instance, resize = self._read_resize(uuid)
        name = instance["name"]
        ends = {
            resize["source"]: resize["source_uri"],
            resize["destination"]: resize["destination_uri"],
        }
        self._refuse_shown_elsewhere(instance, ends)
        with self._store.read() as connection:
            # A store from a backup may not know that the resize has ended, nor where the instance
            # runs now.
            continuity.refuse_unread(
                connection,
                f"Instance {name}: It is not removed",
                self._hosts.names(),
                continuity.RUNNING,
            )
        # Look first without a withdrawal: if a domain exists, the resize must continue.
        proofs = self._read_both_ends(instance, ends, [])
        if not self._check_mode:
            proofs = self._read_both_ends(instance, ends, [resize["migration"]])
        with self._store.read() as connection:
            files = used_files.of_instance(connection, uuid)
        if not self._check_mode:
            proof, now = certainty.has_vanished(proofs), self._clock.time()
            with self._store.write(together=True) as connection:
                migration_claims.abandon(connection, resize["migration"], proof, MESSAGE, now)
                claims.forget(connection, [uuid], proof, now)
                for host in ends:
                    drained.settle(connection, host, [uuid])
        kept = [{"path": path, "reason": KEPT} for path in files]
        return {
            "uuid": uuid,
            "name": name,
            "changed": True,
            "status": "done",
            "message": "",
            "removed_disks": [],
            "kept_disks": kept,
        }

    @staticmethod
    def _refuse_shown_elsewhere(instance: NamedInstance, ends: Collection[str]) -> None:
        others = instance_lookup.shown_elsewhere(instance, ends)
        if others:
            raise DroverError(
                f"Instance {instance['name']} was resized, and {' and '.join(others)} shows its"
                " domain, which somebody took there. It is not removed: take it back to"
                f" {instance['host']} by hand, or undefine it there and run"
                " drover.compute.discover, and then this again."
            )

    def _read_both_ends(
        self, instance: NamedInstance, ends: dict[str, str], withdrawn: list[str]
    ) -> list[certainty.Proof]:
        proofs = []
        for host, uri in ends.items():
            look = self._hosts.hand(host).look(uri, {instance["uuid"]: withdrawn}, self._patience)[
                instance["uuid"]
            ]
            if look is None:
                raise DroverError(
                    f"Instance {instance['name']} has a resize that is open, and {host} does not"
                    " answer, so it may have its domain. It is not removed: run this again when"
                    f" {host} answers."
                )
            proof = certainty.is_absent(host, look)
            if proof is None:
                refuse(instance, "absent")
                raise DroverError(
                    f"Instance {instance['name']}: {host} is at work on it. It is not removed: run"
                    " this again later."
                )
            proofs.append(proof)
        return proofs
