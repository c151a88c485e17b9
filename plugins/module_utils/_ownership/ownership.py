# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The proof that a file is an instance's own, and the only code that removes files.

Private to the collection. This module removes a file only with two proofs: the file is the
instance's own, and no other user needs the file. Without these proofs the file stays, and the
result names the file.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element

from .._domain.definition import files_of_start, is_source, parse_disk
from .._domain.facts import DomainDisk
from .._files import access, probe
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, libvirt
from .._libvirt.xml import parse
from .._storage import backing, block_volumes, kinds, rbd, volumes
from .._storage.kinds import Form, Maker, Source
from . import mdev_uuids
from .move_record import FileEntry, FileStat, KeptFile
from .needs import Needs, PathSighting, elsewhere_of, look, volume_path

#: The prefix of the names of this collection's temporary files.
TEMPORARY = ".drover-"
#: The prefix of the names of this collection's checkpoints.
CHECKPOINT = "drover-"

CHANGED = "another file has its name by now"
FOREIGN = "its name does not say that it is this instance's"
THERE_BEFORE = f"it was there before it was attached, and {FOREIGN}"

#: The prefix of the alias of a disk, if the file existed before the disk was attached. libvirt
#: keeps such an alias with the domain. A guest that writes to the file does not prove that the file
#: is the guest's.
ATTACHED = "ua-drover-attached-"

#: The reason to keep the file of a source; is_source() in _domain.definition explains sources.
EXISTED = "it is a source of the definition: it was there before the instance"

#: A copy of at most this many bytes counts as empty. If the record says only that a copy was going
#: to be made, only an empty copy is removed.
EMPTY = 2**20

#: The seconds by which the clocks of two hosts may differ.
CLOCKS = 600


@dataclass
class RemovalCandidate:
    """A file that is removed with an instance, if the file is the instance's own."""

    #: The path, as the domain of the instance names it.
    path: str
    #: True for a writable disk: the use proves the owner. Only the name proves the owner of all
    #: other files.
    by_use: bool = False
    #: The reason to keep the file even without other users.
    refused: str | None = None
    #: The expected file (device, inode); None for any file at the path.
    inode: tuple[int, int] | None = None
    #: The storage pool of the volume; None if the disk names no pool.
    pool: str | None = None
    #: The reason to keep the file if the name does not prove the owner.
    foreign: str = FOREIGN
    #: Pool and volume, for a volume of a pool without files.
    volume: tuple[str, str] | None = None
    #: The key that libvirt must report for the volume; None for any volume of the name.
    key: str | None = None


def candidates_of(conn: Any, texts: Sequence[str]) -> list[RemovalCandidate]:
    """Return the Candidates of a domain, each file once.

    :param texts: the XML texts of the domain from texts_of() in _domain.texts; the definition is
        the first.
    """
    by_path: dict[str, RemovalCandidate] = {}
    for number, text in enumerate(texts):
        root = parse(text)
        for element in root.iter("disk"):
            disk = parse_disk(element)
            if disk["source"] is not None:
                candidate = _candidate(conn, disk, element)
                if was_there_before(element):
                    candidate.by_use, candidate.foreign = False, THERE_BEFORE
                if is_source(element):
                    candidate.refused = EXISTED
                if number:
                    candidate.refused = (
                        candidate.refused
                        or "it is not in the definition: a snapshot has it, or it is attached for a while"
                    )
                by_path.setdefault(candidate.path, candidate)
    for path in files_of_start(texts[0], binding.is_system(conn)):
        by_path.setdefault(path, RemovalCandidate(path))
    return list(by_path.values())


def was_there_before(element: Element) -> bool:
    """Return True if the alias of a disk says that the file existed before the disk was
    attached.
    """
    alias = element.find("alias")
    return alias is not None and (alias.get("name") or "").startswith(ATTACHED)


