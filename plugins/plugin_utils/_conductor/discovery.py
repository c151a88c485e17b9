# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The discovery of a host: read it, check its facts, remove old definitions, record it.

The facts go one way. host_reading asks the host, _tracker.checked_facts makes typed records of its
answers, evacuated_definitions takes out old definitions, _tracker.node makes compute nodes, and
_tracker.record writes them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.drover.compute.plugins.module_utils._libvirt import machine

from .._common import sizes
from .._common.certainty import Proof
from .._common.errors import Answers, DroverError, Unreachable
from .._definitions import guest
from .._records.hosts import Occupant
from .._store.database import clock
from .._store.engine import Connection
from .._store.hosts import compute_nodes, continuity, power, services
from .._store.instances import occupancy
from .._store.runs import leases
from .._tracker import (
    checked_facts,
    ended_moves,
    host_changes,
    node,
    node_data,
    record,
    recorded,
    second_names,
)
from .._tracker.facts import CheckedReport
from .._tracker.node import NodeReport
from . import discovery_words
from .evacuated_definitions import EvacuatedDefinitions
from .host_reading import HostReading, ModuleFailed, ReadingRequest
from .ports import DiscoveryPorts


@dataclasses.dataclass(frozen=True)
class DiscoveryRequest:
    """The request of an operator for a discovery.

    - host: the name in the store.
    - options: the options of _tracker.node_options, and the name of the host as host.
    - reading: the questions to the host; None for nodes given as data.
    - nodes: compute nodes given as data, for any number of hosts.
    - whole: the nodes given as data are all nodes of the host, so that it loses the others.
    - in_inventory: the inventory has the host. Another name, such as localhost or a misspelt name,
      is not added as a host that is down.
    - exchanged: a person says that this host has another machine now.
    - alone: the task has no other purpose than the discovery, so it shows results for people.
    """

    host: str
    options: Mapping[str, Any]
    reading: ReadingRequest | None
    nodes: Sequence[Any] = ()
    whole: bool = False
    in_inventory: bool = False
    exchanged: bool = False
    alone: bool = False
    diff: bool = False


