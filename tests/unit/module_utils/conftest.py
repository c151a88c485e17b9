# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fixtures that tests of module_utils share."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.module_utils._files import digests
from ansible_collections.drover.compute.tests.unit.dead_storage import dead_storage, fresh_looks  # noqa: F401  pylint: disable=unused-import


@pytest.fixture(autouse=True)
def own_digests(tmp_path_factory, monkeypatch):
    """Keep digests for the length of a test only."""
    folder = str(tmp_path_factory.mktemp("digests"))
    monkeypatch.setattr(digests, "folder", lambda: folder)
    return folder
