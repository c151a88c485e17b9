# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fixtures for storage without its server."""

from __future__ import annotations

import contextlib
import os

import pytest

from ansible_collections.drover.compute.plugins.module_utils._files import access
from ansible_collections.drover.compute.tests import parts
from ansible_collections.drover.compute.tests.unit import silent_fs


@pytest.fixture(autouse=True)
def fresh_looks():
    """Forget the paths that did not answer in other tests, and end the children with their
    patches.
    """
    _forget()
    yield
    _forget()


def _forget():
    access._SILENT.clear()
    while access._IDLE:
        access._IDLE.pop().close()


@pytest.fixture
def dead_storage(tmp_path, fresh_looks):
    """Return a folder on a file system with a server that does not answer."""
    folder = tmp_path / "dead storage"
    folder.mkdir()
    with contextlib.ExitStack() as mounts:
        try:
            if os.geteuid() != 0 or not os.path.exists(silent_fs.DEVICE):
                raise OSError(f"this needs root and {silent_fs.DEVICE}")
            mounts.enter_context(silent_fs.mounted(folder))
        except OSError as problem:
            parts.leave_out("The tests of storage that does not answer", str(problem))
        yield folder
