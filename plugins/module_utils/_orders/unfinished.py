# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The volumes of a build before the domain is defined: one JSON file per instance beside the
records of moves.

Private to the collection. A new block device may have old data, and a clone has the data of its
image. So the content cannot prove that no guest has used the volume. Therefore a build writes the
name of each volume into the file before it makes the volume. A volume in the file was never a disk
of a guest.

The file is removed after the domain is defined. If the order of the build is withdrawn first, the
volumes are removed too: the instance may then be built on another host.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from typing import Any

from .._libvirt.binding import LibvirtProblem, host_name
from .._ownership.move_record import KeptFile
from .._ownership.ownership import Ownership, RemovalCandidate, drop_state
from .._storage import block_volumes
from .records import Records

#: The key of the order of the build. Names of volumes have a slash, so no name is equal to this
#: key.
_ORDER = "order"

#: The mark of a clone of an image, in place of the key of a volume.
CLONE = "clone"


class UnfinishedBuild:
    """The file of one instance. The caller has the lock of the instance.

    :param order: the order of the build that makes volumes now.
    """

    def __init__(self, records: Records, uuid: str, order: str | None = None) -> None:
        self._records, self._uuid, self._order = records, uuid, order
        self._path = os.path.join(records.folder, f"{uuid}.volumes")

    def has(self, place: tuple[str, str], key: str | None) -> bool:
        """Return True if a build has made this volume, and no other program.

        :param place: pool and volume.
        :param key: libvirt's key of the existing volume.
        """
        found = self._read_list()
        # If the file has no key, the build was killed while it made the volume.
        return _name(place) in found and found[_name(place)] in (None, key)

    def is_clone(self, place: tuple[str, str]) -> bool:
        """Return True if a build has begun to make this volume as a clone of an image."""
        return self._read_list().get(_name(place)) == CLONE

    def begin(self, place: tuple[str, str], clone: bool = False) -> None:
        """Record that the build makes a new volume now.

        :param clone: True for a clone of an image. drover never fills a clone, so no data is lost
            if another program has made a volume with this name in the meantime.
        """
        self._write_list(
            {**self._read_list(), _name(place): CLONE if clone else None, _ORDER: self._order}
        )

    def made(self, place: tuple[str, str], key: str | None) -> None:
        """Record the key of a volume that the build has made."""
        self._write_list({**self._read_list(), _name(place): key})

    def define(self) -> None:
        """Record that the domain is defined now. From now on the volumes may be disks of a guest,
        on any host.
        """
        found = self._read_list()
        if found.pop(_ORDER, None) is not None:
            self._write_list(found)

    def drop(self, conn: Any, withdrawn: Collection[str]) -> list[KeptFile]:
        """Remove the volumes of a build if its order was withdrawn before the domain was defined.

        :returns: the volumes that stay, dicts path and reason.
        """
        try:
            volumes = self._read_list()
        except LibvirtProblem as exc:
            return [{"path": self._uuid, "reason": str(exc)}]
        if volumes.pop(_ORDER, None) not in withdrawn:
            return []
        made: list[RemovalCandidate] = []
        kept: list[KeptFile] = []
        for name, key in volumes.items():
            pool, dummy, volume = name.partition("/")
            if block_volumes.is_device(conn, pool):
                if key is not None:
                    made.append(RemovalCandidate(name, by_use=True, volume=(pool, volume), key=key))
                    continue
                reason = (
                    "the build was cut off while it made it, so nothing tells it from one that a"
                    " person has made"
                )
            else:
                reason = (
                    "other hosts have its storage, and the next build of the instance may use it"
                )
            if block_volumes.key_of(conn, pool, volume) is not None:
                kept.append({"path": name, "reason": reason})
        own = Ownership(conn, self._uuid, None, made)
        own.sort_out()
        own.remove(patient=True)
        kept += own.kept
        if not kept:
            self.end()
        return kept

    def end(self) -> None:
        """Remove the file after the domain is defined, or after its volumes are removed."""
        try:
            drop_state(self._path)
        except FileNotFoundError:
            pass

    def _read_list(self) -> dict[str, str | None]:
        try:
            with open(self._path, encoding="utf-8") as handle:
                volumes = json.load(handle)
            if not isinstance(volumes, dict):
                raise ValueError
            return volumes
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as exc:
            why = exc.strerror if isinstance(exc, OSError) else "it is damaged"
            raise LibvirtProblem(
                f"On {host_name()} the list of volumes that a build has made, {self._path}, cannot"
                f" be read ({why}). Look for volumes with {self._uuid} in their names that no"
                " domain has, remove them, and then the file."
            ) from exc

    def _write_list(self, found: dict[str, str | None]) -> None:
        self._records.prepare()
        part = f"{self._path}.{os.getpid()}.part"
        with open(part, "w", encoding="utf-8") as handle:
            json.dump(found, handle)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(part, self._path)


def _name(place: tuple[str, str]) -> str:
    return "/".join(place)
