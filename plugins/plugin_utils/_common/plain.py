# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The border between Ansible's values and plain Python ones.

ansible-core 2.19 hands plugins tagged subclasses of str, int, float, list and dict, which YAML and
orjson refuse; and it accepts nothing but plain types in a result.
"""

from __future__ import annotations

import datetime
from typing import Any


def to_plain(value: Any) -> Any:
    """Copy nested data into exact built-in types.

    A date or time, as YAML reads one, becomes the text it is in ISO 8601.

    :param value: None, bool, str, int, float, bytes, date, or dicts, lists, tuples and sets of
        them.
    :raises TypeError: for any other type, so that nothing odd leaks into the store or a result.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if hasattr(value, "items"):
        return {to_plain(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_plain(item) for item in value]
    raise TypeError(f"cannot turn {type(value).__name__} into plain data")
