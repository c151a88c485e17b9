# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A selector of labels, as it was read."""

from __future__ import annotations

from typing import NamedTuple


class Requirement(NamedTuple):
    """What a selector requires of one key: ``key=value``, ``key!=value``, ``key`` or ``!key``."""

    key: str
    #: None for any value.
    value: str | None = None
    #: Whether the label must not be there. It is not there either where the key has another value.
    negated: bool = False

    def __str__(self) -> str:
        if self.value is None:
            return f"{'!' if self.negated else ''}{self.key}"
        return f"{self.key}{'!=' if self.negated else '='}{self.value}"


class Selector(NamedTuple):
    """Requirements that must all be met."""

    requirements: tuple[Requirement, ...]

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))
