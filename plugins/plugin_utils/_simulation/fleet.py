# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fleet in a copy of the store, and the effect of each change on it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .._common import storage_identity
from .._common.errors import DroverError, natural, some
from .._common.validation import did_you_mean
from .._conductor import host_state, plans, scheduling
from .._definitions import check, requests
from .._numa.request import HostRequest
from .._placement import allocations, host_copies, relocation
from .._planner.drain import plan_drain
from .._planner.evacuation import as_shut_off
from .._records.instances import PlannedInstance
from .._records.orders import MigrationLimits
from .._records.plans import DrainPlan
from .._records.simulation import LeftOut, SimulatedChange
from .._report import formatting
from .._report.host_loss import left_of
from .._scheduler import request_spec
from .._scheduler.policy import Policy
from .._scheduler.request_spec import RequestSpec
from .._store.engine import Connection
from .._store.hosts import aggregates
from .._store.instances import evacuations, flavors, requested_instances
from .._store.instances.instances_for_plans import read_instances, read_zones
from .._store.reports import hosts
from .._tracker import node_data, record
from . import changes, placing
from .changes import FleetChange


class SimulatedFleet:
    """A fleet with changes.

    :param connection: the connection to a copy of the store.
    :param policy: the policy that places instances, see also the change ``scheduler``.
    :param now: seconds since 1970.
    :param service_down_time: seconds.
    """

    def __init__(
        self, connection: Connection, policy: Policy, now: float, service_down_time: int = 0
    ) -> None:
        self.connection, self.policy, self.now, self.service_down_time = (
            connection,
            policy,
            now,
            service_down_time,
        )

    def make(self, change: FleetChange) -> SimulatedChange:
        """Make a change.

        :raises DroverError: it names an unknown part of the fleet, or a request cannot be read.
        """
        make: dict[str, Callable[[FleetChange], SimulatedChange]] = {
            "add_hosts": self._add_hosts,
            "remove_hosts": self._remove_hosts,
            "lose_hosts": self._lose_hosts,
            "maintenance": self._maintain,
            "add_instances": self._add_instances,
            "grow": self._grow,
            "scheduler": self._schedule_by,
        }
        try:
            return make[change.key](change)
        except DroverError as problem:
            # Errors of deeper functions do not name the change.
            said = str(problem).removeprefix(change.where).removeprefix(": ")
            raise DroverError(f"{change.where}: {said}", **problem.details) from None

    def names(self) -> list[str]:
        """Return the hosts, sorted."""
        return sorted(
            (
                each["host"]
                for each in hosts.states(self.connection, self.now, self.service_down_time)
            ),
            key=natural,
        )

    def _selected(self, change: FleetChange) -> list[str]:
        of_aggregates = {
            each["name"]: each["hosts"] for each in aggregates.listing(self.connection)
        }
        return changes.selected(
            change.value, change.where, self.names(), of_aggregates, read_zones(self.connection)
        )

    def _add_hosts(self, change: FleetChange) -> SimulatedChange:
        like, count, node = change.value["like"], change.value["count"], change.value["node"]
        added = self._new_names(change, count)
        if like is not None:
            hosts = self.names()
            if like not in hosts:
                raise DroverError(
                    f"there is no host {like} in the fleet as it is"
                    f" then{did_you_mean(like, hosts)}."
                )
            host_copies.add_like(self.connection, like, added, self.now)
            what = f"like {like}"
        else:
            try:
                reports = node_data.reports(
                    [{"host": name, **node} for name in added], added[0], {}
                )
            except DroverError as problem:
                raise DroverError(
                    str(problem).removeprefix(f"nodes, item 1 ({added[0]}): ")
                ) from None
            record.record(self.connection, reports, self.now)
            what = f"with {', '.join(f'{key} {value}' for key, value in node.items())}"
        return _make_change(
            change, f"{formatting.count(count, 'host')} {what} {_is_or_are(count)} added", added
        )

    def _new_names(self, change: FleetChange, count: int) -> list[str]:
        """Return names for new hosts: NAME for one, NAME-1 and so on for several; without a name
        the first free names of new-1, new-2 and so on.
        """
        taken, name = set(self.names()), change.value["name"]
        if name is None:
            free = (
                new_name
                for number in itertools.count(1)
                if (new_name := f"new-{number}") not in taken
            )
            return list(itertools.islice(free, count))
        names = [name] if count == 1 else [f"{name}-{number}" for number in range(1, count + 1)]
        for new_name in names:
            if new_name in taken:
                raise DroverError(
                    f"{change.where}: there is a host {new_name} already. Give another name."
                )
        return names

    def _remove_hosts(self, change: FleetChange) -> SimulatedChange:
        hosts = self._selected(change)
        plan, instances = self._drain(hosts)
        moved = self._carry_out(plan, instances)
        host_copies.remove(self.connection, hosts, self.now)
        return _make_change(
            change,
            f"{some(hosts, 5)} {_is_or_are(len(hosts))} removed",
            hosts,
            moved=moved,
            left_out=_staying(plan),
        )

    def _lose_hosts(self, change: FleetChange) -> SimulatedChange:
        hosts = self._selected(change)
        instances = [
            each for each in read_instances(self.connection, hosts) if each["state"] != "missing"
        ]
        storage = evacuations.storage(self.connection)
        own = {(each["host"], each["node"]): each for each in storage.values()}
        lost = [
            each
            for each in instances
            if storage_identity.local_disks(each["disks"], own[each["host"], each["node"]])
        ]
        off = as_shut_off(instances)
        columns = scheduling.read_fleet(
            self.connection, off, self.policy, self.now, self.service_down_time
        )
        plan = plan_drain(columns, off, hosts, self.policy)
        moved = self._carry_out(plan, instances)
        host_copies.remove(self.connection, hosts, self.now)
        only = hosts[0] if len(hosts) == 1 else "a lost host"
        note = f" ({left_of(len(lost), len(instances), only)})" if lost else ""
        return _make_change(
            change,
            f"{some(hosts, 5)} {_is_or_are(len(hosts))} lost{note}",
            hosts,
            moved=moved,
            left_out=_staying(plan),
        )

    def _maintain(self, change: FleetChange) -> SimulatedChange:
        hosts = self._selected(change)
        for name in hosts:
            host_state.change(self.connection, name, "maintenance", reason="simulated")
        plan, instances = self._drain(hosts)
        moved = self._carry_out(plan, instances)
        return _make_change(
            change,
            f"{some(hosts, 5)} {_is_or_are(len(hosts))} in maintenance",
            hosts,
            moved=moved,
            left_out=_staying(plan),
        )

    def _drain(self, names: Sequence[str]) -> tuple[DrainPlan, list[PlannedInstance]]:
        question = plans.DrainQuestion(
            self.policy, MigrationLimits(), service_down_time=self.service_down_time
        )
        return question.plan(self.connection, names), read_instances(self.connection, names)

    def _carry_out(self, plan: DrainPlan, instances: Sequence[PlannedInstance]) -> int:
        """Move instances to the hosts of a plan; return the number of moved instances."""
        moving = {move["uuid"] for move in plan["moves"]}
        specs = [RequestSpec.from_instance(each) for each in instances if each["uuid"] in moving]
        requests = {spec.key: spec.host_request for spec in specs if not spec.host_request.is_empty}
        relocation.relocate(self.connection, plan["moves"], requests, self.now)
        return len(moving)

    def _add_instances(self, change: FleetChange) -> SimulatedChange:
        asked = [request for each in change.value for request in self._requests(each, change.where)]
        scheduling.refuse_unknown(asked)
        specs = scheduling.read_specs(self.connection, asked, self.policy)
        names = some(
            [
                f"{request.get('num_instances') or request.get('count') or 1} {request['name']}"
                for request in change.value
            ],
            5,
        )
        return self._place_instances(
            change,
            specs,
            f"{formatting.count(len(specs), 'instance')} {_is_or_are(len(specs))} added ({names})",
            _request_name,
        )

    def _requests(self, asked: Mapping[str, object], where: str) -> list[Mapping[str, Any]]:
        """Return the requests for an item: the item itself if it is a request, or the requests of a
        definition, which may have disks and hardware.
        """
        if set(asked) <= set(request_spec.KEYS):
            return [asked]
        defined = check.instances([dict(asked)], lambda _item: where)
        flavored = check.with_flavors(
            defined, flavors.read_all(self.connection), {each["name"]: where for each in defined}
        )
        return [
            {
                **requests.request(each),
                **{key: each[key] for key in ("server_group",) if each.get(key)},
            }
            for each in flavored
        ]

    def _grow(self, change: FleetChange) -> SimulatedChange:
        counts = _shares(requested_instances.kinds(self.connection), change.value)
        spec_of = specs_of(self.connection, counts)
        # The largest come first, because they are the hardest to place.
        order = sorted(
            counts,
            key=lambda uuid: (
                -spec_of[uuid].resources.get("MEMORY_MB", 0),
                -spec_of[uuid].vcpus,
                uuid,
            ),
        )
        specs = []
        for kind, uuid in enumerate(order, 1):
            spec = replace(spec_of[uuid], uuid=None, server_group=None)
            name = f"{spec.flavor.name if spec.flavor is not None else spec.size} {kind}"
            specs += [
                replace(spec, name=f"{name}-{number}") for number in range(1, counts[uuid] + 1)
            ]
        text = (
            f"The fleet grows by {change.value:g} %: {formatting.count(len(specs), 'instance')}"
            f" {_is_or_are(len(specs))} added"
        )
        return self._place_instances(change, specs, text, lambda spec: spec.name.rpartition(" ")[0])

    def _place_instances(
        self,
        change: FleetChange,
        specs: Sequence[RequestSpec],
        text: str,
        name: Callable[[RequestSpec], str],
    ) -> SimulatedChange:
        """Place instances.

        :param name: gives the common name of equal instances that fit nowhere, from the first of
            them.
        """
        taken = list(
            requested_instances.requested(
                self.connection, [spec.uuid for spec in specs if spec.uuid]
            ).values()
        )
        if taken:
            raise DroverError(
                f"{change.where}: the instance {taken[0]['name']} has the uuid {taken[0]['uuid']},"
                " and what is added is new. Leave uuid out."
            )
        chosen, refused = placing.place(
            self.connection,
            specs,
            f"{change.number}",
            self.policy,
            self.now,
            self.service_down_time,
        )
        left_out: list[LeftOut] = [
            {"name": name(run[0]), "count": len(run), "reason": why} for run, why in refused
        ]
        return _make_change(change, text, [], placed=len(chosen), left_out=left_out)

    def _schedule_by(self, change: FleetChange) -> SimulatedChange:
        self.policy = self.policy.over(change.value)
        return _make_change(
            change,
            f"From here on the policy has {', '.join(map(str, change.value)) or 'nothing new'}",
            [],
        )


