# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The version of the collection."""

from __future__ import annotations

import functools
import json
import pathlib
import re

_ROOT = pathlib.Path(__file__).resolve().parents[3]


@functools.lru_cache(maxsize=1)
def version(root: pathlib.Path = _ROOT) -> str | None:
    """Read the version from MANIFEST.json of an installed collection, or galaxy.yml of a checkout;
    None if neither has it.
    """
    try:
        return str(
            json.loads((root / "MANIFEST.json").read_text(encoding="utf-8"))["collection_info"][
                "version"
            ]
        )
    except (OSError, ValueError, KeyError, TypeError):
        pass
    try:
        match = re.search(
            r"^version:\s*(\S+)", (root / "galaxy.yml").read_text(encoding="utf-8"), re.MULTILINE
        )
    except (OSError, ValueError):
        return None
    return match.group(1) if match else None
