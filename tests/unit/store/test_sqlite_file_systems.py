# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SQLite on file systems that do not carry a store: of several machines, without locks, full,
read-only.
"""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import subprocess
import sys

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.tests import parts
from ansible_collections.drover.compute.tests.unit.action.running import run
from ansible_collections.drover.compute.tests.unit.store import fleets

SERVER = "/usr/lib/openssh/sftp-server"


def refused(function):
    """Return the sentence of a refusal."""
    with pytest.raises((DroverError, AnsibleActionFail)) as caught:
        function()
    return str(caught.value)


def content(folder):
    """Return {name: content} of the files in a folder."""
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}


def use(url, how):
    """Open a store in one way: upgrade, read, write, together."""
    if how == "upgrade":
        Store.open(url).upgrade()
        return
    store = Store.open(url)
    with store.write(together=True) if how == "together" else getattr(store, how)():
        pytest.fail("it was opened")


@contextlib.contextmanager
def mounted(command, folder):
    try:
        subprocess.run([*command, folder], check=True, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as problem:
        parts.leave_out(
            "The tests of the store on odd file systems",
            f"they need root, /dev/fuse and sshfs (apt-get install sshfs): {problem}",
        )
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def shared(tmp_path):
    """Return (a folder of a server, the folders where two controllers have mounted it)."""
    script = tmp_path / "ssh"
    script.write_text(f"#!/bin/sh\nexec {SERVER}\n")
    script.chmod(0o755)
    folders = [tmp_path / name for name in ("server", "one", "other")]
    for folder in folders:
        folder.mkdir()
    command = ["sshfs", "-o", f"ssh_command={script}", f"server:{folders[0]}"]
    with mounted(command, folders[1]) as one, mounted(command, folders[2]) as other:
        yield folders[0], (one, other)


def test_two_controllers_on_one_file_of_a_network_are_refused(shared):
    """Without the refusal, one of them lost half of the commits of both, with no error."""
    folder, controllers = shared
    for controller in controllers:
        for url in (f"sqlite:///{controller}/store.db", f"sqlite:///{controller}/new/store.db"):
            said = refused(lambda url=url: use(url, "upgrade"))
            assert f"{url} cannot be used: it is on a file system of the type fuse.sshfs" in said
            assert "Nothing was written. Set drover_store_url to a file on a disk" in said
    assert content(folder) == {}


@pytest.mark.parametrize("how", ["upgrade", "read", "write", "together"])
def test_a_store_that_is_on_a_network_already_is_left_alone(shared, prepared_sqlite, how):
    folder, controllers = shared
    shutil.copyfile(prepared_sqlite, folder / "store.db")
    before = content(folder)
    for controller in controllers:
        assert "PostgreSQL" in refused(lambda at=controller: use(f"sqlite:///{at}/store.db", how))
    assert content(folder) == before


CHILD = """
import sys
sys.path.insert(0, {root!r})
import conftest
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
Store.open(sys.argv[1]).upgrade()
"""


@pytest.mark.parametrize("exists", [True, False])
def test_a_file_system_without_locks_is_refused(tmp_path, prepared_sqlite, exists):
    """The kernel answers as for NFS without its lock daemon."""
    if shutil.which("strace") is None:
        parts.leave_out("The tests of a file system without locks", "strace is missing")
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "store.db"
    if exists:
        shutil.copyfile(prepared_sqlite, path)
    before = content(folder)
    root = pathlib.Path(__file__).resolve().parents[3]
    answer = subprocess.run(
        [
            *("strace", "-f", "-o", tmp_path / "calls", "-P", path),
            *("-e", "inject=fcntl:error=ENOLCK"),
            *(sys.executable, "-c", CHILD.format(root=str(root)), f"sqlite:///{path}"),
        ],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    last = answer.stderr.splitlines()[-1]
    assert "its file system has no locks (No locks available), which keep two runs apart" in last
    assert "Nothing was written. Set drover_store_url to a file on a disk" in last
    assert content(folder) == before


@pytest.fixture
def small(tmp_path):
    """Return the folder of a small file system in memory."""
    folder = tmp_path / "small"
    folder.mkdir()
    with mounted(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs"], folder):
        yield folder


def fill(folder):
    """Leave no room on a file system; return the file that has it all."""
    path = pathlib.Path(folder) / "fill"
    with open(path, "wb", 0) as file:
        for size in (65536, 1024):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * size)
    return path


def test_a_new_store_on_a_full_disk(small):
    url, room = f"sqlite:///{small}/store.db", fill(small)
    said = refused(lambda: use(url, "upgrade"))
    assert f"The disk of {small} is full, and this step has written nothing. Make room" in said
    room.unlink()
    fleets.discover(url, fleets.host("kvm1"))
    assert fleets.columns(url)["host"] == ["kvm1"]


def test_a_claim_on_a_full_disk_holds_nothing(small):
    url = f"sqlite:///{small}/store.db"
    fleets.discover(url, fleets.host("kvm1"))

    def place(name):
        return run(
            "allocation",
            selections=[fleets.selection(name, "kvm1")],
            of_definitions=True,
            store_url=url,
        )

    held = set()
    for name in ("web", "db"):
        room = fill(small)
        for _dummy in range(2):
            said = refused(lambda name=name: place(name))
            assert f"The disk of {small} is full, and this step has written nothing." in said
        room.unlink()
        assert set(fleets.holdings(url)) == held
        assert place(name)["changed"] is True
        held.add(fleets.uuid_of(name))
        assert set(fleets.holdings(url)) == held


@pytest.mark.parametrize("how", ["upgrade", "read", "write", "together"])
def test_a_read_only_file_system_is_told(small, how):
    url = f"sqlite:///{small}/store.db"
    fleets.discover(url, fleets.host("kvm1"))
    before = content(small)
    subprocess.run(["mount", "-o", "remount,ro", small], check=True)
    assert f"may not write to {small}/store.db, or its file system is read-only. Give" in refused(
        lambda: use(url, how)
    )
    assert content(small) == before
    other = refused(lambda: use(f"sqlite:///{small}/other.db", "upgrade"))
    assert f"may not make files in {small}, or its file system is read-only" in other
