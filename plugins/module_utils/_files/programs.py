# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The environment of programs that a module starts.

Private to the collection.
"""

from __future__ import annotations

import os


def environment() -> dict[str, str]:
    """Return the environment of this process, with messages in English and numbers and times as
    programs write them for each other.
    """
    return {**os.environ, "LC_ALL": "C", "LANGUAGE": "C"}
