# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A dead, fenced host as the store has it: what is to be done about each of its instances (rules S8 and S9).

Nothing of the host runs any more; the caller has a proof of that.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

from ansible_collections.drover.compute.plugins.plugin_utils.conductor.ports import Clock
from ansible_collections.drover.compute.plugins.plugin_utils.errors import some
from ansible_collections.drover.compute.plugins.plugin_utils.migrations import claims as migration_claims
from ansible_collections.drover.compute.plugins.plugin_utils.planner.evacuation import RAN, blind_nodes, why_lost
from ansible_collections.drover.compute.plugins.plugin_utils.planner.fencing import UNREAD_HOSTS
from ansible_collections.drover.compute.plugins.plugin_utils.store import evacuations, orders

# What is done about an instance of the dead host.
RESTART, RESUME, FOUND, LEAVE, LOST = "restart", "resume", "found", "leave", "lost"


class Verdict(NamedTuple):
    """What to do about one instance.

    - instance: as store.evacuations.instances() returns it.
    - migration: its open migration off the dead host, or None.
    - act: RESTART, RESUME, FOUND, LEAVE or LOST.
    - where: for RESUME that migration; for FOUND the place that shows it; else None.
    - why: for LEAVE and LOST, in words; else None.
    """

    instance: dict[str, Any]
    migration: dict[str, Any] | None
    act: str
    where: dict[str, Any] | None
    why: str | None


class DeadHost:
    """The instances of one dead host, and where else they are shown.

    :param store: an open Store.
    :param read: names of the hosts that were read in this run; the run takes those out that it loses on the way.
    :param keep: a function (connection) that renews the lease of the host, or raises DroverError when
        it is lost: it is called in the transaction of each step.
    :param lifted: names of rules that the operator lifts.
    :param clock: ports.Clock.
    """

    def __init__(
        self,
        store: Any,
        host: str,
        read: Iterable[str],
        keep: Callable[[Any], None],
        lifted: Collection[str] = (),
        clock: Clock = time,
    ) -> None:
        self.store, self.host, self.read = store, host, set(read)
        self._keep, self._lifted, self._clock = keep, lifted, clock

    @contextlib.contextmanager
    def step(self) -> Iterator[tuple[Any, float]]:
        """A write transaction, and the time; it begins by renewing the lease: a run that has lost it writes nothing."""
        with self.store.write() as connection:
            self._keep(connection)
            yield connection, self._clock.time()

    def verdicts(self, connection: Any) -> list[Verdict]:
        """What to do about each instance, the most important first."""
        instances = evacuations.instances(connection, self.host)
        shown = evacuations.shown(connection, [each["uuid"] for each in instances], self.host)
        migrations = {
            each["instance_uuid"]: each for each in evacuations.open_migrations(connection, self.host) if each["source"] == self.host
        }
        storage = evacuations.storage(connection)
        nodes = {each["node"]: each for each in storage.values() if each["host"] == self.host}
        unread = {} if UNREAD_HOSTS in self._lifted else evacuations.unread_nodes(connection, self.host, self.read)
        instances.sort(key=lambda each: (-each["priority"], each["name"], each["uuid"]))
        found = []
        for each in instances:
            migration, node = migrations.get(each["uuid"]), nodes[each["node"]]
            may_have = _may_have(each, node, storage, unread)
            verdict = sort_out(each, shown.get(each["uuid"], []), migration, node, self.read, may_have)
            found.append(Verdict(each, migration, *verdict))
        return found


def sort_out(
    instance: dict[str, Any],
    shown: list[dict[str, Any]],
    migration: dict[str, Any] | None,
    node: dict[str, Any],
    read: Collection[str],
    unread: Collection[str] = (),
) -> tuple[str, dict[str, Any] | None, str | None]:
    """What to do about one instance of the dead host (rules S8 and S9). Data in, data out.

    :param instance: as store.evacuations.instances() returns it.
    :param shown: the other hosts that show it, as store.evacuations.shown() returns them.
    :param migration: its open migration off the dead host, or None.
    :param node: the storage of the node that it was on.
    :param read: the hosts that were read in this run.
    :param unread: the hosts that may have it and were not.
    :returns: (RESTART, RESUME, FOUND, LEAVE or LOST; where, or None; why, in words, or None).
    """
    ours = migration is not None and migration["type"] == migration_claims.EVACUATION
    if len(shown) > 1:
        hosts = " and ".join(place["host"] for place in shown)
        return LEAVE, None, f"it is on {hosts} at once: destroy and undefine all but one of them, and run this again"
    if shown:
        return _shown(instance, shown[0], migration, ours, read)
    if migration is not None:
        known = migration["destination"] in read
        # Accepted: nobody has asked the destination for anything yet.
        begun = not ours or migration["status"] != "accepted"
        if not known and begun:
            where = migration["destination"]
            why = f"it was on its way to {where}, which does not answer, and may run there: bring {where} back, or evacuate it"
            return LEAVE, None, why
        if ours and known:
            return RESUME, migration, None
    if instance["task_state"] == orders.DELETING:
        return LEAVE, None, "it is being removed: run drover.compute.instance_delete again when its host is back"
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
    return RESTART, None, None


def _shown(
    instance: dict[str, Any], place: dict[str, Any], migration: dict[str, Any] | None, ours: bool, read: Collection[str]
) -> tuple[str, dict[str, Any] | None, str | None]:
    host = place["host"]
    if host not in read:
        return (
            LEAVE,
            None,
            f"{host} had it when it was last read, and does not answer now: bring {host} back, or evacuate it first",
        )
    ran = instance["state"] in RAN
    if place["state"] in ("running", "blocked"):
        return FOUND, place, None
    if place["state"] == "shutoff":
        if not ran:
            return FOUND, place, None
        if ours and migration["provider"] == place["provider"]:
            return RESUME, migration, None
        why = "is defined there, shut off, and not by an evacuation: start it there or undefine it there"
    else:
        why = f"is {place['state']} there: resume it there, or destroy and undefine it there"
    return LEAVE, None, f"on {host} it {why}, and run this again"


def _may_have(instance: dict[str, Any], node: dict[str, Any], storage: dict[str, dict[str, Any]], unread: dict[str, str]) -> list[str]:
    """The hosts that were not read and see the storage of an instance."""
    if not unread:
        return []
    blind = set(blind_nodes(instance, node, {provider: storage[provider] for provider in unread if provider in storage}))
    return sorted({host for provider, host in unread.items() if provider not in blind})
