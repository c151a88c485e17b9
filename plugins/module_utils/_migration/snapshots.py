# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check that an instance can move with its snapshots.

Private to the collection. It can if all of them are external and without memory, and the
destination sees all their images. Their records go along, see module _snapshots.records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._domain import carried_snapshots
from .._files import access
from .._libvirt.binding import LibvirtProblem
from .._ownership.needs import look
from .._snapshots import records
from .._snapshots import snapshots as _snapshots
from .._snapshots.snapshots import Snapshot
from .._storage import backing
from .storage import Storage

#: Why a snapshot stays where it is, by its kind.
_FIXED = {
    _snapshots.INTERNAL: "is in the image of the disk",
    _snapshots.WITH_MEMORY: "has the memory of the guest",
}


def reasons(domain: Any, storage: Storage) -> list[str]:
    """Return the reasons against a move with the snapshots of a domain; ``storage`` knows by now
    how each file moves.
    """
    snapshots = _snapshots.read(domain)
    found = _kind_reasons(domain.name(), snapshots)
    if found or not snapshots:
        return found
    if len(records.document(snapshots).encode()) > carried_snapshots.MOST:
        return [
            f"libvirt's records of its {len(snapshots)} snapshots are more than libvirt takes"
            f" along: delete some. {_way_out(domain.name(), snapshots)}"
        ]
    return _copied_reasons(domain.name(), snapshots, storage) + _file_reasons(snapshots, storage)


def _kind_reasons(name: str, snapshots: Sequence[Snapshot]) -> list[str]:
    fixed = [each for each in snapshots if each.kind in _FIXED]
    if not fixed:
        return []
    told = ", ".join(f"{each.name}, which {_FIXED[each.kind]}" for each in reversed(fixed))
    return [
        f"it has the snapshot{'s' if len(fixed) > 1 else ''} {told}, with which libvirt moves"
        f" nothing: {_way_out(name, fixed)}"
    ]


def _way_out(name: str, snapshots: Sequence[Snapshot]) -> str:
    """Return the words for the deletion of snapshots, the newest first."""
    return (
        f"delete {'each' if len(snapshots) > 1 else 'it'}, such as with"
        f" drover.compute.instance_snapshot -e drover_instance={name} -e"
        f" drover_snapshot_state=absent -e drover_snapshot_name={snapshots[-1].name}, which keeps"
        " what the guest has"
    )


def _copied_reasons(name: str, snapshots: Sequence[Snapshot], storage: Storage) -> list[str]:
    """Return reasons in copied disks with snapshots: a copy has all of a disk in one image, and
    nothing to go back to.
    """
    sentences = []
    for entry in storage.copied("disk"):
        of_disk = [each for each in snapshots if entry["target"] in each.bases]
        if of_disk:
            names = ", ".join(each.name for each in of_disk)
            sentences.append(
                f"its disk {entry['path']} is on storage of this host only, and a copy of it would"
                f" not have its snapshot{'s' if len(of_disk) > 1 else ''} {names}: move the disk to"
                f" shared storage, or {_way_out(name, of_disk)}"
            )
    return sentences


def _file_reasons(snapshots: Sequence[Snapshot], storage: Storage) -> list[str]:
    """Return reasons in images that only a record names, such as an image that a revert has kept:
    the destination must see them too.
    """
    sentences = []
    named: dict[str, str] = {}
    for each in snapshots:
        for path in [*(base for base, dummy in each.bases.values()), *each.overlays.values()]:
            named.setdefault(path, each.name)
    for entry in storage.files:
        for path in (entry["path"], *entry["backing"]):
            # The check of the disks looks at these images.
            named.pop(path, None)
    for path, name in sorted(named.items()):
        if not path:
            continue
        try:
            if look(path).status is not None and not storage.same.file(path):
                sentences.append(
                    f"the image {path} of its snapshot {name} is on storage that {storage.where}"
                    " does not see: mount that there, or delete the snapshot"
                )
        except (OSError, access.Unresponsive) as exc:
            sentences.append(
                f"the image {path} of its snapshot {name} cannot be looked at"
                f" ({backing.reason_of(exc)})"
            )
        except LibvirtProblem as exc:
            sentences.append(f"the image {path} of its snapshot {name}: {exc}")
    return sentences
