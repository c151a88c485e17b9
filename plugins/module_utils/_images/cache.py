# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cache of images of one hypervisor. A file gets its name after its checksum is verified. A
file without users is removed.

Private to the collection. The name of a file is its checksum. As in Nova, the file is in the folder
_base below the folder of instances. A note beside the file records that this collection has made
it. An incomplete file has a temporary name and a lock. The next run continues the work of a killed
run.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import http.client
import io
import os
import re
import time
from collections.abc import Iterator
from typing import Any, BinaryIO
from urllib.error import HTTPError, URLError

from ansible.module_utils.urls import ConnectionError as UrlProblem
from ansible.module_utils.urls import open_url

from .._files import access, checksums
from .._libvirt.binding import LibvirtProblem, close, host_name, open_connection, uri_host
from .._ownership import ownership
from .._ownership.folder import Folder
from .._ownership.move_record import KeptFile
from .._storage import backing
from . import rbd_images
from .images import GIB, ImageProblem, put_in_place
from .notes import CACHE, NAME, NOTE, read_note, stamp, write_note

#: The name of an incomplete file.
PART = ownership.TEMPORARY + "image-{digits}.part"
_PART = re.compile(re.escape(ownership.TEMPORARY) + r"image-([0-9a-f]{64}|[0-9a-f]{128})\.part")

#: The name of a file from the controller, in the folder of instances.
_UPLOAD = re.compile(re.escape(ownership.TEMPORARY) + r"upload-[0-9a-f-]{36}")

#: The shortest time in seconds between the last new instance of a file and its removal. Nova:
#: remove_unused_original_minimum_age_seconds.
UNUSED = 86400

CHUNK = 1 << 20
#: The time limit in seconds for an answer of a server.
ANSWER = 30


class ImageUnfinished(Exception):
    """The error at the end of the time of a call.

    ``size``: the bytes so far. ``total``: the bytes of the whole image; None if the size is
    unknown.
    """

    def __init__(self, size: int, total: int | None) -> None:
        super().__init__()
        self.size, self.total = size, total


class UnreadableSource(ImageProblem):
    """The error for a source that this host cannot read."""


class AbsentSource(UnreadableSource):
    """The error for a source with a path that does not exist on this host."""


def read_checksum(text: str, name: str) -> tuple[str, str]:
    """Return ``(algorithm, digits)`` of a checksum such as ``sha256:...``."""
    checksum = checksums.read(text.strip().lower())
    if checksum is None:
        raise ImageProblem(
            f"The checksum of the image {name} is {text!r}: give sha256: or sha512: and its"
            " hexadecimal digits."
        )
    return checksum


class OtherContent(ImageProblem):
    """The source has given other content. If a part of it was left by another run, that part may
    have been of an older source.
    """


