# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions of hypervisors, and predicates about them."""

from __future__ import annotations

import operator
import re

_PREDICATE = re.compile(r"^\s*(<=|>=|<|>|==|!=)\s*([0-9]+(?:\.[0-9]+)*)\s*$")
_COMPARE = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
}


def as_tuple(number):
    """libvirt's number N as (N / 10^6, N / 10^3 mod 10^3, N mod 10^3)."""
    return (number // 1000000, number // 1000 % 1000, number % 1000)


def predicates(text):
    """Comma-joined predicates such as ``>=1.0, <2.0`` as [(function, version tuple)].

    :raises ValueError: with words.
    """
    found = []
    for part in text.split(","):
        match = _PREDICATE.match(part)
        if not match:
            raise ValueError(f"must be like '>=1.0, <2.0', not {text!r}")
        version = [int(each) for each in match.group(2).split(".")]
        while len(version) > 1 and not version[-1]:
            version.pop()
        found.append((_COMPARE[match.group(1)], tuple(version)))
    return found


def satisfied(number, text):
    """Does libvirt's version number satisfy all predicates?"""
    version = list(as_tuple(number))
    while len(version) > 1 and not version[-1]:
        version.pop()
    return all(compare(tuple(version), wanted) for compare, wanted in predicates(text))
