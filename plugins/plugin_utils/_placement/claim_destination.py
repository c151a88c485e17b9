# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choosing among places: the first that is enabled, allowed by the server group and has room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from .._common.errors import DroverError
from .._common.resource_classes import words_of
from .._numa.hosts import DoesNotFit
from .._numa.request import HostRequest
from .._records.claims import Allocations, ClaimRequest, Mappings, Resources
from .._records.numa import Placed
from .._store.database import bulk
from .._store.database.sql import Connection, Row
from .._store.hosts import services
from .._store.providers import pool_names
from .._store.schema import tables
from . import classes_and_traits as resource_names
from . import inventory, provider_trees, providers, server_groups
from .device_providers import ChosenDevices, DeviceProviders
from .host_room import HostRoom
from .inventory import Amounts, InventoryKey, ProviderInventory


class CandidateNode:
    """A compute node to try.

    :param node: the row of the compute node (claim_nodes.find).
    :param given: the allocations that the scheduler chose there; None if any provider of the node
        may be taken.
    :param number: its position among the places to try.
    :param mappings: the providers of the allocations by PCI request; None if they are not known.
    :param shown: its host shows the instance already, so the host has it whatever the store has
        recorded for that host.
    :ivar amounts: the allocations there once the place is chosen.
    """

    __slots__ = ("node", "given", "number", "mappings", "shown", "amounts")

    def __init__(
        self,
        node: Row,
        given: Allocations | None = None,
        number: int = 0,
        mappings: Mappings | None = None,
        shown: bool = False,
    ) -> None:
        self.node, self.given, self.number, self.mappings, self.shown = (
            node,
            given or {},
            number,
            mappings,
            shown,
        )
        self.amounts: Amounts = {}


class _Refused(Exception):
    """A place is refused: why, and for a lack of room the figures."""

    def __init__(self, reason: str, **data: Any) -> None:
        super().__init__(reason)
        self.data = data


