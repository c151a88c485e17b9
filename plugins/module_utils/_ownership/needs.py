# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of a hypervisor that have users.

Private to the collection. An object that cannot be read never makes a file free: the files behind
the object are unknown then, and this is a doubt about every file.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .._domain.mentions import IMAGE, OTHER, PLAIN, Mentions
from .._domain.texts import texts_of
from .._files import access, block_devices, mounts
from .._libvirt import binding, missing_drivers
from .._libvirt.binding import libvirt
from .._libvirt.xml import child_text, parse
from .._storage import backing, kinds
from .._storage.kinds import Form

#: Seconds to read the headers of all images in one folder.
FOLDER_LIMIT = 120

#: The user of a file, and the kind of use; both in words.
Need = tuple[str, str]

USES = "uses it"

#: The need of a file if only one fact is known: another hypervisor needs the file.
ELSEWHERE: Need = ("a domain of another hypervisor", USES)

#: A mark in place of the number of a file system, for a block device with its own number.
DEVICE = -1

#: libvirt's errors for objects that do not exist.
_GONE = ("VIR_ERR_NO_DOMAIN", "VIR_ERR_NO_STORAGE_POOL", "VIR_ERR_NO_STORAGE_VOL")


@dataclass
class PathSighting:
    """The result of a look at a path through all links: real path, status (None without a file),
    and is_link for a link.
    """

    real: str
    status: os.stat_result | None
    is_link: bool

    @property
    def inode(self) -> tuple[int, int] | None:
        """The identity of a file or block device, equal for all its names; None if nothing exists
        at the path.
        """
        if self.status is not None and stat.S_ISBLK(self.status.st_mode):
            # Each node of a device has a separate inode.
            return (DEVICE, self.status.st_rdev)
        return None if self.status is None else (self.status.st_dev, self.status.st_ino)


def elsewhere_of(paths: Iterable[Any]) -> dict[str, Need]:
    """Return the needs of other hosts, certain or possible, by path.

    :param paths: paths, or dicts path, who (the user in words) and how (the use in words).
    """
    return {
        **{each: ELSEWHERE for each in paths if isinstance(each, str)},
        **{each["path"]: (each["who"], each["how"]) for each in paths if not isinstance(each, str)},
    }


def look(path: str) -> PathSighting:
    """Return the Sighting of a path.

    :raises OSError: the path cannot be read.
    :raises Unresponsive: the file system does not answer.
    """
    return access.call(_read_path, path)


def _read_path(path: str) -> PathSighting:
    real, is_link = os.path.realpath(path), os.path.islink(path)
    try:
        return PathSighting(real, os.stat(real), is_link)
    except OSError as exc:
        if exc.errno in (errno.ENOENT, errno.ENOTDIR):
            return PathSighting(real, None, is_link)
        raise


def folder_of(pool: Any) -> str | None:
    """Return the folder of a storage pool with files as volumes; None for other pools.

    :raises libvirt.libvirtError: the pool cannot be read.
    """
    root = parse(pool.XMLDesc(0))
    return child_text(root, "target/path") if kinds.of_pool(root).form is Form.FOLDER else None


def volume_path(conn: Any, pool: str, volume: str) -> str:
    """Return the path of a volume of this host.

    :raises libvirt.libvirtError: the path is unknown: libvirt does not have the pool, or neither
        libvirt nor the folder has the volume.
    """
    storage_pool = conn.storagePoolLookupByName(pool)
    try:
        return storage_pool.storageVolLookupByName(volume).path()
    except libvirt.libvirtError:
        # The pool is stopped, or has not been refreshed: its folder may still have the file.
        folder = folder_of(storage_pool)
        if folder is None or not access.call(os.path.exists, os.path.join(folder, volume)):
            raise
        return os.path.join(folder, volume)


def is_gone(error: Exception) -> bool:
    """Return True if an error of libvirt says that the object does not exist."""
    return binding.code_of(error) in {getattr(libvirt, name) for name in _GONE}


