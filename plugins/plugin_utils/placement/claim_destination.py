# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choosing among places: the first that is enabled, allowed by the server group and has room."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.placement import classes_and_traits as resource_names
from ansible_collections.drover.compute.plugins.plugin_utils.placement import inventory, provider_trees, providers, server_groups
from ansible_collections.drover.compute.plugins.plugin_utils.store import bulk, tables


class Place:
    """A compute node to try, and once it is chosen what it gives.

    :param node: the row of the compute node (claims.find_node).
    :param given: dict provider uuid -> dict class name -> amount, where the scheduler decided that.
    :ivar amounts: dict (provider id, class id) -> amount.
    """

    __slots__ = ("node", "given", "number", "amounts")

    def __init__(self, node, given=None, number=0):
        self.node, self.given, self.number, self.amounts = node, given, number, None


class _Refused(Exception):
    """A place does not do: its sentence, and for a lack of room the figures."""

    def __init__(self, reason, **data):
        super().__init__(reason)
        self.data = data


class ClaimDestinations:
    """Finds the first place with room, counting what was chosen before in this transaction.

    :param places: all that will be asked for.
    :param found: dict name -> row of the server groups that matter, held already.
    :param free: dict (provider id, class id) -> amount that is given up in this transaction. Who holds it is
        held already.
    """

    def __init__(self, connection, places, found, free=None):
        self.connection, self.places, self.free = connection, places, free or {}
        self.supplies = provider_trees.read(connection, {place.node.provider_id: place.node for place in places}.values())
        self.uuids = provider_ids(connection, {uuid for place in places for uuid in place.given or ()})
        self.members = {group.id: server_groups.members(connection, group) for group in found.values()}
        self.groups = found
        self.held = {}

    def choose_all(self, wanted):
        """Choose for several selections, all or none.

        Where there is a choice, at first only the room of first choices is held: whoever waits for the
        same alternates need not wait for this one. Held again from the start, in order, where that fails.

        :param wanted: list of (selection, its places).
        :returns: dict uuid -> Place.
        """
        for members in self.members.values():
            for selection, _dummy in wanted:
                # Written down already, with its first choice.
                members.pop(selection["uuid"], None)
        firsts = [places[0] for dummy, places in wanted]
        names = {name for selection, places in wanted for name in _names(selection, places)}
        if self.connection.dialect.name != "sqlite" and self._more_than(firsts, names):
            members = {key: dict(hosts) for key, hosts in self.members.items()}
            try:
                with self.connection.begin_nested():
                    self._hold(firsts, names, first_only=True)
                    return self._chosen([(selection, places[:1]) for selection, places in wanted])
            except DroverError:
                self.members = members
        self._hold(self.places, names)
        return self._chosen(wanted)

    def choose(self, selection, places, group=None, leaving=None):
        """The first of ``places`` that is enabled, allowed by the server group and has room.

        :param selection: name, uuid, resources.
        :param leaving: the host the instance moves away from, if it moves.
        :raises DroverError: none; with the reason of each.
        """
        if not self.held:
            self._hold(self.places, _names(selection, places))
        refusals, data = [], []
        for place in places:
            try:
                self._check_host(selection["uuid"], place, group, leaving)
                place.amounts = self._amounts(place, selection["resources"])
            except _Refused as refused:
                refusals.append(f"{place.node.host}: {refused}")
                data.append({"host": place.node.host, "node": place.node.hypervisor_hostname, **refused.data})
                continue
            if group is not None:
                self.members[group.id][selection["uuid"]] = {place.node.host}
            return place
        _check_classes(self.connection, _names(selection, places))
        raise DroverError(
            f"No room for {selection['name']} ({selection['uuid']}) at its destination nor its alternates: "
            f"{'; '.join(refusals)}. Nothing was claimed. Somebody else may have been faster: schedule again.",
            cause="no_room",
            consumer=selection["uuid"],
            refusals=refusals,
            places=data,
        )

    def _chosen(self, wanted):
        return {
            selection["uuid"]: self.choose(selection, places, self.groups.get(server_groups.name_of(selection.get("server_group"))))
            for selection, places in wanted
        }

    def _more_than(self, firsts, names):
        if len(firsts) < len(self.places):
            return True
        return any(len(self.supplies[place.node.provider_id].of(name)) > 1 for place in firsts for name in names)

    def _hold(self, places, names, first_only=False):
        providers = set()
        for place in places:
            given = {self.uuids[uuid] for uuid in place.given or ()}
            providers |= given
            for name in () if place.given else names:
                keys = self.supplies[place.node.provider_id].of(name)
                providers.update(keys[:1] if first_only else keys)
        # What is given up is held with the rest: both are written, and all rows are held in one order.
        providers.update(provider for provider, dummy in self.free)
        self.held = inventory.hold(self.connection, providers, None if self.free else names)
        for held in self.held.values():
            for each in held.values():
                each.used -= self.free.get(each.key, 0)

    def _check_host(self, uuid, place, group, leaving):
        if place.node.disabled:
            raise _Refused(f"disabled ({place.node.disabled_reason or 'no reason given'})")
        if place.node.forced_down:
            raise _Refused("forced down")
        if group is not None:
            refusal = server_groups.refusal(group, self.members[group.id], uuid, place.node.host, leaving)
            if refusal:
                raise _Refused(refusal)

    def _amounts(self, place, resources):
        """Take the room of a place: dict (provider id, class id) -> amount."""
        taken = []
        if place.given:
            wanted = [
                (name, amount, [self.uuids[uuid]]) for uuid, amounts in sorted(place.given.items()) for name, amount in amounts.items()
            ]
        else:
            of = self.supplies[place.node.provider_id].of
            wanted = [(name, amount, of(name)) for name, amount in resources.items()]
        for name, amount, keys in wanted:
            if not amount:
                continue
            held = [self.held[key][name] for key in keys if name in self.held.get(key, ())]
            if not held:
                raise _Refused(
                    f"{name}: asked {amount}, the host has none",
                    resource_class=name,
                    asked=amount,
                    used=0,
                    capacity=0,
                )
            chosen = next((each for each in held if each.refusal(name, amount) is None), None)
            if chosen is None:
                raise _Refused(held[0].refusal(name, amount), **held[0].data(name, amount))
            taken.append((chosen, amount))
        for each, amount in taken:
            each.used += amount
        return {each.key: amount for each, amount in taken}


def _names(selection, places):
    names = {name for name, amount in selection["resources"].items() if amount}
    return names | {name for place in places for amounts in (place.given or {}).values() for name in amounts}


def _check_classes(connection, names):
    """Tell a class that does not exist from one that no host has left."""
    class_ids(connection, names - resource_names.standard(resource_names.RESOURCE_CLASS))


def provider_ids(connection, uuids):
    """The ids of providers: dict uuid -> id.

    :raises DroverError: one is not in the store.
    """
    found = providers.ids(connection, uuids)
    for uuid in sorted(set(uuids) - set(found)):
        raise DroverError(
            f"Resource provider {uuid} is not in the store. Run drover.compute.discover, then schedule again; nothing was claimed.",
            cause="unknown_provider",
            provider=uuid,
        )
    return found


def class_ids(connection, names):
    """The ids of resource classes: dict name -> id.

    :raises DroverError: one is not in the store.
    """
    found = bulk.ids_by(connection, tables.resource_classes.c.name, names, make=False)
    for name in sorted(set(names) - set(found)):
        raise DroverError(
            f"Resource class {name} is not in the store: no provider has it. Correct the name; nothing was claimed.",
            cause="unknown_class",
            resource_class=name,
        )
    return found
