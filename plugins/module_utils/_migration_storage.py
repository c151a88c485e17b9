# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of an instance and how each gets to the destination.

Private to the collection. Whether storage is shared is found out, never believed: a folder made in the
disk's folder at the source must be seen by the destination. A file that is at the destination already is
never overwritten, and a local file at the source goes only after the instance was verified there.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import subprocess
import time

from ansible_collections.drover.compute.plugins.module_utils import _libvirt
from ansible_collections.drover.compute.plugins.module_utils._domain_xml import (
    backing_files,
    nvram_path,
    parse_disk,
)
from ansible_collections.drover.compute.plugins.module_utils._folder import Folder, folder_is_seen
from ansible_collections.drover.compute.plugins.module_utils._image_size import image_size
from ansible_collections.drover.compute.plugins.module_utils._libvirt import LibvirtProblem, libvirt
from ansible_collections.drover.compute.plugins.module_utils._xml import parse

MIB = 2**20

#: A leftover of which only the intention is recorded may be removed if it holds no data, that is, is this small.
EMPTY_BYTES = MIB

#: Read-only media up to this size are compared byte by byte when they are on both sides.
COMPARE_BYTES = 64 * MIB

#: Network storage is the same from everywhere.
SHARED_TYPES = ("network",)


def survey(source, domain, text):
    """The files of the instance, as ``(files, reasons)``.

    A file is ``{target, path, kind (disk|media|nvram), format, cache, backing, capacity, mode}``;
    ``mode`` is None until :meth:`Storage.decide` sets it to shared, copied or present.
    """
    files, reasons = [], []
    root = parse(text)
    for element in root.findall("devices/disk"):
        disk = parse_disk(element)
        if disk["source"] is None or disk["type"] in SHARED_TYPES:
            continue
        path = disk["source"]
        if disk["type"] == "volume":
            pool, volume = path.split("/", 1)
            try:
                path = source.storagePoolLookupByName(pool).storageVolLookupByName(volume).path()
            except libvirt.libvirtError as exc:
                reasons.append(f"its disk {disk['target']} ({path}) cannot be found: {_libvirt.text_of(exc)}")
                continue
        elif disk["type"] != "file":
            reasons.append(
                f"its disk {disk['target']} is the {disk['type']} device {path}, of which cannot be proven that the destination has the same one"
            )
            continue
        files.append(
            {
                "target": disk["target"],
                "path": path,
                "kind": "media" if disk["readonly"] or disk["device"] in ("cdrom", "floppy") else "disk",
                "format": disk["format"] or "raw",
                "cache": disk["cache"],
                "shareable": disk["shareable"],
                "backing": backing_files(element) or backing_chain(source, path),
                "capacity": _capacity(domain, disk["target"], path, disk["format"]),
                "mode": None,
                "made": "no",
                "removed": False,
            }
        )
    nvram = nvram_path(text)
    # Before its first start a domain has no such file yet, and the destination makes its own.
    if nvram is not None and _length(nvram) is not None:
        files.append(
            {
                "target": "nvram", "path": nvram, "kind": "nvram", "format": "raw", "cache": None, "shareable": False,
                "backing": [], "capacity": _length(nvram), "mode": None, "made": "no", "removed": False,
            }
        )
    return files, reasons


def backing_chain(conn, path):
    """The backing files of an image, from its own header; [] if libvirt does not know the file."""
    found = []
    for depth in range(16):
        text = _volume_text(conn, path)
        if text is None:
            # Not in a pool: the header is still to be read, with the program that any QEMU host has.
            behind = _backing_by_program(path)
        else:
            element = parse(text).find("backingStore/path")
            behind = element.text if element is not None else None
        if not behind or behind in found:
            break
        found.append(behind)
        path = behind
    return found


def _volume_text(conn, path):
    try:
        return conn.storageVolLookupByPath(path).XMLDesc(0)
    except libvirt.libvirtError:
        return None


def _backing_by_program(path):
    try:
        with open(path, "rb") as handle:
            header = handle.read(20)
            if header[:4] != b"QFI\xfb":
                return None
            offset, length = int.from_bytes(header[8:16], "big"), int.from_bytes(header[16:20], "big")
            if not offset or not 0 < length < 4096:
                return None
            handle.seek(offset)
            name = os.fsdecode(handle.read(length))
    except OSError:
        return None
    return os.path.normpath(os.path.join(os.path.dirname(path), name))


