# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The instances of a dead host that other hosts can start, and their destinations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.drover.compute.plugins.module_utils._storage import kinds
from ansible_collections.drover.compute.plugins.module_utils._storage.kinds import Source

from .._common import storage_identity
from .._records.hosts import FleetColumns, NodeStorage, StorageOfNode
from .._records.instances import Disk, EvacuatedInstance, PlannedInstance
from .._records.plans import DrainMove, StayingInstance
from .._scheduler.policy import Policy
from .drain import plan_drain

#: States of a domain that ran when its host died: its memory is lost, and the instance is started.
RAN = ("running", "blocked", "paused", "pmsuspended", "nostate")

#: The reason to exclude a host that does not see all disks of an instance.
BLIND = "does not see all of its storage"


def files_of(disks: Iterable[Disk]) -> list[str]:
    """Return the files and block devices that a host needs to start a domain with these disks."""
    return [
        source for disk in disks if (source := disk.get("source")) and kinds.of_disk(disk).is_path
    ]


def images_of(disks: Iterable[Disk], node: NodeStorage, there: NodeStorage) -> list[dict[str, Any]]:
    """Return the images that the destination must find unchanged, in the form that the module
    _domain_restart takes.

    :param node: the storage of the source.
    :param there: the storage of the destination.
    """
    digests = {image["path"]: image["digest"] for image in node.get("images") or ()}
    images = []
    for disk in disks:
        if not disk.get("source") or kinds.of_disk(disk).source is Source.SERVER:
            continue
        behind = None
        chain = disk.get("chain")
        if chain is not None:
            behind = [
                {
                    "path": layer["path"],
                    "shared": _is_same(layer["path"], node, there),
                    "digest": digests.get(layer["path"]),
                }
                for layer in chain
            ]
        images.append(
            {
                "target": disk.get("target"),
                "identity": storage_identity.of_disk(disk, there),
                "behind": behind,
            }
        )
    return images


def _is_same(path: str, node: NodeStorage, there: NodeStorage) -> bool:
    share = storage_identity.of_path(path, node)
    return share is not None and share == storage_identity.of_path(path, there)


def why_lost(instance: EvacuatedInstance, node: NodeStorage) -> str | None:
    """Return the reason why no other host can start an instance, None if a host can.

    :param node: the storage of the source.
    """
    state = instance["state"]
    if state == "building":
        return "it was only being built: its claim is given back, place it again"
    if state == "missing":
        return "its host no longer showed it before it died; find out where it is"
    if not instance["xml"]:
        return "the store has no XML of it; define it elsewhere by hand"
    local = storage_identity.local_disks(instance["disks"], node)
    if local:
        return f"its disk {', '.join(local)} is on the dead host alone; it waits there, untouched"
    if instance["own_devices"]:
        names = ", ".join(
            f"{each.get('type')} {each.get('address')}" for each in instance["own_devices"]
        )
        return (
            f"it uses devices of the dead host that no claim gave it ({names}); define it elsewhere"
            " by hand without them"
        )
    bound = [
        each["what"]
        for each in instance.get("bindings") or ()
        if each["evacuation"] == "lost" and each["only"] != "running"
    ]
    if bound:
        return f"{'; '.join(bound)}; define it elsewhere by hand without that"
    if instance["managed_save"]:
        return (
            "its saved memory image (managed save) is on the dead host alone; it waits there,"
            " untouched"
        )
    return None


def blind_nodes(
    instance: PlannedInstance, node: NodeStorage, nodes: Mapping[str, NodeStorage]
) -> list[str]:
    """Return the nodes (provider uuids) that do not see all storage of an instance.

    :param node: the storage of the source.
    :param nodes: the storage of all nodes, by provider uuid.
    """
    needs = [
        (disk, storage_identity.of_disk(disk, node))
        for disk in instance["disks"]
        if disk.get("source") and kinds.of_disk(disk).source is not Source.SERVER
    ]
    return [
        provider
        for provider, other in nodes.items()
        if any(storage_identity.of_disk(disk, other) != share for disk, share in needs)
    ]


def as_shut_off(instances: Iterable[PlannedInstance]) -> list[PlannedInstance]:
    """Return the instances as a dead host leaves them: none of them runs, and only why_lost()
    decides if another host can start one.
    """
    return [
        {
            **each,
            "state": "shutoff",
            "task_state": None,
            "move_policy": None,
            "move_policy_error": None,
            "snapshots": False,
            "fixed_snapshots": [],
            "managed_save": False,
            "bindings": [],
            "persistent": True,
            "backs": [],
        }
        for each in instances
    ]


def plan_evacuation(
    columns: FleetColumns,
    instances: Sequence[PlannedInstance],
    host: str,
    policy: Policy,
    nodes: Mapping[str, StorageOfNode],
    excluded: Mapping[str, Mapping[str, str]],
) -> tuple[list[DrainMove], list[StayingInstance]]:
    """Plan destinations for instances of a dead host; return the moves by name, and the instances
    without a destination.

    :param instances: the instances that other hosts may start, all of one priority.
    :param nodes: the storage of all nodes, by provider uuid.
    :param excluded: {instance uuid: {provider on which its start failed: the reason}}.
    """
    own = {each["node"]: each for each in nodes.values() if each["host"] == host}
    barred: dict[str, Collection[str]] = {
        each["uuid"]: {
            **dict.fromkeys(blind_nodes(each, own[each["node"]], nodes), BLIND),
            **excluded.get(each["uuid"], {}),
        }
        for each in instances
    }
    off = as_shut_off(instances)
    plan = plan_drain(columns, off, host, policy, None, barred)
    moves = sorted(plan["moves"], key=lambda move: (move["name"], move["uuid"]))
    stuck: list[StayingInstance] = [
        {"uuid": each["uuid"], "name": each["name"], "reason": each["reason"]}
        for each in plan["unmovable"]
    ]
    return moves, stuck
