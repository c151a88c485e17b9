# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures and times in words, for pages."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from ansible_collections.drover.compute.plugins.plugin_utils.errors import natural as natural

#: From this much on the next larger unit is used.
_NEXT = 1024
#: Control characters, and those that turn the direction of what follows them, are shown as one that is unknown.
_HIDDEN = dict.fromkeys(
    [*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\ufffd"
) | {0x9: " ", 0xA: " ", 0xD: " "}


def clean(text: str) -> str:
    """Replace the characters that could change the text beside them."""
    return text.translate(_HIDDEN).encode("utf-8", "replace").decode("utf-8")


def number(value: float | None) -> str | None:
    """Write ``3``, ``1.5`` or ``10,863``; None stays None."""
    return None if value is None else _rounded(value, 1)


def memory(mib: float | None) -> str | None:
    """Write MiB in the unit that suits: ``512 MiB``, ``63.5 GiB``."""
    return _sized(mib, ("MiB", "GiB", "TiB", "PiB"))


def disk(gib: float | None) -> str | None:
    """Write GiB in the unit that suits: ``20 GiB``, ``1.95 TiB``."""
    return _sized(gib, ("GiB", "TiB", "PiB"))


def _sized(value: float | None, units: Sequence[str]) -> str | None:
    if value is None:
        return None
    place = 0
    while abs(value) >= _NEXT and place < len(units) - 1:
        value /= _NEXT
        place += 1
    # A tenth of a TiB is more than many hosts have.
    return f"{_rounded(value, 2 if units[place] in ('TiB', 'PiB') else 1)} {units[place]}"


def _rounded(value: float, digits: int) -> str:
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".")


def percent(part: float | None, whole: float | None) -> int | None:
    """Return a share as a whole number, rounded down, so that only a full one is 100; None without a whole."""
    if part is None or not whole:
        return None
    return int(100 * part / whole)


def weight(value: float) -> str:
    """Write the weight of a weigher in four digits: ``2``, ``1.987``, ``-1e+06``."""
    return f"{value:.4g}"


def moment(seconds: float | None) -> str | None:
    """Write seconds since 1970 as ``2026-11-21 19:30 UTC``; None stays None."""
    if seconds is None:
        return None
    return f"{_utc(seconds):%Y-%m-%d %H:%M} UTC"


def exact(seconds: float) -> str:
    """Write seconds since 1970 for programs: ``2026-11-21T19:30:00Z``."""
    return f"{_utc(seconds):%Y-%m-%dT%H:%M:%SZ}"


def date(day: int) -> str:
    """Write a day, counted from 1970, as ``2026-11-21``."""
    return f"{_utc(day * 86400):%Y-%m-%d}"


def duration(seconds: float | None) -> str | None:
    """Write ``40 s``, ``12 min`` or ``3.5 h``."""
    if seconds is None:
        return None
    if seconds < 120:
        return f"{number(seconds)} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{number(seconds / 3600)} h"


def age(seconds: float) -> str:
    """Write how long ago something was: ``less than a minute``, ``4 min``, ``3 h``, ``2 days``."""
    for unit, size, least in (("days", 86400, 2), ("h", 3600, 2), ("min", 60, 1)):
        if seconds >= least * size:
            return f"{int(seconds // size)} {unit}"
    return "less than a minute"


def _utc(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, tz=datetime.timezone.utc)
