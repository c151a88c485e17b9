# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ssh that libvirt runs for the checks of a move: libvirt is real, ssh records its options and
fails."""

from __future__ import annotations

import os

import pytest

from ansible_collections.drover.compute.plugins.module_utils._libvirt.binding import LibvirtProblem
from ansible_collections.drover.compute.plugins.module_utils._migration import shared_ssh

pytest.importorskip("libvirt")

SHARED = "ControlPath={folder}/ssh-%C"


def program(path, log):
    path.write_text(f'#!/bin/sh\necho "$@" >>{log}\nexit 1\n', encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "records"


@pytest.fixture
def calls(tmp_path, folder, monkeypatch):
    """Return a function that gives the arguments of ssh for a connection to a destination, by its
    URI."""
    (tmp_path / "bin").mkdir()
    log = tmp_path / "log"
    program(tmp_path / "bin" / "ssh", log)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")

    def lines(uri, where=folder):
        with pytest.raises(LibvirtProblem, match="No SSH connection"):
            shared_ssh.open_connection(uri, os.fspath(where))
        return log.read_text(encoding="utf-8").splitlines()

    return lines


def test_first_by_the_login_of_all_then_by_its_own(calls, folder):
    by_all, by_its_own = calls("qemu+ssh://root@kvm2:2222/system")
    assert SHARED.format(folder=folder) in by_all and "ControlMaster=auto" in by_all
    assert "Control" not in by_its_own
    for line in (by_all, by_its_own):
        assert (
            "-p 2222" in line and "-l root" in line and "BatchMode=yes" in line and "kvm2" in line
        )


def test_only_its_owner_can_use_the_login(calls, folder):
    calls("qemu+ssh://root@kvm2/system")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [(path.name, path.stat().st_mode & 0o777) for path in folder.iterdir()] == [
        ("ssh", 0o700)
    ]


def test_a_program_of_the_user_is_the_one_that_runs(calls, tmp_path, folder):
    own = program(tmp_path / "own", tmp_path / "log")
    (line,) = calls(f"qemu+ssh://root@kvm2/system?command={own}")
    assert "Control" not in line and not folder.exists()


def test_a_folder_that_ssh_cannot_take_as_it_stands(calls, tmp_path):
    (line,) = calls("qemu+ssh://root@kvm2/system", tmp_path / "100 %")
    assert "Control" not in line


def test_a_folder_that_cannot_be_written(calls, tmp_path):
    (tmp_path / "file").touch()
    (line,) = calls("qemu+ssh://root@kvm2/system", tmp_path / "file")
    assert "Control" not in line


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_in_which_others_could_write_a_program(calls, folder, mode):
    folder.mkdir()
    folder.chmod(mode)
    (line,) = calls("qemu+ssh://root@kvm2/system")
    assert "Control" not in line and list(folder.iterdir()) == []


def test_the_program_of_another_release_is_replaced(calls, folder):
    folder.mkdir(mode=0o700)
    (folder / "ssh").write_text("#!/bin/sh\nexec true\n", encoding="utf-8")
    (folder / "ssh").chmod(0o700)
    by_all, dummy = calls("qemu+ssh://root@kvm2/system")
    assert SHARED.format(folder=folder) in by_all


def test_keys_and_known_hosts_of_the_uri_stay(calls):
    by_all, by_its_own = calls(
        "qemu+ssh://root@kvm2/system?keyfile=/etc/drover/key&known_hosts=/etc/drover/hosts"
    )
    assert all("-i /etc/drover/key" in line for line in (by_all, by_its_own))
