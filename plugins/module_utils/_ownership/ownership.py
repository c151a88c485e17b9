# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The decision which files are an instance's own, and the only code that removes them.

Private to the collection. A file is removed when it is proven that it is the instance's own and
that no other user needs it. In doubt it stays and is named.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element

from .._domain.definition import files_of_start, is_source, parse_disk
from .._files import access, probe
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, libvirt
from .._libvirt.xml import parse
from .._storage import backing, block_volumes, rbd, volumes
from .._storage.shared_storage import FOLDER_POOLS
from . import mdev_uuids
from .needs import Needs, Sighting, elsewhere_of, look, volume_path

#: Prefix of the names of this collection's own temporary files.
TEMPORARY = ".drover-"
#: Prefix of the names of this collection's checkpoints.
CHECKPOINT = "drover-"

CHANGED = "another file has its name by now"
FOREIGN = "its name does not say that it is this instance's"
THERE_BEFORE = f"it was there before it was attached, and {FOREIGN}"

#: Prefix of the alias of a disk with a file that was there before the disk was attached. libvirt
#: keeps such an alias with the domain. That a guest writes to that file does not prove that the
#: file is the guest's.
ATTACHED = "ua-drover-attached-"

#: Of a source, see _domain_xml.
EXISTED = "it is a source of the definition: it was there before the instance"

#: The size in bytes below which a copy holds no data: such a copy may be removed even if only the
#: intention to make it is recorded.
EMPTY = 2**20

#: Seconds by which the clocks of two hosts may differ.
CLOCKS = 600


@dataclass
class Candidate:
    """A file that goes with an instance, if it is its own."""

    #: As the instance names it.
    path: str
    #: It is the instance's by its use, a writable disk; everything else only by its name.
    by_use: bool = False
    #: The reason to keep the file even if no other user needs it.
    refused: str | None = None
    #: The required identity of the file (device, inode); None for any file.
    inode: tuple[int, int] | None = None
    #: The storage pool that it is a volume of.
    pool: str | None = None
    #: Why it stays when its name does not say whose it is.
    foreign: str = FOREIGN
    #: Pool and volume, if it is no file but a volume of a pool without files.
    volume: tuple[str, str] | None = None
    #: The required key of libvirt for that volume; None for any volume.
    key: str | None = None


def candidates_of(conn: Any, texts: Sequence[str]) -> list[Candidate]:
    """The Candidates of a domain, each file once.

    :param texts: the XML of the domain from _needs.texts_of(), its definition first.
    """
    found: dict[str, Candidate] = {}
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
                    candidate.refused = candidate.refused or "it is not in the definition: a snapshot has it, or it is attached for a while"
                found.setdefault(candidate.path, candidate)
    for path in files_of_start(texts[0], binding.is_system(conn)):
        found.setdefault(path, Candidate(path))
    return list(found.values())


def was_there_before(element: Element) -> bool:
    """Return whether the file of a disk was there before it was attached, as its alias says."""
    alias = element.find("alias")
    return alias is not None and (alias.get("name") or "").startswith(ATTACHED)


def _candidate(conn: Any, disk: Mapping[str, Any], element: Element) -> Candidate:
    try:
        volume = volumes.of_disk(conn, element)
    except libvirt.libvirtError:
        # Then it is of no pool of this host, as far as is known.
        volume = None
    if volume is not None:
        return Candidate(disk["source"], True, "it is shareable" if disk["shareable"] else None, foreign=FOREIGN, volume=volume)
    path, pool, refused = disk["source"], None, None
    if disk["type"] == "volume":
        pool, dummy, volume = path.partition("/")
        try:
            kind = parse(conn.storagePoolLookupByName(pool).XMLDesc(0)).get("type")
            refused = None if kind in FOLDER_POOLS else f"it is a volume of the pool {pool} ({kind}), which has no files"
            path = volume_path(conn, pool, volume) if refused is None else path
        except (libvirt.libvirtError, OSError, access.Unresponsive) as exc:
            why = binding.text_of(exc) if isinstance(exc, libvirt.libvirtError) else backing.reason_of(exc)
            refused = f"it is not known which file it is ({why})"
    elif disk["type"] != "file":
        refused = f"it is no image file ({disk['type']})"
    if disk["shareable"]:
        refused = refused or "it is shareable"
    by_use = disk["device"] == "disk" and not disk["readonly"]
    return Candidate(path, by_use, refused, pool=pool, foreign=f"it is read-only and {FOREIGN}")


