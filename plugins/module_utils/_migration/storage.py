# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of an instance and the way of each file to the destination.

Private to the collection. ``_ownership.sameness`` finds the storage that is the same on both hosts,
and ``_ownership`` decides which files may be removed. A file that is at the destination already is
never overwritten, and a local file at the source goes only after the instance was verified there.
"""

from __future__ import annotations

import os
import stat
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

from .._domain.definition import backing_files, console_logs, nvram_path, parse_disk
from .._domain.facts import DomainDisk
from .._domain.mentions import Mentions
from .._domain.texts import texts_of
from .._files import access, programs
from .._files.image_size import image_size
from .._images import contents
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, libvirt
from .._libvirt.xml import child_text, parse
from .._ownership import ownership
from .._ownership.folder import Folder
from .._ownership.move_record import FileEntry, FileKind, FileStat, MoveRecord, StorageWord
from .._ownership.needs import Needs, is_gone, look, volume_path
from .._ownership.sameness import Sameness
from .._storage import backing, block_volumes, kinds, sources, volumes
from .._storage.kinds import Form, Source
from .._storage.shared_storage import mount_of, read_mounts

MIB = 2**20
#: Bytes that QEMU writes at once to a file without the page cache, at most.
BLOCK = 4096


def survey(
    source: Any, domain: Any, text: str, next_start: str | None = None
) -> tuple[list[FileEntry], list[str]]:
    """Return the files and devices of the instance, as ``(files, reasons)``.

    :param next_start: the definition of the next start of a running guest; the files that only this
        definition names are surveyed too.
    """
    files, reasons = _files_of(source, domain, text)
    if next_start is None:
        return files, reasons
    known = {each["path"] for each in files}
    later, more = _files_of(source, None, next_start)
    files += [{**each, "next_start": True} for each in later if each["path"] not in known]
    return files, reasons + [
        f"as it starts next time, {each}" for each in more if each not in reasons
    ]


def _files_of(source: Any, domain: Any, text: str) -> tuple[list[FileEntry], list[str]]:
    """Return the files of the disks of a definition, and the reasons against their move.

    :param domain: None if the definition is not the one of a running guest, so that libvirt does
        not know these disks.
    """
    files: list[FileEntry] = []
    reasons: list[str] = []
    root = parse(text)
    for element in root.findall("devices/disk"):
        disk = parse_disk(element)
        if kinds.of_disk(disk).source is Source.SERVER:
            server = sources.server_here(element)
            if server:
                reasons.append(_from_here(disk, server))
        elif disk["source"] is not None:
            try:
                files.append(
                    _surveyed(source, domain, child_text(root, "uuid"), element, disk, reasons)
                )
            except LibvirtProblem as exc:
                reasons.append(str(exc))
    nvram = nvram_path(text, binding.is_system(source))
    # Before its first start a domain has no such file yet, and the destination makes its own.
    if nvram is not None and _length(nvram) is not None:
        files.append({**_file("nvram", nvram, "nvram"), "capacity": _length(nvram)})
    files.extend(
        _file("log", path, "log") for path in console_logs(text) if _length(path) is not None
    )
    return files, reasons


def _no_block_job(entry: FileEntry, live: bool) -> str | None:
    """Return the reason why QEMU cannot copy a disk of a running guest: without the page cache, the
    size of its copy must be a multiple of BLOCK.

    QEMU finds the block size of a file by reading it. The file at the destination is empty, where
    each read succeeds, so it takes the largest one, and does not open a raw image of another size
    for writing ("Block node is read-only").
    """
    is_file = kinds.of_disk(entry).source is Source.FILE
    if not live or entry.get("next_start") or entry["kind"] != "disk" or not is_file:
        return None
    if (
        entry["format"] != "raw"
        or entry["cache"] not in ("none", "directsync")
        or not (entry["capacity"] or 0) % BLOCK
    ):
        return None
    return (
        f"its disk {entry['path']} is a raw image of {entry['capacity']} bytes, which is no"
        f" multiple of {BLOCK}, with cache={entry['cache']}, and QEMU copies no such disk of a"
        " running guest: make it larger (drover.compute.instance_disk with"
        f" drover_disk={entry['target']}, drover_disk_state=resized and drover_disk_gb), or move"
        " the instance while it is shut off"
    )


def _file(target: str, path: str, kind: FileKind) -> FileEntry:
    return {
        "target": target,
        "path": path,
        "kind": kind,
        "type": "file",
        "format": "raw",
        "cache": None,
        "shareable": False,
        "volume": None,
        "backing": [],
        "capacity": None,
        "inode": _inode(path),
        "encrypted": False,
        "attached": False,
        "block_pool": None,
        "named": False,
        "key": None,
        "key_there": None,
        "mode": None,
        "next_start": False,
        "made": "no",
        "removed": False,
    }


def _surveyed(
    source: Any,
    domain: Any,
    uuid: str | None,
    element: Element,
    disk: DomainDisk,
    reasons: list[str],
) -> FileEntry:
    """Return the entry of one disk.

    :param uuid: the uuid of the domain.
    :param reasons: a list to which the reasons against the move are added.
    :raises LibvirtProblem: it cannot move at all.
    """
    kind: FileKind = (
        "media" if disk["readonly"] or disk["device"] in ("cdrom", "floppy") else "disk"
    )
    place = _place_of_disk(source, disk)
    if place.source is Source.SERVER:
        return {**_file(disk["target"], place.path, "network"), "volume": place.volume}
    chain = backing.chain(
        place.path, disk["format"], ask=lambda image: backing.by_libvirt(source, image)
    )
    reasons.extend(f"of its disk {place.path}, {trouble}" for trouble in chain.troubles)
    reasons.extend(_from_here(disk, server) for server in chain.servers if sources.is_here(server))
    entry: FileEntry = {
        **_file(disk["target"], place.path, kind),
        "type": "block" if place.source is Source.DEVICE else "file",
        "format": disk["format"] or "raw",
        "cache": disk["cache"],
        "shareable": disk["shareable"],
        "encrypted": element.find(".//encryption") is not None,
        "volume": place.volume,
        "backing": list(dict.fromkeys([*chain.files, *backing_files(element)])),
        "capacity": _capacity(domain, disk["target"], place.path, disk["format"]),
        "attached": ownership.was_there_before(element),
    }
    if place.source is Source.DEVICE:
        _note_volume(source, uuid, entry)
    return entry


def _note_volume(source: Any, uuid: str | None, entry: FileEntry) -> None:
    """Note the volume if a device is one of a pool of this host."""
    path = entry["path"]
    try:
        volume = block_volumes.at(source, path)
    except libvirt.libvirtError:
        volume = None
    if volume is None:
        return
    entry["block_pool"] = list(volume)
    entry["named"] = uuid is not None and volumes.is_named_for(volume[1], uuid)
    entry["key"] = block_volumes.key_of(source, *volume)


def _from_here(disk: DomainDisk, server: str) -> str:
    return (
        f"its disk {disk['target']} comes from a server of this host itself ({server}), which is"
        " another one, or none, at the destination: name the server by an address that all hosts"
        " reach"
    )


class _Placed(NamedTuple):
    """The place of a disk. type: file, block or network. volume: pool and name, or None."""

    type: str
    path: str
    volume: list[str] | None = None

    @property
    def source(self) -> Source:
        """The source of a disk at that place."""
        return kinds.disk(self.type).source


def _place_of_disk(source: Any, disk: DomainDisk) -> _Placed:
    path, kind = disk["source"] or "", kinds.of_disk(disk)
    if kind.is_image:
        return _Placed("block" if _is_device(path) else kind.name, path)
    if kind.source is not Source.VOLUME:
        raise LibvirtProblem(
            f"its disk {disk['target']} is the {disk['type']} device {path}, of which cannot be"
            " proven that the destination has the same one"
        )
    pool, dummy, volume = path.partition("/")
    try:
        form = kinds.of_pool(parse(source.storagePoolLookupByName(pool).XMLDesc(0))).form
        if form is Form.NETWORK:
            return _Placed("network", path, [pool, volume])
        path = volume_path(source, pool, volume)
    except libvirt.libvirtError as exc:
        raise LibvirtProblem(
            f"its disk {disk['target']} ({path}) cannot be found: {binding.text_of(exc)}"
        ) from exc
    except access.Unresponsive as exc:
        raise LibvirtProblem(str(exc)) from exc
    return _Placed("file" if form is Form.FOLDER else "block", path, [pool, volume])


def _is_device(path: str) -> bool:
    """Return True if the path is a block device, which libvirt also accepts as a file."""
    try:
        status = look(path).status
    except (OSError, access.Unresponsive):
        return False
    return status is not None and stat.S_ISBLK(status.st_mode)


def _inode(path: str) -> list[int] | None:
    """Return the identity of a file as a JSON list; None if it cannot be read."""
    try:
        inode = look(path).inode if os.path.isabs(path) else None
    except (OSError, access.Unresponsive):
        return None
    return inode and list(inode)


def _capacity(domain: Any, target: str, path: str, image_format: str | None) -> int | None:
    if domain is not None:
        try:
            return int(domain.blockInfo(target)[0])
        except libvirt.libvirtError:
            pass
    size = image_size(path, image_format)
    return size[0] if size else None


def _allocated_bytes(path: str) -> int:
    """Return the bytes that a file takes on its file system; 0 if the file system does not
    answer.
    """
    try:
        return access.call(os.stat, path).st_blocks * 512
    except (OSError, access.Unresponsive):
        return 0


def _to_copy(entry: FileEntry) -> int:
    """Return the bytes to copy of a file, with the images behind it, which go into the copy too. A
    device is copied whole.
    """
    if entry.get("block_pool"):
        return entry["capacity"] or 0
    found = sum(map(_allocated_bytes, (entry["path"], *entry["backing"])))
    return min(found, entry["capacity"]) if entry["backing"] and entry["capacity"] else found


def _length(path: str) -> int | None:
    try:
        return access.call(os.stat, path).st_size
    except (OSError, access.Unresponsive):
        return None


def _readable_length(path: str) -> int:
    """
    :raises LibvirtProblem: the file is gone, or its file system does not answer.
    """
    length = _length(path)
    if length is None:
        raise LibvirtProblem(f"{path} can no longer be read")
    return length


class Storage:
    """The files of one move between two connections.

    ``save()`` is called after each change that a later call must know, and before an action that
    must not be forgotten.
    """

    def __init__(
        self, record: MoveRecord, source: Any, destination: Any, save: Callable[[], object]
    ) -> None:
        self.record = record
        self.move = record["move"]
        self.source = source
        self.destination = destination
        self.save = save
        self.where = self.move["destination"]
        self.same = Sameness(record, source, destination, save)

    @property
    def files(self) -> list[FileEntry]:
        """The files as recorded."""
        return self.record["files"]

    def copied(self, kind: str | None = None) -> list[FileEntry]:
        """Return the files that are copied, of one kind or of all."""
        return [f for f in self.files if f["mode"] == "copied" and kind in (None, f["kind"])]

    def word(self) -> StorageWord:
        """Return ``none``, ``shared`` or ``copied``: how the instance's writable storage moves."""
        writable = [f for f in self.files if f["kind"] in ("disk", "nvram")]
        if any(f["mode"] == "copied" for f in writable):
            return "copied"
        return "shared" if writable else "none"

    def copied_mib(self) -> int:
        """Return the allocated size of the copied files and of the images behind them, in MiB."""
        return sum(_to_copy(entry) for entry in self.copied()) >> 20

    def copied_disks(self) -> dict[str, int]:
        """Return the size to copy of each disk in MiB, by target."""
        return {entry["target"]: _to_copy(entry) >> 20 for entry in self.copied("disk")}

    def drop_probes(self) -> None:
        """Remove the probes of a call that was killed."""
        for probe in list(self.record["probes"]):
            self.same.drop_probe(probe)
        self.save()

    # -- how does each file move? ------------------------------------------------------------

    def decide(self, live: bool) -> list[str]:
        """Set each file's mode; return the reasons against the move."""
        reasons = []
        for entry in self.files:
            try:
                reason = self._decide(entry, live)
            except LibvirtProblem as exc:
                reason = f"{entry['path']}: {exc}"
            if reason and reason not in reasons:
                reasons.append(reason)
        if not reasons:
            reasons.extend(self._room())
        return reasons

    def _decide(self, entry: FileEntry, live: bool) -> str | None:
        path = entry["path"]
        if (entry["kind"] == "nvram" and live and not entry.get("next_start")) or entry[
            "kind"
        ] == "log":
            # QEMU carries the variables over with the guest; the file at the destination is made by
            # libvirt, as a log is.
            entry["mode"] = "shared" if self.same.file(path) else "carried"
            return None
        shared = True
        if entry["kind"] == "network":
            reason = self.same.network_pool((entry["volume"] or [""])[0])
        elif kinds.of_disk(entry).source is Source.DEVICE:
            reason = self.same.device(path)
            shared = reason is None or not entry.get("block_pool")
            reason = (
                (reason or self._backing_reason(entry))
                if shared
                else self._copy_reason(entry, live)
            )
        else:
            shared = self.same.file(path)
            reason = self._backing_reason(entry) if shared else self._copy_reason(entry, live)
        volume = entry["volume"] or (None if shared else entry.get("block_pool"))
        if reason is None and volume and entry["kind"] != "network":
            reason = self.same.volume(volume[0], volume[1], path, shared)
        if shared:
            entry["mode"] = "shared"
        return reason

    def _backing_reason(self, entry: FileEntry) -> str | None:
        """Return the reason why an image behind a disk is not the same at the destination."""
        for behind in entry["backing"]:
            reason = self._behind_reason(behind, entry["path"])
            if reason:
                return reason
        return None

    def _behind_reason(self, behind: str, path: str) -> str | None:
        try:
            status = access.call(os.stat, behind)
        except (OSError, access.Unresponsive) as exc:
            return (
                f"the image {behind} behind its disk {path} cannot be read here"
                f" ({backing.reason_of(exc)})"
            )
        if stat.S_ISBLK(status.st_mode):
            return self.same.device(behind)
        if self.same.file(behind):
            return None
        return {
            "missing": (
                f"the image {behind} behind its disk {path} is missing on {self.where}: copy it"
                " there"
            ),
            "other": (
                f"the image {behind} behind its disk {path} is another one on {self.where} (its"
                " content differs): copy the right one there"
            ),
        }.get(self.same.content(behind))

    def _copy_reason(self, entry: FileEntry, live: bool) -> str | None:
        """Return the reason why a file that the destination does not see cannot be copied; else set
        its mode.
        """
        path = entry["path"]
        copying = self.move.get("copy_storage") or "auto"
        if entry["kind"] == "disk" and copying == "never":
            return f"its disk {path} is on storage of this host only, and copy_storage is never"
        share = self._shared_here(path)
        if share and copying != "always":
            return (
                f"its {entry['kind']} {path} is on shared storage here ({share}), which"
                f" {self.where} does not see: mount it there, or have the file copied off it with"
                " copy_storage=always"
            )
        if entry["shareable"]:
            return (
                f"its disk {path} is shared with other instances but on storage of this host only"
            )
        if entry["kind"] == "disk" and entry["format"] not in ("raw", "qcow2"):
            return (
                f"its disk {path} is of the format {entry['format']}, and only raw and qcow2 can be"
                " copied"
            )
        if entry.get("block_pool") and (entry["format"] != "raw" or entry["backing"]):
            return (
                f"its disk {path} is a device with a {entry['format']} image, and only raw ones are"
                " copied"
            )
        if entry["capacity"] is None:
            return f"the size of its {entry['kind']} {path} cannot be read"
        lost = _no_block_job(entry, live) or self._left_out(entry, live)
        if lost:
            self.record["at_source"].append(lost)
            return lost
        return self._needed_reason(entry) or self._way_to_copy(entry)

    def _left_out(self, entry: FileEntry, live: bool) -> str | None:
        """Return the parts of an image that would be missing in its copy, in words; None if nothing
        is lost.
        """
        if entry["kind"] not in ("disk", "media"):
            return None
        filled = not live or entry["kind"] == "media" or entry.get("next_start")
        way = (
            contents.RUNNING
            if not filled
            else contents.CONVERTED
            if entry["backing"]
            else contents.WHOLE
        )
        # A raw image has only the data that the guest sees.
        info = {} if entry["format"] == "raw" else contents.read(entry["path"], entry["format"])
        lost = contents.left_out(info, way, bool(entry.get("encrypted")))
        if not lost:
            return None
        cold = (
            " (a cold move takes all of the file along)"
            if way == contents.RUNNING and not entry["backing"]
            else ""
        )
        return (
            f"its disk {entry['path']}"
            f" {'; it '.join(lost)}{cold if not contents.left_out(info, contents.WHOLE) else ''}"
        )

    def _shared_here(self, path: str) -> str | None:
        """Return the shared storage that a file is on, in words; None if no shared storage is
        known.
        """
        try:
            real = access.call(os.path.realpath, path)
            mount = mount_of(real, access.call(read_mounts, real))
        except access.Unresponsive as exc:
            raise LibvirtProblem(str(exc)) from exc
        if mount is not None and kinds.is_on_network(mount[2]):
            return f"{mount[2]}, {mount[3]}"
        for folder in self.move.get("shared_folders") or ():
            if (os.path.normpath(path) + "/").startswith(
                os.path.normpath(folder).rstrip("/") + "/"
            ):
                return f"{folder}, as the operator has declared"
        return None

    def _needed_reason(self, entry: FileEntry) -> str | None:
        """Return a reason if other users are backed by a disk: the disk is not taken away from
        them.
        """
        if entry["kind"] != "disk":
            return None
        try:
            sighting = look(entry["path"])
            # Another host may have a different file at that path, and the file there stays after
            # the move in any case.
            needs = Needs(self.source, self.move["uuid"])
            needs.look_around([os.path.dirname(sighting.real)])
        except (OSError, access.Unresponsive) as exc:
            return f"its disk {entry['path']} cannot be looked at ({backing.reason_of(exc)})"
        user = needs.user(entry["path"], sighting)
        if user is None:
            return None
        return (
            f"its disk {entry['path']} is on storage of this host only, and {' '.join(user)}: it is"
            " not copied away from here while that is so; move it to shared storage, or first move"
            " what needs it"
        )

    def _way_to_copy(self, entry: FileEntry) -> str | None:
        path = entry["path"]
        folder, name = self._place_there(entry)
        existing = folder.stat(name)
        if existing is not None and entry["kind"] == "media" and self.same.content(path) == "same":
            entry["mode"] = "present"
            return None
        if existing is not None:
            reason = self._why_no_leftover(path, existing)
            if reason:
                what = "volume" if entry.get("block_pool") else "file"
                return (
                    f"a {what} {path} is on {self.where} already, and {reason}: look at it and move"
                    " it away"
                )
            # The move empties the file and makes it again; the record has it, so that it is not
            # forgotten.
            entry["made"] = "leftover"
            entry["key_there"] = existing.get("key")
        entry["mode"] = "copied"
        return None

    def _why_no_leftover(self, path: str, there: FileStat | block_volumes.VolumeStat) -> str | None:
        """Return the reason why a file at the destination was not made by an earlier attempt on the
        same way; None if it was.
        """
        for entry in self.record["earlier"]:
            if entry["path"] == path and entry["mode"] == "copied":
                return ownership.why_copy_stays(entry, there, users(self.destination, path))
        return "nothing proves that it is a leftover of ours"

    def _room(self) -> list[str]:
        need: dict[str, int] = {}
        reasons = self._room_in_pools()
        for entry in self.copied():
            if entry.get("block_pool"):
                continue
            size = image_size(entry["path"], "raw")
            if size:
                folder = os.path.dirname(entry["path"])
                need[folder] = need.get(folder, 0) + size[1]
        # All folders are read twice: a write to a file system between the reads changes the numbers
        # of all its folders.
        reads = [
            {folder: room for folder in need if (room := self._room_of(folder)) is not None}
            for _read in range(2 if len(need) > 1 else 1)
        ]
        rooms = {
            folder: [read[folder] for read in reads]
            for folder in need
            if all(folder in read for read in reads)
        }
        for folders in _by_file_system(rooms, self.move.get("file_systems_there") or {}):
            taken, free = (
                sum(need[folder] for folder in folders),
                min(room[0] for folder in folders for room in rooms[folder]),
            )
            if taken > free:
                where = f"{folders[0]} on {self.where} has"
                if len(folders) > 1:
                    where = (
                        f"{' and '.join(folders)} are on one file system of {self.where}, which has"
                    )
                reasons.append(
                    f"{where} {free // MIB} MiB free, but its disks take {taken // MIB} MiB"
                )
        return reasons

    def _room_of(self, folder: str) -> tuple[int, int] | None:
        """Return the room of a folder at the destination; for a folder that the copy will make, the
        room of the nearest folder above it.
        """
        room = Folder(self.destination, folder).room()
        while room is None and folder != "/":
            folder = os.path.dirname(folder)
            room = Folder(self.destination, folder).room()
        return room

    def _room_in_pools(self) -> list[str]:
        need: dict[str, int] = {}
        for entry in self.copied():
            place = entry.get("block_pool")
            if place:
                # A volume that an earlier attempt has left is removed first.
                taken = 0 if entry["made"] == "leftover" else entry["capacity"] or 0
                need[place[0]] = need.get(place[0], 0) + taken
        reasons = []
        for pool, taken in need.items():
            room = block_volumes.Volumes(self.destination, pool, self.where).room()
            if taken > room:
                reasons.append(
                    f"the storage pool {pool} on {self.where} has {room // MIB} MiB free, but its"
                    f" disks take {taken // MIB} MiB"
                )
        return reasons

    def _place_there(self, entry: FileEntry) -> tuple[Any, str]:
        """Return the place for the copy of a file or volume: a Folder or Volumes of the
        destination, and the name there.
        """
        place = entry.get("block_pool")
        if place:
            return block_volumes.Volumes(self.destination, place[0], self.where), place[1]
        return Folder(self.destination, os.path.dirname(entry["path"])), os.path.basename(
            entry["path"]
        )

    # -- copying -----------------------------------------------------------------------------

    def make_room(self, live: bool) -> None:
        """Make the files that the destination must have before the move: empty images for a live
        copy, and read-only media.
        """
        for entry in self.copied():
            folder, name = self._place_there(entry)
            if entry["made"] == "leftover":
                self._drop_there(entry)
            entry["made"], entry["made_at"], entry["key_there"] = "intent", time.time(), None
            self.save()
            fill = bool(not live or entry["kind"] != "disk" or entry.get("next_start"))
            plain = self._flat(entry) if fill else None
            path = plain or entry["path"]
            try:
                self._create_file(folder, name, entry, path, fill)
                entry["made"] = "yes"
                self.record["earlier"] = [
                    old for old in self.record["earlier"] if old["path"] != entry["path"]
                ]
                self.save()
                if fill:
                    self._fill_volume(folder, name, path, entry)
            finally:
                if plain:
                    ownership.drop_temporary(plain)

    def _create_file(self, folder: Any, name: str, entry: FileEntry, path: str, fill: bool) -> None:
        try:
            if entry.get("block_pool"):
                entry["key_there"] = folder.create(name, entry["capacity"])
            elif fill:
                # The file is filled byte by byte, so for libvirt it is a raw file of the image's
                # length.
                folder.create(name, _readable_length(path), "raw")
            else:
                folder.create(name, entry["capacity"], entry["format"])
        except LibvirtProblem as exc:
            if exc.code == libvirt.VIR_ERR_STORAGE_VOL_EXIST or _is_there(folder, name):
                # Another process has just made it, or its maker is not known.
                entry["made"] = "no"
            raise

    def _flat(self, entry: FileEntry) -> str | None:
        """Return the path of one file with all content of an image and the images behind it, beside
        the image; None if nothing is behind it.
        """
        if not entry["backing"]:
            return None
        path = entry["path"]
        plain = os.path.join(
            os.path.dirname(path),
            f"{ownership.TEMPORARY}flat-{self.move['uuid'][:8]}-{entry['target']}",
        )
        self.record["temporary"] = plain
        self.save()
        ownership.drop_temporary(plain)
        command = ["qemu-img", "convert", "-O", entry["format"], "-f", entry["format"], path, plain]
        try:
            # Not run_command: this runs in the process of the move, which outlives the module.
            # pylint: disable-next=ansible-bad-function
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                env=programs.environment(),
                check=False,
            )
        except OSError as exc:
            raise LibvirtProblem(
                f"qemu-img, needed to copy {path} with the images behind it, cannot be run:"
                f" {exc.strerror}"
            ) from exc
        if done.returncode:
            ownership.drop_temporary(plain)
            raise LibvirtProblem(
                f"{path} cannot be made one with the images behind it:"
                f" {' '.join(done.stderr.split())}"
            )
        return plain

    def _fill_volume(self, folder: Any, name: str, path: str, entry: FileEntry) -> None:
        length = (entry["capacity"] or 0) if entry.get("block_pool") else _readable_length(path)
        last = [0.0]

        def progress(done: int) -> None:
            now = time.monotonic()
            if now - last[0] >= 1:
                last[0] = now
                self.record.update(
                    {
                        "percent": min(99, int(100 * done / length)) if length else 0,
                        "total_mib": length >> 20,
                        "remaining_mib": (length - done) >> 20,
                    }
                )
                self.save()

        if entry.get("block_pool"):
            folder.upload(name, path, length, progress)
            return
        folder.upload(name, path, progress)
        copied_file = folder.stat(name)
        if copied_file is None or (
            copied_file["physical"] is not None and copied_file["physical"] != length
        ):
            raise LibvirtProblem(
                f"the copy of {entry['path']} on {self.where} has"
                f" {copied_file and copied_file['physical']} bytes rather than {length}"
            )
        # libvirt reads the guest's own data in a raw image, and they may look like another format.
        if (
            entry["kind"] == "disk"
            and entry["format"] != "raw"
            and copied_file["capacity"] != entry["capacity"]
        ):
            raise LibvirtProblem(
                f"the copy of {entry['path']} on {self.where} is a disk of"
                f" {copied_file['capacity']} bytes rather than {entry['capacity']}"
            )

    # -- cleaning ----------------------------------------------------------------------------

    def drop_copies(self) -> None:
        """Remove the files that this move made at the destination, after a failure."""
        for entry in self.files:
            if entry["made"] not in ("yes", "intent", "leftover"):
                continue
            folder, name = self._place_there(entry)
            try:
                copied_file = folder.stat(name)
                reason = copied_file and ownership.why_copy_stays(
                    entry, copied_file, users(self.destination, entry["path"])
                )
                if not copied_file:
                    entry["made"] = "no"
                elif not reason:
                    self._drop_there(entry)
                    entry["made"] = "no"
            except (LibvirtProblem, libvirt.libvirtError) as exc:
                reason = binding.text_of(exc) if isinstance(exc, libvirt.libvirtError) else str(exc)
            if reason:
                entry.setdefault("left_at", time.time())
                self._keep_file(f"{self.where}:{entry['path']}", reason)
        self.drop_temporary()
        self.save()

    def _drop_there(self, entry: FileEntry) -> None:
        """Remove a file or volume that why_copy_stays() has released."""
        folder, name = self._place_there(entry)
        if not entry.get("block_pool"):
            folder.drop(name)
        elif (volume := folder.volume(name)) is not None:
            ownership.delete_volume(volume)

    def _keep_file(self, path: str, reason: str) -> None:
        """Name a file that stays."""
        if path not in self.record["leftovers"]:
            self.record["leftovers"].append(path)
        self._explain(path, reason)

    def _explain(self, path: str, reason: str) -> None:
        self.record["kept"] = [each for each in self.record["kept"] if each["path"] != path] + [
            {"path": path, "reason": reason}
        ]

    def drop_temporary(self) -> None:
        """Remove the flattened image of a call that was killed."""
        if self.record["temporary"]:
            ownership.drop_temporary(self.record["temporary"])
            self.record["temporary"] = None

    def drop_sources(self) -> None:
        """Remove the local files that a verified move has taken along and that are the instance's
        own.
        """
        entries = [
            entry
            for entry in self.files
            if not entry["removed"]
            and (
                entry["mode"] in ("copied", "carried")
                or (entry["mode"] == "present" and entry["kind"] == "media")
            )
        ]
        if not entries:
            return
        candidates = [
            ownership.RemovalCandidate(
                entry["path"],
                entry["kind"] == "disk" and not entry.get("attached"),
                inode=(entry["inode"][0], entry["inode"][1]) if entry["inode"] else None,
                pool=entry["volume"][0] if entry["volume"] else None,
                foreign=ownership.THERE_BEFORE if entry.get("attached") else ownership.FOREIGN,
                volume=(place[0], place[1]) if (place := entry.get("block_pool")) else None,
                key=entry.get("key"),
            )
            for entry in entries
        ]
        own = ownership.Ownership(
            self.source,
            self.move["uuid"],
            self.record["name"],
            candidates,
            self.move.get("used_elsewhere") or (),
        )
        own.sort_out()
        own.remove(patient=True)
        kept = {each["path"]: each["reason"] for each in own.kept}
        self.record["removed"] += own.removed
        for entry in entries:
            entry["removed"] = entry["path"] not in kept
            if entry["path"] in kept and entry["kind"] == "media":
                # A library may keep the medium for many instances: it stays there and is no
                # leftover.
                self._explain(entry["path"], kept[entry["path"]])
            elif entry["path"] in kept:
                self._keep_file(entry["path"], kept[entry["path"]])
        self.save()

    def name_leftovers(self, text: str) -> None:
        """Name the instance's files that are still here and are not shared, for a move without a
        record.
        """
        for element in parse(text).findall("devices/disk"):
            disk = parse_disk(element)
            if (
                kinds.of_disk(disk).source is not Source.FILE
                or not disk["source"]
                or disk["readonly"]
                or _length(disk["source"]) is None
            ):
                continue
            try:
                if not self.same.file(disk["source"]):
                    self._keep_file(disk["source"], "nothing is known of how it was moved")
            except LibvirtProblem as exc:
                self._keep_file(disk["source"], str(exc))


