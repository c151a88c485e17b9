# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The removal, renaming and exchange of hosts, in the caller's transaction.

A host leaves only if the store has nothing on it, because its records may be the last trace of an
instance.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from .._common.errors import DroverError, some
from .._placement import allocations, provider_trees, providers
from .._store.engine import Connection
from .._store.hosts import aggregates, compute_nodes, host_names, rolling, services, storage_fences
from .._store.instances import evacuations, instances, migrations_open
from .._store.runs import leases
from . import record, retirement


def remove(connection: Connection, host: str, now: float) -> dict[str, Any]:
    """Remove a host, if the store has nothing on it.

    :returns: nodes (names), aggregates (names), evacuated (names of instances with an old
        definition that its disks may still have).
    :raises DroverError: the store has something on it, or work on it is under way.
    """
    services.get(connection, host)
    there = instances.listing(connection, host=host)
    lost = there[0]["uuid"] if there else ""
    names = [each["name"] for each in there] or (
        ["room that is claimed there"] if _has_allocations(connection, host) else []
    )
    _refuse_change(host, "not removed", names, _under_way(connection, host), lost)
    nodes = sorted(node for dummy, node in compute_nodes.by_host(connection, [host]))
    evacuated = sorted({each["name"] for each in evacuations.left_behind(connection, [host])})
    aggregates_left = aggregates.leave(connection, host)
    record.withdraw(connection, host, now)
    if compute_nodes.by_host(connection, [host]):
        raise DroverError(
            f"Host {host} was not removed: something is still allocated on its compute nodes."
            " drover.compute.audit names it, with the command."
        )
    return {"nodes": nodes, "aggregates": aggregates_left, "evacuated": evacuated}


def rename(connection: Connection, host: str, new_name: str) -> dict[str, object]:
    """Give a host another name, with all its records.

    :returns: instances: their number.
    :raises DroverError: the new name belongs to another machine or has instances, or work is under
        way.
    """
    services.get(connection, host)
    if not new_name.strip() or new_name == host:
        raise DroverError(
            f"Host {host} was not renamed: its new name is {new_name!r}. Give the name that the"
            " inventory has for it now."
        )
    _refuse_change(host, "not renamed", [], _under_way(connection, host))
    if services.order(connection, [new_name]):
        _take_over(connection, host, new_name)
    host_names.rename(connection, host, new_name)
    return {"instances": len(instances.listing(connection, host=new_name))}


def refuse_exchange(connection: Connection, host: str, shown: Collection[str]) -> None:
    """Refuse an exchange of the machine of a host if the new machine lacks a domain of the store.

    :param shown: the uuids of the domains of the new machine.
    :raises DroverError: an instance would be lost, or could run twice.
    """
    missing = [
        each["name"]
        for each in instances.listing(connection, host=host)
        if each["uuid"] not in shown
    ]
    _refuse_change(host, "not replaced", missing, _under_way(connection, host))


def _take_over(connection: Connection, host: str, new_name: str) -> None:
    """Remove the records of an earlier discovery under the new name.

    :raises DroverError: that name is another machine, or has instances or allocations.
    """
    both = compute_nodes.identities(connection, [host, new_name])
    if compute_nodes.by_host(connection, [new_name]):
        if not compute_nodes.same_machine(both.get(host), both.get(new_name)):
            raise DroverError(
                f"Host {host} was not renamed: {new_name} is in the store, and is another machine."
                f" To take {host} out of the store, leave the new name out."
            )
        names = [each["name"] for each in instances.listing(connection, host=new_name)]
        if names or _has_allocations(connection, new_name):
            raise DroverError(
                f"Host {host} was not renamed: {new_name} is the same machine, and the store has"
                f" {some(names) or 'room that is taken'} under that name. drover.compute.audit"
                f" names what is where. Take {new_name} out of the inventory, run"
                " drover.compute.discover, then rename again."
            )
    aggregates.leave(connection, new_name)
    nodes = compute_nodes.by_host(connection, [new_name])
    retirement.retire(connection, nodes)
    services.remove_without_nodes(connection, [new_name])


def _refuse_change(
    host: str, what: str, on_it: Sequence[str], under_way: Sequence[str], lost: str = ""
) -> None:
    sentences = list(under_way)
    if on_it and what == "not removed":
        sentences.append(
            f"the store has {some(on_it)} on it. Move its instances with drover.compute.drain,"
            " restart them elsewhere with drover.compute.evacuate if the host is dead, or delete"
            " them with drover.compute.instance_delete"
            + (
                ". Of one that was lost with the machine, such as "
                f'{on_it[0]}: ansible localhost -m drover.compute.allocation -a \'{{"state":'
                f' "released", "instances": ["{lost}"]}}\''
                if lost
                else " (drover.compute.audit names what is claimed)"
            )
        )
    elif on_it:
        sentences.append(
            f"the store has {some(on_it)} on it, and the machine that answers does not show"
            f" {'it' if len(on_it) == 1 else 'them'}. Put the disks of the old machine into the new"
            " one, and define its guests there; or, if the old machine is off for good, take the"
            " new one off the network and run drover.compute.evacuate first, and release what was"
            " lost (docs/hosts.md)"
        )
    if sentences:
        raise DroverError(
            f"Host {host} was {what}: {'; '.join(sentences)}. Nothing was changed.",
            instances=list(on_it),
        )


def _has_allocations(connection: Connection, host: str) -> bool:
    """Return True if an instance, a claim or an open move has something allocated on the host.

    Allocations of evacuated instances do not count.
    """
    by_uuid = providers.ids(
        connection, [node.uuid for node in compute_nodes.by_host(connection, [host]).values()]
    )
    trees = provider_trees.trees(connection, by_uuid.values())
    used = allocations.used_providers(connection, {*by_uuid.values()}.union(*trees.values()))
    return bool(used) and not evacuations.left_behind(connection, [host])


def _under_way(connection: Connection, host: str) -> list[str]:
    """Return the work that must end first, each with its command."""
    nodes = [node.id for node in compute_nodes.by_host(connection, [host]).values()]
    moves = [row for row in migrations_open.holding_at(connection, nodes) if row.status != "done"]
    sentences = [
        f"{each['name']} is held by {each['holder']} ({each['purpose']})"
        for each in leases.read(connection)
        if each["name"] == host
    ]
    sentences += [
        f"the {row.type} of {row.instance_name} from {row.source} to {row.destination} is open: "
        f"{migrations_open.how_to_end(row.details, row.destination) if row.status == 'finished' else 'run the command again that began it'}"
        for row in moves
    ]
    if any(each["host"] == host and each["stage"] != "done" for each in rolling.read(connection)):
        sentences.append(
            "a rolling maintenance with it is open: run drover.compute.rolling_maintenance again,"
            " or drover.compute.undrain"
        )
    sentences += [
        f"it is shut out of shared storage by {each['fence']}: lift that first"
        " (drover.compute.undrain)"
        for each in storage_fences.read(connection, host)
    ]
    return sentences