def specs_of(connection: Connection, uuids: Collection[str]) -> dict[str, RequestSpec]:
    """Return the requests of instances, by uuid, as far as the store has them: without hints, and
    with their present allocations.
    """
    allocated = allocations.read(connection, uuids)
    specs = {}
    for uuid, request in requested_instances.requested(connection, uuids).items():
        spec = RequestSpec.from_instance(request)
        if uuid in allocated:
            spec = replace(spec, resources=allocations.total(allocated[uuid]))
        if request["host_request"]:
            spec = replace(
                spec,
                host_request=HostRequest.from_data(
                    request["host_request"], f"Instance {request['name']}"
                ),
            )
        specs[uuid] = spec
    return specs


def _shares(kinds: Sequence[tuple[str, int]], percent: float) -> dict[str, int]:
    """Distribute a growth over kinds of instances in proportion, by the largest remainder; kinds
    without a share are left out.
    """
    exact = {uuid: count * percent / 100 for uuid, count in kinds}
    shares = {uuid: int(amount) for uuid, amount in exact.items()}
    missing = round(sum(exact.values())) - sum(shares.values())
    for uuid in sorted(exact, key=lambda each: (shares[each] - exact[each], each))[
        : max(missing, 0)
    ]:
        shares[uuid] += 1
    return {uuid: amount for uuid, amount in shares.items() if amount}


def _request_name(spec: RequestSpec) -> str:
    """Return the name of the request of an instance: NAME-3 is the third of NAME."""
    base, dash, number = spec.name.rpartition("-")
    return base if dash and number.isdigit() else spec.name


def _staying(plan: DrainPlan) -> list[LeftOut]:
    stay = [(each["name"], each["reason"]) for each in plan["unmovable"]]
    stay += [
        (each["name"], "its move policy is shutdown: it is shut down and stays")
        for each in plan["shutdowns"]
    ]
    return [{"name": name, "count": 1, "reason": reason} for name, reason in stay]


def _make_change(
    change: FleetChange,
    text: str,
    names: Collection[str],
    placed: int = 0,
    moved: int = 0,
    left_out: Sequence[LeftOut] = (),
) -> SimulatedChange:
    return {
        "change": change.key,
        "text": text,
        "hosts": list(names),
        "placed": placed,
        "moved": moved,
        "left_out": list(left_out),
    }


def _is_or_are(count: int) -> str:
    return "is" if count == 1 else "are"
