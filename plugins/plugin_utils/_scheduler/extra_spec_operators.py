# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operators of extra specs (N2.2); versions of hypervisors, and predicates about them."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable
from typing import Any

NUMERIC = {
    "=": operator.ge,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
}
TEXT = {
    "s==": operator.eq,
    "s!=": operator.ne,
    "s<": operator.lt,
    "s<=": operator.le,
    "s>": operator.gt,
    "s>=": operator.ge,
}
OPERATORS = (*NUMERIC, *TEXT, "<in>", "<all-in>", "<or>")


class ExtraSpecRequirement:
    """The right-hand side of an extra spec, such as ``>= 8`` or ``<or> gold <or> silver``.

    text: as written; operator: one of OPERATORS, or None (the whole text must be equal); operand: a
    number, a text or a list of texts.

    :raises ValueError: an operator has no operand, or a numeric one no number; the message has
        words.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        words = text.split()
        self.operator = words[0] if words and words[0] in OPERATORS else None
        self.operand: Any = text
        if self.operator is None:
            return
        if len(words) < 2:
            raise ValueError(f"the operator {self.operator} must be followed by a value")
        if self.operator in NUMERIC:
            try:
                self.operand = float(words[1])
            except ValueError:
                raise ValueError(
                    f"the operator {self.operator} must be followed by a number"
                ) from None
        elif self.operator == "<or>":
            self.operand = words[1::2]
        elif self.operator == "<all-in>":
            self.operand = words[1:]
        else:
            self.operand = words[1]

    def matches(self, value: str) -> bool:
        """Return True if a host's value, as text, meets the requirement.

        A text in place of a number does not meet it; Nova fails the whole request then, so one odd
        host stops every placement.
        """
        if self.operator is None:
            return value == self.text
        if self.operator in NUMERIC:
            try:
                return bool(NUMERIC[self.operator](float(value), self.operand))
            except ValueError:
                return False
        if self.operator in TEXT:
            return bool(TEXT[self.operator](value, self.operand))
        if self.operator == "<in>":
            return self.operand in value
        if self.operator == "<all-in>":
            return all(word in value for word in self.operand)
        return value in self.operand


@functools.lru_cache(maxsize=1024)
def requirement(text: str) -> ExtraSpecRequirement:
    """Return Requirement(text), parsed once."""
    return ExtraSpecRequirement(text)


_PREDICATE = re.compile(r"^\s*(<=|>=|<|>|==|!=)\s*([0-9]+(?:\.[0-9]+)*)\s*$")
_COMPARE = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
}


def as_tuple(number: int) -> tuple[int, int, int]:
    """Return libvirt's number N as (N / 10^6, N / 10^3 mod 10^3, N mod 10^3)."""
    return (number // 1000000, number // 1000 % 1000, number % 1000)


def predicates(text: str) -> list[tuple[Callable[[Any, Any], bool], tuple[int, ...]]]:
    """Return comma-joined predicates such as ``>=1.0, <2.0`` as [(function, version tuple)].

    :raises ValueError: a predicate is malformed; the message has words.
    """
    predicates_read = []
    for part in text.split(","):
        match = _PREDICATE.match(part)
        if not match:
            raise ValueError(f"must be like '>=1.0, <2.0', not {text!r}")
        version = [int(each) for each in match.group(2).split(".")]
        while len(version) > 1 and not version[-1]:
            version.pop()
        predicates_read.append((_COMPARE[match.group(1)], tuple(version)))
    return predicates_read


def satisfied(number: int, text: str) -> bool:
    """Return True if libvirt's version number satisfies all predicates."""
    version = list(as_tuple(number))
    while len(version) > 1 and not version[-1]:
        version.pop()
    return all(compare(tuple(version), wanted) for compare, wanted in predicates(text))
