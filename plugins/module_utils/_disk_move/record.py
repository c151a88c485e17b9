# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of the move of a disk to another storage, in the metadata of its domain.

Private to the collection. It is written before any file is made. If the move is ended in the
middle, a later call knows the files that the move has made, and its job of libvirt. The record is
never believed over libvirt.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Literal, TypedDict, cast

from .._domain import metadata
from .._libvirt.binding import LibvirtProblem, host_name
from .._ownership.ownership import TEMPORARY
from .._storage.volumes import is_named_for

#: The name of its element below drover's.
ELEMENT = "disk_move"

#: In place of the key of a volume: no volume is the one.
NO_KEY = ""

#: The texts of a record.
_TEXTS = ("host", "target", "source", "destination", "part", "order")


class _Begun(TypedDict):
    host: str
    target: str
    source: str
    destination: str
    #: The copy of a disk that is off, until it is whole.
    part: str
    order: str
    began: float


class Record(_Begun, total=False):
    """The record of the move of a disk.

    ``made`` and ``old``: the device and the inode of a file. ``made_volume`` and ``old_volume``:
    the pool and the name of a volume, and libvirt's key of it, None if it is not known.
    """

    made: list[int] | None
    old: list[int] | None
    made_volume: list[Any] | None
    old_volume: list[Any] | None
    #: The old file is the instance's own because the instance uses it.
    by_use: bool
    #: The reason why the old file is not the instance's own.
    refused: str | None


def read(domain: Any) -> Record | None:
    """Return the record of a domain; None if there is none.

    :raises LibvirtProblem: there is one that cannot be read.
    :raises libvirt.libvirtError: libvirt refuses.
    """
    for place in reversed(metadata.places(domain)):
        text = metadata.text(domain, place, ELEMENT)
        if text:
            return _read_checked(domain, text)
    return None


def write(domain: Any, record: Record) -> None:
    """Write the record: first into the definition, then into the running domain."""
    text = json.dumps(record, sort_keys=True)
    for place in reversed(metadata.places(domain)):
        metadata.change(domain, place, ELEMENT, text)


def clear(domain: Any) -> None:
    """Remove the record: first from the running domain, then from the definition."""
    for place in metadata.places(domain):
        if metadata.text(domain, place, ELEMENT):
            metadata.change(domain, place, ELEMENT, "")


def inode_of(record: Record, name: Literal["made", "old"]) -> tuple[int, int] | None:
    """Return the identity of a file of the record: (device, inode).

    :param name: made or old.
    """
    found = record.get(name)
    return (found[0], found[1]) if found else None


def volume_of(record: Record, name: Literal["made", "old"]) -> tuple[str, str] | None:
    """Return the pool and the name of a volume of the record, None if that is a file.

    :param name: made or old.
    """
    found = record.get("made_volume") if name == "made" else record.get("old_volume")
    return (found[0], found[1]) if found else None


def key_of(record: Record, name: Literal["made", "old"]) -> str | None:
    """Return libvirt's key of a volume of the record."""
    found = record.get("made_volume") if name == "made" else record.get("old_volume")
    return found[2] if found else None


def _read_checked(domain: Any, text: str) -> Record:
    try:
        record = json.loads(text)
    except ValueError:
        record = None
    if isinstance(record, dict) and _is_whole(record, domain.UUIDString()):
        return cast(Record, record)
    raise LibvirtProblem(
        f"{domain.name()} on {host_name()} has a record of a move of a disk that cannot be read, so"
        f" nothing was done. See what became of its disks, then remove the element {ELEMENT} with"
        " virsh edit."
    )


def _is_inode(found: Any) -> bool:
    return found is None or (
        isinstance(found, list) and len(found) == 2 and all(isinstance(each, int) for each in found)
    )


def _is_volume(found: Any) -> bool:
    texts = (
        isinstance(found, list)
        and len(found) == 3
        and all(isinstance(each, str) for each in found[:2])
    )
    return found is None or (texts and isinstance(found[2], (str, type(None))))


def _is_whole(record: Mapping[Any, Any], uuid: str) -> bool:
    if not all(isinstance(record.get(name), str) for name in _TEXTS) or not _is_number(
        record.get("began")
    ):
        return False
    made, old = record.get("made_volume"), record.get("old_volume")
    if (
        not all(_is_inode(record.get(name)) for name in ("made", "old"))
        or not _is_volume(made)
        or not _is_volume(old)
    ):
        return False
    # Every user who may edit a domain may have written it.
    if not old and not os.path.isabs(record["source"]):
        return False
    if made:
        return is_named_for(made[1], uuid)
    folder, name = os.path.split(record["part"])
    paths = all(os.path.isabs(record[each]) for each in ("destination", "part"))
    return paths and folder == os.path.dirname(record["destination"]) and name.startswith(TEMPORARY)


def _is_number(found: Any) -> bool:
    return isinstance(found, (int, float)) and not isinstance(found, bool)