class Needs:
    """The files that the domains of this host need, and the backing files of the images in known
    folders.

    :param conn: libvirt of this host.
    :param but: the uuid of the instance whose own needs do not count.
    :param elsewhere: paths that instances of other hosts need, see elsewhere_of().
    :param layers: real paths of images of that instance; the backing files of these images do not
        count either.
    :param missing: True to make a missing disk a doubt about every file, because any file may be
        its backing file.
    """

    def __init__(
        self,
        conn: Any,
        but: str | None = None,
        elsewhere: Iterable[Any] = (),
        layers: Iterable[str] = (),
        missing: bool = True,
    ) -> None:
        self._missing = missing
        self._conn, self._layers = conn, set(layers)
        self._real: dict[str, Need] = {}
        self._inodes: dict[Any, Need] = {}
        #: A path on each device that has a needed file, by the number of the device.
        self.devices: dict[int, str] = {}
        #: The needed block devices, by their real paths.
        self.block_devices: dict[str, Need] = {}
        self._folders: dict[str, str] = {}
        self._followed: set[tuple[str, str]] = set()
        self._doubts: list[str] = []
        self._words: list[tuple[str, str]] = []
        # Texts that name storage outside the files of this host, each with the user in words.
        self._texts: list[tuple[str, str]] = []
        self._near: set[str] = set()
        self._scanned: set[str] = set()
        self._written: list[tuple[str, set[Any]]] = []
        self._writers: dict[Any, str] | None = None
        # Storage on the network is not a file of this host.
        for path, need in elsewhere_of(elsewhere).items():
            if os.path.isabs(path):
                self._note_need(path, need, PLAIN)
        for domain in conn.listAllDomains(0):
            try:
                if domain.UUIDString() != but:
                    self._note_domain(domain)
            except libvirt.libvirtError as exc:
                if not is_gone(exc):
                    self._doubts.append(
                        "what another domain of this host uses cannot be read"
                        f" ({binding.text_of(exc)})"
                    )
            except ValueError as exc:
                self._doubts.append(f"what another domain of this host uses cannot be read ({exc})")
        for path, device in block_devices.loop_files():
            self._note_need(path, (f"the loop device {device}", USES), OTHER)
        for path in mounts.swap_files():
            self._note_need(path, ("the swap space", USES), OTHER)
        self._note_pools()

    def _note_domain(self, domain: Any) -> None:
        name, mentions = domain.name(), Mentions()
        for text in texts_of(domain):
            mentions.add(text)
            self._texts.append((text, f"the domain {name} {USES}"))
        self._written.append((name, mentions.written))
        for path, kind in mentions.paths.items():
            self._note_need(
                path, (f"the domain {name}", USES), kind, path in mentions.meant - mentions.folders
            )
        for (pool, volume), kind in mentions.volumes.items():
            self._note_volume(pool, volume, name, kind)
        for folder in mentions.folders:
            self._note_folder(folder, f"the domain {name} is given its folder {folder}")
        self._words += [
            (word, f"an argument for the QEMU of the domain {name} may mean it")
            for word in mentions.words
        ]

    def _note_volume(self, pool: str, volume: str, name: str, kind: int) -> None:
        try:
            self._note_need(
                volume_path(self._conn, pool, volume), (f"the domain {name}", USES), kind
            )
        except libvirt.libvirtError as exc:
            unknown = (
                f"it is not known which file the volume {pool}/{volume} of the domain {name} is"
                f" ({binding.text_of(exc)})"
            )
            # In a pool without files, the device may have any name.
            if kind == IMAGE:
                self._doubts.append(unknown)
            else:
                self._words.append((volume, unknown))

    def _note_folder(self, folder: str, reason: str) -> None:
        try:
            self._folders.setdefault(look(folder).real, reason)
        except (OSError, access.Unresponsive) as exc:
            self._doubts.append(f"{folder} cannot be looked at ({backing.reason_of(exc)})")

    def _note_pools(self) -> None:
        try:
            pools = self._conn.listAllStoragePools(0)
        except libvirt.libvirtError as exc:
            if not missing_drivers.has_nothing("storage", exc):
                self._doubts.append(
                    f"the storage pools of this host cannot be read ({binding.text_of(exc)})"
                )
            return
        for pool in pools:
            try:
                path = folder_of(pool)
            except libvirt.libvirtError as exc:
                if not is_gone(exc):
                    self._doubts.append(
                        f"a storage pool of this host cannot be read ({binding.text_of(exc)})"
                    )
                continue
            if path:
                self._near.add(path)

    def _note_need(self, path: str, need: Need, kind: int, folders: bool = False) -> None:
        """Remember a file and all files behind it.

        :param folders: True to remember the whole content of a path that is a folder.
        """
        waiting = [(path, kind)]
        while waiting:
            path, kind = waiting.pop()
            try:
                sighting = look(path)
            except (OSError, access.Unresponsive) as exc:
                self._real.setdefault(path, need)
                if kind != OTHER:
                    self._doubt(f"{path} cannot be looked at ({backing.reason_of(exc)})", need)
                continue
            self._real.setdefault(sighting.real, need)
            if sighting.status is None:
                if kind == IMAGE and self._missing:
                    self._doubt(f"{path} is not there, so what it is backed by is not known", need)
                continue
            if folders and stat.S_ISDIR(sighting.status.st_mode) and sighting.real != "/":
                self._folders.setdefault(sighting.real, f"{need[0]} uses its folder {path}")
            if stat.S_ISBLK(sighting.status.st_mode):
                self._inodes.setdefault(sighting.inode, need)
                self.block_devices.setdefault(sighting.real, need)
            if not stat.S_ISREG(sighting.status.st_mode):
                continue
            self._inodes.setdefault(sighting.inode, need)
            self.devices.setdefault(sighting.status.st_dev, sighting.real)
            if kind != OTHER:
                self._near.add(os.path.dirname(sighting.real))
            # A relative name of a backing file may mean another file from another folder.
            if (os.path.dirname(path), sighting.real) not in self._followed:
                self._followed.add((os.path.dirname(path), sighting.real))
                waiting += [(behind, kind) for behind in self._behind(path, need, kind)]

    def _behind(self, path: str, need: Need, kind: int) -> list[str]:
        try:
            references = self._references_of(path)
        except (OSError, access.Unresponsive) as exc:
            if kind != OTHER:
                self._doubt(
                    f"what {path} is backed by cannot be read ({backing.reason_of(exc)})", need
                )
            return []
        self._words += [
            (each.words, " ".join(need)) for each in references if each.words is not None
        ]
        self._texts += [(image, " ".join(need)) for each in references for image in each.rbd]
        return [behind for each in references for behind in each.paths]

    def _references_of(self, path: str) -> list[backing.Reference]:
        try:
            return access.call(backing.references_of, path)
        except PermissionError:
            references = backing.by_libvirt(self._conn, path)
            if references is None:
                raise
            return references

    def _doubt(self, what: str, need: Need) -> None:
        self._doubts.append(f"{what}, and {' '.join(need).replace(' it', ' that')}")

    # -- images in folders --------------------------------------------------------------------

    def look_around(self, folders: Iterable[str]) -> None:
        """Remember the backing files of the images in these folders, in the folders of domains'
        disks and in pools.
        """
        self.look_into([*folders, *self._near])

    def near(self) -> list[str]:
        """Return the folders of domains' disks and of pools."""
        return sorted(self._near)

    def look_into(self, folders: Iterable[str]) -> None:
        """Remember the backing files of the images in these folders."""
        for folder in folders:
            self._look_into(folder)

    def _look_into(self, folder: str) -> None:
        try:
            folder = look(folder).real
            if folder in self._scanned:
                return
            self._scanned.add(folder)
            named, unread = access.call(_references_in, folder, limit=FOLDER_LIMIT)
        except (OSError, access.Unresponsive) as exc:
            if getattr(exc, "errno", None) not in (errno.ENOENT, errno.ENOTDIR):
                self._doubts.append(
                    f"the images in {folder} cannot be looked at ({backing.reason_of(exc)})"
                )
            return
        for path, problem in unread:
            references_found = (
                backing.by_libvirt(self._conn, path)
                if isinstance(problem, PermissionError)
                else None
            )
            if references_found is None:
                self._doubts.append(
                    f"what {path} is backed by cannot be read ({backing.reason_of(problem)})"
                )
            elif references_found:
                named.append((path, references_found))
        for image, references in named:
            if image in self._layers:
                continue
            for reference in references:
                if reference.words is not None:
                    self._words.append((reference.words, f"the image {image} may be backed by it"))
                self._texts += [
                    (each, f"the image {image} is backed by it") for each in reference.rbd
                ]
                for path in reference.paths:
                    self._note_need(path, (f"the image {image}", "is backed by it"), PLAIN)

    # -- answers --------------------------------------------------------------------------

    def user(self, path: str, sighting: PathSighting) -> Need | None:
        """Return the certain need of a file, a pair of texts (user, use); None without a known
        user.
        """
        return (
            self._real.get(sighting.real)
            or self._real.get(path)
            or (sighting.inode and self._inodes.get(sighting.inode))
        )

    def by_inode(self, device: int, number: int) -> Need | None:
        """Return the need of the file with an inode of a device of this host; None without a known
        user.
        """
        return self._inodes.get((device, number))

    def writer_by_inode(self, device: int, number: int) -> str | None:
        """Return the name of a domain that may write to the file with an inode of a device of this
        host.

        Return None if no such domain is known.
        """
        if self._writers is None:
            self._writers = self._read_writers()
        return self._writers.get((device, number))

    def below(self, folder: str) -> dict[str, str]:
        """Return the paths in a folder that domains need, existing or not: dict path -> need in
        words.

        :param folder: the real path of the folder.
        """
        inside = f"{folder.rstrip('/')}/"
        by_path = {
            path: " ".join(need) for path, need in self._real.items() if path.startswith(inside)
        }
        by_path.update(
            {
                each: why
                for each, why in self._folders.items()
                if f"{each}/".startswith(inside) or inside.startswith(f"{each}/")
            }
        )
        for words, why in self._words:
            if folder in words:
                by_path.setdefault(folder, why)
        return by_path

    def doubts(self) -> list[str]:
        """Return sentences about the needs of domains that are unknown."""
        return list(dict.fromkeys(self._doubts))

    def writer(self, path: str) -> str | None:
        """Return the name of a domain that may write to an image or to its backing files; None if
        no such domain is known.

        :raises OSError: an image cannot be read.
        :raises Unresponsive: the file system does not answer.
        """
        if self._writers is None:
            self._writers = self._read_writers()
        waiting, seen = [path], set()
        while waiting:
            sighting = look(waiting.pop())
            names = [sighting.real, *_folders_above(sighting.real), sighting.inode]
            name = next((self._writers[each] for each in names if each in self._writers), None)
            if name:
                return name
            if sighting.status is not None and sighting.real not in seen:
                seen.add(sighting.real)
                waiting += [
                    behind for each in self._references_of(sighting.real) for behind in each.paths
                ]
        return None

    def _read_writers(self) -> dict[Any, str]:
        """Return the files that domains may write to, from definitions and running domains.

        :returns: dict: real path, real folder with a slash at its end, or inode -> name of a
            domain.
        """
        writers: dict[Any, str] = {}
        for name, written in self._written:
            for file in written:
                try:
                    sighting = look(
                        file if isinstance(file, str) else volume_path(self._conn, *file)
                    )
                except (libvirt.libvirtError, OSError, ValueError, access.Unresponsive):
                    # No disk can have a backing file that does not exist.
                    continue
                writers.setdefault(sighting.real, name)
                if sighting.status is not None:
                    writers.setdefault(sighting.inode, name)
                    if stat.S_ISDIR(sighting.status.st_mode):
                        writers.setdefault(f"{sighting.real.rstrip('/')}/", name)
        return writers

    def why(self, path: str, sighting: PathSighting) -> str | None:
        """Return the reason in words why a file has a user, or may have one; None if the file
        certainly has no user.

        :param sighting: the result of look() for the path.
        """
        known = self.user(path, sighting)
        if known:
            return " ".join(known)
        for folder, reason in self._folders.items():
            if sighting.real.startswith(folder.rstrip("/") + "/"):
                return reason
        names = {os.path.basename(path), os.path.basename(sighting.real)}
        for words, reason in self._words:
            if any(name in words for name in names):
                return reason
        return self._doubts[0] if self._doubts else None

    def why_volume(self, name: str) -> str | None:
        """Return the reason in words why a volume outside the files of this host has a user, or may
        have one.

        Return None if the volume certainly has no user.

        :param name: name of the volume. Each text with this name counts: hosts and pools may have
            different names for one storage.
        """
        for text, reason in [*self._texts, *self._words]:
            if name in text:
                return reason
        return self._doubts[0] if self._doubts else None


def _folders_above(path: str) -> list[str]:
    return [path[: end + 1] for end, letter in enumerate(path) if letter == "/"]


def _references_in(
    folder: str,
) -> tuple[list[tuple[str, list[backing.Reference]]], list[tuple[str, OSError]]]:
    """Return the references of the images in a folder.

    :returns: ([(path, references)] of images with references, [(path, error)] of images that cannot
        be read).
    """
    named, unread = [], []
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                if not entry.is_file():
                    continue
                references = backing.references_of(entry.path)
                own = os.path.realpath(entry.path)
            except FileNotFoundError:
                continue
            except OSError as exc:
                unread.append((entry.path, exc))
                continue
            # An image may name itself as the file of its extents.
            for reference in references:
                reference.paths = [
                    path for path in reference.paths if os.path.realpath(path) != own
                ]
            if references:
                named.append((entry.path, references))
    return named, unread
