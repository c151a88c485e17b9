# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The start, stop, reboot and removal of instances: host after host, each under its lease."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .._common.errors import DroverError, TimeOver
from .._records.instances import NamedInstance
from .._records.outcomes import InstanceOutcome
from .._store.hosts import continuity
from .._store.instances import instance_lookup
from .building import Building
from .operations import DOING, NOT_DONE, STOPS, Operations, refuse, starts
from .ports import Ports
from .resize_removal import ResizeRemoval, is_resized
from .starting import Starting

#: Seconds that the work on one instance may take beyond its timeout, and that all work on a host
#: may take beyond that.
SPARE, SPARE_OF_HOST = 30, 300


#: The words of a dry run, by state.
_WOULD = {"running": "started", "stopped": "shut down", "rebooted": "rebooted"}


class InstanceOperations:
    """A run on the instances of several hosts. A failure at one host stops no other."""

    def __init__(self, ports: Ports, check_mode: bool = False) -> None:
        self._ports = ports
        self._store, self._hosts, self._leasing, self._say = (
            ports.store,
            ports.hosts,
            ports.leasing,
            ports.say,
        )
        self._check_mode, self._proofs = check_mode, Starting(ports)
        #: The outcomes of all instances; the differences that modules returned; sentences on
        #: failures.
        self.outcomes: list[InstanceOutcome] = []
        self.differences: list[dict[str, object]] = []
        self.failed: list[str] = []

    def run(
        self, wanted: Sequence[Any], state: str, options: Mapping[str, Any]
    ) -> tuple[dict[str, object], list[dict[str, object]], list[str]]:
        """Bring the instances to a state.

        :param wanted: names, uuids, or mappings of both.
        :param state, options: see operations.Operations.carry_out().
        :returns: (result, differences, failed): a dict; the changes; sentences. The dict has
            changed, instances and, after a removal, gone (dicts uuid and name, and the names that
            were not in the store).
        """
        instance_lookup.refuse_none(wanted)
        unknown: list[Any] | None = [] if state == "absent" else None
        gone: list[Any] = []
        with self._store.read() as connection:
            instances = instance_lookup.find(connection, wanted, unknown)
        if unknown:
            with self._note_failure():
                self._refuse_unheard_of(unknown)
                self._say(f"Not in the store, so there is nothing to remove: {', '.join(unknown)}")
                gone = [*unknown]
        if state in STOPS:
            self._ports.own.refuse_stop(instances, NOT_DONE[state])
        resized = [each for each in instances if state == "absent" and is_resized(each)]
        building = [
            each
            for each in instances
            if state == "absent" and each["state"] == "building" and each["host"] is not None
        ]
        for instance in building:
            with self._note_failure():
                self._give_up_build(instance, options["timeout"])
        others = [each for each in instances if each not in resized and each not in building]
        for instance in resized:
            with self._note_failure():
                self._remove_resized(instance, options["timeout"])
        if starts(state, options):
            self._read_hosts_once(others)
        for host in dict.fromkeys(each["host"] for each in others):
            on_host = [each for each in others if each["host"] == host]
            with self._note_failure():
                if host is None:
                    for each in on_host:
                        refuse(each, state)
                else:
                    self._work_on_host(
                        host, [instance_lookup.as_named(each) for each in on_host], state, options
                    )
        result: dict[str, object] = {
            "changed": any(each["changed"] for each in self.outcomes),
            "instances": self.outcomes,
        }
        if state == "absent":
            removed = [each for each in self.outcomes if each["status"] == "done"]
            result["gone"] = [
                {"uuid": each["uuid"], "name": each["name"]} for each in removed
            ] + gone
            for outcome in removed:
                self._say_removed(outcome)
        return result, self.differences, self.failed

    def _read_hosts_once(self, found: Sequence[NamedInstance]) -> None:
        """Read the hosts once for all instances, if these are on several hosts."""
        hosts = {each["host"] for each in found if each["host"] is not None}
        if len(hosts) > 1:
            self._proofs.look({each["uuid"]: each["name"] for each in found}, hosts)

    def _refuse_unheard_of(self, names: Sequence[Any]) -> None:
        """Refuse to call unknown instances gone while an unread host may have them.

        :raises DroverError: a host has not been read.
        """
        refused = f"Not in the store: {', '.join(names)}. Nothing was removed"
        with self._store.read() as connection:
            continuity.refuse_unread(connection, refused, self._hosts.names(), continuity.THERE)

    @contextlib.contextmanager
    def _note_failure(self) -> Iterator[None]:
        """Note a failure and continue. Raise it if the time of the whole run is over."""
        try:
            yield
        except TimeOver:
            raise
        except DroverError as problem:
            self.failed.append(str(problem))

    def _remove_resized(self, instance: NamedInstance, patience: int) -> None:
        """Remove an instance with an open resize if its domain is gone; else refuse the removal."""
        removal = ResizeRemoval(self._ports, patience, self._check_mode)
        with self._hold_leases(
            removal.hosts(instance["uuid"]), "absent", 4 * patience + SPARE_OF_HOST
        ):
            self.outcomes.append(removal.remove(instance["uuid"]))

    def _give_up_build(self, instance: NamedInstance, timeout: int) -> None:
        """Give back the room of an instance with a claim and without a finished build."""
        name, host = instance["name"], instance["host"] or ""
        sentences: list[str] = []
        with self._hold_leases([host], "absent", timeout + SPARE_OF_HOST):
            if not self._check_mode:
                sentences = Building(self._ports, self._hosts.hand(host), host, timeout).give_up(
                    instance["uuid"]
                )
        done = "would be" if self._check_mode else "was"
        self._say(
            " ".join(
                [
                    f"{name} was claimed on {host} and not built: its room {done} given back.",
                    *sentences,
                ]
            )
        )
        gone: InstanceOutcome = {
            "uuid": instance["uuid"],
            "name": name,
            "changed": True,
            "status": "done",
            "message": "",
            "removed_disks": [],
            "kept_disks": [],
        }
        self.outcomes.append(gone)

    def _work_on_host(
        self, host: str, wanted: Sequence[Any], state: str, options: Mapping[str, Any]
    ) -> None:
        with self._hold_leases(
            [host], state, len(wanted) * (options["timeout"] + SPARE) + SPARE_OF_HOST
        ):
            operations = Operations(
                self._ports, self._hosts.hand(host), host, self._check_mode, self._proofs
            )
            outcomes, differences, failed = operations.carry_out(wanted, state, options)
        if self._check_mode and state in _WOULD:
            for each in (each for each in outcomes if each["status"] != "failed"):
                self._say(
                    f"{each['name']} on {host}:"
                    f" {f'would be {_WOULD[state]}' if each['changed'] else 'nothing would change'}."
                )
        self.outcomes += outcomes
        self.differences += differences
        self.failed += failed

    def _hold_leases(
        self, hosts: Sequence[str], state: str, seconds: int
    ) -> contextlib.AbstractContextManager[None]:
        if self._check_mode:
            return contextlib.nullcontext()
        return self._leasing.held(hosts, f"{DOING[state]} instances", seconds)

    def _say_removed(self, outcome: InstanceOutcome) -> None:
        word = "would remove" if self._check_mode else "removed"
        kept = "".join(f" Kept {disk['path']}: {disk['reason']}." for disk in outcome["kept_disks"])
        self._say(
            f"{outcome['name']}: {word} {', '.join(outcome['removed_disks']) or 'no disk'}.{kept}"
        )
