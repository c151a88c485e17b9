# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of an exported store: JSON lines that show if the file is complete.

The first line is the header, {"drover_store": {"format": 2, "revision": ..., "exported_at": ..., "columns": {TABLE: [COLUMN, ...]}}};
then one line for each row, {"TABLE": [value, ...]}, tables one after another; the last line is
{"end": {"rows": {TABLE: n}, "checksums": {TABLE: sha256 of its lines}, "file": sha256 of the header and the checksums}}.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Protocol, TypedDict

from ..._common.errors import DroverError

FORMAT = 2
# Bytes that are read at a time: rows of more do not fit into the caches of a CPU, which takes twice as long.
_BLOCK = 2**14
# One encoder serves all values: json.dumps() would create one for each value.
_encode = json.JSONEncoder(separators=(",", ":")).encode
# No encoded text has a line feed, so this separates values that have no further values in them.
_encode_together = json.JSONEncoder(separators=("\n", ":")).encode
_HEADER, _END = "drover_store", "end"
# The limit of a line; it is longer than any line: the longest values of a store are the XML of
# domains.
_LONGEST = 64 * 2**20


class End(TypedDict):
    """The last line of an export; the export is checked with it."""

    #: {table: number of its rows}.
    rows: dict[str, int]
    #: {table: SHA-256 of its lines}.
    checksums: dict[str, str]
    #: SHA-256 of the first line and the checksums.
    file: str


class Sink(Protocol):
    """A binary file, as far as an export is written to it."""

    def write(self, data: bytes, /) -> object: ...


class Writer:
    """Writes the lines of an export to a binary file, and counts and sums them."""

    def __init__(self, file: Sink) -> None:
        self._file = file
        self._whole = hashlib.sha256()
        self._sums: dict[str, str] = {}
        self._columns: dict[str, list[str]] = {}
        self.rows: dict[str, int] = {}

    def header(self, revision: str, now: float, columns: Mapping[str, Sequence[str]]) -> None:
        """Write the first line.

        :param columns: the columns of each table, in the order of the values of its rows.
        """
        self._columns = {name: list(each) for name, each in columns.items()}
        line = _encoded(
            {
                _HEADER: {
                    "format": FORMAT,
                    "revision": revision,
                    "exported_at": now,
                    "columns": self._columns,
                }
            }
        )
        self._whole.update(line)
        self._file.write(line)

    def table(self, name: str, blocks: Iterable[Sequence[Sequence[Any]]]) -> None:
        """Write the rows of a table.

        :param blocks: some rows at a time, of plain types: for each column the values of all of them.
        """
        digest, count = hashlib.sha256(), 0
        line = f"{_beginning(name)}{','.join(['%s'] * len(self._columns[name]))}]}}\n"
        for block in blocks:
            lines = "".join(map(line.__mod__, zip(*map(each_encoded, block)))).encode("ascii")
            digest.update(lines)
            self._file.write(lines)
            count += len(block[0])
        self._sums[name], self.rows[name] = digest.hexdigest(), count
        self._whole.update(_summed(name, digest.hexdigest()))

    def end(self) -> End:
        """Write the last line, and return its content."""
        end: End = {"rows": self.rows, "checksums": self._sums, "file": self._whole.hexdigest()}
        self._file.write(_encoded({_END: end}))
        return end