def _candidate(conn: Any, disk: DomainDisk, element: Element) -> RemovalCandidate:
    try:
        volume = volumes.of_disk(conn, element)
    except libvirt.libvirtError:
        # Without an answer of libvirt, the disk counts as a disk outside the pools of this host.
        volume = None
    path = disk["source"] or ""
    if volume is not None:
        return RemovalCandidate(
            path,
            True,
            "it is shareable" if disk["shareable"] else None,
            foreign=FOREIGN,
            volume=volume,
        )
    pool = refused = None
    source = kinds.of_disk(disk).source
    if source is Source.VOLUME:
        pool, dummy, name = path.partition("/")
        try:
            kind = kinds.of_pool(parse(conn.storagePoolLookupByName(pool).XMLDesc(0)))
            refused = (
                None
                if kind.form is Form.FOLDER
                else f"it is a volume of the pool {pool} ({kind.name}), which has no files"
            )
            path = volume_path(conn, pool, name) if refused is None else path
        except (libvirt.libvirtError, OSError, access.Unresponsive) as exc:
            reason = (
                binding.text_of(exc)
                if isinstance(exc, libvirt.libvirtError)
                else backing.reason_of(exc)
            )
            refused = f"it is not known which file it is ({reason})"
    elif source is not Source.FILE:
        refused = f"it is no image file ({disk['type']})"
    if disk["shareable"]:
        refused = refused or "it is shareable"
    by_use = disk["device"] == "disk" and not disk["readonly"]
    return RemovalCandidate(
        path, by_use, refused, pool=pool, foreign=f"it is read-only and {FOREIGN}"
    )


class Ownership:
    """The decision about the files of one instance of this host, and their removal.

    :param conn: libvirt of this host.
    :param uuid, name: uuid and name of the instance; if one of them is None, no name of a file
        proves an owner.
    :param elsewhere: the files that other hosts need or may need, see elsewhere_of() in needs.
    :param folders: more folders with images that the files may back.
    :ivar removed: the removed paths.
    :ivar kept: the files that stay, dicts path and reason.
    """

    def __init__(
        self,
        conn: Any,
        uuid: str | None,
        name: str | None,
        candidates: Sequence[RemovalCandidate],
        elsewhere: Iterable[Any] = (),
        folders: Iterable[str] = (),
    ) -> None:
        self._conn, self._uuid, self._name, self._elsewhere, self._folders = (
            conn,
            uuid,
            name,
            list(elsewhere),
            list(folders),
        )
        self._needed_elsewhere = elsewhere_of(self._elsewhere)
        self._candidates = candidates
        self._own: list[tuple[RemovalCandidate, tuple[int, int] | None]] = []
        self._volumes: list[RemovalCandidate] = []
        self._needs: Needs | None = None
        self.removed: list[str] = []
        self.kept: list[KeptFile] = []

    def sort_out(self, locks: bool = True) -> list[str]:
        """Return the paths of the files to remove. Put the other existing files into ``kept``.

        :param locks: True to keep a file that a process has locked. False for an instance that
            runs: the instance's own QEMU has the lock then.
        """
        self._own, self.kept = [], []
        self._volumes, self._needs = [], None
        files = [each for each in self._candidates if not each.volume]
        existing = [
            (each, sighting, why)
            for each in files
            for sighting, why in [_read_candidate(each)]
            if sighting or why
        ]
        near = [os.path.dirname(sighting.real) for dummy, sighting, dummy2 in existing if sighting]
        for candidate in self._candidates:
            if candidate.volume:
                if candidate.volume in [found.volume for found in self._volumes]:
                    continue
                reason = candidate.refused or self._why_not_volume(
                    candidate.path, candidate.volume, near
                )
                if reason is None:
                    self._volumes.append(candidate)
                else:
                    self.kept.append({"path": candidate.path, "reason": reason})
        for candidate, sighting, reason in existing:
            reason = (
                reason
                or candidate.refused
                or (self._why_not(candidate, sighting) if sighting else None)
            )
            if reason is None and sighting:
                reason = self._needed(near).why(candidate.path, sighting) or (
                    why_locked(sighting.real) if locks else None
                )
            if reason is None and sighting:
                self._own.append((candidate, sighting.inode))
            else:
                self.kept.append({"path": candidate.path, "reason": reason or ""})
        return [each.path for each in self._volumes] + [each.path for each, dummy in self._own]

    def remove(self, patient: bool = False) -> None:
        """Remove the instance's own files that sort_out() has found.

        :param patient: True to put a file into ``kept`` if its removal fails, instead of an error.
        :raises OSError: a file cannot be removed; ``filename`` of the error has the path.
        """
        pools = set()
        for candidate in self._volumes:
            reason = (
                _remove_volume(self._conn, candidate.volume, candidate.key)
                if candidate.volume
                else None
            )
            if reason is None:
                self.removed.append(candidate.path)
            else:
                self.kept.append({"path": candidate.path, "reason": reason})
        self._volumes = []
        for candidate, inode in self._own:
            try:
                reason = _remove_file(candidate.path, inode)
            except access.Unresponsive as exc:
                reason = str(exc)
            except OSError as exc:
                if not patient:
                    raise
                reason = f"it cannot be removed ({backing.reason_of(exc)})"
            if reason is None:
                self.removed.append(candidate.path)
                pools.add(candidate.pool)
            else:
                self.kept.append({"path": candidate.path, "reason": reason})
        self._own = []
        for pool in pools - {None}:
            try:
                self._conn.storagePoolLookupByName(pool).refresh(0)
            except libvirt.libvirtError:
                # libvirt then shows the removed volume until the next refresh of the pool.
                pass

    def _needed(self, near: Sequence[str]) -> Needs:
        """Return the Needs of the other domains of this host and of the images in these folders.
        Read them once.
        """
        if self._needs is None:
            self._needs = Needs(self._conn, self._uuid, self._elsewhere)
            self._needs.look_around([*self._folders, *near])
        return self._needs

    def _why_not_volume(
        self, path: str, volume: tuple[str, str], near: Sequence[str]
    ) -> str | None:
        """Return the reason why a volume is not the instance's own; None if the volume is."""
        if path in self._needed_elsewhere:
            # Ceph knows no watcher of an image if the domain is off.
            return " ".join(self._needed_elsewhere[path])
        if self._uuid is None or not volumes.is_named_for(volume[1], self._uuid):
            return FOREIGN
        try:
            device = block_volumes.device_of(self._conn, *volume)
            if device is None:
                return self._needed(near).why_volume(volume[1])
            if device in self._needed_elsewhere:
                return " ".join(self._needed_elsewhere[device])
            return self._needed(near).why(device, look(device))
        except libvirt.libvirtError as exc:
            return f"its pool cannot be read ({binding.text_of(exc)})"
        except (OSError, access.Unresponsive) as exc:
            return f"it cannot be looked at ({backing.reason_of(exc)})"

    def _why_not(self, candidate: RemovalCandidate, sighting: PathSighting) -> str | None:
        """Return the reason why a file is not the instance's own; None if the file is."""
        path = candidate.path
        if sighting.is_link or sighting.status is None:
            return f"it is a link to {sighting.real}, and whose that is the link does not say"
        if not stat.S_ISREG(sighting.status.st_mode):
            return "it is no image file but a device or a folder"
        if sighting.status.st_nlink > 1:
            return "the file has another name too"
        if candidate.inode not in (None, sighting.inode):
            return CHANGED
        if not candidate.by_use and (
            self._uuid is None
            or self._name is None
            or not is_named_for(path, self._uuid, self._name)
        ):
            return candidate.foreign
        return None


