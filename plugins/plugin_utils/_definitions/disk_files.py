# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of instances' disks: their names in a definition, and their default names."""

from __future__ import annotations

import posixpath
import re
import string
from collections.abc import Iterable, Sequence
from typing import Any

from .._common.errors import DroverError
from .definition import Resolved

SEED = "-seed.iso"


def normal(path: str) -> str:
    """Return a path in the one spelling that all its spellings have in common."""
    return posixpath.normpath(re.sub("^/+", "/", path))


def base(name: str, uuid: str) -> str:
    """Return the prefix of the names of an instance's files in the folder of instances. The role
    place uses the same prefix.
    """
    return f"{re.sub('[^A-Za-z0-9._-]', '_', name)}-{uuid[:8]}"


def by_default(path: str, target: str) -> str:
    """Return the path of a disk that has no path in its definition.

    :param path: the folder with base() at its end.
    """
    return f"{path}-{target}.qcow2"


def targets(disks: Iterable[Any]) -> list[tuple[str, Any]]:
    """Return the disks with their targets: (vda, first disk) and so on."""
    return [(f"vd{letters(number)}", disk) for number, disk in enumerate(disks)]


def letters(number: int) -> str:
    """Return the letters behind the name of a device, as Linux and libvirt count: a to z, then aa.

    :param number: from 0.
    """
    text = ""
    while number >= 0:
        number, letter = divmod(number, len(string.ascii_lowercase))
        text, number = string.ascii_lowercase[letter] + text, number - 1
    return text


def refuse_borrowed(instances: Sequence[Resolved]) -> None:
    """Refuse a disk with a path that is the default name of another instance's file.

    The folder of that file depends on its host, so only the name of the file is compared.

    :param instances: definitions with their uuids.
    :raises DroverError: a disk has such a path.
    """
    owners = {}
    for instance in instances:
        first = base(instance["name"], instance["uuid"])
        names = [
            by_default(first, target)
            for target, disk in targets(instance["disks"])
            if not (disk.get("path") or disk.get("source"))
        ]
        owners.update(dict.fromkeys([*names, first + SEED], instance))
    for instance in instances:
        for number, disk in enumerate(instance["disks"], 1):
            owner = (
                owners.get(posixpath.basename(normal(disk["path"]))) if disk.get("path") else None
            )
            if owner is not None:
                whose = "the same instance" if owner is instance else f"instance {owner['name']}"
                raise DroverError(
                    f"Instance {instance['name']}, disk {number}: {disk['path']} is what a file of"
                    f" {whose} is called by itself. Give the disk another path, or none. Nothing"
                    " was placed."
                )