class Export:
    """An export file that is complete and unchanged, open for reading. Use ``with``."""

    def __init__(self, path: str) -> None:
        """Open and check the file.

        :raises DroverError: there is no such file, it is no export, or it was cut or edited.
        """
        self.path = path
        with readable(path):
            self._file = _open(path)
        try:
            with readable(path):
                self.header, self.end, self._places = self._verified()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Export:
        return self

    def __exit__(self, *dummy: object) -> None:
        self._file.close()

    @property
    def rows(self) -> dict[str, int]:
        """Count the rows of each table."""
        return self.end["rows"]

    def table(self, name: str, columns: Sequence[str]) -> Iterator[list[list[Any]]]:
        """Read the rows of one table, some at a time, each as its values in the order of ``columns``.

        :raises KeyError: a row has other columns.
        """
        if self.header["columns"].get(name) != list(columns):
            raise KeyError(f"its columns are {self.header['columns'].get(name)}")
        beginning = _beginning(name).encode("ascii")
        between = b"]}\n" + beginning
        with readable(self.path):
            place, end = self._places[name]
            self._file.seek(place)
            while place < end:
                block = self._block(end - place)
                if not block:
                    raise self._broken("it is cut")
                place += len(block)
                # Decoded together, which is faster than one by one. No encoded text has a line feed, so all of these are between two rows.
                text = block[len(beginning) : -len(b"]}\n")].replace(between, b"],[")
                rows: list[list[Any]] = json.loads(b"[[" + text + b"]]")
                if set(map(len, rows)) != {len(columns)}:
                    others = [row for row in rows if len(row) != len(columns)]
                    raise KeyError(f"a row has {len(others[0])} values")
                yield rows

    def _verified(self) -> tuple[dict[str, Any], End, dict[str, tuple[int, int]]]:
        """Check the sums of the whole file.

        :returns: its header, its end, and where each table begins and ends in it (bytes).
        """
        whole, place = hashlib.sha256(), 0
        sums: dict[str, Any] = {}
        rows: dict[str, int] = {}
        places: dict[str, tuple[int, int]] = {}
        last: bytes | None = None
        header: dict[str, Any] | None = None
        name, beginning = None, b""
        for block in iter(self._block, b""):
            for lines, count in _pieces(block, beginning):
                if last is not None:
                    raise self._broken("something follows its end")
                if header is None:
                    header = self._header(lines)
                    whole.update(lines)
                elif lines.startswith(b'{"end":'):
                    last = lines
                    continue
                else:
                    # Most lines are of the table of the line before.
                    if not (beginning and lines.startswith(beginning)):
                        name = _table(lines)
                        beginning = _beginning(name or "").encode("ascii", "replace")
                    if name is None or not lines.endswith(b"\n"):
                        raise self._broken(f"line {sum(rows.values()) + 2} is no row")
                    if name not in sums:
                        sums[name], rows[name], places[name] = hashlib.sha256(), 0, (place, place)
                    start, end = places[name]
                    if end != place:
                        raise self._broken(f"the rows of {name} are not together")
                    sums[name].update(lines)
                    rows[name] += count
                    places[name] = start, place + len(lines)
                place += len(lines)
        if header is None:
            raise self._broken("it is empty")
        if last is None:
            raise self._broken("it is cut")
        said = self._end(last)
        for name in said["checksums"]:
            whole.update(_summed(name, sums.get(name, hashlib.sha256()).hexdigest()))
        if said["file"] != whole.hexdigest():
            raise self._broken("its checksum is another")
        for name, count in said["rows"].items():
            # A table without rows has no line.
            if (rows.get(name, 0), sums.get(name, hashlib.sha256()).hexdigest()) != (
                count,
                said["checksums"].get(name),
            ):
                raise self._broken(f"the rows of {name} are others than its last line says")
            places.setdefault(name, (0, 0))
        if set(rows) - set(said["rows"]):
            raise self._broken("it has tables that its last line does not name")
        return header, said, places

    def _block(self, left: int = _BLOCK) -> bytes:
        """Read some whole lines.

        :param left: the number of remaining bytes; a line ends at their end.
        """
        block = self._file.read(min(left, _BLOCK))
        return block if block.endswith(b"\n") else block + self._file.readline(_LONGEST)

    def _header(self, line: bytes) -> dict[str, Any]:
        try:
            header: dict[str, Any] = json.loads(line)[_HEADER]
            if header["format"] == FORMAT:
                header["revision"], header["exported_at"], dict(header["columns"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise DroverError(
                f"{self.path} is no export of a store: its first line does not say so. "
                "Give the file that drover.compute.store wrote with state=exported; nothing was imported."
            ) from None
        if header["format"] != FORMAT:
            raise DroverError(
                f"{self.path} is an export of format {header['format']!r}; this drover.compute reads {FORMAT}. Import it "
                "with the version of the collection that wrote it, then upgrade; nothing was imported."
            )
        return header

    def _end(self, line: bytes) -> End:
        try:
            end: End = json.loads(line)[_END]
            whole = isinstance(end["file"], str) and set(end["rows"]) == set(end["checksums"])
        except (ValueError, KeyError, TypeError, RecursionError):
            whole = False
        if not whole:
            raise self._broken("its last line is cut")
        return end

    def _broken(self, how: str) -> DroverError:
        return DroverError(
            f"{self.path} is not as it was exported: {how}. Export the store again, or fetch the file again; nothing was imported."
        )


def check_folder(path: str) -> None:
    """Refuse a path at which no file can be made.

    :raises DroverError: the folder is missing or may not be written, or the path is a folder.
    """
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        reason = "it is a folder"
    elif not os.path.isdir(folder):
        reason = f"there is no folder {folder}"
    elif not os.access(folder, os.W_OK | os.X_OK):
        reason = f"you may not write into the folder {folder}"
    else:
        return
    raise DroverError(
        f"The export {path} cannot be written: {reason}. Give a path in a folder that you may write."
    )


@contextlib.contextmanager
def replacing(path: str) -> Iterator[tuple[BinaryIO, Callable[[], None]]]:
    """Open a new binary file, and give a function that puts it at ``path`` in one step.

    Only its owner may read it. If the function is not called, the file is removed.

    :raises DroverError: the path cannot be written, or the disk is full.
    """
    check_folder(path)
    folder, name = os.path.split(os.path.abspath(path))
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{name[:100]}.", dir=folder)
        with os.fdopen(handle, "wb", buffering=2**20) as file:

            def commit() -> None:
                file.flush()
                os.fsync(file.fileno())
                os.replace(temporary, path)

            yield file, commit
    except OSError as problem:
        raise DroverError(
            f"The export {path} cannot be written: {problem.strerror}. What was there before is still there."
        ) from problem
    finally:
        if temporary is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)


@contextlib.contextmanager
def readable(path: str) -> Iterator[None]:
    """Turn errors of reading into DroverErrors."""
    try:
        yield
    except OSError as problem:
        raise DroverError(
            f"The export {path} cannot be read: {problem.strerror}. Give the path of an export."
        ) from problem


def _open(path: str) -> BinaryIO:
    # The file is opened without blocking: a named pipe may never have a writer.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise DroverError(f"{path} is no regular file. Give the path of an export.")
    return os.fdopen(handle, "rb", buffering=2**20)


def _beginning(name: str) -> str:
    """Return the beginning of each row of a table."""
    return f"{{{_encode(name)}:["


def _summed(name: str, checksum: str) -> bytes:
    """Return the part of a table that is in the checksum of the file."""
    return _encoded([name, checksum])


def _encoded(value: Any) -> bytes:
    return _encode(value).encode("ascii") + b"\n"


def each_encoded(values: Sequence[Any]) -> list[str]:
    """Encode values together, which is faster than one by one."""
    if isinstance(next((each for each in values if each is not None), None), (dict, list)):
        # A text between each two of them, that hardly any of them has.
        mixed: list[Any] = ["\0"] * (2 * len(values) - 1)
        mixed[::2] = values
        found = _encode(mixed)[1:-1].split(',"\\u0000",')
    else:
        found = _encode_together(values)[1:-1].split("\n")
    return found if len(found) == len(values) else list(map(_encode, values))


def _pieces(block: bytes, beginning: bytes) -> Iterable[tuple[bytes, int]]:
    """Return the lines of a block, each with the number 1; return them as one, with their number,
    if the first and the last have the same beginning.

    A line of another table between these two has a checksum of no table.
    """
    if beginning and block.startswith(beginning) and block.endswith(b"\n"):
        last = block.rfind(b"\n", 0, -1) + 1
        if block.startswith(beginning, last):
            return [(block, block.count(b"\n"))]
    return zip(io.BytesIO(block), itertools.repeat(1))


def _table(line: bytes) -> str | None:
    """Return the name of a row's table without decoding the row; None for another line."""
    if not line.startswith(b'{"'):
        return None
    name, colon, dummy = line[2:130].partition(b'":[')
    return name.decode("ascii", "replace") if colon else None
