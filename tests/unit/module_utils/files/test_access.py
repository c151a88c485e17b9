# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads of files that end, for any behaviour of the storage."""

from __future__ import annotations

import concurrent.futures
import contextlib
import errno
import functools
import operator
import os
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.module_utils._files import access

#: A program that gets a dead file system as its argument, and prints its results.
LOOKS_AT_DEAD_STORAGE = """
import os, sys
from ansible_collections.drover.compute.plugins.module_utils._files import access
try:
    access.call(os.stat, sys.argv[1], limit=0.3)
except access.Unresponsive as exc:
    print(exc)
"""


@pytest.fixture
def pipe(tmp_path):
    """Return a named pipe without a writer: an open for reading waits for ever."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return str(path)


def read(path):
    with open(path, "rb") as handle:
        return handle.read()


def descriptors():
    links = []
    for name in sorted(os.listdir("/proc/self/fd"), key=int):
        # The descriptor of the list itself is closed.
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(f"/proc/self/fd/{name}"))
    return links


def children():
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return [int(pid) for pid in file.read().split()]


def test_what_a_function_returns_and_raises_arrives(tmp_path):
    path = str(tmp_path / "file")
    with pytest.raises(FileNotFoundError) as missing:
        access.call(os.stat, path)
    assert (missing.value.errno, missing.value.filename) == (errno.ENOENT, path)
    (tmp_path / "file").write_bytes(b"x" * 3_000_000)
    assert access.call(os.stat, path) == os.stat(path)
    assert len(access.call(read, path)) == 3_000_000
    assert access.call(lambda: len(path)) == len(path)
    with pytest.raises(ZeroDivisionError):
        access.call(operator.truediv, 1, 0)
    with pytest.raises(
        RuntimeError, match="cannot pickle|can't pickle|Can't pickle|Can't get local object"
    ):
        access.call(lambda: lambda: None)


@given(st.lists(st.tuples(st.integers(), st.integers(-2, 2)), max_size=30))
def test_many_looks_are_answered_as_each_alone_in_their_order(many):
    for (good, value), (one, other) in zip(access.call_each(divmod, many), many, strict=True):
        if other == 0:
            assert not good and isinstance(value, ZeroDivisionError)
        else:
            assert (good, value) == (True, divmod(one, other))


def test_one_child_looks_again_and_again_and_has_nothing_of_ours():
    (looker,) = {access.call(os.getpid) for dummy in range(10)}
    assert looker != os.getpid()
    with open(__file__, "rb"):
        links = access.call(descriptors)
    assert links[:3] == [os.devnull] * 3 and len(links) == 4 and links[3].startswith("socket:")


def test_a_child_that_dies_is_replaced():
    os.kill(access.call(os.getpid), signal.SIGKILL)
    assert access.call(abs, -1) == 1
    with pytest.raises(access.Unresponsive, match="did not end at all"):
        access.call(lambda: os._exit(1))
    with pytest.raises(access.Unresponsive, match="did not answer at all"):
        access.call(lambda path: os._exit(1), "/etc/passwd")


def test_a_fork_has_children_of_its_own():
    access.call(abs, -1)
    ours = access.call(os.getpid)
    ear, mouth = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(mouth, str(access.call(os.getpid)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert int(os.read(ear, 16)) not in (ours, child, os.getpid())
    assert access.call(os.getpid) == ours
    os.close(ear)
    os.close(mouth)


def test_threads_look_at_the_same_time():
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        began = time.monotonic()
        assert list(pool.map(functools.partial(access.call, abs), range(-400, 0))) == list(
            range(400, 0, -1)
        )
        list(pool.map(lambda dummy: access.call(time.sleep, 0.5), range(8)))
        assert time.monotonic() - began < 3
    assert len(access._IDLE) <= access.KEPT


def test_storage_nothing_waits_for_a_pipe(pipe, tmp_path, fresh_looks):
    (tmp_path / "other").write_text("x")
    with pytest.raises(access.Unresponsive) as late:
        access.call(read, pipe, limit=0.3)
    assert str(late.value).startswith(
        f"{pipe} on {os.uname().nodename} did not answer within 0.3 s, though its file system does"
    )
    assert (late.value.place, late.value.path) == (pipe, pipe)
    # The dead path is not tried again, and its neighbour is read.
    began = time.monotonic()
    with pytest.raises(access.Unresponsive, match="did not answer before"):
        access.call(read, pipe)
    assert time.monotonic() - began < 5
    assert access.call(read, str(tmp_path / "other")) == b"x"


def test_a_pipe_in_the_place_of_a_file_is_refused(pipe, tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    with pytest.raises(OSError, match="no regular file"):
        access.open_regular(pipe)
    with pytest.raises(OSError, match="no regular file"):
        access.open_regular(str(tmp_path))
    with access.open_regular(str(tmp_path / "file")) as handle:
        assert handle.read() == b"abc"


def test_storage_dead_storage_is_asked_once(dead_storage, tmp_path):
    """A thousand disks on dead storage cost as much time as one, also disks behind a link."""
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "a").symlink_to(dead_storage / "folder")
    (tmp_path / "alive").write_text("x")
    many = [(f"{dead_storage}/disk{number}",) for number in range(500)]
    many[250:250] = [(str(tmp_path / "alive"),), (f"{tmp_path}/link/disk",)]
    began = time.monotonic()
    answers = access.call_each(os.stat, many, limit=0.5)
    assert time.monotonic() - began < 15
    assert [good for good, dummy in answers] == [args[0].endswith("alive") for args in many]
    first, last, linked = answers[0][1], answers[-1][1], answers[251][1]
    sentence = (
        f"did not answer within 0.5 s: look at the server of what is mounted at {dead_storage}, or"
        " unmount it."
    )
    assert str(first) == f"{dead_storage}/disk0 on {os.uname().nodename} {sentence}"
    assert "did not answer before" in str(last)
    assert {each.place for each in (first, last, linked)} == {str(dead_storage)}
    assert linked.path == f"{dead_storage}/folder/disk"
    assert access.real_path(f"{tmp_path}/link/disk") == linked.path


def test_storage_that_comes_back_is_looked_at_again(dead_storage, monkeypatch):
    with pytest.raises(access.Unresponsive):
        access.call(os.stat, str(dead_storage), limit=0.3)
    with pytest.raises(access.Unresponsive, match="before"):
        access.call(os.stat, str(dead_storage), limit=0.3)
    monkeypatch.setattr(access.time, "monotonic", lambda real=time.monotonic: real() + access.AGAIN)
    with pytest.raises(access.Unresponsive, match="within 0.3 s"):
        access.call(os.stat, str(dead_storage), limit=0.3)


def test_storage_a_process_ends_though_its_child_cannot(dead_storage):
    """SSH's session would last as long as any process has the module's output open."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    script = subprocess.Popen(
        [sys.executable, "-c", LOOKS_AT_DEAD_STORAGE, str(dead_storage)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    said, dummy = script.communicate(timeout=30)
    assert script.returncode == 0 and f"{dead_storage} on" in said


def test_children_that_ended_are_taken_leave_of(fresh_looks, pipe):
    before = set(children())
    for number in range(5):
        with pytest.raises(access.Unresponsive):
            access.call(lambda path: time.sleep(600), f"{pipe}{number}", limit=0.05)
    for dummy in range(50):
        with pytest.raises(access.Unresponsive):
            access.call(lambda path: time.sleep(600), f"{pipe}x{dummy}", limit=0.05)
        if len(set(children()) - before) <= 4:
            break
    assert len(set(children()) - before) <= 4
