# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible's deprecation warnings: each fails its test."""

from __future__ import annotations

MARK = "[DEPRECATION WARNING]"


def refuse(said: str) -> None:
    """Fail for the deprecation warnings in the output of Ansible."""
    found = sorted({line[line.index(MARK) :] for line in said.splitlines() if MARK in line})
    assert not found, "\n".join(found)
