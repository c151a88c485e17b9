# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machines that a run itself needs: the controller and the server of the store.

They are known only if they are hosts or guests of this fleet.

Only this module decides if a host or an instance is one of them, and only this module refuses an
act on them. It knows the controller by the uuid of its firmware and its machine id, or by its
network cards if it cannot read them. It knows the server of the store by its address. If no sign
decides, a variable names the machine. If several machines match, each of them counts as it. A store
in a file is on the controller.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ansible_collections.drover.compute.plugins.module_utils._libvirt import machine as _machine

from .._common.errors import DroverError
from .._store.engine import Connection, Store
from .._store.hosts import own_places
from .._store.instances import evacuations, instance_lookup

CONTROLLER, STORE = "the controller", "the database server of the store"
#: The variables that name a machine: the name of a host or of an instance.
VARIABLES = {CONTROLLER: "drover_controller", STORE: "drover_store_machine"}
#: The value of such a variable for a machine that is not in this fleet.
OUTSIDE = "none"
#: The prefix of the words for a machine that is one of several matches.
PERHAPS = "perhaps "
#: The actions at the time limit of a live move after which the guest does not work.
STOPS_AT_LIMIT = ("shutdown", "pause")
Place = tuple[str | None, str | None]


@dataclasses.dataclass(frozen=True)
class KnownMachines:
    """The facts of this controller on itself and on the server of its store.

    - machine: the machine of the controller; None if it cannot be read.
    - macs: the addresses of the network cards of the controller.
    - addresses: the addresses of the server of the store; None if it is on the controller.
    - said: the values of the variables: a name by a key of VARIABLES.
    """

    machine: _machine.Machine | None = None
    macs: frozenset[str] = frozenset()
    addresses: frozenset[str] | None = None
    said: Mapping[str, str] = dataclasses.field(default_factory=dict)


class OwnMachine(NamedTuple):
    """Such a machine in the fleet.

    - what: its description in words.
    - host: the machine itself, or the host of its guest.
    - uuid, name: uuid and name of the guest, else None.
    """

    what: str
    host: str | None
    uuid: str | None = None
    name: str | None = None


