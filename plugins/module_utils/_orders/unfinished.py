# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The volumes that a build has begun to make for an instance that is not defined yet: one JSON file beside the records of moves.

Private to the collection. A new block device may have old data, and a clone has the data of its image: the content of neither shows that no guest
has used it. So the file names each volume before it is made. A volume that it names was never a disk of a guest.

The file is removed after the domain is defined. If the order of the build is withdrawn first, the
volumes are removed too, as the instance may be built on another host then.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from typing import Any

from .._ownership.ownership import Candidate, Ownership, drop_state
from .._storage import block_volumes
from .records import Records

#: The order of the build, beside the names of volumes, which have a slash.
_ORDER = "order"

#: In place of the key of a volume: it is a clone of an image.
CLONE = "clone"


class Unfinished:
    """The file of one instance. The caller has the lock of the instance.

    :param order: of the build that makes volumes now.
    """

    def __init__(self, records: Records, uuid: str, order: str | None = None) -> None:
        self._records, self._uuid, self._order = records, uuid, order
        self._path = os.path.join(records.folder, f"{uuid}.volumes")

    def has(self, place: tuple[str, str], key: str | None) -> bool:
        """Return True if a build, and nothing else, has made this volume.

        :param place: pool and volume.
        :param key: libvirt's key of the present volume.
        """
        found = self._read()
        # Without a key the build was killed while it made the volume.
        return _name(place) in found and found[_name(place)] in (None, key)

    def is_clone(self, place: tuple[str, str]) -> bool:
        """Return True if a build has begun to make this volume as a clone of an image."""
        return self._read().get(_name(place)) == CLONE

    def begin(self, place: tuple[str, str], clone: bool = False) -> None:
        """A volume, which is not there, is made now.

        :param clone: of an image. It is never filled by us, so nothing is lost where it is another one by now.
        """
        self._write({**self._read(), _name(place): CLONE if clone else None, _ORDER: self._order})

    def made(self, place: tuple[str, str], key: str | None) -> None:
        """It was made."""
        self._write({**self._read(), _name(place): key})

    def define(self) -> None:
        """The domain is defined now. From there on the volumes may be disks of a guest, wherever that goes."""
        found = self._read()
        if found.pop(_ORDER, None) is not None:
            self._write(found)

    def drop(self, conn: Any, withdrawn: Collection[str]) -> list[dict[str, Any]]:
        """Remove the volumes of a build whose order was withdrawn, and whose domain was not defined.

        :returns: the volumes that stay, as dicts path and reason.
        """
        found = self._read()
        if found.pop(_ORDER, None) not in withdrawn:
            return []
        made, kept = [], []
        for name, key in found.items():
            pool, dummy, volume = name.partition("/")
            if block_volumes.is_device(conn, pool):
                if key is not None:
                    made.append(Candidate(name, by_use=True, volume=(pool, volume), key=key))
                    continue
                why = "the build was cut off while it made it, so nothing tells it from one that a person has made"
            else:
                why = "other hosts have its storage, and the next build of the instance may use it"
            if block_volumes.key_of(conn, pool, volume) is not None:
                kept.append({"path": name, "reason": why})
        own = Ownership(conn, self._uuid, None, made)
        own.sort_out()
        own.remove(patient=True)
        kept += own.kept
        if not kept:
            self.end()
        return kept

    def end(self) -> None:
        """The domain is defined, or its volumes were removed."""
        try:
            drop_state(self._path)
        except FileNotFoundError:
            pass

    def _read(self) -> dict[str, str | None]:
        try:
            with open(self._path, encoding="utf-8") as handle:
                found = json.load(handle)
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _write(self, found: dict[str, str | None]) -> None:
        self._records.prepare()
        part = f"{self._path}.{os.getpid()}.part"
        with open(part, "w", encoding="utf-8") as handle:
            json.dump(found, handle)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(part, self._path)


def _name(place: tuple[str, str]) -> str:
    return "/".join(place)
