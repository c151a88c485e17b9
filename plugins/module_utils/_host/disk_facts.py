# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files that domains use, the images behind them, and the storage of all these files.

Private to the collection. Other hosts need these facts when this host is dead, and before they
remove a file of it.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Sequence
from typing import Any

from .._bindings import gone
from .._domain.facts import BindingFacts, DiskLayer, DomainDisk, OtherFile
from .._files import access, block_devices, digests
from .._files.mounts import Mount
from .._storage import backing, kinds
from .._storage.kinds import Form, Source
from .._storage.shared_storage import real_path_id
from .facts import HostDomain, ImageDigest, Pool

#: Seconds that one discovery spends on reading images for their digests; the next one continues
#: from there.
READING = 20

#: States of a guest that has its files open.
RUNNING = ("running", "blocked", "paused", "pmsuspended")

#: The mode of a file that does not exist.
GONE = 0


def _disks(domain: HostDomain) -> list[DomainDisk]:
    return [*domain["disks"], *domain.get("running_disks", ())]


def _place_of(path: str, kind: str, mounts: Sequence[Mount]) -> tuple[str | None, str, int | None]:
    """Return (the text of its storage or None, its real path, the mode of the file or None; GONE if
    nothing exists).
    """
    real = access.real_path(path)
    try:
        mode: int | None = os.stat(real).st_mode
    except FileNotFoundError:
        mode = GONE
    except OSError:
        mode = None
    identity = (
        block_devices.identity(path)
        if kinds.disk(kind).source is Source.DEVICE or (mode is not None and stat.S_ISBLK(mode))
        else None
    )
    return f"device:{identity}" if identity else real_path_id(real, mounts), real, mode


