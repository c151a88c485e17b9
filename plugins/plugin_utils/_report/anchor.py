# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names inside links and commands."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


def host_anchor(name: str, number: int) -> str:
    """Return the id of a host's row: the name of the host, so that each page has the same id.

    :param number: the place of the host in the page, for a name that an id cannot have.
    """
    return f"host-{name}" if _PLAIN.match(name) else f"host-~{number}"


def command(text: str, *names: str | None) -> str | None:
    """Fill names into a command to copy; None if a name has characters that the shell or Ansible
    would interpret.

    A copied command must not execute parts of a name.

    :param text: the command, with ``{}`` for each name.
    """
    if not all(name and _PLAIN.match(name) for name in names):
        return None
    return text.format(*names)
