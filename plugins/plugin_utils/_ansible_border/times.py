# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Times in results, in seconds since 1970 and in ISO 8601, and lines as plain text."""

from __future__ import annotations

from typing import Any

from .._report import formatting
from .._report.text import Row

ISO = "_iso"


def with_iso(value: Any) -> Any:
    """Copy a result with ``created_at_iso`` beside each ``created_at``, and so on; None stays None.

    Rows of tables become plain text.

    :param value: nested dicts and lists. The keys of times are ``last_seen_up`` and all keys that
        end in ``_at``.
    """
    if isinstance(value, dict):
        copied: dict[Any, Any] = {}
        for key, item in value.items():
            copied[key] = with_iso(item) if isinstance(item, (dict, list, Row)) else item
            if _is_time(key, item):
                copied[key + ISO] = None if item is None else formatting.exact(item)
        return copied
    if isinstance(value, list):
        return [with_iso(item) if isinstance(item, (dict, list, Row)) else item for item in value]
    return str.__str__(value) if isinstance(value, Row) else value


def _is_time(key: Any, value: Any) -> bool:
    named = isinstance(key, str) and (key.endswith("_at") or key == "last_seen_up")
    return named and (
        value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
    )