def _capacity(domain, target, path, image_format):
    try:
        return int(domain.blockInfo(target)[0])
    except libvirt.libvirtError:
        size = image_size(path, image_format)
        return size[0] if size else None


def _length(path):
    try:
        return os.stat(path).st_size
    except OSError:
        return None


class Storage:
    """The files of one move between two connections.

    ``save()`` is called after each change that a later call must know of, before the deed where the
    deed must not be forgotten.
    """

    def __init__(self, record, source, destination, save):
        self.record = record
        self.move = record["move"]
        self.source = source
        self.destination = destination
        self.save = save
        self.where = self.move["destination"]
        self._shared = {}

    @property
    def files(self):
        """The files as recorded."""
        return self.record["files"]

    def copied(self, kind=None):
        """The files that are copied, of one kind or of all."""
        return [f for f in self.files if f["mode"] == "copied" and kind in (None, f["kind"])]

    def word(self):
        """``none``, ``shared`` or ``copied``: how the instance's writable storage moves."""
        writable = [f for f in self.files if f["kind"] != "media"]
        if any(f["mode"] == "copied" for f in writable):
            return "copied"
        return "shared" if writable else "none"

    # -- is it shared? -----------------------------------------------------------------------

    def is_shared(self, folder):
        """Whether the destination sees what the source makes in ``folder``.

        Raises :class:`LibvirtProblem` with the reason when it cannot be found out.
        """
        if folder not in self._shared:
            self._shared[folder] = self._probe(folder)
        return self._shared[folder]

    def _probe(self, folder):
        if not _libvirt.is_local(self.record["source_uri"]):
            raise LibvirtProblem(
                f"whether {folder} is shared can be found out on the hypervisor only, and {self.record['source_uri']} is another machine"
            )
        probe = os.path.join(folder, f".drover-probe-{self.move['uuid'][:8]}-{secrets.token_hex(6)}")
        self.record["probes"].append(probe)
        self.save()
        try:
            os.mkdir(probe, 0o755)
        except OSError as exc:
            self.record["probes"].remove(probe)
            raise LibvirtProblem(f"the folder {folder} of its disks cannot be written: {exc.strerror}") from exc
        try:
            # A second look, for a network file system that is slow to show new entries.
            for attempt in range(2):
                if folder_is_seen(self.destination, probe):
                    return True
                time.sleep(0.3)
            return False
        finally:
            self._drop_probe(probe)

    def _drop_probe(self, probe):
        try:
            os.rmdir(probe)
        except FileNotFoundError:
            pass
        except OSError:
            return
        if probe in self.record["probes"]:
            self.record["probes"].remove(probe)

    def drop_probes(self):
        """Remove the probes of a call that was killed."""
        for probe in list(self.record["probes"]):
            self._drop_probe(probe)
        self.save()

    # -- how does each file move? ------------------------------------------------------------

    def decide(self, live):
        """Set each file's mode; returns the reasons that speak against the move."""
        reasons = []
        for entry in self.files:
            try:
                reason = self._decide(entry, live)
            except LibvirtProblem as exc:
                reason = f"{entry['path']}: {exc}"
            if reason:
                reasons.append(reason)
        if not reasons:
            reasons.extend(self._room())
        return reasons

    def _decide(self, entry, live):
        path = entry["path"]
        if entry["kind"] == "nvram" and live:
            # QEMU carries the variables over with the guest; the file at the destination is made by libvirt.
            entry["mode"] = "shared" if self.is_shared(os.path.dirname(path)) else "carried"
            return None
        if self.is_shared(os.path.dirname(path)):
            entry["mode"] = "shared"
            return self._backing_reason(entry)
        if entry["kind"] == "disk" and self.move.get("copy_storage", "auto") == "never":
            return f"its disk {path} is on storage of this host only, and copy_storage is never"
        if entry["shareable"]:
            return f"its disk {path} is shared with other instances but on storage of this host only"
        if entry["kind"] == "disk" and entry["format"] not in ("raw", "qcow2"):
            return f"its disk {path} is of the format {entry['format']}, and only raw and qcow2 can be copied"
        if entry["capacity"] is None:
            return f"the size of its {entry['kind']} {path} cannot be read"
        return self._way_to_copy(entry)

    def _backing_reason(self, entry):
        for behind in entry["backing"]:
            if self.is_shared(os.path.dirname(behind)):
                continue
            here = image_size(behind, "raw")
            there = Folder(self.destination, os.path.dirname(behind)).stat(os.path.basename(behind))
            if there is None:
                return f"the image {behind} behind its disk {entry['path']} is missing on {self.where}: copy it there"
            if here is not None and there["physical"] is not None and there["physical"] != here[0]:
                return f"the image {behind} behind its disk {entry['path']} is another one on {self.where} (its size differs)"
        return None

    def _way_to_copy(self, entry):
        path = entry["path"]
        folder, name = Folder(self.destination, os.path.dirname(path)), os.path.basename(path)
        there = folder.stat(name)
        if there is not None and entry["kind"] == "media" and self._same_media(path, folder, name, there):
            entry["mode"] = "present"
            return None
        if there is not None:
            ours = self._is_leftover(path, there)
            if not ours:
                return (
                    f"a file {path} is on {self.where} already, and nothing proves that it is a leftover of ours: "
                    "look at it and move it away"
                )
            # It is emptied and made again; taken over into the record so that nobody forgets it.
            entry["made"] = "leftover"
        entry["mode"] = "copied"
        return None

    def _same_media(self, path, folder, name, there):
        size = _length(path)
        if size is None or there["physical"] not in (None, size) or there["capacity"] not in (size, there["capacity"]):
            return False
        if size > COMPARE_BYTES:
            return there["physical"] == size
        try:
            with open(path, "rb") as handle:
                here = hashlib.sha256(handle.read()).digest()
        except OSError:
            return False
        content = folder.read(name, COMPARE_BYTES + 1)
        return content is not None and hashlib.sha256(content).digest() == here

    def _is_leftover(self, path, there):
        """Whether an earlier attempt on the same way has made the file, and no domain uses it."""
        for entry in self.record["earlier"]:
            if entry["path"] != path or entry["mode"] != "copied":
                continue
            if self._used_there(path):
                return False
            if entry["made"] in ("yes", "leftover"):
                return True
            return entry["made"] == "intent" and there["allocation"] <= EMPTY_BYTES
        return False

    def _used_there(self, path):
        """Whether a domain at the destination has the file."""
        return bool(users(self.destination, path, None))

    def _room(self):
        need = {}
        for entry in self.copied():
            size = image_size(entry["path"], "raw")
            if size:
                folder = os.path.dirname(entry["path"])
                need[folder] = need.get(folder, 0) + size[1]
        reasons = []
        for folder, size in need.items():
            room = Folder(self.destination, folder).room()
            if room is not None and size > room:
                reasons.append(f"{folder} on {self.where} has {room // MIB} MiB free, but its disks take {size // MIB} MiB")
        return reasons

    # -- copying -----------------------------------------------------------------------------

    def make_room(self, live):
        """Make what must be at the destination before: empty images for a live copy, and read-only media."""
        for entry in self.copied():
            folder, name = Folder(self.destination, os.path.dirname(entry["path"])), os.path.basename(entry["path"])
            if entry["made"] == "leftover":
                folder.delete(name)
            entry["made"] = "intent"
            self.save()
            fill = not live or entry["kind"] != "disk"
            plain = self._flat(entry) if fill else None
            path = plain or entry["path"]
            try:
                if fill:
                    # Filled byte by byte, so that to libvirt it is a raw file of the image's length.
                    folder.create(name, _length(path), "raw")
                else:
                    folder.create(name, entry["capacity"], entry["format"])
                entry["made"] = "yes"
                self.record["earlier"] = [old for old in self.record["earlier"] if old["path"] != entry["path"]]
                self.save()
                if fill:
                    self._fill(folder, name, path, entry)
            finally:
                if plain:
                    _unlink(plain)

    def _flat(self, entry):
        """For an image with others behind it: one file with everything in it, beside it; else None."""
        if not entry["backing"]:
            return None
        path = entry["path"]
        plain = os.path.join(os.path.dirname(path), f".drover-flat-{self.move['uuid'][:8]}-{entry['target']}")
        self.record["temporary"] = plain
        self.save()
        _unlink(plain)
        command = ["qemu-img", "convert", "-O", entry["format"], "-f", entry["format"], path, plain]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        except OSError as exc:
            raise LibvirtProblem(f"qemu-img, needed to copy {path} with the images behind it, cannot be run: {exc.strerror}") from exc
        if done.returncode:
            _unlink(plain)
            raise LibvirtProblem(f"{path} cannot be made one with the images behind it: {' '.join(done.stderr.split())}")
        return plain

    def _fill(self, folder, name, path, entry):
        length = _length(path)
        last = [0.0]

        def progress(done):
            now = time.monotonic()
            if now - last[0] >= 1:
                last[0] = now
                self.record.update(
                    percent=min(99, int(100 * done / length)) if length else 0,
                    total_mib=length >> 20,
                    remaining_mib=(length - done) >> 20,
                )
                self.save()

        folder.upload(name, path, progress)
        there = folder.stat(name)
        if there is None or (there["physical"] is not None and there["physical"] != length):
            raise LibvirtProblem(
                f"the copy of {entry['path']} on {self.where} has {there and there['physical']} bytes rather than {length}"
            )
        if entry["kind"] == "disk" and there["capacity"] != entry["capacity"]:
            raise LibvirtProblem(
                f"the copy of {entry['path']} on {self.where} is a disk of {there['capacity']} bytes rather than {entry['capacity']}"
            )

    # -- cleaning ----------------------------------------------------------------------------

    def drop_copies(self):
        """After a failure: remove from the destination what this move made there."""
        for entry in self.files:
            if entry["made"] not in ("yes", "intent", "leftover"):
                continue
            folder, name = Folder(self.destination, os.path.dirname(entry["path"])), os.path.basename(entry["path"])
            try:
                if self._used_there(entry["path"]):
                    raise LibvirtProblem("a domain there uses it")
                there = folder.stat(name)
                if there is not None and (entry["made"] != "intent" or there["allocation"] <= EMPTY_BYTES):
                    folder.delete(name)
                entry["made"] = "no"
            except (LibvirtProblem, libvirt.libvirtError):
                self.record["leftovers"].append(f"{self.where}:{entry['path']}")
        self.drop_temporary()
        self.save()

    def drop_temporary(self):
        """Remove the flattened image of a call that was killed."""
        if self.record["temporary"]:
            _unlink(self.record["temporary"])
            self.record["temporary"] = None

    def drop_sources(self):
        """After the move was verified: remove the local files that were copied.

        Read-only media may be a library for many instances: they go only if their file name holds
        this instance's name or uuid. What another domain of this host uses stays.
        """
        for entry in self.files:
            if entry["removed"] or entry["mode"] not in ("copied", "carried", "present"):
                continue
            path = entry["path"]
            if entry["kind"] == "media" and not self._own_name(path):
                continue
            if entry["mode"] == "present" and entry["kind"] != "media":
                continue
            if users(self.source, path, self.move["uuid"]):
                self.record["leftovers"].append(path)
                continue
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass
            except OSError:
                self.record["leftovers"].append(path)
                continue
            entry["removed"] = True
            self.save()

    def _own_name(self, path):
        name = os.path.basename(path)
        return self.move["uuid"] in name or bool(self.record.get("name") and self.record["name"] in name)

    def name_leftovers(self, text):
        """Without a record: name the instance's files that are still here and are not shared."""
        for element in parse(text).findall("devices/disk"):
            disk = parse_disk(element)
            if disk["type"] != "file" or not disk["source"] or disk["readonly"] or not os.path.exists(disk["source"]):
                continue
            try:
                if not self.is_shared(os.path.dirname(disk["source"])):
                    self.record["leftovers"].append(disk["source"])
            except LibvirtProblem:
                self.record["leftovers"].append(disk["source"])


def users(conn, path, but_uuid):
    """Names of the domains behind ``conn`` that have the file, except the one of that uuid."""
    found = []
    for domain in conn.listAllDomains(0):
        try:
            if domain.UUIDString() != but_uuid and any(
                path in element.attrib.values() for element in parse(domain.XMLDesc(0)).iter("source")
            ):
                found.append(domain.name())
        except libvirt.libvirtError:
            continue
    return found


def _unlink(path):
    try:
        os.unlink(path)
    except OSError:
        pass
