# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that stand in links and commands."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


def host_anchor(name: str, number: int) -> str:
    """Return the id of a host's row, the same in every page for usual names.

    :param number: its place, for a name that cannot stand in an id.
    """
    return f"host-{name}" if _PLAIN.match(name) else f"host-~{number}"


def command(text: str, *names: str | None) -> str | None:
    """Fill names into a command to copy; None if a name has characters that the shell or Ansible would interpret.

    A copied command must not run what somebody wrote into a name.

    :param text: with ``{}`` for each name.
    """
    if not all(name and _PLAIN.match(name) for name in names):
        return None
    return text.format(*names)
