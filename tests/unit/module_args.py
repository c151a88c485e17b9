# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments for modules that run in this process."""

from __future__ import annotations

import contextlib
import json

from ansible.module_utils import basic

try:
    from ansible.module_utils.testing import patch_module_args  # pylint: disable=unused-import
except ImportError:

    @contextlib.contextmanager
    def patch_module_args(args=None):
        """The function of ansible-core since 2.19."""
        before, basic._ANSIBLE_ARGS = (
            basic._ANSIBLE_ARGS,
            json.dumps({"ANSIBLE_MODULE_ARGS": args or {}}).encode(),
        )
        try:
            yield
        finally:
            basic._ANSIBLE_ARGS = before
