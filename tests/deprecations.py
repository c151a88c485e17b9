# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible's deprecation warnings: each fails its test, except for the code of other collections."""

from __future__ import annotations

MARK = "[DEPRECATION WARNING]"
#: awx.awx imports this. In our code ansible-test sanity refuses it.
OF_OTHERS = "from 'ansible.module_utils._text' is deprecated"


def refuse(said: str) -> None:
    """Fail for the deprecation warnings in the output of Ansible."""
    found = sorted(
        {
            line[line.index(MARK) :]
            for line in said.splitlines()
            if MARK in line and OF_OTHERS not in line
        }
    )
    assert not found, "\n".join(found)
