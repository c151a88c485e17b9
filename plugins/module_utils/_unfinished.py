# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The volumes that a build has begun to make for an instance that is not defined yet: one JSON file beside the records of moves.

Private to the collection. Of a volume that is a block device its content does not tell that it is new. One that is in this file, which is
written before the volume is made, was never a disk of a guest: a build that was killed left it. Nor does it of a clone, which shows the data of
its image. Whoever sees the domain removes the file.
"""

from __future__ import annotations

import json
import os

from ansible_collections.drover.compute.plugins.module_utils._migration.record import Records
from ansible_collections.drover.compute.plugins.module_utils._ownership import drop_state

#: In place of the key of a volume: it is a clone of an image.
CLONE = "clone"


class Unfinished:
    """The file of one instance. The caller has the lock of the instance."""

    def __init__(self, records: Records, uuid: str) -> None:
        self._records, self._path = records, os.path.join(records.folder, f"{uuid}.volumes")

    def has(self, place: tuple[str, str], key: str | None) -> bool:
        """Whether a build has made this volume, and nothing else.

        :param place: pool and volume.
        :param key: libvirt's key of the volume that is there.
        """
        found = self._read()
        # Without a key the build was killed while it made the volume.
        return _name(place) in found and found[_name(place)] in (None, key)

    def is_clone(self, place: tuple[str, str]) -> bool:
        """Whether a build has begun to make this volume as a clone of an image."""
        return self._read().get(_name(place)) == CLONE

    def begin(self, place: tuple[str, str], clone: bool = False) -> None:
        """A volume, which is not there, is made now.

        :param clone: of an image. It is never filled by us, so nothing is lost where it is another one by now.
        """
        self._write({**self._read(), _name(place): CLONE if clone else None})

    def made(self, place: tuple[str, str], key: str | None) -> None:
        """It was made."""
        self._write({**self._read(), _name(place): key})

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
