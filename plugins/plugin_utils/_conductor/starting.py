# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The starts of instances (rule S9).

An instance starts only after the hosts that may have it were read, and if no other host shows it.

Only this module makes the proofs. Only order() calls modules that may start a domain, and it
requires the proofs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple, NoReturn

from .._common import certainty
from .._common.errors import DroverError, natural, some
from .._store.database import clock
from .._store.hosts import looks
from .._store.instances import evacuations, instance_lookup
from . import asking
from .ports import Hand, Ports

MODULE = "_domain_sightings"
#: Seconds that a look stays valid in the run that made it.
COUNTS = 60
#: The states of a domain that is off or absent.
OFF = "shutoff"
NOT_UP = (None, OFF, "crashed")

#: The modules that may start domains: (arguments) -> uuids of the domains that they may start.
STARTING: Mapping[str, Callable[[Mapping[str, Any]], list[str]]] = {
    "domain": lambda given: [given["uuid"]] if given["state"] == "running" else [],
    "domain_power": lambda given: (
        [each["uuid"] for each in given["domains"]]
        if given["state"] == "running" or (given["state"] == "rebooted" and given["hard"])
        else []
    ),
    "_domain_restart": lambda given: [
        each["uuid"] for each in given.get("instances") or () if each["running"]
    ],
    # A snapshot may have the memory of a running guest.
    "_domain_snapshot": lambda given: [given["uuid"]] if given.get("state") == "reverted" else [],
}


def order(
    hand: Hand,
    host: str,
    module: str,
    given: dict[str, object],
    proofs: Iterable[certainty.StartProof] = (),
) -> certainty.Answer:
    """Call a module that may start domains on a host.

    :param proofs: results of Starting.prove(), one for each domain that it may start.
    :raises TypeError: a proof is missing.
    """
    starts = STARTING.get(module)
    certainty.require_starts(proofs, host, starts(given) if starts else [])
    return hand.act(module, given)


class _Look(NamedTuple):
    """The answers of hosts on some instances at one time.

    - at: the time by the monotonic clock of the run.
    - uuids: the uuids of the instances.
    - seen: dict host -> {uuid: state of the domain}, for the hosts that were read.
    - named: dict host -> {name: uuid}, for the names in the search.
    - silent: dict host -> reason, for hosts that do not answer.
    - lacking: dict host -> {"bridge br1" or "network default": reason}, for networks and bridges
      that new instances need.
    """

    at: float
    uuids: frozenset[str]
    seen: dict[str, dict[str, str]]
    named: dict[str, dict[str, str]]
    silent: dict[str, str]
    lacking: dict[str, dict[str, str]]


