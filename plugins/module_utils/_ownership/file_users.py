# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The users on this host of a file that another host is about to remove.

Private to the collection. Module needs reads the needs of this host, the same as for removals on
this host: the running and the next definition of each domain, snapshots, and all backing files of
images.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from .._files import access, block_devices
from .._files.mounts import Mount, all_mounts
from .._libvirt import binding
from .._storage import backing, file_names
from .._storage.shared_storage import network_mounts, real_path_id
from .needs import Need, Needs, look


class File(TypedDict, total=False):
    """A file of another host: shared_id, inode and device are those of _storage/file_names.py."""

    name: str
    #: Its possible paths on this host.
    paths: list[str]
    shared_id: str | None
    inode: str | None
    device: str | None
    #: The name of a volume that QEMU reaches by the network.
    volume: str | None
    #: True to count only a domain that may write to the file.
    written: bool


class FileUsers:
    """The users of files on this host.

    :param conn: libvirt of this host.
    :param but: the uuid of the instance to leave out; None to count all domains.
    :param seen: folders that the host with the files reads itself, as texts from inode() in
        _storage/file_names.py.
    """

    def __init__(
        self, conn: Any, but: str | None, mounts: Sequence[Mount], seen: Iterable[str] = ()
    ) -> None:
        # The store knows the backing files of a missing disk from its host. One broken guest must
        # not keep the files of a whole fleet.
        self._needs, self._mounts, self._seen = Needs(conn, but, missing=False), mounts, set(seen)
        self._shares = [
            (mount["path"], shared_id.rstrip("/"))
            for mount in network_mounts(mounts)
            if (shared_id := mount["shared_id"])
        ]
        self._systems = {
            device: file_names.file_system(path, mounts)
            for device, path in self._needs.devices.items()
        }
        self._looked_around = False

    def reason(self, file: File) -> str | None:
        """Return the certain or possible user of a file, in words; None if this host does not need
        the file.
        """
        if file.get("written"):
            return self._writer(file)
        if volume := file.get("volume"):
            return self._needs.why_volume(volume)
        known = self._by_inode(file.get("inode")) or self._by_device(file.get("device"))
        if known is not None:
            return known
        doubt = None
        for path in self._paths(file):
            try:
                sighting = look(path)
                inode = (
                    file_names.inode(sighting.real, self._mounts)
                    if sighting.status is not None
                    else None
                )
            except (OSError, access.Unresponsive) as exc:
                doubt = f"{path} cannot be looked at ({backing.reason_of(exc)})"
                continue
            other = file.get("inode")
            if inode is not None and other is not None and _number(inode) != _number(other):
                # This is another file. The number of the file system does not decide, because a
                # shared file system may have a different number on each host.
                continue
            device = file.get("device") and block_devices.identity(sighting.real)
            if device and device != file["device"]:
                continue
            if sighting.status is None and path in file.get("paths", ()):
                need = self._needs.user(path, sighting)
                if need is not None:
                    return " ".join(need)
                continue
            self._look_around()
            why = self._needs.why(path, sighting)
            if why is not None:
                return why
        return doubt

    def _writer(self, file: File) -> str | None:
        for place in self._inodes(file.get("inode")):
            name = self._needs.writer_by_inode(*place)
            if name is not None:
                return f"the domain {name} writes to it"
        for path in self._paths(file) if file.get("inode") is None else ():
            try:
                name = self._needs.writer(path)
            except (OSError, access.Unresponsive) as exc:
                return (
                    f"{path} cannot be looked at ({backing.reason_of(exc)}), and a domain may write"
                    " to it"
                )
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
        """The needs of block devices by their identity on all hosts, read once for all files."""
        identities = [
            (block_devices.identity(path), need) for path, need in self._needs.block_devices.items()
        ]
        return {device: need for device, need in reversed(identities) if device is not None}

    def _inodes(self, inode: str | None) -> list[tuple[int, int]]:
        """Return the possible inodes on this host for the inode text of a file: pairs of device and
        number.
        """
        if inode is None:
            return []
        system, _slash, number = inode.rpartition("/")
        return [(device, int(number)) for device, known in self._systems.items() if known == system]

    def _paths(self, file: File) -> list[str]:
        """Return the possible paths of a file on this host: the given paths, and paths through
        network mounts.
        """
        paths, share = list(file.get("paths") or ()), file.get("shared_id")
        for place, above in self._shares:
            if share and f"{share}/".startswith(f"{above}/"):
                paths.append(os.path.normpath(place + share[len(above) :]))
        return list(dict.fromkeys(paths))

    def _look_around(self) -> None:
        """Read the images on the local file systems of this host, because the host with the files
        cannot read these.
        """
        if not self._looked_around:
            self._looked_around = True
            self._needs.look_into(self._local_folders(self._needs.near()))

    def _local_folders(self, folders: Iterable[str]) -> list[str]:
        real = [(folder, access.real_path(folder) or folder) for folder in folders]
        return [
            folder
            for folder, path in real
            if real_path_id(path, self._mounts) is None
            and file_names.inode(path, self._mounts) not in self._seen
        ]


def _number(inode: str) -> str:
    return inode.rpartition("/")[2]


def users_of(uri: str, given: Mapping[str, Any]) -> dict[str, str]:
    """Return the reason of each file that a domain of a libvirt uses."""
    conn = binding.open_connection(uri)
    try:
        users = FileUsers(conn, given["uuid"], all_mounts(), given["folders_seen"])
        reasons = {file["name"]: users.reason(file) for file in given["files"]}
        return {name: reason for name, reason in reasons.items() if reason is not None}
    finally:
        binding.close(conn)