class Ownership:
    """Decides about the files of one instance of this host, and removes them.

    :param conn: libvirt of this host.
    :param uuid, name: of the instance; if one of them is None, no name of a file proves anything.
    :param elsewhere: the needs and possible needs of other hosts, see _needs.elsewhere_of().
    :param folders: more folders with images that may be backed by the files.
    :ivar removed: the paths that were removed.
    :ivar kept: the files that stay, as dicts with path and reason.
    """

    def __init__(
        self,
        conn: Any,
        uuid: str | None,
        name: str | None,
        candidates: Sequence[Candidate],
        elsewhere: Iterable[Any] = (),
        folders: Iterable[str] = (),
    ) -> None:
        self._conn, self._uuid, self._name, self._elsewhere, self._folders = conn, uuid, name, list(elsewhere), list(folders)
        self._needed_elsewhere = elsewhere_of(self._elsewhere)
        self._candidates = candidates
        self._own: list[tuple[Candidate, tuple[int, int] | None]] = []
        self._volumes: list[Candidate] = []
        self._needs: Needs | None = None
        self.removed: list[str] = []
        self.kept: list[dict[str, Any]] = []

    def sort_out(self, locks: bool = True) -> list[str]:
        """Find out which of the files go: their paths. The other files that exist are in ``kept``.

        :param locks: True to keep a file that any process has locked. False for a running instance:
            then the lock is the instance's own. False for an instance that runs: the lock is its
            own then.
        """
        self._own, self.kept = [], []
        self._volumes, self._needs = [], None
        files = [each for each in self._candidates if not each.volume]
        there = [(each, sighting, why) for each in files for sighting, why in [_look(each)] if sighting or why]
        near = [os.path.dirname(sighting.real) for dummy, sighting, dummy2 in there if sighting]
        for each in self._candidates:
            if each.volume:
                if each.volume in [found.volume for found in self._volumes]:
                    continue
                why = each.refused or self._why_not_volume(each.path, each.volume, near)
                if why is None:
                    self._volumes.append(each)
                else:
                    self.kept.append({"path": each.path, "reason": why})
        for each, sighting, why in there:
            why = why or each.refused or (self._why_not(each, sighting) if sighting else None)
            if why is None and sighting:
                why = self._needed(near).why(each.path, sighting) or (why_locked(sighting.real) if locks else None)
            if why is None and sighting:
                self._own.append((each, sighting.inode))
            else:
                self.kept.append({"path": each.path, "reason": why})
        return [each.path for each in self._volumes] + [each.path for each, dummy in self._own]

    def remove(self, patient: bool = False) -> None:
        """Remove what sort_out() has found to be the instance's own.

        :param patient: True to keep a file that cannot be removed, without an error.
        :raises OSError: one cannot be removed; its ``filename`` says which.
        """
        pools = set()
        for each in self._volumes:
            why = _remove_volume(self._conn, each.volume, each.key) if each.volume else None
            if why is None:
                self.removed.append(each.path)
            else:
                self.kept.append({"path": each.path, "reason": why})
        self._volumes = []
        for each, inode in self._own:
            try:
                why = _remove(each.path, inode)
            except access.Unresponsive as exc:
                why = str(exc)
            except OSError as exc:
                if not patient:
                    raise
                why = f"it cannot be removed ({backing.reason_of(exc)})"
            if why is None:
                self.removed.append(each.path)
                pools.add(each.pool)
            else:
                self.kept.append({"path": each.path, "reason": why})
        self._own = []
        for pool in pools - {None}:
            try:
                self._conn.storagePoolLookupByName(pool).refresh(0)
            except libvirt.libvirtError:
                # Then libvirt shows the volume until the next refresh of the pool.
                pass

    def _needed(self, near: Sequence[str]) -> Needs:
        """Return the needs of other users on this host, with the needs of images in these folders;
        they are read once.
        """
        if self._needs is None:
            self._needs = Needs(self._conn, self._uuid, self._elsewhere)
            self._needs.look_around([*self._folders, *near])
        return self._needs

    def _why_not_volume(self, path: str, volume: tuple[str, str], near: Sequence[str]) -> str | None:
        """Why a volume is not the instance's own, None when it is."""
        if path in self._needed_elsewhere:
            # An instance that is off has no watcher that Ceph would know.
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

    def _why_not(self, candidate: Candidate, sighting: Sighting) -> str | None:
        """Why a file is not the instance's own, None when it is."""
        path = candidate.path
        if sighting.is_link or sighting.status is None:
            return f"it is a link to {sighting.real}, and whose that is the link does not say"
        if not stat.S_ISREG(sighting.status.st_mode):
            return "it is no image file but a device or a folder"
        if sighting.status.st_nlink > 1:
            return "the file has another name too"
        if candidate.inode not in (None, sighting.inode):
            return CHANGED
        if not candidate.by_use and (self._uuid is None or self._name is None or not is_named_for(path, self._uuid, self._name)):
            return candidate.foreign
        return None


