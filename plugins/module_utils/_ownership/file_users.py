# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The users on this host of a file that another host is about to remove.

Private to the collection. _needs reads the needs of this host, as for its own removals: domains as
they run and as they start next, snapshots, and all images behind an image.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .._files import access, block_devices
from .._files.mounts import Mount
from .._storage import backing, file_names
from .._storage.shared_storage import network_mounts, real_path_id
from .needs import Need, Needs, look


class FileUsers:
    """The users of files on this host.

    :param conn: libvirt of this host.
    :param but: the uuid of an instance whose own needs do not count; None to count all.
    :param seen: the numbers of folders that the host with the files looks into itself, as _file_names has them.
    """

    def __init__(self, conn: Any, but: str | None, mounts: Sequence[Mount], seen: Iterable[str] = ()) -> None:
        # The store has the images behind a missing disk, as its host has shown them; one broken
        # guest must not keep the files of a fleet.
        self._needs, self._mounts, self._seen = Needs(conn, but, missing=False), mounts, set(seen)
        self._shares = [mount for mount in network_mounts(mounts) if mount["shared_id"]]
        self._systems = {device: file_names.file_system(path, mounts) for device, path in self._needs.devices.items()}
        self._looked_around = False

    def reason(self, file: Mapping[str, Any]) -> str | None:
        """Say who needs a file, or may need it; None where this host does not.

        :param file: name; paths that it may have here; shared_id, inode and device, as _file_names has them on its own host; volume, its name where it is
            a volume that QEMU reaches by the network; written, where only a domain counts that may write to the file.
        """
        if file.get("written"):
            return self._writer(file)
        if file.get("volume"):
            return self._needs.why_volume(file["volume"])
        known = self._by_inode(file.get("inode")) or self._by_device(file.get("device"))
        if known is not None:
            return known
        doubt = None
        for path in self._paths(file):
            try:
                found = look(path)
                here = file_names.inode(found.real, self._mounts) if found.status is not None else None
            except (OSError, access.Unresponsive) as exc:
                doubt = f"{path} cannot be looked at ({backing.reason_of(exc)})"
                continue
            if here is not None and file.get("inode") is not None and _number(here) != _number(file["inode"]):
                # Another file. The number of the file system does not decide: a shared one may have another number on each host.
                continue
            device = file.get("device") and block_devices.identity(found.real)
            if device and device != file["device"]:
                continue
            if found.status is None and path in file.get("paths", ()):
                need = self._needs.user(path, found)
                if need is not None:
                    return " ".join(need)
                continue
            self._look_around()
            why = self._needs.why(path, found)
            if why is not None:
                return why
        return doubt

    def _writer(self, file: Mapping[str, Any]) -> str | None:
        for place in self._inodes(file.get("inode")):
            name = self._needs.writer_by_inode(*place)
            if name is not None:
                return f"the domain {name} writes to it"
        for path in self._paths(file) if file.get("inode") is None else ():
            try:
                name = self._needs.writer(path)
            except (OSError, access.Unresponsive) as exc:
                return f"{path} cannot be looked at ({backing.reason_of(exc)}), and a domain may write to it"
            if name is not None:
                return f"the domain {name} writes to it"
        return None

    def _by_inode(self, inode: str | None) -> str | None:
        for place in self._inodes(inode):
            need = self._needs.by_inode(*place)
            if need is not None:
                return " ".join(need)
        return None

    def _by_device(self, device: str | None) -> str | None:
        need = self._devices.get(device) if device else None
        return None if need is None else " ".join(need)

    @functools.cached_property
    def _devices(self) -> dict[str, Need]:
        """The needs of block devices by what tells these on all hosts, read once for all files."""
        known = [(block_devices.identity(path), need) for path, need in self._needs.block_devices.items()]
        return {device: need for device, need in reversed(known) if device is not None}

    def _inodes(self, inode: str | None) -> list[tuple[int, int]]:
        """Return where a file of a text may be on this host: pairs of device and number."""
        if inode is None:
            return []
        system, _slash, number = inode.rpartition("/")
        return [(device, int(number)) for device, known in self._systems.items() if known == system]

    def _paths(self, file: Mapping[str, Any]) -> list[str]:
        """Return the paths that a file may have here: the given ones, and the ones by way of the
        network.
        """
        found, share = list(file.get("paths") or ()), file.get("shared_id")
        for mount in self._shares:
            above = mount["shared_id"].rstrip("/")
            if share and f"{share}/".startswith(f"{above}/"):
                found.append(os.path.normpath(mount["path"] + share[len(above) :]))
        return list(dict.fromkeys(found))

    def _look_around(self) -> None:
        """Take up the images that lie where the host with the files does not look: on file systems of this host alone."""
        if not self._looked_around:
            self._looked_around = True
            self._needs.look_into(self._own(self._needs.near()))

    def _own(self, folders: Iterable[str]) -> list[str]:
        real = [(folder, access.real_path(folder) or folder) for folder in folders]
        return [
            folder
            for folder, path in real
            if real_path_id(path, self._mounts) is None and file_names.inode(path, self._mounts) not in self._seen
        ]


def _number(inode: str) -> str:
    return inode.rpartition("/")[2]