class OwnMachines:
    """The machines of one run. Without a store, or without known facts, there are none."""

    def __init__(
        self, store: Store | None = None, known: Callable[[], KnownMachines] = KnownMachines
    ) -> None:
        self._store, self._look = store, known
        self._found: list[tuple[str, str | None, str | None]] | None = None

    @functools.cached_property
    def _known_machines(self) -> KnownMachines:
        return self._look()

    def read(self) -> list[OwnMachine]:
        """Return the machines with their present places.

        :raises DroverError: a variable names no machine of the store.
        """
        if self._store is None or self._known_machines == KnownMachines():
            return []
        with self._store.read() as connection:
            return self._read_own(connection)

    def _read_own(self, connection: Connection) -> list[OwnMachine]:
        if self._found is None:
            self._found = self._find_machines(connection)
        places = own_places.places(
            connection, [uuid for _what, _host, uuid in self._found if uuid is not None]
        )
        return [
            OwnMachine(what, host)
            if uuid is None
            else OwnMachine(what, places[uuid][1], uuid, places[uuid][0])
            for what, host, uuid in self._found
            if uuid is None or uuid in places
        ]

    def _find_machines(self, connection: Connection) -> list[tuple[str, str | None, str | None]]:
        controller = self._places_of(connection, CONTROLLER, self._machines)
        is_apart = self._known_machines.addresses is not None or STORE in self._known_machines.said
        store = self._places_of(connection, STORE, self._servers) if is_apart else controller
        both = (
            {f"{CONTROLLER} and its store": controller}
            if controller == store
            else {CONTROLLER: controller, STORE: store}
        )
        return [
            (f"{PERHAPS}{what}" if len(found) > 1 else what, *place)
            for what, found in both.items()
            for place in found
        ]

    def _places_of(
        self,
        connection: Connection,
        what: str,
        seen: Callable[[Connection], tuple[list[str], list[str]]],
    ) -> list[Place]:
        """Return each place that may be the machine: (host, None) or (None, uuid of an instance).

        The list is empty if the machine is not in this fleet, or not known.
        """
        name = self._known_machines.said.get(what)
        if name == OUTSIDE:
            return []
        hosts, uuids = own_places.named(connection, name) if name else seen(connection)
        if name and len(hosts) + len(uuids) != 1:
            reason = (
                "several hosts or instances have that name"
                if hosts or uuids
                else "the store knows no host and no instance of that name"
            )
            raise DroverError(
                f"{VARIABLES[what]} is {name}, but {reason}. Correct it, or set it to {OUTSIDE} if"
                " it is not in this fleet; nothing was done."
            )
        # A guest is a closer match than the host that has its address too.
        return [(None, uuid) for uuid in uuids] or [(host, None) for host in hosts]

    def _machines(self, connection: Connection) -> tuple[list[str], list[str]]:
        machine = self._known_machines.machine
        if machine is None:
            return [], []
        like = own_places.hosts_like(connection, machine["uuids"], machine["machine_id"])
        hosts = [
            host
            for host, found in like.items()
            if _machine.judge(_machine.read_expected({"host": host, **found}), machine)
            == _machine.SAME
        ]
        # QEMU gives a guest the uuid of its domain as the uuid of its firmware, whatever uuid its
        # own libvirt has.
        own_uuids = {*machine["uuids"], *filter(None, [machine["firmware"]])}
        uuids = sorted(instance_lookup.known(connection, own_uuids))
        if not hosts and not uuids and not machine["read"]:
            uuids = own_places.instances_of_macs(connection, self._known_machines.macs)
        return hosts, uuids

    def _servers(self, connection: Connection) -> tuple[list[str], list[str]]:
        wanted = self._known_machines.addresses or frozenset()
        return own_places.hosts_of_addresses(connection, wanted), own_places.instances_of_addresses(
            connection, wanted
        )

    # The machines

    def hosts(self) -> dict[str, str]:
        """Return the hosts that are such machines: {host: description}."""
        return {
            each.host: each.what
            for each in self.read()
            if each.uuid is None and each.host is not None
        }

    def guests(self) -> dict[str, str]:
        """Return the instances that are such machines: {uuid: description}."""
        return {each.uuid: each.what for each in self.read() if each.uuid is not None}

    def sentences(self) -> list[str]:
        """Return sentences on the machines, for a plan, a check and a report."""
        machines = self.read()
        variables = sorted(
            {_variable(each.what) for each in machines if each.what.startswith(PERHAPS)}
        )
        return [
            (
                f"{each.host} is {each.what}: it is maintained last, and not rebooted or switched"
                " off by a run from there."
                if each.uuid is None
                else (
                    f"{each.name} on {each.host or 'no host'} is {each.what}: it is moved live and"
                    " last, and never stopped by a run that needs it."
                )
            )
            for each in machines
        ] + [
            f"Several are like that machine. Say which it is: -e {variable}=NAME, or {OUTSIDE}."
            for variable in variables
        ]

    # The refusals

    def refuse_stop(self, instances: Iterable[Mapping[str, object]], not_done: str) -> None:
        """Refuse to stop, move cold, revert, resize or delete one of the machines.

        It also refuses to take a device from one.

        :param instances: each with uuid and name.
        :param not_done: the refusal, a sentence without its end: "It is not stopped".
        :raises DroverError: this run needs one of them.
        """
        own = self.guests()
        for instance in instances:
            what = own.get(str(instance["uuid"]))
            if what is not None:
                raise DroverError(
                    f"Instance {instance['name']}: {not_done}, because it is {what}, which this run"
                    " needs. A live move is possible. For all else, do it on its host with virsh,"
                    f" or give the command on another controller. If it is not {what}, say what is:"
                    f" -e {_variable(what)}=NAME (or {OUTSIDE})"
                )

    def keep_up(self, uuid: str, options: Mapping[str, object]) -> dict[str, object]:
        """Return the options of a live move, without a time limit that would stop one of the
        machines.

        At the limit it is not moved, as without the option.
        """
        stops = options.get("on_timeout") in STOPS_AT_LIMIT and uuid in self.guests()
        return {**options, "on_timeout": "abort"} if stops else dict(options)

    def refuse_power(self, host: str, not_done: str) -> None:
        """Refuse to cut the power of a host with such a machine.

        :param not_done: see refuse_stop().
        :raises DroverError: the host or a guest on it is such a machine.
        """
        for machine in self.read():
            if machine.host != host:
                continue
            if machine.uuid is None:
                reason = f"it is {machine.what}, which this run needs"
                way = (
                    f"Give the command on another controller, or reboot {host} itself (systemctl"
                    " reboot) once it is drained"
                )
            else:
                reason = (
                    f"{machine.name}, which runs there, is {machine.what}, which this run needs"
                )
                way = f"Move {machine.name} first (drover.compute.drain moves it live)"
            raise DroverError(
                f"{host}: {not_done}, because {reason}. {way}. If that is wrong, say what is: -e"
                f" {_variable(machine.what)}=NAME (or {OUTSIDE})"
            )

    def refuse_dead(self, host: str) -> None:
        """Refuse to take a host for dead if such a machine works for this run on it.

        With several matches, another one may work for the run, so they do not count here.

        :raises DroverError: the host is one; or its last report has a guest that is one, and no
            other host shows that guest running.
        """
        for machine in self.read():
            if (
                machine.host != host
                or machine.what.startswith(PERHAPS)
                or (machine.uuid is not None and self._runs_elsewhere(machine.uuid, host))
            ):
                continue
            name, place = (
                (host, "")
                if machine.uuid is None
                else (machine.name, ", which ran there when the store last heard of it,")
            )
            other = (
                f", or {name} runs on another host: run drover.compute.discover, which finds it"
                " there"
                if machine.uuid is not None
                else ""
            )
            raise DroverError(
                f"{host} is not evacuated, and its power is not cut: {name}{place} is"
                f" {machine.what}, which works for this run. So {host} is not dead{other}. If"
                f" something else is {machine.what} by now, say what: -e"
                f" {_variable(machine.what)}=NAME (or {OUTSIDE}). Nothing was changed."
            )

    def _runs_elsewhere(self, uuid: str, host: str) -> bool:
        if self._store is None:
            return False
        with self._store.read() as connection:
            return any(
                each["state"] != "shutoff"
                for each in evacuations.shown(connection, [uuid], host).get(uuid, ())
            )


def _variable(what: str) -> str:
    return next(
        variable
        for key, variable in VARIABLES.items()
        if what.removeprefix(PERHAPS).startswith(key)
    )