def _look(candidate: Candidate) -> tuple[Sighting | None, str | None]:
    """Return ``(sighting, reason why it cannot be looked at)``; one of them is None, or both if
    nothing is there.
    """
    if not os.path.isabs(candidate.path):
        # Of another pool or on the network: refused already.
        return None, candidate.refused
    try:
        sighting = look(candidate.path)
    except (OSError, access.Unresponsive) as exc:
        return None, candidate.refused or f"it cannot be looked at ({backing.reason_of(exc)})"
    return (sighting if sighting.status is not None or sighting.is_link else None), None


def is_named_for(path: str, uuid: str, name: str) -> bool:
    """Return True if the name of a file proves its owner: the whole uuid, the seed that place
    makes, or the UEFI variables that libvirt makes.
    """
    folder, base = os.path.split(path)
    # As role place spells it.
    if uuid in base or base == f"{re.sub('[^A-Za-z0-9._-]', '_', name)}-{uuid[:8]}-seed.iso":
        return True
    of_libvirt = os.path.basename(folder) == "nvram" and os.path.basename(os.path.dirname(folder)) == "qemu"
    return of_libvirt and base in (f"{name}_VARS.fd", f"{name}_VARS.qcow2")


def why_locked(path: str) -> str | None:
    """Return the reason to leave a locked file alone, in words; None if no process has a lock on
    it.
    """
    try:
        found = access.call(probe.in_use, path)
    except access.Unresponsive:
        found = None
    if found is False:
        return None
    return "a process has it locked" if found else "it is not known if a process has it locked"


def _remove(path: str, inode: tuple[int, int] | None) -> str | None:
    """Remove a file that was decided about; why not, or None when it is gone.

    :param inode: the identity of the file at the decision; another file that has its name by now is
        not removed.
    """
    try:
        found = access.call(os.lstat, path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode) or (found.st_dev, found.st_ino) != inode:
        return CHANGED
    reason = why_locked(path)
    if reason is None:
        try:
            access.call(os.unlink, path)
        except FileNotFoundError:
            pass
    return reason


# -- what this collection has made itself ------------------------------------------------------


def made(part: str, path: str) -> Candidate:
    """The Candidate of a file that this process has made as ``part`` and now names ``path``: its own by that.

    :raises OSError: it is not there.
    """
    found = os.lstat(part)
    return Candidate(path, by_use=True, inode=(found.st_dev, found.st_ino))


def drop_temporary(path: str) -> None:
    """Remove a temporary file that this process, or a dead one of this collection, made under a
    name of its own.
    """
    _refuse_foreign(path)
    try:
        access.call(os.unlink, path)
    except (OSError, access.Unresponsive):
        pass


def drop_probe(path: str) -> bool:
    """Remove an empty folder made to see whether others see it; whether it is gone."""
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
    """Remove a note of our own (a record, a place in a line), which is no file of any instance."""
    os.unlink(path)


# -- through libvirt ---------------------------------------------------------------------------


def why_copy_stays(entry: Mapping[str, Any], there: Mapping[str, Any], users: Sequence[str]) -> str | None:
    """Why a file at the destination is not removed after a move that came to nothing; None when this move has made it.

    :param entry: the file in the record of the move.
    :param there: the answer of Folder.stat() for the file at the destination.
    :param users: names of the domains there that mention it.
    """
    if users:
        return f"the domain {users[0]} there uses it"
    if entry["made"] not in ("yes", "intent", "leftover"):
        return "nothing proves that a move of this instance has made it"
    if entry.get("block_pool"):
        return _why_volume_stays(entry, there)
    if entry["made"] == "intent" and there["allocation"] > EMPTY:
        return "it holds data, and nothing proves that a move of this instance has made it"
    if entry.get("made_at") and there["modified"] and there["modified"] < entry["made_at"] - CLOCKS:
        return "it is older than the move that is said to have made it"
    if entry.get("left_at") and there["modified"] and there["modified"] > entry["left_at"] + CLOCKS:
        return "it was written to after the move of this instance had ended"
    return None


