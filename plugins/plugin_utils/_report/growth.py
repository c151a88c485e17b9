# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sentences on the day on which a fleet is full. Data in, data out."""

from __future__ import annotations

from collections.abc import Iterable

from .._common.resource_classes import words_of
from .._records.history import UseForecast
from . import formatting

#: The name of a class for people, and the form of its amounts.
_WORDS = {
    "VCPU": ("vCPU", formatting.number),
    "MEMORY_MB": ("Memory", formatting.memory),
    "DISK_GB": ("Disk", formatting.disk),
}


def growth_lines(found: Iterable[UseForecast]) -> list[str]:
    """Write a sentence for each growth."""
    return [_sentence(each) for each in found]


def _sentence(each: UseForecast) -> str:
    name, text_of = _WORDS.get(
        each["resource_class"], (words_of(each["resource_class"]), formatting.number)
    )
    where = f" in the zone {each['zone']}" if each["zone"] else ""
    when = "now" if each["days"] < 1 else f"in {formatting.count(each['days'], 'day')}"
    more = (
        f"{text_of(round(each['per_day']))} more a day"
        if each["per_day"] >= 1
        else "less than 1 more a day"
    )
    return (
        f"{name}{where} is full {when}, if it goes on as from {formatting.date(each['first'])} to"
        f" {formatting.date(each['last'])}: {more}."
    )
