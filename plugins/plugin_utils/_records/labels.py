# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A selector of labels, as it was read."""

from __future__ import annotations

from typing import NamedTuple


class Requirement(NamedTuple):
    """A selector's requirement on a key: ``key=value``, ``key!=value``, ``key`` or ``!key``."""

    key: str
    #: None for any value.
    value: str | None = None
    #: True if the label must not exist. A key with another value meets this, too.
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