class Starting:
    """The proofs of one run.

    :param read: a function that returns the hosts to read, if the run has decided about all others;
        by default all hosts are read.
    """

    def __init__(self, ports: Ports, read: Callable[[], Collection[str]] | None = None) -> None:
        self._store, self._hosts, self._clock, self._rules, self._read = (
            ports.store,
            ports.hosts,
            ports.clock,
            ports.start_rules,
            read,
        )
        self._last: _Look | None = None
        #: The last look of foresee(). The run may shut down and move instances after it, so it
        #: proves nothing.
        self._foreseen: _Look | None = None
        #: {uuid of an instance: the hosts that did not have it before this run shut it down}.
        self._without: dict[str, set[str]] = {}

    def look(
        self,
        instances: Mapping[str, str],
        hosts: Iterable[str],
        names: Collection[str] = (),
        plugs: Mapping[str, Collection[str]] | None = None,
        but: Collection[str] = (),
    ) -> _Look:
        """Read the hosts that may have instances, once for all instances.

        The look is valid for COUNTS seconds.

        :param instances: dict uuid -> name.
        :param hosts: the hosts of their starts.
        :param names: further names to look for.
        :param plugs: "networks" and "bridges" that new instances need.
        :param but: hosts that are not read.
        """
        targets = set(hosts)
        with self._store.read() as connection:
            known_hosts = looks.hosts(connection)
            every = (
                {*known_hosts, *self._hosts.names()}
                if self._read is None
                else {*self._read(), *targets}
            )
            to_read = [
                host
                for host in self._to_read(every, known_hosts, targets, clock.now(connection))
                if host not in but
            ]
            recorded = (
                evacuations.shown(connection, instances, "") if len(to_read) < len(every) else {}
            )
        at = self._clock.monotonic()
        arguments = {"uuids": sorted(instances), "names": sorted(names)}
        arguments.update({kind: sorted(missing) for kind, missing in (plugs or {}).items()})
        answers, silent = asking.ask(
            self._hosts,
            MODULE,
            {host: {"uris": looks.uris_of(known_hosts, host), **arguments} for host in to_read},
        )
        seen: dict[str, dict[str, str]] = {}
        named: dict[str, dict[str, str]] = {}
        lacking: dict[str, dict[str, str]] = {}
        for host, answer in answers.items():
            domains, lacking[host] = answer["domains"], answer.get("lacking") or {}
            seen[host] = {
                each["uuid"]: each["state"] for each in domains if each["uuid"] in instances
            }
            named[host] = {each["name"]: each["uuid"] for each in domains if each["name"] in names}
        for uuid, places in recorded.items():
            for place in places:
                if place["host"] not in to_read and place["host"] in every:
                    seen.setdefault(place["host"], {})[uuid] = place["state"]
        # A person may have switched a host on since: the host is believed, and not the record.
        off = {
            host
            for host, each in known_hosts.items()
            if each.is_off and not isinstance(silent.get(host), asking.Failure)
        }
        silent = {
            host: why
            for host, why in silent.items()
            if host not in off and host not in self._rules.absent
        }
        self._last = _Look(at, frozenset(instances), seen, named, silent, lacking)
        return self._last

    def _to_read(
        self,
        every: AbstractSet[str],
        known: Mapping[str, looks.KnownHost],
        targets: Collection[str],
        now: float,
    ) -> list[str]:
        """Return the hosts that a look reads."""
        if len(every) > asking.ALL:
            cells = {cell for host in targets if host in known for cell in known[host].cells}
            # The absolute difference: a look with a clock that was ahead may be old too.
            old = {
                host
                for host, each in known.items()
                if cells & each.cells and abs(now - each.read_at) > self._rules.max_age
            }
            every = (every & old) | (every - set(known)) | (every & set(targets))
        return sorted(every, key=natural)

    def prove(
        self, host: str, uuid: str, name: str, refused: str, silent: bool = True
    ) -> certainty.StartProof:
        """Prove that an instance may start on a host.

        :param refused: the beginning of a refusal.
        :param silent: count hosts that do not answer; without it, the run has already decided about
            them.
        :raises DroverError: another host shows the instance, or does not answer and may have it.
        """
        look = self._fresh({uuid: name}, host)
        may_have = {
            each
            for each in look.silent
            if silent and each != host and each not in self._without.get(uuid, ())
        }
        seen = {place: domains.get(uuid) for place, domains in look.seen.items()}
        proof = certainty.may_start(
            host, uuid, seen if silent else self._without_old(host, uuid, seen), may_have
        )
        if proof is None:
            _refuse_build(look, may_have, host, uuid, refused)
        return proof

    def _without_old(
        self, host: str, uuid: str, seen: Mapping[str, str | None]
    ) -> Mapping[str, str | None]:
        """Return the states without old definitions of an earlier evacuation that are off.

        The next evacuation does not wait for them.
        """
        off = {place for place, state in seen.items() if place != host and state == OFF}
        if off:
            with self._store.read() as connection:
                off &= evacuations.old_definitions(connection, [uuid]).get(uuid, set())
        return {place: state for place, state in seen.items() if place not in off}

    def prove_each(
        self,
        host: str,
        instances: Mapping[str, str],
        refused: Callable[[str], str],
        silent: bool = True,
    ) -> tuple[list[certainty.StartProof], dict[str, str]]:
        """Prove for several instances that they may start on a host.

        :param instances: dict uuid -> name.
        :param refused: (name) -> the beginning of a refusal.
        :returns: proofs, and dict uuid -> reason, for instances without a proof.
        """
        proofs, stay = [], {}
        if instances:
            self._fresh(instances, host)
        for uuid, name in instances.items():
            try:
                proofs.append(self.prove(host, uuid, name, refused(name), silent))
            except DroverError as problem:
                stay[uuid] = str(problem)
        return proofs, stay

    def foresee(self, host: str, uuid: str, name: str, refused: str) -> None:
        """Check, before a shutdown on a host, that an instance may start again.

        With a host that does not answer it would stay off.

        :raises DroverError: see prove().
        """
        look = self._foreseen
        if look is None or not self._counts(look, {uuid}) or uuid not in look.seen.get(host, {}):
            look = self._foreseen = self.look({uuid: name}, [host])
        # A look from before the move must not prove a start after it, for example in the undo of a
        # resize in the same run.
        self._last = None
        if look.seen.get(host, {}).get(uuid) in NOT_UP:
            # The instance needs no shutdown: it is off, or an earlier run has moved it.
            return
        silent = [each for each in look.silent if each != host]
        others = [
            place for place, domains in look.seen.items() if uuid in domains and place != host
        ]
        if others or silent:
            _refuse_build(look, silent, host, uuid, refused)
        self._without[uuid] = {place for place in look.seen if place != host}

    def places(self, uuid: str) -> set[str]:
        """Return the hosts that showed an instance in the last look."""
        return (
            {host for host, domains in self._last.seen.items() if uuid in domains}
            if self._last is not None
            else set()
        )

    def refuse_boot(self, host: str, not_done: str) -> list[str]:
        """Refuse to boot a host whose libvirt would start a guest that is on another host.

        libvirt starts it before anything can be read there. A host that does not answer counts by
        its last report, because after a loss of power all hosts are silent.

        :param not_done: the refusal, a sentence without its end.
        :returns: the names of the guests that start with it, sorted.
        :raises DroverError: another host has such a guest.
        """
        with self._store.read() as connection:
            guests = evacuations.autostarted(connection, host)
        if not guests:
            return []
        look = self.look(guests, [host], but=[host])
        with self._store.read() as connection:
            recorded = evacuations.shown(connection, guests, host)
        places = {
            uuid: (
                {
                    place: domains[uuid]
                    for place, domains in look.seen.items()
                    if uuid in domains and place != host
                }
                | {
                    each["host"]: each["state"]
                    for each in recorded.get(uuid, ())
                    if each["host"] in look.silent
                }
            )
            for uuid in guests
        }
        doubled = {
            guests[uuid]: " and ".join(
                f"{place} ({state})" for place, state in sorted(found.items())
            )
            for uuid, found in places.items()
            if found
        }
        if doubled:
            names = sorted(doubled, key=natural)
            raise DroverError(
                f"{host}: {not_done}, because its libvirt starts {some(names)} with the host"
                f" (autostart), and {names[0]} is on {doubled[names[0]]} too: it would run twice."
                f" If {host} is on, run drover.compute.discover, which removes definitions that an"
                " evacuation has left, or undefine the wrong one, but keep its disks. If it is"
                " off, boot it without its storage. Where libvirt or the storage locks all of its"
                " disks: -e drover_power_force=autostart lifts just this rule.",
                host=host,
            )
        return sorted(guests.values(), key=natural)

    def prove_new(
        self, host: str, uuid: str, name: str, looked_at: float | None, now: float
    ) -> certainty.StartProof:
        """Prove that an instance may be built on a host.

        The store knows the host of each begun build, so a host that does not answer has nothing of
        it.

        :param looked_at: time of the search by refuse_namesakes() (seconds since 1970); None
            without a search.
        :raises DroverError: another host shows it.
        """
        if looked_at is not None and 0 <= now - looked_at <= self._rules.max_age:
            return certainty.is_new(host, uuid)
        return self.prove(host, uuid, name, f"Instance {name}: It is not built", silent=False)

    def reads_all(self) -> bool:
        """Return True if every look reads all hosts of the fleet."""
        with self._store.read() as connection:
            return len({*looks.hosts(connection), *self._hosts.names()}) <= asking.ALL

    def refuse_namesakes(
        self,
        names: Mapping[str, str | None],
        plugs: Mapping[str, Collection[str]] | None = None,
        hosts: Collection[str] = (),
    ) -> tuple[list[str], dict[str, dict[str, str]]]:
        """Refuse new instances if a host has an unknown domain with their name or uuid.

        :param names: dict name -> uuid; None for an instance that gets a new one.
        :param plugs: "networks" and "bridges" that they need.
        :param hosts: the hosts of the builds. In a large fleet only these are read, and hosts of
            their cells with an old look.
        :returns: the hosts that do not answer; and the plugs that each other host lacks, see _Look.
        """
        by_uuid = {uuid: name for name, uuid in names.items() if uuid}
        look = self.look(by_uuid, hosts, names, plugs)
        namesakes = {
            (host, by_uuid[uuid], uuid) for host, domains in look.seen.items() for uuid in domains
        }
        namesakes |= {
            (host, name, uuid)
            for host, domains in look.named.items()
            for name, uuid in domains.items()
        }
        with self._store.read() as connection:
            recorded = instance_lookup.known(connection, {uuid for _host, _name, uuid in namesakes})
        unknown = [
            f"{host} has {name} (uuid {uuid})"
            for host, name, uuid in sorted(namesakes)
            if uuid not in recorded
        ]
        if unknown:
            raise DroverError(
                "Nothing was placed, as hosts have domains that this store does not know, with the"
                f" name or uuid of what is new: {'; '.join(unknown)}. Somebody has defined them"
                " since the last discovery, or another store has placed them. Run"
                " drover.compute.discover, which records them, and this again; or give what is new"
                " another name."
            )
        return sorted(look.silent, key=natural), look.lacking

    def _fresh(self, instances: Mapping[str, str], host: str) -> _Look:
        """Return a valid look at instances; read the hosts again if the last one is old."""
        if self._last is None or not self._counts(self._last, instances):
            return self.look(instances, [host])
        return self._last

    def _counts(self, look: _Look, uuids: Iterable[str]) -> bool:
        """Return True for a look at these instances that is not too old."""
        return look.uuids >= set(uuids) and self._clock.monotonic() - look.at <= COUNTS


def _refuse_build(
    look: _Look, silent: Collection[str], host: str, uuid: str, refused: str
) -> NoReturn:
    others = [
        f"{place} ({domains[uuid]})"
        for place, domains in look.seen.items()
        if uuid in domains and place != host
    ]
    if others:
        here = look.seen.get(host, {}).get(uuid)
        place_text = f"{host} ({here})" if here is not None else host
        raise DroverError(
            f"{refused} on {host}: it is on {' and '.join(others)} too, and would be there twice."
            " Somebody has taken it there, or one of the two is an old definition. Look at both,"
            f" {place_text} and {' and '.join(others)}, with virsh list --all; undefine the wrong"
            " one, but keep its disks, which the other may use; run drover.compute.discover, and"
            " this again.",
            host=host,
        )
    names = sorted(silent, key=natural)
    why = "; ".join(f"{each}: {look.silent[each].rstrip('.')}" for each in names[:3])
    raise DroverError(
        f"{refused} on {host}: it may be on {some(names)}, where somebody may have taken it, and"
        f" which does not answer ({why}). Bring {some(names)} back, or evacuate it. Where it is"
        f" certain that it is not there: -e drover_absent_hosts={','.join(names)}, which counts for"
        " these hosts alone.",
        host=host,
    )