def _read_candidate(candidate: RemovalCandidate) -> tuple[PathSighting | None, str | None]:
    """Return ``(sighting, reason why the look failed)``. One of them is None; without a file both
    are None.
    """
    if not os.path.isabs(candidate.path):
        # A volume of another pool, or a disk on the network: _candidate() has refused it already.
        return None, candidate.refused
    try:
        sighting = look(candidate.path)
    except (OSError, access.Unresponsive) as exc:
        return None, candidate.refused or f"it cannot be looked at ({backing.reason_of(exc)})"
    return (sighting if sighting.status is not None or sighting.is_link else None), None


def is_named_for(path: str, uuid: str, name: str) -> bool:
    """Return True if the name of a file proves that the file is the instance's.

    Such a name has the whole uuid, or it is the seed image of role place or libvirt's file of UEFI
    variables.
    """
    folder, base = os.path.split(path)
    # Role place makes this name.
    if uuid in base or base == f"{re.sub('[^A-Za-z0-9._-]', '_', name)}-{uuid[:8]}-seed.iso":
        return True
    of_libvirt = (
        os.path.basename(folder) == "nvram" and os.path.basename(os.path.dirname(folder)) == "qemu"
    )
    return of_libvirt and base in (f"{name}_VARS.fd", f"{name}_VARS.qcow2")


def why_locked(path: str) -> str | None:
    """Return the reason in words why a lock on a file forbids a removal; None without a lock."""
    try:
        is_locked = access.call(probe.in_use, path)
    except access.Unresponsive:
        is_locked = None
    if is_locked is False:
        return None
    return "a process has it locked" if is_locked else "it is not known if a process has it locked"


