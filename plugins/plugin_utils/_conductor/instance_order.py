# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The frame of a run that changes an instance on its host by an order.

The order is in the store before the hypervisor gets it. It is closed when the host shows the
result. Until then the next run withdraws it, reads the host and continues.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from .._common.errors import DroverError, UncertainOrder, as_sentence
from .._records.domains import ReportedDomain
from .._records.instances import NamedInstance
from .._store.hosts.compute_nodes import DEFAULT_URI
from .._store.instances import instance_lookup, orders
from .._store.runs import leases
from .._tracker import record_device
from .ports import Hand, Ports
from .removing import Removing


class InstanceOrder:
    """A run that changes an instance on its host."""

    def __init__(self, ports: Ports, check_mode: bool) -> None:
        self._store, self._hosts, self._leasing = ports.store, ports.hosts, ports.leasing
        self._clock, self._say, self._own = ports.clock, ports.say, ports.own
        self._removing, self._check_mode = Removing(ports), check_mode

    def _read_instance(self, wanted: Any) -> NamedInstance:
        with self._store.read() as connection:
            (instance,) = instance_lookup.find(connection, [wanted])
        return instance

    def _instance_with_domain(self, wanted: Any, not_done: str, order: str) -> NamedInstance:
        """Return an instance that the run may change, and that has a domain on a host.

        :param not_done: the consequence of a refusal.
        :param order: the task state of an open order that the run continues.
        """
        instance = self._read_instance(wanted)
        instance_lookup.refuse(instance, not_done, order=order)
        if instance["state"] == "missing":
            raise DroverError(
                f"Instance {instance['name']} is missing: {instance['host']} no longer shows its"
                f" domain. {not_done}: find out where it is with drover.compute.discover."
            )
        return instance

    def _lease(
        self, host: str, purpose: str, seconds: int = leases.SECONDS
    ) -> contextlib.AbstractContextManager[None]:
        """Hold the lease of the host, but not in check mode."""
        if self._check_mode:
            return contextlib.nullcontext()
        return self._leasing.held([host], purpose, seconds)

    def _withdraw(
        self,
        hand: Hand,
        instance: NamedInstance,
        withdrawn: str,
        patience: int,
        unknown: Callable[[str], str],
    ) -> ReportedDomain | None:
        """Withdraw an order, and read the present domain of the instance.

        :param patience: seconds to wait for a running call.
        :param unknown: returns the sentence of a failure from its reason.
        :returns: the facts of its domain; None if its host has no such domain.
        :raises DroverError: the host does not show it.
        """
        uri = instance["uri"] or DEFAULT_URI
        entry = hand.look(uri, {instance["uuid"]: [withdrawn]}, patience)[instance["uuid"]]
        if entry is None or entry["busy"]:
            reason = (
                "its host does not answer" if entry is None else "another call still works on it"
            )
            raise UncertainOrder(unknown(reason), host=instance["host"])
        return entry["domain"]

    def _close(
        self,
        instance: NamedInstance,
        host: str,
        order: str | None,
        facts: ReportedDomain | None,
    ) -> None:
        """Close the order, and record the domain on the host.

        :param order: None without an order.
        :param facts: None if the domain is gone; then the next discovery finds it.
        """
        if facts is not None:
            refuse_other_domain(host, instance["uuid"], facts)
        with self._store.write() as connection:
            if order is not None:
                orders.end(connection, instance["uuid"], order)
            if facts is not None:
                record_device.record_devices(
                    connection, instance["uuid"], host, facts, self._clock.time()
                )


def named_domain(instance: NamedInstance) -> dict[str, object]:
    """Return the arguments of a module that name the domain of an instance."""
    return {
        "uri": instance["uri"] or DEFAULT_URI,
        "uuid": instance["uuid"],
        "name": instance["name"] if instance["named"] else None,
    }


def refuse_moved(instance: NamedInstance, host: str, not_done: str) -> None:
    """Refuse an instance that left the host before the run had the lease of the host.

    :param not_done: the consequence.
    """
    if instance["host"] != host:
        raise DroverError(
            f"Instance {instance['name']} has moved from {host} to {instance['host']}. {not_done}:"
            " run this again."
        )


def refuse_other_domain(host: str, uuid: str, facts: ReportedDomain) -> None:
    """Refuse an answer of a host about another domain than the one of the order."""
    if facts.get("uuid") != uuid:
        raise UncertainOrder(
            f"{host} answered about the domain {facts.get('uuid')} where {uuid} was meant, so what"
            " is there is not known. See what is wrong there: its libvirt, or who is root on it.",
            host=host,
        )


def sentence_on(name: str, host: str | None, message: str) -> str:
    """Return the sentence on a failed instance. Many messages already contain its name."""
    text = as_sentence(message)
    return text if text.startswith(f"{name} ") else f"Instance {name} on {host}: {text}"


def sentence_of(instance: NamedInstance, message: str) -> str:
    """Return the sentence on a failed instance on its own host."""
    return sentence_on(instance["name"], instance["host"], message)
