# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The digest of a file: equal for each way of reading, different for different content, and
computed once while the file is unchanged."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.module_utils._files import access, digests

KIB = 1024


@pytest.fixture
def small(monkeypatch):
    """Set pieces of four blocks, blocks of 4 KiB, and no waiting time before a digest of a file is
    kept."""
    monkeypatch.setattr(digests, "BLOCK", 4 * KIB)
    monkeypatch.setattr(digests, "PIECE", 16 * KIB)
    monkeypatch.setattr(digests, "_ZEROS", bytes(4 * KIB))
    monkeypatch.setattr(digests, "SETTLED", -5)


def watch(monkeypatch, note):
    """Call ``note(arguments)`` before each piece that is read. (Another process may read the
    piece.)"""
    real = access.call

    def call(function, *args, **more):
        if function is digests._piece:
            note(args)
        return real(function, *args, **more)

    monkeypatch.setattr(access, "call", call)


parts = st.lists(st.tuples(st.booleans(), st.integers(0, 40 * KIB)), max_size=6)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(parts, st.lists(st.integers(1, 9 * KIB), min_size=1, max_size=4), st.integers(0, 200 * KIB))
def test_however_it_is_read(small, tmp_path, parts, steps, change):
    """The digest is the same from a file with holes, from a file without, and from a stream of
    bytes and holes of any lengths."""
    content = b"".join(
        bytes([65 + number]) * length if data else bytes(length)
        for number, (data, length) in enumerate(parts)
    )
    full, sparse = tmp_path / "full", tmp_path / "sparse"
    full.write_bytes(content)
    stream = digests.Digest()
    with open(sparse, "wb") as file:
        for number, (data, length) in enumerate(parts):
            if not data:
                file.seek(length, os.SEEK_CUR)
                stream.hole(length)
                continue
            file.write(bytes([65 + number]) * length)
            step = steps[number % len(steps)]
            for start in range(0, length, step):
                stream.data(bytes([65 + number]) * min(step, length - start))
        file.truncate(len(content))
    digest = stream.end()
    assert digests.of_file(str(full))[0] == digests.of_file(str(sparse))[0] == digest
    # Another byte, or another length that consists of zeros.
    other = bytearray(content + b"\0")
    assert _of(tmp_path, other) != digest
    other[change % len(other)] ^= 1
    assert (
        _of(tmp_path, other[: len(content)] if change % len(other) < len(content) else other)
        != digest
    )


def _of(folder, content):
    path = folder / "other"
    path.write_bytes(bytes(content))
    found = digests.of_file(str(path))[0]
    path.unlink()
    return found


def test_it_is_read_once_and_again_when_it_has_changed(small, tmp_path, monkeypatch):
    path = tmp_path / "base"
    path.write_bytes(b"a" * 100 * KIB)
    read = []
    watch(monkeypatch, read.append)
    first, stamp = digests.of_file(str(path))
    assert len(read) == 7 and digests.of_file(str(path)) == (first, stamp) and len(read) == 7
    # Same length and old time of change, as after "cp -p": its inode differs.
    status = os.stat(path)
    path.write_bytes(b"b" * 100 * KIB)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    second, dummy = digests.of_file(str(path))
    assert second != first and len(read) == 14


def test_what_has_just_changed_is_not_remembered(tmp_path, own_digests):
    path = tmp_path / "base"
    path.write_bytes(b"a")
    assert digests.of_file(str(path))[0] and os.listdir(own_digests) == []


def test_a_long_file_is_read_over_several_calls(small, tmp_path, monkeypatch):
    path = tmp_path / "base"
    path.write_bytes(os.urandom(100 * KIB))
    whole = digests.of_file(str(path))[0]
    copy = tmp_path / "copy"
    copy.write_bytes(path.read_bytes())
    now, read = [0.0], []

    def note(args):
        now[0] += 1
        read.append(args)

    watch(monkeypatch, note)
    monkeypatch.setattr(digests.time, "monotonic", lambda: now[0])
    found = [digests.of_file(str(copy), seconds=3)[0] for dummy in range(4)]
    assert found == [None, None, whole, whole] and len(read) == 7


def test_what_changes_while_it_is_read_has_none(small, tmp_path, monkeypatch):
    path = tmp_path / "base"
    path.write_bytes(b"a" * 100)
    watch(monkeypatch, lambda args: path.write_bytes(b"b" * 101))
    assert digests.of_file(str(path))[0] is None
    with pytest.raises(OSError):
        digests.of_file(str(tmp_path))