def _remove_file(path: str, inode: tuple[int, int] | None) -> str | None:
    """Remove a file after the decision. Return the reason why the file stays; None if the file is
    gone.

    :param inode: device and inode at the time of the decision. A different file with this name by
        now stays.
    """
    try:
        status = access.call(os.lstat, path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode) or (status.st_dev, status.st_ino) != inode:
        return CHANGED
    reason = why_locked(path)
    if reason is None:
        try:
            access.call(os.unlink, path)
        except FileNotFoundError:
            pass
    return reason


# -- files that this collection has made ------------------------------------------------------


def made(part: str, path: str) -> RemovalCandidate:
    """Return the Candidate of a file that this process has made as ``part`` and renames to
    ``path``.

    This proves that the file is the instance's own.

    :raises OSError: the file ``part`` does not exist.
    """
    found = os.lstat(part)
    return RemovalCandidate(path, by_use=True, inode=(found.st_dev, found.st_ino))


def drop_temporary(path: str) -> None:
    """Remove a temporary file of this process, or of a process of drover that died.

    No other program uses such a name.
    """
    _refuse_foreign(path)
    try:
        access.call(os.unlink, path)
    except (OSError, access.Unresponsive):
        pass


def drop_probe(path: str) -> bool:
    """Remove an empty folder that was a probe for shared storage. Return True if the folder is
    gone.
    """
    _refuse_foreign(path)
    try:
        access.call(os.rmdir, path)
    except FileNotFoundError:
        pass
    except (OSError, access.Unresponsive):
        return False
    return True


def _refuse_foreign(path: str) -> None:
    if not os.path.basename(path).startswith(TEMPORARY):
        raise ValueError(f"{path} is no temporary file of drover")


def drop_state(path: str) -> None:
    """Remove a file of drover itself (a record, a place in a line), never a file of an instance."""
    os.unlink(path)


# -- through libvirt ---------------------------------------------------------------------------


def why_copy_stays(
    entry: FileEntry, there: FileStat | block_volumes.VolumeStat, users: Sequence[str]
) -> str | None:
    """Return the reason to keep a file at the destination after a failed move; None if this move
    has made the file.

    :param entry: the file in the record of the move.
    :param there: the result of Folder.stat() for the file at the destination.
    :param users: names of the domains at the destination that mention the file.
    """
    if users:
        return f"the domain {users[0]} there uses it"
    if entry["made"] not in ("yes", "intent", "leftover"):
        return "nothing proves that a move of this instance has made it"
    if "key" in there:
        return _why_volume_stays(entry, there)
    if entry["made"] == "intent" and there["allocation"] > EMPTY:
        return "it holds data, and nothing proves that a move of this instance has made it"
    if entry.get("made_at") and there["modified"] and there["modified"] < entry["made_at"] - CLOCKS:
        return "it is older than the move that is said to have made it"
    if entry.get("left_at") and there["modified"] and there["modified"] > entry["left_at"] + CLOCKS:
        return "it was written to after the move of this instance had ended"
    return None


def _why_volume_stays(entry: FileEntry, there: block_volumes.VolumeStat) -> str | None:
    """Return the reason to keep a volume that is a block device; None if this move has made the
    volume.

    The content of such a volume says nothing about its age.
    """
    if entry.get("key_there") is not None and entry["key_there"] != there["key"]:
        return "another volume has its name by now"
    if entry.get("key_there") is None and not entry["named"]:
        return f"nothing proves that a move of this instance has made it, and {FOREIGN}"
    return None


