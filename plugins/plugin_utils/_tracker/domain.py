# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts of a domain in the form of the store."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from ansible_collections.drover.compute.plugins.module_utils._domain.definition import is_written
from ansible_collections.drover.compute.plugins.module_utils._storage import kinds
from ansible_collections.drover.compute.plugins.module_utils._storage.kinds import Source

from .._common import labels, resource_classes, storage_identity
from .._migrations import policy as move_policy
from .._records.instances import Disk, MovePolicy
from .._store.instances.files import Use
from . import checked_facts

# The facts in the column facts; other facts have their own columns.
DOMAIN_FACTS = (
    "disks",
    "running_disks",
    "other_files",
    "interfaces",
    "hostdevs",
    "bindings",
    "numa",
    "next_start_cpus",
    "metadata",
    "managed_save",
    "snapshots",
    "fixed_snapshots",
    "title",
)
GIB = 1024**3


class DomainColumns(TypedDict, total=False):
    """The columns of the table domains."""

    uuid: str
    name: str
    state: str
    persistent: bool
    autostart: bool
    facts: dict[str, Any]
    xml: str | None
    local_disks: bool


class DomainReport(TypedDict):
    """A domain in the form that the tracker records.

    - resources: {class: amount}; DISK_GB is None if a size is not known.
    - metadata: drover's metadata.
    - labels: the labels in the metadata; policy: the move policy there, or None.
    - warnings: sentences for people.
    """

    columns: DomainColumns
    resources: dict[str, Any]
    metadata: dict[str, str]
    labels: dict[str, str]
    policy: MovePolicy | None
    warnings: list[str]


def describe(facts: Any) -> DomainReport:
    """Return the report of a domain of hypervisor_info.

    :raises DroverError: a fact is impossible.
    """
    facts = checked_facts.domain(facts, "Domain")
    metadata = facts.get("metadata") or {}
    label_values, warnings = labels.from_metadata(
        metadata, f"Instance {facts['name']} ({facts['uuid']})"
    )
    return {
        "columns": {
            "uuid": facts["uuid"],
            "name": facts["name"],
            "state": facts.get("state") or "nostate",
            "persistent": bool(facts.get("persistent", True)),
            "autostart": bool(facts.get("autostart", False)),
            "facts": {
                key: facts[key]
                for key in DOMAIN_FACTS
                if facts.get(key) or _is_empty_answer(facts, key)
            },
            "xml": facts.get("xml"),
        },
        "resources": {
            **resource_classes.of_domain(facts),
            "DISK_GB": _disk_gb(storage_identity.all_disks(facts), facts.get("disk_gb")),
            **{
                name: facts[each.key]
                for name, each in resource_classes.DISCOVERED.items()
                if name not in resource_classes.KEYS
                and each.key
                and facts.get(each.key) is not None
            },
        },
        "metadata": metadata,
        "labels": label_values,
        "policy": move_policy.from_metadata(metadata, f"Instance {facts['name']}"),
        "warnings": warnings,
    }


def _is_empty_answer(facts: Mapping[str, object], key: str) -> bool:
    """Return True for an empty fact that says more than a missing one.

    An empty ``fixed_snapshots`` means that no snapshot prevents a move. Empty ``bindings`` mean
    that nothing binds the domain.
    """
    if key == "bindings":
        return facts.get(key) == []
    return key == "fixed_snapshots" and bool(facts.get("snapshots")) and facts.get(key) == []


def needs(domain: DomainReport, node: Mapping[str, object]) -> set[Use]:
    """Return the files that a domain needs, and note if it has local disks.

    :param node: the facts of the node that shows it.
    """
    facts = domain["columns"]["facts"]
    disks = storage_identity.all_disks(facts)
    domain["columns"]["local_disks"] = bool(storage_identity.local_disks(disks, node))
    uses = [(disk, is_written(disk)) for disk in facts.get("disks") or ()]
    uses += [(each, bool(each.get("written"))) for each in facts.get("other_files") or ()]
    needed_uses: set[Use] = set()
    for use, writes in uses:
        path = use.get("path") or (
            use.get("source") if kinds.disk(use.get("type", "file")).is_path else None
        )
        if kinds.of_disk(use).source is Source.FOLDER:
            needed_uses |= {
                (*name, writes)
                for each in (path, use.get("real_path"))
                if each
                for name in _in_folder(each, use.get("shared_id"), node)
            }
            continue
        if path:
            needed_uses.add(
                (path, storage_identity.of_disk(use, node) or use.get("shared_id"), writes)
            )
        elif use.get("source"):
            needed_uses |= {
                (*name, writes) for name in storage_identity.names_on_network(use, node)
            }
        needed_uses |= {(name, None, False) for name in use.get("behind_on_network") or ()}
        # Through links it is a file that others may have under another name.
        names = [(use.get("real_path"), use)]
        names += [
            (layer.get(key), layer)
            for layer in use.get("chain") or ()
            for key in ("path", "real_path")
        ]
        for name, file in names:
            if name and name != path:
                needed_uses.add(
                    (
                        name,
                        storage_identity.of_path(name, node) or file.get("shared_id"),
                        writes and file is use,
                    )
                )
    return needed_uses


def _in_folder(
    folder: str, shared_id: str | None, node: Mapping[str, object]
) -> list[tuple[str, str | None]]:
    """Return the names in store.files for all files in a folder and in mounts below it.

    A name is (path, identity or None); both end with a slash.
    """
    identity = storage_identity.of_folder(folder, node) or (
        shared_id and storage_identity.as_folder(shared_id)
    )
    return [
        (storage_identity.as_folder(folder), identity),
        *storage_identity.shares_in(folder, node),
    ]


def _disk_gb(disks: Iterable[Disk], reported: int | None) -> int | None:
    """Return the sum of the virtual sizes of the writable disks in GiB, rounded up once.

    A disk on the network or on its own device takes no storage of the host. It is None if a size is
    not known.
    """
    if reported is not None:
        return reported
    sizes = [
        disk.get("capacity_bytes")
        for disk in disks
        if disk.get("device", "disk") == "disk"
        and not disk.get("readonly")
        and disk.get("source")
        and kinds.of_disk(disk).takes_space
    ]
    return None if None in sizes else math.ceil(sum(size or 0 for size in sizes) / GIB)