class DiskFacts:
    """Adds to the facts of domains' disks and other files.

    :param mounts: the mounts of this host, as read_mounts() returns them.
    :param pools: its storage pools, as read_pools() returns them.
    :param declared: names of the pools that are shared by the operator's word.
    :param conn: libvirt of this host.
    """

    def __init__(
        self,
        mounts: Sequence[Mount],
        pools: Iterable[Pool],
        conn: Any,
        declared: Iterable[str] = (),
    ) -> None:
        self._mounts, self._conn = mounts, conn
        # The guests of libvirt's test driver have disks in their definitions only.
        self._has_files = conn is not None and conn.getType() != "TEST"
        self._folders = {
            pool["name"]: pool["path"]
            for pool in pools
            if kinds.of_pool(pool).form is Form.FOLDER and pool["path"]
        }
        self._declared = [
            os.path.normpath(self._folders[name]) for name in declared if name in self._folders
        ]
        self._places: dict[str, tuple[str | None, str | None, int | None]] = {}
        self._references: backing.Known = {}
        # The files behind an image, as far as they are known.
        self._behind: dict[str, list[str]] = {}
        # The images of this host alone that are behind disks, and whether one of these is on shared
        # storage.
        self._local: dict[str, bool] = {}

    def add_domains(self, domains: Sequence[HostDomain]) -> None:
        """Add to the disks and other files of domains, as add() does.

        An other file that is a folder gets the type dir. Files that no other host can use, such as
        sockets, and files that are known from a disk are left out.
        """
        files: list[DomainDisk | OtherFile] = []
        for domain in domains:
            files += _disks(domain)
            files += domain["other_files"]
        self.add(files)
        for domain in domains:
            names = {
                name
                for disk in domain["disks"]
                for each in (disk, *(disk["chain"] or ()))
                for name in (each["path"], each["real_path"])
            }
            names.discard(None)
            kept = []
            for file in domain["other_files"]:
                dummy, dummy2, mode = self._places.get(file["path"] or "", (None, None, None))
                if mode is not None and stat.S_ISDIR(mode):
                    file["type"] = "dir"
                is_file = not mode or stat.S_ISREG(mode) or stat.S_ISBLK(mode) or stat.S_ISDIR(mode)
                if is_file and (file["written"] or file["path"] not in names):
                    kept.append(file)
            domain["other_files"] = kept
            if self._has_files:
                domain["bindings"] = [*(domain.get("bindings") or ()), *self._gone(domain)]

    def _gone(self, domain: HostDomain) -> list[BindingFacts]:
        """Return the binding of a domain that has lost a file."""
        runs = domain.get("state") in RUNNING
        missing = []
        for disk in _disks(domain):
            if disk["path"] is None or (disk.get("only") == "next_start" and not runs):
                continue
            layers = [
                (path, f"the image {path} behind its disk {disk['target']}")
                for path in self._behind.get(disk["path"], ())
            ]
            has_medium = disk["device"] in ("cdrom", "floppy")
            what = "medium in" if has_medium else "disk"
            for path, name in [
                (disk["path"], f"its {what} {disk['target']} ({disk['path']})"),
                *layers,
            ]:
                if self._places.get(path, (None, None, None))[2] == GONE:
                    held = runs and disk.get("only") != "next_start"
                    missing.append(
                        gone.binding(
                            domain["name"], disk, name, has_medium and path == disk["path"], held
                        )
                    )
        return missing

    def add(self, disks: Sequence[DomainDisk | OtherFile]) -> None:
        """Give each disk its ``path``, ``real_path``, ``shared_id`` and ``chain``; each None if it
        is not known.

        ``behind_on_network`` has the images of Ceph that its file is backed by.
        """
        for disk in disks:
            disk.update(
                {
                    "path": self._path(disk),
                    "real_path": None,
                    "shared_id": None,
                    "chain": None,
                    "behind_on_network": [],
                }
            )
        with_paths = [(path, disk) for disk in disks if (path := disk["path"]) is not None]
        backing.learn(
            [path for path, disk in with_paths if disk["format"] != "raw"], self._references
        )
        chains = [
            backing.chain(path, disk["format"], self._references, self._ask_libvirt)
            for path, disk in with_paths
        ]
        self._read_places(
            [(path, disk["type"]) for path, disk in with_paths]
            + [(path, "file") for chain in chains for path in chain.files]
        )
        for (path, disk), chain in zip(with_paths, chains):
            disk["shared_id"], disk["real_path"], dummy = self._places[path]
            disk["behind_on_network"] = chain.rbd
            self._behind[path] = chain.files
            if not chain.troubles:
                disk["chain"] = layers = [self._layer(each) for each in chain.files]
                self._note_local(self._is_shared(path, disk["shared_id"]), layers)

    def _layer(self, path: str) -> DiskLayer:
        shared_id, real_path, dummy = self._places[path]
        return {"path": path, "real_path": real_path, "shared_id": shared_id}

    def _ask_libvirt(self, path: str) -> list[backing.Reference] | None:
        return backing.by_libvirt(self._conn, path)

    def _note_local(self, shared: bool, layers: Iterable[DiskLayer]) -> None:
        for layer in layers:
            if not self._is_shared(layer["path"], layer["shared_id"]):
                self._local[layer["path"]] = shared or self._local.get(layer["path"], False)

    def _path(self, disk: DomainDisk | OtherFile) -> str | None:
        kind = kinds.of_disk(disk)
        if disk["source"] is None or kind.is_path:
            return disk["source"]
        if kind.source is not Source.VOLUME:
            return None
        pool, dummy, volume = disk["source"].partition("/")
        return os.path.join(self._folders[pool], volume) if pool in self._folders else None

    def _read_places(self, many: Iterable[tuple[str, str]]) -> None:
        """Find out which storage files and devices are on."""
        new = dict(each for each in many if each[0] not in self._places)
        answers = access.call_each(
            _place_of, [(path, kind, self._mounts) for path, kind in new.items()]
        )
        self._places.update(
            (path, answer if good else (None, None, None))
            for path, (good, answer) in zip(new, answers)
        )

    def _is_shared(self, path: str, shared_id: str | None) -> bool:
        path = os.path.normpath(path)
        return bool(shared_id) or any(
            path.startswith(f"{folder.rstrip('/')}/") for folder in self._declared
        )

    def images(self, seconds: float) -> list[ImageDigest]:
        """Return the content of images that each host has by itself, behind disks on shared
        storage: list of dicts path, digest and stamp.

        :param seconds: the time to read images with unknown digests. Known digests cost no time.
        """
        deadline = time.monotonic() + seconds
        images: list[ImageDigest] = []
        for path, needed in sorted(self._local.items()):
            try:
                digest, stamp = digests.of_file(
                    path, max(0, deadline - time.monotonic()) if needed else 0
                )
            except (OSError, access.Unresponsive):
                continue
            if digest:
                images.append({"path": path, "digest": digest, **stamp})
        return images
