# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The old definitions of evacuated instances on a host that is back.

Only definitions that are off are removed, and only if another host shows the instance right now.
Otherwise the definition may be the only one: a person may have moved the instance back, or the
store may be older.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .._common import certainty
from .._common.errors import DroverError
from .._store.hosts.compute_nodes import DEFAULT_URI
from .._store.instances import evacuations
from .._tracker.facts import HostFacts
from . import starting
from .ports import DiscoveryPorts

#: Seconds that another host may take to show the instances that were evacuated to it.
LOOK = 30
#: Seconds for all these looks together, because the discovery of this host has its own time limit.
LOOKS = 90
#: The state of a domain that is off.
OFF = "shutoff"
#: The results of a removal after which the host has no definition.
GONE = ("forgotten", "absent")


class EvacuatedDefinitions:
    """The definitions of evacuated instances that a host still shows.

    :param warn: a function that takes a warning.
    """

    def __init__(self, ports: DiscoveryPorts, host: str, warn: Callable[[str], None]) -> None:
        self._ports, self._host, self._warn = ports, host, warn
        #: The entries of evacuations.left_behind(), by the uuids of the instances, each with the
        #: state that this host shows.
        self.evacuated: dict[str, Mapping[str, Any]] = {}
        #: Proofs that the new hosts do not have the instances any more, by uuid.
        self.absent: dict[str, certainty.Proof] = {}

    def removed(self, facts: Sequence[HostFacts]) -> list[HostFacts]:
        """Remove old definitions from the host, before anything starts them.

        :param facts: the facts of each hypervisor of the host.
        :returns: the facts without the removed domains.
        """
        if not any(each.domains for each in facts):
            return list(facts)
        # Not read(), because a discovery also creates or upgrades the store.
        with self._ports.store.write() as connection:
            evacuated = {
                each["uuid"]: each
                for each in evacuations.left_behind(connection, [self._host])
                if each["host"] not in (None, self._host)
            }
            self.evacuated = {
                domain["uuid"]: {**evacuated[domain["uuid"]], "state": domain["state"]}
                for each in facts
                for domain in each.domains
                if domain["uuid"] in evacuated
            }
            seen = evacuations.seen_at(connection, self.evacuated)
        shown = self._shown_elsewhere(seen)
        return [self._without(each, shown) for each in facts]

    def _without(self, facts: HostFacts, shown: set[str]) -> HostFacts:
        """Remove the old definitions of one hypervisor, and return its facts without them."""
        old = [
            each["uuid"] for each in facts.domains if each["uuid"] in shown and each["state"] == OFF
        ]
        if not old:
            return facts
        gone = self._remove_definitions(facts.uri or DEFAULT_URI, old)
        kept = [each for each in facts.domains if each["uuid"] not in gone]
        return dataclasses.replace(facts, domains=kept)

    def _shown_elsewhere(self, seen: Mapping[str, Iterable[tuple[str, str]]]) -> set[str]:
        """Return the evacuated instances that another host shows now.

        Show a line for each old definition that is kept.

        Look at the new host of an instance, and at each other host that showed the instance in its
        last discovery, because a person may have moved it there. On such a third host only a
        running guest counts: a definition that is off may be old too.

        :param seen: dict uuid -> (host, URI) of the hosts that showed the instance in their last
            discovery.
        """
        places: dict[tuple[str, str], list[str]] = {}
        for uuid, instance in self.evacuated.items():
            for place in {
                (instance["host"], instance["uri"] or DEFAULT_URI): None,
                **dict.fromkeys((name, at or DEFAULT_URI) for name, at in seen.get(uuid, ())),
            }:
                if place[0] != self._host:
                    places.setdefault(place, []).append(uuid)
        shown: set[str] = set()
        reasons: dict[str, str] = {}
        end = self._ports.clock.monotonic() + LOOKS
        for (host, uri), uuids in places.items():
            limit = min(LOOK, int(end - self._ports.clock.monotonic()))
            hand = self._ports.hosts.hand(host, limit) if limit > 0 else None
            looks = hand.look(uri, dict.fromkeys(uuids, ()), 0) if hand else {}
            for uuid in uuids:
                look, is_new_host = looks.get(uuid), host == self.evacuated[uuid]["host"]
                domain = look["domain"] if look is not None else None
                if domain is not None and (is_new_host or domain["state"] != OFF):
                    shown.add(uuid)
                elif is_new_host:
                    proof = certainty.is_absent(host, look)
                    if proof is not None:
                        self.absent[uuid] = proof
                    why = "did not answer" if look is None else "does not show it"
                    reasons[uuid] = f"{host} {why}"
        for uuid in sorted(self.evacuated.keys() - shown):
            self._say_kept(uuid, reasons[uuid])
        return shown

    def _say_kept(self, uuid: str, reason: str) -> None:
        instance = self.evacuated[uuid]
        self._ports.say(
            f"{self._host}: kept the definition of {instance['name']}, which was evacuated from"
            f" here to {instance['host']}, as {reason}: it may be the only one. Run"
            " drover.compute.discover with all hosts up."
        )

    def _remove_definitions(self, uri: str, uuids: list[str]) -> set[str]:
        """Remove definitions, and say the result of each removal.

        :returns: the uuids of the definitions that are gone.
        :raises DroverError: the host did not carry out the order.
        """
        answer = starting.order(
            self._ports.hand, self._host, "_domain_restart", {"uri": uri, "forget": uuids}
        )
        if answer.outcome != certainty.DONE:
            raise DroverError(answer.message)
        word = "would remove" if self._ports.store.check_mode else "removed"
        gone = set()
        for entry in sorted(
            answer.result["forgotten"], key=lambda each: str(self.evacuated[each["uuid"]]["name"])
        ):
            name = self.evacuated[entry["uuid"]]["name"]
            if entry["status"] in GONE:
                gone.add(entry["uuid"])
                more = f"; {entry['message']}" if entry["message"] else ""
                self._ports.say(
                    f"{self._host}: {word} the stale definition of {name}, which was evacuated; its"
                    f" disks stay{more}"
                )
            else:
                self._warn(_not_removed(self._host, name, entry))
        return gone


def _not_removed(host: str, name: str, entry: Mapping[str, Any]) -> str:
    """Return the warning about a definition that is still there after the order to remove it.

    :param entry: an entry of forgotten, see the module _domain_restart.
    """
    if entry["status"] == "running":
        return (
            f"{host}: {name}, which was evacuated, was started there while its old definition was"
            " about to be removed, so it is on several hosts. Shut off the wrong one, but keep its"
            " disks, and run drover.compute.discover."
        )
    return (
        f"{host}: the stale definition of {name}, which was evacuated, was not removed:"
        f" {str(entry['message']).rstrip('.')}. While it is there, it can be started a second time."
        f" Remove it on {host} (virsh undefine {name} keeps its disks), and run"
        " drover.compute.discover."
    )
