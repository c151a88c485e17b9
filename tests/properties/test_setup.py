# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scripts of tests/setup: the size of all shell scripts, and the check of commits."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONGEST_SCRIPT = 100


def is_shell(path):
    if path.suffix == ".sh":
        return True
    with path.open("rb") as file:
        return bool(re.match(rb"#!.*\b(ba|da)?sh$", file.readline().rstrip()))


def test_shell_scripts_are_short():
    paths = [
        path
        for folder in ("tests", ".ci", "roles", "playbooks", "plugins", "extensions")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and is_shell(path)
    ]
    assert len(paths) > 20
    lines = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in paths}
    assert {name: count for name, count in lines.items() if count > LONGEST_SCRIPT} == {}


@pytest.fixture
def history(tmp_path):
    """Return a function that commits these subjects and returns the hash of the first."""

    def git(*words):
        return subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b.invalid", "-C", tmp_path, *words],
            env={name: value for name, value in os.environ.items() if name != "GIT_DIR"},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    def commit(*subjects):
        git("init", "--quiet", "--template=")
        for subject in subjects:
            git("commit", "--quiet", "--no-gpg-sign", "--allow-empty", "-m", subject)
        return git("rev-list", "--max-parents=0", "HEAD")

    return commit


def check_commits(*words, **environment):
    script = ROOT / "tests" / "setup" / "lint" / "commits.py"
    done = subprocess.run(
        [sys.executable, script, *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert not done.stderr
    return done.returncode, done.stdout


def test_a_long_subject_is_found(history, tmp_path):
    first = history("x" * 99, "y" * 73, "z" * 72)
    status, output = check_commits(tmp_path, first)
    assert status == 1
    assert re.fullmatch(r"[0-9a-f]+ y{73}: 73 characters, and 72 are allowed\n", output)


def test_short_subjects_pass(history, tmp_path):
    assert check_commits(tmp_path, history("x" * 99, "z" * 72)) == (0, "")


def test_an_unknown_history_is_left_out(history, tmp_path):
    """A shallow clone lacks the base commit."""
    history("x" * 99)
    status, output = check_commits(tmp_path)
    assert status == 0 and output.startswith("left out: the history here does not reach back to ")


def test_a_folder_without_history_is_left_out(tmp_path):
    status, output = check_commits(tmp_path)
    assert status == 0 and output.startswith("left out: ") and "not a git repository" in output


def test_a_machine_without_git_is_left_out(tmp_path):
    assert check_commits(tmp_path, PATH=str(tmp_path)) == (0, "left out: git is not installed\n")