def _remove_volume(conn: Any, place: tuple[str, str], key: str | None = None) -> str | None:
    """Remove a volume after the decision. Return the reason why the volume stays; None if the
    volume is gone.

    The storage itself refuses to remove a volume that any host has open, or that has clones.

    :param place: pool and volume.
    :param key: the key that libvirt must report for the volume; None for any volume of the name.
    """
    is_device, pool = False, None
    try:
        pool = conn.storagePoolLookupByName(place[0])
        pool.refresh(0)
        is_device = block_volumes.path_in(parse(pool.XMLDesc(0)), place[1]) is not None
        volume = pool.storageVolLookupByName(place[1])
        if key is not None and volume.key() != key:
            return "another volume has its name by now"
        why = block_volumes.why_held(pool, volume) if is_device else None
        if why is not None:
            return why
        volume.delete(0)
    except libvirt.libvirtError as exc:
        if binding.code_of(exc) == libvirt.VIR_ERR_NO_STORAGE_VOL:
            # libvirt does not list a logical volume that is not active.
            return "its pool does not list it: it is gone, or not active" if is_device else None
        if pool is not None and kinds.of_pool(parse(pool.XMLDesc(0))).maker is Maker.CEPH:
            # For an image with snapshots, libvirt's error says that the image does not exist.
            return (
                "Ceph does not remove it, because it is open somewhere, or has snapshots or clones"
                f" (rbd status, rbd snap ls): {binding.text_of(exc)}"
            )
        return f"libvirt does not remove it: {binding.text_of(exc)}"
    return None


def drop_image(conn: Any, pool: str, name: str) -> bool:
    """Remove an incomplete image for clones that a build of this host has begun to fill. Return
    True if the image is gone.

    The caller has the lock of the image. Ceph refuses if the image has a snapshot; each complete
    image has one.
    """
    if not name.startswith(rbd.IMAGE):
        raise ValueError(f"{name} is no image of drover")
    return _remove_volume(conn, (pool, name)) is None


def delete_volume(volume: Any) -> None:
    """Remove a volume that why_copy_stays() has let go."""
    volume.delete(0)


def drop_snapshot(domain: Any, name: str, record_alone: bool = False) -> None:
    """Remove a snapshot that the operator named: an internal one with its state in the images, or
    only libvirt's record.

    :param record_alone: True to remove only libvirt's record; the files of the snapshot stay.
    """
    snapshot = domain.snapshotLookupByName(name, 0)
    snapshot.delete(libvirt.VIR_DOMAIN_SNAPSHOT_DELETE_METADATA_ONLY if record_alone else 0)


def drop_checkpoint(domain: Any, name: str, record_alone: bool = False) -> None:
    """Remove a checkpoint that drover has made, with its bitmaps in the images, or only libvirt's
    record.

    :param record_alone: True to remove only libvirt's record; the bitmaps stay.
    :raises ValueError: the name is not the name of a checkpoint of drover.
    """
    if not name.startswith(CHECKPOINT):
        raise ValueError(name)
    checkpoint = domain.checkpointLookupByName(name, 0)
    checkpoint.delete(libvirt.VIR_DOMAIN_CHECKPOINT_DELETE_METADATA_ONLY if record_alone else 0)


def undefine(domain: Any, with_state: bool = False) -> None:
    """Remove a definition and the memory that libvirt has saved. The files of the domain stay, also
    the UEFI variables.

    :param with_state: True to let libvirt remove the state of an emulated TPM. libvirt stores this
        state by uuid.
    """
    simple = (
        libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    )
    flags = (
        simple
        | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
        | libvirt.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM
    )
    if not with_state:
        flags |= getattr(libvirt, "VIR_DOMAIN_UNDEFINE_KEEP_TPM", 0)
    # A libvirt without a flag does not store the data of the flag, or refuses by itself to lose the
    # data.
    for attempt in (flags, simple | libvirt.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM, simple):
        try:
            domain.undefineFlags(attempt)
            return
        except libvirt.libvirtError as exc:
            # The code is None if Python has freed an object of libvirt in between: this clears the
            # error.
            if binding.code_of(exc) not in (
                libvirt.VIR_ERR_INVALID_ARG,
                libvirt.VIR_ERR_NO_SUPPORT,
                None,
            ):
                raise
    domain.undefine()


def remove_mdev(device: Any, uuid: str, active: bool) -> None:
    """Remove a mediated device without users, and its definition.

    :param device: libvirt's handle of the device.
    :param active: True if the device exists; False if it is only defined.
    :raises LibvirtProblem: the uuid does not prove that this collection made the device.
    """
    if not mdev_uuids.is_ours(uuid):
        raise LibvirtProblem(
            f"The mediated device {uuid} was not made by this collection, so it stays."
        )
    if active:
        device.destroy()
    try:
        device.undefine(0)
    except libvirt.libvirtError as exc:
        # A device without a definition is gone after destroy().
        if binding.code_of(exc) not in (
            libvirt.VIR_ERR_NO_NODE_DEVICE,
            libvirt.VIR_ERR_OPERATION_INVALID,
        ):
            raise