class HostDiscovery:
    """The discovery of one host, or the record of nodes given as data."""

    def __init__(self, ports: DiscoveryPorts, request: DiscoveryRequest) -> None:
        self._ports, self._request, self._host = ports, request, request.host
        self._store = ports.store
        #: The warnings of the module about facts that it cannot read.
        self._warnings: list[str] = []
        #: The domains that libvirt cannot describe.
        self._untold: list[Occupant] = []
        self._evacuated: Mapping[str, Mapping[str, object]] = {}
        self._absent: Mapping[str, Proof] = {}

    def run(self) -> dict[str, Any]:
        """Read the host, or the data, and record it.

        :returns: the result of record(), and further lists of it, as the module compute_node
            documents them.
        :raises Unreachable: the host cannot be reached; it is recorded as down.
        :raises DroverError: it cannot be read or recorded.
        """
        options = self._options()
        if self._request.reading is None:
            reports = node_data.reports(self._request.nodes, self._host, options)
            if not reports and self._request.whole:
                reports = {self._host: []}
        else:
            reports = {self._host: self._read_nodes(self._request.reading, options)}
        try:
            outcome, forgotten = self._record(reports)
        except second_names.SecondName as problem:
            # The host must not count beside its other name.
            self._record_down(str(problem), ran_there=False)
            raise
        if self._request.alone and self._request.reading is not None:
            for line in discovery_words.lines(self._host, outcome):
                self._ports.say(line)
        warnings = [
            *(line for nodes in reports.values() for each in nodes for line in each["warnings"]),
            *forgotten,
            *discovery_words.doubled(outcome["doubled"]),
            *map(discovery_words.policy, outcome.pop("policies")),
            *outcome.pop("unmeasured"),
            *self._warnings,
        ]
        return {**outcome, "warnings": warnings} if warnings else outcome

    def _options(self) -> dict[str, Any]:
        """Return the options with sizes in numbers.

        :raises DroverError: one of them has a wrong form.
        """
        options, host = dict(self._request.options), self._host
        for name in ("reserved_host_memory_mb", "reserved_host_disk_mb"):
            options[name] = sizes.read(f"Host {host}: drover_{name}", options[name], sizes.MIB)
        options["domain_type"] = guest.checked_type(
            options["domain_type"], f"Host {host} (drover_domain_type)"
        )
        options["cpu"] = guest.checked_cpu(options["cpu"], f"Host {host} (drover_cpu)")
        return options

    def _read_nodes(self, reading: ReadingRequest, options: Mapping[str, Any]) -> list[NodeReport]:
        """Read the host, and return its compute nodes."""
        reports = self._check_answers(self._read_hypervisors(reading, options))
        self._untold = [each for report in reports for each in report.untold]
        definitions = EvacuatedDefinitions(self._ports, self._host, self._warnings.append)
        facts = definitions.removed([each.facts for each in reports])
        self._evacuated, self._absent = definitions.evacuated, definitions.absent
        nodes = [node.describe(each, options) for each in node.distinct_names(facts)]
        for described, report in zip(nodes, reports):
            described["warnings"] = [
                *report.sentences,
                *described["warnings"],
                *discovery_words.no_kvm(self._host, report.facts.kvm),
            ]
        return nodes

    def _read_hypervisors(self, reading: ReadingRequest, options: Mapping[str, Any]) -> list[Any]:
        """Return the answer of each hypervisor of the host; record a silent host as down."""
        host_reading = HostReading(self._store, self._ports.hand, self._host, reading, options)
        try:
            return host_reading.answers(self._warnings)
        except Unreachable as problem:
            self._record_down(str(problem.cause_of_it), ran_there=False)
            raise
        except ModuleFailed as problem:
            self._record_down(str(problem), problem.ran_there)
            raise
        except (Exception, KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            # Ansible ends a task at its time limit by a private BaseException. If the task has no
            # limit, the limit of the calling task has passed, and the host may be up.
            if self._ports.limit:
                self._record_down(f"it did not answer within {self._ports.limit} s", False)
            raise

    def _check_answers(self, answers: Sequence[Any]) -> list[CheckedReport]:
        """Return the answers as typed records.

        :raises DroverError: a fact is impossible. The host answers, so it must not count as dead.
        """
        try:
            return [
                checked_facts.reported(answer, f"Host {self._host}, as it reports itself")
                for answer in answers
            ]
        except DroverError as problem:
            raise Answers(
                f"{problem} Nothing of host {self._host} was recorded. Check its libvirt, and its"
                " root access.",
            ) from None

    def _record(
        self, reports: Mapping[str, Sequence[NodeReport]]
    ) -> tuple[dict[str, Any], list[str]]:
        """Record the reports of hosts in one transaction.

        :returns: the result, and warnings about changes by people in an earlier store.
        """
        diff, exchanged = self._request.diff, self._request.exchanged
        with self._store.write() as connection:
            before = recorded.of_hosts(connection, reports) if diff else {}
            machine_before = _machine(connection, self._host) if exchanged else ""
            second_names.refuse(connection, reports)
            if exchanged:
                self._refuse_exchange(connection, reports[self._host])
            now = clock.now(connection)
            if not self._store.check_mode:
                continuity.notice(connection, now)
            domains = {
                host: sum(len(each["domains"]) for each in nodes) for host, nodes in reports.items()
            }
            forgotten = continuity.forgotten(connection, domains)
            ended_moves.end_moved_back(connection, self._evacuated, self._absent, now)
            outcome = record.record(connection, reports, now)
            if diff:
                outcome["diff"] = list(recorded.changes(connection, reports, before))
            leases.remove_over(connection, self._ports.actor())
            if self._request.reading is not None:
                outcome["occupants"] = occupancy.occupants(connection, self._host)
                # A domain that libvirt cannot describe may run.
                outcome["occupants"]["running"] += self._untold
            if exchanged:
                after = _machine(connection, self._host)
                outcome["machines"] = {"before": machine_before, "after": after}
        return outcome, forgotten

    def _refuse_exchange(self, connection: Connection, nodes: Sequence[NodeReport]) -> None:
        shown = {domain["columns"]["uuid"] for each in nodes for domain in each["domains"]}
        shown |= {each["uuid"] for each in self._untold if each["uuid"]}
        host_changes.refuse_exchange(connection, self._host, shown)

    def _record_down(self, reason: str, ran_there: bool) -> None:
        """Record that the host could not be read.

        :param ran_there: a module ran on the host, so its machine is on.
        """
        with self._store.write() as connection:
            services.record_unreachable(
                connection,
                self._host,
                " ".join(reason.split())[:500],
                clock.now(connection),
                add=self._request.in_inventory,
            )
            if ran_there:
                power.note_answer(connection, self._host)


def _machine(connection: Connection, host: str) -> str:
    """Return the machine of a host in the store, in words for people."""
    identity = compute_nodes.identities(connection, [host]).get(host)
    if not identity:
        return "not known"
    return machine.described(identity["host_uuids"], next(iter(identity["machine_ids"]), None))
