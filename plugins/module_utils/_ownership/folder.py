# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files in a folder of another hypervisor, with access only through libvirt.

Private to the collection. libvirt accesses files through storage pools. This module uses the
existing pool of the folder, or makes a temporary pool.
"""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO

from .._files import digests
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, libvirt
from .._libvirt.xml import child_text, parse
from .move_record import FileStat, KnownImage
from .ownership import delete_volume

#: The prefix of temporary pools of this collection. A call that finds such a pool removes it after
#: use.
PREFIX = "drover-tmp-"

#: The number of attempts if a pool disappears or is busy, and the pause between two attempts
#: (seconds).
ATTEMPTS = 30
PAUSE = 0.5

#: The bytes of one piece of a file. libvirt sends at most so much in one message.
PIECE = 256 << 10


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _pool_xml(name: str, path: str) -> str:
    return (
        f"<pool type='dir'><name>{name}</name><target><path>{_escape(path)}</path></target></pool>"
    )


def _is_missing(error: Any) -> bool:
    return binding.number_of(error) == errno.ENOENT


class Folder:
    """A folder of the hypervisor behind ``conn``. Every method raises :class:`LibvirtProblem`."""

    def __init__(self, conn: Any, path: str) -> None:
        self.conn = conn
        self.path = os.path.normpath(path)

    def is_seen(self) -> bool:
        """Return True if the hypervisor has the folder.

        libvirt refuses to start a pool on a missing one. No pool is refreshed, since that reads all
        its files.
        """
        return bool(self._within(lambda pool: True, refresh=False, missing=False))

    def stat(self, name: str) -> FileStat | None:
        """Return the sizes and the age of a file; None without the file."""

        def look(pool: Any) -> FileStat | None:
            volume = _volume(pool, name)
            return None if volume is None else _sizes(volume)

        return self._within(look, missing=None)

    def room(self) -> tuple[int, int] | None:
        """Return the free bytes and all bytes of the file system of the folder; None if the folder
        does not exist yet.
        """

        def look(pool: Any) -> tuple[int, int]:
            dummy, capacity, dummy, available = pool.info()
            return available, capacity

        return self._within(look, missing=None)

    def create(self, name: str, capacity: int, image_format: str) -> None:
        """Make an empty image, and the folder if it is missing. libvirt refuses if the file
        exists.
        """

        # Without compat, libvirt makes qcow2 files of the oldest version.
        compat = "<compat>1.1</compat>" if image_format == "qcow2" else ""

        def make(pool: Any) -> None:
            pool.createXML(
                f"<volume><name>{_escape(name)}</name><capacity>{int(capacity)}</capacity><allocation>0</allocation>"
                "<target><format"
                f" type='{image_format}'/>{compat}<permissions><mode>0600</mode></permissions></target></volume>",
                0,
            )

        self._within(make, build=True)

    def drop(self, name: str) -> bool:
        """Remove a file after why_copy_stays() has allowed it. Return True if the file existed."""

        def delete(pool: Any) -> bool:
            volume = _volume(pool, name)
            if volume is None:
                return False
            delete_volume(volume)
            return True

        return self._within(delete, missing=False)

    def upload(self, name: str, path: str, progress: Callable[[int], object] | None = None) -> None:
        """Fill the file from the local file ``path`` and keep the holes. Call ``progress(bytes)``
        now and then.
        """

        def send(pool: Any) -> None:
            volume = _volume(pool, name)
            if volume is None:
                raise LibvirtProblem(
                    f"{name} has vanished from {self.path} on {self.conn.getHostname()} while it"
                    " was filled."
                )
            with open(path, "rb") as handle:
                _send(self.conn, volume, handle, progress)

        self._within(send)

    def download(
        self, name: str, begin: Callable[[int | None], int], take: Callable[[bytes], object]
    ) -> bool:
        """Read a file from a given byte to its end.

        :param begin: a function that gets the size of the file (None if libvirt does not report it)
            and returns the first byte to read. After a temporary error it is called again.
        :param take: a function that gets each piece. Its exceptions end the read.
        :returns: False if the file does not exist.
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

    def digest(
        self, name: str, known: Iterable[KnownImage] = ()
    ) -> tuple[str | None, int | None] | None:
        """Return the digest of a file, the same as from digests.of_file(). Read the file through
        libvirt if it is unknown.

        :param known: dicts path, digest and the stamp of the file at that time (size, modified,
            changed).
        :returns: ``(digest, size)``; None if the file does not exist; ``(None, None)`` if it
            changed during the read.
        """

        def fetch(pool: Any) -> tuple[str | None, int | None] | None:
            volume = _volume(pool, name)
            if volume is None:
                return None
            stamp = _stamp(volume)
            path = os.path.join(self.path, name)
            for image in known:
                if (
                    stamp
                    and os.path.normpath(image["path"]) == path
                    and image["size"] == stamp["size"]
                    and image["modified"] == stamp["modified"]
                    and image["changed"] == stamp["changed"]
                ):
                    return image["digest"], stamp["size"]
            kept = hashlib.sha256(
                f"{self._host()}:{path}".encode("utf-8", "surrogateescape")
            ).hexdigest()
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

    def _within(
        self,
        action: Callable[[Any], Any],
        build: bool = False,
        refresh: bool = True,
        **missing: Any,
    ) -> Any:
        """Call ``action(pool)`` with a running pool on the folder, fresh with ``refresh``."""
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
                    raise LibvirtProblem(
                        f"The folder {self.path} does not exist on {self.conn.getHostname()}."
                    )
                if refresh:
                    pool.refresh(0)
                return action(pool)
            except libvirt.libvirtError as exc:
                if not binding.is_pool_busy(exc):
                    raise LibvirtProblem(
                        f"libvirt of {self._host()} cannot work in the folder {self.path}:"
                        f" {binding.text_of(exc)}",
                        binding.code_of(exc),
                    ) from exc
                trouble = exc
            finally:
                if undo is not None:
                    _quietly(undo)
        raise LibvirtProblem(
            f"libvirt of {self._host()} is too busy with the folder {self.path}:"
            f" {binding.text_of(trouble)}"
        )

    def _host(self) -> str:
        try:
            return self.conn.getHostname()
        except libvirt.libvirtError:
            return "the destination"

    def _pool(self, build: bool) -> tuple[Any, Callable[[], object] | None]:
        """Return ``(pool, function to call after use or None)``; ``(None, None)`` if the folder
        does not exist.
        """
        try:
            pool = self._own_pool()
            if pool is None:
                name = PREFIX + hashlib.sha256(self.path.encode()).hexdigest()[:16]
                flags = libvirt.VIR_STORAGE_POOL_CREATE_WITH_BUILD if build else 0
                pool = self.conn.storagePoolCreateXML(_pool_xml(name, self.path), flags)
            elif pool.isActive():
                return pool, (pool.destroy if pool.name().startswith(PREFIX) else None)
            else:
                # The operator keeps this pool stopped: stop it again after use.
                pool.create(0)
        except libvirt.libvirtError as exc:
            if _is_missing(exc):
                return None, None
            raise
        return pool, pool.destroy

    def _own_pool(self) -> Any:
        """Return the pool that has this folder; None if there is none."""
        for pool in self.conn.listAllStoragePools(0):
            try:
                target = child_text(parse(pool.XMLDesc(0)), "target/path")
            except libvirt.libvirtError as exc:
                if binding.code_of(exc) == libvirt.VIR_ERR_NO_STORAGE_POOL:
                    continue
                raise
            if target is not None and os.path.normpath(target) == self.path:
                return pool
        return None


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


