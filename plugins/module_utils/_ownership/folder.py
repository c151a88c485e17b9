# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files in a folder of another hypervisor, reached through its libvirt only.

Private to the collection. libvirt reaches files through storage pools. The pool that has the folder
is used if there is one; otherwise one is made for the moment.
"""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO

from .._files import digests
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, libvirt
from .._libvirt.xml import child_text, parse
from .ownership import delete_volume

#: Pools with this prefix are ours and temporary; a call that finds one removes it after use.
PREFIX = "drover-tmp-"

#: Times to begin again when a pool goes away or is busy meanwhile, with a pause between (seconds).
ATTEMPTS = 30
PAUSE = 0.5

#: Bytes of a piece that is read from a file; a message of libvirt has at most this size.
PIECE = 256 << 10


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _pool_xml(name: str, path: str) -> str:
    return f"<pool type='dir'><name>{name}</name><target><path>{_escape(path)}</path></target></pool>"


def folder_is_seen(conn: Any, path: str) -> bool:
    """Return True if the hypervisor behind ``conn`` has a folder of that path.

    Asked by starting a transient pool on it, which libvirt refuses when the folder is missing. No
    other pool is touched or refreshed. Raises :class:`LibvirtProblem` when it cannot be found out.
    """
    name = PREFIX + hashlib.sha256(path.encode()).hexdigest()[:16]
    try:
        pool = conn.storagePoolCreateXML(_pool_xml(name, path), 0)
    except libvirt.libvirtError as exc:
        if _is_missing(exc):
            return False
        raise LibvirtProblem(f"libvirt of {conn.getHostname()} cannot look into {os.path.dirname(path)}: {binding.text_of(exc)}") from exc
    try:
        pool.destroy()
    except libvirt.libvirtError:
        pass
    return True


def _is_missing(error: Any) -> bool:
    return binding.number_of(error) == errno.ENOENT


class Folder:
    """A folder of the hypervisor behind ``conn``; every method raises :class:`LibvirtProblem`."""

    def __init__(self, conn: Any, path: str) -> None:
        self.conn = conn
        self.path = os.path.normpath(path)

    def stat(self, name: str) -> dict[str, Any] | None:
        """``{capacity, physical, allocation, format, modified}`` of a file in bytes and seconds, or None if it is not there."""

        def look(pool: Any) -> dict[str, Any] | None:
            volume = _volume(pool, name)
            return None if volume is None else _sizes(volume)

        return self._within(look, missing=None)

    def room(self) -> tuple[int, int] | None:
        """Bytes that are free in the file system of the folder, and that it has; None where the folder does not exist yet."""

        def look(pool: Any) -> tuple[int, int]:
            dummy, capacity, dummy, available = pool.info()
            return available, capacity

        return self._within(look, missing=None)

    def create(self, name: str, capacity: int, image_format: str) -> None:
        """Make an empty image; libvirt refuses if the file exists. The folder is made if missing."""

        # libvirt would make qcow2 files of the oldest kind.
        compat = "<compat>1.1</compat>" if image_format == "qcow2" else ""

        def make(pool: Any) -> None:
            pool.createXML(
                f"<volume><name>{_escape(name)}</name><capacity>{int(capacity)}</capacity><allocation>0</allocation>"
                f"<target><format type='{image_format}'/>{compat}<permissions><mode>0600</mode></permissions></target></volume>",
                0,
            )

        self._within(make, build=True)

    def drop(self, name: str) -> bool:
        """Remove a file that _ownership.why_copy_stays() has let go; True if it was there."""

        def delete(pool: Any) -> bool:
            volume = _volume(pool, name)
            if volume is None:
                return False
            delete_volume(volume)
            return True

        return self._within(delete, missing=False)

    def upload(self, name: str, path: str, progress: Callable[[int], object] | None = None) -> None:
        """Fill the file from the local file ``path``, holes kept; ``progress(bytes)`` is called now and then."""

        def send(pool: Any) -> None:
            volume = _volume(pool, name)
            if volume is None:
                raise LibvirtProblem(f"{name} has vanished from {self.path} on {self.conn.getHostname()} while it was filled.")
            with open(path, "rb") as handle:
                _send(self.conn, volume, handle, progress)

        self._within(send)

    def download(self, name: str, begin: Callable[[int | None], int], take: Callable[[bytes], object]) -> bool:
        """Read a file from a byte on.

        :param begin: called with the size of the file (None if libvirt does not tell); returns the first byte to read. After trouble that
            passes it is called again.
        :param take: gets each piece. An exception from it ends the read.
        :returns: False if the file is not there.
        """

        def fetch(pool: Any) -> bool:
            volume = _volume(pool, name)
            if volume is None:
                return False
            stream = self.conn.newStream(0)
            # A length of 0 means to the end.
            volume.download(stream, begin(_sizes(volume)["physical"]), 0, 0)
            try:
                while True:
                    piece = stream.recv(PIECE)
                    if not piece:
                        break
                    take(piece)
                stream.finish()
            except BaseException:
                _quietly(stream.abort)
                raise
            return True

        return bool(self._within(fetch, missing=False))

    def digest(self, name: str, known: Iterable[Mapping[str, Any]] = ()) -> tuple[str | None, int | None] | None:
        """The digest of a file as digests.of_file() makes it, read through libvirt unless it is known already.

        :param known: dicts path, digest and the stamp (size, modified, changed) that the file had then.
        :returns: ``(digest, size)``; None if the file is not there; a digest of None if it changed while it was read.
        """

        def fetch(pool: Any) -> tuple[str | None, int | None] | None:
            volume = _volume(pool, name)
            if volume is None:
                return None
            stamp = _stamp(volume)
            path = os.path.join(self.path, name)
            for each in known:
                if stamp and os.path.normpath(each["path"]) == path and all(each[key] == value for key, value in stamp.items()):
                    return each["digest"], stamp["size"]
            kept = hashlib.sha256(f"{self._host()}:{path}".encode("utf-8", "surrogateescape")).hexdigest()
            found = digests.recall(kept, stamp) if stamp else None
            if stamp and found:
                return found["digest"], stamp["size"]
            digest = _receive(self.conn, volume)
            pool.refresh(0)
            again = _volume(pool, name)
            if again is None or _stamp(again) != stamp:
                return None, None
            if stamp:
                digests.keep(kept, stamp, digest=digest)
            return digest, _sizes(volume)["physical"]

        return self._within(fetch, missing=None)

    # -- the pool ----------------------------------------------------------------------------

    def _within(self, action: Callable[[Any], Any], build: bool = False, **missing: Any) -> Any:
        """Call ``action(pool)`` with a running, fresh pool on the folder."""
        trouble = None
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(PAUSE)
            undo = None
            try:
                pool, undo = self._pool(build)
                if pool is None:
                    if "missing" in missing:
                        return missing["missing"]
                    raise LibvirtProblem(f"The folder {self.path} does not exist on {self.conn.getHostname()}.")
                pool.refresh(0)
                return action(pool)
            except libvirt.libvirtError as exc:
                if not binding.is_pool_busy(exc):
                    raise LibvirtProblem(
                        f"libvirt of {self._host()} cannot work in the folder {self.path}: {binding.text_of(exc)}", binding.code_of(exc)
                    ) from exc
                trouble = exc
            finally:
                if undo is not None:
                    _quietly(undo)
        raise LibvirtProblem(f"libvirt of {self._host()} is too busy with the folder {self.path}: {binding.text_of(trouble)}")

    def _host(self) -> str:
        try:
            return self.conn.getHostname()
        except libvirt.libvirtError:
            return "the destination"

    def _pool(self, build: bool) -> tuple[Any, Callable[[], object] | None]:
        """``(pool, what to call after use or None)``; ``(None, None)`` if the folder does not exist."""
        for pool in self.conn.listAllStoragePools(0):
            try:
                target = child_text(parse(pool.XMLDesc(0)), "target/path")
                if target is None or os.path.normpath(target) != self.path:
                    continue
                if pool.isActive():
                    return pool, (pool.destroy if pool.name().startswith(PREFIX) else None)
                # A person keeps it stopped: it is stopped again after use.
                pool.create(0)
                return pool, pool.destroy
            except libvirt.libvirtError as exc:
                if binding.code_of(exc) == libvirt.VIR_ERR_NO_STORAGE_POOL:
                    continue
                raise
        name = PREFIX + hashlib.sha256(self.path.encode()).hexdigest()[:16]
        flags = libvirt.VIR_STORAGE_POOL_CREATE_WITH_BUILD if build else 0
        try:
            pool = self.conn.storagePoolCreateXML(_pool_xml(name, self.path), flags)
        except libvirt.libvirtError as exc:
            if _is_missing(exc):
                return None, None
            raise
        return pool, pool.destroy


def _quietly(call: Callable[[], object]) -> None:
    try:
        call()
    except libvirt.libvirtError:
        pass


def _volume(pool: Any, name: str) -> Any:
    try:
        return pool.storageVolLookupByName(name)
    except libvirt.libvirtError as exc:
        if binding.code_of(exc) == libvirt.VIR_ERR_NO_STORAGE_VOL:
            return None
        raise


def _sizes(volume: Any) -> dict[str, Any]:
    kind, capacity, allocation = volume.info()
    try:
        physical = volume.infoFlags(libvirt.VIR_STORAGE_VOL_GET_PHYSICAL)[2]
    except libvirt.libvirtError:
        physical = None
    root = parse(volume.XMLDesc(0))
    image_format, modified = root.find("target/format"), child_text(root, "target/timestamps/mtime")
    return {
        "capacity": int(capacity),
        "allocation": int(allocation),
        "physical": None if physical is None else int(physical),
        "format": image_format.get("type") if image_format is not None else None,
        "modified": None if modified is None else float(modified),
    }


def _stamp(volume: Any) -> dict[str, Any] | None:
    """As digests.stamp_of() of the file that a volume is; None where libvirt does not tell."""
    root = parse(volume.XMLDesc(0))
    modified, changed = (child_text(root, f"target/timestamps/{name}") for name in ("mtime", "ctime"))
    size = _sizes(volume)["physical"]
    if modified is None or changed is None or size is None:
        return None
    return {"size": size, "modified": _nanoseconds(modified), "changed": _nanoseconds(changed)}


def _nanoseconds(text: str) -> str:
    """libvirt leaves the part after the point out where it is zero."""
    seconds, dummy, rest = text.partition(".")
    return f"{seconds}.{rest.ljust(9, '0')}"


def _receive(conn: Any, volume: Any) -> str:
    """Return the digest of a volume's content."""
    found, stream = digests.Digest(), conn.newStream(0)
    volume.download(stream, 0, 0, libvirt.VIR_STORAGE_VOL_DOWNLOAD_SPARSE_STREAM)
    try:
        stream.sparseRecvAll(lambda dummy, data, dummy2: found.data(data), lambda dummy, length, dummy2: found.hole(length), None)
        stream.finish()
    except BaseException:
        _quietly(stream.abort)
        raise
    return found.end()


