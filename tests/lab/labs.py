# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab with hosts of other kinds, for one file of tests alone."""

from __future__ import annotations

import contextlib
import os
import pathlib
import typing

import pytest
from lablib import layout as lab_layout
from test_fleet import MARK, Fleet, clean

from conftest import HERE, Lab, run


@contextlib.contextmanager
def separate(folder: pathlib.Path, *words: str) -> typing.Iterator[Lab]:
    """Yield a lab, and remove it at the end. Skip the tests if the machine lacks what it needs.

    :param words: the options of ``lab up``.
    """
    command = [os.fspath(HERE / "lab"), "--folder", os.fspath(folder)]
    try:
        done = run([*command, "up", *words], check=False)
        if done.returncode == 4:
            pytest.skip(done.stderr.strip().removeprefix("lab: "))
        if done.returncode:
            pytest.fail(done.stdout + done.stderr, pytrace=False)
        lab = Lab(lab_layout.Layout(folder))
        lab.command("install")
        (folder / MARK).touch()
        yield lab
    finally:
        run([*command, "down"], check=False)


@contextlib.contextmanager
def emptied(lab: Lab, folder: pathlib.Path, *words: str) -> typing.Iterator[Fleet]:
    """Yield the hosts without any guest, and a store in a folder that knows them.

    :param words: the options of their discovery.
    """
    clean(lab)
    fleet = Fleet(lab, folder, f"sqlite:///{folder / 'store.db'}")
    fleet.playbook("discover", *words)
    yield fleet
    clean(lab)