class CachedImage:
    """One image of the cache.

    :param folder: the folder of instances.
    :param name: the name for messages.
    :param checksum: the checksum of the file, with the algorithm.
    """

    def __init__(self, folder: str, name: str, checksum: str) -> None:
        self._name = name
        self._algorithm, digits = read_checksum(checksum, name)
        if not os.path.isabs(folder):
            raise ImageProblem(f"The folder {folder!r} is not absolute: give the full path.")
        self.folder = os.path.join(folder, CACHE)
        self.path = os.path.join(self.folder, digits)
        #: Bytes that the file had when this call began.
        self.begun = 0
        self._note, self._part = (
            self.path + NOTE,
            os.path.join(self.folder, PART.format(digits=digits)),
        )

    def is_there(self) -> bool:
        """Return True if the image is in the cache with the right content.

        :raises ImageProblem: another file has its name.
        """
        try:
            status = os.lstat(self.path)
        except FileNotFoundError:
            return False
        note = read_note(self._note)
        if note is not None and note == stamp(status):
            return True
        # There is no note, or the file was changed since.
        if (
            os.path.isfile(self.path)
            and not os.path.islink(self.path)
            and self._digest(self.path) == os.path.basename(self.path)
        ):
            return True
        raise ImageProblem(
            f"The file {self.path} on {host_name()} is not the image {self._name}: its checksum is"
            " another one. Nothing was overwritten: find out what has changed it, and move it"
            " away."
        )

    def mark_used(self) -> None:
        """Record the use of the image for a new instance, so that no cleaning removes it as
        unused.
        """
        with contextlib.suppress(FileNotFoundError):
            os.utime(self._note)
        if _is_same(self._part, os.lstat(self.path)):
            # A run was killed while the file had both names.
            ownership.drop_temporary(self._part)

    def bring(
        self, url: str | None, path: str | None, seconds: float, peer: str | None = None
    ) -> bool:
        """Bring the image into the cache. The next call continues the work of this call.

        :param url, path: the source, exactly one of them; the path is on this host, or on ``peer``.
        :param peer: the libvirt URI of another hypervisor.
        :param seconds: the time of this call. A source that cannot be read in parts is read to its
            end.
        :returns: False if another call has brought the image in the meantime.
        :raises ImageUnfinished: the time is over.
        :raises ImageProblem: the image cannot be brought, or its checksum is wrong.
        """
        deadline = time.monotonic() + seconds
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.folder, mode=0o755)
            with self._lock_file(deadline) as part:
                if self.is_there():
                    ownership.drop_temporary(self._part)
                    return False
                try:
                    self._write_source(part, url, path, peer, deadline)
                except ImageProblem:
                    if not os.fstat(part.fileno()).st_size:
                        ownership.drop_temporary(self._part)
                    raise
                self._finish(part)
                return True
        except OSError as exc:
            if exc.errno in (errno.ENOSPC, errno.EDQUOT):
                ownership.drop_temporary(self._part)
            raise ImageProblem(
                f"The image {self._name} cannot be written to {self.folder} on {host_name()}:"
                f" {exc.strerror or exc}."
            ) from exc

    # -- parts -------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _lock_file(self, deadline: float) -> Iterator[BinaryIO]:
        """Open the temporary file; no other process writes to it during the ``with`` block."""
        while True:
            with os.fdopen(
                os.open(self._part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600),
                "r+b",
            ) as part:
                try:
                    fcntl.flock(part, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if time.monotonic() >= deadline:
                        raise ImageUnfinished(os.fstat(part.fileno()).st_size, None) from None
                    time.sleep(0.2)
                    continue
                # The process that had the lock may have given the file its name, or removed it.
                if _is_same(self._part, os.fstat(part.fileno())):
                    self.begun = part.seek(0, os.SEEK_END)
                    yield part
                    return

    def _write_source(
        self, part: BinaryIO, url: str | None, path: str | None, peer: str | None, deadline: float
    ) -> None:
        """Write the source to the file, and verify the checksum.

        :raises OtherContent: the checksum is wrong; the file is removed.
        """
        source = f"{path} of {uri_host(peer)}" if peer else url or path
        total = (
            self._copy_of_peer(part, peer, path or "", deadline)
            if peer
            else self._copy(part, url, path, deadline)
        )
        part.flush()
        if total is not None and part.tell() < total:
            raise UnreadableSource(
                f"The image {self._name} was cut off: {source} gave {part.tell()} of {total} bytes"
                f" to {host_name()}. Run this again, which goes on from there."
            )
        digest = self._digest_of(part)
        if digest == os.path.basename(self.path):
            return
        ownership.drop_temporary(self._part)
        raise OtherContent(
            f"What {source} gives {host_name()} is not the image {self._name}: its"
            f" {self._algorithm} is {digest}, not {os.path.basename(self.path)}. The copy was"
            " removed, the source is as before: correct the checksum, or the source."
        )

    def _copy(
        self, part: BinaryIO, url: str | None, path: str | None, deadline: float
    ) -> int | None:
        """Write a source of this host to the file. Return the size of the whole image; None if it
        is unknown.
        """
        begun = part.seek(0, os.SEEK_END)
        with (
            self._opened_url(url, begun) if url else self._opened_path(path or "") as (
                source,
                start,
                total,
                parts,
            )
        ):
            self._continue_at(part, start, total)
            while True:
                try:
                    piece = source.read(CHUNK)
                except (OSError, http.client.HTTPException) as exc:
                    raise UnreadableSource(
                        f"The image {self._name} cannot be read from {url or path} on"
                        f" {host_name()}: {exc}."
                    ) from exc
                if not piece:
                    return total
                self._write_piece(part, piece, total, deadline if parts else None)

    def _copy_of_peer(self, part: BinaryIO, peer: str, path: str, deadline: float) -> int | None:
        """Write a file of another hypervisor to the file, through the libvirt of that hypervisor.
        Return the size of the image; None if it is unknown.
        """
        total: int | None = None

        def begin(size: int | None) -> int:
            nonlocal total
            total, there = size, part.seek(0, os.SEEK_END)
            start = there if size is not None and there <= size else 0
            self._continue_at(part, start, size)
            return start

        def take(piece: bytes) -> None:
            if total is not None and part.tell() + len(piece) > total:
                ownership.drop_temporary(self._part)
                raise OtherContent(
                    f"{uri_host(peer)} gives more than the {total} bytes of its file {path}. Look"
                    " at that host."
                )
            self._write_piece(part, piece, total, deadline)

        conn = None
        folder, name = os.path.split(path)
        try:
            conn = open_connection(peer)
            has_file = Folder(conn, folder).download(name, begin, take)
        except LibvirtProblem as exc:
            raise UnreadableSource(
                f"The image {self._name} cannot be copied from {uri_host(peer)} to {host_name()}:"
                f" {str(exc).rstrip('.')}."
            ) from exc
        finally:
            close(conn)
        if not has_file:
            raise UnreadableSource(f"{uri_host(peer)} has no file {path} any more.")
        return total

    def _continue_at(self, part: BinaryIO, start: int, total: int | None) -> None:
        """Continue at a byte of the file.

        :raises ImageProblem: the file system has too little room for the rest."""
        if start != part.seek(0, os.SEEK_END):
            part.truncate(start)
        part.seek(start)
        self._refuse_no_room(None if total is None else total - start)

    @staticmethod
    def _write_piece(
        part: BinaryIO, piece: bytes, total: int | None, deadline: float | None
    ) -> None:
        """Write a piece; after the deadline raise Unfinished."""
        part.write(piece)
        if deadline is not None and time.monotonic() >= deadline:
            part.flush()
            raise ImageUnfinished(part.tell(), total)

    def _refuse_no_room(self, more: int | None) -> None:
        found = os.statvfs(self.folder)
        free = found.f_bavail * found.f_frsize
        if more is not None and more > free:
            ownership.drop_temporary(self._part)
            raise ImageProblem(
                f"The image {self._name} needs {more / GIB:.2f} GiB in {self.folder} on"
                f" {host_name()}, and {free / GIB:.2f} GiB are free: make room there."
            )

    @contextlib.contextmanager
    def _opened_path(self, path: str) -> Iterator[tuple[BinaryIO, int, int | None, bool]]:
        """Open a file of this host, and yield (file, first byte to read after the present part,
        size of the whole, True if the read can be continued later).
        """
        try:
            source = open(path, "rb")  # noqa: SIM115  # pylint: disable=consider-using-with
        except FileNotFoundError:
            raise AbsentSource(
                f"The source {path} of the image {self._name} does not exist on {host_name()}."
            ) from None
        except OSError as exc:
            raise UnreadableSource(
                f"The source {path} of the image {self._name} cannot be read on {host_name()}:"
                f" {exc.strerror}."
            ) from exc
        with source:
            begun, total = os.path.getsize(self._part), os.fstat(source.fileno()).st_size
            start = begun if begun <= total else 0
            source.seek(start)
            yield source, start, total, True

    @contextlib.contextmanager
    def _opened_url(self, url: str, begun: int) -> Iterator[tuple[Any, int, int | None, bool]]:
        """Open a URL, and yield the same values as _opened_path()."""
        if not url.startswith(("http://", "https://")):
            raise ImageProblem(
                f"The source {url} of the image {self._name} is no URL of http or https: give one,"
                " or an absolute path."
            )
        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={begun}-"} if begun else {})}
        try:
            answer = open_url(url, headers=headers, timeout=ANSWER, decompress=False)
        except HTTPError as exc:
            if exc.code == 416 and begun:
                # The source has no bytes after the present part.
                yield io.BytesIO(), begun, None, False
                return
            raise UnreadableSource(
                f"{url} answers {host_name()}: {exc.code} {exc.reason}. Correct the source of the"
                f" image {self._name}."
            ) from exc
        except (URLError, UrlProblem, OSError, http.client.HTTPException, ValueError) as exc:
            why = getattr(exc, "reason", None) or exc
            raise UnreadableSource(
                f"The image {self._name} cannot be read from {url} on {host_name()}: {why}."
            ) from exc
        with contextlib.closing(answer):
            start = begun if answer.status == 206 else 0
            length = answer.headers.get("Content-Length")
            total = start + int(length) if length and length.isdigit() else None
            yield (
                answer,
                start,
                total,
                answer.status == 206 or answer.headers.get("Accept-Ranges") == "bytes",
            )

    def _digest(self, path: str) -> str:
        try:
            with open(path, "rb") as file:
                return self._digest_of(file)
        except OSError as exc:
            raise ImageProblem(
                f"The file {path} on {host_name()} cannot be read: {exc.strerror}."
            ) from exc

    def _digest_of(self, file: BinaryIO) -> str:
        hasher = hashlib.new(self._algorithm)
        file.seek(0)
        for piece in iter(lambda: file.read(CHUNK), b""):
            hasher.update(piece)
        return hasher.hexdigest()

    def _finish(self, part: BinaryIO) -> None:
        """Write the note, then give the file its name. A file without a note does not belong to
        this collection.
        """
        names = backing.references_of(self._part)
        if names:
            ownership.drop_temporary(self._part)
            raise ImageProblem(
                f"The image {self._name} is backed by another file, which it would have to have on"
                " each host. It was removed: make it whole with qemu-img convert, and give its new"
                " checksum."
            )
        os.fchmod(part.fileno(), 0o644)
        os.fsync(part.fileno())
        write_note(self._note, stamp(os.fstat(part.fileno())))
        try:
            put_in_place(self._part, self.path)
        finally:
            ownership.drop_temporary(self._part)
        _sync(self.folder)


def _is_same(path: str, found: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.lstat(path), found)
    except FileNotFoundError:
        return False


def _sync(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# -- cleaning ----------------------------------------------------------------------------------


class Cleaning:
    """The removal of unused files of a cache that this collection has made.

    :param conn: libvirt of this host.
    :param folder: the folder of instances.
    :param elsewhere: the needs and possible needs of other hosts, see elsewhere_of() in
        _ownership.needs.
    :ivar kept: files that stay, dicts path and reason.
    """

    def __init__(self, conn: Any, folder: str, elsewhere: list[Any]) -> None:
        self._above, self._folder, self._elsewhere, self._conn = (
            folder,
            os.path.join(folder, CACHE),
            elsewhere,
            conn,
        )
        self.kept: list[KeptFile] = []
        self._parts: list[str] = []
        self._own: ownership.Ownership | None = None

    def sort_out(self) -> list[str]:
        """Return the paths of the files to remove. Put the other files into ``kept``."""
        candidates, self._parts, self.kept = [], [], []
        for folder, of_the_moment in ((self._above, _UPLOAD), (self._folder, _PART)):
            parts = [
                os.path.join(folder, name)
                for name in _names_in_folder(folder)
                if of_the_moment.fullmatch(name)
            ]
            self._parts += [path for path in parts if _is_abandoned(path)]
        for name in _names_in_folder(self._folder):
            path = os.path.join(self._folder, name)
            if NAME.fullmatch(name):
                why, inode = _why_not(path)
                if why:
                    self.kept.append({"path": path, "reason": why})
                else:
                    candidates.append(ownership.RemovalCandidate(path, by_use=True, inode=inode))
        self._own = ownership.Ownership(
            self._conn, None, None, candidates, self._elsewhere, [self._above]
        )
        going = self._own.sort_out()
        self.kept += self._own.kept + rbd_images.kept(self._conn)
        return going + self._parts

    def remove(self) -> list[str]:
        """Remove the files that sort_out() has found. Return the paths."""
        if self._own is None:
            return []
        self._own.kept = []
        self._own.remove(patient=True)
        self.kept += self._own.kept
        for path in self._own.removed:
            with contextlib.suppress(FileNotFoundError):
                ownership.drop_state(path + NOTE)
        for path in self._parts:
            ownership.drop_temporary(path)
        return self._own.removed + self._parts


def _names_in_folder(folder: str) -> list[str]:
    try:
        return sorted(access.call(os.listdir, folder))
    except FileNotFoundError:
        return []


def _why_not(path: str) -> tuple[str | None, tuple[int, int] | None]:
    """Return the reason to keep a file of the cache, and its identity: ``(reason or None, (device,
    inode))``.
    """
    note = read_note(path + NOTE)
    status = os.lstat(path)
    if note is None or note.get("inode") != status.st_ino or note.get("size") != status.st_size:
        return "nothing proves that drover has made it", None
    used = os.stat(path + NOTE).st_mtime
    if time.time() - used < UNUSED:
        return f"an instance was made of it in the last {UNUSED // 3600} hours", None
    return None, (status.st_dev, status.st_ino)


def _is_abandoned(path: str) -> bool:
    """Return True if a killed run left an incomplete file long ago."""
    try:
        with open(path, "rb") as part:
            fcntl.flock(part, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return time.time() - os.fstat(part.fileno()).st_mtime > UNUSED
    except OSError:
        return False
