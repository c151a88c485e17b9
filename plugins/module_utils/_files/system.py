# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operating system of this machine."""

from __future__ import annotations

import re

OS_RELEASE = "/etc/os-release"


def names() -> set[str]:
    """Return the names of this operating system and of similar systems, such as ubuntu and debian
    (os-release(5): ID, ID_LIKE).
    """
    try:
        with open(OS_RELEASE, encoding="utf-8", errors="replace") as file:
            values = re.findall(r"^ID(?:_LIKE)?=(.*)$", file.read(), re.MULTILINE)
    except OSError:
        return set()
    return {word for value in values for word in value.strip().strip("\"'").lower().split()}