def _why_volume_stays(entry: Mapping[str, Any], there: Mapping[str, Any]) -> str | None:
    """The same of a volume that is a block device, whose content does not tell how old it is."""
    if entry.get("key_there") is not None and entry["key_there"] != there["key"]:
        return "another volume has its name by now"
    if entry.get("key_there") is None and not entry["named"]:
        return f"nothing proves that a move of this instance has made it, and {FOREIGN}"
    return None


def _remove_volume(conn: Any, place: tuple[str, str], key: str | None = None) -> str | None:
    """Remove a volume that was decided about; why not, or None when it is gone.

    The storage itself refuses one that is open anywhere, or has clones.

    :param place: pool and volume.
    :param key: libvirt's required key of the volume; None for any volume.
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
        if pool is not None and parse(pool.XMLDesc(0)).get("type") == "rbd":
            # libvirt says of an image with snapshots that there is none.
            return f"Ceph does not remove it, because it is open somewhere, or has snapshots or clones (rbd status, rbd snap ls): {binding.text_of(exc)}"
        return f"libvirt does not remove it: {binding.text_of(exc)}"
    return None


def drop_image(conn: Any, pool: str, name: str) -> bool:
    """Remove an image for clones that a build of this host had begun to fill, before any instance
    was cloned from it; return True if it is gone.

    The caller has its lock. Ceph refuses if the image has a snapshot, as a whole one has.
    """
    if not name.startswith(rbd.IMAGE):
        raise ValueError(f"{name} is no image of drover")
    return _remove_volume(conn, (pool, name)) is None


def delete_volume(volume: Any) -> None:
    """Remove a volume that why_copy_stays() has let go."""
    volume.delete(0)


def drop_snapshot(domain: Any, name: str, record_alone: bool = False) -> None:
    """Remove a snapshot that a person named: an internal one with its state in the images, or libvirt's record alone.

    :param record_alone: its files stay as they are.
    """
    snapshot = domain.snapshotLookupByName(name, 0)
    snapshot.delete(libvirt.VIR_DOMAIN_SNAPSHOT_DELETE_METADATA_ONLY if record_alone else 0)


def drop_checkpoint(domain: Any, name: str, record_alone: bool = False) -> None:
    """Remove a checkpoint that drover has made, with its bitmaps in the images, or libvirt's record alone.

    :raises ValueError: the checkpoint has a name that is not drover's.
    """
    if not name.startswith(CHECKPOINT):
        raise ValueError(name)
    checkpoint = domain.checkpointLookupByName(name, 0)
    checkpoint.delete(libvirt.VIR_DOMAIN_CHECKPOINT_DELETE_METADATA_ONLY if record_alone else 0)


def undefine(domain: Any, with_state: bool = False) -> None:
    """Remove a definition, and what libvirt has saved of its memory. The files that the domain uses
    stay, and so does the file of its UEFI variables.

    :param with_state: the state of an emulated TPM goes as libvirt would have it; it is kept by uuid.
    """
    simple = libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    flags = simple | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA | libvirt.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM
    if not with_state:
        flags |= getattr(libvirt, "VIR_DOMAIN_UNDEFINE_KEEP_TPM", 0)
    # A libvirt that does not know a flag does not keep the thing that the flag is about, or refuses
    # by itself to lose it.
    for attempt in (flags, simple | libvirt.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM, simple):
        try:
            domain.undefineFlags(attempt)
            return
        except libvirt.libvirtError as exc:
            # Without a code where Python has freed something of libvirt's in between, which clears the error.
            if binding.code_of(exc) not in (libvirt.VIR_ERR_INVALID_ARG, libvirt.VIR_ERR_NO_SUPPORT, None):
                raise
    domain.undefine()


def remove_mdev(device: Any, uuid: str, active: bool) -> None:
    """Remove a mediated device without users, and its definition.

    :param device: libvirt's handle of it.
    :param active: True if the device exists, False if it is only defined.
    :raises LibvirtProblem: its uuid does not prove that this collection made it.
    """
    if not mdev_uuids.is_ours(uuid):
        raise LibvirtProblem(f"The mediated device {uuid} was not made by this collection, so it stays.")
    if active:
        device.destroy()
    try:
        device.undefine(0)
    except libvirt.libvirtError as exc:
        # A device that was not defined is gone by now.
        if binding.code_of(exc) not in (libvirt.VIR_ERR_NO_NODE_DEVICE, libvirt.VIR_ERR_OPERATION_INVALID):
            raise
