# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes of memory and disks as people write them: 4096, "4GiB", "4G", "1.5T"."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from . import validation
from .errors import DroverError
from .validation import MOST, Refusal

#: The units of stored sizes, in bytes.
MIB, GIB = "MiB", "GiB"
_BYTES = {MIB: 1 << 20, GIB: 1 << 30}
_LETTERS = "KMGTP"
_SIZE = re.compile(rf"([0-9]{{1,18}}(?:\.[0-9]{{1,9}})?)\s*([{_LETTERS}])(iB|B)?", re.IGNORECASE)

#: A size as a text, for JSON Schema.
PATTERN = rf"^\s*[0-9]+(\.[0-9]+)?(\s*[{_LETTERS}{_LETTERS.lower()}]([iI]?[bB])?)?\s*$"


def read(where: str, value: Any, unit: str, least: int = 0, refuse: Refusal = DroverError) -> int:
    """Return a size in MIB or GIB.

    A number without a unit counts in that unit. K, M, G, T and P are powers of 1024, with or
    without iB, as in libvirt and QEMU. KB, MB and so on are powers of 1000, as in libvirt.

    :param where: the beginning of the sentence, such as ``instance web1: memory_mb``.
    :raises DroverError: or the exception of ``refuse``; it is not a size, not whole in the unit, or
        below ``least``.
    """
    if isinstance(value, str):
        found = _SIZE.fullmatch(value.strip())
        if found is not None:
            size = _bytes_of(found[1], found[2], (found[3] or "").lower() == "b") / _BYTES[unit]
            if size.denominator != 1:
                raise refuse(
                    f"{where} is {value.strip()}, which is not a whole number of {unit}. Write"
                    f" {_around(size, unit, least)}."
                )
            value = int(size)
        else:
            value = int(value) if re.fullmatch(r"\s*[+-]?[0-9]{1,20}\s*", value) else value
    if not validation.is_whole(value, least):
        raise refuse(
            f"{where} must be a whole number of {unit} from {least} to {MOST}, or a size such as"
            f" 512MiB, 4GiB or 2T, not {validation.shown(value)}."
        )
    return int(value)


def _bytes_of(number: str, letter: str, decimal: bool) -> Fraction:
    """Return a size in bytes."""
    return Fraction(number) * (1000 if decimal else 1024) ** (_LETTERS.index(letter.upper()) + 1)


def _around(size: Fraction, unit: str, least: int) -> str:
    """Return the whole sizes on both sides of one that is not whole."""
    below = size.numerator // size.denominator
    return " or ".join(f"{each}{unit}" for each in (below, below + 1) if each >= max(least, 1))
