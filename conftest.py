# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make this checkout importable as ``ansible_collections.drover.compute`` for pytest.

A temporary folder gets the tree ``ansible_collections/drover/compute`` with a link to the checkout;
nothing is written into the checkout. Does nothing where the checkout sits in such a tree already.
"""

from __future__ import annotations

import atexit
import os
import pathlib
import shutil
import sys
import tempfile

_TREE = ("ansible_collections", "drover", "compute")


def _base_folder() -> pathlib.Path:
    """The folder that holds ``ansible_collections``; made if there is none."""
    here = pathlib.Path(__file__).resolve().parent
    if here.parts[-3:] == _TREE:
        return here.parents[2]
    for entry in os.environ.get("ANSIBLE_COLLECTIONS_PATH", "").split(os.pathsep):
        # Made by the process that started this one (pytest-xdist), or by the caller.
        if entry and pathlib.Path(entry, *_TREE).resolve() == here:
            return pathlib.Path(entry)
    base = pathlib.Path(tempfile.mkdtemp(prefix="drover-tests_"))
    link = base.joinpath(*_TREE)
    link.parent.mkdir(parents=True)
    link.symlink_to(here, target_is_directory=True)
    owner = os.getpid()

    def remove() -> None:
        # Tests fork; only the process that made the tree may take it away.
        if os.getpid() == owner:
            shutil.rmtree(base, ignore_errors=True)

    atexit.register(remove)
    return base


def _make_importable() -> None:
    base = str(_base_folder())
    if base not in sys.path:
        sys.path.insert(0, base)
    os.environ["ANSIBLE_COLLECTIONS_PATH"] = base


def _make_surroundings() -> None:
    from ansible_collections.drover.compute.tests import surroundings

    surroundings.make()


_make_importable()
_make_surroundings()
