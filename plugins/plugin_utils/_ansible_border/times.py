# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Times in results: seconds since 1970, and beside each of them the same in ISO 8601."""

from __future__ import annotations

from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._report import formatting

ISO = "_iso"


def with_iso(value: Any) -> Any:
    """Copy a result with ``created_at_iso`` beside each ``created_at``, and so on; None stays None.

    :param value: nested dicts and lists. The keys of times are ``last_seen_up`` and all that end in ``_at``.
    """
    if isinstance(value, dict):
        found: dict[Any, Any] = {}
        for key, item in value.items():
            found[key] = with_iso(item) if isinstance(item, (dict, list)) else item
            if _is_time(key, item):
                found[key + ISO] = None if item is None else formatting.exact(item)
        return found
    if isinstance(value, list):
        return [with_iso(item) if isinstance(item, (dict, list)) else item for item in value]
    return value


def _is_time(key: Any, value: Any) -> bool:
    named = isinstance(key, str) and (key.endswith("_at") or key == "last_seen_up")
    return named and (value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)))