class ClaimDestinations:
    """The search for the first place with room; it counts the earlier choices in this transaction.

    :param places: all places that will be tried.
    :param found: {name: row} of the server groups, which are locked.
    :param free: allocations that are given up in this transaction; their consumers are locked.
    :param requests: {uuid of an instance: its needs of cells and PCI devices}, without instances
        that have no such needs.
    :ivar room: the cells and devices of the places; None without requests.
    """

    def __init__(
        self,
        connection: Connection,
        places: Sequence[CandidateNode],
        found: Mapping[str, Row],
        free: Amounts | None = None,
        requests: Mapping[str, HostRequest] | None = None,
    ) -> None:
        self.connection, self.places, self.free = connection, places, free or {}
        self.requests = requests or {}
        self.room: HostRoom | None = None
        self.supplies = provider_trees.read(
            connection, {place.node.provider_id: place.node for place in places}.values()
        )
        self.uuids = provider_ids(connection, {uuid for place in places for uuid in place.given})
        self.members = {
            group.id: server_groups.members(connection, group) for group in found.values()
        }
        self.groups = found
        self.held: dict[int, dict[str, ProviderInventory]] = {}
        #: The use of each inventory before any allocation was given up.
        self.before: Amounts = {}
        self.devices: DeviceProviders | None = None

    def choose_all(
        self, wanted: Sequence[tuple[ClaimRequest, Sequence[CandidateNode]]]
    ) -> dict[str, CandidateNode]:
        """Choose places for several selections, for all or for none.

        At first only the room of first choices is locked, so that claims of the same alternates
        need not wait. If one has no room, all is locked from the start, in order.

        :param wanted: selections, each with its places.
        :returns: {uuid: place}.
        """
        for where in self.members.values():
            for selection, _dummy in wanted:
                # The store has it already, with its first choice.
                where.pop(selection["uuid"], None)
        firsts = [places[0] for dummy, places in wanted]
        names = {
            name
            for selection, places in wanted
            for name in _names_of_classes(selection["resources"], places)
        }
        if self.connection.dialect.name != "sqlite" and self._more_than(firsts, names):
            members = {key: dict(hosts) for key, hosts in self.members.items()}
            try:
                with self.connection.begin_nested():
                    self._lock_places(firsts, names, first_only=True)
                    return self._choose_places(
                        [(selection, places[:1]) for selection, places in wanted]
                    )
            except DroverError:
                self.members = members
        self._lock_places(self.places, names)
        return self._choose_places(wanted)

    def choose(
        self,
        uuid: str,
        name: str,
        resources: Resources,
        places: Sequence[CandidateNode],
        group: Row | None = None,
        leaving: str | None = None,
    ) -> CandidateNode:
        """Choose the first place that is enabled, allowed by the server group and has room.

        :param leaving: the host that the instance leaves, if it moves.
        :raises DroverError: no place is; with the reason for each.
        """
        names = _names_of_classes(resources, places)
        if not self.held:
            self._lock_places(self.places, names)
        pool_names.learn(self.connection, names)
        refusals, data = [], []
        for place in places:
            try:
                self._check_host(uuid, place, group, leaving)
                hardware, devices = self._hardware(uuid, place, resources)
                place.amounts = self._amounts(place, resources, devices)
            except _Refused as refused:
                refusals.append(f"{place.node.host}: {refused}")
                data.append(
                    {
                        "host": place.node.host,
                        "node": place.node.hypervisor_hostname,
                        **refused.data,
                    }
                )
                continue
            if hardware is not None and self.room is not None:
                self.room.take(place.node.id, uuid, hardware)
            if group is not None:
                self.members[group.id][uuid] = {place.node.host}
            return place
        # A class that does not exist is another error than one that no host has left.
        class_ids(
            self.connection,
            _names_of_classes(resources, places)
            - resource_names.standard(resource_names.RESOURCE_CLASS),
        )
        raise DroverError(
            f"No room for {name} ({uuid}) at its destination nor its alternates:"
            f" {'; '.join(refusals) or 'no alternate is left'}. Nothing was claimed. Somebody else"
            " may have been faster: schedule again.",
            cause="no_room",
            consumer=uuid,
            refusals=refusals,
            places=data,
        )

    def _choose_places(
        self, wanted: Iterable[tuple[ClaimRequest, Sequence[CandidateNode]]]
    ) -> dict[str, CandidateNode]:
        chosen = {}
        for selection, places in wanted:
            group = self.groups.get(server_groups.name_of(selection.get("server_group")) or "")
            chosen[selection["uuid"]] = self.choose(
                selection["uuid"], selection["name"], selection["resources"], places, group
            )
        return chosen

    def _more_than(self, firsts: Sequence[CandidateNode], names: Iterable[str]) -> bool:
        if len(firsts) < len(self.places):
            return True
        return any(
            len(self.supplies[place.node.provider_id].of(name)) > 1
            for place in firsts
            for name in names
        )

    def _lock_places(
        self, places: Sequence[CandidateNode], names: Collection[str], first_only: bool = False
    ) -> None:
        providers: set[int] = set()
        wants_devices = any(each.pci for each in self.requests.values())
        names = {
            *names,
            *(
                each.resource_class
                for request in self.requests.values()
                for each in request.pci
                if each.resource_class
            ),
        }
        for place in places:
            given = {self.uuids[uuid] for uuid in place.given}
            providers |= given
            for name in () if place.given else names:
                keys = self.supplies[place.node.provider_id].of(name)
                providers.update(keys[:1] if first_only else keys)
        # The inventories of given-up allocations are locked with the rest: both are written, and
        # all rows are locked in one order.
        providers.update(provider for provider, dummy in self.free)
        self.held = inventory.hold(self.connection, providers, None if self.free else names)
        nodes = {place.node.id: place.node for place in places}.values()
        self.room = HostRoom(self.connection, nodes) if self.requests else None
        self.before = {each.key: each.used for held in self.held.values() for each in held.values()}
        for held in self.held.values():
            for each in held.values():
                each.used -= self.free.get(each.key, 0)
        self.devices = (
            DeviceProviders(self.connection, nodes, self.room.devices, self.held)
            if self.room and wants_devices
            else None
        )

    def _check_host(
        self, uuid: str, place: CandidateNode, group: Row | None, leaving: str | None
    ) -> None:
        if place.shown:
            return
        if place.node.disabled:
            raise _Refused(f"disabled ({place.node.disabled_reason or 'no reason given'})")
        if place.node.forced_down:
            raise _Refused("forced down")
        if not place.node.reported:
            raise _Refused(services.UNREPORTED)
        if group is not None:
            refusal = server_groups.refusal(
                group, self.members[group.id], uuid, place.node.host, leaving
            )
            if refusal:
                raise _Refused(refusal)

    def _hardware(
        self, uuid: str, place: CandidateNode, resources: Resources
    ) -> tuple[Placed | None, list[ChosenDevices]]:
        """Return the cells and devices of a place that an instance gets, None if it needs none, and
        the allocations of the devices.
        """
        if self.room is None or uuid not in self.requests:
            return None, []
        request, node = self.requests[uuid], place.node.id
        if self.devices is not None and request.in_placement:
            request = self.devices.request_on(node, request, place.given, place.mappings)
        try:
            placed = self.room.find(node, request)
        except DoesNotFit as problem:
            raise _Refused(f"it {problem.lack.text}") from None
        if self.devices is None:
            return placed, []
        return placed, self.devices.allocations(
            node, request, placed, {} if place.given else resources
        )

    def _amounts(
        self, place: CandidateNode, resources: Resources, devices: Sequence[ChosenDevices]
    ) -> Amounts:
        """Take the room of a place.

        :param devices: allocations of the chosen devices; they must be among the allocations that
            the scheduler chose.
        """
        taken: list[tuple[ProviderInventory, int]] = []
        if place.given:
            for device in devices:
                if (
                    place.given.get(device.provider, {}).get(device.resource_class, 0)
                    < device.amount
                ):
                    raise _Refused(
                        "it has free PCI devices, but not of the providers that were chosen for"
                        f" {device.resource_class}"
                    )
            demands = [
                (name, amount, [self.uuids[uuid]])
                for uuid, amounts in sorted(place.given.items())
                for name, amount in amounts.items()
            ]
        else:
            of, remaining = self.supplies[place.node.provider_id].of, Counter(resources)
            remaining.subtract(
                {
                    name: sum(each.amount for each in devices if each.resource_class == name)
                    for name in resources
                }
            )
            ids = self.devices.ids if self.devices is not None else {}
            demands = [(each.resource_class, each.amount, [ids[each.provider]]) for each in devices]
            demands += [
                (name, amount, of(name)) for name, amount in remaining.items() if amount > 0
            ]
        for name, amount, keys in demands:
            if not amount:
                continue
            inventories = [self.held[key][name] for key in keys if name in self.held.get(key, ())]
            if not inventories:
                raise _Refused(
                    f"{words_of(name)}: asked {amount}, the host has none",
                    resource_class=name,
                    asked=amount,
                    used=0,
                    capacity=0,
                )
            chosen = next(
                (
                    each
                    for each in inventories
                    if self._keeps(each, amount) or each.refusal(name, amount) is None
                ),
                None,
            )
            if chosen is None and place.shown:
                chosen = inventories[0]
            if chosen is None:
                raise _Refused(
                    f"{inventories[0].refusal(name, amount)}", **inventories[0].data(name, amount)
                )
            taken.append((chosen, amount))
        amounts: Counter[InventoryKey] = Counter()
        for held_one, amount in taken:
            held_one.used += amount
            amounts[held_one.key] += amount
        return dict(amounts)

    def _keeps(self, held: ProviderInventory, amount: int) -> bool:
        """Return True if a provider has no higher use than before the allocations there were given
        up: that is never refused, however full it is.
        """
        return held.used + amount <= self.before[held.key]


def _names_of_classes(resources: Resources, places: Iterable[CandidateNode]) -> set[str]:
    names = {name for name, amount in resources.items() if amount}
    return names | {
        name for place in places for amounts in place.given.values() for name in amounts
    }


def provider_ids(connection: Connection, uuids: Collection[str]) -> dict[str, int]:
    """Return the ids of providers by their uuids.

    :raises DroverError: a provider is not in the store.
    """
    ids = providers.ids(connection, uuids)
    for uuid in sorted(set(uuids) - set(ids)):
        raise DroverError(
            f"Resource provider {uuid} is not in the store. Run drover.compute.discover, then"
            " schedule again; nothing was claimed.",
            cause="unknown_provider",
            provider=uuid,
        )
    return ids


def class_ids(connection: Connection, names: Collection[str]) -> dict[str, int]:
    """Return the ids of resource classes by their names.

    :raises DroverError: a class is not in the store.
    """
    ids = bulk.ids_by(connection, tables.resource_classes.c.name, names, make=False)
    for name in sorted(set(names) - set(ids)):
        raise DroverError(
            f"Resource class {name} is not in the store: no provider has it. Correct the name;"
            " nothing was claimed.",
            cause="unknown_class",
            resource_class=name,
        )
    return ids
