# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures that the tests share: PostgreSQL, and the collection installed from its archive."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ansible_collections.drover.compute.tests.unit.awx import shipped


@pytest.fixture(scope="session")
def collections(tmp_path_factory):
    """A folder of collections with ours, built and installed."""
    base = tmp_path_factory.mktemp("installed")
    galaxy = os.path.join(os.path.dirname(sys.executable), "ansible-galaxy")
    for words in (
        ("build", str(shipped.ROOT), "--output-path", str(base)),
        (
            "install",
            "drover-compute-*.tar.gz",
            "--collections-path",
            str(base),
            "--no-deps",
            "--offline",
        ),
    ):
        words = [str(next(base.glob(word))) if "*" in word else word for word in words]
        done = subprocess.run(
            [galaxy, "collection", *words],
            cwd=base,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            env={**os.environ, "HOME": str(base), "ANSIBLE_COLLECTIONS_PATH": str(base)},
        )
        assert done.returncode == 0, done.stdout
    return base
