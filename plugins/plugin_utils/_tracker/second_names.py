# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The refusal of one machine under two names, because its room would count twice."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ansible_collections.drover.compute.plugins.module_utils._libvirt import machine

from .._common.errors import Answers
from .._store.engine import Connection
from .._store.hosts import compute_nodes, services
from .node import NodeReport


class SecondName(Answers):
    """A host is another host under a second name. It answers, and must not count as dead."""


def refuse(connection: Connection, reports: Mapping[str, Sequence[NodeReport]]) -> None:
    """Refuse a second name of a host, because its room would count twice.

    The other name may be in the store or in this discovery.

    The older name in the store is the right one.

    :raises SecondName: a host has another name than that.
    """
    facts = [
        (host, node["columns"]["facts"])
        for host, nodes in sorted(reports.items())
        for node in nodes
    ]
    uuids = {str(each["host_uuid"]) for _host, each in facts if each.get("host_uuid")}
    identities = compute_nodes.of_machines(connection, uuids)
    own = compute_nodes.identities_in(facts)
    identities.update(own)
    order = services.order(connection, identities)
    for host in own:
        twins = [
            other
            for other in identities
            if other != host and compute_nodes.same_machine(identities[host], identities[other])
        ]
        first = sorted([host, *twins], key=lambda name: (order.get(name, math.inf), name))[0]
        if twins and first != host:
            raise SecondName(_sentence(host, sorted(twins), identities[host]))


def _sentence(host: str, twins: Sequence[str], identity: Mapping[str, Sequence[str]]) -> str:
    other = twins[0]
    return (
        f"Host {host} is the same machine as {' and '.join(twins)}"
        f" ({machine.described(identity['host_uuids'], next(iter(identity['machine_ids']), None))}):"
        f" one machine has one name, or its room counts twice. Nothing of {host} was recorded. Is"
        f" the address of {host} or of {other} wrong, then correct it in the inventory"
        f" (ansible_host), and run drover.compute.discover. Is {host} the new name of {other}: take"
        f" {other} out of the inventory, and run ansible-playbook drover.compute.host_remove -e"
        f" drover_host={other} -e drover_new_name={host}. Is it one machine that is in the"
        f" inventory twice: take one of the names out; if that is {other}, run the same command."
        " Are they two machines that were cloned: give each a host_uuid of its own in"
        " libvirtd.conf (virtqemud.conf) and a machine id of its own (systemd-machine-id-setup),"
        " and restart libvirt."
    )
