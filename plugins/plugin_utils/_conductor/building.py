# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The build of the instance of a claim on its hypervisor, and the search for the result of a build.

The order is in the store before the hypervisor gets it. It is closed when its result is known. A
build goes to an alternate only with the proof that nothing of the instance is on the host. The
same proof is required to give back a claim.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypedDict

from ansible_collections.drover.compute.plugins.module_utils._domain.definition import (
    is_source,
    parse_disk,
)
from ansible_collections.drover.compute.plugins.module_utils._domain.facts import DomainDisk
from ansible_collections.drover.compute.plugins.module_utils._libvirt.xml import parse
from ansible_collections.drover.compute.plugins.module_utils._storage import kinds
from ansible_collections.drover.compute.plugins.module_utils._storage.kinds import Source

from .._common import certainty, resource_classes
from .._common.errors import DroverError, UncertainOrder, as_sentence
from .._placement import claims
from .._records.claims import Alternate, Claim
from .._records.domains import ReportedDomain
from .._store.database import bulk
from .._store.hosts import compute_nodes
from .._store.hosts.compute_nodes import DEFAULT_URI
from .._store.instances import instances, orders
from .._tracker import domain, record_domain, storage_pools
from . import starting, used_files
from .instance_order import refuse_other_domain
from .ports import Hand, Ports
from .removing import Removing
from .starting import Starting
from .under_way import BUILDS

#: Seconds that a look waits for the end of a build, beyond the time limit of the build.
GRACE = 30
#: The states of a domain after its build.
BUILT = ("running", "blocked")
#: The sentence on a build with an uncertain end.
UNSETTLED = "It may have been built, so it is not built elsewhere and keeps its room."
#: The number of times that an order of another run is settled before this run gives up.
TRIES = 3


class BuildResult(TypedDict):
    """The result of a build.

    - built: True if the instance runs.
    - claim: the next place for the build, or None.
    """

    built: bool
    claim: Claim | None


def _paths(wanted: Mapping[str, Any]) -> list[str]:
    """Return the files that a build may write to, with the paths in its definition."""
    own = [
        each["path"]
        for each in (*(wanted.get("disks") or ()), wanted.get("seed") or {})
        if each.get("path")
    ]
    return own + [
        disk["source"]
        for disk in _existing(wanted["xml"])
        if kinds.of_disk(disk).source is not Source.SERVER and disk["source"] not in own
    ]


def _existing(xml: str) -> list[DomainDisk]:
    """Return the disks of a domain that existed before the build, by the XML of the domain."""
    try:
        elements = parse(xml).findall("devices/disk")
    except ValueError:
        # The host refuses such XML.
        return []
    return [parse_disk(each) for each in elements if is_source(each)]


def _miscounted(disk: Mapping[str, Any], node: Mapping[str, Any]) -> str | None:
    """Return the reason why discovery would count a disk on another pool than its claim; None if
    both agree.

    :param disk: a disk of the definition.
    :param node: facts of the node.
    """
    source = disk.get("source") or {}
    path = disk.get("path") or source.get("path")
    if not path:
        return None
    seen = storage_pools.counted_as(
        {"type": "block" if path.startswith("/dev/") else "file", "source": path}, node
    )
    if seen == (resource_classes.pool_class(disk["pool"]) if disk.get("pool") else None):
        return None
    name = next(
        (
            pool["name"]
            for pool in node.get("storage_pools") or ()
            if pool["resource_class"] == seen
        ),
        None,
    )
    if name is None:
        return (
            f"{path} is not in the storage pool {disk['pool']}. Nothing was begun: take pool out,"
            " or name a file of that pool"
        )
    advice = (
        f"give the disk pool: {name}" if source else f"take its path out, and give it pool: {name}"
    )
    return (
        f"{path} counts on the storage pool {name}, and the definition does not say so. Nothing was"
        f" begun: {advice}"
    )


