# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances of a dead host can be started elsewhere, and where.

Data in, data out.
"""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils import storage_identity
from ansible_collections.drover.compute.plugins.plugin_utils.planner.drain import plan_drain

#: States of a domain that ran when its host died: what was in memory is lost, the instance is to run.
RAN = ("running", "blocked", "paused", "pmsuspended", "nostate")

#: Why an instance is not started on a host that lacks some of its disks.
BLIND = "does not see all of its storage"


def files_of(disks):
    """The files and block devices of a domain's disks that a host must have to start it."""
    return [disk["source"] for disk in disks if disk.get("source") and disk.get("type") in ("file", "block", "dir")]


def images_of(disks, node, there):
    """What the destination has to find as it was: a list of dicts for module domain_restart.

    :param disks: of a domain's facts.
    :param node: the storage of the node that it was on; :param there: that of its destination.
    """
    known = {image["path"]: image["digest"] for image in node.get("images") or ()}
    found = []
    for disk in disks:
        if not disk.get("source") or disk.get("type") == "network":
            continue
        behind = None
        if disk.get("chain") is not None:
            behind = [
                {
                    "path": layer["path"],
                    "shared": _is_same(layer["path"], node, there),
                    "digest": known.get(layer["path"]),
                }
                for layer in disk["chain"]
            ]
        found.append({"target": disk.get("target"), "identity": share_of(disk, there), "behind": behind})
    return found


def _is_same(path, node, there):
    share = storage_identity.of_path(path, node)
    return share is not None and share == storage_identity.of_path(path, there)


def share_of(disk, node):
    """The id of the shared storage that a disk is on, as a node sees it; None where the node does not.

    :param disk: a disk of a domain's facts: type, source.
    :param node: facts of a node, as store.files.storage_of() has them.
    """
    return storage_identity.of_disk(disk, node)


def why_lost(instance, node):
    """Why no other host can start an instance, in words; None when one may.

    :param instance: as store.evacuations.instances() returns it.
    :param node: the storage of the node that it was on.
    """
    state = instance["state"]
    if state == "building":
        return "it was only being built: its claim is given back, place it again"
    if state == "missing":
        return "its host no longer showed it before it died; find out where it is"
    if not instance["xml"]:
        return "the store has no XML of it; define it elsewhere by hand"
    local = [
        disk["source"] for disk in instance["disks"] if disk.get("source") and disk.get("type") != "network" and not share_of(disk, node)
    ]
    if local:
        return f"its disk {', '.join(local)} is on the dead host alone; it waits there, untouched"
    if instance["hostdevs"]:
        names = ", ".join(f"{each.get('type')} {each.get('address')}" for each in instance["hostdevs"])
        return f"it uses devices of the dead host ({names}); define it elsewhere by hand without them"
    if instance["managed_save"]:
        return "its saved memory image (managed save) is on the dead host alone; it waits there, untouched"
    return None


def blind_nodes(instance, node, nodes):
    """The providers of nodes that do not see all storage of an instance.

    :param nodes: dict provider uuid -> storage, of the whole fleet.
    """
    needs = [(disk, share_of(disk, node)) for disk in instance["disks"] if disk.get("source") and disk.get("type") != "network"]
    return [provider for provider, other in nodes.items() if any(share_of(disk, other) != share for disk, share in needs)]


def plan_evacuation(columns, instances, host, policy, nodes, excluded):
    """A destination for each instance of a dead host that has one.

    :param columns: as plan_drain() takes them.
    :param instances: instances that may be started elsewhere, all of one priority.
    :param policy: the scheduler's Policy.
    :param nodes: dict provider uuid -> storage, of the whole fleet.
    :param excluded: dict instance uuid -> {provider where a start has failed: why, in words}.
    :returns: (moves [{uuid, name, host, node, provider}] by name, stuck [{uuid, name, reason}]).
    """
    own = {each["node"]: each for each in nodes.values() if each["host"] == host}
    barred = {
        each["uuid"]: {**dict.fromkeys(blind_nodes(each, own[each["node"]], nodes), BLIND), **excluded.get(each["uuid"], {})}
        for each in instances
    }
    # Nothing of them runs, so nothing keeps them but what why_lost() has seen to. Their disks are there already, but what they hold
    # of them is claimed anew where they do not hold it of a sharing provider.
    free = {
        "state": "shutoff",
        "move_policy": None,
        "move_policy_error": None,
        "snapshots": False,
        "managed_save": False,
        "persistent": True,
        "backs": [],
    }
    off = [{**each, **free} for each in instances]
    plan = plan_drain(columns, off, host, policy, None, barred)
    moves = sorted(plan["moves"], key=lambda move: (move["name"], move["uuid"]))
    stuck = [{"uuid": each["uuid"], "name": each["name"], "reason": each["reason"]} for each in plan["unmovable"]]
    return moves, stuck