def _send(conn: Any, volume: Any, handle: BinaryIO, progress: Callable[[int], object] | None) -> None:
    """Upload a file into a volume with its holes."""
    descriptor = handle.fileno()
    total = os.fstat(descriptor).st_size
    stream = conn.newStream(0)
    volume.upload(stream, 0, total, libvirt.VIR_STORAGE_VOL_UPLOAD_SPARSE_STREAM)

    def data(_stream: Any, count: int, _opaque: Any) -> bytes:
        chunk = os.read(descriptor, count)
        if progress is not None:
            progress(os.lseek(descriptor, 0, os.SEEK_CUR))
        return chunk

    def hole(_stream: Any, _opaque: Any) -> tuple[bool, int]:
        """``(is data here, bytes up to where that changes)``."""
        here = os.lseek(descriptor, 0, os.SEEK_CUR)
        if here >= total:
            return False, 0
        try:
            start = os.lseek(descriptor, here, os.SEEK_DATA)
        except OSError as exc:
            if exc.errno == errno.ENXIO:
                # Nothing but hole until the end.
                os.lseek(descriptor, here, os.SEEK_SET)
                return False, total - here
            start = here
        if start > here:
            os.lseek(descriptor, here, os.SEEK_SET)
            return False, start - here
        try:
            end = os.lseek(descriptor, here, os.SEEK_HOLE)
        except OSError:
            end = total
        os.lseek(descriptor, here, os.SEEK_SET)
        return True, end - here

    def skip(_stream: Any, length: int, _opaque: Any) -> int:
        os.lseek(descriptor, length, os.SEEK_CUR)
        return 0

    try:
        stream.sparseSendAll(data, hole, skip, None)
        stream.finish()
    except BaseException:
        _quietly(stream.abort)
        raise
