# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machines that a run needs itself: the controller, and the server of the store, where they are hosts or guests of this fleet.

Only this module decides whether a host or an instance is one of them, and only here such an act is refused. The controller is known by the uuid of
its firmware and its machine id, or by its network cards where it may not read the first; the server of the store by its address; a variable says it
where none of them tells. Where several are like it, each may be it, and counts as it. A store in a file is where the controller is.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ansible_collections.drover.compute.plugins.module_utils._libvirt import machine as _machine

from .._common.errors import DroverError
from .._store import evacuations, own_places
from .._store.engine import Connection, Store

CONTROLLER, STORE = "the controller", "the database server of the store"
#: The variables that say it: the name of a host or of an instance.
VARIABLES = {CONTROLLER: "drover_controller", STORE: "drover_store_machine"}
#: The value of such a variable for a machine that is not in this fleet.
OUTSIDE = "none"
#: Before the words for a machine that is not the only one of its kind.
PERHAPS = "perhaps "
Place = tuple[str | None, str | None]


@dataclasses.dataclass(frozen=True)
class Known:
    """What this controller knows of itself and of the server of its store.

    - machine: of the controller; None where that cannot be read.
    - macs: of the network cards of the controller.
    - addresses: of the server of the store; None for one that is on the controller.
    - said: what the variables say: a name by a key of VARIABLES.
    """

    machine: _machine.Machine | None = None
    macs: frozenset[str] = frozenset()
    addresses: frozenset[str] | None = None
    said: Mapping[str, str] = dataclasses.field(default_factory=dict)


class Own(NamedTuple):
    """One such machine in the fleet. what: in words. host: it is this one, or its guest is there. uuid, name: of the guest, else None."""

    what: str
    host: str | None
    uuid: str | None = None
    name: str | None = None