def _sizes(volume: Any) -> FileStat:
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


def _stamp(volume: Any) -> digests.Stamp | None:
    """Return the stamp of the file of a volume, the same as from digests.stamp_of(); None if
    libvirt does not report it.
    """
    root = parse(volume.XMLDesc(0))
    modified, changed = (
        child_text(root, f"target/timestamps/{name}") for name in ("mtime", "ctime")
    )
    size = _sizes(volume)["physical"]
    if modified is None or changed is None or size is None:
        return None
    return {"size": size, "modified": _nanoseconds(modified), "changed": _nanoseconds(changed)}


def _nanoseconds(text: str) -> str:
    """Return a time of libvirt with nine digits after the point. libvirt omits these digits if they
    are zero.
    """
    seconds, dummy, rest = text.partition(".")
    return f"{seconds}.{rest.ljust(9, '0')}"


def _receive(conn: Any, volume: Any) -> str:
    """Return the digest of the content of a volume."""
    digest, stream = digests.Digest(), conn.newStream(0)
    volume.download(stream, 0, 0, libvirt.VIR_STORAGE_VOL_DOWNLOAD_SPARSE_STREAM)
    try:
        stream.sparseRecvAll(
            lambda dummy, data, dummy2: digest.data(data),
            lambda dummy, length, dummy2: digest.hole(length),
            None,
        )
        stream.finish()
    except BaseException:
        _quietly(stream.abort)
        raise
    return digest.end()


def _send(
    conn: Any, volume: Any, handle: BinaryIO, progress: Callable[[int], object] | None
) -> None:
    """Upload a file with its holes into a volume."""
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
        """Return ``(True for data and False for a hole, bytes up to the next change)``."""
        offset = os.lseek(descriptor, 0, os.SEEK_CUR)
        if offset >= total:
            return False, 0
        try:
            start = os.lseek(descriptor, offset, os.SEEK_DATA)
        except OSError as exc:
            if exc.errno == errno.ENXIO:
                # The rest of the file is a hole.
                os.lseek(descriptor, offset, os.SEEK_SET)
                return False, total - offset
            start = offset
        if start > offset:
            os.lseek(descriptor, offset, os.SEEK_SET)
            return False, start - offset
        try:
            end = os.lseek(descriptor, offset, os.SEEK_HOLE)
        except OSError:
            end = total
        os.lseek(descriptor, offset, os.SEEK_SET)
        return True, end - offset

    def skip(_stream: Any, length: int, _opaque: Any) -> int:
        os.lseek(descriptor, length, os.SEEK_CUR)
        return 0

    try:
        stream.sparseSendAll(data, hole, skip, None)
        stream.finish()
    except BaseException:
        _quietly(stream.abort)
        raise
