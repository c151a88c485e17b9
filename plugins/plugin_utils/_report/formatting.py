# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures and times in words, for pages and terminals."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Mapping, Sequence

#: The amount from which on the next larger unit is used.
_NEXT = 1024
#: The units of counts, and of sizes that the store has in MiB and in GiB.
COUNT, MEMORY, DISK = ("",), ("MiB", "GiB", "TiB", "PiB"), ("GiB", "TiB", "PiB")
#: Control characters, and characters that turn the direction of the following text, are shown as an
#: unknown character.
_HIDDEN = dict.fromkeys(
    [
        *range(0x20),
        *range(0x7F, 0xA0),
        0x61C,
        0x200E,
        0x200F,
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
    ],
    "\ufffd",
) | {0x9: " ", 0xA: " ", 0xD: " "}


def clean(text: str) -> str:
    """Replace the characters that could change the text beside them."""
    if text.isascii() and text.isprintable():
        return text
    return text.translate(_HIDDEN).encode("utf-8", "replace").decode("utf-8")


def number(value: float | None) -> str | None:
    """Write ``3``, ``1.5`` or ``10,863``; None stays None."""
    return None if value is None else _rounded(value, 1)


def count(value: int, word: str) -> str:
    """Write ``1 host`` or ``10,863 hosts``."""
    return f"{number(value)} {word}{'' if value == 1 else 's'}"


def size(value: float) -> str:
    """Write a size in three digits, without its unit: ``2``, ``1.95``, ``63.5``, ``252``."""
    return _rounded(value, 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0)


def memory(mib: float | None) -> str | None:
    """Write MiB in a suitable unit: ``512 MiB``, ``63.5 GiB``."""
    return _format_size(mib, MEMORY)


def disk(gib: float | None) -> str | None:
    """Write GiB in a suitable unit: ``20 GiB``, ``1.95 TiB``."""
    return _format_size(gib, DISK)


def disks(gib: float | None, pools: Mapping[str, int] | None) -> str | None:
    """Write GiB beside the GiB in further storage pools: ``20 GiB + 2 GiB san``."""
    if not pools:
        return disk(gib)
    parts = [disk(gib)] if gib else []
    return " + ".join(
        [*map(str, parts), *(f"{disk(amount)} {name}" for name, amount in sorted(pools.items()))]
    )


@functools.lru_cache(maxsize=1024)
def _format_size(value: float | None, units: Sequence[str]) -> str | None:
    if value is None:
        return None
    exponent = _exponent(value, units)
    return f"{size(value / _NEXT**exponent)} {units[exponent]}".rstrip()


def _exponent(value: float, units: Sequence[str]) -> int:
    """Return the position of a suitable unit for a value."""
    exponent = 0
    while exponent < len(units) - 1 and abs(value) >= _NEXT ** (exponent + 1):
        exponent += 1
    return exponent


def share(used: float | None, capacity: float | None, units: Sequence[str] = COUNT) -> str | None:
    """Write the used part of a capacity, in a suitable unit for the capacity: ``87/128 67%``,
    ``201/252 GiB 79%``; None without a capacity.
    """
    if not capacity and not used:
        return None
    capacity = capacity or 0
    exponent = _exponent(capacity, units)
    amounts = "/".join(size(value / _NEXT**exponent) for value in (used or 0, capacity))
    full = percent(used or 0, capacity)
    return " ".join(filter(None, (amounts, units[exponent], None if full is None else f"{full}%")))


def _rounded(value: float, digits: int) -> str:
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if digits else text


def percent(part: float | None, whole: float | None) -> int | None:
    """Return a share as a whole number, rounded down, so that only a full one is 100; None without
    a whole.
    """
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
    """Write ``40 s``, ``12 min`` or ``3 h 30 min``."""
    if seconds is None:
        return None
    if seconds < 120:
        return f"{number(seconds)} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")


def age(seconds: float) -> str:
    """Write the time since an event: ``less than a minute``, ``4 min``, ``3 h``, ``2 days``."""
    for unit, size, least in (("days", 86400, 2), ("h", 3600, 2), ("min", 60, 1)):
        if seconds >= least * size:
            return f"{int(seconds // size)} {unit}"
    return "less than a minute"


def ago(seconds: float | None) -> str | None:
    """Write ``4 min ago``, or ``just now`` for less than a minute; None stays None."""
    if seconds is None:
        return None
    return "just now" if seconds < 60 else f"{age(seconds)} ago"


def _utc(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, tz=datetime.timezone.utc)