class Building:
    """The builds on one host.

    :param timeout: seconds that a domain may take to run.
    :param looked_at: time at which the hosts were read for new domains (seconds since 1970); None
        if they were not read.
    :ivar left: sentences on the things that an interrupted build has left on the host.
    """

    def __init__(
        self, ports: Ports, hand: Hand, host: str, timeout: int, looked_at: float | None = None
    ) -> None:
        self.store, self.hand, self.host, self.timeout = ports.store, hand, host, timeout
        self._proofs, self._clock, self._looked_at = Starting(ports), ports.clock, looked_at
        self._under_way, self._removing = ports.under_way, Removing(ports)
        self.left: list[str] = []

    def build(self, wanted: Mapping[str, Any]) -> dict[str, object]:
        """Build an instance on the host of its claim.

        :param wanted: the arguments of the module domain: uuid, name, xml, disks and so on.
        :returns: a dict: changed, domain (as the module returns it; None if it was built before),
            and diff if there is one.
        :raises DroverError: it is not built. ``uncertain`` in its details is False if that is
            proven.
        """
        uuid, name, order = wanted["uuid"], wanted["name"], bulk.new_uuid()
        self._refuse_taken(wanted)
        proof = self._prove(uuid, name)
        if not self._begin_order(wanted, order):
            return {"changed": False, "domain": None}
        try:
            self.hand.reach()
        except DroverError as problem:
            self._close_order(
                uuid,
                order,
                certainty.never_begun(f"{self.host} was not reached, so nothing was begun there."),
            )
            raise DroverError(
                f"Instance {name}: {problem}. Nothing was begun there.",
                host=self.host,
                uncertain=False,
            ) from None
        with self._under_way.known(BUILDS, lambda: [name]):
            answer = self._order_build(wanted, order, proof)
        if answer.outcome == certainty.DONE:
            self._record(uuid, order, answer.result["domain"])
            return {
                key: answer.result[key]
                for key in ("changed", "domain", "diff")
                if key in answer.result
            }
        absent, seen = certainty.unable(self.host, answer), None
        if absent is None:
            absent, seen = self._withdraw_and_read_host(uuid, wanted.get("uri"), order)
        if absent is not None:
            self._close_order(uuid, order, absent)
            raise DroverError(
                f"Instance {name} on {self.host}: {answer.message}", host=self.host, uncertain=False
            )
        if seen is not None and seen["state"] in BUILT:
            self._record(uuid, order, seen)
            return {"changed": True, "domain": seen}
        raise self._unsettled(name, seen, answer.message)

    def refuse_miscounted(self, name: str, disks: Sequence[Mapping[str, object]]) -> None:
        """Refuse disks of a definition that discovery would count on another pool than the claim.

        The scheduler has not checked the room in that other pool.

        :raises DroverError: a disk is one of them.
        """
        if not any(disk.get("path") or disk.get("source") for disk in disks):
            return
        with self.store.read() as connection:
            nodes = compute_nodes.by_host(connection, [self.host])
        for disk in disks:
            reasons = [_miscounted(disk, node.facts or {}) for node in nodes.values()]
            if reasons and reasons[0] and all(reasons):
                raise DroverError(
                    f"Instance {name} on {self.host}: its disk {reasons[0]}.",
                    host=self.host,
                    uncertain=False,
                )

    def foretell(self, wanted: Mapping[str, Any]) -> dict[str, object]:
        """Return the result that build() would have; change nothing."""
        self._refuse_taken(wanted)
        options = self._module_arguments(wanted)
        foreseen = self.hand.foretell("domain", options)
        if foreseen.get("failed") and foreseen.get("links"):
            foreseen = self.hand.foretell("domain", self._with_links(options, foreseen["links"]))
        if foreseen.get("failed"):
            raise DroverError(
                f"Instance {wanted['name']} on {self.host}: {foreseen.get('msg')}", host=self.host
            )
        return {key: foreseen[key] for key in ("changed", "domain", "diff") if key in foreseen}

    def settle(
        self,
        uuid: str,
        alternates: Sequence[Alternate],
        lifetime: int,
        message: str,
        actor: str | None = None,
    ) -> BuildResult:
        """Find out how an unfinished build ended, and claim the next alternate if possible.

        :param alternates: the alternates that are left.
        :param lifetime: seconds until the new claim expires.
        :param message: a sentence: the reason why the build failed.
        :raises DroverError: the end of the build is not certain; or no alternate is left, and the
            room was given back.
        """
        with self.store.read() as connection:
            row, node = orders.read(connection, uuid), instances.place(connection, uuid)
        if row is None:
            raise DroverError(
                f"{message} Its room was given back by another run: run drover.compute.place again."
            )
        claims.require_claim(row, node, self.host)
        if row.order_uuid is not None:
            proof, seen = self._withdraw_and_read_host(
                uuid, None if node is None else node.uri, row.order_uuid
            )
            if seen is not None and seen["state"] in BUILT:
                self._record(uuid, row.order_uuid, seen)
                return {"built": True, "claim": None}
            if proof is None:
                raise self._unsettled(row.name, seen, message)
            self._close_order(uuid, row.order_uuid, proof)
        elif row.state != claims.BUILDING:
            return {"built": True, "claim": None}
        else:
            proof = certainty.never_begun(f"No order to build it is open at {self.host}.")
        return self._go_on(row, alternates, proof, lifetime, message, actor)

    def give_up(self, uuid: str) -> list[str]:
        """Give back the room of an instance with a build that no run continues.

        :returns: sentences on files that stay on the host.
        :raises DroverError: the instance is built by now, or its host does not show it, or
            the instance is moving.
        """
        with self.store.read() as connection:
            row, node = orders.read(connection, uuid), instances.place(connection, uuid)
        if row is None:
            return []
        if row.state != claims.BUILDING:
            raise DroverError(
                f"Instance {row.name} is {row.state} by now. Nothing was removed: run this again.",
                host=self.host,
            )
        proof = certainty.never_begun(f"No order to build it is open at {self.host}.")
        if row.order_uuid is not None:
            absent, seen = self._withdraw_and_read_host(
                uuid, None if node is None else node.uri, row.order_uuid
            )
            if seen is not None and seen["state"] in BUILT:
                self._record(uuid, row.order_uuid, seen)
                raise DroverError(
                    f"Instance {row.name} runs on {self.host}: its build had ended. Nothing was"
                    " removed: run this again.",
                    host=self.host,
                )
            if absent is None:
                state = (
                    f"It is {seen['state']} there"
                    if seen is not None
                    else f"{self.host} does not show what is there"
                )
                raise DroverError(
                    f"Instance {row.name}: its build on {self.host} was begun. {state}, so its room"
                    f" is not given back: run this again when {self.host} answers, or place it"
                    " again.",
                    host=self.host,
                )
            self._close_order(uuid, row.order_uuid, absent)
            proof = absent
        with self.store.write(together=True) as connection:
            claims.release(connection, [uuid], proof, time.time())
        return self.left

    def _go_on(
        self,
        row: Any,
        alternates: Sequence[Alternate],
        proof: certainty.Proof,
        lifetime: int,
        message: str,
        actor: str | None,
    ) -> BuildResult:
        refused = ""
        if alternates:
            try:
                with self.store.write(together=True) as connection:
                    claim = claims.reclaim(
                        connection, row.uuid, alternates, proof, time.time(), lifetime, actor
                    )
                return {"built": False, "claim": claim}
            except DroverError as problem:
                why = "; ".join(problem.details.get("refusals") or [str(problem)])
                refused = f" Its alternates do not take it: {as_sentence(why)}"
        try:
            with self.store.write(together=True) as connection:
                claims.release(connection, [row.uuid], proof, time.time())
        except DroverError as problem:
            raise DroverError(
                f"{message} Its room is not given back: {problem} To give it back:"
                f" drover.compute.instance_delete -e drover_instance={row.name}",
                uncertain=False,
            ) from problem
        removed = (
            " ".join([*self.left, "All else that was made was removed"])
            if self.left
            else "What was made was removed"
        )
        raise DroverError(
            f"{message} Instance {row.name} could not be built and no alternate is left.{refused}"
            f" {removed} and its room given back: correct the cause and run again.",
            uncertain=False,
        )

    def _prove(self, uuid: str, name: str) -> certainty.StartProof:
        """Prove that the instance may start here.

        If an earlier run has begun its build, it may be on another host by now.
        """
        with self.store.read() as connection:
            row = orders.read(connection, uuid)
        is_new = (
            row is not None
            and self._looked_at is not None
            and (row.created_at or 0) >= self._looked_at
        )
        return self._proofs.prove_new(
            self.host, uuid, name, self._looked_at if is_new else None, self._clock.time()
        )

    def _order_build(
        self, wanted: Mapping[str, object], order: str, proof: certainty.StartProof
    ) -> certainty.Answer:
        """Order the build at the hypervisor."""
        options = {**self._module_arguments(wanted), "order": order}
        answer = starting.order(self.hand, self.host, "domain", options, [proof])
        if answer.outcome == certainty.NOTHING and answer.result.get("links"):
            try:
                options = self._with_links(options, answer.result["links"])
            except DroverError as problem:
                message = str(problem).removeprefix(f"Instance {wanted['name']} on {self.host}: ")
                return dataclasses.replace(answer, message=message)
            answer = starting.order(self.hand, self.host, "domain", options, [proof])
        return answer

    def _module_arguments(self, wanted: Mapping[str, object]) -> dict[str, object]:
        return {**wanted, "state": "running", "timeout": self.timeout, "looked_up": _paths(wanted)}

    def _with_links(self, given: Mapping[str, Any], links: Mapping[Any, Any]) -> dict[str, object]:
        """Return the arguments, after proof that no other instance uses the files behind its links.

        :param links: dict path -> real path, from the answer of the host.
        """
        links = {str(path): str(real) for path, real in links.items()}
        self._refuse_taken(given, links.values())
        return {**given, "looked_up": [*given["looked_up"], *links.values()]}

    def _refuse_taken(
        self, wanted: Mapping[str, Any], paths: Collection[str] | None = None
    ) -> None:
        """Refuse a path that an instance of any host uses."""
        paths = _paths(wanted) if paths is None else paths
        existing = [
            source
            for disk in _existing(wanted["xml"])
            if kinds.of_disk(disk).source is not Source.SERVER and (source := disk["source"])
        ]
        images = [
            each["backing_file"] for each in wanted.get("disks") or () if each.get("backing_file")
        ]
        with self.store.read() as connection:
            used_files.refuse_taken(connection, wanted["uuid"], wanted["name"], self.host, paths)
            used_files.refuse_taken_origins(
                connection, wanted["uuid"], wanted["name"], self.host, _existing(wanted["xml"])
            )
            used_files.refuse_written(connection, wanted["uuid"], wanted["name"], self.host, images)
        # A new file has no user. Only existing files can be taken.
        self._removing.refuse_taken(wanted["uuid"], wanted["name"], self.host, existing)

    def _begin_order(self, wanted: Mapping[str, Any], order: str) -> bool:
        """Open the order. First settle the open order of another run, if there is one.

        :returns: False if the instance is built already.
        """
        uuid, settled = wanted["uuid"], None
        for _dummy in range(TRIES):
            try:
                return self._open_order(uuid, order, settled)
            except orders.OrderOpen as other:
                settled = other.row.order_uuid
                proof, seen = self._withdraw_and_read_host(uuid, wanted.get("uri"), settled)
                if seen is not None and seen["state"] in BUILT:
                    self._record(uuid, settled, seen)
                    return False
                if proof is None and seen is None:
                    raise self._unsettled(wanted["name"], seen, str(other)) from None
        raise self._unsettled(wanted["name"], None, "Other runs build it at the same time.")

    def _open_order(self, uuid: str, order: str, settled: str | None) -> bool:
        with self.store.write(together=True) as connection:
            row = orders.begin(connection, uuid, orders.SPAWNING, order, settled)
            claims.require_claim(row, instances.place(connection, uuid), self.host)
            if row.state == claims.BUILDING:
                return True
            orders.end(connection, uuid, order)
            return False

    def _withdraw_and_read_host(
        self, uuid: str, uri: str | None, order: str
    ) -> tuple[certainty.Proof | None, ReportedDomain | None]:
        """Withdraw an order and look at its host.

        :returns: the Proof that nothing of the instance is there, or None; and the domain that is
            there, or None.
        """
        entry = self.hand.look(uri or DEFAULT_URI, {uuid: [order]}, self.timeout + GRACE)[uuid]
        proof = certainty.is_absent(self.host, entry)
        kept = [] if entry is None else entry.get("kept_disks", [])
        self.left += [
            f"The volume {each['path']} of a build that was cut off stays on {self.host}:"
            f" {each['reason']}."
            for each in kept
        ]
        return proof, None if entry is None or entry["busy"] else entry["domain"]

    def _record(self, uuid: str, order: str, facts: ReportedDomain) -> None:
        """Record the built instance. It runs, even if this record fails."""
        refuse_other_domain(self.host, uuid, facts)
        try:
            with self.store.write(together=True) as connection:
                record_domain.record_built(
                    connection, uuid, self.host, domain.describe(facts), time.time()
                )
                orders.end(connection, uuid, order)
        except DroverError as problem:
            raise UncertainOrder(
                f"Instance {facts['name']} runs on {self.host}, and that could not be written down:"
                f" {problem} Run drover.compute.place again, which looks there and writes it down.",
                host=self.host,
            ) from None

    def _close_order(self, uuid: str, order: str, proof: certainty.Proof) -> None:
        """Close the order, because nothing of the instance is on the host."""
        certainty.require(proof)
        try:
            with self.store.write(together=True) as connection:
                row = orders.end(connection, uuid, order)
                if row is not None and row.state == "active":
                    # A discovery saw it during its build.
                    orders.unseen(connection, uuid, row.compute_node_id)
        except DroverError as problem:
            raise UncertainOrder(f"{problem} {proof.sentence}", host=self.host) from None

    def _unsettled(self, name: str, seen: ReportedDomain | None, message: str) -> DroverError:
        """Return the error of a build with an uncertain end."""
        title = f"Instance {name} on {self.host}: "
        # The sentence of an earlier look has the same end; do not repeat it.
        cause = message.removeprefix(title).partition(UNSETTLED)[0].strip().rstrip(".")
        state = (
            f"It is {seen['state']} there."
            if seen is not None
            else f"{self.host} did not show what is there."
        )
        advice = (
            f"When {self.host} answers, run drover.compute.place again, which goes on with it"
            " there."
        )
        return UncertainOrder(f"{title}{cause}. {UNSETTLED} {state} {advice}", host=self.host)