def _by_file_system(
    rooms: Mapping[str, Sequence[tuple[int, int]]], known: Mapping[str, str]
) -> list[list[str]]:
    """Return folders in groups that are on one file system.

    :param rooms: dict folder -> bytes that are free and bytes in all, in each read. Two folders on
        unknown file systems of equal size count as on one file system if the free bytes of one had
        the same value as those of the other between the first and the last read.
    :param known: dict folder -> a text for its file system; it stands for the folders in it too.
    """
    groups: list[tuple[str | None, Sequence[tuple[int, int]], list[str]]] = []
    for folder, room in sorted(rooms.items()):
        above = [
            each
            for each in known
            if f"{folder}/".startswith(f"{os.path.normpath(each).rstrip('/')}/")
        ]
        system = known[max(above, key=len)] if above else None
        for other, size, folders in groups:
            is_one = (
                _may_be_one(room, size)
                if None in (system, other)
                else (system, room[-1][1]) == (other, size[-1][1])
            )
            if is_one:
                folders.append(folder)
                break
        else:
            groups.append((system, room, [folder]))
    return [folders for _system, _size, folders in groups]


def _may_be_one(one: Sequence[tuple[int, int]], other: Sequence[tuple[int, int]]) -> bool:
    """Return True if two folders can be on one file system, by the reads of their room."""
    if one[-1][1] != other[-1][1]:
        return False
    return min(one)[0] <= max(other)[0] and min(other)[0] <= max(one)[0]


def users(conn: Any, path: str) -> list[str]:
    """Return the names of the domains behind ``conn`` that mention the file, as they run or would
    be started.
    """
    return [
        domain.name()
        for domain in conn.listAllDomains(0)
        if _mentions(conn, domain, os.path.normpath(path))
    ]


def _mentions(conn: Any, domain: Any, path: str) -> bool:
    """Return True if a domain mentions a file, or if the domain cannot be read and so may mention
    it.
    """
    mentions = Mentions()
    try:
        for text in texts_of(domain):
            mentions.add(text)
    except libvirt.libvirtError as exc:
        return not is_gone(exc)
    if path in {os.path.normpath(each) for each in mentions.paths}:
        return True
    for pool, volume in mentions.volumes:
        try:
            if (
                os.path.normpath(
                    conn.storagePoolLookupByName(pool).storageVolLookupByName(volume).path()
                )
                == path
            ):
                return True
        except libvirt.libvirtError:
            if volume == os.path.basename(path):
                return True
    return False


def _is_there(folder: Any, name: str) -> bool:
    try:
        return folder.stat(name) is not None
    except LibvirtProblem:
        return False