class OwnMachines:
    """The machines of one run. Without a store, or with nothing known, there are none."""

    def __init__(self, store: Store | None = None, known: Callable[[], Known] = Known) -> None:
        self._store, self._look = store, known
        self._found: list[tuple[str, str | None, str | None]] | None = None

    @functools.cached_property
    def _known(self) -> Known:
        return self._look()

    def read(self) -> list[Own]:
        """Find them where they are now.

        :raises DroverError: a variable names nothing that the store knows.
        """
        if self._store is None or self._known == Known():
            return []
        with self._store.read() as connection:
            return self._read(connection)

    def _read(self, connection: Connection) -> list[Own]:
        if self._found is None:
            self._found = self._find(connection)
        there = own_places.places(connection, [uuid for _what, _host, uuid in self._found if uuid is not None])
        return [
            Own(what, host) if uuid is None else Own(what, there[uuid][1], uuid, there[uuid][0])
            for what, host, uuid in self._found
            if uuid is None or uuid in there
        ]

    def _find(self, connection: Connection) -> list[tuple[str, str | None, str | None]]:
        controller = self._of(connection, CONTROLLER, self._machines)
        is_apart = self._known.addresses is not None or STORE in self._known.said
        store = self._of(connection, STORE, self._servers) if is_apart else controller
        both = {f"{CONTROLLER} and its store": controller} if controller == store else {CONTROLLER: controller, STORE: store}
        return [(f"{PERHAPS}{what}" if len(found) > 1 else what, *place) for what, found in both.items() for place in found]

    def _of(self, connection: Connection, what: str, seen: Callable[[Connection], tuple[list[str], list[str]]]) -> list[Place]:
        """Return each place that may be it: (host, None) or (None, uuid of an instance). None where it is not in this fleet, or not known."""
        said = self._known.said.get(what)
        if said == OUTSIDE:
            return []
        hosts, uuids = own_places.named(connection, said) if said else seen(connection)
        if said and len(hosts) + len(uuids) != 1:
            why = "several hosts or instances have that name" if hosts or uuids else "the store knows no host and no instance of that name"
            raise DroverError(
                f"{VARIABLES[what]} is {said}, but {why}. Correct it, or set it to {OUTSIDE} if it is not in this fleet; nothing was done."
            )
        # A guest is nearer than the host that has its address too.
        return [(None, uuid) for uuid in uuids] or [(host, None) for host in hosts]

    def _machines(self, connection: Connection) -> tuple[list[str], list[str]]:
        machine = self._known.machine
        if machine is None:
            return [], []
        like = own_places.hosts_like(connection, machine["uuids"], machine["machine_id"])
        hosts = [
            host
            for host, found in like.items()
            if _machine.judge(_machine.read_expected({"host": host, **found}), machine) == _machine.SAME
        ]
        # QEMU gives a guest the uuid of its domain as that of its firmware, whatever uuid its own libvirt has.
        uuids = own_places.instances_of_uuids(connection, {*machine["uuids"], *filter(None, [machine["firmware"]])})
        if not hosts and not uuids and not machine["read"]:
            uuids = own_places.instances_of_macs(connection, self._known.macs)
        return hosts, uuids

    def _servers(self, connection: Connection) -> tuple[list[str], list[str]]:
        wanted = self._known.addresses or frozenset()
        return own_places.hosts_of_addresses(connection, wanted), own_places.instances_of_addresses(connection, wanted)

    # What is theirs

    def hosts(self) -> dict[str, str]:
        """Return the hosts that are such machines themselves: {host: what}."""
        return {each.host: each.what for each in self.read() if each.uuid is None and each.host is not None}

    def guests(self) -> dict[str, str]:
        """Return the instances that are such machines: {uuid: what}."""
        return {each.uuid: each.what for each in self.read() if each.uuid is not None}

    def sentences(self) -> list[str]:
        """Name them, for a plan, a check and a report."""
        found = self.read()
        variables = sorted({_variable(each.what) for each in found if each.what.startswith(PERHAPS)})
        return [
            f"{each.host} is {each.what}: it is maintained last, and not rebooted or switched off by a run from there."
            if each.uuid is None
            else f"{each.name} on {each.host or 'no host'} is {each.what}: it is moved live and last, and never stopped by a run that needs it."
            for each in found
        ] + [f"Several are like that machine. Say which it is: -e {variable}=NAME, or {OUTSIDE}." for variable in variables]

    # What is refused

    def refuse_stop(self, instances: Iterable[Mapping[str, object]], not_done: str) -> None:
        """Refuse to stop, move cold, revert, resize or delete one of them, or to take a device from it.

        :param instances: each with uuid and name.
        :param not_done: what is not done, as a sentence without its end: "It is not stopped".
        :raises DroverError: one of them is needed by this run.
        """
        own = self.guests()
        for each in instances:
            what = own.get(str(each["uuid"]))
            if what is not None:
                raise DroverError(
                    f"Instance {each['name']}: {not_done}, because it is {what}, which this run needs. A live move is possible. For all else, do it on its "
                    f"host with virsh, or give the command on another controller. If it is not {what}, say what is: -e {_variable(what)}=NAME (or {OUTSIDE})"
                )

    def refuse_power(self, host: str, not_done: str) -> None:
        """Refuse to take the power of a host from such a machine.

        :param not_done: as of refuse_stop().
        :raises DroverError: the host is one, or a guest there is one.
        """
        for each in self.read():
            if each.host != host:
                continue
            if each.uuid is None:
                why = f"it is {each.what}, which this run needs"
                way = f"Give the command on another controller, or reboot {host} itself (systemctl reboot) once it is drained"
            else:
                why = f"{each.name}, which runs there, is {each.what}, which this run needs"
                way = f"Move {each.name} first (drover.compute.drain moves it live)"
            raise DroverError(
                f"{host}: {not_done}, because {why}. {way}. If that is wrong, say what is: -e {_variable(each.what)}=NAME (or {OUTSIDE})"
            )

    def refuse_dead(self, host: str) -> None:
        """Refuse to take a host for dead on which such a machine works for this run. Of several that may be it, another one may work for it.

        :raises DroverError: the host is one, or its last report has a guest that is one, and no other host shows that running.
        """
        for each in self.read():
            if each.host != host or each.what.startswith(PERHAPS) or (each.uuid is not None and self._runs_elsewhere(each.uuid, host)):
                continue
            name, place = (host, "") if each.uuid is None else (each.name, ", which ran there when the store last heard of it,")
            other = f", or {name} runs on another host: run drover.compute.discover, which finds it there" if each.uuid is not None else ""
            raise DroverError(
                f"{host} is not evacuated, and its power is not cut: {name}{place} is {each.what}, which works for this run. So {host} is not dead{other}. "
                f"If something else is {each.what} by now, say what: -e {_variable(each.what)}=NAME (or {OUTSIDE}). Nothing was changed."
            )

    def _runs_elsewhere(self, uuid: str, host: str) -> bool:
        if self._store is None:
            return False
        with self._store.read() as connection:
            return any(each["state"] != "shutoff" for each in evacuations.shown(connection, [uuid], host).get(uuid, ()))


def _variable(what: str) -> str:
    return next(variable for key, variable in VARIABLES.items() if what.removeprefix(PERHAPS).startswith(key))
